"""Choices: audits of exact laws, ledgers, candidates, held-out rows, scores, and refusals."""

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from msgspec import structs
from scipy import stats

import dpbt
from dpbt import recipes, tuning
from dpbt.data.domains import Nominal
from dpbt.privacy import accounting, conversions
from dpbt.privacy.keys import ResearchKeyWarning
from dpbt.types import ADD_REMOVE, GRID, REPLACE_ONE
from tests.support import tuning_examples
from tests.support.tuning_examples import DOMAIN, KEY, candidate_recipes, table_of_people

# Runs and choices.


pytestmark = pytest.mark.filterwarnings("ignore::dpbt.privacy.keys.ResearchKeyWarning")


@pytest.fixture
def count_errors_as_score(monkeypatch):
    monkeypatch.setattr(tuning, "LOG_LOSS", tuning_examples.ERRORS)


REACH = 90


class LawOfOutputs(NamedTuple):
    """The probability of each output, and the value by which the best output is chosen."""

    probability: np.ndarray
    value: np.ndarray


def law_of_run(table, *, epsilon, plan, held):
    """The exact law of one run of a voter over [vote, errors], flattened."""
    target, present = np.asarray(table.target), np.asarray(table.present)
    learned, scored = present & ~held, present & held
    signed = int(np.sum(np.where(target, 1, -1)[learned]))
    vote = tuning_examples.discrete_laplace_pmf(signed, 1 / epsilon, REACH)
    by_sign = [
        tuning_examples.discrete_laplace_pmf(
            int(np.sum(scored & (target != positive))), plan.line.scale, REACH
        )
        for positive in (False, True)
    ]
    positive = np.arange(-REACH, REACH + 1) > 0
    law = vote[:, None] * np.where(positive[:, None], by_sign[1], by_sign[0])
    value = np.broadcast_to(-np.arange(-REACH, REACH + 1), law.shape)
    return LawOfOutputs(law.ravel(), value.ravel())


def law_of_choice(table, *, epsilons, plan, held, count):
    """The exact law of a choice among voters over [candidate, vote, errors], flattened."""
    runs = [law_of_run(table, epsilon=epsilon, plan=plan, held=held) for epsilon in epsilons]
    return tuning_examples.probabilities_of_best(
        np.concatenate([run.probability for run in runs]) / len(epsilons),
        np.concatenate([run.value for run in runs]),
        lambda x: tuning_examples.generating_function(count, x),
    )


EPSILONS = (0.6, 0.3)


def table_without_row(table, row):
    return table._replace(present=np.asarray(table.present) & (np.arange(40) != row))


def test_the_exact_loss_of_a_choice_is_within_its_ledger_on_all_neighbours(count_errors_as_score):
    """The exact law of all that is released is known on a table and without each of its rows."""
    table, single = tuning_examples.table_of_ballots(7, 9), tuning_examples.voter_recipes(*EPSILONS)
    selection = tuning.selection(mean=6, eta=0.0, held_out=0.5)
    plan = tuning.plan_choice(single, selection)
    held_out = tuning.is_held_out(table, 0.5, 0)
    assert 4 <= np.sum(held_out[:16]) <= 12
    claimed = tuning.planned_ledger(single, selection)
    assert claimed.pure_epsilon == pytest.approx(2 * 0.6, rel=1e-6)

    choice = {
        "epsilons": EPSILONS,
        "plan": plan,
        "held": held_out,
        "count": selection.count,
    }
    law_of_table = law_of_choice(table, **choice)
    assert law_of_table.sum() == pytest.approx(1, abs=1e-6)
    losses = [
        tuning_examples.largest_log_ratio(law_of_table, law_of_choice(neighbour, **choice))
        for neighbour in (table_without_row(table, row) for row in range(16))
    ]
    assert max(losses) <= claimed.epsilon
    assert max(losses) > 0.6  # more than one run costs


