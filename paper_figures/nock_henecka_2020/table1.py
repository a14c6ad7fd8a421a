"""Table 1 as bars: the number of domains on which each alpha is best, ours and the paper's."""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.common import results
from paper_figures.style import finish

SOURCE = results.folder("nock_henecka_2020") / "table_1.csv"
ALPHAS = {"objective": "objective calibration", "0.1": "alpha = 0.1", "1.0": "alpha = 1"}


def draw(source: Path = SOURCE) -> Figure:
    """A panel for each calibration, and one for the paper.

    Raises:
        InputError: if no grid has been saved.
    """
    lines = results.read_csv(source, "nock_henecka_2020 run")
    calibrations = list(dict.fromkeys(line["calibration"] for line in lines))
    panels_of = {"the paper's": ("paper", calibrations[0])}
    panels_of |= {name: ("counts", name) for name in calibrations}
    figure, panels = plt.subplots(
        1, len(panels_of), figsize=(4 * len(panels_of), 3.4), sharey=True, layout="constrained"
    )
    for panel, (title, (kind, calibration)) in zip(panels, panels_of.items(), strict=True):
        chosen = [line for line in lines if line["calibration"] == calibration]
        for k, (alpha, words) in enumerate(ALPHAS.items()):
            places = [place + 0.27 * (k - 1) for place in range(len(chosen))]
            counts = [line[f"{kind} {alpha}"] for line in chosen]
            panel.bar(places, counts, width=0.25, color=f"C{k}", label=words)
        panel.set_xticks(range(len(chosen)), [f"{line['epsilon']:g}" for line in chosen])
        finish(panel, xlabel="epsilon", title=title, ylim=(0, 19))
    panels[0].set_ylabel("domains on which it is best")
    panels[0].yaxis.set_major_locator(MaxNLocator(integer=True))
    panels[0].legend(frameon=False, fontsize=8)
    first = lines[0]
    setting = f"{first['domains']} domains, v_q = {first['v_q']}, M = {first['clip']}"
    words = f"{setting}, {first['folds']}-fold CV; best over T, D and beta_tree"
    figure.suptitle(f"{words}; ties count for each", fontsize=10)
    return figure
