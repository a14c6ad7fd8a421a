"""Models as treelite ensembles of encoded rows. The extra `treelite` installs what this needs.

As in `onnx`, an ensemble reads what `Model.encode` gives, so words, missing cells and cells that
are not listed have bins of their own. Trees of raw cells could not tell words apart. JAX is never
imported here.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dpbt.common.arithmetic import LN2
from dpbt.common.extras import import_extra
from dpbt.common.storage import write_whole
from dpbt.common.validate import as_path
from dpbt.data.kinds import Nominal, Numeric
from dpbt.learners.hypotheses import OBLIVIOUS, TREE_GROUPS, TREES, tree_depth
from dpbt.models.model import Model, as_model, without_training_parts
from dpbt.public_types import MAX_BINS, UNSPLIT

_BINS = np.arange(MAX_BINS)


def export(model: Model, path: str | Path) -> None:
    """Write a model of trees as a checkpoint of treelite: whole, or not at all.

    `treelite.Model.deserialize(path)` reads it, and `treelite.gtil.predict` takes encoded rows as
    f32[N, F] (`Model.encode`). Margins are the scores of `decision_function`, up to the rounding of
    float32. Of several classes they are in nats, of numbers in their units and not clipped to the
    range, and of counts the logarithm. Predictions are probabilities where the log loss was
    learned, and means of counts. Of a random forest they are the mean share of the positive class.
    The attributes hold the statement, the ledger and the classes.

    Args:
        model: of trees, such as those of "auto", "bdpe" and "random_forest".
        path: the file.

    Raises:
        ValueError: for anything that is no model, for hypotheses that are no trees, such as curves
            and halfspaces, and for something that is no path.
        ImportError: without the package `treelite`, naming the extra.
        OSError: if the file cannot be written.
    """
    path = as_path("path", path)
    model = without_training_parts(as_model(model))
    about, target = model.about, model.about.target
    if about.kind not in (TREES, OBLIVIOUS, TREE_GROUPS):
        raise ValueError(
            f"the hypotheses of {about.name} are no trees, and treelite has only these"
        )
    treelite: Any = import_extra("treelite", "treelite", "a file of treelite")
    builder, trees = treelite.model_builder, list(_heap_trees(model))

    # What margins are, and what is made of them.
    scale, offset, after, alpha = 1.0, 0.0, "identity", 1.0
    task, classes, shares = "kBinaryClf", 1, about.kind is TREE_GROUPS
    several = isinstance(target, Nominal)
    if isinstance(target, Nominal):
        scale, after, task, classes = LN2, "softmax", "kMultiClf", len(target.values)
    elif isinstance(target, Numeric):
        (scale, offset, _), task = target.score_units, "kRegressor"
        after = "exponential" if target.response.objective == "poisson" else after
    elif about.probability == "log":
        after, alpha = "sigmoid", LN2
    base = np.zeros(1) if shares else offset + scale * np.asarray(model.intercept, np.float64)

    features, count = model.features, len(trees)
    built = builder.ModelBuilder(
        threshold_type="float32",
        leaf_output_type="float32",
        metadata=builder.Metadata(features, task, shares, 1, [classes], (1, classes)),
        tree_annotation=builder.TreeAnnotation(count, [0] * count, [-1 if several else 0] * count),
        postprocessor=builder.PostProcessorFunc(after, alpha),
        base_scores=np.atleast_1d(base).tolist(),
        attributes={
            "statement": about.statement,
            "ledger": about.ledger,
            "classes": None if about.classes is None else list(about.classes),
        },
    )
    bins = [MAX_BINS] * features
    if about.domain is not None and model.splits is not None:
        bins = [column.n_bins for column in about.domain.values()]
    for feature, right, leaf in trees:
        _add_tree(built, bins, feature, right, scale * leaf.astype(np.float64))
    whole = built.commit()
    write_whole(path, lambda part: whole.serialize(str(part)))


HeapTrees = Iterator[tuple[np.ndarray, Any, np.ndarray]]
"""(i[2^D - 1] features, which bins go right or numbers that do not, leaves [2^D] or [K, 2^D])."""


def _heap_trees(model: Model) -> HeapTrees:
    """The trees of a model in heap order.

    Of nodes that read bins there is bool[2^D - 1, MAX_BINS], the bins that go right. Of nodes that
    read numbers there are thresholds f[2^D - 1], above which a number goes right.
    """
    splits, kind = model.splits, model.about.kind
    if kind is OBLIVIOUS:
        for feature, right, leaf in zip(*model.hypotheses, strict=True):
            level = np.repeat(np.arange(len(feature)), 2 ** np.arange(len(feature)))
            yield feature[level], right[level], leaf
    elif kind is TREES:
        assert splits is not None
        feature, low, high = (np.asarray(field) for field in splits[:3])
        for split, leaf in zip(*model.hypotheses, strict=True):
            ends = low[split][:, None], high[split][:, None]
            inside = (ends[0] <= _BINS) & (ends[1] >= _BINS) & (split != UNSPLIT)[:, None]
            yield feature[split], inside, leaf
    else:
        attribute, threshold, leaf = (a.reshape(-1, a.shape[-1]) for a in model.hypotheses[:3])
        for asked, above, values in zip(attribute, threshold, leaf, strict=True):
            if splits is not None:  # numbers are read as bins
                above = np.asarray(splits.position)[asked] > above[:, None]
                asked = np.asarray(splits.attribute)[asked]
            yield asked, above, values


def _add_tree(
    built: Any, bins: list[int], feature: np.ndarray, right: np.ndarray, leaf: np.ndarray
) -> None:
    """Add one tree of columns of so many bins. A node of which all bins go left is left out."""
    inner = len(feature)
    assert tree_depth(leaf.shape[-1]) == tree_depth(inner + 1)

    def below(node: int) -> int:
        while node < inner and right.ndim == 2 and not right[node].any():
            node = 2 * node + 1
        return node

    built.start_tree()
    waiting = [below(0)]
    while waiting:
        node = waiting.pop()
        built.start_node(node)
        if node >= inner:
            value = leaf[..., node - inner]
            built.leaf(value.tolist() if value.ndim else float(value))
        else:
            children, column = (below(2 * node + 1), below(2 * node + 2)), int(feature[node])
            keys = dict(zip(("left_child_key", "right_child_key"), children, strict=True))
            goes = {"default_left": True, **keys}
            if right.ndim == 1:
                built.numerical_test(column, float(right[node]), opname="<=", **goes)
            else:
                listed = np.flatnonzero(right[node, : bins[column]]).tolist()
                if listed == [*range(bins[column])][-len(listed) :]:
                    built.numerical_test(column, float(listed[0]), opname="<", **goes)
                else:
                    more = {"category_list": listed, "category_list_right_child": True}
                    built.categorical_test(column, **more, **goes)
            waiting += children
        built.end_node()
    built.end_tree()
