"""Filters on the command line."""

import pytest

import dpbt
from tests.support.command_lines import ROWS, fill, fitting, refusal, run

BOUND = ("--rows", ROWS + 10)


@pytest.fixture
def folder(tmp_path):
    fill(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_fits_are_paid_for_until_the_filter_is_empty(folder, capsys):
    """And what the filter refuses writes no model."""
    path = folder / "filter.db"
    status, out, _ = run(capsys, "filter", "new", path, "--epsilon", 8, *BOUND)
    assert status == 0
    assert f"{dpbt.Filter.open(path)}\nwrote {path}\n" == out

    status, out, _ = run(capsys, *fitting(folder, "first.json"), "--filter", path)
    assert status == 0
    assert f"{path}: epsilon = 3 of 8 is left" in out

    second = [*fitting(folder, "second.json"), "--seed", 4, "--filter", path]
    assert "costs epsilon = 5, and epsilon = 3 of 8 is left" in refusal(capsys, *second)
    again = [*fitting(folder, "second.json"), "--epsilon", 1, "--filter", path]
    assert "a key of its own" in refusal(capsys, *again)  # it has the same seed
    assert not (folder / "second.json").exists()

    status, out, _ = run(capsys, "filter", "show", path, "--ledger")
    assert "1        bdpe    5" in out
    assert "1.leaf" in out
    assert "RESEARCH KEY" in out  # the fit had a seed
    assert str(ROWS) not in out.replace(str(ROWS + 10), "")  # of the rows only the bound shows


def test_outside_releases_are_paid_for(folder, capsys):
    path = folder / "filter.db"
    run(capsys, "filter", "new", path, "--epsilon", 1, *BOUND, "--delta", "1e-6")
    charge = ("filter", "charge", path, "--name", "means", "--date", "2026-11-26")
    for stated in (("--gaussian", 30, "--count", 2), ("--zcdp", 1e-3), ("--pure", 0.01)):
        status, out, _ = run(capsys, *charge, *stated)
        assert status == 0
        assert "is left" in out
    assert "3        means (outside, 2026-11-26)" in run(capsys, "filter", "show", path)[1]
    assert "finite bits" in refusal(capsys, *charge, "--epsilon-delta", 0.1, 1e-6)
    assert " is left" in refusal(capsys, *charge, "--laplace", 1)
    assert "state one of" in refusal(capsys, *charge)


def test_bad_filters_are_one_line(folder, capsys):
    path = folder / "filter.db"
    assert "needs a delta above 0" in refusal(
        capsys, "filter", "new", path, "--epsilon", 1, *BOUND, "--measure", "rho"
    )
    assert not path.exists()
    run(capsys, "filter", "new", path, "--epsilon", 1, *BOUND, "--delta", "1e-6", "--measure", "mu")
    assert dpbt.Filter.open(path).terms.measure == "mu"
    assert "the file exists" in refusal(capsys, "filter", "new", path, "--epsilon", 1, *BOUND)
    other = folder / "domain.json"
    assert "not a filter" in refusal(capsys, "filter", "show", other)
    assert "not a filter" in refusal(capsys, *fitting(folder), "--filter", other)
    assert "No such file" in refusal(capsys, "filter", "show", folder / "none.json")
    assert not (folder / "model.json").exists()
