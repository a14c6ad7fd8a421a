"""Labels, weights and ids of users: what the columns beside the attributes may hold.

Two classes are declared by their words, several classes by `Nominal`, and a number in a range by
`Numeric`. A label, a weight and an id are read by themselves, as cells of such a column are. None
is an error.
"""

from collections.abc import Callable, Mapping
from typing import Any, Self

import msgspec
import numpy as np

from dpbt.common.validate import flag, shown, whole
from dpbt.data.cells import (
    ColumnCells,
    RawColumn,
    cells_of,
    declared,
    read_ids,
    read_numbers,
    read_truths,
)
from dpbt.data.kinds import Boolean, Nominal, Numeric, Real, Target, Word, number_in, response_of


class WeightColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of weights of rows, and the public bound on them."""

    column: str
    most: Real

    def __post_init__(self):
        most = float(number_in("max_weight", self.most, "(0, inf)"))
        msgspec.structs.force_setattr(self, "most", most)


class UserColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of ids, which say whose a row is, and the public limit on the rows of one user.

    Ids are compared as words (`cells.word`), so " 7 ", 7 and 7.0 are one. A row whose id is missing
    is absent, as is one beyond the first `most` of its user.

    Attributes:
        column: its name.
        most: how many rows of a user count.
        ignore_case: whether ids that differ in capitals alone are one.
    """

    column: str
    most: int
    ignore_case: bool = False

    def __post_init__(self):
        msgspec.structs.force_setattr(self, "most", whole("max_rows_per_user", self.most))
        flag("ignore_case", self.ignore_case)

    def counting(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """(object[n] ids, bool[n] present) -> bool[n]: which rows count, some rows at a time.

        Of each user they are the first `most` that are present, over all calls. The rows of one
        user keep their order whatever other rows there are, so which of them count follows from
        them alone (docs/privacy.md, U1). It keeps a count for each id, of about 110 to 150 bytes.
        """
        counted: dict[bytes | None, int] = {None: self.most}  # a missing id

        def counts(ids: np.ndarray, present: np.ndarray) -> np.ndarray:
            found = np.zeros(len(ids), bool)
            for place in np.flatnonzero(present).tolist():
                before = counted.get(ids[place], 0)
                if before < self.most:
                    counted[ids[place]] = before + 1
                    found[place] = True
            return found

        return counts


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
        user: the column of ids of users, if there is one.

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
    user: UserColumn | None = None

    def __post_init__(self):
        if not all(isinstance(name, str) for name in self.columns):
            raise ValueError(f"Label: column must be a name, got {shown(list(self.columns))}")
        if len(set(self.columns)) < len(self.columns):
            raise ValueError(
                f"Label: labels, weights and ids of users must differ, got {list(self.columns)}"
            )
        if self.target is not None:
            response_of(self.target)
            if self.positive is not None or self.negative is not None:
                raise ValueError("give target, or negative and positive, and not both")
            return
        words = self.negative, self.positive
        booleans = [isinstance(word, bool | np.bool_) for word in words]
        if any(booleans) and not (all(booleans) and words == (False, True)):
            raise ValueError(
                "negative and positive must be declared together, and be False and True for "
                f"Boolean labels, got negative={shown(words[0])} and positive={shown(words[1])}"
            )
        kind = Boolean(declared(words[1], "positive"), declared(words[0], "negative"))
        msgspec.structs.force_setattr(self, "positive", kind.true)
        msgspec.structs.force_setattr(self, "negative", kind.false)

    @classmethod
    def of(
        cls,
        negative: Any,
        positive: Any,
        target: Target | None,
        max_weight: Any,
        max_rows_per_user: Any = None,
        ignore_case: bool = False,
    ) -> Self:
        """A label of columns without a name; arguments as `dpbt.table` has them.

        Raises:
            ValueError: as `dpbt.table`.
        """
        weight = None if max_weight is None else WeightColumn("sample_weight", max_weight)
        user = None
        if max_rows_per_user is not None:
            user = UserColumn("users", max_rows_per_user, ignore_case)
        if target is not None and negative is False and positive is True:
            negative = positive = None  # they were not given
        words: Any = {"positive": positive, "negative": negative}
        return cls("labels", target=target, weight=weight, user=user, **words)

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The words of the classes in the order of scores, of two the negative first; or None."""
        if self.target is None:
            return self.negative, self.positive
        return self.target.values if isinstance(self.target, Nominal) else None

    @property
    def options(self) -> dict[str, Any]:
        """What `dpbt.table` is told of the labels, and of the bounds on weights and on users."""
        found: dict[str, Any] = {"target": self.target}
        if self.target is None:
            found = {"negative": self.negative, "positive": self.positive}
        if self.weight is not None:
            found["max_weight"] = self.weight.most
        if self.user is not None:
            found["max_rows_per_user"] = self.user.most
            found["ignore_case"] = self.user.ignore_case
        return found

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns beside the attributes: the label's, of weights, of users."""
        more = (each.column for each in (self.weight, self.user) if each is not None)
        return (self.column, *more)

    def read(
        self,
        labels: RawColumn,
        sample_weight: RawColumn | None,
        rows: int,
        class_weight: Mapping[Any, float] | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """(target, present, weight) of each row, by itself, as `Table` has them.

        - The class of a label is its number in `Nominal.values`. A label that is not listed is of
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
        cells = _column("labels", labels, rows)
        match self.target:
            case Numeric():
                target, missing = self.target.position(cells)
                present = ~missing
            case Nominal():
                bin, _ = self.target.read(cells)
                present = bin < len(self.target.values)
                target = np.where(present, bin, np.uint8(0))
            case _:
                words: Any = self.positive, self.negative
                found = read_truths(cells, *words)
                target, present = found == 1, found >= 0
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

    def ids(self, users: RawColumn | None, rows: int) -> np.ndarray | None:
        """object[N]: whose each row is, by its cell alone (`cells.read_ids`); None without users.

        Raises:
            ValueError: for ids without a declared limit or a limit without ids, for what is no
                column, and for one of another length.
        """
        if (self.user is None) != (users is None):
            raise ValueError(
                "users and max_rows_per_user go together: the ids of users, and how many rows of "
                "one user count; without ids, max_rows_per_user of the recipe is your promise"
            )
        if self.user is None:
            return None
        return read_ids(_column("users", users, rows), self.user.ignore_case)


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
    given = {declared(name, "class_weight: a class"): w for name, w in class_weight.items()}
    if set(given) != set(names):
        raise ValueError(f"class_weight must have a weight for each of {names}, got {list(given)}")
    found = np.array(
        [number_in(f"class_weight of {word!r}", given[word], "(0, inf)") for word in names]
    )
    shares = found / found.max()
    if not np.all(shares.astype(np.float32) > 0):
        raise ValueError(f"class_weight must not differ beyond float32, got {shown(dict(given))}")
    return shares


def _column(name: str, values: RawColumn, rows: int) -> ColumnCells:
    """The cells of labels or of weights; ValueError for no column, or another length."""
    read = cells_of(values, f"{name}: ")
    if len(read) != rows:
        raise ValueError(f"{name} must have the same length as the columns")
    return read
