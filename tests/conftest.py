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

import dpbt
from dpbt.common.types import Transcript
from dpbt.sweeps import runner
from dpbt.training.fit import Boosted
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

    monkeypatch.setattr(runner, "boost", boost)
    monkeypatch.setattr(runner, "lane_bytes", lambda table, recipe: 2500)


SLOW = {
    "test_boosting.py::test_rounds_are_traced_and_capacity_changes_nothing",
    "test_boosting.py::test_same_splits_as_a_plain_loop_under_the_same_noise[tight-objective]",
    "test_boosting.py::test_splits_that_are_not_allowed_are_never_chosen",
    "test_boosting.py::test_weights_and_leverage_are_algorithm_1",
    "test_contract.py::test_samplers_follow_log_prob_and_two_thirds_of_the_noise_is_rejected[lazybb-rule]",
    "test_forests.py::test_leaves_are_those_of_a_loop_under_the_same_noise[disjoint-inf]",
    "test_forests.py::test_same_trees_as_boosting_under_the_same_key_whatever_the_batch[disjoint]",
    "test_forests.py::test_same_trees_as_boosting_under_the_same_key_whatever_the_batch[rf_e]",
    "test_leaving.py::test_no_array_of_a_model_is_as_long_as_the_table[disjoint]",
    "test_oblivious.py::test_no_neighbour_moves_a_draw_beyond_its_sensitivity[noise0-REPLACE_ONE]",
    "test_oblivious.py::test_no_neighbour_moves_a_draw_beyond_its_sensitivity[noise1-ADD_OR_REMOVE_ONE]",
    "test_odd.py::test_estimators_read_odd_cells_as_missing[PrivateBoostingRegressor-frame]",
    "test_odd.py::test_estimators_read_odd_cells_as_missing[PrivateForestClassifier-frame]",
    "test_once.py::test_a_site_of_the_prologue_may_be_withheld",
    "test_once.py::test_an_audit_finds_a_prologue_that_is_priced_for_less_than_a_row",
    "test_precision.py::test_public_things_are_the_same_under_the_flag[auto]",
    "test_refusals.py::test_rows_to_predict_are_not_shown_either",
    "test_responses.py::test_a_table_of_another_declared_target_is_refused_before_a_fit",
    "test_responses.py::test_exact_losses_are_within_the_ledger[number-add_remove-drawn1]",
    "test_responses.py::test_without_noise_the_sums_are_those_of_plain_loops[classes]",
    "test_sklearn_targets.py::test_numbers_are_learned_as_the_library_learns_them",
    "test_sweeps.py::test_programs_are_traced_once_and_given_back",
    "test_trees.py::test_rows_by_bins_go_where_their_splits_say[6]",
    "test_trees.py::test_sums_by_bin_are_the_products[1]",
    "redteam/test_reachability.py::test_sixty_fits_name_no_neighbour[bdpe, delta]",
}
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
