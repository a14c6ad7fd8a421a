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
from dpbt.learners.bins.residuals import step_share_of_class
from dpbt.learners.bins.rows import (
    check_binned_table,
    example_binned_table,
    prepare_binned_rows,
)
from dpbt.learners.bins.target import score_unit
from dpbt.learners.oblivious.config import ObliviousConfig, ObliviousParams
from dpbt.learners.oblivious.kind import oblivious_kind
from dpbt.learners.oblivious.model import ObliviousTree
from dpbt.types import Array, Public


def _max_score_of_row(shapes: ShapeFunctions) -> Float32[Array, ""]:
    """f32[]: the most that a row's curves add up to, over classes."""
    largest_by_column = jnp.max(jnp.abs(shapes.score), axis=-1)
    return jnp.max(sum_in_order(jnp.moveaxis(largest_by_column, -1, 0)))


def _scale_shapes(shapes: ShapeFunctions, slope: Array) -> ShapeFunctions:
    return shapes._replace(score=shapes.score * slope, noise=shapes.noise * jnp.abs(slope))


def _sum_curves_of_rounds(shapes: ShapeFunctions, *_: object) -> ShapeFunctions:
    """One hypothesis in place of those of all rounds: the sum of their curves."""
    noise = jnp.sqrt(sum_in_order(round_separately(sum_in_order(shapes.noise) ** 2)))
    return ShapeFunctions(
        sum_in_order(shapes.score)[None], noise[None], shapes.pairs[:1], shapes.parts[:1]
    )


def _shapes_of_trees(
    config: ObliviousConfig, trees: ObliviousTree, params: ObliviousParams, public: Public
) -> ShapeFunctions:
    """The curves that trees of one attribute add up to, where noise moves a leaf by a step.

    The last bin is one that a column does not have, as trees read it.
    """
    bits = 2 ** np.arange(config.depth, dtype=np.int32)[::-1]
    leaf = jnp.sum(jnp.where(trees.right, bits[None, :, None], 0), axis=1)  # of each bin
    axes = (1,) * len(config.response.axes)
    added_to = jnp.take_along_axis(trees.leaf, leaf.reshape(len(leaf), *axes, -1), axis=-1)

    def add_tree(curves: Array, tree: tuple[Array, Array]) -> Array:
        feature, values = tree
        return curves.at[..., feature, :].add(values)

    zeros = jnp.zeros((*config.response.axes, len(config.attributes), types.MAX_BINS), jnp.float32)
    curves = fold(add_tree, zeros, (trees.feature[:, 0], added_to))
    moves = jnp.sqrt(public.round.astype(jnp.float32) / len(config.attributes))
    if config.response.is_number:
        unit = score_unit(config.response, public)
    else:
        unit = np.float32(step_share_of_class(config.response) / LN2)
    noise = round_separately(params.step * moves) * unit
    return ShapeFunctions(curves[None, ..., : config.bin_mask.shape[1] + 1], noise[None])


def all_columns_kind(bins: BinsConfig) -> HypothesisKind:
    """Curves that every round moves at all bins of all columns, as learners train with them."""
    return SHAPES.with_training(
        example_table=functools.partial(example_binned_table, bins),
        check_table=functools.partial(check_binned_table, bins.attributes),
        prepare=functools.partial(prepare_binned_rows, bins.attributes),
        prediction_input=lambda rows: rows.bins,
        bound=_max_score_of_row,
        scale=_scale_shapes,
        merge=_sum_curves_of_rounds,
    )


def column_tree_kind(config: ObliviousConfig) -> HypothesisKind:
    """Curves that are learned as trees of one attribute, and merged after the last round."""
    trees = oblivious_kind(config).training
    assert trees is not None  # as `oblivious_kind` says
    training = dataclasses.replace(
        trees,
        scale=_scale_shapes,
        merge=functools.partial(_shapes_of_trees, config),
    )
    return dataclasses.replace(SHAPES, training=training)
