"""Public types that need no JAX: domains, splits, responses, trees and relations."""

from __future__ import annotations  # array types are names in annotations only

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, NoReturn, Self

import numpy as np

AnyArray = Any
"""An array of NumPy or of JAX; `dpbt.types.Array` is one of JAX alone.

It is `Any`, because this module does not import JAX, and no union of the two has both's functions.
"""

Numbers = Any
"""A number, or an array with axes of settings, of NumPy or JAX and perhaps traced."""

BOOSTED = (
    "auto",
    "additive",
    "oblivious_boost",
    "bdpe",
    "lazybb_rules",
    "lazybb_trees",
    "halfspace_boost",
)
"""The recipes that estimators and the command line know by name; `recipes.NAMED` has them."""

FORESTS = ("random_forest", "rf_l", "rf_e")
"""The recipes of random trees that they know by name."""

Site = str
"""The name of a draw of a program, such as "leaf", and the key of its output in a release."""

UNSPLIT = -1
"""The split of a node that is not split. It routes every row left."""

MAX_BINS = 256
"""The largest number of bins of a feature, as a bin is a uint8."""

GRID = 127
"""Weights of rows are integers in 0..GRID, in units of `WeightsAndCap.cap` / GRID.

GRID is the largest int8. Exact products of int8 are the fastest that a CPU has.
"""

MAX_ROWS = 2**24
"""The most rows in memory, 16.8 million: float32 holds their number, int32 their noisy weights."""

MAX_ROWS_IN_BLOCKS = 2**40
"""The most rows of a table in blocks, 10^12. Their sums are below 2^53."""


def redacted_repr(self: Any) -> str:
    """The `repr` of an object that holds private rows, which shows no value.

    It has the names of the object's fields and their dtypes.

    It shows no value, and no length except F, as any other may be the number of rows. Classes with
    private fields use it as their `__repr__`.
    """
    names = getattr(self, "_fields", ()) or tuple(vars(self))
    fields = {name: getattr(self, name) for name in names}
    shown = [
        f"{name}: {field.dtype}" if hasattr(field, "dtype") else name
        for name, field in fields.items()
        if field is not None
    ]
    if "splits" in fields and getattr(self.bins, "ndim", 0) == 2:  # not columns by rows
        shown.insert(0, f"{self.bins.shape[1]} columns")
    return f"{type(self).__name__}({', '.join(shown)}; values not shown)"


class DeclaredDomain(Mapping[str, Any]):
    """A public domain that never changes, as tables, recipes and models carry it.

    It can be used wherever a domain can. Two are equal if their columns have the same names and the
    same kinds, with all attributes, in the same order: then each cell has the same bin, and a bin
    means the same. Names are compared as text, which is how files store them. As it is hashable, it
    can be a static argument of programs of JAX. `domains.as_declared_domain` makes one, and
    `domains.describe_difference` says how two differ.

    Attributes:
        columns: (name, kind) of each column, in order.
    """

    __slots__ = ("_by_text", "_hash", "_kinds", "columns")

    columns: tuple[tuple[str, Any], ...]

    def __init__(self, columns: Iterable[tuple[str, Any]]):
        self.columns = tuple(columns)
        self._kinds = dict(self.columns)
        self._by_text = tuple((str(name), kind) for name, kind in self.columns)
        self._hash = hash(self._by_text)

    def __getitem__(self, name: str) -> Any:
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, DeclaredDomain):
            return self._hash == other._hash and self._by_text == other._by_text
        if isinstance(other, Mapping):
            return self._by_text == tuple((str(name), kind) for name, kind in other.items())
        return NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"DeclaredDomain({self._kinds!r})"

    def __reduce__(self) -> Any:
        return DeclaredDomain, (self.columns,)


class QuantileResidual(NamedTuple):
    """The two residuals of a quantile, in integers of the grid of weights.

    Attributes:
        above: the residual of a row whose number is at or above its score.
        below: the absolute residual of a row whose number is below its score; the residual is
            negative.
    """

    above: int
    below: int


