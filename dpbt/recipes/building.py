"""How a recipe is built: check the request, pay for finite bits, split the budget, assemble.

The function of a recipe states the options of one algorithm and how its budget is shared. This
module holds what all algorithms have in common.
"""

from __future__ import annotations  # so that help() shows ArrayLike by its name

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from dpbt.common import types, validate
from dpbt.common.types import MAX_ROWS, Params, Recipe, WeakLearner
from dpbt.common.types import relation as to_relation
from dpbt.common.validate import floats, one_of, shown, whole, wholes, within
from dpbt.losses import as_family, check_loss
from dpbt.privacy import boundary, conversions, pricing
from dpbt.privacy.mechanism import ROUNDING, Allowance
from dpbt.weighting import uniform

MAX_EPSILON = 1e6
"""The largest finite epsilon of any recipe."""

MAX_OF_EPSILON, MAX_OF_DELTA = 0.005, 0.01
"""The most that the samplers' finite bits may cost, as a share of the budget."""

MAX_DELTA = 1e-6
"""The most delta that finite bits may cost a pure guarantee.

For epsilon up to 10 they cost below 1e-15.
"""

# The arguments that recipes share.


def zeros_or_shares(name: str, value: ArrayLike) -> np.ndarray:
    """A delta, or a share of the budget, as float64.

    Raises:
        ValueError: unless it is 0 for every setting, or in (0, 1) for every setting.
    """
    numbers = floats(name, value)
    if np.any(numbers != 0) and not np.all((numbers > 0) & (numbers < 1)):
        raise ValueError(f"{name} must be 0, or in (0, 1) for every setting, got {shown(numbers)}")
    return numbers


def is_single(family: types.LossFamily) -> bool:
    """Whether all members of a family are one loss, so that alpha has no meaning."""
    return family(0.25) is family(0.75)


class Request(NamedTuple):
    """The arguments that all recipes share, checked.

    Attributes:
        epsilon: f64[...], the total budget; infinite for no privacy.
        delta: f64[...], 0 for a pure guarantee.
        rows: f64[...], m.
        rounds: i32[...], T.
        calibration: "tight" or "published".
        relation: the neighbouring relation.
        max_rows_per_user: the most rows that one person has.
        approximate: whether the guarantee is (epsilon, delta) rather than pure.
    """

    epsilon: np.ndarray
    delta: np.ndarray
    rows: np.ndarray
    rounds: np.ndarray
    calibration: str
    relation: types.Relation
    max_rows_per_user: int
    approximate: bool

    @property
    def tight(self) -> bool:
        """Whether the calibration is the tight one."""
        return self.calibration == "tight"


def check_axes(**arguments: Any) -> None:
    """Check that arguments have axes of settings that go together, as arrays that broadcast.

    Args:
        **arguments: numbers and arrays by name; None is not given.

    Raises:
        ValueError: naming two of them and their shapes.
    """
    known: dict[str, tuple[int, ...]] = {}
    for name, value in arguments.items():
        try:
            shape = () if value is None else np.shape(value)
        except ValueError:  # ragged, which is refused where it is read
            continue
        for other, shape_of_other in known.items():
            try:
                np.broadcast_shapes(shape, shape_of_other)
            except ValueError:
                raise ValueError(
                    f"{name} and {other} must have axes of settings that go together, got the "
                    f"shapes {shape} and {shape_of_other}"
                ) from None
        known[name] = shape


