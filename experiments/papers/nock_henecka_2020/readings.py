"""Which reading of the paper's text has the numbers that are printed? Fit readings, and compare.

A study is a set of readings and a part of section 17's grid, for v_q = 10 and M = 10:

- `noise`: where noise is and how much of it, on the whole grid. The fits of the reading `printed`
  are the published calibration of `run`, and the forests of Table 4 are those of `forests`. Both
  are read where they have been saved.
- `steps`: the M of the step a = alpha / M^2, for trees with values in [-M, M]. The grid has
  beta_tree = 0.5, and T of 2 and 20.
- `leaves`: the scale and the budget of a leaf's noise, and the cuts, on the grid of `steps`.

A run that was stopped resumes where it stopped, and domains and readings can be added one by one.
`--datasets` without a name fits nothing. `--doc PAGE` fits nothing either, and writes the tables of
the saved fits into a page. Those of `steps` and `leaves` are of what has all domains.
"""

import argparse
import dataclasses
import itertools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpbt import sweeps
from dpbt.owners.cli.parsing import InputError, as_input_error
from experiments.common import commands, data, pages, results
from experiments.papers.nock_henecka_2020 import neighbours, reading_tables, saved, settings
from experiments.papers.nock_henecka_2020.forests import FOLDER as FORESTS_FOLDER
from experiments.papers.nock_henecka_2020.options import (
    LEAF_READINGS,
    NOISE_READINGS,
    PRINTED,
    STEP_READINGS,
    Cuts,
    Reading,
    boosted,
)
from experiments.papers.nock_henecka_2020.run import (
    BINS,
    CLIP,
    cross_validation_tasks,
    fit_missing,
)

NOISELESS_AXES = {"epsilon": (1.0,), "beta_tree": (0.5,)}
"""The budget of a reading without noise, which does not depend on it."""

