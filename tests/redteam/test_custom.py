"""Attacks through parts of one's own: learners, prologues, mechanisms, tags, names of sites."""

import dataclasses
import zlib

import jax
import jax.numpy as jnp
import pytest

import dpbt
from dpbt import recipes, weighting
from dpbt.learners import lazybb, trees
from dpbt.privacy import boundary, mechanisms
from dpbt.training import step
from dpbt.types import ADD_REMOVE, Noise, Prologue
from tests.support import attacks
from tests.support.attacks import table_of_one_split

NOISE = mechanisms.discrete_laplace


EXACT = {"sensitivity": 1.0, "moves": 1, "theorem": "none", "scale": 0.0}
ROW = {"sensitivity": 1.0, "moves": 1, "theorem": "a row", "scale": 2.0}


def positives(draw, table, weights, budget, public):
    draw("n", NOISE, jnp.sum(table.present & table.target).astype(jnp.int32)[None], **ROW)


def leaf(release, budget, public):
    return dpbt.Tree(jnp.full(1, -1, jnp.int32), jnp.full(2, release["n"][0].astype(jnp.float32)))


def opening(site="n", intercept=lambda release, budget: jnp.float32(0), tag="prologue"):
    def program(draw, table, weights, budget, public):
        draw(site, NOISE, jnp.sum(table.present).astype(jnp.int32)[None], **ROW)

    return Prologue(program, intercept, tag)


def recipe_of(program=positives, hypotheses=trees.TREES, **changes):
    learner = boundary.weak_learner(program, leaf, {}, hypotheses, ADD_REMOVE, **changes)
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
    forged = dataclasses.replace(honest, learner=honest.learner._replace(program=program))
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

    def program(draw, table, weights, budget, public):
        draw("n", mine, jnp.sum(table.target).astype(jnp.int32)[None], **ROW)

    refused_everywhere(program, "public key")


def test_two_sites_of_one_key_are_refused():
    """Two names of one checksum of 31 bits."""
    twins = ("leaf_3985819", "leaf_4420602")
    assert len({zlib.crc32(name.encode()) & 0x7FFFFFFF for name in twins}) == 1

    def program(draw, table, weights, budget, public):
        for site in twins:
            draw(site, NOISE, jnp.sum(table.target).astype(jnp.int32)[None], **ROW)

    refused_everywhere(program, "would have one key")


def closing_over(first, second):
    def program(draw, table, weights, budget, public):
        value = jnp.array([len(first), len(second)], jnp.int32) + jnp.sum(table.target)
        draw("n", NOISE, value.astype(jnp.int32), **ROW)

    return program


def test_learners_that_differ_have_default_tags_that_differ():
    tags = {
        recipe_of(closing_over((0, 1), (2,))).learner.traits.tag,
        recipe_of(closing_over((0,), (1, 2))).learner.traits.tag,
        recipe_of(closing_over(((0,), 1), (2,))).learner.traits.tag,
        recipe_of(closing_over(frozenset({0, 1}), (2,))).learner.traits.tag,
    }
    assert len(tags) == 4

    def flipped(table):
        return trees.prepare_tree_rows(table._replace(target=~table.target))

    other = recipe_of(hypotheses=trees.TREES._replace(prepare=flipped))
    assert other.learner.traits.tag != recipe_of().learner.traits.tag


SCALED = 1.0


def scaled(draw, table, weights, budget, public):
    draw("n", NOISE, jnp.sum(table.target).astype(jnp.int32) * int(SCALED), **ROW)


def test_a_default_tag_follows_what_the_code_reads(monkeypatch):
    """A global that is replaced; a function that calls itself; and what cannot be read."""

    def program(draw, table, weights, budget, public):
        if draw is None:
            program(draw, table, weights, budget, public)
        scaled(draw, table, weights, budget, public)

    before = recipe_of(program).learner.traits.tag
    assert recipe_of(program).learner.traits.tag == before
    monkeypatch.setitem(globals(), "SCALED", 2.0)
    assert recipe_of(program).learner.traits.tag != before
    for unread in (object(), attacks):  # a module of one's own may change, too
        monkeypatch.setitem(globals(), "SCALED", unread)
        with pytest.raises(ValueError, match="declare tag="):
            recipe_of(program)


@pytest.mark.parametrize(
    "pair",
    [
        (jax.nn.initializers.normal(0.1), jax.nn.initializers.normal(0.9)),
        (jax.lax.max, jnp.max),
    ],
)
def test_functions_of_libraries_that_differ_have_tags_that_differ(pair):
    one, other = (boundary.code_tag(lambda draw, each=each: each(draw)) for each in pair)
    assert one != other


def test_a_prologue_that_is_put_under_another_tag_changes_the_noise():
    base = recipes.lazybb_rules(epsilon=1.0, rows=400, rounds=2, relation="add_remove")
    keys = set()
    for prologue in (None, opening("m"), opening("m", tag="another")):
        learner = lazybb.one_rule(ADD_REMOVE)._replace(prologue=prologue)
        own = step.derive_recipe_key(jax.random.key(0), dataclasses.replace(base, learner=learner))
        keys.add(tuple(jax.random.key_data(own).tolist()))
    assert len(keys) == 3


def test_absent_rows_weigh_nothing_whatever_a_program_does():
    """A program that forgets the mask of present rows still sees no absent row's weight."""

    def forgetful(draw, table, weights, budget, public):
        draw("n", NOISE, jnp.sum(weights).astype(jnp.int32)[None], **EXACT)

    table = table_of_one_split(60)
    gone = table._replace(present=table.present.at[:20].set(False))
    recipe = recipe_of(forgetful)
    release = dpbt.boost(jax.random.key(0), gone, recipe).transcript.rounds["n"]
    assert release.tolist() == [[127 * 40]] * 2


def test_weights_of_a_re_weighter_are_integers_in_their_range():
    """A weight update of one's own gives numbers that no sensitivity allows for."""

    def wild(score, bound, table, public):
        weight = jnp.tile(jnp.array([200.0, -5.0, jnp.nan, 0.6, 127.0]), 12)
        return weighting.Weighted(weight, jnp.float32(1))

    def weighing(draw, table, weights, budget, public):
        draw("n", NOISE, weights[:5].astype(jnp.int32), **EXACT)

    wilder = weighting.WeightUpdate("wild", False, wild)
    recipe = dataclasses.replace(recipe_of(weighing), weight_update=wilder)
    release = dpbt.boost(jax.random.key(0), table_of_one_split(60), recipe).transcript.rounds["n"]
    assert release[0].tolist() == [127, 0, 0, 1, 127]
