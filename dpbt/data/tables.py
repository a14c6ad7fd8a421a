"""Encodes raw rows as the table that learners read.

`table` encodes rows, reads their labels, and adds absent rows up to a public capacity.
`pad_rows_to_bucket` adds more absent rows, so that most fits can reuse a compiled program. Absent
rows affect neither learning nor predictions.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int

from dpbt.common.validate import check_boolean, check_interval, check_positive_integer
from dpbt.data.cells import RawColumn
from dpbt.data.column_types import Target, target_fingerprint
from dpbt.data.domains import (
    Columns,
    Domain,
    Label,
    as_declared_domain,
    encode,
    encode_positions,
    splits,
)
from dpbt.types import MAX_ROWS, AnyArray, RowsPerUser, Table, describe_dtype_and_rank

DEFAULT_MEMORY_BYTES = 4 * 2**30
"""How many bytes a table in memory may take with its fit by default."""

_BYTES_OF_FIT = 4
"""How many bytes a fit of `auto` or `additive` takes at most for each byte of the table's rows."""


def check_table_fits_memory(
    domain: Domain, capacity: int, memory: float, *, exact: bool = False
) -> None:
    """Refuse a capacity whose table would not fit into memory.

    The capacity is the public bound on the number of rows.

    A table has room for as many rows as its bound, so that its size tells nothing of their number.
    So it may be far larger than the rows that are there. The check reads the bound and no row.

    Args:
        domain: the public domain.
        capacity: the public bound on the number of rows.
        memory: how many bytes the table may take with its fit.
        exact: whether the table holds exact positions.

    Raises:
        ValueError: saying how many bytes are needed.
    """
    memory = float(check_interval("memory", memory, "(0, inf]"))
    bytes_of_row = 4 * len(splits(domain).attribute) if exact else len(domain)
    needed_bytes = _BYTES_OF_FIT * capacity * bytes_of_row
    if needed_bytes > memory:
        raise ValueError(
            f"a table with room for {capacity} rows of {len(domain)} columns takes about "
            f"{needed_bytes / 2**30:.3g} GiB with its fit, more than the memory of "
            f"{memory / 2**30:.3g} GiB: state a smaller bound on the rows or more memory, or "
            "convert the rows to blocks"
        )


