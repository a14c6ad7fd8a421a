"""What a cell of the comparison measures, and what identifies its line."""

import statistics

from experiments.common import peers, results
from experiments.common.cells import Cell
from experiments.frontier.methods import EVERY
from experiments.frontier.settings import BINS
from experiments.frontier.study import Study, scored

KEYS = (
    *("dataset", "method", "epsilon", "delta"),
    *("accuracy_mean", "accuracy_sd", "auroc_mean", "auroc_sd"),
    *("log_loss_mean", "seconds", "setting"),
)
"""The columns of a line that are printed. Methods without privacy have no epsilon and no delta."""


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
