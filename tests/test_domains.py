"""Domains: encoding is total and public, words match bits, bad declarations are refused."""

import json
import re

import jax
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpbt
from dpbt import recipes
from dpbt.analysis import audit
from dpbt.data import domains
from dpbt.data.domains import Boolean, Label, Nominal, Numeric, WeightColumn, encode
from dpbt.data.splits import splits_of
from dpbt.learners.words import bins_in_words
from dpbt.recipes.oblivious import attributes_of

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

HAND = [
    # a kind, values, their bins, the splits in words, and what they are not
    (
        DOMAIN["age"],
        COLUMNS["age"],
        [0, 2, 4, 3, 0],
        "> 25, > 50, > 75, is missing",
        "<= 25",
    ),
    (DOMAIN["job"], COLUMNS["job"], [1, 2, 0, 1, 2], "= clerk, = smith, = other", "is not clerk"),
    (Nominal(("a", "b")), ["c", None, "A", "b"], [2, 2, 2, 1], "= a, = b", "is not a, is not b"),
    (
        Boolean("yes", "no", missing=True),
        ["yes", " no ", "?", None, True, np.False_, 1, "Yes"],
        [1, 0, 2, 2, 1, 0, 2, 2],
        ", is missing",
        "not x, is given",
    ),
    (Boolean("yes", "no"), ["yes", " no ", "?", None, True], [1, 0, 0, 0, 1], "", "not x"),
    (
        Numeric(0, 120, cuts=(18, 65.5), missing=True),
        [17, 18, 18.1, 65.5, 66, 999, -1, None],
        [0, 0, 1, 1, 2, 2, 0, 3],
        "> 18, > 65.5, is missing",
        "<= 18, <= 65.5, is given",
    ),
    (
        Numeric(0, 9999, 4, scale="log"),
        [0, 9, 9.5, 99, 100, 5000, 1e9, -1, None],
        [0, 0, 1, 1, 2, 3, 3, 0, 0],
        "> 9, > 99, > 999",
        "<= 9",
    ),
    (
        Nominal(("clerk", "smith", "king", "mason"), groups={"manual": ("mason", "smith")}),
        ["clerk", "smith", "mason", "king", "manual", None],
        [0, 1, 1, 2, 3, 3],
        "= clerk, = manual, = king",
        "is not clerk, is not manual, is not king",
    ),
    *(
        (
            Nominal(groups={"hand": ("smith", "mason"), "rest": ("rest", "king")}, other=other),
            ["mason", "king", "rest", "queen", None],
            [0, 1, 1, 1, 1],
            "= hand, = rest",
            "is not hand",
        )
        for other in ("rest", "king")
    ),
    (
        Nominal(groups={"even": range(0, 600, 2), "odd": range(1, 600, 2)}),
        [3, "4.0", 600],
        [1, 0, 2],
        "= even, = odd",
        "is not even",
    ),
    (
        Nominal(("low", "middle", "high"), ordered=True),
        ["middle", "high", "low", "LOW", None],
        [1, 2, 0, 3, 3],
        ">= middle, >= high",
        "< middle, < high",
    ),
]


def library_splits(domain, columns):
    """bool[N, S]: the splits of the library's table of these columns."""
    labels = [True] * len(next(iter(columns.values())))
    return np.asarray(splits_of(dpbt.table(domain, columns, labels, negative="0", positive="1")))


@pytest.mark.parametrize("case", range(len(HAND)))
def test_kinds_by_hand(case):
    """`test_splits.py` compares the splits of any bins with a reference."""
    kind, values, bins, yes, no = HAND[case]
    assert encode({"x": kind}, {"x": values})[:, 0].tolist() == bins
    said = domains.predicates({"x": kind})
    assert [split.yes for split in said] == [f"x {words}".strip() for words in yes.split(", ")]
    told = [words if words == "not x" else f"x {words}" for words in no.split(", ")]
    assert [split.no for split in said][: len(told)] == told
    splits = [(bin.low, bin.high) for bin in kind.splits("x")]
    expected = [[low <= bin <= high for low, high in splits] for bin in bins]
    np.testing.assert_array_equal(library_splits({"x": kind}, {"x": values}), expected)


