"""Neighbours made of file rows: a line is a row. `test_contract.py` has what a line costs each
learner.
"""

import jax
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.analysis import audit
from dpbt.common.types import ADD_REMOVE, REPLACE_ONE
from dpbt.data import domains
from dpbt.data.domains import Boolean
from dpbt.data.splits import of_splits
from dpbt.data.tables import take
from tests import filerows

RELATIONS = {"add_remove": ADD_REMOVE, "replace_one": REPLACE_ONE}
ROUNDING = 2e-3
"""Log densities are exact formulas in float32."""


def bdpe(rows, relation):
    return recipes.bdpe(epsilon=1.0, rows=rows, rounds=3, depth=2, relation=relation)


def forest(rows, relation):
    return recipes.random_forest(epsilon=1.0, rows=rows, rounds=3, depth=2, relation=relation)


def rules(rows, relation):
    return recipes.lazybb_rules(epsilon=1.0, rows=rows, rounds=9, relation=relation)


LEARNERS = {"bdpe": bdpe, "forest": forest, "rules": rules}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("exact", [False, True], ids=["cells", "exact"])
def test_one_line_is_one_row(relation, exact):
    """Files that differ in a line give tables that differ in at most the row of that line."""
    changed = []
    for table, other in filerows.pairs(RELATIONS[relation], 0, exact):
        unlike = np.zeros(filerows.CAPACITY, bool)
        for here, there in zip(table[:3], other[:3], strict=True):
            differs = np.asarray(here) != np.asarray(there)
            unlike |= differs.reshape(filerows.CAPACITY, -1).any(axis=1)
        changed.append(int(unlike.sum()))
    assert set(changed) <= {0, 1}
    assert sum(changed) >= len(changed) / 2


def by_the_columns_type(values):
    """A Boolean column as the type of the whole column has it: text if some cell is no number."""
    array = np.asarray(values)
    if array.dtype.kind not in "bifu":
        array = np.asarray([str(value) == "1" for value in values])
    return array.astype(bool)[:, None]


def one_none(encode):
    """The tables of 200 Boolean rows without and with a row [None]."""
    rng = np.random.default_rng(0)
    values = rng.random(200) < 0.5
    label = np.append(values ^ (rng.random(200) < 0.1), False)
    without, more = encode(values.tolist()), encode([*values.tolist(), None])
    tables = []
    for splits, last in ((np.pad(without, ((0, 1), (0, 0))), False), (more, True)):
        present = np.append(np.ones(200, bool), last)
        tables.append(of_splits(splits.astype(bool), label, present))
    return tables


@pytest.mark.parametrize("learner", LEARNERS)
def test_one_none_costs_one_row(learner):
    """Where a column's type decides how its cells are read, it costs far more than the claim."""
    recipe = LEARNERS[learner](201, "add_remove")
    read = one_none(lambda values: domains.encode({"x": Boolean()}, {"x": values}))
    guessed = one_none(by_the_columns_type)
    key = jax.random.key(0)
    assert audit.pair_loss(key, *read, recipe, 10) <= dpbt.ledger(recipe).epsilon + ROUNDING
    assert audit.pair_loss(key, *guessed, recipe, 10) > 10 * dpbt.ledger(recipe).epsilon


def test_pair_losses_refuse_what_they_cannot_judge():
    table = filerows.read(filerows.plain_lines(0))
    recipe = bdpe(filerows.PLAIN - 1, "add_remove")
    with pytest.raises(ValueError, match="more rows than the recipe is for, 39"):
        audit.pair_loss(jax.random.key(0), table, table, recipe, 1)
    shorter = take(table, np.arange(filerows.CAPACITY - 1))
    with pytest.raises(ValueError, match="one shape"):
        audit.pair_loss(jax.random.key(0), table, shorter, recipe, 1)
