"""Commands on odd files: what check, predict, evaluate and their errors say."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import dpbt
from dpbt.__main__ import main
from dpbt.data import convert, domains
from dpbt.owners import file_report
from dpbt.owners.cli import inputs, models

ROWS = 90
DOMAIN = {
    "columns": {
        "age": {"type": "numeric", "low": 0, "high": 100, "bins": 8},
        "job": {"type": "nominal", "values": ["clerk", "smith"]},
    },
    "label": {"column": "class", "positive": "yes", "negative": "no"},
}
STUMP = ("--recipe", "bdpe", "--rounds", "1", "--depth", "1")
FIT_OPTIONS = ("--rows", "100", "--epsilon", "9", *STUMP)


def write_rows(name, age="{}", yes="yes", header="id,age,job,class", end=""):
    rng = np.random.default_rng(0)
    lines = [header + end]
    for row in range(ROWS):
        years, job = rng.integers(0, 100), rng.choice(["clerk", "smith"])
        label = yes if years > 50 else "no"
        lines.append(f"p{row},{age.format(years)},{job},{label}{end}")
        lines += [""] * (row % 30 == 7)
    Path(name).write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def fitted_folder(tmp_path_factory):
    """A folder with a model of good rows, the rows, rows with quirks, and the domain."""
    folder = tmp_path_factory.mktemp("odd_files")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("d.json").write_text(json.dumps(DOMAIN))
        write_rows("good.csv")
        write_rows("comma.csv", age='"{},5"')
        write_rows("capitals.csv", yes="YES")
        write_rows("unlabelled.csv", header="id,age,job,note")
        assert main(["fit", "good.csv", "--domain", "d.json", *FIT_OPTIONS, "--out", "m.json"]) == 0
    return folder


@pytest.fixture
def in_fitted_folder(fitted_folder, monkeypatch):
    monkeypatch.chdir(fitted_folder)


def pretend_a_terminal(monkeypatch):
    for module in (inputs, models):
        monkeypatch.setattr(module, "is_terminal", lambda *_: True)


def test_check_works_without_the_label(in_fitted_folder, capsys, monkeypatch):
    pretend_a_terminal(monkeypatch)
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
    ids=["below a title", "nowhere"],
)
def test_check_shows_where_the_header_may_be(
    lines, shown, in_fitted_folder, capsys, monkeypatch, tmp_path
):
    pretend_a_terminal(monkeypatch)
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([*lines, "p1,42,smith,no", ""]))
    assert main(["check", str(path), "--domain", "d.json"]) == 2
    out, err = capsys.readouterr()
    assert shown in out
    assert "clerk" not in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "good.csv", "--domain", "bad.json"],
        ["check", "good.csv", "--domain", "d.json", "--delimiter", "xx"],
        ["check", "nowhere.csv", "--domain", "d.json"],
        ["check", "good.csv", "--domain", "d.json", "--no-header", "a,b"],
    ],
    ids=["domain", "delimiter", "path", "names"],
)
def test_no_names_are_shown_where_a_header_is_not_in_doubt(
    arguments, in_fitted_folder, capsys, monkeypatch
):
    pretend_a_terminal(monkeypatch)
    Path("bad.json").write_text(json.dumps({**DOMAIN, "columns": {"age": {"type": "number"}}}))
    assert main(arguments) == 2
    assert "private if there is no header" not in capsys.readouterr().out


def test_predict_says_on_a_terminal_what_is_doubtful(in_fitted_folder, capsys, monkeypatch):
    assert main(["predict", "m.json", "comma.csv"]) == 0
    assert capsys.readouterr().err == ""  # nothing of the rows goes elsewhere
    pretend_a_terminal(monkeypatch)
    assert main(["predict", "m.json", "comma.csv"]) == 0
    err = capsys.readouterr().err
    assert "the domain may not read them as meant" in err
    assert f"age: {ROWS} are missing\n    {ROWS}: decimal comma" in err
    assert f'"decimal": "," reads {ROWS} of them' in err
    assert main(["predict", "m.json", "good.csv"]) == 0
    assert "may not read" not in capsys.readouterr().err


def test_predictions_have_ids_and_blank_lines_have_none(in_fitted_folder, capsys):
    assert main(["predict", "m.json", "good.csv", "--id", "id"]) == 0
    head, *lines = list(csv.reader(capsys.readouterr().out.splitlines()))
    assert head == ["id", "class", "probability"]
    assert [line[0] for line in lines] == [f"p{row}" for row in range(ROWS)]
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


def test_evaluate_counts_labels_that_are_not_declared(in_fitted_folder, capsys, monkeypatch):
    assert main(["evaluate", "m.json", "good.csv", "--domain", "d.json"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{ROWS} rows; these numbers are a release")
    assert main(["evaluate", "m.json", "capitals.csv", "--domain", "d.json"]) == 0
    out, err = capsys.readouterr()
    counted = int(out.partition(" ")[0])
    assert out.startswith(f"{counted} of {ROWS} rows have a declared label, and only these count")
    assert err == ""
    pretend_a_terminal(monkeypatch)
    assert main(["evaluate", "m.json", "capitals.csv", "--domain", "d.json"]) == 0
    err = capsys.readouterr().err
    assert f"class: {ROWS - counted} have no declared label" in err
    assert f'"ignore_case": true reads {ROWS - counted} of them' in err


def test_a_large_delta_is_refused_before_a_filter_pays(in_fitted_folder, capsys, tmp_path):
    budget = str(tmp_path / "filter.db")
    new = ["filter", "new", budget, "--epsilon", "99", "--rows", "100", "--delta", "0.02"]
    assert main(new) == 2
    assert "or accept it by --delta-anyway" in capsys.readouterr().err
    assert main([*new, "--delta-anyway"]) == 0
    fit = ["fit", "good.csv", "--domain", "d.json", *FIT_OPTIONS, "--out", str(tmp_path / "m.json")]
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
    # the arguments of a command, and the text of its error in place of names of Python
    (["plot", "m.json", "--shape", "age", "--class", "yes"], "--class is for models"),
    (["plot", "m.json", "--shape", "height"], "--shape"),
    (
        [*FIT_GOOD, *LARGE, "--recipe", "additive", "--pair", "age", "job"],
        "leave --pair out",
    ),
    (
        [*FIT_GOOD, *FIT_OPTIONS, "--out", "x.json", "--filter", "f.db"],
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


@pytest.mark.parametrize(
    ("arguments", "expected"), ERRORS, ids=[expected for _, expected in ERRORS]
)
def test_errors_of_commands_name_options_and_no_arguments(
    arguments, expected, in_fitted_folder, capsys
):
    if not Path("f.db").exists():
        dpbt.Filter(epsilon=1, rows=100, path="f.db")
    domain_of_one_class = {
        **DOMAIN,
        "label": {"column": "class", "type": "nominal", "values": ["yes"]},
    }
    Path("one.json").write_text(json.dumps(domain_of_one_class))
    for name, entry in (
        ("range", {"type": "numeric", "low": 9, "high": 1}),
        ("kind", {"kind": "numeric", "low": 0, "high": 1}),
    ):
        Path(f"{name}.json").write_text(json.dumps({**DOMAIN, "columns": {"age": entry}}))
    if "plot" in arguments:
        arguments = [*arguments, "--out", "x.png"]
        pytest.importorskip("matplotlib")
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert err.count("\n") == 1
    for python_name in (
        "class_",
        "recipe(",
        "resolutions=",
        "Numeric(",
        "Nominal(",
        "domains.",
        "dpbt.",
    ):
        assert python_name not in err


@pytest.mark.parametrize("form", ["onnx", "treelite"])
def test_an_export_without_its_extra_ends_in_one_line_that_says_what_to_install(
    form, in_fitted_folder, capsys, monkeypatch
):
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


def test_a_template_leaves_out_a_column_without_a_name(in_fitted_folder, capsys, tmp_path):
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
