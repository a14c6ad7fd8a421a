"""How a recipe is built: check what is asked for, pay for finite bits, split the budget, assemble.

A recipe's function states the options of one algorithm and how its budget is shared. What all
algorithms have in common is here, once.
"""

from __future__ import annotations  # so that help() shows ArrayLike by its name

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from dpbt.base import (
    MAX_ROWS,
    Budget,
    LedgerEvent,
    LossFamily,
    Public,
    Recipe,
    Relation,
    Reweighter,
    Reweighting,
    WeakLearner,
)
from dpbt.base import relation as to_relation
from dpbt.privacy import accounting
from dpbt.privacy.mechanism import Allowance
from dpbt.validate import floats, positive


def whole(name: str, value: ArrayLike) -> int:
    """`value`, if it is an integer of at least 1.

    Raises:
        ValueError: naming the parameter and what was given.
    """
    if np.ndim(value) > 0:
        raise ValueError(f"{name} must be one integer of at least 1, got {value!r}")
    return int(wholes(name, value))


def wholes(name: str, value: ArrayLike) -> np.ndarray:
    """`value` as i32 array, if every entry is an integer from 1 to the largest of 32 bits.

    Raises:
        ValueError: naming the parameter and what was given.
    """
    array = np.asarray(value)
    if array.dtype.kind not in "iu" or array.size == 0 or np.any(array < 1):
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
    if np.any(array > np.iinfo(np.int32).max):
        raise ValueError(f"{name} must be an integer of 32 bits, got {value!r}")
    return array.astype(np.int32)


def public_rows(rows: ArrayLike) -> np.ndarray:
    """`rows` as float64, if every entry is a whole number in 1..MAX_ROWS.

    Raises:
        ValueError: saying what was given.
    """
    numbers = positive("rows", rows, finite=True)
    if np.any(numbers != np.floor(numbers)):
        raise ValueError(f"rows must be whole numbers, got {numbers!r}")
    if np.any(numbers > MAX_ROWS):
        raise ValueError(
            f"rows must be at most {MAX_ROWS}, which int32 sums of weights hold, got {numbers!r}"
        )
    return numbers


