"""Purses: what they take and refuse, shares, fits, files and processes."""

import copy
import json
import math
import multiprocessing
import os
import pickle
import queue
import re
import threading
from fractions import Fraction

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpbt
from dpbt import recipes
from dpbt.privacy import accounting, filters, mechanisms, pursefiles
from dpbt.privacy.keys import ResearchKeyWarning
from tests.purses import DOMAIN, RECIPES, book, line, made, purse_of

# What a purse takes and refuses.


def test_the_measure_follows_from_delta():
    assert dpbt.Purse(1).measure == "epsilon"
    assert dpbt.Purse(1, 1e-6).measure == "rho"
    assert dpbt.Purse(1, 1e-6, measure="mu").measure == "mu"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 0}, "epsilon must be greater than 0"),
        ({"epsilon": math.inf}, "epsilon must be greater than 0 and finite"),
        ({"epsilon": [1, 2]}, "epsilon must be one number"),
        ({"epsilon": 1, "delta": 1.0}, "delta must be at least 0 and less than 1"),
        ({"epsilon": 1, "delta": -1e-6}, "delta must be"),
        ({"epsilon": 1, "relation": "near"}, "relation must be one of"),
        ({"epsilon": 1, "rows_per_person": 0}, "rows_per_person must be"),
        ({"epsilon": 1, "measure": "renyi"}, "measure must be one of"),
        ({"epsilon": 1, "measure": "rho"}, "needs a delta above 0, got 0"),
        ({"epsilon": 1, "delta": 1e-6, "measure": "epsilon"}, "needs a delta of 0"),
    ],
)
def test_bad_terms_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        dpbt.Purse(**options)


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


POOL = (
    ("rf_l", 0.0, "epsilon rho"),
    ("bdpe", 0.0, "epsilon rho"),
    ("rf_e", 0.0, "epsilon rho"),
    ("rf_l", 1e-6, "rho mu"),
    ("rf_l", 1e-3, "rho mu"),
    ("halfspace_boost", 1e-5, "rho mu"),
    ("bdpe", 1e-6, "rho"),
    ("lazybb_rules", 1e-8, "rho"),
)
_MADE: dict = {}


def pooled(place, epsilon):
    """A recipe of the pool; built once, as the choices are few."""
    if (place, epsilon) not in _MADE:
        name, delta, _ = POOL[place]
        _MADE[place, epsilon] = made(name, delta=delta, epsilon=epsilon)
    return _MADE[place, epsilon]


CHOICES = st.lists(
    st.tuples(st.integers(0, len(POOL) - 1), st.sampled_from([0.1, 0.3, 0.7, 1.5])), max_size=10
)


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
    purse = purse_class(1.0)
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
        purse.take(purse.recipe(recipes.auto, share=share, rows=5000, domain=DOMAIN))
        used = before - purse.remaining
        assert share * before * (1 - 2e-6) <= used <= share * before * (1 + 1e-12)
    with pytest.raises(ValueError, match="is left"):
        purse.take(made("rf_l", delta=purse.delta))


@pytest.mark.parametrize("name", ["lazybb_rules", "rf_e", "halfspace_boost", "bdpe"])
def test_a_share_of_recipes_that_are_set_by_other_sums(name):
    purse = purse_of("rho")
    recipe = purse.recipe(RECIPES[name], share=0.5, rows=1000)
    assert purse.spent == 0
    purse.take(recipe)
    assert purse.spent == pytest.approx(purse.budget / 2, rel=2e-6)
    assert purse.spent <= purse.budget / 2


def test_bad_shares_and_options_are_refused():
    purse = purse_of("rho")
    for share in (0, -1, 1.5, [0.1, 0.2]):
        with pytest.raises(ValueError, match="share must be"):
            purse.recipe(recipes.rf_l, share=share, rows=100)
    with pytest.raises(ValueError, match="delta, epsilon of a recipe comes from the purse"):
        purse.recipe(recipes.rf_l, share=1, rows=100, epsilon=1, delta=0)
    with pytest.raises(ValueError, match="not Gaussian"):
        purse_of("mu").recipe(recipes.bdpe, share=1, rows=100)


# Fits.


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    columns = {"age": rng.uniform(0, 100, 90), "sex": rng.choice(["m", "f"], 90)}
    return dpbt.table(DOMAIN, columns, rng.choice(["a", "b"], 90), negative="a", positive="b")


SMALL = {"epsilon": 0.5, "rows": 100, "rounds": 2, "depth": 2}


def test_a_fit_is_paid_for_and_is_the_fit_of_dpbt(table):
    purse, key = dpbt.Purse(1.0), dpbt.fresh_key()
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
    purse = dpbt.Purse(1.0)
    recipe = recipes.rf_l(epsilon=0.5, rows=100, rounds=3, depth=2)
    with pytest.raises(ValueError, match="give a public_key"):
        purse.fit(dpbt.fresh_key(), table, recipe)
    assert purse.spent == 0
    model = purse.fit(dpbt.fresh_key(), table, recipe, dpbt.fresh_key(), memory_mb=64)
    assert model.recipe is recipe
    assert purse.spent > 0.49


