"""All data sets of the papers, where they are looked for, and how they are loaded."""

import os
from pathlib import Path

import numpy as np

from experiments.common.data import nock_henecka_large, nock_henecka_small, other_papers
from experiments.common.data.bundled import breast_cancer
from experiments.common.data.dataset import Dataset
from experiments.common.data.entry import Entry, File
from experiments.common.data.reading import read

_MODULES = (nock_henecka_small, nock_henecka_large, other_papers)
ENTRIES = {
    entry.name: entry
    for module in _MODULES
    for entry in vars(module).values()
    if isinstance(entry, Entry)
}

# The 19 domains of Nock & Henecka (2020) in the order of Table 2: by rows times features.
NOCK_HENECKA = (
    "transfusion",
    "banknote",
    "breast-wisc",
    "ionosphere",
    "sonar",
    "yeast",
    "wine-red",
    "cardiotocography",
    "creditcard-small",
    "abalone",
    "qsar",
    "wine-white",
    "page-blocks",
    "mice",
    "hill-valley-noise",
    "hill-valley-nonoise",
    "firmteacher",
    "magic",
    "eeg",
)


def entry(name: str) -> Entry:
    """The registry's entry of that name.

    Raises:
        ValueError: if there is none.
    """
    if name not in ENTRIES:
        raise ValueError(
            f"no data set is called {name!r}; there are breast-cancer (bundled), "
            f"{', '.join(ENTRIES)}"
        )
    return ENTRIES[name]


def places(folder: str | Path | None = None) -> list[Path]:
    """Where data sets are looked for, in order: the given folder, $DPBT_DATA, the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dpbt" / "data"
    given = (folder, os.environ.get("DPBT_DATA"), cache)
    return [Path(place).expanduser() for place in given if place]


def find(found: Entry, file: File, folder: str | Path | None = None) -> Path | None:
    """The first place's copy of a file, or None."""
    candidates = (place / found.folder / name for place in places(folder) for name in file.hashes)
    return next((path for path in candidates if path.is_file()), None)


def load(name: str, bins: int = 10, folder: str | Path | None = None) -> Dataset:
    """A data set by name, "breast-cancer" (bundled) included.

    Args:
        name: one of the registry.
        bins: intervals of every numeric column, the paper's v_q.
        folder: looked into first; see `places`.

    Raises:
        ValueError: for another name, a data set that is in none of the places, or a file that
            cannot be read: where in it, and why.
    """
    if name == "breast-cancer":
        return breast_cancer(bins)
    found = entry(name)
    paths = []
    for file in found.files:
        path = find(found, file, folder)
        if path is None:
            raise ValueError(_absent(found, file, folder))
        paths.append(path)
    domain = found.domain(bins)
    parts = [
        read(path, found.layout, domain, found.rows if found.first else None) for path in paths
    ]
    columns = {
        column: np.concatenate([part.columns[column] for part in parts]) for column in domain
    }
    label = np.concatenate([part.label for part in parts])
    if len(label) != found.rows:
        raise ValueError(
            f"{paths[0]}: {len(label)} rows, the data set has {found.rows}: cut, or "
            f"another version?"
        )
    if label.all() or not label.any():
        raise ValueError(f"{paths[0]}: all {len(label)} rows are of one class; {found.rule}")
    test = np.arange(len(label)) >= len(parts[0].label) if len(parts) > 1 else None
    return Dataset(name, domain, columns, label, test)


def _absent(found: Entry, file: File, folder: str | Path | None) -> str:
    looked = ", ".join(str(place / found.folder) for place in places(folder))
    command = (
        f"fetch it with `python -m experiments data fetch {found.name}`, or set DPBT_DATA to "
        f"the folder that has "
    )
    advice = found.unavailable or f"{command}{found.folder}/"
    return f"{found.name}: no {file.name} in {looked}; {advice}"
