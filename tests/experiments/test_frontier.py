"""`frontier`: resumed runs, absent peers, parts of auto, ranks, pages and figures."""

import itertools
import json
import math
import sys
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.commands.errors import InputError
from dpbt.data.domains import Boolean, Nominal, Numeric
from dpbt.privacy import accounting
from experiments import __main__ as command_line
from experiments.common import data, peers, ranks, results
from experiments.common import pages as shared
from experiments.common.cells import Cell, Store
from experiments.frontier import (
    ablation,
    cells,
    methods,
    pages,
    questions,
    settings,
    study,
    tuned_tables,
)
from paper_figures.frontier import curves
from paper_figures.frontier import ranks as rank_figure

PAGE = Path(__file__).parents[2] / "docs" / "frontier.md"
DOMAIN = {"age": Numeric(0, 100, bins=4, missing=True), "job": Nominal(("clerk", "smith", "cook"))}


def ours(rows=400, split=0):
    """A study of two columns, of which the label is a function."""
    rng = np.random.default_rng(split)
    columns = {"age": rng.uniform(0, 100, rows), "job": rng.choice(["clerk", "cook"], rows)}
    label = (columns["age"] > 50) & (columns["job"] == "cook")
    dataset = data.Dataset("two columns", DOMAIN, columns, label)
    tests = np.stack([study.test_rows(label, k) for k in range(2)])
    return study.Study(dataset.name, dataset, tests, rows)


def line(dataset, method, epsilon, delta, auroc, **more):
    """A line of results."""
    numbers = {"accuracy_mean": auroc - 0.1, "accuracy_sd": 0.01, "auroc_mean": auroc}
    numbers |= {"auroc_sd": 0.01, "log_loss_mean": 0.3, "seconds": 0.2, "setting": "words"}
    origin = {"splits": 2, "bins": 64, "rows": 90, "library": None}
    origin |= {"commit": "c", "jax": "j", "device": "d"}
    cell = {"dataset": dataset, "method": method, "epsilon": epsilon, "delta": delta}
    return {**cell, **numbers, **origin, **more}


LINES = [
    *(line("a", "auto", e, d, 0.9 + 0.01 * e) for e in (0.1, 1.0) for d in (0.0, 1e-6)),
    *(line("a", "lazybb", e, d, 0.8, log_loss_mean=None) for e in (0.1, 1.0) for d in (0.0, 1e-6)),
    *(line("a", "diffprivlib-forest", e, 0.0, 0.905) for e in (0.1, 1.0)),
    line("a", "auto-without-noise", None, None, 0.95),
    line("a", "boosting", None, None, 0.97),
    line("a", "auto:depth-4", 1.0, 0.0, 0.9),
    line("a", "auto:clip-1", 1.0, 0.0, 0.9, splits=3),
]


def run(*words):
    return command_line.main(["frontier", *map(str, words)])


def test_a_run_names_absent_peers_and_a_second_run_measures_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "diffprivlib", None)
    words = ("--smoke", "--json", "--out", tmp_path)
    assert run(*words) == 0
    printed = capsys.readouterr()
    lines = json.loads(printed.out)
    assert [line["method"] for line in lines] == ["auto", "auto", "larger-class"]
    assert all(tuple(line) == cells.KEYS for line in lines)
    assert all(0.5 <= line["auroc_mean"] <= 1 for line in lines)
    assert "skipped: diffprivlib-forest: install the extra `peers`" in printed.err

    def fail(*_):
        raise AssertionError("measured again")

    before = (tmp_path / "frontier.csv").read_bytes()
    monkeypatch.setattr("experiments.frontier.run.measured", fail)
    assert run(*words) == 0
    assert json.loads(capsys.readouterr().out) == lines
    assert (tmp_path / "frontier.csv").read_bytes() == before
    with pytest.raises(AssertionError, match="measured again"):
        run(*words, "--bound", 2)  # other rows, so other numbers


