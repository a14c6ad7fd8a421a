"""Models as treelite ensembles of encoded rows. The extra `treelite` installs what this needs.

As in `onnx`, an ensemble reads the arrays that `Model.encode` returns, so words, missing cells and
cells that are not listed have bins of their own. Trees of raw cells could not tell words apart. JAX
is never imported here.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpbt.common.arithmetic import LN2
from dpbt.common.extras import import_extra
from dpbt.common.storage import write_atomically
from dpbt.common.validate import as_path
from dpbt.data.column_types import Nominal, Numeric
from dpbt.learners.complete_trees import depth_of_complete_tree
from dpbt.learners.forests.model import TREE_GROUPS
from dpbt.learners.oblivious.model import OBLIVIOUS
from dpbt.learners.trees.model import TREES
from dpbt.models.model import Model, checked_model, without_training_parts
from dpbt.public_types import MAX_BINS, UNSPLIT

_BINS = np.arange(MAX_BINS)


def export(model: Model, path: str | Path) -> None:
    """Write a model of trees as a checkpoint of treelite.

    The file is written whole or not at all.

    `treelite.Model.deserialize(path)` reads it, and `treelite.gtil.predict` takes encoded rows as
    f32[N, F] (`Model.encode`). Margins are the scores of `decision_function`, up to the rounding of
    float32. For several classes they are in nats, for numbers in their units and not clipped to the
    range, and for counts the logarithm of the count. Predictions are probabilities for a model of
    the log loss, and means for one of counts. For a random forest they are the mean share of the
    positive class. The attributes hold the statement, the ledger and the classes.

    Args:
        model: a model of trees, such as those of "auto", "bdpe" and "random_forest".
        path: the file.

    Raises:
        ValueError: for anything that is no model, for hypotheses that are no trees, such as curves
            and halfspaces, and for something that is no path.
        ImportError: without the package `treelite`, naming the extra.
        OSError: if the file cannot be written.
    """
    path = as_path("path", path)
    model = without_training_parts(checked_model(model))
    about = model.about
    target = model.about.target
    if about.kind not in (TREES, OBLIVIOUS, TREE_GROUPS):
        raise ValueError(
            f"the hypotheses of {about.name} are no trees, and treelite has only these"
        )
    treelite: Any = import_extra("treelite", extra="treelite", purpose="a file of treelite")
    builder = treelite.model_builder
    trees = list(_heap_trees(model))

    output = _treelite_output_of_model(model)
    margins_start = output.offset + output.scale * np.asarray(model.intercept, np.float64)
    is_mean_share = about.kind is TREE_GROUPS
    num_trees = len(trees)
    features = model.features
    classes_of_trees = [-1 if isinstance(target, Nominal) else 0] * num_trees
    ensemble = builder.ModelBuilder(
        threshold_type="float32",
        leaf_output_type="float32",
        metadata=builder.Metadata(
            features, output.task, is_mean_share, 1, [output.num_classes], (1, output.num_classes)
        ),
        tree_annotation=builder.TreeAnnotation(num_trees, [0] * num_trees, classes_of_trees),
        postprocessor=builder.PostProcessorFunc(output.postprocessor, output.sigmoid_alpha),
        base_scores=np.atleast_1d(np.zeros(1) if is_mean_share else margins_start).tolist(),
        attributes={
            "statement": about.statement,
            "ledger": about.ledger,
            "classes": None if about.classes is None else list(about.classes),
        },
    )
    num_bins = [MAX_BINS] * features
    if about.domain is not None and model.splits is not None:
        num_bins = [column.n_bins for column in about.domain.values()]
    for tree in trees:
        _add_tree(ensemble, tree, scale=output.scale, num_bins=num_bins)
    treelite_model = ensemble.commit()
    write_atomically(path, lambda part: treelite_model.serialize(str(part)))


class _Output(NamedTuple):
    """The way in which treelite makes margins of scores, and predictions of margins.

    Attributes:
        task: treelite's name of the task.
        num_classes: K, the number of margins of a row.
        scale: a margin is offset + scale * score.
        offset: see `scale`.
        postprocessor: treelite's name of the function from margins to predictions.
        sigmoid_alpha: the factor of margins in a sigmoid.
    """

    task: str = "kBinaryClf"
    num_classes: int = 1
    scale: float = 1.0
    offset: float = 0.0
    postprocessor: str = "identity"
    sigmoid_alpha: float = 1.0


def _treelite_output_of_model(model: Model) -> _Output:
    """The way in which treelite makes the margins and the predictions of a model."""
    target = model.about.target
    if isinstance(target, Nominal):
        num_classes = len(target.values)
        return _Output("kMultiClf", num_classes, scale=LN2, postprocessor="softmax")
    if isinstance(target, Numeric):
        scale, offset, _ = target.score_units
        is_count = target.response.objective == "poisson"
        postprocessor = "exponential" if is_count else "identity"
        return _Output("kRegressor", scale=scale, offset=offset, postprocessor=postprocessor)
    if model.about.probability == "log":
        return _Output(postprocessor="sigmoid", sigmoid_alpha=LN2)
    return _Output()


class HeapTree(NamedTuple):
    """A complete binary tree of depth D, as arrays of its nodes in heap order.

    Attributes:
        feature: i[2^D - 1], the feature that each inner node reads.
        right: for nodes that read bins bool[2^D - 1, MAX_BINS], whether a bin goes right. For nodes
            that read numbers f[2^D - 1], the threshold above which a number goes right.
        leaf: the values [2^D], or [K, 2^D] with several classes.
    """

    feature: np.ndarray
    right: Any
    leaf: np.ndarray


def _heap_trees(model: Model) -> Iterator[HeapTree]:
    """The trees of a model, as complete trees in heap order."""
    splits = model.splits
    kind = model.about.kind
    if kind is OBLIVIOUS:
        for feature, right, leaf in zip(*model.hypotheses[:3], strict=True):
            level = np.repeat(np.arange(len(feature)), 2 ** np.arange(len(feature)))
            yield HeapTree(feature[level], right[level], leaf)
    elif kind is TREES:
        assert splits is not None
        feature, low, high = (np.asarray(field) for field in splits[:3])
        for split, leaf in zip(*model.hypotheses, strict=True):
            first, last = low[split][:, None], high[split][:, None]
            goes_right = (first <= _BINS) & (last >= _BINS) & (split != UNSPLIT)[:, None]
            yield HeapTree(feature[split], goes_right, leaf)
    else:
        attributes, thresholds, leaves = (
            array.reshape(-1, array.shape[-1]) for array in model.hypotheses[:3]
        )
        for attribute, threshold, leaf in zip(attributes, thresholds, leaves, strict=True):
            if splits is None:
                yield HeapTree(attribute, threshold, leaf)
            else:  # positions follow from bins
                goes_right = np.asarray(splits.position)[attribute] > threshold[:, None]
                yield HeapTree(np.asarray(splits.attribute)[attribute], goes_right, leaf)


def _add_tree(ensemble: Any, tree: HeapTree, *, scale: float, num_bins: list[int]) -> None:
    """Add a tree to an ensemble of treelite.

    A node of which all bins go left is left out.

    Args:
        ensemble: treelite's builder.
        tree: the tree.
        scale: the factor of its leaves.
        num_bins: the number of bins of each feature.
    """
    num_inner = len(tree.feature)
    leaves = scale * tree.leaf.astype(np.float64)
    assert depth_of_complete_tree(leaves.shape[-1]) == depth_of_complete_tree(num_inner + 1)

    ensemble.start_tree()
    waiting = [_first_kept_node(tree, 0)]
    while waiting:
        node = waiting.pop()
        ensemble.start_node(node)
        if node >= num_inner:
            value = leaves[..., node - num_inner]
            ensemble.leaf(value.tolist() if value.ndim else float(value))
        else:
            children = [_first_kept_node(tree, 2 * node + side) for side in (1, 2)]
            _add_test_of_node(ensemble, tree, node, children, num_bins[int(tree.feature[node])])
            waiting += children
        ensemble.end_node()
    ensemble.end_tree()


def _first_kept_node(tree: HeapTree, node: int) -> int:
    """The first node, from this one down the left branch, that is kept in an ensemble.

    It is a leaf, or sends bins right.
    """
    while node < len(tree.feature) and tree.right.ndim == 2 and not tree.right[node].any():
        node = 2 * node + 1
    return node


def _add_test_of_node(
    ensemble: Any, tree: HeapTree, node: int, children: list[int], num_bins: int
) -> None:
    """Add the test of an inner node to an ensemble of treelite.

    The feature of the node has `num_bins` bins.
    """
    feature = int(tree.feature[node])
    routes = {"default_left": True, "left_child_key": children[0], "right_child_key": children[1]}
    if tree.right.ndim == 1:
        ensemble.numerical_test(feature, float(tree.right[node]), opname="<=", **routes)
        return
    right_bins = np.flatnonzero(tree.right[node, :num_bins]).tolist()
    if right_bins == [*range(num_bins)][-len(right_bins) :]:
        ensemble.numerical_test(feature, float(right_bins[0]), opname="<", **routes)
    else:
        ensemble.categorical_test(
            feature, category_list=right_bins, category_list_right_child=True, **routes
        )
