"""Tables of private rows, and what is public and static about one."""

import dataclasses
from typing import NamedTuple

import jax
import numpy as np

from dpbt.public_types import DeclaredDomain, Splits, redacted_repr
from dpbt.types.arrays import Array


@jax.tree_util.register_static
class RowsPerUser(int):
    """The largest number of rows of one user in a table; static in traced programs."""


jax.tree_util.register_static(DeclaredDomain)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, kw_only=True)
class TableForm:
    """What is public and static about a table, such as its splits.

    A transcript records it of the table it is from.

    Attributes:
        features: F, the number of columns of its bins, or of its exact numbers.
        dtype: the dtype of `Table.bins`, "uint8" or "float32".
        splits: S, the number of splits; None without splits.
        attributes: A, the number of attributes; None without splits.
        domain: the domain that encoded the rows; None for a table made without one.
    """

    features: int
    dtype: str
    splits: int | None
    attributes: int | None
    domain: DeclaredDomain | None

    @classmethod
    def of_table(cls, table: "Table") -> "TableForm":
        """Read the public form of a table, which may be traced."""
        splits = table.splits
        return cls(
            features=np.shape(table.bins)[-1],
            dtype=str(table.bins.dtype),
            splits=None if splits is None else np.shape(splits.feature)[-1],
            attributes=None if splits is None else np.shape(splits.attribute)[-1],
            domain=table.domain,
        )


class Table(NamedTuple):
    """Private rows, as all learners read them.

    Attributes:
        bins: u8[N, F]: the bin that each feature of a row lies in; `splits` compare it with their
            bounds. Or f32[N, F]: exact numbers, without splits, for learners that read positions
            or numbers only. Bins are private, and learners take any content.
        target: bool[N]: the row is of the positive class. u8[N], its class, with several classes,
            and f32[N], the position of its number in the declared range, in regression.
        present: bool[N]: the row is there. Removing a row, choosing a fold and padding to a common
            capacity change this mask only. No output depends on the content of an absent row.
        splits: the public splits of the bins; None with exact numbers.
        weight: f32[N]: the weight of each row, in units of the largest that any row may have. It is
            clipped to [0, 1], and a weight that is no number is 0. None if all rows weigh the same.
        declared: u32[2]: a public fingerprint of the declared classes or range
            (`kinds.target_fingerprint`), which must be the recipe's. None if undeclared.
        rows_per_user: the largest number of rows present of one user, where ids identified the
            users; the recipe's `max_rows_per_user` must be at least this. None without ids.
        domain: the public domain that encoded the rows. `fit`, `boost` and prediction compare it
            with that of the recipe or of the model. It is static in traced programs, so JAX traces
            a program of your own again for another domain; tables with `domain=None` share one
            trace. None for rows that were encoded without one: then only splits are compared.
    """

    bins: Array
    target: Array
    present: Array
    splits: Splits | None = None
    weight: Array | None = None
    declared: Array | None = None
    rows_per_user: RowsPerUser | None = None
    domain: DeclaredDomain | None = None
    __repr__ = redacted_repr
