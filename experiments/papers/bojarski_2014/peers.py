"""Seconds of one private forest's fit beside diffprivlib's.

Trees, height and epsilon are equal. It needs the extra `peers`.
"""

import argparse
from pathlib import Path

import jax
import numpy as np

import dpbt
from dpbt import forests, recipes
from dpbt.privacy import keys
from experiments.common import commands, results, tables, timing
from experiments.common import peers as rivals
from experiments.papers.bojarski_2014.rows import Task, add_options, task_of
from experiments.papers.bojarski_2014.settings import NAME, PEER_SETTINGS

EPSILON = rivals.EPSILON
OURS = {"forests.fit": False, "disjoint=True": True}
REPEATS = 5


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser)
    commands.add_out(parser, results.folder(NAME))


def run(options: argparse.Namespace) -> None:
    """Time one fit beside the peer's on each of its settings; write and print.

    Raises:
        ValueError: without the peer.
    """
    repeats = 1 if options.smoke else REPEATS
    lines = []
    try:
        for name, trees, height in PEER_SETTINGS:
            if options.dataset in (None, name):
                lines += compare(task_of(name, options), trees, height, repeats)
    except ImportError as error:
        words = "no comparison with diffprivlib, install the extra `peers`"
        raise ValueError(f"{words}: {error}") from error
    if not lines:
        raise ValueError(f"no fit of {options.dataset} is timed; see PEER_SETTINGS")

    results.write_csv(Path(options.out) / "peers.csv", lines, {"repeats": repeats})
    print(as_text(lines))
    print(f"median of {repeats} fits, after one that compiles")


def compare(task: Task, trees: int, height: int, repeats: int) -> list[results.Line]:
    """Seconds of a fit and its error on the training rows: ours, and diffprivlib's.

    Ours is on all rows and on disjoint ones. The peer's trees see disjoint rows too, and its leaves
    state labels. It reads the data set itself, nominal columns as codes, and ours its positions.
    Errors are of one fit each and of the rule that is each one's default: majority of the trees;
    the mean share where rows are disjoint, and for the peer.

    Args:
        task: the data set, all of its rows used.
        trees: k.
        height: h.
        repeats: fits that are timed.

    Raises:
        ImportError: without diffprivlib.
    """
    import diffprivlib.models  # noqa: F401  # pyright: ignore[reportMissingImports]

    about = {"dataset": task.name, "rows": len(task.table.target), "trees": trees, "height": height}
    about["epsilon"] = EPSILON
    lines = [{**about, **_ours(task, trees, height, repeats, words)} for words in OURS]

    with rivals.quiet():  # about its accountant and scikit-learn's names
        fit = rivals.diffprivlib_forest(task.dataset, trees, height)
        timed = timing.measure(lambda _: fit(), repeats)
        answers = timed.last.predict(rivals.features(task.dataset)[0])
    wrong = float(np.mean(answers != np.asarray(task.dataset.label)))
    return [*lines, {**about, "library": "diffprivlib", "seconds": timed.median, "error": wrong}]


def _ours(task: Task, trees: int, height: int, repeats: int, words: str) -> results.Line:
    disjoint, table, label = OURS[words], task.table, np.asarray(task.table.target)
    recipe = recipes.random_forest(
        epsilon=EPSILON, rows=len(label), rounds=trees, depth=height, disjoint=disjoint
    )

    def grown(seed):
        noise_key, public_key = keys.pair(jax.random.key(seed))
        return forests.fit(noise_key, table, recipe, public_key)

    timed = timing.measure(grown, repeats)
    answers = dpbt.predict(timed.last, table, "threshold" if disjoint else "majority")
    wrong = float(np.mean(answers != label))
    return {"library": words, "seconds": timed.median, "error": wrong}


def as_text(lines: list[results.Line]) -> str:
    """One line for each fit."""
    names = ("dataset", "rows", "trees", "height", "library")
    rows = [
        (
            *(str(line[name]) for name in names),
            f"{1000 * line['seconds']:.3g}",
            f"{line['error']:.3f}",
        )
        for line in lines
    ]
    return tables.aligned((*names, "ms a fit", "training error"), rows)
