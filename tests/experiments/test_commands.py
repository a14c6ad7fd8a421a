"""What all commands share: refusals, help, results that are read as they were written, timing."""

import contextlib
import io

import jax
import numpy as np
import pytest

from experiments import __main__ as command_line
from experiments.common import cache, results, tables
from experiments.papers.nock_henecka_2020 import settings, table


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


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nothing"], "COMMAND invalid choice: 'nothing'"),
        (["bun_2020", "run", "--keys", "0"], "--keys must be at least 1, got 0"),
        (["bun_2020", "run", "--keys", "many"], "--keys invalid whole number value: 'many'"),
        (["asadi_2022", "series", "fig9"], "invalid choice: 'fig9'"),
        (["bun_2020", "table", "--results", "none"], "run: python -m experiments bun_2020 run"),
        (["nock_henecka_2020", "table", "--results", "none"], "nock_henecka_2020 run"),
    ],
)
def test_refusals_are_one_line(words, expected, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command_line.main(words) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert message.count("\n") == 1
    assert expected in message


def test_compiled_programs_are_kept_where_and_from_when_the_environment_says(monkeypatch, tmp_path):
    names = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"
    before = {name: getattr(jax.config, name) for name in names}
    try:
        monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
        monkeypatch.setenv(cache.LEAST, "0.25")
        cache.use_compilation_cache()
        own = cache.machine()
        assert jax.config.jax_compilation_cache_dir == str(tmp_path / own)
        assert jax.config.jax_persistent_cache_min_compile_time_secs == 0.25
        monkeypatch.delenv(cache.LEAST)
        cache.use_compilation_cache(min_seconds=0.75)
        assert jax.config.jax_persistent_cache_min_compile_time_secs == 0.75
        monkeypatch.delenv(cache.VARIABLE)
        cache.use_compilation_cache()
        assert jax.config.jax_compilation_cache_dir == str(cache.ROOT / ".cache" / "jax" / own)
        assert (cache.ROOT / "pyproject.toml").exists()
    finally:
        for name, value in before.items():
            jax.config.update(name, value)


def test_machines_with_other_instructions_or_compilers_keep_their_programs_apart(monkeypatch):
    monkeypatch.setattr(cache.importlib.metadata, "version", lambda name: "0.8.0")
    own = cache.machine()
    assert cache.machine() == own
    monkeypatch.setattr(cache.Path, "read_text", lambda path: "flags : sse2\n")
    weaker = cache.machine()
    monkeypatch.setattr(cache.importlib.metadata, "version", lambda name: "0.8.1")
    assert len({own, weaker, cache.machine()}) == 3


def test_results_are_read_as_they_were_written(tmp_path):
    lines = [{"a": 1, "b": 0.1, "c": True, "d": None, "e": "tight", "f": float("inf")}]
    results.write_csv(tmp_path / "x.csv", lines, {"seed": 0})
    [found] = results.read_csv(tmp_path / "x.csv", "demo")
    assert {name: found[name] for name in lines[0]} == lines[0]
    assert (found["seed"], type(found["a"]), type(found["c"])) == (0, int, bool)
    assert tables.of_lines([found], ["a", "b", "d", "e"]) == "a  b    d  e\n1  0.1     tight"


def test_table_1_counts_the_best_alphas_of_saved_fits(tmp_path, monkeypatch):
    """Two domains, two settings of each alpha; one setting has two folds of different errors."""
    saved = {}
    best = {"one": (0.1, 0.2, 0.3), "two": (0.2, 0.2, 0.25)}
    for name, errors in best.items():
        rows = []
        for epsilon in settings.EPSILONS:
            for alpha, error in zip(settings.ALPHAS, errors, strict=True):
                rows += [(epsilon, f"{alpha}-a", str(alpha), error + d) for d in (-0.05, 0.05)]
                rows.append((epsilon, f"{alpha}-b", str(alpha), 0.4))
        epsilon, setting, alpha, error = map(np.asarray, zip(*rows, strict=True))
        columns = {"epsilon": epsilon, "setting": setting, "alpha": alpha, "test_error": error}
        columns["calibration"] = np.full(len(rows), "tight")
        saved[name] = columns
    monkeypatch.setattr(table, "saved", lambda folder: saved)
    assert table.calibrations(tmp_path) == ["tight"]
    lines = table.lines(tmp_path, ["tight"])
    assert [line["epsilon"] for line in lines] == list(settings.EPSILONS)
    assert lines[0]["counts"] == {"objective": 2, "0.1": 1, "1.0": 0}
    assert list(lines[0]["best_error_mean"].values()) == pytest.approx([0.15, 0.2, 0.275])
    assert table.flat(lines[0])["paper 0.1"] == 3
    with pytest.raises(ValueError, match="no results of one for published"):
        table.lines(tmp_path, ["published"])
