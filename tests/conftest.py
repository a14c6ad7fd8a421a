"""The settings of JAX, pytest and hypothesis under which all tests run, and fixtures of many tests.

JAX promotes neither dtypes nor ranks by itself, and keeps compiled programs on disk. Every function
of the library is compared with the shapes that its signature states.
"""

import gc
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import settings

from tests.support import array_types

array_types.check_modules_imported_later()  # before the library is imported

import dpbt
from dpbt.sweeps import batches
from dpbt.training.boost import Boosted
from dpbt.types import Transcript
from experiments.common import data
from experiments.common.cache import use_compilation_cache
from tests.support import block_commands
from tests.support.example_tables import random_table

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
use_compilation_cache()

settings.register_profile("dpbt", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("dpbt")

gc.set_threshold(200_000, 20, 50)  # tracing makes many objects, and few of them are garbage


def pytest_collection_finish() -> None:
    """Take what the tests import out of the searches for garbage, which then take less time."""
    gc.collect()
    gc.freeze()


MAX_MEMORY_MAPS = 45_000
"""Compiled programs take memory maps, of which a Linux process has 65,530. The system aborts a
process that compiles beyond them.
"""
_num_finished_tests = itertools.count(1)


@pytest.fixture(autouse=True)
def drop_programs_when_memory_maps_run_short() -> Iterator[None]:
    """Every tenth test, drop compiled programs if they take more than `MAX_MEMORY_MAPS`.

    The cache on disk still has them.
    """
    yield
    if next(_num_finished_tests) % 10 == 0 and _count_memory_maps() > MAX_MEMORY_MAPS:
        jax.clear_caches()


def _count_memory_maps() -> int:
    """The memory maps of this process; 0 where the system does not say."""
    maps = Path("/proc/self/maps")
    return maps.read_bytes().count(b"\n") if maps.exists() else 0


@pytest.fixture(autouse=True, scope="module")
def compile_unoptimized_where_marked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compile the programs of a module that is marked `unoptimized` without most optimizations.

    Such a module asks what is released and by what law, and its programs compile in half the time.
    A module that asks about the last bit of a number, whether two programs agree on it or how fast
    one is must not be marked. `make test` compiles no program with all optimizations, and then
    nothing is left to do here.
    """
    marked = request.node.get_closest_marker("unoptimized") is not None
    if not marked or jax.config.read("jax_disable_most_optimizations"):
        yield
        return
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
    jax.clear_caches()  # no other module runs these programs


@pytest.fixture(scope="session")
def small_table() -> dpbt.Table:
    """A random table of 80 rows, three of them absent, and 7 splits."""
    return random_table(0, rows=80, splits=7, absent=3)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets that DPBT_DATA names; without one, the test is skipped."""
    folder = os.environ.get("DPBT_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("DPBT_DATA names no folder of data sets; the test on real data is skipped")
    return Path(folder)


@pytest.fixture(scope="session")
def banknote(data_folder: Path) -> dpbt.Table:
    """The banknote data under declared bounds, ten bins a column: 1,372 rows and 36 splits."""
    return data.load("banknote", folder=data_folder).table


@pytest.fixture
def rows_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the rows and the domain of `block_commands`."""
    monkeypatch.chdir(tmp_path)
    block_commands.write_rows_and_domain(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def forest_model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a forest that `fit` learned from the rows of `block_commands`."""
    folder = tmp_path_factory.mktemp("model")
    block_commands.write_rows_and_domain(folder)
    words = *block_commands.FIT_OPTIONS, *block_commands.FOREST_OPTIONS
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert block_commands.run_command("fit", "rows.csv", *words, "--out", "model.json") == 0
    return folder / "model.json"


@pytest.fixture(scope="session")
def labelled_rows() -> tuple[np.ndarray, np.ndarray]:
    """(X, y): 50 rows of two columns in [0, 1], whose class the first column decides."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (50, 2))
    return X, (X[:, 0] > 0.5).astype(int)


@pytest.fixture
def sweeps_without_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the fits of a sweep learn nothing, for tests that ask about its batches and files."""

    def boost_without_training(key, table, recipe, public_key=None):
        score = jax.random.normal(key, table.target.shape) * jnp.float32(recipe.rounds)
        return Boosted(Transcript({}, {}, {}), (jnp.zeros((recipe.max_rounds, 2)),), score)

    monkeypatch.setattr(batches, "boost", boost_without_training)
    monkeypatch.setattr(batches, "estimate_lane_bytes", lambda table, recipe: 2500)
