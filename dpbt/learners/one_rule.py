"""1-rules: a signed literal or a constant, selected by weighted error (Asadi et al., 2022, section 4.1, Algorithm 3).

A 1-rule is a tree of depth one with leaves +-1; a constant is one whose node is not split.
"""

import functools
from typing import NamedTuple

import jax.numpy as jnp

from dpbt import accounting, boundary, mechanisms, sensitivity, slickness, trees
from dpbt.base import (
    AnyArray,
    Array,
    Mechanism,
    Relation,
    Tree,
    WeakLearner,
    Weights,
    relation_name,
)

PUBLISHED_RANGE = 4
"""Asadi et al. (2022), Theorem 8.2: 4 eta zeta, where `slickness.rule_range` has 2."""


class RuleBudget(NamedTuple):
    """The traced numbers of boosted 1-rules; each may have leading axes of settings.

    Attributes:
        rule_scale: f32[], the temperature of the exponential mechanism, or the scale of Laplace noise, in levels
            (units of the weight cap / GRID); 0 in the non-private mode, which takes the best rule.
        density: f32[], kappa, and learning_rate: f32[], lambda on margins: see `reweighting.lazy_bregman`.
        learning_rate: see density.
        rows: f32[], m: the public bound on the number of rows (add/remove) or their number (replace-one).
    """

    rule_scale: AnyArray
    density: AnyArray
    learning_rate: AnyArray
    rows: AnyArray


def error_levels(table: trees.Prepared, weights: Weights) -> Array:
    """i32[2 S + 2]: the weight that each 1-rule gets wrong, in levels; exact.

    Order: constant +, constant -, then for each split the literal and its negation, so that 1-rule k is of split
    k // 2 - 1 (`UNSPLIT` for constants) and of sign + for even k, whatever S.
    """
    levels = trees.masked_levels(table, weights.level)
    everywhere = jnp.zeros(table.target.shape[0], jnp.int32)
    right = trees.node_products(table, levels, everywhere, 1, None)[0]
    negative, positive = trees.node_totals(levels)[0]
    agreement = right[1] - right[0]  # the literal errs on positive rows without it and negative rows with it
    literals = jnp.stack([positive - agreement, negative + agreement], axis=1)
    return jnp.concatenate([jnp.stack([negative, positive]), literals.reshape(-1)])


def rule(choice: Array) -> Tree:
    """The tree of 1-rule `choice` of `error_levels`."""
    split, sign = choice // 2 - 1, (1 - 2 * (choice % 2)).astype(jnp.float32)
    return Tree(split[None], sign * jnp.where(split < 0, jnp.ones(2), jnp.array([-1.0, 1.0])).astype(jnp.float32))


@functools.cache
def one_rule(
    relation: Relation, calibration: str = "tight", mechanism: Mechanism = mechanisms.exponential
) -> WeakLearner:
    """DP-1R: a release of one index into the signed literals and the two constants.

    Guarantee, under `relation`, with `reweighting.lazy_bregman` (or with weights of each row's own): errors move by at
    most GRID levels, so the exponential mechanism and return-noisy-max with Laplace noise are both
    (2 GRID / scale)-DP, and the former (2 GRID / scale)^2 / 8-zCDP. Proofs are in `slickness`. In the papers' terms
    scale = GRID kappa n / eta, so this is 2 eta / (kappa n). The published calibration's ledger has the paper's
    4 eta / (kappa n), true and twice what is needed.

    Error counts are exact integers; only their differences are turned into float32 (`sensitivity.count_step`).

    Args:
        relation: the neighbouring relation the ledger speaks of.
        calibration: "tight" or "published": what the ledger claims for a scale.
        mechanism: `mechanisms.exponential` (weighted exponential mechanism, Definition 2.12) or
            `mechanisms.noisy_max` (weighted return-noisy-max, Theorem 2.14).
    """
    tight = calibration == "tight"
    spread = slickness.rule_range(relation) if tight else PUBLISHED_RANGE
    event = accounting.selection if mechanism is mechanisms.exponential else accounting.noisy_maximum

    def program(draw, table, weights, budget):
        errors = error_levels(table, weights)
        scores = (jnp.min(errors) - errors).astype(jnp.float32)
        if table.allowed is not None:
            if mechanism is not mechanisms.exponential:
                words = "use the exponential mechanism where some splits are not allowed"
                raise ValueError(f"noisy max has no masked candidates; {words}")
            allowed = jnp.concatenate([jnp.ones(2, bool), jnp.repeat(table.allowed, 2)])
            scores = jnp.where(allowed, scores, -jnp.inf)
        draw("rule", mechanism, scores, budget.rule_scale)

    def hypothesis(release, budget, unit):
        del budget, unit
        return rule(release["rule"])

    def events(budget):
        scale = float(budget.rule_scale)
        step = float(sensitivity.count_step(budget.rows))
        epsilon = spread * step / scale if scale > 0 else float("inf")
        return [
            event(
                "rule",
                "a signed literal or a constant",
                epsilon=epsilon,
                sensitivity=spread * step / 2,
                scale=scale,
                theorem="docs/privacy.md 8" if tight else "Asadi et al., Thm 8.2",
            )
        ]

    tag = f"one_rule({relation_name(relation)}, {calibration}, {mechanism.name})"
    return boundary.weak_learner(program, hypothesis, events, trees.TREES, relation, slick=True, tag=tag)
