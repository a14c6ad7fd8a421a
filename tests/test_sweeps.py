"""Sweeps: data that plans itself into few programs, and runs that resume, spread and agree with
single fits.
"""

import dataclasses
import gc
import hashlib
import itertools
import json
import os
import subprocess
import sys
import threading
import time
import weakref

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpbt
from dpbt import recipes, sweeps
from dpbt.common.types import Table
from dpbt.data.splits import positions_of, splits_of
from dpbt.privacy import boundary
from dpbt.sweeps import plan, runner, storage
from tests import worker

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
    ({"blocks": (AXES, {"rounds": (1,)})}, "dicts axis -> values of the same axes"),
    ({"blocks": ()}, "of the same axes"),
    ({"blocks": (("rounds", 2),)}, "blocks must be dicts axis -> values"),
    ({"blocks": ({"epsilon": ()},)}, "axis 'epsilon' must hold at least one number"),
    ({"blocks": ({"epsilon": None},)}, "axis 'epsilon' must hold at least one number"),
    ({"blocks": ({"epsilon": ([1.0],)},)}, "axis 'epsilon' must hold"),
    ({"blocks": (AXES, {**AXES, "rounds": (5,)})}, "a setting occurs twice"),
    ({"repeats": 0}, "repeats must be an integer of at least 1, got 0"),
    ({"repeats": 1.5}, "repeats must be an integer"),
    ({"make": "bdpe"}, "make must be a function that makes recipes, got 'bdpe'"),
    ({"seed": "x"}, "seed must be a number"),
    *(
        ({"seed": seed}, r"seed must be a whole number in \[0, 4294967295\]")
        for seed in (-1, 2**32)
    ),
    ({"name": 3}, "name of a sweep must be a file name .*, got int$"),
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
    """Depth and objective calibration change the program; rounds, epsilon, numbers for alpha and
    fractions do not.
    """
    sweep = sweep_of(AXES, {**AXES, "epsilon": (float("inf"),)})
    task = worker.tasks()[0]
    found = plan.groups(sweep, task)
    assert len(found) == 2 * 2
    places = np.concatenate([group.indices for group in found])
    assert sorted(places) == list(range(len(sweep.settings)))
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


@given(st.lists(SHAPES, min_size=1, max_size=7), st.sampled_from([0, 50, 10**6]))
def test_shared_shapes_hold_every_table(shapes, spare):
    joint = plan.shared_shapes(shapes, spare)
    assert set(joint) == set(shapes)
    for own, big in joint.items():
        assert all(wide >= length for length, wide in zip(own, big, strict=True))
        assert big[1:] == own[1:] or 0 not in (own.splits, big.splits)
    assert sum(joint[shape].cost - shape.cost for shape in shapes) <= spare * len(shapes)
    if spare == 0:
        assert joint == {shape: shape for shape in shapes}
    if spare == 10**6:
        kinds = {shape[1:] if shape.splits == 0 else "bins" for shape in shapes}
        assert len(set(joint.values())) == len(kinds)


def test_padding_changes_no_noise_free_result():
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
    numbers = Table(task.table.bins.astype(np.float32), task.table.target, task.table.present)
    exact = task._replace(table=numbers)
    assert plan.padded(exact, exact.shape._replace(rows=70)).shape == (70, 5, 0, 0)


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

    def run(memory_mb=0.02, progress=seen.append):
        options = {"memory_mb": memory_mb, "padding": 0, "progress": progress}
        return runner.run(worker.SWEEP, tasks, tmp_path, about={"test": "worker"}, **options)

    report, fits = run(), 2 * 9 * 3 * 2
    assert (report.fits, report.reused, sum(seen)) == (fits, 0, fits)
    assert report.programs == 2  # two shapes, one structure; T, epsilon, folds and keys share them
    assert {path.name for path in tmp_path.iterdir()} == {"t0.jsonl", "t1.jsonl"}
    settings = worker.SWEEP.settings
    order = list(itertools.product(range(9), range(3), range(2)))
    for task in tasks:
        columns, about = storage.load_columns(tmp_path / f"{task.name}.jsonl")
        assert (about["task"], about["about"]) == (task.name, {"test": "worker"})
        assert about["arguments"] == {"rows": task.shape[0]}
        assert list(columns["setting"]) == [plan.setting_id(settings[k]) for k, _, _ in order]
        assert list(columns["rounds"]) == [settings[k]["rounds"] for k, _, _ in order]
        assert np.all((columns["train_error"] >= 0) & (columns["train_error"] <= 1))
    for row in (0, 17, 53):
        k, evaluation, repeat = order[row]
        expected = direct(task, settings[k], evaluation, repeat)
        np.testing.assert_allclose(columns["test_error"][row], expected, rtol=1e-6)
    again = run(memory_mb=1)  # batches may be cut otherwise
    assert (again.fits, again.reused, again.programs) == (0, fits, 0)


def by_size(rows, depth):
    """A maker with a structure of its own for small tables, where depths are all one."""
    return recipes.bdpe(
        epsilon=1.0, rows=rows, rounds=1, depth=min(depth, 1 if rows < 50 else 2), alpha=1.0
    )


