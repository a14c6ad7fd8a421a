"""Measure boosted oblivious trees: fits, a first fit, sweeps and memory.

`python -m experiments bench` prints the sections. Run as a module with the name of a probe and a
number, this file is one probe in a process of its own, and prints one JSON object.
"""

import dataclasses
import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

import dpbt
from dpbt import recipes
from dpbt.data import domains
from dpbt.data.domains import Domain, Numeric
from dpbt.types import Recipe, Table
from experiments.common import data, tables, timing
from experiments.common.results import Line


class FitSetting(NamedTuple):
    """A single fit: the data set, T and D."""

    name: str
    rounds: int
    depth: int


class SweepSetting(NamedTuple):
    """A sweep: the data set, T, D, and the number of settings."""

    name: str
    rounds: int
    depth: int
    settings: int


FITS = (
    FitSetting("banknote", 292, 6),
    FitSetting("adult", 128, 6),
    FitSetting("adult", 1000, 8),
)
SWEEPS = (
    SweepSetting("banknote", 292, 6, settings=1000),
    SweepSetting("banknote", 128, 6, settings=1000),
    SweepSetting("adult", 128, 6, settings=32),
)
QUICK_FITS, QUICK_SWEEPS = FITS[:1], (SweepSetting("banknote", 128, 6, settings=64),)
MEMORY_ROWS, QUICK_MEMORY_ROWS, MEMORY_COLUMNS = 10**7, 10**6, 50
LANES = {"banknote": 64, "adult": 1}
"""How many settings run side by side: as many as keep their rows in a core's cache."""

SHAPES = {"banknote": (1372, 4), "adult": (48842, 14)}
"""(rows, columns) of the tables that random bins replace where a data set is absent."""


class DomainTable(NamedTuple):
    """A table and its domain."""

    name: str
    domain: Domain
    table: Table


def random_data(rows: int, columns: int) -> DomainTable:
    """Random bins of 64 a column; the label depends on the first column."""
    rng = np.random.default_rng(0)
    domain: Domain = {f"x{number}": Numeric(0, 1, bins=64) for number in range(columns)}
    bins = rng.integers(0, 64, (rows, columns), np.uint8)
    label = (bins[:, 0] > 30) ^ (rng.random(rows) < 0.2)
    splits = jax.tree.map(jnp.asarray, domains.splits(domain))
    table = Table(jnp.asarray(bins), jnp.asarray(label), jnp.ones(rows, bool), splits)
    return DomainTable(f"random, {rows} x {columns}", domain, table)


@functools.cache
def load_or_draw(name: str) -> DomainTable:
    """A data set with 64 bins a number, or random bins of its shape if its files are absent."""
    if not data.is_available(name):
        return random_data(*SHAPES[name])
    dataset = data.load(name, bins=64)
    return DomainTable(name, dataset.domain, dataset.table)


def make_recipe(
    source: DomainTable, *, rounds: int, depth: int, epsilon: ArrayLike = 1.0
) -> Recipe:
    """Trees without histograms, whose splits all settings share."""
    return recipes.oblivious_boost(
        epsilon=epsilon,
        delta=1e-6,
        rows=len(source.table.target),
        domain=source.domain,
        rounds=rounds,
        depth=depth,
        attributes_per_tree=(2, 3, 4),
    )


# Measurements.


def measure_fit(setting: FitSetting, repeats: int) -> Line:
    """The line of single fits."""
    source = load_or_draw(setting.name)
    recipe = make_recipe(source, rounds=setting.rounds, depth=setting.depth)

    def fit(number: int) -> object:
        return dpbt.fit(jax.random.key(number), source.table, recipe).hypotheses

    timed = timing.time_calls(fit, repeats)
    return {
        "name": source.name,
        "rows": len(source.table.target),
        "rounds": setting.rounds,
        "depth": setting.depth,
        "first_seconds": timed.first,
        "seconds": timed.fastest,
        "us_a_tree": 1e6 * timed.fastest / setting.rounds,
    }


@functools.partial(jax.jit, static_argnames="lanes")
def _first_scores(
    key: jax.Array, table: Table, recipe: Recipe, *, seed: jax.Array, lanes: int
) -> jax.Array:
    """f32[G]: a number of each fit; all settings have one seed, so they share their splits."""

    def first_score(key_and_recipe: tuple[jax.Array, Recipe]) -> jax.Array:
        key, recipe = key_and_recipe
        params = recipe.params._replace(seed=seed)
        return dpbt.boost(key, table, dataclasses.replace(recipe, params=params)).scores[0]

    settings = jax.random.split(key, len(recipe.rows)), recipe
    return jax.lax.map(first_score, settings, batch_size=lanes)


