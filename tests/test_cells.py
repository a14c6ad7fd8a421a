"""Cells are read as a table lists, alone or in columns, and no cell changes another."""

import contextlib
import dataclasses
import datetime
import decimal
import enum
import fractions
import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbt.data import cells, domains
from dpbt.data.domains import Boolean, Nominal, Numeric
from tests.support.odd_inputs import (
    INF,
    NAN,
    Anything,
    LyingBytes,
    LyingFloat,
    LyingInt,
    LyingText,
    object_array,
)
from tests.support.slow_cases import mark_slow_cases

Tariff = enum.IntEnum("Tariff", ["LOW", "HIGH"])


READINGS = [
    # A cell, its number and its word.
    (None, NAN, None),
    (True, 1.0, "True"),
    (3, 3.0, "3"),
    (np.int8(3), 3.0, "3"),
    (np.uint64(2**64 - 1), 2.0**64, "18446744073709551615"),
    (Tariff.HIGH, 2.0, "2"),
    (10**400, INF, None),
    (-(10**5000), -INF, None),
    (3.0, 3.0, "3"),
    (-0.0, -0.0, "0"),
    (1e23, 1e23, "1e+23"),
    (NAN, NAN, None),
    (np.float32(0.1), float(np.float32(0.1)), "0.1"),
    (np.float32(1e-4), float(np.float32(1e-4)), "0.0001"),
    (np.float16("inf"), INF, "inf"),
    (np.longdouble(0.1), 0.1, "0.1"),
    (np.longdouble("1.5"), 1.5, "1.5"),
    (np.longdouble("1e4000"), INF, "1e+4000"),
    ("3", 3.0, "3"),
    (" 3.00 ", 3.0, "3"),
    ("-0.0", -0.0, "0"),
    ("03", 3.0, "03"),
    ("1e+23", 1e23, "1e+23"),
    ("-Infinity", -INF, "-Infinity"),
    ("nan", NAN, None),
    ("", NAN, None),
    ("1_000", NAN, "1_000"),
    ("\u0663", NAN, "\u0663"),
    ("a\0b", NAN, "a\0b"),
    ("\ud800", NAN, "\ud800"),
    ("9" * 5000, INF, "9" * 5000),
    (b" 3.0", 3.0, "3"),
    (b"\xff", NAN, None),
    (decimal.Decimal("3.00"), 3.0, "3"),
    (decimal.Decimal("sNaN"), NAN, None),
    (decimal.Decimal("1E+1000000"), INF, "1E+1000000"),
    (fractions.Fraction(6, 2), NAN, None),
    (datetime.date(2020, 1, 31), NAN, None),
    (np.datetime64("2020-01-31"), NAN, None),
    (LyingFloat(2.5), 2.5, "2.5"),
    (LyingInt(3), 3.0, "3"),
    (LyingText(" 3.0"), 3.0, "3"),
    (LyingBytes(b"a"), NAN, "a"),
    (object.__new__(Anything), NAN, None),
    (Anything, NAN, None),
]


def same_bits(a, b):
    return np.array_equal(np.asarray(a, float).view(np.int64), np.asarray(b, float).view(np.int64))


def test_each_cell_is_read_as_the_listed_number_and_word():
    for index, (cell, expected_number, expected_word) in enumerate(READINGS):
        number = cells.read_number(cell)
        assert type(number) is float, index
        assert same_bits(number, expected_number), index
        assert cells.read_word(cell) == expected_word, index
        if type(cell) is not bool and type(cell) is not np.bool_:
            expected_boolean = {"3": True, "a": False}.get(expected_word)
            assert cells.read_boolean(cell, "3", "a") is expected_boolean, index


def test_columns_of_all_kinds_are_read_as_their_cells():
    odd_cells = [cell for cell, _, _ in READINGS]
    listed = ("3", "a", "True", "NA", "")
    for column in (odd_cells, tuple(odd_cells), object_array(odd_cells)):
        column_cells = cells.column_cells(column)
        assert same_bits(
            cells.read_numbers(column_cells), [cells.read_number(cell) for cell in odd_cells]
        )
        words = [cells.read_word(cell, listed) for cell in odd_cells]
        codes = [
            -2 if word is None else listed.index(word) if word in listed else -1 for word in words
        ]
        assert cells.read_word_indices(column_cells, listed).tolist() == codes
        truths = [cells.read_boolean(cell, "3", "a") for cell in odd_cells]
        codes = [-1 if truth is None else int(truth) for truth in truths]
        assert cells.read_booleans(column_cells, "3", "a").tolist() == codes


def test_a_listed_word_means_its_value_though_it_looks_missing():
    assert cells.read_word(" NA", ("NA",)) == "NA"
    assert cells.read_word("na", ("NA",)) is None
    assert cells.read_word(None, ("None",)) is cells.read_word(NAN, ("nan",)) is None
    assert cells.read_boolean("?", "NA", "?") is False
    assert (
        cells.read_boolean(True, "False", "True") is cells.read_boolean(np.True_, "a", "b") is True
    )


