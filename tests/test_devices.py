"""A run on several devices is bit for bit the run on one, whatever is divided among them."""

import os
import subprocess
import sys

import pytest

from tests.support import ROOT

FAMILIES = {
    "greedy trees": ["bdpe-tight-objective", "bdpe-tight-zcdp", "bdpe-published-alpha"],
    "oblivious trees": ["oblivious-gdp", "oblivious-scores", "auto"],
    "curves": ["additive", "additive-pairs-gdp", "additive of three classes"],
    "forests": ["forest-tight", "forest-disjoint", "rf-e-tight"],
    "lazy Bregman updates": ["lazybb-rule", "lazybb-tree"],
    "halfspaces": ["halfspace", "halfspace-published"],
    "several programs": ["auto of two programs"],
}


@pytest.mark.slow
@pytest.mark.parametrize("devices", [2, 8])
@pytest.mark.parametrize("family", FAMILIES)
def test_runs_on_several_devices_are_the_runs_on_one(family, devices):
    command = [sys.executable, "-m", "tests.support.device_runs", str(devices), *FAMILIES[family]]
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    ran = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    *failed, last = ran.stdout.splitlines()
    assert not failed
    assert int(last.removeprefix("compared ")) > 0
