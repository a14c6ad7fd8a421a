"""Measure models per second, beside the matrix-product peak and other libraries."""

import argparse
import functools
import json
import os
import resource
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

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
    cold_start,
    commands,
    data,
    oblivious_speed,
    peers,
    results,
    tables,
    timing,
)


class SweepSetting(NamedTuple):
    """A sweep: how many models, T and D."""

    models: int
    rounds: int
    depth: int


SWEEPS = {
    "banknote": SweepSetting(256, 20, 4),
    "adult": SweepSetting(32, 20, 4),
    "synthetic 1M x 50": SweepSetting(2, 20, 4),
}
"""Table -> its sweep."""

SHAPES = {"banknote": (1372, 36), "adult": (48842, 156), "synthetic 1M x 50": (10**6, 50)}
"""Table -> (rows, splits)."""

QUICK = {"banknote": SweepSetting(256, 5, 2)}
PEER_SETTING, PEER_FITS = {"trees": 10, "depth": 5}, {"banknote": 1000, "adult": 1000}
DRAWS, CLOCK = (65_536, 256_000), time.process_time


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "measure for about a minute: small models, no large tables"
    parser.add_argument("--quick", action="store_true", help=words)
    commands.add_count(parser, "--repeats", 5, "timed runs of each measurement; the fastest counts")
    commands.add_shared(parser, memory=True, json="print one JSON object")


def _print_progress(words: str) -> None:
    print(words, file=sys.stderr)


def matrix_peak(repeats: int, dtype=jnp.float32, size: int = 2048) -> float:
    """GFLOP/s of a square matrix product of one type, accumulated in 32 bits."""
    a = jnp.ones((size, size), dtype)
    wide = jnp.int32 if dtype == jnp.int8 else jnp.float32
    product = jax.jit(lambda a, b: jnp.matmul(a, b, preferred_element_type=wide))
    seconds = timing.time_calls(lambda _: product(a, a), repeats).fastest
    return 2 * size**3 / seconds / 1e9


def count_operations(*, rows: int, splits: int, depth: int, rounds: int) -> int:
    """4 N S (2^D - 1) T: operations of one model's level statistics if each node is a product."""
    return 4 * rows * splits * (2**depth - 1) * rounds


def count_programs(function: Any) -> int:
    """The number of programs that a jitted function has been compiled to."""
    return function._cache_size()


def _fit_all(keys: jax.Array, table: Table, recipe: Recipe, lanes: int) -> Any:
    """The hypotheses of G models; `lanes` are trained at a time."""

    def fit(key_and_recipe: tuple[jax.Array, Recipe]) -> Any:
        key, recipe = key_and_recipe
        noise_key, public_key = dpbt.keys.pair(key)
        return dpbt.boost(noise_key, table, recipe, public_key).hypotheses

    return jax.lax.map(fit, (keys, recipe), batch_size=lanes)


_sweep = jax.jit(_fit_all, static_argnames="lanes")


def boosted_trees(setting: SweepSetting, rows: int) -> Recipe:
    """Boosted trees at as many different epsilons as models."""
    return recipes.bdpe(
        epsilon=np.geomspace(0.01, 25, setting.models),
        rows=rows,
        rounds=setting.rounds,
        depth=setting.depth,
    )


def random_forests(setting: SweepSetting, rows: int) -> Recipe:
    """Random trees over disjoint rows, as in diffprivlib, at as many epsilons as models."""
    return recipes.random_forest(
        epsilon=np.geomspace(0.01, 25, setting.models),
        rows=rows,
        rounds=setting.rounds,
        depth=setting.depth,
        disjoint=True,
    )


class SweepLayout(NamedTuple):
    """How many models a call trains at a time, and how many calls run side by side."""

    lanes: int
    threads: int


