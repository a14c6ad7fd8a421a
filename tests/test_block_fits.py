"""Tables in blocks: the releases of memory, whatever the blocks, the passes and the keys."""

import dataclasses

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import pytest

import dpbt
from dpbt import losses, recipes, weighting
from dpbt.common.types import ADD_REMOVE, MAX_ROWS, MAX_ROWS_IN_BLOCKS
from dpbt.data import convert
from dpbt.data.domains import Nominal, Numeric
from dpbt.learners import greedy_tree, lazybb
from dpbt.learners import trees as layouts
from dpbt.learners.hypotheses import Bins
from dpbt.release import scoring
from dpbt.training import blocks as in_blocks
from dpbt.training import passes, processes
from dpbt.training.passes import MemoryPlan, plan_for

pytestmark = pytest.mark.filterwarnings("ignore:research key")

DOMAIN = {
    "age": Numeric(0, 100, bins=16, missing=True),
    "income": Numeric(0, 1, bins=8),
    "work": Nominal(["state", "private", "none"], other="none"),
}
CLASSES = Nominal(["low", "middle", "high"])
NUMBER = Numeric(0, 10)
KEY, PUBLIC = jax.random.key(5), jax.random.key(6)
GIB = 2**30


def columns(rows, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.uniform(-10, 120, rows)
    age[rng.random(rows) < 0.1] = np.nan
    work = np.array(["state", "private", "none", "other", "?"])[rng.integers(0, 5, rows)]
    return {"age": age, "income": rng.random(rows), "work": work}


def labels(bins, kind, seed=1):
    rng = np.random.default_rng(seed)
    number = (
        np.nan_to_num(bins["age"]) / 20 + 5 * bins["income"] + rng.normal(0, 1, len(bins["age"]))
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
    """The same rows in memory and in blocks."""
    bins = columns(rows)
    options = dict(DECLARED[kind], capacity=capacity)
    if weights:
        weight = np.random.default_rng(2).uniform(-1, 4, rows)
        options |= {"sample_weight": weight, "max_weight": 3.0}
    given = labels(bins, kind)
    table = dpbt.table(DOMAIN, bins, given, **options)
    in_blocks_too = convert.convert_columns(
        DOMAIN, bins, given, folder, rows_per_block=each, **options
    )
    return table, in_blocks_too


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


def forest(rows=700, **more):
    return recipes.random_forest(**{"epsilon": 2, "rounds": 5, "depth": 3, **more}, rows=rows)


def trees(rows=700, **more):
    return recipes.bdpe(**{"epsilon": 3, "rounds": 3, "depth": 2, **more}, rows=rows)


def rules(rows=700, **more):
    learner = lazybb.one_rule(ADD_REMOVE)
    return recipes.custom(learner, **{"epsilon": 3.0, "rounds": 3, **more}, rows=rows)


def clipped(rows=700, **more):
    families = losses.as_family("gini"), losses.as_family(losses.log)
    learner = greedy_tree.greedy_tree(greedy_tree.Config(2, *families, False, ADD_REMOVE))
    numbers = weighting.MirrorNumbers(np.float32(1), np.float32(0.4))
    weights = {"weight_update": weighting.clipped_mirror(losses.log), "weighting": numbers}
    return recipes.custom(learner, **{"epsilon": 3.0, "rounds": 3, **weights, **more}, rows=rows)


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


def small_passes(monkeypatch, scratch=False):
    """Let a pass have slices of 64 rows, and serve two rounds where it can."""

    def plan(table, recipe, *_):
        return MemoryPlan(64, 2, scratch, 2 if recipe.independent else 1)

    monkeypatch.setattr(in_blocks, "plan_for", plan)


# Releases.

CASES = {
    "two": (lambda: recipe_for("two", 700), "two", False, 100),
    "classes": (lambda: recipe_for("classes", 700, 0.0), "classes", False, 333),
    "number": (lambda: recipe_for("number", 700, relation="replace_one"), "number", True, 700),
    "forest": (forest, "two", True, 100),
    "disjoint": (lambda: forest(disjoint=True, rounds=3, delta=1e-6), "two", False, 333),
    "uniform": (lambda: forest(negative="uniform", calibration="published"), "two", False, 99),
    "objective": (lambda: trees(rounds=2), "two", True, 100),
    "replaced": (lambda: trees(criterion="error", relation="replace_one"), "two", False, 700),
    "scheduled": (
        lambda: trees(alpha=lambda level: 1 / (1 + level), loss=losses.log, delta=1e-6),
        "two",
        False,
        90,
    ),
    "not private": (lambda: trees(epsilon=np.inf, depth=4), "two", False, 256),
    "clipped": (clipped, "two", True, 128),
    "rules": (rules, "two", True, 300),
}
"""Name -> (recipe, kind of target, whether rows have weights, rows a block)."""

FAST = ("two", "disjoint", "objective")


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[] if case in FAST else pytest.mark.slow) for case in CASES],
)
def test_releases_are_those_of_a_fit_in_memory(tmp_path, monkeypatch, case):
    """Of small slices, with scores in a file."""
    make, kind, weights, each = CASES[case]
    table, found = pair(tmp_path / "t", kind, 700, None, each, weights)
    recipe = make()
    in_memory = dpbt.fit(KEY, table, recipe, PUBLIC)
    small_passes(monkeypatch, scratch=True)
    assert_same(in_memory, dpbt.fit(KEY, found, recipe, PUBLIC))


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: recipe_for("two", 70_000, rounds=24),
        lambda: forest(70_000, disjoint=True, rounds=7, depth=9, delta=1e-6),
        lambda: recipes.rf_e(epsilon=1, rows=70_000, rounds=7, depth=9),
        lambda: trees(70_000, rounds=12, depth=5),
        lambda: trees(70_000, criterion="gini", delta=1e-6, rounds=12, depth=5),
    ],
)
def test_releases_are_those_of_a_fit_in_memory_on_many_rows(tmp_path, make):
    table, found = pair(tmp_path / "t", "two", 60_000, 70_000, 9_999, weights=True)
    recipe, keys = make(), (dpbt.fresh_key(), dpbt.fresh_key())
    in_memory = dpbt.fit(keys[0], dpbt.checks.on_device(table), recipe, keys[1])
    in_parts = dpbt.fit(keys[0], found, recipe, keys[1], threads=3, memory=2 * GIB)
    assert_same(in_memory, in_parts)


