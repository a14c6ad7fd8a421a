"""SIGKILL at every moment at which it leaves other files: what a second run makes of them.

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

COUNTS = {"fit": 12, "sweep": 12}
"""How many moments each has at least."""

BY_THE_SYSTEM = re.compile(r"os.rmdir|os.remove of [0-9]")
"""Moments in the removal of a folder, whose order the file system chooses."""


class Killed:
    """A run of `tests.support.kill_moments` from its beginning to its end.

    Attributes:
        what: the name.
        folder: where it runs.
        begun: the folder as it was before.
        copies: the folder as it was at each moment.
        whole: the folder as it was at the end.
    """

    def __init__(self, what, base):
        self.what, self.folder, self._base = what, base / "at", base
        self.folder.mkdir()
        write_rows_and_domain(self.folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            if what == "fit":
                assert kill_moments.run_command("convert", 0) == 0
            dpbt.Filter(epsilon=20, rows=400, path="filter.db")
        self.begun = shutil.copytree(self.folder, base / "begun")
        (base / "copies").mkdir()
        assert self.run("none") == 0
        self.copies = sorted((base / "copies").iterdir())
        self.whole = shutil.copytree(self.folder, base / "whole")

    def run(self, kill):
        """Run it in a process of its own to its end, or to the moment; the exit status."""
        command = [
            sys.executable,
            "-m",
            "tests.support.kill_moments",
            str(self._base / "copies"),
            str(kill),
        ]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "timeout": 300}
        words = [*command, self.what]
        done = subprocess.run(words, cwd=self.folder, env=environment, check=False, **pipes)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.returncode

    def put(self, copy):
        """Let the folder be as it was."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(copy, self.folder, dirs_exist_ok=True)

    def kill(self, number):
        """Begin again, and kill it at a moment."""
        self.put(self.begun)
        assert self.run(number) == -signal.SIGKILL


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """What -> its run, which is made once."""
    made = {}

    def of(what):
        if what not in made:
            made[what] = Killed(what, tmp_path_factory.mktemp(what))
        return made[what]

    return of


def content(folder):
    """Name -> bytes, of all files of a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.slow
@pytest.mark.parametrize("what", COUNTS)
def test_a_copy_is_what_a_kill_leaves(killed, what):
    run = killed(what)
    whole = [copy for copy in run.copies if not copy.name.endswith(kill_moments.HALF)]
    assert len(whole) >= COUNTS[what]
    ordered = [number for number, copy in enumerate(whole) if not BY_THE_SYSTEM.search(copy.name)]
    number = int(np.random.default_rng().choice(ordered))
    run.kill(number)
    assert kill_moments.state_of_folder(run.folder) == kill_moments.state_of_folder(whole[number])


@pytest.mark.slow
def test_a_sweep_that_was_killed_ends_with_the_same_files(killed, monkeypatch):
    run = killed("sweep")
    monkeypatch.chdir(run.folder)
    for copy in run.copies:
        run.put(copy)
        assert kill_moments.run_command("sweep", 1) == 0, copy.name
        assert content(run.folder) == content(run.whole), copy.name


@pytest.mark.slow
def test_a_fit_that_was_killed_is_paid_for_once_and_ends_with_the_model_of_its_key(
    killed, monkeypatch, capsys, tmp_path
):
    run = killed("fit")
    monkeypatch.chdir(run.folder)
    run.put(run.copies[0])
    assert kill_moments.run_command("fit", 1) == 0
    models = [path.read_bytes() for path in (run.whole / "model.json", Path("model.json"))]
    assert models[0] != models[1]
    for copy in run.copies:
        run.put(copy)
        keys, model = checkpoint_holds_keys(), Path("model.json").exists()
        capsys.readouterr()
        status = kill_moments.run_command("fit", 1)
        if model:
            assert status == 2
            (line,) = capsys.readouterr().err.splitlines()
            assert "--force" in line
            status = 0 if not keys else kill_moments.run_command("fit", 1, "--force")
        assert status == 0, copy.name
        assert Path("model.json").read_bytes() == models[0 if keys or model else 1], copy.name
        assert dpbt.Filter.open("filter.db").spent == pytest.approx(4, rel=1e-6), copy.name
        assert not checkpoint_holds_keys(), copy.name