ARRAYS = {
    "b": st.booleans(),
    "i8": st.integers(-(2**63), 2**63 - 1),
    "u8": st.integers(0, 2**64 - 1),
    "f2": st.floats(width=16),
    "f8": st.one_of(st.floats(), st.integers(-4, 4).map(float)),
    "g": st.floats(),
    "U": st.text(max_size=3),
    "S": st.binary(max_size=3),
    "M8[D]": st.dates(),
}


@pytest.mark.parametrize("kind", mark_slow_cases(ARRAYS, slow=["U"]))
def test_arrays_of_one_type_are_read_bit_for_bit_as_their_cells(kind):
    @settings(max_examples=40)
    @given(st.lists(ARRAYS[kind], max_size=12))
    def check(values):
        array = np.array(values, kind)
        array_cells, listed_cells = cells.column_cells(array), list(array)
        assert same_bits(
            cells.read_numbers(array_cells), [cells.read_number(cell) for cell in listed_cells]
        )
        assert cells.read_word_indices(array_cells, ("0", "1", "-1", "True")).tolist() == (
            cells.read_word_indices(listed_cells, ("0", "1", "-1", "True")).tolist()
        )
        truths = cells.read_booleans(listed_cells, "1", "0")
        assert cells.read_booleans(array_cells, "1", "0").tolist() == truths.tolist()

    check()


def test_payloads_of_nan_and_warnings_tell_nothing():
    """All NaN are read as one; a number too large for its type gives no warning, an error here."""
    payloads = np.array([0x7FF8000000000123, -1, 0x7FF0000000000001], np.int64).view(np.float64)
    assert same_bits(cells.read_numbers(payloads), [NAN] * 3)
    assert same_bits([cells.read_number(cell) for cell in payloads], [NAN] * 3)
    assert cells.read_numbers(np.array([np.longdouble("1e4000")])).tolist() == [INF]
    domain = {"x": Numeric(-8e306, 8e306)}
    assert domains.encode_positions(domain, {"x": [1.7e308, -1.7e308, INF]})[:, 0].tolist() == [
        1,
        0,
        1,
    ]


DOMAIN = {
    "n": Numeric(0, 4, bins=4, missing=True),
    "c": Nominal(("3", "a", "NA", "True")),
    "o": Nominal(("3", "rest"), other="rest"),
    "u": Numeric(-3, 4, cuts=(0, 2.5, 3), missing=True),
    "b": Boolean(missing=True),
    "w": Boolean("yes", "no"),
}


@dataclasses.dataclass(frozen=True)
class CellOfReadings:
    """The index of a cell of READINGS, some of which hypothesis must not show or compare."""

    index: int


def row_of_cells(row):
    return tuple(READINGS[cell.index][0] if type(cell) is CellOfReadings else cell for cell in row)


ODD_CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=4),
    st.builds(CellOfReadings, st.integers(0, len(READINGS) - 1)),
    st.sampled_from(["yes", "no", "1", "0", 1, 0, 1.0, "2.5", 3, 2.5]),
)
ROWS = st.lists(st.tuples(*[ODD_CELLS] * len(DOMAIN)), max_size=8)


def as_lists(rows):
    return {name: [row[k] for row in rows] for k, name in enumerate(DOMAIN)}


def as_arrays(rows):
    return {name: object_array(cells) for name, cells in as_lists(rows).items()}


@settings(max_examples=60)
@given(ROWS, st.tuples(*[ODD_CELLS] * len(DOMAIN)), st.data())
def test_the_cells_of_a_row_change_no_other_row(rows, odd_row, data):
    position = data.draw(st.integers(0, len(rows)))
    rows, odd_row = [row_of_cells(row) for row in rows], row_of_cells(odd_row)
    for read, make_columns in itertools.product(
        (domains.encode, domains.encode_positions), (as_lists, as_arrays)
    ):
        without_odd_row = read(DOMAIN, make_columns(rows))
        assert np.array_equal(
            read(DOMAIN, make_columns([*rows, odd_row]))[: len(rows)], without_odd_row
        )
        with_odd_row = read(DOMAIN, make_columns([*rows[:position], odd_row, *rows[position:]]))
        assert np.array_equal(np.delete(with_odd_row, position, axis=0), without_odd_row)


ARROW = {
    "halffloat": [1.5, None, -0.0, NAN, INF],
    "int64": [2**53 + 1, None, -1],
    "uint64": [2**64 - 1, None, 3],
    "bool": [True, None, False],
    "string": [" 3.0", None, "a", "NA", "a"],
    "binary": [b"3", None, b"\xff"],
    "date32": [datetime.date(2020, 2, 3), None],
}


@pytest.mark.parametrize("kind", ARROW)
def test_arrow_arrays_are_read_as_their_python_values(kind):
    arrow = pytest.importorskip("pyarrow", reason="no pyarrow; columns of Arrow are not tested")
    array = arrow.array(ARROW[kind], kind)
    arrays = [array, array[1:], arrow.chunked_array([array, array[:1]]), array[:0]]
    for column in arrays if kind == "halffloat" else [*arrays, array.dictionary_encode()]:
        column_cells, values = cells.column_cells(column), column.to_pylist()
        assert same_bits(cells.read_numbers(column_cells), cells.read_numbers(values))
        listed = "3", "a", "9007199254740993"
        assert np.array_equal(
            cells.read_word_indices(column_cells, listed), cells.read_word_indices(values, listed)
        )


