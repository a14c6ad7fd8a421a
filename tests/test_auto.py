"""The rule of `auto`: its numbers follow from public quantities, and from the columns alone."""

import numpy as np
import pytest

from dpbt import recipes
from dpbt.data import column_types
from dpbt.data.domains import Boolean, Nominal, Numeric
from dpbt.learners.bins.config import BinsConfig
from dpbt.recipes.auto_rule import (
    MAX_STEP_SHARE_ON_COARSE_COLUMNS,
    MIN_STEP_SHARE_ON_COARSE_COLUMNS,
    NUM_SPLITS_OF_DEEP_TREES_ON_COARSE_COLUMNS,
    ColumnCounts,
    choose_hyperparameters,
    count_columns,
)
from dpbt.types import BINARY, Recipe

FINE = ColumnCounts(num_columns=10, num_fine=10)
COARSE = ColumnCounts(num_columns=10, num_fine=8)


def test_columns_are_fine_if_they_have_an_order_and_many_bins():
    domain = {
        "age": Numeric(0, 100, bins=64),
        "years": Numeric(0, 20, bins=20),
        "code": Nominal(tuple(map(str, range(40)))),
        "owner": Boolean(),
    }
    assert count_columns(domain) == ColumnCounts(num_columns=4, num_fine=1)
    assert not count_columns(domain).are_nearly_all_fine
    assert count_columns({"age": Numeric(0, 100, bins=32)}).are_nearly_all_fine


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("rows", [500, 5000, 500_000])
def test_tables_with_coarse_columns_have_small_steps_and_few_splits(rows, delta):
    fine, coarse = (
        choose_hyperparameters(epsilon=1.0, rows=rows, columns=columns, delta=delta)
        for columns in (FINE, COARSE)
    )
    noise_of_fine, noise_of_coarse = (
        float(numbers.step) * np.sqrt(numbers.rounds) for numbers in (fine, coarse)
    )
    share = noise_of_coarse / noise_of_fine
    assert share + 1e-9 >= MIN_STEP_SHARE_ON_COARSE_COLUMNS
    assert share <= MAX_STEP_SHARE_ON_COARSE_COLUMNS + 1e-9
    assert coarse.structure.depth <= NUM_SPLITS_OF_DEEP_TREES_ON_COARSE_COLUMNS
    assert coarse.structure.depth <= fine.structure.depth
    assert coarse.one_time_draws == fine.one_time_draws


def test_numbers_do_not_depend_on_whether_columns_are_fine():
    response = Numeric(0, 1).response
    fine, coarse = (
        choose_hyperparameters(epsilon=1.0, rows=5000, columns=columns, response=response)
        for columns in (FINE, COARSE)
    )
    assert fine == coarse


@pytest.mark.parametrize(
    ("delta", "weak", "strong"), [(0.0, 199, 201), (1e-6, 160, 180)], ids=["pure", "delta"]
)
def test_only_numbers_of_a_weak_signal_are_constants(delta, weak, strong):
    """At epsilon 1 the rows are n epsilon, and with the delta 4.2 times n mu."""
    squared, count, quantile = (
        column_types.response_of_target(
            column_types.target_with_objective(Numeric(0, 1), objective, level)
        )
        for objective, level in (("squared", None), ("poisson", None), ("quantile", 0.5))
    )

    def step_of(rows, response, **options):
        numbers = choose_hyperparameters(
            epsilon=1.0, rows=rows, columns=FINE, delta=delta, response=response, **options
        )
        return float(numbers.step)

    for response in (squared, count):
        assert step_of(weak, response) == 0
        assert step_of(strong, response) > 0
        assert step_of(weak, response, constant_factor=0.0) > 0
    assert step_of(weak, quantile) > 0
    assert step_of(weak, BINARY) > 0


def recipe_of_weak_signal(make_recipe, **options) -> Recipe:
    """The recipe of a number, whose signal is weak with and without a delta."""
    fixed = {"domain": {"x": Numeric(0, 1)}, "target": Numeric(0, 40)}
    return make_recipe(epsilon=1.0, rows=80, **fixed, **options)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_an_additive_model_of_a_weak_signal_buys_what_that_of_auto_buys(delta):
    """The noise of the histogram and of the sum is the same, and no round moves a score.

    Eighty rows are a signal below half of that below which `auto` has constants.
    """
    additive, auto = (
        recipe_of_weak_signal(make_recipe, delta=delta)
        for make_recipe in (recipes.additive, recipes.auto)
    )
    assert float(additive.params.step) == float(auto.params.step) == 0
    assert additive.params.noise == auto.params.noise
    assert additive.rounds == auto.rounds == 1


@pytest.mark.parametrize(("delta", "rows"), [(0.0, 110), (1e-6, 90)], ids=["pure", "delta"])
def test_an_additive_model_has_curves_from_half_of_the_signal_on(delta, rows):
    options = {"domain": {"x": Numeric(0, 1)}, "target": Numeric(0, 40), "delta": delta}
    additive, auto = (
        make_recipe(epsilon=1.0, rows=rows, **options)
        for make_recipe in (recipes.additive, recipes.auto)
    )
    assert float(auto.params.step) == 0
    assert float(additive.params.step) > 0


@pytest.mark.parametrize(
    "option",
    [{"rounds": 8}, {"step": 0.5}, {"scores_fraction": 0.05}, {"marginals_fraction": 0.0}],
    ids=str,
)
def test_an_additive_model_whose_numbers_are_given_has_curves_at_any_signal(option):
    assert float(recipe_of_weak_signal(recipes.additive, **option).params.step) > 0


def config_of(recipe):
    config = recipe.learner.config
    assert isinstance(config, BinsConfig)
    return config


@pytest.mark.parametrize("make_recipe", [recipes.auto, recipes.additive])
def test_settings_of_which_one_is_a_constant_run_several_programs(make_recipe):
    """One with a delta releases a sum where others release four."""
    recipe = make_recipe(
        epsilon=[1.0, 8.0],
        rows=80,
        delta=1e-6,
        domain={"x": Numeric(0, 1)},
        target=Numeric(0, 40),
    )
    weak, strong = (recipes.setting(recipe, number) for number in (0, 1))
    assert float(weak.params.step) == 0
    assert float(strong.params.step) > 0
    assert (config_of(weak).draws_slope, config_of(strong).draws_slope) == (False, True)


def test_an_additive_model_is_the_same_whatever_its_columns_are():
    options = {"epsilon": 1.0, "rows": 50_000, "delta": 1e-6}
    fine = recipes.additive(domain={"x": Numeric(0, 1, bins=32)}, **options)
    coarse = recipes.additive(domain={"x": Numeric(0, 1, bins=31)}, **options)
    assert fine.params.noise == coarse.params.noise
