"""The files of a sweep: tables of columns with their provenance, and the folder of a run.

The folder holds `sweep.json`, which says what was begun, and a file for each finished batch in
`parts/TASK`. Once all parts of a task are there, `TASK.npz` takes their place.
"""

import contextlib
import io
import json
import os
import platform
import shutil
import subprocess
import tomllib
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

import dpbt
from dpbt import storage
from dpbt.storage import write_whole
from dpbt.sweeps.definition import Sweep, Task, setting_id
from dpbt.sweeps.fingerprints import fingerprint
from dpbt.validate import as_path

PLAN = "sweep.json"

PROVENANCE = "provenance"
"""The name under which a file of columns holds its configuration and origin, as JSON."""

_DAMAGED = (zipfile.BadZipFile, zlib.error, NotImplementedError, OSError, OverflowError)
"""What reading damaged bytes raises."""


def provenance() -> dict[str, str]:
    """Version and commit of dpbt, version of JAX, and device of this run.

    The commit is "unknown" unless dpbt runs from a checkout of its own repository.
    """
    device = jax.devices()[0]
    return {
        "dpbt": dpbt.__version__,
        "commit": _commit(Path(dpbt.__file__).resolve().parent.parent),
        "jax": jax.__version__,
        "device": f"{device.platform} {device.device_kind}, "
        f"{os.cpu_count()} cores, {platform.machine()}",
    }


def _commit(root: Path) -> str:
    """The commit of a checkout of dpbt's repository; "unknown" in any other folder.

    Args:
        root: the folder that holds the package.
    """
    try:
        if tomllib.loads((root / "pyproject.toml").read_text())["project"]["name"] != "dpbt":
            return "unknown"
        # Only the repository that has its top floor here; a variable GIT_DIR would name another.
        command = ["git", f"--git-dir={root / '.git'}", "rev-parse", "HEAD"]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


def save_columns(path: Path, columns: Mapping[str, np.ndarray], about: Mapping) -> None:
    """Save columns of one length as an uncompressed `.npz`: equal content gives equal bytes.

    Args:
        path: ends in `.npz`.
        columns: name -> array [rows]; no object arrays.
        about: JSON content that belongs to the file, such as configuration and provenance.

    Raises:
        ValueError: if lengths differ, or a column is called `PROVENANCE`.
    """
    if PROVENANCE in columns or len({len(column) for column in columns.values()}) > 1:
        lengths = {name: len(column) for name, column in columns.items()}
        raise ValueError(
            f"columns must be of one length and not be called {PROVENANCE!r}, got {lengths}"
        )
    text = np.asarray(json.dumps(about, sort_keys=True, default=str))

    def write(name: Path) -> None:
        with open(name, "wb") as file:
            np.savez(file, allow_pickle=False, **columns, **{PROVENANCE: text})

    write_whole(path, write)


def load_columns(path: str | Path) -> tuple[dict[str, np.ndarray], dict]:
    """(columns, about) of a file that `save_columns` wrote.

    Raises:
        ValueError: naming the file, if `save_columns` did not write it. Also for something that is
            no path.
        OSError: if the file cannot be read.
    """
    path = as_path("path", path)
    try:
        content = path.read_bytes()
    except ValueError as error:  # a null in the name
        raise ValueError(f"{path}: {error}") from error
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            columns = {name: file[name] for name in file.files}
        return columns, json.loads(str(columns.pop(PROVENANCE)))
    except (ValueError, KeyError, EOFError, TypeError, *_DAMAGED) as error:
        raise ValueError(
            f"{path}: not a file of columns, as dpbt.sweeps.run writes it with the suffix .npz"
        ) from error


