"""1-rules: a signed literal or a constant, selected by weighted error.

Asadi et al. (2022), section 4.1, Algorithm 3. A 1-rule is a tree of depth one with leaves +-1. A
constant is such a tree whose node is not split.
"""

import functools
from typing import NamedTuple

import jax.numpy as jnp

from dpbt.base import (
    GRID,
    Array,
    Noise,
    Public,
    Relation,
    Release,
    Tree,
    WeakLearner,
    relation_name,
)
from dpbt.learners import trees
from dpbt.privacy import accounting, boundary, mechanisms, sensitivity, variates
from dpbt.privacy.mechanism import Mechanism
from dpbt.privacy.mechanisms import Scores

PUBLISHED_RANGE = 4
"""The 4 in 4 eta zeta of Asadi et al. (2022), Theorem 8.2; `sensitivity.RULE_RANGE` is 2."""


class Kind(NamedTuple):
    """The static parts of a 1-rule.

    Attributes:
        relation: the neighbouring relation of the ledger.
        calibration: "tight" or "published".
        mechanism: `mechanisms.exponential` or `mechanisms.noisy_max`.
    """

    relation: Relation
    calibration: str
    mechanism: Mechanism

    @property
    def tight(self) -> bool:
        """Whether the ledger claims what is proved, and not what is published."""
        return self.calibration == "tight"


def _sensitivity(kind: Kind) -> int:
    """The range of the change of the errors of all rules, in grid units."""
    return GRID * (sensitivity.RULE_RANGE if kind.tight else PUBLISHED_RANGE)


def error_weights(table: trees.Prepared, weights: Array) -> Array:
    """i32[2 S + 2]: the weight that each 1-rule gets wrong, in grid units; exact.

    The order is: constant +, constant -, then for each split the literal and its negation. So for
    every S, 1-rule k has split k // 2 - 1 (`UNSPLIT` for constants), and sign + for even k.
    """
    # The class weights of all rows, and of those on the right side of each split.
    by_class = trees.weights_by_class(table, weights)
    root = jnp.zeros(table.target.shape[0], jnp.int32)
    right = trees.node_products(table, by_class, root, 1, None)[0]
    negative, positive = trees.node_totals(by_class)[0]

    # A literal errs on the positive rows without it and on the negative rows with it.
    agreement = right[1] - right[0]
    literals = jnp.stack([positive - agreement, negative + agreement], axis=1)
    return jnp.concatenate([jnp.stack([negative, positive]), literals.reshape(-1)])


def rule(choice: Array) -> Tree:
    """The tree of 1-rule `choice` of `error_weights`."""
    split, sign = choice // 2 - 1, (1 - 2 * (choice % 2)).astype(jnp.float32)
    leaf = jnp.where(split < 0, jnp.ones(2), jnp.array([-1.0, 1.0])).astype(jnp.float32)
    return Tree(split[None], sign * leaf)


def program(
    kind: Kind,
    draw: boundary.Draw,
    table: trees.Prepared,
    weights: Array,
    params: Noise,
    public: Public,
) -> None:
    """One selection among all rules, by their errors.

    Raises:
        ValueError: for noisy max on a table that allows some of its splits only.
    """
    del params, public

    # Rules of splits that may not be chosen are masked.
    allowed = None
    if table.allowed is not None:
        if kind.mechanism is not mechanisms.exponential:
            raise ValueError(
                "noisy max cannot mask candidates; use the exponential mechanism where "
                "questions.allowed is given"
            )
        allowed = jnp.concatenate([jnp.ones(2, bool), jnp.repeat(table.allowed, 2)])

    scores = boundary.Total(error_weights(table, weights), _minus_errors, (allowed,))
    draw(
        "rule",
        kind.mechanism,
        scores,
        sensitivity=_sensitivity(kind),
        moves=1,
        theorem="docs/privacy.md 8" if kind.tight else "Asadi et al. (2022), Thm 8.2",
        releases="a split, its negation or a constant",
        unit=accounting.ROW_STEP,
    )


def _minus_errors(errors: Array, allowed: Array | None) -> Scores:
    """The scores of the rules: minus their errors, exact."""
    with variates.double_precision():
        return mechanisms.behind_best(-errors, allowed)


def hypothesis(kind: Kind, release: Release, params: Noise, public: Public) -> Tree:
    """The rule as a tree of depth one."""
    del kind, params, public
    return rule(release["rule"])


@functools.cache
def one_rule(
    relation: Relation, calibration: str = "tight", mechanism: Mechanism = mechanisms.exponential
) -> WeakLearner:
    """DP-1R: a release of one index into the signed literals and the two constants.

    Guarantee, under `relation`, with `weighting.lazy_bregman` or with weights that depend on
    their own row alone. Errors move by at most GRID grid units. So the exponential mechanism and
    return-noisy-max with Laplace noise are both (2 GRID / scale)-DP, and the former is
    (2 GRID / scale)^2 / 8-zCDP. Proofs are in `sensitivity`. In the papers' terms the scale is
    GRID kappa n / eta, so this is 2 eta / (kappa n). The published calibration's ledger has the
    paper's 4 eta / (kappa n), which is true and twice what is needed.

    Errors are exact integers.

    Args:
        relation: the neighbouring relation of the ledger.
        calibration: "tight" or "published", what the ledger claims for a scale.
        mechanism: `mechanisms.exponential` (weighted exponential mechanism, Definition 2.12) or
            `mechanisms.noisy_max` (weighted return-noisy-max, Theorem 2.14).
    """
    kind = Kind(relation, calibration, mechanism)
    return boundary.weak_learner(
        functools.partial(program, kind),
        functools.partial(hypothesis, kind),
        {"rule": 1.0},
        trees.TREES,
        relation,
        coupled=True,
        work=functools.partial(trees.work, nodes=1),
        tag=f"one_rule({relation_name(relation)}, {calibration}, {mechanism.name})",
    )
