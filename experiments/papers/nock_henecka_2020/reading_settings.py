"""The readings of Nock & Henecka (2020): what they change, their grid, and what is printed."""

from typing import NamedTuple

from dpbt import sweeps
from dpbt.types import Recipe
from experiments.papers.nock_henecka_2020 import second_option, settings

PRINTED = "printed"


class Reading(NamedTuple):
    """One reading of section 6.

    Attributes:
        words: what it does.
        noise: where it has noise; None for the published calibration of the library, whose fits are
            those of `run`.
    """

    words: str
    noise: second_option.Noise | None


READINGS = {
    PRINTED: Reading("beta_t is folded into the leaves before the noise", None),
    "second option": Reading(
        "beta_t from the private rows on the noisy tree",
        second_option.Noise(splits=True, leaves=True, each_leaf=True, before=True),
    ),
    "clamped after": Reading(
        "second option; links up to 100 get noise for [-M, M], and are clamped afterwards (17.2)",
        second_option.Noise(splits=True, leaves=True, each_leaf=True, before=False),
    ),
    "leaf budgets whole": Reading(
        "second option; each leaf of a tree has the tree's whole budget for leaves",
        second_option.Noise(splits=True, leaves=True, each_leaf=False, before=True),
    ),
    "both": Reading(
        "second option; clamped after, and leaf budgets whole",
        second_option.Noise(splits=True, leaves=True, each_leaf=False, before=False),
    ),
    "splits without noise": Reading(
        "second option; the best split of every node",
        second_option.Noise(splits=False, leaves=True, each_leaf=True, before=True),
    ),
    "leaves without noise": Reading(
        "second option; exact leaves",
        second_option.Noise(splits=True, leaves=False, each_leaf=True, before=True),
    ),
    "no noise": Reading(
        "no privacy",
        second_option.Noise(splits=False, leaves=False, each_leaf=True, before=True),
    ),
}
"""Name -> reading."""

WITHOUT = "no noise"
FITTED = tuple(name for name in READINGS if name != PRINTED)

FORESTS = {"RF-L": "rf_l", "RF-E": "rf_e"}
"""Forest -> its kind in the results of `forests`."""

LARGE_DEPTH, LARGE_ROUNDS = 4, 10
"""Depths and numbers of trees from these on are called big; the paper does not say."""


def boosted(*, reading: str, **given) -> Recipe:
    """The ensemble of a reading that is fitted.

    Args:
        reading: its name.
        given: the other arguments of `second_option.recipe`.
    """
    noise = READINGS[reading].noise
    assert noise is not None
    return second_option.recipe(noise=noise, **given)


def boosted_grid(readings: tuple[str, ...], smoke: bool = False) -> sweeps.Sweep:
    """Section 17's grid for v_q = 10 and M = 10, under some readings of FITTED."""
    shared = settings.SMOKE if smoke else settings.GRID
    blocks = []
    private = tuple(name for name in readings if name != WITHOUT)
    if private:
        blocks.append({**shared, **settings.PRIVATE, "reading": private})
    if WITHOUT in readings:
        blocks.append({**shared, "epsilon": (1.0,), "beta_tree": (0.5,), "reading": (WITHOUT,)})
    return sweeps.Sweep("nock_henecka_readings", boosted, tuple(blocks), seed=settings.SEED)
