"""Symmetric proper losses: Bayes risk, canonical link, inverse link, surrogate, perspective.

The conventions are those of Nock & Henecka (2020), sections 2 to 4:

- The Bayes risk L is normalised to L(0) = L(1) = 0 and L(1/2) = 1.
- The canonical link is -L'.
- The surrogate F(z) is the convex conjugate of -L at -z, so inverse_link(-z) = -F'(z).
- The perspective is f(w1, w0) = (w1 + w0) L(w1 / (w1 + w0)).

A loss of your own is one `ProperLoss`. Sensitivity, splits and boosting follow from it.
"""

import contextlib
import functools
import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.scipy.special import xlogy

from dpbt.common.arithmetic import (
    LN2,
    log_loss_probability,
    matsushita_loss_probability,
    square_loss_probability,
)
from dpbt.common.validate import check_interval, show_value
from dpbt.types import Array, LossFamily, Numbers, ProperLoss


def m_alpha(alpha: Numbers) -> ProperLoss:
    """The M-alpha loss: alpha times Matsushita's loss plus (1 - alpha) times the 0/1 loss.

    Nock & Henecka (2020), Definition 6 and Theorem 8, equations (86), (87), (103), (105). Beyond
    the flat part, the second derivative of the surrogate is
    2 alpha^2 / (4 alpha^2 + (|z| - 2(1-alpha))^2)^(3/2). That is half of what their equation (133)
    says, so its supremum is 1 / (4 alpha).

    At u = 1/2 the link is 0, one element of the subdifferential [-2(1-alpha), 2(1-alpha)]. The
    inverse link is 1/2 for |z| <= 2(1-alpha), at alpha = 0 too. On this flat part it does not order
    scores, so `probability` is the inverse link of Matsushita's loss for every alpha.

    Args:
        alpha: a number in [0, 1], possibly traced. At 1 it is Matsushita's loss, at 0 the 0/1 loss.
    """

    def link(u: Numbers) -> Array:
        curved = (2 * u - 1) / jnp.sqrt(jnp.maximum(u * (1 - u), 1e-30))
        return alpha * curved + 2 * (1 - alpha) * jnp.sign(2 * u - 1)

    def excess(z: Numbers) -> Array:
        """The distance of |z|/2 beyond the flat part of the inverse link; 0 on it."""
        return jnp.maximum(jnp.abs(z) / 2 - (1 - alpha), 0)

    def inverse_link(z: Numbers) -> Array:
        beyond = excess(z)
        norm = jnp.hypot(jnp.asarray(alpha, beyond.dtype), beyond)
        ratio = jnp.where(beyond > 0, beyond / jnp.where(beyond > 0, norm, 1), 0)
        return (1 + jnp.sign(z) * ratio) / 2

    def surrogate(z: Numbers) -> Array:
        beyond = excess(z)
        return 1 - z / 2 + jnp.hypot(jnp.asarray(alpha, beyond.dtype), beyond) - alpha

    def perspective(w1: Numbers, w0: Numbers) -> Array:
        return 2 * alpha * jnp.sqrt(w1 * w0) + 2 * (1 - alpha) * jnp.minimum(w1, w0)

    return ProperLoss(
        name="m_alpha",
        bayes_risk=lambda u: perspective(u, 1 - u),
        link=link,
        inverse_link=inverse_link,
        surrogate=surrogate,
        perspective=perspective,
        smoothness=_smoothness_of_m_alpha(alpha),
        probability=matsushita_loss_probability,
    )


def _smoothness_of_m_alpha(alpha: Numbers) -> Numbers:
    """The largest second derivative of M-alpha's surrogate, 1 / (4 alpha).

    It is infinite at alpha = 0.
    """
    if isinstance(alpha, Tracer):
        return 0.25 / alpha
    with np.errstate(divide="ignore"):
        return np.divide(0.25, alpha)


def _ratio_or_zero(numerator: Array, denominator: Array) -> Array:
    """The ratio of class weights; 0 if the denominator is far below a grid unit."""
    large = denominator > 1e-20
    return jnp.where(large, numerator / jnp.where(large, denominator, 1), 0)


square = ProperLoss(
    name="square",
    bayes_risk=lambda u: 4 * u * (1 - u),
    link=lambda u: 8 * u - 4,
    inverse_link=square_loss_probability,
    surrogate=lambda z: jnp.where(jnp.abs(z) <= 4, (z - 4) ** 2 / 16, jnp.maximum(-z, 0)),
    perspective=lambda w1, w0: 4 * _ratio_or_zero(w1 * w0, w1 + w0),
    smoothness=1 / 8,
)
"""The square loss, whose Bayes risk is Gini's criterion 4u(1-u)."""