@pytest.mark.slow  # compiles a choice
def test_a_run_of_tuning_is_resumed(tmp_path, capsys, monkeypatch):
    words = ["tuning", "--smoke", "--json", "--out", str(tmp_path)]
    assert command_line.main(words) == 0
    lines = json.loads(capsys.readouterr().out)
    assert [line["method"] for line in lines] == ["auto", "tuned"]
    assert all(tuple(line) == cells.KEYS for line in lines)

    def fail(*_):
        raise AssertionError("measured again")

    monkeypatch.setattr("experiments.frontier.run.measured", fail)
    assert command_line.main(words) == 0
    assert json.loads(capsys.readouterr().out) == lines
    page = tmp_path / "page.md"
    page.write_text(f"<!-- tuning: summary -->\n{tuned_tables.PAGES.end}\n")
    assert command_line.main(["tuning", "--doc", str(page), "--out", str(tmp_path)]) == 0
    assert "| `tuned` | auroc |" in page.read_text()


def test_a_line_is_found_only_where_everything_agrees(tmp_path):
    store, given = Store(tmp_path / "x.csv", "frontier"), ours()
    cell = Cell("two columns", "larger-class", None, None)
    wanted = cells.about(cell, given)
    assert wanted is not None
    assert store.find(wanted) is None
    store.add({**wanted, **cells.measured(cell, given)})
    assert store.find(wanted) is not None
    for name, other in (("setting", "other words"), ("splits", 3), ("rows", 401), ("bins", 10)):
        assert store.find({**wanted, name: other}) is None

    store.add({**wanted, **cells.measured(cell, given), "setting": "other words"})
    (only,) = store.lines()
    assert only["setting"] == "other words"


def test_the_larger_class_states_the_shares_of_the_training_rows():
    given = ours()
    found = cells.measured(Cell("two columns", "larger-class", None, None), given)
    shares = [given.target[~test].mean() for test in given.tests]
    held = [given.target[test].mean() for test in given.tests]
    losses = [
        -h * math.log(p) - (1 - h) * math.log(1 - p) for p, h in zip(shares, held, strict=True)
    ]
    assert found["accuracy_mean"] == pytest.approx(1 - np.mean(held))
    assert found["auroc_mean"] == 0.5
    assert found["log_loss_mean"] == pytest.approx(np.mean(losses))
    assert found["accuracy_sd"] == pytest.approx(np.std(held, ddof=1))


@pytest.mark.parametrize("budget", [(0.1, 0.0), (5.0, 0.0), (1.0, 5e-8), (math.inf, 0.0)])
def test_the_setting_of_auto_is_what_auto_runs(budget):
    epsilon, delta = budget
    common = {"epsilon": epsilon, "delta": delta, "rows": 5000, "domain": DOMAIN, "seed": 3}
    numbers = ablation.numbers(5000, len(DOMAIN), epsilon, delta)
    expected, found = recipes.auto(**common), recipes.oblivious_boost(**common, **numbers)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ablation.CHANGES)
def test_each_change_changes_one_part_where_it_has_a_meaning(name):
    given = ours()
    settings_of = methods.ABLATION[f"auto:{name}"].setting
    auto = methods.METHODS["auto"].setting
    changed = [
        (settings_of(given, e, d), auto(given, e, d)) for e in (0.1, 500.0) for d in (0, 0.1)
    ]
    different = [(a, b) for a, b in changed if a is not None]
    assert different
    assert all(a != b for a, b in different)


def test_the_noise_of_zcdp_is_that_of_a_smaller_epsilon():
    numbers = ablation.numbers(5000, 2, 1.0, 1e-6)
    other = ablation.changed(numbers, ablation.CHANGES["zcdp"], 1.0, 1e-6)["epsilon"]
    assert other < 1
    rho = float(accounting.gdp_mu(other, 1e-6)) ** 2 / 2
    assert rho == pytest.approx(float(accounting.zcdp_rho(1.0, 1e-6)), rel=1e-6)


