"""Trees in words, of what their nodes ask and what their leaves say."""

from collections.abc import Callable

import numpy as np

DIGITS = 4
"""Decimals that are shown of a score, and digits of a number in its units."""

Ask = Callable[[int, int], tuple[int, np.ndarray]]
"""(tree, node) -> the feature that a node reads, and bool[MAX_BINS], its bins that go right.

A node of which no bin goes right asks nothing.
"""


def of_trees(
    leaf: np.ndarray,
    ask: Ask,
    asked: Callable[[int, np.ndarray], str],
    bins: list[int],
    head: str,
    says: str,
) -> str:
    """The rules of each tree.

    Only branches that a row can reach are shown. Branches that say the same are shown as one leaf.

    Args:
        leaf: f[k, 2^D], what the leaves of complete trees in heap order say.
        ask: what their nodes ask.
        asked: the words of it.
        bins: how many bins each feature has.
        head: the first line.
        says: what a leaf says, a format of its number.
    """

    def branch(tree: int, node: int, possible: tuple[frozenset[int], ...]) -> list[str]:
        """The lines of a node; `possible` are the bins of each feature that its rows may have."""
        if node >= leaf.shape[1] - 1:
            value = float(leaf[tree, node - leaf.shape[1] + 1])
            return [says.format(round(value, DIGITS) + 0.0)]  # no -0
        feature, right = ask(tree, node)
        goes_right, here = frozenset(np.flatnonzero(right).tolist()), possible[feature]

        def below(child: int, bins: frozenset[int]) -> list[str]:
            return branch(tree, child, (*possible[:feature], bins, *possible[feature + 1 :]))

        if not here & goes_right:  # also where a node asks nothing
            return below(2 * node + 1, here)
        if here <= goes_right:  # earlier splits may leave one answer only
            return below(2 * node + 2, here)
        yes, no = below(2 * node + 2, here & goes_right), below(2 * node + 1, here - goes_right)
        if yes == no:
            return yes
        return [f"if {asked(feature, right)}:", *indented(yes), "else:", *indented(no)]

    every_bin, lines = tuple(frozenset(range(count)) for count in bins), [head]
    for tree in range(len(leaf)):
        lines += [f"tree {tree + 1}", *indented(branch(tree, 0, every_bin))]
    return "\n".join(lines)


def indented(lines: list[str]) -> list[str]:
    """Lines two columns further in."""
    return [f"  {line}" for line in lines]
