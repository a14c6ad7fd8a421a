"""Declared targets and weights: what is predicted of a row, and how much the row may count.

Two classes are declared by their words, several classes by `domains.Nominal`, and a number in a
range by `domains.Numeric`. A label and a weight are read by themselves, as cells of such a column
are. None is an error.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Self

import msgspec
import numpy as np

from dpbt.common.arithmetic import Array, namespace
from dpbt.common.public import BINARY, Response
from dpbt.common.validate import positive, shown
from dpbt.data import cells
from dpbt.data.cells import ColumnCells, RawColumn, cells_of, read_numbers
from dpbt.data.kinds import Boolean, Nominal, Numeric, Real, Word

Target = Nominal | Numeric
"""The declared classes, or the declared range of a number."""


def check(target: object) -> Target:
    """`target`, if it declares several classes or a range.

    Raises:
        ValueError: naming what was given, or the option of a range that a target does not have.
    """
    if isinstance(target, Numeric):
        if target.cuts is not None or target.scale != "linear" or target.missing:
            raise ValueError(
                "a target in a range has low and high alone: no cuts, no log scale and no cell for "
                "missing numbers; a row without a number is absent"
            )
        return target
    if isinstance(target, Nominal):
        if len(target.names) < 2:
            raise ValueError(f"a target needs two classes or more, got {shown(list(target.names))}")
        return target
    raise ValueError(
        "target must be domains.Nominal(classes), domains.Numeric(low, high), or None for two "
        f"classes, got {shown(target)}"
    )


def response_of(target: Target | None) -> Response:
    """What is predicted; None stands for two classes.

    Raises:
        ValueError: as `check`.
    """
    return BINARY if target is None else check(target).response


def fingerprint(target: Target) -> np.ndarray:
    """u32[2]: tells declared classes, in their order, and declared ranges apart."""
    if isinstance(target, Numeric):
        words = repr((float(target.low), float(target.high)))
    else:
        words = repr((target.values, target.other))
    return np.frombuffer(hashlib.sha256(words.encode()).digest()[:8], np.uint32)


def in_units(target: Numeric, position: Array) -> Array:
    """f64[...]: predicted positions in units of the target, clipped to its range; f32 with JAX."""
    low, high, xp = float(target.low), float(target.high), namespace(position)
    exact = position.astype(np.float64) if xp is np else position
    return xp.clip(low + (high - low) * xp.clip(exact, 0.0, 1.0), low, high)


class WeightColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of weights of rows, and the public bound on them."""

    column: str
    most: Real

    def __post_init__(self):
        msgspec.structs.force_setattr(self, "most", _positive("max_weight", self.most))


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The label's column, and what it may hold: two classes, several classes, or a number.

    Two classes have `positive` and `negative`, words that are kept as `cells.declared` reads them.
    Several classes and numbers have a `target`.

    Attributes:
        column: the name of the column.
        positive: the word of the positive class.
        negative: the word of the negative class.
        target: `domains.Nominal` of two classes or more, or `domains.Numeric(low, high)`.
        weight: the column of weights of rows, if there is one.

    Raises:
        ValueError: if the two words are read alike, or the column's name is no text. Also for a
            target that is not as described, or beside two classes, and for a bound on weights that
            is not positive and finite.
    """

    column: str
    positive: Word | None = None
    negative: Word | None = None
    target: Nominal | Numeric | None = None
    weight: WeightColumn | None = None

    def __post_init__(self):
        if not all(isinstance(name, str) for name in self.columns):
            raise ValueError(f"Label: column must be a name, got {shown(list(self.columns))}")
        if len(set(self.columns)) < len(self.columns):
            raise ValueError(f"Label: {self.column!r} must not hold both labels and weights")
        if self.target is not None:
            check(self.target)
            if self.positive is not None or self.negative is not None:
                raise ValueError("give target, or negative and positive, and not both")
            return
        kind = two_classes(self.negative, self.positive)
        for name, word in (("positive", kind.true), ("negative", kind.false)):
            msgspec.structs.force_setattr(self, name, word)

    @classmethod
    def of(cls, negative: Any, positive: Any, target: Target | None, max_weight: Any) -> Self:
        """A label of two columns without a name; arguments as `dpbt.table` has them.

        Raises:
            ValueError: as `dpbt.table`.
        """
        weight = None if max_weight is None else WeightColumn("sample_weight", max_weight)
        if target is not None and negative is False and positive is True:
            negative = positive = None  # they were not given
        words: Any = {"positive": positive, "negative": negative}
        return cls("labels", target=target, weight=weight, **words)

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The words of the classes in the order of scores, of two the negative first; or None."""
        if self.target is None:
            return self.negative, self.positive
        return self.target.names if isinstance(self.target, Nominal) else None

    @property
    def options(self) -> dict[str, Any]:
        """What `dpbt.table` is told of the labels, and of the bound on weights."""
        found: dict[str, Any] = {"target": self.target}
        if self.target is None:
            found = {"negative": self.negative, "positive": self.positive}
        return found if self.weight is None else {**found, "max_weight": self.weight.most}

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns beside the attributes: the label's, and that of weights."""
        return (self.column,) if self.weight is None else (self.column, self.weight.column)

    def read(
        self,
        labels: RawColumn,
        sample_weight: RawColumn | None,
        rows: int,
        class_weight: Mapping[Any, float] | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """(target, present, weight) of each row, by itself, as `Table` has them.

        - The class of a label is its number in `Nominal.names`. A label that is not listed is of
          the class `Nominal.other`, or else absent.
        - A number is clipped to the range, and its target is its position in it, from 0 to 1. A
          label that is no number is absent.
        - Weights are in units of the largest, and None if all weigh the same.

        What is absent has a target of 0.

        Raises:
            ValueError: for what is no column or has another length, for weights without a public
                bound, and for weights of classes that are not as described. No cell is shown.
        """
        of_class = None if class_weight is None else _of_classes(self.classes, class_weight)
        target, present = self._targets(_column("labels", labels, rows))
        if sample_weight is None and of_class is None:
            return target, present, None
        weight = np.ones(rows)
        with np.errstate(all="ignore"):  # a warning would say that some row has a tiny weight
            if sample_weight is not None:
                if self.weight is None:
                    raise ValueError(
                        "sample_weight needs max_weight, a public bound on the weight of a row, "
                        "which is never read off the weights; larger ones are clipped to it"
                    )
                given = np.nan_to_num(read_numbers(_column("sample_weight", sample_weight, rows)))
                weight = np.clip(given, 0.0, self.weight.most) / self.weight.most
            if of_class is not None:
                weight = weight * of_class[target.astype(np.int64)]
            return target, present, weight.astype(np.float32)

    def _targets(self, labels: ColumnCells) -> tuple[np.ndarray, np.ndarray]:
        """(target, present) of each row."""
        match self.target:
            case Numeric():
                position, missing = self.target.position(labels)
                return position, ~missing
            case Nominal():
                bin, _ = self.target.read(labels)
                present = bin < len(self.target.names)
                return np.where(present, bin, np.uint8(0)), present
        bin, missing = two_classes(self.negative, self.positive).read(labels)
        return bin == 1, ~missing


def two_classes(negative: object, positive: object) -> Boolean:
    """How labels of two classes are read.

    Raises:
        ValueError: if one is no word, if they are read alike, if only one is a Boolean (the other
            was not declared), or if they are exchanged Booleans.
    """
    booleans = [isinstance(value, bool | np.bool_) for value in (negative, positive)]
    if booleans[0] != booleans[1]:
        raise ValueError(
            "negative and positive must be declared together, "
            f"got negative={shown(negative)} and positive={shown(positive)}"
        )
    if all(booleans) and negative and not positive:
        raise ValueError(
            "negative and positive must be False and True for Boolean labels, got True and False; "
            "negate the labels to exchange the classes"
        )
    return Boolean(cells.declared(positive, "positive"), cells.declared(negative, "negative"))


def _of_classes(names: tuple[Any, ...] | None, class_weight: Mapping[Any, float]) -> np.ndarray:
    """f64[K]: the weights of classes in units of the largest.

    Raises:
        ValueError: unless each class has a positive and finite weight.
    """
    if names is None or not isinstance(class_weight, Mapping):
        raise ValueError(
            "class_weight must map each class to its public weight, got "
            f"{shown(class_weight)}; it is not read off the labels, as their counts are private"
        )
    given = {cells.declared(name, "class_weight: a class"): w for name, w in class_weight.items()}
    if set(given) != set(names):
        raise ValueError(f"class_weight must have a weight for each of {names}, got {list(given)}")
    found = np.array([_positive(f"class_weight of {word!r}", given[word]) for word in names])
    shares = found / found.max()
    if not np.all(shares.astype(np.float32) > 0):
        raise ValueError(f"class_weight must not differ beyond float32, got {shown(dict(given))}")
    return shares


def _positive(name: str, value: Any) -> float:
    """One positive finite number; ValueError naming it for anything else."""
    if np.ndim(value) > 0:
        raise ValueError(f"{name} must be one number, got {shown(value)}")
    return float(positive(name, value, finite=True))


def _column(name: str, values: RawColumn, rows: int) -> ColumnCells:
    """The cells of labels or of weights; ValueError for no column, or another length."""
    read = cells_of(values, f"{name}: ")
    if len(read) != rows:
        raise ValueError(f"{name} must have the same length as the columns")
    return read
