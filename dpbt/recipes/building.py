"""How a recipe is built: check the request, pay for finite bits, share the budget, set the noise.

The function of a recipe states the options of one algorithm and how its budget is shared. This
module holds what all algorithms have in common.

Samplers draw from finitely many random bits, so they deviate a little from their laws. The
deviation costs a little epsilon and delta (`accounting.Ledger` has the proof). This cost is taken
off the request first, and the draws share what remains.
"""

from __future__ import annotations  # so that help() shows ArrayLike by its name

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool
from numpy.typing import ArrayLike

from dpbt import types
from dpbt.common import validate
from dpbt.common.validate import (
    check_boolean,
    check_choice,
    check_floats,
    check_interval,
    check_positive_integer,
    check_positive_integers,
    show_value,
)
from dpbt.losses import check_links_of_family, loss_family_of_loss_or_name
from dpbt.privacy import boundary, conversions
from dpbt.privacy.draw_dependencies import draw_specs_of_phase
from dpbt.privacy.mechanism_types import ROUNDING, Allowance
from dpbt.privacy.noise_scales import scales_of_draws_from_rows
from dpbt.privacy.pass_stages import check_can_run_in_blocks
from dpbt.public_types import DeclaredDomain
from dpbt.types import MAX_ROWS, MultiProgramRecipe, Params, Recipe, WeakLearner
from dpbt.weighting import uniform

MAX_EPSILON = 1e6
"""The largest finite epsilon of any recipe."""

MAX_SAMPLER_SHARE_OF_EPSILON = 0.005
"""The most of epsilon that the samplers' finite bits may cost, as a share."""

MAX_SAMPLER_SHARE_OF_DELTA = 0.01
"""The most of a delta that the samplers' finite bits may cost, as a share."""

MAX_SAMPLER_DELTA = 1e-6
"""The most delta that finite bits may cost a pure guarantee.

For epsilon up to 10 they cost below 1e-15.
"""

# The arguments that recipes share.


def check_delta_or_fraction(name: str, value: ArrayLike) -> np.ndarray:
    """Check that a delta, or a share of the budget, is 0 or in (0, 1), and convert it to float64.

    Args:
        name: how errors call it.
        value: a number, or an array of settings.

    Raises:
        ValueError: unless it is 0 for every setting, or in (0, 1) for every setting.
    """
    numbers = check_floats(name, value)
    if np.any(numbers != 0) and not np.all((numbers > 0) & (numbers < 1)):
        raise ValueError(
            f"{name} must be 0, or in (0, 1) for every setting, got {show_value(numbers)}"
        )
    return numbers


def is_single_loss(family: types.LossFamily) -> bool:
    """Whether all members of a family of losses are one loss.

    Alpha then has no meaning.
    """
    return family(0.25) is family(0.75)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivacyRequest:
    """The checked arguments of a recipe's guarantee: the budget, rows, rounds and relation.

    `checked_privacy_request` checks them once.

    Attributes:
        epsilon: f64[...], the total budget; infinite for no privacy.
        delta: f64[...], 0 for a pure guarantee.
        rows: f64[...], m.
        rounds: i32[...], T.
        calibration: "tight" or "published".
        relation: the neighbouring relation.
        max_rows_per_user: the most rows that one person has.
        delta_anyway: whether a delta of 1 / rows or more is accepted.
    """

    epsilon: np.ndarray
    delta: np.ndarray
    rows: np.ndarray
    rounds: np.ndarray
    calibration: str
    relation: types.Relation
    max_rows_per_user: int
    delta_anyway: bool = False

    @property
    def is_tight(self) -> bool:
        """Whether the calibration is the tight one."""
        return self.calibration == "tight"

    @property
    def is_approximate(self) -> bool:
        """Whether the guarantee is (epsilon, delta)-DP rather than pure."""
        return bool(np.any(self.delta > 0))

    @property
    def has_finite_epsilon(self) -> Bool[np.ndarray, "..."]:
        """bool[...]: whether each setting asks for privacy.

        If not, any noise will do.
        """
        return np.isfinite(self.epsilon)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes of settings, to which all numbers of the request broadcast."""
        return np.broadcast_shapes(*map(np.shape, self.numbers.values()))

    @property
    def numbers(self) -> dict[str, np.ndarray]:
        """The numbers that may have axes of settings, by the name of their argument."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rows": self.rows,
            "rounds": self.rounds,
        }

    def with_rounds(self, rounds: ArrayLike) -> PrivacyRequest:
        """A copy of the request with other numbers of rounds."""
        return dataclasses.replace(self, rounds=np.asarray(rounds, np.int32))