def _log_perspective(w1: Numbers, w0: Numbers) -> Array:
    # Sums of positive terms: differences of w log w would lose the digits that one row moves.
    """The perspective of the log loss, in bits, of the weights of both classes."""
    return (w1 * jnp.log1p(_ratio_or_zero(w0, w1)) + w0 * jnp.log1p(_ratio_or_zero(w1, w0))) / LN2


log = ProperLoss(
    name="log",
    bayes_risk=lambda u: -(xlogy(u, u) + xlogy(1 - u, 1 - u)) / LN2,
    link=lambda u: jnp.log2(u / (1 - u)),
    inverse_link=log_loss_probability,
    surrogate=lambda z: jnp.logaddexp(-z * LN2, 0) / LN2,
    perspective=_log_perspective,
    smoothness=LN2 / 4,
)
"""The log loss in bits, whose Bayes risk is the binary entropy (information gain)."""

matsushita = m_alpha(1.0)._replace(name="matsushita")
"""Matsushita's loss, 2 sqrt(u(1-u)): the fastest boosting rate and the largest sensitivity."""

zero_one = m_alpha(0.0)._replace(name="zero_one", smoothness=math.inf)
"""The 0/1 loss, 2 min(u, 1-u): the smallest sensitivity.

Its surrogate has kinks, so it cannot be boosted.
"""


def loss_family_of_loss_or_name(
    loss: ProperLoss | LossFamily | str, argument_name: str = "loss"
) -> LossFamily:
    """The loss family of a loss, of a family, or of a name in `NAMED`.

    One loss makes the family whose members are all that loss.

    Args:
        loss: a loss, a family of losses, or a name in `NAMED`.
        argument_name: of the argument, for errors.

    Raises:
        ValueError: for anything that is neither a loss nor a family, and for a loss whose name is
            no text or whose smoothness is an array.
    """
    loss_or_family: Any = NAMED.get(loss, loss) if isinstance(loss, str) else loss
    with contextlib.suppress(TypeError):  # families are cached, so a loss must be hashable
        family = (
            constant_loss_family(loss_or_family)
            if isinstance(loss_or_family, ProperLoss)
            else loss_or_family
        )
        if isinstance(family(np.float32(1)), ProperLoss):
            return family
    expected = f"one of {sorted(NAMED)}, a loss of plain fields or a family of losses by alpha"
    raise ValueError(f"{argument_name} must be {expected}, got {show_value(loss)}")


@functools.cache
def constant_loss_family(loss: ProperLoss) -> LossFamily:
    """A family of losses whose member for every alpha is one loss.

    It is cached by the loss.
    """

    def family(alpha: Numbers) -> ProperLoss:
        return loss

    family.__name__ = loss.name
    return family


_ALPHAS = (0.0, 0.25, 0.5, 1.0)
_WEIGHTS = np.asarray([0, 1 / 127, 0.1, 0.5, 1, 3, 10, 100, 3000, 40_000])
_SHARES = np.linspace(0, 1, 513)
_SCORES = np.linspace(-8, 8, 513)
_MAX_PERSPECTIVE_ERROR = 2.0**-42
"""The float64 error that a perspective may have, relative to its weight."""

_MAX_ERROR = 2e-3
"""The float32 error that values and slopes on a grid may have, relative to 1 plus their size."""

PropertyChecks = Mapping[str, Any]
"""A property in words -> whether it holds, at each point of a grid."""


@functools.cache
def check_perspective_of_family(family: LossFamily) -> None:
    """Refuse a family whose perspective lacks a property that scoring splits assumes.

    The properties are tested on a grid.

    Sensitivities of splits assume that a perspective f is 0 where one class has no weight,
    symmetric, homogeneous of degree one, non-decreasing in each weight and concave
    (`sensitivity.max_split_score_change`), and that it is the one of the Bayes risk L, with L(1/2)
    = 1. Splits are scored in float64, where this must hold up to 2^-42 of the weight. A grid cannot
    prove these properties; the author of a loss must.

    Raises:
        ValueError: naming the loss, its alpha and the property that fails.
    """
    _check_properties_of_members(
        family, _test_perspective_properties, ", so no sensitivity is known for its splits"
    )


@functools.cache
def check_links_of_family(family: LossFamily) -> None:
    """Refuse a family whose links, risk or surrogate lack a property that boosting assumes.

    The properties are tested on a grid.

    The link must be -L' for the Bayes risk L, and the inverse link must undo it where it increases.
    The surrogate F must have F'(z) = -inverse_link(-z) and F(0) = 1, and the smoothness must be the
    supremum of F''. A loss is not boosted where its smoothness is infinite, so nothing else is
    checked there.

    Raises:
        ValueError: naming the loss, its alpha and the property that fails.
    """
    _check_properties_of_members(family, _test_link_properties, "")


