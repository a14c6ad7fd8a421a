"""Figures and tables of Nock & Henecka (2020)."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from dpbt import losses
from dpbt.owners.cli.shared import InputError
from dpbt.privacy import sensitivity
from experiments.common import aggregated
from experiments.common.results import Line, where
from paper_figures.style import (
    ALPHAS,
    AUTO,
    CALIBRATIONS,
    DASHES,
    PALE,
    PAPER,
    THREE,
    WITHOUT,
    bars_of,
    colour,
    counted,
    finish,
    legend_below,
    line_of,
    ordered,
    sheet,
)

NAME = "nock_henecka_2020"
DEPTHS = (1, 2, 3, 4, 5, 6)
WAYS = {"objective": "O.C.", "0.1": "alpha = 0.1", "1.0": "alpha = 1"}
NONE = "none"
AUTO_STYLE: dict[str, Any] = {"color": AUTO, "linewidth": 1.3, "marker": "v", "markersize": 4}


class Runs(NamedTuple):
    """Settings of one domain; arrays of one length, an entry for each.

    Attributes:
        error: the mean test error over folds.
        depth: d.
        alpha: the way to set alpha.
        epsilon: infinite without privacy.
    """

    error: np.ndarray
    depth: np.ndarray
    alpha: np.ndarray
    epsilon: np.ndarray

    def where(self, chosen: np.ndarray) -> "Runs":
        """Only some settings."""
        return Runs(*(column[chosen] for column in self))


def lines(bins: int = 10, clip: float = 10) -> list[Line]:
    """The lines of a grid.

    Raises:
        InputError: if it has not been aggregated.
    """
    return _lines(aggregated.current_folder(), bins, clip)


@functools.cache
def _lines(folder: Path, bins: int, clip: float) -> list[Line]:
    return aggregated.read_result(NAME, f"grid_{bins}_{clip:g}", folder)


def fitted(bins: int = 10, calibration: str | None = None) -> list[str]:
    """The domains with private runs, in one calibration or in any."""
    kinds = CALIBRATIONS if calibration is None else (calibration,)
    return list(dict.fromkeys(at["domain"] for at in lines(bins) if at["calibration"] in kinds))


def runs(domain: str, calibration: str, bins: int = 10) -> Runs:
    """The settings of a domain in a calibration, or `NONE`."""
    own = where(lines(bins), domain=domain, calibration=calibration)
    cells = [(line, d, line[f"d{d}"]) for line in own for d in DEPTHS if line[f"d{d}"] is not None]
    return Runs(
        np.asarray([error for _, _, error in cells], float),
        np.asarray([d for _, d, _ in cells], int),
        np.asarray([str(line["alpha"]) for line, _, _ in cells]),
        np.asarray([line["epsilon"] for line, _, _ in cells], float),
    )


def larger_class(domain: str) -> float | None:
    """The error of the larger class."""
    sizes = aggregated.read_result(NAME, "domains")
    return next((line["larger_class_error"] for line in sizes if line["domain"] == domain), None)


def cumulated(panel: Axes, error: Sequence[float] | np.ndarray, **style) -> None:
    """Draw the percentage of settings that have at most an error."""
    if len(error):
        ordered_errors = np.sort(error)
        share = 100 * np.arange(1, len(error) + 1) / len(error)
        panel.step(ordered_errors, share, where="post", **{"linewidth": 1.1, **style})


def by_alpha(panel: Axes, found: Runs, **properties) -> None:
    """A curve for each way to set alpha."""
    for (way, words), shade, dash in zip(WAYS.items(), THREE, DASHES, strict=False):
        own = found.error[found.alpha == way]
        cumulated(panel, own, color=shade, linestyle=dash, label=words)
    finish(panel, **properties)


def by_epsilon(panel: Axes, found: Runs, epsilons: Sequence[float], **properties) -> None:
    """A curve for each epsilon, from dark to bright."""
    for k, epsilon in enumerate(epsilons):
        own = found.error[np.isclose(found.epsilon, epsilon)]
        cumulated(panel, own, label=f"{epsilon:g}", **ordered(k, len(epsilons)))
    finish(panel, **properties)


def depths(found: Runs) -> np.ndarray:
    """The depth of each setting."""
    return found.depth.astype(float)


def leaves(found: Runs) -> np.ndarray:
    """The leaves of a complete tree of each setting."""
    return 2.0**found.depth


def sizes(
    panel: Axes, found: Runs, size: Callable[[Runs], np.ndarray], shade: str, **properties
) -> None:
    """The mean size, with its deviation, of the settings that have at most an error.

    The dotted line is the mean over all settings. The grid asks for it, so it tells nothing of the
    runs, and every curve ends there.
    """
    order = np.argsort(found.error)
    sorted_sizes, error = size(found)[order], found.error[order]
    count = np.arange(1, len(order) + 1)
    mean = np.cumsum(sorted_sizes) / count
    deviation = np.sqrt(np.maximum(np.cumsum(sorted_sizes**2) / count - mean**2, 0))
    panel.axhline(mean[-1], color="0.3", linestyle=":", linewidth=1)
    panel.plot(error, mean, color=shade)
    panel.fill_between(
        error, mean - deviation, mean + deviation, color=shade, alpha=0.2, linewidth=0
    )
    finish(panel, **properties)


def mark_larger_class(panels: Sequence[Axes], error: float | None) -> None:
    """Draw the error of the larger class behind the curves, in panels that reach so far."""
    for panel in panels:
        low, high = panel.get_xlim()
        if error is not None and low <= error <= high:
            panel.axvline(error, color="black", linewidth=0.8, zorder=1)


def fig1() -> Figure:
    """Nock & Henecka (2020), Figure 1: the M-alpha loss over alpha.

    Bayes risk, link, inverse link, surrogate, and both sensitivities of a split.
    """
    figure, axes = sheet(2, 3, 4.4)
    risk, link, inverse, surrogate, bound, legend = axes.flat
    q = np.linspace(0, 1, 801, dtype=np.float32)
    # Curves jump at 1/2 and end at infinity; no line is drawn across either.
    halves = [
        np.linspace(0.01, 0.4999, 300, dtype=np.float32),
        np.linspace(0.5001, 0.99, 300, dtype=np.float32),
    ]
    z = np.linspace(-6, 6, 1201, dtype=np.float32)
    m = np.geomspace(10, 20_000, 100).astype(np.float32)
    for alpha, dash in zip(ALPHAS, DASHES, strict=False):
        loss, style = losses.m_alpha(alpha), {"color": colour(alpha), "linestyle": dash}
        risk.plot(q, loss.bayes_risk(q), **style)
        for half in halves:
            link.plot(half, loss.link(half), **style)
        inverse.plot(z, loss.inverse_link(z), **style)
        surrogate.plot(z, loss.surrogate(z), **style)
        bound.plot(m, sensitivity.published_split_sensitivity(loss, m), color=colour(alpha), **PALE)
        bound.plot(m, sensitivity.max_score_change(loss, m), **style)
        legend.plot([], [], **style, label=f"alpha = {alpha:g}")
    finish(risk, xlabel="q", title="Bayes risk L(q)")
    finish(link, xlabel="q", title="canonical link", ylim=(-6, 6))
    finish(inverse, xlabel="z", title="inverse canonical link")
    finish(surrogate, xlabel="z", title="convex surrogate F(z)")
    finish(bound, xlabel="rows m", xscale="log", yscale="log", title="sensitivity of a split")
    legend.plot(
        [], [], color="grey", label="wide and pale: published,\nmax{3, 1 + f(1, m)}", **PALE
    )
    legend.plot([], [], color="grey", label="thin: tight, f(1, m)")
    legend.legend(loc="center")
    legend.axis("off")
    figure.suptitle("The M-alpha loss: 0/1 loss at alpha = 0, Matsushita's at alpha = 1")
    return figure


DOMAIN = "banknote"
CLAIM = (0.2, 200 / 3)
"""What the text says of O.C.: the error and the percentage of runs that have at most it."""


def fig2() -> Figure:
    """Figure 2: banknote with and without privacy, by alpha, and the number of leaves.

    Curves by alpha above the leaves; without privacy, published and tight.

    Raises:
        InputError: if no grid has been aggregated.
    """
    names = {NONE: WITHOUT, **CALIBRATIONS}
    words = {NONE: "without privacy"}
    if DOMAIN not in fitted():
        raise InputError(f"the grid has no {DOMAIN} yet; run: python -m experiments {NAME} run")
    figure, panels = sheet(2, 3, 4.4, sharey="row")
    for column, (name, shade) in zip(panels.T, names.items(), strict=True):
        found = runs(DOMAIN, name)
        if len(found.error):
            by_alpha(column[0], found, title=words.get(name, name))
            sizes(column[1], found, leaves, shade)
    for panel in panels[0, 1:]:
        style: dict[str, Any] = {"color": "0.5", "linewidth": 0.9, "linestyle": ":"}
        panel.axvline(CLAIM[0], **style)
        panel.axhline(CLAIM[1], label="the text's claim: 2/3 of O.C. at 20 % error", **style)
    panels[0, 0].set_ylabel("% of settings with at most x")
    panels[1, 0].set_ylabel("leaves, an input: mean and sd")
    private = max(error for name in CALIBRATIONS for error in runs(DOMAIN, name).error)
    for k, column in enumerate(panels.T):
        most = private if k else runs(DOMAIN, NONE).error.max()
        for panel in column:
            finish(panel, xlim=(-0.04 * most, 1.04 * most))
    mark_larger_class(panels.ravel().tolist(), larger_class(DOMAIN))
    for panel in panels[1]:
        panel.set_xlabel("mean test error x of ten folds")
    panels[0, 1].plot([], [], color="black", linewidth=0.8, label="larger class")
    words = "leaves: all settings, by construction"
    panels[0, 1].plot([], [], color="0.3", linestyle=":", linewidth=1, label=words)
    legend_below(figure, panels[0, 1], 3)
    figure.suptitle(f"{DOMAIN}: v_q = 10, M = 10, T, d, beta_tree and epsilon together")
    return figure


def fig5() -> Figure:
    """Nock & Henecka (2020), Figure 5: second derivative of the M-alpha surrogate over alpha.

    The library's surrogate; the wide pale lines are equation (133), which is twice as large.
    """
    figure, panel = sheet(1, 1, 3.6)
    side = np.geomspace(1e-4, 4, 400).astype(np.float32)
    for alpha, dash in zip(ALPHAS[1:], DASHES[1:], strict=False):
        loss, flat = losses.m_alpha(alpha), 2 * (1 - alpha)
        style: dict[str, Any] = {"color": colour(alpha), "linestyle": dash}
        second = np.asarray(jax.vmap(jax.grad(jax.grad(loss.surrogate)))(jnp.asarray(flat + side)))
        printed = 4 * alpha**2 / (4 * alpha**2 + side**2) ** 1.5
        for sign in (-1, 1):
            label = f"{alpha:g}" if sign > 0 else None
            panel.plot(sign * (flat + side), printed, color=colour(alpha), **PALE)
            panel.plot(sign * (flat + side), second, label=label, **style)
        panel.plot([-flat, flat], [0, 0], **style)
    panel.plot([], [], color="grey", label="eq. (133), twice F''", **PALE)
    finish(panel, xlabel="z", ylabel="F''(z)", ylim=(0, 3), xlim=(-4, 4))
    panel.legend(title="alpha", loc="upper center")
    panel.set_title("Second derivative of the M-alpha surrogate; at most 1 / (4 alpha)")
    return figure


EPSILONS = (0.01, 0.1, 1.0, 10.0, 25.0)
REGIMES = {NONE: WITHOUT, **CALIBRATIONS}
WORDS = {NONE: "no noise"}

BEST = 0.2
"""The part of a panel's runs that its crop holds."""

