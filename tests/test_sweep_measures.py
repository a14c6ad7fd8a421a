"""Sweeps of every target and of weights: what is measured, single fits again, and data frames."""

import dataclasses
import sys
import types

import chex
import jax
import numpy as np
import pytest

import dpbt
from dpbt import recipes, sweeps
from dpbt.data.domains import Nominal, Numeric
from tests.support.slow_cases import mark_slow_cases_except

NUM_ROWS = 90
DOMAIN = {"x": Numeric(0, 1, bins=6), "y": Numeric(0, 1, bins=6)}
RANGE = Numeric(0, 10, bins=8)

OPTIONS = {
    "two classes": {},
    "three classes": {"target": Nominal(("a", "b", "c"))},
    "number": {"target": RANGE},
    "count": {"target": RANGE, "objective": "poisson"},
    "quantile": {"target": RANGE, "objective": "quantile", "quantile": 0.3},
}
"""The options of a recipe for each target."""


def made_up_rows():
    rng = np.random.default_rng(0)
    columns = {name: rng.random(NUM_ROWS) for name in DOMAIN}
    return columns, columns["x"] + 0.2 * rng.normal(size=NUM_ROWS)


def task_with_target(target, **weights):
    columns, signal = made_up_rows()
    labels = {
        "two classes": signal > 0.5,
        "three classes": np.array(["a", "b", "c"])[np.digitize(signal, [0.3, 0.7])],
    }
    label = labels.get(target, np.clip(8 * signal, 0, 10))
    declared = {name: value for name, value in OPTIONS[target].items() if name == "target"}
    table = dpbt.table(DOMAIN, columns, label, **declared, **weights)
    test = np.arange(NUM_ROWS) % 3 == np.arange(2)[:, None]
    arguments = {"rows": NUM_ROWS, **OPTIONS[target]}
    return sweeps.Task(target.replace(" ", "_"), table, ~test, test, arguments)


def make_recipe(rows, epsilon, **options):
    return recipes.oblivious_boost(
        epsilon=epsilon, rows=rows, domain=DOMAIN, rounds=2, depth=2, delta=1e-6, **options
    )


SWEEP = sweeps.Sweep("targets", make_recipe, {"epsilon": (1.0, 8.0)}, repeats=2, seed=4)


def run(task, folder, sweep=SWEEP, **options):
    sweeps.run(sweep, task, folder, about={}, **options)
    return sweeps.load_columns(folder / f"{task.name}.jsonl").columns


def fits_of_columns(task, columns, sweep=SWEEP):
    """Repeat each fit of the columns alone."""
    numbers = zip(columns["setting"], columns["evaluation"], columns["repeat"], strict=True)
    for setting, evaluation, repeat in numbers:
        yield sweeps.repeat_fit(sweep, task, str(setting), evaluation=evaluation, repeat=repeat)


def fit_as_columns(fit):
    """All arrays of a fit, by their paths."""
    leaves = jax.tree.leaves_with_path((fit.boosted, fit.recipe, fit.table, fit.test))
    return {f"fit{jax.tree_util.keystr(path)}": np.asarray(leaf) for path, leaf in leaves}


def expected_measures(target, fit):
    """The measures of a fit, from the predictions of its model."""
    model = fit.model()
    answers = np.asarray(dpbt.predict(model, fit.table))[fit.test]
    truth = np.asarray(fit.table.target)[fit.test]
    if "classes" in target:
        shares = np.asarray(dpbt.predict_proba(model, fit.table))[fit.test]
        return {
            "accuracy": np.mean(answers == truth),
            "log_loss": -np.mean(np.log(shares[np.arange(len(truth)), truth.astype(int)])),
        }
    errors = answers - 10.0 * truth
    expected = {"rmse": np.sqrt(np.mean(errors**2)), "mae": np.mean(np.abs(errors))}
    if target == "quantile":
        expected["pinball"] = np.mean(np.where(errors < 0, -0.3 * errors, 0.7 * errors))
        expected["coverage"] = np.mean(errors >= 0)
    return expected


