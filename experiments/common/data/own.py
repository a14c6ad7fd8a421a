"""A person's own data: a CSV file, and a JSON file with its public domain."""

from pathlib import Path

import numpy as np

from dpbt.commands.errors import InputError, of_input
from dpbt.data.columns import read_truths
from dpbt.data.domains import Domain, Label, read_domain
from dpbt.data.files import read_csv
from experiments.common.data.dataset import Dataset


def from_csv(data: str | Path, domain_file: str | Path) -> Dataset:
    """A person's own data: a CSV file with a header, and a JSON file with its public domain.

    `files.read_csv` reads the file. A row whose label is missing or neither class is left out. No
    other row is left out or refused, because an error about private rows is a release.

    Raises:
        InputError: naming the file, if the domain is not as `domains.read_domain` describes, if the
            CSV file is empty, or if its header lacks one of the columns.
        OSError: if a file cannot be read.
    """
    domain, label = declared(domain_file)
    with of_input(data):
        rows = read_csv(data, domain, label)
    negative, positive = label.classes or ("", "")  # two, as `declared` says
    classes = read_truths(rows.labels, positive, negative)
    here = classes != -1
    columns = {name: _objects(column)[here] for name, column in rows.columns.items()}
    return Dataset(Path(data).stem, domain, columns, classes[here] == 1, lines=len(classes))


def declared(domain_file: str | Path) -> tuple[Domain, Label]:
    """The public domain and the label that a JSON file declares.

    Raises:
        InputError: naming the file and what is wrong with it. Also for a label of several classes,
            a number, and weights of rows.
        OSError: if the file cannot be read.
    """
    try:
        with of_input(domain_file):
            domain, label = read_domain(domain_file)
    except UnicodeDecodeError:
        raise InputError(f"{domain_file}: not JSON: the file is not UTF-8 text") from None
    if label.target is not None or label.weight is not None:
        raise InputError(
            f"{domain_file}: experiments learn two classes, and rows without weights; "
            "`python -m dpbt fit` learns from this file"
        )
    return domain, label


def _objects(column: list) -> np.ndarray:
    """The same cells in an array, which masks can index."""
    found = np.empty(len(column), object)
    found[:] = column
    return found
