"""Pricing: the ledger of a recipe, from the draws that its own programs describe.

A line has the price of one draw by its mechanism, and the cost of the finite bits of its sampler.
`dependencies.check_prices` refuses draws that have no price.
"""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import jax
import msgspec
import numpy as np

from dpbt.common.validate import check_interval, check_positive_integer
from dpbt.privacy import accounting, boundary, keys, mechanisms, price_check
from dpbt.privacy.accounting import Ledger, Line
from dpbt.privacy.boundary import DrawSpec, budget_group_of_site, is_static
from dpbt.privacy.conversions import SamplerCost
from dpbt.privacy.dependencies import draw_specs_of_phase, priced_draws
from dpbt.privacy.draw_specs import describe_draws
from dpbt.privacy.mechanism import ROUNDING, Mechanism, Numbers
from dpbt.privacy.phase_views import RecipePhase
from dpbt.privacy.scales import not_a_number_error
from dpbt.types import Array, Phase, Recipe, Site


@jax.enable_x64(False)  # so that it prices what runs, whatever the caller has enabled
def ledger(recipe: Recipe, key: Array | None = None) -> Ledger:
    """The ledger of one setting: what each draw costs over all rounds, and the total.

    The lines are the draws that the programs describe on one absent row. Draws of a round count T
    times, and those of a prologue and of an epilogue once.

    Args:
        recipe: one setting.
        key: the key of a release; the ledger then names its kind.

    Raises:
        ValueError: for anything else than a recipe of one setting and a whole number of rounds, for
            a draw whose price depends on rows or on earlier releases
            (`dependencies.check_prices`), and for a scale beyond the range of its sampler.
    """
    _check_has_ledger(recipe)
    lines_of_phases = {
        phase.name: _lines_of_phase(recipe, phase) for phase in recipe.learner.phases
    }
    boundary.check_sites(
        **{name: [line.site for line in lines] for name, lines in lines_of_phases.items()}
    )
    return Ledger(
        relation=recipe.relation,
        lines=tuple(itertools.chain.from_iterable(lines_of_phases.values())),
        delta=float(recipe.delta),
        unprotected=recipe.learner.unprotected,
        key=None if key is None else keys.key_purpose(key),
        rows=int(recipe.rows),
        max_rows_per_user=recipe.max_rows_per_user,
        limits_users=recipe.limits_users,
    )


def _check_has_ledger(recipe: Any) -> None:
    """Refuse anything else than a recipe of one setting and a whole number of rounds."""
    if not isinstance(recipe, Recipe):
        raise ValueError(f"a ledger needs a recipe or a model, got {type(recipe).__name__}")
    if np.ndim(recipe.rows) > 0:
        raise ValueError(
            "a ledger is of one setting; choose one with recipes.setting(recipe, index)"
        )
    rounds = np.asarray(recipe.rounds)
    if rounds.dtype.kind not in "iu" or not 1 <= rounds <= recipe.max_rounds:
        raise ValueError(
            f"rounds must be a whole number in 1..{recipe.max_rounds}, got {rounds.tolist()}"
        )
    if not 0 <= recipe.delta < 1:
        raise ValueError(f"delta must be in [0, 1), got {recipe.delta}")


def _lines_of_phase(recipe: Recipe, phase: Phase) -> list[Line]:
    """The lines of the draws of a phase, in the order of its program."""
    sites_in_order = [spec.site for spec in draw_specs_of_phase(recipe, phase)]
    priced = priced_draws(recipe, phase)
    specs = describe_draws(
        RecipePhase.of_recipe(recipe, phase),
        recipe.params,
        recipe.public(),
        bound=np.float32(0),
        priced=priced,
    )
    price_check.check_as_priced(specs, priced)
    return [
        ledger_line_of_spec(
            specs[site],
            recipe.params.noise,
            recipe.max_rows_per_user,
            times=int(recipe.rounds) if phase.repeats else 1,
        )
        for site in sites_in_order
    ]


_FLOAT64_ROUNDING = 1 + 2.0**-50
"""Covers the rounding of float64 in a price; it is smaller than what `ROUNDING` covers."""


def ledger_line_of_spec(
    spec: DrawSpec, noise: Mapping[Site, Any], max_rows_per_user: int = 1, *, times: int = 1
) -> Line:
    """The line of a draw of a program, for all rows of one person.

    Args:
        spec: the draw.
        noise: site -> multiplier that it runs with.
        max_rows_per_user: the largest number of rows of one person.
        times: how often the draw takes place.

    Raises:
        ValueError: as `ledger_line`, and for a scale beyond the range of the draw's sampler.
    """
    max_sensitivity, scale = 0.0, _min_scale(spec, noise)
    if spec.mechanism.price.reads_rows:
        max_sensitivity = spec.max_sensitivity
    sampler = spec.mechanism.price.sampler
    if sampler is not None and not scale <= sampler.max_scale:
        raise ValueError(
            f"the draw {spec.site!r} must have a scale of at most {sampler.max_scale:g}, "
            f"beyond which nothing is proved of its sampler, got {scale:g}"
        )
    terms = DrawTerms(
        site=spec.site,
        mechanism=spec.mechanism,
        releases=spec.releases,
        sensitivity=max_sensitivity,
        scale=scale,
        theorem=spec.theorem,
        num_payments=spec.num_payments,
        times=times,
        moved_outputs=spec.moved_outputs,
        unit=spec.unit,
    )
    return ledger_line(terms, max_rows_per_user)


