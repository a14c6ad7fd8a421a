"""The report to the owner: why cells are missing, which columns are doubtful, and what helps."""

import json
import time

import numpy as np
import pytest

from dpbt.data import domains
from dpbt.data.domains import Boolean, Label, Nominal, Numeric
from dpbt.owners import file_report, missing_causes
from tests.support import odd_inputs

CAUSES = [
    # a kind, texts, their causes in order, and the options that read them
    (Numeric(0, 99), ["1,5", "2,5", "3"], ["decimal comma"], '"decimal": ","', 2),
    (Numeric(0, 99), ["5%", "7 %", ""], ["percent sign", "empty"], '"strip": ["%"]', 2),
    (
        Numeric(0, 9999),
        ["1.000,50 €", "1.5"],
        ["currency sign and decimal comma and sign of thousands"],
        '"decimal": ",", "strip": ["€", "."]',
        1,
    ),
    (Numeric(0, 99), ["$1,000", "x"], ["currency sign and sign of thousands", "a word"], "", 0),
    (Numeric(0, 99), ["1,000", "2,500", "2,5"], ["sign of thousands"], '"strip": [","]', 2),
    (Numeric(0, 99), ["1,000", "2,5", "3,25"], ["decimal comma"], '"decimal": ","', 3),
    (Numeric(0, 99), ["1 000", "NA"], ["sign of thousands", "empty"], '"strip": [" "]', 1),
    (Numeric(0, 99), ["70 kg"], ["unit"], '"strip": ["kg"]', 1),
    (
        Numeric(0, 99),
        ["31.01.2020", "1.2.2020"],
        ["a date"],
        '"date": "%d.%m.%Y", "unit": "days", with dates as "low" and "high"',
        2,
    ),
    (Numeric(2000, 2030), ["1/31/2020"], ["a date"], '"date": "%m/%d/%Y", "unit": "year"', 1),
    (
        Numeric("2020-01-01", "2021-01-01", date="iso", unit="days"),
        ["31.01.2020", "x"],
        ["a date of another format", "other text"],
        '"date": "%d.%m.%Y", "unit": "days", with dates as "low" and "high"',
        1,
    ),
    (Numeric(0, 99, decimal=","), ["1.5"], ["decimal point"], '"decimal": "."', 1),
    (Numeric(0, 99), ["yes"], ["a word for true or false"], "", 0),
    (Numeric(0, 99), ["<5"], ["a bound such as <5"], "", 0),
    (
        Numeric(0, 24),
        ["7:05", "23:59"],
        ["a time of the day"],
        '"date": "%H:%M", "unit": "hour"',
        2,
    ),
    (
        Numeric(0, 24),
        ["7:05:30", "x"],
        ["a time of the day"],
        '"date": "%H:%M:%S", "unit": "hour"',
        1,
    ),
    (Numeric(0, 24, date="%H:%M", unit="hour"), ["1:02:03"], ["a time of another format"], "", 1),
    (Numeric(0, 99), ["12:30", "5 kg", "6 kg"], ["unit"], '"strip": ["kg"]', 2),
    (
        Numeric(0, 99),
        ["12:30", "12:45", "5 kg"],
        ["a time of the day"],
        '"date": "%H:%M", "unit": "hour"',
        2,
    ),
    (Numeric(0, 99), ["\u22125.25"], ["a minus that is another sign"], "", 0),
    (Numeric(0, 99), ["(2,810)", "$(3)"], ["a number in parentheses, which"], "", 0),
    (Numeric(0, 99), ["5,25-", "7 \u2212"], ["a minus behind the number"], "", 0),
    (Numeric(0, 99), ["(a)", "\u2212", "2019Q3", "5-10"], ["a word", "other text"], "", 0),
    (Boolean("yes", "no"), ["YES", "ja"], ["other capitals"], '"ignore_case": true', 1),
    (Nominal(("a", "b")), ["A", "z"], ["other capitals"], '"ignore_case": true', 1),
]


@pytest.mark.parametrize(
    ("column", "texts", "expected_causes", "remedy", "num_read"),
    CAUSES,
    ids=[texts[0] for _, texts, *_ in CAUSES],
)
def test_a_report_says_why_cells_are_missing(column, texts, expected_causes, remedy, num_read):
    label = Label("y", "1", "0")
    rows = {"x": texts, "y": ["1"] * len(texts)}
    report = file_report.owner_report_of_rows({"x": column}, label, [rows])
    causes_of_column = report.causes["x"]
    for cause, beginning in zip(causes_of_column.causes, expected_causes, strict=False):
        assert cause.text.startswith(beginning)
    assert len(causes_of_column.causes) >= len(expected_causes)
    assert sum(cause.num_cells for cause in causes_of_column.causes) == report.unread["x"]
    if remedy:
        assert (causes_of_column.remedy, causes_of_column.num_read) == (remedy, num_read)
        assert f"    {remedy} reads {num_read} of them" in str(report)
    assert texts[0] not in repr(report)


def test_a_remedy_reads_as_many_cells_as_the_report_says(tmp_path):
    """The options, put into the domain's file, read as many cells."""
    texts = ["1.000,50 €", "7,5 %", "", "x"]
    report = file_report.owner_report_of_rows(
        {"x": Numeric(0, 9999)}, Label("y", "1", "0"), [{"x": texts, "y": ["1"] * 4}]
    )
    options = json.loads("{" + report.causes["x"].remedy + "}")
    entry = {"type": "numeric", "low": 0, "high": 9999, **options}
    kind = domains.column_of_entry(entry)
    assert np.count_nonzero(~kind.read_bins(texts).missing) == report.causes["x"].num_read == 2


