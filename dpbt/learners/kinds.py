"""All kinds of hypotheses that files hold, by their names.

A new kind is one `HypothesisKind` in the `model` of its family, and one row of `KINDS`. How a
learner trains with it is added in the `learner` of the family. Nothing here imports JAX, so a
loaded model predicts without it.
"""

import dataclasses

from dpbt.hypothesis_kind import HypothesisKind
from dpbt.learners.additive.model import SHAPES
from dpbt.learners.forests.model import TREE_GROUPS
from dpbt.learners.halfspaces.model import HALFSPACES
from dpbt.learners.oblivious.model import OBLIVIOUS
from dpbt.learners.trees.model import TREES

KINDS = {kind.name: kind for kind in (TREES, OBLIVIOUS, SHAPES, TREE_GROUPS, HALFSPACES)}
"""All kinds, by their names in files."""


def files_can_hold_kind(kind: HypothesisKind) -> bool:
    """Whether model files can hold hypotheses of a kind.

    They can if the kind is in `KINDS`, whatever it trains with.
    """
    return KINDS.get(kind.name) == dataclasses.replace(kind, training=None)
