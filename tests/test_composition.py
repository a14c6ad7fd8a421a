"""Sums of ledgers agree with the accountants of dp_accounting."""

import json
import math
import re

import jax
import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

import dpbt
from dpbt import recipes, tuning
from dpbt.data.domains import Numeric
from dpbt.privacy import accounting, conversions, recipe_ledger
from tests.support import ROOT
from tests.support.budget_examples import ledger_line, ledger_of, recipe_by_name

PAGE = ROOT / "docs" / "composition.md"

# Sums of ledgers.


def test_a_sum_has_all_lines_with_their_release_and_the_sum_of_the_deltas():
    first = dpbt.ledger(recipe_by_name("halfspace_boost", delta=1e-6))
    second = dpbt.ledger(recipe_by_name("halfspace_boost", delta=3e-6, epsilon=0.5))
    joint_ledger = first + second
    assert [line.site for line in joint_ledger.lines] == ["1.center", "2.center"]
    assert joint_ledger.delta == first.delta + second.delta
    assert joint_ledger.mu == pytest.approx(math.hypot(first.mu, second.mu))
    remaining_delta = (joint_ledger.delta - joint_ledger.sampler_delta) * math.exp(
        -joint_ledger.sampler_epsilon / 2
    )
    expected_epsilon = (
        conversions.gdp_epsilon(joint_ledger.mu, remaining_delta) + joint_ledger.sampler_epsilon
    )
    assert joint_ledger.epsilon == pytest.approx(expected_epsilon, rel=1e-12)
    assert joint_ledger.epsilon < 0.9 * (first.epsilon + second.epsilon)


def test_sums_of_ledgers_are_associative():
    parts = [dpbt.ledger(recipe_by_name("rf_l", delta=delta)) for delta in (0.0, 1e-6, 1e-7)]
    first, second, third = parts
    assert (
        (first + second) + third
        == first + (second + third)
        == sum(parts)
        == accounting.compose_ledgers(parts)
    )
    with pytest.raises(TypeError):
        first + 1.5
    with pytest.raises(TypeError):
        1 + first


LINE_COSTS = st.tuples(
    st.sampled_from(["discrete laplace", "exponential", "rounded gaussian", "noisy max"]),
    st.floats(1e-3, 2.0),
    st.integers(1, 60),
    st.sampled_from([0.0, 1e-9, 1e-6]),
)


def ledger_of_one_line(line_cost):
    mechanism, epsilon, count, delta = line_cost
    gaussian = mechanism == "rounded gaussian"
    bits = {"gap": 1e-9, "tail": 1e-15}
    return ledger_of(
        ledger_line(epsilon, count, mechanism, **bits), delta=max(delta, 1e-12 * gaussian)
    )


@given(st.lists(LINE_COSTS, min_size=1, max_size=4))
@settings(max_examples=20)
def test_a_sum_is_never_above_basic_composition_and_never_below_a_part(costs):
    parts = [ledger_of_one_line(cost) for cost in costs]
    total = accounting.compose_ledgers(parts)
    assert total.epsilon <= math.fsum(part.epsilon for part in parts) * (1 + 1e-14)
    if total.delta == 0:
        assert total.epsilon == pytest.approx(math.fsum(part.epsilon for part in parts))
        return
    truth = [conversions.gdp_epsilon(part.mu, total.delta) for part in parts if part.gaussian]
    assert total.epsilon >= max(truth, default=0) * (1 - 1e-9)


def test_only_ledgers_of_one_relation_and_one_bound_on_rows_per_user_add_up():
    ledger = dpbt.ledger(recipe_by_name("rf_l"))
    for message, options in (
        ("the same relation, got", {"relation": "replace_one"}),
        (r"the same max_rows_per_user, got \[1, 3\]", {"max_rows_per_user": 3}),
    ):
        with pytest.raises(ValueError, match=message):
            ledger + dpbt.ledger(recipe_by_name("rf_l", **options))
    with pytest.raises(ValueError, match=r"less than 1, got 1\.2"):
        ledger_of(ledger_line(1), delta=0.6) + ledger_of(ledger_line(1), delta=0.6)
    with pytest.raises(ValueError, match="at least one"):
        accounting.compose_ledgers([])