def test_a_choice_whose_score_is_not_paid_for_is_caught(count_errors_as_score):
    """Rows that are scored and learned from cost the sum; the dearer alone is no bound."""
    table, single = tuning_examples.table_of_ballots(7, 9), tuning_examples.voter_recipes(0.6)
    nobody_held = np.zeros(40, bool)
    selection = tuning.selection(mean=3, eta=-0.5, held_out=None, score_fraction=0.5)
    plan = tuning.plan_choice(single, selection)

    def law(present):
        """The law over [vote, errors], where both are of the same rows."""
        table_of_present = table._replace(present=jnp.asarray(present))
        run = law_of_run(table_of_present, epsilon=0.6, plan=plan, held=nobody_held)
        vote = run.probability.reshape(2 * REACH + 1, -1).sum(axis=1)
        target = np.asarray(table.target)
        num_errors = [int(np.sum(present & (target != sign))) for sign in (False, True)]
        noisy = [
            tuning_examples.discrete_laplace_pmf(count, plan.line.scale, REACH)
            for count in num_errors
        ]
        positive = np.arange(-REACH, REACH + 1) > 0
        return (vote[:, None] * np.where(positive[:, None], noisy[1], noisy[0])).ravel()

    present = np.asarray(table.present)
    presents_without_row = [present & (np.arange(40) != row) for row in range(16)]
    losses = [
        tuning_examples.largest_log_ratio(law(present), law(present_without_row))
        for present_without_row in presents_without_row
    ]
    claimed = tuning.planned_ledger(single, selection)
    run_epsilon = claimed.run_cost().epsilon
    assert run_epsilon == pytest.approx(1.2, rel=1e-6)
    assert max(losses) == pytest.approx(run_epsilon, rel=1e-4)  # attained, so 0.6 is no bound
    choice_of_disjoint_rows = structs.replace(claimed.choice, disjoint=True)
    cheaper = structs.replace(claimed, choice=choice_of_disjoint_rows)
    assert max(losses) > 1.9 * cheaper.run_cost().epsilon


def test_runs_have_the_law_that_is_audited(count_errors_as_score):
    """20,000 runs are compared with the exact law; a false alarm has probability 1e-6."""
    table, (voter,) = tuning_examples.table_of_ballots(7, 9), tuning_examples.voter_recipes(0.6)
    selection = tuning.selection(held_out=0.5)
    plan = tuning.plan_choice([voter], selection)
    held_out = tuning.is_held_out(table, 0.5, 0)
    parts = tuning._split_into_learning_and_scoring_rows(table, selection)
    num_runs = 20_000
    run = jax.jit(
        jax.vmap(
            lambda key: tuning.fit_and_score(
                key,
                parts,
                voter,
                score_params=plan.params,
                public_key=None,
                score_program=plan.programs[0],
            )
        )
    )
    fit, release = run(jax.random.split(jax.random.key(1), num_runs))
    votes = np.asarray(fit.transcript.rounds["n"])[:, 0, 0]
    num_errors = np.asarray(release)

    law = law_of_run(table, epsilon=0.6, plan=plan, held=held_out).probability
    law = law.reshape(2 * REACH + 1, -1)
    expected, observed = [], []
    for sign in (False, True):
        rows = (np.arange(-REACH, REACH + 1) > 0) == sign
        for low, high in ((-REACH, 1), (2, 3), (4, 5), (6, 7), (8, REACH)):
            expected.append(law[rows, low + REACH : high + REACH + 1].sum())
            observed.append(
                np.sum(((votes > 0) == sign) & (num_errors >= low) & (num_errors <= high))
            )
    assert stats.chisquare(observed, num_runs * np.array(expected) / np.sum(expected)).pvalue > 1e-6


@pytest.mark.parametrize(
    ("relation", "delta", "max_rows_per_user"),
    [("add_remove", 0.0, 1), ("add_remove", 1e-6, 3), ("replace_one", 1e-6, 1)],
)
def test_candidates_cost_the_requested_epsilon(relation, delta, max_rows_per_user):
    selection = tuning.selection()
    candidates = candidate_recipes(
        selection, relation=relation, delta=delta, max_rows_per_user=max_rows_per_user
    )
    assert len(candidates) == 4
    choice_ledger = tuning.planned_ledger(candidates, selection)
    assert 0.99 <= choice_ledger.epsilon <= 1.0
    fit_ledger, score_line = dpbt.ledger(candidates[0]), choice_ledger.lines[-1]
    costs = (
        (fit_ledger.rho, score_line.rho) if delta else (fit_ledger.pure_epsilon, score_line.epsilon)
    )
    ratio = costs[1] / costs[0]
    assert ratio == pytest.approx(1 / 9 if relation == "replace_one" else 1, rel=1e-3)


def test_a_choice_among_fits_of_mixed_mechanisms_is_accounted_in_renyi_divergence():
    selection = tuning.selection()
    options = {"epsilon": 1.0, "delta": 1e-6, "criterion": "gini", "rows": 300}
    candidates = tuning.candidates(recipes.bdpe, selection, grid={"rounds": [2, 3]}, **options)
    choice_ledger = tuning.planned_ledger(candidates, selection)
    assert choice_ledger.accountant == "zcdp"
    assert 0.97 <= choice_ledger.epsilon <= 1.0
    assert choice_ledger.epsilon_at(1e-6, "gdp") == math.inf

    # Beyond some epsilon of a run finite bits take all of delta, and the choice costs infinity.
    candidates = tuning.candidates(
        recipes.bdpe, selection, grid={"rounds": [2, 3]}, **{**options, "epsilon": 20.0}
    )
    assert 10 < tuning.planned_ledger(candidates, selection).epsilon < 20


