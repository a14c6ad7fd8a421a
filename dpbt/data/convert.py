"""Writing a table to a folder of blocks, once, from a file, from arrays or from your own reader.

Each row is encoded by itself, as `dpbt.table` does it: the same rows give the same cells. Only some
rows are in memory at a time. A conversion that was stopped is begun again from its first row.
"""

import collections
import functools
import hashlib
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dpbt import storage
from dpbt.data import blocks, domains
from dpbt.data.blocks import Block, BlockTable, Manifest, Rows
from dpbt.data.cells import RawColumn, by_position
from dpbt.data.domains import Columns, Domain, Label
from dpbt.data.files import blocks_of_file
from dpbt.data.owner import Counts, RawRows, encoded, raw_rows
from dpbt.data.targets import Labels, Target, classes_of
from dpbt.formats import checksum
from dpbt.public import MAX_ROWS, MAX_ROWS_IN_BLOCKS
from dpbt.storage import write_whole
from dpbt.validate import as_path, whole

__all__ = ["RawRows", "convert", "convert_columns", "convert_file"]

READ_ROWS = 2**16
"""How many rows are encoded at a time."""

Progress = Callable[[int], None]
"""Called with how many rows were read so far, which is private."""


def convert_file(
    path: str | Path, domain: Domain, label: Label, folder: str | Path, **options: Any
) -> BlockTable:
    """Convert a CSV or Parquet file (`.parquet`); see `convert`, and `files` for how it is read.

    Args:
        path: the file.
        domain: the public domain.
        label: the label's column, its classes or its range, and the column of weights.
        folder: of the table in blocks.
        **options: capacity, rows_per_block and progress of `convert`.

    Raises:
        ValueError: as `convert` and `files.read_columns`, and for a file that changed meanwhile.
        ImportError: for a Parquet file, if pyarrow is not installed.
        OSError: if a file cannot be read or written.
    """
    rows = _rows_of_file(as_path("path", path), domain, label)
    return convert(rows, domain, folder, **label.options, **options)


def _rows_of_file(path: Path, domain: Domain, label: Label) -> Iterator[RawRows]:
    """The rows of a file; ValueError at the end, if it was changed meanwhile."""

    def state() -> tuple[int, int]:
        found = os.stat(path)
        return found.st_size, found.st_mtime_ns

    before = state()
    for columns in blocks_of_file(path, (*domain, *label.columns), READ_ROWS):
        yield raw_rows(label, columns)
    if state() != before:
        raise ValueError(f"{path}: changed while it was read; convert it again")


def convert_columns(
    domain: Domain,
    columns: Columns,
    labels: RawColumn,
    folder: str | Path,
    *,
    sample_weight: RawColumn | None = None,
    **options: Any,
) -> BlockTable:
    """Convert columns that slices can be taken of, such as NumPy memory maps; see `convert`.

    Args:
        domain: the public domain.
        columns: for every column of the domain N cells.
        labels: N cells.
        folder: of the table in blocks.
        sample_weight: N weights, as `dpbt.table` has them.
        **options: as `convert`.

    Raises:
        ValueError: as `convert`, and for columns of different lengths.
        OSError: if a file cannot be read or written.
    """
    chosen = {name: columns[name] for name in domain if name in columns}
    weight = [] if sample_weight is None else [sample_weight]
    if len({len(column) for column in (*chosen.values(), labels, *weight)}) > 1:
        raise ValueError("columns, labels and sample_weight must have the same length")

    def rows() -> Iterator[RawRows]:
        for start in range(0, len(labels), READ_ROWS):
            here = slice(start, start + READ_ROWS)
            part = {name: by_position(column)[here] for name, column in chosen.items()}
            yield RawRows(part, by_position(labels)[here], *(by_position(w)[here] for w in weight))

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
    capacity: int | None = None,
    rows_per_block: int = blocks.ROWS_PER_BLOCK,
    progress: Progress | None = None,
) -> BlockTable:
    """Write a table in blocks, which a fit reads in passes.

    Row n of it is a function of row n of the source alone, and equal to that of `dpbt.table`. The
    folder is as private as the rows. A new folder has mode 0700, and all files have mode 0600.
    Every file is written under another name, put on the disk, and renamed, the manifest last. What
    a conversion left that was stopped is deleted, and all is written again.

    Args:
        rows: the rows in their order, in parts of any size.
        domain: the public domain.
        folder: a folder that does not exist, is empty, or has the beginning of a conversion.
        negative: the word of the negative class, as `dpbt.table`.
        positive: the word of the positive class, as `dpbt.table`.
        target: the declared classes or range, as `dpbt.table`.
        max_weight: a public bound on weights of rows, which they need, as `dpbt.table`.
        class_weight: a public weight of each class, as `dpbt.table`.
        capacity: a public bound on the number of rows. Absent rows are added up to it, so that the
            number of rows stays private. With None the number of rows is public.
        rows_per_block: how many rows a file has, at most `base.MAX_ROWS`.
        progress: called now and then with the number of rows that were read. It is private.

    Raises:
        ValueError: for a folder that has other files or a whole table, or that another conversion
            is at work in. For more rows than the capacity, and as `dpbt.table`. No cell is an
            error.
        OSError: if a file cannot be read or written.
    """
    # Check what is public.
    folder = as_path("folder", folder)
    if capacity is not None:
        capacity = whole("capacity", capacity, MAX_ROWS_IN_BLOCKS)
    each = whole("rows_per_block", rows_per_block, MAX_ROWS)
    domains.check(domain)
    labels = Labels.declared(negative, positive, target, max_weight, class_weight)
    classes = classes_of(negative, positive, target)
    encode = functools.partial(encoded, domain, labels)
    nothing = encode(RawRows({name: [] for name in domain}, []))

    # Read what is private, each row by itself.
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with storage.held(folder):
        _begin(folder)
        counts, weighted, files = None, False, []

        def read() -> Iterator[Rows]:
            nonlocal counts
            for found, counted in _ahead(encode, rows):
                if counts is not None and len(counts.missing) != len(counted.missing):
                    raise ValueError("all parts of the rows must have weights, or none")
                counts = counted if counts is None else counts.joined(counted)
                if progress is not None:
                    progress(counts.rows)
                yield found

        for block in _in_blocks(read(), nothing[0], each, capacity):
            files.append(_write(folder, len(files), block))
            weighted = block.weight is not None
        counts = nothing[1] if counts is None else counts
        manifest = Manifest(
            format=blocks.FORMAT,
            format_version=blocks.VERSION,
            domain={name: domains.column_to_json(column) for name, column in domain.items()},
            target=None if target is None else domains.column_to_json(target),
            classes=None if classes is None else [np.asarray(one).item() for one in classes],
            weighted=weighted,
            max_weight=labels.max_weight,
            class_weight=None
            if class_weight is None
            else [(str(word), float(weight)) for word, weight in class_weight.items()],
            capacity=sum(file.rows for file in files),
            rows_per_block=each,
            blocks=files,
            rows=counts.rows,
            missing=counts.missing.tolist(),
            constant=counts.constant,
        )
        content = msgspec.to_builtins(manifest)
        content["checksum"] = checksum(content)
        text = json.dumps(content, indent=1).encode("ascii")
        path = folder / blocks.MANIFEST
        write_whole(path, lambda part: part.write_bytes(text), mode=0o600, durable=True)
    return blocks.open_folder(folder)