def test_a_sum_of_ledgers_shows_rows_keys_and_unprotected_sites():
    research_key, release_key = jax.random.key(0), dpbt.fresh_key()
    ledger_of_50_rows = dpbt.ledger(recipe_by_name("rf_l", rows=50), release_key)
    ledger_of_80_rows = dpbt.ledger(recipe_by_name("rf_l", rows=80), release_key)
    assert (ledger_of_50_rows + ledger_of_50_rows).rows == 50
    assert (ledger_of_50_rows + ledger_of_80_rows).rows is None
    text = str(ledger_of_50_rows + ledger_of_80_rows)
    assert "release 1: epsilon = 1, rows = 50, release key" in text
    assert accounting.KEY_PURPOSE_TEXTS["release"] in text

    ledger_of_research_key = dpbt.ledger(recipe_by_name("rf_l", rows=80), research_key)
    assert (ledger_of_50_rows + ledger_of_research_key).key_purpose == "research"
    assert accounting.KEY_PURPOSE_TEXTS["research"] in str(
        ledger_of_50_rows + ledger_of_research_key
    )
    assert (ledger_of_50_rows + dpbt.ledger(recipe_by_name("rf_l"))).key_purpose is None

    published = dpbt.ledger(recipes.bdpe(epsilon=1, rows=1000, calibration="published"))
    assert f"UNPROTECTED: 2. {published.unprotected[0]}" in str(ledger_of_50_rows + published)


def test_a_sum_of_ledgers_is_read_unchanged_from_its_file():
    total = dpbt.ledger(recipe_by_name("rf_l", rows=50)) + dpbt.ledger(
        recipe_by_name("bdpe", delta=1e-6)
    )
    content = json.loads(json.dumps(accounting.to_json(total)))
    assert accounting.from_json(content) == total
    assert "parts" not in accounting.to_json(dpbt.ledger(recipe_by_name("rf_l")))


def test_a_statement_of_a_sum_is_about_all_releases():
    pure_ledger = dpbt.ledger(recipe_by_name("rf_l", rows=50))
    ledger_with_delta = dpbt.ledger(recipe_by_name("bdpe", rows=80, delta=1e-6))
    text = dpbt.statement(pure_ledger + ledger_with_delta)
    assert text.startswith("# Privacy statement: 2 releases together")
    assert f"epsilon = {(pure_ledger + ledger_with_delta).epsilon:.6g} and" in text
    assert "at most 50 rows in release 1, 80 rows in release 2" in text
    repriced_parts = [
        recipe_ledger.recompute_ledger_costs(ledger, 3)
        for ledger in (pure_ledger, ledger_with_delta)
    ]
    repriced_sum = recipe_ledger.recompute_ledger_costs(pure_ledger + ledger_with_delta, 3)
    assert repriced_sum.lines == sum(repriced_parts).lines


def test_the_ledger_of_the_best_of_several_runs_adds_up_with_no_other():
    """The lines of a choice are of one run, and its total is that of the best of several."""
    selection, domain = tuning.selection(held_out=None), {"a": Numeric(0, 1, bins=4)}
    options = {"epsilon": 1.0, "delta": 1e-6, "rows": 300, "domain": domain, "rounds": 2}
    grid = {"step": [0.1, 0.3]}
    candidates = tuning.candidates(recipes.oblivious_boost, selection, grid=grid, **options)
    ledger_of_choice = tuning.planned_ledger(candidates, selection)
    plain_ledger = dpbt.ledger(recipe_by_name("bdpe"))
    assert ledger_of_choice.rho == ledger_of_choice.mu == math.inf
    assert sum([ledger_of_choice]) is ledger_of_choice
    for parts in ((ledger_of_choice, plain_ledger), (plain_ledger, ledger_of_choice)):
        with pytest.raises(ValueError, match="adds up with no other"):
            sum(parts)
    with pytest.raises(ValueError, match="dp_accounting has no event"):
        ledger_of_choice.dp_event()
    with pytest.raises(ValueError, match="candidates were made for"):
        dpbt.statement(ledger_of_choice, max_rows_per_user=2)
    with pytest.raises(ValueError, match="best of several runs"):
        dpbt.Filter(5.0, 1e-6, rows=300).terms.charge_of_ledger(ledger_of_choice)
    with pytest.raises(ValueError, match="accountant must be one of"):
        ledger_of_choice.epsilon_at(1e-6, "advanced")


