"""Running a sweep: few programs, batches in a memory budget, and safe results.

Results lie in one folder, in a file for each task (`storage`). A run that is killed loses at most
the batches it was in, and its resumption ends in the same bytes. A line that is cut off or damaged
is found, and its fits are run again. One run at a time works in a folder.

The folder holds exact figures of the rows: errors, and lengths of tables. Where the rows are
private, keep it as they are kept. Nothing in it tells a table from another one of the same lengths,
so keep one folder for one table.
"""

import dataclasses
import functools
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.stages import Compiled, Wrapped

from dpbt.common.storage import held
from dpbt.common.types import Array, Recipe
from dpbt.common.validate import as_path, positive, shown
from dpbt.privacy.keys import pair
from dpbt.sweeps import storage
from dpbt.sweeps.plan import (
    Group,
    Sweep,
    Task,
    checked_tasks,
    groups,
    lane_bytes,
    setting_id,
    shape_of,
)
from dpbt.training.fit import OLDER_EMITTER, boost, may_choose
from dpbt.training.step import check_precision

MEMORY_MB = 64
"""Default working memory of a program's lanes: about the size of a CPU's shared caches."""

THREADS = 2
"""How many structures are compiled and run side by side, or batches of the only one.
Tracing holds one core and compiling not quite two.
"""

MIN_LANES = 64
"""Fewest lanes of a batch that is made so that two batches run side by side."""

QUICK_BYTES = 2.0**34
"""Programs that pass over less memory than this in a run are compiled quickly.

XLA's older emitter and its first level of optimization compile a program of a greedy tree in half
the processor time. The program then takes 1.2 to 2 times as long, so this pays for short runs.
Measured with lanes of 0.3 and 0.9 MB, a program loses in 15 to 24 GB what it saves in compiling.
The choice follows from the plan alone, so a run that is resumed compiles as it did before.
"""

