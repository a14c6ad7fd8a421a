"""The results of a sweep: a file of lines for each task.

The first line says what is run on which task. Each further line has the columns of one batch of
fits. Every line begins with a checksum. Batches are appended to `TASK.part`, which becomes
`TASK.jsonl` once all fits are there.
"""

import json
import os
import platform
import subprocess
import warnings
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import dpbt
from dpbt.common.storage import naming, remove_all_left, write_whole
from dpbt.common.validate import as_path
from dpbt.sweeps.plan import Sweep, Task, setting_id, settings_of, shape_of

FIT = ("setting", "evaluation", "repeat")
"""The columns that number a fit."""


def provenance() -> dict[str, str]:
    """Version and commit of dpbt, version of JAX, and device of this run.

    The commit is "unknown" unless the folder that holds the package is a checkout.
    """
    root, device = Path(dpbt.__file__).resolve().parent.parent, jax.devices()[0]
    command = ["git", f"--git-dir={root / '.git'}", "rev-parse", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        commit = found.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = "unknown"
    machine = f"{os.cpu_count()} cores, {platform.machine()}"
    return {
        "dpbt": dpbt.__version__,
        "commit": commit,
        "jax": jax.__version__,
        "device": f"{device.platform} {device.device_kind}, {machine}",
    }


def _line(content: Mapping[str, Any]) -> bytes:
    """Content as JSON on one line, after its checksum."""
    text = json.dumps(content, default=str).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _intact(line: bytes) -> bool:
    """Whether a line is whole."""
    return line == b"%08x %s" % (zlib.crc32(line[9:-1]), line[9:])


def load_columns(path: str | Path) -> tuple[dict[str, np.ndarray], dict]:
    """(columns, about) of a task's results; a part of them while they are not complete.

    The columns are `setting` (an id), the axes, `evaluation`, `repeat` and what was measured. They
    have an entry for each fit, by setting, evaluation and repeat.

    Raises:
        ValueError: naming the file, if `sweeps.run` did not write it, it is damaged, or it holds no
            fits. Also for something that is no path.
        OSError: if the file cannot be read.
    """
    path = as_path("path", path)
    first, *lines = path.read_bytes().splitlines(keepends=True) or [b""]
    if not _intact(first) or not all(map(_intact, lines)) or not lines:
        raise ValueError(
            f"{path}: not the results of dpbt.sweeps.run, without fits, or damaged; run the sweep "
            "again to mend it"
        )
    about, *parts = (json.loads(line[9:]) for line in (first, *lines))
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    # Each fit once: runs with other batches fit some again.
    numbers = np.stack([found.pop(name) for name in FIT])
    (setting, evaluation, repeat), kept = np.unique(numbers, axis=1, return_index=True)
    settings = settings_of(about["blocks"])
    ids = np.asarray([setting_id(each) for each in settings])
    axes = {axis: _column([each[axis] for each in settings])[setting] for axis in settings[0]}
    fits = {"setting": ids[setting], **axes, "evaluation": evaluation, "repeat": repeat}
    return {**fits, **{name: column[kept] for name, column in found.items()}}, about


def _column(values: Sequence) -> np.ndarray:
    """Numbers as numbers; anything else, and mixtures, as text."""
    if any(isinstance(value, str | bool) for value in values):
        values = [str(value) for value in values]
    return np.asarray(values)


class Results:
    """The results of a task in a folder that nobody else is at work in.

    Lines that a kill cut off, or that are damaged, are left out with a warning: their fits are run
    again.

    Args:
        folder: the folder.
        sweep: the settings.
        task: the task.
        about: what else is recorded, and must not change; JSON content.

    Attributes:
        done: bool[settings, evaluations, repeats], the fits that the folder holds.

    Raises:
        ValueError: if the file was begun with another content. No number of rows is shown.
    """

    def __init__(self, folder: Path, sweep: Sweep, task: Task, about: Mapping[str, Any]):
        self._part, self._whole = folder / f"{task.name}.part", folder / f"{task.name}.jsonl"
        lengths = {"shape": shape_of(task.table), "masks": np.shape(task.train)}
        own = {"task": task.name, "arguments": dict(task.arguments), **lengths}
        self._first = _line({**sweep.definition(), **about, **own})
        self.done = np.zeros((len(sweep.settings), len(task.train), sweep.repeats), bool)
        remove_all_left(folder, "*")
        path = self._whole if self._whole.exists() else self._part
        found = path.read_bytes() if path.exists() else b""
        begun, *lines = found.splitlines(keepends=True) or [b""]
        if begun not in (b"", self._first):
            raise ValueError(
                f"{path} was begun otherwise, with another sweep, measure, `about` or task; finish "
                "it as it was begun, or use another folder"
            )
        self._lines = [line for line in lines if _intact(line)]
        for columns in (json.loads(line[9:]) for line in self._lines):
            self.done[tuple(columns[name] for name in FIT)] = True
        if len(self._lines) < len(lines) or not begun:
            if begun:
                words = f"{path}: cut off or damaged; fits that it lacks are run again"
                warnings.warn(words, RuntimeWarning, stacklevel=3)
            self._write(self._part)
            self._whole.unlink(missing_ok=True)

    def _write(self, path: Path) -> None:
        """Write all lines, whole; equal batches give equal bytes."""
        content = b"".join([self._first, *sorted(self._lines)])
        write_whole(path, lambda name: name.write_bytes(content), durable=True)

    def add(self, columns: Mapping[str, np.ndarray]) -> None:
        """Add the columns of a batch, those of `FIT` among them; one thread at a time.

        Raises:
            OSError: naming the file, if the disk does not take it.
        """
        line = _line({name: np.asarray(column).tolist() for name, column in columns.items()})
        with naming(self._part), open(self._part, "ab") as file:
            file.write(line)
        self._lines.append(line)

    def finish(self) -> None:
        """Give the file its name."""
        if self._part.exists():
            self._write(self._whole)
            self._part.unlink()
