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

from dpbt.common.types import AnyArray, Array
from dpbt.common.validate import shown

Numbers = AnyArray | float
"""A number, or an array of them that broadcasts with the others."""


class Bound(NamedTuple):
    """With `trees` trees, the error is at most `error` with probability at least `probability`.

    All three are arrays, but `error` is a plain number where it follows from plain numbers.
    """

    trees: AnyArray
    error: Any
    probability: Array


class Points(NamedTuple):
    """The answer of each tree for each row when the leaves hold exact counts.

    Attributes:
        weight: f32[k, N]: the share of the rows of the row's leaf that have its label; w_d^T.
        right: bool[k, N]: the leaf's majority label is the row's; ties are positive.
    """

    weight: Array
    right: Array


def points(leaf: Array, label: Array, present: Array, leaves: int) -> Points:
    """Weights and correctness of every row in every tree.

    Args:
        leaf: i32[k, N], from `hypotheses.hypotheses.routes`.
        label: bool[N].
        present: bool[N]; the results for absent rows mean nothing.
        leaves: 2**h.
    """

    def points_of_tree(leaf: Array) -> Points:
        segment = 2 * leaf + label.astype(jnp.int32)
        count = jax.ops.segment_sum(present.astype(jnp.int32), segment, num_segments=2 * leaves)
        same, opposite = count[segment], count[segment ^ 1]
        weight = same.astype(jnp.float32) / jnp.maximum(same + opposite, 1).astype(jnp.float32)
        return Points(weight, jnp.where(label, same >= opposite, same > opposite))

    return jax.vmap(points_of_tree)(leaf)


def _mean_over_rows(values: Array, present: Array) -> Array:
    """f32[...]: the mean of values [..., N] over the rows that are present."""
    counted = jnp.where(present, values.astype(jnp.float32), 0)
    return jnp.sum(counted, axis=-1) / jnp.maximum(jnp.sum(present), 1).astype(jnp.float32)


def goodness(stated: Points) -> Array:
    """f32[N]: sigma(d), the fraction of trees that classify row d correctly.

    Theorem 5.1: its mean over rows is at least e (it equals e). The paper's words ask that *most*
    rows of a leaf have d's label. A tie fulfils this for neither class, and then the theorem fails.
    Its proof counts ties as positive, as this function does.
    """
    return jnp.mean(stated.right.astype(jnp.float32), axis=0)


def weight(stated: Points) -> Array:
    """f32[N]: w_d, the mean over trees of the row's weight.

    Theorem 5.2: its mean is at least e^2 + (1 - e)^2.
    """
    return jnp.mean(stated.weight, axis=0)


def accuracy(stated: Points, present: Array) -> Array:
    """f32[k]: e^i, the fraction of rows that each tree classifies correctly.

    Their mean is e, at least 1/2.
    """
    return _mean_over_rows(stated.right, present)


def fraction_above(values: Array, margin: Numbers, present: Array) -> Array:
    """f32[]: mu, the fraction of rows whose goodness or weight is at least 1/2 + margin."""
    return _mean_over_rows(values >= 0.5 + margin, present)


def _phi(height: Numbers, delta: Numbers, big_k: Numbers) -> AnyArray:
    """The phi of `overfitting`."""
    return delta / (2 * (4 + delta) * jnp.exp2(jnp.asarray(height, jnp.float32)) * big_k)


def overfitting(
    rows: Numbers, trees: Numbers, height: Numbers, delta: Numbers, big_k: Numbers
) -> Array:
    """The probability that all theorems lose on unseen rows.

    It is 2^(h + 3) k exp(-2 n phi^2) with phi = delta / (2 (4 + delta) 2^h K). Consider the leaves
    with n / (2^h K) rows or more, and their shares on n unseen rows and on the training rows. It is
    at least the probability that these differ by more than delta / 2 in some leaf of the forest.
    """
    doublings = jnp.exp2(jnp.asarray(height, jnp.float32) + 3)
    return doublings * trees * jnp.exp(-2 * rows * _phi(height, delta, big_k) ** 2)


def _trees_needed(rows: Numbers, delta: Numbers, big_c: Numbers) -> AnyArray:
    """(1 + C) ln n / (2 delta^2)."""
    variance = 2 * jnp.asarray(delta, jnp.float32) ** 2
    return (1 + big_c) * jnp.log(jnp.asarray(rows, jnp.float32)) / variance


def _almost(rows: Numbers, big_c: Numbers) -> Array:
    """1 - n^-C."""
    return 1 - jnp.asarray(rows, jnp.float32) ** (-jnp.asarray(big_c, jnp.float32))


def _mix(x: Numbers) -> Numbers:
    """2x - 2x^2: one minus the mean weight that an average accuracy of 1 - x guarantees."""
    return 2 * x - 2 * x**2


