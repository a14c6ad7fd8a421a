"""How a recipe is built: check the request, pay for finite bits, split the budget, assemble.

The function of a recipe states the options of one algorithm and how its budget is shared. This
module holds what all algorithms have in common.
"""

from __future__ import annotations  # so that help() shows ArrayLike by its name

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from dpbt.base import (
    MAX_ROWS,
    MAX_ROWS_IN_BLOCKS,
    LossFamily,
    Params,
    Public,
    Recipe,
    Relation,
    Terms,
    WeakLearner,
    Weighting,
    WeightUpdate,
    Words,
)
from dpbt.base import relation as to_relation
from dpbt.data.targets import Target
from dpbt.privacy import accounting, boundary, pricing
from dpbt.privacy.draws import group_of
from dpbt.privacy.mechanism import ROUNDING, Allowance
from dpbt.validate import floats, one_of, positive, shown, warn_of_delta, whole, wholes


def checked_rows(rows: ArrayLike, most: int = MAX_ROWS) -> np.ndarray:
    """The public number `rows` as float64, if every entry is a whole number in 1..most.

    Args:
        rows: one number or several.
        most: `MAX_ROWS`, or `MAX_ROWS_IN_BLOCKS` for a learner whose table may be read in chunks.

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


_LIMITS = {MAX_ROWS: "int32 sums of weights", MAX_ROWS_IN_BLOCKS: "sums of float64"}


MAX_EPSILON = 1e6
"""The largest finite epsilon of any recipe."""


def epsilons(epsilon: ArrayLike) -> np.ndarray:
    """`epsilon` as float64.

    Raises:
        ValueError: unless each is above 0, and infinite or at most `MAX_EPSILON`.
    """
    numbers = positive("epsilon", epsilon)
    if np.any(np.isfinite(numbers) & (numbers > MAX_EPSILON)):
        raise ValueError(
            f"epsilon must be at most {MAX_EPSILON:g}, got {shown(epsilon)}: a larger one protects "
            "nothing, and infinity says so"
        )
    return numbers


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
        max_rows_per_user: the most rows that one person has.
    """

    epsilon: np.ndarray
    delta: np.ndarray
    rows: np.ndarray
    rounds: np.ndarray
    calibration: str
    relation: Relation
    max_rows_per_user: int = 1

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

    def public(self, weighting: Weighting) -> Public:
        """The public numbers that a budget is calibrated for, as `Recipe.public` has them."""
        return Public(self.rows, np.float32(1), weighting, {})


CALIBRATIONS = ("tight", "published")


def checked_request(
    epsilon: ArrayLike,
    delta: ArrayLike,
    rows: ArrayLike,
    rounds: ArrayLike,
    calibration: str,
    relation: str | Relation,
    max_rows_per_user: int = 1,
    max_rows: int = MAX_ROWS,
) -> Request:
    """Check the arguments that all recipes share.

    Args:
        epsilon: above 0.
        delta: 0 for every setting, or in (0, 1) for every setting.
        rows: whole numbers in 1..max_rows.
        rounds: integers of at least 1.
        calibration: "tight" or "published".
        relation: "add_remove" or "replace_one".
        max_rows_per_user: an integer of at least 1.
        max_rows: as `checked_rows`.

    Raises:
        ValueError: for a value outside these ranges, naming the argument and what was given.
    """
    one_of("calibration", calibration, CALIBRATIONS)
    request = Request(
        epsilon=epsilons(epsilon),
        delta=deltas(delta),
        rows=checked_rows(rows, max_rows),
        rounds=wholes("rounds", rounds),
        calibration=calibration,
        relation=to_relation(relation),
        max_rows_per_user=whole("max_rows_per_user", max_rows_per_user),
    )
    try:
        _ = request.shape
    except ValueError as error:
        raise ValueError(f"epsilon, delta, rows and rounds must broadcast: {error}") from None
    warn_of_delta(request.delta, request.rows)
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
        weight_update: the weight update.
        weighting: the numbers of the weight update.
        name: the name of the algorithm.
        setting: a word for its options, for tables.
        target: the declared classes or range; None for two classes.
    """

    learner: WeakLearner
    weight_update: WeightUpdate
    weighting: Weighting
    name: str
    setting: str
    target: Target | None = None


MakeParams = Callable[[Mapping[str, Any], Public], Any]
"""(noise multipliers by site, public) -> the learner's numbers."""

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


def for_people(allowance: Allowance, max_rows_per_user: int) -> Allowance:
    """What one row may cost, if all rows of a person may cost the allowance.

    A price depends on sensitivity / scale alone. Pure costs grow with it and costs in rho with its
    square, so noise becomes `max_rows_per_user` times larger, and the epsilon of a selection
    smaller.
    """
    return Allowance(
        allowance.epsilon / max_rows_per_user, allowance.rho / float(max_rows_per_user) ** 2
    )


class PaidDraw(NamedTuple):
    """A draw that costs something, and how often all rounds together pay for it.

    Attributes:
        ask: what is static of it.
        group: the name of its fraction of the budget.
        siblings: how many draws share that fraction.
        times: f64[...], how often it is made.
    """

    ask: boundary.Request
    group: str
    siblings: int
    times: np.ndarray


