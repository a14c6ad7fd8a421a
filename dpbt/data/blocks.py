"""Tables on disk, in blocks of rows: what is larger than memory is read a part at a time.

A folder holds one table, encoded as `dpbt.table` encodes it. `convert` writes it once, and every
fit reads it in passes. The folder is as private as the rows: only its owner may read it (mode
0700). It has these files:

- `manifest.json`: the public declarations, the blocks with the SHA-256 of each, and a checksum of
  its own. It is written last, so a folder without it is no table yet.
- `block-000000` and so on: the rows of a block, one array after the other: bins u8[F, n], target,
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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from dpbt.common.storage import Digits, read_record
from dpbt.common.validate import as_path
from dpbt.data import domains, kinds
from dpbt.data.domains import Domain, Label
from dpbt.data.kinds import Target
from dpbt.public_types import MAX_ROWS, MAX_ROWS_IN_BLOCKS, Splits, redacted_repr

FORMAT, VERSION = "dpbt blocks", 2

MANIFEST = "manifest.json"
PREFIX = "block-"

AGAIN = "convert the same rows again, to a new folder"
"""What to do about a damaged folder. A run that was stopped goes on with the new one."""

ROWS_PER_BLOCK = 2**20
"""How many rows a block has by default."""

_Rows = Annotated[int, Meta(ge=0, le=MAX_ROWS)]


class Block(NamedTuple):
    """One file of a folder.

    Attributes:
        rows: how many rows it has room for; public.
        present: how many of them are present; private.
        sha256: of the file; private, as it tells guesses of the rows apart.
    """

    rows: _Rows
    present: _Rows
    sha256: Digits

    __repr__ = redacted_repr


class Manifest(msgspec.Struct):
    """The content of the manifest. Its public part is what was declared, and the capacity.

    Attributes:
        domain: the public columns.
        label: what labels and weights may be.
        weighted: whether rows have weights.
        class_weight: the public weights of classes.
        capacity: N, how many rows the table has room for.
        rows_per_block: how many rows each block has, but for the last.
        blocks: the files; private.
        checksum: of all of this.
    """

    domain: dict[str, domains.Column]
    label: Label
    weighted: bool
    class_weight: list[tuple[str, float]] | None
    capacity: Annotated[int, Meta(ge=1, le=MAX_ROWS_IN_BLOCKS)]
    rows_per_block: Annotated[int, Meta(ge=1, le=MAX_ROWS)]
    blocks: list[Block]
    checksum: str = ""

    def __repr__(self) -> str:
        return f"Manifest(capacity={self.capacity}, rows not shown)"


class Rows(NamedTuple):
    """Room for rows of a block, as they are read from its file. On a CPU, JAX reads it in place.

    Attributes:
        bins: u8[F, n].
        target: bool[n], u8[n] or f32[n].
        present: bool[n].
        weight: f32[n], or None.
    """

    bins: np.ndarray
    target: np.ndarray
    present: np.ndarray
    weight: np.ndarray | None

    __repr__ = redacted_repr

    def slice(self, start: int, stop: int | None = None) -> "Rows":
        """Some of the rows, where they are."""
        return Rows._make(None if array is None else array[..., start:stop] for array in self)


def empty_rows(features: int, rows: int, dtype: str, weighted: bool) -> Rows:
    """Zeros in the shape of rows of a block: absent rows."""
    weight = _zeros((rows,), "float32") if weighted else None
    bins = _zeros((features, rows), "uint8")
    return Rows(bins, _zeros((rows,), dtype), _zeros((rows,), "bool"), weight)


_ALIGNMENT = 64
"""Where arrays begin at a multiple of so many bytes, JAX reads them in place on a CPU."""


def _zeros(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Zeros that JAX does not copy."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    return memory[first : first + size].view(dtype).reshape(shape)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class BlockTable:
    """A table in a folder of blocks, as `open_folder` finds it. The rows stay on the disk.

    Attributes:
        folder: where it is.
        manifest: what it says.
        domain: the public domain.
        target: the declared classes or range; None for two classes.
        capacity: N, how many rows the table has room for; public.
    """

    folder: Path
    manifest: Manifest
    domain: Domain
    target: Target | None
    capacity: int
    _verified: dict[int, tuple[int, int]] = dataclasses.field(default_factory=dict, init=False)

    def __repr__(self) -> str:
        return f"BlockTable({str(self.folder)!r}, capacity={self.capacity}, rows not shown)"

    @property
    def blocks(self) -> list[Block]:
        """The files; private."""
        return self.manifest.blocks

    @property
    def features(self) -> int:
        """F, how many columns the domain has."""
        return len(self.domain)

    @property
    def rows_per_user(self) -> int | None:
        """How many rows of each user are present at most; None for rows without ids of users."""
        user = self.manifest.label.user
        return None if user is None else user.most

    @property
    def splits(self) -> Splits:
        """What may be asked of the bins."""
        return domains.splits(self.domain)

    @property
    def identity(self) -> str:
        """A hash that names the rows and what was declared of them; private.

        It does not depend on where the rows came from, so the same rows that are converted again
        have it, too.
        """
        return self.manifest.checksum

    @property
    def declared(self) -> str:
        """What was declared of the rows, as text: domain, label and weights; public."""
        content, names = self.manifest, ("domain", "label", "weighted", "class_weight")
        return json.dumps(msgspec.to_builtins([getattr(content, name) for name in names]))

    def has_domain(self, domain: Domain) -> bool:
        """Whether the rows were encoded by a domain: by the same columns in the same order."""
        return list(self.domain.items()) == list(domain.items())

    def path(self, number: int) -> Path:
        """The file of a block."""
        return self.folder / block_name(number)

    def room(self, rows: int) -> Rows:
        """Room for rows of this table."""
        dtype = kinds.response_of(self.target).dtype
        return empty_rows(self.features, rows, dtype, self.manifest.weighted)

    def read(
        self, number: int, first: int, rows: int, into: Rows, columns: Sequence[int] | None = None
    ) -> None:
        """Read some rows of a block to the beginning of `into`. What follows becomes absent.

        Once `verify` has compared the block, its file must keep its size and the time of its last
        change. A change that restores both is not seen, nor is one through mapped memory before the
        system notes it.

        Args:
            number: of the block.
            first: its first row that is read.
            rows: how many are read.
            into: room for at least so many rows, from `empty_rows`.
            columns: the columns of the domain that are read; None for all. The others keep what
                `into` held.

        Raises:
            ValueError: naming the file, if it ends too early or changed since it was verified.
            OSError: if it cannot be read.
        """
        each = self.blocks[number].rows
        with open(self.path(number), "rb") as file:
            for column in range(self.features) if columns is None else columns:
                _read_into(file, each * int(column) + first, into.bins[int(column), :rows])
            place = each * self.features
            for array in into[1:]:
                if array is not None:
                    _read_into(file, place + first * array.itemsize, array[:rows])
                    place += each * array.itemsize
            if self._verified.get(number, _file_state(file)) != _file_state(file):
                raise ValueError(f"{file.name}: the file changed while it was read; {AGAIN}")
        into.present[rows:] = False

    def pieces(self, rows: int) -> Iterator[Rows]:
        """All rows in their order, absent ones too, in pieces of at most `rows` rows.

        Each block is compared with its checksum before its first piece. A piece is valid until the
        next one is read.

        Raises:
            ValueError: naming a block that is not what its manifest says, or that changes.
            OSError: if a block cannot be read.
        """
        kept = self.room(min(rows, self.manifest.rows_per_block))
        for number, block in enumerate(self.blocks):
            self.verify(number)
            for first in range(0, block.rows, rows):
                count = min(rows, block.rows - first)
                self.read(number, first, count, kept)
                yield kept.slice(0, count)

    def verify(self, number: int) -> None:
        """Check that the file of a block is the one that was written, and note its state.

        Raises:
            ValueError: naming the file, if it is another one or missing.
            OSError: if it cannot be read.
        """
        path = self.path(number)
        try:
            with open(path, "rb") as file:
                state = _file_state(file)  # before, so that `read` sees a change meanwhile
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            raise ValueError(f"{path}: the file is missing; {AGAIN}") from None
        if found != self.blocks[number].sha256:
            raise ValueError(f"{path}: the file was changed or damaged; {AGAIN}")
        self._verified[number] = state


def _read_into(file: io.BufferedReader, place: int, array: np.ndarray) -> None:
    """Read an array from a place of a file."""
    file.seek(place)
    if file.readinto(array.data.cast("B")) < array.nbytes:
        raise ValueError(f"{file.name}: the file is shorter than its manifest says")


def _file_state(file: io.BufferedReader) -> tuple[int, int]:
    """The size of a file, and when it was changed."""
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns


def block_name(number: int) -> str:
    """The name of the file of a block."""
    return f"{PREFIX}{number:06d}"


def open_folder(folder: str | Path) -> BlockTable:
    """The table of a folder that `dpbt convert` or `dpbt.convert` wrote.

    Reads the manifest alone. A fit compares every block with its checksum.

    Raises:
        ValueError: naming the folder, if it has no manifest, or a damaged one or one of another
            format.
        OSError: if the manifest cannot be read.
    """
    folder = as_path("folder", folder)
    path = folder / MANIFEST
    if folder.is_dir() and not path.exists():
        raise ValueError(
            f"{folder}: no table in blocks, as it has no {MANIFEST}, which `dpbt convert` writes "
            "last; convert the rows again"
        )
    manifest = read_record(
        Manifest,
        path,
        format_name=FORMAT,
        format_version=VERSION,
        description="a table in blocks",
        remedy=AGAIN,
    )
    if not manifest.domain:
        raise ValueError(f"{path}: a domain needs at least one column")
    rows, each = [block.rows for block in manifest.blocks], manifest.rows_per_block
    if sum(rows) != manifest.capacity or {*rows[:-1], each} != {each} or not 0 < rows[-1] <= each:
        raise ValueError(f"{path}: the blocks are not those of its capacity")
    return BlockTable(folder, manifest, manifest.domain, manifest.label.target, manifest.capacity)
