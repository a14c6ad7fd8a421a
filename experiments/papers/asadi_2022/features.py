"""The data sets as the Boolean features of Asadi et al. (2022)."""

import dataclasses
import itertools
from typing import NamedTuple

import numpy as np

from dpbt.data.domains import Domain, Numeric, predicates
from dpbt.data.splits import table_of_splits
from dpbt.data.tables import select_rows
from dpbt.types import Table
from experiments.common import data


class BooleanFeatures(NamedTuple):
    """Features bool[N, F] of rows, and what each of them says in words."""

    values: np.ndarray
    words: list[str]


def one_hot_intervals(domain: Domain, splits: np.ndarray) -> BooleanFeatures:
    """The paper's Boolean features, and their words.

    Thresholds of a numeric column become the intervals between them.

    Args:
        domain: the public domain.
        splits: bool[N, S]: whether a row satisfies a split of the domain.
    """
    words, blocks, names, start = predicates(domain), [], [], 0
    for name, column in domain.items():
        count = sum(word.column == name for word in words)
        thresholds = splits[:, start : start + count]
        if isinstance(column, Numeric):
            cuts = thresholds[:, : column.bins - 1]
            # A missing number exceeds no threshold.
            is_missing = thresholds[:, column.bins - 1 :].any(axis=1, keepdims=True)
            ends = np.concatenate([np.ones((len(thresholds), 1), bool), cuts], axis=1)
            next_ends = np.concatenate([cuts, np.zeros((len(thresholds), 1), bool)], axis=1)
            is_inside = ends & ~next_ends & ~is_missing
            edges = [column.low, *column.thresholds, column.high]
            names += [f"{a:.6g} < {name} <= {b:.6g}" for a, b in itertools.pairwise(edges)]
            names += [f"{name} is missing"] * (count - column.bins + 1)
            blocks += [is_inside, thresholds[:, column.bins - 1 :]]
        else:
            names += [word.yes for word in words[start : start + count]]
            blocks.append(thresholds)
        start += count
    return BooleanFeatures(np.concatenate(blocks, axis=1), names)


class FeatureTable(NamedTuple):
    """The Boolean features of a data set.

    Attributes:
        table: all rows.
        test: bool[N], the canonical test rows, or None.
        words: the features in words.
    """

    table: Table
    test: np.ndarray | None
    words: list[str]


def load_features(
    name: str, features: str = "intervals", folder: str | None = None
) -> FeatureTable:
    """The Boolean features of a data set by name.

    Args:
        name: one of DATASETS.
        features: "intervals" are the paper's, and "thresholds" this library's. "observed" are the
            intervals that some row is in. Mushroom has 117 of them, as in the paper, and 126
            declared ones. "quantiles" are intervals between quantiles of the training rows. Both
            are read off the rows, to measure the worth of doing so.
        folder: folder of the data sets.
    """
    dataset = data.load(name, folder=folder)
    if features == "quantiles":
        dataset = quantile_intervals(dataset)
    splits, words = dataset.splits, [word.yes for word in predicates(dataset.domain)]
    if features != "thresholds":
        splits, words = one_hot_intervals(dataset.domain, splits)
    if features == "observed":
        is_observed = np.asarray(splits.any(axis=0))
        words = list(itertools.compress(words, is_observed.tolist()))
        splits = splits[:, is_observed]

    label, test = dataset.label, dataset.test
    if name == "cod-rna" and test is not None:  # the paper cross-validates the training file
        splits, label, test = splits[~test], label[~test], None
    table = table_of_splits(splits, label, np.ones(len(label), bool))
    return FeatureTable(table, test, words)


def quantile_intervals(dataset: data.Dataset) -> data.Dataset:
    """The data set with each number cut at quantiles of its training rows, into as many intervals.

    Equal quantiles are one cut, and those at an end of the range are none.
    """
    rows = slice(None) if dataset.test is None else ~dataset.test
    domain = dict(dataset.domain)
    for name, column in dataset.domain.items():
        if isinstance(column, Numeric):
            numbers = np.asarray(dataset.columns[name], np.float64)[rows]
            levels = np.arange(1, column.bins) / column.bins
            cuts = np.unique(np.quantile(numbers[~np.isnan(numbers)], levels))
            cuts = tuple(cuts[(cuts > column.low) & (cuts < column.high)].tolist())
            domain[name] = Numeric(column.low, column.high, missing=column.missing, cuts=cuts)
    return dataclasses.replace(dataset, domain=domain)


def take_training_rows(table: Table, test: np.ndarray | None) -> Table:
    """The table without the canonical test rows, if there are any."""
    return table if test is None else select_rows(table, ~test)
