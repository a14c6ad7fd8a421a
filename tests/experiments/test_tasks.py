"""`classes` and `regression`: resumed runs, absent methods, measures, pages and figures."""

import json
import math
import re
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dpbt.commands.errors import InputError
from dpbt.data.domains import Nominal, Numeric
from experiments import __main__ as command_line
from experiments.common import data, pages, results
from experiments.common.cells import Cell
from experiments.common.data import targets
from experiments.tasks import library, measures, methods, settings, study
from experiments.tasks import pages as tables
from experiments.tasks.task import CLASSES, REGRESSION
from paper_figures.tasks import classes as class_figure
from paper_figures.tasks import regression as number_figure

PAGE = Path(__file__).parents[2] / "docs" / "classes_and_regression.md"
DOMAIN = {"age": Numeric(0, 100, bins=4), "job": Nominal(("clerk", "smith", "cook"))}
TASKS = {task.name: task for task in (CLASSES, REGRESSION)}


def ours(kind):
    """A study of two columns and a target of some kind."""
    rng = np.random.default_rng(0)
    columns = {"age": rng.uniform(0, 100, 80), "job": rng.choice(["clerk", "cook"], 80)}
    cells = columns["age"] if isinstance(kind, Numeric) else rng.choice(kind.names[:-1], 80)
    given = targets.Targeted("two columns", DOMAIN, columns, kind, cells)
    tests = np.stack([study.test_rows(given.target, split) for split in range(2)])
    return study.Study(given, tests, 60)


def line(task, dataset, method, epsilon, delta, first, **more):
    """A line of results whose first measure is given."""
    names = [f"{name}_mean" for name in task.measures]
    values = dict(zip(names, (first, 0.75, 0.5), strict=True))
    deviations = {f"{name}_sd": 0.01 for name in task.measures}
    origin = {"splits": 2, "bins": 64, "rows": 90, "library": None, "setting": "words"}
    origin |= {"commit": "c", "jax": "j", "device": "d", "seconds": 0.2}
    cell = {"dataset": dataset, "method": method, "epsilon": epsilon, "delta": delta}
    return {**cell, **values, **deviations, **origin, **more}


def lines_of(task):
    plain = "larger-class" if task is CLASSES else "mean"
    private = "diffprivlib-forest" if task is CLASSES else "diffprivlib-linear"
    return [
        *(line(task, "a", "auto", e, d, 0.8 + 0.01 * e) for e in (0.1, 1.0) for d in (0.0, 1e-6)),
        *(line(task, "a", private, e, 0.0, 0.805) for e in (0.1, 1.0)),
        line(task, "a", "boosting", None, None, 0.97),
        line(task, "a", plain, None, None, 0.5),
    ]


def run(command, *words):
    return command_line.main([command, *map(str, words)])


@pytest.mark.parametrize("name", TASKS)
def test_a_run_names_absent_methods_and_a_second_run_measures_nothing(
    name, tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, "diffprivlib", None)
    words = ("--smoke", "--json", "--out", tmp_path, "--methods", *TASKS[name].smoke["methods"][1:])
    assert run(name, *words) == 0
    printed = capsys.readouterr()
    lines = json.loads(printed.out)
    plain = ["larger-class"] if name == "classes" else ["mean", "median"]
    assert [line["method"] for line in lines] == plain
    assert all(tuple(line) == TASKS[name].keys for line in lines)
    assert re.search("skipped: diffprivlib-[a-z]+: install the extra `peers`", printed.err)

    def fail(*_):
        raise AssertionError("measured again")

    monkeypatch.setattr("experiments.tasks.task.Task.measured", fail)
    assert run(name, *words) == 0
    assert json.loads(capsys.readouterr().out) == lines
    with pytest.raises(AssertionError, match="measured again"):
        run(name, *words, "--bound", 2)  # other rows, so other numbers


def test_a_library_without_targets_is_named(capsys, tmp_path, monkeypatch):
    def refuse():
        raise ImportError("no targets")

    monkeypatch.setitem(CLASSES.methods, "auto", CLASSES.methods["auto"]._replace(check=refuse))
    assert run("classes", "--smoke", "--methods", "auto", "--out", tmp_path) == 0
    assert "skipped: auto: no targets" in capsys.readouterr().err


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.slow
def test_the_smallest_run_of_auto_is_better_than_chance(name, tmp_path, capsys):
    try:
        library.check()
    except ImportError as error:
        pytest.skip(str(error))
    assert run(name, "--smoke", "--methods", "auto", "--json", "--out", tmp_path) == 0
    lines = json.loads(capsys.readouterr().out)
    assert [line["epsilon"] for line in lines] == [0.5, 2.0]
    first = f"{next(iter(TASKS[name].measures))}_mean"
    assert all(math.isfinite(line[first]) for line in lines)


