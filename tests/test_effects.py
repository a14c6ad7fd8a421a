"""Effects and shapes of models: what an average over every row of the domain gives."""

import dataclasses
from typing import NamedTuple

import jax
import numpy as np
import pytest

import dpbt
from dpbt.data.domains import Boolean, Numeric
from dpbt.owners import column_scores, effects
from dpbt.owners.effects import attribute_effects, partial_dependence
from tests.support.random_models import (
    DOMAIN,
    EVERY_ROW,
    MODELS,
    N_BINS,
    VOTES,
    SavedModels,
    random_model,
)

SHAPES_MODEL = random_model(
    dpbt.recipes.additive(epsilon=5.0, rows=60, domain=DOMAIN), depth=0, domain=DOMAIN
)


@pytest.fixture(scope="module")
def saved_models(tmp_path_factory):
    return SavedModels(tmp_path_factory.mktemp("models"))


def outputs_on_every_row(model, output="score"):
    """The scores or the probabilities of a model for every row of the domain."""
    if output == "score":
        return np.asarray(dpbt.decision_function(model, EVERY_ROW), np.float64)
    shares = np.asarray(dpbt.predict_proba(model, EVERY_ROW), np.float64)
    return shares[:, 1] if shares.shape[1] == 2 else shares


def mean_by(columns, values):
    """The mean over all rows of the domain that share the bins of some columns, row by row."""
    sums = np.zeros([N_BINS[column] for column in columns])
    counts = np.zeros_like(sums)
    for row, value in zip(EVERY_ROW, values, strict=True):
        bins = tuple(row[column] for column in columns)
        sums[bins] += value
        counts[bins] += 1
    return sums / counts


def total_effects(values):
    """For each column the mean, over the other bins, of the variance over its own bins."""
    effects_by_name = {}
    for column, name in enumerate(DOMAIN):
        values_by_other_bins = {}
        for row, value in zip(EVERY_ROW, values, strict=True):
            values_by_other_bins.setdefault(tuple(np.delete(row, column)), []).append(value)
        effects_by_name[name] = np.mean([np.var(group) for group in values_by_other_bins.values()])
    return effects_by_name


@pytest.mark.parametrize("name", ["bdpe", "halfspace"])
def test_partial_dependence_is_the_mean_over_every_row(name):
    model = MODELS[name]
    for output in ("score",) if name in VOTES else ("score", "probability"):
        values = outputs_on_every_row(model, output)
        assert np.ptp(values) > 0
        for columns in ([0], [2], [3, 2]):
            names = [list(DOMAIN)[column] for column in columns]
            dependence = partial_dependence(model, names, DOMAIN, of=output)
            assert dependence.attributes == tuple(names)
            np.testing.assert_allclose(dependence.values, mean_by(columns, values), atol=2e-6)
            assert not dependence.error.any()
    if name in VOTES:
        with pytest.raises(ValueError, match="defines no probability"):
            partial_dependence(model, "age", DOMAIN, of="probability")


@pytest.mark.parametrize("name", ["bdpe", "halfspace"])
def test_effects_are_variances_over_every_row(saved_models, name):
    model_effects = attribute_effects(MODELS[name], DOMAIN)
    expected = total_effects(outputs_on_every_row(MODELS[name]))
    assert max(expected.values()) > 0
    assert {effect.attribute for effect in model_effects} == set(DOMAIN)
    for effect, saved_effect in zip(
        model_effects, attribute_effects(saved_models[name]), strict=True
    ):
        expected_variance = pytest.approx(expected[effect.attribute], rel=1e-5, abs=1e-9)
        assert effect.variance == saved_effect.variance == expected_variance
        assert effect.error == 0
        assert effect.deviation == pytest.approx(effect.variance**0.5)
    variances = [effect.variance for effect in model_effects]
    assert variances == sorted(variances, reverse=True)


