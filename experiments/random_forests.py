"""Random decision forests of Bojarski et al. (2014): Table 1 and the series of Figures 1 to 16.

Ten runs, each with another tenth of the rows as test set and a tenth of the rest as validation set, which chooses
height and number of trees. A random tree of height h is the top of a taller one and a forest of k trees is part of a
larger one, so one set of 21 trees of height 15 serves the whole grid of a run; every number of trees has its own noise
on its leaves. The paper's rpart is replaced by scikit-learn's CART with rpart's defaults.

Private leaves are read in two ways, at the same cost: "zero" takes negative counts as 0, "uniform" is Algorithm 2 as
printed, theta uniform at random where a count is negative. The paper's private numbers are those of "zero".
"""

import argparse
import dataclasses
import functools
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from dpbt import forest_bounds, forests, mechanisms, recipes
from dpbt.accounting import align
from dpbt.base import GRID, Array, Table
from dpbt.domains import Numeric, positions
from dpbt.learners import random_tree
from experiments import data, protocols, results

DATASETS = ("banknote", "transfusion", "voting", "mammographic", "mushroom", "adult", "covertype")
VOTINGS = forests.VOTINGS
NEGATIVE = random_tree.NEGATIVE
SETTINGS = {"heights": tuple(range(1, 16)), "trees": tuple(range(1, 22, 2)), "runs": 10, "seed": 0}
SMOKE = {"heights": (1, 3), "trees": (1, 3), "runs": 2, "seed": 0}
ETA_SERIES = {"heights": (8, 12), "trees": tuple(range(1, 102, 2)), "factors": (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)}
ETA_SMOKE = {"heights": (2, 3), "trees": (1, 3), "factors": (1.0,)}
BUDGET = 1000.0  # eta n_train
VALUES = ("adult",)  # a Boolean for each nominal value; elsewhere a code, as the paper's numbers of attributes have it
ANALYSIS = {"delta": 0.1, "big_k": 40.0, "c": 0.05}  # the constants of Theorems 5.7 and 5.9

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
PAPER_ROWS = {"covertype": 581_012, "quantum": 50_000}
FIELDS = ("dataset", "private", "voting", "trees", "height", "error", "interval", "paper_error")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--dataset", choices=(*DATASETS, "quantum"), help="one data set (all but quantum by default)")
    parser.add_argument("--runs", type=int, default=SETTINGS["runs"], help="runs, one fold each (%(default)s)")
    parser.add_argument("--seed", type=int, default=SETTINGS["seed"], help="of folds and keys (%(default)s)")
    words = "nominal columns as codes, or as one Boolean for each value (as the paper's numbers of attributes have it)"
    parser.add_argument("--nominal", choices=("codes", "values"), help=words)
    parser.add_argument("--eta", action="store_true", help="also the series of error by eta (Figures 2, 4, ...)")
    parser.add_argument("--out", default="results/random_forests", help="folder of the results (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print Table 1's lines as a JSON list")
    parser.add_argument("--smoke", action="store_true", help="the smallest setting, to see that it runs")


class Run(NamedTuple):
    """One run's rows: test and validation rows are indices, padded, with masks; the rest trains."""

    train: np.ndarray
    held: np.ndarray
    validation: np.ndarray
    test: np.ndarray


class Errors(NamedTuple):
    """Of one run: f32[negative, votings, trees, heights] errors, f32[heights] average tree accuracy in training."""

    validation: Any
    test: Any
    accuracy: Any


def split(label: np.ndarray, runs: int, seed: int) -> list[Run]:
    """Runs whose test sets are disjoint stratified tenths; validation rows are a tenth of the rest."""
    folds = protocols.stratified_folds(label, max(runs, 10), seed)
    found = []
    for run in range(runs):
        test = folds == run
        rest = np.random.default_rng((seed, run)).permutation(np.flatnonzero(~test))
        validation = np.zeros(len(label), bool)
        validation[rest[: round(len(rest) / 10)]] = True
        found.append((~test & ~validation, validation, test))
    most = max(int((validation | test).sum()) for _, validation, test in found)
    out = []
    for train, validation, test in found:
        held = np.flatnonzero(validation | test)
        filled = np.pad(held, (0, most - len(held)))
        real = np.arange(most) < len(held)
        out.append(Run(train, filled, validation[filled] & real, test[filled] & real))
    return out


def grid_scales(eta, sizes: tuple[int, ...], rows: int) -> np.ndarray:
    """f32[sizes]: the published noise of a count, in rows, for each number of trees; 0 for an infinite eta."""
    recipe = recipes.random_forest(epsilon=eta, rows=rows, rounds=sizes, depth=1, calibration="published")
    return recipe.budget.leaf_scale / np.float32(GRID)


