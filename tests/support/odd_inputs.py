"""One generator of odd cells and odd rows, and the containers that hold them."""

import datetime
import decimal
import fractions
import itertools
import math
from collections import deque

import numpy as np
import pytest

NAN, INF = math.nan, math.inf
LONG = "zqxcell" * 20_000
"""In an array of text it has this size in every row."""


class Hostile(type):
    """A class whose every split raises."""

    def __eq__(cls, other):
        raise RuntimeError("zqxcell")

    __hash__ = None
    __instancecheck__ = __subclasscheck__ = __getattribute__ = __eq__


def raise_error(*arguments):
    raise RuntimeError("zqxcell")


SPECIAL_METHOD_NAMES = (
    "eq hash str repr float int index bool len iter getitem getattribute array format lt gt"
)
RAISING_METHODS = {f"__{name}__": raise_error for name in SPECIAL_METHOD_NAMES.split()}
Anything = Hostile("Anything", (), RAISING_METHODS)
RAISING_METHODS.pop("__getattribute__")
LyingFloat = type("LyingFloat", (float,), RAISING_METHODS)
LyingInt = type("LyingInt", (int,), {**RAISING_METHODS, "bit_length": raise_error})
LyingText = type(
    "LyingText", (str,), {**RAISING_METHODS, "strip": raise_error, "lower": raise_error}
)
LyingBytes = type("LyingBytes", (bytes,), {**RAISING_METHODS, "decode": raise_error})
LyingArray = type("LyingArray", (), {"__array__": lambda *arguments: np.zeros((2, 2))})
Talking = type("Talking", (), {"__repr__": lambda self: "zqxcell", "__len__": lambda self: 7})

CELLS_AND_NUMBERS = [
    # A cell and its number.
    *((cell, NAN) for cell in (None, "", "zqxcell", "\ud800", "a\0b", b"\xff", "1_000", 1j)),
    *((cell, NAN) for cell in ((3, 4), [3], {"no": 1}, {3}, np.zeros(3), np.array(3), range(9))),
    *((cell, NAN) for cell in (np.ma.masked, object(), int, raise_error, iter([1]), LyingArray())),
    *((cell, NAN) for cell in (Talking(), object.__new__(Anything), Anything)),
    *((cell, NAN) for cell in np.array([0x7FF8000000000123, -1]).view(np.float64)),
    (LONG, NAN),
    ("9" * 5000, INF),
    (10**5000, INF),
    (-(10**5000), -INF),
    (decimal.Decimal("sNaN"), NAN),
    (fractions.Fraction(10**5000, 3), NAN),
    (datetime.date(1, 1, 1), NAN),
    (LyingFloat(2.5), 2.5),
    (LyingInt(3), 3.0),
    (LyingText("nan"), NAN),
    (LyingBytes(b"zqxcell"), NAN),
]
"""None of them is a word that a test declares."""


class Labelled:
    """A row with labels, as a Series of pandas: its index is no place."""

    def __init__(self, *cells):
        self.bins = cells

    def __len__(self):
        return len(self.bins)

    def __iter__(self):
        return iter(self.bins)

    def __getitem__(self, label):
        raise KeyError(label)


def _row(**odd):
    return type("Row", (Labelled,), odd)(0.5, 0.5)


ODD_ROWS = {
    "raises when counted": _row(__len__=raise_error),
    "raises when iterated": _row(__iter__=raise_error),
    "raises in the middle": _row(__iter__=lambda row: (1 / cell for cell in (1, 0))),
    "has fewer than it says": _row(__iter__=lambda row: iter([0.5])),
    "has more than it says": _row(__iter__=lambda row: iter([0.5] * 3)),
    "never ends": _row(__iter__=lambda row: itertools.repeat(0.5)),
    "says no number": _row(__len__=lambda row: "zqxcell"),
    "a class": Anything,
    "a generator": (cell for cell in (0.5, 0.5)),
    "a mapping": {0: 0.5, 1: 0.5},
    "text": "ab",
    "two axes": np.full((2, 1), 0.5),
    "nothing": None,
    "another width": [0.5] * 3,
}
"""Rows without values where a row has two cells."""

GOOD_ROWS = [Labelled(0.5, 0.25), (0.5, 0.25), np.array([0.5, 0.25]), deque([0.5, 0.25])]
"""Rows that are read by position."""


class Frame:
    """The smallest interface of a data frame."""

    def __init__(self, columns):
        self.data, self.columns = dict(columns), list(columns)

    def __getitem__(self, name):
        return self.data[name]

    def __len__(self):
        return len(next(iter(self.data.values())))

    @property
    def shape(self):
        return len(self), len(self.columns)

    def taking(self, *column_names):
        return Frame({name: self.data[name] for name in column_names})


def mix_in(usual_items, odd_items, first=0):
    """A list of usual cells or rows, some of which odd ones replace."""
    items = list(usual_items)
    for index, item in enumerate(odd_items):
        items[(first + 29 * index) % len(items)] = item
    return items


def object_array(cells):
    array = np.empty(len(cells), object)
    for index, cell in enumerate(cells):
        array[index] = cell
    return array


def pandas_series(cells):
    """A Series that is labelled by halves from the last row to the first."""
    pandas = pytest.importorskip("pandas", reason="no pandas; its containers are not tested")
    return pandas.Series(object_array(cells), index=np.arange(len(cells))[::-1] / 2)


def polars_series(cells):
    polars = pytest.importorskip("polars", reason="no polars; its containers are not tested")
    return polars.Series("x", cells, dtype=polars.Object)


CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "objects": object_array,
    "pandas": pandas_series,
    "polars": polars_series,
}
