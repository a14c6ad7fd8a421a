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


def study_of_two_columns(target_type=None, rows=400):
    """A study of two columns: of two classes, or with a target of some kind."""
    rng = np.random.default_rng(0)
    columns = {"age": rng.uniform(0, 100, rows), "job": rng.choice(["clerk", "cook"], rows)}
    label = (columns["age"] > 50) & (columns["job"] == "cook")
    dataset = data.Dataset("two columns", DOMAIN, columns, label)
    if target_type is not None:
        cells = (
            columns["age"]
            if isinstance(target_type, Numeric)
            else rng.choice(target_type.values[:-1], rows)
        )
        dataset = targets.Targeted("two columns", DOMAIN, columns, target_type, cells)
    target = study.Study(dataset, np.zeros((1, rows), bool), rows).target
    return study.Study(dataset, np.stack([study.draw_test_rows(target, k) for k in range(2)]), rows)


def line_of_results(*, task=FRONTIER, dataset, method, epsilon=1.0, delta, first_measure):
    """A line of results with the given value of the measure by which methods are ranked."""
    measures_of_line = {column: 0.01 if column.endswith("_sd") else 0.5 for column in task.columns}
    measures_of_line[f"{task.ranked[0]}_mean"] = first_measure
    origin = {"splits": 2, "bins": 64, "rows": 90, "library": None, "setting": "words"}
    origin |= {"commit": "c", "jax": "j", "device": "d", "seconds": 0.2}
    cell = {"dataset": dataset, "method": method, "epsilon": epsilon, "delta": delta}
    return {**cell, **measures_of_line, **origin}


def run(command, *arguments):
    return command_line.main([command, *map(str, arguments)])


def refuse_to_measure_again(*_):
    raise AssertionError("measured again")


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_the_smallest_run_of_auto_is_resumed_and_shown(name, tmp_path, capsys, monkeypatch):
    if name == "numbers" and not people.is_available("colon"):
        pytest.skip("tables about people are not there")
    arguments = ("--smoke", "--json", "--out", tmp_path)
    arguments += () if name == "tuning" else ("--methods", "auto")
    assert run(name, *arguments) == 0
    lines = json.loads(capsys.readouterr().out)
    assert {result["method"] for result in lines} == (
        {"auto", "tuned"} if name == "tuning" else {"auto"}
    )
    assert all(math.isfinite(result[f"{TASKS[name].ranked[0]}_mean"]) for result in lines)
    monkeypatch.setattr("experiments.comparisons.task.Task.measure_line", refuse_to_measure_again)
    assert run(name, *arguments) == 0
    assert json.loads(capsys.readouterr().out) == lines


def test_a_line_is_found_only_where_everything_agrees(tmp_path):
    store, two_columns = Store(tmp_path / "x.csv", "frontier"), study_of_two_columns()
    cell = Cell("two columns", "larger-class", None, None)
    identity = FRONTIER.line_identity(cell, two_columns)
    assert identity is not None
    assert store.find(identity) is None
    store.add({**identity, **FRONTIER.measure_line(cell, two_columns)})
    assert store.find(identity) is not None
    for name, other_value in (
        ("setting", "other words"),
        ("splits", 3),
        ("rows", 401),
        ("bins", 10),
    ):
        assert store.find({**identity, name: other_value}) is None

    store.add({**identity, **FRONTIER.measure_line(cell, two_columns), "setting": "other words"})
    (only_line,) = store.lines()
    assert only_line["setting"] == "other words"


@pytest.mark.parametrize("task", [FRONTIER, CLASSES], ids=lambda task: task.name)
def test_the_larger_class_states_the_shares_of_the_training_rows(task):
    two_columns = study_of_two_columns(
        None if task is FRONTIER else Nominal(("x", "y", "z", "never"))
    )
    measured = task.measure_line(Cell("two columns", "larger-class", None, None), two_columns)
    accuracies, losses = [], []
    for test_rows in two_columns.tests:
        training, test_labels = (
            two_columns.target[rows].astype(int) for rows in (~test_rows, test_rows)
        )
        shares = np.bincount(training, minlength=4) / len(training)
        accuracies.append(np.mean(test_labels == shares.argmax()))
        losses.append(-np.mean(np.log(shares[test_labels])))
    assert measured["accuracy_mean"] == pytest.approx(np.mean(accuracies))
    assert measured["auroc_mean"] == 0.5
    assert measured["log_loss_mean"] == pytest.approx(np.mean(losses))
    assert measured["accuracy_sd"] == pytest.approx(np.std(accuracies, ddof=1))


@pytest.mark.parametrize(
    "target_type", [Nominal(("x", "y", "z")), Numeric(0, 100)], ids=["words", "number"]
)
def test_methods_of_other_targets_read_the_rows_that_they_are_given(target_type):
    two_columns = study_of_two_columns(target_type)
    assert (
        methods_of_targets.table_of_rows(two_columns, two_columns.tests[0]).present.sum()
        == two_columns.tests[0].sum()
    )