def test_what_a_fit_refuses_of_its_arguments_costs_nothing(table):
    purse = dpbt.Purse(1.0)
    recipe = recipes.bdpe(**SMALL)
    for arguments in (
        (3, table, recipe),
        (dpbt.fresh_key(), recipe, table),
        (dpbt.fresh_key(), table, recipes.bdpe(**{**SMALL, "rows": 50})),
    ):
        with pytest.raises(ValueError, match=r"key|expected a|more rows"):
            purse.fit(*arguments)
    assert purse.spent == 0


def test_a_fit_that_fails_stays_paid_for(table, monkeypatch):
    """And it is paid for before it begins."""
    purse, seen = dpbt.Purse(1.0), []

    def fails(*arguments, **options):
        seen.append(purse.spent)
        raise RuntimeError("out of memory")

    monkeypatch.setattr("dpbt.boosting.fit", fails)
    with pytest.raises(RuntimeError):
        purse.fit(dpbt.fresh_key(), table, recipes.bdpe(**SMALL))
    assert purse.spent == seen[0] > 0.49


# Copies, threads, files and processes.


def test_a_purse_has_no_copy():
    purse = dpbt.Purse(1.0)
    assert copy.copy(purse) is copy.deepcopy(purse) is purse
    with pytest.raises(TypeError, match="twice"):
        pickle.dumps(purse)


def spends(purse, recipe, tries):
    taken = 0
    for _ in range(tries):
        try:
            purse.take(recipe)
            taken += 1
        except ValueError:
            continue
    return taken


def test_threads_share_a_budget():
    purse, recipe = dpbt.Purse(1.0), pooled(0, 0.1)
    taken = []
    threads = [
        threading.Thread(target=lambda: taken.append(spends(purse, recipe, 5))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == 10
    assert len(purse.ledger.parts) == 10


def test_purses_of_one_file_share_a_budget(tmp_path):
    path = tmp_path / "folder" / "purse.json"
    first = purse_of("rho", 1.0)
    first.take(pooled(3, 0.3))
    first.save(path)
    first.save(path)
    second = dpbt.Purse.load(path)
    assert repr(second) == repr(first)
    second.take(pooled(3, 0.3))
    first.take(pooled(3, 0.3))
    assert first.spent == second.spent == pytest.approx(3 * first.ledger.parts[0].rho, rel=1e-5)
    assert first.ledger == second.ledger
    assert str(first) == str(second)
    assert spends(first, pooled(3, 0.3), 20) + spends(second, pooled(3, 0.3), 20) > 1
    third = dpbt.Purse.load(path)
    assert third.spent <= third.budget
    assert third.ledger.epsilon <= 1


def test_what_is_written_is_paid_before_it_is_handed_out(tmp_path, monkeypatch):
    """If the file cannot be written, nothing is handed out and nothing is spent."""
    purse = dpbt.Purse(1.0)
    purse.save(tmp_path / "purse.json")

    def full(*arguments):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(pursefiles, "write", full)
        with pytest.raises(OSError, match="no space"):
            purse.take(pooled(0, 0.1))
    assert purse.spent == 0


def test_files_are_never_overwritten_and_never_doubled(tmp_path):
    purse, path = dpbt.Purse(1.0), tmp_path / "purse.json"
    path.write_text("mine")
    with pytest.raises(ValueError, match="the file exists"):
        purse.save(path)
    assert path.read_text() == "mine"
    purse.save(tmp_path / "other.json")
    with pytest.raises(ValueError, match="spend twice"):
        purse.save(tmp_path / "third.json")


def test_an_old_copy_and_another_purse_are_noticed(tmp_path):
    path = tmp_path / "purse.json"
    purse = dpbt.Purse(1.0)
    purse.save(path)
    old = path.read_bytes()
    purse.take(pooled(0, 0.1))
    path.write_bytes(old)
    with pytest.raises(ValueError, match="less was spent"):
        purse.take(pooled(0, 0.1))
    path.unlink()
    with pytest.raises(FileNotFoundError, match="purse"):
        purse.take(pooled(0, 0.1))
    dpbt.Purse(1.0).save(path)
    with pytest.raises(ValueError, match="another purse"):
        _ = purse.remaining


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[:-40], "not a purse, or cut off"),
        (lambda text: text.replace("1.0", "Infinity", 1), "not a purse, or cut off"),
        (lambda text: "[]", "not the file of a purse"),
        (lambda text: text.replace('"dpbt purse"', '"dpbt model"'), "not the file of a purse"),
        (lambda text: text.replace('"format_version": 1', '"format_version": 2'), "another format"),
        (lambda text: text.replace('"epsilon": 1.0', '"epsilon": 9.0', 1), "changed or damaged"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, change, words):
    path = tmp_path / "purse.json"
    purse = dpbt.Purse(1.0)
    purse.take(pooled(0, 0.1))
    purse.save(path)
    path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=words) as refused:
        dpbt.Purse.load(path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": -1.0},
        {"epsilon": "1"},
        {"delta": 1.5, "measure": "rho"},
        {"delta": "0"},
        {"relation": "near"},
        {"measure": "renyi"},
        {"measure": "rho"},
        {"rows_per_person": 0},
        {"spent": [{"name": "x"}]},
        {"spent": [{"name": "x", "cost": -1.0, "gap": 0.0, "tail": 0.0, "ledger": {}}]},
        {"spent": [{"name": "x", "cost": "nan", "gap": 0.0, "tail": 0.0, "ledger": {}}]},
        {"spent": 3},
    ],
)
def test_bad_content_with_a_checksum_is_refused(tmp_path, change):
    path = tmp_path / "purse.json"
    dpbt.Purse(1.0).save(path)
    content = {**json.loads(path.read_text()), **change}
    content["checksum"] = pursefiles.checksum(content)
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=re.escape(str(path))):
        dpbt.Purse.load(path)


