"""Storage: what files may hold, files that are written whole or not at all, and locks. No JAX.

The content of files is JSON text with types of msgspec. Errors name the place of an entry and never
its value. Entries that a type does not name are not looked at. A checksum finds accidents, such as
a lost byte. It is no signature: whoever edits a file can compute another one.
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

LOCK = ".running"
"""The name of the file that keeps other runs out of a folder."""


_MARK = ".dpbt-"
"""How the name of a file begins while it is written. No file of a person's is called so."""

_RANDOM = 8
"""How many random letters such a name has."""


def write_whole(
    path: Path,
    write: Callable[[Path], object],
    *,
    mode: int = 0o666,
    durable: bool = False,
    replace: bool = True,
) -> None:
    """Call `write` on a temporary name beside `path`, then rename it: no file is half-written.

    A file that exists keeps its permissions. While it is written, its owner alone may read it. What
    a kill leaves has a name that `remove_leftover` knows.

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
    name = path.with_name(f"{_MARK}{path.stem}-{secrets.token_hex(_RANDOM // 2)}{path.suffix}")
    with name_in_errors(path, str(path.parent)):
        path.parent.mkdir(parents=True, exist_ok=True)
    with name_in_errors(path, str(name)), contextlib.ExitStack() as stack:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
        stack.callback(name.unlink, missing_ok=True)
        final = stat.S_IMODE((path if path.exists() else name).stat().st_mode)
        os.chmod(name, 0o600)
        write(name)
        os.chmod(name, final)
        if durable:
            _to_disk(name)
        (os.replace if replace else os.link)(name, path)
        if durable:
            _to_disk(path.parent)


def remove_leftovers(folder: Path, pattern: str) -> None:
    """Remove what kills left in a folder of files that `write_whole` was writing.

    Nobody else may be writing such files now.

    Args:
        folder: where the files are.
        pattern: of the files' names, as `Path.glob` reads it; none of them is removed itself.
    """
    for left in folder.glob(_MARK + pattern):
        left.unlink(missing_ok=True)


def remove_leftover(path: Path) -> None:
    """Remove what a kill left beside a file that `write_whole` was writing.

    Nobody else may be writing the file now.
    """
    name = f"{glob.escape(path.stem)}-{'?' * _RANDOM}{glob.escape(path.suffix)}"
    remove_leftovers(path.parent, name)


@contextlib.contextmanager
def name_in_errors(path: Path, temporary: str | None = None) -> Iterator[None]:
    """Let errors of the disk name the file that a person asked for.

    Raises:
        OSError: with that name, in place of one without a name or of a temporary one.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, temporary):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def _to_disk(path: Path) -> None:
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
    """Keep other runs out of a folder. A system without `flock` keeps nobody out.

    The system releases the lock when a process ends, however it ends. File systems over a network
    may not keep such locks. A lock whose file was removed meanwhile holds off nobody, so another is
    taken.

    Raises:
        ValueError: naming the folder, if another run is at work in it.
        OSError: if the file of the lock cannot be written.
    """
    lock, ours = folder / LOCK, False
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            import fcntl

            while not ours:
                file = stack.enter_context(open(lock, "ab"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                ours = lock.exists() and os.path.samestat(os.fstat(file.fileno()), lock.stat())
            stack.callback(lock.unlink, missing_ok=True)
        except ImportError:
            pass
        except BlockingIOError:
            raise is_in_use(folder) from None
        yield


@contextlib.contextmanager
def database_errors(path: Path, damaged: Callable[[Path, Exception], ValueError]) -> Iterator[None]:
    """Errors of SQLite as those of a disk, of a file that another run holds, or of a damaged one.

    Raises:
        ValueError: of `damaged`, or as `is_in_use`.
        OSError: naming the file, for errors of a disk.
    """
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code == sqlite3.SQLITE_BUSY:
            raise is_in_use(path) from None
        if isinstance(error, sqlite3.OperationalError) and code != sqlite3.SQLITE_ERROR:
            raise OSError(f"{path}: {error}") from error
        raise damaged(path, error) from error


def is_in_use(path: Path) -> ValueError:
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


def decode(kind: type[T], content: object, what: str) -> T:
    """The content as a type of msgspec, such as a `msgspec.Struct`.

    Args:
        kind: the type.
        content: bytes of JSON text, or what `parse` made of them.
        what: the content is, in words for errors.

    Raises:
        ValueError: saying what is wrong and where, for content that is not of the type. Values are
            not shown, and neither are names in mappings. Also as `parse`.
    """
    if isinstance(content, bytes):
        content = parse(content, what)
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        wrong, _, place = str(error).partition(" - at ")
        if not wrong.startswith(("Expected", "Object missing")):
            wrong = "Invalid value"  # the other messages show it
        words = f"{wrong}{place and ' at '}{place}".replace("`", "")
        raise ValueError(f"{what} has a malformed entry: {words}") from None
    except (UnicodeError, TypeError, ArithmeticError, RecursionError):  # for odd content
        raise ValueError(f"{what} has a malformed entry") from None


def replace_words(content: Any, old: object, new: object) -> Any:
    """JSON content with another entry in place of each that equals `old`."""
    if isinstance(content, Mapping):
        return {name: replace_words(entry, old, new) for name, entry in content.items()}
    if isinstance(content, list | tuple):
        return [replace_words(entry, old, new) for entry in content]
    return new if content == old else content


def parse(text: bytes, what: str) -> Any:
    """JSON content, in which no name occurs twice in one object.

    Integers have at most 4,300 digits (`sys.set_int_max_str_digits`).

    Raises:
        ValueError: with a reason of one line, for any other text.
    """
    try:
        return json.loads(
            text.decode("utf-8"), object_pairs_hook=_without_twins, parse_constant=_no_constant
        )
    except UnicodeDecodeError:  # whose words would show a byte, perhaps of a file given by mistake
        raise ValueError(f"{what} holds bytes that are no text") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is no JSON, or cut off: {error}") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def open_record(kind: type[T], path: Path, name: str, version: int, what: str, again: str) -> T:
    """What a file with a format, a version and a checksum holds.

    Args:
        kind: the type, as `decode` takes it.
        path: of the file.
        name: of the format.
        version: of the format, and of no other.
        what: the file is of, in words.
        again: what to do if it is damaged.

    Raises:
        ValueError: naming the path and the reason, for any other file.
        OSError: if it cannot be read.
    """
    try:
        content = parse(path.read_bytes(), what)
        same = isinstance(content, dict) and content.get("checksum") == checksum(content)
    except ValueError:  # also for numbers or lists of which no checksum is made
        raise ValueError(f"{path}: not {what}, or cut off; {again}") from None
    known = {"format": name, "format_version": version}
    if not isinstance(content, dict) or known != {field: content.get(field) for field in known}:
        raise ValueError(f"{path}: not {what} in format {version}, which this dpbt reads")
    if not same:
        raise ValueError(f"{path}: the file was changed or damaged: another checksum; {again}")
    return decode(kind, content, f"{path}: {what}")


def seal_record(content: msgspec.Struct, name: str, version: int) -> bytes:
    """The text of a file that `open_record` reads: content with a format, a version and a checksum.

    Raises:
        ValueError: as `checksum`.
    """
    plain = {"format": name, "format_version": version, **msgspec.to_builtins(content)}
    return json.dumps({**plain, "checksum": checksum(plain)}).encode("ascii")


def checksum(content: Mapping[str, Any]) -> str:
    """The SHA-256 of the content without its checksum, as JSON text without blanks.

    The order of names counts, because the order of a domain's columns does.

    Raises:
        ValueError: for numbers that are infinite or NaN, and for content that is nested deeply.
    """
    rest = {name: value for name, value in content.items() if name != "checksum"}
    try:
        text = json.dumps(rest, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError):
        raise ValueError("a number is infinite or NaN, or it is nested too deeply") from None
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _without_twins(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as a dictionary.

    Raises:
        ValueError: if a name occurs twice, as JSON would drop the first of them.
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} occurs twice in one object")
        found[name] = value
    return found
