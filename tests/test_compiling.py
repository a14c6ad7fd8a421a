"""Programs are compiled for few shapes, and no result depends on those shapes."""

import collections
import contextlib
import dataclasses
import gc
import subprocess
import sys

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.common import compilation
from dpbt.data import tables
from dpbt.data.column_types import Numeric
from dpbt.data.splits import table_of_splits
from dpbt.models import scoring as prediction
from dpbt.privacy import mechanisms
from dpbt.privacy.draw_dependencies import draw_specs_of_phase
from dpbt.training import boost as training_boost
from dpbt.training import fit as training_fit
from dpbt.training.staged_run import run_in_three_programs
from dpbt.types import MAX_ROWS
from tests.support.contract_rows import ROWS
from tests.support.whole_recipes import recipe_and_table

# Shapes.


def random_table_of_bits(rows, splits=4, seed=0):
    rng = np.random.default_rng(seed)
    is_present = np.ones(rows, bool)
    return table_of_splits(rng.random((rows, splits)) < 0.5, rng.random(rows) < 0.4, is_present)


def test_buckets_are_few_and_waste_at_most_a_quarter():
    counts = np.arange(1, 10_000)
    sizes = np.array([tables.round_up_to_bucket(int(count)) for count in counts])
    assert np.all((sizes >= counts) & (sizes <= 1.25 * counts))
    assert len(set(sizes.tolist())) <= 4 * 12 + 8
    max_padded_rows = tables.MAX_PADDED_ROWS
    assert tables.padded_num_rows(1) == tables.MIN_ROWS
    assert tables.padded_num_rows(max_padded_rows) == max_padded_rows
    assert tables.padded_num_rows(max_padded_rows - 1) == max_padded_rows
    assert all(tables.padded_num_rows(rows) == rows for rows in (max_padded_rows + 1, MAX_ROWS - 1))


def greedy_recipe(rows, rounds):
    return recipes.bdpe(epsilon=2.0, rows=rows, rounds=rounds, depth=1)


def test_tables_and_batches_of_one_bucket_share_the_programs_of_fits_and_predictions():
    key = jax.random.key(0)
    model = dpbt.fit(key, random_table_of_bits(90), greedy_recipe(90, 10))
    before = training_fit.num_compiled_programs()
    for rows, rounds in ((81, 9), (96, 9), (90, 3), (90, 100)):
        other_model = dpbt.fit(key, random_table_of_bits(rows), greedy_recipe(rows, rounds))
        assert other_model.hypotheses.leaf.shape[0] == rounds
    assert training_fit.num_compiled_programs() == before

    batch = np.asarray(random_table_of_bits(128).bins)
    scores_of_batch = np.asarray(dpbt.decision_function(model, batch))
    before = prediction.compiled_predictor(prediction.scores_of_rows).num_compiled
    for count in (113, 120, 128):
        scores = dpbt.decision_function(model, batch[:count])
        np.testing.assert_array_equal(scores, scores_of_batch[:count])
    assert prediction.compiled_predictor(prediction.scores_of_rows).num_compiled == before


def test_programs_have_room_for_rounds_where_that_costs_nothing(monkeypatch):
    """`auto` sets the rounds from epsilon; one program serves many numbers of rounds."""
    max_rounds = training_fit._max_rounds_of_program
    assert {max_rounds(greedy_recipe(90, rounds)) for rounds in (1, 10, 100, 128)} == {128}
    assert max_rounds(greedy_recipe(90, 129)) == tables.round_up_to_bucket(129)
    forest = recipes.random_forest(epsilon=2.0, rows=90, rounds=9, depth=1)
    assert max_rounds(forest) == 10  # all of these run, side by side
    monkeypatch.setattr(training_fit, "_MAX_BYTES_OF_ROOM", 128 * 4 * 2)
    deep = recipes.bdpe(epsilon=2.0, rows=90, rounds=3, depth=3)
    assert max_rounds(deep) == 3  # since its releases have more bytes


def test_padding_leaves_a_table_that_fills_its_bucket_as_it_is():
    table = random_table_of_bits(96)
    assert tables.pad_rows_to_bucket(table) is table
    padded = tables.pad_rows_to_bucket(random_table_of_bits(95))
    assert padded.bins.shape[0] == 96
    assert int(jnp.sum(padded.present)) == 95


