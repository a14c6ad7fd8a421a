"""Few shapes are compiled for, and nothing that is learned depends on them."""

import collections
import contextlib
import dataclasses
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
from dpbt.privacy.dependencies import draw_specs_of_phase
from dpbt.training import boost as training_boost
from dpbt.training import fit as training_fit
from dpbt.types import MAX_ROWS

# Shapes.


def bits_of(rows, splits=4, seed=0):
    rng = np.random.default_rng(seed)
    here = np.ones(rows, bool)
    return table_of_splits(rng.random((rows, splits)) < 0.5, rng.random(rows) < 0.4, here)


def test_buckets_are_few_and_waste_at_most_a_quarter():
    counts = np.arange(1, 10_000)
    sizes = np.array([tables.round_up_to_bucket(int(count)) for count in counts])
    assert np.all((sizes >= counts) & (sizes <= 1.25 * counts))
    assert len(set(sizes.tolist())) <= 4 * 12 + 8
    most = tables.MAX_PADDED_ROWS
    assert tables.padded_num_rows(1) == tables.MIN_ROWS
    assert tables.padded_num_rows(most) == tables.padded_num_rows(most - 1) == most
    assert all(tables.padded_num_rows(rows) == rows for rows in (most + 1, MAX_ROWS - 1))


def greedy(rows, rounds):
    return recipes.bdpe(epsilon=2.0, rows=rows, rounds=rounds, depth=1)


def test_what_is_of_one_bucket_shares_programs_of_fits_and_of_prediction():
    key = jax.random.key(0)
    model = dpbt.fit(key, bits_of(90), greedy(90, 10))
    before = training_fit.num_compiled_programs()
    for rows, rounds in ((81, 9), (96, 9), (90, 3), (90, 100)):
        found = dpbt.fit(key, bits_of(rows), greedy(rows, rounds))
        assert found.hypotheses.leaf.shape[0] == rounds
    assert training_fit.num_compiled_programs() == before

    batch = np.asarray(bits_of(128).bins)
    everyone = np.asarray(dpbt.decision_function(model, batch))
    before = prediction.compiled_predictor(prediction.scores_of_rows).num_compiled
    for count in (113, 120, 128):
        found = dpbt.decision_function(model, batch[:count])
        np.testing.assert_array_equal(found, everyone[:count])
    assert prediction.compiled_predictor(prediction.scores_of_rows).num_compiled == before


def test_programs_have_room_for_rounds_where_that_costs_nothing(monkeypatch):
    """The rounds that `auto` sets follow from epsilon: each number of them compiled a program."""
    room = training_fit._max_rounds_of_program
    assert {room(greedy(90, rounds)) for rounds in (1, 10, 100, 128)} == {128}
    assert room(greedy(90, 129)) == tables.round_up_to_bucket(129)
    forest = recipes.random_forest(epsilon=2.0, rows=90, rounds=9, depth=1)
    assert room(forest) == 10  # all of these run, side by side
    monkeypatch.setattr(training_fit, "_MAX_BYTES_OF_ROOM", 128 * 4 * 2)
    deep = recipes.bdpe(epsilon=2.0, rows=90, rounds=3, depth=3)
    assert room(deep) == 3  # since its releases have more bytes


def test_padding_leaves_a_full_table_as_it_is():
    table = bits_of(96)
    assert tables.pad_rows_to_bucket(table) is table
    more = tables.pad_rows_to_bucket(bits_of(95))
    assert more.bins.shape[0] == 96
    assert int(jnp.sum(more.present)) == 95


# Programs that are kept.


@compilation.jit_with_bounded_cache(max_programs=2, static_argnames=("times",))
def _multiplied(array, times):
    return array * times


def test_the_programs_used_last_are_kept():
    _multiplied.clear()
    before, ones = _multiplied.num_compiled, [np.ones(n, np.float32) for n in range(4)]
    for n in (1, 2, 1, 3, 1):  # the third one takes the place of the one for two entries
        np.testing.assert_array_equal(_multiplied(ones[n], 3.0), 3 * ones[n])
    assert (len(_multiplied), _multiplied.num_compiled - before) == (2, 3)
    _multiplied(ones[2], times=3.0)
    _multiplied(ones[2], 4.0)
    assert (len(_multiplied), _multiplied.num_compiled - before) == (2, 5)
    _multiplied.clear()
    assert len(_multiplied) == 0


