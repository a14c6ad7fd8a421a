"""Choices: audits of exact laws, ledgers, candidates, held-out rows, scores, and refusals."""

import dataclasses
import math

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
def errors(monkeypatch):
    monkeypatch.setattr(tuning, "LOG_LOSS", tuning_examples.ERRORS)


REACH = 90


def run_law(table, epsilon, plan, held):
    """The exact law of one run of a voter: [vote, errors], and the value of each output."""
    target, present = np.asarray(table.target), np.asarray(table.present)
    taught, scored = present & ~held, present & held
    signed = int(np.sum(np.where(target, 1, -1)[taught]))
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
    return law.ravel(), value.ravel()


def choice_law(table, epsilons, plan, held, count):
    """The exact law of a choice among voters: [candidate, vote, errors]."""
    each = [run_law(table, epsilon, plan, held) for epsilon in epsilons]
    law = np.concatenate([pmf for pmf, _ in each]) / len(epsilons)
    value = np.concatenate([values for _, values in each])
    return tuning_examples.probabilities_of_best(
        law, value, lambda x: tuning_examples.generating_function(count, x)
    )


EPSILONS = (0.6, 0.3)


def without(table, row):
    return table._replace(present=np.asarray(table.present) & (np.arange(40) != row))


def test_an_exact_audit_of_a_choice_on_all_neighbours(errors):
    """The law of everything that is released, on a table and without each of its rows."""
    table, single = tuning_examples.table_of_ballots(7, 9), tuning_examples.voter_recipes(*EPSILONS)
    selection = tuning.selection(mean=6, eta=0.0, held_out=0.5)
    plan = tuning.plan_choice(single, selection)
    held = tuning.is_held_out(table, 0.5, 0)
    assert 4 <= np.sum(held[:16]) <= 12
    claimed = tuning.planned_ledger(single, selection)
    assert claimed.pure_epsilon == pytest.approx(2 * 0.6, rel=1e-6)

    whole = choice_law(table, EPSILONS, plan, held, selection.count)
    assert whole.sum() == pytest.approx(1, abs=1e-6)
    losses = [
        tuning_examples.largest_log_ratio(
            whole, choice_law(less, EPSILONS, plan, held, selection.count)
        )
        for less in (without(table, row) for row in range(16))
    ]
    assert max(losses) <= claimed.epsilon
    assert max(losses) > 0.6  # more than one run costs


def test_a_choice_whose_score_is_not_paid_for_is_caught(errors):
    """Rows that are scored and learned from cost the sum; the dearer alone is no bound."""
    table, single = tuning_examples.table_of_ballots(7, 9), tuning_examples.voter_recipes(0.6)
    nobody_held = np.zeros(40, bool)
    selection = tuning.selection(mean=3, eta=-0.5, held_out=None, score_fraction=0.5)
    plan = tuning.plan_choice(single, selection)

    def law(present):
        """[vote, errors]: both are of the same rows."""
        vote, _ = run_law(table._replace(present=jnp.asarray(present)), 0.6, plan, nobody_held)
        vote = vote.reshape(2 * REACH + 1, -1).sum(axis=1)
        target = np.asarray(table.target)
        errors = [int(np.sum(present & (target != sign))) for sign in (False, True)]
        noisy = [
            tuning_examples.discrete_laplace_pmf(each, plan.line.scale, REACH) for each in errors
        ]
        positive = np.arange(-REACH, REACH + 1) > 0
        return (vote[:, None] * np.where(positive[:, None], noisy[1], noisy[0])).ravel()

    present = np.asarray(table.present)
    less = [present & (np.arange(40) != row) for row in range(16)]
    losses = [tuning_examples.largest_log_ratio(law(present), law(each)) for each in less]
    claimed = tuning.planned_ledger(single, selection)
    run = claimed.run_cost().epsilon
    assert run == pytest.approx(1.2, rel=1e-6)
    assert max(losses) == pytest.approx(run, rel=1e-4)  # attained, so 0.6 is no bound
    planted = structs.replace(claimed.choice, disjoint=True)
    cheaper = structs.replace(claimed, choice=planted)
    assert max(losses) > 1.9 * cheaper.run_cost().epsilon


