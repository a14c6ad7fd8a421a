"""The picture of one tree: where its nodes lie, and how they are drawn."""

from __future__ import annotations  # the types of matplotlib are only named

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dpbt.analysis.style import diverging
from dpbt.data.domains import Predicate
from dpbt.learners.hypotheses.words import DIGITS, Branch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_LEAVES = 64
"""The most leaves that one picture has room for."""

_WIDTH, _LINES = 16, 4
"""The most characters of a line of a question, and the most lines."""

_MANY = 8
"""Letters are small where there are more leaves."""

_SMALL, _TINY = 8, 6.5
"""Sizes of letters."""


class Spot(NamedTuple):
    """A node of a picture.

    Attributes:
        x: the place from left to right; leaves are at 0, 1, 2, ...
        level: of the picture, from 0 at the top.
        words: what the node asks, or what the leaf says.
        value: of a leaf; None for an inner node, and for branches that are cut off.
        parent: the number of the spot above; -1 at the root.
        yes: whether it is the branch of rows that satisfy the question above.
        column: the column that the node asks about; None for a leaf.
    """

    x: float
    level: int
    words: str
    value: float | None
    parent: int
    yes: bool
    column: str | None


def layout(
    tree: Branch, levels: int | None = None, asked: Sequence[Predicate] | None = None
) -> list[Spot]:
    """The spots of a tree, each after its parent; rows that satisfy a question go right.

    Args:
        tree: as `words.branch_of` gives it.
        levels: how many levels of questions are shown; None for all. What is below is one spot that
            says how many leaves it stands for.
        asked: the questions of the levels, where all nodes of a level ask the same. Nodes are then
            on the level of their question, and all leaves at the bottom.

    Raises:
        ValueError: if more than 64 leaves would be shown.
    """
    level_of = {predicate: level for level, predicate in reversed(list(enumerate(asked or ())))}
    bottom = None if asked is None else min(len(asked), len(asked) if levels is None else levels)
    spots: list[Spot] = []

    def place(branch: Branch, above: int, parent: int, yes: bool, first: int) -> tuple[float, int]:
        """Add the spots of a branch; its x, and the place of the leaf after its last one."""
        level = level_of.get(branch[0], above) if isinstance(branch, tuple) else above
        if not isinstance(branch, tuple) or (levels is not None and level >= levels):
            value = None if isinstance(branch, tuple) else branch
            count = leaves_of(branch)
            words = f"{count} leaves" if value is None else f"{value:+.{DIGITS}f}"
            at = above if bottom is None else bottom
            spots.append(Spot(float(first), at, words, value, parent, yes, None))
            return float(first), first + 1

        predicate, satisfied, others = branch
        number = len(spots)
        spots.append(Spot(0.0, level, wrapped(predicate), None, parent, yes, predicate.column))
        left, middle = place(others, level + 1, number, False, first)
        right, end = place(satisfied, level + 1, number, True, middle)
        spots[number] = spots[number]._replace(x=(left + right) / 2)
        return spots[number].x, end

    place(tree, 0, -1, False, 0)
    shown = sum(spot.column is None for spot in spots)
    if shown > MAX_LEAVES:
        raise ValueError(
            f"the tree has {shown} leaves, and a picture has room for {MAX_LEAVES}: show fewer "
            "levels, by levels=, or its words, by dpbt.explain"
        )
    return spots


def leaves_of(branch: Branch) -> int:
    """How many leaves a branch has."""
    return leaves_of(branch[1]) + leaves_of(branch[2]) if isinstance(branch, tuple) else 1


def wrapped(predicate: Predicate) -> str:
    """A question in lines of about 16 characters; after the fourth line it ends in "..."."""
    lines = textwrap.wrap(predicate.yes, _WIDTH)
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 1], "..."]
    return "\n".join(lines)


def size_of(spots: list[Spot], at_left: bool) -> tuple[float, float]:
    """The size of a figure, in inches; `at_left` as in `draw`."""
    leaves, levels = _ends(spots), max(spot.level for spot in spots)
    each = 0.2 if at_left and leaves > _MANY else 1.0
    return max(6.5, 1.5 + each * leaves), 1.4 + (0.7 if at_left else 0.95) * levels


def draw(ax: Axes, spots: list[Spot], middle: float, at_left: bool) -> None:
    """Draw lines, questions and leaves.

    Args:
        ax: the panel.
        spots: as `layout` gives them.
        middle: the value of a leaf that has no colour. Below it leaves are orange, and above it
            purple.
        at_left: whether the question of a level stands at its left, once.
    """
    for spot in spots:
        if spot.parent >= 0:
            above = spots[spot.parent]
            line: dict[str, Any] = {"color": "0.35", "linewidth": 1.1, "zorder": 1}
            dash = "-" if spot.yes else (0, (3, 2))
            ax.plot([above.x, spot.x], [-above.level, -spot.level], linestyle=dash, **line)
    _leaves(ax, spots, middle, at_left)
    leaves, bottom = _ends(spots), -max(spot.level for spot in spots)
    letters: dict[str, Any] = {"va": "center", "fontsize": _SMALL}
    if at_left:
        asked = {spot.level: spot for spot in spots if spot.column is not None}
        for level, spot in asked.items():
            ax.text(-0.5 - 0.02 * leaves, -level, spot.words, ha="right", **letters)
    box = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": "0.35"}
    for spot in spots:
        if spot.column is not None and at_left:
            ax.plot(spot.x, -spot.level, "o", color="0.35", markersize=4, zorder=2)
        elif spot.column is not None:
            ax.text(spot.x, -spot.level, spot.words, ha="center", bbox=box, **letters)
    ax.set(xlim=(-0.6, leaves - 0.4), ylim=(bottom - 0.6, 0.5))
    ax.axis("off")


def _ends(spots: list[Spot]) -> int:
    return sum(spot.column is None for spot in spots)


def _leaves(ax: Axes, spots: list[Spot], middle: float, at_left: bool) -> None:
    """Draw the leaves, coloured by how far they are from the middle."""
    ends = [spot for spot in spots if spot.column is None]
    far = [abs(spot.value - middle) for spot in ends if spot.value is not None]
    reach, colours = max(far, default=0.0) or 1.0, diverging()
    letters: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": _SMALL}
    if len(ends) > _MANY:
        letters["fontsize"] = _TINY
        if at_left:
            letters |= {"rotation": 90, "va": "top"}
    for spot in ends:
        part = 0.5 if spot.value is None else 0.5 + 0.3 * (spot.value - middle) / reach
        words = spot.words if middle == 0 else spot.words.lstrip("+")
        box = {"boxstyle": "round,pad=0.25", "facecolor": colours(part), "edgecolor": "0.35"}
        ax.text(spot.x, -spot.level, words, bbox=box, **letters)
