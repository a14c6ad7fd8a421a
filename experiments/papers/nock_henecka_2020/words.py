"""The claims in words of Nock & Henecka (2020), each as one number."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from experiments.common import data
from experiments.common.results import Line
from experiments.papers.nock_henecka_2020.derived import TIE, WAYS, best, of_mean
from experiments.papers.nock_henecka_2020.saved import NONE, Fits, Grid
from experiments.papers.nock_henecka_2020.settings import (
    ALPHAS,
    EPSILONS,
    FOLDS,
    GRID,
    PAPER_BINS,
    PAPER_CLIPS,
    PRIVATE,
)

BANKNOTE_ERROR = 0.2
Measures = dict[str, tuple[float, float | None]]
"""Name -> (the number, its standard error or None)."""


def measures(grid: Grid, fine: Grid | None = None) -> list[Line]:
    """The claims, each as one number for each calibration.

    A standard error is over domains, as if they were drawn from many.

    Args:
        grid: the fits of v_q = 10 and M = 10.
        fine: those of v_q = 50.
    """
    lines = []
    for calibration in (NONE, *grid.calibrations):
        names = grid.complete(calibration)
        if not names:
            continue
        own = {name: grid.fits[name][calibration] for name in names}
        by_name = _without(own) if calibration == NONE else _private(own)
        lines += _lines(calibration, len(names), by_name)
        both = [] if fine is None else [name for name in fine.complete(calibration) if name in own]
        if fine is not None and both and calibration != NONE:
            more = {name: fine.fits[name][calibration] for name in both}
            gains = [100 * (best(own[name])[0] - best(more[name])[0]) for name in both]
            found: Measures = {"gain of the best error by v_q = 50, points": of_mean(gains)}
            lines += _lines(calibration, len(both), found)
    return lines


def _lines(calibration: str, domains: int, found: Measures) -> list[Line]:
    head: Line = {"calibration": calibration, "domains": domains}
    return [
        {"name": name, **head, "value": value}
        | {"error": None if error is None or np.isnan(error) else error}
        for name, (value, error) in found.items()
    ]


def models(noise_free: int) -> int:
    """The models of the paper's grid, if runs without noise count this often for each v_q."""
    sizes = len(GRID["rounds"]) * len(GRID["depth"]) * len(ALPHAS)
    private = len(EPSILONS) * len(PRIVATE["beta_tree"]) * len(PAPER_CLIPS)
    return len(PAPER_BINS) * sizes * (private + noise_free) * len(data.NOCK_HENECKA) * FOLDS


def _without(fits: Mapping[str, Fits]) -> Measures:
    """Claims about boosting without privacy, and the size of the grid."""
    wins, differing, gaps = [], [], []
    for own in fits.values():
        better = []
        for rounds, depth in itertools.product(GRID["rounds"], GRID["depth"]):
            here = {"rounds": rounds, "depth": depth}
            one, tenth = (best(own, alpha=way, **here)[0] for way in ("1.0", "0.1"))
            better += [one < tenth - TIE] if abs(one - tenth) > TIE else []
        wins.append(100 * sum(better))
        differing.append(len(better))
        gaps.append(_above(own))
    found: Measures = {
        "alpha 1 beats 0.1, percent of settings": _ratio(wins, differing),
        "best O.C. above the better constant, points": of_mean(gaps),
        "models of the grid, runs without noise for each M": (models(len(PAPER_CLIPS)), None),
        "models of the grid, runs without noise once": (models(1), None),
    }
    for way in WAYS if "banknote" in fits else ():
        name = f"banknote noise-free runs of at most 20 %, {way}, percent"
        found[name] = _accurate(fits["banknote"], way), None
    return found


def _above(fits: Fits) -> float:
    """The best error of objective calibration less that of the better constant, in points."""
    own = [best(fits, alpha=way)[0] for way in WAYS]
    return 100 * (own[0] - min(own[1:]))


def _accurate(fits: Fits, way: str) -> float:
    """The percentage of the runs of an alpha that have an error of at most BANKNOTE_ERROR."""
    return 100 * float(np.mean(fits.mean[fits.chosen(alpha=way)] <= BANKNOTE_ERROR))


def _ratio(tops: Sequence[float], bottoms: Sequence[float]) -> tuple[float, float]:
    """The ratio of two sums over domains, and its standard error; NaN over 0."""
    top, bottom = np.asarray(tops, float), np.asarray(bottoms, float)
    if not bottom.sum():
        return float("nan"), float("nan")
    ratio = top.sum() / bottom.sum()
    _, error = of_mean((top - ratio * bottom) / bottom.mean())
    return float(ratio), error


def _ahead(wins: np.ndarray) -> tuple[float, float]:
    """Wins of objective calibration less those of the better constant, and the standard error.

    Args:
        wins: f64[domain, way].
    """
    other = 1 + int(np.argmax(wins[:, 1:].sum(axis=0)))
    mean, error = of_mean(wins[:, 0] - wins[:, other])
    return round(mean * len(wins)), error * len(wins)


def _private(fits: Mapping[str, Fits]) -> Measures:
    """Claims about boosting with privacy."""
    found: Measures = {}
    if "banknote" in fits:
        share = _accurate(fits["banknote"], WAYS[0])
        found["banknote O.C. runs of at most 20 %, percent"] = share, None
    wins = np.asarray(
        [[_wins(own, epsilon) for own in fits.values()] for epsilon in EPSILONS], float
    )
    for epsilon, own in zip(EPSILONS[:2], wins, strict=False):
        name = f"domains of O.C. less those of the better constant, epsilon {epsilon:g}"
        found[name] = _ahead(own)
    name = "domains of O.C. less those of the better constant, all epsilons"
    found[name] = _ahead(wins.sum(axis=0))
    gaps = [_above(own) for own in fits.values()]
    found["best private O.C. above the better constant, points"] = of_mean(gaps)
    spreads = {"beta_tree": [], "size": []}
    for own in fits.values():
        betas = [{"beta_tree": beta} for beta in np.unique(own.axes["beta_tree"])]
        sizes = itertools.product(GRID["rounds"], GRID["depth"])
        spreads["beta_tree"].append(_spread(own, betas))
        spreads["size"].append(_spread(own, [{"rounds": t, "depth": d} for t, d in sizes]))
    for axis, values in spreads.items():
        found[f"spread of the best error over {axis}, points"] = of_mean(values)
    name = "spread over beta_tree as part of that over size"
    found[name] = _ratio(spreads["beta_tree"], spreads["size"])
    return found


def _wins(fits: Fits, epsilon: float) -> list[bool]:
    """Which ways to set alpha are best at an epsilon; ties count for all."""
    errors = [best(fits, epsilon=epsilon, alpha=way)[0] for way in WAYS]
    return [error <= min(errors) + TIE for error in errors]


def _spread(fits: Fits, groups: Sequence[Mapping]) -> float:
    """The largest less the smallest best error of groups of settings, in points."""
    errors = [best(fits, **group)[0] for group in groups]
    errors = [error for error in errors if np.isfinite(error)]
    return 100 * (max(errors) - min(errors))