# Programs that are kept.


@compilation.jit_with_bounded_cache(max_programs=2, static_argnames=("times",))
def multiply(array, times):
    return array * times


def test_the_programs_used_last_are_kept():
    multiply.clear()
    compiled_before, ones = multiply.num_compiled, [np.ones(n, np.float32) for n in range(4)]
    for n in (1, 2, 1, 3, 1):  # the third one takes the place of the one for two entries
        np.testing.assert_array_equal(multiply(ones[n], 3.0), 3 * ones[n])
    assert (len(multiply), multiply.num_compiled - compiled_before) == (2, 3)
    multiply(ones[2], times=3.0)
    multiply(ones[2], 4.0)
    assert (len(multiply), multiply.num_compiled - compiled_before) == (2, 5)
    multiply.clear()
    assert len(multiply) == 0


def test_a_new_program_is_traced_once_while_garbage_collection_pauses():
    traced = []

    @compilation.jit_with_bounded_cache()
    def doubled(array):
        traced.append(gc.isenabled())
        return 2 * array

    for _ in range(2):
        np.testing.assert_array_equal(doubled(np.ones(3, np.float32)), np.full(3, 2, np.float32))
    assert traced == [False]
    assert gc.isenabled()


def test_garbage_collection_stays_off_where_it_was_off():
    gc.disable()
    try:
        with compilation.paused_garbage_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_boost_outside_jit_compiles_once_and_agrees_with_boost_under_jit():
    key, table, recipe = jax.random.key(3), random_table_of_bits(60), greedy_recipe(60, 3)
    boosted = dpbt.boost(key, table, recipe)
    compiled_before = training_boost.num_compiled_programs()
    boosted_again = dpbt.boost(key, table, recipes.bdpe(epsilon=9.0, rows=60, rounds=3, depth=1))
    assert training_boost.num_compiled_programs() == compiled_before
    assert not np.array_equal(boosted_again.scores, boosted.scores)
    chex.assert_trees_all_equal(jax.jit(dpbt.boost)(key, table, recipe), boosted)


def check_three_programs_have_the_bits_of_one(recipe, table):
    """A fit, whose parts are compiled without optimizations, is the run of `boost`, bit for bit."""
    assert training_fit._choose_compiled_run(recipe) is run_in_three_programs
    keys = jax.random.key(3), jax.random.key(4)
    fitted = dpbt.fit(keys[0], table, recipe, keys[1])
    boosted = dpbt.boost(keys[0], table, recipe, keys[1])
    withheld = recipe.learner.withheld
    for phase in ("prologue", "rounds", "epilogue"):
        release = getattr(boosted.transcript, phase)
        expected = {site: release[site] for site in release if site not in withheld}
        chex.assert_trees_all_equal(getattr(fitted.transcript, phase), expected)
    chex.assert_trees_all_equal(fitted.hypotheses, boosted.hypotheses)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_fit_of_each_learner_in_three_programs_has_the_bits_of_one(row):
    recipe = row.recipe("add_remove", epsilon=8.0, rows=700, rounds=8, depth=3)
    if training_fit._choose_compiled_run(recipe) is not run_in_three_programs:
        pytest.skip("the fit is one program")
    table = row.table(seed=3, rows=700, splits=3, absent=5)
    check_three_programs_have_the_bits_of_one(recipe, table)


