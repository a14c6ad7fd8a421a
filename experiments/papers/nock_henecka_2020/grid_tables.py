"""Tables 1, 3 and 4, what v_q = 50 changes, and the claims in words, computed from a grid."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from experiments.common import data, protocols
from experiments.common.estimates import Estimate, mean_with_error
from experiments.common.results import Line
from experiments.papers.nock_henecka_2020.saved import NONE, Fits, Grid, Setting
from experiments.papers.nock_henecka_2020.settings import (
    ALPHA_NAMES,
    ALPHAS,
    EPSILONS,
    FOLDS,
    FOREST_DEPTHS,
    FORESTS,
    GRID,
    PAPER_BINS,
    PAPER_CLIPS,
    PRIVATE,
)

BEST = "best"
TIE = 1e-9
MAX_SMALL = {"depth": 3, "rounds": 5}
"""A depth or a number of trees up to this is small in Table 3; the paper does not say."""

TABLE_4_ROUNDS = (2, 20)
QUARTILE = 75


class Best(NamedTuple):
    """The best of some settings.

    Attributes:
        error: the smallest mean error; infinite without a setting.
        setting: the first setting of this error, or None.
    """

    error: float
    setting: Setting | None


def find_best(fits: Fits, **values: Any) -> Best:
    """The best of the settings that have these values of these axes."""
    places = fits.find_settings(**values)
    if not len(places):
        return Best(float("inf"), None)
    errors = fits.mean[places]
    first = places[np.flatnonzero(errors <= errors.min() + TIE)[0]]
    return Best(float(fits.mean[first]), fits.settings[first])


def best_fold_errors(fits: Fits, **values: Any) -> np.ndarray:
    """f64[fold], the test errors of the best of the settings with these values of these axes.

    Raises:
        ValueError: if there is no such setting.
    """
    best = find_best(fits, **values)
    if best.setting is None:
        raise ValueError(f"no setting has {values}")
    return fits.folds[fits.settings.index(best.setting)]


def table_1_lines(grid: Grid) -> list[Line]:
    """The number of domains on which each way to set alpha is best; ties count for all."""
    lines = []
    for calibration, epsilon in itertools.product(grid.calibrations, EPSILONS):
        names = grid.complete_domains(calibration)
        if not names:
            continue
        errors = {
            name: [
                find_best(grid.fits[name][calibration], epsilon=epsilon, alpha=way).error
                for way in ALPHA_NAMES
            ]
            for name in names
        }
        for k, way in enumerate(ALPHA_NAMES):
            wins = sum(best_errors[k] <= min(best_errors) + TIE for best_errors in errors.values())
            lines.append(
                {
                    "calibration": calibration,
                    "epsilon": epsilon,
                    "alpha": way,
                    "count": wins,
                    "domains": len(names),
                    "best_error_mean": float(
                        np.mean([best_errors[k] for best_errors in errors.values()])
                    ),
                }
            )
    return lines


def table_3_lines(grid: Grid) -> list[Line]:
    """The depth and the number of trees of the best private setting of each domain."""
    lines = []
    for calibration in grid.calibrations:
        for name in grid.complete_domains(calibration):
            error, best = find_best(grid.fits[name][calibration])
            if best is None:
                continue
            sizes = {
                axis: "small" if getattr(best, axis) <= max_small else "big"
                for axis, max_small in MAX_SMALL.items()
            }
            lines.append(
                {
                    "calibration": calibration,
                    "domain": name,
                    "depth": best.depth,
                    "rounds": best.rounds,
                    "epsilon": best.epsilon,
                    "error": error,
                    "place": f"{sizes['depth']} d, {sizes['rounds']} T",
                }
            )
    return lines


class Runs(NamedTuple):
    """Test errors by fold of runs of boosted trees, and of a forest at their budgets.

    Attributes:
        epsilon: f64[run].
        boosted: f64[run, fold].
        forest: f64[run, fold].
    """

    epsilon: np.ndarray
    boosted: np.ndarray
    forest: np.ndarray


def table_4_lines(grid: Grid, forests: Mapping[str, Mapping[tuple, np.ndarray]]) -> list[Line]:
    """How often boosted trees win against a forest, among significant differences.

    A run is an epsilon and a beta_tree; the test is Student's paired t-test over folds at 0.01.
    """
    lines = []
    for calibration in grid.calibrations:
        for name in grid.complete_domains(calibration):
            fits, forest_errors = grid.fits[name][calibration], forests.get(name, {})
            cells = itertools.product(FOREST_DEPTHS, TABLE_4_ROUNDS, ALPHA_NAMES, FORESTS.values())
            for depth, rounds, way, kind in cells:
                places = [
                    place
                    for place in fits.find_settings(depth=depth, rounds=rounds, alpha=way)
                    if (kind, fits.settings[place].epsilon, depth, calibration) in forest_errors
                ]
                if places:
                    epsilons = [fits.settings[place].epsilon for place in places]
                    rivals = [
                        forest_errors[kind, epsilon, depth, calibration] for epsilon in epsilons
                    ]
                    runs = Runs(np.asarray(epsilons), fits.folds[places], np.stack(rivals))
                    head = {"calibration": calibration, "domain": name, "depth": depth}
                    head |= {"rounds": rounds, "alpha": way, "forest": kind}
                    lines.append(head | _count_wins(runs))
    return lines


def _count_wins(runs: Runs) -> Line:
    """Wins, losses and the percentage of wins; those at the smallest and largest epsilon, too."""
    boosted, forest = (jnp.asarray(errors, jnp.float32) for errors in (runs.boosted, runs.forest))
    sign = np.asarray(protocols.significant_sign(boosted, forest))
    wins, losses = int((sign < 0).sum()), int((sign > 0).sum())
    ends = {}
    for words, epsilon in (("low", EPSILONS[0]), ("high", EPSILONS[-1])):
        ends[f"wins_{words}"] = int((sign[runs.epsilon == epsilon] < 0).sum())
        ends[f"losses_{words}"] = int((sign[runs.epsilon == epsilon] > 0).sum())
    return {
        "runs": len(sign),
        "wins": wins,
        "losses": losses,
        "percent": 100 * wins / (wins + losses) if wins + losses else None,
        **ends,
    }


def table_4_totals(lines: Sequence[Line]) -> list[Line]:
    """The last line of Table 4: all domains and depths together."""
    totals = []
    axes = ("calibration", "rounds", "alpha", "forest")
    for key in dict.fromkeys(tuple(line[axis] for axis in axes) for line in lines):
        of_key = [line for line in lines if tuple(line[axis] for axis in axes) == key]
        total = {name: sum(line[name] for line in of_key) for name in ("runs", "wins", "losses")}
        decided = total["wins"] + total["losses"]
        ends, errors = {}, []
        for words in ("low", "high"):
            wins, losses = (
                sum(line[f"{kind}_{words}"] for line in of_key) for kind in ("wins", "losses")
            )
            ends[f"percent_{words}"] = 100 * wins / (wins + losses) if wins + losses else None
            errors.append(_percent_error(wins, losses))
        if None not in ends.values():
            ends["low_minus_high"] = ends["percent_low"] - ends["percent_high"]
            ends["low_minus_high_error"] = float(np.hypot(*errors))
        totals.append(
            {
                **dict(zip(axes, key, strict=True)),
                "domains": len({line["domain"] for line in of_key}),
                **total,
                "percent": 100 * total["wins"] / decided if decided else None,
                "undecided": 100 * (total["runs"] - decided) / total["runs"],
                **ends,
            }
        )
    return totals


def _percent_error(wins: int, losses: int) -> float:
    """The standard error of a percentage of wins; four imagined trials keep it above 0."""
    share = (wins + 2) / (wins + losses + 4)
    return 100 * float(np.sqrt(share * (1 - share) / (wins + losses + 4)))


def bin_lines(main: Grid, fine: Grid) -> list[Line]:
    """What v_q = 50 changes in the best error of each domain, in points.

    There is a line for each way to set alpha, and one for the best of all ways (BEST). Numbers in
    points are:

    - gain: the error at 10 less that at 50;
    - favour: the gain less the largest gain of another way;
    - above: the error at 50 less the smallest one of another way;
    - quartile_gain: the third quartile of all runs' errors at 10 less that at 50.

    Standard errors are over folds, as if the best settings had been fixed before.
    """
    lines = []
    for calibration in fine.calibrations:
        for name in fine.complete_domains(calibration):
            if name in main.complete_domains(calibration):
                few, many = (grid.fits[name][calibration] for grid in (main, fine))
                head: Line = {"calibration": calibration, "domain": name}
                lines += [head | line for line in _bin_lines_of_domain(few, many)]
    return lines


def _bin_lines_of_domain(few: Fits, many: Fits) -> list[Line]:
    """The lines of one domain."""
    lines = []
    for way in (*ALPHA_NAMES, BEST):
        values = {} if way == BEST else {"alpha": way}
        few_errors, many_errors = (best_fold_errors(fits, **values) for fits in (few, many))
        line: Line = {"alpha": way, "error_10": few_errors.mean(), "error_50": many_errors.mean()}
        line |= _mean_in_points("gain", few_errors - many_errors)
        line |= dict.fromkeys(("favour", "favour_error", "above", "above_error"))
        if way != BEST:
            other_ways = [name for name in ALPHA_NAMES if name != way]
            other_few, other_many = (
                [best_fold_errors(fits, alpha=name) for name in other_ways] for fits in (few, many)
            )
            gains = [a - b for a, b in zip(other_few, other_many, strict=True)]
            largest_gain = max(gains, key=np.mean)
            line |= _mean_in_points("favour", few_errors - many_errors - largest_gain)
            line |= _mean_in_points("above", many_errors - min(other_many, key=np.mean))
        few_runs, many_runs = (fits.folds[fits.find_settings(**values)] for fits in (few, many))
        lines.append(line | _quartile_gain(few_runs, many_runs))
    return lines


def _quartile_gain(few: np.ndarray, many: np.ndarray) -> Line:
    """What the third quartile of mean errors gains, in points; its error is a jackknife's.

    Args:
        few: f64[setting, fold], the errors at 10.
        many: the same at 50.
    """

    def gain(used_folds: np.ndarray) -> float:
        few_quartile, many_quartile = (
            np.percentile(errors[:, used_folds].mean(axis=1), QUARTILE) for errors in (few, many)
        )
        return 100 * float(few_quartile - many_quartile)

    count = few.shape[1]
    folds = np.arange(count)
    gains_without_a_fold = [gain(folds[folds != fold]) for fold in folds]
    error = float(np.sqrt(count - 1) * np.std(gains_without_a_fold))
    return {"quartile_gain": gain(folds), "quartile_gain_error": error}


def _mean_in_points(name: str, folds: np.ndarray) -> Line:
    """A mean over folds in points, and its standard error."""
    mean, error = mean_with_error(100 * folds)
    return {name: mean, f"{name}_error": error}


def criterion_lines(grid: Grid, criterion_fits: Mapping[str, Fits], way: str) -> list[Line]:
    """Mean best errors with alpha in the criterion alone, and in the criterion and the link.

    Args:
        grid: has the tight calibration, where a number for alpha sets both.
        criterion_fits: domain -> its fits with alpha in the criterion alone.
        way: how alpha is set.
    """
    names, lines = [name for name in grid.complete_domains("tight") if name in criterion_fits], []
    for epsilon in EPSILONS if names else ():
        both = [
            find_best(grid.fits[name]["tight"], epsilon=epsilon, alpha=way).error for name in names
        ]
        criterion_alone = [find_best(criterion_fits[name], epsilon=epsilon).error for name in names]
        line: Line = {"calibration": "tight", "epsilon": epsilon, "alpha": way}
        line |= {"domains": len(names), "criterion_alone": float(np.mean(criterion_alone))}
        lines.append(line | {"criterion_and_link": float(np.mean(both))})
    return lines


BANKNOTE_ERROR = 0.2
Measures = dict[str, Estimate]
"""Name of a claim -> its number."""


def claim_lines(grid: Grid, fine: Grid | None = None) -> list[Line]:
    """The claims, each as one number for each calibration.

    A standard error is over domains, as if they were drawn from many.

    Args:
        grid: the fits of v_q = 10 and M = 10.
        fine: those of v_q = 50.
    """
    lines = []
    for calibration in (NONE, *grid.calibrations):
        names = grid.complete_domains(calibration)
        if not names:
            continue
        fits = {name: grid.fits[name][calibration] for name in names}
        by_name = _noise_free_measures(fits) if calibration == NONE else _private_measures(fits)
        lines += _claim_lines_of_measures(calibration, len(names), by_name)
        both = (
            []
            if fine is None
            else [name for name in fine.complete_domains(calibration) if name in fits]
        )
        if fine is not None and both and calibration != NONE:
            gains = [
                100 * (find_best(fits[name]).error - find_best(fine.fits[name][calibration]).error)
                for name in both
            ]
            measures: Measures = {
                "gain of the best error by v_q = 50, points": mean_with_error(gains)
            }
            lines += _claim_lines_of_measures(calibration, len(both), measures)
    return lines


def _claim_lines_of_measures(calibration: str, domains: int, measures: Measures) -> list[Line]:
    head: Line = {"calibration": calibration, "domains": domains}
    return [
        {"name": name, **head, "value": value}
        | {"error": None if error is None or np.isnan(error) else error}
        for name, (value, error) in measures.items()
    ]


def count_models(noise_free: int) -> int:
    """The models of the paper's grid, if runs without noise count this often for each v_q."""
    sizes = len(GRID["rounds"]) * len(GRID["depth"]) * len(ALPHAS)
    private = len(EPSILONS) * len(PRIVATE["beta_tree"]) * len(PAPER_CLIPS)
    return len(PAPER_BINS) * sizes * (private + noise_free) * len(data.NOCK_HENECKA) * FOLDS


