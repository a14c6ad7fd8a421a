"""Measure the rivals of Table 2: DP-LR tuned as the text says, DP-Boost and DP-Bag.

- *DP-LR* is diffprivlib's logistic regression, if diffprivlib is installed (see `baselines`), on
  numbers scaled to [0, 1] by their declared ranges and on indicators of all other values. Its C is
  chosen for each epsilon by cross-validation of the training rows. As in the paper, no ledger
  covers that choice.
- *DP-Boost* is `dp_boost.recipe` on Adult and Cod-RNA, and *DP-Bag* is `dp_bag.student_accuracies`
  on Adult, at epsilons from 1 on. The paper has them there alone.

Adult is tested on its own test rows, and the others are cross-validated. The folds of the choice
differ from those of the measurement.
"""

import argparse
import importlib.util
from collections.abc import Iterator
from importlib import metadata
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt.owners.cli.parsing import InputError
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_shared_options(parser, DATASETS)
    parser.set_defaults(keys=RIVALS.keys)
    add_folds_option(parser)
    parser.set_defaults(folds=RIVALS.folds)
    commands.add_shared(parser, smoke=True)


def run_command(options: argparse.Namespace) -> None:
    """Measure all rivals; write the lines, and print them.

    Raises:
        InputError: if only DP-LR has the data sets, and diffprivlib is not installed.
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
    tables.print_table(commands.out_folder(options), "rivals", as_json=options.json)


class _EvaluatedRows(NamedTuple):
    """A data set and its evaluations.

    Attributes:
        name: the data set's name.
        table: the rows with the splits of the library.
        test: the canonical test rows, or None.
        peer_rows: the rows as other libraries read them.
        splits: the rows that train and test, of each evaluation.
    """

    name: str
    table: Table
    test: np.ndarray | None
    peer_rows: peers.Rows
    splits: list[protocols.Split]

    def line(
        self,
        method: str,
        epsilon: float,
        accuracies: list[float],
        chosen_penalty: float | None = None,
    ) -> results.Line:
        """The mean and deviation of accuracies; `chosen_penalty` is what the method chose."""
        setting = {
            "dataset": self.name,
            "method": method,
            "epsilon": epsilon,
            "chosen": chosen_penalty,
        }
        return {**setting, **mean_and_sd_columns("accuracy", accuracies)}


def _load_rows(name: str, options: argparse.Namespace) -> _EvaluatedRows:
    table, test, _ = load_features(name, "thresholds", options.data)
    dataset = data.load(name, folder=options.data)
    is_row_used = np.ones(len(dataset.label), bool)
    if name == "cod-rna" and dataset.test is not None:
        is_row_used = ~np.asarray(dataset.test)
    peer_rows = peers.rows_of_dataset(dataset).where(is_row_used)
    if test is not None:
        splits = protocols.canonical_folds(test).splits() * options.keys
    else:
        label = np.asarray(table.target)
        splits = protocols.cross_validation(label, options.folds, [options.seed]).splits()
    return _EvaluatedRows(name, table, test, peer_rows, splits[: 1 if options.smoke else None])


def _rival_lines(name: str, options: argparse.Namespace) -> Iterator[results.Line]:
    """A line for each rival and epsilon of a data set."""
    rows = _load_rows(name, options)
    if name != "mushroom":
        yield from _dp_boost_lines(rows, options)
    if name == "adult":
        yield from _dp_bag_lines(rows, options)
    if importlib.util.find_spec("diffprivlib"):
        yield from _logistic_lines(rows, options)


def _dp_boost_lines(rows: _EvaluatedRows, options: argparse.Namespace) -> Iterator[results.Line]:
    for epsilon in RIVALS.low_privacy[: 1 if options.smoke else None]:
        recipe = dp_boost.recipe(epsilon=epsilon, rows=int(rows.splits[0].train.sum()))
        accuracies = [
            _dp_boost_accuracy(key, rows.table, recipe, split)
            for key, split in enumerate(rows.splits)
        ]
        yield rows.line("dp-boost", epsilon, accuracies)


def _dp_bag_lines(rows: _EvaluatedRows, options: argparse.Namespace) -> Iterator[results.Line]:
    students = [
        dp_bag.student_accuracies(
            rows.peer_rows.unit,
            np.asarray(rows.table.target),
            rows.splits[0],
            epsilons=RIVALS.low_privacy,
            delta=SERIES_DELTA,
            partitions=RIVALS.partitions,
            seed=options.seed + key,
        )
        for key in range(1 if options.smoke else RIVALS.bags)
    ]
    for epsilon, of_epsilon in zip(RIVALS.low_privacy, zip(*students, strict=True), strict=True):
        num_labels = float(np.mean([student.num_labels for student in of_epsilon]))
        accuracies = [student.accuracy for student in of_epsilon]
        yield rows.line("dp-bag", epsilon, accuracies, num_labels)


def _logistic_lines(rows: _EvaluatedRows, options: argparse.Namespace) -> Iterator[results.Line]:
    """DP-LR, whose penalty is chosen by cross-validation of the training rows."""
    train = np.ones(len(rows.peer_rows.label), bool) if rows.test is None else ~rows.test
    train_rows, label = rows.peer_rows.where(train), np.asarray(rows.table.target)[train]
    seeds = [options.seed + SELECTION_SEED]
    selection_splits = protocols.cross_validation(label, options.folds, seeds).splits()

    def accuracies(
        of_rows: peers.Rows, splits: list[protocols.Split], epsilon: float, penalty: float
    ) -> list[float]:
        return [
            _logistic_accuracy(of_rows, split, epsilon=epsilon, penalty=penalty, seed=key)
            for key, split in enumerate(splits)
        ]

    for epsilon in RIVALS.epsilons[: 1 if options.smoke else None]:
        by_penalty = {
            penalty: np.mean(accuracies(train_rows, selection_splits, epsilon, penalty))
            for penalty in RIVALS.penalties
        }
        best = max(by_penalty, key=lambda penalty: by_penalty[penalty])
        yield rows.line(
            "dp-lr", epsilon, accuracies(rows.peer_rows, rows.splits, epsilon, best), best
        )


def _dp_boost_accuracy(
    key: int, table: Table, recipe: dpbt.Recipe, split: protocols.Split
) -> float:
    """The test accuracy of one fit of DP-Boost."""
    training_table = table._replace(present=jnp.asarray(split.train))
    score = np.asarray(boosted_scores(jax.random.key(key), training_table, recipe))
    return float(np.mean(((score > 0) == np.asarray(table.target))[split.test]))


def _logistic_accuracy(
    rows: peers.Rows, split: protocols.Split, *, epsilon: float, penalty: float, seed: int
) -> float:
    """The test accuracy of one fit of DP-LR."""
    with peers.without_warnings():
        model = peers.diffprivlib_logistic(
            rows.where(split.train), epsilon=epsilon, seed=seed, C=penalty
        )()
        return float(np.mean(model.predict(rows.unit[split.test]) == rows.label[split.test]))
