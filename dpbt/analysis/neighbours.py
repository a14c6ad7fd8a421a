"""Neighbours of a table: masks over one extended table, with the rows that may come in."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dpbt.base import ADD_REMOVE, NUMBER, REPLACE_ONE, Relation, Table
from dpbt.base import relation as to_relation
from dpbt.data import domains
from dpbt.data.domains import Domain
from dpbt.data.targets import Target, response_of
from dpbt.public import without_values
from dpbt.training.checks import check_table


class Neighbours(NamedTuple):
    """Neighbours of a table, as masks over one extended table.

    Attributes:
        table: the extended table. Its own `present` is the audited table's, and candidates are
            absent in it.
        present: bool[B, N + C], one mask for each neighbour.
    """

    table: Table
    present: np.ndarray

    __repr__ = without_values


def neighbours(
    table: Table,
    relation: str | Relation,
    candidates: tuple[np.ndarray, np.ndarray] | None = None,
    pairs: Sequence[tuple[int, int]] | None = None,
) -> Neighbours:
    """Every removal and addition (add/remove), or every replacement (replace-one).

    Args:
        table: N rows; only present ones can be removed or replaced.
        relation: the neighbouring relation.
        candidates: cells [C, F] and target [C], of the table's types, of the rows that may be
            added, or may replace a row. Without candidates there are only removals. `whole_domain`
            lists every row of a public domain. In a table of weights they have the largest.
        pairs: under replace-one, pairs of a row and the candidate that replaces it. By default
            every present row is replaced by every candidate.

    Raises:
        ValueError: if there are no neighbours (replacements without candidates, an empty table), or
            the candidates or the pairs do not fit the table.
    """
    check_table(table)
    relation = to_relation(relation)
    rows, features = table.cells.shape
    if candidates is None:
        candidates = np.zeros((0, features), table.cells.dtype), np.zeros(0, table.target.dtype)
    if not isinstance(candidates, tuple) or len(candidates) != 2:
        raise ValueError(
            "candidates must be a pair of arrays, cells and target, "
            f"got {type(candidates).__name__}"
        )
    extended = _extended(table, *map(np.asarray, candidates))
    here, count = np.flatnonzero(np.asarray(table.present)), len(candidates[0])

    if relation is ADD_REMOVE:
        moves = [(i,) for i in (*here, *range(rows, rows + count))]
    else:
        chosen = itertools.product(here, range(count)) if pairs is None else pairs
        moves = [(i, rows + j) for i, j in chosen]
        if not {i for i, _ in moves} <= set(here) or any(
            not rows <= j < rows + count for _, j in moves
        ):
            raise ValueError("pairs must hold the number of a present row and that of a candidate")
    if not moves:
        raise ValueError(
            "the table has no neighbours: no present row, or no candidate to put in its place"
        )

    masks = np.repeat(np.asarray(extended.present)[None], len(moves), axis=0)
    for mask, move in zip(masks, moves, strict=True):
        mask[list(move)] ^= True
    return Neighbours(extended, masks)


def _extended(table: Table, candidates: np.ndarray, labels: np.ndarray) -> Table:
    """The table, followed by the candidate rows, which are absent.

    Raises:
        ValueError: if the candidates do not fit the table.
    """
    cells, target, present = (np.asarray(array) for array in table[:3])
    features = cells.shape[1]
    fits = candidates.ndim == 2 and candidates.shape[1] == features
    same = candidates.dtype == cells.dtype and labels.dtype == target.dtype
    if not fits or not same or labels.shape != (len(candidates),):
        raise ValueError(
            f"candidates must be {cells.dtype}[C, {features}] and {target.dtype}[C], "
            f"got {candidates.dtype}{candidates.shape}, {labels.shape}"
        )
    weight = table.weight
    if weight is not None:  # candidates have the largest weight
        weight = jnp.asarray(np.concatenate([weight, np.ones(len(candidates), np.float32)]))
    return Table(
        jnp.asarray(np.concatenate([cells, candidates])),
        jnp.asarray(np.concatenate([target, labels])),
        jnp.asarray(np.concatenate([present, np.zeros(len(candidates), bool)])),
        table.questions,
        weight,
        table.declared,
    )


def whole_domain(
    domain: Domain, limit: int = 10_000, target: Target | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Every row that a public domain admits, with every label: cells u8[C, F] and target [C].

    Args:
        domain: the public domain.
        limit: the most rows.
        target: the declared classes or range; None for two classes. Of a range both ends are
            listed, and its middle.

    Raises:
        ValueError: if there are more than `limit`, and as `domains.check` and `targets.check`.
    """
    domains.check(domain)
    labels = labels_of(target)
    counts = [column.cells for column in domain.values()]
    rows = len(labels) * math.prod(counts)
    if rows > limit:
        raise ValueError(f"the domain admits {rows} rows, more than the limit of {limit}")
    cells = np.array(list(itertools.product(*map(range, counts))), np.uint8)
    return np.tile(cells, (len(labels), 1)), np.repeat(labels, len(cells))


def labels_of(target: Target | None) -> np.ndarray:
    """Labels that neighbours may have, as `Table.target`: all classes, or three numbers."""
    response = response_of(target)
    if response == NUMBER:
        return np.array([0.0, 0.5, 1.0], np.float32)
    return np.arange(response.classes).astype(response.dtype)


def label_flips(table: Table) -> Neighbours:
    """The replacements of each present row by the same row with the opposite label.

    It needs no domain.

    Raises:
        ValueError: for a table of anything but two classes, and as `neighbours`.
    """
    check_table(table)
    if np.asarray(table.target).dtype != bool:
        raise ValueError("labels are flipped between two classes, and the table has others")
    here = np.flatnonzero(np.asarray(table.present))
    candidates = np.asarray(table.cells)[here], ~np.asarray(table.target)[here]
    return neighbours(table, REPLACE_ONE, candidates, [(int(i), j) for j, i in enumerate(here)])
