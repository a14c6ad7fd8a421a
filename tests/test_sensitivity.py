"""Sensitivities of split scores: no neighbour exceeds them, some neighbour attains them, and the
published ones are the paper's.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbt import losses
from dpbt.learners.trees.split_scores import negated_child_perspectives
from dpbt.privacy import mechanisms, sensitivity, variates
from dpbt.types import GRID

LOSSES = [losses.matsushita, losses.square, losses.log, losses.zero_one, losses.m_alpha(0.3)]
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)


@pytest.mark.parametrize("m", [1, 10, 1000])
def test_published_bounds_are_theorem_3_and_corollary_7(m):
    def published_bound(loss):
        return float(sensitivity.published_split_sensitivity(loss, m))

    assert published_bound(losses.matsushita) == pytest.approx(max(3, 1 + 2 * np.sqrt(m)))
    assert published_bound(losses.zero_one) == pytest.approx(3)
    assert published_bound(losses.m_alpha(0.3)) == pytest.approx(
        3 + 2 * 0.3 * (np.sqrt(m) - 1), rel=1e-5
    )
    lemma_5 = max(3, 1 + (1 + np.log(m + 1)) / np.log(2))
    assert published_bound(losses.log) <= lemma_5 + 1e-3


@each_loss
def test_a_row_among_many_of_the_other_class_attains_the_largest_score_change(loss):
    m = 4000
    change = float(loss.perspective(jnp.float32(1), jnp.float32(m - 1)))
    bound = float(sensitivity.max_score_change(loss, m))
    assert 0.99 * bound <= change <= bound


@each_loss
@given(data=st.data())
def test_a_row_lowers_no_split_score_and_raises_each_by_at_most_the_sensitivity(loss, data):
    """Adding a row changes the summed perspectives of both children of every split by something in
    [0, f(1, m)].
    """
    rows = data.draw(st.integers(1, 30))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    side, label = rng.random((rows, 12)) < 0.5, rng.random(rows) < 0.5
    level = rng.integers(1, GRID + 1, rows)

    def scores(count):
        products = np.stack(
            [(level[:count] * (label[:count] == c)) @ side[:count] for c in (False, True)]
        )[None]
        totals = np.array([[(level[:count] * (label[:count] == c)).sum() for c in (False, True)]])
        args = jnp.asarray(products, jnp.int32), jnp.asarray(totals, jnp.int32)
        with variates.double_precision():
            return np.asarray(negated_child_perspectives(loss, *args))[0]

    rise = scores(rows - 1) - scores(rows)
    assert np.all(rise >= -1e-9)
    assert np.all(rise <= float(sensitivity.tight_split_sensitivity(loss, rows)))


def random_candidates(m, rng, count=20_000):
    """Class weights of two nodes with up to m rows, and of candidates' right sides in them.

    Each node has one row of class 1. A third of its candidates sets apart that row, or all rows of
    class 0, up to a few grid units. The others are of any size.
    """
    totals = np.array([[(m - 1) * GRID, 0], [(m // 2) * GRID, (m - 1 - m // 2) * GRID]])
    size = rng.random((2, 2, count)) ** rng.integers(0, 12, (2, 2, count))
    products = np.floor(size * totals[:, :, None]).astype(np.int64)
    near = rng.integers(0, 3 * GRID, (2, 2, count // 3))
    products[:, :, : count // 3] = np.minimum(near, totals[:, :, None])
    products[:, 0, : count // 6] = totals[:, :1] - products[:, 0, : count // 6]
    return totals, products


def ranges_of_score_changes(scores_of, m, seed=0):
    """f64[nodes]: the range of the change of all scores when a row of class 1 comes.

    The row is on the right side of every other candidate.
    """
    totals, products = random_candidates(m, np.random.default_rng(seed))
    scores = []
    for weight_of_row in (0, GRID):
        row_products, row_totals = products.copy(), totals.copy()
        row_products[:, 1, ::2] += weight_of_row
        row_totals[:, 1] += weight_of_row
        high, low = scores_of(
            jnp.asarray(row_products, jnp.int32), jnp.asarray(row_totals, jnp.int32)
        )
        scores.append(np.asarray(high, np.float64) + np.asarray(low, np.float64))
    without_row, with_row = scores
    change = without_row - with_row
    return change.max(axis=1) - change.min(axis=1)


@each_loss
@pytest.mark.parametrize("m", [1000, 2**24])
def test_scores_of_many_rows_move_by_no_more_than_the_bound(loss, m):
    """Both neighbours' scores as a compiled program holds them, up to the most rows there are."""

    @jax.jit
    def scores_of(products, totals):
        with variates.double_precision():
            return mechanisms.behind_best(negated_child_perspectives(loss, products, totals))

    bound = float(sensitivity.tight_split_sensitivity(loss, m))
    assert 0.999 * bound <= ranges_of_score_changes(scores_of, m).max() <= bound
    assert bound <= (1 + 1e-5) * float(sensitivity.max_score_change(loss, m))


def test_the_search_for_large_changes_notices_scores_in_float32():
    loss = losses.square

    def scores_of(products, totals):
        right, left = (
            counts.astype(jnp.float32) / GRID
            for counts in (products, totals[:, :, None] - products)
        )
        rounded = loss.perspective(right[:, 1], right[:, 0]) + loss.perspective(
            left[:, 1], left[:, 0]
        )
        return mechanisms.behind_best(-rounded)

    assert ranges_of_score_changes(scores_of, 2**24).max() > 1.05 * float(
        sensitivity.tight_split_sensitivity(loss, 2**24)
    )


@each_loss
@pytest.mark.parametrize("m", [1, 1000, 2**24])
def test_no_rounding_puts_the_sensitivity_below_its_exact_value(loss, m):
    """The exact value of f(1, m) is computed in long doubles, and the library's in float32."""
    w1, w0 = np.longdouble(1), np.longdouble(m)
    exact = {
        "square": 4 * w1 * w0 / (w1 + w0),
        "zero_one": 2 * w1,
        "matsushita": 2 * np.sqrt(w0),
        "log": (np.log1p(w0) + w0 * np.log1p(1 / w0)) / np.log(np.longdouble(2)),
        "m_alpha": np.longdouble(0.6) * np.sqrt(w0) + np.longdouble(1.4),
    }[loss.name]
    assert exact <= float(sensitivity.tight_split_sensitivity(loss, m)) <= (1 + 1e-5) * exact


@given(
    counts=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=6),
    leaf=st.integers(0, 5),
    label=st.integers(0, 1),
)
def test_a_row_raises_the_error_weight_by_at_most_its_sensitivity_and_never_lowers_it(
    counts, leaf, label
):
    counts = np.array(counts)
    counts_with_row = counts.copy()
    counts_with_row[leaf % len(counts), label] += 1
    change = counts_with_row.min(axis=1).sum() - counts.min(axis=1).sum()
    assert 0 <= change <= sensitivity.ERROR_WEIGHT.l1
