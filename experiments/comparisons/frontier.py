"""Compare `auto`, which nobody tunes, with other private classifiers.

Every method has one setting for all data. A quarter of the rows, stratified, is the test set of a
split; Adult has its own. Each split has keys and public splits of its own. Recipes get `--bound`
times the training rows as public bound. Numbers have 64 intervals.

Results are in `frontier.csv`. A cell that is there with the same setting, splits and rows is not
measured again, so a run that is killed goes on where it was. Peers that are not installed are named
and skipped. `--doc` measures nothing.
"""

from experiments.comparisons.run import command_of_task
from experiments.comparisons.task import FRONTIER

add_arguments, run_command = command_of_task(FRONTIER)
