"""What a learner does once, before the rounds and after them, is priced and drawn like them.

`test_oblivious.py` compares it with plain loops, and `test_contract.py` audits it.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import audit, recipes
from dpbt.data.domains import Boolean
from dpbt.learners import trees
from dpbt.learners.bins.epilogue import class_counts_by_score_interval, fit_score_line
from dpbt.privacy import boundary, mechanisms
from dpbt.privacy.sensitivity import round_grid_to_rows
from dpbt.training import run_keys
from dpbt.training.replay import log_ratios_by_site
from dpbt.types import ADD_REMOVE, Noise, Prologue
from tests.support.example_tables import random_table
from tests.support.references import oblivious_trees as reference

NOISE = mechanisms.discrete_laplace
DOMAIN = {f"x{k}": Boolean() for k in range(3)}
PART = 0.25
"""The share of the budget of what is drawn before the rounds, and of what is drawn after them."""

BOOST = jax.jit(dpbt.boost)


def recipe_of(**changes):
    settings = {"epsilon": 3.0, "rows": 14, "rounds": 3, "depth": 2, "attributes_per_tree": (1, 2)}
    shares = {"marginals_fraction": PART, "scores_fraction": PART}
    return recipes.oblivious_boost(domain=DOMAIN, **{**settings, **shares, **changes})


def replaced(recipe, **parts):
    return dataclasses.replace(recipe, learner=dataclasses.replace(recipe.learner, **parts))


def constant(site, **words):
    """A program that draws zeros, whatever the rows are."""

    def program(draw, table, *read):
        del read
        nothing = jnp.zeros(8, jnp.int32) + 0 * jnp.sum(table.present)
        draw(site, NOISE, nothing, sensitivity=1.0, moved_outputs=1, theorem="none", **words)

    return program


def counting(draw, table, scores, params, public):
    counts = round_grid_to_rows(class_counts_by_score_interval(table, scores))
    draw("scores", NOISE, counts, sensitivity=1.0, moved_outputs=1, theorem="a row")


def test_what_is_drawn_once_is_paid_for_once_and_the_rounds_t_times():
    book = dpbt.ledger(recipe_of(rounds=7))
    opening, rounds, closing = book.lines
    assert [line.site for line in book.lines] == ["histogram", "sums", "scores"]
    assert [line.count for line in book.lines] == [1, 7, 1]
    assert opening.epsilon == pytest.approx(PART * 3.0, rel=1e-5)
    assert closing.epsilon == pytest.approx(PART * 3.0, rel=1e-5)
    assert 7 * rounds.epsilon == pytest.approx((1 - 2 * PART) * 3.0, rel=1e-5)
    assert 3.0 * (1 - 1e-5) <= book.epsilon <= 3.0
    assert opening.gap > 0
    assert book.sampler_epsilon == pytest.approx(2 * sum(line.gap for line in book.lines))


TWINS = ("leaf_3985819", "leaf_4420602")
"""Two names of one checksum, so that one key would make one noise for both."""


def test_noise_of_the_prologue_is_not_that_of_a_round():
    """Draws whose names have one checksum, at one scale: no round has the prologue's noise."""
    first, second = (constant(site, scale=1e5) for site in TWINS)
    weak = boundary.weak_learner(
        name="twins",
        program=second,
        hypothesis=lambda release, params, public: dpbt.Tree(jnp.zeros(1, jnp.int32), jnp.zeros(2)),
        kind=trees.TREES,
        fractions={},
        relation=ADD_REMOVE,
        prologue=Prologue(
            program=first,
            initial_score=lambda release, params: jnp.float32(0),
            identity="nothing",
        ),
    )
    recipe = recipes.custom(weak, rows=14, rounds=20, params=Noise({}))
    transcript = BOOST(jax.random.key(3), random_table(0, 14, 3), recipe).transcript
    same = np.asarray(transcript.rounds[TWINS[1]]) == np.asarray(transcript.prologue[TWINS[0]])
    assert not np.any(np.all(same, axis=-1))  # false alarm: below 1e-35


@pytest.mark.slow
def test_the_noise_of_the_epilogue_depends_on_the_number_of_rounds():
    """Scores after other rounds are another statistic, so equal noise would give it away."""
    table, several = random_table(0, 14, 3), recipe_of(rounds=[2, 3], marginals_fraction=0.0)
    few, many = (recipes.setting(several, index) for index in (0, 1))
    wide = few.params._replace(noise={**few.params.noise, "scores": np.float32(1e4)})
    first, second = (
        BOOST(jax.random.key(0), table, dataclasses.replace(one, params=wide)).transcript
        for one in (few, many)
    )
    np.testing.assert_array_equal(first.rounds["sums"][:2], second.rounds["sums"][:2])
    apart = np.abs(np.asarray(first.epilogue["scores"]) - np.asarray(second.epilogue["scores"]))
    assert apart.max() > 14  # equal noise would leave the difference of two counts


