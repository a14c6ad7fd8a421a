"""Storage: files that are written whole or not at all, locks, and objects that hold functions."""

import contextlib
import glob
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self

LOCK = ".running"
"""The name of the file that keeps other runs out of a folder."""


_MARK = ".dpbt-"
"""How the name of a file begins while it is written. No file of a person's is called so."""

_RANDOM = 8
"""How many random letters such a name has."""


class HoldsFunctions:
    """Base of immutable classes that hold functions, which pickle does not store.

    Pickling one raises a TypeError that says what to keep instead. A copy is the object itself.
    """

    _keep: ClassVar[str]

    def __reduce__(self) -> NoReturn:
        name = type(self).__name__.lower()
        raise TypeError(f"a {name} holds functions and cannot be pickled; keep {self._keep}")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        del memo
        return self


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
    a kill leaves has a name that `remove_left` knows.

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
    with naming(path, str(path.parent)):
        path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path, str(name)), contextlib.ExitStack() as stack:
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


def remove_all_left(folder: Path, pattern: str) -> None:
    """Remove what kills left in a folder of files that `write_whole` was writing.

    Nobody else may be writing such files now.

    Args:
        folder: where the files are.
        pattern: of the files' names, as `Path.glob` reads it; none of them is removed itself.
    """
    for left in folder.glob(_MARK + pattern):
        left.unlink(missing_ok=True)


def remove_left(path: Path) -> None:
    """Remove what a kill left beside a file that `write_whole` was writing.

    Nobody else may be writing the file now.
    """
    name = f"{glob.escape(path.stem)}-{'?' * _RANDOM}{glob.escape(path.suffix)}"
    remove_all_left(path.parent, name)


@contextlib.contextmanager
def naming(path: Path, temporary: str | None = None) -> Iterator[None]:
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
def locked(lock: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock that one process or thread at a time can hold.

    The system releases the lock when a process ends, however it ends. File systems over a network
    may not keep such locks. A lock whose file was removed meanwhile holds off nobody, so another is
    taken.

    Args:
        lock: the file of the lock, which is made if there is none.
        wait: wait until nobody else holds the lock.

    Raises:
        BlockingIOError: if somebody else holds it, and `wait` is false.
        ImportError: on a system without `flock`.
        OSError: if the file of the lock cannot be written.
    """
    import fcntl

    lock.parent.mkdir(parents=True, exist_ok=True)
    mode = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
    while True:
        with open(lock, "ab") as file:
            fcntl.flock(file, mode)
            if lock.exists() and os.path.samestat(os.fstat(file.fileno()), lock.stat()):
                yield
                return


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder. A system without `flock` keeps nobody out.

    Raises:
        ValueError: naming the folder, if another run is at work in it.
        OSError: if the file of the lock cannot be written.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / LOCK, wait=False))
            stack.callback((folder / LOCK).unlink, missing_ok=True)
        except ImportError:
            pass
        except BlockingIOError:
            raise in_use(folder) from None
        yield


def in_use(folder: Path) -> ValueError:
    """The refusal of a folder that another run holds."""
    return ValueError(
        f"another run is at work in {folder}; wait until it has ended, or use another folder"
    )


def without_twins(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
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