def test_runs_have_the_law_that_is_audited(errors):
    """20,000 runs against the exact law; a false alarm has probability 1e-6."""
    table, (voter,) = tuning_examples.table_of_ballots(7, 9), tuning_examples.voter_recipes(0.6)
    selection = tuning.selection(held_out=0.5)
    plan = tuning.plan_choice([voter], selection)
    held = tuning.is_held_out(table, 0.5, 0)
    parts, number = tuning._split_into_learning_and_scoring_rows(table, selection), 20_000
    run = jax.jit(
        jax.vmap(
            lambda key: tuning.fit_and_score(
                key,
                parts,
                voter,
                score_params=plan.params,
                public_key=None,
                score_program=plan.programs[0],
                priced_draws=(),
            )
        )
    )
    fit, release = run(jax.random.split(jax.random.key(1), number))
    votes = np.asarray(fit.transcript.rounds["n"])[:, 0, 0]
    errors = np.asarray(release)

    law, _ = run_law(table, 0.6, plan, held)
    law = law.reshape(2 * REACH + 1, -1)
    expected, seen = [], []
    for sign in (False, True):
        rows = (np.arange(-REACH, REACH + 1) > 0) == sign
        for low, high in ((-REACH, 1), (2, 3), (4, 5), (6, 7), (8, REACH)):
            expected.append(law[rows, low + REACH : high + REACH + 1].sum())
            seen.append(np.sum(((votes > 0) == sign) & (errors >= low) & (errors <= high)))
    assert stats.chisquare(seen, number * np.array(expected) / np.sum(expected)).pvalue > 1e-6


@pytest.mark.parametrize(
    ("relation", "delta", "people"),
    [("add_remove", 0.0, 1), ("add_remove", 1e-6, 3), ("replace_one", 1e-6, 1)],
)
def test_candidates_cost_what_was_asked_for(relation, delta, people):
    selection = tuning.selection()
    made = candidate_recipes(selection, relation=relation, delta=delta, max_rows_per_user=people)
    assert len(made) == 4
    book = tuning.planned_ledger(made, selection)
    assert 0.99 <= book.epsilon <= 1.0
    fit, score = dpbt.ledger(made[0]), book.lines[-1]
    costs = (fit.rho, score.rho) if delta else (fit.pure_epsilon, score.epsilon)
    ratio = costs[1] / costs[0]
    assert ratio == pytest.approx(1 / 9 if relation == "replace_one" else 1, rel=1e-3)


def test_a_choice_by_renyi_where_draws_are_mixed():
    selection = tuning.selection()
    options = {"epsilon": 1.0, "delta": 1e-6, "criterion": "gini", "rows": 300}
    made = tuning.candidates(recipes.bdpe, selection, grid={"rounds": [2, 3]}, **options)
    book = tuning.planned_ledger(made, selection)
    assert book.accountant == "zcdp"
    assert 0.97 <= book.epsilon <= 1.0
    assert book.epsilon_at(1e-6, "gdp") == math.inf

    # Beyond some epsilon of a run finite bits take all of delta, and the choice costs infinity.
    made = tuning.candidates(
        recipes.bdpe, selection, grid={"rounds": [2, 3]}, **{**options, "epsilon": 20.0}
    )
    assert 10 < tuning.planned_ledger(made, selection).epsilon < 20


def test_a_tuned_model_carries_the_ledger_of_its_choice(tmp_path):
    selection = tuning.selection()
    made = candidate_recipes(selection)
    with pytest.warns(ResearchKeyWarning):
        result = dpbt.tune(KEY, table_of_people(), made, selection)
    book = dpbt.ledger(result.model)
    assert 0.99 <= book.epsilon <= 1.0
    assert book.key == "research"
    assert book.lines[:-1] == dpbt.ledger(made[result.candidate]).lines
    assert "best log_loss" in str(book)
    assert book.choice is not None
    assert f"of {len(made)} candidates" in dpbt.statement(result.model)

    # No run but the best leaves: neither their number nor their scores.
    assert result._fields == ("model", "candidate", "score")
    assert np.ndim(result.score) == 0

    dpbt.save(result.model, tmp_path / "m.json", domain=DOMAIN)
    saved = dpbt.load(tmp_path / "m.json")
    assert str(dpbt.ledger(saved)) == str(book)
    assert dpbt.statement(saved) == dpbt.statement(result.model)


def test_a_choice_is_float_if_any_candidate_is():
    """The total is for all candidates, so a sampler of another than the released one counts."""
    selection = tuning.selection()
    made = candidate_recipes(selection)
    score, books = tuning.plan_choice(made, selection).line, [dpbt.ledger(each) for each in made]
    inexact = structs.replace(books[1].lines[0], exact=False)
    some = [books[0], structs.replace(books[1], lines=(inexact,)), *books[2:]]
    for given, exact in ((books, True), (some, False)):
        choice = conversions.choice_among_fits(
            given, selection.count, score="log_loss", num_candidates=4, disjoint=True
        )
        book = structs.replace(books[0], lines=(*books[0].lines, score), choice=choice)
        assert book.exact is exact
        assert ("FLOAT" in str(book)) is not exact
        assert accounting.from_json(accounting.to_json(book)).exact is exact


