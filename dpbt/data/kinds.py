"""Kinds of columns: their declared values, their bins, and their splits.

A column has at most 256 public bins: intervals of numbers, listed values, or true and false. A
column that distinguishes missing or unlisted values has one more bin for them. Each kind encodes
values as bins, lists the public splits with their words, and is stored as a JSON object of its
attributes.

This module also declares targets: several classes by `Nominal`, and a number in a range by
`Numeric`.
"""

import hashlib
import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from jaxtyping import Float, UInt32

from dpbt.common.arithmetic import Array, array_namespace, portable_exp
from dpbt.common.validate import (
    check_boolean,
    check_choice,
    check_interval,
    check_positive_integer,
    show_value,
)
from dpbt.data.cells import (
    ColumnCells,
    declared_word,
    is_sequence,
    read_booleans,
    read_numbers,
    read_word_indices,
)
from dpbt.public_types import BINARY, MAX_BINS, NUMBER, Response, redacted_repr

if TYPE_CHECKING:
    Word: TypeAlias = str
    Real: TypeAlias = float
else:
    Word, Real = str | int | float, int | float
"""Declared values. A column turns the numbers among its words into text; integers stay integers."""


class Split(NamedTuple):
    """A public split of a column, by its bins and in words.

    Attributes:
        low: the first bin that satisfies it.
        high: the last bin that satisfies it.
        column: the name of the column.
        yes: the words for rows that satisfy it.
        no: the words for rows that do not.
    """

    low: int
    high: int
    column: str
    yes: str
    no: str


class ColumnBins(NamedTuple):
    """The bins of the cells of a column; private.

    Attributes:
        bins: u8[N]: the bin of each cell.
        missing: bool[N]: whether the cell is missing.
    """

    bins: np.ndarray
    missing: np.ndarray

    __repr__ = redacted_repr


class RangePositions(NamedTuple):
    """Where the numbers of a column lie in its range; private.

    Attributes:
        position: f32[N]: from 0 at the lower end to 1 at the upper end; 0 if missing.
        missing: bool[N]: whether the cell is missing.
    """

    position: np.ndarray
    missing: np.ndarray

    __repr__ = redacted_repr


class ScoreUnits(NamedTuple):
    """How a score is stated in the units of its target: as scale * score + offset.

    Attributes:
        scale: units of the target for each unit of the score.
        offset: the number of a score of 0.
        words: the name of the result.
    """

    scale: float
    offset: float
    words: str


class _ColumnKind(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag=str.lower,
):
    """Base of all kinds: their JSON object has a "type", and their attributes by name."""

    def _set_fields(self, **fields: Any) -> None:
        """Set attributes of a frozen column while it is constructed."""
        for name, value in fields.items():
            msgspec.structs.force_setattr(self, name, value)

    def describe_bins(self, bins: list[int]) -> str:
        """The words for the cells of any of these bins."""
        return " or ".join(self.bin_words[bin] for bin in bins)  # type: ignore[attr-defined]

    @property
    def num_thresholds(self) -> int:
        """How many of the first `splits` are thresholds of one attribute."""
        if isinstance(self, Numeric):
            return self.bins - 1
        return len(self.values) - 1 if isinstance(self, Nominal) and self.ordered else 0

    def read_bins(self, cells: ColumnCells) -> ColumnBins:
        """The bin of each cell, and whether the cell is missing.

        `_read_bins_or_negative` of each kind returns the bins, and negative numbers for missing
        cells.
        """
        codes = self._read_bins_or_negative(cells)  # type: ignore[attr-defined]
        missing = codes < 0
        bins = np.where(missing, self._bin_of_missing, codes)  # type: ignore[attr-defined]
        return ColumnBins(bins.astype(np.uint8), missing)


