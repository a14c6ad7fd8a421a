"""Additive models: one curve a column, learned from all bins of all columns at once."""

from __future__ import annotations  # so that help() shows ArrayLike by its name

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbt import types
from dpbt.common.validate import check_interval, check_positive_integer, show_value
from dpbt.data import column_types
from dpbt.data.column_types import Target
from dpbt.data.domains import Domain
from dpbt.learners.additive import learner
from dpbt.learners.additive.config import AdditiveConfig, AdditiveParams
from dpbt.learners.additive.descent import noise_growth_by_momentum
from dpbt.learners.bins.config import BinsConfig
from dpbt.recipes.auto_rule import (
    GAUSSIAN_RULE,
    AutoNumbers,
    ColumnCounts,
    StepTotals,
    choose_numbers_of_settings,
    largest_move_of_leaf,
    numbers_with_axes,
    signal_to_noise_strength,
)
from dpbt.recipes.bins import BinsLearner, BinsTask, OneTimeDraws, recipe_over_bins
from dpbt.recipes.building import PrivacyRequest, checked_privacy_request
from dpbt.recipes.programs import multi_program_recipe
from dpbt.recipes.trees_over_bins import (
    TreeLearner,
    TreeNumbers,
    TreeStructure,
    oblivious_recipe,
)

_DEFAULT_ROUNDS, _MAX_ROUNDS = 128, 4096
"""How many vectors of all columns are released, and how many may be."""

_DEFAULT_STEPS = StepTotals(binary=1.6, several_classes=1.1, number=0.5)
"""The deviation that the noise of all rounds adds to a score, unless `step` says otherwise.

They are those of `auto` under a pure guarantee, but larger for several classes.
"""

_DEFAULT_LEARNING_RATE_OF_CLASSES, _DEFAULT_LEARNING_RATE_OF_NUMBERS = 50.0, 12.0
"""The largest learning rate of a vector, which matters where noise does not set the step."""

_MOMENTUM = 0.9
"""The share of the last change that a vector of all columns keeps."""

_RESOLUTIONS = (2, 4, 8, 16)
"""The numbers of groups that the bins of a column are joined to, by default."""

_DEPTH_OF_COLUMN_TREES = 4
"""How many splits the trees of one column have, which cut it into 16 groups."""

_TREES_OF_ONE_COLUMN = TreeLearner(
    algorithm="additive",
    options_text="one column a round",
    make_learner=learner.additive_by_column,
)


