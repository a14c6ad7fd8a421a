"""What a machine may do to a run: kill it, fill its disk, cut its files, set its clock."""

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

FULL = Path("/dev/full")


@pytest.fixture
def whole(tmp_path_factory, sweeps_without_training):
    """The folder of a sweep that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole")
    worker_process.run_sweep(folder)
    return folder


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def damage(path):
    """Change one byte of the numbers."""
    content = bytearray(path.read_bytes())
    content[2 * len(content) // 3] ^= 1
    path.write_bytes(content)


@pytest.mark.slow
def test_a_result_that_is_cut_off_or_damaged_is_found_and_fitted_again(tmp_path, whole):
    folder = shutil.copytree(whole, tmp_path / "copy")
    cut(folder / "t1.jsonl")
    damage(folder / "t2.jsonl")
    (folder / "t0.jsonl").rename(folder / "t0.part")
    cut(folder / "t0.part")
    with pytest.warns(RuntimeWarning) as warned:
        report = worker_process.run_sweep(folder)
    said = "\n".join(str(warning.message) for warning in warned)
    for name in ("t0.part", "t1.jsonl", "t2.jsonl"):
        assert f"{name}: cut off or damaged; fits that it lacks are run again" in said
    assert 0 < report.fits < 162
    assert report.fits + report.reused == 162
    assert digests_of_files(folder) == digests_of_files(whole)


def test_a_second_run_in_a_folder_is_refused_and_the_first_goes_on(tmp_path, whole, monkeypatch):
    """The time of day falls by a year at every look, which changes nothing."""
    start, looks, refused = time.time(), iter(range(10**9)), []
    monkeypatch.setattr(time, "time", lambda: start - 3.2e7 * next(looks))

    def another(fits):
        if not refused:
            with pytest.raises(ValueError, match="another run is at work in") as error:
                worker_process.run_sweep(tmp_path)
            refused.append(str(error.value))

    worker_process.run_sweep(tmp_path, progress=another)
    assert len(refused) == 1
    assert digests_of_files(tmp_path) == digests_of_files(whole)
    worker_process.run_sweep(tmp_path)  # nobody holds the folder any more


@pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")
def test_a_full_disk_is_one_line_and_leaves_the_former_file(tmp_path, capsys):
    path = tmp_path / "result.csv"
    path.write_text("former")

    def write(name):
        name.write_text("new")
        with open(FULL, "w") as full:
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
    """It was paid for, and another one would be paid for again."""
    elsewhere = tmp_path / "temporary"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    path, full = tmp_path / "model.json", [True]

    def save(file):
        if full and full.pop():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
        file.write_text("the model")

    kept = save_there_or_in_temporary_folder(path, save)
    assert kept.read_text() == "the model"
    assert kept.is_relative_to(elsewhere)
    warning = f"warning: {path}: {os.strerror(errno.ENOSPC)}; move {kept} there\n"
    assert capsys.readouterr().err == warning
    full += [True, True]

    def never(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))

    with pytest.raises(OSError, match=r"model\.json"):
        save_there_or_in_temporary_folder(path, never)


def test_leftovers_of_a_kill_are_removed_and_a_persons_file_stays(tmp_path):
    own = ".dpbt-mine.csv", ".dpbt-other-abcd_123.csv", ".new-archived.csv"
    for name in (".dpbt-new-abcd_123.csv", *own):
        (tmp_path / name).write_text("predictions")
    storage.remove_temporary_files_beside(tmp_path / "new.csv")
    storage.write_atomically(tmp_path / "new.csv", lambda part: part.write_text("new"))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [*own, "new.csv"]
