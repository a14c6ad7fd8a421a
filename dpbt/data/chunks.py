"""Tables on disk, in chunks of rows: what is larger than memory is read a chunk at a time.

A folder holds one table, encoded as `dpbt.table` encodes it. `conversion` writes it once, and every
fit reads it in passes. The folder is as private as the rows: only its owner may read it (mode
0700). It has these files:

- `manifest.json`: the public declarations, the chunks with the SHA-256 of each, and a checksum of
  its own. It is written last, so a folder without it is unfinished.
- `chunk-000000` and so on: the rows of a chunk, one array after the other: cells u8[F, n], target,
  present and, where rows have weights, weight f32[n]. Each column lies in one piece, so a pass
  reads those columns alone that it asks.

A checksum finds accidents. It is no signature.
"""

import dataclasses
import hashlib
import io
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpbt import modelfiles
from dpbt.data import domains, targets
from dpbt.data.domains import Domain
from dpbt.data.targets import Target
from dpbt.modelfiles import checksum
from dpbt.privacy.entries import ANY, DIGITS, NULL, TRUTH, Kind, check, either, whole
from dpbt.public import MAX_ROWS, MOST_CHUNKED_ROWS, Questions, without_values
from dpbt.validate import as_path, shown

FORMAT, VERSION = "dpbt chunks", 1

MANIFEST = "manifest.json"
UNFINISHED = "unfinished.json"
PREFIX = "chunk-"

AGAIN = "convert the same rows again, to a new folder"
"""What to do about a damaged folder. A run that was stopped goes on with the new one."""

ROWS_PER_CHUNK = 2**20
"""How many rows a chunk has by default."""

_TARGETS = {"bool": np.bool_, "uint8": np.uint8, "float32": np.float32}


class Chunk(NamedTuple):
    """One file of a folder.

    Attributes:
        rows: how many rows it has room for; public.
        present: how many of them are present; private.
        sha256: of the file; private, as it tells guesses of the rows apart.
    """

    rows: int
    present: int
    sha256: str

    __repr__ = without_values


class Rows(NamedTuple):
    """Room for rows of a chunk, as they are read from its file. On a CPU, JAX reads it in place.

    Attributes:
        cells: u8[F, n].
        target: bool[n], u8[n] or f32[n].
        present: bool[n].
        weight: f32[n], or None.
    """

    cells: np.ndarray
    target: np.ndarray
    present: np.ndarray
    weight: np.ndarray | None

    __repr__ = without_values


def room(features: int, rows: int, target: str, weighted: bool) -> Rows:
    """Zeros in the shape of rows of a chunk: absent rows."""
    return Rows(
        _zeros((features, rows), np.uint8),
        _zeros((rows,), _TARGETS[target]),
        _zeros((rows,), np.bool_),
        _zeros((rows,), np.float32) if weighted else None,
    )


_ALIGNMENT = 64
"""Where arrays begin at a multiple of so many bytes, JAX reads them in place on a CPU."""


