"""The 1-rules of LazyBB: Asadi et al. (2022), Algorithm 3.

A 1-rule is a signed literal or a constant, selected by its weighted error: a tree of depth one with
leaves +-1, whose node is not split for a constant.
"""

import dataclasses
import functools
from typing import Any

import jax.numpy as jnp
from jaxtyping import Int32

from dpbt import types
from dpbt.learners.trees.class_weights import (
    root_class_weights,
    split_weights_of_masked_rows,
    weights_by_class,
)
from dpbt.learners.trees.rows import TREES, TreeRows, work_bytes_of_level_sums
from dpbt.privacy import accounting, boundary, mechanisms, sensitivity, variates
from dpbt.privacy.boundary import Draw
from dpbt.privacy.mechanisms import Scores
from dpbt.types import GRID, Array, Tree

PUBLISHED_RULE_RANGE = 4
"""The 4 in 4 eta zeta of Asadi et al. (2022), Theorem 8.2; `sensitivity.RULE_ERRORS_RANGE` is 2."""


def error_weights_of_rules(table: TreeRows, weights: Array) -> Int32[Array, "_"]:
    """i32[2 S + 2]: the exact weight of the rows that each 1-rule misclassifies, in grid units.

    The order is: constant +, constant -, then for each split the literal and its negation. So for
    every S, 1-rule k has split k // 2 - 1 (`UNSPLIT` for constants), and sign + for even k.
    """
    # The class weights of all rows, and of those on the right side of each split.
    row_weights_by_class = weights_by_class(table, weights)
    right = split_weights_of_masked_rows(table, row_weights_by_class, table.present)
    negative, positive = root_class_weights(row_weights_by_class)[0]

    # A literal errs on the positive rows without it and on the negative rows with it.
    agreement = right[1] - right[0]
    literals = jnp.stack([positive - agreement, negative + agreement], axis=1)
    return jnp.concatenate([jnp.stack([negative, positive]), literals.reshape(-1)])


def tree_of_rule_index(rule_index: Array) -> Tree:
    """Build the tree of depth 1 that states a 1-rule, from the index of the rule.

    Rules have the order of `error_weights_of_rules`.
    """
    split, sign = rule_index // 2 - 1, (1 - 2 * (rule_index % 2)).astype(jnp.float32)
    leaf = jnp.where(split < 0, jnp.ones(2), jnp.array([-1.0, 1.0])).astype(jnp.float32)
    return Tree(split[None], sign * leaf)


def _negated_rule_errors_as_scores(errors: Array, allowed: Array | None) -> Scores:
    """Scores of all rules for the exponential mechanism: minus the weight of their errors."""
    with variates.double_precision():
        return mechanisms.behind_best(-errors, allowed)


def _draw_rule_by_weighted_error(
    draw: Draw, table: TreeRows, weights: Array, *_: Any, is_tight: bool
) -> None:
    """Draw one 1-rule of small weighted error, by the exponential mechanism.

    Rules of forbidden splits are masked.
    """
    allowed = None
    if table.allowed is not None:
        allowed = jnp.concatenate([jnp.ones(2, bool), jnp.repeat(table.allowed, 2)])

    # Errors move by the range times a grid unit.
    draw(
        "rule",
        mechanisms.exponential,
        boundary.RowSum(
            error_weights_of_rules(table, weights),
            _negated_rule_errors_as_scores,
            public_inputs=(allowed,),
        ),
        sensitivity=GRID * (sensitivity.RULE_ERRORS_RANGE if is_tight else PUBLISHED_RULE_RANGE),
        moved_outputs=1,
        theorem="dpbt theorem 8" if is_tight else "Asadi et al. (2022), Thm 8.2",
        releases="a split, its negation or a constant",
        unit=accounting.ROW_STEP,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RuleConfig:
    """The static configuration of a learner of 1-rules.

    Attributes:
        relation: the neighbouring relation of the ledger.
        calibration: "tight" or "published", what the ledger claims for a scale.
    """

    relation: types.Relation
    calibration: str

    @property
    def identity(self) -> str:
        """A text of all static settings, from which noise keys are derived."""
        return f"{types.as_relation(self.relation).value}, {self.calibration}, exponential"


@functools.cache
def one_rule(relation: types.Relation, calibration: str = "tight") -> types.WeakLearner:
    """A weak learner of 1-rules: one signed literal or constant, drawn by its weighted error.

    It is DP-1R. A round releases one index into the signed literals and the two constants.

    Guarantee, under `relation`, with `weighting.lazy_bregman` or with weights that depend on
    their own row alone. Errors move by at most GRID grid units. So the exponential mechanism
    (weighted, Definition 2.12) is (2 GRID / scale)-DP and (2 GRID / scale)^2 / 8-zCDP. Proofs are
    in `sensitivity`. In the papers' terms the scale is GRID kappa n / eta, so this is
    2 eta / (kappa n). The published calibration's ledger has the paper's 4 eta / (kappa n), which
    is true and twice what is needed.

    Errors are exact integers.

    Args:
        relation: the neighbouring relation of the ledger.
        calibration: "tight" or "published", what the ledger claims for a scale.
    """
    return boundary.weak_learner(
        name="one_rule",
        config=RuleConfig(relation=relation, calibration=calibration),
        program=functools.partial(_draw_rule_by_weighted_error, is_tight=calibration == "tight"),
        hypothesis=lambda release, params, public: tree_of_rule_index(release["rule"]),
        kind=TREES,
        fractions={"rule": 1.0},
        relation=relation,
        coupled=True,
        work_bytes=functools.partial(work_bytes_of_level_sums, num_nodes=1),
    )
