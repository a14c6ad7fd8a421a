"""Sweeps: grids of settings over tables, as data, and their runs in few programs.

A sweep names its axes. Some axes change the program (a depth, or "objective" instead of a number);
others only its input (an epsilon, a fraction, a number of rounds). The plan finds out which by
building the recipe of each setting and comparing static parts. Tables of one shape share programs.
The key of a fit depends only on the seed, the setting, the task and the evaluation, whatever the
order of axes and batches.

- `grid` has the definition of a sweep and its tasks, `groups` the settings that share a program.
- `batches` compiles a group's program and runs it, a batch of fits at a time. It has the key of
  each fit, and repeats one.
- `measures` has what is measured of a fit, for each target.
- `results` has the files of results, and `runner` runs a sweep from its plan to its files.

Batches change no bit: a fit alone (`repeat_fit`) has the scores that it has in any batch.

The folder of results holds exact figures of the rows: errors, and lengths of tables. Where the rows
are private, protect the folder as you protect them. Nothing in it distinguishes a table from
another one of the same lengths, so keep one folder for one table.
"""

from dpbt.sweeps.batches import key as key
from dpbt.sweeps.batches import repeat_fit as repeat_fit
from dpbt.sweeps.grid import Block as Block
from dpbt.sweeps.grid import Sweep as Sweep
from dpbt.sweeps.grid import Task as Task
from dpbt.sweeps.grid import list_tasks as list_tasks
from dpbt.sweeps.grid import setting_id as setting_id
from dpbt.sweeps.groups import estimate_lane_bytes as estimate_lane_bytes
from dpbt.sweeps.groups import group_settings as group_settings
from dpbt.sweeps.groups import shape_of_table as shape_of_table
from dpbt.sweeps.measures import FinishedFit as FinishedFit
from dpbt.sweeps.measures import error_rates as error_rates
from dpbt.sweeps.measures import measure_predictions as measure_predictions
from dpbt.sweeps.results import load_columns as load_columns
from dpbt.sweeps.results import load_frame as load_frame
from dpbt.sweeps.results import provenance as provenance
from dpbt.sweeps.runner import MEMORY_MB as MEMORY_MB
from dpbt.sweeps.runner import MIN_LANES as MIN_LANES
from dpbt.sweeps.runner import THREADS as THREADS
from dpbt.sweeps.runner import Report as Report
from dpbt.sweeps.runner import run as run

__all__ = [
    "FinishedFit",
    "Report",
    "Sweep",
    "Task",
    "error_rates",
    "key",
    "load_columns",
    "load_frame",
    "measure_predictions",
    "repeat_fit",
    "run",
]