def _begin(folder: Path) -> None:
    """Let a folder be empty, of which a conversion that was stopped may have left some blocks.

    Raises:
        ValueError: for a folder with a whole table or with other files.
        OSError: if it cannot be written.
    """
    if (folder / blocks.MANIFEST).exists():
        raise ValueError(f"{folder}: the folder has a table already; give a new one")
    found = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if not all(re.fullmatch(f"{blocks.PREFIX}[0-9]{{6,}}", path.name) for path in found):
        raise ValueError(f"{folder}: the folder has other files; give a new one")
    for path in found:
        path.unlink()
    storage.remove_all_left(folder, "*")


def _ahead(
    encode: Callable[[RawRows], tuple[Rows, Counts]], rows: Iterable[RawRows]
) -> Iterator[tuple[Rows, Counts]]:
    """The encoded rows in their order; some are encoded while others are read or written."""
    threads = os.cpu_count() or 1
    waiting: collections.deque[Future[tuple[Rows, Counts]]] = collections.deque()
    with ThreadPoolExecutor(threads) as pool:
        for part in rows:
            waiting.append(pool.submit(encode, part))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _in_blocks(
    parts: Iterable[Rows], like: Rows, each: int, capacity: int | None
) -> Iterator[Rows]:
    """The rows in blocks of `each`, with absent rows up to the capacity.

    A block is valid until the next one is made.

    Args:
        parts: the rows.
        like: no rows of the same kind.
        each: how many rows a block has, but for the last.
        capacity: how many rows all have; None for as many as there are.

    Raises:
        ValueError: for more rows than the capacity, and for a table without a row and without a
            capacity.
    """
    block, filled, total = None, 0, 0
    for part in itertools.chain(parts, [like]):
        count = len(part.present)
        total += count
        if capacity is not None and total > capacity:
            raise ValueError(
                f"there are more rows than the capacity of {capacity}; convert them again with a "
                "larger one"
            )
        if block is None:
            width, dtype = min(each, capacity or each), str(part.target.dtype)
            block = blocks.room(len(part.cells), width, dtype, part.weight is not None)
        start = 0
        while start < count:
            stop = min(count, start + each - filled)
            for mine, given in zip(block, part, strict=True):
                if mine is not None and given is not None:
                    mine[..., filled : filled + stop - start] = given[..., start:stop]
            start, filled = stop, filled + stop - start
            if filled == each:
                yield block
                filled = 0

    capacity = total if capacity is None else capacity
    if not 1 <= capacity <= MAX_ROWS_IN_BLOCKS:
        raise ValueError(f"a table needs a row, or a capacity; at most {MAX_ROWS_IN_BLOCKS} rows")
    assert block is not None
    for rows in blocks.sizes(capacity, each)[total // each :]:
        for array in block:
            if array is not None:
                array[..., filled:] = 0
        yield block.first(rows)
        filled = 0


def _write(folder: Path, number: int, rows: Rows) -> Block:
    """Write the file of a block.

    Raises:
        OSError: if the disk does not take it.
    """
    arrays = [np.ascontiguousarray(array) for array in rows if array is not None]
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.data.cast("B"))

    def write(path: Path) -> None:
        with open(path, "wb") as file:
            for array in arrays:
                file.write(array.data.cast("B"))

    write_whole(folder / blocks.block_name(number), write, mode=0o600, durable=True)
    count = len(rows.present)
    return Block(count, int(np.count_nonzero(rows.present)), digest.hexdigest())