def test_peers_read_declared_values_and_bounds():
    columns = {"age": np.array([-5.0, 20.0, np.nan]), "job": np.array(["cook", "cook", "clerk"])}
    rows = peers.rows_of(data.Dataset("x", DOMAIN, columns, np.array([True, False, True])))
    np.testing.assert_array_equal(rows.numbers, [[0, 2], [20, 2], [0, 0]])
    np.testing.assert_array_equal(rows.bounds, [[0, 100], [0, 3]])
    assert list(rows.nominal) == [False, True]
    assert rows.unit.min() == 0
    assert rows.unit.max() == 1
    assert np.linalg.norm(rows.unit, axis=1).max() <= math.sqrt(2)
    assert list(rows.where(np.array([False, True, True])).label) == [0, 1]


def test_ranks_share_ties_and_take_pure_methods_at_every_delta():
    lines = [
        *(line("a", m, 1.0, 1e-6, v) for m, v in (("x", 0.9), ("y", 0.8), ("z", 0.8))),
        *(line("b", m, 1.0, 1e-6, v) for m, v in (("x", 0.5), ("y", 0.7), ("w", 0.99))),
        *(line(name, "pure", 1.0, 0.0, 0.6) for name in "ab"),
        line("b", "z", 1.0, 1e-6, 0.4),
        line("a", "x", 1.0, 0.0, 0.1),
    ]
    found = ranks.mean_ranks(lines, 1.0, 1e-6, "auroc_mean")
    assert found.datasets == 2
    assert found.of == {"x": (2.0, 1), "y": (1.75, 1), "z": (3.25, 0), "pure": (3.0, 0)}
    assert ranks.mean_ranks(lines, 9.0, 1e-6, "auroc_mean") == ({}, 0)


def test_pages_hold_what_the_lines_say_and_nothing_else_changes():
    marks = "\n".join(f"<!-- frontier: {name} -->\nold\n{pages.END}" for name in pages.TABLES)
    page = f"before\n{marks}\nafter"
    found = pages.filled(page, LINES, "page")
    assert found.startswith("before\n")
    assert found.endswith("after")
    assert "old" not in found
    assert "| `auto` | pure | .801 .901 .30 | **.810 .910 .30** |" in found
    assert "| `lazybb` | delta = 1e-06 | .700 .800 | .700 .800 |" in found
    assert "| `diffprivlib-forest` | pure | **.805 .905 .30** | .805 .905 .30 |" in found
    assert "| a | 0.970 | 0.950 | -2.0 | -4.9 | -4.0 | -4.9 | -4.0 |" in found
    assert "| depth 4 | -1.0 / -1.0 (1) |" in found
    assert "| clip 1 |  |" in found  # it has another number of splits
    assert pages.filled(found, LINES, "page") == found

    with pytest.raises(InputError, match="found nothing"):
        pages.filled("<!-- frontier: nothing -->\n<!-- frontier: end -->", LINES, "page")
    with pytest.raises(InputError, match="found none"):
        pages.filled("no marks", LINES, "page")


def test_pages_of_tuning_hold_differences_to_auto():
    of = tuned_tables.PAGES
    page = "\n".join(f"<!-- tuning: {name} -->\nold\n{of.end}" for name in of.tables)
    assert shared.filled(of, page, LINES, "page").count("Not measured yet.") == 3
    tuned = [
        line("a", "tuned", 1.0, 0.0, 0.95, log_loss_mean=0.25),
        line("a", "hindsight", 1.0, 0.0, 0.92),
    ]
    found = shared.filled(of, page, [*LINES, *tuned], "page")
    assert "Not measured yet." not in found
    assert ".910: +4.0 / - / +1.0 |" in found
    assert ".300: -0.050 / - / +0.000 |" in found
    assert "| `tuned` | log loss |  | -0.050 (1/1) |  |  |" in found


def test_the_page_is_made_of_its_summary():
    lines = results.read_csv(PAGE.with_suffix(".csv"), "frontier")
    assert pages.filled(PAGE.read_text(), lines, "page") == PAGE.read_text()


def test_the_page_of_tuning_is_made_of_its_summary():
    page = PAGE.with_name("tuning.md")
    lines = results.read_csv(page.with_suffix(".csv"), "tuning")
    assert shared.filled(tuned_tables.PAGES, page.read_text(), lines, "page") == page.read_text()