def charges(path, number, taken):
    """Spend by raw charges of a twentieth, which need no recipe, from a purse of one's own."""
    purse = dpbt.Purse.load(path)
    content = accounting.to_json(book(line(0.05)))
    count = 0
    for _ in range(number):
        try:
            purse._pay(pursefiles.Spent("x", filters.Charge(0.05, 0.0, 0.0), content))
        except ValueError:
            break
        count += 1
    taken.put(count)


def shared(tmp_path, start, queue):
    """Two workers try 30 charges of a twentieth each; exactly 20 of these fit."""
    path = tmp_path / "purse.json"
    purse = dpbt.Purse(1.0 + 1e-12)
    purse.save(path)
    workers = [start(target=charges, args=(path, 30, queue)) for _ in range(2)]
    for worker in workers:
        worker.start()
    taken = [queue.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert sum(taken) == 20
    assert len(purse._current()) == 20
    assert purse.remaining < 1e-11


def test_two_purses_of_one_file_in_two_threads_share_a_budget(tmp_path):
    shared(tmp_path, threading.Thread, queue.Queue())


@pytest.mark.slow
def test_processes_share_a_budget(tmp_path):
    context = multiprocessing.get_context("spawn")
    shared(tmp_path, context.Process, context.Queue())


def test_two_purses_that_trust_their_memory_spend_twice(tmp_path, monkeypatch):
    """A planted mistake: a purse that decides by what it saw before, and not by its file."""
    path = tmp_path / "purse.json"
    dpbt.Purse(1.0).save(path)
    first, second = dpbt.Purse.load(path), dpbt.Purse.load(path)
    monkeypatch.setattr(dpbt.Purse, "_read", lambda purse, path: purse._spent)
    half = pooled(0, 0.7)
    first.take(half)
    second.take(half)
    assert first.spent + second.spent > 1


def test_a_purse_without_a_file_is_of_one_process(monkeypatch):
    purse = dpbt.Purse(1.0)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(ValueError, match="another process"):
        purse.take(pooled(0, 0.1))


def test_a_purse_of_draws_by_a_mechanism_of_ones_own_still_counts(tmp_path):
    """Its costs are in the file; its ledger cannot be."""
    purse, path = dpbt.Purse(1.0), tmp_path / "purse.json"
    own = mechanisms.discrete_laplace._replace(name="my own")
    event = accounting.Event("x", own, "counts", 1.0, 2.0, "none", moved=1)
    mine = book(accounting.Line(event))
    purse._pay(pursefiles.Spent("x", purse._charge(mine), accounting.to_json(mine), mine))
    assert purse.ledger.epsilon == 0.5
    purse.save(path)
    loaded = dpbt.Purse.load(path)
    assert loaded.spent == purse.spent
    with pytest.raises(ValueError, match="own"):
        _ = loaded.ledger
    assert purse.ledger.epsilon == 0.5


# What is shown.


def test_a_purse_prints_what_was_spent_and_what_is_left():
    purse = dpbt.Purse(1.0, rows_per_person=3, relation="replace_one")
    recipe = made("rf_l", epsilon=0.25, rows_per_person=3, relation="replace_one")
    purse.take(recipe)
    printed = str(purse)
    assert printed.startswith("purse: epsilon = 1 for all releases together, under replace_one")
    assert "adds up: epsilon of pure differential privacy, of 1 in all" in printed
    assert re.search(rf"1 +{recipe.name} +0\.25 +25\.00%", printed)
    assert re.search(r"\(left\) +0\.75 +75\.00%", printed)
    assert accounting.people_words(3) in printed
    assert str(dpbt.Purse(2, 1e-6)).startswith("purse: (epsilon, delta) = 2, 1e-06 for all")
