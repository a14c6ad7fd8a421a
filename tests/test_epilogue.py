"""Epilogues: what a learner does once after the rounds is priced, replayed and audited like them.

`test_oblivious.py` compares the epilogue of oblivious trees with plain loops.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import boosting, recipes
from dpbt.common.types import ADD_REMOVE, REPLACE_ONE, Partition
from dpbt.data.domains import Boolean
from dpbt.learners import oblivious_once
from dpbt.privacy import boundary, mechanisms
from dpbt.privacy.sensitivity import whole_rows
from tests import reference_oblivious as reference
from tests.tables import random_table

NOISE = mechanisms.discrete_laplace
DOMAIN = {f"x{k}": Boolean() for k in range(3)}
PART = 0.25
"""The epilogue's share of the budget."""


def recipe_of(relation=ADD_REMOVE, **changes):
    settings = {"epsilon": 3.0, "rows": 14, "rounds": 3, "depth": 2, "attributes_per_tree": (1, 2)}
    shares = {"marginals_fraction": PART, "scores_fraction": PART}
    settings = {**settings, **shares, **changes}
    return recipes.oblivious_boost(domain=DOMAIN, relation=relation, **settings)


def with_epilogue(recipe, **changes):
    """The recipe with another epilogue."""
    learner = recipe.learner
    epilogue = learner.epilogue._replace(**changes)
    return dataclasses.replace(recipe, learner=learner._replace(epilogue=epilogue))


def counting_of(moved=1.0, site="scores"):
    """An epilogue that counts scores; a row is said to move `moved` of them."""

    def counting(draw, table, scores, budget, public):
        counts = whole_rows(oblivious_once.parts(table, scores))
        draw(site, NOISE, counts, sensitivity=moved, moves=1, theorem="a row")

    return counting


counting = counting_of()


relations = pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE], ids=lambda r: r.name)


@relations
def test_the_epilogue_is_paid_for_once(relation):
    recipe = recipe_of(relation, rounds=7)
    opening, rounds, closing = dpbt.ledger(recipe).lines
    assert [line.site for line in (opening, rounds, closing)] == ["histogram", "sums", "scores"]
    assert (opening.count, rounds.count, closing.count) == (1, 7, 1)
    assert closing.epsilon == pytest.approx(PART * 3.0, rel=1e-5)
    assert 7 * rounds.epsilon == pytest.approx((1 - 2 * PART) * 3.0, rel=1e-5)
    assert 3.0 * (1 - 1e-5) <= dpbt.ledger(recipe).epsilon <= 3.0


def test_keys_of_prologue_epilogue_and_rounds_differ():
    own = boosting.own_key(jax.random.key(0), recipe_of())
    rounds = np.asarray(
        jax.random.key_data(boosting._children(own, np.arange(50, dtype=np.uint32)))
    )
    once = boosting._PROLOGUE, boosting._EPILOGUE
    others = [np.asarray(jax.random.key_data(jax.random.fold_in(own, each))) for each in once]
    assert len(np.unique([*rounds, *others], axis=0)) == 52


def test_learners_that_differ_in_their_epilogue_alone_do_not_share_noise():
    recipe, key = recipe_of(), jax.random.key(0)
    other = with_epilogue(recipe, tag="another epilogue")
    here, there = (jax.random.key_data(boosting.own_key(key, one)) for one in (recipe, other))
    assert np.any(here != there)


def test_the_noise_of_the_epilogue_depends_on_the_number_of_rounds():
    """Scores after other rounds are another statistic, so equal noise would give it away."""
    table, several = random_table(0, 14, 3), recipe_of(rounds=[2, 3], marginals_fraction=0.0)
    few, many = (recipes.setting(several, index) for index in (0, 1))
    many = dataclasses.replace(many, params=few.params)
    wide = few.params._replace(noise={**few.params.noise, "scores": np.float32(1e4)})
    boost = jax.jit(dpbt.boost)
    drawn = [
        boost(jax.random.key(0), table, dataclasses.replace(one, params=wide))
        for one in (few, many)
    ]
    first, second = (boosted.transcript for boosted in drawn)
    np.testing.assert_array_equal(first.rounds["sums"][:2], second.rounds["sums"][:2])
    apart = np.abs(np.asarray(first.epilogue["scores"]) - np.asarray(second.epilogue["scores"]))
    assert apart.max() > 14  # equal noise would leave the difference of two counts


def test_learners_that_place_rows_in_other_ways_do_not_share_noise():
    """The default tag has `place`, whose result the program reads."""

    def of(place):
        learner = recipe_of().learner
        kind = learner.hypotheses._replace(
            partition=Partition(lambda *read: None, place, lambda structure: None),
            prepare=lambda table: table,
            predict=lambda tree, rows: rows.target,
            bound=lambda tree: tree,
        )
        return boundary.weak_learner(
            counting, lambda *read: None, {"scores": 1.0}, kind, ADD_REMOVE
        ).tag

    def left(structure, rows):
        return rows

    def right(structure, rows):
        return (rows, 1)

    assert of(left) != of(right)


def test_a_site_of_two_parts_is_refused_by_all_that_read_one():
    table, recipe = random_table(0, 14, 3), recipe_of()
    clash = with_epilogue(recipe, program=counting_of(site="sums"))
    twice = dpbt.Transcript({}, {"sums": jnp.zeros((3, 4))}, {"sums": jnp.zeros((10, 2))})
    for judge in (
        lambda: dpbt.ledger(clash),
        lambda: dpbt.replay(twice, table, recipe),
        lambda: boosting.step_divergences(twice, table, table, recipe),
    ):
        with pytest.raises(ValueError, match="the rounds and the epilogue both draw"):
            judge()


def test_an_epilogue_needs_hypotheses_that_can_be_scaled():
    learner = recipe_of().learner
    rigid = learner.hypotheses._replace(scaled=None)
    with pytest.raises(ValueError, match="needs hypotheses that can be scaled"):
        boundary.weak_learner(
            counting,
            learner.hypothesis,
            {"scores": 1.0},
            rigid,
            ADD_REMOVE,
            epilogue=learner.epilogue,
            tag="rigid",
        )


@pytest.mark.parametrize("start", [0.0, -2.0])
def test_the_line_is_that_of_plain_loops_and_finds_the_truth(start):
    """From exact counts of 10^6 rows; and without any information it is the prior's."""
    middles, rows = np.array(reference.MIDDLES), 1e6
    begin = start * np.log(2)
    share = 1 / (1 + np.exp(-(begin + 0.4 + 0.7 * (middles - begin))))
    counts = np.round(np.stack([1 - share, share], 1) * rows / 10).astype(np.int32)
    of_counts = jax.jit(oblivious_once.line)
    for deviation in (0.0, 3.0, 3000.0):
        found = of_counts(jnp.asarray(counts), jnp.float32(deviation), jnp.float32(start))
        expected = reference.score_line(counts, deviation, start)
        np.testing.assert_allclose(found, expected, rtol=2e-3)
    slope, intercept = of_counts(jnp.asarray(counts), jnp.float32(0), jnp.float32(start))
    assert float(slope) == pytest.approx(0.7, rel=0.06)
    assert (float(intercept) - start) * np.log(2) == pytest.approx(0.4, abs=0.06)

    nothing = jnp.zeros((10, 2), jnp.int32)
    slope, intercept = of_counts(nothing, jnp.float32(1e6), jnp.float32(start))
    assert float(slope) == pytest.approx(0.5, rel=0.02)
    assert float(intercept) == pytest.approx(start, abs=1e-3)
