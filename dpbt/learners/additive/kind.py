"""The kinds of curves that additive models train: of all columns, or of one column a round."""

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32

from dpbt import types
from dpbt.common.arithmetic import LN2, fold, round_separately, sum_in_order
from dpbt.hypothesis_kind import HypothesisKind
from dpbt.learners.additive.model import SHAPES, ShapeFunctions
from dpbt.learners.bins.config import BinsConfig
from dpbt.learners.bins.residuals import step_share_per_class
from dpbt.learners.bins.rows import (
    check_table_matches_attributes,
    lay_out_rows_by_feature,
    one_absent_row_table,
)
from dpbt.learners.bins.target import score_change_per_spread
from dpbt.learners.oblivious.config import ObliviousConfig, ObliviousParams
from dpbt.learners.oblivious.kind import kind_of_oblivious_trees
from dpbt.learners.oblivious.model import ObliviousTree
from dpbt.types import Array, Public


def _max_absolute_score_of_row(shapes: ShapeFunctions) -> Float32[Array, ""]:
    """f32[]: an upper bound on the absolute score of any row, over classes."""
    largest_by_column = jnp.max(jnp.abs(shapes.score), axis=-1)
    return jnp.max(sum_in_order(jnp.moveaxis(largest_by_column, -1, 0)))


def _multiply_shapes_by_slope(shapes: ShapeFunctions, slope: Array) -> ShapeFunctions:
    """Multiply curves, and the noise that they state, by a slope."""
    return shapes._replace(score=shapes.score * slope, noise=shapes.noise * jnp.abs(slope))


def _sum_curves_of_rounds(shapes: ShapeFunctions, *_: object) -> ShapeFunctions:
    """Sum up the curves of all rounds to one hypothesis, with the noise of the sum.

    The sum has no axis of rounds.
    """
    noise = jnp.sqrt(sum_in_order(round_separately(sum_in_order(shapes.noise) ** 2)))
    return ShapeFunctions(
        sum_in_order(shapes.score)[None], noise[None], shapes.pairs[:1], shapes.parts[:1]
    )


def _merge_column_trees_into_curves(
    config: ObliviousConfig, trees: ObliviousTree, params: ObliviousParams, public: Public
) -> ShapeFunctions:
    """Merge trees of one attribute each into curves of bins, with an estimate of their noise.

    The last bin is one that a column does not have, as trees read it.
    """
    bits = 2 ** np.arange(config.depth, dtype=np.int32)[::-1]
    leaf = jnp.sum(jnp.where(trees.right, bits[None, :, None], 0), axis=1)  # of each bin
    axes = (1,) * len(config.response.score_axes)
    added_to = jnp.take_along_axis(trees.leaf, leaf.reshape(len(leaf), *axes, -1), axis=-1)

    def add_tree(curves: Array, tree: tuple[Array, Array]) -> Array:
        feature, values = tree
        return curves.at[..., feature, :].add(values)

    zeros = jnp.zeros(
        (*config.response.score_axes, len(config.attributes), types.MAX_BINS), jnp.float32
    )
    curves = fold(add_tree, zeros, (trees.feature[:, 0], added_to))
    moves = jnp.sqrt(public.round.astype(jnp.float32) / len(config.attributes))
    if config.response.is_number:
        unit = score_change_per_spread(config.response, public)
    else:
        unit = np.float32(step_share_per_class(config.response) / LN2)
    noise = round_separately(params.step * moves) * unit
    return ShapeFunctions(curves[None, ..., : config.bin_mask.shape[1] + 1], noise[None])


def kind_of_curves_of_all_columns(bins: BinsConfig) -> HypothesisKind:
    """The kind of hypotheses of rounds that change the curves of all columns at once."""
    return SHAPES.with_training(
        example_table=functools.partial(one_absent_row_table, bins),
        check_table=functools.partial(check_table_matches_attributes, bins.attributes),
        prepare=functools.partial(lay_out_rows_by_feature, bins.attributes),
        prediction_input=lambda rows: rows.bins,
        bound=_max_absolute_score_of_row,
        scale=_multiply_shapes_by_slope,
        merge=_sum_curves_of_rounds,
    )


def kind_of_curves_merged_from_column_trees(config: ObliviousConfig) -> HypothesisKind:
    """The kind of curves that are trained as trees of one column each and merged at the end."""
    trees = kind_of_oblivious_trees(config).training
    assert trees is not None  # as `kind_of_oblivious_trees` says
    training = dataclasses.replace(
        trees,
        scale=_multiply_shapes_by_slope,
        merge=functools.partial(_merge_column_trees_into_curves, config),
    )
    return dataclasses.replace(SHAPES, training=training)
