"""Reports of how far a run is, on standard error: one line on a terminal, a few lines in a log.

A report contains public numbers alone: a stage, and how much of it is done. The seconds are those
of the reader's own clock, so they are shown on a terminal alone, in a line that is erased at the
end.
"""

import contextlib
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple, TextIO


class Progress(NamedTuple):
    """How far a run is: its stage, and how much of that is done.

    All of it is public.

    Attributes:
        stage: what is done, such as "checking" the blocks, "prologue", "rounds" or "epilogue".
        done: how much of the stage is done.
        total: how much the stage is in all; 0 if undeclared.
    """

    stage: str
    done: int = 0
    total: int = 0

    def __str__(self) -> str:
        return f"{self.stage}: {self.done} of {self.total}" if self.total else f"{self.stage} ..."

    @property
    def num_log_lines(self) -> int:
        """The number of lines that a log has for the stage until now.

        The one for its start does not count.
        """
        return self.done * _MAX_LOG_LINES // max(self.total, 1)


ReportProgress = Callable[[Progress], None]
"""A function that is called as a run advances."""


def ignore_progress(progress: Progress) -> None:
    """Ignore a report of progress, and show nothing."""


_MAX_LOG_LINES = 10
"""How many lines a log has for one stage at most, beside the one for its start."""


def is_terminal(*streams: TextIO | None) -> bool:
    """Whether all streams are terminals.

    A closed stream, which Python has as None, is none.
    """
    return all(stream is not None and stream.isatty() for stream in streams)


@contextlib.contextmanager
def show_progress(
    stage: str, verbose: bool | None = None, *, shows_clock: bool = True
) -> Iterator[ReportProgress]:
    """Show on standard error how far a run is.

    A log has no time, because it would tell how many rows there are to whoever reads the log.

    Args:
        stage: the first stage.
        verbose: whether to show it; None shows it on a terminal, and not in a log.
        shows_clock: whether a terminal shows the seconds. Turn it off where the number of steps is
            private.

    Yields:
        A function to call when another stage begins, or when more of a stage is done.
    """
    on_terminal = is_terminal(sys.stderr)
    if not (on_terminal if verbose is None else verbose):
        yield ignore_progress
        return
    display = _TerminalDisplay(shows_clock=shows_clock) if on_terminal else _LogDisplay()
    display.open(Progress(stage))
    try:
        yield display.report
    finally:
        display.close()


class _LogDisplay:
    """A display in a log: a line for each stage, and at most ten more as it advances."""

    def open(self, progress: Progress) -> None:
        """Print the line of the first stage."""
        self._last = progress
        print(progress, file=sys.stderr, flush=True)

    def report(self, progress: Progress) -> None:
        """Print a line if the run is at another stage, or at another tenth of it."""
        last = self._last
        self._last = progress
        if progress.stage != last.stage or progress.num_log_lines != last.num_log_lines:
            print(progress, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the log as it is."""


class _TerminalDisplay:
    """A display on a terminal: one line, printed over and over, and erased at the end.

    It has the seconds if there is a clock.
    """

    _ERASE_LINE = "\r\033[K"

    def __init__(self, *, shows_clock: bool) -> None:
        self._is_closed = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True) if shows_clock else None

    def open(self, progress: Progress) -> None:
        """Show the first stage, and start the clock."""
        self._last = progress
        self._print(str(progress))
        if self._ticker is not None:
            self._ticker.start()

    def report(self, progress: Progress) -> None:
        """Print over the line how far the run is."""
        self._last = progress
        self._print(f"{self._ERASE_LINE}{progress}")

    def close(self) -> None:
        """Stop the clock, and erase the line."""
        self._is_closed.set()
        if self._ticker is not None:
            self._ticker.join()
        self._print(self._ERASE_LINE)

    def _tick(self) -> None:
        for seconds in itertools.count(1):
            if self._is_closed.wait(1):
                return
            self._print(f"{self._ERASE_LINE}{self._last} {seconds} s")

    @staticmethod
    def _print(text: str) -> None:
        print(text, end="", file=sys.stderr, flush=True)
