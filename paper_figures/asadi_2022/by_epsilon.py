"""What the figures of Asadi et al. (2022) share: their folder, and accuracy by epsilon."""

from matplotlib.axes import Axes

from experiments.common import results
from paper_figures.style import CALIBRATIONS, finish

NAME = "asadi_2022"
TICKS = (0.05, 0.1, 0.2, 0.5, 1, 3, 5)


def saved(name: str, program: str) -> list[results.Line]:
    """The lines of one file of the paper's results.

    Raises:
        InputError: naming the program that saves them, if they do not exist.
    """
    return results.read_csv(results.folder(NAME) / f"{name}.csv", f"{NAME} {program}")


def by_epsilon(
    panel: Axes, lines: list[results.Line], calibration: str, words: str, **style
) -> None:
    """Draw the mean accuracy with its standard deviation over keys."""
    own = [line for line in lines if line["calibration"] == calibration]
    names = ("epsilon", "accuracy_mean", "accuracy_sd")
    x, mean, sd = ([line[name] for line in own] for name in names)
    style = {
        "color": CALIBRATIONS[calibration],
        "marker": "o",
        "markersize": 4,
        "capsize": 3,
        **style,
    }
    panel.errorbar(x, mean, yerr=sd, label=words, **style)


def epsilon_axis(panel: Axes, **properties) -> None:
    """Make the axis of epsilon logarithmic, with ticks at the paper's values."""
    finish(panel, xscale="log", xlabel="epsilon", **properties)
    panel.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    panel.minorticks_off()
