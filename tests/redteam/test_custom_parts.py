"""Attacks through parts of one's own: learners, prologues, mechanisms, tags, names of sites."""

import dataclasses
import zlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes, weighting
from dpbt.learners import trees
from dpbt.learners.trees import rule
from dpbt.privacy import boundary, dataflow, mechanisms
from dpbt.training import author_code, run_keys
from dpbt.types import ADD_REMOVE, Noise, Prologue
from tests.support.attacks import table_of_one_split
from tests.support.contract_rows import ROWS
from tests.support.recipe_keys import key_data_of_recipe

NOISE = mechanisms.discrete_laplace


EXACT = {"sensitivity": 1.0, "moved_outputs": 1, "theorem": "none", "scale": 0.0}
ROW = {"sensitivity": 1.0, "moved_outputs": 1, "theorem": "a row", "scale": 2.0}


def draw_positive_rows(draw, table, weights, params, public):
    draw("n", NOISE, jnp.sum(table.present & table.target).astype(jnp.int32)[None], **ROW)


def tree_of_release(release, params, public):
    return dpbt.Tree(jnp.full(1, -1, jnp.int32), jnp.full(2, release["n"][0].astype(jnp.float32)))


def prologue_at_site(site="n", intercept=lambda release, params: jnp.float32(0), tag="prologue"):
    def program(draw, table, weights, params, public):
        draw(site, NOISE, jnp.sum(table.present).astype(jnp.int32)[None], **ROW)

    return Prologue(program=program, initial_score=intercept, identity=tag)


def custom_recipe(program=draw_positive_rows, kind=trees.TREES, **changes):
    learner = boundary.weak_learner(
        name="an author's",
        program=program,
        hypothesis=tree_of_release,
        kind=kind,
        fractions={},
        relation=ADD_REMOVE,
        **changes,
    )
    return recipes.custom(learner, params=Noise({}), rows=400, rounds=2)


def test_a_prologue_and_a_round_may_not_share_a_site():
    """An audit by site would forget one of the two."""
    recipe = custom_recipe(prologue=prologue_at_site("n"))
    for use in (
        dpbt.ledger,
        lambda any_recipe: dpbt.boost(jax.random.key(0), table_of_one_split(), any_recipe),
    ):
        with pytest.raises(ValueError, match="both draw"):
            use(recipe)


def assert_refused_everywhere(program, message):
    """No recipe is made of a program, and none that is given it runs or has a ledger."""
    keys, honest = jax.random.split(jax.random.key(0)), custom_recipe()
    forged_round = dataclasses.replace(honest.learner.round, program=program)
    forged = dataclasses.replace(
        honest, learner=dataclasses.replace(honest.learner, round=forged_round)
    )
    for use in (
        lambda: custom_recipe(program),
        lambda: dpbt.boost(keys[0], table_of_one_split(), forged, keys[1]),
        lambda: dpbt.ledger(forged),
    ):
        with pytest.raises(ValueError, match=message):
            use()


def test_noise_drawn_with_the_public_key_is_refused():
    """Whoever has the published key could subtract it."""
    public_laplace = NOISE._replace(name="my laplace", public=True)

    def program(draw, table, weights, params, public):
        draw("n", public_laplace, jnp.sum(table.target).astype(jnp.int32)[None], **ROW)

    assert_refused_everywhere(program, "public key")


def test_two_sites_whose_names_have_one_checksum_are_refused():
    """The names of the two sites have one checksum of 31 bits."""
    twins = ("leaf_3985819", "leaf_4420602")
    assert len({zlib.crc32(name.encode()) & 0x7FFFFFFF for name in twins}) == 1

    def program(draw, table, weights, params, public):
        for site in twins:
            draw(site, NOISE, jnp.sum(table.target).astype(jnp.int32)[None], **ROW)

    assert_refused_everywhere(program, "would have one key")


def program_closing_over(first, second):
    def program(draw, table, weights, params, public):
        value = jnp.array([len(first), len(second)], jnp.int32) + jnp.sum(table.target)
        draw("n", NOISE, value.astype(jnp.int32), **ROW)

    return program


def test_learners_of_one_name_that_differ_have_keys_that_differ():
    recipes_of_one_name = [
        custom_recipe(program_closing_over((0, 1), (2,))),
        custom_recipe(program_closing_over((0,), (1, 2))),
        custom_recipe(program_closing_over(((0,), 1), ())),
    ]
    assert len({key_data_of_recipe(recipe) for recipe in recipes_of_one_name}) == 3

    def flipped(table):
        return trees.evaluate_splits_of_rows(table._replace(target=~table.target))

    other = custom_recipe(kind=trees.TREES.with_training(prepare=flipped))
    assert key_data_of_recipe(other) != key_data_of_recipe(custom_recipe())