PART_OF_GRID = {
    "depth": (2, 4),
    "rounds": reading_tables.ROUNDS,
    "alpha": settings.ALPHAS,
    "beta_tree": (0.5,),
    "epsilon": settings.EPSILONS,
}
"""The grid of the studies of many readings."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """Readings that are fitted on one grid.

    Attributes:
        readings: name -> reading. PRINTED is not fitted, because `run` has its fits.
        axes: the grid of a reading with noise.
        smoke_axes: what replaces a part of it in the smallest setting.
        page: what is written into pages.
    """

    readings: Mapping[str, Reading]
    axes: sweeps.Block
    smoke_axes: sweeps.Block
    page: pages.Pages

    def block(self, readings: Sequence[str], depths: Sequence[int], *, smoke: bool) -> sweeps.Block:
        """The settings of some readings, which all have noise or have none."""
        axes = {**self.axes, **self.smoke_axes} if smoke else self.axes
        budget = {} if self.readings[readings[0]].has_noise else NOISELESS_AXES
        return {**axes, **budget, "depth": tuple(depths), "reading": tuple(readings)}

    def depths(self, *, smoke: bool) -> list[Any]:
        """The depths of the grid, or those of the smallest one."""
        axes = {**self.axes, **self.smoke_axes} if smoke else self.axes
        return list(axes["depth"])


STUDIES = {
    "noise": Study(
        readings=NOISE_READINGS,
        axes={**settings.GRID, **settings.PRIVATE},
        smoke_axes=settings.SMOKE,
        page=reading_tables.NOISE_PAGE,
    ),
    "steps": Study(
        readings=STEP_READINGS,
        axes=PART_OF_GRID,
        smoke_axes={"rounds": settings.SMOKE["rounds"]},
        page=reading_tables.mean_error_page("steps"),
    ),
    "leaves": Study(
        readings=LEAF_READINGS,
        axes=PART_OF_GRID,
        smoke_axes={"rounds": (2,), "depth": (2,), "alpha": (1.0,), "epsilon": (1.0,)},
        page=reading_tables.mean_error_page("leaves"),
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "the study (%(default)s)"
    parser.add_argument("study", nargs="?", choices=STUDIES, default="noise", help=words)
    words = "domains (all 19); `python -m experiments data check` lists them"
    names = {"nargs": "*", "choices": data.NOCK_HENECKA, "metavar": "NAME"}
    parser.add_argument("--datasets", **names, default=list(data.NOCK_HENECKA), help=words)
    words = "readings (all of the study); those that a domain has already are not fitted again"
    parser.add_argument("--readings", nargs="+", metavar="READING", help=words)
    words = "depths of the trees (all of the study)"
    kind = commands.whole_number_type(1)
    parser.add_argument("--depths", nargs="+", type=kind, metavar="DEPTH", help=words)
    words = "the folder of the results of `run` (%(default)s)"
    default = str(results.results_folder(settings.NAME))
    parser.add_argument("--grid", metavar="FOLDER", default=default, help=words)
    words = "the folder of the results of `forests` (%(default)s)"
    default = str(results.results_folder(FORESTS_FOLDER))
    parser.add_argument("--forests", metavar="FOLDER", default=default, help=words)
    commands.add_shared(
        parser,
        doc=True,
        data=True,
        out=results.results_folder(settings.NAME) / "readings",
        out_note="; each study has a folder there, and resumes in it",
        memory=True,
        smoke=True,
        json="print the lines as JSON",
    )


def run_command(options: argparse.Namespace) -> None:
    """Fit what is missing and print the comparison; or write the page.

    Raises:
        InputError: for a reading or a depth that the study lacks.
    """
    study, start = STUDIES[options.study], time.perf_counter()
    folder = commands.out_folder(options) / options.study
    if options.doc is not None:
        _write_page(study, folder, Path(options.doc))
        return

    with as_input_error():
        readings, depths = _readings_to_fit(study, options), _depths_to_fit(study, options)
    for name in dict.fromkeys(options.datasets):
        request = FitRequest(domain=name, folder=folder, readings=readings, depths=depths)
        _fit_domain(study, request, options)
    if options.study == "noise":
        lines = _noise_lines(folder, options)
        print(json.dumps(lines, indent=1) if options.json else reading_tables.format_lines(lines))
    if not options.json:
        print(f"\n{time.perf_counter() - start:.0f} s. Wrote {folder}")


def _readings_to_fit(study: Study, options: argparse.Namespace) -> list[str]:
    """The readings to fit, which are all by default."""
    choices = [name for name in study.readings if name != PRINTED]
    for name in options.readings or ():
        if name not in choices:
            raise InputError(f"--readings: {name!r} is none of {', '.join(map(repr, choices))}")
    return list(dict.fromkeys(options.readings or choices))


def _depths_to_fit(study: Study, options: argparse.Namespace) -> list[int]:
    """The depths to fit, which are all of the grid by default."""
    depths = study.depths(smoke=options.smoke)
    for depth in options.depths or ():
        if depth not in depths:
            raise InputError(f"--depths: {depth} is none of {', '.join(map(str, depths))}")
    return list(dict.fromkeys(options.depths or depths))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FitRequest:
    """The fits that a domain shall have, and the folder of the study."""

    domain: str
    folder: Path
    readings: Sequence[str]
    depths: Sequence[int]


def _fit_domain(study: Study, request: FitRequest, options: argparse.Namespace) -> None:
    """Fit what is missing of one domain; each sweep has a folder of its own."""
    for cuts, blocks in _missing_blocks(study, request, smoke=options.smoke):
        name = f"nock_henecka_readings_{options.study}"
        sweep = sweeps.Sweep(name, boosted, blocks, seed=settings.SEED)
        tasks = cross_validation_tasks([request.domain], BINS, options.data, cuts)
        fit_missing(sweep, tasks, _unfinished_folder(request.folder, request.domain), options)


def _missing_blocks(
    study: Study, request: FitRequest, *, smoke: bool
) -> Iterator[tuple[Cuts, tuple[sweeps.Block, ...]]]:
    """The settings that a domain lacks, as one tuple of blocks for each way to cut columns.

    Settings of one depth or several are together where the same readings lack them.
    """
    with as_input_error(request.folder):
        fitted_pairs = _fitted_pairs(request.folder, request.domain)
    by_readings: dict[tuple[str, ...], list[int]] = {}
    for depth in request.depths:
        missing = tuple(name for name in request.readings if (name, depth) not in fitted_pairs)
        by_readings.setdefault(missing, []).append(depth)
    for missing, depths in by_readings.items():
        by_cuts: dict[Cuts, dict[bool, list[str]]] = {}
        for name in missing:
            reading = study.readings[name]
            by_cuts.setdefault(reading.cuts, {}).setdefault(reading.has_noise, []).append(name)
        for cuts, groups in by_cuts.items():
            blocks = (study.block(names, depths, smoke=smoke) for names in groups.values())
            yield cuts, tuple(blocks)


def _fitted_pairs(folder: Path, domain: str) -> set[tuple[str, int]]:
    """(reading, depth) of the fits of a domain.

    Raises:
        ValueError: for a file that is not one of fits.
    """
    files = (sweeps.load_columns(path)[0] for path in saved.reading_files(folder, domain))
    return {
        pair
        for columns in files
        for pair in zip(columns["reading"].tolist(), columns["depth"].tolist(), strict=True)
    }


def _unfinished_folder(folder: Path, domain: str) -> Path:
    """The folder where the next readings of a domain are fitted."""
    candidates = (folder / f"boosted{number or ''}" / domain for number in itertools.count())
    return next(path for path in candidates if not (path / f"{domain}.jsonl").exists())


def _noise_lines(folder: Path, options: argparse.Namespace) -> list[results.Line]:
    """Compute and save the comparison of the readings of noise."""
    with as_input_error():
        fits = saved.read_reading_fits(folder, Path(options.grid), Path(options.forests))
    labels = {name: np.asarray(data.load(name, BINS, options.data).label) for name in fits}
    lines = reading_tables.noise_lines(fits, labels)
    banknote = data.load(neighbours.DATASET, BINS, options.data)
    lines += neighbours.tell_apart_lines(banknote, smoke=options.smoke)
    commits = sorted({commit for of_domain in fits.values() for commit in of_domain.commits})
    config = {"v_q": BINS, "clip": CLIP, "folds": settings.FOLDS, "seed": settings.SEED}
    config["fitted"] = "; ".join(commits)
    results.write_csv(folder / "lines.csv", lines, config)
    return lines


def _write_page(study: Study, folder: Path, page: Path) -> None:
    """Write the tables of a study into a page, from its saved fits or its lines in short."""
    path = folder / "lines.csv"
    if study.page is not reading_tables.NOISE_PAGE:
        forests = page.with_name(reading_tables.NOISE_PAGE.file)
        with as_input_error():
            lines = reading_tables.mean_error_lines(folder, forests)
        if lines:
            results.write_columns(path, lines)
    pages.write_page(study.page, page, path)
