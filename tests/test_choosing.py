"""The runs of a choice: how many, side by side, under which keys, and which of them is released."""

import warnings

import jax
import numpy as np
import pytest

import dpbt
from dpbt import boosting, recipes, tuning
from dpbt.common.types import Transcript
from dpbt.privacy.keys import ResearchKeyWarning
from dpbt.tuning import choosing, selections
from tests import tuned
from tests.test_tuning import DOMAIN, KEY, people


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    monkeypatch.setitem(selections.BY_NAME, "errors", tuned.ERRORS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResearchKeyWarning)
        yield


def test_every_run_has_a_key_of_its_own(monkeypatch):
    """Equal runs would make their number worth nothing; no test of the result would see it."""
    table, single = tuned.ballots(7, 9), tuned.voters(0.6, 0.3)
    selection = tuning.selection("errors")
    plan, parts, seen = selections.plan(single, selection), choosing._parts(table, selection), []

    def spied(key, *rest):
        seen.append(np.asarray(jax.random.key_data(key)))
        return Transcript({}, {"n": len(seen)}, {}), {"score": np.zeros(())}

    monkeypatch.setattr(choosing, "_run", spied)
    monkeypatch.setattr(choosing, "drawn_count", lambda *_: 21)
    best = choosing._best_of_all(KEY, parts, single, plan, None)
    assert best.transcript.rounds["n"] == 1  # ties go to the first run
    assert len(np.unique(seen, axis=0)) == len(seen) == 21
    for key in jax.random.split(KEY, 4):
        assert {choosing._candidate(key, run, 5) for run in range(64)} == set(range(5))


REBUILT = {
    "oblivious_boost": {"domain": DOMAIN, "delta": 1e-6, "marginals_fraction": 0.1, "depth": 2},
    "bdpe": {"depth": 2},
    "lazybb_rules": {},
    "random_forest": {"depth": 2, "disjoint": True},
}


@pytest.mark.parametrize(
    "name",
    ["oblivious_boost", *(pytest.param(each, marks=pytest.mark.slow) for each in [*REBUILT][1:])],
)
def test_the_model_follows_from_its_transcript_alone(name):
    """What `tune` rebuilds is what the fit had."""
    recipe = getattr(recipes, name)(epsilon=5.0, rows=300, rounds=3, **REBUILT[name])
    table, (noise_key, public_key) = people(), dpbt.keys.pair(KEY)
    boosted = jax.jit(boosting.boost)(noise_key, table, recipe, public_key)
    nobody = boosting.without_rows(table)
    rebuilt = jax.jit(boosting.rebuilt)(boosted.transcript, nobody, recipe)[0]
    jax.tree.map(np.testing.assert_array_equal, rebuilt, boosted.hypotheses)


def test_the_best_is_of_as_many_runs_as_were_drawn(monkeypatch):
    """Every number of runs, with every run as the only good one: it wins if it is one of them."""
    table, single = tuned.ballots(7, 9), tuned.voters(0.6, 0.3, 0.2)
    selection = tuning.selection("errors")
    plan, parts = selections.plan(single, selection), choosing._parts(table, selection)
    monkeypatch.setattr(choosing, "_folded", lambda key, run: run)
    monkeypatch.setattr(choosing, "_candidate", lambda key, run, _: run % 3)
    for number in range(1, 11):
        monkeypatch.setattr(choosing, "drawn_count", lambda key, count, k=number: k)
        won = []
        for good in range(22):

            def run(number, *rest, good=good):
                return Transcript({}, {"n": number}, {}), {"score": -50 if number == good else 50}

            monkeypatch.setattr(choosing, "_run", run)
            best = choosing._best_of_all(KEY, parts, single, plan, None)
            won.append(int(best.transcript.rounds["n"]) == good)
        assert won == [good < number for good in range(22)]
