"""What the scan of readings says, as lines and as tables of a page.

A line has one reading. Distances to Table 4 are those of its cells at depth 2: of each cell, the
share of runs that boosting wins, in percent, of those that one side wins. A win is a difference of
mean errors beyond a z-test over rows at 0.01, as in the study of the step. The paper calls over
96 % of the differences significant, which none of our tests does. So distances are also taken with
every difference for a win. A cell without a win counts as 50. A cell of the paper has four
epsilons, so one is left out.
"""

import hashlib
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from dpbt import sweeps
from experiments.common import aggregated, data, pages, results
from experiments.common.data import NOCK_HENECKA
from experiments.common.estimates import Estimate, mean_with_error
from experiments.common.results import Line, where
from experiments.common.tables import markdown_table
from experiments.papers.nock_henecka_2020.leaf_losses import CHANGES, SCALES, leaf_loss_lines
from experiments.papers.nock_henecka_2020.options import FURTHER_READINGS, LEAF_READINGS
from experiments.papers.nock_henecka_2020.reading_tables import (
    CLAIMED_ERROR,
    NEAR,
    NORMAL_LIMIT,
    count_best_alphas,
)
from experiments.papers.nock_henecka_2020.run import BINS
from experiments.papers.nock_henecka_2020.saved import reading_files
from experiments.papers.nock_henecka_2020.settings import (
    ALPHA_NAMES,
    EPSILONS,
    FOLDS,
    FORESTS,
    NAME,
    SEED,
)
from experiments.papers.nock_henecka_2020.whole_grid import (
    Beside,
    read_whole_errors,
    whole_lines,
    whole_table,
)

BANKNOTE = "banknote"
SCANNED_READINGS = {**LEAF_READINGS, **FURTHER_READINGS}
DEPTH, ROUNDS = 2, (2, 20)
LEFT_OUT = 25.0
"""The epsilon that cells of Table 4 leave out."""

LEVEL, DRAWS, SHOWN = 0.01, 500, 8
MIN_ACCURATE = 2 / 3
"""The paper's share of banknote is larger."""

BUDGETS: Mapping[str, Callable[[int, int], float]] = {
    "epsilon / (21 2^h)": lambda trees, depth: trees * 2.0**depth,
    "epsilon / 2^h": lambda trees, depth: 2.0**depth,
    "epsilon / 21": lambda trees, depth: float(trees),
}
"""The budget of a leaf of a forest -> what epsilon is divided by, of (trees, depth)."""

TESTS = ("paired t-test over folds", "unpaired t-test over folds", "z-test over rows")


# The files of a scan.


def folder_of_bins(folder: Path, bins: int) -> Path:
    """The folder of the domains with v_q = `bins`; those of v_q = 10 are in the scan's own."""
    return folder if bins == BINS else folder / f"bins_{bins}"


def path_of_reading(folder: Path, name: str) -> Path:
    """The file of the fits of a reading in the folder of a domain."""
    return folder / f"{hashlib.sha256(name.encode()).hexdigest()[:12]}.npz"


