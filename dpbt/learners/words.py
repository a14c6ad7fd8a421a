"""Hypotheses in words, by a public domain. All of it is post-processing."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpbt.data.domains import Domain, attributes
from dpbt.data.kinds import Boolean, Column, Nominal, Numeric
from dpbt.data.targets import Target

DIGITS = 4
"""Decimals that are shown of a score, and digits of a number in its units."""

SCORES = "score of a row: the sum of what the trees add; positive above 0"


class Heap(NamedTuple):
    """Complete trees in heap order, for a reader.

    Attributes:
        ask: (tree, node) -> the column that a node reads, and bool[MAX_BINS], its bins that go
            right.
        words: (tree, node) -> what the node asks. A node of which no bin goes right has none.
        leaf: f[k, 2^D], what leaves say.
        says: what a leaf says, a format of its number.
    """

    ask: Callable[[int, int], tuple[int, np.ndarray]]
    words: Callable[[int, int], str]
    leaf: np.ndarray
    says: str


Branch = float | list[str]
"""What a leaf says, or the lines of a node and of all below it."""


def bins_in_words(kind: Column, chosen: np.ndarray) -> str:
    """What the chosen bins bool[MAX_BINS] of a column hold, as in "> 37.5" or "in {a, b}"."""
    match kind:
        case Numeric():
            first = int(np.argmax(chosen[: kind.bins])) if chosen[: kind.bins].any() else kind.bins
            missing = " or is missing" if kind.missing and chosen[kind.bins] else ""
            if first == kind.bins:
                return "is missing"
            return f"> {kind.threshold_words[first - 1]}{missing}"
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
            return f"in {{{', '.join(picked[: kind.n_bins])}}}"


def of_trees(heap: Heap, domain: Domain, head: str, of_all: Callable[[list[float]], str]) -> str:
    """The rules of each tree.

    Only branches that a row can reach are shown. Branches that say the same are shown as one leaf,
    and trees of one leaf only as a number of trees.

    Args:
        heap: the trees.
        domain: of the bins.
        head: the first line.
        of_all: leaves of the trees of one leaf -> what these trees say together.
    """
    every_bin = tuple(frozenset(range(column.n_bins)) for column in domain.values())
    lines, alike = [head], []
    for tree in range(len(heap.leaf)):
        branch = _branch(heap, tree, 0, every_bin)
        if isinstance(branch, list):
            lines += [f"tree {tree + 1}", *_indented(heap, branch)]
        else:
            alike.append(branch)
    if alike:
        left_out = f"left out: {len(alike)} of {len(heap.leaf)} trees, which split no rows"
        lines.append(f"{left_out}; {of_all(alike)}")
    return "\n".join(lines)


def _branch(heap: Heap, tree: int, node: int, possible: tuple[frozenset[int], ...]) -> Branch:
    """The branch of a node; `possible` are the bins of each feature that its rows may have."""
    inner = heap.leaf.shape[1] - 1
    if node >= inner:
        return round(float(heap.leaf[tree, node - inner]), DIGITS) + 0.0  # no sign of zero

    feature, right = heap.ask(tree, node)
    goes_right, here = frozenset(np.flatnonzero(right).tolist()), possible[feature]

    def below(child: int, bins: frozenset[int]) -> Branch:
        return _branch(heap, tree, child, (*possible[:feature], bins, *possible[feature + 1 :]))

    if not here & goes_right:  # also where a node asks nothing
        return below(2 * node + 1, here)
    if here <= goes_right:  # earlier splits may leave one answer only
        return below(2 * node + 2, here)
    yes, no = below(2 * node + 2, here & goes_right), below(2 * node + 1, here - goes_right)
    if yes == no:
        return yes
    asked = f"if {heap.words(tree, node)}:"
    return [asked, *_indented(heap, yes), "else:", *_indented(heap, no)]


def _indented(heap: Heap, branch: Branch) -> list[str]:
    lines = branch if isinstance(branch, list) else [heap.says.format(branch)]
    return [f"  {line}" for line in lines]


def of_oblivious_trees(
    splits: list[list[str]], leaf: np.ndarray, target: Target | None, classes: Sequence | None
) -> str:
    """The splits of each tree, and what its leaves add.

    The leaves of a tree of up to 3 splits are listed by their answers, n for no and y for yes.
    Of a larger tree the smallest and the largest value are shown. With several classes there is a
    line for each class. Of a number, values are in its units.

    Args:
        splits: of each tree.
        leaf: f[k, 2^D], or f[k, K, 2^D] with several classes.
        target: the declared classes or range; None for two classes.
        classes: the names of several classes.
    """
    lines, factor, style = [SCORES], 1.0, f"+.{DIGITS}f"
    if isinstance(target, Nominal):
        head = "scores of a row: for each class the sum of what the trees add"
        lines = [f"{head}; the class of the largest is predicted"]
    if isinstance(target, Numeric):
        head = "number of a row: the sum of what the trees add"
        lines = [f"{head}, clipped to {target.low:g}..{target.high:g}"]
        factor, style = target.high - target.low, f"+.{DIGITS}g"

    def listed(values: np.ndarray, adds: str) -> list[str]:
        shown = [f"{float(value) * factor:{style}}" for value in values]
        depth = len(values).bit_length() - 1
        if depth > 3:
            low, high = shown[int(values.argmin())], shown[int(values.argmax())]
            return [f"{len(values)} leaves, each adds {low} to {high}"]
        answers = [f"{i:0{depth}b}".replace("0", "n").replace("1", "y") for i in range(len(values))]
        return [f"{answer}{adds} {word}" for answer, word in zip(answers, shown, strict=True)]

    for number, (asked, values) in enumerate(zip(splits, leaf, strict=True), 1):
        lines.append(f"tree {number}")
        lines += [f"  split {level}: {words}" for level, words in enumerate(asked, 1)]
        if isinstance(target, Nominal):
            of_class = zip(classes or target.names, values, strict=True)
            lines += [f"  {word}: {', '.join(listed(each, ''))}" for word, each in of_class]
        else:
            lines += [f"  {line}" for line in listed(values, ": add")]
    return "\n".join(lines)


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
