"""The settings and printed numbers of Asadi et al. (2022): Tables 1 and 4 to 11."""

from typing import NamedTuple

import numpy as np

NAME = "asadi_2022"
RELATION = "replace_one"
"""The paper's neighbouring relation."""
CALIBRATIONS = ("published", "tight")
LEARNERS = ("one_rule", "top_down")
DATASETS = ("adult", "cod-rna", "mushroom")
EPSILONS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 1.0, 3.0, 5.0)
DENSITIES = {
    "adult": (0.5, 0.45, 0.5, 0.5, 0.35, 0.4, 0.3, 0.35, 0.4, 0.35, 0.35, 0.35, 0.35),
    "cod-rna": (0.5, 0.5, 0.5, 0.4, 0.5, 0.5, 0.45, 0.45, 0.5, 0.45, 0.4, 0.3, 0.35),
    "mushroom": (0.45, 0.5, 0.5, 0.5, 0.3, 0.35, 0.4, 0.45, 0.35, 0.45, 0.25, 0.2, 0.2),
}
LEARNING_RATES = {
    "adult": (0.5, 0.5, 0.4, 0.3, 0.5, 0.4, 0.45, 0.5, 0.45, 0.5, 0.45, 0.45, 0.45),
    "cod-rna": (0.5, 0.35, 0.5, 0.5, 0.45, 0.45, 0.35, 0.45, 0.4, 0.5, 0.5, 0.4, 0.4),
    "mushroom": (0.5, 0.4, 0.45, 0.4, 0.4, 0.5, 0.35, 0.4, 0.2, 0.25, 0.3, 0.2, 0.5),
}
ROUNDS = {
    "adult": (5, 5, 5, 5, 9, 19, 9, 9, 25, 15, 39, 99, 75),
    "cod-rna": (9, 19, 29, 25, 25, 25, 49, 39, 65, 49, 99, 99, 99),
    "mushroom": (5, 9, 9, 15, 9, 9, 15, 19, 19, 25, 29, 75, 29),
}
FIGURE_1 = {"epsilon": 1.0, "gamma": 1 / 20, "density": 0.5, "rounds": 500}
"""The text of section 5; it has no number of rounds."""
FIGURE_2 = {"density": 0.25, "learning_rate": 0.25, "rounds": 99}
GRID = {
    "one_rule": {
        "rounds": (5, 9, 15, 19, 25, 29, 39, 49, 65, 75, 99),
        "learning_rate": (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5),
        "density": (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5),
    },
    "top_down": {
        "rounds": (1, 2, 3, 5, 9, 15, 25, 51),
        "learning_rate": (0.4,),
        "density": (0.3, 0.5),
        "splits": (1, 2, 3, 5, 7),
        "depth": (3,),
    },
}
"""Table 1 for 1-rules. For trees, Table 1 has 5 to 51 rounds, rates of 0.35 and 0.4, densities of
0.25 and 0.3, and no sizes. This grid has fewer rounds and higher densities, where noise is
smaller."""

PRINTED_TREES = {
    "rounds": (5, 9, 15, 19, 25, 29, 35, 39, 45, 51),
    "learning_rate": (0.35, 0.4),
    "density": (0.25, 0.3),
    "splits": (1, 3),
    "depth": (3,),
    "leaf_fraction": (0.5,),
}
"""Table 1 for trees, as printed; it has no sizes, and half of the budget is the text's."""

LEAF_SHARES = {"published": (0.5,), "tight": (0.1, 0.25, 0.5)}
_TREES = {"rounds": 5, "density": 0.5, "learning_rate": 0.4, "splits": 2, "depth": 3}
TREES = {"published": {**_TREES, "leaf_fraction": 0.5}, "tight": {**_TREES, "leaf_fraction": 0.1}}
"""Settings of top-down trees, for which the paper lists none: the best of the grid on the training
rows of Adult at epsilon 1."""


class Rivals(NamedTuple):
    """The settings with which the rivals of Table 2 are measured; the paper has all 13 epsilons.

    Attributes:
        keys: the number of keys for Adult's test rows.
        folds: the number of folds of the other data sets, and of the choice of C.
        epsilons: the epsilons of DP-LR.
        penalties: the C of DP-LR that are tried; the paper does not list its own.
        low_privacy: the epsilons of DP-Boost and DP-Bag.
        partitions: how often DP-Bag divides its rows; their script has 100.
        bags: the runs of DP-Bag.
    """

    keys: int = 3
    folds: int = 2
    epsilons: tuple[float, ...] = (0.1, 0.5, 1.0, 5.0)
    penalties: tuple[float, ...] = (0.01, 1.0, 100.0)
    low_privacy: tuple[float, ...] = (1.0, 3.0, 5.0)
    partitions: int = 1
    bags: int = 2


RIVALS = Rivals()
FEATURES = ("intervals", "thresholds", "observed", "quantiles")

SERIES = ("table2", "fig2", "fig3", "rounds", "trees")
ROUNDS_SERIES = {"rounds": (9, 99), "epsilons": (0.1, 0.5, 1.0)}
"""Figure 2's setting with fewer rounds, at some of its epsilons."""
SERIES_DELTA = 1e-5
SELECTION_SEED = 1_000_000
"""Added to the seed for selection, so selection and measurement have different folds and keys."""


def printed_settings(dataset: str, epsilon: float) -> dict:
    """The settings of Tables 8-10 for the nearest epsilon listed there."""
    k = int(np.argmin(np.abs(np.log(np.array(EPSILONS) / epsilon))))
    return {
        "density": DENSITIES[dataset][k],
        "learning_rate": LEARNING_RATES[dataset][k],
        "rounds": ROUNDS[dataset][k],
    }


def searched_axes(learner: str, calibration: str, *, printed: bool = False) -> dict[str, tuple]:
    """The axes of the grid; `printed` has Table 1 for trees, too.

    Only the tight calibration varies the share of a round's budget that labels get.
    """
    if learner == "one_rule":
        return GRID[learner]
    if printed:
        return PRINTED_TREES
    return {**GRID[learner], "leaf_fraction": LEAF_SHARES[calibration]}
