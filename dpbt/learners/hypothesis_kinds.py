"""The names of the classes of hypotheses that dpbt has, as files and pictures know them."""

from typing import Any

from dpbt.base import HypothesisClass
from dpbt.learners import oblivious_hypotheses
from dpbt.learners.halfspace import HALFSPACES
from dpbt.learners.random_tree import GROVES
from dpbt.learners.trees import TREES

_KINDS: dict[tuple[Any, Any], str] = {
    (TREES.prepare, TREES.predict): "trees",
    (oblivious_hypotheses.prepare, oblivious_hypotheses.predict): "oblivious trees",
    (GROVES.prepare, GROVES.predict): "groves",
    (HALFSPACES.prepare, HALFSPACES.predict): "halfspaces",
}
"""The classes that `reader.KINDS` has, by the functions that predict."""


def kind_of(hypotheses: HypothesisClass) -> str | None:
    """The name of a class of hypotheses in `reader.KINDS`; None for one of the user's own."""
    predict = getattr(hypotheses.predict, "func", hypotheses.predict)  # without a domain's own part
    return _KINDS.get((hypotheses.prepare, predict))
