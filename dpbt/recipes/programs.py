"""Settings of a recipe in groups that share a program, for axes that no single program serves."""

from __future__ import annotations  # so that help() shows ArrayLike by its name

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpbt.common.validate import show_value
from dpbt.recipes.building import check_setting_axes_broadcast
from dpbt.types import Recipe
from dpbt.types.recipe import recipe_compilation_signature, stack_recipes


class ProgramSettings(NamedTuple):
    """Settings that share a program.

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
    """The recipes of all settings, in as few groups as their programs allow.

    Some recipes choose static parts by their numbers: `auto` gives deeper trees and histograms
    where rows are many for the noise. Then no single recipe holds all settings, and each group is
    mapped over by itself. Every setting releases what it releases alone, bit for bit.

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
    for place in np.ndindex(shape):
        of_setting = {name: array[place].item() for name, array in broadcast.items()}
        recipe = make(**of_setting, **options)
        if not isinstance(recipe, Recipe) or np.ndim(recipe.rounds):
            raise ValueError(
                f"make must return the recipe of one setting, got {type(recipe).__name__}"
            )
        members.setdefault(recipe_compilation_signature(recipe), []).append((recipe, place))
    return [
        ProgramSettings(
            recipe=stack_recipes([recipe for recipe, _ in group]),
            places=tuple(np.transpose([place for _, place in group]).astype(np.intp)),
        )
        for group in members.values()
    ]
