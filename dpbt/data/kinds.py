"""Kinds of columns: what each may hold, the bins that it tells apart, and what is asked of them.

A column has at most 256 public bins. They are intervals of numbers, listed values, or true and
false. Values that are missing or not listed have one more bin where they are told apart. Each kind
says how its values are encoded, which splits there are, in words too, and is kept as JSON by the
names of its attributes.

Targets are declared here too: several classes by `Nominal`, and a number in a range by `Numeric`.
"""

import hashlib
import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from dpbt.common.arithmetic import Array, array_namespace
from dpbt.common.validate import (
    check_boolean,
    check_choice,
    check_interval,
    check_positive_integer,
    show_value,
)
from dpbt.data.cells import (
    ColumnCells,
    declared,
    is_sequence,
    read_codes,
    read_numbers,
    read_truths,
)
from dpbt.public_types import BINARY, MAX_BINS, NUMBER, Response

if TYPE_CHECKING:
    Word: TypeAlias = str
    Real: TypeAlias = float
else:
    Word, Real = str | int | float, int | float
"""Declared values: numbers become words in the making of a column, and integers stay integers."""


class Split(NamedTuple):
    """A public split of a column, by its bins and in words.

    Attributes:
        low: the first bin that satisfies it.
        high: the last bin.
        column: the name of the column.
        yes: what it says where it holds.
        no: what it says where it does not hold.
    """

    low: int
    high: int
    column: str
    yes: str
    no: str


class _Kind(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag=str.lower,
):
    """What all kinds share: their JSON object has a "type", and their attributes by name."""

    def _keep(self, **fields: Any) -> None:
        """Set attributes of a column in the making."""
        for name, value in fields.items():
            msgspec.structs.force_setattr(self, name, value)

    def held(self, bins: list[int]) -> str:
        """What some bins hold."""
        return " or ".join(self.words[bin] for bin in bins)  # type: ignore[attr-defined]

    @property
    def steps(self) -> int:
        """How many of the first splits are thresholds of one attribute."""
        if isinstance(self, Numeric):
            return self.bins - 1
        return len(self.values) - 1 if isinstance(self, Nominal) and self.ordered else 0

    def read(self, values: ColumnCells) -> tuple[np.ndarray, np.ndarray]:
        """(u8[N], bool[N]): the bin of each value, and whether it is missing.

        `_codes` of a kind has the bins, with negative numbers where a value is missing, and the bin
        of what is missing.
        """
        code, unread = self._codes(values)  # type: ignore[attr-defined]
        missing = code < 0
        return np.where(missing, unread, code).astype(np.uint8), missing