def _draws(draft: Recipe, fractions: Mapping[str, Any]) -> list[PaidDraw]:
    """The draws of a recipe that share its budget.

    Args:
        draft: the recipe, with any noise.
        fractions: the fraction of each site.

    Raises:
        ValueError: for a fraction without a site, and as `pricing.sites`.
    """
    single = jax.tree.map(lambda leaf: leaf.flat[0], draft)
    rounds = np.asarray(draft.rounds, np.float64)
    found = [
        (ask, group_of(ask.site, fractions), rounds if part == "rounds" else np.ones(()))
        for part in draft.learner.parts
        for ask in pricing.sites(single, part)
        if ask.mechanism.price.reads_rows and not ask.own_scale
    ]
    siblings = collections.Counter(group for _, group, _ in found)
    if unused := sorted(set(fractions) - set(siblings)):
        raise ValueError(f"{draft.learner.tag} draws nothing at {unused}, which have fractions")
    return [PaidDraw(ask, group, siblings[group], times) for ask, group, times in found]


def _noise(
    request: Request, allow: Allow, fractions: Mapping[str, Any], made: Sequence[PaidDraw]
) -> dict[str, np.ndarray]:
    """The noise multiplier of each site; draws of one fraction and as many payments share one."""
    allowance = for_people(allow(request), request.max_rows_per_user)
    noise: dict[str, np.ndarray] = {}
    for ask, group, siblings, times in made:
        payments = siblings * times * float(ask.pays)
        part = allowance.part(np.asarray(fractions[group], np.float64) / payments)
        alike = len({each.ask.pays for each in made if each.group == group}) == 1
        noise[group if alike else ask.site] = ask.mechanism.multiplier(part)
    return noise


def build(
    request: Request,
    parts: Parts,
    fractions: Mapping[str, Any] | None = None,
    params: MakeParams | None = None,
    allow: Allow = one_accountant,
) -> Recipe:
    """Build a recipe: pay for finite bits out of the request, and share the rest among the draws.

    Args:
        request: the checked arguments.
        parts: the other parts of the recipe.
        fractions: the fraction of the budget of each site; the learner's own by default.
        params: the learner's numbers by the noise; the learner's own by default.
        allow: the rest as an allowance, unless all draws are Gaussian: `gaussian_accountant`.

    Raises:
        ValueError: if a number of the budget does not fit float32, or finite bits cost too much
            of the request. Also for a site without a fraction, and as `boundary.check_fractions`.
    """
    fractions = dict(parts.learner.fractions) if fractions is None else fractions
    boundary.check_fractions(fractions)
    params = params or parts.learner.params
    public = request.public(parts.weighting)
    noiseless = params(dict.fromkeys(fractions, np.ones(())), public)
    made = _draws(_recipe(request, parts, noiseless), fractions)

    # Gaussian draws alone are composed by GDP.
    gaussian = all(each.ask.mechanism.price.gaussian for each in made)
    if request.approximate and request.tight and gaussian:
        allow = gaussian_accountant

    # What finite bits cost depends on the noise, so the whole request is shared first.
    first = _noise(request, allow, fractions, made)
    remaining = after_samplers(request, made, first)
    noise = _noise(remaining, allow, fractions, made)
    return assemble(request, parts, params(noise, public))


def assemble(request: Request, parts: Parts, params: Params) -> Recipe:
    """Make the recipe of calibrated numbers.

    Args:
        request: the checked arguments.
        parts: the other parts of the recipe.
        params: a NamedTuple of numbers.

    Raises:
        ValueError: as `check_float32`.
    """
    recipe = _recipe(request, parts, params)
    check_float32(recipe, np.isfinite(request.epsilon))
    return recipe


def _recipe(request: Request, parts: Parts, params: Params) -> Recipe:
    """The recipe of some numbers, with all axes of settings."""
    public = request.public(parts.weighting)
    params, public = _spread(params, public, request.shape)
    shape = np.shape(public.rows)
    terms = Terms(
        public.rows,
        np.broadcast_to(request.delta, shape),
        request.relation,
        request.max_rows_per_user,
        parts.target,
    )
    return Recipe(
        params,
        public.weighting,
        terms,
        np.broadcast_to(request.rounds, shape),
        parts.learner,
        parts.weight_update,
        capacity=int(np.max(request.rounds)),
        words=Words(parts.name, request.calibration, parts.setting),
    )


def _spread(params: Params, public: Public, shape: tuple[int, ...]) -> tuple[Params, Public]:
    """The learner's and the public numbers as float32 with all axes of settings.

    Args:
        params: numbers, a pytree.
        public: its `weighting` is a NamedTuple of numbers, or an empty tuple.
        shape: the axes of settings of the request.
    """
    numbers = params, public.weighting
    shape = np.broadcast_shapes(shape, *map(np.shape, jax.tree.leaves(numbers)))

    def wide(value: Any) -> np.ndarray:
        return np.broadcast_to(np.asarray(value, np.float32), shape)

    params, weighting = jax.tree.map(wide, numbers)
    return params, public._replace(rows=wide(public.rows), weighting=weighting)


