"""The memory that a run on chunks takes, measured in a process of its own."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpbt.data import conversion
from dpbt.data.domains import Numeric

ROWS = 3_000_000
MEMORY_MB = 900
SCRIPT = """
import resource, sys
import dpbt
from dpbt import recipes

table = dpbt.chunks.open_folder(sys.argv[1])
rows, rounds = int(sys.argv[3]), int(sys.argv[4])
recipe = recipes.oblivious_boost(
    epsilon=1.0, delta=1e-6, rows=rows, domain=table.domain, rounds=rounds, depth=6
)

def progress(state):
    if state.stage == "rounds" and state.done in (rounds // 4, rounds):
        with open("/proc/self/status") as file:
            print(next(line.split()[1] for line in file if line.startswith("VmRSS")))

memory = float(sys.argv[2])
dpbt.fit_chunks(dpbt.fresh_key(), table, recipe, memory=memory, progress=progress)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="/proc and the units of ru_maxrss"),
]


def measured(folder, rows, rounds):
    """MB after a quarter of the rounds, after all rounds, and at most."""
    rng = np.random.default_rng(0)
    domain = {f"x{k}": Numeric(0, 1, bins=64) for k in range(12)}
    columns = {name: rng.random(rows, np.float32) for name in domain}
    conversion.convert_columns(domain, columns, columns["x0"] > 0.5, folder)
    told = [str(folder), str(MEMORY_MB * 2**20), str(rows), str(rounds)]
    words = [sys.executable, "-c", SCRIPT, *told]
    done = subprocess.run(
        words, capture_output=True, text=True, cwd=Path(__file__).parents[1], check=True
    )
    return [int(line) / 1024 for line in done.stdout.split()]


def test_a_run_stays_within_its_memory(tmp_path):
    """700 MB and a block for each thread, whatever the number of rows."""
    *_, peak = measured(tmp_path / "rows.chunks", ROWS, rounds=20)
    assert 100 < peak < MEMORY_MB


def test_memory_does_not_grow_with_the_rounds(tmp_path):
    """Each round keeps its release and its tree, and no program."""
    early, late, _ = measured(tmp_path / "rows.chunks", 2000, rounds=200)
    assert late - early < 30
