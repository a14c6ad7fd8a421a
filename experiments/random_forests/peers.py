"""One private forest's fit against diffprivlib's, at equal trees, height and epsilon: needs the extra `peers`."""

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from dpbt import forests, keys, recipes
from dpbt.accounting import align
from experiments import peers
from experiments.random_forests.rows import Task

EPSILON = peers.EPSILON
SETTINGS = (("banknote", 21, 5), ("banknote", 21, 11), ("adult", 21, 8))
OURS = {"forests.fit": False, "disjoint=True": True}


def median_seconds(fit: Callable[[int], Any], repeats: int) -> tuple[float, Any]:
    """The median of the fits with seeds 1, 2, ..., after one with seed 0 that is not counted; and the last model."""
    times, model = [], jax.block_until_ready(fit(0))
    for seed in range(1, repeats + 1):
        start = time.perf_counter()
        model = jax.block_until_ready(fit(seed))
        times.append(time.perf_counter() - start)
    return statistics.median(times), model


def compare(task: Task, trees: int, height: int, repeats: int) -> list[dict]:
    """Seconds of a fit and its error on the training rows, ours on all rows and on disjoint ones, and diffprivlib's.

    The peer's trees see disjoint rows too, and its leaves state labels. It reads the data set itself, nominal columns
    as codes, and ours its positions. Errors are of one fit each and of the rule that is each one's default: majority
    of the trees; the mean share where rows are disjoint, and for the peer.

    Args:
        task: the data set, all of its rows used.
        trees: k.
        height: h.
        repeats: fits that are timed.

    Raises:
        ImportError: without diffprivlib.
    """
    import diffprivlib.models  # noqa: F401  # pyright: ignore[reportMissingImports]

    table, dataset = task.table, task.dataset
    about = {"dataset": task.name, "rows": len(table.target)}
    about |= {"trees": trees, "height": height, "epsilon": EPSILON}
    label, lines = np.asarray(table.target), []
    for words, disjoint in OURS.items():
        rows = len(label)
        recipe = recipes.random_forest(epsilon=EPSILON, rows=rows, rounds=trees, depth=height, disjoint=disjoint)

        def grown(seed, recipe=recipe):
            noise_key, public_key = keys.pair(jax.random.key(seed))
            return forests.fit(noise_key, table, recipe, public_key)

        seconds, model = median_seconds(grown, repeats)
        answers = forests.predict(model, table, "threshold" if disjoint else "majority")
        lines.append({**about, "library": words, "seconds": seconds, "error": float(np.mean(answers != label))})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about its accountant and scikit-learn's names
        fit = peers.diffprivlib_forest(dataset, trees, height)
        seconds, model = median_seconds(lambda seed: fit(), repeats)
        wrong = model.predict(peers.features(dataset)[0]) != np.asarray(dataset.label)
    return [*lines, {**about, "library": "diffprivlib", "seconds": seconds, "error": float(np.mean(wrong))}]


def as_text(lines: list[dict]) -> str:
    """One line for each fit."""
    head = ("dataset", "rows", "trees", "height", "library", "ms a fit", "training error")
    cells = [
        (
            *(str(line[key]) for key in ("dataset", "rows", "trees", "height", "library")),
            f"{1000 * line['seconds']:.3g}",
            f"{line['error']:.3f}",
        )
        for line in lines
    ]
    return align([head, *cells])
