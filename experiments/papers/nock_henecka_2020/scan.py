"""Scan the readings of Nock & Henecka (2020) by simulation, and set each beside the paper.

The readings are those of the study `leaves` (`options.LEAF_READINGS`), and a few that have one
further choice (`options.FURTHER_READINGS`). `simulation` fits them in the ten folds of the grid:

- every domain: beta_tree = 0.5, T of 2 and 20, and depth 2, for all epsilons and alphas. Domains of
  more than 10,000 rows have three of the ten folds;
- banknote: also the whole grid of section 17 with objective calibration.

`--whole` fits the whole grid on every domain instead, for Tables 1, 3 and 4 at all depths.

`--bins 50` fits the same with v_q = 50, for the readings that are to stand beside those of 10.

Forests have their budget shared in three ways. A reading that has been fitted on a domain is not
fitted again. `--doc PAGE` fits nothing, and writes the tables into a page.
"""

import argparse
import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpbt import sweeps
from dpbt.owners.cli.parsing import as_input_error
from experiments.common import commands, data, pages, results
from experiments.common.progress import progress
from experiments.papers.nock_henecka_2020 import scan_bins, scan_tables, settings
from experiments.papers.nock_henecka_2020.options import cut_dataset
from experiments.papers.nock_henecka_2020.run import (
    BINS,
    add_bins_option,
    add_dataset_option,
)
from experiments.papers.nock_henecka_2020.scan_tables import SCANNED_READINGS
from experiments.papers.nock_henecka_2020.simulation import (
    FOREST,
    Simulation,
    settings_of_reading,
)

MANY_ROWS, FEW_FOLDS = 10_000, 3
AXES = ("alpha", "epsilon", "beta_tree", "rounds", "depth")
PART_OF_GRID = {
    "alpha": settings.ALPHAS,
    "epsilon": settings.EPSILONS,
    "beta_tree": (0.5,),
    "rounds": scan_tables.ROUNDS,
    "depth": (scan_tables.DEPTH,),
}
WHOLE_GRID = {**settings.GRID, **settings.PRIVATE}
BANKNOTE_GRID = {**WHOLE_GRID, "alpha": settings.ALPHAS[:1]}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_dataset_option(parser)
    add_bins_option(parser)
    words = "readings (all)"
    parser.add_argument(
        "--readings", nargs="+", metavar="READING", choices=SCANNED_READINGS, help=words
    )
    words = "fit the whole grid on every domain; of all readings this takes hours"
    parser.add_argument("--whole", action="store_true", help=words)
    words = "the fits of `readings leaves`, which the page compares (%(default)s)"
    default = results.results_folder(settings.NAME) / "readings" / "leaves"
    parser.add_argument("--fits", metavar="FOLDER", default=str(default), help=words)
    commands.add_shared(
        parser,
        doc=True,
        data=True,
        out=results.results_folder(settings.NAME) / "scan",
    )


def run_command(options: argparse.Namespace) -> None:
    """Fit what is missing, and write the lines; or write the page."""
    folder, start = commands.out_folder(options), time.perf_counter()
    if options.doc is not None:
        with as_input_error():
            banknote = data.load(scan_tables.BANKNOTE, BINS, options.data)
            scan_tables.write_lines(folder, Path(options.fits), banknote)
            scan_bins.write_lines(folder)
        pages.write_page(scan_tables.PAGE, Path(options.doc), folder / "lines.csv")
        pages.write_page(scan_bins.PAGE, Path(options.doc), folder / "bins.csv")
        return
    readings = list(dict.fromkeys(options.readings or SCANNED_READINGS))
    with progress(len(readings) * len(options.datasets), "fit", "scan", quiet=False) as bar:
        for name in dict.fromkeys(options.datasets):
            dataset = data.load(name, options.bins, options.data)
            of_domain = scan_tables.folder_of_bins(folder, options.bins) / name
            if options.whole:
                _fit_forests(of_domain / "whole", dataset, settings.FOREST_DEPTHS)
            else:
                _fit_forests(of_domain, dataset, (scan_tables.DEPTH,))
            for reading in readings:
                fit = _fit_whole_grid if options.whole else _fit_reading
                fit(of_domain, dataset, reading, options.bins)
                bar.update(1)
    print(f"{time.perf_counter() - start:.0f} s. Wrote {folder}")


def num_folds(rows: int) -> int:
    """How many of the ten folds a domain has."""
    return FEW_FOLDS if rows > MANY_ROWS else settings.FOLDS


def _fit_reading(folder: Path, dataset: data.Dataset, name: str, bins: int) -> None:
    """Save the errors of a reading on a domain, f32[alpha, epsilon, T, fold] and of banknote."""
    path = scan_tables.path_of_reading(folder, name)
    if path.exists():
        return
    part = _errors_of_grid(dataset, name, PART_OF_GRID, bins)[:, :, 0, :, 0]
    errors = {"errors": part, "rows": np.array(len(dataset.label))}
    if dataset.name == scan_tables.BANKNOTE:
        errors["banknote"] = _errors_of_grid(dataset, name, BANKNOTE_GRID, bins)[0]
    scan_tables.save(path, errors)


def _fit_whole_grid(folder: Path, dataset: data.Dataset, name: str, bins: int) -> None:
    """Save the errors of a reading on a domain, f32[*AXES, fold]."""
    path = scan_tables.path_of_reading(folder / "whole", name)
    if not path.exists():
        errors = _errors_of_grid(dataset, name, WHOLE_GRID, bins)
        scan_tables.save(path, {"errors": errors, "rows": np.array(len(dataset.label))})


def _errors_of_grid(dataset: data.Dataset, name: str, axes: sweeps.Block, bins: int) -> np.ndarray:
    """f32[*AXES, fold]: the test errors of a reading on a grid, with v_q = `bins`."""
    reading, rows = SCANNED_READINGS[name], len(dataset.label)
    values = [axes[axis] for axis in AXES]
    grid: list[Any] = list(itertools.product(*values))
    simulation = Simulation.of_dataset(cut_dataset(dataset, reading.cuts, bins))
    fits = settings_of_reading(reading, grid, rows)
    errors = simulation.boosted_errors(fits, folds=num_folds(rows), seed=settings.SEED)
    return errors.reshape(*map(len, values), -1)


def _fit_forests(folder: Path, dataset: data.Dataset, depths: Sequence[int]) -> None:
    """Save the errors of forests, f32[kind, budget, depth, epsilon, fold]; no axis of one depth."""
    path = folder / "forests.npz"
    if path.exists():
        return
    axes = (settings.FORESTS, scan_tables.BUDGETS, depths, settings.EPSILONS)
    forests = np.zeros([len(axis) for axis in axes], FOREST)
    for place, (forest, budget, depth, epsilon) in zip(
        np.ndindex(forests.shape), itertools.product(*axes), strict=True
    ):
        part = scan_tables.BUDGETS[budget](settings.FOREST_TREES, depth)
        is_exponential = settings.FORESTS[forest] == "rf_e"
        forests[place] = (epsilon / part, depth, is_exponential)
    errors = Simulation.of_dataset(dataset).forest_errors(
        forests.ravel(),
        trees=settings.FOREST_TREES,
        folds=num_folds(len(dataset.label)),
        seed=settings.SEED,
    )
    errors = errors.reshape(*forests.shape, -1)
    scan_tables.save(path, {"errors": errors if len(depths) > 1 else errors[:, :, 0]})