def checked_request(
    *given: Any,
    max_rows: int = MAX_ROWS,
    published_delta: bool = True,
    beside: Mapping[str, Any] | None = None,
) -> Request:
    """Check the arguments that all recipes share.

    Args:
        given: epsilon, delta, rows, rounds, calibration, relation and max_rows_per_user, in their
            order.
        max_rows: the most rows: `MAX_ROWS`, or `MAX_ROWS_IN_BLOCKS` for a learner whose table may
            be read in blocks.
        published_delta: whether the paper proves more than a pure guarantee.
        beside: the recipe's own arguments that may have axes of settings, by name.

    Raises:
        ValueError: for a value outside its range, naming the argument and what was given. Also for
            arguments whose axes do not go together (`check_axes`), for a number of rows that
            float32 does not hold, and for a delta above 0 with the published calibration of a pure
            guarantee.
    """
    epsilon, delta, rows, rounds, calibration, relation, people = given
    one_of("calibration", calibration, ("tight", "published"))
    shared = {"epsilon": epsilon, "delta": delta, "rows": rows, "rounds": rounds}
    check_axes(**shared, **(beside or {}))
    numbers = within("rows", rows, f"[1, {max_rows}]", whole=True)
    held = numbers.astype(np.float32)
    if np.any(numbers != held):
        above = np.nextafter(held, np.float32(np.inf)).astype(int)
        raise ValueError(f"rows must fit float32: use {shown(above)} in place of {shown(rows)}")
    budget = within("epsilon", epsilon, "(0, inf]"), zeros_or_shares("delta", delta)
    if np.any(np.isfinite(budget[0]) & (budget[0] > MAX_EPSILON)):
        most = f"at most {MAX_EPSILON:g}, or infinite for no privacy"
        raise ValueError(f"epsilon must be {most}, got {shown(epsilon)}")
    request = Request(
        *budget,
        numbers,
        wholes("rounds", rounds).astype(np.int32),
        calibration,
        to_relation(relation),
        whole("max_rows_per_user", people),
        bool(np.any(budget[1] > 0)),
    )
    if request.approximate and not (request.tight or published_delta):
        raise ValueError("delta must be 0, as the published calibration has no other")
    return request


# The budget as an allowance.


def one_accountant(request: Request, *, either: bool = False, gaussian: bool = False) -> Allowance:
    """The whole budget: an epsilon for a pure guarantee, a rho of zCDP for one with a delta.

    Args:
        request: the checked arguments.
        either: for recipes with one draw in a round, or with one accountant for all draws of a
            round: with a delta, an epsilon as well as a rho.
        gaussian: for recipes whose draws are all Gaussian: rho = mu^2 / 2, and mu by GDP, which
            composes them exactly. Through zCDP the noise would be 5 to 8 % larger.
    """
    zero = np.zeros(np.broadcast_shapes(*map(np.shape, request[:4])))
    if gaussian:
        return Allowance(zero, zero + conversions.gdp_mu(request.epsilon, request.delta) ** 2 / 2)
    if not request.approximate:
        return Allowance(request.epsilon, zero)
    rho = conversions.zcdp_rho(request.epsilon, request.delta)
    return Allowance(request.epsilon if either else zero, rho)


either_accountant = functools.partial(one_accountant, either=True)


def for_people(allowance: Allowance, max_rows_per_user: int) -> Allowance:
    """What one row may cost, if all rows of a person may cost the allowance.

    A price depends on sensitivity / scale alone. Pure costs grow with it and costs in rho with its
    square, so noise becomes `max_rows_per_user` times larger, and the epsilon of a selection
    smaller.
    """
    epsilon = allowance.epsilon / max_rows_per_user
    return Allowance(epsilon, allowance.rho / float(max_rows_per_user) ** 2)


# From a request to a recipe.


def _single_precision(numbers: Any) -> Any:
    """A pytree of numbers as float32.

    Raises:
        ValueError: naming the one that is no number.
    """
    named, kind = jax.tree_util.tree_flatten_with_path(numbers)
    names = [jax.tree_util.keystr(path, simple=True, separator=" ") for path, _ in named]
    given = zip(names, named, strict=True)
    return kind.unflatten([floats(name, one).astype(np.float32) for name, (_, one) in given])