PERCENT = (0, 50, 100)
ROW = 1.25
"""The height of a row, in inches."""


def domains() -> dict[str, Figure]:
    """Figures 8 to 61: runs of each domain by test error, in one figure for a domain.

    The first row has the sizes of the models (Figures 8, 11, ...), and the second has the runs by
    alpha without and with privacy (Figures 9, 12, ...). Then each calibration has two rows: the
    private runs by epsilon, and by alpha at each epsilon (Figures 10, 13, ...). The lower one shows
    crops of the upper one, as in the paper; here a crop holds the best fifth of a panel's runs.
    Curves are of errors of at most x, as in Figure 2. The captions say "no less than x".

    Raises:
        InputError: if no grid has been aggregated.
    """
    return {name: domain(name) for name in fitted()}


def domain(title: str) -> Figure:
    """The figure of one domain."""
    found = {name: runs(title, name) for name in REGIMES}
    found = {name: own for name, own in found.items() if len(own.error)}
    private = [name for name in CALIBRATIONS if name in found]
    rows = 2 + 2 * len(private)
    height = 0.5 + ROW * rows
    drawn, panels = sheet(rows, 1 + len(EPSILONS), height, squeeze=False, layout=None)
    below, above = 0.5 / height, 1 - 0.42 / height  # for words; all panels have one size
    drawn.subplots_adjust(0.085, below, 0.978, above, wspace=0.48, hspace=0.5)
    _sizes(panels[0], found)
    _alphas(panels[1], found)
    for k, name in enumerate(private):
        _calibration(panels[2 + 2 * k : 4 + 2 * k], name, found[name])
    free = [panels[0, 0], panels[0, len(REGIMES)], panels[1, 0]]
    whole = [panel for panel in (*panels[:2].flat, *panels[2::2].flat) if panel not in free]
    for some, names in ((whole, private), (free, [name for name in found if name == NONE])):
        errors = np.concatenate([found[name].error for name in names] or [np.zeros(1)])
        margin = 0.05 * (errors.max() - errors.min()) + 0.005
        for panel in (panel for panel in some if panel.axison):
            panel.set_xlim(errors.min() - margin, min(errors.max() + margin, 1))
    shown = [panel for panel in panels.flat if panel.axison]
    mark_larger_class(shown, larger_class(title))
    for panel in shown:
        _two_ticks(panel)
        finish(panel)
    drawn.supxlabel("mean test error x of ten folds", fontsize=7.5, y=0.1 / height)
    count = ", ".join(f"{len(own.error)} {WORDS.get(name, name)}" for name, own in found.items())
    drawn.suptitle(f"{title}: v_q = 10, M = 10, seed 0; settings: {count}", y=1 - 0.07 / height)
    return drawn


