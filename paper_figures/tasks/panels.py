"""What both figures share: a column for each data set, and a row for each measure.

Other libraries hold at one delta alone, so all private methods share a panel, and `auto` has a line
for each delta.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpbt.analysis.frontier import curve, epsilon_axis
from experiments.common import results
from paper_figures.frontier.methods import LEVELS, STYLES, WORDS, legend

Line = results.Line
Value = Callable[[Line, Line], float | None]
"""(a line, the line of the data set's plain method) -> what is drawn, or None."""

EPSILONS = (0.08, 6.2)
"""The epsilons that are shown."""

DOCS = Path(__file__).resolve().parents[2] / "docs"
PURE: dict[str, Any] = {"linestyle": "--", "markerfacecolor": "white", "markeredgecolor": "#D55E00"}
"""How the pure line of `auto` differs."""


def lines_of(command: str, saved: Path | None) -> list[Line]:
    """The saved lines of a command, or those of its summary in docs/.

    Raises:
        InputError: if there is neither.
    """
    path = results.folder(command) / f"{command}.csv" if saved is None else saved
    return results.read_csv(path if path.exists() else DOCS / f"{command}.csv", command)


def figure(
    lines: Sequence[Line], plain: str, values: Mapping[str, Value], limits: tuple[float, float]
) -> Figure:
    """The figure of a task.

    Args:
        lines: of all data sets.
        plain: the method without a fit to which values may refer.
        values: the words of a row -> what it draws.
        limits: of the last row, which may hide what is far worse than the plain method.
    """
    names = list(dict.fromkeys(line["dataset"] for line in lines))
    drawn, panels = plt.subplots(
        len(values),
        len(names),
        figsize=(2.9 * len(names), 2.9 * len(values) + 0.6),
        sharex=True,
        sharey="row",
        squeeze=False,
        layout="constrained",
    )
    for column, name in zip(panels.T, names, strict=True):
        own = [line for line in lines if line["dataset"] == name]
        base = next(line for line in own if line["method"] == plain)
        for panel, value in zip(column, values.values(), strict=True):
            _panel(panel, own, base, value)
        column[0].set_title(f"{name}, {base['rows']} training rows", fontsize=9)
    for row, words in zip(panels, values, strict=True):
        row[0].set_ylabel(words)
    for panel in panels[:-1].flat:
        panel.set_xlabel("")
    panels[-1, 0].set_ylim(*limits)

    legend(drawn, ["auto, delta", "auto, pure", *STYLES, *WORDS.values(), *LEVELS])
    splits = "/".join(map(str, sorted({line["splits"] for line in lines})))
    drawn.suptitle(f"mean of {splits} splits", fontsize=10)
    return drawn


def _panel(panel: Axes, lines: Sequence[Line], base: Line, value: Value) -> None:
    for method in STYLES:
        for delta in sorted({line["delta"] for line in lines if line["method"] == method}):
            own = [at for at in lines if (at["method"], at["delta"]) == (method, delta)]
            points = [(at["epsilon"], value(at, base)) for at in own]
            known = sorted((epsilon, y) for epsilon, y in points if y is not None)
            if not known:
                continue
            x, y = map(list, zip(*known, strict=True))
            changes = {"label": f"auto, {'delta' if delta else 'pure'}"} if method == "auto" else {}
            pure = PURE if changes and not delta else {}
            curve(panel, x, y, **{"label": method, **STYLES[method], **changes, **pure})
    for line in lines:
        level = value(line, base) if line["method"] in LEVELS else None
        if level is not None:
            words = WORDS.get(line["method"], line["method"])
            panel.axhline(level, label=words, zorder=1, **LEVELS[line["method"]])
    epsilon_axis(panel, [float(at["epsilon"]) for at in lines if at["epsilon"] is not None])
    panel.set_xlim(*EPSILONS)
