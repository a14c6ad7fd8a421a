"""The noise scales of a recipe's draws, for all of its settings at once."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float64

from dpbt.privacy.boundary import DrawSpec, budget_group_of_site, is_static
from dpbt.privacy.draw_dependencies import draw_specs_of_phase
from dpbt.privacy.draw_specs import describe_draws_of_phase
from dpbt.privacy.phase_views import RecipePhase
from dpbt.types import Phase, Recipe, Site


class DrawScale(NamedTuple):
    """The noise scale of a draw that reads rows, and the largest that its sampler takes.

    Attributes:
        site: the name of the draw.
        max_scale: the largest scale of its sampler; infinite for a sampler of every scale.
        scale: the scale in each setting. For a sampler of every scale it is the multiplier of the
            sensitivity instead.
    """

    site: Site
    max_scale: float
    scale: Float64[np.ndarray, "..."]


def scales_of_draws_from_rows(recipe: Recipe) -> Iterator[DrawScale]:
    """The noise scales of all draws of a recipe that read rows, in each setting.

    Args:
        recipe: a recipe with any axes of settings.

    Raises:
        ValueError: for a sensitivity or a scale that is no number.
    """
    settings = jax.tree.map(lambda leaf: np.reshape(leaf, -1), recipe)
    first_setting = jax.tree.map(lambda leaf: leaf[0], settings)
    for phase in recipe.learner.phases:
        for spec in draw_specs_of_phase(first_setting, phase):
            if not spec.mechanism.price.reads_rows:
                continue
            sampler = spec.mechanism.price.sampler
            max_scale = math.inf if sampler is None else sampler.max_scale
            scale = _stated_scale_or_max_sensitivity(spec, max_scale, settings, phase)
            shape = np.shape(recipe.rows) if np.ndim(scale) else ()
            scale = np.reshape(np.asarray(scale, np.float64), shape)
            if not spec.has_stated_scale:
                noise = recipe.params.noise
                group = budget_group_of_site(spec.site, noise)
                scale = scale * np.asarray(noise[group], np.float64)
            yield DrawScale(spec.site, max_scale, scale)


def _stated_scale_or_max_sensitivity(
    spec: DrawSpec, max_scale: float, settings: Recipe, phase: Phase
) -> Any:
    """The noise scale that the program states, or else the largest sensitivity.

    It is that in each setting.
    """
    if not spec.has_stated_scale and math.isinf(max_scale):
        return 1.0
    number = spec.scale if spec.has_stated_scale else spec.max_sensitivity
    if is_static(number):
        return number
    evaluated = _draw_specs_of_stacked_settings(settings, phase)[spec.site]
    number = evaluated.scale if spec.has_stated_scale else evaluated.max_sensitivity
    if np.ndim(number) != 1:
        raise not_a_scalar_error(spec.site)
    return number


def not_a_scalar_error(site: Site) -> ValueError:
    """The error for a draw whose sensitivity or scale is an array instead of one number."""
    return ValueError(f"the sensitivity and the scale of the draw {site!r} must be numbers")


@jax.enable_x64(False)
def _draw_specs_of_stacked_settings(settings: Recipe, phase: Phase) -> Mapping[Site, DrawSpec]:
    """The draw at each site of a phase in G settings.

    Its computed numbers are arrays [G].
    """
    recipe_phase = RecipePhase.of_recipe(settings, phase)

    def describe_setting(setting: Recipe) -> Mapping[Site, DrawSpec]:
        return describe_draws_of_phase(
            recipe_phase, setting.params, setting.public(), np.float32(0)
        )

    return jax.vmap(describe_setting)(settings)
