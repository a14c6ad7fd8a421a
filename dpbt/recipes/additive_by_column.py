"""The additive recipe of which every round releases one column, as a tree that asks it alone.

`additive` chooses between it and `additive_by_vector`.
"""

import numpy as np

from dpbt import types
from dpbt.learners.additive.learner import additive_by_column
from dpbt.recipes.auto_rule import MAX_MOVE, max_move_of_leaf
from dpbt.recipes.bins import BinsTask, OneTimeDraws
from dpbt.recipes.building import PrivacyRequest
from dpbt.recipes.trees_over_bins import (
    TreeLearnerFactory,
    TreeNumbers,
    TreeStructure,
    oblivious_recipe,
)

_DEPTH_OF_COLUMN_TREES = 4
"""How many splits the trees of one column have, which cut it into 16 groups."""

_TREES_OF_ONE_COLUMN = TreeLearnerFactory(
    algorithm="additive",
    options_text="one column a round",
    make_learner=additive_by_column,
)


def additive_recipe_by_column(
    request: PrivacyRequest,
    task: BinsTask,
    *,
    one_time_draws: OneTimeDraws,
    total_step: np.ndarray,
    is_constant: bool,
) -> types.Recipe:
    """Build the additive recipe of which every round releases one column.

    It trains trees of one attribute each.

    Args:
        request: the checked arguments, with the number of rounds.
        task: what is predicted, and from which columns.
        one_time_draws: what is drawn once.
        total_step: the standard deviation of the noise that all rounds together add to the score of
            a row, in nats.
        is_constant: whether the model is a constant: its rounds then move no score, and
            `total_step` counts for nothing.

    Raises:
        ValueError: as `oblivious_recipe`.
    """
    if is_constant:
        numbers = TreeNumbers(step=0.0, limit=MAX_MOVE)
    else:
        step_of_round = total_step / np.sqrt(request.rounds)
        numbers = TreeNumbers(step=step_of_round, limit=max_move_of_leaf(step_of_round))
    return oblivious_recipe(
        request,
        task,
        one_time_draws=one_time_draws,
        structure=TreeStructure(depth=_DEPTH_OF_COLUMN_TREES, attributes_per_tree=(1,)),
        numbers=numbers,
        learner_factory=_TREES_OF_ONE_COLUMN,
        is_constant=is_constant,
    )