@pytest.mark.parametrize("name", ["bdpe", "oblivious", "forest", "rules", "halfspace", "shapes"])
def test_only_hypotheses_that_read_a_column_change_its_scores(name):
    """The part of a score that is left out is the same for all bins of the column."""
    model = SHAPES_MODEL if name == "shapes" else MODELS[name]
    rows = EVERY_ROW[::7]
    scores = column_scores.ColumnScores(model, DOMAIN, rows)
    used = np.arange(len(rows)) % 2 == 0
    for column, num_bins in enumerate(N_BINS):
        changed = np.repeat(rows[None], num_bins, axis=0)
        changed[..., column] = np.arange(num_bins)[:, None]
        model_scores = np.asarray(dpbt.decision_function(model, changed.reshape(-1, len(N_BINS))))
        left_out = model_scores.reshape(num_bins, -1) - scores.scores_by_bin(column)
        np.testing.assert_allclose(left_out, left_out[:1].repeat(num_bins, axis=0), atol=2e-6)
        np.testing.assert_array_equal(
            scores.scores_by_bin(column, used), scores.scores_by_bin(column)[:, used]
        )


@pytest.mark.parametrize("name", ["oblivious", pytest.param("halfspace", marks=pytest.mark.slow)])
def test_drawn_rows_estimate_averages_and_tell_their_error(name, monkeypatch):
    model = MODELS[name]
    exact = {effect.attribute: effect.variance for effect in attribute_effects(model, DOMAIN)}
    means = partial_dependence(model, "rank", DOMAIN)
    monkeypatch.setattr(effects, "MAX_EXACT_COMBINATIONS", 0)
    first, second = (attribute_effects(model, DOMAIN, draws=200) for _ in range(2))
    assert first == second
    for effect in first:
        assert abs(effect.variance - exact[effect.attribute]) < 5 * effect.error + 1e-9
        assert effect.error < effect.variance / 4 + 1e-9

    dependence = partial_dependence(model, "rank", DOMAIN, draws=40)  # of 60
    assert np.all(dependence.error > 0)
    assert np.all(np.abs(dependence.values - means.values) < 5 * dependence.error)
    assert np.all(dependence.error < np.ptp(outputs_on_every_row(model)) / 10)


# Noise alone.


@pytest.mark.parametrize("model_name", ["oblivious", "shapes"])
def test_a_loaded_model_knows_the_noise_of_its_leaves_or_curves(tmp_path, model_name):
    """Marks and bands are those of the model before it was saved, up to what a file rounds."""
    model = SHAPES_MODEL if model_name == "shapes" else MODELS[model_name]
    dpbt.save(model, tmp_path / "model.json", domain=DOMAIN)
    loaded = dpbt.load(tmp_path / "model.json")
    effects_of_loaded = attribute_effects(loaded, noise=True)
    assert min(effect.noise for effect in effects_of_loaded) > 0
    shape = partial_dependence(loaded, "age", noise=True)
    assert shape.noise.min() > 0
    if model_name == "shapes":
        deviation = float(model.hypotheses.noise[0])
        assert shape.noise.mean() == pytest.approx(deviation, rel=0.3)
        return
    for loaded_effect, effect_before in zip(
        effects_of_loaded, attribute_effects(model, DOMAIN, noise=True), strict=True
    ):
        assert loaded_effect.noise == pytest.approx(effect_before.noise, rel=2e-3)
    trees_without_noise = model.hypotheses._replace(noise=0 * model.hypotheses.noise)
    model_without_noise = dataclasses.replace(loaded, hypotheses=trees_without_noise)
    assert effects.models_with_fresh_noise_added(model_without_noise) == []


