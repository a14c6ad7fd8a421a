"""What the figures of Nock & Henecka (2020) share: test errors of settings, and their curves."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from dpbt.analysis.style import PURPLE
from dpbt.commands.errors import InputError
from experiments.common import aggregated
from experiments.common.results import Line
from paper_figures.style import DASHES, FIVE, THREE, finish

NAME = "nock_henecka_2020"
DEPTHS = (1, 2, 3, 4, 5, 6)
WAYS = {"objective": "O.C.", "0.1": "alpha = 0.1", "1.0": "alpha = 1"}
NONE = "none"


class Runs(NamedTuple):
    """Settings of one domain; arrays of one length, an entry for each.

    Attributes:
        error: the mean test error over folds.
        depth: d.
        alpha: the way to set alpha.
        epsilon: infinite without privacy.
    """

    error: np.ndarray
    depth: np.ndarray
    alpha: np.ndarray
    epsilon: np.ndarray

    def where(self, chosen: np.ndarray) -> "Runs":
        """Only some settings."""
        return Runs(*(column[chosen] for column in self))


@functools.cache
def lines(bins: int = 10, clip: float = 10) -> list[Line]:
    """The lines of a grid.

    Raises:
        InputError: if it has not been aggregated.
    """
    return aggregated.read(NAME, f"grid_{bins}_{clip:g}")


def domains(bins: int = 10) -> list[str]:
    """The domains with private runs."""
    return list(
        dict.fromkeys(line["domain"] for line in lines(bins) if line["calibration"] != NONE)
    )


def runs(domain: str, calibration: str, bins: int = 10) -> Runs:
    """The settings of a domain in a calibration, or `NONE`."""
    own = [
        line
        for line in lines(bins)
        if (line["domain"], line["calibration"]) == (domain, calibration)
    ]
    cells = [(line, d, line[f"d{d}"]) for line in own for d in DEPTHS if line[f"d{d}"] is not None]
    return Runs(
        np.asarray([error for _, _, error in cells], float),
        np.asarray([d for _, d, _ in cells], int),
        np.asarray([str(line["alpha"]) for line, _, _ in cells]),
        np.asarray([line["epsilon"] for line, _, _ in cells], float),
    )


def larger_class(domain: str) -> float | None:
    """The error of the larger class."""
    sizes = aggregated.read(NAME, "domains")
    return next((line["larger_class_error"] for line in sizes if line["domain"] == domain), None)


def cumulated(panel: Axes, error: np.ndarray, **style) -> None:
    """Draw the percentage of settings that have at most an error."""
    if len(error):
        ordered = np.sort(error)
        share = 100 * np.arange(1, len(error) + 1) / len(error)
        panel.step(ordered, share, where="post", linewidth=1.2, **style)


def by_alpha(panel: Axes, found: Runs, **properties) -> None:
    """A curve for each way to set alpha."""
    for (way, words), shade, dash in zip(WAYS.items(), THREE, DASHES, strict=False):
        own = found.error[found.alpha == way]
        cumulated(panel, own, color=shade, linestyle=dash, label=words)
    finish(panel, **properties)


def by_epsilon(panel: Axes, found: Runs, **properties) -> None:
    """A curve for each epsilon."""
    for k, epsilon in enumerate(sorted(set(found.epsilon.tolist()))):
        own = found.error[found.epsilon == epsilon]
        style = {"color": FIVE[k % 5], "linestyle": DASHES[k % 5]}
        cumulated(panel, own, label=f"{epsilon:g}", **style)
    finish(panel, **properties)


def sizes(panel: Axes, found: Runs, shade: str, **properties) -> None:
    """The mean depth, with its deviation, of the settings that have at most an error."""
    order = np.argsort(found.error)
    depth = found.depth[order].astype(float)
    count = np.arange(1, len(depth) + 1)
    mean = np.cumsum(depth) / count
    deviation = np.sqrt(np.maximum(np.cumsum(depth**2) / count - mean**2, 0))
    error = found.error[order]
    panel.plot(error, mean, color=shade, label="depth d")
    panel.fill_between(error, mean - deviation, mean + deviation, color=shade, alpha=0.2)
    leaves = np.cumsum(2.0**depth) / count
    second = panel.twinx()
    second.plot(error, leaves, color="0.3", linestyle=":")
    second.set_ylabel("leaves of a tree (dotted)", fontsize=7)
    second.tick_params(labelsize=7)
    second.spines["top"].set_visible(False)
    finish(panel, **properties)


def mark_larger_class(panels: Sequence[Axes], error: float | None) -> None:
    """Draw the error of the larger class as a vertical line."""
    for panel in panels:
        if error is not None:
            panel.axvline(error, color="black", linewidth=0.8)


def auto_errors(domain: str) -> dict[float, float]:
    """Epsilon -> the mean test error of `auto`; empty where it has not been measured."""
    try:
        lines = aggregated.read(NAME, "auto")
    except InputError:
        return {}
    return {line["epsilon"]: line["error_mean"] for line in lines if line["domain"] == domain}


def mark_auto(panel: Axes, domain: str, epsilon: float) -> None:
    """Draw the error of `auto` as a vertical line, where it has been measured."""
    error = auto_errors(domain).get(epsilon)
    if error is not None:
        panel.axvline(error, color=PURPLE, linewidth=1.2)
