"""The four comparisons: their data sets, methods and measures."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpbt.models import measures
from experiments.common import data, peers, results
from experiments.common.cells import Cell
from experiments.common.data import fresh, targets
from experiments.comparisons import binary
from experiments.comparisons import targets as declared
from experiments.comparisons.methods import Method
from experiments.comparisons.study import BINS, Study, two_classes
from experiments.comparisons.study import declared as with_target

SETTLED = ("adult", "magic", "mushroom", "cod-rna", "banknote", "breast-wisc")
"""Data sets on which the rule of `auto` was settled."""

UNTOUCHED = ("qsar", "page-blocks", "mammographic", "creditcard", "eeg", "covertype")
"""Data sets that were listed before the rule was first run on them."""

FRESH = ("breast-cancer", *fresh.NAMES)
"""Small tables that judge, which were listed before any method was run on them."""

SETTLED_CLASSES, UNTOUCHED_CLASSES = (
    ("yeast", "cardiotocography", "page-blocks"),
    ("covertype", "firmteacher"),
)
SETTLED_NUMBERS, UNTOUCHED_NUMBERS = (
    ("abalone", "wine-white", "wine-red"),
    ("credit-limit", "adult-age"),
)
"""The same for rules of several classes, and for rules of numbers."""

DELTAS = (0.0, 5e-8)
MANY = (0.1, 0.5, 1.0, 2.0, 5.0)
"""The epsilons of several classes and of numbers."""


class Task(NamedTuple):
    """A comparison.

    Attributes:
        name: the command, which is the name of its results, too.
        methods: name -> method, of all that can be asked for.
        usual: the options by default: dataset, epsilon, delta, methods and splits.
        smoke: those of the smallest run that differ.
        columns: the columns of measures: a name of `measured`, "_" and "mean" or "sd" over splits.
        more: the measures of which more is better; the first is the most telling.
        measured: (target, predictions, probabilities) -> the measures.
        load: (name, splits, bound, folder) -> the data set.
        is_there: (name, folder) -> whether its files are.
    """

    name: str
    methods: Mapping[str, Method]
    usual: Mapping[str, Any]
    smoke: Mapping[str, Any]
    columns: tuple[str, ...]
    more: tuple[str, ...]
    measured: Callable[[np.ndarray, np.ndarray, np.ndarray | None], measures.Measures]
    load: Callable[..., Study]
    is_there: Callable[[str, str | None], bool]

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
        about = {"setting": setting, "splits": len(study.tests), "bins": BINS, "rows": study.rows}
        return {**cell._asdict(), **about}

    def line(self, cell: Cell, study: Study) -> results.Line:
        """The measures over the splits, seconds of a fit, and the library's version.

        The first fit may compile, so it does not count in the seconds unless it is the only one.
        """
        method, found, seconds = self.methods[cell.method], [], []
        for split, test in enumerate(study.tests):
            fitted = method.fit(study, split, *cell.budget)
            found.append(self.measured(study.target[test], *fitted[:2]))
            seconds.append(fitted.seconds)
        line = {column: _over_splits(found, *column.rsplit("_", 1)) for column in self.columns}
        library = None if method.library is None else peers.version(method.library)
        return {**line, "seconds": statistics.fmean(seconds[1:] or seconds), "library": library}


def _over_splits(
    measured: Sequence[Mapping[str, float | None]], name: str, part: str
) -> float | None:
    """The mean of a measure, or its standard deviation; None where a split lacks it."""
    values = [value for each in measured if (value := each[name]) is not None]
    if len(values) < len(measured) or (part == "sd" and len(values) < 2):
        return None
    return statistics.fmean(values) if part == "mean" else statistics.stdev(values)


def _columns(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}_{part}" for name in names for part in ("mean", "sd"))


def _is_there(name: str, folder: str | None) -> bool:
    if name in FRESH:
        return name == "breast-cancer" or fresh.is_there(name)
    return name in data.ENTRIES and data.is_there(name, folder)


_BINARY: dict[str, Any] = {
    "columns": (*_columns("accuracy", "auroc"), "log_loss_mean"),
    "more": ("auroc", "accuracy"),
    "measured": measures.measure_two_classes,
    "load": two_classes,
    "is_there": _is_there,
}
FRONTIER = Task(
    "frontier",
    binary.EVERY,
    {
        "dataset": (*SETTLED, *UNTOUCHED),
        "epsilon": (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
        "delta": DELTAS,
        "methods": tuple(binary.METHODS),
        "splits": 10,
    },
    {
        "dataset": ("breast-cancer",),
        "epsilon": (0.5, 2.0),
        "delta": (0.0,),
        "methods": ("auto", "diffprivlib-forest", "larger-class"),
        "splits": 1,
    },
    **_BINARY,
)
TUNING = Task(
    "tuning",
    {"auto": binary.METHODS["auto"], **binary.TUNED},
    {
        "dataset": (*SETTLED, "qsar", "page-blocks", "mammographic", "eeg"),
        "epsilon": (0.5, 1.0, 2.0, 5.0),
        "delta": DELTAS,
        "methods": ("auto", "tuned", "tuned-logarithmic", "hindsight"),
        "splits": 3,
    },
    {
        "dataset": ("breast-cancer",),
        "epsilon": (1.0,),
        "delta": (0.0,),
        "methods": ("auto", "tuned"),
        "splits": 1,
    },
    **_BINARY,
)

_SMALL: dict[str, Any] = {"epsilon": (0.5, 2.0), "delta": (0.0,), "splits": 1}
CLASSES = Task(
    "classes",
    declared.CLASSES,
    {
        "dataset": (*SETTLED_CLASSES, *UNTOUCHED_CLASSES),
        "epsilon": MANY,
        "delta": DELTAS,
        "methods": tuple(declared.CLASSES),
        "splits": 5,
    },
    _SMALL | {"dataset": ("iris",), "methods": ("auto", "diffprivlib-forest", "larger-class")},
    _columns("auroc", "accuracy", "log_loss"),
    ("auroc", "accuracy"),
    measures.measure_classes,
    with_target,
    targets.is_there,
)
REGRESSION = Task(
    "regression",
    declared.NUMBERS,
    {
        "dataset": (*SETTLED_NUMBERS, *UNTOUCHED_NUMBERS),
        "epsilon": MANY,
        "delta": DELTAS,
        "methods": tuple(declared.NUMBERS),
        "splits": 5,
    },
    _SMALL
    | {"dataset": ("diabetes",), "methods": ("auto", "diffprivlib-linear", "mean", "median")},
    _columns("r2", "rmse", "mae"),
    ("r2",),
    measures.measure_numbers,
    with_target,
    targets.is_there,
)
