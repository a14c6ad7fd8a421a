"""Files as owners have them: what check, predict and evaluate say of their quirks."""

import csv
import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import dpbt
from dpbt.__main__ import main
from dpbt.data import convert, domains, files
from dpbt.data.domains import Boolean, Label, Nominal, Numeric
from dpbt.data.files import TextForm
from dpbt.owners import file_report, missing_causes
from dpbt.owners.cli import inputs, models
from tests.support import odd_inputs

NAMES = ("income", "age", "label")
TABLE = "income;age;label\n1;2;yes\n3;4;no\n"
OTHER_FILES = [
    # the bytes of a file, and the words of its error
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


@pytest.mark.parametrize(("content", "words"), OTHER_FILES)
def test_a_file_that_is_no_table_is_called_by_its_name(content, words, tmp_path):
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(ValueError, match=words):
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


# The owner's report.

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


@pytest.mark.parametrize(("kind", "texts", "causes", "remedy", "num_read"), CAUSES)
def test_a_report_says_why_cells_are_missing(kind, texts, causes, remedy, num_read):
    label = Label("y", "1", "0")
    rows = {"x": texts, "y": ["1"] * len(texts)}
    report = file_report.owner_report_of_rows({"x": kind}, label, [rows])
    found = report.causes["x"]
    for cause, words in zip(found.causes, causes, strict=False):
        assert cause.text.startswith(words)
    assert len(found.causes) >= len(causes)
    assert sum(cause.num_cells for cause in found.causes) == report.unread["x"]
    if remedy:
        assert (found.remedy, found.num_read) == (remedy, num_read)
        assert f"    {remedy} reads {num_read} of them" in str(report)
    assert texts[0] not in repr(report)


def test_a_remedy_reads_what_it_says(tmp_path):
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
    numbers = [str(number) for number in range(1, 91)]
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
    """Of 130,000 characters and more, as many as a CSV cell may have: the time is linear."""
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


def test_labels_and_other_values_are_explained_too():
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
    usual = [{name: cells * 2 for name, cells in rows.items()}]
    usual[0]["n"] = ["", "", "3", "8", "", ""]
    assert (
        file_report.owner_report_of_rows(domain, Label("y", "yes", "no"), usual).suspect_columns
        == ()
    )
    usual[0]["n"] = ["1,5", "2,5", "3,5", "8", "9", "4,5"]
    report = file_report.owner_report_of_rows(domain, Label("y", "yes", "no"), usual)
    assert report.suspect_columns == ("n",)


def test_a_report_looks_at_few_texts_and_says_so(monkeypatch):
    monkeypatch.setattr(missing_causes, "MAX_DISTINCT_TEXTS", 3)
    texts = [f"{number},5" for number in range(9)]
    rows = {"x": [*texts, *texts], "y": ["1"] * 18}
    report = file_report.owner_report_of_rows({"x": Numeric(0, 9)}, Label("y", "1", "0"), [rows])
    words = str(report)
    assert "    12: not looked at, beyond 3 different texts\n    6: decimal comma" in words
    assert '"decimal": "," reads 6 of those that were looked at' in words


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


# Commands.

ROWS = 90
DOMAIN = {
    "columns": {
        "age": {"type": "numeric", "low": 0, "high": 100, "bins": 8},
        "job": {"type": "nominal", "values": ["clerk", "smith"]},
    },
    "label": {"column": "class", "positive": "yes", "negative": "no"},
}
FIT = ("--rows", "100", "--epsilon", "9", "--recipe", "bdpe", "--rounds", "1", "--depth", "1")


def write_rows(name, age="{}", yes="yes", header="id,age,job,class", end=""):
    rng = np.random.default_rng(0)
    lines = [header + end]
    for number in range(ROWS):
        years, job = rng.integers(0, 100), rng.choice(["clerk", "smith"])
        label = yes if years > 50 else "no"
        lines.append(f"p{number},{age.format(years)},{job},{label}{end}")
        lines += [""] * (number % 30 == 7)
    Path(name).write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A folder with a model of good rows, the rows, rows with quirks, and the domain."""
    folder = tmp_path_factory.mktemp("quirks")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("d.json").write_text(json.dumps(DOMAIN))
        write_rows("good.csv")
        write_rows("comma.csv", age='"{},5"')
        write_rows("capitals.csv", yes="YES")
        write_rows("unlabelled.csv", header="id,age,job,note")
        assert main(["fit", "good.csv", "--domain", "d.json", *FIT, "--out", "m.json"]) == 0
    return folder


@pytest.fixture
def here(fitted, monkeypatch):
    monkeypatch.chdir(fitted)


def on_terminal(monkeypatch):
    for module in (inputs, models):
        monkeypatch.setattr(module, "is_terminal", lambda *_: True)


def test_check_works_without_the_label(here, capsys, monkeypatch):
    on_terminal(monkeypatch)
    assert main(["check", "unlabelled.csv", "--domain", "d.json"]) == 0
    out = capsys.readouterr().out
    assert "class: no such column, so it is not checked" in out
    assert "age: 3 are missing\n    3: empty" in out
    assert "nothing is doubtful" in out
    domain, label = domains.read_domain("d.json")
    rows = {"age": [1], "job": ["clerk"]}
    with pytest.raises(ValueError, match="lacks columns"):  # of the library, as ever
        file_report.owner_report_of_rows(domain, label, [rows])


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (["title", "", "id,age,job,class"], "line 3 has all of them: --skip-lines 2"),
        (["p0,41,clerk,yes"], "private if there is no header"),
    ],
)
def test_check_shows_where_the_header_may_be(lines, shown, here, capsys, monkeypatch, tmp_path):
    on_terminal(monkeypatch)
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([*lines, "p1,42,smith,no", ""]))
    assert main(["check", str(path), "--domain", "d.json"]) == 2
    out, err = capsys.readouterr()
    assert shown in out
    assert "clerk" not in err


@pytest.mark.parametrize(
    "words",
    [
        ["check", "good.csv", "--domain", "bad.json"],
        ["check", "good.csv", "--domain", "d.json", "--delimiter", "xx"],
        ["check", "nowhere.csv", "--domain", "d.json"],
        ["check", "good.csv", "--domain", "d.json", "--no-header", "a,b"],
    ],
)
def test_no_names_are_shown_where_a_header_is_not_in_doubt(words, here, capsys, monkeypatch):
    on_terminal(monkeypatch)
    Path("bad.json").write_text(json.dumps({**DOMAIN, "columns": {"age": {"type": "number"}}}))
    assert main(words) == 2
    assert "private if there is no header" not in capsys.readouterr().out


def test_predict_says_on_a_terminal_what_is_doubtful(here, capsys, monkeypatch):
    assert main(["predict", "m.json", "comma.csv"]) == 0
    assert capsys.readouterr().err == ""  # nothing of the rows goes elsewhere
    on_terminal(monkeypatch)
    assert main(["predict", "m.json", "comma.csv"]) == 0
    err = capsys.readouterr().err
    assert "the domain may not read them as meant" in err
    assert f"age: {ROWS} are missing\n    {ROWS}: decimal comma" in err
    assert f'"decimal": "," reads {ROWS} of them' in err
    assert main(["predict", "m.json", "good.csv"]) == 0
    assert "may not read" not in capsys.readouterr().err


def test_predictions_have_ids_and_blank_lines_have_none(here, capsys):
    assert main(["predict", "m.json", "good.csv", "--id", "id"]) == 0
    head, *lines = list(csv.reader(capsys.readouterr().out.splitlines()))
    assert head == ["id", "class", "probability"]
    assert [line[0] for line in lines] == [f"p{number}" for number in range(ROWS)]
    assert main(["predict", "m.json", "good.csv"]) == 0
    plain = capsys.readouterr().out.splitlines()
    assert [",".join(line[1:]) for line in lines] == plain[1:]
    for column, first in (("class", "class of the row"), ("age", "age")):
        assert main(["predict", "m.json", "good.csv", "--id", column]) == 0
        assert capsys.readouterr().out.startswith(f"{first},class,probability\n")
    assert main(["predict", "m.json", "good.csv", "--id", "name"]) == 2
    assert "no column 'name'" in capsys.readouterr().err
    domain, label = domains.read_domain("d.json")
    if not Path("blocks").exists():
        convert.convert_file("good.csv", domain, label, "blocks")
    assert main(["predict", "m.json", "blocks", "--id", "id"]) == 2
    assert "--id needs a file of rows" in capsys.readouterr().err


def test_evaluate_counts_labels_that_are_not_declared(here, capsys, monkeypatch):
    assert main(["evaluate", "m.json", "good.csv", "--domain", "d.json"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{ROWS} rows; these numbers are a release")
    assert main(["evaluate", "m.json", "capitals.csv", "--domain", "d.json"]) == 0
    out, err = capsys.readouterr()
    counted = int(out.partition(" ")[0])
    assert out.startswith(f"{counted} of {ROWS} rows have a declared label, and only these count")
    assert err == ""
    on_terminal(monkeypatch)
    assert main(["evaluate", "m.json", "capitals.csv", "--domain", "d.json"]) == 0
    err = capsys.readouterr().err
    assert f"class: {ROWS - counted} have no declared label" in err
    assert f'"ignore_case": true reads {ROWS - counted} of them' in err


def test_a_large_delta_is_refused_before_a_filter_pays(here, capsys, tmp_path):
    budget = str(tmp_path / "filter.db")
    new = ["filter", "new", budget, "--epsilon", "99", "--rows", "100", "--delta", "0.02"]
    assert main(new) == 2
    assert "or accept it by --delta-anyway" in capsys.readouterr().err
    assert main([*new, "--delta-anyway"]) == 0
    fit = ["fit", "good.csv", "--domain", "d.json", *FIT, "--out", str(tmp_path / "m.json")]
    fit += ["--delta", "0.01", "--filter", budget]
    capsys.readouterr()
    assert main(fit) == 2
    assert "1 / rows or more" in capsys.readouterr().err
    assert dpbt.Filter.open(budget).spent == 0
    assert not (tmp_path / "m.json").exists()
    assert main([*fit, "--delta-anyway"]) == 0
    assert "warning: delta = 0.01 is 1 / rows or more" in capsys.readouterr().err
    assert dpbt.Filter.open(budget).spent > 0


FIT_GOOD = ("fit", "good.csv", "--domain", "d.json")
LARGE = ("--rows", "100", "--epsilon", "1", "--out", "x.json")
ERRORS = [
    # the words of a command, and what its error has in place of words of Python
    (["plot", "m.json", "--shape", "age", "--class", "yes"], "--class is for models"),
    (["plot", "m.json", "--shape", "height"], "--shape"),
    (
        [*FIT_GOOD, *LARGE, "--recipe", "additive", "--pair", "age", "job"],
        "leave --pair out",
    ),
    (
        ["fit", "good.csv", "--domain", "d.json", *FIT, "--out", "x.json", "--filter", "f.db"],
        "a smaller --epsilon fits",
    ),
    (
        [*FIT_GOOD, *LARGE, "--recipe", "bdpe", "--monotone", "age=+1"],
        "takes no --monotone",
    ),
    (["fit", "good.csv", "--domain", "one.json", *LARGE], "a target must be nominal with two"),
    (["fit", "good.csv", "--domain", "range.json", *LARGE], "got low 9, high 1 and 10 bins"),
    (["fit", "good.csv", "--domain", "kind.json", *LARGE], '{"type": "nominal", "values"'),
]


@pytest.mark.parametrize(("words", "expected"), ERRORS)
def test_errors_of_commands_name_options_and_no_arguments(words, expected, here, capsys):
    if not Path("f.db").exists():
        dpbt.Filter(epsilon=1, rows=100, path="f.db")
    one = {**DOMAIN, "label": {"column": "class", "type": "nominal", "values": ["yes"]}}
    Path("one.json").write_text(json.dumps(one))
    for name, entry in (
        ("range", {"type": "numeric", "low": 9, "high": 1}),
        ("kind", {"kind": "numeric", "low": 0, "high": 1}),
    ):
        Path(f"{name}.json").write_text(json.dumps({**DOMAIN, "columns": {"age": entry}}))
    if "plot" in words:
        words = [*words, "--out", "x.png"]
        pytest.importorskip("matplotlib")
    assert main(words) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert err.count("\n") == 1
    for python in (
        "class_",
        "recipe(",
        "resolutions=",
        "Numeric(",
        "Nominal(",
        "domains.",
        "dpbt.",
    ):
        assert python not in err


@pytest.mark.parametrize("form", ["onnx", "treelite"])
def test_a_missing_extra_is_one_line(form, here, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, form, None)
    assert main(["export", "m.json", "--format", form, "--out", "x.model"]) == 2
    err = capsys.readouterr().err
    assert f"pip install 'dpbt[{form}]'" in err
    assert err.count("\n") == 1


def test_a_template_leaves_out_a_name_of_several_columns(capsys, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("temp,age,temp,class\n1,41,2,yes\n")
    assert main(["domain", "template", str(path), "--label", "class"]) == 0
    out, err = capsys.readouterr()
    assert list(json.loads(out)["columns"]) == ["age"]
    assert "left out: temp, the name of several columns; rename them" in err
    assert main(["domain", "template", str(path), "--label", "temp"]) == 2
    assert "more than one column 'temp'; rename them" in capsys.readouterr().err


def test_a_template_leaves_out_a_column_without_a_name(here, capsys, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(",age,job,class,\n0,41,clerk,yes,\n")
    assert main(["domain", "template", str(path), "--label", "class"]) == 0
    out, err = capsys.readouterr()
    assert list(json.loads(out)["columns"]) == ["age", "job"]
    assert "left out: the first column, which has no name" in err
    path.write_text("Report of May\nage,job\n")
    assert main(["domain", "template", str(path)]) == 2
    assert "one cell is no header of a table" in capsys.readouterr().err
    assert main(["domain", "template", str(path), "--skip-lines", "1"]) == 0
    assert list(json.loads(capsys.readouterr().out)["columns"]) == ["age", "job"]
