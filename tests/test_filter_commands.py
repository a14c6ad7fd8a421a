"""Filters on the command line."""

import pytest

import dpbt
from tests.test_command_line import ROWS, fill, fitting, refusal, run

BOUND = ("--rows", ROWS + 10)


@pytest.fixture
def folder(tmp_path):
    fill(tmp_path)
    return tmp_path


def test_fits_are_paid_for_until_the_filter_is_empty(folder, capsys):
    """And what the filter refuses writes no model."""
    path = folder / "filter.db"
    status, out, err = run(capsys, "filter", "new", path, "--epsilon", 8, *BOUND)
    assert (status, err) == (0, "")
    assert out.startswith(
        "filter: epsilon = 8 and delta = 0 for all releases together, under add_remove\n"
    )
    assert f"table: at most {ROWS + 10} rows\n" in out
    assert out.endswith(f"wrote {path}\n")

    paid = [*fitting(folder, "first.json"), "--filter", path]
    status, out, _ = run(capsys, *paid)
    assert status == 0
    assert f"{path}: epsilon = 3 of 8 is left" in out
    assert dpbt.Filter.open(path).spent == pytest.approx(5, rel=1e-6)

    second = [*fitting(folder, "second.json"), "--seed", 4, "--filter", path]
    status, out, err = run(capsys, *second)
    assert (status, out) == (2, "")
    assert err.startswith("error: the recipe costs epsilon = 5, and epsilon = 3 of 8 is left;")
    assert not (folder / "second.json").exists()

    status, out, _ = run(capsys, "filter", "show", path, "--ledger")
    assert status == 0
    assert "1        bdpe    5" in out
    assert "1.leaf" in out
    assert "RESEARCH KEY" in out  # the fit had a seed
    assert str(ROWS) not in out.replace(str(ROWS + 10), "")  # of the rows only the bound shows


def test_what_the_fit_refuses_is_not_paid_for(folder, capsys):
    path = folder / "filter.db"
    run(capsys, "filter", "new", path, "--epsilon", 8, *BOUND)
    err = refusal(capsys, *fitting(folder), "--relation", "replace_one", "--filter", path)
    assert "relation=add_remove, and the recipe for replace_one" in err
    tuned = [*fitting(folder), "--recipe", "tuned", "--filter", path]
    assert "no filter pays for it" in refusal(capsys, *tuned)
    err = refusal(capsys, *fitting(folder), "--max-rows-per-user", 2, "--filter", path)
    assert "max_rows_per_user=1, and the recipe for 2" in err
    assert dpbt.Filter.open(path).spent == 0


def test_bounds_that_are_tried_do_not_tell_how_many_rows_the_file_has(folder, capsys):
    """A fit asks the split of its filter alone, and no other before it reads the rows."""
    path = folder / "filter.db"
    run(capsys, "filter", "new", path, "--epsilon", 8, "--rows", ROWS - 1)
    for bound in (1, ROWS - 2, ROWS, ROWS + 1):
        err = refusal(capsys, *fitting(folder, rows=bound), "--filter", path)
        assert f"for rows={ROWS - 1}, and the recipe for {bound};" in err
    assert "more rows" in refusal(capsys, *fitting(folder, rows=ROWS - 1), "--filter", path)
    assert dpbt.Filter.open(path).spent == 0


def test_a_seed_pays_for_one_fit(folder, capsys):
    path = folder / "filter.db"
    run(capsys, "filter", "new", path, "--epsilon", 20, *BOUND)
    assert run(capsys, *fitting(folder, "first.json"), "--filter", path)[0] == 0
    again = refusal(capsys, *fitting(folder, "second.json"), "--filter", path)
    assert "a key of its own" in again
    assert not (folder / "second.json").exists()
    assert dpbt.Filter.open(path).spent == pytest.approx(5, rel=1e-6)


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
