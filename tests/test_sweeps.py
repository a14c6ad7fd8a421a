"""Sweeps: data that plans itself into few programs, and runs that resume, spread and agree with
single fits.
"""

import dataclasses
import hashlib
import itertools
import json
import os
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpbt
from dpbt import recipes, sweeps
from dpbt.base import Table
from dpbt.data.questions import positions_of, splits_of
from dpbt.sweeps import plan, runner, storage
from tests import worker
from tests.conftest import random_table
from tests.tables import allowing

AXES = {
    "rounds": (2, 5),
    "depth": (1, 2),
    "alpha": (0.1, 1.0, "objective"),
    "epsilon": (0.5, 2.0),
    "beta_tree": (0.3, 0.6),
}


def make(rows, rounds, depth, alpha, epsilon, beta_tree):
    return recipes.bdpe(
        rows=rows, rounds=rounds, depth=depth, alpha=alpha, epsilon=epsilon, beta_tree=beta_tree
    )


def sweep_of(*blocks, **options):
    return plan.Sweep("s", make, blocks, **options)


def test_settings_are_products_with_stable_ids():
    without = {**AXES, "epsilon": (float("inf"),), "beta_tree": (0.5,)}
    sweep = sweep_of(AXES, without)
    assert len(sweep.settings) == 2 * 2 * 3 * 2 * 2 + 2 * 2 * 3
    ids = [plan.setting_id(setting) for setting in sweep.settings]
    assert len(set(ids)) == len(ids)
    backwards = dict(reversed(sweep.settings[5].items()))
    assert plan.setting_id(backwards) == ids[5]
    assert plan.setting_id({"epsilon": np.float64(0.5), "rounds": np.int64(2)}) == "23bf80914a53"
    assert json.loads(json.dumps(sweep.definition()))["make"] == "tests.test_sweeps.make"


BAD_SWEEPS = [
    ({"blocks": (AXES, {"rounds": (1,)})}, "dicts of the same axes"),
    ({"blocks": ()}, "dicts of the same axes"),
    ({"blocks": (("rounds", 2),)}, "blocks must be dicts of axis -> values, got"),
    ({"blocks": ({1: (2,)},)}, "blocks must be dicts of axis -> values"),
    ({"blocks": ({"epsilon": ()},)}, "axis 'epsilon' must have at least one"),
    ({"blocks": ({"epsilon": None},)}, "axis 'epsilon' must hold numbers"),
    ({"blocks": ({"epsilon": ([1.0],)},)}, "axis 'epsilon' must hold numbers"),
    ({"blocks": (AXES, {**AXES, "rounds": (5,)})}, "a setting occurs twice"),
    ({"repeats": 0}, "repeats must be an integer of at least 1, got 0"),
    ({"repeats": 1.5}, "repeats must be an integer"),
    ({"make": "bdpe"}, "make must be a function that makes recipes, got 'bdpe'"),
    *(({"seed": seed}, "seed must be an integer in 0..4294967295") for seed in ("x", -1, 2**32)),
    ({"name": 3}, "name of a sweep must be a text, got 3"),
    ({"name": "a/b"}, "name of a sweep must be a file name .*, got 'a/b'$"),
]


def test_bad_sweeps_are_refused():
    for changes, words in BAD_SWEEPS:
        with pytest.raises(ValueError, match=words):
            plan.Sweep(**{"name": "s", "make": make, "blocks": (AXES,), **changes})


def test_one_block_and_one_value_need_no_tuple():
    for blocks in (
        [{"rounds": 2, "epsilon": [0.5, 1.0]}],
        {"rounds": np.int64(2), "epsilon": np.array([0.5, 1.0])},
        ({"rounds": range(2, 3), "epsilon": (value for value in (0.5, 1.0))},),
    ):
        sweep = plan.Sweep("s", make, blocks)
        assert sweep.blocks == ({"rounds": (2,), "epsilon": (0.5, 1.0)},)
        assert json.loads(json.dumps(sweep.definition()))["blocks"][0]["rounds"] == [2]
    assert plan.Sweep("s", make, {"alpha": "objective"}).settings == [{"alpha": "objective"}]


def test_structure_and_traced_axes_are_told_apart():
    """Depth and objective calibration change the program; T, epsilon, numbers for alpha and shares
    do not.
    """
    sweep = sweep_of(AXES, {**AXES, "epsilon": (float("inf"),)})
    task = worker.tasks()[0]
    found = plan.groups(sweep, task)
    assert len(found) == 2 * 2
    assert sorted(np.concatenate([group.indices for group in found])) == list(
        range(len(sweep.settings))
    )
    for group in found:
        assert group.recipe.capacity == 5
        assert np.all(np.diff(group.recipe.rounds) >= 0)
        for k, place in enumerate(group.indices):
            alone = dataclasses.replace(make(**task.arguments, **sweep.settings[place]), capacity=5)
            jax.tree.map(np.testing.assert_array_equal, recipes.setting(group.recipe, k), alone)


LENGTHS = [st.integers(1, most) for most in (60, 5, 20, 8)]
SHAPES = st.one_of(
    st.builds(plan.Shape, *LENGTHS),
    st.builds(plan.Shape, *LENGTHS[:2], st.just(0), st.just(0)),
)


@given(
    st.lists(SHAPES, min_size=1, max_size=7),
    st.sampled_from([0, 50, 10**6]),
)
def test_common_shapes_hold_every_table(shapes, spare):
    joint = plan.common_shapes(shapes, spare)
    assert set(joint) == set(shapes)
    for own, big in joint.items():
        assert all(wide >= length for length, wide in zip(own, big, strict=True))
        assert big[1:] == own[1:] or 0 not in (own.splits, big.splits)
    assert sum(joint[shape].cost - shape.cost for shape in shapes) <= spare * len(shapes)
    if spare == 0:
        assert joint == {shape: shape for shape in shapes}
    if spare == 10**6:
        kinds = {shape[1:] if shape.splits == 0 else "cells" for shape in shapes}
        assert len(set(joint.values())) == len(kinds)


def test_padding_changes_no_noise_free_result_and_refuses_what_does_not_fit():
    task = worker.tasks()[0]
    recipe = recipes.bdpe(epsilon=np.inf, rows=80, rounds=1, depth=1, alpha=1.0)
    shape = plan.Shape(rows=80, features=6, splits=11, attributes=9)
    big = plan.padded(task, shape)
    assert big.shape == shape
    satisfied = np.asarray(splits_of(big.table))
    np.testing.assert_array_equal(satisfied[:60, :5], splits_of(task.table))
    assert not satisfied[:, 5:].any()
    assert not np.asarray(positions_of(big.table))[:, 5:].any()
    assert big.train.shape == big.test.shape == (3, 80)
    fits = [jax.jit(dpbt.boost)(jax.random.key(0), t.table, recipe) for t in (task, big)]
    np.testing.assert_array_equal(fits[0].hypotheses.split, fits[1].hypotheses.split)
    np.testing.assert_allclose(fits[0].hypotheses.leaf, fits[1].hypotheses.leaf, rtol=1e-6)
    with pytest.raises(ValueError, match="does not fit"):
        plan.padded(task, shape._replace(rows=59))
    numbers = Table(task.table.cells.astype(np.float32), task.table.target, task.table.present)
    exact = task._replace(table=numbers)
    assert plan.padded(exact, exact.shape._replace(rows=70)).shape == (70, 5, 0, 0)
    with pytest.raises(ValueError, match="does not fit"):
        plan.padded(exact, exact.shape._replace(features=6))


def direct(task, setting, evaluation, repeat):
    """The test error of one fit, made by hand."""
    key = jax.random.fold_in(jax.random.key(worker.SWEEP.seed), plan.word(task.name))
    for number in (*plan.id_words(plan.setting_id(setting)), evaluation, repeat):
        key = jax.random.fold_in(key, number)
    recipe = worker.make(**task.arguments, **setting)
    table = task.table._replace(present=task.table.present & task.train[evaluation])
    model = dpbt.fit(dpbt.keys.pair(key)[0], table, recipe)
    wrong = np.asarray(dpbt.predict(model, table) != table.target)
    return wrong[task.test[evaluation]].mean()


