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

import contextlib
import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jax.stages import Compiled, Wrapped

from dpbt.base import Array, Recipe, Table
from dpbt.privacy.keys import pair
from dpbt.sweeps import storage
from dpbt.sweeps.definition import Sweep, Task, checked_tasks, setting_id
from dpbt.sweeps.fingerprints import shared_secret
from dpbt.sweeps.meshes import (
    ROWS_AXIS,
    SETTINGS_AXIS,
    device_mesh,
    gathered,
    place,
    shard_rows,
)
from dpbt.sweeps.plan import Group, common_shapes, groups, id_words, lane_bytes, together, word
from dpbt.training import compiling
from dpbt.training.boosting import boost
from dpbt.training.checks import check_precision
from dpbt.validate import as_path, positive, shown

MEMORY_MB = 64
"""Default working memory of a program's lanes: about the size of a CPU's shared caches."""

THREADS = 2
"""How many structures are compiled and run side by side on one device, or batches of the only one.
"""

MIN_LANES = 64
"""Fewest lanes of a batch that is made so that two batches run side by side."""

QUICK_BYTES = 2.0**34
"""Programs that pass over less memory than this in a run are compiled quickly; see `options`."""

_QUICKLY = compiling.OLDER_EMITTER | {"xla_backend_optimization_level": 1}

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


class _Batch(NamedTuple):
    """The fits of one dispatch: all are of one number of rounds.

    Attributes:
        name: of its file.
        rounds: of each fit.
        fits: i64[B, 3]: the place of its setting in the group, the evaluation and the repeat.
    """

    name: str
    rounds: int
    fits: np.ndarray


def _batches(sweep: Sweep, number: int, group: Group, folds: int, lanes: int) -> Iterator[_Batch]:
    """The fits of a group by their number of rounds, at most `lanes` in a batch.

    Args:
        sweep: how many repeats a setting has.
        number: the number of the group among the task's, for the names of the batches.
        group: the settings.
        folds: the number of evaluations.
        lanes: the most fits in a batch.
    """
    for rounds in np.unique(group.recipe.rounds):
        settings = np.flatnonzero(group.recipe.rounds == rounds)
        numbers = (settings, np.arange(folds), np.arange(sweep.repeats))
        fits = np.stack(np.meshgrid(*numbers, indexing="ij"), -1).reshape(-1, 3)
        for k, start in enumerate(range(0, len(fits), lanes)):
            name = f"{number:03d}-{int(rounds):04d}-{k:04d}"
            yield _Batch(name, int(rounds), fits[start : start + lanes])


