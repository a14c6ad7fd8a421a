"""Writing a table to a folder of blocks, once, from a file, from arrays or from your own reader.

Each row is encoded by itself, as `dpbt.table` does it: the same rows give the same bins. Only some
rows are in memory at a time, and a count for each id of a user. A conversion that fails leaves
nothing, and one that is killed leaves a folder without a manifest, which is no table.
"""

import contextlib
import hashlib
import itertools
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpbt.common.storage import encode_record, name_path_in_errors, write_atomically
from dpbt.common.validate import as_path, check_positive_integer
from dpbt.data import blocks, domains
from dpbt.data.blocks import Block, BlockTable, Manifest, Rows
from dpbt.data.cells import RawColumn, by_position
from dpbt.data.domains import Columns, Domain, Label
from dpbt.data.files import CSV, Form, blocks_of_file
from dpbt.data.kinds import Target
from dpbt.public_types import MAX_ROWS, MAX_ROWS_IN_BLOCKS, redacted_repr

READ_ROWS = 2**16
"""How many rows are encoded at a time."""


class RawRows(NamedTuple):
    """Some rows of a source, as `dpbt.table` takes them.

    Attributes:
        columns: for every column of the domain n cells.
        labels: n cells.
        sample_weight: n weights, or None.
        users: n ids of users, or None.
    """

    columns: Columns
    labels: RawColumn
    sample_weight: RawColumn | None = None
    users: RawColumn | None = None

    __repr__ = redacted_repr


def raw_rows(label: Label, columns: Columns) -> RawRows:
    """Rows by columns, of which some are those of the label."""
    if absent := [name for name in label.columns if name not in columns]:
        raise ValueError(f"the data lacks columns {absent} of the label")
    weight, users = (each and columns[each.column] for each in (label.weight, label.user))
    return RawRows(columns, columns[label.column], weight, users)


def convert_file(
    path: str | Path,
    domain: Domain,
    label: Label,
    folder: str | Path,
    form: Form = CSV,
    **options: Any,
) -> BlockTable:
    """Convert a CSV or Parquet file (`.parquet`); see `convert`, and `files` for how it is read.

    Args:
        path: the file.
        domain: the public domain.
        label: the label's column, its classes or its range, and the columns of weights and users.
        folder: of the table in blocks.
        form: how the text of a CSV file is laid out.
        **options: capacity and rows_per_block of `convert`.

    Raises:
        ValueError: as `convert` and `files.read_columns`, and for a file that changed meanwhile.
        ImportError: for a Parquet file, if pyarrow is not installed.
        OSError: if a file cannot be read or written.
    """
    rows = _rows_of_file(as_path("path", path), domain, label, form)
    return convert(rows, domain, folder, **label.options, **options)


def _rows_of_file(path: Path, domain: Domain, label: Label, form: Form) -> Iterator[RawRows]:
    """The rows of a file; ValueError at the end, if it was changed meanwhile."""
    before = os.stat(path)
    for columns in blocks_of_file(path, (*domain, *label.columns), READ_ROWS, form):
        yield raw_rows(label, columns)
    after = os.stat(path)
    if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise ValueError(f"{path}: changed while it was read; convert it again")


def convert_columns(
    domain: Domain,
    columns: Columns,
    labels: RawColumn,
    folder: str | Path,
    *,
    sample_weight: RawColumn | None = None,
    users: RawColumn | None = None,
    **options: Any,
) -> BlockTable:
    """Convert columns that slices can be taken of, such as NumPy memory maps; see `convert`.

    Args:
        domain: the public domain.
        columns: for every column of the domain N cells.
        labels: N cells.
        folder: of the table in blocks.
        sample_weight: N weights, as `dpbt.table` has them.
        users: N ids of users, likewise.
        **options: as `convert`.

    Raises:
        ValueError: as `convert`, and for columns of different lengths.
        OSError: if a file cannot be read or written.
    """
    chosen = {name: columns[name] for name in domain if name in columns}
    beside = labels, sample_weight, users
    held = (column for column in (*chosen.values(), *beside) if column is not None)
    if len({len(column) for column in held}) > 1:
        raise ValueError("columns, labels, sample_weight and users must have the same length")

    def rows() -> Iterator[RawRows]:
        for start in range(0, len(labels), READ_ROWS):
            here = slice(start, start + READ_ROWS)
            part = {name: by_position(column)[here] for name, column in chosen.items()}
            more = (None if each is None else by_position(each)[here] for each in beside)
            yield RawRows(part, *more)

    return convert(rows(), domain, folder, **options)


