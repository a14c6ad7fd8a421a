"""Filters: what they accept and refuse, shares of a budget, fits, and what is shown."""

import functools
import itertools
import math
from fractions import Fraction

import jax
import numpy as np
import pytest
from dp_accounting import dp_event
from msgspec import structs

import dpbt
from dpbt import recipes
from dpbt.owners import privacy_filter as filters
from dpbt.privacy import conversions, mechanisms
from dpbt.privacy.external_events import EpsilonDeltaDpEvent
from tests.support import recipe_noise
from tests.support.budget_examples import (
    DOMAIN,
    POOL,
    RECIPES,
    ROWS,
    ledger_line,
    ledger_of,
    new_filter,
    recipe_by_name,
    recipe_of_pool,
)

# What a filter takes and refuses.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": math.inf}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"relation": "near"}, "relation"),
        ({"rows": 9.5}, "rows"),
        ({"rows": 2**40 + 1}, "rows"),
        ({"max_rows_per_user": 0}, "max_rows_per_user"),
        ({"measure": "renyi"}, "measure"),
        ({"measure": "rho"}, "needs a delta above 0"),
        ({"delta": 1e-6, "measure": "epsilon"}, "needs a delta of 0"),
    ],
)
def test_terms_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        dpbt.Filter(**{"epsilon": 1, "rows": 9, **options})


UNCOUNTED_RECIPES = {
    "no pure epsilon": ("epsilon", lambda: recipe_by_name("rf_l", delta=1e-6), r"\['leaf'\]"),
    "not Gaussian": ("mu", lambda: recipe_by_name("bdpe", delta=1e-6), "'split_0', 'split_1'"),
    "unprotected": (
        "epsilon",
        lambda: recipes.bdpe(epsilon=1, rows=ROWS, calibration="published"),
        "UNPROTECTED",
    ),
    **{
        f"{name}, {measure}": (
            measure,
            functools.partial(recipe_by_name, "rf_l", **options),
            message,
        )
        for measure in ("epsilon", "rho", "mu")
        for name, options, message in (
            ("no noise", {"epsilon": math.inf}, r"\['leaf'\]"),
            ("another relation", {"relation": "replace_one"}, "relation=add_remove"),
            ("other people", {"max_rows_per_user": 2}, "max_rows_per_user=1"),
            ("other rows", {"rows": 999}, "rows=1000"),
        )
    },
}


@pytest.mark.parametrize("name", UNCOUNTED_RECIPES)
def test_recipes_that_no_sum_covers_are_refused_and_cost_nothing(name):
    measure, make_recipe, message = UNCOUNTED_RECIPES[name]
    budget = new_filter(measure)
    with pytest.raises(ValueError, match=message):
        budget.take(make_recipe())
    inexact_line = structs.replace(ledger_line(0.1, mechanism="rounded gaussian"), exact=False)
    with pytest.raises(ValueError, match=r"\['x'\] have no proved"):
        budget.terms.charge_of_ledger(ledger_of(inexact_line, rows=ROWS))
    assert budget.spent == budget.ledger.epsilon == 0
    assert budget.remaining == budget.budget


EVENTS = {
    "gaussian": (dp_event.GaussianDpEvent(4.0), (math.inf, 1 / 32, 1 / 16)),
    "laplace": (dp_event.LaplaceDpEvent(4.0), (1 / 4, 1 / 32, math.inf)),
    "integers": (dp_event.DiscreteLaplaceDpEvent(0.1, 3), (0.3, 0.045, math.inf)),
    "zcdp": (dp_event.ZCDpEvent(0.02), (math.inf, 0.02, math.inf)),
    "pure": (EpsilonDeltaDpEvent(0.2), (0.2, 0.02, math.inf)),
    "little delta": (EpsilonDeltaDpEvent(0.2, 1e-11), (math.inf, 0.02, math.inf)),
    "delta": (EpsilonDeltaDpEvent(0.2, 2e-11), (math.inf, math.inf, math.inf)),
    "mixed": (dp_event.ZCDpEvent(0.02, 0.1), (math.inf, math.inf, math.inf)),
    "sampled": (
        dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(9.0)),
        (math.inf, math.inf, math.inf),
    ),
    "no noise": (dp_event.NonPrivateDpEvent(), (math.inf, math.inf, math.inf)),
    "other things": ("text", (math.inf, math.inf, math.inf)),
}
"""Events, and what they cost in epsilon, rho and mu^2; infinite where they are refused."""


