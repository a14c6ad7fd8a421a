"""Pictures of models and of results. All of it is post-processing, and costs no privacy.

Every function draws what was released and what is public, and takes no private row. What is drawn
is computed apart: `attribute_effects` and `partial_dependence` of `dpbt.effects`, and `explain`. A
model of noise alone has trees, effects and shapes as well, so a picture shows what the model says
and not what is true of the data.

Models are from `dpbt.fit` or from `dpbt.load`. A domain may be left out where a saved model has its
own. All functions return the panel that they drew in, an `Axes` of matplotlib. That library is the
extra `figures`, and is imported only where something is drawn.
"""

from __future__ import annotations  # the types of matplotlib are only named

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpbt.analysis.column_axis import ColumnAxis, axis_of, draw_axis
from dpbt.analysis.effects import attribute_effects, partial_dependence
from dpbt.analysis.frontier import frontier
from dpbt.analysis.style import BLUE, ORANGE, diverging, finish, panel
from dpbt.analysis.tree_picture import draw, layout, size_of
from dpbt.data.domains import Domain
from dpbt.data.kinds import Nominal, Numeric
from dpbt.learners.hypotheses.words import branch_of, questions_of_tree
from dpbt.release.answers import NO_CLASSES
from dpbt.release.explain import check_words, domain_of, heap_of
from dpbt.release.model import Model
from dpbt.validate import shown, whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "attribute_effects",
    "attributes",
    "frontier",
    "partial_dependence",
    "shape",
    "tree",
]


class _Answer(NamedTuple):
    """One number of each row: its score, the score of one class, or a number in its units.

    Attributes:
        number: which class it is of, on the last axis of scores; None where there is one score.
        scale: what a step of 1 in the model's score is in the units of the answer.
        shift: the answer where the score is 0.
        words: its name, for axes.
        middle: a value of no preference: around it the colours of maps diverge. None for a number.
    """

    number: int | None
    scale: float
    shift: float
    words: str
    middle: float | None

    def of_scores(self, values: np.ndarray) -> np.ndarray:
        """f64[...]: the answers; scores of several classes have an axis of classes, the last."""
        one = values if self.number is None else values[..., self.number]
        return self.shift + self.scale * one


def _answer_of(model: Model, class_: Any = None, of: str = "score") -> _Answer:
    """What is drawn of a model.

    Raises:
        ValueError: for a class that the model does not have, for none where there are several, and
            for the probability of a number.
    """
    target, is_score = model.about.target, of == "score"
    if isinstance(target, Nominal):
        names = list(model.about.classes or target.names)
        if class_ is None or class_ not in names:
            raise ValueError(f"class_ must be one of {shown(names)}, got {shown(class_)}")
        middle = 0.0 if is_score else 1 / len(names)
        return _Answer(names.index(class_), 1.0, 0.0, f"{of} of {class_}", middle)
    if class_ is not None:
        raise ValueError("class_ is for models of several classes")
    if not isinstance(target, Numeric):
        return _Answer(None, 1.0, 0.0, of, 0.0 if is_score else 0.5)
    if not is_score:
        raise ValueError(NO_CLASSES)
    low, high = float(target.low), float(target.high)
    return _Answer(None, high - low, low, "prediction", None)


def attributes(
    model: Model,
    domain: Domain | None = None,
    *,
    most: int = 20,
    ax: Axes | None = None,
) -> Axes:
    """Draw how much the score depends on each attribute, the largest on top.

    A bar is the root of the attribute's total effect (`attribute_effects`): the standard deviation
    of the score where this attribute alone is redrawn, with cells of the uniform law. A whisker is
    about one standard error, where the effect is estimated. The variances of the scores of several
    classes are added up. A predicted number is in its units.

    Noise makes bars, too. An attribute that tells nothing has one if a noisy choice, or the public
    questions of a random tree, asked for it.

    Args:
        model: from `fit`, trained on cells; or from `dpbt.load`.
        domain: the domain that encoded the table it was fitted on. A saved model may have its own.
        most: how many attributes are shown. The label says how many are left out.
        ax: the panel; a new figure by default.

    Raises:
        ValueError: as `attribute_effects`, and for `most` below 1.
        ImportError: without matplotlib.
    """
    whole("most", most)
    effects = attribute_effects(model, domain)
    first = effects[:most]
    ax = panel(ax, (6.0, 1.2 + 0.26 * len(first)))
    places = np.arange(len(first))
    target = model.about.target
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
    finish(ax, xlabel=words, title=model.about.name)
    ax.set_xlim(left=0)
    ax.tick_params(axis="y", length=0)
    return ax


def shape(
    model: Model,
    domain: Domain | None = None,
    attribute: str | Sequence[str] = (),
    *,
    of: str = "score",
    class_: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean score for each cell of one attribute, or of a pair.

    The mean is over the cells of all other attributes, by the uniform law of `dpbt.effects`. A
    numeric attribute is drawn as steps between its public cut points, and any other as points. A
    dashed line is the mean over all cells. The cell of missing or unlisted values lies apart, at
    the end. A pair is drawn as a map of colours around the score 0, the probability 1/2 (1/K with
    K classes), or the mean of a predicted number.

    Args:
        model: from `fit`, trained on cells; or from `dpbt.load`.
        domain: the domain that encoded the table it was fitted on. A saved model may have its own.
        attribute: the name of a column, or of two columns.
        of: "score", or "probability" of the positive class. A predicted number is in its units.
        class_: the class whose score or probability is drawn, for a model of several classes.
        ax: the panel; a new figure by default.

    Raises:
        ValueError: as `partial_dependence`; and for a class that the model does not have, or for
            none where there are several.
        ImportError: without matplotlib.
    """
    known = domain_of(model, domain)
    answer = _answer_of(model, class_, of)
    found = partial_dependence(model, attribute, known, of=of)
    axes = [axis_of(known[name]) for name in found.attributes]
    if len(axes) == 1:
        ax = panel(ax, (6.0, 3.6))
        _steps(ax, axes[0], answer.of_scores(found.values))
        ax.set_ylabel(f"mean {answer.words}")
        finish(ax)
    else:
        ax = panel(ax, (6.0, 4.6))
        _map(ax, (axes[0], axes[1]), answer.of_scores(found.values), answer)
        draw_axis(ax, axes[1], found.attributes[1], "y", margin=0)
    draw_axis(ax, axes[0], found.attributes[0], margin=0.03 if len(axes) == 1 else 0)
    return ax


def _steps(ax: Axes, axis: ColumnAxis, values: np.ndarray) -> None:
    """Draw means by the cells of one column."""
    inside = values[: len(axis.edges) - 1]
    ax.axhline(float(values.mean()), color="0.6", linestyle="--", linewidth=0.9, zorder=1)
    if axis.words is None:
        ax.stairs(inside, axis.edges, baseline=None, color=BLUE, linewidth=1.8)
    else:
        ax.plot(axis.middles[: len(inside)], inside, "o", color=BLUE, markersize=7)
    if axis.apart is not None:
        style = {"color": ORANGE, "marker": "D", "markersize": 6, "fillstyle": "none"}
        ax.plot(axis.middles[-1:], values[-1:], linestyle="", **style)
    ax.margins(y=0.08)


def _map(
    ax: Axes, axes: tuple[ColumnAxis, ColumnAxis], values: np.ndarray, answer: _Answer
) -> None:
    """Draw means by the cells of two columns; values f64[cells of x, cells of y]."""
    middle = float(values.mean()) if answer.middle is None else answer.middle
    reach = float(np.abs(values - middle).max()) or 1.0
    colours = {"cmap": diverging(), "vmin": middle - reach, "vmax": middle + reach}
    meshes = [
        ax.pcolormesh(x_edges, y_edges, values[x_cells, y_cells].T, **colours)
        for x_edges, x_cells in _blocks(axes[0])
        for y_edges, y_cells in _blocks(axes[1])
    ]
    ax.set_facecolor("0.85")  # between a range and the cell apart
    words = f"mean {answer.words}"
    if answer.number is None and answer.middle is not None:
        words += f" (positive class above {middle:g})"
    ax.figure.colorbar(meshes[0], ax=ax, label=words)


def _blocks(axis: ColumnAxis) -> list[tuple[np.ndarray, slice]]:
    """The ends of the cells that touch each other, and which cells they are."""
    ordinary = len(axis.edges) - 1
    blocks = [(axis.edges, slice(0, ordinary))]
    if axis.apart is not None:
        blocks.append((np.asarray(axis.apart), slice(ordinary, ordinary + 1)))
    return blocks


def tree(
    model: Model,
    domain: Domain | None = None,
    round: int = 0,
    *,
    levels: int | None = None,
    class_: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw one tree in the words of the domain, with the branches that a row can reach.

    Solid lines lead to rows that satisfy a question, dashed ones to the others. Branches that say
    the same are one leaf, as in `dpbt.explain`. A leaf says what it adds to the score; that of a
    random tree is the share of the positive class. All nodes of a level of an oblivious tree ask
    the same question, which stands at the left.

    Args:
        model: from `fit`, trained on cells; or from `dpbt.load`. Its hypotheses are trees.
        domain: the domain that encoded the table it was fitted on. A saved model may have its own.
        round: the number of the tree, from 0. The title and `dpbt.explain` count from 1. Where a
            round has several random trees, these are counted one after the other.
        levels: how many levels of questions are shown; all by default.
        class_: the class whose score the leaves add to, for a model of several classes.
        ax: the panel; a new figure by default.

    Raises:
        ValueError: for a model without trees, such as one of halfspaces, and as `explain`. Also for
            a tree that the model does not have, and for more than 64 leaves.
        ImportError: without matplotlib.
    """
    known = domain_of(model, domain)
    heap, name = heap_of(model, known), model.about.name
    if heap is None:
        own = model.about.kind.name or "of your own"
        raise ValueError(f"the hypotheses of {name} are {own}, and no trees to draw")
    check_words(model, known)
    answer, count = _answer_of(model, class_), len(heap.leaf)
    if not isinstance(round, int | np.integer) or not 0 <= round < count:
        raise ValueError(f"the model has trees 0..{count - 1}, got round={shown(round)}")
    if levels is not None:
        whole("levels", levels)

    states_shares = model.about.kind.shares is not None
    if not states_shares:
        leaf = heap.leaf if answer.number is None else heap.leaf[..., answer.number]
        heap = heap._replace(leaf=leaf * answer.scale)
    at_left = model.about.kind.name == "oblivious trees"
    asked = questions_of_tree(heap, round) if at_left else None
    spots = layout(branch_of(heap, known, round), levels, asked)
    ax = panel(ax, size_of(spots, at_left))
    draw(ax, spots, 0.5 if states_shares else 0.0, at_left)
    says = f"what it adds to the {answer.words}"
    if states_shares:
        says = "share of the positive class"
    words = f"tree {round + 1} of {count} of {name}"
    ax.set_title(f"{words}\nsolid: yes, dashed: no; a leaf: {says}", fontsize=9)
    return ax
