"""What an estimator is given: rows in any container, the domain, and what its labels are.

All that is declared is public. Of the rows only the form is read for it: names and number of
columns, and the dtype of labels. No container is converted as a whole, because one odd cell would
then change how others are read.
"""

import dataclasses
import itertools
import numbers
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from dpbt.common.validate import show_value
from dpbt.data import domains, kinds
from dpbt.data.cells import RawColumn, eager_advice, is_sequence, tried
from dpbt.data.domains import Columns, Domain, Label, Names, names_of
from dpbt.data.kinds import Nominal, Numeric, Target


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Rows by columns. The cells and the number of rows are private.

    Attributes:
        count: N, the number of rows.
        width: F, the number of columns.
        names: the names of a data frame's columns; None for an array or a list.
        column: the cells of column j in 0..F - 1.
    """

    count: int
    width: int
    names: Names | None
    column: Callable[[int], RawColumn]


def rows_of(data: Any, width: int | None = None) -> Rows:
    """The rows of a data frame (pandas, polars, Arrow), an array N x F, or a list of N rows.

    A row of a list is a sequence of cells, read in its order. With a public `width`, a row of
    another width is a row without any value, as a malformed line of a file is. So is what is no
    sequence, and a row that raises an error.

    Args:
        data: the rows.
        width: the declared number of columns, if there is one. It is read for lists only.

    Raises:
        TypeError: for a sparse matrix.
        ValueError: for something else, or an array that does not have two axes. Also for a frame
            that has two columns of one name. Also for a list without a declared width whose rows
            differ in theirs, or that is empty. No cell and no length is shown.
    """
    if hasattr(data, "tocsr"):
        raise TypeError("X must be dense, got a sparse matrix; X.toarray() gives a dense one")
    names = names_of(data)
    if names is not None:
        if twins := sorted({str(name) for name in names if names.count(name) > 1}):
            raise ValueError(f"the columns of X must have distinct names, and {twins} repeat")
        return Rows(len(data), len(names), names, lambda j: data[names[j]])
    if not hasattr(data, "__array__"):  # NumPy would show how many cells a list has
        if not is_sequence(data):
            if advice := eager_advice(data):
                raise ValueError(
                    f"X must be a data frame or rows, got {type(data).__name__}{advice}"
                )
            raise ValueError(_not_rows(type(data).__name__))
        rows = [tried(_cells, row) for row in list(data)]
        widths = {None if row is None else len(row) for row in rows}
        if width is None and (len(widths) != 1 or None in widths):
            raise ValueError(
                _not_rows("a list of what are no rows of one width")
                + "; declare the domain as a dict of columns, and other rows have no values"
            )
        size: Any = widths.pop() if width is None else width
        filled = [row if row and len(row) == size else [None] * size for row in rows]
        return Rows(len(rows), size, None, lambda j: [row[j] for row in filled])

    array = data if isinstance(data, np.ma.MaskedArray) else np.asarray(data)
    if array.ndim != 2:
        raise ValueError(_not_rows(f"a {array.ndim}D array of {type(data).__name__}"))
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: X must hold real numbers, text or objects")
    return Rows(len(array), array.shape[1], None, lambda j: array[:, j])


def _not_rows(got: str) -> str:
    return (
        f"Expected 2D array or a data frame of rows, got {got} instead. Reshape your data: "
        "X.reshape(-1, 1) has one column, X.reshape(1, -1) has one row"
    )


def _cells(row: Any) -> list | None:
    """The cells of a row in their order, whatever its labels; None for what is no row."""
    if not (row.ndim == 1 if isinstance(row, np.ndarray) else is_sequence(row)):
        return None
    cells = list(itertools.islice(row, len(row) + 1))  # its length may be a lie
    return cells if len(cells) == len(row) else None


def declared(domain: Any, names: Names | None = None) -> tuple[Domain | kinds.Column, Label | None]:
    """The declared columns, or the one kind of all columns; and the label of a file.

    Args:
        domain: as an estimator is given it.
        names: those of a data frame, which patterns of a file may cover.

    Raises:
        ValueError: for nothing or something else, saying how to write a domain.
    """
    if isinstance(domain, str | os.PathLike):
        return domains.read_domain(Path(domain), names)
    if isinstance(domain, kinds.Column):
        return domain, None
    if not isinstance(domain, Mapping):
        raise ValueError(
            f"domain must declare what each column may hold, got {type(domain).__name__}: a dict "
            "such as {'age': dpbt.domains.Numeric(0, 100)}, one such kind for all columns, or the "
            "path of a JSON file, as dpbt.domains.template(names) writes one to fill in from what "
            "the columns mean; never read it off the rows"
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
            ValueError: for an array that has not one column for each of the domain, and for a frame
                whose columns a ColumnTransformer renamed.
        """
        if not isinstance(domain, Mapping):
            named = given.names is not None and all(isinstance(name, str) for name in given.names)
            names = given.names if named else tuple(f"x{j}" for j in range(given.width))
            assert names is not None
            return cls({str(name): domain for name in names}, names, named)
        names = tuple(domain) if given.names is None else given.names
        told = {name: str(name).partition("__")[2] for name in names if name not in domain}
        told = {name: rest for name, rest in told.items() if rest in domain and rest not in names}
        if told:  # these hold declared names, so they are no cells of a file without a header
            raise ValueError(
                f"the domain declares {list(told.values())}, and X has them as {list(told)}: a "
                "ColumnTransformer puts its parts' names before, unless it is made with "
                "verbose_feature_names_out=False"
            )
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
        if self.classes is None or self.target is not None:
            return {"target": self.target}
        return dict(zip(("negative", "positive"), self.classes.tolist(), strict=True))