def fingerprints(tasks: Sequence[Task], secret: bytes) -> dict[str, str]:
    """Task -> the keyed fingerprint of its table, its evaluations and its arguments."""

    def of_task(task: Task) -> str:
        arguments = json.dumps(dict(task.arguments), sort_keys=True, default=str)
        arrays = [*jax.tree.leaves(task.table), task.train, task.test]
        return fingerprint(secret, arguments, map(np.asarray, arrays))

    return {task.name: of_task(task) for task in tasks}


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep other runs out of the folder, as `storage.held`.

    The first of several processes holds the folder for all of them.

    Raises:
        ValueError: on every process, if another run is at work in the folder.
    """
    refusal = None
    with contextlib.ExitStack() as stack:
        if jax.process_index() == 0:
            try:
                stack.enter_context(storage.held(folder))
            except ValueError as error:
                refusal = error
        free = refusal is None
        if jax.process_count() > 1:
            free = bool(multihost_utils.broadcast_one_to_all(np.int32(free)))
        if not free:
            raise refusal or storage.in_use(folder)
        yield


def claim(folder: Path, plan: Mapping[str, Any]) -> None:
    """Record the plan in the folder, or check that the folder was begun with it.

    Raises:
        ValueError: if the folder was begun with another plan, holds results without one, or its
            plan cannot be read. Neither fingerprints nor numbers of rows are shown.
    """
    path, text = folder / PLAN, json.dumps(plan, sort_keys=True, indent=1) + "\n"
    if path.exists():
        try:
            begun = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            raise ValueError(
                f"{path}: not the plan of a sweep, or cut off; remove the folder, or use another"
            ) from None
        if difference := _difference(begun, json.loads(text)):
            raise ValueError(
                f"{folder} was begun otherwise: {difference}; finish it as it was begun, or use "
                "another folder"
            )
    elif jax.process_index() == 0:
        if results := [*folder.glob("*.npz"), *folder.glob("parts/*/*.npz")]:
            raise ValueError(
                f"{folder} holds results ({results[0].name}) but no {PLAN} to say of what; use "
                "another folder"
            )
        write_whole(path, lambda name: name.write_text(text, encoding="utf-8"), durable=True)


def _difference(begun: Mapping[str, Any], plan: Mapping[str, Any]) -> str:
    """The first difference of two plans in words, or nothing; no fingerprint is shown."""
    changed = [key for key in sorted({*begun, *plan}) if begun.get(key) != plan.get(key)]
    if not changed:
        return ""
    key, old, new = changed[0], begun.get(changed[0]), plan.get(changed[0])
    if key != "tasks":
        return f"{key} was {old!r} and is {new!r}"
    old, new = dict(old or {}), dict(new or {})
    if old.keys() != new.keys():
        return f"tasks were {sorted(old)} and are {sorted(new)}"
    names = sorted(name for name in new if old[name] != new[name])
    return f"tasks {names} have other rows, evaluations or arguments, or the secret is another one"


def part(folder: Path, task: str, batch: str) -> Path:
    """The file of a batch."""
    return folder / "parts" / task / f"{batch}.npz"


def done(folder: Path, names: Sequence[str]) -> set[tuple[str, str | None]]:
    """(task, batch) of every part, and (task, None) of every finished task, for all processes.

    The first process removes what a kill left, and files that are cut off or damaged. Their fits
    are run again.
    """
    if jax.process_index() == 0:
        for parts in (folder, *folder.glob("parts/*")):
            storage.remove_all_left(parts, "*")
        for path in [folder / f"{name}.npz" for name in names] + [*folder.glob("parts/*/*.npz")]:
            try:
                load_columns(path)
            except FileNotFoundError:
                pass
            except ValueError:
                words = f"{path}: cut off or damaged; its fits are run again"
                warnings.warn(words, RuntimeWarning, stacklevel=3)
                path.unlink()
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices("parts")
    found: set[tuple[str, str | None]] = set()
    found |= {(path.parent.name, path.stem) for path in folder.glob("parts/*/[!.]*.npz")}
    return found | {(name, None) for name in names if (folder / f"{name}.npz").exists()}


def finish(sweep: Sweep, tasks: Sequence[Task], folder: Path, plan: Mapping[str, Any]) -> None:
    """Write the files of the tasks that have none yet, on the first process."""
    if jax.process_index() != 0:
        return
    for task in tasks:
        if not (folder / f"{task.name}.npz").exists():
            _join(sweep, task, folder, plan)
    shutil.rmtree(folder / "parts", ignore_errors=True)


def _join(sweep: Sweep, task: Task, folder: Path, plan: Mapping[str, Any]) -> None:
    """Join the parts of a task into its file: a row for each fit, by setting, evaluation, repeat.

    Raises:
        ValueError: if the parts are not one fit of each kind.
    """
    paths = sorted(part(folder, task.name, "*").parent.glob("*.npz"))
    parts = [load_columns(path)[0] for path in paths]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    # Parts are in the order of batches.
    order = np.lexsort((columns["repeat"], columns["evaluation"], columns["setting"]))
    columns = {name: column[order] for name, column in columns.items()}

    # There must be one fit of each kind.
    expected = np.indices((len(sweep.settings), len(task.train), sweep.repeats)).reshape(3, -1)
    present = [columns[name] for name in ("setting", "evaluation", "repeat")]
    if not all(map(np.array_equal, present, expected)):
        raise ValueError(f"{folder}: the parts of {task.name} do not make up one fit of each kind")

    # A column for each axis, in the place of the settings' numbers.
    index, settings = columns.pop("setting"), sweep.settings
    ids = np.asarray([setting_id(setting) for setting in settings])
    axes = {axis: _column([setting[axis] for setting in settings])[index] for axis in settings[0]}
    public = {key: value for key, value in plan.items() if key != "tasks"}
    about = {**public, "task": task.name, "arguments": dict(task.arguments)}
    save_columns(folder / f"{task.name}.npz", {"setting": ids[index], **axes, **columns}, about)


def _column(values: Sequence) -> np.ndarray:
    """Numbers as numbers; anything else, and mixtures, as text."""
    if any(isinstance(value, str | bool) for value in values):
        values = [str(value) for value in values]
    return np.asarray(values)