def test_learners_of_one_name_that_do_the_same_have_one_key():
    """A key does not depend on the objects of functions, so it is the same in the next process."""
    recipe, equal_recipe = (custom_recipe(program_closing_over((0, 1), (2,))) for _ in range(2))
    assert recipe.learner.round.program is not equal_recipe.learner.round.program
    assert key_data_of_recipe(recipe) == key_data_of_recipe(equal_recipe)


def test_a_learner_keeps_its_key_when_an_inner_function_is_renamed():
    """A name changes no release, so it may not change the noise of one that is repeated."""

    def program_that_calls(count, name):
        count.__name__ = name
        count_rows = jax.jit(count)

        def program(draw, table, weights, params, public):
            draw("n", NOISE, count_rows(table.target)[None], **ROW)

        return program

    def count(target):
        return jnp.sum(target).astype(jnp.int32)

    def count_twice(target):
        return 2 * jnp.sum(target).astype(jnp.int32)

    before = key_data_of_recipe(custom_recipe(program_that_calls(count, "count")))
    assert (
        key_data_of_recipe(custom_recipe(program_that_calls(count, "count_of_positive_rows")))
        == before
    )
    assert key_data_of_recipe(custom_recipe(program_that_calls(count_twice, "count"))) != before


def test_a_learner_keeps_its_key_within_a_mesh_of_devices():
    """How arrays are divided changes no release, so it may not change the noise either."""
    outside = key_data_of_recipe(custom_recipe())
    with jax.set_mesh(jax.make_mesh((1,), ("rows",))):
        assert key_data_of_recipe(custom_recipe()) == outside


def test_a_scale_that_is_divided_among_devices_has_the_formula_of_the_ledger():
    """The ledger prices a draw outside of the mesh in which it may run."""

    def formula_of(scale):
        program = jax.make_jaxpr(scale)(jnp.float32(1))
        return dataflow.formula_digests(program, ["params.noise"], [0], {})

    def scale_on_devices(noise):
        replicated = jax.sharding.PartitionSpec(None)
        values = jnp.zeros(2, out_sharding=replicated) + noise
        return jnp.max(jax.sharding.reshard(values, replicated))

    priced = formula_of(lambda noise: jnp.max(jnp.zeros(2) + noise))
    with jax.set_mesh(jax.make_mesh((1,), ("rows",))):
        assert formula_of(scale_on_devices) == priced
        assert formula_of(lambda noise: scale_on_devices(noise) / 2) != priced


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_keys_of_the_librarys_recipes_need_no_trace(row):
    """Name and config say what they do; a trace would cost each run two programs."""
    recipe = row.recipe("add_remove", epsilon=8.0, rows=50, rounds=2, depth=2)
    functions = author_code.functions_held_by((recipe.learner, recipe.weight_update))
    packages = {
        str(getattr(function, "__module__", type(function).__module__)).split(".")[0]
        for function in functions
    }
    of_tests = {"jaxtyping"}  # tests check the shapes of arrays by it
    assert packages <= author_code._LIBRARIES | of_tests


SCALED = 1.0


def draw_scaled_count(draw, table, weights, params, public):
    draw("n", NOISE, jnp.sum(table.target).astype(jnp.int32)[None] * int(SCALED), **ROW)


def test_a_key_follows_what_the_code_reads(monkeypatch):
    """A global that the code reads is replaced."""

    def program(draw, table, weights, params, public):
        draw_scaled_count(draw, table, weights, params, public)

    before = key_data_of_recipe(custom_recipe(program))
    assert key_data_of_recipe(custom_recipe(program)) == before
    monkeypatch.setitem(globals(), "SCALED", 2.0)
    assert key_data_of_recipe(custom_recipe(program)) != before


def test_learners_that_differ_on_tables_of_several_rows_have_keys_that_differ():
    def program_of(times):
        def program(draw, table, weights, params, public):
            several = times if table.target.shape[0] > 1 else 1
            draw("n", NOISE, several * jnp.sum(table.target).astype(jnp.int32)[None], **ROW)

        return program

    assert key_data_of_recipe(custom_recipe(program_of(1))) != key_data_of_recipe(
        custom_recipe(program_of(2))
    )


@pytest.mark.parametrize(
    "pair",
    [(jnp.min, jnp.max), (jnp.array([1, 2]), jnp.array([1, 3]))],
    ids=["functions", "arrays"],
)
def test_functions_and_arrays_that_are_closed_over_tell_keys_apart(pair):
    def recipe_with(value):
        def program(draw, table, weights, params, public):
            rows = jnp.sum(table.target)
            count = value(jnp.stack([rows, 2 * rows])) if callable(value) else rows + value[1]
            draw("n", NOISE, count.astype(jnp.int32)[None], **ROW)

        return custom_recipe(program)

    recipe_of_first, recipe_of_second = map(recipe_with, pair)
    assert key_data_of_recipe(recipe_of_first) != key_data_of_recipe(recipe_of_second)


