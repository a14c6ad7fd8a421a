"""Tables beyond the public bound, by every way in: only the first `rows` rows count."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes, sweeps
from dpbt.data.splits import satisfied_splits, table_of_splits
from dpbt.training import table_preparation
from dpbt.training.replay import log_ratios_by_site
from dpbt.types import Table
from tests.support.attacks import GRID, class_counts_by_side
from tests.support.example_tables import random_features, random_table

pytestmark = pytest.mark.unoptimized

ROWS, BOUND = 400, 10


def lone_first() -> Table:
    """A row of class 1, set apart by all splits but one, and then rows of class 0."""
    satisfied = np.ones((ROWS, 300), bool)
    satisfied[0, 1:] = False
    label = np.arange(ROWS) == 0
    return table_of_splits(satisfied, label, np.ones(ROWS, bool))


def table_without_row(table: Table, row: int) -> Table:
    return table._replace(present=table.present.at[row].set(False))


def matsushita_loss(table: Table, neighbour: Table, *, bound: int, epsilon: float) -> float:
    """The largest log ratio of a split between two tables of a node, in float64, by hand.

    Scores are minus the sum over children of 2 sqrt(w1 w0), the temperature that of `bound` rows.
    """
    logs = []
    for node_table in (table, neighbour):
        splits = np.asarray(satisfied_splits(node_table))
        label, present = np.asarray(node_table.target), np.asarray(node_table.present)
        weight = present.astype(np.float64)
        score = np.zeros(splits.shape[1])
        for side in (splits, ~splits):
            positive, negative = (weight * label) @ side, (weight * ~label) @ side
            score -= 2 * np.sqrt(positive * negative)
        score = epsilon * score / (2 * np.sqrt(bound) + 2.0**-18 * bound)
        logs.append(score - np.logaddexp.reduce(score))
    return float(np.max(np.abs(logs[0] - logs[1])))


def first_rows(table: Table, bound: int) -> Table:
    """The table with its first `bound` present rows, by a plain loop."""
    present, left = np.array(table.present), bound
    for row in range(len(present)):
        present[row] &= left > 0
        left -= present[row]
    return table._replace(present=jnp.asarray(present))


def worst_split(table, other, recipe):
    release = jax.jit(dpbt.boost)(jax.random.key(0), table, recipe).transcript
    return jax.jit(log_ratios_by_site)(release, table, other, recipe)


@pytest.mark.slow
def test_a_table_far_beyond_its_bound_costs_at_most_twice_its_ledger():
    recipe = recipes.bdpe(
        epsilon=1.0,
        rows=BOUND,
        rounds=1,
        depth=1,
        alpha=1.0,
        beta_tree=0.999,
        relation="add_remove",
    )
    table = lone_first()
    epsilon = float(1 / recipe.params.noise["split"])
    assert (
        matsushita_loss(table, table_without_row(table, 0), bound=BOUND, epsilon=epsilon) > 5
    )  # if all rows counted
    for row in (0, 9, 399):
        steps = worst_split(table, table_without_row(table, row), recipe)
        total = sum(float(step.pure.max()) for _, step in steps.values())
        assert total <= 2 * dpbt.ledger(recipe).epsilon
        counted = [
            first_rows(any_table, BOUND) for any_table in (table, table_without_row(table, row))
        ]
        by_hand = matsushita_loss(*counted, BOUND, epsilon)
        assert float(steps["split_0"].pure[0]) == pytest.approx(by_hand, abs=1e-3)


MAKERS = {
    "bdpe": lambda rows: recipes.bdpe(epsilon=2.0, rows=rows, rounds=2, depth=1),
    "forest": lambda rows: recipes.random_forest(epsilon=2.0, rows=rows, rounds=2, depth=2),
    "halfspaces": lambda rows: recipes.halfspace_boost(epsilon=2.0, rows=rows, rounds=2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_rows_beyond_the_bound_change_no_release(name):
    """boost, vmap over recipes, grow and replay act as if only the first rows were there."""
    make, kind = MAKERS[name], random_features if name == "halfspaces" else random_table
    table = kind(0, 60, 4, 5)
    recipe, few = make(BOUND), first_rows(table, BOUND)
    keys = jax.random.split(jax.random.key(3))

    def grown(table, recipe):
        return dpbt.boost(keys[0], table, recipe, keys[1]).transcript

    two_recipes = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[recipe, recipe])
    many = jax.jit(jax.vmap(grown, (None, 0)))
    chex.assert_trees_all_equal(many(table, two_recipes), many(few, two_recipes))

    release = jax.jit(grown)(table, recipe)
    replay = jax.jit(lambda *args: dpbt.replay(*args).log_prob)
    replay_of_table, replay_of_few_rows = (
        replay(release, replayed_table, recipe) for replayed_table in (table, few)
    )
    chex.assert_trees_all_equal(replay_of_table, replay_of_few_rows)


@pytest.mark.slow
def test_a_sweep_counts_the_first_rows_alone(tmp_path):
    table = random_table(0, 60, 4)
    train = np.ones((1, 60), bool)

    def make(rows, epsilon):
        return recipes.bdpe(epsilon=epsilon, rows=rows, rounds=2, depth=1)

    scores = []
    for name, any_table in (("all", table), ("few", first_rows(table, BOUND))):
        table_on_host = jax.tree.map(np.asarray, any_table)
        tasks = [sweeps.Task("own", table_on_host, train, train, {"rows": BOUND})]
        sweep = sweeps.Sweep("s", make, ({"epsilon": (1.0, 20.0)},), repeats=6)

        def spread(score, label, trained, test):
            return {"score": jnp.sum(score)}

        sweeps.run(sweep, tasks, tmp_path / name, measure=spread)
        scores.append(sweeps.load_columns(tmp_path / name / "own.jsonl")[0]["score"])
    np.testing.assert_array_equal(*scores)
    assert len(set(scores[0].tolist())) > 3


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_fit_beyond_the_bound_is_refused_and_the_private_number_is_not_said(relation):
    table = random_table(0, 433, 4)
    recipe = recipes.bdpe(epsilon=1.0, rows=BOUND, rounds=1, depth=1, relation=relation)
    forest = recipes.random_forest(epsilon=1.0, rows=BOUND, rounds=1, depth=1, relation=relation)
    key, public = dpbt.fresh_key(), dpbt.fresh_key()
    for fit in (
        lambda: dpbt.fit(key, table, recipe),
        lambda: dpbt.fit(key, table, forest, public),
        lambda: dpbt.fit(key, table, forest, public),
    ):
        with pytest.raises(ValueError, match="rows") as refused:
            fit()
        assert "433" not in str(refused.value)


def test_under_replace_one_a_table_of_fewer_places_is_refused_and_an_odd_label_is_not():
    """The number of places is public there; that a row is absent is a private label's doing."""
    table = random_table(0, 60, 4)
    key = dpbt.fresh_key()
    short, right = (
        recipes.bdpe(epsilon=1.0, rows=rows, rounds=1, depth=1, relation="replace_one")
        for rows in (61, 60)
    )
    with pytest.raises(ValueError, match="room for fewer than rows=61"):
        dpbt.fit(key, table, short)
    dpbt.fit(key, table._replace(present=table.present.at[3].set(False)), right)


def test_leaves_of_a_table_beyond_its_bound_hold_its_first_rows():
    """Without noise the counts are those of the first rows."""
    table = random_table(1, 60, 1)
    recipe = recipes.bdpe(epsilon=np.inf, rows=BOUND, rounds=1, depth=1, alpha=1.0)
    release = dpbt.boost(jax.random.key(0), table, recipe).transcript.rounds
    counts = class_counts_by_side(first_rows(table, BOUND))
    split = int(release["split_0"][0, 0])
    expected = counts if split == 0 else np.stack([counts.sum(axis=0), np.zeros(2, np.int64)])
    np.testing.assert_array_equal(release["leaf"][0], GRID * expected)


def test_a_bound_that_is_nan_counts_no_row():
    table = random_table(1, 20, 2)
    recipe = recipes.bdpe(epsilon=1.0, rows=20, rounds=1, depth=1)
    nothing = dataclasses.replace(recipe, rows=np.float32("nan"))
    assert not np.any(table_preparation.keep_first_present_rows(table.present, nothing))
