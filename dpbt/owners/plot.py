"""Pictures of models. All of it is post-processing, and costs no privacy.

Every function draws what was released and what is public, and takes no private row. What is drawn
is computed apart, by `attribute_effects` and `partial_dependence` of `dpbt.effects`; the curves of
an additive model are drawn as they are. A model of noise alone has effects and shapes as well, so a
picture shows what the model says and not what is true of the data.

Models are from `dpbt.fit` or from `dpbt.load`. A domain may be left out where a saved model has its
own. All functions return the panel that they drew in, an `Axes` of matplotlib, or several. That
library is the extra `figures`, and is imported only where something is drawn.
"""

from __future__ import annotations  # the types of matplotlib are only named

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpbt.common.validate import check_whole_number, show_value
from dpbt.data.domains import Domain
from dpbt.data.kinds import Boolean, Column, Nominal, Numeric
from dpbt.learners.hypotheses import SHAPES
from dpbt.learners.shapes import shape_functions_by_column
from dpbt.models.model import Model, domain_of_bins
from dpbt.owners.effects import attribute_effects, check_columns, partial_dependence

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpbt.privacy.bounds import Bound

__all__ = ["attributes", "shape", "shapes", "tradeoff"]

BLUE, ORANGE = "#0072B2", "#D55E00"
"""Colours that colour-blind readers tell apart."""

_GAP = 0.5
"""Between the last ordinary bin and the bin of missing values, in widths of a bin."""


