"""Public splits of oblivious trees, and how rows reach the leaves that answer them.

All nodes of a level ask the same split, so a tree of depth D partitions the rows by D bits. The
splits follow from a seed, a domain and the share of rows in each bin. Two rules spread them
evenly without spending anything.

- A deck: trees take their attributes from a shuffled deck of all of them, which is shuffled again
  when it is empty.
- Spread thresholds: where a tree asks m splits of an attribute, they are at the quantiles
  (q + u) / m, q = 0..m - 1. The offset u of an attribute starts at random and moves by the golden
  ratio with each deck.

Quantiles are those of a mixture: six tenths are the share of rows in a bin, and four tenths are
even over bins. Quantiles of the rows alone would leave the tails of skewed columns unasked. Evenly
spaced splits alone would leave the middle of columns with outliers unasked.

Values of a nominal attribute are put in a random order, and cut nearer the middle.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Int32, UInt32

from dpbt import types
from dpbt.common.arithmetic import round_separately
from dpbt.learners.bins.shares import cut_point_shares
from dpbt.learners.oblivious.config import ObliviousConfig
from dpbt.learners.oblivious.model import ObliviousTree
from dpbt.privacy import keys
from dpbt.types import Array

_GOLDEN = (math.sqrt(5) - 1) / 2


class _SortedOrder(NamedTuple):
    """The order of things when they are sorted.

    Attributes:
        rank: i32[...], the place of each thing.
        order: i32[...], which thing has each place.
    """

    rank: Array
    order: Array


def _sort_words(words: Array) -> _SortedOrder:
    """The order of K words u32[K].

    Of equal words the first is first. Every word is compared with all, which is faster than
    sorting for as few words as there are.
    """
    place = jnp.arange(words.size, dtype=jnp.int32)

    def count(number: Array, before: Array) -> Array:
        word = words[number]
        later = (word < words) | ((word == words) & (number < place))
        return before + later.astype(jnp.int32)

    none = jnp.zeros(words.size, jnp.int32)
    ranks = jax.lax.fori_loop(0, words.size, count, none, unroll=8)
    return _SortedOrder(ranks, none.at[ranks].set(place, unique_indices=True))


class _LevelSplits(NamedTuple):
    """What the levels of a tree ask.

    Attributes:
        attribute: i32[D].
        quantile: f32[D], in (0, 1), where the attribute is cut.
    """

    attribute: Array
    quantile: Array


def _choose_level_splits(
    config: ObliviousConfig, *, decks_key: Array, offsets_key: Array, tree_number: Array
) -> _LevelSplits:
    """What the levels of a tree ask.

    They ask the next k attributes of the shuffled decks in turn, but none more often than it has
    splits. The levels that these leave over go to the next attribute of at least D splits. They do
    not go to attributes of few splits: a tree would then ask many of them together, and where all
    columns are Boolean its leaves would be far too small.
    """
    sizes = np.minimum(config.attributes_per_tree, config.depth)
    depth, num_attributes, num_places = config.depth, len(config.attributes), int(sizes.max())
    wide = [attribute.n_bins > depth for attribute in config.attributes]
    if any(wide) and not all(wide) and num_places > 1:
        num_places += depth  # a tree of one attribute stays one
    before = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    cycle, turn = tree_number // len(sizes), tree_number % len(sizes)
    first = cycle * int(sizes.sum()) + jnp.asarray(before, jnp.int32)[turn]
    place = jnp.arange(num_places, dtype=jnp.int32)
    cards = first + place
    decks = cards // num_attributes

    # All words at once, because each place that draws is compiled by itself.
    folded = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(decks_key, decks)
    keys_of_words = jnp.concatenate([folded, offsets_key[None]])
    words = jax.vmap(lambda key: jax.random.bits(key, (num_attributes,), jnp.uint32))(keys_of_words)

    _, shuffled = jax.vmap(_sort_words)(words[:-1])
    chosen = jnp.take_along_axis(shuffled, (cards % num_attributes)[:, None], axis=1)[:, 0]
    starts = (words[-1] >> np.uint32(9)).astype(jnp.float32) * np.float32(2.0**-23)  # in [0, 1)

    # The card that each level asks, the number of its split, and of how many.
    num_splits, count = _num_bins(config)[chosen] - 1, jnp.asarray(sizes, jnp.int32)[turn]
    is_same_attribute = chosen[:, None] == chosen[None]  # where two decks meet

    def ask(used: Array, _: None) -> tuple[Array, tuple[Array, Array]]:
        spent = jnp.sum(jnp.where(is_same_attribute, used[None], 0), axis=1) >= num_splits
        spent = spent | ((place >= count) & (num_splits < depth))
        order = jnp.where((place < count) | (used > 0), used, depth)
        slot = jnp.argmin(jnp.where(spent, depth + 1, order)).astype(jnp.int32)
        return used + (place == slot).astype(jnp.int32), (slot, used[slot])

    used, (slot, split) = jax.lax.scan(ask, jnp.zeros_like(place), None, length=depth)
    attribute = chosen[slot]
    turns = round_separately(decks[slot].astype(jnp.float32) * _GOLDEN)
    offset = jnp.mod(starts[attribute] + turns, 1.0)
    quantile = (split.astype(jnp.float32) + offset) / used[slot].astype(jnp.float32)
    return _LevelSplits(attribute, quantile)


def _num_bins(config: ObliviousConfig) -> Int32[Array, "F"]:
    """i32[F]: how many bins each attribute has."""
    return jnp.asarray([attribute.n_bins for attribute in config.attributes], jnp.int32)


class PublicTree(NamedTuple):
    """A tree of public splits.

    Attributes:
        tree: with leaves of 0.
        leaf_shares: f32[2^D], for each leaf the product over attributes of the share of rows with
            its answers.
    """

    tree: ObliviousTree
    leaf_shares: Array


def public_tree(
    config: ObliviousConfig,
    *,
    seed: UInt32[Array, ""],
    tree_number: Int32[Array, ""],
    bin_shares: Float32[Array, "F C"],
) -> PublicTree:
    """The tree of a number, which follows from the seed and from where rows are.

    Args:
        config: the static parts.
        seed: u32[].
        tree_number: i32[].
        bin_shares: f32[F, C], the share of rows in each bin; they add up to 1 for each feature.
    """
    # A level asks about one attribute.
    attributes, depth, widest = config.attributes, config.depth, config.bin_mask.shape[1]
    base = keys.research_key(seed)
    kinds = jnp.arange(3, dtype=jnp.uint32)  # each kind of random numbers has a key of its own
    decks_key, offsets_key, orders_key = jax.vmap(jax.random.fold_in, (None, 0))(base, kinds)
    if config.num_structures:
        tree_number = tree_number % config.num_structures
    feature, quantile = _choose_level_splits(
        config, decks_key=decks_key, offsets_key=offsets_key, tree_number=tree_number
    )

    # The order of the bins, and how much of the mixture is up to each of them.
    shares = cut_point_shares(config, bin_shares)
    bins = _num_bins(config)[feature]
    ordered = jnp.asarray([attribute.ordered for attribute in attributes])[feature]
    max_unordered_bins = max(
        (attribute.n_bins for attribute in attributes if not attribute.ordered), default=0
    )
    rank, order = _order_bins_of_levels(
        feature,
        jax.random.fold_in(orders_key, tree_number),
        num_bins=bins,
        is_ordered=ordered,
        max_bins=widest,
        max_unordered_bins=max_unordered_bins,
    )
    shares_of_levels = shares[feature]
    if max_unordered_bins > 0:
        shares_of_levels = jnp.take_along_axis(shares_of_levels, order, axis=1)
    up_to = jnp.cumsum(shares_of_levels, axis=1)

    # Bins beyond the cut go right; both sides have at least one known bin.
    middle = jnp.where(ordered, quantile, 0.5 + 0.5 * (quantile - 0.5))
    cut = jnp.sum(up_to < middle[:, None], axis=1)
    cut = jnp.clip(cut, 0, jnp.maximum(bins - 2, 0))
    known = jnp.arange(widest, dtype=jnp.int32)[None] < bins[:, None]
    right = known & (rank > cut[:, None])

    # For each leaf the product over attributes of the mass of the bins with its answers. Of the
    # levels of an attribute the first one stands for all; the others have a share of 1.
    place, leaf = jnp.arange(depth, dtype=jnp.int32), jnp.arange(2**depth, dtype=jnp.int32)
    bit, level = jnp.left_shift(1, depth - 1 - place), place[:, None]
    asks = jnp.argmax(feature[:, None] == feature[None], axis=1)[None, :] == level
    mask = jnp.sum(jnp.where(asks, bit[None, :], 0), axis=1, keepdims=True)
    answered = asks[:, :, None] & right[None, :, :]
    answers = jnp.sum(jnp.where(answered, bit[None, :, None], 0), axis=1)
    masses = jnp.zeros((depth, 2**depth), jnp.float32).at[level, answers].add(bin_shares[feature])
    shares_of_answers = masses.at[level, leaf[None, :] & mask].get(mode="promise_in_bounds")
    leaf_shares = functools.reduce(jnp.multiply, shares_of_answers)

    padded = jnp.pad(right, ((0, 0), (0, types.MAX_BINS - widest)))
    leaves = jnp.zeros((*config.response.axes, 2**depth), jnp.float32)
    return PublicTree(ObliviousTree(feature, padded, leaves), leaf_shares)


def _order_bins_of_levels(
    feature: Array,
    key: Array,
    *,
    num_bins: Array,
    is_ordered: Array,
    max_bins: int,
    max_unordered_bins: int,
) -> _SortedOrder:
    """i32[D, C]: the order of the bins that each level of a tree cuts.

    Ordered bins keep their order, and others are shuffled. Bins that a feature does not have come
    last.

    Args:
        feature: i32[D], the feature of each level.
        key: of the tree.
        num_bins: i32[D], how many bins these have.
        is_ordered: bool[D], whether their bins are in order.
        max_bins: C, the most bins of a feature.
        max_unordered_bins: the most bins of a feature without an order.
    """
    place = jnp.arange(max_bins, dtype=jnp.int32)
    unmoved = jnp.broadcast_to(place, (feature.shape[0], max_bins))
    if max_unordered_bins == 0:
        return _SortedOrder(unmoved, unmoved)
    folded = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, feature)
    words = jax.vmap(lambda key: jax.random.bits(key, (max_unordered_bins,), jnp.uint32))(folded)
    known = unmoved[:, :max_unordered_bins] < num_bins[:, None]
    words_of_known = jnp.where(known, words >> jnp.uint32(1), jnp.uint32(2**31))
    first, rest = unmoved[:, :max_unordered_bins], unmoved[:, max_unordered_bins:]
    shuffled = jax.vmap(_sort_words)(words_of_known)

    def of_all_bins(places: Array) -> Array:
        return jnp.concatenate([jnp.where(is_ordered[:, None], first, places), rest], axis=1)

    return _SortedOrder(of_all_bins(shuffled.rank), of_all_bins(shuffled.order))
