"""Neighbours of a table, and the rows of a public domain that they may gain.

Every neighbour is a mask over one extended table: the table's rows, then candidate rows that are
absent. So all neighbours share their splits, and one vmapped program compares them all.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dpbt import types
from dpbt.data import domains
from dpbt.data.column_types import Target, response_of_target
from dpbt.data.domains import Domain
from dpbt.public_types import redacted_repr
from dpbt.training.checks import check_table
from dpbt.types import Relation, Table


class Neighbours(NamedTuple):
    """The neighbours of a table, as masks over one extended table.

    Attributes:
        table: the extended table. Its own `present` is the audited table's, and candidates are
            absent in it.
        present: bool[B, N + C], one mask for each neighbour.
    """

    table: Table
    present: np.ndarray

    __repr__ = redacted_repr


def neighbours(
    table: Table,
    relation: str | Relation,
    candidates: tuple[np.ndarray, np.ndarray] | None = None,
    pairs: Sequence[tuple[int, int]] | None = None,
) -> Neighbours:
    """List the neighbours of a table: all removals and additions, or all replacements of a row.

    Args:
        table: N rows; only present ones can be removed or replaced.
        relation: the neighbouring relation.
        candidates: bins [C, F] and target [C], of the table's types, of the rows that may be
            added, or may replace a row. Without candidates there are only removals.
            `all_rows_of_domain` lists every row of a public domain. In a table of weights
            candidates have the largest weight.
        pairs: under replace-one, pairs of a row and the candidate that replaces it. By default
            every present row is replaced by every candidate.

    Raises:
        ValueError: if there are no neighbours (replacements without candidates, an empty table), or
            the candidates or the pairs do not fit the table.
    """
    check_table(table)
    relation = types.as_relation(relation)
    num_rows, features = table.bins.shape
    if candidates is None:
        candidates = np.zeros((0, features), table.bins.dtype), np.zeros(0, table.target.dtype)
    bins, labels = map(np.asarray, candidates)
    has_types = bins.dtype == table.bins.dtype and labels.dtype == table.target.dtype
    if not has_types or labels.ndim != 1 or bins.shape != (len(labels), features):
        raise ValueError(
            f"candidates must be {table.bins.dtype}[C, {features}] and {table.target.dtype}[C], "
            f"got {bins.dtype}{bins.shape}, {labels.shape}"
        )
    extended = _append_rows_marked_absent(table, bins, labels)

    # The rows whose presence differs, of each neighbour.
    present_rows = np.flatnonzero(np.asarray(table.present))
    num_candidates = len(labels)
    if relation is types.ADD_REMOVE:
        flips = [(i,) for i in (*present_rows, *range(num_rows, num_rows + num_candidates))]
    else:
        replacements = {*itertools.product(present_rows.tolist(), range(num_candidates))}
        if not replacements.issuperset(pairs or ()):
            raise ValueError("pairs must hold the number of a present row and that of a candidate")
        index_pairs = sorted(replacements) if pairs is None else pairs
        flips = [(i, num_rows + j) for i, j in index_pairs]
    if not flips:
        raise ValueError("the table has no neighbours: no present row, or no candidate")

    masks = np.repeat(np.asarray(extended.present)[None], len(flips), axis=0)
    for mask, flipped_rows in zip(masks, flips, strict=True):
        mask[list(flipped_rows)] ^= True
    return Neighbours(table=extended, present=masks)


def _append_rows_marked_absent(table: Table, bins: np.ndarray, labels: np.ndarray) -> Table:
    """Append rows to a table that are marked absent.

    They have the largest weight if the table has weights.
    """
    num_rows = len(labels)
    added = {"bins": bins, "target": labels, "present": np.zeros(num_rows, bool)}
    if table.weight is not None:
        added["weight"] = np.ones(num_rows, np.float32)
    columns = {
        name: jnp.asarray(np.concatenate([getattr(table, name), added[name]])) for name in added
    }
    return table._replace(**columns)


class DomainRows(NamedTuple):
    """Rows of a public domain, each with a label.

    Attributes:
        bins: u8[C, F].
        target: [C], as `Table.target`.
    """

    bins: np.ndarray
    target: np.ndarray


def all_rows_of_domain(
    domain: Domain, max_rows: int = 10_000, target: Target | None = None
) -> DomainRows:
    """List every row that a public domain admits, with every label.

    Args:
        domain: the public domain.
        max_rows: the largest number of rows.
        target: the declared classes or range; None for two classes. Of a range both ends are
            listed, and its middle.

    Raises:
        ValueError: if there are more than `max_rows`, and as `domains.check_domain` and
            `kinds.response_of_target`.
    """
    domains.check_domain(domain)
    labels = labels_of_target(target)
    counts = [column.n_bins for column in domain.values()]
    rows = len(labels) * math.prod(counts)
    if rows > max_rows:
        raise ValueError(f"the domain admits {rows} rows, more than the limit of {max_rows}")
    bins = np.array(list(itertools.product(*map(range, counts))), np.uint8)
    return DomainRows(bins=np.tile(bins, (len(labels), 1)), target=np.repeat(labels, len(bins)))


def labels_of_target(target: Target | None) -> np.ndarray:
    """The labels that neighbours may have, as `Table.target` holds them.

    They are all classes, or three numbers.
    """
    response = response_of_target(target)
    if response.is_number:
        return np.array([0.0, 0.5, 1.0], np.float32)
    return np.arange(response.num_classes).astype(response.target_dtype)