def check_setting_axes_broadcast(**arguments: Any) -> None:
    """Refuse arguments whose axes of settings do not broadcast together.

    Args:
        **arguments: numbers and arrays by name; None is not given.

    Raises:
        ValueError: naming two of them and their shapes.
    """
    checked_shapes: dict[str, tuple[int, ...]] = {}
    for name, value in arguments.items():
        try:
            shape = () if value is None else np.shape(value)
        except ValueError:  # ragged, which is refused where it is read
            continue
        for other, shape_of_other in checked_shapes.items():
            try:
                np.broadcast_shapes(shape, shape_of_other)
            except ValueError:
                raise ValueError(
                    f"{name} and {other} must have axes of settings that go together, got the "
                    f"shapes {shape} and {shape_of_other}"
                ) from None
        checked_shapes[name] = shape


def checked_privacy_request(
    *,
    epsilon: ArrayLike,
    delta: ArrayLike,
    rows: ArrayLike,
    rounds: ArrayLike,
    relation: str | types.Relation,
    max_rows_per_user: int,
    delta_anyway: bool = False,
    calibration: str = "tight",
    max_rows: int = MAX_ROWS,
    has_published_delta: bool = True,
    options: Mapping[str, Any] | None = None,
) -> PrivacyRequest:
    """Check the privacy arguments that all recipes share, and hold them in one record.

    Args:
        epsilon: above 0, at most `MAX_EPSILON` or infinite.
        delta: 0 for every setting, or in (0, 1) for every setting.
        rows: m, whole numbers in 1..`max_rows` that float32 holds.
        rounds: T, whole numbers of at least 1.
        relation: a neighbouring relation, or its name.
        max_rows_per_user: the most rows that one person has, at least 1.
        delta_anyway: whether to accept a delta of 1 / rows or more; `build_recipe` refuses it else.
        calibration: "tight" or "published".
        max_rows: `MAX_ROWS`, or `MAX_ROWS_IN_BLOCKS` for a learner whose table may be in blocks.
        has_published_delta: whether the paper proves more than a pure guarantee.
        options: the recipe's own arguments that may have axes of settings, by name.

    Raises:
        ValueError: for a value outside its range, naming the argument and what was given. Also for
            arguments whose axes do not go together (`check_setting_axes_broadcast`), and for a
            delta above 0 with the published calibration of a pure guarantee.
    """
    shared = {"epsilon": epsilon, "delta": delta, "rows": rows, "rounds": rounds}
    check_setting_axes_broadcast(**shared, **(options or {}))
    check_choice("calibration", calibration, ("tight", "published"))
    checked_rows = check_interval("rows", rows, f"[1, {max_rows}]", whole_numbers=True)
    rows_in_float32 = checked_rows.astype(np.float32)
    if np.any(checked_rows != rows_in_float32):
        above = np.nextafter(rows_in_float32, np.float32(np.inf)).astype(int)
        raise ValueError(
            f"rows must fit float32: use {show_value(above)} in place of {show_value(rows)}"
        )
    checked_epsilon = check_interval("epsilon", epsilon, "(0, inf]")
    checked_delta = check_delta_or_fraction("delta", delta)
    if np.any(np.isfinite(checked_epsilon) & (checked_epsilon > MAX_EPSILON)):
        raise ValueError(
            f"epsilon must be at most {MAX_EPSILON:g}, or infinite for no privacy, got "
            f"{show_value(epsilon)}"
        )
    check_boolean("delta_anyway", delta_anyway)
    request = PrivacyRequest(
        epsilon=checked_epsilon,
        delta=checked_delta,
        rows=checked_rows,
        rounds=check_positive_integers("rounds", rounds).astype(np.int32),
        calibration=calibration,
        relation=types.as_relation(relation),
        max_rows_per_user=check_positive_integer("max_rows_per_user", max_rows_per_user),
        delta_anyway=bool(delta_anyway),
    )
    if request.is_approximate and not (request.is_tight or has_published_delta):
        raise ValueError("delta must be 0, as the published calibration has no other")
    return request