def test_the_larger_class_states_the_shares_of_the_training_rows():
    given = ours(Nominal(("x", "y", "z", "never")))
    found = CLASSES.measured(Cell("two columns", "larger-class", None, None), given)
    accuracies, losses = [], []
    for test in given.tests:
        shares = np.bincount(given.data.target[~test], minlength=4) / np.sum(~test)
        accuracies.append(np.mean(given.data.target[test] == shares.argmax()))
        losses.append(-np.mean(np.log(shares[given.data.target[test]])))
    assert found["accuracy_mean"] == pytest.approx(np.mean(accuracies))
    assert found["auroc_mean"] == 0.5
    assert found["log_loss_mean"] == pytest.approx(np.mean(losses))
    assert found["accuracy_sd"] == pytest.approx(np.std(accuracies, ddof=1))


def test_the_mean_and_the_median_are_those_of_the_training_rows():
    given = ours(Numeric(10, 90))
    test = given.tests[0]
    taught = np.clip(given.data.cells[~test], 10, 90)
    for name, expected in (("mean", taught.mean()), ("median", np.median(taught))):
        found = methods.NUMBERS[name].fit(given, 0, math.inf, 0.0)
        np.testing.assert_allclose(found.predicted, expected)
        assert len(found.predicted) == test.sum()
    found = REGRESSION.measured(Cell("two columns", "mean", None, None), given)
    assert -0.2 < found["r2_mean"] <= 0


def test_areas_agree_with_counting_pairs():
    rng = np.random.default_rng(1)
    score, positive = rng.integers(0, 5, 60), rng.random(60) < 0.4
    pairs = [(a > b) + (a == b) / 2 for a in score[positive] for b in score[~positive]]
    assert measures.auroc(score, positive) == pytest.approx(np.mean(pairs))
    assert math.isnan(measures.auroc(score, np.ones(60, bool)))


def test_measures_of_classes_leave_out_classes_without_test_rows():
    target, probability = np.array([0, 0, 1, 1]), np.eye(3)[[0, 0, 1, 0]]
    found = measures.of_classes(target, probability.argmax(axis=1), probability)
    assert found["accuracy"] == 0.75
    assert found["auroc"] == 0.75  # of two classes, not of three
    assert found["log_loss"] == pytest.approx(-math.log(measures.LEAST_PROBABILITY) / 4)
    assert measures.of_classes(target, target, None)["auroc"] is None


def test_measures_of_numbers():
    found = measures.of_numbers(np.array([0.0, 2.0, 4.0]), np.array([0.0, 2.0, 1.0]))
    assert found["rmse"] == pytest.approx(math.sqrt(3))
    assert found["mae"] == pytest.approx(1)
    assert found["r2"] == pytest.approx(1 - 9 / 8)


def test_a_quarter_of_each_class_is_held_out():
    target = np.repeat([0, 1, 2], [40, 8, 3])
    found = study.test_rows(target, 0)
    assert list(np.bincount(target[found], minlength=3)) == [10, 2, 0]
    assert study.test_rows(np.linspace(0, 1, 50), 0).sum() == 12
    assert (study.test_rows(target, 0) != study.test_rows(target, 1)).any()


class Broken:
    """A model that never saw class 1, and gives no number in its first row."""

    classes_ = np.array([0, 2])

    def predict_proba(self, rows):
        return np.where(np.arange(len(rows))[:, None] == 0, np.nan, [[0.25, 0.75]])

    def predict(self, rows):
        return np.full(len(rows), 2)


def test_probabilities_of_other_libraries_are_put_in_their_classes():
    given = ours(Nominal(("x", "y", "z")))
    predicted, probability = methods._as_classes(given, Broken(), np.zeros((2, 1)))
    assert list(predicted) == [2, 2]
    np.testing.assert_allclose(probability, [[1 / 3, 1 / 3, 1 / 3], [0.25, 0, 0.75]])


def test_numbers_of_other_libraries_are_clipped_to_the_declared_range():
    class Wild:
        def predict(self, rows):
            return np.array([-1e9, np.nan, 50.0])

    predicted, _ = methods._as_numbers(ours(Numeric(10, 90)), Wild(), np.zeros((3, 1)))
    np.testing.assert_array_equal(predicted, [10, 50, 50])


def test_peers_read_the_place_of_a_class_or_the_number():
    for kind, of in ((Nominal(("x", "y", "never")), np.int64), (Numeric(0, 100), np.float64)):
        rows = ours(kind).numbers
        assert rows.label.dtype == of
        assert rows.numbers.shape == (80, 2)
        np.testing.assert_array_equal(rows.bounds, [[0, 100], [0, 3]])


def test_boosting_without_privacy_learns_both_tasks():
    given = ours(Nominal(("x", "y", "never")))
    found = methods.CLASSES["boosting"].fit(given, 0, math.inf, 0.0)
    assert found.probability is not None
    np.testing.assert_allclose(found.probability.sum(axis=1), 1)
    assert not found.probability[:, 2].any()
    given = ours(Numeric(0, 100))
    found = methods.NUMBERS["boosting"].fit(given, 0, math.inf, 0.0)
    assert np.corrcoef(found.predicted, given.data.target[given.tests[0]])[0, 1] > 0.5


