"""Odd files of owners: which the reader refuses, by what they are, and which it reads."""

import pytest

from dpbt.data import files
from dpbt.data.files import TextForm

NAMES = ("income", "age", "label")
TABLE = "income;age;label\n1;2;yes\n3;4;no\n"
FILES_THAT_ARE_NO_TABLE = [
    # the bytes of a file, and the message of its error
    (b"PK\x03\x04\x14\x00", "rows.csv: a workbook, as of Excel, .*save its sheet there as `CSV"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a workbook, as of Excel"),
    (TABLE.encode("utf-16"), "text in UTF-16, which Excel calls Unicode; save it as `CSV UTF-8`"),
    (b"\x1f\x8b\x08\x00", r"packed with gzip, so its name must end with \.gz"),
    (b"PAR1\x15\x04", r"a Parquet file, so its name must end with \.parquet"),
    (b"<!DOCTYPE html><html>\n", "a page of HTML, and no table"),
    (b'{"a": 1}\n', "a JSON file"),
    (f"sep=;\n{TABLE}".encode(), r"line 1: `sep=`, a note to Excel, .*--skip-lines 1 skips it"),
    (f"\n{TABLE}".encode(), "line 1: a blank line, where the header was expected; --skip-lines"),
    (f"Report of May\n{TABLE}".encode(), r"line 1: one cell, .*is it a title \(--skip-lines N"),
    ("größe,b\n".encode("latin1"), "line 1: the header is no UTF-8 text .* iconv -f latin1"),
    (b"\xef\xbb\xbf\n", "line 1: a blank line"),
]


@pytest.mark.parametrize(("content", "message"), FILES_THAT_ARE_NO_TABLE)
def test_a_file_that_is_no_table_is_called_by_its_name(content, message, tmp_path):
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        files.read_columns(tmp_path / "rows.csv", NAMES)


def test_a_workbook_is_refused_by_its_suffix_too(tmp_path):
    (tmp_path / "rows.xlsx").write_bytes(b"any")
    for form in (TextForm(), TextForm(names=NAMES)):
        with pytest.raises(ValueError, match="a workbook, as of Excel"):
            files.read_columns(tmp_path / "rows.xlsx", NAMES, form)


def test_lines_above_the_header_are_skipped(tmp_path):
    expected = {"income": ["1", "3"], "age": ["2", "4"], "label": ["yes", "no"]}
    path = tmp_path / "rows.csv"
    for head in (b"sep=;\r\n", b"\xef\xbb\xbfReport\n", b"\n"):
        path.write_bytes(head + TABLE.encode())
        assert files.read_columns(path, NAMES, TextForm(skip_lines=1)) == expected
        assert files.column_names(path, TextForm(skip_lines=1)) == list(NAMES)
    path.write_text(f"Report\n\n{TABLE.partition(chr(10))[2]}")
    stated = TextForm(delimiter=";", names=NAMES, skip_lines=2)
    assert files.read_columns(path, NAMES, stated) == expected
    with pytest.raises(ValueError, match="the file is empty, below the 9 lines that are skipped"):
        files.read_columns(path, NAMES, TextForm(skip_lines=9))


def test_a_trailing_delimiter_makes_no_column(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a;b;\n1;2;\n3;4\n5;6;7\n8;9;;\n")
    assert files.column_names(path) == ["a", "b"]
    read = files.read_columns(path, ("a", "b"))
    assert read == {"a": ["1", "3", None, None], "b": ["2", "4", None, None]}
    path.write_text("a;b\n1;2;\n")  # a name of the row may begin the line
    assert files.read_columns(path, ("a",)) == {"a": [None]}
    path.write_text("a;;b\n1;2;3\n")
    assert files.column_names(path) == ["a", "", "b"]
