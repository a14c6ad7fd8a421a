"""Oblivious trees as hypotheses: what they are, and how rows reach their leaves.

All nodes of a level ask the same question, so a tree of depth D partitions the rows by D bits.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import (
    BINARY,
    Array,
    HypothesisClass,
    Params,
    Partition,
    Public,
    Response,
    Table,
    dtype_and_rank,
)
from dpbt.data import questions
from dpbt.learners.hypotheses import OBLIVIOUS, ObliviousTree
from dpbt.learners.oblivious_questions import Attribute
from dpbt.public import without_values


class Rows(NamedTuple):
    """Rows laid out for the loop.

    Attributes:
        cells: u8[F, N].
        target: bool[N]; u8[N] with several classes, and f32[N] in regression.
        present: bool[N].
        weight: f32[N] or None, as in `Table`.
        leaf: u8[N] or u16[N]: the leaf of each row in the tree of the round; None outside of
            rounds.
    """

    cells: Array
    target: Array
    present: Array
    weight: Array | None = None
    leaf: Array | None = None

    __repr__ = without_values


def prepare(table: Table) -> Rows:
    """The rows of a table, column by column."""
    return Rows(jnp.asarray(table.cells).T, table.target, table.present, table.weight)


def cells_of(attributes: tuple[Attribute, ...], rows: Rows) -> Array:
    """u8[F, N]: the features that the domain has; a padded table may have more.

    Raises:
        ValueError: for fewer features.
    """
    features = len(attributes)
    if rows.cells.shape[0] < features:
        raise ValueError(f"the recipe's domain has {features} columns, and the table has fewer")
    return rows.cells[:features]


def leaves_of(attributes: tuple[Attribute, ...], tree: ObliviousTree, cells: Array) -> Array:
    """u8[N], or u16[N] from a depth of 9 on: the leaf that each row ends in."""
    small = jnp.uint8 if tree.feature.shape[0] <= 8 else jnp.uint16
    known = tree.right[:, : max(attribute.cells for attribute in attributes)]

    def ask(leaf: Array, level: tuple[Array, Array, _Run]) -> tuple[Array, None]:
        feature, right, run = level
        cell = jax.lax.dynamic_index_in_dim(cells, feature, keepdims=False)
        goes = _goes_right(attributes, feature, right, run, cell)
        return leaf + leaf + goes.astype(small), None

    start = jnp.zeros(cells.shape[1], small)
    return jax.lax.scan(ask, start, (tree.feature, known, _runs_of(known)))[0]


def leaves_in(attributes: tuple[Attribute, ...], tree: ObliviousTree, rows: Rows) -> Array:
    """As `leaves_of`: what the loop has worked out for the round, or worked out here."""
    if rows.leaf is not None:
        return rows.leaf
    return leaves_of(attributes, tree, cells_of(attributes, rows))


class _Run(NamedTuple):
    """A set of cells without gaps.

    Attributes:
        first: u8[], its first cell.
        cells: u8[], how many cells it has.
    """

    first: Array
    cells: Array


def _runs_of(right: Array) -> _Run:
    """The sets of all levels, worked out at once: a loop over levels takes longer for it."""
    first = jnp.argmax(right, axis=1).astype(jnp.uint8)
    return _Run(first, jnp.sum(right, axis=1, dtype=jnp.int32).astype(jnp.uint8))


def _goes_right(
    attributes: tuple[Attribute, ...], feature: Array, right: Array, run: _Run, cell: Array
) -> Array:
    """bool[N]: whether cells go right at a level, by comparisons instead of a lookup.

    Args:
        attributes: of the domain.
        feature: i32[], of the level.
        right: bool[C], of the level.
        run: the same cells, if they have no gap.
        cell: u8[N], of the feature.
    """
    sets = [attribute.cells for attribute in attributes if not attribute.ordered]
    if not sets:
        return _in_run(run, cell)
    if len(sets) == len(attributes):
        return _in_set(right, cell, max(sets))
    ordered = jnp.asarray([attribute.ordered for attribute in attributes])[feature]
    return jnp.where(ordered, _in_run(run, cell), _in_set(right, cell, max(sets)))


def _in_run(run: _Run, cell: Array) -> Array:
    """bool[N]: whether each cell is in a set without gaps."""
    return cell - run.first < run.cells


_WORD = 32


def _in_set(right: Array, cell: Array, cells: int) -> Array:
    """bool[N]: whether each cell is in a set of cells below `cells`; the set is bits of words."""
    count = -(-cells // _WORD)
    padded = jnp.pad(right, (0, max(count * _WORD - right.shape[0], 0)))
    bits = padded[: count * _WORD].reshape(count, _WORD).astype(jnp.uint32)
    place = jnp.arange(_WORD, dtype=jnp.uint32)[None]
    words = jnp.sum(bits << place, axis=1, dtype=jnp.uint32)
    word = jnp.zeros(cell.shape, jnp.uint32)
    for number in range(count):
        word = jnp.where(cell // _WORD == number, words[number], word)
    return (word >> (cell % _WORD).astype(jnp.uint32)) & 1 == 1


def place(
    attributes: tuple[Attribute, ...], structure: tuple[ObliviousTree, Array], rows: Rows
) -> Rows:
    """The rows, each with its leaf in the round's tree."""
    tree, _ = structure
    return rows._replace(leaf=leaves_of(attributes, tree, cells_of(attributes, rows)))