def additive(
    *,
    epsilon: ArrayLike,
    rows: ArrayLike,
    domain: Domain,
    delta: ArrayLike = 0.0,
    target: Target | None = None,
    objective: str | None = None,
    quantile: float | None = None,
    monotone: Mapping[str, int] | None = None,
    pairs: Sequence[tuple[str, str]] = (),
    rounds: int | None = None,
    step: ArrayLike | None = None,
    learning_rate: ArrayLike | None = None,
    resolutions: tuple[int, ...] | None = None,
    marginals_fraction: ArrayLike | None = None,
    scores_fraction: ArrayLike | None = None,
    relation: str | types.Relation = types.ADD_REMOVE,
    max_rows_per_user: int = 1,
    delta_anyway: bool = False,
) -> types.Recipe | Any:
    """A generalized additive model: the score of a row is the sum of one curve a column.

    Guarantee: epsilon-DP, or (epsilon, delta)-DP, under the relation. Where two classes have many
    rows for the noise of a delta, a round releases the signed sums of clipped weights of all groups
    of bins of all columns as one vector, whose sensitivity is that of
    `additive.learner.bin_group_sums_sensitivity`. Else, and under a pure guarantee, where such a
    vector costs as much as its columns one by one, a round releases one column, as a tree of
    `oblivious_boost` that asks one attribute. Histograms before the first round and scores by class
    after the last are drawn as `auto` draws them.

    The curves are the model: `dpbt.explain` and `dpbt.plot.shape` show all of it, with the
    deviation of the noise that privacy added. Where columns act on their own it is more accurate
    than trees, and where they act together it is less; `auto` is for both. Its numbers are set from
    public quantities, and nothing is tuned.

    Where the signal of a number or of a count is so weak that the model of `auto` is a constant,
    this model is the same constant, and says so. An argument that sets the rounds, their step or
    size, or a share of the budget asks for curves instead.

    Arguments of type ArrayLike may be arrays, as `auto` takes them. Settings that differ in the
    histograms, in the number of bins of the target, or in whether a round releases all columns, run
    several programs.

    Args:
        epsilon: the total budget, above 0.
        rows: m. Under add/remove a public bound on the number of rows, under replace-one their
            public number.
        domain: the public domain of the table. Numbers are best cut into many bins, such as
            `bins=64`.
        delta: 0 for a pure guarantee; else in (0, 1), and best far below 1 / rows. It buys much
            less noise.
        target: what is predicted: `domains.Nominal` for several classes, `domains.Numeric` for a
            number in a declared range, None for two classes. Give `dpbt.table` the same.
        objective: of a number: "squared" by default, "poisson" for a count, or "quantile".
        quantile: the level of a quantile, in [0.01, 0.99].
        monotone: for names of columns 1 if scores must not fall as the column rises, or -1 if they
            must not rise. It costs nothing.
        pairs: pairs of names of columns that act together, such as ("age", "hours"). Of each a
            table of cells is added to the curves: columns in order have up to 8 groups, at
            quantiles as curves have, and others a group for each value. A pair costs as much noise
            as a column. It has at most 256 cells, and no monotone column. Pairs are declared from
            what is known without the rows: to choose them by looking at the rows is not private.
        rounds: T; by default 128, and of one column as `auto_rule.choose_numbers` says for `auto`.
        step: the deviation, in nats, of the noise that all rounds together add to the score of a
            row, where noise sets the step. By default 1.6 for two classes.
        learning_rate: the largest learning rate of a vector, for features of length 1. By default
            50 for classes and 12 for a number.
        resolutions: the numbers of groups, at quantiles of the rows, that the bins of a column are
            joined to in a vector; by default (2, 4, 8, 16). Where they are given, all rounds
            release vectors. Pairs are refused where a round would release one column.
        marginals_fraction: the share of the budget for class histograms before the first round; by
            default as `auto_rule.choose_numbers` says for `auto`.
        scores_fraction: the share for the final scores by class; by default 0.03 for classes.
        relation: "add_remove" or "replace_one".
        max_rows_per_user: the most rows of one person: a limit if the table has ids of users, else
            the owner's promise. The guarantee is for all rows of a person together.
        delta_anyway: whether to accept a delta of 1 / rows or more, which protects nobody.

    Returns:
        A `types.Recipe`, or a `types.MultiProgramRecipe` for settings that run several programs.

    Raises:
        ValueError: for a value outside these ranges, named with what was given.
    """
    num_rounds = check_positive_integer(
        "rounds", _DEFAULT_ROUNDS if rounds is None else rounds, _MAX_ROUNDS
    )
    request = checked_privacy_request(
        epsilon=epsilon,
        delta=delta,
        rows=rows,
        rounds=num_rounds,
        relation=relation,
        max_rows_per_user=max_rows_per_user,
        delta_anyway=delta_anyway,
        max_rows=types.MAX_ROWS_IN_BLOCKS,
        options={
            "step": step,
            "learning_rate": learning_rate,
            "marginals_fraction": marginals_fraction,
            "scores_fraction": scores_fraction,
        },
    )
    task = BinsTask(
        domain=domain,
        target=column_types.target_with_objective(target, objective, quantile),
        monotone=monotone,
    )
    options_of_curves = (
        rounds,
        step,
        learning_rate,
        resolutions,
        marginals_fraction,
        scores_fraction,
    )
    asks_for_curves = any(option is not None for option in options_of_curves)
    total_step = check_interval(
        "step",
        _DEFAULT_STEPS.of_response(task.response) if step is None else step,
        "[1e-30, 1e30]",
    )
    default_learning_rate = (
        _DEFAULT_LEARNING_RATE_OF_NUMBERS
        if task.response.is_number
        else _DEFAULT_LEARNING_RATE_OF_CLASSES
    )
    max_learning_rate = check_interval(
        "learning_rate",
        default_learning_rate if learning_rate is None else learning_rate,
        "[1e-30, 1e30]",
    )

    # What is drawn once follows from public quantities, as for `auto` of fine columns, and so does
    # where the model is a constant.
    columns = ColumnCounts(num_columns=len(domain), num_fine=len(domain))
    chosen = choose_numbers_of_settings(
        request, columns, task.response, allows_constant=not asks_for_curves
    )
    draws_vectors = [resolutions is not None] * len(chosen)
    if resolutions is None:
        draws_vectors = _are_signals_enough_for_vectors(request, task.response, chosen)
    static_parts = {
        (
            numbers.one_time_draws.target_bins,
            numbers.has_histograms and marginals_fraction is None,
            numbers.is_constant,
            has_vectors,
        )
        for numbers, has_vectors in zip(chosen, draws_vectors, strict=True)
    }
    if len(static_parts) > 1:
        return multi_program_recipe(
            additive,
            {
                "epsilon": epsilon,
                "rows": rows,
                "delta": delta,
                "step": step,
                "learning_rate": learning_rate,
                "marginals_fraction": marginals_fraction,
                "scores_fraction": scores_fraction,
            },
            domain=domain,
            target=task.target,
            monotone=monotone,
            pairs=pairs,
            rounds=rounds,
            resolutions=resolutions,
            relation=relation,
            max_rows_per_user=max_rows_per_user,
            delta_anyway=delta_anyway,
        )
    numbers = numbers_with_axes(chosen, request.shape)
    one_time_draws = numbers.one_time_draws
    if marginals_fraction is not None:
        one_time_draws = dataclasses.replace(one_time_draws, marginals_fraction=marginals_fraction)
    if scores_fraction is not None:
        one_time_draws = dataclasses.replace(one_time_draws, scores_fraction=scores_fraction)
    if draws_vectors[0]:
        return _recipe_of_all_columns(
            request,
            task,
            one_time_draws=one_time_draws,
            vectors=_VectorOptions(
                pairs=_column_numbers_of_pairs(pairs, domain, monotone),
                total_step=total_step,
                learning_rate=max_learning_rate,
                resolutions=_RESOLUTIONS if resolutions is None else resolutions,
                num_rounds=num_rounds,
            ),
        )
    if pairs:
        raise ValueError(
            "pairs need rounds of all columns, and these settings learn one column a round; "
            "resolutions=(2, 4, 8, 16) makes rounds of all, at more noise"
        )
    rounds_by_column = numbers.rounds if rounds is None else num_rounds
    tree_numbers = TreeNumbers(step=numbers.step, limit=numbers.limit)
    is_constant = chosen[0].is_constant
    if not is_constant:
        step_of_round = total_step / np.sqrt(rounds_by_column)
        tree_numbers = TreeNumbers(step=step_of_round, limit=largest_move_of_leaf(step_of_round))
    return oblivious_recipe(
        request.with_rounds(rounds_by_column),
        task,
        one_time_draws=one_time_draws,
        structure=TreeStructure(depth=_DEPTH_OF_COLUMN_TREES, attributes_per_tree=(1,)),
        numbers=tree_numbers,
        tree_learner=_TREES_OF_ONE_COLUMN,
        is_constant=is_constant,
    )


