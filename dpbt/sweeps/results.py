"""The files of results: one for each task, of lines with checksums.

The first line says what is run on which task, and each further line has the columns of one batch of
fits, after a checksum. Batches are appended to `TASK.part`, which becomes `TASK.jsonl` once all
fits are there. A run that is killed loses at most the batches it was in, and its resumption ends in
the same bytes. A line that is cut off or damaged is found, and its fits are run again.
"""

import json
import os
import platform
import subprocess
import warnings
import zlib
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import jax
import msgspec
import numpy as np

import dpbt
from dpbt.common.storage import name_path_in_errors, remove_temporary_files, write_atomically
from dpbt.common.validate import as_path
from dpbt.data import domains
from dpbt.sweeps.grid import Sweep, Task, setting_id, settings_of_blocks
from dpbt.sweeps.groups import shape_of_table
from dpbt.types import Table

FIT = ("setting", "evaluation", "repeat")
"""The columns that number a fit."""


def provenance() -> dict[str, str]:
    """The versions of dpbt and JAX, the commit of dpbt, and the device of this run.

    The commit is "unknown" unless the folder that holds the package is a checkout.
    """
    root = Path(dpbt.__file__).resolve().parent.parent
    device = jax.devices()[0]
    command = ["git", f"--git-dir={root / '.git'}", "rev-parse", "HEAD"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = "unknown"
    machine = f"{os.cpu_count()} cores, {platform.machine()}"
    return {
        "dpbt": dpbt.__version__,
        "commit": commit,
        "jax": jax.__version__,
        "device": f"{device.platform} {device.device_kind}, {machine}",
    }


# Lines.


def _encode_line(content: Mapping[str, Any]) -> bytes:
    """Encode content as a line of JSON after its checksum."""
    text = json.dumps(content, default=str).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _decode_line(line: bytes) -> Any:
    """Decode the JSON content of an intact line."""
    return json.loads(line[9:])


def _is_intact(line: bytes) -> bool:
    """Whether a line is complete, and has the checksum of its content."""
    return line == b"%08x %s" % (zlib.crc32(line[9:-1]), line[9:])


def _domain_as_json(table: Table) -> dict[str, Any] | None:
    """The domain of a table as JSON content, with the ends of ranges as floats.

    It is for the first line of a file, and None for a table without a domain.
    """

    def column_as_json(kind: domains.Column) -> dict[str, Any]:
        ends = {end: float(getattr(kind, end)) for end in ("low", "high") if hasattr(kind, end)}
        return msgspec.to_builtins(kind) | ends

    if table.domain is None:
        return None
    return {str(name): column_as_json(kind) for name, kind in table.domain.items()}


def _target_as_json(table: Table) -> dict[str, Any]:
    """The declared target of a table by its fingerprint, and whether rows have weights."""
    content: dict[str, Any] = {}
    if table.declared is not None:
        content["target"] = np.asarray(table.declared).tolist()
    if table.weight is not None:
        content["weights"] = True
    return content


def _check_domain(first_line: bytes, table: Table, path: Path) -> None:
    """Refuse a table of another domain than the one that an intact first line states.

    Raises:
        ValueError: naming the first difference.
    """
    if not _is_intact(first_line):
        return
    domain_of_file = _decode_line(first_line).get("domain")
    if domain_of_file is not None:
        domain = msgspec.convert(domain_of_file, dict[str, domains.Column])
        domains.check_same_domain(table.domain, domain, "the task", str(path))


# Files.


class SavedResults(NamedTuple):
    """The results of a task.

    Attributes:
        columns: name -> [fits], by setting, evaluation and repeat: `setting` (an id), the axes,
            `evaluation`, `repeat` and what was measured.
        about: the content of the first line: the sweep, the task and the provenance.
    """

    columns: dict[str, np.ndarray]
    about: dict[str, Any]


def load_columns(path: str | Path) -> SavedResults:
    """Load the results of a task as columns, and what the file says about the sweep.

    While the results are not complete, it is a part of them. The columns are `setting` (an id), the
    axes, `evaluation`, `repeat` and what was measured. They have an entry for each fit, by setting,
    evaluation and repeat.

    Raises:
        ValueError: naming the file, if it is damaged, holds no fits, or `run` did not write it.
        OSError: if the file cannot be read.
    """
    path = as_path("path", path)
    first, *lines = path.read_bytes().splitlines(keepends=True) or [b""]
    if not _is_intact(first) or not all(map(_is_intact, lines)) or not lines:
        raise ValueError(f"{path}: not the results of dpbt.sweeps.run, without fits, or damaged")
    about, *batches = map(_decode_line, (first, *lines))
    measured = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}

    # Each fit once: runs with other batches fit some again.
    numbers = np.stack([measured.pop(name) for name in FIT])
    (setting, evaluation, repeat), first_of_fit = np.unique(numbers, axis=1, return_index=True)
    columns = {
        **_setting_columns(settings_of_blocks(about["blocks"]), setting),
        "evaluation": evaluation,
        "repeat": repeat,
        **{name: column[first_of_fit] for name, column in measured.items()},
    }
    return SavedResults(columns=columns, about=about)


