"""Kinds of hypotheses: how each predicts, is kept in files, put in words and in graphs.

Functions take arrays of NumPy or of JAX alike (`arithmetic.array_namespace`). JAX is never imported
here, so a loaded model predicts without it. A new kind is one `HypothesisKind`, and one row of
`KINDS`. How a learner trains with it is added beside the learner.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpbt.common.arithmetic import (
    Array,
    array_namespace,
    fold,
    map_over_first_axis,
    round_separately,
    sum_in_order,
)
from dpbt.data.kinds import Boolean, Column, Nominal, Numeric
from dpbt.hypothesis_kind import HypothesisKind
from dpbt.learners.graph import Graph, Value
from dpbt.learners.shapes import (
    GraphOutputs,
    ShapeFunctions,
    check_shapes,
    describe_shapes,
    graph_of_shapes,
    indent_lines,
    model_heading,
    predict_shapes,
)
from dpbt.public_types import MAX_BINS, UNSPLIT, Splits, Tree, redacted_repr

Domain = Mapping[str, Column]
"""The public columns by name."""

Hypotheses = Any
"""Hypotheses of all rounds, stacked along a leading axis: a NamedTuple of arrays."""


class EncodedRows(NamedTuple):
    """Encoded rows: u8[N, F] bins and what is asked of them, or f32[N, F] numbers alone."""

    bins: Any
    splits: Splits | None

    __repr__ = redacted_repr

    @property
    def positions(self) -> Any:
        """f32[N, A]: the position of each row in each attribute's range, or its numbers."""
        if self.splits is None:
            return self.bins
        attribute, position = self.splits.attribute, self.splits.position
        bin = self.bins[:, attribute].astype(np.int32)
        return position[array_namespace(bin).arange(len(attribute))[None], bin]


def _check_complete_trees(inner: Array, leaf: Array) -> None:
    """Refuse arrays that are not complete trees.

    Raises:
        ValueError: saying so.
    """
    leaves = leaf.shape[-1]
    if leaves < 1 or leaves & (leaves - 1) or inner.shape != (*leaf.shape[:-1], leaves - 1):
        raise ValueError("trees must be complete, with one inner node fewer than leaves")


def check_indices(name: str, numbers: Any, low: int, high: int) -> None:
    """Refuse numbers outside low..high - 1, with which a model would read out of its arrays.

    Raises:
        ValueError: naming them.
    """
    numbers = np.asarray(numbers)
    if numbers.size and not (numbers.min() >= low and numbers.max() < high):
        raise ValueError(f"{name} must number what the model has")


DIGITS = 4
"""Decimals that are shown of a score, and digits of a number in its units."""

NodeQuestion = Callable[[int, int], tuple[int, np.ndarray]]
"""(tree, node) -> the feature that a node reads, and bool[MAX_BINS], its bins that go right.

A node of which no bin goes right asks nothing.
"""


def describe_bins(name: str, column: Column, right: np.ndarray) -> str:
    """What cells hold whose bins are among bool[MAX_BINS], as in "age > 37.5", "job in {a, b}"."""
    splits, bins = column.splits(name), np.flatnonzero(right[: column.n_bins]).tolist()
    names = column.values if isinstance(column, Nominal) else ()
    if column.num_thresholds:
        above = [split for split in splits[: column.num_thresholds] if right[split.low]]
        alone = [split for split in splits[column.num_thresholds :] if right[split.low]]
        said = [split.yes for split in above[:1] + alone]
        unlisted = len(names) in bins if names else False
        return " or ".join([*said, *[f"{name} is not listed"] * unlisted])
    for split in splits:
        if bins == [split.low]:
            return split.yes
    held = [column.false, column.true, "missing"] if isinstance(column, Boolean) else [*names]
    return f"{name} in {{{', '.join([*held, 'not listed'][bin] for bin in bins)}}}"


