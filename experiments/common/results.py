"""Results as CSV files, with the settings and versions that are needed to repeat them."""

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpbt import sweeps
from dpbt.common.storage import write_atomically
from dpbt.owners.cli.parsing import InputError

Line = dict[str, Any]
"""One line of results: text, numbers, Booleans and None by column."""


def results_folder(name: str) -> Path:
    """The folder of a command's results, below the working folder."""
    return Path("results") / name


def where(lines: Iterable[Line], **values: Any) -> list[Line]:
    """The lines that have these values in these columns."""
    return [line for line in lines if all(line[name] == value for name, value in values.items())]


def columns(lines: Sequence[Line], *names: str) -> tuple[list[Any], ...]:
    """The values of some columns."""
    return tuple([line[name] for line in lines] for name in names)


def distinct(lines: Iterable[Line], name: str) -> list:
    """The values of a column, in the order in which they occur."""
    return list(dict.fromkeys(line[name] for line in lines))


def standard_error(line: Line, measure: str) -> float:
    """The standard error over splits of the mean of a measure; 0 where there is none."""
    return (line.get(f"{measure}_sd") or 0.0) / math.sqrt(line["splits"])


def is_clearly_above(line: Line, other: Line, measure: str) -> bool:
    """Whether a line's mean is above another's by more than .003 and two standard errors."""
    error = math.hypot(standard_error(line, measure), standard_error(other, measure))
    return line[f"{measure}_mean"] - other[f"{measure}_mean"] > 0.003 + 2 * error


def write_csv(path: Path, lines: Sequence[Mapping], constants: Mapping) -> None:
    """Write lines of equal keys as CSV, with constant columns for configuration and provenance.

    A line that was read from an earlier file keeps its own constants. The file is replaced whole: a
    run that is killed leaves the former file or the new one.
    """
    origin = sweeps.provenance()
    write_columns(path, [{**row, **constants, **origin, **row} for row in lines])


def write_columns(path: Path, lines: Sequence[Mapping]) -> None:
    """Write lines as they are; a line has an empty cell where it lacks another's column."""
    names = dict.fromkeys(name for line in lines for name in line)

    def write(name: Path) -> None:
        with open(name, "w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(names))
            writer.writeheader()
            writer.writerows(lines)

    write_atomically(path, write)


def read_csv(path: Path, command: str) -> list[Line]:
    """The lines that `write_csv` wrote, each cell with its type; an empty cell is None.

    Args:
        path: the file.
        command: the arguments of `python -m experiments` that write the file.

    Raises:
        InputError: naming that command, if the file does not exist.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist; run: python -m experiments {command}")
    with open(path, newline="") as file:
        return [
            {name: _parse_cell(cell) for name, cell in row.items()} for row in csv.DictReader(file)
        ]


def read_with_constants(path: Path, command: str) -> list[Line]:
    """The lines of a file, each with the constants of the file `.json` beside it, if there is one.

    So programs read what runs saved, and what was aggregated of it.

    Raises:
        InputError: as `read_csv`.
    """
    lines, constants_path = read_csv(path, command), path.with_suffix(".json")
    constants = json.loads(constants_path.read_text()) if constants_path.exists() else {}
    return [{**constants, **line} for line in lines]


def _parse_cell(cell: str) -> Any:
    named = {"": None, "True": True, "False": False}
    if cell in named:
        return named[cell]
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell
