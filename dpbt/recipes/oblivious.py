"""Boosting with oblivious trees over public splits, and a rule that sets all of its numbers."""

from __future__ import annotations  # so that help() shows ArrayLike by its name

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbt import losses, types
from dpbt.common.validate import check_floats, check_interval, check_positive_integer, show_value
from dpbt.data import domains, kinds
from dpbt.data.domains import Domain
from dpbt.data.kinds import Nominal, Target
from dpbt.learners.oblivious.learner import (
    SCORES_SITE,
    TARGET_SITE,
    ObliviousParams,
    oblivious_tree,
)
from dpbt.learners.oblivious.splits import MAX_DEPTH, Attribute, ObliviousConfig
from dpbt.privacy import conversions, mechanisms
from dpbt.recipes.building import (
    PrivacyRequest,
    RecipeParts,
    build_recipe,
    checked_privacy_request,
    zero_or_share,
)
from dpbt.types import as_relation as to_relation
from dpbt.weighting import MirrorNumbers, ResidualNumbers, clipped_mirror, residuals

MAX_SEED = 2**24
"""Seeds are whole numbers below this, which float32 holds."""


def attributes_of(domain: Domain) -> tuple[Attribute, ...]:
    """What trees may ask of each column of a domain.

    Raises:
        ValueError: as `domains.check_domain`.
    """
    domains.check_domain(domain)
    return tuple(
        Attribute(column.n_bins, not isinstance(column, Nominal) or column.ordered)
        for column in domain.values()
    )