def layout_of_sweep(table: Table, recipe: Recipe, memory_mb: float) -> SweepLayout:
    """The layout of a recipe's settings, as `dpbt.sweeps.run` runs them on one device.

    Two calls have half of the settings each and run side by side, if these are many or more than
    the working memory holds at a time. An odd number of settings is not cut here. A call trains as
    many at a time as the memory holds, in equal batches.
    """
    settings = np.shape(recipe.rows)[0]
    max_lanes = memory_mb * 2**20 // sweeps.estimate_lane_bytes(table, recipe)
    is_cut = settings > max(max_lanes, 1) or settings >= sweeps.THREADS * sweeps.MIN_LANES
    threads = sweeps.THREADS if is_cut and settings % sweeps.THREADS == 0 else 1
    models = settings // threads
    lanes = int(np.clip(max_lanes, 1, models))
    return SweepLayout(-(-models // -(-models // lanes)), threads)


def time_sweep(
    table: Table, recipe: Recipe, *, repeats: int, memory_mb: float, release: bool = False
) -> timing.Timing:
    """The seconds of a sweep over the recipe's settings.

    Args:
        table: the rows.
        recipe: many settings; each gets its own key.
        repeats: the number of warm calls; the fastest counts.
        memory_mb: working memory.
        release: use keys for releases (ChaCha20) instead of research keys.
    """
    models = np.shape(recipe.rows)[0]
    lanes, threads = layout_of_sweep(table, recipe, memory_mb)
    keys = jax.random.split(dpbt.fresh_key() if release else jax.random.key(0), models)

    def settings_of_thread(thread: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[thread::threads], (keys, recipe))

    by_thread = [settings_of_thread(thread) for thread in range(threads)]

    def fit(thread: int) -> Any:
        thread_keys, settings = by_thread[thread]
        return _sweep(thread_keys, table, settings, lanes=lanes)

    return timing.time_calls(lambda _: timing.call_in_threads(fit, threads), repeats)


class NamedTable(NamedTuple):
    """A table and its name."""

    name: str
    table: Table


def measure_sweep(
    named: NamedTable, setting: SweepSetting, *, peak: float, repeats: int, memory_mb: float
) -> results.Line:
    """The line of one sweep: models per second, GFLOP/s, seconds and compiled programs."""
    (name, table), (models, rounds, depth) = named, setting
    rows, _, splits, _ = sweeps.shape_of_table(table)
    num_programs, recipe = count_programs(_sweep), boosted_trees(setting, rows)
    _print_progress(f"{name}: {models} models of T = {rounds}, D = {depth}")
    timed = time_sweep(table, recipe, repeats=repeats, memory_mb=memory_mb)
    seconds, compiles = timed.fastest, count_programs(_sweep) - num_programs
    with_release_keys = time_sweep(
        table, recipe, repeats=repeats, memory_mb=memory_mb, release=True
    )
    operations = count_operations(rows=rows, splits=splits, depth=depth, rounds=rounds)
    gflops = models * operations / seconds / 1e9
    lanes, threads = layout_of_sweep(table, recipe, memory_mb)
    return {
        "name": name,
        "rows": rows,
        "splits": splits,
        "models": models,
        "rounds": rounds,
        "depth": depth,
        "seconds": seconds,
        "compile_seconds": timed.first - seconds,
        "models_per_second": models / seconds,
        "gflops": gflops,
        "fraction_of_peak": gflops / peak,
        "lanes": lanes,
        "threads": threads,
        "compiles": compiles,
        "release_keys": with_release_keys.fastest / seconds,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def synthetic_table(rows: int, splits: int) -> Table:
    """Random bits; the label depends on the first two."""
    rng = np.random.default_rng(0)
    satisfied = rng.random((rows, splits), np.float32) < 0.5
    label = (satisfied[:, 0] & satisfied[:, 1]) ^ (rng.random(rows) < 0.2)
    return table_of_splits(satisfied, label, np.ones(rows, bool))


def measure_draws(repeats: int) -> list[results.Line]:
    """Nanoseconds of one core per draw, by mechanism, kind of key and number of draws."""
    lines = []
    for mechanism in (mechanisms.discrete_laplace, mechanisms.rounded_gaussian):
        sample = jax.jit(
            lambda key, value, mechanism=mechanism: mechanism.sample(key, value, jnp.float32(2500))
        )
        for kind, key in (("research", jax.random.key(0)), ("release", dpbt.fresh_key())):
            for count in DRAWS:
                _print_progress(f"{count} draws of {mechanism.name}, {kind} key")
                value = jnp.zeros(count, jnp.int32)
                call = functools.partial(sample, key, value)
                seconds = timing.time_calls(lambda _, call=call: call(), repeats, CLOCK).fastest
                line = {"mechanism": mechanism.name, "key": kind, "draws": count}
                lines.append({**line, "ns_a_draw": 1e9 * seconds / count})
    return lines


def _load_tables(names: Iterable[str]) -> Iterator[NamedTable]:
    """The table of each name; random bits of the same shape replace an absent data set.

    Raises:
        InputError: for a data set whose files are there but cannot be read.
    """
    for name in names:
        if name not in data.ENTRIES:
            yield NamedTable(name, synthetic_table(*SHAPES[name]))
        elif data.is_available(name):
            yield NamedTable(name, data.load(name).table)
        else:
            words = f"synthetic, of {name}'s shape"
            yield NamedTable(words, synthetic_table(*SHAPES[name]))


def compare_with_peers(
    name: str, *, fits: int, repeats: int, memory_mb: float
) -> list[results.Line]:
    """Lines that compare seconds per private fit, dpbt's in a sweep and each peer's, on equal data.

    Numbers and depths of trees are equal if the peer has trees. diffprivlib's forest has random
    trees. It is compared with dpbt's random forest, which reads the same numbers, and with boosted
    trees, which search all splits at every node.
    """
    _print_progress(f"{name}: {fits} private fits, and peers")
    dataset = data.load(name)
    rows = len(dataset.label)
    ordered = {
        column: msgspec.structs.replace(kind, ordered=True) if isinstance(kind, Nominal) else kind
        for column, kind in dataset.domain.items()
    }
    numbers = domains.encode_positions(ordered, dataset.columns)
    positions = Table(jnp.asarray(numbers), dataset.table.target, dataset.table.present)
    setting = SweepSetting(fits, PEER_SETTING["trees"], PEER_SETTING["depth"])
    sweeps_by_kind = {
        "boosted trees": (boosted_trees(setting, rows), dataset.table),
        "random forest": (random_forests(setting, rows), positions),
    }
    seconds_by_kind = {
        kind: time_sweep(table, recipe, repeats=min(repeats, 2), memory_mb=memory_mb).fastest / fits
        for kind, (recipe, table) in sweeps_by_kind.items()
    }
    peer_rows = peers.rows_of_dataset(dataset)
    forest = peers.fastest_seconds(
        peers.diffprivlib_forest(peer_rows, trees=setting.rounds, depth=setting.depth), repeats
    )
    ebm = peers.fastest_seconds(peers.private_ebm(peer_rows), repeats)
    comparisons = [
        ("diffprivlib RandomForestClassifier, equal trees", "random forest", forest),
        ("diffprivlib RandomForestClassifier, equal trees", "boosted trees", forest),
        ("interpret DP-EBM, its defaults", "boosted trees", ebm),
    ]
    return [
        {
            "name": peer,
            "ours": kind,
            "our_seconds": seconds_by_kind[kind],
            "peer_seconds": peer_seconds,
            "ratio": peer_seconds / seconds_by_kind[kind],
            "dataset": name,
            "fits": fits,
            **PEER_SETTING,
            "rows": rows,
        }
        for peer, kind, peer_seconds in comparisons
    ]


def _measure_peers(*, quick: bool, repeats: int, memory_mb: float) -> list[results.Line]:
    try:
        peers.check_installed()
    except ImportError as error:
        _print_progress(f"no comparison with peers; install the extra `peers`: {error}")
        return []
    lines = []
    for name in ("banknote",) if quick else PEER_FITS:
        if data.is_available(name):
            fits = 200 if quick else PEER_FITS[name]
            lines += compare_with_peers(name, fits=fits, repeats=repeats, memory_mb=memory_mb)
        else:
            _print_progress(f"no comparison on {name}: its files are absent")
    return lines


def run_command(options: argparse.Namespace) -> None:
    """Measure and print."""
    repeats, memory_mb = options.repeats, options.memory_mb
    peak = matrix_peak(repeats)
    settings = QUICK if options.quick else SWEEPS
    sweep_lines = [
        measure_sweep(table, setting, peak=peak, repeats=repeats, memory_mb=memory_mb)
        for table, setting in zip(_load_tables(settings), settings.values(), strict=True)
    ]
    report = {
        "peak_gflops": peak,
        "peak_int8_gops": matrix_peak(repeats, jnp.int8),
        "device": str(jax.devices()[0]),
        "cores": os.cpu_count(),
        "sweeps": sweep_lines,
        "oblivious": oblivious_speed.measure_all(quick=options.quick, repeats=repeats),
        "cold": cold_start.measure_all(quick=options.quick),
        "draws": measure_draws(repeats),
        "peers": _measure_peers(quick=options.quick, repeats=repeats, memory_mb=memory_mb),
        "quick": options.quick,
    }
    if options.json:
        print(json.dumps(report, indent=1))
        return
    print(_format_report(report))


SWEEP_COLUMNS = {
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
DRAW_COLUMNS = {
    "mechanism": "{mechanism}",
    "key": "{key}",
    "draws": "{draws}",
    "core ns per draw": "{ns_a_draw:.0f}",
}
PEER_COLUMNS = {
    "peer": "{name}",
    "ours": "{ours}",
    "data": "{dataset}",
    "fits": "{fits}",
    "ours, s per fit": "{our_seconds:.3g}",
    "peer, s per fit": "{peer_seconds:.3g}",
    "ratio": "{ratio:.3g}",
}


def _format_report(report: dict[str, Any]) -> str:
    words = f"{report['peak_gflops']:.0f} GFLOP/s (int8: {report['peak_int8_gops']:.0f})"
    text = [
        f"float32 matrix product: {words} on {report['device']}, {report['cores']} cores\n",
        tables.format_table(report["sweeps"], SWEEP_COLUMNS),
        "GFLOP/s counts 4 N S (2^D - 1) T operations per model, not those that are executed.\n",
        oblivious_speed.format_report(report["oblivious"]),
        cold_start.format_report(report["cold"]),
        "",
        tables.format_table(report["draws"], DRAW_COLUMNS),
        "",
    ]
    if report["peers"]:
        trees = "{trees} private trees of depth {depth}".format(**PEER_SETTING)
        text.append(tables.format_table(report["peers"], PEER_COLUMNS))
        text.append(f"Ours: {trees}; all fits are one sweep.\n")
    return "\n".join(text)
