"""Compare `auto`, which nobody tunes, with greedy trees and 1-rules.

Every recipe has one setting for all data. A quarter of the rows, stratified, is the test set of a
split; each split has keys and public questions of its own. `rows` is the number of training rows
times `--bound`, so that a bound that is too generous can be tried. Numbers have 64 intervals.
"""

import argparse
import functools
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt import recipes
from dpbt.base import Recipe, Table
from dpbt.data.domains import Domain
from dpbt.privacy.keys import ResearchKeyWarning
from experiments.common import commands, data, results, tables
from experiments.common.protocols import auroc

BINS = 64
EPSILONS = (0.1, 0.5, 1.0)
UNTOUCHED = ("qsar", "page-blocks", "mammographic", "creditcard", "eeg", "covertype")
"""Data sets that were listed before the rule was first run on them."""

COLUMNS = ("dataset", "delta", "epsilon", "recipe", "accuracy", "auroc", "log_loss", "base_rate")


def _auto(domain: Domain, seed: int, **common: Any) -> Recipe:
    return recipes.auto(domain=domain, seed=seed, **common)


def _greedy(domain: Domain, seed: int, **common: Any) -> Recipe:
    del domain, seed
    return recipes.bdpe(criterion="gini", rounds=5, depth=3, **common)


def _rules(domain: Domain, seed: int, **common: Any) -> Recipe:
    del domain, seed
    return recipes.lazybb_rules(rounds=9, **common)


RECIPES: dict[str, Callable[..., Recipe]] = {"auto": _auto, "greedy": _greedy, "rules": _rules}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "data sets (%(default)s)"
    parser.add_argument("--dataset", metavar="NAME", nargs="+", default=UNTOUCHED, help=words)
    words = "total budgets (%(default)s)"
    parser.add_argument(
        "--epsilon", type=commands.positive, nargs="+", default=EPSILONS, help=words
    )
    words = "0 for a pure guarantee; several are measured one after the other (%(default)s)"
    parser.add_argument("--delta", type=commands.share, nargs="+", default=(0.0, 1e-6), help=words)
    words = "rows of the recipe, as a multiple of the training rows (%(default)s)"
    parser.add_argument("--bound", type=commands.positive, default=1.0, help=words)
    commands.add_count(parser, "--splits", 3, "splits into training and test rows")
    commands.add_out(parser, results.folder("accuracy"))
    commands.add_data(parser)


def test_rows(target: np.ndarray, split: int) -> np.ndarray:
    """bool[N]: a stratified quarter of the rows."""
    rng, test = np.random.default_rng(split), np.zeros(len(target), bool)
    for label in (False, True):
        rows = rng.permutation(np.flatnonzero(target == label))
        test[rows[: len(rows) // 4]] = True
    return test


def log_loss(probability: np.ndarray, target: np.ndarray) -> float:
    """The mean log loss in nats."""
    clipped = np.clip(probability, 1e-6, 1 - 1e-6)
    return float(-np.mean(np.log(np.where(target, clipped, 1 - clipped))))


def measured(table: Table, test: np.ndarray, recipe: Recipe, key: jax.Array) -> dict[str, float]:
    """Accuracy, AUROC and log loss on the test rows of a model of the others."""
    target = np.asarray(table.target)
    taught = table._replace(present=np.asarray(table.present) & ~test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResearchKeyWarning)
        model = dpbt.fit(key, taught, recipe)

    score = np.asarray(dpbt.decision_function(model, table))[test]
    found = {
        "accuracy": float(np.mean((score > 0) == target[test])),
        "auroc": float(auroc(jnp.asarray(score), jnp.asarray(target[test]))),
    }
    if recipe.loss is not None:
        found["log_loss"] = log_loss(
            np.asarray(dpbt.predict_proba(model, table))[test], target[test]
        )
    return found


def lines(name: str, options: argparse.Namespace) -> list[results.Line]:
    """A line for each delta, epsilon and recipe, of means over splits."""
    dataset = data.load(name, bins=BINS, folder=options.data)
    target = np.asarray(dataset.table.target)
    tests = [test_rows(target, split) for split in range(options.splits)]
    base = np.mean([log_loss(np.full(t.sum(), target[~t].mean()), target[t]) for t in tests])

    found = []
    for delta in options.delta:
        for epsilon in options.epsilon:
            for label, make in RECIPES.items():
                values = []
                for split, test in enumerate(tests):
                    rows = int(options.bound * np.sum(~test))
                    recipe = make(
                        dataset.domain, split, epsilon=epsilon, delta=delta, rows=max(rows, 1)
                    )
                    values.append(measured(dataset.table, test, recipe, jax.random.key(split)))
                means = {key: float(np.mean([v[key] for v in values])) for key in values[0]}
                line = {"dataset": name, "delta": delta, "epsilon": epsilon, "recipe": label}
                found.append({**line, "log_loss": None, **means, "base_rate": float(base)})
    return found


def run(options: argparse.Namespace) -> None:
    """Measure, print, and write `accuracy.csv`."""
    show = functools.partial(tables.of_lines, names=COLUMNS, real=".3g")
    path = commands.out_folder(options) / "accuracy.csv"
    found: list[results.Line] = []
    for name in options.dataset:
        new = lines(name, options)
        found += new
        print(show(new), flush=True)
        results.write_csv(path, found, {"bins": BINS, "splits": options.splits})
    print(f"wrote {path}")
