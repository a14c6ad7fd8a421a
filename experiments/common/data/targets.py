"""Data sets whose target is one of several classes, or a number.

Classes and ranges are declared, as those of attributes are. A range is that of the documented scale
or a round number beyond it, and none is read off the rows. Files and attributes are those of the
registry.
"""

import dataclasses
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dpbt.data.domains import Columns, Domain, Nominal, Numeric
from dpbt.owners.cli.parsing import InputError
from experiments.common.data import registry
from experiments.common.data.reading import Layout

Kind = Nominal | Numeric
"""The public description of a target: its classes, or its range."""


@dataclasses.dataclass(frozen=True, eq=False)
class Targeted:
    """A data set in memory, with the public description of its target.

    Attributes:
        name: for titles.
        domain: the public domain of the attributes; the target is not among them.
        columns: the raw cells of every column of the domain, [N] each.
        kind: the classes, or the range.
        cells: [N], the raw target: words of `kind.values`, or float64.
        objective: of a number, as of `dpbt.recipes.auto`; None for the default.
    """

    name: str
    domain: Domain
    columns: Columns
    kind: Kind
    cells: np.ndarray
    objective: str | None = None

    @cached_property
    def target(self) -> np.ndarray:
        """i64[N], the places of the classes; or f64[N], numbers clipped to their range."""
        if isinstance(self.kind, Numeric):
            return np.clip(self.cells.astype(np.float64), self.kind.low, self.kind.high)
        place = {name: number for number, name in enumerate(self.kind.values)}
        return np.array([place[cell] for cell in self.cells])

    def where(self, rows: np.ndarray) -> "Targeted":
        """The data set with only some rows; `rows` is bool[N] or places."""
        columns = {name: np.asarray(column)[rows] for name, column in self.columns.items()}
        return dataclasses.replace(self, columns=columns, cells=self.cells[rows])


def iris(bins: int) -> Targeted:
    """Iris, 150 x 4, of three classes.

    Args:
        bins: intervals of each column, from 0 to 10 cm.
    """
    from sklearn.datasets import load_iris

    bunch: Any = load_iris()
    names = [str(name) for name in bunch.feature_names]
    domain = {name: Numeric(0.0, 10.0, bins=bins) for name in names}
    columns = {name: bunch.data[:, k] for k, name in enumerate(names)}
    classes = Nominal(("setosa", "versicolor", "virginica"))
    cells = np.asarray(bunch.target_names)[bunch.target].astype(str)
    return Targeted("iris", domain, columns, classes, cells)


# Measurements in their own units: years, kg/m^2, mm Hg, and blood serum.
_DIABETES_BOUNDS = {
    "age": (15, 85),
    "sex": (1, 2),
    "bmi": (15, 45),
    "bp": (50, 150),
    "s1": (50, 350),
    "s2": (20, 280),
    "s3": (10, 110),
    "s4": (1, 10),
    "s5": (3, 7),
    "s6": (50, 150),
}


def diabetes(bins: int) -> Targeted:
    """Diabetes, 442 x 10, with a score of the illness after a year.

    Args:
        bins: intervals of each column, within round bounds.
    """
    from sklearn.datasets import load_diabetes

    bunch: Any = load_diabetes(scaled=False)
    domain = {
        name: Numeric(float(low), float(high), bins=bins)
        for name, (low, high) in _DIABETES_BOUNDS.items()
    }
    columns = {name: bunch.data[:, k] for k, name in enumerate(_DIABETES_BOUNDS)}
    scores = np.asarray(bunch.target, np.float64)
    return Targeted("diabetes", domain, columns, Numeric(0, 400), scores)


@dataclasses.dataclass(frozen=True)
class TargetDeclaration:
    """What is declared of a target.

    Attributes:
        entry: the name of the data set in the registry.
        column: the column of the file that is the target; it is no attribute then.
        kind: the classes, or the range.
        layout: how the file holds the target, if not as the entry says.
        absent: the word of rows without a class, which are left out.
    """

    entry: str
    column: str
    kind: Kind
    layout: Layout | None = None
    absent: str | None = None


