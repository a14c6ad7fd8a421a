"""Splits of bins: splits and positions of raw columns, and rows that a model does not read."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpbt
from dpbt import recipes
from dpbt.data import domains, splits, tables
from dpbt.data.domains import Boolean, Nominal, Numeric
from experiments.common import data
from tests import reference_domains
from tests.test_cells import ODD, unwrapped

FLOATS = st.floats(allow_nan=True, allow_infinity=True)
WORDS = ("a", "NA", "3", "True", "rest")


@st.composite
def numeric(draw):
    spacing, missing = draw(st.sampled_from(["linear", "log", "cuts"])), draw(st.booleans())
    least = st.sampled_from([0.0, 1e-3, 7.0]) if spacing == "log" else st.floats(-1e6, 1e6)
    low = draw(least)
    widths = [1e-9, 0.1, 1.0, 3.0, 1e5] if spacing == "linear" else [0.1, 1e5]
    high = low + draw(st.sampled_from(widths)) * max(1.0, abs(low))
    if spacing == "cuts":
        inside = st.sampled_from(np.linspace(low, high, 99)[1:-1].tolist())
        cuts = draw(st.lists(inside, min_size=1, unique=True))
        return Numeric(low, high, missing=missing, cuts=tuple(sorted(cuts)))
    return Numeric(low, high, draw(st.integers(2, 255)), missing, scale=spacing)


@st.composite
def nominal(draw):
    values = tuple(draw(st.lists(st.sampled_from(WORDS), min_size=1, unique=True)))
    first, last = sorted(draw(st.tuples(*[st.integers(0, len(values))] * 2)))
    groups = {"group": values[first:last]} if first < last else {}
    other = draw(st.sampled_from([None, *values, *groups]))
    ordered = len(values) - (last - first or 1) >= 1 and draw(st.booleans())
    return Nominal(values, other, groups=groups, ordered=ordered)


KINDS = st.one_of(numeric(), nominal(), st.booleans().map(lambda missing: Boolean(missing=missing)))


def library(domain, columns, codes=False):
    """The table of raw columns, everybody present."""
    labels = [True] * len(next(iter(columns.values())))
    words = {"negative": "0", "positive": "1"}
    return dpbt.table(domain, columns, labels, codes=codes, **words)


def agree(domain, columns):
    """Splits, numbered as before, and positions of both kinds, are those of the raw columns."""
    table = library(domain, columns)
    assert table.bins.dtype == jnp.uint8
    assert table.bins.shape[1] == len(domain)
    bits = np.asarray(splits.splits_of(table))
    np.testing.assert_array_equal(bits, reference_domains.splits(domain, columns))
    assert bits.shape[1] == len(domains.predicates(domain))
    for codes in (False, True):
        found = np.asarray(splits.positions_of(library(domain, columns, codes)))
        assert found.dtype == np.float32
        expected = reference_domains.grid_positions(domain, columns, codes)
        np.testing.assert_array_equal(found, expected)
        exact = domains.positions(domain, columns, codes=codes)
        assert exact.shape == found.shape


MANY = 560
"""A fixed number of rows, above that of thresholds: each new shape compiles its programs."""


@pytest.mark.slow
@settings(max_examples=2)
@given(st.lists(KINDS, min_size=3, max_size=5), st.data())
def test_splits_of_bins_are_the_splits_of_raw_columns(kinds, drawn):
    """Over odd cells of every kind, and numbers on the thresholds themselves."""
    columns_agree(kinds, drawn)


def columns_agree(kinds, drawn):
    domain = {f"x{k}": kind for k, kind in enumerate(kinds)}
    rows = drawn.draw(st.lists(st.tuples(*[ODD] * len(kinds)), min_size=12, max_size=16))
    rows = [unwrapped(row) for row in rows]
    columns = {name: [row[k] for row in rows] for k, name in enumerate(domain)}
    for name, kind in domain.items():
        if isinstance(kind, Numeric):
            edges = np.concatenate([kind.thresholds, np.nextafter(kind.thresholds, np.inf)])
            columns[name] += [*edges.tolist(), kind.low, kind.high, np.nan]
        elif isinstance(kind, Nominal):
            columns[name] += [*kind.values, "unlisted", None]
    agree(domain, {name: (bins * MANY)[:MANY] for name, bins in columns.items()})


@pytest.mark.parametrize(
    "name",
    [*(pytest.param(name, marks=pytest.mark.slow) for name in ("adult", "mushroom")), "banknote"],
)
def test_splits_of_bins_are_the_splits_of_real_data(data_folder, name):
    dataset = data.load(name, folder=data_folder)
    agree(dataset.domain, dataset.columns)


def test_values_that_no_split_knows_satisfy_nothing():
    """Bins above the last of a column, in any row: no split, place 0, and no error."""
    domain = {
        "n": Numeric(0, 1, bins=3, missing=True),
        "c": Nominal(("a", "b")),
        "b": Boolean(missing=True),
    }
    asked = domains.splits(domain)
    beyond = max(kind.n_bins for kind in domain.values())
    bins = np.repeat(np.arange(beyond, 256, dtype=np.uint8)[:, None], 3, axis=1)
    nobody = np.zeros(len(bins), bool)
    table = dpbt.Table(jnp.asarray(bins), jnp.asarray(nobody), jnp.asarray(~nobody), asked)
    assert not np.asarray(splits.splits_of(table)).any()
    assert not np.asarray(splits.positions_of(table)).any()
    dpbt.fit(jax.random.key(0), table, recipes.bdpe(epsilon=1, rows=300, rounds=1, depth=1))


def test_a_table_of_splits_gives_the_splits_back():
    rng = np.random.default_rng(0)
    bits, target, present = rng.random((30, 7)) < 0.5, rng.random(30) < 0.5, rng.random(30) < 0.9
    table = splits.of_splits(bits, target, present)
    np.testing.assert_array_equal(splits.splits_of(table), bits)
    np.testing.assert_array_equal(splits.columns_of(table), bits.T)
    np.testing.assert_array_equal(splits.positions_of(table), bits.astype(np.float32))
    some = tables.take(table, rng.random(30) < 0.5)
    assert some.splits is table.splits
    for field, wrong, words in (
        ("splits", bits.astype(np.uint8), "splits must be bool of rank 2, got uint8"),
        ("target", target.tolist(), "target must be an array, got list"),
        ("target", target.astype(str), "target must hold numbers or Booleans, got text"),
        ("present", bits, "present must be bool of rank 1, got bool of rank 2"),
    ):
        fields = {"splits": bits, "target": target, "present": present, field: wrong}
        with pytest.raises(ValueError, match=words):
            splits.of_splits(**fields)
    for rows in ([0.5], ["a"], [[0]]):
        with pytest.raises(ValueError, match=r"rows must be bool\[N\] or whole numbers"):
            tables.take(table, rows)
    with pytest.raises(ValueError, match="no splits"):
        splits.splits_of(table._replace(splits=None))


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


def trained(kind, table):
    return dpbt.fit(jax.random.key(0), table, RECIPES[kind], jax.random.key(2**31))


def assert_reads(model, table, rows, wrong):
    """The rows of its table alone, none of them too; other rows are refused in those words."""
    for predict in (dpbt.decision_function, dpbt.predict, dpbt.predict_proba):
        if predict is dpbt.predict_proba and model.recipe is RECIPES["halfspace"]:
            continue
        expected = np.asarray(predict(model, table))
        np.testing.assert_array_equal(predict(model, rows), expected)
        none = predict(model, rows[:0])
        assert (none.shape, none.dtype) == (expected[:0].shape, expected.dtype)
        for words, others in wrong.items():
            for bad in others:
                with pytest.raises(ValueError, match=words):
                    pytest.fail(f"{predict.__name__} gave {predict(model, bad)}")


def wider(rows):
    """With a column less and with one more."""
    return [rows[:, :-1], np.pad(rows, ((0, 0), (0, 1)))]


@pytest.mark.parametrize(
    "kind", [pytest.param("boosted", marks=pytest.mark.slow), "forest", "halfspace"]
)
def test_a_model_of_bins_refuses_all_other_rows(kind):
    table = library(DOMAIN, COLUMNS)
    model, bins = trained(kind, table), np.asarray(table.bins)
    assert (model.features, model.dtype) == (3, "uint8")
    bits, numbers = splits.splits_of(table), domains.positions(DOMAIN, COLUMNS)
    others = [bins > 0, bins.astype(np.int32), bins[0], np.asarray(bits), numbers]
    asked = domains.splits({**DOMAIN, "n": Numeric(0, 1, bins=6)})
    wrong = {
        "3 features": [*wider(bins), bins.T],
        "uint8 and rank 2": [*others, bins.astype(np.float32)],
        "other splits": [table._replace(splits=asked)],
    }
    assert_reads(model, table, bins, wrong)


@pytest.mark.parametrize("kind", ["forest", "halfspace"])
def test_a_model_of_numbers_refuses_all_other_rows(kind):
    words = {"negative": "0", "positive": "1"}
    table = dpbt.table(DOMAIN, COLUMNS, COLUMNS["b"], exact=True, **words)
    model, numbers = trained(kind, table), np.asarray(table.bins)
    assert (model.features, model.dtype, model.splits) == (5, "float32", None)
    others = [numbers > 0.5, library(DOMAIN, COLUMNS), numbers[:, 0]]
    wrong = {"5 features": wider(numbers), "float32 and rank 2": others}
    assert_reads(model, table, numbers, wrong)
