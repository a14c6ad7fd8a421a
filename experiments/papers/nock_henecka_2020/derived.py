"""Tables 1, 3 and 4 and the claims in words of section 7, computed from a grid."""

import itertools
from collections.abc import Mapping, Sequence

import jax.numpy as jnp
import numpy as np

from experiments.common import protocols
from experiments.common.results import Line
from experiments.papers.nock_henecka_2020.saved import NONE, Fits, Grid, Setting
from experiments.papers.nock_henecka_2020.settings import (
    ALPHAS,
    EPSILONS,
    FOREST_DEPTHS,
    FORESTS,
    GRID,
)

WAYS = tuple(str(alpha) for alpha in ALPHAS)
BEST = "best"
TIE = 1e-9
SIZES = {"depth": 3, "rounds": 5}
"""A depth or a number of trees up to this is small in Table 3; the paper does not say."""

TABLE_4_ROUNDS = (2, 20)
BANKNOTE_ERROR = 0.2


def best(fits: Fits, **chosen) -> tuple[float, Setting | None]:
    """(the smallest mean error of the chosen settings, the first such setting)."""
    places = fits.chosen(**chosen)
    if not len(places):
        return float("inf"), None
    errors = fits.mean[places]
    first = places[np.flatnonzero(errors <= errors.min() + TIE)[0]]
    return float(fits.mean[first]), fits.settings[first]


def table_1(grid: Grid) -> list[Line]:
    """The number of domains on which each way to set alpha is best; ties count for all."""
    lines = []
    for calibration, epsilon in itertools.product(grid.calibrations, EPSILONS):
        names = grid.complete(calibration)
        if not names:
            continue
        errors = {
            name: [
                best(grid.fits[name][calibration], epsilon=epsilon, alpha=way)[0] for way in WAYS
            ]
            for name in names
        }
        for k, way in enumerate(WAYS):
            wins = sum(own[k] <= min(own) + TIE for own in errors.values())
            lines.append(
                {
                    "calibration": calibration,
                    "epsilon": epsilon,
                    "alpha": way,
                    "count": wins,
                    "domains": len(names),
                    "best_error_mean": float(np.mean([own[k] for own in errors.values()])),
                }
            )
    return lines


def table_3(grid: Grid) -> list[Line]:
    """The depth and the number of trees of the best private setting of each domain."""
    lines = []
    for calibration in grid.calibrations:
        for name in grid.complete(calibration):
            error, at = best(grid.fits[name][calibration])
            if at is None:
                continue
            sizes = {
                axis: "small" if getattr(at, axis) <= most else "big"
                for axis, most in SIZES.items()
            }
            lines.append(
                {
                    "calibration": calibration,
                    "domain": name,
                    "depth": at.depth,
                    "rounds": at.rounds,
                    "epsilon": at.epsilon,
                    "error": error,
                    "place": f"{sizes['depth']} d, {sizes['rounds']} T",
                }
            )
    return lines


def table_4(grid: Grid, forests: Mapping[str, Mapping[tuple, np.ndarray]]) -> list[Line]:
    """How often boosted trees win against a forest, among significant differences.

    A run is an epsilon and a beta_tree; the test is Student's paired t-test over folds at 0.01.
    """
    lines = []
    for calibration in grid.calibrations:
        for name in grid.complete(calibration):
            fits, theirs = grid.fits[name][calibration], forests.get(name, {})
            cells = itertools.product(FOREST_DEPTHS, TABLE_4_ROUNDS, WAYS, FORESTS)
            for depth, rounds, way, kind in cells:
                pairs = [
                    (at.epsilon, folds, theirs[kind, at.epsilon, depth, calibration])
                    for at, folds in _at(fits, depth=depth, rounds=rounds, alpha=way)
                    if (kind, at.epsilon, depth, calibration) in theirs
                ]
                if pairs:
                    head = {"calibration": calibration, "domain": name, "depth": depth}
                    head |= {"rounds": rounds, "alpha": way, "forest": kind}
                    lines.append(head | _tally(pairs))
    return lines


def _at(fits: Fits, **chosen) -> list[tuple[Setting, np.ndarray]]:
    """(setting, its errors by fold), of the chosen settings."""
    return [(fits.settings[k], fits.folds[k]) for k in fits.chosen(**chosen)]


def _tally(pairs: Sequence[tuple[float, np.ndarray, np.ndarray]]) -> Line:
    """Wins, losses and the percentage of wins; those at the smallest and largest epsilon, too."""
    ours, theirs = (jnp.asarray(np.stack([pair[k] for pair in pairs]), jnp.float32) for k in (1, 2))
    sign = np.asarray(protocols.compare(ours, theirs))
    epsilon = np.asarray([pair[0] for pair in pairs])
    wins, losses = int((sign < 0).sum()), int((sign > 0).sum())
    ends = {}
    for words, at in (("low", EPSILONS[0]), ("high", EPSILONS[-1])):
        ends[f"wins_{words}"] = int((sign[epsilon == at] < 0).sum())
        ends[f"losses_{words}"] = int((sign[epsilon == at] > 0).sum())
    return {
        "runs": len(pairs),
        "wins": wins,
        "losses": losses,
        "percent": 100 * wins / (wins + losses) if wins + losses else None,
        **ends,
    }


