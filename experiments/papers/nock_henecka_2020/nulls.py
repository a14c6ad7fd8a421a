"""What some claims of section 7 would measure without anything to them, from the aggregated grids.

The claim that beta_tree matters little compares three numbers with 24, so it holds of most shuffled
errors. The claims that a choice is *competitive* hold if any of the choices is.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.common import aggregated
from experiments.common.results import Line, distinct, where
from experiments.papers.nock_henecka_2020.settings import (
    ALPHA_NAMES,
    GRID,
    NAME,
    PAPER_BINS,
    PAPER_CLIPS,
)

NUM_SHUFFLES = 200
CALIBRATIONS = ("none", "published", "tight")

SHUFFLED = "spread over beta_tree as part of that over size, settings shuffled"
ANY_WAY = "best error of any way to set alpha above the better constant, points"
ANY_WAY_ON_BANKNOTE = "banknote, mean error of any way less the better constant, points"
ANY_PAIR = "best error of any of six pairs of v_q and M above that of the best, points"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    aggregated.add_out(parser)
    parser.set_defaults(reduced=None)


def run_command(options: argparse.Namespace) -> None:
    """Read the aggregated grids in the folder, and write the nulls beside them."""
    out = Path(options.out)
    main = aggregated.read_result(NAME, "grid_10_10", out)
    lines = [
        {"name": name, "calibration": calibration, "value": value}
        for calibration in CALIBRATIONS
        for name, value in null_values(where(main, calibration=calibration)).items()
    ]
    pairs = [(bins, clip) for bins in PAPER_BINS for clip in PAPER_CLIPS]
    grids = [aggregated.read_result(NAME, f"grid_{bins}_{clip:g}", out) for bins, clip in pairs]
    published = [_mean_best_error(where(grid, calibration="published")) for grid in grids]
    value = 100 * (float(np.mean(published)) - min(published))
    lines.append({"name": ANY_PAIR, "calibration": "published", "value": value})
    origin = aggregated.read_origin(NAME, "grid_10_10", out)
    origin |= {"command": f"python -m experiments {NAME} nulls"}
    aggregated.write_result(options, NAME, "nulls", lines=lines, origin=origin)


def errors_by_setting(lines: Sequence[Line]) -> np.ndarray:
    """f64[domains, epsilons, alphas, betas, rounds, depths]: mean errors; NaN where there is none.

    Args:
        lines: those of one calibration of an aggregated grid.
    """
    names = ("domain", "epsilon", "alpha", "beta_tree", "rounds")
    values = [distinct(lines, name) for name in names]
    errors = np.full((*map(len, values), len(GRID["depth"])), np.nan)
    for line in lines:
        place = tuple(
            of_axis.index(line[name]) for name, of_axis in zip(names, values, strict=True)
        )
        errors[place] = [
            np.nan if line[f"d{depth}"] is None else line[f"d{depth}"] for depth in GRID["depth"]
        ]
    return errors


def spread_ratio(errors: np.ndarray) -> float:
    """The spread of the best error over beta_tree, over that over numbers and depths of trees.

    Args:
        errors: as `errors_by_setting`.
    """
    of_beta = np.nanmin(errors, axis=(1, 2, 4, 5))
    of_size = np.nanmin(errors, axis=(1, 2, 3)).reshape(len(errors), -1)
    return float(np.ptp(of_beta, axis=1).sum() / np.ptp(of_size, axis=1).sum())


def null_values(lines: Sequence[Line]) -> dict[str, float]:
    """The nulls of one calibration: name -> number.

    Args:
        lines: those of one calibration of an aggregated grid.
    """
    errors = errors_by_setting(lines)
    ways = distinct(lines, "alpha")
    order = [[str(way) for way in ways].index(str(name)) for name in ALPHA_NAMES]
    by_way = np.nanmin(errors, axis=(1, 3, 4, 5))[:, order]
    name = f"{ANY_WAY}, without noise" if errors.shape[3] == 1 else ANY_WAY
    values = {name: 100 * float(np.mean(by_way.mean(axis=1) - by_way[:, 1:].min(axis=1)))}
    if errors.shape[3] == 1:
        return values
    rng, shape = np.random.default_rng(0), errors.shape
    settings = errors.reshape(*shape[:3], -1)
    shuffled = [
        spread_ratio(rng.permuted(settings, axis=-1).reshape(shape)) for _ in range(NUM_SHUFFLES)
    ]
    banknote = errors[distinct(lines, "domain").index("banknote")]
    means = np.nanmean(banknote, axis=(0, 2, 3, 4))[order]
    values[SHUFFLED] = float(np.mean(shuffled))
    values[ANY_WAY_ON_BANKNOTE] = 100 * float(means.mean() - means[1:].min())
    return values


def _mean_best_error(lines: Sequence[Line]) -> float:
    """The best error of each domain and epsilon, as their mean."""
    return float(np.mean(np.nanmin(errors_by_setting(lines), axis=(2, 3, 4, 5))))
