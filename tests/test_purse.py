"""Purses: what they take and refuse, shares, fits, and what they show."""

import dataclasses
import math
import re
from fractions import Fraction

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpbt
from dpbt import recipes
from dpbt.privacy import accounting, filters, pricing, pursefiles
from dpbt.privacy.keys import ResearchKeyWarning
from tests.purses import DOMAIN, POOL, RECIPES, ROWS, book, line, made, pooled, purse_of
from tests.tables import random_table

# What a purse takes and refuses.


def test_the_measure_follows_from_delta():
    assert dpbt.Purse(1, rows=9).measure == "epsilon"
    assert dpbt.Purse(1, 1e-6, rows=9).measure == "rho"
    assert dpbt.Purse(1, 1e-6, rows=9, measure="mu").measure == "mu"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 0}, "epsilon must be greater than 0"),
        ({"epsilon": math.inf}, "epsilon must be greater than 0 and finite"),
        ({"epsilon": [1, 2]}, "epsilon must be one number"),
        ({"epsilon": 1, "delta": 1.0}, "delta must be at least 0 and less than 1"),
        ({"epsilon": 1, "delta": -1e-6}, "delta must be"),
        ({"epsilon": 1, "relation": "near"}, "relation must be one of"),
        ({"epsilon": 1, "rows": 0}, "rows must be"),
        ({"epsilon": 1, "rows": 9.5}, "rows must be"),
        ({"epsilon": 1, "rows": 2**40 + 1}, "rows must be at most 1099511627776, got"),
        ({"epsilon": 1, "rows": 2**24 + 1}, "use 16777218 in place of 16777217"),
        ({"epsilon": 1, "rows_per_person": 0}, "rows_per_person must be"),
        ({"epsilon": 1, "measure": "renyi"}, "measure must be one of"),
        ({"epsilon": 1, "measure": "rho"}, "needs a delta above 0, got 0"),
        ({"epsilon": 1, "delta": 1e-6, "measure": "epsilon"}, "needs a delta of 0"),
    ],
)
def test_bad_terms_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        dpbt.Purse(**{"rows": 9, **options})


def test_recipes_that_no_sum_covers_are_refused_in_words_and_cost_nothing():
    pure, rho, mu = (purse_of(measure) for measure in ("epsilon", "rho", "mu"))
    gaussian, mixed = made("rf_l", delta=1e-6), made("bdpe", delta=1e-6)
    with pytest.raises(ValueError, match="'leaf' has no pure epsilon"):
        pure.take(gaussian)
    with pytest.raises(ValueError, match=r"'split_0', 'split_1', .* not Gaussian.*measure='rho'"):
        mu.take(mixed)
    with pytest.raises(ValueError, match="UNPROTECTED"):
        pure.take(recipes.bdpe(epsilon=1, rows=1000, calibration="published"))
    for purse in (pure, rho, mu):
        with pytest.raises(ValueError, match="no noise on 'leaf'"):
            purse.take(made("rf_l", epsilon=math.inf))
        with pytest.raises(ValueError, match="under add_remove, and the recipe under replace_one"):
            purse.take(made("rf_l", relation="replace_one"))
        with pytest.raises(ValueError, match="rows_per_person=1, and the recipe for 2"):
            purse.take(made("rf_l", rows_per_person=2))
        with pytest.raises(ValueError, match="table of rows=1000, and the recipe for 999"):
            purse.take(made("rf_l", rows=999))
        with pytest.raises(ValueError, match="pays for recipes, got Ledger"):
            purse.take(dpbt.ledger(gaussian))  # type: ignore[arg-type]
        assert purse.spent == 0
        assert purse.remaining == purse.budget
        assert purse.ledger.epsilon == 0


def test_float_noise_is_refused():
    floats = accounting.Line(line(0.1, mechanism="laplace").event, exact=False)
    purse = purse_of("rho")
    with pytest.raises(ValueError, match="'x' state no distance"):
        filters.charge("rho", purse._limits, book(floats))


def test_a_budget_of_epsilon_is_spent_exactly():
    """Four quarters fit into one, and nothing more does."""
    purse = purse_of("epsilon", 1.0)
    quarter = made("rf_l", epsilon=0.25)
    for _ in range(4):
        assert purse.take(quarter) is quarter
    before = purse.remaining
    assert before < 1e-6
    with pytest.raises(ValueError, match=r"costs epsilon = 0\.25, and epsilon = .* of 1 is left"):
        purse.take(made("rf_l", epsilon=0.25))
    assert purse.remaining == before
    assert purse.ledger.epsilon <= 1
    assert len(purse.ledger.parts) == 4


