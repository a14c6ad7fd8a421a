"""How long calls take: the first one apart, which may compile."""

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax


class Timing(NamedTuple):
    """The seconds of some equal calls.

    Attributes:
        first: seconds of the first call, which may compile.
        warm: seconds of each of the others.
        last: what the last call gave.
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


def measure(
    call: Callable[[int], Any], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> Timing:
    """Time `call(0)`, then `call(1)` to `call(repeats)`, each until its arrays are there.

    Args:
        call: given its own number, of which it may make a seed.
        repeats: how many warm calls there are, at least 1.
        clock: `time.process_time` counts the seconds of all cores.
    """
    seconds, found = [], None
    for number in range(repeats + 1):
        start = clock()
        found = jax.block_until_ready(call(number))
        seconds.append(clock() - start)
    return Timing(seconds[0], seconds[1:], found)