def _error(voting: str, x: Numbers, margin: Numbers, c: Numbers) -> Numbers:
    """The error of a voting rule whose trees err on x of the rows on average."""
    match voting:
        case "majority":
            return x / (0.5 - margin)
        case "threshold":
            return _mix(x) / (0.5 - margin)
        case "probabilistic":
            return _mix(x) + margin + c
        case _:
            raise ValueError(
                f'voting must be "majority", "threshold" or "probabilistic", got {shown(voting)}'
            )


def _coins(voting: str, rows: Numbers, c: Numbers) -> Array | float:
    """The probability that the coins of a vote stay within c of their mean; 1 without coins."""
    if voting != "probabilistic":
        return 1.0
    return 1 - jnp.exp(-2 * rows * jnp.asarray(c, jnp.float32) ** 2)


def by_points(
    mu: Numbers,
    rows: Numbers,
    delta: Numbers,
    big_c: Numbers,
    *,
    height: Numbers | None = None,
    big_k: Numbers | None = None,
) -> Bound:
    """Theorem 5.3: without privacy, error at most 1 - mu (majority voting and threshold averaging).

    Args:
        mu: the fraction of rows with goodness (majority) or weight (threshold) at least 1/2 +
            delta, or 1/2 + delta + 1/K for unseen rows: see `fraction_above`.
        rows: n.
        delta: in (0, 1/2).
        big_c: C; the empirical error's probability is 1 - n^-C.
        height: h, with `big_k`, for the generalisation error; leave both out for the empirical
            error.
        big_k: K.
    """
    error = 1 - jnp.asarray(mu, jnp.float32)
    return _without_privacy(error, 1.0, rows, delta, big_c, height, big_k)


def _without_privacy(
    error: Any,
    coins: Array | float,
    rows: Numbers,
    delta: Numbers,
    big_c: Numbers,
    height: Numbers | None,
    big_k: Numbers | None,
) -> Bound:
    """The bound on an error; for unseen rows it takes more trees, and has a smaller probability."""
    seen = _almost(rows, big_c) * coins
    if height is None or big_k is None:
        return Bound(_trees_needed(rows, delta, big_c), error, seen)
    trees = _trees_needed(rows, delta / 2, big_c)
    return Bound(trees, error, seen - overfitting(rows, trees, height, delta, big_k))


def by_accuracy(
    voting: str,
    epsilon: Numbers,
    rows: Numbers,
    delta: Numbers,
    big_c: Numbers,
    *,
    c: Numbers = 0.0,
    height: Numbers | None = None,
    big_k: Numbers | None = None,
) -> Bound:
    """Theorems 5.4 (majority, threshold) and 5.5 (probabilistic; 8.1): by the accuracy alone.

    They are without privacy, and read the average accuracy of the trees. The error is

    - epsilon / (1/2 - delta) for majority voting,
    - (2 epsilon - 2 epsilon^2) / (1/2 - delta) for threshold averaging,
    - 2 epsilon - 2 epsilon^2 + delta + c for probabilistic averaging.

    For unseen rows epsilon + 1/K takes the place of epsilon.

    Args:
        voting: the rule.
        epsilon: one minus the average tree accuracy.
        rows: n.
        delta: as `by_points`.
        big_c: as `by_points`.
        c: the coins' margin (probabilistic), in (0, 1).
        height: as `by_points`.
        big_k: as `by_points`.
    """
    light = 0.0 if height is None or big_k is None else 1 / big_k
    error, coins = _error(voting, epsilon + light, delta, c), _coins(voting, rows, c)
    return _without_privacy(error, coins, rows, delta, big_c, height, big_k)


def _noisy(
    rows: Numbers,
    trees: Numbers,
    eta: Numbers,
    height: Numbers,
    delta: Numbers,
    big_k: Numbers,
    proved: bool,
) -> Array:
    """The sum over rows of the probability that noise and bad luck misclassify a good row."""
    trees, rows = jnp.asarray(trees, jnp.float32), jnp.asarray(rows, jnp.float32)
    rate = delta / (24 * big_k * jnp.exp2(jnp.asarray(height, jnp.float32)))
    luck = jnp.exp(-trees * delta**2 / 2)
    if proved:
        noise = 2 * trees * jnp.exp(-rate * jnp.sqrt(rows) * eta / trees)
        return rows * (luck + jnp.exp(-rows / 2) + noise)
    return rows * (luck + jnp.exp(-trees / 2) + trees * jnp.exp(-rate * rows * eta / trees))


