"""Sensitivity bounds, by loss, neighbouring relation and calibration, and weights on a grid.

A row's weight is in [0, 1] (in units of the round's public bound). The score of a split is minus
the sum of the perspectives f(w1, w0) = (w1 + w0) L(w1 / (w1 + w0)) of its two children. Under
add/remove-one the larger of two neighbours has at most m rows; under replace-one both have m.

Smooth boosting: how much one row changes when every weight depends on all rows, and why.

Setting. `weighting.lazy_bregman` gives row j a weight mu(j) in [0, u], where u is a public cap.
The total is the public M = kappa m, where m is the recipe's `rows`. If even the cap for every row
falls short of M, every row gets the cap. In grid units, integers in units of u / GRID, all of this
is exact. The weight of row j is a fixed non-decreasing function of its own score and of one number,
a step of a common, totally ordered scale. So between two tables the weights of all rows but the
changed ones move the same way.

Lemma (slickness over examples; Bun et al. (2020), Lemma 25, with its constant attained). Turning mu
into mu' takes away mass of at most u and puts back mass of at most u, all of it counted example by
example.

Proof, replace-one. Row i leaves with mu(i), a new one enters with mu'(i), and the other rows move
one way. The number of rows is the same, so the totals are equal, and the others move by mu(i) -
mu'(i) in sum. If that is not positive, the mass taken is mu(i) + (mu'(i) - mu(i)) = mu'(i) <= u,
and the mass put back is mu'(i). Otherwise the mass taken is mu(i), and the mass put back is mu'(i)
+ (mu(i) - mu'(i)) = mu(i) <= u.

Proof, add/remove. Let row i be added. The total is either the same M, or every row had the cap. So
the total does not fall, and the others do not rise. The mass put back is mu'(i) <= u. The mass
taken is mu'(i) minus what the total gained, so at most u. []

As distributions mu / M this is a total variation of at most u / (kappa m) over examples, with
equality when the changed row is at the cap on one side. The papers have u = 1. Their distance over
*positions*, where the replaced example keeps its index, is smaller. It is then doubled on the way
to a sensitivity, which gives their factors.

Between tables the rows that do not change must keep their order, because ties in the last 1/GRID of
a weight are resolved in order of the rows. That is so for the masks of `audit.neighbours` and for
inserting, deleting or overwriting a row.

The bounds of smooth boosting hold under add/remove and under replace-one alike.
"""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32

from dpbt.privacy.mechanism_types import Numbers, Sensitivity
from dpbt.public_types import num_changed_rows as num_changed_rows
from dpbt.types import (
    BINARY,
    GRID,
    Array,
    PreparedRows,
    ProperLoss,
    Relation,
    Response,
)

# Losses and histograms, where a row changes its own weight alone.


