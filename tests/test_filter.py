"""Filters: what they take and refuse, shares, fits, and what they show."""

import contextlib
import math
import re
from fractions import Fraction

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

import dpbt
from dpbt import recipes
from dpbt.privacy import accounting, charges, mechanisms, pricing
from dpbt.privacy.keys import ResearchKeyWarning
from tests.filters import DOMAIN, POOL, RECIPES, ROWS, book, filter_of, line, made, pooled

# What a filter takes and refuses.


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 0}, "epsilon must be greater than 0"),
        ({"epsilon": math.inf}, "epsilon must be greater than 0 and finite"),
        ({"epsilon": 1, "delta": 1.0}, r"delta must be in \[0, 1\), got 1"),
        ({"epsilon": 1, "delta": -1e-6}, "delta must be"),
        ({"epsilon": 1, "relation": "near"}, "relation must be one of"),
        ({"epsilon": 1, "rows": 0}, "rows must be"),
        ({"epsilon": 1, "rows": 9.5}, "rows must be"),
        ({"epsilon": 1, "rows": 2**40 + 1}, "rows must be at most 1099511627776, got"),
        ({"epsilon": 1, "max_rows_per_user": 0}, "max_rows_per_user must be"),
        ({"epsilon": 1, "measure": "renyi"}, "measure must be one of"),
        ({"epsilon": 1, "measure": "rho"}, "needs a delta above 0, got 0"),
        ({"epsilon": 1, "delta": 1e-6, "measure": "epsilon"}, "needs a delta of 0"),
    ],
)
def test_bad_terms_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        dpbt.Filter(**{"rows": 9, **options})


def test_recipes_that_no_sum_covers_are_refused_in_words_and_cost_nothing():
    pure, rho, mu = (filter_of(measure) for measure in ("epsilon", "rho", "mu"))
    gaussian, mixed = made("rf_l", delta=1e-6), made("bdpe", delta=1e-6)
    with pytest.raises(ValueError, match="'leaf' have no pure epsilon"):
        pure.take(gaussian)
    with pytest.raises(ValueError, match=r"'split_0', 'split_1', .* not Gaussian.*measure='rho'"):
        mu.take(mixed)
    with pytest.raises(ValueError, match="UNPROTECTED"):
        pure.take(recipes.bdpe(epsilon=1, rows=1000, calibration="published"))
    for budget in (pure, rho, mu):
        with pytest.raises(ValueError, match="'leaf' have no noise"):
            budget.take(made("rf_l", epsilon=math.inf))
        with pytest.raises(ValueError, match="relation=add_remove, and the recipe for replace_one"):
            budget.take(made("rf_l", relation="replace_one"))
        with pytest.raises(ValueError, match="max_rows_per_user=1, and the recipe for 2"):
            budget.take(made("rf_l", max_rows_per_user=2))
        with pytest.raises(ValueError, match="rows=1000, and the recipe for 999"):
            budget.take(made("rf_l", rows=999))
        with pytest.raises(ValueError, match="pays for recipes, got Ledger"):
            budget.take(dpbt.ledger(gaussian))  # type: ignore[arg-type]
        floats = structs.replace(line(0.1, mechanism="exponential"), exact=False)
        with pytest.raises(ValueError, match=r"'x' .* no distance"):
            budget.terms.charge(book(floats, rows=ROWS))
        assert budget.spent == 0
        assert budget.remaining == budget.budget
        assert budget.ledger.epsilon == 0


def test_a_budget_of_epsilon_is_spent_exactly():
    """Four quarters fit into one, and nothing more does."""
    budget = filter_of("epsilon", 1.0)
    quarter = made("rf_l", epsilon=0.25)
    for _ in range(4):
        assert budget.take(quarter) is quarter
    before = budget.remaining
    assert before < 1e-6
    with pytest.raises(ValueError, match=r"costs epsilon = 0\.25, and epsilon = .* of 1 is left"):
        budget.take(made("rf_l", epsilon=0.25))
    assert budget.remaining == before
    assert budget.ledger.epsilon <= 1
    assert len(budget.ledger.parts) == 4


@pytest.mark.parametrize("measure", ["rho", "mu"])
def test_a_refusal_with_a_delta_says_what_is_added_up(measure):
    recipe, budget = made("rf_l", delta=1e-6), filter_of(measure, 1.0)
    with pytest.raises(ValueError, match=r"what is added up is .*, and recipe\(make, fraction=1\)"):
        budget.check(recipe)
    budget.take(budget.recipe(RECIPES["rf_l"], fraction=1))


def test_the_boundary_is_exact():
    """A charge of the last float fits, and one of the next float does not."""
    budget, quiet = filter_of("epsilon", 1.0), book(line(0.5))

    def pay(cost):
        budget._pay("x", charges.Charge(cost, 0.0, 0.0), quiet)

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


