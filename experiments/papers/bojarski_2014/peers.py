"""Time one private forest's fit beside diffprivlib's.

Both have the same number of trees, height and epsilon. The extra `peers` must be installed.
"""

import argparse

import jax
import numpy as np

import dpbt
from dpbt import recipes
from dpbt.cli.shared import InputError
from dpbt.privacy import keys
from experiments.common import commands, results, tables, timing
from experiments.common import peers as rivals
from experiments.papers.bojarski_2014.rows import Study, add_options, study_of
from experiments.papers.bojarski_2014.settings import NAME, PEER_SETTINGS

EPSILON = rivals.EPSILON
OURS = {"dpbt.fit": False, "disjoint=True": True}
REPEATS = 5


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser)
    commands.add_shared(parser, out=results.folder(NAME))


def run(options: argparse.Namespace) -> None:
    """Time one fit beside the peer's at each of `PEER_SETTINGS`; write and print the lines.

    Raises:
        InputError: for a data set without a setting, and if diffprivlib is not installed.
    """
    names = sorted({name for name, _, _ in PEER_SETTINGS})
    if options.dataset not in (None, *names):
        words = f"--dataset must be {' or '.join(names)} for peers"
        raise InputError(f"{words}, got {options.dataset!r}")

    repeats = 1 if options.smoke else REPEATS
    lines = []
    try:
        for name, trees, height in PEER_SETTINGS:
            if options.dataset in (None, name):
                lines += compare(study_of(name, options), trees, height, repeats)
    except ImportError as error:
        words = "no comparison with diffprivlib; install the extra `peers`"
        raise InputError(f"{words}: {error}") from error

    results.write_csv(commands.out_folder(options) / "peers.csv", lines, {"repeats": repeats})
    print(as_text(lines))
    print(f"median of {repeats} fits; the first fit, which compiles, is not counted")


def compare(study: Study, trees: int, height: int, repeats: int) -> list[results.Line]:
    """Lines of the seconds of a fit and its training error: ours, and diffprivlib's.

    Our trees see all rows, or disjoint ones. The peer's trees see disjoint rows, and its leaves
    state labels. The peer reads the data set itself, with nominal columns as codes; ours reads its
    positions. Errors are those of one fit with the default rule. That is the majority of the trees,
    and the mean share for disjoint rows and for the peer.

    Args:
        study: the data set; all of its rows are used.
        trees: k.
        height: h.
        repeats: the number of fits that are timed.

    Raises:
        ImportError: if diffprivlib is not installed.
    """
    rivals.check("diffprivlib")

    about = {"dataset": study.name, "rows": len(study.table.target), "trees": trees}
    about |= {"height": height, "epsilon": EPSILON}
    lines = [{**about, **_ours(study, trees, height, repeats, words)} for words in OURS]

    with rivals.quiet():  # about its accountant and scikit-learn's names
        read = rivals.rows_of(study.dataset)
        fit = rivals.diffprivlib_forest(read, trees, height)
        timed = timing.measure(lambda _: fit(), repeats)
        answers = timed.last.predict(read.numbers)
    wrong = float(np.mean(answers != np.asarray(study.dataset.label)))
    return [*lines, {**about, "library": "diffprivlib", "seconds": timed.median, "error": wrong}]


def _ours(study: Study, trees: int, height: int, repeats: int, words: str) -> results.Line:
    disjoint, table, label = OURS[words], study.table, np.asarray(study.table.target)
    recipe = recipes.random_forest(
        epsilon=EPSILON, rows=len(label), rounds=trees, depth=height, disjoint=disjoint
    )

    def grown(seed):
        noise_key, public_key = keys.pair(jax.random.key(seed))
        return dpbt.fit(noise_key, table, recipe, public_key)

    timed = timing.measure(grown, repeats)
    answers = dpbt.predict(timed.last, table, "threshold" if disjoint else "majority")
    wrong = float(np.mean(answers != label))
    return {"library": words, "seconds": timed.median, "error": wrong}


COLUMNS = {name: f"{{{name}}}" for name in ("dataset", "rows", "trees", "height", "library")}
COLUMNS |= {"ms per fit": "{ms:.3g}", "training error": "{error:.3f}"}


def as_text(lines: list[results.Line]) -> str:
    """One line for each fit."""
    return tables.formatted(({**line, "ms": 1e3 * line["seconds"]} for line in lines), COLUMNS)
