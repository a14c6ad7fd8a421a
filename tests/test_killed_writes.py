"""SIGKILL at every moment at which it leaves other files: a second run completes the work.

`tests.support.kill_moments` copies the folder of a run before each change of a file. A copy is what
a kill leaves then, as the kills here check at moments that are drawn afresh. From each copy the
same command is run again.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpbt
from tests.support import ROOT, kill_moments
from tests.support.block_commands import checkpoint_holds_keys, write_rows_and_domain

MIN_NUM_MOMENTS = {"fit": 12, "sweep": 12}
"""The least number of moments of each command."""

REMOVAL_BY_THE_SYSTEM = re.compile(r"os.rmdir|os.remove of [0-9]")
"""Moments in the removal of a folder, whose order the file system chooses."""


class RecordedRun:
    """A run of `tests.support.kill_moments` from its beginning to its end.

    Attributes:
        command: its name.
        folder: where it runs.
        at_start: the folder as it was before.
        copies: the folder as it was at each moment.
        at_end: the folder as it was at the end.
    """

    def __init__(self, command, base):
        self.command, self.folder, self._base = command, base / "at", base
        self.folder.mkdir()
        write_rows_and_domain(self.folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            if command == "fit":
                assert kill_moments.run_command("convert", 0) == 0
            dpbt.Filter(epsilon=20, rows=400, path="filter.db")
        self.at_start = shutil.copytree(self.folder, base / "begun")
        (base / "copies").mkdir()
        assert self.run("none") == 0
        self.copies = sorted((base / "copies").iterdir())
        self.at_end = shutil.copytree(self.folder, base / "whole")

    def run(self, kill):
        """Run the command in a process to its end or to the moment of a kill; the exit status."""
        command = [
            sys.executable,
            "-m",
            "tests.support.kill_moments",
            str(self._base / "copies"),
            str(kill),
        ]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "timeout": 300}
        completed = subprocess.run(
            [*command, self.command], cwd=self.folder, env=environment, check=False, **pipes
        )
        assert completed.returncode in (0, -signal.SIGKILL), completed.stderr
        return completed.returncode

    def restore(self, copy):
        """Make the folder what it was in a copy."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(copy, self.folder, dirs_exist_ok=True)

    def kill(self, moment):
        """Begin again, and kill the run at a moment."""
        self.restore(self.at_start)
        assert self.run(moment) == -signal.SIGKILL


@pytest.fixture(scope="module")
def recorded_run(tmp_path_factory):
    """A function that returns the recorded run of a command, which is made once."""
    runs = {}

    def run_of_command(command):
        if command not in runs:
            runs[command] = RecordedRun(command, tmp_path_factory.mktemp(command))
        return runs[command]

    return run_of_command


def content_by_path(folder):
    """The bytes of all files of a folder by their relative paths."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.slow
@pytest.mark.parametrize("command", MIN_NUM_MOMENTS)
def test_a_copy_is_what_a_kill_leaves(recorded_run, command):
    run = recorded_run(command)
    complete_copies = [copy for copy in run.copies if not copy.name.endswith(kill_moments.HALF)]
    assert len(complete_copies) >= MIN_NUM_MOMENTS[command]
    moments_in_order = [
        moment
        for moment, copy in enumerate(complete_copies)
        if not REMOVAL_BY_THE_SYSTEM.search(copy.name)
    ]
    moment = int(np.random.default_rng().choice(moments_in_order))
    run.kill(moment)
    assert kill_moments.state_of_folder(run.folder) == kill_moments.state_of_folder(
        complete_copies[moment]
    )


@pytest.mark.slow
def test_a_sweep_that_was_killed_ends_with_the_same_files(recorded_run, monkeypatch):
    run = recorded_run("sweep")
    monkeypatch.chdir(run.folder)
    for copy in run.copies:
        run.restore(copy)
        assert kill_moments.run_command("sweep", 1) == 0, copy.name
        assert content_by_path(run.folder) == content_by_path(run.at_end), copy.name


@pytest.mark.slow
def test_a_fit_that_was_killed_is_paid_for_once_and_ends_with_the_model_of_its_key(
    recorded_run, monkeypatch, capsys, tmp_path
):
    run = recorded_run("fit")
    monkeypatch.chdir(run.folder)
    run.restore(run.copies[0])
    assert kill_moments.run_command("fit", 1) == 0
    models = [path.read_bytes() for path in (run.at_end / "model.json", Path("model.json"))]
    assert models[0] != models[1]
    for copy in run.copies:
        run.restore(copy)
        has_keys, has_model = checkpoint_holds_keys(), Path("model.json").exists()
        capsys.readouterr()
        status = kill_moments.run_command("fit", 1)
        if has_model:
            assert status == 2
            (line,) = capsys.readouterr().err.splitlines()
            assert "--force" in line
            status = 0 if not has_keys else kill_moments.run_command("fit", 1, "--force")
        assert status == 0, copy.name
        assert Path("model.json").read_bytes() == models[0 if has_keys or has_model else 1], (
            copy.name
        )
        assert dpbt.Filter.open("filter.db").spent == pytest.approx(4, rel=1e-6), copy.name
        assert not checkpoint_holds_keys(), copy.name