def test_a_tuned_model_carries_the_ledger_of_its_choice(tmp_path):
    selection = tuning.selection()
    candidates = candidate_recipes(selection)
    with pytest.warns(ResearchKeyWarning):
        result = dpbt.tune(KEY, table_of_people(), candidates, selection)
    model_ledger = dpbt.ledger(result.model)
    assert 0.99 <= model_ledger.epsilon <= 1.0
    assert model_ledger.key_purpose == "research"
    assert model_ledger.lines[:-1] == dpbt.ledger(candidates[result.candidate]).lines
    assert "best log_loss" in str(model_ledger)
    assert model_ledger.choice is not None
    assert f"of {len(candidates)} candidates" in dpbt.statement(result.model)

    # No run but the best leaves: neither their number nor their scores.
    assert result._fields == ("model", "candidate", "score")
    assert np.ndim(result.score) == 0

    dpbt.save(result.model, tmp_path / "m.json", domain=DOMAIN)
    loaded = dpbt.load(tmp_path / "m.json")
    assert str(dpbt.ledger(loaded)) == str(model_ledger)
    assert dpbt.statement(loaded) == dpbt.statement(result.model)


def test_the_ledger_of_a_choice_is_inexact_if_any_candidate_is():
    """The total is for all candidates, so a sampler of another than the released one counts."""
    selection = tuning.selection()
    candidates = candidate_recipes(selection)
    score_line = tuning.plan_choice(candidates, selection).line
    exact_ledgers = [dpbt.ledger(recipe) for recipe in candidates]
    inexact = structs.replace(exact_ledgers[1].lines[0], exact=False)
    some_float_ledgers = [
        exact_ledgers[0],
        structs.replace(exact_ledgers[1], lines=(inexact,)),
        *exact_ledgers[2:],
    ]
    for fit_ledgers, is_exact in ((exact_ledgers, True), (some_float_ledgers, False)):
        choice = conversions.choice_among_fits(
            fit_ledgers, selection.count, score="log_loss", num_candidates=4, disjoint=True
        )
        choice_ledger = structs.replace(
            exact_ledgers[0], lines=(*exact_ledgers[0].lines, score_line), choice=choice
        )
        assert choice_ledger.has_bounded_samplers is is_exact
        assert ("FLOAT" in str(choice_ledger)) is not is_exact
        assert (
            accounting.from_json(accounting.to_json(choice_ledger)).has_bounded_samplers is is_exact
        )


def test_one_key_repeats_a_choice_and_other_settings_have_other_identities():
    selection = tuning.selection()
    candidates, table = candidate_recipes(selection), table_of_people()
    first, second = (dpbt.tune(KEY, table, candidates, selection)[1:] for _ in range(2))
    assert first == second
    identities = [
        tuning._choice_identity(
            recipes_of_choice,
            selection_of_choice,
            tuning.plan_choice(recipes_of_choice, selection_of_choice),
        )
        for recipes_of_choice, selection_of_choice in (
            (candidates, selection),
            (candidates[:2], selection),
            (candidate_recipes(selection, epsilon=1.1), selection),
            (candidates, tuning.selection(mean=6)),
            (candidates, tuning.selection(seed=1)),
        )
    ]
    assert len(set(identities)) == len(identities)


def test_choices_among_learners_of_one_name_that_differ_have_other_noise(count_errors_as_score):
    """The noise of their scores would be one, and the difference of two scores free of it."""

    def draw_doubled_majority(draw, table, *read):
        def doubled(site, mechanism, value, **draw_options):
            return draw(site, mechanism, 2 * value, **draw_options)

        tuning_examples.draw_majority(doubled, table, *read)

    voters = tuning_examples.voter_recipes(0.5, 1.0)
    selection = tuning.selection()
    learner = tuning_examples.LEARNER
    doubled = dataclasses.replace(learner.round, program=draw_doubled_majority)
    doubled_voters = [
        dataclasses.replace(single, learner=dataclasses.replace(learner, round=doubled))
        for single in voters
    ]
    plan = tuning.plan_choice(voters, selection)
    identity, identity_of_doubled = (
        tuning._choice_identity(voters_of_choice, selection, plan)
        for voters_of_choice in (voters, doubled_voters)
    )
    assert identity != identity_of_doubled


