"""Marks the slow cases of a parametrized test, where a like case is fast and always runs."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def mark_slow_cases(cases: Iterable[Any], *, slow: Collection[Any]) -> list[Any]:
    """The cases as parameters of a test, of which those in `slow` are marked slow."""
    cases = list(cases)
    assert set(slow) <= set(cases), "a slow case is none of the cases"
    return [pytest.param(case, marks=pytest.mark.slow if case in slow else ()) for case in cases]


def mark_slow_cases_except(cases: Iterable[Any], *, fast: Collection[Any]) -> list[Any]:
    """The cases as parameters of a test, all marked slow except for those in `fast`."""
    cases = list(cases)
    assert set(fast) <= set(cases), "a fast case is none of the cases"
    return mark_slow_cases(cases, slow=[case for case in cases if case not in fast])
