"""Tables in chunks: the same cells and releases as in memory, wherever a run is stopped."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.base import GRID, MAX_ROWS, MAX_ROWS_IN_BLOCKS
from dpbt.data import convert
from dpbt.data.domains import Nominal, Numeric
from dpbt.privacy import draws, mechanisms, totals
from dpbt.privacy.boundary import DrawSpec
from dpbt.privacy.mechanisms.additive import SATURATION
from dpbt.release import scoring
from dpbt.training import blocks as in_blocks
from dpbt.training.memory import plan_for
from dpbt.training.passes import _slices

pytestmark = pytest.mark.filterwarnings("ignore:research key")

DOMAIN = {
    "age": Numeric(0, 100, bins=16, missing=True),
    "income": Numeric(0, 1, bins=8),
    "work": Nominal(["state", "private", "none"], other="none"),
}
CLASSES = Nominal(["low", "middle", "high"])
NUMBER = Numeric(0, 10)
KEY = jax.random.key(5)
GIB = 2**30


def columns(rows, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.uniform(-10, 120, rows)
    age[rng.random(rows) < 0.1] = np.nan
    work = np.array(["state", "private", "none", "other", "?"])[rng.integers(0, 5, rows)]
    return {"age": age, "income": rng.random(rows), "work": work}


def labels(cells, kind, seed=1):
    rng = np.random.default_rng(seed)
    number = (
        np.nan_to_num(cells["age"]) / 20 + 5 * cells["income"] + rng.normal(0, 1, len(cells["age"]))
    )
    if kind == "number":
        return np.where(rng.random(len(number)) < 0.05, np.nan, number)
    words = ["low", "middle", "high", "?"] if kind == "classes" else ["no", "no", "yes", "?"]
    place = np.clip(number / 3, 0, 2).astype(int)
    return np.array(words)[np.where(rng.random(len(number)) < 0.05, 3, place)]


DECLARED = {
    "two": {"negative": "no", "positive": "yes"},
    "classes": {"target": CLASSES},
    "number": {"target": NUMBER},
}


def pair(folder, kind, rows=700, capacity=None, each=256, weights=False):
    """The same rows in memory and in chunks."""
    cells = columns(rows)
    options = dict(DECLARED[kind], capacity=capacity)
    if weights:
        weight = np.random.default_rng(2).uniform(-1, 4, rows)
        options |= {"sample_weight": weight, "max_weight": 3.0}
    given = labels(cells, kind)
    table = dpbt.table(DOMAIN, cells, given, **options)
    in_chunks = convert.convert_columns(
        DOMAIN, cells, given, folder, rows_per_block=each, **options
    )
    return table, in_chunks


def recipe_for(kind, rows, delta=1e-6, relation="add_remove", rounds=5, **more):
    once = {} if kind == "number" else {"scores_fraction": 0.05}
    target = DECLARED[kind].get("target")
    common = {
        "domain": DOMAIN,
        "target": target,
        "relation": relation,
        "attributes_per_tree": (1, 2),
    }
    options = {**common, "marginals_fraction": 0.2, "depth": 3, **once, **more}
    return recipes.oblivious_boost(epsilon=2, delta=delta, rows=rows, rounds=rounds, **options)


def assert_same(one, other):
    for left, right in zip(
        jax.tree.leaves((one.transcript, one.hypotheses, one.intercept)),
        jax.tree.leaves((other.transcript, other.hypotheses, other.intercept)),
        strict=True,
    ):
        np.testing.assert_array_equal(np.asarray(left), np.asarray(right))
        assert left.dtype == right.dtype


def assert_same_predictions(folder, large, small):
    """The models of a large table and of a small one are one, also when the first was saved."""
    jax.tree.map(np.testing.assert_array_equal, large.hypotheses, small.hypotheses)
    large.save(folder / "model.json", domain=DOMAIN)
    rows = columns(50, seed=4)
    np.testing.assert_array_equal(
        dpbt.load(folder / "model.json").predict(rows),
        dpbt.predict(small, dpbt.domains.encode(DOMAIN, rows)),
    )


# Learning.

CASES = {
    "two": ("two", 1e-6, "add_remove", False, 100),
    "classes": ("classes", 0.0, "add_remove", False, 333),
    "number": ("number", 1e-6, "replace_one", True, 700),
}


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[] if case == "two" else pytest.mark.slow) for case in CASES],
)
def test_releases_are_those_of_a_fit_in_memory(tmp_path, case):
    kind, delta, relation, weights, each = CASES[case]
    table, found = pair(tmp_path / "t", kind, 700, None, each, weights)
    recipe = recipe_for(kind, 700, delta, relation)
    assert_same(dpbt.fit(KEY, table, recipe), dpbt.fit(KEY, found, recipe))


@pytest.mark.slow
@pytest.mark.parametrize("kind", DECLARED)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_releases_are_those_of_a_fit_in_memory_on_many_rows(tmp_path, kind, delta, relation):
    table, found = pair(tmp_path / "t", kind, 60_000, 70_000, 9_999, weights=True)
    recipe = recipe_for(kind, 70_000, delta, relation, rounds=24)
    assert_same(dpbt.fit(KEY, table, recipe), dpbt.fit(KEY, found, recipe, threads=3, memory=GIB))


@pytest.mark.parametrize("fresh", [False, True], ids=["research", "release"])
@pytest.mark.parametrize("kind", ["oblivious", pytest.param("greedy", marks=pytest.mark.slow)])
def test_later_rounds_compile_nothing(tmp_path, kind, fresh):
    """The memory of a program that each round compiles grows with the rounds."""
    key = dpbt.fresh_key() if fresh else KEY
    greedy = recipes.bdpe(epsilon=2, rows=700, rounds=5, depth=2)
    recipe = greedy if kind == "greedy" else recipe_for("two", 700)
    _, found = pair(tmp_path / "t", "two")
    compiled, counts = [], []

    def note(event, _, **__):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(event)

    def progress(state):
        if state.stage == "rounds":
            counts.append(len(compiled))

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        jax.jit(lambda number: number + 1)(1)
        assert compiled  # the event has this name
        dpbt.fit(key, found, recipe, progress=progress)
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
    assert len(set(counts[2:])) == 1, counts


def test_room_for_rows_is_read_in_place(tmp_path):
    """A copy of each block took half the time of a round, most of it in the system."""
    _, found = pair(tmp_path / "t", "number", weights=True)
    for rows in (1, 63, 1000, 2**19):
        for array in found.room(rows):
            read = jax.device_put(array, jax.devices("cpu")[0])
            assert read.unsafe_buffer_pointer() == array.ctypes.data


def test_scores_in_a_file_change_nothing(tmp_path, monkeypatch):
    table, found = pair(tmp_path / "t", "two", 700, None, 100)
    recipe = recipe_for("two", 700)
    room = plan_for(found, recipe, GIB, 2)
    assert not room.scratch
    monkeypatch.setattr(in_blocks, "plan_for", lambda *_: room.__class__(64, 2, True))
    assert_same(dpbt.fit(KEY, table, recipe), dpbt.fit(KEY, found, recipe))


def test_memory_bounds_the_blocks(tmp_path):
    _, found = pair(tmp_path / "t", "two")
    recipe = recipe_for("two", 700)
    with pytest.raises(ValueError, match="memory must be at least"):
        plan_for(found, recipe, 2**20, 2)
    large = dataclasses.replace(found, capacity=2**32)
    assert plan_for(large, recipe, 2 * GIB, 2).scratch
    assert not plan_for(large, recipe, 32 * GIB, 2).scratch


@pytest.mark.parametrize(("classes", "rows"), [(3, 2**19), (8, 2**18), (255, 2**14)])
def test_scores_of_several_classes_bound_the_blocks(tmp_path, classes, rows):
    target = Nominal(tuple(map(str, range(classes))))
    cells, rng = columns(10), np.random.default_rng(0)
    given = rng.choice(target.values, 10)
    found = convert.convert_columns(DOMAIN, cells, given, tmp_path / "t", target=target)
    recipe = recipes.oblivious_boost(epsilon=1, rows=10, domain=DOMAIN, target=target, rounds=1)
    assert plan_for(found, recipe, 64 * GIB, 1).block == rows


@pytest.mark.parametrize("bound", [1, 10, 455, 10**6])
@pytest.mark.parametrize("size", [7, 64, 300])
def test_the_first_present_rows_count(tmp_path, bound, size):
    table, found = pair(tmp_path / "t", "two", 500, None, 128)
    present = np.asarray(table.present)
    expected = present & (np.cumsum(present) <= bound)
    counted = []
    for block in _slices(found, bound, size):
        rows = found.room(block.rows)
        found.read(block.block, block.first, block.rows, rows)
        if block.admitted is not None:
            rows.present[:] &= np.cumsum(rows.present) <= block.admitted
        counted.append(rows.present)
    np.testing.assert_array_equal(np.concatenate(counted), expected)


class KilledError(Exception):
    pass


@pytest.mark.parametrize("stage", [("prologue", 1), ("rounds", 1), ("rounds", 3), ("epilogue", 0)])
def test_a_run_that_was_stopped_gives_the_same_model(tmp_path, stage):
    _, found = pair(tmp_path / "t", "two")
    recipe, kept = recipe_for("two", 700), tmp_path / "kept"

    def stop(state):
        if (state.stage, state.done) == stage:
            raise KilledError

    with pytest.raises(KilledError):
        dpbt.fit(KEY, found, recipe, checkpoint=kept, progress=stop)
    lines = (kept / "releases.jsonl").read_bytes() if (kept / "releases.jsonl").exists() else b""
    (kept / "releases.jsonl").write_bytes(lines + b"half a li")  # as a crash may leave it
    again = dpbt.fit(KEY, found, recipe, checkpoint=kept)
    assert_same(dpbt.fit(KEY, found, recipe), again)
    assert (kept / "releases.jsonl").read_bytes().startswith(lines)
    assert_same(again, dpbt.fit(KEY, found, recipe, checkpoint=kept))  # all is there


def test_a_checkpoint_is_of_one_run(tmp_path):
    _, found = pair(tmp_path / "t", "two")
    _, other = pair(tmp_path / "u", "two", 650)
    recipe, kept = recipe_for("two", 700), tmp_path / "kept"
    dpbt.fit(KEY, found, recipe, checkpoint=kept)
    with pytest.raises(ValueError, match="another key"):
        dpbt.fit(jax.random.key(6), found, recipe, checkpoint=kept)
    with pytest.raises(ValueError, match="another recipe"):
        dpbt.fit(KEY, found, recipe_for("two", 701), checkpoint=kept)
    with pytest.raises(ValueError, match="another table"):
        dpbt.fit(KEY, other, recipe, checkpoint=kept)
    words = np.asarray(jax.random.key_data(KEY)).tobytes().hex()
    assert all(words not in path.read_text() for path in kept.iterdir())
    lines = (kept / "releases.jsonl").read_text()
    (kept / "releases.jsonl").write_text(lines.replace("1", "2", 1))
    with pytest.raises(ValueError, match="line 1: the line was changed"):
        dpbt.fit(KEY, found, recipe, checkpoint=kept)


def test_what_a_fit_on_chunks_refuses(tmp_path):
    table, found = pair(tmp_path / "t", "two")
    recipe = recipe_for("two", 700)
    with pytest.raises(ValueError, match=r"learned from by dpbt\.fit"):
        dpbt.boost(KEY, found, recipe)
    with pytest.raises(ValueError, match="checkpoint is for tables in blocks"):
        dpbt.fit(KEY, table, recipe, checkpoint=tmp_path / "kept")
    with pytest.raises(ValueError, match="keep_withheld is for tables in memory"):
        dpbt.fit(KEY, found, recipe, keep_withheld=True)
    published = recipes.bdpe(epsilon=1, rows=700, calibration="published")
    with pytest.raises(ValueError, match="bdpe of the published calibration reads all rows"):
        dpbt.fit(KEY, found, published)
    with pytest.raises(ValueError, match="more rows present") as told:
        dpbt.fit(KEY, found, recipe_for("two", 600))
    present = sum(chunk.present for chunk in found.blocks)
    assert str(present) not in str(told.value)
    with pytest.raises(ValueError, match="must be uint8"):
        dpbt.fit(KEY, found, recipe_for("classes", 700))
    path = found.path(1)
    damaged = bytearray(path.read_bytes())
    damaged[5] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="changed or damaged"):
        dpbt.fit(KEY, found, recipe)


def test_a_table_in_chunks_is_predicted_a_block_at_a_time(tmp_path, monkeypatch):
    table, found = pair(tmp_path / "t", "two", 700, 730)
    recipe = recipes.random_forest(epsilon=1, rows=700, rounds=3, depth=2)
    model = dpbt.fit(KEY, table, recipe, jax.random.key(6))
    model.save(tmp_path / "model.json", domain=DOMAIN)
    for each in (model, dpbt.load(tmp_path / "model.json")):
        expected = dpbt.decision_function(each, table)
        with monkeypatch.context() as patched:
            patched.setattr(scoring, "BLOCK_ROWS", 100)
            np.testing.assert_array_equal(dpbt.decision_function(each, found), expected)
        np.testing.assert_array_equal(dpbt.predict(each, found), np.asarray(expected) > 0)


# Sums of many rows.


@pytest.mark.parametrize("mechanism", [mechanisms.discrete_laplace, mechanisms.rounded_gaussian])
@pytest.mark.parametrize("scale", [0.0, 0.7, 5000.0, 2.0**20])
def test_large_totals_have_the_noise_of_small_ones(mechanism, scale):
    key, scale = jax.random.key(1), jnp.float32(scale)
    small = np.array([0, 1, -1, 12345, -(2**24) * GRID, 2**24 * GRID, 77], np.int64)
    request = draws.Request(
        "sums", mechanism, None, scale, 1.0, 1.0, 1, "none", 1, "sums", "", True
    )
    static = request._replace(scale=None)
    made = static, small.shape, np.dtype("int32"), lambda total: total, small.size
    asked = {"sums": DrawSpec(scale, scale, (), *made)}
    found = totals.draw(key, {"sums": small}, asked, small=True)["sums"]
    site_key = dpbt.boundary.site_key(key, "sums")
    expected = mechanism.sample(site_key, jnp.asarray(small.astype(np.int32)), scale)
    np.testing.assert_array_equal(found, np.asarray(expected))
    assert found.dtype == np.int32

    # Steps of the grid divide 2^30, so a shift by multiples of it shifts the output.
    shift = np.arange(-3, 4) * 2**43
    large = totals.draw(key, {"sums": small + shift}, asked, small=False)["sums"]
    near = totals.draw(key, {"sums": small}, asked, small=False)["sums"]
    np.testing.assert_array_equal(large - shift, near)
    assert large.dtype == np.int64
    assert np.abs(near).max() <= SATURATION


def test_sums_go_beyond_int32(tmp_path):
    """A learner sees float32 of releases of 64 bits, and leaves are those of their ratio."""
    part = {"sums": np.full(4, 2**31 - 1, np.int32)}
    found = None
    for _ in range(100):
        found = totals.add(found, part)
    assert found["sums"].tolist() == [100 * (2**31 - 1)] * 4
    read = totals.read({"sums": found["sums"]})["sums"]
    assert read.dtype == jnp.float32
    assert float(read[0]) == pytest.approx(100 * 2.0**31, rel=1e-6)


def test_a_large_table_is_learned_with_releases_of_64_bits(tmp_path, monkeypatch):
    _, found = pair(tmp_path / "t", "two")
    recipe = recipe_for("two", 700)
    small = dpbt.fit(KEY, found, recipe)
    monkeypatch.setattr(in_blocks, "MAX_ROWS", 1)
    large = dpbt.fit(KEY, found, recipe)
    for site, array in large.releases.items():
        assert array.dtype == np.int64
        np.testing.assert_array_equal(array, np.asarray(small.releases[site]))
    np.testing.assert_array_equal(large.hypotheses.leaf, small.hypotheses.leaf)
    large.save(tmp_path / "model.json", domain=DOMAIN)
    assert dpbt.load(tmp_path / "model.json").features == 3
    assert "rows" in dpbt.statement(large)


def test_rows_of_recipes_for_chunks():
    for rows in (2**24 + 2, 10**8, MAX_ROWS_IN_BLOCKS):
        recipe = recipe_for("two", rows, delta=1e-13)
        assert dpbt.ledger(recipe).rows == rows
    with pytest.raises(ValueError, match="use 100000008 in place of 100000001"):
        recipe_for("two", 100_000_001)
    with pytest.raises(ValueError, match="at most 1099511627776"):
        recipe_for("two", 2 * MAX_ROWS_IN_BLOCKS)
    with pytest.raises(ValueError, match="at most 16777216"):
        recipes.bdpe(epsilon=1, rows=MAX_ROWS + 2, calibration="published")
    assert math.isfinite(dpbt.ledger(recipes.auto(epsilon=1, rows=10**9, domain=DOMAIN)).epsilon)
