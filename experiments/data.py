"""Data with a declared public domain: what ships with scikit-learn, and a person's own CSV file."""

import csv
import dataclasses
import math
import os
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from dpbt.base import Table
from dpbt.domains import Domain, Numeric, encode, read_domain


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A named table with its public domain.

    Attributes:
        name: for titles.
        domain: the public domain.
        splits: bool[N, S], label: bool[N].
    """

    name: str
    domain: Domain
    splits: np.ndarray
    label: np.ndarray

    @property
    def table(self) -> Table:
        """All rows, present."""
        return Table(jnp.asarray(self.splits), jnp.asarray(self.label), jnp.ones(len(self.label), bool))


# Round bounds around the ranges that scikit-learn's description of the data set prints, by feature:
# (mean, standard error, worst).
_CANCER_BOUNDS = {
    "radius": ((5, 30), (0, 3), (5, 40)),
    "texture": ((5, 40), (0, 5), (10, 50)),
    "perimeter": ((40, 200), (0, 25), (50, 260)),
    "area": ((100, 2600), (0, 600), (150, 4500)),
    "smoothness": ((0.05, 0.2), (0, 0.04), (0.05, 0.25)),
    "compactness": ((0, 0.4), (0, 0.15), (0, 1.2)),
    "concavity": ((0, 0.5), (0, 0.4), (0, 1.3)),
    "concave points": ((0, 0.25), (0, 0.06), (0, 0.3)),
    "symmetry": ((0.1, 0.35), (0, 0.08), (0.1, 0.7)),
    "fractal dimension": ((0.04, 0.1), (0, 0.03), (0.05, 0.25)),
}


def breast_cancer(bins: int = 10) -> Dataset:
    """Breast Cancer Wisconsin (Diagnostic), bundled with scikit-learn: 569 x 30, positive class malignant."""
    from sklearn.datasets import load_breast_cancer

    bunch: Any = load_breast_cancer()
    domain: dict[str, Numeric] = {}
    for kind, place in (("mean", 0), ("error", 1), ("worst", 2)):
        for feature, bounds in _CANCER_BOUNDS.items():
            name = f"{feature} error" if kind == "error" else f"{kind} {feature}"
            domain[name] = Numeric(*(float(bound) for bound in bounds[place]), bins=bins)
    columns = {str(name): bunch.data[:, k] for k, name in enumerate(bunch.feature_names)}
    return Dataset("breast cancer", domain, encode(domain, columns), bunch.target == 0)


def banknote(folder: Path, bins: int = 10) -> Dataset:
    """UCI Banknote Authentication: 1,372 x 4 wavelet statistics, positive class 1 (forged).

    Args:
        folder: holds banknote/data_banknote_authentication.txt.
        bins: intervals of each column, within round bounds.
    """
    rows = np.loadtxt(folder / "banknote" / "data_banknote_authentication.txt", delimiter=",")
    bounds = {"variance": (-8, 8), "skewness": (-15, 15), "curtosis": (-6, 18), "entropy": (-9, 3)}
    domain = {name: Numeric(*(float(bound) for bound in pair), bins=bins) for name, pair in bounds.items()}
    columns = {name: rows[:, k] for k, name in enumerate(domain)}
    return Dataset("banknote", domain, encode(domain, columns), rows[:, 4] == 1)


def load(name: str) -> Dataset:
    """A data set by name: "breast-cancer", or "banknote" from the folder that $DPBT_DATA names.

    Raises:
        ValueError: for another name, or if the folder is not there.
    """
    if name == "breast-cancer":
        return breast_cancer()
    if name == "banknote":
        folder = os.environ.get("DPBT_DATA")
        if not folder or not (Path(folder) / "banknote").is_dir():
            raise ValueError(f"banknote: set DPBT_DATA to the folder that holds banknote/; it is {folder!r}")
        return banknote(Path(folder))
    raise ValueError(f"no data set is called {name!r}; there are banknote and breast-cancer")


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
    return Dataset(Path(data).stem, domain, encode(domain, columns), np.array(labels))


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