def test_tasks_may_have_structures_of_their_own(tmp_path, idle):
    for spare, programs in ((0, 4), (10**6, 3)):  # depth 1 for one setting and two, and depth 2
        sweep, folder = plan.Sweep("own", by_size, ({"depth": (1, 2)},)), tmp_path / str(spare)
        assert (
            runner.run(sweep, worker.tasks(), folder, padding=spare, about={}).programs == programs
        )
        for task in worker.tasks():
            columns, _ = storage.load_columns(folder / f"{task.name}.jsonl")
            assert len(columns["test_error"]) == 2 * 3


def test_folders_are_not_mixed_up(tmp_path, idle):
    """Other settings, another measure, arguments or lengths are refused; so are damaged heads."""
    task = worker.tasks()[0]
    runner.run(DEPTHS, task, str(tmp_path), about={})  # one task, and a folder by its name
    fewer = task._replace(train=task.train[:2], test=task.test[:2])
    arguments = task._replace(arguments={"rows": 61})
    for sweep, other, words in (
        (plan.Sweep("own", one_depth, {"depth": 2}), task, "with other blocks;"),
        (plan.Sweep("own", one_depth, {"depth": 1}, seed=1), task, "with other seed;"),
        (plan.Sweep("own", one_depth, {"depth": 1}, repeats=2), task, "with other repeats;"),
        (plan.Sweep("own", by_size, {"depth": 1}), task, "with other make;"),
        (DEPTHS, plan.padded(task, task.shape._replace(rows=80)), "with other shape and masks;"),
        (DEPTHS, fewer, "with other masks;"),
        (DEPTHS, arguments, "with other arguments;"),
    ):
        with pytest.raises(ValueError, match=f"begun otherwise, {words}") as refused:
            runner.run(sweep, other, tmp_path, about={})
        assert "60" not in str(refused.value).replace(str(tmp_path), "")
    with pytest.raises(ValueError, match="with other measure"):
        runner.run(DEPTHS, task, tmp_path, about={}, measure=by_size)
    (tmp_path / "t0.jsonl").write_text("no head\n")
    with pytest.raises(ValueError, match="begun otherwise; finish it"):
        runner.run(DEPTHS, task, tmp_path, about={})


def forest(rows, rounds, selection):
    if selection == "forest":
        return recipes.random_forest(epsilon=1.0, rows=rows, rounds=rounds, depth=2)
    return recipes.halfspace_boost(epsilon=1.0, delta=1e-6, rows=rows, rounds=rounds)


@pytest.mark.parametrize("selection", ["forest", "halfspace"])
def test_every_kind_of_learner_can_be_swept(tmp_path, selection):
    """Without padding of splits, tables list none, so learners that cannot mask them run."""
    task = worker.tasks()[0]
    if selection == "halfspace":
        numbers = task.table.bins.astype(np.float32)
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
def test_devices_change_nothing(tmp_path):
    """Lanes over four virtual devices."""
    worker.sweep(tmp_path / "one")
    report = finished(spawn("sweep", tmp_path / "four", devices=4))
    assert report["programs"] == 1
    for path in (tmp_path / "one").glob("*.jsonl"):
        expected, _ = storage.load_columns(path)
        found, _ = storage.load_columns(tmp_path / "four" / path.name)
        for name, column in expected.items():
            np.testing.assert_array_equal(column, found[name], err_msg=name)


def test_a_file_that_is_not_of_results_is_refused(tmp_path, idle):
    runner.run(DEPTHS, worker.tasks()[0], tmp_path, about={})
    content = (tmp_path / "t0.jsonl").read_bytes()
    head = content.splitlines(keepends=True)[0]
    changed = content.replace(b"evaluation", b"evaluatiom")
    for found in (b"", b"x,y\n1,2\n", content[:100], content[:-1], head, changed):
        (tmp_path / "other.jsonl").write_bytes(found)
        with pytest.raises(ValueError, match=r"other.jsonl: not the results"):
            sweeps.load_columns(str(tmp_path / "other.jsonl"))
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
    (DEPTHS, changed(name=""), "must be a file name"),
    (DEPTHS, changed(name=3), "must be a file name .*, got int"),
    (DEPTHS, changed(table=None), "'t0' must have a table and a dict"),
    (DEPTHS, changed(arguments=None), "'t0' must have a table and a dict"),
    (DEPTHS, cut_table, "must have the same rows"),
    (own(depht=1), same, r"one_depth\(\) got an unexpected keyword argument 'depht'"),
    (DEPTHS, changed(arguments={}), "missing 1 required positional argument: 'rows'"),
    (DEPTHS, changed(arguments={"rows": 60, "depth": 1}), "multiple values for .* 'depth'"),
    (own(depth=0), same, "depth must be an integer of at least 1, got 0"),
    (plan.Sweep("own", no_recipe, {"depth": 1}), same, "make must return the recipe .* got int"),
    ({"depth": 1}, same, "sweep must be a sweeps.Sweep.*, got dict"),
    (DEPTHS, mask_of(lambda mask: mask[:, :3]), "train and test of task"),
    (DEPTHS, mask_of(lambda mask: mask[0]), "train and test of task"),
    (DEPTHS, mask_of(lambda mask: mask * 0.5), "train and test of task"),
    (DEPTHS, mask_of(lambda mask: mask[:0]), "train and test of task"),
]