@functools.partial(jax.jit, static_argnames=("heights", "sizes"))
def grid_errors(
    key: Array,
    table: Table,
    held: Array,
    masks: Array,
    scales: Array,
    *,
    heights: tuple[int, ...],
    sizes: tuple[int, ...],
) -> Errors:
    """Errors of forests of every height and number of trees, by every voting rule.

    The forest of height h and k trees is distributed as `recipes.random_forest` learns it: uniform structure, Laplace
    noise of that k's scale on the class counts, uniform theta where they are unusable. Across h and k structures
    are shared, noise is not shared across k.

    Args:
        key: of the run.
        table: all rows, the training rows present.
        held: i32[M], validation and test rows.
        masks: bool[2, M], which of them are validation, and test.
        scales: f32[sizes], of the noise in rows.
        heights: increasing, at least 1.
        sizes: numbers of trees, increasing.
    """
    structure_key, noise_key, coin_key = jax.random.split(key, 3)
    rows = random_tree.prepare(table)
    slices = [slice(2**h - 1, 2 ** (h + 1) - 1) for h in heights]
    offset = np.cumsum([0, *(2**h for h in heights)])[:-1]  # of each height's nodes among those that are kept
    shift = jnp.asarray([o - (2**h - 1) for o, h in zip(offset, heights, strict=True)], jnp.int32)

    def grow(tree_key):
        tree = forests.structure(tree_key, max(heights), rows.position.shape[1])
        heap, count = forests.weights_at_all_heights(tree, rows)
        return heap[np.array(heights)][:, held] + shift[:, None], jnp.concatenate([count[s] for s in slices])

    node, count = jax.lax.map(grow, jax.random.split(structure_key, sizes[-1]), batch_size=3)
    right = [jnp.sum(jnp.max(count[:, o : o + 2**h], axis=-1), axis=-1) for o, h in zip(offset, heights, strict=True)]
    trained = jnp.sum(rows.present).astype(jnp.float32)
    accuracy = jnp.stack([jnp.mean(r.astype(jnp.float32)) for r in right]) / trained

    pairs = jnp.asarray([(s, j) for s, k in enumerate(sizes) for j in range(k)], jnp.int32)

    def add(totals, pair):
        size, tree, pair_key = pair
        laplace_key, fallback_key = jax.random.split(pair_key)
        noisy = mechanisms.laplace.sample(laplace_key, count[tree].astype(jnp.float32), scales[size])
        fallback = jax.random.uniform(fallback_key, noisy.shape[:1])
        theta = jnp.stack([random_tree.shares(noisy, fallback, negative)[node[tree]] for negative in NEGATIVE])
        votes, sums = totals
        return (votes.at[size].add((theta > 0.5).astype(jnp.int32)), sums.at[size].add(theta)), None

    shape = (len(sizes), len(NEGATIVE), len(heights), held.shape[0])
    start = jnp.zeros(shape, jnp.int32), jnp.zeros(shape, jnp.float32)
    (votes, sums), _ = jax.lax.scan(add, start, (pairs[:, 0], pairs[:, 1], jax.random.split(noise_key, len(pairs))))
    trees = jnp.asarray(sizes, jnp.int32)[:, None, None, None]
    mean = sums / trees.astype(jnp.float32)
    answers = jnp.stack([2 * votes > trees, mean > 0.5, jax.random.uniform(coin_key, shape) < mean])
    wrong = jnp.moveaxis(answers != rows.label[held][None, None, None, None], 2, 0)

    def error(mask):
        counted = jnp.sum(wrong & mask[None, None, None, None], axis=-1).astype(jnp.float32)
        return counted / jnp.sum(mask).astype(jnp.float32)

    return Errors(error(masks[0]), error(masks[1]), accuracy)


def measure(table: Table, runs: list[Run], eta: float, heights, sizes, seed: int, progress: tqdm) -> Errors:
    """Errors of all runs, stacked; eta is infinite without privacy."""
    scales, found = grid_scales(eta, sizes, len(table.label)), []
    for r, run in enumerate(runs):
        key = jax.random.fold_in(jax.random.key(seed), r)
        masks, one = np.stack([run.validation, run.test]), table._replace(present=jnp.asarray(run.train))
        errors = grid_errors(key, one, jnp.asarray(run.held), masks, scales, heights=heights, sizes=sizes)
        found.append(jax.tree.map(np.asarray, errors))
        progress.update()
    return Errors(*(np.stack(parts) for parts in zip(*found, strict=True)))


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
    return 1.96 * float(np.sqrt(error * (1 - error) / rows))


def bounds(voting: str, private: bool, epsilon: Array, rows: int, eta: float, heights, sizes) -> forest_bounds.Bound:
    """f32[trees, heights]: the empirical error's bound by the average accuracy (Theorems 5.4 to 5.6 and 5.8)."""
    a, trees = ANALYSIS, jnp.asarray(sizes, jnp.float32)[:, None]
    height, epsilon = jnp.asarray(heights, jnp.float32)[None], jnp.asarray(epsilon)[None]
    if private:
        more = {"height": height, "big_k": a["big_k"], "c": a["c"]}
        bound = forest_bounds.private_by_accuracy(voting, epsilon, rows, trees, eta, a["delta"], **more)
    else:
        # The theorem's k is (1 + C) ln n / (2 delta^2), so at k trees the C of its probability is
        big_c = 2 * trees * a["delta"] ** 2 / np.log(rows) - 1
        bound = forest_bounds.by_accuracy(voting, epsilon, rows, a["delta"], big_c, c=a["c"])
    return jax.tree.map(lambda x: np.broadcast_to(x, (len(sizes), len(heights))), bound)


