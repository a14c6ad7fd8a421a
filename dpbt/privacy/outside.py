"""Releases that dpbt did not make: what an event of dp_accounting costs, as lines of a ledger."""

import math
from typing import Any, NamedTuple

import msgspec

from dpbt.common.validate import whole, within
from dpbt.privacy.accounting import Line
from dpbt.privacy.mechanism import gdp_of_pure

MAX_LINES = 1000
"""How many events that differ one release may have."""


class EpsilonDeltaDpEvent(NamedTuple):
    """An event of which no more is known than its epsilon and delta, by dp_accounting's name."""

    epsilon: float
    delta: float = 0.0


def lines_of(event: Any, moved: int, epsilon: float) -> tuple[Line, ...]:
    """What a release that dpbt did not make costs.

    Args:
        event: of dp_accounting, or an `EpsilonDeltaDpEvent`.
        moved: how many rows differ between neighbours. The norm by which noise is measured is that
            of one row's value, so noise costs as one that is so many times smaller.
        epsilon: of the filter, by which a delta grows (docs/composition.md).

    Raises:
        ValueError: for an event without a proved cost, and for numbers out of their range.
    """
    found: dict[Line, int] = {}
    _collect(event, 1, (moved, epsilon), found)
    if not 0 < len(found) <= MAX_LINES:
        raise ValueError(f"an outside release must cost something, by at most {MAX_LINES} events")
    return tuple(
        msgspec.structs.replace(line, site=f"outside_{number}", pays=count, tail=line.tail * count)
        for number, (line, count) in enumerate(found.items(), 1)
    )


def _collect(event: Any, count: int, terms: tuple[int, float], found: dict[Line, int]) -> None:
    """Count the events that a composed one consists of."""
    match kind := type(event).__name__:
        case "NoOpDpEvent":
            return
        case "ComposedDpEvent":
            for each in event.events:
                _collect(each, count, terms, found)
        case "SelfComposedDpEvent":
            _collect(event.event, count * whole("count", event.count), terms, found)
        case _:
            line = _line(kind, event, *terms)
            found[line] = whole("the number of events", found.get(line, 0) + count, 2**62)


def _line(kind: str, event: Any, moved: int, most: float) -> Line:
    """The line of one event that is not composed."""

    def given(name: str, interval: str = "[1e-50, 1e50]") -> float:
        return float(within(f"{name} of {kind}", getattr(event, name), interval))

    epsilon, rho, mu, gaussian, tail = math.inf, math.inf, math.inf, False, 0.0
    match kind:
        case "GaussianDpEvent":
            mu, gaussian = moved / given("noise_multiplier"), True
            rho = mu**2 / 2
        case "LaplaceDpEvent":
            epsilon = moved / given("noise_multiplier")
        case "DiscreteLaplaceDpEvent":
            epsilon = moved * given("noise_parameter") * whole("sensitivity", event.sensitivity)
        case "ZCDpEvent":
            rho = given("rho")
            within("xi of a ZCDpEvent", event.xi, "[0, 0]")
        case "EpsilonDeltaDpEvent":
            epsilon = given("epsilon")
            tail = given("delta", "[0, 1)") * (1 + math.exp(min(most, 700)))
        case _:
            raise ValueError(
                f"no filter pays for an event {kind}, of which no cost is proved: it takes "
                "Gaussian, Laplace, discrete Laplace, zCDP and EpsilonDelta events, also composed"
            )
    if math.isfinite(epsilon):
        rho, mu = epsilon**2 / 2, float(gdp_of_pure(epsilon))
    scale = 1 / epsilon if math.isfinite(epsilon) else 1 / math.sqrt(2 * rho)
    words = "outside_1", kind, "an outside release", 1.0, scale, "its event"
    return Line(*words, 1, 1, 1, "", epsilon, rho, mu, gaussian, 0.0, tail, True)
