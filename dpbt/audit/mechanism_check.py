"""A check of a mechanism: its sampler against its density, its density against its price.

All outcomes that occur are listed, so the laws of one draw are sums over outcomes. A check on some
values and scales finds mistakes. It proves nothing about other values.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats

from dpbt.audit.check_report import CheckLine, CheckReport, report_or_fail
from dpbt.common.validate import check_interval, check_positive_integer
from dpbt.privacy.conversions import Cost
from dpbt.privacy.keys import check_single_key, research_key
from dpbt.privacy.mechanism_types import Mechanism
from dpbt.types import Array

FALSE_ALARM_PROBABILITY = 1e-9
"""About the probability that a correct sampler fails on one output of one value."""

ROUNDING = 1e-3
"""Losses L of float32 densities may be above the truth by `ROUNDING` (1 + L)."""

MAX_OUTCOMES = 2**16
"""The largest range of whole numbers whose masses are added up."""

_NUM_CELLS = 30
"""The number of cells of about equal mass that outcomes are counted in."""

_GRID_POINTS = 4001
"""The number of points at which a density of real outputs is integrated."""

_ORDERS = (1.5, 2.0, 8.0, 32.0)
"""The orders at which Renyi divergences are compared with the zCDP cost."""

_EPSILONS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
"""The epsilons at which the delta of two laws is compared with that of the Gaussian curve."""


def check_mechanism(
    mechanism: Mechanism,
    pairs: Sequence[tuple[Any, Any]],
    *,
    scales: float | Sequence[float],
    num_draws: int = 20_000,
    key: Array | None = None,
) -> CheckReport:
    """Check the sampler, the density and the price of a mechanism.

    They are checked on pairs of values, each pair at each scale of noise.

    - The sampler: outcomes are as frequent as the density says, by a chi-squared test of each
      output of the first value of a pair.
    - The density: over all outcomes that occur, no log ratio of a pair is above its `divergence`,
      and no Renyi divergence above its zCDP cost.
    - The price: the `divergence` of a pair is at most the cost of its distance at the scale. For a
      Gaussian price the deltas of the two laws are at most those of mu, too.

    The distance of a pair is in the norm of the price. For the norm "range", a mechanism whose
    densities have one axis less than its value selects, and else each entry is an output of its
    own. Choose pairs that attain the price, and scales at which noise shows: neither 0, nor so wide
    that whole numbers spread over more than `MAX_OUTCOMES`.

    Args:
        mechanism: outputs are whole numbers, Booleans or real numbers.
        pairs: (value, other value), arrays of one shape and type, as `sample` takes them.
        scales: of the noise; positive numbers, or one.
        num_draws: the number of samples for each pair and scale.
        key: a typed key; by default the research key of seed 0.

    Returns:
        The report, whose text is a table. The figure of the sampler is the smallest p-value, and
        those of the density and the price are the largest ratios to their limits.

    Raises:
        CheckError: with the report, if one of these does not hold.
        ValueError: naming the argument, and for outcomes that spread too far.
    """
    if not isinstance(mechanism, Mechanism):
        raise ValueError(f"mechanism must be a Mechanism, got {type(mechanism).__name__}")
    num_draws = check_positive_integer("num_draws", num_draws)
    scale_list = np.ravel(check_interval("scales", scales, "(0, inf)")).tolist()
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise ValueError("pairs must be a list of pairs, each of a value and the other value")
    if not scale_list or not len(pairs):
        raise ValueError("pairs and scales must hold at least one entry each")
    case_key = research_key(0) if key is None else key
    check_single_key(case_key)

    cases = []
    for pair_number, pair in enumerate(pairs):
        value, other = map(jnp.asarray, pair)
        if value.shape != other.shape or value.dtype != other.dtype:
            raise ValueError("the two values of a pair must have one shape and one type")
        for scale in scale_list:
            case_key = jax.random.fold_in(case_key, len(cases))
            laws = _sample_and_evaluate_laws(
                mechanism, case_key, value=value, other=other, scale=scale, draws=num_draws
            )
            where = f"pair {pair_number}, scale {scale:g}"
            cases.append(
                _ratios_of_laws(mechanism, laws, value, other, scale)._replace(where=where)
            )
    return report_or_fail(f"mechanism {mechanism.name}", _check_lines_of_worst_cases(cases))


class _Laws(NamedTuple):
    """The densities of a pair of values on a list of outcomes, and samples of the first.

    There are n outputs.

    Attributes:
        outcomes: [O], all of them in order.
        widths: f64[O], 1 for whole numbers, or the weights of an integral.
        log_prob: f64[O, n], of the value.
        other_log_prob: f64[O, n], of the other value.
        samples: [draws, n], of the value.
    """

    outcomes: np.ndarray
    widths: np.ndarray
    log_prob: np.ndarray
    other_log_prob: np.ndarray
    samples: np.ndarray


class _Case(NamedTuple):
    """The figures that a pair of values has at a scale, one for each checked property.

    Attributes:
        where: the pair and the scale.
        p_value: the smallest p-value of an output.
        mass: the largest sum of the masses of an output.
        loss: (largest log ratio) / (pure divergence); 0 where there is none.
        renyi: the largest Renyi divergence over its limit by the zCDP divergence.
        price: the largest ratio of the divergence to the cost.
        curve: the largest excess of a delta over that of the Gaussian curve; 0 without a curve.
    """

    where: str
    p_value: float
    mass: float
    loss: float
    renyi: float
    price: float
    curve: float


@functools.partial(jax.jit, static_argnames=("mechanism", "draws"))
def _sample_many(mechanism: Mechanism, key: Array, value: Array, scale: Array, draws: int) -> Array:
    keys = jax.random.split(key, draws)
    return jax.vmap(lambda each: mechanism.sample(each, value, scale))(keys)


@functools.partial(jax.jit, static_argnames=("mechanism", "shape"))
def _log_prob_of_outcomes(
    mechanism: Mechanism, outcomes: Array, value: Array, scale: Array, shape: tuple[int, ...]
) -> Array:
    def log_prob(outcome: Array) -> Array:
        return mechanism.log_prob(jnp.full(shape, outcome, outcomes.dtype), value, scale)

    return jax.lax.map(log_prob, outcomes, batch_size=1024)


def _sample_and_evaluate_laws(
    mechanism: Mechanism, key: Array, *, value: Array, other: Array, scale: float, draws: int
) -> _Laws:
    """Sample a mechanism at two values, and evaluate both densities where outcomes occur.

    Raises:
        ValueError: for whole numbers that spread too far.
    """
    width = jnp.float32(scale)
    keys = jax.random.split(key)
    samples, other_samples = (
        np.asarray(_sample_many(mechanism, each, array, width, draws=draws))
        for each, array in zip(keys, (value, other), strict=True)
    )
    shape = samples.shape[1:]
    low = min(samples.min(), other_samples.min())
    high = max(samples.max(), other_samples.max())
    if samples.dtype.kind in "biu":
        if int(high) - int(low) >= MAX_OUTCOMES:
            raise ValueError(
                f"outcomes at the scale {scale:g} spread over more than {MAX_OUTCOMES} whole "
                "numbers; check a smaller scale"
            )
        outcomes = np.arange(int(low), int(high) + 1).astype(samples.dtype)
        widths = np.ones(len(outcomes))
    else:
        margin = (high - low) / 20
        outcomes = np.linspace(low - margin, high + margin, _GRID_POINTS).astype(samples.dtype)
        widths = np.gradient(outcomes.astype(np.float64))
    log_probs = [
        np.asarray(
            _log_prob_of_outcomes(mechanism, jnp.asarray(outcomes), array, width, shape=shape),
            np.float64,
        ).reshape(len(outcomes), -1)
        for array in (value, other)
    ]
    return _Laws(
        outcomes=outcomes,
        widths=widths,
        log_prob=log_probs[0],
        other_log_prob=log_probs[1],
        samples=samples.reshape(draws, -1),
    )


def _ratios_of_laws(
    mechanism: Mechanism, laws: _Laws, value: Array, other: Array, scale: float
) -> _Case:
    """Compare the laws of a pair of values with the mechanism's divergence and cost."""
    width = jnp.float32(scale)
    steps = [
        mechanism.divergence(first, width, second, width)
        for first, second in ((value, other), (other, value))
    ]
    pure = max(float(step.pure) for step in steps)
    rho = max(float(step.rho) for step in steps)
    changes = np.asarray(other, np.float64) - np.asarray(value, np.float64)
    num_outputs = laws.log_prob.shape[1]
    cost = _cost_of_changes(mechanism, changes, scale, num_outputs)

    masses, other_masses = (
        np.exp(log_prob) * laws.widths[:, None] for log_prob in (laws.log_prob, laws.other_log_prob)
    )
    renyi = max(
        _renyi_divergence(first, second, laws.widths, order) / order
        for first, second in (
            (laws.log_prob, laws.other_log_prob),
            (laws.other_log_prob, laws.log_prob),
        )
        for order in _ORDERS
    )
    excess = 0.0
    if mechanism.price.gaussian and changes.size == num_outputs:
        excess = _excess_over_curve(masses, other_masses, np.abs(changes).reshape(-1) / scale)
    return _Case(
        where="",
        p_value=min(_p_value_of_output(laws, masses, output) for output in range(num_outputs)),
        mass=float(masses.sum(axis=0).max()),
        loss=0.0 if np.isinf(pure) else _ratio_to_limit(_largest_log_ratio(laws), pure),
        renyi=_ratio_to_limit(renyi, rho),
        price=max(
            _ratio_to_limit(pure, float(cost.epsilon)), _ratio_to_limit(rho, float(cost.rho))
        ),
        curve=excess,
    )