def private_by_points(
    voting: str,
    mu: Numbers,
    rows: Numbers,
    trees: Numbers,
    eta: Numbers,
    delta: Numbers,
    *,
    height: Numbers,
    big_k: Numbers,
    unseen: bool = False,
    proved: bool = False,
) -> Bound:
    """Theorem 5.6: an eta-private forest of k trees has error at most 1 - mu (majority, threshold).

    mu is the fraction of rows with goodness or weight at least 1/2 + delta + 1/K, or 1/2 + delta +
    2/K for unseen rows.

    One minus the probability is printed as n (e^(-k delta^2 / 2) + e^(-k / 2) + k e^(-lambda n eta
    / k)) with lambda = delta / (24 K 2^h). The proof ends in n (e^(-k delta^2 / 2) + e^(-n / 2) + 2
    k e^(-lambda sqrt(n) eta / k)), and Theorem 5.7 uses this form; `proved` selects it. The proof
    also assumes that each point's weight loses at most 1/K when light leaves are left out. That
    holds only on average over points.

    Args:
        voting: "majority" or "threshold".
        mu: as above; or a lower bound on it, from `private_by_accuracy`.
        rows: n.
        trees: k.
        eta: the privacy parameter.
        delta: in (0, 1/2).
        height: h.
        big_k: K.
        unseen: bound the generalisation error instead of the empirical one.
        proved: compute the probability that the proof ends in.
    """
    if voting not in ("majority", "threshold"):
        raise ValueError(f'voting must be "majority" or "threshold", got {shown(voting)}')
    probability = 1 - _noisy(rows, trees, eta, height, delta, big_k, proved)
    if unseen:
        probability -= overfitting(rows, trees, height, delta, big_k)
    return Bound(jnp.asarray(trees, jnp.float32), 1 - jnp.asarray(mu, jnp.float32), probability)


def private_by_accuracy(
    voting: str,
    epsilon: Numbers,
    rows: Numbers,
    trees: Numbers,
    eta: Numbers,
    delta: Numbers,
    *,
    height: Numbers,
    big_k: Numbers,
    c: Numbers = 0.0,
    unseen: bool = False,
    proved: bool = False,
) -> Bound:
    """Theorems 5.6, last sentence, and 5.8 (probabilistic; 8.2): by the average accuracy alone.

    The error is

    - epsilon / (1/2 - delta - 1/K) for majority voting,
    - (2 epsilon - 2 epsilon^2) / (1/2 - delta - 1/K) for threshold averaging,
    - 2 x - 2 x^2 + delta + c with x = epsilon + 1/K for probabilistic averaging.

    For unseen rows 2/K takes the place of 1/K. The first two are infinite where delta + 1/K (or
    2/K) is 1/2 or more.

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
        unseen: as `private_by_points`.
        proved: as `private_by_points`.
    """
    light = (2 if unseen else 1) / big_k
    if voting == "probabilistic":
        error = _error(voting, epsilon + light, delta, c)
    else:
        margin = delta + light
        error = jnp.where(
            margin < 0.5, _error(voting, epsilon, jnp.minimum(margin, 0.499999), c), jnp.inf
        )
    kept = (1 - _noisy(rows, trees, eta, height, delta, big_k, proved)) * _coins(voting, rows, c)
    if unseen:
        kept -= overfitting(rows, trees, height, delta, big_k)
    return Bound(jnp.asarray(trees, jnp.float32), jnp.asarray(error), kept)


_SLOW = 200.0
"""2 / delta^2 of Theorems 5.7 and 5.9, where delta = 1/10."""


def _exponent(rows: Numbers, eta: Numbers, height: Numbers) -> Array:
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
    g = _exponent(rows, eta, height)
    drop = math.log(-math.expm1(-1 / _SLOW))

    def enough(k: Array) -> Array:
        x = g / (k * (k + 1))
        rise = math.log(2) - g / (k + 1) + jnp.log1p(-k * jnp.expm1(-x))
        return rise >= drop - k / _SLOW

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) // 2
        good = enough(middle.astype(jnp.float32))
        return jnp.where(good, low, middle + 1), jnp.where(good, middle, high)

    low = jnp.ones_like(g, jnp.int32)
    return jax.lax.fori_loop(0, 25, halve, (low, jnp.full_like(low, 2**24)))[1]


def at_best_trees(
    voting: str, epsilon: Numbers, rows: Numbers, eta: Numbers, height: Numbers
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
    lost = n * (
        jnp.exp(-k / _SLOW) + 2 * k * jnp.exp(-_exponent(rows, eta, height) / k) + jnp.exp(-n / 2)
    )
    epsilon = jnp.asarray(epsilon, jnp.float32)
    match voting:
        case "threshold":
            return Bound(trees, 1 / 8 + 9 / 2 * epsilon - 5 * epsilon**2, 1 - lost)
        case "probabilistic":
            # The paper prints 1 - n(...)(1 - e^(-n/200)); its proof multiplies two probabilities.
            kept = (1 - lost) * (1 - jnp.exp(-n / np.float32(_SLOW)))
            return Bound(trees, 1 / 5 + 19 / 10 * epsilon - 2 * epsilon**2, kept)
        case _:
            raise ValueError(f'voting must be "threshold" or "probabilistic", got {shown(voting)}')
