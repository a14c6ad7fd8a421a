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


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` on a temporary name beside `path`, then rename it: no file is half-written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    try:
        write(Path(name))
        os.chmod(name, 0o644)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


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
