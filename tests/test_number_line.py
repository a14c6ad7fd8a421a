"""The epilogue of a number: sums of final residuals take the bias off its predictions."""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.data import column_types
from dpbt.data.domains import Numeric
from dpbt.learners.bins import number_line
from dpbt.learners.bins.config import BinsConfig
from dpbt.learners.bins.histograms import TARGET_SITE, sum_row_weights_by_target_bin
from dpbt.learners.bins.target import estimate_location_and_scale
from dpbt.privacy import mechanisms
from dpbt.public_types import GRID
from dpbt.recipes.bins import split_attributes_of_domain
from dpbt.types import Public, as_relation

ROWS = 20_000
DOMAIN = {"x": Numeric(0, 1, bins=16)}
INCOME = Numeric(0, 40)
SLOW_CONSTANTS = (("squared", 0.0), ("poisson", 0.0), ("poisson", 1e-6))
"""Objectives and deltas of constants that the fast tests leave out."""


def bins_config(
    *,
    relation="add_remove",
    noise=mechanisms.rounded_gaussian,
    objective="squared",
    draws_slope=True,
):
    target = column_types.target_with_objective(Numeric(0, 1), objective, None)
    return BinsConfig(
        attributes=split_attributes_of_domain(DOMAIN),
        draws_histograms=False,
        draws_scores=True,
        relation=as_relation(relation),
        noise=noise,
        response=column_types.response_of_target(target),
        target_bins=64,
        draws_slope=draws_slope,
    )


class Noise(NamedTuple):
    """The noise multipliers that the epilogue reads of a learner's params."""

    noise: dict


def public_after_histogram(numbers, config):
    """What is public once the histogram of these positions is released without noise."""
    counts = (
        sum_row_weights_by_target_bin(jnp.asarray(numbers), jnp.full(len(numbers), GRID), 64)
        // GRID
    )
    center, spread, num_rows = jax.jit(estimate_location_and_scale)(counts, jnp.float32(1))
    start = jnp.log(center) if config.response.objective == "poisson" else center
    return Public(
        max_rows=np.float32(len(numbers)),
        cap=np.float32(1),
        weight_params=None,
        prologue={TARGET_SITE: counts},
        initial_score=start,
        unit=spread,
        estimated_rows=num_rows,
    )


def table_of_numbers(numbers):
    count = len(numbers)
    return dpbt.Table(
        jnp.zeros((count, 1), jnp.uint8), jnp.asarray(numbers, jnp.float32), jnp.ones(count, bool)
    )


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize(
    ("noise", "draws_slope"),
    [
        (mechanisms.rounded_gaussian, True),
        (mechanisms.rounded_gaussian, False),
        (mechanisms.discrete_laplace, True),
    ],
    ids=["gaussian", "gaussian-constant", "laplace"],
)
def test_no_row_moves_the_sums_beyond_their_sensitivity(relation, noise, draws_slope):
    """Rows lie at corners, between and beyond; a pair attains the bound except for rounding."""
    config = bins_config(relation=relation, noise=noise, draws_slope=draws_slope)
    public = public_after_histogram(np.full(100, 0.5, np.float32), config)._replace(
        initial_score=jnp.float32(0.5), unit=jnp.float32(0.01)
    )
    clipped_levels = np.linspace(-2, 2, 17)
    residual, deviation = np.array(list(itertools.product(clipped_levels, clipped_levels))).T
    scores = 0.5 + deviation * number_line.DEVIATION_CLIP * 0.01
    rows = table_of_numbers(scores + residual * 0.02)
    sums = jax.vmap(
        lambda target, score: number_line.residual_and_deviation_sums(
            config,
            dpbt.Table(jnp.zeros((1, 1)), target[None], jnp.ones(1, bool)),
            score[None],
            residual_clip=jnp.float32(2),
            public=public,
        )
    )(rows.target, jnp.asarray(scores, jnp.float32))
    sums_of_row = np.asarray(sums, float)
    order = 1 if noise is mechanisms.discrete_laplace else 2
    max_change = np.linalg.norm(sums_of_row, order, axis=1).max()
    if relation == "replace_one":
        max_change = np.linalg.norm(sums_of_row[:, None] - sums_of_row[None], order, axis=2).max()
    bound = number_line.residual_and_deviation_sums_sensitivity(config)
    assert 0.97 * bound <= max_change <= bound


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_one_sum_of_a_constant_has_half_of_the_noise_of_four(relation):
    """Under replace-one it has 1 / sqrt(2) of it, as no two rows move all four sums by 2."""
    one, four = (
        number_line.residual_and_deviation_sums_sensitivity(
            bins_config(relation=relation, draws_slope=draws_slope)
        )
        for draws_slope in (False, True)
    )
    ratio = 2 if relation == "add_remove" else 2**0.5
    assert four / one == pytest.approx(ratio, rel=0.02)


