"""Additive models: one curve a column, and what decides how a round learns them.

A round releases all columns as one vector (`additive_by_vector`) or one column
(`additive_by_column`).
"""

from __future__ import annotations  # so that help() shows ArrayLike by its name

import dataclasses
from collections.abc import Mapping, Sequence
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from dpbt import types
from dpbt.common.validate import check_interval, check_positive_integer
from dpbt.data import column_types
from dpbt.data.column_types import Target
from dpbt.data.domains import Domain
from dpbt.recipes.additive_by_column import additive_recipe_by_column
from dpbt.recipes.additive_by_vector import (
    VectorOptions,
    additive_recipe_by_vector,
    column_indices_of_pairs,
)
from dpbt.recipes.auto_rule import (
    GAUSSIAN_RULE,
    AutoHyperparameters,
    ColumnCounts,
    StepTotals,
    choose_hyperparameters_of_settings,
    signal_to_noise_strength,
    stack_hyperparameters_of_settings,
)
from dpbt.recipes.bins import POSITIVE_INTERVAL, BinsTask, OneTimeDraws
from dpbt.recipes.building import PrivacyRequest, checked_privacy_request
from dpbt.recipes.programs import multi_program_recipe

_DEFAULT_ROUNDS = 128
"""How many vectors of all columns are released by default."""

_MAX_ROUNDS = 4096
"""The most rounds that `rounds` may ask for."""

_DEFAULT_STEPS = StepTotals(binary=1.6, several_classes=1.1, number=0.5)
"""The deviation that the noise of all rounds adds to a score, unless `step` says otherwise.

They are those of `auto` under a pure guarantee, but larger for several classes.
"""

_DEFAULT_LEARNING_RATE_OF_CLASSES = 50.0
"""The largest learning rate of a vector for classes; it matters where noise does not set the step.

It is for features of length 1, as that of a number.
"""

_DEFAULT_LEARNING_RATE_OF_NUMBERS = 12.0
"""The largest learning rate of a vector for a number."""

_CONSTANT_FACTOR = 0.5
"""The model is a constant below this times the signal below which that of `auto` is one.

Curves hold less noise than trees of several columns, so they help at a weaker signal:
docs/accuracy.md ("Where a model is a constant") has the measurements.
"""

_DEFAULT_RESOLUTIONS = (2, 4, 8, 16)
"""The numbers of groups that the bins of a column are joined to."""


@overload
def additive(
    *,
    epsilon: float,
    rows: float,
    domain: Domain,
    delta: float = ...,
    target: Target | None = ...,
    objective: str | None = ...,
    quantile: float | None = ...,
    monotone: Mapping[str, int] | None = ...,
    pairs: Sequence[tuple[str, str]] = ...,
    rounds: int | None = ...,
    step: float | None = ...,
    learning_rate: float | None = ...,
    resolutions: tuple[int, ...] | None = ...,
    marginals_fraction: float | None = ...,
    scores_fraction: float | None = ...,
    relation: str | types.Relation = ...,
    max_rows_per_user: int = ...,
    delta_anyway: bool = ...,
) -> types.Recipe: ...


