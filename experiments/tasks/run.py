"""What both commands share: options, and the loop over cells that have not been measured."""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments.common import commands, results, tables
from experiments.common.cells import Store, cells_of, lines_of
from experiments.common.data import targets
from experiments.tasks import pages, settings
from experiments.tasks.study import study_of
from experiments.tasks.task import Task


def arguments(parser: argparse.ArgumentParser, task: Task) -> None:
    """Declare the options."""
    words = f"data sets ({' '.join(task.datasets)})"
    parser.add_argument("--dataset", metavar="NAME", nargs="+", help=words)
    words = f"total budgets ({' '.join(f'{each:g}' for each in settings.EPSILONS)})"
    parser.add_argument("--epsilon", type=commands.positive, nargs="+", help=words)
    words = "0 for a pure guarantee (0 5e-08)"
    parser.add_argument("--delta", type=commands.share, nargs="+", help=words)
    words = f"methods ({', '.join(task.methods)})"
    parser.add_argument("--methods", metavar="NAME", nargs="+", choices=task.methods, help=words)
    words = f"splits into training and test rows ({settings.SPLITS})"
    parser.add_argument("--splits", type=commands.whole(1), help=words)
    words = "rows of the recipes, as a multiple of the training rows, at least 1 (%(default)s)"
    parser.add_argument("--bound", type=commands.at_least_one, default=1.0, help=words)
    words = "write the tables of the saved results into this page, and a summary beside it as CSV"
    parser.add_argument("--doc", metavar="PAGE", help=words)
    commands.add_out(parser, results.folder(task.name))
    commands.add_data(parser)
    commands.add_smoke(parser)
    commands.add_json(parser, "print the lines as a JSON list")


def run(options: argparse.Namespace, task: Task) -> None:
    """Measure what is missing, and print all lines that were asked for; or write the page."""
    path = commands.out_folder(options) / f"{task.name}.csv"
    if options.doc is not None:
        for written in pages.write(task, Path(options.doc), path):
            print(f"wrote {written}")
        return

    lines = list(_lines(task, _defaults(options, task), options, Store(path, task.name)))
    if options.json:
        print(json.dumps([{key: line[key] for key in task.keys} for line in lines], indent=1))
        return
    print(tables.of_lines(lines, task.keys[:-1], ".3g") if lines else "nothing was measured")
    print(f"wrote {path}")


def _defaults(options: argparse.Namespace, task: Task) -> argparse.Namespace:
    """The options with their defaults, which depend on --smoke."""
    usual = {
        "dataset": task.datasets,
        "epsilon": settings.EPSILONS,
        "delta": settings.DELTAS,
        "methods": tuple(task.methods),
        "splits": settings.SPLITS,
    }
    if options.smoke:
        usual |= task.smoke
    given = {name: getattr(options, name) for name in usual}
    chosen = {name: usual[name] if each is None else each for name, each in given.items()}
    return argparse.Namespace(**chosen)


def _lines(
    task: Task, asked: argparse.Namespace, options: argparse.Namespace, store: Store
) -> Iterator[results.Line]:
    """The lines of all cells, measured now or before; those of absent methods are left out."""
    absent = _absent(task, asked.methods)
    _check_data(asked.dataset, options.data)
    private = {method: task.methods[method].private for method in asked.methods}
    cells = {
        name: list(cells_of(name, private, asked.epsilon, asked.delta)) for name in asked.dataset
    }
    return lines_of(
        cells,
        store,
        studied=lambda name: study_of(name, asked.splits, options.bound, options.data),
        about=task.about,
        measured=task.measured,
        absent=absent,
        quiet=options.json,
    )


def _check_data(names: Sequence[str], folder: str | None) -> None:
    """Check that all data sets are there, before hours are spent on the first.

    Raises:
        InputError: as `targets.load_target`.
    """
    for name in names:
        if not targets.is_there(name, folder):
            targets.load_target(name, settings.BINS, folder)  # it names the file that is missing


def _absent(task: Task, methods: Sequence[str]) -> dict[str, str]:
    """Method -> why it cannot be run."""
    found = {}
    for name in methods:
        try:
            task.methods[name].check()
        except ImportError as error:
            advice = "" if task.methods[name].library is None else "install the extra `peers`: "
            found[name] = f"{advice}{error}"
    return found
