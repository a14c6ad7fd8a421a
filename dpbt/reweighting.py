"""Re-weighters: from the released score of a row to its weight in the next round."""

import functools

import jax.numpy as jnp

from dpbt.base import GRID, Array, LossFamily, Reweighter, Weights


def on_grid(weight: Array, unit: Array) -> Weights:
    """Weights in [0, unit] as grid integers 1..GRID; never 0, so no row is lost to rounding.

    A fixed map of each row's own weight, so what holds for weights in [0, unit] holds for the result.
    """
    level = jnp.clip(jnp.round(weight / unit * GRID), 1, GRID)
    return Weights(level, jnp.asarray(unit, jnp.float32))


def uniform(score: Array, bound: Array, table, budget) -> Weights:
    """Weight 1 for every row, whatever has been learned."""
    del bound, table, budget
    return Weights(jnp.full(score.shape, float(GRID), jnp.float32), jnp.float32(1))


@functools.cache
def mirror(family: LossFamily, bounded: bool) -> Reweighter:
    """W = inverse_link(-y H), the mirror update of Nock & Henecka (2020), equation (13).

    H is the row's score so far. The paper's step form applies the link to the weight and adds -y beta h; where
    the link is one-to-one both are the same. On the flat part of M-alpha's inverse link (alpha < 1) the step
    form forgets scores; the cumulative form here is the one their proof uses (equations 128-129). The first
    weights are inverse_link(0) = 1/2.

    Args:
        family: the loss family; its alpha is `budget.link_alpha`.
        bounded: measure weights in units of inverse_link(sum over trees of the largest |leaf value|), a public
            bound on the weight of any row, instead of in units of 1. Perspectives, class weights and errors are
            homogeneous in the weights, so their sensitivities shrink by the same factor: by 1/2 in the first
            round.
    """

    def reweight(score: Array, bound: Array, table, budget) -> Weights:
        inverse_link = family(budget.link_alpha).inverse_link
        weight = inverse_link(jnp.where(table.label, -score, score))
        return on_grid(weight, inverse_link(bound) if bounded else jnp.float32(1))

    return reweight
