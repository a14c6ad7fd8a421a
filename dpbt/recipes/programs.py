"""Settings of a recipe that no single program runs: in groups that share one, and as one recipe."""

from __future__ import annotations  # so that help() shows ArrayLike by its name

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from dpbt.common.validate import show_value
from dpbt.recipes.building import check_setting_axes_broadcast
from dpbt.types import MultiProgramRecipe, Recipe
from dpbt.types.recipe import recipe_compilation_signature, stack_recipes


class ProgramSettings(NamedTuple):
    """The settings of a recipe that share one compiled program, and their places among all.

    Attributes:
        recipe: the K settings as one recipe, whose numbers have one leading axis of length K.
        places: an array of K places for each axis of all settings. So `results[places] = values`
            puts the K values of this group where they belong.
    """

    recipe: Recipe
    places: tuple[np.ndarray, ...]


def settings_by_program(
    make: Callable[..., Recipe], settings: Mapping[str, ArrayLike], /, **options: Any
) -> list[ProgramSettings]:
    """Make the recipes of all settings, grouped by the compiled program that they share.

    There are as few groups as the programs allow.

    Some recipes choose static parts by their numbers: `auto` gives deeper trees and histograms
    where rows are many for the noise. Given arrays, it makes a `MultiProgramRecipe`, of which
    `jax.vmap` runs every program for every setting. Groups run each program for its own settings
    alone. Every setting releases what it releases alone, bit for bit.

    Args:
        make: a function of this module, such as `auto`, or your own.
        settings: name of an argument -> an array of its values. The arrays broadcast to settings.
        options: the other arguments of `make`.

    Returns:
        The groups, in the order of their first settings. Every setting is in one of them.

    Raises:
        ValueError: for no settings, for arrays that do not broadcast, if `make` does not return the
            recipe of one setting, and as `make`.
    """
    arrays = {name: np.asarray(values) for name, values in settings.items()}
    check_setting_axes_broadcast(**arrays)
    shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
    if not arrays or 0 in shape:
        raise ValueError(f"settings must have arrays of values, got {show_value(dict(settings))}")

    members: dict[Any, list[tuple[Recipe, tuple[int, ...]]]] = {}
    broadcast = {name: np.broadcast_to(array, shape) for name, array in arrays.items()}
    for setting_index in np.ndindex(shape):
        values = {name: array[setting_index].item() for name, array in broadcast.items()}
        recipe = make(**values, **options)
        if not isinstance(recipe, Recipe) or np.ndim(recipe.rounds):
            shape = f" of settings of shape {recipe.shape}" if isinstance(recipe, Recipe) else ""
            raise ValueError(
                f"make must return the recipe of one setting, got {type(recipe).__name__}{shape}"
            )
        members.setdefault(recipe_compilation_signature(recipe), []).append((recipe, setting_index))
    return [
        ProgramSettings(
            recipe=stack_recipes([recipe for recipe, _ in group]),
            places=tuple(np.transpose([index for _, index in group]).astype(np.intp)),
        )
        for group in members.values()
    ]


def multi_program_recipe(
    make: Callable[..., Recipe], settings: Mapping[str, ArrayLike | None], /, **options: Any
) -> MultiProgramRecipe:
    """Make one recipe of all settings, even if they run several compiled programs.

    `auto` and `additive` call it for arrays of their numbers. It serves any function that makes
    recipes, and settings that name static parts, such as depths.

    Args:
        make: as `settings_by_program`.
        settings: name of an argument -> an array of its values, or one value for all settings. None
            is an argument that is left to its default. The arrays broadcast to settings.
        options: the other arguments of `make`.

    Raises:
        ValueError: as `settings_by_program`.
    """
    arrays = {name: np.asarray(values) for name, values in settings.items() if values is not None}
    groups = settings_by_program(make, arrays, **options)
    shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
    program = np.zeros(shape, np.int32)
    for program_index, group in enumerate(groups):
        program[group.places] = program_index

    def on_all_settings(leaf: np.ndarray, places: tuple[np.ndarray, ...]) -> np.ndarray:
        filled = np.full(shape, leaf[0], leaf.dtype)
        filled[places] = leaf
        return filled

    programs = tuple(
        jax.tree.map(functools.partial(on_all_settings, places=group.places), group.recipe)
        for group in groups
    )
    return MultiProgramRecipe(programs=programs, program=program)
