"""Hypotheses in words, by a public domain. All of it is post-processing."""

from __future__ import annotations  # so that a branch may hold branches

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dpbt.data.domains import Domain, Predicate, attributes
from dpbt.data.kinds import Boolean, Column, Nominal, Numeric
from dpbt.data.targets import Target

if TYPE_CHECKING:
    from dpbt.learners.hypotheses.kind import Heap

DIGITS = 4
"""Decimals that are shown of a score, and digits of a number in its units."""

Branch: TypeAlias = "float | tuple[Predicate, Branch, Branch]"
"""A leaf; or what a node asks, the branch of rows that satisfy it, and that of the others."""


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


_SCORES = "score of a row: the sum of what the trees add; positive above 0"


def of_trees(heap: Heap, domain: Domain) -> str:
    """The rules of each tree; a row's score is the sum of what its leaves add.

    Only branches that a row can reach are shown. Branches that add the same are shown as one leaf,
    and trees of one leaf only as a number of trees.
    """

    def says(value: float) -> str:
        return f"add {value:+.{DIGITS}f}"

    def of_all(values: list[float]) -> str:
        return f"together they {says(sum(values))} to every row"

    return "\n".join([_SCORES, *_blocks(heap, domain, says, of_all)])


def of_groves(heap: Heap, domain: Domain) -> str:
    """The rules of each random tree, and the share of the positive class that its leaves state.

    Branches and trees are shown as by `of_trees`.
    """

    def says(value: float) -> str:
        return f"share of positive {value:.{DIGITS}f}"

    def of_all(values: list[float]) -> str:
        return "share of positive " + ", ".join(f"{value:.{DIGITS}f}" for value in values)

    head = "vote of each tree: positive if its share of positive is above 0.5"
    return "\n".join([head, *_blocks(heap, domain, says, of_all)])


def of_oblivious_trees(heap: Heap, target: Target | None, classes: Sequence[Any] | None) -> str:
    """The questions of each tree, and what its leaves add.

    The leaves of a tree of up to 3 questions are listed by their answers, n for no and y for yes.
    Of a larger tree the smallest and the largest value are shown. With several classes there is a
    line for each class. Of a number, values are in its units.
    """
    lines = [_head(target)]
    for t, leaf in enumerate(heap.leaf):
        lines.append(f"tree {t + 1}")
        asked = questions_of_tree(heap, t)
        lines += [f"  question {k + 1}: {predicate.yes}" for k, predicate in enumerate(asked)]
        if isinstance(target, Nominal):
            of_class = zip(classes or target.names, leaf.T, strict=True)
            shown = [f"{word}: {', '.join(_leaves(values, None))}" for word, values in of_class]
        else:
            shown = _leaves(leaf, target, ": add", "leaves: ")
        lines += [f"  {line}" for line in shown]
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


def _leaves(
    values: np.ndarray, target: Target | None, adds: str = "", before: str = ""
) -> list[str]:
    """The values f[2^D] of a tree's leaves by their answers; of many leaves their range."""
    count, depth = len(values), len(values).bit_length() - 1
    if depth > 3:
        ends = added(values.min(), target), added(values.max(), target)
        many = f"{before}{count}," if before else f"{count} leaves,"
        return [f"{many} each adds {ends[0]} to {ends[1]}"]
    answers = [f"{i:0{depth}b}".replace("0", "n").replace("1", "y") for i in range(count)]
    return [f"{a}{adds} {added(v, target)}" for a, v in zip(answers, values, strict=True)]


def added(value: float, target: Target | None) -> str:
    """What a leaf adds: to a score, or to a number in its units."""
    if isinstance(target, Numeric):
        return f"{float(value) * (target.high - target.low):+.{DIGITS}g}"
    return f"{float(value):+.{DIGITS}f}"


def of_halfspaces(halfspaces: Any, domain: Domain) -> str:
    """The weight of each attribute, largest first: what it adds to the score at position 1.

    The score of a row is the sum over attributes of weight times the row's position in [0, 1]. All
    positions of a row are divided by their length where that is above 1.

    Args:
        halfspaces: normal f32[T, d].
        domain: the domain that encoded the table that they were learned from.
    """
    known = attributes(domain)
    total = np.asarray(halfspaces.normal, np.float64).sum(axis=0)
    order = np.argsort(-np.abs(total), kind="stable")
    head = [
        "score of a row: the sum of weight times position over the attributes; positive above 0",
        "a position is from 0 to 1 in the declared range; a row's positions are divided by their "
        "length where that is above 1",
        "weight   attribute",
    ]
    return "\n".join([*head, *(f"{total[a]:+.{DIGITS}f}  {known[a].name}" for a in order)])


def questions_of_tree(heap: Heap, number: int) -> list[Predicate]:
    """What each level of an oblivious tree asks."""
    return [heap.words(number, 2**level - 1) for level in range(heap.depth)]


def branch_of(heap: Heap, domain: Domain, number: int) -> Branch:
    """One tree with the branches that rows can reach; those that say the same are one leaf."""
    every_cell = tuple(frozenset(range(column.cells)) for column in domain.values())
    return _reached(heap, number, 0, every_cell)


def _reached(heap: Heap, tree: int, node: int, possible: tuple[frozenset[int], ...]) -> Branch:
    """The branch of a node; `possible` are the cells of each feature that its rows may have."""
    inner = heap.leaf.shape[1] - 1
    if node >= inner:
        return round(float(heap.leaf[tree, node - inner]), DIGITS) + 0.0  # no sign of zero

    column, right = heap.ask(np.array([tree]), np.array([node]))
    feature, goes_right = int(column[0]), frozenset(np.flatnonzero(right[0]).tolist())
    here, left, right_of = possible[feature], 2 * node + 1, 2 * node + 2
    if not here & goes_right:  # also where a node asks nothing
        return _reached(heap, tree, left, possible)
    if here <= goes_right:  # earlier questions may leave one answer only
        return _reached(heap, tree, right_of, possible)

    def below(child: int, cells: frozenset[int]) -> Branch:
        return _reached(heap, tree, child, (*possible[:feature], cells, *possible[feature + 1 :]))

    yes, no = below(right_of, here & goes_right), below(left, here - goes_right)
    return yes if yes == no else (heap.words(tree, node), yes, no)


def _blocks(
    heap: Heap,
    domain: Domain,
    says: Callable[[float], str],
    of_all: Callable[[list[float]], str],
) -> list[str]:
    """The lines of all trees, one tree after the other; trees of one leaf are only counted.

    Args:
        heap: the trees.
        domain: of the cells.
        says: leaf -> its line.
        of_all: leaves of the trees of one leaf -> what these trees say together.
    """
    lines, alike = [], []
    for t in range(len(heap.leaf)):
        tree = branch_of(heap, domain, t)
        if isinstance(tree, tuple):
            lines += [f"tree {t + 1}", *_lines(tree, says, "  ")]
        else:
            alike.append(tree)
    if alike:
        left_out = f"left out: {len(alike)} of {len(heap.leaf)} trees, which split no rows"
        lines.append(f"{left_out}; {of_all(alike)}")
    return lines


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
