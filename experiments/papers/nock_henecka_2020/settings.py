"""The grid of Nock & Henecka (2020), section 17, and the numbers of their Table 1."""

from dpbt import recipes, sweeps

NAME = "nock_henecka_2020"
ALPHAS = ("objective", 0.1, 1.0)
ALPHA_NAMES = tuple(str(alpha) for alpha in ALPHAS)
EPSILONS = (0.01, 0.1, 1.0, 10.0, 25.0)
CALIBRATIONS = ("published", "tight")
GRID = {"rounds": (2, 5, 10, 20), "depth": (1, 2, 3, 4, 5, 6), "alpha": ALPHAS}
PRIVATE = {"epsilon": EPSILONS, "beta_tree": (0.1, 0.5, 0.9)}
SMOKE = {"rounds": (1, 2), "depth": (1, 2), "alpha": ALPHAS}
PAPER_BINS, PAPER_CLIPS = (10, 50), (1.0, 10.0, 100.0)
"""All v_q and M of section 17.1."""

FOLDS, SEED = 10, 0
FORESTS = {"RF-L": "rf_l", "RF-E": "rf_e"}
"""The forests of Table 4 -> their kinds, which are the names of their recipes."""

FOREST_TREES, FOREST_DEPTHS = 21, (2, 4, 6)
"""The number of trees of a forest, and their depths."""

MAX_BINS = 255
"""A column has at most 256 cells, and one is for missing numbers."""


def grid(
    calibrations: tuple[str, ...], bins: int, clip: tuple[float, ...], smoke: bool = False
) -> sweeps.Sweep:
    """The paper's grid for one v_q.

    Settings without privacy have one calibration, one beta_tree and one M.

    Args:
        calibrations: a subset of CALIBRATIONS.
        bins: v_q, the number of intervals of a numeric column.
        clip: the values of M.
        smoke: take the smallest grid.
    """
    shared_axes = SMOKE if smoke else GRID
    private = {**shared_axes, **PRIVATE, "clip": clip, "calibration": calibrations}
    without = {
        **shared_axes,
        "epsilon": (float("inf"),),
        "beta_tree": (0.5,),
        "clip": clip[:1],
        "calibration": ("tight",),
    }
    return sweeps.Sweep(f"nock_henecka_{bins}", recipes.bdpe, (private, without), seed=SEED)
