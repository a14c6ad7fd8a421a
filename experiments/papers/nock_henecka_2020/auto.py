"""Run the recipe `auto` on the 19 domains, in the same folds as the grid.

It has no settings to choose. Its test error stands beside the runs of the paper's figures.
"""

import argparse
import json

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import recipes
from experiments.common import commands, data, protocols, results
from experiments.common.progress import progress
from experiments.common.training import boosted_scores
from experiments.papers.nock_henecka_2020.run import add_dataset_option
from experiments.papers.nock_henecka_2020.settings import EPSILONS, FOLDS, NAME, SEED

BINS = 64
"""The cells of a number; finer splits cost `auto` nothing."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_dataset_option(parser)
    commands.add_shared(
        parser,
        data=True,
        out=results.results_folder(NAME),
        smoke=True,
        json="print the lines as a JSON list",
    )


def run_command(options: argparse.Namespace) -> None:
    """Measure all domains; write a line for each epsilon, and print the lines."""
    epsilons, lines = EPSILONS[2:3] if options.smoke else EPSILONS, []
    path = commands.out_folder(options) / "auto.csv"
    total = len(options.datasets) * len(epsilons)
    with progress(total, "domain and epsilon", quiet=options.json) as shown:
        for name in options.datasets:
            for epsilon in epsilons:
                lines.append(error_line(name, epsilon, options.data))
                shown.update(1)
            results.write_csv(path, lines, {"seed": SEED, "bins": BINS, "folds": FOLDS})
    if options.json:
        print(json.dumps(lines, indent=1))
        return
    print(f"wrote {path}")


def error_line(name: str, epsilon: float, folder: str | None) -> results.Line:
    """The mean test error over folds, and its deviation."""
    dataset = data.load(name, BINS, folder)
    label = np.asarray(dataset.label)
    split = protocols.cross_validation(label, FOLDS, [SEED])
    recipe = recipes.auto(epsilon=epsilon, rows=len(label), domain=dataset.domain)
    errors = []
    for fold, (train, test) in enumerate(zip(split.train, split.test, strict=True)):
        table = dataset.table._replace(present=jnp.asarray(train))
        score = np.asarray(boosted_scores(jax.random.key(SEED + fold), table, recipe))
        errors.append(float(np.mean((score > 0)[test] != label[test])))
    spread = {"error_mean": float(np.mean(errors)), "error_sd": float(np.std(errors, ddof=1))}
    return {"domain": name, "epsilon": epsilon, **spread}
