"""Measure boosted oblivious trees: fits, a first fit, sweeps and memory, beside rooflines.

`python -m experiments bench` prints the sections. Run as a module with the name of a probe and a
number, this file is one probe in a process of its own, and prints one JSON object.
"""

import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

import dpbt
from dpbt import recipes
from dpbt.base import Recipe, Table
from dpbt.data import domains
from dpbt.data.domains import Domain, Numeric
from dpbt.privacy import keys, variates
from experiments.common import data, tables, timing

FITS = (("banknote", 292, 6), ("adult", 128, 6), ("adult", 1000, 8))
"""(data, T, D) of single fits."""

SWEEPS = (("banknote", 292, 6, 1000), ("banknote", 128, 6, 1000), ("adult", 128, 6, 32))
"""(data, T, D, settings) of sweeps."""

QUICK_FITS, QUICK_SWEEPS = FITS[:1], (("banknote", 128, 6, 64),)
MEMORY_ROWS, QUICK_MEMORY_ROWS, MEMORY_COLUMNS = 10**7, 10**6, 50
LANES = {"banknote": 64, "adult": 1}
"""How many settings run side by side: as many as keep their rows in a core's cache."""

SHAPES = {"banknote": (1372, 4), "adult": (48842, 14)}
"""(rows, columns) of the tables that random cells replace where a data set is absent."""

_STREAMED = 2**26


class Data(NamedTuple):
    """A table and its domain."""

    name: str
    domain: Domain
    table: Table


def random_data(rows: int, columns: int) -> Data:
    """Random cells of 64 bins; the label depends on the first column."""
    rng = np.random.default_rng(0)
    domain: Domain = {f"x{number}": Numeric(0, 1, bins=64) for number in range(columns)}
    cells = rng.integers(0, 64, (rows, columns), np.uint8)
    label = (cells[:, 0] > 30) ^ (rng.random(rows) < 0.2)
    questions = jax.tree.map(jnp.asarray, domains.questions(domain))
    table = Table(jnp.asarray(cells), jnp.asarray(label), jnp.ones(rows, bool), questions)
    return Data(f"random, {rows} x {columns}", domain, table)


@functools.cache
def load(name: str) -> Data:
    """A data set with 64 bins a number, or random cells of its shape if its files are absent."""
    if not data.is_there(name):
        return random_data(*SHAPES[name])
    dataset = data.load(name, bins=64)
    return Data(name, dataset.domain, dataset.table)


def recipe_of(source: Data, rounds: int, depth: int, epsilon: ArrayLike = 1.0) -> Recipe:
    """Trees without histograms, whose questions all settings share."""
    return recipes.oblivious_boost(
        epsilon=epsilon,
        delta=1e-6,
        rows=len(source.table.target),
        domain=source.domain,
        rounds=rounds,
        depth=depth,
        mixes=(2, 3, 4),
    )


# Rooflines.


