"""Cells of a comparison: a data set, a method and a budget; and the file of those measured."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from experiments.common import results
from experiments.common.progress import progress

Study = TypeVar("Study")
"""A data set as the methods of a comparison read it."""


class Cell(NamedTuple):
    """What one line measures; `epsilon` and `delta` are None without privacy."""

    dataset: str
    method: str
    epsilon: float | None
    delta: float | None

    @property
    def words(self) -> str:
        """The cell in words."""
        budget = "" if self.epsilon is None else f" {self.epsilon:g} {self.delta:g}"
        return f"{self.dataset} {self.method}{budget}"


def cells_of_dataset(
    dataset: str,
    private: Mapping[str, bool],
    *,
    epsilons: Sequence[float],
    deltas: Sequence[float],
) -> Iterator[Cell]:
    """The cells of a data set, method by method, so that a program is compiled once.

    Args:
        dataset: its name.
        private: method -> whether it has a budget; others are measured once.
        epsilons: the budgets.
        deltas: the budgets.
    """
    for method, has_budget in private.items():
        if not has_budget:
            yield Cell(dataset, method, None, None)
            continue
        for delta in deltas:
            for epsilon in epsilons:
                yield Cell(dataset, method, epsilon, delta)


class Store:
    """The file of all measured lines, one for each cell; it is written after every cell.

    Args:
        path: the file.
        command: the arguments of `python -m experiments` that write it.
    """

    def __init__(self, path: Path, command: str):
        self.path = path
        self._command = command
        self._read: list[results.Line] = []
        self._state: tuple[int, int, int] | None = None

    def lines(self) -> list[results.Line]:
        """What has been measured so far, by other runs too; the file is read when it changes."""
        if not self.path.exists():
            return []
        status = self.path.stat()
        # A file that replaced another is a new one, whatever the clock says.
        state = status.st_ino, status.st_mtime_ns, status.st_size
        if state != self._state:
            self._read, self._state = results.read_csv(self.path, self._command), state
        return self._read

    def find(self, identity: results.Line) -> results.Line | None:
        """The line whose columns agree with all of the identity, if it has been measured."""
        agreeing = (
            line
            for line in self.lines()
            if all(line[key] == value for key, value in identity.items())
        )
        return next(agreeing, None)

    def add(self, line: results.Line) -> None:
        """Add a line, in place of one of the same cell."""
        other_lines = [
            old for old in self.lines() if any(old[key] != line[key] for key in Cell._fields)
        ]
        results.write_csv(self.path, [*other_lines, line], {})


def measure_cells(
    cells: Mapping[str, Sequence[Cell]],
    store: Store,
    *,
    load: Callable[[str], Study],
    identity: Callable[[Cell, Study], results.Line | None],
    measure: Callable[[Cell, Study], results.Line],
    absent: Mapping[str, str],
    quiet: bool,
) -> Iterator[results.Line]:
    """The lines of all cells, measured now or before.

    Lines of absent methods are left out unless they were measured before. Standard error names
    these methods at the end.

    Args:
        cells: data set -> its cells.
        store: where lines are looked up and saved.
        load: from the name of a data set to what methods read.
        identity: what identifies a cell's line; None if there is nothing to measure.
        measure: measures the rest of the line.
        absent: method -> why it cannot be run.
        quiet: show no progress.
    """
    skipped: dict[str, str] = {}
    with progress(sum(map(len, cells.values())), "cell", quiet=quiet) as progress_bar:
        for name, cells_of_name in cells.items():
            study = load(name)
            for cell in cells_of_name:
                progress_bar.set_description(cell.words)
                cell_identity = identity(cell, study)
                line = None if cell_identity is None else store.find(cell_identity)
                if cell_identity is not None and line is None:
                    if cell.method in absent:
                        skipped[cell.method] = absent[cell.method]
                    else:
                        line = {**cell_identity, **measure(cell, study)}
                        store.add(line)
                if line is not None:
                    yield line
                progress_bar.update()
    for method, reason in skipped.items():
        print(f"skipped: {method}: {reason}", file=sys.stderr)
