"""The kind of hypotheses that oblivious trees train."""

import functools

import jax.numpy as jnp

from dpbt.common.arithmetic import round_separately, sum_in_order
from dpbt.hypothesis_kind import HypothesisKind
from dpbt.learners.bins.rows import (
    BinnedRows,
    check_table_matches_attributes,
    lay_out_rows_by_feature,
    one_absent_row_table,
)
from dpbt.learners.oblivious.config import ObliviousConfig
from dpbt.learners.oblivious.model import OBLIVIOUS, ObliviousTree
from dpbt.learners.oblivious.rows import assign_leaves_unless_known
from dpbt.types import Array


def _merge_trees_of_equal_structure(
    num_structures: int, trees: ObliviousTree, *_: object
) -> ObliviousTree:
    """Merge the trees of all rounds that have the same splits to one tree for each structure.

    Its leaves add up theirs.
    """
    rounds = trees.leaf.shape[0]
    if rounds <= num_structures:
        return trees
    padding = ((0, -rounds % num_structures), *((0, 0),) * (trees.leaf.ndim - 1))

    def sum_of_structure(leaves: Array) -> Array:
        return sum_in_order(jnp.pad(leaves, padding).reshape(-1, num_structures, *leaves.shape[1:]))

    return ObliviousTree(
        feature=trees.feature[:num_structures],
        right=trees.right[:num_structures],
        leaf=sum_of_structure(trees.leaf),
        noise=jnp.sqrt(sum_of_structure(round_separately(trees.noise**2))),
        smoothing=trees.smoothing[:num_structures],
    )


def _multiply_trees_by_slope(trees: ObliviousTree, slope: Array) -> ObliviousTree:
    """Multiply the leaf values of trees, and the noise that they state, by a slope."""
    return trees._replace(leaf=trees.leaf * slope, noise=trees.noise * jnp.abs(slope))


def kind_of_oblivious_trees(config: ObliviousConfig) -> HypothesisKind:
    """The kind of hypotheses of oblivious trees over the bins of a domain.

    It says how they are trained, too.
    """
    attributes = config.attributes

    def predict_prepared(tree: ObliviousTree, rows: BinnedRows) -> Array:
        leaf = assign_leaves_unless_known(attributes, tree, rows).astype(jnp.int32)
        return tree.leaf.at[..., leaf].get(mode="promise_in_bounds")

    merge = functools.partial(_merge_trees_of_equal_structure, config.num_structures)
    return OBLIVIOUS.with_training(
        example_table=functools.partial(one_absent_row_table, config),
        check_table=functools.partial(check_table_matches_attributes, attributes),
        prepare=functools.partial(lay_out_rows_by_feature, attributes),
        predict_prepared=predict_prepared,
        prediction_input=lambda rows: rows.bins,
        bound=lambda tree: jnp.max(jnp.abs(tree.leaf)),
        scale=_multiply_trees_by_slope,
        merge=merge if config.num_structures else None,
    )
