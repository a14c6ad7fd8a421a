"""Boosted greedy trees: they are those of a plain loop under the same noise, one program serves all
traced values, and a fit keeps nothing of its rows.
"""

import copy
import gc
import pickle

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dpbt
from dpbt import losses, recipes
from dpbt.data.splits import satisfied_splits, table_of_splits
from dpbt.data.tables import select_rows
from dpbt.privacy import boundary, mechanisms, variates
from dpbt.training import fit as training_fit
from dpbt.training import round_reports, run_keys
from dpbt.types import UNSPLIT
from tests.support.example_tables import random_table, with_allowed_splits
from tests.support.recipe_noise import noise_multiplier, scale_by_site
from tests.support.references import greedy_trees
from tests.support.slow_cases import mark_slow_cases_except

selection_noise = jax.jit(mechanisms.selection_noise, static_argnums=1)
discrete_laplace = jax.jit(mechanisms.discrete_laplace.sample)
BOOST, REPLAY = jax.jit(dpbt.boost), jax.jit(dpbt.replay)


def noise_of_library(key, recipe):
    """The function that gives the reference the noise that the library draws under this key."""
    keys = run_keys.derive_phase_keys(run_keys.derive_recipe_key(key, recipe), recipe).rounds

    def noise(t, site, shape, scale):
        site_key = boundary.site_key(keys[t], site)
        if site.startswith("split"):
            with variates.double_precision():
                waiting_times = selection_noise(site_key, shape)
                return [-np.log(np.asarray(times)) for times in waiting_times]
        value = jnp.zeros(shape, jnp.int32)
        return np.asarray(discrete_laplace(site_key, value, jnp.float32(scale)))

    return noise


def settings_of_reference(recipe, alpha):
    """The settings of a recipe as the reference takes them."""
    params, scales, depth = recipe.params, scale_by_site(recipe), len(recipe.params.settings.alpha)
    scalars = ("link_alpha", "clip", "zeta", "step", "step_clip", "smoothing")
    grid = float(getattr(params, "leaf_step", 1))
    return {
        "rounds": int(recipe.rounds),
        "depth": depth,
        "tight": recipe.calibration == "tight",
        "loss": recipe.weight_update.loss(0.5).name,
        "alpha": alpha,
        "split_epsilon": [float(1 / noise_multiplier(recipe, f"split_{k}")) for k in range(depth)],
        "rows": float(recipe.rows),
        "leaf_scale": scales["leaf"] * grid,
        "error_scale": scales.get("error_0", 0.0),
        "leaf_step": grid,
        **{name: float(getattr(params.settings, name)) for name in scalars},
    }


CASES = {
    "tight-objective": {"alpha": "objective", "step_clip": 0.5},
    "tight-square": {"alpha": 1.0, "criterion": losses.square},
    "published-objective": {"alpha": "objective", "calibration": "published", "step_clip": 1e-6},
}


@pytest.mark.parametrize("case", mark_slow_cases_except(CASES, fast=["published-objective"]))
def test_trees_are_those_of_a_plain_loop_under_the_same_noise(small_table, case):
    recipe = recipes.bdpe(epsilon=30, rows=100, rounds=4, depth=2, clip=3.0, **CASES[case])
    key, settings = jax.random.key(3), settings_of_reference(recipe, CASES[case]["alpha"])
    model = dpbt.fit(key, small_table, recipe)
    rows = satisfied_splits(small_table), small_table.target, small_table.present
    expected = greedy_trees.boost(*map(np.asarray, rows), settings, noise_of_library(key, recipe))
    np.testing.assert_array_equal(model.hypotheses.split, [heap for heap, _ in expected])
    np.testing.assert_allclose(
        model.hypotheses.leaf, [leaves for _, leaves in expected], rtol=2e-3, atol=2e-3
    )


