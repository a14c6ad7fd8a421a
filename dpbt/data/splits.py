"""The splits that rows satisfy, and their positions in the ranges of attributes.

A table holds one bin for each feature of a row. Learners derive their inputs from the bins: trees
derive the splits that the row satisfies; random trees and halfspaces derive its positions in the
ranges of the attributes. `dpbt.domains.splits` makes the splits of a domain.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float32

from dpbt.common.validate import is_traced, show_value
from dpbt.public_types import splits_of_boolean_features as splits_of_boolean_features
from dpbt.types import MAX_BINS, MAX_ROWS, AnyArray, Array, Splits, Table, describe_dtype_and_rank


def as_device_array(name: str, value: object) -> Array:
    """Convert `value`, an array of numbers or Booleans, to a device array.

    Raises:
        ValueError: as `as_array`.
    """
    return jnp.asarray(as_array(name, value))


def as_array(name: str, value: object) -> AnyArray:
    """Convert `value` to an array of NumPy or JAX, of numbers or Booleans.

    Such an array is returned as it is.

    Raises:
        ValueError: naming the argument, unless it is an array of numbers or Booleans. The error
            shows neither values nor lengths, as errors of JAX and NumPy may.
    """
    if not isinstance(value, jax.Array):
        value = np.asarray(value) if hasattr(value, "__array__") else value
        if not isinstance(value, np.ndarray | np.generic):
            raise ValueError(f"{name} must be an array, got {type(value).__name__}")
        extended = value.dtype.kind == "V" and value.dtype.names is None  # bfloat16 and the like
        if value.dtype.kind not in "biufc" and not extended:
            raise ValueError(
                f"{name} must hold numbers or Booleans, got "
                f"{describe_dtype_and_rank(np.asarray(value))}"
            )
    return value  # type: ignore[return-value]


def satisfied_rows_by_split(table: Table) -> Bool[Array, "S N"]:
    """bool[S, N]: whether row n satisfies split s.

    It is the transpose of `satisfied_splits`.
    """
    splits = _required_splits(table)
    bin = jnp.asarray(table.bins).T[jnp.asarray(splits.feature)]
    low, high = (jnp.asarray(bound)[:, None] for bound in (splits.low, splits.high))
    return (low <= bin) & (bin <= high)


def satisfied_splits(table: Table) -> Bool[Array, "N S"]:
    """bool[N, S]: whether row n satisfies split s."""
    return satisfied_rows_by_split(table).T


def attribute_positions(table: Table) -> Float32[Array, "N A"]:
    """f32[N, A]: the position of each row in the range of each attribute.

    A table of exact numbers holds these positions itself.

    Raises:
        ValueError: if the table holds bins and has no splits.
    """
    bins = jnp.asarray(table.bins)
    if bins.dtype == jnp.float32:
        return bins
    splits = _required_splits(table)
    bin = bins[:, jnp.asarray(splits.attribute)].astype(jnp.int32)
    first = MAX_BINS * jnp.arange(len(splits.attribute), dtype=jnp.int32)
    return jnp.asarray(splits.position).reshape(-1)[first[None] + bin]


def _required_splits(table: Table) -> Splits:
    """The splits of a table, which must have them.

    Raises:
        ValueError: if the table has none.
    """
    if table.splits is None:
        raise ValueError("the table has no splits")
    return table.splits


def table_of_splits(
    splits: Bool[AnyArray, "N S"], target: Bool[AnyArray, "N"], present: Bool[AnyArray, "N"]
) -> Table:
    """Make a table of rows that are stated as Boolean splits.

    Each split is a feature of bins 0 and 1.

    Args:
        splits: bool[N, S], an array.
        target: bool[N], an array.
        present: bool[N], an array.

    Raises:
        ValueError: unless all three are arrays of Booleans, `splits` of rank 2 and the others of
            rank 1.
    """
    bits = _as_boolean_array("splits", splits, rank=2)
    target = _as_boolean_array("target", target, rank=1)
    present = _as_boolean_array("present", present, rank=1)
    splits_of_features = jax.tree.map(jnp.asarray, splits_of_boolean_features(bits.shape[1]))
    return Table(bits.astype(jnp.uint8), target, present, splits_of_features)


def _as_boolean_array(name: str, value: AnyArray, *, rank: int) -> Array:
    """Convert `value` to a device array of Booleans of this rank.

    Raises:
        ValueError: unless it is one.
    """
    array = as_device_array(name, value)
    if array.dtype != bool or array.ndim != rank:
        raise ValueError(
            f"{name} must be bool of rank {rank}, got {describe_dtype_and_rank(array)}"
        )
    return array


def absent_row_table() -> Table:
    """Make a table of one absent row and one split."""
    absent = np.zeros(1, bool)
    return table_of_splits(absent[:, None], absent, absent)


def check_bins_and_splits(table: Table) -> None:
    """Refuse a table whose bins and splits do not fit each other.

    It reads only the dtype, the rank and the number of features of the bins, and whether the number
    of rows is in 1..MAX_ROWS. The splits are public, so it also reads their values, unless
    they are traced.

    Raises:
        ValueError: stating what is expected. No number of rows is shown.
    """
    bins = table.bins
    splits = table.splits
    if bins.dtype not in (jnp.uint8, jnp.float32) or bins.ndim != 2:
        expected = "table.bins must be uint8, or float32 numbers, of rank 2"
        raise ValueError(f"{expected}; got {describe_dtype_and_rank(bins)}")
    rows, features = bins.shape
    if not 0 < rows <= MAX_ROWS or features == 0:
        raise ValueError(
            f"a table in memory needs a feature and 1 to {MAX_ROWS} rows; write more rows in "
            "blocks by dpbt.convert, and learn by dpbt.fit"
        )
    if (splits is None) != (bins.dtype == jnp.float32):
        raise ValueError(
            "a table of uint8 bins needs splits, and one of float32 numbers has none; this one has "
            f"{bins.dtype} bins and {'no' if splits is None else 'its'} splits; `dpbt.table` makes "
            "them, and `dpbt.splits.table_of_splits` for Boolean splits"
        )
    if splits is not None:
        _check_split_arrays(splits)
        if not is_traced(*splits):
            _check_split_values(splits, num_features=features)


def _check_split_arrays(splits: Splits) -> None:
    """Refuse splits whose arrays have wrong dtypes, or lengths that do not match."""
    count = np.shape(splits.feature)[:1]
    attributes = np.shape(splits.attribute)[:1]
    expected = {
        "feature": (jnp.int32, count),
        "low": (jnp.uint8, count),
        "high": (jnp.uint8, count),
        "attribute": (jnp.int32, attributes),
        "position": (jnp.float32, (*attributes, MAX_BINS)),
    }
    for field, (dtype, shape) in expected.items():
        array = getattr(splits, field)
        if array.dtype != dtype or array.shape != shape or 0 in shape or not shape:
            raise ValueError(
                f"splits.{field} must be {jnp.dtype(dtype)}, one for each split or attribute; "
                f"got {array.dtype}{array.shape}"
            )
    allowed = splits.allowed
    if allowed is not None and (allowed.dtype != bool or allowed.shape != count):
        raise ValueError(
            f"splits.allowed must be bool[{count[0]}], got "
            f"{describe_dtype_and_rank(allowed)} of shape {allowed.shape}"
        )


def _check_split_values(splits: Splits, *, num_features: int) -> None:
    """Refuse splits of features that are not there, and splits that allow none."""
    for field in ("feature", "attribute"):
        features = np.asarray(getattr(splits, field))
        if features.min() < 0 or features.max() >= num_features:
            raise ValueError(
                f"splits.{field} must number features of the table, got {show_value(features)}"
            )
    if splits.allowed is not None and not np.asarray(splits.allowed).any():
        raise ValueError(
            f"splits.allowed must be bool[{len(splits.feature)}] with a split that may be chosen, "
            f"got {show_value(splits.allowed)}"
        )
