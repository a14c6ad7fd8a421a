"""Strict promotion, a persistent compilation cache, and tables to test on."""

import contextlib
import functools
import gc
import itertools
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from hypothesis import settings

from tests import shapes

shapes.watch()  # before the library is imported

import dpbt
from dpbt.sweeps import batches
from dpbt.training.fit import Boosted
from dpbt.types import Transcript
from experiments.common import data
from experiments.common.cache import use_compilation_cache
from tests.tables import random_table

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
use_compilation_cache()
with contextlib.suppress(ImportError, AttributeError):
    # JAX makes one for every program that it lowers, which takes 4 ms and holds 2 MB.
    from jax._src.interpreters import mlir

    mlir.make_ir_context = functools.cache(mlir.make_ir_context)

settings.register_profile("dpbt", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("dpbt")


gc.set_threshold(200_000, 20, 50)  # tracing makes many objects, and few of them are garbage

_MAX_MAPS = 45_000
"""Programs take memory maps, of which a Linux process has 65,530: one that compiles beyond them is
aborted.
"""
_finished = itertools.count(1)


@pytest.fixture(autouse=True)
def forget_programs():
    """Now and then, after a test, drop compiled programs before they are too many; the disk cache
    still has them.
    """
    yield
    maps = Path("/proc/self/maps")
    if next(_finished) % 10 == 0 and maps.exists() and maps.read_bytes().count(b"\n") > _MAX_MAPS:
        jax.clear_caches()


COMPILED_SOON = {
    "tests.test_contract",
    "tests.test_leaks",
    "tests.test_odd",
    "tests.redteam.test_bounds",
    "tests.redteam.test_criteria",
    "tests.redteam.test_files",
    "tests.redteam.test_keys",
    "tests.redteam.test_ledgers",
    "tests.redteam.test_reachability",
}
"""Modules whose programs are not optimized, which compiles in half the time.

They ask what is released, and by what law. Modules that ask about the last bit of a number, whether
two programs agree on it or how fast one is are not among them.
"""


@pytest.fixture(autouse=True, scope="module")
def compiled_soon(request):
    """Do not optimize the programs of `COMPILED_SOON`, and leave none of them to other modules."""
    if request.module.__name__ not in COMPILED_SOON:
        yield
        return
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
    jax.clear_caches()


@pytest.fixture(scope="session")
def small_table() -> dpbt.Table:
    return random_table(0, rows=80, splits=7, absent=3)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets, or a skip that says so."""
    folder = os.environ.get("DPBT_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("DPBT_DATA names no folder of data sets; the test on real data is skipped")
    return Path(folder)


@pytest.fixture(scope="session")
def banknote(data_folder) -> dpbt.Table:
    """The banknote data under declared bounds, ten bins a column: 1,372 rows and 36 splits."""
    return data.load("banknote", folder=data_folder).table


@pytest.fixture
def idle(monkeypatch):
    """Fits that learn nothing, where only their batches count."""

    def boost(key, table, recipe, public_key=None):
        score = jax.random.normal(key, table.target.shape) * jnp.float32(recipe.rounds)
        return Boosted(Transcript({}, {}, {}), (jnp.zeros((recipe.capacity, 2)),), score)

    monkeypatch.setattr(batches, "boost", boost)
    monkeypatch.setattr(batches, "estimate_lane_bytes", lambda table, recipe: 2500)


SLOW = set(Path(__file__).with_name("slow.txt").read_text().splitlines())
"""Slow tests of which a like one, of another relation, noise or learner, is in the fast suite."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the tests of `SLOW`, one variant of a parametrized test at a time.

    Raises:
        pytest.UsageError: for a name with the address of an object. It differs between the workers
            of one run, and then none of them runs a test.
    """
    for item in items:
        if "at0x" in item.nodeid.replace(" ", ""):
            raise pytest.UsageError(f"the name of a test has an address: {item.nodeid}")
        if item.nodeid.removeprefix("tests/") in SLOW:
            item.add_marker(pytest.mark.slow)
