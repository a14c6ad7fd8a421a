"""What the figures of Nock & Henecka (2020) share: test errors of settings, and their curves."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from dpbt.commands.errors import InputError
from experiments.common import aggregated
from experiments.common.results import Line
from paper_figures.style import AUTO, CALIBRATIONS, DASHES, THREE, finish, ordered

NAME = "nock_henecka_2020"
DEPTHS = (1, 2, 3, 4, 5, 6)
WAYS = {"objective": "O.C.", "0.1": "alpha = 0.1", "1.0": "alpha = 1"}
NONE = "none"
AUTO_STYLE: dict[str, Any] = {"color": AUTO, "linewidth": 1.3, "marker": "v", "markersize": 4}


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


def domains(bins: int = 10, calibration: str | None = None) -> list[str]:
    """The domains with private runs, in one calibration or in any."""
    kinds = CALIBRATIONS if calibration is None else (calibration,)
    return list(dict.fromkeys(at["domain"] for at in lines(bins) if at["calibration"] in kinds))


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


def cumulated(panel: Axes, error: Sequence[float] | np.ndarray, **style) -> None:
    """Draw the percentage of settings that have at most an error."""
    if len(error):
        ordered_errors = np.sort(error)
        share = 100 * np.arange(1, len(error) + 1) / len(error)
        panel.step(ordered_errors, share, where="post", **{"linewidth": 1.1, **style})


def by_alpha(panel: Axes, found: Runs, **properties) -> None:
    """A curve for each way to set alpha."""
    for (way, words), shade, dash in zip(WAYS.items(), THREE, DASHES, strict=False):
        own = found.error[found.alpha == way]
        cumulated(panel, own, color=shade, linestyle=dash, label=words)
    finish(panel, **properties)


def by_epsilon(panel: Axes, found: Runs, epsilons: Sequence[float], **properties) -> None:
    """A curve for each epsilon, from dark to bright."""
    for k, epsilon in enumerate(epsilons):
        own = found.error[np.isclose(found.epsilon, epsilon)]
        cumulated(panel, own, label=f"{epsilon:g}", **ordered(k, len(epsilons)))
    finish(panel, **properties)


def depths(found: Runs) -> np.ndarray:
    """The depth of each setting."""
    return found.depth.astype(float)


def leaves(found: Runs) -> np.ndarray:
    """The leaves of a complete tree of each setting."""
    return 2.0**found.depth


def sizes(
    panel: Axes, found: Runs, size: Callable[[Runs], np.ndarray], shade: str, **properties
) -> None:
    """The mean size, with its deviation, of the settings that have at most an error.

    The dotted line is the mean over all settings. The grid asks for it, so it tells nothing of the
    runs, and every curve ends there.
    """
    order = np.argsort(found.error)
    sorted_sizes, error = size(found)[order], found.error[order]
    count = np.arange(1, len(order) + 1)
    mean = np.cumsum(sorted_sizes) / count
    deviation = np.sqrt(np.maximum(np.cumsum(sorted_sizes**2) / count - mean**2, 0))
    panel.axhline(mean[-1], color="0.3", linestyle=":", linewidth=1)
    panel.plot(error, mean, color=shade)
    panel.fill_between(
        error, mean - deviation, mean + deviation, color=shade, alpha=0.2, linewidth=0
    )
    finish(panel, **properties)


def mark_larger_class(panels: Sequence[Axes], error: float | None) -> None:
    """Draw the error of the larger class as a vertical line, in panels that reach so far."""
    for panel in panels:
        low, high = panel.get_xlim()
        if error is not None and low <= error <= high:
            panel.axvline(error, color="black", linewidth=0.8)


def auto_errors(domain: str) -> dict[float, float]:
    """Epsilon -> the mean test error of `auto`; empty where it has not been measured."""
    try:
        lines = aggregated.read(NAME, "auto")
    except InputError:
        return {}
    return {line["epsilon"]: line["error_mean"] for line in lines if line["domain"] == domain}


def mark_auto(panel: Axes, domain: str, epsilon: float) -> None:
    """Draw the error of `auto` at one epsilon as a vertical line, where it has been measured."""
    error = auto_errors(domain).get(epsilon)
    if error is not None:
        panel.plot([error, error], [0, 100], markevery=[1], clip_on=False, **AUTO_STYLE)


def cumulated_auto(panel: Axes, domain: str) -> None:
    """Draw the percentage of the epsilons at which `auto` has at most an error."""
    errors = sorted(auto_errors(domain).values())
    if errors:
        share = 100 * np.arange(len(errors) + 1) / len(errors)
        style: dict[str, Any] = {**AUTO_STYLE, "markevery": slice(1, None)}
        panel.step([errors[0], *errors], share, where="post", label="auto", **style)
