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
from dpbt.owners.cli.parsing import InputError
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
    alpha_colour,
    bar_style,
    calibration_style,
    count_in_words,
    finish,
    legend_below,
    make_sheet,
    ordered_style,
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

    def where(self, is_chosen: np.ndarray) -> "Runs":
        """Only some settings."""
        return Runs(*(column[is_chosen] for column in self))


def read_grid(bins: int = 10, clip: float = 10) -> list[Line]:
    """The lines of a grid.

    Raises:
        InputError: if it has not been aggregated.
    """
    return _read_grid_of_folder(aggregated.current_folder(), bins, clip)


@functools.cache
def _read_grid_of_folder(folder: Path, bins: int, clip: float) -> list[Line]:
    return aggregated.read_result(NAME, f"grid_{bins}_{clip:g}", folder)


def fitted_domains(bins: int = 10, calibration: str | None = None) -> list[str]:
    """The domains with private runs, in one calibration or in any."""
    kinds = CALIBRATIONS if calibration is None else (calibration,)
    return list(
        dict.fromkeys(line["domain"] for line in read_grid(bins) if line["calibration"] in kinds)
    )


def read_runs(domain: str, calibration: str, bins: int = 10) -> Runs:
    """The settings of a domain in a calibration, or `NONE`."""
    lines_of_calibration = where(read_grid(bins), domain=domain, calibration=calibration)
    cells = [
        (line, d, line[f"d{d}"])
        for line in lines_of_calibration
        for d in DEPTHS
        if line[f"d{d}"] is not None
    ]
    return Runs(
        np.asarray([error for _, _, error in cells], float),
        np.asarray([d for _, d, _ in cells], int),
        np.asarray([str(line["alpha"]) for line, _, _ in cells]),
        np.asarray([line["epsilon"] for line, _, _ in cells], float),
    )


def larger_class_error(domain: str) -> float | None:
    """The error of the larger class."""
    sizes = aggregated.read_result(NAME, "domains")
    return next((line["larger_class_error"] for line in sizes if line["domain"] == domain), None)


def draw_cumulated(panel: Axes, error: Sequence[float] | np.ndarray, **style) -> None:
    """Draw the percentage of settings that have at most an error."""
    if len(error):
        ordered_errors = np.sort(error)
        share = 100 * np.arange(1, len(error) + 1) / len(error)
        panel.step(ordered_errors, share, where="post", **{"linewidth": 1.1, **style})


def draw_by_alpha(panel: Axes, runs: Runs, **properties) -> None:
    """A curve for each way to set alpha."""
    for (way, words), shade, dash in zip(WAYS.items(), THREE, DASHES, strict=False):
        errors = runs.error[runs.alpha == way]
        draw_cumulated(panel, errors, color=shade, linestyle=dash, label=words)
    finish(panel, **properties)


def draw_by_epsilon(panel: Axes, runs: Runs, epsilons: Sequence[float], **properties) -> None:
    """A curve for each epsilon, from dark to bright."""
    for k, epsilon in enumerate(epsilons):
        errors = runs.error[np.isclose(runs.epsilon, epsilon)]
        draw_cumulated(panel, errors, label=f"{epsilon:g}", **ordered_style(k, len(epsilons)))
    finish(panel, **properties)


def depths_of_runs(runs: Runs) -> np.ndarray:
    """The depth of each setting."""
    return runs.depth.astype(float)


def leaves_of_runs(runs: Runs) -> np.ndarray:
    """The leaves of a complete tree of each setting."""
    return 2.0**runs.depth


def draw_sizes(
    panel: Axes, runs: Runs, size: Callable[[Runs], np.ndarray], shade: str, **properties
) -> None:
    """The mean size, with its deviation, of the settings that have at most an error.

    The dotted line is the mean over all settings. The grid asks for it, so it tells nothing of the
    runs, and every curve ends there.
    """
    order = np.argsort(runs.error)
    sorted_sizes, error = size(runs)[order], runs.error[order]
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
    figure, axes = make_sheet(2, 3, 4.4)
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
        loss, style = losses.m_alpha(alpha), {"color": alpha_colour(alpha), "linestyle": dash}
        risk.plot(q, loss.bayes_risk(q), **style)
        for half in halves:
            link.plot(half, loss.link(half), **style)
        inverse.plot(z, loss.inverse_link(z), **style)
        surrogate.plot(z, loss.surrogate(z), **style)
        bound.plot(
            m, sensitivity.published_split_sensitivity(loss, m), color=alpha_colour(alpha), **PALE
        )
        bound.plot(m, sensitivity.max_split_score_change(loss, m), **style)
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
CLAIMED_POINT = (0.2, 200 / 3)
"""What the text says of O.C.: the error and the percentage of runs that have at most it."""


