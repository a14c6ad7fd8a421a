"""Pictures of models. All of it is post-processing, and costs no privacy.

Every function draws what was released and what is public, and takes no private row. What is drawn
is computed apart, by `attribute_effects` and `partial_dependence` of `dpbt.effects`. A model of
noise alone has effects and shapes as well, so a picture shows what the model says and not what is
true of the data.

Models are from `dpbt.fit` or from `dpbt.load`. A domain may be left out where a saved model has its
own. All functions return the panel that they drew in, an `Axes` of matplotlib. That library is the
extra `figures`, and is imported only where something is drawn.
"""

from __future__ import annotations  # the types of matplotlib are only named

from typing import TYPE_CHECKING, Any

import numpy as np

from dpbt.analysis.effects import attribute_effects, partial_dependence
from dpbt.common.validate import shown, whole
from dpbt.data.domains import Domain
from dpbt.data.kinds import Boolean, Column, Nominal, Numeric
from dpbt.release.model import Model, domain_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["attributes", "shape"]

BLUE, ORANGE = "#0072B2", "#D55E00"
"""Colours that colour-blind readers tell apart."""

_GAP = 0.5
"""Between the last ordinary bin and the bin of missing values, in widths of a bin."""


def attributes(
    model: Model, domain: Domain | None = None, *, most: int = 20, ax: Axes | None = None
) -> Axes:
    """Draw how much the score depends on each attribute, the largest on top.

    A bar is the root of the attribute's total effect (`attribute_effects`): the standard deviation
    of the score where this attribute alone is redrawn, with bins of the uniform law. A whisker is
    about one standard error, where the effect is estimated. The variances of the scores of several
    classes are added up. A predicted number is in its units.

    Noise makes bars, too. An attribute that tells nothing has one if a noisy choice, or the public
    splits of a random tree, asked for it.

    Args:
        model: from `fit`, trained on bins; or from `dpbt.load`.
        domain: the domain that encoded the table it was fitted on. A saved model may have its own.
        most: how many attributes are shown. The label says how many are left out.
        ax: the panel; a new figure by default.

    Raises:
        ValueError: as `attribute_effects`, and for `most` below 1.
        ImportError: without matplotlib.
    """
    whole("most", most)
    effects = attribute_effects(model, domain)
    first, target = effects[:most], model.about.target
    ax = _panel(ax, (6.0, 1.2 + 0.26 * len(first)))
    places = np.arange(len(first))
    scale = float(target.high) - float(target.low) if isinstance(target, Numeric) else 1.0
    deviations = scale * np.array([effect.deviation for effect in first])
    # The error of a root is that of the variance over twice the root.
    errors = [scale * effect.error / max(2 * effect.deviation, 1e-30) for effect in first]
    ax.barh(places, deviations, color=BLUE, height=0.7)
    if any(errors):
        ax.errorbar(deviations, places, xerr=errors, fmt="none", ecolor="black", elinewidth=1)
    ax.set_yticks(places, [effect.attribute for effect in first])
    ax.invert_yaxis()
    what = {Numeric: "prediction", Nominal: "scores"}.get(type(target), "score")
    words = f"standard deviation of the {what} as one attribute is redrawn"
    left = len(effects) - len(first)
    words += f"\n({left} smaller ones are left out)" if left else ""
    ax.set(xlabel=words, title=model.about.name)
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
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean score for each bin of one attribute.

    The mean is over the bins of all other attributes, by the uniform law of `dpbt.effects`. All
    bins are equally wide, as they count the same. A numeric attribute is drawn as steps between
    its public thresholds, and any other as points. A dashed line is the mean over all bins. The
    bin of missing or unlisted values lies apart, at the end. `dpbt.effects.partial_dependence`
    gives the numbers, also of a pair of attributes.

    Args:
        model: from `fit`, trained on bins; or from `dpbt.load`.
        domain: the domain that encoded the table it was fitted on. A saved model may have its own.
        attribute: the name of a column.
        of: "score", or "probability" of the positive class. A predicted number is in its units.
        class_: the class whose score or probability is drawn, for a model of several classes.
        ax: the panel; a new figure by default.

    Raises:
        ValueError: as `partial_dependence`; and for a class that the model does not have, or for
            none where there are several.
        ImportError: without matplotlib.
    """
    known = domain_of(model, domain)
    if not isinstance(attribute, str):
        raise ValueError(f"attribute must be the name of one column, got {shown(attribute)}")
    found = partial_dependence(model, attribute, known, of=of)
    values, words = _drawn(model, found.values, of, class_)
    inside, ticks = _ticks(known[attribute])
    edges, end = np.arange(inside + 1), float(inside)
    ax = _panel(ax, (6.0, 3.6))
    ax.axhline(float(values.mean()), color="0.6", linestyle="--", linewidth=0.9, zorder=1)
    if isinstance(known[attribute], Numeric):
        ax.stairs(values[:inside], edges, baseline=None, color=BLUE, linewidth=1.8)
    else:
        ax.plot(edges[:-1] + 0.5, values[:inside], "o", color=BLUE, markersize=7)
    if len(values) > inside:
        hollow = {"color": ORANGE, "marker": "D", "markersize": 6, "fillstyle": "none"}
        ax.plot([end + _GAP + 0.5], values[inside:], linestyle="", **hollow)
        end += _GAP + 1
    ax.set_xlim(-0.3, end + 0.3)
    ax.margins(y=0.08)
    long = sum(len(word) + 2 for word in ticks.values()) > 60
    ax.set_xticks(list(ticks), list(ticks.values()), rotation=90 if long else 0)
    ax.set(xlabel=attribute, ylabel=f"mean {words}")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _panel(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The panel to draw in: what was given, or that of a new figure of a size in inches."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "pictures need matplotlib, which the extra `figures` installs: "
            "pip install 'dpbt[figures]'"
        ) from error
    return plt.subplots(figsize=size, layout="constrained")[1]


def _drawn(model: Model, means: np.ndarray, of: str, class_: Any) -> tuple[np.ndarray, str]:
    """(one number of each mean, its name).

    Raises:
        ValueError: for a class that the model does not have, and for none where there are several.
    """
    target = model.about.target
    if isinstance(target, Nominal):
        names = list(model.about.classes or target.values)
        if class_ not in names:
            raise ValueError(f"class_ must be one of {shown(names)}, got {shown(class_)}")
        return means[..., names.index(class_)], f"{of} of {class_}"
    if class_ is not None:
        raise ValueError("class_ is for models of several classes")
    if isinstance(target, Numeric):
        low, high = float(target.low), float(target.high)
        return low + (high - low) * means, "prediction"
    return means, of


def _ticks(column: Column) -> tuple[int, dict[float, str]]:
    """How many bins touch each other, and place -> words: some thresholds of numbers, or all words.

    Bin k is from k to k + 1. The bin of missing or unlisted values lies apart, behind a gap.
    """
    match column:
        case Numeric():
            ends = [float(column.low), *column.thresholds, float(column.high)]
            named = range(0, len(ends) - column.missing, -(-column.bins // 8))  # about so many
            words = {float(at): f"{float(f'{ends[at]:.3g}'):,g}" for at in named}
            inside, apart = column.bins, "missing"
        case Nominal():
            words = {number + 0.5: str(value) for number, value in enumerate(column.values)}
            inside, apart = len(words), "not listed"
        case Boolean():
            words, inside, apart = {0.5: column.false, 1.5: column.true}, 2, "missing"
    return inside, words if column.n_bins == inside else {**words, inside + _GAP + 0.5: apart}
