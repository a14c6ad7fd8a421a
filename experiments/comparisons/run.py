"""What the commands of the comparisons share: options, and the cells that are not measured yet."""

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from experiments.common import commands, pages, peers, results, tables
from experiments.common.cells import Store, cells_of, lines_of
from experiments.comparisons.pages import pages_of
from experiments.comparisons.task import Task


def command(
    task: Task,
) -> tuple[Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], None]]:
    """(arguments, run) of a comparison's command."""
    return lambda parser: _arguments(parser, task), lambda options: _run(options, task)


def _arguments(parser: argparse.ArgumentParser, task: Task) -> None:
    def usual(name: str) -> str:
        values = task.usual[name]
        return " ".join(f"{each:g}" if isinstance(each, float) else each for each in values)

    words = f"data sets ({usual('dataset')})"
    parser.add_argument("--dataset", metavar="NAME", nargs="+", help=words)
    words = f"total budgets ({usual('epsilon')})"
    parser.add_argument("--epsilon", type=commands.positive, nargs="+", help=words)
    words = f"0 for a pure guarantee ({usual('delta')})"
    parser.add_argument("--delta", type=commands.share_below_one, nargs="+", help=words)
    words = f"methods ({', '.join(task.methods)})"
    parser.add_argument("--methods", metavar="NAME", nargs="+", choices=task.methods, help=words)
    words = f"splits into training and test rows ({task.usual['splits']})"
    parser.add_argument("--splits", type=commands.whole_number_type(1), help=words)
    words = "rows of the recipes, as a multiple of the training rows, at least 1 (%(default)s)"
    parser.add_argument("--bound", type=commands.at_least_one, default=1.0, help=words)
    shared: dict[str, Any] = {"data": True, "doc": True, "smoke": True}
    shared |= {"out": results.results_folder(task.name), "json": "print the lines as a JSON list"}
    commands.add_shared(parser, **shared)


def _run(options: argparse.Namespace, task: Task) -> None:
    """Measure what is missing, and print all lines that were asked for; or write the page."""
    path = commands.out_folder(options) / f"{task.name}.csv"
    if options.doc is not None:
        pages.write_page(pages_of(task), Path(options.doc), path)
        return

    lines = list(_lines(task, _read_request(options, task), options, Store(path, task.name)))
    if options.json:
        print(json.dumps([{key: line[key] for key in task.keys} for line in lines], indent=1))
        return
    print(tables.align_lines(lines, task.keys[:-1], ".3g") if lines else "nothing was measured")
    print(f"wrote {path}")


def _read_request(options: argparse.Namespace, task: Task) -> argparse.Namespace:
    """The options with their defaults, which depend on --smoke."""
    usual = {**task.usual, **(task.smoke if options.smoke else {})}
    chosen = {name: getattr(options, name) for name in usual}
    return argparse.Namespace(**{name: chosen[name] or usual[name] for name in usual})


def _lines(
    task: Task, request: argparse.Namespace, options: argparse.Namespace, store: Store
) -> Iterator[results.Line]:
    """The lines of all cells, measured now or before; those of absent methods are left out.

    Raises:
        InputError: for a data set that is not there, before hours are spent on the first.
    """
    absent = _absent(task, request)
    for name in request.dataset:
        if not task.is_there(name, options.data):
            task.load(name, 1, 1.0, options.data)  # it names the file that is missing
    private = {method: task.methods[method].private for method in request.methods}
    cells = {
        name: list(cells_of(name, private, request.epsilon, request.delta))
        for name in request.dataset
    }
    return lines_of(
        cells,
        store,
        studied=lambda name: task.load(name, request.splits, options.bound, options.data),
        about=task.about,
        measured=task.line,
        absent=absent,
        quiet=options.json,
    )


def _absent(task: Task, request: argparse.Namespace) -> dict[str, str]:
    """Method -> why its library cannot be imported."""
    absent = {}
    for name in request.methods:
        if (library := task.methods[name].library) is None:
            continue
        try:
            peers.check(library)
        except ImportError as error:
            built = library in peers.REPOSITORIES
            remedy = "build its repository, on the path" if built else "install the extra `peers`"
            absent[name] = f"{remedy}: {error}"
    return absent
