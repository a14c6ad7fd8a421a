"""Prologues: what a learner does once before the rounds is priced, replayed and audited like
them.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.analysis import audit
from dpbt.common.types import ADD_REMOVE, GRID, REPLACE_ONE, Noise, Prologue
from dpbt.learners import trees
from dpbt.privacy import boundary, mechanisms, sensitivity
from tests.tables import every_pattern, random_table

NOISE = mechanisms.discrete_laplace
SETTINGS = {"rows": 14, "rounds": 2, "epsilon": 3.0}
PART = 0.25
"""The prologue's share of the allowance."""


def counting_of(relation, moved=1.0):
    """The prologue: how many rows are of each class; a row is said to move `moved` of them."""

    def counting(draw, table, weights, budget, public):
        del weights, public
        positive = jnp.sum(table.present & table.target)
        negative = jnp.sum(table.present & ~table.target)
        counts = jnp.stack([negative, positive]).astype(jnp.int32)
        moves = sensitivity.moved_rows(relation)
        draw("classes", NOISE, counts, sensitivity=moves * moved, moves=moves, theorem="a row")

    return counting


counting = counting_of(ADD_REMOVE)


def intercept(release, budget):
    """The logit of the noisy share, each class counting as at least one row."""
    del budget
    negative, positive = jnp.maximum(release["classes"], 1).astype(jnp.float32)
    return jnp.log(positive / negative)


def rarer(public):
    """bool[]: whether the positive class is the rarer one, by the prologue's release."""
    return public.prologue["classes"][1] < public.prologue["classes"][0]


def sides_of(relation):
    """A round: the class weights of split 0's two sides, the rarer class first."""

    def sides(draw, table, weights, budget, public):
        levels = trees.weights_by_class(table, weights)
        everywhere = jnp.zeros(table.target.shape, jnp.int32)
        products = trees.node_products(table, levels, everywhere, 1, None)
        totals = trees.child_totals(products, trees.node_totals(levels), jnp.zeros(1, jnp.int32))
        ordered = jnp.where(rarer(public), totals[:, ::-1], totals)
        bound, moves = sensitivity.class_weights(relation), sensitivity.moved_rows(relation)
        draw("leaf", NOISE, ordered, sensitivity=bound.times(GRID), moves=moves, theorem="one side")

    return sides


def stump(release, budget, public):
    del budget
    noisy = jnp.where(rarer(public), release["leaf"][:, ::-1], release["leaf"])
    edge = jnp.sign(noisy[:, 1] - noisy[:, 0]).astype(jnp.float32)
    return dpbt.Tree(jnp.zeros(1, jnp.int32), edge)


FRACTIONS = {"classes": PART, "leaf": 1 - PART}


def learner(relation=ADD_REMOVE, program=None, tag="a stump with a prologue"):
    return boundary.weak_learner(
        sides_of(relation),
        stump,
        FRACTIONS,
        trees.TREES,
        relation,
        prologue=Prologue(program or counting_of(relation), intercept, "counts"),
        tag=f"{tag}, {relation.name}",
    )


def recipe_of(relation=ADD_REMOVE, weak=None, **changes):
    return recipes.custom(weak or learner(relation), **{**SETTINGS, **changes})


relations = pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE], ids=lambda r: r.name)


@relations
def test_the_prologue_is_paid_for_once_and_the_rounds_t_times(relation):
    rounds = 7
    recipe = recipe_of(relation, rounds=rounds)
    book = dpbt.ledger(recipe)
    once, often = book.lines
    assert (once.site, once.count, often.site, often.count) == ("classes", 1, "leaf", rounds)
    assert once.epsilon == pytest.approx(PART * 3.0, rel=1e-5)
    assert rounds * often.epsilon == pytest.approx((1 - PART) * 3.0, rel=1e-5)
    assert 3.0 * (1 - 1e-5) <= book.epsilon <= 3.0
    assert once.gap > 0
    assert book.sampler_epsilon == pytest.approx(2 * (once.gap + often.gap))
    assert str(book).splitlines()[1].startswith("classes")


TWINS = ("leaf_3985819", "leaf_4420602")
"""Two names of one checksum, so that one key would make one noise for both."""


def constant(site):
    def program(draw, table, weights, budget, public):
        del weights, public
        nothing = jnp.zeros(8, jnp.int32) + 0 * jnp.sum(table.present)
        draw(site, NOISE, nothing, sensitivity=1.0, moves=1, theorem="none", scale=1e5)

    return program


def test_noise_of_the_prologue_is_not_that_of_a_round():
    """Draws whose names have one checksum, at one scale: no round has the prologue's noise."""
    first, second = TWINS
    weak = boundary.weak_learner(
        constant(second),
        lambda release, budget, public: dpbt.Tree(jnp.zeros(1, jnp.int32), jnp.zeros(2)),
        {},
        trees.TREES,
        ADD_REMOVE,
        prologue=Prologue(constant(first), lambda release, budget: jnp.float32(0), "nothing"),
        tag="twins",
    )
    recipe = recipes.custom(weak, rows=14, rounds=20, params=Noise({}))
    table = random_table(0, 14, 3)
    transcript = jax.jit(dpbt.boost)(jax.random.key(3), table, recipe).transcript
    same = np.asarray(transcript.rounds[second]) == np.asarray(transcript.prologue[first])
    assert not np.any(np.all(same, axis=-1))  # false alarm: below 1e-35


