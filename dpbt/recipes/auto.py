"""The recipe that sets all of its numbers: oblivious trees, by the rule of `auto_rule`."""

from __future__ import annotations  # so that help() shows ArrayLike by its name

from collections.abc import Mapping
from typing import overload

from numpy.typing import ArrayLike

from dpbt import types
from dpbt.data import column_types, domains
from dpbt.data.column_types import Target
from dpbt.data.domains import Domain
from dpbt.recipes.auto_rule import (
    choose_hyperparameters_of_settings,
    count_columns,
    stack_hyperparameters_of_settings,
)
from dpbt.recipes.bins import BinsTask
from dpbt.recipes.building import checked_privacy_request
from dpbt.recipes.programs import multi_program_recipe
from dpbt.recipes.trees_over_bins import TreeNumbers, oblivious_recipe


@overload
def auto(
    *,
    epsilon: float,
    rows: float,
    domain: Domain,
    delta: float = ...,
    target: Target | None = ...,
    objective: str | None = ...,
    quantile: float | None = ...,
    monotone: Mapping[str, int] | None = ...,
    seed: float = ...,
    relation: str | types.Relation = ...,
    max_rows_per_user: int = ...,
    delta_anyway: bool = ...,
) -> types.Recipe: ...


@overload
def auto(
    *,
    epsilon: ArrayLike,
    rows: ArrayLike,
    domain: Domain,
    delta: ArrayLike = ...,
    target: Target | None = ...,
    objective: str | None = ...,
    quantile: float | None = ...,
    monotone: Mapping[str, int] | None = ...,
    seed: ArrayLike = ...,
    relation: str | types.Relation = ...,
    max_rows_per_user: int = ...,
    delta_anyway: bool = ...,
) -> types.Recipe | types.MultiProgramRecipe: ...


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
    delta_anyway: bool = False,
) -> types.Recipe | types.MultiProgramRecipe:
    """A recipe of boosted oblivious trees, with every number set from public quantities.

    Guarantee: as `oblivious_boost`. Nothing is tuned, so nothing else is released.
    `auto_rule.choose_hyperparameters` has the choices and their reasons.

    Arguments of type ArrayLike may be arrays. They broadcast to settings with room for the most
    rounds of any of them. The depth of trees, the histograms, and the number of bins of the target
    follow from the numbers of a setting. Where they differ, the settings run several programs.
    `jax.vmap(dpbt.boost)` runs them all the same, and `recipes.setting` has the recipe of each.

    `dpbt.recipes` explains the arguments that all recipes share.

    Args:
        epsilon: the total budget, above 0.
        rows: m, a public bound on the number of rows; under replace-one their public number.
        domain: the public domain of the table. Numbers are best cut into many bins, such as
            `bins=64`, because finer splits cost nothing here.
        delta: 0 for a pure guarantee; else in (0, 1), and best far below 1 / rows.
        target: several classes (`domains.Nominal`) or a number (`domains.Numeric`); None for two.
        objective: of a number: "squared" by default, "poisson" for a count, or "quantile".
        quantile: the level of a quantile, in [0.01, 0.99].
        monotone: name of a column -> 1 if scores must not fall as it rises, -1 if not rise.
        seed: of the public splits. It is not a secret.
        relation: "add_remove" or "replace_one".
        max_rows_per_user: the most rows of one person, all of which the guarantee covers together.
        delta_anyway: whether to accept a delta of 1 / rows or more, which protects nobody.

    Returns:
        A `types.Recipe`, or a `types.MultiProgramRecipe` for settings that run several programs.

    Raises:
        ValueError: for a value outside these ranges, named with what was given.
    """
    domains.check_domain(domain)
    target = column_types.target_with_objective(target, objective, quantile)
    request = checked_privacy_request(
        epsilon=epsilon,
        delta=delta,
        rows=rows,
        rounds=1,  # `choose_hyperparameters` sets them
        relation=relation,
        max_rows_per_user=max_rows_per_user,
        delta_anyway=delta_anyway,
        max_rows=types.MAX_ROWS_IN_BLOCKS,
        options={"seed": seed},
    )
    task = BinsTask(domain=domain, target=target, monotone=monotone)
    hyperparameters_by_setting = choose_hyperparameters_of_settings(
        request, count_columns(domain), task.response
    )
    if len({numbers.static_parts for numbers in hyperparameters_by_setting}) > 1:
        return multi_program_recipe(
            auto,
            {"epsilon": epsilon, "rows": rows, "delta": delta, "seed": seed},
            domain=domain,
            target=target,
            monotone=monotone,
            relation=relation,
            max_rows_per_user=max_rows_per_user,
            delta_anyway=delta_anyway,
        )
    numbers = stack_hyperparameters_of_settings(hyperparameters_by_setting, request.shape)
    return oblivious_recipe(
        request.with_rounds(numbers.rounds),
        task,
        one_time_draws=numbers.one_time_draws,
        structure=numbers.structure,
        numbers=TreeNumbers(step=numbers.step, limit=numbers.limit, seed=seed),
        is_constant=hyperparameters_by_setting[0].is_constant,
    )
