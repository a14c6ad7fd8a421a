"""Hypotheses in words, by a public domain. All of it is post-processing."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dpbt.base import UNSPLIT
from dpbt.data.domains import Domain, Predicate, attributes, predicates


def of_trees(trees: Any, domain: Domain) -> str:
    """The rules of each tree; a row's score is the sum of what its leaves add.

    Branches whose leaves are all equal are shown as one leaf.

    Args:
        trees: split i32[T, 2**D - 1], leaf f32[T, 2**D].
        domain: the domain that encoded the table that they were learned from.

    Raises:
        ValueError: if a tree splits on something that the domain does not have.
    """
    words = predicates(domain)
    split, leaf = np.asarray(trees.split), np.asarray(trees.leaf)
    if split.max() >= len(words):
        raise ValueError(f"the model uses split {split.max()}, the domain has {len(words)} splits")

    def asked(t: int) -> Callable[[int], Predicate | None]:
        return lambda node: None if split[t, node] == UNSPLIT else words[split[t, node]]

    return _blocks(asked, leaf, "add {:+.4f}".format)


def of_groves(groves: Any, domain: Domain) -> str:
    """The rules of each random tree, and the share of the positive class that its leaves state.

    Args:
        groves: attribute i32[T, P, 2**D - 1], threshold f32[T, P, 2**D - 1], leaf f32[T, P, 2**D].
        domain: the domain that encoded the table that they were learned from.

    Raises:
        ValueError: if a tree asks for an attribute that the domain does not have.
    """
    words = attributes(domain)
    attribute, threshold, leaf = (
        np.asarray(array).reshape(-1, np.shape(array)[-1])
        for array in (groves.attribute, groves.threshold, groves.leaf)
    )
    if attribute.max() >= len(words):
        raise ValueError(
            f"the model uses attribute {attribute.max()}, the domain has {len(words)} attributes"
        )

    def asked(t: int) -> Callable[[int], Predicate | None]:
        return lambda node: words[attribute[t, node]](float(threshold[t, node]))

    return _blocks(asked, leaf, "state {:.4f}".format)


def of_halfspaces(halfspaces: Any, domain: Domain) -> str:
    """What each attribute adds to the score at the upper end of its range, largest first.

    The score of a row is the sum over attributes of that number times the row's place in [0, 1];
    all places of a row are divided by their length where that is above 1.

    Args:
        halfspaces: normal f32[T, d].
        domain: the domain that encoded the table that they were learned from.

    Raises:
        ValueError: if the halfspaces have another number of attributes than the domain.
    """
    words = attributes(domain)
    total = np.asarray(halfspaces.normal, np.float64).sum(axis=0)
    if len(total) != len(words):
        raise ValueError(f"the model has {len(total)} attributes, the domain {len(words)}")
    order = np.argsort(-np.abs(total), kind="stable")
    return "\n".join(f"{total[a]:+.4f}  {words[a].name}" for a in order)


def _blocks(
    asked: Callable[[int], Callable[[int], Predicate | None]],
    leaf: np.ndarray,
    says: Callable[[float], str],
) -> str:
    """All trees, one after the other."""
    blocks = []
    for t in range(len(leaf)):
        lines = _lines(asked(t), leaf[t], says, 0, 0, len(leaf[t]), "  ")
        blocks.append("\n".join([f"tree {t + 1}", *lines]))
    return "\n".join(blocks)


def _lines(
    asked: Callable[[int], Predicate | None],
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
    predicate = asked(node)
    if predicate is None:
        return _lines(asked, leaf, says, *left, indent)
    return [
        f"{indent}if {predicate.yes}:",
        *_lines(asked, leaf, says, *right, deeper),
        f"{indent}else:",
        *_lines(asked, leaf, says, *left, deeper),
    ]
