"""The theorems of Bojarski et al. (2014) on random forests, as functions of numbers.

The numbers are public or measured. Theorem numbers are the paper's. Its 2013 draft numbers 5.5 as
8.1, 5.6 to 5.7 as 5.5 to 5.6, and 5.8 to 5.9 as 8.2 to 8.3. Every function takes scalars or arrays
that broadcast, and may be jitted and vmapped. A probability below 0 or an error above 1 is the
formula's value, and the theorem then says nothing. Measured quantities (goodness, weight, accuracy)
are functions of private rows, so they are not themselves private.

Notation:

- n rows and k trees of height h;
- e, the average tree accuracy, and epsilon = 1 - e in (0, 1/2];
- eta, the privacy parameter;
- K and C, positive constants of the analysis;
- delta in (0, 1/2), the margin of the analysis, and c in (0, 1), the margin of the coins.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common.validate import show_value
from dpbt.types import AnyArray, Array

Numbers = AnyArray | float
"""A number, or an array of them that broadcasts with the others."""


class Bound(NamedTuple):
    """With `trees` trees, the error is at most `error` with probability at least `probability`.

    All three are arrays, but `error` is a plain number where it follows from plain numbers.
    """

    trees: AnyArray
    error: Any
    probability: Array


class TreeAnswers(NamedTuple):
    """The answer of each tree for each row when the leaves hold exact counts.

    Attributes:
        weight: f32[k, N]: the share of the rows of the row's leaf that have its label; w_d^T.
        right: bool[k, N]: the leaf's majority label is the row's; ties are positive.
    """

    weight: Array
    right: Array


def answers_of_trees(leaf: Array, label: Array, present: Array, leaves: int) -> TreeAnswers:
    """Weights and correctness of every row in every tree.

    Args:
        leaf: i32[k, N], from `hypotheses.assign_leaves_by_position` of each tree.
        label: bool[N].
        present: bool[N]; the results for absent rows mean nothing.
        leaves: 2**h.
    """

    def answers_of_tree(leaf: Array) -> TreeAnswers:
        segment = 2 * leaf + label.astype(jnp.int32)
        count = jax.ops.segment_sum(present.astype(jnp.int32), segment, num_segments=2 * leaves)
        equal, opposite = count[segment], count[segment ^ 1]
        weight = equal.astype(jnp.float32) / jnp.maximum(equal + opposite, 1).astype(jnp.float32)
        return TreeAnswers(weight, jnp.where(label, equal >= opposite, equal > opposite))

    return jax.vmap(answers_of_tree)(leaf)


def _mean_over_rows(values: Array, present: Array) -> Array:
    """f32[...]: the mean of values [..., N] over the rows that are present."""
    counted = jnp.where(present, values.astype(jnp.float32), 0)
    return jnp.sum(counted, axis=-1) / jnp.maximum(jnp.sum(present), 1).astype(jnp.float32)


def goodness(answers: TreeAnswers) -> Array:
    """f32[N]: sigma(d), the fraction of trees that classify row d correctly.

    Theorem 5.1: its mean over rows is at least e (it equals e). The paper's words ask that *most*
    rows of a leaf have d's label. A tie fulfils this for neither class, and then the theorem fails.
    Its proof counts ties as positive, as this function does.
    """
    return jnp.mean(answers.right.astype(jnp.float32), axis=0)


def mean_weight(answers: TreeAnswers) -> Array:
    """f32[N]: w_d, the mean over trees of the row's weight.

    Theorem 5.2: its mean is at least e^2 + (1 - e)^2.
    """
    return jnp.mean(answers.weight, axis=0)


def tree_accuracy(answers: TreeAnswers, present: Array) -> Array:
    """f32[k]: e^i, the fraction of rows that each tree classifies correctly.

    Their mean is e, at least 1/2.
    """
    return _mean_over_rows(answers.right, present)


def _missing_weight(x: Numbers) -> Numbers:
    """2x - 2x^2: one minus the mean weight that an average accuracy of 1 - x guarantees."""
    return 2 * x - 2 * x**2


def _voting_error(voting: str, x: Numbers, *, margin: Numbers, c: Numbers) -> Numbers:
    """The error of a voting rule whose trees err on x of the rows on average."""
    match voting:
        case "majority":
            return x / (0.5 - margin)
        case "threshold":
            return _missing_weight(x) / (0.5 - margin)
        case "probabilistic":
            return _missing_weight(x) + margin + c
        case _:
            raise ValueError(
                'voting must be "majority", "threshold" or "probabilistic", got '
                f"{show_value(voting)}"
            )


def _coin_probability(voting: str, rows: Numbers, c: Numbers) -> Array | float:
    """The probability that the coins of a vote stay within c of their mean; 1 without coins."""
    if voting != "probabilistic":
        return 1.0
    return 1 - jnp.exp(-2 * rows * jnp.asarray(c, jnp.float32) ** 2)


def bound_by_accuracy(
    voting: str,
    *,
    epsilon: Numbers,
    rows: Numbers,
    delta: Numbers,
    big_c: Numbers,
    c: Numbers = 0.0,
) -> Bound:
    """Theorems 5.4 (majority, threshold) and 5.5 (probabilistic; 8.1): by the accuracy alone.

    They are without privacy, and read the average accuracy of the trees. The empirical error is

    - epsilon / (1/2 - delta) for majority voting,
    - (2 epsilon - 2 epsilon^2) / (1/2 - delta) for threshold averaging,
    - 2 epsilon - 2 epsilon^2 + delta + c for probabilistic averaging.

    Args:
        voting: the rule.
        epsilon: one minus the average tree accuracy.
        rows: n.
        delta: in (0, 1/2).
        big_c: C; without coins the probability is 1 - n^-C.
        c: the coins' margin (probabilistic), in (0, 1).
    """
    n = jnp.asarray(rows, jnp.float32)
    trees = (1 + big_c) * jnp.log(n) / (2 * jnp.asarray(delta, jnp.float32) ** 2)
    probability = 1 - n ** (-jnp.asarray(big_c, jnp.float32))
    return Bound(
        trees,
        _voting_error(voting, epsilon, margin=delta, c=c),
        probability * _coin_probability(voting, rows, c),
    )


def share_of_good_points(values: AnyArray, margin: Numbers) -> Array:
    """f32[]: mu, the share of points whose goodness or weight is at least 1/2 + margin.

    Theorem 5.3 has delta for the training error, and delta + 1/K for the error on test points,
    whose goodness and weight are then those in the test set. Theorem 5.6 has 1/K more of both.

    Args:
        values: f32[N], `goodness` for majority voting, or `mean_weight` for threshold averaging.
        margin: in (0, 1/2).
    """
    return jnp.mean((jnp.asarray(values) >= 0.5 + margin).astype(jnp.float32))


def bound_by_points(*, good_share: Numbers, rows: Numbers, delta: Numbers, big_c: Numbers) -> Bound:
    """Theorem 5.3, first half: the training error is at most 1 - mu (majority, threshold).

    It holds for (1 + C) log(n) / (2 delta^2) trees with probability at least 1 - n^-C.

    Args:
        good_share: mu, `share_of_good_points` of the training points at the margin delta.
        rows: n.
        delta: in (0, 1/2).
        big_c: C.
    """
    n = jnp.asarray(rows, jnp.float32)
    trees = (1 + big_c) * jnp.log(n) / (2 * jnp.asarray(delta, jnp.float32) ** 2)
    return Bound(trees, 1 - good_share, 1 - n ** (-jnp.asarray(big_c, jnp.float32)))


def count_deviation_probability(
    *, rows: Numbers, trees: Numbers, height: Numbers, delta: Numbers, big_k: Numbers
) -> Array:
    """f32[...]: 2^(h + 3) k e^(-2 n phi^2), what all theorems subtract for test points.

    It bounds the probability that a count of some leaf differs by more than 2 phi n between n
    training and n test points, with phi = delta / (2 (4 + delta) 2^h K).

    Args:
        rows: n.
        trees: k.
        height: h.
        delta: in (0, 1/2).
        big_k: K.
    """
    leaves = jnp.exp2(jnp.asarray(height, jnp.float32))
    phi = delta / (2 * (4 + delta) * leaves * big_k)
    return 8 * leaves * trees * jnp.exp(-2 * jnp.asarray(rows, jnp.float32) * phi**2)


def generalization_bound_by_points(
    *,
    good_share: Numbers,
    rows: Numbers,
    delta: Numbers,
    big_c: Numbers,
    height: Numbers,
    big_k: Numbers,
) -> Bound:
    """Theorem 5.3, second half: the error on n test points is at most 1 - mu.

    It needs four times as many trees as `bound_by_points`.

    Args:
        good_share: mu, `share_of_good_points` of the test points at the margin delta + 1/K.
        rows: n, of the training and of the test points.
        delta: in (0, 1/2).
        big_c: C.
        height: h.
        big_k: K.
    """
    bound = bound_by_points(good_share=good_share, rows=rows, delta=delta / 2, big_c=big_c)
    return _on_test_points(bound, rows=rows, height=height, delta=delta, big_k=big_k)


def generalization_bound_by_accuracy(
    voting: str,
    *,
    epsilon: Numbers,
    rows: Numbers,
    delta: Numbers,
    big_c: Numbers,
    height: Numbers,
    big_k: Numbers,
    c: Numbers = 0.0,
) -> Bound:
    """Theorems 5.4 and 5.5 (8.1), second halves: the error on n test points.

    It is that of `bound_by_accuracy` with epsilon + 1/K in place of epsilon, and needs four times
    as many trees. The text of 5.5 names no number of trees; this is that of 5.4. The step to
    epsilon + 1/K does not hold for weights (docs/errata.md).

    Args:
        voting: the rule.
        epsilon: one minus the average tree accuracy on the test points.
        rows: n, of the training and of the test points.
        delta: in (0, 1/2).
        big_c: C.
        height: h.
        big_k: K.
        c: the coins' margin (probabilistic).
    """
    of_trees = bound_by_accuracy(
        voting, epsilon=epsilon, rows=rows, delta=delta / 2, big_c=big_c, c=c
    )
    error = _voting_error(voting, epsilon + 1 / big_k, margin=delta, c=c)
    bound = of_trees._replace(error=error)
    return _on_test_points(bound, rows=rows, height=height, delta=delta, big_k=big_k)


def _on_test_points(
    bound: Bound, *, rows: Numbers, height: Numbers, delta: Numbers, big_k: Numbers
) -> Bound:
    """The bound with the smaller probability that it has on test points."""
    deviation = count_deviation_probability(
        rows=rows, trees=bound.trees, height=height, delta=delta, big_k=big_k
    )
    return bound._replace(probability=bound.probability - deviation)


def private_generalization_bound_by_accuracy(
    voting: str,
    *,
    epsilon: Numbers,
    rows: Numbers,
    trees: Numbers,
    eta: Numbers,
    delta: Numbers,
    height: Numbers,
    big_k: Numbers,
    c: Numbers = 0.0,
) -> Bound:
    """Theorems 5.6 and 5.8 (8.2), second halves: the error on n test points with privacy.

    It is that of `private_bound_by_accuracy` with 2/K in place of 1/K. The arguments are as there,
    with epsilon on the test points and n of both kinds of points.
    """
    settings = {"epsilon": epsilon, "rows": rows, "trees": trees, "eta": eta, "delta": delta}
    settings |= {"height": height, "c": c}
    of_training = private_bound_by_accuracy(voting, **settings, big_k=big_k)
    error = private_bound_by_accuracy(voting, **settings, big_k=big_k / 2).error
    bound = of_training._replace(error=error)
    return _on_test_points(bound, rows=rows, height=height, delta=delta, big_k=big_k)


def private_bound_by_accuracy(
    voting: str,
    *,
    epsilon: Numbers,
    rows: Numbers,
    trees: Numbers,
    eta: Numbers,
    delta: Numbers,
    height: Numbers,
    big_k: Numbers,
    c: Numbers = 0.0,
) -> Bound:
    """Theorems 5.6, last sentence, and 5.8 (probabilistic; 8.2): by the average accuracy alone.

    The empirical error is

    - epsilon / (1/2 - delta - 1/K) for majority voting,
    - (2 epsilon - 2 epsilon^2) / (1/2 - delta - 1/K) for threshold averaging,
    - 2 x - 2 x^2 + delta + c with x = epsilon + 1/K for probabilistic averaging.

    The first two are infinite where delta + 1/K is 1/2 or more. Without coins one minus the
    probability is printed as n (e^(-k delta^2 / 2) + e^(-k / 2) + k e^(-lambda n eta / k)) with
    lambda = delta / (24 K 2^h). The proof ends in another form, which Theorem 5.7 uses. It also
    assumes that each point's weight loses at most 1/K when light leaves are left out. That holds
    only on average over points.

    Args:
        voting: the rule.
        epsilon: one minus the average tree accuracy.
        rows: n.
        trees: k.
        eta: the privacy parameter.
        delta: in (0, 1/2).
        height: h.
        big_k: K.
        c: the coins' margin (probabilistic).
    """
    light_leaves = 1 / big_k
    if voting == "probabilistic":
        error = _voting_error(voting, epsilon + light_leaves, margin=delta, c=c)
    else:
        margin = delta + light_leaves
        below_half = jnp.minimum(margin, 0.499999)
        finite_error = _voting_error(voting, epsilon, margin=below_half, c=c)
        error = jnp.where(margin < 0.5, finite_error, jnp.inf)
    k, n = jnp.asarray(trees, jnp.float32), jnp.asarray(rows, jnp.float32)
    rate = delta / (24 * big_k * jnp.exp2(jnp.asarray(height, jnp.float32)))
    failure = jnp.exp(-k * delta**2 / 2) + jnp.exp(-k / 2) + k * jnp.exp(-rate * n * eta / k)
    return Bound(k, jnp.asarray(error), (1 - n * failure) * _coin_probability(voting, rows, c))


_TREE_SCALE = 200.0
"""2 / delta^2 of Theorems 5.7 and 5.9, where delta = 1/10."""


def _noise_exponent(rows: Numbers, eta: Numbers, height: Numbers) -> Array:
    """The exponent gamma sqrt(n) eta, gamma = 1 / (9600 * 2^h)."""
    scale = 9600 * jnp.exp2(jnp.asarray(height, jnp.float32))
    return jnp.sqrt(jnp.asarray(rows, jnp.float32)) * eta / scale


def best_trees(rows: Numbers, eta: Numbers, height: Numbers) -> Array:
    """i32[...]: k_opt of Theorems 5.7 and 5.9.

    It is the k >= 1 that minimises e^(-k / 200) + 2 k e^(-gamma sqrt(n) eta / k). For n below 10^10
    at eta = 1 it is 1, so the theorem says little about real data.

    Both terms are convex in k: the derivative of the second, 2 e^(-g/k) (1 + g/k), increases. So
    bisection finds the smallest k at which one more tree does not lower the sum. It compares the
    logarithms of the two differences, for k up to 2^24, beyond which float32 cannot count.
    """
    g = _noise_exponent(rows, eta, height)
    drop = math.log(-math.expm1(-1 / _TREE_SCALE))

    def is_enough(k: Array) -> Array:
        x = g / (k * (k + 1))
        rise = math.log(2) - g / (k + 1) + jnp.log1p(-k * jnp.expm1(-x))
        return rise >= drop - k / _TREE_SCALE

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) // 2
        is_good = is_enough(middle.astype(jnp.float32))
        return jnp.where(is_good, low, middle + 1), jnp.where(is_good, middle, high)

    low = jnp.ones_like(g, jnp.int32)
    return jax.lax.fori_loop(0, 25, halve, (low, jnp.full_like(low, 2**24)))[1]


def bound_at_best_trees(
    voting: str, *, epsilon: Numbers, rows: Numbers, eta: Numbers, height: Numbers
) -> Bound:
    """Theorems 5.7 (threshold) and 5.9 (probabilistic; 8.3) as printed: the error of k_opt trees.

    The error is 1/8 + 9/2 epsilon - 5 epsilon^2 for threshold averaging, and 1/5 + 19/10 epsilon -
    2 epsilon^2 for probabilistic averaging. They are Theorems 5.6 and 5.8 at K = 40, delta = 1/10,
    c = 1/20. The first does not follow from them: (2 x - 2 x^2) / (2/5) at x = epsilon + 1/40 is
    39/320 + 19/4 epsilon - 5 epsilon^2, which is larger for epsilon above 1/80.

    Args:
        voting: "threshold" or "probabilistic".
        epsilon: one minus the average tree accuracy.
        rows: n.
        eta: the privacy parameter.
        height: h.
    """
    trees = best_trees(rows, eta, height)
    k, n = trees.astype(jnp.float32), jnp.asarray(rows, jnp.float32)
    failure = n * (
        jnp.exp(-k / _TREE_SCALE)
        + 2 * k * jnp.exp(-_noise_exponent(rows, eta, height) / k)
        + jnp.exp(-n / 2)
    )
    epsilon = jnp.asarray(epsilon, jnp.float32)
    match voting:
        case "threshold":
            return Bound(trees, 1 / 8 + 9 / 2 * epsilon - 5 * epsilon**2, 1 - failure)
        case "probabilistic":
            # The paper prints 1 - n(...)(1 - e^(-n/200)); its proof multiplies two probabilities.
            probability = (1 - failure) * (1 - jnp.exp(-n / np.float32(_TREE_SCALE)))
            return Bound(trees, 1 / 5 + 19 / 10 * epsilon - 2 * epsilon**2, probability)
        case _:
            raise ValueError(
                f'voting must be "threshold" or "probabilistic", got {show_value(voting)}'
            )
