"""Oblivious trees: all nodes of a level ask the same split, so D bits partition the rows.

This module has how they predict, their arrays, words and graphs. Functions take arrays of NumPy or
of JAX alike, and nothing here imports JAX.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpbt.common.arithmetic import array_namespace, fold
from dpbt.data.column_types import Nominal, Numeric
from dpbt.hypothesis_kind import HypothesisKind
from dpbt.learners.complete_trees import depth_of_complete_tree
from dpbt.learners.graph import Graph, GraphOutputs, Value
from dpbt.learners.model_parts import (
    DIGITS,
    Domain,
    LeafBoxes,
    check_indices_in_range,
    describe_bins_as_condition,
    indent_lines,
    model_heading_and_score_scale,
)
from dpbt.public_types import MAX_BINS, AnyArray, Splits


class ObliviousTree(NamedTuple):
    """A tree of which every level asks all rows the same split.

    Attributes:
        feature: i32[D]: the feature that each level reads.
        right: bool[D, MAX_BINS]: whether a row with this bin of the feature goes right. For a
            column whose bins are ordered these bins have no gap, as
            `oblivious.splits.public_tree_from_seed` makes them.
        leaf: f32[2^D]: the value added to the score; the first level is the highest bit. It is
            f32[K, 2^D] with several classes.
        noise: f32[2^D] or f32[K, 2^D]: about the deviation of the noise that privacy adds to each
            leaf, given the splits. It is 0 without noise, and in files that do not say it. A leaf
            at its limit has none, as a little noise does not move it.
        smoothing: f32[]: how much of a leaf's noise the leaves have that differ from it in one bit
            (`ObliviousConfig.smoothing`). So the noise of leaves that differ in b bits is
            correlated by (2 s / (1 + s^2))^b. Noise of two trees is independent.
    """

    feature: AnyArray
    right: AnyArray
    leaf: AnyArray
    noise: AnyArray
    smoothing: AnyArray


_ROWS_AT_ONCE = 4096
"""How many rows are looked up at once by NumPy, so that they stay in a cache."""


def _predict_oblivious_tree(tree: ObliviousTree, bins: Any) -> Any:
    """f32[N], or f32[K, N] with several classes: the value of the leaf that each row reaches.

    With NumPy the levels that ask one feature are one table, of what each bin adds to the number of
    the leaf.
    """

    def ask(leaf: Any, level: tuple[Any, Any]) -> Any:
        feature, right = level
        return leaf + leaf + right[bins[feature].astype(np.int32)].astype(np.int32)

    xp = array_namespace(bins, *tree[:3])
    if xp is not np:
        start = xp.zeros(bins.shape[1], np.int32)
        return tree.leaf[..., fold(ask, start, (tree.feature, tree.right))]

    adds = tree.right * (1 << np.arange(len(tree.feature))[::-1, None])
    tables = [(bins[f], adds[tree.feature == f].sum(axis=0)) for f in set(tree.feature.tolist())]
    values = np.empty((*tree.leaf.shape[:-1], bins.shape[1]), tree.leaf.dtype)
    for first in range(0, bins.shape[1], _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        values[..., rows] = tree.leaf[..., sum(table[bin[rows]] for bin, table in tables)]
    return values


def _check_oblivious_trees(
    trees: ObliviousTree, num_features: int, splits: Splits | None, score_axes: tuple[int, ...]
) -> None:
    """Refuse trees whose shapes, noise or features do not fit the rows, the classes or each other.

    Raises:
        ValueError: saying so.
    """
    if splits is None:
        raise ValueError("oblivious trees must read bins")
    count, levels = trees.feature.shape if trees.feature.ndim == 2 else (0, 0)
    right, leaf = (count, levels, MAX_BINS), (count, *score_axes, 2 ** min(levels, 32))
    if (trees.right.shape, trees.leaf.shape, trees.noise.shape) != (right, leaf, leaf):
        raise ValueError("feature, right, leaf and noise must be of the same trees and classes")
    is_share = np.all((trees.smoothing >= 0) & (trees.smoothing < 1))
    if trees.smoothing.shape != (count,) or not is_share or np.any(trees.noise < 0):
        raise ValueError("noise and smoothing must be those of each tree")
    check_indices_in_range("feature", trees.feature, 0, num_features)


def _describe_oblivious_trees(
    trees: ObliviousTree, _: Splits, domain: Domain, target: Any, classes: Sequence | None
) -> str:
    """A text of the splits of the levels of each tree, and of what its leaves add to the score.

    The leaves of a tree of up to 3 splits are listed by their answers, n for no and y for yes.
    Of a larger tree the smallest and the largest value are shown. With several classes there is a
    line for each class. Of a number, values are in its units.
    """
    heading, factor = model_heading_and_score_scale(target, isinstance(target, Nominal), "trees")
    style = f"+.{DIGITS}g" if isinstance(target, Numeric) else f"+.{DIGITS}f"

    def describe_leaves(values: np.ndarray, adds: str) -> list[str]:
        shown = [f"{float(value) * factor:{style}}" for value in values]
        levels = depth_of_complete_tree(len(values))
        if levels > 3:
            low, high = shown[int(values.argmin())], shown[int(values.argmax())]
            return [f"{len(values)} leaves, each adds {low} to {high}"]
        no_yes = str.maketrans("01", "ny")
        answers = [f"{i:0{levels}b}".translate(no_yes) for i in range(len(values))]
        return [f"{answer}{adds} {word}" for answer, word in zip(answers, shown, strict=True)]

    columns, lines = list(domain.items()), [heading]
    for number, (features, right, leaf) in enumerate(zip(*trees[:3], strict=True), 1):
        lines.append(f"tree {number}")
        for level, (feature, bins) in enumerate(zip(features, right, strict=True), 1):
            lines.append(
                f"  split {level}: {describe_bins_as_condition(*columns[int(feature)], bins)}"
            )
        if isinstance(target, Nominal):
            of_class = zip(classes or target.values, leaf, strict=True)
            lines += [
                f"  {word}: {', '.join(describe_leaves(values, ''))}" for word, values in of_class
            ]
        else:
            lines += indent_lines(describe_leaves(leaf, ": add"))
    return "\n".join(lines)


def _add_oblivious_trees_to_graph(
    graph: Graph, trees: ObliviousTree, rows: Value, *_: Any
) -> GraphOutputs:
    """Add the summed scores of oblivious trees to an ONNX graph.

    A tree's answers are the bits of its leaf, the first of them the highest.
    """
    feature, right, leaf = trees[:3]
    count, levels = feature.shape
    bits = graph.look_up_entries_of_bins(
        rows, feature.reshape(-1), right.reshape(-1, MAX_BINS).astype(np.int64)
    )
    by_tree = graph.add_node("Reshape", bits, np.array([-1, count, levels], np.int64))
    place = (by_tree * (2 ** np.arange(levels, dtype=np.int64)[::-1])).sum(axis=2)
    last = leaf if leaf.ndim == 2 else np.moveaxis(leaf, 1, 2)
    values = last.reshape(count * 2**levels, *last.shape[2:])
    first = 2**levels * np.arange(count, dtype=np.int64)[None]
    return GraphOutputs(graph.add_constant(values).gather(place + first).sum())


def _iterate_leaf_boxes_of_oblivious_trees(
    trees: ObliviousTree, _: Splits, num_bins: int
) -> Iterator[LeafBoxes]:
    """Yield the leaves of each tree as boxes of bins, with their values and noise."""
    is_noise_known = bool(np.any(trees.noise))
    for feature, right, leaf, noise, smoothing in zip(*map(np.asarray, trees), strict=True):
        depth, right = len(feature), right[:, :num_bins]
        bits = np.arange(2**depth)[:, None] >> np.arange(depth)[::-1] & 1
        holds_at_level = right[None] == (bits[..., None] == 1)
        part_of_level = right * (1 << np.arange(depth)[::-1, None])
        distinct_features = np.unique(feature)
        levels = [
            np.flatnonzero(feature == distinct_feature) for distinct_feature in distinct_features
        ]
        leaf_part = np.stack([part_of_level[of_feature].sum(axis=0) for of_feature in levels])
        yield LeafBoxes(
            feature=np.broadcast_to(distinct_features, (2**depth, len(levels))),
            holds=np.stack(
                [holds_at_level[:, of_feature].all(axis=1) for of_feature in levels], axis=1
            ),
            value=leaf,
            noise=noise if is_noise_known else None,
            correlation=float(2 * smoothing / (1 + smoothing**2)),
            leaf_part=leaf_part,
        )


def _oblivious_trees_of_arrays(
    feature: np.ndarray,
    right: np.ndarray,
    leaf: np.ndarray,
    noise: np.ndarray | None = None,
    smoothing: np.ndarray | None = None,
) -> ObliviousTree:
    """Build trees from the arrays of a model file.

    Noise and smoothing are 0 where the file has none.
    """
    noise = np.zeros_like(leaf) if noise is None else noise.astype(np.float32)
    smoothing = np.zeros(len(feature), np.float32) if smoothing is None else smoothing
    return ObliviousTree(feature, right, leaf=leaf, noise=noise, smoothing=smoothing)


def _leaf_values(hypotheses: Any) -> Any:
    """The numbers that the leaves of oblivious trees add to scores."""
    return hypotheses.leaf


OBLIVIOUS = HypothesisKind(
    name="oblivious trees",
    predict=_predict_oblivious_tree,
    read_rows=lambda rows: rows.bins.T.copy(),
    arrays=(("feature", "int32"), ("right", "bool"), ("leaf", "float32")),
    optional_arrays=(("noise", "float16"), ("smoothing", "float32")),
    make=_oblivious_trees_of_arrays,
    check_arrays=_check_oblivious_trees,
    describe=_describe_oblivious_trees,
    add_to_graph=_add_oblivious_trees_to_graph,
    leaf_boxes=_iterate_leaf_boxes_of_oblivious_trees,
    added_numbers=_leaf_values,
)
"""Oblivious trees over the bins of a domain."""
