"""Predictions of encoded rows: scores, classes, numbers and votes.

All functions take arrays of NumPy or of JAX, and need no JAX for those of NumPy.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Float32

from dpbt.common import forks
from dpbt.common.arithmetic import array_namespace, fold
from dpbt.common.validate import is_traced, show_value
from dpbt.data import domains
from dpbt.data.blocks import BlockTable
from dpbt.data.cells import advice_for_lazy_data
from dpbt.data.column_types import Nominal, Target, numbers_predicted_by_scores
from dpbt.data.domains import Domain
from dpbt.hypothesis_kind import HypothesisKind
from dpbt.learners.model_parts import EncodedRows, Hypotheses
from dpbt.public_types import AnyArray, Splits, have_same_splits, splits_of_boolean_features

if TYPE_CHECKING:
    from dpbt.common.compilation import BoundedJit

BLOCK_ROWS = 2**16
"""The number of rows that are predicted at once, so that memory does not grow with all rows."""

VOTINGS = ("majority", "threshold", "probabilistic")
"""The voting rules of hypotheses that state shares of the positive class."""

RowFunction = Callable[[HypothesisKind, Hypotheses, AnyArray, EncodedRows], AnyArray]
"""(kind, hypotheses, intercept, rows) -> [..., N]: `scores_of_rows` or `shares_of_rows`."""


def scores_of_rows(
    kind: HypothesisKind, hypotheses: Hypotheses, intercept: AnyArray, rows: EncodedRows
) -> AnyArray:
    """f32[N]: the scores of encoded rows.

    With several classes they are f32[K, N], with the classes first.
    """
    assert kind.read_rows is not None
    prepared_rows = kind.read_rows(rows)

    def add_prediction(total: AnyArray, hypothesis: Any) -> AnyArray:
        return total + kind.predict(hypothesis, prepared_rows)

    shape = (*intercept.shape, rows.bins.shape[0])
    zeros = array_namespace(intercept).zeros(shape, np.float32)
    return intercept[..., None] + fold(add_prediction, zeros, hypotheses)


def shares_of_rows(
    kind: HypothesisKind, hypotheses: Hypotheses, intercept: AnyArray, rows: EncodedRows
) -> Float32[AnyArray, "k N"]:
    """f32[k, N]: the shares of the positive class that hypotheses state."""
    assert kind.shares is not None
    assert kind.read_rows is not None
    return kind.shares(hypotheses, kind.read_rows(rows))


def evaluate_on_encoded_rows(model: Any, rows: Any, function: RowFunction) -> AnyArray:
    """[..., N]: the values of a function of encoded rows, with the arrays of a model.

    Rows of a folder are evaluated in blocks, and so are rows by NumPy. JAX evaluates all rows of an
    array at once.

    In a process that was forked after JAX had run, a fitted model predicts with NumPy, too, as a
    loaded one does.

    Raises:
        ValueError: as `dpbt.decision_function`.
    """
    if hasattr(rows, "splits"):  # a table
        domains.check_same_domain(rows.domain, model.domain, "the table", "the model")
        if _have_different_splits(model.splits, rows.splits):
            raise ValueError("the model was trained with other splits than the table has")
    if isinstance(rows, BlockTable):
        return _predict_blocks_of_folder(model, rows, function)

    bins = as_encoded_rows(model, rows)
    kind = model.about.kind
    hypotheses = model.hypotheses
    intercept = model.intercept
    splits = model.splits
    if forks.was_forked_from_jax():  # where JAX would wait forever
        bins = np.asarray(bins)
        intercept = np.asarray(intercept)
        hypotheses = model.host_hypotheses_of_run_rounds()
        splits = None if splits is None else Splits(*map(np.asarray, splits[:5]))
    if array_namespace(hypotheses, intercept, bins) is np:
        starts = range(0, max(len(bins), 1), BLOCK_ROWS)
        blocks = [EncodedRows(bins[start : start + BLOCK_ROWS], splits) for start in starts]
        values = [function(kind, hypotheses, intercept, block) for block in blocks]
        return np.concatenate(values, axis=-1)

    # With JAX, by a program for one of few numbers of rows.
    import jax
    from jax.core import Tracer

    from dpbt.data import tables

    count = bins.shape[0]
    if not isinstance(bins, Tracer):
        padding = max(tables.padded_num_rows(count) - count, 0)
        bins = np.pad(np.asarray(bins), [(0, padding), (0, 0)])
    program = compiled_predictor(function)
    values = program(kind, hypotheses, intercept, EncodedRows(bins, model.splits))
    if isinstance(values, Tracer):
        return values[..., :count]
    return jax.device_put(np.asarray(values)[..., :count])


def _predict_blocks_of_folder(model: Any, table: BlockTable, function: RowFunction) -> np.ndarray:
    """[..., N]: the values of a function for all rows of a folder.

    The rows are read from the disk in blocks.
    """
    if is_traced(*model.hypotheses, model.intercept):
        raise ValueError(
            "a table in blocks is read from the disk, and is predicted outside of jit, vmap "
            "and grad"
        )
    values = [
        np.asarray(evaluate_on_encoded_rows(model, block.bins.T.copy(), function))
        for block in table.iter_rows(BLOCK_ROWS)
    ]
    return np.concatenate(values, axis=-1)


@functools.cache
def compiled_predictor(function: RowFunction) -> "BoundedJit[AnyArray]":
    """Compile a function of encoded rows by JAX."""
    import jax
    import jax.numpy as jnp

    from dpbt.common import compilation

    def run(
        kind: HypothesisKind, hypotheses: Hypotheses, intercept: AnyArray, rows: EncodedRows
    ) -> AnyArray:
        return function(kind, *jax.tree.map(jnp.asarray, (hypotheses, intercept, rows)))

    return compilation.jit_with_bounded_cache(static_argnames=("kind",))(run)


def as_encoded_rows(model: Any, rows: Any) -> AnyArray:
    """Check encoded rows or a table, and return the array that the model reads.

    It is of bins or numbers.

    Rows of an array may be raw columns of the same dtype, which would be read as bins without a
    word. So an array of values that no encoder of the model's public domain makes is refused. These
    are rows that the caller has at hand to predict, and no rows of a table are refused.

    Raises:
        ValueError: if the rows are not of the kind that the model reads, or have another number of
            features, or bins that the domain does not have. No number of rows is shown.
    """
    is_table = hasattr(rows, "splits")
    encoder = "positions" if model.dtype == "float32" else "encode"
    advice = f"encode raw columns by dpbt.domains.{encoder}(domain, columns)"
    if hasattr(rows, "bins") and hasattr(rows, "splits"):
        rows = rows.bins
    # Reading the column names of a lazy frame may run a query, so this is asked first.
    is_lazy = advice_for_lazy_data(rows) and not hasattr(rows, "__array__")
    has_names = is_lazy or hasattr(rows, "keys") or hasattr(rows, "columns")
    if has_names or not (hasattr(rows, "__array_namespace__") or hasattr(rows, "__array__")):
        description = f"{type(rows).__name__}{advice_for_lazy_data(rows)}"
        raise ValueError(f"rows must be an array or a table, got {description}; {advice}")
    if not hasattr(rows, "__array_namespace__"):
        rows = np.asarray(rows)
    bits = _splits_of_bits(model)
    if rows.dtype == bool and bits is not None:
        rows = rows.astype(np.uint8)  # a Boolean split is a feature of bins 0 and 1
    if rows.dtype != model.dtype or rows.ndim != 2 or rows.shape[1] != model.features:
        kind = "text or objects" if rows.dtype.kind not in "biufcV" else rows.dtype
        raise ValueError(
            f"the model reads rows of {model.dtype} and rank 2 with {model.features} features, "
            f"got {kind} of rank {rows.ndim}, or with another number of features; {advice}"
        )
    if not is_table and not is_traced(rows):
        _check_encoded_values(np.asarray(rows), model.about.domain, bits, advice)
    return rows


def _check_encoded_values(
    rows: np.ndarray, domain: Domain | None, bits: Splits | None, advice: str
) -> None:
    """Refuse an array that holds values that no encoder of the domain makes.

    The first such column is named.

    Args:
        rows: u8[N, F] or f32[N, A], of the width that the model reads.
        domain: the model's; None if it has none.
        bits: the splits of Boolean splits, if the model may read these.
        advice: the end of the error.

    Raises:
        ValueError: for a bin that its column does not have, and for a position outside of [0, 1].
    """
    if rows.dtype == np.float32:
        if domain is not None and not np.all((rows >= 0) & (rows <= 1)):
            raise ValueError(f"rows hold numbers that are no positions in [0, 1]; {advice}")
        return
    if domain is None:
        names_and_bins = [] if bits is None else [("of Boolean splits", 2)] * rows.shape[1]
    else:
        names_and_bins = [(repr(str(name)), kind.n_bins) for name, kind in domain.items()]
    highest = rows.max(axis=0, initial=0).tolist()
    for (name, num_bins), bin in zip(names_and_bins, highest, strict=False):
        if bin >= num_bins:
            raise ValueError(
                f"rows are read as bins, and column {name} has {num_bins} of them, fewer than the "
                f"rows hold: they may be raw columns, or of another domain; {advice}"
            )


def _splits_of_bits(model: Any) -> Splits | None:
    """The splits of a model that was trained on Boolean splits.

    They are None for all other models.
    """
    if model.domain is not None or model.splits is None:
        return None
    bits = splits_of_boolean_features(model.features)
    return None if _have_different_splits(model.splits, bits) else bits


def _have_different_splits(splits: Splits | None, other_splits: Splits | None) -> bool:
    """Whether both arguments are splits, and differ.

    Which splits are allowed does not count.

    Of traced splits only the shapes can be compared.
    """
    if splits is None or other_splits is None:
        return False
    if is_traced(*splits, *other_splits):
        pairs = zip(splits[:5], other_splits[:5], strict=True)
        return any(np.shape(first) != np.shape(second) for first, second in pairs)
    return not have_same_splits(splits, other_splits)


def predictions_of_scores(target: Target | None, scores: AnyArray) -> AnyArray:
    """The predictions that follow from scores: bool[N], i32[N] or f[N].

    They are those of `dpbt.predict`.

    Args:
        target: the declared classes or range; None for two classes.
        scores: as `decision_function` returns them.
    """
    if target is None:
        return scores > 0
    if isinstance(target, Nominal):
        return array_namespace(scores).argmax(scores, axis=1).astype(np.int32)
    return numbers_predicted_by_scores(target, scores)


def predictions_of_votes(
    shares_of_trees: Float[AnyArray, "k ..."], voting: str, key: Any = None
) -> Bool[AnyArray, "..."]:
    """bool[...]: the prediction for each row by a vote of trees.

    The trees state shares f32[k, ...] of the positive class.

    The rules are those of Bojarski et al. (2014), Algorithm 1:

    - "majority": positive if more than half of the trees state more than 1/2;
    - "threshold": positive if the mean share is above 1/2;
    - "probabilistic": positive with probability equal to the mean share, by independent coins.

    Ties are negative. Trees whose share is NaN do not count.

    Args:
        shares_of_trees: the shares of the trees, on the first axis.
        voting: the rule.
        key: the key of the coins of a probabilistic vote. It must be independent of the key of the
            noise, because votes are published.

    Raises:
        ValueError: for another rule, or a probabilistic vote without a key.
    """
    xp = array_namespace(shares_of_trees)
    if voting == "majority":
        return 2 * xp.sum(shares_of_trees > 0.5, axis=0) > xp.sum(
            ~xp.isnan(shares_of_trees), axis=0
        )
    mean = xp.nanmean(shares_of_trees, axis=0)
    if voting == "threshold":
        return mean > 0.5
    if voting != "probabilistic":
        raise ValueError(f"voting must be one of {VOTINGS}, got {show_value(voting)}")
    if key is None:
        raise ValueError("a probabilistic vote needs a key")
    import jax

    from dpbt.privacy import keys

    keys.check_single_key(key)
    return jax.random.uniform(key, mean.shape, mean.dtype) < mean
