"""The kind of hypotheses that oblivious trees train."""

import functools

import jax.numpy as jnp

from dpbt import types
from dpbt.common.arithmetic import sum_in_order
from dpbt.data import splits
from dpbt.hypothesis_kind import HypothesisKind
from dpbt.learners.oblivious.config import ObliviousConfig
from dpbt.learners.oblivious.model import OBLIVIOUS, ObliviousTree
from dpbt.learners.oblivious.rows import (
    ObliviousRows,
    assign_leaves,
    check_oblivious_table,
    prepare_oblivious_rows,
)
from dpbt.types import Array


def _merge_equal_structures(structures: int, trees: ObliviousTree, *_: object) -> ObliviousTree:
    """One tree for each structure, in place of those of all rounds."""
    rounds = trees.leaf.shape[0]
    if rounds <= structures:
        return trees
    padding = ((0, -rounds % structures), *((0, 0),) * (trees.leaf.ndim - 1))
    leaf = jnp.pad(trees.leaf, padding).reshape(-1, structures, *trees.leaf.shape[1:])
    return ObliviousTree(trees.feature[:structures], trees.right[:structures], sum_in_order(leaf))


def oblivious_kind(config: ObliviousConfig) -> HypothesisKind:
    """Oblivious trees over the bins of a domain, as learners train with them."""
    attributes, response = config.attributes, config.response

    def example_table() -> types.Table:
        bins, absent = jnp.zeros((1, len(attributes)), jnp.uint8), jnp.zeros(1, bool)
        target = absent.astype(response.dtype)
        return types.Table(bins, target, absent, splits.splits_of_bits(len(attributes)))

    def predict_prepared(tree: ObliviousTree, rows: ObliviousRows) -> Array:
        leaf = assign_leaves(attributes, tree, rows).astype(jnp.int32)
        return tree.leaf.at[..., leaf].get(mode="promise_in_bounds")

    merge = functools.partial(_merge_equal_structures, config.structures)
    return OBLIVIOUS.with_training(
        example_table=example_table,
        check_table=functools.partial(check_oblivious_table, attributes),
        prepare=functools.partial(prepare_oblivious_rows, attributes),
        predict_prepared=predict_prepared,
        prediction_input=lambda rows: rows.bins,
        bound=lambda tree: jnp.max(jnp.abs(tree.leaf)),
        scale=lambda trees, slope: trees._replace(leaf=trees.leaf * slope),
        merge=merge if config.structures else None,
    )