def test_one_key_gives_one_choice_and_other_numbers_another():
    selection = tuning.selection()
    made, table = candidate_recipes(selection), table_of_people()
    first, again = (dpbt.tune(KEY, table, made, selection)[1:] for _ in range(2))
    assert first == again
    described = [
        tuning._choice_identity(single, each, tuning.plan_choice(single, each))
        for single, each in (
            (made, selection),
            (made[:2], selection),
            (candidate_recipes(selection, epsilon=1.1), selection),
            (made, tuning.selection(mean=6)),
            (made, tuning.selection(seed=1)),
        )
    ]
    assert len(set(described)) == len(described)


def test_choices_among_learners_of_one_name_that_differ_have_other_noise(errors):
    """The noise of their scores would be one, and the difference of two scores free of it."""

    def draw_doubled_majority(draw, table, *read):
        def doubled(site, mechanism, value, **words):
            return draw(site, mechanism, 2 * value, **words)

        tuning_examples.draw_majority(doubled, table, *read)

    made = tuning_examples.voter_recipes(0.5, 1.0)
    selection = tuning.selection()
    learner = tuning_examples.LEARNER
    doubled = dataclasses.replace(learner.round, program=draw_doubled_majority)
    others = [
        dataclasses.replace(single, learner=dataclasses.replace(learner, round=doubled))
        for single in made
    ]
    plan = tuning.plan_choice(made, selection)
    one, other = (tuning._choice_identity(each, selection, plan) for each in (made, others))
    assert one != other


# The runs of a choice.


def test_every_run_has_a_key_of_its_own(errors, monkeypatch):
    """Equal runs would make their number worth nothing; no test of the result would see it."""
    table, single = tuning_examples.table_of_ballots(7, 9), tuning_examples.voter_recipes(0.6, 0.3)
    selection = tuning.selection()
    plan, parts, seen = (
        tuning.plan_choice(single, selection),
        tuning._split_into_learning_and_scoring_rows(table, selection),
        [],
    )

    def spied(key, *_, **__):
        seen.append(np.asarray(jax.random.key_data(key)))
        return {"n": np.asarray(len(seen))}, np.zeros(())

    monkeypatch.setattr(tuning, "_fit_and_score", spied)
    monkeypatch.setattr(tuning, "draw_run_count", lambda *_: 21)
    best = tuning._run_all_and_choose_best(KEY, parts, recipes=single, plan=plan, public_key=None)
    assert best.fitted_parts["n"] == 1  # ties go to the first run
    assert len(np.unique(seen, axis=0)) == len(seen) == 21
    for key in jax.random.split(KEY, 4):
        assert {tuning._draw_candidate_of_run(key, run, 5) for run in range(64)} == set(range(5))


def test_the_best_is_of_as_many_runs_as_were_drawn(errors, monkeypatch):
    """Every number of runs, with every run as the only good one: it wins if it is one of them."""
    table, single = (
        tuning_examples.table_of_ballots(7, 9),
        tuning_examples.voter_recipes(0.6, 0.3, 0.2),
    )
    selection = tuning.selection()
    plan, parts = (
        tuning.plan_choice(single, selection),
        tuning._split_into_learning_and_scoring_rows(table, selection),
    )
    monkeypatch.setattr(tuning, "_fold_in", lambda key, run: run)
    monkeypatch.setattr(tuning, "_draw_candidate_of_run", lambda key, run, _: run % 3)
    for number in (1, 3, 4, 5, 10):
        monkeypatch.setattr(tuning, "draw_run_count", lambda key, count, k=number: k)
        won = []
        for good in range(12):

            def run(number, *_, good=good, **__):
                score = -50 if number == good else 50
                return {"n": np.asarray(number)}, np.asarray(score)

            monkeypatch.setattr(tuning, "_fit_and_score", run)
            best = tuning._run_all_and_choose_best(
                KEY, parts, recipes=single, plan=plan, public_key=None
            )
            won.append(int(best.fitted_parts["n"]) == good)
        assert won == [good < number for good in range(12)]


# The rows that are held out.


def test_a_row_is_held_out_by_itself():
    table = table_of_people(300)
    held = tuning.is_held_out(table, 0.25, 0)
    assert 40 <= held.sum() <= 110  # a hash of 64 x 2 distinct rows
    order = np.random.default_rng(0).permutation(300)
    moved = table._replace(bins=table.bins[order], target=table.target[order])
    np.testing.assert_array_equal(tuning.is_held_out(moved, 0.25, 0), held[order])
    alone = table._replace(bins=table.bins[:1], target=table.target[:1])
    assert tuning.is_held_out(alone, 0.25, 0)[0] == held[0]
    assert np.any(tuning.is_held_out(table, 0.25, 1) != held)


def test_fits_and_scores_read_disjoint_rows():
    table, selection = table_of_people(), tuning.selection()
    taught, scored = tuning._split_into_learning_and_scoring_rows(table, selection)
    assert not np.any(taught.present & scored.present)
    both = np.asarray(taught.present | scored.present)[:300]
    np.testing.assert_array_equal(both, table.present)
    taught, scored = tuning._split_into_learning_and_scoring_rows(
        table, tuning.selection(held_out=None)
    )
    np.testing.assert_array_equal(taught.present, scored.present)


# Scores.


SMALL = {"rows": 40, "domain": DOMAIN, "attributes_per_tree": (1,), "depth": 2}


@jax.jit
def losses_of(rows, scores):
    recipe = recipes.oblivious_boost(epsilon=1.0, **SMALL)
    return tuning.sum_of_log_losses(
        rows, scores, recipe.public(), tuning.loss_family_of_probabilities(recipe)
    )


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE], ids=lambda each: each.name)
def test_a_row_moves_a_score_by_its_sensitivity_at_most_and_some_row_by_as_much(relation):
    rng, found = np.random.default_rng(0), []

    def statistic(target, present, row_scores):
        bins = jnp.zeros((8, 1), jnp.uint8)
        rows = dpbt.Table(bins, jnp.asarray(target), jnp.asarray(present))
        return int(losses_of(rows, jnp.asarray(row_scores, jnp.float32)))

    for _ in range(60):
        target, row_scores = rng.random(8) < 0.5, rng.normal(0, 6, 8)
        present = np.ones(8, bool)
        whole = statistic(target, present, row_scores)
        if relation is ADD_REMOVE:
            other = statistic(target, np.arange(8) > 0, row_scores)
        else:
            flipped, moved = target.copy(), row_scores.copy()
            flipped[0], moved[0] = ~target[0], rng.normal(0, 6)
            other = statistic(flipped, present, moved)
        found.append(abs(whole - other))
    assert max(found) == tuning.LOG_LOSS.max_per_row
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
    steps = int(losses_of(rows, read))
    assert steps * tuning.MAX_LOSS / GRID == pytest.approx(nats.sum(), abs=4 / GRID)
    value = tuning.LOG_LOSS.value(np.array(steps))
    assert value == pytest.approx(-nats.sum(), abs=4 / GRID)
    odd = jnp.asarray([jnp.nan, jnp.inf, -jnp.inf, 0.0])
    assert int(losses_of(rows, odd)) <= 4 * GRID


# Refusals.


def test_a_bad_selection_is_refused_by_name():
    bad = {"mean": 0.5, "held_out": 1.0, "score_fraction": 1.0, "seed": 0.5}
    for name, value in bad.items():
        with pytest.raises(ValueError, match=name):
            tuning.selection(**{name: value})


def test_bad_candidates_and_tables_are_refused():
    """By what is public, and of what is private by the number of rows alone."""
    selection, table = tuning.selection(), table_of_people()
    made = candidate_recipes(selection)
    other = dataclasses.replace(made[0], rows=np.float32(200))
    published = recipes.bdpe(epsilon=1.0, rows=300, rounds=1, depth=1, calibration="published")
    votes = recipes.lazybb_rules(epsilon=1.0, rows=300, rounds=3)
    target, columns = Nominal(("a", "b", "c")), {"age": [10, 60], "pay": [1, 2]}
    label = {"negative": 0, "positive": 1, "class_weight": {0: 1.0, 1: 0.5}}
    classes = dpbt.table(DOMAIN, columns, ["a", "b"], target=target)
    weighed = dpbt.table(DOMAIN, columns, [0, 1], **label)
    for rows, given, words in (
        (table, [*made, other], "same rows"),
        (table, [], "recipes must be"),
        (table, published, "without a mechanism"),
        (table, votes, "needs probabilities"),
        (classes, made, "predicts one of two classes"),
        (weighed, made, "takes no weights of rows or of classes"),
        (table_of_people(301), made, "set for at most rows=300"),
    ):
        with pytest.raises(ValueError, match=words):
            dpbt.tune(KEY, rows, given, selection)
    with pytest.raises(ValueError, match="grid"):
        tuning.candidates(recipes.oblivious_boost, selection, grid={}, epsilon=1.0)
    with pytest.raises(ValueError, match="a choice is among recipes of two classes"):
        candidate_recipes(selection, target=target)
