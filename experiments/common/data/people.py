"""Tables about people: health, money, school, social life and work.

Each has two classes, and some have columns of numbers and of counts that are predicted in turn.

Packages of R and of Python ship these data. A folder holds each as NAME.csv.gz, with a domain file
NAME.json. It is $DPBT_PEOPLE, or the folder `people` beside a folder that `registry` searches.

`SETTLED` are the tables on which numbers of recipes were settled. `JUDGES` judge them, and were
named before any method was run on them. The same holds of `SETTLED_NUMBERS` and `JUDGE_NUMBERS`,
which are columns of these tables.
"""

import dataclasses
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpbt.data.cells import column_cells, read_numbers
from dpbt.data.domains import Numeric
from dpbt.owners.cli.parsing import InputError
from experiments.common.data.dataset import Dataset, from_csv
from experiments.common.data.registry import search_folders
from experiments.common.data.targets import Targeted

SETTLED = (
    *("colon", "nhefs", "fertil2", "nmes", "nassCDS", "loanapp", "hmda", "churn", "twoyear"),
    *("catholic", "titanic", "recid", "crime1", "wvs_abortion", "mroz", "cps91", "labsup"),
    "smokeban",
)

JUDGES = (
    *("alcohol", "bfi", "bwght2", "ces11", "affairs", "healthinsurance", "retschool", "rwm"),
    "wagepan",
)

NAMES = (*SETTLED, *JUDGES)

FILE_NAMES = {name: "fair" if name == "affairs" else name for name in NAMES}
"""Name of a table -> that of its files; a fresh table is called fair, too."""


class Prediction(NamedTuple):
    """A column of a table that is predicted from the others.

    Attributes:
        table: one of `NAMES`.
        column: a column of numbers.
        is_count: whether it is learned by the Poisson deviance.
    """

    table: str
    column: str
    is_count: bool = False

    @property
    def name(self) -> str:
        """The name of the data set."""
        return f"{self.table}.{self.column}"


SETTLED_NUMBERS = (
    Prediction("nmes", "visits", is_count=True),
    Prediction("nmes", "nvisits", is_count=True),
    Prediction("fertil2", "idlnchld", is_count=True),
    Prediction("recid", "priors", is_count=True),
    Prediction("bwght2", "cigs", is_count=True),
    Prediction("labsup", "nonmomi"),
    Prediction("cps91", "husearns"),
    Prediction("loanapp", "loanamt"),
    Prediction("nassCDS", "ageOFocc"),
)
"""Counts and numbers on which the epilogue of numbers was settled."""

JUDGE_NUMBERS = (
    Prediction("nmes", "emergency", is_count=True),
    Prediction("nhefs", "smokeintensity", is_count=True),
    Prediction("colon", "nodes", is_count=True),
    Prediction("recid", "rules", is_count=True),
    Prediction("churn", "monthly_charges"),
    Prediction("catholic", "math12"),
    Prediction("mroz", "hushrs"),
    Prediction("nhefs", "cholesterol"),
)
"""Counts and numbers that judge it."""

NUMBERS = {each.name: each for each in (*SETTLED_NUMBERS, *JUDGE_NUMBERS)}
"""Name of a data set -> what is predicted in it."""


def find_folder(folder: str | Path | None = None) -> Path | None:
    """The folder of the tables, or None if there is none.

    Args:
        folder: of the data sets, as `registry.search_folders`.
    """
    declared = os.environ.get("DPBT_PEOPLE")
    places = [place.parent / "people" for place in search_folders(folder)]
    candidates = [Path(declared).expanduser(), *places] if declared else places
    return next((place for place in candidates if place.is_dir()), None)


def is_available(name: str, folder: str | Path | None = None) -> bool:
    """Whether the table is there."""
    place = find_folder(folder)
    return place is not None and (place / f"{FILE_NAMES[name]}.csv.gz").is_file()


def load(name: str, folder: str | Path | None = None) -> Dataset:
    """A table by name; a number has as many intervals as its domain file says.

    Args:
        name: one of `NAMES`.
        folder: of the data sets, as `registry.search_folders`.

    Raises:
        InputError: if it is not there.
    """
    place = find_folder(folder)
    if place is None or not is_available(name, folder):
        raise InputError(f"{name}: there is no {FILE_NAMES[name]}.csv.gz in $DPBT_PEOPLE")
    file = FILE_NAMES[name]
    dataset = from_csv(place / f"{file}.csv.gz", place / f"{file}.json")
    columns = {
        column: read_numbers(column_cells(cells)) if isinstance(kind, Numeric) else cells
        for (column, cells), kind in zip(
            dataset.columns.items(), dataset.domain.values(), strict=True
        )
    }
    return dataclasses.replace(dataset, name=name, columns=columns)


def load_number(name: str, folder: str | Path | None = None) -> Targeted:
    """The table of a prediction, without the rows that lack the number.

    A count has no range below 0; the domain file declares a half below the first whole number.

    Args:
        name: one of `NUMBERS`.
        folder: of the data sets, as `registry.search_folders`.

    Raises:
        InputError: if the table is not there.
    """
    prediction = NUMBERS[name]
    table = load(prediction.table, folder)
    numbers = np.asarray(table.columns[prediction.column], np.float64)
    table = table.where(~np.isnan(numbers))
    kind = table.domain[prediction.column]
    assert isinstance(kind, Numeric)
    low = max(kind.low, 0.0) if prediction.is_count else kind.low
    others = [column for column in table.domain if column != prediction.column]
    return Targeted(
        name=name,
        domain={column: table.domain[column] for column in others},
        columns={column: table.columns[column] for column in others},
        kind=Numeric(low, kind.high),
        cells=np.asarray(table.columns[prediction.column], np.float64),
        objective="poisson" if prediction.is_count else None,
    )
