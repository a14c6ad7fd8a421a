"""Storage of objects that hold functions."""

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