def _noise_free_measures(fits: Mapping[str, Fits]) -> Measures:
    """Claims about boosting without privacy, and the size of the grid."""
    wins, differing, gaps = [], [], []
    for domain_fits in fits.values():
        better = []
        for rounds, depth in itertools.product(GRID["rounds"], GRID["depth"]):
            error_of_1, error_of_tenth = (
                find_best(domain_fits, alpha=way, rounds=rounds, depth=depth).error
                for way in ("1.0", "0.1")
            )
            if abs(error_of_1 - error_of_tenth) > TIE:
                better.append(error_of_1 < error_of_tenth - TIE)
        wins.append(100 * sum(better))
        differing.append(len(better))
        gaps.append(_objective_above_constants(domain_fits))
    measures: Measures = {
        "alpha 1 beats 0.1, percent of settings": _ratio_with_error(wins, differing),
        "best O.C. above the better constant, points": mean_with_error(gaps),
        "models of the grid, runs without noise for each M": Estimate(
            count_models(len(PAPER_CLIPS))
        ),
        "models of the grid, runs without noise once": Estimate(count_models(1)),
    }
    for way in ALPHA_NAMES if "banknote" in fits else ():
        name = f"banknote noise-free runs of at most 20 %, {way}, percent"
        measures[name] = Estimate(_percent_accurate(fits["banknote"], way))
    return measures


