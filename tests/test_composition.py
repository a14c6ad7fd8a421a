"""Sums of ledgers, and what dp_accounting says of them."""

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
    both = first + second
    assert [each.site for each in both.lines] == ["1.center", "2.center"]
    assert both.delta == first.delta + second.delta
    assert both.mu == pytest.approx(math.hypot(first.mu, second.mu))
    left = (both.delta - both.sampler_delta) * math.exp(-both.sampler_epsilon / 2)
    exact = conversions.gdp_epsilon(both.mu, left) + both.sampler_epsilon
    assert both.epsilon == pytest.approx(exact, rel=1e-12)
    assert both.epsilon < 0.9 * (first.epsilon + second.epsilon)


def test_sums_nest_in_any_order():
    parts = [dpbt.ledger(recipe_by_name("rf_l", delta=delta)) for delta in (0.0, 1e-6, 1e-7)]
    one, two, three = parts
    assert (
        (one + two) + three
        == one + (two + three)
        == sum(parts)
        == accounting.compose_ledgers(parts)
    )
    with pytest.raises(TypeError):
        one + 1.5
    with pytest.raises(TypeError):
        1 + one


COSTS = st.tuples(
    st.sampled_from(["discrete laplace", "exponential", "rounded gaussian", "noisy max"]),
    st.floats(1e-3, 2.0),
    st.integers(1, 60),
    st.sampled_from([0.0, 1e-9, 1e-6]),
)


def part_of(cost):
    mechanism, epsilon, count, delta = cost
    gaussian = mechanism == "rounded gaussian"
    bits = {"gap": 1e-9, "tail": 1e-15}
    return ledger_of(
        ledger_line(epsilon, count, mechanism, **bits), delta=max(delta, 1e-12 * gaussian)
    )


@given(st.lists(COSTS, min_size=1, max_size=4))
@settings(max_examples=20)
def test_a_sum_is_never_above_basic_composition_and_never_below_a_part(costs):
    parts = [part_of(cost) for cost in costs]
    total = accounting.compose_ledgers(parts)
    assert total.epsilon <= math.fsum(part.epsilon for part in parts) * (1 + 1e-14)
    if total.delta == 0:
        assert total.epsilon == pytest.approx(math.fsum(part.epsilon for part in parts))
        return
    truth = [conversions.gdp_epsilon(part.mu, total.delta) for part in parts if part.gaussian]
    assert total.epsilon >= max(truth, default=0) * (1 - 1e-9)


def test_relations_people_and_deltas_must_fit():
    one = dpbt.ledger(recipe_by_name("rf_l"))
    for words, other in (
        ("one relation", {"relation": "replace_one"}),
        ("one max_rows_per_user", {"max_rows_per_user": 3}),
    ):
        with pytest.raises(ValueError, match=words):
            one + dpbt.ledger(recipe_by_name("rf_l", **other))
    with pytest.raises(ValueError, match=r"less than 1, got 1\.2"):
        ledger_of(ledger_line(1), delta=0.6) + ledger_of(ledger_line(1), delta=0.6)
    with pytest.raises(ValueError, match="at least one"):
        accounting.compose_ledgers([])


def test_a_sum_of_ledgers_shows_rows_keys_and_unprotected_sites():
    research, release = jax.random.key(0), dpbt.fresh_key()
    one = dpbt.ledger(recipe_by_name("rf_l", rows=50), release)
    two = dpbt.ledger(recipe_by_name("rf_l", rows=80), release)
    assert (one + one).rows == 50
    assert (one + two).rows is None
    printed = str(one + two)
    assert "release 1: epsilon = 1, rows = 50, release key" in printed
    assert accounting.KEY_PURPOSE_TEXTS["release"] in printed

    seeded = dpbt.ledger(recipe_by_name("rf_l", rows=80), research)
    assert (one + seeded).key == "research"
    assert accounting.KEY_PURPOSE_TEXTS["research"] in str(one + seeded)
    assert (one + dpbt.ledger(recipe_by_name("rf_l"))).key is None

    published = dpbt.ledger(recipes.bdpe(epsilon=1, rows=1000, calibration="published"))
    assert f"UNPROTECTED: 2. {published.unprotected[0]}" in str(one + published)


def test_a_file_keeps_a_sum():
    total = dpbt.ledger(recipe_by_name("rf_l", rows=50)) + dpbt.ledger(
        recipe_by_name("bdpe", delta=1e-6)
    )
    kept = json.loads(json.dumps(accounting.to_json(total)))
    assert accounting.from_json(kept) == total
    assert "parts" not in accounting.to_json(dpbt.ledger(recipe_by_name("rf_l")))


def test_a_statement_of_a_sum_is_about_all_releases():
    one, two = (
        dpbt.ledger(recipe_by_name("rf_l", rows=50)),
        dpbt.ledger(recipe_by_name("bdpe", rows=80, delta=1e-6)),
    )
    text = dpbt.statement(one + two)
    assert text.startswith("# Privacy statement: 2 releases together")
    assert f"epsilon = {(one + two).epsilon:.6g} and" in text
    assert "at most 50 rows in release 1, 80 rows in release 2" in text
    apart = [recipe_ledger.recompute_ledger_costs(each, 3) for each in (one, two)]
    assert recipe_ledger.recompute_ledger_costs(one + two, 3).lines == sum(apart).lines


