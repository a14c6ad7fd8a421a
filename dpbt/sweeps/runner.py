"""Running a sweep: few programs, batches in a memory budget, all devices, and safe results.

Results lie in one folder. `sweep.json` says what is run. `parts/` holds a file for each finished
batch. `TASK.npz` is written when a task is complete and takes the place of its parts; it has one
row for each fit. Every file is renamed into place whole. A run that is killed thus loses at most
the batch it was in, and its resumption ends in the same bytes. A file that is cut off or damaged is
found, and its fits are run again. One run at a time works in a folder.

Tasks may hold private rows. `sweep.json` has a fingerprint of each, keyed with a secret that stays
with their owner (`fingerprints`). A run that resumes needs it to tell whether a table is another
one. `TASK.npz` has no fingerprint, so its bytes do not depend on the secret, and it does not have
the number of rows.
"""

import dataclasses
import functools
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jax.stages import Wrapped

from dpbt.base import AnyArray, Array, Recipe, Table
from dpbt.boosting import boost
from dpbt.checks import check_precision
from dpbt.privacy.keys import pair
from dpbt.sweeps import folders
from dpbt.sweeps.definition import Shape, Sweep, Task, checked_tasks, setting_id
from dpbt.sweeps.fingerprints import shared_secret
from dpbt.sweeps.meshes import (
    ROWS_AXIS,
    SETTINGS_AXIS,
    device_mesh,
    place,
    shard_rows,
)
from dpbt.sweeps.plan import (
    Group,
    common_shapes,
    groups,
    id_words,
    lane_bytes,
    together,
    word,
)
from dpbt.sweeps.programs import Programs, Tally, options
from dpbt.sweeps.storage import provenance, save_columns
from dpbt.validate import as_path, positive, shown

MEMORY_MB = 64
"""Default working memory of a program's lanes: about the size of a CPU's shared caches."""

THREADS = 2
"""How many structures are compiled and run side by side on one device, or batches of the only one.
"""

LEAST_LANES = 64
"""Fewest lanes of a chunk that is made so that two chunks run side by side."""

_LONGEST_BATCH = 64
"""The most chunks of lanes in a batch; a run that is killed loses at most one batch."""

Measure = Callable[[Array, Array, Array, Array], dict[str, Array]]
"""(score f32[N], target bool[N], trained bool[N], test bool[N]) -> name -> scalar: the columns."""


def error_rates(score: Array, target: Array, trained: Array, test: Array) -> dict[str, Array]:
    """Error rates of the score's sign on the test and training rows; 0 counts as negative."""
    wrong = (score > 0) != target

    def rate(mask: Array) -> Array:
        return jnp.sum(wrong & mask) / jnp.maximum(jnp.sum(mask), 1)

    return {"test_error": rate(test), "train_error": rate(trained)}


class Report(NamedTuple):
    """What a run did.

    Attributes:
        fits: the number of ensembles fitted now.
        reused: the number of ensembles that were in the folder already.
        programs: the number of compiled programs; each is compiled once.
        compile_seconds: seconds spent tracing and compiling, or reading the compilation cache, of
            all threads together.
        run_seconds: seconds spent fitting, of all threads together.
        memory_mb: the working memory of the largest program on one device, as its compiler plans
            it.
    """

    fits: int
    reused: int
    programs: int
    compile_seconds: float
    run_seconds: float
    memory_mb: float


class _Lanes(NamedTuple):
    """What differs between the fits of one batch; all arrays have leading axes [chunks, lanes].

    Attributes:
        recipe: the recipes, of one setting each.
        setting_bits: u32[chunks, lanes, 2], from `plan.id_words`.
        evaluation: u32[chunks, lanes].
        repeat: u32[chunks, lanes].
    """

    recipe: Recipe
    setting_bits: Array
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


def _fit_key(root: Array, lane: _Lanes) -> Array:
    """The key of one fit, from the task's."""
    key = root
    for number in (lane.setting_bits[0], lane.setting_bits[1], lane.evaluation, lane.repeat):
        key = jax.random.fold_in(key, number)
    return key


