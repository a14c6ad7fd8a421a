"""A data set in memory: a person's own, or one that ships with scikit-learn."""

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.data.cells import read_booleans
from dpbt.data.domains import (
    Domain,
    DomainFile,
    Numeric,
    encode,
    read_domain,
    splits,
)
from dpbt.data.files import read_columns
from dpbt.data.splits import satisfied_splits
from dpbt.owners.cli.parsing import InputError, as_input_error
from dpbt.types import Table


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """A named data set with its public domain.

    Attributes:
        name: for titles.
        domain: the public domain; its columns are the features.
        columns: the raw cells of every column of the domain, [N] each. They are float64 with NaN
            for a missing number, bool, or text. Those of a person's own file are text or None.
        label: bool[N].
        test: bool[N], the rows of the canonical test file, or None if there is no such file.
        lines: the number of rows of the file, with those that have no class; None if all have one.
    """

    name: str
    domain: Domain
    columns: Mapping[str, np.ndarray]
    label: np.ndarray
    test: np.ndarray | None = None
    lines: int | None = None

    @cached_property
    def table(self) -> Table:
        """All rows, present, with the test rows (`experiments.common.protocols` makes masks)."""
        cells = jnp.asarray(encode(self.domain, self.columns))
        present = jnp.ones(len(self.label), bool)
        public_splits = jax.tree.map(jnp.asarray, splits(self.domain))
        return Table(cells, jnp.asarray(self.label), present, public_splits)

    @property
    def splits(self) -> np.ndarray:
        """bool[N, S]: whether a row satisfies a public split."""
        return np.asarray(satisfied_splits(self.table))

    def where(self, rows: np.ndarray) -> "Dataset":
        """The data set with only some rows; `rows` is bool[N], such as `~dataset.test`, or i[M]."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        test = None if self.test is None else self.test[rows]
        return dataclasses.replace(self, columns=columns, label=self.label[rows], test=test)


# Feature -> bounds of its (mean, standard error, worst): round numbers around the ranges that
# scikit-learn's description of the data set prints.
_CANCER_BOUNDS = {
    "radius": ((5, 30), (0, 3), (5, 40)),
    "texture": ((5, 40), (0, 5), (10, 50)),
    "perimeter": ((40, 200), (0, 25), (50, 260)),
    "area": ((100, 2600), (0, 600), (150, 4500)),
    "smoothness": ((0.05, 0.2), (0, 0.04), (0.05, 0.25)),
    "compactness": ((0, 0.4), (0, 0.15), (0, 1.2)),
    "concavity": ((0, 0.5), (0, 0.4), (0, 1.3)),
    "concave points": ((0, 0.25), (0, 0.06), (0, 0.3)),
    "symmetry": ((0.1, 0.35), (0, 0.08), (0.1, 0.7)),
    "fractal dimension": ((0.04, 0.1), (0, 0.03), (0.05, 0.25)),
}


def breast_cancer(bins: int = 10) -> Dataset:
    """Breast Cancer Wisconsin (Diagnostic), 569 x 30; the positive class is malignant.

    Args:
        bins: intervals of each column, within round bounds.
    """
    from sklearn.datasets import load_breast_cancer

    bunch: Any = load_breast_cancer()
    domain: dict[str, Numeric] = {}
    for kind, place in (("mean", 0), ("error", 1), ("worst", 2)):
        for feature, bounds in _CANCER_BOUNDS.items():
            name = f"{feature} error" if kind == "error" else f"{kind} {feature}"
            domain[name] = Numeric(*(float(bound) for bound in bounds[place]), bins=bins)
    columns = {str(name): bunch.data[:, k] for k, name in enumerate(bunch.feature_names)}
    return Dataset("breast cancer", domain, columns, np.asarray(bunch.target == 0))


def from_csv(data: str | Path, domain_file: str | Path) -> Dataset:
    """A person's own data: a CSV file with a header, and a JSON file with its public domain.

    `files.read_columns` reads it. A row whose label is missing or neither class is left out. No
    other row is left out or refused, because an error about private rows is a release.

    Raises:
        InputError: naming the file, if the domain is not as `domains.read_domain` describes, if the
            CSV file is empty, or if its header lacks one of the columns.
        OSError: if a file cannot be read.
    """
    domain, label = read_declaration(domain_file)
    with as_input_error(data):
        columns = read_columns(data, (*domain, label.column))
    negative, positive = label.classes or ("", "")  # `read_declaration` refuses other numbers
    classes = read_booleans(columns.pop(label.column), positive, negative)
    has_class = classes != -1
    columns = {name: _object_array(column)[has_class] for name, column in columns.items()}
    return Dataset(Path(data).stem, domain, columns, classes[has_class] == 1, lines=len(classes))


def read_declaration(domain_file: str | Path) -> DomainFile:
    """The public domain and the label that a JSON file declares.

    Raises:
        InputError: naming the file and what is wrong with it. Also for a label of several classes,
            a number, weights of rows, and ids of users.
        OSError: if the file cannot be read.
    """
    with as_input_error(domain_file):
        declared = read_domain(domain_file)
    label = declared.label
    if label.target is not None or label.weight is not None or label.user is not None:
        raise InputError(
            f"{domain_file}: experiments learn two classes, and rows without weights or users; "
            "`python -m dpbt fit` learns from this file"
        )
    return declared


def _object_array(column: list) -> np.ndarray:
    """The same cells in an array, which masks can index."""
    objects = np.empty(len(column), object)
    objects[:] = column
    return objects
