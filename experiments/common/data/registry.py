"""All data sets of the papers: their names, the folders that are searched, and loading."""

import os
from pathlib import Path

import numpy as np

from dpbt.data.domains import Domain
from dpbt.owners.cli.parsing import InputError
from experiments.common.data.dataset import Dataset, breast_cancer
from experiments.common.data.entry import Entry, File, read_entries
from experiments.common.data.reading import Layout, Rows, read_rows

ENTRIES = read_entries()
"""Name -> data set, of all that the papers use."""

NOCK_HENECKA = (
    *("transfusion", "banknote", "breast-wisc", "ionosphere", "sonar", "yeast", "wine-red"),
    *("cardiotocography", "creditcard-small", "abalone", "qsar", "wine-white", "page-blocks"),
    *("mice", "hill-valley-noise", "hill-valley-nonoise", "firmteacher", "magic", "eeg"),
)
"""The 19 domains of Nock & Henecka (2020) in the order of Table 2: by rows times features."""


def find_entry(name: str) -> Entry:
    """The registry's entry of that name.

    Raises:
        InputError: if there is no such entry.
    """
    if name not in ENTRIES:
        raise InputError(
            f"no data set is called {name!r}; there are breast-cancer (bundled), "
            f"{', '.join(ENTRIES)}"
        )
    return ENTRIES[name]


def search_folders(folder: str | Path | None = None) -> list[Path]:
    """The folders that are searched, in order: `folder`, $DPBT_DATA, the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dpbt" / "data"
    folders = (folder, os.environ.get("DPBT_DATA"), cache)
    return [Path(place).expanduser() for place in folders if place]


def find_file(entry: Entry, file: File, folder: str | Path | None = None) -> Path | None:
    """The path of a file in the first of `search_folders` that has it, or None."""
    candidates = (
        place / entry.folder / name for place in search_folders(folder) for name in file.hashes
    )
    return next((path for path in candidates if path.is_file()), None)


def is_available(name: str, folder: str | Path | None = None) -> bool:
    """Whether all files of a data set of the registry are in the searched folders.

    Raises:
        InputError: for an unknown name.
    """
    entry = find_entry(name)
    return all(find_file(entry, file, folder) is not None for file in entry.files)


def load(name: str, bins: int = 10, folder: str | Path | None = None) -> Dataset:
    """A data set by name, "breast-cancer" (bundled) included.

    Args:
        name: a name in the registry.
        bins: intervals of every numeric column, the paper's v_q.
        folder: searched first; see `search_folders`.

    Raises:
        InputError: for an unknown name, for a data set that is in no searched folder, and for a
            file that cannot be read; it names the line and the reason.
    """
    if name == "breast-cancer":
        return breast_cancer(bins)
    entry = find_entry(name)
    domain = entry.domain(bins)
    rows_by_path = read_files(entry, domain, folder)
    first_path, first_rows = next(iter(rows_by_path.items()))
    columns, label = join_rows(list(rows_by_path.values()))
    if label.all() or not label.any():
        raise InputError(f"{first_path}: all {len(label)} rows have one class; {entry.rule}")
    is_second_file = np.arange(len(label)) >= len(first_rows.label)
    test = is_second_file if len(rows_by_path) > 1 else None
    return Dataset(name, domain, columns, label, test)


def read_files(
    entry: Entry, domain: Domain, folder: str | Path | None = None, layout: Layout | None = None
) -> dict[Path, Rows]:
    """The rows of each file of a data set, in the order of the entry.

    Args:
        entry: the data set's entry.
        domain: the columns to read, of those in the layout.
        folder: searched first; see `search_folders`.
        layout: how the files hold the table, if not as the entry says.

    Raises:
        InputError: for files that are in no searched folder, that cannot be read, or that have
            another number of rows than the entry says.
    """
    paths = []
    for file in entry.files:
        path = find_file(entry, file, folder)
        if path is None:
            raise InputError(_missing_file_message(entry, file, folder))
        paths.append(path)
    max_rows = entry.rows if entry.first else None
    rows_by_path = {
        path: read_rows(path, layout or entry.layout, domain, max_rows) for path in paths
    }
    count = sum(len(rows.label) for rows in rows_by_path.values())
    if count != entry.rows:
        raise InputError(
            f"{paths[0]}: {count} rows, the data set has {entry.rows}; the file may be cut "
            f"short or of another version"
        )
    return rows_by_path


def join_rows(files: list[Rows]) -> Rows:
    """The rows of all files, in order."""
    names = files[0].columns
    columns = {name: np.concatenate([rows.columns[name] for rows in files]) for name in names}
    return Rows(columns, np.concatenate([rows.label for rows in files]))


def _missing_file_message(entry: Entry, file: File, folder: str | Path | None) -> str:
    folders = ", ".join(str(place / entry.folder) for place in search_folders(folder))
    command = (
        f"fetch it with `python -m experiments data fetch {entry.name}`, or set DPBT_DATA to "
        f"the folder that holds "
    )
    advice = entry.unavailable or f"{command}{entry.folder}/"
    return f"{entry.name}: no {file.name} in {folders}; {advice}"
