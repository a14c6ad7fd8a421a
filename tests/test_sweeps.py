"""Sweeps plan few programs, resume, spread over processes, and agree with single fits."""

import dataclasses
import gc
import itertools
import weakref
import zlib

import chex
import jax
import numpy as np
import pytest

import dpbt
from dpbt import recipes, sweeps
from dpbt.sweeps import batches, runner
from tests.support import worker_process

AXES = {
    "rounds": (2, 5),
    "depth": (1, 2),
    "alpha": (1.0, "objective"),
    "epsilon": (0.5,),
}


def make_bdpe(**settings):
    return recipes.bdpe(**settings)


def sweep_of_blocks(*blocks, **options):
    return sweeps.Sweep("s", make_bdpe, blocks, **options)


def test_settings_are_products_with_stable_ids():
    axes_without_noise = {**AXES, "epsilon": (float("inf"),)}
    sweep = sweep_of_blocks(AXES, axes_without_noise)
    assert len(sweep.settings) == 2 * 2 * 2 + 2 * 2 * 2
    ids = [sweeps.setting_id(setting) for setting in sweep.settings]
    assert len(set(ids)) == len(ids)
    reversed_setting = dict(reversed(sweep.settings[5].items()))
    assert sweeps.setting_id(reversed_setting) == ids[5]
    assert sweeps.setting_id({"epsilon": np.float64(0.5), "rounds": np.int64(2)}) == "23bf80914a53"


BAD_SWEEPS = [
    ({"blocks": (AXES, {"rounds": (1,)})}, "dicts axis -> values of the same axes"),
    ({"blocks": ({"epsilon": ()},)}, "axis 'epsilon' must hold at least one number"),
    ({"blocks": (AXES, {**AXES, "rounds": (5,)})}, "a setting occurs twice"),
    ({"seed": 2**32}, r"seed must be a whole number in \[0, 4294967295\]"),
    ({"name": "a/b"}, "name of a sweep must be a file name .*, got 'a/b'$"),
]


def test_bad_sweeps_are_refused():
    for changes, message in BAD_SWEEPS:
        with pytest.raises(ValueError, match=message):
            sweeps.Sweep(**{"name": "s", "make": make_bdpe, "blocks": (AXES,), **changes})


def test_settings_are_grouped_by_the_structure_of_their_program():
    """Depth and objective calibration change the program; the other numbers do not."""
    sweep = sweep_of_blocks(AXES, {**AXES, "epsilon": (float("inf"),)})
    task = worker_process.sweep_tasks()[0]
    groups = sweeps.group_settings(sweep, task)
    assert len(groups) == 2 * 2
    setting_indices = np.concatenate([group.indices for group in groups])
    assert sorted(setting_indices) == list(range(len(sweep.settings)))
    for group in groups:
        assert group.recipe.max_rounds == 5
        assert np.all(np.diff(group.recipe.rounds) >= 0)
        for index_in_group, setting_index in enumerate(group.indices):
            one_setting = make_bdpe(**task.arguments, **sweep.settings[setting_index])
            recipe_of_setting = dataclasses.replace(one_setting, max_rounds=5)
            chex.assert_trees_all_equal(
                recipes.setting(group.recipe, index_in_group), recipe_of_setting
            )


def error_of_single_fit(task, setting, evaluation, repeat):
    """The test error of one fit, made by hand."""
    key = jax.random.key(worker_process.SWEEP.seed)
    key = jax.random.fold_in(key, zlib.crc32(task.name.encode()) & 0x7FFFFFFF)
    name = sweeps.setting_id(setting)
    for part_of_identity in (int(name[:6], 16), int(name[6:], 16), evaluation, repeat):
        key = jax.random.fold_in(key, part_of_identity)
    recipe = worker_process.make_recipe(**task.arguments, **setting)
    table = task.table._replace(present=task.table.present & task.train[evaluation])
    model = dpbt.fit(dpbt.keys.pair(key)[0], table, recipe)
    is_wrong = np.asarray(dpbt.predict(model, table) != table.target)
    return is_wrong[task.test[evaluation]].mean()


def test_runs_agree_with_single_fits_and_compile_once(tmp_path):
    fits_reported, task = [], worker_process.sweep_tasks()[0]

    def run(memory_mb=0.02):
        options = {"memory_mb": memory_mb, "progress": fits_reported.append}
        return sweeps.run(worker_process.SWEEP, task, tmp_path, about={"test": "worker"}, **options)

    report, fits = run(), 9 * 3 * 2
    assert (report.fits, report.reused, sum(fits_reported)) == (fits, 0, fits)
    assert report.programs == 1  # T, epsilon, folds and keys share it
    assert [path.name for path in tmp_path.iterdir()] == ["t0.jsonl"]
    settings = worker_process.SWEEP.settings
    order = list(itertools.product(range(9), range(3), range(2)))
    columns, about = sweeps.load_columns(tmp_path / "t0.jsonl")
    assert (about["task"], about["about"]) == ("t0", {"test": "worker"})
    assert (about["arguments"], about["make"]) == (
        {"rows": 60},
        "tests.support.worker_process.make_recipe",
    )
    assert list(columns["setting"]) == [sweeps.setting_id(settings[k]) for k, _, _ in order]
    assert list(columns["rounds"]) == [settings[k]["rounds"] for k, _, _ in order]
    assert np.all((columns["train_error"] >= 0) & (columns["train_error"] <= 1))
    for row in (36, 53):
        k, evaluation, repeat = order[row]
        expected = error_of_single_fit(task, settings[k], evaluation, repeat)
        np.testing.assert_allclose(columns["test_error"][row], expected, rtol=1e-6)
    second_report = run(memory_mb=1)  # batches may be cut otherwise
    assert (second_report.fits, second_report.reused, second_report.programs) == (0, fits, 0)


def scores_of_fit(fit):
    return {"scores": fit.boosted.scores}


@pytest.mark.slow
def test_sizes_of_batches_change_nothing(tmp_path):
    """Fits alone in their batches have the numbers that they have among others."""
    task, columns_by_memory = worker_process.sweep_tasks()[0], []
    measure = (runner.default_measure(task.table), scores_of_fit)
    sweep = dataclasses.replace(worker_process.SWEEP, repeats=1)
    for memory_mb in (1e-4, 0.02, 1.0):
        folder = tmp_path / str(memory_mb)
        sweeps.run(sweep, task, folder, about={}, memory_mb=memory_mb, measure=measure)
        columns_by_memory.append(sweeps.load_columns(folder / "t0.jsonl").columns)
    num_lines = [
        len((tmp_path / name / "t0.jsonl").read_bytes().splitlines()) for name in ("0.0001", "1.0")
    ]
    assert num_lines[0] == 1 + 9 * 3  # every fit is a batch
    assert num_lines[1] < num_lines[0]
    assert np.any(columns_by_memory[0]["scores"] != 0)
    for columns in columns_by_memory[1:]:
        chex.assert_trees_all_equal(columns, columns_by_memory[0])


def recipe_by_table_size(rows, depth):
    """A maker with a structure of its own for small tables, where depths are all one."""
    return recipes.bdpe(
        epsilon=1.0, rows=rows, rounds=1, depth=min(depth, 1 if rows < 50 else 2), alpha=1.0
    )


def measure_rounds(fit):
    return {"rounds": fit.recipe.rounds}


def test_a_folder_of_another_sweep_is_refused(tmp_path, sweeps_without_training):
    """Other settings, measures, arguments or lengths are refused, and so are damaged heads."""
    task = worker_process.sweep_tasks()[0]
    sweeps.run(SWEEP_OF_DEPTHS, task, str(tmp_path), about={})  # one task, and a folder by its name

    def refuse(sweep=SWEEP_OF_DEPTHS, other_task=task, **options):
        with pytest.raises(ValueError, match=r"begun otherwise.* finish it") as error:
            sweeps.run(sweep, other_task, tmp_path, about={}, **options)
        assert "60" not in str(error.value).replace(str(tmp_path), "")

    refuse(sweeps.Sweep("own", one_round_recipe, {"depth": 2}))
    refuse(sweeps.Sweep("own", one_round_recipe, {"depth": 1}, seed=1))
    refuse(sweeps.Sweep("own", recipe_by_table_size, {"depth": 1}))
    refuse(other_task=worker_process.sweep_tasks()[1]._replace(name="t0", arguments=task.arguments))
    refuse(other_task=task._replace(train=task.train[:2], test=task.test[:2]))
    refuse(other_task=task._replace(arguments={"rows": 61}))
    refuse(measure=measure_rounds)
    (tmp_path / "t0.jsonl").write_text("no head\n")
    refuse()


def test_a_folder_of_another_domain_is_refused(tmp_path, sweeps_without_training):
    """The rows of a task may not be told apart, but what their bins mean is public."""
    x = np.random.default_rng(0).uniform(0, 1, 60)
    mask = np.arange(60) % 2 == np.arange(2)[:, None]

    def run(high):
        table = dpbt.table({"x": dpbt.domains.Numeric(0, high, bins=8)}, {"x": x}, x > 0.5)
        task = sweeps.Task("t", table, ~mask, mask, {"rows": 60})
        return sweeps.run(SWEEP_OF_DEPTHS, task, tmp_path, about={})

    fits = run(high=1).fits
    assert run(high=1.0).reused == fits
    with pytest.raises(ValueError, match=r"domain.*column 'x' has high 2 in .* and 1\.0 in "):
        run(high=2)


def test_a_file_that_is_not_of_results_is_refused(tmp_path, sweeps_without_training):
    sweeps.run(SWEEP_OF_DEPTHS, worker_process.sweep_tasks()[0], tmp_path, about={})
    content = (tmp_path / "t0.jsonl").read_bytes()
    head = content.splitlines(keepends=True)[0]
    changed = content.replace(b"evaluation", b"evaluatiom")
    for damaged in (b"", b"x,y\n1,2\n", content[:-1], head, changed):
        (tmp_path / "other.jsonl").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"other.jsonl: not the results"):
            sweeps.load_columns(str(tmp_path / "other.jsonl"))


def one_round_recipe(rows, depth, alpha=1.0):
    return recipes.bdpe(epsilon=1.0, rows=rows, rounds=1, depth=depth, alpha=alpha)


def return_a_number(rows, depth):
    return 5


SWEEP_OF_DEPTHS = sweeps.Sweep("own", one_round_recipe, {"depth": 1})


BAD_TASKS = [
    (lambda task: [], "tasks must hold at least one task"),
    (lambda task: ["t0"], "tasks must hold sweeps.Task"),
    (lambda task: [task, task], "distinct names"),
    (lambda task: task._replace(table=None), "expected a table"),
    (lambda task: task._replace(arguments={}), "missing 1 required positional argument: 'rows'"),
    (lambda task: task._replace(train=task.train[:, :3]), "train and test of task"),
]


def test_bad_runs_are_refused_before_the_folder_is_begun(tmp_path):
    """The error is one line, without the number of rows."""
    task, folder = worker_process.sweep_tasks()[0], tmp_path / "results"

    def refuse(message, sweep=SWEEP_OF_DEPTHS, tasks=task, folder=folder, **options):
        with pytest.raises((ValueError, TypeError), match=message) as error:
            sweeps.run(sweep, tasks, folder, about={}, **options)
        assert "\n" not in str(error.value)
        assert "60" not in str(error.value).replace(str(tmp_path), "")
        assert not folder or not folder.is_dir()

    for change, message in BAD_TASKS:
        refuse(message, tasks=change(task))
    refuse(
        "unexpected keyword argument 'depht'", sweeps.Sweep("own", one_round_recipe, {"depht": 1})
    )
    refuse(
        "make must return the recipe .* got int", sweeps.Sweep("own", return_a_number, {"depth": 1})
    )
    refuse("sweep must be a sweeps.Sweep.*, got dict", {"depth": 1})
    refuse("memory_mb must be", memory_mb=-1)
    refuse("measure must be a function, or several", measure="x")
    refuse("measure must be a function, or several", measure=[])
    refuse(
        "measure must take one argument, the finished fit, or four", measure=recipe_by_table_size
    )
    refuse("folder must be a path or its text", folder=None)
    (tmp_path / "file").write_text("text")
    refuse("folder must be a folder for the results", folder=tmp_path / "file")


# Programs.


@pytest.mark.slow
def test_programs_are_compiled_once_and_given_back(tmp_path, monkeypatch, sweeps_without_training):
    """Thousands of pieces of compiled code in one process would abort it."""
    references, num_alive, compile_program = [], [], batches.GroupProgram._compile

    def compile_and_record(program, arguments):
        executable = compile_program(program, arguments)
        references.append(weakref.ref(executable))
        return executable

    def count(fits):
        gc.collect()
        num_alive.append(sum(program() is not None for program in references))

    monkeypatch.setattr(batches.GroupProgram, "_compile", compile_and_record)
    monkeypatch.setattr(runner, "THREADS", 1)
    sweep = sweeps.Sweep("own", one_round_recipe, {"depth": (1, 2)})
    sweeps.run(sweep, worker_process.sweep_tasks()[0], tmp_path, about={}, progress=count)
    assert len(references) == 2
    assert max(num_alive) == 1
