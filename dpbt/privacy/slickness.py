"""Smooth boosting: what one row moves when every weight depends on all rows, and why.

Setting. `reweighting.lazy_bregman` gives row j a weight mu(j) in [0, u], u a public cap, with a
public total M = kappa m (m the recipe's `rows`), or the cap to every row if even that falls short
of M. In grid units, integers in units of u / GRID, all of this is exact. The weight of row j is a
fixed non-decreasing function of its own score and of one number (a step of a common, totally
ordered scale), so between two tables the weights of all rows but the changed ones move the same
way.

Lemma (slickness over examples; Bun et al. (2020), Lemma 25, with its constant attained). Turning mu
into mu' takes away mass of at most u and puts back mass of at most u, all of it counted example by
example.

Proof. Replace-one: row i leaves with mu(i), a new one enters with mu'(i), and the other rows move
one way. The number of rows is the same, so the totals are equal, and the others move by mu(i) -
mu'(i) in sum. If that is not positive, the mass taken is mu(i) + (mu'(i) - mu(i)) = mu'(i) <= u,
and the mass put back is mu'(i). Else the mass taken is mu(i) and the mass put back is mu'(i) +
(mu(i) - mu'(i)) = mu(i) <= u. Add/remove, a row i added: the total does not fall, and the others do
not rise, since the total is either the same M or had every row at the cap. The mass put back is
mu'(i) <= u, the mass taken is mu'(i) minus what the total gained, so at most u. []

As distributions mu / M this is a total variation of at most u / (kappa m) over examples, with
equality when the changed row is at the cap on one side. The papers have u = 1. Their distance over
*positions*, where the replaced example keeps its index, is smaller, and is then doubled on the way
to a sensitivity: hence their factors.

Between tables the rows that do not change must keep their order, because ties in the last 1/GRID of
a weight are resolved in order of the rows. That is so for the masks of `audit.neighbours` and for
inserting, deleting or overwriting a row.
"""

import jax.numpy as jnp
import numpy as np

from dpbt.base import ADD_REMOVE, GRID, REPLACE_ONE, Array, ProperLoss, Relation
from dpbt.privacy.mechanism import Numbers


def indicator(relation: Relation) -> int:
    """1: the most that the weight of the rows with some public property moves, in units of u.

    In grid units it is GRID.

    Proof. By the lemma it gains at most u and loses at most u. []
    Attained by a replaced row at the cap that gains or loses the property.

    An error is such a weight, so a 1-rule's normalised error moves by at most u / (kappa m), where
    the published Observation 8.1 has 2 / (kappa m).
    """
    _known(relation)
    return 1


def rule_range(relation: Relation) -> int:
    """2: the range, over all 1-rules, of the change of their errors, in units of u.

    Proof. Each moves by something in [-1, 1]. [] Attained: a rule and its negation err on
    complementary rows, so the one loses what the other gains. The exponential mechanism with
    exponent 1 / scale is (2 u / scale)-DP: in the papers' terms 2 eta / (kappa n), half of the
    published 4 eta / (kappa n) (Asadi et al. (2022), Theorem 8.2).
    """
    return 2 * indicator(relation)


def class_weights_l1(relation: Relation) -> int:
    """2: the L1 distance, in units of u, between the class weights of all leaves of a public tree.

    Proof. Every row is in one leaf and one class, and in all at most u leaves and at most u enters.
    [] All leaves move, not only those of the changed row, so their labels do *not* compose in
    parallel as Asadi et al. (2022), section 9, has it. The sum over leaves of what each label costs
    is bounded all the same: see `label_range`.
    """
    return 2 * indicator(relation)


def label_range(relation: Relation) -> int:
    """2: the sum over leaves of |change of w1 - w0|, in units of u.

    It is what labelling all leaves costs.

    Proof. In a leaf, |change of w1 - w0| <= |change of w1| + |change of w0|; the sum is
    `class_weights_l1`. [] A label drawn from {0, 1} by the exponential mechanism is a logistic
    function of (w1 - w0) / scale, whose log odds move by |change of w1 - w0| / scale; with
    Laplace(scale) noise on both weights the log probability of a winner moves by no more than that,
    as the density of the difference of two Laplace variables has a log that is 1 / scale-Lipschitz.
    Attained by a replaced row at the cap that changes class in a leaf of one class.
    """
    return class_weights_l1(relation)