@pytest.mark.slow
def test_without_privacy_pure_nodes_stay_and_empty_leaves_follow_their_parents():
    splits = np.array([[0, 0], [0, 1], [1, 0], [1, 0], [1, 0]], bool)
    table = table_of_splits(splits, np.array([0, 0, 1, 1, 0], bool), np.ones(5, bool))
    recipe = recipes.bdpe(epsilon=np.inf, rows=5, rounds=1, depth=2, alpha=1.0)
    model = dpbt.fit(jax.random.key(0), table, recipe)
    assert model.hypotheses.split[0].tolist() == [0, UNSPLIT, 0]
    leaf = np.asarray(model.hypotheses.leaf[0])
    assert leaf[0] == leaf[1] < 0
    assert leaf[2] == pytest.approx(leaf[3], rel=1e-4)
    assert np.all(np.asarray(dpbt.predict(model, table)) == [False, False, True, True, True])


def test_one_program_serves_every_traced_value(small_table):
    def fit(table=small_table, **changes):
        settings = {"epsilon": 1.0, "rows": 90, "rounds": 5, "depth": 1, **changes}
        dpbt.fit(jax.random.key(1), table, recipes.bdpe(**settings))

    fit()
    num_programs = training_fit.num_compiled_programs()
    fit(epsilon=np.inf, beta_tree=0.3, clip=2.0, zeta=0.01, pi=0.5)
    fit(epsilon=0.2, smoothing=0.0, error_fraction=0.5, rows=100, step_clip=1e-6)
    fit(small_table._replace(present=small_table.present.at[:9].set(False)))
    assert training_fit.num_compiled_programs() == num_programs
    for alpha in (0.2, 0.9, optax.linear_schedule(1.0, 0.1, 2)):
        fit(alpha=alpha)
    assert training_fit.num_compiled_programs() == num_programs + 1


def test_releases_depend_on_no_order_of_rows_and_on_no_absent_rows(small_table):
    """Sums of integers are exact in any order, and absent rows add nothing."""
    recipe = recipes.bdpe(epsilon=1.0, rows=90, rounds=5, depth=2, criterion="gini")
    order = np.arange(100) % 80
    padded = select_rows(small_table, order)
    padded = padded._replace(present=padded.present & (np.arange(100) < 80))
    expected = dpbt.fit(jax.random.key(1), small_table, recipe).transcript
    for table in (select_rows(small_table, np.random.default_rng(0).permutation(80)), padded):
        transcript = dpbt.fit(jax.random.key(1), table, recipe).transcript
        chex.assert_trees_all_equal(transcript, expected)


MALFORMED_TABLES = {
    "numbers without splits": (
        lambda table: {"bins": table.bins.astype(jnp.float32), "splits": None},
        "trees ask splits of uint8",
    ),
    "numbers with splits": (
        lambda table: {"bins": table.bins.astype(jnp.float32)},
        "uint8 bins needs splits",
    ),
    "bins without splits": (lambda table: {"splits": None}, "uint8 bins needs splits"),
    "whole numbers as target": (
        lambda table: {"target": table.target.astype(int)},
        "table.target must be bool",
    ),
    "bins of one dimension": (
        lambda table: {"bins": table.bins[:, 0]},
        "uint8, or float32 numbers, of rank 2",
    ),
    "fewer labels than rows": (
        lambda table: {"target": table.target[:-1]},
        "must have the same rows, and do not",
    ),
    "fewer features than splits name": (
        lambda table: {"bins": table.bins[:, :6]},
        "splits.feature must number",
    ),
    "fewer lower bins than splits": (
        lambda table: {"splits": table.splits._replace(low=table.splits.low[:-1])},
        "splits.low must be uint8",
    ),
    "an attribute below 0": (
        lambda table: {"splits": table.splits._replace(attribute=table.splits.attribute - 1)},
        "splits.attribute",
    ),
    "more rows than the bound": (
        lambda table: select_rows(table, np.arange(160) % 80)._asdict(),
        "at most rows=80",
    ),
}
"""(table -> changed fields, the error) for each."""


@pytest.mark.parametrize("case", MALFORMED_TABLES)
def test_a_malformed_table_is_refused(small_table, case):
    changed_fields, words = MALFORMED_TABLES[case]
    malformed = small_table._replace(**changed_fields(small_table))
    with pytest.raises(ValueError, match=words):
        dpbt.fit(jax.random.key(0), malformed, recipes.bdpe(epsilon=1, rows=80))