def fig2() -> Figure:
    """Figure 2: banknote with and without privacy, by alpha, and the number of leaves.

    Curves by alpha above the leaves; without privacy, published and tight.

    Raises:
        InputError: if no grid has been aggregated.
    """
    names = {NONE: WITHOUT, **CALIBRATIONS}
    words = {NONE: "without privacy"}
    if DOMAIN not in fitted_domains():
        raise InputError(f"the grid has no {DOMAIN} yet; run: python -m experiments {NAME} run")
    figure, panels = make_sheet(2, 3, 4.4, sharey="row")
    for column, (name, shade) in zip(panels.T, names.items(), strict=True):
        runs = read_runs(DOMAIN, name)
        if len(runs.error):
            draw_by_alpha(column[0], runs, title=words.get(name, name))
            draw_sizes(column[1], runs, leaves_of_runs, shade)
    for panel in panels[0, 1:]:
        style: dict[str, Any] = {"color": "0.5", "linewidth": 0.9, "linestyle": ":"}
        panel.axvline(CLAIMED_POINT[0], **style)
        panel.axhline(
            CLAIMED_POINT[1], label="the text's claim: 2/3 of O.C. at 20 % error", **style
        )
    panels[0, 0].set_ylabel("% of settings with at most x")
    panels[1, 0].set_ylabel("leaves, an input: mean and sd")
    private = max(error for name in CALIBRATIONS for error in read_runs(DOMAIN, name).error)
    for k, column in enumerate(panels.T):
        max_error = private if k else read_runs(DOMAIN, NONE).error.max()
        for panel in column:
            finish(panel, xlim=(-0.04 * max_error, 1.04 * max_error))
    mark_larger_class(panels.ravel().tolist(), larger_class_error(DOMAIN))
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
    figure, panel = make_sheet(1, 1, 3.6)
    side = np.geomspace(1e-4, 4, 400).astype(np.float32)
    for alpha, dash in zip(ALPHAS[1:], DASHES[1:], strict=False):
        loss, flat = losses.m_alpha(alpha), 2 * (1 - alpha)
        style: dict[str, Any] = {"color": alpha_colour(alpha), "linestyle": dash}
        second = np.asarray(jax.vmap(jax.grad(jax.grad(loss.surrogate)))(jnp.asarray(flat + side)))
        printed = 4 * alpha**2 / (4 * alpha**2 + side**2) ** 1.5
        for sign in (-1, 1):
            label = f"{alpha:g}" if sign > 0 else None
            panel.plot(sign * (flat + side), printed, color=alpha_colour(alpha), **PALE)
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

CROP_SHARE = 0.2
"""The part of a panel's runs that its crop holds."""

PERCENT = (0, 50, 100)
ROW_HEIGHT = 1.25
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
    return {name: draw_domain(name) for name in fitted_domains()}


def draw_domain(title: str) -> Figure:
    """The figure of one domain."""
    runs_by_regime = {name: read_runs(title, name) for name in REGIMES}
    runs_by_regime = {name: runs for name, runs in runs_by_regime.items() if len(runs.error)}
    private = [name for name in CALIBRATIONS if name in runs_by_regime]
    rows = 2 + 2 * len(private)
    height = 0.5 + ROW_HEIGHT * rows
    figure, panels = make_sheet(rows, 1 + len(EPSILONS), height, squeeze=False, layout=None)
    below, above = 0.5 / height, 1 - 0.42 / height  # for words; all panels have one size
    figure.subplots_adjust(0.085, below, 0.978, above, wspace=0.48, hspace=0.5)
    _draw_size_row(panels[0], runs_by_regime)
    _draw_alpha_row(panels[1], runs_by_regime)
    for k, name in enumerate(private):
        _draw_calibration(panels[2 + 2 * k : 4 + 2 * k], name, runs_by_regime[name])
    noiseless_panels = [panels[0, 0], panels[0, len(REGIMES)], panels[1, 0]]
    full_panels = [
        panel for panel in (*panels[:2].flat, *panels[2::2].flat) if panel not in noiseless_panels
    ]
    for group, names in (
        (full_panels, private),
        (noiseless_panels, [name for name in runs_by_regime if name == NONE]),
    ):
        errors = np.concatenate([runs_by_regime[name].error for name in names] or [np.zeros(1)])
        margin = 0.05 * (errors.max() - errors.min()) + 0.005
        for panel in (panel for panel in group if panel.axison):
            panel.set_xlim(errors.min() - margin, min(errors.max() + margin, 1))
    visible = [panel for panel in panels.flat if panel.axison]
    mark_larger_class(visible, larger_class_error(title))
    for panel in visible:
        _set_two_ticks(panel)
        finish(panel)
    figure.supxlabel("mean test error x of ten folds", fontsize=7.5, y=0.1 / height)
    count = ", ".join(
        f"{len(runs.error)} {WORDS.get(name, name)}" for name, runs in runs_by_regime.items()
    )
    figure.suptitle(f"{title}: v_q = 10, M = 10, seed 0; settings: {count}", y=1 - 0.07 / height)
    return figure


