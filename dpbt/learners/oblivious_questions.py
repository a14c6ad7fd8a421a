"""Public questions of oblivious trees, from a seed, a domain and the share of rows in each cell.

Nothing here reads private rows. Two rules spread the questions evenly without spending anything.

- A deck: trees take their attributes from a shuffled deck of all of them, which is shuffled again
  when it is empty.
- Spread thresholds: where a tree asks m questions of an attribute, they are at the quantiles
  (q + u) / m, q = 0..m - 1. The offset u of an attribute starts at random and moves by the golden
  ratio with each deck.

Quantiles are those of a mixture: six tenths are the share of rows in a cell, and four tenths are
even over cells. Quantiles of the rows alone would leave the tails of skewed columns unasked. Evenly
spaced questions alone would leave the middle of columns with outliers unasked.

Values of a nominal attribute are put in a random order, and cut nearer the middle.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.arithmetic import rounded
from dpbt.base import CELLS, Array

_GOLDEN = (math.sqrt(5) - 1) / 2

_EVEN = 0.4
"""How much of the mass that thresholds follow is even over cells."""

_DECK, _OFFSET, _ORDER = 0, 1, 2
"""What is folded into the key of each kind of random numbers."""


class Attribute(NamedTuple):
    """What a public domain says of the cells of a feature.

    Attributes:
        cells: how many there are.
        ordered: whether their order means anything; if not, trees ask for random subsets.
    """

    cells: int
    ordered: bool


class Asked(NamedTuple):
    """The questions of one tree.

    Attributes:
        feature: i32[D].
        right: bool[D, CELLS]: the cells that go right.
        share: f32[2^D]: the product over attributes of the share of rows with each answer.
    """

    feature: Array
    right: Array
    share: Array


def _ranks(words: Array) -> Array:
    """i32[K]: the place of each of K words when they are sorted; of equal ones the first is first.

    Every word is compared with all, which is faster than sorting for as few words as there are.
    """
    place = jnp.arange(words.size, dtype=jnp.int32)

    def count(number: Array, before: Array) -> Array:
        word = words[number]
        later = (word < words) | ((word == words) & (number < place))
        return before + later.astype(jnp.int32)

    return jax.lax.fori_loop(0, words.size, count, jnp.zeros(words.size, jnp.int32), unroll=8)


def _inverse(ranks: Array) -> Array:
    """i32[K]: which word has each rank."""
    place = jnp.arange(ranks.size, dtype=jnp.int32)
    return jnp.zeros(ranks.size, jnp.int32).at[ranks].set(place, unique_indices=True)


def _attributes_of_tree(
    features: int, attributes_per_tree: tuple[int, ...], key: Array, offsets_key: Array, tree: Array
) -> tuple[Array, Array, Array, Array]:
    """What a tree asks about: its part of the shuffled decks, and where offsets start.

    Returns:
        k; i32[most] attributes; i32[most] decks; f32[F], uniform in [0, 1).
    """
    sizes = np.asarray(attributes_per_tree)
    before = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    cycle, place = tree // len(attributes_per_tree), tree % len(attributes_per_tree)
    first = cycle * int(sizes.sum()) + jnp.asarray(before, jnp.int32)[place]
    cards = first + jnp.arange(max(attributes_per_tree), dtype=jnp.int32)
    decks = cards // features

    # All words at once, because each place that draws is compiled by itself.
    folded = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, decks)
    drawing = jnp.concatenate([folded, offsets_key[None]])
    words = jax.vmap(lambda key: jax.random.bits(key, (features,), jnp.uint32))(drawing)

    def card(words: Array, position: Array) -> Array:
        return _inverse(_ranks(words))[position]

    attributes = jax.vmap(card)(words[:-1], cards % features).astype(jnp.int32)
    return jnp.asarray(sizes, jnp.int32)[place], attributes, decks, _uniform(words[-1])


def _uniform(words: Array) -> Array:
    """f32[...] in [0, 1): what `jax.random.uniform` makes of these words."""
    return (words >> np.uint32(9)).astype(jnp.float32) * np.float32(2.0**-23)


def _even(attributes: tuple[Attribute, ...], widest: int) -> Array:
    """f32[F, C]: the same mass in each cell that an attribute has."""
    cells = np.array([[attribute.cells] for attribute in attributes])
    return jnp.asarray((np.arange(widest) < cells) / cells, jnp.float32)


def draw(
    attributes: tuple[Attribute, ...],
    depth: int,
    attributes_per_tree: tuple[int, ...],
    seed: Array,
    tree: Array,
    mass: Array,
) -> Asked:
    """The questions of a tree.

    Args:
        attributes: of the domain.
        depth: D.
        attributes_per_tree: how many attributes a tree asks, in turn.
        seed: u32[].
        tree: i32[], the number of the tree.
        mass: f32[F, CELLS], the share of rows in each cell; it adds up to 1 for each feature.
    """
    attributes_per_tree = tuple(
        min(count, depth) for count in attributes_per_tree
    )  # a level asks about one attribute
    base = jax.random.key(seed, impl="threefry2x32")
    kinds = jnp.asarray([_DECK, _OFFSET, _ORDER], jnp.uint32)
    decks_key, offsets_key, orders_key = jax.vmap(jax.random.fold_in, (None, 0))(base, kinds)
    drawn = _attributes_of_tree(len(attributes), attributes_per_tree, decks_key, offsets_key, tree)
    count, chosen, decks, starts = drawn

    # Level l asks attribute l mod k of the tree; it is question l // k of so many.
    level = jnp.arange(depth, dtype=jnp.int32)
    slot, question = level % count, level // count
    feature = chosen[slot]
    asked = (depth - slot + count - 1) // count

    # The quantile of each level.
    start = starts[feature]
    offset = jnp.mod(start + rounded(decks[slot].astype(jnp.float32) * _GOLDEN), 1.0)
    quantile = (question.astype(jnp.float32) + offset) / asked.astype(jnp.float32)

    # The order of the cells, and how much of the mixture is up to each of them.
    mass = mass[:, : max(attribute.cells for attribute in attributes)]
    even = rounded(_EVEN * _even(attributes, mass.shape[1]))
    spread = rounded((1 - _EVEN) * mass) + even
    rank, order = _cell_orders(attributes, feature, jax.random.fold_in(orders_key, tree))
    asked_spread = spread[feature]
    if order is not None:
        asked_spread = jnp.take_along_axis(asked_spread, order, axis=1)
    up_to = jnp.cumsum(asked_spread, axis=1)

    # Cells beyond the cut go right; both sides have at least one known cell.
    cells = jnp.asarray([attribute.cells for attribute in attributes], jnp.int32)[feature]
    ordered = jnp.asarray([attribute.ordered for attribute in attributes])[feature]
    middle = jnp.where(ordered, quantile, 0.5 + 0.5 * (quantile - 0.5))
    cut = jnp.sum(up_to < middle[:, None], axis=1)
    cut = jnp.clip(cut, 0, jnp.maximum(cells - 2, 0))
    known = jnp.arange(mass.shape[1], dtype=jnp.int32)[None] < cells[:, None]
    right = known & (rank > cut[:, None])

    # Where two decks meet, a tree may have an attribute twice, which counts as one.
    first_slot = jnp.argmax(feature[:, None] == chosen[None], axis=1)
    share = _shares(right, first_slot, mass[chosen], max(attributes_per_tree))
    return Asked(feature, jnp.pad(right, ((0, 0), (0, CELLS - mass.shape[1]))), share)


def _cell_orders(
    attributes: tuple[Attribute, ...], feature: Array, key: Array
) -> tuple[Array, Array | None]:
    """i32[D, C]: the rank of each cell in the order that a level cuts, and the cell of each rank.

    Ordered cells keep their order, and others are shuffled. Cells that a feature does not have come
    last. Where all cells keep their order there is None in place of the second.
    """
    place = jnp.arange(max(attribute.cells for attribute in attributes), dtype=jnp.int32)
    unmoved = jnp.broadcast_to(place, (feature.shape[0], place.size))
    most = max((attribute.cells for attribute in attributes if not attribute.ordered), default=0)
    if most == 0:
        return unmoved, None

    # Only the first `most` cells can be out of order.
    cells = jnp.asarray([attribute.cells for attribute in attributes], jnp.int32)[feature]
    ordered = jnp.asarray([attribute.ordered for attribute in attributes])[feature]
    folded = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, feature)
    words = jax.vmap(lambda key: jax.random.bits(key, (most,), jnp.uint32))(folded)
    known = unmoved[:, :most] < cells[:, None]
    shuffled = jnp.where(known, words >> jnp.uint32(1), jnp.uint32(2**31))
    ranks = jnp.where(ordered[:, None], unmoved[:, :most], jax.vmap(_ranks)(shuffled))
    rest = unmoved[:, most:]
    return (
        jnp.concatenate([ranks, rest], axis=1),
        jnp.concatenate([jax.vmap(_inverse)(ranks), rest], axis=1),
    )


def _shares(right: Array, slot: Array, mass: Array, most: int) -> Array:
    """f32[2^D]: the product over attributes of the mass of the cells with the leaf's answers.

    Args:
        right: bool[D, C].
        slot: i32[D], which attribute of the tree each level asks.
        mass: f32[most, C], of the tree's attributes.
        most: how many attributes a tree asks at most.
    """
    depth = right.shape[0]
    bit = jnp.left_shift(1, depth - 1 - jnp.arange(depth, dtype=jnp.int32))
    leaves = jnp.arange(2**depth, dtype=jnp.int32)

    # All attributes at once: a loop here would be as many programs as a tree has attributes.
    attribute = jnp.arange(most, dtype=jnp.int32)[:, None]
    asks = slot[None, :] == attribute
    mask = jnp.sum(jnp.where(asks, bit[None, :], 0), axis=1, keepdims=True)
    answered = asks[:, :, None] & right[None, :, :]
    answers = jnp.sum(jnp.where(answered, bit[None, :, None], 0), axis=1)
    of_leaf = jnp.zeros((most, 2**depth), jnp.float32).at[attribute, answers].add(mass)
    shares = of_leaf.at[attribute, leaves[None, :] & mask].get(mode="promise_in_bounds")
    return functools.reduce(jnp.multiply, shares)
