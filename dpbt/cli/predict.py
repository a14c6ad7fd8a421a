"""Predict with a saved model: a line `class,probability` for each row, or `number`.

Of two classes the probability is that of the positive class, whichever class is predicted. Of
several it is that of the predicted class. --proba prints a column for each class. Models that vote
state no probabilities, and then there is a column `score`. This needs no JAX. Predictions about a
row show what it holds, so they are as private as the rows. A new file is its owner's alone (mode
0600), and one that --force replaces keeps its mode.

Rows are read in blocks, so they may be more than memory holds. A row that is absent from a folder
of blocks has a line of empty cells. Rows without a label are absent there, so give their file.
"""

import argparse
import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from dpbt.cli import shared
from dpbt.cli.shared import InputError, add_out, free, of_input, working
from dpbt.common.storage import naming, remove_left, write_whole
from dpbt.data import blocks as folders
from dpbt.data import files
from dpbt.data.domains import Domain
from dpbt.data.kinds import Numeric
from dpbt.release.model import Model
from dpbt.release.scoring import BLOCK_ROWS


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("model", metavar="MODEL", help="a file that `fit` wrote")
    words = "a CSV file with a header, or a Parquet file; it needs no label. Or a folder that "
    words += "`convert` wrote"
    parser.add_argument("file", metavar="ROWS", help=words)
    words = "a column for the probability of each class"
    parser.add_argument("--proba", action="store_true", help=words)
    add_out(parser, "the file of the predictions, in place of standard output")


def run(options: argparse.Namespace) -> None:
    """Print or write the predictions.

    Raises:
        InputError: for rows that are not as expected. No cell is an error.
    """
    path = None if options.out is None else free(options)
    model = shared.saved(options.model)
    if model.about.domain is None:
        raise InputError(f"{options.model}: saved without a domain, so it reads no files")
    if options.proba and model.about.probability is None:
        raise InputError(f"{options.model}: {model.about.reason}")
    blocks = _blocks(options, model, model.about.domain)
    if path is None:
        _write(sys.stdout, model, blocks, options.proba)
        return

    def write(part: Path) -> None:
        with open(part, "w", encoding="utf-8", newline="") as file:
            _write(file, model, blocks, options.proba)

    remove_left(path)  # it holds predictions, which are private
    with working(f"predicting {options.file}"):
        write_whole(path, write, mode=0o600)
    print(f"wrote {path}")


def _blocks(
    options: argparse.Namespace, model: Model, domain: Domain
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The rows of a file or of a folder of blocks: (encoded rows, bool[n] which are present).

    The last block is of no rows.

    Raises:
        InputError: for what is neither, for a folder of another domain, and for one where the model
            reads no cells.
        ValueError: naming the folder or a file of it, if it is damaged.
        OSError: if it cannot be read.
    """
    with of_input(options.file), naming(Path(options.file)):
        if Path(options.file).is_dir():
            table = folders.open_folder(options.file)
            if not table.has_domain(domain):
                words = "converted with another domain than the model has"
                raise InputError(f"{options.file}: {words}")
            if model.dtype != "uint8":
                words = "reads exact numbers, and blocks have bins of them"
                raise InputError(f"{options.model}: {words}")
            yield from ((block.bins.T, block.present) for block in table.pieces(BLOCK_ROWS))
        else:
            for columns in files.blocks_of_file(options.file, tuple(domain), BLOCK_ROWS):
                rows = model.encode(columns)
                yield rows, np.ones(len(rows), bool)
        yield np.zeros((0, model.features), model.dtype), np.ones(0, bool)


def _write(
    file: TextIO, model: Model, blocks: Iterator[tuple[np.ndarray, np.ndarray]], proba: bool
) -> None:
    """Write the predictions as CSV, a block at a time."""
    writer = csv.writer(file, lineterminator="\n")
    for number, (rows, present) in enumerate(blocks):
        names, columns = zip(*_predictions(model, rows, proba), strict=True)
        if number == 0:  # what is no table is refused before a line is written
            writer.writerow(names)
        lines = zip(*columns, strict=True)
        empty = [""] * len(names)
        writer.writerows(
            line if there else empty for line, there in zip(lines, present.tolist(), strict=True)
        )


def _predictions(model: Model, rows: np.ndarray, proba: bool) -> list[tuple[str, list]]:
    """(name, cells) of each column."""

    def words(numbers: Any) -> list[str]:
        return [f"{number:.6g}" for number in np.asarray(numbers).tolist()]

    about, answers = model.about, model.predict(rows).tolist()
    if isinstance(about.target, Numeric):
        return [("number", words(answers))]
    if about.probability is None:
        return [("class", answers), ("score", words(model.decision_function(rows)))]
    shares = model.predict_proba(rows)
    if proba:
        classes = about.classes or range(shares.shape[1])
        named = zip(classes, shares.T, strict=True)
        return [("class", answers), *((f"probability of {c}", words(of)) for c, of in named)]
    of_predicted = shares[:, 1] if about.target is None else shares.max(axis=1)
    return [("class", answers), ("probability", words(of_predicted))]
