"""A private text file: one line is one row, whatever it holds; and the table of its rows."""

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpbt
from dpbt import recipes
from dpbt.data import domains
from dpbt.data.domains import Boolean, Label, Numeric
from dpbt.data.files import read_csv
from tests import filerows

SMALL = {"age": Numeric(0, 100, bins=2, missing=True), "member": Boolean("yes", "no")}
LABEL = Label("ill", "1", "0")
HEADER = b"age,member,ill"


@pytest.fixture
def read(tmp_path):
    def one(*lines, end=b"\n"):
        (tmp_path / "rows.csv").write_bytes(end.join([HEADER, *lines, b""]))
        return read_csv(tmp_path / "rows.csv", SMALL, LABEL)

    return one


def test_a_file_by_hand(read):
    rows = read(b"41, yes ,1", b'"6,1",no,0', b"", b"NA,maybe,2")
    assert rows.columns["age"] == ["41", "6,1", None, "NA"]
    assert rows.columns["member"] == ["yes ", "no", None, "maybe"]
    assert rows.labels == ["1", "0", None, "2"]
    assert rows.malformed.tolist() == [False, False, True, False]
    assert repr(rows) == "Rows(columns=['age', 'member'], cells not shown)"


def test_line_ends_and_marks(read, tmp_path):
    lines = (b"1,yes,1", b"2,no,0")
    plain = read(*lines)
    for content in (
        b"\r\n".join([HEADER, *lines, b""]),
        b"\n".join([HEADER, *lines]),
        b"\xef\xbb\xbf" + b"\n".join([b' "age" , member,ill'.replace(b'" ,', b'",'), *lines]),
    ):
        (tmp_path / "other.csv").write_bytes(content)
        rows = read_csv(tmp_path / "other.csv", SMALL, LABEL)
        assert (rows.columns, rows.labels) == (plain.columns, plain.labels)


@pytest.mark.parametrize("place", range(12))
def test_malformed_lines_are_rows_without_values(read, place):
    rows = read(b"1,yes,1", filerows.ODD_LINES[place].removeprefix(b"x,"), b"2,no,0")
    assert rows.malformed.tolist() == [False, True, False]
    assert rows.columns == {"age": ["1", None, "2"], "member": ["yes", None, "no"]}
    assert rows.labels == ["1", None, "0"]


CELL = st.sampled_from(["41", "yes", "no", "1", "0", '"', '""', "", "\0", "\r"])
LINE = st.one_of(
    st.sampled_from(filerows.ODD_LINES),
    st.binary(max_size=20),
    st.lists(CELL, max_size=5).map(lambda cells: ",".join(cells).encode()),
).map(lambda line: line.replace(b"\n", b""))


@given(st.lists(LINE, max_size=6), LINE, st.data())
def test_a_line_changes_no_other(tmp_path_factory, lines, odd, data):
    path = tmp_path_factory.getbasetemp() / "property.csv"

    def cells_of(these):
        path.write_bytes(b"\n".join([HEADER, *these, b""]))
        rows = read_csv(path, SMALL, LABEL)
        columns = {**rows.columns, "ill": rows.labels, "malformed": rows.malformed.tolist()}
        return list(zip(*columns.values(), strict=True))

    alone = cells_of(lines)
    assert len(alone) == len(lines)
    assert cells_of([*lines, odd])[:-1] == alone
    place = data.draw(st.integers(0, len(lines)))
    inserted = cells_of([*lines[:place], odd, *lines[place:]])
    assert inserted[:place] + inserted[place + 1 :] == alone


def test_the_field_limit_is_no_error(read):
    longest = b"1" * 131_072
    rows = read(b"1,yes,1", longest + b",yes,1", longest + b"1,yes,1", b"2,no,0")
    assert rows.malformed.tolist() == [False, False, True, False]
    before = csv.field_size_limit(8)
    try:
        assert read(b"1,yes,1", b"123456789,yes,1").malformed.tolist() == [False, True]
    finally:
        csv.field_size_limit(before)


BAD = {
    "empty": (b"", "rows.csv: the file is empty"),
    "no column": (b"age,ill\nsecret,1\n", "rows.csv, line 1: no column 'member'$"),
    "no label": (b"age,member\n1,yes\n", "rows.csv, line 1: no column 'ill'$"),
    "no header": (b"41,yes,1\n", "rows.csv, line 1: no column 'age'$"),
    "twice": (b"age,age,member,ill\n", "rows.csv, line 1: more than one column 'age'$"),
    "label twice": (b"age,member,ill,ill\n", "rows.csv, line 1: more than one column 'ill'$"),
    "latin-1": ("age,member,ill,\xe9\n".encode("latin-1"), "line 1: the header is no UTF-8 text"),
    "long": (b"age,member,ill," + b"x" * 131_073, "names of at most 131072 characters"),
    "not text": (b"\xff\xfea\0g\0e\0\n", "rows.csv, line 1: the header is no UTF-8 text"),
    "quote": (b'age,member,"ill\n', "rows.csv, line 1: the header is no UTF-8 text"),
}


