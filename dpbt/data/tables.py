"""From raw rows to the table that learners read.

`table` encodes rows, tells their classes apart, and adds absent rows up to a public capacity.
`pad_to_bucket` adds more of them, so that most fits find their program compiled. They change
nothing that is learned or predicted.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common.validate import check_boolean, check_positive_integer
from dpbt.data.cells import RawColumn
from dpbt.data.domains import Columns, Domain, Label, declare, encode, positions, splits
from dpbt.data.kinds import Target, target_fingerprint
from dpbt.types import MAX_ROWS, AnyArray, RowsPerUser, Table, dtype_and_rank


def table(
    domain: Domain,
    columns: Columns,
    labels: RawColumn,
    *,
    negative: str | float = False,
    positive: str | float = True,
    target: Target | None = None,
    sample_weight: RawColumn | None = None,
    max_weight: float | None = None,
    class_weight: Mapping[Any, float] | None = None,
    users: RawColumn | None = None,
    max_rows_per_user: int | None = None,
    ignore_case: bool = False,
    capacity: int | None = None,
    exact: bool = False,
) -> Table:
    """The table of raw rows: each row of it is a function of one raw row alone.

    The two classes are declared, never read off the labels. A row is present if its label is one of
    them. A row with another label, or without one, is absent by itself. So labels that are words or
    numbers need `negative` and `positive`: by default all their rows are absent, and a fit learns
    from noise alone. No cell and no label is an error.

    Neighbouring rows give neighbouring tables, whatever their cells hold. Where one row is added,
    removed or replaced, one row of the table is. With `users`, which rows of a user count follows
    from the rows of that user alone: where all rows of one user come or go, however many, at most
    `max_rows_per_user` rows of the table do (docs/privacy.md, U1).

    Args:
        domain: the public domain.
        columns: for every column of the domain N cells, as `domains.encode` reads them.
        labels: N cells. A Boolean is positive if it is true. Any other cell is of the class whose
            word it reads as (`cells.truth`).
        negative: the word or the number of the negative class; False where labels are Booleans.
        positive: the word or the number of the positive class; True where labels are Booleans.
        target: what labels are, if not one of two classes: `domains.Nominal` for several classes,
            `domains.Numeric` for a number in a declared range. A label that is not listed, or that
            is no number, makes its row absent. Give the recipe the same.
        sample_weight: N weights of rows, at most `max_weight`. Larger ones are clipped, negative
            ones are 0, and so is what is no number.
        max_weight: a public bound on `sample_weight`, above 0, which weights need.
        class_weight: a public weight, above 0, for each class by its word. It multiplies
            `sample_weight`. It is not read off the labels, so there is no "balanced".
        users: N ids that say whose each row is, compared as words: " 7 ", 7 and 7.0 are one. Only
            the first rows of each user that have a label count. A row without an id is absent.
        max_rows_per_user: how many rows of each user count, which `users` need. The recipe must be
            for as many, or more.
        ignore_case: whether ids that differ in capitals alone are one.
        capacity: a public bound on the number of rows; with `users`, of those that count. Absent
            rows are added up to it, so that the number of rows stays private. With None the table
            has N rows, and N is then public.
        exact: hold exact positions (`domains.positions`) in place of bins. Learners that draw
            thresholds then read numbers exactly instead of on the declared grid. Learners that read
            splits refuse the table.

    Weights are in units of the largest that a row may have, which is `max_weight` times the
    largest class weight. The noise of a fit is set for such a row. So weights cost what they take
    from the signal: if rows weigh a third of the bound on average, so does their sum, and the noise
    stays.

    Returns:
        Bins u8[capacity, F] with the domain's splits, which every learner reads, or exact
        positions f32[capacity, A]; target and present bool[capacity]. The target of an absent row
        is False, or 0. Weights f32[capacity] are in units of the largest, and None if none were
        given. The table carries the domain, and everything that it is given to compares it.

    Raises:
        ValueError: if the two classes are read alike, or only one of them is a Boolean; if
            `capacity` is no integer in 1..MAX_ROWS, or there are more rows. Also for a target or
            weights of classes that are not as described. Also if `labels` has
            another length than the columns, and as `domains.encode`. No message holds a cell or the
            number of rows.
    """
    # Check what is public.
    declared = Label.of(negative, positive, target, max_weight, max_rows_per_user, ignore_case)
    own_domain = declare(domain)
    if capacity is not None:
        capacity = check_positive_integer("capacity of a table in memory", capacity, MAX_ROWS)
    check_boolean("exact", exact)

    # Read what is private, each row by itself, and then the rows of each user by themselves.
    rows = positions(domain, columns) if exact else encode(domain, columns)
    label, there, weight = declared.read(labels, sample_weight, len(rows), class_weight)
    if (ids := declared.ids(users, len(rows))) is not None:
        assert declared.user is not None
        there = declared.user.counting()(ids, there)
        label = label * there
        if capacity is not None:  # which bounds the rows that count
            weight = None if weight is None else weight[there]
            rows, label, there = rows[there], label[there], there[there]

    # Add absent rows up to the capacity.
    size = len(rows) if capacity is None else capacity
    if len(rows) > size:
        raise ValueError(f"there are more rows than the capacity of {capacity}")
    asked = None if exact else jax.tree.map(jax.device_put, splits(domain))
    told = None if target is None else jax.device_put(target_fingerprint(target))
    most = None if declared.user is None else RowsPerUser(declared.user.most)
    read: Any = rows, label, there, asked, weight, told, most, own_domain
    return _add_absent_rows(Table(*read), size - len(rows))


def _add_absent_rows(table: Table, count: int) -> Table:
    """The table with so many absent rows added; its arrays of rows may be of NumPy."""
    arrays = {}
    for name in ("bins", "target", "present", "weight"):
        if getattr(table, name) is not None:
            host = np.asarray(getattr(table, name))
            wide = np.pad(host, [(0, count)] + [(0, 0)] * (host.ndim - 1))
            arrays[name] = jax.device_put(wide)
    return table._replace(**arrays)


def take(table: Table, rows: AnyArray) -> Table:
    """The table of some rows only, in their order; the splits stay.

    Args:
        table: N rows.
        rows: bool[N], or i[M]: the numbers of the rows.

    Raises:
        ValueError: for a mask of another length, or rows that are neither Booleans nor whole
            numbers; no length is shown.
    """
    chosen = np.asarray(rows)
    if chosen.ndim != 1 or chosen.dtype.kind not in "biu":
        raise ValueError(f"rows must be bool[N] or whole numbers, got {dtype_and_rank(chosen)}")
    if chosen.dtype == bool and chosen.shape != (len(table.present),):
        raise ValueError("a mask of rows must have an entry for each row of the table")
    bins, target, present = (jnp.asarray(array)[chosen] for array in table[:3])
    weight = None if table.weight is None else jnp.asarray(table.weight)[chosen]
    return table._replace(bins=bins, target=target, present=present, weight=weight)


MIN_ROWS = 64
"""Fewest rows that a table is padded to."""

MAX_PADDED_ROWS = 2**20
"""Larger tables are not padded: a copy costs more there than compiling does."""

Arrays = TypeVar("Arrays")
"""A pytree of arrays."""


def capacity_bucket(count: int) -> int:
    """The smallest size that is at least `count`, with four sizes in each octave.

    The sizes are 1 to 8, then 10, 12, 14, 16, 20 and so on: at most a quarter more than `count`.
    """
    step = 2 ** max(int(count - 1).bit_length() - 3, 0)
    return -(-count // step) * step


def row_bucket(rows: int) -> int:
    """How many rows a table of `rows` rows is padded to."""
    return rows if rows > MAX_PADDED_ROWS else max(capacity_bucket(rows), MIN_ROWS)


def pad_to_bucket(table: Table) -> Table:
    """The table with absent rows added, up to the size that programs are compiled for."""
    rows = table.bins.shape[0]
    padding = row_bucket(rows) - rows
    return _add_absent_rows(table, padding) if padding > 0 else table


def first_rows(tree: Arrays, count: int) -> Arrays:
    """The first `count` entries on the leading axis of every array; it compiles no program."""
    return jax.tree.map(
        lambda a: a if a.shape[0] <= count else jax.device_put(np.asarray(a)[:count]), tree
    )
