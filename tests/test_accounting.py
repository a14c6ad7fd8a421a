"""Ledgers: how costs compose, how they become (epsilon, delta), and what a program costs."""

import dataclasses
import math

import jax
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.pld.common import DifferentialPrivacyParameters
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

import dpbt
from dpbt import recipes
from dpbt.data.domains import Numeric
from dpbt.owners import privacy_filter as filters
from dpbt.privacy import accounting, boundary, conversions, pricing
from dpbt.privacy.dependencies import draw_specs_of_phase
from dpbt.privacy.scales import sampler_scales
from tests.support import recipe_noise
from tests.support.budget_examples import ledger_line, ledger_of


def test_costs_of_lines_add_up():
    book = ledger_of(
        structs.replace(ledger_line(0.1, 5), times=2), ledger_line(0.2, 3, "exponential")
    )
    assert book.lines[0].count == 10
    assert book.pure_epsilon == pytest.approx(1.6)
    assert book.rho == pytest.approx(10 * 0.005 + 3 * 0.005)
    gaussians = ledger_of(
        ledger_line(0.3, 1, "rounded gaussian"), ledger_line(0.1, 16, "rounded gaussian")
    )
    assert gaussians.mu == pytest.approx(0.5)
    assert gaussians.rho == pytest.approx(gaussians.mu**2 / 2)


