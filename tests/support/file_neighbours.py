"""Neighbours made of file rows: two CSV files that differ in one line, each read alone."""

import functools
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt.data.domains import Boolean, Label, Nominal, Numeric
from dpbt.data.files import read_columns
from dpbt.types import ADD_REMOVE, Relation, Table

DOMAIN = {
    "age": Numeric(0, 100, bins=6, missing=True),
    "job": Nominal(("clerk", "smith", "NA", "3"), other="3"),
    "member": Boolean("yes", "no", missing=True),
    "retired": Boolean(),
}
LABEL = Label("ill", "1", "0")
HEADER = b"\xef\xbb\xbfname, age, job, member, retired, ill"
NUM_PLAIN_LINES = 40
CAPACITY = 64

ODD_LINES = [
    b"",
    b"   \t",
    b"\r",
    b'"',
    b'x,"41,clerk,yes,1,1',
    b'x,41,cl"erk,"yes"s,1,1',
    b"x,41,clerk",
    b"x,41,clerk,yes,1,1,1,1",
    b"x,4\x001,clerk,yes,1,1",
    b"x,41,cl\xfferk,yes,1,1",
    b"x\ry,41,clerk,yes,1,1",
    b"x" * 200_000 + b",41,clerk,yes,1,1",
    b"x,41,clerk,yes,1,maybe",
    b"x,41,clerk,yes,1,",
    b"x,,,,,1",
    b"x,NA,NA,NA,NA,0",
    b"x,None,null,nan,?,1.0",
    b"x,1e400,03,TRUE,2,1",
    b"x,-inf,3.0,yes,1.0,0",
    b"x,1_000,king,Yes,0.5, 1 ",
    b"x," + b"9" * 5000 + b",clerk,no,0,0",
    b'"x","41","cl""erk","yes","1","1"',
    b"\xef\xbb\xbfx,41,clerk,yes,1,1",
    b"name, age, job, member, retired, ill",
]
"""Twelve malformed lines, lines of unusual cells, and last an unusual line of usual ones."""


def plain_lines(seed: int, count: int = NUM_PLAIN_LINES) -> list[bytes]:
    """Lines of a well-kept file whose label depends on the age."""
    rng = np.random.default_rng(seed)
    lines = []
    for row in range(count):
        age = rng.uniform(0, 100)
        job, member = rng.choice(["clerk", "smith"]), rng.choice(["yes", "no"])
        ill = int((age > 50) ^ (rng.random() < 0.1))
        lines.append(f"p{row}, {age:.1f}, {job}, {member}, {int(age > 65)}, {ill}".encode())
    return lines


def table_of_lines(lines: list[bytes], exact: bool = False) -> Table:
    """The table of a file of these lines below the header, CAPACITY rows; see `dpbt.table`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        path.write_bytes(b"\n".join([HEADER, *lines, b""]))
        rows = read_columns(path, (*DOMAIN, LABEL.column))
    options = {**LABEL.options, "capacity": CAPACITY, "exact": exact}
    return dpbt.table(DOMAIN, rows, rows[LABEL.column], **options)


def insert_absent_row(table: Table, index: int) -> Table:
    """The table with an absent row inserted at an index, which moves the rows behind it."""

    def insert_row(array):
        rows = np.asarray(array)
        return jnp.asarray(np.insert(rows, index, np.zeros_like(rows[0]), axis=0)[: len(rows)])

    return Table(*map(insert_row, table[:3]), table.splits)


def neighbouring_tables(
    relation: Relation, seed: int, exact: bool = False
) -> list[tuple[Table, Table]]:
    """Tables of two files that differ in one line, for each odd line and some plain ones.

    Under add/remove the line is somewhere in the first file and not in the second. Under
    replace-one it stands in the first file where the second has another line. Files hold other odd
    lines, too. All tables have one shape, and lines that both files hold are at the same rows.
    """
    rng, plain = np.random.default_rng(seed), plain_lines(seed)
    pairs = []
    for line in [*ODD_LINES, *plain_lines(seed + 1, 3)]:
        odd_lines = [ODD_LINES[k] for k in rng.choice(len(ODD_LINES), 8, replace=False)]
        lines_of_file = [*plain, *odd_lines]
        common_lines = [lines_of_file[k] for k in rng.permutation(len(lines_of_file))]
        index = int(rng.integers(len(common_lines)))
        if relation is ADD_REMOVE:
            table_without_line = insert_absent_row(table_of_lines(common_lines, exact), index)
            pairs.append(
                (
                    table_of_lines([*common_lines[:index], line, *common_lines[index:]], exact),
                    table_without_line,
                )
            )
        else:
            replaced = [*common_lines[:index], line, *common_lines[index + 1 :]]
            pairs.append((table_of_lines(replaced, exact), table_of_lines(common_lines, exact)))
    return pairs


@functools.cache
def stacked_neighbouring_tables(relation: Relation, exact: bool) -> tuple[Table, Table]:
    """The first and the second tables of `neighbouring_tables`, with a leading axis for pairs."""
    both = zip(*neighbouring_tables(relation, 1, exact), strict=True)
    first, second = (jax.tree.map(lambda *rows: jnp.stack(rows), *tables) for tables in both)
    return first, second
