"""The memory that a run on chunks and predictions take, measured in processes of their own."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.data import convert
from dpbt.data.domains import Numeric

ROWS = 3_000_000
MEMORY_MB = 900
SCRIPT = """
import sys
import dpbt
from dpbt import recipes

table = dpbt.blocks.open_folder(sys.argv[1])
recipe = recipes.oblivious_boost(
    epsilon=1.0, delta=1e-6, rows=3_000_000, domain=table.domain, rounds=20, depth=6
)
dpbt.fit(dpbt.fresh_key(), table, recipe, memory=float(sys.argv[2]))
"""

PREDICT = """
import sys
from dpbt.__main__ import main

assert main(["predict", *sys.argv[1:]]) == 0
"""

PEAK = """
print(*(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
ROOT = Path(__file__).parents[1]


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status"),
]


def told(script, *words):
    """The peak of the memory of a script in a process of its own, in MB."""
    command = [sys.executable, "-c", script + PEAK, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    return int(done.stdout.splitlines()[-1]) / 1024


def test_a_run_stays_within_its_memory(tmp_path):
    """700 MB, scores and a block for each thread, whatever the number of rows."""
    rng, folder = np.random.default_rng(0), tmp_path / "rows.chunks"
    domain = {f"x{k}": Numeric(0, 1, bins=64) for k in range(12)}
    columns = {name: rng.random(ROWS, np.float32) for name in domain}
    convert.convert_columns(domain, columns, columns["x0"] > 0.5, folder)
    assert 100 < told(SCRIPT, folder, MEMORY_MB * 2**20) < MEMORY_MB


def test_predictions_take_the_memory_of_a_block(tmp_path):
    """300,000 rows of six columns would take more than 100 MB as bins of text."""
    domain = {f"x{k}": Numeric(0, 1, bins=8) for k in range(6)}
    rows = np.random.default_rng(0).random((500, 6))
    columns = {name: rows[:, k] for k, name in enumerate(domain)}
    recipe = recipes.random_forest(epsilon=1, rows=500, rounds=1, depth=1)
    table = dpbt.table(domain, columns, rows[:, 0] > 0.5)
    model = dpbt.fit(dpbt.fresh_key(), table, recipe, dpbt.fresh_key())
    dpbt.save(model, tmp_path / "model.json", domain=domain)
    lines = "\n".join(",".join(f"{bin:.4f}" for bin in row) for row in rows) + "\n"
    with open(tmp_path / "rows.csv", "w") as file:
        file.write(",".join(domain) + "\n")
        for _ in range(600):
            file.write(lines)
    files = tmp_path / "model.json", tmp_path / "rows.csv"
    assert told(PREDICT, *files, "--out", tmp_path / "predictions.csv") < 150
