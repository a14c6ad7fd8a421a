"""Domains: encoding is total and public, words match bits, bad declarations are refused."""

import contextlib
import json

import msgspec
import numpy as np
import pytest

import dpbt
from dpbt.data import domains
from dpbt.data.domains import Boolean, Label, Nominal, Numeric, WeightColumn, encode
from dpbt.learners.model_parts import describe_bins_as_condition
from dpbt.recipes.bins import split_attributes_of_domain
from tests.support.example_tables import library_splits

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
    (DOMAIN["age"], COLUMNS["age"], [0, 2, 4, 3, 0], "> 25, > 50, > 75, is missing", "<= 25"),
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
        Numeric(1, 10_000, 4, scale="log"),
        [1, 9.9, 10.1, 99, 101, 999, 1001],
        [0, 0, 1, 1, 2, 2, 3],
        "> 10, > 100, > 1000",
        "<= 10",
    ),
    (
        Nominal(("low", "middle", "high"), ordered=True),
        ["middle", "high", "low", "LOW", None],
        [1, 2, 0, 3, 3],
        ">= middle, >= high",
        "< middle, < high",
    ),
]


def test_columns_of_every_kind_are_encoded_as_by_hand():
    for kind, values, bins, yes, no in HAND:
        assert encode({"x": kind}, {"x": values})[:, 0].tolist() == bins
        said = domains.predicates({"x": kind})
        assert [split.yes for split in said] == [f"x {words}".strip() for words in yes.split(", ")]
        told = [words if words == "not x" else f"x {words}" for words in no.split(", ")]
        assert [split.no for split in said][: len(told)] == told
        splits = [(bin.low, bin.high) for bin in kind.splits("x")]
        expected = [[low <= bin <= high for low, high in splits] for bin in bins]
        np.testing.assert_array_equal(library_splits({"x": kind}, {"x": values}), expected)


def test_positions_are_those_computed_by_hand():
    cut, gains = Numeric(0, 120, cuts=(18, 65.5), missing=True), Numeric(0, 9999, 4, scale="log")
    grid = domains.splits({"x": cut}).position
    assert grid[:, :4].tolist() == [[0, 0.5, 1, 0], [0, 0, 0, 1]]
    ordered = Nominal(("low", "middle", "high"), ordered=True)
    for kind, values, expected in (
        (cut, [0, 18, 60, 120], [0, 0.15, 0.5, 1]),
        (gains, [0, 4999.5, 9999], [0, 0.5, 1]),
        (ordered, ["middle", "high", "low", "LOW", None], [0.5, 1, 0, 0, 0]),
    ):
        found = domains.encode_positions({"x": kind}, {"x": values})[:, 0]
        np.testing.assert_array_equal(found, np.float32(expected))


def test_a_bin_is_described_in_words():
    """And what oblivious trees cut of each kind."""
    cut = Numeric(0, 1e8, cuts=(0.1, 1 / 3, 1234567, 12345678.5))
    said = [split.yes for split in domains.predicates({"x": cut})]
    assert said == ["x > 0.1", "x > 0.333333333333333", "x > 1234567", "x > 12345678.5"]
    values = ("low", "middle", "high")
    plain, ordered = Nominal(values), Nominal(values, ordered=True)
    domain = {"n": Numeric(0, 1, cuts=(0.5,)), "p": plain, "o": ordered}
    assert split_attributes_of_domain(domain) == ((2, True), (4, False), (4, True))
    for kind, first, words in (
        (cut, 3, "> 1234567"),
        (Numeric(0, 2, cuts=(1,), missing=True), 1, "> 1 or x is missing"),
        (ordered, 1, ">= middle or x is not listed"),
        (ordered, 3, "is not listed"),
        (plain, 2, "in {high, not listed}"),
        (Nominal(values, other="low"), 2, "= high"),
        (Boolean(missing=True), 1, "in {1, missing}"),
    ):
        assert describe_bins_as_condition("x", kind, np.arange(256) >= first) == f"x {words}"


def test_declarations_are_kept_as_bins_are_read():
    assert Nominal((" 3.0 ", "03", 4)).values == ("3", "03", "4")
    assert Nominal(("3", "NA"), other=3.0).other == "3"
    assert Boolean(1, 0.0) == Boolean("1", "0") == Boolean()
    assert Label("y", "1.0", " 0 ") == Label("y", "1", "0")
    assert Label("y", "1", "0") != Label("y", "1", "0", weight=WeightColumn("w", 3))
    declared = Numeric(np.int8(-100), np.int8(100), bins=np.int64(5), missing=np.True_)
    assert declared == Numeric(-100, 100, bins=5, missing=True)
    assert declared.thresholds.tolist() == [-60, -20, 20, 60]
    assert Numeric(np.float32(0), np.float64(1)) == Numeric(0, 1)


