"""Boosting with oblivious trees over public splits; `dpbt.recipes.auto` sets all of its numbers."""

from __future__ import annotations  # so that help() shows ArrayLike by its name

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpbt import losses, types
from dpbt.common.validate import check_floats, check_interval, check_positive_integer, show_value
from dpbt.data import domains, kinds
from dpbt.data.domains import Domain
from dpbt.data.kinds import Nominal, Target
from dpbt.learners.bins.config import Attribute, BinsConfig
from dpbt.learners.bins.histograms import HISTOGRAM_SITE, SCORES_SITE, TARGET_SITE
from dpbt.learners.oblivious.config import MAX_DEPTH, ObliviousConfig, ObliviousParams
from dpbt.learners.oblivious.learner import SUMS_SITE, oblivious_tree
from dpbt.privacy import mechanisms
from dpbt.recipes.building import (
    PrivacyRequest,
    RecipeParts,
    build_recipe,
    check_zero_or_share,
    checked_privacy_request,
)
from dpbt.weighting import MirrorNumbers, ResidualNumbers, clipped_mirror, residuals

MAX_SEED = 2**24
"""Seeds are whole numbers below this, which float32 holds."""

DEFAULT_CLIP_OF_CLASSES = 0.3
"""The largest weight of a row. Other clips were within 0.005 in AUROC (docs/accuracy.md)."""

DEFAULT_CLIP_OF_SQUARED_ERROR = 0.5
"""The largest residual of a number, in spreads, for squared error."""

DEFAULT_CLIP_OF_COUNTS = 1.0
"""The largest residual of a count, in spreads.

It was chosen on azpro, rwm5yr and abalone (docs/classes_and_regression.md).
"""

DEFAULT_CURVATURE_OF_CLASSES = 0.05
"""How much a leaf's estimated share of the rows adds to its denominator, for classes.

It was settled on the tables of docs/accuracy.md.
"""

STEPS_IN_DEFAULT_CURVATURE_OF_NUMBERS = 6
"""The curvature h of a number, in steps s.

A leaf of m rows whose residuals add up to G moves by s G / (m h / 3) without noise. So h = 6 s
makes it half of their mean, G / (2 m).
"""


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
    delta_anyway: bool = False,
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
        delta_anyway: whether to accept a delta of 1 / rows or more, which protects nobody.

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
        delta_anyway=delta_anyway,
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
        BinsTask(
            domain=domain,
            target=kinds.target_with_objective(target, objective, quantile),
            monotone=monotone,
        ),
        one_time_draws=OneTimeDraws(
            marginals_fraction=marginals_fraction,
            target_fraction=target_fraction,
            target_bins=target_bins,
            scores_fraction=scores_fraction,
        ),
        structure=TreeStructure(
            depth=depth,
            attributes_per_tree=attributes_per_tree,
            smoothing=smoothing,
            structures=structures,
        ),
        numbers=TreeNumbers(step=step, limit=limit, clip=clip, curvature=curvature, seed=seed),
    )


_POSITIVE = "[1e-30, 1e30]"


