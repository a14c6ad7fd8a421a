"""Aggregate saved fits into `reproduction/nock_henecka_2020`, also of a run that goes on.

A grid of one (v_q, M) is a file of mean test errors: a line has one domain, budget, alpha,
beta_tree and T, and the six depths. Settings without all folds are left out, and a file names the
domains that are complete. Tables 1, 3 and 4 and the claims in words are computed from the grids.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpbt.owners.cli.parsing import InputError, as_input_error
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
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


def run_command(options: argparse.Namespace) -> None:
    """Write the grids that were saved, and the tables that are computed from them.

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
        aggregated.write_result(
            options,
            NAME,
            name,
            lines=saved.grid_lines(grid),
            origin=_origin_of_grid(grid, clip),
            digits=aggregated.EXACT_DIGITS,
        )
    auto_options = argparse.Namespace(
        **{**vars(options), "results": options.auto or options.results}
    )
    aggregated.aggregate_saved_file(
        auto_options,
        NAME,
        "auto",
        command=f"{NAME} auto",
        keep=("domain", "epsilon", "error_mean", "error_sd"),
    )
    main = grids.get((10, 10.0))
    if main is None:
        return
    fine = grids.get((50, 10.0))
    _write_tables(options, main, fine, _origin_of_grid(main, 10.0))


def _origin_of_grid(grid: saved.Grid, clip: float) -> dict[str, Any]:
    """What made a grid, with a note of the domains that it lacks."""
    return {**grid.origin, "clip": clip, **_missing_note(grid)}


def _missing_note(grid: saved.Grid) -> dict[str, str]:
    """How many domains each calibration has, if some are missing."""
    count = {name: len(grid.complete_domains(name)) for name in (saved.NONE, *grid.calibrations)}
    if min(count.values()) == len(data.NOCK_HENECKA):
        return {}
    words = ", ".join(f"{name} {number}" for name, number in count.items())
    return {"reduced": f"complete domains of {len(data.NOCK_HENECKA)}: {words}"}


def _write_tables(
    options: argparse.Namespace,
    main: saved.Grid,
    fine: saved.Grid | None,
    origin: Mapping[str, Any],
) -> None:
    """Write the tables and the claims in words.

    Args:
        options: the folders of the other programs.
        main: the grid of v_q = 10 and M = 10.
        fine: that of v_q = 50, or None if it was not run.
        origin: what made the main grid.
    """
    commits, forests = {}, None
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
        criterion_fits = saved.read_criterion(Path(options.criterion))
        tables["criterion"] = grid_tables.criterion_lines(main, criterion_fits, str(ALPHA))
        commits["criterion_commit"] = saved.fit_commit(Path(options.criterion))
    for name, lines in tables.items():
        if lines:
            other_commits = {
                key: commits[key] for key in OTHER_COMMITS.get(name, ()) if key in commits
            }
            aggregated.write_result(
                options, NAME, name, lines=lines, origin={**origin, **other_commits}
            )


def _domain_lines() -> list[aggregated.Line]:
    """The size of each domain whose files are there, and the error of its larger class."""
    lines = []
    for name in data.NOCK_HENECKA:
        if not data.is_available(name):
            continue
        dataset = data.load(name, 10)
        label = np.asarray(dataset.label)
        error = float(min(label.mean(), 1 - label.mean()))
        sizes = {"rows": len(label), "attributes": len(dataset.domain)}
        sizes["cells"] = sizes["rows"] * sizes["attributes"]
        lines.append({"domain": name, **sizes, "larger_class_error": error})
    return lines
