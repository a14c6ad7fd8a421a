"""Fits of tables in blocks: they release what a fit in memory releases, whatever the blocks and the
passes, within the memory that they are given.
"""

import dataclasses

import chex
import jax
import numpy as np
import pytest

import dpbt
from dpbt import recipes, weighting
from dpbt.training import blocks as in_blocks
from dpbt.training.passes import plan_memory
from tests.support.block_tables import (
    KEY,
    PUBLIC,
    additive_recipe,
    assert_same_fit,
    forest_recipe,
    greedy_recipe,
    oblivious_recipe,
    rule_recipe,
    shorten_passes,
    table_and_blocks,
)
from tests.support.slow_cases import mark_slow_cases_except

pytestmark = pytest.mark.filterwarnings("ignore:research key")

GIB = 2**30


# Releases.

PAIRS = [("age", "work")]
CASES = {
    "two": (lambda: oblivious_recipe("two", 700, structures=2), "two", False, 100),
    "classes": (lambda: oblivious_recipe("classes", 700, 0.0), "classes", False, 333),
    "number": (
        lambda: oblivious_recipe("number", 700, relation="replace_one"),
        "number",
        True,
        700,
    ),
    "count": (lambda: oblivious_recipe("number", 700, objective="poisson"), "number", True, 300),
    "quantile": (
        lambda: additive_recipe("number", objective="quantile", quantile=0.9),
        "number",
        True,
        90,
    ),
    "additive": (
        lambda: additive_recipe("two", marginals_fraction=0.1, pairs=PAIRS),
        "two",
        True,
        100,
    ),
    "curves of classes": (lambda: additive_recipe("classes", pairs=PAIRS), "classes", False, 333),
    "curves of a number": (
        lambda: additive_recipe("number", monotone={"age": 1}),
        "number",
        False,
        333,
    ),
    "forest": (forest_recipe, "two", True, 100),
    "disjoint": (lambda: forest_recipe(disjoint=True, rounds=3, delta=1e-6), "two", False, 333),
    "objective": (lambda: greedy_recipe(rounds=2), "two", True, 100),
    "rules": (rule_recipe, "two", True, 300),
}
"""Name -> (recipe, kind of target, whether rows have weights, rows a block)."""


@pytest.mark.parametrize("case", mark_slow_cases_except(CASES, fast=["two"]))
def test_releases_are_those_of_a_fit_in_memory(tmp_path, monkeypatch, case):
    make_recipe, kind, weights, rows_per_block = CASES[case]
    table, in_chunks = table_and_blocks(tmp_path / "t", kind, 700, None, rows_per_block, weights)
    recipe = make_recipe()
    in_memory = dpbt.fit(KEY, table, recipe, PUBLIC)
    shorten_passes(monkeypatch)
    assert_same_fit(in_memory, dpbt.fit(KEY, in_chunks, recipe, PUBLIC))


def test_rounds_after_the_second_compile_nothing(tmp_path):
    """The memory of a program that each round compiles grows with the rounds."""
    recipe = oblivious_recipe("two", 700)
    _, in_chunks = table_and_blocks(tmp_path / "t", "two")
    compilations, counts_by_round = [], []

    def note_compilation(event, _, **__):
        if event == "/jax/core/compile/backend_compile_duration":
            compilations.append(event)

    def count_compilations(state):
        if state.stage == "rounds":
            counts_by_round.append(len(compilations))

    jax.monitoring.register_event_duration_secs_listener(note_compilation)
    try:
        jax.jit(lambda number: number + 1)(1)
        assert compilations  # the event has this name
        dpbt.fit(dpbt.fresh_key(), in_chunks, recipe, progress=count_compilations)
    finally:
        jax.monitoring.unregister_event_duration_listener(note_compilation)
    assert len(set(counts_by_round[2:])) == 1, counts_by_round


