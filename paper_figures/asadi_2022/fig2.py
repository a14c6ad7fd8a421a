"""Figures 2 and 3: pure and approximate privacy on Adult, by epsilon."""

from matplotlib.figure import Figure

from paper_figures.asadi_2022.by_epsilon import baselines, by_epsilon, epsilon_axis, saved
from paper_figures.style import CALIBRATIONS, legend_below, sheet


def draw() -> Figure:
    """A panel for each figure; lines with a delta are dashed.

    Raises:
        InputError: if the series have not been saved.
    """
    figure, panels = sheet(1, 2, 3.9, sharey=True)
    titles = (
        "Figure 2: kappa = lambda = 1/4, T = 99",
        "Figure 3: settings of Table 8 (selected for delta = 0)",
    )
    series = [saved(name) for name in ("fig2", "fig3")]
    for panel, lines, title in zip(panels, series, titles, strict=True):
        for delta, style in ((0.0, "-"), (1e-5, "--")):
            own = [line for line in lines if line["delta"] == delta]
            for calibration in CALIBRATIONS:
                by_epsilon(
                    panel, own, calibration, f"{calibration}, delta = {delta:g}", linestyle=style
                )
        baselines(panel, "adult", "folds")
        epsilon_axis(panel, title=title)
    panels[0].set_ylabel("cross-validated accuracy, mean and sd over keys")
    legend_below(figure, panels[1], 3)
    words = f"Adult, training rows, LazyBB with 1-rules; {series[0][0]['keys']} keys"
    figure.suptitle(words)
    return figure
