"""Pictures of models. They are post-processing, so they cost no privacy.

Every function draws the release and public facts, and reads no private row. The numbers come from
`attribute_effects` and `partial_dependence` of `dpbt.effects`, and from the curves of an additive
model. A model of pure noise has effects and shapes, too, so a picture shows what the model says and
not what is true of the data.

Models come from `dpbt.fit` or from `dpbt.load`. You may omit the domain if the saved model contains
it. All functions return the panel in which they drew, a matplotlib `Axes`, or several panels. They
import matplotlib, which is in the extra `figures`, when they draw.
"""

from __future__ import annotations  # the types of matplotlib are only named

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpbt.common.validate import check_positive_integer, show_value
from dpbt.data.column_types import Boolean, Column, Nominal, Numeric
from dpbt.data.domains import Domain
from dpbt.learners.additive.model import SHAPES, shape_functions_by_column
from dpbt.models.contributions import RowContributions
from dpbt.models.model import Model, resolve_domain_of_model, resolve_model
from dpbt.owners.effects import attribute_effects, check_names_are_columns, partial_dependence

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpbt.privacy.audit_bounds import Bound

__all__ = ["attributes", "audit_roc", "contributions", "shape", "shapes"]

BLUE, ORANGE, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
"""Colours that colour-blind readers tell apart."""

_GAP = 0.5
"""The gap between the last ordinary bin and the bin of missing values, in widths of a bin."""


