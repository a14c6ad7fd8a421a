"""Models in words."""

import jax
import numpy as np

from dpbt.base import Model
from dpbt.checks import hypotheses_of
from dpbt.data.domains import Domain, questions
from dpbt.data.questions import same
from dpbt.learners.trees import TREES


def explain(model: Model, domain: Domain) -> str:
    """The model in words; post-processing of what was released.

    Trees are shown as rules, with the branches that a row can reach. Branches that say the same are
    shown as one leaf. Trees that say the same of every row are counted in one line. Halfspaces are
    shown as the weight of each attribute.

    Args:
        model: from `fit`, trained on cells.
        domain: the domain that encoded the table it was fitted on.

    Raises:
        ValueError: if the arguments are something else, or the domain is not that of the model.
    """
    kind = hypotheses_of(model)
    if kind.explain is None:
        raise ValueError(f"the hypotheses of {model.recipe.name} have no words")
    if model.questions is None:
        raise ValueError("the model reads exact numbers, which a domain's cells do not describe")

    asked, declared = model.questions, questions(domain)
    for name in ("feature", "low", "high"):
        if not np.array_equal(getattr(asked, name), getattr(declared, name)):
            raise ValueError("the model was trained with other questions than the domain asks")
    if kind is not TREES and not same(asked, declared):
        raise ValueError("nominal columns as codes have no words: make the table without codes")

    rounds = int(model.recipe.rounds)
    hypotheses = jax.tree.map(lambda array: np.asarray(array)[:rounds], model.hypotheses)
    lines = kind.explain(hypotheses, domain)
    learner = model.recipe.learner
    if learner.prologue is None and learner.epilogue is None:
        return lines
    return f"every row starts with {float(model.intercept):+.4f}\n{lines}"
