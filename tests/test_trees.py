"""Level statistics are exact and do not depend on order, method or padding; routing and
shrinkage.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.common.types import GRID, MAX_ROWS, UNSPLIT, Table, Tree
from dpbt.data.splits import columns_of, splits_of
from dpbt.data.tables import take
from dpbt.learners import hypotheses, trees
from dpbt.learners.hypotheses import Bins
from tests.conftest import random_table


def reference_products(splits, levels, node, nodes):
    out = np.zeros((nodes, 2, splits.shape[1]), np.int64)
    for i in range(splits.shape[0]):
        for c in range(2):
            out[node[i], c] += int(levels[c, i]) * splits[i]
    return out


def of_many_bins(rows=700, bins=40, seed=3):
    """A table of two ordered columns and an unordered one, absent rows among its rows."""
    rng = np.random.default_rng(seed)
    domain = {
        "x": dpbt.domains.Numeric(0, 1, bins=bins, missing=True),
        "y": dpbt.domains.Numeric(0, 1, bins=256),
        "z": dpbt.domains.Nominal(["a", "b", "c"], other="c"),
    }
    columns = {name: rng.random(rows) for name in "xy"} | {"z": rng.choice([*"abc"], rows)}
    columns["x"][rng.random(rows) < 0.1] = np.nan
    labels = columns["y"] + rng.random(rows) > 1
    return dpbt.table(domain, columns, labels, capacity=rows + 9)


def by_bins(table):
    """The table laid out by its bins, whatever its size is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "MANY_CELLS", 1)
        patch.setattr(trees, "SPLITS_OF_A_FEATURE", 1)
        prepared = trees.prepare(table)
    assert isinstance(prepared.asked, Bins)
    return prepared


@pytest.mark.parametrize("nodes", [1, 32])
def test_sums_by_bin_are_the_products(nodes):
    splits = np.asarray(splits_of(of_many_bins()), np.int64)
    table = by_bins(of_many_bins())
    rows = table.present.shape[0]
    weights = jax.random.randint(jax.random.key(0), (rows,), 0, GRID + 1)
    levels = trees.weights_by_class(table, weights)
    node = jax.random.randint(jax.random.key(1), (rows,), 0, nodes).astype(trees.node_dtype(nodes))
    expected = reference_products(splits, levels, node, nodes)
    found = jax.jit(trees.node_products, static_argnums=3)(table, levels, node, nodes, None)
    np.testing.assert_array_equal(found, expected)
    totals = reference_products(np.ones((rows, 1), np.int64), levels, node, nodes)[..., 0]
    np.testing.assert_array_equal(trees.sums_of_nodes(levels, node, nodes), totals)


def test_a_split_that_no_bin_satisfies_has_no_rows_by_bin():
    table = by_bins(of_many_bins())
    low, high = jnp.full_like(table.asked.low, 255), jnp.zeros_like(table.asked.high)
    never = table.asked._replace(low=low, high=high)
    levels = trees.weights_by_class(table, jnp.full(table.present.shape, GRID))
    found = trees.bin_sums(never, levels, jnp.zeros(table.present.shape, jnp.int8), 1)
    assert not np.any(found)


@pytest.mark.parametrize("depth", [3, 6])
def test_rows_by_bins_go_where_their_splits_say(depth):
    """Shallow trees choose from the leaves up, and deep ones follow their routes."""
    columns, table = columns_of(of_many_bins()), by_bins(of_many_bins())
    split = jax.random.randint(jax.random.key(0), (2**depth - 1,), -1, columns.shape[0])
    tree = Tree(split, jax.random.normal(jax.random.key(1), (2**depth,)))
    reached = np.asarray(hypotheses.route(tree, columns))
    np.testing.assert_array_equal(hypotheses.route(tree, table.asked), reached)
    for predicted in (hypotheses.predict(tree, columns), trees.TREES.predict(tree, table)):
        np.testing.assert_array_equal(predicted, np.asarray(tree.leaf)[reached])


