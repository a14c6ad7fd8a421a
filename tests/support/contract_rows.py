"""The table of all learners and calibrations: a new learner joins by one row.

`test_contract.py` audits every row.
"""

import functools
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpbt import losses, recipes
from dpbt.data.domains import Boolean
from dpbt.types import Recipe, Table
from tests.support import example_tables, file_neighbours


@dataclass(frozen=True, kw_only=True)
class Row:
    """One learner under one calibration.

    Attributes:
        name: The name of the row. Nothing is read off it.
        recipe: Makes the recipe from (relation, **settings). The settings are epsilon, rows,
            rounds and depth.
        delta: The delta of the guarantee. Above 0, steps are judged by their zCDP cost.
        tight: Whether every mechanism's sensitivity is attained to within 1 %; otherwise it is
            only never exceeded.
        slow: Whether only `make test-all` audits the row. One row of each family is fast.
        table: Makes a random table of the kind that the learner reads from (seed, rows, splits,
            absent).
        candidates: Lists, for a number of splits, the rows that may come in: the whole public
            domain, where that is finite.
        extreme: Lists (relation, settings, neighbours): pairs of tables on which sensitivities are
            attained.
        attained: The least share of its claim that a step then costs.
        sites: The beginnings of the names of sites, each of which must attain its claim and must
            reject a wrong noise. If None, each mechanism must attain its claim, and "leaf" and
            "split" must reject.
        of_file: Further options of the recipe, with which it reads rows of the domain of
            `file_neighbours`.
        sampler_epsilon: An epsilon at which the samplers' noise shows. If None, it is 8 for tight
            rows and 40 for published ones.
    """

    name: str
    recipe: Callable[..., Recipe]
    tight: bool
    delta: float
    slow: bool
    table: Callable[..., Table] = example_tables.random_table
    candidates: Callable[[int], tuple[np.ndarray, np.ndarray]] = example_tables.every_boolean_row
    extreme: Callable[[], list[example_tables.Extreme]] = example_tables.pairs_with_a_lone_row
    attained: float = 0.99
    sites: tuple[str, ...] | None = None
    sampler_epsilon: float | None = None
    of_file: Mapping[str, Any] = field(default_factory=dict)

    def scale_noise(self, params, factor: float):
        """The params with the noise of the row's sites, or of all sites, multiplied by a factor."""
        prefixes = self.sites or tuple(params.noise)
        noise = {
            site: multiplier * np.float32(factor) if site.startswith(prefixes) else multiplier
            for site, multiplier in params.noise.items()
        }
        return params._replace(noise=noise)


def _recipe_maker(make: Callable[..., Recipe], *without: str, **fixed) -> Callable[..., Recipe]:
    """(relation, **settings) -> the recipe, without some settings and with fixed options."""

    def make_recipe(relation, of_file=types.MappingProxyType({}), **settings):
        used = {name: value for name, value in settings.items() if name not in without}
        return make(relation=relation, **{**used, **fixed, **of_file})

    return make_recipe


DELTA = 1e-6
"""The delta of rows whose guarantee has one."""

TIGHT = "tight"
"""The calibration of proved sensitivities, which recipes have by default."""

PUBLISHED = "published"
"""The calibration of a paper's constants."""


def _greedy_trees(
    name: str, *, calibration: str = TIGHT, delta: float = 0.0, slow: bool = True, **options
) -> Row:
    return Row(
        name=name,
        recipe=_recipe_maker(recipes.bdpe, delta=delta, calibration=calibration, **options),
        tight=calibration == TIGHT,
        delta=delta,
        slow=slow,
    )


def _forest(
    name: str,
    make: Callable[..., Recipe] = recipes.random_forest,
    *,
    calibration: str = TIGHT,
    delta: float = 0.0,
    slow: bool = True,
    **options,
) -> Row:
    """A forest. With labels, the rarer class is not so rare that it is at the selection's floor."""
    has_labels = make is recipes.rf_e
    return Row(
        name=name,
        recipe=_recipe_maker(make, delta=delta, calibration=calibration, **options),
        tight=make is recipes.random_forest or calibration == TIGHT,
        delta=delta,
        slow=slow,
        extreme=functools.partial(
            example_tables.pairs_with_a_lone_row,
            is_apart=not has_labels,
            rows=60 if has_labels else 160,
        ),
        sites=("leaf",),
        # Labels that hardly ever flip would tell little about their noise.
        sampler_epsilon=2.0 if has_labels else None,
    )


def _rules(name: str, *, calibration: str = TIGHT, delta: float = 0.0, slow: bool = True) -> Row:
    maker = _recipe_maker(recipes.lazybb_rules, "depth", delta=delta, calibration=calibration)
    return Row(
        name=name,
        recipe=maker,
        tight=calibration == TIGHT,
        delta=delta,
        slow=slow,
        extreme=example_tables.pairs_with_a_flipped_rule,
        sites=("rule",),
        sampler_epsilon=3.0 if calibration == TIGHT else 20.0,
    )


def _top_down_trees(name: str, *, calibration: str = TIGHT, delta: float = 0.0, **options) -> Row:
    def make_recipe(relation, depth, **settings):
        fixed = {"calibration": calibration, "delta": delta, "splits": 2**depth - 2, **options}
        return recipes.lazybb_trees(relation=relation, depth=depth, **fixed, **settings)

    return Row(
        name=name,
        recipe=make_recipe,
        tight=calibration == TIGHT,
        delta=delta,
        slow=True,
        extreme=example_tables.pairs_with_a_moved_row,
        sites=("split", "leaf"),
        sampler_epsilon=16.0 if calibration == TIGHT else 40.0,
    )


