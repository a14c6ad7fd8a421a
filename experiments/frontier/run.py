"""Compare `auto`, which nobody tunes, with other private classifiers.

Every method has one setting for all data. A quarter of the rows, stratified, is the test set of a
split; Adult has its own. Each split has keys and public questions of its own. Recipes get `--bound`
times the training rows as public bound. Numbers have 64 intervals.

Results are in `frontier.csv`. A cell that is there with the same setting, splits and rows is not
measured again, so a run that is killed goes on where it was. Peers that are not installed are named
and skipped. `--doc` measures nothing.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from dpbt.commands.errors import InputError
from experiments.common import commands, data, peers, results, tables
from experiments.common.cells import Store, cells_of, lines_of
from experiments.frontier import pages, settings
from experiments.frontier.cells import KEYS, about, measured
from experiments.frontier.methods import ABLATION, EVERY, METHODS
from experiments.frontier.study import study_of


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "data sets (twelve; six for --ablation)"
    parser.add_argument("--dataset", metavar="NAME", nargs="+", help=words)
    words = f"total budgets ({' '.join(f'{each:g}' for each in settings.EPSILONS)})"
    parser.add_argument("--epsilon", type=commands.positive, nargs="+", help=words)
    words = "0 for a pure guarantee (0 5e-08)"
    parser.add_argument("--delta", type=commands.share, nargs="+", help=words)
    words = f"methods ({', '.join(METHODS)}), or auto:PART with one part of auto changed"
    parser.add_argument("--methods", metavar="NAME", nargs="+", choices=EVERY, help=words)
    words = "measure auto with each of its parts changed, by default at epsilon 0.1 and 1 on the "
    words += "data sets on which the rule was settled"
    parser.add_argument("--ablation", action="store_true", help=words)
    words = f"splits into training and test rows ({settings.SPLITS})"
    parser.add_argument("--splits", type=commands.whole(1), help=words)
    words = "rows of the recipes, as a multiple of the training rows, at least 1 (%(default)s)"
    parser.add_argument("--bound", type=commands.at_least_one, default=1.0, help=words)
    words = "write the tables of the saved results into this page, and a summary beside it as CSV"
    parser.add_argument("--doc", metavar="PAGE", help=words)
    commands.add_out(parser, results.folder("frontier"))
    commands.add_data(parser)
    commands.add_smoke(parser)
    commands.add_json(parser, "print the lines as a JSON list")


def run(options: argparse.Namespace) -> None:
    """Measure what is missing, and print all lines that were asked for; or write the page."""
    path = commands.out_folder(options) / "frontier.csv"
    if options.doc is not None:
        for written in pages.write(Path(options.doc), path):
            print(f"wrote {written}")
        return

    asked = _defaults(options)
    lines = list(measured_lines(asked, options, Store(path, "frontier")))
    if options.json:
        print(json.dumps([{key: line[key] for key in KEYS} for line in lines], indent=1))
        return
    shown = KEYS[:-1]
    print(tables.of_lines(lines, shown, ".3g") if lines else "nothing was measured")
    print(f"wrote {path}")


def _defaults(options: argparse.Namespace) -> argparse.Namespace:
    """The options with their defaults, which depend on --smoke and on --ablation."""
    usual = {
        "dataset": settings.DATASETS,
        "epsilon": settings.EPSILONS,
        "delta": settings.DELTAS,
        "methods": tuple(METHODS),
        "splits": settings.SPLITS,
    }
    if options.ablation:
        if options.methods is not None:
            raise InputError("--ablation chooses the methods itself, so --methods must be left out")
        usual |= {"dataset": settings.SETTLED, "epsilon": settings.ABLATION_EPSILONS}
        usual |= {"methods": ("auto", *ABLATION)}
    if options.smoke:
        usual |= settings.SMOKE
    given = {name: getattr(options, name) for name in usual}
    chosen = {name: usual[name] if each is None else each for name, each in given.items()}
    return argparse.Namespace(**chosen)


def measured_lines(
    asked: argparse.Namespace, options: argparse.Namespace, store: Store
) -> Iterator[results.Line]:
    """The lines of all cells, measured now or before; those of absent peers are left out."""
    absent = _absent(asked.methods)
    _check_data(asked.dataset, options.data)
    private = {method: EVERY[method].private for method in asked.methods}
    cells = {
        name: list(cells_of(name, private, asked.epsilon, asked.delta)) for name in asked.dataset
    }
    return lines_of(
        cells,
        store,
        studied=lambda name: study_of(name, asked.splits, options.bound, options.data),
        about=about,
        measured=measured,
        absent=absent,
        quiet=options.json,
    )


def _check_data(names: Sequence[str], folder: str | None) -> None:
    """Check that all data sets are there, before hours are spent on the first.

    Raises:
        InputError: as `data.load`.
    """
    for name in names:
        if name not in data.ENTRIES or not data.is_there(name, folder):
            data.load(name, folder=folder)  # it names the file that is missing


def _absent(methods: Sequence[str]) -> dict[str, str]:
    """Method -> why its library cannot be imported."""
    found = {}
    for method in methods:
        library = EVERY[method].library
        if library is None:
            continue
        try:
            peers.check(library)
        except ImportError as error:
            found[method] = f"install the extra `peers`: {error}"
    return found