def test_a_page_is_written_from_saved_results_and_again_from_its_summary(tmp_path, capsys):
    page, saved = tmp_path / "page.md", tmp_path / "frontier.csv"
    page.write_text(f"<!-- frontier: price -->\n{pages.END}\n")
    results.write_columns(saved, LINES)
    assert run("--doc", page, "--out", tmp_path) == 0
    first = page.read_text()
    assert "| a | 0.970 |" in first
    saved.unlink()
    assert run("--doc", page, "--out", tmp_path) == 0
    assert page.read_text() == first
    assert "page.csv" in capsys.readouterr().out


def test_figures_have_a_line_for_each_method(tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    results.write_columns(tmp_path / "frontier.csv", LINES)
    drawn = curves.draw(tmp_path / "frontier.csv")
    assert list(drawn) == ["a"]
    panels = drawn["a"].axes
    assert len(panels) == 4
    auto = next(at for at in panels[0].lines if at.get_label() == "auto")
    np.testing.assert_allclose(auto.get_xydata(), [[0.1, 0.099], [1.0, 0.09]])
    labels = {at.get_label() for at in panels[1].lines}
    assert "diffprivlib-forest" in labels  # pure, so valid at every delta
    assert rank_figure.draw(tmp_path / "frontier.csv").axes
    plt.close("all")


@pytest.mark.slow
def test_scores_are_those_of_fit_and_predict():
    """The experiment reads the scores of the boosting loop, which also holds the test rows."""
    given = ours()
    for name in ("auto", "bdpe-tight"):
        found = methods.METHODS[name].fit(given, 0, 2.0, 0.0)
        recipe = recipes.auto(epsilon=2.0, rows=400, domain=DOMAIN)
        if name == "bdpe-tight":
            recipe = recipes.bdpe(epsilon=2.0, rows=400, rounds=5, depth=3, criterion="gini")
        table = given.dataset.table._replace(present=~given.tests[0])
        model = dpbt.fit(jax.random.key(0), table, recipe)
        expected = np.asarray(dpbt.decision_function(model, table))[given.tests[0]]
        np.testing.assert_allclose(found.score, expected, atol=2e-5)
        expected = np.asarray(dpbt.predict_proba(model, table))[given.tests[0]]
        np.testing.assert_allclose(found.probability, expected, atol=2e-5)


def test_refusals(capsys, tmp_path, monkeypatch):
    monkeypatch.delenv("DPBT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run("--dataset", "breast-cancer", "magic", "--out", tmp_path) == 2
    assert "magic: no " in capsys.readouterr().err
    assert not (tmp_path / "frontier.csv").exists()
    assert run("--ablation", "--methods", "auto") == 2
    assert run("--bound", "0.5") == 2
    assert run("--methods", "magic") == 2
    message = capsys.readouterr().err
    assert "--methods must be left out" in message
    assert "must be at least 1, got 0.5" in message
    assert "invalid choice: 'magic'" in message


def test_data_sets_are_known():
    assert set(settings.DATASETS) <= set(data.ENTRIES)
    assert set(settings.SETTLED).isdisjoint(settings.UNTOUCHED)


def test_levels_that_ask_nothing_new_are_counted():
    """Against an enumeration of all rows: which levels an earlier one decides, and which leaves."""
    cells = np.array([4, 2, 3])
    rows = np.stack(np.meshgrid(*map(np.arange, cells), indexing="ij"), -1).reshape(-1, 3)
    rng = np.random.default_rng(0)
    for _ in range(50):
        feature, right = rng.integers(0, 3, 5), rng.random((5, 64)) < 0.5
        answers = right[np.arange(5)[:, None], rows.T[feature]]
        reached = [len(np.unique(answers[:count], axis=1).T) for count in range(6)]
        wasted = sum(after == before for before, after in itertools.pairwise(reached))
        assert questions.of_tree(feature, right, cells) == (wasted, reached[-1])

    few, many = {"a": Boolean()}, {"a": Numeric(0, 1, 64), "b": Numeric(0, 1, 64)}
    assert questions.wasted(few, trees=6) == (1.0, pytest.approx(5 / 6), pytest.approx(31 / 32))
    assert questions.wasted(many, trees=6).levels == 0
