"""Aggregate saved fits into `reproduction/nock_henecka_2020`, also of a run that goes on.

A grid of one (v_q, M) is a file of mean test errors: a line has one domain, budget, alpha,
beta_tree and T, and the six depths. Settings without all folds are left out, and a file names the
domains that are complete. Tables 1, 3 and 4 and the claims in words are computed from the grids.
"""

import argparse
from pathlib import Path

import numpy as np

from dpbt.owners.cli.shared import InputError, of_input
from experiments.common import aggregated, data
from experiments.papers.nock_henecka_2020 import derived, saved
from experiments.papers.nock_henecka_2020.criterion import ALPHA
from experiments.papers.nock_henecka_2020.criterion import FOLDER as CRITERION_FOLDER
from experiments.papers.nock_henecka_2020.forests import FOLDER as FORESTS_FOLDER
from experiments.papers.nock_henecka_2020.settings import NAME

BESIDE = {
    "table_4": ("forests_commit",),
    "overall": ("forests_commit",),
    "criterion": ("criterion_commit",),
}
"""Result -> what else made it, beside the grid."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    aggregated.arguments(parser, NAME)
    words = "more folders of saved fits, with other M or v_q"
    parser.add_argument("--more", nargs="+", metavar="FOLDER", default=[], help=words)
    words = "the folder of the results of `auto` (that of the fits)"
    parser.add_argument("--auto", metavar="FOLDER", help=words)
    words = f"the folder of RF-L and RF-E (results/{FORESTS_FOLDER})"
    default = f"results/{FORESTS_FOLDER}"
    parser.add_argument("--forests", metavar="FOLDER", default=default, help=words)
    words = f"the folder of alpha = {ALPHA:g} in the criterion alone (results/{CRITERION_FOLDER})"
    default = f"results/{CRITERION_FOLDER}"
    parser.add_argument("--criterion", metavar="FOLDER", default=default, help=words)


def run(options: argparse.Namespace) -> None:
    """Write the grids that were found, and what is computed from them.

    Raises:
        InputError: if no folder holds fits.
    """
    grids: dict[tuple[int, float], saved.Grid] = {}
    for folder in map(Path, (options.results, *options.more)):
        if not saved.files(folder):
            raise InputError(f"no results in {folder}; run: python -m experiments {NAME} run")
        with of_input(folder):
            for key, found in saved.grids(folder).items():
                grids[key] = saved.joined(grids[key], found) if key in grids else found
    for (bins, clip), grid in sorted(grids.items()):
        name = f"grid_{bins}_{clip:g}"
        grid.about.update(clip=clip, **_unfinished(grid))
        aggregated.write(options, NAME, name, saved.lines(grid), grid.about, aggregated.WHOLE)
    beside = argparse.Namespace(**{**vars(options), "results": options.auto or options.results})
    keep = ("domain", "epsilon", "error_mean", "error_sd")
    aggregated.take(beside, NAME, "auto", f"{NAME} auto", keep)
    main = grids.get((10, 10.0))
    if main is None:
        return
    _derived(options, main, grids.get((50, 10.0)))


def _unfinished(grid: saved.Grid) -> dict[str, str]:
    """How many domains each calibration has, if some are missing."""
    count = {name: len(grid.complete(name)) for name in (saved.NONE, *grid.calibrations)}
    if min(count.values()) == len(data.NOCK_HENECKA):
        return {}
    words = ", ".join(f"{name} {number}" for name, number in count.items())
    return {"reduced": f"complete domains of {len(data.NOCK_HENECKA)}: {words}"}


def _derived(options: argparse.Namespace, main: saved.Grid, fine: saved.Grid | None) -> None:
    """Write the tables and the claims in words."""
    about, theirs, forests = dict(main.about), {}, None
    if saved.files(Path(options.forests)):
        forests = saved.forests(Path(options.forests))
        theirs["forests_commit"] = saved.commit(Path(options.forests))
    found = {
        "domains": _domains(),
        "table_1": derived.table_1(main),
        "table_3": derived.table_3(main),
        "measures": derived.measures(main, fine),
    }
    if forests is not None:
        found["table_4"] = derived.table_4(main, forests)
        found["overall"] = derived.overall(found["table_4"])
    if fine is not None:
        found["bins"] = derived.by_bins(main, fine)
    if saved.files(Path(options.criterion)):
        alone = saved.criterion(Path(options.criterion))
        found["criterion"] = derived.criterion(main, alone, str(ALPHA))
        theirs["criterion_commit"] = saved.commit(Path(options.criterion))
    for name, lines in found.items():
        if lines:
            more = {key: theirs[key] for key in BESIDE.get(name, ()) if key in theirs}
            aggregated.write(options, NAME, name, lines, about | more)


def _domains() -> list[aggregated.Line]:
    """The size of each domain and the error of its larger class; data sets that are there."""
    lines = []
    for name in data.NOCK_HENECKA:
        if not data.is_there(name):
            continue
        dataset = data.load(name, 10)
        label = np.asarray(dataset.label)
        error = float(min(label.mean(), 1 - label.mean()))
        sizes = {"rows": len(label), "attributes": len(dataset.domain)}
        sizes["cells"] = sizes["rows"] * sizes["attributes"]
        lines.append({"domain": name, **sizes, "larger_class_error": error})
    return lines