_QUICKLY = {**OLDER_EMITTER, "xla_backend_optimization_level": 1}

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
        memory_mb: the working memory of the largest program, as its compiler plans it.
    """

    fits: int
    reused: int
    programs: int
    compile_seconds: float
    run_seconds: float
    memory_mb: float


def run(
    sweep: Sweep,
    tasks: Task | Sequence[Task],
    folder: str | Path,
    *,
    measure: Measure = error_rates,
    memory_mb: float = MEMORY_MB,
    progress: Callable[[int], object] = lambda fits: None,
    about: Mapping[str, Any] | None = None,
) -> Report:
    """Fit every setting on every evaluation of every task; leave a file of columns for each task.

    A second run on the same folder does only what is missing. It is refused if the sweep, the
    measure, `about`, or a task's name, lengths or arguments are others. It cannot tell other rows
    of the same lengths: keep one folder for one table.

    No guarantee covers the folder. The measured columns, test errors for example, are exact
    functions of the private rows, under keys that everybody can compute from the seed, and the
    files have the number of rows. Publishing errors on private rows is a release, and no ledger has
    a line for it.

    Args:
        sweep: the settings.
        tasks: tables with their evaluations, one or several, with distinct names. Their numbers of
            evaluations may differ.
        folder: the folder of the results; a path or its text.
        measure: makes the columns of the result from scores.
        memory_mb: working memory of the lanes of one program; two programs run side by side.
        progress: called with the number of fits that a batch finished, by one thread at a time. It
            may not be the caller's.
        about: provenance of the results; versions, commit and device by default. It must not change
            between runs.

    Raises:
        ValueError: naming the argument, for tasks or axes that do not fit, or a value that the
            recipe's maker refuses. Also if the folder holds another sweep, or one begun otherwise,
            or if another run is at work in it. No numbers of rows are shown.
        TypeError: if the maker does not take the axes and the arguments by their names.
        OSError: naming the file, if the disk does not take it. What was written before is kept.
    """
    # Check and plan everything before the folder is begun.
    check_precision()
    if not isinstance(sweep, Sweep):
        raise ValueError(f"sweep must be a sweeps.Sweep(...), got {type(sweep).__name__}")
    tasks, folder = checked_tasks(tasks), as_path("folder", folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"folder must be a folder for the results, and {folder} is a file")
    if not hasattr(measure, "__qualname__"):
        raise ValueError(f"measure must be a function, got {shown(measure)}")
    positive("memory_mb", memory_mb)
    about = storage.provenance() if about is None else about
    content = {"measure": f"{measure.__module__}.{measure.__qualname__}", "about": dict(about)}
    groups_of = [groups(sweep, task) for task in tasks]
    seconds: list[float] = []

    with held(folder):
        results = {task.name: storage.Results(folder, sweep, task, content) for task in tasks}
        reused = sum(int(result.done.sum()) for result in results.values())
        progress(reused)

        # Tables of one shape share programs.
        programs: dict[Any, _Program] = {}
        for task, own in zip(tasks, groups_of, strict=True):
            for group in own:
                place = shape_of(task.table), jax.tree.structure(task.table), group.structure
                if place not in programs:
                    programs[place] = _Program(sweep, measure)
                programs[place].pieces.append((task, group, results[task.name].done))

        def save(task: str, columns: Mapping[str, np.ndarray], taken: float) -> None:
            results[task].add(columns)
            seconds.append(taken)
            progress(len(columns["setting"]))

        _run_programs(list(programs.values()), memory_mb, save)
        for result in results.values():
            result.finish()
    compiled = [one for program in programs.values() for one in program.compiling]
    return Report(
        fits=sum(result.done.size for result in results.values()) - reused,
        reused=reused,
        programs=len(compiled),
        compile_seconds=sum(taken for taken, _ in compiled),
        run_seconds=sum(seconds),
        memory_mb=max((memory for _, memory in compiled), default=0.0),
    )


def _run_programs(
    programs: Sequence["_Program"], memory_mb: float, save: Callable[..., None]
) -> None:
    """Run programs, each in a thread; the batches of one that is alone have all threads.

    If one fails, no other one begins, and those that have begun end after their batch.

    Args:
        programs: what is run.
        memory_mb: working memory of the lanes.
        save: called with what a program returns, by one thread at a time.
    """
    lock, stopped = threading.Lock(), threading.Event()

    def work(program: _Program, batches: Iterable[_Batch]) -> None:
        check_precision()
        for batch in batches:
            if stopped.is_set():
                return
            found = program(batch)
            with lock:
                save(*found)

    parts = [(program, program.batches(memory_mb, 1)) for program in programs]
    if len(programs) == 1:
        parts = [(programs[0], [batch]) for batch in programs[0].batches(memory_mb, THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        calls = [pool.submit(work, *part) for part in parts]
        try:
            for call in as_completed(calls):
                call.result()
        except BaseException:
            stopped.set()
            raise


class _Batch(NamedTuple):
    """Fits of one dispatch, of one number of rounds.

    Attributes:
        task: the task.
        group: the settings.
        fits: i64[B, 3]: the place of its setting in the group, the evaluation and the repeat.
        lanes: how many fits its program takes; the first fit fills up the rest.
    """

    task: Task
    group: Group
    fits: np.ndarray
    lanes: int

    @property
    def numbers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The columns of `storage.FIT`."""
        setting, evaluation, repeat = self.fits.T
        return self.group.indices[setting], evaluation, repeat