def _describe_trees_as_rules(
    leaf: np.ndarray, ask: NodeQuestion, domain: Domain, head: str, says: str
) -> str:
    """The rules of each tree.

    Only branches that a row can reach are shown. Branches that say the same are shown as one leaf.

    Args:
        leaf: f[k, 2^D], what the leaves of complete trees in heap order say.
        ask: what their nodes ask.
        domain: the columns.
        head: the first line.
        says: what a leaf says, a format of its number.
    """
    columns, inner = list(domain.items()), leaf.shape[1] - 1

    def branch(tree: int, node: int, possible: tuple[frozenset[int], ...]) -> list[str]:
        """The lines of a node; `possible` are the bins of each feature that its rows may have."""
        if node >= inner:
            return [says.format(round(float(leaf[tree, node - inner]), DIGITS) + 0.0)]  # no -0
        feature, right = ask(tree, node)
        goes_right, here = frozenset(np.flatnonzero(right).tolist()), possible[feature]

        def below(child: int, bins: frozenset[int]) -> list[str]:
            return branch(tree, child, (*possible[:feature], bins, *possible[feature + 1 :]))

        if not here & goes_right:  # also where a node asks nothing
            return below(2 * node + 1, here)
        if here <= goes_right:  # earlier splits may leave one answer only
            return below(2 * node + 2, here)
        yes, no = below(2 * node + 2, here & goes_right), below(2 * node + 1, here - goes_right)
        asked = describe_bins(*columns[feature], right)
        return (
            yes if yes == no else [f"if {asked}:", *indent_lines(yes), "else:", *indent_lines(no)]
        )

    every_bin, lines = tuple(frozenset(range(column.n_bins)) for _, column in columns), [head]
    for tree in range(len(leaf)):
        lines += [f"tree {tree + 1}", *indent_lines(branch(tree, 0, every_bin))]
    return "\n".join(lines)


# Trees: complete trees over public splits.


ONE_HOT_NODES = 16
"""Up to so many nodes of a level, rows are compared with each of them."""


class BinsAndSplits(NamedTuple):
    """The bins of the rows, and the splits that are asked of them.

    Attributes:
        bins: u8[F, N].
        feature: i32[S], the feature of each split.
        low: u8[S]; high: u8[S]: its bins are in low..high.
    """

    bins: Array
    feature: Array
    low: Array
    high: Array

    __repr__ = redacted_repr


def _bins_and_splits(rows: EncodedRows) -> BinsAndSplits:
    assert rows.splits is not None
    return BinsAndSplits(rows.bins.T, *rows.splits[:3])


def node_dtype(leaves: int) -> type[np.integer]:
    """The narrowest integers that number the nodes of a level; they compare fastest."""
    return np.int8 if leaves <= 128 else np.int32


def satisfies_splits(asked: Any, split: Any, rows: Any = slice(None)) -> Any:
    """bool[K, N]: which rows satisfy some splits.

    Args:
        asked: as `move_to_children`.
        split: i32[K], at least 0.
        rows: all rows, or i32[K], a row for each split; then the result is bool[K].
    """
    if not isinstance(asked, BinsAndSplits):
        return asked[split, rows].astype(bool)
    bin = asked.bins[asked.feature[split], rows]
    low, high = (end[split].reshape(-1, *[1] * (bin.ndim - 1)) for end in asked[2:])
    return (low <= bin) & (bin <= high)


def move_to_children(asked: Any, node: Any, split: Any) -> Any:
    """The child that each row moves to, in the dtype of `node`.

    Args:
        asked: bool or i8[S, N], the transposed splits of the rows; or their bins.
        node: i8 or i32[N], the node of this level that each row is in.
        split: i32[nodes], the splits of this level.
    """
    xp = array_namespace(node, split)
    if split.shape[0] > ONE_HOT_NODES:
        of_row = split[node.astype(np.int32)]
        own = xp.maximum(of_row, 0), xp.arange(of_row.shape[0])
        right = satisfies_splits(asked, *own) & (of_row != UNSPLIT)
    else:
        moves = satisfies_splits(asked, xp.maximum(split, 0)) & (split != UNSPLIT)[:, None]
        here = node[None, :] == xp.arange(split.shape[0], dtype=node.dtype)[:, None]
        right = xp.any(moves & here, axis=0)
    return 2 * node + right.astype(node.dtype)


