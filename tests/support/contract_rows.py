"""The table of all learners and calibrations. A new learner joins by one row; `test_contract.py`
does the rest.
"""

import functools
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dpbt import losses, recipes
from dpbt.data.domains import Boolean
from dpbt.types import Recipe, Table
from tests.support import example_tables, file_neighbours


class Row(NamedTuple):
    """One learner under one calibration.

    Attributes:
        name: of the row.
        recipe: (relation, **settings) -> Recipe; settings are epsilon, rows, rounds, depth.
        delta: of the guarantee; above 0, steps are judged by their zCDP cost.
        tight: whether every mechanism's sensitivity is attained to within 1 % (else only never
            exceeded).
        slow: leave the row to `make test-all`.
        table: (seed, rows, splits, absent) -> a random table of the kind it reads.
        candidates: (splits) -> rows that may come in; the whole public domain, where that is
            finite.
        extreme: () -> list of (relation, settings, neighbours): pairs of tables on which
            sensitivities are attained.
        attained: which share of its claim a step then costs, at least.
        sites: beginnings of site names, each of which must attain its claim and must reject a wrong
            noise; None: as mechanisms attain theirs, and "leaf" and "split" reject.
        sampled: whether `make test` compares samples with densities; `make test-all` does for all.
        of_file: options of the recipe for rows of the domain of `file_neighbours`, if it is made
            for one.
        sampler_epsilon: where the samplers' noise shows: 8 for tight rows, 40 for published ones by
            default.
    """

    name: str
    recipe: Callable[..., Recipe]
    tight: bool
    slow: bool = False
    delta: float = 0.0
    table: Callable[..., Table] = example_tables.random_table
    candidates: Callable[[int], tuple[np.ndarray, np.ndarray]] = example_tables.every_pattern
    extreme: Callable[[], list[example_tables.Extreme]] = example_tables.lone_row
    attained: float = 0.99
    sites: tuple[str, ...] | None = None
    sampler_epsilon: float | None = None
    sampled: bool = False
    of_file: Mapping[str, Any] = {}

    def rescale(self, budget, factor: float):
        """The budget with the noise of these sites multiplied by a factor; of all without sites."""
        wanted = self.sites or tuple(budget.noise)
        noise = {
            site: multiplier * np.float32(factor) if site.startswith(wanted) else multiplier
            for site, multiplier in budget.noise.items()
        }
        return budget._replace(noise=noise)


def _recipe(make: Callable[..., Recipe], *without: str, **fixed) -> Callable[..., Recipe]:
    """(relation, **settings) -> the recipe, without some settings and with fixed ones."""

    def recipe(relation, of_file=types.MappingProxyType({}), **settings):
        given = {name: value for name, value in settings.items() if name not in without}
        return make(relation=relation, **{**given, **fixed, **of_file})

    return recipe


def _calibration(name: str) -> dict[str, str]:
    return {"calibration": "published"} if "published" in name else {}


def _delta(name: str) -> float:
    return 1e-6 if {"zcdp", "gdp", "delta"} & set(name.split("-")) else 0.0


def _greedy(name: str, slow: bool = True, **fixed) -> Row:
    delta = {"delta": _delta(name)}
    recipe = _recipe(recipes.bdpe, **_calibration(name), **fixed, **delta)
    return Row(name, recipe, "tight" in name, slow, **delta)


def _forest(name: str, slow: bool = True, **fixed) -> Row:
    """Labels: the rarer class is not so rare that it is at the floor of the selection."""
    makers = {"rf-l": recipes.rf_l, "rf-e": recipes.rf_e}
    make = makers.get(name[:4], recipes.random_forest)
    labels, delta = make is recipes.rf_e, {"delta": _delta(name)}
    disjoint = {"rounds": 3, "disjoint": True} if "disjoint" in name else {}
    extreme = functools.partial(
        example_tables.lone_row, apart=not labels, rows=60 if labels else 160
    )
    return Row(
        name,
        _recipe(make, **_calibration(name), **disjoint, **fixed, **delta),
        tight=make is recipes.random_forest or "published" not in name,
        slow=slow,
        # Labels that hardly ever flip would tell little about their noise.
        sampler_epsilon=2.0 if labels else None,
        sites=("leaf",),
        extreme=extreme,
        sampled=name == "forest-tight",
        **delta,
    )


FORESTS = [
    _forest("forest-published"),
    _forest("forest-tight", slow=False),
    _forest("forest-zcdp"),
    _forest("forest-disjoint"),
    _forest("forest-disjoint-zcdp"),
    _forest("rf-l-published"),  # the tight one is the program of random_forest
    _forest("rf-e-published"),
    _forest("rf-e-tight"),
    *(_forest(f"rf-e-{kind}") for kind in ("zcdp", "disjoint", "disjoint-zcdp")),
]