class Numeric(_ColumnKind, frozen=True):
    """Numbers in [low, high], cut into intervals at public thresholds.

    The thresholds are the declared `cuts`, or those of a grid of `bins` intervals. There is a split
    "x > threshold" for each. The bin of a number is how many of the thresholds it exceeds. Values
    outside the range, also infinite ones, count as its nearer end.

    A cell in which `cells.read_number` finds no number is missing, and satisfies no threshold. With
    `missing` it has a bin of its own, and there is one more split, "x is missing".

    Attributes:
        low: the lower end of the range.
        high: the upper end.
        bins: the number of intervals: 10 by default, and len(cuts) + 1 with cuts.
        missing: whether there is a split for missing cells.
        cuts: the thresholds, strictly increasing and inside (low, high), instead of a grid.
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
                for cut in _as_list("Numeric: cuts", cuts)
            )
            bins = len(cuts) + 1
            if self.bins not in (None, bins) or self.scale != "linear":
                raise ValueError(
                    f"Numeric: cuts make {bins} bins of no other scale, got "
                    f"bins={show_value(self.bins)} and scale={self.scale!r} beside them"
                )
        bins = check_positive_integer("Numeric: bins", bins, MAX_BINS - bool(self.missing))
        self._set_fields(low=low, high=high, cuts=cuts, bins=bins, missing=bool(self.missing))

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
        """The response that a model predicts for a target of this range."""
        return NUMBER

    @property
    def score_units(self) -> ScoreUnits:
        """How scores are stated in the units of the range."""
        return ScoreUnits(float(self.high) - float(self.low), float(self.low), "prediction")

    @property
    def n_bins(self) -> int:
        """The number of bins of the column."""
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
    def bin_words(self) -> list[str]:
        """The words for each bin: numbers up to a threshold or above the last, or missing cells."""
        digits = 4 if self.cuts is None else 15
        ends = [f"{float(f'{end:.{digits}g}'):.15g}" for end in self.thresholds]
        return [*(f"<= {end}" for end in ends), f"> {ends[-1]}"] + ["missing"] * self.missing

    def describe_bins(self, bins: list[int]) -> str:
        """The words for the cells of these adjacent bins, and of no bins before them."""
        words, last = self.bin_words, bins[-1]
        if last == self.bins:
            numbers = [self.describe_bins(bins[:-1])] if bins[1:] else []
            return " or ".join([*numbers, words[last]])
        if last + 1 < self.bins:
            return words[last]
        return words[bins[0] - 1].replace("<=", ">") if bins[0] else "any number"

    def splits(self, name: str) -> list[Split]:
        """The public splits, with the column called `name`."""
        digits = 6 if self.cuts is None else 15
        thresholds = [f"{threshold:.{digits}g}" for threshold in self.thresholds]
        above = [
            Split(bin, self.bins - 1, name, f"{name} > {threshold}", f"{name} <= {threshold}")
            for bin, threshold in enumerate(thresholds, 1)
        ]
        return [*above, _missing_split(name, self.bins)] if self.missing else above

    @property
    def _bin_of_missing(self) -> int:
        return self.bins if self.missing else 0

    def _read_bins_or_negative(self, cells: ColumnCells) -> np.ndarray:
        numbers = read_numbers(cells)
        num_exceeded = np.searchsorted(self.thresholds, numbers, side="left")
        return np.where(np.isnan(numbers), np.int16(-1), num_exceeded.astype(np.int16))

    def read_positions(self, cells: ColumnCells) -> RangePositions:
        """Where the number of each cell lies in the range, and whether the cell is missing."""
        numbers = read_numbers(cells)
        with np.errstate(all="ignore"):  # a warning would tell of some row's large number
            low, high = float(self.low), float(self.high)
            position = np.clip((numbers - low) / (high - low), 0, 1)
            position = np.nan_to_num(position, nan=0.0).astype(np.float32)
            return RangePositions(position, np.isnan(numbers))


class Nominal(_ColumnKind, frozen=True):
    """One of the listed values: a split "x = value" for each, or "x >= value" if `ordered`.

    Declared values are stored as `cells.declared_word` reads them, so that 3, "3" and "3.0" are one
    value.

    Attributes:
        values: the listed values in order, each with a bin of its own.
        other: the listed value as which any other value, and a missing one, is read. With None
            these have a bin of their own, which satisfies no split.
        ordered: whether the order of the values means something. Then there is a split "x >= value"
            for each value but the first, and all values are positions of one attribute.

    Raises:
        ValueError: if there are no values, or two are read alike, or `other` is none of them, or
            there are more than 256 bins. If `ordered`, also for a single bin.
    """

    values: tuple[Word, ...] = ()
    other: Word | None = None
    ordered: bool = False

    def __post_init__(self):
        check_boolean("Nominal: ordered", self.ordered)
        name = "Nominal: a declared value"
        values = tuple(declared_word(v, name) for v in _as_list("Nominal: values", self.values))
        if len(set(values)) < len(values):
            raise ValueError(f"Nominal: values must be distinct, got {show_value(self.values)}")
        self._set_fields(values=values, ordered=bool(self.ordered))
        if self.other is not None:
            self._set_fields(other=declared_word(self.other, name))
            if self.other not in values:
                raise ValueError(f"Nominal: other must be one of the values, got {self.other!r}")
        if len(self.values) < 1 + self.ordered or self.n_bins > MAX_BINS:
            raise ValueError(
                f"Nominal: a column has 1 to {MAX_BINS} bins, counting one for values that are not "
                f"listed, and 2 without it if ordered; got {self.n_bins}"
            )

    @property
    def response(self) -> Response:
        """The response that a model predicts for a target of these classes."""
        return Response("uint8", len(self.values))

    @property
    def n_bins(self) -> int:
        """The number of bins of the column."""
        return len(self.values) + (self.other is None)

    @property
    def bin_words(self) -> list[str]:
        """The words for each bin: a listed value, or any other."""
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

    @property
    def _bin_of_missing(self) -> int:
        return len(self.values) if self.other is None else self.values.index(self.other)

    def _read_bins_or_negative(self, cells: ColumnCells) -> np.ndarray:
        """Without `other` a value that is not listed is missing, too."""
        codes = read_word_indices(cells, self.values)
        return codes if self.other is None else np.where(codes == -1, self._bin_of_missing, codes)


class Boolean(_ColumnKind, frozen=True):
    """True or false: one split, "x".

    Python and NumPy Booleans are themselves. Any other cell is true if its word is `true`, false if
    its word is `false`, and missing otherwise. A missing cell does not satisfy "x". With `missing`
    it is told from false by one more split, "x is missing". The words are stored as
    `cells.declared_word` reads them.

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
        true = declared_word(self.true, "Boolean: true")
        if self.false is None and true == "1":
            false = "0"
        else:
            false = declared_word(self.false, "Boolean: false")
        if true == false:
            raise ValueError(f"Boolean: true and false must differ, got {true!r} twice")
        self._set_fields(true=true, false=false, missing=bool(self.missing))

    @property
    def n_bins(self) -> int:
        """The number of bins of the column."""
        return 2 + self.missing

    @property
    def bin_words(self) -> list[str]:
        """The words for each bin: those for false and true, or missing cells."""
        return [str(self.false), str(self.true)] + ["missing"] * self.missing

    def splits(self, name: str) -> list[Split]:
        """The public splits, with the column called `name`."""
        is_true = Split(1, 1, name, name, f"not {name}")
        return [is_true, _missing_split(name, 2)] if self.missing else [is_true]

    @property
    def _bin_of_missing(self) -> int:
        return 2 if self.missing else 0

    def _read_bins_or_negative(self, cells: ColumnCells) -> np.ndarray:
        return read_booleans(cells, self.true, self.false)


