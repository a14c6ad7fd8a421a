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
from dpbt.privacy.sensitivity import round_grid_units_to_rows
from dpbt.training.replay import log_ratios_by_site
from dpbt.types import ADD_REMOVE, Noise, Prologue
from tests.support.example_tables import random_table
from tests.support.recipe_keys import key_data_of_recipe
from tests.support.references import oblivious_trees as reference

NOISE = mechanisms.discrete_laplace
DOMAIN = {f"x{k}": Boolean() for k in range(3)}
FRACTION_BEFORE_AND_AFTER = 0.25
"""The share of the budget of what is drawn before the rounds, and of what is drawn after them."""

BOOST = jax.jit(dpbt.boost)


def small_oblivious_recipe(**changes):
    settings = {"epsilon": 3.0, "rows": 14, "rounds": 3, "depth": 2, "attributes_per_tree": (1, 2)}
    shares = {
        "marginals_fraction": FRACTION_BEFORE_AND_AFTER,
        "scores_fraction": FRACTION_BEFORE_AND_AFTER,
    }
    return recipes.oblivious_boost(domain=DOMAIN, **{**settings, **shares, **changes})


def with_learner_parts(recipe, **parts):
    return dataclasses.replace(recipe, learner=dataclasses.replace(recipe.learner, **parts))


def program_drawing_zeros(site, **draw_options):
    """A program that draws zeros, whatever the rows are."""

    def program(draw, table, *read):
        del read
        zeros = jnp.zeros(8, jnp.int32) + 0 * jnp.sum(table.present)
        draw(site, NOISE, zeros, sensitivity=1.0, moved_outputs=1, theorem="none", **draw_options)

    return program


def draw_score_counts(draw, table, scores, params, public):
    counts = round_grid_units_to_rows(class_counts_by_score_interval(table, scores))
    draw("scores", NOISE, counts, sensitivity=1.0, moved_outputs=1, theorem="a row")


def test_what_is_drawn_once_is_paid_for_once_and_the_rounds_t_times():
    recipe_ledger = dpbt.ledger(small_oblivious_recipe(rounds=7))
    opening, rounds, closing = recipe_ledger.lines
    assert [line.site for line in recipe_ledger.lines] == ["histogram", "sums", "scores"]
    assert [line.count for line in recipe_ledger.lines] == [1, 7, 1]
    assert opening.epsilon == pytest.approx(FRACTION_BEFORE_AND_AFTER * 3.0, rel=1e-5)
    assert closing.epsilon == pytest.approx(FRACTION_BEFORE_AND_AFTER * 3.0, rel=1e-5)
    assert 7 * rounds.epsilon == pytest.approx((1 - 2 * FRACTION_BEFORE_AND_AFTER) * 3.0, rel=1e-5)
    assert 3.0 * (1 - 1e-5) <= recipe_ledger.epsilon <= 3.0
    assert opening.gap > 0
    assert recipe_ledger.sampler_epsilon == pytest.approx(
        2 * sum(line.gap for line in recipe_ledger.lines)
    )


TWINS = ("leaf_3985819", "leaf_4420602")
"""Two names of one checksum, so that one key would make one noise for both."""


