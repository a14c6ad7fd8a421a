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
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.learners.forests import learner as forests
from dpbt.learners.forests.model import assign_leaves_by_position
from experiments.common import commands, forest_bounds, results, structures, tables
from experiments.common.progress import progress
from experiments.common.results import Line
from experiments.papers.bojarski_2014 import lines
from experiments.papers.bojarski_2014.grid import measure_errors, noise_scales
from experiments.papers.bojarski_2014.rows import prepare_study
from experiments.papers.bojarski_2014.settings import (
    ETA_TIMES_TRAINING_ROWS,
    NAME,
    POINTS,
    SETTINGS,
)

POINT_COLUMNS = ("dataset", "height", "trees", "measure", "value", "bound", "within", "above_half")
BEST_TREES_COLUMNS = ("dataset", "voting", "eta", "best_trees", "error", "probability")
ADULT_COLUMNS = ("quintiles", "attributes", "private", "voting", "error", "interval", "paper_error")
COLUMNS_OF_FILES = {
    "points": POINT_COLUMNS,
    "best_trees": BEST_TREES_COLUMNS,
    "adult_123": ADULT_COLUMNS,
}
"""Saved file -> its columns."""

NEAR = 0.1
"""How far from the mean a point may be that is near it; the text names no number."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    commands.add_seed(parser, "trees, folds and keys")
    commands.add_shared(
        parser, out=results.results_folder(NAME), smoke=True, json="print both as JSON"
    )


def run_command(options: argparse.Namespace) -> None:
    """Measure, save and print both."""
    names = POINTS["datasets"][:1] if options.smoke else POINTS["datasets"]
    trees = 10 if options.smoke else POINTS["trees"]
    point_lines, best_trees_lines = [], []
    for name in names:
        points, best_trees = _lines_of_data_set(name, trees=trees, seed=options.seed)
        point_lines += points
        best_trees_lines += best_trees
    out = commands.out_folder(options)
    results.write_csv(out / "best_trees.csv", best_trees_lines, {"seed": options.seed})
    results.write_csv(out / "points.csv", point_lines, {"near": NEAR, "seed": options.seed})
    adult_lines = []
    if not options.smoke:
        for quintiles in (False, True):
            adult_lines += _adult_lines(quintiles, options)
    if adult_lines:
        config = {"rows": POINTS["adult_rows"], "runs": POINTS["adult_runs"], "seed": options.seed}
        results.write_csv(out / "adult_123.csv", adult_lines, config)
    if options.json:
        report = {"points": point_lines, "best_trees": best_trees_lines, "adult": adult_lines}
        print(json.dumps(report, indent=1))
        return
    print(tables.align_lines(point_lines, POINT_COLUMNS))
    print(tables.align_lines(best_trees_lines, BEST_TREES_COLUMNS))
    if adult_lines:
        print(tables.align_lines(adult_lines, ADULT_COLUMNS))


class DataSetLines(NamedTuple):
    """The lines of a data set: of its points, and of the best number of trees."""

    points: list[Line]
    best_trees: list[Line]


def _lines_of_data_set(name: str, *, trees: int, seed: int) -> DataSetLines:
    """Goodness and weight over all rows of a data set, and what is proved of k_opt trees."""
    study = prepare_study(name, 1, seed)
    rows, height = forests.attribute_positions_of_rows(study.table), POINTS["height"]

    @jax.jit
    def assign_leaves(key):
        tree = structures.draw_structure(key, height, rows.position.shape[1])
        return assign_leaves_by_position(tree.attribute, tree.threshold, rows.position)

    leaves = jnp.stack(
        [assign_leaves(key) for key in jax.random.split(jax.random.key(seed), trees)]
    )
    answers = forest_bounds.answers_of_trees(leaves, rows.target, rows.present, 2**height)
    accuracy = float(forest_bounds.tree_accuracy(answers, rows.present).mean())
    measures = {
        "goodness": (forest_bounds.goodness(answers), accuracy),
        "weight": (forest_bounds.mean_weight(answers), accuracy**2 + (1 - accuracy) ** 2),
    }
    point_lines = []
    for measure, (of_rows, bound) in measures.items():
        values = np.asarray(of_rows, np.float64)
        mean = float(values.mean())
        line: Line = {"dataset": name, "height": height, "trees": trees, "measure": measure}
        line |= {"value": mean, "bound": bound, "spread": float(values.std())}
        line |= {"within": 100 * float(np.mean(np.abs(values - mean) <= NEAR))}
        point_lines.append({**line, "above_half": 100 * float(np.mean(values > 0.5))})
    eta, best_trees_lines = ETA_TIMES_TRAINING_ROWS / study.num_train, []
    for voting in ("threshold", "probabilistic"):
        bound = forest_bounds.bound_at_best_trees(
            voting, epsilon=1 - accuracy, rows=study.num_train, eta=eta, height=height
        )
        line = {"dataset": name, "voting": voting, "eta": eta, "best_trees": int(bound.trees)}
        line |= {"error": float(bound.error), "probability": float(bound.probability)}
        best_trees_lines.append(line)
    return DataSetLines(point_lines, best_trees_lines)


def _adult_lines(quintiles: bool, options: argparse.Namespace) -> list[Line]:
    """Table 1's private and other errors of Adult, with or without fitted quintiles."""
    sample, runs = POINTS["adult_rows"], POINTS["adult_runs"]
    study = prepare_study("adult", runs, options.seed, quintiles=quintiles, sample=sample)
    rows, attributes = study.table.bins.shape
    heights, sizes, series = POINTS["adult_heights"], SETTINGS["trees"], []
    with progress(2 * runs, "run", "adult", quiet=options.json) as progress_bar:
        for eta in (np.inf, ETA_TIMES_TRAINING_ROWS / study.num_train):
            errors = measure_errors(
                study.table,
                study.runs,
                scales=noise_scales(eta, sizes, rows),
                heights=heights,
                sizes=sizes,
                seed=options.seed,
                progress_bar=progress_bar,
            )
            grid = lines.ForestGrid(
                eta=eta, num_train=study.num_train, heights=heights, sizes=sizes
            )
            series += lines.series_lines(errors, grid)
    return [
        {"quintiles": quintiles, "attributes": attributes, **line}
        for line in lines.table_1_lines("adult", series, rows)
    ]