def _objective_above_constants(fits: Fits) -> float:
    """The best error of objective calibration less that of the better constant, in points."""
    errors = [find_best(fits, alpha=way).error for way in ALPHA_NAMES]
    return 100 * (errors[0] - min(errors[1:]))


def _percent_accurate(fits: Fits, way: str) -> float:
    """The percentage of the runs of an alpha that have an error of at most BANKNOTE_ERROR."""
    return 100 * float(np.mean(fits.mean[fits.find_settings(alpha=way)] <= BANKNOTE_ERROR))


def _ratio_with_error(tops: Sequence[float], bottoms: Sequence[float]) -> Estimate:
    """The ratio of two sums over domains, and its standard error; NaN over 0."""
    top, bottom = np.asarray(tops, float), np.asarray(bottoms, float)
    if not bottom.sum():
        return Estimate(float("nan"), float("nan"))
    ratio = top.sum() / bottom.sum()
    _, error = mean_with_error((top - ratio * bottom) / bottom.mean())
    return Estimate(float(ratio), error)


def _objective_wins_ahead(wins: np.ndarray) -> Estimate:
    """Wins of objective calibration less those of the better constant, and the standard error.

    Args:
        wins: f64[domain, way].
    """
    better_constant = 1 + int(np.argmax(wins[:, 1:].sum(axis=0)))
    mean = mean_with_error(wins[:, 0] - wins[:, better_constant])
    return Estimate(round(mean.value * len(wins)), mean.standard_error * len(wins))


