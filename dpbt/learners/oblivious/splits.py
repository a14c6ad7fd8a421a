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

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float32, Int32, UInt32

from dpbt import types
from dpbt.common.arithmetic import round_separately, sum_in_order
from dpbt.common.validate import is_traced
from dpbt.data import splits
from dpbt.hypothesis_kind import HypothesisKind
from dpbt.learners.oblivious.model import OBLIVIOUS, ObliviousTree
from dpbt.privacy import keys
from dpbt.privacy.mechanism import Mechanism
from dpbt.public_types import redacted_repr
from dpbt.types import Array

MAX_DEPTH = 10
"""Trees have at most 2^10 leaves."""

_GOLDEN = (math.sqrt(5) - 1) / 2

_EVEN_SHARE = 0.4
"""How much of the mass that thresholds follow is even over bins."""


class Attribute(NamedTuple):
    """What a public domain says of the bins of a feature.

    Attributes:
        n_bins: how many there are.
        ordered: whether their order means anything; if not, trees ask for random subsets.
    """

    n_bins: int
    ordered: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObliviousConfig:
    """What is static in an oblivious tree.

    Attributes:
        attributes: of the public domain, one for each feature.
        depth: D, the number of splits, in 1..MAX_DEPTH.
        attributes_per_tree: how many attributes a tree asks; the trees take these numbers in turn.
        marginals: whether a prologue releases the class histogram of every attribute. Thresholds
            then follow the released histograms instead of being evenly spaced, scores start from
            the released log odds, and steps know how many rows a leaf has.
        scores: whether an epilogue releases the final scores by class, and maps scores by a line
            that makes probabilities true (`oblivious.learner.fit_score_line`).
        smoothing: the weight of a leaf's neighbour, which differs in one bit, in its sum, in
            [0, 1); a leaf that differs in b bits has this to the power of b.
        relation: the neighbouring relation of the ledger.
        noise: `mechanisms.rounded_gaussian` or `mechanisms.discrete_laplace`.
        response: what is predicted. A number always has a prologue, which releases its histogram.
        monotone: for each attribute 1 if scores must not fall with its bins, -1 if they must not
            rise, and 0 otherwise; empty if there are no constraints.
        target_bins: how many bins the histogram of a number has.
        structures: after how many trees the splits repeat; 0 for never. A model has one tree for
            each, whose leaves add up those of all of its rounds.
    """

    attributes: tuple[Attribute, ...]
    depth: int
    attributes_per_tree: Sequence[int]
    marginals: bool
    scores: bool
    smoothing: float
    relation: types.Relation
    noise: Mechanism
    response: types.Response = types.BINARY
    monotone: tuple[int, ...] = ()
    target_bins: int = 32
    structures: int = 0

    @property
    def known(self) -> Bool[np.ndarray, "F C"]:
        """bool[F, C]: the bins that each feature has; C is the most bins of a feature."""
        bins = np.array([[attribute.n_bins] for attribute in self.attributes])
        return np.arange(bins.max()) < bins

    @property
    def identity(self) -> str:
        """Every static part as text, which enters keys."""
        bins = " ".join(f"{each.n_bins}{'o' if each.ordered else 'n'}" for each in self.attributes)
        once = f"{self.marginals}, {self.scores}"
        static = f"{self.depth}, {self.attributes_per_tree}, {once}, {self.smoothing!r}"
        options = "" if self.response == types.BINARY else f", {self.response.words}"
        if self.response.is_number:
            options += f" in {self.target_bins} bins"
        if any(self.monotone):
            options += f", {self.monotone}"
        if self.structures:
            options += f", {self.structures} structures"
        under = types.as_relation(self.relation).value
        return f"{bins}, {static}, {under}, {self.noise.name}{options}"


# The splits of a tree.


