"""Strict promotion, a persistent compilation cache, and tables to test on."""

import os
from pathlib import Path

import jax
import pytest
from hypothesis import settings

import dpbt
from experiments import data
from experiments.__main__ import use_compilation_cache
from tests.tables import random_table

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
use_compilation_cache(least_seconds=0.2)

settings.register_profile("dpbt", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("dpbt")


@pytest.fixture(scope="session")
def small_table() -> dpbt.Table:
    return random_table(0, rows=80, splits=7, absent=3)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets, or a skip that says so."""
    folder = os.environ.get("DPBT_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("DPBT_DATA names no folder of data sets; the test on real data is skipped")
    return Path(folder)


@pytest.fixture(scope="session")
def banknote(data_folder) -> dpbt.Table:
    """The banknote data under declared bounds, ten bins a column: 1,372 rows and 36 splits."""
    return data.load("banknote", folder=data_folder).table
