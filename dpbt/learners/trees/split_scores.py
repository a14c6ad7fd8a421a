"""The scores of splits: how pure their two sides are, by a proper loss, in double precision."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Float64, Shaped

from dpbt import types
from dpbt.privacy import mechanisms, variates
from dpbt.privacy.mechanisms import Scores
from dpbt.types import GRID, Array, LossFamily


def perspectives_of_class_weights(
    loss: types.ProperLoss, class_weights: Shaped[Array, "nodes 2 ..."]
) -> Float64[Array, "nodes ..."]:
    """f64[nodes, ...]: the perspective of a loss at the class weights of each node.

    It is in units of the weight bound, and class weights are exact.

    For use within `variates.double_precision`, with a loss whose alpha is float64.

    Args:
        loss: the criterion.
        class_weights: i32[nodes, 2, ...], class weights in grid units.
    """
    weight = variates.to_float64(class_weights) / GRID
    return loss.perspective(weight[:, 1], weight[:, 0])


def negated_child_perspectives(
    loss: types.ProperLoss, products: Shaped[Array, "nodes 2 S"], totals: Shaped[Array, "nodes 2"]
) -> Float64[Array, "nodes S"]:
    """f64[nodes, S]: score each split by minus the sum of the perspectives of both its children.

    For use within `variates.double_precision`, with a loss whose alpha is float64.

    Args:
        loss: the criterion.
        products: i32[nodes, 2, S] from `split_weights_of_nodes`, or the same in float64.
        totals: i32[nodes, 2], the class weights of the nodes, or the same in float64.
    """
    left_products = totals[:, :, None] - products
    return -(
        perspectives_of_class_weights(loss, products)
        + perspectives_of_class_weights(loss, left_products)
    )


@dataclasses.dataclass(frozen=True)
class SplitScorer:
    """A function that scores the splits of a level's nodes by the class weights of the nodes.

    Attributes:
        criterion: the family of losses whose perspective scores splits.
    """

    criterion: LossFamily

    def __call__(
        self,
        products_and_totals: tuple[Array, Array],
        alpha: Array,
        noise: Array,
        allowed: Array | None,
    ) -> Scores:
        """The scores [nodes, S] of all splits of all nodes of a level.

        Without noise, pure nodes are left alone.

        Args:
            products_and_totals: both as in `negated_child_perspectives`.
            alpha: f32[], the alpha of the criterion.
            noise: f32[], the noise multiplier of splits.
            allowed: bool[S], which splits may be chosen; None for all.
        """
        with variates.double_precision():
            products, totals = products_and_totals
            is_pure = jnp.min(totals, axis=-1) == 0
            may_be_chosen = ~((noise == 0) & is_pure)[:, None]
            if allowed is not None:
                may_be_chosen = may_be_chosen & allowed[None, :]
            loss = self.criterion(variates.to_float64(alpha))
            return mechanisms.behind_best(
                negated_child_perspectives(loss, products, totals), may_be_chosen
            )
