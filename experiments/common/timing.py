"""Timing of calls; the first call, which may compile, is separate."""

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax


class Timing(NamedTuple):
    """The seconds of several equal calls.

    Attributes:
        first: seconds of the first call, which may compile.
        warm: seconds of each later call.
        last: the result of the last call.
    """

    first: float
    warm: list[float]
    last: Any

    @property
    def fastest(self) -> float:
        """Seconds of the fastest warm call."""
        return min(self.warm)

    @property
    def median(self) -> float:
        """The median of the seconds of the warm calls."""
        return statistics.median(self.warm)


def time_calls(
    call: Callable[[int], Any], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> Timing:
    """Time `call(0)`, then `call(1)` to `call(repeats)`, each until its arrays are computed.

    Args:
        call: gets its own number, which it may use as a seed.
        repeats: the number of warm calls, at least 1.
        clock: the clock in seconds; `time.process_time` adds up all cores.
    """
    seconds, result = [], None
    for number in range(repeats + 1):
        start = clock()
        result = jax.block_until_ready(call(number))
        seconds.append(clock() - start)
    return Timing(seconds[0], seconds[1:], result)


def call_in_threads(call: Callable[[int], Any], threads: int) -> list[Any]:
    """The computed arrays of `call(0)` to `call(threads - 1)`, each called in a thread of its own.

    Sweeps run two batches at a time, which takes less time than one after the other.
    """
    if threads == 1:
        return [jax.block_until_ready(call(0))]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda number: jax.block_until_ready(call(number)), range(threads)))
