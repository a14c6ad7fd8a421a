"""Run the grid of section 17 on 19 domains in ten folds, and save Table 1.

The grid has T in {2, 5, 10, 20}, D in {1..6}, and alpha in {0.1, 1, objective calibration}. Private
settings have epsilon in {0.01, 0.1, 1, 10, 25}, beta_tree in {0.1, 0.5, 0.9}, and M. Numeric
columns are cut into v_q intervals. A run that was stopped resumes where it stopped.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

from dpbt import sweeps
from dpbt.owners.cli.parsing import as_input_error
from experiments.common import commands, data, protocols, results
from experiments.common.progress import progress
from experiments.papers.nock_henecka_2020 import settings, tables
from experiments.papers.nock_henecka_2020.options import Cuts, cut_dataset

BINS, CLIP = 10, 10.0
"""The v_q and the M of what stands beside the paper's tables."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "calibrations of the noise (%(default)s)"
    choices = (*settings.CALIBRATIONS, "both")
    parser.add_argument("--calibration", choices=choices, default="both", help=words)
    add_bins_option(parser)
    words = "values of M (10)"
    parser.add_argument(
        "--clip", type=commands.positive_number, nargs="+", default=[CLIP], help=words
    )
    add_fit_options(parser, settings.NAME, "print the times and Table 1's counts as JSON")


def add_fit_options(parser: argparse.ArgumentParser, folder: str, json: str) -> None:
    """Declare the options that programs which fit domains share.

    Args:
        parser: the parser of the program.
        folder: the folder of the results, below `results`.
        json: the help of --json.
    """
    add_dataset_option(parser)
    out, words = results.results_folder(folder), "; a run resumes there"
    commands.add_shared(
        parser, data=True, out=out, out_note=words, memory=True, smoke=True, json=json
    )


def add_dataset_option(parser: argparse.ArgumentParser) -> None:
    """Declare --datasets."""
    words = "domains (all 19); `python -m experiments data check` lists them"
    names = {"nargs": "+", "choices": data.NOCK_HENECKA, "metavar": "NAME"}
    parser.add_argument("--datasets", **names, default=list(data.NOCK_HENECKA), help=words)


def add_bins_option(parser: argparse.ArgumentParser) -> None:
    """Declare --bins."""
    words = "v_q, the number of intervals of a numeric column (%(default)s)"
    kind = commands.whole_number_type(2, settings.MAX_BINS)
    parser.add_argument("--bins", type=kind, default=BINS, metavar="COUNT", help=words)


def cross_validation_tasks(
    names: Sequence[str], bins: int, folder: str | None = None, cuts: Cuts = "declared"
) -> list[sweeps.Task]:
    """One task for each domain; its number of rows is the public bound.

    Args:
        names: the names of the domains.
        bins: v_q.
        folder: searched first for the data sets.
        cuts: how numeric columns are cut, as `options.Reading` has it.
    """
    tasks = []
    for name in dict.fromkeys(names):
        dataset = cut_dataset(data.load(name, bins, folder), cuts, bins)
        split = protocols.cross_validation(dataset.label, settings.FOLDS, [settings.SEED])
        public = {"rows": len(dataset.label)}
        tasks.append(sweeps.Task(name, dataset.table, split.train, split.test, public))
    return tasks


def fit_missing(
    sweep: sweeps.Sweep, tasks: list[sweeps.Task], folder: Path, options: argparse.Namespace
) -> sweeps.Report:
    """Fit the settings of a sweep that a folder of results lacks.

    Args:
        sweep: what is fitted.
        tasks: on which domains.
        folder: where the results are.
        options: `json` and `memory_mb` are read.
    """
    total = len(sweep.settings) * settings.FOLDS * len(tasks)
    label = tasks[0].name if len(tasks) == 1 else ""
    bar = progress(total, "fit", label, quiet=options.json, smoothing=0.1)
    with bar as shown, as_input_error(folder):
        return sweeps.run(sweep, tasks, folder, memory_mb=options.memory_mb, progress=shown.update)


def fit_and_report(sweep: sweeps.Sweep, bins: int, options: argparse.Namespace) -> None:
    """Fit what is missing of a sweep on the chosen domains, and print how much it was."""
    out = commands.out_folder(options)
    tasks = cross_validation_tasks(options.datasets, bins, options.data)
    report = fit_missing(sweep, tasks, out, options)
    print(f"{report.fits} fits, {report.reused} more were saved. Wrote {out}")


def run_command(options: argparse.Namespace) -> None:
    """Fit the missing part of the grid; write and print Table 1's counts."""
    both = options.calibration == "both"
    calibrations = settings.CALIBRATIONS if both else (options.calibration,)
    out, start = commands.out_folder(options), time.perf_counter()
    with as_input_error():
        sweep = settings.grid(calibrations, options.bins, tuple(options.clip), options.smoke)
    tasks = cross_validation_tasks(options.datasets, options.bins, options.data)
    report = fit_missing(sweep, tasks, out, options)
    seconds = time.perf_counter() - start

    lines = tables.table_1_lines(out, calibrations)
    config = {
        "v_q": options.bins,
        "clip": " ".join(map(str, options.clip)),
        "folds": settings.FOLDS,
        "seed": settings.SEED,
    }
    results.write_csv(out / "table_1.csv", [tables.flatten_line(line) for line in lines], config)

    if options.json:
        measured = {"seconds": seconds, "processor_seconds": time.process_time()}
        print(json.dumps({**measured, **report._asdict(), "table_1": lines}, indent=1))
        return
    print(
        f"{report.fits} fits in {seconds:.0f} s ({report.reused} more were saved already), "
        f"{report.programs} programs\n"
    )
    print(f"{tables.format_lines(lines)} Wrote {out}")
