"""Calculators of the bounds of Asadi et al. (2022) and Bun et al. (2020), in natural logarithms."""

import math
from typing import NamedTuple

import numpy as np

from dpbt.common.validate import check_interval


def theorem_24_rounds(advantage: float, density: float) -> int:
    """Bun et al. (2020), Theorem 24: T = 16 log(1 / kappa) / gamma^2, with lambda = gamma / 4.

    The rounds have weak hypotheses of advantage gamma over their measures. After that many rounds,
    all but a kappa fraction of the training rows have a normalised margin above gamma. This is a
    guarantee of accuracy, not of privacy.

    Args:
        advantage: gamma, in (0, 1/2].
        density: kappa, in (0, 1).

    Raises:
        ValueError: outside these ranges.
    """
    check_interval("advantage", advantage, "(0, 0.500000000001)")
    check_interval("density", density, "(0, 1)")
    return math.ceil(16 * math.log(1 / density) / advantage**2)


class RowOrders(NamedTuple):
    """How many rows privacy needs and how many accuracy needs, but for constants."""

    privacy: float
    accuracy: float

    @property
    def total(self) -> float:
        """Their sum."""
        return self.privacy + self.accuracy


def theorem_30_rows(
    *,
    alpha: float,
    beta: float,
    tau: float,
    epsilon: float,
    delta: float,
    constant: float = 1.0,
) -> RowOrders:
    """Bun et al. (2020), Theorem 30: the orders of the rows that HS-StL needs.

    - privacy: sqrt(log(1/alpha) log(1/delta) log(log(1/alpha) / (beta tau^2))) / (epsilon alpha
      tau^2)
    - accuracy: log(1/(tau alpha)) log(1/alpha) / (alpha^2 tau^2) + log(1/beta) / (kappa tau), with
      kappa = alpha / 4

    The theorem is an Omega without constants, so this is a scale and not a number of rows.
    `halfspace_rows_for` is exact.

    Raises:
        ValueError: unless alpha, beta, tau, delta are in (0, 1) and epsilon is positive.
    """
    for name, value in {"alpha": alpha, "beta": beta, "tau": tau, "delta": delta}.items():
        check_interval(name, value, "(0, 1)")
    check_interval("epsilon", epsilon, "(0, inf)")
    log_alpha = math.log(1 / alpha)
    inner = max(math.log(log_alpha / (beta * tau**2)), 0.0)
    privacy = math.sqrt(log_alpha * math.log(1 / delta) * inner) / (epsilon * alpha * tau**2)
    failure = 4 * math.log(1 / beta) / (alpha * tau)
    accuracy = math.log(1 / (tau * alpha)) * log_alpha / (alpha * tau) ** 2 + failure
    return RowOrders(privacy=constant * privacy, accuracy=constant * accuracy)


def halfspace_fat_dimension(margin: float) -> float:
    """Bun et al. (2020), Lemma 29: 4 / gamma^2, at most so many points are gamma-shattered.

    It is of the functions z . x with |z| of at most 2, on the unit ball.
    """
    check_interval("margin", margin, "(0, inf)")
    return 4 / margin**2


def theorem_28_error(
    *, small_margins: int, rows: int, dimension: float, beta: float, as_printed: bool = False
) -> float:
    """Bun et al. (2020), Theorem 28: a bound on the test error by the training margins.

    With probability 1 - beta it is k/n + sqrt((2/n) (d ln(34 e n / d) log2(578 n) + ln(4/beta))).
    Here k of n rows have a margin below gamma, and d is the fat-shattering dimension at gamma / 16.
    The print has ln(4/beta) outside of the factor 2/n. The root is then above 1 for every beta, so
    that the theorem says nothing. The base of its last logarithm is not printed; with 2 the bound
    is the larger one.

    Args:
        small_margins: k.
        rows: n.
        dimension: d; `halfspace_fat_dimension(gamma / 16)` for halfspaces.
        beta: in (0, 1); the text has delta.
        as_printed: the bound as it is printed.

    Raises:
        ValueError: outside these ranges.
    """
    check_interval("beta", beta, "(0, 1)")
    check_interval("rows", rows, "[1, inf)")
    check_interval("dimension", dimension, "(0, inf)")
    check_interval("small_margins", small_margins, f"[0, {rows}]")
    capacity = dimension * math.log(34 * math.e * rows / dimension) * math.log2(578 * rows)
    failure = math.log(4 / beta)
    inner = 2 / rows * capacity + failure if as_printed else 2 / rows * (capacity + failure)
    return small_margins / rows + math.sqrt(max(inner, 0.0))


class TransferBound(NamedTuple):
    """What privacy proves of the distance between training and test error.

    Attributes:
        gap: the errors differ by less than this.
        failure: but for this probability.
        rows: for at least so many rows.
    """

    gap: float
    failure: float
    rows: int


def theorem_19_transfer(epsilon: float, delta: float) -> TransferBound:
    """Bun et al. (2020), Theorem 19: an (epsilon, delta)-DP choice of a query does not overfit.

    It is 18 epsilon, but for a probability of delta / epsilon, from log(4 epsilon / delta) /
    epsilon^2 rows on. So it says nothing for an epsilon of 1/18 or more.

    Args:
        epsilon: in (0, 1/3).
        delta: in (0, epsilon / 4).

    Raises:
        ValueError: outside these ranges.
    """
    check_interval("epsilon", epsilon, f"(0, {1 / 3})")
    check_interval("delta", delta, f"(0, {epsilon / 4})")
    rows = math.ceil(math.log(4 * epsilon / delta) / epsilon**2)
    return TransferBound(gap=18 * epsilon, failure=delta / epsilon, rows=rows)


def margin_accuracy(margins: np.ndarray, rademacher: float, delta: float = 0.05) -> float:
    """The best lower bound on test accuracy of the margin theory of voting classifiers.

    With probability 1 - delta over n rows, for a fixed theta: P(wrong) <= P(margin <= theta on the
    sample) + 2 R / theta + 3 sqrt(log(2/delta) / (2 n)). Here R is the empirical complexity. The
    bound is in Mohri, Rostamizadeh & Talwalkar (2018), chapter 5, after Koltchinskii & Panchenko
    (2002).

    The best of 100 thetas is taken, with delta shared among them. Table 11 of Asadi et al. (2022)
    does not say which form it uses.

    Args:
        margins: f[N], normalised margins in [-1, 1] on the training rows.
        rademacher: R, the empirical Rademacher complexity of the base class
            (`diagnostics.rademacher_complexity`).
        delta: in (0, 1).
    """
    check_interval("delta", delta, "(0, 1)")
    margins = np.asarray(margins, np.float64)
    thetas = np.linspace(0.01, 1.0, 100)
    slack = 3 * math.sqrt(math.log(2 * len(thetas) / delta) / (2 * len(margins)))
    wrong = [np.mean(margins <= theta) + 2 * rademacher / theta + slack for theta in thetas]
    return 1 - float(min(wrong))