@pytest.mark.parametrize("name", EVENTS)
def test_outside_releases_cost_what_their_events_say_or_are_refused(name):
    """A delta of 1e-11 costs (1 + e^2) times 1e-11 of the 1e-10 that a filter of 1e-6 keeps."""
    event, costs = EVENTS[name]
    for measure, cost in zip(("epsilon", "rho", "mu"), costs, strict=True):
        budget = new_filter(measure)
        twice = [dp_event.SelfComposedDpEvent(event, 1), dp_event.NoOpDpEvent()]
        if math.isinf(cost):
            with pytest.raises(ValueError, match=r"no proved|pays for|finite bits|xi of a Z"):
                budget.charge(dp_event.ComposedDpEvent(twice), "x")
            assert budget.spent == 0
            continue
        budget.charge(dp_event.ComposedDpEvent(twice), "x", date="2026-11-26")
        assert Fraction(budget.spent) >= Fraction(cost)
        assert budget.spent == pytest.approx(cost, rel=1e-9)
        again = dpbt.Filter.open(budget._path)
        assert "x (outside, 2026-11-26)" in str(again)
        assert again.ledger.epsilon <= 2
        with pytest.raises(ValueError, match=" is left"):
            again.charge(dp_event.SelfComposedDpEvent(event, 2000), "x")


def test_the_events_of_a_ledger_cost_what_it_costs_and_replaced_values_move_twice():
    recipe = recipe_by_name("rf_l", delta=1e-6)
    for measure in ("rho", "mu"):
        budget_of_recipe, budget_of_events = new_filter(measure), new_filter(measure)
        budget_of_recipe.take(recipe)
        budget_of_events.charge(dpbt.ledger(recipe).dp_event(), "the same")
        assert budget_of_recipe.spent == pytest.approx(budget_of_events.spent, rel=1e-6)
    add_remove, replace_one = new_filter("rho"), new_filter("rho", relation="replace_one")
    of_users = new_filter("rho", max_rows_per_user=3)
    for budget in (add_remove, replace_one, of_users):
        budget.charge(dp_event.GaussianDpEvent(30.0), "x")
    assert replace_one.spent == pytest.approx(4 * add_remove.spent)
    assert of_users.spent == pytest.approx(9 * add_remove.spent)
    for options in ({"name": ""}, {"name": "a\nb"}, {"name": "x", "date": "today"}):
        with pytest.raises(ValueError, match=r"outside release|isoformat"):
            add_remove.charge(dp_event.GaussianDpEvent(30.0), **options)
    for multiplier in (1e200, 1e-200):
        with pytest.raises(ValueError, match="noise_multiplier"):
            add_remove.charge(dp_event.GaussianDpEvent(multiplier), "x")


def test_the_last_float_of_a_budget_can_be_spent_and_the_next_cannot():
    """A charge of the last float fits, and one of the next float does not."""
    budget, ledger = new_filter("epsilon", 1.0), ledger_of(ledger_line(0.5))

    def pay(cost):
        budget._record_payment("x", filters.Charge(cost=cost, gap=0.0, tail=0.0), ledger)

    tenth = 0.1  # ten of this float are above 1
    for _ in range(9):
        pay(tenth)
    with pytest.raises(ValueError, match="costs"):
        pay(tenth)
    rest = budget.remaining
    assert Fraction(rest) <= 1 - 9 * Fraction(tenth)
    with pytest.raises(ValueError, match="costs"):
        pay(math.nextafter(rest, 1))
    pay(rest)
    assert budget.remaining < 1e-16


def test_costs_are_rounded_up_and_budgets_down():
    third = 1 / 3
    charge = new_filter("epsilon").terms.charge_of_ledger(
        ledger_of(ledger_line(third, 7), rows=ROWS)
    )
    assert Fraction(charge.cost) > 7 * Fraction(ledger_line(third).epsilon)
    assert charge.cost == pytest.approx(7 * third, rel=1e-14)
    # The float 0.1 is above a tenth, and the float 0.3 below three of them.
    assert filters.round_up_to_float(Fraction(1, 10)) == 0.1
    assert filters.round_down_to_float(Fraction(1, 10)) == math.nextafter(0.1, 0)
    assert filters.round_up_to_float(Fraction(3, 10)) == math.nextafter(0.3, 1)
    assert filters.round_down_to_float(Fraction(3, 10)) == 0.3


@pytest.mark.parametrize("measure", ["epsilon", "rho"])
@pytest.mark.parametrize("name", RECIPES)
def test_a_line_costs_what_the_scale_that_is_drawn_costs(name, measure):
    """Programs compute scales in float32, which may be a bit smaller than those of the events."""
    if name == "halfspace_boost" and measure == "epsilon":
        pytest.skip("halfspaces have no pure guarantee")
    terms = new_filter(measure).terms
    recipe = recipe_by_name(name, delta=terms.delta)
    recipe_ledger = dpbt.ledger(recipe)
    cost = 2 * sum(Fraction(line.gap) for line in recipe_ledger.lines) * (measure == "epsilon")
    min_multipliers = dict.fromkeys((line.site for line in recipe_ledger.lines), math.inf)
    for phase in recipe.learner.phases:
        for bound in (0.0, 0.3, 8.0) if phase.repeats else (0.0,):
            for site, draw in recipe_noise.draw_specs_by_site(recipe, phase, bound).items():
                if draw.mechanism.price.reads_rows:
                    multiplier = float(np.min(draw.scale / draw.max_sensitivity))
                    min_multipliers[site] = min(min_multipliers[site], multiplier)
    for line in recipe_ledger.lines:
        line_cost = mechanisms.BY_NAME[line.mechanism].cost_of_draw(1.0, min_multipliers[line.site])
        cost += line.count * Fraction(float(getattr(line_cost, measure)))
    assert terms.charge_of_ledger(recipe_ledger).cost >= cost


def test_the_finite_bits_of_samplers_are_paid_for():
    ledger_without_gap = ledger_of(ledger_line(0.1), rows=ROWS)
    ledger_with_gap = ledger_of(ledger_line(0.1, gap=1e-6, tail=1e-12), rows=ROWS)
    for measure, min_difference in (("epsilon", 1.99e-6), ("rho", 1e-9)):
        terms = new_filter(measure, 1.0).terms
        cost_with_gap = terms.charge_of_ledger(ledger_with_gap).cost
        assert cost_with_gap - terms.charge_of_ledger(ledger_without_gap).cost > min_difference
    for measure, gap, tail in (
        *(("mu", 0.01, 0.0), ("mu", 0.0, 1e-9), ("rho", 0.0, 1e-9), ("epsilon", 0.0, 1e-8)),
    ):
        budget = new_filter(measure)
        charge = filters.Charge(cost=1e-9, gap=gap, tail=tail)
        with pytest.raises(ValueError, match="finite bits"):
            budget._record_payment("x", charge, ledger_without_gap)
        assert budget.spent == 0


@pytest.mark.parametrize("measure", ["epsilon", "rho", "mu"])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_the_limits_give_the_epsilon_of_the_filter(measure, epsilon):
    """At the limits, the measure converts to the filter's epsilon and to no more."""
    delta = 0.0 if measure == "epsilon" else 1e-7
    limits = dpbt.Filter(epsilon, delta, rows=9, measure=measure).terms.limits
    cost = float(limits.cost)
    if measure == "epsilon":
        assert cost == epsilon
        return
    if measure == "rho":
        converted_epsilon = conversions.zcdp_epsilon(cost, delta - limits.tail)
    else:
        remaining_delta = (delta - limits.tail) * math.exp(-limits.gap)
        converted_epsilon = (
            conversions.gdp_epsilon(math.sqrt(cost), remaining_delta) + 2 * limits.gap
        )
    assert epsilon * (1 - 1e-4) <= converted_epsilon <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("measure", ["epsilon", "rho", "mu"])