def test_products_of_right_siblings_are_enough():
    nodes = 8
    table = trees.prepare(random_table(1, 300, 5, absent=20))
    levels = trees.weights_by_class(table, jnp.full(300, GRID))
    parent = jax.random.randint(jax.random.key(1), (300,), 0, nodes // 2)
    node = 2 * parent + jax.random.bernoulli(jax.random.key(2), 0.4, (300,)).astype(jnp.int32)
    splits = np.asarray(table.asked.T, np.int64)
    above = jnp.asarray(reference_products(splits, levels, parent, nodes // 2), jnp.int32)
    products = trees.node_products(table, levels, node, nodes, above)
    np.testing.assert_array_equal(products, reference_products(splits, levels, node, nodes))


@pytest.mark.slow
def test_products_stay_exact_up_to_the_most_rows():
    columns, left = jnp.ones((2, MAX_ROWS), jnp.int8), jnp.full((1, MAX_ROWS), GRID, jnp.int8)
    np.testing.assert_array_equal(jax.jit(trees.product)(left, columns), GRID * MAX_ROWS)
    np.testing.assert_array_equal(jax.jit(trees.node_totals)(left), GRID * MAX_ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("calibration", ["tight", "published"])
def test_releases_do_not_depend_on_order_or_padding(small_table, calibration):
    """Integers are identical; the published leaves may round differently by program."""
    recipe = recipes.bdpe(epsilon=20, rows=128, rounds=2, depth=2, calibration=calibration)

    def same(table):
        found = dpbt.fit(jax.random.key(5), table, recipe).releases
        for site in found:
            exact = found[site].dtype == jnp.int32
            np.testing.assert_allclose(found[site], expected[site], rtol=0 if exact else 1e-6)

    expected = dpbt.fit(jax.random.key(5), small_table, recipe).releases
    order = np.random.default_rng(0).permutation(small_table.target.shape[0])
    same(take(small_table, order))
    rng = np.random.default_rng(1)
    padded = Table(
        jnp.concatenate([small_table.bins, jnp.asarray(rng.integers(0, 256, (40, 7)), jnp.uint8)]),
        jnp.concatenate([small_table.target, jnp.asarray(rng.random(40) < 0.5)]),
        jnp.concatenate([small_table.present, jnp.zeros(40, bool)]),
        small_table.splits,
    )
    same(padded)


def test_routing_follows_heap_order_and_the_sentinel():
    splits = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)], bool)
    tree = Tree(jnp.int32([1, 0, UNSPLIT]), jnp.float32([1, 2, 3, 4]))
    expected = [3 if row[1] else (2 if row[0] else 1) for row in splits]
    np.testing.assert_array_equal(hypotheses.predict(tree, jnp.asarray(splits.T)), expected)


def test_child_totals_and_unsplit_nodes():
    products = jnp.int32([[[1, 2], [3, 4]], [[5, 6], [7, 8]]])
    totals = jnp.int32([[10, 10], [20, 20]])
    got = trees.child_totals(products, totals, jnp.int32([1, UNSPLIT]))
    np.testing.assert_array_equal(got, [[8, 6], [2, 4], [20, 20], [0, 0]])


def test_shrinkage_limits():
    counts = jnp.float32([[0, 0], [3, 1], [0, 0], [0, 0]])
    tiny = trees.shrink_to_parents(counts, jnp.float32(1e-6))
    np.testing.assert_allclose(tiny, [0.25, 0.25, 0.25, 0.25], atol=1e-5)
    np.testing.assert_allclose(trees.shrink_to_parents(counts, jnp.float32(1e9)), 0.5, atol=1e-5)
    root = (1 + 4 * 0.5) / (4 + 4)
    left = (1 + 4 * root) / (4 + 4)
    expected = [(0 + 4 * left) / 4, (1 + 4 * left) / 8, root, root]
    np.testing.assert_allclose(trees.shrink_to_parents(counts, jnp.float32(4)), expected, rtol=1e-5)
    with pytest.raises(ValueError, match="power of two"):
        trees.shrink_to_parents(jnp.ones((3, 2)), jnp.float32(1))


def test_what_is_stored_is_a_branch_of_its_own_and_the_same_numbers():
    """A branch ends what a compiler may fuse; with a constant number there is none."""

    def twice(number, weights):
        return trees.stored(number, lambda: weights + 1) * 2

    weights, number = jnp.arange(8, dtype=jnp.int32), jnp.int32(3)
    np.testing.assert_array_equal(jax.jit(twice)(number, weights), twice(0, weights))
    np.testing.assert_array_equal(twice(0, weights), 2 * (np.arange(8) + 1))
    lanes = jax.vmap(twice, (None, 0))(number, jnp.stack([weights, -weights]))
    np.testing.assert_array_equal(lanes[1], 2 * (1 - np.arange(8)))
