"""Attacks on the boundary through learners of one's own: prices, scales, and what Python keeps.

A program sees rows, and a hypothesis must not. Whatever a program draws must cost what the ledger
says. The learners here are written by careless or hostile authors.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import weighting
from dpbt.learners import trees
from dpbt.privacy import boundary, dependencies, mechanisms
from dpbt.types import ADD_REMOVE, Noise, Partition, Prologue, Public
from tests.support.attacks import table_of_one_split
from tests.support.hostile_learners import (
    KEYS,
    NOISE,
    ONE_ROW,
    SCALED,
    count_positive_rows,
    counting_epilogue,
    counting_prologue,
    draw_count,
    hostile_recipe,
    shapes_of_run,
    tree_of_count,
    with_new_identity,
)
from tests.support.recipe_noise import draw_spec


class Numbers(NamedTuple):
    """The numbers of a learner with an optional step."""

    noise: Any
    step: Any = None


# The ledger, the filter and the run price one program.


def with_a_step(draw, table, weights, params, public):
    draw_count(draw, table, weights, params, public)
    if params.step is not None:
        draw("more", NOISE, count_positive_rows(table), **ONE_ROW)


@pytest.mark.parametrize("first", ["plain", "stepping"])
def test_a_draw_that_the_structure_of_the_numbers_decides_is_priced(first):
    """A price that was read for one structure of the numbers is not that of another."""
    noise = {"n": np.float32(2), "more": np.float32(0.1)}

    def program(*args):  # so that nothing of it was read before
        with_a_step(*args)

    plain = Numbers(noise)
    stepping = Numbers(noise, np.float32(1))
    order = [plain, stepping] if first == "plain" else [stepping, plain]
    made = {id(params): hostile_recipe(program, params=params) for params in order}
    books = {
        name: dpbt.ledger(made[id(each)])
        for name, each in (("plain", plain), ("stepping", stepping))
    }
    assert [line.site for line in books["plain"].lines] == ["n"]
    assert [line.site for line in books["stepping"].lines] == ["n", "more"]
    assert books["plain"].epsilon == pytest.approx(1.0, rel=1e-3)
    assert books["stepping"].epsilon == pytest.approx(21.0, rel=1e-3)
    for name, params in (("plain", plain), ("stepping", stepping)):
        assert set(shapes_of_run(made[id(params)]).transcript.rounds) == {
            line.site for line in books[name].lines
        }
        budget = dpbt.Filter(100.0, rows=400)
        budget.take(made[id(params)])
        assert budget.spent == pytest.approx(books[name].epsilon)


def test_the_draws_of_a_program_are_cached_by_structures_shapes_and_dtypes():
    """Structure, shapes and dtypes of the learner's and of the weight update's numbers."""

    class Weighing(NamedTuple):
        rate: Any = None

    def program(draw, table, weights, params, public):
        times = 1 if public.weight_params.rate is None else 2
        whole = params.noise["n"].dtype == jnp.int32
        draw(
            "n",
            NOISE,
            count_positive_rows(table),
            sensitivity=1.0 * times,
            moved_outputs=3 if whole else 1,
            theorem="",
        )

    update = weighting.WeightUpdate(
        identity="own", coupled=False, weigh=weighting.uniform.weigh, params_type=Weighing
    )
    learner = boundary.weak_learner(
        name="structures",
        program=program,
        hypothesis=tree_of_count,
        kind=SCALED,
        fractions={},
        relation=ADD_REMOVE,
    )
    found = []
    for noise, numbers in (
        (np.float32(1), Weighing()),
        (np.float32(1), Weighing(np.float32(0))),
        (np.int32(1), Weighing()),
    ):
        recipe = dataclasses.replace(
            hostile_recipe(),
            learner=learner,
            weight_update=update,
            weight_params=numbers,
            params=Noise({"n": noise}),
        )
        (draw,) = dependencies.draw_specs_of_phase(recipe, recipe.learner.round)
        found.append((draw.max_sensitivity, draw.moved_outputs))
    assert found == [(1.0, 1), (2.0, 1), (1.0, 3)]


# A price follows from the recipe, and from nothing that a run finds out.


def opening(**more):
    prologue = Prologue(
        program=lambda draw, table, weights, params, public: draw(
            "first", NOISE, count_positive_rows(table), **ONE_ROW, scale=2.0
        ),
        initial_score=lambda release, params: jnp.float32(0),
        identity="opening",
        unit=lambda release, params: 1 + jnp.abs(release["first"][0]).astype(jnp.float32),
        estimated_rows=lambda release, params: jnp.maximum(release["first"][0], 1).astype(
            jnp.float32
        ),
    )
    return dataclasses.replace(prologue, **more)


def a_number(value):
    return jnp.sum(
        jnp.concatenate([jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(value)])
    )


class Held(NamedTuple):
    """Rows of trees with a leaf, as a partition lays them out."""

    target: Any
    present: Any
    weight: Any
    leaf: Any = None


PARTED = SCALED.with_training(
    prepare=lambda table: Held(table.target, table.present, table.weight),
    predict_prepared=lambda hypothesis, rows: (
        jnp.zeros(rows.present.shape, jnp.float32) + hypothesis.leaf[0]
    ),
)
PARTITION = Partition(
    structure=lambda params, public: jnp.sum(public.prologue["first"]).astype(jnp.float32),
    assign_rows=lambda structure, rows: jnp.zeros(rows.present.shape, jnp.uint8),
    reads=lambda structure: jnp.zeros(1, jnp.int32),
)
CONSTANT = {"max_rows", "weight_params"}
FOLLOWING = [name for name in Public._fields if name not in CONSTANT]


def by_field(name, **how):
    """A program whose scale, or sensitivity, follows from one field of what is public."""

    def program(draw, table, weights, params, public):
        number = 1 / (1 + a_number(getattr(public, name)) ** 2)
        asked = {key: number * base for key, base in how.items()}
        draw("n", NOISE, count_positive_rows(table), **{**ONE_ROW, **asked})

    return program


def parted(program, **changes):
    return hostile_recipe(program, kind=PARTED, partition=PARTITION, prologue=opening(), **changes)


@pytest.mark.parametrize("name", FOLLOWING)
def test_a_price_that_follows_from_a_value_of_the_run_is_refused(name):
    """Each field of what is public, unless the recipe alone says it; also one that comes later."""
    with pytest.raises(ValueError, match="the scale of the draw 'n' follows from"):
        parted(by_field(name, scale=1e4))
    with pytest.raises(ValueError, match="the sensitivity of the draw 'n' follows from"):
        parted(by_field(name, sensitivity=1.0))

    def bounded(draw, table, weights, params, public):
        number = 1 / (1 + a_number(getattr(public, name)) ** 2)
        draw(
            "n",
            NOISE,
            count_positive_rows(table),
            sensitivity=number,
            max_sensitivity=1.0,
            moved_outputs=1,
            theorem="",
        )

    (_, line) = dpbt.ledger(parted(bounded, rounds=1)).lines
    assert line.epsilon == pytest.approx(1.0, rel=1e-5)
    shapes_of_run(parted(bounded, rounds=1))


def test_a_price_may_follow_from_the_number_of_rows_that_a_recipe_is_for():
    def program(draw, table, weights, params, public):
        draw(
            "n",
            NOISE,
            count_positive_rows(table),
            moved_outputs=1,
            theorem="",
            sensitivity=public.max_rows / 100,
        )

    recipe = hostile_recipe(program, rounds=1)
    assert dpbt.ledger(recipe).lines[0].sensitivity == 4.0
    shapes_of_run(recipe)


def test_a_price_may_not_follow_from_the_splits_of_a_table():
    """The ledger reads a table of one row, which has other splits."""

    class Asked(NamedTuple):
        target: Any
        present: Any
        weight: Any
        feature: Any

    def prepare(table):
        return Asked(table.target, table.present, table.weight, table.splits.feature)

    def program(draw, table, weights, params, public):
        most = 1.0 + jnp.sum(table.feature).astype(jnp.float32)
        draw("n", NOISE, count_positive_rows(table), sensitivity=most, moved_outputs=1, theorem="")

    with pytest.raises(ValueError, match=r"follows from \['the splits of the table'\]"):
        hostile_recipe(program, kind=SCALED.with_training(prepare=prepare))


def test_the_arguments_of_a_total_may_not_follow_from_rows():
    """In memory as in blocks: `after` is a public map of the sum."""

    def after(total, public):
        return total + public

    def program(draw, table, weights, params, public):
        draw(
            "n",
            NOISE,
            boundary.Total(count_positive_rows(table), after, public=(count_positive_rows(table),)),
            **ONE_ROW,
        )

    with pytest.raises(
        ValueError, match=r"Total\.after of the draw 'n' reads follows from the pri"
    ):
        hostile_recipe(program)


@pytest.mark.parametrize("source", ["rows", "scores"])
def test_a_cap_on_weights_may_not_follow_from_rows(source):
    def weigh(score, bound, table, public):
        read = jnp.sum(table.target) if source == "rows" else jnp.max(score)
        return weighting.on_grid(jnp.ones(score.shape), 1.0 + read.astype(jnp.float32))

    with pytest.raises(ValueError, match="the cap of greedy follows from private rows"):
        hostile_recipe(weigh=weighting.WeightUpdate(identity="greedy", coupled=False, weigh=weigh))


# The draw that runs is the draw that was priced.


LOUD = Noise({"n": np.float32(1000)})


@pytest.mark.parametrize("what", ["the noise of params", "the noise of draw", "an array in place"])
def test_a_program_cannot_change_its_noise(what):
    def program(draw, table, weights, params, public):
        if what == "an array in place":
            np.asarray(params.noise["n"])[...] = 1e-6
        else:
            noise = params.noise if what == "the noise of params" else draw.noise
            noise["n"] = 1e-6
        draw("n", NOISE, count_positive_rows(table), **ONE_ROW)

    with pytest.raises((TypeError, ValueError)):  # JAX's error of traced arrays is a TypeError
        hostile_recipe(program, params=LOUD)


def test_a_program_reads_a_copy_of_its_numbers():
    """Noise in a container of another field is changed for nobody else, and public state is not."""

    class Kept(NamedTuple):
        noise: Any
        more: Any

    seen = []

    def program(draw, table, weights, params, public):
        seen.append(params.more["step"])
        params.more["step"] = jnp.float32(0)
        public.prologue["first"] = jnp.zeros(1, jnp.int32)
        draw("n", NOISE, count_positive_rows(table), **ONE_ROW)

    def hypothesis(release, params, public):
        value = params.more["step"] + public.prologue["first"][0].astype(jnp.float32)
        return dpbt.Tree(jnp.full(1, -1, jnp.int32), jnp.full(2, value))

    params = Kept({"n": np.float32(1000)}, {"step": np.float32(3)})
    recipe = hostile_recipe(program, hypothesis, params=params, prologue=opening(), rounds=1)
    boosted = dpbt.boost(KEYS[0], table_of_one_split(), recipe)
    expected = 3.0 + float(boosted.transcript.prologue["first"][0])
    assert boosted.hypotheses.leaf[0].tolist() == [expected, expected]
    assert params.more["step"] == 3


class Switch:
    """What an author's module holds, and changes when all has been priced."""

    on = False


