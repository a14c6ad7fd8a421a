"""The arguments of an estimator: rows in any container, the domain, and the declared labels.

All declarations are public. To make them, this module reads only the form of the rows: the names
and the number of columns, and the dtype of labels. It converts no container as a whole, because one
odd cell would then change how the others are read.
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
from dpbt.data import column_types, domains
from dpbt.data.cells import (
    ColumnNames,
    RawColumn,
    Words,
    advice_for_lazy_data,
    declared_word,
    frame_column_names,
    is_sequence,
    result_or_none_on_error,
)
from dpbt.data.column_types import Nominal, Numeric, Target
from dpbt.data.domains import Columns, Domain, Label
from dpbt.data.label_types import check_classes_can_occur


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class RowsByColumn:
    """Rows that are read column by column.

    The cells and the number of rows are private.

    Attributes:
        num_rows: N, the number of rows.
        num_columns: F, the number of columns.
        names: the names of a data frame's columns; None for an array or a list.
        column: maps j in 0..F - 1 to the cells of column j.
    """

    num_rows: int
    num_columns: int
    names: ColumnNames | None
    column: Callable[[int], RawColumn]


def rows_by_column(data: Any, num_columns: int | None = None) -> RowsByColumn:
    """Read a data frame, an array N x F or a list of N rows by columns.

    The frame is one of pandas, polars or Arrow.

    A row of a list is a sequence of cells, read in its order. If the number of columns is declared,
    a row of another length is a row without any value, as a malformed line of a file is. So is a
    row that is not a sequence, and a row that raises an error.

    Args:
        data: the rows.
        num_columns: the declared number of columns, if there is one. It is read for lists only.

    Raises:
        TypeError: for a sparse matrix.
        ValueError: for something else, or an array that does not have two axes. Also for a frame
            that has two columns of one name. Also for a list without a declared number of columns
            whose rows differ in length, or that is empty. No cell and no length is shown.
    """
    if hasattr(data, "tocsr"):
        raise TypeError("X must be dense, got a sparse matrix; X.toarray() gives a dense one")
    names = frame_column_names(data)
    if names is not None:
        if repeated := sorted({str(name) for name in names if names.count(name) > 1}):
            raise ValueError(f"the columns of X must have distinct names, and {repeated} repeat")
        return RowsByColumn(len(data), len(names), names, lambda j: data[names[j]])
    if not hasattr(data, "__array__"):  # NumPy would show how many cells a list has
        return _read_list_by_column(data, num_columns)
    array = data if isinstance(data, np.ma.MaskedArray) else np.asarray(data)
    if array.ndim != 2:
        raise ValueError(_message_for_no_rows(f"a {array.ndim}D array of {type(data).__name__}"))
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: X must hold real numbers, text or objects")
    return RowsByColumn(len(array), array.shape[1], None, lambda j: array[:, j])


def _read_list_by_column(data: Any, num_columns: int | None) -> RowsByColumn:
    """Read a list of rows by columns.

    A row of another length has no values at all.
    """
    if not is_sequence(data):
        if advice := advice_for_lazy_data(data):
            raise ValueError(f"X must be a data frame or rows, got {type(data).__name__}{advice}")
        raise ValueError(_message_for_no_rows(type(data).__name__))
    rows = [result_or_none_on_error(_cells_of_row, row) for row in list(data)]
    length: Any = num_columns
    if length is None:
        lengths = {None if row is None else len(row) for row in rows}
        if len(lengths) != 1 or None in lengths:
            raise ValueError(
                _message_for_no_rows("a list of what are no rows of one width")
                + "; declare the domain as a dict of columns, and other rows have no values"
            )
        [length] = lengths
    filled = [row if row and len(row) == length else [None] * length for row in rows]
    return RowsByColumn(len(rows), length, None, lambda j: [row[j] for row in filled])


def _message_for_no_rows(description: str) -> str:
    """The text of the error for a value that does not hold rows.

    It begins as that of scikit-learn.
    """
    return (
        f"Expected 2D array or a data frame of rows, got {description} instead. Reshape your data: "
        "X.reshape(-1, 1) has one column, X.reshape(1, -1) has one row"
    )


def _cells_of_row(row: Any) -> list | None:
    """The cells of a row in order; None for anything but a row.

    Labels of cells, as a pandas Series has, do not count.
    """
    if not (row.ndim == 1 if isinstance(row, np.ndarray) else is_sequence(row)):
        return None
    cells = list(itertools.islice(row, len(row) + 1))  # len() may lie
    return cells if len(cells) == len(row) else None


class DomainAndLabel(NamedTuple):
    """The declared columns, and the declared label if a file states one.

    Attributes:
        domain: the declared columns by name, or the one kind of all columns.
        label: the label that a file declares; None without a file.
    """

    domain: Domain | column_types.Column
    label: Label | None


def read_declaration(domain: Any, names: ColumnNames | None = None) -> DomainAndLabel:
    """Read the parameter `domain` of an estimator: the domain, and the label of its file.

    Args:
        domain: the parameter: a domain, one kind of column, or the path of a file.
        names: the names of a data frame's columns, which patterns of a file may cover.

    Raises:
        ValueError: for anything else, saying how to write a domain.
    """
    if isinstance(domain, str | os.PathLike):
        return DomainAndLabel(*domains.read_domain(Path(domain), names))
    if isinstance(domain, column_types.Column):
        return DomainAndLabel(domain, None)
    if not isinstance(domain, Mapping):
        raise ValueError(
            f"domain must declare what each column may hold, got {type(domain).__name__}: a dict "
            "such as {'age': dpbt.domains.Numeric(0, 100)}, one such kind for all columns, or the "
            "path of a JSON file, as dpbt.domains.template(names) writes one to fill in from what "
            "the columns mean; never read it off the rows"
        )
    domains.check_domain(domain)
    return DomainAndLabel(domain, None)


class ColumnOrder(NamedTuple):
    """The matching of the columns of X with those of the domain.

    Attributes:
        domain: the public domain.
        names: for each column of X, in order, its name in the domain, or another name.
        by_name: whether the columns of a frame are found by these names, and not by their order.
    """

    domain: Domain
    names: tuple
    by_name: bool

    @classmethod
    def of_fit(cls, domain: Domain | column_types.Column, rows: RowsByColumn) -> Self:
        """Match the columns of the rows of a fit with those of the domain.

        Raises:
            ValueError: for an array that has not one column for each of the domain, and for a frame
                whose columns a ColumnTransformer renamed.
        """
        if not isinstance(domain, Mapping):
            by_name = rows.names is not None and all(isinstance(name, str) for name in rows.names)
            names = rows.names if by_name else tuple(f"x{j}" for j in range(rows.num_columns))
            assert names is not None
            return cls({str(name): domain for name in names}, names, by_name)
        names = tuple(domain) if rows.names is None else rows.names
        undeclared = [name for name in names if name not in domain]
        without_prefix = {name: str(name).partition("__")[2] for name in undeclared}
        renamed = {
            name: declared
            for name, declared in without_prefix.items()
            if declared in domain and declared not in names
        }
        if renamed:  # these hold declared names, so they are not cells of a file without a header
            raise ValueError(
                f"the domain declares {list(renamed.values())}, and X has them as {list(renamed)}: "
                "a ColumnTransformer puts its parts' names before, unless it is made with "
                "verbose_feature_names_out=False"
            )
        if rows.num_columns != len(names):
            raise ValueError(
                f"X has {rows.num_columns} columns, and the domain declares {len(names)}; without "
                "names they are read in the order of the domain, so give one for each, or a data "
                "frame"
            )
        return cls(dict(domain), names, True)

    def declared_columns(self, rows: RowsByColumn) -> Columns:
        """The columns of rows by their names in the domain.

        Those that the rows lack are not among them.
        """
        names = self.names if rows.names is None or not self.by_name else rows.names
        number_of_name = {name: number for number, name in enumerate(names)}
        return {
            name: rows.column(number_of_name[name])
            for name in self.domain
            if name in number_of_name
        }


class DeclaredAnswers(NamedTuple):
    """The declared answers of a model: its classes, or the range of a number.

    Attributes:
        classes: the classes in order; None for a number.
        target: the declared classes or range, as `dpbt.table` takes it; None for two classes.
        spellings: the words that are read as a class, by its word, where a file declares several.
        ignore_case: whether words of classes that differ in capitals alone are one.
    """

    classes: np.ndarray | None
    target: Target | None
    spellings: Mapping[str, Words] = {}
    ignore_case: bool = False

    @property
    def table_options(self) -> dict[str, Any]:
        """The arguments of `dpbt.table` that declare these answers."""
        if self.classes is None or self.target is not None:
            return {"target": self.target}
        words = [
            self.spellings.get(declared_word(word), word) if self.spellings else word
            for word in self.classes
        ]
        options: dict[str, Any] = dict(zip(("negative", "positive"), words, strict=True))
        return {**options, "ignore_label_case": True} if self.ignore_case else options


def declared_classes(classes: Any, file_label: Label | None, y: Any) -> DeclaredAnswers:
    """The classes that an estimator states, or else those that its domain file declares.

    Without either they are False and True where y is Boolean.

    This reads only the dtype of y, which is public. Whole numbers declare nothing: three classes
    would be read as two, and the rows of the third as absent.

    Args:
        classes: the estimator's parameter of that name; None if it is not stated.
        file_label: the label of the domain's file; None without a file.
        y: the labels of the rows, of which the dtype alone is read.

    Raises:
        ValueError: if the classes are not stated, or are not of one kind, or are words where y
            holds numbers. Also for a class that is infinite or that y's dtype cannot hold, and for
            a file that declares a number.
    """
    if file_label is not None and isinstance(file_label.target, Numeric) and classes is None:
        raise ValueError(
            f"the domain's file declares the label {file_label.column!r} as a number, and a "
            "classifier needs classes; PrivateBoostingRegressor learns numbers"
        )
    dtype_kind = getattr(getattr(y, "dtype", None), "kind", None)
    y_is_numeric = dtype_kind in ("i", "u", "f")
    other = None
    spellings: dict[str, Words] = {}
    ignore_case = False
    if classes is None and dtype_kind == "b":
        return DeclaredAnswers(np.array([False, True]), None)
    if classes is None and file_label is not None and file_label.classes is not None:
        words = list(file_label.classes)
        classes = _as_numbers_if_all_are_numbers(words) if y_is_numeric else words
        if isinstance(file_label.target, Nominal):
            other = file_label.target.other
            ignore_case = file_label.target.ignore_case
        else:
            ignore_case = file_label.ignore_case
        spellings = {
            of_class[0]: of_class for of_class in file_label.spellings_of_classes if of_class[1:]
        }

    class_list = _checked_class_list(classes)
    sorted_classes = np.array(sorted(class_list))
    classes_are_text = sorted_classes.dtype.kind == "U"
    if (
        y_is_numeric
        and classes_are_text
        and _as_numbers_if_all_are_numbers(sorted_classes.tolist()) == list(sorted_classes)
    ):
        raise ValueError(
            f"classes are words and y holds numbers, so no row would count; got "
            f"classes={show_value(sorted_classes)}. "
            "An ensemble that encodes labels needs classes=(0, 1)"
        )
    words_of_classes = [declared_word(value, "a class") for value in class_list]
    check_classes_can_occur(
        y,
        [spellings.get(word, (word,)) for word in words_of_classes],
        other=other,
        are_two=len(class_list) == 2,
    )
    if len(sorted_classes) == 2:
        return DeclaredAnswers(sorted_classes, None, spellings, ignore_case)
    further_words: Any = {word: words[1:] for word, words in spellings.items()} or None
    target = Nominal(tuple(sorted_classes), other, spellings=further_words, ignore_case=ignore_case)
    return DeclaredAnswers(sorted_classes, target)


def _checked_class_list(classes: Any) -> list:
    """The stated classes as a list, once they were checked.

    Raises:
        ValueError: unless they are two or more of one kind.
    """
    class_list = list(classes) if isinstance(classes, list | tuple | np.ndarray) else []
    are_of_one_kind = any(
        all(isinstance(value, kind) for value in class_list) for kind in _KINDS_OF_CLASSES
    )
    are_finite = all(
        not isinstance(value, float | np.floating) or np.isfinite(value) for value in class_list
    )
    are_valid = are_of_one_kind and are_finite and len(set(class_list)) == len(class_list)
    if len(class_list) < 2 or not are_valid:
        refusal = f"; they are two or more of one kind, got {show_value(classes)}"
        raise ValueError(
            "classes must state all labels, such as classes=('no', 'yes'); they are not read off "
            f"y, as which of them occur is private{'' if classes is None else refusal}"
        )
    return class_list


def declared_range(target_range: Any, file_label: Label | None) -> Numeric:
    """The range of a number that an estimator states, or else its domain file.

    It is stated as (low, high).

    Raises:
        ValueError: if it is not stated, or is not a pair of finite numbers in order.
    """
    if target_range is None and file_label is not None and isinstance(file_label.target, Numeric):
        return file_label.target
    try:
        low, high = target_range  # type: ignore[misc]  # a TypeError is caught
        return Numeric(low, high)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "target_range must be stated: the public (low, high) of the number in its units, as in "
            f"(0, 30); it is never read off y; got {show_value(target_range)} ({error})"
        ) from None


_KINDS_OF_CLASSES = bool | np.bool_, numbers.Real, str
"""The kinds of labels; the classes of one model are of one kind."""


def _as_numbers_if_all_are_numbers(words: list[str]) -> list:
    """Convert words to numbers if all of them are numbers.

    Otherwise they are returned unchanged.
    """
    try:
        values = [float(word) for word in words]
    except ValueError:
        return words
    are_whole = all(value.is_integer() for value in values)
    return [int(value) for value in values] if are_whole else values