@dataclasses.dataclass(frozen=True, kw_only=True)
class BinsTask:
    """What a learner over the bins of a domain predicts, and from which columns.

    Attributes:
        domain: the public domain of the table.
        target: the declared classes or range with the objective of a number
            (`kinds.target_with_objective`); None for two classes.
        monotone: for names of columns 1 if scores must not fall as the column rises, or -1 if they
            must not rise. `directions` checks it.
    """

    domain: Domain
    target: Target | None
    monotone: Mapping[str, int] | None

    @property
    def response(self) -> types.Response:
        """The kind of answer that is predicted."""
        return kinds.response_of_target(self.target)

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """What trees may ask of each column."""
        return attributes_of(self.domain)

    @property
    def directions(self) -> tuple[int, ...]:
        """The direction of each column: 1, -1 or 0; empty if there are no constraints.

        Raises:
            ValueError: naming columns that have an order, where `monotone` names another column or
                another direction. Also for constraints on several classes.
        """
        monotone = {} if self.monotone is None else self.monotone
        columns = zip(self.domain, self.attributes, strict=True)
        ordered = [name for name, attribute in columns if attribute.ordered]
        if not isinstance(monotone, Mapping) or not all(
            name in ordered and direction in (-1, 0, 1) for name, direction in monotone.items()
        ):
            raise ValueError(
                f"monotone must map columns that have an order, of {ordered}, to 1 or -1"
            )
        directions = tuple(int(monotone.get(name, 0)) for name in self.domain)
        if not any(directions):
            return ()
        if self.response.axes:
            raise ValueError(
                "monotone constraints need one score, and several classes have one each"
            )
        return directions


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneTimeDraws:
    """What learners over the bins of a domain draw once, before the first or after the last round.

    Attributes:
        marginals_fraction: the share of the budget for class histograms of all attributes, in
            [0, 1).
        target_fraction: the share of the budget for the histogram of a number, in (0, 1).
        target_bins: how many bins of equal width that histogram has.
        scores_fraction: the share of the budget for the final scores by class, in [0, 1).
    """

    marginals_fraction: types.Numbers
    target_fraction: types.Numbers
    target_bins: int
    scores_fraction: types.Numbers


@dataclasses.dataclass(frozen=True, kw_only=True)
class TreeStructure:
    """The static options of oblivious trees.

    Attributes:
        depth: D, the number of splits of a tree, in 1..10.
        attributes_per_tree: how many attributes a tree asks. The trees take these numbers in turn.
        smoothing: the weight of a leaf's neighbours in its sum, in [0, 1).
        structures: after how many trees their splits repeat; 0 for never.
    """

    depth: int
    attributes_per_tree: Sequence[int]
    smoothing: float = 0.1
    structures: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class TreeNumbers:
    """The options of oblivious trees that may have axes of settings.

    Attributes:
        step: s, how far a leaf moves scores if its sum is as large as its noise, in nats or in
            spreads of a number; or a schedule of the round.
        limit: v, the furthest that a leaf moves a score, in nats or in spreads.
        clip: c, the largest weight of a row, or the largest residual in spreads; None for the
            default of the response.
        curvature: h, how much a leaf's estimated share of the rows adds to its denominator; None
            for the default of the response.
        seed: of the public splits, a whole number in 0..2^24 - 1.
    """

    step: ArrayLike | Callable[[int], ArrayLike]
    limit: ArrayLike
    clip: ArrayLike | None = None
    curvature: ArrayLike | None = None
    seed: ArrayLike = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class BinsLearner:
    """A learner over the bins of a domain, before its config follows from a task.

    Attributes:
        algorithm: the name of the algorithm in tables.
        options_text: its options, as tables show them.
        round_site: the site that a round draws.
        make_learner: from the config of the bins to the learner.
    """

    algorithm: str
    options_text: str
    round_site: str
    make_learner: Callable[[BinsConfig], types.WeakLearner]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TreeLearner:
    """A learner of oblivious trees, before its config follows from a task and a structure.

    Attributes:
        algorithm: the name of the algorithm in tables.
        options_text: its options, as tables show them; None for the depth of the trees.
        make_learner: from the config of the trees to the learner.
    """

    algorithm: str
    options_text: str | None
    make_learner: Callable[[ObliviousConfig], types.WeakLearner]


_OBLIVIOUS_TREES = TreeLearner(
    algorithm="oblivious_boost", options_text=None, make_learner=oblivious_tree
)


