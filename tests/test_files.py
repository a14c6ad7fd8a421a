"""In a private text file one line is one row, whatever it holds; a table has all the rows."""

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

SMALL_DOMAIN = {"age": Numeric(0, 100, bins=2, missing=True), "member": Boolean("yes", "no")}
HEADER = b"age,member,ill"
NAMES = ("age", "member", "ill")


@pytest.fixture
def read_lines(tmp_path):
    def write_and_read(*lines, end=b"\n", header=HEADER):
        (tmp_path / "rows.csv").write_bytes(end.join([header, *lines, b""]))
        return read_columns(tmp_path / "rows.csv", NAMES)

    return write_and_read


def test_a_file_is_read_as_by_hand(read_lines):
    rows = read_lines(b"41, yes ,1", b'"6,1",no,0', b"", b"NA,maybe,2")
    assert rows["age"] == ["41", "6,1", None, "NA"]
    assert rows["member"] == ["yes ", "no", None, "maybe"]
    assert rows["ill"] == ["1", "0", None, "2"]


def test_line_ends_byte_order_marks_and_blocks_change_nothing(read_lines, tmp_path):
    lines = (b"1,yes,1", b"2,no,0", b"too,few", b"3,no,1")
    columns, path = read_lines(*lines), tmp_path / "rows.csv"
    for end, mark in ((b"\r\n", b""), (b"\n", b"\xef\xbb\xbf")):
        read_lines(*lines, end=end, header=mark + b'"age", member,ill')
        assert column_names(path) == list(NAMES)
        assert read_columns(path, NAMES) == columns
        path.write_bytes(path.read_bytes().removesuffix(end))
        parts = list(iter_column_blocks(path, NAMES, 3))
        assert [len(part["age"]) for part in parts] == [3, 1]
        assert {name: parts[0][name] + parts[1][name] for name in NAMES} == columns


@pytest.mark.parametrize("name", ["s.csv", "s.csv.gz", "s.zip"])
@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_compressed_files_and_other_delimiters_are_read(tmp_path, name, delimiter):
    """The header shows the delimiter; a file without a header has names from elsewhere."""
    lines = ["age,member,ill", "41,yes,1", '"6;1",no,0', "1,2"]
    text = "\n".join(line.replace(",", delimiter) for line in lines).encode()
    expected = {"age": ["41", "6;1", None], "member": ["yes", "no", None], "ill": ["1", "0", None]}
    path = tmp_path / name
    write_packed(path, text)
    assert column_names(path) == list(NAMES)
    assert read_columns(path, NAMES) == expected
    write_packed(path, text.replace(b"\n", f"\nrow{delimiter}".encode()))
    assert read_columns(path, NAMES, TextForm(row_names=True)) == expected
    write_packed(path, text.partition(b"\n")[2])
    assert read_columns(path, NAMES, TextForm(delimiter, NAMES)) == expected
    if name != "s.csv":
        content = path.read_bytes()
        for damaged in (content[:-9], content[:20] + b"damaged" + content[27:], b"not packed"):
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match=r": an archive that is damaged or locked$"):
                read_columns(path, NAMES, TextForm(delimiter, NAMES))


def write_packed(path, text):
    """Write a file of text, compressed as its name says."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("rows.csv", text)
    else:
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def test_malformed_lines_are_rows_without_values(read_lines):
    expected = {"age": ["1", None, "2"], "member": ["yes", None, "no"], "ill": ["1", None, "0"]}
    for line in file_neighbours.ODD_LINES[:12]:
        assert read_lines(b"1,yes,1", line.removeprefix(b"x,"), b"2,no,0") == expected
    assert dict(read_lines()) == {name: [] for name in NAMES}


CELL = st.sampled_from(["41", "yes", "no", "1", "0", '"', '""', "", "\0", "\r"])
LINE = st.one_of(
    st.sampled_from(file_neighbours.ODD_LINES),
    st.binary(max_size=20),
    st.lists(CELL, max_size=5).map(lambda cells: ",".join(cells).encode()),
).map(lambda line: line.replace(b"\n", b""))


@given(st.lists(LINE, max_size=6), LINE, st.data())
def test_a_line_changes_the_cells_of_no_other_line(tmp_path_factory, lines, odd_line, data):
    path = tmp_path_factory.getbasetemp() / "property.csv"

    def cells_of_file(lines_of_file):
        path.write_bytes(b"\n".join([HEADER, *lines_of_file, b""]))
        return list(zip(*read_columns(path, NAMES).values(), strict=True))

    cells_without_odd_line = cells_of_file(lines)
    assert len(cells_without_odd_line) == len(lines)
    assert cells_of_file([*lines, odd_line])[:-1] == cells_without_odd_line
    position = data.draw(st.integers(0, len(lines)))
    cells_with_odd_line = cells_of_file([*lines[:position], odd_line, *lines[position:]])
    assert (
        cells_with_odd_line[:position] + cells_with_odd_line[position + 1 :]
        == cells_without_odd_line
    )


@pytest.mark.parametrize(
    ("content", "message"),
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
def test_a_file_is_refused_by_its_header_alone(tmp_path, content, message):
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_columns(tmp_path / "rows.csv", NAMES)


def test_classes_are_declared_and_other_labels_absent():
    columns = {"age": [10, 90, 20, None, 70], "member": ["yes"] * 5}
    classes = {"negative": "0", "positive": "1"}
    table = dpbt.table(SMALL_DOMAIN, columns, ["1", 0.0, "2", None, True], **classes, capacity=7)
    assert table.present.tolist() == [True, True, False, False, True, False, False]
    assert table.target.tolist() == [True, False, False, False, True, False, False]
    np.testing.assert_array_equal(table.bins[:5], domains.encode(SMALL_DOMAIN, columns))

    # Booleans need no words.
    truths = [True, False, True, False, True]
    for labels in (truths, np.array(truths), list(map(str, truths))):
        table = dpbt.table(SMALL_DOMAIN, columns, labels)
        assert table.target.tolist() == truths
        assert table.present.all()
    assert not dpbt.table(SMALL_DOMAIN, columns, ["1", "0", "1", "0", "1"]).present.any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"capacity": 1}, "more rows than the capacity of 1$"),
        ({"negative": False}, "declared together, .* got negative=False and positive='1'"),
        ({"negative": True, "positive": False}, "be False and True for Boolean labels"),
        ({"labels": np.ones((3, 1))}, "labels: .* one dimension, got 2"),
        ({"labels": ["1"]}, "labels must have the same length as the columns$"),
    ],
)
def test_invalid_options_of_a_table_are_refused(changes, message):
    columns = {"age": [17, 18, 19], "member": ["yes"] * 3}
    arguments = {"labels": ["1", "0", "1"], "negative": "0", "positive": "1", **changes}
    with pytest.raises(ValueError, match=message):
        dpbt.table(SMALL_DOMAIN, columns, arguments.pop("labels"), **arguments)