def _rule(name: str, slow: bool = True, attained: float = 0.99, **fixed) -> Row:
    delta, tight = {"delta": _delta(name)}, "published" not in name
    return Row(
        name,
        _recipe(recipes.lazybb_rules, "depth", **_calibration(name), **fixed, **delta),
        tight,
        slow,
        sites=("rule",),
        extreme=example_tables.flipped_rule,
        sampler_epsilon=3.0 if tight else 20.0,
        attained=attained,
        sampled=name == "lazybb-rule",
        **delta,
    )


def _top_down(name: str, **fixed) -> Row:
    delta, tight = {"delta": _delta(name)}, "published" not in name

    def recipe(relation, depth, **settings):
        common = {**_calibration(name), **fixed, **delta, **settings}
        return recipes.lazybb_trees(relation=relation, splits=2**depth - 2, depth=depth, **common)

    return Row(
        name,
        recipe,
        tight,
        slow=True,
        sites=("split", "leaf"),
        extreme=example_tables.moved_row,
        sampler_epsilon=16.0 if tight else 40.0,
        **delta,
    )


def _halfspace(name: str, slow: bool = True) -> Row:
    return Row(
        name,
        _recipe(recipes.halfspace_boost, "depth", **_calibration(name), delta=1e-6),
        "published" not in name,
        slow,
        delta=1e-6,
        table=example_tables.random_features,
        candidates=example_tables.corners,
        extreme=example_tables.flipped_corner,
        sites=("center",),
        sampler_epsilon=6.56,  # two thirds and six fifths of the noise are rounded to one grid
    )


THREE = {f"x{k}": Boolean() for k in range(3)}
OF_FILE = {"domain": file_neighbours.DOMAIN}
THREE_ALIKE = functools.partial(example_tables.flipped_rule, splits=3)


def _oblivious(name: str, sites: tuple[str, ...], slow: bool = True, **fixed) -> Row:
    """Only the noise of `sites` is scaled: leaves follow that of sums, and scores the leaves."""
    delta = {"delta": _delta(name)}
    return Row(
        name,
        _recipe(
            recipes.oblivious_boost, domain=THREE, attributes_per_tree=(1, 2), **fixed, **delta
        ),
        tight=True,
        slow=slow,
        extreme=THREE_ALIKE,
        sites=sites,
        of_file=OF_FILE,
        **delta,
    )


def _additive(name: str, slow: bool = True, **fixed) -> Row:
    """Without scores by class, as steps follow the noise of sums, and scores the steps."""
    delta, make = {"delta": _delta(name)}, functools.partial(recipes.additive, domain=THREE)
    recipe = _recipe(make, "depth", scores_fraction=0.0, **fixed, **delta)
    of_file = {**OF_FILE, "pairs": (("age", "job"),)} if "pairs" in fixed else OF_FILE
    more = {"extreme": THREE_ALIKE, "sites": ("bins",), "of_file": of_file}
    return Row(name, recipe, True, slow, **more, **delta)


_MARGINALS, _SCORES = {"marginals_fraction": 0.5}, {"scores_fraction": 0.5}
ROWS = [
    _greedy("bdpe-tight-objective", slow=False, alpha="objective"),
    _greedy("bdpe-tight-zcdp", alpha="objective"),
    _greedy("bdpe-tight-alpha", alpha=0.5),
    _greedy("bdpe-tight-gini", alpha=1.0, criterion=losses.square),
    _greedy("bdpe-tight-log", alpha=1.0, criterion=losses.log),
    _greedy("bdpe-tight-zero-one", alpha=1.0, criterion=losses.zero_one),
    _greedy("bdpe-published-objective", alpha="objective"),
    _greedy("bdpe-published-alpha", alpha=0.5),
    _greedy("bdpe-published-gini", alpha=1.0, criterion=losses.square),
    *FORESTS,
    _oblivious("oblivious", ("sums",), slow=False),
    _oblivious("oblivious-marginals", ("sums", "histogram"), **_MARGINALS),
    _oblivious("oblivious-gdp", ("sums", "histogram"), **_MARGINALS),
    _oblivious("oblivious-scores", ("scores",), **_SCORES),
    _oblivious("oblivious-scores-gdp", ("scores",), **_SCORES),
    _additive("additive", slow=False, resolutions=(2, 4)),
    _additive("additive-gdp", resolutions=(2, 4)),
    _additive("additive-pairs-gdp", resolutions=(2, 4), pairs=(("x0", "x2"),)),
    _rule("lazybb-rule", slow=False),
    _rule("lazybb-rule-zcdp"),
    _rule("lazybb-rule-published"),
    _rule("lazybb-rule-published-delta"),
    _top_down("lazybb-tree"),
    _top_down("lazybb-tree-zcdp"),
    _top_down("lazybb-tree-log", criterion=losses.log),
    _top_down("lazybb-tree-matsushita", criterion=losses.matsushita),
    _top_down("lazybb-tree-published"),
    _halfspace("halfspace", slow=False),
    _halfspace("halfspace-published"),
]
