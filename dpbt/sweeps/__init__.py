"""Sweeps: grids of settings over tables, as data, and their runs.

`plan` says what is asked for and plans it into few programs, and `runner` runs it. `load_columns`
reads the files that a run leaves.
"""

from dpbt.sweeps.plan import Sweep, Task
from dpbt.sweeps.runner import Report, run
from dpbt.sweeps.storage import load_columns

__all__ = ["Report", "Sweep", "Task", "load_columns", "run"]
