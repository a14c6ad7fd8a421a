"""Models in words."""

import numpy as np

from dpbt.data.domains import Domain, questions
from dpbt.data.kinds import Numeric
from dpbt.learners.words import DIGITS
from dpbt.release.about import ask_the_same
from dpbt.release.model import Model, model_of


def explain(model: Model, domain: Domain | None = None) -> str:
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
    about = model_of(model).about
    if about.kind.explain is None:
        raise ValueError(f"the hypotheses of {about.name} have no words")
    known = domain_of(model, domain)
    check_words(model, known)
    assert model.questions is not None  # as `domain_of` says
    named = about.target, about.classes
    words = about.kind.explain(model.on_host(), model.questions, known, *named)
    if isinstance(about.target, Numeric) or np.any(np.asarray(model.intercept) != 0):
        return f"every row starts with {_start(model)}\n{words}"
    return words


def _start(model: Model) -> str:
    """Where scores start, or a number in its units."""
    target, start = model.about.target, np.asarray(model.intercept)
    if isinstance(target, Numeric):
        return f"{target.low + (target.high - target.low) * float(start):.{DIGITS}g}"
    if start.ndim == 0:
        return f"{float(start):+.{DIGITS}f}"
    scores = zip(model.about.classes or range(len(start)), start, strict=True)
    return ", ".join(f"{word} {float(score):+.{DIGITS}f}" for word, score in scores)


def domain_of(model: Model, domain: Domain | None = None) -> Domain:
    """The domain of the cells that a model reads: what was given, or what a saved model has.

    Raises:
        ValueError: for anything that is no model, and for a model that reads exact numbers. Also if
            there is no domain, or it asks other questions than those of the model.
    """
    asked = model_of(model).questions
    if asked is None:
        raise ValueError("the model reads exact numbers, which a domain's cells do not describe")
    known = model.about.domain if domain is None else domain
    if known is None:
        raise ValueError(
            "a domain must map column names to Numeric, Nominal or Boolean; none was given, and "
            "only a saved model may have its own"
        )
    if not ask_the_same(asked, questions(known), 3):
        raise ValueError("the model was trained with other questions than the domain asks")
    return known


def check_words(model: Model, domain: Domain) -> None:
    """Refuse a model whose hypotheses ask what a domain has no words for.

    Raises:
        ValueError: if nominal columns are read as codes, unless trees ask for cells alone.
    """
    assert model.questions is not None  # as `domain_of` says
    positions = model.about.kind.name != "trees"
    if positions and not ask_the_same(model.questions, questions(domain)):
        raise ValueError("nominal columns as codes have no words: make the table without codes")
