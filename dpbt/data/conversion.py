"""Writing a table to a folder of chunks, once, from a file, from arrays or from blocks.

Each row is encoded by itself, as `dpbt.table` does it: the same rows give the same cells. Only some
rows are in memory at a time. A conversion that was stopped goes on at the first chunk that is
missing.
"""

import collections
import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from dpbt import storage
from dpbt.base import MOST_CHUNKED_ROWS
from dpbt.data import chunks, domains
from dpbt.data.chunks import ChunkedTable, Rows
from dpbt.data.columns import RawColumn, by_position
from dpbt.data.domains import Columns, Domain, Label
from dpbt.data.files import blocks_of_file
from dpbt.data.kinds import Nominal
from dpbt.data.tables import Labels, labels_of
from dpbt.data.targets import Target
from dpbt.modelfiles import checksum
from dpbt.public import without_values
from dpbt.storage import write_whole
from dpbt.validate import as_path

BLOCK_ROWS = 2**16
"""How many rows are encoded at a time."""

Progress = Callable[[int], None]
"""Called with how many rows were read so far, which is private."""


class Block(NamedTuple):
    """Some rows of a source, as `dpbt.table` takes them.

    Attributes:
        columns: for every column of the domain n cells.
        labels: n cells.
        sample_weight: n weights, or None.
    """

    columns: Columns
    labels: RawColumn
    sample_weight: RawColumn | None = None

    __repr__ = without_values


class Source(Protocol):
    """Where rows come from."""

    @property
    def identity(self) -> Mapping[str, Any] | None:
        """What a stopped conversion is compared with before it goes on, as JSON content.

        With None its rows are compared: all that it has written is made again.
        """
        ...

    def blocks(self, skip: int) -> Iterator[Block]:
        """The rows from number `skip` on, in their order, in blocks of any size."""
        ...


class SourceChangedError(ValueError):
    """The rows changed while they were read, so nothing may go on with what was written."""


@dataclasses.dataclass(frozen=True)
class FileSource:
    """The rows of a CSV or Parquet file; see `files.read_csv` for how lines are read.

    Attributes:
        path: the file.
        domain: the public domain.
        label: the label's column, and that of weights.
    """

    path: Path
    domain: Domain
    label: Label

    @property
    def identity(self) -> Mapping[str, Any]:
        """The name of the file, its size and when it was changed."""
        found = os.stat(self.path)
        name = str(self.path.resolve())
        return {"file": name, "size": found.st_size, "changed_ns": found.st_mtime_ns}

    def blocks(self, skip: int) -> Iterator[Block]:
        """The rows from number `skip` on.

        Raises:
            SourceChangedError: at the end, if the file was changed meanwhile.
        """
        before = self.identity
        names = (*self.domain, *self.label.columns)
        for columns in blocks_of_file(self.path, names, BLOCK_ROWS, skip):
            labels = columns.pop(self.label.column)
            weight = self.label.weight
            yield Block(columns, labels, None if weight is None else columns.pop(weight.column))
        if self.identity != before:
            raise SourceChangedError(
                f"{self.path}: changed while it was read; convert to a new folder"
            )


@dataclasses.dataclass(frozen=True, eq=False)
class ColumnSource:
    """Columns that slices can be taken of, such as NumPy arrays and memory maps.

    Attributes:
        block: all rows.
        identity: None, as cells are compared when they are encoded, and never before.
    """

    block: Block
    identity = None

    def blocks(self, skip: int) -> Iterator[Block]:
        """The rows from number `skip` on."""
        for start in range(skip, len(self.block.labels), BLOCK_ROWS):
            yield _sliced(self.block, start, start + BLOCK_ROWS)


def _sliced(block: Block, start: int, stop: int) -> Block:
    def part(column: RawColumn) -> RawColumn:
        return None if column is None else by_position(column)[start:stop]

    columns = {name: part(column) for name, column in block.columns.items()}
    return Block(columns, part(block.labels), part(block.sample_weight))


@dataclasses.dataclass(frozen=True, eq=False)
class BlockSource:
    """Rows of your own reader, for any other source.

    Attributes:
        name: names the source and its version. A stopped conversion goes on with the same name.
        make: () -> an iterator of blocks, the same rows in the same order each time.
    """

    name: str
    make: Callable[[], Iterable[Block]]

    @property
    def identity(self) -> Mapping[str, Any]:
        """The name."""
        return {"name": self.name}

    def blocks(self, skip: int) -> Iterator[Block]:
        """The rows from number `skip` on; those before are read and dropped."""
        for block in self.make():
            rows = len(block.labels)
            if skip < rows:
                yield _sliced(block, skip, rows) if skip else block
            skip = max(skip - rows, 0)