def _halfspaces(name: str, *, calibration: str = TIGHT, slow: bool = True) -> Row:
    maker = _recipe_maker(recipes.halfspace_boost, "depth", delta=DELTA, calibration=calibration)
    return Row(
        name=name,
        recipe=maker,
        tight=calibration == TIGHT,
        delta=DELTA,
        slow=slow,
        table=example_tables.random_features,
        candidates=example_tables.corner_rows,
        extreme=example_tables.pairs_with_a_flipped_corner,
        sites=("center",),
        sampler_epsilon=6.56,  # two thirds and six fifths of the noise are rounded to one grid
    )


THREE = {f"x{k}": Boolean() for k in range(3)}
"""A domain of three Boolean columns."""

_OF_FILE = {"domain": file_neighbours.DOMAIN}
_flipped_rule_of_three = functools.partial(example_tables.pairs_with_a_flipped_rule, splits=3)


def _oblivious_trees(
    name: str, *, sites: tuple[str, ...], delta: float = 0.0, slow: bool = True, **options
) -> Row:
    """Only the noise of `sites` is scaled: leaves follow that of sums, and scores the leaves."""
    fixed = {"domain": THREE, "attributes_per_tree": (1, 2), "delta": delta}
    return Row(
        name=name,
        recipe=_recipe_maker(recipes.oblivious_boost, **fixed, **options),
        tight=True,
        delta=delta,
        slow=slow,
        extreme=_flipped_rule_of_three,
        sites=sites,
        of_file=_OF_FILE,
    )


def _additive(name: str, *, delta: float = 0.0, slow: bool = True, **options) -> Row:
    """Without scores by class, since steps follow the noise of sums, and scores the steps."""
    fixed = {"domain": THREE, "resolutions": (2, 4), "scores_fraction": 0.0, "delta": delta}
    pairs_of_file = {"pairs": (("age", "job"),)} if "pairs" in options else {}
    return Row(
        name=name,
        recipe=_recipe_maker(recipes.additive, "depth", **fixed, **options),
        tight=True,
        delta=delta,
        slow=slow,
        extreme=_flipped_rule_of_three,
        sites=("bins",),
        of_file={**_OF_FILE, **pairs_of_file},
    )


_PUBLISHED: Any = {"calibration": PUBLISHED}
_DELTA: Any = {"delta": DELTA}
_FAST: Any = {"slow": False}
_MARGINALS, _SCORES = {"marginals_fraction": 0.5}, {"scores_fraction": 0.5}
_DISJOINT = {"rounds": 3, "disjoint": True}
ROWS = [
    _greedy_trees("bdpe-tight-objective", alpha="objective", **_FAST),
    _greedy_trees("bdpe-tight-zcdp", alpha="objective", **_DELTA),
    _greedy_trees("bdpe-tight-alpha", alpha=0.5),
    _greedy_trees("bdpe-tight-gini", alpha=1.0, criterion=losses.square),
    _greedy_trees("bdpe-tight-log", alpha=1.0, criterion=losses.log),
    _greedy_trees("bdpe-tight-zero-one", alpha=1.0, criterion=losses.zero_one),
    _greedy_trees("bdpe-published-objective", alpha="objective", **_PUBLISHED),
    _greedy_trees("bdpe-published-alpha", alpha=0.5, **_PUBLISHED),
    _greedy_trees("bdpe-published-gini", alpha=1.0, criterion=losses.square, **_PUBLISHED),
    _forest("forest-published", **_PUBLISHED),
    _forest("forest-tight", **_FAST),
    _forest("forest-zcdp", **_DELTA),
    _forest("forest-disjoint", **_DISJOINT),
    _forest("forest-disjoint-zcdp", **_DISJOINT, **_DELTA),
    _forest("rf-l-published", recipes.rf_l, **_PUBLISHED),  # tight, it is random_forest
    _forest("rf-e-published", recipes.rf_e, **_PUBLISHED),
    _forest("rf-e-tight", recipes.rf_e),
    _forest("rf-e-zcdp", recipes.rf_e, **_DELTA),
    _forest("rf-e-disjoint", recipes.rf_e, **_DISJOINT),
    _forest("rf-e-disjoint-zcdp", recipes.rf_e, **_DISJOINT, **_DELTA),
    _oblivious_trees("oblivious", sites=("sums",), **_FAST),
    _oblivious_trees("oblivious-marginals", sites=("sums", "histogram"), **_MARGINALS),
    _oblivious_trees("oblivious-gdp", sites=("sums", "histogram"), **_MARGINALS, **_DELTA),
    _oblivious_trees("oblivious-scores", sites=("scores",), **_SCORES),
    _oblivious_trees("oblivious-scores-gdp", sites=("scores",), **_SCORES, **_DELTA),
    _additive("additive", **_FAST),
    _additive("additive-gdp", **_DELTA),
    _additive("additive-pairs-gdp", pairs=(("x0", "x2"),), **_DELTA),
    _rules("lazybb-rule", **_FAST),
    _rules("lazybb-rule-zcdp", **_DELTA),
    _rules("lazybb-rule-published", **_PUBLISHED),
    _rules("lazybb-rule-published-delta", **_PUBLISHED, **_DELTA),
    _top_down_trees("lazybb-tree"),
    _top_down_trees("lazybb-tree-zcdp", **_DELTA),
    _top_down_trees("lazybb-tree-log", criterion=losses.log),
    _top_down_trees("lazybb-tree-matsushita", criterion=losses.matsushita),
    _top_down_trees("lazybb-tree-published", **_PUBLISHED),
    _halfspaces("halfspace", **_FAST),
    _halfspaces("halfspace-published", **_PUBLISHED),
]
