"""How a recipe is built: check the request, pay for finite bits, split the budget, assemble.

The function of a recipe states the options of one algorithm and how its budget is shared. This
module holds what all algorithms have in common.
"""

from __future__ import annotations  # so that help() shows ArrayLike by its name

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpbt.base import (
    MAX_ROWS,
    MOST_CHUNKED_ROWS,
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
from dpbt.data.targets import Target
from dpbt.losses import as_family
from dpbt.privacy import accounting
from dpbt.privacy.mechanism import Allowance
from dpbt.recipes.limits import EpsilonRefusedError
from dpbt.validate import floats, one_of, positive, shown, whole, wholes


def checked_rows(rows: ArrayLike, most: int = MAX_ROWS) -> np.ndarray:
    """The public number `rows` as float64, if every entry is a whole number in 1..most.

    Args:
        rows: one number or several.
        most: `MAX_ROWS`, or `MOST_CHUNKED_ROWS` for a learner whose table may be read in chunks.

    Raises:
        ValueError: naming `rows` and what was given; also for a number above MAX_ROWS that float32
            does not hold, with the next one that it does.
    """
    numbers = positive("rows", rows, finite=True)
    if np.any(numbers != np.floor(numbers)):
        raise ValueError(f"rows must be whole numbers, got {shown(numbers)}")
    if np.any(numbers > most):
        raise ValueError(
            f"rows must be at most {most}, which {_LIMITS[most]} hold, got {shown(numbers)}"
        )
    uneven = numbers != numbers.astype(np.float32)
    if np.any(uneven):
        first = numbers[uneven].flat[0]
        above = np.nextafter(np.float32(first), np.float32(np.inf))
        next_one = np.float32(first) if np.float32(first) > first else above
        raise ValueError(
            f"rows above {MAX_ROWS} must be numbers that float32 holds: use {int(next_one)} "
            f"in place of {int(first)}, and a table of this capacity"
        )
    return numbers


_LIMITS = {MAX_ROWS: "int32 sums of weights", MOST_CHUNKED_ROWS: "sums of float64"}


def deltas(delta: ArrayLike) -> np.ndarray:
    """`delta` as float64.

    Raises:
        ValueError: unless it is 0 for every setting, or in (0, 1) for every setting.
    """
    numbers = floats("delta", delta)
    mixed = np.any(numbers > 0) and not np.all(numbers > 0)
    if mixed or not np.all((numbers >= 0) & (numbers < 1)):
        raise ValueError(f"delta must be 0, or in (0, 1) for every setting, got {shown(numbers)}")
    return numbers


def family_of(name: str, value: Any) -> LossFamily:
    """The family of losses that is given, or that has the given name.

    Args:
        name: the name of the argument.
        value: a family of losses indexed by alpha, a single loss, or a name in `losses.NAMED`.

    Returns:
        the family; of a single loss, the one that holds it whatever alpha is.

    Raises:
        ValueError: naming the argument, the known names and what was given.
    """
    return as_family(value, name)


def is_single(family: LossFamily) -> bool:
    """Whether all members of a family are one loss, so that alpha has no meaning."""
    return family(0.25) is family(0.75)


@dataclasses.dataclass(frozen=True)
class Request:
    """The arguments that all recipes share, checked.

    Attributes:
        epsilon: f64[...], the total budget; infinite for no privacy.
        delta: f64[...], 0 for a pure guarantee.
        rows: f64[...], m.
        rounds: i32[...], T.
        calibration: "tight" or "published".
        relation: the neighbouring relation.
        rows_per_person: the most rows that one person has.
    """

    epsilon: np.ndarray
    delta: np.ndarray
    rows: np.ndarray
    rounds: np.ndarray
    calibration: str
    relation: Relation
    rows_per_person: int = 1

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

    def public(self, reweighting: Reweighting) -> Public:
        """The public numbers that a budget is calibrated for, as `Recipe.public` has them."""
        return Public(self.rows, np.float32(1), reweighting, {})


CALIBRATIONS = ("tight", "published")


def checked_request(
    epsilon: ArrayLike,
    delta: ArrayLike,
    rows: ArrayLike,
    rounds: ArrayLike,
    calibration: str,
    relation: str | Relation,
    rows_per_person: int = 1,
    most_rows: int = MAX_ROWS,
) -> Request:
    """Check the arguments that all recipes share.

    Args:
        epsilon: above 0.
        delta: 0 for every setting, or in (0, 1) for every setting.
        rows: whole numbers in 1..most_rows.
        rounds: integers of at least 1.
        calibration: "tight" or "published".
        relation: "add_remove" or "replace_one".
        rows_per_person: an integer of at least 1.
        most_rows: as `checked_rows`.

    Raises:
        ValueError: for a value outside these ranges, naming the argument and what was given.
    """
    one_of("calibration", calibration, CALIBRATIONS)
    request = Request(
        epsilon=positive("epsilon", epsilon),
        delta=deltas(delta),
        rows=checked_rows(rows, most_rows),
        rounds=wholes("rounds", rounds),
        calibration=calibration,
        relation=to_relation(relation),
        rows_per_person=whole("rows_per_person", rows_per_person),
    )
    try:
        _ = request.shape
    except ValueError as error:
        raise ValueError(f"epsilon, delta, rows and rounds must broadcast: {error}") from None
    return request


def no_published_delta(request: Request) -> None:
    """Refuse a delta for an algorithm whose paper proves a pure guarantee only.

    Raises:
        ValueError: for a delta above 0 with the published calibration.
    """
    if request.approximate and not request.tight:
        raise ValueError(
            "delta must be 0, as the published calibration has no (epsilon, delta) guarantee, "
            f"got {shown(request.delta)}"
        )


class Parts(NamedTuple):
    """The parts of a recipe beside its budget, and their names in tables.

    Attributes:
        learner: the weak learner.
        reweighter: the re-weighter.
        reweighting: the numbers of the re-weighter.
        loss: the family of the link of `predict_proba`, or None.
        name: the name of the algorithm.
        setting: a word for its options, for tables.
        target: the declared classes or range; None for two classes.
    """

    learner: WeakLearner
    reweighter: Reweighter
    reweighting: Reweighting
    loss: LossFamily | None
    name: str
    setting: str
    target: Target | None = None


Calibrate = Callable[[Allowance, Any, Public], Any]
"""(allowance of all rounds, rounds, public) -> the learner's budget."""

Allow = Callable[[Request], Allowance]
"""request -> the most that all rounds may cost together."""


def one_accountant(request: Request) -> Allowance:
    """The whole budget: an epsilon for a pure guarantee, a rho of zCDP for one with a delta."""
    zero = np.zeros(request.shape)
    if not request.approximate:
        return Allowance(request.epsilon, zero)
    return Allowance(zero, accounting.zcdp_rho(request.epsilon, request.delta))


def either_accountant(request: Request) -> Allowance:
    """The whole budget as an epsilon, and for a guarantee with a delta also as a rho of zCDP.

    It is for recipes with one draw in a round, or with one accountant for all draws of a round.
    """
    return one_accountant(request)._replace(epsilon=request.epsilon)


def gaussian_accountant(request: Request) -> Allowance:
    """The whole budget of a recipe whose draws are all Gaussian: rho = mu^2 / 2, mu by GDP.

    GDP composes Gaussian draws exactly. Through zCDP the noise would be 5 to 8 % larger.
    """
    zero = np.zeros(request.shape)
    mu = np.broadcast_to(accounting.gdp_mu(request.epsilon, request.delta), request.shape)
    return Allowance(zero, mu**2 / 2)


def for_people(allowance: Allowance, rows_per_person: int) -> Allowance:
    """What one row may cost, if all rows of a person may cost the allowance.

    A price depends on sensitivity / scale alone. Pure costs grow with it and costs in rho with its
    square, so noise becomes `rows_per_person` times larger, and the epsilon of a selection smaller.
    """
    return Allowance(
        allowance.epsilon / rows_per_person, allowance.rho / float(rows_per_person) ** 2
    )


def all_gaussian(learner: WeakLearner, budget: Budget, public: Public) -> bool:
    """Whether every draw of a learner that costs anything is Gaussian."""
    prices = [event.mechanism.price for event in learner_events(learner, budget, public)]
    return all(price.gaussian or not price.reads_rows for price in prices)


def learner_events(learner: WeakLearner, budget: Budget, public: Public) -> list[LedgerEvent]:
    """The events of a round, and those of what takes place once."""
    return [*learner.events(budget, public), *_events_once(learner, budget, public)]


def _events_once(learner: WeakLearner, budget: Budget, public: Public) -> list[LedgerEvent]:
    """The events of the prologue and of the epilogue, where there are any."""
    parts = [part for part in (learner.prologue, learner.epilogue) if part is not None]
    return [event for part in parts for event in part.events(budget, public)]


def build(
    request: Request,
    parts: Parts,
    calibrate: Calibrate,
    allow: Allow = one_accountant,
) -> Recipe:
    """Build a recipe: pay for finite bits out of the request, and calibrate the rest.

    Args:
        request: the checked arguments.
        parts: the other parts of the recipe.
        calibrate: how the rest is shared among the learner's draws.
        allow: the rest as an allowance, unless all draws are Gaussian: `gaussian_accountant`.

    Raises:
        EpsilonRefusedError: if a number of the budget does not fit float32, or finite bits cost too
            much of the request.
    """
    public = request.public(parts.reweighting)
    shape = request.shape

    def calibrated(affordable: Request, allow: Allow) -> tuple[Budget, Public]:
        allowance = for_people(allow(affordable), request.rows_per_person)
        budget = calibrate(allowance, affordable.rounds, public)
        return _spread(budget, public, shape, parts.learner.by_depth)

    # Gaussian draws alone are composed by GDP, once it is known that there are no others.
    first = calibrated(request, allow)
    if request.approximate and request.tight and all_gaussian(parts.learner, *first):
        allow = gaussian_accountant
        first = calibrated(request, allow)

    # What finite bits cost depends on the draws, so the whole request is calibrated first.
    remaining = after_samplers(request, parts.learner, *first)
    return assemble(request, parts, calibrated(remaining, allow)[0])


def assemble(request: Request, parts: Parts, budget: Budget) -> Recipe:
    """Make the recipe of a calibrated budget.

    Args:
        request: the checked arguments.
        parts: the other parts of the recipe.
        budget: a NamedTuple of numbers.

    Raises:
        EpsilonRefusedError: as `check_float32`.
    """
    public = request.public(parts.reweighting)
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
        rows_per_person=request.rows_per_person,
        target=parts.target,
    )