def build(
    request: Request,
    learner: WeakLearner,
    weight_update: types.WeightUpdate,
    weighting: types.Weighting,
    *,
    fractions: Mapping[str, Any] | None = None,
    params: Callable[[Mapping[str, Any], types.Public], Params] | None = None,
    given: Callable[[types.Public], Params] | None = None,
    allow: Callable[[Request], Allowance] = one_accountant,
    **words: Any,
) -> Recipe:
    """Build a recipe: pay for finite bits out of the request, and share the rest among the draws.

    Args:
        request: the checked arguments.
        learner: the weak learner.
        weight_update: the weight update.
        weighting: the numbers of the weight update.
        fractions: the fraction of the budget of each site; the learner's own by default.
        params: (noise multipliers by site, public) -> the learner's numbers; the learner's own by
            default.
        given: (public) -> the learner's numbers, where the request does not set the noise.
        allow: the most that all rounds may cost together, unless all draws are Gaussian.
        words: name, setting, and the target where it is declared, as `Recipe` has them.

    Raises:
        ValueError: if a number of the budget does not fit float32, if axes of settings do not go
            together, or if finite bits cost too much of the request. Also for a site without a
            fraction, for fractions of a budget that are no numbers above 0, or more than all of it,
            and as `Recipe`.
    """
    # The recipe without the numbers of its learner.
    validate.warn_of_delta(request.delta, request.rows)
    shared = request._replace(rows=request.rows.astype(np.float32))._asdict()
    axes = {name: shared[name] for name in ("epsilon", "delta", "rows", "rounds")}
    _check_own_axes(axes, weighting, "weighting")
    _check_own_axes(axes, fractions or {}, "fractions")
    del shared["epsilon"], shared["approximate"]
    shared |= {"learner": learner, "weight_update": weight_update, "params": ()}
    numbers, capacity = _single_precision(weighting), int(np.max(request.rounds))
    drafted = Recipe(weighting=numbers, capacity=capacity, **shared, **words)
    public = drafted.public()._replace(rows=request.rows)
    if given is not None:
        return assemble(drafted, given(public), np.isfinite(request.epsilon))
    fractions = dict(learner.fractions if fractions is None else fractions)
    for site, fraction in fractions.items():
        within(f"the fraction of {site!r}", fraction, "(0, inf]")
    total = sum(np.asarray(each, np.float64) for each in fractions.values())
    if np.any(total > 1 + 1e-9):
        raise ValueError(f"the fractions of a budget must add up to at most 1, got {shown(total)}")
    params = params or learner.params

    # The draws that share the budget, as one setting makes them with any noise.
    any_noise = _single_precision(params(dict.fromkeys(fractions, np.ones(())), public))
    filled, made = dataclasses.replace(drafted, params=any_noise), []
    single = jax.tree.map(lambda leaf: np.asarray(leaf).flat[0], filled)
    for part in learner.parts:
        times = request.rounds.astype(np.float64) if part == "rounds" else np.ones(())
        for ask in pricing.sites(single, part):
            if ask.mechanism.price.reads_rows and not ask.own_scale:
                made.append((ask, boundary.group_of(ask.site, fractions), times))
    if unused := sorted(set(fractions) - {group for _, group, _ in made}):
        raise ValueError(f"{learner.traits.tag} draws nothing at {unused}, which have fractions")

    # Gaussian draws alone are composed by GDP.
    gaussian = all(ask.mechanism.price.gaussian for ask, _, _ in made)
    if request.approximate and request.tight and gaussian:
        allow = functools.partial(one_accountant, gaussian=True)

    # What finite bits cost depends on the noise, so the whole request is shared first.
    people = request.max_rows_per_user
    first = _noise(for_people(allow(request), people), fractions, made)
    remaining = after_samplers(request, made, first)
    noise = _noise(for_people(allow(remaining), people), fractions, made)
    return assemble(drafted, params(noise, public), np.isfinite(request.epsilon))