@pytest.mark.parametrize("target", mark_slow_cases_except(OPTIONS, fast=[]))
def test_every_target_is_measured_and_each_fit_can_be_repeated_bit_for_bit(target, tmp_path):
    task = task_with_target(target)
    columns = run(task, tmp_path, measure=(sweeps.measure_predictions, fit_as_columns))
    assert len(columns["setting"]) == 2 * 2 * 2
    for index, fit in enumerate(fits_of_columns(task, columns)):
        for name, array in fit_as_columns(fit).items():
            in_sweep = columns[name][index].astype(array.dtype)  # files hold decimal numbers
            np.testing.assert_array_equal(in_sweep, array, name)
        assert np.any(fit.boosted.scores != fit.boosted.scores[..., :1])
        for name, value in sweeps.measure_predictions(fit).items():
            np.testing.assert_array_equal(columns[name][index], value)
        for name, value in expected_measures(target, fit).items():
            assert columns[f"test_{name}"][index] == pytest.approx(value, rel=1e-5), name


@pytest.mark.slow
@pytest.mark.parametrize(
    "weights",
    [
        {"sample_weight": np.arange(NUM_ROWS) % 4, "max_weight": 3.0},
        {"class_weight": {"True": 4.0, "False": 1.0}},
    ],
    ids=["rows", "classes"],
)
def test_weights_count_and_their_fits_can_be_repeated(weights, tmp_path):
    task, scores = task_with_target("two classes", **weights), {}
    measure = (sweeps.error_rates, fit_as_columns)
    for name, any_task in (("weighted", task), ("unweighted", task_with_target("two classes"))):
        columns = run(any_task, tmp_path / name, measure=measure)
        assert columns.keys() >= {"test_error", "train_error"}
        scores[name] = columns["fit[0].scores"].astype(np.float32)
        for index, fit in enumerate(fits_of_columns(any_task, columns)):
            np.testing.assert_array_equal(scores[name][index], fit.boosted.scores)
    assert np.mean(scores["weighted"] != scores["unweighted"]) > 0.5
    with pytest.raises(ValueError, match="begun otherwise"):
        run(task, tmp_path / "unweighted", measure=measure)


def rounds_maker(rows, rounds):
    return recipes.random_forest(epsilon=4.0, rows=rows, rounds=rounds, depth=2)


ROUNDS = sweeps.Sweep("rounds", rounds_maker, {"rounds": (1, 3)})


def rounds_of_arrays(fit):
    return {
        "room": fit.recipe.max_rounds,
        "num_hypotheses": len(fit.boosted.hypotheses[0]),
        "num_releases": len(next(iter(fit.boosted.transcript.rounds.values()))),
    }


@pytest.mark.slow
def test_a_fit_holds_its_own_rounds_whatever_the_other_settings(tmp_path):
    task = task_with_target("two classes")._replace(arguments={"rows": NUM_ROWS})
    measure = (rounds_of_arrays, sweeps.measure_predictions)
    columns = run(task, tmp_path, ROUNDS, measure=measure)
    for name in ("room", "num_hypotheses", "num_releases"):
        np.testing.assert_array_equal(columns[name], columns["rounds"])
    for index, fit in enumerate(fits_of_columns(task, columns, ROUNDS)):
        expected = sweeps.measure_predictions(fit)
        assert not np.isnan(expected["test_log_loss"])  # the shares of trees are probabilities
        chex.assert_trees_all_equal({name: columns[name][index] for name in expected}, expected)


def test_measures_without_test_rows_are_nan():
    task = task_with_target("two classes")._replace(arguments={"rows": NUM_ROWS})
    fit = sweeps.repeat_fit(ROUNDS, task, {"rounds": 1}, evaluation=0)
    without = sweeps.measure_predictions(fit._replace(test=np.zeros_like(fit.test)))
    assert without.keys() == sweeps.measure_predictions(fit).keys()
    assert np.isnan([*without.values()]).all()