def _zeros(shape: tuple[int, ...], dtype: type[np.generic]) -> np.ndarray:
    """Zeros that JAX does not copy."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    return memory[first : first + size].view(dtype).reshape(shape)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ChunkedTable:
    """A table in a folder of chunks, as `open_folder` finds it. The rows stay on the disk.

    Attributes:
        folder: where it is.
        domain: the public domain.
        target: the declared classes or range; None for two classes.
        capacity: N, how many rows the table has room for; public.
        rows_per_chunk: how many rows each chunk has, but for the last.
        dtype: of the targets: "bool", "uint8" or "float32".
        weighted: whether rows have weights.
        chunks: the files; private.
        checksum: of the manifest.
        content: the manifest, without its checksum.
    """

    folder: Path
    domain: Domain
    target: Target | None
    capacity: int
    rows_per_chunk: int
    dtype: str
    weighted: bool
    chunks: tuple[Chunk, ...]
    checksum: str
    content: Mapping[str, Any]
    _verified: dict[int, tuple[int, int]] = dataclasses.field(default_factory=dict, init=False)

    def __repr__(self) -> str:
        return f"ChunkedTable({str(self.folder)!r}, capacity={self.capacity}, rows not shown)"

    @property
    def features(self) -> int:
        """F, how many columns the domain has."""
        return len(self.domain)

    @property
    def questions(self) -> Questions:
        """What may be asked of the cells."""
        return domains.questions(self.domain)

    @property
    def identity(self) -> str:
        """A hash that names the rows and what was declared of them; private.

        It does not depend on where the rows came from, so the same rows that are converted again
        have it, too.
        """
        return checksum({name: self.content[name] for name in self.content if name != "source"})

    @property
    def declared(self) -> str:
        """What was declared of the rows, as text: domain, target and weights; public."""
        names = ("domain", "target", "classes", "weighted", "most_weight", "class_weight")
        public = {name: self.content[name] for name in names}
        return json.dumps(public, sort_keys=True)

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The words of the classes, of two the negative first; None for a number."""
        words = self.content["classes"]
        return None if words is None else tuple(words)

    def has_domain(self, domain: Domain) -> bool:
        """Whether the rows were encoded by a domain: by the same columns in the same order."""
        return list(self.domain.items()) == list(domain.items())

    def path(self, number: int) -> Path:
        """The file of a chunk."""
        return self.folder / chunk_name(number)

    def room(self, rows: int) -> Rows:
        """Room for rows of this table."""
        return room(self.features, rows, self.dtype, self.weighted)

    def read(
        self, number: int, first: int, rows: int, into: Rows, columns: Sequence[int] | None = None
    ) -> None:
        """Read some rows of a chunk to the beginning of `into`. What follows becomes absent.

        Once `verify` has compared the chunk, its file must keep its size and the time of its last
        change. A change that restores both is not seen, nor is one through mapped memory before the
        system notes it.

        Args:
            number: of the chunk.
            first: its first row that is read.
            rows: how many are read.
            into: room for at least so many rows, from `room`.
            columns: the columns of the domain that are read; None for all. The others keep what
                `into` held.

        Raises:
            ValueError: naming the file, if it ends too early or changed since it was verified.
            OSError: if it cannot be read.
        """
        with open(self.path(number), "rb", buffering=0) as file:
            places = _places(self.chunks[number].rows, self.features, self.dtype, self.weighted)
            for column in range(self.features) if columns is None else columns:
                start = self.chunks[number].rows * int(column) + first
                self._fill(file, start, into.cells[int(column), :rows])
            for name, (place, size) in places.items():
                array = getattr(into, name)
                self._fill(file, place + first * size, array[:rows])
            if self._verified.get(number, _state(file)) != _state(file):
                raise ValueError(f"{file.name}: the file changed while it was read; {AGAIN}")
        into.present[rows:] = False

    def blocks(self, rows: int) -> Iterator[Rows]:
        """All rows in their order, absent ones too, in blocks that hold at most `rows` rows.

        Each chunk is compared with its checksum before its first block. A block is valid until the
        next one is read.

        Raises:
            ValueError: naming a chunk that is not what its manifest says, or that changes.
            OSError: if a chunk cannot be read.
        """
        kept = self.room(min(rows, self.rows_per_chunk))
        for number, chunk in enumerate(self.chunks):
            self.verify(number)
            for first in range(0, chunk.rows, rows):
                count = min(rows, chunk.rows - first)
                self.read(number, first, count, kept)
                cells, target, present, weight = kept
                own = None if weight is None else weight[:count]
                yield Rows(cells[:, :count], target[:count], present[:count], own)

    def _fill(self, file: io.FileIO, place: int, array: np.ndarray) -> None:
        file.seek(place)
        view = array.data.cast("B")
        while view:
            count = file.readinto(view)
            if not count:
                raise ValueError(f"{file.name}: the file is shorter than its manifest says")
            view = view[count:]

    def verify(self, number: int) -> None:
        """Check that the file of a chunk is the one that was written, and note its state.

        Raises:
            ValueError: naming the file, if it is another one or missing.
            OSError: if it cannot be read.
        """
        path = self.path(number)
        try:
            with open(path, "rb", buffering=0) as file:
                state = _state(file)  # before, so that `read` sees a change meanwhile
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            raise ValueError(f"{path}: the file is missing; {AGAIN}") from None
        if found != self.chunks[number].sha256:
            raise ValueError(f"{path}: the file was changed or damaged; {AGAIN}")
        self._verified[number] = state


def _state(file: io.FileIO) -> tuple[int, int]:
    """The size of a file, and when it was changed."""
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns


def chunk_name(number: int) -> str:
    """The name of the file of a chunk."""
    return f"{PREFIX}{number:06d}"


def _places(rows: int, features: int, target: str, weighted: bool) -> dict[str, tuple[int, int]]:
    """Where target, present and weight begin in the file of a chunk, and the bytes of an entry."""
    sizes = {"target": np.dtype(_TARGETS[target]).itemsize, "present": 1}
    if weighted:
        sizes["weight"] = 4
    places, place = {}, features * rows
    for name, size in sizes.items():
        places[name] = place, size
        place += size * rows
    return places


