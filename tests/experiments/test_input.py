"""Errors in options, files and domains are one line; bugs keep their traceback."""

import csv
import json

import pytest

from dpbt.cli.shared import STOPPED, InputError, of_input
from experiments import __main__ as command_line
from experiments import demo as demos
from experiments.common import commands, progress
from experiments.papers.bojarski_2014 import run as bojarski
from experiments.papers.bun_2020 import run as bun
from experiments.papers.nock_henecka_2020 import run as nock
from paper_figures import __main__ as figures
from paper_figures import privacy_audit

DOMAIN = {
    "columns": {"age": {"type": "numeric", "low": 0, "high": 100}},
    "label": {"column": "ill", "positive": "1", "negative": "0"},
}
RUN = "nock_henecka_2020 run"
SAMPLE = demos.Sample(0.25, 0.1, 0.75, 0.1)


def refusal(capsys, words) -> str:
    """The one line in which a command is refused."""
    assert command_line.main(list(map(str, words))) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("demo --rows 0", "--rows must be at least 1, got 0"),
        ("demo --rows 1_000", "--rows invalid whole number value: '1_000'"),
        ("demo --rows 10", "--rows must be at least the number of rows in the file, got 10"),
        ("demo --data rows.csv", "must be given together; --domain is missing"),
        ("demo --domain a.json", "must be given together; --data is missing"),
        ("bun_2020 run --seed -1", "--seed must be in 0..2147483647, got -1"),
        ("audit --epsilon 1_0", "--epsilon invalid number value: '1_0'"),
        ("audit --epsilon nan", "--epsilon invalid number value: 'nan'"),
        ("audit --epsilon 0", "--epsilon must be greater than 0, got 0"),
        ("audit --epsilon 1e-99", "epsilon"),
        ("audit --delta 1", "--delta must be at least 0 and less than 1, got 1"),
        ("audit --depth 99", "depth"),
        (f"{RUN} --clip inf", "--clip must be greater than 0 and finite, got inf"),
        (f"{RUN} --clip 2 2", "a setting occurs twice"),
        (f"{RUN} --bins 1", "--bins must be in 2..255, got 1"),
        (
            "asadi_2022 run --settings-at 0",
            "--settings-at must be greater than 0 and finite",
        ),
        ("bojarski_2014 run --rows 0", "--rows must be at least 100, got 0"),
        ("bojarski_2014 run --runs 11", "--runs must be in 1..10, got 11"),
        ("bojarski_2014 peers --dataset voting", "must be adult or banknote for peers, got 'vot"),
    ],
)
def test_bad_options_are_one_line(words, expected, capsys):
    assert expected in refusal(capsys, words.split())


