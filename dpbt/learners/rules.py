"""Hypotheses in words, with the names of a public domain. All of this is post-processing."""

from collections.abc import Callable

import numpy as np

from dpbt.base import UNSPLIT, Hypotheses
from dpbt.data.domains import Domain, Predicate, attributes, predicates

PredicateOf = Callable[[int], Predicate | None]
"""Node of a tree -> its predicate, or None if the node is not split."""


def of_trees(trees: Hypotheses, domain: Domain) -> str:
    """The rules of each tree. A row's score is the sum of what its leaves add.

    A branch whose leaves are all equal is shown as one leaf.

    Args:
        trees: `split` i32[T, 2^D - 1] and `leaf` f32[T, 2^D].
        domain: the domain that encoded the table that they were learned from.

    Raises:
        ValueError: if a tree uses a split that the domain does not have.
    """
    known = predicates(domain)
    split, leaf = np.asarray(trees.split), np.asarray(trees.leaf)
    if split.max() >= len(known):
        raise ValueError(f"the model uses split {split.max()}, the domain has {len(known)} splits")

    def predicates_of(t: int) -> PredicateOf:
        return lambda node: None if split[t, node] == UNSPLIT else known[split[t, node]]

    return _blocks(predicates_of, leaf, "add {:+.4f}".format)


def of_groves(groves: Hypotheses, domain: Domain) -> str:
    """The rules of each random tree, and the share of the positive class that its leaves state.

    Args:
        groves: `attribute` i32[T, P, 2^D - 1], `threshold` f32[T, P, 2^D - 1] and `leaf`
            f32[T, P, 2^D].
        domain: the domain that encoded the table that they were learned from.

    Raises:
        ValueError: if a tree asks for an attribute that the domain does not have.
    """
    known = attributes(domain)
    arrays = (groves.attribute, groves.threshold, groves.leaf)
    attribute, threshold, leaf = (
        np.asarray(array).reshape(-1, np.shape(array)[-1]) for array in arrays
    )
    if attribute.max() >= len(known):
        raise ValueError(
            f"the model uses attribute {attribute.max()}, the domain has {len(known)} attributes"
        )

    def predicates_of(t: int) -> PredicateOf:
        return lambda node: known[attribute[t, node]](float(threshold[t, node]))

    return _blocks(predicates_of, leaf, "share of positive {:.4f}".format)


def of_halfspaces(halfspaces: Hypotheses, domain: Domain) -> str:
    """What each attribute adds to the score at the upper end of its range, largest first.

    The score of a row is the sum over attributes of that number times the row's position in [0, 1].
    All positions of a row are divided by their length if that is above 1.

    Args:
        halfspaces: normal f32[T, d].
        domain: the domain that encoded the table that they were learned from.

    Raises:
        ValueError: if the halfspaces have another number of attributes than the domain.
    """
    known = attributes(domain)
    total = np.asarray(halfspaces.normal, np.float64).sum(axis=0)
    if len(total) != len(known):
        raise ValueError(f"the model has {len(total)} attributes, the domain {len(known)}")
    order = np.argsort(-np.abs(total), kind="stable")
    return "\n".join(f"{total[a]:+.4f}  {known[a].name}" for a in order)


def _blocks(
    predicates_of: Callable[[int], PredicateOf],
    leaf: np.ndarray,
    says: Callable[[float], str],
) -> str:
    """The rules of all trees, one tree after the other."""
    blocks = []
    for t in range(len(leaf)):
        lines = _lines(predicates_of(t), leaf[t], says, 0, 0, len(leaf[t]), "  ")
        blocks.append("\n".join([f"tree {t + 1}", *lines]))
    return "\n".join(blocks)


def _lines(
    predicate_of: PredicateOf,
    leaf: np.ndarray,
    says: Callable[[float], str],
    node: int,
    first: int,
    width: int,
    indent: str,
) -> list[str]:
    """The lines of a node whose leaves are first, ..., first + width - 1."""
    below = leaf[first : first + width]
    if np.all(below == below[0]):
        return [f"{indent}{says(float(below[0]))}"]

    half, deeper = width // 2, indent + "  "
    left, right = (2 * node + 1, first, half), (2 * node + 2, first + half, half)
    predicate = predicate_of(node)
    if predicate is None:
        return _lines(predicate_of, leaf, says, *left, indent)
    return [
        f"{indent}if {predicate.yes}:",
        *_lines(predicate_of, leaf, says, *right, deeper),
        f"{indent}else:",
        *_lines(predicate_of, leaf, says, *left, deeper),
    ]
