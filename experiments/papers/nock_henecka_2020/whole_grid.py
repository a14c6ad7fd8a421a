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


def whole_lines(
    by_reading: Mapping[str, Sequence[WholeErrors]],
    budgets: Sequence[str],
    left_out: float,
    printed_table_1: np.ndarray,
    coin: str,
) -> Iterator[Line]:
    """One line for each reading and measure, with the paper's number and that of chance.

    Args:
        by_reading: reading -> the errors of all domains.
        budgets: the names of the forests' budgets.
        left_out: the epsilon that cells of Table 4 lack.
        printed_table_1: as in the paper.
        coin: what a coin gets of Table 1.
    """
    printed, rng = printed_cells(), np.random.default_rng(0)
    constant = np.nanmean(np.abs(printed - np.nanmedian(printed)), axis=(1, 2, 3, 4))
    for reading, errors in by_reading.items():

        def line(name: str, value: float, error: float | None, paper: str, chance: str) -> Line:
            head: Line = {"kind": "whole", "reading": reading, "measure": name}  # noqa: B023
            return head | {"value": value, "error": error, "paper": paper, "chance": chance}

        boosted = np.stack([one.boosted for one in errors])
        best = boosted.min((3, 4, 5))  # domain, alpha, epsilon
        counts = count_best_alphas(np.round(np.swapaxes(best, 1, 2), 9))
        away = float(np.abs(counts - printed_table_1).sum())
        yield line("Table 1: counts away", away, None, "0", coin)
        for name, share, by_chance in _table_3_shares(boosted, rng):
            yield line(f"Table 3: {name}, of 14", share, None, "14", by_chance)
        for k, budget in enumerate(budgets):
            wins = [win_counts(one, k, left_out) for one in errors]
            won, lost = (np.stack([one[side] for one in wins]) for side in (0, 1))
            share = np.where(won + lost, 100 * won / np.maximum(won + lost, 1), 50.0)
            distance = np.nanmean(np.abs(share - printed), axis=(1, 2, 3, 4))
            yield line(
                f"Table 4: points away, forests at {budget}",
                *mean_with_error(distance),
                "0",
                f"constant: {constant.mean():.1f}",
            )
            overall = 100 * won.sum((0, 2)) / np.maximum((won + lost).sum((0, 2)), 1)
            few, many = overall[..., 0], overall[:, [0, 2], 1]
            yield line(
                f"wins at T = 2, least percent, forests at {budget}",
                float(few.min()), None, "53", "50",
            )  # fmt: skip
            yield line(
                f"wins at T = 20 of O.C. and 1, least percent, forests at {budget}",
                float(many.min()), None, "82", "50",
            )  # fmt: skip
        objective, tenth, one = np.moveaxis(boosted, 1, 0)
        smallest = [of.reshape(len(of), -1).min(1) for of in (objective, tenth, one)]
        behind = 100 * (smallest[0] - np.minimum(smallest[1], smallest[2]))
        yield line(
            "best O.C. behind the better constant, points", *mean_with_error(behind), "0", ""
        )
        shares = win_shares(one.reshape(len(one), -1), tenth.reshape(len(tenth), -1))
        yield line("alpha 1 beats 0.1, percent of settings", *mean_with_error(shares), "> 50", "50")
        flat = {
            name: np.ptp(np.moveaxis(boosted, places, range(1, 1 + len(places))).reshape(
                len(boosted), int(np.prod([boosted.shape[p] for p in places])), -1
            ).min(2), axis=1)
            for name, places in {"beta_tree": (3,), "size": (4, 5)}.items()
        }  # fmt: skip
        ratio = float(flat["beta_tree"].mean() / flat["size"].mean())
        yield line("spread over beta_tree by that over size", ratio, None, "small", "")
        banknote = boosted[NOCK_HENECKA.index("banknote")]
        for k, alpha in enumerate(ALPHA_NAMES):
            within = 100 * float(np.mean(banknote[k] <= CLAIMED_ERROR))
            paper = "> 66.7" if k == 0 else ""
            yield line(f"banknote: {alpha} of at most 20 %, percent", within, None, paper, "")
            mean = 100 * float(banknote[k].mean())
            yield line(f"banknote: mean error of {alpha}, percent", mean, None, "", "")
        best_tenth = np.argsort(banknote, axis=None, kind="stable")[: banknote.size // 10]
        is_deep = np.broadcast_to(np.array(GRID["depth"]) > SHALLOW, banknote.shape)
        deep = 100 * float(is_deep.ravel()[best_tenth].mean())
        yield line("banknote: deep trees in the best tenth, percent", deep, None, "most", "50")


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
