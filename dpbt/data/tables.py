"""From raw rows to the table that learners read.

Rows are encoded, their classes told apart, and absent rows added up to a public capacity.
"""

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import AnyArray, Table
from dpbt.data import cells
from dpbt.data.columns import RawColumn, cells_of, read_truths
from dpbt.data.domains import Columns, Domain, encode, positions, questions


def table(
    domain: Domain,
    columns: Columns,
    labels: RawColumn,
    *,
    negative: str,
    positive: str,
    capacity: int | None = None,
    exact: bool = False,
    codes: bool = False,
) -> Table:
    """The table of raw rows: row n of it is a function of row n alone.

    No cell and no label is an error.

    The two classes are declared, never read off the labels. A row is present if its label is one of
    them; a row with another label, or without one, is absent by itself. So neighbouring rows give
    neighbouring tables, whatever their cells hold: where one row is added, removed or replaced, one
    row of the table is.

    Args:
        domain: the public domain.
        columns: for every column of the domain N cells, as `domains.encode` reads them.
        labels: N cells. A Boolean is positive if it is true; any other cell by its word, as
            `cells.truth` reads it.
        negative: the word of the negative class.
        positive: the word of the positive class.
        capacity: a public bound on the number of rows: absent rows are added up to it, so that the
            number of rows stays private. With None the table has N rows, which is then public.
        exact: hold exact positions, `domains.positions`, in place of cells. Learners that draw
            thresholds then read numbers exactly instead of on the declared grid; those that ask for
            splits refuse the table.
        codes: of the attributes, as `domains.positions` has it; the splits are the same.

    Returns:
        Cells u8[capacity, F] with the domain's questions, which every learner reads, or exact
        positions f32[capacity, A]; target and present bool[capacity]. The target of an absent row
        is False.

    Raises:
        ValueError: if the two words are read alike, `capacity` is no integer of at least 1 or there
            are more rows, `labels` has another length than the columns, or as `domains.encode`. No
            message holds a cell or the number of rows.
    """
    # What is public.
    positive, negative = cells.declared(positive), cells.declared(negative)
    if positive == negative:
        raise ValueError(f"the two classes must differ, got {positive!r} twice")
    whole = isinstance(capacity, int | np.integer) and not isinstance(capacity, bool)
    if capacity is not None and (not whole or capacity < 1):
        raise ValueError(f"capacity must be an integer of at least 1, got {capacity!r}")

    # What is private: each row by itself.
    rows = positions(domain, columns, codes=codes) if exact else encode(domain, columns)
    try:
        classes = read_truths(cells_of(labels), positive, negative)
    except ValueError as error:
        raise ValueError(f"labels: {error}") from None
    if len(classes) != len(rows):
        raise ValueError("the labels must have the same length as the columns")

    # Absent rows up to the capacity.
    size = len(rows) if capacity is None else capacity
    if len(rows) > size:
        raise ValueError(f"there are more rows than the capacity of {capacity}")
    padding = size - len(rows)
    return Table(
        jnp.asarray(np.pad(rows, ((0, padding), (0, 0)))),
        jnp.asarray(np.pad(classes == 1, (0, padding))),
        jnp.asarray(np.pad(classes != -1, (0, padding))),
        None if exact else jax.tree.map(jnp.asarray, questions(domain, codes=codes)),
    )


def take(table: Table, rows: AnyArray) -> Table:
    """The table of some rows only, in their order; the questions stay.

    Args:
        table: N rows.
        rows: bool[N], or i[M]: the numbers of the rows.

    Raises:
        ValueError: for a mask of another length; no length is shown.
    """
    chosen = np.asarray(rows)
    if chosen.dtype == bool and chosen.shape != (len(table.present),):
        raise ValueError("a mask of rows must have an entry for each row of the table")
    cells, target, present = (jnp.asarray(array)[chosen] for array in table[:3])
    return Table(cells, target, present, table.questions)