@pytest.mark.parametrize("objective", [None, "poisson"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_private_mean_is_the_mean_at_a_large_epsilon_and_far_off_at_a_small_one(delta, objective):
    study = study_of_two_columns(Numeric(0, 100), rows=4000)
    rows = int(np.sum(~study.tests[0]))
    study = dataclasses.replace(
        study, data=dataclasses.replace(study.data, objective=objective), rows=rows
    )
    accurate, inaccurate = (
        NUMBERS.measure_line(Cell("two columns", "private-mean", epsilon, delta), study)
        for epsilon in (100.0, 1e-5)
    )
    assert accurate["r2_mean"] == pytest.approx(0, abs=0.01)
    assert accurate["bias_mean"] == pytest.approx(0, abs=0.05)
    assert inaccurate["r2_mean"] < -1
    if objective is None:
        assert accurate["deviance_mean"] is None
    else:
        assert accurate["deviance_mean"] == pytest.approx(1, abs=0.01)
        assert inaccurate["deviance_mean"] > accurate["deviance_mean"]


def test_columns_that_are_predicted_are_no_columns_of_their_tables():
    if not people.is_available("colon"):
        pytest.skip("tables about people are not there")
    study = people.load_number("colon.nodes")
    assert "nodes" not in study.domain
    assert set(study.columns) == set(study.domain)
    assert np.all(np.isfinite(study.cells))
    assert study.objective == "poisson"
    assert study.kind == Numeric(0, 33.5)


def test_measures_of_predictions_are_those_counted_by_hand():
    """Areas are compared with counts of pairs; classes without test rows do not count."""
    rng = np.random.default_rng(1)
    score, positive = rng.integers(0, 5, 60), rng.random(60) < 0.4
    pairs = [(a > b) + (a == b) / 2 for a in score[positive] for b in score[~positive]]
    assert measures.auroc(score, positive) == pytest.approx(np.mean(pairs))
    assert math.isnan(measures.auroc(score, np.ones(60, bool)))

    target, probability = np.array([0, 0, 1, 1]), np.eye(3)[[0, 0, 1, 0]]
    measured = measures.measure_classes(target, probability.argmax(axis=1), probability)
    assert (measured["accuracy"], measured["auroc"]) == (0.75, 0.75)  # of two classes, not of three
    assert measured["log_loss"] == pytest.approx(-math.log(measures.MIN_PROBABILITY) / 4)
    assert measures.measure_classes(target, target, None)["auroc"] is None

    numbers = np.array([0.0, 2.0, 1.0])
    measured = measures.measure_numbers(np.array([0.0, 2.0, 4.0]), numbers)
    assert [measured[name] for name in ("rmse", "mae", "r2")] == pytest.approx(
        [math.sqrt(3), 1, 1 - 9 / 8]
    )


def test_ranks_share_ties_and_take_pure_methods_at_every_delta():
    def line_at(dataset, method, delta, value):
        return line_of_results(dataset=dataset, method=method, delta=delta, first_measure=value)

    lines = [
        *(line_at("a", m, 1e-6, v) for m, v in (("x", 0.9), ("y", 0.8), ("z", 0.8))),
        *(line_at("b", m, 1e-6, v) for m, v in (("x", 0.5), ("y", 0.7), ("w", 0.99), ("z", 0.4))),
        *(line_at(name, "pure", 0.0, 0.6) for name in "ab"),
        line_at("a", "x", 0.0, 0.1),
    ]
    mean_ranks = ranks.mean_ranks(lines, epsilon=1.0, delta=1e-6, measure="auroc_mean")
    assert mean_ranks.datasets == 2
    assert mean_ranks.by_method == {"x": (2.0, 1), "y": (1.75, 1), "z": (3.25, 0), "pure": (3.0, 0)}
    no_ranks = ranks.mean_ranks(lines, epsilon=9.0, delta=1e-6, measure="auroc_mean")
    assert no_ranks == ({}, 0)
    line_of_other_epsilon = line_of_results(
        dataset="a", method="x", epsilon=2.0, delta=1e-6, first_measure=0.9
    )
    assert {
        line["method"] for line in ranks.lines_at_every_epsilon([*lines, line_of_other_epsilon])
    } == {"x"}


def test_ranks_that_differ_and_cells_where_auto_is_behind():
    """Demsar (2006) has the critical value; a rival needs .003 and two errors."""
    assert ranks.critical_difference(5, 30) == pytest.approx(2.728 * math.sqrt(30 / 180), abs=1e-3)
    two_errors = 2 * 0.01 * math.hypot(1, 1) / math.sqrt(2)
    lines = [
        line_of_results(dataset=name, method=method, delta=0.0, first_measure=value)
        for name, above in (("a", 0.0031), ("b", 0.0029))
        for method, value in (
            ("auto", 0.7),
            ("forest", 0.7 + above + two_errors),
            ("lazybb", 0.7001),
        )
    ]
    table_lines = pages_of_task(FRONTIER).tables["behind"](lines).splitlines()
    assert table_lines[2:] == ["| a | 1 / 0 `forest` |", "| b | 0 / 0 |", "| all, of 2 | 1 / 0 |"]


# Challengers, whose noise is for these sensitivities.


def change_without_row(statistic, position):
    """The change of a statistic when one row leaves, whose number is at an end of its range."""
    two_columns = study_of_two_columns()
    two_columns.data.columns["age"][position] = 100.0
    rows, everyone = challengers.encode_features(two_columns), np.ones(400, np.float32)
    without = everyone.copy()
    without[position] = 0
    statistics = (
        jax.tree.leaves(statistic(rows, jnp.asarray(weights))) for weights in (everyone, without)
    )
    return np.concatenate([np.ravel(a - b) for a, b in zip(*statistics, strict=True)])


@pytest.mark.parametrize("row", [0, 7])
def test_one_row_moves_what_challengers_release_by_the_sensitivity_that_they_state(row):
    change = change_without_row(challengers.class_histograms, row)
    assert np.abs(change).sum() == 2  # columns
    assert np.square(change).sum() == 2

    def second_moments(rows, present):
        return jnp.triu((rows.wide * present[:, None]).T @ rows.wide)

    assert 0.5 < np.linalg.norm(change_without_row(second_moments, row)) <= 1
    none = jnp.zeros(challengers.encode_features(study_of_two_columns()).wide.shape[1])
    for coefficient, statistic, max_change in (
        (0, challengers.logistic_gradient, 0.5),
        (0, challengers.residual_sum, 1.0),
        (9, challengers.logistic_gradient, 0.5),
        (9, challengers.residual_sum, 1.0),
    ):
        change = change_without_row(
            lambda rows, at, f=statistic, w=none + coefficient: f(rows, at, w), row
        )
        assert np.linalg.norm(change) <= max_change + 1e-4
        assert coefficient or np.linalg.norm(change) == pytest.approx(max_change, abs=1e-4)

    width = challengers.encode_features(study_of_two_columns()).narrow.shape[1]
    for size, attained in ((5.0, False), (1e-3, True)):
        net = jnp.full((width, challengers.UNITS), 1.0), jnp.full(challengers.UNITS, size), 0.0
        change = change_without_row(
            lambda rows, at, net=net: challengers.net_gradient(rows, at, net), row
        )
        assert np.linalg.norm(change) <= 1 + 1e-4
        assert not attained or np.linalg.norm(change) == pytest.approx(1, abs=1e-4)


def test_one_row_moves_the_tables_of_synthetic_rows_by_the_sensitivity_that_they_state():
    two_columns = study_of_two_columns()
    codes, sizes = challengers.join_bins(two_columns)
    tables = [
        synthetic.GroupedCodes(
            codes[first_row:400], sizes, two_columns.target[first_row:].astype(int), num_groups=2
        )
        for first_row in (0, 1)
    ]
    with_row, without_row = (synthetic.count_columns(table) for table in tables)
    assert [np.abs(a - b).sum() for a, b in zip(with_row, without_row, strict=True)] == [1, 1]
    totals, shares = np.array([150.0, 100.0]), [np.full((2, size), 1 / size) for size in sizes]
    with_row, without_row = (
        synthetic.score_pairs(synthetic.count_pairs(table), shares, totals) for table in tables
    )
    assert np.abs(with_row - without_row).max() == pytest.approx(1, abs=1e-3)
    with_row, without_row = (synthetic.count_pairs(table)[:, :5, 5:] for table in tables)
    assert np.abs(with_row - without_row).sum() == 1


@pytest.mark.parametrize("name", [*challengers.METHODS, *synthetic.METHODS])
def test_challengers_learn_without_noise_and_know_nothing_under_much(name):
    for epsilon, low, high in ((1e3, 0.85, 1.0), (1e-5, 0.2, 0.8)):
        measured = FRONTIER.measure_line(
            Cell("two columns", name, epsilon, 1e-6), study_of_two_columns(rows=2000)
        )
        assert low <= measured["auroc_mean"] <= high, measured


def test_fresh_tables_have_the_domains_of_their_descriptions():
    names = [name for name in fresh.NAMES if fresh.is_available(name)]
    assert {"digits", "wine", "diabetes"} <= set(names)
    for name in names:
        dataset = fresh.load(name, 64)
        assert 0.1 < dataset.label.mean() < 0.9
        assert {len(column) for column in dataset.columns.values()} == {len(dataset.label)}
        assert len(np.unique(np.asarray(dataset.table.bins))) > 2
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