class Response(NamedTuple):
    """The kind of answer that a model predicts: one of two classes, one of several, or a number.

    Attributes:
        target_dtype: the dtype of `Table.target`. "bool": whether the row is of the positive class.
            "uint8": the index of its class. "float32": its number, as a position in a declared
            range.
        num_classes: K, the number of classes; 0 for a number.
        objective: for a number "squared", "poisson" or "quantile" (`kinds.Objective`).
        level: the level of a quantile; 0 for other objectives.
    """

    target_dtype: str
    num_classes: int
    objective: str = "squared"
    level: float = 0.0

    @property
    def is_number(self) -> bool:
        """Whether the model predicts a number, whatever the objective."""
        return self.target_dtype == "float32"

    @property
    def score_axes(self) -> tuple[int, ...]:
        """The shape of the score of one row: (K,) for several classes, () otherwise.

        In arrays these axes come before that of rows.
        """
        return (self.num_classes,) if self.target_dtype == "uint8" else ()

    @property
    def quantile_residual_on_grid(self) -> QuantileResidual:
        """The two residuals of a quantile, rounded to units of the grid of weights.

        They are q and 1 - q, in units of the larger one / GRID.

        For a quantile alone; other objectives have no level q.
        """
        larger = max(self.level, 1 - self.level)
        return QuantileResidual(
            above=round(GRID * self.level / larger), below=round(GRID * (1 - self.level) / larger)
        )

    @property
    def description(self) -> str:
        """The words for the response in errors and identities, such as "one of two classes"."""
        match self.target_dtype, self.objective:
            case "bool", _:
                return "one of two classes"
            case "uint8", _:
                return f"one of {self.num_classes} classes"
            case _, "poisson":
                return "a count"
            case _, "quantile":
                return f"the {self.level:g} quantile of a number"
        return "a number"


BINARY = Response(target_dtype="bool", num_classes=2)
"""The response of two classes."""

NUMBER = Response(target_dtype="float32", num_classes=0)
"""The response of a number in a declared range."""


class Splits(NamedTuple):
    """The public splits and attributes of a table's features.

    A bin that no split contains satisfies no split and is at position 0 of every attribute.
    `dpbt.splits` computes from them and from bins the splits that rows satisfy, and positions.

    Attributes:
        feature: i32[S]: the feature that split s reads.
        low: u8[S]: a row satisfies split s if low[s] <= its bin of that feature <= high[s].
        high: u8[S]: see `low`.
        attribute: i32[A]: the feature that attribute a reads. Attributes are for learners that draw
            thresholds or read numbers.
        position: f32[A, MAX_BINS]: the position in [0, 1] of each bin of the attribute's feature.
        allowed: bool[S] or None: the splits that may be chosen; None for all. It pads tables of
            different domains to a common shape.
    """

    feature: AnyArray
    low: AnyArray
    high: AnyArray
    attribute: AnyArray
    position: AnyArray
    allowed: AnyArray | None = None


def have_same_splits(first: Splits, second: Splits) -> bool:
    """Whether two tables have equal splits and positions.

    `allowed` is not compared.
    """
    pairs: Any = zip(first[:5], second[:5], strict=True)
    return all(np.array_equal(*pair) for pair in pairs)


def splits_of_boolean_features(num_features: int) -> Splits:
    """Make the splits of Boolean features, which have the bins 0 and 1.

    Split s and attribute s read feature s.
    """
    features = np.arange(num_features, dtype=np.int32)
    ones = np.ones(num_features, np.uint8)
    position = np.zeros((num_features, MAX_BINS), np.float32)
    position[:, 1] = 1
    return Splits(feature=features, low=ones, high=ones, attribute=features, position=position)


class Tree(NamedTuple):
    """A complete binary tree of depth D.

    Attributes:
        split: i32[2^D - 1], heap order: the children of node i are 2i+1 (split false) and 2i+2
            (true). `UNSPLIT` routes every row left.
        leaf: f32[2^D]: the value added to the score of a row that ends there.
    """

    split: AnyArray
    leaf: AnyArray


class HoldsFunctions:
    """Base of immutable classes that hold functions, and so cannot be pickled.

    Pickling an instance raises a TypeError that names the alternative. A copy is the object itself.
    """

    _alternative: ClassVar[str]
    """What to keep in place of a pickle, in words."""

    def __reduce__(self) -> NoReturn:
        name = type(self).__name__.lower()
        raise TypeError(f"a {name} holds functions and cannot be pickled; keep {self._alternative}")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class Relation(enum.Enum):
    """The relation of neighbouring tables. Its members have the names of dp_accounting."""

    ADD_OR_REMOVE_ONE = "add_remove"
    REPLACE_ONE = "replace_one"


ADD_REMOVE = Relation.ADD_OR_REMOVE_ONE
REPLACE_ONE = Relation.REPLACE_ONE


def as_relation(name: str | Relation) -> Relation:
    """The neighbouring relation of this name: "add_remove" or "replace_one".

    Args:
        name: the name, or a `Relation`, which is returned.

    Raises:
        ValueError: for any other name.
    """
    try:
        return Relation(name)
    except ValueError:
        names = [member.value for member in Relation]
        raise ValueError(f"relation must be one of {names}, got {name!r}") from None


def num_changed_rows(relation: Relation) -> int:
    """The number of rows in which neighbours differ: 1 under add/remove, 2 under replace-one.

    As many entries of a statistic that each row adds to once may change.

    Raises:
        ValueError: for any other relation than add/remove and replace-one.
    """
    if relation is ADD_REMOVE:
        return 1
    if relation is REPLACE_ONE:
        return 2
    raise ValueError(f"no bound is known under {relation!r}")
