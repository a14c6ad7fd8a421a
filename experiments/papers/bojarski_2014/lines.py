"""Lines of results: series of errors, the bounds that theorems prove, and Table 1."""

import dataclasses
import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.models.scoring import VOTINGS
from dpbt.types import AnyArray
from experiments.common import forest_bounds, protocols
from experiments.common.results import Line, where
from experiments.papers.bojarski_2014.grid import NEGATIVE, Errors, Run
from experiments.papers.bojarski_2014.settings import (
    ANALYSIS,
    MIN_PROBABILITY,
    PAPER_ERRORS,
    PAPER_FORESTS,
    PAPER_ROWS,
    PRINTED_VOTINGS,
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
        test = run.held_out[run.test]
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForestGrid:
    """The forests of a grid, of one budget.

    Attributes:
        eta: the budget; infinite without privacy.
        num_train: n_train.
        heights: the heights of the trees.
        sizes: the numbers of trees.
    """

    eta: float
    num_train: int
    heights: Sequence[int]
    sizes: Sequence[int]

    @property
    def private(self) -> bool:
        """Whether eta is finite."""
        return bool(self.eta < np.inf)


def series_lines(errors: Errors, grid: ForestGrid) -> list[Line]:
    """One line for each reading of leaves, voting rule, number of trees and height, with bounds.

    Args:
        errors: the errors of all runs, stacked.
        grid: the forests that the errors are of.
    """
    accuracy = errors.accuracy.mean(axis=0)
    test, spread = errors.test.mean(axis=0), errors.test.std(axis=0)
    validation = errors.validation.mean(axis=0)

    bounds = {voting: theorem_bounds(voting, 1 - accuracy, grid) for voting in VOTINGS}
    smallest = {voting: smallest_proved_errors(voting, 1 - accuracy, grid) for voting in VOTINGS}
    best_trees = None
    if grid.private:
        heights = jnp.asarray(grid.heights, jnp.float32)
        best_trees = forest_bounds.best_trees(grid.num_train, grid.eta, heights)

    lines = []
    readings = NEGATIVE if grid.private else NEGATIVE[:1]
    counts = (len(readings), len(VOTINGS), len(grid.sizes), len(grid.heights))
    for place in itertools.product(*map(range, counts)):
        n, v, k, h = place
        voting = VOTINGS[v]
        proved = smallest[voting][k, h]
        lines.append(
            {
                "private": grid.private,
                "eta": grid.eta,
                "negative": readings[n] if grid.private else "",
                "voting": voting,
                "trees": grid.sizes[k],
                "height": grid.heights[h],
                "test_error": float(test[place]),
                "test_error_sd": float(spread[place]),
                "validation_error": float(validation[place]),
                "tree_accuracy": float(accuracy[h]),
                "bound": float(bounds[voting].error[k, h]),
                "bound_probability": float(bounds[voting].probability[k, h]),
                "least_bound": "" if np.isnan(proved) else float(proved),
                "best_trees": "" if best_trees is None else int(best_trees[h]),
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
    return [
        _line_of_chosen_forest(
            name, where(lines, private=private, voting=voting), rows, private=private, voting=voting
        )
        for private, voting in itertools.product((False, True), VOTINGS)
    ]


def _line_of_chosen_forest(
    name: str, lines: list[Line], rows: int, *, private: bool, voting: str
) -> Line:
    """The line of Table 1 of one voting rule, of the lines of its forests."""
    negative_as_zero = [line for line in lines if line["negative"] in ("", "zero")]
    as_printed = [line for line in lines if line["negative"] == "uniform"]

    best = line_of_least_error(negative_as_zero, "validation_error")
    lowest = line_of_least_error(negative_as_zero, "test_error")
    place = PRINTED_VOTINGS.index(voting) + 2 * private if voting in PRINTED_VOTINGS else None
    paper_error = None if place is None else PAPER_ERRORS[name][1 + place]
    line = table_1_line(
        name,
        private=private,
        voting=voting,
        error=best["test_error"],
        paper_error=paper_error,
        rows=rows,
    )
    line |= {"trees": best["trees"], "height": best["height"]}
    line |= {"lowest_test_error": 100 * lowest["test_error"]}
    if place is not None:
        trees, height = PAPER_FORESTS[name][place]
        same_forest = where(negative_as_zero, trees=trees, height=height)
        line["papers_forest"] = 100 * same_forest[0]["test_error"] if same_forest else None
    if as_printed:
        best_line = line_of_least_error(as_printed, "validation_error")
        line["as_printed"] = 100 * best_line["test_error"]
    return line


def table_1_line(
    name: str,
    *,
    private: bool,
    voting: str,
    error: float,
    paper_error: float | None,
    rows: int,
) -> Line:
    """An error beside the paper's, in percent, each with half the width of its interval.

    Args:
        name: the data set's name.
        private: whether the forest is private.
        voting: the voting rule, or "cart".
        error: the error, as a share.
        paper_error: the paper's error in percent, or None if it prints none.
        rows: N.
    """
    width = None
    if paper_error is not None:
        width = 100 * half_interval(paper_error / 100, PAPER_ROWS.get(name, rows))
    return {
        "dataset": name,
        "private": private,
        "voting": voting,
        "trees": None,
        "height": None,
        "error": 100 * error,
        "interval": 100 * half_interval(error, rows),
        "paper_error": paper_error,
        "paper_interval": width,
        "lowest_test_error": None,
        "papers_forest": None,
        "as_printed": None,
    }


def theorem_bounds(voting: str, epsilon: AnyArray, grid: ForestGrid) -> forest_bounds.Bound:
    """f32[trees, heights]: the empirical error's bound (Theorems 5.4 to 5.6 and 5.8).

    Args:
        voting: the voting rule.
        epsilon: f32[heights], one minus the average accuracy.
        grid: the forests.
    """
    bound = _theorem_bound(
        voting,
        grid,
        epsilon=jnp.asarray(epsilon)[None],
        trees=jnp.asarray(grid.sizes, jnp.float32)[:, None],
        height=jnp.asarray(grid.heights, jnp.float32)[None],
        **ANALYSIS,
    )
    shape = (len(grid.sizes), len(grid.heights))
    return jax.tree.map(lambda x: np.broadcast_to(x, shape), bound)


def _theorem_bound(
    voting: str,
    grid: ForestGrid,
    *,
    epsilon: AnyArray,
    trees: AnyArray,
    height: AnyArray,
    delta: AnyArray | float,
    big_k: AnyArray | float,
    c: float,
) -> forest_bounds.Bound:
    """The bound on the error of forests of one budget, for arrays that broadcast."""
    rows = grid.num_train
    if grid.private:
        return forest_bounds.private_bound_by_accuracy(
            voting,
            epsilon=epsilon,
            rows=rows,
            trees=trees,
            eta=grid.eta,
            delta=delta,
            height=height,
            big_k=big_k,
            c=c,
        )
    # The theorem has k = (1 + C) ln n / (2 delta^2) trees; solve for the C of its probability.
    big_c = 2 * trees * delta**2 / np.log(rows) - 1
    return forest_bounds.bound_by_accuracy(
        voting, epsilon=epsilon, rows=rows, delta=delta, big_c=big_c, c=c
    )


def smallest_proved_errors(voting: str, epsilon: AnyArray, grid: ForestGrid) -> np.ndarray:
    """f32[trees, heights]: the smallest error proved with MIN_PROBABILITY for any constants.

    It is NaN where no error is proved. The constants are 97 values of delta, 24 of K (if private),
    and the c at which the coins fail with probability 1 %. Arguments are those of `theorem_bounds`.
    """
    deltas = np.linspace(0.01, 0.49, 97)
    big_ks = np.geomspace(3, 3000, 24) if grid.private else [1.0]
    axes = [jnp.asarray(x, jnp.float32) for x in (deltas, big_ks, grid.sizes, grid.heights)]
    delta, big_k, trees, height = jnp.meshgrid(*axes, indexing="ij", sparse=True)
    bound = _theorem_bound(
        voting,
        grid,
        epsilon=jnp.asarray(epsilon, jnp.float32)[None, None, None],
        trees=trees,
        height=height,
        delta=delta,
        big_k=big_k,
        c=float(np.sqrt(np.log(100) / (2 * grid.num_train))),
    )
    is_proved = bound.probability >= MIN_PROBABILITY
    smallest = np.min(np.where(is_proved, bound.error, np.inf), axis=(0, 1))
    return np.where(np.isfinite(smallest), smallest, np.nan)
