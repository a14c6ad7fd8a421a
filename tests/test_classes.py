"""Several classes: shares, weights of the last bit, and releases of an old key."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes, weighting
from dpbt.common.arithmetic import softmax
from dpbt.common.types import GRID, one_of_classes
from dpbt.data.domains import Boolean, Nominal, Numeric

DOMAIN = {"size": Numeric(0, 1, bins=4), "on": Boolean(), "kind": Nominal(("a", "b"), other="a")}
CLASSES = Nominal(("red", "green", "blue"))


def recipe_of(rows=16, **changes):
    return recipes.oblivious_boost(
        epsilon=3.0,
        domain=DOMAIN,
        target=CLASSES,
        depth=2,
        rows=rows,
        marginals_fraction=0.2,
        scores_fraction=0.2,
        **changes,
    )


def test_shares_of_classes_are_probabilities_whatever_the_scores_are():
    """They are in [0, 1], and those that the model predicts."""
    rng = np.random.default_rng(0)
    ends = np.array([-np.inf, -3e38, -200, -1e-45, 0, 1e-45, 200, 3e38, np.inf], np.float32)
    for classes in (2, 40):
        any_bits = rng.integers(0, 2**32, (classes, 500), np.uint32).view(np.float32)
        usual = rng.normal(0, 5, (classes, 500)).astype(np.float32)
        parts = np.where(np.isnan(any_bits), np.inf, any_bits), usual
        scores = np.concatenate([*parts, rng.choice(ends, (classes, 500))], axis=1)
        shares = np.asarray(jax.jit(softmax)(jnp.asarray(scores)))
        assert shares.min() >= 0  # and none is a NaN
        assert shares.max() <= 1
        np.testing.assert_allclose(shares.sum(axis=0), 1, rtol=1e-6)
        np.testing.assert_allclose(shares[:, 500:1000], softmax(usual), rtol=1e-5, atol=1e-37)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_residuals_of_classes_are_those_of_rounded_steps_in_any_program(norm):
    """To the last bit: each step in float32, of which NumPy has all but exp; and under vmap."""
    scores = jax.random.normal(jax.random.key(0), (2, 10, 999)) * 4
    labels = jax.random.randint(jax.random.key(1), (999,), 0, 10).astype(jnp.uint8)
    table = dpbt.Table(jnp.zeros((999, 1)), labels, jnp.ones(999, bool))
    public = recipe_of().public()
    by = weighting.residuals(one_of_classes(10), norm)

    def weigh(scores):
        return softmax(scores), by.weigh(scores, jnp.float32(9), table, public).weight

    shares, weights = jax.jit(jax.vmap(weigh))(scores)
    cap = np.float32(public.weighting.clip)
    for score, share, weight in zip(np.asarray(scores), shares, weights, strict=True):
        for one, of_lane in zip(jax.jit(weigh)(score), (share, weight), strict=True):
            np.testing.assert_array_equal(one, of_lane)
        bits = (score - score.max(axis=0)) * np.float32(np.log(2))
        powers = np.asarray(jax.jit(jnp.exp)(bits))
        expected = powers * (np.float32(1) / sum(powers))  # in the order of the classes
        np.testing.assert_array_equal(share, expected)
        residual = np.eye(10, dtype=np.float32)[:, np.asarray(labels)] - expected
        size = sum(np.abs(residual)) if norm == "l1" else np.sqrt(sum(residual**2))
        factor = np.minimum(np.float32(1) / size, np.float32(1) / cap)
        whole = np.trunc(residual * factor * np.float32(GRID))
        np.testing.assert_array_equal(weight, whole)


GOLDEN = """
 52555 325 -25145 -26222 -26338 309 51076 -26216 -27477 -650 -26177 53272
 568 2062 312 1845 -1634 -3322 277 -2349 506 779 83 1237
 16585 14788 -15316 -13192 10211 11264 -12804 -12643 -25686 -24462 26380 25471
 -5073 276 -559 -1832 -2336 115 280 -5820 8454 1463 -415 7485
"""
