"""The runs of a choice: how many, side by side, under which keys, and which of them is released."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import boosting, recipes, tuning
from dpbt.base import Transcript
from dpbt.privacy.keys import ResearchKeyWarning
from dpbt.tuning import choosing, selections
from tests import tuned
from tests.test_tuning import DOMAIN, KEY, people


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResearchKeyWarning)
        yield


def test_the_best_run_has_the_largest_score():
    """Ties go to the first run, and lanes that fill a batch up do not count."""
    plan = selections.plan(tuned.voters(0.6), tuning.selection("accuracy"))
    release = {"score": jnp.asarray([5, 2, 2, 9, 0])}
    found = Transcript({}, {"n": jnp.arange(5)}, {}), release
    batch = choosing._best_of_batch(found, [7, 8, 9, 6], plan)
    assert (batch.value, batch.candidate) == (-2.0, 8)
    assert (int(batch.transcript.rounds["n"]), int(batch.release["score"])) == (1, 2)


def test_every_run_has_a_key_of_its_own(monkeypatch):
    """Equal runs would make their number worth nothing; no test of the result would see it."""
    table, single = tuned.ballots(7, 9), tuned.voters(0.6, 0.3)
    selection = tuning.selection("accuracy")
    plan, seen = selections.plan(single, selection), []

    def spied(keys, *rest):
        seen.append(np.asarray(jax.random.key_data(keys)))
        return Transcript({}, {"n": np.arange(len(keys))}, {}), {"score": np.zeros(len(keys))}

    monkeypatch.setattr(choosing, "_runs", spied)
    chosen, parts = [0, 1, 1] * 7, choosing._parts(table, selection)
    list(choosing._all_runs(KEY, chosen, parts, single, plan, None))
    assert {len(keys) for keys in seen} == {choosing.LANES}
    assert len(np.unique(np.concatenate(seen), axis=0)) == 21  # others fill batches up
    drawn = [choosing._candidates(key, 64, 5) for key in jax.random.split(KEY, 4)]
    assert all(set(each) == set(range(5)) for each in drawn)
    assert drawn[0][:16] == choosing._candidates(jax.random.split(KEY, 4)[0], 16, 5)


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
    selection = tuning.selection("accuracy")
    plan, parts = selections.plan(single, selection), choosing._parts(table, selection)
    monkeypatch.setattr(choosing, "_folded", lambda key, numbers: np.asarray(numbers))
    monkeypatch.setattr(choosing, "_candidates", lambda key, number, _: ([0, 1, 2] * 8)[:number])
    for number in range(1, 11):
        monkeypatch.setattr(choosing, "drawn_count", lambda key, count, k=number: k)
        won = []
        for good in range(22):

            def run(numbers, *rest, good=good):
                runs = Transcript({}, {"n": numbers}, {})
                return runs, {"score": np.where(numbers == good, -50, 50)}

            monkeypatch.setattr(choosing, "_runs", run)
            best = choosing._best_of_all(KEY, parts, single, plan, None)
            won.append(int(best.transcript.rounds["n"]) == good)
        assert won == [good < number for good in range(22)]