def flag(name: str, value: Any) -> None:
    """Check an option that is either on or off.

    Raises:
        ValueError: naming the parameter and what was given.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")


def one_of(name: str, value: Any, known: Iterable[str]) -> None:
    """Check an option that is one of some names.

    Raises:
        ValueError: naming the parameter, the known names and what was given.
    """
    if not isinstance(value, str) or value not in tuple(known):
        raise ValueError(f"{name} must be one of {sorted(known)}, got {value!r}")


def deltas(delta: ArrayLike) -> np.ndarray:
    """`delta` as float64.

    Raises:
        ValueError: unless it is 0 for every setting, or in (0, 1) for every setting.
    """
    numbers = floats("delta", delta)
    mixed = np.any(numbers > 0) and not np.all(numbers > 0)
    if mixed or not np.all((numbers >= 0) & (numbers < 1)):
        raise ValueError(f"delta must be 0, or in (0, 1) for every setting, got {numbers!r}")
    return numbers


def known_calibration(calibration: str) -> None:
    """Check the name of a calibration.

    Raises:
        ValueError: unless it is "tight" or "published".
    """
    if calibration not in ("tight", "published"):
        raise ValueError(f'calibration must be "tight" or "published", got {calibration!r}')


@dataclasses.dataclass(frozen=True)
class Request:
    """What every recipe is asked for, checked.

    Attributes:
        epsilon: f64[...], the total budget; infinite for no privacy.
        delta: f64[...], 0 for a pure guarantee.
        rows: f64[...], m.
        rounds: i32[...], T.
        calibration: "tight" or "published".
        relation: the neighbouring relation.
    """

    epsilon: np.ndarray
    delta: np.ndarray
    rows: np.ndarray
    rounds: np.ndarray
    calibration: str
    relation: Relation

    @property
    def tight(self) -> bool:
        """Whether the calibration is the tight one."""
        return self.calibration == "tight"

    @property
    def approximate(self) -> bool:
        """Whether the guarantee is (epsilon, delta) rather than pure."""
        return bool(np.any(self.delta > 0))

    @property
    def shape(self) -> tuple[int, ...]:
        """The axes of settings."""
        return np.broadcast_shapes(
            self.epsilon.shape, self.delta.shape, self.rows.shape, self.rounds.shape
        )


def checked_request(
    *,
    epsilon: ArrayLike,
    delta: ArrayLike,
    rows: ArrayLike,
    rounds: ArrayLike,
    calibration: str,
    relation: str | Relation,
) -> Request:
    """The checked request.

    Args:
        epsilon: above 0.
        delta: 0 for every setting, or in (0, 1) for every setting.
        rows: whole numbers in 1..`base.MAX_ROWS`.
        rounds: integers of at least 1.
        calibration: "tight" or "published".
        relation: "add_remove" or "replace_one".

    Raises:
        ValueError: for a value outside these ranges, named with what was given.
    """
    known_calibration(calibration)
    return Request(
        epsilon=positive("epsilon", epsilon),
        delta=deltas(delta),
        rows=public_rows(rows),
        rounds=wholes("rounds", rounds),
        calibration=calibration,
        relation=to_relation(relation),
    )


def no_published_delta(request: Request) -> None:
    """Refuse a delta for an algorithm whose paper proves a pure guarantee only.

    Raises:
        ValueError: for a delta above 0 with the published calibration.
    """
    if request.approximate and not request.tight:
        raise ValueError(
            "the published calibration has no (epsilon, delta) guarantee; use delta = 0"
        )


class Parts(NamedTuple):
    """The static parts of a recipe, and what tables call them.

    Attributes:
        learner: the weak learner.
        reweighter: the re-weighter.
        reweighting: its numbers.
        loss: the loss of `predict_proba`, or None.
        name: of the algorithm.
        setting: what tables say of its options.
    """

    learner: WeakLearner
    reweighter: Reweighter
    reweighting: Reweighting
    loss: LossFamily | None
    name: str
    setting: str


Calibrate = Callable[[Allowance, Any, Public], Any]
"""(allowance of all rounds, rounds, public) -> the learner's budget."""

Allow = Callable[[Request], Allowance]
"""request -> what all rounds may cost together."""


def one_accountant(request: Request) -> Allowance:
    """The whole budget: an epsilon for a pure guarantee, a rho of zCDP for one with a delta."""
    zero = np.zeros(request.shape)
    if not request.approximate:
        return Allowance(request.epsilon, zero)
    return Allowance(zero, accounting.zcdp_rho(request.epsilon, request.delta))


def either_accountant(request: Request) -> Allowance:
    """The whole budget as an epsilon, and for a guarantee with a delta also as a rho of zCDP.

    For recipes whose draws in a round are one, or use one of the two for all of them.
    """
    return one_accountant(request)._replace(epsilon=request.epsilon)


def gaussian_accountant(request: Request) -> Allowance:
    """The whole budget of a recipe whose draws are all Gaussian: rho = mu^2 / 2, mu by GDP.

    GDP composes Gaussian draws exactly. Through zCDP the noise would be 5 to 8 % larger.
    """
    zero = np.zeros(request.shape)
    mu = np.broadcast_to(accounting.gdp_mu(request.epsilon, request.delta), request.shape)
    return Allowance(zero, mu**2 / 2)


def all_gaussian(learner: WeakLearner, budget: Budget, public: Public) -> bool:
    """Whether every draw of a learner that costs anything is Gaussian."""
    prices = [event.mechanism.price for event in learner_events(learner, budget, public)]
    return all(price.gaussian or not price.reads_rows for price in prices)


def learner_events(learner: WeakLearner, budget: Budget, public: Public) -> list[LedgerEvent]:
    """The events of a round, and those of the prologue if there is one."""
    events = list(learner.program.events(budget, public))
    if learner.prologue is not None:
        events += learner.prologue.program.events(budget, public)
    return events


