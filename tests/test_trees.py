"""Level statistics are exact, rows go where splits say, and models refuse the rows of others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.data import domains, splits
from dpbt.data.domains import Boolean, Nominal, Numeric
from dpbt.data.splits import satisfied_rows_by_split, satisfied_splits
from dpbt.learners.trees import rows as rows_of_trees
from dpbt.learners.trees.class_weights import (
    class_weights_of_nodes,
    exact_product_over_rows_by_floats,
    integer_product_over_rows,
    root_class_weights,
    split_weights_from_bin_sums,
    split_weights_of_nodes,
    weights_by_class,
)
from dpbt.learners.trees.model import (
    BinsAndSplits,
    assign_leaves,
    narrowest_node_dtype,
    predict_tree,
)
from dpbt.learners.trees.rows import TREES, evaluate_splits_of_rows
from dpbt.types import GRID, MAX_ROWS, Tree
from tests.support.example_tables import random_table


def reference_products(*, splits, levels, node, nodes):
    """The class weights of each node among the rows that satisfy each split, by a loop."""
    out = np.zeros((nodes, 2, splits.shape[1]), np.int64)
    for i in range(splits.shape[0]):
        for label in range(2):
            out[node[i], label] += int(levels[label, i]) * splits[i]
    return out


def table_of_many_bins(rows=700, bins=40, seed=3):
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


def laid_out_by_bins(table):
    """The table laid out by its bins, whatever its size is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_of_trees, "MANY_CELLS", 1)
        patch.setattr(rows_of_trees, "SPLITS_OF_A_FEATURE", 1)
        prepared = evaluate_splits_of_rows(table)
    assert isinstance(prepared.splits_of_rows, BinsAndSplits)
    return prepared


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 32])
def test_sums_by_bin_are_the_products(nodes):
    splits = np.asarray(satisfied_splits(table_of_many_bins()), np.int64)
    table = laid_out_by_bins(table_of_many_bins())
    rows = table.present.shape[0]
    weights = jax.random.randint(jax.random.key(0), (rows,), 0, GRID + 1)
    levels = weights_by_class(table, weights)
    node = jax.random.randint(jax.random.key(1), (rows,), 0, nodes).astype(
        narrowest_node_dtype(nodes)
    )
    expected = reference_products(splits=splits, levels=levels, node=node, nodes=nodes)
    sums = jax.jit(split_weights_of_nodes, static_argnames="num_nodes")(
        table, levels, node, num_nodes=nodes
    )
    np.testing.assert_array_equal(sums, expected)
    totals = reference_products(
        splits=np.ones((rows, 1), np.int64), levels=levels, node=node, nodes=nodes
    )[..., 0]
    np.testing.assert_array_equal(class_weights_of_nodes(levels, node, nodes), totals)


def test_a_split_that_no_bin_satisfies_has_no_rows_by_bin():
    table = laid_out_by_bins(table_of_many_bins())
    low = jnp.full_like(table.splits_of_rows.low, 255)
    high = jnp.zeros_like(table.splits_of_rows.high)
    never = table.splits_of_rows._replace(low=low, high=high)
    levels = weights_by_class(table, jnp.full(table.present.shape, GRID))
    sums = split_weights_from_bin_sums(never, levels, jnp.zeros(table.present.shape, jnp.int8), 1)
    assert not np.any(sums)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [3, 6])
def test_rows_by_bins_go_where_their_splits_say(depth):
    """Shallow trees choose from the leaves up, and deep ones follow their routes."""
    columns = satisfied_rows_by_split(table_of_many_bins())
    table = laid_out_by_bins(table_of_many_bins())
    split = jax.random.randint(jax.random.key(0), (2**depth - 1,), -1, columns.shape[0])
    tree = Tree(split, jax.random.normal(jax.random.key(1), (2**depth,)))
    reached = np.asarray(assign_leaves(tree, columns))
    np.testing.assert_array_equal(assign_leaves(tree, table.splits_of_rows), reached)
    for predicted in (
        predict_tree(tree, columns),
        TREES.predict_prepared(tree, table),
    ):
        np.testing.assert_array_equal(predicted, np.asarray(tree.leaf)[reached])


