"""Sensitivity bounds, by loss, neighbouring relation and calibration.

A row's weight is in [0, 1] (in units of the round's public bound). The score of a split is minus
the sum of the perspectives f(w1, w0) = (w1 + w0) L(w1 / (w1 + w0)) of its two children. Under
add/remove-one the larger of two neighbours has at most m rows; under replace-one both have m.
"""

import math

import jax.numpy as jnp
import numpy as np

from dpbt.base import ADD_REMOVE, REPLACE_ONE, Array, ProperLoss, Relation
from dpbt.privacy.mechanism import Numbers, Sensitivity


def perspective_bound(loss: ProperLoss, rows: Numbers) -> Array:
    """f(1, m): the most that adding one row of weight at most 1 moves the score of a split.

    Proof. f is concave and homogeneous of degree one, and it does not decrease in either argument.
    To see the last, let q = w1 / (w1 + w0). Then df/dw1 = L(q) + (1 - q) L'(q) is the value at 1 of
    L's tangent at q, so it is at least L(1) = 0. Concavity in w1 makes f(w1 + d, w0) - f(w1, w0)
    largest at w1 = 0. There it is f(d, w0) - f(0, w0) = f(d, w0), because f(0, w0) = w0 L(0) = 0.
    By monotonicity that is at most f(1, m). The new row enters one child of each candidate, so one
    term of the score moves. []

    All candidates' scores move the same way, by amounts in [0, f(1, m)]. With s' = s + d, 0 <= d_k
    <= D, the exponential mechanism exp(eps s / D) has |log p(k) - log p'(k)| <= eps. The reason is
    that the numerator moves by at most a factor exp(eps), and the normaliser by a factor in
    [1, exp(eps)] in the same direction. The factor 2 of the usual exponent is not needed.

    Attained, up to f(1, m) - f(1, m - 1), by a node of m - 1 rows of one class that gets one of the
    other.

    Args:
        loss: any symmetric proper loss; M-alpha's alpha may be traced.
        rows: m, the public bound on the number of rows; scalar or array. Float64 stays float64,
            for use within `variates.double_precision`; anything else counts as float32.

    Returns:
        f(1, m), of the type of `rows`: 2 sqrt(m) for Matsushita, below 4 for square, 2 for 0/1 and
        2 + 2 alpha (sqrt(m) - 1) for M-alpha.
    """
    rows = _floats(rows)
    return loss.perspective(jnp.ones_like(rows), rows)


def _floats(rows: Numbers) -> Array:
    """The numbers in float64 if they have it, and else in float32."""
    rows = jnp.asarray(rows)
    return rows if rows.dtype == jnp.float64 else rows.astype(jnp.float32)


BOUND_MARGIN = np.float32(1 + 2.0**-20)
"""Covers the rounding of a bound that is evaluated in float32, in at most 16 roundings."""


def rounding_allowance(rows: Numbers) -> Array:
    """2^-40 m: the most that float64 adds to the spread of score changes between neighbours.

    Scores are functions of exact integers, computed in float64 and held in 48 bits
    (`trees.perspectives`, `mechanisms.behind_best`). A perspective is off by at most 2^-43 of the
    weight in its child (`losses.check_criterion`). The sum over two children, the difference to the
    best score and its 48 bits add at most 2^-46 m. The best score as computed is subtracted from
    all scores of a draw, so its own error moves them together. The spread compares two candidates
    on two tables. So it is off by at most 4 (2^-43 + 2^-46) m < 2^-40 m.

    At 2^24 rows it is 2^-16, where f(1, m) is at least 2.
    """
    return _floats(rows) * 2.0**-40


def tight_split(loss: ProperLoss, rows: Numbers) -> Array:
    """The tight calibration's sensitivity of a split: f(1, m) (1 + 2^-20) + 2^-40 m.

    The factor is for f(1, m) itself, which is evaluated in at most 8 roundings of 2^-24, and for
    the two roundings of this sum. Greedy trees evaluate both in float64, and round once
    (`greedy_tree.temperature_of`). The last term is what float64 scores may add.
    """
    bound = perspective_bound(loss, rows)
    return bound * BOUND_MARGIN.astype(bound.dtype) + rounding_allowance(rows)


def published_split(loss: ProperLoss, rows: Numbers) -> Array:
    """max{3, 1 + f(1, m)}: Nock & Henecka (2020), Theorem 3.

    This is the paper's bound on the change of one leaf's f between neighbours that differ by one
    example: a row that comes, goes, or changes class or weight. Equation (15) uses it in the
    exponent eps / (2 sensitivity).
    """
    return jnp.maximum(3.0, 1.0 + perspective_bound(loss, rows))


def split_moves(relation: Relation) -> int:
    """How many one-signed moves of size f(1, m) separate the scores of two neighbours.

    Adding or removing a row is one move. Replacing a row is a removal and an addition, so the
    exponential mechanism runs at eps / 2. The two may hit different nodes of a level. So under
    replace-one a whole level costs two halves, and under add/remove one whole.
    """
    return moved_rows(relation)


def class_weights(relation: Relation) -> Sensitivity:
    """Sensitivity of the two class weights of all nodes of a level, in units of the weight bound.

    A row adds its weight, at most 1, to one class of one node. Under add/remove that is 1 in L1 and
    in L2 norm. Replace-one takes one weight away and adds one, which is 2 in L1 norm. Either two
    entries move by at most 1 each, or one entry moves by the difference of two weights, at most 1.
    So it is sqrt(2) in L2 norm.
    """
    moves = moved_rows(relation)
    return Sensitivity(moves, math.sqrt(moves))


def histograms(relation: Relation, count: int = 1) -> Sensitivity:
    """Sensitivity of the counts of some histograms together, in rows.

    A row is in one cell of each. So under add/remove `count` counts move by at most 1, and under
    replace-one twice as many.
    """
    moved = count * moved_rows(relation)
    return Sensitivity(moved, math.sqrt(moved))


def moved_rows(relation: Relation) -> int:
    """How many rows of a table differ between neighbours, and with them entries of a statistic.

    Raises:
        ValueError: for any other relation than add/remove and replace-one.
    """
    if relation is ADD_REMOVE:
        return 1
    if relation is REPLACE_ONE:
        return 2
    raise ValueError(f"no bound is known under {relation!r}")


ERROR_WEIGHT = Sensitivity(1, 1)
"""Sensitivity of the sum over nodes of min(w1, w0), in units of the weight bound.

It holds under both relations. min(w1, w0) does not decrease in either argument and is 1-Lipschitz
in each, so adding a row moves the sum by something in [0, 1]. Replace-one adds something in [0, 1]
and takes something in [0, 1], which moves the sum by at most 1 again.
"""
