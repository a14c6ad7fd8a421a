"""What the commands of the comparisons share: options, and the cells that are not measured yet."""

import argparse
import functools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from experiments.common import commands, pages, peers, results, tables
from experiments.common.cells import Store, cells_of_dataset, measure_cells
from experiments.comparisons.pages import pages_of_task
from experiments.comparisons.study import Study
from experiments.comparisons.task import Task


class Command(NamedTuple):
    """The functions that a module of a command has: it declares its options, and runs."""

    add_arguments: Callable[[argparse.ArgumentParser], None]
    run_command: Callable[[argparse.Namespace], None]


def command_of_task(task: Task) -> Command:
    """The command of a comparison."""
    return Command(
        add_arguments=functools.partial(_declare_options, task=task),
        run_command=functools.partial(_measure_or_write_page, task=task),
    )


def _declare_options(parser: argparse.ArgumentParser, task: Task) -> None:
    def default_words(name: str) -> str:
        values = task.defaults[name]
        return " ".join(f"{value:g}" if isinstance(value, float) else value for value in values)

    words = f"data sets ({default_words('dataset')})"
    parser.add_argument("--dataset", metavar="NAME", nargs="+", help=words)
    words = f"total budgets ({default_words('epsilon')})"
    parser.add_argument("--epsilon", type=commands.positive, nargs="+", help=words)
    words = f"0 for a pure guarantee ({default_words('delta')})"
    parser.add_argument("--delta", type=commands.share_below_one, nargs="+", help=words)
    words = f"methods ({', '.join(task.methods)})"
    parser.add_argument("--methods", metavar="NAME", nargs="+", choices=task.methods, help=words)
    words = f"splits into training and test rows ({task.defaults['splits']})"
    parser.add_argument("--splits", type=commands.whole_number_type(1), help=words)
    words = "rows of the recipes, as a multiple of the training rows, at least 1 (%(default)s)"
    parser.add_argument("--bound", type=commands.at_least_one, default=1.0, help=words)
    commands.add_shared(
        parser,
        out=results.results_folder(task.name),
        data=True,
        doc=True,
        smoke=True,
        json="print the lines as a JSON list",
    )


def _measure_or_write_page(options: argparse.Namespace, task: Task) -> None:
    """Measure what is missing, and print all requested lines; or write the page."""
    path = commands.out_folder(options) / f"{task.name}.csv"
    if options.doc is not None:
        pages.write_page(pages_of_task(task), Path(options.doc), path)
        return

    lines = list(_requested_lines(task, options, Store(path, task.name)))
    if options.json:
        print(json.dumps([{key: line[key] for key in task.keys} for line in lines], indent=1))
        return
    print(tables.align_lines(lines, task.keys[:-1], ".3g") if lines else "nothing was measured")
    print(f"wrote {path}")


def _read_request(options: argparse.Namespace, task: Task) -> argparse.Namespace:
    """The options with their defaults, which depend on --smoke."""
    defaults = {**task.defaults, **(task.smoke if options.smoke else {})}
    return argparse.Namespace(
        **{name: getattr(options, name) or default for name, default in defaults.items()}
    )


def _requested_lines(
    task: Task, options: argparse.Namespace, store: Store
) -> Iterator[results.Line]:
    """The lines of all cells, measured now or before; those of absent methods are left out.

    Raises:
        InputError: for a data set that is not there, before hours are spent on the first.
    """
    request = _read_request(options, task)
    absent = _absent_methods(task, request.methods)
    for name in request.dataset:
        if not task.is_available(name, options.data):
            task.load(
                name, splits=1, bound=1.0, folder=options.data
            )  # it names the file that is missing
    private = {method: task.methods[method].private for method in request.methods}
    cells = {
        name: list(cells_of_dataset(name, private, epsilons=request.epsilon, deltas=request.delta))
        for name in request.dataset
    }

    def load(name: str) -> Study:
        return task.load(name, splits=request.splits, bound=options.bound, folder=options.data)

    return measure_cells(
        cells,
        store,
        load=load,
        identity=task.line_identity,
        measure=task.measure_line,
        absent=absent,
        quiet=options.json,
    )


def _absent_methods(task: Task, methods: Sequence[str]) -> dict[str, str]:
    """Method -> why its library cannot be imported; of those of these methods that lack one."""
    absent = {}
    for name in methods:
        if (library := task.methods[name].library) is None:
            continue
        try:
            peers.check_installed(library)
        except ImportError as error:
            built = library in peers.REPOSITORIES
            remedy = "build its repository, on the path" if built else "install the extra `peers`"
            absent[name] = f"{remedy}: {error}"
    return absent
