"""Hypotheses in words, by a public domain. All of it is post-processing."""

from __future__ import annotations  # so that a branch may hold branches

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dpbt.data.domains import Domain, Predicate, attributes, predicates, questions
from dpbt.data.kinds import Boolean, Column, Nominal, Numeric
from dpbt.data.targets import Target
from dpbt.public import UNSPLIT


def cells_in_words(kind: Column, chosen: np.ndarray) -> str:
    """What the chosen cells bool[CELLS] of a column hold, as in "> 37.5" or "in {a, b}"."""
    match kind:
        case Numeric():
            first = int(np.argmax(chosen[: kind.bins])) if chosen[: kind.bins].any() else kind.bins
            missing = [" or is missing"] if kind.missing and chosen[kind.bins] else []
            if first == kind.bins:
                return "is missing"
            return f"> {kind.threshold_words[first - 1]}{''.join(missing)}"
        case Nominal():
            listed = [name for name, yes in zip(kind.names, chosen, strict=False) if yes]
            unlisted = ["not listed"] if kind.other is None and chosen[len(kind.names)] else []
            if not kind.ordered:
                return f"in {{{', '.join([*listed, *unlisted])}}}"
            beyond = [f">= {name}" for name in listed[:1]]
            return " or ".join([*beyond, *(f"is {words}" for words in unlisted)])
        case Boolean():
            words = [kind.false, kind.true, "missing"]
            picked = [word for word, yes in zip(words, chosen, strict=False) if yes]
            return f"in {{{', '.join(picked[: kind.cells])}}}"


Hypotheses = Any
"""Hypotheses of all rounds, stacked along a leading axis."""

DIGITS = 4
"""Decimals that are shown of a score, and digits of a number in its units."""

_SCORES = "score of a row: the sum of what the trees add; positive above 0"


class Asked(NamedTuple):
    """What a node of a tree asks.

    Attributes:
        predicate: in words.
        feature: the number of the column whose cell it reads.
        cells: the cells that satisfy it.
    """

    predicate: Predicate
    feature: int
    cells: frozenset[int]


AskedAt = Callable[[int], Asked | None]
"""node of a tree -> what the node asks, or None where it is not split."""

Branch: TypeAlias = "float | tuple[Predicate, Branch, Branch]"
"""A leaf; or what a node asks, the branch of rows that satisfy it, and that of the others."""


def of_trees(trees: Hypotheses, domain: Domain) -> str:
    """The rules of each tree; a row's score is the sum of what its leaves add.

    Only branches that a row can reach are shown. Branches that add the same are shown as one leaf,
    and trees of one leaf only as a number of trees.

    Args:
        trees: split i32[T, 2^D - 1], leaf f32[T, 2^D].
        domain: the domain that encoded the table that they were learned from.

    Raises:
        ValueError: if a tree splits on something that the domain does not have.
    """
    asked_by, leaf = _asked_of_trees(trees, domain)

    def says(value: float) -> str:
        return f"add {value:+.{DIGITS}f}"

    def of_all(values: list[float]) -> str:
        return f"together they {says(sum(values))} to every row"

    return "\n".join([_SCORES, *_blocks(asked_by, leaf, domain, says, of_all)])


def of_oblivious_trees(
    trees: Hypotheses,
    domain: Domain,
    target: Target | None = None,
    classes: Sequence[Any] | None = None,
) -> str:
    """The questions of each tree, and what its leaves add.

    The leaves of a tree of up to 3 questions are listed by their answers, n for no and y for yes.
    Of a larger tree the smallest and the largest value are shown. With several classes there is a
    line for each class. Of a number, values are in its units.

    Args:
        trees: feature i32[T, D], right bool[T, D, CELLS], leaf f32[T, 2^D], or f32[T, K, 2^D] with
            several classes.
        domain: the domain that encoded the table that they were learned from.
        target: the declared classes or range; None for two classes.
        classes: the names of several classes, if not the declared ones.

    Raises:
        ValueError: if the domain has another number of columns than the trees read.
    """
    leaf = np.asarray(trees.leaf)
    lines = [_head(target)]
    for t, values in enumerate(leaf):
        lines.append(f"tree {t + 1}")
        asked = questions_of_tree(trees, domain, t)
        lines += [f"  question {k + 1}: {each.predicate.yes}" for k, each in enumerate(asked)]
        lines += [f"  {line}" for line in _leaves_in_words(values, target, classes)]
    return "\n".join(lines)


def _head(target: Target | None) -> str:
    """What the values of leaves add up to."""
    match target:
        case Nominal():
            return (
                "scores of a row: for each class the sum of what the trees add; "
                "the class of the largest is predicted"
            )
        case Numeric():
            return (
                "number of a row: the sum of what the trees add, "
                f"clipped to {target.low:g}..{target.high:g}"
            )
    return _SCORES


