"""The leaves of an oblivious tree that rows reach."""

import jax
import jax.numpy as jnp

from dpbt.common.devices import vary_like
from dpbt.learners.bins.config import Attribute
from dpbt.learners.bins.rows import BinnedRows
from dpbt.learners.oblivious.model import ObliviousTree
from dpbt.types import Array

_BITS_OF_A_WORD = 32


def assign_leaves_unless_known(
    attributes: tuple[Attribute, ...], tree: ObliviousTree, rows: BinnedRows
) -> Array:
    """u8[N] or u16[N]: the leaf of each row in the tree, routed there unless it is known already.

    It is u16 from a depth of 9 on.

    Rows compare their bins with those that go right, which is faster than looking them up. Half of
    the levels are one loop over the rows, so that a leaf is written twice.
    """
    if rows.leaf is not None:
        return rows.leaf
    sets = [attribute.n_bins for attribute in attributes if not attribute.ordered]
    ordered = jnp.asarray([attribute.ordered for attribute in attributes])[tree.feature]

    # Where bins have no gap, their first one and their number.
    is_right_of_cut = tree.right[:, : max(attribute.n_bins for attribute in attributes)]
    first = jnp.argmax(is_right_of_cut, axis=1).astype(jnp.uint8)
    count = jnp.sum(is_right_of_cut, axis=1, dtype=jnp.int32).astype(jnp.uint8)

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
    start = vary_like(start, (rows.bins, levels))
    return jax.lax.scan(ask, start, levels, unroll=max(depth // 2, 1))[0]
