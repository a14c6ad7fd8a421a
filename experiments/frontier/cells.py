"""Cells of the comparison: a data set, a method and a budget; and the file of those measured."""

import math
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from experiments.common import peers, results
from experiments.frontier.methods import EVERY
from experiments.frontier.settings import BINS
from experiments.frontier.study import Study, scored

KEYS = (
    *("dataset", "method", "epsilon", "delta"),
    *("accuracy_mean", "accuracy_sd", "auroc_mean", "auroc_sd"),
    *("log_loss_mean", "seconds", "setting"),
)
"""The columns of a line that are printed. Methods without privacy have no epsilon and no delta."""


class Cell(NamedTuple):
    """What one line measures; `epsilon` and `delta` are None without privacy."""

    dataset: str
    method: str
    epsilon: float | None
    delta: float | None

    @property
    def budget(self) -> tuple[float, float]:
        """(epsilon, delta) as methods take them."""
        if self.epsilon is None or self.delta is None:
            return math.inf, 0.0
        return self.epsilon, self.delta


def cells_of(
    dataset: str, methods: Sequence[str], epsilons: Sequence[float], deltas: Sequence[float]
) -> Iterator[Cell]:
    """The cells of a data set, method by method, so that a program is compiled once."""
    for method in methods:
        if not EVERY[method].private:
            yield Cell(dataset, method, None, None)
            continue
        for delta in deltas:
            for epsilon in epsilons:
                yield Cell(dataset, method, epsilon, delta)


def about(cell: Cell, study: Study) -> results.Line | None:
    """What identifies the cell's line: it is measured again where any of this differs.

    None if the method has nothing to measure there.
    """
    setting = EVERY[cell.method].setting(study, *cell.budget)
    if setting is None:
        return None
    return {
        **cell._asdict(),
        "setting": setting,
        "splits": len(study.tests),
        "bins": BINS,
        "rows": study.rows,
    }


def measured(cell: Cell, study: Study) -> results.Line:
    """Accuracy, AUROC and log loss over the splits, seconds of a fit, and the library's version.

    The first fit may compile, so it does not count in the seconds unless it is the only one.
    """
    method = EVERY[cell.method]
    found, seconds = [], []
    for split, test in enumerate(study.tests):
        fitted = method.fit(study, split, *cell.budget)
        found.append(scored(study.target[test], fitted.score, fitted.probability))
        seconds.append(fitted.seconds)

    losses = [each["log_loss"] for each in found]
    return {
        "accuracy_mean": statistics.fmean(each["accuracy"] for each in found),
        "accuracy_sd": _deviation([each["accuracy"] for each in found]),
        "auroc_mean": statistics.fmean(each["auroc"] for each in found),
        "auroc_sd": _deviation([each["auroc"] for each in found]),
        "log_loss_mean": None if None in losses else statistics.fmean(losses),
        "seconds": statistics.fmean(seconds[1:] or seconds),
        "library": None if method.library is None else peers.version(method.library),
    }


def _deviation(values: list[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None


class Store:
    """The file of all measured lines, one for each cell; it is written after every cell."""

    def __init__(self, path: Path, command: str = "frontier"):
        self.path = path
        self._command = command
        self._read: list[results.Line] = []
        self._state: tuple[int, int] | None = None

    def lines(self) -> list[results.Line]:
        """What has been measured so far, by other runs too; the file is read when it changes."""
        if not self.path.exists():
            return []
        found = self.path.stat()
        state = found.st_mtime_ns, found.st_size
        if state != self._state:
            self._read, self._state = results.read_csv(self.path, self._command), state
        return self._read

    def find(self, wanted: results.Line) -> results.Line | None:
        """The line that agrees with all that `about` says, if it has been measured."""
        lines = self.lines()
        agreeing = (line for line in lines if all(line[key] == wanted[key] for key in wanted))
        return next(agreeing, None)

    def add(self, line: results.Line) -> None:
        """Add a line, in place of one of the same cell."""
        cell = Cell._fields
        kept = [old for old in self.lines() if any(old[key] != line[key] for key in cell)]
        results.write_csv(self.path, [*kept, line], {})