def _two_ticks(panel: Axes) -> None:
    """Leave the horizontal axis of a small panel its first and its last round number."""
    low, high = panel.get_xlim()
    ticks = [at for at in MaxNLocator(5).tick_values(low, high) if low <= at <= high]
    panel.set_xticks([ticks[0], ticks[-1]])


def _sizes(row: Sequence[Axes], found: dict[str, Runs]) -> None:
    """Figure 8: depths and leaves of the settings that have at most an error."""
    kinds = {"depth": (depths, (1, 2, 4, 6)), "leaves": (leaves, (0, 20, 40, 60))}
    for k, (words, (size, ticks)) in enumerate(kinds.items()):
        for j, (name, shade) in enumerate(REGIMES.items()):
            panel = row[len(REGIMES) * k + j]
            if name not in found:
                panel.axis("off")
                continue
            sizes(panel, found[name], size, shade, yticks=ticks, ylim=(0, 1.1 * ticks[-1]))
            panel.set_title(f"{words}, {WORDS.get(name, name)}", fontsize=7)
    row[0].set_ylabel("input: mean, sd", fontsize=7)


def _alphas(row: Sequence[Axes], found: dict[str, Runs]) -> None:
    """Figure 9, by alpha; and what all lines mean, in the place of the other panels."""
    for panel, name in zip(row, REGIMES, strict=False):
        if name not in found:
            panel.axis("off")
            continue
        by_alpha(panel, found[name], yticks=PERCENT)
        panel.set_title(f"by alpha, {WORDS.get(name, name)}", fontsize=7)
    row[0].set_ylabel("% of settings\nwith at most x", fontsize=7)
    for panel in row[len(REGIMES) :]:
        panel.axis("off")
    _legends(row[len(REGIMES)], row[-1])


