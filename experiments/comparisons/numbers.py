"""Compare `auto` with others on numbers about people: R^2, bias and deviance.

Every method has one setting for all data. A quarter of the rows is the test set of a split. Counts
are learned by the Poisson deviance. Recipes get `--bound` times the training rows as public bound.

Results are in `numbers.csv`. A cell that is there with the same setting, splits and rows is not
measured again, so a run that is killed goes on where it was. `--doc` measures nothing.
"""

from experiments.comparisons.run import command_of_task
from experiments.comparisons.task import NUMBERS

add_arguments, run_command = command_of_task(NUMBERS)
