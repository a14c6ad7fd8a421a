"""Privacy filters: how much a run of releases may cost, when each may follow from the ones before.

A *filter* (Rogers et al., 2016) lets releases through while their costs add up to at most a limit
that was set before the first. Every next release, its cost, and whether there is one, may follow
from all that was released. Three measures have filters with the same sums as fixed releases have:

- `"epsilon"` of pure differential privacy (Rogers, Roth, Ullman & Vadhan, 2016);
- `"rho"` of zCDP, whose Renyi divergences add up (Feldman & Zrnic, 2021);
- `"mu"` of Gaussian differential privacy, whose squares add up (Smith & Thakurta, 2022; Koskela,
  Tobaben & Honkela, 2023).

docs/composition.md proves all three, with what the finite bits of samplers cost. An epsilon at a
delta has no such sum. It would have to be computed from all costs at the end, and a choice that
follows from releases could break it.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dpbt.privacy.accounting import Ledger, Line, gdp_epsilon, gdp_mu, zcdp_epsilon
from dpbt.privacy.measures import MEASURES
from dpbt.validate import one_of

PURE_TAIL = 1e-9
"""The most delta that finite bits may cost all releases of a pure budget. They cost below 1e-15."""

TAIL_SHARE = 1e-4
"""The share of delta that is kept for the finite bits of samplers."""

BITS_SHARE = 2e-3
"""The share of epsilon that a budget of mu keeps for the finite bits of samplers."""

_ROUNDING = 1 + Fraction(1, 2**50)
"""More than the few roundings to float64 of the cost of a line, from the scale that is drawn."""


class Limits(NamedTuple):
    """What all releases together may cost; exact numbers.

    Attributes:
        cost: in the measure.
        gap: G, half of what finite bits may add to epsilon; infinite where the cost has them.
        tail: t, what finite bits may add to delta.
        order: alpha, the Renyi order at which a budget of rho is set; 0 for other measures.
    """

    cost: Fraction
    gap: float
    tail: float
    order: float = 0.0


@dataclasses.dataclass(frozen=True)
class Charge:
    """What one release costs, each number rounded up.

    Attributes:
        cost: in the measure of the budget.
        gap: G of its draws.
        tail: t of its draws.
    """

    cost: float
    gap: float
    tail: float


def limits(measure: str, epsilon: float, delta: float) -> Limits:
    """The limits of a budget that keep all releases together (epsilon, delta)-DP.

    Args:
        measure: one of `MEASURES`.
        epsilon: above 0, finite.
        delta: 0 for "epsilon", else in (0, 1).

    Raises:
        ValueError: for a delta that is not of the measure.
    """
    one_of("measure", measure, MEASURES)
    if (measure == "epsilon") != (delta == 0):
        raise ValueError(
            f"a budget of {MEASURES[measure]} needs a delta "
            f"{'of 0' if measure == 'epsilon' else 'above 0'}, got {delta:g}"
        )
    if measure == "epsilon":
        return Limits(Fraction(epsilon), math.inf, PURE_TAIL)
    tail = delta * TAIL_SHARE
    if measure == "rho":
        rho, order = _best_order(epsilon, delta - tail)
        return Limits(Fraction(rho), math.inf, tail, order)
    gap = epsilon * BITS_SHARE / 2
    mu = float(gdp_mu(epsilon - 2 * gap, (delta - tail) * math.exp(-gap)))
    return Limits(Fraction(mu) ** 2, gap, tail)


def _best_order(epsilon: float, delta: float) -> tuple[float, float]:
    """(rho, alpha): the largest rho whose bound at order alpha is epsilon, over orders alpha.

    Every order gives a bound that holds. So the search need not be exact, and the last factor is
    for rounding alone.
    """
    excess = np.geomspace(1e-9, 1e9, 200_001)
    alpha = 1 + excess
    offset = np.log1p(-1 / alpha) - (math.log(delta) + np.log(alpha)) / excess
    rho = (epsilon - offset) / alpha
    best = int(np.argmax(rho))
    if not rho[best] > 0:
        raise ValueError(f"epsilon is too small for a budget of rho, got {epsilon:g}")
    return float(rho[best]) * (1 - 1e-11), float(alpha[best])


def charge(measure: str, of: Limits, book: Ledger) -> Charge:
    """What one release costs.

    Args:
        measure: one of `MEASURES`.
        of: the limits of the budget.
        book: the ledger of the release.

    Raises:
        ValueError: in words, for a ledger that has no proved and finite cost in the measure.
    """
    if not book.composes:
        raise ValueError(
            "a budget adds up what single releases cost, and the best of several runs has an "
            "epsilon at a delta alone"
        )
    if book.unprotected:
        raise ValueError(
            "the release is UNPROTECTED, so its epsilon is a paper's claim and no budget can "
            f"count it: {'; '.join(book.unprotected)}"
        )
    if not book.exact:
        sites = _sites(book, lambda line: not line.exact)
        raise ValueError(
            f"the samplers of {sites} state no distance from their laws (FLOAT), so no budget can "
            "count them"
        )
    _check_finite(measure, book)

    exact = [(line.count, _unit_cost(measure, line)) for line in book.lines]
    gap = sum((Fraction(line.gap) for line in book.lines), Fraction(0))
    cost = sum((count * Fraction(each) for count, each in exact), Fraction(0)) * _ROUNDING
    if measure == "epsilon":
        cost += 2 * gap
    if measure == "rho":  # at the one order: docs/composition.md, point 4
        order = Fraction(of.order)
        cost += gap * (2 * order - 1) / (order * (order - 1))
    tail = sum((Fraction(line.tail) for line in book.lines), Fraction(0))
    return Charge(float_above(cost), float_above(gap), float_above(tail))


def _unit_cost(measure: str, line: Line) -> Fraction:
    """What one payment of a line costs in the measure, at the scale that is drawn."""
    cost = line.drawn_cost
    if measure == "mu":
        return Fraction(float(cost.mu)) ** 2
    return Fraction(float(cost.epsilon if measure == "epsilon" else cost.rho))


def _sites(book: Ledger, chosen: Callable[[Line], bool]) -> str:
    """The sites of the chosen lines, for an error."""
    return ", ".join(repr(line.site) for line in book.lines if chosen(line))


def _check_finite(measure: str, book: Ledger) -> None:
    """Refuse a ledger that has no finite cost in the measure, in words."""
    if math.isinf(book.rho):
        sites = _sites(book, lambda line: math.isinf(line.rho))
        raise ValueError(f"the release has no noise on {sites}, which no budget covers")
    if measure == "epsilon" and math.isinf(book.pure_epsilon):
        sites = _sites(book, lambda line: math.isinf(line.epsilon))
        raise ValueError(
            f"the noise of {sites} has no pure epsilon; ask for the recipe without a delta, or "
            "open a purse with one"
        )
    if measure == "mu" and not book.gaussian:
        sites = _sites(book, lambda line: not (line.mechanism.price.gaussian or line.mu == 0))
        raise ValueError(
            f"the draws {sites} are not Gaussian, and a purse of mu adds up Gaussian draws alone; "
            "open a purse with measure='rho', which takes all recipes"
        )


def total(charges: Iterable[Charge]) -> tuple[Fraction, Fraction, Fraction]:
    """(cost, gap, tail): the exact sums."""
    charges = tuple(charges)
    return (
        sum((Fraction(each.cost) for each in charges), Fraction(0)),
        sum((Fraction(each.gap) for each in charges), Fraction(0)),
        sum((Fraction(each.tail) for each in charges), Fraction(0)),
    )


def request(measure: str, cost: float, delta: float) -> float:
    """The epsilon of a recipe whose draws cost about `cost` in the measure, at the delta."""
    if measure == "epsilon":
        return cost
    return zcdp_epsilon(cost, delta) if measure == "rho" else gdp_epsilon(math.sqrt(cost), delta)


def instead(measure: str, unit: str, cost: Fraction, delta: float) -> str:
    """With a delta, why an epsilon that seems to fit does not, and which purse would do.

    Args:
        measure: what the purse adds up.
        unit: its name in words.
        cost: of all that was paid, and of what is refused.
        delta: of the purse.
    """
    if not delta:
        return ""
    return (
        f"; with a delta a purse adds up {unit} and not epsilon, and a new one of epsilon = "
        f"{needed(measure, cost, delta):g} would pay for this and for what was paid"
    )


def needed(measure: str, cost: Fraction, delta: float) -> float:
    """An epsilon of three digits whose limit at the delta is not below a cost; nearly the least."""
    epsilon = _three_digits(request(measure, float_above(cost), delta))
    while limits(measure, epsilon, delta).cost < cost:
        epsilon = _three_digits(epsilon * 1.0001)
    return epsilon


def _three_digits(number: float) -> float:
    """The number, rounded up."""
    nearest = float(f"{number:.3g}")
    unit = 10.0 ** (math.floor(math.log10(number)) - 2)
    return nearest if nearest >= number else float(f"{nearest + unit:.3g}")


def float_above(number: Fraction) -> float:
    """The least float that is not below the number."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def float_below(number: Fraction) -> float:
    """The largest float that is not above the number."""
    nearest = float(number)
    return nearest if Fraction(nearest) <= number else math.nextafter(nearest, -math.inf)
