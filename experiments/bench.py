"""Measure models per second, beside the matrix-product peak and other libraries."""

import argparse
import functools
import json
import os
import resource
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np

import dpbt
from dpbt import recipes, sweeps
from dpbt.data import domains
from dpbt.data.domains import Nominal
from dpbt.data.splits import table_of_splits
from dpbt.privacy import mechanisms
from dpbt.types import Recipe, Table
from experiments.common import (
    commands,
    data,
    oblivious_speed,
    peers,
    tables,
    timing,
)

SWEEPS = {"banknote": (256, 20, 4), "adult": (32, 20, 4), "synthetic 1M x 50": (2, 20, 4)}
"""Table -> (models, T, D)."""

SHAPES = {"banknote": (1372, 36), "adult": (48842, 156), "synthetic 1M x 50": (10**6, 50)}
"""Table -> (rows, splits)."""

QUICK = {"banknote": (256, 5, 2)}
PEER_SETTING, PEER_FITS = {"trees": 10, "depth": 5}, {"banknote": 1000, "adult": 1000}
DRAWS, CLOCK = (65_536, 256_000), time.process_time


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "measure for about a minute: small models, no large tables"
    parser.add_argument("--quick", action="store_true", help=words)
    commands.add_count(parser, "--repeats", 5, "timed runs of each measurement; the fastest counts")
    commands.add_shared(parser, memory=True, json="print one JSON object")


def _say(words: str) -> None:
    print(words, file=sys.stderr)


def matrix_peak(repeats: int, dtype=jnp.float32, size: int = 2048) -> float:
    """GFLOP/s of a square matrix product of one type, accumulated in 32 bits."""
    a = jnp.ones((size, size), dtype)
    wide = jnp.int32 if dtype == jnp.int8 else jnp.float32
    product = jax.jit(lambda a, b: jnp.matmul(a, b, preferred_element_type=wide))
    seconds = timing.time_calls(lambda _: product(a, a), repeats).fastest
    return 2 * size**3 / seconds / 1e9


def products(rows: int, splits: int, depth: int, rounds: int) -> int:
    """4 N S (2^D - 1) T: operations of one model's level statistics if each node is a product."""
    return 4 * rows * splits * (2**depth - 1) * rounds


def programs(function: Any) -> int:
    """The number of programs that a jitted function has been compiled to."""
    return function._cache_size()


def _fit_all(keys, table: Table, recipe: Recipe, lanes: int):
    """The hypotheses of G models; `lanes` are trained at a time."""

    def one(setting):
        key, recipe = setting
        noise_key, public_key = dpbt.keys.pair(key)
        return dpbt.boost(noise_key, table, recipe, public_key).hypotheses

    return jax.lax.map(one, (keys, recipe), batch_size=lanes)


_sweep = jax.jit(_fit_all, static_argnames="lanes")


def greedy(models: int, rows: int, rounds: int, depth: int) -> Recipe:
    """Boosted trees at `models` different epsilons."""
    return recipes.bdpe(
        epsilon=np.geomspace(0.01, 25, models), rows=rows, rounds=rounds, depth=depth
    )


def random_forests(models: int, rows: int, rounds: int, depth: int) -> Recipe:
    """Random trees over disjoint rows, as in diffprivlib, at `models` different epsilons."""
    epsilon = np.geomspace(0.01, 25, models)
    return recipes.random_forest(
        epsilon=epsilon, rows=rows, rounds=rounds, depth=depth, disjoint=True
    )