def series(found: Errors, private: bool, eta: float, trained: int, heights, sizes) -> list[dict]:
    """One line for each reading of leaves, voting rule, number of trees and height, with the theorems' bounds."""
    lines, accuracy = [], found.accuracy.mean(axis=0)
    test, spread, validation = found.test.mean(axis=0), found.test.std(axis=0), found.validation.mean(axis=0)
    best_trees = forest_bounds.best_trees(trained, eta, jnp.asarray(heights, jnp.float32)) if private else None
    bound = {v: bounds(v, private, 1 - accuracy, trained, eta, heights, sizes) for v in VOTINGS}
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
        "as_printed": None,
    }


def attributes(dataset: data.Dataset, codes: bool) -> np.ndarray:
    """f32[N, A]: positions in the public ranges, a missing number at the low end, without attributes that say so."""
    domain = {
        column: dataclasses.replace(kind, missing=False) if isinstance(kind, Numeric) else kind
        for column, kind in dataset.domain.items()
    }
    return positions(domain, dataset.columns, codes=codes)


def one(name: str, options: argparse.Namespace) -> list[dict]:
    """Measure one data set, write its series, return its lines of Table 1 (CART last)."""
    dataset, settings = data.load(name), SMOKE if options.smoke else SETTINGS
    runs = min(options.runs, settings["runs"])
    here = np.ones(len(dataset.label), bool) if dataset.test is None else ~dataset.test
    codes = options.nominal == "codes" or (options.nominal is None and name not in VALUES)
    position = attributes(dataset, codes)[here]
    label = np.asarray(dataset.label)[here]
    table = Table(jnp.asarray(position), jnp.asarray(label), jnp.ones(len(label), bool))
    folds, rows = split(label, runs, options.seed), len(label)
    trained = round(0.9 * rows)
    eta, start = BUDGET / trained, time.perf_counter()
    lines, by_eta = [], []
    extra = ETA_SMOKE if options.smoke else ETA_SERIES
    count = runs * (2 + (len(extra["factors"]) if options.eta else 0))
    with tqdm(total=count, unit="run", desc=name, disable=options.json, file=sys.stderr) as progress:
        sizes, heights = settings["trees"], settings["heights"]
        for private in (False, True):
            found = measure(table, folds, eta if private else np.inf, heights, sizes, options.seed, progress)
            lines += series(found, private, eta, trained, heights, sizes)
        seconds = time.perf_counter() - start
        for factor in extra["factors"] if options.eta else ():
            found = measure(table, folds, factor * eta, extra["heights"], extra["trees"], options.seed, progress)
            by_eta += series(found, True, factor * eta, trained, extra["heights"], extra["trees"])
    cart = cart_error(position, label, folds)
    best = [*table_lines(name, lines, rows), table_line(name, False, "cart", cart, PAPER[name][0], rows)]
    config = {
        "dataset": name,
        "rows": rows,
        "runs": runs,
        "seed": options.seed,
        "codes": codes,
        **ANALYSIS,
    }
    for suffix, kind in (("", lines), ("_eta", by_eta), ("_table", best)):
        if kind:
            results.write_csv(Path(options.out) / f"{name}{suffix}.csv", kind, {**config, "seconds": round(seconds, 2)})
    if not options.json:
        print(f"{name}: {rows} rows, {position.shape[1]} attributes, eta = {eta:.4g}, {seconds:.1f} s", file=sys.stderr)
    return best


def as_text(lines: list[dict]) -> str:
    """Table 1 beside the paper's numbers, in percent."""
    head = ("dataset", "", "voting", "trees", "height", "error", "paper", "lowest in test", "as printed")
    cells = [
        (
            line["dataset"],
            "private" if line["private"] else "",
            line["voting"],
            str(line["trees"] or ""),
            str(line["height"] or ""),
            f"{line['error']:.2f} +- {line['interval']:.2f}",
            "" if line["paper_error"] is None else f"{line['paper_error']:.2f} +- {line['paper_interval']:.2f}",
            *("" if line[key] is None else f"{line[key]:.2f}" for key in ("lowest_test_error", "as_printed")),
        )
        for line in lines
    ]
    return align([head, *cells])


def run(options: argparse.Namespace) -> None:
    """Measure, save, print."""
    if not 1 <= options.runs <= 10:
        raise ValueError(f"--runs must be in 1..10, got {options.runs}")
    lines = [line for name in ([options.dataset] if options.dataset else DATASETS) for line in one(name, options)]
    if options.json:
        forests_only = [line for line in lines if line["voting"] in VOTINGS]
        print(json.dumps([{field: line[field] for field in FIELDS} for line in forests_only], indent=1))
        return
    print(as_text(lines))
    print("errors in percent, +- half the 95 % binomial interval; as printed: theta uniform where a count is negative")
    if not options.dataset:
        print("quantum is not among them: its data could not be obtained; --dataset quantum reads a copy of your own")
    print(f"wrote {options.out}")
