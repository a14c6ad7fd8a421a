"""The two tasks: their data sets, methods and measures."""

import statistics
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from experiments.common import peers, results
from experiments.common.cells import Cell
from experiments.tasks import measures, settings
from experiments.tasks.methods import CLASSES as CLASS_METHODS
from experiments.tasks.methods import NUMBERS as NUMBER_METHODS
from experiments.tasks.methods import Found, Method
from experiments.tasks.study import Study


class Measure(NamedTuple):
    """A measure of predictions.

    Attributes:
        words: its name in tables.
        more: whether more is better.
    """

    words: str
    more: bool


class Task(NamedTuple):
    """A comparison.

    Attributes:
        name: the command, which is the name of its results, too.
        datasets: the data sets, by default.
        methods: name -> method.
        measures: name -> measure; the first is the most telling.
        scored: the measures of predictions of the target.
        smoke: the options of the smallest run.
    """

    name: str
    datasets: tuple[str, ...]
    methods: Mapping[str, Method]
    measures: Mapping[str, Measure]
    scored: Callable[[np.ndarray, Found], Mapping[str, float | None]]
    smoke: Mapping[str, Any]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the measures: means and standard deviations over splits."""
        return tuple(f"{name}_{part}" for name in self.measures for part in ("mean", "sd"))

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of a line that are printed."""
        return ("dataset", "method", "epsilon", "delta", *self.columns, "seconds", "setting")

    def about(self, cell: Cell, study: Study) -> results.Line | None:
        """What identifies the cell's line: it is measured again where any of this differs.

        None if the method has nothing to measure there.
        """
        setting = self.methods[cell.method].setting(study, *cell.budget)
        if setting is None:
            return None
        return {
            **cell._asdict(),
            "setting": setting,
            "splits": len(study.tests),
            "bins": settings.BINS,
            "rows": study.rows,
        }

    def measured(self, cell: Cell, study: Study) -> results.Line:
        """The measures over the splits, seconds of a fit, and the library's version.

        The first fit may compile, so it does not count in the seconds unless it is the only one.
        """
        method = self.methods[cell.method]
        found, seconds = [], []
        for split, test in enumerate(study.tests):
            fitted = method.fit(study, split, *cell.budget)
            found.append(self.scored(study.data.target[test], fitted))
            seconds.append(fitted.seconds)

        line: results.Line = {}
        for name in self.measures:
            values = [each[name] for each in found]
            absent = None in values
            line[f"{name}_mean"] = None if absent else statistics.fmean(values)
            line[f"{name}_sd"] = None if absent or len(values) < 2 else statistics.stdev(values)
        line["seconds"] = statistics.fmean(seconds[1:] or seconds)
        line["library"] = None if method.library is None else peers.version(method.library)
        return line


CLASSES = Task(
    "classes",
    (*settings.SETTLED_CLASSES, *settings.UNTOUCHED_CLASSES),
    CLASS_METHODS,
    {
        "auroc": Measure("AUROC", True),
        "accuracy": Measure("accuracy", True),
        "log_loss": Measure("log loss", False),
    },
    lambda target, found: measures.of_classes(target, found.predicted, found.probability),
    {
        **settings.SMOKE,
        "dataset": ("iris",),
        "methods": ("auto", "diffprivlib-forest", "larger-class"),
    },
)

REGRESSION = Task(
    "regression",
    (*settings.SETTLED_NUMBERS, *settings.UNTOUCHED_NUMBERS),
    NUMBER_METHODS,
    {
        "r2": Measure("R^2", True),
        "rmse": Measure("RMSE", False),
        "mae": Measure("MAE", False),
    },
    lambda target, found: measures.of_numbers(target, found.predicted),
    {
        **settings.SMOKE,
        "dataset": ("diabetes",),
        "methods": ("auto", "diffprivlib-linear", "mean", "median"),
    },
)
