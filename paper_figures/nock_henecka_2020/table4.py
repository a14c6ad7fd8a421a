"""Table 4, overall: wins against RF-L and RF-E, the paper's and ours."""

from matplotlib.figure import Figure

from experiments.common import aggregated
from paper_figures.nock_henecka_2020.runs import NAME, WAYS
from paper_figures.style import CALIBRATIONS, PAPER, bars_of, finish, legend_below, sheet

PANELS = ((2, "rf_l"), (2, "rf_e"), (20, "rf_l"), (20, "rf_e"))
"""(T, forest) of each panel."""

WORDS = {"rf_l": "RF-L", "rf_e": "RF-E"}


def draw() -> Figure:
    """A panel for each T and forest; bars for each way to set alpha.

    Raises:
        InputError: if the forests have not been aggregated.
    """
    lines = aggregated.read(NAME, "overall")
    figure, panels = sheet(1, 4, 2.5, sharey=True)
    theirs = aggregated.printed(NAME, "table-4-overall")
    for panel, (rounds, forest) in zip(panels, PANELS, strict=True):
        printed = [n for at, n in theirs if (at["rounds"], at["forest"]) == (rounds, forest)]
        places = range(len(WAYS))
        panel.bar([k - 0.27 for k in places], printed, 0.25, color=PAPER, label="printed")
        for k, name in enumerate(CALIBRATIONS):
            own = [
                line["percent"]
                for way in WAYS
                for line in lines
                if (line["rounds"], line["forest"], line["calibration"]) == (rounds, forest, name)
                and str(line["alpha"]) == way
            ]
            if len(own) == len(WAYS):
                places_of = [place + 0.27 * k for place in places]
                panel.bar(places_of, own, 0.25, label=name, **bars_of(k))
        panel.axhline(50, color="0.6", linewidth=0.8)
        panel.set_xticks(places, [words.replace(" = ", "\n= ") for words in WAYS.values()])
        finish(panel, title=f"T = {rounds} against {WORDS[forest]}", ylim=(0, 100))
    panels[0].set_ylabel("% of significant differences won")
    legend_below(figure, panels[0], 3)
    first = lines[0]
    words = f"{first['domains']} domains, depths 2, 4, 6; RF of 21 trees; v_q = 10, M = 10"
    figure.suptitle(f"{words}; paired t-test over ten folds at 0.01")
    return figure
