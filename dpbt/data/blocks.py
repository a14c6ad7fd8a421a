"""Tables on disk, in blocks of rows, for rows that do not fit in memory.

A folder holds one table, encoded as `dpbt.table` encodes it. `convert` writes it once, and every
fit reads it in passes. The folder is as private as the rows: only its owner may read it (mode
0700). It has these files:

- `manifest.json`: the public declarations, the blocks with the SHA-256 of each, and a checksum of
  its own. It is written last, so a folder without it is not yet a table.
- `block-000000` and so on: the rows of a block, one array after the other: bins u8[F, n], target,
  present and, where rows have weights, weight f32[n]. The cells of a column are contiguous, so a
  pass reads only the columns that it needs.

A checksum detects accidental changes. It is not a signature.
"""

import dataclasses
import hashlib
import io
import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple, Self

import msgspec
import numpy as np
from msgspec import Meta

from dpbt.common.storage import Digits, read_record
from dpbt.common.validate import as_path
from dpbt.data import column_types, domains
from dpbt.data.column_types import Target
from dpbt.data.domains import Domain, Label
from dpbt.public_types import MAX_ROWS, MAX_ROWS_IN_BLOCKS, Splits, redacted_repr

FORMAT, VERSION = "dpbt blocks", 2

MANIFEST = "manifest.json"
PREFIX = "block-"

CONVERT_AGAIN_ADVICE = "convert the same rows again, to a new folder"
"""How to repair a damaged folder. A stopped run resumes with the new folder."""

ROWS_PER_BLOCK = 2**20
"""The default number of rows of a block."""

_RowCount = Annotated[int, Meta(ge=0, le=MAX_ROWS)]


class Block(NamedTuple):
    """One file of a folder of blocks: its number of rows and its hash.

    Attributes:
        rows: the number of rows, absent ones too; public.
        present: how many of them are present; private.
        sha256: the hash of the file; private, as it confirms a guess of the rows.
    """

    rows: _RowCount
    present: _RowCount
    sha256: Digits

    __repr__ = redacted_repr


class Manifest(msgspec.Struct):
    """The content of the manifest, the file that describes a folder of blocks.

    All of it is public but the blocks and the checksum.

    Attributes:
        domain: the declared columns.
        label: the declared labels, weights and users.
        weighted: whether rows have weights.
        class_weight: the weights of classes by their words; None without.
        capacity: N, the number of rows, absent ones too.
        rows_per_block: the number of rows of each block but the last.
        blocks: the files; private.
        checksum: the checksum of all other fields; private.
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


class BlockRows(NamedTuple):
    """Rows of a block, column by column, or a buffer to read them into.

    On a CPU, JAX reads the arrays in place.

    Attributes:
        bins: u8[F, n].
        target: bool[n], u8[n] or f32[n].
        present: bool[n].
        weight: f32[n]; None if all rows weigh the same.
    """

    bins: np.ndarray
    target: np.ndarray
    present: np.ndarray
    weight: np.ndarray | None

    __repr__ = redacted_repr

    def slice(self, start: int, stop: int | None = None) -> "BlockRows":
        """A view of the rows from `start` up to `stop`."""
        return BlockRows._make(None if array is None else array[..., start:stop] for array in self)


def absent_rows(*, features: int, rows: int, dtype: str, weighted: bool) -> BlockRows:
    """New rows of a block that are all absent.

    All arrays are zeros.

    Args:
        features: F, the number of columns of bins.
        rows: n, the number of rows.
        dtype: the dtype of the targets.
        weighted: whether rows have weights.
    """
    return BlockRows(
        bins=_aligned_zeros((features, rows), "uint8"),
        target=_aligned_zeros((rows,), dtype),
        present=_aligned_zeros((rows,), "bool"),
        weight=_aligned_zeros((rows,), "float32") if weighted else None,
    )


_ALIGNMENT = 64
"""JAX on a CPU reads an array in place if its address is a multiple of so many bytes."""


def _aligned_zeros(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """An array of zeros, aligned so that JAX reads it without a copy."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    return memory[first : first + size].view(dtype).reshape(shape)