# The budget as an allowance.


def pure_or_zcdp_allowance(request: PrivacyRequest) -> Allowance:
    """The whole budget of a request: an epsilon if it is pure, a rho of zCDP if it has a delta."""
    if not request.is_approximate:
        return Allowance(request.epsilon, np.zeros(request.shape))
    rho = conversions.zcdp_rho(request.epsilon, request.delta)
    return Allowance(np.zeros(request.shape), rho)


def better_of_pure_and_zcdp_allowance(request: PrivacyRequest) -> Allowance:
    """The whole budget as an epsilon and, with a delta, also as a rho of zCDP.

    Draws take the better of them.

    It is for recipes with one draw in a round, or with one accountant for all draws of a round.
    """
    if not request.is_approximate:
        return pure_or_zcdp_allowance(request)
    return Allowance(request.epsilon, conversions.zcdp_rho(request.epsilon, request.delta))


def gaussian_allowance(request: PrivacyRequest) -> Allowance:
    """The whole budget as a rho, for draws that are all Gaussian and composed by GDP.

    It is rho = mu^2 / 2, with the mu of GDP.

    GDP composes Gaussian draws exactly. Through zCDP the noise would be 5 to 8 % larger.
    """
    zero = np.zeros(request.shape)
    return Allowance(zero, zero + conversions.gdp_mu(request.epsilon, request.delta) ** 2 / 2)


def allowance_of_one_row(allowance: Allowance, max_rows_per_user: int) -> Allowance:
    """Divide the allowance of a person among the person's rows, to what one row may cost.

    A price depends on sensitivity / scale alone. Pure costs grow with it and costs in rho with its
    square, so noise becomes `max_rows_per_user` times larger, and the epsilon of a selection
    smaller.
    """
    epsilon = allowance.epsilon / max_rows_per_user
    return Allowance(epsilon, allowance.rho / float(max_rows_per_user) ** 2)


# From a request to a recipe.


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecipeParts:
    """The parts of a recipe, without the numbers that set its noise.

    Attributes:
        learner: the weak learner.
        weight_update: how scores become weights.
        weight_params: the numbers of the weight update.
        name: the algorithm's name in tables.
        options_text: its options, for tables.
        target: the declared classes or range; None for two classes.
        domain: the declared columns, where the learner is made for them.
    """

    learner: WeakLearner
    weight_update: types.WeightUpdate
    weight_params: types.WeightParams
    name: str
    options_text: str
    target: types.Target | None = None
    domain: DeclaredDomain | None = None


def _as_float32(numbers: Any) -> Any:
    """Convert a pytree of numbers to float32.

    Raises:
        ValueError: naming the one that is no number.
    """

    def as_float32(path: Any, number: Any) -> np.ndarray:
        name = jax.tree_util.keystr(path, simple=True, separator=" ")
        return check_floats(name, number).astype(np.float32)

    return jax.tree_util.tree_map_with_path(as_float32, numbers)


def _draft_recipe(request: PrivacyRequest, parts: RecipeParts) -> Recipe:
    """Make the recipe of a request without its learner's numbers, which are set later."""
    return Recipe(
        rows=request.rows.astype(np.float32),
        delta=request.delta,
        rounds=request.rounds,
        calibration=request.calibration,
        relation=request.relation,
        max_rows_per_user=request.max_rows_per_user,
        max_rounds=int(np.max(request.rounds)),
        learner=parts.learner,
        weight_update=parts.weight_update,
        weight_params=_as_float32(parts.weight_params),
        name=parts.name,
        options_text=parts.options_text,
        target=parts.target,
        domain=parts.domain,
        params=(),
    )