def bytes_of(rows: Rows) -> list[memoryview]:
    """The arrays of a chunk as its file has them, one after the other."""
    arrays = [rows.cells, rows.target, rows.present]
    if rows.weight is not None:
        arrays.append(rows.weight)
    return [np.ascontiguousarray(array).data.cast("B") for array in arrays]


def open_folder(folder: str | Path) -> ChunkedTable:
    """The table of a folder that `dpbt convert` or `conversion` wrote.

    Reads the manifest alone. `dpbt.fit_chunks` compares every chunk with its checksum.

    Raises:
        ValueError: naming the folder, if it is unfinished, damaged, or of another format, or has
            chunks and no manifest.
        OSError: if the manifest cannot be read.
    """
    folder = as_path("folder", folder)
    path = folder / MANIFEST
    if not path.exists() and (folder / UNFINISHED).exists():
        raise ValueError(f"{folder}: the conversion is not finished; run it again to go on")
    if not path.exists() and (folder / chunk_name(0)).exists():
        raise ValueError(f"{path}: the file is missing; {AGAIN}")
    if folder.is_dir() and not path.exists():
        raise ValueError(f"{folder}: no folder that `dpbt convert` wrote, as it has no {MANIFEST}")
    content = read_json(path)
    try:
        return _opened(folder, content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def read_json(path: Path) -> dict[str, Any]:
    """The content of a manifest without its checksum, which has been compared.

    Raises:
        ValueError: naming the file.
        OSError: if it cannot be read.
    """
    return modelfiles.own(path, path.read_bytes(), FORMAT, VERSION, "a table in chunks", AGAIN)


def as_text(content: Mapping[str, Any]) -> bytes:
    """The content of a manifest as JSON."""
    return json.dumps(content, indent=1, allow_nan=False).encode("ascii") + b"\n"


def _is_chunk(value: Any) -> bool:
    """Whether a list holds the rows, the present rows and the hash of a chunk."""
    if not isinstance(value, list) or len(value) != len(Chunk._fields):
        return False
    kinds = whole(MAX_ROWS), whole(MAX_ROWS, 0), DIGITS
    return all(kind.good(entry) for kind, entry in zip(kinds, value, strict=True))


_CONTENT = {
    "domain": {},
    "classes": Kind("words", lambda value: value is None or isinstance(value, list)),
    "weighted": either(TRUTH, NULL),
    "chunks": [Kind("rows, present rows and a hash", _is_chunk)],
    **dict.fromkeys(("target", "capacity", "rows_per_chunk", "most_weight", "class_weight"), ANY),
}


def _opened(folder: Path, content: Mapping[str, Any]) -> ChunkedTable:
    """The table of a checked manifest; ValueError without the name of the file."""
    check("the manifest", content, _CONTENT)
    domain = {
        name: domains.column_from_json(name, entry) for name, entry in content["domain"].items()
    }
    declared = content["target"]
    target = None
    if declared is not None:
        column = domains.column_from_json("target", declared)
        target = targets.check(column)
    chunks = tuple(Chunk(*entry) for entry in content["chunks"])
    capacity, each = checked_sizes(content["capacity"], content["rows_per_chunk"])
    count = -(-capacity // each)
    if len(chunks) != count or [chunk.rows for chunk in chunks] != sizes(capacity, each):
        raise ValueError("the chunks are not those of its capacity")
    return ChunkedTable(
        folder=folder,
        domain=domain,
        target=target,
        capacity=capacity,
        rows_per_chunk=each,
        dtype=targets.response_of(target).dtype,
        weighted=bool(content["weighted"]),
        chunks=chunks,
        checksum=content["checksum"],
        content=content,
    )


def checked_sizes(capacity: Any, rows_per_chunk: Any) -> tuple[int, int]:
    """(capacity, rows_per_chunk), if they are whole numbers in their ranges.

    Raises:
        ValueError: naming the one that is not.
    """
    for name, value, most in (
        ("capacity", capacity, MOST_CHUNKED_ROWS),
        ("rows_per_chunk", rows_per_chunk, MAX_ROWS),
    ):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or not 1 <= value <= most:
            raise ValueError(
                f"{name} must be an integer of at least 1 and at most {most}, got {shown(value)}"
            )
    return int(capacity), int(rows_per_chunk)


def sizes(capacity: int, rows_per_chunk: int) -> list[int]:
    """How many rows each chunk has room for."""
    whole, rest = divmod(capacity, rows_per_chunk)
    return [rows_per_chunk] * whole + [rest] * (rest > 0)
