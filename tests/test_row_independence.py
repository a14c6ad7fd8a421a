"""What is computed of a row follows from that row alone, to the last bit, at any number of rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpbt import weighting
from dpbt.learners.bins.epilogue import _log_odds_and_correctness_of_largest_class
from dpbt.learners.halfspaces import learner as halfspaces
from dpbt.learners.halfspaces.model import HALFSPACES, Halfspace
from dpbt.learners.model_parts import EncodedRows
from dpbt.types import Public, Table
from tests.support.slow_cases import mark_slow_cases

SIZES = 1, 7, 9, 64, 127, 20_000
MOST, ALONE = max(SIZES), 130


def numbers(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def in_ball(rows):
    """f32[d + 1, N]: the score of each row by a halfspace, and the row in the ball."""
    no = jnp.zeros(len(rows), bool)
    balls = halfspaces.project_rows_of_table_to_ball(Table(rows, no, no))
    normal = jnp.asarray(numbers(rows.shape[1]))
    score = halfspaces.HALFSPACES.predict_prepared(Halfspace(normal), balls)
    return jnp.concatenate([score[None], balls.columns])


def saved(rows):
    return HALFSPACES.predict(
        Halfspace(numbers(rows.shape[1])), HALFSPACES.read_rows(EncodedRows(rows, None))
    )


def odds(scores):
    return _odds(np.ascontiguousarray(scores.T), np.zeros(len(scores), np.uint8))[0]


_odds = jax.jit(_log_odds_and_correctness_of_largest_class)


def weights_of(weight_update, public):
    def weigh(scores):
        rows = Table(jnp.zeros((len(scores), 1)), scores[:, 0] > 0, jnp.ones(len(scores), bool))
        return weight_update.weigh(scores[:, 0], jnp.float32(3), rows, public).weight

    return weigh


NUMBERS = weighting.MirrorNumbers(jnp.float32(0.5))
MIRROR = Public(jnp.float32(500), jnp.float32(1), NUMBERS, {})
FUNCTIONS = {
    **{f"halfspaces of {d} features": (jax.jit(in_ball), numbers(MOST, d)) for d in (1, 50)},
    "saved halfspaces": (saved, numbers(MOST, 50)),
    "log odds of the largest class": (odds, 3 * numbers(MOST, 5)),
    "weights of the log loss": (
        jax.jit(weights_of(weighting.mirror("information_gain"), MIRROR)),
        3 * numbers(MOST, 1),
    ),
}


@pytest.mark.parametrize("name", mark_slow_cases(FUNCTIONS, slow=["halfspaces of 50 features"]))
def test_a_row_has_the_same_bits_among_any_others(name):
    function, rows = FUNCTIONS[name]
    each = [np.asarray(function(rows[number : number + 1])) for number in range(ALONE)]
    alone = np.concatenate(each, axis=-1)
    for size in SIZES:
        found = np.asarray(function(rows[:size]))[..., :ALONE]
        np.testing.assert_array_equal(found, alone[..., :size])
        last = np.asarray(function(rows[ALONE - size : ALONE])) if size < ALONE else found
        np.testing.assert_array_equal(last, alone[..., -size:])