def _set_two_ticks(panel: Axes) -> None:
    """Leave the horizontal axis of a small panel its first and its last round number."""
    low, high = panel.get_xlim()
    ticks = [tick for tick in MaxNLocator(5).tick_values(low, high) if low <= tick <= high]
    panel.set_xticks([ticks[0], ticks[-1]])


def _draw_size_row(row: Sequence[Axes], runs_by_regime: dict[str, Runs]) -> None:
    """Figure 8: depths and leaves of the settings that have at most an error."""
    kinds = {"depth": (depths_of_runs, (1, 2, 4, 6)), "leaves": (leaves_of_runs, (0, 20, 40, 60))}
    for k, (words, (size, ticks)) in enumerate(kinds.items()):
        for j, (name, shade) in enumerate(REGIMES.items()):
            panel = row[len(REGIMES) * k + j]
            if name not in runs_by_regime:
                panel.axis("off")
                continue
            draw_sizes(
                panel, runs_by_regime[name], size, shade, yticks=ticks, ylim=(0, 1.1 * ticks[-1])
            )
            panel.set_title(f"{words}, {WORDS.get(name, name)}", fontsize=7)
    row[0].set_ylabel("input: mean, sd", fontsize=7)


def _draw_alpha_row(row: Sequence[Axes], runs_by_regime: dict[str, Runs]) -> None:
    """Figure 9, by alpha; and what all lines mean, in the place of the other panels."""
    for panel, name in zip(row, REGIMES, strict=False):
        if name not in runs_by_regime:
            panel.axis("off")
            continue
        draw_by_alpha(panel, runs_by_regime[name], yticks=PERCENT)
        panel.set_title(f"by alpha, {WORDS.get(name, name)}", fontsize=7)
    row[0].set_ylabel("% of settings\nwith at most x", fontsize=7)
    for panel in row[len(REGIMES) :]:
        panel.axis("off")
    _add_legends(row[len(REGIMES)], row[-1])


def _add_legends(left: Axes, right: Axes) -> None:
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
        Line2D([], [], label=f"{epsilon:g}", **ordered_style(k, len(EPSILONS)))
        for k, epsilon in enumerate(EPSILONS)
    ]
    second = right.legend(
        handles=epsilons, title="epsilon", loc="upper right", bbox_to_anchor=(1.08, 1.1)
    )
    for legend in (first, second):
        legend.set_in_layout(False)


def _draw_calibration(rows: np.ndarray, name: str, runs: Runs) -> None:
    """The private runs by epsilon, and by alpha at each epsilon, above their crops."""
    draw_by_epsilon(rows[0, 0], runs, EPSILONS, yticks=PERCENT)
    draw_by_epsilon(rows[1, 0], runs, EPSILONS)
    rows[0, 0].set_title("by epsilon", fontsize=7)
    _draw_crop(
        rows[0, 0],
        rows[1, 0],
        [runs.error[np.isclose(runs.epsilon, epsilon)] for epsilon in EPSILONS],
    )
    for (upper, lower), epsilon in zip(rows.T[1:], EPSILONS, strict=True):
        runs_at_epsilon = runs.where(np.isclose(runs.epsilon, epsilon))
        if not len(runs_at_epsilon.error):
            upper.axis("off")
            lower.axis("off")
            continue
        draw_by_alpha(upper, runs_at_epsilon, yticks=PERCENT)
        draw_by_alpha(lower, runs_at_epsilon)
        upper.set_title(f"epsilon = {epsilon:g}", fontsize=7)
        _draw_crop(
            upper, lower, [runs_at_epsilon.error[runs_at_epsilon.alpha == way] for way in WAYS]
        )
    rows[0, 0].set_ylabel(f"{name}, %", fontsize=7)
    rows[1, 0].set_ylabel(f"{name},\ncrop, %", fontsize=7)


