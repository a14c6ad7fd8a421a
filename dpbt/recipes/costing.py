"""Recipes of a given cost, for purses that spend a share of what is left."""

from collections.abc import Callable

from dpbt.base import Recipe

_CLOSE = 1e-6
"""How far below the cost that was asked for a recipe may cost, as a share of it."""

_STEPS = 12
"""Most recipes that are built in search of one."""


def of_cost(
    priced: Callable[[float], tuple[Recipe, float]], epsilon: float, target: float, power: int
) -> Recipe:
    """A recipe that costs at most the target, and if possible no more than a millionth less.

    Args:
        priced: epsilon -> (recipe, its cost). The cost is about proportional to epsilon^power.
        epsilon: where the search begins.
        target: the cost.
        power: 1 or 2.

    Raises:
        ValueError: if no recipe that was tried costs at most the target.
    """
    best: tuple[Recipe, float] | None = None
    for _ in range(_STEPS):
        made, cost = priced(epsilon)
        if cost <= target and (best is None or cost > best[1]):
            best = made, cost
        if target * (1 - _CLOSE) <= cost <= target:
            break
        aim = target * (1 - _CLOSE / 4)
        epsilon *= (aim / cost) ** (1 / power)
    if best is None:
        raise ValueError("no recipe was found that costs as little as the share")
    return best[0]