def test_a_domain_is_its_columns_side_by_side():
    encoded = encode(DOMAIN, COLUMNS)
    assert encoded.dtype == np.uint8
    assert encoded.tolist() == [[0, 1, 1], [2, 2, 0], [4, 0, 0], [3, 1, 1], [0, 2, 1]]
    assert [domains.describe(DOMAIN, s) for s in (0, 3, 7)] == [
        "age > 25",
        "age is missing",
        "member",
    ]
    assert domains.describe(DOMAIN, 4, satisfied=False) == "job is not clerk"


def test_positions_by_hand():
    cut, gains = Numeric(0, 120, cuts=(18, 65.5), missing=True), Numeric(0, 9999, 4, scale="log")
    grid = domains.splits({"x": cut}).position
    assert grid[:, :4].tolist() == [[0, 0.5, 1, 0], [0, 0, 0, 1]]
    ordered = Nominal(("low", "middle", "high"), ordered=True)
    for kind, values, expected in (
        (cut, [0, 18, 60, 120], [0, 0.15, 0.5, 1]),
        (gains, [0, 4999.5, 9999], [0, 0.5, 1]),
        (ordered, ["middle", "high", "low", "LOW", None], [0.5, 1, 0, 0, 0]),
    ):
        for codes in (False, True):
            found = domains.positions({"x": kind}, {"x": values}, codes=codes)[:, 0]
            np.testing.assert_array_equal(found, np.float32(expected))
    (attribute,) = domains.attributes({"x": ordered})
    assert attribute.name == "x"
    assert [attribute(t).yes for t in (0, 0.4, 0.5, 0.9)] == ["x >= middle"] * 2 + ["x >= high"] * 2


@given(st.lists(st.floats(), min_size=1, max_size=20))
def test_numeric_encoding_is_total_and_monotone(values):
    domain, given_ = {"x": Numeric(-1, 3, bins=8)}, np.array(values)
    found = encode(domain, {"x": given_})[:, 0]
    order = np.argsort(np.nan_to_num(given_, nan=-np.inf))
    assert np.all(np.diff(found[order].astype(int)) >= 0)
    np.testing.assert_array_equal(found, encode(domain, {"x": np.clip(given_, -1, 3)})[:, 0])


@pytest.mark.parametrize("low", [0, 1e-6, 0.5, 3, 1e4])
def test_log_bins_are_equal_in_the_logarithm(low):
    """From 0 they are equal in that of one plus the number."""
    for high, bins in ((low * 1.5 or 0.5, 2), (low * 1e5 or 99999, 7), (low * 1e9 or 1e12, 255)):
        shift = low == 0
        steps = np.log((high + shift) / (low + shift)) * np.arange(1, bins) / bins
        expected = np.exp(np.log(low + shift) + steps) - shift
        found = Numeric(low, high, bins, scale="log").thresholds
        np.testing.assert_allclose(found, expected, rtol=1e-9)


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
    np.testing.assert_array_equal(encode({"x": kind}, {"x": values})[:, 0], exceeded)


def test_bins_in_words():
    """And what oblivious trees cut of each kind."""
    cut = Numeric(0, 1e8, cuts=(0.1, 1 / 3, 1234567, 12345678.5))
    said = [split.yes for split in domains.predicates({"x": cut})]
    assert said == ["x > 0.1", "x > 0.333333333333333", "x > 1234567", "x > 12345678.5"]
    values = ("low", "middle", "high")
    plain, ordered = Nominal(values), Nominal(values, ordered=True)
    grouped = Nominal(values, "low", groups={"more": ("middle", "high")}, ordered=True)
    domain = {"n": Numeric(0, 1, cuts=(0.5,)), "p": plain, "o": ordered, "g": grouped}
    assert attributes_of(domain) == ((2, True), (4, False), (4, True), (2, True))
    for kind, first, words in (
        (cut, 3, "> 1234567"),
        (ordered, 1, ">= middle or is not listed"),
        (ordered, 3, "is not listed"),
        (grouped, 1, ">= more"),
        (plain, 2, "in {high, not listed}"),
    ):
        assert bins_in_words(kind, np.arange(256) >= first) == words


