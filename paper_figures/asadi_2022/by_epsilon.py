"""What the figures of Asadi et al. (2022) share: their folder, and accuracy by epsilon."""

from pathlib import Path

from matplotlib.axes import Axes

from paper_figures.style import CALIBRATIONS, finish

FOLDER = Path("results/smooth_boosting")
TICKS = (0.05, 0.1, 0.2, 0.5, 1, 3, 5)


def by_epsilon(panel: Axes, lines: list[dict[str, str]], calibration: str, words: str, **style) -> None:
    """Mean accuracy with its sd over keys."""
    own = [line for line in lines if line["calibration"] == calibration]
    x, mean, sd = ([float(line[name]) for line in own] for name in ("epsilon", "accuracy_mean", "accuracy_sd"))
    style = {"color": CALIBRATIONS[calibration], "marker": "o", "markersize": 4, "capsize": 3, **style}
    panel.errorbar(x, mean, yerr=sd, label=words, **style)


def epsilon_axis(panel: Axes, **properties) -> None:
    """Logarithmic, with the papers' values."""
    finish(panel, xscale="log", xlabel="epsilon", **properties)
    panel.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    panel.minorticks_off()
