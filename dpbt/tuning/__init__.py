"""Tuning that is paid for: the best of a random number of runs, and what it costs."""

from dpbt.tuning.choosing import Tuned, choose, tune
from dpbt.tuning.parts import held_out
from dpbt.tuning.presets import around_auto
from dpbt.tuning.selections import (
    Selection,
    candidates,
    planned_ledger,
    run_epsilon,
    selection,
)

__all__ = [
    "Selection",
    "Tuned",
    "around_auto",
    "candidates",
    "choose",
    "held_out",
    "planned_ledger",
    "run_epsilon",
    "selection",
    "tune",
]