def _leaves_in_words(
    values: np.ndarray, target: Target | None, classes: Sequence[Any] | None
) -> list[str]:
    """The lines of a tree's leaves.

    Args:
        values: f[2^D], or f[K, 2^D] with several classes.
        target: as in `of_oblivious_trees`.
        classes: as in `of_oblivious_trees`.
    """
    leaves = values.shape[-1]
    depth = leaves.bit_length() - 1
    answers = [f"{i:0{depth}b}".replace("0", "n").replace("1", "y") for i in range(leaves)]
    if isinstance(target, Nominal):
        of_class = zip(classes or target.names, values, strict=True)
        if depth > 3:
            return [f"{word}: {leaves} leaves, each {_range(row, None)}" for word, row in of_class]
        return [
            f"{word}: "
            + ", ".join(f"{a} {added(v, None)}" for a, v in zip(answers, row, strict=True))
            for word, row in of_class
        ]
    if depth > 3:
        return [f"leaves: {leaves}, each {_range(values, target)}"]
    return [f"{a}: add {added(v, target)}" for a, v in zip(answers, values, strict=True)]


def _range(values: np.ndarray, target: Target | None) -> str:
    return f"adds {added(values.min(), target)} to {added(values.max(), target)}"


def added(value: float, target: Target | None) -> str:
    """What a leaf adds: to a score, or to a number in its units."""
    if isinstance(target, Numeric):
        return f"{float(value) * (target.high - target.low):+.{DIGITS}g}"
    return f"{float(value):+.{DIGITS}f}"


def of_groves(groves: Hypotheses, domain: Domain) -> str:
    """The rules of each random tree, and the share of the positive class that its leaves state.

    Branches and trees are shown as by `of_trees`.

    Args:
        groves: attribute i32[T, P, 2^D - 1], threshold f32[T, P, 2^D - 1], leaf f32[T, P, 2^D].
        domain: the domain that encoded the table that they were learned from.

    Raises:
        ValueError: if a tree asks for an attribute that the domain does not have.
    """
    asked_by, leaf = _asked_of_groves(groves, domain)

    def says(value: float) -> str:
        return f"share of positive {value:.{DIGITS}f}"

    def of_all(values: list[float]) -> str:
        return "share of positive " + ", ".join(f"{value:.{DIGITS}f}" for value in values)

    head = "vote of each tree: positive if its share of positive is above 0.5"
    return "\n".join([head, *_blocks(asked_by, leaf, domain, says, of_all)])