_CLAVE = ("neutral", "reverse", "forward", "incoherent")
_NO_CLAVE = "none"


def _clave_cells(line: str) -> list[str]:
    """Sixteen strokes, the flag of forward clave, and the word of the class that is flagged."""
    cells = registry.find_entry("firmteacher").layout.split(line)
    flagged = [name for name, flag in zip(_CLAVE, cells[16:], strict=True) if flag == "1"]
    direction = flagged[0] if len(flagged) == 1 else _NO_CLAVE
    return [*cells[:16], cells[18], direction]


def _clave_layout() -> Layout:
    layout = registry.find_entry("firmteacher").layout
    names = (*layout.names[:16], layout.label, "direction")
    return dataclasses.replace(layout, names=names, split=_clave_cells)


_SITES = ("CYT", "NUC", "MIT", "ME3", "ME2", "ME1", "EXC", "VAC", "POX", "ERL")
CLASSES = {
    "yeast": TargetDeclaration("yeast", "site", Nominal(_SITES)),
    "cardiotocography": TargetDeclaration("cardiotocography", "NSP", Nominal(tuple("123"))),
    "page-blocks": TargetDeclaration("page-blocks", "class", Nominal(tuple("12345"))),
    "covertype": TargetDeclaration("covertype", "type", Nominal(tuple("1234567"))),
    "firmteacher": TargetDeclaration(
        "firmteacher", "direction", Nominal(_CLAVE), _clave_layout(), _NO_CLAVE
    ),
}
"""Data set -> its classes, in the order of their numbers."""

_SCORE = Numeric(0, 10)  # the scale of the tasters
NUMBERS = {
    "abalone": TargetDeclaration("abalone", "rings", Numeric(0, 30)),
    "wine-white": TargetDeclaration("wine-white", "quality", _SCORE),
    "wine-red": TargetDeclaration("wine-red", "quality", _SCORE),
    "credit-limit": TargetDeclaration("creditcard", "LIMIT_BAL", Numeric(0, 1_000_000)),
    "adult-age": TargetDeclaration("adult", "age", Numeric(15, 90)),
}
"""Data set -> the range of its number: rings, scores, New Taiwan dollars, and years."""

BUNDLED: Mapping[str, Callable[[int], Targeted]] = {"iris": iris, "diabetes": diabetes}
"""Small data sets that ship with scikit-learn."""


def find_declaration(name: str) -> TargetDeclaration:
    """What is declared of a data set's target.

    Raises:
        InputError: for a name that is not declared.
    """
    declarations = {**CLASSES, **NUMBERS}
    if name not in declarations:
        raise InputError(
            f"no target of {name!r} is declared; there are {', '.join((*BUNDLED, *declarations))}"
        )
    return declarations[name]


def load_target(name: str, bins: int, folder: str | Path | None = None) -> Targeted:
    """A data set by name, with its declared target.

    Args:
        name: a name in `CLASSES`, `NUMBERS` or `BUNDLED`.
        bins: intervals of every numeric column.
        folder: searched first; see `registry.search_folders`.

    Raises:
        InputError: as `find_declaration` and `registry.load`.
    """
    if name in BUNDLED:
        return BUNDLED[name](bins)
    target = find_declaration(name)
    entry = registry.find_entry(target.entry)
    domain = {
        column: kind for column, kind in entry.domain(bins).items() if column != target.column
    }
    read_as = target.kind
    if target.absent is not None and isinstance(read_as, Nominal):
        read_as = Nominal((*read_as.values, target.absent))

    rows_by_path = registry.read_files(
        entry, {**domain, target.column: read_as}, folder, target.layout
    )
    columns = registry.join_rows(list(rows_by_path.values())).columns
    cells = columns.pop(target.column)
    dataset = Targeted(name, domain, columns, target.kind, cells)
    return dataset if target.absent is None else dataset.where(cells != target.absent)


def is_available(name: str, folder: str | Path | None = None) -> bool:
    """Whether all files of a data set with a declared target are in one of the places.

    Raises:
        InputError: for an unknown name.
    """
    return name in BUNDLED or registry.is_available(find_declaration(name).entry, folder)
