"""The table of all learners and calibrations. A new learner joins by one row; `test_contract.py` does the rest."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpbt import losses, recipes
from dpbt.base import Recipe


class Row(NamedTuple):
    """One learner under one calibration.

    Attributes:
        name: of the row.
        recipe: (relation, **settings) -> Recipe; settings are epsilon, rows, rounds, depth.
        rescale: (budget, factor) -> the same budget with every noise scale multiplied by the factor.
        delta: of the guarantee; above 0, steps are judged by their zCDP cost.
        tight: whether every mechanism's sensitivity is attained to within 1 % (else only never exceeded).
        slow: leave the row to `make test-all`.
    """

    name: str
    recipe: Callable[..., Recipe]
    rescale: Callable[[Any, float], Any]
    tight: bool
    slow: bool = False
    delta: float = 0.0


def _rescale_tree(budget, factor: float):
    factor = np.float32(factor)
    return budget._replace(
        split_epsilon=budget.split_epsilon / factor,
        error_scale=budget.error_scale * factor,
        leaf_scale=budget.leaf_scale * factor,
    )


def _bdpe(**fixed) -> Callable[..., Recipe]:
    return lambda relation, **settings: recipes.bdpe(relation=relation, **{**fixed, **settings})


ROWS = [
    Row("bdpe-tight-objective", _bdpe(alpha="objective"), _rescale_tree, tight=True),
    Row("bdpe-tight-zcdp", _bdpe(alpha="objective", delta=1e-6), _rescale_tree, tight=True, delta=1e-6),
    Row("bdpe-tight-alpha", _bdpe(alpha=0.5), _rescale_tree, tight=True, slow=True),
    Row("bdpe-tight-gini", _bdpe(alpha=1.0, criterion=losses.square), _rescale_tree, tight=True, slow=True),
    Row("bdpe-tight-log", _bdpe(alpha=1.0, criterion=losses.log), _rescale_tree, tight=True, slow=True),
    Row("bdpe-tight-zero-one", _bdpe(alpha=1.0, criterion=losses.zero_one), _rescale_tree, tight=True, slow=True),
    Row("bdpe-published-objective", _bdpe(alpha="objective", calibration="published"), _rescale_tree, tight=False),
    Row("bdpe-published-alpha", _bdpe(alpha=0.5, calibration="published"), _rescale_tree, tight=False, slow=True),
    Row(
        "bdpe-published-gini",
        _bdpe(alpha=1.0, criterion=losses.square, calibration="published"),
        _rescale_tree,
        tight=False,
        slow=True,
    ),
]
