"""LazyBB and LazyBregBoost: plain loops, both calibrations, ledgers, refusals, halfspaces."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.data.splits import satisfied_splits
from dpbt.learners.halfspaces import learner as halfspaces
from dpbt.learners.halfspaces.model import project_to_unit_ball
from dpbt.learners.trees import rule
from dpbt.privacy import boundary, conversions, mechanisms, sensitivity
from dpbt.training import run_keys
from dpbt.types import GRID, REPLACE_ONE
from experiments.common import smooth_bounds
from tests.support.example_tables import random_features, random_table, with_allowed_splits
from tests.support.recipe_noise import scale_by_site
from tests.support.references import lazy_boosting

calibrations = pytest.mark.parametrize("calibration", ["tight", "published"])


def library_choice(key, recipe):
    """The draw the library makes under this key, given the reference's errors."""
    keys = run_keys.derive_phase_keys(run_keys.derive_recipe_key(key, recipe), recipe).rounds
    scale = jnp.float32(scale_by_site(recipe)["rule"])
    sample = jax.jit(mechanisms.exponential.sample)

    def choose(t, errors):
        scores = jnp.asarray(errors.min() - errors, jnp.float32)
        return int(sample(boundary.site_key(keys[t], "rule"), scores, scale))

    return choose


@pytest.mark.parametrize(
    "calibration", ["tight", pytest.param("published", marks=pytest.mark.slow)]
)
def test_same_rules_as_a_plain_loop_under_the_same_noise(small_table, calibration):
    table, key = small_table, jax.random.key(5)
    recipe = recipes.lazybb_rules(epsilon=40, rows=77, rounds=9, calibration=calibration)
    model = dpbt.fit(key, table, recipe)
    chosen, margins = lazy_boosting.lazybb(
        *(np.asarray(array) for array in (satisfied_splits(table), table.target, table.present)),
        rounds=int(recipe.rounds),
        density=float(recipe.weight_params.density),
        rate=float(recipe.weight_params.learning_rate),
        rows=float(recipe.rows),
        bounded=calibration == "tight",
        choose=library_choice(key, recipe),
    )
    np.testing.assert_array_equal(model.releases["rule"], chosen)
    score = np.asarray(dpbt.decision_function(model, table))
    np.testing.assert_array_equal(score, margins * np.where(table.target, 1, -1))


def test_published_noise_is_theorem_4_2_and_twice_the_tight_one():
    """eta = epsilon kappa n / (4 tau): in levels of the cap, scale = GRID kappa n / eta."""
    settings = {"epsilon": 0.7, "rows": 1000, "rounds": 20, "density": 0.3}
    published = recipes.lazybb_rules(calibration="published", **settings)
    eta = 0.7 * 0.3 * 1000 / (4 * 20)
    assert scale_by_site(published)["rule"] == pytest.approx(GRID * 0.3 * 1000 / eta, rel=1e-6)
    tight = recipes.lazybb_rules(**settings)
    assert scale_by_site(published)["rule"] == pytest.approx(
        2 * scale_by_site(tight)["rule"], rel=1e-6
    )


def test_splits_that_are_not_allowed_are_not_chosen(small_table):
    recipe = recipes.lazybb_rules(epsilon=0.1, rows=77, rounds=9)
    model = dpbt.fit(jax.random.key(4), with_allowed_splits(small_table, np.arange(7) < 3), recipe)
    assert int(model.hypotheses.split.max()) == 2


def test_learners_whose_sensitivities_are_of_other_weights_or_neighbours_are_refused():
    """A learner priced for one moving weight would cost more where all weights move."""
    recipe = recipes.lazybb_rules(epsilon=5, rows=77, rounds=6)
    settings = {"rows": 77, "rounds": 6, "relation": "add_remove"}
    smooth = {"weight_update": recipe.weight_update, "weighting": recipe.weight_params, **settings}
    trees = recipes.bdpe(epsilon=5, rows=80)
    with pytest.raises(ValueError, match="depends on its own row alone"):
        recipes.custom(trees.learner, params=trees.params, **smooth)
    with pytest.raises(ValueError, match="the learner's sensitivities are under"):
        recipes.custom(rule.one_rule(REPLACE_ONE), params=recipe.params, **smooth)
    top_down = recipes.lazybb_trees(epsilon=5, rows=77, rounds=6, relation="add_remove")
    with pytest.raises(ValueError, match="assume a total weight"):
        recipes.custom(top_down.learner, params=top_down.params, **settings)


# Halfspaces


