"""Scores of a few public rows with each bin of one column in place of their own bin.

A domain may have thousands of columns, and a tree reads few of them. So for each column only the
hypotheses that read it are evaluated, and the time grows with what the hypotheses read, and not
with the square of the number of columns.
"""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, UInt8

from dpbt.data.domains import Domain
from dpbt.learners.additive.model import SHAPES, ShapeFunctions, shape_functions_by_column
from dpbt.learners.forests.model import TREE_GROUPS
from dpbt.learners.oblivious.model import OBLIVIOUS, ObliviousTree
from dpbt.learners.trees.model import TREES
from dpbt.models import model as models
from dpbt.models.model import Model
from dpbt.public_types import UNSPLIT, Splits


class ColumnScores:
    """The scores of rows with each bin of a column in turn.

    A score is known up to a constant of its row.

    Args:
        model: a model that reads bins.
        domain: its domain.
        rows: u8[R, F], public rows.
    """

    def __init__(self, model: Model, domain: Domain, rows: UInt8[np.ndarray, "R F"]):
        self._domain = domain
        self._rows = rows
        self._num_bins = [column.n_bins for column in domain.values()]
        kind = model.about.kind
        hypotheses = model.host_hypotheses_of_run_rounds()
        self._num_classes = np.shape(model.intercept)
        match kind.name:
            case OBLIVIOUS.name:
                self._scores: Any = _ScoresOfObliviousTrees(hypotheses, rows)
            case SHAPES.name:
                self._scores = _ScoresOfCurves(hypotheses, domain, rows)
            case _:
                self._scores = _ScoresOfHypotheses(model, hypotheses, rows)

    def scores_by_bin(
        self, column: int, is_selected_row: Bool[np.ndarray, "_"] | None = None
    ) -> Float64[np.ndarray, "_ _ ..."]:
        """The score of each row if a column had each of its bins there: f64[bins, rows, ...].

        With several classes there is an axis of classes. What does not depend on the column may be
        missing from a row's scores, so only their differences between bins have a meaning.

        Args:
            column: the number of the column.
            is_selected_row: which rows are scored; None for all.
        """
        row_numbers = (
            np.arange(len(self._rows))
            if is_selected_row is None
            else np.flatnonzero(is_selected_row)
        )
        zeros = np.zeros((self._num_bins[column], len(row_numbers), *self._num_classes))
        return zeros + self._scores.scores_by_bin(column, self._num_bins[column], row_numbers)


class _ScoresOfObliviousTrees:
    """The scores of rows by the bin of a column, for oblivious trees.

    Only the trees that read the column are evaluated.
    """

    def __init__(self, trees: ObliviousTree, rows: np.ndarray):
        self._rows = rows
        self._values = np.moveaxis(np.asarray(trees.leaf, np.float64), -1, 1)
        depth = trees.feature.shape[1]
        self._leaf_offsets_by_feature: dict[int, list[tuple[int, np.ndarray]]] = {}
        """Feature -> (tree, i32[bins]) of each tree that reads it: what a bin adds to the leaf."""
        self._leaves = np.zeros((len(trees.feature), len(rows)), np.int32)
        for number, (feature, right) in enumerate(zip(*trees[:2], strict=True)):
            offsets_of_levels = right * (1 << np.arange(depth, dtype=np.int32)[::-1, None])
            for distinct_feature in set(feature.tolist()):
                offsets = offsets_of_levels[feature == distinct_feature].sum(axis=0, dtype=np.int32)
                self._leaf_offsets_by_feature.setdefault(distinct_feature, []).append(
                    (number, offsets)
                )
                self._leaves[number] += offsets[rows[:, distinct_feature]]

    def scores_by_bin(self, column: int, num_bins: int, row_numbers: np.ndarray) -> Any:
        bins = self._rows[row_numbers, column]
        total = 0.0
        for number, offsets in self._leaf_offsets_by_feature.get(column, []):
            other_levels = self._leaves[number, row_numbers] - offsets[bins]
            total = total + self._values[number][offsets[:num_bins, None] + other_levels]
        return total


class _ScoresOfCurves:
    """The scores of rows by the bin of a column, for an additive model.

    They are sums of the column's curve and of the tables of the pairs that the column is in.
    """

    def __init__(self, shapes: ShapeFunctions, domain: Domain, rows: np.ndarray):
        self._names = list(domain)
        self._rows = rows
        self._functions = shape_functions_by_column(shapes, domain).functions

    def scores_by_bin(self, column: int, num_bins: int, row_numbers: np.ndarray) -> Any:
        del num_bins
        name = self._names[column]
        total = 0.0
        for names, function in self._functions.items():
            if name not in names:
                continue
            if not names[1:]:
                total = total + np.moveaxis(function, -1, 0)[:, None]
                continue
            of_bins = np.moveaxis(function, (-2, -1), (0, 1))
            if name == names[1]:
                of_bins = np.swapaxes(of_bins, 0, 1)
            other = names[0] if name == names[1] else names[1]
            total = total + of_bins[:, self._rows[row_numbers, self._names.index(other)]]
        return total


class _ScoresOfHypotheses:
    """The scores of rows by the bin of a column, for any hypotheses.

    A model of those hypotheses that read the column predicts them.
    """

    def __init__(self, model: Model, hypotheses: Any, rows: np.ndarray):
        self._model = model
        self._hypotheses = hypotheses
        self._rows = rows
        self._reads = _features_read_by_each_hypothesis(model, hypotheses)

    def scores_by_bin(self, column: int, num_bins: int, row_numbers: np.ndarray) -> Any:
        hypotheses = self._hypotheses
        if self._reads is not None:
            reads_column = self._reads[:, column]
            if not reads_column.any():
                return 0.0
            hypotheses = type(hypotheses)(*(array[reads_column] for array in hypotheses))
        rows = np.repeat(self._rows[None, row_numbers], num_bins, axis=0)
        rows[..., column] = np.arange(num_bins)[:, None]
        splits = self._model.splits
        part = dataclasses.replace(
            self._model,
            hypotheses=hypotheses,
            intercept=np.zeros_like(np.asarray(self._model.intercept)),
            splits=None if splits is None else Splits(*map(np.asarray, splits[:5])),
            recipe=None,
            transcript=None,
            loaded_facts=self._model.about,
        )
        scores = models.decision_function(part, rows.reshape(-1, rows.shape[2]))
        return np.asarray(scores, np.float64).reshape(*rows.shape[:2], *scores.shape[1:])


def _features_read_by_each_hypothesis(
    model: Model, hypotheses: Any
) -> Bool[np.ndarray, "T F"] | None:
    """Whether hypothesis t reads feature f: bool[T, F].

    It is None if any hypothesis may read any feature.
    """
    splits = model.splits
    kind = model.about.kind
    if splits is None or kind.name not in (TREES.name, TREE_GROUPS.name):
        return None
    if kind.name == TREES.name:
        feature = np.asarray(splits.feature)[np.maximum(hypotheses.split, 0)]
        is_split = hypotheses.split != UNSPLIT
    else:
        feature = np.asarray(splits.attribute)[hypotheses.attribute]
        is_split = np.ones(feature.shape, bool)
    num_hypotheses = len(feature)
    reads = np.zeros((num_hypotheses, model.features), bool)
    feature, is_split = (array.reshape(num_hypotheses, -1) for array in (feature, is_split))
    hypothesis, node = np.nonzero(is_split)
    reads[hypothesis, feature[hypothesis, node]] = True
    return reads
