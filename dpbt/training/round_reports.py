"""Reports of rounds from within a compiled program.

A program is compiled once and serves many runs, so it cannot hold the function that one run reports
to. It reads the number of the run instead, and looks the function up here while the run goes on.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

_reports: dict[int, Callable[[int], None]] = {}
"""Number of a run that goes on -> the function that is called with the number of each round."""

_run_numbers = itertools.count()


@contextlib.contextmanager
def report_rounds(report: Callable[[int], None] | None) -> Iterator[np.int32 | None]:
    """Let a run within the context report its rounds.

    Args:
        report: is called with the number of each round; None to report nothing.

    Yields:
        The number of the run, for `report_round` in its program; None without a report.
    """
    if report is None:
        yield None
        return
    run_number = next(_run_numbers)
    _reports[run_number] = report
    try:
        yield np.int32(run_number)
        jax.effects_barrier()  # the run may go on after its call
    finally:
        del _reports[run_number]


def report_round(run_number: Any, round_number: Any) -> None:
    """Report the number of a round as the round draws, and nothing else; traceable.

    Args:
        run_number: i32[], as `report_rounds` yields it.
        round_number: i32[], public.
    """
    jax.debug.callback(_call_report, run_number, round_number)


def _call_report(run_number: Any, round_number: Any) -> None:
    """Call the function of a run, unless the run is over."""
    report = _reports.get(int(run_number))
    if report is not None:
        report(int(round_number))
