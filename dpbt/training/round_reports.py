"""Reports of rounds from within a compiled program.

A program is compiled once and serves many runs, so it cannot hold the function that reports the
rounds of one run. It reads the id of that function instead, under which the function is registered
here during the run.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

_reporters: dict[int, Callable[[int], None]] = {}
"""Id of a reporter -> the function that is called with the index of each round of its run."""

_reporter_ids = itertools.count()


@contextlib.contextmanager
def register_round_reporter(
    reporter: Callable[[int], None] | None,
) -> Iterator[np.int32 | None]:
    """Register a function that a run within the context calls for each round.

    Args:
        reporter: is called with the index of each round; None to report nothing.

    Yields:
        The id of the reporter, for `report_round` in the program of the run; None without one.
    """
    if reporter is None:
        yield None
        return
    reporter_id = next(_reporter_ids)
    _reporters[reporter_id] = reporter
    try:
        yield np.int32(reporter_id)
        jax.effects_barrier()  # the program may still run after its call
    finally:
        del _reporters[reporter_id]


def report_round(reporter_id: Any, round_index: Any) -> None:
    """Report the index of a round to its reporter when the program draws the round.

    Nothing else is reported. It is traceable.

    Args:
        reporter_id: i32[], as `register_round_reporter` yields it.
        round_index: i32[], public.
    """
    jax.debug.callback(_call_reporter, reporter_id, round_index)


def _call_reporter(reporter_id: Any, round_index: Any) -> None:
    """Call the reporter of this id with the index of a round, unless its run is over."""
    reporter = _reporters.get(int(reporter_id))
    if reporter is not None:
        reporter(int(round_index))