def test_costs_are_rounded_up():
    third = 1 / 3
    charge = filter_of("epsilon").terms.charge(book(line(third, 7), rows=ROWS))
    assert Fraction(charge.cost) > 7 * Fraction(line(third).epsilon)
    assert charge.cost == pytest.approx(7 * third, rel=1e-14)
    # The float 0.1 is above a tenth, and the float 0.3 below three of them.
    assert charges.float_above(Fraction(1, 10)) == 0.1
    assert charges.float_below(Fraction(1, 10)) == math.nextafter(0.1, 0)
    assert charges.float_above(Fraction(3, 10)) == math.nextafter(0.3, 1)
    assert charges.float_below(Fraction(3, 10)) == 0.3


@pytest.mark.parametrize("measure", ["epsilon", "rho"])
@pytest.mark.parametrize("name", RECIPES)
def test_a_line_costs_what_the_scale_that_is_drawn_costs(name, measure):
    """Programs compute scales in float32, which may be a bit smaller than those of the events."""
    if name == "halfspace_boost" and measure == "epsilon":
        pytest.skip("halfspaces have no pure guarantee")
    budget = filter_of(measure)
    recipe = made(name, delta=budget.terms.delta)
    total = dpbt.ledger(recipe)
    lines, least = {each.site: each for each in total.lines}, {}
    learner = recipe.learner
    parts = [("rounds", bound) for bound in (0.0, 0.3, 1.0, 3.3, 8.0)]
    parts += [(part, 0.0) for part in learner.parts if part != "rounds"]
    for part, bound in parts:
        for site, draw in pricing.drawn(recipe, part, bound).items():
            if draw.most == 0:  # it reads no row
                continue
            scale = float(np.min(draw.scale / draw.most)) * lines[site].sensitivity
            least[site] = min(scale, least.get(site, math.inf))
    cost = 2 * sum(Fraction(each.gap) for each in total.lines) * (measure == "epsilon")
    for site, each in lines.items():
        if site not in least:
            continue
        drawn = mechanisms.BY_NAME[each.mechanism].cost(each.sensitivity, least[site])
        cost += each.count * Fraction(float(getattr(drawn, measure)))
    assert budget.terms.charge(total).cost >= cost


@pytest.mark.parametrize("name", [name for name in RECIPES if name != "halfspace_boost"])
def test_a_pure_recipe_costs_at_most_the_epsilon_it_was_asked_for(name):
    for epsilon in (0.1, 0.25, 1.0):
        cost = filter_of("epsilon").terms.charge(dpbt.ledger(made(name, epsilon=epsilon))).cost
        assert epsilon * (1 - 1e-6) < cost <= epsilon


def test_finite_bits_are_paid_for():
    quiet = book(line(0.1), rows=ROWS)
    bits = book(line(0.1, gap=1e-6, tail=1e-12), rows=ROWS)
    for measure in ("epsilon", "rho"):
        terms = filter_of(measure, 1.0).terms
        more = terms.charge(bits).cost - terms.charge(quiet).cost
        assert more > 0
        if measure == "epsilon":
            assert more == pytest.approx(2e-6)
    for measure, charge in (
        ("mu", charges.Charge(1e-9, 0.01, 0.0)),
        ("mu", charges.Charge(1e-9, 0.0, 1e-9)),
        ("rho", charges.Charge(1e-9, 0.0, 1e-9)),
        ("epsilon", charges.Charge(1e-9, 0.0, 1e-8)),
    ):
        budget = filter_of(measure)
        with pytest.raises(ValueError, match="finite bits"):
            budget._pay("x", charge, quiet)
        assert budget.spent == 0


@pytest.mark.parametrize("measure", ["epsilon", "rho", "mu"])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_the_limits_give_the_epsilon_of_the_filter(measure, epsilon):
    """At the limits, the conversion of the measure is the filter's epsilon and never above."""
    delta = 0.0 if measure == "epsilon" else 1e-7
    of = charges.limits(measure, epsilon, delta)
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
def test_whatever_is_taken_the_joint_ledger_is_within_the_filter(measure, choices, epsilon):
    budget, taken = filter_of(measure, epsilon), []
    for place, of_recipe in choices:
        recipe, before = pooled(place, of_recipe), budget.spent
        try:
            budget.take(recipe)
        except ValueError:
            assert budget.spent == before
        else:
            taken.append(dpbt.ledger(recipe))
    joint = budget.ledger
    assert joint.delta == budget.terms.delta
    assert len(joint.parts) == len(taken)
    assert joint.epsilon <= budget.terms.epsilon
    assert joint.sampler_delta <= (budget.terms.delta or charges.PURE_TAIL)
    assert budget.spent <= budget.budget


