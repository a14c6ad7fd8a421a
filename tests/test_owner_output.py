"""What the owner of rows sees before a budget is spent: on a terminal, and nowhere else."""

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpbt
from dpbt.__main__ import main
from dpbt.data.domains import Boolean, Label, Nominal, Numeric, WeightColumn, read_domain
from dpbt.owners import file_report
from dpbt.owners.cli import inputs
from dpbt.owners.cli.parsing import InputError

ROWS = 60
DOMAIN = {
    "columns": {
        "age": {"type": "numeric", "low": 0, "high": 100, "bins": 8},
        "job": {"type": "nominal", "values": ["clerk", "smith"]},
    },
    "label": {"column": "class", "positive": "yes", "negative": "no"},
}
FIT = ("--rows", "80", "--epsilon", "1", "--recipe", "bdpe", "--rounds", "1", "--depth", "1")


def lines_of(names="age,job,class", prefix=""):
    rng = np.random.default_rng(0)
    yield names
    for _ in range(ROWS):
        age, job = rng.integers(0, 100), rng.choice(["clerk", "smith"])
        yield f"{prefix}{age},{job},{'yes' if age > 50 else 'no'}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with good rows, rows under a short header, and two domains."""
    monkeypatch.chdir(tmp_path)
    Path("good.csv").write_text("\n".join(lines_of()))
    Path("short.csv").write_text("\n".join(lines_of(prefix="row,")))
    Path("d.json").write_text(json.dumps(DOMAIN))
    label = {**DOMAIN["label"], "positive": "Yes"}
    Path("misspelt.json").write_text(json.dumps({**DOMAIN, "label": label}))
    return tmp_path


def terminal(monkeypatch, answer):
    """Standard input and error are a terminal, at which somebody answers."""
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(sys.stdin, "readline", lambda: f"{answer}\n")


def fit(rows, domain, out, *more):
    return main(["fit", rows, "--domain", domain, *FIT, "--out", out, *more])


@pytest.mark.parametrize(
    ("rows", "domain"),
    [("short.csv", "d.json"), ("good.csv", "misspelt.json")],
)
def test_a_fit_that_learns_noise_is_asked_about_before_it_pays(
    rows, domain, folder, monkeypatch, capsys
):
    assert main(["filter", "new", "filter.db", "--epsilon", "2", "--rows", "80"]) == 0
    with monkeypatch.context() as patch:
        terminal(patch, "n")
        assert fit(rows, domain, "m.json", "--filter", "filter.db") == 2
        err = capsys.readouterr().err
        assert "have no declared label, and are absent" in err
        assert "doubtful: " in err
        assert "error: stopped; nothing was written, and nothing was paid" in err
        assert not Path("m.json").exists()
        assert dpbt.Filter.open("filter.db").spent == 0
        terminal(patch, "y")
        assert fit(rows, domain, "m.json", "--filter", "filter.db") == 0
        assert dpbt.Filter.open("filter.db").spent > 0.9

        # What is read well is not asked about, and nothing is with --yes.
        terminal(patch, "n")
        assert fit("good.csv", "d.json", "good.json") == 0
        assert fit(rows, domain, "yes.json", "--yes") == 0


def declared(path):
    return inputs.DeclaredRows(path, *read_domain("d.json"))


def test_a_conversion_asks_as_a_fit_does_and_its_folder_asks_nothing(folder, monkeypatch):
    with monkeypatch.context() as patch:
        terminal(patch, "n")
        assert main(["convert", "d.json", "short.csv", "short.chunks", "--capacity", "80"]) == 2
        assert not Path("short.chunks").exists()
    main(["convert", "d.json", "short.csv", "short.chunks", "--capacity", "80"])
    with pytest.raises(InputError, match="check the rows before converting them"):
        inputs.make_owner_report_of_file(declared("short.chunks"))
    found = inputs.make_owner_report_of_file(declared("short.csv"))
    assert found.suspect_columns == ("age", "job", "class")


def test_a_pipe_and_closed_streams_are_no_terminal(folder, monkeypatch):
    """A pipe is read once, so nobody looks into it before the fit does."""
    terminal(monkeypatch, "n")
    os.mkfifo("pipe.csv")
    for closed in ("stdin", "stderr"):
        with monkeypatch.context() as patch:
            patch.setattr(sys, closed, None)
            inputs.ask_owner_about_suspect_columns(
                declared("short.csv"), skip_question=False, action="Learn"
            )
    inputs.ask_owner_about_suspect_columns(
        declared("pipe.csv"), skip_question=False, action="Learn"
    )
    with pytest.raises(InputError, match="stopped"):
        inputs.ask_owner_about_suspect_columns(
            declared("short.csv"), skip_question=False, action="Learn"
        )