def _legends(left: Axes, right: Axes) -> None:
    handles = [
        Line2D([], [], color=shade, linestyle=dash, label=words)
        for words, shade, dash in zip(WAYS.values(), THREE, DASHES, strict=False)
    ]
    handles += [
        Line2D([], [], color="black", linewidth=0.8, label="larger class"),
        Patch(fill=False, edgecolor="0.4", label="crop, drawn below"),
        Line2D([], [], color="0.3", linestyle=":", label="sizes: all settings, by construction"),
    ]
    place = {"loc": "upper left", "bbox_to_anchor": (-0.2, 1.1), "labelspacing": 0.35}
    first = left.legend(handles=handles, **place)
    epsilons = [
        Line2D([], [], label=f"{epsilon:g}", **ordered(k, len(EPSILONS)))
        for k, epsilon in enumerate(EPSILONS)
    ]
    second = right.legend(
        handles=epsilons, title="epsilon", loc="upper right", bbox_to_anchor=(1.08, 1.1)
    )
    for legend in (first, second):
        legend.set_in_layout(False)


def _calibration(rows: np.ndarray, name: str, own: Runs) -> None:
    """The private runs by epsilon, and by alpha at each epsilon, above their crops."""
    by_epsilon(rows[0, 0], own, EPSILONS, yticks=PERCENT)
    by_epsilon(rows[1, 0], own, EPSILONS)
    rows[0, 0].set_title("by epsilon", fontsize=7)
    _crop(rows[0, 0], rows[1, 0], [own.error[np.isclose(own.epsilon, at)] for at in EPSILONS])
    for (upper, lower), epsilon in zip(rows.T[1:], EPSILONS, strict=True):
        here = own.where(np.isclose(own.epsilon, epsilon))
        if not len(here.error):
            upper.axis("off")
            lower.axis("off")
            continue
        by_alpha(upper, here, yticks=PERCENT)
        by_alpha(lower, here)
        upper.set_title(f"epsilon = {epsilon:g}", fontsize=7)
        _crop(upper, lower, [here.error[here.alpha == way] for way in WAYS])
    rows[0, 0].set_ylabel(f"{name}, %", fontsize=7)
    rows[1, 0].set_ylabel(f"{name},\ncrop, %", fontsize=7)


