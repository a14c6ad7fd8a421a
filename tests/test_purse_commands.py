"""Purses on the command line."""

import json

import pytest

import dpbt
from tests.test_command_line import ROWS, fill, fitting, refusal, run

BOUND = ("--rows", ROWS + 10)


@pytest.fixture
def folder(tmp_path):
    fill(tmp_path)
    return tmp_path


def test_fits_are_paid_for_until_the_purse_is_empty(folder, capsys):
    """And what the purse refuses writes no model."""
    path = folder / "purse.json"
    status, out, err = run(capsys, "purse", "new", path, "--epsilon", 8, *BOUND)
    assert (status, err) == (0, "")
    assert out.startswith("purse: epsilon = 8 for all releases together, under add_remove\n")
    assert f"table: at most {ROWS + 10} rows\n" in out
    assert out.endswith(f"wrote {path}\n")

    paid = [*fitting(folder, "first.json"), "--purse", path]
    status, out, _ = run(capsys, *paid)
    assert status == 0
    assert f"{path}: epsilon = 3 of 8 is left" in out
    assert dpbt.Purse.load(path).spent == pytest.approx(5, rel=1e-6)

    second = [*fitting(folder, "second.json"), "--seed", 4, "--purse", path]
    status, out, err = run(capsys, *second)
    assert (status, out) == (2, "")
    assert err == "error: the recipe costs epsilon = 5, and epsilon = 3 of 8 is left\n"
    assert not (folder / "second.json").exists()

    status, out, _ = run(capsys, "purse", "show", path, "--ledger")
    assert status == 0
    assert "1        bdpe    5" in out
    assert "1.leaf" in out
    assert "RESEARCH KEY" in out  # the fit had a seed
    assert str(ROWS) not in out.replace(str(ROWS + 10), "")  # of the rows only the bound shows


def test_what_the_fit_refuses_is_not_paid_for(folder, capsys):
    path = folder / "purse.json"
    run(capsys, "purse", "new", path, "--epsilon", 8, *BOUND)
    err = refusal(capsys, *fitting(folder), "--relation", "replace_one", "--purse", path)
    assert "under add_remove, and the recipe under replace_one" in err
    tuned = [*fitting(folder), "--recipe", "tuned", "--purse", path]
    assert "tuned cannot be paid from a purse" in refusal(capsys, *tuned)
    err = refusal(capsys, *fitting(folder), "--rows-per-person", 2, "--purse", path)
    assert "rows_per_person=1, and the recipe for 2" in err
    assert dpbt.Purse.load(path).spent == 0


def test_bounds_that_are_tried_do_not_tell_how_many_rows_the_file_has(folder, capsys):
    """A fit asks the question of its purse alone, and no other before it reads the rows."""
    path = folder / "purse.json"
    run(capsys, "purse", "new", path, "--epsilon", 8, "--rows", ROWS - 1)
    for bound in (1, ROWS - 2, ROWS, ROWS + 1):
        err = refusal(capsys, *fitting(folder, rows=bound), "--purse", path)
        assert f"table of rows={ROWS - 1}, and the recipe for {bound};" in err
    assert "more rows" in refusal(capsys, *fitting(folder, rows=ROWS - 1), "--purse", path)
    assert dpbt.Purse.load(path).spent == 0


def test_a_seed_pays_for_one_fit(folder, capsys):
    path = folder / "purse.json"
    run(capsys, "purse", "new", path, "--epsilon", 20, *BOUND)
    assert run(capsys, *fitting(folder, "first.json"), "--purse", path)[0] == 0
    again = refusal(capsys, *fitting(folder, "second.json"), "--purse", path)
    assert "a key of its own" in again
    assert not (folder / "second.json").exists()
    assert dpbt.Purse.load(path).spent == pytest.approx(5, rel=1e-6)


def test_bad_purses_are_one_line(folder, capsys):
    path = folder / "purse.json"
    assert "needs a delta above 0" in refusal(
        capsys, "purse", "new", path, "--epsilon", 1, *BOUND, "--measure", "rho"
    )
    assert not path.exists()
    run(capsys, "purse", "new", path, "--epsilon", 1, *BOUND, "--delta", "1e-6", "--measure", "mu")
    assert json.loads(path.read_text())["measure"] == "mu"
    assert "the file exists" in refusal(capsys, "purse", "new", path, "--epsilon", 1, *BOUND)
    other = folder / "domain.json"
    assert "not the file of a purse" in refusal(capsys, "purse", "show", other)
    assert "not the file of a purse" in refusal(capsys, *fitting(folder), "--purse", other)
    assert "No such file" in refusal(capsys, "purse", "show", folder / "none.json")
    assert not (folder / "model.json").exists()