def test_noise_of_the_prologue_is_not_that_of_a_round():
    """The names of the two draws have one checksum, and their scale is one."""
    first, second = (program_drawing_zeros(site, scale=1e5) for site in TWINS)
    learner = boundary.weak_learner(
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
    recipe = recipes.custom(learner, rows=14, rounds=20, params=Noise({}))
    transcript = BOOST(jax.random.key(3), random_table(0, 14, 3), recipe).transcript
    same = np.asarray(transcript.rounds[TWINS[1]]) == np.asarray(transcript.prologue[TWINS[0]])
    assert not np.any(np.all(same, axis=-1))  # false alarm: below 1e-35


@pytest.mark.slow
def test_the_noise_of_the_epilogue_depends_on_the_number_of_rounds():
    """Scores after other rounds are another statistic, so equal noise would give it away."""
    table = random_table(0, 14, 3)
    both_recipes = small_oblivious_recipe(rounds=[2, 3], marginals_fraction=0.0)
    of_two_rounds, of_three_rounds = (recipes.setting(both_recipes, index) for index in (0, 1))
    params_of_loud_scores = of_two_rounds.params._replace(
        noise={**of_two_rounds.params.noise, "scores": np.float32(1e4)}
    )
    transcript_of_two_rounds, transcript_of_three_rounds = (
        BOOST(
            jax.random.key(0), table, dataclasses.replace(recipe, params=params_of_loud_scores)
        ).transcript
        for recipe in (of_two_rounds, of_three_rounds)
    )
    np.testing.assert_array_equal(
        transcript_of_two_rounds.rounds["sums"][:2], transcript_of_three_rounds.rounds["sums"][:2]
    )
    differences = np.abs(
        np.asarray(transcript_of_two_rounds.epilogue["scores"])
        - np.asarray(transcript_of_three_rounds.epilogue["scores"])
    )
    assert differences.max() > 14  # equal noise would leave the difference of two counts


def test_learners_that_differ_in_what_they_do_once_do_not_share_noise():
    """The identity of an epilogue is part of the key, and so is what the functions do."""
    recipe = small_oblivious_recipe()
    renamed_epilogue = dataclasses.replace(recipe.learner.epilogue, identity="another epilogue")
    assert key_data_of_recipe(
        with_learner_parts(recipe, epilogue=renamed_epilogue)
    ) != key_data_of_recipe(recipe)

    def prologue_of(program, score):
        return Prologue(
            program=program, initial_score=lambda *read: jnp.float32(score), identity="own"
        )

    without_prologue = small_oblivious_recipe(marginals_fraction=0.0)
    prologues = [
        None,
        prologue_of(program_drawing_zeros("first", scale=2.0), 0),
        prologue_of(program_drawing_zeros("first", scale=2.0), 1),
    ]
    keys = {
        key_data_of_recipe(with_learner_parts(without_prologue, prologue=prologue))
        for prologue in prologues
    }
    assert len(keys) == 3


def test_learners_that_place_rows_in_other_ways_do_not_share_noise():
    """The key depends on how rows are assigned, which the program reads."""
    recipe = small_oblivious_recipe()
    keys = set()
    for leaf in (0, 1):
        partition = dataclasses.replace(
            recipe.learner.partition,
            assign_rows=lambda structure, rows, leaf=leaf: jnp.full(
                rows.present.shape, leaf, jnp.uint8
            ),
        )
        keys.add(key_data_of_recipe(with_learner_parts(recipe, partition=partition)))
    assert len(keys | {key_data_of_recipe(recipe)}) == 3


@pytest.mark.slow
def test_an_audit_finds_a_prologue_that_is_priced_for_less_than_a_row():
    """Half of the sensitivity passes the ledger, which cannot know it, and not the audit."""

    recipe = small_oblivious_recipe(scores_fraction=0.0, rounds=1, depth=1)
    prologue = recipe.learner.prologue

    def program(draw, *read):
        def draw_at_half_sensitivity(*args, sensitivity, **draw_options):
            return draw(*args, sensitivity=sensitivity / 2, **draw_options)

        prologue.program(draw_at_half_sensitivity, *read)

    neighbours = audit.neighbours(random_table(2, 14, 3), ADD_REMOVE)
    recipe = with_learner_parts(recipe, prologue=dataclasses.replace(prologue, program=program))
    audit_result = audit.audit_transcripts(
        jax.random.key(0), neighbours, recipe, num_transcripts=5, with_worst_steps=True
    )
    assert audit_result.max_step_ratio_by_site["histogram"] == pytest.approx(2.0, rel=1e-3)


@pytest.mark.slow
def test_a_site_of_the_prologue_may_be_withheld():
    recipe, table = small_oblivious_recipe(), random_table(7, 14, 3)

    def withholding(site):
        return with_learner_parts(recipe, withheld=(site,))

    boosted = BOOST(jax.random.key(0), table, withholding("histogram"))
    assert set(boosted.transcript.prologue) == {"histogram"}
    model = boosted.model(table, withholding("histogram"))
    assert model.transcript.prologue == {}
    assert set(model.releases) == {"sums"}
    with pytest.raises(ValueError, match="withholds"):
        dpbt.fit(jax.random.key(0), table, withholding("no site"))


def test_a_site_of_two_parts_is_refused_by_all_that_read_one():
    table, recipe = random_table(0, 14, 3), small_oblivious_recipe()
    epilogue = recipe.learner.epilogue
    recipe_with_two_sums = with_learner_parts(
        recipe, epilogue=dataclasses.replace(epilogue, program=program_drawing_zeros("sums"))
    )
    transcript_with_two_sums = dpbt.Transcript(
        {}, {"sums": jnp.zeros((3, 4))}, {"sums": jnp.zeros((10, 2))}
    )
    for read in (
        lambda: dpbt.ledger(recipe_with_two_sums),
        lambda: dpbt.replay(transcript_with_two_sums, table, recipe),
        lambda: log_ratios_by_site(transcript_with_two_sums, table, table, recipe),
    ):
        with pytest.raises(ValueError, match="the rounds and the epilogue both draw"):
            read()


def test_an_epilogue_needs_hypotheses_that_can_be_scaled():
    learner = small_oblivious_recipe().learner
    with pytest.raises(ValueError, match="needs hypotheses that can be scaled"):
        dataclasses.replace(learner, kind=learner.kind.with_training(scale=None))


@pytest.mark.parametrize("start", [0.0, -2.0])
def test_the_line_is_that_of_plain_loops_and_finds_the_truth(start):
    """Exact counts of 10^6 rows give the true line, and no information gives that of the prior."""
    interval_middles, rows = np.array(reference.MIDDLES), 1e6
    start_in_nats = start * np.log(2)
    share = 1 / (1 + np.exp(-(start_in_nats + 0.4 + 0.7 * (interval_middles - start_in_nats))))
    counts = np.round(np.stack([1 - share, share], 1) * rows / 10).astype(np.int32)
    fit_line = jax.jit(fit_score_line)
    for deviation in (0.0, 3.0, 3000.0):
        line = fit_line(jnp.asarray(counts), jnp.float32(deviation), jnp.float32(start))
        expected = reference.score_line(counts, deviation, start)
        np.testing.assert_allclose(line, expected, rtol=2e-3)
    slope, intercept = fit_line(jnp.asarray(counts), jnp.float32(0), jnp.float32(start))
    assert float(slope) == pytest.approx(0.7, rel=0.06)
    assert (float(intercept) - start) * np.log(2) == pytest.approx(0.4, abs=0.06)

    no_counts = jnp.zeros((10, 2), jnp.int32)
    slope, intercept = fit_line(no_counts, jnp.float32(1e6), jnp.float32(start))
    assert float(slope) == pytest.approx(0.5, rel=0.02)
    assert float(intercept) == pytest.approx(start, abs=1e-3)
