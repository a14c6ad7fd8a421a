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
from jaxtyping import Bool, Float32, Int32, UInt32

from dpbt import types
from dpbt.common.arithmetic import round_separately
from dpbt.common.devices import vary_like
from dpbt.learners.bins.shares import mix_bin_shares_with_even_shares
from dpbt.learners.oblivious.config import ObliviousConfig
from dpbt.learners.oblivious.model import ObliviousTree
from dpbt.privacy import keys
from dpbt.types import Array

_GOLDEN = (math.sqrt(5) - 1) / 2


class _RankAndOrder(NamedTuple):
    """The ranks of things in sorted order, and the things by their ranks.

    Attributes:
        rank: i32[...], the place of each thing.
        order: i32[...], which thing has each place.
    """

    rank: Array
    order: Array


def _stable_rank_and_order(random_words: Array) -> _RankAndOrder:
    """Rank K random words u32[K], and sort their indices; equal words keep their order.

    Every word is compared with all, which is faster than sorting for as few words as there are.
    """
    place = jnp.arange(random_words.size, dtype=jnp.int32)

    def count(number: Array, before: Array) -> Array:
        word = random_words[number]
        later = (word < random_words) | ((word == random_words) & (number < place))
        return before + later.astype(jnp.int32)

    none = vary_like(jnp.zeros(random_words.size, jnp.int32), random_words)
    ranks = jax.lax.fori_loop(0, random_words.size, count, none, unroll=8)
    return _RankAndOrder(ranks, none.at[ranks].set(place, unique_indices=True))


class _Cards(NamedTuple):
    """The attributes on the next cards of shuffled decks, and where the cuts of attributes start.

    Attributes:
        attribute: i32[k], the attribute of each card.
        deck: i32[k], the number of its deck.
        offsets: f32[F], in [0, 1), for each attribute the offset of its cuts in the first deck.
    """

    attribute: Array
    deck: Array
    offsets: Array


def _draw_attribute_cards_and_cut_offsets(
    num_attributes: int,
    *,
    decks_key: Array,
    offsets_key: Array,
    first_card: Array,
    num_cards: int,
) -> _Cards:
    """Draw the next attributes from shuffled decks of attributes, and the offsets of their cuts.

    Each deck is shuffled by its own key.

    All words are drawn at once, because each place that draws is compiled by itself.
    """
    cards = first_card + jnp.arange(num_cards, dtype=jnp.int32)
    decks = cards // num_attributes
    folded = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(decks_key, decks)
    keys_of_words = jnp.concatenate([folded, offsets_key[None]])
    words = jax.vmap(lambda key: jax.random.bits(key, (num_attributes,), jnp.uint32))(keys_of_words)

    _, shuffled = jax.vmap(_stable_rank_and_order)(words[:-1])
    attribute = jnp.take_along_axis(shuffled, (cards % num_attributes)[:, None], axis=1)[:, 0]
    offsets = (words[-1] >> np.uint32(9)).astype(jnp.float32) * np.float32(2.0**-23)
    return _Cards(attribute, decks, offsets)


class _CardsOfLevels(NamedTuple):
    """The card that each level of a tree takes.

    Attributes:
        card: i32[D], the place of the card of each level.
        split: i32[D], the number of the level's split among those of its card.
        num_levels: i32[k], how many levels ask each card.
    """

    card: Array
    split: Array
    num_levels: Array


def _assign_cards_to_levels(
    depth: int, attribute_of_card: Array, num_splits_of_card: Array, num_attributes: Array
) -> _CardsOfLevels:
    """Assign to each level of a tree the card of an attribute that still has splits.

    Levels take the first `num_attributes` cards in turn.

    Levels that are left over go to the next cards of at least D splits.

    Args:
        depth: D.
        attribute_of_card: i32[k], the attribute of each card.
        num_splits_of_card: i32[k], how many splits it has.
        num_attributes: i32[], how many attributes the tree asks.
    """
    place = jnp.arange(attribute_of_card.size, dtype=jnp.int32)
    is_same_attribute = (
        attribute_of_card[:, None] == attribute_of_card[None]
    )  # where two decks meet

    def ask(used: Array, _: None) -> tuple[Array, tuple[Array, Array]]:
        spent = jnp.sum(jnp.where(is_same_attribute, used[None], 0), axis=1) >= num_splits_of_card
        spent = spent | ((place >= num_attributes) & (num_splits_of_card < depth))
        order = jnp.where((place < num_attributes) | (used > 0), used, depth)
        card = jnp.argmin(jnp.where(spent, depth + 1, order)).astype(jnp.int32)
        return used + (place == card).astype(jnp.int32), (card, used[card])

    none_asked = vary_like(
        jnp.zeros_like(place), (attribute_of_card, num_splits_of_card, num_attributes)
    )
    num_levels, (card, split) = jax.lax.scan(ask, none_asked, None, length=depth)
    return _CardsOfLevels(card, split, num_levels)