def oblivious_boost(
    *,
    epsilon: ArrayLike,
    rows: ArrayLike,
    domain: Domain,
    delta: ArrayLike = 0.0,
    rounds: ArrayLike = 64,
    depth: int = 6,
    attributes_per_tree: Sequence[int] = (1, 2, 3),
    step: ArrayLike | Callable[[int], ArrayLike] = 0.2,
    limit: ArrayLike = 0.6,
    clip: ArrayLike | None = None,
    marginals_fraction: ArrayLike = 0.0,
    target_fraction: ArrayLike = 0.1,
    target_bins: int = 32,
    scores_fraction: ArrayLike = 0.0,
    curvature: ArrayLike | None = None,
    smoothing: float = 0.1,
    structures: int = 0,
    target: Target | None = None,
    objective: str | None = None,
    quantile: float | None = None,
    monotone: Mapping[str, int] | None = None,
    seed: ArrayLike = 0,
    relation: str | types.Relation = types.ADD_REMOVE,
    max_rows_per_user: int = 1,
) -> types.Recipe:
    """Boosted oblivious trees over public splits, with one noisy draw a tree.

    Guarantee: epsilon-DP, or (epsilon, delta)-DP, under `relation`, with the lines of
    `dpbt.ledger`. A round releases the signed sums of the clipped weights in each leaf; with
    several classes, or a number, the sums of the clipped residuals. All of its splits are
    public. With a delta every draw is a rounded Gaussian, and GDP composes them
    exactly. `auto` sets all numbers from public quantities.

    Arguments of type ArrayLike may be arrays. They broadcast to settings, and none of their values
    causes a recompile.

    Args:
        epsilon: the total budget, above 0. Infinite means no privacy.
        rows: m. Under add/remove a public bound on the number of rows, under replace-one their
            public number.
        domain: the public domain of the table.
        delta: 0 for a pure guarantee, with discrete Laplace noise; else in (0, 1).
        rounds: T, the number of trees.
        depth: D, the number of splits of a tree, in 1..10.
        attributes_per_tree: how many attributes a tree asks. The trees take these numbers in turn.
        step: s, how far a leaf moves scores if its sum is as large as its noise, in nats, or in
            spreads of a number. Or a schedule of the round, from 0, such as any `optax.Schedule`.
            It is evaluated here, once a round, and each number of rounds has its own program.
        limit: v, the furthest that a leaf moves a score, in nats or in spreads.
        clip: c. No row has a larger weight than c, in (0, 1]; by default 0.3. With several classes
            the L2 norm of a row's residuals is at most sqrt(2) c. With pure epsilon their L1 norm
            is at most 2 c. For two classes these are the same. The residual of a number is at most
            c spreads, by default 0.5, and that of a count 1. The larger residual of a quantile
            counts as c spreads.
        marginals_fraction: the share of the budget (of epsilon, or of mu^2) for class histograms of
            all attributes before the first tree, in [0, 1). All settings have them or none does.
        target_fraction: the share of the budget for the histogram of a number, in (0, 1). It says
            where scores start, and the spread in units of which residuals are clipped.
        target_bins: how many bins of equal width that histogram has. Fewer bins stand out of more
            noise, and more bins tell a number of small spread in a wide range.
        scores_fraction: the share of the budget for the final scores by class, after the last tree,
            in [0, 1). They make probabilities true. All settings have them or none does.
        curvature: h, how much a leaf's estimated share of the rows adds to its denominator, which
            makes the step a Newton step where noise is small. For classes it is 0.05 by default,
            and counts with histograms only. For a number it is 6 s by default (6 times the first
            step of a schedule), so that without noise a leaf moves half as far as the mean of its
            residuals.
        smoothing: the weight of a leaf's neighbours in its sum, in [0, 1).
        structures: after how many trees their splits repeat; 0 for never. The model has one tree
            for each, so fewer of them make it smaller and faster.
        target: what is predicted: `domains.Nominal` for several classes, `domains.Numeric` for a
            number in a declared range, None for two classes. Give `dpbt.table` the same.
        objective: of a number: "squared" by default, "poisson" for a count, or "quantile".
        quantile: the level of a quantile, in [0.01, 0.99].
        monotone: for names of columns 1 if scores must not fall as the column rises, or -1 if they
            must not rise. It costs nothing. A bin for missing values counts as the largest. It is
            not for several classes, nor for columns without an order.
        seed: of the public splits, a whole number in 0..2^24 - 1. It is not a secret.
        relation: "add_remove" or "replace_one".
        max_rows_per_user: the most rows of one person: a limit if the table has ids of users, else
            the owner's promise. The guarantee is for all rows of a person together.

    Raises:
        ValueError: for a value outside these ranges, named with what was given.
    """
    request = checked_privacy_request(
        epsilon=epsilon,
        delta=delta,
        rows=rows,
        rounds=rounds,
        relation=relation,
        max_rows_per_user=max_rows_per_user,
        max_rows=types.MAX_ROWS_IN_BLOCKS,
        options={
            "step": None if callable(step) else step,
            "limit": limit,
            "clip": clip,
            "marginals_fraction": marginals_fraction,
            "target_fraction": target_fraction,
            "scores_fraction": scores_fraction,
            "curvature": curvature,
            "seed": seed,
        },
    )
    return oblivious_recipe(
        request,
        domain=domain,
        target=kinds.target_with_objective(target, objective, quantile),
        monotone=monotone,
        depth=depth,
        attributes_per_tree=attributes_per_tree,
        step=step,
        limit=limit,
        clip=clip,
        one_time_draws=OneTimeDraws(
            marginals_fraction=marginals_fraction,
            target_fraction=target_fraction,
            target_bins=target_bins,
            scores_fraction=scores_fraction,
        ),
        curvature=curvature,
        smoothing=smoothing,
        structures=structures,
        seed=seed,
    )


_POSITIVE = "[1e-30, 1e30]"


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneTimeDraws:
    """What learners over the bins of a domain draw once, before the first or after the last round.

    Attributes:
        marginals_fraction: as `oblivious_boost`.
        target_fraction: as `oblivious_boost`.
        target_bins: as `oblivious_boost`.
        scores_fraction: as `oblivious_boost`.
    """

    marginals_fraction: Any
    target_fraction: Any
    target_bins: int
    scores_fraction: Any


