"""Hypotheses in words, by a public domain. All of it is post-processing."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpbt.data.domains import Domain, attributes
from dpbt.data.kinds import Boolean, Column, Nominal, Numeric
from dpbt.data.targets import Target

DIGITS = 4
"""Decimals that are shown of a score, and digits of a number in its units."""

SCORES = "score of a row: the sum of what the trees add; positive above 0"


Ask = Callable[[int, int], tuple[int, np.ndarray, str]]
"""(tree, node) -> the column that a node reads, bool[MAX_BINS], its bins that go right, and the
words of what it asks. A node of which no bin goes right asks nothing.
"""


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


def of_trees(leaf: np.ndarray, ask: Ask, domain: Domain, head: str, says: str) -> str:
    """The rules of each tree.

    Only branches that a row can reach are shown. Branches that say the same are shown as one leaf.

    Args:
        leaf: f[k, 2^D], what the leaves of complete trees in heap order say.
        ask: what their nodes ask.
        domain: of the bins.
        head: the first line.
        says: what a leaf says, a format of its number.
    """
    every_bin = tuple(frozenset(range(column.n_bins)) for column in domain.values())
    lines = [head]
    for tree, leaves in enumerate(leaf):
        of_tree = [says.format(round(float(value), DIGITS) + 0.0) for value in leaves]  # no -0
        rules = _branch(of_tree, functools.partial(ask, tree), 0, every_bin)
        lines += [f"tree {tree + 1}", *_indented(rules)]
    return "\n".join(lines)


def _branch(
    leaves: list[str], ask: Callable[..., Any], node: int, possible: tuple[frozenset[int], ...]
) -> list[str]:
    """The lines of a node; `possible` are the bins of each feature that its rows may have."""
    if node >= len(leaves) - 1:
        return [leaves[node - len(leaves) + 1]]
    feature, right, words = ask(node)
    goes_right, here = frozenset(np.flatnonzero(right).tolist()), possible[feature]

    def below(child: int, bins: frozenset[int]) -> list[str]:
        return _branch(leaves, ask, child, (*possible[:feature], bins, *possible[feature + 1 :]))

    if not here & goes_right:  # also where a node asks nothing
        return below(2 * node + 1, here)
    if here <= goes_right:  # earlier splits may leave one answer only
        return below(2 * node + 2, here)
    yes, no = below(2 * node + 2, here & goes_right), below(2 * node + 1, here - goes_right)
    if yes == no:
        return yes
    return [f"if {words}:", *_indented(yes), "else:", *_indented(no)]


def _indented(lines: list[str]) -> list[str]:
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
