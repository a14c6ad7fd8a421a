"""The types of the library: bundles of arrays and tuples of pure functions.

Docstrings use these letters for axes, and say so where a letter stands for something else:

- N rows of a table (its public capacity)
- F features: columns of a table
- S public splits; A public attributes
- C bins of an attribute
- K classes of a label, where there are more than two
- D depth of a tree; L = 2^D leaves
- T rounds of boosting (trees)
- G settings of a sweep

An axis of rounds is as long as the recipe's `max_rounds`. That is T, unless settings of different T
share a program.
"""

from dpbt.hypothesis_kind import HypothesisKind as HypothesisKind
from dpbt.hypothesis_kind import Training as Training
from dpbt.public_types import ADD_REMOVE as ADD_REMOVE
from dpbt.public_types import BINARY as BINARY
from dpbt.public_types import GRID as GRID
from dpbt.public_types import MAX_BINS as MAX_BINS
from dpbt.public_types import MAX_ROWS as MAX_ROWS
from dpbt.public_types import MAX_ROWS_IN_BLOCKS as MAX_ROWS_IN_BLOCKS
from dpbt.public_types import NUMBER as NUMBER
from dpbt.public_types import REPLACE_ONE as REPLACE_ONE
from dpbt.public_types import UNSPLIT as UNSPLIT
from dpbt.public_types import DeclaredDomain as DeclaredDomain
from dpbt.public_types import Relation as Relation
from dpbt.public_types import Response as Response
from dpbt.public_types import Site as Site
from dpbt.public_types import Splits as Splits
from dpbt.public_types import Tree as Tree
from dpbt.public_types import as_relation as as_relation
from dpbt.types.arrays import AnyArray as AnyArray
from dpbt.types.arrays import Array as Array
from dpbt.types.arrays import Numbers as Numbers
from dpbt.types.arrays import Release as Release
from dpbt.types.arrays import compilation_signature as compilation_signature
from dpbt.types.arrays import describe_dtype_and_rank as describe_dtype_and_rank
from dpbt.types.learner import Assumptions as Assumptions
from dpbt.types.learner import Partition as Partition
from dpbt.types.learner import WeakLearner as WeakLearner
from dpbt.types.learner import WorkBytes as WorkBytes
from dpbt.types.phases import Epilogue as Epilogue
from dpbt.types.phases import Hypotheses as Hypotheses
from dpbt.types.phases import Hypothesis as Hypothesis
from dpbt.types.phases import LearnerParams as LearnerParams
from dpbt.types.phases import LearnerRows as LearnerRows
from dpbt.types.phases import Noise as Noise
from dpbt.types.phases import Params as Params
from dpbt.types.phases import Phase as Phase
from dpbt.types.phases import PreparedRows as PreparedRows
from dpbt.types.phases import Program as Program
from dpbt.types.phases import Prologue as Prologue
from dpbt.types.phases import Public as Public
from dpbt.types.phases import Round as Round
from dpbt.types.phases import ScoreLine as ScoreLine
from dpbt.types.phases import StageInputs as StageInputs
from dpbt.types.phases import Structure as Structure
from dpbt.types.phases import View as View
from dpbt.types.phases import WeightParams as WeightParams
from dpbt.types.recipe import MultiProgramRecipe as MultiProgramRecipe
from dpbt.types.recipe import Recipe as Recipe
from dpbt.types.recipe import Target as Target
from dpbt.types.table import RowsPerUser as RowsPerUser
from dpbt.types.table import Table as Table
from dpbt.types.table import TableForm as TableForm
from dpbt.types.transcript import Transcript as Transcript
from dpbt.types.weight_update import LossFamily as LossFamily
from dpbt.types.weight_update import ProperLoss as ProperLoss
from dpbt.types.weight_update import WeightsAndCap as WeightsAndCap
from dpbt.types.weight_update import WeightUpdate as WeightUpdate
from dpbt.types.weight_update import uniform as uniform