def test_words_of_attributes_are_those_of_the_splits_with_the_same_bins():
    domain = {
        **DOMAIN,
        "cut": Numeric(0, 9, cuts=(1, 2, 8), missing=True),
        "log": Numeric(1, 9, bins=5, scale="log"),
        "group": Nominal(("a", "b", "c"), groups={"bc": ("b", "c")}),
        "order": Nominal(("a", "b", "c", "d"), groups={"bc": ("b", "c")}, ordered=True),
    }
    asked, words = domains.splits(domain), domains.predicates(domain)
    for attribute, feature, position in zip(
        domains.attributes(domain), asked.attribute, asked.position, strict=True
    ):
        for threshold in np.linspace(0.01, 0.99, 50):
            split = words.index(attribute(threshold))
            assert asked.feature[split] == feature
            inside = range(asked.low[split], asked.high[split] + 1)
            assert np.flatnonzero(position > threshold).tolist() == list(inside)


def test_declarations_are_kept_as_bins_are_read():
    assert Nominal((" 3.0 ", "03", 4)).values == ("3", "03", "4")
    assert Nominal(("3", "NA"), other=3.0).other == "3"
    assert Nominal(groups={"a": ("b", "c")}) == Nominal(("b", "c"), groups={"a": ("b", "c")})
    assert Boolean(1, 0.0) == Boolean("1", "0") == Boolean()
    assert Label("y", "1.0", " 0 ") == Label("y", "1", "0")
    assert Label("y", "1", "0") != Label("y", "1", "0", weight=WeightColumn("w", 3))
    declared = Numeric(np.int8(-100), np.int8(100), bins=np.int64(5), missing=np.True_)
    assert declared == Numeric(-100, 100, bins=5, missing=True)
    assert declared.thresholds.tolist() == [-60, -20, 20, 60]
    assert Numeric(np.float32(0), np.float64(1)) == Numeric(0, 1)


