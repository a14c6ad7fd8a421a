"""From raw rows to the table that learners read.

`table` encodes rows, tells their classes apart, and adds absent rows up to a public capacity.
"""

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import MAX_ROWS, AnyArray, Table, dtype_and_rank
from dpbt.data import cells, kinds
from dpbt.data.columns import RawColumn, cells_of, read_truths
from dpbt.data.domains import Columns, Domain, encode, positions, questions
from dpbt.validate import shown


def table(
    domain: Domain,
    columns: Columns,
    labels: RawColumn,
    *,
    negative: str | float = False,
    positive: str | float = True,
    capacity: int | None = None,
    exact: bool = False,
    codes: bool = False,
) -> Table:
    """The table of raw rows: row n of it is a function of row n alone.

    The two classes are declared, never read off the labels. A row is present if its label is one of
    them. A row with another label, or without one, is absent by itself. So labels that are words or
    numbers need `negative` and `positive`: by default all their rows are absent, and a fit learns
    from noise alone. No cell and no label is an error.

    Neighbouring rows give neighbouring tables, whatever their cells hold. Where one row is added,
    removed or replaced, one row of the table is.

    Args:
        domain: the public domain.
        columns: for every column of the domain N cells, as `domains.encode` reads them.
        labels: N cells. A Boolean is positive if it is true. Any other cell is of the class whose
            word it reads as (`cells.truth`).
        negative: the word or the number of the negative class; False where labels are Booleans.
        positive: the word or the number of the positive class; True where labels are Booleans.
        capacity: a public bound on the number of rows. Absent rows are added up to it, so that the
            number of rows stays private. With None the table has N rows, and N is then public.
        exact: hold exact positions (`domains.positions`) in place of cells. Learners that draw
            thresholds then read numbers exactly instead of on the declared grid. Learners that read
            splits refuse the table.
        codes: of the attributes, as in `domains.positions`; the splits are the same.

    Returns:
        Cells u8[capacity, F] with the domain's questions, which every learner reads, or exact
        positions f32[capacity, A]; target and present bool[capacity]. The target of an absent row
        is False.

    Raises:
        ValueError: if the two classes are read alike, or only one of them is a Boolean; if
            `capacity` is no integer in 1..MAX_ROWS, or there are more rows. Also if `labels` has
            another length than the columns, and as `domains.encode`. No message holds a cell or the
            number of rows.
    """
    # Check what is public.
    true, false = _words(negative, positive)
    whole = isinstance(capacity, int | np.integer) and not isinstance(capacity, bool)
    if capacity is not None and not (whole and 1 <= capacity <= MAX_ROWS):
        raise ValueError(
            f"capacity must be an integer of at least 1 and at most {MAX_ROWS}, "
            f"got {shown(capacity)}"
        )
    exact, codes = kinds.boolean("exact", exact), kinds.boolean("codes", codes)

    # Read what is private, each row by itself.
    rows = positions(domain, columns, codes=codes) if exact else encode(domain, columns)
    try:
        classes = read_truths(cells_of(labels), true, false)
    except ValueError as error:
        raise ValueError(f"labels: {error}") from None
    if len(classes) != len(rows):
        raise ValueError("the labels must have the same length as the columns")

    # Add absent rows up to the capacity.
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


def _words(negative: object, positive: object) -> tuple[str, str]:
    """The words of the positive and of the negative class.

    Raises:
        ValueError: if they are read alike, if only one is a Boolean (the other was not declared),
            or if they are exchanged Booleans.
    """
    booleans = [isinstance(value, bool | np.bool_) for value in (negative, positive)]
    if booleans[0] != booleans[1]:
        raise ValueError(
            "negative and positive must be declared together, "
            f"got negative={shown(negative)} and positive={shown(positive)}"
        )
    if all(booleans) and negative and not positive:
        raise ValueError(
            "negative and positive must be False and True for Boolean labels, got True and False; "
            "negate the labels to exchange the classes"
        )
    true, false = cells.declared(positive, "positive"), cells.declared(negative, "negative")
    if true == false:
        raise ValueError(f"the two classes must differ, got {true!r} twice")
    return true, false


def take(table: Table, rows: AnyArray) -> Table:
    """The table of some rows only, in their order; the questions stay.

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
    cells, target, present = (jnp.asarray(array)[chosen] for array in table[:3])
    weight = None if table.weight is None else jnp.asarray(table.weight)[chosen]
    return Table(cells, target, present, table.questions, weight)
