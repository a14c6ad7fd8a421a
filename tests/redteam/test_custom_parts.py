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
from dpbt.learners import lazybb, trees
from dpbt.privacy import boundary, mechanisms
from dpbt.training import own_code, run_keys
from dpbt.types import ADD_REMOVE, Noise, Prologue
from tests.support.attacks import table_of_one_split

NOISE = mechanisms.discrete_laplace


EXACT = {"sensitivity": 1.0, "moved_outputs": 1, "theorem": "none", "scale": 0.0}
ROW = {"sensitivity": 1.0, "moved_outputs": 1, "theorem": "a row", "scale": 2.0}


def positives(draw, table, weights, params, public):
    draw("n", NOISE, jnp.sum(table.present & table.target).astype(jnp.int32)[None], **ROW)


def leaf(release, params, public):
    return dpbt.Tree(jnp.full(1, -1, jnp.int32), jnp.full(2, release["n"][0].astype(jnp.float32)))


def opening(site="n", intercept=lambda release, params: jnp.float32(0), tag="prologue"):
    def program(draw, table, weights, params, public):
        draw(site, NOISE, jnp.sum(table.present).astype(jnp.int32)[None], **ROW)

    return Prologue(program=program, initial_score=intercept, identity=tag)


def recipe_of(program=positives, kind=trees.TREES, **changes):
    learner = boundary.weak_learner(
        name="an author's",
        program=program,
        hypothesis=leaf,
        kind=kind,
        fractions={},
        relation=ADD_REMOVE,
        **changes,
    )
    return recipes.custom(learner, params=Noise({}), rows=400, rounds=2)


def test_a_prologue_and_a_round_may_not_share_a_site():
    """An audit by site would forget one of the two."""
    recipe = recipe_of(prologue=opening("n"))
    for ask in (dpbt.ledger, lambda one: dpbt.boost(jax.random.key(0), table_of_one_split(), one)):
        with pytest.raises(ValueError, match="both draw"):
            ask(recipe)


def refused_everywhere(program, words):
    """No recipe is made of a program, and none that is given it runs or has a ledger."""
    keys, honest = jax.random.split(jax.random.key(0)), recipe_of()
    forged_round = dataclasses.replace(honest.learner.round, program=program)
    forged = dataclasses.replace(
        honest, learner=dataclasses.replace(honest.learner, round=forged_round)
    )
    for ask in (
        lambda: recipe_of(program),
        lambda: dpbt.boost(keys[0], table_of_one_split(), forged, keys[1]),
        lambda: dpbt.ledger(forged),
    ):
        with pytest.raises(ValueError, match=words):
            ask()


def test_noise_drawn_with_the_public_key_is_refused():
    """Whoever has the published key could subtract it."""
    mine = NOISE._replace(name="my laplace", public=True)

    def program(draw, table, weights, params, public):
        draw("n", mine, jnp.sum(table.target).astype(jnp.int32)[None], **ROW)

    refused_everywhere(program, "public key")


def test_two_sites_of_one_key_are_refused():
    """Two names of one checksum of 31 bits."""
    twins = ("leaf_3985819", "leaf_4420602")
    assert len({zlib.crc32(name.encode()) & 0x7FFFFFFF for name in twins}) == 1

    def program(draw, table, weights, params, public):
        for site in twins:
            draw(site, NOISE, jnp.sum(table.target).astype(jnp.int32)[None], **ROW)

    refused_everywhere(program, "would have one key")


def closing_over(first, second):
    def program(draw, table, weights, params, public):
        value = jnp.array([len(first), len(second)], jnp.int32) + jnp.sum(table.target)
        draw("n", NOISE, value.astype(jnp.int32), **ROW)

    return program


def key_of(recipe):
    key = run_keys.derive_recipe_key(jax.random.key(0), recipe)
    return tuple(jax.random.key_data(key).tolist())


def test_learners_of_one_name_that_differ_have_keys_that_differ():
    recipes_of_one_name = [
        recipe_of(closing_over((0, 1), (2,))),
        recipe_of(closing_over((0,), (1, 2))),
        recipe_of(closing_over(((0,), 1), ())),
    ]
    assert len({key_of(recipe) for recipe in recipes_of_one_name}) == 3

    def flipped(table):
        return trees.evaluate_splits_of_rows(table._replace(target=~table.target))

    other = recipe_of(kind=trees.TREES.with_training(prepare=flipped))
    assert key_of(other) != key_of(recipe_of())


