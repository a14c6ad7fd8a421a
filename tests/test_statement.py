"""Privacy statements, and guarantees for people who have several rows."""

import math
from statistics import NormalDist
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from msgspec import structs

import dpbt
from dpbt import recipes
from dpbt.data.domains import Boolean, Numeric
from dpbt.models import statement as statements
from dpbt.privacy import accounting, conversions, mechanisms, recipe_ledger
from dpbt.types import ADD_REMOVE
from tests.support import example_tables, random_models

DOMAIN = {"age": Numeric(0, 100, bins=8), "sex": Boolean("m", "f")}


def ledger_of_one_draw(mechanism, sensitivity, scale, delta=0.0, times=1):
    terms = recipe_ledger.DrawTerms(
        site="x",
        mechanism=mechanism,
        releases="counts",
        sensitivity=sensitivity,
        scale=scale,
        theorem="none",
        times=times,
        moved_outputs=1,
    )
    line = recipe_ledger.ledger_line(terms)
    lines = (structs.replace(line, gap=0.0, tail=0.0),)
    return accounting.Ledger(relation=ADD_REMOVE, lines=lines, delta=delta)


@pytest.mark.parametrize("alarms", statements.FALSE_POSITIVES)
def test_the_bound_on_an_attacker_is_attained_on_one_gaussian_draw(alarms):
    """The bound is compared with counts of the best test, which is a threshold."""
    bound = statements.max_true_positive_rate(
        ledger_of_one_draw(mechanisms.rounded_gaussian, 3.0, 2.0, delta=1e-6), alarms
    )
    rng = np.random.default_rng(0)
    without, with_row = 2 * rng.normal(size=10**6), 3 + 2 * rng.normal(size=10**6)
    threshold = np.quantile(without, 1 - alarms)
    # Five standard errors of a share of a million, for both rates.
    assert abs(np.mean(with_row > threshold) - bound) < 5e-3
    assert bound == pytest.approx(NormalDist().cdf(NormalDist().inv_cdf(alarms) + 1.5))


@pytest.mark.parametrize("alarms", statements.FALSE_POSITIVES)
def test_the_bound_on_an_attacker_is_that_of_randomised_response_on_one_laplace_draw(alarms):
    """Randomised response attains the bound of a pure guarantee."""
    bound = statements.max_true_positive_rate(
        ledger_of_one_draw(mechanisms.discrete_laplace, 1.5, 1.0), alarms
    )
    bounds_of_rates = math.exp(1.5) * alarms, 1 - math.exp(-1.5) * (1 - alarms)
    assert bound == pytest.approx(min(bounds_of_rates))


def test_many_draws_are_composed_before_the_attacker_is_bounded():
    """The bound at one delta is no better than that at several."""
    many = ledger_of_one_draw(mechanisms.exponential, 1.0, 10.0, delta=1e-9, times=100)
    bound = statements.max_true_positive_rate(many, 0.01)
    at_delta = math.exp(many.epsilon) * 0.01 + 1e-9
    assert bound < 0.6 * at_delta
    assert bound > 0.01
    infinite = ledger_of_one_draw(mechanisms.exponential, 1.0, 0.0)
    assert statements.max_true_positive_rate(infinite, 0.01) == 1.0


def recipe_for(people=1, **rest):
    common = {"epsilon": 1.0, "rows": 60, "rounds": 2, "depth": 2, "criterion": "gini"}
    return recipes.bdpe(**{**common, **rest}, max_rows_per_user=people)


def test_a_statement_has_all_required_sentences():
    text = dpbt.statement(recipe_for())
    for part in (
        *("one row", "at most 60 rows", "epsilon = 1 and delta", "This epsilon is 'strong'"),
        *("If 10 % of rows", "class weights, all leaves (drawn 2 times)", "tuning", "running time"),
        *("scaler", "finitely many bits", "key: not known", f"dpbt {dpbt.__version__}"),
    ):
        assert part.lower() in text.lower()
    assert len(text.split()) < 520  # a page
    replaced = dpbt.statement(recipe_for(relation="replace_one"))
    assert "there are 60 rows" in replaced
    assert "two versions of one row" in replaced