def save(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays to a file, which is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part.npz")
    named: Any = arrays
    np.savez(part, **named)
    part.replace(path)


class DomainErrors(NamedTuple):
    """The errors of a domain under a reading.

    Attributes:
        boosted: f32[alpha, epsilon, T, fold], at beta_tree = 0.5 and depth 2.
        forests: f32[kind, budget, epsilon, fold].
        test_rows: how many rows test in all these folds.
        banknote: f32[epsilon, beta_tree, T, D, fold], of the whole grid with objective calibration;
            None of other domains.
    """

    boosted: np.ndarray
    forests: np.ndarray
    test_rows: float
    banknote: np.ndarray | None


def read_domain_errors(folder: Path, reading: str) -> DomainErrors | None:
    """The errors of a domain under a reading, or None without them."""
    path, forests = path_of_reading(folder, reading), folder / "forests.npz"
    if not (path.exists() and forests.exists()):
        return None
    with np.load(path) as fits, np.load(forests) as forest_fits:
        boosted = fits["errors"]
        return DomainErrors(
            boosted=boosted,
            forests=forest_fits["errors"],
            test_rows=int(fits["rows"]) * boosted.shape[-1] / FOLDS,
            banknote=fits.get("banknote"),
        )


# The lines.


def write_lines(folder: Path, library: Path, banknote: data.Dataset) -> None:
    """Write the lines of the saved fits, if there are any, and those of the losses of leaves.

    Args:
        folder: of the scan.
        library: the folder of the fits of `readings leaves`; they are compared if there are any.
        banknote: the data set of the losses.
    """
    lines = list(scan_lines(folder))
    if lines:
        lines += [*agreement_lines(folder, library), *leaf_loss_lines(banknote)]
        empty = dict.fromkeys(name for name in COLUMNS if name not in ("seed", "commit"))
        results.write_csv(folder / "lines.csv", [empty | line for line in lines], {"seed": SEED})


class Printed(NamedTuple):
    """What a line stands beside.

    Attributes:
        table_1: i64[epsilon, alpha].
        table_4: f64[domain, forest, alpha, T].
        nearest: f64[domain], the distances to Table 4 of the nearest reading.
    """

    table_1: np.ndarray
    table_4: np.ndarray
    nearest: np.ndarray


def scan_lines(folder: Path) -> Iterator[Line]:
    """The line of chance, and one for each reading that has been fitted on all domains.

    After them come those of readings with the whole grid, and of the epsilon that is left out.
    """
    by_reading: dict[str, list[DomainErrors]] = {}
    for reading in SCANNED_READINGS:
        errors = [read_domain_errors(folder / name, reading) for name in NOCK_HENECKA]
        complete = [one for one in errors if one is not None]
        if len(complete) == len(errors):
            by_reading[reading] = complete
    if not by_reading:
        return
    rng = np.random.default_rng(0)
    table_1, table_4 = printed_table_1(), printed_table_4()
    cells = {
        reading: [cells_of_table_4(errors, budget) for budget in range(len(BUDGETS))]
        for reading, errors in by_reading.items()
    }
    chance = _chance_line(cells, table_1, table_4, rng)
    yield chance
    nearest = min(
        (
            distances(of_budget, table_4)
            for of_reading in cells.values()
            for of_budget in of_reading
        ),
        key=lambda away: float(np.mean(away)),
    )
    printed = Printed(table_1, table_4, nearest)
    for reading, errors in by_reading.items():
        yield _head(reading) | _columns_of_reading(errors, cells[reading], printed, rng)

    whole = {}
    for reading in by_reading:
        paths = (path_of_reading(folder / name / "whole", reading) for name in NOCK_HENECKA)
        errors_of_grid = [read_whole_errors(path) for path in paths]
        complete_grid = [one for one in errors_of_grid if one is not None]
        if len(complete_grid) == len(errors_of_grid):
            whole[reading] = complete_grid
    coin = f"{chance['table_1']:.0f} ± {chance['table_1_sd']:.0f}"
    yield from whole_lines(whole, Beside(list(BUDGETS), LEFT_OUT, table_1, coin))
    for left_out in (None, *EPSILONS):
        yield _left_out_line(by_reading, table_4, left_out)


def _columns_of_reading(
    errors: Sequence[DomainErrors],
    cells: Sequence[np.ndarray],
    printed: Printed,
    rng: np.random.Generator,
) -> Line:
    """What a reading has of the paper's tables, and what the same has by chance.

    Args:
        errors: of each domain.
        cells: those of Table 4, for each budget of the forests.
        printed: the paper's.
        rng: shuffles the domains.
    """
    line = _banknote_columns(errors[NOCK_HENECKA.index(BANKNOTE)])
    best_errors = np.stack([one.boosted.mean(-1).min(2) for one in errors])
    counts = count_best_alphas(np.round(np.swapaxes(best_errors, 1, 2), 9))
    line["table_1"] = int(np.abs(counts - printed.table_1).sum())
    for k, (budget, of_budget) in enumerate(zip(BUDGETS, cells, strict=True)):
        away = distances(of_budget, printed.table_4)
        line[f"table_4 {budget}"], line[f"table_4_error {budget}"] = mean_with_error(away)
        line[f"near {budget}"] = _share_near(of_budget, printed.table_4)
        by_sign = cells_of_table_4(errors, k, limit=0.0)
        line[f"by_sign {budget}"] = float(np.mean(distances(by_sign, printed.table_4)))

    # The rest is of the forests' budget that is nearest to Table 4.
    own = min(cells, key=lambda one: float(np.mean(distances(one, printed.table_4))))
    away = distances(own, printed.table_4)
    constant = constant_distances(printed.table_4)
    line["beyond_constant"], line["beyond_constant_error"] = mean_with_error(away - constant)
    line["beyond_best"], line["beyond_best_error"] = mean_with_error(away - printed.nearest)
    orders = (rng.permutation(len(own)) for _ in range(DRAWS))
    shuffled = [float(np.mean(distances(own, printed.table_4[order]))) for order in orders]
    line["shuffled"], line["shuffled_sd"] = float(np.mean(shuffled)), float(np.std(shuffled))
    gains = gains_of_trees(np.where(np.isnan(printed.table_4), np.nan, own))
    for k, alpha in enumerate(ALPHA_NAMES):
        line[f"gain {alpha}"], line[f"gain_error {alpha}"] = gains[k]
        line[f"best {alpha}"] = float(best_errors[:, k].mean())
    for test in TESTS:
        line[f"significant {test}"] = _share_significant(errors, test)
    return line


def _left_out_line(
    by_reading: Mapping[str, Sequence[DomainErrors]], printed: np.ndarray, left_out: float | None
) -> Line:
    """The nearest reading if the cells of Table 4 lack another epsilon."""
    away = {
        (reading, budget): float(
            np.mean(distances(cells_of_table_4(errors, k, left_out=left_out), printed))
        )
        for reading, errors in by_reading.items()
        for k, budget in enumerate(BUDGETS)
    }
    reading, budget = min(away, key=lambda place: away[place])
    line: Line = {"kind": "left out", "left_out": left_out, "budget": budget}
    return line | _head(reading) | {"kind": "left out", "away": away[reading, budget]}


def agreement_lines(folder: Path, library: Path) -> Iterator[Line]:
    """How the errors of simulation and library differ, over all settings that both have fitted.

    A difference of mean errors over folds is in units of its standard error. If both have the same
    law, these numbers have a mean near 0 and a standard deviation near 1.
    """
    differences, domains, readings = [], set(), set()
    for name in NOCK_HENECKA:
        for path in reading_files(library, name):
            columns, _ = sweeps.load_columns(path)
            for reading in results.distinct([{"r": r} for r in columns["reading"].tolist()], "r"):
                simulated = read_domain_errors(folder / name, reading)
                if simulated is None or simulated.boosted.shape[-1] != FOLDS:
                    continue
                differences += _differences_of_reading(columns, reading, simulated.boosted)
                domains.add(name)
                readings.add(reading)
    if differences:
        yield {
            "kind": "agreement",
            "domains": len(domains),
            "readings": len(readings),
            "settings": len(differences),
            "mean": float(np.mean(differences)),
            "sd": float(np.std(differences)),
            "largest": float(np.max(np.abs(differences))),
        }


def _differences_of_reading(
    columns: Mapping[str, np.ndarray], reading: str, simulated: np.ndarray
) -> Iterator[float]:
    """The differences of one domain under a reading, in units of their standard errors."""
    is_of_reading = (columns["reading"] == reading) & (columns["depth"] == DEPTH)
    alphas = columns["alpha"].astype(str)
    axes = (enumerate(ALPHA_NAMES), enumerate(EPSILONS), enumerate(ROUNDS))
    for (a, alpha), (e, epsilon), (t, rounds) in itertools.product(*axes):
        is_of_setting = is_of_reading & (alphas == alpha) & (columns["epsilon"] == epsilon)
        errors = columns["test_error"][is_of_setting & (columns["rounds"] == rounds)]
        if not len(errors):
            continue
        first, second = mean_with_error(errors), mean_with_error(simulated[a, e, t])
        deviation = np.hypot(first.standard_error, second.standard_error)
        if deviation > 0:
            yield float((first.value - second.value) / deviation)


def _head(reading: str) -> Line:
    choices = SCANNED_READINGS[reading]
    names = ("option", "leaf_scale", "leaf_divisor", "cuts")
    further = reading.split("; ", 1)[1] if reading in FURTHER_READINGS else None
    head = {name: getattr(choices, name) for name in names}
    return {"kind": "reading", "reading": reading, **head, "further": further}


def _banknote_columns(errors: DomainErrors) -> Line:
    """The share of the whole grid of O.C. that has at most 20 %, and mean errors by alpha."""
    assert errors.banknote is not None
    accurate = errors.banknote.mean(-1) <= CLAIMED_ERROR
    columns: Line = {"accurate": float(np.mean(accurate))}
    for k, alpha in enumerate(ALPHA_NAMES):
        columns[f"mean {alpha}"] = float(errors.boosted[k].mean())
    return columns


def cells_of_table_4(
    errors: Sequence[DomainErrors],
    budget: int,
    *,
    limit: float = NORMAL_LIMIT,
    left_out: float | None = LEFT_OUT,
) -> np.ndarray:
    """f64[domain, forest, alpha, T]: how often boosting wins, in percent of all wins.

    Args:
        errors: of each domain.
        budget: the place of the forests' budget in `BUDGETS`.
        limit: how many standard deviations a win needs; 0 for any difference.
        left_out: the epsilon that is left out.
    """
    kept = [e for e, epsilon in enumerate(EPSILONS) if epsilon != left_out]
    cells = []
    for one in errors:
        boosted = one.boosted.mean(-1)[:, kept][None]  # 1, alpha, epsilon, T
        rival = one.forests.mean(-1)[:, budget][:, kept][:, None, :, None]  # kind, 1, epsilon, 1
        variance = (boosted * (1 - boosted) + rival * (1 - rival)) / one.test_rows
        difference = np.round(boosted - rival, 9)
        wins, losses = (
            np.sum(sign * difference > limit * np.sqrt(variance), axis=2) for sign in (-1, 1)
        )
        cells.append(np.where(wins + losses, 100 * wins / np.maximum(wins + losses, 1), 50.0))
    return np.array(cells)


def printed_table_4() -> np.ndarray:
    """f64[domain, forest, alpha, T], as printed at depth 2; NaN where no number is."""
    axes: list[Sequence] = [NOCK_HENECKA, tuple(FORESTS.values()), ALPHA_NAMES, ROUNDS]
    cells = np.full([len(axis) for axis in axes], np.nan)
    for at, number in aggregated.printed_numbers(NAME, "table-4"):
        place = (at["domain"], at["forest"], str(at["alpha"]), at["rounds"])
        if at["depth"] == DEPTH:
            numbers = [list(axis).index(value) for axis, value in zip(axes, place, strict=True)]
            cells[tuple(numbers)] = number
    return cells


def printed_table_1() -> np.ndarray:
    """i64[epsilon, alpha], as printed."""
    numbers = [int(cell.number) for cell in aggregated.printed_numbers(NAME, "table-1")]
    return np.array(numbers).reshape(len(EPSILONS), -1)


def distances(cells: np.ndarray, printed: np.ndarray) -> np.ndarray:
    """f64[domain]: the mean distance of the cells of Table 4 that are printed, in points."""
    return np.nanmean(np.abs(cells - printed), axis=tuple(range(1, cells.ndim)))


def constant_distances(printed: np.ndarray) -> np.ndarray:
    """f64[domain]: the distance of the best constant cell, the median of the print."""
    return distances(np.full(printed.shape, np.nanmedian(printed)), printed)


def gains_of_trees(cells: np.ndarray) -> list[Estimate]:
    """For each alpha what T = 20 gains over T = 2 in Table 4, in points, over domains.

    Args:
        cells: f64[domain, forest, alpha, T]; NaN where no number is printed.
    """
    of_domain = np.mean(cells[..., 1] - cells[..., 0], axis=1)
    return [mean_with_error(of_alpha[~np.isnan(of_alpha)]) for of_alpha in of_domain.T]


def _share_near(cells: np.ndarray, printed: np.ndarray) -> float:
    away = np.abs(cells - printed)
    return float(np.mean(away[~np.isnan(away)] <= NEAR))


def _chance_line(
    cells: Mapping[str, Sequence[np.ndarray]],
    printed_1: np.ndarray,
    printed_4: np.ndarray,
    rng: np.random.Generator,
) -> Line:
    """What a coin, a constant, and the best of all readings on shuffled domains get."""
    coins = rng.random((DRAWS, len(printed_4), *printed_1.shape))
    away = [int(np.abs(count_best_alphas(one) - printed_1).sum()) for one in coins]
    constant, error = mean_with_error(constant_distances(printed_4))
    best = []
    for _ in range(DRAWS):
        shuffled = printed_4[rng.permutation(len(printed_4))]
        best.append(
            min(
                float(np.mean(distances(of_budget, shuffled)))
                for of_reading in cells.values()
                for of_budget in of_reading
            )
        )
    num_readings = len(cells)
    lowest = [int(np.min(rng.choice(away, num_readings))) for _ in range(DRAWS)]
    return {
        "kind": "chance",
        "readings": num_readings,
        "table_1": float(np.mean(away)),
        "table_1_sd": float(np.std(away)),
        "table_1_lowest": float(np.quantile(lowest, 0.05)),
        "beyond_constant": 0.0,
        "constant": constant,
        "constant_error": error,
        "shuffled": float(np.mean(best)),
        "shuffled_sd": float(np.std(best)),
        "shuffled_lowest": float(np.quantile(best, 0.05)),
    }


def _share_significant(errors: Sequence[DomainErrors], test: str) -> float:
    """The share of runs whose difference to forests of the printed budget is significant at 0.01.

    The runs are those of all epsilons, T and alphas, and of both forests.
    """
    shares = []
    for one in errors:
        boosted = one.boosted[None]  # 1, alpha, epsilon, T, fold
        rival = one.forests[:, 0][:, None, :, None]
        boosted, rival = np.broadcast_arrays(boosted, rival)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # of errors that are the same in all folds
            if test == TESTS[2]:
                a, b = boosted.mean(-1), rival.mean(-1)
                deviation = np.sqrt((a * (1 - a) + b * (1 - b)) / one.test_rows)
                shares.append(np.mean(np.abs(a - b) > NORMAL_LIMIT * deviation))
                continue
            is_paired = test == TESTS[0]
            p = _paired_p(boosted, rival) if is_paired else _unpaired_p(boosted, rival)
        shares.append(np.mean(np.nan_to_num(p, nan=1.0) < LEVEL))
    return float(np.mean(shares))


def _paired_p(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    result: Any = stats.ttest_rel(a.astype(float), b.astype(float), axis=-1)
    return result.pvalue


def _unpaired_p(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    result: Any = stats.ttest_ind(a.astype(float), b.astype(float), axis=-1, equal_var=False)
    return result.pvalue


# The tables.


def nearest_distance(line: Line) -> float:
    """The distance to Table 4 with the budget of the forests that fits best."""
    return min(line[f"table_4 {budget}"] for budget in BUDGETS)


def _divisor(line: Line) -> str:
    """What a leaf's budget is divided by; a file has the number 1."""
    return str(line["leaf_divisor"])


def reading_words(line: Line) -> str:
    """The words of a reading in tables."""
    divided = "undivided" if _divisor(line) == "1" else f"over {_divisor(line)}"
    words = f"{line['option']}; {line['leaf_scale']}, {divided}; {line['cuts']}"
    return words + (f"; {line['further']}" if line["further"] else "")


def _row(line: Line) -> tuple[str, ...]:
    away = [
        f"{line[f'table_4 {budget}']:.1f} ± {line[f'table_4_error {budget}']:.1f}"
        for budget in BUDGETS
    ]
    gains = ((line[f"gain {alpha}"], line[f"gain_error {alpha}"]) for alpha in ALPHA_NAMES)
    return (
        reading_words(line),
        f"{100 * line['accurate']:.0f}",
        str(round(line["table_1"])),
        *away,
        f"{line['shuffled']:.1f} ± {line['shuffled_sd']:.1f}",
        f"{line['beyond_best']:.1f} ± {line['beyond_best_error']:.1f}",
        "; ".join(f"{value:.0f} ± {error:.0f}" for value, error in gains),
    )


_HEAD = ("reading", "banknote, %", "Table 1: away", *(f"Table 4: {name}" for name in BUDGETS))


def _table(lines: Sequence[Line], chosen: Sequence[Line]) -> str:
    (chance,) = where(lines, kind="chance")
    lowest = f"{chance['shuffled_lowest']:.1f}"
    printed_gains = gains_of_trees(printed_table_4())
    gains = "; ".join(f"{value:.0f} ± {error:.0f}" for value, error in printed_gains)
    paper = ("*the paper's*", "67 and more", "0", "0", "0", "0", "", "", gains)
    constant = f"{chance['constant']:.1f} ± {chance['constant_error']:.1f}"
    coin = f"{chance['table_1']:.0f} ± {chance['table_1_sd']:.0f}"
    coin += f"; best of {chance['readings']}: {chance['table_1_lowest']:.0f}"
    rows = [
        paper,
        (
            "*coin; constant*",
            "",
            coin,
            *[constant] * len(BUDGETS),
            f"best: {lowest}",
            "",
            "0; 0; 0",
        ),
    ]
    rows += map(_row, chosen)
    return markdown_table((*_HEAD, "domains shuffled", "less the nearest's", "gain of T"), rows)


def _grid_lines(lines: Sequence[Line]) -> list[Line]:
    return [line for line in where(lines, kind="reading") if line["reading"] in LEAF_READINGS]


def _near_table(lines: Sequence[Line]) -> str:
    """The readings of the grid that are nearest to Table 4, and then the others that have 2/3."""
    of_grid = sorted(_grid_lines(lines), key=nearest_distance)
    accurate = [line for line in of_grid[SHOWN:] if line["accurate"] > MIN_ACCURATE]
    return _table(lines, of_grid[:SHOWN] + accurate)


ANSWER_READINGS = (
    "option first; leaf_scale 2M; leaf_divisor T 2^D; cuts declared",
    "option second; leaf_scale 2M; leaf_divisor T 2^D; cuts declared",
    "option second; leaf_scale 2M/m; leaf_divisor 1; cuts data",
)
"""The reading of the text, the second option alone, and the one that we would name."""


def _answer_table(lines: Sequence[Line]) -> str:
    """The readings that the page's answer speaks of, beside the paper and chance."""
    (chance,) = where(lines, kind="chance")
    budget = next(iter(BUDGETS))
    measures = {
        "Table 4, all depths: away": f"Table 4: points away, forests at {budget}",
        "wins at T = 2": f"wins at T = 2, least percent, forests at {budget}",
        "wins at T = 20": f"wins at T = 20 of O.C. and 1, least percent, forests at {budget}",
    }
    whole = where(lines, kind="whole")
    constant = where(whole, measure=measures["Table 4, all depths: away"])[0]["chance"]
    coin = f"{chance['table_1']:.0f} ± {chance['table_1_sd']:.0f}"
    rows = [
        ("*the paper's*", "67 and more", "0", "0", "0", "53 and more", "82 and more"),
        (
            *("*chance*", "0", coin, f"{chance['constant']:.1f}"),
            *(str(constant).removeprefix("constant: "), "50", "50"),
        ),
    ]
    for reading in ANSWER_READINGS:
        (line,) = where(lines, kind="reading", reading=reading)
        cells = []
        for measure in measures.values():
            found = where(whole, reading=reading, measure=measure)
            cells.append(f"{found[0]['value']:.0f}" if found else "not run")
        short = f"{100 * line['accurate']:.0f}", f"{line['table_1']:.0f}"
        rows.append((reading_words(line), *short, f"{nearest_distance(line):.0f}", *cells))
    head = ("reading", "banknote, %", "Table 1: away", "Table 4, depth 2: away", *measures)
    return markdown_table(head, rows)


def _accurate_table(lines: Sequence[Line]) -> str:
    """Banknote's share of O.C. for all readings of the grid."""
    of_grid, rows = _grid_lines(lines), []
    for option, cuts in itertools.product(("first", "second"), ("declared", "data", "quantiles")):
        for scale in ("2M", "M", "2M/m", "1/m on q"):
            cells = []
            for divisor in ("T 2^D", "T", "1"):
                choices = {"option": option, "cuts": cuts, "leaf_scale": scale}
                found = [line for line in where(of_grid, **choices) if _divisor(line) == divisor]
                cells.append(
                    f"{100 * found[0]['accurate']:.0f} %; {nearest_distance(found[0]):.0f}"
                    if found
                    else ""
                )
            rows.append((option, cuts, scale, *cells))
    return markdown_table(("option", "cuts", "noise", "over T 2^D", "over T", "undivided"), rows)


def _further_table(lines: Sequence[Line]) -> str:
    """The readings that have one further choice."""
    usual = [
        line
        for line in _grid_lines(lines)
        if (line["option"], line["cuts"]) == ("second", "declared")
        and (line["leaf_scale"], _divisor(line)) in (("2M/m", "1"), ("2M", "T 2^D"))
    ]
    return _table(lines, usual + [line for line in where(lines, kind="reading") if line["further"]])


def _left_out_table(lines: Sequence[Line]) -> str:
    """The nearest reading by the epsilon that the cells of Table 4 lack."""
    rows = []
    for line in where(lines, kind="left out"):
        left_out = "none" if line["left_out"] is None else f"{line['left_out']:g}"
        rows.append((left_out, f"{line['away']:.1f}", reading_words(line), line["budget"]))
    return markdown_table(("epsilon left out", "Table 4: away", "reading", "forests"), rows)


def _whole_table(lines: Sequence[Line]) -> str:
    """Tables and claims under the readings that have the whole grid."""
    words = {line["reading"]: reading_words(line) for line in where(lines, kind="reading")}
    head, rows = whole_table(where(lines, kind="whole"), words)
    return markdown_table(head, rows)


def _loss_table(lines: Sequence[Line]) -> str:
    """The largest exact losses of the leaves of a tree on banknote, in units of their budgets."""
    rows = []
    for line in where(lines, kind="loss"):
        found = (f"{line[column]:.4g}" for column in LOSS_COLUMNS)
        rows.append((str(line["depth"]), str(line["fewest_rows"]), *found))
    return markdown_table(("depth", "rows of the smallest leaf", *LOSS_COLUMNS), rows)


def _agreement_table(lines: Sequence[Line]) -> str:
    """Simulation and library."""
    counts, numbers = ("domains", "readings", "settings"), ("mean", "sd", "largest")
    rows = [
        (*(f"{line[name]:.0f}" for name in counts), *(f"{line[name]:.2f}" for name in numbers))
        for line in where(lines, kind="agreement")
    ]
    return markdown_table((*counts, *numbers), rows)


def _test_table(lines: Sequence[Line]) -> str:
    """How many differences are significant, by test."""
    rows = []
    for line in sorted(_grid_lines(lines), key=nearest_distance)[:3]:
        shares = (f"{100 * line[f'significant {test}']:.0f} %" for test in TESTS)
        rows.append((reading_words(line), *shares))
    most = [max(line[f"significant {test}"] for line in _grid_lines(lines)) for test in TESTS]
    rows.append(("the most of any", *(f"{100 * share:.0f} %" for share in most)))
    return markdown_table(("reading", *TESTS), rows)


LOSS_COLUMNS = tuple(f"{change}, {scale}" for scale in SCALES for change in CHANGES)
_PER_BUDGET = ("table_4", "table_4_error", "near", "by_sign")
COLUMNS = (
    *("kind", "reading", "option", "leaf_scale", "leaf_divisor", "cuts", "further"),
    "accurate",
    *(f"mean {alpha}" for alpha in ALPHA_NAMES),
    *("table_1", "table_1_sd", "table_1_lowest"),
    *(f"{word} {budget}" for budget in BUDGETS for word in _PER_BUDGET),
    *("constant", "constant_error", "beyond_constant", "beyond_constant_error"),
    *("beyond_best", "beyond_best_error", "shuffled", "shuffled_sd", "shuffled_lowest"),
    *(f"{word} {alpha}" for word in ("gain", "gain_error", "best") for alpha in ALPHA_NAMES),
    *(f"significant {test}" for test in TESTS),
    *("measure", "value", "error", "paper", "chance"),
    *("left_out", "budget", "away", "depth", "fewest_rows", *LOSS_COLUMNS),
    *("domains", "readings", "settings", "mean", "sd", "largest", "seed", "commit"),
)
"""The columns of the lines in short."""

PAGE = pages.Pages(
    f"{NAME} scan",
    {
        "answer": _answer_table,
        "near": _near_table,
        "accurate": _accurate_table,
        "further": _further_table,
        "tests": _test_table,
        "left-out": _left_out_table,
        "whole": _whole_table,
        "losses": _loss_table,
        "agreement": _agreement_table,
    },
    summary=COLUMNS,
    file="nock_scan.csv",
)
