"""Run the grid of section 17 on 19 domains in ten folds, and save Table 1.

The grid has T in {2, 5, 10, 20}, D in {1..6}, and alpha in {0.1, 1, objective calibration}. Private
settings have epsilon in {0.01, 0.1, 1, 10, 25}, beta_tree in {0.1, 0.5, 0.9}, and M. Numeric
columns are cut into v_q intervals. A run that was stopped resumes where it stopped.
"""

import argparse
import json
import time

from dpbt import sweeps
from dpbt.owners.cli.shared import of_input
from experiments.common import commands, data, protocols, results
from experiments.common.progress import progress
from experiments.papers.nock_henecka_2020 import settings, table


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "calibrations of the noise (%(default)s)"
    choices = (*settings.CALIBRATIONS, "both")
    parser.add_argument("--calibration", choices=choices, default="both", help=words)
    add_bins(parser)
    words = "values of M (10)"
    parser.add_argument("--clip", type=commands.finite, nargs="+", default=[10.0], help=words)
    add_fits(parser, settings.NAME, "print the times and Table 1's counts as JSON")


def add_fits(parser: argparse.ArgumentParser, folder: str, json: str) -> None:
    """Declare what programs that fit domains share.

    Args:
        parser: of the program.
        folder: the name of the results.
        json: the help of --json.
    """
    add_domains(parser)
    out, words = results.folder(folder), "; a run resumes there"
    commands.add_shared(parser, data=True, out=out, about=words, memory=True, smoke=True, json=json)


def add_domains(parser: argparse.ArgumentParser) -> None:
    """Declare --datasets."""
    words = "domains (all 19); `python -m experiments data check` lists them"
    names = {"nargs": "+", "choices": data.NOCK_HENECKA, "metavar": "NAME"}
    parser.add_argument("--datasets", **names, default=list(data.NOCK_HENECKA), help=words)


def add_bins(parser: argparse.ArgumentParser) -> None:
    """Declare --bins."""
    words = "v_q, the number of intervals of a numeric column (%(default)s)"
    kind = commands.whole(2, settings.MAX_BINS)
    parser.add_argument("--bins", type=kind, default=10, metavar="COUNT", help=words)


def tasks(names: list[str], bins: int, folder: str | None = None) -> list[sweeps.Task]:
    """One task for each domain; its number of rows is the public bound."""
    found = []
    for name in dict.fromkeys(names):
        dataset = data.load(name, bins, folder)
        split = protocols.cross_validation(dataset.label, settings.FOLDS, [settings.SEED])
        public = {"rows": len(dataset.label)}
        found.append(sweeps.Task(name, dataset.table, split.train, split.test, public))
    return found


def fit_all(
    sweep: sweeps.Sweep, work: list[sweeps.Task], options: argparse.Namespace
) -> sweeps.Report:
    """Fit the settings that are missing in the folder of the results."""
    total = len(sweep.settings) * settings.FOLDS * len(work)
    out = commands.out_folder(options)
    with progress(total, "fit", quiet=options.json, smoothing=0.1) as shown, of_input(out):
        return sweeps.run(sweep, work, out, memory_mb=options.memory_mb, progress=shown.update)


def fit_and_say(sweep: sweeps.Sweep, bins: int, options: argparse.Namespace) -> None:
    """Fit what is missing of a sweep on the chosen domains, and say how much it was."""
    work = tasks(options.datasets, bins, options.data)
    report = fit_all(sweep, work, options)
    words = f"{report.fits} fits, {report.reused} more were saved"
    print(f"{words}. Wrote {commands.out_folder(options)}")


def run(options: argparse.Namespace) -> None:
    """Fit the missing part of the grid; write and print Table 1's counts."""
    both = options.calibration == "both"
    calibrations = settings.CALIBRATIONS if both else (options.calibration,)
    out, start = commands.out_folder(options), time.perf_counter()
    with of_input():
        sweep = settings.grid(calibrations, options.bins, tuple(options.clip), options.smoke)
    work = tasks(options.datasets, options.bins, options.data)
    report = fit_all(sweep, work, options)
    seconds = time.perf_counter() - start

    lines = table.lines(out, calibrations)
    config = {
        "v_q": options.bins,
        "clip": " ".join(map(str, options.clip)),
        "folds": settings.FOLDS,
        "seed": settings.SEED,
    }
    results.write_csv(out / "table_1.csv", [table.flat(line) for line in lines], config)

    if options.json:
        measured = {"seconds": seconds, "processor_seconds": time.process_time()}
        print(json.dumps({**measured, **report._asdict(), "table_1": lines}, indent=1))
        return
    print(
        f"{report.fits} fits in {seconds:.0f} s ({report.reused} more were saved already), "
        f"{report.programs} programs\n"
    )
    print(f"{table.as_text(lines)} Wrote {out}")
