"""What an estimator is told of its rows: the domain, how columns are found, and the labels.

All of it is public. Of the rows only the form is read: names and number of columns, and the dtype
of labels.
"""

import numbers
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from dpbt.common.validate import shown
from dpbt.data import domains, kinds
from dpbt.data.domains import Columns, Domain, Label
from dpbt.data.frames import Rows
from dpbt.data.kinds import Nominal, Numeric
from dpbt.data.targets import Target


def declared(domain: Any) -> tuple[Domain | kinds.Column, Label | None]:
    """The declared columns, or the one kind of all columns; and the label of a file.

    Raises:
        ValueError: for nothing or something else, saying how to write a domain.
    """
    if isinstance(domain, str | os.PathLike):
        return domains.read_domain(Path(domain))
    if isinstance(domain, kinds.Column):
        return domain, None
    if domain is None or not isinstance(domain, Mapping):
        got = "nothing" if domain is None else type(domain).__name__
        raise ValueError(
            f"domain must declare what each column may hold, got {got}: a dict such as "
            "{'age': dpbt.domains.Numeric(0, 100)}, one such kind for all columns, or the path of "
            "a JSON file; dpbt.domains.template(names) writes one to fill in. Write it from what "
            "the columns mean, and never read it off the rows"
        )
    domains.check(domain)
    return domain, None


class Reading(NamedTuple):
    """How rows are read: in which order without names, and whether names are known.

    Attributes:
        domain: the public domain.
        names: for each column of X, in order, its name in the domain, or another name.
        named: whether the columns of a frame are found by these names.
    """

    domain: Domain
    names: tuple
    named: bool

    @classmethod
    def of(cls, domain: Domain | kinds.Column, given: Rows) -> Self:
        """How the rows of a fit are read.

        Raises:
            ValueError: for an array that has not one column for each of the domain.
        """
        if not isinstance(domain, Mapping):
            named = given.names is not None and all(isinstance(name, str) for name in given.names)
            names = given.names if named else tuple(f"x{j}" for j in range(given.width))
            assert names is not None
            return cls({str(name): domain for name in names}, names, named)
        names = tuple(domain) if given.names is None else given.names
        if given.width != len(names):
            raise ValueError(
                f"X has {given.width} columns, and the domain declares {len(names)}; without names "
                "they are read in the order of the domain, so give one for each, or a data frame"
            )
        return cls(dict(domain), names, True)

    def columns(self, given: Rows) -> Columns:
        """The columns of rows that the domain names; those that are not there are left out."""
        names = self.names if given.names is None or not self.named else given.names
        place = {name: number for number, name in enumerate(names)}
        return {name: given.column(place[name]) for name in self.domain if name in place}


class Answers(NamedTuple):
    """What is predicted.

    Attributes:
        classes: the classes in order; None for a number.
        target: the declared classes or range; None for two classes.
    """

    classes: np.ndarray | None
    target: Target | None

    @property
    def options(self) -> dict[str, Any]:
        """What `dpbt.table` is told of the labels."""
        if self.target is not None:
            return {"target": self.target}
        assert self.classes is not None
        negative, positive = self.classes.tolist()
        return {"negative": negative, "positive": positive}


def answers_of(given: Any, label: Label | None, labels: Any) -> Answers:
    """The classes in order: as stated, as a file states them, or False and True where y is Boolean.

    Of y only its dtype is read, which is public. Whole numbers are no declaration: three classes
    would be read as two, and the rows of the third as absent.

    Raises:
        ValueError: if they are not stated, or are not labels of one kind, or are words where y
            holds numbers. Also for a file that declares a number.
    """
    if given is None and label is not None and isinstance(label.target, Numeric):
        raise ValueError(
            f"the domain's file declares the label {label.column!r} as a number, and a classifier "
            "needs classes; PrivateBoostingRegressor learns numbers"
        )
    classes = _classes_of(given, label, labels)
    if len(classes) == 2:
        return Answers(classes, None)
    target = None if given is not None or label is None else label.target
    other = target.other if isinstance(target, Nominal) else None
    return Answers(classes, Nominal(tuple(classes.tolist()), other))


def range_of(given: Any, label: Label | None) -> Numeric:
    """The range of a number: as stated, or as a file states it.

    Raises:
        ValueError: if it is not stated, or is no pair of finite numbers in order.
    """
    if given is None and label is not None and isinstance(label.target, Numeric):
        return label.target
    if given is None:
        raise ValueError(
            "target_range must be stated: the public (low, high) of the number in its units, as in "
            "target_range=(0, 30); it is never read off y"
        )
    pair = list(given) if isinstance(given, list | tuple | np.ndarray) else []
    if len(pair) != 2:
        raise ValueError(f"target_range must be (low, high), got {shown(given)}")
    try:
        return Numeric(*pair)
    except ValueError as error:
        raise ValueError(f"target_range must be (low, high): {error}") from None


def _classes_of(given: Any, label: Label | None, labels: Any) -> np.ndarray:
    """The classes in order.

    Raises:
        ValueError: as `answers_of`.
    """
    kind = getattr(getattr(labels, "dtype", None), "kind", None)
    if given is None and kind == "b":
        return np.array([False, True])
    numeric = kind in ("i", "u", "f")
    if given is None and label is not None and label.classes is not None:
        words = list(label.classes)
        given = _as_numbers(words) if numeric else words
    if given is not None:
        classes = _distinct(given)
        if numeric and classes.dtype.kind == "U" and _as_numbers(classes.tolist()) == list(classes):
            raise ValueError(
                f"classes are words and y holds numbers, so no row would count; got "
                f"classes={shown(classes)}. An ensemble that encodes labels needs classes=(0, 1)"
            )
        return classes
    got = "numbers" if numeric else "no dtype" if kind is None else "text or objects"
    raise ValueError(
        "classes must state all labels, as in classes=(0, 1) or classes=('no', 'yes'), where y has "
        f"{got}: they are not read off y, because which labels occur is private. A row with "
        "another label is absent"
    )


def _distinct(given: Any) -> np.ndarray:
    """Two distinct classes or more, in order.

    Raises:
        ValueError: for anything else.
    """
    listed = list(given) if isinstance(given, list | tuple | np.ndarray) else []
    for kind in (bool | np.bool_, numbers.Real, str):
        alike = all(isinstance(one, kind) for one in listed)
        if len(listed) > 1 and alike and len(set(listed)) == len(listed):
            return np.array(sorted(listed))
    raise ValueError(
        "classes must be two or more distinct Booleans, numbers or texts, as in "
        f"classes=('no', 'yes'), got {shown(given)}"
    )


def _as_numbers(words: list[str]) -> list:
    """Words as numbers where all are numbers; y has numbers."""
    try:
        values = [float(word) for word in words]
    except ValueError:
        return words
    whole = all(value.is_integer() for value in values)
    return [int(value) for value in values] if whole else values
