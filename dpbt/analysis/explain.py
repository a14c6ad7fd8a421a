"""Models in words."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from dpbt.base import Model
from dpbt.checks import hypotheses_of
from dpbt.data.domains import Domain, questions
from dpbt.data.questions import same
from dpbt.learners import rules
from dpbt.learners.trees import TREES
from dpbt.reader import SavedModel

_OF_KIND: dict[str, Callable[[Any, Domain], str]] = {
    "trees": rules.of_trees,
    "oblivious trees": rules.of_oblivious_trees,
    "groves": rules.of_groves,
    "halfspaces": rules.of_halfspaces,
}
"""What explains the hypotheses of a saved model, by `reader.KINDS`."""


def explain(model: Model | SavedModel, domain: Domain | None = None) -> str:
    """The model in words; post-processing of what was released.

    Trees are shown as rules, with the branches that a row can reach. Branches that say the same are
    shown as one leaf. Trees that say the same of every row are counted in one line. Halfspaces are
    shown as the weight of each attribute.

    Args:
        model: from `fit`, trained on cells; or from `dpbt.load`.
        domain: the domain that encoded the table it was fitted on. A saved model may have its own.

    Raises:
        ValueError: if the arguments are something else, or the domain is not that of the model.
    """
    saved = isinstance(model, SavedModel)
    kind = _OF_KIND[model.kind] if saved else hypotheses_of(model).explain
    name = model.name if saved else model.recipe.name
    if kind is None:
        raise ValueError(f"the hypotheses of {name} have no words")
    if model.questions is None:
        raise ValueError("the model reads exact numbers, which a domain's cells do not describe")
    known: Any = model.domain if domain is None and saved else domain
    asked, declared = model.questions, questions(known)
    for field in ("feature", "low", "high"):
        if not np.array_equal(getattr(asked, field), getattr(declared, field)):
            raise ValueError("the model was trained with other questions than the domain asks")
    trees = model.kind == "trees" if saved else hypotheses_of(model) is TREES
    if not trees and not same(asked, declared):
        raise ValueError("nominal columns as codes have no words: make the table without codes")

    if saved:
        return _with_start(model, kind(model.hypotheses, known), once=bool(model.intercept != 0))
    rounds = int(model.recipe.rounds)
    hypotheses = jax.tree.map(lambda array: np.asarray(array)[:rounds], model.hypotheses)
    learner = model.recipe.learner
    once = learner.prologue is not None or learner.epilogue is not None
    return _with_start(model, kind(hypotheses, known), once)


def _with_start(model: Model | SavedModel, lines: str, once: bool) -> str:
    """The lines, after the start of every score where there may be one."""
    return f"every row starts with {float(model.intercept):+.4f}\n{lines}" if once else lines