def stream_rate(rows: int, repeats: int) -> float:
    """Bytes a second that passes over one number a row read and write, in cache if it fits."""
    passes = max(_STREAMED // (8 * rows), 1)

    @jax.jit
    def stream(array: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, passes, lambda _, array: array * 0.5 + 1, array)

    array = jnp.zeros(rows, jnp.float32)
    return 8 * rows * passes / timing.measure(lambda _: stream(array), repeats).fastest


def word_rate(repeats: int) -> float:
    """Random words a second of a research key."""
    draw = jax.jit(lambda key: keys.words(key, 1, (_STREAMED // 64,)))
    seconds = timing.measure(lambda n: draw(jax.random.key(n)), repeats).fastest
    return _STREAMED // 64 / seconds


def row_bytes(depth: int) -> int:
    """Bytes that one row's part of one round reads and writes.

    A level reads a cell and a leaf and writes a leaf. Weights read a score, the class and whether
    the row is there, and write an integer. A sum reads that integer and the leaf, which was widened
    to four bytes before. A prediction reads a leaf and a score and writes a score.
    """
    small = 1 if depth <= 8 else 2
    return depth * (1 + 2 * small) + (4 + 2 + 4) + (small + 4 + 8) + (small + 8)


def round_words(depth: int) -> int:
    """Random words of a round's rounded Gaussian noise."""
    return variates.NORMAL_WORDS * 2 ** (depth - 1)


class Rates(NamedTuple):
    """What the machine does in a second: bytes streamed and random words drawn."""

    stream: float
    words: float

    def floor(self, rows: int, depth: int) -> float:
        """Seconds that one round takes at these rates, if it does nothing else."""
        return rows * row_bytes(depth) / self.stream + round_words(depth) / self.words


# Measurements.


def fit(name: str, rounds: int, depth: int, words: float, repeats: int) -> dict:
    """The line of single fits."""
    source = load(name)
    rates = Rates(stream_rate(len(source.table.target), repeats), words)
    recipe, rows = recipe_of(source, rounds, depth), len(source.table.target)

    def call(number: int) -> object:
        return dpbt.fit(jax.random.key(number), source.table, recipe).hypotheses

    timed = timing.measure(call, repeats)
    return {
        "name": source.name,
        "rows": rows,
        "rounds": rounds,
        "depth": depth,
        "first_seconds": timed.first,
        "seconds": timed.fastest,
        "stream_bytes_a_second": rates.stream,
        "floor_seconds": rounds * rates.floor(rows, depth),
    }


@functools.partial(jax.jit, static_argnames="lanes")
def _scores(key: jax.Array, table: Table, recipe: Recipe, seed: jax.Array, lanes: int) -> jax.Array:
    """f32[G]: a number of each fit; all settings have one seed, so they share their questions."""

    def one(setting: tuple[jax.Array, Recipe]) -> jax.Array:
        key, recipe = setting
        own = recipe.budget._replace(seed=seed)
        fields = {field: getattr(recipe, field) for field in _FIELDS} | {"budget": own}
        return dpbt.boost(key, table, Recipe(**fields)).scores[0]

    settings = jax.random.split(key, len(recipe.rows)), recipe
    return jax.lax.map(one, settings, batch_size=lanes)


_FIELDS = tuple(Recipe.__dataclass_fields__)


def sweep(name: str, rounds: int, depth: int, settings: int, words: float, repeats: int) -> dict:
    """The line of a sweep over epsilons with one public structure."""
    source = load(name)
    rates = Rates(stream_rate(len(source.table.target), repeats), words)
    recipe = recipe_of(source, rounds, depth, np.geomspace(0.1, 3, settings))
    seed, lanes = jnp.float32(0), LANES[name]
    timed = timing.measure(
        lambda number: _scores(jax.random.key(number), source.table, recipe, seed, lanes), repeats
    )
    return {
        "name": source.name,
        "rounds": rounds,
        "depth": depth,
        "settings": settings,
        "lanes": lanes,
        "first_seconds": timed.first,
        "seconds_a_fit": timed.fastest / settings,
        "floor_seconds": rounds * rates.floor(len(source.table.target), depth),
    }


def probe(name: str, number: int) -> dict:
    """What `cold` or `memory` measures in a new process, without a compilation cache."""
    environment = {key: value for key, value in os.environ.items() if "COMPILATION" not in key}
    command = [sys.executable, "-m", "experiments.common.oblivious_speed", name, str(number)]
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout) | {"process_seconds": time.perf_counter() - start}


def cold(rounds: int) -> dict:
    """One fit on a table of Adult, of depth 8."""
    source = load("adult")
    recipe = recipe_of(source, rounds, 8)
    start = time.perf_counter()
    jax.block_until_ready(dpbt.fit(jax.random.key(0), source.table, recipe).hypotheses)
    line = {"name": source.name, "rounds": rounds, "depth": 8}
    return line | {"fit_seconds": time.perf_counter() - start}


def memory(rows: int) -> dict:
    """The peak of a process that fits five trees to a table of random cells."""
    before = _memory("VmRSS")
    source = random_data(rows, MEMORY_COLUMNS)
    jax.block_until_ready(source.table)
    made = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of making the table
    recipe = recipe_of(source, 5, 8)
    jax.block_until_ready(dpbt.fit(jax.random.key(0), source.table, recipe).hypotheses)
    cells = rows * MEMORY_COLUMNS
    return {
        "rows": rows,
        "columns": MEMORY_COLUMNS,
        "cell_bytes": cells,
        "imported_bytes": before,
        "made_bytes": made,
        "peak_bytes": _memory("VmHWM"),
    }


def _memory(kind: str) -> int:
    """Bytes of this process on Linux: VmRSS is what it holds, and VmHWM the most it has held."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{kind}:"))


def measure(quick: bool, repeats: int) -> dict:
    """All sections."""
    words = word_rate(repeats)
    fits, sweeps = (QUICK_FITS, QUICK_SWEEPS) if quick else (FITS, SWEEPS)
    return {
        "words_a_second": words,
        "fits": [fit(*setting, words, repeats) for setting in fits],
        "cold": probe("cold", 128 if quick else 1000),
        "sweeps": [sweep(*setting, words, min(repeats, 2)) for setting in sweeps],
        "memory": probe("memory", QUICK_MEMORY_ROWS if quick else MEMORY_ROWS),
    }


def as_text(report: dict) -> str:
    """The sections in words."""
    text = [f"oblivious trees; {report['words_a_second'] / 1e6:.0f} million random words/s"]
    head = ("fit", "T", "D", "first, s", "again, s", "us a tree", "GB/s", "floor, s")
    text.append(tables.aligned(head, [_fit_cells(line) for line in report["fits"]]))

    line = report["cold"]
    text.append(
        f"a new process without a compilation cache, {line['name']}, T = {line['rounds']}, "
        f"D = {line['depth']}: {line['process_seconds']:.2f} s, "
        f"of which the fit {line['fit_seconds']:.2f} s"
    )

    head = ("sweep", "T", "D", "settings", "side by side", "first, s", "ms a fit", "floor, ms")
    text.append(tables.aligned(head, [_sweep_cells(line) for line in report["sweeps"]]))

    line = report["memory"]
    peaks = (line[key] / 2**30 for key in ("cell_bytes", "imported_bytes", "made_bytes"))
    text.append(
        "memory, {} rows x {} columns: cells {:.2f} GiB; {:.2f} held after imports, {:.2f} with "
        "the table; peak {:.2f} of a fit".format(
            line["rows"], line["columns"], *peaks, line["peak_bytes"] / 2**30
        )
    )
    return "\n".join(text) + "\n"


def _fit_cells(line: dict) -> tuple[str, ...]:
    return (
        line["name"],
        str(line["rounds"]),
        str(line["depth"]),
        f"{line['first_seconds']:.2f}",
        f"{line['seconds']:.3f}",
        f"{1e6 * line['seconds'] / line['rounds']:.0f}",
        f"{line['stream_bytes_a_second'] / 1e9:.0f}",
        f"{line['floor_seconds']:.3f}",
    )


def _sweep_cells(line: dict) -> tuple[str, ...]:
    return (
        line["name"],
        *(str(line[key]) for key in ("rounds", "depth", "settings", "lanes")),
        f"{line['first_seconds']:.1f}",
        f"{1e3 * line['seconds_a_fit']:.2f}",
        f"{1e3 * line['floor_seconds']:.2f}",
    )


def main(arguments: Sequence[str]) -> None:
    """Run one probe and print what it found."""
    name, number = arguments
    print(json.dumps({"cold": cold, "memory": memory}[name](int(number))))


if __name__ == "__main__":
    main(sys.argv[1:])