@pytest.mark.slow
def test_models_and_recipes_say_what_to_keep_instead_of_a_pickle(small_table):
    recipe = recipes.bdpe(epsilon=1, rows=90, rounds=5, depth=2)
    model = dpbt.fit(jax.random.key(0), small_table, recipe)
    learner = recipe.learner
    for value in (model, recipe, learner, learner.round, learner.kind, recipe.weight_update):
        with pytest.raises(TypeError, match=r"holds functions .*; keep"):
            pickle.dumps(value)
        assert copy.deepcopy(value) is copy.copy(value) is value
    for value in (dpbt.ledger(recipe), jax.tree.map(np.asarray, model.hypotheses)):
        chex.assert_trees_all_equal(pickle.loads(pickle.dumps(value)), value)


@pytest.mark.slow
def test_rounds_are_traced_and_max_rounds_changes_nothing(small_table):
    """Two rounds release the same in a program of at most 2 rounds and in one of 5, where zeros
    follow; one program serves all numbers of rounds.
    """
    settings = {"epsilon": 4.0, "rows": 90, "depth": 2}
    alone = recipes.bdpe(rounds=2, **settings)
    several = recipes.bdpe(rounds=[2, 5], **settings)
    assert several.max_rounds == 5
    expected = dpbt.fit(jax.random.key(0), small_table, alone)
    num_programs = training_fit.num_compiled_programs()
    for index, rounds in enumerate((2, 5)):
        recipe = recipes.setting(several, index)
        model = dpbt.fit(jax.random.key(0), small_table, recipe)
        assert dpbt.ledger(recipe).epsilon == pytest.approx(4.0, rel=1e-5)
        for site, release in model.releases.items():
            assert release.shape[0] == 5
            assert not np.any(release[rounds:])
            if rounds == 2:
                np.testing.assert_allclose(release[:2], expected.releases[site], rtol=1e-6)
        for value in REPLAY(model.transcript, small_table, recipe)[0].values():
            assert not np.any(value[rounds:])
            assert np.all(value[:rounds] < 0)
    assert training_fit.num_compiled_programs() <= num_programs + 1


@pytest.mark.slow
def test_splits_that_are_not_allowed_are_never_chosen(small_table):
    allowed = np.array([True, False, True, False, False, False, False])
    recipe = recipes.bdpe(epsilon=0.01, rows=90, rounds=5, depth=2)
    model = dpbt.fit(jax.random.key(0), with_allowed_splits(small_table, allowed), recipe)
    assert set(np.unique(model.hypotheses.split)) == {0, 2}
    with pytest.raises(ValueError, match=r"splits.allowed must be bool\[7\]"):
        dpbt.fit(jax.random.key(0), with_allowed_splits(small_table, allowed[:3]), recipe)


@pytest.mark.slow
def test_a_fit_keeps_no_table():
    """A cache that holds a traced round would hold the rows that the round reads."""
    recipe = recipes.bdpe(rows=43, rounds=1, depth=1, epsilon=1.0)

    def tables_alive():
        gc.collect()
        return sum(array.shape in ((43, 5), (5, 43)) for array in jax.live_arrays())

    before = tables_alive()
    dpbt.boost(jax.random.key(0), random_table(0, 43, 5), recipe)
    assert tables_alive() == before


@pytest.mark.slow
def test_a_run_whose_progress_is_reported_is_the_same_run(small_table, monkeypatch):
    """Only long runs report progress. Their rounds are reported in order, and no callback stays."""
    monkeypatch.setattr(training_fit, "MAX_ROW_ROUNDS_OF_SHORT_RUN", 0)
    recipe = recipes.bdpe(epsilon=1.0, rows=80, rounds=3, depth=1, criterion="gini")
    key, reports = jax.random.key(1), []
    reported = dpbt.fit(key, small_table, recipe, progress=reports.append)
    assert [(state.stage, state.done, state.total) for state in reports] == [
        ("rounds", done, 3) for done in range(3)
    ]
    chex.assert_trees_all_equal(reported, dpbt.fit(key, small_table, recipe))
    assert not round_reports._reporters
