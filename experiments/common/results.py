"""Results as text, with what is needed to repeat them."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpbt.sweeps.storage import provenance, write_whole

Line = dict[str, Any]
"""One line of results: text, numbers, Booleans and None by column."""


def folder(name: str) -> Path:
    """Where the results of a command lie, below the working folder."""
    return Path("results") / name


def write_csv(path: Path, lines: Sequence[Mapping], constants: Mapping) -> None:
    """Write lines of equal keys as CSV, with constant columns for configuration and provenance."""
    origin = provenance()
    extended = [{**row, **constants, **origin} for row in lines]

    def write(name: Path) -> None:
        with open(name, "w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(extended[0]))
            writer.writeheader()
            writer.writerows(extended)

    write_whole(path, write)


def read_csv(path: Path, command: str) -> list[Line]:
    """The lines that `write_csv` wrote, each cell as what it was: an empty one is None.

    Args:
        path: of the file.
        command: of `python -m experiments`, which makes the file.

    Raises:
        ValueError: naming that command, if the file is not there.
    """
    if not path.exists():
        raise ValueError(f"{path} is not there; run: python -m experiments {command}")
    with open(path, newline="") as file:
        return [{name: _value(cell) for name, cell in row.items()} for row in csv.DictReader(file)]


def _value(cell: str) -> Any:
    named = {"": None, "True": True, "False": False}
    if cell in named:
        return named[cell]
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell
