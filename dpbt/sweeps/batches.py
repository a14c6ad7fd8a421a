"""Batches of fits: how they are cut for the memory, and the program that runs them."""

import dataclasses
import functools
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.stages import Compiled, Wrapped

from dpbt.common.compilation import OLDER_EMITTER, may_choose_compiler_options
from dpbt.privacy.keys import pair, research_key
from dpbt.sweeps.grid import Sweep, Task, setting_id
from dpbt.sweeps.groups import Group, estimate_lane_bytes
from dpbt.sweeps.results import FIT
from dpbt.training.boost import boost
from dpbt.types import Array, Recipe, Table

MIN_LANES = 64
"""The smallest batch that is cut so that two batches run side by side."""

QUICK_BYTES = 2.0**34
"""Programs that pass over less memory than this in a run are compiled quickly.

That takes half the processor time, and the program takes 1.2 to 2 times as long. It loses in 15 to
24 GB what it saves in compiling. The choice follows from the plan alone, so a run that is resumed
compiles as it did before.
"""

Measure = Callable[[Array, Array, Array, Array], dict[str, Array]]
"""(score f32[N], target bool[N], trained bool[N], test bool[N]) -> name -> scalar: the columns."""


class FitNumbers(NamedTuple):
    """The columns of `FIT` for some fits.

    Attributes:
        setting: i64[B], places in `Sweep.settings`.
        evaluation: i64[B].
        repeat: i64[B].
    """

    setting: np.ndarray
    evaluation: np.ndarray
    repeat: np.ndarray


class Batch(NamedTuple):
    """Fits of one dispatch, of one number of rounds.

    Attributes:
        task: the task.
        group: the settings.
        fits: i64[B, 3]: the place of its setting in the group, the evaluation and the repeat.
        num_lanes: how many fits its program takes; the first fit fills up the other lanes.
    """

    task: Task
    group: Group
    fits: np.ndarray
    num_lanes: int

    @property
    def numbers(self) -> FitNumbers:
        """The numbers of the fits."""
        place, evaluation, repeat = self.fits.T
        return FitNumbers(self.group.indices[place], evaluation=evaluation, repeat=repeat)


class BatchResult(NamedTuple):
    """What a batch measured.

    Attributes:
        task: the name of its task.
        columns: name -> [B], those of `FIT` among them.
    """

    task: str
    columns: dict[str, np.ndarray]


class _GroupOnTask(NamedTuple):
    """The settings of a program on one task.

    Attributes:
        task: the task.
        group: the settings.
        done: bool[settings, evaluations, repeats], the task's fits that are done.
    """

    task: Task
    group: Group
    done: np.ndarray


class SharedInputs(NamedTuple):
    """What all fits of a batch read.

    Attributes:
        table: N rows.
        train: bool[F, N].
        test: bool[F, N].
        key_words: the words of the task's key.
        rounds: i32[].
    """

    table: Table
    train: Any
    test: Any
    key_words: Any
    rounds: Any


class ProgramInputs(NamedTuple):
    """The inputs of the program that runs a batch.

    Attributes:
        shared: what all lanes read.
        recipes: the recipe of each lane, with an axis for lanes.
        key_words: u32[lanes, 4], the words that the key of each lane is derived from.
    """

    shared: SharedInputs
    recipes: Recipe
    key_words: np.ndarray


class GroupProgram:
    """The settings of one structure on tables of one shape, which share a program.

    Attributes:
        num_compiled: how many signatures of it were compiled.
    """

    def __init__(self, sweep: Sweep, measure: Measure):
        self.num_compiled = 0
        self._sweep, self._run_lanes = sweep, _program_of_side_by_side_fits(measure)
        ids = [setting_id(setting) for setting in sweep.settings]
        # An id has 48 bits, which are two words of a key.
        self._id_words = np.asarray([(int(digits[:6], 16), int(digits[6:], 16)) for digits in ids])
        self._groups_on_tasks: list[_GroupOnTask] = []
        self._compiled: dict[Any, Compiled] = {}
        self._lock = threading.Lock()

    def add_group(self, task: Task, group: Group, is_done: np.ndarray) -> None:
        """Let the program run the settings of a group on a task, but for fits that are done."""
        self._groups_on_tasks.append(_GroupOnTask(task=task, group=group, done=is_done))

    def iter_missing_batches(self, memory_mb: float, num_threads: int) -> Iterator[Batch]:
        """The batches that are missing, cut for the memory and for so many threads.

        Compiled code is dropped at the end, as a process can hold only a few thousand programs.
        """
        for group_on_task in self._groups_on_tasks:
            yield from self._iter_missing_batches_of_group(group_on_task, memory_mb, num_threads)
        self._compiled.clear()

    def _iter_missing_batches_of_group(
        self, group_on_task: _GroupOnTask, memory_mb: float, num_threads: int
    ) -> Iterator[Batch]:
        task, group, is_done = group_on_task
        num_evaluations, repeats = len(task.train), self._sweep.repeats
        settings_by_rounds = np.unique(group.recipe.rounds, return_counts=True)[1]
        num_lanes = self._choose_num_lanes(
            num_fits=num_evaluations * repeats * int(max(settings_by_rounds)),
            memory_mb=memory_mb,
            num_threads=num_threads,
        )
        for rounds in np.unique(group.recipe.rounds):
            places = np.flatnonzero(group.recipe.rounds == rounds)
            axes = places, np.arange(num_evaluations), np.arange(repeats)
            fits = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
            for start in range(0, len(fits), num_lanes):
                batch = Batch(task, group, fits[start : start + num_lanes], num_lanes)
                if not is_done[batch.numbers].all():
                    yield batch

    def _choose_num_lanes(self, *, num_fits: int, memory_mb: float, num_threads: int) -> int:
        """The lanes of a batch: of equal length, so that few of the last batch are empty."""
        max_lanes = int(np.clip(memory_mb * 2**20 // self._lane_bytes, 1, num_fits))
        min_batches = num_threads if num_fits >= num_threads * MIN_LANES else 1
        num_batches = max(-(-num_fits // max_lanes), min_batches)
        return -(-num_fits // num_batches)

    @functools.cached_property
    def _lane_bytes(self) -> int:
        return estimate_lane_bytes(
            self._groups_on_tasks[0].task.table, self._groups_on_tasks[0].group.recipe
        )

    def run_batch(self, batch: Batch) -> BatchResult:
        """Run the fits of a batch; the program is compiled for its first one of a signature."""
        inputs = self._program_inputs(batch)
        signature = batch.group.recipe.max_rounds, batch.num_lanes, batch.task.train.shape
        with self._lock:
            if signature not in self._compiled:
                self._compiled[signature] = self._compile(inputs)
            program = self._compiled[signature]
        measured = jax.tree.map(np.asarray, program(*inputs))
        return BatchResult(
            task=batch.task.name,
            columns={
                **dict(zip(FIT, batch.numbers, strict=True)),
                **{name: column[: len(batch.fits)] for name, column in measured.items()},
            },
        )

    def _program_inputs(self, batch: Batch) -> ProgramInputs:
        """The inputs of the program that runs a batch."""
        task, group, fits, num_lanes = batch
        lanes = np.arange(num_lanes)
        place, *numbers = fits[np.where(lanes < len(fits), lanes, 0)].T
        key_words = np.column_stack([self._id_words[group.indices[place]], *numbers])
        task_word = zlib.crc32(task.name.encode()) & 0x7FFFFFFF
        task_key = jax.random.fold_in(research_key(self._sweep.seed), task_word)
        shared_inputs = SharedInputs(
            table=task.table,
            train=task.train,
            test=task.test,
            key_words=jax.random.key_data(task_key),
            rounds=np.int32(group.recipe.rounds[fits[0, 0]]),
        )
        recipes = jax.tree.map(lambda leaf: leaf[place], group.recipe)
        return ProgramInputs(shared_inputs, recipes, key_words.astype(np.uint32))

    def _compile(self, inputs: ProgramInputs) -> Compiled:
        rounds = sum(
            len(group_on_task.task.train) * np.sum(group_on_task.group.recipe.rounds)
            for group_on_task in self._groups_on_tasks
        )
        passed_bytes = float(self._lane_bytes) * float(rounds) * self._sweep.repeats
        is_quick = passed_bytes < QUICK_BYTES and may_choose_compiler_options()
        options = {**OLDER_EMITTER, "xla_backend_optimization_level": 1} if is_quick else None
        self.num_compiled += 1
        return self._run_lanes.lower(*inputs).compile(options)


def _program_of_side_by_side_fits(measure: Measure) -> Wrapped:
    """The program of one batch: its fits side by side, each of them measured."""

    def fit_and_measure(shared: SharedInputs, recipe: Recipe, words: Array) -> dict[str, Array]:
        fit_key = jax.random.wrap_key_data(shared.key_words, impl="threefry2x32")
        for word in words:
            fit_key = jax.random.fold_in(fit_key, word)
        noise_key, public_key = pair(fit_key)

        evaluation, table = words[2], shared.table
        present = table.present & shared.train[evaluation]
        recipe = dataclasses.replace(recipe, rounds=shared.rounds)
        score = boost(noise_key, table._replace(present=present), recipe, public_key).scores
        return measure(score, table.target, present, shared.test[evaluation])

    return jax.jit(jax.vmap(fit_and_measure, in_axes=(None, 0, 0)))
