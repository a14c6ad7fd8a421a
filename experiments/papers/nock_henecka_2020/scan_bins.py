"""What readings of Nock & Henecka (2020) become with v_q = 50 in place of 10.

The fits are those of `scan --bins 50`, and a reading has a line if it has been fitted on all
domains with both v_q. Both have the same seed, folds and settings, so domains are pairs.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from experiments.common import pages, results
from experiments.common.data import NOCK_HENECKA
from experiments.common.estimates import Estimate, mean_with_error
from experiments.common.results import Line, where
from experiments.common.tables import markdown_table
from experiments.papers.nock_henecka_2020 import scan_tables
from experiments.papers.nock_henecka_2020.reading_tables import CLAIMED_ERROR
from experiments.papers.nock_henecka_2020.scan_tables import (
    BANKNOTE,
    BUDGETS,
    DomainErrors,
    cells_of_table_4,
    distances,
    folder_of_bins,
    nearest_distance,
    printed_table_4,
    read_domain_errors,
    scan_lines,
)
from experiments.papers.nock_henecka_2020.settings import ALPHA_NAMES, NAME, PAPER_BINS, SEED

MORE_BINS = PAPER_BINS[1]
OF_10 = "of 10: "
"""Before a column of v_q = 10."""

BESIDE = ("accurate", "table_1", *(f"table_4 {budget}" for budget in BUDGETS))
"""The columns that stand beside those of v_q = 10."""


def write_lines(folder: Path) -> None:
    """Write the lines of the saved fits with v_q = 50, if there are any."""
    lines = list(bins_lines(folder))
    if lines:
        empty = dict.fromkeys(name for name in COLUMNS if name not in ("seed", "commit"))
        results.write_csv(folder / "bins.csv", [empty | line for line in lines], {"seed": SEED})


def bins_lines(folder: Path) -> Iterator[Line]:
    """The line of chance, and one for each reading, with what v_q = 50 changes.

    Args:
        folder: of the scan.
    """
    of_10 = {line["reading"]: line for line in scan_lines(folder) if line["kind"] == "reading"}
    more = folder_of_bins(folder, MORE_BINS)
    for line in scan_lines(more):
        if line["kind"] == "chance":
            yield line
        if line["kind"] != "reading" or line["reading"] not in of_10:
            continue
        few, many = (_read_reading(place, line["reading"]) for place in (folder, more))
        beside = {OF_10 + column: of_10[line["reading"]][column] for column in BESIDE}
        yield line | beside | columns_of_change(few, many)


def _read_reading(folder: Path, reading: str) -> list[DomainErrors]:
    errors = (read_domain_errors(folder / name, reading) for name in NOCK_HENECKA)
    return [one for one in errors if one is not None]


def columns_of_change(few: Sequence[DomainErrors], many: Sequence[DomainErrors]) -> Line:
    """What v_q = 50 has less v_q = 10: an estimate each, over settings of banknote or domains."""
    changes = {"accurate": mean_with_error(_change_of_accurate(few, many))}
    printed = printed_table_4()
    away = []
    for errors in (few, many):
        by_budget = [
            distances(cells_of_table_4(errors, budget), printed) for budget in range(len(BUDGETS))
        ]
        away.append(min(by_budget, key=lambda one: float(np.mean(one))))
    changes["table_4"] = mean_with_error(away[1] - away[0])
    for k, alpha in enumerate(ALPHA_NAMES):
        best = [
            np.array([one.boosted[k].mean(-1).min(1).mean() for one in errors])
            for errors in (few, many)
        ]
        changes[f"best {alpha}"] = mean_with_error(100 * (best[1] - best[0]))
    columns: Line = {}
    for name, change in changes.items():
        columns[f"change {name}"], columns[f"change_error {name}"] = change
    return columns


def _change_of_accurate(few: Sequence[DomainErrors], many: Sequence[DomainErrors]) -> np.ndarray:
    """f64[setting]: 1, 0 or -1, whether a setting of banknote gains or loses its 20 %."""
    within = []
    for errors in (few, many):
        banknote = errors[NOCK_HENECKA.index(BANKNOTE)].banknote
        assert banknote is not None
        within.append((banknote.mean(-1) <= CLAIMED_ERROR).ravel().astype(float))
    return within[1] - within[0]


# The table.


def _in_words(estimate: Estimate, factor: float = 1.0, digits: int = 1) -> str:
    value, error = factor * estimate.value, factor * estimate.standard_error
    return f"{value:+.{digits}f} ± {error:.{digits}f}"


def _change(line: Line, name: str) -> Estimate:
    return Estimate(line[f"change {name}"], line[f"change_error {name}"])


def _of_10(line: Line) -> Line:
    return {column: line[OF_10 + column] for column in BESIDE}


def _bins_table(lines: Sequence[Line]) -> str:
    """The readings by their distance to Table 4 at v_q = 50, beside the paper and chance."""
    (chance,) = where(lines, kind="chance")
    coin = f"{chance['table_1']:.0f} ± {chance['table_1_sd']:.0f}"
    coin += f"; best of {chance['readings']:.0f}: {chance['table_1_lowest']:.0f}"
    constant = f"{chance['constant']:.1f} ± {chance['constant_error']:.1f}"
    constant += f"; best shuffled: {chance['shuffled_lowest']:.1f}"
    rows = [
        ("*the paper's*", "67 and more", "", "0", "0", "", ""),
        ("*coin; constant*", "", "", coin, constant, "0", "0"),
    ]
    for line in sorted(where(lines, kind="reading"), key=nearest_distance):
        few = _of_10(line)
        rows.append(
            (
                scan_tables.reading_words(line),
                f"{100 * few['accurate']:.0f} -> {100 * line['accurate']:.0f}",
                _in_words(_change(line, "accurate"), 100),
                f"{few['table_1']:.0f} -> {line['table_1']:.0f}",
                f"{nearest_distance(few):.1f} -> {nearest_distance(line):.1f}",
                _in_words(_change(line, "table_4")),
                _in_words(_change(line, f"best {ALPHA_NAMES[0]}")),
            )
        )
    head = ("reading", "banknote, %", "change", "Table 1: away", "Table 4: away", "change")
    return markdown_table((*head, "best error of O.C., points"), rows)


_CHANGES = ("accurate", "table_4", *(f"best {alpha}" for alpha in ALPHA_NAMES))
COLUMNS = (
    *("kind", "reading", "option", "leaf_scale", "leaf_divisor", "cuts", "further"),
    *BESIDE,
    *(OF_10 + column for column in BESIDE),
    *(f"{word} {name}" for name in _CHANGES for word in ("change", "change_error")),
    *("table_1_sd", "table_1_lowest", "constant", "constant_error", "shuffled_lowest"),
    *("readings", "seed", "commit"),
)
"""The columns of the lines in short."""

PAGE = pages.Pages(f"{NAME} scan bins", {"v-q": _bins_table}, summary=COLUMNS, file="nock_bins.csv")
