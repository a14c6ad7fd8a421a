"""Groves of random trees: thresholds on positions, and leaves that state shares."""

from typing import Any, NamedTuple

import numpy as np

from dpbt.arithmetic import Array, each, fold, namespace
from dpbt.data.domains import Domain, Predicate, attributes
from dpbt.learners.hypotheses import words
from dpbt.learners.hypotheses.graph import Graph, Value
from dpbt.learners.hypotheses.kind import Heap, Kind, check_heap, check_within
from dpbt.public import Questions


class Grove(NamedTuple):
    """P complete trees of height D; a forest has more leading axes.

    Attributes:
        attribute: i32[P, 2^D - 1], heap order: the children of node i are 2i+1 and 2i+2 (right).
        threshold: f32[P, 2^D - 1] in [0, 1): a row goes right if its position is above it.
        leaf: f32[P, 2^D]: theta, the share of the positive class that the leaf states, in [0, 1].
        grown: f32[P]: 1 for a grown tree, 0 for padding beyond the number of rounds.
    """

    attribute: Array
    threshold: Array
    leaf: Array
    grown: Array


def routes(grove: Grove, position: Any) -> Any:
    """i32[P, N]: the leaf of each tree that each row ends in; position f32[N, A]."""
    xp, inner = namespace(*grove, position), grove.attribute.shape[-1]

    def leaves_of_tree(structure: tuple[Any, Any]) -> Any:
        attribute, threshold = structure

        def ask(node: Any, _: Any) -> Any:
            value = xp.take_along_axis(position, attribute[node][:, None], axis=1)[:, 0]
            return 2 * node + 1 + (value > threshold[node]).astype(np.int32)

        start = xp.zeros(position.shape[0], np.int32)
        return fold(ask, start, xp.arange((inner + 1).bit_length() - 1)) - inner

    return each(leaves_of_tree, (grove.attribute, grove.threshold))


def leaf_shares(grove: Grove, position: Any) -> Any:
    """f32[P, N]: theta of the leaf of each tree that each row ends in."""
    xp = namespace(*grove, position)
    return xp.take_along_axis(grove.leaf, routes(grove, position), axis=1)


def votes(grove: Grove, position: Any) -> Any:
    """f32[N]: the number of trees that say positive minus the number that say negative."""
    xp, grown = namespace(*grove, position), grove.grown[:, None]
    return xp.sum(xp.where(leaf_shares(grove, position) > 0.5, grown, -grown), axis=0)


def theta(trees: Grove, position: Any) -> Any:
    """f32[k, N]: the share of the positive class that each tree's leaf states for each row.

    Args:
        trees: a Grove with any leading axes, such as `Model.hypotheses`. Padding beyond the number
            of rounds states NaN.
        position: f32[N, A].
    """
    attribute, threshold, leaf = (array.reshape(-1, array.shape[-1]) for array in trees[:3])
    stated = leaf_shares(Grove(attribute, threshold, leaf, trees.grown), position)
    xp = namespace(stated)
    return xp.where(trees.grown.reshape(-1)[:, None] > 0, stated, np.float32(np.nan))


def made(attribute: np.ndarray, threshold: np.ndarray, leaf: np.ndarray) -> Grove:
    """The grown trees of some arrays."""
    return Grove(attribute, threshold, leaf, np.ones(leaf.shape[:-1], np.float32))


def _check(
    groves: Grove, features: int, questions: Questions | None, axes: tuple[int, ...]
) -> None:
    if axes or groves.leaf.ndim != 3 or groves.attribute.shape != groves.threshold.shape:
        raise ValueError("attribute, threshold and leaf must be of the same trees")
    check_heap(np.asarray(groves.attribute), np.asarray(groves.leaf))
    known = features if questions is None else len(questions.attribute)
    check_within("attribute", groves.attribute, 0, known)


def _heap(groves: Grove, questions: Questions, domain: Domain) -> Heap:
    attribute, threshold, leaf = (np.asarray(a).reshape(-1, a.shape[-1]) for a in groves[:3])
    column, position = np.asarray(questions.attribute), np.asarray(questions.position)
    known = attributes(domain)

    def ask(tree: np.ndarray, node: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        asked = attribute[tree, node]
        return column[asked], position[asked] > threshold[tree, node][:, None]

    def in_words(tree: int, node: int) -> Predicate:
        return known[attribute[tree, node]](float(threshold[tree, node]))

    return Heap(ask, in_words, leaf)


def _nodes(
    graph: Graph, groves: Grove, rows: Value, questions: Questions | None
) -> tuple[Value, Value]:
    positions = graph.positions(rows, questions)
    attribute = graph.constant(np.asarray(groves.attribute).reshape(-1), np.int64)
    threshold = graph.constant(np.asarray(groves.threshold).reshape(-1), np.float32)

    def right(node: Value) -> Value:
        value = graph.add("GatherElements", positions, attribute.at(node), axis=1)
        return (value > threshold.at(node)).cast("INT64")

    leaf = np.asarray(groves.leaf).reshape(-1, groves.leaf.shape[-1])
    shares = graph.descend(positions, leaf, right)
    vote = (shares > np.float32(0.5)).cast("FLOAT") * np.float32(2) + np.float32(-1)
    return vote.sum(), graph.add("ReduceMean", shares, axes=[1], keepdims=0)


GROVES = Kind(
    name="groves",
    predict=votes,
    read=lambda rows: rows.positions,
    shares=theta,
    arrays=(("attribute", "int32"), ("threshold", "float32"), ("leaf", "float32")),
    make=made,
    check=_check,
    explain=lambda groves, heap, domain, *_: words.of_groves(heap, domain),
    heap=_heap,
    nodes=_nodes,
)
"""Groves over positions. Their sum is a majority vote; `model.vote` has all voting rules."""
