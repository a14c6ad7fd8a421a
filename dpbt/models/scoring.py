"""What models say of encoded rows: scores, classes, numbers, votes.

All functions take arrays of NumPy or of JAX, and need no JAX for those of NumPy.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbt.common.arithmetic import Array, array_namespace, fold
from dpbt.common.validate import is_traced, show_value
from dpbt.data import domains
from dpbt.data.blocks import BlockTable
from dpbt.data.cells import advice_for_lazy_data
from dpbt.data.kinds import Nominal, Target, predicted_numbers
from dpbt.learners.hypotheses import EncodedRows, Hypotheses, Kind
from dpbt.public_types import Splits, have_same_splits, splits_of_bits

if TYPE_CHECKING:
    from dpbt.common.programs import Programs

BLOCK_ROWS = 2**16
"""How many rows are laid out at once, so that memory does not follow their number."""

VOTINGS = ("majority", "threshold", "probabilistic")
"""The voting rules of hypotheses that state shares of the positive class."""

What = Callable[[Kind, Hypotheses, Array, EncodedRows], Array]
"""(kind, hypotheses, intercept, rows) -> [..., N]: `scores_of_rows` or `shares_of_rows`."""


def scores_of_rows(
    kind: Kind, hypotheses: Hypotheses, intercept: Array, rows: EncodedRows
) -> Array:
    """f32[N], or f32[K, N] with several classes: the scores of rows."""
    laid_out = kind.read(rows)

    def add(total: Array, hypothesis: Any) -> Array:
        return total + kind.predict(hypothesis, laid_out)

    shape = (*intercept.shape, rows.bins.shape[0])
    start = array_namespace(intercept).zeros(shape, np.float32)
    return intercept[..., None] + fold(add, start, hypotheses)


def shares_of_rows(
    kind: Kind, hypotheses: Hypotheses, intercept: Array, rows: EncodedRows
) -> Array:
    """f32[k, N]: the shares that hypotheses state."""
    assert kind.shares is not None
    return kind.shares(hypotheses, kind.read(rows))


def predict_in_blocks(model: Any, rows: Any, what: What) -> Array:
    """[..., N]: what a function of encoded rows says of each row, with the arrays of a `Model`.

    Raises:
        ValueError: as `dpbt.decision_function`.
    """
    if hasattr(rows, "splits"):  # a table
        domains.check_same_domain(rows.domain, model.domain, "the table", "the model")
        if _have_other_splits(model.splits, rows.splits):
            raise ValueError("the model was trained with other splits than the table has")
    if isinstance(rows, BlockTable):
        if is_traced(*model.hypotheses, model.intercept):
            raise ValueError(
                "a table in blocks is read from the disk, and is predicted outside of jit, vmap "
                "and grad"
            )
        blocks = rows.iter_rows(BLOCK_ROWS)
        found = [
            np.asarray(predict_in_blocks(model, block.bins.T.copy(), what)) for block in blocks
        ]
        return np.concatenate(found, axis=-1)

    bins, asked = encoded_bins(model, rows), model.splits
    arrays = model.about.kind, model.hypotheses, model.intercept
    if array_namespace(*arrays[1:], bins) is np:
        starts = range(0, max(len(bins), 1), BLOCK_ROWS)
        parts = [EncodedRows(bins[start : start + BLOCK_ROWS], asked) for start in starts]
        return np.concatenate([what(*arrays, part) for part in parts], axis=-1)

    # With JAX, by a program for one of few numbers of rows.
    import jax
    from jax.core import Tracer

    from dpbt.data import tables

    count = bins.shape[0]
    if not isinstance(bins, Tracer):
        padding = max(tables.row_bucket(count) - count, 0)
        bins = np.pad(np.asarray(bins), [(0, padding), (0, 0)])
    found = compiled_predictor(what)(*arrays, EncodedRows(bins, asked))
    if isinstance(found, Tracer):
        return found[..., :count]
    return jax.device_put(np.asarray(found)[..., :count])


@functools.cache
def compiled_predictor(what: What) -> "Programs[Array]":
    """A function of rows as a program of JAX."""
    import jax
    import jax.numpy as jnp

    from dpbt.common import programs

    def run(kind: Kind, hypotheses: Hypotheses, intercept: Array, rows: EncodedRows) -> Array:
        return what(kind, *jax.tree.map(jnp.asarray, (hypotheses, intercept, rows)))

    return programs.keep_compiled(static_argnames=("kind",))(run)


def encoded_bins(model: Any, rows: Any) -> Array:
    """Encoded rows as the model reads them.

    Raises:
        ValueError: if the rows are not of the kind that the model reads, or have another number of
            features. No number of rows is shown.
    """
    encoder = "positions" if model.dtype == "float32" else "encode"
    advice = f"encode raw columns by dpbt.domains.{encoder}(domain, columns)"
    if hasattr(rows, "bins") and hasattr(rows, "splits"):
        rows = rows.bins
    lazy = advice_for_lazy_data(rows) and not hasattr(
        rows, "__array__"
    )  # its names may take a query
    by_name = lazy or hasattr(rows, "keys") or hasattr(rows, "columns")
    if by_name or not (hasattr(rows, "__array_namespace__") or hasattr(rows, "__array__")):
        given = f"{type(rows).__name__}{advice_for_lazy_data(rows)}"
        raise ValueError(f"rows must be an array or a table, got {given}; {advice}")
    if not hasattr(rows, "__array_namespace__"):
        rows = np.asarray(rows)
    bits = None if model.domain is not None else splits_of_bits(model.features)
    if rows.dtype == bool and bits is not None and not _have_other_splits(model.splits, bits):
        rows = rows.astype(np.uint8)  # splits are bins 0 and 1
    if rows.dtype != model.dtype or rows.ndim != 2 or rows.shape[1] != model.features:
        kind = "text or objects" if rows.dtype.kind not in "biufcV" else rows.dtype
        raise ValueError(
            f"the model reads rows of {model.dtype} and rank 2 with {model.features} features, "
            f"got {kind} of rank {rows.ndim}, or with another number of features; {advice}"
        )
    return rows


def _have_other_splits(splits: Splits | None, others: Splits | None) -> bool:
    """Whether both are there and are not the same; which splits are allowed does not count.

    Of traced splits the shapes are compared, which is all that is known of them.
    """
    if splits is None or others is None:
        return False
    if is_traced(*splits, *others):
        pairs = zip(splits[:5], others[:5], strict=True)
        return any(np.shape(ours) != np.shape(theirs) for ours, theirs in pairs)
    return not have_same_splits(splits, others)


def answers_of_scores(target: Target | None, scores: Array) -> Array:
    """What scores predict: bool[N], i32[N] or f[N], as `predict` says.

    Args:
        target: the declared classes or range; None for two classes.
        scores: as `decision_function` gives them.
    """
    if target is None:
        return scores > 0
    if isinstance(target, Nominal):
        return array_namespace(scores).argmax(scores, axis=1).astype(np.int32)
    return predicted_numbers(target, scores)


def answers_of_votes(stated: Array, voting: str, key: Any = None) -> Array:
    """bool[...]: the answers of trees that state shares f32[k, ...] of the positive class.

    The rules are those of Bojarski et al. (2014), Algorithm 1:

    - "majority": positive if more than half of the trees state more than 1/2;
    - "threshold": positive if the mean share is above 1/2;
    - "probabilistic": positive with probability equal to the mean share, by independent coins.

    Ties are negative. Trees whose share is NaN do not count.

    Args:
        stated: the shares of the trees, on the first axis.
        voting: the rule.
        key: of the coins of a probabilistic vote. It must be independent of the noise's key,
            because votes are published.

    Raises:
        ValueError: for another rule, or a probabilistic vote without a key.
    """
    xp = array_namespace(stated)
    if voting == "majority":
        return 2 * xp.sum(stated > 0.5, axis=0) > xp.sum(~xp.isnan(stated), axis=0)
    mean = xp.nanmean(stated, axis=0)
    if voting == "threshold":
        return mean > 0.5
    if voting != "probabilistic":
        raise ValueError(f"voting must be one of {VOTINGS}, got {show_value(voting)}")
    if key is None:
        raise ValueError("a probabilistic vote needs a key")
    import jax

    from dpbt.privacy import keys

    keys.check(key)
    return jax.random.uniform(key, mean.shape, mean.dtype) < mean