def _ratio_to_limit(figure: float, limit: float) -> float:
    """The ratio of a loss to its limit, with room for rounding; infinite for a NaN."""
    if np.isinf(limit):
        return 0.0
    above = figure - ROUNDING
    if limit > 0:
        return max(above, 0.0) / (limit * (1 + ROUNDING))
    return 0.0 if above <= 0 else float("inf")  # a NaN is no number up to 0


def _cost_of_changes(
    mechanism: Mechanism, changes: np.ndarray, scale: float, num_outputs: int
) -> Cost:
    """The cost that a mechanism states for changes of a value, by the norm of its price."""
    if mechanism.price.norm in ("l1", "l2"):
        order = 1 if mechanism.price.norm == "l1" else 2
        return mechanism.cost_of_draw(np.linalg.norm(changes.reshape(-1), order), scale)
    if changes.ndim and changes.size != num_outputs:  # scores of candidates
        ranges = np.ptp(changes, axis=-1).reshape(-1)
    else:
        ranges = np.abs(changes).reshape(-1)
    costs = mechanism.cost_of_draw(ranges, scale)
    return Cost(epsilon=np.sum(costs.epsilon), rho=np.sum(costs.rho), mu=np.linalg.norm(costs.mu))


def _p_value_of_output(laws: _Laws, masses: np.ndarray, output: int) -> float:
    """The p-value of a chi-squared test of one output's samples against their density.

    It is 0 if an outcome occurred that cannot.
    """
    mass = masses[:, output]
    draws = len(laws.samples)
    cells = np.minimum(np.cumsum(mass) * _NUM_CELLS, _NUM_CELLS - 1).astype(int)
    if laws.samples.dtype.kind in "biu":
        places = laws.samples[:, output].astype(np.int64) - int(laws.outcomes[0])
        if np.any(mass[np.unique(places)] == 0):
            return 0.0
    else:
        places = np.abs(
            np.searchsorted((laws.outcomes[1:] + laws.outcomes[:-1]) / 2, laws.samples[:, output])
        )
    expected = draws * np.bincount(cells, weights=mass, minlength=_NUM_CELLS)
    counts = np.bincount(cells[places], minlength=_NUM_CELLS).astype(np.float64)
    expected = np.append(expected, max(draws - expected.sum(), 0.0))  # outcomes that never occurred
    counts = np.append(counts, 0.0)
    is_rare = expected < 5
    expected = np.append(expected[~is_rare], expected[is_rare].sum())
    counts = np.append(counts[~is_rare], counts[is_rare].sum())
    statistic = np.sum((counts - expected) ** 2 / np.maximum(expected, 1.0))
    return float(stats.chi2.sf(statistic, max(len(expected) - 1, 1)))