class PolarsError(BaseException):
    """An error of polars."""


class DatesOutOfRange(list):
    """A container of dates, not all of which Python can represent."""

    def __iter__(self):
        raise PolarsError

    def __getitem__(self, index):
        if index == 1:
            raise PolarsError
        return super().__getitem__(index)


class ListLikeSeries(list):
    dtype = "Int64"


def test_a_container_is_recognized_by_its_methods():
    assert cells.column_cells(DatesOutOfRange([3, 4, 5])) == [3, None, 5]
    assert cells.column_cells(ListLikeSeries([1, None])) == [1, None]
    assert cells.column_cells(jnp.arange(2)).dtype == np.int32
    assert cells.column_cells(range(3)) == [0, 1, 2]
    masked = np.ma.masked_array([1.0, 2.0], [False, True])
    assert cells.column_cells(masked) == [1.0, None]
    for bad in ("ab", b"ab", {"a": 1}, {1}, 3, iter([1]), np.zeros(()), np.ma.zeros((2, 2))):
        with pytest.raises(ValueError, match=r"a column must"):
            cells.column_cells(bad)


@pytest.mark.parametrize("point", [0x110000, 0xFFFFFFFF])
@pytest.mark.parametrize("width", [1, 2])
def test_invalid_characters_are_no_listed_word(point, width):
    """A column that is read from bytes may hold invalid characters, which raise no error."""
    points = np.full((3, width), ord("3"), np.uint32)
    points[1, -1] = point
    array = points.view(f"U{width}")[:, 0]
    for column in (array, array.astype(object), list(array)) if width > 1 else (array,):
        assert cells.read_word_indices(column, ("3" * width, "a"))[[0, 2]].tolist() == [0, 0]
        assert cells.read_word_indices(column, ("3" * width, "a"))[1] < 0
        assert np.isnan(cells.read_numbers(column)[1])
        assert cells.read_booleans(column, "3" * width, "a").tolist() == [1, -1, 1]
        for kind in (Nominal(("3" * width, "a"), other="a"), Numeric(0, 99), Boolean()):
            domains.encode({"x": kind}, {"x": column})


class Float32Series(list):
    """A column of float32 that gives Python floats, as polars and categories do."""

    def __init__(self, numbers):
        super().__init__(np.asarray(numbers, np.float32).tolist())

    dtype = "Float32"


class CategoricalDtype:
    def __init__(self, categories):
        self.categories = categories


class FloatCategories(Float32Series):
    dtype = CategoricalDtype(np.ones(1, np.float32))


def narrow_columns(numbers, float_type):
    """Columns of one float type in all containers that are installed."""
    array = np.array(numbers, float_type)
    yield array
    yield array.astype(array.dtype.newbyteorder())
    yield list(array)
    yield np.ma.masked_array(array, np.zeros(len(array), bool))
    yield jnp.array(array)
    if float_type is np.float32:
        yield Float32Series(array)
        yield FloatCategories(array)
    with contextlib.suppress(ImportError):
        import pyarrow

        column = pyarrow.array(array)
        yield pyarrow.chunked_array([column])
        yield pyarrow.concat_arrays([column, pyarrow.nulls(1, column.type)])[:-1]
        yield pyarrow.DictionaryArray.from_arrays(range(len(array)), column)
    with contextlib.suppress(ImportError):
        import polars

        yield polars.Series(array)
    with contextlib.suppress(ImportError):
        import pandas

        yield pandas.Series(array)
        if float_type is np.float32:
            yield pandas.Series(array).astype("category")
            yield pandas.Series(array).astype("Float32")


@pytest.mark.parametrize("float_type", [np.float16, np.float32])
def test_a_float_is_one_word_whatever_column_holds_it(float_type):
    """The float32 nearest to .1 is .10000000149011612 in Python, which nobody declared."""
    numbers = 0.1, 0.25, 0.7, 0.0001, 3.0
    kind = Nominal(numbers)
    for column in narrow_columns(numbers, float_type):
        column_cells = cells.column_cells(column)
        assert cells.read_word_indices(column_cells, kind.values).tolist() == [0, 1, 2, 3, 4]
        assert np.array_equal(
            cells.read_numbers(column_cells), np.array(numbers, float_type).astype(float)
        )
        assert Nominal(column).values == kind.values
        assert cells.hash_ids(column_cells).tolist() == cells.hash_ids(list(numbers)).tolist()


def test_numbers_that_numpy_does_not_know_are_refused_by_their_type():
    records = np.zeros(2, [("a", "f4"), ("b", "f4")])
    for column in (jnp.zeros(2, jnp.bfloat16), records, jnp.zeros(2, jnp.float8_e4m3fn)):
        with pytest.raises(ValueError, match="a column must have cells of text, numbers"):
            cells.column_cells(column)