def overall(lines: Sequence[Line]) -> list[Line]:
    """The last line of Table 4: all domains and depths together."""
    found = []
    axes = ("calibration", "rounds", "alpha", "forest")
    for key in dict.fromkeys(tuple(line[axis] for axis in axes) for line in lines):
        own = [line for line in lines if tuple(line[axis] for axis in axes) == key]
        total = {name: sum(line[name] for line in own) for name in ("runs", "wins", "losses")}
        decided = total["wins"] + total["losses"]
        ends = {}
        for words in ("low", "high"):
            wins, losses = (
                sum(line[f"{kind}_{words}"] for line in own) for kind in ("wins", "losses")
            )
            ends[f"percent_{words}"] = 100 * wins / (wins + losses) if wins + losses else None
        if None not in ends.values():
            ends["low_minus_high"] = ends["percent_low"] - ends["percent_high"]
        found.append(
            {
                **dict(zip(axes, key, strict=True)),
                "domains": len({line["domain"] for line in own}),
                **total,
                "percent": 100 * total["wins"] / decided if decided else None,
                "undecided": 100 * (total["runs"] - decided) / total["runs"],
                **ends,
            }
        )
    return found


def by_bins(main: Grid, fine: Grid) -> list[Line]:
    """What v_q = 50 changes in the best error of each domain, in points.

    There is a line for each way to set alpha, and one for the best of all ways (BEST).
    """
    lines = []
    for calibration in fine.calibrations:
        for name in fine.complete(calibration):
            if name not in main.complete(calibration):
                continue
            for way in (*WAYS, BEST):
                chosen = {} if way == BEST else {"alpha": way}
                few = best(main.fits[name][calibration], **chosen)[0]
                many = best(fine.fits[name][calibration], **chosen)[0]
                head = {"calibration": calibration, "domain": name, "alpha": way}
                gain = 100 * (few - many)
                lines.append(head | {"error_10": few, "error_50": many, "gain": gain})
    return lines


def criterion(grid: Grid, alone: Mapping[str, Fits], way: str) -> list[Line]:
    """Mean best errors with alpha in the criterion alone, and in the criterion and the link.

    Args:
        grid: has the tight calibration, where a number for alpha sets both.
        alone: domain -> its fits with alpha in the criterion alone.
        way: alpha.
    """
    names, lines = [name for name in grid.complete("tight") if name in alone], []
    for epsilon in EPSILONS if names else ():
        both = [best(grid.fits[name]["tight"], epsilon=epsilon, alpha=way)[0] for name in names]
        own = [best(alone[name], epsilon=epsilon)[0] for name in names]
        line: Line = {"calibration": "tight", "epsilon": epsilon, "alpha": way}
        line |= {"domains": len(names), "criterion_alone": float(np.mean(own))}
        lines.append(line | {"criterion_and_link": float(np.mean(both))})
    return lines


def measures(grid: Grid) -> list[Line]:
    """The claims in words, each as one number for each calibration."""
    lines = []
    for calibration in (NONE, *grid.calibrations):
        names = grid.complete(calibration)
        if not names:
            continue
        found = _without(grid, names) if calibration == NONE else {}
        if calibration != NONE:
            found = _private(grid, calibration, names)
        for name, value in found.items():
            head = {"name": name, "calibration": calibration, "domains": len(names)}
            lines.append(head | {"value": value})
    return lines


def _without(grid: Grid, names: Sequence[str]) -> dict[str, float]:
    """Claims about boosting without privacy."""
    better, gaps = [], []
    for name in names:
        fits = grid.fits[name][NONE]
        for rounds, depth in itertools.product(GRID["rounds"], GRID["depth"]):
            here = {"rounds": rounds, "depth": depth}
            one, tenth = (best(fits, alpha=way, **here)[0] for way in ("1.0", "0.1"))
            better += [one < tenth - TIE] if abs(one - tenth) > TIE else []
        own = [best(fits, alpha=way)[0] for way in WAYS]
        gaps.append(100 * (own[0] - min(own[1:])))
    return {
        "alpha 1 beats 0.1, percent of settings": 100 * float(np.mean(better)),
        "best O.C. above the better constant, points": float(np.mean(gaps)),
    }


def _wins(fits: Fits, epsilon: float) -> list[bool]:
    """Which ways to set alpha are best at an epsilon; ties count for all."""
    errors = [best(fits, epsilon=epsilon, alpha=way)[0] for way in WAYS]
    return [error <= min(errors) + TIE for error in errors]


def _private(grid: Grid, calibration: str, names: Sequence[str]) -> dict[str, float]:
    """Claims about boosting with privacy."""
    found = {}
    if "banknote" in names:
        fits = grid.fits["banknote"][calibration]
        share = np.mean(fits.mean[fits.chosen(alpha=WAYS[0])] <= BANKNOTE_ERROR)
        found["banknote O.C. runs of at most 20 %, percent"] = 100 * float(share)
    for epsilon in EPSILONS[:2]:
        wins = [_wins(grid.fits[name][calibration], epsilon) for name in names]
        ahead = sum(own[0] for own in wins) - max(sum(own[k] for own in wins) for k in (1, 2))
        found[f"domains of O.C. less those of the better constant, epsilon {epsilon:g}"] = ahead
    spreads: dict[str, list[float]] = {"beta_tree": [], "size": []}
    for name in names:
        fits = grid.fits[name][calibration]
        betas = np.unique(fits.axes["beta_tree"])
        own = [best(fits, beta_tree=beta)[0] for beta in betas]
        spreads["beta_tree"].append(100 * (max(own) - min(own)))
        sizes = itertools.product(GRID["rounds"], GRID["depth"])
        own = [best(fits, rounds=rounds, depth=depth)[0] for rounds, depth in sizes]
        own = [error for error in own if np.isfinite(error)]
        spreads["size"].append(100 * (max(own) - min(own)))
    for axis, values in spreads.items():
        found[f"spread of the best error over {axis}, points"] = float(np.mean(values))
    ratio = np.mean(spreads["beta_tree"]) / np.mean(spreads["size"])
    found["spread over beta_tree as part of that over size"] = float(ratio)
    return found
