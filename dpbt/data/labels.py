"""Labels, weights and ids of users: which column holds them, and how its cells are read.

Two classes are declared by their words, several classes by `Nominal`, and a number in a range by
`Numeric`. Each label, weight and id is read on its own, as a cell of such a column.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self, TypedDict

import msgspec
import numpy as np
from jaxtyping import Bool, Float64

from dpbt.common.validate import (
    check_boolean,
    check_positive_integer,
    show_value,
)
from dpbt.data.cells import (
    ColumnCells,
    RawColumn,
    column_cells,
    declared_word,
    hash_ids,
    read_booleans,
    read_numbers,
)
from dpbt.data.column_types import (
    Boolean,
    Nominal,
    Numeric,
    Real,
    Spellings,
    Target,
    check_number,
    declared_spellings,
    field_written_even_if_default,
    name_of_spellings,
    response_of_target,
)
from dpbt.data.column_types import Objective as Objective
from dpbt.data.date_checks import refuse_undeclared_dates
from dpbt.data.label_types import check_classes_can_occur
from dpbt.public_types import DeclaredDomain as DeclaredDomain
from dpbt.public_types import redacted_repr


class WeightColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of weights of rows, and the public bound on them.

    Attributes:
        column: the name of the column.
        max_weight: the largest weight that counts; larger ones are clipped. Files call it "most".
    """

    column: str
    max_weight: Real = msgspec.field(name="most")

    def __post_init__(self):
        max_weight = float(check_number("max_weight", self.max_weight, "(0, inf)"))
        msgspec.structs.force_setattr(self, "max_weight", max_weight)


class UserColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of ids of users, and the public limit on the rows of one user.

    The ids state whose each row is.

    Ids are compared as words (`cells.read_word`), so " 7 ", 7 and 7.0 are one. A row whose id is
    missing is absent, as is one beyond the first `max_rows` of its user.

    Attributes:
        column: the name of the column.
        max_rows: how many rows of a user count. Files call it "most".
        ignore_case: whether ids that differ in capitals alone are one.
    """

    column: str
    max_rows: int = msgspec.field(name="most")
    ignore_case: bool = False

    def __post_init__(self):
        max_rows = check_positive_integer("max_rows_per_user", self.max_rows)
        msgspec.structs.force_setattr(self, "max_rows", max_rows)
        check_boolean("ignore_case", self.ignore_case)

    def new_row_limiter(self) -> "RowLimiter":
        """A new limiter of the rows of each user, which has seen no row yet."""
        return RowLimiter(self.max_rows)


class RowLimiter:
    """Admits the first rows of each user, up to a limit.

    It counts the rows over all calls of `admit_rows`.

    The rows of one user keep their order whatever other rows there are, so which of them are
    admitted follows from them alone (docs/privacy.md, U1). The limiter keeps a count for each id,
    of about 110 to 150 bytes.
    """

    def __init__(self, max_rows: int):
        self._max_rows = max_rows
        self._num_admitted: dict[bytes | None, int] = {None: max_rows}  # no row without an id

    def admit_rows(self, ids: np.ndarray, present: Bool[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """bool[n]: which of the next rows are present and within the limit of their user.

        Args:
            ids: object[n], as `cells.hash_ids` returns them.
            present: bool[n]. Absent rows neither count nor use up the limit.
        """
        admitted = np.zeros(len(ids), bool)
        for row in np.flatnonzero(present).tolist():
            num_admitted = self._num_admitted.get(ids[row], 0)
            if num_admitted < self._max_rows:
                self._num_admitted[ids[row]] = num_admitted + 1
                admitted[row] = True
        return admitted


class RowLabels(NamedTuple):
    """The targets, presence and weights of rows; private.

    `dpbt.Table` holds them in this form.

    Attributes:
        target: bool[N], u8[N] or f32[N]: the class, or the position in the range; 0 if absent.
        present: bool[N]: whether the label is as declared.
        weight: f32[N], in units of the largest possible weight; None if all rows weigh the same.
    """

    target: np.ndarray
    present: np.ndarray
    weight: np.ndarray | None

    __repr__ = redacted_repr


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The declared label: its column, and its classes or the range of a number.

    Two classes have the words `positive` and `negative`, which are stored as `cells.declared_word`
    reads them. Several classes and numbers have a `target`.

    Attributes:
        column: the name of the column.
        positive: the word of the positive class, or a list of its spellings, of which the first is
            its name.
        negative: the word of the negative class, or a list of its spellings.
        target: `domains.Nominal` of two classes or more, or `domains.Numeric(low, high)`.
        weight: the column of weights of rows; None without weights.
        user: the column of ids of users; None without ids.
        ignore_case: whether words of the two classes that differ in capitals alone are one.

    Raises:
        ValueError: if the two words are read alike, or the column's name is not text. Also for a
            target that is not as described, or beside two classes, and for a bound on weights that
            is not positive and finite.
    """

    column: str
    # Files state these fields also where they are None.
    positive: Spellings | None = field_written_even_if_default(None)
    negative: Spellings | None = field_written_even_if_default(None)
    target: Nominal | Numeric | None = field_written_even_if_default(None)
    weight: WeightColumn | None = field_written_even_if_default(None)
    user: UserColumn | None = field_written_even_if_default(None)
    ignore_case: bool = False

    def __post_init__(self):
        check_boolean("Label: ignore_case", self.ignore_case)
        names = list(self.columns)
        if not all(isinstance(name, str) for name in names):
            raise ValueError(f"Label: column must be a name, got {show_value(names)}")
        if len(set(names)) < len(names):
            raise ValueError(f"Label: labels, weights and ids of users must differ, got {names}")
        if self.target is not None:
            response_of_target(self.target)
            if self.positive is not None or self.negative is not None:
                raise ValueError("give target, or negative and positive, and not both")
            if self.ignore_case:
                raise ValueError(
                    "ignore_case of a label is for its two classes; several classes declare it in "
                    "their target"
                )
            return
        words = self.negative, self.positive
        booleans = [isinstance(word, bool | np.bool_) for word in words]
        if any(booleans) and not (all(booleans) and words == (False, True)):
            raise ValueError(
                "negative and positive must be declared together, and be False and True for "
                f"Boolean labels, got negative={show_value(words[0])} and "
                f"positive={show_value(words[1])}"
            )
        kind = Boolean(
            declared_spellings(words[1], "positive"),
            declared_spellings(words[0], "negative"),
            ignore_case=self.ignore_case,
        )
        msgspec.structs.force_setattr(self, "positive", kind.true)
        msgspec.structs.force_setattr(self, "negative", kind.false)

    @classmethod
    def from_options(
        cls,
        *,
        negative: Any = False,
        positive: Any = True,
        target: Target | None = None,
        max_weight: Any = None,
        max_rows_per_user: Any = None,
        ignore_case: bool = False,
        ignore_label_case: bool = False,
    ) -> Self:
        """Make the label that `LabelOptions` declare.

        Its columns have no names.

        Raises:
            ValueError: as `dpbt.table`.
        """
        weight = None if max_weight is None else WeightColumn("sample_weight", max_weight)
        user = None
        if max_rows_per_user is not None:
            user = UserColumn("users", max_rows_per_user, ignore_case)
        if target is not None and negative is False and positive is True:
            negative = positive = None  # the defaults
        words: Any = {"positive": positive, "negative": negative}
        return cls(
            "labels",
            target=target,
            weight=weight,
            user=user,
            ignore_case=ignore_label_case,
            **words,
        )

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The classes in the order of scores, by their words; None for a number.

        Of two classes the negative one is first.
        """
        if self.target is None:
            words: Any = self.negative, self.positive
            return tuple(map(name_of_spellings, words))
        return self.target.values if isinstance(self.target, Nominal) else None

    @property
    def spellings_of_classes(self) -> list[tuple[str, ...]]:
        """The words that are read as each class; empty for a number.

        The name of the class is the first of them.
        """
        if isinstance(self.target, Nominal):
            return self.target.words_by_bin
        if self.target is not None:
            return []
        words: Any = self.negative, self.positive
        return [(one,) if isinstance(one, str) else one for one in words]

    @property
    def options(self) -> "LabelOptions":
        """The arguments of `dpbt.table` that declare this label, its weights and its users."""
        options: LabelOptions = {"target": self.target}
        if self.target is None:
            words: Any = {"negative": self.negative, "positive": self.positive}
            options = words
            if self.ignore_case:
                options["ignore_label_case"] = True
        if self.weight is not None:
            options["max_weight"] = self.weight.max_weight
        if self.user is not None:
            options["max_rows_per_user"] = self.user.max_rows
            options["ignore_case"] = self.user.ignore_case
        return options

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of the label, of weights and of users.

        These are the columns beside the attributes.
        """
        declared = (self.weight, self.user)
        return (self.column, *(column.column for column in declared if column is not None))

    def read_labels(
        self,
        labels: RawColumn,
        *,
        num_rows: int,
        sample_weight: RawColumn | None = None,
        class_weight: Mapping[Any, float] | None = None,
    ) -> RowLabels:
        """Read the target, presence and weight of each row.

        Each row is read on its own:

        - The target of a class is its index in `Nominal.values`. A label that is not listed counts
          as the class `Nominal.other`; without one the row is absent.
        - A number is clipped to the range, and its target is its position there, from 0 to 1. The
          row of a label that is not a number is absent.
        - Weights are in units of the largest possible one.

        Args:
            labels: N cells.
            num_rows: N, the length of the columns.
            sample_weight: N weights, or None.
            class_weight: the public weight of each class by its word, or None.

        Raises:
            ValueError: for an argument that is not a column or has another length, for labels whose
                stated type, such as a dtype, cannot hold a declared class or a number, for weights
                without a public bound, and for weights of classes that are not as described. No
                cell is shown.
        """
        weight_of_class = None
        if class_weight is not None:
            weight_of_class = _class_weights_relative_to_largest(self.classes, class_weight)
        other = self.target.other if isinstance(self.target, Nominal) else None
        check_classes_can_occur(
            labels, self.spellings_of_classes, other=other, are_two=self.target is None
        )
        cells = _cells_of_length("labels", labels, num_rows)
        match self.target:
            case Numeric():
                target, missing = self.target.read_positions(cells)
                present = ~missing
            case Nominal():
                bins = self.target.read_bins(cells).bins
                present = bins < len(self.target.values)
                target = np.where(present, bins, np.uint8(0))
            case _:
                words: Any = self.positive, self.negative
                truths = read_booleans(cells, *words, ignore_case=self.ignore_case)
                target = truths == 1
                present = truths >= 0
        if sample_weight is None and weight_of_class is None:
            return RowLabels(target, present, None)
        weight = np.ones(num_rows)
        with np.errstate(all="ignore"):  # a warning would say that some row has a tiny weight
            if sample_weight is not None:
                if self.weight is None:
                    raise ValueError(
                        "sample_weight needs max_weight, a public bound on the weight of a row, "
                        "which is never read off the weights; larger ones are clipped to it"
                    )
                weight_cells = _cells_of_length("sample_weight", sample_weight, num_rows)
                stated_weight = np.nan_to_num(read_numbers(weight_cells))
                max_weight = self.weight.max_weight
                weight = np.clip(stated_weight, 0.0, max_weight) / max_weight
            if weight_of_class is not None:
                weight = weight * weight_of_class[target.astype(np.int64)]
            return RowLabels(target, present, weight.astype(np.float32))

    def read_user_ids(self, users: RawColumn | None, num_rows: int) -> np.ndarray | None:
        """object[N]: a hash of the id of each row's user; None without users.

        `cells.hash_ids` hashes the ids.

        Raises:
            ValueError: for ids without a declared limit or a limit without ids, for a value that is
                no column, and for a column of another length than `num_rows`.
        """
        if (self.user is None) != (users is None):
            raise ValueError(
                "users and max_rows_per_user go together: the ids of users, and how many rows of "
                "one user count; without ids, max_rows_per_user of the recipe is your promise"
            )
        if self.user is None:
            return None
        return hash_ids(_cells_of_length("users", users, num_rows), self.user.ignore_case)


