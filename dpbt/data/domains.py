"""Public domains: what each column may hold, declared before anyone looks at the rows.

A domain is an ordered mapping from column names to `Numeric`, `Nominal` or `Boolean` (`kinds`). It
defines the public splits as splits of bins. They are the predicates "column > threshold",
"column = value" and "column >= value". Nothing here is ever fitted from data.

Encoding is a map of each row alone, cell by cell as `cells` says. It never raises an error on a
cell: what lies outside the declaration has a declared place.

Beside the attributes there are a label, and perhaps weights and ids of users. Two classes are
declared by their words, several classes by `Nominal`, and a number in a range by `Numeric`. A
label, a weight and an id are read by themselves, as cells of such a column are.
"""

import codecs
import functools
import json
import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np

from dpbt.common import storage
from dpbt.common.validate import (
    as_path,
    check_boolean,
    check_choice,
    check_positive_integer,
    show_value,
)
from dpbt.data.cells import (
    ColumnCells,
    RawColumn,
    cells_of,
    declared,
    eager_advice,
    number,
    read_ids,
    read_numbers,
    read_truths,
)
from dpbt.data.kinds import (
    Boolean,
    Column,
    Nominal,
    Numeric,
    Real,
    Split,
    Target,
    Word,
    check_number,
    positions_of,
    response_of,
)
from dpbt.data.kinds import Objective as Objective
from dpbt.public_types import DeclaredDomain as DeclaredDomain
from dpbt.public_types import Splits

Domain = Mapping[str, Column]
"""The public columns by name."""


def check(domain: object) -> None:
    """Check that a domain is a mapping from names to kinds of columns.

    Raises:
        ValueError: if it is something else or has no column. What a column holds is not shown.
    """
    if not isinstance(domain, Mapping) or not domain:
        raise ValueError(
            "a domain must map column names to Numeric, Nominal or Boolean, and have at least one "
            f"column, got {type(domain).__name__}"
        )
    for name, kind in domain.items():
        if not isinstance(kind, Column):  # it may be private, if domain and columns were exchanged
            given = type(kind).__name__
            raise ValueError(f"column {name!r} must be Numeric, Nominal or Boolean, got {given}")
    if len({str(name) for name in domain}) < len(domain):
        raise ValueError("two columns of a domain have names of one text, such as 0 and '0'")


def declare(domain: Domain) -> DeclaredDomain:
    """A domain as tables, recipes and models carry it.

    Raises:
        ValueError: as `check`.
    """
    check(domain)
    return domain if isinstance(domain, DeclaredDomain) else DeclaredDomain(domain.items())


def check_same(first: Domain | None, second: Domain | None, owner: str, other: str) -> None:
    """Check that two things were made by one domain, as far as both are known to have one.

    Without this check another domain would pass in silence: bins are numbers, and the same number
    would stand for another interval, value or column.

    Args:
        first: a domain, or None where none is known.
        second: likewise.
        owner: what the first domain belongs to, in words, such as "the table".
        other: what the second one belongs to, such as "the model".

    Raises:
        ValueError: naming the first difference (`difference`).
    """
    if first is None or second is None:
        return
    words = difference(first, second, owner, other)
    if words is not None:
        raise ValueError(f"another domain than that of {other}: {words}")


def difference(
    first: Domain, second: Domain, owner: str = "the first", other: str = "the second"
) -> str | None:
    """How two domains differ, by the first column that does; None if they are the same.

    Columns are compared in their order, by name, kind and attributes, and numbered from 1.

    Args:
        first: a domain.
        second: another one.
        owner: what the first belongs to, in words.
        other: what the second belongs to.
    """
    if first is second:
        return None
    pairs = zip(first.items(), second.items(), strict=False)
    for place, ((name, kind), (known, expected)) in enumerate(pairs, 1):
        if str(name) != str(known):
            return f"column {place} is {str(name)!r} in {owner} and {str(known)!r} in {other}"
        if kind != expected:
            return f"column {str(name)!r} {_difference_of_kinds(kind, expected, owner, other)}"
    if len(first) != len(second):
        longer, where = (first, owner) if len(first) > len(second) else (second, other)
        extra = str([*longer][min(len(first), len(second))])
        return (
            f"there are {len(first)} columns in {owner} and {len(second)} in {other}; "
            f"column {extra!r} is in {where} alone"
        )
    return None