def _private_measures(fits: Mapping[str, Fits]) -> Measures:
    """Claims about boosting with privacy."""
    measures: Measures = {}
    if "banknote" in fits:
        share = _percent_accurate(fits["banknote"], ALPHA_NAMES[0])
        measures["banknote O.C. runs of at most 20 %, percent"] = Estimate(share)
    wins = np.asarray(
        [
            [_is_alpha_best(domain_fits, epsilon) for domain_fits in fits.values()]
            for epsilon in EPSILONS
        ],
        float,
    )
    for epsilon, domain_wins in zip(EPSILONS[:2], wins, strict=False):
        name = f"domains of O.C. less those of the better constant, epsilon {epsilon:g}"
        measures[name] = _objective_wins_ahead(domain_wins)
    name = "domains of O.C. less those of the better constant, all epsilons"
    measures[name] = _objective_wins_ahead(wins.sum(axis=0))
    gaps = [_objective_above_constants(domain_fits) for domain_fits in fits.values()]
    measures["best private O.C. above the better constant, points"] = mean_with_error(gaps)
    spreads = {"beta_tree": [], "size": []}
    for domain_fits in fits.values():
        betas = [{"beta_tree": beta} for beta in np.unique(domain_fits.axes["beta_tree"])]
        sizes = itertools.product(GRID["rounds"], GRID["depth"])
        spreads["beta_tree"].append(_spread_of_best(domain_fits, betas))
        spreads["size"].append(
            _spread_of_best(domain_fits, [{"rounds": t, "depth": d} for t, d in sizes])
        )
    for axis, values in spreads.items():
        measures[f"spread of the best error over {axis}, points"] = mean_with_error(values)
    name = "spread over beta_tree as part of that over size"
    measures[name] = _ratio_with_error(spreads["beta_tree"], spreads["size"])
    return measures


def _is_alpha_best(fits: Fits, epsilon: float) -> list[bool]:
    """Which ways to set alpha are best at an epsilon; ties count for all."""
    errors = [find_best(fits, epsilon=epsilon, alpha=way).error for way in ALPHA_NAMES]
    return [error <= min(errors) + TIE for error in errors]


def _spread_of_best(fits: Fits, groups: Sequence[Mapping]) -> float:
    """The largest less the smallest best error of groups of settings, in points."""
    errors = [find_best(fits, **group).error for group in groups]
    errors = [error for error in errors if np.isfinite(error)]
    return 100 * (max(errors) - min(errors))