def load_frame(path: str | Path) -> Any:
    """Load the results of a task, or of all tasks of a folder, as a data frame of fits.

    It has a row for each fit. It is a `pandas.DataFrame` where pandas is installed, and else a dict
    of the same columns as arrays of NumPy. The columns are `task`, then those of `load_columns`.
    What is measured for some tasks alone is NaN for the others.

    Args:
        path: a file of results, finished or not, or the folder of a run.

    Raises:
        ValueError: as `load_columns`, and for a folder without results.
        OSError: if a file cannot be read.
    """
    path = as_path("path", path)
    files = [path]
    if path.is_dir():
        files = sorted([*path.glob("*.jsonl"), *path.glob("*.part")])
        if not files:
            raise ValueError(f"{path}: a folder without results of dpbt.sweeps.run")
    columns = _join_columns([_columns_with_task(file) for file in files])
    try:
        pandas = import_module("pandas")
    except ModuleNotFoundError:
        return columns
    return pandas.DataFrame(
        {name: list(array) if array.ndim > 1 else array for name, array in columns.items()}
    )


def _columns_with_task(path: Path) -> dict[str, np.ndarray]:
    """Load the columns of a file, after a column with the name of its task."""
    columns, about = load_columns(path)
    return {"task": np.full(len(columns["setting"]), about["task"]), **columns}


def _join_columns(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Join the columns of several files, one file after the other.

    What a file lacks is NaN.
    """
    names = dict.fromkeys(name for part in parts for name in part)

    def column_of_part(part: Mapping[str, np.ndarray], name: str) -> np.ndarray:
        if name in part:
            return part[name]
        shape = next(other[name].shape[1:] for other in parts if name in other)
        return np.full((len(part["task"]), *shape), np.nan)

    return {name: np.concatenate([column_of_part(part, name) for part in parts]) for name in names}


def _setting_columns(
    settings: list[dict[str, Any]], setting_of_fit: np.ndarray
) -> dict[str, np.ndarray]:
    """The columns of fits that say their settings: the ids and the values of the axes."""
    ids = np.asarray([setting_id(setting) for setting in settings])
    columns: dict[str, np.ndarray] = {"setting": ids[setting_of_fit]}
    for axis in settings[0]:
        values = [setting[axis] for setting in settings]
        if any(isinstance(value, str | bool) for value in values):
            values = list(map(str, values))
        columns[axis] = np.asarray(values)[setting_of_fit]
    return columns


class ResultFile:
    """The file that the results of one task are appended to.

    No other run works in its folder. Lines that a kill cut off, or that are damaged, are left out
    with a warning, and their fits are run again.

    Attributes:
        done: bool[settings, evaluations, repeats], the fits that the file holds.

    Raises:
        ValueError: if the file was begun with another content, such as a table of another domain,
            whose first difference is named. No number of rows is shown.
    """

    def __init__(self, folder: Path, sweep: Sweep, task: Task, about: Mapping[str, Any]):
        self._partial_path = folder / f"{task.name}.part"
        self._complete_path = folder / f"{task.name}.jsonl"
        self._first_line = _encode_line(
            {
                **sweep.definition(),
                **about,
                "task": task.name,
                "arguments": dict(task.arguments),
                "shape": shape_of_table(task.table),
                "masks": np.shape(task.train),
                "domain": _domain_as_json(task.table),
                **_target_as_json(task.table),
            }
        )
        self.done = np.zeros((len(sweep.settings), len(task.train), sweep.repeats), bool)
        remove_temporary_files(folder, "*")
        path = self._complete_path if self._complete_path.exists() else self._partial_path
        content = path.read_bytes() if path.exists() else b""
        first_line, *lines = content.splitlines(keepends=True) or [b""]
        if first_line not in (b"", self._first_line):
            _check_domain(first_line, task.table, path)
            raise ValueError(f"{path} was begun otherwise; finish it so, or use another folder")
        self._lines = [line for line in lines if _is_intact(line)]
        for columns in map(_decode_line, self._lines):
            self.done[tuple(columns[name] for name in FIT)] = True
        if len(self._lines) < len(lines) or not first_line:
            if first_line:
                words = f"{path}: cut off or damaged; fits that it lacks are run again"
                warnings.warn(words, RuntimeWarning, stacklevel=3)
            self._write(self._partial_path)
            self._complete_path.unlink(missing_ok=True)

    def _write(self, path: Path) -> None:
        """Write all lines to a file at once, in an order that depends on them alone.

        So equal batches give equal bytes.
        """
        content = b"".join([self._first_line, *sorted(self._lines)])
        write_atomically(path, lambda temporary: temporary.write_bytes(content), durable=True)

    def add(self, columns: Mapping[str, np.ndarray]) -> None:
        """Append the columns of a batch, with those of `FIT`, to the file.

        One thread at a time may call it.

        Raises:
            OSError: naming the file, if the disk does not take it.
        """
        line = _encode_line({name: np.asarray(column).tolist() for name, column in columns.items()})
        with name_path_in_errors(self._partial_path), open(self._partial_path, "ab") as file:
            file.write(line)
        self._lines.append(line)

    def finish(self) -> None:
        """Give the file of results its final name, once they are complete."""
        if self._partial_path.exists():
            self._write(self._complete_path)
            self._partial_path.unlink()