def convert_file(
    path: str | Path, domain: Domain, label: Label, folder: str | Path, **options: Any
) -> ChunkedTable:
    """Convert a CSV or Parquet file (`.parquet`); see `convert`.

    Args:
        path: the file.
        domain: the public domain.
        label: the label's column, its classes or its range, and the column of weights.
        folder: of the table in chunks.
        **options: capacity, rows_per_chunk and progress of `convert`.

    Raises:
        ValueError: as `convert` and `files.read_columns`.
        ImportError: for a Parquet file, if pyarrow is not installed.
        OSError: if a file cannot be read or written.
    """
    source = FileSource(as_path("path", path), domain, label)
    most = None if label.weight is None else label.weight.most
    return convert(source, domain, folder, **label.options, most_weight=most, **options)


def convert_columns(
    domain: Domain,
    columns: Columns,
    labels: RawColumn,
    folder: str | Path,
    *,
    sample_weight: RawColumn | None = None,
    **options: Any,
) -> ChunkedTable:
    """Convert columns that slices can be taken of, such as NumPy memory maps; see `convert`.

    Args:
        domain: the public domain.
        columns: for every column of the domain N cells.
        labels: N cells.
        folder: of the table in chunks.
        sample_weight: N weights, as `dpbt.table` has them.
        **options: as `convert`.

    Raises:
        ValueError: as `convert`, and for columns of different lengths.
        OSError: if a file cannot be read or written.
    """
    chosen = {name: columns[name] for name in domain if name in columns}
    block = Block(chosen, labels, sample_weight)
    weight = [] if sample_weight is None else [sample_weight]
    if len({len(column) for column in (*chosen.values(), labels, *weight)}) > 1:
        raise ValueError("columns, labels and sample_weight must have the same length")
    return convert(ColumnSource(block), domain, folder, **options)


def convert(
    source: Source,
    domain: Domain,
    folder: str | Path,
    *,
    negative: str | float = False,
    positive: str | float = True,
    target: Target | None = None,
    most_weight: float | None = None,
    class_weight: Mapping[Any, float] | None = None,
    capacity: int | None = None,
    rows_per_chunk: int = chunks.ROWS_PER_CHUNK,
    progress: Progress | None = None,
) -> ChunkedTable:
    """Write a table in chunks, which `dpbt.fit_chunks` learns from.

    Row n of it is a function of row n of the source alone, and equal to that of `dpbt.table`. The
    folder is as private as the rows. A new folder has mode 0700, and all files have mode 0600.
    Every file is written under another name, put on the disk, and renamed. A conversion that was
    stopped goes on where it was, if it is called again with the same source and declarations. It
    makes the last chunk again that has a present row, and compares. So a source that changed
    without its `identity` is found if rows of that chunk changed or moved. A source whose
    `identity` is None, such as columns, is compared with all chunks that were written.

    Args:
        source: `FileSource`, `ColumnSource`, `BlockSource`, or one of your own.
        domain: the public domain.
        folder: a folder that does not exist, is empty, or has the beginning of this conversion. A
            folder that has the whole table is left as it is.
        negative: the word of the negative class, as `dpbt.table`.
        positive: the word of the positive class, as `dpbt.table`.
        target: the declared classes or range, as `dpbt.table`.
        most_weight: a public bound on weights of rows, which they need, as `dpbt.table`.
        class_weight: a public weight of each class, as `dpbt.table`.
        capacity: a public bound on the number of rows. Absent rows are added up to it, so that the
            number of rows stays private. With None the number of rows is public.
        rows_per_chunk: how many rows a file has, at most `base.MAX_ROWS`.
        progress: called now and then with the number of rows that were read. It is private.

    Raises:
        ValueError: for a folder that has other files or another table, or that another conversion
            is at work in. For rows that changed since the stop, as far as they are compared. For
            more rows than the capacity, and as `dpbt.table`. No cell is an error.
        OSError: if a file cannot be read or written.
    """
    folder = as_path("folder", folder)
    chunks.checked_sizes(1 if capacity is None else capacity, rows_per_chunk)
    domains.check(domain)
    labels = labels_of(negative, positive, target, most_weight, class_weight)
    empty = _encoded(domain, Block({name: [] for name in domain}, [], None), labels)
    named = source.identity
    declared = {
        "format": chunks.FORMAT,
        "format_version": chunks.VERSION,
        "domain": {name: domains.column_to_json(name, column) for name, column in domain.items()},
        "target": None if target is None else domains.column_to_json("target", target),
        "classes": _classes(negative, positive, target),
        "most_weight": None if most_weight is None else float(most_weight),
        "class_weight": None
        if class_weight is None
        else [[str(word), float(weight)] for word, weight in class_weight.items()],
        "rows_per_chunk": int(rows_per_chunk),
        "bound": None if capacity is None else int(capacity),
        "source": None if named is None else dict(named),
    }
    if named is not None and (folder / chunks.MANIFEST).exists():
        return _finished(folder, declared)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with storage.held(folder):
        writer = _Writer(folder, declared, capacity, rows_per_chunk)
        writer.open()
        done = writer.rows
        encode = functools.partial(_encoded, domain, labels=labels)
        try:
            for encoded in _ahead(encode, source.blocks(done)):
                writer.add(encoded)
                done += len(encoded.present)
                if progress is not None:
                    progress(done)
        except SourceChangedError:
            writer.give_up()
            raise
        writer.close(empty)
    return chunks.open_folder(folder)