def test_a_config_with_a_function_is_refused_and_other_configs_are_part_of_the_key():
    """A function has no content as text, and its address differs from process to process."""
    with pytest.raises(ValueError, match="has an address of memory"):
        custom_recipe(config=(1, program_closing_over))
    assert key_data_of_recipe(custom_recipe(config=(1, 2))) != key_data_of_recipe(
        custom_recipe(config=(1, 3))
    )


def test_a_prologue_that_is_put_under_another_tag_changes_the_noise():
    base = recipes.lazybb_rules(epsilon=1.0, rows=400, rounds=2, relation="add_remove")
    keys = set()
    for prologue in (None, prologue_at_site("m"), prologue_at_site("m", tag="another")):
        learner = dataclasses.replace(rule.one_rule(ADD_REMOVE), prologue=prologue)
        recipe_key = run_keys.derive_recipe_key(
            jax.random.key(0), dataclasses.replace(base, learner=learner)
        )
        keys.add(tuple(jax.random.key_data(recipe_key).tolist()))
    assert len(keys) == 3


def test_absent_rows_weigh_nothing_whatever_a_program_does():
    """A program that forgets the mask of present rows still sees no absent row's weight."""

    def forgetful(draw, table, weights, params, public):
        draw("n", NOISE, jnp.sum(weights).astype(jnp.int32)[None], **EXACT)

    table = table_of_one_split(60)
    table_of_few_rows = table._replace(present=table.present.at[:20].set(False))
    recipe = custom_recipe(forgetful)
    release = dpbt.boost(jax.random.key(0), table_of_few_rows, recipe).transcript.rounds["n"]
    assert release.tolist() == [[127 * 40]] * 2


def test_weights_of_a_re_weighter_are_integers_in_their_range():
    """A weight update of one's own gives numbers that no sensitivity allows for."""

    def wild(score, bound, table, public):
        weight = jnp.resize(jnp.array([200.0, -5.0, jnp.nan, 0.6, 127.0]), score.shape)
        return weighting.WeightsAndCap(weight, jnp.float32(1))

    def weighing(draw, table, weights, params, public):
        draw("n", NOISE, weights[:5].astype(jnp.int32), **EXACT)

    wilder = weighting.WeightUpdate(identity="wild", coupled=False, weigh=wild)
    recipe = dataclasses.replace(custom_recipe(weighing), weight_update=wilder)
    release = dpbt.boost(jax.random.key(0), table_of_one_split(60), recipe).transcript.rounds["n"]
    assert release[0].tolist() == [127, 0, 0, 1, 127]


# Learners of one name that hold no function of an author's.


def recipe_of_library_parts(program, hypothesis):
    """A recipe of a learner that an author puts together of the library's parts, with no config."""
    learner = boundary.weak_learner(
        name="put together",
        program=program,
        hypothesis=hypothesis,
        kind=trees.TREES,
        fractions={},
        relation=ADD_REMOVE,
    )
    return recipes.custom(learner, params=Noise({"rule": np.float32(1)}), rows=400, rounds=2)


def test_learners_put_together_of_the_librarys_functions_have_keys_that_differ():
    """One of them claims twice the range of the other, for the same errors of rules."""
    rounds = [rule.one_rule(ADD_REMOVE, which).round for which in ("tight", "published")]
    keys = {
        key_data_of_recipe(recipe_of_library_parts(phase.program, phase.hypothesis))
        for phase in rounds
    }
    assert len(keys) == 2


@dataclasses.dataclass(frozen=True)
class CountOfObject:
    """A program that is an object with a number."""

    times: int

    def __call__(self, draw, table, weights, params, public):
        draw("n", NOISE, self.times * jnp.sum(table.target).astype(jnp.int32)[None], **ROW)


class CountOfTuple(NamedTuple):
    """The same as a tuple."""

    times: int

    def __call__(self, draw, table, weights, params, public):
        draw("n", NOISE, self.times * jnp.sum(table.target).astype(jnp.int32)[None], **ROW)


@pytest.mark.parametrize("kind", [CountOfObject, CountOfTuple])
def test_programs_that_are_objects_are_functions_of_an_author(kind):
    assert (
        list(map(author_code.is_function_of_library, author_code.functions_held_by(kind(1)))) != []
    )
    assert not all(map(author_code.is_function_of_library, author_code.functions_held_by(kind(1))))
    assert key_data_of_recipe(custom_recipe(kind(1))) != key_data_of_recipe(custom_recipe(kind(2)))