def _check_properties_of_members(
    family: LossFamily, check_properties: Callable[[ProperLoss], PropertyChecks], consequence: str
) -> None:
    """Refuse a family with a member that lacks a property.

    The families of dpbt are not tested.

    Args:
        family: losses by alpha.
        check_properties: loss -> its properties; a loss that lacks one is refused in its words.
        consequence: the end of the error.

    Raises:
        ValueError: naming the member and the property.
    """
    for alpha in () if _is_predefined(family) else _ALPHAS:
        loss = family(alpha)
        for words, holds in check_properties(loss).items():
            if not np.all(holds):
                raise ValueError(f"the loss {loss.name} at alpha = {alpha:g}: {words}{consequence}")


def _evaluate_loss_function_on_grids(
    loss: ProperLoss, field_name: str, *grids: np.ndarray, dtype: Any = "float32"
) -> np.ndarray:
    """Evaluate one function of a loss on the points of grids, one grid for each argument.

    Raises:
        ValueError: naming the field, unless it is a function that keeps the shape of its arguments.
    """
    function, values = getattr(loss, field_name), None
    with jax.enable_x64(dtype == "float64"), contextlib.suppress(TypeError):
        values = function(*(jnp.asarray(grid, dtype) for grid in grids))
    if values is None or np.shape(values) != grids[0].shape:
        raise ValueError(
            f"{field_name} of {loss.name} must be a function that keeps shapes, got "
            f"{show_value(function)}"
        )
    return np.asarray(values)


def _test_perspective_properties(loss: ProperLoss) -> PropertyChecks:
    """Test, on a grid, each property of the perspective that scoring splits assumes."""
    perspective = functools.partial(
        _evaluate_loss_function_on_grids, loss, "perspective", dtype="float64"
    )

    # The perspective on the grid, and the error that float64 may make there.
    w1, w0 = (grid.ravel() for grid in np.meshgrid(_WEIGHTS, _WEIGHTS, indexing="ij"))
    values, slack = perspective(w1, w0), _MAX_PERSPECTIVE_ERROR * (w1 + w0)
    is_pure, total = (w1 == 0) | (w0 == 0), np.maximum(w1 + w0, 1e-30)
    risk = _evaluate_loss_function_on_grids(loss, "bayes_risk", np.minimum(w1, w0) / total)

    # Concavity is checked at the middle of every pair of points.
    first, second = np.triu_indices(len(w1), 1)
    middle = perspective((w1[first] + w1[second]) / 2, (w0[first] + w0[second]) / 2)
    with np.errstate(all="ignore"):
        chord = (values[first] + values[second]) / 2 - slack[first] - slack[second]
        properties = {
            "computed in float64 where its arguments are float64": values.dtype == np.float64,
            "finite": np.isfinite(values),
            "0 where one class has no weight": np.abs(values[is_pure]) <= slack[is_pure],
            "symmetric": np.abs(values - perspective(w0, w1)) <= slack,
            "positive anywhere": np.any(values > slack),
            "homogeneous of degree one": np.abs(perspective(3 * w1, 3 * w0) / 3 - values) <= slack,
            "non-decreasing in each weight": perspective(w1 + 1, w0)
            >= values - slack - _MAX_PERSPECTIVE_ERROR,
            "concave": middle >= chord,
            "that of bayes_risk, (w1 + w0) L(w1 / (w1 + w0))": _is_equal_up_to_rounding(
                values / total, risk
            ),
            "1 where both classes weigh 1/2": _is_equal_up_to_rounding(
                values[(w1 == 0.5) & (w0 == 0.5)], 1
            ),
        }
    return {f"the perspective is not {words}": holds for words, holds in properties.items()}


def _is_within_up_to_rounding(values: Any, low: Any, high: Any) -> Any:
    """Whether each value is in low..high, up to the rounding error of float32."""
    slack = _MAX_ERROR * (1 + np.abs(values))
    return (values >= low - slack) & (values <= high + slack)


def _is_equal_up_to_rounding(values: Any, expected: Any) -> Any:
    """Whether each value is the expected one, up to the rounding error of float32."""
    return _is_within_up_to_rounding(values, expected, expected)


def _test_link_properties(loss: ProperLoss) -> PropertyChecks:
    """Test the properties that boosting assumes of a loss.

    There are none if its smoothness is infinite.
    """
    smoothness = check_interval(f"smoothness of {loss.name}", loss.smoothness, "(0, inf]")
    if not np.isfinite(smoothness).all():
        return {}
    return {**_test_bayes_risk_properties(loss), **_test_surrogate_properties(loss, smoothness)}