class _Program:
    """The settings of one structure on tables of one shape, which share a program.

    Attributes:
        pieces: (task, group, the task's fits that are done).
        compiling: (seconds, MB) for each signature.
    """

    def __init__(self, sweep: Sweep, measure: Measure):
        self.pieces: list[tuple[Task, Group, np.ndarray]] = []
        self.compiling: list[tuple[float, float]] = []
        self._sweep, self._evaluate = sweep, _evaluator(measure)
        ids = map(setting_id, sweep.settings)  # 48 bits each, as two numbers
        self._ids = np.asarray([(int(each[:6], 16), int(each[6:], 16)) for each in ids])
        self._compiled: dict[Any, Compiled] = {}
        self._lock = threading.Lock()

    def batches(self, memory_mb: float, threads: int) -> Iterator[_Batch]:
        """The batches that are missing, cut for so many threads.

        Compiled code is given back at the end, as a process can hold a few thousand pieces only.
        """
        repeats = self._sweep.repeats
        for task, group, done in self.pieces:
            counts = np.unique(group.recipe.rounds, return_counts=True)[1]
            lanes = self._lanes(len(task.train) * repeats * int(max(counts)), memory_mb, threads)
            for rounds in np.unique(group.recipe.rounds):
                settings = np.flatnonzero(group.recipe.rounds == rounds)
                numbers = settings, np.arange(len(task.train)), np.arange(repeats)
                fits = np.stack(np.meshgrid(*numbers, indexing="ij"), -1).reshape(-1, 3)
                for start in range(0, len(fits), lanes):
                    batch = _Batch(task, group, fits[start : start + lanes], lanes)
                    if not done[batch.numbers].all():
                        yield batch
        self._compiled.clear()

    @functools.cached_property
    def _lane(self) -> int:
        """The bytes of a lane."""
        return lane_bytes(self.pieces[0][0].table, self.pieces[0][1].recipe)

    def _lanes(self, largest: int, memory_mb: float, threads: int) -> int:
        """How many lanes a batch has, if the most fits of one number of rounds are `largest`.

        As many as the memory holds. Batches are of equal length, so that few lanes of the last one
        are empty.
        """
        most = memory_mb * 2**20 // self._lane
        batches = -(-largest // int(np.clip(most, 1, largest)))
        if largest >= threads * MIN_LANES:
            batches = max(batches, threads)
        return -(-largest // batches)

    def __call__(self, batch: _Batch) -> tuple[str, dict[str, np.ndarray], float]:
        """The name of the task, the columns of the batch, and the seconds that it took."""
        task, group, fits, lanes = batch
        setting, *places = fits[np.where(np.arange(lanes) < len(fits), np.arange(lanes), 0)].T
        recipes = jax.tree.map(lambda leaf: leaf[setting], group.recipe)
        words = np.column_stack([self._ids[group.indices[setting]], *places]).astype(np.uint32)
        name = zlib.crc32(task.name.encode()) & 0x7FFFFFFF
        key = jax.random.fold_in(jax.random.key(self._sweep.seed), name)
        rounds = np.int32(group.recipe.rounds[fits[0, 0]])
        shared = task.table, task.train, task.test, jax.random.key_data(key), rounds
        arguments = shared, recipes, words

        signature = group.recipe.capacity, lanes, task.train.shape
        with self._lock:
            if signature not in self._compiled:
                self._compiled[signature] = self._compile(arguments)
            program = self._compiled[signature]
        start = time.perf_counter()
        columns = jax.tree.map(np.asarray, program(*arguments))
        columns = {name: column[: len(fits)] for name, column in columns.items()}
        numbers = dict(zip(storage.FIT, batch.numbers, strict=True))
        return task.name, {**numbers, **columns}, time.perf_counter() - start

    def _compile(self, arguments: Sequence[Any]) -> Compiled:
        start = time.perf_counter()
        rounds = sum(len(task.train) * np.sum(own.recipe.rounds) for task, own, _ in self.pieces)
        passed_bytes = float(self._lane) * float(rounds) * self._sweep.repeats
        quick = passed_bytes < QUICK_BYTES and may_choose()
        program = self._evaluate.lower(*arguments).compile(_QUICKLY if quick else None)
        planned: Any = program.memory_analysis()
        memory = planned.temp_size_in_bytes / 2**20
        self.compiling.append((time.perf_counter() - start, memory))
        return program


def _evaluator(measure: Measure) -> Wrapped:
    """The program of one batch: its lanes side by side."""

    def batch(shared: tuple, recipes: Recipe, words: Array) -> dict[str, Array]:
        table, train, test, key, rounds = shared

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

    return jax.jit(batch)
