"""Data sets as the paper used them: which rows, which attributes, which runs."""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dpbt.base import Table
from dpbt.domains import Nominal, Numeric, positions
from experiments.common import data
from experiments.papers.bojarski_2014.grid import Run, split

VALUES = ("adult",)  # a Boolean for each nominal value; elsewhere a code, as the paper's numbers of attributes have it


def load(name: str, sample: int | None = None) -> data.Dataset:
    """A data set without its canonical test rows, which the paper does not count; a random sample of it if asked.

    Raises:
        ValueError: if the sample is smaller than 100 rows or not smaller than the data set.
    """
    dataset = data.load(name)
    here = np.arange(len(dataset.label)) if dataset.test is None else np.flatnonzero(~dataset.test)
    if sample is not None:
        if not 100 <= sample < len(here):
            raise ValueError(f"a sample of {name} has 100 to {len(here) - 1} rows, got {sample}")
        here = np.sort(np.random.default_rng(0).permutation(here)[:sample])
    columns = {column: np.asarray(values)[here] for column, values in dataset.columns.items()}
    return dataclasses.replace(dataset, columns=columns, label=np.asarray(dataset.label)[here], test=None)


def attributes(dataset: data.Dataset, codes: bool) -> np.ndarray:
    """f32[N, A]: positions in the public ranges, a missing number at the low end, without attributes that say so."""
    domain = dict(dataset.domain)
    for column, kind in domain.items():
        if not isinstance(kind, Nominal):
            domain[column] = dataclasses.replace(kind, missing=False)
    return positions(domain, dataset.columns, codes=codes)


def quintile_attributes(dataset: data.Dataset) -> np.ndarray:
    """f32[N, A]: a Boolean for each listed value but "?", and for each fifth of the rows of a numeric column.

    Equal quintiles are one. Fitted to private rows, so only for comparison with what the paper did.
    """
    blocks = []
    for column, kind in dataset.domain.items():
        if isinstance(kind, Numeric):
            value = np.asarray(dataset.columns[column], np.float64)
            place = np.searchsorted(np.unique(np.nanquantile(value, (0.2, 0.4, 0.6, 0.8))), value)
            blocks.append((place[:, None] == np.unique(place)).astype(np.float32))
        else:
            if isinstance(kind, Nominal):
                kind = Nominal(tuple(value for value in kind.values if value != "?"))
            blocks.append(positions({column: kind}, dataset.columns))
    return np.concatenate(blocks, axis=1)


class Task(NamedTuple):
    """A data set as the paper used it: its rows, as a table, its runs, and n_train, nine tenths of the rows."""

    name: str
    dataset: data.Dataset
    table: Table
    runs: list[Run]
    trained: int


def prepare(
    name: str, runs: int, seed: int, nominal: str | None = None, quintiles: bool = False, sample: int | None = None
) -> Task:
    """Load a data set as arrays and split it into runs.

    Args:
        name: of the data set.
        runs: how many.
        seed: of the runs.
        nominal: "codes" or "values"; None: as the paper's number of attributes has it.
        quintiles: see `quintile_attributes`.
        sample: see `load`.
    """
    dataset = load(name, sample)
    if nominal is None:
        nominal = "values" if name in VALUES else "codes"
    position = quintile_attributes(dataset) if quintiles else attributes(dataset, nominal == "codes")
    label = np.asarray(dataset.label)
    table = Table(jnp.asarray(position), jnp.asarray(label), jnp.ones(len(label), bool))
    return Task(name, dataset, table, split(label, runs, seed), round(0.9 * len(label)))