def max_split_score_change(loss: ProperLoss, rows: Numbers) -> Array:
    """The largest change f(1, m) of a split's score by one added row.

    The weight of the row is at most 1.

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
    rows = _as_float64_or_float32(rows)
    return loss.perspective(jnp.ones_like(rows), rows)


def _as_float64_or_float32(numbers: Numbers) -> Array:
    """Convert numbers to an array: of float64 if they are that, else of float32."""
    array = jnp.asarray(numbers)
    return array if array.dtype == jnp.float64 else array.astype(jnp.float32)


BOUND_MARGIN = np.float32(1 + 2.0**-20)
"""A factor that covers the rounding of a bound in float32, of at most 16 roundings."""


def score_rounding_allowance(rows: Numbers) -> Array:
    """A bound on what rounding adds to the range of score changes by one row.

    It is 2^-40 m, for rounding in float64. Scores are functions of exact integers, computed in
    float64 and held in 48 bits (`split_scores.perspectives_of_class_weights`,
    `mechanisms.behind_best`). A perspective is off by at most 2^-43 of the weight in its child
    (`losses.check_perspective_of_family`). The sum over two children, the difference to the best
    score and its 48 bits add at most 2^-46 m. The best score as computed is subtracted from all
    scores of a draw, so its own error moves them together. The spread compares two candidates on
    two tables. So it is off by at most 4 (2^-43 + 2^-46) m < 2^-40 m.

    At 2^24 rows it is 2^-16, where f(1, m) is at least 2.
    """
    return _as_float64_or_float32(rows) * 2.0**-40


def tight_split_sensitivity(loss: ProperLoss, rows: Numbers) -> Array:
    """The sensitivity of a split's score in the tight calibration.

    It is f(1, m) plus rounding: f(1, m) (1 + 2^-20) + 2^-40 m.

    The factor is for f(1, m) itself, which is evaluated in at most 8 roundings of 2^-24, and for
    the two roundings of this sum. Greedy trees evaluate both in float64, and round once
    (`growth.SplitPricing.sensitivity`). The last term is what float64 scores may add.
    """
    bound = max_split_score_change(loss, rows)
    return bound * BOUND_MARGIN.astype(bound.dtype) + score_rounding_allowance(rows)


def published_split_sensitivity(loss: ProperLoss, rows: Numbers) -> Array:
    """The published sensitivity of a split's score.

    It is max{3, 1 + f(1, m)}, by Theorem 3 of Nock & Henecka (2020).

    This is the paper's bound on the change of one leaf's f between neighbours that differ by one
    example: a row that comes, goes, or changes class or weight. Equation (15) uses it in the
    exponent eps / (2 sensitivity).
    """
    return jnp.maximum(3.0, 1.0 + max_split_score_change(loss, rows))


def num_split_score_changes(relation: Relation) -> int:
    """The number of one-signed changes of split scores between neighbours.

    It is 1 or 2 by the relation. Each has a size of at most f(1, m).

    Adding or removing a row is one change. Replacing a row is a removal and an addition, so the
    exponential mechanism runs at eps / 2. The two may be in different nodes of a level. So under
    replace-one a level costs two times eps / 2, and under add/remove once eps.
    """
    return num_changed_rows(relation)


def class_weights_sensitivity(relation: Relation) -> Sensitivity:
    """The sensitivity of the two class weights of all nodes of a level.

    It is in units of the weight bound. A row adds its weight, at most 1, to one class of one node.
    Under add/remove that is 1 in L1 and in L2 norm. Replace-one takes one weight away and adds one,
    which is 2 in L1 norm. Either two entries move by at most 1 each, or one entry moves by the
    difference of two weights, at most 1. So it is sqrt(2) in L2 norm.
    """
    return histograms_sensitivity(relation)


def histograms_sensitivity(relation: Relation, num_histograms: int = 1) -> Sensitivity:
    """The sensitivity of the counts of some histograms together, in rows.

    A row is in one bin of each. So under add/remove one count of each histogram moves by at most 1,
    and under replace-one two counts of each do.
    """
    num_changed_counts = num_histograms * num_changed_rows(relation)
    return Sensitivity(l1=num_changed_counts, l2=math.sqrt(num_changed_counts))


ERROR_WEIGHT = Sensitivity(l1=1, l2=1)
"""Sensitivity of the sum over nodes of min(w1, w0), in units of the weight bound.

It holds under both relations. min(w1, w0) does not decrease in either argument and is 1-Lipschitz
in each, so adding a row moves the sum by something in [0, 1]. Replace-one adds something in [0, 1]
and takes something in [0, 1], which moves the sum by at most 1 again.
"""


# Smooth boosting, where a row changes the weights of all rows.

PROPERTY_WEIGHT = 1
"""The largest change of the total weight of the rows with a public property, in units of u.

In grid units it is GRID.

Proof. By the lemma the weight gains at most u and loses at most u. []
Attained by a replaced row at the cap that gains or loses the property.

An error is such a weight, so a 1-rule's normalised error moves by at most u / (kappa m). The
published Observation 8.1 has 2 / (kappa m).
"""

RULE_ERRORS_RANGE = 2 * PROPERTY_WEIGHT
"""The range, over all 1-rules, of the change of their errors, in units of u.

Proof. Each error moves by something in [-1, 1]. [] Attained: a rule and its negation err on
complementary rows, so the one loses what the other gains. The exponential mechanism with exponent
1 / scale is (2 u / scale)-DP. In the papers' terms that is 2 eta / (kappa n), half of the published
4 eta / (kappa n) (Asadi et al. (2022), Theorem 8.2).
"""

CLASS_WEIGHTS_L1 = 2 * PROPERTY_WEIGHT
"""The L1 distance, in units of u, between the class weights of all leaves of a public tree.

