"""What is being done, on standard error: one line on a terminal, and a few lines in a log.

It tells what is public alone: a stage and its rounds. The seconds are those of the reader's own
clock, so they are on a terminal alone, on a line that is erased at the end.
"""

import contextlib
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple, TextIO


class Progress(NamedTuple):
    """How far a run is; all of it is public.

    Attributes:
        stage: what is done, such as "checking" the blocks, "prologue", "rounds" or "epilogue".
        done: how much of the stage is done.
        all: how much the stage is; 0 where it is not told.
    """

    stage: str
    done: int = 0
    all: int = 0

    def __str__(self) -> str:
        return f"{self.stage}: {self.done} of {self.all}" if self.all else f"{self.stage} ..."


Report = Callable[[Progress], None]
"""Called as a run goes on."""


def ignore_progress(state: Progress) -> None:
    """Tell nothing."""


_PARTS = 10
"""How many lines a log has for one stage, at most, and one more for its start."""


def is_terminal(*streams: TextIO | None) -> bool:
    """Whether all streams are a terminal; closed ones, which Python has as None, are none."""
    return all(stream is not None and stream.isatty() for stream in streams)


@contextlib.contextmanager
def show_progress(
    stage: str, verbose: bool | None = None, *, clock: bool = True
) -> Iterator[Report]:
    """Say on standard error what is being done.

    A log has no time, because it would tell how many rows there are to whoever reads the log.

    Args:
        stage: what is done first.
        verbose: whether to say it; None for on a terminal, and not in a log.
        clock: whether a terminal shows the seconds; not of what takes a private number of steps.

    Yields:
        What is called when it is another stage, or more of it is done.
    """
    terminal = is_terminal(sys.stderr)
    if not (terminal if verbose is None else verbose):
        yield ignore_progress
        return

    ended, last = threading.Event(), [Progress(stage)]

    def line(text: str, end: str) -> None:
        print(text, end=end, file=sys.stderr, flush=True)

    def report(state: Progress) -> None:
        old, last[0] = last[0], state
        parts = [each.done * _PARTS // max(each.all, 1) for each in (old, state)]
        if terminal:
            line(f"\r\033[K{state}", "")
        elif state.stage != old.stage or parts[0] != parts[1]:
            line(str(state), "\n")

    def tick() -> None:
        for seconds in itertools.count(1):
            if ended.wait(1):
                return
            line(f"\r\033[K{last[0]} {seconds} s", "")

    line(str(last[0]), "" if terminal else "\n")
    ticking = threading.Thread(target=tick, daemon=True)
    if terminal and clock:
        ticking.start()
    try:
        yield report
    finally:
        ended.set()
        if ticking.is_alive():
            ticking.join()
        if terminal:
            line("\r\033[K", "")
