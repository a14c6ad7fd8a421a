"""The base, the axes around it, and the target of HS-StL."""

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

ROUNDS_RUN = {0.1: 16_384, 0.2: 4096, 0.3: 4096}
"""tau -> rounds of HS-StL that are run; the theorem needs 10 to 23 times as many."""

SMOKE_ROUNDS = {0.3: 128}
"""The same for the smallest setting."""
