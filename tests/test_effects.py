"""Effects and shapes of models: what an average over every row of the domain gives."""

import dataclasses

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
def saved(tmp_path_factory):
    return SavedModels(tmp_path_factory.mktemp("models"))


def asked(model, of="score"):
    """What the model says of every row of the domain."""
    if of == "score":
        return np.asarray(dpbt.decision_function(model, EVERY_ROW), np.float64)
    shares = np.asarray(dpbt.predict_proba(model, EVERY_ROW), np.float64)
    return shares[:, 1] if shares.shape[1] == 2 else shares


def mean_by(columns, values):
    """The mean over all rows of the domain with given bins, row by row."""
    sums = np.zeros([N_BINS[column] for column in columns])
    counts = np.zeros_like(sums)
    for row, value in zip(EVERY_ROW, values, strict=True):
        place = tuple(row[column] for column in columns)
        sums[place] += value
        counts[place] += 1
    return sums / counts


def total_effects(values):
    """Name -> mean over the other bins of the variance over this one's, row by row."""
    found = {}
    for column, name in enumerate(DOMAIN):
        alike = {}
        for row, value in zip(EVERY_ROW, values, strict=True):
            alike.setdefault(tuple(np.delete(row, column)), []).append(value)
        found[name] = np.mean([np.var(group) for group in alike.values()])
    return found


@pytest.mark.parametrize("name", ["bdpe", "halfspace"])
def test_partial_dependence_is_the_mean_over_every_row(name):
    model = MODELS[name]
    for of in ("score",) if name in VOTES else ("score", "probability"):
        values = asked(model, of)
        assert np.ptp(values) > 0
        for columns in ([0], [2], [3, 2]):
            names = [list(DOMAIN)[column] for column in columns]
            found = partial_dependence(model, names, DOMAIN, of=of)
            assert found.attributes == tuple(names)
            np.testing.assert_allclose(found.values, mean_by(columns, values), atol=2e-6)
            assert not found.error.any()
    if name in VOTES:
        with pytest.raises(ValueError, match="defines no probability"):
            partial_dependence(model, "age", DOMAIN, of="probability")


@pytest.mark.parametrize("name", ["bdpe", "halfspace"])
def test_effects_are_variances_over_every_row(saved, name):
    found = attribute_effects(MODELS[name], DOMAIN)
    expected = total_effects(asked(MODELS[name]))
    assert max(expected.values()) > 0
    assert {effect.attribute for effect in found} == set(DOMAIN)
    for effect, of_saved in zip(found, attribute_effects(saved[name]), strict=True):
        known = pytest.approx(expected[effect.attribute], rel=1e-5, abs=1e-9)
        assert effect.variance == of_saved.variance == known
        assert effect.error == 0
        assert effect.deviation == pytest.approx(effect.variance**0.5)
    variances = [effect.variance for effect in found]
    assert variances == sorted(variances, reverse=True)


@pytest.mark.parametrize("name", ["bdpe", "oblivious", "forest", "rules", "halfspace", "shapes"])
def test_only_hypotheses_that_read_a_column_change_its_scores(name):
    """What they leave out is the same for all bins of the column."""
    model = SHAPES_MODEL if name == "shapes" else MODELS[name]
    rows = EVERY_ROW[::7]
    scores = column_scores.ColumnScores(model, DOMAIN, rows)
    used = np.arange(len(rows)) % 2 == 0
    for column, num_bins in enumerate(N_BINS):
        changed = np.repeat(rows[None], num_bins, axis=0)
        changed[..., column] = np.arange(num_bins)[:, None]
        whole = np.asarray(dpbt.decision_function(model, changed.reshape(-1, len(N_BINS))))
        left_out = whole.reshape(num_bins, -1) - scores.scores_by_bin(column)
        np.testing.assert_allclose(left_out, left_out[:1].repeat(num_bins, axis=0), atol=2e-6)
        np.testing.assert_array_equal(
            scores.scores_by_bin(column, used), scores.scores_by_bin(column)[:, used]
        )


@pytest.mark.parametrize("name", ["oblivious", pytest.param("halfspace", marks=pytest.mark.slow)])
def test_drawn_rows_estimate_averages_and_tell_their_error(name, monkeypatch):
    model = MODELS[name]
    exact = {e.attribute: e.variance for e in attribute_effects(model, DOMAIN)}
    means = partial_dependence(model, "rank", DOMAIN)
    monkeypatch.setattr(effects, "MAX_EXACT_COMBINATIONS", 0)
    first, second = (attribute_effects(model, DOMAIN, draws=200) for _ in range(2))
    assert first == second
    for effect in first:
        assert abs(effect.variance - exact[effect.attribute]) < 5 * effect.error + 1e-9
        assert effect.error < effect.variance / 4 + 1e-9

    found = partial_dependence(model, "rank", DOMAIN, draws=40)  # of 60
    assert np.all(found.error > 0)
    assert np.all(np.abs(found.values - means.values) < 5 * found.error)
    assert np.all(found.error < np.ptp(asked(model)) / 10)