def switched_noise(draw, table, weights, params, public):
    asked = {"scale": 1e-3} if Switch.on else {}
    draw("n", NOISE, count_positive_rows(table), **ONE_ROW, **asked)


def switched_sensitivity(draw, table, weights, params, public):
    draw(
        "n",
        NOISE,
        count_positive_rows(table),
        sensitivity=1e-3 if Switch.on else 1.0,
        moved_outputs=1,
        theorem="",
    )


def switched_own_scale(draw, table, weights, params, public):
    draw("n", NOISE, count_positive_rows(table), **ONE_ROW, scale=1e-3 if Switch.on else 1e3)


def switched_bounded(draw, table, weights, params, public):
    most = 1e-3 if Switch.on else 1.0
    shrunk = most / (1 + a_number(public.round))
    draw(
        "n",
        NOISE,
        count_positive_rows(table),
        sensitivity=shrunk,
        max_sensitivity=1.0,
        moved_outputs=1,
        theorem="",
    )


def switched_site(draw, table, weights, params, public):
    draw("n", NOISE, count_positive_rows(table), **ONE_ROW)
    if Switch.on:
        draw("n_1", NOISE, count_positive_rows(table), **ONE_ROW)


def switched_mechanism(draw, table, weights, params, public):
    other = mechanisms.rounded_gaussian if Switch.on else NOISE
    draw("n", other, count_positive_rows(table), **ONE_ROW)


