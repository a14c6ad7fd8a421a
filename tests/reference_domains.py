"""Splits and positions on the grid of raw columns, without cells: what splits must give."""

import numpy as np

from dpbt.data.cells import cells_of, read_codes, read_numbers, read_truths
from dpbt.data.domains import Boolean, Column, Domain, Nominal, Numeric
from dpbt.data.splits import splits_of
from dpbt.data.tables import table


def splits(domain: Domain, columns: dict) -> np.ndarray:
    """bool[N, S]: each predicate of the domain on each row."""
    blocks = [column_splits(kind, columns[name]) for name, kind in domain.items()]
    return np.concatenate(blocks, axis=1)


def column_splits(kind: Column, values) -> np.ndarray:
    """bool[N, splits of the column]."""
    values = cells_of(values)
    match kind:
        case Numeric():
            number = read_numbers(values)
            block = number[:, None] > kind.thresholds[None, :]
            absent = np.isnan(number)
        case Nominal():
            place = nominal_places(kind, values)[:, None]
            count = len(kind.names)
            return place >= np.arange(1, count) if kind.ordered else place == np.arange(count)
        case Boolean():
            truth = read_truths(values, kind.true, kind.false)
            block = (truth == 1)[:, None]
            absent = truth == -1
    return np.concatenate([block, absent[:, None]], axis=1) if kind.missing else block


def nominal_places(kind: Nominal, values) -> np.ndarray:
    """i64[N]: the place of each row's value among those of the column; -1 if it has none."""
    other = -1 if kind.other is None else kind.values.index(kind.other)
    code = read_codes(values, kind.values)
    return np.where(code >= 0, code, other).astype(int)


def grid_positions(domain: Domain, columns: dict, codes: bool) -> np.ndarray:
    """f32[N, A]: numbers at their place among the thresholds, all else as Booleans or codes."""
    blocks = []
    for name, kind in domain.items():
        block = column_splits(kind, columns[name]).astype(np.float32)
        if isinstance(kind, Numeric):
            steps = kind.bins - 1
            place = block[:, :steps].sum(axis=1) / np.float32(steps)
            block = np.concatenate([place[:, None], block[:, steps:]], axis=1)
        elif isinstance(kind, Nominal) and (codes or kind.ordered):
            place = np.maximum(nominal_places(kind, cells_of(columns[name])), 0)
            last = np.float32(max(len(kind.names) - 1, 1))
            block = place.astype(np.float32)[:, None] / last
        blocks.append(block)
    return np.concatenate(blocks, axis=1)


def library_splits(domain: Domain, columns: dict) -> np.ndarray:
    """bool[N, S]: the splits of the library's table of these columns."""
    labels = [True] * len(next(iter(columns.values())))
    read = table(domain, columns, labels, negative="0", positive="1")
    return np.asarray(splits_of(read))
