"""Measure what the plots of Table 2 show beside LazyBB, and the recipe `auto`.

Without privacy these are scikit-learn's boosted trees and one 1-rule. With privacy they are two
classifiers of diffprivlib, if it is installed: logistic regression (DP-LR) at its default
regularisation, and random forests (DP-RF). The latter are not in the paper. The paper's DP-Bag and
DP-Boost have no public package, and are left out.

diffprivlib needs an older scikit-learn than the newest one. So install dpbt once more, in a virtual
environment of its own, with the extras `experiments` and `peers`, and run this program there.
"""

import argparse
import importlib.util
from collections.abc import Iterator
from importlib import metadata

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import recipes
from dpbt.data.splits import satisfied_splits
from dpbt.data.tables import select_rows
from experiments.common import commands, data, peers, protocols, results
from experiments.common.training import boosted_scores
from experiments.papers.asadi_2022 import tables
from experiments.papers.asadi_2022.features import load_features
from experiments.papers.asadi_2022.jobs import (
    add_folds_option,
    add_shared_options,
    mean_and_sd_columns,
)
from experiments.papers.asadi_2022.settings import DATASETS, EPSILONS, RELATION

BINS = 64
"""The cells of a number for `auto`."""

KEYS = 3
"""The keys of a private method on canonical test rows."""

FOREST = {"trees": 10, "depth": 5}
"""The defaults of diffprivlib's forest."""