def measure_sweep(setting: SweepSetting, repeats: int) -> Line:
    """The line of a sweep over epsilons with one public structure."""
    source = load_or_draw(setting.name)
    epsilons = np.geomspace(0.1, 3, setting.settings)
    recipe = make_recipe(source, rounds=setting.rounds, depth=setting.depth, epsilon=epsilons)
    seed, lanes = jnp.float32(0), LANES[setting.name]

    def fit_all(number: int) -> object:
        key = jax.random.key(number)
        return _first_scores(key, source.table, recipe, seed=seed, lanes=lanes)

    timed = timing.time_calls(fit_all, repeats)
    return {
        "name": source.name,
        "rounds": setting.rounds,
        "depth": setting.depth,
        "settings": setting.settings,
        "lanes": lanes,
        "first_seconds": timed.first,
        "ms_a_fit": 1e3 * timed.fastest / setting.settings,
    }


def run_probe(name: str, number: int) -> Line:
    """The line of a probe of `PROBES` in a new process, without a compilation cache."""
    environment = {key: value for key, value in os.environ.items() if "COMPILATION" not in key}
    command = [sys.executable, "-m", "experiments.common.oblivious_speed", name, str(number)]
    start = time.perf_counter()
    completed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(completed.stdout) | {"process_seconds": time.perf_counter() - start}


def probe_first_fit(rounds: int) -> Line:
    """One fit on a table of Adult, of depth 8."""
    source = load_or_draw("adult")
    recipe = make_recipe(source, rounds=rounds, depth=8)
    start = time.perf_counter()
    jax.block_until_ready(dpbt.fit(jax.random.key(0), source.table, recipe).hypotheses)
    line = {"name": source.name, "rounds": rounds, "depth": 8}
    return line | {"fit_seconds": time.perf_counter() - start}


def probe_memory(rows: int) -> Line:
    """The peak of a process that fits five trees to a table of random bins."""
    imported_bytes = _process_bytes("VmRSS")
    source = random_data(rows, MEMORY_COLUMNS)
    jax.block_until_ready(source.table)
    table_bytes = _process_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of making the table
    recipe = make_recipe(source, rounds=5, depth=8)
    jax.block_until_ready(dpbt.fit(jax.random.key(0), source.table, recipe).hypotheses)
    return {
        "rows": rows,
        "columns": MEMORY_COLUMNS,
        "bin_gib": rows * MEMORY_COLUMNS / 2**30,
        "imported_gib": imported_bytes / 2**30,
        "made_gib": table_bytes / 2**30,
        "peak_gib": _process_bytes("VmHWM") / 2**30,
    }


PROBES = {"cold": probe_first_fit, "memory": probe_memory}
"""Name of a probe -> its function of a number: of rounds, or of rows."""


def _process_bytes(kind: str) -> int:
    """Bytes of this process on Linux: VmRSS is what it holds, and VmHWM the most it has held."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{kind}:"))


def measure_all(*, quick: bool, repeats: int) -> dict[str, Any]:
    """All sections."""
    fits, sweeps = (QUICK_FITS, QUICK_SWEEPS) if quick else (FITS, SWEEPS)
    return {
        "fits": [measure_fit(setting, repeats) for setting in fits],
        "cold": run_probe("cold", 128 if quick else 1000),
        "sweeps": [measure_sweep(setting, min(repeats, 2)) for setting in sweeps],
        "memory": run_probe("memory", QUICK_MEMORY_ROWS if quick else MEMORY_ROWS),
    }


FIT_COLUMNS = {
    "fit": "{name}",
    "T": "{rounds}",
    "D": "{depth}",
    "first, s": "{first_seconds:.2f}",
    "again, s": "{seconds:.3f}",
    "us a tree": "{us_a_tree:.0f}",
}
SWEEP_COLUMNS = {
    "sweep": "{name}",
    "T": "{rounds}",
    "D": "{depth}",
    "settings": "{settings}",
    "side by side": "{lanes}",
    "first, s": "{first_seconds:.1f}",
    "ms a fit": "{ms_a_fit:.2f}",
}
COLD = """\
a new process without a compilation cache, {name}, T = {rounds}, D = {depth}: \
{process_seconds:.2f} s, of which the fit {fit_seconds:.2f} s"""
MEMORY = """\
memory, {rows} rows x {columns} columns: bins {bin_gib:.2f} GiB; {imported_gib:.2f} held after \
imports, {made_gib:.2f} with the table; peak {peak_gib:.2f} of a fit
"""


def format_report(report: dict[str, Any]) -> str:
    """The sections in words."""
    return "\n".join(
        [
            "oblivious trees",
            tables.format_table(report["fits"], FIT_COLUMNS),
            COLD.format_map(report["cold"]),
            tables.format_table(report["sweeps"], SWEEP_COLUMNS),
            MEMORY.format_map(report["memory"]),
        ]
    )


def main(arguments: Sequence[str]) -> None:
    """Run one probe and print its line."""
    name, number = arguments
    print(json.dumps(PROBES[name](int(number))))


if __name__ == "__main__":
    main(sys.argv[1:])