# Noise alone.


@pytest.mark.parametrize("model_name", ["oblivious", "shapes"])
def test_a_loaded_model_knows_the_noise_of_its_leaves_or_curves(tmp_path, model_name):
    """Marks and bands are those of the model before it was saved, up to what a file rounds."""
    model = SHAPES_MODEL if model_name == "shapes" else MODELS[model_name]
    dpbt.save(model, tmp_path / "model.json", domain=DOMAIN)
    loaded = dpbt.load(tmp_path / "model.json")
    of_loaded = attribute_effects(loaded, noise=True)
    assert min(effect.noise for effect in of_loaded) > 0
    shape = partial_dependence(loaded, "age", noise=True)
    assert shape.noise.min() > 0
    if model_name == "shapes":
        deviation = float(model.hypotheses.noise[0])
        assert shape.noise.mean() == pytest.approx(deviation, rel=0.3)
        return
    for one, other in zip(of_loaded, attribute_effects(model, DOMAIN, noise=True), strict=True):
        assert one.noise == pytest.approx(other.noise, rel=2e-3)
    quiet = model.hypotheses._replace(noise=0 * model.hypotheses.noise)
    quiet = dataclasses.replace(loaded, hypotheses=quiet)
    assert effects.models_with_redrawn_noise(quiet) == []


def test_leaves_that_are_drawn_again_have_the_noise_and_its_correlation(monkeypatch):
    monkeypatch.setattr(effects, "NUM_REDRAWS", 2000)
    model = MODELS["oblivious"]
    trees = model.hypotheses
    again = np.stack([each.hypotheses.leaf for each in effects.models_with_redrawn_noise(model)])
    noise = (again - np.asarray(trees.leaf)) / np.asarray(trees.noise)
    np.testing.assert_allclose(noise.std(axis=0), 1, atol=0.08)
    share = float(trees.smoothing[0])
    for one, other, num_bits in ((0, 1, 1), (0, 3, 2), (5, 4, 1), (0, 7, 3)):
        found = np.mean(noise[:, :, one] * noise[:, :, other])
        assert found == pytest.approx((2 * share / (1 + share**2)) ** num_bits, abs=0.06)


ONE = {"a": Numeric(0, 1, bins=4), "b": Boolean()}


def fitted(epsilon, rounds=2, **options):
    """A recipe with a prologue and an epilogue by default, a table, and the model of it."""
    rng = np.random.default_rng(0)
    columns = {"a": rng.uniform(0, 1, 200), "b": rng.choice(["0", "1"], 200)}
    table = dpbt.table(ONE, columns, columns["a"] > 0.5)
    common = {"epsilon": epsilon, "rows": 200, "rounds": rounds, "depth": 2, "domain": ONE}
    recipe = dpbt.recipes.oblivious_boost(**common, **options)
    return recipe, table, dpbt.fit(jax.random.key(0), table, recipe, jax.random.key(1))


@pytest.mark.slow
def test_without_noise_a_model_drawn_again_is_the_model_itself(tmp_path):
    *_, model = fitted(np.inf, scores_fraction=0.1, marginals_fraction=0.1)
    assert len(model.transcript.prologue) == len(model.transcript.epilogue) == 1
    for again in effects.models_with_redrawn_noise(model)[::8]:
        for array, own in zip(again.hypotheses, model.hypotheses, strict=True):
            np.testing.assert_allclose(array, own, rtol=1e-6)
    found = attribute_effects(model, ONE, noise=True)
    assert max(effect.noise for effect in found) < 1e-9 < min(e.variance for e in found[:1])
    dpbt.save(model, tmp_path / "model.json", domain=ONE)
    assert effects.models_with_redrawn_noise(dpbt.load(tmp_path / "model.json")) == []


@pytest.mark.slow
def test_noise_that_is_drawn_again_moves_a_shape_as_other_keys_do(monkeypatch):
    """Of one round, whose noise no later round takes back; in 400 runs under one public key."""
    recipe, table, model = fitted(2.0, rounds=1)
    monkeypatch.setattr(effects, "NUM_REDRAWS", 400)
    ran = jax.jit(
        jax.vmap(lambda key: dpbt.boost(key, table, recipe, jax.random.key(1)).hypotheses)
    )
    runs = ran(jax.random.split(jax.random.key(2), 400))
    leaf = np.asarray(runs.leaf)[:, 0]
    again = np.stack([each.hypotheses.leaf[0] for each in effects.models_with_redrawn_noise(model)])
    ours, theirs = (np.std(each, axis=0) for each in (again, leaf))
    assert theirs.min() > 0
    np.testing.assert_allclose(
        ours, theirs, rtol=0.2
    )  # five standard errors of a deviation's ratio
    shape = partial_dependence(model, "a", ONE, noise=True)
    assert 0 < shape.noise.max() < 2 * theirs.max()
