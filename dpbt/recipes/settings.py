"""One setting of a recipe that holds several."""

import jax
import numpy as np

from dpbt.base import Recipe
from dpbt.validate import shown


def setting(recipe: Recipe, index: int | np.integer | tuple[int | np.integer, ...]) -> Recipe:
    """One setting of a recipe that holds several.

    Args:
        recipe: a recipe with axes of settings.
        index: the place on the axis, or a place on each of several axes. A negative place counts
            from the end.

    Raises:
        ValueError: for something that is no recipe, a recipe of one setting, or an index outside
            the axes.
    """
    if not isinstance(recipe, Recipe):
        raise ValueError(
            f"recipe must be a recipe, as dpbt.recipes makes it, got {type(recipe).__name__}"
        )
    lengths = np.shape(recipe.rows)
    if not lengths:
        raise ValueError(
            f"recipe must hold several settings, got one setting with index {shown(index)}"
        )
    places = index if isinstance(index, tuple) else (index,)
    if len(places) != len(lengths) or not all(map(_is_place, places, lengths)):
        ranges = ", ".join(f"0..{length - 1}" for length in lengths)
        kind = "a whole number" if len(lengths) == 1 else "a tuple of whole numbers"
        raise ValueError(f"index must be {kind} in {ranges}, got {shown(index)}")
    return jax.tree.map(lambda leaf: leaf[places], recipe)


def _is_place(value: object, length: int) -> bool:
    """Whether a value is a place on an axis of some length."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        return False
    return -length <= int(value) < length
