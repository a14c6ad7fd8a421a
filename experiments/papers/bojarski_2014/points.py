"""Measure what sections 5 and 6 say of points and of Adult: goodness, weight, and the 123 features.

- *Goodness and weight.* The goodness of a point is the share of all trees that classify it
  correctly, and its weight is the mean share of its label in its leaves. Theorems 5.1 and 5.2 bound
  their means over points from below, and the text says that most points are near them. Many random
  trees of one height stand for all trees; no noise is drawn.
- *The best number of trees.* Theorems 5.7 and 5.9 prove an error for k_opt trees with some
  probability. One text of the paper numbers the latter 5.10. Both are evaluated at eta = 1000 /
  n_train and at the measured accuracy of the trees.
- *Adult.* The paper has 123 attributes: indicators of values, and of fifths of the numbers. They
  are fitted to the rows. Errors of the private and the other forests are measured on a sample of
  them, and on the same rows with declared ranges.
"""

import argparse
import json

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.learners import hypotheses, random_tree
from experiments.common import commands, forest_bounds, results, structures, tables
from experiments.common.progress import progress
from experiments.common.results import Line
from experiments.papers.bojarski_2014 import lines
from experiments.papers.bojarski_2014.grid import measure_errors, noise_scales
from experiments.papers.bojarski_2014.rows import prepare_study
from experiments.papers.bojarski_2014.settings import BUDGET, NAME, POINTS, SETTINGS

KEPT = ("dataset", "height", "trees", "measure", "value", "bound", "within", "above_half")
PROVED = ("dataset", "voting", "eta", "best_trees", "error", "probability")
ADULT = ("quintiles", "attributes", "private", "voting", "error", "interval", "paper_error")
NEAR = 0.1
"""How far from the mean a point may be that is near it; the text names no number."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    commands.add_seed(parser, "trees, folds and keys")
    commands.add_shared(
        parser, out=results.results_folder(NAME), smoke=True, json="print both as JSON"
    )


def run(options: argparse.Namespace) -> None:
    """Measure, save and print both."""
    names = POINTS["datasets"][:1] if options.smoke else POINTS["datasets"]
    trees = 10 if options.smoke else POINTS["trees"]
    both = [_points(name, trees, options.seed) for name in names]
    lines = [line for part, _ in both for line in part]
    proved = [line for _, part in both for line in part]
    out = commands.out_folder(options)
    results.write_csv(out / "best_trees.csv", proved, {"seed": options.seed})
    results.write_csv(out / "points.csv", lines, {"near": NEAR, "seed": options.seed})
    adult = [] if options.smoke else [line for q in (False, True) for line in _adult(q, options)]
    if adult:
        about = {"rows": POINTS["adult_rows"], "runs": POINTS["adult_runs"], "seed": options.seed}
        results.write_csv(out / "adult_123.csv", adult, about)
    if options.json:
        print(json.dumps({"points": lines, "best_trees": proved, "adult": adult}, indent=1))
        return
    print(tables.align_lines(lines, KEPT))
    print(tables.align_lines(proved, PROVED))
    if adult:
        print(tables.align_lines(adult, ADULT))


def _points(name: str, trees: int, seed: int) -> tuple[list[Line], list[Line]]:
    """Goodness and weight over all rows of a data set, and what is proved of k_opt trees."""
    study = prepare_study(name, 1, seed)
    rows, height = random_tree.prepare_position_rows(study.table), POINTS["height"]

    @jax.jit
    def leaf_of(key):
        tree = structures.draw_structure(key, height, rows.position.shape[1])
        return hypotheses.assign_leaves_by_position(tree.attribute, tree.threshold, rows.position)

    leaves = jnp.stack([leaf_of(key) for key in jax.random.split(jax.random.key(seed), trees)])
    stated = forest_bounds.points(leaves, rows.target, rows.present, 2**height)
    accuracy = float(forest_bounds.accuracy(stated, rows.present).mean())
    least = {"goodness": accuracy, "weight": accuracy**2 + (1 - accuracy) ** 2}
    lines = []
    for words, bound in least.items():
        values = np.asarray(getattr(forest_bounds, words)(stated), np.float64)
        mean = float(values.mean())
        line: Line = {"dataset": name, "height": height, "trees": trees, "measure": words}
        line |= {"value": mean, "bound": bound, "spread": float(values.std())}
        line |= {"within": 100 * float(np.mean(np.abs(values - mean) <= NEAR))}
        lines.append({**line, "above_half": 100 * float(np.mean(values > 0.5))})
    eta, proved = BUDGET / study.trained, []
    for voting in ("threshold", "probabilistic"):
        told = forest_bounds.at_best_trees(voting, 1 - accuracy, study.trained, eta, height)
        line = {"dataset": name, "voting": voting, "eta": eta, "best_trees": int(told.trees)}
        line |= {"error": float(told.error), "probability": float(told.probability)}
        proved.append(line)
    return lines, proved


def _adult(quintiles: bool, options: argparse.Namespace) -> list[Line]:
    """Table 1's private and other errors of Adult, with or without fitted quintiles."""
    sample, runs = POINTS["adult_rows"], POINTS["adult_runs"]
    study = prepare_study("adult", runs, options.seed, None, quintiles, sample)
    rows, attributes = study.table.bins.shape
    heights, sizes, grid = POINTS["adult_heights"], SETTINGS["trees"], []
    with progress(2 * runs, "run", "adult", quiet=options.json) as shown:
        for eta in (np.inf, BUDGET / study.trained):
            scales = noise_scales(eta, sizes, rows)
            errors = measure_errors(
                study.table, study.runs, scales, heights, sizes, options.seed, shown
            )
            private = bool(eta < np.inf)
            grid += lines.series_lines(errors, private, eta, study.trained, heights, sizes)
    return [
        {"quintiles": quintiles, "attributes": attributes, **line}
        for line in lines.table_1_lines("adult", grid, rows)
    ]