def test_a_statement_hides_no_weakness():
    assert "RESEARCH KEY" in dpbt.statement(dpbt.ledger(recipe_for(), jax.random.key(0)))
    published = recipes.bdpe(epsilon=1.0, rows=60, calibration="published", alpha="objective")
    assert "not a proof" in dpbt.statement(published)
    assert "nothing is protected" in dpbt.statement(recipe_for(epsilon=np.inf))
    assert "100 %" in dpbt.statement(recipe_for(epsilon=np.inf))


@pytest.mark.parametrize(
    ("epsilon", "delta", "rows", "expected_texts"),
    [
        (0.5, 1e-9, 100, ("epsilon is 'strong'", "delta is far below 1/rows")),
        (4.0, 5e-3, 100, ("epsilon is 'reasonable'", "delta is below 1/rows", "expose 0.5 rows")),
        (11.0, 0.02, 100, ("epsilon is 'weak'", "not below 1/rows", "expose 2 rows", "unfit")),
    ],
    ids=["strong", "reasonable", "weak"],
)
def test_a_statement_judges_epsilon_and_delta(epsilon, delta, rows, expected_texts):
    line = ledger_of_one_draw(mechanisms.discrete_laplace, epsilon, 1.0)
    text = dpbt.statement(structs.replace(line, delta=delta, rows=rows))
    assert [word for word in expected_texts if word not in text] == []


@pytest.fixture(scope="module")
def paid(tmp_path_factory):
    """A saved model of random trees, and a filter that paid for its recipe and another one."""
    folder = tmp_path_factory.mktemp("paid")
    budget = dpbt.Filter(epsilon=3.0, rows=60, path=folder / "filter.db")
    recipe, other = recipe_for(), recipe_for(rounds=3)
    for paid_recipe in (recipe, other):
        budget.take(paid_recipe)
    domain = {"<age> & $1$, $2$": Numeric(0, 100, bins=8), "sex": Boolean("m", "f")}
    model = random_models.random_model(recipe, 2, domain)
    dpbt.save(model, folder / "model.json", domain=domain, classes=("no", "yes"))
    return dpbt.load(folder / "model.json"), budget


def test_a_statement_names_the_data_and_the_other_releases(paid):
    model, budget = paid
    text = dpbt.statement(model, facts={"Data": "people  of\n1994"}, filter=budget)
    head = (
        "- Data: people of 1994\n- Columns read: <age> & $1$, $2$, sex (2)\n- Predicts: no or yes"
    )
    assert head in text
    assert "one of 2 releases" in text
    assert "epsilon = 3 and delta = 0 hold" in text
    with pytest.raises(ValueError, match="paid for no release"):
        dpbt.statement(recipe_for(rounds=1), filter=budget)


def test_a_statement_is_a_page_of_html_and_of_pdf(paid, tmp_path):
    model, budget = paid
    many = {"Data": " ".join(["a long account of where the rows are from"] * 60)}
    text = dpbt.statement(model, facts=many, filter=budget)
    ElementTree.fromstring(text.page().partition("</head>")[2].removesuffix("</html>\n"))
    assert "&lt;age&gt; &amp; $1$" in text._repr_html_()
    assert text._repr_html_().count("<li>") == text.count("\n- ")
    text.pdf(tmp_path / "s.pdf")
    assert b"/Count 1 " in (tmp_path / "s.pdf").read_bytes()


COMMON = {"epsilon": 1.0, "rows": 100, "rounds": 4}
PEOPLE = {
    "bdpe-zcdp": lambda **rest: recipes.bdpe(**COMMON, delta=1e-6, depth=2, **rest),
    "forest-gdp": lambda **rest: recipes.random_forest(**COMMON, delta=1e-6, depth=2, **rest),
    "rf_l-published": lambda **rest: recipes.rf_l(
        **COMMON, depth=2, calibration="published", **rest
    ),
    "rules": lambda **rest: recipes.lazybb_rules(**COMMON, **rest),
    "halfspace": lambda **rest: recipes.halfspace_boost(**COMMON, **rest),
    "oblivious-gdp": lambda **rest: recipes.oblivious_boost(
        **COMMON, domain=DOMAIN, depth=2, scores_fraction=0.1, delta=1e-6, **rest
    ),
}