def tree_depth(leaves: int) -> int:
    """D of a complete tree with this many leaves.

    Raises:
        ValueError: unless their number is a power of two.
    """
    if leaves < 1 or leaves & (leaves - 1):
        raise ValueError(f"a complete tree has a power of two leaves, got {leaves}")
    return leaves.bit_length() - 1


def _nodes_of_level(level: int) -> slice:
    """The places of a level's nodes in heap order."""
    return slice(2**level - 1, 2 ** (level + 1) - 1)


def assign_leaves(tree: Tree, asked: Any) -> Any:
    """i8 or i32[N]: the leaf of each row, from its splits or bins (`move_to_children`)."""
    leaves = tree.leaf.shape[-1]
    rows = asked.bins.shape[1] if isinstance(asked, BinsAndSplits) else asked.shape[1]
    node = array_namespace(*tree).zeros(rows, node_dtype(leaves))
    for level in range(tree_depth(leaves)):
        node = move_to_children(asked, node, tree.split[_nodes_of_level(level)])
    return node


def predict_tree(tree: Tree, asked: Any) -> Any:
    """f32[N]: the leaf value of each row, from its splits or bins (`move_to_children`).

    In a shallow tree each row chooses between the values of two children at every node, from the
    leaves up. That needs no numbers of nodes, and no gather.
    """
    xp, leaves = array_namespace(*tree), tree.leaf.shape[-1]
    if leaves > 2 * ONE_HOT_NODES:
        return tree.leaf[assign_leaves(tree, asked).astype(np.int32)]
    right = satisfies_splits(asked, xp.maximum(tree.split, 0)) & (tree.split != UNSPLIT)[:, None]
    value = tree.leaf[:, None]
    for level in reversed(range(tree_depth(leaves))):
        value = xp.where(right[_nodes_of_level(level)], value[1::2], value[::2])
    return xp.broadcast_to(value[0], right.shape[1:])


def _check_trees(trees: Tree, _: int, splits: Splits | None, axes: tuple) -> None:
    if splits is None or axes:
        raise ValueError("trees must have splits, and tell two classes apart")
    _check_complete_trees(trees.split, trees.leaf)
    check_indices("split", trees.split, UNSPLIT, len(splits.feature))


def _describe_trees(trees: Tree, splits: Splits, domain: Domain, *_: Any) -> str:
    column, low, high = (np.asarray(field) for field in splits[:3])
    bin = np.arange(MAX_BINS)

    def ask(tree: int, node: int) -> tuple[int, np.ndarray]:
        split = trees.split[tree, node]
        return int(column[split]), (low[split] <= bin) & (bin <= high[split]) & (split != UNSPLIT)

    head = model_heading(None, False, "trees")[0]
    return _describe_trees_as_rules(
        np.asarray(trees.leaf), ask, domain, head, f"add {{:+.{DIGITS}f}}"
    )


def _graph_of_trees(graph: Graph, trees: Tree, rows: Value, splits: Splits | None) -> GraphOutputs:
    """The splits that trees use are looked up in tables of bins; the last is that of UNSPLIT."""
    assert splits is not None
    used, number = np.unique(trees.split, return_inverse=True)
    used, number = (used[1:], number - 1) if used[0] == UNSPLIT else (used, number)
    feature, low, high = (np.append(np.asarray(field)[used], 0) for field in splits[:3])
    bin = np.arange(MAX_BINS)
    tables = (low[:, None] <= bin) & (bin <= high[:, None])
    tables[-1] = False
    answers = graph.asked(rows, feature, tables.astype(np.int64))
    of_node = graph.constant(number.reshape(-1) % len(tables), np.int64)  # -1 is the last

    def right(node: Value) -> Value:
        return graph.add("GatherElements", answers, of_node.at(node), axis=1)

    return graph.descend(rows, np.asarray(trees.leaf), right).sum(), None