X = {"x": Boolean()}
THREE = Nominal(("a", "b", "c"))
HUGE = 10**400
RISING = "strictly increasing numbers"
BAD = [
    (lambda: Numeric(1, 1), RISING),
    (lambda: Numeric(0, np.inf), r"Numeric: high must be in \(-inf, inf\), got inf"),
    (lambda: Numeric(np.nan, 1), "Numeric: low must be in .*, got nan"),
    (lambda: Numeric(0, True), "Numeric: high must be a number .*, got True"),
    (lambda: Numeric(0, HUGE), "Numeric: high must be a number"),
    (lambda: Numeric(0, 1, bins=1), RISING),
    (lambda: Numeric(0, 1, bins=True), "bins must be an integer .*, got True"),
    (lambda: Numeric(0, 1, bins=HUGE), "Numeric: bins must be an integer"),
    (lambda: Numeric(0, 1, bins=256, missing=True), "bins must be at most 255, got 256"),
    (lambda: Numeric(0, 1, missing="no"), "Numeric: missing must be True or False, got"),
    (lambda: Numeric(-1e308, 1e308), RISING),
    (lambda: Numeric(0, 9, cuts=()), RISING),
    (lambda: Numeric(0, 9, cuts=(1, 9)), RISING),
    (lambda: Numeric(0, 9, cuts=(2, 1)), RISING),
    (lambda: Numeric(0, 9, cuts=4), "Numeric: cuts must be a list, got 4"),
    (lambda: Numeric(0, 9, cuts=(4, None)), "a cut must be a number .*, got None"),
    (lambda: Numeric(0, 999, cuts=range(1, 257)), "at most 256, got 257"),
    (lambda: Numeric(0, 9, bins=4, cuts=(1, 2)), "cuts make 3 bins of no other scale, got bins=4"),
    (lambda: Numeric(0, 9, cuts=(1, 2), scale="log"), "cuts make 3 bins .*scale='log' beside them"),
    (lambda: Numeric(0, 9, scale="LOG"), "scale must be one of .*, got 'LOG'"),
    (lambda: Numeric(-1, 9, scale="log"), "from 0 on if the scale is log"),
    (lambda: Numeric(1, 1 + 1e-15, scale="log"), RISING),
    (lambda: Nominal("clerk"), "Nominal: values must be a list, got 'clerk'"),
    (lambda: Nominal((np.nan,)), "Nominal: a declared value must be text .*, got nan"),
    (lambda: Nominal(()), "1 to 256 bins"),
    (lambda: Nominal(("a", "a")), "values must be distinct"),
    (lambda: Nominal(("a",), other="b"), "other must be one of"),
    (lambda: Nominal(tuple(map(str, range(256)))), "256 bins.*got 257"),
    (lambda: Nominal(groups={"g": "a"}), "must be a list, got"),
    (lambda: Nominal(groups={None: ("a",)}), "a declared value must be text"),
    (lambda: Nominal(groups={1: ("a",), "1.0": ("b",)}), "distinct"),
    (lambda: Nominal(groups={"g": ("a", "b"), "h": ("b",)}), "one of the groups"),
    (lambda: Nominal(groups={"g": ("a",)}, other="z"), "one of the values, got 'z'"),
    (lambda: Nominal(("a", "b"), ordered=1), "ordered must be True or False, got 1"),
    (lambda: Nominal(groups={"g": ("a", "b")}, ordered=True), "and 2 without it if ordered"),
    (lambda: Boolean(np.nan, "0"), "Boolean: true must be text or a number, got nan"),
    (lambda: Boolean(missing=1), "Boolean: missing must be True or False, got 1"),
    (lambda: Boolean("yes"), "Boolean: false must be text or a number, got None"),
    (lambda: Boolean("1", "1.0"), "true and false must differ"),
    (lambda: Label("y", "1", "1.0"), "true and false must differ"),
    (lambda: Label("y"), "positive must be text or a number"),
    (lambda: Label("y", "a"), "negative must be text or a number"),
    (lambda: Label("y", "a", "b", THREE), "and not both"),
    (lambda: Label("y", target=Nominal(("a",))), "two classes or more"),
    (lambda: Label("y", target=Boolean("a", "b")), "target must be domains.Nominal"),
    (lambda: Label("y", target=Numeric(0, 1, scale="log", bins=4)), "low and high alone"),
    (lambda: Label("y", target=THREE, weight=WeightColumn("y", 3)), "both labels and weights"),
    (lambda: Label("y", target=THREE, weight=WeightColumn("w", 0)), "greater than 0 .*, got 0"),
    (lambda: Label("y", target=THREE, weight=WeightColumn(3, 3)), "column must be a name"),
    (lambda: encode(DOMAIN, {"age": [1]}), r"lacks columns \['job', 'member'\]"),
    (lambda: encode(DOMAIN, {**COLUMNS, "age": [1.0]}), r"'member'\] differ"),
    (lambda: encode(X, {"x": "01"}), "'x': .*sequence of cells"),
    (lambda: encode(X, {"x": np.eye(2)}), "column 'x': a column must have one dimension, got 2"),
    (lambda: encode({"x": "number"}, {"x": [1]}), "must be Numeric, Nominal"),
    (lambda: encode(COLUMNS, DOMAIN), "'age' must be Numeric.*, got list$"),
    (lambda: encode({}, {}), "at least one column"),
    (lambda: domains.describe(DOMAIN, "age"), r"splits 0\.\.7, got 'age'"),
    (lambda: domains.describe(DOMAIN, 8), r"splits 0\.\.7, got 8"),
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_bad_declarations_and_data_are_refused(case):
    act, words = BAD[case]
    with pytest.raises(ValueError, match=words) as caught:
        act()
    assert "\n" not in str(caught.value)


NUMERIC = {"type": "numeric", "low": 0, "high": 1}
GOOD = {
    "columns": {"x": NUMERIC, "c": {"type": "nominal", "values": ["a", "b"]}},
    "label": {"column": "y", "positive": "1", "negative": "0"},
}
KINDS = {
    "grid": ({**NUMERIC, "bins": 7}, Numeric(0, 1, 7)),
    "cuts": (
        {"type": "numeric", "low": 0, "high": 120, "cuts": [18, 65.5], "missing": True},
        Numeric(0, 120, cuts=(18, 65.5), missing=True),
    ),
    "log": ({**NUMERIC, "bins": 20, "scale": "log"}, Numeric(0, 1, 20, scale="log")),
    "values": ({"type": "nominal", "values": ["a", 3], "other": 3}, Nominal(("a", "3"), "3")),
    "groups": (
        {"type": "nominal", "groups": {"g": ["a", 3], "h": ["b"]}, "other": "g"},
        Nominal(groups={"g": ("a", 3), "h": ("b",)}, other="g"),
    ),
    "ordered": (
        {"type": "nominal", "values": ["a", "b"], "ordered": True},
        Nominal(("a", "b"), ordered=True),
    ),
    "words": (
        {"type": "boolean", "true": "yes", "false": "no", "missing": True},
        Boolean("yes", "no", missing=True),
    ),
    "boolean": ({"type": "boolean"}, Boolean()),
}
LABELS = [
    ({"positive": 1, "negative": 0}, Label("y", "1", "0")),
    ({"type": "nominal", "values": ["a", "b", "c"]}, Label("y", target=THREE)),
    (
        {"type": "nominal", "values": [3, 1, 2], "other": 3},
        Label("y", target=Nominal(("3", "1", "2"), "3")),
    ),
    ({"type": "numeric", "low": 0, "high": 30}, Label("y", target=Numeric(0, 30))),
]


@pytest.fixture
def read(tmp_path):
    """Reads a file that has the changed entries."""

    def one(**change):
        (tmp_path / "domain.json").write_text(json.dumps({**GOOD, **change}), encoding="utf-8-sig")
        return domains.read_domain(tmp_path / "domain.json")

    return one


def test_every_declaration_from_json(read):
    """Also what the declared columns hold, written as JSON, gives the same columns."""
    assert read() == ({"x": Numeric(0, 1), "c": Nominal(("a", "b"))}, Label("y", "1", "0"))
    expected = {name: kind for name, (_, kind) in KINDS.items()}
    again = {name: domains.column_to_json(kind) for name, kind in expected.items()}
    for columns in ({name: entry for name, (entry, _) in KINDS.items()}, again):
        domain, _ = read(columns=columns)
        assert domain == expected
        assert [hash(kind) for kind in domain.values()] == [hash(k) for k in expected.values()]


@pytest.mark.parametrize(("entry", "label"), LABELS)
def test_every_label_from_json(read, entry, label):
    assert read(label={"column": "y", **entry})[1] == label
    found = read(label={"column": "y", **entry}, weight={"column": "w", "most": 3})[1]
    assert found == msgspec.structs.replace(label, weight=WeightColumn("w", 3))
    assert (label.columns, found.columns) == (("y",), ("y", "w"))
    names = {"negative", "positive"} if label.target is None else {"target"}
    assert set(label.options) == names
    assert found.options == {**label.options, "max_weight": 3}
    words = {Nominal: getattr(label.target, "values", None), type(None): ("0", "1")}
    assert label.classes == words.get(type(label.target))


Y = {"column": "y", "positive": "1", "negative": "0"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"columns": {}}, "at least one column"),
        ({"columns": [3]}, 'expected an object with "columns"'),
        ({"columns": {"x": {"type": "complex"}}}, "column 'x': Invalid value 'complex'"),
        ({"columns": {"x": {"type": "numeric", "low": 0}}}, "column 'x'.*`high`"),
        ({"columns": {"x": {**NUMERIC, "step": 1}}}, "column 'x'.*unknown field `step`"),
        ({"columns": {"x": {"type": "boolean", "true": True}}}, "got `bool`.*true"),
        ({"columns": {"x": {"type": "nominal", "values": ["a", True]}}}, "got `bool`.*values"),
        ({"columns": {"x": {"type": "nominal", "groups": {"g": [True]}}}}, "got `bool`.*groups"),
        ({"rows": 100}, 'expected an object with "columns"'),
        ({"label": {**Y, "column": ["y"]}}, "label: Expected `str`.*column"),
        ({"label": {**Y, "positive": True, "negative": False}}, "label: .*got `bool`.*positive"),
        ({"label": {**Y, "negative": None}}, "text or a number"),
        ({"label": {**Y, "column": "x"}}, "the label 'x' is among the columns"),
        ({"label": {"column": "y"}}, "label: positive must be text"),
        ({"label": {"type": "nominal", "values": ["a", "b", "c"]}}, "label: .*column"),
        ({"label": {"column": "y", "type": "nominal", "values": []}}, "label: Nominal: a column"),
        ({"label": {"column": "y", **NUMERIC, "low": None}}, "label: .*low"),
        ({"label": {"column": "y", "type": "boolean"}}, "label: Invalid value 'boolean'"),
        ({"weight": {"column": "x", "most": 3}}, "the weight 'x' is among the columns"),
        ({"weight": {"column": "w"}}, "label: .*`most`"),
    ],
)
def test_bad_domain_files_name_the_file(read, change, words):
    with pytest.raises(ValueError, match=rf"domain\.json: .*{words}"):
        read(**change)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{\n "columns": \n}', "the domain is no JSON, or cut off: line 3"),
        (json.dumps(GOOD).replace('"c":', '"x":').encode(), "'x' occurs twice in one object"),
        (json.dumps(GOOD).encode("utf-16"), "holds bytes that are no text"),
        (b'{"columns": ' + b"1" * 5000 + b"}", "digits"),
    ],
)
def test_files_that_are_no_json_objects_are_named(tmp_path, content, words):
    """`test_formats.py` has more of them."""
    (tmp_path / "domain.json").write_bytes(content)
    with pytest.raises(ValueError, match=rf"domain\.json: .*{words}"):
        domains.read_domain(tmp_path / "domain.json")