# dp_accounting.


@pytest.mark.parametrize(
    ("name", "delta", "relation"),
    [
        *((name, 1e-6, "add_remove") for name in ("auto", "rf_e", "bdpe", "halfspace_boost")),
        *((name, 0.0, "replace_one") for name in ("auto", "rf_e", "lazybb_rules")),
    ],
)
def test_the_accountants_of_dp_accounting_agree(name, delta, relation):
    """The truth is below the ledger's epsilon; loss distributions are exact for Gaussians."""
    recipe_ledger = dpbt.ledger(recipe_by_name(name, delta=delta, relation=relation))
    delta_of_comparison, event = delta or 1e-6, recipe_ledger.dp_event()
    rounding_margin = recipe_ledger.sampler_epsilon + 1e-4
    zcdp_epsilon = recipe_ledger.epsilon_at(delta_of_comparison, "zcdp")
    selects = any(line.mechanism in ("exponential", "noisy max") for line in recipe_ledger.lines)

    # Renyi orders on a grid are at most a little looser than the best order, and never tighter.
    renyi_accountant = RdpAccountant(
        neighboring_relation=NeighboringRelation[recipe_ledger.relation.name]
    )
    assert renyi_accountant.supports(event) == (selects or recipe_ledger.gaussian)
    if renyi_accountant.supports(event):
        renyi_epsilon = renyi_accountant.compose(event).get_epsilon(delta_of_comparison)
        assert renyi_epsilon >= zcdp_epsilon - rounding_margin
        assert renyi_epsilon <= 1.06 * zcdp_epsilon + rounding_margin

    # Loss distributions are the tightest, and read no selection.
    loss_accountant = PLDAccountant()
    assert loss_accountant.supports(event) != selects
    if not selects:
        loss_epsilon = loss_accountant.compose(event).get_epsilon(delta_of_comparison)
        assert 0.4 * recipe_ledger.epsilon < loss_epsilon <= recipe_ledger.epsilon + rounding_margin
        if recipe_ledger.gaussian:
            assert loss_epsilon == pytest.approx(recipe_ledger.epsilon, abs=2e-4)
            assert loss_epsilon < zcdp_epsilon


@pytest.mark.parametrize(("scale", "first", "second"), [(0.5, 1, 1), (2.0, 3, 2), (10.0, 9, 1)])
def test_one_integer_that_moves_by_the_whole_sensitivity_is_the_worst_case(scale, first, second):
    """docs/privacy.md, point 16; the other way round the comparison fails."""

    def laws(distance):
        k = np.arange(-200, 201 + distance)
        mass = math.tanh(0.5 / scale)
        return mass * np.exp(-np.abs(k) / scale), mass * np.exp(-np.abs(k - distance) / scale)

    (p, q), (p1, q1), (p2, q2) = laws(first + second), laws(first), laws(second)
    gaps = []
    for ratio in np.exp(np.linspace(0, (first + second) / scale, 21)):
        excess_of_two = np.maximum(np.outer(p1, p2) - ratio * np.outer(q1, q2), 0)
        gaps.append(np.maximum(p - ratio * q, 0).sum() - excess_of_two.sum())
    assert min(gaps) >= -1e-12
    assert max(gaps) > 1e-3


# The page.


def test_the_outputs_of_the_page_are_those_of_its_code(tmp_path, monkeypatch, capsys):
    """Every line that is shown is printed by the block of code before it.

    `tests/experiments/test_docs.py` runs the same code with its fits, which print nothing.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dpbt, "fit", lambda key, _, recipe, filter: filter.take(recipe, key))
    code_blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    printed, num_compared = "", 0
    for language, text in code_blocks:
        if language == "python":
            exec(compile(text, str(PAGE), "exec"), {})
            printed = capsys.readouterr().out
        elif language != "sh":
            for line in filter(None, text.splitlines()):
                assert line in printed.splitlines()
                num_compared += 1
    assert num_compared > 8
