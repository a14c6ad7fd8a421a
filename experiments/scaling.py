"""Measure learning from a table in chunks: conversion, a round, and memory.

The rows are made up: uniform numbers, and a label that two of them mostly give. `--rows 100000000`
needs 2.3 GB of disk for 20 columns, and `--keep` keeps the folder for another run.
"""

import argparse
import json
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from experiments.common import commands, timing


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    commands.add_count(parser, "--rows", 2_000_000, "rows of the table")
    commands.add_count(parser, "--columns", 20, "its columns")
    commands.add_count(parser, "--rounds", 16, "trees; the rule of auto says how many in the end")
    commands.add_count(parser, "--memory-mb", 4096, "the bound on memory")
    commands.add_count(parser, "--threads", 2, "blocks that are worked on at once")
    parser.add_argument("--folder", default="build/scaling", help="where the table is written")
    parser.add_argument("--keep", action="store_true", help="keep the folder, and use it if it is")
    parser.add_argument("--checkpoint", help="the folder of a checkpoint, to go on after a kill")
    words = "also learn in memory, and compare; for at most 16.8 million rows"
    parser.add_argument("--compare", action="store_true", help=words)
    commands.add_json(parser, "print one JSON object")


def made_up(rows: int, columns: int) -> Iterator:
    """Blocks of rows; block b is a function of b."""
    from dpbt.data.conversion import BLOCK_ROWS, Block

    for first in range(0, rows, BLOCK_ROWS):
        rng = np.random.default_rng(first)
        count = min(BLOCK_ROWS, rows - first)
        cells = {f"x{k}": rng.random(count, dtype=np.float32) for k in range(columns)}
        noise = rng.normal(0, 0.2, count)
        yield Block(cells, cells["x0"] + cells["x1" if columns > 1 else "x0"] + noise > 1)


def run(options: argparse.Namespace) -> None:
    """Convert, learn, and print what it took."""
    import jax

    from dpbt import chunked, recipes
    from dpbt.data import chunks, conversion
    from dpbt.data.domains import Numeric

    folder, found = Path(options.folder), {"rows": options.rows, "columns": options.columns}
    domain = {f"x{k}": Numeric(0, 1, bins=64) for k in range(options.columns)}

    # Conversion, once.
    source = conversion.BlockSource(
        f"made up, {options.rows} x {options.columns}",
        lambda: made_up(options.rows, options.columns),
    )
    fresh = not (folder / chunks.MANIFEST).exists()
    before = time.perf_counter()
    table = conversion.convert(source, domain, folder, capacity=options.rows)
    if fresh:
        found["conversion s"] = time.perf_counter() - before
    found["folder bytes"] = sum(path.stat().st_size for path in folder.iterdir())

    # A plain read of all chunks.
    before = time.perf_counter()
    for number in range(len(table.chunks)):
        with open(table.path(number), "rb", buffering=0) as file:
            while file.read(2**24):
                pass
    found["plain read s"] = time.perf_counter() - before

    # Learning. Stages begin and end with a report.
    recipe = recipes.auto(epsilon=1, delta=1e-6, rows=options.rows, domain=domain)
    found["rounds of auto"] = int(recipe.rounds)
    small = recipes.oblivious_boost(
        epsilon=1,
        delta=1e-6,
        rows=options.rows,
        domain=domain,
        rounds=options.rounds,
        mixes=(2, 3, 4),
        marginals_share=0.1,
        scores_share=0.03,
    )
    times: list[tuple[str, int, float]] = []

    def progress(state: chunked.Progress) -> None:
        times.append((state.stage, state.done, time.perf_counter()))
        if sys.stderr.isatty() or options.checkpoint:
            print(f"{state.stage} {state.done}/{state.all}", file=sys.stderr, flush=True)

    start = time.perf_counter()
    model = chunked.learn(
        timing.known_key(),
        table,
        small,
        memory=options.memory_mb * 2**20,
        threads=options.threads,
        checkpoint=options.checkpoint,
        progress=progress,
    )
    jax.block_until_ready(model.hypotheses)
    found["fit s"] = time.perf_counter() - start
    found |= _stages(times, options.rows)
    found["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found["largest sum"] = float(max(abs(np.asarray(s)).max() for s in model.releases.values()))

    if options.compare:
        found |= _in_memory(options, domain, small, model)
    if not options.keep:
        shutil.rmtree(folder)
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:24} {value:,.6g}" if isinstance(value, int | float) else f"{name} {value}")


def _stages(times: list[tuple[str, int, float]], rows: int) -> dict[str, float]:
    """Seconds of the stages; of rounds the median, which leaves out the one that compiles."""
    found = {}
    for stage in ("checking", "prologue", "replaying", "epilogue"):
        at = [when for name, _, when in times if name == stage]
        if len(at) > 1:
            found[f"{stage} s"] = at[-1] - at[0]
    rounds = np.diff([when for name, _, when in times if name == "rounds"])
    if len(rounds):
        found["a round s"] = float(np.median(rounds))
        found["a round ns/row"] = found["a round s"] / rows * 1e9
    return found


def _in_memory(options: argparse.Namespace, domain: dict, recipe, model) -> dict[str, object]:
    """The same fit in memory: its time, and whether the releases are the same."""
    import jax

    import dpbt
    from dpbt import boosting

    blocks = list(made_up(options.rows, options.columns))
    columns = {name: np.concatenate([block.columns[name] for block in blocks]) for name in domain}
    labels = np.concatenate([block.labels for block in blocks])
    table = dpbt.table(domain, columns, labels)
    key, found = timing.known_key(), {}
    for words in ("in memory, first s", "in memory, again s"):
        before = time.perf_counter()
        again = boosting.learn(key, table, recipe)
        jax.block_until_ready(again.hypotheses)
        found[words] = time.perf_counter() - before
    pairs = zip(
        jax.tree.leaves((again.transcript, again.hypotheses, again.intercept)),
        jax.tree.leaves((model.transcript, model.hypotheses, model.intercept)),
        strict=True,
    )
    same = all(np.array_equal(np.asarray(one), np.asarray(other)) for one, other in pairs)
    found["in memory ns/row/round"] = (
        found["in memory, again s"] / options.rows / options.rounds * 1e9
    )
    return {**found, "same releases and model": same}