def key_of(recipe):
    key = run_keys.derive_recipe_key(jax.random.key(0), recipe)
    return tuple(jax.random.key_data(key).tolist())


def test_learners_that_differ_in_what_they_do_once_do_not_share_noise():
    """By the identity that an epilogue declares, and by what the functions do."""
    recipe = recipe_of()
    renamed = dataclasses.replace(recipe.learner.epilogue, identity="another epilogue")
    assert key_of(replaced(recipe, epilogue=renamed)) != key_of(recipe)

    def prologue_of(program, score):
        return Prologue(
            program=program, initial_score=lambda *read: jnp.float32(score), identity="own"
        )

    plain = recipe_of(marginals_fraction=0.0)
    prologues = [
        None,
        prologue_of(constant("first", scale=2.0), 0),
        prologue_of(constant("first", scale=2.0), 1),
    ]
    programs = {key_of(replaced(plain, prologue=prologue)) for prologue in prologues}
    assert len(programs) == 3


def test_learners_that_place_rows_in_other_ways_do_not_share_noise():
    """A key follows from `place`, whose result the program reads."""
    recipe = recipe_of()
    keys = set()
    for leaf in (0, 1):
        partition = dataclasses.replace(
            recipe.learner.partition,
            assign_rows=lambda structure, rows, leaf=leaf: jnp.full(
                rows.present.shape, leaf, jnp.uint8
            ),
        )
        keys.add(key_of(replaced(recipe, partition=partition)))
    assert len(keys | {key_of(recipe)}) == 3


@pytest.mark.slow
def test_an_audit_finds_a_prologue_that_is_priced_for_less_than_a_row():
    """Half of the sensitivity passes the ledger, which cannot know it, and not the audit."""

    recipe = recipe_of(scores_fraction=0.0, rounds=1, depth=1)
    own = recipe.learner.prologue

    def program(draw, *read):
        def half(*asked, sensitivity, **words):
            return draw(*asked, sensitivity=sensitivity / 2, **words)

        own.program(half, *read)

    near = audit.neighbours(random_table(2, 14, 3), ADD_REMOVE)
    recipe = replaced(recipe, prologue=dataclasses.replace(own, program=program))
    found = audit.audit_transcripts(
        jax.random.key(0), near, recipe, num_transcripts=5, with_worst_steps=True
    )
    assert found.max_step_ratio_by_site["histogram"] == pytest.approx(2.0, rel=1e-3)


@pytest.mark.slow
def test_a_site_of_the_prologue_may_be_withheld():
    recipe, table = recipe_of(), random_table(7, 14, 3)

    def withholding(site):
        return replaced(recipe, withheld=(site,))

    boosted = BOOST(jax.random.key(0), table, withholding("histogram"))
    assert set(boosted.transcript.prologue) == {"histogram"}
    model = boosted.model(table, withholding("histogram"))
    assert model.transcript.prologue == {}
    assert set(model.releases) == {"sums"}
    with pytest.raises(ValueError, match="withholds"):
        dpbt.fit(jax.random.key(0), table, withholding("no site"))


def test_a_site_of_two_parts_is_refused_by_all_that_read_one():
    table, recipe = random_table(0, 14, 3), recipe_of()
    epilogue = recipe.learner.epilogue
    clash = replaced(recipe, epilogue=dataclasses.replace(epilogue, program=constant("sums")))
    twice = dpbt.Transcript({}, {"sums": jnp.zeros((3, 4))}, {"sums": jnp.zeros((10, 2))})
    for judge in (
        lambda: dpbt.ledger(clash),
        lambda: dpbt.replay(twice, table, recipe),
        lambda: log_ratios_by_site(twice, table, table, recipe),
    ):
        with pytest.raises(ValueError, match="the rounds and the epilogue both draw"):
            judge()


def test_an_epilogue_needs_hypotheses_that_can_be_scaled():
    learner = recipe_of().learner
    with pytest.raises(ValueError, match="needs hypotheses that can be scaled"):
        dataclasses.replace(learner, kind=learner.kind.with_training(scale=None))


@pytest.mark.parametrize("start", [0.0, -2.0])
def test_the_line_is_that_of_plain_loops_and_finds_the_truth(start):
    """From exact counts of 10^6 rows; and without any information it is the prior's."""
    middles, rows = np.array(reference.MIDDLES), 1e6
    begin = start * np.log(2)
    share = 1 / (1 + np.exp(-(begin + 0.4 + 0.7 * (middles - begin))))
    counts = np.round(np.stack([1 - share, share], 1) * rows / 10).astype(np.int32)
    of_counts = jax.jit(fit_score_line)
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
