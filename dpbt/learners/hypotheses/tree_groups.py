"""Groups of random trees: thresholds on positions, and leaves that state shares."""

from typing import Any, NamedTuple

import numpy as np

from dpbt.arithmetic import Array, each, fold, namespace
from dpbt.data.domains import Domain, Predicate, attributes
from dpbt.learners.hypotheses import words
from dpbt.learners.hypotheses.graph import Graph, Value
from dpbt.learners.hypotheses.kind import Heap, Kind, check_heap, check_within
from dpbt.public import Questions


class TreeGroup(NamedTuple):
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


def routes(group: TreeGroup, position: Any) -> Any:
    """i32[P, N]: the leaf of each tree that each row ends in; position f32[N, A]."""
    xp, inner = namespace(*group, position), group.attribute.shape[-1]

    def leaves_of_tree(structure: tuple[Any, Any]) -> Any:
        attribute, threshold = structure

        def ask(node: Any, _: Any) -> Any:
            value = xp.take_along_axis(position, attribute[node][:, None], axis=1)[:, 0]
            return 2 * node + 1 + (value > threshold[node]).astype(np.int32)

        start = xp.zeros(position.shape[0], np.int32)
        return fold(ask, start, xp.arange((inner + 1).bit_length() - 1)) - inner

    return each(leaves_of_tree, (group.attribute, group.threshold))


def leaf_shares(group: TreeGroup, position: Any) -> Any:
    """f32[P, N]: theta of the leaf of each tree that each row ends in."""
    xp = namespace(*group, position)
    return xp.take_along_axis(group.leaf, routes(group, position), axis=1)


def votes(group: TreeGroup, position: Any) -> Any:
    """f32[N]: the number of trees that say positive minus the number that say negative."""
    xp, grown = namespace(*group, position), group.grown[:, None]
    return xp.sum(xp.where(leaf_shares(group, position) > 0.5, grown, -grown), axis=0)


def theta(trees: TreeGroup, position: Any) -> Any:
    """f32[k, N]: the share of the positive class that each tree's leaf states for each row.

    Args:
        trees: a TreeGroup with any leading axes, such as `Model.hypotheses`. Padding beyond the
            number of rounds states NaN.
        position: f32[N, A].
    """
    attribute, threshold, leaf = (array.reshape(-1, array.shape[-1]) for array in trees[:3])
    stated = leaf_shares(TreeGroup(attribute, threshold, leaf, trees.grown), position)
    xp = namespace(stated)
    return xp.where(trees.grown.reshape(-1)[:, None] > 0, stated, np.float32(np.nan))


def made(attribute: np.ndarray, threshold: np.ndarray, leaf: np.ndarray) -> TreeGroup:
    """The grown trees of some arrays."""
    return TreeGroup(attribute, threshold, leaf, np.ones(leaf.shape[:-1], np.float32))


def _check(
    tree_groups: TreeGroup, features: int, questions: Questions | None, axes: tuple[int, ...]
) -> None:
    if (
        axes
        or tree_groups.leaf.ndim != 3
        or tree_groups.attribute.shape != tree_groups.threshold.shape
    ):
        raise ValueError("attribute, threshold and leaf must be of the same trees")
    check_heap(np.asarray(tree_groups.attribute), np.asarray(tree_groups.leaf))
    known = features if questions is None else len(questions.attribute)
    check_within("attribute", tree_groups.attribute, 0, known)


def _heap(tree_groups: TreeGroup, questions: Questions, domain: Domain) -> Heap:
    attribute, threshold, leaf = (np.asarray(a).reshape(-1, a.shape[-1]) for a in tree_groups[:3])
    column, position = np.asarray(questions.attribute), np.asarray(questions.position)
    known = attributes(domain)

    def ask(tree: np.ndarray, node: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        asked = attribute[tree, node]
        return column[asked], position[asked] > threshold[tree, node][:, None]

    def in_words(tree: int, node: int) -> Predicate:
        return known[attribute[tree, node]](float(threshold[tree, node]))

    return Heap(ask, in_words, leaf)


def _nodes(
    graph: Graph, tree_groups: TreeGroup, rows: Value, questions: Questions | None
) -> tuple[Value, Value]:
    positions = graph.positions(rows, questions)
    attribute = graph.constant(np.asarray(tree_groups.attribute).reshape(-1), np.int64)
    threshold = graph.constant(np.asarray(tree_groups.threshold).reshape(-1), np.float32)

    def right(node: Value) -> Value:
        value = graph.add("GatherElements", positions, attribute.at(node), axis=1)
        return (value > threshold.at(node)).cast("INT64")

    leaf = np.asarray(tree_groups.leaf).reshape(-1, tree_groups.leaf.shape[-1])
    shares = graph.descend(positions, leaf, right)
    vote = (shares > np.float32(0.5)).cast("FLOAT") * np.float32(2) + np.float32(-1)
    return vote.sum(), graph.add("ReduceMean", shares, axes=[1], keepdims=0)


TREE_GROUPS = Kind(
    name="tree_groups",
    predict=votes,
    read=lambda rows: rows.positions,
    shares=theta,
    arrays=(("attribute", "int32"), ("threshold", "float32"), ("leaf", "float32")),
    make=made,
    check=_check,
    explain=lambda tree_groups, heap, domain, *_: words.of_groves(heap, domain),
    heap=_heap,
    nodes=_nodes,
)
"""Groups over positions. Their sum is a majority vote; `model.vote` has all voting rules."""