@pytest.mark.parametrize("measure", ["rho", "mu"])
def test_a_refusal_with_a_delta_says_which_purse_would_pay(measure):
    """A recipe of the purse's own epsilon and delta does not fit. Two hundredths less do not."""
    recipe = made("rf_l", delta=1e-6)
    with pytest.raises(ValueError, match=r"adds up .* and not epsilon") as told:
        purse_of(measure, 1.0).check(recipe)
    (words,) = re.findall(r"epsilon = (\S+) would pay for this and", str(told.value))
    purse_of(measure, float(words)).check(recipe)
    with pytest.raises(ValueError, match=f"epsilon = {words} would pay"):
        purse_of(measure, 0.98 * float(words)).check(recipe)


def test_the_boundary_is_exact():
    """A charge of the last float fits, and one of the next float does not."""
    purse = purse_of("epsilon", 1.0)
    content = accounting.to_json(book(line(0.5)))

    def pay(cost):
        purse._pay(pursefiles.Spent("x", filters.Charge(cost, 0.0, 0.0), content))

    tenth = 0.1  # ten of this float are above 1
    for _ in range(9):
        pay(tenth)
    with pytest.raises(ValueError, match="costs"):
        pay(tenth)
    rest = purse.remaining
    assert Fraction(rest) <= 1 - 9 * Fraction(tenth)
    with pytest.raises(ValueError, match="costs"):
        pay(math.nextafter(rest, 1))
    pay(rest)
    assert purse.remaining < 1e-16


def test_costs_are_rounded_up():
    third = 1 / 3
    charge = filters.charge("epsilon", filters.limits("epsilon", 1.0, 0.0), book(line(third, 7)))
    assert Fraction(charge.cost) > 7 * Fraction(line(third).epsilon)
    assert charge.cost == pytest.approx(7 * third, rel=1e-14)
    # The float 0.1 is above a tenth, and the float 0.3 below three of them.
    assert filters.float_above(Fraction(1, 10)) == 0.1
    assert filters.float_below(Fraction(1, 10)) == math.nextafter(0.1, 0)
    assert filters.float_above(Fraction(3, 10)) == math.nextafter(0.3, 1)
    assert filters.float_below(Fraction(3, 10)) == 0.3


@pytest.mark.parametrize("measure", ["epsilon", "rho"])
@pytest.mark.parametrize("name", RECIPES)
def test_a_line_costs_what_the_scale_that_is_drawn_costs(name, measure):
    """Programs compute scales in float32, which may be a bit smaller than those of the events."""
    if name == "halfspace_boost" and measure == "epsilon":
        pytest.skip("halfspaces have no pure guarantee")
    purse = purse_of(measure)
    recipe = made(name, delta=purse.delta)
    total = dpbt.ledger(recipe)
    lines, least = {each.site: each for each in total.lines}, {}
    learner = recipe.learner
    parts = [("rounds", bound) for bound in (0.0, 0.3, 1.0, 3.3, 8.0)]
    parts += [(part, 0.0) for part in learner.parts if part != "rounds"]
    for part, bound in parts:
        for site, draw in pricing.drawn(recipe, part, bound).items():
            scale = float(np.min(draw.scale)) * float(lines[site].event.scale_unit)
            least[site] = min(scale, least.get(site, math.inf))
    cost = 2 * sum(Fraction(each.gap) for each in total.lines) * (measure == "epsilon")
    for site, each in lines.items():
        drawn = each.mechanism.cost(each.sensitivity, least[site])
        cost += each.count * Fraction(float(getattr(drawn, measure)))
    assert purse._charge(total).cost >= cost


@pytest.mark.parametrize("name", [name for name in RECIPES if name != "halfspace_boost"])
def test_a_pure_recipe_costs_at_most_the_epsilon_it_was_asked_for(name):
    for epsilon in (0.1, 0.25, 1.0):
        cost = purse_of("epsilon")._charge(dpbt.ledger(made(name, epsilon=epsilon))).cost
        assert epsilon * (1 - 1e-6) < cost <= epsilon


def test_a_smaller_scale_than_the_event_has_is_paid_for():
    each = line(0.5)
    smaller = dataclasses.replace(each, drawn=each.scale * (1 - 1e-7))
    for measure in ("epsilon", "rho"):
        of = filters.limits(measure, 1.0, 0.0 if measure == "epsilon" else 1e-6)
        ratio = filters.charge(measure, of, book(smaller)).cost / (
            filters.charge(measure, of, book(each)).cost
        )
        assert ratio == pytest.approx(1 + (1 if measure == "epsilon" else 2) * 1e-7, rel=1e-12)