def test_leaves_that_are_drawn_again_have_the_noise_and_its_correlation(monkeypatch):
    monkeypatch.setattr(effects, "NUM_REDRAWS", 2000)
    model = MODELS["oblivious"]
    trees = model.hypotheses
    leaves = np.stack(
        [redrawn.hypotheses.leaf for redrawn in effects.models_with_fresh_noise_added(model)]
    )
    noise = (leaves - np.asarray(trees.leaf)) / np.asarray(trees.noise)
    np.testing.assert_allclose(noise.std(axis=0), 1, atol=0.08)
    share = float(trees.smoothing[0])
    for first_leaf, second_leaf, num_bits in ((0, 1, 1), (0, 3, 2), (5, 4, 1), (0, 7, 3)):
        correlation = np.mean(noise[:, :, first_leaf] * noise[:, :, second_leaf])
        assert correlation == pytest.approx((2 * share / (1 + share**2)) ** num_bits, abs=0.06)


SMALL_DOMAIN = {"a": Numeric(0, 1, bins=4), "b": Boolean()}


class SmallFit(NamedTuple):
    """A recipe, a table and the model that the recipe learns from it."""

    recipe: dpbt.Recipe
    table: dpbt.Table
    model: dpbt.Model


def fit_small_model(epsilon, rounds=2, **options):
    """A recipe with a prologue and an epilogue by default, a table, and the model of it."""
    rng = np.random.default_rng(0)
    columns = {"a": rng.uniform(0, 1, 200), "b": rng.choice(["0", "1"], 200)}
    table = dpbt.table(SMALL_DOMAIN, columns, columns["a"] > 0.5)
    common = {"epsilon": epsilon, "rows": 200, "rounds": rounds, "depth": 2, "domain": SMALL_DOMAIN}
    recipe = dpbt.recipes.oblivious_boost(**common, **options)
    model = dpbt.fit(jax.random.key(0), table, recipe, jax.random.key(1))
    return SmallFit(recipe, table, model)


@pytest.mark.slow
def test_without_noise_a_model_drawn_again_is_the_model_itself(tmp_path):
    model = fit_small_model(np.inf, scores_fraction=0.1, marginals_fraction=0.1).model
    assert len(model.transcript.prologue) == len(model.transcript.epilogue) == 1
    for redrawn in effects.models_with_fresh_noise_added(model)[::8]:
        for array, expected in zip(redrawn.hypotheses, model.hypotheses, strict=True):
            np.testing.assert_allclose(array, expected, rtol=1e-6)
    model_effects = attribute_effects(model, SMALL_DOMAIN, noise=True)
    assert max(effect.noise for effect in model_effects) < 1e-9 < model_effects[0].variance
    dpbt.save(model, tmp_path / "model.json", domain=SMALL_DOMAIN)
    assert effects.models_with_fresh_noise_added(dpbt.load(tmp_path / "model.json")) == []


@pytest.mark.slow
def test_noise_that_is_drawn_again_moves_a_shape_as_other_keys_do(monkeypatch):
    """No later round corrects the noise of the one round; 400 runs have one public key."""
    recipe, table, model = fit_small_model(2.0, rounds=1)
    monkeypatch.setattr(effects, "NUM_REDRAWS", 400)
    boost_under_keys = jax.jit(
        jax.vmap(lambda key: dpbt.boost(key, table, recipe, jax.random.key(1)).hypotheses)
    )
    runs = boost_under_keys(jax.random.split(jax.random.key(2), 400))
    leaves_under_keys = np.asarray(runs.leaf)[:, 0]
    redrawn_leaves = np.stack(
        [redrawn.hypotheses.leaf[0] for redrawn in effects.models_with_fresh_noise_added(model)]
    )
    redrawn_deviation, deviation_under_keys = (
        np.std(leaves, axis=0) for leaves in (redrawn_leaves, leaves_under_keys)
    )
    assert deviation_under_keys.min() > 0
    # The tolerance is five standard errors of a ratio of deviations.
    np.testing.assert_allclose(redrawn_deviation, deviation_under_keys, rtol=0.2)
    shape = partial_dependence(model, "a", SMALL_DOMAIN, noise=True)
    assert 0 < shape.noise.max() < 2 * deviation_under_keys.max()
