"""The ledger of a recipe, from the draws that its own programs describe.

A line has the price of one draw by its mechanism, and the cost of the finite bits of its sampler.
`draw_dependencies.check_prices_are_public` refuses draws that have no price.
"""

import itertools
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from dpbt.common import forks
from dpbt.privacy import boundary, keys, price_comparison
from dpbt.privacy.accounting import Ledger, Line
from dpbt.privacy.boundary import DrawSpec, budget_group_of_site, is_static
from dpbt.privacy.draw_dependencies import draw_specs_of_phase, priced_draws_of_phase
from dpbt.privacy.draw_specs import describe_draws_of_phase
from dpbt.privacy.ledger_lines import DrawTerms, ledger_line
from dpbt.privacy.ledger_lines import recompute_ledger_costs as recompute_ledger_costs
from dpbt.privacy.mechanism_types import ROUNDING, Numbers
from dpbt.privacy.noise_scales import not_a_scalar_error
from dpbt.privacy.phase_views import RecipePhase
from dpbt.types import Array, MultiProgramRecipe, Phase, Recipe


@jax.enable_x64(False)  # so that it prices what runs, whatever the caller has enabled
def ledger(recipe: Recipe, key: Array | None = None) -> Ledger:
    """The ledger of one setting of a recipe: the cost of each draw over all rounds, and the total.

    The lines are the draws that the programs describe on one absent row. Draws of a round count T
    times, and those of a prologue and of an epilogue once.

    Args:
        recipe: one setting.
        key: the key of a release; the ledger then names its kind.

    Raises:
        ValueError: for anything else than a recipe of one setting and a whole number of rounds, for
            a draw whose price depends on rows or on earlier releases
            (`draw_dependencies.check_prices_are_public`), and for a scale beyond the range of its
            sampler.
        RuntimeError: in a process that was forked after JAX had run.
    """
    forks.check_jax_can_run()
    _check_is_recipe_of_one_setting(recipe)
    lines_of_phases = {
        phase.name: _ledger_lines_of_phase(recipe, phase) for phase in recipe.learner.phases
    }
    boundary.check_sites_differ_between_phases(
        **{name: [line.site for line in lines] for name, lines in lines_of_phases.items()}
    )
    return Ledger(
        relation=recipe.relation,
        lines=tuple(itertools.chain.from_iterable(lines_of_phases.values())),
        delta=float(recipe.delta),
        unprotected=recipe.learner.unprotected,
        key_purpose=None if key is None else keys.key_purpose(key),
        rows=int(recipe.rows),
        max_rows_per_user=recipe.max_rows_per_user,
        limits_users=recipe.limits_users,
    )


def _check_is_recipe_of_one_setting(recipe: Any) -> None:
    """Refuse anything but a recipe of one setting and a whole number of rounds."""
    if not isinstance(recipe, Recipe | MultiProgramRecipe):
        raise ValueError(f"a ledger needs a recipe or a model, got {type(recipe).__name__}")
    if isinstance(recipe, MultiProgramRecipe) or np.ndim(recipe.rows) > 0:
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


def _ledger_lines_of_phase(recipe: Recipe, phase: Phase) -> list[Line]:
    """The ledger lines of the draws of a phase.

    They are in the order of its program.
    """
    sites_in_order = [spec.site for spec in draw_specs_of_phase(recipe, phase)]
    priced_draws = priced_draws_of_phase(recipe, phase)
    specs = describe_draws_of_phase(
        RecipePhase.of_recipe(recipe, phase),
        recipe.params,
        recipe.public(),
        max_abs_score=np.float32(0),
        priced_draws=priced_draws,
    )
    price_comparison.check_draws_match_prices(specs, priced_draws)
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
    spec: DrawSpec,
    noise_multiplier_by_group: Mapping[str, Any],
    max_rows_per_user: int = 1,
    *,
    times: int = 1,
) -> Line:
    """The ledger line of a draw that a program requests.

    It is for all rows of one person.

    Args:
        spec: the draw.
        noise_multiplier_by_group: budget group -> the noise multiplier that its draws run with.
        max_rows_per_user: the largest number of rows of one person.
        times: how often the draw takes place.

    Raises:
        ValueError: as `ledger_line`, and for a scale beyond the range of the draw's sampler.
    """
    max_sensitivity = 0.0
    scale = _lower_bound_on_scale(spec, noise_multiplier_by_group)
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


def _lower_bound_on_scale(spec: DrawSpec, noise_multiplier_by_group: Mapping[str, Any]) -> Numbers:
    """A lower bound on the noise scale of a draw, in spite of float32 rounding.

    The scale is the one that the draw runs with.
    """
    max_sensitivity = spec.max_sensitivity
    scale = spec.scale
    if not spec.mechanism.price.reads_rows:
        return scale if is_static(scale) else 0.0
    if np.size(max_sensitivity) != 1 or np.size(scale) != 1:
        raise not_a_scalar_error(spec.site)
    if not spec.has_stated_scale:
        multiplier = np.asarray(
            noise_multiplier_by_group[budget_group_of_site(spec.site, noise_multiplier_by_group)],
            np.float64,
        )
        return np.float64(max_sensitivity) * multiplier / ROUNDING * _FLOAT64_ROUNDING
    is_exact = is_static(scale) and is_static(max_sensitivity)
    scale = np.float64(np.float32(scale))  # as it is drawn
    return scale if is_exact else scale / ROUNDING