def test_a_choice_adds_up_with_nothing_and_is_refused_in_words():
    """Its lines are of one run, and its total is that of the best of several."""
    selection, domain = tuning.selection(held_out=None), {"a": Numeric(0, 1, bins=4)}
    options = {"epsilon": 1.0, "delta": 1e-6, "rows": 300, "domain": domain, "rounds": 2}
    grid = {"step": [0.1, 0.3]}
    candidates = tuning.candidates(recipes.oblivious_boost, selection, grid=grid, **options)
    chosen, plain = (
        tuning.planned_ledger(candidates, selection),
        dpbt.ledger(recipe_by_name("bdpe")),
    )
    assert chosen.rho == chosen.mu == math.inf
    assert sum([chosen]) is chosen
    for parts in ((chosen, plain), (plain, chosen)):
        with pytest.raises(ValueError, match="adds up with no other"):
            sum(parts)
    with pytest.raises(ValueError, match="no event of dp_accounting"):
        chosen.dp_event()
    with pytest.raises(ValueError, match="candidates were made for"):
        dpbt.statement(chosen, max_rows_per_user=2)
    with pytest.raises(ValueError, match="best of several runs"):
        dpbt.Filter(5.0, 1e-6, rows=300).terms.charge_of_ledger(chosen)
    with pytest.raises(ValueError, match="accountant must be one of"):
        chosen.epsilon_at(1e-6, "advanced")


# dp_accounting.


@pytest.mark.parametrize(
    ("name", "delta", "relation"),
    [
        *((name, 1e-6, "add_remove") for name in ("auto", "rf_e", "bdpe", "halfspace_boost")),
        *((name, 0.0, "replace_one") for name in ("auto", "rf_e", "lazybb_rules")),
    ],
)
def test_the_accountants_of_dp_accounting_agree(name, delta, relation):
    """The truth is between the best attack and ours; PLD is the truth of Gaussian ledgers."""
    total = dpbt.ledger(recipe_by_name(name, delta=delta, relation=relation))
    at, event = delta or 1e-6, total.dp_event()
    bits, zcdp = total.sampler_epsilon + 1e-4, total.epsilon_at(at, "zcdp")
    selects = any(line.mechanism in ("exponential", "noisy max") for line in total.lines)

    # Renyi orders on a grid are at most a little looser than the best order, and never tighter.
    renyi = RdpAccountant(neighboring_relation=NeighboringRelation[total.relation.name])
    assert renyi.supports(event) == (selects or total.gaussian)
    if renyi.supports(event):
        found = renyi.compose(event).get_epsilon(at)
        assert zcdp - bits <= found <= 1.06 * zcdp + bits

    # Loss distributions are the tightest, and read no selection.
    losses = PLDAccountant()
    assert losses.supports(event) != selects
    if not selects:
        tight = losses.compose(event).get_epsilon(at)
        assert 0.4 * total.epsilon < tight <= total.epsilon + bits
        if total.gaussian:
            assert tight == pytest.approx(total.epsilon, abs=2e-4)
            assert tight < zcdp


@pytest.mark.parametrize(("scale", "first", "second"), [(0.5, 1, 1), (2.0, 3, 2), (10.0, 9, 1)])
def test_one_integer_that_moves_by_all_is_the_worst_case(scale, first, second):
    """docs/privacy.md, point 16; the other way round the comparison fails."""

    def laws(moved):
        k = np.arange(-200, 201 + moved)
        mass = math.tanh(0.5 / scale)
        return mass * np.exp(-np.abs(k) / scale), mass * np.exp(-np.abs(k - moved) / scale)

    (p, q), (p1, q1), (p2, q2) = laws(first + second), laws(first), laws(second)
    gaps = []
    for ratio in np.exp(np.linspace(0, (first + second) / scale, 21)):
        two = np.maximum(np.outer(p1, p2) - ratio * np.outer(q1, q2), 0)
        gaps.append(np.maximum(p - ratio * q, 0).sum() - two.sum())
    assert min(gaps) >= -1e-12
    assert max(gaps) > 1e-3


# The page.


def test_the_outputs_of_the_page_are_those_of_its_code(tmp_path, monkeypatch, capsys):
    """Every line that is shown is printed by the block of code before it.

    `tests/experiments/test_docs.py` runs the same code with its fits, which print nothing.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dpbt, "fit", lambda key, _, recipe, filter: filter.take(recipe, key))
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    printed, compared = "", 0
    for name, text in found:
        if name == "python":
            exec(compile(text, str(PAGE), "exec"), {})
            printed = capsys.readouterr().out
        elif name != "sh":
            for shown in filter(None, text.splitlines()):
                assert shown in printed.splitlines()
                compared += 1
    assert compared > 8