@pytest.mark.slow
def test_releases_by_bins_are_those_of_products(tmp_path, monkeypatch):
    """In memory by products, and in blocks by bins."""
    rng = np.random.default_rng(3)
    domain = {name: dpbt.domains.Numeric(0, 1, bins=40) for name in "xy"}
    columns = {name: rng.random(50_000) for name in "xy"}
    labels = columns["x"] + rng.random(50_000) > 1
    found = convert.convert_columns(domain, columns, labels, tmp_path / "t")
    recipe = trees(50_000, depth=4)
    by_bins = dpbt.fit(KEY, found, recipe, memory=2 * GIB)
    monkeypatch.setattr(layouts, "MANY_CELLS", 2**30)
    jax.clear_caches()
    assert_same(dpbt.fit(KEY, dpbt.table(domain, columns, labels), recipe), by_bins)
    jax.clear_caches()


@pytest.mark.slow
def test_rounds_that_read_no_scores_share_the_passes_of_their_levels(tmp_path, monkeypatch):
    table, found = pair(tmp_path / "t", "two", 700, 700, 100)
    families = losses.as_family("m_alpha"), losses.as_family("matsushita")
    learner = greedy_tree.greedy_tree(greedy_tree.Config(2, *families, True, ADD_REMOVE))
    recipe = recipes.custom(learner, epsilon=3.0, rounds=5, rows=700)
    assert recipe.independent
    small_passes(monkeypatch)
    assert_same(dpbt.fit(KEY, table, recipe), dpbt.fit(KEY, found, recipe))


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


LARGE = {
    "oblivious": lambda: recipe_for("two", 700),
    "forest": lambda: forest(rounds=3),
    "disjoint": lambda: forest(disjoint=True, rounds=3),
    "trees": trees,
    "rules": rules,
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n == "oblivious" else pytest.mark.slow) for n in LARGE],
)
def test_a_large_table_is_learned_with_releases_of_64_bits(tmp_path, monkeypatch, name):
    """Sums have them; an index of a split, and public randomness, need none."""
    _, found = pair(tmp_path / "t", "two")
    recipe = LARGE[name]()
    small = dpbt.fit(KEY, found, recipe, PUBLIC)
    monkeypatch.setattr(in_blocks, "MAX_ROWS", 1)
    large = dpbt.fit(KEY, found, recipe, PUBLIC)
    for site, array in large.releases.items():
        wide = site.startswith(("leaf", "error", "marginals", "histogram", "classes"))
        assert array.dtype == np.int64 or not wide
        np.testing.assert_array_equal(array, np.asarray(small.releases[site]))
    assert any(array.dtype == np.int64 for array in large.releases.values()) or name == "rules"
    assert_same_predictions(tmp_path, large, small)
    assert "rows" in dpbt.statement(large)


