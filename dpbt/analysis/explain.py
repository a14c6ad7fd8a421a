"""Models in words."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from dpbt.base import Model
from dpbt.checks import hypotheses_of
from dpbt.data.domains import Domain, questions
from dpbt.data.kinds import Nominal, Numeric
from dpbt.data.questions import same
from dpbt.data.targets import Target
from dpbt.learners import rules
from dpbt.learners.rules import DIGITS
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
    shown as the weight of each attribute. With several classes there is a line for each class. Of a
    number, values are in its units.

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
        once = isinstance(model.target, Numeric) or bool(np.any(model.intercept != 0))
        return _with_start(model, _in_words(kind, model, model.hypotheses, known), once)
    rounds = int(model.recipe.rounds)
    hypotheses = jax.tree.map(lambda array: np.asarray(array)[:rounds], model.hypotheses)
    learner = model.recipe.learner
    once = learner.prologue is not None or learner.epilogue is not None
    return _with_start(model, _in_words(kind, model, hypotheses, known), once)


def _declared(model: Model | SavedModel) -> tuple[Target | None, Sequence[Any] | None]:
    """(target, classes): the declared classes or range, and the names of several classes."""
    if isinstance(model, SavedModel):
        return model.target, model.classes
    target = model.recipe.target
    return target, target.names if isinstance(target, Nominal) else None


def _in_words(
    kind: Callable[..., str], model: Model | SavedModel, hypotheses: Any, domain: Domain
) -> str:
    """The hypotheses in words; those of the user's own are explained by their domain alone."""
    target, classes = _declared(model)
    if target is None or kind is not rules.of_oblivious_trees:
        return kind(hypotheses, domain)
    return rules.of_oblivious_trees(hypotheses, domain, target, classes)


def _with_start(model: Model | SavedModel, lines: str, once: bool) -> str:
    """The lines, after the start of every score where there may be one."""
    return f"every row starts with {_start(model)}\n{lines}" if once else lines


def _start(model: Model | SavedModel) -> str:
    """Where scores start, or a number in its units."""
    target, classes = _declared(model)
    if isinstance(target, Numeric):
        return f"{target.low + (target.high - target.low) * float(model.intercept):.{DIGITS}g}"
    if classes is None or target is None:
        return f"{float(model.intercept):+.{DIGITS}f}"
    scores = zip(classes, np.asarray(model.intercept), strict=True)
    return ", ".join(f"{word} {float(score):+.{DIGITS}f}" for word, score in scores)