def table(
    domain: Domain,
    columns: Columns,
    labels: RawColumn,
    *,
    negative: str | float | Sequence[str | float] = False,
    positive: str | float | Sequence[str | float] = True,
    target: Target | None = None,
    sample_weight: RawColumn | None = None,
    max_weight: float | None = None,
    class_weight: Mapping[Any, float] | None = None,
    users: RawColumn | None = None,
    max_rows_per_user: int | None = None,
    ignore_case: bool = False,
    ignore_label_case: bool = False,
    capacity: int | None = None,
    exact: bool = False,
    memory: float = DEFAULT_MEMORY_BYTES,
) -> Table:
    """Encode raw rows and their labels as a table that learners read.

    Each row of the table is a function of one raw row alone.

    The two classes are declared, never read off the labels. A row is present if its label is one of
    them, and absent otherwise. So labels that are words or numbers need `negative` and `positive`:
    by default all their rows are absent, and a fit learns from noise alone. Labels that state a
    type which cannot hold a declared class, as a dtype of whole numbers holds no False, are refused
    by that type. No cell and no label is an error.

    Neighbouring rows give neighbouring tables, whatever their cells hold. Where one row is added,
    removed or replaced, one row of the table is. With `users`, which rows of a user count follows
    from the rows of that user alone: where all rows of one user come or go, however many, at most
    `max_rows_per_user` rows of the table do (docs/privacy.md, U1).

    Args:
        domain: the public domain.
        columns: for every column of the domain N cells, as `domains.encode` reads them.
        labels: N cells. A Boolean is positive if it is true. Any other cell is of the class that
            has its word (`cells.read_boolean`).
        negative: the word or the number of the negative class, or a list of its spellings, of which
            the first is its name; False where labels are Booleans.
        positive: those of the positive class; True where labels are Booleans.
        target: the declared classes or range of labels that are not one of two classes:
            `domains.Nominal` for several classes, `domains.Numeric` for a number in a range. A
            label that is not listed, or is not a number, makes its row absent. The recipe must have
            the same target.
        sample_weight: N weights of rows, at most `max_weight`. Larger ones are clipped. Negative
            ones, and cells that are not numbers, count as 0.
        max_weight: a public bound on `sample_weight`, above 0, which weights need.
        class_weight: a public weight, above 0, for each class by its word. It multiplies
            `sample_weight`. It is not read off the labels, so there is no "balanced".
        users: N ids that say whose each row is, compared as words: " 7 ", 7 and 7.0 are one. Only
            the first rows of each user that have a label count. A row without an id is absent.
        max_rows_per_user: how many rows of each user count; `users` need it. The recipe must be for
            as many rows of a person, or more.
        ignore_case: whether ids that differ in capitals alone are one.
        ignore_label_case: whether words of the two classes that differ in capitals alone are one.
        capacity: a public bound on the number of rows; with `users`, of those that count. Absent
            rows are added up to it, so that the number of rows stays private. With None the table
            has N rows, and N is then public.
        exact: whether the table holds exact positions (`domains.encode_positions`) instead of
            bins. Learners that draw thresholds then read numbers exactly instead of on the declared
            grid. Learners that read splits refuse such a table.
        memory: how many bytes a table of this `capacity` may take with its fit; a larger one is
            refused before a row is read (`check_table_fits_memory`).

    Weights are in units of the largest that a row may have, which is `max_weight` times the
    largest class weight. The noise of a fit is set for such a row. So weights cost what they take
    from the signal: if rows weigh a third of the bound on average, so does their sum, and the noise
    stays.

    Returns:
        Bins u8[capacity, F] with the domain's splits, which every learner reads, or exact
        positions f32[capacity, A]; target and present bool[capacity]. The target of an absent row
        is False, or 0. Weights f32[capacity] are in units of the largest, and None without
        `sample_weight` and `class_weight`. The table carries the domain, which all functions that
        take a table compare with their own.

    Raises:
        ValueError: if the two classes are read alike, or only one of them is a Boolean, or the type
            that the labels state, such as their dtype, cannot hold a declared class; if
            `capacity` is not an integer in 1..MAX_ROWS, or there are more rows, or its table takes
            more than `memory`. Also for a target
            or weights of classes that are not as described. Also if `labels` has another length
            than the columns, and as `domains.encode`. No message holds a cell or the number of
            rows.
    """
    # Check what is public.
    label = Label.from_options(
        negative=negative,
        positive=positive,
        target=target,
        max_weight=max_weight,
        max_rows_per_user=max_rows_per_user,
        ignore_case=ignore_case,
        ignore_label_case=ignore_label_case,
    )
    declared_domain = as_declared_domain(domain)
    if capacity is not None:
        capacity = check_positive_integer("capacity of a table in memory", capacity, MAX_ROWS)
    check_boolean("exact", exact)
    if capacity is not None:
        check_table_fits_memory(declared_domain, capacity, memory, exact=exact)

    # Read what is private, each row on its own, and then the rows of each user by themselves.
    rows = encode_positions(domain, columns) if exact else encode(domain, columns)
    outcome, present, weight = label.read_labels(
        labels, num_rows=len(rows), sample_weight=sample_weight, class_weight=class_weight
    )
    if (ids := label.read_user_ids(users, len(rows))) is not None:
        assert label.user is not None
        present = label.user.new_row_limiter().admit_rows(ids, present)
        outcome = outcome * present
        if capacity is not None:  # which bounds the rows that count
            weight = None if weight is None else weight[present]
            rows = rows[present]
            outcome = outcome[present]
            present = present[present]

    # Add absent rows up to the capacity.
    size = len(rows) if capacity is None else capacity
    if len(rows) > size:
        raise ValueError(f"there are more rows than the capacity of {capacity}")
    host_rows: dict[str, Any] = {"bins": rows, "target": outcome, "present": present}
    host_table = Table(
        **host_rows,
        splits=None if exact else jax.tree.map(jax.device_put, splits(domain)),
        weight=weight,  # type: ignore[arg-type]  # moved to the device with all rows
        declared=None if target is None else jax.device_put(target_fingerprint(target)),
        rows_per_user=None if label.user is None else RowsPerUser(label.user.max_rows),
        domain=declared_domain,
    )
    return _add_absent_rows(host_table, size - len(rows))


