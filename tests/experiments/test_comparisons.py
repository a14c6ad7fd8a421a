"""`frontier`, `classes`, `regression` and `tuning`: resumed runs, measures, pages and figures."""

import dataclasses
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpbt.data.domains import Nominal, Numeric
from dpbt.models import measures
from dpbt.owners.cli.parsing import InputError
from experiments import __main__ as command_line
from experiments.common import data, pages, ranks, results
from experiments.common.cells import Cell, Store
from experiments.common.data import fresh, people, targets
from experiments.comparisons import challengers, study, synthetic
from experiments.comparisons import targets as methods_of_targets
from experiments.comparisons.pages import pages_of_task
from experiments.comparisons.task import CLASSES, FRONTIER, NUMBERS, REGRESSION, TUNING
from tests.support import ROOT

DOCS = ROOT / "docs"
DOMAIN = {"age": Numeric(0, 100, bins=4, missing=True), "job": Nominal(("clerk", "smith", "cook"))}
TASKS = {task.name: task for task in (FRONTIER, TUNING, CLASSES, REGRESSION, NUMBERS)}
PAGES = {
    "classes": "classes_and_regression",
    "regression": "classes_and_regression",
    "numbers": "accuracy",
}


def ours(kind=None, rows=400):
    """A study of two columns: of two classes, or with a target of some kind."""
    rng = np.random.default_rng(0)
    columns = {"age": rng.uniform(0, 100, rows), "job": rng.choice(["clerk", "cook"], rows)}
    label = (columns["age"] > 50) & (columns["job"] == "cook")
    given = data.Dataset("two columns", DOMAIN, columns, label)
    if kind is not None:
        cells = columns["age"] if isinstance(kind, Numeric) else rng.choice(kind.values[:-1], rows)
        given = targets.Targeted("two columns", DOMAIN, columns, kind, cells)
    target = study.Study(given, np.zeros((1, rows), bool), rows).target
    return study.Study(given, np.stack([study.draw_test_rows(target, k) for k in range(2)]), rows)


def line(task, dataset, method, epsilon, delta, first, **more):
    """A line of results whose most telling measure is given."""
    found = {column: 0.01 if column.endswith("_sd") else 0.5 for column in task.columns}
    found[f"{task.ranked[0]}_mean"] = first
    origin = {"splits": 2, "bins": 64, "rows": 90, "library": None, "setting": "words"}
    origin |= {"commit": "c", "jax": "j", "device": "d", "seconds": 0.2}
    cell = {"dataset": dataset, "method": method, "epsilon": epsilon, "delta": delta}
    return {**cell, **found, **origin, **more}


def run(command, *words):
    return command_line.main([command, *map(str, words)])


def fail(*_):
    raise AssertionError("measured again")


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_the_smallest_run_of_auto_is_resumed_and_shown(name, tmp_path, capsys, monkeypatch):
    if name == "numbers" and not people.is_available("colon"):
        pytest.skip("tables about people are not there")
    words = ("--smoke", "--json", "--out", tmp_path)
    words += () if name == "tuning" else ("--methods", "auto")
    assert run(name, *words) == 0
    lines = json.loads(capsys.readouterr().out)
    assert {line["method"] for line in lines} == (
        {"auto", "tuned"} if name == "tuning" else {"auto"}
    )
    assert all(math.isfinite(line[f"{TASKS[name].ranked[0]}_mean"]) for line in lines)
    monkeypatch.setattr("experiments.comparisons.task.Task.measure_line", fail)
    assert run(name, *words) == 0
    assert json.loads(capsys.readouterr().out) == lines


