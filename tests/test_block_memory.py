"""The memory that a run on blocks takes, measured in a process of its own."""

import subprocess
import sys

import numpy as np
import pytest

from dpbt.data import convert
from dpbt.data.domains import Numeric
from tests.support import ROOT

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

PEAK = """
print(*(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status"),
]


def test_a_run_stays_within_its_memory(tmp_path):
    """A run takes 700 MB, its scores and a block for each thread, for any number of rows."""
    rng, folder = np.random.default_rng(0), tmp_path / "rows.chunks"
    domain = {f"x{k}": Numeric(0, 1, bins=64) for k in range(12)}
    columns = {name: rng.random(ROWS, np.float32) for name in domain}
    convert.convert_columns(domain, columns, columns["x0"] > 0.5, folder)
    command = [sys.executable, "-c", SCRIPT + PEAK, str(folder), str(MEMORY_MB * 2**20)]
    completed = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert 100 < int(completed.stdout.splitlines()[-1]) / 1024 < MEMORY_MB
