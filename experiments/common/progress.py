"""Progress on standard error: a bar on a terminal, and elsewhere at most a line a minute."""

import sys
import time
from typing import Any, Protocol, Self

from tqdm import tqdm

SECONDS_BETWEEN_LINES = 60.0
"""The shortest time between two lines."""


class Progress(Protocol):
    """A counter of units of work, which is a context that ends with the work."""

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: Any, error: Any, traceback: Any, /) -> Any: ...

    def update(self, n: int = 1) -> Any:
        """Count `n` more units."""

    def set_description(self, desc: str) -> Any:
        """Set the words that name the current work."""


class _Lines:
    """Progress as lines, for logs and pipes; none if `quiet`."""

    def __init__(self, total: int | None, unit: str, desc: str, quiet: bool):
        self.total, self.unit, self.desc, self.quiet = total, unit, desc, quiet
        self.count, self.last = 0, time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any, /) -> None:
        pass

    def update(self, n: int = 1) -> None:
        self.count += n
        now = time.monotonic()
        if self.quiet or now - self.last < SECONDS_BETWEEN_LINES:
            return
        self.last = now
        of_total = "" if self.total is None else f" of {self.total}"
        name = f"{self.desc}: " if self.desc else ""
        print(f"{name}{self.count}{of_total} {self.unit}s", file=sys.stderr, flush=True)

    def set_description(self, desc: str) -> None:
        self.desc = desc


def progress(
    total: int | None, unit: str, desc: str = "", quiet: bool = False, **options: Any
) -> Progress:
    """Count `total` units of work on standard error.

    Args:
        total: how many units there are, or None if that is not known.
        unit: the name of one of them.
        desc: the words that name the current work.
        quiet: print nothing.
        options: further options of tqdm, for a bar on a terminal.
    """
    if quiet or not sys.stderr.isatty():
        return _Lines(total, unit, desc, quiet)
    return tqdm(total=total, unit=unit, desc=desc or None, file=sys.stderr, **options)
