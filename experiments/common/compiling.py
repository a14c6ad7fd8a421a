"""What compiling costs a small sweep, in both ways that `sweeps` compiles."""

import contextlib
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any
from unittest import mock

import jax
import numpy as np
from jax.experimental.compilation_cache import compilation_cache

from dpbt import recipes
from dpbt.common.types import Recipe, Table
from dpbt.sweeps import plan, runner
from experiments.common import tables

AXES = {
    "rounds": (2, 5, 10, 20),
    "epsilon": (0.01, 0.1, 1.0, 10.0, 25.0),
    "beta_tree": (0.1, 0.5, 0.9),
}
"""The settings of a program of Nock & Henecka's grid with one alpha and one M."""

FOLDS = 10
WAYS = {"quickly": float("inf"), "in full": 0.0}
"""Way -> `runner.QUICK_BYTES`, under which every program is compiled so."""


def _recipe(**axes: Any) -> Recipe:
    return recipes.bdpe(alpha=1.0, **axes)


@contextlib.contextmanager
def _without_cache() -> Iterator[None]:
    """A scope in which no compiled program is read or kept."""
    name = "jax_enable_compilation_cache"
    before = getattr(jax.config, name)
    try:
        jax.config.update(name, False)
        compilation_cache.reset_cache()
        yield
    finally:
        jax.config.update(name, before)
        compilation_cache.reset_cache()


def _task(table: Table) -> plan.Task:
    """Ten folds of the rows, by their places."""
    rows = table.target.shape[0]
    test = np.arange(rows)[None] % FOLDS == np.arange(FOLDS)[:, None]
    return plan.Task("rows", table, ~test, test, {"rows": rows})


def measure(named: Iterable[tuple[str, Table]], depth: int) -> list[dict]:
    """A line for each table and way; seconds are of the processor's time.

    No program is read from a cache or written to one.

    Args:
        named: (name, table).
        depth: D.
    """
    sweep = plan.Sweep("compiling", _recipe, ({**AXES, "depth": (depth,)},))
    lines = []
    for name, table in named:
        for way, most in WAYS.items():
            with (
                tempfile.TemporaryDirectory() as folder,
                mock.patch.object(runner, "QUICK_BYTES", most),
                _without_cache(),
            ):
                start = time.process_time()
                report = runner.run(sweep, _task(table), folder, about={})
                whole = time.process_time() - start
            about = {"name": name, "way": way, "depth": depth, "processor_seconds": whole}
            lines.append({**about, **report._asdict()})
    return lines


COLUMNS = {
    "sweep": "{name}, D = {depth}",
    "fits": "{fits}",
    "compiled": "{way}",
    "compiling, s": "{compile_seconds:.2f}",
    "fitting, s": "{run_seconds:.2f}",
    "processor's time, s": "{processor_seconds:.2f}",
}


def as_text(lines: list[dict]) -> str:
    """The lines as a table."""
    return f"{tables.formatted(lines, COLUMNS)}\nTracing is part of compiling.\n"
