"""What is known of a model beside its arrays: what is public, what it reads, what its file says."""

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpbt.common.arithmetic import Array, namespace
from dpbt.data.domains import Domain
from dpbt.data.kinds import Nominal, Numeric
from dpbt.data.targets import Target
from dpbt.learners.hypotheses import Kind, Of, Rows
from dpbt.release.scoring import PROBABILITIES

if TYPE_CHECKING:
    from dpbt.common.types import HypothesisClass, Recipe


class About(NamedTuple):
    """What is public about a model, besides its arrays; and what its file says, if it has one.

    Attributes:
        name: of the algorithm.
        kind: of its hypotheses.
        target: the declared classes or range; None for two classes.
        classes: the negative and the positive class, or all of several classes in the order of
            scores; None if they were not named.
        probability: what gives probabilities: the name of a loss of `scoring.PROBABILITIES`, or a
            function of scores of two classes; "softmax" of several; "shares" where trees state
            them; None if nothing does.
        reason: why nothing does.
        domain: the public columns; None if the model was not saved with them.
        codes: whether nominal columns are read as codes (`domains.positions`).
        ledger: the ledger as printed when the model was kept.
        privacy: the ledger itself.
        statement: what `dpbt.statement` said when the model was kept.
        versions: of what kept it.
    """

    name: str
    kind: Kind
    target: Target | None
    classes: tuple[Any, ...] | None
    probability: Callable[[Array], Array] | str | None
    reason: str | None
    domain: Domain | None = None
    codes: bool = False
    ledger: str = ""
    privacy: Any = None
    statement: str = ""
    versions: Mapping[str, str] = {}

    __hash__ = object.__hash__


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
    from dpbt.common.types import Table

    def read(rows: Rows) -> Any:
        absent = namespace(rows.bins).zeros(rows.bins.shape[:1], bool)
        return hypotheses.prepare(Table(rows.bins, absent, absent, rows.splits))

    return Kind("", hypotheses.predict, read)


def _probability(recipe: "Recipe", kind: Kind) -> tuple[Any, str | None]:
    """(what gives probabilities, why nothing does); one of them is None."""
    if isinstance(recipe.target, Nominal):
        return "softmax", None
    if isinstance(recipe.target, Numeric):
        return None, "the model predicts a number, and no probabilities of classes"
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
    own = loss.probability or loss.inverse_link
    return next((name for name, known in PROBABILITIES.items() if known == own), own), None


def no_link(name: str) -> str:
    """Why a recipe without a loss gives no probabilities."""
    return f"{name} is a vote without a link, so a score defines no probability"


def kinks(name: str) -> str:
    """Why a loss whose surrogate has kinks gives no probabilities."""
    return f"the surrogate of {name} has kinks, so a score defines no probability"