X = {"x": Boolean()}
THREE = Nominal(("a", "b", "c"))
RISING = "strictly increasing numbers"
BAD = [
    (lambda: Numeric(1, 1), RISING),
    (lambda: Numeric(0, np.inf), "high must be in .*, got inf"),
    (lambda: Numeric(0, 1, bins=256, missing=True), "bins must be at most 255, got 256"),
    (lambda: Numeric(0, 1, missing="no"), "missing must be True or False"),
    (lambda: Numeric(0, 9, cuts=(2, 1)), RISING),
    (lambda: Numeric(0, 9, cuts=(1, 2), scale="log"), "cuts make 3 bins"),
    (lambda: Numeric(-1, 9, scale="log"), "from 0 on"),
    (lambda: Nominal("clerk"), "values must be a list"),
    (lambda: Nominal(("a", "a")), "distinct"),
    (lambda: Nominal(("a",), other="b"), "one of the values"),
    (lambda: Nominal(tuple(map(str, range(256)))), "got 257"),
    (lambda: Boolean("yes"), "false must be text or a number, got None"),
    (lambda: Label("y", "a", "b", THREE), "and not both"),
    (lambda: Label("y", target=Numeric(0, 1, scale="log", bins=4)), "low and high alone"),
    (
        lambda: Label("y", target=THREE, weight=WeightColumn("y", 3)),
        "labels, weights and ids of users must differ",
    ),
    (lambda: Label("y", target=THREE, weight=WeightColumn(3, 3)), "column must be a name"),
    (lambda: encode(X, {"x": np.eye(2)}), "column 'x': a column must have one dimension"),
    (lambda: encode(COLUMNS, DOMAIN), "'age' must be Numeric.*, got list$"),
    (lambda: domains.splits(DOMAIN.items()), "must map column names to Numeric, Nominal"),
]


def test_bad_declarations_and_data_are_refused():
    for act, words in BAD:
        with pytest.raises(ValueError, match=words) as caught:
            act()
        assert "\n" not in str(caught.value)


NUMERIC = {"type": "numeric", "low": 0, "high": 1}
GOOD = {
    "columns": {"x": NUMERIC, "c": {"type": "nominal", "values": ["a", "b"]}},
    "label": {"column": "y", "positive": "1", "negative": "0"},
}
KINDS = {
    "cuts": Numeric(0, 120, cuts=(18, 65.5), missing=True),
    "log": Numeric(0, 1, 20, scale="log"),
    "values": Nominal(("a", "3"), "3"),
    "ordered": Nominal(("a", "b"), ordered=True),
    "words": Boolean("yes", "no", missing=True),
}
LABELS = [
    ({"positive": 1, "negative": 0}, Label("y", "1", "0")),
    ({"type": "nominal", "values": ["a", "b", "c"]}, Label("y", target=THREE)),
    ({"type": "numeric", "low": 0, "high": 30}, Label("y", target=Numeric(0, 30))),
]


@pytest.fixture
def read(tmp_path):
    """Reads a file that has the changed entries."""

    def one(**change):
        (tmp_path / "domain.json").write_text(json.dumps({**GOOD, **change}), encoding="utf-8-sig")
        return domains.read_domain(tmp_path / "domain.json")

    return one


def test_every_declaration_is_read_from_json(read):
    assert read() == ({"x": Numeric(0, 1), "c": Nominal(("a", "b"))}, Label("y", "1", "0"))
    again, _ = read(columns={name: msgspec.to_builtins(kind) for name, kind in KINDS.items()})
    assert again == KINDS
    assert [hash(kind) for kind in again.values()] == [hash(kind) for kind in KINDS.values()]


@pytest.mark.parametrize(("entry", "label"), LABELS)
def test_every_label_is_read_from_json(read, entry, label):
    assert read(label={"column": "y", **entry})[1] == label
    found = read(label={"column": "y", **entry}, weight={"column": "w", "most": 3})[1]
    assert found == msgspec.structs.replace(label, weight=WeightColumn("w", 3))
    assert found.columns == ("y", "w")
    assert found.options == {**label.options, "max_weight": 3}


Y = {"column": "y", "positive": "1", "negative": "0"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"columns": {}}, "at least one column"),
        (
            {"columns": {"x": {"type": "complex"}}},
            "column 'x': a column is one of these kinds, .*nominal",
        ),
        ({"columns": {"x": {"type": "numeric", "low": 0}}}, "column 'x'.*`high`"),
        ({"columns": {"x": {**NUMERIC, "step": 1}}}, "column 'x'.*unknown field `step`"),
        ({"label": {**Y, "column": "x"}}, "the label 'x' is among the columns"),
        ({"label": {**Y, "user": {"column": "u", "most": 2}}}, "stand beside"),
        ({"label": {"column": "y", "type": "nominal", "values": []}}, "label: Nominal: a column"),
    ],
)
def test_bad_domain_files_name_the_file(read, change, words):
    with pytest.raises(ValueError, match=rf"domain\.json: .*{words}"):
        read(**change)


