"""What a machine may do to a run: kill it, fill its disk, cut its files, set its clock."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest

import dpbt
from dpbt.cli.shared import BAD_INPUT, keep, status_of
from dpbt.common import storage
from dpbt.data import convert
from dpbt.training import fit as training_fit
from experiments.common import cells
from tests import worker
from tests.test_command_line import ROWS, fill, fitting
from tests.test_sweeps import digests

FULL = Path("/dev/full")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a sweep that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole")
    worker.sweep(folder)
    return folder


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def damage(path):
    """Change one byte of the numbers."""
    content = bytearray(path.read_bytes())
    content[2 * len(content) // 3] ^= 1
    path.write_bytes(content)


def test_a_result_that_is_cut_off_or_damaged_is_found_and_fitted_again(tmp_path, whole):
    folder = shutil.copytree(whole, tmp_path / "copy")
    cut(folder / "t1.jsonl")
    damage(folder / "t2.jsonl")
    with pytest.warns(RuntimeWarning) as warned:
        report = worker.sweep(folder)
    said = "\n".join(str(warning.message) for warning in warned)
    for name in ("t1.jsonl", "t2.jsonl"):
        assert f"{name}: cut off or damaged; fits that it lacks are run again" in said
    assert 0 < report.fits < 108
    assert report.fits + report.reused == 162
    assert digests(folder) == digests(whole)


class StoppedError(Exception):
    """Ends a run from outside."""


def stop_after(batches):
    """A progress that ends the run after some batches."""
    seen = []

    def progress(fits):
        seen.append(fits)
        if len(seen) == batches:
            raise StoppedError

    return progress


def test_a_part_that_is_cut_off_is_found_and_fitted_again(tmp_path, whole):
    with pytest.raises(StoppedError):
        worker.sweep(tmp_path, progress=stop_after(4))
    (part,) = (path for path in tmp_path.glob("*.part") if path.read_bytes().count(b"\n") > 1)
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.warns(RuntimeWarning, match="cut off or damaged"):
        report = worker.sweep(tmp_path)
    assert report.fits + report.reused == 162
    assert digests(tmp_path) == digests(whole)


def test_a_second_run_in_a_folder_is_refused_and_the_first_goes_on(tmp_path, whole, monkeypatch):
    """The time of day falls by a year at every look, which changes nothing."""
    start, looks, refused = time.time(), iter(range(10**9)), []
    monkeypatch.setattr(time, "time", lambda: start - 3.2e7 * next(looks))

    def another(fits):
        if not refused:
            with pytest.raises(ValueError, match="another run is at work in") as error:
                worker.sweep(tmp_path)
            refused.append(str(error.value))

    report = worker.sweep(tmp_path, progress=another)
    assert min(report.compile_seconds, report.run_seconds) >= 0
    assert len(refused) == 1
    assert digests(tmp_path) == digests(whole)
    worker.sweep(tmp_path)  # nobody holds the folder any more


def test_the_lock_of_a_run_that_was_killed_holds_nobody_off(tmp_path):
    """The system takes the lock back from a process that is killed."""
    script = (
        "import sys, time; from pathlib import Path; from dpbt.common.storage import locked\n"
        "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    lock = tmp_path / ".running"
    command = [sys.executable, "-c", script, str(lock)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(BlockingIOError), storage.locked(lock, wait=False):
            pass
        process.send_signal(signal.SIGKILL)
    with storage.locked(lock, wait=False):
        assert lock.exists()


@pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")
def test_a_full_disk_is_one_line_and_leaves_the_former_file(tmp_path, capsys):
    path = tmp_path / "result.csv"
    path.write_text("former")

    def write(name):
        name.write_text("new")
        with open(FULL, "w") as full:
            full.write("more than there is room for")

    def program():
        storage.write_whole(path, write)
        return 0

    assert status_of(program) == BAD_INPUT
    assert capsys.readouterr().err == f"error: {path}: {os.strerror(errno.ENOSPC)}\n"
    assert path.read_text() == "former"
    assert os.listdir(tmp_path) == ["result.csv"]


@pytest.mark.slow
def test_a_sweep_on_a_disk_without_room_resumes_to_the_same_bytes(tmp_path, whole):
    """Files may grow to a kilobyte or two only, as if the disk were full; later there is room."""
    folder = tmp_path / "full"
    command = [sys.executable, "-m", "tests.worker", "sweep", str(folder)]
    limited = ["sh", "-c", 'ulimit -f 2 && exec "$@"', "sh", *command]
    found = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert os.strerror(errno.EFBIG) in found.stderr.splitlines()[-1]
    assert not list(folder.glob("*.jsonl"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a line that is cut off
        worker.sweep(folder)
    assert digests(folder) == digests(whole)


def test_a_file_of_lines_is_read_again_whatever_its_time_says(tmp_path):
    """Two processes write cells of one size, and the clock stands still."""
    path = tmp_path / "cells.csv"
    ours, theirs = cells.Store(path, "frontier"), cells.Store(path, "frontier")
    line = {"dataset": "a", "method": "m", "epsilon": 1.0, "delta": 0.0, "auroc": 0.5}
    ours.add(line)
    os.utime(path, (0, 0))
    assert ours.lines()[0]["auroc"] == 0.5
    theirs.add({**line, "auroc": 0.7})
    os.utime(path, (0, 0))
    assert ours.lines()[0]["auroc"] == 0.7


def test_a_model_that_the_disk_does_not_take_is_kept_elsewhere(tmp_path, capsys, monkeypatch):
    """It was paid for, and another one would be paid for again."""
    elsewhere = tmp_path / "temporary"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    path, full = tmp_path / "model.json", [True]

    def save(file):
        if full and full.pop():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
        file.write_text("the model")

    kept = keep(path, save)
    assert kept.read_text() == "the model"
    assert kept.is_relative_to(elsewhere)
    warning = f"warning: {path}: {os.strerror(errno.ENOSPC)}; move {kept} there\n"
    assert capsys.readouterr().err == warning
    full += [True, True]

    def never(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))

    with pytest.raises(OSError, match=r"model\.json"):
        keep(path, never)


@pytest.mark.slow
def test_a_fit_that_is_killed_leaves_a_whole_model_that_was_paid_for_or_none(tmp_path):
    """SIGKILL at moments drawn afresh, over the whole time that a fit takes."""
    fill(tmp_path)
    python, rng = [sys.executable, "-m", "dpbt"], np.random.default_rng()

    def fit(number, limit):
        """Whether there is a model of this number, and how much its filter has spent."""
        budget, model = tmp_path / f"filter{number}.db", tmp_path / f"model{number}.json"
        dpbt.Filter(epsilon=8, rows=ROWS + 10, path=budget)
        words = [*fitting(tmp_path, model.name), "--filter", str(budget)]
        with subprocess.Popen([*python, *words], stderr=subprocess.DEVNULL) as process:
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                process.kill()
        if model.exists():
            dpbt.load(model)
        return model.exists(), dpbt.Filter.open(budget).spent

    start = time.monotonic()
    assert fit(0, None) == (True, pytest.approx(5, rel=1e-6))
    longest = time.monotonic() - start
    for number in range(1, 7):
        there, spent = fit(number, rng.uniform(0.5, 1.1) * longest)
        assert spent == 0 or spent == pytest.approx(5, rel=1e-6)
        assert spent > 0 or not there


def test_two_fits_on_one_checkpoint(tmp_path):
    """The second would release the same rounds; the first goes on."""
    domain, columns, labels = worker.random_bins(5, 1200)
    table = convert.convert_columns(domain, columns, labels, tmp_path / "table")
    key, recipe, refused = jax.random.key(4), worker.rounds_of(domain), []

    def another(state):
        if not refused:
            with pytest.raises(ValueError, match="another run is at work in"):
                training_fit.learn(key, table, recipe, checkpoint=tmp_path / "kept")
            refused.append(state)

    training_fit.learn(key, table, recipe, checkpoint=tmp_path / "kept", progress=another)
    assert refused
    assert sorted(os.listdir(tmp_path)) == ["kept", "table"]


def test_what_a_kill_left_is_removed_and_a_file_of_a_person_stays(tmp_path):
    own = ".dpbt-mine.csv", ".dpbt-other-abcd_123.csv", ".new-archived.csv"
    for name in (".dpbt-new-abcd_123.csv", *own):
        (tmp_path / name).write_text("predictions")
    storage.remove_left(tmp_path / "new.csv")
    storage.write_whole(tmp_path / "new.csv", lambda part: part.write_text("new"))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [*own, "new.csv"]
