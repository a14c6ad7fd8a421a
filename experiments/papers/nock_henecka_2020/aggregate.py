"""Aggregate saved fits into `reproduction/nock_henecka_2020`, also of a run that goes on.

A grid of one (v_q, M) is a file of mean test errors: a line has one domain, budget, alpha,
beta_tree and T, and the six depths. Settings without all folds are left out, and a file names the
domains that are complete. Tables 1, 3 and 4 and the claims in words are computed from the grids.
"""

import argparse
from pathlib import Path

import numpy as np

from dpbt.owners.cli.shared import InputError, as_input_error
from experiments.common import aggregated, data
from experiments.papers.nock_henecka_2020 import grid_tables, saved
from experiments.papers.nock_henecka_2020.criterion import ALPHA
from experiments.papers.nock_henecka_2020.criterion import FOLDER as CRITERION_FOLDER
from experiments.papers.nock_henecka_2020.forests import FOLDER as FORESTS_FOLDER
from experiments.papers.nock_henecka_2020.settings import NAME

OTHER_COMMITS = {
    "table_4": ("forests_commit",),
    "overall": ("forests_commit",),
    "criterion": ("criterion_commit",),
}
"""Result -> the commits of what else made it, beside the grid."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    aggregated.add_options(parser, NAME)
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
    """Write the grids that there are, and what is computed from them.

    Raises:
        InputError: if no folder holds fits.
    """
    grids: dict[tuple[int, float], saved.Grid] = {}
    for folder in map(Path, (options.results, *options.more)):
        if not saved.fit_files(folder):
            raise InputError(f"no results in {folder}; run: python -m experiments {NAME} run")
        with as_input_error(folder):
            for key, grid in saved.read_grids(folder).items():
                grids[key] = saved.join_grids(grids[key], grid) if key in grids else grid
    for (bins, clip), grid in sorted(grids.items()):
        name = f"grid_{bins}_{clip:g}"
        grid.about.update(clip=clip, **_missing_note(grid))
        aggregated.write_result(
            options, NAME, name, saved.grid_lines(grid), grid.about, aggregated.WHOLE
        )
    auto_options = argparse.Namespace(
        **{**vars(options), "results": options.auto or options.results}
    )
    keep = ("domain", "epsilon", "error_mean", "error_sd")
    aggregated.take_saved_file(auto_options, NAME, "auto", f"{NAME} auto", keep)
    main = grids.get((10, 10.0))
    if main is None:
        return
    _write_tables(options, main, grids.get((50, 10.0)))


def _missing_note(grid: saved.Grid) -> dict[str, str]:
    """How many domains each calibration has, if some are missing."""
    count = {name: len(grid.complete_domains(name)) for name in (saved.NONE, *grid.calibrations)}
    if min(count.values()) == len(data.NOCK_HENECKA):
        return {}
    words = ", ".join(f"{name} {number}" for name, number in count.items())
    return {"reduced": f"complete domains of {len(data.NOCK_HENECKA)}: {words}"}


def _write_tables(options: argparse.Namespace, main: saved.Grid, fine: saved.Grid | None) -> None:
    """Write the tables and the claims in words."""
    about, commits, forests = dict(main.about), {}, None
    if saved.fit_files(Path(options.forests)):
        forests = saved.read_forests(Path(options.forests))
        commits["forests_commit"] = saved.fit_commit(Path(options.forests))
    tables = {
        "domains": _domain_lines(),
        "table_1": grid_tables.table_1_lines(main),
        "table_3": grid_tables.table_3_lines(main),
        "measures": grid_tables.claim_lines(main, fine),
    }
    if forests is not None:
        tables["table_4"] = grid_tables.table_4_lines(main, forests)
        tables["overall"] = grid_tables.table_4_totals(tables["table_4"])
    if fine is not None:
        tables["bins"] = grid_tables.bin_lines(main, fine)
    if saved.fit_files(Path(options.criterion)):
        alone = saved.read_criterion(Path(options.criterion))
        tables["criterion"] = grid_tables.criterion_lines(main, alone, str(ALPHA))
        commits["criterion_commit"] = saved.fit_commit(Path(options.criterion))
    for name, lines in tables.items():
        if lines:
            more = {key: commits[key] for key in OTHER_COMMITS.get(name, ()) if key in commits}
            aggregated.write_result(options, NAME, name, lines, about | more)


def _domain_lines() -> list[aggregated.Line]:
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
