"""Greedy trees and 1-rules on tables in chunks: the releases of memory, level by level."""

import dataclasses

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import pytest

import dpbt
from dpbt import losses, recipes, weighting
from dpbt.base import ADD_REMOVE, GRID, MAX_ROWS_IN_BLOCKS, Noise, Prologue, View
from dpbt.data import convert
from dpbt.learners import greedy_tree, one_rule
from dpbt.learners import trees as layouts
from dpbt.privacy import boundary, mechanisms, pricing, totals, tracing
from dpbt.training import blocks as in_blocks
from dpbt.training import memory, passes
from dpbt.training.memory import MemoryPlan, plan_for
from tests.test_block_fits import (
    GIB,
    KEY,
    KilledError,
    assert_same,
    assert_same_predictions,
    pair,
)

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
    numbers = weighting.ClippedNumbers(np.float32(1), np.float32(0.4))
    weights = {"weight_update": weighting.clipped_mirror(losses.log), "weighting": numbers}
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
    assert_same(dpbt.fit(KEY, table, recipe), dpbt.fit(KEY, found, recipe))


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["m_alpha", "gini", "information_gain"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_releases_are_those_of_a_fit_in_memory_on_many_rows(tmp_path, criterion, delta):
    table, found = pair(tmp_path / "t", "two", 60_000, 70_000, 9_999, weights=True)
    recipe = trees(70_000, criterion=criterion, delta=delta, rounds=12, depth=5)
    key = dpbt.fresh_key()
    assert_same(dpbt.fit(key, table, recipe), dpbt.fit(key, found, recipe, threads=3, memory=GIB))


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_releases_by_cells_are_those_of_products(tmp_path, monkeypatch, delta):
    """In memory by products, and in chunks by cells."""
    rng = np.random.default_rng(3)
    domain = {name: dpbt.domains.Numeric(0, 1, bins=40) for name in "xy"}
    columns = {name: rng.random(50_000) for name in "xy"}
    labels = columns["x"] + rng.random(50_000) > 1
    found = convert.convert_columns(domain, columns, labels, tmp_path / "t")
    recipe = trees(50_000, delta=delta, depth=4)
    by_cells = dpbt.fit(KEY, found, recipe, memory=2 * GIB)
    monkeypatch.setattr(layouts, "MANY_CELLS", 2**30)
    jax.clear_caches()
    assert_same(dpbt.fit(KEY, dpbt.table(domain, columns, labels), recipe), by_cells)
    jax.clear_caches()


def test_a_run_that_was_stopped_between_levels_gives_the_same_model(tmp_path, monkeypatch):
    """The second round is stopped after its first level, and drawn again from the start."""
    _, found = pair(tmp_path / "t", "two")
    recipe, kept = trees(rounds=2, criterion="gini"), tmp_path / "kept"
    expected = dpbt.fit(KEY, found, recipe)
    made, sums = [], passes.Passes.sums

    def stop(self, *arguments):
        made.append(1)
        if len(made) == 5:
            raise KilledError
        return sums(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(passes.Passes, "sums", stop)
        with pytest.raises(KilledError):
            dpbt.fit(KEY, found, recipe, checkpoint=kept)
    lines = (kept / "releases.jsonl").read_bytes()
    assert lines.count(b"\n") == 1
    assert_same(expected, dpbt.fit(KEY, found, recipe, checkpoint=kept))
    assert (kept / "releases.jsonl").read_bytes().startswith(lines)


@pytest.mark.slow
@pytest.mark.parametrize("make", [trees, rules])
def test_a_large_table_has_releases_of_64_bits(tmp_path, monkeypatch, make):
    """Class weights and errors have them; an index of a split needs none."""
    _, found = pair(tmp_path / "t", "two")
    small = dpbt.fit(KEY, found, make())
    monkeypatch.setattr(in_blocks, "MAX_ROWS", 1)
    large = dpbt.fit(KEY, found, make())
    for site, array in large.releases.items():
        selects = site.startswith(("split", "rule"))
        assert array.dtype == (np.int32 if selects else np.int64)
        np.testing.assert_array_equal(array, np.asarray(small.releases[site]))
    assert_same_predictions(tmp_path, large, small)


def test_splits_are_drawn_from_sums_beyond_int32():
    """A draw from 2^39 rows under a bound of 2^40 has the law of the exponential mechanism.

    A share differs by more than the tolerance with a chance below 10^-4.
    """
    rows = 2**40
    recipe = trees(rows, criterion="gini", epsilon=8, rounds=1, depth=1)
    assert dpbt.ledger(recipe).rows == rows
    learner, public = recipe.learner, recipe.public()
    example = learner.hypotheses.prepare(learner.hypotheses.example())
    view = View(example, jnp.zeros(1), recipe.params, public)
    asked = boundary.describe(learner.program, view)["split_0"]

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

    def numbers(recipe):
        stages = memory._stages(found, recipe)
        return [[asked.numbers for asked in stage] for stage in stages]

    levels = [[2, 2 * (splits + 1)], [4, 4 * (splits + 1)], [8]]
    assert numbers(trees(depth=2)) == levels
    assert numbers(trees(depth=1)) == [[2 * (splits + 1)], [4]]
    assert numbers(rules()) == [[2 * splits + 2]]
    forest = recipes.rf_e(epsilon=1, rows=700, depth=3)
    assert numbers(forest) == [[16]]  # of which eight labels are drawn
    with pytest.raises(ValueError, match="memory must be at least"):
        plan_for(found, trees(depth=2), 0.69 * GIB, 2)
    manifest = msgspec.structs.replace(found.manifest, rows_per_block=2**20)
    large = dataclasses.replace(found, capacity=2**24, manifest=manifest)
    shallow, deep = (plan_for(large, trees(depth=depth), 1.5 * GIB, 2) for depth in (3, 12))
    assert deep.block < shallow.block
    assert not shallow.scratch


def test_sums_of_many_splits_are_refused_for_their_memory(tmp_path):
    domain = {f"x{k}": dpbt.domains.Numeric(0, 1, bins=256) for k in range(20)}
    columns = {name: np.zeros(9) for name in domain}
    found = convert.convert_columns(domain, columns, np.arange(9) > 4, tmp_path / "t")
    with pytest.raises(ValueError, match=r"the sums of a pass take .* use less depth$"):
        plan_for(found, trees(9, depth=12), 2 * GIB, 2)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [3, 8])
@pytest.mark.parametrize(("bins", "by_cells"), [(8, False), (64, True)])
def test_a_pass_takes_what_is_planned(tmp_path, monkeypatch, bins, by_cells, depth):
    """What XLA says that the program of each pass takes, for blocks of 2^14 rows."""
    rows, block = 20_000, 2**14
    domain = {name: dpbt.domains.Numeric(0, 1, bins=bins) for name in "wxyz"}
    rng = np.random.default_rng(0)
    columns = {name: rng.random(rows) for name in domain}
    found = convert.convert_columns(domain, columns, columns["x"] > 0.5, tmp_path / "t")
    recipe, asked = trees(rows, depth=depth, criterion="gini", rounds=1), []
    monkeypatch.setattr(in_blocks, "plan_for", lambda *_: MemoryPlan(block, 1, False))
    for name in ("_rounds", "_later_stage"):
        program = getattr(passes, name)

        def noted(*arguments, program=program):
            *arrays, stage = arguments
            shapes = jax.eval_shape(lambda *arrays: arrays, *arrays)
            asked.append((program, (*shapes, stage)))
            return program(*arguments)

        monkeypatch.setattr(passes, name, noted)
    dpbt.fit(KEY, found, recipe)

    row, together = memory._work_bytes(found, recipe)
    numbers = max(sum(each.numbers for each in stage) for stage in memory._stages(found, recipe))
    planned = block * (row + 52) + together + 4 * numbers
    taken = []
    for program, arguments in asked:
        stats = program.lower(*arguments).compile().memory_analysis()
        taken.append(stats.temp_size_in_bytes + stats.output_size_in_bytes)
    laid = jax.eval_shape(layouts.prepare, jax.tree.map(jnp.asarray, layouts_of(domain, columns)))
    assert (laid.cells is not None) == by_cells
    assert planned / 8 < max(taken) < planned, (max(taken), planned)


def layouts_of(domain, columns):
    """The table in memory."""
    return dpbt.table(domain, columns, columns["x"] > 0.5)


def test_sums_of_a_level_wait_for_the_splits_above():
    recipe = trees(depth=2)
    stages = ("error_0", "split_0"), ("error_1", "split_1"), ("leaf",)
    assert pricing.stages(recipe, "rounds") == stages
    assert pricing.stages(rules(), "rounds") == (("rule",),)
    with pytest.raises(ValueError, match=r"'leaf' is of no boundary\.Total"):
        pricing.stages(recipes.bdpe(epsilon=1, rows=10, calibration="published"), "rounds")


LAPLACE = mechanisms.discrete_laplace


ONE = {"sensitivity": 1.0, "moves": 1, "theorem": "none", "scale": 1.0}


def stages_of(program):
    def make(weights):
        return View(None, weights, Noise({}), None)

    return tracing.stages(tracing.follows(program, make, jnp.ones(3)))


def test_stages_follow_from_what_sums_read():
    """Through functions compiled on their own, which are looked into, and through loops."""

    @jax.jit
    def both(weights, first):
        return jnp.sum(weights), jnp.sum(weights >> jnp.clip(first, 0, 6))

    def program(draw, table, weights, budget, public):
        whole = weights.astype(jnp.int32)
        alone = draw("alone", LAPLACE, boundary.Total(jnp.sum(whole)), **ONE)
        plain, after = both(whole, alone)
        draw("plain", LAPLACE, boundary.Total(plain), **ONE)
        second = draw("after", LAPLACE, boundary.Total(after), **ONE)
        looped = jax.lax.fori_loop(0, 3, lambda k, total: total + second * whole[k], 0)
        draw("looped", LAPLACE, boundary.Total(looped), **ONE)
        draw("last", LAPLACE, boundary.Total(plain), **ONE)

    assert stages_of(program) == (("alone", "plain"), ("after",), ("looped", "last"))


def test_public_randomness_is_drawn_before_any_row_is_read():
    def program(draw, table, weights, budget, public):
        total = draw("total", LAPLACE, boundary.Total(jnp.sum(weights).astype(jnp.int32)), **ONE)
        sides = jnp.maximum(total, 2)
        draw("coin", mechanisms.uniform, jnp.zeros(1, jnp.int32), scale=sides, theorem="none")

    with pytest.raises(ValueError, match=r"'coin' asks for follows from \['total'\]"):
        stages_of(program)


def test_what_is_told_of_a_draw_follows_from_no_row():
    def program(draw, table, weights, budget, public):
        total = boundary.Total(jnp.sum(weights).astype(jnp.int32))
        draw("sum", LAPLACE, total, **{**ONE, "scale": jnp.max(weights)})

    with pytest.raises(ValueError, match=r"'sum' asks for follows from \['the private rows'\]"):
        stages_of(program)


@pytest.mark.parametrize(
    ("statistic", "words"),
    [
        (lambda weights: jnp.sum(weights), "'sum' is of no boundary.Total"),
        (lambda weights: boundary.Total(0.7 * jnp.sum(weights)), r"int32, got \['float32'\]"),
    ],
)
def test_a_sum_is_a_total_of_whole_numbers(statistic, words):
    def program(draw, table, weights, budget, public):
        draw("sum", LAPLACE, statistic(weights), **ONE)

    with pytest.raises(ValueError, match=words):
        stages_of(program)


def test_a_prologue_has_one_pass():
    def program(draw, table, weights, budget, public):
        whole = weights.astype(jnp.int32)
        first = draw("first", LAPLACE, boundary.Total(jnp.sum(whole)), **ONE)
        draw("second", LAPLACE, boundary.Total(jnp.sum(whole * first)), **ONE)

    start = lambda release, budget: jnp.float32(0)  # noqa: E731
    prologue = Prologue(program, start, "two passes")
    recipe = trees(depth=1)
    learner = recipe.learner._replace(prologue=prologue)
    with pytest.raises(ValueError, match="the prologue has sums that follow from its own draws"):
        pricing.check_in_parts(dataclasses.replace(recipe, learner=learner))


@pytest.mark.slow
def test_rounds_that_read_no_scores_share_the_passes_of_their_levels(tmp_path, monkeypatch):
    table, found = pair(tmp_path / "t", "two", 700, 700, 100)
    learner = greedy_tree.greedy_tree(
        2, losses.as_family("m_alpha"), losses.as_family("matsushita"), True, ADD_REMOVE
    )
    recipe = recipes.custom(learner, epsilon=3.0, rounds=5, rows=700)
    assert recipe.independent
    monkeypatch.setattr(in_blocks, "plan_for", lambda *_: MemoryPlan(64, 2, False, 2))
    assert_same(dpbt.fit(KEY, table, recipe), dpbt.fit(KEY, found, recipe))


@pytest.mark.slow
def test_scores_in_a_file_change_nothing(tmp_path, monkeypatch):
    _, found = pair(tmp_path / "t", "two")
    expected = dpbt.fit(KEY, found, trees())
    monkeypatch.setattr(in_blocks, "plan_for", lambda *_: MemoryPlan(64, 2, True))
    assert_same(expected, dpbt.fit(KEY, found, trees()))


def test_recipes_of_custom_learners_have_rows_for_chunks():
    for make in (trees, rules, clipped):
        assert dpbt.ledger(make(10**8)).rows == 10**8
    numbers = weighting.LazyNumbers(np.float32(0.2), np.float32(0.1))
    with pytest.raises(ValueError, match="at most 16777216"):
        rules(10**8, weight_update=weighting.lazy_bregman(), weighting=numbers)
    with pytest.raises(ValueError, match=f"at most {MAX_ROWS_IN_BLOCKS}"):
        trees(2 * MAX_ROWS_IN_BLOCKS)