def switched_moves(draw, table, weights, params, public):
    draw(
        "n",
        NOISE,
        count_positive_rows(table),
        **{**ONE_ROW, "moved_outputs": 2 if Switch.on else 1},
    )


def switched_count(draw, table, weights, params, public):
    draw("n", NOISE, count_positive_rows(table), **ONE_ROW, num_payments=1 if Switch.on else 3)


def forged(draw, table, weights, params, public):
    """It hands the library a request of its own, past the function that works out scales."""
    if not Switch.on:
        draw("n", NOISE, count_positive_rows(table), **ONE_ROW)
        return
    quiet = jnp.float32(1e-3)
    draw.answer(
        draw_spec(
            "n",
            NOISE,
            count_positive_rows(table),
            scale=quiet,
            max_sensitivity=1.0,
            theorem="a row",
        )
    )


SWITCHED = {
    function.__name__: function
    for function in (
        switched_noise,
        switched_sensitivity,
        switched_own_scale,
        switched_bounded,
        switched_site,
        switched_mechanism,
        switched_moves,
        switched_count,
        forged,
    )
}


@pytest.mark.parametrize("name", SWITCHED)
def test_a_draw_that_is_not_the_priced_one_is_refused(name, monkeypatch):
    """Python may change what a program does after the ledger was read; the run looks again."""
    recipe = hostile_recipe(SWITCHED[name], params=LOUD)
    dpbt.ledger(recipe)
    monkeypatch.setattr(Switch, "on", True)
    with pytest.raises(ValueError, match=r"than the ledger prices|are priced"):
        shapes_of_run(recipe)