def test_a_line_is_found_only_where_everything_agrees(tmp_path):
    store, given = Store(tmp_path / "x.csv", "frontier"), ours()
    cell = Cell("two columns", "larger-class", None, None)
    wanted = FRONTIER.line_identity(cell, given)
    assert wanted is not None
    assert store.find(wanted) is None
    store.add({**wanted, **FRONTIER.measure_line(cell, given)})
    assert store.find(wanted) is not None
    for name, other in (("setting", "other words"), ("splits", 3), ("rows", 401), ("bins", 10)):
        assert store.find({**wanted, name: other}) is None

    store.add({**wanted, **FRONTIER.measure_line(cell, given), "setting": "other words"})
    (only,) = store.lines()
    assert only["setting"] == "other words"


@pytest.mark.parametrize("task", [FRONTIER, CLASSES], ids=lambda task: task.name)
def test_the_larger_class_states_the_shares_of_the_training_rows(task):
    given = ours(None if task is FRONTIER else Nominal(("x", "y", "z", "never")))
    found = task.measure_line(Cell("two columns", "larger-class", None, None), given)
    accuracies, losses = [], []
    for test in given.tests:
        taught, held = (given.target[rows].astype(int) for rows in (~test, test))
        shares = np.bincount(taught, minlength=4) / len(taught)
        accuracies.append(np.mean(held == shares.argmax()))
        losses.append(-np.mean(np.log(shares[held])))
    assert found["accuracy_mean"] == pytest.approx(np.mean(accuracies))
    assert found["auroc_mean"] == 0.5
    assert found["log_loss_mean"] == pytest.approx(np.mean(losses))
    assert found["accuracy_sd"] == pytest.approx(np.std(accuracies, ddof=1))


@pytest.mark.parametrize(
    "kind", [Nominal(("x", "y", "z")), Numeric(0, 100)], ids=["words", "number"]
)
def test_methods_of_other_targets_read_the_rows_that_they_are_given(kind):
    given = ours(kind)
    assert (
        methods_of_targets.table_of_rows(given, given.tests[0]).present.sum()
        == given.tests[0].sum()
    )


