"""Stages of passes: the draws whose sums one pass over a table in blocks can add up.

A sum that depends on the output of a draw waits for the next pass.
"""

from collections.abc import Sequence

import jax

from dpbt.privacy import mechanisms
from dpbt.privacy.boundary import DrawSpec
from dpbt.privacy.draw_dependencies import (
    EARLIER,
    ROWS,
    SPLITS,
    DrawDependencies,
    draw_dependencies_of_phase,
)
from dpbt.types import Phase, Recipe, Site

Stages = tuple[tuple[Site, ...], ...]
"""The sites of draws from sums, in order; a stage's sums depend on earlier stages alone."""


def stages_of_phase(recipe: Recipe, phase: Phase) -> Stages:
    """The stages of a phase, in order.

    A stage is a group of draws whose sums one pass over the rows adds up.

    Raises:
        ValueError: as `group_draws_into_stages`, and as
        `draw_dependencies.check_prices_are_public`.
    """
    return group_draws_into_stages(draw_dependencies_of_phase(recipe, phase))


def group_draws_into_stages(draws: Sequence[DrawDependencies]) -> Stages:
    """Group the draws of a program into stages, each of which needs one pass over the rows.

    Stages are in order, and have the draws from sums. A sum may depend on draws of earlier stages.
    Draws are made in the order of the program, because the scale and the `RowSum.public_inputs` of
    a draw may depend on all draws before it, but never on rows.

    Args:
        draws: all draws of the program, in its order.

    Raises:
        ValueError: for a draw that reads rows and is of no `RowSum`, or by a mechanism of the
            user's own; for sums that are not int32; for a draw whose scale or
            `RowSum.public_inputs` depends on rows; and for public randomness that depends on draws
            from sums.
    """
    summed_draws = [draw for draw in draws if draw.spec.mechanism.price.reads_rows]
    for draw in summed_draws:
        _check_reads_rows_by_sums(draw.spec)

    summed_sites = {draw.spec.site for draw in summed_draws}
    stages: list[list[Site]] = []
    for draw in draws:
        site = draw.spec.site
        _check_numbers_known_before_pass(draw, summed_sites)
        if site not in summed_sites:
            continue
        if not stages or draw.private_input_sources & set(stages[-1]):
            stages.append([])
        stages[-1].append(site)
    return tuple(map(tuple, stages))


def _check_reads_rows_by_sums(spec: DrawSpec) -> None:
    """Refuse a draw that reads rows in any other way than by int32 sums over them."""
    dtypes = {str(leaf.dtype) for leaf in jax.tree.leaves(spec.private_input)}
    if spec.to_statistic is None or dtypes != {"int32"}:
        what = "no boundary.RowSum" if spec.to_statistic is None else f"sums of {sorted(dtypes)}"
        raise ValueError(
            f"the draw {spec.site!r} is of {what}, but a table in blocks needs a "
            "boundary.RowSum of int32"
        )
    if spec.mechanism.name not in mechanisms.BY_NAME:
        raise ValueError(
            f"{spec.mechanism.name} has no draw from large sums, as {spec.site!r} needs"
        )


def _check_numbers_known_before_pass(draw: DrawDependencies, summed_sites: set[Site]) -> None:
    """Refuse a draw whose scale or public inputs depend on rows of the pass for its sums.

    They must be known before that pass.
    """
    early_sources = draw.public_input_sources | draw.scale_sources
    sources = draw.private_input_sources | early_sources
    depends_on_sums = draw.spec.site not in summed_sites and sources & summed_sites
    if ROWS in early_sources or depends_on_sums:
        raise ValueError(
            f"the scale and the public inputs of the draw {draw.spec.site!r} depend on "
            f"{sorted(sources - {EARLIER, SPLITS})}; on a table in blocks they must be known "
            "before a pass over the rows"
        )


def check_can_run_in_blocks(recipe: Recipe) -> None:
    """Refuse a recipe that needs all rows at once.

    Its table cannot be read in blocks.

    Raises:
        ValueError: naming the draw that reads all rows at once.
    """
    if recipe.weight_update.coupled:
        raise ValueError(f"{recipe.weight_update.identity} makes weights that depend on all rows")
    for phase in recipe.learner.phases:
        stages = stages_of_phase(recipe, phase)
        if not phase.repeats and len(stages) > 1:
            raise ValueError(f"the {phase.name} has sums that follow from its own draws: {stages}")