@pytest.mark.parametrize("objective", ["squared", "poisson"])
def test_exact_sums_take_off_a_shift_and_a_wrong_slope(objective):
    """Predictions that are too low and too flat are corrected, as least squares would."""
    rng = np.random.default_rng(0)
    config = bins_config(objective=objective)
    true_means = np.exp(rng.normal(np.log(0.2), 0.3, ROWS)).clip(0, 0.9)
    numbers = (true_means * rng.gamma(20, 1 / 20, ROWS)).clip(0, 1).astype(np.float32)
    public = public_after_histogram(numbers, config)
    center = np.exp(public.initial_score) if objective == "poisson" else public.initial_score
    flat_predictions = np.maximum(
        center + 0.7 * (true_means - true_means.mean()) - 0.02, 0.01
    ).astype(np.float32)
    scores = jnp.asarray(np.log(flat_predictions) if objective == "poisson" else flat_predictions)
    params = Noise({"scores": jnp.float32(1e-3), TARGET_SITE: jnp.float32(1e-3)})

    def correction_line(numbers, scores):
        clip = number_line.choose_residual_clip(config, params, public).clip
        sums = number_line.residual_and_deviation_sums(
            config, table_of_numbers(numbers), scores, residual_clip=clip, public=public
        )
        return number_line.number_correction_epilogue(config).score_line(
            {"scores": sums}, params, public
        )

    slope, intercept = jax.jit(correction_line)(numbers, scores)
    corrected = intercept + slope * (scores - public.initial_score)
    corrected = np.exp(corrected) if objective == "poisson" else np.asarray(corrected)
    assert abs(numbers.mean() - flat_predictions.mean()) > 0.01
    assert corrected.mean() == pytest.approx(numbers.mean(), abs=0.002)
    assert np.mean((corrected - numbers) ** 2) < 0.9 * np.mean((flat_predictions - numbers) ** 2)


def test_noise_that_hides_the_sums_leaves_predictions_as_they_are():
    config = bins_config()
    public = public_after_histogram(
        np.random.default_rng(0).random(ROWS).astype(np.float32), config
    )
    params = Noise({"scores": jnp.float32(1e6), TARGET_SITE: jnp.float32(1.0)})
    sums = {"scores": jnp.asarray([10**6, -(10**6), 10**6, 10**6], jnp.int32)}
    score_line = number_line.number_correction_epilogue(config).score_line
    slope, intercept = jax.jit(score_line)(sums, params, public)
    assert float(slope) == pytest.approx(1, abs=0.01)
    assert float(intercept) == pytest.approx(float(public.initial_score), abs=0.01)


@pytest.mark.parametrize("num_bins", [1, 3])
def test_a_false_count_far_from_all_others_moves_no_prediction(num_bins):
    """Noise of three deviations in empty bins at the end would say a large mean residual."""
    config = bins_config()
    numbers = np.random.default_rng(0).normal(0.1, 0.02, 500).clip(0, 1).astype(np.float32)
    public = public_after_histogram(numbers, config)
    params = Noise({"scores": jnp.float32(5.0), TARGET_SITE: jnp.float32(5.0)})
    counts = public.prologue[TARGET_SITE].at[-num_bins:].add(15)
    public = public._replace(prologue={TARGET_SITE: counts})
    found = jax.jit(lambda: number_line.choose_residual_clip(config, params, public))()
    told = 15 * num_bins / 500 * (1 - 0.1) / float(public.unit)
    assert told > 0.5 * num_bins
    assert abs(float(found.excess)) < 0.1 * told
    assert float(found.excess_error) > 0.01


def test_a_spike_of_zeros_leaves_open_what_noise_hides_far_off():
    """Nine of ten numbers are 0, and the mean lies in one bin whose count is no clear one."""
    config = bins_config()
    numbers = np.where(np.arange(1000) < 910, 0.005, 0.5).astype(np.float32)
    public = public_after_histogram(numbers, config)
    counts = public.prologue[TARGET_SITE]
    deviation = jnp.float32(30.0)
    center, spread, num_rows = jax.jit(estimate_location_and_scale)(counts, deviation)
    public = public._replace(initial_score=center, unit=spread, estimated_rows=num_rows)
    params = Noise({"scores": deviation, TARGET_SITE: deviation})
    found = jax.jit(lambda: number_line.choose_residual_clip(config, params, public))()
    residuals = (numbers - float(center)) / float(spread)
    excess = np.mean(residuals - np.clip(residuals, -found.clip, found.clip))
    error = abs(float(found.excess) - excess)
    assert error > 1
    assert error < 2 * float(found.excess_error)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_mean_prediction_of_a_skewed_number_is_that_of_the_rows(delta):
    """Incomes of a heavy right tail: without the epilogue predictions are far too low."""
    rng = np.random.default_rng(1)
    x = rng.random(ROWS)
    income = np.exp(rng.normal(0.5 + x, 0.9, ROWS)).clip(0, 40)
    table = dpbt.table(DOMAIN, {"x": x}, income, target=INCOME)
    options = {"epsilon": 4.0, "rows": ROWS, "domain": DOMAIN, "delta": delta, "target": INCOME}
    numbers = {"rounds": 16, "step": 0.1, "depth": 3, "attributes_per_tree": (1,)}
    means = []
    for fraction in (0.0, 0.05):
        recipe = recipes.oblivious_boost(**options, **numbers, scores_fraction=fraction)
        model = dpbt.fit(jax.random.key(3), table, recipe)
        means.append(float(np.mean(dpbt.predict(model, table))))
    low, corrected = means
    assert low < income.mean() - 0.1 * income.std()
    assert corrected == pytest.approx(income.mean(), abs=0.04 * income.std())