def test_a_column_is_doubtful_where_a_twentieth_of_its_cells_is_text_that_is_no_value():
    label = Label("y", "1", "0")
    numbers = [str(value) for value in range(1, 91)]
    for texts, doubtful in (
        (["(5)"] * 10, True),
        (["(5)"] * 4 + ["7"] * 6, False),
        ([""] * 10, False),
    ):
        rows = {"x": numbers + texts, "y": ["1", "0"] * 50}
        for missing in (False, True):
            kind = Numeric(0, 99, missing=missing)
            report = file_report.owner_report_of_rows({"x": kind}, label, [rows])
            assert report.suspect_columns == ("x",) * doubtful
    # Values that are not listed are usual, and other capitals of listed ones are not.
    for values, doubtful in ((["z"] * 40, False), (["A"] * 6 + ["z"] * 34, True)):
        rows = {"x": ["a", "b"] * 30 + values, "y": ["1", "0"] * 50}
        report = file_report.owner_report_of_rows({"x": Nominal(("a", "b"))}, label, [rows])
        assert report.suspect_columns == ("x",) * doubtful


def test_a_report_asks_whether_signs_that_it_leaves_out_are_of_one_unit():
    label = Label("y", "1", "0")
    for texts, is_asked in (
        (["5 kg", "5000 g"], True),
        (["5 %", "5 \u2030"], True),
        (["$5", "5 \u20ac"], True),
        (["5 kg", "1,000 kg"], False),
    ):
        rows = {"x": texts, "y": ["1", "0"]}
        report = file_report.owner_report_of_rows({"x": Numeric(0, 9999)}, label, [rows])
        assert report.causes["x"].num_read == 2
        assert ("are these of one unit?" in str(report)) == is_asked


LONG = 130_000
LONG_TEXTS = (
    "1" + ",22" * LONG,
    "1" + " 222" * LONG + "x",
    "1" + "a" * LONG + ".",
    "1" + "." * LONG + "x",
    "\u2212" * LONG,
    "(" * LONG,
    "1" + " " * LONG + "x",
)


def test_no_long_cell_takes_long():
    """The time is linear in the length of a cell, which may have 130,000 characters and more."""
    kinds = [
        Numeric(0, 9),
        Numeric(0, 9, strip=[" ", ","]),
        Numeric(0, 9, decimal=",", strip=["."]),
        Numeric(0, 9, date="iso", unit="days"),
    ]
    start = time.process_time()
    for kind in kinds:
        rows = {"x": list(LONG_TEXTS), "y": ["1"] * len(LONG_TEXTS)}
        report = file_report.owner_report_of_rows({"x": kind}, Label("y", "1", "0"), [rows])
        assert report.unread["x"] == len(LONG_TEXTS)
    assert time.process_time() - start < 3


def test_reports_explain_labels_and_values_that_are_read_as_the_other_one():
    domain = {"c": Nominal(("Bonn", "rest"), other="rest"), "n": Numeric(0, 9, missing=True)}
    rows = {"c": ["BONN", "bonn", "x"], "n": ["", "NA", "3"], "y": ["Yes", "YES", "no"]}
    report = file_report.owner_report_of_rows(domain, Label("y", "yes", "no"), [rows])
    assert dict(report.unread) == {"c": 0, "n": 2, "y": 2}
    assert report.other_capitals == {"c": 2}
    assert report.causes["y"].causes == [missing_causes.CountedCause("other capitals", 2)]
    assert "c: 2 are read as the other value, and differ from a listed one in capitals" in str(
        report
    )
    # A column that is declared to have missing cells is not doubtful for having them.
    assert report.suspect_columns == ("c", "n", "y")  # the values that are left lie in one bin
    rows = {"c": ["Bonn", "x", "x"], "n": ["", "", "3"], "y": ["yes", "yes", "no"]}
    usual_blocks = [{name: cells * 2 for name, cells in rows.items()}]
    usual_blocks[0]["n"] = ["", "", "3", "8", "", ""]
    assert (
        file_report.owner_report_of_rows(
            domain, Label("y", "yes", "no"), usual_blocks
        ).suspect_columns
        == ()
    )
    usual_blocks[0]["n"] = ["1,5", "2,5", "3,5", "8", "9", "4,5"]
    report = file_report.owner_report_of_rows(domain, Label("y", "yes", "no"), usual_blocks)
    assert report.suspect_columns == ("n",)


def test_a_report_looks_at_few_texts_and_says_so(monkeypatch):
    monkeypatch.setattr(missing_causes, "MAX_DISTINCT_TEXTS", 3)
    texts = [f"{integer},5" for integer in range(9)]
    rows = {"x": [*texts, *texts], "y": ["1"] * 18}
    report = file_report.owner_report_of_rows({"x": Numeric(0, 9)}, Label("y", "1", "0"), [rows])
    report_text = str(report)
    assert "    12: not looked at, beyond 3 different texts\n    6: decimal comma" in report_text
    assert '"decimal": "," reads 6 of those that were looked at' in report_text


def test_no_odd_cell_is_an_error_of_a_report():
    cells = [cell for cell, _ in odd_inputs.CELLS_AND_NUMBERS]
    domain = {
        "n": Numeric(0, 1),
        "d": Numeric(0, 1, date="iso", unit="days"),
        "b": Boolean("yes", "no"),
        "c": Nominal(("a", "b"), other="b"),
    }
    columns = dict.fromkeys(domain, cells)
    report = file_report.owner_report_of_rows(
        domain, Label("y", "1", "0"), [{**columns, "y": cells}]
    )
    assert report.rows == len(cells)
    assert "zqxcell" not in str(report)
