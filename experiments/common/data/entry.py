"""An entry of the registry of data sets."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

from dpbt.data.domains import Domain, Nominal, Numeric
from experiments.common.data.reading import Layout

_UCI = "https://archive.ics.uci.edu"


@dataclasses.dataclass(frozen=True)
class File:
    """One file of a data set.

    Attributes:
        name: the file that is read, as its source calls it (after unpacking).
        sha256: SHA-256 of the file; "" if it is not known.
        url: the address of the file, or of the archive or workbook that holds it; "" if it cannot
            be downloaded.
        exact: whether the sha256 is known to be that of the source's file. If not, it is that of
            the registry's copy, and another download is kept, with a note, if it can be read.
        unpack: (download, file) -> None, for an archive or a workbook.
        download_sha256: SHA-256 of the archive or workbook; "" if it is not known.
        copies: name -> SHA-256 of other forms of the file that the folder may hold.
    """

    name: str
    sha256: str
    url: str
    exact: bool = True
    unpack: Callable[[Path, Path], object] | None = None
    download_sha256: str = ""
    copies: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def hashes(self) -> dict[str, str]:
        """Name -> SHA-256 of all forms of the file that the folder may hold, preferred first."""
        return {self.name: self.sha256, **self.copies}


@dataclasses.dataclass(frozen=True)
class Entry:
    """A data set of the registry.

    Attributes:
        name: the data set's name.
        title: the source's title, with a note of what was left out.
        page: the source's page.
        citation: the work to cite.
        files: the files whose rows make the data set, in order. If there are two, the second is the
            canonical test set.
        rows: the number of rows, N.
        rule: how the label is made binary, and why.
        domain: from the number of intervals of a numeric column to the public domain.
        layout: how the files hold the table.
        missing: how missing values are written, in words.
        licence: the licence that the source states.
        folder: the data set's folder, if it is not its name.
        first: whether only the first N rows are read.
        note: what to know before comparing results.
        unavailable: why the data set cannot be downloaded, and what to do.
    """

    name: str
    title: str
    page: str
    citation: str
    files: tuple[File, ...]
    rows: int
    rule: str
    domain: Callable[[int], Domain]
    layout: Layout
    missing: str = "none"
    licence: str = "CC BY 4.0"
    folder: str = ""
    first: bool = False
    note: str = ""
    unavailable: str = ""

    def __post_init__(self):
        object.__setattr__(self, "folder", self.folder or self.name)


def page(number: int) -> str:
    """The address of a data set's page at the UCI repository."""
    return f"{_UCI}/dataset/{number}"


def uci(path: str, sha256: str, exact: bool = True) -> File:
    """A file of the UCI repository that needs no unpacking."""
    return File(path.rpartition("/")[2], sha256, uci_url(path), exact)


def uci_url(path: str) -> str:
    """The address of a file at the UCI repository, by its folder and name there."""
    return f"{_UCI}/ml/machine-learning-databases/{quote(path)}"


Bounds = Mapping[str, tuple[float, float]]


def numeric(bounds: Bounds, bins: int, missing: bool = False) -> dict[str, Numeric]:
    """A numeric column for each name, in [low, high]."""
    return {
        name: Numeric(float(low), float(high), bins, missing)
        for name, (low, high) in bounds.items()
    }


def words(text: str) -> tuple[str, ...]:
    """The words of a text, which blanks separate."""
    return tuple(text.split())


def nominal(values: Mapping[str, str]) -> dict[str, Nominal]:
    """A nominal column for each name; its values are separated by blanks."""
    return {name: Nominal(words(text)) for name, text in values.items()}


def largest(value: str, *others: str) -> dict[str, bool]:
    """The classes of one value against all others."""
    return {value: True, **dict.fromkeys(others, False)}


def at_least(threshold: int, scores: range) -> dict[str, bool]:
    """The classes of scores: those of at least `threshold` are positive."""
    return {str(score): score >= threshold for score in scores}
