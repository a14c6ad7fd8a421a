"""Measure private errors under other readings of the paper's text.

The paper leaves open the noise, the leaves and the training rows of its private forests. Each
reading changes one of them, and its errors stand beside the paper's Table 1.
"""

import argparse

import numpy as np

from dpbt.types import Table
from experiments.common import commands, results, tables
from experiments.common.progress import progress
from experiments.papers.bojarski_2014.grid import (
    READINGS,
    Errors,
    Run,
    measure_errors,
    noise_scales,
)
from experiments.papers.bojarski_2014.lines import half_interval
from experiments.papers.bojarski_2014.rows import add_options, configuration, study_of
from experiments.papers.bojarski_2014.settings import (
    BUDGET,
    DATASETS,
    NAME,
    PAPER,
    PAPER_FORESTS,
    PAPER_ROWS,
    SETTINGS,
    SMOKE,
)

CLAIMED, DEVIATION = "k / eta", "standard deviation k / eta"
NOISE = {
    CLAIMED: 1.0,
    DEVIATION: np.sqrt(0.5),
    "n_train is what trains": 0.9,
    "1 / eta": None,
}
"""Reading -> the scale of a count's noise over k / eta. None leaves out the factor k, which costs k
times the claimed privacy loss."""

RULES = ("majority", "threshold")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser)
    commands.add_shared(parser, out=results.results_folder(NAME))


def run(options: argparse.Namespace) -> None:
    """Measure, save and print every reading."""
    names = [options.dataset] if options.dataset else DATASETS
    print(format_lines([line for name in names for line in _save_data_set(name, options)]))
    print("private errors in percent; * marks errors inside the paper's interval; ", end="")
    print("negative: the reading of negative noisy counts")


def _save_data_set(name: str, options: argparse.Namespace) -> list[results.Line]:
    """Measure one data set under all readings, and write the lines."""
    study, grid = study_of(name, options), SMOKE if options.smoke else SETTINGS
    lines = reading_lines(name, study.table, study.runs, study.trained, grid, options.seed)
    suffix = "_quintiles" if options.quintiles else ""
    path = commands.out_folder(options) / f"{name}{suffix}_ablation.csv"
    results.write_csv(path, lines, configuration(study, options))
    return lines


def reading_lines(
    name: str, table: Table, runs: list[Run], trained: int, grid: dict, seed: int
) -> list[results.Line]:
    """Private errors in percent under each noise and reading of leaves.

    There is a line for each voting rule of Table 1. It holds the error of the forest that the
    validation rows choose, the lowest test error, and the error of the paper's own forest.

    Args:
        name: the data set's name in `settings.PAPER`.
        table: all rows.
        runs: from `grid.split_runs`.
        trained: n_train of eta = 1000 / n_train.
        grid: holds "heights" and "trees".
        seed: the seed of the keys.
    """
    eta, rows = BUDGET / trained, len(table.target)
    heights, sizes = grid["heights"], grid["trees"]
    variants = [(noise, factor, runs, False) for noise, factor in NOISE.items()]
    more_rows = [_with_validation(run) for run in runs]
    variants.append((f"{CLAIMED}, validation rows train too", 1.0, more_rows, False))
    for noise in (CLAIMED, DEVIATION):
        variants.append((f"{noise}, a forest for each k and h", NOISE[noise], runs, True))

    lines = []
    with progress(len(runs) * len(variants), "run", name) as shown:
        for noise, factor, some, own in variants:
            scales = _scales(factor, eta, sizes, rows)
            axes = (scales, heights, sizes)
            errors = measure_errors(table, some, *axes, seed, shown, READINGS, own)
            for n, reading in enumerate(READINGS):
                for v, voting in enumerate(RULES):
                    line = {"dataset": name, "noise": noise, "negative": reading, "voting": voting}
                    line |= _errors(errors, n, v, heights, sizes, PAPER_FORESTS[name][2 + v])
                    paper = PAPER[name][3 + v]
                    width = 100 * half_interval(paper / 100, PAPER_ROWS.get(name, rows))
                    lines.append({**line, "paper_error": paper, "paper_interval": width})
    return lines


def _scales(factor: float | None, eta: float, sizes: tuple[int, ...], rows: int) -> np.ndarray:
    scales = noise_scales(eta, sizes, rows)
    if factor is None:
        return (scales / np.asarray(sizes, np.float32)).astype(np.float32)
    return (scales * np.float32(factor)).astype(np.float32)


def _with_validation(run: Run) -> Run:
    """The same run, in which validation rows train as well."""
    train = run.train.copy()
    train[run.held[run.validation]] = True
    return run._replace(train=train)


def _errors(
    errors: Errors,
    n: int,
    v: int,
    heights: tuple[int, ...],
    sizes: tuple[int, ...],
    forest: tuple[int, int],
) -> results.Line:
    test, validation = (
        100 * part[:, n, v].mean(axis=0) for part in (errors.test, errors.validation)
    )
    k, h = np.unravel_index(np.argmin(validation), validation.shape)
    runs = 100 * errors.test[:, n, v, k, h]
    spread = float(runs.std(ddof=1) / np.sqrt(len(runs))) if len(runs) > 1 else ""

    papers_forest = ""
    if forest[0] in sizes and forest[1] in heights:
        papers_forest = float(test[sizes.index(forest[0]), heights.index(forest[1])])
    return {
        "trees": sizes[k],
        "height": heights[h],
        "error": float(test[k, h]),
        "standard_error": spread,
        "lowest_test_error": float(test.min()),
        "papers_forest": papers_forest,
    }


COLUMNS = {
    "dataset": "{dataset}",
    "noise": "{noise}",
    "negative": "{negative}",
    "voting": "{voting}",
    "k": "{trees}",
    "h": "{height}",
    "error": "{error:.2f}{error_mark}",
    "lowest test error": "{lowest_test_error:.2f}{lowest_test_error_mark}",
    "at paper's k, h": "{papers_forest:.2f}{papers_forest_mark}",
    "paper": "{paper_error:.2f} +- {paper_interval:.2f}",
}


def format_lines(lines: list[results.Line]) -> str:
    """One row for each line, in percent; a star marks an error inside the paper's interval."""
    marked = []
    for line in lines:
        errors = {name: line[name] for name in ("error", "lowest_test_error", "papers_forest")}
        errors = {name: None if value == "" else value for name, value in errors.items()}
        for name, value in list(errors.items()):
            inside = value and abs(value - line["paper_error"]) <= line["paper_interval"]
            errors[f"{name}_mark"] = "*" if inside else " "
        marked.append({**line, **errors})
    return tables.format_table(marked, COLUMNS)