def _spread(
    budget: Budget, public: Public, shape: tuple[int, ...], by_depth: tuple[str, ...]
) -> tuple[Budget, Public]:
    """Budget and public numbers as float32 with all axes of settings.

    Args:
        budget: a NamedTuple of numbers.
        public: its `reweighting` is a NamedTuple of numbers, or an empty tuple.
        shape: the axes of settings of the request.
        by_depth: the fields of the budget that have one more axis, the last one, for depths.
    """
    # Every argument may have axes of settings; they broadcast.
    fields = budget._asdict()
    of_budget = [
        np.shape(value)[:-1] if name in by_depth else np.shape(value)
        for name, value in fields.items()
    ]
    of_reweighting = [np.shape(value) for value in public.reweighting]
    shape = np.broadcast_shapes(shape, *of_budget, *of_reweighting)

    # Give all numbers these axes.
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
"""The most that the samplers' finite bits may cost, as a share of the budget."""

MOST_DELTA = 1e-6
"""The most delta that finite bits may cost a pure guarantee.

For epsilon up to 10 they cost below 1e-15.
"""


def after_samplers(
    request: Request, learner: WeakLearner, budget: Budget, public: Public
) -> Request:
    """The request that remains for the exact laws once the samplers' finite bits are paid for.

    See `accounting.Ledger` for why 2 G of epsilon, and (1 - e^-G) delta + t of delta, pay for them.

    Args:
        request: the whole request.
        learner: its events say how many outputs a row moves, and how far.
        budget: calibrated for the whole request. Its draws move no less than those of the budget
            for what remains.
        public: the public numbers that the events read.

    Raises:
        EpsilonRefusedError: if finite bits cost more than `MOST_OF_EPSILON` or `MOST_OF_DELTA` of
            the request, or more than `MOST_DELTA` for a pure guarantee.
    """

    # The costs of all rounds, and of what takes place once.
    def costs(events: list[LedgerEvent]) -> tuple[float, np.ndarray]:
        people = [accounting.of_people(event, request.rows_per_person) for event in events]
        return accounting.sampler_costs(people)

    gap, tail = costs(learner.events(budget, public))
    gap, tail = gap * request.rounds.astype(np.float64), tail * request.rounds
    gap_once, tail_once = costs(_events_once(learner, budget, public))
    gap, tail = gap + gap_once, tail + tail_once
    _check_sampler_costs(request, gap, tail)

    # What remains of the request; without privacy there is nothing to pay.
    private = np.isfinite(request.epsilon)
    delta = np.where(request.delta > 0, (request.delta - tail) * np.exp(-gap), 0.0)
    return dataclasses.replace(
        request,
        epsilon=np.where(private, request.epsilon - 2 * gap, request.epsilon),
        delta=np.where(private, delta, request.delta),
    )