def of_halfspaces(halfspaces: Hypotheses, domain: Domain) -> str:
    """The weight of each attribute, largest first: what it adds to the score at position 1.

    The score of a row is the sum over attributes of weight times the row's position in [0, 1]. All
    positions of a row are divided by their length where that is above 1.

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
    head = [
        "score of a row: the sum of weight times position over the attributes; positive above 0",
        "a position is from 0 to 1 in the declared range; a row's positions are divided by their "
        "length where that is above 1",
        "weight   attribute",
    ]
    return "\n".join([*head, *(f"{total[a]:+.{DIGITS}f}  {known[a].name}" for a in order)])


def branch_of(kind: str, hypotheses: Hypotheses, domain: Domain, number: int) -> Branch:
    """One tree of a model, with the branches that a row can reach, as the rules show them.

    Args:
        kind: "trees", "oblivious trees" or "groves", a name of `reader.KINDS`.
        hypotheses: of all rounds; a round of `of_groves` may hold several trees.
        domain: the domain that encoded the table that they were learned from.
        number: of the tree, from 0.

    Raises:
        ValueError: for hypotheses of another kind, which are no trees. Also for a tree that asks
            something that the domain does not have.
    """
    every_cell = tuple(frozenset(range(column.cells)) for column in domain.values())
    match kind:
        case "trees":
            asked_by, leaf = _asked_of_trees(hypotheses, domain)
        case "groves":
            asked_by, leaf = _asked_of_groves(hypotheses, domain)
        case "oblivious trees":
            asked_by, leaf = _asked_of_oblivious_trees(hypotheses, domain)
        case _:
            raise ValueError(f"{kind} are no trees")
    return _reached(asked_by(number), leaf[number], every_cell)


AskedBy = Callable[[int], AskedAt]
"""number of a tree -> what its nodes ask."""


def _asked_of_trees(trees: Hypotheses, domain: Domain) -> tuple[AskedBy, np.ndarray]:
    """What trees ask, and their leaves f32[T, 2^D]; see `of_trees`."""
    known = predicates(domain)
    split, leaf = np.asarray(trees.split), np.asarray(trees.leaf)
    if split.max() >= len(known):
        raise ValueError(f"the model uses split {split.max()}, the domain has {len(known)} splits")

    public = questions(domain)
    asked = [
        Asked(predicate, int(feature), frozenset(range(low, high + 1)))
        for predicate, feature, low, high in zip(known, *public[:3], strict=True)
    ]

    def asked_by(t: int) -> AskedAt:
        return lambda node: None if split[t, node] == UNSPLIT else asked[split[t, node]]

    return asked_by, leaf


def _asked_of_oblivious_trees(trees: Hypotheses, domain: Domain) -> tuple[AskedBy, np.ndarray]:
    """What oblivious trees ask, and their leaves f32[T, 2^D]; see `of_oblivious_trees`."""

    def asked_by(t: int) -> AskedAt:
        asked = questions_of_tree(trees, domain, t)
        return lambda node: asked[(node + 1).bit_length() - 1]

    return asked_by, np.asarray(trees.leaf)


def questions_of_tree(trees: Hypotheses, domain: Domain, number: int) -> list[Asked]:
    """What each level of an oblivious tree asks; see `of_oblivious_trees`.

    Raises:
        ValueError: if the domain has another number of columns than the trees read.
    """
    names, kinds = list(domain), list(domain.values())
    features = np.asarray(trees.feature)
    if features.max() >= len(names):
        raise ValueError(
            f"the model reads column {features.max()}, the domain has {len(names)} columns"
        )

    asked = []
    for feature, right in zip(features[number], np.asarray(trees.right)[number], strict=True):
        words = f"{names[feature]} {cells_in_words(kinds[feature], right)}"
        predicate = Predicate(names[feature], words, f"not: {words}")
        asked.append(Asked(predicate, int(feature), frozenset(np.flatnonzero(right).tolist())))
    return asked


def _asked_of_groves(groves: Hypotheses, domain: Domain) -> tuple[AskedBy, np.ndarray]:
    """What random trees ask, and their leaves f32[T P, 2^D]; see `of_groves`."""
    known = attributes(domain)
    arrays = (groves.attribute, groves.threshold, groves.leaf)
    attribute, threshold, leaf = (
        np.asarray(array).reshape(-1, np.shape(array)[-1]) for array in arrays
    )
    if attribute.max() >= len(known):
        raise ValueError(
            f"the model uses attribute {attribute.max()}, the domain has {len(known)} attributes"
        )

    public = questions(domain)

    def asked_by(t: int) -> AskedAt:
        def asked_at(node: int) -> Asked:
            number, t_node = int(attribute[t, node]), threshold[t, node]
            cells = np.flatnonzero(public.position[number] > t_node).tolist()
            predicate = known[number](float(t_node))
            return Asked(predicate, int(public.attribute[number]), frozenset(cells))

        return asked_at

    return asked_by, leaf


def _blocks(
    asked_by: AskedBy,
    leaf: np.ndarray,
    domain: Domain,
    says: Callable[[float], str],
    of_all: Callable[[list[float]], str],
) -> list[str]:
    """The lines of all trees, one tree after the other; trees of one leaf are only counted.

    Args:
        asked_by: number of a tree -> what its nodes ask.
        leaf: f[T, 2^D].
        domain: of the cells.
        says: leaf -> its line.
        of_all: leaves of the trees of one leaf -> what these trees say together.
    """
    every_cell = tuple(frozenset(range(kind.cells)) for kind in domain.values())
    lines, alike = [], []
    for t in range(len(leaf)):
        tree = _reached(asked_by(t), leaf[t], every_cell)
        if isinstance(tree, tuple):
            lines += [f"tree {t + 1}", *_lines(tree, says, "  ")]
        else:
            alike.append(tree)
    if alike:
        lines.append(
            f"left out: {len(alike)} of {len(leaf)} trees, which split no rows; {of_all(alike)}"
        )
    return lines


def _reached(
    asked_at: AskedAt,
    leaf: np.ndarray,
    possible: tuple[frozenset[int], ...],
    node: int = 0,
) -> Branch:
    """A node with the branches that rows can reach; those that say the same are one leaf.

    Args:
        asked_at: what the nodes of the tree ask.
        leaf: f[...]: the leaves below the node.
        possible: for each feature the cells that a row at the node may have.
        node: the number of the node in heap order.
    """
    if len(leaf) == 1:
        return round(float(leaf[0]), DIGITS) + 0.0  # no sign of zero

    half = len(leaf) // 2
    left, right = (leaf[:half], 2 * node + 1), (leaf[half:], 2 * node + 2)

    def below(side: tuple[np.ndarray, int], cells: tuple[frozenset[int], ...]) -> Branch:
        return _reached(asked_at, side[0], cells, side[1])

    asked = asked_at(node)
    if asked is None:
        return below(left, possible)

    # Earlier questions may leave one answer only.
    here = possible[asked.feature]
    if not here & asked.cells:
        return below(left, possible)
    if here <= asked.cells:
        return below(right, possible)

    def narrowed(cells: frozenset[int]) -> tuple[frozenset[int], ...]:
        return (*possible[: asked.feature], cells, *possible[asked.feature + 1 :])

    yes, no = below(right, narrowed(here & asked.cells)), below(left, narrowed(here - asked.cells))
    return yes if yes == no else (asked.predicate, yes, no)


def _lines(tree: Branch, says: Callable[[float], str], indent: str) -> list[str]:
    """The lines of a node and of all below it."""
    if not isinstance(tree, tuple):
        return [f"{indent}{says(tree)}"]
    predicate, yes, no = tree
    deeper = indent + "  "
    return [
        f"{indent}if {predicate.yes}:",
        *_lines(yes, says, deeper),
        f"{indent}else:",
        *_lines(no, says, deeper),
    ]