def test_keys_follow_from_seed_task_setting_fold_and_repeat_alone():
    task = task_with_target("two classes")
    settings = SWEEP.settings

    def key_data(sweep=SWEEP, of_task=task, setting=settings[0], evaluation=0, repeat=0):
        key = sweeps.key(sweep, of_task, setting, evaluation=evaluation, repeat=repeat)
        return tuple(np.asarray(jax.random.key_data(key)).tolist())

    assert key_data() == key_data(of_task=task.name, setting=sweeps.setting_id(settings[0]))
    assert key_data() == key_data(sweep=dataclasses.replace(SWEEP, blocks=({"epsilon": (1.0,)},)))
    changed_keys = [
        key_data(sweep=dataclasses.replace(SWEEP, seed=5)),
        key_data(of_task="another"),
        key_data(setting=settings[1]),
        key_data(evaluation=1),
        key_data(repeat=1),
    ]
    assert len({key_data(), *changed_keys}) == 6


BAD_FITS = [
    ({"setting": {"epsilon": 2.0}}, "setting must be one of the sweep 'targets'"),
    ({"setting": "0" * 12}, "setting must be one of the sweep 'targets'"),
    ({"evaluation": 2}, r"evaluation must be a whole number in \[0, 1\]"),
    ({"repeat": 2}, r"repeat must be a whole number in \[0, 1\]"),
]


def test_fits_that_the_sweep_does_not_have_are_refused():
    task = task_with_target("two classes")
    for changes, message in BAD_FITS:
        options = {"setting": SWEEP.settings[0], "evaluation": 0, "repeat": 0, **changes}
        for function in (sweeps.key, sweeps.repeat_fit):
            with pytest.raises(ValueError, match=message):
                function(SWEEP, task, **options)


def epsilon_column(fit):
    return {"epsilon": 1.0}


def no_columns(fit):
    return 5


def error_again(fit):
    return {"test_error": 0.0}


BAD_MEASURES = [
    (epsilon_column, r"columns \['epsilon'\], which number the fits"),
    (no_columns, "a measure must return a dict of columns"),
    ((sweeps.error_rates, error_again), r"two measures have the columns \['test_error'\]"),
]


def test_columns_of_measures_that_clash_are_refused(tmp_path, sweeps_without_training):
    for index, (measure, message) in enumerate(BAD_MEASURES):
        with pytest.raises(ValueError, match=message):
            run(task_with_target("two classes"), tmp_path / str(index), measure=measure)


# Data frames.


class FrameOfColumns:
    """What a data frame of pandas is made of."""

    def __init__(self, data):
        self.data = data


def vector_column(fit):
    return {"two": np.array([1.0, 2.0])}


def test_results_are_one_frame_with_and_without_pandas(
    tmp_path, monkeypatch, sweeps_without_training
):
    task = task_with_target("two classes")
    run(task, tmp_path, measure=(sweeps.error_rates, vector_column))
    run(task._replace(name="second"), tmp_path)
    monkeypatch.setitem(sys.modules, "pandas", None)  # not installed
    columns = sweeps.load_frame(tmp_path)
    assert list(columns["task"]) == ["second"] * 8 + ["two_classes"] * 8
    assert list(columns)[:5] == ["task", "setting", "epsilon", "evaluation", "repeat"]
    np.testing.assert_array_equal(columns["two"][8:], np.tile([1.0, 2.0], (8, 1)))
    assert np.isnan(columns["two"][:8]).all()
    one_file = sweeps.load_frame(str(tmp_path / "second.jsonl"))
    for name, column in sweeps.load_columns(tmp_path / "second.jsonl").columns.items():
        np.testing.assert_array_equal(one_file[name], column)

    pandas = types.SimpleNamespace(DataFrame=FrameOfColumns)
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    frame = sweeps.load_frame(tmp_path)
    assert list(frame.data) == list(columns)
    assert all(np.ndim(frame.data[name][0]) == column.ndim - 1 for name, column in columns.items())
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="a folder without results"):
        sweeps.load_frame(tmp_path / "empty")