def test_a_template_names_columns_and_is_no_domain_before_it_is_filled_in(tmp_path):
    text = domains.template(["age", 'größe "b"', "y"], label="y")
    (tmp_path / "domain.json").write_text(text)
    with pytest.raises(ValueError, match="column 'age'"):
        domains.read_domain(tmp_path / "domain.json")
    content = json.loads(text)
    content["columns"] = {name: {"type": "boolean"} for name in content["columns"]}
    content["label"] |= {"positive": "1", "negative": "0"}
    (tmp_path / "domain.json").write_text(json.dumps(content))
    expected = {"age": Boolean(), 'größe "b"': Boolean()}, Label("y", "1", "0")
    assert domains.read_domain(tmp_path / "domain.json") == expected
    for names, label in ((["a"], "a"), (["a"], "b"), (["a", "a"], None), ([1], None)):
        with pytest.raises(ValueError, match="column"):
            domains.template(names, label)


def test_patterns_cover_public_names_and_explicit_names_win(tmp_path):
    wide, narrow = ({"type": "numeric", "low": 0, "high": high} for high in (100, 1))
    columns = {"x*": narrow, "b": {"type": "boolean"}, "*": wide}
    names = ["a", "x2", "y", "b", "x1"]
    kinds = [Numeric(0, 100), Numeric(0, 1), Boolean(), Numeric(0, 1)]
    expected = list(zip(["a", "x2", "b", "x1"], kinds, strict=True))
    path = tmp_path / "domain.json"

    def read(header=None, **more):
        path.write_text(json.dumps({"columns": columns, "label": Y, **more}))
        return list(domains.read_domain(path, header)[0].items())

    assert read(iter(names)) == read(["other"], names=names) == expected
    for given, words in ((None, "needs the names"), (["b"], "none of"), (["x1", "1e3"], "numbers")):
        with pytest.raises(ValueError, match=rf"domain\.json: column .*{words}") as refused:
            read(given)
        assert "1e3" not in str(refused.value)  # a cell, if the header was forgotten
    columns = {"*": wide}
    assert [name for name, _ in read(names=["1", "2"])] == ["1", "2"]


class RepeatingMapping(dict):
    """A mapping that lists a name twice, as those of forms and mail headers do."""

    def keys(self):
        return [*super().keys(), "a"]


class FrameOfTwins:
    """A data frame with two columns "a", which gives both for the name, as pandas does."""

    columns = ("a", "a", "b")

    def __len__(self):
        return 2

    def __getitem__(self, name):
        twins = FrameOfTwins()
        twins.columns = tuple(one for one in self.columns if one == name)
        return twins if len(twins.columns) > 1 else [0.5, 0.5]

    def __iter__(self):
        return iter(self.columns)


TWINS_DOMAIN = {"a": Nominal(("a", "c")), "b": Numeric(0, 1)}


def frames_of_twins():
    yield FrameOfTwins()
    yield RepeatingMapping(a=["a", "c"], b=[0, 1])
    with contextlib.suppress(ImportError):
        import pandas

        yield pandas.DataFrame([["c", "c", 0.5]] * 2, columns=["a", "a", "b"])
    with contextlib.suppress(ImportError):
        import pyarrow

        yield pyarrow.table([["c", "c"], ["c", "c"], [0.5, 0.5]], names=["a", "a", "b"])


@pytest.mark.parametrize("frame", [*frames_of_twins()], ids=lambda frame: type(frame).__name__)
def test_two_columns_of_one_name_are_refused(frame, tmp_path):
    """A name of two columns gives a frame, of which Python's list would be the names."""
    labels = [True, False]
    readers = [
        lambda: domains.encode(TWINS_DOMAIN, frame),
        lambda: domains.encode_positions(TWINS_DOMAIN, frame),
        lambda: dpbt.table(TWINS_DOMAIN, frame, labels),
        lambda: dpbt.convert.convert_columns(TWINS_DOMAIN, frame, labels, tmp_path / "blocks"),
        lambda: dpbt.convert.raw_rows_of_columns(domains.Label("a", "a", "c"), frame),
    ]
    for read in readers:
        with pytest.raises(ValueError, match="must have distinct names, and \\['a'\\] repeat"):
            read()
    if not isinstance(frame, dict):  # a column that is not read may be there twice
        domains.encode({"b": Numeric(0, 1)}, frame)


def test_a_frame_is_no_column():
    twins = FrameOfTwins()
    for columns, labels in (({"a": twins, "b": [0, 1]}, [True, False]), (None, twins)):
        with pytest.raises(ValueError, match="a column must have one dimension, got a data frame"):
            dpbt.table(TWINS_DOMAIN, columns or {"a": ["a", "c"], "b": [0, 1]}, labels)


def test_names_of_a_file_are_distinct(tmp_path):
    """Else the columns of a file without a header would be counted off by one."""
    label = {"column": "y", "positive": "1", "negative": "0"}
    content = {"columns": {"*": {"type": "boolean"}}, "label": label, "names": ["a", "b", "a"]}
    path = tmp_path / "domain.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match='"names" must be distinct'):
        domains.read_domain(path)
