"""The comparisons: their data sets, methods and measures."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpbt.models import measures
from dpbt.public_types import Response
from experiments.common import data, peers, results
from experiments.common.cells import Cell
from experiments.common.data import fresh, people, targets
from experiments.comparisons import binary
from experiments.comparisons import targets as methods_of_targets
from experiments.comparisons.methods import Method, Predictions, Trial
from experiments.comparisons.study import BINS, Study, load_declared_target, load_two_classes

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
"""Of rules of several classes, and of rules of numbers: data sets like those above."""

DELTAS = (0.0, 5e-8)
TARGET_EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
"""The epsilons of several classes and of numbers."""


class Task(NamedTuple):
    """A comparison.

    Attributes:
        name: the command, which is the name of its results, too.
        methods: name -> method, of all that can be measured.
        defaults: the options by default: dataset, epsilon, delta, methods and splits.
        smoke: those of the smallest run that differ.
        columns: the columns of measures: a name of `measure`, "_" and "mean" or "sd" over splits.
        ranked: the measures that rank methods, of which more is better; the first is the most
            telling.
        measure: (study, test rows, predictions) -> the measures.
        load: (name, *, splits, bound, folder) -> the data set.
        is_available: (name, folder) -> whether its files are.
    """

    name: str
    methods: Mapping[str, Method]
    defaults: Mapping[str, Any]
    smoke: Mapping[str, Any]
    columns: tuple[str, ...]
    ranked: tuple[str, ...]
    measure: Callable[[Study, np.ndarray, Predictions], measures.Measures]
    load: Callable[..., Study]
    is_available: Callable[[str, str | None], bool]

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of a line that are printed."""
        return ("dataset", "method", "epsilon", "delta", *self.columns, "seconds", "setting")

    def line_identity(self, cell: Cell, study: Study) -> results.Line | None:
        """What identifies the cell's line: it is measured again where any of this differs.

        None if the method has nothing to measure there.
        """
        setting = self.methods[cell.method].setting(_trial(cell, study, split=0))
        if setting is None:
            return None
        sizes = {"splits": len(study.tests), "bins": BINS, "rows": study.rows}
        return {**cell._asdict(), "setting": setting, **sizes}

    def measure_line(self, cell: Cell, study: Study) -> results.Line:
        """The measures over the splits, seconds of a fit, and the library's version.

        The first fit may compile, so it does not count in the seconds unless it is the only one.
        """
        method, measured, seconds = self.methods[cell.method], [], []
        for split, test in enumerate(study.tests):
            predictions = method.fit(_trial(cell, study, split))
            measured.append(self.measure(study, test, predictions))
            seconds.append(predictions.seconds)
        line = {column: _column_over_splits(measured, column) for column in self.columns}
        library = None if method.library is None else peers.name_with_version(method.library)
        return {**line, "seconds": statistics.fmean(seconds[1:] or seconds), "library": library}


def _trial(cell: Cell, study: Study, split: int) -> Trial:
    """A split of a cell; without privacy epsilon is infinite and delta 0."""
    if cell.epsilon is None or cell.delta is None:
        return Trial(study=study, split=split, epsilon=math.inf, delta=0.0)
    return Trial(study=study, split=split, epsilon=cell.epsilon, delta=cell.delta)


def _column_over_splits(
    measured: Sequence[Mapping[str, float | None]], column: str
) -> float | None:
    """The mean of a measure or its standard deviation, by the column's name.

    It is None where a split lacks the measure.
    """
    name, statistic = column.rsplit("_", 1)
    values = [
        value for measures_of_split in measured if (value := measures_of_split[name]) is not None
    ]
    if len(values) < len(measured) or (statistic == "sd" and len(values) < 2):
        return None
    return statistics.fmean(values) if statistic == "mean" else statistics.stdev(values)


def _mean_and_sd_columns(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}_{statistic}" for name in names for statistic in ("mean", "sd"))


def _measure_by_target(
    measure: Callable[[np.ndarray, np.ndarray, np.ndarray | None], measures.Measures],
) -> Callable[[Study, np.ndarray, Predictions], measures.Measures]:
    """The measure of a task whose measures need the targets of the test rows alone."""

    def measure_split(
        study: Study, test: np.ndarray, predictions: Predictions
    ) -> measures.Measures:
        return measure(study.target[test], predictions.predicted, predictions.probability)

    return measure_split


def _measure_numbers_about_people(
    study: Study, test: np.ndarray, predictions: Predictions
) -> measures.Measures:
    """R^2, the bias in standard deviations of the test rows, and the deviance of a count.

    The deviance is the mean Poisson deviance as a share of that of the mean of the test rows.
    """
    target = study.target[test]
    found = measures.measure_numbers(target, predictions.predicted)
    assert found["bias"] is not None
    deviance = None
    if study.objective == "poisson":
        response = Response(target_dtype="float32", num_classes=0, objective="poisson")
        mean = np.full(len(target), target.mean())
        of_method, of_mean = (
            measures.measure_objective(target, numbers, response)["deviance"]
            for numbers in (predictions.predicted, mean)
        )
        assert of_method is not None
        assert of_mean is not None
        deviance = of_method / of_mean
    return {"r2": found["r2"], "bias": found["bias"] / target.std(), "deviance": deviance}