MAX_OF_EPSILON, MAX_OF_DELTA = 0.005, 0.01
"""The most that the samplers' finite bits may cost, as a share of the budget."""

MAX_DELTA = 1e-6
"""The most delta that finite bits may cost a pure guarantee.

For epsilon up to 10 they cost below 1e-15.
"""


def after_samplers(
    request: Request, made: Sequence[PaidDraw], noise: Mapping[str, np.ndarray]
) -> Request:
    """The request that remains for the exact laws once the samplers' finite bits are paid for.

    See `accounting.Ledger` for why 2 G of epsilon, and (1 - e^-G) delta + t of delta, pay for them.

    Args:
        request: the whole request.
        made: the draws, which say how many outputs a row moves.
        noise: for the whole request. With it, draws move no less than with what remains.

    Raises:
        ValueError: if finite bits cost more than `MAX_OF_EPSILON` or `MAX_OF_DELTA` of
            the request, or more than `MAX_DELTA` for a pure guarantee.
    """
    # The costs of all rounds, and of what takes place once.
    gap, tail = np.zeros(()), np.zeros(())
    for ask, _, _, times in made:
        if ask.mechanism.price.sampler is None:
            continue
        assert ask.moves is not None
        multiplier = np.asarray(noise[group_of(ask.site, noise)], np.float64)
        people = request.max_rows_per_user
        noisy = np.where(multiplier > 0, multiplier, np.inf)
        moved_by = people * ROUNDING / noisy
        of_draw = accounting.finite_bits(ask.mechanism.price.sampler, moved_by, ask.moves * people)
        gap, tail = gap + of_draw[0] * times, tail + of_draw[1] * times
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
        ValueError: as `after_samplers`.
    """
    private = np.isfinite(request.epsilon)
    finite = np.where(private, request.epsilon, 1.0)
    if np.any(private & (2 * gap > MAX_OF_EPSILON * finite)):
        raise ValueError(
            f"epsilon is too small with these arguments, got {shown(request.epsilon)}: what the "
            f"finite bits of so many draws cost is more than {MAX_OF_EPSILON:g} of it; fewer "
            "rounds allow less"
        )
    accepted = np.where(request.approximate, MAX_OF_DELTA * request.delta, MAX_DELTA)
    if np.any(private & (tail > accepted)):
        raise ValueError(
            f"epsilon is too large with these arguments, got {shown(request.epsilon)}: there is so "
            "little noise that its finite random bits could give a row away with a probability "
            f"above {np.min(accepted):.2g}, the most that delta = {np.min(request.delta):g} takes; "
            "more rounds or a larger delta allow more"
        )


def check_float32(recipe: Recipe, private: np.ndarray) -> None:
    """Refuse a budget that float32 cannot hold, or noise beyond the range of its sampler.

    Args:
        recipe: with any axes of settings.
        private: bool[...], whether a setting has an epsilon; without one, any noise will do.

    Raises:
        ValueError: naming the number of the budget, or the site of the noise.
    """
    for path, value in jax.tree_util.tree_leaves_with_path(recipe.params):
        if not np.all(np.asarray(value) >= 0):  # NaN, too
            name = jax.tree_util.keystr(path, simple=True, separator=" ")
            raise ValueError(f"with this epsilon {name} would be no positive finite float32")
    for site, most, scale in pricing.scales(recipe):
        if np.any(private & ~((scale > 0) & (scale <= most) & np.isfinite(scale))):
            raise ValueError(
                f"with this epsilon the noise of {site!r} would have scale {np.max(scale):g}, and "
                f"scales must be above 0, finite and at most {most:g}"
            )


def setting(recipe: Recipe, index: int | np.integer | tuple[int | np.integer, ...]) -> Recipe:
    """One setting of a recipe that holds several.

    Args:
        recipe: a recipe with axes of settings.
        index: the place on the axis, or a place on each of several axes. A negative place counts
            from the end.

    Raises:
        ValueError: for something that is no recipe, a recipe of one setting, or an index outside
            the axes.
    """
    if not isinstance(recipe, Recipe):
        raise ValueError(
            f"recipe must be a recipe, as dpbt.recipes makes it, got {type(recipe).__name__}"
        )
    lengths = np.shape(recipe.rows)
    if not lengths:
        raise ValueError(
            f"recipe must hold several settings, got one setting with index {shown(index)}"
        )
    places = index if isinstance(index, tuple) else (index,)
    if len(places) != len(lengths) or not all(map(_is_place, places, lengths)):
        ranges = ", ".join(f"0..{length - 1}" for length in lengths)
        kind = "a whole number" if len(lengths) == 1 else "a tuple of whole numbers"
        raise ValueError(f"index must be {kind} in {ranges}, got {shown(index)}")
    return jax.tree.map(lambda leaf: leaf[places], recipe)


def _is_place(value: object, length: int) -> bool:
    """Whether a value is a place on an axis of some length."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        return False
    return -length <= int(value) < length