def _crop(whole: Axes, panel: Axes, curves: Sequence[np.ndarray]) -> None:
    """Limit a panel to its best runs, and show in the whole one what it holds."""
    errors = np.concatenate(curves)
    low, high = errors.min(), np.quantile(errors, BEST)
    margin = max(0.06 * (high - low), 0.002)
    low, high = low - margin, high + margin
    top = 103 * max(np.mean(own <= high) for own in curves if len(own))
    panel.set(xlim=(low, high), ylim=(0, top))
    panel.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    style: dict[str, Any] = {"fill": False, "edgecolor": "0.4", "linewidth": 0.8, "zorder": 4}
    whole.add_patch(Rectangle((low, 0), high - low, top, **style))


EPSILON = 0.01
BINS = (10, 50)
EXTRACT = ("banknote", "qsar", "wine-red", "wine-white")
"""The domains that the paper's text compares."""

PARTS = {None: "all epsilons", EPSILON: f"epsilon = {EPSILON:g}"}


def fig62() -> dict[str, Figure]:
    """Figure 62: v_q = 10 and 50 by alpha, and their difference, one figure for a calibration.

    A column is a domain. The paper shows extracts: all private runs, and those of epsilon = 0.01.
    As the curves of both v_q nearly coincide, the panel below each has their difference.

    Raises:
        InputError: if the grid of v_q = 50 has not been aggregated.
    """
    found = {}
    for calibration in CALIBRATIONS:
        there = [set(fitted(bins, calibration)) for bins in BINS]
        names = [name for name in EXTRACT if all(name in some for some in there)]
        if names:
            found[calibration] = _bins(calibration, names)
    return found