def _largest_log_ratio(laws: _Laws) -> float:
    """The sum over outputs of the largest absolute log ratio of two laws over outcomes."""
    first, second = laws.log_prob, laws.other_log_prob
    never = np.isneginf(first) & np.isneginf(second)
    with np.errstate(invalid="ignore"):
        ratios = np.where(never, 0.0, np.abs(first - second))
    return float(ratios.max(axis=0).sum())


def _renyi_divergence(
    log_prob: np.ndarray, other_log_prob: np.ndarray, widths: np.ndarray, order: float
) -> float:
    """The Renyi divergence of two product laws, over the outcomes that occur."""
    never = np.isneginf(log_prob)
    with np.errstate(invalid="ignore"):
        log_terms = np.where(never, -np.inf, order * log_prob + (1 - order) * other_log_prob)
    log_sums = special.logsumexp(log_terms + np.log(widths)[:, None], axis=0)
    return float(log_sums.sum() / (order - 1))


def _excess_over_curve(masses: np.ndarray, other_masses: np.ndarray, mu: np.ndarray) -> float:
    """The largest excess of an output's delta over that of a Gaussian mechanism.

    Its mu is f64[n], one for each output.
    """
    excess = 0.0
    for output, shift in enumerate(mu):
        for epsilon in _EPSILONS:
            gaps = masses[:, output] - np.exp(epsilon) * other_masses[:, output]
            delta = np.maximum(gaps, 0).sum()
            limit = 0.0
            if shift > 0:
                limit = special.ndtr(shift / 2 - epsilon / shift) - np.exp(epsilon) * special.ndtr(
                    -shift / 2 - epsilon / shift
                )
            excess = max(excess, float(delta - limit))
    return excess


def _check_lines_of_worst_cases(cases: Sequence[_Case]) -> list[CheckLine]:
    """Make a line of the report for each property, from the case where it is worst."""

    def line(field: str, name: str, limit: str, highest: float) -> CheckLine:
        worst = max(cases, key=lambda case: getattr(case, field))
        figure = float(getattr(worst, field))
        return CheckLine(
            name=name, passed=figure <= highest, figure=figure, limit=limit, where=worst.where
        )

    least = min(cases, key=lambda case: case.p_value)
    sampler = CheckLine(
        name="samples follow the density (p-value)",
        passed=least.p_value >= FALSE_ALARM_PROBABILITY,
        figure=least.p_value,
        limit=f"at least {FALSE_ALARM_PROBABILITY:g}",
        where=least.where,
    )
    mass = 1 + ROUNDING
    return [
        sampler,
        line("mass", "masses of an output add up", f"at most {mass:g}", mass),
        line("loss", "log ratios / pure divergence", "at most 1", 1.0),
        line("renyi", "Renyi divergences / zCDP divergence", "at most 1", 1.0),
        line("price", "divergence / price", "at most 1", 1.0),
        line("curve", "deltas beyond the Gaussian curve", "at most 1e-4", 1e-4),
    ]
