"""Storage: what files may hold, files that are written whole or not at all, and locks. No JAX.

The content of files is JSON text with types of msgspec. Errors name the place of an entry and never
its value. Entries that a type does not name are ignored. A checksum detects accidents, such as a
lost byte. It is no signature: whoever edits a file can compute another one.
"""

import contextlib
import errno
import glob
import hashlib
import json
import os
import re
import secrets
import shutil
import sqlite3
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from dpbt.public_types import MAX_ROWS_IN_BLOCKS

LOCK_FILE_NAME = ".running"
"""The name of the file that keeps other runs out of a folder."""

_TEMPORARY_PREFIX = ".dpbt-"
"""How the name of a temporary file begins. No file of a person's has such a name."""

_NUM_RANDOM_LETTERS = 8
"""How many random letters the name of a temporary file has."""

_MAX_NAME_BYTES = 100
"""The longest name that a temporary name repeats.

Systems take names of 143 or 255 bytes, and a temporary name is longer than what it repeats.
"""

_MAX_SUFFIX_BYTES = 20
"""The longest suffix that a temporary name repeats."""

_NUM_TRIAL_BYTES = 2**16
"""How many bytes `check_can_write` writes, which a full disk does not take."""


def write_atomically(
    path: Path,
    write: Callable[[Path], object],
    *,
    mode: int = 0o666,
    durable: bool = False,
    replace: bool = True,
) -> None:
    """Write a file whole or not at all: to a temporary name, and then rename it.

    `write` is called on the temporary name, which is beside `path`. A file that exists keeps its
    permissions. While it is written, its owner alone may read it. If the process is killed, the
    temporary file stays, and `remove_temporary_files_beside` removes it.

    A link stays, and the file that it names is written. A pipe, a device and an open file of this
    process, such as /dev/stdout, are no files to replace: they get the content of a temporary file.

    Args:
        path: the file, which is replaced if it exists.
        write: writes the content to the path it is called with.
        mode: the permissions of a new file, of which the umask takes some; 0o600 for what is
            private.
        durable: whether the file and its name are on the disk when this returns.
        replace: whether a file that exists is replaced; a FileExistsError otherwise, also for a
            link.

    Raises:
        OSError: naming `path`, if the disk does not take the file, for example because it is full.
            What was at `path` before is still there.
    """
    target = path
    if replace:
        if is_stream(path):
            _write_to_stream(path, write)
            return
        target = _resolve_links(path)
    temporary = _temporary_path(target)
    with name_path_in_errors(path, str(target.parent)):
        target.parent.mkdir(parents=True, exist_ok=True)
    with name_path_in_errors(path, str(temporary)), contextlib.ExitStack() as stack:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
        stack.callback(temporary.unlink, missing_ok=True)
        final_mode = stat.S_IMODE((target if target.exists() else temporary).stat().st_mode)
        os.chmod(temporary, 0o600)
        write(temporary)
        os.chmod(temporary, final_mode)
        if durable:
            _sync_to_disk(temporary)
        (os.replace if replace else os.link)(temporary, target)
        if durable:
            _sync_to_disk(target.parent)


def check_can_write(path: Path) -> None:
    """Check that a file can be written to a path, and leave nothing behind.

    All that `write_atomically` needs is tried. A full disk, a folder that takes no file, a name
    that is too long and a pipe without a right to write are found, before anything is paid for what
    will be written.

    Raises:
        OSError: naming `path`, with the reason.
    """
    if is_stream(path):
        with name_path_in_errors(path, replaces_any_name=True), _temporary_folder():
            if not _may_write_to_stream(path):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return
    target = _resolve_links(path)
    temporary = _temporary_path(target)
    folder = target.parent
    with name_path_in_errors(path, replaces_any_name=True), contextlib.ExitStack() as stack:
        status = _status_if_exists(target)  # which refuses a name that is too long
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
        for parent in reversed(missing):
            parent.mkdir()
            stack.callback(_remove_empty_folder, parent)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        stack.callback(temporary.unlink, missing_ok=True)
        with open(handle, "wb") as file:
            file.write(bytes(_NUM_TRIAL_BYTES))
        if status is not None and not _may_be_replaced(status, folder.stat()):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))


def _may_be_replaced(status: os.stat_result, folder_status: os.stat_result) -> bool:
    """Whether this user may replace a file by name.

    In a folder such as /tmp only owners may.
    """
    if os.name != "posix" or not folder_status.st_mode & stat.S_ISVTX:
        return True
    return os.geteuid() in (0, status.st_uid, folder_status.st_uid)


