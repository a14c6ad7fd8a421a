"""Greedy trees and 1-rules on tables in chunks: the releases of memory, level by level."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import chunked, losses, memory, passes, recipes, reweighting
from dpbt.base import ADD_REMOVE, GRID, MOST_CHUNKED_ROWS, Given
from dpbt.data import conversion
from dpbt.learners import greedy_tree, one_rule
from dpbt.learners import trees as learners
from dpbt.memory import room_for
from dpbt.privacy import boundary, mechanisms, totals
from tests.test_chunks import DOMAIN, GIB, KEY, KilledError, assert_same, columns, pair

pytestmark = pytest.mark.filterwarnings("ignore:research key")


def trees(rows=700, **more):
    return recipes.bdpe(**{"epsilon": 3, "rounds": 3, "depth": 2, **more}, rows=rows)


def rules(rows=700, **more):
    learner = one_rule.one_rule(ADD_REMOVE)
    return recipes.custom(learner, **{"epsilon": 3.0, "rounds": 3, **more}, rows=rows)


def clipped(rows=700, **more):
    learner = greedy_tree.greedy_tree(
        2, losses.as_family("gini"), losses.as_family(losses.log), False, ADD_REMOVE
    )
    numbers = reweighting.ClippedNumbers(np.float32(1), np.float32(0.4))
    weights = {"reweighter": reweighting.clipped_mirror(losses.log), "reweighting": numbers}
    return recipes.custom(learner, **{"epsilon": 3.0, "rounds": 3, **weights, **more}, rows=rows)


CASES = {
    "objective": (trees, {"rounds": 2}, True, 100),
    "gaussian": (trees, {"criterion": "gini", "delta": 1e-6}, False, 333),
    "replaced": (trees, {"criterion": "error", "relation": "replace_one"}, False, 700),
    "entropy": (trees, {"criterion": "information_gain", "depth": 1}, True, 256),
    "scheduled": (trees, {"alpha": lambda level: 1 / (1 + level), "loss": losses.log}, False, 90),
    "not private": (trees, {"epsilon": np.inf, "depth": 4}, False, 256),
    "clipped": (clipped, {}, True, 128),
    "rules": (rules, {}, True, 300),
}
"""Name -> (recipe, options, whether rows have weights, rows a chunk)."""


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[] if case == "objective" else pytest.mark.slow) for case in CASES],
)
def test_releases_are_those_of_a_fit_in_memory(tmp_path, case):
    make, options, weights, each = CASES[case]
    table, found = pair(tmp_path / "t", "two", 700, 700, each, weights)
    recipe = make(**options)
    assert_same(dpbt.fit(KEY, table, recipe), dpbt.fit_chunks(KEY, found, recipe))


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["m_alpha", "gini", "information_gain"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_releases_are_those_of_a_fit_in_memory_on_many_rows(tmp_path, criterion, delta):
    table, found = pair(tmp_path / "t", "two", 60_000, 70_000, 9_999, weights=True)
    recipe = trees(70_000, criterion=criterion, delta=delta, rounds=12, depth=5)
    key = dpbt.fresh_key()
    assert_same(
        dpbt.fit(key, table, recipe), dpbt.fit_chunks(key, found, recipe, threads=3, memory=GIB)
    )


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_releases_by_cells_are_those_of_products(tmp_path, monkeypatch, delta):
    """In memory by products; in chunks by cells, and by products in a last small block."""
    rng = np.random.default_rng(3)
    domain = {name: dpbt.domains.Numeric(0, 1, bins=40) for name in "xy"}
    columns = {name: rng.random(50_000) for name in "xy"}
    labels = columns["x"] + rng.random(50_000) > 1
    found = conversion.convert_columns(domain, columns, labels, tmp_path / "t")
    recipe = trees(50_000, delta=delta, depth=4)
    by_cells = dpbt.fit_chunks(KEY, found, recipe, memory=2 * GIB)
    monkeypatch.setattr(learners, "MANY_CELLS", 2**30)
    jax.clear_caches()
    assert_same(dpbt.fit(KEY, dpbt.table(domain, columns, labels), recipe), by_cells)
    jax.clear_caches()


def test_a_run_that_was_stopped_between_levels_gives_the_same_model(tmp_path, monkeypatch):
    """The second round is stopped after its first level, and drawn again from the start."""
    _, found = pair(tmp_path / "t", "two")
    recipe, kept = trees(rounds=2, criterion="gini"), tmp_path / "kept"
    expected = dpbt.fit_chunks(KEY, found, recipe)
    made, rounds = [], passes.Passes.rounds

    def stop(self, *arguments):
        made.append(1)
        if len(made) == 5:
            raise KilledError
        return rounds(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(passes.Passes, "rounds", stop)
        with pytest.raises(KilledError):
            dpbt.fit_chunks(KEY, found, recipe, checkpoint=kept)
    lines = (kept / "releases.jsonl").read_bytes()
    assert lines.count(b"\n") == 1
    assert_same(expected, dpbt.fit_chunks(KEY, found, recipe, checkpoint=kept))
    assert (kept / "releases.jsonl").read_bytes().startswith(lines)


@pytest.mark.slow
@pytest.mark.parametrize("make", [trees, rules])
def test_a_large_table_has_releases_of_64_bits(tmp_path, monkeypatch, make):
    """Class weights and errors have them; an index of a split needs none."""
    _, found = pair(tmp_path / "t", "two")
    small = dpbt.fit_chunks(KEY, found, make())
    monkeypatch.setattr(chunked, "MAX_ROWS", 1)
    large = dpbt.fit_chunks(KEY, found, make())
    for site, array in large.releases.items():
        selects = site.startswith(("split", "rule"))
        assert array.dtype == (np.int32 if selects else np.int64)
        np.testing.assert_array_equal(array, np.asarray(small.releases[site]))
    jax.tree.map(np.testing.assert_array_equal, large.hypotheses, small.hypotheses)
    large.save(tmp_path / "model.json", domain=DOMAIN)
    rows = columns(50, seed=4)
    np.testing.assert_array_equal(
        dpbt.load(tmp_path / "model.json").predict(rows),
        dpbt.predict(small, dpbt.domains.encode(DOMAIN, rows)),
    )


def test_splits_are_drawn_from_sums_beyond_int32():
    """The law of a draw from 2^39 rows is the exponential mechanism's, by exact integers."""
    rows = 2**40
    recipe = trees(rows, criterion="gini", epsilon=8, rounds=1, depth=1)
    assert dpbt.ledger(recipe).rows == rows
    learner, public = recipe.learner, recipe.public()
    example = learner.hypotheses.prepare(learner.hypotheses.example())
    asked = learner.program.asks({}, example, jnp.zeros(1), recipe.budget, public)["split_0"]

    # Three splits of one node; the first two differ by two rows' weight in the score.
    negative, positive = np.int64(2**38) * GRID, np.int64(2**38) * GRID + 12345
    right = np.array([[2**37, 2**37 + 1, 2**36], [2**36, 2**36, 2**36]], np.int64) * GRID
    sums = right[None], np.array([[negative, positive]])
    keys = jax.random.split(KEY, 4000)
    drawn = [totals.draw(key, {"split_0": sums}, {"split_0": asked}, small=False) for key in keys]
    shares = np.bincount([int(each["split_0"][0]) for each in drawn], minlength=3) / len(keys)

    def gini(one, other):
        return 4 * one * other / (one + other)

    left = np.array([[negative], [positive]]) - right
    wide = [(part.astype(np.longdouble) / GRID) for part in (right, left)]
    scores = -sum(gini(part[1], part[0]) for part in wide)
    logits = np.maximum((scores - scores.max()) / np.longdouble(asked.scale), -32)
    law = np.exp(logits) / np.exp(logits).sum()
    assert 0.05 < float(law[1]) < 0.95
    np.testing.assert_allclose(shares, law.astype(float), atol=4 * 0.5 / np.sqrt(len(keys)))