def _check_own_axes(shared: Mapping[str, Any], numbers: Any, what: str) -> None:
    """Check the axes of a pytree of numbers beside those that all recipes share.

    Raises:
        ValueError: as `check_axes`.
    """
    leaves = jax.tree_util.tree_leaves_with_path(numbers)
    words = (jax.tree_util.keystr(path, simple=True, separator=" ") for path, _ in leaves)
    own = {f"{what} {name}": leaf for name, (_, leaf) in zip(words, leaves, strict=True)}
    check_axes(**shared, **own)


PaidDraw = tuple[boundary.DrawSpec, str, Any]
"""A draw that costs something, the name of its fraction, and how often all rounds make it."""


def _noise(
    allowance: Allowance, fractions: Mapping[str, Any], made: Sequence[PaidDraw]
) -> dict[str, np.ndarray]:
    """The noise multiplier of each site; draws of one fraction and as many payments share one."""
    noise: dict[str, np.ndarray] = {}
    for ask, group, times in made:
        counts = [other.count for other, of_group, _ in made if of_group == group]
        payments = len(counts) * times * float(ask.count)
        part = allowance.part(np.asarray(fractions[group], np.float64) / payments)
        noise[group if len(set(counts)) == 1 else ask.site] = ask.mechanism.multiplier(part)
    return noise


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
    gap, tail, people = np.zeros(()), np.zeros(()), request.max_rows_per_user
    for ask, _, times in made:
        if ask.mechanism.price.sampler is None:
            continue
        assert ask.moves is not None
        multiplier = np.asarray(noise[boundary.group_of(ask.site, noise)], np.float64)
        moved_by = people * ROUNDING / np.where(multiplier > 0, multiplier, np.inf)
        of_draw = ask.mechanism.price.sampler.bits(moved_by, ask.moves * people)
        gap, tail = gap + of_draw[0] * times, tail + of_draw[1] * times

    # Refuse a request that they would cost too much of; without privacy there is nothing to pay.
    epsilon, private = request.epsilon, np.isfinite(request.epsilon)
    if np.any(private & (2 * gap > MAX_OF_EPSILON * request.epsilon)):
        given = shown(epsilon)
        raise ValueError(f"epsilon is too small for so many draws, got {given}: use fewer rounds")
    accepted = np.where(request.approximate, MAX_OF_DELTA * request.delta, MAX_DELTA)
    if np.any(private & (tail > accepted)):
        given = f"{shown(epsilon)}: their finite bits could give a row away"
        raise ValueError(
            f"epsilon is too large for so few draws, got {given}; a larger delta helps"
        )

    delta = np.where(request.delta > 0, (request.delta - tail) * np.exp(-gap), 0.0)
    return request._replace(
        epsilon=np.where(private, epsilon - 2 * gap, epsilon),
        delta=np.where(private, delta, request.delta),
    )


def assemble(drafted: Recipe, params: Params, private: np.ndarray) -> Recipe:
    """The recipe with the numbers of its learner; every array has all axes of settings.

    Args:
        drafted: the recipe without them.
        params: a NamedTuple of numbers.
        private: bool[...], whether a setting has an epsilon; without one, any noise will do.

    Raises:
        ValueError: for a budget that float32 cannot hold, or noise beyond the range of its sampler,
            naming the number of the budget, or the site of the noise.
    """
    recipe = dataclasses.replace(drafted, params=_single_precision(params))
    shared = {"rows": recipe.rows, "delta": recipe.delta, "rounds": recipe.rounds}
    _check_own_axes(shared, recipe.params, "params")
    shape = np.broadcast_shapes(*map(np.shape, jax.tree.leaves(recipe)))
    recipe = jax.tree.map(lambda leaf: np.broadcast_to(leaf, shape), recipe)
    for path, value in jax.tree_util.tree_leaves_with_path(recipe.params):
        if not np.all(value >= 0):  # NaN, too
            name = jax.tree_util.keystr(path, simple=True, separator=" ")
            raise ValueError(f"{name} must be a float32 of at least 0, got {shown(value)}")
    for site, most, scale in pricing.scales(recipe):
        if np.any(private & ~((scale > 0) & (scale <= most) & np.isfinite(scale))):
            raise ValueError(
                f"the noise of {site!r} must have a scale in (0, {most:g}], got {np.max(scale):g}"
            )
    return recipe


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
    shape = np.shape(getattr(recipe, "rows", ()))
    try:
        inside = np.ndim(np.empty(shape)[index]) == 0
    except IndexError:
        inside = False
    if not inside:
        raise ValueError(f"index must be a place in settings of shape {shape}, got {shown(index)}")
    return jax.tree.map(lambda leaf: leaf[index], recipe)