def _difference_of_kinds(kind: Column, expected: Column, owner: str, other: str) -> str:
    """The first attribute in which two kinds differ, with both values."""
    names = type(kind).__name__, type(expected).__name__
    if names[0] != names[1]:
        return f"is {names[0]} in {owner} and {names[1]} in {other}"
    # The number of bins follows from cuts, so it comes last.
    fields = sorted(kind.__struct_fields__, key=lambda field: field == "bins")
    field = next(f for f in fields if getattr(kind, f) != getattr(expected, f))
    values = getattr(kind, field), getattr(expected, field)
    if all(isinstance(value, tuple) for value in values):
        for place, entries in enumerate(zip(*values, strict=False), 1):
            if entries[0] != entries[1]:
                here, there = map(show_value, entries)
                return f"has number {place} of its {field} {here} in {owner} and {there} in {other}"
        return f"has {len(values[0])} {field} in {owner} and {len(values[1])} in {other}"
    return f"has {field} {show_value(values[0])} in {owner} and {show_value(values[1])} in {other}"


def predicates(domain: Domain) -> list[Split]:
    """The public splits of a domain, in the order of `splits`.

    Raises:
        ValueError: as `check`.
    """
    check(domain)
    return [split for name, column in domain.items() for split in column.splits(name)]


Columns = Mapping[str, RawColumn]
"""Raw columns by name, of N cells each, as `cells.cells_of` takes them."""


def encode(domain: Domain, columns: Columns) -> np.ndarray:
    """u8[N, F]: the public bin that each value lies in, one feature for each column of the domain.

    Row n is a function of the cells of row n alone, so no row changes how another is encoded.
    `splits` has the splits and attributes of the result.

    Args:
        domain: the public domain.
        columns: for every column of the domain N cells of any kind: a sequence, a NumPy array, a
            pandas Series, or an Arrow array. It is a mapping or a data frame (pandas, polars,
            Arrow). `cells` says how each cell is read. Columns that the domain does not name are
            not read.

    Raises:
        ValueError: if a column is missing or is no column, if lengths differ, and as `check`. No
            cell is an error.
    """
    read = read_columns(domain, columns)
    return np.stack([kind.read(read[name])[0] for name, kind in domain.items()], axis=1)


def splits(domain: Domain) -> Splits:
    """What is asked of the bins that `encode` gives: the splits in the order of `predicates`.

    The position of a number is the share of the column's thresholds that it exceeds. So a threshold
    t uniform in [0, 1) on "position > t" is uniform over the declared thresholds. The position of a
    bin of an ordered nominal column is likewise its place among the bins.

    Raises:
        ValueError: as `check`.
    """
    check(domain)
    splits, attributes = [], []
    for feature, kind in enumerate(domain.values()):
        splits += [(feature, split.low, split.high) for split in kind.splits("")]
        attributes += [(feature, position) for position in positions_of(kind)]

    of_split, low, high = zip(*splits, strict=True)
    of_attribute, position = zip(*attributes, strict=True)
    return Splits(
        feature=np.array(of_split, np.int32),
        low=np.array(low, np.uint8),
        high=np.array(high, np.uint8),
        attribute=np.array(of_attribute, np.int32),
        position=np.stack(position),
    )


