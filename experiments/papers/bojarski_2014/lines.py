"""Lines of results: series of errors, the bounds that theorems prove, and Table 1."""

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.models.scoring import VOTINGS
from dpbt.types import AnyArray
from experiments.common import forest_bounds, protocols
from experiments.common.results import Line
from experiments.papers.bojarski_2014.grid import NEGATIVE, Errors, Run
from experiments.papers.bojarski_2014.settings import (
    ANALYSIS,
    PAPER,
    PAPER_FORESTS,
    PAPER_ROWS,
    SURE,
)


def cart_test_error(position: np.ndarray, label: np.ndarray, runs: list[Run]) -> float:
    """The mean test error of CART.

    It splits by Gini nodes of at least 20 rows into leaves of at least 7. It is pruned at 1 % of
    the root's impurity.

    Args:
        position: f32[N, A].
        label: bool[N].
        runs: from `grid.split_runs`.
    """
    from sklearn.tree import DecisionTreeClassifier

    errors = []
    for run in runs:
        test = run.held[run.test]
        rest = np.setdiff1d(np.arange(len(label)), test)
        share = label[rest].mean()
        prune = 0.01 * 2 * share * (1 - share)
        tree = DecisionTreeClassifier(
            min_samples_split=20, min_samples_leaf=7, ccp_alpha=prune, random_state=0
        )
        tree.fit(position[rest], label[rest])
        errors.append(np.mean(tree.predict(position[test]) != label[test]))
    return float(np.mean(errors))


def half_interval(error: float, rows: int) -> float:
    """Half the width of the symmetrical 95 % binomial interval of an error, as a share."""
    return float(protocols.normal_half_width(jnp.float32(error * rows), jnp.float32(rows)))


def series_lines(
    errors: Errors,
    private: bool,
    eta: float,
    trained: int,
    heights: Sequence[int],
    sizes: Sequence[int],
) -> list[Line]:
    """One line for each reading of leaves, voting rule, number of trees and height, with bounds.

    Args:
        errors: the errors of all runs, stacked.
        private: whether eta is finite.
        eta: the budget.
        trained: n_train.
        heights: the heights of the trees.
        sizes: numbers of trees.
    """
    accuracy = errors.accuracy.mean(axis=0)
    test, spread = errors.test.mean(axis=0), errors.test.std(axis=0)
    validation = errors.validation.mean(axis=0)

    arguments = (private, 1 - accuracy, trained, eta, heights, sizes)
    bound = {voting: theorem_bounds(voting, *arguments) for voting in VOTINGS}
    least = {voting: smallest_proved_errors(voting, *arguments) for voting in VOTINGS}
    best_trees = None
    if private:
        best_trees = forest_bounds.best_trees(trained, eta, jnp.asarray(heights, jnp.float32))

    lines = []
    readings = NEGATIVE if private else NEGATIVE[:1]
    counts = (len(readings), len(VOTINGS), len(sizes), len(heights))
    for at in itertools.product(*map(range, counts)):
        negative, voting = readings[at[0]], VOTINGS[at[1]]
        trees, height = sizes[at[2]], heights[at[3]]
        proved = least[voting][at[2:]]
        lines.append(
            {
                "private": private,
                "eta": eta,
                "negative": negative if private else "",
                "voting": voting,
                "trees": trees,
                "height": height,
                "test_error": float(test[at]),
                "test_error_sd": float(spread[at]),
                "validation_error": float(validation[at]),
                "tree_accuracy": float(accuracy[at[3]]),
                "bound": float(bound[voting].error[at[2:]]),
                "bound_probability": float(bound[voting].probability[at[2:]]),
                "least_bound": "" if np.isnan(proved) else float(proved),
                "best_trees": "" if best_trees is None else int(best_trees[at[3]]),
            }
        )
    return lines


def line_of_least_error(lines: list[Line], by: str) -> Line:
    """The line with the smallest error; ties go to the smallest forest."""
    return min(lines, key=lambda line: (round(line[by], 9), line["trees"], line["height"]))


def table_1_lines(name: str, lines: list[Line], rows: int) -> list[Line]:
    """Table 1: the forests that the validation rows choose, by privacy and voting rule.

    Args:
        name: the data set's name.
        lines: from `series_lines`, without and with privacy.
        rows: N.
    """
    rules = itertools.product((False, True), enumerate(VOTINGS))
    return [
        _line_of_chosen_forest(name, lines, rows, private, v, voting)
        for private, (v, voting) in rules
    ]


