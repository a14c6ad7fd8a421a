"""Running a sweep: few programs, batches from a memory budget, all devices, and results that
survive a kill.

Results lie in one folder: `sweep.json` says what is run; `parts/` holds a file for each finished
batch; `TASK.npz` is written when a task is complete, one row for each fit, and takes the place of
its parts. Every file is renamed into place whole, so a run that is killed loses at most the batch
it was in, and its resumption ends in the same bytes.

Tasks may hold private rows. `sweep.json` has a fingerprint of each, keyed with a secret that stays
with their owner (`fingerprints`): a run that resumes needs it to tell another table. `TASK.npz` has
no fingerprint, so its bytes do not depend on the secret, and it does not have the number of rows.
"""

import dataclasses
import itertools
import json
import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dpbt.base import AnyArray, Array, Recipe, Table
from dpbt.boosting import boost
from dpbt.privacy.keys import pair
from dpbt.sweeps.fingerprints import fingerprint, shared_secret
from dpbt.sweeps.plan import (
    Group,
    Shape,
    Sweep,
    Task,
    common_shapes,
    groups,
    id_words,
    lane_bytes,
    setting_id,
    together,
    word,
)
from dpbt.sweeps.storage import load_columns, provenance, save_columns, write_whole

SETTINGS_AXIS, ROWS_AXIS = "settings", "rows"

MEMORY_MB = 64
"""Default working memory of a program's lanes: on CPUs, about what the caches share."""

_LONGEST_BATCH = 64
"""Most chunks of lanes in a batch, which is what a kill can lose."""

Measure = Callable[[Array, Array, Array, Array], dict[str, Array]]
"""(score f32[N], target bool[N], trained bool[N], test bool[N]) -> name -> scalar: the columns."""


def error_rates(score: Array, target: Array, trained: Array, test: Array) -> dict[str, Array]:
    """Errors of the sign of the score on the tested rows and on those trained on; 0 counts as
    negative.
    """
    wrong = (score > 0) != target

    def rate(mask):
        return jnp.sum(wrong & mask) / jnp.maximum(jnp.sum(mask), 1)

    return {"test_error": rate(test), "train_error": rate(trained)}


class Report(NamedTuple):
    """What a run did.

    Attributes:
        fits: ensembles fitted now.
        found: ensembles that were in the folder already.
        programs: compiled programs; each is compiled once.
        compile_seconds: spent compiling (or reading the compilation cache).
        run_seconds: spent fitting.
        memory_mb: the largest program's working memory, as its compiler plans it, of one device.
    """

    fits: int
    found: int
    programs: int
    compile_seconds: float
    run_seconds: float
    memory_mb: float


class _Lanes(NamedTuple):
    """Fits of one batch, [chunks, lanes]: what differs between them; `words` is [chunks, lanes,
    2].
    """

    recipe: Recipe
    words: Array
    evaluation: Array
    repeat: Array


_Layout = tuple[int, int]
"""(chunks, lanes) of a batch."""


class _Batch(NamedTuple):
    """One dispatch: `settings`, `evaluation`, `repeat` are i64[fits], in the order of the lanes."""

    name: str
    rounds: int
    settings: np.ndarray
    evaluation: np.ndarray
    repeat: np.ndarray


def device_mesh(devices: Sequence[Any] | None = None, row_shards: int = 1) -> Mesh:
    """A mesh of all devices (of all processes): settings are spread over them, and rows over
    `row_shards` of them.

    Raises:
        ValueError: if the devices are not a multiple of `row_shards`.
    """
    devices = jax.devices() if devices is None else list(devices)
    if row_shards < 1 or len(devices) % row_shards:
        raise ValueError(f"{len(devices)} devices are no multiple of row_shards, {row_shards}")
    return Mesh(np.asarray(devices).reshape(-1, row_shards), (SETTINGS_AXIS, ROWS_AXIS))


def place(array: AnyArray, mesh: Mesh, *axes: str | None) -> Array:
    """A host array that every process holds, on the mesh: dimension k is cut along the axis named
    k-th.
    """
    array = np.asarray(array)
    sharding = NamedSharding(mesh, PartitionSpec(*axes))
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def shard_rows(table: Table, mesh: Mesh) -> Table:
    """The table with its rows spread over the mesh, filled up with absent ones: for tables that
    outgrow one device.

    `boost` under jit then sums every level statistic over the shards (an integer all-reduce), and
    keeps each row's score where the row is. The sums are exact, so releases do not depend on the
    number of shards.
    """
    count = mesh.shape[ROWS_AXIS]
    spare = -table.target.shape[0] % count

    def spread(rows: AnyArray) -> Array:
        filled = np.pad(np.asarray(rows), [(0, spare)] + [(0, 0)] * (rows.ndim - 1))
        return place(filled, mesh, ROWS_AXIS)

    questions = jax.tree.map(lambda array: place(array, mesh), table.questions)
    return Table(spread(table.cells), spread(table.target), spread(table.present), questions)


