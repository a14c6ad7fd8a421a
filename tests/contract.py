"""The table of all learners and calibrations. A new learner joins by one row; `test_contract.py`
does the rest.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpbt import losses, recipes
from dpbt.base import Recipe, Table
from dpbt.data.domains import Boolean
from tests import tables


class Row(NamedTuple):
    """One learner under one calibration.

    Attributes:
        name: of the row.
        recipe: (relation, **settings) -> Recipe; settings are epsilon, rows, rounds, depth.
        rescale: (budget, factor) -> the same budget with every noise scale multiplied by the
            factor.
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
        sampler_epsilon: where the samplers' noise shows: 8 for tight rows, 40 for published ones by
            default.
    """

    name: str
    recipe: Callable[..., Recipe]
    rescale: Callable[[Any, float], Any]
    tight: bool
    slow: bool = False
    delta: float = 0.0
    table: Callable[..., Table] = tables.random_table
    candidates: Callable[[int], tuple[np.ndarray, np.ndarray]] = tables.every_pattern
    extreme: Callable[[], list[tables.Extreme]] = tables.lone_row
    attained: float = 0.99
    sites: tuple[str, ...] | None = None
    sampler_epsilon: float | None = None
    sampled: bool = True


def _rescale_tree(budget, factor: float):
    factor = np.float32(factor)
    return budget._replace(
        split_epsilon=budget.split_epsilon / factor,
        error_scale=budget.error_scale * factor,
        leaf_scale=budget.leaf_scale * factor,
    )


def _bdpe(**fixed) -> Callable[..., Recipe]:
    return lambda relation, **settings: recipes.bdpe(relation=relation, **{**fixed, **settings})


def _rescale_forest(budget, factor: float):
    return budget._replace(leaf_scale=budget.leaf_scale * np.float32(factor))


def _forest(
    name: str, make: Callable[..., Recipe], tight: bool = True, slow: bool = False, **fixed
) -> Row:
    def recipe(relation, **settings):
        return make(relation=relation, **{**settings, **fixed})

    # Labels: the rarer class is not so rare that it is at the floor of the selection.
    labels = make is recipes.rf_e
    extreme = functools.partial(tables.lone_row, apart=not labels, rows=60 if labels else 160)
    common = {"delta": fixed.get("delta", 0.0), "sites": ("leaf",), "extreme": extreme}
    sure = (
        2.0 if make is recipes.rf_e else None
    )  # labels that hardly ever flip would tell little about their noise
    return Row(name, recipe, _rescale_forest, tight, slow, sampler_epsilon=sure, **common)


FORESTS = [
    _forest("forest-published", recipes.random_forest, slow=True, calibration="published"),
    _forest("forest-tight", recipes.random_forest),
    _forest("forest-zcdp", recipes.random_forest, slow=True, delta=1e-6),
    _forest("forest-disjoint", recipes.random_forest, rounds=3, disjoint=True),
    _forest(
        "forest-disjoint-zcdp",
        recipes.random_forest,
        slow=True,
        rounds=3,
        disjoint=True,
        delta=1e-6,
    ),
    _forest("forest-uniform", recipes.random_forest, slow=True, negative="uniform"),
    _forest(
        "forest-published-zero",
        recipes.random_forest,
        slow=True,
        calibration="published",
        negative="zero",
    ),
    _forest("rf-l-published", recipes.rf_l, tight=False, slow=True, calibration="published"),
    _forest("rf-l-tight", recipes.rf_l, slow=True),
    _forest("rf-l-zcdp", recipes.rf_l, slow=True, delta=1e-6),
    _forest("rf-l-disjoint", recipes.rf_l, slow=True, rounds=3, disjoint=True),
    _forest("rf-e-published", recipes.rf_e, tight=False, slow=True, calibration="published"),
    _forest("rf-e-tight", recipes.rf_e),
    _forest("rf-e-zcdp", recipes.rf_e, slow=True, delta=1e-6),
    _forest("rf-e-disjoint", recipes.rf_e, slow=True, rounds=3, disjoint=True),
    _forest("rf-e-disjoint-zcdp", recipes.rf_e, slow=True, rounds=3, disjoint=True, delta=1e-6),
]


def _rescale_rule(budget, factor: float):
    return budget._replace(rule_scale=budget.rule_scale * np.float32(factor))


def _rescale_top_down(budget, factor: float):
    factor = np.float32(factor)
    return budget._replace(
        split_epsilon=budget.split_epsilon / factor, leaf_scale=budget.leaf_scale * factor
    )


def _rescale_center(budget, factor: float):
    return budget._replace(sigma=budget.sigma * np.float32(factor))


def _rules(**fixed) -> Callable[..., Recipe]:
    return lambda relation, depth, **settings: recipes.lazybb_rules(
        relation=relation, **{**fixed, **settings}
    )


def _top_down(**fixed) -> Callable[..., Recipe]:
    return lambda relation, depth, **settings: recipes.lazybb_trees(
        relation=relation, splits=2**depth - 2, depth=depth, **{**fixed, **settings}
    )


def _halfspaces(**fixed) -> Callable[..., Recipe]:
    return lambda relation, depth, **settings: recipes.halfspace_boost(
        relation=relation, **{**fixed, **settings}
    )


def _rule_row(name: str, tight: bool = True, **rest) -> Row:
    fixed = {key: rest.pop(key) for key in ("selection", "delta") if key in rest}
    recipe = _rules(calibration="tight" if tight else "published", **fixed)
    delta = fixed.get("delta", 0.0)
    common = {
        "sites": ("rule",),
        "extreme": tables.flipped_rule,
        "sampler_epsilon": 3.0 if tight else 20.0,
    }
    return Row(name, recipe, _rescale_rule, tight, delta=delta, **{**common, **rest})


def _tree_row(name: str, tight: bool = True, **rest) -> Row:
    fixed = {key: rest.pop(key) for key in ("criterion", "delta") if key in rest}
    recipe = _top_down(calibration="tight" if tight else "published", **fixed)
    common = {
        "sites": ("split", "leaf"),
        "extreme": tables.moved_row,
        "sampler_epsilon": 16.0 if tight else 40.0,
    }
    return Row(
        name, recipe, _rescale_top_down, tight, delta=fixed.get("delta", 0.0), **{**common, **rest}
    )


def _halfspace_row(name: str, tight: bool, slow: bool = False) -> Row:
    return Row(
        name,
        _halfspaces(calibration="tight" if tight else "published", delta=1e-6),
        _rescale_center,
        tight,
        slow,
        delta=1e-6,
        table=tables.random_features,
        candidates=tables.corners,
        extreme=tables.flipped_corner,
        sites=("center",),
        sampler_epsilon=6.56,  # two thirds and six fifths of the noise are rounded to one grid
    )


THREE = {f"x{k}": Boolean() for k in range(3)}


def _rescale(names: tuple[str, ...], budget, factor: float):
    return budget._replace(**{name: getattr(budget, name) * np.float32(factor) for name in names})


_OBLIVIOUS_NOISE = {
    "sums": "sum_scale",
    "histogram": "histogram_scale",
    "scores": "score_scale",
}


def _oblivious_row(name: str, sites: tuple[str, ...], slow: bool = True, **fixed) -> Row:
    """Only the noise of `sites` is scaled: leaves follow that of sums, and scores the leaves."""

    def recipe(relation, **settings):
        return recipes.oblivious_boost(
            relation=relation, domain=THREE, mixes=(1, 2), **{**settings, **fixed}
        )

    return Row(
        name,
        recipe,
        functools.partial(_rescale, tuple(_OBLIVIOUS_NOISE[site] for site in sites)),
        tight=True,
        slow=slow,
        delta=fixed.get("delta", 0.0),
        extreme=tables.flipped_rule,
        sites=sites,
    )


_MARGINALS, _SCORES = {"marginals_share": 0.5}, {"scores_share": 0.5}
OBLIVIOUS = [
    _oblivious_row("oblivious", ("sums",), slow=False),
    _oblivious_row("oblivious-marginals", ("sums", "histogram"), **_MARGINALS),
    _oblivious_row("oblivious-gdp", ("sums", "histogram"), **_MARGINALS, delta=1e-6),
    _oblivious_row("oblivious-scores", ("scores",), **_SCORES),
    _oblivious_row("oblivious-scores-gdp", ("scores",), **_SCORES, delta=1e-6),
]


ROWS = [
    Row("bdpe-tight-objective", _bdpe(alpha="objective"), _rescale_tree, tight=True, sampled=False),
    Row(
        "bdpe-tight-zcdp",
        _bdpe(alpha="objective", delta=1e-6),
        _rescale_tree,
        tight=True,
        slow=True,
        delta=1e-6,
    ),
    Row("bdpe-tight-alpha", _bdpe(alpha=0.5), _rescale_tree, tight=True, slow=True),
    Row(
        "bdpe-tight-gini",
        _bdpe(alpha=1.0, criterion=losses.square),
        _rescale_tree,
        tight=True,
        slow=True,
    ),
    Row(
        "bdpe-tight-log",
        _bdpe(alpha=1.0, criterion=losses.log),
        _rescale_tree,
        tight=True,
        slow=True,
    ),
    Row(
        "bdpe-tight-zero-one",
        _bdpe(alpha=1.0, criterion=losses.zero_one),
        _rescale_tree,
        tight=True,
        slow=True,
    ),
    Row(
        "bdpe-published-objective",
        _bdpe(alpha="objective", calibration="published"),
        _rescale_tree,
        tight=False,
        slow=True,
    ),
    Row(
        "bdpe-published-alpha",
        _bdpe(alpha=0.5, calibration="published"),
        _rescale_tree,
        tight=False,
        slow=True,
    ),
    Row(
        "bdpe-published-gini",
        _bdpe(alpha=1.0, criterion=losses.square, calibration="published"),
        _rescale_tree,
        tight=False,
        slow=True,
    ),
    *FORESTS,
    *OBLIVIOUS,
    _rule_row("lazybb-rule"),
    _rule_row("lazybb-rule-zcdp", delta=1e-6, slow=True),
    _rule_row("lazybb-rule-noisy-max", selection="noisy_max", attained=0.9, slow=True),
    _rule_row("lazybb-rule-published", tight=False, slow=True),
    _rule_row("lazybb-rule-published-delta", tight=False, delta=1e-6, slow=True),
    _tree_row("lazybb-tree", slow=True),
    _tree_row("lazybb-tree-zcdp", delta=1e-6, slow=True),
    _tree_row("lazybb-tree-log", criterion=losses.log, slow=True),
    _tree_row("lazybb-tree-matsushita", criterion=losses.matsushita, slow=True),
    _tree_row("lazybb-tree-published", tight=False, slow=True),
    _halfspace_row("halfspace", tight=True),
    _halfspace_row("halfspace-published", tight=False, slow=True),
]