def oblivious_recipe(
    request: PrivacyRequest,
    task: BinsTask,
    *,
    one_time_draws: OneTimeDraws,
    structure: TreeStructure,
    numbers: TreeNumbers,
    tree_learner: TreeLearner = _OBLIVIOUS_TREES,
) -> types.Recipe:
    """The recipe of oblivious trees for a request that is checked, and options that are not.

    Args:
        request: the checked arguments.
        task: what is predicted, and from which columns.
        one_time_draws: what is drawn once.
        structure: the static options of the trees.
        numbers: the options of the trees that may have axes of settings.
        tree_learner: the learner that grows the trees.

    Raises:
        ValueError: as `oblivious_boost`.
    """
    # Numbers are in ranges that float32 holds.
    is_number, step = task.response.is_number, numbers.step
    if callable(step):
        steps = [step(number) for number in range(int(np.max(request.rounds)))]
    else:
        steps = [step]
    steps = [check_interval("step", one_step, _POSITIVE) for one_step in steps]
    limit = check_interval("limit", numbers.limit, _POSITIVE)
    curvature = numbers.curvature
    if curvature is None:
        curvature = (
            STEPS_IN_DEFAULT_CURVATURE_OF_NUMBERS * steps[0]
            if is_number
            else DEFAULT_CURVATURE_OF_CLASSES
        )
    curvature = check_interval("curvature", curvature, "[0, 1e30]")
    seed = check_interval("seed", numbers.seed, f"[0, {MAX_SEED - 1}]", whole_numbers=True)
    structure = _checked_structure(structure)

    # A leaf's denominator counts its rows where these are known.
    has_marginals = bool(
        np.any(check_floats("marginals_fraction", one_time_draws.marginals_fraction) > 0)
    )
    params = ObliviousParams(
        noise={},
        step=tuple(steps) if callable(step) else steps[0],
        limit=limit,
        curvature=curvature * (is_number or has_marginals),
        seed=seed,
    )
    options_text = tree_learner.options_text
    if options_text is None:
        options_text = f"{structure.depth} splits a tree"

    def make_learner(bins: BinsConfig) -> types.WeakLearner:
        return tree_learner.make_learner(_tree_config(bins, structure))

    return recipe_over_bins(
        request,
        task,
        one_time_draws=one_time_draws,
        learner=BinsLearner(
            algorithm=tree_learner.algorithm,
            options_text=options_text,
            round_site=SUMS_SITE,
            make_learner=make_learner,
        ),
        params=params,
        clip=numbers.clip,
    )


def _checked_structure(structure: TreeStructure) -> TreeStructure:
    """The same static options, as plain numbers.

    Raises:
        ValueError: for an option outside its range.
    """
    attribute_counts = check_interval(
        "attributes_per_tree",
        structure.attributes_per_tree,
        f"[1, {MAX_DEPTH}]",
        whole_numbers=True,
    )
    smoothing = check_interval("smoothing", structure.smoothing, "[0, 1)")
    if smoothing.ndim:
        raise ValueError(f"smoothing must be one number, got {show_value(structure.smoothing)}")
    num_structures = check_interval(
        "structures", structure.structures, f"[0, {types.MAX_ROWS}]", whole_numbers=True
    )
    return TreeStructure(
        depth=check_positive_integer("depth", structure.depth, MAX_DEPTH),
        attributes_per_tree=tuple(map(int, attribute_counts.flat)),
        smoothing=float(smoothing),
        structures=int(num_structures),
    )


def _tree_config(bins: BinsConfig, structure: TreeStructure) -> ObliviousConfig:
    """The config of oblivious trees over the bins of a domain."""
    return ObliviousConfig(
        **vars(bins),
        depth=structure.depth,
        attributes_per_tree=tuple(structure.attributes_per_tree),
        smoothing=structure.smoothing,
        num_structures=structure.structures,
    )


