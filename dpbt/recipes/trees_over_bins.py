"""Recipes of trees whose splits are public: oblivious trees, and trees of one column each."""

from __future__ import annotations  # so that help() shows ArrayLike by its name

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from dpbt import types
from dpbt.common.validate import check_floats, check_interval, check_positive_integer, show_value
from dpbt.learners.bins.config import BinsConfig
from dpbt.learners.oblivious.config import MAX_DEPTH, ObliviousConfig, ObliviousParams
from dpbt.learners.oblivious.learner import SUMS_SITE, oblivious_tree
from dpbt.recipes.bins import (
    POSITIVE_INTERVAL,
    BinsLearnerFactory,
    BinsTask,
    OneTimeDraws,
    recipe_over_bins_with_clipped_weights,
)
from dpbt.recipes.building import PrivacyRequest

MAX_SEED = 2**24
"""Seeds are whole numbers below this, which float32 holds."""

DEFAULT_CURVATURE_OF_CLASSES = 0.05
"""How much a leaf's estimated share of the rows adds to its denominator, for classes.

It was settled on the tables of docs/accuracy.md.
"""

STEPS_IN_DEFAULT_CURVATURE_OF_NUMBERS = 6
"""The curvature h of a number, in steps s.

A leaf of m rows whose residuals add up to G moves by s G / (m h / 3) without noise. So h = 6 s
makes it half of their mean, G / (2 m).
"""


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
            spreads of a number; or a schedule of the round. With a step of 0 no leaf moves a score.
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
class TreeLearnerFactory:
    """How to make a learner of oblivious trees, once its config follows from task and structure.

    Attributes:
        algorithm: the name of the algorithm in tables.
        options_text: its options, as tables show them; None for the depth of the trees.
        make_learner: from the config of the trees to the learner.
    """

    algorithm: str
    options_text: str | None
    make_learner: Callable[[ObliviousConfig], types.WeakLearner]


OBLIVIOUS_TREES = TreeLearnerFactory(
    algorithm="oblivious_boost", options_text=None, make_learner=oblivious_tree
)
"""The trees of `recipes.oblivious_boost` and `recipes.auto`."""


def oblivious_recipe(
    request: PrivacyRequest,
    task: BinsTask,
    *,
    one_time_draws: OneTimeDraws,
    structure: TreeStructure,
    numbers: TreeNumbers,
    learner_factory: TreeLearnerFactory = OBLIVIOUS_TREES,
    is_constant: bool = False,
) -> types.Recipe:
    """Build a recipe of oblivious trees over the bins of a domain.

    The request was checked before; all other options are checked here.

    Args:
        request: the checked arguments.
        task: what is predicted, and from which columns.
        one_time_draws: what is drawn once.
        structure: the static options of the trees.
        numbers: the options of the trees that may have axes of settings.
        learner_factory: makes the learner that grows the trees.
        is_constant: whether the model of every setting is a constant, because all steps are 0.

    Raises:
        ValueError: as `oblivious_boost`.
    """
    structure = _checked_structure(structure)
    has_histograms = bool(
        np.any(check_floats("marginals_fraction", one_time_draws.marginals_fraction) > 0)
    )
    params = _checked_params_with_noise_unset(
        numbers,
        is_number=task.response.is_number,
        has_histograms=has_histograms,
        max_rounds=int(np.max(request.rounds)),
    )
    options_text = learner_factory.options_text
    if options_text is None:
        options_text = f"{structure.depth} splits a tree"

    def make_learner(bins: BinsConfig) -> types.WeakLearner:
        return learner_factory.make_learner(_tree_config(bins, structure))

    return recipe_over_bins_with_clipped_weights(
        request,
        task,
        one_time_draws=one_time_draws,
        learner_factory=BinsLearnerFactory(
            algorithm=learner_factory.algorithm,
            options_text=options_text,
            round_site=SUMS_SITE,
            make_learner=make_learner,
        ),
        params=params,
        clip=numbers.clip,
        draws_slope=not is_constant,
    )


def _checked_params_with_noise_unset(
    numbers: TreeNumbers, *, is_number: bool, has_histograms: bool, max_rounds: int
) -> ObliviousParams:
    """Check the numbers of the trees, and hold them in params whose noise is set later.

    Args:
        numbers: the options of the trees that may have axes of settings.
        is_number: whether a number is predicted.
        has_histograms: whether class histograms are drawn before the first round.
        max_rounds: how many steps a schedule is asked for.

    Raises:
        ValueError: for a number outside its range, which float32 holds.
    """
    if callable(numbers.step):
        steps = [numbers.step(round_index) for round_index in range(max_rounds)]
    else:
        steps = [numbers.step]
    steps = [check_interval("step", step, "[0, 1e30]") for step in steps]
    limit = check_interval("limit", numbers.limit, POSITIVE_INTERVAL)
    if numbers.curvature is not None:
        curvature = numbers.curvature
    elif is_number:
        curvature = STEPS_IN_DEFAULT_CURVATURE_OF_NUMBERS * steps[0]
    else:
        curvature = DEFAULT_CURVATURE_OF_CLASSES
    curvature = check_interval("curvature", curvature, "[0, 1e30]")
    seed = check_interval("seed", numbers.seed, f"[0, {MAX_SEED - 1}]", whole_numbers=True)

    # A leaf's denominator counts its rows where these are known.
    knows_rows_of_leaves = is_number or has_histograms
    return ObliviousParams(
        noise={},
        step=tuple(steps) if callable(numbers.step) else steps[0],
        limit=limit,
        curvature=curvature * knows_rows_of_leaves,
        seed=seed,
    )


def _checked_structure(structure: TreeStructure) -> TreeStructure:
    """Check the static options of the trees, and convert them to Python numbers.

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
    """Make the config of oblivious trees from the config of bins and a tree structure."""
    return ObliviousConfig(
        **vars(bins),
        depth=structure.depth,
        attributes_per_tree=tuple(structure.attributes_per_tree),
        smoothing=structure.smoothing,
        num_structures=structure.structures,
    )