RECORDS = {
    "a line": ledger_line(0.5),
    "a ledger": ledger_of(ledger_line(0.5)),
    "a choice": conversions.choice_among_fits(
        [ledger_of(ledger_line(0.5))],
        conversions.run_count_law(2.0),
        score="log_loss",
        num_candidates=1,
        disjoint=True,
    ),
    "a cost": ledger_of(ledger_line(0.5)).run_cost(),
    "what bits cost": ledger_of(ledger_line(0.5)).sampler_cost(),
    "a charge": filters.Charge(cost=1.0, gap=2.0, tail=3.0),
    "limits": filters.cost_limits("rho", epsilon=1.0, delta=1e-6),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_takes_no_number_by_position(name):
    """So two numbers that are swapped are a TypeError, and not a wrong price."""
    record = RECORDS[name]
    is_struct = hasattr(record, "__struct_fields__")
    fields = structs.asdict(record) if is_struct else dataclasses.asdict(record)
    assert type(record)(**fields) == record
    with pytest.raises(TypeError, match="positional"):
        type(record)(*fields.values())


def test_advanced_composition_is_theorem_2_8_of_asadi_et_al():
    k, epsilon, delta = 50, 0.05, 1e-6
    expected = math.sqrt(2 * k * math.log(1 / delta)) * epsilon + k * epsilon * (
        math.exp(epsilon) - 1
    )
    assert ledger_of(ledger_line(epsilon, k)).epsilon_at(delta, "advanced") == pytest.approx(
        expected
    )


@pytest.mark.parametrize("rho", [1e-4, 0.5, 10.0])
def test_the_zcdp_conversion_is_the_best_over_all_orders_and_below_the_classical_bound(rho):
    alpha = 1 + np.geomspace(1e-6, 1e6, 200_001)
    for delta in (1e-9, 0.05):
        epsilon = conversions.zcdp_epsilon(rho, delta)
        assert epsilon <= conversions.published_zcdp_epsilon(rho, delta)
        offset = np.log1p(-1 / alpha) - (math.log(delta) + np.log(alpha)) / (alpha - 1)
        best = np.min(alpha * rho + offset)
        assert epsilon == pytest.approx(max(best, 0), rel=1e-6, abs=1e-9)
    for conversion in conversions.zcdp_epsilon, conversions.gdp_epsilon:
        assert (conversion(0.0, 0.1), conversion(math.inf, 0.1)) == (0, math.inf)


@given(epsilon=st.floats(1e-3, 30), delta=st.floats(1e-12, 0.1))
def test_the_rho_of_a_request_is_the_largest_within_it(epsilon, delta):
    rho = conversions.zcdp_rho(epsilon, delta)
    assert conversions.zcdp_epsilon(rho, delta) <= epsilon
    assert conversions.zcdp_epsilon(rho * (1 + 1e-6) + 1e-15, delta) > epsilon * (1 - 1e-9)


def test_the_published_rho_is_that_of_lemma_15():
    """Bun et al. (2020), Lemma 15, inverted; the best Renyi order allows a larger rho."""
    epsilon, delta = np.geomspace(1e-8, 30, 50), 1e-6
    published = conversions.published_zcdp_rho(epsilon, delta)
    by_lemma = published + 2 * np.sqrt(published * math.log(1 / delta))
    np.testing.assert_allclose(by_lemma, epsilon, rtol=2e-11)
    assert np.all(by_lemma <= epsilon)
    for rho, total in zip(published, epsilon, strict=True):
        assert conversions.published_zcdp_epsilon(rho, delta) <= total
    assert np.all(published < conversions.zcdp_rho(epsilon, delta))
    assert conversions.published_zcdp_rho(1.0, delta) == pytest.approx(0.017469, rel=1e-4)
    assert conversions.published_zcdp_rho(math.inf, delta) == math.inf


def test_gdp_of_pure_draws_is_above_their_exact_composition():
    """Randomised responses are the worst pure mechanisms, and their exact composition is known."""
    for epsilon, count in ((0.1, 50), (1.0, 3)):
        response = pld.from_privacy_parameters(DifferentialPrivacyParameters(epsilon))
        exact = response.self_compose(count).get_epsilon_for_delta(1e-6)
        assert (
            exact
            <= ledger_of(ledger_line(epsilon, count, "noisy max")).epsilon_at(1e-6, "gdp") + 1e-3
        )


def test_a_conversion_refuses_numbers_out_of_their_range():
    names = (
        *("zcdp_epsilon", "zcdp_rho", "gdp_epsilon", "gdp_mu"),
        *("published_zcdp_epsilon", "published_zcdp_rho"),
    )
    for convert in (getattr(conversions, name) for name in names):
        for delta in (0.0, 1.0, math.nan):
            with pytest.raises(ValueError, match="delta must be"):
                convert(1.0, delta)
        for total in (-1.0, math.nan):
            with pytest.raises(ValueError, match=r"(rho|mu|epsilon) must be"):
                convert(total, 0.1)


def test_the_draws_read_off_one_recipe_hold_for_others_of_its_structure():
    """A sensitivity that follows from numbers of a recipe is no static part of its program."""
    few, many = (recipes.halfspace_boost(epsilon=1, rows=rows) for rows in (1_000, 100_000))
    for recipe in few, many:
        (spec,) = recipe_noise.draw_specs_by_site(recipe, "rounds").values()
        [(_, _, scale)] = sampler_scales(recipe)
        assert not boundary.is_static(spec.max_sensitivity)
        assert scale == spec.scale
    assert draw_specs_of_phase(few, few.learner.round) == draw_specs_of_phase(
        many, many.learner.round
    )


def test_a_program_is_read_without_being_compiled(caplog):
    """Step by step it would be some hundred small programs, which take seconds in a new process."""
    with jax.log_compiles():
        recipes.auto(epsilon=1, rows=1000, domain={"x": Numeric(0, 1, bins=23)})
    compiled = [each for each in caplog.messages if each.startswith("Finished XLA")]
    assert len(compiled) < 20, compiled


def test_a_ledger_of_a_file_is_priced_again_from_its_scales():
    """The costs that a file states are not believed, and a scale of 0 has no noise."""
    ledger = dpbt.ledger(dpbt.recipes.bdpe(epsilon=2.0, rows=300, rounds=2, depth=2))
    content = accounting.to_json(ledger)
    for line in content["lines"]:
        line.update(epsilon=1e-4, rho=1e-9, mu=1e-4)
    understated = accounting.from_json(content)
    assert understated.epsilon < 0.01
    assert pricing.reprice_ledger(understated) == ledger
    noiseless = accounting.to_json(ledger)
    noiseless["lines"][0]["scale"] = 0.0
    assert pricing.reprice_ledger(accounting.from_json(noiseless)).epsilon == math.inf
    composed = accounting.compose_ledgers([understated, understated])
    assert pricing.reprice_ledger(composed).epsilon == pytest.approx(2 * ledger.epsilon)
