"""Tables for tests: random ones, whole public domains, and pairs that attain sensitivities."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt import audit
from dpbt.data import domains
from dpbt.data.splits import satisfied_splits, table_of_splits
from dpbt.privacy import keys
from dpbt.types import ADD_REMOVE, REPLACE_ONE, Relation, Table


class Extreme(NamedTuple):
    """A pair of tables on which sensitivities are attained.

    Attributes:
        relation: the relation of the pair.
        settings: settings of the recipe that is run on it.
        neighbours: a table with one neighbour.
    """

    relation: Relation
    settings: dict[str, Any]
    neighbours: audit.Neighbours


def keys_of_seed(seed: int, table: Table) -> tuple[jax.Array, jax.Array]:
    """(noise, public): the keys of a fit on a table under a seed, by an estimator or a command."""
    noise, public = keys.noise_and_public_keys(seed)
    return keys.mix_rows_into_research_key(noise, [table]), public


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
    """Real features with labels that mostly follow a halfspace; some rows leave the unit ball."""
    rng = np.random.default_rng(seed)
    features = rng.normal(0, 0.7, (rows, splits)).astype(np.float32)
    label = (features[:, 0] > 0) ^ (rng.random(rows) < 0.1)
    present = np.ones(rows, bool)
    present[rng.choice(rows, absent, replace=False)] = False
    return Table(jnp.asarray(features), jnp.asarray(label), jnp.asarray(present))


def corner_rows(features: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows at both ends of every axis, on the unit sphere or far outside, with either label."""
    ends = np.concatenate([np.eye(features), -1000 * np.eye(features)]).astype(np.float32)
    return np.concatenate([ends, ends]), np.repeat([False, True], len(ends))


def pairs_with_a_lone_row(is_apart: bool = True, rows: int = 160) -> list[Extreme]:
    """Rows of one class, with and without a single row of the other class.

    All splits but the first set the single row apart from the others, or none does.
    """
    splits = 300
    satisfied = np.ones((rows, splits), bool)
    satisfied[-1, 1:] = not is_apart
    label = np.zeros(rows, bool)
    label[-1] = True
    table = table_of_splits(satisfied, label, np.ones(rows, bool))
    neighbours = audit.neighbours(table, ADD_REMOVE)
    settings = {"epsilon": 0.5, "rows": rows}
    removal = neighbours._replace(present=neighbours.present[-1:])
    return [Extreme(ADD_REMOVE, settings, removal)]


def padded_like(neighbours: audit.Neighbours, example: audit.Neighbours) -> audit.Neighbours:
    """The neighbours, padded to the shape of an example, so that one program audits both.

    Absent rows are added, and splits are repeated; exact numbers are followed by zeros.
    """
    bins, target, present = map(np.asarray, neighbours.table[:3])
    num_added, width = len(example.table.target) - len(target), example.table.bins.shape[1]
    if neighbours.table.splits is None:
        padded_bins = np.pad(bins, ((0, num_added), (0, width - bins.shape[1])))
    else:
        padded_bins = np.pad(np.resize(bins.T, (width, len(bins))).T, ((0, num_added), (0, 0)))
    target, present = np.pad(target, (0, num_added)), np.pad(present, (0, num_added))
    if neighbours.table.splits is None:
        table = Table(jnp.asarray(padded_bins), jnp.asarray(target), jnp.asarray(present))
    else:
        table = table_of_splits(padded_bins == 1, target, present)
    return audit.Neighbours(table, np.pad(neighbours.present, ((0, 0), (0, num_added))))


def _flip(table: Table, row: int) -> audit.Neighbours:
    """The one replacement of a row by itself with the other label."""
    bins, target = (np.asarray(array)[row : row + 1] for array in table[:2])
    return audit.neighbours(table, REPLACE_ONE, (bins, ~target), [(row, 0)])


def pairs_with_a_flipped_rule(splits: int = 300) -> list[Extreme]:
    """All literals are right on all rows until one row changes its label.

    Then the literals lose that row, and their negations gain it.
    """
    label = np.arange(160) % 2 == 0
    satisfied = np.repeat(label[:, None], splits, axis=1)
    table = table_of_splits(satisfied, label, np.ones(160, bool))
    return [Extreme(REPLACE_ONE, {"epsilon": 0.5, "rows": 160}, _flip(table, 0))]


def pairs_with_a_moved_row() -> list[Extreme]:
    """A pair for the splits and a pair for the labels of leaves.

    In the first, the only row of class 1 leaves where 300 splits single it out, and comes where one
    split does. In the second, a row changes its class in a leaf of one class.
    """
    rows, splits = 400, 301
    satisfied = np.zeros((rows + 1, splits), bool)
    satisfied[0, 1:] = True
    satisfied[rows, 0] = True
    label = np.zeros(rows + 1, bool)
    label[[0, rows]] = True
    table = table_of_splits(satisfied[:rows], label[:rows], np.ones(rows, bool))
    new_row = satisfied[rows:].astype(np.uint8), label[rows:]
    moved = audit.neighbours(table, REPLACE_ONE, new_row, [(0, 0)])
    halves = np.arange(rows) % 2 == 0
    halved = table_of_splits(
        np.repeat(halves[:, None], splits, axis=1), halves, np.ones(rows, bool)
    )
    flipped = _flip(halved, 1)
    settings = {"epsilon": 0.5, "rows": rows}
    return [Extreme(REPLACE_ONE, settings, moved), Extreme(REPLACE_ONE, settings, flipped)]


def pairs_with_a_flipped_corner() -> list[Extreme]:
    """A row on the unit sphere changes its label."""
    features = np.zeros((160, 4), np.float32)
    features[:, 0] = 1
    label = np.arange(160) % 2 == 0
    table = Table(jnp.asarray(features), jnp.asarray(label), jnp.ones(160, bool))
    return [Extreme(REPLACE_ONE, {"epsilon": 0.5, "rows": 160}, _flip(table, 0))]


def library_splits(domain, columns):
    """bool[N, S]: the splits of the library's table of these columns."""
    labels = [True] * len(next(iter(columns.values())))
    return np.asarray(
        satisfied_splits(dpbt.table(domain, columns, labels, negative="0", positive="1"))
    )