# The runs of a choice.


def test_every_run_has_a_key_of_its_own(count_errors_as_score, monkeypatch):
    """Equal runs would make their number worth nothing; no test of the result would see it."""
    table, single = tuning_examples.table_of_ballots(7, 9), tuning_examples.voter_recipes(0.6, 0.3)
    selection = tuning.selection()
    plan = tuning.plan_choice(single, selection)
    parts = tuning._split_into_learning_and_scoring_rows(table, selection)
    run_keys = []

    def record_key(key, *_, **__):
        run_keys.append(np.asarray(jax.random.key_data(key)))
        return {"n": np.asarray(len(run_keys))}, np.zeros(())

    monkeypatch.setattr(tuning, "_fit_and_score", record_key)
    monkeypatch.setattr(tuning, "draw_run_count", lambda *_: 21)
    best = tuning._run_all_and_choose_best(KEY, parts, recipes=single, plan=plan, public_key=None)
    assert best.fitted_parts["n"] == 1  # ties go to the first run
    assert len(np.unique(run_keys, axis=0)) == len(run_keys) == 21
    for key in jax.random.split(KEY, 4):
        assert {tuning._draw_candidate_of_run(key, run, 5) for run in range(64)} == set(range(5))


def test_the_best_is_of_as_many_runs_as_were_drawn(count_errors_as_score, monkeypatch):
    """Every number of runs, with every run as the only good one: it wins if it is one of them."""
    table, single = (
        tuning_examples.table_of_ballots(7, 9),
        tuning_examples.voter_recipes(0.6, 0.3, 0.2),
    )
    selection = tuning.selection()
    plan = tuning.plan_choice(single, selection)
    parts = tuning._split_into_learning_and_scoring_rows(table, selection)
    monkeypatch.setattr(tuning, "_fold_in", lambda key, run: run)
    monkeypatch.setattr(tuning, "_draw_candidate_of_run", lambda key, run, _: run % 3)
    for num_runs in (1, 3, 4, 5, 10):
        monkeypatch.setattr(tuning, "draw_run_count", lambda key, count, k=num_runs: k)
        good_run_won = []
        for good_run in range(12):

            def run(run_index, *_, good_run=good_run, **__):
                score = -50 if run_index == good_run else 50
                return {"n": np.asarray(run_index)}, np.asarray(score)

            monkeypatch.setattr(tuning, "_fit_and_score", run)
            best = tuning._run_all_and_choose_best(
                KEY, parts, recipes=single, plan=plan, public_key=None
            )
            good_run_won.append(int(best.fitted_parts["n"]) == good_run)
        assert good_run_won == [good_run < num_runs for good_run in range(12)]


# The rows that are held out.


def test_whether_a_row_is_held_out_depends_on_that_row_alone():
    table = table_of_people(300)
    held = tuning.is_held_out(table, 0.25, 0)
    assert 40 <= held.sum() <= 110  # a hash of 64 x 2 distinct rows
    order = np.random.default_rng(0).permutation(300)
    permuted_table = table._replace(bins=table.bins[order], target=table.target[order])
    np.testing.assert_array_equal(tuning.is_held_out(permuted_table, 0.25, 0), held[order])
    alone = table._replace(bins=table.bins[:1], target=table.target[:1])
    assert tuning.is_held_out(alone, 0.25, 0)[0] == held[0]
    assert np.any(tuning.is_held_out(table, 0.25, 1) != held)


def test_fits_and_scores_read_disjoint_rows():
    table, selection = table_of_people(), tuning.selection()
    learned, scored = tuning._split_into_learning_and_scoring_rows(table, selection)
    assert not np.any(learned.present & scored.present)
    both = np.asarray(learned.present | scored.present)[:300]
    np.testing.assert_array_equal(both, table.present)
    learned, scored = tuning._split_into_learning_and_scoring_rows(
        table, tuning.selection(held_out=None)
    )
    np.testing.assert_array_equal(learned.present, scored.present)


# Scores.


SMALL = {"rows": 40, "domain": DOMAIN, "attributes_per_tree": (1,), "depth": 2}


