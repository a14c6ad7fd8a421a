"""Small tables that judge a method: none was looked at while its rule was settled.

They ship with scikit-learn and with statsmodels, and nothing is downloaded. `fresh.toml` declares
their domains and classes, by hand, from the descriptions of these libraries.
"""

import importlib.util
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from dpbt.data.domains import Boolean, Column, Nominal, Numeric
from dpbt.owners.cli.parsing import InputError
from experiments.common.data.dataset import Dataset
from experiments.common.data.entry import expand_pattern

DECLARED = tomllib.loads(Path(__file__).with_name("fresh.toml").read_text())
"""Name of a table -> its declaration."""

NAMES = tuple(DECLARED)


def is_available(name: str) -> bool:
    """Whether the library of a table is installed."""
    library = DECLARED[name]["from"].replace("scikit-learn", "sklearn")
    return importlib.util.find_spec(library) is not None


def load(name: str, bins: int) -> Dataset:
    """A table by name.

    Args:
        name: one of `NAMES`.
        bins: intervals of every number whose declaration has none of its own.

    Raises:
        InputError: if its library is not installed.
    """
    declared = DECLARED[name]
    if not is_available(name):
        raise InputError(f"{name} ships with {declared['from']}, which is not installed")
    cells = _read_shipped_cells(name, declared)
    domain = {
        column: _read_column(kind, bins)
        for pattern, kind in declared["columns"].items()
        for column in expand_pattern(pattern)
    }
    columns = {column: _convert_cells(kind, cells[column]) for column, kind in domain.items()}
    return Dataset(name, domain, columns, _positive_labels(declared, cells))


def _read_shipped_cells(name: str, declared: dict[str, Any]) -> dict[str, np.ndarray]:
    """The cells of each column, and of the target."""
    if declared["from"] == "scikit-learn":
        from sklearn import datasets

        unscaled = {"scaled": False} if name == "diabetes" else {}
        bunch = getattr(datasets, f"load_{name}")(**unscaled)
        names = map(str, bunch.feature_names)
        return dict(zip(names, bunch.data.T, strict=True)) | {"target": bunch.target}
    (folder,) = importlib.util.find_spec("statsmodels").submodule_search_locations  # type: ignore[union-attr]
    text = Path(folder, "datasets", name, f"{name}.csv").read_text()
    lines = [line.split(declared.get("separator", ",")) for line in text.splitlines()]
    names = [cell.strip("\"'") for cell in lines[0]]
    return dict(zip(names, map(np.array, zip(*lines[1:], strict=True)), strict=True))


def _read_column(kind: Any, bins: int) -> Column:
    """The column that a kind of the file declares."""
    match kind:
        case True:
            return Boolean()
        case str():
            return Nominal(tuple(kind.split()))
        case {"log": [low, high]}:
            return Numeric(low, high, bins, scale="log")
        case _:
            low, high, *declared_bins = kind
            return Numeric(low, high, *(declared_bins or [bins]))


def _convert_cells(column: Column, cells: np.ndarray) -> np.ndarray:
    if isinstance(column, Nominal):
        return cells
    numbers = cells.astype(np.float64)
    return numbers > 0 if isinstance(column, Boolean) else numbers


def _positive_labels(declared: dict[str, Any], cells: dict[str, np.ndarray]) -> np.ndarray:
    """bool[N]: the label of each row."""
    target = cells[declared.get("target", "target")].astype(np.float64)
    if "of" in declared:
        target = target / cells[declared["of"]].astype(np.float64)
    if "modulo" in declared:
        target = target % declared["modulo"]
    return target > declared["above"]
