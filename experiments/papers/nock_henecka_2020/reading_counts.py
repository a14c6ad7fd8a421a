"""How the paper may have counted the wins of Table 4: by which test, and over which epsilons.

The text has Student's t-test at 0.01 and runs of all epsilons and beta_tree. Here each printed cell
is set beside ours under another test, and with one epsilon left out.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from experiments.common import aggregated, protocols
from experiments.common.results import Line
from experiments.papers.nock_henecka_2020.reading_fits import ALPHA_NAMES, Fits, rivals
from experiments.papers.nock_henecka_2020.reading_settings import FORESTS, PRINTED
from experiments.papers.nock_henecka_2020.settings import FOREST_DEPTHS, NAME

KIND = "table 4 counted"
COMPARED = (PRINTED, "second option")
"""The readings whose fits are counted."""

FOLDS, ROWS = "t-test over folds", "z-test over rows"
TESTS = (FOLDS, ROWS)
NEAR = 10.0
"""A cell is near the printed one within this many points."""

NORMAL_LIMIT = 2.5758
"""The two-sided limit of a normal variable at 0.01."""

ROUNDS = (2, 20)
Cell = tuple[str, int, int, str, str]
"""(domain, depth, T, forest, alpha) of a number of Table 4."""


def lines(found: Mapping[str, Fits], rows: Mapping[str, int]) -> Iterator[Line]:
    """One line for each reading, test, and epsilon that is left out (None: no epsilon is).

    Args:
        found: domain -> its fits.
        rows: domain -> its number of rows.
    """
    printed = _printed()
    for reading, test in itertools.product(COMPARED, TESTS):
        own = {name: fits for name, fits in found.items() if reading in fits.errors}
        own = {name: fits for name, fits in own.items() if fits.forests}
        if not own:
            continue
        signs = _signs(own, rows, reading, test)
        epsilons = next(iter(own.values())).axes["epsilon"]
        for left_out in (None, *epsilons.tolist()):
            kept = epsilons != left_out
            by_cell = {cell: sign[kept] for cell, sign in signs.items()}
            head: Line = {"kind": KIND, "reading": reading, "test": test, "left_out": left_out}
            yield {**head, "domains": len(own), **_agreement(by_cell, printed)}


def _printed() -> dict[Cell, float]:
    """Cell -> the printed percentage of wins."""
    return {_cell(at): number for at, number in aggregated.printed(NAME, "table-4")}


def _cell(at: Mapping[str, Any]) -> Cell:
    kinds = {kind: forest for forest, kind in FORESTS.items()}
    return at["domain"], at["depth"], at["rounds"], kinds[at["forest"]], str(at["alpha"])


def _signs(
    found: Mapping[str, Fits], rows: Mapping[str, int], reading: str, test: str
) -> dict[Cell, np.ndarray]:
    """Cell -> i64[epsilon, beta_tree]: -1 where boosting is significantly better, 1 where worse."""
    signs = {}
    for name, fits in found.items():
        for rounds, depth, forest in itertools.product(ROUNDS, FOREST_DEPTHS, FORESTS):
            both = rivals(fits, reading, rounds, forest, [depth])
            if both is None:
                continue
            sign = compared(*both, test, rows[name])
            for k, alpha in enumerate(ALPHA_NAMES):
                signs[name, depth, rounds, forest, alpha] = sign[k, ..., 0]
    return signs


def compared(a: np.ndarray, b: np.ndarray, test: str, rows: int) -> np.ndarray:
    """i64[...]: -1 where a's mean is significantly smaller than b's, 1 where it is larger, else 0.

    Args:
        a: f64[..., fold], test errors.
        b: f64[..., fold], of the same folds.
        test: one of TESTS. The z-test takes all test rows of all folds for independent ones.
        rows: the number of rows, each of which is a test row of one fold.
    """
    if test == FOLDS:
        return np.asarray(protocols.compare(jnp.asarray(a), jnp.asarray(b)))
    one, other = a.mean(-1), b.mean(-1)
    variance = (one * (1 - one) + other * (1 - other)) / rows
    far = np.abs(one - other) > NORMAL_LIMIT * np.sqrt(variance)
    return np.where(far, np.sign(one - other), 0).astype(np.int64)


def _agreement(signs: Mapping[Cell, np.ndarray], printed: Mapping[Cell, float]) -> Line:
    """How near the cells are to the printed ones, and how many differences are significant."""
    differences = []
    for cell, sign in signs.items():
        wins, losses = np.sum(sign < 0), np.sum(sign > 0)
        if cell in printed and wins + losses:
            differences.append(abs(100 * wins / (wins + losses) - printed[cell]))
    every = np.concatenate([sign.ravel() for sign in signs.values()])
    return {
        "cells": len(differences),
        "difference": float(np.mean(differences)) if differences else None,
        "near": float(np.mean(np.asarray(differences) <= NEAR)) if differences else None,
        "significant": float(np.mean(every != 0)),
    }