@pytest.mark.slow
def test_a_large_table_is_learned_with_releases_of_64_bits(tmp_path, monkeypatch):
    """Sums have them; public randomness needs none."""
    _, in_chunks = table_and_blocks(tmp_path / "t", "two")
    recipe = oblivious_recipe("two", 700)
    small = dpbt.fit(KEY, in_chunks, recipe, PUBLIC)
    monkeypatch.setattr(in_blocks, "MAX_ROWS", 1)
    large = dpbt.fit(KEY, in_chunks, recipe, PUBLIC)
    for site, array in large.releases.items():
        is_sum = site.startswith(("leaf", "error", "marginals", "histogram", "classes"))
        assert array.dtype == np.int64 or not is_sum
        np.testing.assert_array_equal(array, np.asarray(small.releases[site]))
    assert any(array.dtype == np.int64 for array in large.releases.values())

    chex.assert_trees_all_equal(large.hypotheses, small.hypotheses)


# Memory.


@pytest.mark.slow
def test_memory_bounds_the_slices_and_the_rounds_of_a_pass(tmp_path):
    _, in_chunks = table_and_blocks(tmp_path / "t", "two", 10)
    recipe = oblivious_recipe("two", 10)
    large = dataclasses.replace(in_chunks, max_rounds=2**29)
    for table, memory in ((in_chunks, 2**20), (large, 2 * GIB)):  # 2 GB of scores alone
        with pytest.raises(ValueError, match="memory must be at least"):
            plan_memory(table, recipe, memory=memory, threads=2)
    assert plan_memory(large, recipe, memory=4 * GIB, threads=2).max_rounds_of_pass == 1
    _, classes = table_and_blocks(tmp_path / "c", "classes", 10, rows_per_block=2**20)
    assert (
        plan_memory(
            classes, oblivious_recipe("classes", 10), memory=64 * GIB, threads=1
        ).max_rows_of_slice
        == 2**19
    )

    # Of forests, whose rounds share a pass and keep no scores.
    assert plan_memory(large, forest_recipe(10), memory=GIB, threads=2).max_rounds_of_pass == 5
    deep = forest_recipe(10, depth=18, rounds=21)
    of_two_gib, of_six_gib = (
        plan_memory(in_chunks, deep, memory=memory * GIB, threads=2).max_rounds_of_pass
        for memory in (2, 6)
    )
    assert 1 <= of_two_gib < of_six_gib <= 21
    with pytest.raises(ValueError, match=r"memory must be at least .* the model takes"):
        dpbt.fit(KEY, in_chunks, forest_recipe(10, depth=18, rounds=1000), PUBLIC)


# What is refused.


def test_a_fit_in_blocks_refuses_what_it_cannot_learn_from(tmp_path):
    table, in_chunks = table_and_blocks(tmp_path / "t", "two")
    recipe, kept = oblivious_recipe("two", 700), tmp_path / "kept"
    published = recipes.bdpe(epsilon=1, rows=700, calibration="published")
    for words, run in {
        r"learned from by dpbt\.fit": lambda: dpbt.boost(KEY, in_chunks, recipe),
        "checkpoint is for": lambda: dpbt.fit(KEY, table, recipe, checkpoint=kept),
        "bdpe of the published calibration reads": lambda: dpbt.fit(KEY, in_chunks, published),
        "must be uint8": lambda: dpbt.fit(KEY, in_chunks, oblivious_recipe("classes", 700)),
        "'attribute' is public randomness: give": lambda: dpbt.fit(KEY, in_chunks, forest_recipe()),
        "public_key must be independent": lambda: dpbt.fit(KEY, in_chunks, forest_recipe(), KEY),
        "more rows present": lambda: dpbt.fit(KEY, in_chunks, oblivious_recipe("two", 600)),
    }.items():
        with pytest.raises(ValueError, match=words) as caught:
            run()
        assert str(sum(block.present for block in in_chunks.blocks)) not in str(caught.value)

    # Rounds of a weight update that reads scores cannot share a pass: their scores would differ.
    numbers = weighting.MirrorNumbers(np.float32(0))
    wrong = dataclasses.replace(weighting.mirror("matsushita"), reads_scores=False)
    other = dataclasses.replace(forest_recipe(), weight_update=wrong, weight_params=numbers)
    for rows in (in_chunks, table):
        with pytest.raises(ValueError, match="declares reads_scores=False, and reads scores"):
            dpbt.fit(KEY, rows, other, PUBLIC)
