"""Predict with a saved model: a line `class,probability` for each row, or `number`.

Of two classes the probability is that of the positive class, whichever class is predicted. Of
several it is that of the predicted class. --proba prints a column for each class. Models that vote
state no probabilities, and then there is a column `score`. This needs no JAX. Predictions about a
row show what it holds, so they are as private as the rows.
"""

import argparse
import csv
import io
import sys

import numpy as np

from dpbt.commands import inputs, output
from dpbt.commands.errors import InputError
from dpbt.data.kinds import Numeric
from dpbt.reader import SavedModel


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("model", metavar="MODEL", help="a file that `fit` wrote")
    words = "a CSV file with a header, or a Parquet file; it needs no label"
    parser.add_argument("file", metavar="ROWS", help=words)
    words = "a column for the probability of each class"
    parser.add_argument("--proba", action="store_true", help=words)
    output.add_out(parser, "the file of the predictions, in place of standard output")


def run(options: argparse.Namespace) -> None:
    """Print or write the predictions.

    Raises:
        InputError: for a file that is not as expected. No cell is an error.
    """
    path = None if options.out is None else output.free(options)
    model = inputs.saved(options.model)
    if model.domain is None:
        raise InputError(f"{options.model}: saved without a domain, so it reads no files")
    if options.proba and model.probability is None:
        raise InputError(f"{options.model}: {model.no_probability}")
    columns = inputs.columns_of(options.file, tuple(model.domain))
    text = _as_csv(*_predictions(model, columns, options.proba))
    if path is None:
        sys.stdout.write(text)
        return
    output.write(path, text)
    print(f"wrote {path}")


def _predictions(
    model: SavedModel, columns: dict, proba: bool
) -> tuple[list[str], list, np.ndarray]:
    """(names, answers, numbers [N, C]): the names of all columns, and what they hold."""
    encoded = model.encode(columns)
    answers = model.predict(encoded).tolist()
    if isinstance(model.target, Numeric):
        return ["number"], [f"{number:.6g}" for number in answers], np.zeros((len(answers), 0))
    if model.probability is None:
        return ["class", "score"], answers, model.decision_function(encoded)[:, None]
    shares = model.predict_proba(encoded)
    if proba:
        words = range(shares.shape[1]) if model.classes is None else model.classes
        return ["class", *(f"probability of {word}" for word in words)], answers, shares
    of_predicted = shares[:, 1] if model.target is None else shares.max(axis=1)
    return ["class", "probability"], answers, of_predicted[:, None]


def _as_csv(names: list[str], answers: list, numbers: np.ndarray) -> str:
    """The predictions as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    pairs = zip(answers, numbers, strict=True)
    writer.writerows((answer, *(f"{number:.6g}" for number in row)) for answer, row in pairs)
    return text.getvalue()
