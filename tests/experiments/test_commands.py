"""What all commands share: refusals, help, results that are read as they were written, timing."""

import contextlib
import io

from experiments import __main__ as command_line
from experiments.common import cache, results, tables


def said(*words):
    """What a command prints before it ends."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        command_line.main(list(words))
    return text.getvalue()


def test_every_command_is_listed_on_one_line_and_names_the_cache():
    listed = said()
    for name in command_line.COMMANDS:
        assert sum(line.strip().startswith(f"{name} ") for line in listed.splitlines()) == 1
        assert cache.VARIABLE in said(name, "--help")
    for name in command_line.PAPERS:
        for program in ("run", "table"):
            assert cache.VARIABLE in said(name, program, "--help")
    assert max(map(len, listed.splitlines())) <= 100


def test_results_are_read_as_they_were_written(tmp_path):
    lines = [{"a": 1, "b": 0.1, "c": True, "d": None, "e": "tight", "f": float("inf")}]
    results.write_csv(tmp_path / "x.csv", lines, {"seed": 0})
    [found] = results.read_csv(tmp_path / "x.csv", "demo")
    assert {name: found[name] for name in lines[0]} == lines[0]
    assert (found["seed"], type(found["a"]), type(found["c"])) == (0, int, bool)
    assert tables.of_lines([found], ["a", "b", "d", "e"]) == "a  b    d  e\n1  0.1     tight"