@pytest.mark.filterwarnings("ignore:delta = .* is 1 / rows or more")
def test_a_recipe_costs_its_draws_and_not_its_own_epsilon():
    """Its delta does not matter, and neither does how it was asked for."""
    purse = purse_of("mu")
    for epsilon, delta in ((1.0, 1e-3), (0.5, 1e-9)):
        before, recipe = purse.remaining, made("rf_l", epsilon=epsilon, delta=delta)
        purse.take(recipe)
        cost = dpbt.ledger(recipe).mu ** 2
        assert before - purse.remaining == pytest.approx(cost, rel=1e-9)


def test_finite_bits_are_paid_for():
    quiet, bits = book(line(0.1)), book(line(0.1, gap=1e-6, tail=1e-12))
    for measure in ("epsilon", "rho"):
        delta = 0.0 if measure == "epsilon" else 1e-6
        of = filters.limits(measure, 1.0, delta)
        more = filters.charge(measure, of, bits).cost - filters.charge(measure, of, quiet).cost
        assert more > 0
        if measure == "epsilon":
            assert more == pytest.approx(2e-6)
    content = accounting.to_json(quiet)
    for measure, charge in (
        ("mu", filters.Charge(1e-9, 0.01, 0.0)),
        ("mu", filters.Charge(1e-9, 0.0, 1e-9)),
        ("rho", filters.Charge(1e-9, 0.0, 1e-9)),
        ("epsilon", filters.Charge(1e-9, 0.0, 1e-8)),
    ):
        purse = purse_of(measure)
        with pytest.raises(ValueError, match="finite bits"):
            purse._pay(pursefiles.Spent("x", charge, content))
        assert purse.spent == 0


@pytest.mark.parametrize("measure", ["epsilon", "rho", "mu"])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_the_limits_give_the_epsilon_of_the_purse(measure, epsilon):
    """At the limits, the conversion of the measure is the purse's epsilon and never above."""
    delta = 0.0 if measure == "epsilon" else 1e-7
    of = filters.limits(measure, epsilon, delta)
    cost = float(of.cost)
    if measure == "epsilon":
        assert cost == epsilon
        return
    if measure == "rho":
        found = accounting.zcdp_epsilon(cost, delta - of.tail)
    else:
        left = (delta - of.tail) * math.exp(-of.gap)
        found = accounting.gdp_epsilon(math.sqrt(cost), left) + 2 * of.gap
    assert epsilon * (1 - 1e-4) <= found <= epsilon * (1 + 1e-9)


CHOICES = st.lists(
    st.tuples(st.integers(0, len(POOL) - 1), st.sampled_from([0.1, 0.3, 0.7, 1.5])), max_size=10
)


@pytest.mark.filterwarnings("ignore:delta = .* is 1 / rows or more")
@pytest.mark.parametrize("measure", ["epsilon", "rho", "mu"])
@given(choices=CHOICES, epsilon=st.sampled_from([0.5, 1.0, 4.0]))
@settings(max_examples=25)
def test_whatever_is_taken_the_joint_ledger_is_within_the_purse(measure, choices, epsilon):
    purse, taken = purse_of(measure, epsilon), []
    for place, of_recipe in choices:
        recipe, before = pooled(place, of_recipe), purse.spent
        try:
            purse.take(recipe)
        except ValueError:
            assert purse.spent == before
        else:
            taken.append(dpbt.ledger(recipe))
    joint = purse.ledger
    assert joint.delta == purse.delta
    assert len(joint.parts) == len(taken)
    assert joint.epsilon <= purse.epsilon
    assert joint.sampler_delta <= (purse.delta or filters.PURE_TAIL)
    assert purse.spent <= purse.budget


def overspent(purse_class):
    """The epsilon of the joint ledger of a purse of 1, after as many quarters as it takes."""
    purse = purse_class(1.0, rows=ROWS)
    for _ in range(8):
        try:
            purse.take(pooled(1, 0.3))
        except ValueError:
            break
    return purse.ledger.epsilon


def test_wrong_purses_are_caught():
    """The joint ledger of purses that forget, halve or double says so; that of a true one fits."""

    class Forgets(dpbt.Purse):
        def _charge(self, book):
            return filters.Charge(0.0, 0.0, 0.0)

    class Halves(dpbt.Purse):
        def _charge(self, book):
            charge = super()._charge(book)
            return filters.Charge(charge.cost / 2, charge.gap, charge.tail)

    assert overspent(dpbt.Purse) <= 1
    assert overspent(Forgets) > 1
    assert overspent(Halves) > 1


# Shares.