@pytest.mark.parametrize(("counted", "fits"), [(1.0, True), (0.5, False), (0.0, False)])
def test_wrong_filters_are_caught(monkeypatch, counted, fits):
    """The joint ledger of filters that forget or halve says so; that of a true one fits."""
    charge = charges.Terms.charge

    def wrong(terms, ledger):
        cost = charge(terms, ledger)
        return charges.Charge(cost.cost * counted, cost.gap, cost.tail)

    monkeypatch.setattr(charges.Terms, "charge", wrong)
    budget = filter_of("epsilon", 1.0)
    with contextlib.suppress(ValueError):
        for _ in range(8):
            budget.take(pooled(1, 0.3))
    assert (budget.ledger.epsilon <= 1) == fits


# Shares.


@pytest.mark.parametrize("measure", ["epsilon", "rho", "mu"])
def test_a_share_of_what_is_left_costs_that_share(measure):
    budget = filter_of(measure)
    for share in (0.25, 1 / 3, 0.5, 1.0):
        before = budget.remaining
        budget.take(budget.recipe(recipes.auto, fraction=share, domain=DOMAIN))
        used = before - budget.remaining
        assert share * before * (1 - 2e-6) <= used <= share * before * (1 + 1e-12)
    with pytest.raises(ValueError, match="is left"):
        budget.take(made("rf_l", delta=budget.terms.delta))


@pytest.mark.parametrize("name", ["lazybb_rules", "rf_e", "halfspace_boost", "bdpe"])
def test_a_share_of_recipes_that_are_set_by_other_sums(name):
    budget = filter_of("rho")
    recipe = budget.recipe(RECIPES[name], fraction=0.5)
    assert budget.spent == 0
    budget.take(recipe)
    assert budget.spent == pytest.approx(budget.budget / 2, rel=2e-6)
    assert budget.spent <= budget.budget / 2


def test_bad_shares_and_options_are_refused():
    budget = filter_of("rho")
    for share in (0, -1, 1.5):
        with pytest.raises(ValueError, match="fraction must be"):
            budget.recipe(recipes.rf_l, fraction=share)
    with pytest.raises(ValueError, match="delta, epsilon, rows of a recipe comes from the"):
        budget.recipe(recipes.rf_l, fraction=1, epsilon=1, delta=0, rows=ROWS)
    with pytest.raises(ValueError, match="not Gaussian"):
        filter_of("mu").recipe(recipes.bdpe, fraction=1)


# Fits.


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    columns = {"age": rng.uniform(0, 100, 90), "sex": rng.choice(["m", "f"], 90)}
    return dpbt.table(DOMAIN, columns, rng.choice(["a", "b"], 90), negative="a", positive="b")


SMALL = {"epsilon": 0.5, "rows": ROWS, "rounds": 2, "depth": 2}


def test_a_fit_is_paid_for_and_is_the_fit_of_dpbt(table):
    budget, key = dpbt.Filter(1.0, rows=ROWS), dpbt.fresh_key()
    recipe = recipes.bdpe(**SMALL)
    model = dpbt.fit(key, table, recipe, filter=budget)
    again = dpbt.fit(key, table, recipe)
    assert jax.tree.all(jax.tree.map(np.array_equal, model.hypotheses, again.hypotheses))
    assert budget.ledger.parts[0] == dpbt.ledger(model)
    assert budget.ledger.key == "release"
    with pytest.warns(ResearchKeyWarning):
        dpbt.fit(jax.random.key(0), table, recipe, filter=budget)
    assert "RESEARCH KEY" in str(budget.ledger)
    with pytest.raises(ValueError, match="is left"):
        dpbt.fit(key, table, recipe, filter=budget)