def _evaluator(measure: Measure, mesh: Mesh) -> Wrapped:
    """The program of one batch: `used` chunks of lanes in sequence, each spread over the mesh."""

    def local(
        table: Table,
        train: Array,
        test: Array,
        key: Array,
        rounds: Array,
        used: Array,
        lanes: _Lanes,
    ) -> dict[str, Array]:
        root = jax.random.wrap_key_data(key, impl="threefry2x32")

        # One lane is one fit.
        def evaluate(lane: _Lanes) -> dict[str, Array]:
            present = table.present & train[lane.evaluation]
            recipe = dataclasses.replace(lane.recipe, rounds=rounds)
            noise_key, public_key = pair(_fit_key(root, lane))
            score = boost(noise_key, table._replace(present=present), recipe, public_key).scores
            return measure(score, table.target, present, test[lane.evaluation])

        # The lanes of a chunk run side by side; chunks beyond `used` cost nothing. A jit
        # is traced once, for its shapes and for the branch.
        side_by_side = jax.jit(jax.vmap(evaluate))

        def evaluate_chunk(numbered: tuple[Array, _Lanes]) -> dict[str, Array]:
            chunk, lanes = numbered
            shapes = jax.eval_shape(side_by_side, lanes)
            zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
            return jax.lax.cond(chunk < used, side_by_side, lambda _: zeros, lanes)

        chunks = jnp.arange(lanes.repeat.shape[0], dtype=jnp.int32)
        return jax.lax.map(evaluate_chunk, (chunks, lanes))

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


