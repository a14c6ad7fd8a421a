"""Declared targets: what is predicted, if it is not one of two classes.

Several classes are declared by `domains.Nominal`, and a number in a range by `domains.Numeric`. A
label is read by itself, as a cell of such a column is. No label is an error.
"""

import hashlib

import numpy as np

from dpbt.data.columns import ColumnCells, read_codes, read_numbers
from dpbt.data.kinds import Nominal, Numeric
from dpbt.public import BINARY, NUMBER, Response, one_of_classes
from dpbt.validate import shown

Target = Nominal | Numeric
"""The declared classes, or the declared range of a number."""


def check(target: object) -> Target:
    """`target`, if it declares several classes or a range.

    Raises:
        ValueError: naming what was given, or the option of a range that a target does not have.
    """
    if isinstance(target, Numeric):
        if target.cuts is not None or target.scale != "linear" or target.missing:
            raise ValueError(
                "a target in a range has low and high alone: no cuts, no log scale and no cell for "
                "missing numbers; a row without a number is absent"
            )
        return target
    if isinstance(target, Nominal):
        if len(target.names) < 2:
            raise ValueError(f"a target needs two classes or more, got {shown(list(target.names))}")
        return target
    raise ValueError(
        "target must be domains.Nominal(classes), domains.Numeric(low, high), or None for two "
        f"classes, got {shown(target)}"
    )


def response_of(target: Target | None) -> Response:
    """What is predicted; None stands for two classes.

    Raises:
        ValueError: as `check`.
    """
    if target is None:
        return BINARY
    if isinstance(declared := check(target), Nominal):
        return one_of_classes(len(declared.names))
    return NUMBER


def fingerprint(target: Target) -> np.ndarray:
    """u32[2]: tells declared classes, in their order, and declared ranges apart."""
    if isinstance(target, Numeric):
        words = repr((float(target.low), float(target.high)))
    else:
        words = repr((target.values, target.other, sorted(target.groups.items())))
    return np.frombuffer(hashlib.sha256(words.encode()).digest()[:8], np.uint32)


def read(target: Target, labels: ColumnCells) -> tuple[np.ndarray, np.ndarray]:
    """(u8[N] or f32[N], bool[N]): each label as `Table.target` has it, and whether it is there.

    - The class of a label is its number in `Nominal.names`. A label that is not listed is of the
      class `Nominal.other`, or else absent.
    - A number is clipped to the range, and its target is its position in it, from 0 to 1. A label
      that is no number is absent.

    What is not there has a target of 0.
    """
    if isinstance(target, Numeric):
        values = read_numbers(labels)
        there = ~np.isnan(values)
        low, high = float(target.low), float(target.high)
        with np.errstate(all="ignore"):  # a warning would say that some row holds a tiny number
            clipped = np.clip(np.where(there, values, low), low, high)
            return ((clipped - low) / (high - low)).astype(np.float32), there

    code = read_codes(labels, target.values)
    cell_of = np.array([target.cell_of[value] for value in target.values], np.int32)
    other = -1 if target.other is None else target.cell_of[target.other]
    cells = np.where(code >= 0, cell_of[np.maximum(code, 0)], other)
    return np.maximum(cells, 0).astype(np.uint8), cells >= 0


def in_units(target: Numeric, position: np.ndarray) -> np.ndarray:
    """f64[...]: predicted positions in units of the target, clipped to its range."""
    low, high = float(target.low), float(target.high)
    return low + (high - low) * np.clip(np.asarray(position, np.float64), 0.0, 1.0)