def test_runs_agree_with_single_fits_and_compile_once(tmp_path):
    seen, tasks = [], worker.tasks()[:2]

    def run(padding, progress=seen.append):
        options = {"memory_mb": 0.02, "padding": padding, "progress": progress}
        return runner.run(worker.SWEEP, tasks, tmp_path, about={"test": "worker"}, **options)

    report, fits = run(0), 2 * 9 * 3 * 2
    assert (report.fits, report.reused, sum(seen)) == (fits, 0, fits)
    assert report.programs == 2  # two shapes, one structure; T, epsilon, folds and keys share them
    assert len(seen) == 2 * 6  # two batches side by side for each task and T
    assert {path.name for path in tmp_path.iterdir()} == {"sweep.json", "t0.npz", "t1.npz"}
    settings = worker.SWEEP.settings
    order = list(itertools.product(range(9), range(3), range(2)))
    for task in tasks:
        columns, about = storage.load_columns(tmp_path / f"{task.name}.npz")
        assert (about["task"], about["about"]) == (task.name, {"test": "worker"})
        assert about["arguments"] == {"rows": task.shape[0]}  # declared public
        assert not {"tasks", "rows"} & set(about)
        assert list(columns["setting"]) == [plan.setting_id(settings[k]) for k, _, _ in order]
        assert list(columns["rounds"]) == [settings[k]["rounds"] for k, _, _ in order]
        assert np.all((columns["train_error"] >= 0) & (columns["train_error"] <= 1))
    for row in (0, 17, 53):
        k, evaluation, repeat = order[row]
        expected = direct(task, settings[k], evaluation, repeat)
        np.testing.assert_allclose(columns["test_error"][row], expected, rtol=1e-6)
    again = run(0)
    assert (again.fits, again.reused, again.programs) == (0, fits, 0)
    with pytest.raises(ValueError, match=r"begun otherwise: lanes was .*; finish it"):
        run(1)


def by_size(rows, depth):
    """A maker with a structure of its own for small tables, where depths are all one."""
    deepest = int(np.max(np.minimum(depth, 1 if rows < 50 else 2)))
    return recipes.bdpe(
        epsilon=np.ones(np.shape(depth)), rows=rows, rounds=1, depth=deepest, alpha=1.0
    )


@pytest.mark.slow
@pytest.mark.parametrize("spare", [0, 10**6])
def test_tasks_may_have_structures_of_their_own(tmp_path, spare):
    tasks = worker.tasks()
    sweep = plan.Sweep("own", by_size, ({"depth": (1, 2)},))
    report = runner.run(sweep, tasks, tmp_path, padding=spare, about={})
    assert report.programs == (
        4 if spare == 0 else 3
    )  # of depth 1 for one setting and for two, and of depth 2
    for task in tasks:
        columns, _ = storage.load_columns(tmp_path / f"{task.name}.npz")
        assert len(columns["test_error"]) == 2 * 3


def test_folders_are_not_mixed_up(tmp_path, idle):
    """Another table, another mask of splits, or results that nothing speaks for are refused."""
    sweep = plan.Sweep("own", by_size, ({"depth": (1,)},))
    task = worker.tasks()[0]
    runner.run(sweep, task, str(tmp_path), about={})  # one task, and a folder by its name
    begun = json.loads((tmp_path / "sweep.json").read_text())
    assert begun["lanes"] == {"memory_mb": 64, "padding": 200_000, "devices": [1, 1], "threads": 2}
    allowed = np.array([True] * 4 + [False])
    other = task.table._replace(target=~task.table.target)
    for table in (other, allowing(task.table, allowed)):
        with pytest.raises(ValueError, match="begun otherwise: tasks"):
            runner.run(sweep, [task._replace(table=table)], tmp_path, about={})
    (tmp_path / "sweep.json").unlink()
    with pytest.raises(ValueError, match=r"holds results \(t0.npz\) but no sweep.json"):
        runner.run(sweep, [task], tmp_path, about={})


def forest(rows, rounds, selection):
    if selection == "forest":
        return recipes.random_forest(epsilon=1.0, rows=rows, rounds=rounds, depth=2)
    if selection == "halfspace":
        return recipes.halfspace_boost(epsilon=1.0, delta=1e-6, rows=rows, rounds=rounds)
    return recipes.lazybb_rules(epsilon=1.0, rows=rows, rounds=rounds, selection=selection)


@pytest.mark.parametrize("selection", ["forest", "halfspace"])
def test_every_kind_of_learner_can_be_swept(tmp_path, selection):
    """Without padding of splits, tables list none, so learners that cannot mask them run."""
    task = worker.tasks()[0]
    if selection == "halfspace":
        numbers = task.table.cells.astype(np.float32)
        task = task._replace(table=Table(numbers, task.table.target, task.table.present))
    sweep = plan.Sweep("kinds", forest, ({"rounds": (1, 2), "selection": (selection,)},))
    report = runner.run(sweep, [task], tmp_path, about={})
    assert (report.fits, report.programs) == (2 * 3, 1)