def _temporary_path(path: Path) -> Path:
    """Make a new temporary name beside a file.

    A long name is repeated by its hash.
    """
    parts = _temporary_name_parts(path)
    letters = secrets.token_hex(_NUM_RANDOM_LETTERS // 2)
    return path.with_name(f"{_TEMPORARY_PREFIX}{parts.stem}-{letters}{parts.suffix}")


class _NameParts(NamedTuple):
    """The stem and the suffix that a temporary name repeats of the name of a file."""

    stem: str
    suffix: str


def _temporary_name_parts(path: Path) -> _NameParts:
    """The parts of a file's name that its temporary names repeat."""
    name = os.fsencode(path.name)
    if len(name) <= _MAX_NAME_BYTES:
        return _NameParts(path.stem, path.suffix)
    return _NameParts(hashlib.sha256(name).hexdigest()[:16], short_suffix(path))


def short_suffix(path: Path) -> str:
    """The suffix of a file, or an empty text if it is long.

    Writers know the format by it.
    """
    return path.suffix if len(os.fsencode(path.suffix)) <= _MAX_SUFFIX_BYTES else ""


def _remove_empty_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # somebody else uses it by now
        folder.rmdir()


# Links, pipes and devices.


def _status_if_exists(path: Path) -> os.stat_result | None:
    """The status of what a path names, through links, or None if nothing is there.

    Raises:
        OSError: for a name that is too long, and for links in a circle.
    """
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _resolve_links(path: Path) -> Path:
    """The file that a path names through links.

    It may not be there yet.

    Raises:
        OSError: naming the path, for links in a circle.
    """
    if not path.is_symlink():
        return path
    with name_path_in_errors(path, replaces_any_name=True):
        _status_if_exists(path)
    return Path(os.path.realpath(path))


def is_stream(path: Path) -> bool:
    """Whether a path names a pipe, a device or an open file, which cannot be replaced.

    What it names is written as it is.
    """
    if descriptor_of_path(path) is not None:
        return True
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


_FOLDERS_OF_DESCRIPTORS = re.compile(r"/dev/fd|/proc/(?:self|thread-self|\d+)(?:/task/\d+)?/fd")
_MAX_LINKS = 40


def descriptor_of_path(path: Path) -> int | None:
    """The number of the open file of this process that a path names, or None.

    /dev/stdout names one. To open such a path anew would begin at the start of a file that a shell
    redirected, and to replace it would leave the shell with the former file.
    """
    for _ in range(_MAX_LINKS):
        folder = os.path.realpath(path.parent)
        if path.name.isdecimal() and _FOLDERS_OF_DESCRIPTORS.fullmatch(folder):
            of_process = re.match(r"/proc/(\d+)", folder)
            is_own = of_process is None or int(of_process[1]) == os.getpid()
            return int(path.name) if is_own else None
        if not path.is_symlink():
            return None
        path = Path(folder) / os.readlink(path)
    return None


def _may_write_to_stream(path: Path) -> bool:
    """Whether this process may write to a pipe, a device or an open file.

    It never may to a socket.
    """
    descriptor = descriptor_of_path(path)
    if descriptor is None:
        return not path.is_socket() and os.access(path, os.W_OK)
    try:
        import fcntl

        access = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
    except ImportError:
        return True
    return access != os.O_RDONLY


def _write_to_stream(path: Path, write: Callable[[Path], object]) -> None:
    """Write to a pipe, a device or an open file, by a copy of a temporary file.

    Raises:
        OSError: naming the path.
    """
    descriptor = descriptor_of_path(path)
    with name_path_in_errors(path, replaces_any_name=True), _temporary_folder() as folder:
        content = folder / f"content{short_suffix(path)}"
        write(content)
        for stream in (sys.stdout, sys.stderr):  # what was printed before comes first
            if descriptor is not None and stream is not None:
                stream.flush()
        handle = os.open(path, os.O_WRONLY) if descriptor is None else os.dup(descriptor)
        with open(handle, "wb") as stream, open(content, "rb") as file:
            shutil.copyfileobj(file, stream)


@contextlib.contextmanager
def _temporary_folder() -> Iterator[Path]:
    """A scope with a temporary folder that only its owner can read.

    The folder is gone after the block.
    """
    with tempfile.TemporaryDirectory(prefix="dpbt-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def remove_temporary_files(folder: Path, pattern: str) -> None:
    """Remove the temporary files that killed calls of `write_atomically` left in a folder.

    No other process may be writing such files now.

    Args:
        folder: where the files are.
        pattern: the pattern of the files' names, as `Path.glob` reads it. The files themselves
            stay.
    """
    for leftover in folder.glob(_TEMPORARY_PREFIX + pattern):
        leftover.unlink(missing_ok=True)


def remove_temporary_files_beside(path: Path) -> None:
    """Remove the temporary file that a killed call of `write_atomically` left beside a file.

    No other process may be writing the file now.
    """
    target = _resolve_links(path)
    stem, suffix = map(glob.escape, _temporary_name_parts(target))
    remove_temporary_files(target.parent, f"{stem}-{'?' * _NUM_RANDOM_LETTERS}{suffix}")


@contextlib.contextmanager
def name_path_in_errors(
    path: Path, temporary: str | None = None, *, replaces_any_name: bool = False
) -> Iterator[None]:
    """A scope in which errors of the disk name a path, instead of no file or a temporary one.

    Args:
        path: the file that the caller asked for.
        temporary: the name of the temporary file.
        replaces_any_name: whether the path stands in place of every other name.

    Raises:
        OSError: with `path`, in place of an error without a name or with the temporary one.
    """
    try:
        yield
    except OSError as error:
        is_other_file = not replaces_any_name and error.filename not in (None, temporary)
        if error.errno is None or is_other_file:
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
    """A scope that keeps other runs out of a folder.

    On a system without `flock` nothing keeps them out. The system releases the lock when a process
    ends, however it ends. File systems over a network may not keep such locks. A lock whose file
    was removed meanwhile keeps nobody out, so the lock is taken again.

    Raises:
        ValueError: naming the folder, if another run is at work in it.
        OSError: if the file of the lock cannot be written.
    """
    lock = folder / LOCK_FILE_NAME
    is_locked = False
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
    """A scope that raises errors of SQLite as those of a disk, a file in use or a damaged file.

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
    """The error that refuses a file or a folder which another run holds."""
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


def convert_json_content(kind: type[T], content: object, description: str) -> T:
    """Convert JSON content, or its text, to a type of msgspec, and refuse what is not of it.

    The type is a `msgspec.Struct`, for example.

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
        reason, _, path_of_entry = str(error).partition(" - at ")
        if not reason.startswith(("Expected", "Object missing")):
            reason = "Invalid value"  # msgspec's other messages show the value
        location = f" at {path_of_entry}" if path_of_entry else ""
        message = f"{reason}{location}".replace("`", "")
        raise ValueError(f"{description} has a malformed entry: {message}") from None
    except (UnicodeError, TypeError, ArithmeticError, RecursionError):  # content of a hostile file
        raise ValueError(f"{description} has a malformed entry") from None


def replace_equal_entries(content: Any, old: object, new: object) -> Any:
    """Replace each entry of JSON content that equals `old` by `new`."""
    if isinstance(content, Mapping):
        return {name: replace_equal_entries(entry, old, new) for name, entry in content.items()}
    if isinstance(content, list | tuple):
        return [replace_equal_entries(entry, old, new) for entry in content]
    return new if content == old else content


def parse_json(text: bytes, description: str) -> Any:
    """Parse JSON text, and refuse an object in which a name occurs twice.

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
            object_pairs_hook=_dict_refusing_repeated_names,
            parse_constant=_refuse_non_json_number,
        )
    except UnicodeDecodeError:  # its message would show a byte, perhaps of a private file
        raise ValueError(f"{description} holds bytes that are no text") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{description} is no JSON, or cut off: {error}") from None


def _refuse_non_json_number(name: str) -> None:
    """Refuse a number such as NaN, which `json.loads` would read.

    Raises:
        ValueError: naming the number.
    """
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
    """Read a file that `encode_record` wrote, and check its format and its checksum.

    Args:
        kind: the type of the content, as `convert_json_content` takes it.
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
        is_object = isinstance(content, dict)
        checksum = sha256_of_json_without_checksum(content) if is_object else None
        is_intact = is_object and content.get("checksum") == checksum
    except ValueError:  # also raised by the checksum, for content that it takes no sum of
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
    return convert_json_content(kind, content, f"{path}: {description}")


def encode_record(content: msgspec.Struct, *, format_name: str, format_version: int) -> bytes:
    """Encode content as JSON text with a format, a version and a checksum.

    It is the text of a file that `read_record` reads.

    Raises:
        ValueError: as `sha256_of_json_without_checksum`.
    """
    plain = {
        "format": format_name,
        "format_version": format_version,
        **msgspec.to_builtins(content),
    }
    return json.dumps({**plain, "checksum": sha256_of_json_without_checksum(plain)}).encode("ascii")


def sha256_of_json_without_checksum(content: Mapping[str, Any]) -> str:
    """The SHA-256 of JSON content without its entry "checksum".

    It is that of the text without blanks. The order of names counts, because the order of a
    domain's columns does.

    Raises:
        ValueError: for numbers that are infinite or NaN, and for content that is nested deeply.
    """
    summed = {name: value for name, value in content.items() if name != "checksum"}
    try:
        text = json.dumps(summed, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError):
        raise ValueError("a number is infinite or NaN, or it is nested too deeply") from None
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _dict_refusing_repeated_names(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dictionary of a JSON object, and refuse a name that occurs twice.

    Raises:
        ValueError: if a name occurs twice, as JSON would drop the first of them.
    """
    entries: dict[str, Any] = {}
    for name, value in pairs:
        if name in entries:
            raise ValueError(f"{name!r} occurs twice in one object")
        entries[name] = value
    return entries