def recipe_over_bins(
    request: PrivacyRequest,
    task: BinsTask,
    *,
    one_time_draws: OneTimeDraws,
    learner: BinsLearner,
    params: types.Params,
    clip: ArrayLike | None = None,
) -> types.Recipe:
    """The recipe of a learner over the bins of a domain, with clipped weights.

    Args:
        request: the checked arguments.
        task: what is predicted, and from which columns.
        one_time_draws: what is drawn once.
        learner: what learns in a round, and what it is called.
        params: the learner's numbers without noise.
        clip: the largest weight of a row, or the largest residual of a number in spreads; None
            for the default of the response.

    Raises:
        ValueError: as `oblivious_boost`.
    """
    response = task.response
    fractions = _fractions_of_sites(one_time_draws, response, learner.round_site)
    directions = task.directions
    target_bins = check_interval(
        "target_bins", one_time_draws.target_bins, f"[2, {types.MAX_BINS}]", whole_numbers=True
    )
    mechanism = (
        mechanisms.rounded_gaussian if request.is_approximate else mechanisms.discrete_laplace
    )
    config = BinsConfig(
        attributes=task.attributes,
        draws_histograms=HISTOGRAM_SITE in fractions,
        draws_scores=SCORES_SITE in fractions,
        relation=request.relation,
        noise=mechanism,
        response=response,
        monotone=directions,
        target_bins=int(target_bins),
    )
    weight_update, weight_params = _weight_update_with_clip(response, clip, mechanism.price.norm)
    parts = RecipeParts(
        learner=learner.make_learner(config),
        weight_update=weight_update,
        weight_params=weight_params,
        name=learner.algorithm,
        options_text=learner.options_text,
        target=task.target,
        domain=domains.as_declared_domain(task.domain),
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
    marginals = check_zero_or_share("marginals_fraction", one_time_draws.marginals_fraction)
    scores = check_zero_or_share("scores_fraction", one_time_draws.scores_fraction)
    fractions = {
        round_site: 1 - marginals - scores,
        HISTOGRAM_SITE: marginals,
        SCORES_SITE: scores,
    }
    if response.is_number:
        if response.objective == "quantile" and np.any(scores > 0):
            raise ValueError("the residuals of a quantile have no mean: it has no scores_fraction")
        fractions[TARGET_SITE] = check_interval(
            "target_fraction", one_time_draws.target_fraction, "(0, 1)"
        )
        fractions[round_site] = fractions[round_site] - fractions[TARGET_SITE]
    total = 1 - np.min(fractions[round_site])
    if total >= 1:
        raise ValueError(f"all fractions must add up to less than 1, got {total:g}")
    return {site: fraction for site, fraction in fractions.items() if np.any(fraction > 0)}


class _WeightUpdateAndNumbers(NamedTuple):
    """A weight update, and the numbers that it reads.

    Attributes:
        weight_update: how scores become weights.
        weighting: its numbers.
    """

    weight_update: types.WeightUpdate
    weighting: types.WeightParams


def _weight_update_with_clip(
    response: types.Response, clip: ArrayLike | None, norm: str
) -> _WeightUpdateAndNumbers:
    """The weight update of a response and its numbers, clipped in the norm of the mechanism.

    Raises:
        ValueError: for a clip outside its range.
    """
    if clip is None:
        clip = _default_clip_of_number(response) if response.is_number else DEFAULT_CLIP_OF_CLASSES
    if not response.is_number:
        check_interval("clip", clip, "(0, 1]")
    clip = check_interval("clip", clip, _POSITIVE)
    if response == types.BINARY:
        return _WeightUpdateAndNumbers(clipped_mirror(losses.log), MirrorNumbers(np.ones(()), clip))
    factor = 1 if response.is_number else 2 if norm == "l1" else math.sqrt(2)
    return _WeightUpdateAndNumbers(residuals(response, norm), ResidualNumbers(clip * factor))


def _default_clip_of_number(response: types.Response) -> float:
    """The largest residual of a number, in spreads, unless `clip` says otherwise.

    Of a quantile it is the Newton step where numbers follow a logistic law, whose density at level
    q is q (1 - q) pi / sqrt(3) in a spread.
    """
    if response.objective == "quantile":
        q = response.level
        return max(q, 1 - q) * math.sqrt(3) / (math.pi * q * (1 - q))
    if response.objective == "squared":
        return DEFAULT_CLIP_OF_SQUARED_ERROR
    return DEFAULT_CLIP_OF_COUNTS
