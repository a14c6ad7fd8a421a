"""Estimates with standard errors."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Estimate(NamedTuple):
    """An estimate.

    Attributes:
        value: the number.
        error: its standard error; None where there is none.
    """

    value: float
    error: float | None = None

    @property
    def standard_error(self) -> float:
        """The standard error of an estimate that has one."""
        assert self.error is not None
        return self.error


def mean_with_error(values: Sequence[float] | np.ndarray) -> Estimate:
    """The mean and its standard error, which is NaN for one value."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return Estimate(float(np.mean(values)), float(error))
