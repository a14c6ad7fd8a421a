"""`frontier`, `classes`, `regression` and `tuning`: resumed runs, measures, pages and figures."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from dpbt.cli.shared import InputError
from dpbt.data.domains import Nominal, Numeric
from experiments import __main__ as command_line
from experiments.common import data, pages, ranks, results
from experiments.common.cells import Cell, Store
from experiments.common.data import targets
from experiments.comparisons import measures, study
from experiments.comparisons.methods import Found
from experiments.comparisons.pages import pages_of
from experiments.comparisons.task import CLASSES, FRONTIER, REGRESSION, TUNING

DOCS = Path(__file__).parents[2] / "docs"
DOMAIN = {"age": Numeric(0, 100, bins=4, missing=True), "job": Nominal(("clerk", "smith", "cook"))}
TASKS = {task.name: task for task in (FRONTIER, TUNING, CLASSES, REGRESSION)}
PAGES = {"classes": "classes_and_regression", "regression": "classes_and_regression"}


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
    return study.Study(given, np.stack([study.test_rows(target, k) for k in range(2)]), rows)


def line(task, dataset, method, epsilon, delta, first, **more):
    """A line of results whose most telling measure is given."""
    found = {column: 0.01 if column.endswith("_sd") else 0.5 for column in task.columns}
    found[f"{task.more[0]}_mean"] = first
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
    words = ("--smoke", "--json", "--out", tmp_path)
    words += () if name == "tuning" else ("--methods", "auto")
    assert run(name, *words) == 0
    lines = json.loads(capsys.readouterr().out)
    assert {line["method"] for line in lines} == (
        {"auto", "tuned"} if name == "tuning" else {"auto"}
    )
    assert all(math.isfinite(line[f"{TASKS[name].more[0]}_mean"]) for line in lines)
    monkeypatch.setattr("experiments.comparisons.task.Task.line", fail)
    assert run(name, *words) == 0
    assert json.loads(capsys.readouterr().out) == lines


def test_a_line_is_found_only_where_everything_agrees(tmp_path):
    store, given = Store(tmp_path / "x.csv", "frontier"), ours()
    cell = Cell("two columns", "larger-class", None, None)
    wanted = FRONTIER.about(cell, given)
    assert wanted is not None
    assert store.find(wanted) is None
    store.add({**wanted, **FRONTIER.line(cell, given)})
    assert store.find(wanted) is not None
    for name, other in (("setting", "other words"), ("splits", 3), ("rows", 401), ("bins", 10)):
        assert store.find({**wanted, name: other}) is None

    store.add({**wanted, **FRONTIER.line(cell, given), "setting": "other words"})
    (only,) = store.lines()
    assert only["setting"] == "other words"


@pytest.mark.parametrize("task", [FRONTIER, CLASSES], ids=lambda task: task.name)
def test_the_larger_class_states_the_shares_of_the_training_rows(task):
    given = ours(None if task is FRONTIER else Nominal(("x", "y", "z", "never")))
    found = task.line(Cell("two columns", "larger-class", None, None), given)
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


def test_measures_of_predictions():
    """Areas by counting pairs; classes without test rows do not count."""
    rng = np.random.default_rng(1)
    score, positive = rng.integers(0, 5, 60), rng.random(60) < 0.4
    pairs = [(a > b) + (a == b) / 2 for a in score[positive] for b in score[~positive]]
    assert measures.auroc(score, positive) == pytest.approx(np.mean(pairs))
    assert math.isnan(measures.auroc(score, np.ones(60, bool)))

    target, probability = np.array([0, 0, 1, 1]), np.eye(3)[[0, 0, 1, 0]]
    found = measures.of_classes(target, Found(probability.argmax(axis=1), probability, 0.0))
    assert (found["accuracy"], found["auroc"]) == (0.75, 0.75)  # of two classes, not of three
    assert found["log_loss"] == pytest.approx(-math.log(measures.MIN_PROBABILITY) / 4)
    assert measures.of_classes(target, Found(target, None, 0.0))["auroc"] is None

    numbers = Found(np.array([0.0, 2.0, 1.0]), None, 0.0)
    found = measures.of_numbers(np.array([0.0, 2.0, 4.0]), numbers)
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
    found = ranks.mean_ranks(lines, 1.0, 1e-6, "auroc_mean")
    assert found.datasets == 2
    assert found.of == {"x": (2.0, 1), "y": (1.75, 1), "z": (3.25, 0), "pure": (3.0, 0)}
    assert ranks.mean_ranks(lines, 9.0, 1e-6, "auroc_mean") == ({}, 0)


# Pages and figures.


@pytest.mark.parametrize("name", TASKS)
def test_the_page_is_made_of_its_summary(name):
    page, lines = DOCS / f"{PAGES.get(name, name)}.md", results.read_csv(DOCS / f"{name}.csv", name)
    assert pages.filled(pages_of(TASKS[name]), page.read_text(), lines, "page") == page.read_text()


def test_refusals(capsys, tmp_path, monkeypatch):
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
