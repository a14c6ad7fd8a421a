"""Tables 1, 3 and 4 and the claims in words, under readings that have the whole grid.

The fits are those of `scan --whole`. A cell of Table 4 has twelve runs: three beta_tree times the
epsilons but one.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.common import aggregated
from experiments.common.data import NOCK_HENECKA
from experiments.common.estimates import mean_with_error
from experiments.common.results import Line
from experiments.papers.nock_henecka_2020.reading_tables import (
    CLAIMED_ERROR,
    LARGE_DEPTH,
    LARGE_ROUNDS,
    NORMAL_LIMIT,
    count_best_alphas,
    win_shares,
)
from experiments.papers.nock_henecka_2020.settings import (
    ALPHA_NAMES,
    EPSILONS,
    FOLDS,
    FOREST_DEPTHS,
    FORESTS,
    GRID,
    NAME,
)

ROUNDS = (2, 20)
SHALLOW = 3
"""Depths above are those of rather deep trees; the paper does not say."""


class WholeErrors(NamedTuple):
    """The errors of a domain under a reading.

    Attributes:
        boosted: f64[alpha, epsilon, beta_tree, T, D], means over folds.
        forests: f64[kind, budget, depth, epsilon], means over folds.
        test_rows: how many rows test.
    """

    boosted: np.ndarray
    forests: np.ndarray
    test_rows: float


def read_whole_errors(path: Path) -> WholeErrors | None:
    """The errors of a file of a reading and of the forests beside it, or None without them."""
    forests = path.with_name("forests.npz")
    if not (path.exists() and forests.exists()):
        return None
    with np.load(path) as fits, np.load(forests) as forest_fits:
        errors = fits["errors"].astype(float)
        test_rows = int(fits["rows"]) * errors.shape[-1] / FOLDS
        return WholeErrors(errors.mean(-1), forest_fits["errors"].mean(-1), test_rows)


def printed_cells() -> np.ndarray:
    """f64[domain, forest, depth, alpha, T]: Table 4 as printed; NaN where no number is."""
    axes: list[list] = [
        list(NOCK_HENECKA),
        list(FORESTS.values()),
        list(FOREST_DEPTHS),
        list(ALPHA_NAMES),
        list(ROUNDS),
    ]
    cells = np.full([len(axis) for axis in axes], np.nan)
    for at, number in aggregated.printed_numbers(NAME, "table-4"):
        place = (at["domain"], at["forest"], at["depth"], str(at["alpha"]), at["rounds"])
        cells[tuple(axis.index(value) for axis, value in zip(axes, place, strict=True))] = number
    return cells


def win_counts(one: WholeErrors, budget: int, left_out: float | None) -> tuple[np.ndarray, ...]:
    """i64[forest, depth, alpha, T] twice: the runs that boosting wins, and that it loses.

    Args:
        one: of a domain.
        budget: the place of the forests' budget.
        left_out: the epsilon that cells lack.
    """
    kept = [e for e, epsilon in enumerate(EPSILONS) if epsilon != left_out]
    t = [list(GRID["rounds"]).index(rounds) for rounds in ROUNDS]
    d = [list(GRID["depth"]).index(depth) for depth in FOREST_DEPTHS]
    boosted = one.boosted[:, kept][:, :, :, t][:, :, :, :, d]
    boosted = boosted.transpose(4, 0, 3, 1, 2)[None]  # 1, depth, alpha, T, epsilon, beta_tree
    rival = one.forests[:, budget][:, :, kept][:, :, None, None, :, None]
    variance = (boosted * (1 - boosted) + rival * (1 - rival)) / one.test_rows
    difference = np.round(boosted - rival, 9)
    limit = NORMAL_LIMIT * np.sqrt(variance)
    return tuple(np.sum(sign * difference > limit, axis=(4, 5)) for sign in (-1, 1))


class Measure(NamedTuple):
    """A number that the paper has, too.

    Attributes:
        measure: its name.
        value: under a reading.
        error: its standard error over domains, or None.
        paper: the paper's, in words.
        chance: what chance gets, in words.
    """

    measure: str
    value: float
    error: float | None = None
    paper: str | None = None
    chance: str | None = None


class Beside(NamedTuple):
    """What a reading stands beside.

    Attributes:
        budgets: the names of the forests' budgets.
        left_out: the epsilon that cells of Table 4 lack.
        table_1: i64[epsilon, alpha], as printed.
        coin: what a coin gets of Table 1.
    """

    budgets: Sequence[str]
    left_out: float
    table_1: np.ndarray
    coin: str


def whole_lines(by_reading: Mapping[str, Sequence[WholeErrors]], beside: Beside) -> Iterator[Line]:
    """One line for each reading and measure.

    Args:
        by_reading: reading -> the errors of all domains.
        beside: the paper and chance.
    """
    for reading, errors in by_reading.items():
        boosted = np.stack([one.boosted for one in errors])
        measures = (
            *_measures_of_tables_1_and_3(boosted, beside),
            *_measures_of_table_4(errors, beside),
            *_measures_of_words(boosted),
            *_measures_of_banknote(boosted[NOCK_HENECKA.index("banknote")]),
        )
        for measure in measures:
            yield {"kind": "whole", "reading": reading, **measure._asdict()}


def _measures_of_tables_1_and_3(boosted: np.ndarray, beside: Beside) -> Iterator[Measure]:
    """Counts of Table 1, and sizes of Table 3; errors are [domain, alpha, ..., T, D]."""
    best = np.round(np.swapaxes(boosted.min((3, 4, 5)), 1, 2), 9)
    away = float(np.abs(count_best_alphas(best) - beside.table_1).sum())
    yield Measure("Table 1: counts away", away, paper="0", chance=beside.coin)
    for name, share, chance in _table_3_shares(boosted, np.random.default_rng(0)):
        yield Measure(f"Table 3: {name}, of 14", share, paper="14", chance=chance)


def _measures_of_table_4(errors: Sequence[WholeErrors], beside: Beside) -> Iterator[Measure]:
    """Distances to Table 4, and its last line."""
    printed = printed_cells()
    constant = np.nanmean(np.abs(printed - np.nanmedian(printed)), axis=(1, 2, 3, 4))
    for k, budget in enumerate(beside.budgets):
        counts = [win_counts(one, k, beside.left_out) for one in errors]
        won, lost = (np.stack([one[side] for one in counts]) for side in (0, 1))
        share = np.where(won + lost, 100 * won / np.maximum(won + lost, 1), 50.0)
        away = mean_with_error(np.nanmean(np.abs(share - printed), axis=(1, 2, 3, 4)))
        chance, words = f"constant: {constant.mean():.1f}", f"forests at {budget}"
        yield Measure(f"Table 4: points away, {words}", *away, paper="0", chance=chance)
        overall = 100 * won.sum((0, 2)) / np.maximum((won + lost).sum((0, 2)), 1)
        few, many = float(overall[..., 0].min()), float(overall[:, [0, 2], 1].min())
        yield Measure(f"wins at T = 2, least percent, {words}", few, None, "53", "50")
        name = f"wins at T = 20 of O.C. and 1, least percent, {words}"
        yield Measure(name, many, None, "82", "50")


def _measures_of_words(boosted: np.ndarray) -> Iterator[Measure]:
    """Claims of all domains; errors are [domain, alpha, epsilon, beta_tree, T, D]."""
    objective, tenth, one = (of.reshape(len(of), -1) for of in np.moveaxis(boosted, 1, 0))
    behind = 100 * (objective.min(1) - np.minimum(tenth.min(1), one.min(1)))
    name = "best O.C. behind the better constant, points"
    yield Measure(name, *mean_with_error(behind), paper="0")
    shares = mean_with_error(win_shares(one, tenth))
    yield Measure("alpha 1 beats 0.1, percent of settings", *shares, paper="> 50", chance="50")
    by_beta_tree = boosted.min((1, 2, 4, 5))
    by_size = boosted.min((1, 2, 3)).reshape(len(boosted), -1)
    ratio = float(np.ptp(by_beta_tree, axis=1).mean() / np.ptp(by_size, axis=1).mean())
    yield Measure("spread over beta_tree by that over size", ratio, paper="small")


def _measures_of_banknote(errors: np.ndarray) -> Iterator[Measure]:
    """Claims of banknote, f64[alpha, epsilon, beta_tree, T, D]."""
    for alpha, of_alpha in zip(ALPHA_NAMES, errors, strict=True):
        within = 100 * float(np.mean(of_alpha <= CLAIMED_ERROR))
        paper = "> 66.7" if alpha == ALPHA_NAMES[0] else None
        yield Measure(f"banknote: {alpha}, at most 20 %, percent", within, paper=paper)
        mean = 100 * float(of_alpha.mean())
        yield Measure(f"banknote: {alpha}, mean error, percent", mean)
    best_tenth = np.argsort(errors, axis=None, kind="stable")[: errors.size // 10]
    is_deep = np.broadcast_to(np.array(GRID["depth"]) > SHALLOW, errors.shape)
    deep = 100 * float(is_deep.ravel()[best_tenth].mean())
    name = "banknote: deep trees in the best tenth, percent"
    yield Measure(name, deep, paper="most", chance="50")


def _table_3_shares(
    boosted: np.ndarray, rng: np.random.Generator
) -> Iterator[tuple[str, float, str]]:
    """What agrees with Table 3, on how many of its domains, and on how many if it is shuffled."""
    own, printed = [], []
    for at, text in aggregated.printed_texts(NAME, "table-3"):
        mean = boosted[NOCK_HENECKA.index(at["domain"])].min((0, 1, 2))
        t, d = np.unravel_index(np.argmin(mean), mean.shape)
        own.append((GRID["depth"][d] >= LARGE_DEPTH, GRID["rounds"][t] >= LARGE_ROUNDS))
        depth, rounds = text.split(", ")
        printed.append((depth == "big d", rounds == "big T"))
    own_sizes, printed_sizes = np.array(own), np.array(printed)
    orders = [rng.permutation(len(printed)) for _ in range(500)]
    names = {"depth": [0], "number of trees": [1], "both": [0, 1]}
    for name, columns in names.items():
        agrees, *shuffled = (
            int(np.all(own_sizes[:, columns] == of[:, columns], axis=1).sum())
            for of in (printed_sizes, *(printed_sizes[order] for order in orders))
        )
        yield name, float(agrees), f"{np.mean(shuffled):.1f} ± {np.std(shuffled):.1f}"


def whole_table(lines: Sequence[Line], words: Mapping[str, str]) -> tuple[list[str], list[tuple]]:
    """The head and the rows: a measure in each, and the readings as columns.

    Args:
        lines: those of `whole_lines`.
        words: reading -> its words.
    """
    readings = list(dict.fromkeys(line["reading"] for line in lines))
    rows = []
    for measure in dict.fromkeys(line["measure"] for line in lines):
        of_measure = [line for line in lines if line["measure"] == measure]
        cells = []
        for reading in readings:
            (line,) = [one for one in of_measure if one["reading"] == reading]
            error = "" if line["error"] is None else f" ± {line['error']:.1f}"
            digits = 0 if float(line["value"]).is_integer() else 2 if line["value"] < 1 else 1
            cells.append(f"{line['value']:.{digits}f}{error}")
        beside = (of_measure[0][name] for name in ("paper", "chance"))
        rows.append((measure, *("" if one is None else str(one) for one in beside), *cells))
    return ["measure", "the paper's", "chance", *(words[reading] for reading in readings)], rows
