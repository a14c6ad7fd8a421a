"""Speed: models per second of a sweep, against the matrix-product peak of the same run."""

import argparse
import json
import os
import resource
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt import recipes
from dpbt.accounting import align
from dpbt.base import Recipe, Table
from experiments import data

MODELS, ROUNDS, DEPTH, BATCH = 256, 20, 4, 64


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--repeats", type=int, default=7, help="timed runs of each; the fastest counts (%(default)s)")


def fastest(call: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest of some warm calls."""
    jax.block_until_ready(call())
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - start)
    return min(times)


def matrix_peak(repeats: int, size: int = 2048) -> float:
    """GFLOP/s of a square float32 matrix product."""
    a = jax.random.normal(jax.random.key(0), (size, size))
    product = jax.jit(lambda a, b: a @ b)
    return 2 * size**3 / fastest(lambda: product(a, a), repeats) / 1e9


def products(rows: int, splits: int, depth: int, rounds: int) -> int:
    """4 N S (2^D - 1) T: the operations of one model's level statistics, done node by node without any saving."""
    return 4 * rows * splits * (2**depth - 1) * rounds


def programs(function: Any) -> int:
    """How many programs a jitted function has been compiled to."""
    return function._cache_size()


@jax.jit
def _sweep(keys, table: Table, recipe: Recipe):
    """The trees of G models, in batches of BATCH."""

    def one(setting):
        key, recipe = setting
        return dpbt.boost(key, table, recipe)[1]

    return jax.lax.map(one, (keys, recipe), batch_size=BATCH)


def sweep(name: str, dataset: data.Dataset, peak: float, repeats: int) -> dict:
    """One sweep over epsilon and keys: models per second, the GFLOP/s they stand for, compiled programs."""
    rows, splits = dataset.splits.shape
    epsilon = np.geomspace(0.01, 25, MODELS)
    recipe = recipes.bdpe(epsilon=epsilon, rows=rows, rounds=ROUNDS, depth=DEPTH)
    keys = jax.random.split(jax.random.key(0), MODELS)
    before = programs(_sweep)
    start = time.perf_counter()
    jax.block_until_ready(_sweep(keys, dataset.table, recipe))
    first = time.perf_counter() - start
    seconds = fastest(lambda: _sweep(keys, dataset.table, recipe), repeats)
    gflops = MODELS * products(rows, splits, DEPTH, ROUNDS) / seconds / 1e9
    return {
        "name": name,
        "rows": rows,
        "splits": splits,
        "models": MODELS,
        "rounds": ROUNDS,
        "depth": DEPTH,
        "seconds": seconds,
        "compile_seconds": first - seconds,
        "models_per_second": MODELS / seconds,
        "gflops": gflops,
        "fraction_of_peak": gflops / peak,
        "compiles": programs(_sweep) - before,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _datasets() -> list[tuple[str, data.Dataset]]:
    found = [("breast cancer", data.breast_cancer())]
    try:
        found.append(("banknote", data.load("banknote")))
    except ValueError:
        rng = np.random.default_rng(0)
        splits = rng.random((1372, 36)) < 0.5
        found.append(("synthetic, of banknote's shape", data.Dataset("synthetic", {}, splits, rng.random(1372) < 0.5)))
    return found


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    peak = matrix_peak(options.repeats)
    sweeps = [sweep(name, dataset, peak, options.repeats) for name, dataset in _datasets()]
    report = {"peak_gflops": peak, "device": str(jnp.zeros(1).device), "sweeps": sweeps}
    if options.json:
        print(json.dumps(report, indent=1))
        return
    print(f"float32 matrix product: {peak:.0f} GFLOP/s on {report['device']}, {os.cpu_count()} cores\n")
    head = ("sweep", "N x S", "models", "models/s", "GFLOP/s", "of peak", "programs", "compile s", "peak MB")
    lines = [
        (
            s["name"],
            f"{s['rows']} x {s['splits']}",
            f"{s['models']} of T = {s['rounds']}, D = {s['depth']}",
            f"{s['models_per_second']:.0f}",
            f"{s['gflops']:.0f}",
            f"{s['fraction_of_peak']:.0%}",
            str(s["compiles"]),
            f"{s['compile_seconds']:.1f}",
            f"{s['peak_memory_mb']:.0f}",
        )
        for s in sweeps
    ]
    print(align([head, *lines]))
    print("\nGFLOP/s counts 4 N S (2^D - 1) T operations a model; sibling subtraction executes about half of them.")