def answers_of(given: Any, label: Label | None, labels: Any) -> Answers:
    """The classes in order: as stated, as a file states them, or False and True where y is Boolean.

    Of y only its dtype is read, which is public. Whole numbers are no declaration: three classes
    would be read as two, and the rows of the third as absent.

    Raises:
        ValueError: if they are not stated, or are not labels of one kind, or are words where y
            holds numbers. Also for a file that declares a number.
    """
    if label is not None and isinstance(label.target, Numeric) and given is None:
        raise ValueError(
            f"the domain's file declares the label {label.column!r} as a number, and a classifier "
            "needs classes; PrivateBoostingRegressor learns numbers"
        )
    kind = getattr(getattr(labels, "dtype", None), "kind", None)
    numeric, other = kind in ("i", "u", "f"), None
    if given is None and kind == "b":
        return Answers(np.array([False, True]), None)
    if given is None and label is not None and label.classes is not None:
        words = list(label.classes)
        given = _as_numbers(words) if numeric else words
        other = label.target.other if isinstance(label.target, Nominal) else None

    listed = list(given) if isinstance(given, list | tuple | np.ndarray) else []
    alike = any(all(isinstance(one, kind) for one in listed) for kind in _KINDS_OF_CLASSES)
    if len(listed) < 2 or not alike or len(set(listed)) < len(listed):
        got = (
            "" if given is None else f"; they are two or more of one kind, got {show_value(given)}"
        )
        raise ValueError(
            "classes must state all labels, such as classes=('no', 'yes'); they are not read off "
            f"y, as which of them occur is private{got}"
        )
    classes = np.array(sorted(listed))
    if numeric and classes.dtype.kind == "U" and _as_numbers(classes.tolist()) == list(classes):
        raise ValueError(
            f"classes are words and y holds numbers, so no row would count; got "
            f"classes={show_value(classes)}. An ensemble that encodes labels needs classes=(0, 1)"
        )
    target = Nominal(tuple(classes.tolist()), other) if len(classes) > 2 else None
    return Answers(classes, target)


def range_of(given: Any, label: Label | None) -> Numeric:
    """The range of a number: as stated, or as a file states it.

    Raises:
        ValueError: if it is not stated, or is no pair of finite numbers in order.
    """
    if given is None and label is not None and isinstance(label.target, Numeric):
        return label.target
    asked: Any = given
    try:
        low, high = asked
        return Numeric(low, high)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "target_range must be stated: the public (low, high) of the number in its units, as in "
            f"(0, 30); it is never read off y; got {show_value(given)} ({error})"
        ) from None


_KINDS_OF_CLASSES = bool | np.bool_, numbers.Real, str


def _as_numbers(words: list[str]) -> list:
    """Words as numbers where all are numbers; y has numbers."""
    try:
        values = [float(word) for word in words]
    except ValueError:
        return words
    whole = all(value.is_integer() for value in values)
    return [int(value) for value in values] if whole else values