def _layout(
    group: Group, lane: int, fits: int, devices: int, memory_mb: float, threads: int
) -> _Layout:
    """How many chunks a batch has, and how many lanes a chunk.

    Args:
        group: the settings.
        lane: the bytes of a lane, from `plan.lane_bytes`.
        fits: the number of fits of a setting.
        devices: the number of devices for settings; the lanes are a multiple of it.
        memory_mb: working memory of the lanes on each device.
        threads: how many batches run side by side.
    """
    # As many lanes as the memory holds, and no more than the most fits of one number of rounds.
    largest = fits * int(np.max(np.unique(group.recipe.rounds, return_counts=True)[1]))
    step_bytes = lane * devices
    lanes = int(np.clip(memory_mb * 2**20 // step_bytes, 1, -(-largest // devices)))

    # Chunks of equal length, so that few lanes of the last one are empty.
    chunks = -(-largest // (lanes * devices))
    if largest >= threads * LEAST_LANES:
        chunks = max(chunks, threads)
    lanes = -(-largest // (chunks * devices))
    return min(-(-chunks // threads), _LONGEST_BATCH), lanes * devices


def _batches(sweep: Sweep, number: int, group: Group, folds: int, size: int) -> Iterator[_Batch]:
    """The fits of a group by their number of rounds, at most `size` in a batch.

    Args:
        sweep: how many repeats a setting has.
        number: the number of the group among the task's, for the names of the batches.
        group: the settings.
        folds: the number of evaluations.
        size: the most fits in a batch.
    """
    for rounds in np.unique(group.recipe.rounds):
        # All fits: settings x evaluations x repeats.
        settings = np.flatnonzero(group.recipe.rounds == rounds)
        numbers = (settings, np.arange(folds), np.arange(sweep.repeats))
        fits = np.stack(np.meshgrid(*numbers, indexing="ij"), -1).reshape(-1, 3)

        # Cut into batches.
        for k, start in enumerate(range(0, len(fits), size)):
            part = fits[start : start + size]
            yield _Batch(f"{number:03d}-{int(rounds):04d}-{k:04d}", int(rounds), *part.T)


def _lanes(
    group: Group,
    batch: _Batch,
    setting_bits: np.ndarray,
    layout: _Layout,
    mesh: Mesh,
) -> tuple[_Lanes, int]:
    """The batch on the devices, filled up with its first fit, and the number of chunks in use."""
    count = len(batch.settings)
    fill = np.concatenate([np.arange(count), np.zeros(layout[0] * layout[1] - count, int)])

    def arranged(fits: AnyArray) -> Array:
        array = np.asarray(fits)
        return place(array[fill].reshape(*layout, *array.shape[1:]), mesh, None, SETTINGS_AXIS)

    recipe = jax.tree.map(lambda leaf: arranged(leaf[batch.settings]), group.recipe)
    numbers = (setting_bits[group.indices[batch.settings]], batch.evaluation, batch.repeat)
    lanes = _Lanes(recipe, *(arranged(number.astype(np.uint32)) for number in numbers))
    return lanes, -(-count // layout[1])


class _Run(NamedTuple):
    """What is the same for all groups of a run.

    Attributes:
        sweep: the settings.
        measure: makes the columns of the result.
        folder: the folder of the results.
        mesh: the devices.
        memory_mb: working memory of the lanes on each device.
        progress: called with the number of fits of each batch.
        setting_bits: u64[settings, 2], from `plan.id_words`.
        done: what the folder holds, from `folders.done`.
        tally: what the run has done so far.
        stopped: set when a thread fails, so that the others stop after their batch.
    """

    sweep: Sweep
    measure: Measure
    folder: Path
    mesh: Mesh
    memory_mb: float
    progress: Callable[[int], object]
    setting_bits: np.ndarray
    done: set[tuple[str, str | None]]
    tally: Tally
    stopped: threading.Event


def run(
    sweep: Sweep,
    tasks: Task | Sequence[Task],
    folder: str | Path,
    *,
    measure: Measure = error_rates,
    mesh: Mesh | None = None,
    memory_mb: float = MEMORY_MB,
    padding: int = 200_000,
    progress: Callable[[int], object] = lambda fits: None,
    about: Mapping[str, Any] | None = None,
) -> Report:
    """Fit every setting on every evaluation of every task; leave a file of columns for each task.

    A second run on the same folder does only what is missing. With several processes
    (`jax.distributed`), all call this with the same arguments and a folder they share; the first
    writes. The first also reads or draws the secret of the fingerprints, and sends it to the
    others.

    No guarantee covers the files. The measured columns, test errors for example, are exact
    functions of the private rows, under keys that everybody can compute from the seed. Publishing
    errors on private rows is a release, and no ledger has a line for it. Beside those columns, only
    the keyed fingerprints in `sweep.json` depend on the rows.

    Args:
        sweep: the settings.
        tasks: tables with their evaluations, one or several, with distinct names. Their numbers of
            evaluations may differ.
        folder: the folder of the results; a path or its text.
        measure: makes the columns of the result from scores.
        mesh: the devices, as `device_mesh` has them; all devices by default.
        memory_mb: working memory of the lanes of one program on each device. On a single device two
            programs run side by side.
        padding: see `plan.common_shapes`.
        progress: called with the number of fits that a batch finished, by one thread at a time. It
            may not be the caller's.
        about: provenance of the results; versions, commit and device by default. It must not change
            between runs.

    Raises:
        ValueError: naming the argument, for tasks or axes that do not fit, or a value that the
            recipe's maker refuses. Also if the folder holds another sweep, or one begun otherwise
            (with other rows, for example), if another run is at work in it, or
            `fingerprints.local_secret` refuses the secret's file. Neither fingerprints nor numbers
            of rows are shown.
        OSError: naming the file, if the disk does not take it. What was written before is kept.
    """
    # Check and plan everything before the folder is begun.
    check_precision()
    if not isinstance(sweep, Sweep):
        raise ValueError(f"sweep must be a sweeps.Sweep(...), got {type(sweep).__name__}")
    tasks, folder = checked_tasks(tasks), as_path("folder", folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"folder must be a folder for the results, and {folder} is a file")
    if not callable(measure) or not hasattr(measure, "__qualname__"):
        raise ValueError(f"measure must be a function, got {shown(measure)}")
    positive("memory_mb", memory_mb)
    shapes = common_shapes([task.shape for task in tasks], padding)
    groups_of = {task.name: groups(sweep, task) for task in tasks}
    mesh = device_mesh() if mesh is None else mesh
    about = provenance() if about is None else dict(about)

    # Record what is run, or check that the folder was begun with it. The flag jax_enable_x64 is off
    # in every run.
    plan = {
        **sweep.definition(),
        "tasks": folders.fingerprints(tasks, shared_secret(folder)),
        "measure": f"{measure.__module__}.{measure.__qualname__}",
        "lanes": {
            "memory_mb": memory_mb,
            "padding": padding,
            "devices": mesh.devices.shape,
            "threads": _threads_of(mesh),
        },
        "about": about,
    }
    with folders.held(folder):
        folders.claim(folder, plan)

        # Fit what is missing: tables of one padded shape together, as they share programs.
        tally, done = Tally(), folders.done(folder, list(groups_of))
        this = _Run(
            sweep,
            measure,
            folder,
            mesh,
            memory_mb,
            _one_at_a_time(progress),
            np.asarray([id_words(setting_id(setting)) for setting in sweep.settings]),
            done,
            tally,
            threading.Event(),
        )
        for shape in sorted(set(shapes.values())):
            members = together([task for task in tasks if shapes[task.shape] == shape], shape)
            _run_all(this, shape, _by_structure(members, groups_of))

        # Join the parts of each task into its file.
        folders.finish(sweep, tasks, folder, plan)
    return Report(**dataclasses.asdict(tally))


def _one_at_a_time(progress: Callable[[int], object]) -> Callable[[int], object]:
    """The same for several threads, one of which calls it at a time."""
    lock = threading.Lock()

    def locked(fits: int) -> None:
        with lock:
            progress(fits)

    return locked


_Piece = tuple[Task, int, Group]
"""(task, number of the group among the task's, group)."""


def _by_structure(
    tasks: Sequence[Task], groups_of: Mapping[str, Sequence[Group]]
) -> list[list[_Piece]]:
    """The groups of all tasks, those of one structure together."""
    found: dict[Any, list[_Piece]] = {}
    for task in tasks:
        for number, group in enumerate(groups_of[task.name]):
            found.setdefault(group.structure, []).append((task, number, group))
    return list(found.values())


def _run_all(this: _Run, shape: Shape, structures: Sequence[Sequence[_Piece]]) -> None:
    """Run the structures of one shape, each in a thread.

    Tracing holds one core and compiling not quite two, so one device has two threads. A structure
    that is alone has both for its batches. Several devices or processes have the caller's alone, as
    all must run the same programs in the same order. So has a caller with settings of JAX that
    other threads do not have.
    """
    alone = len(structures) == 1
    # Batches are cut for so many threads, also where the caller's settings allow one: a folder may
    # be gone on with by another caller.
    cut_for = _threads_of(this.mesh) if alone else 1
    run = functools.partial(_run_structure, this, shape, cut_for)
    _side_by_side(this, run, structures, 1 if alone else _threads_of(this.mesh))


def _threads_of(mesh: Mesh) -> int:
    """How many programs run side by side on the devices."""
    return 1 if mesh.size > 1 else THREADS


def _side_by_side(
    this: _Run, work: Callable[[Any], None], parts: Iterable[Any], threads: int
) -> None:
    """Call `work` with each part, in so many threads, or in the caller's if that is one.

    If a call fails, no other one begins, and `this.stopped` tells those that have begun.
    """
    if threads == 1 or _has_own_settings():
        for part in parts:
            work(part)
        return

    def work_or_stop(part: Any) -> None:
        try:
            work(part)
        except BaseException:
            this.stopped.set()
            raise

    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(work_or_stop, part) for part in parts]
        try:
            for part in running:
                part.result()
        except BaseException:
            this.stopped.set()
            pool.shutdown(cancel_futures=True)
            raise


def _has_own_settings() -> bool:
    """Whether a context such as `jax.debug_nans` holds in this thread alone."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: dict(jax.config.values)).result() != dict(jax.config.values)


def _run_structure(this: _Run, shape: Shape, threads: int, pieces: Sequence[_Piece]) -> None:
    """Fit the groups of one structure.

    A process can hold a few thousand pieces of compiled code only. So each structure gives its
    programs back, and the function that refers to them.

    Args:
        this: the run.
        shape: the shape that the tasks' tables are padded to.
        threads: how many of its batches run side by side.
        pieces: the groups.
    """
    if this.stopped.is_set():
        return
    lane = lane_bytes(shape, pieces[0][2].recipe)
    rounds = sum(
        len(task.train) * this.sweep.repeats * int(np.sum(group.recipe.rounds))
        for task, _, group in pieces
    )
    platform = this.mesh.devices.flat[0].platform
    evaluate = _evaluator(this.measure, this.mesh)
    programs = Programs(evaluate, this.tally, options(platform, float(lane) * rounds))
    for task, number, group in pieces:
        _run_group(this, programs, lane, threads, task, number, group)


def _run_group(
    this: _Run, programs: Programs, lane: int, threads: int, task: Task, number: int, group: Group
) -> None:
    """Fit the settings of a group on a task, and save each batch.

    Args:
        this: the run.
        programs: the programs of the group's structure.
        lane: the bytes of a lane.
        threads: how many batches run side by side.
        task: the padded task.
        number: the number of the group among the task's.
        group: the settings.
    """
    evaluations, devices = len(task.train), this.mesh.shape[SETTINGS_AXIS]
    fits = evaluations * this.sweep.repeats
    layout = _layout(group, lane, fits, devices, this.memory_mb, threads)

    # What an earlier run left, a batch or the whole task.
    missing = []
    for batch in _batches(this.sweep, number, group, evaluations, math.prod(layout)):
        if (task.name, batch.name) in this.done or (task.name, None) in this.done:
            this.tally.add(reused=len(batch.settings))
            this.progress(len(batch.settings))
        else:
            missing.append(batch)
    if not missing or this.stopped.is_set():
        return

    # Groups with one signature share a program.
    signature = (group.structure, group.recipe.capacity, layout, evaluations)
    inputs = _on_mesh(task, this.sweep.seed, this.mesh)

    def fit_and_save(batch: _Batch) -> None:
        if this.stopped.is_set():
            return
        lanes, used = _lanes(group, batch, this.setting_bits, layout, this.mesh)
        arguments = (*inputs, np.int32(batch.rounds), np.int32(used), lanes)
        columns = programs.run(signature, arguments)
        _save(this.folder, task, group, batch, columns)
        this.tally.add(fits=len(batch.settings))
        this.progress(len(batch.settings))

    _side_by_side(this, fit_and_save, missing, threads)


def _save(
    folder: Path, task: Task, group: Group, batch: _Batch, columns: Mapping[str, np.ndarray]
) -> None:
    """Write the columns of a batch, on the first process."""
    if jax.process_index() != 0:
        return
    count = len(batch.settings)
    ids = {
        "setting": group.indices[batch.settings],
        "evaluation": batch.evaluation,
        "repeat": batch.repeat,
    }
    measured = {name: column.reshape(-1)[:count] for name, column in columns.items()}
    path = folder / "parts" / task.name / f"{batch.name}.npz"
    save_columns(path, {**ids, **measured}, {})


def _on_mesh(task: Task, seed: int, mesh: Mesh) -> tuple[Table, Array, Array, Array]:
    """The table, the masks of trained and tested rows, and the task's key, on the mesh."""
    table = shard_rows(task.table, mesh)
    absent = table.target.shape[0] - task.train.shape[1]
    train, test = (
        place(np.pad(mask, ((0, 0), (0, absent))), mesh, None, ROWS_AXIS)
        for mask in (task.train, task.test)
    )
    key = jax.random.fold_in(jax.random.key(seed), word(task.name))
    return table, train, test, place(jax.random.key_data(key), mesh)