def _bins(calibration: str, names: Sequence[str]) -> Figure:
    """Curves above their difference: of all private settings, and of those of high privacy."""
    heights = [2, 1.4] * len(PARTS)
    options = {"sharex": "col", "sharey": "row", "squeeze": False, "height_ratios": heights}
    drawn, panels = sheet(len(heights), len(names), 6.8, **options)
    for name, column in zip(names, panels.T, strict=True):
        for k, (epsilon, words) in enumerate(PARTS.items()):
            curves, difference = column[2 * k : 2 * k + 2]
            finish(curves, title=f"{name}, {words}")
            _runs(curves, difference, name, calibration, epsilon)
        finish(column[-1], xlabel="test error x")
        mark_larger_class(column.tolist(), larger_class(name))
    for k in range(len(PARTS)):
        panels[2 * k, 0].set_ylabel("% of settings\nwith at most x")
        panels[2 * k + 1, 0].set_ylabel("points more\nat v_q = 50")
        panels[2 * k + 1, 0].yaxis.set_major_locator(MaxNLocator(5))
    panels[0, 0].plot([], [], color="grey", label="v_q = 10: wide and pale", **PALE)
    panels[0, 0].plot([], [], color="black", linewidth=0.8, label="larger class")
    legend_below(drawn, panels[0, 0], 3)
    drawn.suptitle(f"v_q = 10 and 50, {calibration}: M = 10, seed 0, mean of ten folds")
    return drawn


def _runs(curves: Axes, difference: Axes, name: str, calibration: str, epsilon: float | None):
    """The settings of a domain with at most each error, by alpha, and what v_q changes."""
    found = [runs(name, calibration, bins) for bins in BINS]
    if epsilon is not None:
        found = [own.where(np.isclose(own.epsilon, epsilon)) for own in found]
    for (way, words), shade, dash in zip(WAYS.items(), THREE, DASHES, strict=False):
        few, many = (own.error[own.alpha == way] for own in found)
        if not (len(few) and len(many)):
            continue
        cumulated(curves, few, color=shade, **PALE)
        style: dict[str, Any] = {"color": shade, "linestyle": dash, "linewidth": 1.1}
        cumulated(curves, many, label=f"{words}, v_q = 50", **style)
        x = np.unique(np.concatenate([few, many]))
        difference.step(x, _share(many, x) - _share(few, x), where="post", **style)
    difference.axhline(0, color="0.5", linewidth=0.8)


