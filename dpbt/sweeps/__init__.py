"""Sweeps: grids of settings over tables, as data, and their runs.

`definition` says what is asked for, `plan` plans it into few programs, and `runner` runs it.
"""

from dpbt.sweeps.definition import Sweep, Task
from dpbt.sweeps.runner import Report, run

__all__ = ["Report", "Sweep", "Task", "run"]