Proof. Every row is in one leaf and one class. In all, mass of at most u leaves and mass of at most
u enters. [] All leaves move, not only those of the changed row. So their labels do *not* compose in
parallel, although Asadi et al. (2022), section 9, says so. The sum over leaves of what each label
costs is bounded all the same: see `LABELS_RANGE`.
"""

LABELS_RANGE = CLASS_WEIGHTS_L1
"""The sum over leaves of |change of w1 - w0|, in units of u. It is the cost of all labels together.

Proof. In a leaf, |change of w1 - w0| <= |change of w1| + |change of w0|, and the sum of these is
`CLASS_WEIGHTS_L1`. [] A label drawn from {0, 1} by the exponential mechanism is a logistic function
of (w1 - w0) / scale. Its log odds move by |change of w1 - w0| / scale. With Laplace(scale) noise on
both weights, the log probability of a winner moves by no more than that. The reason is that the
density of the difference of two Laplace variables has a log that is 1 / scale-Lipschitz.
Attained by a replaced row at the cap that changes class in a leaf of one class.
"""

CENTER_L2 = 2 * PROPERTY_WEIGHT
"""The L2 distance, in units of u, between sums of mu(j) y_j x_j, with x_j in the unit ball.

Proof. Mass of at most u is taken away and at most u is put back, each times a vector of norm at
most 1. [] Attained by a replaced row at the cap whose label flips.