def custom(
    learner: WeakLearner,
    *,
    rows: ArrayLike,
    rounds: ArrayLike,
    epsilon: ArrayLike | None = None,
    delta: ArrayLike = 0.0,
    params: Params | None = None,
    fractions: Mapping[str, Any] | None = None,
    weight_update: types.WeightUpdate = uniform,
    weighting: types.Weighting = (),
    loss: types.ProperLoss | types.LossFamily | str | None = None,
    relation: str | types.Relation | None = None,
    max_rows_per_user: int = 1,
    name: str = "custom",
) -> Recipe:
    """Boosting with any weak learner: Bun et al. (2020), Algorithm 4, for any weight update.

    Guarantee: what the learner's draws cost, times `rounds`; see `dpbt.ledger`. With `epsilon` the
    fractions of its draws set the noise, after the samplers' finite bits are paid for.

    Args:
        learner: from `boundary.weak_learner`, or one of `dpbt.learners`.
        rows: m. Under add/remove a public bound on the number of rows; under replace-one their
            public number.
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
        max_rows_per_user: the most rows of one person: a limit if the table has ids of users, else
            the owner's promise. The guarantee is for all rows of a person together.
        name: the name of the algorithm in tables.

    Raises:
        ValueError: for both or neither of `epsilon` and `params`, for an argument of another kind
            or out of its range, and for a site without a fraction. Parts that do not fit
            together are refused as `Recipe` says.
    """
    if not isinstance(learner, WeakLearner) or not isinstance(weight_update, types.WeightUpdate):
        raise ValueError("learner must be a weak learner, and weight_update a weight update")
    if (epsilon is None) == (params is None) or (fractions is not None and epsilon is None):
        raise ValueError("give either epsilon, perhaps with fractions of it, or params")
    if type(weighting) is not weight_update.numbers:
        numbers = weight_update.numbers.__name__
        raise ValueError(f"{weight_update.tag} needs weighting={numbers}, got {shown(weighting)}")
    under = learner.traits.relation or types.ADD_REMOVE if relation is None else relation
    budget = np.inf if epsilon is None else epsilon
    common = budget, delta, rows, rounds, "tight", under, max_rows_per_user
    request = checked_request(*common, max_rows=types.MAX_ROWS_IN_BLOCKS)
    family = None if loss is None else as_family(loss, "loss")
    if family is not None:
        check_loss(family)
        if not hasattr(weighting, "link_alpha"):
            raise ValueError("a loss needs weighting with link_alpha, as MirrorNumbers has it")

    # Take the given numbers, or calibrate them.
    own, given = (learner, weight_update._replace(loss=family), weighting), None
    if params is not None:
        given = lambda _: params  # noqa: E731
    recipe = build(request, *own, fractions=fractions, given=given, name=name, setting="custom")
    if np.any(recipe.rows > MAX_ROWS):
        try:
            pricing.check_in_parts(jax.tree.map(lambda leaf: leaf.flat[0], recipe))
        except ValueError as error:
            raise ValueError(f"rows must be at most {MAX_ROWS}, as {error}") from None
    return recipe
