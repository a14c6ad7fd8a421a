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

from dpbt.common import storage
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

_ABOVE = 1 + 2.0**-49
"""More than the roundings to float64 of a cost, at most 12 of 2^-53 each."""


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


class Charge(msgspec.Struct, frozen=True):
    """What one release costs, each number rounded up; a record of the filter's file.

    Attributes:
        cost: in the measure of the budget.
        gap: G of its draws.
        tail: t of its draws.
    """

    cost: storage.Number
    gap: storage.Number
    tail: storage.Number


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

    epsilon: storage.Number
    delta: storage.Fraction
    rows: storage.Rows
    relation: Literal["add_remove", "replace_one"]
    max_rows_per_user: storage.RowsOfPerson
    measure: Literal["epsilon", "rho", "mu"]

    @property
    def unit(self) -> str:
        """The name of what is added up."""
        return "mu^2" if self.measure == "mu" else self.measure

    @property
    def limits(self) -> Limits:
        """What keeps all releases together (epsilon, delta)-DP.

        Raises:
            ValueError: for another measure than those of `MEASURES`, or a delta that is not its.
        """
        return _limits(self.measure, self.epsilon, self.delta)

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
        power = 2 if self.measure == "mu" else 1
        cost = math.fsum(line.count * getattr(line, self.measure) ** power for line in ledger.lines)
        gap = math.fsum(line.gap for line in ledger.lines)
        tail = math.fsum(line.tail for line in ledger.lines)
        if self.measure == "epsilon":
            cost += 2 * gap
        if self.measure == "rho":  # at the one order: docs/composition.md, point 4
            order = self.limits.order
            cost += gap * (2 * order - 1) / (order * (order - 1))
        return Charge(cost * _ABOVE, gap * _ABOVE, tail * _ABOVE)


@functools.cache
def _limits(measure: str, epsilon: float, delta: float) -> Limits:
    """The limits of a filter, as `Terms.limits`."""
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


def _check_countable(measure: str, ledger: Ledger) -> None:
    """Refuse a ledger that has no proved and finite cost in the measure, in words."""
    if ledger.choice is not None:
        raise ValueError("a filter adds up single releases, and no best of several runs")
    if ledger.unprotected:
        raise ValueError(f"the release is UNPROTECTED, so no filter pays: {ledger.unprotected}")
    bad = [
        line.site
        for line in ledger.lines
        if not (line.exact and math.isfinite(getattr(line, measure)))
        or (measure == "mu" and not (line.gaussian or line.mu == 0))
    ]
    if bad:
        raise ValueError(
            f"the draws {bad} have no proved and finite cost in {MEASURES[measure]}: no filter "
            "pays for draws without noise, or with samplers that state no distance from their laws "
            "(FLOAT); one of epsilon takes pure draws, one of mu Gaussian draws, one of rho both"
        )


def float_above(number: Fraction) -> float:
    """The least float that is not below the number."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def float_below(number: Fraction) -> float:
    """The largest float that is not above the number."""
    return -float_above(-number)