def _lanes_of(
    group: Group, lane: int, fits: int, devices: int, memory_mb: float, threads: int
) -> int:
    """How many lanes a batch has.

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
    lanes = int(np.clip(memory_mb * 2**20 // (lane * devices), 1, -(-largest // devices)))

    # Batches of equal length, so that few lanes of the last one are empty.
    batches = -(-largest // (lanes * devices))
    if largest >= threads * MIN_LANES:
        batches = max(batches, threads)
    return -(-largest // (batches * devices)) * devices


def _evaluator(measure: Measure, mesh: Mesh) -> Wrapped:
    """The program of one batch: its lanes side by side, spread over the mesh."""

    def local(
        table: Table,
        train: Array,
        test: Array,
        key: Array,
        rounds: Array,
        recipes: Recipe,
        words: Array,
    ) -> dict[str, Array]:
        def evaluate(recipe: Recipe, words: Array) -> dict[str, Array]:
            fit_key = jax.random.wrap_key_data(key, impl="threefry2x32")
            for number in words:
                fit_key = jax.random.fold_in(fit_key, number)
            noise_key, public_key = pair(fit_key)

            evaluation = words[2]
            present = table.present & train[evaluation]
            recipe = dataclasses.replace(recipe, rounds=rounds)
            score = boost(noise_key, table._replace(present=present), recipe, public_key).scores
            return measure(score, table.target, present, test[evaluation])

        return jax.vmap(evaluate)(recipes, words)

    everywhere, by_lane = PartitionSpec(), PartitionSpec(SETTINGS_AXIS)
    return jax.jit(
        jax.shard_map(
            local,
            mesh=mesh,
            in_specs=(everywhere,) * 5 + (by_lane,) * 2,
            out_specs=by_lane,
            axis_names={SETTINGS_AXIS},
            check_vma=False,
        )
    )


def options(platform: str, passed_bytes: float) -> dict[str, Any] | None:
    """The compiler's options for a program; None for its defaults.

    XLA's older emitter and its first level of optimization compile a program of a greedy tree in
    half the processor time. The program then takes 1.2 to 2 times as long, so this pays for short
    runs. Measured with lanes of 0.3 and 0.9 MB, a program loses in 15 to 24 GB what it saves in
    compiling.

    The choice follows from the plan alone, so a run that is resumed compiles as it did before.

    Args:
        platform: the platform of the devices, such as "cpu".
        passed_bytes: the bytes of a lane times the rounds of all fits of the program.
    """
    quick = passed_bytes < QUICK_BYTES and compiling.may_choose(platform)
    return _QUICKLY if quick else None


@dataclasses.dataclass
class _Run:
    """What is the same for all groups of a run; threads share it.

    Attributes:
        sweep: the settings.
        measure: makes the columns of the result.
        folder: the folder of the results.
        mesh: the devices.
        memory_mb: working memory of the lanes on each device.
        progress: called with the number of fits of each batch.
        done: what the folder holds, from `storage.done`.
        counted: what the run has done so far: the sums of the report's fields.
        memory: the MB of each program.
        stopped: set when a thread fails, so that the others stop after their batch.
        lock: of all that threads write.
    """

    sweep: Sweep
    measure: Measure
    folder: Path
    mesh: Mesh
    memory_mb: float
    progress: Callable[[int], object]
    done: set[tuple[str, str | None]]
    counted: Counter[str] = dataclasses.field(default_factory=Counter)
    memory: list[float] = dataclasses.field(default_factory=list)
    stopped: threading.Event = dataclasses.field(default_factory=threading.Event)
    lock: threading.RLock = dataclasses.field(default_factory=threading.RLock)

    def count(self, name: str, amount: float) -> None:
        """Add to a field of the report, and tell of fits."""
        with self.lock:
            self.counted[name] += amount  # type: ignore[assignment]
            if name in ("fits", "reused"):
                self.progress(int(amount))

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """A scope whose seconds are added to a field of the report."""
        start = time.perf_counter()
        yield
        self.count(name, time.perf_counter() - start)

    @property
    def threads(self) -> int:
        """How many programs run side by side.

        Tracing holds one core and compiling not quite two, so one device has two threads. Several
        devices or processes have the caller's alone, as all must run the same programs in the same
        order.
        """
        return 1 if self.mesh.size > 1 else THREADS


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
    this = _Run(sweep, measure, folder, mesh, memory_mb, progress, set())

    # Record what is run, or check that the folder was begun with it. The flag jax_enable_x64 is off
    # in every run.
    plan = {
        **sweep.definition(),
        "tasks": storage.fingerprints(tasks, shared_secret(folder)),
        "measure": f"{measure.__module__}.{measure.__qualname__}",
        "lanes": {
            "memory_mb": memory_mb,
            "padding": padding,
            "devices": mesh.devices.shape,
            "threads": this.threads,
        },
        "about": storage.provenance() if about is None else dict(about),
    }
    with storage.held(folder):
        storage.claim(folder, plan)
        this.done = storage.done(folder, list(groups_of))

        # Fit what is missing: tables of one padded shape together, as they share programs.
        for shape in sorted(set(shapes.values())):
            structures: dict[Any, list[_Piece]] = {}
            for task in together([task for task in tasks if shapes[task.shape] == shape], shape):
                for number, group in enumerate(groups_of[task.name]):
                    structures.setdefault(group.structure, []).append((task, number, group))
            _run_structures(this, list(structures.values()))
        storage.finish(sweep, tasks, folder, plan)
    counted: Any = {name: this.counted[name] for name in Report._fields[:-1]}
    return Report(**counted, memory_mb=max(this.memory, default=0.0))


_Piece = tuple[Task, int, Group]
"""(padded task, number of the group among the task's, group)."""


def _run_structures(this: _Run, structures: Sequence[Sequence[_Piece]]) -> None:
    """Run the structures of one shape, each in a thread; one that is alone has all threads.

    Batches are cut for so many threads, also where the caller's settings allow one: a folder may be
    gone on with by another caller.
    """
    alone = len(structures) == 1

    def run_structure(pieces: Sequence[_Piece]) -> None:
        _run_structure(this, this.threads if alone else 1, pieces)

    _side_by_side(this, run_structure, structures, 1 if alone else this.threads)


def _side_by_side(
    this: _Run, work: Callable[[Any], None], parts: Iterable[Any], threads: int
) -> None:
    """Call `work` with each part, in so many threads, or in the caller's if that is one.

    So is it for a caller with settings of JAX that other threads do not have. If a call fails, no
    other one begins, and `this.stopped` tells those that have begun.
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
        try:
            list(pool.map(work_or_stop, parts))
        except BaseException:
            this.stopped.set()
            raise


def _has_own_settings() -> bool:
    """Whether a context such as `jax.debug_nans` holds in this thread alone."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: dict(jax.config.values)).result() != dict(jax.config.values)


def _run_structure(this: _Run, threads: int, pieces: Sequence[_Piece]) -> None:
    """Fit the groups of one structure, and save each batch.

    A process can hold a few thousand pieces of compiled code only. So each structure gives its
    programs back, and the function that refers to them.

    Args:
        this: the run.
        threads: how many of its batches run side by side.
        pieces: the groups.
    """
    if this.stopped.is_set():
        return
    task, _, group = pieces[0]
    lane = lane_bytes(task.table, group.recipe)
    rounds = this.sweep.repeats * sum(
        len(task.train) * int(np.sum(group.recipe.rounds)) for task, _, group in pieces
    )
    platform = this.mesh.devices.flat[0].platform
    asked = options(platform, float(lane) * rounds)
    evaluate, lock = _evaluator(this.measure, this.mesh), threading.Lock()
    compiled: dict[Any, Compiled] = {}

    def columns_of(signature: Any, arguments: tuple) -> dict[str, np.ndarray]:
        """The columns of a batch. Batches of one signature share a program."""
        with lock:
            if signature not in compiled:
                with this.timed("compile_seconds"):
                    program = evaluate.lower(*arguments).compile(asked)
                planned = program.memory_analysis()
                assert planned is not None
                this.memory.append(planned.temp_size_in_bytes / 2**20)
                this.count("programs", 1)
                compiled[signature] = program
        with this.timed("run_seconds"):
            columns = compiled[signature](*arguments)
            return {name: gathered(column) for name, column in columns.items()}

    for piece in pieces:
        _run_group(this, columns_of, lane, threads, piece)


def _run_group(
    this: _Run,
    columns_of: Callable[[Any, tuple], dict[str, np.ndarray]],
    lane: int,
    threads: int,
    piece: _Piece,
) -> None:
    """Fit the settings of a group on a task, and save each batch.

    Args:
        this: the run.
        columns_of: (signature, arguments) -> the columns of a batch.
        lane: the bytes of a lane.
        threads: how many batches run side by side.
        piece: the padded task, and the group.
    """
    task, number, group = piece
    evaluations, devices = len(task.train), this.mesh.shape[SETTINGS_AXIS]
    fits = evaluations * this.sweep.repeats
    lanes = _lanes_of(group, lane, fits, devices, this.memory_mb, threads)

    # What an earlier run left, a batch or the whole task.
    missing = []
    for batch in _batches(this.sweep, number, group, evaluations, lanes):
        if {(task.name, batch.name), (task.name, None)} & this.done:
            this.count("reused", len(batch.fits))
        else:
            missing.append(batch)
    if not missing or this.stopped.is_set():
        return

    signature = (group.recipe.capacity, lanes, evaluations)
    inputs = _on_mesh(task, this.sweep.seed, this.mesh)
    settings = this.sweep.settings
    ids = np.asarray([id_words(setting_id(settings[index])) for index in group.indices])

    def fit_and_save(batch: _Batch) -> None:
        if this.stopped.is_set():
            return

        # The batch is filled up with its first fit.
        own = np.where(np.arange(lanes) < len(batch.fits), np.arange(lanes), 0)
        setting, evaluation, repeat = batch.fits[own].T
        numbers = np.stack([*ids[setting].T, evaluation, repeat], axis=1).astype(np.uint32)
        recipes, words = jax.tree.map(
            lambda array: place(array, this.mesh, SETTINGS_AXIS),
            (jax.tree.map(lambda leaf: leaf[setting], group.recipe), numbers),
        )
        columns = columns_of(signature, (*inputs, np.int32(batch.rounds), recipes, words))
        _save(this.folder, task, group, batch, columns)
        this.count("fits", len(batch.fits))

    _side_by_side(this, fit_and_save, missing, threads)


def _save(
    folder: Path, task: Task, group: Group, batch: _Batch, columns: Mapping[str, np.ndarray]
) -> None:
    """Write the columns of a batch, on the first process."""
    if jax.process_index() != 0:
        return
    setting, evaluation, repeat = batch.fits.T
    ids = {"setting": group.indices[setting], "evaluation": evaluation, "repeat": repeat}
    measured = {name: column[: len(setting)] for name, column in columns.items()}
    storage.save_columns(storage.part(folder, task.name, batch.name), {**ids, **measured}, {})


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
