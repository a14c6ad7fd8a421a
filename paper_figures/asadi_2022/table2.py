"""The plots of Table 2: accuracy of LazyBB with 1-rules by epsilon, on three data sets."""

from matplotlib.figure import Figure

from experiments.common import aggregated
from paper_figures.asadi_2022.by_epsilon import NAME, baselines, by_epsilon, epsilon_axis, saved
from paper_figures.style import CALIBRATIONS, legend_below, sheet

PROTOCOL = {"adult": "its test rows", "cod-rna": "cross-validated", "mushroom": "cross-validated"}


def draw() -> Figure:
    """A panel for each data set: both calibrations at the paper's settings, and what it prints.

    Raises:
        InputError: if the series has not been saved.
    """
    lines = saved("table2")
    names = list(dict.fromkeys(line["dataset"] for line in lines))
    figure, panels = sheet(1, len(names), 3.4, squeeze=False)
    for panel, name in zip(panels[0], names, strict=True):
        own = [line for line in lines if line["dataset"] == name]
        for calibration in CALIBRATIONS:
            by_epsilon(panel, own, calibration, calibration)
        baselines(panel, name, "test" if name == "adult" else "folds")
        for row in ("table-4", "table-11"):
            for at, number in aggregated.printed(NAME, row):
                if at["dataset"] == name:
                    panel.plot(at["epsilon"], number, "k*", markersize=8, zorder=5)
        panel.plot([], [], "k*", markersize=8, label="printed in the paper")
        epsilon_axis(panel, title=f"{name}, {PROTOCOL[name]}")
    panels[0][0].set_ylabel("accuracy, mean and sd over keys")
    legend_below(figure, panels[0][-1], 3)
    first = lines[0]
    words = f"LazyBB with 1-rules, settings of Tables 8-10; {first['keys']} keys, delta = 0"
    figure.suptitle(words)
    return figure
