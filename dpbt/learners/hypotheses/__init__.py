"""Kinds of hypotheses: how each predicts, is kept in files, explained and drawn. No JAX is needed.

A new kind is one file, and one row here.
"""

from dpbt.learners.hypotheses.halfspaces import HALFSPACES
from dpbt.learners.hypotheses.oblivious import OBLIVIOUS
from dpbt.learners.hypotheses.tree_groups import TREE_GROUPS
from dpbt.learners.hypotheses.trees import TREES

KINDS = {kind.name: kind for kind in (TREES, OBLIVIOUS, TREE_GROUPS, HALFSPACES)}
"""All kinds, by their names in files."""