@pytest.mark.parametrize("measure", ["epsilon", "rho", "mu"])
def test_a_share_of_what_is_left_costs_that_share(measure):
    purse = purse_of(measure)
    for share in (0.25, 1 / 3, 0.5, 1.0):
        before = purse.remaining
        purse.take(purse.recipe(recipes.auto, share=share, domain=DOMAIN))
        used = before - purse.remaining
        assert share * before * (1 - 2e-6) <= used <= share * before * (1 + 1e-12)
    with pytest.raises(ValueError, match="is left"):
        purse.take(made("rf_l", delta=purse.delta))


@pytest.mark.parametrize("name", ["lazybb_rules", "rf_e", "halfspace_boost", "bdpe"])
def test_a_share_of_recipes_that_are_set_by_other_sums(name):
    purse = purse_of("rho")
    recipe = purse.recipe(RECIPES[name], share=0.5)
    assert purse.spent == 0
    purse.take(recipe)
    assert purse.spent == pytest.approx(purse.budget / 2, rel=2e-6)
    assert purse.spent <= purse.budget / 2


def test_bad_shares_and_options_are_refused():
    purse = purse_of("rho")
    for share in (0, -1, 1.5, [0.1, 0.2]):
        with pytest.raises(ValueError, match="share must be"):
            purse.recipe(recipes.rf_l, share=share)
    with pytest.raises(ValueError, match="delta, epsilon, rows of a recipe comes from the"):
        purse.recipe(recipes.rf_l, share=1, epsilon=1, delta=0, rows=ROWS)
    with pytest.raises(ValueError, match="not Gaussian"):
        purse_of("mu").recipe(recipes.bdpe, share=1)


# Fits.


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    columns = {"age": rng.uniform(0, 100, 90), "sex": rng.choice(["m", "f"], 90)}
    return dpbt.table(DOMAIN, columns, rng.choice(["a", "b"], 90), negative="a", positive="b")


SMALL = {"epsilon": 0.5, "rows": ROWS, "rounds": 2, "depth": 2}


def test_a_fit_is_paid_for_and_is_the_fit_of_dpbt(table):
    purse, key = dpbt.Purse(1.0, rows=ROWS), dpbt.fresh_key()
    recipe = recipes.bdpe(**SMALL)
    model = purse.fit(key, table, recipe)
    again = dpbt.fit(key, table, recipe)
    assert jax.tree.all(jax.tree.map(np.array_equal, model.hypotheses, again.hypotheses))
    assert purse.ledger.parts[0] == dpbt.ledger(model)
    assert purse.ledger.key == "release"
    with pytest.warns(ResearchKeyWarning):
        purse.fit(jax.random.key(0), table, recipe)
    assert "RESEARCH KEY" in str(purse.ledger)
    with pytest.raises(ValueError, match="is left"):
        purse.fit(key, table, recipe)


def test_random_trees_are_fitted_side_by_side(table):
    purse = dpbt.Purse(1.0, rows=ROWS)
    recipe = recipes.rf_l(epsilon=0.5, rows=ROWS, rounds=3, depth=2)
    with pytest.raises(ValueError, match="give a public_key"):
        purse.fit(dpbt.fresh_key(), table, recipe)
    assert purse.spent == 0
    model = purse.fit(dpbt.fresh_key(), table, recipe, dpbt.fresh_key())
    assert model.recipe is recipe
    assert purse.spent > 0.49


def test_what_a_fit_refuses_of_its_arguments_costs_nothing(table):
    purse = dpbt.Purse(1.0, rows=ROWS)
    recipe = recipes.bdpe(**SMALL)
    for arguments in (
        (3, table, recipe),
        (dpbt.fresh_key(), recipe, table),
        (dpbt.fresh_key(), table, recipes.bdpe(**{**SMALL, "rows": 50})),
    ):
        with pytest.raises(ValueError, match=r"key|expected a|rows=1000, and the recipe for 50"):
            purse.fit(*arguments)
    assert purse.spent == 0


def test_a_purse_pays_for_tables_beyond_what_int32_counts(tmp_path):
    """Recipes for tables in chunks have up to 2^40 rows; the file keeps the number."""
    rows = 2**32
    dpbt.Purse(2.0, 1e-10, rows=rows).save(tmp_path / "purse.json")
    purse = dpbt.Purse.load(tmp_path / "purse.json")
    recipe = purse.take(purse.recipe(recipes.auto, share=0.5, domain=DOMAIN), dpbt.fresh_key())
    assert purse.rows == rows == dpbt.ledger(recipe).rows
    assert 0.49 < dpbt.Purse.load(tmp_path / "purse.json").remaining / purse.budget < 0.51


