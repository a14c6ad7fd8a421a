"""A person's own data: a CSV file, and a JSON file with its public domain."""

from pathlib import Path

import numpy as np

from dpbt.data.columns import read_truths
from dpbt.data.domains import read_domain
from dpbt.data.files import read_csv
from experiments.common.data.dataset import Dataset


def from_csv(data: str | Path, domain_file: str | Path) -> Dataset:
    """A person's own data: a CSV file with a header, and a JSON file with its public domain.

    `files.read_csv` reads the file, line by line. A row whose label is neither class, or missing,
    is left out, by itself. Nothing else about a row is checked, as a complaint about private rows
    is a release.

    Raises:
        ValueError: naming the file: a domain that is not as `domains.read_domain` wants it, an
            empty file, or a header without one of the columns.
    """
    domain, label = read_domain(domain_file)
    rows = read_csv(data, domain, label)
    classes = read_truths(rows.labels, label.positive, label.negative)
    here = classes != -1
    columns = {name: _objects(column)[here] for name, column in rows.columns.items()}
    return Dataset(Path(data).stem, domain, columns, classes[here] == 1, lines=len(classes))


def _objects(column: list) -> np.ndarray:
    """The cells as they are, in an array that masks can index."""
    found = np.empty(len(column), object)
    found[:] = column
    return found