@pytest.mark.slow
@pytest.mark.parametrize("response", ["two classes", "three classes"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("make", [recipes.auto, recipes.additive], ids=lambda make: make.__name__)
def test_a_fit_of_a_whole_recipe_in_three_programs_has_the_bits_of_one(make, delta, response):
    check_three_programs_have_the_bits_of_one(*recipe_and_table(make, delta, response))


def test_programs_that_compile_soon_are_kept_on_disk_as_well():
    """Several threads may compile at once, and the last one restores the setting."""
    minimum = jax.config.jax_persistent_cache_min_compile_time_secs
    with compilation.short_programs_kept_on_disk():
        with compilation.short_programs_kept_on_disk():
            pass
        assert jax.config.jax_persistent_cache_min_compile_time_secs == minimum / 10
    assert jax.config.jax_persistent_cache_min_compile_time_secs == minimum


@contextlib.contextmanager
def compiled_programs():
    """A list that grows by an entry for each program that XLA compiles or reads from its cache."""
    programs = []

    def record_event(event, _, **__):
        if event == "/jax/core/compile/backend_compile_duration":
            programs.append(event)

    jax.monitoring.register_event_duration_secs_listener(record_event)
    try:
        yield programs
    finally:
        jax.monitoring.unregister_event_duration_listener(record_event)


def test_a_second_run_and_a_second_replay_compile_nothing():
    """Eager calls with other keys, rows and numbers also find their programs."""
    table, recipe = random_table_of_bits(60), greedy_recipe(60, 3)
    keys = jax.random.split(jax.random.key(3), 8)
    boosted = dpbt.boost(keys[0], table, recipe)
    dpbt.replay(boosted.transcript, table, recipe)
    other_table = random_table_of_bits(60, seed=1)
    other_recipe = recipes.bdpe(epsilon=9.0, rows=60, rounds=3, depth=1)
    key = jax.block_until_ready(keys[1])  # taking it compiles a program
    with compiled_programs() as programs:
        again = dpbt.boost(key, other_table, other_recipe)
        dpbt.replay(again.transcript, other_table, other_recipe)
    assert not programs
    with compiled_programs() as programs:
        dpbt.boost(key, random_table_of_bits(59), greedy_recipe(59, 3))
    assert programs  # the event has this name


@pytest.mark.slow
def test_lanes_and_derivatives_compile_once():
    table, recipe = random_table_of_bits(60), greedy_recipe(60, 3)
    keys_by_batch = [jax.random.split(jax.random.key(seed), 4) for seed in (3, 4)]

    def run(key):
        return dpbt.boost(key, table, recipe)

    def replay(transcript):
        return dpbt.replay(transcript, table, recipe).log_prob

    def total(params, transcript):
        log_prob = dpbt.replay(transcript, table, dataclasses.replace(recipe, params=params))
        return sum(map(jnp.sum, log_prob.log_prob.values()))

    transcript = run(keys_by_batch[0][0]).transcript
    jax.vmap(replay)(jax.vmap(run)(keys_by_batch[0]).transcript)
    jax.grad(total)(recipe.params, transcript)
    with compiled_programs() as programs:
        jax.vmap(replay)(jax.vmap(run)(keys_by_batch[1]).transcript)
        jax.grad(total)(recipe.params, transcript)
    assert not programs


def test_a_fit_waits_until_its_work_is_done(monkeypatch):
    """While arrays are still being computed, a Ctrl-C would interrupt a later call."""
    waited_for, wait = [], jax.block_until_ready
    monkeypatch.setattr(
        jax, "block_until_ready", lambda tree: waited_for.append(tree) or wait(tree)
    )
    model = dpbt.fit(jax.random.key(0), random_table_of_bits(60), greedy_recipe(60, 3))
    (learned_parts,) = waited_for
    chex.assert_trees_all_equal(
        tables.first_entries_of_arrays(learned_parts.hypotheses, 3), model.hypotheses
    )


def test_all_functions_together_keep_a_bounded_number_of_programs(monkeypatch):
    monkeypatch.setattr(compilation, "_compiled_programs", collections.OrderedDict())
    monkeypatch.setattr(compilation, "MAX_PROGRAMS", 3)
    functions = [
        compilation.jit_with_bounded_cache()(lambda number, k=k: number + k) for k in range(5)
    ]
    for function in functions:
        function(jnp.float32(1))
    assert [len(function) for function in functions] == [0, 0, 1, 1, 1]
    for size in range(1, 5):
        functions[-1](jnp.zeros(size))
    assert [len(function) for function in functions] == [0, 0, 0, 0, 3]


# Traces.


def test_a_trace_that_is_reused_is_made_once_for_arrays_of_one_type():
    """A call outside of a trace leaves nothing to keep, and runs the function each time."""
    shapes_of_calls = []

    def scale_of_array(array, scale):
        shapes_of_calls.append(array.shape)
        return scale * array

    reusing = compilation.reuse_trace(scale_of_array)

    def call_twice(array):
        return reusing(reusing(array, np.float32(2)), np.float32(3))

    assert jax.jit(call_twice)(jnp.ones(3)).tolist() == [6, 6, 6]
    jax.make_jaxpr(call_twice)(jnp.ones(3))
    assert shapes_of_calls == [(3,)]
    jax.make_jaxpr(call_twice)(jnp.ones(4))
    assert shapes_of_calls == [(3,), (4,)]
    assert reusing(jnp.ones(3), np.float32(2)).tolist() == [2, 2, 2]
    assert shapes_of_calls == [(3,), (4,), (3,)]


@pytest.mark.parametrize("in_lanes", [False, True])
@pytest.mark.parametrize("name", ["discrete_laplace", "rounded_gaussian", "exponential"])
def test_a_sampler_whose_trace_is_reused_is_the_same_program(name, in_lanes):
    sample = getattr(mechanisms, name).sample

    def program_text(sample):
        def run(keys, values, scale):
            draw = jax.vmap(sample, in_axes=(0, 0, None)) if in_lanes else sample
            return draw(keys, values, scale)

        key = jax.random.key(0)
        keys = jax.random.split(key, 2) if in_lanes else key
        values = jnp.zeros((2, 5) if in_lanes else 5, jnp.int32)
        return str(jax.make_jaxpr(run)(keys, values, jnp.float32(1)))

    first_text = program_text(sample)
    assert program_text(sample) == first_text  # with the trace of the first
    assert program_text(sample.__wrapped__) == first_text


FITS_OF_MANY_DOMAINS = """
import warnings

import jax
import numpy as np

import dpbt
from dpbt.data.domains import Numeric

warnings.simplefilter("ignore", UserWarning)  # the keys are of seeds
x = np.random.default_rng(0).uniform(0, 1, 60)
for bins in range(3, 303):
    domain = {"x": Numeric(0, 1, bins=bins % 253 + 3), "y": Numeric(0, 1, bins=4 + bins // 253)}
    table = dpbt.table(domain, {"x": x, "y": x[::-1]}, x > 0.4)
    recipe = dpbt.recipes.auto(epsilon=1.0, rows=60, domain=domain)
    model = dpbt.fit(jax.random.key(0), table, recipe, jax.random.key(1))
    dpbt.predict(model, table)
    if bins % 20 == 2:
        with open("/proc/self/maps") as maps:
            print(len(maps.readlines()), flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it reads /proc")
def test_a_process_that_fits_300_domains_keeps_few_memory_maps():
    """At most 65,530 are allowed; a program takes some hundreds, and the process would crash."""
    command = [sys.executable, "-c", FITS_OF_MANY_DOMAINS]
    completed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600)
    assert completed.returncode == 0, completed.stderr
    num_maps = [int(line) for line in completed.stdout.split()]
    assert len(num_maps) == 15
    assert max(num_maps) < 20_000
    assert max(num_maps[5:]) < 1.1 * num_maps[4]  # no more of them after the first 100 domains


def test_the_draws_of_a_recipe_are_traced_once():
    """Draws are cached by the shapes of a program, and looking them up traces nothing."""
    trace_events = []

    def record_event(event, _, **__):
        if event == "/jax/core/compile/jaxpr_trace_duration":
            trace_events.append(event)

    recipe = recipes.bdpe(epsilon=1.0, rows=100, rounds=2, depth=1)
    jax.monitoring.register_event_duration_secs_listener(record_event)
    try:
        draw_specs = draw_specs_of_phase(recipe, recipe.learner.round)
        jax.jit(lambda number: number + 1)(1)
        assert trace_events  # the event has this name
        trace_events.clear()
        assert draw_specs_of_phase(recipe, recipe.learner.round) == draw_specs
    finally:
        jax.monitoring.unregister_event_duration_listener(record_event)
    assert not trace_events


def test_pricing_a_recipe_compiles_nothing():
    """Each program would cost the first fit of a process tens of milliseconds."""
    compilations = []

    def record_event(event, seconds, **_):
        if "backend_compile" in event:
            compilations.append(seconds)

    jax.clear_caches()  # as in a new process
    jax.monitoring.register_event_duration_secs_listener(record_event)
    try:
        domain = {f"x{index}": Numeric(0, 1, bins=7) for index in range(3)}
        recipes.auto(epsilon=1.0, rows=500, domain=domain)
    finally:
        jax.monitoring.unregister_event_duration_listener(record_event)
    assert not compilations