def _min_scale(spec: DrawSpec, noise: Mapping[Site, Any]) -> Numbers:
    """A lower bound, in exact arithmetic, on the scale with which the draw runs."""
    max_sensitivity, scale = spec.max_sensitivity, spec.scale
    if not spec.mechanism.price.reads_rows:
        return scale if is_static(scale) else 0.0
    if np.size(max_sensitivity) != 1 or np.size(scale) != 1:
        raise not_a_number_error(spec.site)
    if not spec.own_scale:
        multiplier = np.asarray(noise[budget_group_of_site(spec.site, noise)], np.float64)
        return np.float64(max_sensitivity) * multiplier / ROUNDING * _FLOAT64_ROUNDING
    is_exact = is_static(scale) and is_static(max_sensitivity)
    scale = np.float64(np.float32(scale))  # as it is drawn
    return scale if is_exact else scale / ROUNDING


@dataclasses.dataclass(frozen=True, kw_only=True)
class DrawTerms:
    """The terms of a draw that its ledger line states or is priced by, for one row.

    Attributes:
        mechanism: the mechanism of the draw.
        site, releases, sensitivity, scale, theorem, num_payments, times, moved_outputs, unit: as
            `accounting.Line`.
    """

    site: Site
    mechanism: Mechanism
    releases: str
    sensitivity: Numbers
    scale: Numbers
    theorem: str
    num_payments: int = 1
    times: int = 1
    moved_outputs: int | None = None
    unit: str = ""


def ledger_line(terms: DrawTerms, max_rows_per_user: int = 1) -> Line:
    """The line of a draw, with its mechanism's price and the cost of its sampler's finite bits.

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
    site, price = terms.site, terms.mechanism.price
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
    cost, sampler_cost = terms.mechanism.cost(sensitivity, scale), SamplerCost(gap=0.0, tail=0.0)
    if price.sampler is not None and moved_outputs is not None:
        sampler_cost = price.sampler.cost_of_draw(
            total_shift=sensitivity / scale if scale > 0 else 0.0,  # no sampler runs without noise
            num_outputs=moved_outputs,
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


def reprice_ledger(book: Ledger, max_rows_per_user: int | None = None) -> Ledger:
    """The ledger with prices computed again from the sensitivities and scales of its lines.

    A file may hold wrong costs, so only those of an author's own mechanisms are taken from it.
    Mechanisms need JAX, so `accounting.from_json` does not price again, and a caller who relies on
    the costs of a file does.

    Args:
        book: a ledger; it may be for people already. The parts of a sum are priced one by one.
        max_rows_per_user: for people with up to so many rows; None for as many as the ledger is
            for. Sensitivities grow before composition; the result does not depend on a composed
            epsilon or delta.

    Raises:
        ValueError: for a choice without a line for its score. For other people than it is for, also
            for a choice, whose other candidates it does not hold, and for a mechanism that is not
            of dpbt, whose price a ledger does not hold.
    """
    if book.parts:
        return accounting.compose_ledgers(
            [reprice_ledger(part, max_rows_per_user) for part in book.parts], book.delta
        )
    if book.choice is not None and len(book.lines) < 2:
        raise ValueError("the ledger of a choice must have lines of a run and of its score")
    if book.choice is not None and max_rows_per_user is not None:
        raise ValueError(
            "the ledger of a choice is for as many rows per person as its candidates were made for"
        )
    lines = tuple(
        _reprice_line(line, book.max_rows_per_user, max_rows_per_user) for line in book.lines
    )
    new_max = book.max_rows_per_user if max_rows_per_user is None else max_rows_per_user
    return msgspec.structs.replace(
        book,
        lines=lines,
        max_rows_per_user=new_max,
        limits_users=book.limits_users and new_max == book.max_rows_per_user,
    )


def _reprice_line(line: Line, old_max: int, new_max: int | None) -> Line:
    """A line with its price computed again, as `reprice_ledger` describes.

    Args:
        line: a line of any ledger.
        old_max: the largest number of rows of one person that it is for.
        new_max: the number that the result is for; None for the same.
    """
    mechanism = mechanisms.BY_NAME.get(line.mechanism)
    if mechanism is None:
        if new_max is None:
            return line
        raise ValueError(
            f"the draw {line.site!r} is by a mechanism of its author's own, {line.mechanism!r}, "
            "whose price no ledger keeps; make the recipe for max_rows_per_user"
        )
    new_max = old_max if new_max is None else new_max
    moved_outputs = line.moved_outputs
    if moved_outputs is not None:
        moved_outputs = moved_outputs // old_max * new_max
    terms = DrawTerms(
        site=line.site,
        mechanism=mechanism,
        releases=line.releases,
        sensitivity=line.sensitivity * new_max / old_max,
        scale=line.scale,
        theorem=line.theorem,
        num_payments=line.num_payments,
        times=line.times,
        moved_outputs=moved_outputs,
        unit=line.unit,
    )
    return ledger_line(terms)
