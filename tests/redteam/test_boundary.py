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
from dpbt.privacy import boundary, draw_dependencies, mechanisms
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
    recipe_by_params = {id(params): hostile_recipe(program, params=params) for params in order}
    ledgers = {
        name: dpbt.ledger(recipe_by_params[id(params_of_name)])
        for name, params_of_name in (("plain", plain), ("stepping", stepping))
    }
    assert [line.site for line in ledgers["plain"].lines] == ["n"]
    assert [line.site for line in ledgers["stepping"].lines] == ["n", "more"]
    assert ledgers["plain"].epsilon == pytest.approx(1.0, rel=1e-3)
    assert ledgers["stepping"].epsilon == pytest.approx(21.0, rel=1e-3)
    for name, params in (("plain", plain), ("stepping", stepping)):
        assert set(shapes_of_run(recipe_by_params[id(params)]).transcript.rounds) == {
            line.site for line in ledgers[name].lines
        }
        budget = dpbt.Filter(100.0, rows=400)
        budget.take(recipe_by_params[id(params)])
        assert budget.spent == pytest.approx(ledgers[name].epsilon)


def test_the_draws_of_a_program_are_cached_by_structures_shapes_and_dtypes():
    """Structure, shapes and dtypes of the learner's and of the weight update's numbers."""

    class Weighing(NamedTuple):
        rate: Any = None

    def program(draw, table, weights, params, public):
        num_doublings = 1 if public.weight_params.rate is None else 2
        has_integer_noise = params.noise["n"].dtype == jnp.int32
        draw(
            "n",
            NOISE,
            count_positive_rows(table),
            sensitivity=1.0 * num_doublings,
            moved_outputs=3 if has_integer_noise else 1,
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
    claims = []
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
        (draw,) = draw_dependencies.draw_specs_of_phase(recipe, recipe.learner.round)
        claims.append((draw.max_sensitivity, draw.moved_outputs))
    assert claims == [(1.0, 1), (2.0, 1), (1.0, 3)]


# A price follows from the recipe, and from nothing that a run finds out.


def prologue_with_a_draw(**more):
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


def sum_of_leaves(value):
    return jnp.sum(
        jnp.concatenate([jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(value)])
    )


class PreparedRows(NamedTuple):
    """Rows of trees with a leaf, as a partition lays them out."""

    target: Any
    present: Any
    weight: Any
    leaf: Any = None


PARTED = SCALED.with_training(
    prepare=lambda table: PreparedRows(table.target, table.present, table.weight),
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


def program_with_terms_of_public_field(name, **base_by_term):
    """A program whose scale, or sensitivity, follows from one field of what is public."""

    def program(draw, table, weights, params, public):
        share = 1 / (1 + sum_of_leaves(getattr(public, name)) ** 2)
        scaled_terms = {key: share * base for key, base in base_by_term.items()}
        draw("n", NOISE, count_positive_rows(table), **{**ONE_ROW, **scaled_terms})

    return program


def recipe_with_partition(program, **changes):
    return hostile_recipe(
        program, kind=PARTED, partition=PARTITION, prologue=prologue_with_a_draw(), **changes
    )


@pytest.mark.parametrize("name", FOLLOWING)
def test_a_price_that_follows_from_a_value_of_the_run_is_refused(name):
    """A price may follow from no public field, except those that the recipe alone states."""
    with pytest.raises(ValueError, match="the scale of the draw 'n' follows from"):
        recipe_with_partition(program_with_terms_of_public_field(name, scale=1e4))
    with pytest.raises(ValueError, match="the sensitivity of the draw 'n' follows from"):
        recipe_with_partition(program_with_terms_of_public_field(name, sensitivity=1.0))

    def bounded(draw, table, weights, params, public):
        shrunk = 1 / (1 + sum_of_leaves(getattr(public, name)) ** 2)
        draw(
            "n",
            NOISE,
            count_positive_rows(table),
            sensitivity=shrunk,
            max_sensitivity=1.0,
            moved_outputs=1,
            theorem="",
        )

    (_, line) = dpbt.ledger(recipe_with_partition(bounded, rounds=1)).lines
    assert line.epsilon == pytest.approx(1.0, rel=1e-5)
    shapes_of_run(recipe_with_partition(bounded, rounds=1))


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

    class RowsWithSplits(NamedTuple):
        target: Any
        present: Any
        weight: Any
        feature: Any

    def prepare(table):
        return RowsWithSplits(table.target, table.present, table.weight, table.splits.feature)

    def program(draw, table, weights, params, public):
        sensitivity_of_splits = 1.0 + jnp.sum(table.feature).astype(jnp.float32)
        draw(
            "n",
            NOISE,
            count_positive_rows(table),
            sensitivity=sensitivity_of_splits,
            moved_outputs=1,
            theorem="",
        )

    with pytest.raises(ValueError, match=r"follows from \['the splits of the table'\]"):
        hostile_recipe(program, kind=SCALED.with_training(prepare=prepare))


def test_the_public_inputs_of_a_row_sum_may_not_follow_from_rows():
    """`to_statistic` is a public map of the sum, in memory as in blocks."""

    def add(row_sum, public_input):
        return row_sum + public_input

    def program(draw, table, weights, params, public):
        draw(
            "n",
            NOISE,
            boundary.RowSum(
                count_positive_rows(table), add, public_inputs=(count_positive_rows(table),)
            ),
            **ONE_ROW,
        )

    with pytest.raises(
        ValueError, match=r"RowSum\.to_statistic of the draw 'n' reads follows from the pri"
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

    class NumbersWithStep(NamedTuple):
        noise: Any
        more: Any

    steps_read = []

    def program(draw, table, weights, params, public):
        steps_read.append(params.more["step"])
        params.more["step"] = jnp.float32(0)
        public.prologue["first"] = jnp.zeros(1, jnp.int32)
        draw("n", NOISE, count_positive_rows(table), **ONE_ROW)

    def hypothesis(release, params, public):
        value = params.more["step"] + public.prologue["first"][0].astype(jnp.float32)
        return dpbt.Tree(jnp.full(1, -1, jnp.int32), jnp.full(2, value))

    params = NumbersWithStep({"n": np.float32(1000)}, {"step": np.float32(3)})
    recipe = hostile_recipe(
        program, hypothesis, params=params, prologue=prologue_with_a_draw(), rounds=1
    )
    boosted = dpbt.boost(KEYS[0], table_of_one_split(), recipe)
    expected = 3.0 + float(boosted.transcript.prologue["first"][0])
    assert boosted.hypotheses.leaf[0].tolist() == [expected, expected]
    assert params.more["step"] == 3


class Switch:
    """What an author's module holds, and changes when all has been priced."""

    on = False


def switched_noise(draw, table, weights, params, public):
    scale_option = {"scale": 1e-3} if Switch.on else {}
    draw("n", NOISE, count_positive_rows(table), **ONE_ROW, **scale_option)


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
    max_sensitivity = 1e-3 if Switch.on else 1.0
    shrunk = max_sensitivity / (1 + sum_of_leaves(public.round))
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


def program_forging_its_draw(draw, table, weights, params, public):
    """It hands the library its own specification, past the function that works out scales."""
    if not Switch.on:
        draw("n", NOISE, count_positive_rows(table), **ONE_ROW)
        return
    quiet = jnp.float32(1e-3)
    draw.answer_draw(
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
        program_forging_its_draw,
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


def number_by_table_shape(table):
    return 1.0 if table.present.shape[0] > 1 else 1e3


@pytest.mark.parametrize("where", ["sensitivity", "scale", "max_sensitivity"])
def test_a_price_that_follows_from_the_shape_of_the_table_is_refused(where):
    """The ledger reads a table of one row; a run compares what it asks for with that."""

    def program(draw, table, weights, params, public):
        draw(
            "n",
            NOISE,
            count_positive_rows(table),
            **{**ONE_ROW, where: number_by_table_shape(table)},
        )

    recipe = hostile_recipe(program)
    with pytest.raises(ValueError, match="than the ledger prices"):
        shapes_of_run(recipe)


# What a function keeps of the rows in Python reaches nothing that is public.

KEPT: list[Any] = []


def keep_in_python(*arrays):
    KEPT[:] = [array for array in arrays if array is not None]


def read_kept_rows():
    return jnp.sum(KEPT[0]).astype(jnp.float32) * 0 + jnp.sum(KEPT[0]).astype(jnp.float32)


def program_keeping_target(draw, table, weights, params, public):
    keep_in_python(table.target)
    draw_count(draw, table, weights, params, public)


class Steps(NamedTuple):
    init: Any
    update: Any


def spying_hypothesis(release, params, public):
    tree = tree_of_count(release, params, public)
    return tree._replace(leaf=tree.leaf + read_kept_rows())


def spying_compile_time(release, params, public):
    with jax.ensure_compile_time_eval():
        value = read_kept_rows()
    return dpbt.Tree(jnp.full(1, -1, jnp.int32), jnp.full(2, value))


def spying_inside(release, params, public):
    value = jax.jit(lambda number: number + read_kept_rows())(jnp.float32(0))
    return dpbt.Tree(jnp.full(1, -1, jnp.int32), jnp.full(2, value))


def handing_on(release, params, public):
    """A hypothesis that returns kept rows without reading them."""
    return dpbt.Tree(jnp.full(1, -1, jnp.int32), KEPT[0][:2])


def keeping_pair(draw, table, weights, params, public):
    keep_in_python(weights)
    draw_count(draw, table, weights, params, public)


def merging(hypotheses, params, public):
    return hypotheses._replace(leaf=hypotheses.leaf + read_kept_rows())


def updating(hypothesis, state):
    return hypothesis._replace(leaf=hypothesis.leaf + read_kept_rows()), state


IDLE = Steps(lambda like: (), lambda hypothesis, state: (hypothesis, state))
RECIPES_THAT_READ_KEPT_ROWS = {
    "hypothesis": lambda **k: hostile_recipe(program_keeping_target, spying_hypothesis, **k),
    "hypothesis, at compile time": lambda **k: hostile_recipe(
        program_keeping_target, spying_compile_time, **k
    ),
    "hypothesis, by a function of its own": lambda **k: hostile_recipe(
        program_keeping_target, spying_inside, **k
    ),
    "hypothesis, as it is": lambda **k: hostile_recipe(keeping_pair, handing_on, **k),
    "optimizer": lambda **k: hostile_recipe(
        program_keeping_target, optimizer=lambda params: IDLE._replace(update=updating), **k
    ),
    "bound": lambda **k: hostile_recipe(
        program_keeping_target,
        kind=SCALED.with_training(bound=lambda hypothesis: read_kept_rows()),
        **k,
    ),
    "merged": lambda **k: hostile_recipe(
        prologue=counting_prologue(keeping_first), kind=SCALED.with_training(merge=merging), **k
    ),
    "scaled": lambda **k: hostile_recipe(
        epilogue=counting_epilogue(keeping_last),
        kind=SCALED.with_training(scale=lambda hypothesis, slope: merging(hypothesis, None, None)),
        **k,
    ),
    "line": lambda **k: hostile_recipe(
        epilogue=counting_epilogue(keeping_last, lambda *_: (jnp.float32(1), read_kept_rows())), **k
    ),
    "initial score": lambda **k: hostile_recipe(
        prologue=counting_prologue(keeping_first, initial_score=lambda *_: read_kept_rows()), **k
    ),
    "unit": lambda **k: hostile_recipe(
        prologue=counting_prologue(keeping_first, unit=lambda *_: read_kept_rows()), **k
    ),
    "estimated rows": lambda **k: hostile_recipe(
        prologue=counting_prologue(keeping_first, estimated_rows=lambda *_: read_kept_rows()), **k
    ),
    "structure": lambda **k: hostile_recipe(
        prologue=counting_prologue(keeping_first),
        kind=PARTED,
        partition=dataclasses.replace(PARTITION, structure=lambda params, public: read_kept_rows()),
        **k,
    ),
    "optimizer's state": lambda **k: hostile_recipe(
        prologue=counting_prologue(keeping_first),
        optimizer=lambda params: IDLE._replace(init=lambda like: read_kept_rows()),
        **k,
    ),
}


def keeping_first(draw, table, weights, params, public):
    keep_in_python(table.target)
    draw("first", NOISE, count_positive_rows(table), **ONE_ROW, scale=2.0)


def keeping_last(draw, table, scores, params, public):
    keep_in_python(scores)
    draw("last", NOISE, count_positive_rows(table), **ONE_ROW, scale=2.0)


def assert_kept_rows_are_refused(run):
    """Check that making or running the recipe fails with an error that says why."""
    KEPT[:] = [jnp.zeros(2)]  # so that what is traced before a program finds something
    escape = pytest.raises((ValueError, jax.errors.UnexpectedTracerError))
    with escape as error:
        run()
    message = str(error.value)
    assert "it was not given" in message or "unexpected tracer" in message.lower(), message


@pytest.mark.parametrize("name", RECIPES_THAT_READ_KEPT_ROWS)
def test_nothing_public_reads_what_a_program_keeps_in_python(name):
    assert_kept_rows_are_refused(lambda: shapes_of_run(RECIPES_THAT_READ_KEPT_ROWS[name]()))


EXECUTIONS = {
    "jit": lambda recipe, table: jax.jit(dpbt.boost)(KEYS[0], table, recipe),
    "op by op": lambda recipe, table: dpbt.boost(KEYS[0], table, recipe),
    "vmap": lambda recipe, table: jax.vmap(lambda key: dpbt.boost(key, table, recipe))(KEYS),
    "fit": lambda recipe, table: dpbt.fit(KEYS[0], table, recipe),
}


@pytest.mark.parametrize("way", EXECUTIONS)
@pytest.mark.parametrize("name", ["hypothesis", "merged", "line", "initial score"])
def test_no_way_to_run_a_recipe_lets_kept_rows_escape(way, name):
    assert_kept_rows_are_refused(
        lambda: EXECUTIONS[way](RECIPES_THAT_READ_KEPT_ROWS[name](), table_of_one_split(60))
    )


def keeping_prepare(table):
    keep_in_python(table.target)
    return trees.evaluate_splits_of_rows(table)


def keeping_weigh(score, bound, table, public):
    keep_in_python(table.target)
    return weighting.uniform.weigh(score, bound, table, public)


def keeping_predict(hypothesis, rows):
    keep_in_python(rows.target)
    return SCALED.predict_prepared(hypothesis, rows)


def keeping_sample(key, value, scale):
    keep_in_python(value)
    return NOISE.sample(key, value, scale)


KEEPING_LAPLACE = NOISE._replace(name="a laplace of one's own", sample=keeping_sample)


def draw_by_custom_mechanism(draw, table, weights, params, public):
    draw("n", KEEPING_LAPLACE, count_positive_rows(table), **ONE_ROW)


def capping(score, bound, table, public):
    return weighting.on_grid(jnp.ones(table.present.shape), 1 + read_kept_rows())


RECIPES_THAT_KEEP_ROWS = {
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
        epilogue=counting_epilogue(line=lambda *_: (jnp.float32(1), read_kept_rows())),
        kind=SCALED.with_training(predict_prepared=with_new_identity(keeping_predict)),
    ),
    "mechanism": lambda: hostile_recipe(
        with_new_identity(draw_by_custom_mechanism), with_new_identity(spying_hypothesis)
    ),
    "prepare, for a cap": lambda: hostile_recipe(
        kind=SCALED.with_training(prepare=with_new_identity(keeping_prepare)),
        weigh=weighting.WeightUpdate(
            identity="caps", coupled=False, weigh=with_new_identity(capping)
        ),
    ),
}


@pytest.mark.parametrize("way", ["jit", "op by op"])
@pytest.mark.parametrize("name", RECIPES_THAT_KEEP_ROWS)
def test_a_function_that_keeps_its_rows_keeps_no_values(name, way):
    assert_kept_rows_are_refused(
        lambda: EXECUTIONS[way](RECIPES_THAT_KEEP_ROWS[name](), table_of_one_split(60))
    )


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
    recipe, table = hostile_recipe(program_keeping_target), table_of_one_split(60)
    dpbt.replay(dpbt.boost(KEYS[0], table, recipe).transcript, table, recipe)
    kept = list(KEPT)

    def hypothesis(release, params, public):
        tree = tree_of_count(release, params, public)
        return tree._replace(leaf=tree.leaf + jnp.sum(kept[0]).astype(jnp.float32))

    assert_kept_rows_are_refused(
        lambda: dpbt.boost(KEYS[0], table, hostile_recipe(draw_count, hypothesis))
    )


def test_a_hypothesis_may_not_close_over_an_array_of_a_running_trace():
    """A recipe that is made under jit of a private table, and compiled into one program with it."""

    @jax.jit
    def careless(table):
        def hypothesis(release, params, public):
            tree = tree_of_count(release, params, public)
            return tree._replace(leaf=tree.leaf + jnp.sum(table.target).astype(jnp.float32))

        return dpbt.boost(KEYS[0], table, hostile_recipe(hypothesis=hypothesis)).scores

    assert_kept_rows_are_refused(lambda: careless(table_of_one_split(60)))


def test_a_mutable_array_carries_no_rows():
    reference = jax.new_ref(jnp.float32(0))

    def writing(draw, table, weights, params, public):
        reference[...] = jnp.sum(table.target).astype(jnp.float32)
        draw_count(draw, table, weights, params, public)

    with pytest.raises(ValueError, match="the program reads or writes a mutable array"):
        shapes_of_run(hostile_recipe(writing))
    assert float(reference[...]) == 0


def test_a_hypothesis_reads_nothing_that_python_holds():
    """A callback that only reads is refused as well."""
    shape = jax.ShapeDtypeStruct((2,), jnp.float32)

    def hypothesis(release, params, public):
        read_from_python = jax.pure_callback(lambda: np.zeros(2, np.float32), shape)
        return tree_of_count(release, params, public)._replace(leaf=read_from_python)

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
    """All parts that are attacked here are written as they should be."""
    recipe = hostile_recipe(
        kind=PARTED.with_training(merge=lambda hypotheses, params, public: hypotheses),
        partition=PARTITION,
        prologue=prologue_with_a_draw(),
        epilogue=counting_epilogue(),
        optimizer=lambda params: IDLE,
    )
    table = table_of_one_split(60)
    results = [EXECUTIONS[way](recipe, table) for way in ("jit", "op by op")]
    for under_jit, op_by_op in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_array_equal(under_jit, op_by_op)
