"""Splits and positions on the grid of raw columns, without cells: what questions must give."""

import numpy as np

from dpbt.data.columns import cells_of, read_codes, read_numbers, read_truths
from dpbt.data.domains import Boolean, Column, Domain, Nominal, Numeric
from dpbt.data.questions import splits_of
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
            code = read_codes(values, kind.values)
            if kind.other is not None:
                code = np.where(code < 0, kind.values.index(kind.other), code)
            return code[:, None] == np.arange(len(kind.values))
        case Boolean():
            truth = read_truths(values, kind.true, kind.false)
            block = (truth == 1)[:, None]
            absent = truth == -1
    return np.concatenate([block, absent[:, None]], axis=1) if kind.missing else block


def grid_positions(domain: Domain, columns: dict, codes: bool) -> np.ndarray:
    """f32[N, A]: numbers at their place among the thresholds, all else as Booleans or codes."""
    blocks = []
    for name, kind in domain.items():
        block = column_splits(kind, columns[name]).astype(np.float32)
        if isinstance(kind, Numeric):
            steps = kind.bins - 1
            place = block[:, :steps].sum(axis=1) / np.float32(steps)
            block = np.concatenate([place[:, None], block[:, steps:]], axis=1)
        elif isinstance(kind, Nominal) and codes:
            last = np.float32(max(len(kind.values) - 1, 1))
            block = np.argmax(block, axis=1).astype(np.float32)[:, None] / last
        blocks.append(block)
    return np.concatenate(blocks, axis=1)


def library_splits(domain: Domain, columns: dict) -> np.ndarray:
    """bool[N, S]: the splits of the library's table of these columns."""
    labels = [True] * len(next(iter(columns.values())))
    read = table(domain, columns, labels, negative="0", positive="1")
    return np.asarray(splits_of(read))