def _test_bayes_risk_properties(loss: ProperLoss) -> PropertyChecks:
    """Test, on a grid, the Bayes risk L, its link, and whether the inverse link undoes the link.

    L is concave, so its slope over a step lies between the slopes at the ends; kinks are no errors.
    """
    risk, inner_shares = (
        _evaluate_loss_function_on_grids(loss, "bayes_risk", _SHARES),
        _SHARES[1:-1],
    )
    link = _evaluate_loss_function_on_grids(loss, "link", inner_shares)
    risk_slope = np.diff(risk[1:-1]) / np.diff(inner_shares)

    # The inverse is compared where the link increases on both sides.
    is_rising = np.diff(link) > 1e-3
    compared = np.flatnonzero(is_rising[:-1] & is_rising[1:]) + 1
    shares_of_links = _evaluate_loss_function_on_grids(loss, "inverse_link", link[compared])

    is_normalised = _is_equal_up_to_rounding(risk[[0, -1]], 0) & _is_equal_up_to_rounding(
        risk[len(risk) // 2], 1
    )
    return {
        "bayes_risk must be 0 at the ends and 1 at u = 1/2": is_normalised,
        "bayes_risk must be finite and symmetric": _is_equal_up_to_rounding(risk, risk[::-1]),
        "link must be minus the slope of bayes_risk": _is_within_up_to_rounding(
            -risk_slope, link[:-1], link[1:]
        ),
        "inverse_link must undo link": _is_equal_up_to_rounding(
            shares_of_links, inner_shares[compared]
        ),
    }


def _test_surrogate_properties(loss: ProperLoss, smoothness: np.ndarray) -> PropertyChecks:
    """Test, on a grid, the inverse link, the surrogate F, its smoothness and the probability.

    F is convex, so its slope over a step lies between the slopes at the ends; kinks are no errors.
    """
    inverse_link, surrogate = (
        _evaluate_loss_function_on_grids(loss, name, _SCORES)
        for name in ("inverse_link", "surrogate")
    )
    step, expected_slope = np.diff(_SCORES), -inverse_link[::-1]
    surrogate_slope = np.diff(surrogate) / step

    # A peak as narrow as a step may be higher than the grid shows.
    max_slope = float(np.max(np.diff(inverse_link) / step))
    max_smoothness = 2 * max_slope if max_slope * step[0] < 0.1 else np.inf
    smoothness_words = (
        f"largest slope of inverse_link, about {max_slope:.3g}, got {show_value(loss.smoothness)}"
    )

    probability = inverse_link
    if loss.probability is not None:
        probability = _evaluate_loss_function_on_grids(loss, "probability", _SCORES)
    highest_before = np.maximum.accumulate(np.maximum(probability, 0))
    return {
        "inverse_link must be in [0, 1]": _is_within_up_to_rounding(inverse_link, 0, 1),
        "the slope of surrogate at z must be -inverse_link(-z)": _is_within_up_to_rounding(
            surrogate_slope, expected_slope[:-1], expected_slope[1:]
        ),
        "surrogate must be 1 at z = 0": _is_equal_up_to_rounding(surrogate[len(surrogate) // 2], 1),
        f"smoothness must be the {smoothness_words}": _is_within_up_to_rounding(
            smoothness, 0.98 * max_slope, max_smoothness
        ),
        "probability must be in [0, 1] and increase with the score": _is_within_up_to_rounding(
            probability, highest_before, 1
        ),
    }


def _is_predefined(family: LossFamily) -> bool:
    """Whether a loss family is one of dpbt's own."""
    return family in (m_alpha, *map(constant_loss_family, (square, log, matsushita, zero_one)))


@functools.cache
def unique_family_name(family: LossFamily) -> str:
    """A name of a loss family that tells families apart, for identities.

    It is the name of the loss, followed by a digest of its values if the family is not dpbt's.
    """
    name = family(0.5).name
    if _is_predefined(family):
        return name
    points, values = jnp.asarray(np.linspace(0.01, 0.99, 99), jnp.float32), []
    for loss in map(family, _ALPHAS):
        values += np.asarray(loss.perspective(points, 1 - points)).tolist()
        if loss.inverse_link is not None:  # a loss that only scores splits may have none
            values += np.asarray(loss.inverse_link(points - 0.2)).tolist()
    text = " ".join(f"{value:.6g}" for value in values)
    return f"{name} {hashlib.sha256(text.encode()).hexdigest()[:8]}"


NAMED: dict[str, ProperLoss | LossFamily] = {
    "m_alpha": m_alpha,
    "matsushita": matsushita,
    "gini": square,
    "information_gain": log,
    "error": zero_one,
}
"""The losses and the family of losses that recipes take by the name of their criterion."""
