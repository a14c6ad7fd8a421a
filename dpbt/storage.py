"""Storage: files that are written whole or not at all, and objects that hold functions."""

import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self


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
    path: Path, write: Callable[[Path], object], *, mode: int = 0o644, durable: bool = False
) -> None:
    """Call `write` on a temporary name beside `path`, then rename it: no file is half-written.

    Args:
        path: the file, which is replaced if it exists.
        write: writes the content to the path it is called with.
        mode: the permissions of the file.
        durable: whether the file and its name are on the disk when this returns.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    try:
        write(Path(name))
        os.chmod(name, mode)
        if durable:
            _to_disk(Path(name))
        os.replace(name, path)
        if durable:
            _to_disk(path.parent)
    finally:
        Path(name).unlink(missing_ok=True)


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
