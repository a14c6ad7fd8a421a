"""A person's own data: a CSV file, and a JSON file with its public domain."""

import csv
import math
from pathlib import Path

import numpy as np

from dpbt.domains import Numeric, read_domain
from experiments.data.dataset import Dataset


def from_csv(data: str | Path, domain_file: str | Path) -> Dataset:
    """A person's own data: a CSV file with a header, and a JSON file with its public domain.

    Blanks around cells are dropped. Cells of numeric columns must be finite numbers; an empty cell is allowed
    where the domain declares `"missing": true`. Columns the domain does not name are ignored.

    Raises:
        ValueError: naming file, line and column: an empty file, a column that is not there, a cell that is not a
            finite number, a label that is neither class, a line of the wrong length, or one class only.
    """
    domain, label = read_domain(domain_file)
    with open(data, newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        header = [cell.strip() for cell in next(reader, [])]
        if not header:
            raise ValueError(f"{data}: the file is empty")
        absent = [name for name in (*domain, label.column) if name not in header]
        if absent:
            raise ValueError(f"{data}, line 1: no column {absent[0]!r}; the header has {header}")
        place = {name: header.index(name) for name in (*domain, label.column)}
        columns: dict[str, list] = {name: [] for name in domain}
        labels = []
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            at = f"{data}, line {reader.line_num}"
            if len(row) != len(header):
                raise ValueError(f"{at}: {len(row)} cells, the header has {len(header)}")
            for name, column in domain.items():
                cell = row[place[name]].strip()
                columns[name].append(_number(cell, column, f"{at}, column {name!r}"))
            cell = row[place[label.column]].strip()
            if cell not in (label.positive, label.negative):
                words = f"{label.positive!r} or {label.negative!r}"
                raise ValueError(f"{at}, column {label.column!r}: the label must be {words}, got {cell!r}")
            labels.append(cell == label.positive)
    if not labels:
        raise ValueError(f"{data}: no rows below the header")
    if len(set(labels)) == 1:
        raise ValueError(f"{data}: all {len(labels)} labels are {label.positive if labels[0] else label.negative!r}")
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    return Dataset(Path(data).stem, domain, arrays, np.array(labels))


def _number(cell: str, column, at: str):
    """The cell as the column's type wants it."""
    if not isinstance(column, Numeric):
        return cell
    if cell == "" and column.missing:
        return math.nan
    try:
        value = float(cell)
    except ValueError:
        raise ValueError(f"{at}: not a number: {cell!r}") from None
    if not math.isfinite(value):
        raise ValueError(f"{at}: not a finite number: {cell!r}")
    return value