class Numeric(_Kind, frozen=True):
    """Numbers in [low, high], cut into intervals at public thresholds.

    The thresholds are the declared `cuts`, or those of a grid of `bins` intervals. There is a split
    "x > threshold" for each. The bin of a number is how many of the thresholds it exceeds. Values
    outside the range count as its nearer end, infinite ones too.

    A cell in which `cells.number` finds no number is missing, and satisfies no threshold. With
    `missing` it has a bin of its own, and there is one more split, "x is missing".

    Attributes:
        low: the lower end of the range.
        high: the upper end.
        bins: how many intervals there are. It is 10 by default, and len(cuts) + 1 with cuts.
        missing: whether there is a split for missing cells.
        cuts: the thresholds, strictly increasing and inside (low, high), in place of a grid.
        scale: "linear" for bins of equal width. "log" for bins of equal width in log(x), or in
            log(1 + x) where low is 0.

    Raises:
        ValueError: unless low < high are finite numbers, bins is an integer of at least 2,
            bins * (high - low) is finite, missing is a Boolean, and there are at most 256 bins.
            Also for cuts out of order or outside the range, and for cuts with another number of
            bins or with scale="log". Also for scale="log" with low < 0, and for bins that are too
            narrow for float64.
    """

    low: Real
    high: Real
    bins: int = None  # type: ignore[assignment]
    missing: bool = False
    cuts: tuple[Real, ...] | None = None
    scale: Literal["linear", "log"] = "linear"

    def __post_init__(self):
        low, high = check_number("Numeric: low", self.low), check_number("Numeric: high", self.high)
        check_boolean("Numeric: missing", self.missing)
        check_choice("Numeric: scale", self.scale, ("linear", "log"))
        cuts, bins = self.cuts, 10 if self.bins is None else self.bins
        if cuts is not None:
            cuts = tuple(
                float(check_number("Numeric: a cut", cut))
                for cut in _check_listed("Numeric: cuts", cuts)
            )
            bins = len(cuts) + 1
            if self.bins not in (None, bins) or self.scale != "linear":
                raise ValueError(
                    f"Numeric: cuts make {bins} bins of no other scale, got "
                    f"bins={show_value(self.bins)} and scale={self.scale!r} beside them"
                )
        bins = check_positive_integer("Numeric: bins", bins, MAX_BINS - bool(self.missing))
        self._keep(low=low, high=high, cuts=cuts, bins=bins, missing=bool(self.missing))

        with np.errstate(all="ignore"):
            in_order = np.all(np.diff([low, *self.thresholds, high]) > 0)
        if bins < 2 or not in_order or (self.scale == "log" and low < 0):
            raise ValueError(
                "Numeric: low, the thresholds of 2 bins or more, and high must be strictly "
                "increasing numbers of float64, from 0 on if the scale is log, got "
                f"{show_value(self)}"
            )

    @property
    def response(self) -> Response:
        """What is predicted of a row whose target is such a number."""
        return NUMBER

    @property
    def of_score(self) -> tuple[float, float, str]:
        """(scale, offset, words): a score times the scale, and the offset, is what words say."""
        return float(self.high) - float(self.low), float(self.low), "prediction"

    @property
    def n_bins(self) -> int:
        """How many bins the column has."""
        return self.bins + self.missing

    @property
    def thresholds(self) -> np.ndarray:
        """float64[bins - 1], ascending: the declared cuts, or the interior points of the grid."""
        if self.cuts is not None:
            return np.array(self.cuts, np.float64)
        low, high = float(self.low), float(self.high)
        if self.scale == "log" and low >= 0:
            shift = 1.0 if low == 0 else 0.0
            return np.geomspace(low + shift, high + shift, self.bins + 1)[1:-1] - shift
        return low + (high - low) * np.arange(1, self.bins) / self.bins

    @property
    def words(self) -> list[str]:
        """What each bin holds: numbers up to a threshold or above the last, or nothing."""
        digits = 4 if self.cuts is None else 15
        ends = [f"{float(f'{end:.{digits}g}'):.15g}" for end in self.thresholds]
        return [*(f"<= {end}" for end in ends), f"> {ends[-1]}"] + ["missing"] * self.missing

    def held(self, bins: list[int]) -> str:
        """What bins next to each other hold, where cells of the bins before them are not meant."""
        words, last = self.words, bins[-1]
        if last == self.bins:
            return " or ".join([*([self.held(bins[:-1])] if bins[1:] else []), words[last]])
        if last + 1 < self.bins:
            return words[last]
        return words[bins[0] - 1].replace("<=", ">") if bins[0] else "any number"

    def splits(self, name: str) -> list[Split]:
        """The public splits, with the column called `name`."""
        digits = 6 if self.cuts is None else 15
        places = [f"{threshold:.{digits}g}" for threshold in self.thresholds]
        above = [
            Split(bin, self.bins - 1, name, f"{name} > {at}", f"{name} <= {at}")
            for bin, at in enumerate(places, 1)
        ]
        return [*above, _missing(name, self.bins)] if self.missing else above

    def _codes(self, values: ColumnCells) -> tuple[np.ndarray, int]:
        number = read_numbers(values)
        exceeded = np.searchsorted(self.thresholds, number, side="left")
        code = np.where(np.isnan(number), np.int16(-1), exceeded.astype(np.int16))
        return code, self.bins if self.missing else 0

    def position(self, values: ColumnCells) -> tuple[np.ndarray, np.ndarray]:
        """(f32[N], bool[N]): numbers in the range as parts of it, and which are missing, at 0."""
        number = read_numbers(values)
        with np.errstate(all="ignore"):  # a warning would tell of some row's large number
            low, high = float(self.low), float(self.high)
            part = np.clip((number - low) / (high - low), 0, 1)
            return np.nan_to_num(part, nan=0.0).astype(np.float32), np.isnan(number)


