"""Private halfspaces: test error by rows, margin, label noise and epsilon; and rounds."""

from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from experiments.common import aggregated, results
from paper_figures.style import CALIBRATIONS, finish

NAME = "bun_2020"
AXES = {
    "rows": "rows n",
    "tau": "margin tau",
    "noise": "label noise / (alpha tau)",
    "epsilon": "epsilon",
}


def draw() -> Figure:
    """Four panels of errors, each along one axis around the base, and a panel of rounds.

    Raises:
        InputError: if the experiment has not been saved.
    """
    lines = aggregated.read(NAME, "errors")
    rounds = aggregated.read(NAME, "rounds")
    alpha = rounds[0]["alpha"]
    figure, panels = plt.subplots(1, 5, figsize=(17, 3.6), layout="constrained")
    for panel, (axis, words) in zip(panels, AXES.items(), strict=False):
        for name, colour in (*CALIBRATIONS.items(), ("without privacy", "grey")):
            calibration = "tight" if name == "without privacy" else name
            own = [
                line
                for line in lines
                if line["axis"] == axis and line["calibration"] == calibration
            ]
            without = [line for line in own if np.isinf(line["epsilon"])]
            own = [line for line in own if np.isfinite(line["epsilon"])]
            mean, sd = "test_error_mean", "test_error_sd"
            if name != "without privacy":
                place = [_place(line, axis, alpha) for line in own]
                values = [[line[column] for line in own] for column in (mean, sd)]
                panel.errorbar(
                    place, *values, color=colour, marker="o", markersize=4, capsize=3, label=name
                )
            elif axis == "epsilon":
                panel.axhline(without[0][mean], color=colour, linewidth=0.8, linestyle=":")
            else:
                place = [_place(line, axis, alpha) for line in without]
                panel.plot(place, [line[mean] for line in without], ":", color=colour, label=name)
        panel.axhline(alpha, color="k", linewidth=0.5)
        finish(panel, xlabel=words, ylim=(-0.01, 0.3))
        ticks = sorted(
            {_place(line, axis, alpha) for line in lines if line["axis"] == axis} - {float("inf")}
        )
        if axis == "noise":
            panel.set_xscale("symlog", linthresh=1 / 32, linscale=0.4)
            panel.set_xlim(-0.01, 22)
            panel.set_xticks(
                ticks, ["0", *(str(Fraction(tick).limit_denominator(99)) for tick in ticks[1:])]
            )
            panel.minorticks_off()
            continue
        panel.set_xscale("log")
        panel.set_xticks(
            ticks, [f"{tick:g}" if tick < 1000 else f"{tick / 1000:g}k" for tick in ticks]
        )
        panel.minorticks_off()
    panels[0].set_ylabel("test error, mean and sd over samples and keys")
    panels[0].legend(frameon=False, fontsize=8)
    tau = [line["tau"] for line in rounds]
    for column, words, style in (
        ("theorem_rounds", "HS-StL asks for", "k*-"),
        ("rounds_by_advantage", "Theorem 24 at the measured advantage", "P--"),
        ("rounds_to_margin", "until the margins of Theorem 24", "v-"),
        ("rounds_to_error", "until training error <= alpha", "D-"),
    ):
        known = [(t, line[column]) for t, line in zip(tau, rounds, strict=True) if line[column]]
        panels[4].plot(
            [t for t, _ in known], [count for _, count in known], style, markersize=5, label=words
        )
    finish(panels[4], xlabel="margin tau", ylabel="rounds", xscale="log", yscale="log")
    panels[4].set_xticks(tau, [f"{t:g}" for t in tau])
    panels[4].minorticks_off()
    panels[4].set_ylim(top=3e8)  # room for the legend
    panels[4].legend(frameon=False, fontsize=8, loc="upper right")
    base = next(line for line in lines if line["axis"] == "epsilon")
    figure.suptitle(
        f"base: n = {base['rows']}, tau = {base['tau']}, no label noise, epsilon = 1, "
        f"delta = {base['delta']}, T = {base['rounds']}, kappa = {base['density']}, "
        f"d = {base['dimension']}; alpha = {alpha} (line)",
        fontsize=10,
    )
    return figure


def _place(line: results.Line, axis: str, alpha: float) -> float:
    """The place of a line on an axis: its value; label noise is in units of alpha tau."""
    return line[axis] / (alpha * line["tau"]) if axis == "noise" else line[axis]