def _classes(negative: Any, positive: Any, target: Target | None) -> list[Any] | None:
    """The words of the classes; None for a number."""
    if target is None:
        return [negative, positive]
    return list(target.names) if isinstance(target, Nominal) else None


def _encoded(domain: Domain, block: Block, labels: Labels) -> Rows:
    """The rows of a block, as `dpbt.table` encodes them."""
    cells = domains.encode(domain, block.columns)
    return Rows(cells.T, *labels.read(block.labels, block.sample_weight, len(cells)))


def _ahead(encode: Callable[[Block], Rows], blocks: Iterator[Block]) -> Iterator[Rows]:
    """The encoded blocks in their order; some are encoded while others are read or written."""
    threads = os.cpu_count() or 1
    waiting: collections.deque[Future[Rows]] = collections.deque()
    with ThreadPoolExecutor(threads) as pool:
        for block in blocks:
            waiting.append(pool.submit(encode, block))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _finished(folder: Path, declared: Mapping[str, Any]) -> ChunkedTable:
    """The table of a folder that is finished.

    Raises:
        ValueError: if it is another one.
    """
    found = chunks.open_folder(folder)
    _check_same(folder, found.content, declared)
    if any((folder / name).exists() for name in (chunks.UNFINISHED, storage.LOCK)):
        with storage.held(folder):  # left by a kill
            (folder / chunks.UNFINISHED).unlink(missing_ok=True)
    return found


def _check_same(folder: Path, content: Mapping[str, Any], declared: Mapping[str, Any]) -> None:
    """Refuse a folder of another conversion.

    Raises:
        ValueError: naming what differs.
    """
    words = {"bound": "capacity"}
    unlike = [
        words.get(name, name) for name, value in declared.items() if content.get(name) != value
    ]
    if unlike:
        raise ValueError(
            f"{folder}: has a table with another {', '.join(unlike)}; convert to a new folder"
        )


