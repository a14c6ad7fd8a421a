"""Losses, and weight updates: maps from the scores of rows to their next weights."""

import dataclasses
import weakref
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from dpbt.public_types import BINARY, GRID, HoldsFunctions, Response, redacted_repr
from dpbt.types.arrays import Array, Numbers
from dpbt.types.phases import PreparedRows, Public


class WeightsAndCap(NamedTuple):
    """The weights of the rows in one round, and a public cap on them.

    Attributes:
        weight: f32[N], integers 0..GRID; the weight of a row is weight * cap / GRID. For
            several classes or numbers these are residuals instead: f32[K, N] or f32[N], integers in
            -GRID..GRID.
        cap: f32[]: a public upper bound on the weight of every possible row, computed from earlier
            releases alone.
    """

    weight: Array
    cap: Array
    __repr__ = redacted_repr


class ProperLoss(NamedTuple):
    """A symmetric proper loss: its Bayes risk, link and inverse link.

    The Bayes risk L has L(0) = L(1) = 0 and L(1/2) = 1.

    Attributes:
        name: its name in tables.
        bayes_risk: u in [0, 1] -> L(u).
        link: u in (0, 1) -> -L'(u), the canonical link.
        inverse_link: z -> the u in [0, 1] that attains the conjugate of -L at z.
        surrogate: z -> (-L)*(-z), the convex loss of a margin z.
        perspective: (w1, w0) -> (w1 + w0) L(w1 / (w1 + w0)), and 0 at (0, 0).
        smoothness: the supremum of surrogate''; infinite where the surrogate has a kink.
        probability: z -> the number in [0, 1] that `predict_proba` returns, increasing in the score
            z. None for `inverse_link`, if that is increasing.
    """

    name: str
    bayes_risk: Callable[[Numbers], Array]
    link: Callable[[Numbers], Array]
    inverse_link: Callable[[Numbers], Array]
    surrogate: Callable[[Numbers], Array]
    perspective: Callable[[Numbers, Numbers], Array]
    smoothness: Numbers
    probability: Callable[[Numbers], Array] | None = None


LossFamily = Callable[[Numbers], ProperLoss]
"""A family of losses indexed by alpha in [0, 1]; alpha may be traced."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightUpdate(HoldsFunctions):
    """A map from the released scores of the rows to their weights in the next round.

    Attributes:
        identity: names the weight update and every static part of it.
        coupled: whether every weight depends on all rows (`weighting.lazy_bregman`). If not, it
            depends on its own row and on earlier releases alone.
        weigh: (score f32[N], bound f32[], prepared table, public) -> WeightsAndCap. `bound` is a
            public upper bound on |score| for every possible row.
        params_type: the class of its numbers, `Recipe.weight_params`; `tuple` for a weight update
            without numbers.
        response: the kind of answer that the learner predicts. For two classes `weigh` returns
            weights, and for any other response residuals (`WeightsAndCap`).
        reads_scores: whether weights or their cap depend on scores or on their bound. Runs that
            make several rounds in one pass check that False is true.
        loss: the family of losses whose inverse link, at the `link_alpha` of the numbers, maps
            scores to probabilities; None for scores that have no such map.
    """

    identity: str
    coupled: bool
    weigh: Callable[[Array, Array, PreparedRows, Public], WeightsAndCap]
    params_type: type[tuple] = tuple
    response: Response = BINARY
    reads_scores: bool = True
    loss: LossFamily | None = None

    _alternative = "the function that made it"


_library_identities: weakref.WeakKeyDictionary[Callable[..., WeightsAndCap], str] = (
    weakref.WeakKeyDictionary()
)
"""The `weigh` of each weight update of the library -> the identity under which it was made."""


def mark_as_library_weight_update(update: WeightUpdate) -> WeightUpdate:
    """Mark a weight update as one of the library, by its identity, and return it."""
    _library_identities[update.weigh] = update.identity
    return update


def is_library_weight_update(update: WeightUpdate) -> bool:
    """Whether a weight update is marked as one of the library.

    The mark must be under the identity that it has.
    """
    try:
        return _library_identities.get(update.weigh) == update.identity
    except TypeError:  # an author's callable that has no hash or no weak reference
        return False


def _full_weights(score: Array, bound: Array, table: PreparedRows, public: Public) -> WeightsAndCap:
    return WeightsAndCap(jnp.full(table.present.shape, float(GRID), jnp.float32), jnp.float32(1))


uniform = mark_as_library_weight_update(
    WeightUpdate(identity="uniform", coupled=False, weigh=_full_weights, reads_scores=False)
)
"""Weight 1 for every row in every round."""