def attributes(
    model: Model,
    domain: Domain | None = None,
    *,
    most: int = 20,
    data: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw how much the score depends on each attribute, the largest on top.

    A bar is the root of the attribute's total effect (`attribute_effects`): the standard deviation
    of the score where this attribute alone is redrawn, with bins of the uniform law. A whisker is
    about one standard error, where the effect is estimated. The variances of the scores of several
    classes are added up. A predicted number is in its units.

    Noise makes bars, too. An attribute that tells nothing has one if a noisy choice, or the public
    splits of a random tree, asked for it. An orange mark is the bar that noise alone makes on what
    was released, where the model is as `fit` returned it. A bar near it tells nothing.

    Args:
        model: from `fit`, trained on bins; or from `dpbt.load`.
        domain: the domain that encoded the table it was fitted on. A saved model may have its own.
        most: how many attributes are shown. The label says how many are left out.
        data: the public name of the rows, for the title.
        ax: the panel; a new figure by default.

    Raises:
        ValueError: as `attribute_effects`, and for `most` below 1.
        ImportError: without matplotlib.
    """
    check_whole_number("most", most)
    effects = attribute_effects(model, domain, noise=True)
    first, target = effects[:most], model.about.target
    ax = _panel_or_new(ax, (6.0, 1.2 + 0.26 * len(first)))
    places = np.arange(len(first))
    scale, _, words = target.score_units if isinstance(target, Numeric) else (1.0, 0.0, "score")
    deviations = scale * np.array([effect.deviation for effect in first])
    # The error of a root is that of the variance over twice the root.
    errors = [scale * effect.error / max(2 * effect.deviation, 1e-30) for effect in first]
    ax.barh(places, deviations, color=BLUE, height=0.7)
    if any(errors):
        ax.errorbar(deviations, places, xerr=errors, fmt="none", ecolor="black", elinewidth=1)
    noises = scale * np.sqrt([effect.noise for effect in first])
    if np.any(noises):
        ax.vlines(noises, places - 0.45, places + 0.45, color=ORANGE, linewidth=2)
    ax.set_yticks(places, [effect.attribute for effect in first])
    ax.invert_yaxis()
    what = "scores" if isinstance(target, Nominal) else words
    words = f"standard deviation of the {what} as one attribute is redrawn"
    words += "\n(orange: by noise alone)" if np.any(noises) else ""
    left = len(effects) - len(first)
    words += f"\n({left} smaller ones are left out)" if left else ""
    ax.set(xlabel=words, title=_title(model, data, what + _words_of_positive_class(model)))
    ax.set_xlim(left=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


def shape(
    model: Model,
    domain: Domain | None = None,
    attribute: str = "",
    *,
    of: str = "score",
    class_: Any = None,
    data: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean score for each bin of one attribute, or its own curve in an additive model.

    The mean is over the bins of all other attributes, by the uniform law of `dpbt.effects`. All
    bins are equally wide, as they count the same. A numeric attribute is drawn as steps between
    its public thresholds, and any other as points. A dashed line is the mean over all bins. The
    bin of missing or unlisted values lies apart, at the end. `dpbt.effects.partial_dependence`
    gives the numbers, also of a pair of attributes.

    Of an additive model the score that each bin adds is drawn, which needs no mean; the dashed line
    is 0. A band of one and one of two deviations show the noise that privacy added, a public number
    (`ShapeFunctions.noise`). This is the noise of privacy alone. That the rows are a sample is not
    in it, and neither is where noisy histograms put the steps of a curve. Bins next to each other
    share a part of their noise. A model that is as `fit` returned it has bands for other
    hypotheses, too: of the noise of its rounds around what was released, less what it adds to all
    bins alike. They keep the splits that were selected, so those of greedy trees are far too
    narrow.

    Args:
        model: from `fit`, trained on bins; or from `dpbt.load`.
        domain: the domain that encoded the table it was fitted on. A saved model may have its own.
        attribute: the name of a column.
        of: "score", or "probability" of the positive class, which is a mean for every model. A
            predicted number is in its units.
        class_: the class whose score or probability is drawn, for a model of several classes.
        data: the public name of the rows, for the title.
        ax: the panel; a new figure by default.

    Raises:
        ValueError: as `partial_dependence`; and for a class that the model does not have, or for
            none where there are several.
        ImportError: without matplotlib.
    """
    known = domain_of_bins(model, domain)
    if not isinstance(attribute, str):
        raise ValueError(f"attribute must be the name of one column, got {show_value(attribute)}")
    curve = _curve_of_columns(model, known, (attribute,), of, class_)
    ax = _panel_or_new(ax, (6.0, 3.6))
    _draw_curve(ax, known[attribute], curve)
    ax.set(xlabel=attribute, ylabel=curve.label, title=_title(model, data) if data else "")
    return ax


def shapes(
    model: Model,
    domain: Domain | None = None,
    *,
    of: str = "score",
    class_: Any = None,
    most: int = 12,
    data: str = "",
) -> list[Axes]:
    """Draw the shapes of all attributes in one figure, from the one of the largest range.

    Each panel is as `shape` draws it, and all have one vertical axis. Of an additive model this is
    all of the model but the score that every row starts with. Its pairs are tables in colours, all
    of one scale.

    Args:
        model: from `fit`, trained on bins; or from `dpbt.load`.
        domain: the domain that encoded the table it was fitted on. A saved model may have its own.
        of: as `shape`.
        class_: as `shape`.
        most: how many attributes are shown. The title says how many are left out.
        data: the public name of the rows, for the title.

    Returns:
        The panels in their order; `panels[0].figure` is the figure.

    Raises:
        ValueError: as `shape`, and for `most` below 1.
        ImportError: without matplotlib.
    """
    check_whole_number("most", most)
    known = domain_of_bins(model, domain)
    own = model.about.kind is SHAPES and of == "score"
    named = (
        [*shape_functions_by_column(model.host_hypotheses(), known)[0]]
        if own
        else [(name,) for name in known]
    )
    found: dict[tuple[str, ...], _Curve] = {}
    found |= {name: _curve_of_columns(model, known, name, of, class_) for name in named}
    order = sorted(found, key=lambda name: -float(np.ptp(found[name].values)))[:most]
    down = math.ceil(len(order) / 4)
    across = math.ceil(len(order) / down)
    panels = _new_panels((3.2 * across, 2.4 * down + 0.4), down, across).ravel()
    largest = max(float(np.abs(found[name].values).max()) for name in order) or 1.0
    for name, ax in zip(order, panels, strict=False):
        ax.set_title(" and ".join(name), fontsize=10)
        columns = [known[each] for each in name]
        if columns[1:]:
            ax = _draw_pair(ax, columns, found[name].values, largest)
            ax.set(ylabel=name[0], xlabel=name[1])
        else:
            _draw_curve(ax, columns[0], found[name], small=True)
        ax.tick_params(labelsize=7)
    for ax in panels[len(order) :]:
        ax.set_visible(False)
    first, left = found[order[0]], len(found) - len(order)
    title = _title(model, data, first.label)
    if left:
        title += f" ({left} columns that move it less are left out)"
    if np.any(first.noise):
        title += "\nbands: one and two deviations of the noise of privacy"
    panels[0].figure.suptitle(title, fontsize=11)
    return list(panels[: len(order)])


def tradeoff(bounds: Sequence[Bound], ax: Axes | None = None) -> Axes:
    """What audits found: how often tests are right, by how often they are wrong.

    A test says which of two tables a run was on. For each audit there are the points that its tests
    attain, with their confidence, and a line above which no test of a learner of the first audit's
    claim can be. Both axes are logarithmic. What was found on private rows is private.

    Args:
        bounds: from `dpbt.audit`, of one claim.
        ax: the panel to draw in; by default that of a new figure.

    Raises:
        ValueError: if there is no audit.
        ImportError: without matplotlib.
    """
    if not bounds:
        raise ValueError("expected at least one audit")
    ax, (epsilon, delta) = _panel_or_new(ax, (4.6, 4.0)), bounds[0].claim
    wrong = np.geomspace(1e-6, 1, 200)
    most = np.minimum(np.exp(min(epsilon, 700)) * wrong + delta, 1)
    most = np.minimum(most, 1 - np.exp(-epsilon) * np.maximum(1 - delta - wrong, 0))
    ax.plot(wrong, most, color="black", label=f"claim: epsilon = {epsilon:g}, delta = {delta:g}")
    ax.plot(wrong, wrong, ":", color="0.6", label="guessing")
    for bound, mark in zip(bounds, "osD^v", strict=False):
        chances = np.clip(bound.curve, wrong[0], 1)
        chances = chances[bound.curve[:, 1] > bound.curve[:, 0]]
        ax.plot(*chances.T, mark, markersize=3, label=f"{bound.level}, {bound.runs:,} runs")
    ax.set(xscale="log", yscale="log", xlabel="tests that are wrong", ylabel="tests that are right")
    ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


class _Curve(NamedTuple):
    """What is drawn of an attribute.

    Attributes:
        values: f64[bins], or f64[bins, bins] of a pair of columns.
        label: what they are.
        noise: the deviation of the noise of each, or of all, where it is known; else 0.
        base: where the dashed line is.
    """

    values: np.ndarray
    label: str
    noise: float | np.ndarray
    base: float


def _curve_of_columns(
    model: Model, domain: Domain, names: tuple[str, ...], of: str, class_: Any
) -> _Curve:
    """The own curve of a column or a pair in an additive model, and else its partial dependence.

    Raises:
        ValueError: as `shape`.
    """
    if model.about.kind is SHAPES and of == "score":
        check_columns(names, domain)
        found, noise = shape_functions_by_column(model.host_hypotheses(), domain)
        own = np.moveaxis(found[names], range(-len(names), 0), range(len(names)))
        values, words, scale = _described_values(model, own, of, class_)
        return _Curve(values * scale, f"what a column adds to the {words}", noise * scale, 0.0)
    found = partial_dependence(model, names, domain, of=of, noise=True)
    values, words, scale = _described_values(model, found.values, of, class_)
    noise = scale * _described_values(model, found.noise, of, class_)[0]
    if isinstance(model.about.target, Numeric):
        values = model.about.target.score_units[1] + scale * values
    return _Curve(values, f"mean {words}", noise, float(values.mean()))


def _draw_curve(ax: Axes, column: Column, curve: _Curve, small: bool = False) -> None:
    """Draw a curve and its noise, in a panel of its own or in a small one of many."""
    inside, ticks = _ticks_of_bins(column, *((4, 16, 18) if small else (8, 256, 256)))
    values, edges, end = curve.values, np.arange(inside + 1), float(inside)
    ax.axhline(curve.base, color="0.6", linestyle="--", linewidth=0.9, zorder=1)
    apart = [end + _GAP + 0.5] if len(values) > inside else []
    numeric = isinstance(column, Numeric)
    places = np.concatenate([[] if numeric else edges[:-1] + 0.5, apart])
    for count in (2, 1) if np.any(curve.noise) else ():
        low, high = values - count * curve.noise, values + count * curve.noise
        band: Any = {"color": BLUE, "alpha": 0.18, "linewidth": 0}
        if numeric:
            ax.stairs(high[:inside], edges, baseline=low[:inside], fill=True, **band)
        for place, bottom, top in zip(
            places, low[-len(places) :], high[-len(places) :], strict=False
        ):
            ax.fill_between([place - 0.3, place + 0.3], bottom, top, **band)
    if numeric:
        ax.stairs(values[:inside], edges, baseline=None, color=BLUE, linewidth=1.8)
    else:
        ax.plot(edges[:-1] + 0.5, values[:inside], "o", color=BLUE, markersize=4 if small else 7)
    if apart:
        hollow: Any = {"color": ORANGE, "markersize": 4 if small else 6, "fillstyle": "none"}
        ax.plot(apart, values[inside:], "D", **hollow)
        end += _GAP + 1
    ax.set_xlim(-0.3, end + 0.3)
    ax.use_sticky_edges = False
    ax.margins(y=0.08)
    long = sum(len(word) + 2 for word in ticks.values()) > (40 if small else 60)
    ax.set_xticks(list(ticks), list(ticks.values()), rotation=90 if long else 0)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_pair(ax: Axes, columns: list[Column], values: np.ndarray, most: float) -> Axes:
    """Draw the table of a pair in colours of -most..most, with axes of its own inside a panel."""
    ax.set_axis_off()
    inner = ax.inset_axes((0, 0, 1, 1))
    image = inner.pcolormesh(values, cmap="PuOr", vmin=-most, vmax=most)
    ax.figure.colorbar(image, ax=ax).ax.tick_params(labelsize=7)
    for column, axis in zip(columns, (inner.yaxis, inner.xaxis), strict=True):
        ticks = _ticks_of_bins(column, 4, 8, 12)[1]
        places = [min(place, column.n_bins - 0.5) for place in ticks]
        long = axis is inner.xaxis and sum(map(len, ticks.values())) > 30
        axis.set_ticks(places, list(ticks.values()), rotation=90 if long else 0)
    return inner


def _panel_or_new(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The panel to draw in: what was given, or that of a new figure of a size in inches."""
    return _new_panels(size, 1, 1)[0, 0] if ax is None else ax


def _new_panels(size: tuple[float, float], down: int, across: int) -> np.ndarray:
    """The panels of a new figure of a size in inches.

    Raises:
        ImportError: without matplotlib.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "pictures need matplotlib, which the extra `figures` installs: "
            "pip install 'dpbt[figures]'"
        ) from error
    shared: Any = {"sharey": True, "squeeze": False, "layout": "constrained"}
    return plt.subplots(down, across, figsize=size, **shared)[1]


def _title(model: Model, data: str, what: str = "") -> str:
    """The name of the rows, the algorithm, and what is drawn, as far as they are known."""
    return ", ".join(filter(None, (data, model.about.name))) + (f": {what}" if what else "")


def _words_of_positive_class(model: Model) -> str:
    """Of which of two classes the score is."""
    about = model.about
    return f" of {about.classes[1]}" if about.target is None and about.classes else ""


def _described_values(
    model: Model, means: np.ndarray, of: str, class_: Any
) -> tuple[np.ndarray, str, float]:
    """(one number of each bin, their name, the scale of a predicted number's scores or 1).

    Raises:
        ValueError: for a class that the model does not have, and for none where there are several.
    """
    target = model.about.target
    if isinstance(target, Nominal):
        names = list(model.about.classes or target.values)
        if class_ not in names:
            raise ValueError(f"class_ must be one of {show_value(names)}, got {show_value(class_)}")
        return means[..., names.index(class_)], f"{of} of {class_}", 1.0
    if class_ is not None:
        raise ValueError("class_ is for models of several classes")
    if isinstance(target, Numeric):
        scale, _, words = target.score_units
        return means, words, scale
    return means, of + _words_of_positive_class(model), 1.0


def _ticks_of_bins(
    column: Column, numbers: int, names: int, length: int
) -> tuple[int, dict[float, str]]:
    """How many bins touch each other, and place -> words: some thresholds, or most values.

    Bin k is from k to k + 1. The bin of missing or unlisted values lies apart, behind a gap.

    Args:
        column: whose bins they are.
        numbers: about how many thresholds are named.
        names: the most values that are named.
        length: of the longest word, beyond which it is cut.
    """
    match column:
        case Numeric():
            ends = [float(column.low), *column.thresholds, float(column.high)]
            named = range(0, len(ends) - column.missing, -(-column.bins // numbers))
            words = {float(at): f"{float(f'{ends[at]:.3g}'):,g}" for at in named}
            inside, apart = column.bins, "missing"
        case Nominal():
            inside, apart = len(column.values), "not listed"
            named = range(0, inside, -(-inside // names))
            words = {number + 0.5: str(column.values[number]) for number in named}
        case Boolean():
            words, inside, apart = {0.5: column.false, 1.5: column.true}, 2, "missing"
    words = {
        place: word if len(word) <= length else f"{word[: length - 1]}\N{HORIZONTAL ELLIPSIS}"
        for place, word in words.items()
    }
    return inside, words if column.n_bins == inside else {**words, inside + _GAP + 0.5: apart}
