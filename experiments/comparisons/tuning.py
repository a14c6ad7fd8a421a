"""Compare `auto` with `dpbt.tune` among candidates around it.

Both have the same total epsilon and delta. `tuned` pays for its choice: its fits have less, and it
learns from three quarters of the rows. `hindsight` is the candidate that is best on the test rows,
and pays nothing: it says how much there is to gain, and is no private method.

Results are in `tuning.csv`. A cell that is there with the same setting, splits and rows is not
measured again. `--doc` measures nothing.
"""

from experiments.comparisons.run import command_of_task
from experiments.comparisons.task import TUNING

add_arguments, run_command = command_of_task(TUNING)