class _Writer:
    """A folder in the making: its chunks so far, and the rows of the next one."""

    def __init__(
        self, folder: Path, declared: Mapping[str, Any], capacity: int | None, rows_per_chunk: int
    ):
        self._folder, self._declared = folder, declared
        self._capacity, self._each = capacity, rows_per_chunk
        self._chunks: list[chunks.Chunk] = []
        self._known: list[chunks.Chunk] = []
        self._whole = False
        self._weighted: bool | None = None
        self._open: Rows | None = None
        self._filled = 0

    @property
    def rows(self) -> int:
        """How many rows of the source the finished chunks have."""
        return sum(chunk.rows for chunk in self._chunks)

    def open(self) -> None:
        """Begin the folder, or find the chunks that it has; what a kill left is removed.

        Raises:
            ValueError: for a folder with other files, or of another conversion.
            OSError: if it cannot be written.
        """
        storage.remove_all_left(self._folder, f"{chunks.PREFIX}*")
        for name in (chunks.UNFINISHED, chunks.MANIFEST):
            storage.remove_left(self._folder / name)
        self._whole = (self._folder / chunks.MANIFEST).exists()
        state = self._folder / (chunks.MANIFEST if self._whole else chunks.UNFINISHED)
        if not state.exists():
            if any(not path.name.startswith(".") for path in self._folder.iterdir()):
                raise ValueError(f"{self._folder}: the folder has other files; give a new one")
            self._write(chunks.UNFINISHED)
            return
        content = chunks.read_json(state)
        if not content["chunks"]:  # nothing is lost by another declaration
            self._write(chunks.UNFINISHED)
            return
        _check_same(self._folder, content, self._declared)
        self._weighted = content["weighted"]
        self._known = [chunks.Chunk(*entry) for entry in content["chunks"]]
        if self._declared["source"] is None:
            return  # the rows alone say whether they are the same
        filled = [number for number, chunk in enumerate(self._known) if chunk.present]
        self._chunks = self._known[: filled[-1] if filled else 0]

    def give_up(self) -> None:
        """Delete the state, so that nothing goes on with these chunks."""
        (self._folder / chunks.UNFINISHED).unlink(missing_ok=True)

    def add(self, rows: Rows) -> None:
        """Add rows, and write each chunk that is full.

        Raises:
            ValueError: for more rows than the capacity.
        """
        self._same_kind(rows)
        start, count = 0, len(rows.present)
        while start < count:
            most = self._each
            if self._capacity is not None:
                most = min(most, self._capacity - self.rows)
            if most <= self._filled:
                raise ValueError(
                    f"there are more rows than the capacity of {self._capacity}; convert to a new "
                    "folder with a larger one"
                )
            if self._open is None:
                features, dtype = len(rows.cells), str(rows.target.dtype)
                self._open = chunks.room(features, most, dtype, bool(self._weighted))
            part = min(count - start, most - self._filled)
            here, there = slice(self._filled, self._filled + part), slice(start, start + part)
            for mine, given in zip(self._open, rows, strict=True):
                if mine is not None and given is not None:
                    mine[..., here] = given[..., there]
            self._filled += part
            start += part
            if self._filled == self._each:
                self._flush(self._each)

    def close(self, empty: Rows) -> None:
        """Write the last chunks, absent rows up to the capacity, and the manifest.

        Raises:
            ValueError: for a table without a row and without a capacity, and for rows that changed
                since the conversion was stopped.
        """
        self._same_kind(empty)
        capacity = self._capacity
        if capacity is None:
            capacity = self.rows + self._filled
        if capacity == 0:
            raise ValueError("a table needs a row, or a capacity")
        if capacity > MOST_CHUNKED_ROWS:
            raise ValueError(f"a table has at most {MOST_CHUNKED_ROWS} rows, and this has more")
        for rows in chunks.sizes(capacity, self._each)[len(self._chunks) :]:
            if self._open is None:
                features, dtype = len(empty.cells), str(empty.target.dtype)
                self._open = chunks.room(features, rows, dtype, bool(self._weighted))
            self._flush(rows)
        if len(self._chunks) < len(self._known):
            raise self._changed()
        self._write(chunks.MANIFEST, capacity)
        (self._folder / chunks.UNFINISHED).unlink(missing_ok=True)

    def _same_kind(self, rows: Rows) -> None:
        """Note whether rows have weights; ValueError if some have and some have not."""
        weighted = rows.weight is not None
        if not len(rows.present) and self._weighted is not None:
            return
        if self._weighted is None:
            self._weighted = weighted
        if weighted != self._weighted:
            raise ValueError("all blocks must have weights, or none")

    def _flush(self, rows: int) -> None:
        """Write the open chunk, or compare it with that of a conversion that was stopped.

        Raises:
            ValueError: if its rows are other ones.
        """
        assert self._open is not None
        cells, target, present, weight = self._open
        weight = None if weight is None else weight[:rows]
        cut = Rows(cells[:, :rows], target[:rows], present[:rows], weight)
        views, digest = chunks.bytes_of(cut), hashlib.sha256()
        for view in views:
            digest.update(view)

        def write(path: Path) -> None:
            with open(path, "wb") as file:
                for view in views:
                    file.write(view)

        number, present = len(self._chunks), int(np.count_nonzero(cut.present))
        chunk = chunks.Chunk(rows, present, digest.hexdigest())
        known = self._known[number : number + 1]
        if known != [chunk] and (known or self._whole):
            raise self._changed()
        if not known:
            path = self._folder / chunks.chunk_name(number)
            write_whole(path, write, mode=0o600, durable=True)
        self._chunks.append(chunk)
        self._open, self._filled = None, 0
        if not known:
            self._write(chunks.UNFINISHED)

    def _changed(self) -> ValueError:
        return ValueError(
            f"{self._folder}: the rows changed since they were converted; convert to a new folder"
        )

    def _write(self, name: str, capacity: int | None = None) -> None:
        """Write the manifest, or the state of an unfinished conversion."""
        content = {
            **self._declared,
            "capacity": capacity,
            "weighted": self._weighted,
            "chunks": [list(chunk) for chunk in self._chunks],
        }
        content["checksum"] = checksum(content)
        text = chunks.as_text(content)
        path = self._folder / name
        write_whole(path, lambda part: part.write_bytes(text), mode=0o600, durable=True)