def by_shape(table):
    return 1.0 if table.present.shape[0] > 1 else 1e3


@pytest.mark.parametrize("where", ["sensitivity", "scale", "max_sensitivity"])
def test_a_price_that_follows_from_the_shape_of_the_table_is_refused(where):
    """The ledger reads a table of one row; a run compares what it asks for with that."""

    def program(draw, table, weights, params, public):
        draw("n", NOISE, count_positive_rows(table), **{**ONE_ROW, where: by_shape(table)})

    recipe = hostile_recipe(program)
    with pytest.raises(ValueError, match="than the ledger prices"):
        shapes_of_run(recipe)


# What a function keeps of the rows in Python reaches nothing that is public.

KEPT: list[Any] = []


def keep(*arrays):
    KEPT[:] = [array for array in arrays if array is not None]


def spied():
    return jnp.sum(KEPT[0]).astype(jnp.float32) * 0 + jnp.sum(KEPT[0]).astype(jnp.float32)


def keeping(draw, table, weights, params, public):
    keep(table.target)
    draw_count(draw, table, weights, params, public)


class Steps(NamedTuple):
    init: Any
    update: Any


def spying_hypothesis(release, params, public):
    tree = tree_of_count(release, params, public)
    return tree._replace(leaf=tree.leaf + spied())


def spying_compile_time(release, params, public):
    with jax.ensure_compile_time_eval():
        value = spied()
    return dpbt.Tree(jnp.full(1, -1, jnp.int32), jnp.full(2, value))


def spying_inside(release, params, public):
    value = jax.jit(lambda number: number + spied())(jnp.float32(0))
    return dpbt.Tree(jnp.full(1, -1, jnp.int32), jnp.full(2, value))


def handing_on(release, params, public):
    """It returns what was kept, and reads nothing of it."""
    return dpbt.Tree(jnp.full(1, -1, jnp.int32), KEPT[0][:2])


def keeping_pair(draw, table, weights, params, public):
    keep(weights)
    draw_count(draw, table, weights, params, public)


def merging(found, params, public):
    return found._replace(leaf=found.leaf + spied())


def updating(found, state):
    return found._replace(leaf=found.leaf + spied()), state


IDLE = Steps(lambda like: (), lambda found, state: (found, state))
READERS = {
    "hypothesis": lambda **k: hostile_recipe(keeping, spying_hypothesis, **k),
    "hypothesis, at compile time": lambda **k: hostile_recipe(keeping, spying_compile_time, **k),
    "hypothesis, by a function of its own": lambda **k: hostile_recipe(keeping, spying_inside, **k),
    "hypothesis, as it is": lambda **k: hostile_recipe(keeping_pair, handing_on, **k),
    "optimizer": lambda **k: hostile_recipe(
        keeping, optimizer=lambda params: IDLE._replace(update=updating), **k
    ),
    "bound": lambda **k: hostile_recipe(
        keeping, kind=SCALED.with_training(bound=lambda found: spied()), **k
    ),
    "merged": lambda **k: hostile_recipe(
        prologue=counting_prologue(keeping_first), kind=SCALED.with_training(merge=merging), **k
    ),
    "scaled": lambda **k: hostile_recipe(
        epilogue=counting_epilogue(keeping_last),
        kind=SCALED.with_training(scale=lambda found, slope: merging(found, None, None)),
        **k,
    ),
    "line": lambda **k: hostile_recipe(
        epilogue=counting_epilogue(keeping_last, lambda *_: (jnp.float32(1), spied())), **k
    ),
    "initial score": lambda **k: hostile_recipe(
        prologue=counting_prologue(keeping_first, initial_score=lambda *_: spied()), **k
    ),
    "unit": lambda **k: hostile_recipe(
        prologue=counting_prologue(keeping_first, unit=lambda *_: spied()), **k
    ),
    "estimated rows": lambda **k: hostile_recipe(
        prologue=counting_prologue(keeping_first, estimated_rows=lambda *_: spied()), **k
    ),
    "structure": lambda **k: hostile_recipe(
        prologue=counting_prologue(keeping_first),
        kind=PARTED,
        partition=dataclasses.replace(PARTITION, structure=lambda params, public: spied()),
        **k,
    ),
    "optimizer's state": lambda **k: hostile_recipe(
        prologue=counting_prologue(keeping_first),
        optimizer=lambda params: IDLE._replace(init=lambda like: spied()),
        **k,
    ),
}


