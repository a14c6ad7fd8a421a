"""Previews of accuracy: simulations on made-up or public rows, which read nothing private."""

import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.data.domains import Boolean, Nominal, Numeric, Objective
from dpbt.owners import preview

DOMAIN = {"size": Numeric(0, 1, bins=16), "kind": Nominal(("a", "b", "c")), "on": Boolean()}
NUMBER = Numeric(-10, 30)
QUANTILE = Objective(-10, 30, objective="quantile", level=0.8)


def small(target=None, **more):
    settings = {"epsilon": np.inf, "rows": 3000, "rounds": 40, "depth": 3, "step": 0.3}
    return recipes.oblivious_boost(domain=DOMAIN, target=target, **{**settings, **more})


@pytest.mark.parametrize("target", [None, Nominal(("x", "y", "z")), NUMBER, QUANTILE])
def test_made_up_rows_have_the_signal_that_was_asked_for(target):
    rng = np.random.default_rng(0)
    table, best = preview._draw_training_and_test_rows(
        DOMAIN, target, num_rows=50_000, signal=0.4, public=None, rng=rng
    )
    found, constant = preview._measure_predictions(target, np.asarray(table.target), best)
    assert table.present.sum() == 50_000
    np.testing.assert_array_equal(table.bins.max(axis=0), [15, 3, 1])
    if target is NUMBER:
        assert found == pytest.approx(0.4, abs=0.01)
    assert found > constant + 0.05


def test_a_preview_refuses_a_request_that_it_cannot_simulate():
    for wrong, words in (
        (([], DOMAIN), "recipes of one setting"),
        (([small(epsilon=[1.0, 2.0])], DOMAIN), "recipes of one setting"),
    ):
        with pytest.raises(ValueError, match=words):
            preview.preview(*wrong)
    for more in ({"signal": 1.0}, {"signal": (0.1, 0.0)}, {"repeats": 0}, {"shares": (0.5, 0)}):
        with pytest.raises(ValueError, match="must be"):
            preview.preview([small()], DOMAIN, **more)
    with pytest.raises(ValueError, match="the recipe predicts a number"):
        preview.preview([small(NUMBER)], DOMAIN, shares=(0.5, 0.5))


@pytest.mark.parametrize(
    ("target", "shares"), [(None, (0.9, 0.1)), (Nominal(("x", "y", "z")), (0.2, 0.7, 0.1))]
)
def test_made_up_classes_have_the_shares_that_were_asked_for(target, shares):
    rng = np.random.default_rng(0)
    table, best = preview._draw_training_and_test_rows(
        DOMAIN,
        target,
        num_rows=20_000,
        signal=0.8,
        public=None,
        rng=rng,
        class_shares=np.array(shares),
    )
    labels = np.asarray(table.target).astype(int)
    np.testing.assert_allclose(np.bincount(labels) / len(labels), shares, atol=0.01)
    found, constant = preview._measure_predictions(target, np.asarray(table.target), best)
    assert constant == pytest.approx(max(shares), abs=0.01)
    assert found > constant


def test_a_preview_says_what_to_trust_then_shares_and_each_signal():
    settings = {"repeats": 1, "shares": (3, 1)}
    found = preview.preview([small(rounds=2)], DOMAIN, signal=(0.2, 0.5), **settings)
    first, *others = str(found).splitlines()
    assert first.endswith("give public rows of the same kind (--public)")
    assert any(line.startswith("shares of the classes in these rows: neg") for line in others)
    np.testing.assert_allclose(found.shares, (0.75, 0.25), atol=0.01)
    assert [line.signal for line in found.lines] == [0.2, 0.5]
    assert [line.split()[0] for line in others[-2:]] == ["0.2", "0.5"]
    assert found._repr_html_().startswith("<pre>")


@pytest.mark.slow
@pytest.mark.parametrize("target", [None, NUMBER])
def test_a_preview_finds_the_signal_and_says_that_it_is_a_simulation(target):
    """Of a public table it finds the rule that its labels follow."""
    both = [small(target), small(target, epsilon=0.01)]
    found = preview.preview(both, DOMAIN, signal=0.6, repeats=2)
    (_, _, clear, _, best, constant, _), (_, epsilon, noisy, *_) = found.lines
    assert constant < best - 0.1
    assert clear > best - 0.06
    assert noisy < clear
    assert epsilon == pytest.approx(0.01)
    assert "a simulation on made-up rows" in str(found)
    assert "no private row was read" in str(found)
    assert "for an accuracy to trust, give public rows" in str(found).splitlines()[0]

    rng = np.random.default_rng(0)
    columns = {"size": rng.random(900), "kind": rng.choice(["a", "b"], 900), "on": [True] * 900}
    labels = columns["size"] > 0.5 if target is None else 30 * columns["size"]
    public = dpbt.table(DOMAIN, columns, labels, target=target)
    (line,) = preview.preview([small(target)], DOMAIN, public, repeats=1).lines
    assert line[2] > 0.85
    assert np.isnan(line[4])
