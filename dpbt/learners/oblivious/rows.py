"""The rows of a table as oblivious trees read them, and the leaves that they reach."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import types
from dpbt.common.validate import is_traced
from dpbt.data import splits
from dpbt.learners.oblivious.config import Attribute
from dpbt.learners.oblivious.model import ObliviousTree
from dpbt.public_types import redacted_repr
from dpbt.types import Array

# The rows that answer them.


class ObliviousRows(NamedTuple):
    """Rows laid out for the loop.

    Attributes:
        bins: u8[F, N].
        target: bool[N]; u8[N] with several classes, and f32[N] in regression.
        present: bool[N].
        weight: f32[N] or None, as in `Table`.
        leaf: u8[N] or u16[N]: the leaf of each row in the tree of the round; None outside of
            rounds.
    """

    bins: Array
    target: Array
    present: Array
    weight: Array | None = None
    leaf: Array | None = None

    __repr__ = redacted_repr


def prepare_oblivious_rows(attributes: tuple[Attribute, ...], table: types.Table) -> ObliviousRows:
    """The rows of a table, column by column, of the features that the domain has.

    A padded table may have more.

    Raises:
        ValueError: for fewer features.
    """
    features, bins = len(attributes), jnp.asarray(table.bins)
    if bins.shape[1] < features:
        raise ValueError(f"the recipe's domain has {features} columns, and the table has fewer")
    return ObliviousRows(bins.T[:features], table.target, table.present, table.weight)


_BITS_OF_A_WORD = 32


def assign_leaves(
    attributes: tuple[Attribute, ...], tree: ObliviousTree, rows: ObliviousRows
) -> Array:
    """u8[N], or u16[N] from a depth of 9 on: the leaf that each row ends in, if not known already.

    Rows compare their bins with those that go right, which is faster than looking them up. Half of
    the levels are one loop over the rows, so that a leaf is written twice.
    """
    if rows.leaf is not None:
        return rows.leaf
    sets = [attribute.n_bins for attribute in attributes if not attribute.ordered]
    ordered = jnp.asarray([attribute.ordered for attribute in attributes])[tree.feature]

    # Where bins have no gap, their first one and their number.
    known = tree.right[:, : max(attribute.n_bins for attribute in attributes)]
    first = jnp.argmax(known, axis=1).astype(jnp.uint8)
    count = jnp.sum(known, axis=1, dtype=jnp.int32).astype(jnp.uint8)

    # Others are bits of words.
    words = -(-max(sets, default=0) // _BITS_OF_A_WORD)
    missing = max(words * _BITS_OF_A_WORD - tree.right.shape[1], 0)
    right = jnp.pad(tree.right, ((0, 0), (0, missing)))[:, : words * _BITS_OF_A_WORD]
    bits = right.reshape(len(right), words, _BITS_OF_A_WORD).astype(jnp.uint32)
    place = jnp.arange(_BITS_OF_A_WORD, dtype=jnp.uint32)
    word = jnp.sum(bits << place[None, None], axis=2, dtype=jnp.uint32)

    def ask(leaf: Array, level: tuple[Array, ...]) -> tuple[Array, None]:
        feature, is_run, first, count, word = level
        bin = jax.lax.dynamic_index_in_dim(rows.bins, feature, keepdims=False)
        goes_right = bin - first < count
        if sets:
            word_of_bin = jnp.zeros(bin.shape, jnp.uint32)
            for number in range(words):
                word_of_bin = jnp.where(bin // _BITS_OF_A_WORD == number, word[number], word_of_bin)
            inside = (word_of_bin >> (bin % _BITS_OF_A_WORD).astype(jnp.uint32)) & 1 == 1
            goes_right = jnp.where(is_run, goes_right, inside)
        return leaf + leaf + goes_right.astype(leaf.dtype), None

    # Without a loop XLA would make each leaf anew where it is looked up, row by row.
    depth, levels = len(right), (tree.feature, ordered, first, count, word)
    start = jnp.zeros(rows.bins.shape[1], jnp.uint8 if depth <= 8 else jnp.uint16)
    return jax.lax.scan(ask, start, levels, unroll=max(depth // 2, 1))[0]


def check_oblivious_table(attributes: tuple[Attribute, ...], table: types.Table) -> None:
    """Refuse a table that does not hold bins of the columns of the recipe's domain.

    Of the table the check reads the dtype and rank of the bins, the number of features, and the
    public splits.

    Raises:
        ValueError: saying what is expected.
    """
    splits.check_bins_and_splits(table)
    if table.bins.dtype != jnp.uint8:
        raise ValueError(f"oblivious trees read uint8 bins, got {types.dtype_and_rank(table.bins)}")
    columns = len(attributes)
    if table.bins.shape[1] != columns:
        raise ValueError(
            f"the recipe's domain has {columns} columns, and the table has {table.bins.shape[1]}"
        )

    # A column has a bin for each of its splits, and at most one that no split knows.
    table_splits = table.splits
    assert table_splits is not None  # as `splits.check_bins_and_splits` says
    if is_traced(*table_splits):
        return
    known = np.ones(columns, int)
    np.maximum.at(
        known, np.asarray(table_splits.feature), np.asarray(table_splits.high).astype(int) + 1
    )
    for number, (attribute, bins) in enumerate(zip(attributes, known.tolist(), strict=True)):
        if not bins <= attribute.n_bins <= bins + 1:
            of_domain = f"column {number} of the recipe's domain has {attribute.n_bins} bins"
            raise ValueError(f"{of_domain}, and the splits of the table know {bins}")