def test_memory_bounds_the_sums_of_a_level(tmp_path):
    _, found = pair(tmp_path / "t", "two")
    splits = len(found.questions.feature)

    def numbers(depth, **more):
        return memory._summed_numbers(found, trees(depth=depth, **more))

    assert numbers(1) == 2 * (splits + 1)
    assert numbers(3) == 4 * 2 * (splits + 1) + 4 * 2  # and the errors
    assert numbers(12, criterion="gini") == 2**11 * 2 * (splits + 1)
    with pytest.raises(ValueError, match="memory must be at least"):
        room_for(found, trees(depth=12), GIB, 2)
    large = dataclasses.replace(found, capacity=2**24, rows_per_chunk=2**20)
    shallow, deep = (room_for(large, trees(depth=depth), 2 * GIB, 2) for depth in (3, 12))
    assert deep.block < shallow.block
    assert not shallow.scratch


@pytest.mark.parametrize(("bins", "by_cells"), [(8, False), (64, True)])
def test_work_on_a_level_is_planned(bins, by_cells):
    """Each array that a row or a block has in work, with some room for what compilers add."""
    table = dpbt.table(
        {"x": dpbt.domains.Numeric(0, 1, bins=bins)}, {"x": np.zeros(2**14)}, [True] * 2**14
    )
    laid = jax.eval_shape(learners.prepare, jax.tree.map(jnp.asarray, table))
    assert (laid.cells is not None) == by_cells
    row, block = learners.work(laid, 8)
    recipe = trees(2**14, depth=4, criterion="gini")

    def products(table, node, weights):
        prepared = learners.prepare(table)
        levels = learners.weights_by_class(prepared, weights)
        return learners.node_products(prepared, levels, node, 8, None)

    given = table, jnp.zeros(2**14, jnp.int8), jnp.ones(2**14)
    compiled = jax.jit(products).lower(*given).compile().memory_analysis()
    taken = compiled.temp_size_in_bytes + compiled.output_size_in_bytes
    assert recipe.learner.hypotheses.work is learners.work
    assert 0.1 * (row * 2**14 + block) < taken < row * 2**14 + block