def improvement_range(loss: ProperLoss, mass: Numbers, relation: Relation) -> Array:
    """2 f(1, M): the range over leaves and splits of the change of a top-down improvement.

    It is in units of u. M is the total weight in units of u, and f the perspective of the criterion
    (`sensitivity.perspective_bound`).

    Proof. The improvement of (leaf, split) is G(T) - G(T(leaf, split)), G the sum of f over the
    leaves. G(T) is common to all candidates, so only G(T(leaf, split)) counts, a sum of f over
    leaves that partition the rows. Take mass away first, then put mass in, each at most 1 (the
    lemma). f does not decrease in either argument, so taking away lowers the sum. It does so by at
    most f(1, M): removing d1 of class 1 and then d0 of class 0 from a leaf of weights (w1, w0)
    lowers f by at most f(d1, w0) + f(d0, w1), by concavity, as f(0, w) = 0. f is concave and
    homogeneous, so super-additive: over all leaves and both classes the bounds add up to at most
    f(sum of d, sum of w) <= f(1, M). The same holds for putting in, read backwards. So every
    candidate's change is in [-f(1, M), f(1, M)]. []

    For Gini that is 4 M / (M + 1) < 4 up and down, a range below 8 u: 8 zeta in the papers'
    normalisation, so one selection is 8 eta zeta-DP as published, although neither lemma on the way
    is true: one term w G(q) moves by up to 4 zeta, not 5/4 zeta (Lemma 9.1), and one improvement by
    up to 8 zeta, not 4 zeta (Lemma 9.2); `tests/test_top_down.py` holds the counterexamples. For
    Matsushita it is 4 sqrt(M), for entropy about 2 log2(e M).

    Attained, up to f(1, M) - f(1, M - 1): the only row of class 1 is replaced by one that is set
    apart by another split; the improvement of the old split falls by f(1, M - 1), that of the new
    one rises by as much.
    """
    _known(relation)
    mass = jnp.asarray(mass, jnp.float32)
    return 2 * loss.perspective(jnp.ones_like(mass), mass)


def improvement_rounding(mass: Numbers) -> Array:
    """2^-17 M: the most that float32 adds to the spread of the changes of improvements.

    It is in units of u. A perspective is evaluated in at most 8 roundings of 2^-24 relative to the
    weight in its leaf; a leaf, its two children and two subtractions make 18 * 2^-24 M. A change
    has twice that, the spread of two changes four times: 72 * 2^-24 M < 2^-17 M.
    """
    return jnp.asarray(mass, jnp.float32) * 2.0**-17


def center_l2(relation: Relation) -> int:
    """2: the L2 distance, in units of u, between sums of mu(j) y_j x_j, x_j in the unit ball.

    Proof. Mass of at most u is taken away and at most u is put back, each times a vector of norm at
    most 1. [] Attained by a replaced row at the cap whose label flips. After division by M = kappa
    m, with Gaussian noise of standard deviation sigma: rho = (2 / (kappa m sigma))^2 / 2 = 2 /
    (kappa m sigma)^2, a quarter of the published 8 / (kappa n sigma)^2 (Bun et al. (2020), Theorem
    27 at s = 1 / (kappa n)).
    """
    return 2 * indicator(relation)


def sum_step(rows: Numbers, spread: Numbers = 0.0) -> np.ndarray:
    """The public step that weighted sums of rows are rounded down to, in 2^-14 grid units.

    The smallest power of two, at least 1, for which every sum fits 2^29 steps and the noise has a
    standard deviation of at most 2^26: all weights together are at most GRID m, and a row is at
    most 2^14 units long.

    Args:
        rows: m, scalar or array.
        spread: the standard deviation of the noise, in units of 2^-14 grid units.
    """
    largest = np.asarray(rows, np.float64) * GRID * 2.0**14
    least = np.maximum(largest / 2.0**29, np.asarray(spread, np.float64) / 2.0**26)
    return 2.0 ** np.ceil(np.log2(np.maximum(least, 1.0)))


def center_step(step: Numbers, relation: Relation, features: int) -> np.ndarray:
    """`center_l2` for sums on a grid of steps h: (2 + sqrt(d) h / (2^14 GRID)) (1 + 2^-20).

    Proof. Sums of weights times rows, in units of 2^-14, are exact integers, and so is their
    quotient by h, rounded down (`sum_step`). Rounding down moves each of d coordinates by less than
    one step more than the sums move: less than sqrt(d) steps in L2 norm. The scale of the noise is
    computed in float32 in at most 6 roundings of 2^-24: less than 2^-20. []

    Args:
        step: h, from `sum_step`; scalar or array.
        relation: the neighbouring relation.
        features: d, a public bound on the number of features.
    """
    rounding = np.sqrt(features) * np.asarray(step, np.float64) / (2.0**14 * GRID)
    return (center_l2(relation) + rounding) * (1 + 2.0**-20)


def total_mass(rows: Numbers, density: Numbers, cap: Numbers) -> Array:
    """f32[...]: M / u = m kappa / u, plus half a grid unit; public.

    No less than the total weight in units of the cap u.
    """
    return jnp.asarray(rows, jnp.float32) * (density / cap) + 0.5 / GRID


def _known(relation: Relation) -> None:
    """Refuse a relation that no bound is known under, with a ValueError."""
    if relation is not ADD_REMOVE and relation is not REPLACE_ONE:
        raise ValueError(f"no bound is known under {relation!r}")