def test_a_quantile_has_no_sums_of_residuals():
    with pytest.raises(ValueError, match="a quantile have no mean"):
        recipes.oblivious_boost(
            epsilon=1.0,
            rows=100,
            domain=DOMAIN,
            target=INCOME,
            objective="quantile",
            quantile=0.5,
            scores_fraction=0.1,
        )
    quantile_recipe = recipes.auto(
        epsilon=1.0, rows=100, domain=DOMAIN, target=INCOME, objective="quantile", quantile=0.5
    )
    assert "scores" not in quantile_recipe.params.noise


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("epsilon", [0.05, 1.0])
def test_the_mean_of_a_skewed_number_is_within_its_stated_error(epsilon, delta):
    """Over many keys, of a model and of a constant; it is stated at most three times too large."""
    rng = np.random.default_rng(4)
    rows = 2000
    x = rng.random(rows)
    income = np.exp(rng.normal(0.5 + x, 0.9, rows)).clip(0, 40)
    table = dpbt.table(DOMAIN, {"x": x}, income, target=INCOME)
    recipe = recipes.auto(epsilon=epsilon, rows=rows, domain=DOMAIN, delta=delta, target=INCOME)
    models = [dpbt.fit(jax.random.key(number), table, recipe) for number in range(40)]
    assert models[0].predicts_constant == (epsilon < 1)
    means = np.array([np.mean(dpbt.predict(model, table)) for model in models])
    errors = (means - income.mean()) / [model.mean_error for model in models]
    assert np.mean(np.abs(errors) < 2) >= 0.9
    assert np.abs(errors).max() < 4
    assert 0.3 < np.sqrt(np.mean(errors**2)) < 1.3


@pytest.mark.parametrize(
    ("make_recipe", "objective", "delta"),
    [
        (recipes.auto, "squared", 1e-6),
        *(
            pytest.param(make_recipe, *each, marks=pytest.mark.slow)
            for make_recipe in (recipes.auto, recipes.additive)
            for each in SLOW_CONSTANTS
        ),
        pytest.param(recipes.additive, "squared", 1e-6, marks=pytest.mark.slow),
    ],
)
def test_a_model_of_a_weak_signal_is_a_constant_and_says_so(
    make_recipe, objective, delta, tmp_path
):
    """Fifty rows at a tenth of an epsilon: no column can tell anything."""
    rng = np.random.default_rng(5)
    x, number = rng.random(50), rng.poisson(3, 50).astype(float)
    table = dpbt.table(DOMAIN, {"x": x}, number, target=INCOME)
    options = {"epsilon": 0.1, "rows": 50, "domain": DOMAIN, "delta": delta, "target": INCOME}
    model = dpbt.fit(jax.random.key(0), table, make_recipe(**options, objective=objective))
    predicted = np.asarray(dpbt.predict(model, table))
    assert model.predicts_constant
    assert model.transcript is not None
    assert model.transcript.epilogue["scores"].shape == (1,)
    assert np.ptp(predicted) == 0
    assert "predicts a constant" in repr(model)
    assert str(dpbt.explain(model)).startswith("this model predicts a constant")
    assert "Constant: this model predicts a constant" in dpbt.statement(model)

    dpbt.save(model, tmp_path / "model.json")
    loaded = dpbt.load(tmp_path / "model.json")
    assert loaded.predicts_constant
    assert loaded.mean_error == pytest.approx(model.mean_error)
    assert str(dpbt.explain(loaded)) == str(dpbt.explain(model))


def test_a_model_of_classes_states_no_error_of_a_mean():
    rng = np.random.default_rng(0)
    x = rng.random(200)
    table = dpbt.table(DOMAIN, {"x": x}, x > 0.5)
    recipe = recipes.auto(epsilon=1.0, rows=200, domain=DOMAIN)
    model = dpbt.fit(jax.random.key(0), table, recipe)
    assert model.mean_error is None
    assert not model.predicts_constant
