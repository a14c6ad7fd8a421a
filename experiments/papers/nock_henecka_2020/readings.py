"""Which reading of section 6 has the accuracies that are printed? Fit them, and compare.

Every reading but one computes beta_t from the private rows on the noisy tree, section 6's second
option. Such a release has no guarantee. The grid is that of section 17 for v_q = 10 and M = 10. A
run that was stopped resumes where it stopped, and domains can be added one by one.

The fits of the reading `printed` are the published calibration of `run`, and the forests of Table 4
are those of `forests`. Both are read where they have been saved. `--datasets` without a name fits
nothing and compares what there is.

`--doc PAGE` fits nothing and writes the tables of the saved fits into a page.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from dpbt import sweeps
from dpbt.owners.cli.shared import of_input
from experiments.common import commands, data, pages, results
from experiments.common.progress import progress
from experiments.papers.nock_henecka_2020 import (
    reading_fits,
    reading_pages,
    reading_tables,
    settings,
)
from experiments.papers.nock_henecka_2020.forests import FOLDER as FORESTS_FOLDER
from experiments.papers.nock_henecka_2020.reading_settings import FITTED, boosted_grid
from experiments.papers.nock_henecka_2020.run import tasks

OUT = results.folder(settings.NAME) / "readings"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--datasets",
        nargs="*",
        choices=data.NOCK_HENECKA,
        default=["banknote"],
        metavar="NAME",
        help="domains (banknote); `python -m experiments data check` lists all 19",
    )
    words = "readings (all); those that a domain has already are not fitted again"
    names = {"nargs": "+", "choices": FITTED, "default": list(FITTED), "metavar": "NAME"}
    parser.add_argument("--readings", **names, help=words)
    words = "the folder of the results of `run` (%(default)s)"
    default = str(results.folder(settings.NAME))
    parser.add_argument("--grid", metavar="FOLDER", default=default, help=words)
    words = "the folder of the results of `forests` (%(default)s)"
    default = str(results.folder(FORESTS_FOLDER))
    parser.add_argument("--forests", metavar="FOLDER", default=default, help=words)
    commands.add_shared(
        parser,
        doc=True,
        data=True,
        out=OUT,
        about="; a run resumes there",
        memory=True,
        smoke=True,
        json="print the lines as JSON",
    )


def run(options: argparse.Namespace) -> None:
    """Fit what is missing and print the comparison; or write the page."""
    out = commands.out_folder(options)
    if options.doc is not None:
        pages.write(reading_pages.PAGES, Path(options.doc), out / "readings.csv")
        return

    start = time.perf_counter()
    for name in dict.fromkeys(options.datasets):
        _fit(name, out, options)
    with of_input():
        found = reading_fits.domains(out, Path(options.grid), Path(options.forests))
    labels = {name: data.load(name, 10, options.data).label for name in found}
    larger_class = {name: _larger_class(np.asarray(label)) for name, label in labels.items()}
    lines = reading_tables.lines(found, larger_class)
    lines += reading_tables.counted(found, {name: len(label) for name, label in labels.items()})
    lines += reading_tables.apart(options.data, options.smoke)
    fitted = "; ".join(sorted({commit for fits in found.values() for commit in fits.commits}))
    config = {"v_q": 10, "clip": 10.0, "folds": settings.FOLDS, "seed": settings.SEED}
    config["fitted"] = fitted
    results.write_csv(out / "readings.csv", lines, config)

    if options.json:
        print(json.dumps(lines, indent=1))
        return
    print(f"{time.perf_counter() - start:.0f} s\n\n{reading_tables.as_text(lines)}\n\nWrote {out}")


def _larger_class(label: np.ndarray) -> float:
    """The error of stating the larger class of a domain."""
    share = float(np.mean(label))
    return min(share, 1 - share)


def _fit(name: str, out: Path, options: argparse.Namespace) -> None:
    """Fit the readings that are missing of one domain, in a folder of their own."""
    with of_input():
        there = reading_fits.readings(out, name)
        missing = tuple(one for one in dict.fromkeys(options.readings) if one not in there)
        if not missing:
            return
        work = tasks([name], 10, options.data)
    folder = reading_fits.unfinished(out, name)
    sweep = boosted_grid(missing, options.smoke)
    total = len(sweep.settings) * settings.FOLDS
    with progress(total, "fit", quiet=options.json) as shown, of_input(folder):
        shown.set_description(name)
        sweeps.run(sweep, work, folder, memory_mb=options.memory_mb, progress=shown.update)