def _is_number_about_people_available(name: str, folder: str | None) -> bool:
    return name in people.NUMBERS and people.is_available(people.NUMBERS[name].table, folder)


def _is_available(name: str, folder: str | None) -> bool:
    if name in people.NAMES:
        return people.is_available(name, folder)
    if name in FRESH:
        return name == "breast-cancer" or fresh.is_available(name)
    return name in data.ENTRIES and data.is_available(name, folder)


_BINARY: dict[str, Any] = {
    "columns": (*_mean_and_sd_columns("accuracy", "auroc"), "log_loss_mean"),
    "ranked": ("auroc", "accuracy"),
    "measure": _measure_by_target(measures.measure_two_classes),
    "load": load_two_classes,
    "is_available": _is_available,
}
FRONTIER = Task(
    name="frontier",
    methods=binary.ALL_METHODS,
    defaults={
        "dataset": (*people.NAMES, *SETTLED, *UNTOUCHED),
        "epsilon": (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
        "delta": DELTAS,
        "methods": tuple(binary.METHODS),
        "splits": 10,
    },
    smoke={
        "dataset": ("breast-cancer",),
        "epsilon": (0.5, 2.0),
        "delta": (0.0,),
        "methods": ("auto", "diffprivlib-forest", "larger-class"),
        "splits": 1,
    },
    **_BINARY,
)
TUNING = Task(
    name="tuning",
    methods={"auto": binary.METHODS["auto"], **binary.TUNED},
    defaults={
        "dataset": (*SETTLED, "qsar", "page-blocks", "mammographic", "eeg"),
        "epsilon": (0.5, 1.0, 2.0, 5.0),
        "delta": DELTAS,
        "methods": ("auto", "tuned", "tuned-logarithmic", "hindsight"),
        "splits": 3,
    },
    smoke={
        "dataset": ("breast-cancer",),
        "epsilon": (1.0,),
        "delta": (0.0,),
        "methods": ("auto", "tuned"),
        "splits": 1,
    },
    **_BINARY,
)

_SMOKE_OF_TARGETS: dict[str, Any] = {"epsilon": (0.5, 2.0), "delta": (0.0,), "splits": 1}
CLASSES = Task(
    name="classes",
    methods=methods_of_targets.CLASSES,
    defaults={
        "dataset": (*SETTLED_CLASSES, *UNTOUCHED_CLASSES),
        "epsilon": TARGET_EPSILONS,
        "delta": DELTAS,
        "methods": tuple(methods_of_targets.CLASSES),
        "splits": 5,
    },
    smoke={
        **_SMOKE_OF_TARGETS,
        "dataset": ("iris",),
        "methods": ("auto", "diffprivlib-forest", "larger-class"),
    },
    columns=_mean_and_sd_columns("auroc", "accuracy", "log_loss"),
    ranked=("auroc", "accuracy"),
    measure=_measure_by_target(measures.measure_classes),
    load=load_declared_target,
    is_available=targets.is_available,
)
REGRESSION = Task(
    name="regression",
    methods=methods_of_targets.NUMBERS,
    defaults={
        "dataset": (*SETTLED_NUMBERS, *UNTOUCHED_NUMBERS),
        "epsilon": TARGET_EPSILONS,
        "delta": DELTAS,
        "methods": tuple(methods_of_targets.NUMBERS),
        "splits": 5,
    },
    smoke={
        **_SMOKE_OF_TARGETS,
        "dataset": ("diabetes",),
        "methods": ("auto", "diffprivlib-linear", "mean", "median"),
    },
    columns=_mean_and_sd_columns("r2", "rmse", "mae"),
    ranked=("r2",),
    measure=_measure_by_target(measures.measure_numbers),
    load=load_declared_target,
    is_available=targets.is_available,
)
NUMBERS = Task(
    name="numbers",
    methods=methods_of_targets.NUMBERS_ABOUT_PEOPLE,
    defaults={
        "dataset": tuple(people.NUMBERS),
        "epsilon": (0.3, 1.0, 3.0, 10.0),
        "delta": (0.0, 1e-6),
        "methods": tuple(methods_of_targets.NUMBERS_ABOUT_PEOPLE),
        "splits": 6,
    },
    smoke={
        **_SMOKE_OF_TARGETS,
        "dataset": ("colon.nodes",),
        "methods": ("auto", "private-mean"),
    },
    columns=_mean_and_sd_columns("r2", "bias", "deviance"),
    ranked=("r2",),
    measure=_measure_numbers_about_people,
    load=load_declared_target,
    is_available=_is_number_about_people_available,
)