BAD_FILES = {
    "no CSV": ({}, "rows.csv: No such file or directory"),
    "empty CSV": ({"rows.csv": ""}, "rows.csv: the file is empty"),
    "header only": ({"rows.csv": "age,ill\n"}, "rows.csv needs at least 10 rows with one of the"),
    "no column": ({"rows.csv": "old,ill\n1,1\n"}, "rows.csv, line 1: no column 'age'"),
    "no label": ({"rows.csv": "age\n1\n"}, "rows.csv, line 1: no column 'ill'"),
    "column twice": ({"rows.csv": "age,age,ill\n1,1,1\n"}, "rows.csv, line 1: more than one col"),
    "domain folder": ({"domain.json": None}, "domain.json: Is a directory"),
    "not JSON": ({"domain.json": "age: 0"}, "domain.json: the domain is no JSON, or cut off"),
    "not text": ({"domain.json": b"\xff\xfe"}, "domain.json: the domain holds bytes that are no"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_one_line_that_names_the_file(name, tmp_path, capsys):
    changed, expected = BAD_FILES[name]
    files = {"domain.json": json.dumps(DOMAIN), **changed}
    if "domain.json" in changed:
        files["rows.csv"] = "age,ill\n1,1\n"
    for file, content in files.items():
        if content is None:
            (tmp_path / file).mkdir()
        elif isinstance(content, bytes):
            (tmp_path / file).write_bytes(content)
        elif content != "-":
            (tmp_path / file).write_text(content)
    given = ("--data", tmp_path / "rows.csv", "--domain", tmp_path / "domain.json")
    out = tmp_path / "out"
    assert f"error: {tmp_path}/{expected}" in refusal(capsys, ("demo", *given, "--out", out))
    assert not out.exists()


def test_a_bug_keeps_its_traceback(monkeypatch):
    def fail(options):
        raise ValueError("a bug")

    monkeypatch.setattr(demos, "run", fail)
    with pytest.raises(ValueError, match="a bug"):
        command_line.main(["demo"])
    monkeypatch.setattr(figures, "draw", fail)
    with pytest.raises(ValueError, match="a bug"):
        figures.main([])


def test_only_errors_about_a_path_are_converted():
    with pytest.raises(InputError), of_input("some/file"):
        raise ValueError("some/file: broken")
    with pytest.raises(ValueError, match="a bug") as caught, of_input("some/file"):
        raise ValueError("a bug")
    assert not isinstance(caught.value, InputError)


def test_an_interrupted_demo_keeps_what_it_measured(tmp_path, capsys, monkeypatch):
    left = iter(range(6))

    def evaluate(models, recipe, lanes, done):
        if next(left, None) is None:
            raise KeyboardInterrupt
        done(len(models.held_out))
        return SAMPLE

    monkeypatch.setattr(demos, "evaluate", evaluate)
    monkeypatch.setattr(demos, "lanes_of", lambda *_: 1)
    (tmp_path / "rows.csv").write_text("age,ill\n" + "20,0\n60,1\n" * 10)
    (tmp_path / "domain.json").write_text(json.dumps(DOMAIN))
    files = ["--data", str(tmp_path / "rows.csv"), "--domain", str(tmp_path / "domain.json")]
    assert command_line.main(["demo", "--smoke", *files, "--out", str(tmp_path)]) == 130
    captured = capsys.readouterr()
    assert captured.err.strip() == STOPPED
    with open(tmp_path / "demo.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["epsilon"] for line in lines] == ["0.1", "1.0", "10.0", "0.1"]
    assert {line["auroc_mean"] for line in lines} == {"0.75"}


def test_progress_is_a_line_a_minute_if_there_is_no_terminal(capsys, monkeypatch):
    clock = iter([0.0, 30.0, 61.0, 62.0, 122.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress.progress(10, "fit", "adult") as shown:
        for _ in range(4):
            shown.update(2)
    assert capsys.readouterr().err == "adult: 4 of 10 fits\nadult: 8 of 10 fits\n"

    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
    with progress.progress(10, "fit", "adult") as bar:
        bar.update(10)
    assert "10/10" in capsys.readouterr().err


def test_smoke_results_have_their_own_folder(monkeypatch):
    for module in (demos, bojarski, bun, nock):
        parser = commands.Parser()
        module.arguments(parser)
        full, smoke = (parser.parse_args(words) for words in ([], ["--smoke"]))
        assert commands.out_folder(smoke) == commands.out_folder(full) / "smoke"
        named = parser.parse_args(["--smoke", "--out", "mine"])
        assert str(commands.out_folder(named)) == "mine"


def test_figures_that_are_left_out_are_named(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(figures, "NAMES", ("privacy_audit", "asadi_2022/table2"))
    assert figures.main([]) == 1
    message = capsys.readouterr().err
    assert "left out: privacy_audit: results/audit holds no audits; run: python -m" in message
    assert (
        "left out: asadi_2022/table2: reproduction/asadi_2022/table2.csv does not exist" in message
    )
    assert message.endswith("2 of 2 figures were left out\n")
    assert figures.main(["privacy_audit"]) == 2
    assert capsys.readouterr().err.startswith("error: privacy_audit: results/audit holds no audits")


def test_audits_of_every_algorithm_are_drawn(tmp_path):
    head = "algorithm,calibration,criterion,relation,dataset,claimed_epsilon,largest_loss"
    head += ",worst_step_ratio,transcripts,rounds,depth,neighbours"
    for name, criterion in (("rf-l", "all rows"), ("bdpe", "square")):
        line = f"{name},tight,{criterion},add_remove,x,1.0,0.5,0.9,2,3,4,5"
        (tmp_path / f"{name}.csv").write_text(f"{head}\n{line}\n")
    drawn = privacy_audit.draw(tmp_path)
    assert list(drawn) == ["bdpe", "rf-l"]
    for figure in drawn.values():
        figure.clear()
