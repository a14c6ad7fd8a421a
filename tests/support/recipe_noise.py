"""The noise of a recipe, as its programs request it."""

import dataclasses

import numpy as np

from dpbt.privacy.boundary import DrawSpec, budget_group_of_site
from dpbt.privacy.draw_specs import describe_draws_of_phase
from dpbt.privacy.phase_views import RecipePhase


def draw_specs_by_site(recipe, phase, bound=0.0):
    """The draw of each site that a phase requests on one row; a phase may be named by text."""
    if isinstance(phase, str):
        (phase,) = (candidate for candidate in recipe.learner.phases if candidate.name == phase)
    recipe_phase = RecipePhase.of_recipe(recipe, phase)
    return describe_draws_of_phase(recipe_phase, recipe.params, recipe.public(), np.float32(bound))


def scale_by_site(recipe):
    """The scale of each site's draw, as on outputs of zeros."""
    return {
        site: float(spec.scale)
        for phase in recipe.learner.phases
        for site, spec in draw_specs_by_site(recipe, phase).items()
    }


def noise_multiplier(recipe, site):
    """The noise of a site for a sensitivity of 1."""
    noise = recipe.params.noise
    return np.asarray(noise[budget_group_of_site(site, noise)])


def scale_noise(recipe, factor, *sites):
    """The recipe with the noise of these sites, or of all, multiplied by a factor."""
    noise = {
        site: multiplier * np.float32(factor) if not sites or site in sites else multiplier
        for site, multiplier in recipe.params.noise.items()
    }
    return dataclasses.replace(recipe, params=recipe.params._replace(noise=noise))


def draw_spec(site, mechanism, private_input, **changes):
    """The draw that a program requests, with defaults for all that a test leaves open."""
    fields = {
        "to_statistic": None,
        "public_inputs": (),
        "scale": np.float32(1),
        "max_sensitivity": np.float32(1),
        "moved_outputs": 1,
        "theorem": "none",
        "num_payments": 1,
        "releases": site,
        "unit": "",
        "has_stated_scale": False,
    }
    return DrawSpec(
        site=site, mechanism=mechanism, private_input=private_input, **{**fields, **changes}
    )