def positions(domain: Domain, columns: Columns) -> np.ndarray:
    """f32[N, A]: where each row lies exactly in the public range of each attribute, in [0, 1].

    A threshold t uniform in [0, 1) on "position > t" is uniform in the attribute's range. The
    position of a Boolean is the Boolean itself. The position of a number is linear in the number,
    whatever its cuts or scale. (`splits` has the same attributes with numbers on the declared
    grid.)

    Args:
        domain: the public domain.
        columns: as `encode` reads them.

    Returns:
        The attributes in the order of the columns. A missing number or Boolean is at 0, and has a
        Boolean of its own where declared. Values outside the range count as its nearer end. As in
        `encode`, a row of the result is a function of that row alone.

    Raises:
        ValueError: as `encode`.
    """
    read = read_columns(domain, columns)
    blocks = []
    for name, kind in domain.items():
        block = np.stack(positions_of(kind), axis=1)[kind.read(read[name])[0]]
        if isinstance(kind, Numeric):
            block[:, 0] = kind.position(read[name])[0]
        blocks.append(block)
    return np.concatenate(blocks, axis=1)


def read_columns(domain: Domain, columns: Columns) -> dict[str, ColumnCells]:
    """The cells of the domain's columns, N each, as `cells.cells_of` gives them.

    Raises:
        ValueError: as `encode`. The number of rows is in no message.
    """
    check(domain)
    names: Any = columns if hasattr(columns, "keys") else names_of(columns)
    if names is None or not hasattr(columns, "__getitem__"):
        given = f"{type(columns).__name__}{eager_advice(columns)}"
        raise ValueError(f"columns must map names to cells, got {given}")

    absent = [name for name in domain if name not in names]
    if absent:
        raise ValueError(f"the data lacks columns {absent} of the domain")
    read = {name: cells_of(columns[name], f"column {name!r}: ") for name in domain}
    first = next(iter(domain))
    unlike = [name for name in domain if len(read[name]) != len(read[first])]
    if unlike:
        raise ValueError(f"columns must have the same length; {unlike} differ from {first!r}")
    return read


Names = tuple[Hashable, ...]


def names_of(frame: Any) -> Names | None:
    """The names of the columns of a data frame or an Arrow table; None for what is neither.

    A lazy frame, which has no length, is neither.
    """
    if isinstance(frame, np.ndarray | Mapping):
        return None
    if not hasattr(frame, "__getitem__") or not hasattr(frame, "__len__"):
        return None
    names = getattr(frame, "column_names", getattr(frame, "columns", None))
    return None if names is None or callable(names) else tuple(names)


# Labels, weights and ids of users.


class WeightColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of weights of rows, and the public bound on them."""

    column: str
    most: Real

    def __post_init__(self):
        most = float(check_number("max_weight", self.most, "(0, inf)"))
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
        msgspec.structs.force_setattr(
            self, "most", check_positive_integer("max_rows_per_user", self.most)
        )
        check_boolean("ignore_case", self.ignore_case)

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
            raise ValueError(f"Label: column must be a name, got {show_value(list(self.columns))}")
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
                f"Boolean labels, got negative={show_value(words[0])} and "
                f"positive={show_value(words[1])}"
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
            f"{show_value(class_weight)}; it is not read off the labels, as their counts "
            "are private"
        )
    given = {declared(name, "class_weight: a class"): w for name, w in class_weight.items()}
    if set(given) != set(names):
        raise ValueError(f"class_weight must have a weight for each of {names}, got {list(given)}")
    found = np.array(
        [check_number(f"class_weight of {word!r}", given[word], "(0, inf)") for word in names]
    )
    shares = found / found.max()
    if not np.all(shares.astype(np.float32) > 0):
        raise ValueError(
            f"class_weight must not differ beyond float32, got {show_value(dict(given))}"
        )
    return shares


def _column(name: str, values: RawColumn, rows: int) -> ColumnCells:
    """The cells of labels or of weights; ValueError for no column, or another length."""
    read = cells_of(values, f"{name}: ")
    if len(read) != rows:
        raise ValueError(f"{name} must have the same length as the columns")
    return read


# Files of domains.


def read_domain(path: str | Path, names: Iterable[Hashable] | None = None) -> tuple[Domain, Label]:
    """A domain and its label from a JSON file, UTF-8 text with or without a byte order mark.

    The file holds {"columns": {name: column, ...}, "label": {"column": ..., "positive": ...,
    "negative": ...}}. A column holds its "type" ("numeric", "nominal" or "boolean") and the
    attributes of that class by name. No name may occur twice in one object.

    A label of several classes holds {"column": ..., "type": "nominal", "values": [...]}, and one
    that is a number {"column": ..., "type": "numeric", "low": ..., "high": ...}. The file may also
    hold "weight": {"column": ..., "most": ...}, the weights of rows and the public bound on them,
    and "user": {"column": ..., "most": ...}, the ids of users and how many rows of each count, with
    "ignore_case" if capitals do not matter. And it may hold "names", a list. It holds nothing else.

    A name with a star, such as "x*" or "*", is a pattern. It stands for all names that fit it, but
    for those of the label, the weights and the ids, and those that are declared themselves. The
    first pattern that fits counts. The columns are in the order of the names, which are public:
    those that the file lists as "names", or else `names`.

    Args:
        path: the file.
        names: public names of columns, such as a header, that patterns may cover.

    Raises:
        ValueError: naming the file and what is wrong; and for something that is no path. Also for a
            pattern without names, or that covers none. Also for one that covers numbers which the
            file does not list: where a header was forgotten, they are cells.
        OSError: if the file cannot be read.
    """
    path = as_path("path", path)
    text = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    try:
        content = storage.parse_json(text, "the domain")
        given = content if isinstance(content, dict) else {}
        columns, entry, listed = map(given.get, ("columns", "label", "names"))
        beside = {name: given[name] for name in ("weight", "user") if given.get(name) is not None}
        known = {"columns", "label", *beside, *(key for key in ("names",) if key in given)}
        if not isinstance(columns, dict) or not isinstance(entry, dict) or set(given) != known:
            words = '"columns" and "label", and perhaps "weight", "user" and "names"'
            raise ValueError(f"expected an object with {words}")

        place, domain = "", {}
        try:
            for name, column in columns.items():
                place = f"column {name!r}"
                domain[name] = msgspec.convert(column, Column)  # type: ignore[arg-type]
            check(domain)
            if "type" in entry:
                target = {name: value for name, value in entry.items() if name != "column"}
                entry = {"column": entry.get("column"), "target": target}
            place = "label"
            if {"weight", "user"} & set(entry):
                raise ValueError('"weight" and "user" stand beside "label", and not in it')
            label = msgspec.convert({**entry, **beside}, Label)
            place = "names"
            listed = msgspec.convert(listed, list[str] | None)
        except msgspec.ValidationError as error:
            raise ValueError(f"{place}: {error}") from error
        for what, column in zip(("label", *beside), label.columns, strict=True):
            if column in domain:
                raise ValueError(f"the {what} {column!r} is among the columns")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return _covered(path, domain, label, listed, names), label


def _covered(
    path: Path,
    domain: Domain,
    label: Label,
    listed: Iterable[str] | None,
    names: Iterable[Hashable] | None,
) -> Domain:
    """A domain of a file with the columns that its patterns cover, in the order of the names.

    Args:
        path: of the file.
        domain: kinds by names and patterns.
        label: whose columns no pattern covers.
        listed: the names that the file lists.
        names: those of its reader, if it lists none; they are read only if there is a pattern.

    Raises:
        ValueError: for a pattern without names, or one that covers none.
    """
    if listed is None and not any("*" in name for name in domain):
        return domain
    told = listed or names
    known = [name for name in told or () if isinstance(name, str)]
    wild = {
        name: re.compile(".*".join(map(re.escape, name.split("*"))), re.DOTALL)
        for name in domain
        if "*" in name and name not in known
    }
    if wild and told is None:
        raise ValueError(
            f"{path}: column {next(iter(wild))!r} is a pattern, and needs the names that it "
            'covers: a file with a header, or "names" beside "columns"'
        )
    found, covering = {}, set()
    for name in known:
        covers = [pattern for pattern, words in wild.items() if words.fullmatch(name)]
        by = name if name in domain else next(iter(covers), None)
        if by is None or name in label.columns:
            continue
        if listed is None and by in wild and not math.isnan(number(name)):
            raise ValueError(
                f"{path}: column {by!r} is a pattern that covers names that are numbers; is there "
                'a header line? If so, list the names as "names" in the file'
            )
        found[name] = domain[by]
        covering.add(by)
    if idle := [name for name in wild if name not in covering]:
        raise ValueError(
            f"{path}: column {idle[0]!r} is a pattern that covers none of the names; is there a "
            "header line, and what separates its fields?"
        )
    return {**found, **{name: kind for name, kind in domain.items() if name not in wild}}


OPEN = {"type": "numeric, nominal or boolean?"}
"""Stands for a kind that is to be filled in; no file with it is read as a domain."""

_LABELS: dict[str, dict[str, Any]] = {
    "two": {"positive": None, "negative": None},
    "nominal": {"type": "nominal", "values": []},
    "numeric": {"type": "numeric", "low": None, "high": None},
}

LABEL_TYPES = tuple(_LABELS)
"""What a label may be: one of two classes, one of several, or a number."""

KINDS: dict[str, dict[str, Any]] = {
    "numeric": {"type": "numeric", "low": None, "high": None},
    "nominal": {"type": "nominal", "values": []},
    "boolean": {"type": "boolean", "true": "1", "false": "0"},
}
"""What of each kind is to be filled in."""


def template(
    columns: Iterable[str] | Mapping[str, Mapping[str, Any]],
    label: str | None = None,
    label_type: str = "two",
    every: str | None = None,
    user: str | None = None,
) -> str:
    """A domain as JSON text to fill in and save, for `read_domain`.

    It holds the names of columns, and no value is ever read. What a column may hold is for you to
    fill in from what it means: its kind and its range or values. `read_domain` refuses what is left
    open, by the name of the column.

    Args:
        columns: the names of the columns, such as `files.names_of` or a data frame's `columns`. Or
            what is known of each by its name: a declaration, in which some is null or empty.
        label: the name of the label's column, which is then no attribute.
        label_type: "two" classes, several ("nominal"), or a number ("numeric").
        every: "numeric", "nominal" or "boolean" for one declaration of all columns, whose names are
            listed beside it.
        user: the name of the column of ids of users, which is then no attribute.

    Raises:
        ValueError: for no columns, names that are no text or repeat, or a label or a user that is
            no column, or a label of another type.
    """
    check_choice("label_type", label_type, LABEL_TYPES)
    names = list(columns)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError("names of columns must be text, and must not repeat")
    for what, name in (("label", label), ("user", user)):
        if name is not None and name not in names:
            raise ValueError(f"{what} must be one of the columns, got {name!r}")
    known = columns if isinstance(columns, Mapping) else {}
    content = {name: known.get(name, OPEN) for name in names if name not in (label, user)}
    if not content:
        raise ValueError("a domain needs at least one column")
    entry: dict[str, Any] = {"label": {"column": label, **_LABELS[label_type]}}
    if user is not None:
        entry["user"] = {"column": user, "most": None}
    if every is not None:
        check_choice("every", every, tuple(KINDS))
        return written({"columns": {"*": KINDS[every]}, "names": list(content), **entry})
    return written({"columns": content, **entry})


def written(content: Mapping[str, Any]) -> str:
    """The text of a domain's file: a line for each column."""
    text = functools.partial(json.dumps, ensure_ascii=False)
    columns = (f"    {text(name)}: {text(column)}" for name, column in content["columns"].items())
    rest = (f",\n  {text(key)}: {text(content[key])}" for key in content if key != "columns")
    return '{\n  "columns": {\n' + ",\n".join(columns) + "\n  }" + "".join(rest) + "\n}\n"