def _add_absent_rows(table: Table, count: int) -> Table:
    """Add `count` absent rows to the end of a table, on the device.

    The rows of the given table may be on the host.
    """
    arrays = {}
    for name in ("bins", "target", "present", "weight"):
        if getattr(table, name) is not None:
            host_array = np.asarray(getattr(table, name))
            padded = np.pad(host_array, [(0, count)] + [(0, 0)] * (host_array.ndim - 1))
            arrays[name] = jax.device_put(padded)
    return table._replace(**arrays)


def select_rows(table: Table, rows: Bool[AnyArray, "N"] | Int[AnyArray, "M"]) -> Table:
    """The table of some of the rows, by a mask or by their indices.

    The rows are in the order of `rows`, and the splits stay the same.

    Args:
        table: a table of N rows.
        rows: a mask bool[N], or i[M]: a mask, or the indices of the rows.

    Raises:
        ValueError: for a mask of another length, or rows that are neither Booleans nor whole
            numbers; no length is shown.
    """
    selected = np.asarray(rows)
    if selected.ndim != 1 or selected.dtype.kind not in "biu":
        raise ValueError(
            f"rows must be bool[N] or whole numbers, got {describe_dtype_and_rank(selected)}"
        )
    if selected.dtype == bool and selected.shape != (len(table.present),):
        raise ValueError("a mask of rows must have an entry for each row of the table")
    bins, target, present = (jnp.asarray(array)[selected] for array in table[:3])
    weight = None if table.weight is None else jnp.asarray(table.weight)[selected]
    return table._replace(bins=bins, target=target, present=present, weight=weight)


MIN_ROWS = 64
"""The smallest number of rows that a table is padded to."""

MAX_PADDED_ROWS = 2**20
"""Larger tables are not padded: copying them costs more than compiling a program."""

ArrayTree = TypeVar("ArrayTree")
"""A pytree of arrays."""


def round_up_to_bucket(count: int) -> int:
    """The smallest bucket size that is at least `count`.

    There are four sizes in each octave.

    The sizes are 1 to 8, then 10, 12, 14, 16, 20 and so on: at most a quarter more than `count`.
    """
    step = 2 ** max(int(count - 1).bit_length() - 3, 0)
    return -(-count // step) * step


def padded_num_rows(rows: int) -> int:
    """The number of rows that a table of `rows` rows is padded to."""
    return rows if rows > MAX_PADDED_ROWS else max(round_up_to_bucket(rows), MIN_ROWS)


def pad_rows_to_bucket(table: Table) -> Table:
    """Add absent rows to a table, up to the next size that programs are compiled for."""
    rows = table.bins.shape[0]
    padding = padded_num_rows(rows) - rows
    return _add_absent_rows(table, padding) if padding > 0 else table


def first_entries_of_arrays(tree: ArrayTree, count: int) -> ArrayTree:
    """Take the first `count` entries on the leading axis of every array of a tree.

    It compiles no program.
    """
    return jax.tree.map(
        lambda a: a if a.shape[0] <= count else jax.device_put(np.asarray(a)[:count]), tree
    )
