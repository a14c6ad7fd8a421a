"""`python -m experiments asadi_2022`: its features, its settings, and its JSON."""

import json

import numpy as np
import pytest

from dpbt.data.domains import Boolean, Nominal, Numeric
from dpbt.data.splits import table_of_splits
from experiments import __main__ as command_line
from experiments.papers.asadi_2022 import dp_boost, features, jobs, shared_budget, sparsity
from paper_figures import __main__ as figures
from tests.support.example_tables import library_splits


def test_bins_become_columns_of_0_and_1_with_names():
    domain = {"x": Numeric(0, 3, bins=3, missing=True), "c": Nominal(("a", "b")), "f": Boolean()}
    columns = {
        "x": np.array([-1, 0.5, 1.5, 2.5, 9, np.nan]),
        "c": list("abbaab"),
        "f": [True, False] * 3,
    }
    encoded, names = features.one_hot_intervals(domain, library_splits(domain, columns))
    assert names[:4] == ["0 < x <= 1", "1 < x <= 2", "2 < x <= 3", "x is missing"]
    assert names[4:] == ["c = a", "c = b", "f"]
    inside = [[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    np.testing.assert_array_equal(encoded[:, :4], np.array(inside, bool))
    np.testing.assert_array_equal(encoded[:, 4:6].sum(axis=1), 1)
    np.testing.assert_array_equal(encoded[:, 6], columns["f"])


@pytest.fixture
def small(monkeypatch):
    """Sixty rows in the place of every data set; Adult has twelve test rows."""
    rng = np.random.default_rng(0)
    splits = rng.random((60, 5)) < 0.5
    table = table_of_splits(splits, splits[:, 0], np.ones(60, bool))

    def load(name, features="intervals", folder=None):
        del features, folder
        held = np.arange(60) < 12 if name == "adult" else None
        return table, held, [f"split {s}" for s in range(5)]

    monkeypatch.setattr(jobs, "load_features", load)
    monkeypatch.setattr(sparsity, "load_features", load)


def run(program, *arguments):
    return command_line.main(["asadi_2022", program, *arguments, "--json"])


@pytest.mark.slow
def test_a_smoke_run_measures_and_draws_every_series(small, tmp_path, capsys, monkeypatch):
    del small
    monkeypatch.chdir(tmp_path)
    for series, count in (("table2", 3 * 13 * 2), ("fig2", 13 * 4), ("fig3", 13 * 4)):
        assert run("series", series, "--keys", "2") == 0
        assert len(json.loads(capsys.readouterr().out)) == count
    assert run("sparsity", "--keys", "2") == 0
    lines = json.loads(capsys.readouterr().out)
    assert all(1 <= line["tight"] <= min(5, line["rounds"]) for line in lines)
    assert command_line.main(["asadi_2022", "aggregate"]) == 0
    names = [f"asadi_2022/{name}" for name in ("table2", "fig2", "sparsity")]
    assert figures.main([*names, "--results", "results/reproduction"]) == 0


def test_one_row_moves_gains_and_leaves_of_dp_boost_by_no_more_than_it_states():
    """Its parts share no row; a gain moves by at most 3, and a leaf by 1 / (1 + lambda)."""
    order, starts = dp_boost.divide_rows(1000)
    parts = np.split(order[:1000], starts[1:-1])
    assert sorted(np.concatenate(parts)) == list(range(1000))
    shares = np.diff(starts) / 1000
    assert shares[:10] == pytest.approx(shares[0] * 0.9 ** np.arange(10), abs=2e-3)

    count, edge = np.meshgrid(np.arange(40), np.linspace(-1, 1, 81), indexing="ij")
    total, lam = count * edge, dp_boost.LAMBDA
    for new in (-1, 0, 1):
        gains = (total + new) ** 2 / (count + 1 + lam) - total**2 / (count + lam)
        leaves = (total + new) / (count + 1 + lam) - total / (count + lam)
        assert np.abs(gains).max() <= dp_boost.GAIN_SENSITIVITY
        assert np.abs(leaves).max() <= 1 / (1 + lam) + 1e-9


def test_the_first_and_the_lasting_round_without_an_advantage_are_found():
    """The first round below gamma, the last window above it, and the rounds of single keys."""
    falling = np.linspace(0.1505, -0.0495, 201)
    curves = np.stack([falling, falling + 0.02])
    dip = curves.copy()
    dip[:, 9] = 0.0
    columns, dipped = (shared_budget.failure_columns(of_keys) for of_keys in (curves, dip))
    assert columns["first"] == 112  # the mean is 0.1615 - 0.001 t
    assert columns["lasting"] == 100  # the mean of rounds 100 to 124 is that of round 112
    assert (columns["earliest"], columns["latest"]) == (102, 122)
    assert (dipped["first"], dipped["lasting"]) == (10, 100)
    above = shared_budget.failure_columns(np.full((2, 40), 0.2))
    assert above["first"] is None
    assert above["lasting"] is None
    assert above["latest"] == 41