def _line_of_chosen_forest(
    name: str, lines: list[Line], rows: int, private: bool, v: int, voting: str
) -> Line:
    here = [line for line in lines if line["private"] is private and line["voting"] == voting]
    read = [line for line in here if line["negative"] in ("", "zero")]
    to_the_letter = [line for line in here if line["negative"] == "uniform"]

    best, lowest = (
        line_of_least_error(read, "validation_error"),
        line_of_least_error(read, "test_error"),
    )
    paper = PAPER[name][1 + v + 2 * private] if v < 2 else None
    line = table_1_line(name, private, voting, best["test_error"], paper, rows)
    line |= {"trees": best["trees"], "height": best["height"]}
    line |= {"lowest_test_error": 100 * lowest["test_error"]}
    if v < 2:
        papers_forest = PAPER_FORESTS[name][v + 2 * private]
        same = [one["test_error"] for one in read if (one["trees"], one["height"]) == papers_forest]
        line["papers_forest"] = 100 * same[0] if same else None
    if to_the_letter:
        printed = line_of_least_error(to_the_letter, "validation_error")
        line["as_printed"] = 100 * printed["test_error"]
    return line


def table_1_line(
    name: str, private: bool, voting: str, error: float, paper: float | None, rows: int
) -> Line:
    """An error beside the paper's, in percent, each with half the width of its interval."""
    width = None
    if paper is not None:
        width = 100 * half_interval(paper / 100, PAPER_ROWS.get(name, rows))
    return {
        "dataset": name,
        "private": private,
        "voting": voting,
        "trees": None,
        "height": None,
        "error": 100 * error,
        "interval": 100 * half_interval(error, rows),
        "paper_error": paper,
        "paper_interval": width,
        "lowest_test_error": None,
        "papers_forest": None,
        "as_printed": None,
    }


def theorem_bounds(
    voting: str,
    private: bool,
    epsilon: AnyArray,
    rows: int,
    eta: float,
    heights: Sequence[int],
    sizes: Sequence[int],
) -> forest_bounds.Bound:
    """f32[trees, heights]: the empirical error's bound (Theorems 5.4 to 5.6 and 5.8).

    Args:
        voting: the voting rule.
        private: whether the forest is private.
        epsilon: f32[heights], one minus the average accuracy.
        rows: the number of training rows.
        eta: the budget.
        heights: the heights of the trees.
        sizes: the numbers of trees.
    """
    trees = jnp.asarray(sizes, jnp.float32)[:, None]
    height, epsilon = jnp.asarray(heights, jnp.float32)[None], jnp.asarray(epsilon)[None]
    constants = (ANALYSIS["delta"], ANALYSIS["big_k"], ANALYSIS["c"])
    bound = _theorem_bound(voting, private, epsilon, rows, eta, height, trees, *constants)
    return jax.tree.map(lambda x: np.broadcast_to(x, (len(sizes), len(heights))), bound)


def _theorem_bound(
    voting, private, epsilon, rows, eta, height, trees, delta, big_k, c
) -> forest_bounds.Bound:
    if private:
        more = {"height": height, "big_k": big_k, "c": c}
        return forest_bounds.private_by_accuracy(voting, epsilon, rows, trees, eta, delta, **more)
    # The theorem has k = (1 + C) ln n / (2 delta^2) trees; solve for the C of its probability.
    big_c = 2 * trees * delta**2 / np.log(rows) - 1
    return forest_bounds.by_accuracy(voting, epsilon, rows, delta, big_c, c=c)


def smallest_proved_errors(
    voting: str,
    private: bool,
    epsilon: AnyArray,
    rows: int,
    eta: float,
    heights: Sequence[int],
    sizes: Sequence[int],
) -> np.ndarray:
    """f32[trees, heights]: the smallest error proved with probability SURE for any constants.

    It is NaN where no error is proved. The constants are 97 values of delta, 24 of K (if private),
    and the c at which the coins fail with probability 1 %. Arguments are those of `theorem_bounds`.
    """
    c = float(np.sqrt(np.log(100) / (2 * rows)))
    many = np.geomspace(3, 3000, 24) if private else [1.0]
    axes = [
        jnp.asarray(x, jnp.float32) for x in (np.linspace(0.01, 0.49, 97), many, sizes, heights)
    ]
    delta, big_k, trees, height = jnp.meshgrid(*axes, indexing="ij", sparse=True)
    epsilon = jnp.asarray(epsilon, jnp.float32)[None, None, None]
    proved = _theorem_bound(voting, private, epsilon, rows, eta, height, trees, delta, big_k, c)
    best = np.min(np.where(proved.probability >= SURE, proved.error, np.inf), axis=(0, 1))
    return np.where(np.isfinite(best), best, np.nan)