def keeping_first(draw, table, weights, params, public):
    keep(table.target)
    draw("first", NOISE, count_positive_rows(table), **ONE_ROW, scale=2.0)


def keeping_last(draw, table, scores, params, public):
    keep(scores)
    draw("last", NOISE, count_positive_rows(table), **ONE_ROW, scale=2.0)


def escapes(run):
    """It ends in an error that says so, whether at the recipe or at the run."""
    KEPT[:] = [jnp.zeros(2)]  # so that what is traced before a program finds something
    escape = pytest.raises((ValueError, jax.errors.UnexpectedTracerError))
    with escape as found:
        run()
    words = str(found.value)
    assert "it was not given" in words or "unexpected tracer" in words.lower(), words


@pytest.mark.parametrize("name", READERS)
def test_nothing_public_reads_what_a_program_keeps_in_python(name):
    escapes(lambda: shapes_of_run(READERS[name]()))


WAYS = {
    "jit": lambda recipe, table: jax.jit(dpbt.boost)(KEYS[0], table, recipe),
    "op by op": lambda recipe, table: dpbt.boost(KEYS[0], table, recipe),
    "vmap": lambda recipe, table: jax.vmap(lambda key: dpbt.boost(key, table, recipe))(KEYS),
    "fit": lambda recipe, table: dpbt.fit(KEYS[0], table, recipe),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["hypothesis", "merged", "line", "initial score"])
def test_no_way_to_run_a_recipe_lets_kept_rows_escape(way, name):
    escapes(lambda: WAYS[way](READERS[name](), table_of_one_split(60)))


def keeping_prepare(table):
    keep(table.target)
    return trees.evaluate_splits_of_rows(table)


def keeping_weigh(score, bound, table, public):
    keep(table.target)
    return weighting.uniform.weigh(score, bound, table, public)


def keeping_predict(hypothesis, rows):
    keep(rows.target)
    return SCALED.predict_prepared(hypothesis, rows)


def keeping_sample(key, value, scale):
    keep(value)
    return NOISE.sample(key, value, scale)


QUIET = NOISE._replace(name="a laplace of one's own", sample=keeping_sample)


def by_own_mechanism(draw, table, weights, params, public):
    draw("n", QUIET, count_positive_rows(table), **ONE_ROW)


def capping(score, bound, table, public):
    return weighting.on_grid(jnp.ones(table.present.shape), 1 + spied())


KEEPERS = {
    "prepare": lambda: hostile_recipe(
        hypothesis=with_new_identity(spying_hypothesis),
        kind=SCALED.with_training(prepare=with_new_identity(keeping_prepare)),
    ),
    "weigh": lambda: hostile_recipe(
        hypothesis=with_new_identity(spying_hypothesis),
        weigh=weighting.WeightUpdate(
            identity="keeps", coupled=False, weigh=with_new_identity(keeping_weigh)
        ),
    ),
    "predict": lambda: hostile_recipe(
        epilogue=counting_epilogue(line=lambda *_: (jnp.float32(1), spied())),
        kind=SCALED.with_training(predict_prepared=with_new_identity(keeping_predict)),
    ),
    "mechanism": lambda: hostile_recipe(
        with_new_identity(by_own_mechanism), with_new_identity(spying_hypothesis)
    ),
    "prepare, for a cap": lambda: hostile_recipe(
        kind=SCALED.with_training(prepare=with_new_identity(keeping_prepare)),
        weigh=weighting.WeightUpdate(
            identity="caps", coupled=False, weigh=with_new_identity(capping)
        ),
    ),
}


