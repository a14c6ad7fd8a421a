"""Fits of tables in blocks release what fits in memory release, within the memory they are given.

The releases depend neither on the blocks nor on the passes.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import numpy as np
import pytest

import dpbt
from dpbt import recipes, weighting
from dpbt.training.blocks import fit_in_blocks
from dpbt.training.blocks.memory_plan import plan_memory
from dpbt.types import Recipe
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


class Case(NamedTuple):
    """A recipe, and the table in blocks that it learns from.

    Attributes:
        make_recipe: makes the recipe.
        target: the kind of the target.
        has_weights: whether the rows have weights.
        rows_per_block: the rows of a block.
    """

    make_recipe: Callable[[], Recipe]
    target: str
    has_weights: bool
    rows_per_block: int


CASES = {
    "two": Case(
        lambda: oblivious_recipe("two", 700, structures=2),
        target="two",
        has_weights=False,
        rows_per_block=100,
    ),
    "classes": Case(
        lambda: oblivious_recipe("classes", 700, 0.0),
        target="classes",
        has_weights=False,
        rows_per_block=333,
    ),
    "number": Case(
        lambda: oblivious_recipe("number", 700, relation="replace_one"),
        target="number",
        has_weights=True,
        rows_per_block=700,
    ),
    "count": Case(
        lambda: oblivious_recipe("number", 700, objective="poisson"),
        target="number",
        has_weights=True,
        rows_per_block=300,
    ),
    "quantile": Case(
        lambda: additive_recipe("number", objective="quantile", quantile=0.9),
        target="number",
        has_weights=True,
        rows_per_block=90,
    ),
    "additive": Case(
        lambda: additive_recipe("two", marginals_fraction=0.1, pairs=PAIRS),
        target="two",
        has_weights=True,
        rows_per_block=100,
    ),
    "curves of classes": Case(
        lambda: additive_recipe("classes", pairs=PAIRS),
        target="classes",
        has_weights=False,
        rows_per_block=333,
    ),
    "curves of a number": Case(
        lambda: additive_recipe("number", monotone={"age": 1}),
        target="number",
        has_weights=False,
        rows_per_block=333,
    ),
    "forest": Case(forest_recipe, target="two", has_weights=True, rows_per_block=100),
    "disjoint": Case(
        lambda: forest_recipe(disjoint=True, rounds=3, delta=1e-6),
        target="two",
        has_weights=False,
        rows_per_block=333,
    ),
    "objective": Case(
        lambda: greedy_recipe(rounds=2), target="two", has_weights=True, rows_per_block=100
    ),
    "rules": Case(rule_recipe, target="two", has_weights=True, rows_per_block=300),
}


@pytest.mark.parametrize("name", mark_slow_cases_except(CASES, fast=["two"]))
def test_releases_are_those_of_a_fit_in_memory(tmp_path, monkeypatch, name):
    case = CASES[name]
    table, block_table = table_and_blocks(
        tmp_path / "t",
        case.target,
        rows_per_block=case.rows_per_block,
        weights=case.has_weights,
    )
    recipe = case.make_recipe()
    in_memory = dpbt.fit(KEY, table, recipe, PUBLIC)
    shorten_passes(monkeypatch)
    assert_same_fit(in_memory, dpbt.fit(KEY, block_table, recipe, PUBLIC))


def test_rounds_after_the_second_compile_nothing(tmp_path):
    """If each round compiled a program, the memory would grow with the rounds."""
    recipe = oblivious_recipe("two", 700)
    _, block_table = table_and_blocks(tmp_path / "t", "two")
    compilations, counts_by_round = [], []

    def record_compilation(event, _, **__):
        if event == "/jax/core/compile/backend_compile_duration":
            compilations.append(event)

    def count_compilations(state):
        if state.stage == "rounds":
            counts_by_round.append(len(compilations))

    jax.monitoring.register_event_duration_secs_listener(record_compilation)
    try:
        jax.jit(lambda number: number + 1)(1)
        assert compilations  # the event has this name
        dpbt.fit(dpbt.fresh_key(), block_table, recipe, progress=count_compilations)
    finally:
        jax.monitoring.unregister_event_duration_listener(record_compilation)
    assert len(set(counts_by_round[2:])) == 1, counts_by_round


@pytest.mark.slow
def test_a_large_table_is_learned_with_releases_of_64_bits(tmp_path, monkeypatch):
    """The sums have 64 bits; public randomness needs no more than 32."""
    _, block_table = table_and_blocks(tmp_path / "t", "two")
    recipe = oblivious_recipe("two", 700)
    small = dpbt.fit(KEY, block_table, recipe, PUBLIC)
    monkeypatch.setattr(fit_in_blocks, "MAX_ROWS", 1)
    large = dpbt.fit(KEY, block_table, recipe, PUBLIC)
    for site, array in large.releases.items():
        is_sum = site.startswith(("leaf", "error", "marginals", "histogram", "classes"))
        assert array.dtype == np.int64 or not is_sum
        np.testing.assert_array_equal(array, np.asarray(small.releases[site]))
    assert any(array.dtype == np.int64 for array in large.releases.values())

    chex.assert_trees_all_equal(large.hypotheses, small.hypotheses)


# Memory.


@pytest.mark.slow
def test_memory_bounds_the_slices_and_the_rounds_of_a_pass(tmp_path):
    _, block_table = table_and_blocks(tmp_path / "t", "two", 10)
    recipe = oblivious_recipe("two", 10)
    large_table = dataclasses.replace(block_table, max_rounds=2**29)
    for table, memory in ((block_table, 2**20), (large_table, 2 * GIB)):  # 2 GB of scores alone
        with pytest.raises(ValueError, match="memory must be at least"):
            plan_memory(table, recipe, memory=memory, threads=2)
    assert plan_memory(large_table, recipe, memory=4 * GIB, threads=2).max_rounds_of_pass == 1
    _, table_of_classes = table_and_blocks(tmp_path / "c", "classes", 10, rows_per_block=2**20)
    assert (
        plan_memory(
            table_of_classes, oblivious_recipe("classes", 10), memory=64 * GIB, threads=1
        ).max_rows_of_slice
        == 2**19
    )

    # The rounds of a forest share a pass and keep no scores.
    assert (
        plan_memory(large_table, forest_recipe(10), memory=GIB, threads=2).max_rounds_of_pass == 5
    )
    deep_forest = forest_recipe(10, depth=18, rounds=21)
    max_rounds_in_two_gib, max_rounds_in_six_gib = (
        plan_memory(block_table, deep_forest, memory=memory * GIB, threads=2).max_rounds_of_pass
        for memory in (2, 6)
    )
    assert 1 <= max_rounds_in_two_gib < max_rounds_in_six_gib <= 21
    with pytest.raises(ValueError, match=r"memory must be at least .* the model takes"):
        dpbt.fit(KEY, block_table, forest_recipe(10, depth=18, rounds=1000), PUBLIC)


# What is refused.


def test_a_fit_in_blocks_refuses_what_it_cannot_learn_from(tmp_path):
    table, block_table = table_and_blocks(tmp_path / "t", "two")
    recipe, checkpoint = oblivious_recipe("two", 700), tmp_path / "kept"
    published = recipes.bdpe(epsilon=1, rows=700, calibration="published")
    for message, fit in {
        r"only dpbt\.fit learns": lambda: dpbt.boost(KEY, block_table, recipe),
        "checkpoint is for": lambda: dpbt.fit(KEY, table, recipe, checkpoint=checkpoint),
        "bdpe of the published calibration reads": lambda: dpbt.fit(KEY, block_table, published),
        "must be uint8": lambda: dpbt.fit(KEY, block_table, oblivious_recipe("classes", 700)),
        "'attribute' is public randomness: give": lambda: dpbt.fit(
            KEY, block_table, forest_recipe()
        ),
        "public_key must be independent": lambda: dpbt.fit(KEY, block_table, forest_recipe(), KEY),
        "more rows present": lambda: dpbt.fit(KEY, block_table, oblivious_recipe("two", 600)),
    }.items():
        with pytest.raises(ValueError, match=message) as caught:
            fit()
        assert str(sum(block.present for block in block_table.blocks)) not in str(caught.value)

    # Rounds of a weight update that reads scores cannot share a pass: their scores would differ.
    numbers = weighting.MirrorNumbers(np.float32(0))
    update_that_misstates_reads = dataclasses.replace(
        weighting.mirror("matsushita"), reads_scores=False
    )
    recipe_of_wrong_update = dataclasses.replace(
        forest_recipe(), weight_update=update_that_misstates_reads, weight_params=numbers
    )
    for rows in (block_table, table):
        with pytest.raises(ValueError, match="declares reads_scores=False, and reads scores"):
            dpbt.fit(KEY, rows, recipe_of_wrong_update, PUBLIC)