def build(
    request: Request,
    parts: Parts,
    calibrate: Calibrate,
    allow: Allow = one_accountant,
) -> Recipe:
    """The recipe: what finite bits cost is taken off the request, the rest is calibrated.

    Args:
        request: the request.
        parts: the static parts.
        calibrate: how the rest is shared among the learner's draws.
        allow: the rest as an allowance, unless all draws are Gaussian: `gaussian_accountant`.

    Raises:
        ValueError: if the settings leave float32, or finite bits cost too much of the request.
    """
    public = public_numbers(request, parts)
    shape = request.shape

    def calibrated(affordable: Request, allow: Allow) -> tuple[Budget, Public]:
        budget = calibrate(allow(affordable), affordable.rounds, public)
        return _spread(budget, public, shape, parts.learner.by_depth)

    # Gaussian draws alone are composed by GDP, once it is known that there are no others.
    first = calibrated(request, allow)
    if request.approximate and request.tight and all_gaussian(parts.learner, *first):
        allow = gaussian_accountant
        first = calibrated(request, allow)

    left = after_samplers(request, parts.learner, *first)
    return assemble(request, parts, calibrated(left, allow)[0])


def public_numbers(request: Request, parts: Parts) -> Public:
    """The public numbers that a budget is calibrated for."""
    return Public(request.rows, np.float32(1), parts.reweighting, {})


def assemble(request: Request, parts: Parts, budget: Budget) -> Recipe:
    """The recipe of a budget that is calibrated.

    Args:
        request: the request.
        parts: the static parts.
        budget: a NamedTuple of numbers.

    Raises:
        ValueError: if a number leaves float32, or noise is not what its sampler is for.
    """
    public = public_numbers(request, parts)
    budget, public = _spread(budget, public, request.shape, parts.learner.by_depth)
    check_float32(request, parts.learner, budget, public)
    shape = np.shape(public.rows)
    return Recipe(
        budget=budget,
        reweighting=public.reweighting,
        rows=public.rows,
        delta=np.broadcast_to(request.delta, shape),
        rounds=np.broadcast_to(request.rounds, shape),
        learner=parts.learner,
        reweighter=parts.reweighter,
        loss=parts.loss,
        capacity=int(np.max(request.rounds)),
        relation=request.relation,
        name=parts.name,
        calibration=request.calibration,
        setting=parts.setting,
    )


def _spread(
    budget: Budget, public: Public, shape: tuple[int, ...], by_depth: tuple[str, ...]
) -> tuple[Budget, Public]:
    """Budget and public numbers as float32 with all axes of settings.

    Args:
        budget: a NamedTuple of numbers.
        public: with rows, and a NamedTuple of numbers (or an empty tuple) for the re-weighter.
        shape: of the request.
        by_depth: fields of the budget with one more axis, the last one.
    """
    fields = budget._asdict()
    of_budget = [
        np.shape(value)[:-1] if name in by_depth else np.shape(value)
        for name, value in fields.items()
    ]
    of_reweighting = [np.shape(value) for value in public.reweighting]
    shape = np.broadcast_shapes(shape, *of_budget, *of_reweighting)

    def wide(value: Any, *depths: int) -> np.ndarray:
        return np.broadcast_to(np.asarray(value, np.float32), (*shape, *depths))

    spread = {
        name: wide(value, *np.shape(value)[-1:]) if name in by_depth else wide(value)
        for name, value in fields.items()
    }
    reweighting = public.reweighting
    if reweighting:
        reweighting = type(reweighting)(*(wide(value) for value in reweighting))
    public = public._replace(rows=wide(public.rows), reweighting=reweighting)
    return type(budget)(**spread), public


MOST_OF_EPSILON, MOST_OF_DELTA = 0.005, 0.01
"""What finite bits of the samplers may cost at most, as a share of the budget."""

MOST_DELTA = 1e-6
"""What finite bits may cost a pure guarantee in delta; it is below 1e-15 for epsilon up to 10."""


