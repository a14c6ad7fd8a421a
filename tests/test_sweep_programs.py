"""The programs of a sweep: traced once, compiled as it pays, run side by side, and given back."""

import gc
import threading
import time
import weakref

import jax
import numpy as np
import pytest

from dpbt import recipes
from dpbt.privacy import boundary
from dpbt.sweeps import plan, runner, storage
from tests import worker
from tests.test_sweeps import one_depth

SECOND = {"depth": (2,), "rounds": (1,)}


def rounds_and_depth(rows, depth, rounds):
    return recipes.bdpe(rows=rows, rounds=rounds, depth=depth, epsilon=1.0, alpha=1.0)


def test_programs_of_a_structure_are_given_back(tmp_path, monkeypatch, idle):
    """Thousands of pieces of compiled code in one process would abort it."""
    made, alive, evaluator = [], [], runner._evaluator

    def watched(measure, mesh):
        program = evaluator(measure, mesh)
        made.append(weakref.ref(program))
        return program

    def count(fits):
        gc.collect()
        alive.append(sum(program() is not None for program in made))

    monkeypatch.setattr(runner, "_evaluator", watched)
    sweep = plan.Sweep("own", one_depth, {"depth": (1, 2, 3)})
    runner.run(sweep, worker.tasks()[0], tmp_path, about={}, progress=count)
    assert len(made) == 3
    assert max(alive) <= runner.THREADS < 3


def test_a_program_is_traced_once(tmp_path, monkeypatch):
    """Tracing is a third of what a small sweep takes."""
    traced, boost, sample = [], runner.boost, boundary.sample

    def boosted(*arguments):
        traced.append("boost")
        return boost(*arguments)

    def sampled(*arguments):
        traced.append("round")
        return sample(*arguments)

    monkeypatch.setattr(runner, "boost", boosted)
    monkeypatch.setattr(boundary, "sample", sampled)
    sweep = plan.Sweep("own", one_depth, {"depth": (1, 2)})
    runner.run(sweep, worker.tasks()[0], tmp_path, about={})
    assert traced.count("boost") == 2
    assert traced.count("round") <= 2 * 2  # once for the bytes of a lane, and once for the program


def test_a_failure_of_a_later_structure_stops_an_earlier_one(tmp_path, monkeypatch, idle):
    """Otherwise a full disk would be told of after the longest structure."""
    save, failed, late = runner._save, threading.Event(), []

    def save_or_fail(folder, task, group, batch, columns):
        if group.indices[0] > 0:
            failed.set()
            raise OSError("disk full")
        assert failed.wait(60)
        late.append(batch.name)
        time.sleep(0.5)
        save(folder, task, group, batch, columns)

    monkeypatch.setattr(runner, "_save", save_or_fail)
    sweep = plan.Sweep("own", rounds_and_depth, ({"depth": (1,), "rounds": (1, 2, 3, 4)}, SECOND))
    with pytest.raises(OSError, match="disk full"):
        runner.run(sweep, worker.tasks()[0], tmp_path, about={})
    assert len(late) == 1


def test_batches_of_a_structure_that_is_alone_run_side_by_side(tmp_path, monkeypatch, idle):
    """And the results are those of batches that ran one after the other."""
    sweep = plan.Sweep("own", rounds_and_depth, {"depth": (1,), "rounds": (1, 2)})
    with monkeypatch.context() as patch:
        patch.setattr(runner, "THREADS", 1)
        runner.run(sweep, worker.tasks()[0], tmp_path / "one", about={})

    both, save = threading.Barrier(2, timeout=60), runner._save

    def save_together(*arguments):
        both.wait()
        save(*arguments)

    monkeypatch.setattr(runner, "_save", save_together)
    report = runner.run(sweep, worker.tasks()[0], tmp_path / "two", about={})
    assert report.programs == 1
    one, two = (
        storage.load_columns(tmp_path / name / f"{worker.tasks()[0].name}.npz")[0]
        for name in ("one", "two")
    )
    assert one.keys() == two.keys()
    for name, column in one.items():
        np.testing.assert_array_equal(column, two[name])


def test_a_caller_with_settings_of_jax_goes_on_with_a_folder_of_one_without(tmp_path, idle):
    """So batches are cut alike for one thread and for two."""
    sweep = plan.Sweep("own", one_depth, {"depth": (1,)}, repeats=70)

    def stop(fits):
        raise RuntimeError("stopped")

    task = worker.tasks()[0]
    with jax.debug_nans(True), pytest.raises(RuntimeError, match="stopped"):
        runner.run(sweep, task, tmp_path, about={}, progress=stop)
    report = runner.run(sweep, task, tmp_path, about={})
    assert report.reused > 0
    assert report.reused + report.fits == 70 * len(task.train)


def test_contexts_of_the_caller_hold(tmp_path, idle):
    """Threads of a pool have no contexts of JAX but the defaults."""
    seen = []

    def measure(score, target, trained, test):
        seen.append(jax.config.jax_default_matmul_precision)
        return runner.error_rates(score, target, trained, test)

    sweep = plan.Sweep("own", one_depth, {"depth": (1,)})
    for value in ("highest", "default"):
        with jax.default_matmul_precision(value):
            runner.run(sweep, worker.tasks()[0], tmp_path / str(value), about={}, measure=measure)
    assert set(seen[: len(seen) // 2]) == {"highest"}
    assert set(seen[len(seen) // 2 :]) == {"default"}


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
