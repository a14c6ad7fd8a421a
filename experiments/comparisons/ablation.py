"""Parts of `auto` that are changed one at a time."""

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from dpbt import recipes
from dpbt.privacy import conversions
from dpbt.recipes import oblivious

Numbers = dict[str, Any]
"""Options of `recipes.oblivious_boost` beside epsilon, delta, rows, domain and seed."""

Change = Mapping[str, Any] | Callable[[Numbers, float, float], Numbers | None]
"""Numbers that replace those of the rule, or (numbers, epsilon, delta) -> such numbers.

They may hold another epsilon. None means that the change has no meaning there.
"""

_GIVEN = ("epsilon", "delta", "rows", "domain", "seed", "relation")


def numbers(rows: float, attributes: int, epsilon: float, delta: float) -> Numbers:
    """All numbers of `auto`: those of its rule, and the defaults of `oblivious_boost`."""
    signature = inspect.signature(recipes.oblivious_boost).parameters
    defaults = {name: each.default for name, each in signature.items() if name not in _GIVEN}
    chosen = oblivious.rule(epsilon=epsilon, rows=rows, attributes=attributes, delta=delta)
    return {**defaults, **chosen._asdict()}


def changed(numbers: Numbers, change: Change, epsilon: float, delta: float) -> Numbers:
    """The numbers after a change; equal ones where it has no meaning."""
    new = change(numbers, epsilon, delta) if callable(change) else change
    return {**numbers, **(new or {})}


def counting(numbers: Numbers) -> Numbers:
    """The numbers that count: curvature does with histograms only."""
    used = numbers["curvature"] if numbers["marginals_fraction"] else 0.0
    return {**numbers, "curvature": used}


def _histograms(numbers: Numbers, epsilon: float, delta: float) -> Numbers:
    del epsilon, delta
    return {"marginals_fraction": numbers["marginals_fraction"] or 0.1}


def _rounds(factor: float) -> Change:
    def change(numbers: Numbers, epsilon: float, delta: float) -> Numbers:
        del epsilon, delta
        rounds = max(1, round(factor * numbers["rounds"]))
        return {"rounds": rounds, **_steps(numbers, math.sqrt(numbers["rounds"] / rounds))}

    return change


def _step(factor: float) -> Change:
    return lambda numbers, epsilon, delta: _steps(numbers, factor)


def _steps(numbers: Numbers, factor: float) -> Numbers:
    """Another step, and a limit that follows it."""
    return {"step": factor * numbers["step"], "limit": factor * numbers["limit"]}


def _zcdp(numbers: Numbers, epsilon: float, delta: float) -> Numbers | None:
    """The epsilon whose noise by GDP is that of the given one by zCDP."""
    del numbers
    if delta == 0:
        return None
    mu = math.sqrt(2 * float(conversions.zcdp_rho(epsilon, delta)))
    return {"epsilon": conversions.gdp_epsilon(mu, delta)}


CHANGES: dict[str, Change] = {
    "clip-1": {"clip": 1.0},
    "no-smoothing": {"smoothing": 0.0},
    "no-histograms": {"marginals_fraction": 0.0},
    "histograms": _histograms,
    "no-curvature": {"curvature": 0.0},
    "no-scores": {"scores_fraction": 0.0},
    "one-attribute": {"attributes_per_tree": (1,)},
    "depth-4": {"depth": 4},
    "depth-8": {"depth": 8},
    "half-rounds": _rounds(0.5),
    "twice-rounds": _rounds(2.0),
    "half-step": _step(0.5),
    "twice-step": _step(2.0),
    "zcdp": _zcdp,
}
"""Name -> change."""