def build_recipe(
    request: PrivacyRequest,
    parts: RecipeParts,
    *,
    fractions: Mapping[types.Site, Any] | None = None,
    make_params: Callable[[Mapping[types.Site, Any], types.Public], Params] | None = None,
    total_allowance: Callable[[PrivacyRequest], Allowance] = pure_or_zcdp_allowance,
) -> Recipe:
    """Build a recipe whose noise spends the budget of a request.

    It pays for the samplers' finite bits out of the request, and shares the rest among the draws.

    Args:
        request: the checked arguments.
        parts: learner, weight update and names.
        fractions: site -> its fraction of the budget; the learner's own by default.
        make_params: (noise multipliers by site, public) -> the learner's numbers; the learner's own
            by default.
        total_allowance: from the request to what all rounds may cost together. It is not asked
            where all draws are Gaussian and the calibration is tight: GDP composes these exactly
            (`gaussian_allowance`).

    Raises:
        ValueError: if a number of the budget does not fit float32, if axes of settings do not go
            together, or if finite bits cost too much of the request. Also for a site without a
            fraction, for fractions of a budget that are no numbers above 0, or more than all of it,
            and as `Recipe`.
    """
    validate.check_delta_below_inverse_rows(
        request.delta, request.rows, delta_anyway=request.delta_anyway
    )
    _check_axes_broadcast_with_shared_numbers(
        request.numbers, parts.weight_params, numbers_noun="weighting"
    )
    _check_axes_broadcast_with_shared_numbers(
        request.numbers, fractions or {}, numbers_noun="fractions"
    )
    draft = _draft_recipe(request, parts)
    fractions = _checked_fraction_by_site(
        parts.learner.fractions if fractions is None else fractions
    )
    make_params = make_params or parts.learner.make_params
    public = draft.public()._replace(max_rows=request.rows)

    # The draws that share the budget are the same under any noise.
    any_params = make_params(dict.fromkeys(fractions, np.ones(())), public)
    with_any_noise = dataclasses.replace(draft, params=_as_float32(any_params))
    paid_draws = _paid_draws(with_any_noise, request, fractions)

    all_gaussian = all(draw.spec.mechanism.price.gaussian for draw in paid_draws)
    if request.is_approximate and request.is_tight and all_gaussian:
        total_allowance = gaussian_allowance
    noise = noise_multipliers_after_finite_bits(
        request, total_allowance=total_allowance, fractions=fractions, paid_draws=paid_draws
    )
    return _set_params_on_all_axes(draft, make_params(noise, public), request.has_finite_epsilon)


def build_recipe_of_fixed_noise(
    request: PrivacyRequest, parts: RecipeParts, make_params: Callable[[types.Public], Params]
) -> Recipe:
    """Build a recipe whose noise the caller states instead of a budget.

    Its ledger then says what that costs.

    Args:
        request: the checked arguments, whose epsilon sets nothing.
        parts: learner, weight update and names.
        make_params: (public) -> the learner's numbers, its noise among them.

    Raises:
        ValueError: if a number does not fit float32, and as `Recipe`.
    """
    validate.check_delta_below_inverse_rows(
        request.delta, request.rows, delta_anyway=request.delta_anyway
    )
    _check_axes_broadcast_with_shared_numbers(
        request.numbers, parts.weight_params, numbers_noun="weighting"
    )
    draft = _draft_recipe(request, parts)
    params = make_params(draft.public()._replace(max_rows=request.rows))
    return _set_params_on_all_axes(draft, params, request.has_finite_epsilon)


def _checked_fraction_by_site(
    fractions: Mapping[types.Site, Any] | Sequence[tuple[types.Site, Any]],
) -> dict[types.Site, Any]:
    """Check the fraction of the budget of each site, and return them as site -> fraction.

    Raises:
        ValueError: for one that is no number above 0, and for more than all of the budget.
    """
    fractions = dict(fractions)
    for site, fraction in fractions.items():
        check_interval(f"the fraction of {site!r}", fraction, "(0, inf]")
    total = sum(np.asarray(fraction, np.float64) for fraction in fractions.values())
    if np.any(total > 1 + 1e-9):
        raise ValueError(
            f"the fractions of a budget must add up to at most 1, got {show_value(total)}"
        )
    return fractions