def attributes(
    model: Model | Any,
    domain: Domain | None = None,
    *,
    max_attributes: int = 20,
    data: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw how much the score depends on each attribute.

    The attribute with the largest bar is on top. A bar is the square root of the attribute's total
    effect (`attribute_effects`): the standard deviation of the score as this attribute alone is
    redrawn, with bins of the uniform law. If the effect is estimated, a whisker shows about one
    standard error. The variances of the scores of several classes are added up. A predicted number
    is in its units.

    Noise makes bars, too. An uninformative attribute has one if a noisy choice, or the public
    splits of a random tree, selected it. An orange mark shows the bar that noise alone makes around
    the release, and a bar near its mark means nothing. A loaded model has marks if it is of
    oblivious trees, as `auto` makes them, or additive. Any other has none, as only the transcript
    tells the noise of its leaves.

    Args:
        model: from `fit`, trained on bins; from `dpbt.load`; or a fitted estimator.
        domain: the domain that encoded the table of the fit. A saved model may have its own.
        max_attributes: the largest number of attributes to show. The label says how many are left
            out.
        data: the public name of the rows, for the title.
        ax: the panel to draw in; None for a new figure.

    Raises:
        ValueError: as `attribute_effects`, and for `max_attributes` below 1.
        ImportError: without matplotlib.
    """
    check_positive_integer("max_attributes", max_attributes)
    model = resolve_model(model)
    effects = attribute_effects(model, domain, noise=True)
    shown = effects[:max_attributes]
    target = model.about.target
    ax = _panel_or_panel_of_new_figure(ax, (6.0, 1.2 + 0.26 * len(shown)))
    positions = np.arange(len(shown))
    scale = 1.0
    score_name = "score"
    if isinstance(target, Numeric):
        scale, _, score_name = target.score_units
    deviations = scale * np.array([effect.deviation for effect in shown])
    # The error of a root is that of the variance over twice the root.
    errors = [scale * effect.error / max(2 * effect.deviation, 1e-30) for effect in shown]
    ax.barh(positions, deviations, color=BLUE, height=0.7)
    if any(errors):
        ax.errorbar(deviations, positions, xerr=errors, fmt="none", ecolor="black", elinewidth=1)
    noise_deviations = scale * np.sqrt([effect.noise for effect in shown])
    if np.any(noise_deviations):
        ax.vlines(noise_deviations, positions - 0.45, positions + 0.45, color=ORANGE, linewidth=2)
    ax.set_yticks(positions, [effect.attribute for effect in shown], parse_math=False)
    ax.invert_yaxis()
    score_name = "scores" if isinstance(target, Nominal) else score_name
    label = f"standard deviation of the {score_name} as one attribute is redrawn"
    label += "\n(orange: by noise alone)" if np.any(noise_deviations) else ""
    num_hidden = len(effects) - len(shown)
    label += f"\n({num_hidden} smaller ones are left out)" if num_hidden else ""
    title = _picture_title(model, data, score_name + _suffix_of_positive_class(model))
    ax.set_xlabel(label)
    ax.set_title(title, parse_math=False)
    ax.set_xlim(left=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


def shape(
    model: Model | Any,
    domain: Domain | None = None,
    attribute: str = "",
    *,
    of: str = "score",
    class_: Any = None,
    data: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean score for each bin of one attribute, or its curve in an additive model.

    The mean is over the bins of all other attributes, by the uniform law of `dpbt.effects`. All
    bins are equally wide, as they count the same. A numeric attribute is drawn as steps between
    its public thresholds, and any other as points. A dashed line is the mean over all bins. The
    bin of missing or unlisted values lies behind a gap, at the end.
    `dpbt.effects.partial_dependence` returns the numbers, also for a pair of attributes.

    For an additive model the score that each bin adds is drawn, which needs no mean, and the dashed
    line is 0. Bands of one and of two standard deviations show the noise of privacy, which is a
    public number (`ShapeFunctions.noise`). They do not show that the rows are a sample, nor where
    noisy histograms put the steps of a curve. Adjacent bins share a part of their noise. For other
    hypotheses there are bands where `attributes` has marks: of the noise of the rounds around the
    release, without the part that is common to all bins. They keep the selected splits, so those of
    greedy trees are far too narrow.

    Args:
        model: from `fit`, trained on bins; from `dpbt.load`; or a fitted estimator.
        domain: the domain that encoded the table of the fit. A saved model may have its own.
        attribute: the name of a column.
        of: "score", or "probability" of the positive class, which is a mean also for an additive
            model. A predicted number is in its units.
        class_: the class whose score or probability is drawn, for a model of several classes.
        data: the public name of the rows, for the title.
        ax: the panel to draw in; None for a new figure.

    Raises:
        ValueError: as `partial_dependence`; and for a class that the model does not have, or for
            no class if there are several.
        ImportError: without matplotlib.
    """
    model = resolve_model(model)
    model_domain = resolve_domain_of_model(model, domain)
    if not isinstance(attribute, str):
        raise ValueError(f"attribute must be the name of one column, got {show_value(attribute)}")
    curve = _curve_or_partial_dependence(model, model_domain, (attribute,), of=of, class_=class_)
    ax = _panel_or_panel_of_new_figure(ax, (6.0, 3.6))
    _draw_curve(ax, model_domain[attribute], curve)
    ax.set_xlabel(attribute, parse_math=False)
    ax.set_ylabel(curve.label, parse_math=False)
    ax.set_title(_picture_title(model, data) if data else "", parse_math=False)
    return ax


def shapes(
    model: Model | Any,
    domain: Domain | None = None,
    *,
    of: str = "score",
    class_: Any = None,
    max_attributes: int = 12,
    data: str = "",
) -> list[Axes]:
    """Draw the shapes of all attributes in one figure, the one of the largest range first.

    If there are more than `max_attributes`, those of the largest ranges are drawn. Each panel is as
    `shape` draws it, and all share one vertical axis. Of an additive model this shows everything
    but the start of all scores. Its pairs are tables in colours, all of one scale.

    Args:
        model: from `fit`, trained on bins; from `dpbt.load`; or a fitted estimator.
        domain: the domain that encoded the table of the fit. A saved model may have its own.
        of: as `shape`.
        class_: as `shape`.
        max_attributes: the largest number of attributes to show. The title says how many are left
            out.
        data: the public name of the rows, for the title.

    Returns:
        The panels in their order; `panels[0].figure` is the figure.

    Raises:
        ValueError: as `shape`, and for `max_attributes` below 1.
        ImportError: without matplotlib.
    """
    check_positive_integer("max_attributes", max_attributes)
    model = resolve_model(model)
    model_domain = resolve_domain_of_model(model, domain)
    if model.about.kind is SHAPES and of == "score":
        columns_of_curves = [
            *shape_functions_by_column(model.host_hypotheses_of_run_rounds(), model_domain)[0]
        ]
    else:
        columns_of_curves = [(name,) for name in model_domain]
    curves: dict[tuple[str, ...], _Curve] = {
        names: _curve_or_partial_dependence(model, model_domain, names, of=of, class_=class_)
        for names in columns_of_curves
    }
    shown = sorted(curves, key=lambda names: -float(np.ptp(curves[names].values)))[:max_attributes]
    num_rows = math.ceil(len(shown) / 4)
    num_columns = math.ceil(len(shown) / num_rows)
    size = 3.2 * num_columns, 2.4 * num_rows + 0.4
    panels = _new_figure_of_panels(size, num_rows, num_columns).ravel()
    largest = max(float(np.abs(curves[names].values).max()) for names in shown) or 1.0
    for names, ax in zip(shown, panels, strict=False):
        ax.set_title(" and ".join(names), fontsize=10, parse_math=False)
        if names[1:]:
            pair = [model_domain[name] for name in names]
            ax = _draw_table_of_pair(ax, pair, values=curves[names].values, max_value=largest)
            ax.set_ylabel(names[0], parse_math=False)
            ax.set_xlabel(names[1], parse_math=False)
        else:
            _draw_curve(ax, model_domain[names[0]], curves[names], is_small=True)
        ax.tick_params(labelsize=7)
    for ax in panels[len(shown) :]:
        ax.set_visible(False)
    first = curves[shown[0]]
    num_hidden = len(curves) - len(shown)
    title = _picture_title(model, data, first.label)
    if num_hidden:
        title += f" ({num_hidden} columns that move it less are left out)"
    if np.any(first.noise):
        title += "\nbands: one and two deviations of the noise of privacy"
    panels[0].figure.suptitle(title, fontsize=11, parse_math=False)
    return list(panels[: len(shown)])


def contributions(
    model: Model | Any,
    rows: Any,
    row: int = 0,
    *,
    domain: Domain | None = None,
    background: Mapping[str, Any] | str | None = None,
    class_: Any = None,
    max_columns: int = 15,
    data: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw what each column of one row adds to its score.

    The largest bar is on top. Bars begin at 0, so that they compare, and the title has the sum: the
    mean score over the background, and that of the row (`dpbt.Model.contributions`). A whisker is
    two deviations of the noise of privacy to each side, where the model knows it. A bar whose
    whisker crosses 0 may be noise alone.

    The picture shows the row, so it is as private as the row.

    Args:
        model: from `fit`, trained on bins; from `dpbt.load`; or a fitted estimator.
        rows: some rows, as the model predicts them.
        row: the number of the row among them, from 0.
        domain: the domain that encoded the table of the fit. A saved model may have its own.
        background: as `dpbt.Model.contributions`.
        class_: the class whose score is explained, for a model of several classes.
        max_columns: the largest number of bars. The last one is then the sum of all others.
        data: the public name of the rows, for the title.
        ax: the panel to draw in; None for a new figure.

    Raises:
        ValueError: as `dpbt.Model.contributions` and `Contributions.of_row`, and for `max_columns`
            below 2.
        ImportError: without matplotlib.
    """
    check_positive_integer("max_columns", max_columns)
    if max_columns < 2:
        raise ValueError("max_columns must be at least 2, got 1")
    if isinstance(model, Model):
        contributions_of_rows = model.contributions(rows, domain=domain, background=background)
    else:
        resolve_model(model)  # it is a fitted estimator
        contributions_of_rows = model.contributions(rows, background=background)
        model = resolve_model(model)
    of_row = contributions_of_rows.of_row(row, class_)
    labels, values, noise = _bars_of_contributions(of_row, max_columns)
    ax = _panel_or_panel_of_new_figure(ax, (6.4, 1.3 + 0.28 * len(values)))
    positions = np.arange(len(values))
    colors = [BLUE if value >= 0 else PURPLE for value in values]
    ax.barh(positions, values, color=colors, height=0.7)
    has_noise = noise > 0
    if has_noise.any():
        ax.errorbar(
            values[has_noise],
            positions[has_noise],
            xerr=2 * noise[has_noise],
            fmt="none",
            ecolor="0.25",
            elinewidth=1,
            capsize=2,
        )
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_yticks(positions, [_shorten_text(label, 40) for label in labels], parse_math=False)
    ax.invert_yaxis()
    label = f"what the column adds to the {of_row.unit}"
    if has_noise.any():
        label += "\n(whiskers: two deviations of the noise of privacy)"
    ax.set_xlabel(label, parse_math=False)
    sums = f"{of_row.base:.3g} on average, {of_row.score:.3g} for this row"
    ax.set_title(f"{_picture_title(model, data)}\n{sums}", parse_math=False, fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


class _Bars(NamedTuple):
    """The bars of the contributions to a score, in their order from the largest.

    Attributes:
        labels: the name and the cell of each column.
        values: f64[bars]: what each column adds.
        noise: f64[bars]: the standard deviation of its noise; 0 if it is not known.
    """

    labels: list[str]
    values: np.ndarray
    noise: np.ndarray


def _bars_of_contributions(of_row: RowContributions, max_columns: int) -> _Bars:
    """The bars of a row's contributions, at most a given number.

    If there are more columns, the last bar is the sum of the smallest ones.
    """
    labels = [f"{name}: {cell}" for name, cell in zip(of_row.names, of_row.cells, strict=True)]
    values = of_row.values
    noise = np.zeros_like(values) if of_row.noise is None else of_row.noise
    num_hidden = len(values) - max_columns
    if num_hidden > 0:
        num_hidden += 1
        values = np.append(values[: max_columns - 1], values[max_columns - 1 :].sum())
        labels = [*labels[: max_columns - 1], f"{num_hidden} others together"]
        noise = np.append(noise[: max_columns - 1], 0.0)  # their noise is not independent
    return _Bars(labels, values, noise)


def audit_roc(bounds: Sequence[Bound], ax: Axes | None = None) -> Axes:
    """Draw the ROC of audits: the true positive rates of their tests by false positive rates.

    A test decides which of two tables a run was on. Points show the rates that the tests of each
    audit attain, with their confidence. No test of a learner that keeps the claim of the first
    audit can lie above the line. Both axes are logarithmic. A result on private rows is private.

    Args:
        bounds: from `dpbt.audit`, of one claim.
        ax: the panel to draw in; None for a new figure.

    Raises:
        ValueError: if there is no audit.
        ImportError: without matplotlib.
    """
    if not bounds:
        raise ValueError("expected at least one audit")
    ax, (epsilon, delta) = _panel_or_panel_of_new_figure(ax, (4.6, 4.0)), bounds[0].claim
    false_rates = np.geomspace(1e-6, 1, 200)
    rising = np.exp(min(epsilon, 700)) * false_rates + delta
    falling = 1 - np.exp(-epsilon) * np.maximum(1 - delta - false_rates, 0)
    max_true_rates = np.minimum(np.minimum(rising, 1), falling)
    claim = f"claim: epsilon = {epsilon:g}, delta = {delta:g}"
    ax.plot(false_rates, max_true_rates, color="black", label=claim)
    ax.plot(false_rates, false_rates, ":", color="0.6", label="guessing")
    for bound, mark in zip(bounds, "osD^v", strict=False):
        rates = np.clip(bound.curve, false_rates[0], 1)
        rates = rates[bound.curve[:, 1] > bound.curve[:, 0]]
        ax.plot(*rates.T, mark, markersize=3, label=f"{bound.level}, {bound.runs:,} runs")
    ax.set(xscale="log", yscale="log", xlabel="tests that are wrong", ylabel="tests that are right")
    ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


tradeoff = audit_roc
"""The former name of `audit_roc`."""


class _Curve(NamedTuple):
    """The curve of an attribute or the table of a pair, as it is drawn.

    Attributes:
        values: f64[bins], or f64[bins, bins] for a pair of columns.
        label: a description of the values.
        noise: the standard deviation of the noise of each value, or of all; 0 if it is not known.
        base: the value at which the dashed line is.
    """

    values: np.ndarray
    label: str
    noise: float | np.ndarray
    base: float


def _curve_or_partial_dependence(
    model: Model, domain: Domain, names: tuple[str, ...], *, of: str, class_: Any
) -> _Curve:
    """The curve or table that is drawn of one column or of a pair.

    It is that of an additive model, or the mean score for each bin of any other.

    Raises:
        ValueError: as `shape`.
    """
    if model.about.kind is SHAPES and of == "score":
        check_names_are_columns(names, domain)
        functions, noise = shape_functions_by_column(model.host_hypotheses_of_run_rounds(), domain)
        bins_first = np.moveaxis(functions[names], range(-len(names), 0), range(len(names)))
        shown = _choose_and_describe_values(model, bins_first, of=of, class_=class_)
        return _Curve(
            values=shown.values * shown.scale,
            label=f"what a column adds to the {shown.description}",
            noise=noise * shown.scale,
            base=0.0,
        )
    means = partial_dependence(model, names, domain, of=of, noise=True)
    shown = _choose_and_describe_values(model, means.values, of=of, class_=class_)
    noise = (
        shown.scale * _choose_and_describe_values(model, means.noise, of=of, class_=class_).values
    )
    values = shown.values
    if isinstance(model.about.target, Numeric):
        values = model.about.target.score_units.offset + shown.scale * values
    return _Curve(
        values=values,
        label=f"mean {shown.description}",
        noise=noise,
        base=float(values.mean()),
    )


def _draw_curve(ax: Axes, column: Column, curve: _Curve, *, is_small: bool = False) -> None:
    """Draw a curve over the bins of a column, with bands of its noise.

    It may be small, for one of many panels.
    """
    if is_small:
        num_inside, ticks = _ticks_of_bins(column, max_thresholds=4, max_values=16, max_length=18)
    else:
        num_inside, ticks = _ticks_of_bins(column, max_thresholds=8, max_values=256, max_length=256)
    values = curve.values
    edges = np.arange(num_inside + 1)
    end = float(num_inside)
    ax.axhline(curve.base, color="0.6", linestyle="--", linewidth=0.9, zorder=1)
    position_of_missing = [end + _GAP + 0.5] if len(values) > num_inside else []
    is_numeric = isinstance(column, Numeric)
    points = np.concatenate([[] if is_numeric else edges[:-1] + 0.5, position_of_missing])
    for count in (2, 1) if np.any(curve.noise) else ():
        low, high = values - count * curve.noise, values + count * curve.noise
        band: Any = {"color": BLUE, "alpha": 0.18, "linewidth": 0}
        if is_numeric:
            ax.stairs(high[:num_inside], edges, baseline=low[:num_inside], fill=True, **band)
        for point, bottom, top in zip(
            points, low[-len(points) :], high[-len(points) :], strict=False
        ):
            ax.fill_between([point - 0.3, point + 0.3], bottom, top, **band)
    if is_numeric:
        ax.stairs(values[:num_inside], edges, baseline=None, color=BLUE, linewidth=1.8)
    else:
        size = 4 if is_small else 7
        ax.plot(edges[:-1] + 0.5, values[:num_inside], "o", color=BLUE, markersize=size)
    if position_of_missing:
        hollow: Any = {"color": ORANGE, "markersize": 4 if is_small else 6, "fillstyle": "none"}
        ax.plot(position_of_missing, values[num_inside:], "D", **hollow)
        end += _GAP + 1
    ax.set_xlim(-0.3, end + 0.3)
    ax.use_sticky_edges = False
    ax.margins(y=0.08)
    is_crowded = sum(len(word) + 2 for word in ticks.values()) > (40 if is_small else 60)
    rotation = 90 if is_crowded else 0
    ax.set_xticks(list(ticks), list(ticks.values()), rotation=rotation, parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_table_of_pair(
    ax: Axes, columns: list[Column], *, values: np.ndarray, max_value: float
) -> Axes:
    """Draw the table of a pair of columns in colours.

    The colours are those of -max_value..max_value. The table is drawn in new axes inside the panel,
    which are returned.
    """
    ax.set_axis_off()
    inner = ax.inset_axes((0, 0, 1, 1))
    image = inner.pcolormesh(values, cmap="PuOr", vmin=-max_value, vmax=max_value)
    ax.figure.colorbar(image, ax=ax).ax.tick_params(labelsize=7)
    for column, axis in zip(columns, (inner.yaxis, inner.xaxis), strict=True):
        ticks = _ticks_of_bins(
            column, max_thresholds=4, max_values=8, max_length=12
        ).label_by_position
        positions = [min(position, column.n_bins - 0.5) for position in ticks]
        is_crowded = axis is inner.xaxis and sum(map(len, ticks.values())) > 30
        rotation = 90 if is_crowded else 0
        axis.set_ticks(positions, list(ticks.values()), rotation=rotation, parse_math=False)
    return inner


def _panel_or_panel_of_new_figure(ax: Axes | None, size_in_inches: tuple[float, float]) -> Axes:
    """The given panel, or if it is None the one panel of a new figure."""
    return _new_figure_of_panels(size_in_inches, 1, 1)[0, 0] if ax is None else ax


def _new_figure_of_panels(
    size_in_inches: tuple[float, float], num_rows: int, num_columns: int
) -> np.ndarray:
    """Make a figure, and return its panels: object[num_rows, num_columns].

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
    options: Any = {"sharey": True, "squeeze": False, "layout": "constrained"}
    return plt.subplots(num_rows, num_columns, figsize=size_in_inches, **options)[1]


def _picture_title(model: Model, data: str, quantity: str = "") -> str:
    """The title of a picture: the name of the rows, the algorithm, and what is drawn."""
    return ", ".join(filter(None, (data, model.about.name))) + (f": {quantity}" if quantity else "")


def _suffix_of_positive_class(model: Model) -> str:
    """The text " of CLASS" for the class whose score is drawn.

    It is empty unless there are two classes.
    """
    about = model.about
    return f" of {about.classes[1]}" if about.target is None and about.classes else ""


def _shorten_text(text: str, max_length: int) -> str:
    """Cut text that is too long, and end it with an ellipsis.

    The result has at most `max_length` characters.
    """
    return text if len(text) <= max_length else f"{text[: max_length - 1]}\N{HORIZONTAL ELLIPSIS}"


class _DescribedValues(NamedTuple):
    """The values that are drawn for each bin, and a description of them.

    They are of one score, or of one probability.

    Attributes:
        values: the values, of the chosen class if there are several.
        description: what they are, such as "score of CLASS".
        scale: the units of a predicted number for each unit of the values; 1 for classes.
    """

    values: np.ndarray
    description: str
    scale: float


def _choose_and_describe_values(
    model: Model, values: np.ndarray, *, of: str, class_: Any
) -> _DescribedValues:
    """Choose the values of the class that is drawn, and describe them.

    Args:
        model: the model.
        values: f64[bins, ...], or f64[bins, bins, ...] for a pair; the last axis is of classes.
        of: as `shape`.
        class_: as `shape`.

    Raises:
        ValueError: for a class that the model does not have, and for no class if there are several.
    """
    target = model.about.target
    if isinstance(target, Nominal):
        names = list(model.about.classes or target.values)
        if class_ not in names:
            raise ValueError(f"class_ must be one of {show_value(names)}, got {show_value(class_)}")
        return _DescribedValues(values[..., names.index(class_)], f"{of} of {class_}", 1.0)
    if class_ is not None:
        raise ValueError("class_ is for models of several classes")
    if isinstance(target, Numeric):
        scale, _, description = target.score_units
        return _DescribedValues(values, description, scale)
    return _DescribedValues(values, of + _suffix_of_positive_class(model), 1.0)


class _Ticks(NamedTuple):
    """The ticks of an axis of bins.

    Bin k is from k to k + 1, and that of missing values lies after a gap.

    Attributes:
        num_inside: the number of bins that touch each other, without that of missing values.
        label_by_position: the label of each tick by its position on the axis.
    """

    num_inside: int
    label_by_position: dict[float, str]


def _ticks_of_bins(
    column: Column, *, max_thresholds: int, max_values: int, max_length: int
) -> _Ticks:
    """The ticks of an axis of a column's bins.

    They are at some of the thresholds of a number, or at listed values.

    Args:
        column: the column of the bins.
        max_thresholds: about the number of thresholds that have a tick.
        max_values: the largest number of listed values that have a tick.
        max_length: the largest number of characters of a label, beyond which it is cut.
    """
    match column:
        case Numeric():
            ends = [float(column.low), *column.thresholds, float(column.high)]
            labelled = range(0, len(ends) - column.missing, -(-column.bins // max_thresholds))
            labels = {float(at): f"{float(f'{ends[at]:.3g}'):,g}" for at in labelled}
            if column.date is not None:
                labels = {float(at): column.words_of_date(ends[at]) for at in labelled}
            num_inside = column.bins
            label_of_last = "missing"
        case Nominal():
            num_inside = len(column.values)
            label_of_last = "not listed"
            labelled = range(0, num_inside, -(-num_inside // max_values))
            labels = {number + 0.5: str(column.values[number]) for number in labelled}
        case Boolean():
            num_inside = 2
            label_of_last = "missing"
            labels = {bin + 0.5: column.bin_words[bin] for bin in range(num_inside)}
    labels = {position: _shorten_text(label, max_length) for position, label in labels.items()}
    if column.n_bins > num_inside:
        labels[num_inside + _GAP + 0.5] = label_of_last
    return _Ticks(num_inside, labels)
