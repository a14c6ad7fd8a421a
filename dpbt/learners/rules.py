"""Hypotheses in words, by a public domain. All of it is post-processing."""

from collections.abc import Callable

import numpy as np

from dpbt.base import UNSPLIT, Hypotheses
from dpbt.data.domains import Domain, Predicate, attributes, predicates
from dpbt.data.kinds import Boolean, Column, Nominal, Numeric


def cells_in_words(kind: Column, chosen: np.ndarray) -> str:
    """What the chosen cells bool[CELLS] of a column hold, as in "> 37.5" or "in {a, b}"."""
    match kind:
        case Numeric():
            first = int(np.argmax(chosen[: kind.bins])) if chosen[: kind.bins].any() else kind.bins
            missing = [" or is missing"] if kind.missing and chosen[kind.bins] else []
            if first == kind.bins:
                return "is missing"
            return f"> {kind.thresholds[first - 1]:g}{''.join(missing)}"
        case Nominal():
            listed = [value for value, yes in zip(kind.values, chosen, strict=False) if yes]
            other = ["not listed"] if kind.other is None and chosen[len(kind.values)] else []
            return f"in {{{', '.join([*listed, *other])}}}"
        case Boolean():
            words = [kind.false, kind.true, "missing"]
            picked = [word for word, yes in zip(words, chosen, strict=False) if yes]
            return f"in {{{', '.join(picked[: kind.cells])}}}"


PredicateOf = Callable[[int], Predicate | None]
"""node of a tree -> what the node asks, or None where it is not split."""


def of_trees(trees: Hypotheses, domain: Domain) -> str:
    """The rules of each tree; a row's score is the sum of what its leaves add.

    Branches whose leaves are all equal are shown as one leaf.

    Args:
        trees: split i32[T, 2**D - 1], leaf f32[T, 2**D].
        domain: the domain that encoded the table that they were learned from.

    Raises:
        ValueError: if a tree splits on something that the domain does not have.
    """
    known = predicates(domain)
    split, leaf = np.asarray(trees.split), np.asarray(trees.leaf)
    if split.max() >= len(known):
        raise ValueError(f"the model uses split {split.max()}, the domain has {len(known)} splits")

    def predicates_of(t: int) -> PredicateOf:
        return lambda node: None if split[t, node] == UNSPLIT else known[split[t, node]]

    return _blocks(predicates_of, leaf, "add {:+.4f}".format)


def of_oblivious_trees(trees: Hypotheses, domain: Domain) -> str:
    """The questions of each level and the values of the leaves, a line for each leaf.

    Args:
        trees: feature i32[T, D], right bool[T, D, CELLS], leaf f32[T, 2**D].
        domain: the domain that encoded the table that they were learned from.

    Raises:
        ValueError: if the domain has another number of columns than the trees read.
    """
    names, kinds = list(domain), list(domain.values())
    feature, right, leaf = (np.asarray(array) for array in (trees.feature, trees.right, trees.leaf))
    if feature.max() >= len(names):
        raise ValueError(
            f"the model reads column {feature.max()}, the domain has {len(names)} columns"
        )

    lines = []
    for t, values in enumerate(leaf):
        lines.append(f"tree {t + 1}")
        depth = feature.shape[1]
        for level in range(depth):
            f = feature[t, level]
            lines.append(
                f"  question {level + 1}: {names[f]} {cells_in_words(kinds[f], right[t, level])}"
            )
        for index, value in enumerate(values):
            answers = format(index, f"0{depth}b").replace("0", "n").replace("1", "y")
            lines.append(f"  {answers}: add {value:+.4f}")
    return "\n".join(lines)


def of_groves(groves: Hypotheses, domain: Domain) -> str:
    """The rules of each random tree, and the share of the positive class that its leaves state.

    Args:
        groves: attribute i32[T, P, 2**D - 1], threshold f32[T, P, 2**D - 1], leaf f32[T, P, 2**D].
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

    The score of a row is the sum over attributes of that number times the row's place in [0, 1];
    all places of a row are divided by their length where that is above 1.

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
    """All trees, one after the other."""
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
