"""Aggregated results of the papers: small files that are kept with the code.

A result is `reproduction/PAPER/NAME.csv`, and `NAME.json` beside it says what made it. Figures and
the page of the reproduction read these files alone. So both are made again without any data set.
By default programs write to `results/reproduction`, so that a run of one's own leaves the results
that are kept with the code as they are.
"""

import argparse
import contextlib
import contextvars
import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dpbt.common.storage import write_atomically
from dpbt.owners.cli.parsing import InputError
from experiments.common import commands, results

FOLDER = Path("reproduction")
"""The folder of all papers that is kept with the code, below the working folder."""

DEFAULT_OUT = results.results_folder("reproduction")
"""Where programs write by default."""

_CURRENT_FOLDER = contextvars.ContextVar("folder of aggregated results", default=FOLDER)

CLAIMS = Path(__file__).parents[2] / FOLDER / "claims"
"""The folder of what the papers print, which is part of the code."""

ORIGIN_COLUMNS = ("dpbt", "commit", "jax", "device")
"""The columns that every saved line has about its run."""

COMMIT_SEPARATOR = "; "
"""What stands between the commits of a result of several runs."""

DIGITS = 5
"""Significant digits of numbers that were measured."""

EXACT_DIGITS = 9
"""Significant digits that tell all numbers of single precision apart: fewer would make ties."""

Line = results.Line


def add_options(parser: argparse.ArgumentParser, name: str) -> None:
    """Declare what all programs `aggregate` take: the saved results, and where to write."""
    commands.add_shared(parser, saved=results.results_folder(name))
    add_out(parser)
    words = "what is smaller than in the paper, in words; it is kept with the results"
    parser.add_argument("--reduced", metavar="WORDS", help=words)


def add_out(parser: argparse.ArgumentParser) -> None:
    """Declare where aggregated results are written."""
    words = f"the folder of aggregated results (%(default)s); {FOLDER} has those of the code"
    parser.add_argument("--out", metavar="FOLDER", default=str(DEFAULT_OUT), help=words)


def current_folder() -> Path:
    """The folder that results are read from: FOLDER, or that of `reading_from`."""
    return _CURRENT_FOLDER.get()


@contextlib.contextmanager
def reading_from(folder: Path) -> Iterator[None]:
    """Read results of another folder than FOLDER within the block."""
    token = _CURRENT_FOLDER.set(folder)
    try:
        yield
    finally:
        _CURRENT_FOLDER.reset(token)


def write_result(
    options: argparse.Namespace,
    paper: str,
    name: str,
    *,
    lines: Sequence[Mapping],
    origin: Mapping[str, Any],
    digits: int = DIGITS,
) -> None:
    """Write the lines of a result, and what made them.

    Args:
        options: `out` and `reduced` are read.
        paper: the paper's folder.
        name: the result's name.
        lines: lines with equal keys.
        origin: the command, date, versions and constants.
        digits: the significant digits that measured numbers keep.
    """
    path = Path(options.out) / paper / f"{name}.csv"
    reduced = {"reduced": options.reduced} if options.reduced else {}
    text = json.dumps({**origin, **reduced}, indent=1, sort_keys=True, default=str) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    short = [{key: _round_number(value, digits) for key, value in line.items()} for line in lines]
    results.write_columns(path, short)
    write_atomically(path.with_suffix(".json"), lambda path: path.write_text(text))
    print(path)


def _round_number(value: object, digits: int) -> object:
    """A number in few digits; a whole one without a point."""
    if not isinstance(value, float):
        return value
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def aggregate_saved_file(
    options: argparse.Namespace,
    paper: str,
    source: str,
    *,
    command: str,
    keep: Sequence[str],
    name: str | None = None,
) -> bool:
    """Aggregate one saved file: keep some columns, and note those that have one value.

    Args:
        options: `results`, `out` and `reduced` are read.
        paper: the paper's folder.
        source: the saved file without its suffix.
        command: the arguments of `python -m experiments` that save it.
        keep: the columns that stay.
        name: the result's name, if it is not that of the file.

    Returns:
        Whether the file exists.
    """
    path = Path(options.results) / f"{source}.csv"
    if not path.exists():
        return False
    lines = results.read_csv(path, command)
    origin = {"command": f"python -m experiments {command}", "date": date_written(path)}
    for column in lines[0]:
        values = {line[column] for line in lines}
        if column not in keep and len(values) == 1:
            (origin[column],) = values
    short = [{column: line[column] for column in keep if column in line} for line in lines]
    write_result(options, paper, name or source, lines=short, origin=origin)
    return True


def date_written(path: Path) -> str:
    """The day on which a file was written."""
    seconds = path.stat().st_mtime
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).date().isoformat()


def read_result(paper: str, name: str, folder: Path | None = None) -> list[Line]:
    """The lines of a result, each with the constants that hold for all.

    Args:
        paper: the paper's folder.
        name: the result's name.
        folder: the folder of all papers; FOLDER, or that of `reading_from`, if it is None.

    Raises:
        InputError: naming the command that aggregates it, if it does not exist.
    """
    folder = _CURRENT_FOLDER.get() if folder is None else folder
    path = folder / paper / f"{name}.csv"
    lines = results.read_csv(path, f"{paper} aggregate --out {folder}")
    constants = read_origin(paper, name, folder)
    return [{**constants, **line} for line in lines]


def read_origin(paper: str, name: str, folder: Path | None = None) -> dict[str, Any]:
    """What made a result: command, date, versions and the constants of its run.

    Raises:
        InputError: if the file is missing.
    """
    folder = _CURRENT_FOLDER.get() if folder is None else folder
    path = folder / paper / f"{name}.json"
    if not path.exists():
        command = f"python -m experiments {paper} aggregate --out {folder}"
        raise InputError(f"{path} does not exist; run: {command}")
    return json.loads(path.read_text())


def result_names(paper: str, folder: Path | None = None) -> list[str]:
    """The results of a paper that are there."""
    return sorted(path.stem for path in ((folder or _CURRENT_FOLDER.get()) / paper).glob("*.csv"))


def read_claims(paper: str) -> list[dict[str, Any]]:
    """What a paper prints: its rows, as `experiments.reproduction.claims` explains them."""
    return json.loads((CLAIMS / f"{paper}.json").read_text())


class PrintedNumber(NamedTuple):
    """A number that a paper prints.

    Attributes:
        setting: column -> the value of the setting that the number is of.
        number: the number.
    """

    setting: dict[str, Any]
    number: float


class PrintedText(NamedTuple):
    """A cell of a paper's table, as it is printed; `setting` is as of `PrintedNumber`."""

    setting: dict[str, Any]
    text: str


def printed_numbers(paper: str, row: str) -> list[PrintedNumber]:
    """The printed numbers of a row."""
    return [PrintedNumber(cell.setting, float(cell.text)) for cell in printed_texts(paper, row)]


def printed_texts(paper: str, row: str) -> list[PrintedText]:
    """The printed cells of a row."""
    (claim,) = (claim for claim in read_claims(paper) if claim["id"] == row)
    return [PrintedText(setting, text) for setting, text, *_ in claim["cells"]]
