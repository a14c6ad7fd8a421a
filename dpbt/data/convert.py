"""Conversion of a file, of arrays or of the rows of your own reader to a table in blocks.

A conversion encodes each row on its own, as `dpbt.table` does, so the same rows give the same bins.
It holds some rows at a time in memory, and a count for each id of a user. A conversion that fails
leaves nothing behind. One that is killed leaves a folder without a manifest, which is not a table.
"""

import contextlib
import functools
import hashlib
import itertools
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np

from dpbt.common.storage import encode_record, name_path_in_errors, write_atomically
from dpbt.common.validate import as_path, check_positive_integer
from dpbt.data import blocks, domains
from dpbt.data.blocks import Block, BlockRows, BlockTable, FileState, Manifest
from dpbt.data.cells import RawColumn, positional_view
from dpbt.data.domains import Columns, Domain, Label, LabelOptions
from dpbt.data.files import CSV_WITH_HEADER, TextForm, iter_column_blocks
from dpbt.public_types import MAX_ROWS, MAX_ROWS_IN_BLOCKS, redacted_repr

READ_ROWS = 2**16
"""The number of rows that are encoded at a time."""


class RawRows(NamedTuple):
    """Some raw rows of a source, as columns, labels, weights and ids; private.

    `dpbt.table` takes them in this form.

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


class ConvertOptions(LabelOptions, total=False):
    """The options of `convert_rows`, which describes them."""

    class_weight: Mapping[Any, float] | None
    capacity: int | None
    rows_per_block: int


def raw_rows_of_columns(label: Label, columns: Columns) -> RawRows:
    """Sort raw columns into attributes, labels, weights and ids, as the label names them.

    Raises:
        ValueError: naming the columns of the label that are missing, or there twice.
    """
    raw_columns = domains.select_columns(columns, label.columns, "the label")
    return RawRows(
        columns=columns,
        labels=raw_columns[label.column],
        sample_weight=None if label.weight is None else raw_columns[label.weight.column],
        users=None if label.user is None else raw_columns[label.user.column],
    )


def convert_file(
    path: str | Path,
    domain: Domain,
    label: Label,
    folder: str | Path,
    form: TextForm = CSV_WITH_HEADER,
    *,
    capacity: int | None = None,
    rows_per_block: int = blocks.ROWS_PER_BLOCK,
) -> BlockTable:
    """Convert a CSV or Parquet file to a table in blocks.

    A Parquet file is one named `.parquet`. `files` says how a file is read, and `convert_rows` what
    is written.

    Args:
        path: the file.
        domain: the public domain.
        label: the label's column and its classes or range, and the columns of weights and users.
        folder: the folder of the table in blocks.
        form: how the text of a CSV file is laid out.
        capacity: a public bound on the number of rows, as `convert_rows`.
        rows_per_block: the number of rows of a file of the folder.

    Raises:
        ValueError: as `convert_rows` and `files.read_columns`, and for a file that changed
            meanwhile.
        ImportError: for a Parquet file, if pyarrow is not installed.
        OSError: if a file cannot be read or written.
    """
    rows = _raw_rows_of_file(as_path("path", path), domain, label, form)
    return convert_rows(
        rows,
        domain,
        folder,
        capacity=capacity,
        rows_per_block=rows_per_block,
        **label.options,
    )


def _raw_rows_of_file(
    path: Path, domain: Domain, label: Label, form: TextForm
) -> Iterator[RawRows]:
    """The raw rows of a file, some at a time.

    Raises:
        ValueError: at the end of the file, if it changed meanwhile.
    """
    before = FileState.of_stat(os.stat(path))
    for columns in iter_column_blocks(path, (*domain, *label.columns), READ_ROWS, form):
        yield raw_rows_of_columns(label, columns)
    if FileState.of_stat(os.stat(path)) != before:
        raise ValueError(f"{path}: changed while it was read; convert it again")


def convert_columns(
    domain: Domain,
    columns: Columns,
    labels: RawColumn,
    folder: str | Path,
    *,
    sample_weight: RawColumn | None = None,
    users: RawColumn | None = None,
    **options: Unpack[ConvertOptions],
) -> BlockTable:
    """Convert columns that can be sliced, such as NumPy memory maps, to a table in blocks.

    `convert_rows` says what is written.

    Args:
        domain: the public domain.
        columns: for every column of the domain N cells.
        labels: N cells.
        folder: the folder of the table in blocks.
        sample_weight: N weights, as `dpbt.table` has them.
        users: N ids of users, likewise.
        **options: as `convert_rows`.

    Raises:
        ValueError: as `convert_rows`, and for columns of different lengths.
        OSError: if a file cannot be read or written.
    """
    domains.check_domain(domain)
    raw = RawRows(
        columns=domains.select_columns(columns, domain, "the domain"),
        labels=labels,
        sample_weight=sample_weight,
        users=users,
    )
    arrays = (*raw.columns.values(), labels, sample_weight, users)
    if len({len(column) for column in arrays if column is not None}) > 1:
        raise ValueError("columns, labels, sample_weight and users must have the same length")
    return convert_rows(_iter_slices(raw, READ_ROWS), domain, folder, **options)


def _iter_slices(raw: RawRows, max_rows: int) -> Iterator[RawRows]:
    """All rows in their order, in slices of at most `max_rows` rows."""
    for start in range(0, len(raw.labels), max_rows):
        rows = slice(start, start + max_rows)
        yield RawRows(
            columns={name: positional_view(cells)[rows] for name, cells in raw.columns.items()},
            labels=positional_view(raw.labels)[rows],
            sample_weight=_slice_column(raw.sample_weight, rows),
            users=_slice_column(raw.users, rows),
        )


def _slice_column(column: RawColumn | None, rows: slice) -> RawColumn | None:
    return None if column is None else positional_view(column)[rows]


def convert_rows(
    rows: Iterable[RawRows],
    domain: Domain,
    folder: str | Path,
    *,
    class_weight: Mapping[Any, float] | None = None,
    capacity: int | None = None,
    rows_per_block: int = blocks.ROWS_PER_BLOCK,
    **label_options: Unpack[LabelOptions],
) -> BlockTable:
    """Write rows, which may come in parts, as a table in blocks.

    A fit reads the table in passes.

    Its rows are those of `dpbt.table`. Each is a function of one row of the source alone, and which
    rows of a user count follows from the rows of that user alone. The folder is as private as the
    rows: it has mode 0700, and all files have mode 0600. The manifest is written last. After an
    error the folder is gone.

    Args:
        rows: the rows in their order, in parts of any size.
        domain: the public domain.
        folder: a folder that does not exist.
        class_weight: a public weight of each class, as `dpbt.table`.
        capacity: a public bound on the number of rows; with users, of those that count. Absent rows
            are added up to it, so that the number of rows stays private. With None the number of
            rows is public.
        rows_per_block: the number of rows of a file, at most `types.MAX_ROWS`.
        **label_options: negative, positive, target, max_weight, max_rows_per_user, ignore_case and
            ignore_label_case, which declare labels, weights and users as `dpbt.table` does.

    Raises:
        ValueError: for a folder that exists, for more rows than the capacity, and as `dpbt.table`.
            No cell is an error. Also for a capacity that the disk has no room for.
        OSError: if a file cannot be read or written.
    """
    # Check what is public.
    folder = as_path("folder", folder)
    if capacity is not None:
        capacity = check_positive_integer("capacity", capacity, MAX_ROWS_IN_BLOCKS)
    rows_per_block = check_positive_integer("rows_per_block", rows_per_block, MAX_ROWS)
    label = Label.from_options(**label_options)
    encode = functools.partial(_encode_each_row_alone, domain, label, class_weight)
    no_users = None if label.user is None else []
    no_rows = encode(RawRows({name: [] for name in domain}, [], users=no_users)).rows

    if capacity is not None:
        _check_room_on_disk(folder, no_rows, capacity)

    # Read what is private, each row on its own, and then the rows of each user by themselves.
    with _new_private_folder(folder):
        limited = _rows_within_user_limit(
            _iter_encoded_rows(encode, rows), label, drop_rows=capacity is not None
        )
        files = []
        weighted = False
        for block in _iter_blocks(
            limited, no_rows=no_rows, capacity=capacity, rows_per_block=rows_per_block
        ):
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
            rows_per_block=rows_per_block,
            blocks=files,
        )
        text = encode_record(manifest, format_name=blocks.FORMAT, format_version=blocks.VERSION)
        path = folder / blocks.MANIFEST
        write_atomically(path, lambda part: part.write_bytes(text), mode=0o600, durable=True)
    return blocks.open_folder(folder)


def _check_room_on_disk(folder: Path, no_rows: BlockRows, capacity: int) -> None:
    """Refuse a capacity whose blocks the disk cannot hold.

    No row is read before.

    Args:
        folder: where the blocks will be.
        no_rows: the columns of no row.
        capacity: the number of rows of all blocks.

    Raises:
        ValueError: with both sizes.
    """
    columns = [array for array in no_rows if array is not None]
    bytes_of_row = sum(array.itemsize * math.prod(array.shape[:-1]) for array in columns)
    parent = next(path for path in folder.absolute().parents if path.exists())
    needed = bytes_of_row * capacity
    free = shutil.disk_usage(parent).free
    if needed > free:
        raise ValueError(
            f"{folder}: blocks with room for {capacity} rows take {needed / 2**30:.3g} GiB, and "
            f"the disk has {free / 2**30:.3g} GiB left: state a smaller capacity"
        )


@contextlib.contextmanager
def _new_private_folder(folder: Path) -> Iterator[None]:
    """Make a folder that only its owner can read, and remove it if the `with` block fails.

    Raises:
        ValueError: if the folder exists.
        OSError: if it cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise ValueError(
            f"{folder}: exists; give a new folder, or delete it if it has no {blocks.MANIFEST} "
            "because a conversion was killed"
        ) from None
    with contextlib.ExitStack() as on_error:
        on_error.callback(shutil.rmtree, folder)
        yield
        on_error.pop_all()


class _EncodedRows(NamedTuple):
    """Some encoded rows, and the ids of their users; private.

    Attributes:
        rows: the rows, column by column.
        ids: object[n], as `cells.hash_ids` returns them; None for rows without ids.
    """

    rows: BlockRows
    ids: np.ndarray | None

    __repr__ = redacted_repr


def _encode_each_row_alone(
    domain: Domain, label: Label, class_weight: Mapping[Any, float] | None, raw: RawRows
) -> _EncodedRows:
    """Encode raw rows in the form of a block, each on its own."""
    bins = domains.encode(domain, raw.columns)
    labels = label.read_labels(
        raw.labels,
        num_rows=len(bins),
        sample_weight=raw.sample_weight,
        class_weight=class_weight,
    )
    return _EncodedRows(BlockRows(bins.T, *labels), label.read_user_ids(raw.users, len(bins)))


def _iter_encoded_rows(
    encode: Callable[[RawRows], _EncodedRows], source: Iterable[RawRows]
) -> Iterator[_EncodedRows]:
    """Encode the parts of a source in parallel, and yield them in their order.

    There is one thread for each processor.
    """
    remaining_rows = iter(source)
    threads = os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        while parts := list(itertools.islice(remaining_rows, threads)):
            yield from pool.map(encode, parts)


def _rows_within_user_limit(
    parts: Iterator[_EncodedRows], label: Label, *, drop_rows: bool
) -> Iterator[BlockRows]:
    """Mark all but the first rows of each user as absent, or drop them.

    Args:
        parts: the encoded rows, some at a time.
        label: has the limit, if rows have ids of users.
        drop_rows: leave out the rows that do not count, instead of marking them as absent.
    """
    limiter = None if label.user is None else label.user.new_row_limiter()
    for rows, ids in parts:
        if limiter is None:
            yield rows
            continue
        assert ids is not None  # as the label has users
        admitted = limiter.admit_rows(ids, rows.present)
        if drop_rows:
            yield BlockRows._make(None if array is None else array[..., admitted] for array in rows)
        else:
            yield rows._replace(target=rows.target * admitted, present=admitted)


def _iter_blocks(
    parts: Iterator[BlockRows], *, no_rows: BlockRows, capacity: int | None, rows_per_block: int
) -> Iterator[BlockRows]:
    """Cut rows into blocks of `rows_per_block`, and fill up the capacity with absent rows.

    The last block may be shorter.

    Args:
        parts: the rows, some at a time.
        no_rows: a part of no rows, whose dtypes count if `parts` is empty.
        capacity: the number of rows of all blocks; None for as many as there are.
        rows_per_block: the number of rows of a block.

    Raises:
        ValueError: for more rows than the capacity, or than a table may have, and if some parts
            have weights and others none.
    """
    max_rows = capacity or MAX_ROWS_IN_BLOCKS
    num_rows = 0
    first = next(parts, no_rows)
    weighted = first.weight is not None
    new_block = functools.partial(
        blocks.absent_rows,
        features=len(first.bins),
        rows=min(rows_per_block, max_rows),
        dtype=str(first.target.dtype),
        weighted=weighted,
    )
    block = new_block()
    for part in itertools.chain([first], parts):
        remaining = len(part.present)
        if num_rows + remaining > max_rows:
            raise ValueError(
                f"there are more rows than the capacity of {max_rows}; convert them again with a "
                "larger one"
            )
        if (part.weight is not None) != weighted:
            raise ValueError("all parts of the rows must have weights, or none")
        while remaining:
            start = num_rows % rows_per_block
            count = min(rows_per_block - start, remaining)
            for into, array in zip(block.slice(start), part.slice(-remaining), strict=True):
                if into is not None and array is not None:
                    into[..., :count] = array[..., :count]
            num_rows = num_rows + count
            remaining = remaining - count
            if num_rows % rows_per_block == 0:
                yield block
                block = new_block()

    size = capacity or num_rows
    for start in range(num_rows - num_rows % rows_per_block, size, rows_per_block):
        yield block.slice(0, size - start)
        block = new_block()


def _write_block(folder: Path, number: int, rows: BlockRows) -> Block:
    """Write the file of a block, and return its entry in the manifest.

    Raises:
        OSError: if it cannot be written.
    """
    path = folder / blocks.block_name(number)
    digest = hashlib.sha256()
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
