"""Sweeps: grids of settings over tables, as data (`plan`), and their runs (`runner`)."""

from dpbt.sweeps.plan import Sweep, Task
from dpbt.sweeps.runner import Report, run

__all__ = ["Report", "Sweep", "Task", "run"]