def test_a_report_counts_what_is_not_read():
    """What is not listed is read as `other` where there is one."""
    domain = {"a": Numeric(0, 1), "c": Nominal(("s", "t"), other="t"), "b": Boolean()}
    label = Label("y", target=Numeric(0, 1), weight=WeightColumn("w", 2))
    blocks = [
        {"a": [0.2, None], "c": ["s", "z"], "b": [1, 0], "y": [0.5, "?"], "w": [1, 1]},
        {"a": ["x", 0.9], "c": ["t", ""], "b": [2, 0], "y": [0.1, 0.9], "w": [None, 1]},
        {"a": [None], "c": [None], "b": [""], "y": ["-"], "w": [""]},
    ]
    found = file_report.owner_report_of_rows(domain, label, blocks)
    assert (found.rows, found.constant) == (5, ("w",))
    assert dict(found.unread) == {"a": 3, "c": 2, "b": 2, "y": 2, "w": 2}
    assert found.suspect_columns == ("w", "a", "b", "y")  # a fifth of the cells of b is no Boolean
    assert "a: 3 are missing" in str(found)
    usual = file_report.OwnerReport(100, {"a": 50, "y": 5}, (), "y")
    assert usual.suspect_columns == ()
    assert str(usual).endswith("nothing is doubtful")


def test_check_prints_on_a_terminal_alone(folder, capsys):
    """Its exit status is the same for all rows, and for none of them it prints to a pipe."""
    assert main(["check", "good.csv", "--domain", "d.json"]) == 2
    assert "on a terminal alone" in capsys.readouterr().err
    for rows, counted in (("good.csv", "class: 0 have no"), ("short.csv", "class: 60 have no")):
        mine, theirs = pty.openpty()
        words = [sys.executable, "-m", "dpbt", "check", rows, "--domain", "d.json"]
        with subprocess.Popen(words, stdout=theirs, stderr=subprocess.PIPE) as process:
            os.close(theirs)
            shown = os.read(mine, 10_000).decode()
            while "class:" not in shown:
                shown += os.read(mine, 10_000).decode()
            assert process.wait() == 0
        os.close(mine)
        assert counted in shown


def test_names_that_may_be_cells_are_shown_to_the_owner_and_in_no_error(
    folder, monkeypatch, capsys
):
    Path("rows.csv").write_text("77,clerk,secret\n12,smith,no\n")
    Path("words.csv").write_text("north,clerk,secret\nsouth,smith,no\n")
    numbers = {"*": {"type": "numeric", "low": 0, "high": 1}}
    Path("all.json").write_text(json.dumps({**DOMAIN, "columns": numbers}))
    wrong = ["--monotone", "age2=+1", "--recipe", "auto"]  # whose error lists columns
    for words in (
        ["fit", "rows.csv", "--domain", "d.json", *FIT, "--out", "m.json"],
        ["fit", "rows.csv", "--domain", "all.json", *FIT, "--out", "m.json"],
        ["fit", "words.csv", "--domain", "all.json", *FIT[:4], *wrong, "--out", "m.json"],
        ["domain", "template", "rows.csv"],
    ):
        assert main(words) == 2
        out, err = capsys.readouterr()
        assert "is there a header line" in err
        assert not [cell for cell in ("77", "secret", "north") if cell in out + err]
    monkeypatch.setattr(inputs, "is_terminal", lambda *_: True)
    assert main(["check", "rows.csv", "--domain", "d.json"]) == 2
    out, err = capsys.readouterr()
    assert "['77', 'clerk', 'secret']" in out
    assert "secret" not in err
    assert main(["check", "short.csv", "--domain", "d.json"]) == 0
    assert "60 lines have 4 cells, where 3 have names" in capsys.readouterr().out