# Data.


def test_targets_are_declared_for_known_data_sets():
    for name in (*CLASSES.datasets, *REGRESSION.datasets):
        given = targets.declared(name)
        assert given.entry in data.ENTRIES
        layout = given.layout or data.ENTRIES[given.entry].layout
        assert given.column in layout.names
    assert set(settings.SETTLED_CLASSES).isdisjoint(settings.UNTOUCHED_CLASSES)
    assert set(settings.SETTLED_NUMBERS).isdisjoint(settings.UNTOUCHED_NUMBERS)
    with pytest.raises(InputError, match="no target of 'banknote' is declared"):
        targets.load_target("banknote", 10)


def test_rows_without_one_class_are_left_out():
    layout = targets.declared("firmteacher").layout
    assert layout is not None
    strokes = "1 0 " * 8
    words = [layout.split(strokes + flags)[-1] for flags in ("0 1 0 0", "0 0 0 0", "1 0 1 0")]
    assert words == ["reverse", "none", "none"]


@pytest.mark.parametrize("name", ["abalone", "cardiotocography"])
def test_the_target_of_real_files_is_no_attribute(data_folder, name):
    found = targets.load_target(name, 10, data_folder)
    given = targets.declared(name)
    assert given.column not in found.domain
    assert len(found.cells) == data.ENTRIES[name].rows
    if isinstance(given.kind, Nominal):
        assert set(found.target) == set(range(len(given.kind.names)))
    else:
        np.testing.assert_array_equal(found.target, found.cells)  # none is beyond its range


# Pages and figures.


@pytest.mark.parametrize("name", TASKS)
def test_pages_hold_what_the_lines_say_and_nothing_else_changes(name, tmp_path, capsys):
    task, page = TASKS[name], tmp_path / "page.md"
    made = tables.of_task(task)
    marks = "\n".join(f"<!-- {name}: {each} -->\nold\n{made.end}" for each in made.tables)
    other = "<!-- other: origin -->\nkept\n<!-- other: end -->"
    page.write_text(f"before\n{marks}\n{other}\nafter\n")
    results.write_columns(tmp_path / f"{name}.csv", lines_of(task))
    assert run(name, "--doc", page, "--out", tmp_path) == 0
    found = page.read_text()
    assert found.startswith("before\n")
    assert found.endswith(f"{other}\nafter\n")
    assert "old" not in found
    numbers = ".750 0.5" if name == "classes" else "0.75 0.5"
    assert f"| `auto` | pure | .801 {numbers} | **.810 {numbers}** |" in found
    private = "diffprivlib-forest" if name == "classes" else "diffprivlib-linear"
    assert f"| `{private}` | pure | **.805 {numbers}** | .805 {numbers} |" in found
    assert f"| `boosting` | no privacy | .970 {numbers} |  |" in found
    assert str(tmp_path / f"{name}.csv") in capsys.readouterr().out
    assert run(name, "--doc", page, "--out", tmp_path / "nothing saved") == 0
    assert page.read_text() == found
    with pytest.raises(InputError, match="found none"):
        pages.filled(made, other, [], "page")


@pytest.mark.parametrize("name", TASKS)
def test_the_page_is_made_of_its_summaries(name):
    lines = results.read_csv(PAGE.with_name(f"{name}.csv"), name)
    made = tables.of_task(TASKS[name])
    assert pages.filled(made, PAGE.read_text(), lines, "page") == PAGE.read_text()


@pytest.mark.parametrize(("task", "draw"), [(CLASSES, class_figure), (REGRESSION, number_figure)])
def test_figures_have_a_line_for_each_method(task, draw, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    saved = tmp_path / "x.csv"
    results.write_columns(
        saved, [*lines_of(task), *({**at, "dataset": "b"} for at in lines_of(task))]
    )
    drawn = draw.draw(saved)
    assert len(drawn.axes) == 4
    names = {at.get_label() for at in drawn.axes[0].lines}
    assert {"auto, pure", "auto, delta", "boosting, no privacy"} <= names
    auto = next(at for at in drawn.axes[0].lines if at.get_label() == "auto, pure")
    expected = [0.801, 0.81] if task is CLASSES else [1, 1]  # the mean has the same error
    np.testing.assert_allclose(auto.get_ydata(), expected)
    plt.close("all")


def test_refusals(capsys, tmp_path, monkeypatch):
    monkeypatch.delenv("DPBT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run("classes", "--dataset", "iris", "yeast", "--out", tmp_path) == 2
    assert "yeast: no " in capsys.readouterr().err
    assert not (tmp_path / "classes.csv").exists()
    assert run("regression", "--bound", "0.5") == 2
    assert run("regression", "--methods", "larger-class") == 2
    message = capsys.readouterr().err
    assert "must be at least 1, got 0.5" in message
    assert "invalid choice: 'larger-class'" in message
