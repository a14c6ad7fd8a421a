"""What the registry knows of a data set."""

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
        name: the file that is read, as it is called at its source (after unpacking).
        sha256: of its bytes; "" where no copy has been seen.
        url: where it, or the archive or workbook that holds it, can be downloaded; "" where it
            cannot.
        exact: whether these bytes are known to be the source's. If not, the sha256 is of the copy
            that this registry was made with, and a download that differs from it is kept if it can
            be read, with a note.
        unpack: (download, file) -> None, for an archive or a workbook.
        download_sha256: of the archive or workbook, where it is known.
        copies: sha256 of other forms in which the file may lie in the folder, by name.
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
        """The sha256 of each name under which the file may lie in the folder, the preferred one
        first.
        """
        return {self.name: self.sha256, **self.copies}


@dataclasses.dataclass(frozen=True)
class Entry:
    """A data set of the registry.

    Attributes:
        name: of the data set.
        title: as at the source, with what was left out.
        page: the source's page.
        citation: whom to cite.
        files: whose rows make the data set, in order. Where there are two, the second is the
            canonical test set.
        rows: N.
        rule: how the label is made binary, and why so.
        domain: from the number of intervals of a numeric column to the public domain.
        layout: how the files hold the table.
        missing: what stands for missing values, in words.
        licence: as the source states it.
        folder: the data set's folder, if it is not its name.
        first: only the first N rows are read.
        note: what to know before comparing results.
        unavailable: why it cannot be downloaded, and what to do.
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
    """A data set's page at the UCI repository."""
    return f"{_UCI}/dataset/{number}"


def uci(path: str, sha256: str, exact: bool = True) -> File:
    """A file that is read as it lies at the UCI repository."""
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
    """What blanks separate."""
    return tuple(text.split())


def nominal(values: Mapping[str, str]) -> dict[str, Nominal]:
    """A nominal column for each name; its values are separated by blanks."""
    return {name: Nominal(words(text)) for name, text in values.items()}


def largest(value: str, *others: str) -> dict[str, bool]:
    """One class against all others."""
    return {value: True, **dict.fromkeys(others, False)}


def at_least(threshold: int, scores: range) -> dict[str, bool]:
    """Scores of at least a threshold are positive."""
    return {str(score): score >= threshold for score in scores}
