"""Random forests on tables in chunks: the releases of memory, whatever the parts are."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes, weighting
from dpbt.base import View
from dpbt.privacy import boundary, mechanisms, totals
from dpbt.training import blocks as in_blocks
from dpbt.training import passes, processes
from dpbt.training.memory import MemoryPlan, plan_for
from tests.test_block_fits import (
    GIB,
    KEY,
    KilledError,
    assert_same,
    assert_same_predictions,
    pair,
    recipe_for,
)

pytestmark = pytest.mark.filterwarnings("ignore:research key")

PUBLIC = jax.random.key(6)


def forest(rows=700, **more):
    return recipes.random_forest(**{"epsilon": 2, "rounds": 5, "depth": 3, **more}, rows=rows)


def parted(monkeypatch, block=64, rounds=2):
    """Let a pass have small blocks and few rounds."""
    monkeypatch.setattr(in_blocks, "plan_for", lambda *_: MemoryPlan(block, 2, False, rounds))


CASES = {
    "all rows": ({}, True, 100, False),
    "disjoint": (
        {"disjoint": True, "rounds": 3, "delta": 1e-6, "relation": "replace_one"},
        False,
        333,
        True,
    ),
    "gaussian": ({"delta": 1e-6}, False, 256, True),
    "disjoint, research": ({"disjoint": True, "rounds": 3}, True, 90, False),
    "uniform": ({"negative": "uniform", "calibration": "published"}, False, 99, False),
}
"""Name -> (options, whether rows have weights, rows a chunk, whether keys are release keys)."""


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[] if case == "disjoint" else pytest.mark.slow) for case in CASES],
)
def test_releases_are_those_of_a_forest_in_memory(tmp_path, monkeypatch, case):
    options, weights, each, fresh = CASES[case]
    key, public_key = (dpbt.fresh_key(), dpbt.fresh_key()) if fresh else (KEY, PUBLIC)
    table, found = pair(tmp_path / "t", "two", 700, 700, each, weights)
    recipe = forest(**options)
    parted(monkeypatch)
    in_memory = dpbt.fit(key, table, recipe, public_key)
    assert_same(in_memory, dpbt.fit(key, found, recipe, public_key))
    assert in_memory.releases["leaf"].dtype == jnp.int32


@pytest.mark.slow
@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("make", [recipes.random_forest, recipes.rf_l, recipes.rf_e])
def test_releases_are_those_of_a_forest_in_memory_on_many_rows(tmp_path, disjoint, make):
    table, found = pair(tmp_path / "t", "two", 60_000, 70_000, 9_999, weights=True)
    delta = 0.0 if make is recipes.rf_e else 1e-6
    options = {"disjoint": disjoint, "rounds": 7, "depth": 9, "delta": delta}
    recipe = make(epsilon=1, rows=70_000, **options)
    expected = dpbt.fit(KEY, dpbt.checks.on_device(table), recipe, PUBLIC)
    found = dpbt.fit(KEY, found, recipe, PUBLIC, threads=3, memory=2 * GIB)
    assert_same(expected, found)


@pytest.mark.parametrize("first", [0, 3, 2**32 - 3, 2**40 - 7])
@pytest.mark.parametrize("key", [KEY, dpbt.fresh_key()], ids=["research", "release"])
def test_a_place_has_its_part_in_every_block(key, first):
    drawn, places = jax.jit(mechanisms.assignment.at), jnp.zeros(7, jnp.int32)

    def at(place):
        words = jnp.array([place >> 32, place % 2**32], jnp.uint32)
        return np.asarray(drawn(key, places, jnp.int32(1000), words))

    np.testing.assert_array_equal(at(first)[3:], at(first + 3)[:4])
    assert len(set(at(first))) > 3
    if first < 10:
        of_table = mechanisms.assignment.sample(key, jnp.zeros(10, jnp.int32), jnp.int32(1000))
        np.testing.assert_array_equal(at(first), np.asarray(of_table)[first : first + 7])
    else:  # other places than those whose low word is the same
        assert np.any(at(first + 3) != at((first + 3) % 2**32))


def test_a_run_of_a_forest_goes_on_with_both_keys(tmp_path, monkeypatch):
    """Two passes of two trees; it is stopped after the first one, with a line cut off."""
    _, found = pair(tmp_path / "t", "two")
    recipe, kept = forest(rounds=4), tmp_path / "kept"
    parted(monkeypatch)
    budget = dpbt.Filter(5, rows=700)

    def stop(state):
        if (state.stage, state.done) == ("rounds", 2):
            raise KilledError

    with pytest.raises(KilledError):
        dpbt.fit(KEY, found, recipe, PUBLIC, checkpoint=kept, progress=stop, filter=budget)
    lines = (kept / "releases.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) == 2
    (kept / "releases.jsonl").write_bytes(lines[0] + lines[1][:-9])
    with pytest.raises(ValueError, match="another public key"):
        dpbt.fit(KEY, found, recipe, jax.random.key(7), checkpoint=kept, filter=budget)
    with pytest.raises(ValueError, match="a key of its own"):
        dpbt.fit(
            KEY, found, recipe, jax.random.key(7), checkpoint=tmp_path / "other", filter=budget
        )
    again = dpbt.fit(KEY, found, recipe, PUBLIC, checkpoint=kept, filter=budget)
    assert_same(dpbt.fit(KEY, found, recipe, PUBLIC), again)
    assert (kept / "releases.jsonl").read_bytes().startswith(b"".join(lines))
    assert budget.spent == pytest.approx(2, rel=1e-5)
    for key in (KEY, PUBLIC):
        words = np.asarray(jax.random.key_data(key)).tobytes().hex()
        assert all(words not in path.read_text() for path in kept.iterdir())
    assert_same(again, dpbt.fit(KEY, found, recipe, PUBLIC, checkpoint=kept))


def test_what_forests_on_chunks_refuse(tmp_path, monkeypatch):
    _, found = pair(tmp_path / "t", "two")
    with pytest.raises(ValueError, match="'attribute' is public randomness: give public_key"):
        dpbt.fit(KEY, found, forest())
    with pytest.raises(ValueError, match="public_key must be independent of key"):
        dpbt.fit(KEY, found, forest(), KEY)
    monkeypatch.setattr(passes, "Passes", None)  # no row is read
    with pytest.raises(ValueError, match=r"memory must be at least .* the model takes"):
        dpbt.fit(KEY, found, forest(depth=18, rounds=1000), PUBLIC)


def test_a_reweighter_that_reads_scores_says_so(tmp_path):
    """Else the rounds of a pass would follow from other scores than those of rounds in memory."""
    table, found = pair(tmp_path / "t", "two")
    numbers = weighting.MirrorNumbers(np.float32(0))
    wrong = weighting.mirror("matsushita")._replace(reads_scores=False)
    recipe = dataclasses.replace(forest(), weight_update=wrong, weighting=numbers)
    for fit, rows in ((dpbt.fit, found), (dpbt.fit, table)):
        with pytest.raises(ValueError, match="declares reads_scores=False, and reads scores"):
            fit(KEY, rows, recipe, PUBLIC)


def test_public_randomness_for_each_row_is_refused():
    """One row stands for all where it is drawn, so all rows of a block would share one coin."""

    def program(draw, table, weights, budget, public):
        del budget, public
        two = {"scale": np.int32(2), "theorem": "none"}
        coin = draw("coin", mechanisms.uniform, jnp.zeros(weights.shape, jnp.int32), **two)
        total = boundary.Total(jnp.sum(jnp.where(coin == 1, weights, 0)).astype(jnp.int32))
        noise = {"sensitivity": 1.0, "moves": 1, "theorem": "none", "scale": 1.0}
        draw("total", mechanisms.discrete_laplace, total, **noise)

    one, nine = (View(None, jnp.ones(rows), dpbt.base.Noise({}), None) for rows in (1, 9))
    sites = boundary.public_draws(program, PUBLIC, one)
    given = dpbt.base.Given(sites, KEY, jnp.zeros(2, jnp.uint32))
    assert boundary.sums(program, ("total",), given, one).keys() == {"total"}
    with pytest.raises(ValueError, match="'coin' is public randomness for each row"):
        boundary.sums(program, ("total",), given, nine)


def test_processes_with_other_trees_are_refused(tmp_path, monkeypatch):
    _, found = pair(tmp_path / "t", "two")
    told = {}
    monkeypatch.setattr(jax, "process_count", lambda: 2)

    def check_same(**words):
        for name, word in words.items():
            if told.setdefault(name, word) != word:
                raise ValueError(f"different values of {name}")

    monkeypatch.setattr(processes, "check_same", check_same)
    monkeypatch.setattr(processes, "digests", lambda text: ["ab", "cd"])
    monkeypatch.setattr(processes, "place_of", lambda *_: processes.Place(0, 1, 700, 0))
    in_blocks.check(KEY, found, forest(), PUBLIC)
    with pytest.raises(ValueError, match="different values of public_key"):
        in_blocks.check(KEY, found, forest(), jax.random.key(7))
    in_blocks.check(KEY, found, forest(), PUBLIC)


def test_memory_bounds_the_trees_of_a_pass(tmp_path):
    _, found = pair(tmp_path / "t", "two")
    assert plan_for(found, forest(), GIB, 2).rounds == 5
    deep = forest(depth=18, rounds=21)
    less, more = (plan_for(found, deep, memory * GIB, 2).rounds for memory in (2, 6))
    assert 1 <= less < more <= 21
    assert plan_for(found, recipe_for("two", 700), 4 * GIB, 2).rounds == 1
    large = dataclasses.replace(found, capacity=2**40)
    assert not plan_for(large, forest(), GIB, 2).scratch  # as no scores are kept


@pytest.mark.slow
@pytest.mark.parametrize("disjoint", [False, True])
def test_a_large_table_has_leaves_of_64_bits(tmp_path, monkeypatch, disjoint):
    _, found = pair(tmp_path / "t", "two")
    recipe = forest(disjoint=disjoint, rounds=3)
    small = dpbt.fit(KEY, found, recipe, PUBLIC)
    monkeypatch.setattr(in_blocks, "MAX_ROWS", 1)
    large = dpbt.fit(KEY, found, recipe, PUBLIC)
    assert large.releases["leaf"].dtype == np.int64
    for site, array in large.releases.items():
        np.testing.assert_array_equal(array, np.asarray(small.releases[site]))
    assert_same_predictions(tmp_path, large, small)


def test_leaves_state_the_shares_of_counts_beyond_int32():
    """2^33 rows and more in a leaf; the noise of epsilon 2 is a few rows."""
    rows = 2**37
    recipe = forest(rows=rows)
    assert dpbt.ledger(recipe).rows == rows
    learner, public = recipe.learner, recipe.public()
    counts = np.arange(16, dtype=np.int64).reshape(1, 8, 2) * 2**33 * 127
    example = learner.hypotheses.prepare(learner.hypotheses.example())
    view = View(example, jnp.zeros(1), recipe.params, public)
    sites = boundary.public_draws(learner.program, PUBLIC, view)
    asked = boundary.describe(learner.program, view, sites)
    drawn = totals.draw(KEY, {"leaf": counts}, asked, small=False)
    assert 0 < np.abs(drawn["leaf"] - counts).max() < 10**5
    tree = learner.hypothesis({**sites, **totals.read(drawn)}, recipe.params, public)
    expected = counts[..., 1] / counts.sum(axis=-1)
    np.testing.assert_allclose(np.asarray(tree.leaf), expected, atol=1e-6)