@relations
def test_exact_losses_are_within_the_ledger_and_attained(relation):
    """All neighbours out of the whole public domain, on a table where one side has one class."""
    table = random_table(2, rows=12, splits=2, absent=2 if relation is ADD_REMOVE else 0)
    recipe = recipe_of(relation, rows=12 if relation is REPLACE_ONE else 14)
    near = audit.neighbours(table, relation, every_pattern(2))
    found = audit.audit(jax.random.key(0), near, recipe, transcripts=20, steps=True)
    assert 0 < found.largest_loss <= found.claimed_epsilon + 2e-3
    assert set(found.step_ratio) == set(found.by_site) == {"classes", "leaf"}
    for ratio in found.step_ratio.values():
        assert 0.99 <= ratio <= 1 + 2e-3
    assert sum(found.by_site.values()) == pytest.approx(sum(found.by_mechanism.values()))


def without_noise(draw, table, weights, budget, public):
    """The counts as they are, beside a draw that is priced."""
    counting(draw, table, weights, budget, public)
    own = {"sensitivity": 1.0, "moves": 1, "theorem": "none", "scale": 0.0}
    draw("more", NOISE, jnp.sum(table.present).astype(jnp.int32), **own)


def test_a_draw_without_noise_has_an_infinite_line():
    weak = learner(program=without_noise, tag="bare")
    with pytest.raises(ValueError, match="the noise of 'more' would have scale 0"):
        recipe_of(weak=weak)
    book = dpbt.ledger(recipe_of(weak=weak, epsilon=None, params=recipe_of().params))
    assert [line.site for line in book.lines] == ["classes", "more", "leaf"]
    assert book.epsilon == book.lines[1].epsilon == np.inf


def test_a_fraction_of_a_prologue_that_draws_nothing_is_refused():
    silent = Prologue(lambda *read: None, lambda release, budget: jnp.float32(0), "silent")
    weak = learner(tag="silent")._replace(prologue=silent, program=constant("leaf"))
    with pytest.raises(ValueError, match="draws nothing at"):
        recipe_of(weak=weak)


def test_an_audit_finds_a_prologue_that_is_priced_for_less_than_a_row():
    """Half of the sensitivity passes the ledger, which cannot know it, and not the audit."""
    half = counting_of(ADD_REMOVE, 0.5)
    recipe = recipe_of(weak=learner(program=half, tag="half a row"))
    near = audit.neighbours(random_table(2, 14, 2), ADD_REMOVE)
    found = audit.audit(jax.random.key(0), near, recipe, transcripts=5, steps=True)
    assert found.step_ratio["classes"] == pytest.approx(2.0, rel=1e-3)


def test_the_intercept_reaches_every_score():
    table, recipe = random_table(7, 14, 3), recipe_of(epsilon=50.0)
    model = dpbt.fit(jax.random.key(2), table, recipe)
    start = float(intercept(model.transcript.prologue, recipe.params))
    assert start != 0
    assert float(model.intercept) == pytest.approx(start, rel=1e-6)

    votes = np.zeros(14)
    right = np.asarray(table.bins)[:, 0].astype(int)
    for leaf in np.asarray(model.hypotheses.leaf):
        votes += leaf[right]
    score = np.asarray(dpbt.decision_function(model, table))
    np.testing.assert_allclose(score, start + votes, rtol=1e-6)

    boosted = jax.jit(dpbt.boost)(jax.random.key(2), table, recipe)
    np.testing.assert_allclose(boosted.scores, score, rtol=1e-6)
    np.testing.assert_array_equal(dpbt.predict(model, table), score > 0)


def test_learners_that_differ_in_their_prologue_alone_do_not_share_noise():
    """Without a declared tag: one that told their rounds apart by the program alone would."""

    def other_intercept(release, budget):
        return -intercept(release, budget)

    tags = []
    prologues = (
        None,
        Prologue(counting, intercept, "counts"),
        Prologue(without_noise, intercept, "counts"),
        Prologue(counting, other_intercept, "counts"),
    )
    for prologue in prologues:
        weak = boundary.weak_learner(
            sides_of(ADD_REMOVE), stump, FRACTIONS, trees.TREES, ADD_REMOVE, prologue=prologue
        )
        tags.append(weak.tag)
    assert len(set(tags)) == 4


def withholding(recipe, site):
    traits = recipe.learner.traits._replace(withheld=(site,))
    return dataclasses.replace(recipe, learner=recipe.learner._replace(traits=traits))


def test_a_site_of_the_prologue_may_be_withheld():
    recipe, table = recipe_of(epsilon=5.0), random_table(7, 14, 3)
    shy = withholding(recipe, "classes")
    model = dpbt.fit(jax.random.key(0), table, shy)
    assert model.transcript.prologue == {}
    assert set(model.releases) == {"leaf"}
    kept = dpbt.boost(jax.random.key(0), table, shy)
    assert set(kept.transcript.prologue) == {"classes"}
    with pytest.raises(ValueError, match="withholds"):
        dpbt.fit(jax.random.key(0), table, withholding(recipe, "no site"))