def test_a_table_in_blocks_is_predicted_a_block_at_a_time(tmp_path, monkeypatch):
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


# Memory.


def test_memory_bounds_the_slices_the_scores_and_the_rounds_of_a_pass(tmp_path):
    _, found = pair(tmp_path / "t", "two")
    recipe = recipe_for("two", 700)
    with pytest.raises(ValueError, match="memory must be at least"):
        plan_for(found, recipe, 2**20, 2)
    assert not plan_for(found, recipe, GIB, 2).scratch
    large = dataclasses.replace(found, capacity=2**32)
    assert plan_for(large, recipe, 2 * GIB, 2).scratch
    assert not plan_for(large, recipe, 32 * GIB, 2).scratch
    assert plan_for(found, recipe, 4 * GIB, 2).rounds == 1

    # Of forests, whose rounds share a pass and keep no scores.
    assert plan_for(found, forest(), GIB, 2).rounds == 5
    deep = forest(depth=18, rounds=21)
    less, more = (plan_for(found, deep, memory * GIB, 2).rounds for memory in (2, 6))
    assert 1 <= less < more <= 21
    assert not plan_for(dataclasses.replace(found, capacity=2**40), forest(), GIB, 2).scratch
    with pytest.raises(ValueError, match=r"memory must be at least .* the model takes"):
        dpbt.fit(KEY, found, forest(depth=18, rounds=1000), PUBLIC)

    # Of greedy trees, whose levels have many sums.
    manifest = msgspec.structs.replace(found.manifest, rows_per_block=2**20)
    many = dataclasses.replace(found, capacity=2**24, manifest=manifest)
    shallow, deep = (plan_for(many, trees(depth=depth), 1.5 * GIB, 2) for depth in (3, 12))
    assert deep.block < shallow.block
    assert not shallow.scratch


@pytest.mark.parametrize(("classes", "rows"), [(3, 2**19), (8, 2**18), (255, 2**14)])
def test_scores_of_several_classes_bound_the_blocks(tmp_path, classes, rows):
    target = Nominal(tuple(map(str, range(classes))))
    bins, rng = columns(10), np.random.default_rng(0)
    given = rng.choice(target.values, 10)
    found = convert.convert_columns(DOMAIN, bins, given, tmp_path / "t", target=target)
    recipe = recipes.oblivious_boost(epsilon=1, rows=10, domain=DOMAIN, target=target, rounds=1)
    assert plan_for(found, recipe, 64 * GIB, 1).block == rows


def test_sums_of_many_splits_are_refused_for_their_memory(tmp_path):
    domain = {f"x{k}": dpbt.domains.Numeric(0, 1, bins=256) for k in range(20)}
    columns = {name: np.zeros(9) for name in domain}
    found = convert.convert_columns(domain, columns, np.arange(9) > 4, tmp_path / "t")
    with pytest.raises(ValueError, match=r"the sums of a pass .* less depth"):
        plan_for(found, trees(9, depth=12), 2 * GIB, 2)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [3, 8])
@pytest.mark.parametrize(("bins", "by_bins"), [(8, False), (64, True)])
def test_a_pass_takes_what_is_planned(tmp_path, monkeypatch, bins, by_bins, depth):
    """What XLA says that the program of each pass takes, for slices of 2^14 rows."""
    rows, block = 20_000, 2**14
    domain = {name: Numeric(0, 1, bins=bins) for name in "wxyz"}
    rng = np.random.default_rng(0)
    columns = {name: rng.random(rows) for name in domain}
    found = convert.convert_columns(domain, columns, columns["x"] > 0.5, tmp_path / "t")
    recipe, asked = trees(rows, depth=depth, criterion="gini", rounds=1), []
    monkeypatch.setattr(in_blocks, "plan_for", lambda *_: MemoryPlan(block, 1, False))
    program = passes._summed

    def noted(*arguments):
        *arrays, part, stage = arguments
        shapes = jax.eval_shape(lambda *arrays: arrays, *arrays)
        asked.append((*shapes, part, stage))
        return program(*arguments)

    monkeypatch.setattr(passes, "_summed", noted)
    dpbt.fit(KEY, found, recipe)

    row, together = passes._work_bytes(found, recipe)
    planned = block * (row + 52) + together + 4 * passes._pass_numbers(found, recipe)
    taken = []
    for arguments in asked:
        stats = program.lower(*arguments).compile().memory_analysis()
        taken.append(stats.temp_size_in_bytes + stats.output_size_in_bytes)
    table = dpbt.table(domain, columns, columns["x"] > 0.5)
    laid = jax.eval_shape(layouts.prepare, jax.tree.map(jnp.asarray, table))
    assert isinstance(laid.asked, Bins) == by_bins
    assert planned / 8 < max(taken) < planned, (max(taken), planned)


