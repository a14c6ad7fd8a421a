"""Sensitivities: never exceeded by neighbours, attained by some, and the paper's constants."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbt import losses
from dpbt.base import ADD_REMOVE, GRID, REPLACE_ONE, relation
from dpbt.learners import greedy_tree
from dpbt.privacy import sensitivity

LOSSES = [losses.matsushita, losses.square, losses.log, losses.zero_one, losses.m_alpha(0.3)]
each = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)


@pytest.mark.parametrize("m", [1, 2, 10, 1000, 50_000])
def test_perspective_bounds_in_closed_form(m):
    def bound(loss):
        return float(sensitivity.perspective_bound(loss, m))

    assert bound(losses.matsushita) == pytest.approx(2 * np.sqrt(m), rel=1e-5)
    assert bound(losses.square) == pytest.approx(4 * m / (m + 1), rel=1e-5)
    assert bound(losses.zero_one) == pytest.approx(2)
    assert bound(losses.m_alpha(0.3)) == pytest.approx(2 + 0.6 * (np.sqrt(m) - 1), rel=1e-5)
    exact = np.log2(m + 1) + m * np.log2((m + 1) / m)
    assert bound(losses.log) == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("m", [1, 10, 1000])
def test_published_bounds_are_theorem_3_and_corollary_7(m):
    assert float(sensitivity.published_split(losses.matsushita, m)) == pytest.approx(
        max(3, 1 + 2 * np.sqrt(m))
    )
    assert float(sensitivity.published_split(losses.zero_one, m)) == pytest.approx(3)
    corollary = 3 + 2 * 0.3 * (np.sqrt(m) - 1)
    assert float(sensitivity.published_split(losses.m_alpha(0.3), m)) == pytest.approx(
        corollary, rel=1e-5
    )
    lemma_5 = max(3, 1 + (1 + np.log(m + 1)) / np.log(2))
    assert float(sensitivity.published_split(losses.log, m)) <= lemma_5 + 1e-3


@each
@given(
    m=st.integers(2, 400),
    ones=st.integers(0, 400),
    w=st.integers(1, GRID),
    scale=st.integers(1, GRID),
    cls=st.booleans(),
)
def test_adding_a_row_raises_f_by_at_most_the_bound(loss, m, ones, w, scale, cls):
    """Counts on the weight grid, the larger table has m rows, the others weigh scale / GRID
    each.
    """
    ones = min(ones, m - 1)
    w1, w0 = ones * scale / GRID, (m - 1 - ones) * scale / GRID
    more = w / GRID

    def f(a, b):
        return float(loss.perspective(jnp.float32(a), jnp.float32(b)))

    change = f(w1 + more * cls, w0 + more * (not cls)) - f(w1, w0)
    assert -1e-3 <= change <= float(sensitivity.perspective_bound(loss, m)) + 1e-3


@each
def test_the_bound_is_attained(loss):
    m = 4000
    change = float(loss.perspective(jnp.float32(1), jnp.float32(m - 1)))
    bound = float(sensitivity.perspective_bound(loss, m))
    assert 0.99 * bound <= change <= bound


@each
@given(data=st.data())
def test_scores_of_all_splits_move_one_way(loss, data):
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
        return np.asarray(greedy_tree.split_scores(loss, *args))[0]

    rise = scores(rows - 1) - scores(rows)
    assert np.all(rise >= -1e-3)
    assert np.all(rise <= float(sensitivity.perspective_bound(loss, rows)) + 1e-3)


@each
@pytest.mark.parametrize("m", [1000, 300_000, 16_000_000])
def test_float32_scores_of_many_rows_stay_within_the_allowance(loss, m):
    """Both neighbours' scores as the program computes them: the spread of changes is at most the
    sensitivity used.
    """
    rng = np.random.default_rng(m)
    splits, nodes = 2000, 4
    totals = rng.integers(0, m // 2, (nodes, 2)) * GRID
    totals[0] = (m - 1) * GRID, GRID
    products = (rng.random((nodes, 2, splits)) * (totals[:, :, None] + 1)).astype(np.int64)
    scores = []
    for more in (0, GRID):
        changed, summed = products.copy(), totals.copy()
        changed[:, 1, ::2] += more
        summed[:, 1] += more
        args = jnp.asarray(changed, jnp.int32), jnp.asarray(summed, jnp.int32)
        scores.append(np.asarray(greedy_tree.split_scores(loss, *args), np.float64))
    change = scores[0] - scores[1]
    spread = np.maximum(change.max(axis=1), 0) - np.minimum(change.min(axis=1), 0)
    assert np.all(spread <= float(sensitivity.tight_split(loss, m)))
    assert float(sensitivity.rounding_allowance(1000)) < 0.002 * float(
        sensitivity.perspective_bound(losses.square, 1000)
    )


@given(
    counts=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=6),
    where=st.integers(0, 5),
    cls=st.integers(0, 1),
)
def test_error_weight_is_one_lipschitz_and_monotone(counts, where, cls):
    counts = np.array(counts)
    more = counts.copy()
    more[where % len(counts), cls] += 1
    change = more.min(axis=1).sum() - counts.min(axis=1).sum()
    assert 0 <= change <= sensitivity.ERROR_WEIGHT.l1


def test_relations():
    assert relation("add_remove") is ADD_REMOVE
    assert relation(REPLACE_ONE) is REPLACE_ONE
    assert (sensitivity.split_moves(ADD_REMOVE), sensitivity.split_moves(REPLACE_ONE)) == (1, 2)
    assert sensitivity.class_weights(ADD_REMOVE) == (1, 1)
    assert sensitivity.class_weights(REPLACE_ONE) == (2, np.sqrt(2))
    assert sensitivity.ERROR_WEIGHT == (1, 1)
    assert (sensitivity.moved_rows(ADD_REMOVE), sensitivity.moved_rows(REPLACE_ONE)) == (1, 2)
    with pytest.raises(ValueError, match="relation must be one of"):
        relation("zero_out")
    with pytest.raises(ValueError, match="no bound is known"):
        sensitivity.split_moves("add_remove")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("rows", [100, 132_104, 1_000_000, 16_000_000])
def test_float32_counts_move_by_no_more_than_their_step(rows):
    """Counts near the most that so many rows weigh, in float32, before and after one row."""
    most = GRID * rows
    counts = np.concatenate([np.arange(max(most - 5000, 0), most - GRID), np.arange(0, GRID)])
    moved = (counts + GRID).astype(np.float32).astype(np.float64) - counts.astype(np.float32)
    step = float(sensitivity.count_step(rows))
    assert moved.max() <= step
    assert moved.max() >= GRID
    assert sensitivity.count_step(rows, exact=True) == GRID
    assert (step == GRID) == (rows <= 132_104)