@pytest.mark.parametrize("way", ["jit", "op by op"])
@pytest.mark.parametrize("name", KEEPERS)
def test_a_function_that_keeps_its_rows_keeps_no_values(name, way):
    escapes(lambda: WAYS[way](KEEPERS[name](), table_of_one_split(60)))


def test_a_check_of_a_table_sees_shapes_and_no_values():
    """A check runs on the host, so it is given one absent row in place of the rows."""
    shapes = []

    def check(table):
        shapes.append((table.bins.shape[0], np.asarray(table.present).tolist()))
        trees.check_table_has_uint8_bins_and_splits(table)

    dpbt.fit(
        KEYS[0],
        table_of_one_split(60),
        hostile_recipe(kind=SCALED.with_training(check_table=check)),
    )
    assert shapes
    assert all(shape == (1, [False]) for shape in shapes)


def test_rows_that_a_replay_reads_are_not_kept_for_a_later_fit():
    """An owner may replay op by op before a fit, and Python keeps lists between the two."""
    recipe, table = hostile_recipe(keeping), table_of_one_split(60)
    dpbt.replay(dpbt.boost(KEYS[0], table, recipe).transcript, table, recipe)
    dead = list(KEPT)

    def later(release, params, public):
        tree = tree_of_count(release, params, public)
        return tree._replace(leaf=tree.leaf + jnp.sum(dead[0]).astype(jnp.float32))

    escapes(lambda: dpbt.boost(KEYS[0], table, hostile_recipe(draw_count, later)))


def test_a_hypothesis_may_not_close_over_an_array_of_a_running_trace():
    """A recipe that is made under jit of a private table, and compiled into one program with it."""

    @jax.jit
    def careless(table):
        def hypothesis(release, params, public):
            tree = tree_of_count(release, params, public)
            return tree._replace(leaf=tree.leaf + jnp.sum(table.target).astype(jnp.float32))

        return dpbt.boost(KEYS[0], table, hostile_recipe(hypothesis=hypothesis)).scores

    escapes(lambda: careless(table_of_one_split(60)))


def test_a_mutable_array_carries_no_rows():
    reference = jax.new_ref(jnp.float32(0))

    def writing(draw, table, weights, params, public):
        reference[...] = jnp.sum(table.target).astype(jnp.float32)
        draw_count(draw, table, weights, params, public)

    with pytest.raises(ValueError, match="the program reads or writes a mutable array"):
        shapes_of_run(hostile_recipe(writing))
    assert float(reference[...]) == 0


def test_a_hypothesis_reads_nothing_that_python_holds():
    """The reading half of a pair of callbacks."""
    shape = jax.ShapeDtypeStruct((2,), jnp.float32)

    def hypothesis(release, params, public):
        held = jax.pure_callback(lambda: np.zeros(2, np.float32), shape)
        return tree_of_count(release, params, public)._replace(leaf=held)

    with pytest.raises(ValueError, match="reads what Python holds by"):
        shapes_of_run(hostile_recipe(hypothesis=hypothesis))


def test_noise_that_is_changed_by_force_changes_no_scale():
    """Whoever goes around a read-only mapping still gets the multiplier of the recipe."""

    def program(draw, table, weights, params, public):
        quiet = (("n", jnp.float32(1e-6)),)
        object.__setattr__(params.noise, "_items", quiet)
        object.__setattr__(draw.noise, "_items", quiet)
        draw_count(draw, table, weights, params, public)

    noise = jax.jit(
        jax.vmap(lambda key: dpbt.boost(key, table_of_one_split(), recipe).transcript.rounds)
    )
    recipe = hostile_recipe(program, params=LOUD, rounds=1)
    drawn = np.asarray(noise(jax.random.split(jax.random.key(2), 40))["n"])
    assert np.std(drawn) > 300  # false alarm below 1e-9; at the forced noise it would be 0


def test_honest_learners_of_all_parts_run():
    """The parts that are attacked here, written as they should be."""
    recipe = hostile_recipe(
        kind=PARTED.with_training(merge=lambda hypotheses, params, public: hypotheses),
        partition=PARTITION,
        prologue=opening(),
        epilogue=counting_epilogue(),
        optimizer=lambda params: IDLE,
    )
    table = table_of_one_split(60)
    ways = [WAYS[way](recipe, table) for way in ("jit", "op by op")]
    for one, other in zip(*map(jax.tree.leaves, ways), strict=True):
        np.testing.assert_array_equal(one, other)