@overload
def additive(
    *,
    epsilon: ArrayLike,
    rows: ArrayLike,
    domain: Domain,
    delta: ArrayLike = ...,
    target: Target | None = ...,
    objective: str | None = ...,
    quantile: float | None = ...,
    monotone: Mapping[str, int] | None = ...,
    pairs: Sequence[tuple[str, str]] = ...,
    rounds: int | None = ...,
    step: ArrayLike | None = ...,
    learning_rate: ArrayLike | None = ...,
    resolutions: tuple[int, ...] | None = ...,
    marginals_fraction: ArrayLike | None = ...,
    scores_fraction: ArrayLike | None = ...,
    relation: str | types.Relation = ...,
    max_rows_per_user: int = ...,
    delta_anyway: bool = ...,
) -> types.Recipe | types.MultiProgramRecipe: ...


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
) -> types.Recipe | types.MultiProgramRecipe:
    """A recipe of a generalized additive model: a row's score is the sum of one curve a column.

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

    Where the signal of a number or of a count is half of that below which the model of `auto` is a
    constant, or weaker, this model is the same constant, and says so. An argument that sets the
    rounds, their step or size, or a share of the budget asks for curves instead.

    Arguments of type ArrayLike may be arrays, as `auto` takes them. Settings that differ in the
    histograms, in the number of bins of the target, in whether a round releases all columns, or in
    whether the model is a constant, run several programs.

    `dpbt.recipes` explains the arguments that all recipes share.

    Args:
        epsilon: the total budget, above 0.
        rows: m, a public bound on the number of rows; under replace-one their public number.
        domain: the public domain of the table. Numbers are best cut into many bins, such as
            `bins=64`.
        delta: 0 for a pure guarantee; else in (0, 1), and best far below 1 / rows.
        target: several classes (`domains.Nominal`) or a number (`domains.Numeric`); None for two.
        objective: of a number: "squared" by default, "poisson" for a count, or "quantile".
        quantile: the level of a quantile, in [0.01, 0.99].
        monotone: name of a column -> 1 if scores must not fall as it rises, -1 if not rise.
        pairs: pairs of names of columns that act together, such as ("age", "hours"). Of each a
            table of cells is added to the curves: columns in order have up to 8 groups, at
            quantiles as curves have, and others a group for each value. A pair costs as much noise
            as a column. It has at most 256 cells, and no monotone column. Pairs are declared from
            what is known without the rows: to choose them by looking at the rows is not private.
        rounds: T; by default 128, and of one column as `auto_rule.choose_hyperparameters` says for
            `auto`.
        step: the deviation, in nats, of the noise that all rounds together add to the score of a
            row, where noise sets the step. By default 1.6 for two classes.
        learning_rate: the largest learning rate of a vector, for features of length 1. By default
            50 for classes and 12 for a number.
        resolutions: the numbers of groups, at quantiles of the rows, that the bins of a column are
            joined to in a vector; by default (2, 4, 8, 16). Where they are given, all rounds
            release vectors. Pairs are refused where a round would release one column.
        marginals_fraction: the share of the budget for class histograms before the first round; by
            default as `auto_rule.choose_hyperparameters` says for `auto`.
        scores_fraction: the share for the final scores by class; by default 0.03 for classes.
        relation: "add_remove" or "replace_one".
        max_rows_per_user: the most rows of one person, all of which the guarantee covers together.
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
    if step is None:
        total_step = np.asarray(_DEFAULT_STEPS.of_response(task.response))
    else:
        total_step = check_interval("step", step, POSITIVE_INTERVAL)
    if learning_rate is None:
        max_learning_rate = np.asarray(_default_learning_rate(task.response))
    else:
        max_learning_rate = check_interval("learning_rate", learning_rate, POSITIVE_INTERVAL)

    # What is drawn once follows from public quantities, as for `auto` of fine columns, and so does
    # where the model is a constant, unless an option asks for curves.
    columns = ColumnCounts(num_columns=len(domain), num_fine=len(domain))
    options_of_curves = (
        *(rounds, step, learning_rate, resolutions),
        *(marginals_fraction, scores_fraction),
    )
    asks_for_no_curves = all(option is None for option in options_of_curves)
    hyperparameters_by_setting = choose_hyperparameters_of_settings(
        request,
        columns,
        task.response,
        constant_factor=_CONSTANT_FACTOR if asks_for_no_curves else 0.0,
    )
    releases_vector_by_setting = (
        [True] * len(hyperparameters_by_setting)
        if resolutions is not None
        else _releases_vector_by_default(request, task.response, hyperparameters_by_setting)
    )
    static_parts_by_setting = {
        (
            numbers.one_time_draws.target_bins,
            numbers.has_histograms and marginals_fraction is None,
            numbers.is_constant,
            releases_vector,
        )
        for numbers, releases_vector in zip(
            hyperparameters_by_setting, releases_vector_by_setting, strict=True
        )
    }
    if len(static_parts_by_setting) > 1:
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
    numbers = stack_hyperparameters_of_settings(hyperparameters_by_setting, request.shape)
    one_time_draws = _with_stated_fractions(
        numbers.one_time_draws,
        marginals_fraction=marginals_fraction,
        scores_fraction=scores_fraction,
    )

    # All settings now run one program, which is one of the two algorithms.
    if releases_vector_by_setting[0]:
        return additive_recipe_by_vector(
            request,
            task,
            one_time_draws=one_time_draws,
            vectors=VectorOptions(
                pairs=column_indices_of_pairs(pairs, domain, monotone),
                total_step=total_step,
                learning_rate=max_learning_rate,
                resolutions=_DEFAULT_RESOLUTIONS if resolutions is None else resolutions,
                num_rounds=num_rounds,
            ),
        )
    if pairs:
        raise ValueError(
            "pairs need rounds of all columns, and these settings learn one column a round; "
            "resolutions=(2, 4, 8, 16) makes rounds of all, at more noise"
        )
    return additive_recipe_by_column(
        request.with_rounds(numbers.rounds if rounds is None else num_rounds),
        task,
        one_time_draws=one_time_draws,
        total_step=total_step,
        is_constant=hyperparameters_by_setting[0].is_constant,
    )


def _default_learning_rate(response: types.Response) -> float:
    """The largest learning rate of a vector, unless `learning_rate` states another."""
    if response.is_number:
        return _DEFAULT_LEARNING_RATE_OF_NUMBERS
    return _DEFAULT_LEARNING_RATE_OF_CLASSES


def _with_stated_fractions(
    one_time_draws: OneTimeDraws,
    *,
    marginals_fraction: ArrayLike | None,
    scores_fraction: ArrayLike | None,
) -> OneTimeDraws:
    """The rule's one-time draws, but with the budget fractions that the caller states."""
    if marginals_fraction is not None:
        one_time_draws = dataclasses.replace(one_time_draws, marginals_fraction=marginals_fraction)
    if scores_fraction is not None:
        one_time_draws = dataclasses.replace(one_time_draws, scores_fraction=scores_fraction)
    return one_time_draws


def _releases_vector_by_default(
    request: PrivacyRequest,
    response: types.Response,
    hyperparameters_by_setting: Sequence[AutoHyperparameters],
) -> list[bool]:
    """Whether the rounds of each setting release one vector of all columns, by default.

    Where the caller gives no resolutions, they do for two classes with a delta and many rows for
    its noise, where histograms say where rows are. From this strength of the signal on, one vector
    is better than its columns one by one.

    Args:
        request: the checked arguments.
        response: what is predicted.
        hyperparameters_by_setting: those of each setting, in order.
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
        for numbers, (epsilon, rows, delta) in zip(
            hyperparameters_by_setting, settings, strict=True
        )
    ]