@pytest.mark.parametrize("objective", [None, "poisson"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_private_mean_is_the_mean_at_a_large_epsilon_and_far_off_at_a_small_one(delta, objective):
    given = ours(Numeric(0, 100), rows=4000)
    rows = int(np.sum(~given.tests[0]))
    given = dataclasses.replace(
        given, data=dataclasses.replace(given.data, objective=objective), rows=rows
    )
    near, far = (
        NUMBERS.measure_line(Cell("two columns", "private-mean", epsilon, delta), given)
        for epsilon in (100.0, 1e-5)
    )
    assert near["r2_mean"] == pytest.approx(0, abs=0.01)
    assert near["bias_mean"] == pytest.approx(0, abs=0.05)
    assert far["r2_mean"] < -1
    if objective is None:
        assert near["deviance_mean"] is None
    else:
        assert near["deviance_mean"] == pytest.approx(1, abs=0.01)
        assert far["deviance_mean"] > near["deviance_mean"]


def test_columns_that_are_predicted_are_no_columns_of_their_tables():
    if not people.is_available("colon"):
        pytest.skip("tables about people are not there")
    given = people.load_number("colon.nodes")
    assert "nodes" not in given.domain
    assert set(given.columns) == set(given.domain)
    assert np.all(np.isfinite(given.cells))
    assert given.objective == "poisson"
    assert given.kind == Numeric(0, 33.5)


def test_measures_of_predictions():
    """Areas by counting pairs; classes without test rows do not count."""
    rng = np.random.default_rng(1)
    score, positive = rng.integers(0, 5, 60), rng.random(60) < 0.4
    pairs = [(a > b) + (a == b) / 2 for a in score[positive] for b in score[~positive]]
    assert measures.auroc(score, positive) == pytest.approx(np.mean(pairs))
    assert math.isnan(measures.auroc(score, np.ones(60, bool)))

    target, probability = np.array([0, 0, 1, 1]), np.eye(3)[[0, 0, 1, 0]]
    found = measures.measure_classes(target, probability.argmax(axis=1), probability)
    assert (found["accuracy"], found["auroc"]) == (0.75, 0.75)  # of two classes, not of three
    assert found["log_loss"] == pytest.approx(-math.log(measures.MIN_PROBABILITY) / 4)
    assert measures.measure_classes(target, target, None)["auroc"] is None

    numbers = np.array([0.0, 2.0, 1.0])
    found = measures.measure_numbers(np.array([0.0, 2.0, 4.0]), numbers)
    assert [found[name] for name in ("rmse", "mae", "r2")] == pytest.approx(
        [math.sqrt(3), 1, 1 - 9 / 8]
    )


def test_ranks_share_ties_and_take_pure_methods_at_every_delta():
    def at(dataset, method, delta, value):
        return line(FRONTIER, dataset, method, 1.0, delta, value)

    lines = [
        *(at("a", m, 1e-6, v) for m, v in (("x", 0.9), ("y", 0.8), ("z", 0.8))),
        *(at("b", m, 1e-6, v) for m, v in (("x", 0.5), ("y", 0.7), ("w", 0.99), ("z", 0.4))),
        *(at(name, "pure", 0.0, 0.6) for name in "ab"),
        at("a", "x", 0.0, 0.1),
    ]
    found = ranks.mean_ranks(lines, epsilon=1.0, delta=1e-6, measure="auroc_mean")
    assert found.datasets == 2
    assert found.by_method == {"x": (2.0, 1), "y": (1.75, 1), "z": (3.25, 0), "pure": (3.0, 0)}
    nothing = ranks.mean_ranks(lines, epsilon=9.0, delta=1e-6, measure="auroc_mean")
    assert nothing == ({}, 0)
    more = line(FRONTIER, "a", "x", 2.0, 1e-6, 0.9)
    assert {at["method"] for at in ranks.lines_at_every_epsilon([*lines, more])} == {"x"}


def test_ranks_that_differ_and_cells_where_auto_is_behind():
    """Demsar (2006) has the critical value; a rival needs .003 and two errors."""
    assert ranks.critical_difference(5, 30) == pytest.approx(2.728 * math.sqrt(30 / 180), abs=1e-3)
    error = 2 * 0.01 * math.hypot(1, 1) / math.sqrt(2)
    lines = [
        line(FRONTIER, name, method, 1.0, 0.0, value)
        for name, above in (("a", 0.0031), ("b", 0.0029))
        for method, value in (("auto", 0.7), ("forest", 0.7 + above + error), ("lazybb", 0.7001))
    ]
    found = pages_of_task(FRONTIER).tables["behind"](lines).splitlines()
    assert found[2:] == ["| a | 1 / 0 `forest` |", "| b | 0 / 0 |", "| all, of 2 | 1 / 0 |"]


# Challengers, whose noise is for these sensitivities.


def apart(statistic, position):
    """How far the two columns' statistic moves without one row, whose number is at an end."""
    given = ours()
    given.data.columns["age"][position] = 100.0
    rows, everyone = challengers.encode_features(given), np.ones(400, np.float32)
    without = everyone.copy()
    without[position] = 0
    both = (jax.tree.leaves(statistic(rows, jnp.asarray(each))) for each in (everyone, without))
    return np.concatenate([np.ravel(a - b) for a, b in zip(*both, strict=True)])


@pytest.mark.parametrize("row", [0, 7])
def test_one_row_moves_what_challengers_release_by_the_sensitivity_that_they_state(row):
    moved = apart(challengers.class_histograms, row)
    assert np.abs(moved).sum() == 2  # columns
    assert np.square(moved).sum() == 2

    def second_moments(rows, present):
        return jnp.triu((rows.wide * present[:, None]).T @ rows.wide)

    assert 0.5 < np.linalg.norm(apart(second_moments, row)) <= 1
    none = jnp.zeros(challengers.encode_features(ours()).wide.shape[1])
    for steep, statistic, most in (
        (0, challengers.logistic_gradient, 0.5),
        (0, challengers.residual_sum, 1.0),
        (9, challengers.logistic_gradient, 0.5),
        (9, challengers.residual_sum, 1.0),
    ):
        moved = apart(lambda rows, at, f=statistic, w=none + steep: f(rows, at, w), row)
        assert np.linalg.norm(moved) <= most + 1e-4
        assert steep or np.linalg.norm(moved) == pytest.approx(most, abs=1e-4)

    width = challengers.encode_features(ours()).narrow.shape[1]
    for size, attained in ((5.0, False), (1e-3, True)):
        net = jnp.full((width, challengers.UNITS), 1.0), jnp.full(challengers.UNITS, size), 0.0
        moved = apart(lambda rows, at, net=net: challengers.net_gradient(rows, at, net), row)
        assert np.linalg.norm(moved) <= 1 + 1e-4
        assert not attained or np.linalg.norm(moved) == pytest.approx(1, abs=1e-4)


def test_one_row_moves_the_tables_of_synthetic_rows_by_the_sensitivity_that_they_state():
    given = ours()
    codes, sizes = challengers.join_bins(given)
    tables = [
        synthetic.GroupedCodes(codes[at:400], sizes, given.target[at:].astype(int), num_groups=2)
        for at in (0, 1)
    ]
    whole, without = (synthetic.count_columns(table) for table in tables)
    assert [np.abs(a - b).sum() for a, b in zip(whole, without, strict=True)] == [1, 1]
    totals, shares = np.array([150.0, 100.0]), [np.full((2, size), 1 / size) for size in sizes]
    whole, without = (
        synthetic.score_pairs(synthetic.count_pairs(table), shares, totals) for table in tables
    )
    assert np.abs(whole - without).max() == pytest.approx(1, abs=1e-3)
    whole, without = (synthetic.count_pairs(table)[:, :5, 5:] for table in tables)
    assert np.abs(whole - without).sum() == 1


@pytest.mark.parametrize("name", [*challengers.METHODS, *synthetic.METHODS])
def test_challengers_learn_without_noise_and_know_nothing_under_much(name):
    for epsilon, low, high in ((1e3, 0.85, 1.0), (1e-5, 0.2, 0.8)):
        found = FRONTIER.measure_line(Cell("two columns", name, epsilon, 1e-6), ours(rows=2000))
        assert low <= found["auroc_mean"] <= high, found


def test_fresh_tables_have_the_domains_of_their_descriptions():
    names = [name for name in fresh.NAMES if fresh.is_available(name)]
    assert {"digits", "wine", "diabetes"} <= set(names)
    for name in names:
        given = fresh.load(name, 64)
        assert 0.1 < given.label.mean() < 0.9
        assert {len(column) for column in given.columns.values()} == {len(given.label)}
        assert len(np.unique(np.asarray(given.table.bins))) > 2
    if not fresh.is_available("fair"):
        with pytest.raises(InputError, match="ships with statsmodels, which is not installed"):
            fresh.load("fair", 64)


# Pages and figures.


@pytest.mark.parametrize("name", TASKS)
def test_the_page_is_made_of_its_summary(name):
    page, lines = DOCS / f"{PAGES.get(name, name)}.md", results.read_csv(DOCS / f"{name}.csv", name)
    assert (
        pages.fill_tables(pages_of_task(TASKS[name]), page.read_text(), lines, "page")
        == page.read_text()
    )


def test_a_comparison_without_its_data_is_refused(capsys, tmp_path, monkeypatch):
    monkeypatch.delenv("DPBT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(InputError, match="no target of 'banknote' is declared"):
        targets.load_target("banknote", 10)
    assert run("frontier", "--dataset", "breast-cancer", "magic", "--out", tmp_path) == 2
    assert run("classes", "--dataset", "iris", "yeast", "--out", tmp_path) == 2
    message = capsys.readouterr().err
    assert "magic: no " in message
    assert "yeast: no " in message
    assert not list(tmp_path.glob("*.csv"))
