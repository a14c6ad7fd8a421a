"""Domains: encoding is total and public, words match bits, bad declarations are refused."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpbt
from dpbt import recipes
from dpbt.analysis import audit
from dpbt.data import domains
from dpbt.data.domains import Boolean, Nominal, Numeric
from dpbt.data.questions import splits_of
from dpbt.learners.hypotheses.words import cells_in_words
from dpbt.recipes.oblivious import attributes_of
from tests.reference_domains import library_splits

DOMAIN = {
    "age": Numeric(0, 100, bins=4, missing=True),
    "job": Nominal(("clerk", "smith", "other"), other="other"),
    "member": Boolean(),
}
COLUMNS = {
    "age": [10, 60, np.nan, np.inf, -5],
    "job": ["smith", "king", "clerk", "smith", ""],
    "member": [1, 0, 0, 1, 1],
}


def test_encoding_by_hand():
    expected = [
        [0, 0, 0, 0, 0, 1, 0, 1],
        [1, 1, 0, 0, 0, 0, 1, 0],
        [0, 0, 0, 1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0, 1, 0, 1],
        [0, 0, 0, 0, 0, 0, 1, 1],
    ]
    np.testing.assert_array_equal(library_splits(DOMAIN, COLUMNS), np.array(expected, bool))
    encoded = domains.encode(DOMAIN, COLUMNS)
    assert encoded.dtype == np.uint8
    cells = [[0, 1, 1], [2, 2, 0], [4, 0, 0], [3, 1, 1], [0, 2, 1]]
    np.testing.assert_array_equal(encoded, cells)


def test_words():
    words = [domains.describe(DOMAIN, s) for s in range(8)]
    assert words[:4] == ["age > 25", "age > 50", "age > 75", "age is missing"]
    assert words[4:] == ["job = clerk", "job = smith", "job = other", "member"]
    assert domains.describe(DOMAIN, 0, satisfied=False) == "age <= 25"
    assert domains.describe(DOMAIN, 4, satisfied=False) == "job is not clerk"
    with pytest.raises(ValueError, match=r"splits 0\.\.7, got 8"):
        domains.describe(DOMAIN, 8)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=20))
def test_numeric_encoding_is_total_and_monotone(values):
    found = domains.encode({"x": Numeric(-1, 3, bins=8)}, {"x": np.array(values)})[:, 0]
    order = np.argsort(np.nan_to_num(np.array(values), nan=-np.inf))
    assert np.all(np.diff(found[order].astype(int)) >= 0)
    clipped = domains.encode({"x": Numeric(-1, 3, bins=8)}, {"x": np.clip(np.array(values), -1, 3)})
    np.testing.assert_array_equal(found, clipped[:, 0])


def test_unlisted_values_without_other_satisfy_nothing():
    kind, cells = {"x": Nominal(("a", "b"))}, {"x": ["c", None, "A"]}
    assert not library_splits(kind, cells).any()
    assert domains.encode(kind, cells)[:, 0].tolist() == [2, 2, 2]


def test_both_words_of_a_boolean_are_declared():
    """Anything else is missing, and not false where missing cells have a split."""
    values = ["yes", " no ", "?", None, True, np.False_, 1, "Yes"]
    encoded = library_splits({"x": Boolean("yes", "no", missing=True)}, {"x": values})
    assert encoded[:, 0].tolist() == [True, False, False, False, True, False, False, False]
    assert encoded[:, 1].tolist() == [False, False, True, True, False, False, True, True]
    plain = library_splits({"x": Boolean("yes", "no")}, {"x": values})
    np.testing.assert_array_equal(plain, encoded[:, :1])
    placed = domains.positions({"x": Boolean("yes", "no", missing=True)}, {"x": values})
    np.testing.assert_array_equal(placed, encoded)
    kind = {"x": Boolean(missing=True)}
    words = [domains.describe(kind, split, yes) for split in (0, 1) for yes in (True, False)]
    assert words == ["x", "not x", "x is missing", "x is given"]


def all_words(kind):
    """The predicates of a column x, where they hold and where not."""
    found = domains.predicates({"x": kind})
    return [split.yes for split in found], [split.no for split in found]


def test_cuts_by_hand():
    kind = Numeric(0, 120, cuts=(18, 65.5), missing=True)
    assert (kind.bins, kind.cells, kind.cuts) == (3, 4, (18.0, 65.5))
    values = [17, 18, 18.1, 65.5, 66, 999, -1, None]
    assert domains.encode({"x": kind}, {"x": values})[:, 0].tolist() == [0, 0, 1, 1, 2, 2, 0, 3]
    yes, no = all_words(kind)
    assert yes == ["x > 18", "x > 65.5", "x is missing"]
    assert no == ["x <= 18", "x <= 65.5", "x is given"]
    expected = np.array(values[:-1], float)[:, None] > [18, 65.5]
    found = library_splits({"x": kind}, {"x": values})
    np.testing.assert_array_equal(found[:-1, :2], expected)
    assert found[-1].tolist() == [False, False, True]
    grid = domains.questions({"x": kind}).position
    assert grid[:, :4].tolist() == [[0, 0.5, 1, 0], [0, 0, 0, 1]]
    exact = domains.positions({"x": kind}, {"x": [0, 18, 60, 120]})[:, 0]
    np.testing.assert_array_equal(exact, np.float32([0, 0.15, 0.5, 1]))


def test_cuts_in_words_are_what_was_declared():
    kind = Numeric(0, 1e8, cuts=(0.1, 1 / 3, 1234567, 12345678.5))
    expected = ["x > 0.1", "x > 0.333333333333333", "x > 1234567", "x > 12345678.5"]
    assert all_words(kind)[0] == expected
    chosen = np.arange(256) >= 3
    assert cells_in_words(kind, chosen) == "> 1234567"


@pytest.mark.parametrize("low", [1e-6, 0.5, 3, 1e4])
def test_log_bins_are_equal_in_the_logarithm(low):
    for high, bins in ((low * 1.5, 2), (low * 1e5, 7), (low * 1e9, 255)):
        kind = Numeric(low, high, bins, scale="log")
        expected = np.exp(np.log(low) + np.log(high / low) * np.arange(1, bins) / bins)
        np.testing.assert_allclose(kind.thresholds, expected, rtol=1e-12)


def test_log_bins_from_zero_are_equal_in_log_of_one_plus_x():
    for high, bins in ((0.5, 3), (99999, 10), (1e12, 255)):
        expected = np.expm1(np.log1p(high) * np.arange(1, bins) / bins)
        found = Numeric(0, high, bins, scale="log").thresholds
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    gains = Numeric(0, 9999, 4, scale="log")
    assert gains.thresholds.tolist() == [9, 99, 999]
    values = [0, 9, 9.5, 99, 100, 5000, 1e9, -1, None]
    cells = domains.encode({"x": gains}, {"x": values})[:, 0]
    assert cells.tolist() == [0, 0, 1, 1, 2, 3, 3, 0, 0]
    exact = domains.positions({"x": gains}, {"x": [0, 4999.5, 9999]})[:, 0]
    np.testing.assert_array_equal(exact, np.float32([0, 0.5, 1]))


@given(
    st.sampled_from([(0, 120), (-1, 3), (-7.5, 1e6), (0.1, 0.3)]),
    st.integers(2, 255),
    st.lists(st.floats(), min_size=1, max_size=20),
)
def test_regular_grids_keep_their_bits(ends, bins, values):
    """The formula of the first version, by which models were trained."""
    low, high = ends
    kind, positional = Numeric(low, high, bins=bins), Numeric(low, high, bins, False)
    expected = low + (high - low) * np.arange(1, bins) / bins
    assert kind == positional == Numeric(low, high, bins, scale="linear", cuts=None)
    assert kind.thresholds.tobytes() == expected.tobytes()
    exceeded = (np.array(values)[:, None] > expected).sum(axis=1)
    np.testing.assert_array_equal(domains.encode({"x": kind}, {"x": values})[:, 0], exceeded)
    asked = domains.questions({"x": kind})
    assert asked.low.tolist() == list(range(1, bins))
    assert asked.high.tolist() == [bins - 1] * (bins - 1)


def test_values_of_a_group_share_a_cell():
    kind = Nominal(("clerk", "smith", "king", "mason"), groups={"manual": ("mason", "smith")})
    assert (kind.names, kind.cells) == (("clerk", "manual", "king"), 4)
    values = ["clerk", "smith", "mason", "king", "manual", None]
    expected = [0, 1, 1, 2, 3, 3]
    assert domains.encode({"x": kind}, {"x": values})[:, 0].tolist() == expected
    yes, no = all_words(kind)
    assert yes == ["x = clerk", "x = manual", "x = king"]
    assert no == ["x is not clerk", "x is not manual", "x is not king"]
    found = library_splits({"x": kind}, {"x": values})
    np.testing.assert_array_equal(found, np.array(expected)[:, None] == np.arange(3))
    chosen = np.isin(np.arange(256), [1, 3])
    assert cells_in_words(kind, chosen) == "in {manual, not listed}"
    assert kind.read(values)[1].tolist() == [False] * 4 + [True] * 2


def test_groups_may_hold_all_values_and_stand_for_the_others():
    groups = {"manual": ("smith", "mason"), "rest": ("rest", "king")}
    kind = Nominal(groups=groups, other="rest")
    assert kind.values == ("smith", "mason", "rest", "king")
    assert kind == Nominal(kind.values, groups=groups, other="rest")
    assert kind.cells == 2
    for other in ("rest", "king"):
        same = dataclasses.replace(kind, other=other)
        found = domains.encode({"x": same}, {"x": ["mason", "king", "rest", "queen", None]})
        assert found[:, 0].tolist() == [0, 1, 1, 1, 1]
    many = Nominal(groups={"even": range(0, 600, 2), "odd": range(1, 600, 2)})
    assert many.cells == 3
    assert domains.encode({"x": many}, {"x": [3, "4.0", 600]})[:, 0].tolist() == [1, 0, 2]


@pytest.mark.parametrize("codes", [False, True])
def test_an_ordered_column_is_cut_in_its_order(codes):
    kind = Nominal(("low", "middle", "high"), ordered=True)
    values = ["middle", "high", "low", "LOW", None]
    assert domains.encode({"x": kind}, {"x": values})[:, 0].tolist() == [1, 2, 0, 3, 3]
    assert all_words(kind) == (["x >= middle", "x >= high"], ["x < middle", "x < high"])
    expected = [[1, 0], [1, 1], [0, 0], [0, 0], [0, 0]]
    np.testing.assert_array_equal(library_splits({"x": kind}, {"x": values}), expected)
    positions = domains.positions({"x": kind}, {"x": values}, codes=codes)
    assert positions[:, 0].tolist() == [0.5, 1, 0, 0, 0]
    (attribute,) = domains.attributes({"x": kind})
    assert attribute.name == "x"
    assert [attribute(t).yes for t in (0, 0.4, 0.5, 0.9)] == ["x >= middle"] * 2 + ["x >= high"] * 2


def test_oblivious_trees_cut_ordered_columns():
    values = ("low", "middle", "high")
    plain, ordered = Nominal(values), Nominal(values, ordered=True)
    grouped = Nominal(values, "low", groups={"more": ("middle", "high")}, ordered=True)
    domain = {"n": Numeric(0, 1, cuts=(0.5,)), "p": plain, "o": ordered, "g": grouped}
    assert attributes_of(domain) == ((2, True), (4, False), (4, True), (2, True))
    beyond = [np.arange(256) >= cell for cell in range(4)]
    assert cells_in_words(ordered, beyond[1]) == ">= middle or is not listed"
    assert cells_in_words(ordered, beyond[3]) == "is not listed"
    assert cells_in_words(grouped, beyond[1]) == ">= more"
    assert cells_in_words(plain, beyond[2]) == "in {high, not listed}"


def test_words_of_attributes_are_those_of_the_splits_with_the_same_cells():
    domain = {
        **DOMAIN,
        "cut": Numeric(0, 9, cuts=(1, 2, 8), missing=True),
        "log": Numeric(1, 9, bins=5, scale="log"),
        "group": Nominal(("a", "b", "c"), groups={"bc": ("b", "c")}),
        "order": Nominal(("a", "b", "c", "d"), groups={"bc": ("b", "c")}, ordered=True),
    }
    asked, words = domains.questions(domain), domains.predicates(domain)
    attributes = domains.attributes(domain)
    assert len(attributes) == len(asked.attribute)
    for attribute, feature, position in zip(
        attributes, asked.attribute, asked.position, strict=True
    ):
        for threshold in np.linspace(0.01, 0.99, 50):
            split = words.index(attribute(threshold))
            assert asked.feature[split] == feature
            inside = range(asked.low[split], asked.high[split] + 1)
            assert np.flatnonzero(position > threshold).tolist() == list(inside)


def test_declared_values_are_kept_as_cells_are_read():
    assert Nominal((" 3.0 ", "03", 4)).values == ("3", "03", "4")
    assert Nominal(("3", "NA"), other=3.0).other == "3"
    assert Boolean(1, 0.0) == Boolean("1", "0") == Boolean()
    assert domains.Label("y", "1.0", " 0 ") == domains.Label("y", "1", "0")


BAD = {
    "bounds": (lambda: Numeric(1, 1), "Numeric: low must be less than high, got low=1 and high=1"),
    "infinite": (lambda: Numeric(0, np.inf), "Numeric: high must be a finite number, got inf"),
    "not a number": (lambda: Numeric(np.nan, 1), "Numeric: low must be a finite number, got nan"),
    "truth": (lambda: Numeric(0, True), "Numeric: high must be a finite number, got True"),
    "huge": (lambda: Numeric(0, 10**400), "Numeric: high must be a finite number, got a larger"),
    "bins": (lambda: Numeric(0, 1, bins=1), "Numeric: bins must be an integer of at least 2, got"),
    "true bins": (lambda: Numeric(0, 1, bins=True), "bins must be an integer .*, got True"),
    "huge bins": (lambda: Numeric(0, 1, bins=10**400), "Numeric: .* 256 cells.*got many more"),
    "missing": (lambda: Numeric(0, 1, missing="no"), "Numeric: missing must be True or False, got"),
    "one text": (lambda: Nominal("clerk"), "Nominal: values must be a list, got 'clerk'"),
    "no value": (lambda: Nominal((np.nan,)), "Nominal: a listed value must be text .*, got nan"),
    "no truth": (lambda: Boolean(np.nan, "0"), "Boolean: true must be text or a number, got nan"),
    "missing truth": (lambda: Boolean(missing=1), "Boolean: missing must be True or False, got 1"),
    "values": (lambda: Nominal(()), "distinct values"),
    "twice": (lambda: Nominal(("a", "a")), "distinct values"),
    "other": (lambda: Nominal(("a",), other="b"), "other must be one of"),
    "many bins": (lambda: Numeric(0, 1, bins=257), "at most 256 cells.*got 257"),
    "many values": (lambda: Nominal(tuple(map(str, range(256)))), "256 cells.*got 257"),
    "too wide": (lambda: Numeric(-1e308, 1e308), r"bins \* \(high - low\) must be finite"),
    "one word": (lambda: Boolean("yes"), "true='yes' must declare its word for false"),
    "words alike": (lambda: Boolean("1", "1.0"), "true and false must differ"),
    "classes alike": (lambda: domains.Label("y", "1", "1.0"), "classes must differ"),
    "missing column": (
        lambda: domains.encode(DOMAIN, {"age": [1]}),
        r"lacks columns \['job', 'member'\]",
    ),
    "lengths": (lambda: domains.encode(DOMAIN, {**COLUMNS, "age": [1.0]}), r"'member'\] differ"),
    "text column": (
        lambda: domains.encode({"x": Boolean()}, {"x": "01"}),
        "'x': .*sequence of cells",
    ),
    "scalar": (lambda: domains.encode({"x": Boolean()}, {"x": True}), "column 'x': .*got bool"),
    "set": (lambda: domains.encode({"x": Boolean()}, {"x": {True}}), "column 'x': .*got set"),
    "matrix": (lambda: domains.encode({"x": Boolean()}, {"x": np.eye(2)}), "one dimension, got 2"),
    "numbers in a matrix": (
        lambda: domains.encode({"x": Numeric(0, 1)}, {"x": np.eye(2)}),
        "column 'x': a column must have one dimension, got 2",
    ),
    "no kind": (lambda: domains.encode({"x": "number"}, {"x": [1]}), "must be Numeric, Nominal"),
    "exchanged": (lambda: domains.encode(COLUMNS, DOMAIN), "'age' must be Numeric.*, got list$"),
    "empty": (lambda: domains.encode({}, {}), "at least one column"),
    "no cuts": (
        lambda: Numeric(0, 9, cuts=()),
        r"cuts must be one or more .*, got \[\]",
    ),
    "cut outside": (lambda: Numeric(0, 9, cuts=(1, 9)), r"cuts must be .*inside \(0, 9\), got"),
    "cuts fall": (lambda: Numeric(0, 9, cuts=(2, 1)), "cuts must be .*strictly increasing"),
    "one cut": (lambda: Numeric(0, 9, cuts=4), "Numeric: cuts must be a list, got 4"),
    "no cut": (lambda: Numeric(0, 9, cuts=(4, None)), "a cut must be a finite number, got None"),
    "true cut": (lambda: Numeric(0, 9, cuts=(True,)), "a cut must be a finite number, got True"),
    "huge cut": (lambda: Numeric(0, 9, cuts=(10**400,)), "a cut must be .*, got a larger one"),
    "many cuts": (lambda: Numeric(0, 999, cuts=range(1, 257)), "Numeric: .*256 cells.*got 257"),
    "cuts and bins": (
        lambda: Numeric(0, 9, bins=4, cuts=(1, 2)),
        "Numeric: cuts make 3 bins of no other scale, got bins=4",
    ),
    "cuts and scale": (
        lambda: Numeric(0, 9, cuts=(1, 2), scale="log"),
        "Numeric: cuts make 3 bins .*scale='log' beside them",
    ),
    "scale": (lambda: Numeric(0, 9, scale="LOG"), "scale must be one of .*, got 'LOG'"),
    "log below": (lambda: Numeric(-1, 9, scale="log"), "low must be at least 0 with .*, got -1"),
    "log narrow": (lambda: Numeric(1, 1 + 1e-15, scale="log"), "float64 must tell 10 bins apart"),
    "groups": (lambda: Nominal("ab", groups=["a"]), "values must be a list, got 'ab'"),
    "no groups": (lambda: Nominal(["a"], groups=["a"]), r"groups must map names .*, got \['a'\]"),
    "group text": (lambda: Nominal(groups={"g": "a"}), "group 'g' must be a list, got"),
    "group empty": (lambda: Nominal(["a"], groups={"g": ()}), "a group must hold at least one"),
    "group name": (lambda: Nominal(groups={None: ("a",)}), "the name of a group must be text"),
    "groups alike": (
        lambda: Nominal(groups={1: ("a",), "1.0": ("b",)}),
        r"groups must have distinct names, got \['1', '1'\]",
    ),
    "two groups": (
        lambda: Nominal(groups={"g": ("a", "b"), "h": ("b",)}),
        r"at most one group, and \['b'\] are in two",
    ),
    "unlisted in a group": (
        lambda: Nominal(("a", "b"), groups={"g": ("a", "c")}),
        r"group 'g' must hold listed values, got \['c'\]",
    ),
    "named like a value": (
        lambda: Nominal(("a", "b", "c"), groups={"c": ("a", "b")}),
        "group 'c' must not have the name of a value outside of it",
    ),
    "other of groups": (
        lambda: Nominal(groups={"g": ("a",)}, other="z"),
        r"other must be one of \['g', 'a'\], got 'z'",
    ),
    "order": (lambda: Nominal(("a", "b"), ordered=1), "ordered must be True or False, got 1"),
    "order of one": (
        lambda: Nominal(groups={"g": ("a", "b")}, ordered=True),
        r"ordered needs two cells or more, got \['g'\]",
    ),
    "order of groups": (
        lambda: Nominal(("a", "b", "c"), groups={"g": ("a", "c")}, ordered=True),
        "values of a group must be next to each other if ordered, got",
    ),
    "split": (lambda: domains.describe(DOMAIN, "age"), r"splits 0\.\.7, got 'age'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_declarations_and_data_are_refused(name):
    act, words = BAD[name]
    with pytest.raises(ValueError, match=words) as caught:
        act()
    assert "\n" not in str(caught.value)


NUMERIC = {"type": "numeric", "low": 0, "high": 1}
GOOD_JSON = {
    "columns": {
        "x": {"type": "numeric", "low": 0, "high": 1},
        "c": {"type": "nominal", "values": ["a", "b"]},
    },
    "label": {"column": "y", "positive": "1", "negative": "0"},
}


def test_domains_from_json(tmp_path):
    path = tmp_path / "domain.json"
    path.write_text(json.dumps(GOOD_JSON))
    domain, label = domains.read_domain(path)
    assert domain == {"x": Numeric(0, 1), "c": Nominal(("a", "b"))}
    entry = {"type": "boolean", "true": "yes", "false": "no", "missing": True}
    assert domains.column_from_json("b", entry) == Boolean("yes", "no", missing=True)
    assert domains.column_from_json("b", {"type": "boolean"}) == Boolean()
    assert label == domains.Label("y", "1", "0")


DECLARED = {
    "grid": ({"type": "numeric", "low": 0, "high": 1, "bins": 7}, Numeric(0, 1, 7)),
    "cuts": (
        {"type": "numeric", "low": 0, "high": 120, "cuts": [18, 65.5], "missing": True},
        Numeric(0, 120, cuts=(18, 65.5), missing=True),
    ),
    "log": (
        {"type": "numeric", "low": 0, "high": 99999, "bins": 20, "scale": "log"},
        Numeric(0, 99999, 20, scale="log"),
    ),
    "values": ({"type": "nominal", "values": ["a", 3], "other": 3}, Nominal(("a", "3"), "3")),
    "groups": (
        {"type": "nominal", "groups": {"g": ["a", 3], "h": ["b"]}, "other": "g"},
        Nominal(groups={"g": ("a", 3), "h": ("b",)}, other="g"),
    ),
    "some grouped": (
        {"type": "nominal", "values": ["a", "b", "c"], "groups": {"g": ["a", "b"]}},
        Nominal(("a", "b", "c"), groups={"g": ("a", "b")}),
    ),
    "ordered": (
        {"type": "nominal", "values": ["a", "b"], "ordered": True},
        Nominal(("a", "b"), ordered=True),
    ),
}


def test_every_declaration_from_json(tmp_path):
    """Also what the declared columns hold, written as JSON, gives the same columns."""
    types = {Numeric: "numeric", Nominal: "nominal"}
    expected = {name: kind for name, (_, kind) in DECLARED.items()}
    given = {name: entry for name, (entry, _) in DECLARED.items()}
    held = {
        name: {"type": types[type(kind)], **dataclasses.asdict(kind)}
        for name, kind in expected.items()
    }
    for columns in (given, held):
        path = tmp_path / "domain.json"
        path.write_text(json.dumps({**GOOD_JSON, "columns": columns}))
        domain, _ = domains.read_domain(path)
        assert domain == expected
        assert [hash(kind) for kind in domain.values()] == [hash(k) for k in expected.values()]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"columns": {}}, 'expected an object with "columns"'),
        ({"columns": {"x": {"type": "complex"}}}, "column 'x': type must be one of"),
        ({"columns": {"x": {"type": "numeric", "low": 0}}}, "column 'x'.*high"),
        ({"columns": {"x": {"type": ["numeric"]}}}, "column 'x': type must be one of"),
        ({"columns": {"x": {**NUMERIC, "low": 2}}}, "column 'x'.*low must be less than high"),
        (
            {"columns": {"x": {**NUMERIC, "step": 1}}},
            "column 'x'.*unexpected keyword argument 'step'",
        ),
        ({"columns": {"x": {"type": "boolean", "true": True, "false": False}}}, '"true" must hold'),
        ({"columns": {"x": {"type": "nominal", "values": ["a", True]}}}, '"values" must hold'),
        ({"columns": {"x": {"type": "nominal", "values": {"a": 1}}}}, "column 'x'.*a list, got"),
        ({"rows": 100}, r"\['rows'\] beside them"),
        ({"label": {"column": ["y"], "positive": "1", "negative": "0"}}, "column must be a name"),
        ({"label": {"column": "y", "positive": True, "negative": False}}, '"positive" must hold'),
        ({"columns": {"x": {"type": "boolean", "true": "yes"}}}, "column 'x'.*word for false"),
        ({"columns": {"x": {**NUMERIC, "bins": 5, "cuts": [0.5]}}}, "column 'x'.*got bins=5"),
        ({"columns": {"x": {**NUMERIC, "scale": ["log"]}}}, "column 'x'.*scale must be"),
        ({"columns": {"x": {"type": "nominal", "groups": {"g": [True]}}}}, '"groups" must hold'),
        ({"label": {"column": "y", "positive": "1", "negative": None}}, "text or a number"),
        ({"label": {"column": "y"}}, '"label" needs'),
        ({"label": {"column": "y", "positive": "1", "negative": "1"}}, "classes must differ"),
        ({"label": {"column": "x", "positive": "1", "negative": "0"}}, "among the columns"),
    ],
)
def test_bad_domain_files_name_the_file(tmp_path, change, words):
    path = tmp_path / "domain.json"
    path.write_text(json.dumps({**GOOD_JSON, **change}))
    with pytest.raises(ValueError, match=words) as caught:
        domains.read_domain(path)
    assert "domain.json" in str(caught.value)


TWINS = json.dumps(GOOD_JSON).replace('"c":', '"x":')


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{\n "columns": \n}', r"domain.json, line 3"),
        (TWINS.encode(), r"domain.json: 'x' occurs twice in one object"),
        (json.dumps(GOOD_JSON).encode("utf-16"), "domain.json: not UTF-8 text"),
        ('{"columns": "\xe9"}'.encode("latin-1"), "domain.json: not UTF-8 text"),
        (b"[" * 100_000, "domain.json: .* nested too deeply"),
        (b'{"columns": ' + b"1" * 5000 + b"}", "domain.json: "),
    ],
)
def test_files_that_are_no_json_objects_are_named(tmp_path, content, words):
    (tmp_path / "domain.json").write_bytes(content)
    with pytest.raises(ValueError, match=words):
        domains.read_domain(tmp_path / "domain.json")


@pytest.mark.parametrize("wrong", [{}, None, 3])
def test_what_is_no_path_is_refused_by_name(wrong):
    with pytest.raises(ValueError, match="path must be a path or its text, got"):
        domains.read_domain(wrong)


def test_a_byte_order_mark_is_dropped(tmp_path):
    (tmp_path / "domain.json").write_text(json.dumps(GOOD_JSON), encoding="utf-8-sig")
    assert list(domains.read_domain(tmp_path / "domain.json")[0]) == ["x", "c"]


NO_DOMAINS = (None, ["age"], "age", DOMAIN.items(), {"age": None})


@pytest.mark.parametrize("wrong", NO_DOMAINS, ids=lambda wrong: type(wrong).__name__)
def test_what_is_no_domain_is_refused_by_all_that_read_one(wrong):
    for read in (
        domains.questions,
        domains.predicates,
        domains.attributes,
        audit.whole_domain,
        lambda domain: domains.describe(domain, 0),
        lambda domain: domains.encode(domain, COLUMNS),
        lambda domain: domains.positions(domain, COLUMNS),
        lambda domain: dpbt.table(domain, COLUMNS, [True] * 5),
    ):
        with pytest.raises(ValueError, match=r"must (map column names to|be) Numeric, Nominal"):
            read(wrong)


def test_numpy_numbers_declare_what_python_numbers_do():
    declared = Numeric(np.int8(-100), np.int8(100), bins=np.int64(5), missing=np.True_)
    assert declared == Numeric(-100, 100, bins=5, missing=True)
    assert declared.thresholds.tolist() == [-60, -20, 20, 60]
    assert Numeric(np.float32(0), np.float64(1)) == Numeric(0, 1)


def test_no_rows_are_encoded_as_no_rows():
    for nothing in ([], np.zeros(0), np.zeros(0, object)):
        columns = dict.fromkeys(DOMAIN, nothing)
        cells, places = domains.encode(DOMAIN, columns), domains.positions(DOMAIN, columns)
        assert (cells.shape, cells.dtype) == ((0, 3), np.uint8)
        assert (places.shape, places.dtype) == ((0, 6), np.float32)


def test_explanations_are_the_model():
    """Reading the rules by hand gives the model's scores."""
    rng = np.random.default_rng(0)
    columns = {
        "age": rng.uniform(0, 100, 60),
        "job": rng.choice(["clerk", "smith"], 60),
        "member": rng.integers(0, 2, 60),
    }
    labels = columns["age"] > 45
    table = dpbt.table(DOMAIN, columns, labels, negative="0", positive="1")
    splits = np.asarray(splits_of(table))
    model = dpbt.fit(jax.random.key(0), table, recipes.bdpe(epsilon=20, rows=60, rounds=3, depth=2))
    text = dpbt.explain(model, DOMAIN)
    assert text.count("tree ") == 3
    words = {domains.describe(DOMAIN, s): s for s in range(8)}
    score = dpbt.decision_function(model, table)
    for row in range(0, 60, 7):
        total, skip_deeper_than, previous = 0.0, None, {}
        for line in text.splitlines():
            indent = len(line) - len(line.lstrip())
            if skip_deeper_than is not None and indent > skip_deeper_than:
                continue
            skip_deeper_than = None
            body = line.strip()
            if body.startswith("if "):
                previous[indent] = bool(splits[row, words[body[3:-1]]])
                skip_deeper_than = None if previous[indent] else indent
            elif body == "else:":
                skip_deeper_than = indent if previous[indent] else None
            elif body.startswith("add "):
                total += float(body[4:])
        assert total == pytest.approx(float(score[row]), abs=2e-4)
    with pytest.raises(ValueError, match="other questions"):
        dpbt.explain(model, {"member": Boolean()})