class _AttributeAndQuantileOfLevels(NamedTuple):
    """The attribute that each level of a tree asks, and the quantile where it is cut.

    Attributes:
        attribute: i32[D].
        quantile: f32[D], in (0, 1), where the attribute is cut.
    """

    attribute: Array
    quantile: Array


def _choose_attribute_and_quantile_of_levels(
    config: ObliviousConfig, *, decks_key: Array, offsets_key: Array, tree_number: Array
) -> _AttributeAndQuantileOfLevels:
    """Choose the attribute that each level of a tree splits, and the quantile where it is cut.

    They ask the next k attributes of the shuffled decks in turn, but none more often than it has
    splits. The levels that these leave over go to the next attribute of at least D splits. They do
    not go to attributes of few splits: a tree would then ask many of them together, and where all
    columns are Boolean its leaves would be far too small.
    """
    sizes = np.minimum(config.attributes_per_tree, config.depth)
    depth, num_attributes, num_cards = config.depth, len(config.attributes), int(sizes.max())
    wide = [attribute.n_bins > depth for attribute in config.attributes]
    if any(wide) and not all(wide) and num_cards > 1:
        num_cards += depth  # a tree of one attribute stays one
    before = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    cycle, turn = tree_number // len(sizes), tree_number % len(sizes)
    cards = _draw_attribute_cards_and_cut_offsets(
        num_attributes,
        decks_key=decks_key,
        offsets_key=offsets_key,
        first_card=cycle * int(sizes.sum()) + jnp.asarray(before, jnp.int32)[turn],
        num_cards=num_cards,
    )
    levels = _assign_cards_to_levels(
        depth,
        cards.attribute,
        num_splits_of_card=_num_bins_by_attribute(config)[cards.attribute] - 1,
        num_attributes=jnp.asarray(sizes, jnp.int32)[turn],
    )
    attribute = cards.attribute[levels.card]
    turns = round_separately(cards.deck[levels.card].astype(jnp.float32) * _GOLDEN)
    offset = jnp.mod(cards.offsets[attribute] + turns, 1.0)
    num_splits_of_card = levels.num_levels[levels.card].astype(jnp.float32)
    quantile = (levels.split.astype(jnp.float32) + offset) / num_splits_of_card
    return _AttributeAndQuantileOfLevels(attribute, quantile)


def _num_bins_by_attribute(config: ObliviousConfig) -> Int32[Array, "F"]:
    """i32[F]: the number of bins of each attribute."""
    return jnp.asarray([attribute.n_bins for attribute in config.attributes], jnp.int32)


class PublicTreeAndLeafShares(NamedTuple):
    """A tree of public splits, and the estimated share of the rows in each of its leaves.

    Attributes:
        tree: with leaves of 0.
        leaf_shares: f32[2^D], for each leaf the product over attributes of the share of rows with
            its answers.
    """

    tree: ObliviousTree
    leaf_shares: Array


def public_tree_from_seed(
    config: ObliviousConfig,
    *,
    seed: UInt32[Array, ""],
    tree_number: Int32[Array, ""],
    bin_shares: Float32[Array, "F C"],
) -> PublicTreeAndLeafShares:
    """Derive the public splits of a numbered tree from a seed, and estimate its leaves' shares.

    Columns are cut at quantiles of the shares of rows in bins, and a leaf's share is that of the
    rows that reach it.

    Args:
        config: the static parts.
        seed: u32[].
        tree_number: i32[].
        bin_shares: f32[F, C], the share of rows in each bin; they add up to 1 for each feature.
    """
    root_key = keys.research_key(seed)
    kinds = jnp.arange(3, dtype=jnp.uint32)  # each kind of random numbers has a key of its own
    decks_key, offsets_key, orders_key = jax.vmap(jax.random.fold_in, (None, 0))(root_key, kinds)
    if config.num_structures:
        tree_number = tree_number % config.num_structures
    level_splits = _choose_attribute_and_quantile_of_levels(
        config, decks_key=decks_key, offsets_key=offsets_key, tree_number=tree_number
    )
    right = _bins_right_of_quantile_cuts(
        config,
        level_splits,
        mix_bin_shares_with_even_shares(config, bin_shares),
        jax.random.fold_in(orders_key, tree_number),
    )
    feature, max_bins = level_splits.attribute, right.shape[1]
    padded = jnp.pad(right, ((0, 0), (0, types.MAX_BINS - max_bins)))
    leaves = jnp.zeros((*config.response.score_axes, 2**config.depth), jnp.float32)
    smoothing = jnp.float32(config.smoothing)
    return PublicTreeAndLeafShares(
        ObliviousTree(feature, padded, leaf=leaves, noise=leaves, smoothing=smoothing),
        _leaf_shares_as_products(feature, right, bin_shares[feature]),
    )