TREES = HypothesisKind(
    name="trees",
    predict=predict_tree,
    read_rows=_bins_and_splits,
    arrays=(("split", "int32"), ("leaf", "float32")),
    make=Tree,
    check_arrays=_check_trees,
    describe=_describe_trees,
    add_to_graph=_graph_of_trees,
)
"""Trees of any depth over public splits; `public_types.Tree` says what they are."""


# Oblivious trees: all nodes of a level ask the same split, so D bits partition the rows.


class ObliviousTree(NamedTuple):
    """A tree of which every level asks one split.

    Attributes:
        feature: i32[D]: the feature that each level reads.
        right: bool[D, MAX_BINS]: whether a row with this bin of the feature goes right. For a
            column whose bins are ordered these bins have no gap, as
            `oblivious_splits.tree_structure` makes them.
        leaf: f32[2^D]: the value added to the score; the first level is the highest bit. It is
            f32[K, 2^D] with several classes.
    """

    feature: Array
    right: Array
    leaf: Array


_ROWS_AT_ONCE = 4096
"""How many rows are looked up at once by NumPy, so that they stay in a cache."""


def _predict_oblivious_tree(tree: ObliviousTree, bins: Any) -> Any:
    """f32[N], or f32[K, N] with several classes: the value of each row's leaf; bins u8[F, N].

    With NumPy the levels that ask one feature are one table, of what each bin adds to the number of
    the leaf.
    """

    def ask(leaf: Any, level: tuple[Any, Any]) -> Any:
        feature, right = level
        return leaf + leaf + right[bins[feature].astype(np.int32)].astype(np.int32)

    xp = array_namespace(bins, *tree)
    if xp is not np:
        start = xp.zeros(bins.shape[1], np.int32)
        return tree.leaf[..., fold(ask, start, (tree.feature, tree.right))]

    adds = tree.right * (1 << np.arange(len(tree.feature))[::-1, None])
    tables = [(bins[f], adds[tree.feature == f].sum(axis=0)) for f in set(tree.feature.tolist())]
    found = np.empty((*tree.leaf.shape[:-1], bins.shape[1]), tree.leaf.dtype)
    for first in range(0, bins.shape[1], _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        found[..., rows] = tree.leaf[..., sum(table[bin[rows]] for bin, table in tables)]
    return found


def _check_oblivious_trees(
    trees: ObliviousTree, width: int, splits: Splits | None, axes: tuple
) -> None:
    if splits is None:
        raise ValueError("oblivious trees must read bins")
    count, levels = trees.feature.shape if trees.feature.ndim == 2 else (0, 0)
    right, leaf = (count, levels, MAX_BINS), (count, *axes, 2 ** min(levels, 32))
    if (trees.right.shape, trees.leaf.shape) != (right, leaf):
        raise ValueError("feature, right and leaf must be of the same trees and classes")
    check_indices("feature", trees.feature, 0, width)


def _describe_oblivious_trees(
    trees: ObliviousTree, _: Splits, domain: Domain, target: Any, classes: Sequence | None
) -> str:
    """The splits of each tree, and what its leaves add.

    The leaves of a tree of up to 3 splits are listed by their answers, n for no and y for yes.
    Of a larger tree the smallest and the largest value are shown. With several classes there is a
    line for each class. Of a number, values are in its units.
    """
    head, factor = model_heading(target, isinstance(target, Nominal), "trees")
    style = f"+.{DIGITS}g" if isinstance(target, Numeric) else f"+.{DIGITS}f"

    def listed(values: np.ndarray, adds: str) -> list[str]:
        shown = [f"{float(value) * factor:{style}}" for value in values]
        levels = tree_depth(len(values))
        if levels > 3:
            low, high = shown[int(values.argmin())], shown[int(values.argmax())]
            return [f"{len(values)} leaves, each adds {low} to {high}"]
        no_yes = str.maketrans("01", "ny")
        answers = [f"{i:0{levels}b}".translate(no_yes) for i in range(len(values))]
        return [f"{answer}{adds} {word}" for answer, word in zip(answers, shown, strict=True)]

    columns, lines = list(domain.items()), [head]
    for number, (features, right, leaf) in enumerate(zip(*trees, strict=True), 1):
        lines.append(f"tree {number}")
        for level, (feature, bins) in enumerate(zip(features, right, strict=True), 1):
            lines.append(f"  split {level}: {describe_bins(*columns[int(feature)], bins)}")
        if isinstance(target, Nominal):
            of_class = zip(classes or target.values, leaf, strict=True)
            lines += [f"  {word}: {', '.join(listed(values, ''))}" for word, values in of_class]
        else:
            lines += indent_lines(listed(leaf, ": add"))
    return "\n".join(lines)


def _graph_of_oblivious_trees(
    graph: Graph, trees: ObliviousTree, rows: Value, *_: Any
) -> GraphOutputs:
    """A tree's answers are the bits of its leaf, the first of them the highest."""
    feature, right, leaf = trees
    count, levels = feature.shape
    bits = graph.asked(rows, feature.reshape(-1), right.reshape(-1, MAX_BINS).astype(np.int64))
    by_tree = graph.add("Reshape", bits, np.array([-1, count, levels], np.int64))
    place = (by_tree * (2 ** np.arange(levels, dtype=np.int64)[::-1])).sum(axis=2)
    last = leaf if leaf.ndim == 2 else np.moveaxis(leaf, 1, 2)
    values = last.reshape(count * 2**levels, *last.shape[2:])
    first = 2**levels * np.arange(count, dtype=np.int64)[None]
    return graph.constant(values).at(place + first).sum(), None


OBLIVIOUS = HypothesisKind(
    name="oblivious trees",
    predict=_predict_oblivious_tree,
    read_rows=lambda rows: rows.bins.T.copy(),
    arrays=(("feature", "int32"), ("right", "bool"), ("leaf", "float32")),
    make=ObliviousTree,
    check_arrays=_check_oblivious_trees,
    describe=_describe_oblivious_trees,
    add_to_graph=_graph_of_oblivious_trees,
)
"""Oblivious trees over the bins of a domain."""


# Additive models.


SHAPES = HypothesisKind(
    name="shapes",
    predict=predict_shapes,
    read_rows=lambda rows: rows.bins.T,
    arrays=(("score", "float32"), ("pairs", "int32"), ("parts", "uint8"), ("noise", "float32")),
    make=ShapeFunctions,
    check_arrays=check_shapes,
    describe=describe_shapes,
    add_to_graph=graph_of_shapes,
)
"""Additive models over the bins of a domain: one curve a column, and declared pairs."""


# Groups of random trees: thresholds on positions, and leaves that state shares.


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


def assign_leaves_by_position(attribute: Any, threshold: Any, position: Any, tree: Any = 0) -> Any:
    """i32[N]: the leaf that each row ends in. It only gathers, so all levels cost the same time.

    Args:
        attribute: i32[..., 2^D - 1], of P trees or of one.
        threshold: f32[..., 2^D - 1].
        position: f32[N, A].
        tree: i32[N], which of the P trees each row passes through.
    """
    xp, inner = array_namespace(attribute, threshold, position), attribute.shape[-1]
    attributes, thresholds = attribute.reshape(-1), threshold.reshape(-1)

    def ask(node: Any, _: Any) -> Any:
        split = tree * inner + node
        value = xp.take_along_axis(position, attributes[split][:, None], axis=1)[:, 0]
        return 2 * node + 1 + (value > thresholds[split]).astype(np.int32)

    start = xp.zeros(position.shape[0], np.int32)
    return fold(ask, start, xp.arange(tree_depth(inner + 1))) - inner


def shares_of_reached_leaves(group: TreeGroup, position: Any) -> Any:
    """f32[P, N]: theta of the leaf of each tree that each row ends in."""
    leaf = map_over_first_axis(
        lambda tree: assign_leaves_by_position(tree[0], tree[1], position),
        (group.attribute, group.threshold),
    )
    return array_namespace(*group, position).take_along_axis(group.leaf, leaf, axis=1)


def net_votes(group: TreeGroup, position: Any) -> Any:
    """f32[N]: the number of trees that say positive minus the number that say negative."""
    xp, grown = array_namespace(*group, position), group.grown[:, None]
    return xp.sum(xp.where(shares_of_reached_leaves(group, position) > 0.5, grown, -grown), axis=0)


def stated_shares(trees: TreeGroup, position: Any) -> Any:
    """f32[k, N]: the share of the positive class that each tree's leaf states for each row.

    Args:
        trees: a TreeGroup with any leading axes, such as `Model.hypotheses`. Padding beyond the
            number of rounds states NaN.
        position: f32[N, A].
    """
    attribute, threshold, leaf = (array.reshape(-1, array.shape[-1]) for array in trees[:3])
    stated = shares_of_reached_leaves(TreeGroup(attribute, threshold, leaf, trees.grown), position)
    xp = array_namespace(stated)
    return xp.where(trees.grown.reshape(-1)[:, None] > 0, stated, np.float32(np.nan))


def grown_trees(attribute: np.ndarray, threshold: np.ndarray, leaf: np.ndarray) -> TreeGroup:
    """The grown trees of some arrays."""
    return TreeGroup(attribute, threshold, leaf, np.ones(leaf.shape[:-1], np.float32))


def _check_tree_groups(
    groups: TreeGroup, features: int, splits: Splits | None, axes: tuple
) -> None:
    if axes or groups.leaf.ndim != 3 or groups.attribute.shape != groups.threshold.shape:
        raise ValueError("attribute, threshold and leaf must be of the same trees")
    _check_complete_trees(groups.attribute, groups.leaf)
    known = features if splits is None else len(splits.attribute)
    check_indices("attribute", groups.attribute, 0, known)


def _describe_tree_groups(groups: TreeGroup, splits: Splits, domain: Domain, *_: Any) -> str:
    attribute, threshold, leaf = (array.reshape(-1, array.shape[-1]) for array in groups[:3])
    column, position = np.asarray(splits.attribute), np.asarray(splits.position)

    def ask(tree: int, node: int) -> tuple[int, np.ndarray]:
        asked = attribute[tree, node]
        return int(column[asked]), position[asked] > float(threshold[tree, node])

    head = "vote of each tree: positive if its share of positive is above 0.5"
    return _describe_trees_as_rules(leaf, ask, domain, head, f"share of positive {{:.{DIGITS}f}}")


def _graph_of_tree_groups(
    graph: Graph, groups: TreeGroup, rows: Value, splits: Splits | None
) -> GraphOutputs:
    positions = graph.positions(rows, splits)
    attribute = graph.constant(groups.attribute.reshape(-1), np.int64)
    threshold = graph.constant(groups.threshold.reshape(-1), np.float32)

    def right(node: Value) -> Value:
        value = graph.add("GatherElements", positions, attribute.at(node), axis=1)
        return (value > threshold.at(node)).cast("INT64")

    shares = graph.descend(positions, groups.leaf.reshape(-1, groups.leaf.shape[-1]), right)
    vote = (shares > np.float32(0.5)).cast("FLOAT") * np.float32(2) + np.float32(-1)
    return vote.sum(), graph.add("ReduceMean", shares, axes=[1], keepdims=0)


TREE_GROUPS = HypothesisKind(
    name="tree_groups",
    predict=net_votes,
    read_rows=lambda rows: rows.positions,
    shares=stated_shares,
    arrays=(("attribute", "int32"), ("threshold", "float32"), ("leaf", "float32")),
    make=grown_trees,
    check_arrays=_check_tree_groups,
    describe=_describe_tree_groups,
    add_to_graph=_graph_of_tree_groups,
)
"""Groups over positions. Their sum is a majority vote; `dpbt.predict` has all voting rules."""


# Halfspaces: linear functions of rows in the unit ball.


_INSIDE = 1 - 2.0**-20
"""The radius that rows are projected to, so that float32 leaves none outside the unit ball."""

_LARGEST = 1e18
"""The largest entry of a row; float32 flushes reciprocals of larger numbers to 0."""


class Halfspace(NamedTuple):
    """h(x) = normal . x, on the unit ball.

    Attributes:
        normal: f32[d].
    """

    normal: Array


def project_to_unit_ball(rows: Any) -> Any:
    """f32[N, d]: each row x as x / max(1, |x|), up to 1e-6.

    It is a fixed map of a row: no row is rejected, and nothing is learned from other rows. Entries
    that are not finite count as 0, and all entries are clipped to +-1e18.
    """
    xp = array_namespace(rows)
    rows = xp.clip(xp.where(xp.isfinite(rows), rows, np.float32(0)), -_LARGEST, _LARGEST)
    largest = xp.maximum(xp.max(xp.abs(rows), axis=1, keepdims=True), 1)
    norm = largest * xp.sqrt(sum_in_order(round_separately((rows / largest) ** 2).T))[:, None]
    outside = xp.maximum(norm, _INSIDE)  # no row of zeros is divided by zero
    return xp.where(norm > _INSIDE, rows / largest * (_INSIDE * largest / outside), rows)


def _predict_halfspace(halfspace: Halfspace, columns: Any) -> Any:
    """f32[N]: normal . x, feature after feature, so that no row's score depends on other rows.

    A matrix product adds in another order for other numbers of rows.

    Args:
        halfspace: one.
        columns: f32[d, N], rows in the unit ball.
    """

    def add(score: Any, feature: tuple[Any, Any]) -> Any:
        return score + round_separately(feature[0] * feature[1])

    normal = halfspace.normal
    first = round_separately(columns[0] * normal[0])
    return fold(add, first, (columns[1:], normal[1:]), unroll=4)


def _check_halfspaces(planes: Halfspace, width: int, splits: Splits | None, axes: tuple) -> None:
    known = width if splits is None else len(splits.attribute)
    if axes or planes.normal.ndim != 2 or planes.normal.shape[1] != known:
        raise ValueError("normal must have a number for each attribute")


def _describe_halfspaces(halfspaces: Halfspace, _: Splits, domain: Domain, *__: Any) -> str:
    """The weight of each attribute, largest first: what it adds to the score at position 1."""
    names = []
    for name, column in domain.items():
        words = [split.yes for split in column.splits(name)]
        names += [name] * (column.num_thresholds > 0) + words[column.num_thresholds :]
    total = np.asarray(halfspaces.normal, np.float64).sum(axis=0)
    order = np.argsort(-np.abs(total), kind="stable")
    head = [
        "score of a row: the sum of weight times position over the attributes; positive above 0",
        "a position is from 0 to 1 in the declared range; a row's positions are divided by their "
        "length where that is above 1",
        "weight   attribute",
    ]
    return "\n".join([*head, *(f"{total[a]:+.{DIGITS}f}  {names[a]}" for a in order)])


def _graph_of_halfspaces(graph: Graph, planes: Halfspace, rows: Value, splits: Any) -> GraphOutputs:
    """In double precision, for rows of finite numbers."""
    double = graph.positions(rows, splits).cast("DOUBLE")
    length = graph.add("Sqrt", (double * double).sum(keep=True))
    inside = double / graph.add("Max", length, np.float64(1))
    normal = planes.normal.sum(axis=0, dtype=np.float64)
    return (inside * normal[None]).sum().cast("FLOAT"), None


HALFSPACES = HypothesisKind(
    name="halfspaces",
    predict=_predict_halfspace,
    read_rows=lambda rows: project_to_unit_ball(rows.positions).T,
    arrays=(("normal", "float32"),),
    make=Halfspace,
    check_arrays=_check_halfspaces,
    describe=_describe_halfspaces,
    add_to_graph=_graph_of_halfspaces,
)
"""Linear functions of rows in the unit ball, which hold exact numbers or positions of bins."""


KINDS = {kind.name: kind for kind in (TREES, OBLIVIOUS, SHAPES, TREE_GROUPS, HALFSPACES)}
"""All kinds, by their names in files."""


def is_kind_of_files(kind: HypothesisKind) -> bool:
    """Whether files hold hypotheses of a kind: `KINDS` has it as it is, whatever it trains with."""
    return KINDS.get(kind.name) == dataclasses.replace(kind, training=None)