# What is refused.


def test_what_a_fit_in_blocks_refuses(tmp_path, monkeypatch):
    table, found = pair(tmp_path / "t", "two")
    recipe = recipe_for("two", 700)
    with pytest.raises(ValueError, match=r"learned from by dpbt\.fit"):
        dpbt.boost(KEY, found, recipe)
    with pytest.raises(ValueError, match="checkpoint is for tables in blocks"):
        dpbt.fit(KEY, table, recipe, checkpoint=tmp_path / "kept")
    published = recipes.bdpe(epsilon=1, rows=700, calibration="published")
    with pytest.raises(ValueError, match="bdpe of the published calibration reads all rows"):
        dpbt.fit(KEY, found, published)
    with pytest.raises(ValueError, match="more rows present") as told:
        dpbt.fit(KEY, found, recipe_for("two", 600))
    present = sum(block.present for block in found.blocks)
    assert str(present) not in str(told.value)
    with pytest.raises(ValueError, match="must be uint8"):
        dpbt.fit(KEY, found, recipe_for("classes", 700))
    with pytest.raises(ValueError, match="'attribute' is public randomness: give public_key"):
        dpbt.fit(KEY, found, forest())
    with pytest.raises(ValueError, match="public_key must be independent of key"):
        dpbt.fit(KEY, found, forest(), KEY)

    # A weight update that reads scores: rounds side by side would follow from other scores.
    numbers = weighting.MirrorNumbers(np.float32(0))
    wrong = weighting.mirror("matsushita")._replace(reads_scores=False)
    other = dataclasses.replace(forest(), weight_update=wrong, weighting=numbers)
    for rows in (found, table):
        with pytest.raises(ValueError, match="declares reads_scores=False, and reads scores"):
            dpbt.fit(KEY, rows, other, PUBLIC)

    path = found.path(1)
    damaged = bytearray(path.read_bytes())
    damaged[5] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="changed or damaged"):
        dpbt.fit(KEY, found, recipe)


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
    monkeypatch.setattr(processes, "place_of", lambda *_: processes.Place(1, 700, 0))
    in_blocks.check(KEY, found, forest(), PUBLIC)
    with pytest.raises(ValueError, match="different values of public_key"):
        in_blocks.check(KEY, found, forest(), jax.random.key(7))
    in_blocks.check(KEY, found, forest(), PUBLIC)


def test_rows_of_recipes_for_blocks():
    for rows in (2**24 + 2, 10**8, MAX_ROWS_IN_BLOCKS):
        assert dpbt.ledger(recipe_for("two", rows, delta=1e-13)).rows == rows
    for make in (trees, rules, clipped):
        assert dpbt.ledger(make(10**8)).rows == 10**8
    with pytest.raises(ValueError, match="use 100000008 in place of 100000001"):
        recipe_for("two", 100_000_001)
    for make in (trees, lambda rows: recipe_for("two", rows)):
        with pytest.raises(ValueError, match=rf"in \[1, {MAX_ROWS_IN_BLOCKS}\]"):
            make(2 * MAX_ROWS_IN_BLOCKS)
    numbers = weighting.LazyNumbers(np.float32(0.2), np.float32(0.1))
    with pytest.raises(ValueError, match="at most 16777216"):
        rules(10**8, weight_update=weighting.lazy_bregman(), weighting=numbers)
    with pytest.raises(ValueError, match=r"in \[1, 16777216\]"):
        recipes.bdpe(epsilon=1, rows=MAX_ROWS + 2, calibration="published")
    assert np.isfinite(dpbt.ledger(recipes.auto(epsilon=1, rows=10**9, domain=DOMAIN)).epsilon)