def _bins_right_of_quantile_cuts(
    config: ObliviousConfig,
    level_splits: _AttributeAndQuantileOfLevels,
    cut_shares: Array,
    order_key: Array,
) -> Bool[Array, "D C"]:
    """bool[D, C]: the bins that go right at the quantile cut of each level.

    Neither side is ever empty.

    Args:
        config: the static parts.
        level_splits: the attribute of each level, and the quantile where it is cut.
        cut_shares: f32[F, C], the shares whose quantiles cut columns.
        order_key: the key of the tree for the order of bins without one.
    """
    feature, quantile = level_splits
    num_bins, max_bins = _num_bins_by_attribute(config)[feature], config.bin_mask.shape[1]
    is_ordered = jnp.asarray([attribute.ordered for attribute in config.attributes])[feature]
    max_unordered_bins = max(
        (attribute.n_bins for attribute in config.attributes if not attribute.ordered), default=0
    )
    rank, order = _shuffle_unordered_bins_of_levels(
        feature,
        order_key,
        num_bins=num_bins,
        is_ordered=is_ordered,
        max_bins=max_bins,
        max_unordered_bins=max_unordered_bins,
    )
    shares_of_levels = cut_shares[feature]
    if max_unordered_bins > 0:
        shares_of_levels = jnp.take_along_axis(shares_of_levels, order, axis=1)
    share_up_to_bin = jnp.cumsum(shares_of_levels, axis=1)

    # Bins without an order are cut nearer the middle.
    cut_share = jnp.where(is_ordered, quantile, 0.5 + 0.5 * (quantile - 0.5))
    cut = jnp.sum(share_up_to_bin < cut_share[:, None], axis=1)
    cut = jnp.clip(cut, 0, jnp.maximum(num_bins - 2, 0))
    has_bin = jnp.arange(max_bins, dtype=jnp.int32)[None] < num_bins[:, None]
    return has_bin & (rank > cut[:, None])


def _leaf_shares_as_products(
    feature: Int32[Array, "D"], right: Bool[Array, "D C"], bin_shares: Float32[Array, "D C"]
) -> Float32[Array, "_"]:
    """f32[2^D]: estimate the share of rows in each leaf, as if attributes were independent.

    It is the product over attributes of the share of rows with the leaf's answers.

    Of the levels of an attribute the first one stands for all; the others have a share of 1.

    Args:
        feature: i32[D], the feature of each level.
        right: bool[D, C], which of its bins go right.
        bin_shares: f32[D, C], the share of rows in each of its bins.
    """
    depth = feature.shape[0]
    place, leaf = jnp.arange(depth, dtype=jnp.int32), jnp.arange(2**depth, dtype=jnp.int32)
    bit, level = jnp.left_shift(1, depth - 1 - place), place[:, None]
    asks = jnp.argmax(feature[:, None] == feature[None], axis=1)[None, :] == level
    mask = jnp.sum(jnp.where(asks, bit[None, :], 0), axis=1, keepdims=True)
    answered = asks[:, :, None] & right[None, :, :]
    answers = jnp.sum(jnp.where(answered, bit[None, :, None], 0), axis=1)
    shares = jnp.zeros((depth, 2**depth), jnp.float32).at[level, answers].add(bin_shares)
    shares_of_answers = shares.at[level, leaf[None, :] & mask].get(mode="promise_in_bounds")
    return functools.reduce(jnp.multiply, shares_of_answers)


def _shuffle_unordered_bins_of_levels(
    feature: Array,
    key: Array,
    *,
    num_bins: Array,
    is_ordered: Array,
    max_bins: int,
    max_unordered_bins: int,
) -> _RankAndOrder:
    """The order in which the bins of each level are cut: shuffled if they have no order.

    Ordered bins keep their order. Bins that a feature does not have come last. Ranks and orders are
    i32[D, C].

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
        return _RankAndOrder(unmoved, unmoved)
    folded = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, feature)
    words = jax.vmap(lambda key: jax.random.bits(key, (max_unordered_bins,), jnp.uint32))(folded)
    is_bin = unmoved[:, :max_unordered_bins] < num_bins[:, None]
    words_of_bins = jnp.where(is_bin, words >> jnp.uint32(1), jnp.uint32(2**31))
    first, rest = unmoved[:, :max_unordered_bins], unmoved[:, max_unordered_bins:]
    shuffled = jax.vmap(_stable_rank_and_order)(words_of_bins)

    def of_all_bins(places: Array) -> Array:
        return jnp.concatenate([jnp.where(is_ordered[:, None], first, places), rest], axis=1)

    return _RankAndOrder(of_all_bins(shuffled.rank), of_all_bins(shuffled.order))
