"""Releases of other libraries: ledger lines with the costs of dp_accounting's events."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from dpbt.common.validate import check_interval, check_positive_integer
from dpbt.privacy.accounting import Line
from dpbt.privacy.mechanism_prices import gdp_mu_of_pure_epsilon

MAX_LINES = 1000
"""The largest number of distinct events of one release."""


class EpsilonDeltaDpEvent(NamedTuple):
    """An event of a release that states its epsilon and its delta alone.

    Its class has the same name as that of dp_accounting.

    Attributes:
        epsilon: the epsilon of the release.
        delta: the delta of the release.
    """

    epsilon: float
    delta: float = 0.0


def ledger_lines_of_event(
    event: Any, *, num_changed_rows: int, filter_epsilon: float
) -> tuple[Line, ...]:
    """Convert the dp_accounting event of another library's release to ledger lines.

    There is one line for each distinct event.

    Args:
        event: an event of dp_accounting, or an `EpsilonDeltaDpEvent`.
        num_changed_rows: the number of rows that differ between neighbours. An event measures its
            noise by the norm of one row's value, so the noise costs as much as noise that is
            `num_changed_rows` times smaller.
        filter_epsilon: the epsilon of the filter, with which a delta grows (docs/composition.md).

    Raises:
        ValueError: for an event without a proved cost, and for numbers out of their range.
    """
    counts: dict[Line, int] = {}
    for repeated in _flatten_event(event):
        line = _ledger_line_of_uncomposed_event(
            repeated.event, num_changed_rows=num_changed_rows, filter_epsilon=filter_epsilon
        )
        counts[line] = check_positive_integer(
            "the number of events", counts.get(line, 0) + repeated.repeats, 2**62
        )
    if not 0 < len(counts) <= MAX_LINES:
        raise ValueError(f"an outside release must cost something, by at most {MAX_LINES} events")
    return tuple(
        msgspec.structs.replace(
            line, site=f"outside_{number}", num_payments=count, tail=line.tail * count
        )
        for number, (line, count) in enumerate(counts.items(), 1)
    )


class _RepeatedEvent(NamedTuple):
    """An event that is not composed, and how often it takes place.

    Attributes:
        event: an event of dp_accounting.
        repeats: the number of times that it takes place.
    """

    event: Any
    repeats: int


def _flatten_event(event: Any, repeats: int = 1) -> Iterator[_RepeatedEvent]:
    """Split a composed event into its single events, each with its number of repeats.

    The composed event itself takes place `repeats` times.
    """
    match type(event).__name__:
        case "NoOpDpEvent":
            return
        case "ComposedDpEvent":
            for component in event.events:
                yield from _flatten_event(component, repeats)
        case "SelfComposedDpEvent":
            count = check_positive_integer("count", event.count)
            yield from _flatten_event(event.event, repeats * count)
        case _:
            yield _RepeatedEvent(event=event, repeats=repeats)


def _read_number_in_interval(event: Any, name: str, interval: str = "[1e-50, 1e50]") -> float:
    """Read a number that an event states, and refuse one out of its interval."""
    return float(
        check_interval(f"{name} of {type(event).__name__}", getattr(event, name), interval)
    )


def _ledger_line_of_uncomposed_event(
    event: Any, *, num_changed_rows: int, filter_epsilon: float
) -> Line:
    """The ledger line of one event that is not composed."""
    kind = type(event).__name__
    epsilon = math.inf
    rho = math.inf
    mu = math.inf
    gaussian = False
    tail = 0.0
    match kind:
        case "GaussianDpEvent":
            mu = num_changed_rows / _read_number_in_interval(event, "noise_multiplier")
            gaussian = True
            rho = mu**2 / 2
        case "LaplaceDpEvent":
            epsilon = num_changed_rows / _read_number_in_interval(event, "noise_multiplier")
        case "DiscreteLaplaceDpEvent":
            epsilon = num_changed_rows * _read_number_in_interval(event, "noise_parameter")
            epsilon *= check_positive_integer("sensitivity", event.sensitivity)
        case "ZCDpEvent":
            rho = _read_number_in_interval(event, "rho")
            check_interval("xi of a ZCDpEvent", event.xi, "[0, 0]")
        case "EpsilonDeltaDpEvent":
            epsilon = _read_number_in_interval(event, "epsilon")
            delta = _read_number_in_interval(event, "delta", "[0, 1)")
            tail = delta * (1 + math.exp(min(filter_epsilon, 700)))
        case _:
            raise ValueError(
                f"no filter pays for an event {kind}, of which no cost is proved: it takes "
                "Gaussian, Laplace, discrete Laplace, zCDP and EpsilonDelta events, also composed"
            )
    if math.isfinite(epsilon):
        rho, mu = epsilon**2 / 2, float(gdp_mu_of_pure_epsilon(epsilon))
    return Line(
        site="outside_1",
        mechanism=kind,
        releases="an outside release",
        sensitivity=1.0,
        scale=1 / epsilon if math.isfinite(epsilon) else 1 / math.sqrt(2 * rho),
        theorem="its event",
        num_payments=1,
        times=1,
        moved_outputs=1,
        unit="",
        epsilon=epsilon,
        rho=rho,
        mu=mu,
        gaussian=gaussian,
        gap=0.0,
        tail=tail,
        exact=True,
    )
