"""Tables about people: health, money, school, social life and work, with two classes each.

Packages of R and of Python ship these data. A folder holds each as NAME.csv.gz, with a domain file
NAME.json. It is $DPBT_PEOPLE, or the folder `people` beside a folder that `registry` searches.

`SETTLED` are the tables on which numbers of recipes were settled. `JUDGES` judge them, and were
named before any method was run on them.
"""

import dataclasses
import os
from pathlib import Path

from dpbt.data.cells import column_cells, read_numbers
from dpbt.data.domains import Numeric
from dpbt.owners.cli.parsing import InputError
from experiments.common.data.dataset import Dataset, from_csv
from experiments.common.data.registry import search_folders

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