@pytest.mark.parametrize("name", BAD)
def test_only_the_header_is_refused(tmp_path, name):
    content, words = BAD[name]
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(ValueError, match=words):
        read_csv(tmp_path / "rows.csv", SMALL, LABEL)
    with pytest.raises(ValueError, match="label 'age' is among the columns"):
        read_csv(tmp_path / "rows.csv", SMALL, Label("age", "1", "0"))


def test_arguments_in_another_order_are_refused_by_name(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("age,member,ill\n41,yes,1\n")
    for wrong in ("defaulted", None, SMALL):
        with pytest.raises(ValueError, match=r"label must be domains.Label\(column, positive"):
            read_csv(path, SMALL, wrong)
    for arguments in ((SMALL, path, LABEL), (None, SMALL, LABEL)):
        with pytest.raises(ValueError, match="path must be a path or its text, got"):
            read_csv(*arguments)
    for wrong in (LABEL, "domain.json", None):
        with pytest.raises(ValueError, match="a domain must map column names"):
            read_csv(path, wrong, SMALL)


def test_classes_are_declared_and_other_labels_absent():
    columns = {"age": [10, 90, 20, None, 70], "member": ["yes"] * 5}
    classes = {"negative": "0", "positive": "1"}
    table = dpbt.table(SMALL, columns, ["1", 0.0, "2", None, True], **classes, capacity=7)
    assert table.present.tolist() == [True, True, False, False, True, False, False]
    assert table.target.tolist() == [True, False, False, False, True, False, False]
    np.testing.assert_array_equal(table.cells[:5], domains.encode(SMALL, columns))
    assert not table.present[5:].any()
    placed = dpbt.table(SMALL, columns, [False] * 5, **classes, exact=True)
    np.testing.assert_array_equal(placed.cells, domains.positions(SMALL, columns))
    assert placed.cells.dtype == np.float32
    assert not placed.target.any()


def test_boolean_labels_need_no_words():
    columns = {"age": [10, 90, 20], "member": ["yes"] * 3}
    for labels in ([True, False, True], np.array([True, False, True]), ["True", "False", "True"]):
        table = dpbt.table(SMALL, columns, labels)
        assert table.target.tolist() == [True, False, True]
        assert table.present.all()
    assert not dpbt.table(SMALL, columns, ["1", "0", "1"]).present.any()


@pytest.mark.parametrize("exact", [False, True])
def test_an_empty_file_is_a_table_and_a_fit(read, exact):
    rows = read()
    words = {"negative": LABEL.negative, "positive": LABEL.positive}
    table = dpbt.table(SMALL, rows.columns, rows.labels, **words, capacity=20, exact=exact)
    assert table.cells.shape == (20, 2 + exact)
    assert not table.present.any()
    if not exact:
        recipe = recipes.bdpe(epsilon=1.0, rows=20, rounds=1, depth=1)
        model = dpbt.fit(dpbt.fresh_key(), table, recipe)
        assert np.isfinite(dpbt.decision_function(model, table)).all()


REFUSED = {
    "capacity": ({"capacity": 1}, "more rows than the capacity of 1$"),
    "zero": ({"capacity": 0}, "capacity must be an integer of at least 1 .*, got 0"),
    "enormous": ({"capacity": 10**12}, "capacity must be .* at most 16777216, got 1000000000000"),
    "exact": ({"exact": "no"}, "exact must be True or False, got 'no'"),
    "codes": ({"codes": 3}, "codes must be True or False, got 3"),
    "one class": ({"negative": False}, "declared together, got negative=False and positive='1'"),
    "exchanged": (
        {"negative": True, "positive": False},
        "must be False and True for Boolean labels",
    ),
    "no word": ({"negative": None}, "negative must be text or a number, got None"),
    "no labels": ({"labels": None}, "labels: a column must be a sequence of cells, got NoneType"),
    "labels in a matrix": ({"labels": np.ones((3, 1))}, "labels: .* one dimension, got 2"),
    "not whole": ({"capacity": 5.0}, "capacity must be an integer"),
    "classes": ({"positive": 0.0}, "classes must differ, got '0' twice"),
    "labels": ({"labels": ["1"]}, "labels must have the same length as the columns$"),
    "label kind": ({"labels": "101"}, "labels: a column must be a sequence"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_options_of_a_table(name):
    changes, words = REFUSED[name]
    columns = {"age": [17, 18, 19], "member": ["yes"] * 3}
    arguments = {"labels": ["1", "0", "1"], "negative": "0", "positive": "1", **changes}
    with pytest.raises(ValueError, match=words):
        dpbt.table(SMALL, columns, arguments.pop("labels"), **arguments)