Column = Numeric | Nominal | Boolean


def bin_positions_by_attribute(kind: Column) -> list[np.ndarray]:
    """f32[MAX_BINS] for each attribute of a column: the position of each of its bins.

    The thresholds of a column make one attribute, whose bins lie at equal distances from 0 to 1.
    Each other split is an attribute of its own.
    """
    other_splits = kind.splits("")[kind.num_thresholds :]
    positions = [np.arange(MAX_BINS) == split.low for split in other_splits]
    if kind.num_thresholds:
        ordered = np.zeros(MAX_BINS, np.float32)
        ordered[: kind.num_thresholds + 1] = np.arange(kind.num_thresholds + 1, dtype=np.float32)
        positions.insert(0, ordered / np.float32(kind.num_thresholds))
    return [position.astype(np.float32) for position in positions]


def _missing_split(name: str, bin: int) -> Split:
    """The split of missing cells, which are in the bin `bin`."""
    return Split(bin, bin, name, f"{name} is missing", f"{name} is given")


def check_number(name: str, value: Any, interval: str = "(-inf, inf)") -> float:
    """`value` as a Python number in an interval; an integer stays one. ValueError otherwise."""
    if check_interval(name, value, interval).ndim > 0:
        raise ValueError(f"{name} must be one number, got {show_value(value)}")
    return np.asarray(value).item()


def _as_list(name: str, values: Any) -> list:
    """The entries of a declared list; ValueError naming it for text, a set or a mapping."""
    if not is_sequence(values):
        raise ValueError(f"{name} must be a list, got {show_value(values)}")
    return list(values)