class FileState(NamedTuple):
    """The size and the time of the last change of a file.

    A later change of the file is noticed by them.

    Attributes:
        size: in bytes.
        modified_ns: the time of its last change, in nanoseconds.
    """

    size: int
    modified_ns: int

    @classmethod
    def of_stat(cls, stat: os.stat_result) -> Self:
        """The state of a file from the result of `os.stat`."""
        return cls(stat.st_size, stat.st_mtime_ns)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class BlockTable:
    """A table in a folder of blocks, whose rows stay on the disk.

    `open_folder` opens it.

    Attributes:
        folder: the path of the folder.
        manifest: the content of its manifest.
        domain: the public domain.
        target: the declared classes or range; None for two classes.
        capacity: N, the number of rows, absent ones too; public.
    """

    folder: Path
    manifest: Manifest
    domain: Domain
    target: Target | None
    capacity: int
    _verified: dict[int, FileState] = dataclasses.field(default_factory=dict, init=False)

    def __repr__(self) -> str:
        return f"BlockTable({str(self.folder)!r}, capacity={self.capacity}, rows not shown)"

    @property
    def blocks(self) -> list[Block]:
        """The files of the folder in order, with their hashes; private."""
        return self.manifest.blocks

    @property
    def features(self) -> int:
        """F, the number of columns of the domain."""
        return len(self.domain)

    @property
    def rows_per_user(self) -> int | None:
        """The largest number of present rows of one user.

        It is None for rows without ids of users.
        """
        user = self.manifest.label.user
        return None if user is None else user.max_rows

    @property
    def splits(self) -> Splits:
        """The splits and attributes of the bins."""
        return domains.splits(self.domain)

    @property
    def identity(self) -> str:
        """A hash of the rows and of their declarations; private.

        It does not depend on the source of the rows, so converting the same rows again gives the
        same hash.
        """
        return self.manifest.checksum

    @property
    def public_declarations_json(self) -> str:
        """The declarations of the domain, the label and the weights as JSON text.

        They are public.
        """
        content = self.manifest
        names = ("domain", "label", "weighted", "class_weight")
        return json.dumps(msgspec.to_builtins([getattr(content, name) for name in names]))

    def has_domain(self, domain: Domain) -> bool:
        """Whether the rows were encoded by this domain: the same columns in the same order."""
        return list(self.domain.items()) == list(domain.items())

    def block_path(self, number: int) -> Path:
        """The path of the file of block `number`."""
        return self.folder / block_name(number)

    def new_absent_rows(self, rows: int) -> BlockRows:
        """A new buffer of absent rows, of the form of this table's rows.

        `read_rows` reads rows into it.
        """
        return absent_rows(
            features=self.features,
            rows=rows,
            dtype=column_types.response_of_target(self.target).target_dtype,
            weighted=self.manifest.weighted,
        )

    def read_rows(
        self,
        block_number: int,
        *,
        first: int,
        count: int,
        into: BlockRows,
        columns: Sequence[int] | None = None,
    ) -> None:
        """Read rows of a block into the first rows of a buffer.

        All other rows of the buffer are marked as absent.

        Once `verify_block` has compared the block, its file must keep its size and the time of its
        last change. A change that restores both is not noticed, nor is one through mapped memory
        before the system notes it.

        Args:
            block_number: the number of the block.
            first: the first row to read, counted within the block.
            count: the number of rows to read.
            into: the buffer, of at least `count` rows, from `absent_rows`.
            columns: the columns of the domain to read; None for all. The others keep their values
                in the buffer.

        Raises:
            ValueError: naming the file, if it ends too early or changed since it was verified.
            OSError: if it cannot be read.
        """
        block_rows = self.blocks[block_number].rows
        with open(self.block_path(block_number), "rb") as file:
            for column in range(self.features) if columns is None else columns:
                offset = block_rows * int(column) + first
                _read_array_at(file, offset, into.bins[int(column), :count])
            offset = block_rows * self.features
            for array in into[1:]:
                if array is not None:
                    _read_array_at(file, offset + first * array.itemsize, array[:count])
                    offset += block_rows * array.itemsize
            state = FileState.of_stat(os.fstat(file.fileno()))
            if self._verified.get(block_number, state) != state:
                raise ValueError(
                    f"{file.name}: the file changed while it was read; {CONVERT_AGAIN_ADVICE}"
                )
        into.present[count:] = False

    def iter_rows(self, max_rows: int) -> Iterator[BlockRows]:
        """All rows in their order, in pieces of at most `max_rows` rows.

        Absent rows are among them.

        Each block is compared with its checksum before its first piece. A piece is valid until the
        next one is read.

        Raises:
            ValueError: naming a block that is not what its manifest says, or that changes.
            OSError: if a block cannot be read.
        """
        buffer = self.new_absent_rows(min(max_rows, self.manifest.rows_per_block))
        for number, block in enumerate(self.blocks):
            self.verify_block(number)
            for first in range(0, block.rows, max_rows):
                count = min(max_rows, block.rows - first)
                self.read_rows(number, first=first, count=count, into=buffer)
                yield buffer.slice(0, count)

    def verify_block(self, number: int) -> None:
        """Compare the file of a block with its checksum, and record the state of the file.

        Raises:
            ValueError: naming the file, if it differs or is missing.
            OSError: if it cannot be read.
        """
        path = self.block_path(number)
        try:
            with open(path, "rb") as file:
                # Before the hash, so that `read_rows` notices a change meanwhile.
                state = FileState.of_stat(os.fstat(file.fileno()))
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            raise ValueError(f"{path}: the file is missing; {CONVERT_AGAIN_ADVICE}") from None
        if digest != self.blocks[number].sha256:
            raise ValueError(f"{path}: the file was changed or damaged; {CONVERT_AGAIN_ADVICE}")
        self._verified[number] = state


def _read_array_at(file: io.BufferedReader, offset: int, array: np.ndarray) -> None:
    """Fill an array with the bytes of a file, from an offset on.

    Raises:
        ValueError: if the file has too few bytes.
    """
    file.seek(offset)
    if file.readinto(array.data.cast("B")) < array.nbytes:
        raise ValueError(f"{file.name}: the file is shorter than its manifest says")


def block_name(number: int) -> str:
    """The name of the file of block `number`."""
    return f"{PREFIX}{number:06d}"


def open_folder(folder: str | Path) -> BlockTable:
    """Open the table in a folder that `dpbt convert` or `dpbt.convert` wrote.

    It reads the manifest alone. A fit compares every block with its checksum.

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
        remedy=CONVERT_AGAIN_ADVICE,
    )
    if not manifest.domain:
        raise ValueError(f"{path}: a domain needs at least one column")
    sizes = [block.rows for block in manifest.blocks]
    full_size = manifest.rows_per_block
    are_full = all(size == full_size for size in sizes[:-1])
    if sum(sizes) != manifest.capacity or not are_full or not 0 < sizes[-1] <= full_size:
        raise ValueError(f"{path}: the blocks are not those of its capacity")
    return BlockTable(
        folder=folder,
        manifest=manifest,
        domain=manifest.domain,
        target=manifest.label.target,
        capacity=manifest.capacity,
    )