def _check_table(attributes: tuple[Attribute, ...], table: Table) -> None:
    """Refuse a table that does not hold cells of the columns of the recipe's domain.

    Of the table the check reads the dtype and rank of the cells, the number of features, and the
    public questions.

    Raises:
        ValueError: saying what is expected.
    """
    questions.check(table)
    if table.cells.dtype != jnp.uint8:
        raise ValueError(
            f"oblivious trees read cells, uint8 of rank 2, got {dtype_and_rank(table.cells)}"
        )
    if table.cells.shape[1] != len(attributes):
        raise ValueError(
            f"the recipe's domain has {len(attributes)} columns, "
            "and the table has another number of them"
        )

    # A column has a cell for each of its questions, and at most one that no question knows.
    asked = table.questions
    assert asked is not None  # as `questions.check` says
    known = np.ones(len(attributes), int)
    np.maximum.at(known, np.asarray(asked.feature), np.asarray(asked.high).astype(int) + 1)
    for number, (attribute, cells) in enumerate(zip(attributes, known.tolist(), strict=True)):
        if not cells <= attribute.cells <= cells + 1:
            raise ValueError(
                f"the table is of another domain than the recipe: column {number} of the recipe's "
                f"domain has {attribute.cells} cells, and the table's questions know {cells}"
            )


def predict(attributes: tuple[Attribute, ...], tree: ObliviousTree, rows: Rows) -> Array:
    """f32[N], or f32[K, N] with several classes: the value of each row's leaf."""
    leaf = leaves_in(attributes, tree, rows)
    return tree.leaf.at[..., leaf.astype(jnp.int32)].get(mode="promise_in_bounds")


def hypothesis_class(
    attributes: tuple[Attribute, ...],
    structure: Callable[[Params, Public], tuple[ObliviousTree, Array]],
    response: Response = BINARY,
) -> HypothesisClass:
    """Oblivious trees over the cells of a domain.

    Args:
        attributes: of the domain.
        structure: (params, public) -> the questions of a round, and what else is public in it.
        response: what is predicted.
    """

    def example() -> Table:
        features = len(attributes)
        asked = questions.of_bits(features)
        cells, target = jnp.zeros((1, features), jnp.uint8), jnp.zeros(1, response.dtype)
        return Table(cells, target, jnp.zeros(1, bool), asked)

    return HypothesisClass(
        example=example,
        check=functools.partial(_check_table, attributes),
        prepare=prepare,
        predict=functools.partial(predict, attributes),
        bound=lambda tree: jnp.max(jnp.abs(tree.leaf)),
        scaled=lambda trees, slope: trees._replace(leaf=trees.leaf * slope),
        response=response,
        partition=Partition(
            structure, functools.partial(place, attributes), lambda found: found[0].feature
        ),
        kind=OBLIVIOUS,
    )