def _share(error: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The percentage of settings that have at most each error."""
    return 100 * np.searchsorted(np.sort(error), x, side="right") / len(error)


def auto() -> Figure:
    """The best setting of the grid, and `auto`: mean test errors over domains, by epsilon.

    It is not in the paper. The best setting is chosen on its own test folds.

    Raises:
        InputError: if `auto` has not been measured.
    """
    theirs = aggregated.read_result(NAME, "auto")
    figure, panel = sheet(1, 1, 3)
    names = [name for name in fitted() if any(line["domain"] == name for line in theirs)]
    for name in CALIBRATIONS:
        found = [runs(domain, name) for domain in names]
        means = [
            np.mean([own.error[np.isclose(own.epsilon, at)].min() for own in found])
            for at in EPSILONS
        ]
        panel.plot(EPSILONS, means, label=f"best setting, {name}", **line_of(name))
    own = {at: [line["error_mean"] for line in where(theirs, epsilon=at)] for at in EPSILONS}
    means = [np.mean(errors) if errors else np.nan for errors in own.values()]
    panel.plot(EPSILONS, means, label="auto", **AUTO_STYLE)
    finish(panel, xlabel="epsilon", xscale="log", ylabel="mean test error")
    panel.set_xticks(EPSILONS, [f"{at:g}" for at in EPSILONS])
    panel.minorticks_off()
    panel.legend()
    figure.suptitle(f"{counted(len(names), 'domain')}: v_q = 10, M = 10, ten folds")
    return figure


def table1() -> Figure:
    """Table 1 as bars: the number of domains on which each alpha is best, ours and the paper's.

    A panel for the paper, and one for each calibration.

    Raises:
        InputError: if no grid has been aggregated.
    """
    lines = aggregated.read_result(NAME, "table_1")
    there = [name for name in CALIBRATIONS if any(line["calibration"] == name for line in lines)]
    figure, panels = sheet(1, 1 + len(there), 2.5)
    theirs = aggregated.printed_numbers(NAME, "table-1")
    epsilons = sorted({line["epsilon"] for line in lines})
    for panel, name in zip(panels, ("printed", *there), strict=True):
        own = where(lines, calibration=name)
        for k, (way, words) in enumerate(WAYS.items()):
            counts = [line["count"] for line in own if str(line["alpha"]) == way]
            if name == "printed":
                counts = [count for at, count in theirs if str(at["alpha"]) == way]
            places = [place + 0.27 * (k - 1) for place in range(len(counts))]
            panel.bar(places, counts, width=0.25, label=words, **bars_of(k))
        panel.set_xticks(range(len(epsilons)), [f"{epsilon:g}" for epsilon in epsilons])
        number = own[0]["domains"] if own else 19
        title = f"{name}: {counted(number, 'domain')}"
        finish(panel, xlabel="epsilon", title=title, ylim=(0, number))
        panel.yaxis.set_major_locator(MaxNLocator(integer=True))
    panels[0].set_ylabel("domains on which it is best")
    panels[0].legend()
    words = f"v_q = 10, M = 10, {lines[0]['folds']}-fold CV; best over T, d and beta_tree"
    figure.suptitle(f"{words}; ties count for each")
    return figure


FORESTS = {"rf_l": "RF-L", "rf_e": "RF-E"}
PANELS = ((2, "rf_l"), (2, "rf_e"), (20, "rf_l"), (20, "rf_e"))
"""(T, forest) of each panel."""


def table4() -> Figure:
    """Table 4, overall: wins against RF-L and RF-E, the paper's and ours.

    A panel for each T and forest; bars for each way to set alpha.

    Raises:
        InputError: if the forests have not been aggregated.
    """
    lines = aggregated.read_result(NAME, "overall")
    figure, panels = sheet(1, 4, 2.5, sharey=True)
    theirs = aggregated.printed_numbers(NAME, "table-4-overall")
    for panel, (rounds, forest) in zip(panels, PANELS, strict=True):
        printed = [n for at, n in theirs if (at["rounds"], at["forest"]) == (rounds, forest)]
        places = range(len(WAYS))
        panel.bar([k - 0.27 for k in places], printed, 0.25, color=PAPER, label="printed")
        for k, name in enumerate(CALIBRATIONS):
            own = [
                np.nan if line["percent"] is None else line["percent"]  # nothing was significant
                for way in WAYS
                for line in lines
                if (line["rounds"], line["forest"], line["calibration"]) == (rounds, forest, name)
                and str(line["alpha"]) == way
            ]
            if len(own) == len(WAYS):
                places_of = [place + 0.27 * k for place in places]
                bars = panel.bar(places_of, own, 0.25, label=name, **bars_of(k))
                if all(share < 10 for share in own):  # too short to be read off
                    panel.bar_label(bars, fmt="%.0f", fontsize=7)
        panel.axhline(50, color="0.6", linewidth=0.8, zorder=0)
        panel.set_xticks(places, [words.replace(" = ", "\n= ") for words in WAYS.values()])
        finish(panel, title=f"T = {rounds} against {FORESTS[forest]}", ylim=(0, 100))
    panels[0].set_ylabel("% of significant differences won")
    legend_below(figure, panels[0], 3)
    first = lines[0]
    words = counted(first["domains"], "domain")
    words += ", depths 2, 4, 6; RF of 21 trees; v_q = 10, M = 10"
    figure.suptitle(f"{words}; paired t-test over ten folds at 0.01")
    return figure