def test_bad_runs_are_refused_before_the_folder_is_begun(tmp_path):
    """In one line, without the number of rows."""
    task = worker.tasks()[0]
    for sweep, change, words in BAD_RUNS:
        with pytest.raises((ValueError, TypeError), match=words) as refused:
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


def test_provenance_has_the_version_and_the_commit_of_a_checkout(tmp_path, monkeypatch):
    def git(*words):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "mine")
    head = git("rev-parse", "HEAD").stdout.strip()
    assert storage.provenance()["dpbt"] == dpbt.__version__
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    for root, commit in ((tmp_path, head), (tmp_path / "site", "unknown")):
        monkeypatch.setattr(dpbt, "__file__", str(root / "dpbt" / "__init__.py"))
        assert storage.provenance()["commit"] == commit
    monkeypatch.setenv("PATH", str(tmp_path))
    assert storage.provenance()["commit"] == "unknown"


# --- programs


def rounds_and_depth(rows, depth, rounds):
    return recipes.bdpe(rows=rows, rounds=rounds, depth=depth, epsilon=1.0, alpha=1.0)


def test_programs_are_traced_once_and_given_back(tmp_path, monkeypatch):
    """Thousands of pieces of compiled code in one process would abort it."""
    traced, made, alive = [], [], []
    boost, sample, compiled = runner.boost, boundary.sample, runner._Program._compile

    def boosted(*arguments):
        traced.append("boost")
        return boost(*arguments)

    def sampled(*arguments):
        traced.append("round")
        return sample(*arguments)

    def watched(program, arguments):
        found = compiled(program, arguments)
        made.append(weakref.ref(found))
        return found

    def count(fits):
        gc.collect()
        alive.append(sum(program() is not None for program in made))

    monkeypatch.setattr(runner, "boost", boosted)
    monkeypatch.setattr(boundary, "sample", sampled)
    monkeypatch.setattr(runner._Program, "_compile", watched)
    monkeypatch.setattr(runner, "THREADS", 1)
    sweep = plan.Sweep("own", one_depth, {"depth": (1, 2)})
    runner.run(sweep, worker.tasks()[0], tmp_path, about={}, progress=count)
    assert traced.count("boost") == len(made) == 2
    assert traced.count("round") <= 2 * 2  # once for the bytes of a lane, and once for the program
    assert max(alive) == 1


def test_a_failure_of_a_later_structure_stops_an_earlier_one(tmp_path, monkeypatch, idle):
    """Otherwise a full disk would be told of after the longest structure."""
    call, failed, late = runner._Program.__call__, threading.Event(), []

    def wait_or_fail(program, batch):
        if batch.group.indices[0] > 0:
            failed.set()
            raise OSError("disk full")
        assert failed.wait(60)
        late.append(batch)
        time.sleep(0.5)
        return call(program, batch)

    monkeypatch.setattr(runner._Program, "__call__", wait_or_fail)
    blocks = {"depth": (1,), "rounds": (1, 2, 3, 4)}, {"depth": (2,), "rounds": (1,)}
    sweep = plan.Sweep("own", rounds_and_depth, blocks)
    with pytest.raises(OSError, match="disk full"):
        runner.run(sweep, worker.tasks()[0], tmp_path, about={})
    assert len(late) <= 1


def test_batches_of_a_structure_that_is_alone_run_side_by_side(tmp_path, monkeypatch, idle):
    """And the results are those of batches that ran one after the other."""
    sweep, task = (
        plan.Sweep("own", rounds_and_depth, {"depth": 1, "rounds": (1, 2)}),
        worker.tasks()[0],
    )
    with monkeypatch.context() as patch:
        patch.setattr(runner, "THREADS", 1)
        runner.run(sweep, task, tmp_path / "one", about={})
    both, call = threading.Barrier(2, timeout=60), runner._Program.__call__

    def called_together(program, batch):
        both.wait()
        return call(program, batch)

    monkeypatch.setattr(runner._Program, "__call__", called_together)
    assert runner.run(sweep, task, tmp_path / "two", about={}).programs == 1
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


def test_short_programs_are_compiled_quickly():
    asked = jax.config.read("jax_disable_most_optimizations")
    try:
        jax.config.update("jax_disable_most_optimizations", False)
        quick = runner.options("cpu", 1e9)
        assert quick is not None
        assert not quick["xla_cpu_use_fusion_emitters"]
        assert runner.options("cpu", 1e11) is None
        assert runner.options("gpu", 1e9) is None
    finally:
        jax.config.update("jax_disable_most_optimizations", asked)
    assert not asked or runner.options("cpu", 1e9) is None
