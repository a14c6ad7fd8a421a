"""The additive recipe of which every round releases all columns, as one vector.

`additive` chooses between it and `additive_by_column`.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpbt import types
from dpbt.common.validate import check_interval, show_value
from dpbt.data.domains import Domain
from dpbt.learners.additive import learner
from dpbt.learners.additive.config import AdditiveConfig, AdditiveParams
from dpbt.learners.additive.descent import noise_growth_by_momentum
from dpbt.learners.bins.config import BinsConfig
from dpbt.recipes.bins import (
    BinsLearnerFactory,
    BinsTask,
    OneTimeDraws,
    recipe_over_bins_with_clipped_weights,
)
from dpbt.recipes.building import PrivacyRequest

_MOMENTUM = 0.9
"""The share of the last change that a vector of all columns keeps."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorOptions:
    """The options of rounds that release one vector of all columns and pairs.

    Attributes:
        pairs: the indices of the two columns of each pair.
        total_step: the standard deviation of the noise that all rounds together add to the score of
            a row, in nats.
        learning_rate: the largest learning rate of a vector, for features of length 1.
        resolutions: the numbers of groups, at quantiles of the rows, that the bins of a column are
            joined to.
        num_rounds: T.
    """

    pairs: tuple[tuple[int, int], ...]
    total_step: np.ndarray
    learning_rate: np.ndarray
    resolutions: Sequence[int]
    num_rounds: int


def additive_recipe_by_vector(
    request: PrivacyRequest,
    task: BinsTask,
    *,
    one_time_draws: OneTimeDraws,
    vectors: VectorOptions,
) -> types.Recipe:
    """Build the additive recipe of which every round releases one vector of all columns and pairs.

    Args:
        request: the checked arguments.
        task: what is predicted, and from which columns.
        one_time_draws: what is drawn once.
        vectors: the options of the rounds.

    Raises:
        ValueError: for resolutions outside their range, for a pair with too many cells, and as
            `recipe_over_bins_with_clipped_weights`.
    """
    # The score of a row has the noise of one bin of each column and of one cell of each pair.
    num_rounds = vectors.num_rounds
    num_curves = len(task.domain) + len(vectors.pairs)
    step_of_round = vectors.total_step / (
        noise_growth_by_momentum(num_rounds, _MOMENTUM) * math.sqrt(num_curves)
    )
    params = AdditiveParams(
        noise={},
        step=step_of_round,
        max_learning_rate=vectors.learning_rate,
        momentum=_MOMENTUM,
        rounds=num_rounds,
    )
    sizes = check_interval(
        "resolutions", vectors.resolutions, f"[1, {types.MAX_BINS}]", whole_numbers=True
    )

    def make_learner(bins: BinsConfig) -> types.WeakLearner:
        config = AdditiveConfig(
            bins=bins,
            resolutions=tuple(map(int, sizes.flat)),
            max_rounds=num_rounds,
            pairs=vectors.pairs,
        )
        if (max_cells := config.bin_and_cell_mask.shape[1]) > types.MAX_BINS:
            raise ValueError(
                f"pairs have at most {types.MAX_BINS} cells each, and one has {max_cells}"
            )
        return learner.additive(config)

    return recipe_over_bins_with_clipped_weights(
        request,
        task,
        one_time_draws=one_time_draws,
        learner_factory=BinsLearnerFactory(
            algorithm="additive",
            options_text=f"{sizes.size} resolutions",
            round_site=learner.BINS_SITE,
            make_learner=make_learner,
        ),
        params=params,
    )


def column_indices_of_pairs(
    pairs: Sequence[tuple[str, str]], domain: Domain, monotone: Mapping[str, int] | None
) -> tuple[tuple[int, int], ...]:
    """Look up the indices of the two columns of each declared pair, and check the pairs.

    Args:
        pairs: pairs of names of columns.
        domain: the public domain of the table.
        monotone: the direction of each column that has one, by its name.

    Raises:
        ValueError: naming a pair, unless it is of two columns of the domain that no other pair has
            and that are not monotone.
    """
    if not isinstance(pairs, list | tuple) or not all(isinstance(p, list | tuple) for p in pairs):
        raise ValueError(f"pairs must list pairs of columns, got {show_value(pairs)}")
    names = list(domain)
    columns_of_pairs = []
    for pair in pairs:
        columns = [names.index(name) for name in pair if name in names]
        if len(pair) != 2 or len(set(columns)) != 2:
            raise ValueError(f"pairs: {show_value(pair)} must be two columns of {names}")
        if sorted(columns) in map(sorted, columns_of_pairs):
            raise ValueError(f"pairs: {show_value(pair)} is there twice")
        if any((monotone or {}).get(name) for name in pair):
            raise ValueError(
                f"pairs: {show_value(pair)} has a monotone column, and cells are not so"
            )
        columns_of_pairs.append((columns[0], columns[1]))
    return tuple(columns_of_pairs)