def digests(folder):
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.is_file()
    }


def spawn(*arguments, devices=1, **variables):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "XLA_FLAGS": flags, **variables}
    command = [sys.executable, "-m", "tests.worker", *map(str, arguments)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finished(process):
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return json.loads(out.splitlines()[-1])


@pytest.mark.slow
def test_devices_and_shards_change_nothing(tmp_path):
    """Eight virtual devices: rows over 1, 2 and 8 of them, and a sweep over four by two."""
    worker.sweep(tmp_path / "one")
    found = finished(spawn("releases", tmp_path / "eight", devices=8))
    assert set(found["releases"]) == {"1", "2", "8"}
    assert set(found["releases"].values()) == {worker.releases(runner.device_mesh(row_shards=1))}
    assert found["collectives"]["all-reduce"] > 0
    assert (
        found["collectives"]["all-gather"] <= 1
    )  # of the mask, for which rows are within the bound
    assert found["collectives"]["all-to-all"] == 0
    same_columns(tmp_path / "one", tmp_path / "eight")


def same_columns(one, other):
    for path in one.glob("*.npz"):
        expected, got = storage.load_columns(path)[0], storage.load_columns(other / path.name)[0]
        for name, column in expected.items():
            np.testing.assert_array_equal(column, got[name], err_msg=name)


@pytest.mark.slow
def test_two_processes_agree_with_one(tmp_path):
    """Also on the secret of the fingerprints: each has its own file, and the first one's counts."""
    worker.sweep(tmp_path / "one")

    def both():
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        keys = [str(tmp_path / f"key{k}") for k in range(2)]
        words = [("distributed", k, 2, port, tmp_path / "two") for k in range(2)]
        started = [spawn(*w, DPBT_SECRET=key) for w, key in zip(words, keys, strict=True)]
        return [finished(process) for process in started]

    found = both()
    assert [f["devices"] for f in found] == [2, 2]
    assert {f["releases"] for f in found} == {worker.releases(runner.device_mesh(row_shards=1))}
    same_columns(tmp_path / "one", tmp_path / "two")

    # Both check the fingerprints of the folder that they find.
    assert [f["fits"] for f in both()] == [0, 0]
    assert (tmp_path / "key0").exists()
    assert not (tmp_path / "key1").exists()


def test_meshes_and_shards_of_rows():
    with pytest.raises(ValueError, match="row_shards must divide"):
        runner.device_mesh(row_shards=3 * len(jax.devices()))
    table = allowing(random_table(0, 13, 3), np.array([True, True, False]))
    sharded = runner.shard_rows(table, runner.device_mesh())
    np.testing.assert_array_equal(sharded.cells, table.cells)
    assert not sharded.questions.allowed[2]


def test_files_of_columns(tmp_path):
    path = tmp_path / "a.npz"
    columns = {"x": np.arange(3), "name": np.asarray(["a", "b", "c"])}
    storage.save_columns(path, columns, {"seed": 1})
    first = path.read_bytes()
    storage.save_columns(path, columns, {"seed": 1})
    assert path.read_bytes() == first
    got, about = storage.load_columns(path)
    assert about == {"seed": 1}
    np.testing.assert_array_equal(got["name"], columns["name"])
    with pytest.raises(ValueError, match="one length"):
        storage.save_columns(path, {"x": np.arange(3), "y": np.arange(2)}, {})
    np.savez(tmp_path / "other.npz", x=np.arange(3))
    np.save(tmp_path / "one.npy", np.arange(3))
    for name, content in (("a.csv", b"x,y\n1,2\n"), ("empty", b""), ("torn.npz", first[:100])):
        (tmp_path / name).write_bytes(content)
    for name in ("other.npz", "one.npy", "a.csv", "empty", "torn.npz"):
        with pytest.raises(ValueError, match=f"{name}: not a file of columns") as refused:
            sweeps.load_columns(str(tmp_path / name))
        assert "pickle" not in str(refused.value)
    with pytest.raises(ValueError, match="path must be a path or its text, got NoneType"):
        sweeps.load_columns(None)


def one_depth(rows, depth, alpha=1.0):
    return recipes.bdpe(epsilon=1.0, rows=rows, rounds=1, depth=depth, alpha=alpha)


def no_recipe(rows, depth):
    return 5


DEPTHS = plan.Sweep("own", one_depth, {"depth": 1})


def changed(**fields):
    return lambda task: task._replace(**fields)


def same(task):
    return task


def cut_table(task):
    return task._replace(table=task.table._replace(target=task.table.target[:-1]))


def mask_of(change):
    return lambda task: task._replace(train=change(np.asarray(task.train)))


def own(**axes):
    return plan.Sweep("own", one_depth, axes)


BAD_RUNS = [
    (DEPTHS, lambda task: [], "tasks must hold at least one task"),
    (DEPTHS, lambda task: ["t0"], "tasks must hold sweeps.Task.*, got str"),
    (DEPTHS, lambda task: [task, task], "distinct names"),
    (DEPTHS, changed(name="a/b"), "without slashes and without a leading dot, got 'a/b'"),
    (DEPTHS, changed(name=".."), "without a leading dot"),
    (DEPTHS, changed(name=""), "must be a file name"),
    (DEPTHS, changed(name=3), "must be a text, got int"),
    (DEPTHS, changed(table=None), "table of task 't0' must be"),
    (DEPTHS, changed(arguments=None), "arguments of task 't0'"),
    (DEPTHS, cut_table, "must have the same rows"),
    (own(depht=1), same, r"one_depth takes .*: missing a required argument: 'depth'"),
    (own(depth=1, x=1), same, r"one_depth takes .*: got an unexpected keyword argument 'x'"),
    (DEPTHS, changed(arguments={}), "missing a required argument: 'rows'"),
    (DEPTHS, changed(arguments={"rows": 60, "depth": 1}), "'depth' is both an axis of sweep 'own'"),
    (own(depth=0), same, "depth must be an integer of at least 1, got 0"),
    (plan.Sweep("own", no_recipe, {"depth": 1}), same, "make must return a recipe, .* got int"),
    ({"depth": 1}, same, "sweep must be a sweeps.Sweep.*, got dict"),
    (DEPTHS, mask_of(lambda mask: mask[:, :3]), "train of task"),
    (DEPTHS, mask_of(lambda mask: mask[0]), "train of task"),
    (DEPTHS, mask_of(lambda mask: mask * 0.5), "train of task"),
    (DEPTHS, mask_of(lambda mask: mask[:0]), "train of task"),
]


def test_bad_runs_are_refused_before_the_folder_is_begun(tmp_path):
    """In one line, without the number of rows."""
    task = worker.tasks()[0]
    for sweep, change, words in BAD_RUNS:
        with pytest.raises(ValueError, match=words) as refused:
            runner.run(sweep, change(task), tmp_path, about={})
        assert "\n" not in str(refused.value)
        assert "60" not in str(refused.value)
    for option, value in (("memory_mb", -1), ("padding", "x"), ("padding", -1), ("measure", "x")):
        with pytest.raises(ValueError, match=f"{option} must be"):
            runner.run(DEPTHS, task, tmp_path, about={}, **{option: value})
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("text")
    for folder, words in (
        (None, "path or its text"),
        (tmp_path / "file", "folder for the results"),
    ):
        with pytest.raises(ValueError, match=f"folder must be a {words}"):
            runner.run(DEPTHS, task, folder, about={})


def test_provenance_has_the_version_and_no_commit_of_another_repository(tmp_path, monkeypatch):
    def git(folder, *words):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words]
        return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)

    def commit(folder, project):
        (folder / "pyproject.toml").write_text(f'[project]\nname = "{project}"\n')
        monkeypatch.setattr(dpbt, "__file__", str(folder / "dpbt" / "__init__.py"))
        return storage.provenance()["commit"]

    assert storage.provenance()["dpbt"] == dpbt.__version__
    (tmp_path / "site").mkdir()
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "mine")
    head = git(tmp_path, "rev-parse", "HEAD").stdout.strip()

    # A repository of the user's own, with dpbt somewhere in it, or on its top floor.
    assert commit(tmp_path / "site", "dpbt") == "unknown"
    assert commit(tmp_path, "other") == "unknown"

    # A checkout of dpbt, and one without git.
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert commit(tmp_path, "dpbt") == head
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit(tmp_path, "dpbt") == "unknown"