@pytest.mark.slow
def test_products_of_right_siblings_are_enough():
    nodes = 8
    table = evaluate_splits_of_rows(random_table(1, 300, 5, absent=20))
    levels = weights_by_class(table, jnp.full(300, GRID))
    parent = jax.random.randint(jax.random.key(1), (300,), 0, nodes // 2)
    node = 2 * parent + jax.random.bernoulli(jax.random.key(2), 0.4, (300,)).astype(jnp.int32)
    splits = np.asarray(table.splits_of_rows.T, np.int64)
    above = jnp.asarray(
        reference_products(splits=splits, levels=levels, node=parent, nodes=nodes // 2), jnp.int32
    )
    products = split_weights_of_nodes(table, levels, node, num_nodes=nodes, parent_products=above)
    np.testing.assert_array_equal(
        products, reference_products(splits=splits, levels=levels, node=node, nodes=nodes)
    )


@pytest.mark.parametrize("rows", [81, 2**18 + 5])
def test_products_by_floats_are_exact(rows):
    """Devices other than processors multiply by floats."""
    rng = np.random.default_rng(rows)
    left = rng.integers(100, 128, (3, 2, rows)).astype(np.int8)
    columns = rng.random((4, rows)) < 0.95
    product = exact_product_over_rows_by_floats(left, columns.astype(np.int8))
    np.testing.assert_array_equal(product, left.astype(np.int64) @ columns.T)


@pytest.mark.slow
def test_products_stay_exact_up_to_the_most_rows():
    columns, left = jnp.ones((2, MAX_ROWS), jnp.int8), jnp.full((2, MAX_ROWS), GRID, jnp.int8)
    np.testing.assert_array_equal(
        jax.jit(integer_product_over_rows)(left, columns), GRID * MAX_ROWS
    )
    np.testing.assert_array_equal(jax.jit(root_class_weights)(left), GRID * MAX_ROWS)


@pytest.mark.slow
def test_values_that_no_split_knows_satisfy_nothing():
    """Bins above the last of a column, in any row: no split, place 0, and no error."""
    domain = {
        "n": Numeric(0, 1, bins=3, missing=True),
        "c": Nominal(("a", "b")),
        "b": Boolean(missing=True),
    }
    table_splits = domains.splits(domain)
    beyond = max(kind.n_bins for kind in domain.values())
    bins = np.repeat(np.arange(beyond, 256, dtype=np.uint8)[:, None], 3, axis=1)
    nobody = np.zeros(len(bins), bool)
    table = dpbt.Table(jnp.asarray(bins), jnp.asarray(nobody), jnp.asarray(~nobody), table_splits)
    assert not np.asarray(splits.satisfied_splits(table)).any()
    assert not np.asarray(splits.attribute_positions(table)).any()
    dpbt.fit(jax.random.key(0), table, recipes.bdpe(epsilon=1, rows=300, rounds=1, depth=1))


def test_a_table_of_splits_gives_the_splits_back():
    rng = np.random.default_rng(0)
    bits, target, present = rng.random((30, 7)) < 0.5, rng.random(30) < 0.5, rng.random(30) < 0.9
    table = splits.table_of_splits(bits, target, present)
    np.testing.assert_array_equal(splits.satisfied_splits(table), bits)
    np.testing.assert_array_equal(splits.satisfied_rows_by_split(table), bits.T)
    np.testing.assert_array_equal(splits.attribute_positions(table), bits.astype(np.float32))
    unfit = ("splits", target), ("target", target.tolist()), ("target", target.astype(str))
    for field, wrong in (*unfit, ("present", bits)):
        fields = {"splits": bits, "target": target, "present": present, field: wrong}
        with pytest.raises(ValueError, match=f"{field} must"):
            splits.table_of_splits(**fields)


# Rows that a model does not read


DOMAIN = {"n": Numeric(0, 1, bins=5), "c": Nominal(("a", "b", "c")), "b": Boolean()}
RNG = np.random.default_rng(3)
COLUMNS = {
    "n": RNG.random(40),
    "c": RNG.choice(["a", "b", "c", "d"], 40),
    "b": RNG.random(40) < 0.5,
}
ROWS = {"epsilon": 1.0, "rows": 40, "rounds": 1}
RECIPES = {
    "boosted": recipes.bdpe(depth=1, criterion="gini", **ROWS),
    "forest": recipes.random_forest(depth=2, **ROWS),
    "halfspace": recipes.halfspace_boost(delta=1e-6, **ROWS),
}


@pytest.mark.parametrize(
    ("exact", "kind"),
    [
        pytest.param(exact, kind, id=f"{'numbers' if exact else 'bins'}-{kind}", marks=marks)
        for exact, kind, marks in (
            (False, "halfspace", ()),
            (False, "forest", pytest.mark.slow),
            (False, "boosted", pytest.mark.slow),
            (True, "halfspace", pytest.mark.slow),
            (True, "forest", pytest.mark.slow),
            (True, "boosted", pytest.mark.slow),
        )
    ],
)
def test_a_model_refuses_all_other_rows(kind, exact):
    """It reads the rows of its table alone, of which there may be none."""
    if exact and kind == "boosted":
        return
    table, other = (
        dpbt.table(DOMAIN, COLUMNS, COLUMNS["b"], exact=numbers, negative="0", positive="1")
        for numbers in (exact, not exact)
    )
    model = dpbt.fit(jax.random.key(0), table, RECIPES[kind], jax.random.key(2**31))
    rows, features = np.asarray(table.bins), 5 if exact else 3
    assert (model.features, model.dtype) == (features, "float32" if exact else "uint8")
    wrong = {
        f"{features} features": [rows[:, :-1], np.pad(rows, ((0, 0), (0, 1)))],
        f"{model.dtype} and rank 2": [rows > 0, rows[0], rows.astype(np.float64), other],
    }
    if not exact:
        other_splits = domains.splits({**DOMAIN, "n": Numeric(0, 1, bins=6)})
        wrong["other splits"] = [table._replace(splits=other_splits)]
    for predict in (dpbt.decision_function, dpbt.predict, dpbt.predict_proba):
        if predict is dpbt.predict_proba and kind == "halfspace":
            continue
        expected = np.asarray(predict(model, table))
        np.testing.assert_array_equal(predict(model, rows), expected)
        none = predict(model, rows[:0])
        assert (none.shape, none.dtype) == (expected[:0].shape, expected.dtype)
        for message, wrong_rows in wrong.items():
            for bad in wrong_rows:
                with pytest.raises(ValueError, match=message):
                    predict(model, bad)