def _evaluator(measure: Measure, mesh: Mesh):
    """The program of one batch: `used` chunks of lanes, one after the other, each spread over the
    mesh.
    """

    def local(table: Table, train, test, key, rounds, used, lanes: _Lanes):
        root = jax.random.wrap_key_data(key, impl="threefry2x32")

        def one(lane: _Lanes):
            own = root
            for number in (lane.words[0], lane.words[1], lane.evaluation, lane.repeat):
                own = jax.random.fold_in(own, number)
            present = table.present & train[lane.evaluation]
            recipe = dataclasses.replace(lane.recipe, rounds=rounds)
            noise_key, public_key = pair(own)
            score = boost(noise_key, table._replace(present=present), recipe, public_key)[2]
            return measure(score, table.target, present, test[lane.evaluation])

        def chunk(counted):
            c, lanes = counted
            shapes = jax.eval_shape(jax.vmap(one), lanes)
            nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
            return jax.lax.cond(c < used, jax.vmap(one), lambda _: nothing, lanes)

        return jax.lax.map(chunk, (jnp.arange(lanes.words.shape[0], dtype=jnp.int32), lanes))

    everywhere, by_lane = PartitionSpec(), PartitionSpec(None, SETTINGS_AXIS)
    return jax.jit(
        jax.shard_map(
            local,
            mesh=mesh,
            in_specs=(everywhere,) * 6 + (by_lane,),
            out_specs=by_lane,
            axis_names={SETTINGS_AXIS},
            check_vma=False,
        )
    )