def convert(
    rows: Iterable[RawRows],
    domain: Domain,
    folder: str | Path,
    *,
    negative: str | float = False,
    positive: str | float = True,
    target: Target | None = None,
    max_weight: float | None = None,
    class_weight: Mapping[Any, float] | None = None,
    max_rows_per_user: int | None = None,
    ignore_case: bool = False,
    capacity: int | None = None,
    rows_per_block: int = blocks.ROWS_PER_BLOCK,
) -> BlockTable:
    """Write a table in blocks, which a fit reads in passes.

    Its rows are those of `dpbt.table`. Each is a function of one row of the source alone, and which
    rows of a user count follows from the rows of that user alone. The folder is as private as the
    rows: it has mode 0700, and all files have mode 0600. The manifest is written last. After an
    error the folder is gone.

    Args:
        rows: the rows in their order, in parts of any size.
        domain: the public domain.
        folder: a folder that does not exist.
        negative: the word of the negative class, as `dpbt.table`.
        positive: the word of the positive class, as `dpbt.table`.
        target: the declared classes or range, as `dpbt.table`.
        max_weight: a public bound on weights of rows, which they need, as `dpbt.table`.
        class_weight: a public weight of each class, as `dpbt.table`.
        max_rows_per_user: how many rows of each user count, as `dpbt.table`; for rows with `users`.
        ignore_case: whether ids that differ in capitals alone are one.
        capacity: a public bound on the number of rows; with users, of those that count. Absent rows
            are added up to it, so that the number of rows stays private. With None the number of
            rows is public.
        rows_per_block: how many rows a file has, at most `types.MAX_ROWS`.

    Raises:
        ValueError: for a folder that exists, for more rows than the capacity, and as `dpbt.table`.
            No cell is an error.
        OSError: if a file cannot be read or written.
    """
    # Check what is public.
    folder = as_path("folder", folder)
    if capacity is not None:
        capacity = check_positive_integer("capacity", capacity, MAX_ROWS_IN_BLOCKS)
    each = check_positive_integer("rows_per_block", rows_per_block, MAX_ROWS)
    label = Label.of(negative, positive, target, max_weight, max_rows_per_user, ignore_case)

    def encode(given: RawRows) -> tuple[Rows, Any]:
        bins = domains.encode(domain, given.columns)
        read = label.read(given.labels, given.sample_weight, len(bins), class_weight)
        return Rows(bins.T, *read), label.ids(given.users, len(bins))

    nobody = None if label.user is None else []
    nothing, _ = encode(RawRows({name: [] for name in domain}, [], users=nobody))

    # Read what is private, each row by itself, and then the rows of each user by themselves.
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise ValueError(
            f"{folder}: exists; give a new folder, or delete it if it has no {blocks.MANIFEST} "
            "because a conversion was killed"
        ) from None
    with contextlib.ExitStack() as failed:
        failed.callback(shutil.rmtree, folder)
        files, weighted = [], False
        read = _count_rows(_encode_ahead(encode, rows), label, capacity)
        for block in _write_blocks(read, nothing, capacity, each):
            files.append(_write_block(folder, len(files), block))
            weighted = block.weight is not None
        if not files:
            raise ValueError("a table needs a row, or a capacity")
        manifest = Manifest(
            domain={str(name): column for name, column in domain.items()},
            label=label,
            weighted=weighted,
            class_weight=None
            if class_weight is None
            else [(str(word), float(weight)) for word, weight in class_weight.items()],
            capacity=sum(file.rows for file in files),
            rows_per_block=each,
            blocks=files,
        )
        text = encode_record(manifest, format_name=blocks.FORMAT, format_version=blocks.VERSION)
        path = folder / blocks.MANIFEST
        write_atomically(path, lambda part: part.write_bytes(text), mode=0o600, durable=True)
        failed.pop_all()
    return blocks.open_folder(folder)


def _encode_ahead(
    encode: Callable[[RawRows], tuple[Rows, Any]], rows: Iterable[RawRows]
) -> Iterator[tuple[Rows, Any]]:
    """The encoded rows in their order; as many parts at a time as there are processors."""
    left, threads = iter(rows), os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        while parts := list(itertools.islice(left, threads)):
            yield from pool.map(encode, parts)


def _count_rows(
    parts: Iterator[tuple[Rows, Any]], label: Label, capacity: int | None
) -> Iterator[Rows]:
    """The rows, of which the first of each user count; with a capacity they alone are left."""
    counts = None if label.user is None else label.user.counting()
    for rows, ids in parts:
        if counts is None:
            yield rows
            continue
        there = counts(ids, rows.present)
        if capacity is None:
            yield rows._replace(target=rows.target * there, present=there)
        else:
            yield Rows._make(None if array is None else array[..., there] for array in rows)


def _write_blocks(
    parts: Iterator[Rows], nothing: Rows, capacity: int | None, each: int
) -> Iterator[Rows]:
    """The rows in blocks of `each`, but for the last, with absent rows up to the capacity.

    Args:
        parts: the rows.
        nothing: no rows of the same kind, where there is no part.
        capacity: how many rows all have; None for as many as there are.
        each: how many rows a block has.

    Raises:
        ValueError: for more rows than the capacity, or than a table may have, and if some parts
            have weights and others none.
    """
    most, total = capacity or MAX_ROWS_IN_BLOCKS, 0
    first = next(parts, nothing)
    dtype, weighted = str(first.target.dtype), first.weight is not None

    def absent() -> Rows:
        return blocks.empty_rows(len(first.bins), min(each, most), dtype, weighted)

    block = absent()
    for part in itertools.chain([first], parts):
        count = len(part.present)
        if total + count > most:
            raise ValueError(
                f"there are more rows than the capacity of {most}; convert them again with a "
                "larger one"
            )
        if (part.weight is not None) != weighted:
            raise ValueError("all parts of the rows must have weights, or none")
        while count:
            place = total % each
            taken = min(each - place, count)
            for into, array in zip(block.slice(place), part.slice(-count), strict=True):
                if into is not None and array is not None:
                    into[..., :taken] = array[..., :taken]
            total, count = total + taken, count - taken
            if total % each == 0:
                yield block
                block = absent()

    rows = capacity or total
    for start in range(total - total % each, rows, each):
        yield block.slice(0, rows - start)
        block = absent()


def _write_block(folder: Path, number: int, rows: Rows) -> Block:
    """Write the file of a block.

    Raises:
        OSError: if the disk does not take it.
    """
    path, digest = folder / blocks.block_name(number), hashlib.sha256()
    with (
        name_path_in_errors(path),
        open(path, "xb", opener=lambda at, flags: os.open(at, flags, 0o600)) as file,
    ):
        for array in rows:
            if array is not None:
                content = np.ascontiguousarray(array).data.cast("B")
                digest.update(content)
                file.write(content)
    count = len(rows.present)
    return Block(count, int(np.count_nonzero(rows.present)), digest.hexdigest())
