"""What is known of a model beside its scores: what is public, what it reads, what its file says."""

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpbt.arithmetic import Array, namespace
from dpbt.data.domains import Domain
from dpbt.data.kinds import Nominal, Numeric
from dpbt.data.targets import Target
from dpbt.formats import LedgerRecord
from dpbt.learners.hypotheses import Hypotheses, Kind, Of, Rows
from dpbt.public import Questions
from dpbt.release.answers import NO_CLASSES, PROBABILITIES, kinks, no_link

if TYPE_CHECKING:
    from dpbt.base import HypothesisClass, Recipe


class About(NamedTuple):
    """What is public about a model, besides its arrays.

    Attributes:
        name: of the algorithm.
        kind: of its hypotheses.
        target: the declared classes or range; None for two classes.
        classes: the negative and the positive class, or all of several classes in the order of
            scores; None if they were not named.
        probability: what gives probabilities: a function of scores of two classes; "softmax" of
            several; "shares" where trees state them; None if nothing does.
        reason: why nothing does.
        domain: the public columns; None if the model was not saved with them.
        codes: whether nominal columns are read as codes (`domains.positions`).
    """

    name: str
    kind: Kind
    target: Target | None
    classes: tuple[Any, ...] | None
    probability: Callable[[Array], Array] | str | None
    reason: str | None = None
    domain: Domain | None = None
    codes: bool = False


class Kept(NamedTuple):
    """What a file says of the model beside its arrays.

    Attributes:
        about: the model.
        ledger: the ledger as printed when the model was saved.
        privacy: the ledger's numbers.
        statement: what `dpbt.statement` said when the model was saved.
        versions: of what wrote the file.
    """

    about: About
    ledger: str
    privacy: LedgerRecord
    statement: str
    versions: Mapping[str, str]

    __hash__ = object.__hash__


class Arrays(NamedTuple):
    """The arrays of a model, and what they read; the fields are those of `Model`."""

    hypotheses: Hypotheses
    intercept: Array
    questions: Questions | None
    features: int
    dtype: str


def about(recipe: "Recipe") -> About:
    """What is public about the models of a recipe."""
    hypotheses, target = recipe.learner.hypotheses, recipe.target
    own = hypotheses.predict
    kind = own.kind if isinstance(own, Of) else _own_kind(hypotheses)
    classes = target.names if isinstance(target, Nominal) else None
    return About(recipe.name, kind, target, classes, *_probability(recipe, kind))


@functools.cache
def _own_kind(hypotheses: "HypothesisClass") -> Kind:
    """The kind of hypotheses of the user's own, which no file and no words know."""
    from dpbt.base import Table

    def read(rows: Rows) -> Any:
        absent = namespace(rows.cells).zeros(rows.cells.shape[:1], bool)
        return hypotheses.prepare(Table(rows.cells, absent, absent, rows.questions))

    return Kind("", hypotheses.predict, read)


def _probability(recipe: "Recipe", kind: Kind) -> tuple[Any, str | None]:
    """(what gives probabilities, why nothing does); one of them is None."""
    if isinstance(recipe.target, Nominal):
        return "softmax", None
    if isinstance(recipe.target, Numeric):
        return None, NO_CLASSES
    if kind.shares is not None:
        return "shares", None
    if recipe.loss is None:
        return None, no_link(recipe.name)
    alpha = recipe.weighting.link_alpha
    loss = recipe.loss(alpha if hasattr(alpha, "dtype") else np.float32(alpha))
    try:
        smooth = bool(np.isfinite(loss.smoothness))
    except TypeError:  # traced
        smooth = True
    if not smooth:
        return None, kinks(loss.name)
    return loss.probability or loss.inverse_link, None


def name_of_probability(about: About) -> str | None:
    """The name of what gives probabilities.

    Raises:
        ValueError: for a loss of the user's own.
    """
    if not callable(about.probability):
        return about.probability
    names = {function: name for name, function in PROBABILITIES.items()}
    if about.probability not in names:
        raise ValueError(
            f"the loss of {about.name} is your own, and a file holds no functions, so the saved "
            "model could give no probabilities; give its recipe loss=None to save scores alone"
        )
    return names[about.probability]


def ask_the_same(first: Questions, second: Questions, fields: int = 5) -> bool:
    """Whether the first fields of questions are equal; which splits are allowed is not compared."""
    pairs: Any = zip(first[:fields], second[:fields], strict=True)
    return all(np.array_equal(*pair) for pair in pairs)