def test_boost_on_its_own_compiles_once_and_says_what_it_says_under_jit():
    key, table, recipe = jax.random.key(3), bits_of(60), greedy(60, 3)
    alone = dpbt.boost(key, table, recipe)
    before = training_boost.num_compiled_programs()
    again = dpbt.boost(key, table, recipes.bdpe(epsilon=9.0, rows=60, rounds=3, depth=1))
    assert training_boost.num_compiled_programs() == before
    assert not np.array_equal(again.scores, alone.scores)
    chex.assert_trees_all_equal(jax.jit(dpbt.boost)(key, table, recipe), alone)


@contextlib.contextmanager
def compiled_programs():
    """A list that grows by an entry for each program that XLA compiles or reads from its cache."""
    programs = []

    def note(event, _, **__):
        if event == "/jax/core/compile/backend_compile_duration":
            programs.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        yield programs
    finally:
        jax.monitoring.unregister_event_duration_listener(note)


def test_a_second_run_and_a_second_replay_compile_nothing():
    """Eager calls, too: with other keys, rows and numbers they find their programs."""
    table, recipe, keys = bits_of(60), greedy(60, 3), jax.random.split(jax.random.key(3), 8)
    boosted = dpbt.boost(keys[0], table, recipe)
    dpbt.replay(boosted.transcript, table, recipe)
    other_table = bits_of(60, seed=1)
    other_recipe = recipes.bdpe(epsilon=9.0, rows=60, rounds=3, depth=1)
    key = jax.block_until_ready(keys[1])  # taking it compiles a program
    with compiled_programs() as programs:
        again = dpbt.boost(key, other_table, other_recipe)
        dpbt.replay(again.transcript, other_table, other_recipe)
    assert not programs
    with compiled_programs() as programs:
        dpbt.boost(key, bits_of(59), greedy(59, 3))
    assert programs  # the event has this name


def test_lanes_and_derivatives_compile_once():
    table, recipe = bits_of(60), greedy(60, 3)
    several = [jax.random.split(jax.random.key(seed), 4) for seed in (3, 4)]

    def run(key):
        return dpbt.boost(key, table, recipe)

    def replay(transcript):
        return dpbt.replay(transcript, table, recipe).log_prob

    def total(params, transcript):
        log_prob = dpbt.replay(transcript, table, dataclasses.replace(recipe, params=params))
        return sum(map(jnp.sum, log_prob.log_prob.values()))

    transcript = run(several[0][0]).transcript
    jax.vmap(replay)(jax.vmap(run)(several[0]).transcript)
    jax.grad(total)(recipe.params, transcript)
    with compiled_programs() as programs:
        jax.vmap(replay)(jax.vmap(run)(several[1]).transcript)
        jax.grad(total)(recipe.params, transcript)
    assert not programs


def test_a_fit_waits_until_its_work_is_done(monkeypatch):
    """A model whose arrays are still being worked out would move a Ctrl-C to a later call."""
    waited, wait = [], jax.block_until_ready
    monkeypatch.setattr(jax, "block_until_ready", lambda tree: waited.append(tree) or wait(tree))
    model = dpbt.fit(jax.random.key(0), bits_of(60), greedy(60, 3))
    (learned,) = waited
    chex.assert_trees_all_equal(
        tables.first_entries_of_arrays(learned.hypotheses, 3), model.hypotheses
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


OF_MANY_DOMAINS = """
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
    command = [sys.executable, "-c", OF_MANY_DOMAINS]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600)
    assert ran.returncode == 0, ran.stderr
    maps = [int(line) for line in ran.stdout.split()]
    assert len(maps) == 15
    assert max(maps) < 20_000
    assert max(maps[5:]) < 1.1 * maps[4]  # no more of them after the first 100 domains


def test_a_recipe_that_was_read_is_not_traced_again():
    """What is read off a program is looked up by shapes: looking them up traces nothing."""
    traced = []

    def note(event, _, **__):
        if event == "/jax/core/compile/jaxpr_trace_duration":
            traced.append(event)

    recipe = recipes.bdpe(epsilon=1.0, rows=100, rounds=2, depth=1)
    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        first = draw_specs_of_phase(recipe, recipe.learner.round)
        jax.jit(lambda number: number + 1)(1)
        assert traced  # the event has this name
        traced.clear()
        assert draw_specs_of_phase(recipe, recipe.learner.round) == first
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
    assert not traced


def test_pricing_a_recipe_compiles_nothing():
    """Each program that it compiled would cost the first fit of a process tens of milliseconds."""
    compilations = []

    def note(event, seconds, **_):
        if "backend_compile" in event:
            compilations.append(seconds)

    jax.clear_caches()  # as in a new process
    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        domain = {f"x{place}": Numeric(0, 1, bins=7) for place in range(3)}
        recipes.auto(epsilon=1.0, rows=500, domain=domain)
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
    assert not compilations