class LabelOptions(TypedDict, total=False):
    """The arguments of `dpbt.table` and of conversions that declare labels, weights and users.

    Attributes:
        negative: the word or the number of the negative class, or a list of its spellings; False
            by default.
        positive: those of the positive class; True by default.
        target: the declared classes or range of labels that are not one of two classes.
        max_weight: a public bound on weights of rows, above 0, which weights need.
        max_rows_per_user: how many rows of each user count, which ids of users need.
        ignore_case: whether ids that differ in capitals alone are one.
        ignore_label_case: whether words of the two classes that differ in capitals alone are one.
    """

    negative: str | float | Sequence[str | float]
    positive: str | float | Sequence[str | float]
    target: Target | None
    max_weight: float | None
    max_rows_per_user: int | None
    ignore_case: bool
    ignore_label_case: bool


def _class_weights_relative_to_largest(
    names: tuple[Any, ...] | None, class_weight: Mapping[Any, float]
) -> Float64[np.ndarray, "K"]:
    """f64[K]: the weights of classes, in units of the largest.

    Raises:
        ValueError: unless each class has a positive and finite weight.
    """
    if names is None or not isinstance(class_weight, Mapping):
        raise ValueError(
            "class_weight must map each class to its public weight, got "
            f"{show_value(class_weight)}; it is not read off the labels, as their counts "
            "are private"
        )
    weight_of_word = {
        declared_word(name, "class_weight: a class"): weight
        for name, weight in class_weight.items()
    }
    if set(weight_of_word) != set(names):
        raise ValueError(
            f"class_weight must have a weight for each of {names}, got {list(weight_of_word)}"
        )
    weights = np.array(
        [
            check_number(f"class_weight of {word!r}", weight_of_word[word], "(0, inf)")
            for word in names
        ]
    )
    relative_weights = weights / weights.max()
    if not np.all(relative_weights.astype(np.float32) > 0):
        raise ValueError(
            f"class_weight must not differ beyond float32, got {show_value(weight_of_word)}"
        )
    return relative_weights


def _cells_of_length(name: str, values: RawColumn, num_rows: int) -> ColumnCells:
    """The cells of a column of labels, weights or ids of the expected length.

    Raises:
        ValueError: unless it is a column of `num_rows` cells.
    """
    refuse_undeclared_dates(name, values, None)
    cells = column_cells(values, f"{name}: ")
    if len(cells) != num_rows:
        raise ValueError(f"{name} must have the same length as the columns")
    return cells
