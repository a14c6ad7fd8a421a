"""Table 1 of Bojarski et al. (2014) and the lines of the series, beside what was printed and what is proved."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import forest_bounds, forests
from dpbt.accounting import align
from dpbt.base import Array
from experiments.common import protocols
from experiments.papers.bojarski_2014.grid import NEGATIVE, Errors, Run

VOTINGS = forests.VOTINGS
BUDGET = 1000.0  # eta n_train
ANALYSIS = {"delta": 0.1, "big_k": 40.0, "c": 0.05}  # the constants of Theorems 5.7 and 5.9
SURE = 0.9
"""The probability with which the smallest bound over all constants shall hold."""

PAPER = {  # error in percent of: rpart; majority, threshold without privacy; the same with privacy
    "banknote": (3.65, 3.09, 3.46, 5.44, 5.22),
    "transfusion": (18.92, 22.19, 22.47, 23.42, 23.42),
    "voting": (9.30, 9.05, 5.95, 8.10, 6.90),
    "mammographic": (21.88, 16.95, 16.21, 16.95, 17.37),
    "mushroom": (3.33, 0.83, 0.26, 4.69, 4.16),
    "adult": (17.75, 21.70, 21.58, 22.18, 21.72),
    "covertype": (26.90, 33.39, 30.80, 38.75, 37.82),
    "quantum": (32.08, 34.81, 33.06, 39.91, 39.01),
}
PAPER_FORESTS = {  # (k, h) that the paper chose, in the order of PAPER after rpart
    "banknote": ((21, 15), (17, 9), (21, 11), (7, 12)),
    "transfusion": ((1, 14), (1, 14), (1, 14), (1, 13)),
    "voting": ((19, 6), (13, 9), (15, 9), (15, 9)),
    "mammographic": ((9, 12), (19, 15), (5, 12), (9, 8)),
    "mushroom": ((21, 15), (13, 14), (3, 13), (3, 15)),
    "adult": ((3, 14), (3, 14), (3, 11), (7, 11)),
    "covertype": ((21, 15), (21, 15), (3, 13), (3, 13)),
    "quantum": ((21, 15), (19, 14), (21, 13), (13, 9)),
}
PAPER_ROWS = {"covertype": 581_012, "quantum": 50_000}


def cart_error(position: np.ndarray, label: np.ndarray, runs: list[Run]) -> float:
    """The mean test error of CART: Gini, 20 rows to split, 7 in a leaf, pruned at 1 % of the root's impurity."""
    from sklearn.tree import DecisionTreeClassifier

    errors = []
    for run in runs:
        test = run.held[run.test]
        rest = np.setdiff1d(np.arange(len(label)), test)
        share = label[rest].mean()
        prune = 0.01 * 2 * share * (1 - share)
        tree = DecisionTreeClassifier(min_samples_split=20, min_samples_leaf=7, ccp_alpha=prune, random_state=0)
        errors.append(np.mean(tree.fit(position[rest], label[rest]).predict(position[test]) != label[test]))
    return float(np.mean(errors))


def interval(error: float, rows: int) -> float:
    """Half the width of the symmetrical 95 % binomial interval, in the unit of the error (a share)."""
    return float(protocols.normal_half_width(jnp.float32(error * rows), jnp.float32(rows)))


def bounds(voting: str, private: bool, epsilon: Array, rows: int, eta: float, heights, sizes) -> forest_bounds.Bound:
    """f32[trees, heights]: the empirical error's bound by the average accuracy (Theorems 5.4 to 5.6 and 5.8)."""
    a, trees = ANALYSIS, jnp.asarray(sizes, jnp.float32)[:, None]
    height, epsilon = jnp.asarray(heights, jnp.float32)[None], jnp.asarray(epsilon)[None]
    bound = _bound(voting, private, epsilon, rows, eta, height, trees, a["delta"], a["big_k"], a["c"])
    return jax.tree.map(lambda x: np.broadcast_to(x, (len(sizes), len(heights))), bound)


def _bound(voting, private, epsilon, rows, eta, height, trees, delta, big_k, c) -> forest_bounds.Bound:
    if private:
        more = {"height": height, "big_k": big_k, "c": c}
        return forest_bounds.private_by_accuracy(voting, epsilon, rows, trees, eta, delta, **more)
    # The theorem's k is (1 + C) ln n / (2 delta^2), so at k trees the C of its probability is
    big_c = 2 * trees * delta**2 / np.log(rows) - 1
    return forest_bounds.by_accuracy(voting, epsilon, rows, delta, big_c, c=c)


