"""Storage: what files may hold, files that are written whole or not at all, and locks. No JAX.

The content of files is JSON text with types of msgspec. Errors name the place of an entry and never
its value. Entries that a type does not name are ignored. A checksum detects accidents, such as a
lost byte. It is no signature: whoever edits a file can compute another one.
"""

import contextlib
import glob
import hashlib
import json
import os
import secrets
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from dpbt.public_types import MAX_ROWS_IN_BLOCKS

LOCK_FILE_NAME = ".running"
"""The name of the file that keeps other runs out of a folder."""

_TEMPORARY_PREFIX = ".dpbt-"
"""How the name of a temporary file begins. No file of a person's has such a name."""

_NUM_RANDOM_LETTERS = 8
"""How many random letters the name of a temporary file has."""


def write_atomically(
    path: Path,
    write: Callable[[Path], object],
    *,
    mode: int = 0o666,
    durable: bool = False,
    replace: bool = True,
) -> None:
    """Call `write` on a temporary name beside `path`, then rename it: no file is half-written.

    A file that exists keeps its permissions. While it is written, its owner alone may read it. If
    the process is killed, the temporary file stays, and `remove_leftover` removes it.

    Args:
        path: the file, which is replaced if it exists.
        write: writes the content to the path it is called with.
        mode: the permissions of a new file, of which the umask takes some; 0o600 for what is
            private.
        durable: whether the file and its name are on the disk when this returns.
        replace: whether a file that exists is replaced; a FileExistsError otherwise.

    Raises:
        OSError: naming `path`, if the disk does not take the file, for example because it is full.
            What was at `path` before is still there.
    """
    letters = secrets.token_hex(_NUM_RANDOM_LETTERS // 2)
    temporary = path.with_name(f"{_TEMPORARY_PREFIX}{path.stem}-{letters}{path.suffix}")
    with name_path_in_errors(path, str(path.parent)):
        path.parent.mkdir(parents=True, exist_ok=True)
    with name_path_in_errors(path, str(temporary)), contextlib.ExitStack() as stack:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
        stack.callback(temporary.unlink, missing_ok=True)
        final_mode = stat.S_IMODE((path if path.exists() else temporary).stat().st_mode)
        os.chmod(temporary, 0o600)
        write(temporary)
        os.chmod(temporary, final_mode)
        if durable:
            _sync_to_disk(temporary)
        (os.replace if replace else os.link)(temporary, path)
        if durable:
            _sync_to_disk(path.parent)


def remove_leftovers(folder: Path, pattern: str) -> None:
    """Remove the temporary files that killed calls of `write_atomically` left in a folder.

    No other process may be writing such files now.

    Args:
        folder: where the files are.
        pattern: the pattern of the files' names, as `Path.glob` reads it. The files themselves
            stay.
    """
    for leftover in folder.glob(_TEMPORARY_PREFIX + pattern):
        leftover.unlink(missing_ok=True)


def remove_leftover(path: Path) -> None:
    """Remove the temporary file that a killed call of `write_atomically` left beside a file.

    No other process may be writing the file now.
    """
    pattern = f"{glob.escape(path.stem)}-{'?' * _NUM_RANDOM_LETTERS}{glob.escape(path.suffix)}"
    remove_leftovers(path.parent, pattern)


@contextlib.contextmanager
def name_path_in_errors(path: Path, temporary: str | None = None) -> Iterator[None]:
    """Let errors of the disk name a path, instead of no file or a temporary one.

    Args:
        path: the file that the caller asked for.
        temporary: the name of the temporary file.

    Raises:
        OSError: with `path`, in place of an error without a name or with the temporary one.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, temporary):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def _sync_to_disk(path: Path) -> None:
    """Wait until the disk has a file, or the names in a folder.

    Raises:
        OSError: if the disk does not take them.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder; on a system without `flock` nothing keeps them out.

    The system releases the lock when a process ends, however it ends. File systems over a network
    may not keep such locks. A lock whose file was removed meanwhile keeps nobody out, so the lock
    is taken again.

    Raises:
        ValueError: naming the folder, if another run is at work in it.
        OSError: if the file of the lock cannot be written.
    """
    lock, is_locked = folder / LOCK_FILE_NAME, False
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            import fcntl

            while not is_locked:
                file = stack.enter_context(open(lock, "ab"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_locked = lock.exists() and os.path.samestat(os.fstat(file.fileno()), lock.stat())
            stack.callback(lock.unlink, missing_ok=True)
        except ImportError:
            pass
        except BlockingIOError:
            raise in_use_error(folder) from None
        yield


@contextlib.contextmanager
def translate_database_errors(
    path: Path, damaged_file_error: Callable[[Path, Exception], ValueError]
) -> Iterator[None]:
    """Raise an error of SQLite as that of a disk, of a file in use, or of a damaged file.

    Args:
        path: the path of the database.
        damaged_file_error: (path, error of SQLite) -> the error to raise for a damaged file.

    Raises:
        ValueError: that of `damaged_file_error`, or of `in_use_error` if another run holds the
            database.
        OSError: naming the file, for errors of a disk.
    """
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code == sqlite3.SQLITE_BUSY:
            raise in_use_error(path) from None
        if isinstance(error, sqlite3.OperationalError) and code != sqlite3.SQLITE_ERROR:
            raise OSError(f"{path}: {error}") from error
        raise damaged_file_error(path, error) from error


def in_use_error(path: Path) -> ValueError:
    """The refusal of a file or a folder that another run holds."""
    return ValueError(f"another run is at work in {path}; wait until it has ended")


T = TypeVar("T")

Count = Annotated[int, Meta(ge=1, le=2**62)]
"""A whole number of at least 1."""

Digits = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", max_length=64)]
"""256 bits in hexadecimal digits."""

Fraction = Annotated[float, Meta(ge=0, le=1)]
"""A number in 0..1."""

Number = Annotated[float, Meta(ge=0, le=1e100)]
"""A number of at least 0, whose square is finite."""

Rows = Annotated[int, Meta(ge=1, le=MAX_ROWS_IN_BLOCKS)]
"""A number of rows, or a bound on it."""

RowsOfPerson = Annotated[int, Meta(ge=1, le=2**31 - 1)]
"""The most rows that one person has."""


def decode(kind: type[T], content: object, description: str) -> T:
    """Convert JSON content to a type of msgspec, such as a `msgspec.Struct`.

    Args:
        kind: the type.
        content: bytes of JSON text, or the content that `parse_json` returned for them.
        description: what the content is, in words for errors.

    Raises:
        ValueError: saying what is wrong and where, for content that is not of the type. The message
            shows no values and no names in mappings. Also as `parse_json`.
    """
    if isinstance(content, bytes):
        content = parse_json(content, description)
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at ")
        if not reason.startswith(("Expected", "Object missing")):
            reason = "Invalid value"  # msgspec's other messages show the value
        message = f"{reason}{place and ' at '}{place}".replace("`", "")
        raise ValueError(f"{description} has a malformed entry: {message}") from None
    except (UnicodeError, TypeError, ArithmeticError, RecursionError):  # content of a hostile file
        raise ValueError(f"{description} has a malformed entry") from None


def replace_entries(content: Any, old: object, new: object) -> Any:
    """JSON content in which `new` stands in place of each entry that equals `old`."""
    if isinstance(content, Mapping):
        return {name: replace_entries(entry, old, new) for name, entry in content.items()}
    if isinstance(content, list | tuple):
        return [replace_entries(entry, old, new) for entry in content]
    return new if content == old else content


def parse_json(text: bytes, description: str) -> Any:
    """The content of JSON text in which no name occurs twice in one object.

    Integers have at most 4,300 digits (`sys.set_int_max_str_digits`).

    Args:
        text: in UTF-8.
        description: what the text is, in words for errors.

    Raises:
        ValueError: with a reason of one line, for any other text.
    """
    try:
        return json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_object_of_distinct_names,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError:  # its message would show a byte, perhaps of a private file
        raise ValueError(f"{description} holds bytes that are no text") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{description} is no JSON, or cut off: {error}") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def read_record(
    kind: type[T],
    path: Path,
    *,
    format_name: str,
    format_version: int,
    description: str,
    remedy: str,
) -> T:
    """Read a file that `encode_record` wrote, after a check of its format and its checksum.

    Args:
        kind: the type of the content, as `decode` takes it.
        path: the path of the file.
        format_name: the name that the file must state.
        format_version: the only version that is read.
        description: what the file holds, in words for errors.
        remedy: what a person can do if the file is damaged.

    Raises:
        ValueError: naming the path and the reason, for any other file.
        OSError: if the file cannot be read.
    """
    try:
        content = parse_json(path.read_bytes(), description)
        is_intact = isinstance(content, dict) and content.get("checksum") == checksum(content)
    except ValueError:  # `checksum` raises it, too, for content that it takes no sum of
        raise ValueError(f"{path}: not {description}, or cut off; {remedy}") from None
    expected = {"format": format_name, "format_version": format_version}
    if not isinstance(content, dict) or any(
        content.get(field) != value for field, value in expected.items()
    ):
        raise ValueError(
            f"{path}: not {description} in format {format_version}, which this dpbt reads"
        )
    if not is_intact:
        raise ValueError(f"{path}: the file was changed or damaged: another checksum; {remedy}")
    return decode(kind, content, f"{path}: {description}")


def encode_record(content: msgspec.Struct, *, format_name: str, format_version: int) -> bytes:
    """The text of a file that `read_record` reads: content with a format, a version and a checksum.

    Raises:
        ValueError: as `checksum`.
    """
    plain = {
        "format": format_name,
        "format_version": format_version,
        **msgspec.to_builtins(content),
    }
    return json.dumps({**plain, "checksum": checksum(plain)}).encode("ascii")


def checksum(content: Mapping[str, Any]) -> str:
    """The SHA-256 of JSON content as text without blanks; the entry "checksum" is left out.

    The order of names counts, because the order of a domain's columns does.

    Raises:
        ValueError: for numbers that are infinite or NaN, and for content that is nested deeply.
    """
    summed = {name: value for name, value in content.items() if name != "checksum"}
    try:
        text = json.dumps(summed, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError):
        raise ValueError("a number is infinite or NaN, or it is nested too deeply") from None
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _object_of_distinct_names(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as a dictionary.

    Raises:
        ValueError: if a name occurs twice, as JSON would drop the first of them.
    """
    entries: dict[str, Any] = {}
    for name, value in pairs:
        if name in entries:
            raise ValueError(f"{name!r} occurs twice in one object")
        entries[name] = value
    return entries
