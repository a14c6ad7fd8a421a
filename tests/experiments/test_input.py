"""Errors in options, files and domains are one line; bugs keep their traceback."""

import pytest

from experiments import __main__ as command_line
from experiments.common import cache, results, tables
from paper_figures import __main__ as figures

RUN = "nock_henecka_2020 run"


def refusal(capsys, arguments) -> str:
    """The one line in which a command is refused."""
    assert command_line.main(list(map(str, arguments))) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("demo --rows 0", "--rows must be at least 1, got 0"),
        ("demo --rows 10", "--rows must be at least the number of rows in the file, got 10"),
        ("demo --data rows.csv", "must be given together; --domain is missing"),
        ("bun_2020 run --seed -1", "--seed must be in 0..2147483647, got -1"),
        ("audit --epsilon nan", "--epsilon invalid number value: 'nan'"),
        ("audit --epsilon 1e-99", "epsilon"),
        ("audit --delta 1", "--delta must be at least 0 and less than 1, got 1"),
        (f"{RUN} --clip inf", "--clip must be greater than 0 and finite, got inf"),
        (f"{RUN} --clip 2 2", "a setting occurs twice"),
        ("bojarski_2014 run --runs 11", "--runs must be in 1..10, got 11"),
    ],
)
def test_bad_options_are_refused_in_one_line(command, expected, capsys):
    assert expected in refusal(capsys, command.split())


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


def test_every_command_is_listed_on_one_line_and_names_the_cache(capsys):
    assert command_line.main([]) == 0
    listed = capsys.readouterr().out
    for name in command_line.COMMANDS:
        assert sum(line.strip().startswith(f"{name} ") for line in listed.splitlines()) == 1
    with pytest.raises(SystemExit):
        command_line.main(["asadi_2022", "run", "--help"])
    for help in (listed, capsys.readouterr().out):
        assert cache.VARIABLE in help
        assert max(map(len, help.splitlines())) <= 100


def test_results_are_read_as_they_were_written(tmp_path):
    lines = [{"a": 1, "b": 0.1, "c": True, "d": None, "e": "tight", "f": float("inf")}]
    results.write_csv(tmp_path / "x.csv", lines, {"seed": 0})
    [line_read] = results.read_csv(tmp_path / "x.csv", "demo")
    assert {name: line_read[name] for name in lines[0]} == lines[0]
    assert (line_read["seed"], type(line_read["a"]), type(line_read["c"])) == (0, int, bool)
    assert tables.align_lines([line_read], ["a", "b", "d", "e"]) == "a  b    d  e\n1  0.1     tight"
