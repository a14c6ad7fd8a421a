"""Domains: encoding is total and public, words match bits, bad declarations are refused."""

import json

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpbt
from dpbt import recipes
from dpbt.data import domains
from dpbt.data.domains import Boolean, Nominal, Numeric
from dpbt.data.questions import splits_of
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


def test_declared_values_are_kept_as_cells_are_read():
    assert Nominal((" 3.0 ", "03", 4)).values == ("3", "03", "4")
    assert Nominal(("3", "NA"), other=3.0).other == "3"
    assert Boolean(1, 0.0) == Boolean("1", "0") == Boolean()
    assert domains.Label("y", "1.0", " 0 ") == domains.Label("y", "1", "0")


BAD = {
    "bounds": (lambda: Numeric(1, 1), "finite low < high"),
    "infinite": (lambda: Numeric(0, np.inf), "finite low < high"),
    "bins": (lambda: Numeric(0, 1, bins=1), "at least 2 bins"),
    "values": (lambda: Nominal(()), "distinct values"),
    "twice": (lambda: Nominal(("a", "a")), "distinct values"),
    "other": (lambda: Nominal(("a",), other="b"), "other must be one of"),
    "alike": (lambda: Nominal(("1", "1.0")), "distinct values"),
    "no word": (lambda: Nominal(("a", None)), "must be text or a number, got None"),
    "many bins": (lambda: Numeric(0, 1, bins=257), "at most 256 cells.*got 257"),
    "many with missing": (lambda: Numeric(0, 1, bins=256, missing=True), "256 cells.*got 257"),
    "many values": (lambda: Nominal(tuple(map(str, range(256)))), "256 cells.*got 257"),
    "too wide": (lambda: Numeric(-1e308, 1e308), r"finite bins \* \(high - low"),
    "one word": (lambda: Boolean("yes"), "true='yes' must declare its word for false"),
    "words alike": (lambda: Boolean("1", "1.0"), "true and false must differ"),
    "classes alike": (lambda: domains.Label("y", "1", "1.0"), "classes must differ"),
    "missing column": (
        lambda: domains.encode(DOMAIN, {"age": [1]}),
        r"lacks columns \['job', 'member'\]",
    ),
    "lengths": (lambda: domains.encode(DOMAIN, {**COLUMNS, "age": [1.0]}), r"'member'\] differ"),
    "text": (lambda: domains.encode({"x": Boolean()}, {"x": "01"}), "'x': .*sequence of cells"),
    "scalar": (lambda: domains.encode({"x": Boolean()}, {"x": True}), "column 'x': .*got bool"),
    "set": (lambda: domains.encode({"x": Boolean()}, {"x": {True}}), "column 'x': .*got set"),
    "matrix": (lambda: domains.encode({"x": Boolean()}, {"x": np.eye(2)}), "one dimension, got 2"),
    "no kind": (lambda: domains.encode({"x": "number"}, {"x": [1]}), "must be Numeric, Nominal"),
    "empty": (lambda: domains.encode({}, {}), "at least one column"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_declarations_and_data_are_refused(name):
    act, words = BAD[name]
    with pytest.raises(ValueError, match=words):
        act()


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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"columns": {}}, 'expected an object with "columns"'),
        ({"columns": {"x": {"type": "complex"}}}, "column 'x': type must be one of"),
        ({"columns": {"x": {"type": "numeric", "low": 0}}}, "column 'x'.*high"),
        ({"columns": {"x": {"type": "numeric", "low": 2, "high": 0}}}, "column 'x'.*low < high"),
        ({"columns": {"x": {"type": "boolean", "true": "yes"}}}, "column 'x'.*word for false"),
        ({"columns": {"x": {"type": "boolean", "missing": "no"}}}, "column 'x'.*got 'no'"),
        ({"columns": {"x": {"type": "nominal", "values": "ab"}}}, "column 'x'.*a list of values"),
        ({"columns": {"x": {"type": "nominal", "values": 3}}}, "column 'x'.*a list of values"),
        ({"columns": {"x": {"type": "nominal", "values": [3, "3.0"]}}}, "column 'x'.*distinct"),
        (
            {"columns": {"x": {"type": "numeric", "low": 0, "high": 1, "bins": 300}}},
            "column 'x'.*at most 256 cells",
        ),
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


def test_broken_json_names_the_line(tmp_path):
    path = tmp_path / "domain.json"
    path.write_text('{\n "columns": \n}')
    with pytest.raises(ValueError, match=r"domain.json, line 3"):
        domains.read_domain(path)


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