def test_whatever_is_taken_the_joint_ledger_is_within_the_filter(measure):
    budget, taken = new_filter(measure, 1.0), 0
    for index, epsilon in 2 * list(itertools.product(range(len(POOL)), (0.3, 0.1))):
        before = budget.spent
        try:
            budget.take(recipe_of_pool(index, epsilon))
        except ValueError:
            assert budget.spent == before
        else:
            taken += 1
    joint = budget.ledger
    assert joint.delta == budget.terms.delta
    assert len(joint.parts) == taken > 3
    assert joint.epsilon <= budget.terms.epsilon
    assert joint.sampler_delta <= (budget.terms.delta or filters.MAX_TAIL_OF_PURE_BUDGET)
    assert budget.spent <= budget.budget


# Shares.


@pytest.mark.parametrize(
    ("measure", "name"),
    [
        *(("epsilon", "auto"), ("rho", "auto"), ("mu", "auto"), ("rho", "lazybb_rules")),
        *(("rho", "rf_e"), ("rho", "halfspace_boost"), ("rho", "bdpe")),
    ],
)
def test_a_share_of_what_is_left_costs_that_share(measure, name):
    budget = new_filter(measure)
    domain = {"domain": DOMAIN} if name == "auto" else {}
    for share in (1 / 3, 1.0):
        before = budget.remaining
        recipe = budget.recipe(RECIPES[name], fraction=share, **domain)
        assert budget.remaining == before
        budget.take(recipe)
        used = before - budget.remaining
        assert share * before * (1 - 2e-6) <= used <= share * before * (1 + 1e-12)
    with pytest.raises(ValueError, match="is left"):
        budget.check(recipe_by_name("rf_l", delta=budget.terms.delta))


def test_shares_and_options_out_of_range_are_refused():
    budget = new_filter("rho")
    for share in (0, 1.5):
        with pytest.raises(ValueError, match="fraction must be"):
            budget.recipe(recipes.rf_l, fraction=share)
    with pytest.raises(TypeError, match="multiple values"):
        budget.recipe(recipes.rf_l, epsilon=1)
    with pytest.raises(ValueError, match="one of mu Gaussian draws"):
        new_filter("mu").recipe(recipes.bdpe)


# Fits.


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    columns = {"age": rng.uniform(0, 100, 90), "sex": rng.choice(["m", "f"], 90)}
    return dpbt.table(DOMAIN, columns, rng.choice(["a", "b"], 90), negative="a", positive="b")


SMALL_SETTINGS = {"epsilon": 0.5, "rows": ROWS, "rounds": 1, "depth": 1}


def test_a_fit_is_paid_for_and_is_the_fit_of_dpbt(table):
    budget, key = dpbt.Filter(1.0, rows=ROWS), dpbt.fresh_key()
    recipe = recipes.bdpe(**SMALL_SETTINGS)
    model = dpbt.fit(key, table, recipe, filter=budget)
    again = dpbt.fit(key, table, recipe)
    assert jax.tree.all(jax.tree.map(np.array_equal, model.hypotheses, again.hypotheses))
    assert budget.ledger.parts[0] == dpbt.ledger(model)
    assert budget.ledger.key_purpose == "release"
    budget.take(recipe, jax.random.key(0))
    assert "RESEARCH KEY" in str(budget.ledger)
    with pytest.raises(ValueError, match="is left"):
        dpbt.fit(dpbt.fresh_key(), table, recipe, filter=budget)