def _layout(group: Group, shape: Shape, fits: int, devices: int, memory_mb: float) -> _Layout:
    """Lanes within the memory budget, a multiple of the devices; with so many fits of a setting."""
    most = fits * int(np.max(np.unique(group.recipe.rounds, return_counts=True)[1]))
    each = lane_bytes(shape, group.recipe) * devices
    lanes = int(np.clip(memory_mb * 2**20 // each, 1, -(-most // devices)))
    chunks = -(-most // (lanes * devices))
    lanes = -(-most // (chunks * devices))
    return min(chunks, _LONGEST_BATCH), lanes * devices


def _batches(sweep: Sweep, number: int, group: Group, folds: int, size: int) -> Iterator[_Batch]:
    """The group's fits, T by T, at most `size` in a batch."""
    for rounds in np.unique(group.recipe.rounds):
        settings = np.flatnonzero(group.recipe.rounds == rounds)
        numbers = (settings, np.arange(folds), np.arange(sweep.repeats))
        fits = np.stack(np.meshgrid(*numbers, indexing="ij"), -1).reshape(-1, 3)
        for k, start in enumerate(range(0, len(fits), size)):
            part = fits[start : start + size]
            yield _Batch(f"{number:03d}-{int(rounds):04d}-{k:04d}", int(rounds), *part.T)


def _lanes(
    group: Group,
    batch: _Batch,
    words: np.ndarray,
    layout: _Layout,
    mesh: Mesh,
) -> tuple[_Lanes, int]:
    """The batch on the devices, filled up with its first fit; and how many chunks are in use."""
    count = len(batch.settings)
    fill = np.concatenate([np.arange(count), np.zeros(layout[0] * layout[1] - count, int)])

    def arranged(array):
        array = np.asarray(array)
        return place(array[fill].reshape(*layout, *array.shape[1:]), mesh, None, SETTINGS_AXIS)

    recipe = jax.tree.map(lambda leaf: arranged(leaf[batch.settings]), group.recipe)
    numbers = (words[group.places[batch.settings]], batch.evaluation, batch.repeat)
    return _Lanes(recipe, *(arranged(number.astype(np.uint32)) for number in numbers)), -(
        -count // layout[1]
    )


def run(
    sweep: Sweep,
    tasks: Sequence[Task],
    folder: Path,
    *,
    measure: Measure = error_rates,
    mesh: Mesh | None = None,
    memory_mb: float = MEMORY_MB,
    spare: int = 200_000,
    progress: Callable[[int], object] = lambda fits: None,
    about: Mapping[str, Any] | None = None,
) -> Report:
    """Fit every setting on every evaluation of every task, and leave one file of columns for each
    task.

    Run again on a folder that was begun, it does what is missing. With several processes
    (`jax.distributed`), all call this with the same arguments and a folder they share; the first
    writes. The first also reads or draws the secret of the fingerprints, and sends it to the
    others.

    No guarantee covers the files. The measured columns, test errors for example, are exact
    functions of the private rows, under keys that everybody can compute from the seed. Publishing
    errors on private rows is a release, and no ledger has a line for it. Beside those columns, only
    the keyed fingerprints in `sweep.json` depend on the rows.

    Args:
        sweep: the settings.
        tasks: tables with their evaluations, names distinct; the same number of evaluations is not
            required.
        folder: of the results.
        measure: from scores to the columns of the result.
        mesh: from `device_mesh`; all devices by default.
        memory_mb: working memory of the lanes on each device.
        spare: see `sweeps.common_shapes`.
        progress: called with the number of fits that a batch finished.
        about: provenance of the results; commit, versions and device by default. It must not change
            between runs.

    Raises:
        ValueError: if two tasks have one name, or the folder holds another sweep, or one begun
            otherwise (with other rows, for example), or `fingerprints.local_secret` refuses the
            secret's file. Neither fingerprints nor numbers of rows are shown.
    """
    mesh = device_mesh() if mesh is None else mesh
    about = provenance() if about is None else dict(about)
    names = [task.name for task in tasks]
    if len(set(names)) < len(names):
        raise ValueError(f"tasks need distinct names, got {names}")
    words = np.asarray([id_words(setting_id(setting)) for setting in sweep.settings])
    secret = shared_secret(folder)
    plan = {
        **sweep.definition(),
        "tasks": {task.name: _fingerprint(task, secret) for task in tasks},
        "measure": f"{measure.__module__}.{measure.__qualname__}",
        "lanes": {"memory_mb": memory_mb, "spare": spare, "devices": mesh.devices.shape},
        "about": about,
    }
    _claim(folder, plan)
    done = _done(folder, names)
    shapes = common_shapes([task.shape for task in tasks], spare)
    evaluate = _evaluator(measure, mesh)
    fits = found = programs = 0
    compile_seconds = run_seconds = memory = 0.0

    for shape in sorted(set(shapes.values())):
        members = together([task for task in tasks if shapes[task.shape] == shape], shape)
        compiled: dict[Any, Any] = {}
        work: dict[Any, list[tuple[Task, int, Group]]] = {}
        for task in members:
            for number, group in enumerate(groups(sweep, task)):
                work.setdefault(group.structure, []).append((task, number, group))
        for task, number, group in itertools.chain.from_iterable(work.values()):
            evaluations = len(task.train)
            fits_each = evaluations * sweep.repeats
            layout = _layout(group, shape, fits_each, mesh.shape[SETTINGS_AXIS], memory_mb)
            inputs = None
            for batch in _batches(sweep, number, group, evaluations, math.prod(layout)):
                if (task.name, batch.name) in done or (task.name, None) in done:
                    found += len(batch.settings)
                    progress(len(batch.settings))
                    continue
                inputs = _on_mesh(task, sweep.seed, mesh) if inputs is None else inputs
                lanes, used = _lanes(group, batch, words, layout, mesh)
                arguments = (*inputs, np.int32(batch.rounds), np.int32(used), lanes)
                signature = (group.structure, group.recipe.capacity, layout, evaluations)
                if signature not in compiled:
                    start = time.perf_counter()
                    compiled[signature] = evaluate.lower(*arguments).compile()
                    compile_seconds += time.perf_counter() - start
                    programs += 1
                    memory = max(
                        memory, compiled[signature].memory_analysis().temp_size_in_bytes / 2**20
                    )
                start = time.perf_counter()
                columns = {
                    name: gathered(column)
                    for name, column in compiled[signature](*arguments).items()
                }
                run_seconds += time.perf_counter() - start
                count = len(batch.settings)
                flat = {name: column.reshape(-1)[:count] for name, column in columns.items()}
                where = {
                    "setting": group.places[batch.settings],
                    "evaluation": batch.evaluation,
                    "repeat": batch.repeat,
                }
                if jax.process_index() == 0:
                    save_columns(
                        folder / "parts" / task.name / f"{batch.name}.npz", {**where, **flat}, {}
                    )
                fits += count
                progress(count)
    if jax.process_index() == 0:
        for task in tasks:
            if not (folder / f"{task.name}.npz").exists():
                _finish(sweep, task, folder, plan)
        shutil.rmtree(folder / "parts", ignore_errors=True)
    return Report(fits, found, programs, compile_seconds, run_seconds, memory)


def _on_mesh(task: Task, seed: int, mesh: Mesh) -> tuple:
    table = shard_rows(task.table, mesh)
    spare = table.target.shape[0] - task.train.shape[1]
    train, test = (
        place(np.pad(mask, ((0, 0), (0, spare))), mesh, None, ROWS_AXIS)
        for mask in (task.train, task.test)
    )
    key = jax.random.fold_in(jax.random.key(seed), word(task.name))
    return table, train, test, place(jax.random.key_data(key), mesh)


def gathered(array: Array) -> np.ndarray:
    """The whole array, on every process."""
    if jax.process_count() > 1:
        array = multihost_utils.process_allgather(array, tiled=True)
    return np.asarray(array)


def _fingerprint(task: Task, secret: bytes) -> str:
    """The keyed fingerprint of the table, the evaluations and the arguments."""
    arguments = json.dumps(dict(task.arguments), sort_keys=True, default=str)
    arrays = [*jax.tree.leaves(task.table), task.train, task.test]
    return fingerprint(secret, arguments, map(np.asarray, arrays))


def _claim(folder: Path, plan: dict) -> None:
    """Record the plan in the folder, or check that it is the one that was begun."""
    path, text = folder / "sweep.json", json.dumps(plan, sort_keys=True, indent=1) + "\n"
    if path.exists():
        begun, mine = json.loads(path.read_text()), json.loads(text)
        if changed := sorted(
            key for key in mine.keys() | begun.keys() if begun.get(key) != mine.get(key)
        ):
            key = changed[0]
            words = f"{key} was {begun.get(key)!r} and is {mine.get(key)!r}"
            if key == "tasks":
                words = _changed_tasks(begun.get(key), mine[key])
            raise ValueError(
                f"{folder} was begun otherwise: {words}; finish it as it was begun, or use another folder"
            )
    elif jax.process_index() == 0:
        if found := [*folder.glob("*.npz"), *folder.glob("parts/*/*.npz")]:
            raise ValueError(
                f"{folder} holds results ({found[0].name}) but no sweep.json to say of what; use another folder"
            )
        write_whole(path, lambda name: name.write_text(text))


def _changed_tasks(begun: Any, mine: Mapping[str, str]) -> str:
    """What is not as it was begun, in words that show no fingerprint."""
    begun = begun if isinstance(begun, Mapping) else {}
    if begun.keys() != mine.keys():
        return f"tasks were {sorted(begun)} and are {sorted(mine)}"
    names = sorted(name for name in mine if begun[name] != mine[name])
    return f"tasks {names} have other rows, evaluations or arguments, or the secret is another one"


def _done(folder: Path, names: Sequence[str]) -> set[tuple[str, str | None]]:
    """(task, batch) of every part, and (task, None) of every finished task; the same on all
    processes.
    """
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices("parts")
    done: set[tuple[str, str | None]] = {
        (name, None) for name in names if (folder / f"{name}.npz").exists()
    }
    for name in names:
        for path in (folder / "parts" / name).glob("*.npz"):
            if path.name.startswith("."):  # left by a kill
                path.unlink(missing_ok=True)
            else:
                done.add((name, path.stem))
    return done


def _finish(sweep: Sweep, task: Task, folder: Path, plan: Mapping) -> None:
    """Join a task's parts into its file, one row for each fit, in the order of settings,
    evaluations and repeats.
    """
    parts = [load_columns(path)[0] for path in sorted((folder / "parts" / task.name).glob("*.npz"))]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort((columns["repeat"], columns["evaluation"], columns["setting"]))
    columns = {name: column[order] for name, column in columns.items()}
    whole = np.indices((len(sweep.settings), len(task.train), sweep.repeats)).reshape(3, -1)
    if not all(
        np.array_equal(columns[k], v)
        for k, v in zip(("setting", "evaluation", "repeat"), whole, strict=True)
    ):
        raise ValueError(f"{folder}: the parts of {task.name} do not make up one fit of each kind")
    place_of = columns.pop("setting")
    settings = sweep.settings
    ids = np.asarray([setting_id(setting) for setting in settings])
    axes = {
        axis: _column([setting[axis] for setting in settings])[place_of] for axis in settings[0]
    }
    public = {key: value for key, value in plan.items() if key != "tasks"}
    about = {**public, "task": task.name, "arguments": dict(task.arguments)}
    save_columns(folder / f"{task.name}.npz", {"setting": ids[place_of], **axes, **columns}, about)


def _column(values: Sequence) -> np.ndarray:
    """Numbers as numbers; anything else, and mixtures, as text."""
    numbers = all(
        isinstance(value, int | float | np.number) and not isinstance(value, bool)
        for value in values
    )
    return np.asarray(values) if numbers else np.asarray([str(value) for value in values])
