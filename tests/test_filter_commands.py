"""Filters on the command line."""

import pytest

import dpbt
from tests.support.command_lines import (
    NUM_ROWS,
    fit_command,
    refusal_line,
    run_command,
    write_rows_and_domains,
)

BOUND = ("--rows", NUM_ROWS + 10)


@pytest.fixture
def folder(tmp_path):
    write_rows_and_domains(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_fits_are_paid_for_until_the_filter_is_empty(folder, capsys):
    """A fit that the filter refuses writes no model."""
    path = folder / "filter.db"
    status, out, _ = run_command(capsys, "filter", "new", path, "--epsilon", 8, *BOUND)
    assert status == 0
    assert f"{dpbt.Filter.open(path)}\nwrote {path}\n" == out

    status, out, _ = run_command(capsys, *fit_command(folder, "first.json"), "--filter", path)
    assert status == 0
    assert f"{path}: epsilon = 3 of 8 is left" in out

    second_fit = [*fit_command(folder, "second.json"), "--seed", 4, "--filter", path]
    assert "costs epsilon = 5, and epsilon = 3 of 8 is left" in refusal_line(capsys, *second_fit)
    fit_of_same_seed = [*fit_command(folder, "second.json"), "--epsilon", 1, "--filter", path]
    assert "a key of its own" in refusal_line(capsys, *fit_of_same_seed)  # it has the same seed
    assert not (folder / "second.json").exists()

    status, out, _ = run_command(capsys, "filter", "show", path, "--ledger")
    assert "1        bdpe    5" in out
    assert "1.leaf" in out
    assert "RESEARCH KEY" in out  # the fit had a seed
    # Of the rows only the bound shows.
    assert str(NUM_ROWS) not in out.replace(str(NUM_ROWS + 10), "")


def test_outside_releases_are_paid_for(folder, capsys):
    path = folder / "filter.db"
    run_command(capsys, "filter", "new", path, "--epsilon", 1, *BOUND, "--delta", "1e-6")
    charge = ("filter", "charge", path, "--name", "means", "--date", "2026-11-26")
    for options in (("--gaussian", 30, "--count", 2), ("--zcdp", 1e-3), ("--pure", 0.01)):
        status, out, _ = run_command(capsys, *charge, *options)
        assert status == 0
        assert "is left" in out
    assert "3        means (outside, 2026-11-26)" in run_command(capsys, "filter", "show", path)[1]
    assert "finite bits" in refusal_line(capsys, *charge, "--epsilon-delta", 0.1, 1e-6)
    assert " is left" in refusal_line(capsys, *charge, "--laplace", 1)
    assert "state one of" in refusal_line(capsys, *charge)


def test_an_invalid_filter_is_refused_in_one_line(folder, capsys):
    path = folder / "filter.db"
    assert "needs a delta above 0" in refusal_line(
        capsys, "filter", "new", path, "--epsilon", 1, *BOUND, "--measure", "rho"
    )
    assert not path.exists()
    run_command(
        capsys, "filter", "new", path, "--epsilon", 1, *BOUND, "--delta", "1e-6", "--measure", "mu"
    )
    assert dpbt.Filter.open(path).terms.measure == "mu"
    assert "the file exists" in refusal_line(capsys, "filter", "new", path, "--epsilon", 1, *BOUND)
    other_file = folder / "domain.json"
    assert "not a filter" in refusal_line(capsys, "filter", "show", other_file)
    assert "not a filter" in refusal_line(capsys, *fit_command(folder), "--filter", other_file)
    assert "No such file" in refusal_line(capsys, "filter", "show", folder / "none.json")
    assert not (folder / "model.json").exists()
