"""Tables 5-7: features that LazyBB with 1-rules uses, by calibration and as printed."""

from typing import Any

from matplotlib.figure import Figure

from dpbt.analysis.style import GREEN
from experiments.common import aggregated
from paper_figures.asadi_2022.by_epsilon import NAME, epsilon_axis, saved
from paper_figures.style import (
    CALIBRATION_MARKERS,
    CALIBRATIONS,
    DASHES,
    PAPER,
    WITHOUT,
    legend_below,
    sheet,
)

SERIES = {name: (shade, CALIBRATION_MARKERS[name]) for name, shade in CALIBRATIONS.items()}
SERIES |= {"doubled": (GREEN, "^"), "no_privacy": (WITHOUT, ".")}
COUNTS = (5, 10, 20, 50)
WORDS = {"doubled": "published, half of the noise", "no_privacy": "without privacy"}
TABLES = {"adult": "table-5", "cod-rna": "table-6", "mushroom": "table-7"}


def draw() -> Figure:
    """A panel for each data set.

    Raises:
        InputError: if the counts have not been saved.
    """
    lines = saved("sparsity")
    names = list(dict.fromkeys(line["dataset"] for line in lines))
    figure, panels = sheet(1, len(names), 2.9, squeeze=False)
    for panel, name in zip(panels[0], names, strict=True):
        own = [line for line in lines if line["dataset"] == name]
        epsilon = [line["epsilon"] for line in own]
        for (series, (colour, marker)), dash in zip(SERIES.items(), DASHES, strict=False):
            count = [line[series] for line in own]
            style: dict[str, Any] = {"marker": marker, "color": colour, "linestyle": dash}
            panel.plot(epsilon, count, label=WORDS.get(series, series), **style)
        theirs = [(at["epsilon"], number) for at, number in aggregated.printed(NAME, TABLES[name])]
        style = {"color": PAPER, "marker": "*", "linestyle": "", "markersize": 7, "zorder": 5}
        panel.plot(*zip(*theirs, strict=True), label="printed in the paper", **style)
        epsilon_axis(panel, title=name, yscale="log")
        panel.set_yticks(COUNTS, [str(count) for count in COUNTS])
        panel.minorticks_off()
    panels[0][0].set_ylabel("features used, mean over keys")
    legend_below(figure, panels[0][0], 5)
    figure.suptitle(f"LazyBB with 1-rules, settings of Tables 8-10; {lines[0]['keys']} keys")
    return figure
