"""Floors of a sweep of boosted trees: what products, bytes and random words take by themselves.

Each floor is measured in the run that measures the sweep, on arrays of the same shapes. None of
them is a bound for all programs. They say what a sweep of the same products, bytes and words would
take if it did nothing else.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.learners import trees
from dpbt.privacy import keys, variates
from experiments.common import timing

_LAPLACE_WORDS = 2 * variates.EXPONENTIAL_WORDS
"""Words of one discrete Laplace variable."""

_STREAMED = 2**26
"""Bytes that a measurement of the rate of bytes reads and writes, at least."""

_CALLS = 8
"""How often a thread calls what is measured, so that starting a thread counts little."""


class Floors(NamedTuple):
    """Seconds of a whole sweep, if it did one thing only.

    Attributes:
        products: its products of small integers.
        bytes: the bytes that it reads and writes beside products.
        words: its random words.
    """

    products: float
    bytes: float
    words: float

    @property
    def bound(self) -> str:
        """The name of the largest floor."""
        return max(self._fields, key=lambda name: getattr(self, name))

    def share(self, seconds: float) -> float:
        """How much of a sweep's seconds its largest floor is."""
        return max(self) / seconds

    def all(self, seconds: float) -> float:
        """How much of a sweep's seconds all floors together are."""
        return sum(self) / seconds


def right_siblings(depth: int) -> list[int]:
    """How many nodes each level multiplies for: the root, and then the right siblings."""
    return [max(2**level // 2, 1) for level in range(depth)]


def level_words(splits: int, depth: int) -> list[int]:
    """Random words of each level: groups and candidates of all nodes, and a count of errors."""
    size = math.isqrt(splits - 1) + 1
    of_node = variates.EXPONENTIAL_WORDS * (-(-splits // size) + size)
    return [2**level * of_node + _LAPLACE_WORDS for level in range(depth)]


def round_bytes(rows: int, depth: int) -> int:
    """Bytes that one model reads and writes in a round beside the table's splits.

    Weights read a score, the class and whether the row is there, and write two bytes. A level reads
    them and a node, and writes the left operand of its product, which the product reads. Above the
    last level routing reads a column for each node, and reads and writes a node. A prediction
    reads a column for each node of the tree and a score, and writes a score.
    """
    operands = sum(2 + 1 + 4 * right for right in right_siblings(depth))
    routing = sum(2**level + 2 for level in range(depth - 1))
    return rows * (4 + 2 + 2 + operands + routing + 2**depth - 1 + 8)


class Layout(NamedTuple):
    """How a sweep runs its models.

    Attributes:
        lanes: how many models one call trains at a time.
        threads: how many calls run side by side.
    """

    lanes: int
    threads: int = 1

    def fastest(self, call: Callable[[], Any], repeats: int) -> float:
        """Seconds of `call` in each of the threads side by side, the fewest of so many repeats.

        A thread calls it several times in a row, so that starting threads counts little.
        """

        def calls(_: int) -> list[Any]:
            return [call() for _ in range(_CALLS)]

        timed = timing.measure(lambda _: timing.side_by_side(calls, self.threads), repeats)
        return timed.fastest / _CALLS


def _product_seconds(rows: int, splits: int, depth: int, layout: Layout, repeats: int) -> float:
    """Seconds of the products of a round of all models of a layout, level after level."""
    rng = np.random.default_rng(0)
    columns = jax.device_put(rng.integers(0, 2, (splits, rows), np.int8))
    product = jax.jit(jax.vmap(trees.product, (0, None)))
    seconds = 0.0
    for right in right_siblings(depth):
        left = jnp.ones((layout.lanes, 2 * right, rows), jnp.int8)
        seconds += layout.fastest(lambda left=left: product(left, columns), repeats)
    return seconds


def _stream_seconds(rows: int, depth: int, layout: Layout, repeats: int) -> float:
    """Seconds of the bytes of a round of all models of a layout.

    They go at the rate of passes that read and write a float32 for each row of each lane.
    """
    call, streamed = stream((layout.lanes, rows))
    moved = layout.lanes * round_bytes(rows, depth)
    return layout.fastest(call, repeats) * moved / streamed


def stream(shape: tuple[int, ...]) -> tuple[Callable[[], jax.Array], int]:
    """A call that passes over an array of float32 many times, and the bytes it reads and writes."""
    array = jnp.zeros(shape, jnp.float32)
    passes = max(_STREAMED // (8 * array.size), 1)

    @jax.jit
    def passed(array: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, passes, lambda _, array: array * 0.5 + 1, array)

    return lambda: passed(array), 8 * array.size * passes


def _word_seconds(splits: int, depth: int, layout: Layout, repeats: int) -> float:
    """Seconds of the random words of a round of a layout, drawn as the rounds draw them."""
    counts = [*level_words(splits, depth), 2 * 2**depth * _LAPLACE_WORDS]

    @jax.jit
    @jax.vmap
    def draw(key: jax.Array) -> list[jax.Array]:
        sites = jax.random.split(key, len(counts))
        return [
            keys.words(site, 1, (count,)).max() for site, count in zip(sites, counts, strict=True)
        ]

    lane_keys = jax.random.split(jax.random.key(0), layout.lanes)
    return layout.fastest(lambda: draw(lane_keys), repeats)


def of_greedy_trees(
    shape: tuple[int, int], depth: int, rounds: int, models: int, layout: Layout, repeats: int
) -> Floors:
    """The floors of a sweep of greedy trees.

    Args:
        shape: (rows, splits).
        depth: D.
        rounds: T.
        models: the number of settings.
        layout: how the models run.
        repeats: timed runs of each measurement; the fastest counts.
    """
    rows, splits = shape
    # One call with all lanes may be faster than several side by side; a floor is the fastest.
    together = layout.lanes * layout.threads
    layouts = {layout, Layout(together)}

    def fewest(seconds: Callable[[Layout], float]) -> float:
        return rounds * models / together * min(map(seconds, layouts))

    return Floors(
        products=fewest(lambda one: _product_seconds(rows, splits, depth, one, repeats)),
        bytes=fewest(lambda one: _stream_seconds(rows, depth, one, repeats)),
        words=fewest(lambda one: _word_seconds(splits, depth, one, repeats)),
    )