PROTOCOLS = ("test", "folds")
"""Canonical test rows where there are any (Table 2), or cross-validated training rows (Figures 2
and 3)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_shared_options(parser, DATASETS)
    parser.set_defaults(keys=KEYS)
    add_folds_option(parser)
    commands.add_shared(parser, smoke=True)


def run_command(options: argparse.Namespace) -> None:
    """Measure all methods; write the lines, and print them."""
    lines = []
    config = {"folds": options.folds, "seed": options.seed, "bins": BINS}
    for library in ("scikit-learn", "diffprivlib"):
        if importlib.util.find_spec(library.replace("scikit-learn", "sklearn")):
            config[library] = metadata.version(library)
    for name in options.dataset:
        lines += baseline_lines(name, options)
        results.write_csv(commands.out_folder(options) / "baselines.csv", lines, config)
    tables.print_table(commands.out_folder(options), "baselines", as_json=options.json)


def baseline_lines(name: str, options: argparse.Namespace) -> Iterator[results.Line]:
    """A line for each method and epsilon of a data set, under each protocol that it has."""
    for protocol in PROTOCOLS if name == "adult" else PROTOCOLS[1:]:
        rows = _EvaluatedRows(name, protocol, options)
        epsilons = EPSILONS[10:11] if options.smoke else EPSILONS
        for method, measure in (
            ("one rule", one_rule_accuracy),
            ("boosting", boosted_trees_accuracy),
        ):
            accuracies = [measure(rows.features, rows.label, split) for split in rows.splits]
            yield rows.line(method, None, accuracies)
        for epsilon in epsilons:
            yield rows.line("auto", epsilon, rows.auto(epsilon))
            if importlib.util.find_spec("diffprivlib"):
                yield rows.line("dp-lr", epsilon, rows.logistic(epsilon))
                yield rows.line("dp-rf", epsilon, rows.forest(epsilon))


class _EvaluatedRows:
    """A data set and its evaluations.

    Attributes:
        splits: the rows that train and test, of each evaluation.
        features: bool[N, A], the paper's Boolean features.
        label: bool[N].
        bins: the rows as `auto` reads them.
        peer_rows: the rows as other libraries read them.
    """

    def __init__(self, name: str, protocol: str, options: argparse.Namespace):
        features, test, _ = load_features(name, "intervals", options.data)
        self.name, self.protocol, self.options = name, protocol, options
        dataset = data.load(name, BINS, options.data)
        is_row_used = np.ones(len(dataset.label), bool)
        if dataset.test is not None and (name == "cod-rna" or protocol == "folds"):
            is_row_used = ~np.asarray(dataset.test)
        self.domain, self.bins = dataset.domain, select_rows(dataset.table, is_row_used)
        self.peer_rows = peers.rows_of_dataset(dataset).where(is_row_used)
        if test is not None and protocol == "folds":
            features, test = select_rows(features, ~test), None
        self.features = np.asarray(satisfied_splits(features))
        self.label = np.asarray(features.target)
        if test is None:
            folds = protocols.cross_validation(self.label, options.folds, [options.seed])
        else:
            folds = protocols.canonical_folds(test)
        self.splits = folds.splits()
        self.splits = self.splits[:1] if options.smoke else self.splits

    def runs(self) -> Iterator[tuple[int, protocols.Split]]:
        """A seed and a split: several keys on canonical test rows, one for each fold."""
        keys = self.options.keys if len(self.splits) == 1 and not self.options.smoke else 1
        for key in range(keys):
            for number, split in enumerate(self.splits):
                yield self.options.seed + key * len(self.splits) + number, split

    def line(self, method: str, epsilon: float | None, accuracy: list[float]) -> results.Line:
        """The mean and deviation of some accuracies, over folds or keys."""
        return {
            "dataset": self.name,
            "protocol": self.protocol,
            "method": method,
            "epsilon": epsilon,
            **mean_and_sd_columns("accuracy", accuracy),
        }

    def auto(self, epsilon: float) -> list[float]:
        """Accuracies of `recipes.auto`."""
        max_rows = max(int(split.train.sum()) for split in self.splits)
        recipe = recipes.auto(epsilon=epsilon, rows=max_rows, domain=self.domain, relation=RELATION)
        accuracies = []
        for seed, split in self.runs():
            table = self.bins._replace(present=jnp.asarray(split.train))
            score = np.asarray(boosted_scores(jax.random.key(seed), table, recipe))
            accuracies.append(float(np.mean((score > 0)[split.test] == self.label[split.test])))
        return accuracies

    def logistic(self, epsilon: float) -> list[float]:
        """Accuracies of diffprivlib's logistic regression."""
        return [
            self._peer_accuracy(
                peers.diffprivlib_logistic(
                    self.peer_rows.where(split.train), epsilon=epsilon, seed=seed
                ),
                "unit",
                split.test,
            )
            for seed, split in self.runs()
        ]

    def forest(self, epsilon: float) -> list[float]:
        """Accuracies of diffprivlib's random forest, whose trees see rows in a random order."""
        return [
            self._peer_accuracy(
                peers.diffprivlib_forest(
                    self.peer_rows.where(split.train),
                    **FOREST,
                    epsilon=epsilon,
                    seed=seed,
                    shuffle=True,
                ),
                "numbers",
                split.test,
            )
            for seed, split in self.runs()
        ]

    def _peer_accuracy(self, fit: peers.Fit, field: str, test: np.ndarray) -> float:
        """The accuracy of one fit of a peer; `field` names the arrays of `peers.Rows` it reads."""
        with peers.without_warnings():
            predicted = fit().predict(getattr(self.peer_rows, field)[test])
        return float(np.mean((predicted > 0) == self.label[test]))


def one_rule_accuracy(features: np.ndarray, label: np.ndarray, split: protocols.Split) -> float:
    """The test accuracy of the literal or constant of least training error."""
    sign = np.where(label[split.train], 1.0, -1.0)
    features = np.column_stack([features, np.ones(len(label), bool)])
    edge = sign @ np.where(features[split.train], 1.0, -1.0)
    best = int(np.argmax(np.abs(edge)))
    predicted = features[split.test, best] == (edge[best] > 0)
    return float(np.mean(predicted == label[split.test]))


def boosted_trees_accuracy(
    features: np.ndarray, label: np.ndarray, split: protocols.Split
) -> float:
    """The test accuracy of scikit-learn's boosted trees, at their defaults."""
    from sklearn.ensemble import GradientBoostingClassifier

    model = GradientBoostingClassifier(random_state=0)
    model.fit(features[split.train], label[split.train])
    return float(np.mean(model.predict(features[split.test]) == label[split.test]))
