"""The folder of a sweep's results: what was begun in it, what is done, and how it is finished."""

import contextlib
import json
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from dpbt import storage
from dpbt.storage import write_whole
from dpbt.sweeps.definition import Sweep, Task, setting_id
from dpbt.sweeps.fingerprints import fingerprint
from dpbt.sweeps.storage import load_columns, save_columns

PLAN = "sweep.json"


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
    with contextlib.ExitStack() as stack:
        refusal = None
        if jax.process_index() == 0:
            try:
                stack.enter_context(storage.held(folder))
            except ValueError as error:
                refusal = error
        if jax.process_count() > 1:
            free = multihost_utils.broadcast_one_to_all(np.int32(refusal is None))
            if not free and refusal is None:
                refusal = storage.in_use(folder)
        if refusal is not None:
            raise refusal
        yield


def claim(folder: Path, plan: Mapping[str, Any]) -> None:
    """Record the plan in the folder, or check that the folder was begun with it.

    Raises:
        ValueError: if the folder was begun with another plan, holds results without one, or its
            plan cannot be read.
    """
    path, text = folder / PLAN, json.dumps(plan, sort_keys=True, indent=1) + "\n"
    if path.exists():
        try:
            begun = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            raise ValueError(
                f"{path}: not the plan of a sweep, or cut off; remove the folder, or use another"
            ) from None
        _check_begun(folder, begun, json.loads(text))
    elif jax.process_index() == 0:
        if results := [*folder.glob("*.npz"), *folder.glob("parts/*/*.npz")]:
            raise ValueError(
                f"{folder} holds results ({results[0].name}) but no sweep.json to say of what; use "
                "another folder"
            )
        write_whole(path, lambda name: name.write_text(text, encoding="utf-8"), durable=True)


def _check_begun(folder: Path, begun: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
    """Refuse a plan that is not the one that was begun.

    Raises:
        ValueError: saying what differs; neither fingerprints nor numbers of rows are shown.
    """
    keys = sorted(begun.keys() | plan.keys())
    changed = [key for key in keys if begun.get(key) != plan.get(key)]
    if not changed:
        return
    key = changed[0]
    difference = f"{key} was {begun.get(key)!r} and is {plan.get(key)!r}"
    if key == "tasks":
        difference = _changed_tasks(begun.get(key), plan[key])
    raise ValueError(
        f"{folder} was begun otherwise: {difference}; finish it as it was begun, or use another "
        "folder"
    )


def _changed_tasks(begun: Any, tasks: Mapping[str, str]) -> str:
    """What is not as it was begun, in words; no fingerprint is shown."""
    begun = begun if isinstance(begun, Mapping) else {}
    if begun.keys() != tasks.keys():
        return f"tasks were {sorted(begun)} and are {sorted(tasks)}"
    names = sorted(name for name in tasks if begun[name] != tasks[name])
    return f"tasks {names} have other rows, evaluations or arguments, or the secret is another one"


def done(folder: Path, names: Sequence[str]) -> set[tuple[str, str | None]]:
    """(task, batch) of every part, and (task, None) of every finished task, for all processes.

    The first process removes what a kill left, and files that are cut off or damaged. Their fits
    are run again.
    """
    if jax.process_index() == 0:
        storage.remove_left(folder / PLAN)
        for parts in (folder, *folder.glob("parts/*")):
            storage.remove_all_left(parts, "*.npz")
        for name in names:
            for path in [folder / f"{name}.npz", *(folder / "parts" / name).glob("*.npz")]:
                if path.exists() and not _is_whole(path):
                    words = f"{path}: cut off or damaged; its fits are run again"
                    warnings.warn(words, RuntimeWarning, stacklevel=3)
                    path.unlink()
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices("parts")
    done: set[tuple[str, str | None]] = {
        (name, None) for name in names if (folder / f"{name}.npz").exists()
    }
    for name in names:
        done |= {(name, path.stem) for path in (folder / "parts" / name).glob("[!.]*.npz")}
    return done


def _is_whole(path: Path) -> bool:
    """Whether a file of columns can be read; its parts have checksums."""
    try:
        load_columns(path)
    except ValueError:
        return False
    return True


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
    parts = [load_columns(path)[0] for path in sorted((folder / "parts" / task.name).glob("*.npz"))]
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

    def is_number(value: object) -> bool:
        return isinstance(value, int | float | np.number) and not isinstance(value, bool)

    if all(map(is_number, values)):
        return np.asarray(values)
    return np.asarray([str(value) for value in values])