class Nominal(_Kind, frozen=True):
    """One of the listed values: a split "x = value" for each, or "x >= value" if `ordered`.

    Declared values are kept as `cells.declared` reads them, so that 3, "3" and "3.0" are one value.

    Attributes:
        values: the listed values, each with a bin of its own, in their order.
        other: the listed value that any other value, and a missing one, is read as. With None these
            have a bin of their own, which satisfies no split.
        ordered: whether the order of the bins means something. Then splits are "x >= value" for
            each bin but the first, and all bins are positions of one attribute.

    Raises:
        ValueError: if there are no values, or two are read alike, or `other` is none of them, or
            there are more than 256 bins. If `ordered`, also for a single bin.
    """

    values: tuple[Word, ...] = ()
    other: Word | None = None
    ordered: bool = False

    def __post_init__(self):
        check_boolean("Nominal: ordered", self.ordered)
        what = "Nominal: a declared value"
        values = tuple(declared(v, what) for v in _check_listed("Nominal: values", self.values))
        if len(set(values)) < len(values):
            raise ValueError(f"Nominal: values must be distinct, got {show_value(self.values)}")
        self._keep(values=values, ordered=bool(self.ordered))
        if self.other is not None:
            self._keep(other=declared(self.other, what))
            if self.other not in values:
                raise ValueError(f"Nominal: other must be one of the values, got {self.other!r}")
        if len(self.values) < 1 + self.ordered or self.n_bins > MAX_BINS:
            raise ValueError(
                f"Nominal: a column has 1 to {MAX_BINS} bins, counting one for values that are not "
                f"listed, and 2 without it if ordered; got {self.n_bins}"
            )

    @property
    def response(self) -> Response:
        """What is predicted of a row whose target these values declare."""
        return Response("uint8", len(self.values))

    @property
    def n_bins(self) -> int:
        """How many bins the column has."""
        return len(self.values) + (self.other is None)

    @property
    def words(self) -> list[str]:
        """What each bin holds: a listed value, or any other."""
        return [*map(str, self.values)] + ["not listed"] * (self.other is None)

    def splits(self, name: str) -> list[Split]:
        """The public splits, with the column called `name`."""
        last = len(self.values) - 1
        if self.ordered:
            return [
                Split(bin, last, name, f"{name} >= {value}", f"{name} < {value}")
                for bin, value in enumerate(self.values)
            ][1:]
        return [
            Split(bin, bin, name, f"{name} = {value}", f"{name} is not {value}")
            for bin, value in enumerate(self.values)
        ]

    def _codes(self, values: ColumnCells) -> tuple[np.ndarray, int]:
        """Without `other` a value that is not listed is missing, too."""
        code = read_codes(values, self.values)
        if self.other is None:
            return code, len(self.values)
        other = self.values.index(self.other)
        return np.where(code == -1, other, code), other


class Boolean(_Kind, frozen=True):
    """True or false: one split, "x".

    Python and NumPy Booleans are themselves. Any other cell is true if it reads as the word `true`,
    false if it reads as the word `false`, and else missing. A missing cell does not satisfy "x".
    With `missing` it is told from false, by one more split, "x is missing". The words are kept as
    `cells.declared` reads them.

    Attributes:
        true: the word for true, "1" by default.
        false: the word for false. It is "0" where `true` is "1", and must be declared for any other
            `true`.
        missing: whether there is a split for missing cells.

    Raises:
        ValueError: if `true` is declared without `false`, the two are read alike, or missing is no
            Boolean.
    """

    true: Word = "1"
    false: Word = None  # type: ignore[assignment]
    missing: bool = False

    def __post_init__(self):
        check_boolean("Boolean: missing", self.missing)
        true, false = declared(self.true, "Boolean: true"), self.false
        false = "0" if false is None and true == "1" else declared(false, "Boolean: false")
        if true == false:
            raise ValueError(f"Boolean: true and false must differ, got {true!r} twice")
        self._keep(true=true, false=false, missing=bool(self.missing))

    @property
    def n_bins(self) -> int:
        """How many bins the column has."""
        return 2 + self.missing

    @property
    def words(self) -> list[str]:
        """What each bin holds: the words for false and true, or nothing."""
        return [str(self.false), str(self.true)] + ["missing"] * self.missing

    def splits(self, name: str) -> list[Split]:
        """The public splits, with the column called `name`."""
        itself = Split(1, 1, name, name, f"not {name}")
        return [itself, _missing(name, 2)] if self.missing else [itself]

    def _codes(self, values: ColumnCells) -> tuple[np.ndarray, int]:
        return read_truths(values, self.true, self.false), 2 if self.missing else 0


Column = Numeric | Nominal | Boolean


def positions_of(kind: Column) -> list[np.ndarray]:
    """f32[MAX_BINS] for each attribute of a column: the position of each of its bins.

    The thresholds of a column make one attribute, at equal distances from 0 to 1, and each other
    split is one of its own.
    """
    alone = [np.arange(MAX_BINS) == split.low for split in kind.splits("")[kind.steps :]]
    if kind.steps:
        ordered = np.zeros(MAX_BINS, np.float32)
        ordered[: kind.steps + 1] = np.arange(kind.steps + 1, dtype=np.float32)
        alone.insert(0, ordered / np.float32(kind.steps))
    return [position.astype(np.float32) for position in alone]


def _missing(name: str, bin: int) -> Split:
    return Split(bin, bin, name, f"{name} is missing", f"{name} is given")


def check_number(name: str, value: Any, interval: str = "(-inf, inf)") -> float:
    """One number in an interval, of Python; an integer stays one. ValueError for anything else."""
    if check_interval(name, value, interval).ndim > 0:
        raise ValueError(f"{name} must be one number, got {show_value(value)}")
    return np.asarray(value).item()