@pytest.mark.parametrize("wrong", [{}, None, 3])
def test_what_is_no_path_is_refused_by_name(wrong):
    with pytest.raises(ValueError, match="path must be a path or its text, got"):
        domains.read_domain(wrong)


@pytest.mark.parametrize("wrong", [None, ["age"], "age", DOMAIN.items(), {"age": None}])
def test_what_is_no_domain_is_refused_by_all_that_read_one(wrong):
    for read in (
        domains.splits,
        domains.predicates,
        domains.attributes,
        audit.whole_domain,
        lambda domain: domains.describe(domain, 0),
        lambda domain: encode(domain, COLUMNS),
        lambda domain: domains.positions(domain, COLUMNS),
        lambda domain: dpbt.table(domain, COLUMNS, [True] * 5),
    ):
        with pytest.raises(ValueError, match=r"must (map column names to|be) Numeric, Nominal"):
            read(wrong)


def test_no_rows_are_encoded_as_no_rows():
    for nothing in ([], np.zeros(0), np.zeros(0, object)):
        columns = dict.fromkeys(DOMAIN, nothing)
        bins, places = encode(DOMAIN, columns), domains.positions(DOMAIN, columns)
        assert (bins.shape, bins.dtype) == ((0, 3), np.uint8)
        assert (places.shape, places.dtype) == ((0, 6), np.float32)