def _check_sampler_costs(request: Request, gap: np.ndarray, tail: np.ndarray) -> None:
    """Refuse a request that the samplers' finite bits would cost too much of.

    Args:
        request: the whole request.
        gap: f64[...], G of all rounds.
        tail: f64[...], t of all rounds.

    Raises:
        EpsilonRefusedError: as `after_samplers`.
    """
    private = np.isfinite(request.epsilon)
    finite = np.where(private, request.epsilon, 1.0)
    if np.any(private & (2 * gap > MOST_OF_EPSILON * finite)):
        raise EpsilonRefusedError(
            "with less, what the finite bits of so many draws cost is more than "
            f"{MOST_OF_EPSILON:g} of epsilon; fewer rounds allow less"
        )
    accepted = np.where(request.approximate, MOST_OF_DELTA * request.delta, MOST_DELTA)
    if np.any(private & (tail > accepted)):
        raise EpsilonRefusedError(
            "with more there is so little noise that its finite random bits could give a row away "
            f"with a probability above {np.min(accepted):.2g}, the most that delta = "
            f"{np.min(request.delta):g} takes; more rounds or a larger delta allow more"
        )


def check_float32(request: Request, learner: WeakLearner, budget: Budget, public: Public) -> None:
    """Refuse a budget that float32 cannot hold, or noise beyond the range of its sampler.

    Raises:
        EpsilonRefusedError: naming the number of the budget, or the site of the noise.
    """
    for name, value in budget._asdict().items():
        if not np.all(np.asarray(value, np.float32) >= 0):  # NaN, too
            raise EpsilonRefusedError(f"{name} would be no positive finite float32")

    # Draws without privacy, and draws that read no rows, may have any scale.
    for event in learner_events(learner, budget, public):
        scale = np.asarray(event.scale, np.float64)
        private = np.isfinite(request.epsilon) & (np.asarray(event.sensitivity) > 0)
        sampler = event.mechanism.sampler
        most = np.inf if sampler is None else sampler.most
        if np.any(private & ~((scale > 0) & (scale <= most) & np.isfinite(scale))):
            raise EpsilonRefusedError(
                f"the noise of {event.site!r} would have scale {np.max(scale):g}, and scales must "
                f"be above 0, finite and at most {most:g}"
            )