WRONG = {
    "no key": lambda table: ((3, table, recipes.bdpe(**SMALL)), {}),
    "no table": lambda table: ((dpbt.fresh_key(), recipes.bdpe(**SMALL), table), {}),
    "other rows": lambda table: (
        (dpbt.fresh_key(), table, recipes.bdpe(**{**SMALL, "rows": 50})),
        {},
    ),
    "no public key": lambda table: ((dpbt.fresh_key(), table, recipes.rf_l(**SMALL)), {}),
    "no option": lambda table: (
        (dpbt.fresh_key(), table, recipes.bdpe(**SMALL)),
        {"keep_witheld": True},
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_fit_refuses_of_its_arguments_costs_nothing(table, name):
    budget = dpbt.Filter(1.0, rows=ROWS)
    arguments, options = WRONG[name](table)
    with pytest.raises((ValueError, TypeError)):
        dpbt.fit(*arguments, **options, filter=budget)
    assert budget.spent == 0


def test_a_filter_pays_for_tables_beyond_what_int32_counts(tmp_path):
    """Recipes for tables in chunks have up to 2^40 rows; the file keeps the number."""
    rows = 2**32
    path = tmp_path / "filter.db"
    budget = dpbt.Filter(2.0, 1e-10, rows=rows, path=path)
    recipe = budget.take(budget.recipe(recipes.auto, fraction=0.5, domain=DOMAIN), dpbt.fresh_key())
    assert budget.terms.rows == rows == dpbt.ledger(recipe).rows
    assert 0.49 < dpbt.Filter.open(path).remaining / budget.budget < 0.51


def test_free_refusals_do_not_tell_how_many_rows_there_are(table):
    """Whatever bound is tried, the answer is the same for both tables, but for the filter's own."""
    fewer = table._replace(present=table.present.at[:40].set(False))
    budget, answers = dpbt.Filter(1.0, rows=70), []
    for bound in (1, 49, 50, 51, 69, 71, 89, 90, 91, 10**6):
        recipe = recipes.bdpe(**{**SMALL, "rows": bound, "epsilon": 50.0})
        for rows in (table, fewer):
            with pytest.raises(
                ValueError, match=rf"rows=70, and the recipe for {bound};"
            ) as refused:
                dpbt.fit(dpbt.fresh_key(), rows, recipe, filter=budget)
            answers.append(str(refused.value))
    assert answers[::2] == answers[1::2]

    dear = recipes.bdpe(**{**SMALL, "rows": 70, "epsilon": 50.0})
    for rows in (table, fewer):
        with pytest.raises(ValueError, match="is left"):
            dpbt.fit(dpbt.fresh_key(), rows, dear, filter=budget)
    recipe = recipes.bdpe(**{**SMALL, "rows": 70})
    with pytest.raises(ValueError, match="at most rows=70, the table has more rows present"):
        dpbt.fit(dpbt.fresh_key(), table, recipe, filter=budget)
    assert budget.spent == 0
    used = dpbt.fresh_key()
    assert dpbt.fit(used, fewer, recipe, filter=budget).recipe is recipe
    other = recipes.bdpe(**{**SMALL, "rows": 60})  # a key that was paid for tells no more
    for rows in (table, fewer):
        with pytest.raises(ValueError, match="rows=70, and the recipe for 60"):
            dpbt.fit(used, rows, other, filter=budget)


def test_a_key_pays_for_one_fit(table):
    """Two fits under one key share noise, which no sum of their costs covers."""
    budget, other, key = filter_of("epsilon"), filter_of("epsilon"), dpbt.fresh_key()
    recipe = recipes.bdpe(**SMALL)
    dpbt.fit(key, table, recipe, filter=budget)
    spent = budget.spent
    again = jax.random.wrap_key_data(jax.random.key_data(key), impl=jax.random.key_impl(key))
    for used in (key, again):
        with pytest.raises(ValueError, match="a key of its own"):
            dpbt.fit(used, table, recipe, filter=budget)
        with pytest.raises(ValueError, match="a key of its own"):
            budget.take(made("rf_l"), used)
    assert budget.spent == spent
    budget.take(recipe)
    budget.take(recipe)  # keys that are handed to other functions alone cannot be seen
    budget.take(recipe, jax.random.split(key)[0])
    other.take(recipe, key)
    with pytest.raises(ValueError, match="one key of shape"):
        other.take(recipe, jax.random.split(key))
    marks = [each.key_id for of in (budget, other) for each in of._releases() if each.key_id]
    assert len(set(marks)) == len(marks) == 3  # of one key, too: each filter has its own salt


def test_a_fit_that_fails_stays_paid_for(table, monkeypatch):
    """And it is paid for before it begins."""
    budget, seen = dpbt.Filter(1.0, rows=ROWS), []

    def fails(*arguments, **options):
        seen.append(budget.spent)
        raise RuntimeError("out of memory")

    monkeypatch.setattr("dpbt.training.fit._compiled", fails)
    with pytest.raises(RuntimeError):
        dpbt.fit(dpbt.fresh_key(), table, recipes.bdpe(**SMALL), filter=budget)
    assert budget.spent == seen[0] > 0.49


# What is shown.


def test_a_filter_prints_what_was_spent_and_what_is_left():
    budget = dpbt.Filter(1.0, rows=ROWS, max_rows_per_user=3, relation="replace_one")
    recipe = made("rf_l", epsilon=0.25, max_rows_per_user=3, relation="replace_one")
    budget.take(recipe)
    printed = str(budget)
    assert printed.startswith(
        "filter: epsilon = 1 and delta = 0 for all releases together, under rep"
    )
    assert "\ntable: 1000 rows\n" in printed
    assert "adds up: epsilon of pure differential privacy, of 1 in all" in printed
    assert re.search(rf"1 +{recipe.name} +0\.25 +25\.00%", printed)
    assert re.search(r"\(left\) +0\.75 +75\.00%", printed)
    assert accounting.people_words(3) in printed
