"""What releases cost a privacy filter, and how much all of them may cost: exact numbers.

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

import functools
import math
from fractions import Fraction
from typing import Literal, NamedTuple

import msgspec

from dpbt.common.storage import Fraction as Share
from dpbt.common.storage import Number, Rows, RowsOfPerson
from dpbt.common.types import relation_name
from dpbt.common.validate import one_of
from dpbt.privacy import accounting
from dpbt.privacy.accounting import MEASURES, Ledger

PURE_TAIL = 1e-9
"""The most delta that finite bits may cost all releases of a pure budget. They cost below 1e-15."""

TAIL_SHARE = 1e-4
"""The share of delta that is kept for the finite bits of samplers."""

BITS_SHARE = 2e-3
"""The share of epsilon that a budget of mu keeps for the finite bits of samplers."""

_ROUNDING = 1 + Fraction(1, 2**50)
"""More than the few roundings to float64 of the cost of a line."""


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


@functools.cache
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
        rho, order = map(float, accounting.best_order(epsilon, delta - tail))
        if not rho > 0:
            raise ValueError(f"epsilon is too small for a budget of rho, got {epsilon:g}")
        return Limits(Fraction(rho), math.inf, tail, order)
    gap = epsilon * BITS_SHARE / 2
    mu = float(accounting.gdp_mu(epsilon - 2 * gap, (delta - tail) * math.exp(-gap)))
    return Limits(Fraction(mu) ** 2, gap, tail)


class Charge(msgspec.Struct, frozen=True):
    """What one release costs, each number rounded up; a record of the filter's file.

    Attributes:
        cost: in the measure of the budget.
        gap: G of its draws.
        tail: t of its draws.
    """

    cost: Number
    gap: Number
    tail: Number


class Terms(msgspec.Struct, frozen=True):
    """What a filter is for; fixed when it is opened, and a record of its file.

    Attributes:
        epsilon: of all releases together.
        delta: of all releases together.
        rows: the public bound on the number of rows, or under replace_one their public number.
        relation: the name of the neighbouring relation.
        max_rows_per_user: the most rows that one person has.
        measure: one of `MEASURES`.
    """

    epsilon: Number
    delta: Share
    rows: Rows
    relation: Literal["add_remove", "replace_one"]
    max_rows_per_user: RowsOfPerson
    measure: Literal["epsilon", "rho", "mu"]

    @property
    def unit(self) -> str:
        """The name of what is added up."""
        return "mu^2" if self.measure == "mu" else self.measure

    @property
    def limits(self) -> Limits:
        """What all releases together may cost; ValueError as `limits`."""
        return limits(self.measure, self.epsilon, self.delta)

    def charge(self, ledger: Ledger) -> Charge:
        """What a release with this ledger costs.

        Raises:
            ValueError: for another relation, or another number of rows or of rows a person. In
                words, for a ledger that has no proved and finite cost in the measure.
        """
        for name in ("relation", "rows", "max_rows_per_user"):
            own, value = getattr(self, name), getattr(ledger, name)
            value = relation_name(value) if name == "relation" else value
            if value != own:
                raise ValueError(
                    f"the filter is for {name}={own}, and the recipe for {value}; all recipes of a "
                    f"filter have its {name}"
                )
        _check_countable(self.measure, ledger)
        cost, gap, tail = Fraction(0), Fraction(0), Fraction(0)
        for line in ledger.lines:
            unit = Fraction(getattr(line, self.measure))
            cost += line.count * (unit**2 if self.measure == "mu" else unit)
            gap += Fraction(line.gap)
            tail += Fraction(line.tail)

        cost *= _ROUNDING
        if self.measure == "epsilon":
            cost += 2 * gap
        if self.measure == "rho":  # at the one order: docs/composition.md, point 4
            order = Fraction(self.limits.order)
            cost += gap * (2 * order - 1) / (order * (order - 1))
        return Charge(float_above(cost), float_above(gap), float_above(tail))


def _check_countable(measure: str, ledger: Ledger) -> None:
    """Refuse a ledger that has no proved and finite cost in the measure, in words."""
    if ledger.choice is not None:
        raise ValueError(
            "a budget adds up what single releases cost, and the best of several runs has an "
            "epsilon at a delta alone"
        )
    if ledger.unprotected:
        raise ValueError(
            "the release is UNPROTECTED, so its epsilon is a paper's claim and no budget can "
            f"count it: {'; '.join(ledger.unprotected)}"
        )
    lines = ledger.lines
    refused = {
        "have samplers that state no distance from their laws (FLOAT), so no budget can count "
        "them": [line for line in lines if not line.exact],
        "have no noise, which no budget covers": [line for line in lines if math.isinf(line.rho)],
        "have no pure epsilon; ask for the recipe without a delta, or open a filter with one": [
            line for line in lines if measure == "epsilon" and math.isinf(line.epsilon)
        ],
        "are not Gaussian, and a filter of mu adds up Gaussian draws alone; open a filter with "
        "measure='rho', which takes all recipes": [
            line for line in lines if measure == "mu" and not (line.gaussian or line.mu == 0)
        ],
    }
    for words, bad in refused.items():
        if bad:
            raise ValueError(f"the draws {', '.join(repr(line.site) for line in bad)} {words}")


def float_above(number: Fraction) -> float:
    """The least float that is not below the number."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def float_below(number: Fraction) -> float:
    """The largest float that is not above the number."""
    return -float_above(-number)