@pytest.mark.parametrize("name", PEOPLE)
def test_people_with_several_rows_are_paid_for_draw_by_draw(name):
    """Noise is k times larger, a selection has epsilon / k, and the total is what was asked for."""
    make, k = PEOPLE[name], 3
    ledger_of_one_row, ledger_of_several_rows = (
        dpbt.ledger(make(max_rows_per_user=rows_of_person)) for rows_of_person in (1, k)
    )
    assert ledger_of_several_rows.max_rows_per_user == k
    assert ledger_of_several_rows.epsilon == pytest.approx(ledger_of_one_row.epsilon, rel=2e-5)
    assert ledger_of_several_rows.epsilon <= 1 + 1e-6
    for before, after in zip(ledger_of_one_row.lines, ledger_of_several_rows.lines, strict=True):
        if before.moved_outputs is None:
            continue
        grown = (after.scale / after.sensitivity * k) / (before.scale / before.sensitivity)
        # The centre's sums are rounded to a grid, which is finer or coarser with the noise.
        assert grown == pytest.approx(k, rel=0.05 if name == "halfspace" else 2e-5)
        assert after.epsilon == pytest.approx(before.epsilon, rel=2e-5)
        assert after.rho == pytest.approx(before.rho, rel=2e-5)
        assert after.moved_outputs == k * before.moved_outputs
        assert after.gap == pytest.approx(k * before.gap)
    assert f"up to {k}" in str(ledger_of_several_rows)
    assert "promise" in str(ledger_of_several_rows)
    assert "promise" not in str(ledger_of_one_row)


def test_a_statement_for_people_with_more_rows_prices_the_same_draws_again():
    recipe = recipe_for()
    ledger = dpbt.ledger(recipe)
    for k in (1, 2, 7):
        repriced = recipe_ledger.recompute_ledger_costs(ledger, k)
        assert repriced.epsilon == pytest.approx(k * ledger.epsilon, rel=1e-6)
        back = recipe_ledger.recompute_ledger_costs(repriced, 1)
        assert str(back) == str(ledger)
    text = dpbt.statement(recipe, max_rows_per_user=3)
    assert "epsilon = 3 and delta" in text
    assert "owner's promise" in text
    assert dpbt.statement(recipe_for(3), max_rows_per_user=3) == dpbt.statement(recipe_for(3))
    with pytest.raises(ValueError, match="max_rows_per_user must be"):
        dpbt.statement(recipe, max_rows_per_user=0)


def test_gaussian_draws_are_never_scaled_after_composition():
    """The cost is k mu, and not k times the epsilon of mu, nor that of delta."""
    ledger = dpbt.ledger(PEOPLE["forest-gdp"]())
    repriced = recipe_ledger.recompute_ledger_costs(ledger, 4)
    assert repriced.mu == pytest.approx(4 * ledger.mu)
    left = (1e-6 - repriced.sampler_delta) * math.exp(-repriced.sampler_epsilon / 2)
    exact = conversions.gdp_epsilon(4 * ledger.mu, left) + repriced.sampler_epsilon
    assert repriced.epsilon == pytest.approx(exact)
    assert repriced.epsilon > 4.5 * ledger.epsilon


@pytest.mark.slow
def test_neighbours_of_k_rows_move_every_draw_by_no_more_than_k_rows_are_priced_at():
    """The exact loss of a recorded release between tables that differ in all rows of one person."""
    k = 3
    recipe = recipe_for(k)
    table = example_tables.random_table(3, 40, 4, 0)
    key = jax.random.key(5)
    boosted = dpbt.boost(key, table, recipe)
    neighbour = table._replace(present=table.present.at[jnp.array([0, 7, 21])].set(False))

    def total(rows):
        densities = dpbt.replay(boosted.transcript, rows, recipe).log_prob
        return float(sum(jnp.sum(value) for value in densities.values()))

    loss = abs(total(table) - total(neighbour))
    assert 0 < loss <= dpbt.ledger(recipe).epsilon