def test_the_centre_is_the_weighted_mean_of_signed_rows_in_the_unit_ball():
    table = random_features(0, rows=60, splits=3)
    request = {"epsilon": np.inf, "rows": 60, "rounds": 4}
    recipe = recipes.halfspace_boost(**request, density=0.4, learning_rate=0.8)
    model = dpbt.fit(jax.random.key(0), table, recipe)
    x = np.asarray(table.bins, np.float64)
    x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
    y, margins = np.where(table.target, 1, -1), np.zeros(60)
    for normal in np.asarray(model.hypotheses.normal):
        measure = lazy_boosting.capped_scaling(np.exp(-0.4 * margins), 0.4 * 60)
        np.testing.assert_allclose(normal, (measure * y) @ x / (0.4 * 60), atol=0.01)
        margins += y * (x @ normal)
    np.testing.assert_allclose(dpbt.decision_function(model, table), margins * y, atol=0.02)


@pytest.mark.parametrize("rows", [50, pytest.param(2**17 + 3, marks=pytest.mark.slow)])
def test_sums_of_rows_are_exact_integers(rows):
    """They equal sums in int64, on rows whose int32 sums are as large as possible."""
    rng = np.random.default_rng(rows)
    x = np.where(rng.random((rows, 3)) < 0.9, 0.999, rng.uniform(-1, 1, (rows, 3)))
    x = x.astype(np.float32)
    x[:, 1] *= -1
    x[:, 2] = 0
    x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    present = jnp.ones(rows, bool)
    table = halfspaces.project_rows_of_table_to_ball(dpbt.Table(jnp.asarray(x), present, present))
    signed = np.where(rng.random(rows) < 0.99, GRID, -rng.integers(0, GRID + 1, rows))
    grid_columns = np.trunc(np.asarray(table.columns.T, np.float64) * 2**14).astype(np.int64)
    step = sensitivity.weighted_sum_rounding_step(rows)
    sums = halfspaces.signed_row_sums_in_grid_steps(
        jnp.asarray(signed, jnp.int32), table.columns, jnp.float32(step)
    )
    np.testing.assert_array_equal(sums, (signed @ grid_columns) // int(step))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [140_000, 730_000])
def test_centres_of_neighbours_are_within_the_claim(rows):
    """A row at the cap flips its label, which moves the centre by nearly 2 / (kappa m)."""
    rng = np.random.default_rng(rows)
    x = rng.normal(0, 1, (rows, 4)).astype(np.float32) + np.float32(0.7)
    present = jnp.ones(rows, bool)
    table = halfspaces.project_rows_of_table_to_ball(dpbt.Table(jnp.asarray(x), present, present))
    level = jnp.full(rows, GRID, jnp.int32)  # every row is at the cap
    step = sensitivity.weighted_sum_rounding_step(rows)
    claim = float(sensitivity.rounded_vector_sum_sensitivity(step, num_features=4))

    def sums(level):
        grid_sums = halfspaces.signed_row_sums_in_grid_steps(
            level, table.columns, jnp.float32(step)
        )
        return np.asarray(grid_sums, np.float64) * (step / (GRID * 2.0**14))

    sums_of_table, max_distance = sums(level), 0.0
    for row in range(20):
        max_distance = max(
            max_distance, float(np.linalg.norm(sums_of_table - sums(level.at[row].set(-GRID))))
        )
    assert 1.9 < max_distance <= claim


def test_rows_are_projected_to_the_unit_ball_whatever_they_hold():
    odd_rows = [[np.inf, 0], [np.nan, 0.5], [1e30, 1e30], [0, 0], [1e38, -3e38]]
    rows = np.array([[3, 4], [0.3, 0.4], *odd_rows], np.float32)
    projected = np.asarray(project_to_unit_ball(jnp.asarray(rows)), np.float64)
    half = 0.5**0.5
    expected = [[0.6, 0.8], [0.3, 0.4], [0, 0], [0, 0.5], [half, half], [0, 0], [half, -half]]
    np.testing.assert_allclose(projected, expected, atol=2e-6)
    assert np.linalg.norm(projected, axis=1).max() <= 1


@calibrations
def test_halfspaces_cost_their_squared_step_over_their_noise(calibration):
    settings = {"rows": 500, "rounds": 7, "calibration": calibration}
    recipe_ledger = dpbt.ledger(recipes.halfspace_boost(noise_scale=0.2, **settings))
    step = 2 + 16 * 2 / (127 * 2**14) if calibration == "tight" else 4
    assert recipe_ledger.rho == pytest.approx(7 * step**2 / 2 / (0.25 * 500 * 0.2) ** 2, rel=1e-5)
    by_budget = recipes.halfspace_boost(epsilon=0.8, delta=1e-5, **settings)
    recipe_ledger = dpbt.ledger(by_budget)
    if calibration == "tight":
        assert recipe_ledger.epsilon_at(1e-5, "gdp") == pytest.approx(0.8, rel=1e-5)
    else:  # the paper's own conversion, Lemma 15; the library's would allow 1.5 times this rho
        by_lemma = conversions.published_zcdp_epsilon(recipe_ledger.rho, 1e-5)
        assert by_lemma == pytest.approx(0.8, rel=1e-5)
        assert recipe_ledger.epsilon_at(1e-5, "zcdp") < 0.65


def test_halfspace_boost_refuses_invalid_settings():
    features = random_features(0, rows=20, splits=2)
    recipe = recipes.halfspace_boost(rows=20, epsilon=1, rounds=2)
    table_with_allowed_splits = with_allowed_splits(random_table(0, 20, 2), np.ones(2, bool))
    with pytest.raises(ValueError, match="allowed must be None"):
        dpbt.fit(jax.random.key(0), table_with_allowed_splits, recipe)
    recipe_of_one_feature = recipes.halfspace_boost(rows=20, epsilon=1, rounds=2, features=1)
    with pytest.raises(ValueError, match="at most 1 features"):
        dpbt.fit(jax.random.key(0), features, recipe_of_one_feature)


def test_bounds_on_rows_and_rounds_agree_with_their_formulas():
    num_rounds = int(np.ceil(16 * np.log(2) / 0.0025))  # "approximately 4,000"
    assert smooth_bounds.theorem_24_rounds(0.05, 0.5) == num_rounds
    small, large = (
        smooth_bounds.theorem_30_rows(alpha=0.1, beta=0.1, tau=0.2, epsilon=e, delta=1e-6)
        for e in (1.0, 0.1)
    )
    assert large.privacy == pytest.approx(10 * small.privacy)
    assert large.accuracy == small.accuracy
    assert small.total == small.privacy + small.accuracy
    logs = np.log(10) * np.log(1e6) * np.log(np.log(10) / (0.1 * 0.2**2))  # alpha = beta = 1 / 10
    assert small.privacy == pytest.approx(np.sqrt(logs) / (0.1 * 0.2**2))
    failure = np.log(10) / (0.1 / 4 * 0.2)
    expected = np.log(1 / 0.02) * np.log(10) / 0.02**2 + failure
    assert small.accuracy == pytest.approx(expected)
    margins = np.concatenate([np.full(900, 0.5), np.full(100, -0.1)])
    slack = 3 * np.sqrt(np.log(2 * 100 / 0.05) / 2000)
    expected = 1 - (0.1 + 2 * 0.01 / 0.49 + slack)
    assert smooth_bounds.margin_accuracy(margins, 0.01) == pytest.approx(expected, abs=1e-9)
    with pytest.raises(ValueError, match="advantage"):
        smooth_bounds.theorem_24_rounds(0.6, 0.5)


def test_margins_bound_the_error_as_theorem_28_should_say():
    """d = 4 / (gamma / 16)^2; the print's root is above 1 whatever the rows are."""
    dimension = smooth_bounds.halfspace_fat_dimension(0.2 / 16)
    assert dimension == pytest.approx(25_600)
    n, k, beta = 10**9, 10**7, 0.05
    capacity = dimension * np.log(34 * np.e * n / dimension) * np.log2(578 * n)
    arguments = {"small_margins": k, "rows": n, "dimension": dimension, "beta": beta}
    bound = smooth_bounds.theorem_28_error(**arguments)
    assert bound == pytest.approx(0.01 + np.sqrt(2 / n * (capacity + np.log(80))))
    assert bound < 0.2 < 1 < smooth_bounds.theorem_28_error(**arguments, as_printed=True)
    with pytest.raises(ValueError, match="small_margins"):
        smooth_bounds.theorem_28_error(**{**arguments, "small_margins": n + 1})


def test_privacy_bounds_the_gap_as_theorem_19_says():
    transfer = smooth_bounds.theorem_19_transfer(0.01, 1e-5)
    assert transfer.gap == pytest.approx(0.18)
    assert transfer.failure == pytest.approx(1e-3)
    assert transfer.rows == int(np.ceil(np.log(4e3) / 1e-4))
    with pytest.raises(ValueError, match="epsilon"):
        smooth_bounds.theorem_19_transfer(0.4, 1e-5)
