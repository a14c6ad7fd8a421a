"""Batches of fits: how they are cut for the memory, and the program that runs them."""

import dataclasses
import functools
import threading
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.stages import Compiled, Wrapped

from dpbt.common.compilation import OLDER_EMITTER, may_choose_compiler_options
from dpbt.common.validate import check_interval, show_value
from dpbt.privacy.keys import pair, research_key
from dpbt.sweeps.grid import Setting, Sweep, Task, setting_id
from dpbt.sweeps.groups import Group, estimate_lane_bytes, make_recipe
from dpbt.sweeps.measures import FinishedFit, SplitMeasures, as_numpy_fit, merge_columns
from dpbt.sweeps.results import FIT
from dpbt.training.boost import Boosted, boost
from dpbt.training.table_preparation import without_domain
from dpbt.types import Array, Recipe, Table

MIN_LANES = 64
"""The smallest batch that is cut so that two batches run side by side."""

QUICK_BYTES = 2.0**34
"""Programs that pass over less memory than this in a run are compiled quickly.

That takes half the processor time, and the program takes 1.2 to 2 times as long. It loses in 15 to
24 GB what it saves in compiling. The choice follows from the plan alone, so a run that is resumed
compiles as it did before.
"""


class FitNumbers(NamedTuple):
    """The numbers of the setting, the evaluation and the repeat of some fits.

    They are the columns of `FIT`.

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
        """The numbers of settings, evaluations and repeats that the fits have."""
        place, evaluation, repeat = self.fits.T
        return FitNumbers(self.group.indices[place], evaluation=evaluation, repeat=repeat)


class BatchResult(NamedTuple):
    """The columns that the measures of a batch have of its fits.

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
    """The inputs that all fits of a batch share.

    Attributes:
        table: N rows.
        train: bool[E, N].
        test: bool[E, N].
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


class LaneResult(NamedTuple):
    """The measured columns of one lane of a batch, and its fit.

    Attributes:
        columns: what measures of scores say.
        boosted: the fit for measures of whole fits; None without any.
    """

    columns: dict[str, Any]
    boosted: Boosted | None


class GroupProgram:
    """A program that runs settings of one structure on tables of one shape.

    Attributes:
        num_compiled: how many signatures of it were compiled.
    """

    def __init__(self, sweep: Sweep, measures: SplitMeasures):
        self.num_compiled = 0
        self._sweep = sweep
        self._measures = measures
        self._run_lanes = _program_of_side_by_side_fits(measures)
        self._id_words = np.asarray(
            [_key_words_of_setting_id(setting_id(each)) for each in sweep.settings]
        )
        self._groups_on_tasks: list[_GroupOnTask] = []
        self._compiled: dict[Any, Compiled] = {}
        self._lock = threading.Lock()

    def add_group(self, task: Task, group: Group, is_done: np.ndarray) -> None:
        """Add a group's settings on a task to what the program runs, but for fits that are done."""
        self._groups_on_tasks.append(_GroupOnTask(task=task, group=group, done=is_done))

    def iter_missing_batches(self, memory_mb: float, num_threads: int) -> Iterator[Batch]:
        """Iterate over the batches that are missing, cut for the memory and the number of threads.

        Compiled code is dropped at the end, as a process can hold only a few thousand programs.
        """
        for group_on_task in self._groups_on_tasks:
            yield from self._iter_missing_batches_of_group(group_on_task, memory_mb, num_threads)
        self._compiled.clear()

    def _iter_missing_batches_of_group(
        self, group_on_task: _GroupOnTask, memory_mb: float, num_threads: int
    ) -> Iterator[Batch]:
        task, group, is_done = group_on_task
        num_evaluations = len(task.train)
        repeats = self._sweep.repeats
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
        """Choose the number of lanes of a batch, so that few lanes of the last batch are empty."""
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
        """Run the fits of a batch, and return the columns that its measures have of them.

        The program is compiled for its first batch of a signature.
        """
        inputs = self._program_inputs(batch)
        signature = batch.group.recipe.max_rounds, batch.num_lanes, batch.task.train.shape
        with self._lock:
            if signature not in self._compiled:
                self._compiled[signature] = self._compile(inputs)
            program = self._compiled[signature]
        result = jax.tree.map(lambda array: np.asarray(array)[: len(batch.fits)], program(*inputs))
        host_columns = self._measure_whole_fits(batch, inputs, result.boosted)
        measured = merge_columns([result.columns, host_columns])
        if taken := measured.keys() & {*FIT, *self._sweep.settings[0]}:
            raise ValueError(f"a measure has the columns {sorted(taken)}, which number the fits")
        return BatchResult(task=batch.task.name, columns={**batch.numbers._asdict(), **measured})

    def _measure_whole_fits(
        self, batch: Batch, inputs: ProgramInputs, boosted: Boosted | None
    ) -> dict[str, np.ndarray]:
        """Measure the whole fits of a batch one by one, and stack their columns to [B, ...]."""
        if boosted is None:
            return {}
        fits = []
        for lane, (place, evaluation, repeat) in enumerate(batch.fits):
            recipe = jax.tree.map(lambda leaf, place=place: leaf[place], batch.group.recipe)
            fit = FinishedFit(
                boosted=jax.tree.map(lambda array, lane=lane: array[lane], boosted),
                table=_training_table(batch.task, evaluation),
                test=batch.task.test[evaluation],
                recipe=recipe,
                setting=self._sweep.settings[batch.group.indices[place]],
                evaluation=int(evaluation),
                repeat=int(repeat),
            )
            numpy_fit = as_numpy_fit(fit, int(batch.group.max_rounds[place]))
            fits.append(merge_columns(measure(numpy_fit) for measure in self._measures.of_fits))
        return {name: np.stack([columns[name] for columns in fits]) for name in fits[0]}

    def _program_inputs(self, batch: Batch) -> ProgramInputs:
        """Gather the inputs of the program that runs a batch."""
        task, group, fits, num_lanes = batch
        lanes = np.arange(num_lanes)
        place, *numbers = fits[np.where(lanes < len(fits), lanes, 0)].T
        key_words = np.column_stack([self._id_words[group.indices[place]], *numbers])
        task_key = _task_key(self._sweep, task.name)
        shared_inputs = SharedInputs(
            table=without_domain(task.table),
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


def _key_words_of_setting_id(setting_digits: str) -> tuple[int, int]:
    """Split the 48 bits of a setting's id into two words, which its key is derived from."""
    return int(setting_digits[:6], 16), int(setting_digits[6:], 16)


def _task_key(sweep: Sweep, task_name: str) -> Array:
    """The key of a task, which the keys of its fits are derived from."""
    task_word = zlib.crc32(task_name.encode()) & 0x7FFFFFFF
    return jax.random.fold_in(research_key(sweep.seed), task_word)


def _training_table(task: Task, evaluation: int) -> Table:
    """The table of a task in which the training rows of one evaluation are present."""
    present = np.asarray(task.table.present) & np.asarray(task.train[evaluation])
    return task.table._replace(present=present)


def _program_of_side_by_side_fits(measures: SplitMeasures) -> Wrapped:
    """Make the program that fits the lanes of a batch side by side, and measures each fit."""

    def fit_and_measure(shared: SharedInputs, recipe: Recipe, words: Array) -> LaneResult:
        task_key = jax.random.wrap_key_data(shared.key_words, impl="threefry2x32")
        noise_key, public_key = pair(_fold_in_each_word(task_key, words))

        evaluation = words[2]
        table = shared.table
        present = table.present & shared.train[evaluation]
        recipe = dataclasses.replace(recipe, rounds=shared.rounds)
        boosted = boost(noise_key, table._replace(present=present), recipe, public_key)
        test = shared.test[evaluation]
        columns = merge_columns(
            measure(boosted.scores, table.target, present, test) for measure in measures.of_scores
        )
        return LaneResult(columns, boosted if measures.of_fits else None)

    return jax.jit(jax.vmap(fit_and_measure, in_axes=(None, 0, 0)))


def _fold_in_each_word(key: Array, words: Any) -> Array:
    """Fold words into a key, one after the other."""
    for word in words:
        key = jax.random.fold_in(key, word)
    return key


# One fit again.


def key(
    sweep: Sweep, task: Task | str, setting: Setting | str, *, evaluation: int, repeat: int = 0
) -> Array:
    """The research key of one fit of a sweep.

    Its noise is drawn from `dpbt.keys.pair(key).noise`, and its public structure from
    `dpbt.keys.pair(key).public`. The key depends on the seed of the sweep and on these arguments
    alone, so everybody who knows them can compute it, and no release may use it.

    Args:
        sweep: the settings.
        task: the task, or its name.
        setting: the value of each axis, or the id of the setting, as the column `setting` has it.
        evaluation: the number of the evaluation, from 0.
        repeat: the number of the repeat, from 0.

    Raises:
        ValueError: naming the argument, for a setting or a repeat that the sweep does not have, and
            for an evaluation that the task does not have.
    """
    numbers = {"evaluation": evaluation, "repeat": repeat}
    ends = {"repeat": sweep.repeats - 1}
    if isinstance(task, Task):
        ends["evaluation"] = len(task.train) - 1
    for name, number in numbers.items():
        limits = f"[0, {ends.get(name, 2**31 - 1)}]"
        numbers[name] = int(check_interval(name, number, limits, whole_numbers=True))
    digits = setting_id(find_setting(sweep, setting))
    task_key = _task_key(sweep, task.name if isinstance(task, Task) else task)
    words = *_key_words_of_setting_id(digits), numbers["evaluation"], numbers["repeat"]
    return _fold_in_each_word(task_key, words)


def find_setting(sweep: Sweep, setting: Setting | str) -> Setting:
    """Find the setting of a sweep by its values or by its id.

    Raises:
        ValueError: if the sweep has no such setting.
    """
    digits = setting if isinstance(setting, str) else setting_id(setting)
    for each in sweep.settings:
        if setting_id(each) == digits:
            return each
    raise ValueError(f"setting must be one of the sweep {sweep.name!r}, got {show_value(setting)}")


def repeat_fit(
    sweep: Sweep, task: Task, setting: Setting | str, *, evaluation: int, repeat: int = 0
) -> FinishedFit:
    """Run one fit of a sweep again, alone, and get the same result bit for bit.

    The transcript, the hypotheses and the scores are the same. The result is what a measure of
    whole fits is called with, and its `model()` predicts other rows. It is of private rows and is
    not itself private.

    Args:
        sweep: the settings.
        task: the task.
        setting: as `key`.
        evaluation: as `key`.
        repeat: as `key`.

    Raises:
        ValueError: as `key`, and as `dpbt.boost`.
        TypeError: if the maker does not take the axes and the arguments by their names.
    """
    noise_key, public_key = pair(key(sweep, task, setting, evaluation=evaluation, repeat=repeat))
    setting = find_setting(sweep, setting)
    recipe = make_recipe(sweep, task, setting)
    table = _training_table(task, evaluation)
    fit = FinishedFit(
        boosted=boost(noise_key, without_domain(table), recipe, public_key),
        table=table,
        test=task.test[evaluation],
        recipe=recipe,
        setting=setting,
        evaluation=evaluation,
        repeat=repeat,
    )
    return as_numpy_fit(fit, recipe.max_rounds)