def _check_axes_broadcast_with_shared_numbers(
    shared_numbers: Mapping[str, Any], numbers: Any, *, numbers_noun: str
) -> None:
    """Refuse a pytree of numbers whose axes do not broadcast with those that all recipes share.

    Args:
        shared_numbers: epsilon, delta, rows and rounds, as far as they are known.
        numbers: a pytree of numbers.
        numbers_noun: how errors call them.

    Raises:
        ValueError: as `check_setting_axes_broadcast`.
    """
    leaves = jax.tree_util.tree_leaves_with_path(numbers)
    leaf_by_name = {
        f"{numbers_noun} {jax.tree_util.keystr(path, simple=True, separator=' ')}": leaf
        for path, leaf in leaves
    }
    check_setting_axes_broadcast(**shared_numbers, **leaf_by_name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaidDraw:
    """A draw that the budget pays for.

    Attributes:
        spec: what the program asks for.
        group: the name of its fraction of the budget.
        times: f64[...], how often all rounds make it.
    """

    spec: boundary.DrawSpec
    group: str
    times: np.ndarray


def _paid_draws(
    recipe: Recipe, request: PrivacyRequest, fractions: Mapping[types.Site, Any]
) -> list[PaidDraw]:
    """List the draws of a recipe that the budget pays for, as one of its settings makes them.

    Raises:
        ValueError: for a draw without a fraction, and for a fraction without a draw.
    """
    first_setting = jax.tree.map(lambda leaf: np.asarray(leaf).flat[0], recipe)
    paid_draws = [
        PaidDraw(
            spec=spec,
            group=boundary.budget_group_of_site(spec.site, fractions),
            times=request.rounds.astype(np.float64) if phase.repeats else np.ones(()),
        )
        for phase in recipe.learner.phases
        for spec in draw_specs_of_phase(first_setting, phase)
        if spec.mechanism.price.reads_rows and not spec.has_stated_scale
    ]
    if unused := sorted(set(fractions) - {draw.group for draw in paid_draws}):
        raise ValueError(
            f"{recipe.learner.identity} draws nothing at {unused}, which have fractions"
        )
    return paid_draws


def noise_multipliers_after_finite_bits(
    request: PrivacyRequest,
    *,
    total_allowance: Callable[[PrivacyRequest], Allowance],
    fractions: Mapping[types.Site, Any],
    paid_draws: Sequence[PaidDraw],
) -> dict[types.Site, np.ndarray]:
    """Compute the noise multipliers of all sites from what a request has left after finite bits.

    What finite bits cost depends on the noise, and the noise on what they leave of the request. So
    a first pass shares the whole request, whose noise is smaller and its finite bits therefore
    dearer, and a second pass shares what remains.

    Args:
        request: the whole request.
        total_allowance: as `noise_multipliers`.
        fractions: as `noise_multipliers`.
        paid_draws: the draws.

    Raises:
        ValueError: as `request_after_finite_bits`.
    """
    noise_before_payment = noise_multipliers(
        request, total_allowance=total_allowance, fractions=fractions, paid_draws=paid_draws
    )
    request_for_laws = request_after_finite_bits(request, paid_draws, noise_before_payment)
    return noise_multipliers(
        request_for_laws,
        total_allowance=total_allowance,
        fractions=fractions,
        paid_draws=paid_draws,
    )


def noise_multipliers(
    request: PrivacyRequest,
    *,
    total_allowance: Callable[[PrivacyRequest], Allowance],
    fractions: Mapping[types.Site, Any],
    paid_draws: Sequence[PaidDraw],
) -> dict[types.Site, np.ndarray]:
    """Compute the noise multipliers with which all draws together cost the request.

    The draws of a group share its fraction of the budget evenly. If each of them is paid for as
    often as the others, they have one multiplier under the name of the group. Else each has its
    own, under the name of its site.

    Args:
        request: what all draws together may cost.
        total_allowance: from the request to what all rounds may cost.
        fractions: group -> its fraction of the budget.
        paid_draws: the draws.
    """
    allowance = allowance_of_one_row(total_allowance(request), request.max_rows_per_user)
    payments_by_group: dict[str, list[int]] = {}
    for draw in paid_draws:
        payments_by_group.setdefault(draw.group, []).append(draw.spec.num_payments)
    noise: dict[types.Site, np.ndarray] = {}
    for draw in paid_draws:
        payments_of_group = payments_by_group[draw.group]
        payments = len(payments_of_group) * draw.times * float(draw.spec.num_payments)
        share = np.asarray(fractions[draw.group], np.float64) / payments
        has_one_multiplier = len(set(payments_of_group)) == 1
        name = draw.group if has_one_multiplier else draw.spec.site
        noise[name] = draw.spec.mechanism.noise_multiplier(allowance.times(share))
    return noise


@dataclasses.dataclass(frozen=True, kw_only=True)
class _FiniteBitsCost:
    """What the finite bits of samplers add to the cost of a person's guarantee, over all rounds.

    Attributes:
        gap: f64[...], G: how far log densities are from those of the laws.
        tail: f64[...], t: the probability of outputs without this bound.
    """

    gap: np.ndarray
    tail: np.ndarray


def _cost_of_finite_bits(
    paid_draws: Sequence[PaidDraw],
    noise: Mapping[types.Site, np.ndarray],
    *,
    max_rows_per_user: int,
) -> _FiniteBitsCost:
    """Add up what the finite bits of samplers cost, over all draws of all rounds.

    Draws that are made once are among them.

    Args:
        paid_draws: the draws, which say how many outputs a row moves.
        noise: the noise multiplier of each site.
        max_rows_per_user: the most rows of one person, which all move.
    """
    gap = np.zeros(())
    tail = np.zeros(())
    for draw in paid_draws:
        sampler = draw.spec.mechanism.price.sampler
        if sampler is None:
            continue
        # As `draw_dependencies.check_prices_are_public` says of draws that read rows.
        assert draw.spec.moved_outputs is not None
        site = boundary.budget_group_of_site(draw.spec.site, noise)
        multiplier = np.asarray(noise[site], np.float64)
        cost = sampler.cost_of_draw(
            total_shift=max_rows_per_user * ROUNDING / np.where(multiplier > 0, multiplier, np.inf),
            num_outputs=draw.spec.moved_outputs * max_rows_per_user,
        )
        gap = gap + cost.gap * draw.times
        tail = tail + cost.tail * draw.times
    return _FiniteBitsCost(gap=gap, tail=tail)


def _check_cost_of_finite_bits(request: PrivacyRequest, cost: _FiniteBitsCost) -> None:
    """Refuse a request of which too large a part would pay for finite bits.

    Raises:
        ValueError: if they cost more than `MAX_SAMPLER_SHARE_OF_EPSILON` or
            `MAX_SAMPLER_SHARE_OF_DELTA` of it, or more than `MAX_SAMPLER_DELTA` for a pure
            guarantee.
    """
    epsilon = request.epsilon
    has_finite_epsilon = request.has_finite_epsilon
    if np.any(has_finite_epsilon & (2 * cost.gap > MAX_SAMPLER_SHARE_OF_EPSILON * epsilon)):
        raise ValueError(
            f"epsilon is too small for so many draws, got {show_value(epsilon)}: use fewer rounds"
        )
    max_tail = np.where(
        request.is_approximate, MAX_SAMPLER_SHARE_OF_DELTA * request.delta, MAX_SAMPLER_DELTA
    )
    if np.any(has_finite_epsilon & (cost.tail > max_tail)):
        raise ValueError(
            f"epsilon is too large for so few draws, got {show_value(epsilon)}: their finite bits "
            "could give a row away; a larger delta helps"
        )


def request_after_finite_bits(
    request: PrivacyRequest, paid_draws: Sequence[PaidDraw], noise: Mapping[types.Site, np.ndarray]
) -> PrivacyRequest:
    """Take the cost of the samplers' finite bits off a request, and return what remains of it.

    The exact laws share this.

    See `accounting.Ledger` for why 2 G of epsilon, and (1 - e^-G) delta + t of delta, pay for them.
    Without privacy there is nothing to pay.

    Args:
        request: the whole request.
        paid_draws: the draws, which say how many outputs a row moves.
        noise: multipliers for the whole request. With these, draws move no less than with those
            for what remains.

    Raises:
        ValueError: as `_check_cost_of_finite_bits`.
    """
    cost = _cost_of_finite_bits(paid_draws, noise, max_rows_per_user=request.max_rows_per_user)
    _check_cost_of_finite_bits(request, cost)
    epsilon = request.epsilon - 2 * cost.gap
    delta = np.where(request.delta > 0, (request.delta - cost.tail) * np.exp(-cost.gap), 0.0)
    return dataclasses.replace(
        request,
        epsilon=np.where(request.has_finite_epsilon, epsilon, request.epsilon),
        delta=np.where(request.has_finite_epsilon, delta, request.delta),
    )


def _set_params_on_all_axes(
    draft: Recipe, params: Params, has_finite_epsilon: Bool[np.ndarray, "..."]
) -> Recipe:
    """Put the learner's numbers into a draft recipe, and broadcast every array to all its settings.

    Args:
        draft: the recipe without them.
        params: a NamedTuple of numbers.
        has_finite_epsilon: bool[...], whether a setting asks for privacy; if not, any noise will
            do.

    Raises:
        ValueError: for a budget that float32 cannot hold, or noise beyond the range of its sampler,
            naming the number of the budget, or the site of the noise.
    """
    recipe = dataclasses.replace(draft, params=_as_float32(params))
    shared_numbers = {"delta": recipe.delta, "rows": recipe.rows, "rounds": recipe.rounds}
    _check_axes_broadcast_with_shared_numbers(shared_numbers, recipe.params, numbers_noun="params")
    shape = np.broadcast_shapes(*map(np.shape, jax.tree.leaves(recipe)))
    recipe = jax.tree.map(lambda leaf: np.broadcast_to(leaf, shape), recipe)
    for path, value in jax.tree_util.tree_leaves_with_path(recipe.params):
        if not np.all(value >= 0):  # NaN, too
            name = jax.tree_util.keystr(path, simple=True, separator=" ")
            raise ValueError(f"{name} must be a float32 of at least 0, got {show_value(value)}")
    for site, max_scale, scale in scales_of_draws_from_rows(recipe):
        if np.any(has_finite_epsilon & ~((scale > 0) & (scale <= max_scale) & np.isfinite(scale))):
            raise ValueError(
                f"the noise of {site!r} must have a scale in (0, {max_scale:g}], "
                f"got {np.max(scale):g}"
            )
    return recipe


def setting(
    recipe: Recipe | MultiProgramRecipe, index: int | np.integer | tuple[int | np.integer, ...]
) -> Recipe:
    """Take one setting out of a recipe that holds several.

    Args:
        recipe: a recipe with axes of settings, of one program or of several.
        index: the place on the axis, or a place on each of several axes. A negative place counts
            from the end.

    Raises:
        ValueError: for something that is no recipe, a recipe of one setting, or an index outside
            the axes.
    """
    shape = recipe.shape if isinstance(recipe, Recipe | MultiProgramRecipe) else ()
    try:
        inside = np.ndim(np.empty(shape)[index]) == 0
    except IndexError:
        inside = False
    if not inside:
        raise ValueError(
            f"index must be a place in settings of shape {shape}, got {show_value(index)}"
        )
    if isinstance(recipe, MultiProgramRecipe):
        recipe = recipe.programs[recipe.program[index]]
    return jax.tree.map(lambda leaf: leaf[index], recipe)


def custom(
    learner: WeakLearner,
    *,
    rows: ArrayLike,
    rounds: ArrayLike,
    epsilon: ArrayLike | None = None,
    delta: ArrayLike = 0.0,
    params: Params | None = None,
    fractions: Mapping[types.Site, Any] | None = None,
    weight_update: types.WeightUpdate = uniform,
    weighting: types.WeightParams = (),
    loss: types.ProperLoss | types.LossFamily | str | None = None,
    relation: str | types.Relation | None = None,
    max_rows_per_user: int = 1,
    delta_anyway: bool = False,
    name: str = "custom",
) -> Recipe:
    """A recipe of boosting with any weak learner and any weight update.

    It is Bun et al. (2020), Algorithm 1, for any weight update.

    Guarantee: what the learner's draws cost, times `rounds`; see `dpbt.ledger`. With `epsilon` the
    fractions of its draws set the noise, after the samplers' finite bits are paid for.

    `dpbt.recipes` explains the arguments that all recipes share.

    Args:
        learner: from `boundary.weak_learner`, or one of `dpbt.learners`.
        rows: m, a public bound on the number of rows; under replace-one their public number.
        rounds: T.
        epsilon: the total budget. Give either this or `params`.
        delta: 0 for a pure guarantee, else in (0, 1), through GDP where all draws are
            Gaussian, and else through zCDP.
        params: the learner's numbers, a NamedTuple, instead of `epsilon`.
        fractions: the fraction of `epsilon` of each site; the learner's own by default.
        weight_update: `weighting.uniform`, `mirror(...)`, `lazy_bregman(...)` or your own.
        weighting: the numbers of the weight update, a NamedTuple such as
            `weighting.MirrorNumbers`; an empty tuple for `uniform`.
        loss: the loss of `predict_proba`, a family of losses, or a name in `losses.NAMED`. Its
            alpha is `weighting.link_alpha`. None for scores without probabilities.
        relation: "add_remove" or "replace_one"; by default the learner's, or add/remove.
        max_rows_per_user: the most rows of one person, all of which the guarantee covers together.
        delta_anyway: whether to accept a delta of 1 / rows or more, which protects nobody.
        name: the name of the algorithm in tables.

    Raises:
        ValueError: for both or neither of `epsilon` and `params`, for an argument of another kind
            or out of its range, and for a site without a fraction. Parts that do not fit
            together are refused as `Recipe` says.
    """
    _check_parts_of_custom(learner, weight_update=weight_update, weighting=weighting)
    if (epsilon is None) == (params is None):
        raise ValueError("give either epsilon or params, and not both")
    if fractions is not None and epsilon is None:
        raise ValueError("give either epsilon with its fractions, or params, which have the noise")
    if relation is None:
        relation = learner.assumptions.relation or types.ADD_REMOVE
    request = checked_privacy_request(
        epsilon=np.inf if epsilon is None else epsilon,  # the params have the noise then
        delta=delta,
        rows=rows,
        rounds=rounds,
        relation=relation,
        max_rows_per_user=max_rows_per_user,
        delta_anyway=delta_anyway,
        max_rows=types.MAX_ROWS_IN_BLOCKS,
    )
    family = None if loss is None else loss_family_of_loss_or_name(loss, "loss")
    if family is not None:
        check_links_of_family(family)
        if not hasattr(weighting, "link_alpha"):
            raise ValueError("a loss needs weighting with link_alpha, as MirrorNumbers has it")

    parts = RecipeParts(
        learner=learner,
        weight_update=dataclasses.replace(weight_update, loss=family),
        weight_params=weighting,
        name=name,
        options_text="custom",
    )
    if params is None:
        recipe = build_recipe(request, parts, fractions=fractions)
    else:
        recipe = build_recipe_of_fixed_noise(request, parts, lambda _: params)
    if np.any(recipe.rows > MAX_ROWS):
        _check_can_have_rows_in_blocks(recipe)
    return recipe


def _check_parts_of_custom(
    learner: object, *, weight_update: object, weighting: types.WeightParams
) -> None:
    """Refuse a learner, a weight update or its numbers that are of another type.

    Raises:
        ValueError: naming the argument and its type.
    """
    if not isinstance(learner, WeakLearner):
        raise ValueError(f"learner must be a weak learner, got {type(learner).__name__}")
    if not isinstance(weight_update, types.WeightUpdate):
        raise ValueError(
            f"weight_update must be a weight update, got {type(weight_update).__name__}"
        )
    if type(weighting) is not weight_update.params_type:
        raise ValueError(
            f"{weight_update.identity} needs weighting={weight_update.params_type.__name__}, "
            f"got {show_value(weighting)}"
        )


def _check_can_have_rows_in_blocks(recipe: Recipe) -> None:
    """Refuse a recipe of more rows than a table in memory may have, unless it learns from blocks.

    Raises:
        ValueError: saying why it cannot.
    """
    try:
        check_can_run_in_blocks(jax.tree.map(lambda leaf: leaf.flat[0], recipe))
    except ValueError as error:
        raise ValueError(f"rows must be at most {MAX_ROWS}, as {error}") from None
