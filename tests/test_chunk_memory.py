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
recipe = recipes.oblivious_boost(
    epsilon=1.0, delta=1e-6, rows=int(sys.argv[3]), domain=table.domain, rounds=20, depth=6
)
dpbt.fit_chunks(dpbt.fresh_key(), table, recipe, memory=float(sys.argv[2]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
def test_a_run_stays_within_its_memory(tmp_path):
    """700 MB and a block for each thread, whatever the number of rows."""
    rng = np.random.default_rng(0)
    domain = {f"x{k}": Numeric(0, 1, bins=64) for k in range(12)}
    columns = {name: rng.random(ROWS, np.float32) for name in domain}
    conversion.convert_columns(domain, columns, columns["x0"] > 0.5, tmp_path / "rows.chunks")
    told = [str(tmp_path / "rows.chunks"), str(MEMORY_MB * 2**20), str(ROWS)]
    words = [sys.executable, "-c", SCRIPT, *told]
    done = subprocess.run(
        words, capture_output=True, text=True, cwd=Path(__file__).parents[1], check=True
    )
    peak_mb = int(done.stdout) / 1024
    assert 100 < peak_mb < MEMORY_MB
