"""Measure learning from a table in blocks: conversion, a round, and memory.

The rows are made up: uniform numbers, and a label that two of them mostly give. `--rows 100000000`
needs 2.3 GB of disk for 20 columns.
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

from dpbt.training import fit as training_fit
from experiments.common import commands, timing


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    commands.add_count(parser, "--rows", 2_000_000, "rows of the table")
    commands.add_count(parser, "--columns", 20, "its columns")
    commands.add_count(parser, "--rounds", 16, "trees")
    commands.add_count(parser, "--memory-mb", 4096, "the bound on memory")
    commands.add_count(parser, "--threads", 2, "blocks that are worked on at once")
    parser.add_argument("--folder", default="build/scaling", help="where the table is written")
    commands.add_shared(parser, json="print one JSON object")


def made_up(rows: int, columns: int) -> Iterator:
    """Blocks of rows; block b is a function of b."""
    from dpbt.data.convert import READ_ROWS, RawRows

    for first in range(0, rows, READ_ROWS):
        rng = np.random.default_rng(first)
        count = min(READ_ROWS, rows - first)
        cells = {f"x{k}": rng.random(count, dtype=np.float32) for k in range(columns)}
        noise = rng.normal(0, 0.2, count)
        yield RawRows(cells, cells["x0"] + cells["x1" if columns > 1 else "x0"] + noise > 1)


def run(options: argparse.Namespace) -> None:
    """Convert, learn, and print what it took."""
    import jax

    from dpbt import recipes
    from dpbt.data import blocks, convert
    from dpbt.data.domains import Numeric
    from dpbt.training import blocks as in_blocks

    rows, folder = options.rows, Path(options.folder)
    found: dict[str, float] = {"rows": rows, "columns": options.columns}
    domain = {f"x{k}": Numeric(0, 1, bins=64) for k in range(options.columns)}
    if (folder / blocks.MANIFEST).exists():
        table = blocks.open_folder(folder)
    else:
        start = time.perf_counter()
        table = convert.convert(made_up(rows, options.columns), domain, folder, capacity=rows)
        found["conversion s"] = time.perf_counter() - start
    found["folder bytes"] = sum(path.stat().st_size for path in folder.iterdir())

    # Stages begin and end with a report.
    given = {"epsilon": 1, "delta": 1e-6, "rows": rows, "domain": domain}
    given |= {"rounds": options.rounds, "attributes_per_tree": (2, 3, 4)}
    recipe = recipes.oblivious_boost(**given, marginals_fraction=0.1, scores_fraction=0.03)
    times: list[tuple[str, float]] = []

    def progress(state: in_blocks.Progress) -> None:
        times.append((state.stage, time.perf_counter()))
        if sys.stderr.isatty():
            print(f"{state.stage} {state.done}/{state.all}", file=sys.stderr, flush=True)

    bound = {"memory": options.memory_mb * 2**20, "threads": options.threads}
    start = time.perf_counter()
    model = training_fit.learn(timing.known_key(), table, recipe, **bound, progress=progress)
    jax.block_until_ready(model.hypotheses)
    found["fit s"] = time.perf_counter() - start
    found |= _stages(times, rows)
    found["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    shutil.rmtree(folder)
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:24} {value:,.6g}")


def _stages(times: list[tuple[str, float]], rows: int) -> dict[str, float]:
    """Seconds of the stages; of rounds the median, which leaves out the one that compiles."""
    found = {}
    for stage in ("checking", "prologue", "epilogue"):
        at = [when for name, when in times if name == stage]
        if len(at) > 1:
            found[f"{stage} s"] = at[-1] - at[0]
    rounds = np.diff([when for name, when in times if name == "rounds"])
    if len(rounds):
        found["a round s"] = float(np.median(rounds))
        found["a round ns/row"] = found["a round s"] / rows * 1e9
    return found