def test_sums_of_a_level_wait_for_the_splits_above():
    recipe = trees(depth=2)
    program, example = recipe.learner.program, recipe.learner.hypotheses.example()
    assert program.stages == (("error_0", "split_0"), ("error_1", "split_1"), ("leaf",))
    rows = recipe.learner.hypotheses.prepare(example)
    read = rows, jnp.zeros(1), recipe.budget, recipe.public()
    draws = program.draws(*read)
    given, sites = {}, []
    for stage in program.stages:
        found = program.sums(Given(given, KEY, jnp.zeros(2, jnp.uint32)), *read)
        sites.append(tuple(found))
        given |= {site: jnp.zeros(draws[site].shape, jnp.int32) for site in stage}
    assert tuple(sites) == program.stages


def test_a_draw_without_a_stage_is_refused():
    def program(draw, table, weights, budget, public):
        del table, budget, public
        total = boundary.Total(jnp.sum(weights).astype(jnp.int32))
        for site in ("first", "second"):
            draw(site, mechanisms.discrete_laplace, total, 1.0)

    made = boundary.private_program(program, lambda *_: [], stages=(("first",),))
    with pytest.raises(ValueError, match=r"no stage of the program has the draws \['second'\]"):
        made.sums(Given({}, KEY, jnp.zeros(2, jnp.uint32)), None, jnp.ones(3), (), None)


def test_recipes_of_custom_learners_have_rows_for_chunks():
    for make in (trees, rules, clipped):
        assert dpbt.ledger(make(10**8)).rows == 10**8
    numbers = reweighting.LazyNumbers(np.float32(0.2), np.float32(0.1))
    with pytest.raises(ValueError, match="at most 16777216"):
        rules(10**8, reweighter=reweighting.lazy_bregman(), reweighting=numbers)
    with pytest.raises(ValueError, match=f"at most {MOST_CHUNKED_ROWS}"):
        trees(2 * MOST_CHUNKED_ROWS)
