"""The rule of `auto`: its numbers follow from public quantities, and from the columns alone."""

import numpy as np
import pytest

from dpbt import recipes
from dpbt.data import column_types
from dpbt.data.domains import Boolean, Nominal, Numeric
from dpbt.recipes.auto_rule import (
    MAX_STEP_SHARE_ON_COARSE_COLUMNS,
    MIN_STEP_SHARE_ON_COARSE_COLUMNS,
    NUM_SPLITS_OF_DEEP_TREES_ON_COARSE_COLUMNS,
    ColumnCounts,
    choose_numbers,
    count_columns,
)
from dpbt.types import BINARY

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
    assert not count_columns(domain).are_fine
    assert count_columns({"age": Numeric(0, 100, bins=32)}).are_fine


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("rows", [500, 5000, 500_000])
def test_tables_with_coarse_columns_have_small_steps_and_few_splits(rows, delta):
    fine, coarse = (
        choose_numbers(epsilon=1.0, rows=rows, columns=columns, delta=delta)
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
        choose_numbers(epsilon=1.0, rows=5000, columns=columns, response=response)
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
        numbers = choose_numbers(
            epsilon=1.0, rows=rows, columns=FINE, delta=delta, response=response, **options
        )
        return float(numbers.step)

    for response in (squared, count):
        assert step_of(weak, response) == 0
        assert step_of(strong, response) > 0
        assert step_of(weak, response, allows_constant=False) > 0
    assert step_of(weak, quantile) > 0
    assert step_of(weak, BINARY) > 0


def test_an_additive_model_is_the_same_whatever_its_columns_are():
    options = {"epsilon": 1.0, "rows": 50_000, "delta": 1e-6}
    fine = recipes.additive(domain={"x": Numeric(0, 1, bins=32)}, **options)
    coarse = recipes.additive(domain={"x": Numeric(0, 1, bins=31)}, **options)
    assert fine.params.noise == coarse.params.noise
