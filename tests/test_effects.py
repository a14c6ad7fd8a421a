"""Effects and shapes of models: what an average over every row of the domain gives."""

import numpy as np
import pytest

import dpbt
from dpbt.analysis import effects
from dpbt.analysis.effects import attribute_effects, partial_dependence
from tests.pictured import DOMAIN, EVERY, MODELS, N_BINS, VOTES, Saved


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return Saved(tmp_path_factory.mktemp("models"))


def asked(model, of="score"):
    """What the model says of every row of the domain."""
    ask = dpbt.decision_function if of == "score" else dpbt.predict_proba
    return np.asarray(ask(model, EVERY), np.float64)


def mean_by(columns, values):
    """The mean over all rows of the domain with given bins, row by row."""
    sums = np.zeros([N_BINS[column] for column in columns])
    counts = np.zeros_like(sums)
    for row, value in zip(EVERY, values, strict=True):
        place = tuple(row[column] for column in columns)
        sums[place] += value
        counts[place] += 1
    return sums / counts


def total_effects(values):
    """Name -> mean over the other bins of the variance over this one's, row by row."""
    found = {}
    for column, name in enumerate(DOMAIN):
        alike = {}
        for row, value in zip(EVERY, values, strict=True):
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


@pytest.mark.parametrize("name", ["oblivious", "halfspace"])
def test_drawn_rows_estimate_averages_and_tell_their_error(name, monkeypatch):
    model = MODELS[name]
    exact = {e.attribute: e.variance for e in attribute_effects(model, DOMAIN)}
    means = partial_dependence(model, "rank", DOMAIN)
    monkeypatch.setattr(effects, "WHOLE", 0)
    first, second = (attribute_effects(model, DOMAIN, draws=200) for _ in range(2))
    assert first == second
    for effect in first:
        assert abs(effect.variance - exact[effect.attribute]) < 5 * effect.error + 1e-9
        assert effect.error < effect.variance / 4 + 1e-9

    found = partial_dependence(model, "rank", DOMAIN, draws=40)  # of 60
    assert np.all(found.error > 0)
    assert np.all(np.abs(found.values - means.values) < 5 * found.error)
    assert np.all(found.error < np.ptp(asked(model)) / 10)