def least_bounds(voting: str, private: bool, epsilon: Array, rows: int, eta: float, heights, sizes) -> np.ndarray:
    """f32[trees, heights]: the smallest error that `bounds` proves with probability SURE for any constants, or NaN.

    Over 97 values of delta, 24 of K (private) and the c at which the coins fail with probability 1 %.
    """
    c = float(np.sqrt(np.log(100) / (2 * rows)))
    axes = (np.linspace(0.01, 0.49, 97), np.geomspace(3, 3000, 24) if private else [1.0], sizes, heights)
    delta, big_k, trees, height = jnp.meshgrid(*(jnp.asarray(x, jnp.float32) for x in axes), indexing="ij", sparse=True)
    epsilon = jnp.asarray(epsilon, jnp.float32)[None, None, None]
    found = _bound(voting, private, epsilon, rows, eta, height, trees, delta, big_k, c)
    best = np.min(np.where(found.probability >= SURE, found.error, np.inf), axis=(0, 1))
    return np.where(np.isfinite(best), best, np.nan)


def series(found: Errors, private: bool, eta: float, trained: int, heights, sizes) -> list[dict]:
    """One line for each reading of leaves, voting rule, number of trees and height, with the theorems' bounds."""
    lines, accuracy = [], found.accuracy.mean(axis=0)
    test, spread, validation = found.test.mean(axis=0), found.test.std(axis=0), found.validation.mean(axis=0)
    best_trees = forest_bounds.best_trees(trained, eta, jnp.asarray(heights, jnp.float32)) if private else None
    given = (private, 1 - accuracy, trained, eta, heights, sizes)
    bound, least = {v: bounds(v, *given) for v in VOTINGS}, {v: least_bounds(v, *given) for v in VOTINGS}
    axes = (NEGATIVE if private else NEGATIVE[:1], VOTINGS, sizes, heights)
    for at in itertools.product(*(range(len(axis)) for axis in axes)):
        negative, voting, trees, height = (axis[i] for axis, i in zip(axes, at, strict=True))
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
                "least_bound": "" if np.isnan(least[voting][at[2:]]) else float(least[voting][at[2:]]),
                "best_trees": "" if best_trees is None else int(best_trees[at[3]]),
            }
        )
    return lines


def chosen(lines: list[dict], by: str) -> dict:
    """The line with the smallest error; of equal ones the smallest forest."""
    return min(lines, key=lambda line: (round(line[by], 9), line["trees"], line["height"]))


def table_lines(name: str, lines: list[dict], rows: int) -> list[dict]:
    """Table 1: for each of with and without privacy and each voting rule, what the validation rows chose."""
    found = []
    for private, (v, voting) in itertools.product((False, True), enumerate(VOTINGS)):
        here = [line for line in lines if line["private"] is private and line["voting"] == voting]
        read = [line for line in here if line["negative"] in ("", "zero")]
        best, lowest = chosen(read, "validation_error"), chosen(read, "test_error")
        to_the_letter = [line for line in here if line["negative"] == "uniform"]
        paper = PAPER[name][1 + v + 2 * private] if v < 2 else None
        line = table_line(name, private, voting, best["test_error"], paper, rows)
        line |= {"trees": best["trees"], "height": best["height"], "lowest_test_error": 100 * lowest["test_error"]}
        if v < 2:
            theirs = PAPER_FORESTS[name][v + 2 * private]
            same = [other["test_error"] for other in read if (other["trees"], other["height"]) == theirs]
            line["papers_forest"] = 100 * same[0] if same else None
        if to_the_letter:
            line["as_printed"] = 100 * chosen(to_the_letter, "validation_error")["test_error"]
        found.append(line)
    return found


def table_line(name: str, private: bool, voting: str, error: float, paper: float | None, rows: int) -> dict:
    """An error beside the paper's, both in percent with the half width of their intervals."""
    width = None if paper is None else 100 * interval(paper / 100, PAPER_ROWS.get(name, rows))
    return {
        "dataset": name,
        "private": private,
        "voting": voting,
        "trees": None,
        "height": None,
        "error": 100 * error,
        "interval": 100 * interval(error, rows),
        "paper_error": paper,
        "paper_interval": width,
        "lowest_test_error": None,
        "papers_forest": None,
        "as_printed": None,
    }


def as_text(lines: list[dict]) -> str:
    """Table 1 beside the paper's numbers, in percent."""
    more = {"lowest_test_error": "lowest in test", "papers_forest": "at paper's k, h", "as_printed": "as printed"}
    head = ("dataset", "", "voting", "trees", "height", "error", "paper", *more.values())
    cells = [
        (
            line["dataset"],
            "private" if line["private"] else "",
            line["voting"],
            str(line["trees"] or ""),
            str(line["height"] or ""),
            f"{line['error']:.2f} +- {line['interval']:.2f}",
            "" if line["paper_error"] is None else f"{line['paper_error']:.2f} +- {line['paper_interval']:.2f}",
            *("" if line[key] is None else f"{line[key]:.2f}" for key in more),
        )
        for line in lines
    ]
    return align([head, *cells])
