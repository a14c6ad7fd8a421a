"""Measure rounds on tables in chunks, and fit a model of their seconds.

Each setting learns some trees from made-up rows, and counts the seconds of a round by the clock and
by the processors. The model is a sum of terms, each a count of operations that the code does, times
a coefficient that is at least 0:

    seconds = a + p blocks + n (b + c D + d D W + e S + f F)

n counts the rows of all blocks, as the last block of a chunk is filled up with absent rows. D is
the depth, F the columns of the table, and S the classes if there are more than two, else 0. W is
how many words of 32 bits hold a set of cells of a column without an order, and 0 if all have one.
"""

import argparse
import dataclasses
import json
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from dpbt.cli.errors import InputError
from dpbt.training import fit as training_fit
from experiments.common import commands, tables, timing

CELLS = 64


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a round depends on.

    Attributes:
        rows: n.
        depth: D.
        classes: 2 or more, or 0 for a number.
        columns: F.
        unordered: whether the columns have no order.
        block: the most rows of a block.
        threads: how many blocks are worked on at once.
    """

    rows: int
    depth: int = 6
    classes: int = 2
    columns: int = 20
    unordered: bool = False
    block: int = 2**19
    threads: int = 1

    @property
    def terms(self) -> np.ndarray:
        """f64[7]: what the coefficients of `NAMES` are multiplied by."""
        blocks = -(-self.rows // self.block)
        words = -(-(CELLS + 1) // 32) * self.unordered
        several = self.classes if self.classes > 2 else 0
        each = [1, self.depth, self.depth * words, several, self.columns]
        return np.array([1, blocks, *(blocks * self.block * count for count in each)], np.float64)


NAMES = ("a", "p", "b", "c", "d", "e", "f")
WORDS = (
    "a round",
    "a block",
    "a row: its scores, its weight and its sum",
    "a level of the tree, of a row",
    "a word of a set, at a level, of a row",
    "a class of several, of a row",
    "a column of the table, of a row",
)


@dataclasses.dataclass(frozen=True)
class Seconds:
    """The seconds of a round: the lower quartile of rounds, as other programs only add to them.

    Attributes:
        clock: by the clock.
        processor: of all threads, user and system.
    """

    clock: float
    processor: float


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    commands.add_count(parser, "--rows", 2**20, "rows of a table, for most settings")
    commands.add_count(parser, "--rounds", 24, "trees of a setting; the first two are not counted")
    commands.add_count(parser, "--most-threads", 2, "blocks that are worked on at once, at most")
    parser.add_argument("--folder", default="build/rounds", help="where tables are written")
    commands.add_shared(parser, json="print one JSON object")


def grid(rows: int, max_threads: int) -> list[Setting]:
    """The settings: one thing is changed at a time, and some at once."""
    found = [Setting(rows, depth=depth) for depth in (2, 6, 10)]
    found += [Setting(rows, classes=classes) for classes in (0, 4)]
    found += [Setting(rows, classes=8, block=2**18)]  # the most that a run takes
    found += [Setting(rows, depth=10, classes=4)]
    found += [Setting(rows, columns=columns) for columns in (5, 60)]
    found += [Setting(rows, depth=depth, unordered=True) for depth in (2, 6, 10)]
    found += [Setting(rows, block=block) for block in (2**14, 2**17)]
    found += [Setting(rows // 8), Setting(2 * rows), Setting(4 * rows)]
    threads = [count for count in (1, 2, 4, 8, 16) if count <= max_threads]
    return [dataclasses.replace(one, threads=count) for one in found for count in threads]


def made_up(setting: Setting) -> Iterator:
    """Blocks of rows; each column has whole numbers below `CELLS`."""
    from dpbt.data.convert import READ_ROWS, RawRows

    for first in range(0, setting.rows, READ_ROWS):
        rng = np.random.default_rng(first)
        shape = setting.columns, min(READ_ROWS, setting.rows - first)
        cells = rng.integers(0, CELLS, shape)
        signal = cells[0] + cells[1] + rng.normal(0, 8, shape[1])
        labels: Any = signal > CELLS
        if setting.classes == 0:
            labels = signal
        if setting.classes > 2:
            labels = np.clip(signal * setting.classes // (2 * CELLS), 0, setting.classes - 1)
        yield RawRows({f"x{k}": cells[k] for k in range(setting.columns)}, labels)


def measured(setting: Setting, folder: Path, rounds: int) -> Seconds:
    """The seconds of a round of one setting."""
    from dpbt import recipes
    from dpbt.data import convert
    from dpbt.data.domains import Nominal, Numeric
    from dpbt.training import blocks as in_blocks

    words = tuple(str(cell) for cell in range(CELLS))
    column = Nominal(words) if setting.unordered else Numeric(-0.5, CELLS - 0.5, bins=CELLS)
    domain = {f"x{k}": column for k in range(setting.columns)}
    target = None if setting.classes == 2 else Nominal(words[: setting.classes] or words)
    if setting.classes == 0:
        target = Numeric(0, 2 * CELLS)
    name = f"{setting.rows} {setting.classes} {setting.columns} {setting.unordered} {setting.block}"
    options = {"target": target, "rows_per_block": setting.block, "capacity": setting.rows}
    table = convert.convert(made_up(setting), domain, folder / name.replace(" ", "-"), **options)
    recipe = recipes.oblivious_boost(
        epsilon=1,
        delta=1e-6,
        rows=setting.rows,
        domain=domain,
        target=target,
        rounds=rounds,
        depth=setting.depth,
        attributes_per_tree=(2, 3, 4),
    )

    times: list[tuple[float, float]] = []

    def progress(state: "in_blocks.Progress") -> None:
        if state.stage == "rounds":
            used = resource.getrusage(resource.RUSAGE_SELF)
            times.append((time.perf_counter(), used.ru_utime + used.ru_stime))

    run = {"threads": setting.threads, "memory": 8 * 2**30, "progress": progress}
    training_fit.learn(timing.known_key(), table, recipe, **run)
    return Seconds(*np.quantile(np.diff(times[2:], axis=0), 0.25, axis=0).tolist())


def fitted(terms: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """f64[P]: coefficients of at least 0, which make the squares of relative errors least.

    Args:
        terms: f64[S, P], of each setting.
        seconds: f64[S], above 0.
    """
    scaled = terms / seconds[:, None]
    size = np.linalg.norm(scaled, axis=0)
    found, _ = nnls(scaled / size, np.ones(len(seconds)))
    return found / size


def models_of(settings: Sequence[Setting], found: Sequence[Seconds]) -> dict[str, np.ndarray]:
    """f64[7] by the name of what was measured: the coefficients of its model, in seconds.

    Processor time has one model for all threads. Time by the clock has one for each number of them.
    """
    terms, threads = np.stack([one.terms for one in settings]), [one.threads for one in settings]
    models = {"processor": fitted(terms, np.array([one.processor for one in found]))}
    for count in sorted(set(threads)):
        here = np.array(threads) == count
        clock = np.array([one.clock for one in found])[here]
        models[clock_of(count)] = fitted(terms[here], clock)
    return models


def clock_of(threads: int) -> str:
    """The name of the time by the clock."""
    return f"clock, {threads} thread{'s' * (threads > 1)}"


def run(options: argparse.Namespace) -> None:
    """Measure the grid, fit the model, and print both.

    Raises:
        InputError: for too few rounds.
    """
    if options.rounds < 4:
        raise InputError("--rounds must be at least 4, as the first two are not counted")
    Path(options.folder).mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    settings, found = grid(options.rows, options.max_threads), []
    for number, setting in enumerate(settings):
        found.append(measured(setting, folder, options.rounds))
        if sys.stderr.isatty():
            print(f"\r{number + 1} of {len(settings)}", end="", file=sys.stderr, flush=True)
    shutil.rmtree(folder)

    models = models_of(settings, found)
    if options.json:
        rows = [
            {**dataclasses.asdict(setting), **dataclasses.asdict(one)}
            for setting, one in zip(settings, found, strict=True)
        ]
        said = {name: model.tolist() for name, model in models.items()}
        print(json.dumps({"settings": rows, "models": said}))
        return
    print("\n".join([*table(settings, found, models), "", *coefficients(models)]))


def table(
    settings: Sequence[Setting], found: Sequence[Seconds], models: dict[str, np.ndarray]
) -> list[str]:
    """Lines of a table in Markdown: nanoseconds a row, measured and fitted."""
    head = ("rows", "D", "classes", "F", "order", "block", "threads")
    rows = []
    for setting, one in zip(settings, found, strict=True):
        order, classes = "no" if setting.unordered else "yes", setting.classes or "number"
        about = (setting.rows, setting.depth, classes, setting.columns, order, setting.block)
        names = {"processor": one.processor, clock_of(setting.threads): one.clock}
        for name, seconds in names.items():
            model = float(setting.terms @ models[name])
            each = (f"{1e9 * part / setting.rows:.1f}" for part in (seconds, model))
            off = f"{model / seconds - 1:+.0%}"
            rows.append((*map(str, about), str(setting.threads), name, *each, off))
    return tables.markdown((*head, "measure", "measured", "fitted", "off"), rows).splitlines()


def coefficients(models: dict[str, np.ndarray]) -> list[str]:
    """Lines of a table in Markdown: the coefficients, in milliseconds a round and ns a row."""
    rows = []
    for number, (name, words) in enumerate(zip(NAMES, WORDS, strict=True)):
        unit, scale = ("ms", 1e3) if number < 2 else ("ns", 1e9)
        rows.append(
            (name, words, *(f"{scale * one[number]:.2f} {unit}" for one in models.values()))
        )
    return tables.markdown(("", "for", *models), rows).splitlines()
