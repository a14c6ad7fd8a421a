"""Ledger lines of draws, and ledgers whose costs are computed again from their lines. No JAX.

A line states the sensitivity and the scale of a draw, from which its costs follow.
"""

import dataclasses
from typing import Any, NamedTuple

import msgspec

from dpbt.common.validate import check_interval, check_positive_integer
from dpbt.privacy import accounting
from dpbt.privacy.accounting import Ledger, Line
from dpbt.privacy.conversions import SamplerCost
from dpbt.privacy.mechanism_prices import PRICE_BY_MECHANISM_NAME, Price
from dpbt.public_types import Numbers, Site


class _NamedPrice(NamedTuple):
    """A mechanism of the library, by its name and its price."""

    name: str
    price: Price


@dataclasses.dataclass(frozen=True, kw_only=True)
class DrawTerms:
    """The terms of a draw for one row, which its ledger line states or is priced by.

    Attributes:
        mechanism: the mechanism of the draw, of which the name and the price are read.
        site, releases, sensitivity, scale, theorem, num_payments, times, moved_outputs, unit: as
            `accounting.Line`.
    """

    site: Site
    mechanism: Any
    releases: str
    sensitivity: Numbers
    scale: Numbers
    theorem: str
    num_payments: int = 1
    times: int = 1
    moved_outputs: int | None = None
    unit: str = ""


def ledger_line(terms: DrawTerms, max_rows_per_user: int = 1) -> Line:
    """Build the ledger line of a draw, priced for all rows of one person.

    It has the terms of the draw, its cost, and the cost of its sampler's finite bits.

    It is for neighbours that differ in all rows of one person, at most `max_rows_per_user`. Proof.
    Between the two tables lies a chain of tables, each a neighbour of the next by one row. Given
    the earlier releases, a value moves by at most the sum of the steps. L1 norms, L2 norms and
    ranges add up, and so do the outputs that are moved. []

    Args:
        terms: the terms of the draw, for one row.
        max_rows_per_user: the largest number of rows of one person.

    Raises:
        ValueError: as `Line`, and for a count that is no whole number of at least 1. Also for a
            draw of rows that does not say how many outputs a row moves, and for a sensitivity of
            one that never reads the rows.
    """
    site = terms.site
    price = terms.mechanism.price
    if terms.moved_outputs is None and price.reads_rows:
        raise ValueError(
            f"moved_outputs of the draw {site!r} must say how many of its outputs a row moves"
        )

    def check_count(name: str, count: Any) -> int:
        return check_positive_integer(f"{name} of the draw {site!r}", count, 2**62)

    num_payments = check_count("num_payments", terms.num_payments)
    times = check_count("times", terms.times)
    moved_outputs = terms.moved_outputs
    if moved_outputs is not None:
        moved_outputs = check_count("moved_outputs", moved_outputs) * max_rows_per_user
    sensitivity_of_one_row = check_interval(
        f"sensitivity of the draw {site!r}", terms.sensitivity, "[0, 1e100]"
    )
    sensitivity = max_rows_per_user * float(sensitivity_of_one_row)
    scale = float(check_interval(f"scale of the draw {site!r}", terms.scale, "[0, inf]"))
    if not price.reads_rows and sensitivity > 0:
        raise ValueError(
            f"sensitivity of the draw {site!r} must be 0, because {terms.mechanism.name} draws "
            f"never read the rows, got {sensitivity:g}"
        )
    cost = price.cost_of_draw(sensitivity, scale)
    sampler_cost = _sampler_cost_of_draw(
        price, sensitivity=sensitivity, scale=scale, moved_outputs=moved_outputs
    )
    return Line(
        site=site,
        mechanism=terms.mechanism.name,
        releases=terms.releases,
        sensitivity=sensitivity,
        scale=scale,
        theorem=terms.theorem,
        num_payments=num_payments,
        times=times,
        moved_outputs=moved_outputs,
        unit=terms.unit,
        epsilon=float(cost.epsilon),
        rho=float(cost.rho),
        mu=float(cost.mu),
        gaussian=price.gaussian,
        gap=sampler_cost.gap * times,
        tail=float(sampler_cost.tail) * times,
        exact=price.sampler is not None,
    )