class Objective(Numeric, frozen=True, kw_only=True):
    """A number in a declared range, for which a model minimises another loss than squared error.

    - "poisson": the mean of a count, through its logarithm. The score is the logarithm of the mean
      as a share of `high`. It is at most 0, which stands for `high` itself.
    - "quantile": the number that a share `level` of the rows with such columns does not exceed.

    Attributes:
        low: the lower end of the range; 0 for a count.
        high: the upper end.
        objective: "poisson" or "quantile".
        level: the level of a quantile, in [0.01, 0.99].

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
            self._set_fields(
                level=check_number("the level of a quantile", self.level, "[0.01, 0.99]")
            )
        elif self.level is not None:
            raise ValueError(f"a level is for quantiles, got {show_value(self.level)} for a count")
        elif self.low != 0:
            raise ValueError(f"a count must be in a range from 0 on, got low={self.low:g}")

    @property
    def response(self) -> Response:
        """The response that a model predicts for a target with this objective."""
        return Response("float32", 0, self.objective, self.level or 0.0)

    @property
    def score_units(self) -> ScoreUnits:
        """As for `Numeric`. The scores of a count are stated as the logarithm of the count."""
        if self.objective == "quantile":
            return super().score_units
        return ScoreUnits(1.0, math.log(self.high), "logarithm of the prediction")


Target = Nominal | Numeric | Objective
"""The declared classes, or the declared range of a number, perhaps with an objective."""


def target_with_objective(
    target: Target | None, objective: str | None, level: float | None
) -> Target | None:
    """The target with this objective, or unchanged if both arguments are None.

    Args:
        target: the declared classes or range; None for two classes.
        objective: "squared", "poisson" or "quantile"; None for that of the target.
        level: the level of a quantile.

    Raises:
        ValueError: for a target that is not a number, and as `Objective`.
    """
    if objective is None and level is None:
        return target
    check_choice("objective", objective, ("squared", "poisson", "quantile"))
    if not isinstance(target, Numeric):
        raise ValueError(
            f"objective={objective!r} is for a number in a declared range; the target is "
            f"{response_of_target(target).words}"
        )
    if objective == "squared" and level is None:
        return Numeric(target.low, target.high) if isinstance(target, Objective) else target
    return Objective(target.low, target.high, objective=objective, level=level)  # type: ignore[arg-type]


def response_of_target(target: Target | None) -> Response:
    """The response that a model predicts for a target; a target of None declares two classes.

    Raises:
        ValueError: showing the target, unless it declares several classes, or a range and no more.
    """
    if target is None:
        return BINARY
    has_several_classes = isinstance(target, Nominal) and len(target.values) > 1
    is_plain_range = isinstance(target, Numeric) and (
        (target.cuts, target.scale, target.missing) == (None, "linear", False)
    )
    if not has_several_classes and not is_plain_range:
        raise ValueError(
            "target must be domains.Nominal of two classes or more, domains.Numeric with low and "
            f"high alone, or None for two classes, got {show_value(target)}"
        )
    return target.response


def target_fingerprint(target: Target) -> UInt32[np.ndarray, "2"]:
    """u32[2]: a hash of the declared classes, in their order, or of the declared range."""
    if isinstance(target, Numeric):
        words = repr((float(target.low), float(target.high)))
    else:
        words = repr((target.values, target.other))
    return np.frombuffer(hashlib.sha256(words.encode()).digest()[:8], np.uint32)


def have_same_labels(first: Target | None, second: Target | None) -> bool:
    """Whether two targets declare the same classes or range, whatever their objectives."""
    if first is None or second is None:
        return first is second
    return np.array_equal(target_fingerprint(first), target_fingerprint(second))


def predicted_numbers(target: Numeric, scores: Array) -> Float[Array, "..."]:
    """f[...]: the numbers that scores f32[...] predict, clipped to the range; f32 with JAX.

    A score is a position in the range, or for a count the logarithm of the position.
    """
    low, high, xp = float(target.low), float(target.high), array_namespace(scores)
    position = scores.astype(np.float64) if xp is np else scores
    if target.response.objective == "poisson":
        position = portable_exp(xp.minimum(position, 0.0))
    return xp.clip(low + (high - low) * xp.clip(position, 0.0, 1.0), low, high)