def after_samplers(
    request: Request, learner: WeakLearner, budget: Budget, public: Public
) -> Request:
    """The request that is left for the laws, once the samplers' finite bits are paid for.

    See `accounting.Ledger` for why 2 G of epsilon, and (1 - e^-G) delta + t of delta, pay for it.

    Args:
        request: the request.
        learner: its events say how many outputs a row moves, and how far.
        budget: calibrated for the whole request: its draws move no less than those of what is left.
        public: as the events read it.

    Raises:
        ValueError: if that is more than `MOST_OF_EPSILON` or `MOST_OF_DELTA` of the request, or
            more than `MOST_DELTA` for a pure guarantee.
    """
    gap, tail = accounting.sampler_costs(learner.program.events(budget, public))
    gap, tail = gap * request.rounds.astype(np.float64), tail * request.rounds
    if learner.prologue is not None:
        opening = learner.prologue.program.events(budget, public)
        opening_gap, opening_tail = accounting.sampler_costs(opening)
        gap, tail = gap + opening_gap, tail + opening_tail
    _check_sampler_costs(request, gap, tail)

    private = np.isfinite(request.epsilon)
    left = np.where(request.delta > 0, (request.delta - tail) * np.exp(-gap), 0.0)
    return dataclasses.replace(
        request,
        epsilon=np.where(private, request.epsilon - 2 * gap, request.epsilon),
        delta=np.where(private, left, request.delta),
    )


def _check_sampler_costs(request: Request, gap: np.ndarray, tail: np.ndarray) -> None:
    """Refuse a request of which the samplers' finite bits would cost too much.

    Args:
        request: the request.
        gap: f64[...], G of all rounds.
        tail: f64[...], t of all rounds.

    Raises:
        ValueError: as `after_samplers`.
    """
    private = np.isfinite(request.epsilon)
    finite = np.where(private, request.epsilon, 1.0)
    if np.any(private & (2 * gap > MOST_OF_EPSILON * finite)):
        cost = np.max(2 * gap)
        raise ValueError(
            f"epsilon is too small for so many draws: their finite bits cost {cost:.2g}; ask "
            f"for at least {cost / MOST_OF_EPSILON:.2g}, or for fewer rounds"
        )
    if np.any(private & (request.delta > 0) & (tail > MOST_OF_DELTA * request.delta)):
        raise ValueError(
            f"delta is too small for this epsilon: finite bits cost {np.max(tail):.2g}, "
            f"more than {MOST_OF_DELTA:g} of it; ask for a larger delta, a smaller epsilon or "
            "more rounds"
        )
    if np.any(private & (request.delta == 0) & (tail > MOST_DELTA)):
        raise ValueError(
            "epsilon is too large for samplers of finitely many bits: they cost a delta of "
            f"{min(np.max(tail), 1.0):.2g}; ask for a smaller epsilon, more rounds, or no privacy "
            "(epsilon=inf)"
        )


def check_float32(request: Request, learner: WeakLearner, budget: Budget, public: Public) -> None:
    """Refuse settings whose numbers leave float32, or whose noise leaves what its sampler is for.

    Raises:
        ValueError: naming the number.
    """
    for name, value in budget._asdict().items():
        value = np.asarray(value, np.float32)
        if np.any(np.isnan(value)):
            raise ValueError(f"epsilon is too small or too large: {name} leaves float32")
        if np.any(value < 0):
            raise ValueError(f"the budget's {name} must be at least 0 in float32, and is not")

    for event in learner_events(learner, budget, public):
        scale = np.asarray(event.scale, np.float64)
        private = np.isfinite(request.epsilon) & (np.asarray(event.sensitivity) > 0)
        if np.any(private & ~((scale > 0) & np.isfinite(scale))):
            raise ValueError(
                f"epsilon is too small or too large: the noise of {event.site!r} is not a "
                "positive finite float32"
            )
        sampler = event.mechanism.sampler
        if sampler is not None and np.any(private & (scale > sampler.most)):
            raise ValueError(
                f"epsilon is too small: noise of scale {np.max(scale):g} for {event.site!r}, and "
                f"its sampler is known up to {sampler.most:g}"
            )


def setting(recipe: Recipe, index: int | tuple[int, ...]) -> Recipe:
    """One setting of a recipe that holds several."""
    return jax.tree.map(lambda leaf: leaf[index], recipe)