def _sampler_cost_of_draw(
    price: Price, *, sensitivity: float, scale: float, moved_outputs: int | None
) -> SamplerCost:
    """The cost of the finite bits of a sampler in one draw.

    It is 0 if no bound is known or needed.
    """
    if price.sampler is None or moved_outputs is None:
        return SamplerCost(gap=0.0, tail=0.0)
    return price.sampler.cost_of_draw(
        total_shift=sensitivity / scale if scale > 0 else 0.0,  # no sampler runs without noise
        num_outputs=moved_outputs,
    )


def recompute_ledger_costs(ledger: Ledger, max_rows_per_user: int | None = None) -> Ledger:
    """Compute the costs of a ledger again from the sensitivities and scales of its lines.

    A file may hold wrong costs, so only those of an author's own mechanisms are taken from it.
    `accounting.from_json` does not price again, and a caller who relies on the costs of a file
    does.

    Args:
        ledger: a ledger; it may be for people already. The parts of a sum are priced one by one.
        max_rows_per_user: for people with up to so many rows; None for as many as the ledger is
            for. Sensitivities grow before composition; the result does not depend on a composed
            epsilon or delta.

    Raises:
        ValueError: for a choice without a line for its score. For other people than it is for, also
            for a choice, whose other candidates it does not hold, and for a mechanism that is not
            of dpbt, whose price a ledger does not hold.
    """
    if ledger.parts:
        return accounting.compose_ledgers(
            [recompute_ledger_costs(part, max_rows_per_user) for part in ledger.parts], ledger.delta
        )
    if ledger.choice is not None and len(ledger.lines) < 2:
        raise ValueError("the ledger of a choice must have lines of a run and of its score")
    if ledger.choice is not None and max_rows_per_user is not None:
        raise ValueError(
            "the ledger of a choice is for as many rows per person as its candidates were made for"
        )
    lines = tuple(
        _recompute_line_costs(
            line,
            old_max_rows_per_user=ledger.max_rows_per_user,
            new_max_rows_per_user=max_rows_per_user,
        )
        for line in ledger.lines
    )
    new_max_rows_per_user = (
        ledger.max_rows_per_user if max_rows_per_user is None else max_rows_per_user
    )
    return msgspec.structs.replace(
        ledger,
        lines=lines,
        max_rows_per_user=new_max_rows_per_user,
        limits_users=ledger.limits_users and new_max_rows_per_user == ledger.max_rows_per_user,
    )


def _recompute_line_costs(
    line: Line, *, old_max_rows_per_user: int, new_max_rows_per_user: int | None
) -> Line:
    """Compute the costs of a ledger line again from its sensitivity and its scale.

    Args:
        line: a line of any ledger.
        old_max_rows_per_user: the largest number of rows of one person that it is for.
        new_max_rows_per_user: the number that the result is for; None for the same.
    """
    price = PRICE_BY_MECHANISM_NAME.get(line.mechanism)
    if price is None:
        if new_max_rows_per_user is None:
            return line
        raise ValueError(
            f"the draw {line.site!r} is by a mechanism of its author's own, {line.mechanism!r}, "
            "whose price no ledger keeps; make the recipe for max_rows_per_user"
        )
    new_max_rows_per_user = (
        old_max_rows_per_user if new_max_rows_per_user is None else new_max_rows_per_user
    )
    moved_outputs = line.moved_outputs
    if moved_outputs is not None:
        moved_outputs = moved_outputs // old_max_rows_per_user * new_max_rows_per_user
    terms = DrawTerms(
        site=line.site,
        mechanism=_NamedPrice(line.mechanism, price),
        releases=line.releases,
        sensitivity=line.sensitivity * new_max_rows_per_user / old_max_rows_per_user,
        scale=line.scale,
        theorem=line.theorem,
        num_payments=line.num_payments,
        times=line.times,
        moved_outputs=moved_outputs,
        unit=line.unit,
    )
    return ledger_line(terms)