def _are_signals_enough_for_vectors(
    request: PrivacyRequest, response: types.Response, chosen: Sequence[AutoNumbers]
) -> list[bool]:
    """Whether rounds of each setting release a vector of all columns, without given resolutions.

    They do for two classes with a delta and many rows for its noise, where histograms say where
    rows are. From this strength of the signal on, one vector is better than its columns one by one.

    Args:
        request: the checked arguments.
        response: what is predicted.
        chosen: the numbers of each setting, in order.
    """
    settings = np.broadcast(request.epsilon, request.rows, request.delta)
    return [
        request.is_approximate
        and response == types.BINARY
        and numbers.has_histograms
        and signal_to_noise_strength(
            epsilon=float(epsilon),
            delta=float(delta),
            rows=float(rows),
            relation=request.relation,
            max_rows_per_user=request.max_rows_per_user,
        )
        >= GAUSSIAN_RULE.min_signal_of_deep_trees
        for numbers, (epsilon, rows, delta) in zip(chosen, settings, strict=True)
    ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _VectorOptions:
    """The options of rounds that release one vector of all columns and pairs.

    Attributes:
        pairs: the numbers of the columns of each pair.
        total_step: the deviation that all rounds add to the score of a row, in nats.
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


def _recipe_of_all_columns(
    request: PrivacyRequest,
    task: BinsTask,
    *,
    one_time_draws: OneTimeDraws,
    vectors: _VectorOptions,
) -> types.Recipe:
    """The recipe whose rounds release one vector of all columns and pairs.

    Args:
        request: the checked arguments.
        task: what is predicted, and from which columns.
        one_time_draws: what is drawn once.
        vectors: the options of the rounds.

    Raises:
        ValueError: as `additive`.
    """
    # The noise of a row is that of one bin of each column and pair.
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

    return recipe_over_bins(
        request,
        task,
        one_time_draws=one_time_draws,
        learner=BinsLearner(
            algorithm="additive",
            options_text=f"{sizes.size} resolutions",
            round_site=learner.BINS_SITE,
            make_learner=make_learner,
        ),
        params=params,
    )


def _column_numbers_of_pairs(
    pairs: Sequence[tuple[str, str]], domain: Domain, monotone: Mapping[str, int] | None
) -> tuple[tuple[int, int], ...]:
    """The numbers of the columns of each pair.

    Raises:
        ValueError: as `additive`, naming a pair.
    """
    if not isinstance(pairs, list | tuple) or not all(isinstance(p, list | tuple) for p in pairs):
        raise ValueError(f"pairs must list pairs of columns, got {show_value(pairs)}")
    names, columns_of_pairs = list(domain), []
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