def oblivious_recipe(
    request: PrivacyRequest,
    *,
    domain: Domain,
    target: Target | None,
    monotone: Mapping[str, int] | None,
    depth: int,
    attributes_per_tree: Sequence[int],
    step: ArrayLike | Callable[[int], ArrayLike],
    limit: ArrayLike,
    one_time_draws: OneTimeDraws,
    clip: ArrayLike | None = None,
    curvature: ArrayLike | None = None,
    smoothing: float = 0.1,
    structures: int = 0,
    seed: ArrayLike = 0,
    make_learner: Callable[[ObliviousConfig], types.WeakLearner] = oblivious_tree,
    name: str = "oblivious_boost",
    setting: str | None = None,
) -> types.Recipe:
    """The recipe of oblivious trees for a request that is checked, and options that are not.

    Args:
        request: the checked arguments.
        domain: as `oblivious_boost`.
        target: as `oblivious_boost`, with its objective.
        monotone: as `oblivious_boost`.
        depth: as `oblivious_boost`.
        attributes_per_tree: as `oblivious_boost`.
        step: as `oblivious_boost`.
        limit: as `oblivious_boost`.
        one_time_draws: what is drawn once.
        clip: as `oblivious_boost`.
        curvature: as `oblivious_boost`.
        smoothing: as `oblivious_boost`.
        structures: as `oblivious_boost`.
        seed: as `oblivious_boost`.
        make_learner: from the config of the trees to the learner.
        name: as `RecipeParts`.
        setting: as `RecipeParts`; by default it says the depth.

    Raises:
        ValueError: as `oblivious_boost`.
    """
    # Numbers are in ranges that float32 holds.
    response = kinds.response_of(target)
    if callable(step):
        steps = [step(number) for number in range(int(np.max(request.rounds)))]
    else:
        steps = [step]
    steps = [check_interval("step", one_step, _POSITIVE) for one_step in steps]
    limit = check_interval("limit", limit, _POSITIVE)
    if curvature is None:
        curvature = 6 * steps[0] if response.is_number else 0.05
    curvature = check_interval("curvature", curvature, "[0, 1e30]")
    seed = check_interval("seed", seed, f"[0, {MAX_SEED - 1}]", whole_numbers=True)
    attribute_counts = check_interval(
        "attributes_per_tree", attributes_per_tree, f"[1, {MAX_DEPTH}]", whole_numbers=True
    )
    smoothing_weight = check_interval("smoothing", smoothing, "[0, 1)")
    if smoothing_weight.ndim:
        raise ValueError(f"smoothing must be one number, got {show_value(smoothing)}")
    num_structures = int(
        check_interval("structures", structures, f"[0, {types.MAX_ROWS}]", whole_numbers=True)
    )
    depth = check_positive_integer("depth", depth, MAX_DEPTH)

    # A leaf's denominator counts its rows where these are known.
    has_marginals = bool(
        np.any(check_floats("marginals_fraction", one_time_draws.marginals_fraction) > 0)
    )
    params = ObliviousParams(
        noise={},
        step=tuple(steps) if callable(step) else steps[0],
        limit=limit,
        curvature=curvature * (response.is_number or has_marginals),
        seed=seed,
    )
    return recipe_over_bins(
        request,
        domain=domain,
        target=target,
        monotone=monotone,
        clip=clip,
        one_time_draws=one_time_draws,
        structure=TreeStructure(
            depth=depth,
            attributes_per_tree=tuple(map(int, attribute_counts.flat)),
            smoothing=float(smoothing_weight),
            structures=num_structures,
        ),
        round_site="sums",
        make_learner=make_learner,
        params=params,
        name=name,
        setting=f"{depth} splits a tree" if setting is None else setting,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TreeStructure:
    """The static part of oblivious trees that follows from options alone.

    Attributes:
        depth: as `oblivious.splits.ObliviousConfig`.
        attributes_per_tree: as `oblivious.splits.ObliviousConfig`.
        smoothing: as `oblivious.splits.ObliviousConfig`.
        structures: as `oblivious.splits.ObliviousConfig`.
    """

    depth: int
    attributes_per_tree: tuple[int, ...]
    smoothing: float
    structures: int


def recipe_over_bins(
    request: PrivacyRequest,
    *,
    domain: Domain,
    target: Target | None,
    monotone: Mapping[str, int] | None,
    clip: ArrayLike | None,
    one_time_draws: OneTimeDraws,
    structure: TreeStructure,
    round_site: str,
    make_learner: Callable[[ObliviousConfig], types.WeakLearner],
    params: types.Params,
    name: str,
    setting: str,
) -> types.Recipe:
    """The recipe of a learner over the bins of a domain, with clipped weights.

    Args:
        request: the checked arguments.
        domain: as `oblivious_boost`.
        target: as `oblivious_boost`, with its objective.
        monotone: as `oblivious_boost`.
        clip: as `oblivious_boost`.
        one_time_draws: what is drawn once.
        structure: of the trees; of a learner that has none, any that its config allows.
        round_site: the site that a round draws.
        make_learner: from the config of the bins to the learner.
        params: the learner's numbers without noise.
        name: as `RecipeParts`.
        setting: as `RecipeParts`.

    Raises:
        ValueError: as `oblivious_boost`.
    """
    response = kinds.response_of(target)
    fractions = _fractions_of_sites(one_time_draws, response, round_site)
    directions = _directions(domain, monotone)
    if directions and response.axes:
        raise ValueError("monotone constraints need one score, and several classes have one each")
    target_bins = check_interval(
        "target_bins", one_time_draws.target_bins, f"[2, {types.MAX_BINS}]", whole_numbers=True
    )
    mechanism = (
        mechanisms.rounded_gaussian if request.is_approximate else mechanisms.discrete_laplace
    )
    config = ObliviousConfig(
        attributes=attributes_of(domain),
        depth=structure.depth,
        attributes_per_tree=structure.attributes_per_tree,
        marginals="histogram" in fractions,
        scores=SCORES_SITE in fractions,
        smoothing=structure.smoothing,
        relation=request.relation,
        noise=mechanism,
        response=response,
        monotone=directions,
        target_bins=int(target_bins),
        structures=structure.structures,
    )
    weight_update, weighting = _clipped_weights(response, clip, mechanism.price.norm)
    parts = RecipeParts(
        learner=make_learner(config),
        weight_update=weight_update,
        weighting=weighting,
        name=name,
        options_text=setting,
        target=target,
        domain=domains.as_declared_domain(domain),
    )
    return build_recipe(
        request,
        parts,
        fractions=fractions,
        make_params=lambda noise, _: params._replace(noise=dict(noise)),
    )


def _fractions_of_sites(
    one_time_draws: OneTimeDraws, response: types.Response, round_site: str
) -> dict[str, np.ndarray]:
    """Site -> its fraction of the budget, of the sites that have one.

    Raises:
        ValueError: for a fraction outside its range, and where nothing is left for the rounds.
    """
    marginals = zero_or_share("marginals_fraction", one_time_draws.marginals_fraction)
    scores = zero_or_share("scores_fraction", one_time_draws.scores_fraction)
    fractions = {round_site: 1 - marginals - scores, "histogram": marginals, SCORES_SITE: scores}
    if response.is_number:
        if np.any(scores > 0):
            raise ValueError("scores by class need classes: a number has no scores_fraction")
        fractions[TARGET_SITE] = check_interval(
            "target_fraction", one_time_draws.target_fraction, "(0, 1)"
        )
        fractions[round_site] = fractions[round_site] - fractions[TARGET_SITE]
    total = 1 - np.min(fractions[round_site])
    if total >= 1:
        raise ValueError(f"all fractions must add up to less than 1, got {total:g}")
    return {site: fraction for site, fraction in fractions.items() if np.any(fraction > 0)}


def _clipped_weights(
    response: types.Response, clip: ArrayLike | None, norm: str
) -> tuple[types.WeightUpdate, types.Weighting]:
    """The weight update of a response and its numbers, clipped in the norm of the mechanism.

    Raises:
        ValueError: for a clip outside its range.
    """
    if clip is None:
        clip = _default_clip(response) if response.is_number else 0.3
    if not response.is_number:
        check_interval("clip", clip, "(0, 1]")
    clip = check_interval("clip", clip, _POSITIVE)
    if response == types.BINARY:
        return clipped_mirror(losses.log), MirrorNumbers(np.ones(()), clip)
    factor = 1 if response.is_number else 2 if norm == "l1" else math.sqrt(2)
    return residuals(response, norm), ResidualNumbers(clip * factor)


def _default_clip(response: types.Response) -> float:
    """The largest residual of a number, in spreads, unless `clip` says otherwise.

    Of a quantile it is the Newton step where numbers follow a logistic law, whose density at level
    q is q (1 - q) pi / sqrt(3) in a spread.
    """
    if response.objective == "quantile":
        q = response.level
        return max(q, 1 - q) * math.sqrt(3) / (math.pi * q * (1 - q))
    return 0.5 if response.objective == "squared" else 1.0


def _directions(domain: Domain, monotone: Mapping[str, int] | None) -> tuple[int, ...]:
    """The direction of each column of the domain; none if there are no constraints.

    Raises:
        ValueError: naming a column that is not in the domain or has no order, or a direction.
    """
    wanted = {} if monotone is None else monotone
    columns = zip(domain, attributes_of(domain), strict=True)
    ordered = [name for name, attribute in columns if attribute.ordered]
    if not isinstance(wanted, Mapping) or not all(
        name in ordered and direction in (-1, 0, 1) for name, direction in wanted.items()
    ):
        raise ValueError(f"monotone must map columns that have an order, of {ordered}, to 1 or -1")
    directions = tuple(int(wanted.get(name, 0)) for name in domain)
    return directions if any(directions) else ()


_ATTRIBUTES_PER_TREE = (2, 3, 4)
"""How many attributes the trees of `auto` ask, in turn."""

_DEEP = 10
"""How many splits the trees of `auto` have where noise is small; else they have 6."""

_SCORES_FRACTION = 0.03
"""The share of the budget that `auto` spends on scores by class."""

_TARGET_FRACTION_RANGE = (0.03, 0.2)
"""The least and the largest share of the budget for the histogram of a number."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AutoNumbers:
    """The numbers that `auto` chooses; each may have axes of settings, see `oblivious_boost`.

    Attributes:
        rounds: T.
        step: as `oblivious_boost`.
        limit: as `oblivious_boost`.
        depth: D.
        structures: as `oblivious_boost`.
        attributes_per_tree: as `oblivious_boost`.
        one_time_draws: what is drawn once, and its share of the budget.
    """

    rounds: Any
    step: Any
    limit: Any
    depth: int
    structures: int
    attributes_per_tree: tuple[int, ...]
    one_time_draws: OneTimeDraws

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `oblivious_boost` that it sets, by name."""
        options = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del options["one_time_draws"]
        return options | dataclasses.asdict(self.one_time_draws)


def choose_numbers(
    *,
    epsilon: float,
    rows: float,
    num_columns: int,
    delta: float = 0.0,
    relation: types.Relation = types.ADD_REMOVE,
    max_rows_per_user: int = 1,
    response: types.Response = types.BINARY,
) -> AutoNumbers:
    """The numbers of oblivious trees, from public quantities alone.

    What decides is the strength of the signal: n eps for Laplace noise, n mu for Gaussian noise. A
    replaced row is two rows, so both are halved under replace-one.

    - *Rounds.* The noise of a score is that of one tree, whatever T is, as long as noise dominates
      each leaf. More trees average over more partitions, so T grows with the signal. Laplace noise
      grows with T where Gaussian noise grows with its root, so pure recipes have fewer trees.
    - *Step.* The noise of a score has variance T step^2, so step falls with the root of T.
    - *Histograms.* They say where rows are, give scores a start and leaves a denominator. They pay
      where their noise, F / (n eps) or sqrt(F) / (n mu), is small.
    - *Depth.* Where rows are many for the noise, and histograms put splits at their quantiles,
      trees of 10 splits see more than trees of 6. On twelve data sets AUROC is 0.003 to 0.006
      higher from epsilon = 0.5 on. Their 256 structures are used in turn, so that a model stays
      small. Several classes and numbers keep 6: firmteacher, of 16 Boolean columns and 4 classes,
      loses 0.15 of AUROC to deeper trees, and wine-white 0.03 of R^2.
    - *Scores by class.* Three hundredths of the budget make probabilities true. That costs about
      0.001 of AUROC.
    - *Several classes.* A row's residuals are shared by K scores, so steps are two thirds of those
      above, and pure recipes have (2 / K)^0.42 times as many trees.
    - *Numbers.* Squared error counts the noise of a score, where ranking only counts its order. So
      steps are a quarter to a third of those above. The histogram of the number gets what it needs
      to stand out, from 3 to 20 hundredths of the budget.

    Args:
        epsilon: above 0.
        rows: m.
        num_columns: F.
        delta: 0, or in (0, 1).
        relation: the neighbouring relation.
        max_rows_per_user: k; the signal is k times smaller.
        response: what is predicted.
    """
    rows_moved = (2 if to_relation(relation) is types.REPLACE_ONE else 1) * max_rows_per_user
    is_number, is_binary = response.is_number, response == types.BINARY
    scores_fraction = 0.0 if is_number else _SCORES_FRACTION
    if np.isinf(epsilon):
        return AutoNumbers(
            rounds=1536 if is_binary else 1024,
            step=0.1,
            limit=0.2,
            depth=_DEEP if is_binary else 6,
            structures=0,
            attributes_per_tree=(3, 4, 5, 6) if is_binary else _ATTRIBUTES_PER_TREE,
            one_time_draws=OneTimeDraws(
                marginals_fraction=0.1,
                target_fraction=_TARGET_FRACTION_RANGE[0],
                target_bins=64,
                scores_fraction=scores_fraction,
            ),
        )

    if delta > 0:
        signal = rows * float(conversions.gdp_mu(epsilon, delta)) / rows_moved
        rounds = int(np.clip(round(64 * (signal / 8.9) ** 0.42), 8, 1024))
        step = (0.3 if is_number else 1.3 if is_binary else 0.9) / math.sqrt(rounds)
        has_marginals, power = math.sqrt(num_columns) / signal < 0.016, 2
    else:
        signal = rows * epsilon / rows_moved
        rounds = int(np.clip(round(64 / 11 * (signal / 43) ** 0.42), 4, 128))
        if response.classes > 2:
            rounds = int(np.clip(round(rounds * (2 / response.classes) ** 0.42), 4, 128))
        step = (0.5 if is_number else 1.6 if is_binary else 0.9) / math.sqrt(rounds)
        has_marginals, power = num_columns / signal < 0.008, 1
    is_deep = has_marginals and is_binary and signal >= (1200 if delta > 0 else 10_000)

    # Rows of a number stand 60 times above the noise of a bin, within bounds. Bins are a power of 2
    # near three times the root of that ratio.
    target_fraction, target_bins = 0.1, 32
    if is_number:
        target_fraction = float(np.clip((60 / signal) ** power, *_TARGET_FRACTION_RANGE))
        if delta > 0:
            ratio = signal * math.sqrt(target_fraction)
        else:
            ratio = signal * target_fraction / math.sqrt(2)
        target_bins = int(np.clip(2 ** round(math.log2(3 * math.sqrt(ratio))), 8, 64))
    return AutoNumbers(
        rounds=rounds,
        step=step,
        limit=min(4 * step, 0.6),
        depth=_DEEP if is_deep else 6,
        structures=256 if is_deep else 0,
        attributes_per_tree=_ATTRIBUTES_PER_TREE,
        one_time_draws=OneTimeDraws(
            marginals_fraction=0.1 if has_marginals else 0.0,
            target_fraction=target_fraction,
            target_bins=target_bins,
            scores_fraction=scores_fraction,
        ),
    )


def auto(
    *,
    epsilon: ArrayLike,
    rows: ArrayLike,
    domain: Domain,
    delta: ArrayLike = 0.0,
    target: Target | None = None,
    objective: str | None = None,
    quantile: float | None = None,
    monotone: Mapping[str, int] | None = None,
    seed: ArrayLike = 0,
    relation: str | types.Relation = types.ADD_REMOVE,
    max_rows_per_user: int = 1,
) -> types.Recipe:
    """The most accurate recipe known, with every number set from public quantities.

    Guarantee: as `oblivious_boost`. Nothing is tuned, so nothing else is released. `choose_numbers`
    has the choices and their reasons.

    Arguments of type ArrayLike may be arrays. They broadcast to settings with room for the most
    rounds of any of them, if one program serves them all: the rule has histograms for all of them
    or for none, and gives all the same depth and the same number of bins of the target.

    Args:
        epsilon: the total budget, above 0.
        rows: m. Under add/remove a public bound on the number of rows, under replace-one their
            public number. A bound of twice the truth costs little.
        domain: the public domain of the table. Numbers are best cut into many bins, such as
            `bins=64`, because finer splits cost nothing here.
        delta: 0 for a pure guarantee; else in (0, 1), and best far below 1 / rows. It buys much
            less noise.
        target: what is predicted: `domains.Nominal` for several classes, `domains.Numeric` for a
            number in a declared range, None for two classes. Give `dpbt.table` the same.
        objective: of a number: "squared" by default, "poisson" for a count, or "quantile".
        quantile: the level of a quantile, in [0.01, 0.99].
        monotone: as `oblivious_boost`.
        seed: of the public splits. It is not a secret.
        relation: "add_remove" or "replace_one".
        max_rows_per_user: the most rows of one person: a limit if the table has ids of users, else
            the owner's promise. The guarantee is for all rows of a person together.

    Raises:
        ValueError: for a value outside these ranges, named with what was given. Also for settings
            whose programs would differ.
    """
    domains.check_domain(domain)
    target = kinds.target_with_objective(target, objective, quantile)
    request = checked_privacy_request(
        epsilon=epsilon,
        delta=delta,
        rows=rows,
        rounds=1,  # `choose_numbers` sets them
        relation=relation,
        max_rows_per_user=max_rows_per_user,
        max_rows=types.MAX_ROWS_IN_BLOCKS,
        options={
            "seed": seed,
        },
    )
    numbers = choose_numbers_of_settings(request, len(domain), kinds.response_of(target))
    return oblivious_recipe(
        with_rounds(request, numbers.rounds),
        domain=domain,
        target=target,
        monotone=monotone,
        depth=numbers.depth,
        attributes_per_tree=numbers.attributes_per_tree,
        step=numbers.step,
        limit=numbers.limit,
        one_time_draws=numbers.one_time_draws,
        structures=numbers.structures,
        seed=seed,
    )


def with_rounds(request: PrivacyRequest, rounds: ArrayLike) -> PrivacyRequest:
    """The request for these numbers of rounds."""
    return dataclasses.replace(request, rounds=np.asarray(rounds, np.int32))


def choose_numbers_of_settings(
    request: PrivacyRequest, num_columns: int, response: types.Response
) -> AutoNumbers:
    """What `choose_numbers` says of every setting, as arrays with their axes.

    Raises:
        ValueError: for settings whose programs would differ.
    """
    settings = np.broadcast(request.epsilon, request.rows, request.delta)
    chosen = [
        choose_numbers(
            epsilon=float(epsilon),
            rows=float(rows),
            num_columns=num_columns,
            delta=float(delta),
            relation=request.relation,
            max_rows_per_user=request.max_rows_per_user,
            response=response,
        )
        for epsilon, rows, delta in settings
    ]

    # What is static is one for all settings; the rest has their axes.
    static = {
        (each.one_time_draws.marginals_fraction > 0, each.depth, each.one_time_draws.target_bins)
        for each in chosen
    }
    if len(static) > 1:
        raise ValueError(
            "no program serves all of these: make a recipe for each of "
            f"{show_value(request.epsilon)}"
        )

    def of_settings(read_number: Callable[[AutoNumbers], Any]) -> np.ndarray:
        return np.reshape([read_number(each) for each in chosen], settings.shape)

    first = chosen[0]
    return dataclasses.replace(
        first,
        rounds=of_settings(lambda each: each.rounds),
        step=of_settings(lambda each: each.step),
        limit=of_settings(lambda each: each.limit),
        one_time_draws=dataclasses.replace(
            first.one_time_draws,
            marginals_fraction=of_settings(lambda each: each.one_time_draws.marginals_fraction),
            target_fraction=of_settings(lambda each: each.one_time_draws.target_fraction),
        ),
    )
