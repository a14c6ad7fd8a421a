"""Runs survive faults of a machine: kills, full disks, files cut off, clocks set back."""

import errno
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from dpbt.common import storage
from dpbt.owners.cli.outputs import save_there_or_in_temporary_folder
from dpbt.owners.cli.parsing import BAD_INPUT, Parser, run_command_line
from tests.support import worker_process
from tests.support.worker_process import digests_of_files

FULL_DEVICE = Path("/dev/full")


@pytest.fixture
def folder_of_complete_sweep(tmp_path_factory, sweeps_without_training):
    """The folder of a sweep that ran without a fault."""
    folder = tmp_path_factory.mktemp("whole")
    worker_process.run_sweep(folder)
    return folder


def cut_in_half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def change_one_byte(path):
    """Change one byte of the numbers."""
    content = bytearray(path.read_bytes())
    content[2 * len(content) // 3] ^= 1
    path.write_bytes(content)


@pytest.mark.slow
def test_a_result_that_is_cut_off_or_damaged_is_found_and_fitted_again(
    tmp_path, folder_of_complete_sweep
):
    folder = shutil.copytree(folder_of_complete_sweep, tmp_path / "copy")
    cut_in_half(folder / "t1.jsonl")
    change_one_byte(folder / "t2.jsonl")
    (folder / "t0.jsonl").rename(folder / "t0.part")
    cut_in_half(folder / "t0.part")
    with pytest.warns(RuntimeWarning) as warned:
        report = worker_process.run_sweep(folder)
    messages = "\n".join(str(warning.message) for warning in warned)
    for name in ("t0.part", "t1.jsonl", "t2.jsonl"):
        assert f"{name}: cut off or damaged; fits that it lacks are run again" in messages
    assert 0 < report.fits < 162
    assert report.fits + report.reused == 162
    assert digests_of_files(folder) == digests_of_files(folder_of_complete_sweep)


def test_a_second_run_in_a_folder_is_refused_and_the_first_goes_on(
    tmp_path, folder_of_complete_sweep, monkeypatch
):
    """The clock falls by a year whenever it is read, which changes nothing."""
    start, readings, refusals = time.time(), iter(range(10**9)), []
    monkeypatch.setattr(time, "time", lambda: start - 3.2e7 * next(readings))

    def run_in_same_folder(fits):
        if not refusals:
            with pytest.raises(ValueError, match="another run is at work in") as error:
                worker_process.run_sweep(tmp_path)
            refusals.append(str(error.value))

    worker_process.run_sweep(tmp_path, progress=run_in_same_folder)
    assert len(refusals) == 1
    assert digests_of_files(tmp_path) == digests_of_files(folder_of_complete_sweep)
    worker_process.run_sweep(tmp_path)  # nobody holds the folder any more


@pytest.mark.skipif(not FULL_DEVICE.exists(), reason="the system has no /dev/full")
def test_a_full_disk_is_one_line_and_leaves_the_former_file(tmp_path, capsys):
    path = tmp_path / "result.csv"
    path.write_text("former")

    def write(name):
        name.write_text("new")
        with open(FULL_DEVICE, "w") as full:
            full.write("more than there is room for")

    parser = Parser()
    parser.set_defaults(program=lambda _: storage.write_atomically(path, write))
    assert run_command_line(parser, []) == BAD_INPUT
    assert capsys.readouterr().err == f"error: {path}: {os.strerror(errno.ENOSPC)}\n"
    assert path.read_text() == "former"
    assert os.listdir(tmp_path) == ["result.csv"]


def test_a_lock_that_a_killed_run_left_holds_nobody_off(tmp_path):
    (tmp_path / storage.LOCK_FILE_NAME).touch()
    with storage.lock_folder(tmp_path):
        assert (tmp_path / storage.LOCK_FILE_NAME).exists()
    assert os.listdir(tmp_path) == []


def test_a_model_that_the_disk_does_not_take_is_kept_elsewhere(tmp_path, capsys, monkeypatch):
    """The model was paid for, and another one would have to be paid for again."""
    temporary_folder = tmp_path / "temporary"
    temporary_folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary_folder))
    path, failures = tmp_path / "model.json", [True]

    def save(file):
        if failures and failures.pop():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
        file.write_text("the model")

    saved_path = save_there_or_in_temporary_folder(path, save)
    assert saved_path.read_text() == "the model"
    assert saved_path.is_relative_to(temporary_folder)
    warning = f"warning: {path}: {os.strerror(errno.ENOSPC)}; move {saved_path} there\n"
    assert capsys.readouterr().err == warning
    failures += [True, True]

    def fail_to_save(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))

    with pytest.raises(OSError, match=r"model\.json"):
        save_there_or_in_temporary_folder(path, fail_to_save)


def test_leftovers_of_a_kill_are_removed_and_files_of_the_user_stay(tmp_path):
    files_of_the_user = ".dpbt-mine.csv", ".dpbt-other-abcd_123.csv", ".new-archived.csv"
    for name in (".dpbt-new-abcd_123.csv", *files_of_the_user):
        (tmp_path / name).write_text("predictions")
    storage.remove_temporary_files_beside(tmp_path / "new.csv")
    storage.write_atomically(tmp_path / "new.csv", lambda part: part.write_text("new"))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [*files_of_the_user, "new.csv"]
