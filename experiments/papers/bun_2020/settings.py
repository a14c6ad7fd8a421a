"""The base, the axes around it, and the target of HS-StL."""

import math
from typing import NamedTuple

from dpbt.common.validate import check_interval

NAME = "bun_2020"
ALPHA, BETA, DELTA = 0.1, 0.05, 1e-6
DIMENSION, TEST_ROWS = 20, 4000
SPURIOUS, AGREEING = 0.5, 0.8
"""The length of the second direction's part of every row, and the share of rows on which it agrees
with the label."""

BASE = {"rows": 8000, "tau": 0.1, "noise": 0.0}
EPSILON = 1.0
BOOSTING = {"rounds": (30,), "density": (0.25,), "learning_rate": (4.0,), "delta": (DELTA,)}
"""Chosen at the base, on other samples (seed 5), among 15 to 60 rounds, densities of 0.1 to 0.4 and
rates of 2 to 8."""

RELATION = "replace_one"
"""The paper's neighbouring relation."""

CALIBRATIONS = ("published", "tight")
NOISE_UNITS = (0.0, 1 / 32, 1 / 4, 1.0, 4.0, 16.0)
"""Label noise in units of alpha tau; the proof of Theorem 33 has 1 / 32."""

AXES = {
    "rows": (1000, 2000, 4000, 8000, 16_000, 32_000),
    "tau": (0.05, 0.07, 0.1, 0.14, 0.2, 0.3),
    "noise": tuple(unit * ALPHA * BASE["tau"] for unit in NOISE_UNITS),
    "epsilon": (0.1, 0.3, 1.0, 3.0, 10.0, float("inf")),
}
SMOKE = {"rows": (500, 1000), "tau": (0.2,), "noise": (0.0,), "epsilon": (1.0, float("inf"))}

SLOW_BOOSTING = {"density": (0.25,), "learning_rate": (0.9,), "delta": (DELTA,)}
"""Algorithm 4 has lambda in (0, 1), and BOOSTING has not. These settings have."""

ROUNDS_TIMES_TAU_SQUARED = 2.4
"""Rounds of SLOW_BOOSTING in units of 1 / tau^2, the order of Theorem 24. Chosen with SLOW_BOOSTING
at tau = 0.1 and 0.2, on other samples (seed 5), among rates of 0.5 and 0.9 and 30 to 400 rounds."""

SIZES_BASE = {"dimension": DIMENSION, "tau": 0.2, "epsilon": EPSILON}
SIZES_AXES = {
    "tau": (0.1, 0.2, 0.3),
    "epsilon": (0.3, 1.0, 3.0),
    "dimension": (2, 20, 200, 2000),
    "clipped": (20,),
}
"""The axes along which the rows are counted that an error of alpha needs; "clipped" are dimensions
in which hypotheses are clipped to [-1, 1]."""

SIZES_SMOKE = {"tau": (0.3,), "epsilon": (1.0,), "dimension": (2, 5), "clipped": (2,)}
SIZES_ROWS = (128, 256, 512, 1024, 2048)
"""Training rows at the base. At a margin tau there are (0.2 / tau)^2 times as many, and at an
epsilon below 1 they are 1 / epsilon times as many."""

GROWTH_AXES, OTHER_SAMPLES = ("tau", "epsilon"), 3
"""The axes that have all samples, and the most samples that the others have."""

SIZES_TEST_ROWS = 500
ALPHAS = (0.1, 0.05, 0.025)
"""Errors to which the rows are counted."""

RATES_RUN = {"tau / 8": 8, "tau / 32": 32}
"""HS-StL's lambda, and gamma / 4 at its advantage gamma = tau / 8, as Theorem 24 has it."""

ROUNDS_RUN = {
    0.1: {"tau / 8": 8192, "tau / 32": 1024},
    0.2: {"tau / 8": 6144, "tau / 32": 6144},
    0.3: {"tau / 8": 1024, "tau / 32": 1024},
}
"""tau -> lambda -> rounds of HS-StL that are run; the theorem asks for 15 to 369 times as many."""

ROUNDS_ROWS = {0.1: 2000, 0.2: 8000, 0.3: 8000}
"""Rows of a sample. HS-StL's noise does not depend on them, and its own number is out of reach."""

ROUNDS_SAMPLES = 20
"""Samples of rows on which HS-StL is run."""

SMOKE_ROUNDS = {0.3: dict.fromkeys(RATES_RUN, 128)}
"""Those of the smallest setting."""


class HalfspaceSettings(NamedTuple):
    """The settings of HS-StL: sigma, T, kappa, and lambda on the scale of the paper's losses."""

    noise: float
    rounds: int
    density: float
    learning_rate: float


def halfspace_settings(alpha: float, beta: float, tau: float) -> HalfspaceSettings:
    """Bun et al. (2020), Algorithm 5: its noise, rounds, density and learning rate.

    kappa = alpha / 4, lambda = tau / 8, T = 1024 log(1/kappa) / tau^2, and
    sigma = tau / (8 c sqrt(log(3072 log(1/kappa) / (beta tau^2)))).

    The paper leaves c open. For the advantage c = sqrt(2) is enough, because |N(0, 1)| exceeds
    sqrt(2 log(1/xi)) with probability at most xi. Lemma 29 also needs |nu| <= tau / 8 for the whole
    noise vector, whose length grows as sigma sqrt(d). No constant c gives that for every dimension,
    so the lemma's generalisation bound holds for small d only.

    Raises:
        ValueError: unless alpha, beta and tau are in (0, 1).
    """
    for name, value in {"alpha": alpha, "beta": beta, "tau": tau}.items():
        check_interval(name, value, "(0, 1)")
    density = alpha / 4
    spread = math.log(3072 * math.log(1 / density) / (beta * tau**2))
    noise = tau / (8 * math.sqrt(2) * math.sqrt(spread))
    rounds = math.ceil(1024 * math.log(1 / density) / tau**2)
    return HalfspaceSettings(noise, rounds, density, learning_rate=tau / 8)


def halfspace_rows_for(settings: HalfspaceSettings, rho: float, l2_times_kappa_n: float) -> int:
    """The rows at which T rounds of noise sigma cost rho-zCDP.

    n = c sqrt(T / (2 rho)) / (kappa sigma), where c / (kappa n) is the L2 sensitivity.

    Args:
        settings: from `halfspace_settings`.
        rho: the total; `conversions.published_zcdp_rho(epsilon, delta)` is the paper's.
        l2_times_kappa_n: c: 2 (`sensitivity.CENTER_L2`), or 4 as published.
    """
    noise = settings.density * settings.noise
    return math.ceil(l2_times_kappa_n * math.sqrt(settings.rounds / (2 * rho)) / noise)
