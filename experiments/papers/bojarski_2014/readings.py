"""Measure private errors under other readings of the paper's text.

The paper leaves open the noise, the leaves and the training rows of its private forests. Each
reading changes one of them, and its errors stand beside the paper's Table 1.
"""

import argparse
from typing import NamedTuple

import numpy as np

from experiments.common import commands, results, tables
from experiments.common.progress import progress
from experiments.papers.bojarski_2014.grid import (
    READINGS,
    Run,
    measure_errors,
    noise_scales,
)
from experiments.papers.bojarski_2014.lines import half_interval
from experiments.papers.bojarski_2014.rows import (
    Study,
    add_options,
    configuration,
    study_of_options,
)
from experiments.papers.bojarski_2014.settings import (
    DATASETS,
    ETA_TIMES_TRAINING_ROWS,
    NAME,
    PAPER_ERRORS,
    PAPER_FORESTS,
    PAPER_ROWS,
    PRINTED_VOTINGS,
    SETTINGS,
    SMOKE,
)

CLAIMED, DEVIATION = "k / eta", "standard deviation k / eta"
NOISE_FACTORS = {
    CLAIMED: 1.0,
    DEVIATION: np.sqrt(0.5),
    "n_train is what trains": 0.9,
    "1 / eta": None,
}
"""Reading -> the scale of a count's noise over k / eta. None leaves out the factor k, which costs k
times the claimed privacy loss."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser)
    commands.add_shared(parser, out=results.results_folder(NAME))


def run_command(options: argparse.Namespace) -> None:
    """Measure, save and print every reading."""
    names = [options.dataset] if options.dataset else DATASETS
    print(format_lines([line for name in names for line in _save_data_set(name, options)]))
    print("private errors in percent; * marks errors inside the paper's interval; ", end="")
    print("negative: the reading of negative noisy counts")


def _save_data_set(name: str, options: argparse.Namespace) -> list[results.Line]:
    """Measure one data set under all readings, and write the lines."""
    study, grid = study_of_options(name, options), SMOKE if options.smoke else SETTINGS
    lines = reading_lines(study, grid, options.seed)
    suffix = "_quintiles" if options.quintiles else ""
    path = commands.out_folder(options) / f"{name}{suffix}_ablation.csv"
    results.write_csv(path, lines, configuration(study, options))
    return lines


class Variant(NamedTuple):
    """A way to read the noise and the forests.

    Attributes:
        words: the variant in words.
        factor: see `NOISE_FACTORS`.
        runs: the rows that train, validate and test.
        separate: whether each height and number of trees has a forest of its own.
    """

    words: str
    factor: float | None
    runs: list[Run]
    separate: bool


def _variants(runs: list[Run]) -> list[Variant]:
    """All variants."""
    more_train = [_with_validation_rows(run) for run in runs]
    return [
        *(Variant(words, factor, runs, False) for words, factor in NOISE_FACTORS.items()),
        Variant(f"{CLAIMED}, validation rows train too", 1.0, more_train, False),
        *(
            Variant(f"{words}, a forest for each k and h", NOISE_FACTORS[words], runs, True)
            for words in (CLAIMED, DEVIATION)
        ),
    ]


def reading_lines(study: Study, grid: dict, seed: int) -> list[results.Line]:
    """Private errors in percent under each noise and reading of leaves.

    There is a line for each voting rule of Table 1. It holds the error of the forest that the
    validation rows choose, the lowest test error, and the error of the paper's own forest.

    Args:
        study: the data set, which is one of `settings.PAPER_ERRORS`; its eta is 1000 / n_train.
        grid: holds "heights" and "trees".
        seed: the seed of the keys.
    """
    name, rows = study.name, len(study.table.target)
    eta = ETA_TIMES_TRAINING_ROWS / study.num_train
    heights, sizes = grid["heights"], grid["trees"]
    variants = _variants(study.runs)
    lines = []
    with progress(len(study.runs) * len(variants), "run", name) as progress_bar:
        for variant in variants:
            errors = measure_errors(
                study.table,
                variant.runs,
                scales=_scaled_noise(variant.factor, eta=eta, sizes=sizes, rows=rows),
                heights=heights,
                sizes=sizes,
                seed=seed,
                progress_bar=progress_bar,
                readings=READINGS,
                separate=variant.separate,
            )
            for n, reading in enumerate(READINGS):
                for v, voting in enumerate(PRINTED_VOTINGS):
                    line = {"dataset": name, "noise": variant.words}
                    line |= {"negative": reading, "voting": voting}
                    line |= _error_columns(
                        test=errors.test[:, n, v],
                        validation=errors.validation[:, n, v],
                        heights=heights,
                        sizes=sizes,
                        papers_forest=PAPER_FORESTS[name][2 + v],
                    )
                    paper_error = PAPER_ERRORS[name][3 + v]
                    width = 100 * half_interval(paper_error / 100, PAPER_ROWS.get(name, rows))
                    lines.append({**line, "paper_error": paper_error, "paper_interval": width})
    return lines


def _scaled_noise(
    factor: float | None, *, eta: float, sizes: tuple[int, ...], rows: int
) -> np.ndarray:
    """f32[sizes]: the noise scale of a count, for a factor of `NOISE_FACTORS`."""
    scales = noise_scales(eta, sizes, rows)
    if factor is None:
        return (scales / np.asarray(sizes, np.float32)).astype(np.float32)
    return (scales * np.float32(factor)).astype(np.float32)


def _with_validation_rows(run: Run) -> Run:
    """The same run, in which validation rows train as well."""
    train = run.train.copy()
    train[run.held_out[run.validation]] = True
    return run._replace(train=train)


def _error_columns(
    *,
    test: np.ndarray,
    validation: np.ndarray,
    heights: tuple[int, ...],
    sizes: tuple[int, ...],
    papers_forest: tuple[int, int],
) -> results.Line:
    """The errors of the forest of least validation error and of the paper's forest, in percent.

    Args:
        test: f[runs, trees, heights], as shares.
        validation: f[runs, trees, heights], as shares.
        heights: the heights of the trees.
        sizes: the numbers of trees.
        papers_forest: (k, h) of the forest that the paper chose.
    """
    mean_test, mean_validation = 100 * test.mean(axis=0), 100 * validation.mean(axis=0)
    k, h = np.unravel_index(np.argmin(mean_validation), mean_validation.shape)
    by_run = 100 * test[:, k, h]
    error = float(by_run.std(ddof=1) / np.sqrt(len(by_run))) if len(by_run) > 1 else ""

    trees, height = papers_forest
    error_of_papers_forest = ""
    if trees in sizes and height in heights:
        error_of_papers_forest = float(mean_test[sizes.index(trees), heights.index(height)])
    return {
        "trees": sizes[k],
        "height": heights[h],
        "error": float(mean_test[k, h]),
        "standard_error": error,
        "lowest_test_error": float(mean_test.min()),
        "papers_forest": error_of_papers_forest,
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
            is_inside = value and abs(value - line["paper_error"]) <= line["paper_interval"]
            errors[f"{name}_mark"] = "*" if is_inside else " "
        marked.append({**line, **errors})
    return tables.format_table(marked, COLUMNS)
