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
from dpbt.learners.hypothesis_kinds import kind_of
from dpbt.learners.rules import DIGITS
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
    if kind is None:
        raise ValueError(f"the hypotheses of {name_of(model)} have no words")
    known = domain_of(model, domain)
    check_words(model, known)

    if saved:
        once = isinstance(model.target, Numeric) or bool(np.any(model.intercept != 0))
        return _with_start(model, _in_words(kind, model, model.hypotheses, known), once)
    hypotheses = hypotheses_on_host(model)
    learner = model.recipe.learner
    once = learner.prologue is not None or learner.epilogue is not None
    return _with_start(model, _in_words(kind, model, hypotheses, known), once)


def declared_by(model: Model | SavedModel) -> tuple[Target | None, Sequence[Any] | None]:
    """(target, classes): the declared classes or range, and the names of several classes."""
    if isinstance(model, SavedModel):
        return model.target, model.classes
    target = model.recipe.target
    return target, target.names if isinstance(target, Nominal) else None


def _in_words(
    kind: Callable[..., str], model: Model | SavedModel, hypotheses: Any, domain: Domain
) -> str:
    """The hypotheses in words; those of the user's own are explained by their domain alone."""
    target, classes = declared_by(model)
    if target is None or kind is not rules.of_oblivious_trees:
        return kind(hypotheses, domain)
    return rules.of_oblivious_trees(hypotheses, domain, target, classes)


def _with_start(model: Model | SavedModel, lines: str, once: bool) -> str:
    """The lines, after the start of every score where there may be one."""
    return f"every row starts with {_start(model)}\n{lines}" if once else lines


def _start(model: Model | SavedModel) -> str:
    """Where scores start, or a number in its units."""
    target, classes = declared_by(model)
    if isinstance(target, Numeric):
        return f"{target.low + (target.high - target.low) * float(model.intercept):.{DIGITS}g}"
    if classes is None or target is None:
        return f"{float(model.intercept):+.{DIGITS}f}"
    scores = zip(classes, np.asarray(model.intercept), strict=True)
    return ", ".join(f"{word} {float(score):+.{DIGITS}f}" for word, score in scores)


def name_of(model: Model | SavedModel) -> str:
    """The name of the algorithm that made a model."""
    return model.name if isinstance(model, SavedModel) else model.recipe.name


def kind_in_files(model: Model | SavedModel) -> str | None:
    """The name of a model's hypotheses in `reader.KINDS`; None for those of the user's own.

    Raises:
        ValueError: for anything that is no model.
    """
    return model.kind if isinstance(model, SavedModel) else kind_of(hypotheses_of(model))


def hypotheses_on_host(model: Model | SavedModel) -> Any:
    """The hypotheses of a model's rounds as NumPy arrays, without room beyond these rounds."""
    if isinstance(model, SavedModel):
        return model.hypotheses
    rounds = int(model.recipe.rounds)
    return jax.tree.map(lambda array: np.asarray(array)[:rounds], model.hypotheses)


def domain_of(model: Model | SavedModel, domain: Domain | None = None) -> Domain:
    """The domain of the cells that a model reads: what was given, or what a saved model has.

    Raises:
        ValueError: for anything that is no model, and for a model that reads exact numbers. Also if
            there is no domain, or it asks other questions than those of the model.
    """
    saved = isinstance(model, SavedModel)
    if not saved:
        hypotheses_of(model)  # refuses anything but a model
    if model.questions is None:
        raise ValueError("the model reads exact numbers, which a domain's cells do not describe")
    known = model.domain if domain is None and saved else domain
    if known is None:
        raise ValueError(
            "a domain must map column names to Numeric, Nominal or Boolean; none was given, and "
            "only a saved model may have its own"
        )
    declared = questions(known)
    for field in ("feature", "low", "high"):
        if not np.array_equal(getattr(model.questions, field), getattr(declared, field)):
            raise ValueError("the model was trained with other questions than the domain asks")
    return known


def check_words(model: Model | SavedModel, domain: Domain) -> None:
    """Refuse a model whose hypotheses ask what a domain has no words for.

    Raises:
        ValueError: if nominal columns are read as codes, unless trees ask for cells alone.
    """
    asked = model.questions
    assert asked is not None  # as `domain_of` says
    if kind_in_files(model) != "trees" and not same(asked, questions(domain)):
        raise ValueError("nominal columns as codes have no words: make the table without codes")