def _draw_crop(full_panel: Axes, panel: Axes, curves: Sequence[np.ndarray]) -> None:
    """Limit a panel to its best runs, and show in the whole one what it holds."""
    errors = np.concatenate(curves)
    low, high = errors.min(), np.quantile(errors, CROP_SHARE)
    margin = max(0.06 * (high - low), 0.002)
    low, high = low - margin, high + margin
    top = 103 * max(np.mean(curve <= high) for curve in curves if len(curve))
    panel.set(xlim=(low, high), ylim=(0, top))
    panel.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    style: dict[str, Any] = {"fill": False, "edgecolor": "0.4", "linewidth": 0.8, "zorder": 4}
    full_panel.add_patch(Rectangle((low, 0), high - low, top, **style))


EPSILON = 0.01
BINS = (10, 50)
EXTRACT_DOMAINS = ("banknote", "qsar", "wine-red", "wine-white")
"""The domains that the paper's text compares."""

EPSILON_PARTS = {None: "all epsilons", EPSILON: f"epsilon = {EPSILON:g}"}


def fig62() -> dict[str, Figure]:
    """Figure 62: v_q = 10 and 50 by alpha, and their difference, one figure for a calibration.

    A column is a domain. The paper shows extracts: all private runs, and those of epsilon = 0.01.
    As the curves of both v_q nearly coincide, the panel below each has their difference.

    Raises:
        InputError: if the grid of v_q = 50 has not been aggregated.
    """
    figures = {}
    for calibration in CALIBRATIONS:
        domains_by_bins = [set(fitted_domains(bins, calibration)) for bins in BINS]
        names = [
            name for name in EXTRACT_DOMAINS if all(name in fitted for fitted in domains_by_bins)
        ]
        if names:
            figures[calibration] = _draw_bins(calibration, names)
    return figures


def _draw_bins(calibration: str, names: Sequence[str]) -> Figure:
    """Curves above their difference: of all private settings, and of those of high privacy."""
    heights = [2, 1.4] * len(EPSILON_PARTS)
    options = {"sharex": "col", "sharey": "row", "squeeze": False, "height_ratios": heights}
    figure, panels = make_sheet(len(heights), len(names), 6.8, **options)
    for name, column in zip(names, panels.T, strict=True):
        for k, (epsilon, words) in enumerate(EPSILON_PARTS.items()):
            curves, difference = column[2 * k : 2 * k + 2]
            finish(curves, title=f"{name}, {words}")
            _draw_bin_difference(curves, difference, name, calibration, epsilon)
        finish(column[-1], xlabel="test error x")
        mark_larger_class(column.tolist(), larger_class_error(name))
    for k in range(len(EPSILON_PARTS)):
        panels[2 * k, 0].set_ylabel("% of settings\nwith at most x")
        panels[2 * k + 1, 0].set_ylabel("points more\nat v_q = 50")
        panels[2 * k + 1, 0].yaxis.set_major_locator(MaxNLocator(5))
    panels[0, 0].plot([], [], color="grey", label="v_q = 10: wide and pale", **PALE)
    panels[0, 0].plot([], [], color="black", linewidth=0.8, label="larger class")
    legend_below(figure, panels[0, 0], 3)
    figure.suptitle(f"v_q = 10 and 50, {calibration}: M = 10, seed 0, mean of ten folds")
    return figure


def _draw_bin_difference(
    curves: Axes, difference: Axes, name: str, calibration: str, epsilon: float | None
):
    """The settings of a domain with at most each error, by alpha, and what v_q changes."""
    runs_by_bins = [read_runs(name, calibration, bins) for bins in BINS]
    if epsilon is not None:
        runs_by_bins = [runs.where(np.isclose(runs.epsilon, epsilon)) for runs in runs_by_bins]
    for (way, words), shade, dash in zip(WAYS.items(), THREE, DASHES, strict=False):
        few, many = (runs.error[runs.alpha == way] for runs in runs_by_bins)
        if not (len(few) and len(many)):
            continue
        draw_cumulated(curves, few, color=shade, **PALE)
        style: dict[str, Any] = {"color": shade, "linestyle": dash, "linewidth": 1.1}
        draw_cumulated(curves, many, label=f"{words}, v_q = 50", **style)
        x = np.unique(np.concatenate([few, many]))
        difference.step(
            x, _percentages_at_most(many, x) - _percentages_at_most(few, x), where="post", **style
        )
    difference.axhline(0, color="0.5", linewidth=0.8)