def test_learners_of_one_name_that_do_the_same_have_one_key():
    """Whatever objects their functions are: a key is the same in the next process, too."""
    one, other = (recipe_of(closing_over((0, 1), (2,))) for _ in range(2))
    assert one.learner.round.program is not other.learner.round.program
    assert key_of(one) == key_of(other)


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

    before = key_of(recipe_of(program_that_calls(count, "count")))
    assert key_of(recipe_of(program_that_calls(count, "count_of_positive_rows"))) == before
    assert key_of(recipe_of(program_that_calls(count_twice, "count"))) != before


SCALED = 1.0


def scaled(draw, table, weights, params, public):
    draw("n", NOISE, jnp.sum(table.target).astype(jnp.int32)[None] * int(SCALED), **ROW)


def test_a_key_follows_what_the_code_reads(monkeypatch):
    """A global that is replaced."""

    def program(draw, table, weights, params, public):
        scaled(draw, table, weights, params, public)

    before = key_of(recipe_of(program))
    assert key_of(recipe_of(program)) == before
    monkeypatch.setitem(globals(), "SCALED", 2.0)
    assert key_of(recipe_of(program)) != before


def test_learners_that_differ_on_tables_of_several_rows_have_keys_that_differ():
    def program_of(times):
        def program(draw, table, weights, params, public):
            several = times if table.target.shape[0] > 1 else 1
            draw("n", NOISE, several * jnp.sum(table.target).astype(jnp.int32)[None], **ROW)

        return program

    assert key_of(recipe_of(program_of(1))) != key_of(recipe_of(program_of(2)))


@pytest.mark.parametrize("pair", [(jnp.min, jnp.max), (jnp.array([1, 2]), jnp.array([1, 3]))])
def test_functions_and_arrays_that_are_closed_over_tell_keys_apart(pair):
    def recipe_with(value):
        def program(draw, table, weights, params, public):
            rows = jnp.sum(table.target)
            number = value(jnp.stack([rows, 2 * rows])) if callable(value) else rows + value[1]
            draw("n", NOISE, number.astype(jnp.int32)[None], **ROW)

        return recipe_of(program)

    one, other = map(recipe_with, pair)
    assert key_of(one) != key_of(other)


def test_a_config_says_what_it_is():
    """A function has no content as text, and its address differs from process to process."""
    with pytest.raises(ValueError, match="has an address of memory"):
        recipe_of(config=(1, closing_over))
    assert key_of(recipe_of(config=(1, 2))) != key_of(recipe_of(config=(1, 3)))


def test_a_prologue_that_is_put_under_another_tag_changes_the_noise():
    base = recipes.lazybb_rules(epsilon=1.0, rows=400, rounds=2, relation="add_remove")
    keys = set()
    for prologue in (None, opening("m"), opening("m", tag="another")):
        learner = dataclasses.replace(lazybb.one_rule(ADD_REMOVE), prologue=prologue)
        own = run_keys.derive_recipe_key(
            jax.random.key(0), dataclasses.replace(base, learner=learner)
        )
        keys.add(tuple(jax.random.key_data(own).tolist()))
    assert len(keys) == 3


def test_absent_rows_weigh_nothing_whatever_a_program_does():
    """A program that forgets the mask of present rows still sees no absent row's weight."""

    def forgetful(draw, table, weights, params, public):
        draw("n", NOISE, jnp.sum(weights).astype(jnp.int32)[None], **EXACT)

    table = table_of_one_split(60)
    gone = table._replace(present=table.present.at[:20].set(False))
    recipe = recipe_of(forgetful)
    release = dpbt.boost(jax.random.key(0), gone, recipe).transcript.rounds["n"]
    assert release.tolist() == [[127 * 40]] * 2


def test_weights_of_a_re_weighter_are_integers_in_their_range():
    """A weight update of one's own gives numbers that no sensitivity allows for."""

    def wild(score, bound, table, public):
        weight = jnp.resize(jnp.array([200.0, -5.0, jnp.nan, 0.6, 127.0]), score.shape)
        return weighting.Weighted(weight, jnp.float32(1))

    def weighing(draw, table, weights, params, public):
        draw("n", NOISE, weights[:5].astype(jnp.int32), **EXACT)

    wilder = weighting.WeightUpdate(identity="wild", coupled=False, weigh=wild)
    recipe = dataclasses.replace(recipe_of(weighing), weight_update=wilder)
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
    rounds = [lazybb.one_rule(ADD_REMOVE, which).round for which in ("tight", "published")]
    keys = {key_of(recipe_of_library_parts(each.program, each.hypothesis)) for each in rounds}
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
    assert list(map(own_code.is_function_of_library, own_code.functions_held_by(kind(1)))) != []
    assert not all(map(own_code.is_function_of_library, own_code.functions_held_by(kind(1))))
    assert key_of(recipe_of(kind(1))) != key_of(recipe_of(kind(2)))
