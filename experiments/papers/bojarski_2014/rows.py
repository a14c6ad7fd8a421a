"""Data sets as the paper uses them: rows, attributes and runs."""

import argparse
import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import msgspec
import numpy as np

from dpbt.data.domains import Nominal, Numeric, encode_positions
from dpbt.owners.cli.parsing import InputError
from dpbt.types import Table
from experiments.common import commands, data
from experiments.papers.bojarski_2014.grid import Run, split_runs
from experiments.papers.bojarski_2014.settings import (
    ALL_DATASETS,
    BOOLEAN_NOMINALS,
    MAX_RUNS,
    SETTINGS,
    SMOKE,
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that all programs have: data set, rows, attributes and runs."""
    words = f"one data set of {', '.join(ALL_DATASETS)} (all but quantum)"
    parser.add_argument("--dataset", choices=ALL_DATASETS, metavar="NAME", help=words)
    words = f"number of runs, each with its own fold, 1 to {MAX_RUNS} (%(default)s)"
    kind = commands.whole_number_type(1, MAX_RUNS)
    parser.add_argument("--runs", type=kind, default=MAX_RUNS, metavar="COUNT", help=words)
    commands.add_seed(parser, "folds and keys")
    words = "nominal columns as codes, or as a Boolean for each value (as the paper has the data)"
    parser.add_argument("--nominal", choices=("codes", "values"), help=words)
    words = "numbers as indicators of their quintiles, which are read off the rows (LIBSVM's Adult)"
    parser.add_argument("--quintiles", action="store_true", help=words)
    words = "a random sample of COUNT rows, with the same eta n_train, so the same relative noise"
    parser.add_argument("--rows", type=commands.whole_number_type(100), metavar="COUNT", help=words)
    commands.add_shared(parser, smoke=True)


def load_rows(name: str, sample: int | None = None) -> data.Dataset:
    """A data set without its canonical test rows, which the paper does not use.

    Args:
        name: the data set's name.
        sample: the number of rows of a random sample, or None for all rows.

    Raises:
        InputError: if the sample is smaller than 100 rows or not smaller than the data set.
    """
    dataset = data.load(name)
    rows = np.arange(len(dataset.label)) if dataset.test is None else np.flatnonzero(~dataset.test)
    if sample is not None:
        if not 100 <= sample < len(rows):
            raise InputError(f"--rows of {name} must be in 100..{len(rows) - 1}, got {sample}")
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:sample])
    columns = {column: np.asarray(values)[rows] for column, values in dataset.columns.items()}
    return dataclasses.replace(
        dataset, columns=columns, label=np.asarray(dataset.label)[rows], test=None
    )


def attribute_positions(dataset: data.Dataset, *, codes: bool) -> np.ndarray:
    """f32[N, A]: positions in the public ranges.

    A missing number is at the low end, and no attribute marks it as missing.
    """
    domain = dict(dataset.domain)
    for column, kind in domain.items():
        if not isinstance(kind, Nominal):
            domain[column] = msgspec.structs.replace(kind, missing=False)
        elif codes:
            domain[column] = msgspec.structs.replace(kind, ordered=len(kind.values) > 1)
    return encode_positions(domain, dataset.columns)


def quintile_positions(dataset: data.Dataset) -> np.ndarray:
    """f32[N, A]: a Boolean for each listed value but "?", and for each fifth of a number's rows.

    Equal quintiles are merged. The quintiles are fitted to the rows, so this is only for comparison
    with the paper.
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
            blocks.append(encode_positions({column: kind}, dataset.columns))
    return np.concatenate(blocks, axis=1)


class Study(NamedTuple):
    """A data set as the paper uses it.

    Attributes:
        name: the data set's name.
        dataset: its rows.
        table: the same rows as exact positions, all present.
        runs: which rows train, validate and test.
        num_train: n_train, nine tenths of the rows.
    """

    name: str
    dataset: data.Dataset
    table: Table
    runs: list[Run]
    num_train: int


def prepare_study(
    name: str,
    runs: int,
    seed: int,
    *,
    nominal: str | None = None,
    quintiles: bool = False,
    sample: int | None = None,
) -> Study:
    """Load a data set as arrays and split it into runs.

    Args:
        name: the data set's name.
        runs: the number of runs.
        seed: the seed of the runs.
        nominal: "codes" or "values"; None for the choice that gives the paper's number of
            attributes.
        quintiles: see `quintile_positions`.
        sample: see `load_rows`.
    """
    dataset = load_rows(name, sample)
    if nominal is None:
        nominal = "values" if name in BOOLEAN_NOMINALS else "codes"
    position = (
        quintile_positions(dataset)
        if quintiles
        else attribute_positions(dataset, codes=nominal == "codes")
    )
    label = np.asarray(dataset.label)
    table = Table(jnp.asarray(position), jnp.asarray(label), jnp.ones(len(label), bool))
    return Study(name, dataset, table, split_runs(label, runs, seed), round(0.9 * len(label)))


def study_of_options(name: str, options: argparse.Namespace) -> Study:
    """A data set with the rows, attributes and runs of the options."""
    runs = min(options.runs, (SMOKE if options.smoke else SETTINGS)["runs"])
    return prepare_study(
        name,
        runs,
        options.seed,
        nominal=options.nominal,
        quintiles=options.quintiles,
        sample=options.rows,
    )


def configuration(study: Study, options: argparse.Namespace) -> dict:
    """The columns about data and runs that every file of results has."""
    rows, attributes = study.table.bins.shape
    return {
        "dataset": study.name,
        "rows": rows,
        "attributes": attributes,
        "runs": len(study.runs),
        "seed": options.seed,
        "nominal": options.nominal or ("values" if study.name in BOOLEAN_NOMINALS else "codes"),
        "quintiles": options.quintiles,
    }