def _percentages_at_most(error: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The percentage of settings that have at most each error."""
    return 100 * np.searchsorted(np.sort(error), x, side="right") / len(error)


def auto() -> Figure:
    """The best setting of the grid, and `auto`: mean test errors over domains, by epsilon.

    It is not in the paper. The best setting is chosen on its own test folds.

    Raises:
        InputError: if `auto` has not been measured.
    """
    auto_lines = aggregated.read_result(NAME, "auto")
    figure, panel = make_sheet(1, 1, 3)
    names = [
        name for name in fitted_domains() if any(line["domain"] == name for line in auto_lines)
    ]
    for name in CALIBRATIONS:
        runs_by_domain = [read_runs(domain, name) for domain in names]
        means = [
            np.mean([own.error[np.isclose(own.epsilon, at)].min() for own in runs_by_domain])
            for at in EPSILONS
        ]
        panel.plot(EPSILONS, means, label=f"best setting, {name}", **calibration_style(name))
    own = {at: [line["error_mean"] for line in where(auto_lines, epsilon=at)] for at in EPSILONS}
    means = [np.mean(errors) if errors else np.nan for errors in own.values()]
    panel.plot(EPSILONS, means, label="auto", **AUTO_STYLE)
    finish(panel, xlabel="epsilon", xscale="log", ylabel="mean test error")
    panel.set_xticks(EPSILONS, [f"{at:g}" for at in EPSILONS])
    panel.minorticks_off()
    panel.legend()
    figure.suptitle(f"{count_in_words(len(names), 'domain')}: v_q = 10, M = 10, ten folds")
    return figure


def table1() -> Figure:
    """Table 1 as bars: the number of domains on which each alpha is best, ours and the paper's.

    A panel for the paper, and one for each calibration.

    Raises:
        InputError: if no grid has been aggregated.
    """
    lines = aggregated.read_result(NAME, "table_1")
    calibrations = [
        name for name in CALIBRATIONS if any(line["calibration"] == name for line in lines)
    ]
    figure, panels = make_sheet(1, 1 + len(calibrations), 2.5)
    printed = aggregated.printed_numbers(NAME, "table-1")
    epsilons = sorted({line["epsilon"] for line in lines})
    for panel, name in zip(panels, ("printed", *calibrations), strict=True):
        of_panel = where(lines, calibration=name)
        for k, (way, words) in enumerate(WAYS.items()):
            counts = [line["count"] for line in of_panel if str(line["alpha"]) == way]
            if name == "printed":
                counts = [count for setting, count in printed if str(setting["alpha"]) == way]
            places = [place + 0.27 * (k - 1) for place in range(len(counts))]
            panel.bar(places, counts, width=0.25, label=words, **bar_style(k))
        panel.set_xticks(range(len(epsilons)), [f"{epsilon:g}" for epsilon in epsilons])
        number = of_panel[0]["domains"] if of_panel else 19
        title = f"{name}: {count_in_words(number, 'domain')}"
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
    figure, panels = make_sheet(1, 4, 2.5, sharey=True)
    printed_numbers = aggregated.printed_numbers(NAME, "table-4-overall")
    for panel, (rounds, forest) in zip(panels, PANELS, strict=True):
        printed = [
            n
            for setting, n in printed_numbers
            if (setting["rounds"], setting["forest"]) == (rounds, forest)
        ]
        places = range(len(WAYS))
        panel.bar([k - 0.27 for k in places], printed, 0.25, color=PAPER, label="printed")
        for k, name in enumerate(CALIBRATIONS):
            percentages = [
                np.nan if line["percent"] is None else line["percent"]  # nothing was significant
                for way in WAYS
                for line in lines
                if (line["rounds"], line["forest"], line["calibration"]) == (rounds, forest, name)
                and str(line["alpha"]) == way
            ]
            if len(percentages) == len(WAYS):
                places_of = [place + 0.27 * k for place in places]
                bars = panel.bar(places_of, percentages, 0.25, label=name, **bar_style(k))
                if all(share < 10 for share in percentages):  # too short to be read off
                    panel.bar_label(bars, fmt="%.0f", fontsize=7)
        panel.axhline(50, color="0.6", linewidth=0.8, zorder=0)
        panel.set_xticks(places, [words.replace(" = ", "\n= ") for words in WAYS.values()])
        finish(panel, title=f"T = {rounds} against {FORESTS[forest]}", ylim=(0, 100))
    panels[0].set_ylabel("% of significant differences won")
    legend_below(figure, panels[0], 3)
    first = lines[0]
    words = count_in_words(first["domains"], "domain")
    words += ", depths 2, 4, 6; RF of 21 trees; v_q = 10, M = 10"
    figure.suptitle(f"{words}; paired t-test over ten folds at 0.01")
    return figure
