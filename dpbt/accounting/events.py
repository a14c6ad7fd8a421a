"""Events: one line of a ledger for each draw, compared with the draw itself."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from dpbt import mechanisms
from dpbt.base import Mechanism, Sampler

_ROUNDED = 1 - 1e-6
"""Scales are float32, prices are float64: how much smaller a scale may look than it is."""


@dataclasses.dataclass(frozen=True)
class Event:
    """One line of a ledger: a draw that is repeated in sequence.

    Attributes:
        site: the site of the release it covers.
        mechanism: the mechanism's name.
        releases: what it publishes, in words.
        count: how often it is paid for.
        epsilon: the pure cost of one of them; infinite if there is none.
        rho: the zCDP cost of one of them.
        scale: the noise scale.
        sensitivity: the bound that the noise was set from, in the unit of the scale.
        theorem: where the bound is proved.
        unit: what the draw divides its scale by before it is compared with scale / unit.
        moved: how many independent outputs of one draw a row moves, whatever `count` pays for;
            None for all of them.
        gap, tail, exact: what finite bits cost the whole line in epsilon (half of it) and in delta,
            and whether a bound on that is known. `compared` fills them in.

    Raises:
        ValueError: for a count that is no whole number of at least 1, for a number that is negative
            or no number, and for a cost below the one that sensitivity and scale imply.
    """

    site: str
    mechanism: str
    releases: str
    count: int
    epsilon: float
    rho: float
    scale: float
    sensitivity: float
    theorem: str
    unit: float = 1.0
    moved: int | None = None
    gap: float = 0.0
    tail: float = 0.0
    exact: bool = True

    def __post_init__(self):
        counts = {"count": self.count, "moved": 1 if self.moved is None else self.moved}
        for name, value in counts.items():
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(
                    f"{name} of the draw {self.site!r} must be a whole number of at least 1, got {value!r}"
                )
        for name in ("epsilon", "rho", "scale", "sensitivity", "unit", "gap", "tail"):
            value = getattr(self, name)
            if not value >= 0:
                raise ValueError(f"{name} of the draw {self.site!r} must be at least 0, got {value!r}")

        if self.unit == 0:
            raise ValueError(f"unit of the draw {self.site!r} must be above 0, got {self.unit!r}")
        epsilon, rho = self._least()
        if self.epsilon < epsilon * _ROUNDED or self.rho < rho * _ROUNDED:
            raise ValueError(
                f"the draw {self.site!r} of sensitivity {self.sensitivity:g} and scale {self.scale:g} "
                f"costs at least epsilon = {epsilon:g} and rho = {rho:g}, the line says "
                f"{self.epsilon:g} and {self.rho:g}"
            )

    def _least(self) -> tuple[float, float]:
        """The smallest (epsilon, rho) that sensitivity and scale can mean, where the mechanism is known."""
        if self.sensitivity == 0:
            return 0.0, 0.0
        shift = self.sensitivity / self.scale if self.scale > 0 else math.inf
        match self.mechanism:
            case "laplace" | "discrete laplace" | "noisy max":
                return shift, shift**2 / 2
            case "exponential":
                return shift, shift**2 / 8
            case "gaussian" | "rounded gaussian":
                return math.inf, shift**2 / 2
            case "uniform" | "assignment":
                raise ValueError(f"the draw {self.site!r} is called {self.mechanism} and has a sensitivity")
        return 0.0, 0.0


def selection(
    site: str,
    releases: str,
    *,
    epsilon: float,
    sensitivity: float,
    scale: float,
    theorem: str,
    count: int = 1,
    unit: float = 1.0,
    moved: int | None = None,
) -> Event:
    """An exponential mechanism whose log ratios have range `epsilon`: epsilon-DP and (epsilon^2 / 8)-zCDP.

    The range of log p(k) - log p'(k) over k is at most epsilon, so this is bounded range (Durfee & Rogers, 2019),
    and the zCDP bound is that of Cesar & Rogers (2021), not the epsilon^2 / 2 of any pure mechanism.
    """
    rho = epsilon**2 / 8
    return Event(site, "exponential", releases, count, epsilon, rho, scale, sensitivity, theorem, unit, moved)


def noisy_maximum(
    site: str,
    releases: str,
    *,
    epsilon: float,
    sensitivity: float,
    scale: float,
    theorem: str,
    count: int = 1,
    unit: float = 1.0,
    moved: int | None = None,
) -> Event:
    """Return-noisy-max with Laplace noise: epsilon-DP, and (epsilon^2 / 2)-zCDP as any pure mechanism."""
    rho = epsilon**2 / 2
    return Event(site, "noisy max", releases, count, epsilon, rho, scale, sensitivity, theorem, unit, moved)


def noise(
    site: str,
    mechanism: str,
    releases: str,
    *,
    l1: float,
    l2: float,
    scale: float,
    theorem: str,
    count: int = 1,
    unit: float = 1.0,
    moved: int | None = None,
) -> Event:
    """Additive noise on statistics of the given L1 and L2 sensitivities, in the unit of the scale.

    Laplace and discrete Laplace: epsilon = l1 / scale, rho = epsilon^2 / 2. Gaussian and rounded
    Gaussian: rho = (l2 / scale)^2 / 2.

    Raises:
        ValueError: for any other mechanism.
    """
    if mechanism in ("laplace", "discrete laplace"):
        epsilon = l1 / scale if scale > 0 else math.inf
        rho = epsilon**2 / 2
        return Event(site, mechanism, releases, count, epsilon, rho, scale, l1, theorem, unit, moved)
    if mechanism in ("gaussian", "rounded gaussian"):
        rho = (l2 / scale) ** 2 / 2 if scale > 0 else math.inf
        return Event(site, mechanism, releases, count, math.inf, rho, scale, l2, theorem, unit, moved)
    raise ValueError(f"no cost is known for noise called {mechanism!r}")


def public(site: str, releases: str, *, scale: float, theorem: str, mechanism: str = "uniform") -> Event:
    """A uniform draw that never reads the rows: it costs nothing, under every relation."""
    return Event(site, mechanism, releases, 1, 0.0, 0.0, scale, 0.0, theorem)


def cover(events: Sequence[Event], sites: Sequence[str]) -> None:
    """Check that events and sites are the same, each once.

    Raises:
        ValueError: naming a site that no event covers, or an event whose site is never released.
    """
    named = [event.site for event in events]
    if sorted(named) != sorted(sites):
        missing, spare = sorted(set(sites) - set(named)), sorted(set(named) - set(sites))
        raise ValueError(f"the ledger does not match the release: not covered {missing}, never released {spare}")


class Asked(Protocol):
    """What a draw asked for: its mechanism, its scale in the draw's unit, its number of outputs."""

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism."""
        ...

    @property
    def scale(self) -> Any:
        """The scale, in the draw's unit."""
        ...

    @property
    def widest(self) -> Any:
        """The largest scale that the mechanism is given."""
        ...

    @property
    def outputs(self) -> int:
        """How many independent outputs it has."""
        ...


