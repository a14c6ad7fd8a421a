"""Ledgers: what is released, how often, by which mechanism, at what cost, and why.

A ledger is data. It is computed from the noise scales that the program runs with, so that the two cannot
drift apart; a site that no event covers, or a mechanism that no accountant knows, raises.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
from dp_accounting import dp_event
from dp_accounting.pld import common, privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant

from dpbt.base import Relation, relation_name


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


def selection(
    site: str, releases: str, *, epsilon: float, sensitivity: float, scale: float, theorem: str, count: int = 1
) -> Event:
    """An exponential mechanism whose log ratios have range `epsilon`: epsilon-DP and (epsilon^2 / 8)-zCDP.

    The range of log p(k) - log p'(k) over k is at most epsilon, so this is bounded range (Durfee & Rogers, 2019),
    and the zCDP bound is that of Cesar & Rogers (2021), not the epsilon^2 / 2 of any pure mechanism.
    """
    return Event(site, "exponential", releases, count, epsilon, epsilon**2 / 8, scale, sensitivity, theorem)


def noisy_maximum(
    site: str, releases: str, *, epsilon: float, sensitivity: float, scale: float, theorem: str, count: int = 1
) -> Event:
    """Return-noisy-max with Laplace noise: epsilon-DP, and (epsilon^2 / 2)-zCDP as any pure mechanism."""
    return Event(site, "noisy max", releases, count, epsilon, epsilon**2 / 2, scale, sensitivity, theorem)


def noise(
    site: str, mechanism: str, releases: str, *, l1: float, l2: float, scale: float, theorem: str, count: int = 1
) -> Event:
    """Additive noise on statistics of the given L1 and L2 sensitivities, in the unit of the scale.

    Laplace and discrete Laplace: epsilon = l1 / scale, rho = epsilon^2 / 2. Gaussian: rho = (l2 / scale)^2 / 2.

    Raises:
        ValueError: for any other mechanism.
    """
    if mechanism in ("laplace", "discrete laplace"):
        epsilon = l1 / scale if scale > 0 else math.inf
        return Event(site, mechanism, releases, count, epsilon, epsilon**2 / 2, scale, l1, theorem)
    if mechanism == "gaussian":
        rho = (l2 / scale) ** 2 / 2 if scale > 0 else math.inf
        return Event(site, mechanism, releases, count, math.inf, rho, scale, l2, theorem)
    raise ValueError(f"no cost is known for noise called {mechanism!r}")


def public(site: str, releases: str, *, scale: float, theorem: str) -> Event:
    """A uniform draw that never reads the rows: it costs nothing, under every relation."""
    return Event(site, "uniform", releases, 1, 0.0, 0.0, scale, 0.0, theorem)


@dataclasses.dataclass(frozen=True)
class Ledger:
    """All events of an algorithm under one neighbouring relation, composed in sequence.

    Attributes:
        relation: the neighbouring relation.
        events: the lines.
        delta: 0 for a pure guarantee.
        unprotected: what the calibration reads off private data without paying for it; when this is not
            empty, `epsilon` is the paper's claim and not a proof.
    """

    relation: Relation
    events: tuple[Event, ...]
    delta: float = 0.0
    unprotected: tuple[str, ...] = ()

    @property
    def pure_epsilon(self) -> float:
        """The sum over events of count times epsilon; infinite if one of them has no pure cost."""
        return math.fsum(event.count * event.epsilon for event in self.events)

    @property
    def rho(self) -> float:
        """The zCDP total (Bun & Steinke, 2016): the sum over events of count times rho."""
        return math.fsum(event.count * event.rho for event in self.events)

    @property
    def epsilon(self) -> float:
        """The claim: pure for delta = 0, else through zCDP at the ledger's delta, or pure where that is smaller."""
        return self.pure_epsilon if self.delta == 0 else min(zcdp_epsilon(self.rho, self.delta), self.pure_epsilon)

    def epsilon_at(self, delta: float, accountant: str = "zcdp") -> float:
        """The epsilon at a delta in (0, 1), by one accountant.

        Args:
            delta: in (0, 1).
            accountant: "pure", "advanced" (composition theorem of Asadi et al., 2.8), "zcdp", "rdp" or "pld".

        Raises:
            ValueError: for another accountant, or a mechanism it does not know.
        """
        if not 0 < delta < 1:
            raise ValueError(f"delta must be in (0, 1), got {delta}")
        known: dict[str, Callable[[], float]] = {
            "pure": lambda: self.pure_epsilon,
            "advanced": lambda: advanced_epsilon(self.events, delta),
            "zcdp": lambda: zcdp_epsilon(self.rho, delta),
            "rdp": lambda: _rdp_epsilon(self.events, delta),
            "pld": lambda: _pld_epsilon(self.events, delta),
        }
        if accountant not in known:
            raise ValueError(f"accountant must be one of {sorted(known)}, got {accountant!r}")
        return known[accountant]()

    def __str__(self) -> str:
        head = ("site", "mechanism", "releases", "count", "scale", "sensitivity", "epsilon", "rho", "theorem")
        rows = [
            (
                e.site,
                e.mechanism,
                e.releases,
                str(e.count),
                f"{e.scale:.4g}",
                f"{e.sensitivity:.4g}",
                f"{e.count * e.epsilon:.4g}",
                f"{e.count * e.rho:.4g}",
                e.theorem,
            )
            for e in self.events
        ]
        at = f", delta = {self.delta:g} (rho = {self.rho:.6g} zCDP)" if self.delta else ""
        total = f"total: epsilon = {self.epsilon:.6g}{at} under {relation_name(self.relation)}"
        return "\n".join([align([head, *rows]), total, *(f"UNPROTECTED: {words}" for words in self.unprotected)])