def _sorting_ranks(words: Array) -> tuple[Array, Array]:
    """i32[K]: the place of each of K words when they are sorted, and which word has each place.

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
    return ranks, none.at[ranks].set(place, unique_indices=True)


def _attributes_and_quantiles(
    config: ObliviousConfig, decks_key: Array, offsets_key: Array, tree: Array, bins: Array
) -> tuple[Array, Array]:
    """(i32[D] attributes, f32[D] quantiles): what the levels of a tree ask.

    They ask the next k attributes of the shuffled decks in turn, but none more often than it has
    splits. The levels that these leave over go to the next attribute of at least D splits. They do
    not go to attributes of few splits: a tree would then ask many of them together, and where all
    columns are Boolean its leaves would be far too small.
    """
    sizes = np.minimum(config.attributes_per_tree, config.depth)
    depth, features, num_places = config.depth, len(config.attributes), int(sizes.max())
    wide = [each.n_bins > depth for each in config.attributes]
    if any(wide) and not all(wide) and num_places > 1:
        num_places += depth  # a tree of one attribute stays one
    before = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    cycle, turn = tree // len(sizes), tree % len(sizes)
    first = cycle * int(sizes.sum()) + jnp.asarray(before, jnp.int32)[turn]
    place = jnp.arange(num_places, dtype=jnp.int32)
    cards = first + place
    decks = cards // features

    # All words at once, because each place that draws is compiled by itself.
    folded = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(decks_key, decks)
    drawing = jnp.concatenate([folded, offsets_key[None]])
    words = jax.vmap(lambda key: jax.random.bits(key, (features,), jnp.uint32))(drawing)

    _, shuffled = jax.vmap(_sorting_ranks)(words[:-1])
    chosen = jnp.take_along_axis(shuffled, (cards % features)[:, None], axis=1)[:, 0]
    starts = (words[-1] >> np.uint32(9)).astype(jnp.float32) * np.float32(2.0**-23)  # in [0, 1)

    # The card that each level asks, the number of its split, and of how many.
    splits_of, count = bins[chosen] - 1, jnp.asarray(sizes, jnp.int32)[turn]
    is_same_attribute = chosen[:, None] == chosen[None]  # where two decks meet

    def ask(used: Array, _: None) -> tuple[Array, tuple[Array, Array]]:
        spent = jnp.sum(jnp.where(is_same_attribute, used[None], 0), axis=1) >= splits_of
        spent = spent | ((place >= count) & (splits_of < depth))
        order = jnp.where((place < count) | (used > 0), used, depth)
        slot = jnp.argmin(jnp.where(spent, depth + 1, order)).astype(jnp.int32)
        return used + (place == slot).astype(jnp.int32), (slot, used[slot])

    used, (slot, split) = jax.lax.scan(ask, jnp.zeros_like(place), None, length=depth)
    feature = chosen[slot]
    turns = round_separately(decks[slot].astype(jnp.float32) * _GOLDEN)
    offset = jnp.mod(starts[feature] + turns, 1.0)
    return feature, (split.astype(jnp.float32) + offset) / used[slot].astype(jnp.float32)


def cut_point_mass(config: ObliviousConfig, mass: Array) -> Float32[Array, "F C"]:
    """f32[F, C]: the mass whose quantiles cut columns, from the share of rows in each bin."""
    shares = config.known / config.known.sum(axis=1, keepdims=True)
    return round_separately((1 - _EVEN_SHARE) * mass) + round_separately(
        _EVEN_SHARE * jnp.asarray(shares, jnp.float32)
    )


def tree_structure(
    config: ObliviousConfig,
    seed: UInt32[Array, ""],
    tree: Int32[Array, ""],
    mass: Float32[Array, "F C"],
) -> tuple[ObliviousTree, Array]:
    """A tree with leaves of 0.

    Args:
        config: the static parts.
        seed: u32[].
        tree: i32[], the number of the tree.
        mass: f32[F, C], the share of rows in each bin; it adds up to 1 for each feature.

    Returns:
        The tree, and f32[2^D]: for each leaf the product over attributes of the share of rows with
        its answers.
    """
    # A level asks about one attribute.
    attributes, depth, widest = config.attributes, config.depth, config.known.shape[1]
    base = keys.research_key(seed)
    kinds = jnp.arange(3, dtype=jnp.uint32)  # each kind of random numbers has a key of its own
    decks_key, offsets_key, orders_key = jax.vmap(jax.random.fold_in, (None, 0))(base, kinds)
    tree = tree % config.structures if config.structures else tree
    all_bins = jnp.asarray([attribute.n_bins for attribute in attributes], jnp.int32)
    feature, quantile = _attributes_and_quantiles(config, decks_key, offsets_key, tree, all_bins)

    # The order of the bins, and how much of the mixture is up to each of them.
    spread = cut_point_mass(config, mass)
    bins = all_bins[feature]
    ordered = jnp.asarray([attribute.ordered for attribute in attributes])[feature]
    max_unordered_bins = max(
        (attribute.n_bins for attribute in attributes if not attribute.ordered), default=0
    )
    orders_key_of_tree = jax.random.fold_in(orders_key, tree)
    rank, order = _bin_orders(
        widest, max_unordered_bins, bins, ordered, feature, orders_key_of_tree
    )
    spread_of_levels = spread[feature]
    if order is not None:
        spread_of_levels = jnp.take_along_axis(spread_of_levels, order, axis=1)
    up_to = jnp.cumsum(spread_of_levels, axis=1)

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
    masses = jnp.zeros((depth, 2**depth), jnp.float32).at[level, answers].add(mass[feature])
    shares = masses.at[level, leaf[None, :] & mask].get(mode="promise_in_bounds")
    share = functools.reduce(jnp.multiply, shares)

    padded = jnp.pad(right, ((0, 0), (0, types.MAX_BINS - widest)))
    leaves = jnp.zeros((*config.response.axes, 2**depth), jnp.float32)
    return ObliviousTree(feature, padded, leaves), share


def _bin_orders(
    widest: int, max_unordered_bins: int, bins: Array, ordered: Array, feature: Array, key: Array
) -> tuple[Array, Array | None]:
    """i32[D, C]: the rank of each bin in the order that a level cuts, and the bin of each rank.

    Ordered bins keep their order, and others are shuffled. Bins that a feature does not have come
    last. Where all bins keep their order there is None in place of the second. Only the first
    `max_unordered_bins` bins can be out of order.
    """
    place = jnp.arange(widest, dtype=jnp.int32)
    unmoved = jnp.broadcast_to(place, (feature.shape[0], widest))
    if max_unordered_bins == 0:
        return unmoved, None
    folded = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, feature)
    words = jax.vmap(lambda key: jax.random.bits(key, (max_unordered_bins,), jnp.uint32))(folded)
    known = unmoved[:, :max_unordered_bins] < bins[:, None]
    shuffled = jnp.where(known, words >> jnp.uint32(1), jnp.uint32(2**31))
    first, rest = unmoved[:, :max_unordered_bins], unmoved[:, max_unordered_bins:]
    both = (
        jnp.where(ordered[:, None], first, ranks) for ranks in jax.vmap(_sorting_ranks)(shuffled)
    )
    rank, order = (jnp.concatenate([ranks, rest], axis=1) for ranks in both)
    return rank, order


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


def _check_table(attributes: tuple[Attribute, ...], table: types.Table) -> None:
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


def _merge_equal_structures(structures: int, trees: ObliviousTree, *_: object) -> ObliviousTree:
    """One tree for each structure, in place of those of all rounds."""
    rounds = trees.leaf.shape[0]
    if rounds <= structures:
        return trees
    padding = ((0, -rounds % structures), *((0, 0),) * (trees.leaf.ndim - 1))
    leaf = jnp.pad(trees.leaf, padding).reshape(-1, structures, *trees.leaf.shape[1:])
    return ObliviousTree(trees.feature[:structures], trees.right[:structures], sum_in_order(leaf))


def oblivious_kind(config: ObliviousConfig) -> HypothesisKind:
    """Oblivious trees over the bins of a domain, as learners train with them."""
    attributes, response = config.attributes, config.response

    def example_table() -> types.Table:
        bins, absent = jnp.zeros((1, len(attributes)), jnp.uint8), jnp.zeros(1, bool)
        target = absent.astype(response.dtype)
        return types.Table(bins, target, absent, splits.splits_of_bits(len(attributes)))

    def predict_prepared(tree: ObliviousTree, rows: ObliviousRows) -> Array:
        leaf = assign_leaves(attributes, tree, rows).astype(jnp.int32)
        return tree.leaf.at[..., leaf].get(mode="promise_in_bounds")

    merge = functools.partial(_merge_equal_structures, config.structures)
    return OBLIVIOUS.with_training(
        example_table=example_table,
        check_table=functools.partial(_check_table, attributes),
        prepare=functools.partial(prepare_oblivious_rows, attributes),
        predict_prepared=predict_prepared,
        prediction_input=lambda rows: rows.bins,
        bound=lambda tree: jnp.max(jnp.abs(tree.leaf)),
        scale=lambda trees, slope: trees._replace(leaf=trees.leaf * slope),
        merge=merge if config.structures else None,
    )


def partition_by_leaf(
    config: ObliviousConfig,
    structure: Callable[[types.Params, types.Public], tuple[ObliviousTree, Array]],
) -> types.Partition:
    """How the public splits of a round part the rows: by the leaf of the tree.

    Args:
        config: the static parts.
        structure: (params, public) -> the splits of a round, and what else is public in it.
    """

    def place(structure: tuple[ObliviousTree, Array], rows: ObliviousRows) -> Array:
        return assign_leaves(config.attributes, structure[0], rows)

    return types.Partition(
        structure=structure,
        place=place,
        reads=lambda structure: structure[0].feature,
        cycle=config.structures,
    )
