"""Recipes of learners over the bins of a domain: what they predict, draw once, and clip."""

from __future__ import annotations  # so that help() shows ArrayLike by its name

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpbt import losses, types
from dpbt.common.validate import check_interval
from dpbt.data import column_types, domains
from dpbt.data.column_types import Nominal, Target
from dpbt.data.domains import Domain
from dpbt.learners.bins.config import Attribute, BinsConfig
from dpbt.learners.bins.histograms import HISTOGRAM_SITE, SCORES_SITE, TARGET_SITE
from dpbt.privacy import mechanisms
from dpbt.recipes.building import PrivacyRequest, RecipeParts, build_recipe, check_delta_or_fraction
from dpbt.weighting import MirrorNumbers, ResidualNumbers, clipped_mirror, residuals

POSITIVE_INTERVAL = "[1e-30, 1e30]"
"""The range of numbers above 0 that float32 holds with room."""

DEFAULT_CLIP_OF_CLASSES = 0.3
"""The largest weight of a row. Other clips were within 0.005 in AUROC (docs/accuracy.md)."""

DEFAULT_CLIP_OF_SQUARED_ERROR = 0.5
"""The largest residual of a number, in spreads, for squared error."""

DEFAULT_CLIP_OF_COUNTS = 1.0
"""The largest residual of a count, in spreads.

It was chosen on azpro, rwm5yr and abalone (docs/classes_and_regression.md).
"""


def split_attributes_of_domain(domain: Domain) -> tuple[Attribute, ...]:
    """List the bins of each column of a domain, and whether their order means anything.

    Raises:
        ValueError: as `domains.check_domain`.
    """
    domains.check_domain(domain)
    return tuple(
        Attribute(column.n_bins, not isinstance(column, Nominal) or column.ordered)
        for column in domain.values()
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class BinsTask:
    """What a learner over the bins of a domain predicts, and from which columns.

    Attributes:
        domain: the public domain of the table.
        target: the declared classes or range with the objective of a number
            (`column_types.target_with_objective`); None for two classes.
        monotone: for names of columns 1 if scores must not fall as the column rises, or -1 if they
            must not rise. `directions` checks it.
    """

    domain: Domain
    target: Target | None
    monotone: Mapping[str, int] | None

    @property
    def response(self) -> types.Response:
        """The kind of answer that is predicted."""
        return column_types.response_of_target(self.target)

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The bins of each column, and whether their order means anything."""
        return split_attributes_of_domain(self.domain)

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
        if self.response.score_axes:
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
class BinsLearnerFactory:
    """How to make a learner over the bins of a domain, once its config follows from a task.

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


def recipe_over_bins_with_clipped_weights(
    request: PrivacyRequest,
    task: BinsTask,
    *,
    one_time_draws: OneTimeDraws,
    learner_factory: BinsLearnerFactory,
    params: types.Params,
    clip: ArrayLike | None = None,
    draws_slope: bool = True,
) -> types.Recipe:
    """Build the recipe of a learner over the bins of a domain, boosted with clipped weights.

    Args:
        request: the checked arguments.
        task: what is predicted, and from which columns.
        one_time_draws: what is drawn once.
        learner_factory: makes the learner, and says what it is called.
        params: the learner's numbers, whose noise is set here.
        clip: the largest weight of a row, or the largest residual of a number in spreads; None
            for the default of the response.
        draws_slope: as `BinsConfig`.

    Raises:
        ValueError: as `oblivious_boost`.
    """
    response = task.response
    fractions = _fraction_by_site(one_time_draws, response, learner_factory.round_site)
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
        draws_slope=draws_slope,
    )
    clipped = _clipped_weight_update(response, clip, norm=mechanism.price.norm)
    parts = RecipeParts(
        learner=learner_factory.make_learner(config),
        weight_update=clipped.weight_update,
        weight_params=clipped.weight_params,
        name=learner_factory.algorithm,
        options_text=learner_factory.options_text,
        target=task.target,
        domain=domains.as_declared_domain(task.domain),
    )
    return build_recipe(
        request,
        parts,
        fractions=fractions,
        make_params=lambda noise, _: params._replace(noise=dict(noise)),
    )


def _fraction_by_site(
    one_time_draws: OneTimeDraws, response: types.Response, round_site: str
) -> dict[str, np.ndarray]:
    """Share the budget among the sites that are drawn: site -> its fraction.

    Raises:
        ValueError: for a fraction outside its range, and where nothing is left for the rounds.
    """
    histograms = check_delta_or_fraction("marginals_fraction", one_time_draws.marginals_fraction)
    scores = check_delta_or_fraction("scores_fraction", one_time_draws.scores_fraction)
    fractions = {
        round_site: 1 - histograms - scores,
        HISTOGRAM_SITE: histograms,
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


class _ClippedWeightUpdate(NamedTuple):
    """A weight update with the numbers that it reads, among them its clip.

    Attributes:
        weight_update: how scores become weights.
        weight_params: its numbers.
    """

    weight_update: types.WeightUpdate
    weight_params: types.WeightParams


def _clipped_weight_update(
    response: types.Response, clip: ArrayLike | None, *, norm: str
) -> _ClippedWeightUpdate:
    """Choose the weight update of a response, and its clip in the norm of the mechanism.

    Args:
        response: what is predicted.
        clip: the largest weight of a row, or the largest residual of a number in spreads; None for
            the default of the response.
        norm: "l1" or "l2", the norm by which the mechanism is priced.

    Raises:
        ValueError: for a clip outside its range.
    """
    if clip is None:
        clip = _default_clip_of_number(response) if response.is_number else DEFAULT_CLIP_OF_CLASSES
    if not response.is_number:
        check_interval("clip", clip, "(0, 1]")
    clip = check_interval("clip", clip, POSITIVE_INTERVAL)
    if response == types.BINARY:
        return _ClippedWeightUpdate(
            weight_update=clipped_mirror(losses.log),
            weight_params=MirrorNumbers(np.ones(()), clip),
        )
    # The residuals of a row's class and of all others together are at most c each.
    norm_of_classes = 2 if norm == "l1" else math.sqrt(2)
    clip_in_norm = clip if response.is_number else clip * norm_of_classes
    return _ClippedWeightUpdate(
        weight_update=residuals(response, norm), weight_params=ResidualNumbers(clip_in_norm)
    )


def _default_clip_of_number(response: types.Response) -> float:
    """The largest residual of a number, in spreads, where the caller states no `clip`.

    Of a quantile it is the Newton step where numbers follow a logistic law, whose density at level
    q is q (1 - q) pi / sqrt(3) in a spread.
    """
    if response.objective == "quantile":
        q = response.level
        return max(q, 1 - q) * math.sqrt(3) / (math.pi * q * (1 - q))
    if response.objective == "squared":
        return DEFAULT_CLIP_OF_SQUARED_ERROR
    return DEFAULT_CLIP_OF_COUNTS