def align(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as lines with aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def cover(events: Sequence[Event], sites: Sequence[str]) -> None:
    """Check that events and sites are the same, each once.

    Raises:
        ValueError: naming a site that no event covers, or an event whose site is never released.
    """
    named = [event.site for event in events]
    if sorted(named) != sorted(sites):
        missing, spare = sorted(set(sites) - set(named)), sorted(set(named) - set(sites))
        raise ValueError(f"the ledger does not match the release: not covered {missing}, never released {spare}")


def repeat(event: Event, times: int) -> Event:
    """The event, `times` times in sequence."""
    return dataclasses.replace(event, count=event.count * times)


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


def advanced_epsilon(events: Sequence[Event], delta: float) -> float:
    """Advanced composition: sqrt(2 ln(1/delta) sum eps^2) + sum eps (e^eps - 1) over all draws.

    For k equal draws this is Asadi et al. (2022), Theorem 2.8; the form for unequal ones is that of Dwork, Rothblum
    & Vadhan (2010) as stated by Kairouz, Oh & Viswanath (2015).
    """
    squares = math.fsum(e.count * e.epsilon**2 for e in events)
    bias = math.fsum(e.count * e.epsilon * math.expm1(min(e.epsilon, 700)) for e in events)
    return math.sqrt(2 * math.log(1 / delta) * squares) + bias


@functools.cache
def advanced_each(epsilon: float, delta: float, parts: tuple[tuple[int, float], ...]) -> float:
    """The largest x for which draws of cost `multiple` x, `count` times for each (count, multiple), compose to epsilon.

    By basic composition, or by advanced composition at delta (as `advanced_epsilon`; Asadi et al. (2022), Theorem
    2.8), whichever allows more. Cached: a sweep asks for few distinct settings, many times.
    """
    if math.isinf(epsilon):
        return epsilon

    def advanced(each: float) -> float:
        squares = math.fsum(count * (multiple * each) ** 2 for count, multiple in parts)
        bias = math.fsum(count * multiple * each * math.expm1(min(multiple * each, 700)) for count, multiple in parts)
        return math.sqrt(2 * math.log(1 / delta) * squares) + bias

    low, high = 0.0, epsilon
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if advanced(middle) <= epsilon else (low, middle)
    return max(low, epsilon / math.fsum(count * multiple for count, multiple in parts))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The epsilon of rho-zCDP at delta: the best Renyi order, to about 1e-12 relative.

    Minimises alpha rho + log(1 - 1/alpha) - (log delta + log alpha) / (alpha - 1) over alpha > 1 (Canonne, Kamath &
    Steinke, 2020, Proposition 12). 0 for rho = 0, infinite for infinite rho.
    """
    if rho == 0 or math.isinf(rho):
        return rho

    def bound(log_excess: np.ndarray) -> np.ndarray:
        excess = np.exp(log_excess)
        alpha = 1 + excess
        return alpha * rho + np.log1p(-1 / alpha) - (math.log(delta) + np.log(alpha)) / excess

    low, high = -25.0, 25.0
    for _ in range(12):
        grid = np.linspace(low, high, 101)
        best = int(np.argmin(bound(grid)))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, 100)]
    return max(float(np.min(bound(np.linspace(low, high, 101)))), 0.0)


@functools.cache
def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest rho with `zcdp_epsilon(rho, delta)` at most epsilon, to about 1e-12 relative.

    Cached: a sweep asks for few distinct pairs, many times.
    """
    if math.isinf(epsilon):
        return epsilon
    low, high = 0.0, epsilon
    while zcdp_epsilon(high, delta) < epsilon:
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if zcdp_epsilon(middle, delta) <= epsilon else (low, middle)
    return low


def _rdp_epsilon(events: Sequence[Event], delta: float) -> float:
    """Through dp_accounting's RDP accountant; multipliers are scale / sensitivity, so the relation is in them."""
    accountant = RdpAccountant()
    for event in events:
        match event.mechanism:
            case "uniform":
                one = dp_event.NoOpDpEvent()
            case "exponential" | "noisy max":
                one = dp_event.ZCDpEvent(event.rho)
            case "discrete laplace":
                one = dp_event.ZCDpEvent(event.rho)  # the continuous law is no bound for the discrete one
            case "laplace":
                one = dp_event.LaplaceDpEvent(event.scale / event.sensitivity)
            case "gaussian":
                one = dp_event.GaussianDpEvent(event.scale / event.sensitivity)
            case _:
                raise ValueError(f"no Renyi divergence is known for {event.mechanism!r}")
        accountant.compose(one, event.count)
    return float(accountant.get_epsilon(delta))


def _pld_epsilon(events: Sequence[Event], delta: float) -> float:
    """Through dp_accounting's privacy loss distributions, an exponential mechanism as any epsilon-DP one."""
    total = privacy_loss_distribution.identity()
    for event in events:
        match event.mechanism:
            case "uniform":
                one = privacy_loss_distribution.identity()
            case "exponential" | "noisy max":
                one = privacy_loss_distribution.from_privacy_parameters(
                    common.DifferentialPrivacyParameters(event.epsilon)
                )
            case "discrete laplace":
                one = privacy_loss_distribution.from_discrete_laplace_mechanism(1 / event.scale, int(event.sensitivity))
            case "laplace":
                one = privacy_loss_distribution.from_laplace_mechanism(event.scale / event.sensitivity)
            case "gaussian":
                one = privacy_loss_distribution.from_gaussian_mechanism(event.scale / event.sensitivity)
            case _:
                raise ValueError(f"no privacy loss distribution is known for {event.mechanism!r}")
        total = total.compose(one.self_compose(event.count))
    return float(total.get_epsilon_for_delta(delta))