def test_a_fit_that_refuses_its_arguments_costs_nothing(table):
    budget, key = dpbt.Filter(1.0, rows=ROWS), dpbt.fresh_key()
    recipe = recipes.bdpe(**SMALL_SETTINGS)
    for arguments, options in (
        ((3, table, recipe), {}),
        ((key, recipe, table), {}),
        ((key, table, recipes.rf_l(**SMALL_SETTINGS)), {}),  # no public key
        ((key, table, recipe), {"keep_witheld": True}),
    ):
        with pytest.raises((ValueError, TypeError)):
            dpbt.fit(*arguments, **options, filter=budget)
    assert budget.spent == 0


def test_free_refusals_do_not_tell_how_many_rows_there_are(table):
    """Any bound but the filter's own gives one answer, whichever table is passed."""
    fewer = table._replace(present=table.present.at[:40].set(False))
    budget, messages = dpbt.Filter(1.0, rows=70), []
    for bound in (1, 50, 51, 69, 71, 90, 91):
        recipe = recipes.bdpe(**{**SMALL_SETTINGS, "rows": bound, "epsilon": 50.0})
        for rows in (table, fewer):
            with pytest.raises(ValueError, match=f"rows=70, and the recipe for {bound};") as error:
                dpbt.fit(dpbt.fresh_key(), rows, recipe, filter=budget)
            messages.append(str(error.value))
    assert messages[::2] == messages[1::2]

    expensive_recipe = recipes.bdpe(**{**SMALL_SETTINGS, "rows": 70, "epsilon": 50.0})
    for rows in (table, fewer):
        with pytest.raises(ValueError, match="is left"):
            dpbt.fit(dpbt.fresh_key(), rows, expensive_recipe, filter=budget)
    recipe = recipes.bdpe(**{**SMALL_SETTINGS, "rows": 70})
    with pytest.raises(ValueError, match="at most rows=70, the table has more rows present"):
        dpbt.fit(dpbt.fresh_key(), table, recipe, filter=budget)
    assert budget.spent == 0
    used = dpbt.fresh_key()
    assert dpbt.fit(used, fewer, recipe, filter=budget).recipe is recipe
    # A key that was paid for tells no more.
    recipe_of_fewer_rows = recipes.bdpe(**{**SMALL_SETTINGS, "rows": 60})
    for rows in (table, fewer):
        with pytest.raises(ValueError, match="rows=70, and the recipe for 60"):
            dpbt.fit(used, rows, recipe_of_fewer_rows, filter=budget)


def test_a_key_pays_for_one_fit(table):
    """Two fits under one key share noise, which no sum of their costs covers."""
    budget, other_budget, key = new_filter("epsilon"), new_filter("epsilon"), dpbt.fresh_key()
    recipe = recipes.bdpe(**SMALL_SETTINGS)
    budget.take(recipe, key)
    spent = budget.spent
    again = jax.random.wrap_key_data(jax.random.key_data(key), impl=jax.random.key_impl(key))
    for used in (key, again):
        with pytest.raises(ValueError, match="a key of its own"):
            dpbt.fit(used, table, recipe, filter=budget)
    assert budget.spent == spent
    budget.take(recipe)  # keys that are handed to other functions alone cannot be seen
    budget.take(recipe, jax.random.split(key)[0])
    other_budget.take(recipe, key)
    with pytest.raises(ValueError, match="one key of shape"):
        other_budget.take(recipe, jax.random.split(key))
    key_ids = [
        release.key_id
        for privacy_filter in (budget, other_budget)
        for release in privacy_filter._read_releases_of_all_processes()
        if release.key_id
    ]
    assert len(set(key_ids)) == len(key_ids) == 3  # of one key, too: each filter has its own salt


def test_a_fit_that_fails_stays_paid_for(table, monkeypatch):
    """A fit is paid for before it begins."""
    budget, spent_at_start = dpbt.Filter(1.0, rows=ROWS), []

    def fails(*arguments, **options):
        spent_at_start.append(budget.spent)
        raise RuntimeError("out of memory")

    monkeypatch.setattr("dpbt.training.fit._compiled_run", fails)
    with pytest.raises(RuntimeError):
        dpbt.fit(dpbt.fresh_key(), table, recipes.bdpe(**SMALL_SETTINGS), filter=budget)
    assert budget.spent == spent_at_start[0] > 0.49
