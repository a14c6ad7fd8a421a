"""The contract of a kind of hypotheses: its training, its prediction, and its form in a file.

The module does not import JAX, because a loaded model predicts, prints and exports without it. All
functions except those of training take arrays of NumPy and of JAX alike.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from dpbt.public_types import AnyArray, HoldsFunctions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training(HoldsFunctions):
    """The functions by which a run trains with a kind of hypotheses; all of them are JAX code.

    Attributes:
        example_table: () -> a table of one absent row that these hypotheses can read.
        check_table: (table) -> None: raises ValueError, on the host, for a table that they cannot
            read.
        prepare: (table) -> the same rows laid out for the loops, with attributes `target`,
            `present` and, if rows may have weights, `weight`.
        bound: (hypothesis) -> f32[]: an upper bound on |prediction| for every possible row.
        prediction_input: (prepared rows) -> the input of `HypothesisKind.predict`; None if that is
            the prepared rows.
        predict_prepared: (hypothesis, prepared rows) -> the result of `HypothesisKind.predict`, by
            a faster way; None without one.
        scale: (hypotheses of T rounds, f32[] slope) -> hypotheses whose predictions are slope times
            theirs. A learner with an epilogue needs it.
        merge: (hypotheses of all rounds, params, public with T as its round) -> hypotheses whose
            predictions have the same sum, for the model; None to keep them as they are.
    """

    example_table: Callable[[], Any]
    check_table: Callable[[Any], None]
    prepare: Callable[[Any], Any]
    bound: Callable[[Any], AnyArray]
    prediction_input: Callable[[Any], Any] | None = None
    predict_prepared: Callable[[Any, Any], AnyArray] | None = None
    scale: Callable[[Any, AnyArray], Any] | None = None
    merge: Callable[[Any, Any, Any], Any] | None = None

    _alternative = "the kind of hypotheses that made it"


@dataclasses.dataclass(frozen=True, kw_only=True)
class HypothesisKind(HoldsFunctions):
    """A kind of hypotheses, from its training to the file of a model.

    Your own kind needs `predict` and `training`. With the other fields its models are saved,
    printed and exported, if `learners.kinds.KINDS` has the kind by its name.

    Attributes:
        predict: (hypothesis, rows laid out) -> f32[N], or f32[K, N] with several classes: the
            number that the hypothesis adds to the score of each row.
        training: how a learner trains with such hypotheses. It is None for the kinds that
            `learners.kinds.KINDS` lists; a learner adds it by `with_training`.
        name: the name in files and in texts; empty for a kind that no file holds.
        read_rows: (encoded rows) -> rows laid out as `predict` reads them; None to lay them out as
            training does.
        shares: (hypotheses, rows laid out) -> f32[k, N], shares of the positive class in place of
            scores, and NaN for rounds beyond T; None for a kind that predicts scores.
        arrays: (name, dtype) of each array that a file keeps.
        optional_arrays: (name, dtype) of each array that a file may lack, as those do that an
            earlier version wrote; `make` is then called without it.
        make: (arrays by name) -> hypotheses.
        check_arrays: (hypotheses, how many features rows have, splits, axes of a score) -> None;
            raises ValueError for arrays that do not fit each other or the rows.
        describe: (hypotheses, splits, domain, target, names of several classes) -> a text.
        add_to_graph: (graph, hypotheses, rows in it, splits) -> `graph.GraphOutputs`.
        leaf_boxes: (hypotheses, splits, B) -> the leaves of each tree (`model_parts.LeafBoxes`) for
            rows of bins below B; the score of a row is their sum. Contributions of columns follow
            from them. None for hypotheses that are no trees.
        added_numbers: (hypotheses) -> the numbers that they add to scores, which are all 0 in a
            model that predicts a constant; None for a kind without such an array.
    """

    predict: Callable[[Any, Any], AnyArray]
    training: Training | None = None
    name: str = ""
    read_rows: Callable[[Any], Any] | None = None
    shares: Callable[[Any, Any], AnyArray] | None = None
    arrays: tuple[tuple[str, str], ...] = ()
    optional_arrays: tuple[tuple[str, str], ...] = ()
    make: Callable[..., Any] | None = None
    check_arrays: Callable[[Any, int, Any, tuple[int, ...]], None] | None = None
    describe: Callable[..., str] | None = None
    add_to_graph: Callable[..., Any] | None = None
    leaf_boxes: Callable[[Any, Any, int], Iterator[Any]] | None = None
    added_numbers: Callable[[Any], AnyArray] | None = None

    _alternative = "the module that defines it"

    def with_training(self, **changes: Any) -> "HypothesisKind":
        """Copy a kind of hypotheses with changed fields of its training, or with new training."""
        if self.training is None:
            return dataclasses.replace(self, training=Training(**changes))
        return dataclasses.replace(self, training=dataclasses.replace(self.training, **changes))

    def predict_prepared(self, hypothesis: Any, prepared: Any) -> AnyArray:
        """f32[N] or f32[K, N]: what a hypothesis adds to the scores of prepared rows.

        Args:
            hypothesis: one hypothesis.
            prepared: rows, as `Training.prepare` lays them out.
        """
        training = self.training
        assert training is not None, "rows are prepared for training"
        if training.predict_prepared is not None:
            return training.predict_prepared(hypothesis, prepared)
        if training.prediction_input is not None:
            prepared = training.prediction_input(prepared)
        return self.predict(hypothesis, prepared)