def _check_listed(name: str, values: Any) -> list:
    """The entries of a declared list; ValueError naming it if it is text, a set or a mapping."""
    if not is_sequence(values):
        raise ValueError(f"{name} must be a list, got {show_value(values)}")
    return list(values)


class Objective(Numeric, frozen=True, kw_only=True):
    """A number in a declared range, of which something else than the squared error counts.

    - "poisson": the mean of a count, through its logarithm. Scores are the logarithm of the mean as
      a part of `high`, and at most 0, which is `high` itself.
    - "quantile": the number that a share `level` of the rows with such columns does not exceed.

    Attributes:
        low: the lower end of the range; 0 for a count.
        high: the upper end.
        objective: "poisson" or "quantile".
        level: of a quantile, in [0.01, 0.99].

    Raises:
        ValueError: as `Numeric`; for counts that do not start at 0, for a level outside of its
            range, and for one beside a count.
    """

    objective: Literal["poisson", "quantile"]
    level: float | None = None

    def __post_init__(self):
        super().__post_init__()
        check_choice("objective", self.objective, ("poisson", "quantile"))
        if self.objective == "quantile":
            self._keep(level=check_number("the level of a quantile", self.level, "[0.01, 0.99]"))
        elif self.level is not None:
            raise ValueError(f"a level is for quantiles, got {show_value(self.level)} for a count")
        elif self.low != 0:
            raise ValueError(f"a count must be in a range from 0 on, got low={self.low:g}")

    @property
    def response(self) -> Response:
        """What is predicted of a row whose target is such a number."""
        return Response("float32", 0, self.objective, self.level or 0.0)

    @property
    def of_score(self) -> tuple[float, float, str]:
        """As of `Numeric`; of a count it is the logarithm that scores add up to."""
        if self.objective == "quantile":
            return super().of_score
        return 1.0, math.log(self.high), "logarithm of the prediction"


Target = Nominal | Numeric | Objective
"""The declared classes, or the declared range of a number and what is predicted of it."""


def with_objective(
    target: Target | None, objective: str | None, level: float | None
) -> Target | None:
    """The target, with another objective if one is given.

    Args:
        target: what is predicted.
        objective: "squared", "poisson" or "quantile"; None for that of the target.
        level: of a quantile.

    Raises:
        ValueError: for a target that is no number, and as `Objective`.
    """
    if objective is None and level is None:
        return target
    check_choice("objective", objective, ("squared", "poisson", "quantile"))
    if not isinstance(target, Numeric):
        raise ValueError(
            f"objective={objective!r} is for a number in a declared range; the target is "
            f"{response_of(target).words}"
        )
    if objective == "squared" and level is None:
        return Numeric(target.low, target.high) if isinstance(target, Objective) else target
    return Objective(target.low, target.high, objective=objective, level=level)  # type: ignore[arg-type]


def response_of(target: Target | None) -> Response:
    """What is predicted; None stands for two classes.

    Raises:
        ValueError: naming what was given, unless it declares several classes, or a range alone.
    """
    if target is None:
        return BINARY
    several = isinstance(target, Nominal) and len(target.values) > 1
    range_alone = isinstance(target, Numeric) and (
        (target.cuts, target.scale, target.missing) == (None, "linear", False)
    )
    if not several and not range_alone:
        raise ValueError(
            "target must be domains.Nominal of two classes or more, domains.Numeric with low and "
            f"high alone, or None for two classes, got {show_value(target)}"
        )
    return target.response


def target_fingerprint(target: Target) -> np.ndarray:
    """u32[2]: tells declared classes, in their order, and declared ranges apart."""
    if isinstance(target, Numeric):
        words = repr((float(target.low), float(target.high)))
    else:
        words = repr((target.values, target.other))
    return np.frombuffer(hashlib.sha256(words.encode()).digest()[:8], np.uint32)


def same_labels(first: Target | None, second: Target | None) -> bool:
    """Whether tables of two targets have the same labels, whatever the objective is."""
    if first is None or second is None:
        return first is second
    return np.array_equal(target_fingerprint(first), target_fingerprint(second))


def number_of_position(target: Numeric, position: Array) -> Array:
    """f[...]: predicted scores in units of the target, clipped to its range; f32 with JAX.

    A score is a position in the range, or the logarithm of that of a count.
    """
    low, high, xp = float(target.low), float(target.high), array_namespace(position)
    exact = position.astype(np.float64) if xp is np else position
    if target.response.objective == "poisson":
        exact = xp.exp(xp.minimum(exact, 0.0))
    return xp.clip(low + (high - low) * xp.clip(exact, 0.0, 1.0), low, high)