@jax.jit
def log_losses_in_grid_steps(rows, scores):
    recipe = recipes.oblivious_boost(epsilon=1.0, **SMALL)
    return tuning.sum_of_log_losses(
        rows, scores, recipe.public(), tuning.loss_family_of_probabilities(recipe)
    )


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE], ids=lambda relation: relation.name)
def test_a_row_moves_a_score_by_its_sensitivity_at_most_and_some_row_by_as_much(relation):
    rng, changes = np.random.default_rng(0), []

    def statistic(target, present, row_scores):
        bins = jnp.zeros((8, 1), jnp.uint8)
        rows = dpbt.Table(bins, jnp.asarray(target), jnp.asarray(present))
        return int(log_losses_in_grid_steps(rows, jnp.asarray(row_scores, jnp.float32)))

    for _ in range(60):
        target, row_scores = rng.random(8) < 0.5, rng.normal(0, 6, 8)
        present = np.ones(8, bool)
        score_on_table = statistic(target, present, row_scores)
        if relation is ADD_REMOVE:
            score_on_neighbour = statistic(target, np.arange(8) > 0, row_scores)
        else:
            flipped, moved_scores = target.copy(), row_scores.copy()
            flipped[0], moved_scores[0] = ~target[0], rng.normal(0, 6)
            score_on_neighbour = statistic(flipped, present, moved_scores)
        changes.append(abs(score_on_table - score_on_neighbour))
    assert max(changes) == tuning.LOG_LOSS.max_per_row
    single = [recipes.oblivious_boost(epsilon=1.0, delta=1e-6, **SMALL, relation=relation)]
    assert (
        tuning.plan_choice(single, tuning.selection()).line.sensitivity
        == tuning.LOG_LOSS.max_per_row
    )


def test_the_log_loss_of_a_choice_is_that_in_nats_up_to_its_grid():
    target = np.array([True, True, False, False])
    rows = dpbt.Table(jnp.zeros((4, 1), jnp.uint8), jnp.asarray(target), jnp.ones(4, bool))
    read = jnp.asarray([3.0, -1.0, -2.0, -3.0])
    positive = 1 / (1 + 2.0 ** -np.asarray(read))  # scores are in bits
    nats = np.minimum(-np.log(np.where(target, positive, 1 - positive)), tuning.MAX_LOSS)
    steps = int(log_losses_in_grid_steps(rows, read))
    assert steps * tuning.MAX_LOSS / GRID == pytest.approx(nats.sum(), abs=4 / GRID)
    value = tuning.LOG_LOSS.value(np.array(steps))
    assert value == pytest.approx(-nats.sum(), abs=4 / GRID)
    odd = jnp.asarray([jnp.nan, jnp.inf, -jnp.inf, 0.0])
    assert int(log_losses_in_grid_steps(rows, odd)) <= 4 * GRID


# Refusals.


def test_a_bad_selection_is_refused_by_name():
    bad = {"mean": 0.5, "held_out": 1.0, "score_fraction": 1.0, "seed": 0.5}
    for name, value in bad.items():
        with pytest.raises(ValueError, match=name):
            tuning.selection(**{name: value})


def test_bad_candidates_and_tables_are_refused():
    """Only public facts are refused, and of private ones the number of rows."""
    selection, table = tuning.selection(), table_of_people()
    candidates = candidate_recipes(selection)
    candidate_for_other_rows = dataclasses.replace(candidates[0], rows=np.float32(200))
    published = recipes.bdpe(epsilon=1.0, rows=300, rounds=1, depth=1, calibration="published")
    votes = recipes.lazybb_rules(epsilon=1.0, rows=300, rounds=3)
    target, columns = Nominal(("a", "b", "c")), {"age": [10, 60], "pay": [1, 2]}
    label = {"negative": 0, "positive": 1, "class_weight": {0: 1.0, 1: 0.5}}
    classes = dpbt.table(DOMAIN, columns, ["a", "b"], target=target)
    weighed = dpbt.table(DOMAIN, columns, [0, 1], **label)
    for table_to_learn, recipes_of_choice, message in (
        (table, [*candidates, candidate_for_other_rows], "same rows"),
        (table, [], "recipes must be"),
        (table, published, "without a mechanism"),
        (table, votes, "needs probabilities"),
        (classes, candidates, "predicts one of two classes"),
        (weighed, candidates, "takes no weights of rows or of classes"),
        (table_of_people(301), candidates, "set for at most rows=300"),
    ):
        with pytest.raises(ValueError, match=message):
            dpbt.tune(KEY, table_to_learn, recipes_of_choice, selection)
    with pytest.raises(ValueError, match="grid"):
        tuning.candidates(recipes.oblivious_boost, selection, grid={}, epsilon=1.0)
    with pytest.raises(ValueError, match="a choice is among recipes of two classes"):
        candidate_recipes(selection, target=target)
