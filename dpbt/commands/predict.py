"""Predict with a saved model: a line `class,probability` for each row.

The probability is that of the positive class, whichever class is predicted. Models that vote state
no probabilities, and then there is a column `score`. This needs no JAX. Predictions about a row
show what it holds, so they are as private as the rows.
"""

import argparse
import csv
import io
import sys

from dpbt.commands import inputs, output
from dpbt.commands.errors import InputError
from dpbt.reader import SavedModel


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("model", metavar="MODEL", help="a file that `fit` wrote")
    words = "a CSV file with a header, or a Parquet file; it needs no label"
    parser.add_argument("file", metavar="ROWS", help=words)
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
    text = _lines(model, inputs.columns_of(options.file, tuple(model.domain)))
    if path is None:
        sys.stdout.write(text)
        return
    output.write(path, text)
    print(f"wrote {path}")


def _lines(model: SavedModel, columns: dict) -> str:
    """The predictions as CSV."""
    encoded = model.encode(columns)
    if model.probability is None:
        name, numbers = "score", model.decision_function(encoded)
    else:
        name, numbers = "probability", model.predict_proba(encoded)[:, 1]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("class", name))
    words = model.predict(encoded).tolist()
    writer.writerows((word, f"{number:.6g}") for word, number in zip(words, numbers, strict=True))
    return text.getvalue()
