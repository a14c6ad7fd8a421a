"""What a file of rows is labelled with: the column, its classes or its range, and weights."""

import dataclasses
import math
from typing import Any, NamedTuple

from dpbt.data import cells, targets
from dpbt.data.kinds import Boolean, Column, Nominal, Numeric
from dpbt.data.targets import Target
from dpbt.validate import shown


class WeightColumn(NamedTuple):
    """A column of weights of rows, and the public bound on them."""

    column: str
    most: float


@dataclasses.dataclass(frozen=True)
class Label:
    """The label's column, and what it may hold: two classes, several classes, or a number.

    Two classes have `positive` and `negative`, words that are kept as `cells.declared` reads them.
    Several classes and numbers have a `target`.

    Attributes:
        column: the name of the column.
        positive: the word of the positive class.
        negative: the word of the negative class.
        target: `domains.Nominal` of three classes or more without groups, or
            `domains.Numeric(low, high)`.
        weight: the column of weights of rows, if there is one.

    Raises:
        ValueError: if the two words are read alike, or the column's name is no text. Also for a
            target that is not as described, or beside two classes, and for a bound on weights that
            is not positive and finite.
    """

    column: str
    positive: str | None = None
    negative: str | None = None
    target: Target | None = None
    weight: WeightColumn | None = None

    def __post_init__(self):
        if not isinstance(self.column, str):
            raise ValueError(f"Label: column must be a name, got {self.column!r}")
        if self.weight is not None:
            _check_weight(*self.weight, self.column)
        if self.target is not None:
            self._check_target()
            return
        for name in ("positive", "negative"):
            word = cells.declared(getattr(self, name), f"Label: {name}")
            object.__setattr__(self, name, word)
        if self.positive == self.negative:
            raise ValueError(f"Label: the two classes must differ, got {self.positive!r} twice")

    def _check_target(self) -> None:
        """Check the declaration of several classes or of a number.

        Raises:
            ValueError: as the class.
        """
        if self.positive is not None or self.negative is not None:
            raise ValueError("Label: give positive and negative, or target, and not both")
        target = targets.check(self.target)
        if isinstance(target, Nominal) and target.groups:
            raise ValueError("Label: classes have no groups; list every class in values")
        if isinstance(target, Nominal) and len(target.names) < 3:
            raise ValueError("Label: two classes are declared by positive and negative")

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The words of the classes in the order of scores, of two the negative first; or None."""
        if self.target is None:
            assert self.negative is not None
            assert self.positive is not None
            return self.negative, self.positive
        return self.target.names if isinstance(self.target, Nominal) else None

    @property
    def options(self) -> dict[str, Any]:
        """What `dpbt.table` is told of the labels."""
        if self.target is None:
            return {"negative": self.negative, "positive": self.positive}
        return {"target": self.target}

    @property
    def kinds(self) -> dict[str, Column]:
        """How the columns of the label and of weights are read, as attributes would be."""
        kinds: dict[str, Column] = {}
        if self.target is None:
            assert self.negative is not None
            assert self.positive is not None
            kinds[self.column] = Boolean(self.positive, self.negative)
        else:
            kinds[self.column] = self.target
        if self.weight is not None:
            kinds[self.weight.column] = Numeric(0.0, min(float(self.weight.most), 1e300))
        return kinds

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns beside the attributes: the label's, and that of weights."""
        return (self.column,) if self.weight is None else (self.column, self.weight.column)


def _check_weight(column: object, most: object, label: str) -> None:
    """Check the column of weights.

    Raises:
        ValueError: as `Label`.
    """
    if not isinstance(column, str):
        raise ValueError(f"Label: the column of weights must be a name, got {column!r}")
    if column == label:
        raise ValueError(f"Label: the column {column!r} must not hold both labels and weights")
    if not isinstance(most, int | float) or isinstance(most, bool) or not 0 < most < math.inf:
        raise ValueError(
            f"Label: the most that a row weighs must be positive and finite, got {shown(most)}"
        )
