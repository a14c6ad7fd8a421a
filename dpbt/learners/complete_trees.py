"""What models of complete trees share, of one split a node or of thresholds: depth, leaves, words.

Nothing here imports JAX.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int

from dpbt.learners.model_parts import (
    DIGITS,
    Domain,
    LeafBoxes,
    describe_bins_as_condition,
    indent_lines,
)
from dpbt.public_types import AnyArray


def depth_of_complete_tree(num_leaves: int) -> int:
    """The depth D of a complete tree with 2^D leaves.

    Raises:
        ValueError: unless their number is a power of two.
    """
    if num_leaves < 1 or num_leaves & (num_leaves - 1):
        raise ValueError(f"a complete tree has a power of two leaves, got {num_leaves}")
    return num_leaves.bit_length() - 1


def check_complete_trees(inner_nodes: AnyArray, leaf_values: AnyArray) -> None:
    """Refuse arrays whose numbers of inner nodes and leaves are not those of complete trees.

    Raises:
        ValueError: saying so.
    """
    leaves = leaf_values.shape[-1]
    if (
        leaves < 1
        or leaves & (leaves - 1)
        or inner_nodes.shape != (*leaf_values.shape[:-1], leaves - 1)
    ):
        raise ValueError("trees must be complete, with one inner node fewer than leaves")


NodeQuestion = Callable[[int, int], tuple[int, np.ndarray]]
"""(tree, node) -> the feature that a node reads, and bool[MAX_BINS], its bins that go right.

A node of which no bin goes right asks nothing.
"""


def leaf_boxes_of_tree(
    feature_of_node: Int[np.ndarray, "_"],
    bins_going_right: Bool[np.ndarray, "_ bins"],
    leaf_values: Float[np.ndarray, "_"],
) -> LeafBoxes:
    """The leaves of a complete tree as boxes of bins.

    Leaves that no row can reach are left out.

    Args:
        feature_of_node: i[2^D - 1], the feature that each node reads, in heap order.
        bins_going_right: bool[2^D - 1, B], the bins of it that go right; none if the node asks
            nothing.
        leaf_values: f[2^D], what each leaf adds to the score.
    """
    depth = depth_of_complete_tree(len(leaf_values))
    leaf, level = np.arange(len(leaf_values))[:, None], np.arange(max(depth, 1))
    if not depth:
        return LeafBoxes(
            np.zeros((1, 1), int), np.ones((1, 1, bins_going_right.shape[1]), bool), leaf_values
        )
    node = 2**level - 1 + (leaf >> (depth - level))
    goes_right = (leaf >> (depth - 1 - level)) & 1 == 1
    feature_of_level = feature_of_node[node]
    holds = bins_going_right[node] == goes_right[..., None]
    for later in range(1, depth):
        is_merged = np.zeros(len(leaf_values), bool)
        for earlier in range(later):
            repeats = ~is_merged & (feature_of_level[:, earlier] == feature_of_level[:, later])
            holds[repeats, earlier] &= holds[repeats, later]
            is_merged |= repeats
        holds[is_merged, later] = True
    can_be_reached = holds.any(axis=2).all(axis=1)
    return LeafBoxes(
        feature_of_level[can_be_reached], holds[can_be_reached], leaf_values[can_be_reached]
    )


def describe_trees_as_rules(
    leaf_values: Float[np.ndarray, "k _"],
    question_of_node: NodeQuestion,
    domain: Domain,
    *,
    heading: str,
    leaf_format: str,
) -> str:
    """A text of complete trees as nested if-else rules in the terms of the domain.

    Only branches that a row can reach are shown. Branches that say the same are shown as one leaf.

    Args:
        leaf_values: f[k, 2^D], what the leaves of complete trees in heap order say.
        question_of_node: what their nodes ask.
        domain: the columns.
        heading: the first line.
        leaf_format: what a leaf says, a format of its number.
    """
    columns, inner = list(domain.items()), leaf_values.shape[1] - 1

    def branch(tree: int, node: int, possible: tuple[frozenset[int], ...]) -> list[str]:
        """The lines of text of a node and of all nodes below it.

        `possible` are the bins of each feature that its rows may have.
        """
        if node >= inner:
            return [
                leaf_format.format(round(float(leaf_values[tree, node - inner]), DIGITS) + 0.0)
            ]  # no -0
        feature, right = question_of_node(tree, node)
        goes_right, possible_bins = frozenset(np.flatnonzero(right).tolist()), possible[feature]

        def below(child: int, bins: frozenset[int]) -> list[str]:
            return branch(tree, child, (*possible[:feature], bins, *possible[feature + 1 :]))

        if not possible_bins & goes_right:  # also where a node asks nothing
            return below(2 * node + 1, possible_bins)
        if possible_bins <= goes_right:  # earlier splits may leave one answer only
            return below(2 * node + 2, possible_bins)
        yes, no = (
            below(2 * node + 2, possible_bins & goes_right),
            below(2 * node + 1, possible_bins - goes_right),
        )
        question = describe_bins_as_condition(*columns[feature], right)
        return (
            yes
            if yes == no
            else [f"if {question}:", *indent_lines(yes), "else:", *indent_lines(no)]
        )

    every_bin, lines = tuple(frozenset(range(column.n_bins)) for _, column in columns), [heading]
    for tree in range(len(leaf_values)):
        lines += [f"tree {tree + 1}", *indent_lines(branch(tree, 0, every_bin))]
    return "\n".join(lines)
