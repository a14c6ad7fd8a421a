"""Table 1 as bars: the number of domains on which each alpha is best, ours and the paper's."""

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.common import aggregated
from paper_figures.nock_henecka_2020.runs import NAME, WAYS
from paper_figures.style import CALIBRATIONS, bars_of, finish, sheet


def draw() -> Figure:
    """A panel for the paper, and one for each calibration.

    Raises:
        InputError: if no grid has been aggregated.
    """
    lines = aggregated.read(NAME, "table_1")
    there = [name for name in CALIBRATIONS if any(line["calibration"] == name for line in lines)]
    figure, panels = sheet(1, 1 + len(there), 2.5)
    theirs = aggregated.printed(NAME, "table-1")
    epsilons = sorted({line["epsilon"] for line in lines})
    for panel, name in zip(panels, ("printed", *there), strict=True):
        own = [line for line in lines if line["calibration"] == name]
        for k, (way, words) in enumerate(WAYS.items()):
            counts = [line["count"] for line in own if str(line["alpha"]) == way]
            if name == "printed":
                counts = [count for at, count in theirs if str(at["alpha"]) == way]
            places = [place + 0.27 * (k - 1) for place in range(len(counts))]
            panel.bar(places, counts, width=0.25, label=words, **bars_of(k))
        panel.set_xticks(range(len(epsilons)), [f"{epsilon:g}" for epsilon in epsilons])
        number = own[0]["domains"] if own else 19
        finish(panel, xlabel="epsilon", title=f"{name}: {number} domains", ylim=(0, number))
        panel.yaxis.set_major_locator(MaxNLocator(integer=True))
    panels[0].set_ylabel("domains on which it is best")
    panels[0].legend()
    words = f"v_q = 10, M = 10, {lines[0]['folds']}-fold CV; best over T, d and beta_tree"
    figure.suptitle(f"{words}; ties count for each")
    return figure