def test_explanations_are_the_model():
    """The rules, run as a program, give the model's scores."""
    rng = np.random.default_rng(0)
    columns = {
        "age": rng.uniform(0, 100, 60),
        "job": rng.choice(["clerk", "smith"], 60),
        "member": rng.integers(0, 2, 60),
    }
    table = dpbt.table(DOMAIN, columns, columns["age"] > 45, negative="0", positive="1")
    model = dpbt.fit(jax.random.key(0), table, recipes.bdpe(epsilon=20, rows=60, rounds=3, depth=2))
    text = dpbt.explain(model, DOMAIN)
    assert text.count("tree ") == 3
    program = re.sub(r"if (.*):", r"if holds['\1']:", re.sub(r"add (.*)", r"total += \1", text))
    lines = [line for line in program.splitlines() if re.match(r" *(if|else|total)", line)]
    score = dpbt.decision_function(model, table)
    for splits, expected in list(zip(np.asarray(splits_of(table)), score, strict=True))[::7]:
        holds = {domains.describe(DOMAIN, s): split for s, split in enumerate(splits)}
        scope = {"holds": holds, "total": 0.0}
        exec("if True:\n" + "\n".join(lines), scope)
        assert scope["total"] == pytest.approx(float(expected), abs=2e-4)
    with pytest.raises(ValueError, match="other splits"):
        dpbt.explain(model, {"member": Boolean()})
