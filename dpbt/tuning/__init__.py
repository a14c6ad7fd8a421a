"""Tuning that is paid for: the best of a random number of runs, and what it costs."""

from dpbt.tuning.choosing import Tuned, held_out, tune
from dpbt.tuning.selections import (
    Selection,
    around_auto,
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
    "held_out",
    "planned_ledger",
    "run_epsilon",
    "selection",
    "tune",
]