def layout_of(table: Table, recipe: Recipe, memory_mb: float) -> tuple[int, int]:
    """(lanes, threads) of a recipe's settings, as `dpbt.sweeps.run` runs them on one device.

    Two calls have half of the settings each and run side by side, if these are many or more than
    the working memory holds at a time. An odd number of settings is not cut here. A call trains as
    many at a time as the memory holds, in equal batches.
    """
    settings = np.shape(recipe.rows)[0]
    held = memory_mb * 2**20 // sweeps.estimate_lane_bytes(table, recipe)
    several = settings > max(held, 1) or settings >= sweeps.THREADS * sweeps.MIN_LANES
    threads = sweeps.THREADS if several and settings % sweeps.THREADS == 0 else 1
    models = settings // threads
    lanes = int(np.clip(held, 1, models))
    return -(-models // -(-models // lanes)), threads


def time_sweep(
    table: Table, recipe: Recipe, repeats: int, memory_mb: float, release: bool = False
) -> tuple[float, float]:
    """(seconds, seconds of the first call) of a sweep over the recipe's settings.

    Args:
        table: the rows.
        recipe: many settings; each gets its own key.
        repeats: the number of warm calls; the fastest counts.
        memory_mb: working memory.
        release: use keys for releases (ChaCha20) instead of research keys.
    """
    models = np.shape(recipe.rows)[0]
    lanes, threads = layout_of(table, recipe, memory_mb)
    keys = jax.random.split(dpbt.fresh_key() if release else jax.random.key(0), models)

    def part(number: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[number::threads], (keys, recipe))

    parts = [part(number) for number in range(threads)]

    def fit(number: int) -> Any:
        part_keys, settings = parts[number]
        return _sweep(part_keys, table, settings, lanes=lanes)

    timed = timing.time_calls(lambda _: timing.call_in_threads(fit, threads), repeats)
    return timed.fastest, timed.first


def measure_sweep(
    name: str, table: Table, setting: tuple, peak: float, repeats: int, memory_mb: float
) -> dict:
    """The line of one sweep: models per second, GFLOP/s, seconds and compiled programs."""
    models, rounds, depth = setting
    (rows, _, splits, _), before = sweeps.shape_of_table(table), programs(_sweep)
    _say(f"{name}: {models} models of T = {rounds}, D = {depth}")
    seconds, first = time_sweep(table, greedy(models, rows, rounds, depth), repeats, memory_mb)
    compiles = programs(_sweep) - before
    released, _ = time_sweep(
        table, greedy(models, rows, rounds, depth), repeats, memory_mb, release=True
    )
    gflops = models * products(rows, splits, depth, rounds) / seconds / 1e9
    lanes, threads = layout_of(table, greedy(models, rows, rounds, depth), memory_mb)
    return {
        "name": name,
        "rows": rows,
        "splits": splits,
        "models": models,
        "rounds": rounds,
        "depth": depth,
        "seconds": seconds,
        "compile_seconds": first - seconds,
        "models_per_second": models / seconds,
        "gflops": gflops,
        "fraction_of_peak": gflops / peak,
        "lanes": lanes,
        "threads": threads,
        "compiles": compiles,
        "release_keys": released / seconds,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def synthetic(rows: int, splits: int) -> Table:
    """Random bits; the label depends on the first two."""
    rng = np.random.default_rng(0)
    satisfied = rng.random((rows, splits), np.float32) < 0.5
    label = (satisfied[:, 0] & satisfied[:, 1]) ^ (rng.random(rows) < 0.2)
    return table_of_splits(satisfied, label, np.ones(rows, bool))


def draws(repeats: int) -> list[dict]:
    """Nanoseconds of one core per draw, by mechanism, kind of key and number of draws."""
    measured = []
    for mechanism in (mechanisms.discrete_laplace, mechanisms.rounded_gaussian):
        sample = jax.jit(
            lambda key, value, mechanism=mechanism: mechanism.sample(key, value, jnp.float32(2500))
        )
        for kind, key in (("research", jax.random.key(0)), ("release", dpbt.fresh_key())):
            for count in DRAWS:
                _say(f"{count} draws of {mechanism.name}, {kind} key")
                value = jnp.zeros(count, jnp.int32)
                call = functools.partial(sample, key, value)
                seconds = timing.time_calls(lambda _, call=call: call(), repeats, CLOCK).fastest
                line = {"mechanism": mechanism.name, "key": kind, "draws": count}
                measured.append({**line, "ns_a_draw": 1e9 * seconds / count})
    return measured


def _tables(names: Iterable[str]) -> Iterator[tuple[str, Table]]:
    """(name, table) of each name; random bits of the same shape replace an absent data set.

    Raises:
        InputError: for a data set whose files are there but cannot be read.
    """
    for name in names:
        if name not in data.ENTRIES:
            yield name, synthetic(*SHAPES[name])
        elif data.is_there(name):
            yield name, data.load(name).table
        else:
            yield f"synthetic, of {name}'s shape", synthetic(*SHAPES[name])


def compare(name: str, fits: int, repeats: int, memory_mb: float) -> list[dict]:
    """Lines that compare seconds per private fit: ours in a sweep, and each peer's, on equal data.

    Numbers and depths of trees are equal if the peer has trees. diffprivlib's forest has random
    trees. It is compared with our random forest, which reads the same numbers, and with boosted
    trees, which search all splits at every node.
    """
    _say(f"{name}: {fits} private fits, and peers")
    dataset = data.load(name)
    rows, trees, depth = len(dataset.label), PEER_SETTING["trees"], PEER_SETTING["depth"]
    ordered = {
        column: msgspec.structs.replace(kind, ordered=True) if isinstance(kind, Nominal) else kind
        for column, kind in dataset.domain.items()
    }
    numbers = domains.positions(ordered, dataset.columns)
    placed = Table(jnp.asarray(numbers), dataset.table.target, dataset.table.present)
    makers = {
        "boosted trees": (greedy, dataset.table),
        "random forest": (random_forests, placed),
    }
    ours = {}
    for kind, (make, table) in makers.items():
        recipe = make(fits, rows, trees, depth)
        ours[kind] = time_sweep(table, recipe, min(repeats, 2), memory_mb)[0] / fits
    read = peers.rows_of(dataset)
    forest = peers.seconds(peers.diffprivlib_forest(read, trees, depth), repeats)
    ebm = peers.seconds(peers.private_ebm(read), repeats)
    pairs = [
        ("diffprivlib RandomForestClassifier, equal trees", "random forest", forest),
        ("diffprivlib RandomForestClassifier, equal trees", "boosted trees", forest),
        ("interpret DP-EBM, its defaults", "boosted trees", ebm),
    ]
    about, lines = {"dataset": name, "fits": fits, **PEER_SETTING, "rows": rows}, []
    for rival, kind, seconds in pairs:
        line = {"name": rival, "ours": kind, "our_seconds": ours[kind], "peer_seconds": seconds}
        lines.append({**line, "ratio": seconds / ours[kind], **about})
    return lines


def _peers(quick: bool, repeats: int, memory_mb: float) -> list[dict]:
    try:
        peers.check()
    except ImportError as error:
        _say(f"no comparison with peers; install the extra `peers`: {error}")
        return []
    lines = []
    for name in ("banknote",) if quick else PEER_FITS:
        if data.is_there(name):
            lines += compare(name, 200 if quick else PEER_FITS[name], repeats, memory_mb)
        else:
            _say(f"no comparison on {name}: its files are absent")
    return lines


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    repeats, memory_mb = options.repeats, options.memory_mb
    peak = matrix_peak(repeats)
    chosen = QUICK if options.quick else SWEEPS
    measured = []
    for (name, table), setting in zip(_tables(chosen), chosen.values(), strict=True):
        measured.append(measure_sweep(name, table, setting, peak, repeats, memory_mb))
    report = {
        "peak_gflops": peak,
        "peak_int8_gops": matrix_peak(repeats, jnp.int8),
        "device": str(jax.devices()[0]),
        "cores": os.cpu_count(),
        "sweeps": measured,
        "oblivious": oblivious_speed.measure(options.quick, repeats),
        "draws": draws(repeats),
        "peers": _peers(options.quick, repeats, memory_mb),
        "quick": options.quick,
    }
    if options.json:
        print(json.dumps(report, indent=1))
        return
    print(_format_lines(report))


SWEEP = {
    "sweep": "{name}",
    "N x S": "{rows} x {splits}",
    "models": "{models} of T = {rounds}, D = {depth}",
    "models/s": "{models_per_second:.3g}",
    "GFLOP/s": "{gflops:.0f}",
    "of peak": "{fraction_of_peak:.0%}",
    "programs": "{compiles}",
    "compile s": "{compile_seconds:.1f}",
    "peak MB": "{peak_memory_mb:.0f}",
    "time with release keys": "{release_keys:.2f} times",
}
DRAWN = {
    "mechanism": "{mechanism}",
    "key": "{key}",
    "draws": "{draws}",
    "core ns per draw": "{ns_a_draw:.0f}",
}
RIVALS = {
    "peer": "{name}",
    "ours": "{ours}",
    "data": "{dataset}",
    "fits": "{fits}",
    "ours, s per fit": "{our_seconds:.3g}",
    "peer, s per fit": "{peer_seconds:.3g}",
    "ratio": "{ratio:.3g}",
}


def _format_lines(report: dict) -> str:
    words = f"{report['peak_gflops']:.0f} GFLOP/s (int8: {report['peak_int8_gops']:.0f})"
    text = [
        f"float32 matrix product: {words} on {report['device']}, {report['cores']} cores\n",
        tables.format_table(report["sweeps"], SWEEP),
        "GFLOP/s counts 4 N S (2^D - 1) T operations per model, not those that are executed.\n",
        oblivious_speed.format_lines(report["oblivious"]),
        tables.format_table(report["draws"], DRAWN),
        "",
    ]
    if report["peers"]:
        trees = "{trees} private trees of depth {depth}".format(**PEER_SETTING)
        text.append(tables.format_table(report["peers"], RIVALS))
        text.append(f"Ours: {trees}; all fits are one sweep.\n")
    return "\n".join(text)
