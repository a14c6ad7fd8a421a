"""Measure the rivals of Table 2: DP-LR tuned as the text says, DP-Boost and DP-Bag.

- *DP-LR* is diffprivlib's logistic regression, if diffprivlib is installed (see `baselines`), on
  numbers scaled to [0, 1] by their declared ranges and on indicators of all other values. Its C is
  chosen for each epsilon by cross-validation of the training rows. As in the paper, no ledger
  covers that choice.
- *DP-Boost* is `dp_boost.recipe` on Adult and Cod-RNA, and *DP-Bag* is `dp_bag.bagging_accuracies`
  on Adult, at epsilons from 1 on. The paper has them there alone.

Adult is tested on its own test rows, and the others are cross-validated. The folds of the choice
differ from those of the measurement.
"""

import argparse
import importlib.util
import itertools
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt.owners.cli.shared import InputError
from dpbt.types import Table
from experiments.common import commands, data, peers, protocols, results
from experiments.common.training import boosted_scores
from experiments.papers.asadi_2022 import dp_bag, dp_boost, tables
from experiments.papers.asadi_2022.features import load_features
from experiments.papers.asadi_2022.jobs import (
    add_folds_option,
    add_shared_options,
    mean_and_sd_columns,
)
from experiments.papers.asadi_2022.settings import (
    DATASETS,
    RIVALS,
    SELECTION_SEED,
    SERIES_DELTA,
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_shared_options(parser, DATASETS)
    parser.set_defaults(keys=RIVALS.keys)
    add_folds_option(parser)
    parser.set_defaults(folds=RIVALS.folds)
    commands.add_shared(parser, smoke=True)


def run(options: argparse.Namespace) -> None:
    """Measure all rivals; write the lines, and print them.

    Raises:
        InputError: if there is nothing to measure, since only DP-LR has the data sets.
    """
    lines: list[results.Line] = []
    config: dict[str, Any] = {"folds": options.folds, "seed": options.seed}
    config |= {"partitions": RIVALS.partitions, "tried": str(RIVALS.penalties)}
    for library in ("scikit-learn", "diffprivlib"):
        if importlib.util.find_spec(library.replace("scikit-learn", "sklearn")):
            config[library] = metadata.version(library)
    for name in options.dataset:
        for line in _rival_lines(name, options):
            lines.append(line)
            results.write_csv(commands.out_folder(options) / "rivals.csv", lines, config)
    if not lines:
        raise InputError("nothing was measured: DP-LR needs diffprivlib")
    tables.print_table(commands.out_folder(options), "rivals", options.json)


def _rival_lines(name: str, options: argparse.Namespace) -> Iterator[results.Line]:
    """A line for each rival and epsilon of a data set."""
    table, test, _ = load_features(name, "thresholds", options.data)
    dataset = data.load(name, folder=options.data)
    is_row_used = np.ones(len(dataset.label), bool)
    if name == "cod-rna" and dataset.test is not None:
        is_row_used = ~np.asarray(dataset.test)
    rows = peers.rows_of_dataset(dataset).where(is_row_used)
    label = np.asarray(table.target)
    few = options.smoke

    def line(method: str, epsilon: float, accuracy: list[float], chosen: float | None = None):
        about = {"dataset": name, "method": method, "epsilon": epsilon, "chosen": chosen}
        return {**about, **mean_and_sd_columns("accuracy", accuracy)}

    splits = list(_train_and_test_rows(label, test, options, options.seed))
    splits = splits[:1] if few else splits
    if name != "mushroom":
        for epsilon in RIVALS.low_privacy[: 1 if few else None]:
            recipe = dp_boost.recipe(epsilon=epsilon, rows=int(splits[0][0].sum()))
            found = [
                _dp_boost_accuracy(key, table, recipe, *split) for key, split in enumerate(splits)
            ]
            yield line("dp-boost", epsilon, found)
    if name == "adult":
        assert test is not None
        train, features = ~test, rows.unit
        runs = [
            dp_bag.bagging_accuracies(
                *(features, label, train, test, RIVALS.low_privacy, SERIES_DELTA),
                partitions=RIVALS.partitions,
                seed=options.seed + key,
            )
            for key in range(1 if few else RIVALS.bags)
        ]
        for k, epsilon in enumerate(RIVALS.low_privacy):
            labels = float(np.mean([found[k][1] for found in runs]))
            yield line("dp-bag", epsilon, [found[k][0] for found in runs], labels)
    if importlib.util.find_spec("diffprivlib"):
        inside = label if test is None else label[~test]
        choice = protocols.cross_validation(inside, options.folds, [options.seed + SELECTION_SEED])
        for epsilon in RIVALS.epsilons[: 1 if few else None]:
            trained = rows if test is None else rows.where(~test)
            tried = {
                penalty: np.mean(
                    [
                        _logistic_accuracy(trained, *one, epsilon, penalty, key)
                        for key, one in enumerate(zip(choice.train, choice.test, strict=True))
                    ]
                )
                for penalty in RIVALS.penalties
            }
            best = max(tried, key=lambda penalty: tried[penalty])
            found = [
                _logistic_accuracy(rows, *split, epsilon, best, key)
                for key, split in enumerate(splits)
            ]
            yield line("dp-lr", epsilon, found, best)


def _train_and_test_rows(
    label: np.ndarray, test: np.ndarray | None, options: argparse.Namespace, seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(train, test): the canonical test rows once for each key, or the folds."""
    if test is not None:
        yield from itertools.repeat((~test, test), options.keys)
        return
    split = protocols.cross_validation(label, options.folds, [seed])
    yield from zip(split.train, split.test, strict=True)


def _dp_boost_accuracy(
    key: int, table: Table, recipe: dpbt.Recipe, train: np.ndarray, test: np.ndarray
) -> float:
    """The test accuracy of one fit of DP-Boost."""
    training_table = table._replace(present=jnp.asarray(train))
    score = np.asarray(boosted_scores(jax.random.key(key), training_table, recipe))
    return float(np.mean(((score > 0) == np.asarray(table.target))[test]))


def _logistic_accuracy(
    rows: peers.Rows, train: np.ndarray, test: np.ndarray, epsilon: float, penalty: float, key: int
) -> float:
    """The test accuracy of one fit of DP-LR."""
    with peers.without_warnings():
        model = peers.diffprivlib_logistic(
            rows.where(train), epsilon=epsilon, seed=key, C=penalty
        )()
        return float(np.mean(model.predict(rows.unit[test]) == rows.label[test]))
