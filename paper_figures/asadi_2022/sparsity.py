"""Tables 5-7 of Asadi et al. (2022): features used by LazyBB with 1-rules, printed and by calibration."""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from paper_figures.asadi_2022.by_epsilon import FOLDER, epsilon_axis
from paper_figures.style import CALIBRATIONS, saved

SERIES = {"paper": ("k", "*"), **{name: (c, "o") for name, c in CALIBRATIONS.items()}}
SERIES |= {"no_privacy": ("grey", ".")}
WORDS = {"paper": "printed in the paper", "no_privacy": "without privacy"}


def draw() -> Figure:
    """A panel for each data set.

    Raises:
        ValueError: if the counts have not been saved.
    """
    lines = saved(FOLDER / "sparsity.csv", "smooth_boosting --sparsity")
    names = list(dict.fromkeys(line["dataset"] for line in lines))
    figure, panels = plt.subplots(1, len(names), figsize=(4 * len(names), 3.6), layout="constrained", squeeze=False)
    for panel, name in zip(panels[0], names, strict=True):
        own = [line for line in lines if line["dataset"] == name]
        epsilon = [float(line["epsilon"]) for line in own]
        for series, (colour, marker) in SERIES.items():
            count = [float(line[series]) for line in own]
            style = {"linestyle": "", "markersize": 10, "zorder": 5} if series == "paper" else {"markersize": 4}
            panel.plot(epsilon, count, marker=marker, color=colour, label=WORDS.get(series, series), **style)
        epsilon_axis(panel, title=name, yscale="log")
    panels[0][0].set_ylabel("features used, mean over keys")
    panels[0][0].legend(frameon=False, loc="lower right")
    figure.suptitle(f"settings of Tables 8-10; {lines[0]['keys']} keys", fontsize=10)
    return figure
