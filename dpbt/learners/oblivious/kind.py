"""The kind of hypotheses that oblivious trees train."""

import functools

import jax.numpy as jnp

from dpbt.common.arithmetic import round_separately, sum_in_order
from dpbt.hypothesis_kind import HypothesisKind
from dpbt.learners.bins.rows import (
    BinnedRows,
    check_binned_table,
    example_binned_table,
    prepare_binned_rows,
)
from dpbt.learners.oblivious.config import ObliviousConfig
from dpbt.learners.oblivious.model import OBLIVIOUS, ObliviousTree
from dpbt.learners.oblivious.rows import assign_leaves
from dpbt.types import Array


def _merge_trees_of_equal_structure(
    num_structures: int, trees: ObliviousTree, *_: object
) -> ObliviousTree:
    """One tree for each structure, in place of those of all rounds."""
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


def _scale_trees(trees: ObliviousTree, slope: Array) -> ObliviousTree:
    return trees._replace(leaf=trees.leaf * slope, noise=trees.noise * jnp.abs(slope))


def oblivious_kind(config: ObliviousConfig) -> HypothesisKind:
    """Oblivious trees over the bins of a domain, as learners train with them."""
    attributes = config.attributes

    def predict_prepared(tree: ObliviousTree, rows: BinnedRows) -> Array:
        leaf = assign_leaves(attributes, tree, rows).astype(jnp.int32)
        return tree.leaf.at[..., leaf].get(mode="promise_in_bounds")

    merge = functools.partial(_merge_trees_of_equal_structure, config.num_structures)
    return OBLIVIOUS.with_training(
        example_table=functools.partial(example_binned_table, config),
        check_table=functools.partial(check_binned_table, attributes),
        prepare=functools.partial(prepare_binned_rows, attributes),
        predict_prepared=predict_prepared,
        prediction_input=lambda rows: rows.bins,
        bound=lambda tree: jnp.max(jnp.abs(tree.leaf)),
        scale=_scale_trees,
        merge=merge if config.num_structures else None,
    )