def compared(events: Sequence[Event], draws: Mapping[str, Asked]) -> list[Event]:
    """The events, each compared with the draw that it prices, and with what its finite bits cost.

    A wrong sensitivity cannot be seen here: proofs, neighbour tests and audits are for that.

    Raises:
        ValueError: if events and draws have different sites, or a draw has another mechanism than
            its event, or less noise.
    """
    cover(events, list(draws))
    return [_compared(event, draws[event.site]) for event in events]


def _compared(event: Event, draw: Asked) -> Event:
    mechanism, site = draw.mechanism, event.site
    if mechanism.name != event.mechanism:
        raise ValueError(f"the ledger prices the draw {site!r} as {event.mechanism}, it is {mechanism.name}")
    own = mechanisms.BY_NAME.get(mechanism.name)
    if own is not None and own is not mechanism:
        raise ValueError(
            f"the draw {site!r} is by a mechanism of your own that is called {mechanism.name!r}; "
            "give it a name of its own"
        )
    if own in (mechanisms.uniform, mechanisms.assignment):
        return event

    least = float(np.min(np.asarray(draw.scale, np.float64)))
    if not least >= event.scale / event.unit * _ROUNDED:
        raise ValueError(
            f"the ledger prices the draw {site!r} at scale {event.scale / event.unit:g}, the program draws at {least:g}"
        )
    moved = draw.outputs if event.moved is None else event.moved
    if mechanism.sampler is None:
        return dataclasses.replace(event, moved=moved, exact=False)
    sampler, widest = mechanism.sampler, float(np.max(np.asarray(draw.widest, np.float64)))
    if not widest <= sampler.most:
        raise ValueError(f"the draw {site!r} has scale {widest:g}, and its sampler is known up to {sampler.most:g}")
    shift = event.sensitivity / event.scale if event.scale > 0 else 0.0
    gap, tail = sampler.gap * moved, tail_of_many(sampler, shift, moved)
    return dataclasses.replace(event, moved=moved, gap=gap, tail=tail)


def tail_of_many(sampler: Sampler, shift: float, outputs: int) -> float:
    """The mass of far outcomes of many outputs that a row moves by `shift` scales together.

    Together means in L1 or L2 norm. At most 4 of them move by more than half of it.
    """
    if outputs <= 4:
        return outputs * sampler.tail(shift)
    return 4 * sampler.tail(shift) + (outputs - 4) * sampler.tail(shift / 2)


def repeat(event: Event, times: int) -> Event:
    """The event, `times` times in sequence."""
    return dataclasses.replace(event, count=event.count * times, gap=event.gap * times, tail=event.tail * times)


def parallel(events: Sequence[Event]) -> Event:
    """Draws on disjoint rows, under add/remove: together they cost their dearest.

    Parallel composition (McSherry, 2010, as in Asadi et al., Theorem 2.9). Under replace-one two of the disjoint
    parts change, so this does not apply; pay twice instead.

    Raises:
        ValueError: if there are no events, or their mechanisms or counts differ (the dearest by one accountant need
            not be the dearest by another).
    """
    if len({(event.mechanism, event.count) for event in events}) != 1:
        raise ValueError("parallel composition needs events of one mechanism and one count, at least one of them")
    return max(events, key=lambda event: (event.epsilon, event.rho))
