"""Predict with a saved model: a line `class,probability` for each row, or `number`.

Of two classes the probability is that of the positive class, whichever class is predicted. Of
several it is that of the predicted class. --proba prints a column for each class. Models that vote
state no probabilities, and then there is a column `score`. This needs no JAX. Predictions about a
row show what it holds, so they are as private as the rows. A new file is its owner's alone (mode
0600), and one that --force replaces keeps its mode.

Rows are read in blocks, so they may be more than memory holds. A row that is absent from a folder
of chunks has a line of empty cells. Rows without a label are absent there, so give their file.
"""

import argparse
import csv
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from dpbt.commands import inputs, output
from dpbt.commands.errors import InputError, of_input
from dpbt.data import chunks, files
from dpbt.data.domains import Domain
from dpbt.data.kinds import Numeric
from dpbt.data.targets import response_of
from dpbt.public import without_values
from dpbt.reader import BLOCK_ROWS, SavedModel
from dpbt.storage import naming, remove_dead, write_whole


class EncodedRows(NamedTuple):
    """Some rows, encoded as a model reads them.

    Attributes:
        rows: u8[n, F] or f32[n, F].
        present: bool[n].
    """

    rows: np.ndarray
    present: np.ndarray

    __repr__ = without_values


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("model", metavar="MODEL", help="a file that `fit` wrote")
    words = "a CSV file with a header, or a Parquet file; it needs no label. Or a folder that "
    words += "`convert` wrote"
    parser.add_argument("file", metavar="ROWS", help=words)
    words = "a column for the probability of each class"
    parser.add_argument("--proba", action="store_true", help=words)
    output.add_out(parser, "the file of the predictions, in place of standard output")


def run(options: argparse.Namespace) -> None:
    """Print or write the predictions.

    Raises:
        InputError: for rows that are not as expected. No cell is an error.
    """
    path = None if options.out is None else output.free(options)
    model = inputs.saved(options.model)
    if model.domain is None:
        raise InputError(f"{options.model}: saved without a domain, so it reads no files")
    if options.proba and model.probability is None:
        raise InputError(f"{options.model}: {model.no_probability}")
    blocks = _blocks(options, model, model.domain)
    if path is None:
        _write(sys.stdout, model, blocks, options.proba)
        return

    def write(part: Path) -> None:
        with open(part, "w", encoding="utf-8", newline="") as file:
            _write(file, model, blocks, options.proba)

    remove_dead(path.parent)  # they hold predictions, which are private
    with output.working(f"predicting {options.file}"):
        write_whole(path, write, mode=0o600)
    print(f"wrote {path}")


def _blocks(
    options: argparse.Namespace, model: SavedModel, domain: Domain
) -> Iterator[EncodedRows]:
    """The rows of a file, or of a folder of chunks.

    Raises:
        InputError: for what is neither, and for a folder of another domain.
        OSError: if it cannot be read.
    """
    try:
        with of_input(options.file), naming(Path(options.file)):
            if Path(options.file).is_dir():
                yield from _of_chunks(options, model, domain)
                return
            names = tuple(domain)
            for columns in files.blocks_of_file(options.file, names, BLOCK_ROWS):
                rows = model.encode(columns)
                yield EncodedRows(rows, np.ones(len(rows), bool))
    except ImportError as error:
        raise InputError(str(error)) from error


def _of_chunks(
    options: argparse.Namespace, model: SavedModel, domain: Domain
) -> Iterator[EncodedRows]:
    """The rows of a folder of chunks.

    Raises:
        InputError: for a folder of another domain, and for a model that reads no cells.
        ValueError: naming the folder or a file of it, if it is damaged.
        OSError: if it cannot be read.
    """
    table = chunks.open_folder(options.file)
    if not table.has_domain(domain):
        raise InputError(f"{options.file}: converted with another domain than the model has")
    if model.dtype != "uint8":
        raise InputError(f"{options.model}: reads exact numbers, and chunks have cells of them")
    for block in table.blocks(BLOCK_ROWS):
        yield EncodedRows(block.cells.T, block.present)


def _write(file: TextIO, model: SavedModel, blocks: Iterator[EncodedRows], proba: bool) -> None:
    """Write the predictions as CSV, a block at a time."""
    first = next(blocks, None)  # what is no table is refused before a line is written
    names = _names(model, proba)
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    empty = [""] * len(names)
    for block in () if first is None else itertools.chain([first], blocks):
        answers, numbers = _predictions(model, block.rows, proba)
        there = block.present.tolist()
        writer.writerows(
            (answer, *(f"{number:.6g}" for number in row)) if present else empty
            for answer, row, present in zip(answers, numbers.tolist(), there, strict=True)
        )


def _names(model: SavedModel, proba: bool) -> list[str]:
    """The names of all columns of the predictions."""
    if isinstance(model.target, Numeric):
        return ["number"]
    if model.probability is None:
        return ["class", "score"]
    if not proba:
        return ["class", "probability"]
    count = response_of(model.target).classes
    words = range(count) if model.classes is None else model.classes
    return ["class", *(f"probability of {word}" for word in words)]


def _predictions(model: SavedModel, rows: np.ndarray, proba: bool) -> tuple[list, np.ndarray]:
    """(answers, numbers [N, C]): what the columns hold."""
    scores = model.scores_of(rows)
    answers = model.answers_of(scores).tolist()
    if isinstance(model.target, Numeric):
        return [f"{number:.6g}" for number in answers], np.zeros((len(answers), 0))
    if model.probability is None:
        return answers, scores[:, None]
    by_trees = model.probability == "shares"
    shares = model.predict_proba(rows) if by_trees else model.probabilities_of(scores)
    if proba:
        return answers, shares
    of_predicted = shares[:, 1] if model.target is None else shares.max(axis=1)
    return answers, of_predicted[:, None]