def test_free_refusals_do_not_tell_how_many_rows_there_are(table):
    """Whatever bound is tried, the answer is the same for both tables, but for the purse's own."""
    fewer = table._replace(present=table.present.at[:40].set(False))
    purse, answers = dpbt.Purse(1.0, rows=70), []
    for bound in (1, 49, 50, 51, 69, 71, 89, 90, 91, 10**6):
        recipe = recipes.bdpe(**{**SMALL, "rows": bound, "epsilon": 50.0})
        for rows in (table, fewer):
            with pytest.raises(
                ValueError, match=rf"rows=70, and the recipe for {bound};"
            ) as refused:
                purse.fit(dpbt.fresh_key(), rows, recipe)
            answers.append(str(refused.value))
    assert answers[::2] == answers[1::2]

    dear = recipes.bdpe(**{**SMALL, "rows": 70, "epsilon": 50.0})
    for rows in (table, fewer):
        with pytest.raises(ValueError, match="is left"):
            purse.fit(dpbt.fresh_key(), rows, dear)
    recipe = recipes.bdpe(**{**SMALL, "rows": 70})
    with pytest.raises(ValueError, match="at most rows=70, the table has more rows present"):
        purse.fit(dpbt.fresh_key(), table, recipe)
    assert purse.spent == 0
    assert purse.fit(dpbt.fresh_key(), fewer, recipe).recipe is recipe


def test_a_key_pays_for_one_fit(table):
    """Two fits under one key share noise, which no sum of their costs covers."""
    purse, other, key = purse_of("epsilon"), purse_of("epsilon"), dpbt.fresh_key()
    recipe = recipes.bdpe(**SMALL)
    purse.fit(key, table, recipe)
    spent = purse.spent
    again = jax.random.wrap_key_data(jax.random.key_data(key), impl=jax.random.key_impl(key))
    for used in (key, again):
        with pytest.raises(ValueError, match="a key of its own"):
            purse.fit(used, table, recipe)
        with pytest.raises(ValueError, match="a key of its own"):
            purse.take(made("rf_l"), used)
    assert purse.spent == spent
    purse.take(recipe)
    purse.take(recipe)  # keys that are handed to other functions alone cannot be seen
    purse.take(recipe, jax.random.split(key)[0])
    other.take(recipe, key)
    with pytest.raises(ValueError, match="one key of shape"):
        other.take(recipe, jax.random.split(key))
    marks = [each.mark for each in (*purse._spent, *other._spent) if each.mark]
    assert len(set(marks)) == len(marks) == 3  # of one key, too: each purse has its own salt


def test_a_fit_that_fails_stays_paid_for(table, monkeypatch):
    """And it is paid for before it begins."""
    purse, seen = dpbt.Purse(1.0, rows=ROWS), []

    def fails(*arguments, **options):
        seen.append(purse.spent)
        raise RuntimeError("out of memory")

    monkeypatch.setattr("dpbt.boosting.fit", fails)
    with pytest.raises(RuntimeError):
        purse.fit(dpbt.fresh_key(), table, recipes.bdpe(**SMALL))
    assert purse.spent == seen[0] > 0.49


# What is shown.


def test_a_purse_prints_what_was_spent_and_what_is_left():
    purse = dpbt.Purse(1.0, rows=ROWS, rows_per_person=3, relation="replace_one")
    recipe = made("rf_l", epsilon=0.25, rows_per_person=3, relation="replace_one")
    purse.take(recipe)
    printed = str(purse)
    assert printed.startswith("purse: epsilon = 1 for all releases together, under replace_one")
    assert "\ntable: 1000 rows\n" in printed
    assert "adds up: epsilon of pure differential privacy, of 1 in all" in printed
    assert re.search(rf"1 +{recipe.name} +0\.25 +25\.00%", printed)
    assert re.search(r"\(left\) +0\.75 +75\.00%", printed)
    assert accounting.people_words(3) in printed
    assert str(dpbt.Purse(2, 1e-6, rows=9)).startswith("purse: (epsilon, delta) = 2, 1e-06 for all")


def test_an_argument_that_no_fit_takes_costs_nothing():
    purse = dpbt.Purse(epsilon=2.0, rows=100)
    recipe = dpbt.recipes.bdpe(epsilon=1.0, rows=100, rounds=1, depth=1)
    table = random_table(0, 100, 3)
    for wrong, error in (
        ({"keep_witheld": True}, TypeError),
        ({"keep_withheld": "yes"}, ValueError),
    ):
        with pytest.raises(error):
            purse.fit(dpbt.fresh_key(), table, recipe, **wrong)
    assert purse.spent == 0
