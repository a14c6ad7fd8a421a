"""A private text file: one line is one row, whatever it holds; and the table of its rows."""

import gzip
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpbt
from dpbt.data import domains
from dpbt.data.domains import Boolean, Numeric
from dpbt.data.files import TextForm, column_names, iter_column_blocks, read_columns
from tests.support import file_neighbours

SMALL = {"age": Numeric(0, 100, bins=2, missing=True), "member": Boolean("yes", "no")}
HEADER = b"age,member,ill"
NAMES = ("age", "member", "ill")


@pytest.fixture
def read(tmp_path):
    def one(*lines, end=b"\n", header=HEADER):
        (tmp_path / "rows.csv").write_bytes(end.join([header, *lines, b""]))
        return read_columns(tmp_path / "rows.csv", NAMES)

    return one


def test_a_file_is_read_as_by_hand(read):
    rows = read(b"41, yes ,1", b'"6,1",no,0', b"", b"NA,maybe,2")
    assert rows["age"] == ["41", "6,1", None, "NA"]
    assert rows["member"] == ["yes ", "no", None, "maybe"]
    assert rows["ill"] == ["1", "0", None, "2"]


def test_line_ends_byte_order_marks_and_blocks_change_nothing(read, tmp_path):
    lines = (b"1,yes,1", b"2,no,0", b"too,few", b"3,no,1")
    columns, path = read(*lines), tmp_path / "rows.csv"
    for end, mark in ((b"\r\n", b""), (b"\n", b"\xef\xbb\xbf")):
        read(*lines, end=end, header=mark + b'"age", member,ill')
        assert column_names(path) == list(NAMES)
        assert read_columns(path, NAMES) == columns
        path.write_bytes(path.read_bytes().removesuffix(end))
        parts = list(iter_column_blocks(path, NAMES, 3))
        assert [len(part["age"]) for part in parts] == [3, 1]
        assert {name: parts[0][name] + parts[1][name] for name in NAMES} == columns


@pytest.mark.parametrize("name", ["s.csv", "s.csv.gz", "s.zip"])
@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_compressed_files_and_other_delimiters_are_read(tmp_path, name, delimiter):
    """The header says what separates cells; a file without one has names from elsewhere."""
    lines = ["age,member,ill", "41,yes,1", '"6;1",no,0', "1,2"]
    text = "\n".join(line.replace(",", delimiter) for line in lines).encode()
    expected = {"age": ["41", "6;1", None], "member": ["yes", "no", None], "ill": ["1", "0", None]}
    path = tmp_path / name
    packed(path, text)
    assert column_names(path) == list(NAMES)
    assert read_columns(path, NAMES) == expected
    packed(path, text.replace(b"\n", f"\nrow{delimiter}".encode()))
    assert read_columns(path, NAMES, TextForm(row_names=True)) == expected
    packed(path, text.partition(b"\n")[2])
    assert read_columns(path, NAMES, TextForm(delimiter, NAMES)) == expected
    if name != "s.csv":
        whole = path.read_bytes()
        for damaged in (whole[:-9], whole[:20] + b"damaged" + whole[27:], b"not packed"):
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match=r": an archive that is damaged or locked$"):
                read_columns(path, NAMES, TextForm(delimiter, NAMES))


def packed(path, text):
    """Write a file of text, packed as its name says."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("rows.csv", text)
    else:
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def test_malformed_lines_are_rows_without_values(read):
    expected = {"age": ["1", None, "2"], "member": ["yes", None, "no"], "ill": ["1", None, "0"]}
    for line in file_neighbours.ODD_LINES[:12]:
        assert read(b"1,yes,1", line.removeprefix(b"x,"), b"2,no,0") == expected
    assert dict(read()) == {name: [] for name in NAMES}


CELL = st.sampled_from(["41", "yes", "no", "1", "0", '"', '""', "", "\0", "\r"])
LINE = st.one_of(
    st.sampled_from(file_neighbours.ODD_LINES),
    st.binary(max_size=20),
    st.lists(CELL, max_size=5).map(lambda cells: ",".join(cells).encode()),
).map(lambda line: line.replace(b"\n", b""))


@given(st.lists(LINE, max_size=6), LINE, st.data())
def test_a_line_changes_no_other(tmp_path_factory, lines, odd, data):
    path = tmp_path_factory.getbasetemp() / "property.csv"

    def cells_of(these):
        path.write_bytes(b"\n".join([HEADER, *these, b""]))
        return list(zip(*read_columns(path, NAMES).values(), strict=True))

    alone = cells_of(lines)
    assert len(alone) == len(lines)
    assert cells_of([*lines, odd])[:-1] == alone
    place = data.draw(st.integers(0, len(lines)))
    inserted = cells_of([*lines[:place], odd, *lines[place:]])
    assert inserted[:place] + inserted[place + 1 :] == alone


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "rows.csv: the file is empty"),
        (b"age,ill\nsecret,1\n", "rows.csv, line 1: no column 'member'; is there a header"),
        (
            b"age,age,member,ill\n",
            "rows.csv, line 1: more than one column 'age'; rename them, or leave them out$",
        ),
        (b'age,member,"ill\n', "rows.csv, line 1: the header is no UTF-8 text"),
    ],
)
def test_a_file_is_refused_by_its_header_alone(tmp_path, content, words):
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(ValueError, match=words):
        read_columns(tmp_path / "rows.csv", NAMES)


def test_classes_are_declared_and_other_labels_absent():
    columns = {"age": [10, 90, 20, None, 70], "member": ["yes"] * 5}
    classes = {"negative": "0", "positive": "1"}
    table = dpbt.table(SMALL, columns, ["1", 0.0, "2", None, True], **classes, capacity=7)
    assert table.present.tolist() == [True, True, False, False, True, False, False]
    assert table.target.tolist() == [True, False, False, False, True, False, False]
    np.testing.assert_array_equal(table.bins[:5], domains.encode(SMALL, columns))

    # Booleans need no words.
    truths = [True, False, True, False, True]
    for labels in (truths, np.array(truths), list(map(str, truths))):
        table = dpbt.table(SMALL, columns, labels)
        assert table.target.tolist() == truths
        assert table.present.all()
    assert not dpbt.table(SMALL, columns, ["1", "0", "1", "0", "1"]).present.any()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"capacity": 1}, "more rows than the capacity of 1$"),
        ({"negative": False}, "declared together, .* got negative=False and positive='1'"),
        ({"negative": True, "positive": False}, "be False and True for Boolean labels"),
        ({"labels": np.ones((3, 1))}, "labels: .* one dimension, got 2"),
        ({"labels": ["1"]}, "labels must have the same length as the columns$"),
    ],
)
def test_invalid_options_of_a_table_are_refused(changes, words):
    columns = {"age": [17, 18, 19], "member": ["yes"] * 3}
    arguments = {"labels": ["1", "0", "1"], "negative": "0", "positive": "1", **changes}
    with pytest.raises(ValueError, match=words):
        dpbt.table(SMALL, columns, arguments.pop("labels"), **arguments)
