"""Programs that tests run in other processes: a sweep, and fits of several processes.

`python -m tests.support.worker_process sweep FOLDER`, or
`blocks PROCESS COUNT PORT FOLDER SECONDS NAME`, with the name of one of `RECIPE_MAKERS`.
"""

import hashlib
import importlib
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from dpbt import recipes, sweeps
from dpbt.data import blocks
from dpbt.data.domains import Numeric
from dpbt.training import fit as training_fit
from dpbt.training.blocks import processes
from experiments.common import protocols
from experiments.common.cache import use_compilation_cache
from tests.support.example_tables import random_table


def make_recipe(rows, rounds, depth, epsilon):
    return recipes.bdpe(rows=rows, rounds=rounds, depth=depth, epsilon=epsilon, alpha=1.0)


SWEEP = sweeps.Sweep(
    "tiny",
    make_recipe,
    ({"rounds": (1, 2, 3), "depth": (1,), "epsilon": (0.5, 1.0, 4.0)},),
    repeats=2,
    seed=3,
)


def sweep_tasks():
    tasks = []
    for seed, (rows, splits) in enumerate(((60, 5), (48, 4), (33, 5))):
        table = random_table(seed, rows, splits)
        split = protocols.cross_validation(np.asarray(table.target), 3, [0])
        tasks.append(
            sweeps.Task(
                f"t{seed}", table, train=split.train, test=split.test, arguments={"rows": rows}
            )
        )
    return tasks


def run_sweep(folder, **options):
    return sweeps.run(
        SWEEP, sweep_tasks(), Path(folder), memory_mb=0.02, about={"test": "worker"}, **options
    )


class RandomRows(NamedTuple):
    """Rows of a domain: columns by name, and Boolean labels."""

    domain: dict[str, Numeric]
    columns: dict[str, np.ndarray]
    labels: np.ndarray


class DividedRows(NamedTuple):
    """Rows of a domain, and the slice of them that each process reads."""

    slices: list[slice]
    domain: dict[str, Numeric]
    columns: dict[str, np.ndarray]
    labels: np.ndarray


def rows_of_processes(count):
    """A table of 1,200 rows, divided among processes."""
    ends = np.linspace(0, 1200, count + 1).astype(int)
    slices = [slice(start, end) for start, end in itertools.pairwise(ends)]
    return DividedRows(slices, *random_rows(5, 1200))


def random_rows(seed, rows):
    """Random rows of three columns, of which the first one mostly decides the label."""
    rng = np.random.default_rng(seed)
    domain = {name: Numeric(0, 1, bins=9) for name in "abc"}
    columns = {name: rng.random(rows) for name in domain}
    labels = columns["a"] + 0.3 * rng.standard_normal(rows) > 0.5
    return RandomRows(domain, columns, labels)


def oblivious_recipe(domain):
    return recipes.oblivious_boost(
        epsilon=3.0, delta=1e-6, rows=1200, domain=domain, rounds=12, marginals_fraction=0.1
    )


def forest_recipe(domain):
    del domain
    return recipes.random_forest(epsilon=3.0, rows=1200, depth=4, rounds=3, disjoint=True)


RECIPE_MAKERS = {"oblivious": oblivious_recipe, "forest": forest_recipe}
"""Makers of the recipes that processes learn together, by name."""


def fit_and_digest(folder, process, seconds, name):
    """A digest of what a process learns from its folder of blocks, waiting after every round."""
    table = blocks.open_folder(folder / f"share{process}")
    model = training_fit.fit_without_key_warning(
        key=processes.shared_key(jax.random.key(4 + process)),
        table=table,
        recipe=RECIPE_MAKERS[name](table.domain),
        public_key=processes.shared_key(jax.random.key(14 + process)),
        options=training_fit.FitOptions(
            checkpoint=folder / f"checkpoint{process}",
            progress=lambda state: time.sleep(seconds),
        ),
    )
    return {"model": digest_of_model(model), "processes": jax.process_count()}


def digest_of_model(model):
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves((model.transcript, model.hypotheses, model.intercept)):
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()


def main(mode, *rest):
    use_compilation_cache(min_seconds=0.2)
    if mode == "sweep":
        print(json.dumps(run_sweep(rest[0])._asdict()))
    elif mode == "blocks":
        process, count, port, folder, seconds, name = rest
        address = f"localhost:{port}", int(count), int(process)
        jax.distributed.initialize(*address, heartbeat_timeout_seconds=10)
        print(
            json.dumps(
                fit_and_digest(
                    Path(folder), process=int(process), seconds=float(seconds), name=name
                )
            )
        )
    else:
        raise ValueError(mode)


def digests_of_files(folder):
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.is_file()
    }


def start_worker(*arguments):
    command = [sys.executable, "-m", "tests.support.worker_process", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result_of_worker(process):
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return json.loads(out.splitlines()[-1])


if __name__ == "__main__":
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    # Imported again, so that functions have their module's name.
    importlib.import_module("tests.support.worker_process").main(*sys.argv[1:])