def test_a_domain_is_written_by_answers(folder, monkeypatch, capsys):
    """An answer that cannot be read is asked again; names are from a header or a schema."""
    assert main(["domain", "new", "good.csv", "--out", "new.json"]) == 2
    assert "on a terminal alone" in capsys.readouterr().err
    fields = [{"name": name, "type": "integer"} for name in ("age", "job", "class")]
    fields.append({"name": "born", "type": "date"})
    Path("schema.json").write_text(json.dumps({"fields": fields}))
    monkeypatch.setattr(inputs, "is_terminal", lambda *_: True)
    label = ["clss", "class", "2", "yes, yes", "yes, no"]
    number = ["?", "x", "n", "100 0", "0 1,000", "0, 1.000", "0 1,5", "a b", "0 100", "1", "8", "l"]
    categories = ["y", "c", "<", "c", "clerk, smith, king", "y"]
    date = ["d", "%q", "%d.%m.%Y", "", "2020-01-01 x", "2010-01-01 to 2020-01-01", "", "n"]
    for source, first in ((["good.csv"], ["y"]), (["--from-schema", "schema.json"], [])):
        answers = [*first, *label, *number, *categories, *(date if not first else [])]
        words = ["domain", "new", *source, "--out", "new.json", "--force"]
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join([*answers, ""])))
        assert main(words) == 0
        domain, found = read_domain("new.json")
        expected = {
            "age": Numeric(0, 100, bins=8, scale="log", missing=True),
            "job": Nominal(("clerk", "smith", "king"), ordered=True),
        }
        if not first:
            days = {"date": "%d.%m.%Y", "unit": "days"}
            expected["born"] = Numeric("2010-01-01", "2020-01-01", **days)
        assert domain == expected
        assert found == Label("class", "yes", "no")
        out = capsys.readouterr().out
        for words_of_error in (
            "one of these answers, please: n, d, c, b, s",
            "c  categories: one of a list of values",
            "1,000 may have a sign of thousands or of decimals: write 1000 without any",
            "1.000 may have a sign of thousands",
            "write 1.5, with a decimal point, for 1,5",
            "'a' is no number",
            "strictly increasing numbers of float64",
        ):
            assert words_of_error in out
        assert "could not convert" not in out
        assert "Numeric(" not in out


def test_a_step_back_reaches_the_column_before_and_the_label(folder, monkeypatch):
    monkeypatch.setattr(inputs, "is_terminal", lambda *_: True)
    label = ["y", "age", "n", "0 100", "<", "class", "2", "yes no"]  # back from the first column
    columns = ["n", "0 9", "", "e", "n", "<", "n", "0 100", "", "", "", "c", "<", "s"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join([*label, *columns, ""])))
    assert main(["domain", "new", "good.csv", "--out", "new.json"]) == 0
    assert read_domain("new.json") == ({"age": Numeric(0, 100)}, Label("class", "yes", "no"))


def test_an_interrupted_dialogue_says_that_nothing_was_written(folder, monkeypatch, capsys):
    monkeypatch.setattr(inputs, "is_terminal", lambda *_: True)

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.stdin, "readline", interrupt)
    assert main(["domain", "new", "good.csv", "--out", "new.json"]) == 130
    assert capsys.readouterr().err == "\ninterrupted; new.json was not written\n"
    assert not Path("new.json").exists()


def test_names_of_a_row_are_refused_by_the_owner(folder, monkeypatch):
    words = ["domain", "new", "good.csv", "--out", "new.json"]
    monkeypatch.setattr(inputs, "is_terminal", lambda *_: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert main(words) == 2


def test_a_template_has_what_a_schema_declares(folder, capsys):
    fields = [
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120}},
        {"name": "job", "type": "string", "constraints": {"enum": ["clerk", "smith"]}},
        {"name": "member", "type": "boolean", "trueValues": ["yes"], "falseValues": ["no"]},
        {"name": "class"},
    ]
    Path("schema.json").write_text(json.dumps({"resources": [{"schema": {"fields": fields}}]}))
    template = ["domain", "template", "--from-schema", "schema.json", "--label", "class"]
    assert main(template) == 0
    content = json.loads(capsys.readouterr().out)
    content["label"] |= {"positive": "yes", "negative": "no"}
    Path("new.json").write_text(json.dumps(content))
    kinds = Numeric(0, 120), Nominal(("clerk", "smith")), Boolean("yes", "no")
    assert tuple(read_domain("new.json")[0].values()) == kinds
    assert main([*template, "--all", "numeric"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["names"] == ["age", "job", "member"]
    assert list(content["columns"]) == ["*"]
