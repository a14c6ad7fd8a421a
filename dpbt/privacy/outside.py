"""Releases that dpbt did not make: what an event of dp_accounting costs, as lines of a ledger."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from dpbt.common.validate import check_interval, check_whole_number
from dpbt.privacy.accounting import Line
from dpbt.privacy.mechanism import gdp_mu_of_pure

MAX_LINES = 1000
"""How many events that differ one release may have."""


class EpsilonDeltaDpEvent(NamedTuple):
    """An event of which no more is known than its epsilon and delta, by dp_accounting's name."""

    epsilon: float
    delta: float = 0.0


def ledger_lines_of_event(
    event: Any, *, num_changed_rows: int, filter_epsilon: float
) -> tuple[Line, ...]:
    """What a release that dpbt did not make costs.

    Args:
        event: of dp_accounting, or an `EpsilonDeltaDpEvent`.
        num_changed_rows: how many rows differ between neighbours. The norm by which noise is
            measured is that of one row's value, so noise costs as one that is so many times
            smaller.
        filter_epsilon: of the filter, by which a delta grows (docs/composition.md).

    Raises:
        ValueError: for an event without a proved cost, and for numbers out of their range.
    """
    counts: dict[Line, int] = {}
    for single_event, count in _single_events(event):
        line = _line_of_single_event(
            single_event, num_changed_rows=num_changed_rows, filter_epsilon=filter_epsilon
        )
        counts[line] = check_whole_number(
            "the number of events", counts.get(line, 0) + count, 2**62
        )
    if not 0 < len(counts) <= MAX_LINES:
        raise ValueError(f"an outside release must cost something, by at most {MAX_LINES} events")
    return tuple(
        msgspec.structs.replace(line, site=f"outside_{number}", pays=count, tail=line.tail * count)
        for number, (line, count) in enumerate(counts.items(), 1)
    )


def _single_events(event: Any, count: int = 1) -> Iterator[tuple[Any, int]]:
    """(event, how often it takes place) of each event that a composed one consists of."""
    match type(event).__name__:
        case "NoOpDpEvent":
            return
        case "ComposedDpEvent":
            for part in event.events:
                yield from _single_events(part, count)
        case "SelfComposedDpEvent":
            yield from _single_events(event.event, count * check_whole_number("count", event.count))
        case _:
            yield event, count


def _number_of_event(event: Any, name: str, interval: str = "[1e-50, 1e50]") -> float:
    """A number that an event states; ValueError if it is out of its range."""
    return float(
        check_interval(f"{name} of {type(event).__name__}", getattr(event, name), interval)
    )


def _line_of_single_event(event: Any, *, num_changed_rows: int, filter_epsilon: float) -> Line:
    """The line of one event that is not composed."""
    kind = type(event).__name__
    epsilon, rho, mu, gaussian, tail = math.inf, math.inf, math.inf, False, 0.0
    match kind:
        case "GaussianDpEvent":
            mu, gaussian = num_changed_rows / _number_of_event(event, "noise_multiplier"), True
            rho = mu**2 / 2
        case "LaplaceDpEvent":
            epsilon = num_changed_rows / _number_of_event(event, "noise_multiplier")
        case "DiscreteLaplaceDpEvent":
            epsilon = num_changed_rows * _number_of_event(event, "noise_parameter")
            epsilon *= check_whole_number("sensitivity", event.sensitivity)
        case "ZCDpEvent":
            rho = _number_of_event(event, "rho")
            check_interval("xi of a ZCDpEvent", event.xi, "[0, 0]")
        case "EpsilonDeltaDpEvent":
            epsilon = _number_of_event(event, "epsilon")
            delta = _number_of_event(event, "delta", "[0, 1)")
            tail = delta * (1 + math.exp(min(filter_epsilon, 700)))
        case _:
            raise ValueError(
                f"no filter pays for an event {kind}, of which no cost is proved: it takes "
                "Gaussian, Laplace, discrete Laplace, zCDP and EpsilonDelta events, also composed"
            )
    if math.isfinite(epsilon):
        rho, mu = epsilon**2 / 2, float(gdp_mu_of_pure(epsilon))
    return Line(
        site="outside_1",
        mechanism=kind,
        releases="an outside release",
        sensitivity=1.0,
        scale=1 / epsilon if math.isfinite(epsilon) else 1 / math.sqrt(2 * rho),
        theorem="its event",
        pays=1,
        times=1,
        moved=1,
        unit="",
        epsilon=epsilon,
        rho=rho,
        mu=mu,
        gaussian=gaussian,
        gap=0.0,
        tail=tail,
        exact=True,
    )