Dividing by M = kappa m and adding Gaussian noise of standard deviation sigma costs
rho = (2 / (kappa m sigma))^2 / 2 = 2 / (kappa m sigma)^2. That is a quarter of the published
8 / (kappa n sigma)^2 (Bun et al. (2020), Theorem 27 at s = 1 / (kappa n)).
"""


def improvement_change_range(loss: ProperLoss, mass: Numbers) -> Array:
    """The sensitivity of the improvements of top-down splits.

    It is 2 f(1, M), the range of their changes by one row. The range is over all leaves and splits.

    It is in units of u. M is the total weight in units of u, and f the perspective of the criterion
    (`max_split_score_change`).

    Proof. The improvement of (leaf, split) is G(T) - G(T(leaf, split)), where G is the sum of f
    over the leaves. G(T) is common to all candidates, so only G(T(leaf, split)) counts. It is a sum
    of f over leaves that partition the rows. Take mass away first, then put mass in, each at most 1
    (the lemma).

    f does not decrease in either argument, so taking away lowers the sum. It does so by at most
    f(1, M), for the following reasons. Remove d1 of class 1 and then d0 of class 0 from a leaf of
    weights (w1, w0). By concavity, and as f(0, w) = 0, that lowers f by at most
    f(d1, w0) + f(d0, w1). f is concave and homogeneous, so it is super-additive. Hence the bounds
    add up, over all leaves and both classes, to at most f(sum of d, sum of w) <= f(1, M). The same
    holds for putting in, read backwards. So every candidate's change is in [-f(1, M), f(1, M)]. []

    For Gini that is 4 M / (M + 1) < 4 up and down, a range below 8 u, or 8 zeta in the papers'
    normalisation. So one selection is 8 eta zeta-DP as published. Neither lemma on the published
    way is true. One term w G(q) moves by up to 4 zeta, not 5/4 zeta (Lemma 9.1). One improvement
    moves by up to 8 zeta, not 4 zeta (Lemma 9.2). `tests/test_top_down.py` holds the
    counterexamples. For Matsushita the range is 4 sqrt(M), for entropy about 2 log2(e M).

    Attained, up to f(1, M) - f(1, M - 1): the only row of class 1 is replaced by one that another
    split sets apart. The improvement of the old split falls by f(1, M - 1), and that of the new one
    rises by as much.
    """
    return 2 * max_split_score_change(loss, jnp.asarray(mass, jnp.float32))


def improvement_rounding_allowance(mass: Numbers) -> Array:
    """A bound on what rounding adds to the range of changes of improvements.

    It is 2^-39 M in units of u, for rounding in float64. A perspective is off by at most
    2^-43 of the weight in its leaf (`score_rounding_allowance`). A leaf and its two children make
    2^-42 M, and subtractions and the 48 bits of a score less than 2^-45 M. The spread compares two
    candidates on two tables. So it is off by at most 4 (2^-42 + 2^-45) M < 2^-39 M.
    """
    return jnp.asarray(mass, jnp.float32) * 2.0**-39


def weighted_sum_rounding_step(rows: Numbers, noise_deviation: Numbers = 0.0) -> np.ndarray:
    """The public step to whose multiples weighted sums of rows are rounded.

    In 2^-14 grid units it is the smallest power of two, at least 1, for which every sum fits
    2^29 steps and the noise has a standard deviation of at most 2^26 steps. All weights together
    are at most GRID m, and a row is at most 2^14 units long.

    Args:
        rows: m, scalar or array.
        noise_deviation: the standard deviation of the noise, in units of 2^-14 grid units.
    """
    max_sum = np.asarray(rows, np.float64) * GRID * 2.0**14
    noise_deviation = np.asarray(noise_deviation, np.float64)
    min_step = np.maximum(max_sum / 2.0**29, noise_deviation / 2.0**26)
    return 2.0 ** np.ceil(np.log2(np.maximum(min_step, 1.0)))


def rounded_vector_sum_sensitivity(step: Numbers, num_features: int) -> Numbers:
    """The L2 sensitivity of the weighted sum of rows, rounded to steps.

    Rows are signed by their label, and h is the step. In units of u it is
    (2 + sqrt(d) h / (2^14 GRID)) (1 + 2^-20).

    Proof. Sums of weights times rows, in units of 2^-14, are exact integers, and so is their
    quotient by h, rounded down (`weighted_sum_rounding_step`). Rounding down moves each of d
    coordinates by less than one step more than the sums move. That is less than sqrt(d) steps in L2
    norm. The scale of the noise is computed in float32 in at most 6 roundings of 2^-24, which add
    less than 2^-20. []

    Args:
        step: h, from `weighted_sum_rounding_step`; scalar or array.
        num_features: d, a public bound on the number of features.
    """
    from_rounding = math.sqrt(num_features) * step / (2.0**14 * GRID)
    return (CENTER_L2 + from_rounding) * (1 + 2.0**-20)


# Weights for private programs: integers on a grid, within their bounds.


def clip_and_round_weights_to_grid(
    weight: Array, rows: PreparedRows, response: Response = BINARY
) -> Array:
    """Clip the weights of rows and round them to integers on the grid.

    It does so whatever a weight update returns. Absent rows get 0. Each row's result follows from
    its own weight alone. A weight that a weight update of the library computes for a present row
    stays as it is, if the table has no weights. If it has, the weight of a row in its table
    multiplies that of the weight update.

    Args:
        weight: f32[N], or f32[K, N] with several classes, as `WeightsAndCap` has it.
        rows: prepared rows.
        response: what is predicted. Residuals are in -GRID..GRID, and are rounded towards 0, so
            that the norm of a row's residuals over classes does not grow. Weights of two classes
            are in 0..GRID.
    """
    present = jnp.broadcast_to(rows.present, weight.shape)
    is_valid = weight > 0 if response == BINARY else ~jnp.isnan(weight)  # a NaN is not above 0
    unclipped = jnp.where(is_valid & present, weight, 0)
    row_weight = getattr(rows, "weight", None)
    if row_weight is not None:
        row_weight = jnp.clip(jnp.where(jnp.isnan(row_weight), 0, row_weight), 0, 1)
        row_weight = jnp.broadcast_to(row_weight, weight.shape)
        unclipped = jnp.where(row_weight > 0, unclipped, 0) * row_weight  # infinity * 0 is a NaN
    if response == BINARY:
        return jnp.round(jnp.minimum(unclipped, GRID))
    return jnp.trunc(jnp.clip(unclipped, -GRID, GRID))


def max_total_weight_in_caps(
    rows: Numbers, density: Numbers, cap: Numbers
) -> Float32[Array, "..."]:
    """f32[...]: the largest total weight of rows, in units of the cap.

    It is kappa m / u plus half a grid unit. It is public, and no less than the total weight under
    `weighting.lazy_bregman`.

    Args:
        rows: m, the public bound on the number of rows.
        density: kappa.
        cap: u.
    """
    return jnp.asarray(rows, jnp.float32) * (density / cap) + 0.5 / GRID


def round_grid_units_to_rows(counts_in_grid_units: Array) -> Array:
    """Round counts in units of 1 / GRID of a row to whole rows.

    Their type stays. Counts that differ by at most one row differ by at most 1 after rounding.
    """
    return (counts_in_grid_units + GRID // 2) // GRID
