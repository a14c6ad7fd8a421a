"""What the arrays of a model say of encoded rows, with NumPy or with JAX."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dpbt.arithmetic import Array, fold, namespace
from dpbt.data.blocks import BlockTable
from dpbt.learners.hypotheses import Hypotheses, Kind, Rows
from dpbt.public import Questions, of_bits
from dpbt.release.about import Arrays, ask_the_same

BLOCK_ROWS = 2**16
"""How many rows are laid out at once, so that memory does not follow their number."""

What = Callable[[Kind, Hypotheses, Array, Rows], Array]
"""(kind, hypotheses, intercept, rows) -> [..., N]: `scores` or `shares`."""


def scores(kind: Kind, hypotheses: Hypotheses, intercept: Array, rows: Rows) -> Array:
    """f32[N], or f32[K, N] with several classes: the scores of rows."""
    laid_out = kind.read(rows)

    def add(total: Array, hypothesis: Any) -> Array:
        return total + kind.predict(hypothesis, laid_out)

    shape = (*intercept.shape, rows.cells.shape[0])
    start = namespace(intercept).zeros(shape, np.float32)
    return intercept[..., None] + fold(add, start, hypotheses)


def shares(kind: Kind, hypotheses: Hypotheses, intercept: Array, rows: Rows) -> Array:
    """f32[k, N]: the shares that hypotheses state."""
    del intercept
    assert kind.shares is not None
    return kind.shares(hypotheses, kind.read(rows))


def of_rows(kind: Kind, model: Arrays, rows: Any, what: What) -> Array:
    """[..., N]: what a function of encoded rows says of each row.

    Raises:
        ValueError: as `dpbt.decision_function`.
    """
    if _differ(model.questions, getattr(rows, "questions", None)):
        raise ValueError("the model was trained with other questions than the table has")
    if isinstance(rows, BlockTable):
        blocks = rows.pieces(BLOCK_ROWS)
        found = [np.asarray(of_rows(kind, model, block.cells.T.copy(), what)) for block in blocks]
        return np.concatenate(found, axis=-1)

    cells, arrays = _cells(model, rows), (model.hypotheses, model.intercept)
    if namespace(*arrays, cells) is not np:
        return _with_jax(kind, arrays, Rows(cells, model.questions), what)
    starts = range(0, max(len(cells), 1), BLOCK_ROWS)
    parts = [Rows(cells[start : start + BLOCK_ROWS], model.questions) for start in starts]
    return np.concatenate([what(kind, *arrays, part) for part in parts], axis=-1)


def _with_jax(kind: Kind, arrays: tuple[Any, Any], rows: Rows, what: What) -> Array:
    """What a function says of rows, compiled for one of few numbers of rows."""
    import jax
    from jax.core import Tracer

    from dpbt.data import shapes

    cells, count = rows.cells, rows.cells.shape[0]
    if not isinstance(cells, Tracer):
        padding = max(shapes.row_bucket(count) - count, 0)
        cells = np.pad(np.asarray(cells), [(0, padding), (0, 0)])
    found = compiled(what)(kind, *arrays, rows._replace(cells=cells))
    if isinstance(found, Tracer):
        return found[..., :count]
    return jax.device_put(np.asarray(found)[..., :count])


@functools.cache
def compiled(what: What) -> Callable:
    """A function of rows as a program of JAX."""
    import jax
    import jax.numpy as jnp

    def run(kind: Kind, *arrays: Any) -> Array:
        return what(kind, *jax.tree.map(jnp.asarray, arrays))

    return jax.jit(run, static_argnums=0)


def _cells(model: Arrays, rows: Any) -> Array:
    """Encoded rows as the model reads them.

    Raises:
        ValueError: if the rows are not of the kind that the model reads, have another number of
            features, or are a table with other questions. No number of rows is shown.
    """
    encoder = "positions" if model.dtype == "float32" else "encode"
    advice = f"encode raw columns by dpbt.domains.{encoder}(domain, columns)"
    if hasattr(rows, "cells") and hasattr(rows, "questions"):
        rows = rows.cells
    elif isinstance(rows, Mapping) or hasattr(rows, "columns"):
        raise ValueError(f"rows must be an array or a table, got {type(rows).__name__}; {advice}")
    if not hasattr(rows, "__array_namespace__"):
        if not hasattr(rows, "__array__"):
            raise ValueError(f"rows must be an array, got {type(rows).__name__}; {advice}")
        rows = np.asarray(rows)
    if rows.dtype == bool and not _differ(model.questions, of_bits(model.features)):
        rows = rows.astype(np.uint8)  # splits are cells 0 and 1
    if rows.dtype != model.dtype or rows.ndim != 2:
        kind = "text or objects" if rows.dtype.kind not in "biufcV" else rows.dtype
        raise ValueError(
            f"the model reads rows of {model.dtype} and rank 2, got {kind} of rank {rows.ndim}; "
            f"{advice}"
        )
    if rows.shape[1] != model.features:
        raise ValueError(
            f"the model reads rows of {model.features} features, "
            "and these have another number of them"
        )
    return rows


def _differ(questions: Questions | None, others: Questions | None) -> bool:
    """Whether both are there and are not the same; which splits are allowed does not count."""
    if questions is None or others is None:
        return False
    try:
        return not ask_the_same(questions, others)
    except TypeError:  # traced, and checked where they come from
        return False
