"""Weights of rows: public bounds, and one row's weight by itself."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpbt.data import cells
from dpbt.data.columns import RawColumn, cells_of, read_numbers
from dpbt.data.kinds import Nominal, Numeric
from dpbt.data.targets import Target
from dpbt.validate import shown


class Weights(NamedTuple):
    """What is public about the weights of rows.

    Attributes:
        most: the largest weight that `sample_weight` may have; None if none was declared.
        of_class: the weight of each class in units of the largest; None if all weigh the same.
    """

    most: float | None
    of_class: np.ndarray | None

    @classmethod
    def declared(
        cls,
        target: Target | None,
        pair: tuple[Any, Any],
        most_weight: float | None,
        class_weight: Mapping[Any, float] | None,
    ) -> Weights:
        """The public weights, checked.

        Args:
            target: the declared classes or range; None for two classes.
            pair: the words of the negative and of the positive class, if there are two.
            most_weight: the bound on `sample_weight`.
            class_weight: class -> weight, for every class.

        Raises:
            ValueError: for a number that is not positive and finite, for weights of classes where
                a number is predicted, and for a class without a weight.
        """
        if most_weight is not None:
            _check_positive("most_weight", most_weight)
            most_weight = float(most_weight)
        if class_weight is None:
            return cls(most_weight, None)
        if isinstance(target, Numeric):
            raise ValueError("class_weight needs classes, and the target is a number")
        names = target.names if isinstance(target, Nominal) else pair
        return cls(most_weight, _of_classes(names, class_weight))

    def of_rows(self, sample_weight: RawColumn | None, label: np.ndarray) -> np.ndarray | None:
        """f32[N]: the weight of each row in units of the largest; None if all weigh the same.

        Args:
            sample_weight: N weights, or None.
            label: N labels, as `Table.target`.

        Raises:
            ValueError: if `sample_weight` is given without a public bound, is no column, or has
                another length. No cell is shown.
        """
        if sample_weight is None and self.of_class is None:
            return None
        weight = np.ones(len(label))
        if sample_weight is not None:
            if self.most is None:
                raise ValueError(
                    "sample_weight needs most_weight, a public bound on the weight of a row, as in "
                    "most_weight=3; larger weights are clipped to it, and it is never read off them"
                )
            try:
                read = read_numbers(cells_of(sample_weight))
            except ValueError as error:
                raise ValueError(f"sample_weight: {error}") from None
            if len(read) != len(label):
                raise ValueError("sample_weight must have the same length as the columns")
            with np.errstate(all="ignore"):  # a warning would say that some row has a tiny weight
                weight = np.clip(np.nan_to_num(read, nan=0.0), 0.0, self.most) / self.most
        with np.errstate(all="ignore"):
            if self.of_class is not None:
                weight = weight * self.of_class[label.astype(np.int64)]
            return weight.astype(np.float32)


def _of_classes(names: Sequence[Any], class_weight: Mapping[Any, float]) -> np.ndarray:
    """f64[K]: the weights of classes in units of the largest.

    Raises:
        ValueError: as `Weights.declared`.
    """
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            "class_weight must map each class to its public weight, got "
            f"{shown(class_weight)}; it is not read off the labels, as their counts are private"
        )
    given = {cells.declared(name, "class_weight: a class"): w for name, w in class_weight.items()}
    words = [cells.declared(name, "a class") for name in names]
    if set(given) != set(words):
        raise ValueError(f"class_weight must have a weight for each of {words}, got {list(given)}")
    for word, weight in given.items():
        _check_positive(f"class_weight of {word!r}", weight)
    found = np.array([float(given[word]) for word in words])
    shares = found / found.max()
    if not np.all(shares.astype(np.float32) > 0):
        raise ValueError(f"class_weight must not differ beyond float32, got {shown(dict(given))}")
    return shares


def _check_positive(name: str, value: object) -> None:
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    try:
        good = number and 0 < float(value) < math.inf  # type: ignore[arg-type]
    except OverflowError:
        good = False
    if not good:
        raise ValueError(f"{name} must be a positive finite number, got {shown(value)}")
