"""Tables to test on: random ones of every kind, whole public domains, and pairs that attain
sensitivities.
"""

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt import audit
from dpbt.data import domains
from dpbt.data.splits import satisfied_splits, table_of_splits
from dpbt.privacy import keys
from dpbt.types import ADD_REMOVE, REPLACE_ONE, Relation, Table

Extreme = tuple[Relation, dict, audit.Neighbours]
"""A relation, settings of a recipe, and a table with one neighbour."""


def keys_of_seed(seed: int, table: Table) -> tuple[jax.Array, jax.Array]:
    """(noise, public): the keys of a fit on a table under a seed, by an estimator or a command."""
    noise, public = keys.noise_and_public_keys(seed)
    return keys.noise_key_of_table(noise, [table]), public


def random_table(seed: int, rows: int, splits: int, absent: int = 0) -> Table:
    """A table whose label depends on its first splits."""
    rng = np.random.default_rng(seed)
    satisfied = rng.random((rows, splits)) < rng.uniform(0.2, 0.8, splits)
    label = (satisfied[:, 0] & satisfied[:, 1 % splits]) ^ (rng.random(rows) < 0.2)
    present = np.ones(rows, bool)
    present[rng.choice(rows, absent, replace=False)] = False
    return table_of_splits(satisfied, label, present)


def with_allowed_splits(table: Table, allowed: np.ndarray) -> Table:
    """The table with a choice of the splits that are allowed, bool[S]."""
    splits = table.splits._replace(allowed=jnp.asarray(allowed))
    return table._replace(splits=splits)


def every_boolean_row(splits: int) -> tuple[np.ndarray, np.ndarray]:
    """All rows of a domain of Boolean columns."""
    return audit.all_rows_of_domain({f"x{k}": domains.Boolean() for k in range(splits)})


def random_features(seed: int, rows: int, splits: int, absent: int = 0) -> Table:
    """Real features, some rows outside the unit ball, with a label that a halfspace mostly
    gives.
    """
    rng = np.random.default_rng(seed)
    features = rng.normal(0, 0.7, (rows, splits)).astype(np.float32)
    label = (features[:, 0] > 0) ^ (rng.random(rows) < 0.1)
    present = np.ones(rows, bool)
    present[rng.choice(rows, absent, replace=False)] = False
    return Table(jnp.asarray(features), jnp.asarray(label), jnp.asarray(present))


def corner_rows(features: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows at both ends of every axis, with either label: half of them on the unit sphere, half far
    outside.
    """
    ends = np.concatenate([np.eye(features), -1000 * np.eye(features)]).astype(np.float32)
    return np.concatenate([ends, ends]), np.repeat([False, True], len(ends))


def pairs_with_a_lone_row(is_apart: bool = True, rows: int = 160) -> list[Extreme]:
    """One class and a row of the other, set apart by all splits but the first or by none; with and
    without it.
    """
    splits = 300
    satisfied = np.ones((rows, splits), bool)
    satisfied[-1, 1:] = not is_apart
    label = np.zeros(rows, bool)
    label[-1] = True
    table = table_of_splits(satisfied, label, np.ones(rows, bool))
    near = audit.neighbours(table, ADD_REMOVE)
    return [(ADD_REMOVE, {"epsilon": 0.5, "rows": rows}, near._replace(present=near.present[-1:]))]


def padded_like(near: audit.Neighbours, other: audit.Neighbours) -> audit.Neighbours:
    """The neighbours in the shape of others: with absent rows, and with splits over again.

    Exact numbers are followed by zeros. So both are audited by one program.
    """
    bins, target, present = map(np.asarray, near.table[:3])
    num_added, width = len(other.table.target) - len(target), other.table.bins.shape[1]
    if near.table.splits is None:
        wide = np.pad(bins, ((0, num_added), (0, width - bins.shape[1])))
    else:
        wide = np.pad(np.resize(bins.T, (width, len(bins))).T, ((0, num_added), (0, 0)))
    target, present = np.pad(target, (0, num_added)), np.pad(present, (0, num_added))
    if near.table.splits is None:
        table = Table(jnp.asarray(wide), jnp.asarray(target), jnp.asarray(present))
    else:
        table = table_of_splits(wide == 1, target, present)
    return audit.Neighbours(table, np.pad(near.present, ((0, 0), (0, num_added))))


def _flip(table: Table, row: int) -> audit.Neighbours:
    """The one replacement of a row by itself with the other label."""
    bins, target = (np.asarray(array)[row : row + 1] for array in table[:2])
    return audit.neighbours(table, REPLACE_ONE, (bins, ~target), [(row, 0)])


def pairs_with_a_flipped_rule(splits: int = 300) -> list[Extreme]:
    """All literals are right on all rows, until one row changes its label: they lose it, their
    negations gain it.
    """
    label = np.arange(160) % 2 == 0
    satisfied = np.repeat(label[:, None], splits, axis=1)
    table = table_of_splits(satisfied, label, np.ones(160, bool))
    return [(REPLACE_ONE, {"epsilon": 0.5, "rows": 160}, _flip(table, 0))]


def pairs_with_a_moved_row() -> list[Extreme]:
    """Two pairs. The only row of class 1 leaves where 300 splits single it out and comes where one
    split does.

    And a row changes class in a leaf of one class, for the labels.
    """
    rows, splits = 400, 301
    satisfied = np.zeros((rows + 1, splits), bool)
    satisfied[0, 1:] = True
    satisfied[rows, 0] = True
    label = np.zeros(rows + 1, bool)
    label[[0, rows]] = True
    table = table_of_splits(satisfied[:rows], label[:rows], np.ones(rows, bool))
    came = satisfied[rows:].astype(np.uint8), label[rows:]
    moved = audit.neighbours(table, REPLACE_ONE, came, [(0, 0)])
    halves = np.arange(rows) % 2 == 0
    halved = table_of_splits(
        np.repeat(halves[:, None], splits, axis=1), halves, np.ones(rows, bool)
    )
    flipped = _flip(halved, 1)
    settings = {"epsilon": 0.5, "rows": rows}
    return [(REPLACE_ONE, settings, moved), (REPLACE_ONE, settings, flipped)]


def pairs_with_a_flipped_corner() -> list[Extreme]:
    """A row on the unit sphere changes its label."""
    features = np.zeros((160, 4), np.float32)
    features[:, 0] = 1
    label = np.arange(160) % 2 == 0
    table = Table(jnp.asarray(features), jnp.asarray(label), jnp.ones(160, bool))
    return [(REPLACE_ONE, {"epsilon": 0.5, "rows": 160}, _flip(table, 0))]


def library_splits(domain, columns):
    """bool[N, S]: the splits of the library's table of these columns."""
    labels = [True] * len(next(iter(columns.values())))
    return np.asarray(
        satisfied_splits(dpbt.table(domain, columns, labels, negative="0", positive="1"))
    )
