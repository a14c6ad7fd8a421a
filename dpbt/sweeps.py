"""Sweeps: grids of settings over tables, as data, and their runs in few programs.

A sweep names its axes. Some axes change the program (a depth, or "objective" instead of a number);
others only its input (an epsilon, a fraction, a number of rounds). The plan finds out which by
building the recipe of each setting and comparing static parts. Tables of one shape share programs.
The key of a fit depends only on the seed, the setting, the task and the evaluation, whatever the
order of axes and batches.

Results lie in one folder, in a file of lines for each task. The first line says what is run on
which task, and each further line has the columns of one batch of fits, after a checksum. Batches
are appended to `TASK.part`, which becomes `TASK.jsonl` once all fits are there. A run that
is killed loses at most the batches it was in, and its resumption ends in the same bytes. A line
that is cut off or damaged is found, and its fits are run again. One run at a time has a folder.

The folder holds exact figures of the rows: errors, and lengths of tables. Where the rows are
private, keep it as they are kept. Nothing in it tells a table from another one of the same lengths,
so keep one folder for one table.
"""

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import platform
import subprocess
import threading
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from jax.stages import Compiled, Wrapped

import dpbt
from dpbt.common.storage import lock_folder, name_in_errors, remove_leftovers, write_whole
from dpbt.common.validate import as_path, check_interval, check_whole_number, show_value
from dpbt.data import domains
from dpbt.privacy.flags import check_flags
from dpbt.privacy.keys import pair, research_key
from dpbt.public_types import redacted_repr
from dpbt.training import step
from dpbt.training.fit import OLDER_EMITTER, boost, may_choose_compiler_options
from dpbt.types import BINARY, Array, Hypothesis, Recipe, Table, program_of_numbers

__all__ = ["Report", "Sweep", "Task", "load_columns", "run"]

# Settings and tasks.

Value = str | int | float | bool
Setting = Mapping[str, Value]
Block = Mapping[str, tuple[Value, ...]]

RecipeMaker = Callable[..., Recipe]
"""(**axes, **task arguments) -> a recipe."""


def shape_of_table(table: Table) -> tuple[int, ...]:
    """Lengths of a table: N rows, F features, S splits, A attributes; 0 splits of exact numbers."""
    splits = table.splits
    asked = (0, 0) if splits is None else (len(splits.feature), len(splits.attribute))
    return *table.bins.shape, *asked


class Task(NamedTuple):
    """A table, and the rows that each evaluation trains and tests on.

    Attributes:
        name: of its files, and of its keys. It is a file name: no slashes, no leading dot.
        table: N rows, host or device arrays.
        train: bool[F, N], the rows to train on in each of F evaluations, such as folds.
        test: bool[F, N], the rows to test on.
        arguments: what the recipe's maker needs to know of the table, such as its public `rows`.
            Where an evaluation has more than `rows` rows to train on, only the first `rows` count
            (`step.mask_beyond_rows`).
    """

    name: str
    table: Table
    train: np.ndarray
    test: np.ndarray
    arguments: Mapping[str, Any]

    __repr__ = redacted_repr


def checked_tasks(tasks: Task | Sequence[Task]) -> list[Task]:
    """The tasks as a list; one task stands for a list of it.

    Raises:
        ValueError: for no tasks, a name that two tasks share, or a field of another kind. A field
            in the place of another one may be private, so at most its type is shown.
    """
    listed = [tasks] if isinstance(tasks, Task) else list(tasks)
    for task in listed:
        if not isinstance(task, Task) or not isinstance(task.arguments, Mapping):
            raise ValueError("tasks must hold sweeps.Task(...), each with a dict of arguments")
        _check_file_name("a task", task.name)
        step.check_table(task.table)
        if str(task.table.target.dtype) != BINARY.dtype or task.table.weight is not None:
            raise ValueError(f"task {task.name!r}: sweeps take two classes, and no weights")
        rows = np.shape(task.table.target)
        masks = [np.asarray(task.train), np.asarray(task.test)]
        lines = len(masks[0]) if masks[0].ndim else 0
        if not lines or any(mask.dtype != bool or mask.shape != (lines, *rows) for mask in masks):
            raise ValueError(f"train and test of task {task.name!r} must be bool[F, N]")
    names = [task.name for task in listed]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"tasks must hold at least one task, of distinct names, got {names}")
    return listed


def _check_file_name(owner: str, name: Any) -> None:
    """Refuse what is no file name; of anything but a text, its type alone is shown."""
    if not isinstance(name, str) or name[:1] in ("", ".") or set(name) & set("/\\\0"):
        given = repr(name) if isinstance(name, str) else type(name).__name__
        raise ValueError(f"name of {owner} must be a file name without slashes, got {given}")


def _check_values(values: Any) -> tuple[Any, ...]:
    """The entries of a list, an array or an iterator; anything else stands for a tuple of it."""
    if not isinstance(values, Iterable) or isinstance(values, str | Mapping):
        values = (values,)
    return tuple(value.item() if hasattr(value, "item") else value for value in values)


def _checked_blocks(blocks: Any) -> tuple[Block, ...]:
    """The blocks as a tuple of dicts of tuples of plain values.

    Raises:
        ValueError: for something that is no block, or blocks with different axes. Also naming an
            axis without values, or with one of another kind.
    """
    listed = _check_values(blocks)
    axes = [sorted(block) if isinstance(block, Mapping) else None for block in listed]
    if not axes or None in axes or axes.count(axes[0]) < len(axes):
        raise ValueError(
            f"blocks must be dicts axis -> values of the same axes, got {show_value(axes)}"
        )
    made = tuple(
        {axis: _check_values(values) for axis, values in block.items()} for block in listed
    )
    for axis, values in itertools.chain(*(block.items() for block in made)):
        if not values or not all(isinstance(value, Value) for value in values):
            raise ValueError(f"axis {axis!r} must hold at least one number, text or Boolean")
    return made


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Settings, as data: the products of blocks of named axes, one block after the other.

    Attributes:
        name: which the results hold. It is a file name: no slashes, no leading dot.
        make: the maker of recipes, which is called with one value for each axis. It is a
            module-level function, so that its name can be recorded.
        blocks: axis -> values, for each block; all have the same axes. Values are numbers, texts or
            Booleans. One block may be given without a tuple, and so may one value.
        repeats: the number of keys for each setting and evaluation.
        seed: the seed of all keys, in 0..2^32 - 1.

    Raises:
        ValueError: naming the argument, for an axis without values, blocks with different axes, a
            setting that occurs twice, or an argument of another kind.
    """

    name: str
    make: RecipeMaker
    blocks: tuple[Block, ...]
    repeats: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        _check_file_name("a sweep", self.name)
        if not hasattr(self.make, "__qualname__"):
            raise ValueError(
                f"make must be a function that makes recipes, got {show_value(self.make)}"
            )
        seed = check_interval("seed", self.seed, f"[0, {2**32 - 1}]", whole=True)
        object.__setattr__(self, "seed", int(seed))
        object.__setattr__(self, "repeats", check_whole_number("repeats", self.repeats))
        object.__setattr__(self, "blocks", _checked_blocks(self.blocks))

        if len(set(map(setting_id, self.settings))) < len(self.settings):
            raise ValueError("a setting occurs twice")

    @property
    def settings(self) -> list[dict[str, Value]]:
        """All settings, in order."""
        return settings_of(self.blocks)

    def definition(self) -> dict:
        """The sweep as JSON content."""
        make = f"{self.make.__module__}.{self.make.__qualname__}"
        return json.loads(json.dumps({**vars(self), "make": make}))


def settings_of(blocks: Sequence[Block]) -> list[dict[str, Value]]:
    """The products of blocks, one block after the other."""
    return [
        dict(zip(block, values, strict=True))
        for block in blocks
        for values in itertools.product(*block.values())
    ]


def setting_id(setting: Setting) -> str:
    """12 hexadecimal digits that name a setting, whatever the order of its axes."""
    plain = {axis: _check_values(value)[0] for axis, value in setting.items()}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:12]


class Group(NamedTuple):
    """Settings that share a program, sorted by their rounds.

    Attributes:
        structure: what they share. Two groups have equal structures if and only if one program
            serves both, on tables of one shape.
        recipe: their recipes, every leaf with a leading axis [K].
        indices: i64[K], their places in `Sweep.settings`.
    """

    structure: Any
    recipe: Recipe
    indices: np.ndarray


def group_settings(sweep: Sweep, task: Task) -> list[Group]:
    """The settings in as few groups as their static parts allow; every setting is in one of them.

    Raises:
        ValueError: if the maker does not return the recipe of one setting, as the maker, and for a
            recipe that cannot learn from the table (`step.check_run`).
        TypeError: if the maker does not take the axes and the arguments by their names.
    """
    members: dict[Any, list[tuple[Recipe, int]]] = {}
    for index, setting in enumerate(sweep.settings):
        recipe = sweep.make(**setting, **task.arguments)
        if not isinstance(recipe, Recipe) or np.ndim(recipe.rounds):
            raise ValueError(
                f"make must return the recipe of one setting, got {type(recipe).__name__}"
            )
        # A program depends on all static parts but the domain, which is compared here, and the room
        # for rounds; and on shapes of numbers.
        domains.check_same_domain(
            task.table.domain, recipe.domain, f"task {task.name!r}", "the recipe"
        )
        recipe = step.without_domain(recipe)
        bare = dataclasses.replace(recipe, capacity=2**31 - 1)
        structure = program_of_numbers(bare)
        if structure not in members:
            step.check_run(task.table, recipe)
        members.setdefault(structure, []).append((recipe, index))

    # A group has room for the most rounds of its settings.
    found = []
    for structure, own in members.items():
        own.sort(key=lambda member: int(member[0].rounds))
        capacity = max(recipe.capacity for recipe, _ in own)
        roomy = [dataclasses.replace(recipe, capacity=capacity) for recipe, _ in own]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *roomy)
        found.append(Group(structure, stacked, np.asarray([index for _, index in own])))
    return found


def lane_bytes(table: Table, recipe: Recipe) -> int:
    """About how many bytes one fit takes, by the widest part of its hypothesis.

    The recipe is that of a `Group`, with a leading axis of settings.
    """

    def hypothesis(table: Table, setting: Recipe) -> Hypothesis:
        context, asked = step.first_round_draw_specs(setting, table)
        release = {site: jnp.zeros_like(spec.output) for site, spec in asked.items()}
        return step.hypothesis_and_bound_of_round(setting, release, context.public, None)[0]

    setting = jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], recipe)
    found = jax.eval_shape(hypothesis, table, setting)
    width = max(leaf.shape[-1] for leaf in jax.tree.leaves(found) if leaf.shape)
    rows, *others = shape_of_table(table)
    return (
        rows * (width + 32 + 2 * step.num_cached_structures(recipe, rows))
        + 24 * max(others) * width
    )


# Results.

FIT = ("setting", "evaluation", "repeat")
"""The columns that number a fit."""


def provenance() -> dict[str, str]:
    """Version and commit of dpbt, version of JAX, and device of this run.

    The commit is "unknown" unless the folder that holds the package is a checkout.
    """
    root, device = Path(dpbt.__file__).resolve().parent.parent, jax.devices()[0]
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


def _parse_line(content: Mapping[str, Any]) -> bytes:
    """Content as JSON on one line, after its checksum."""
    text = json.dumps(content, default=str).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _is_intact(line: bytes) -> bool:
    """Whether a line is whole."""
    return line == b"%08x %s" % (zlib.crc32(line[9:-1]), line[9:])


def _domain_as_json(table: Table) -> dict[str, Any] | None:
    """The domain of a table as a head has it, with the ends of ranges as floats; None without."""

    def as_json(kind: domains.Column) -> dict[str, Any]:
        ends = {end: float(getattr(kind, end)) for end in ("low", "high") if hasattr(kind, end)}
        return msgspec.to_builtins(kind) | ends

    if table.domain is None:
        return None
    return {str(name): as_json(kind) for name, kind in table.domain.items()}


def _check_domain(begun: bytes, table: Table, path: Path) -> None:
    """Refuse a table of another domain than the one that a head names.

    Raises:
        ValueError: naming the first difference.
    """
    if not _is_intact(begun):
        return
    known = json.loads(begun[9:]).get("domain")
    if known is not None:
        domain = msgspec.convert(known, dict[str, domains.Column])
        domains.check_same_domain(table.domain, domain, "the task", str(path))


def load_columns(path: str | Path) -> tuple[dict[str, np.ndarray], dict]:
    """(columns, about) of a task's results; a part of them while they are not complete.

    The columns are `setting` (an id), the axes, `evaluation`, `repeat` and what was measured. They
    have an entry for each fit, by setting, evaluation and repeat.

    Raises:
        ValueError: naming the file, if it is damaged, holds no fits, or `run` did not write it.
        OSError: if the file cannot be read.
    """
    path = as_path("path", path)
    first, *lines = path.read_bytes().splitlines(keepends=True) or [b""]
    if not _is_intact(first) or not all(map(_is_intact, lines)) or not lines:
        raise ValueError(f"{path}: not the results of dpbt.sweeps.run, without fits, or damaged")
    about, *parts = (json.loads(line[9:]) for line in (first, *lines))
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    # Each fit once: runs with other batches fit some again.
    numbers = np.stack([found.pop(name) for name in FIT])
    (setting, evaluation, repeat), kept = np.unique(numbers, axis=1, return_index=True)
    settings = settings_of(about["blocks"])
    ids = np.asarray([setting_id(each) for each in settings])
    fits: dict[str, np.ndarray] = {"setting": ids[setting]}
    for axis in settings[0]:
        values = [each[axis] for each in settings]
        if any(isinstance(value, str | bool) for value in values):
            values = list(map(str, values))
        fits[axis] = np.asarray(values)[setting]
    fits |= {"evaluation": evaluation, "repeat": repeat}
    return {**fits, **{name: column[kept] for name, column in found.items()}}, about


class Results:
    """The results of a task in a folder that nobody else is at work in.

    Lines that a kill cut off, or that are damaged, are left out with a warning: their fits are run
    again.

    Attributes:
        done: bool[settings, evaluations, repeats], the fits that the folder holds.

    Raises:
        ValueError: if the file was begun with another content, such as a table of another domain,
            whose first difference is named. No number of rows is shown.
    """

    def __init__(self, folder: Path, sweep: Sweep, task: Task, about: Mapping[str, Any]):
        self._part, self._whole = folder / f"{task.name}.part", folder / f"{task.name}.jsonl"
        lengths = {"shape": shape_of_table(task.table), "masks": np.shape(task.train)}
        own = {"task": task.name, "arguments": dict(task.arguments), **lengths}
        own["domain"] = _domain_as_json(task.table)
        self._first = _parse_line({**sweep.definition(), **about, **own})
        self.done = np.zeros((len(sweep.settings), len(task.train), sweep.repeats), bool)
        remove_leftovers(folder, "*")
        path = self._whole if self._whole.exists() else self._part
        found = path.read_bytes() if path.exists() else b""
        begun, *lines = found.splitlines(keepends=True) or [b""]
        if begun not in (b"", self._first):
            _check_domain(begun, task.table, path)
            raise ValueError(f"{path} was begun otherwise; finish it so, or use another folder")
        self._lines = [line for line in lines if _is_intact(line)]
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
        line = _parse_line({name: np.asarray(column).tolist() for name, column in columns.items()})
        with name_in_errors(self._part), open(self._part, "ab") as file:
            file.write(line)
        self._lines.append(line)

    def finish(self) -> None:
        """Give the file its name."""
        if self._part.exists():
            self._write(self._whole)
            self._part.unlink()


# Runs.

MEMORY_MB = 64
"""Default working memory of a program's lanes: about the size of a CPU's shared caches."""

THREADS = 2
"""How many structures are compiled and run side by side, or batches of the only one."""

MIN_LANES = 64
"""Fewest lanes of a batch that is made so that two batches run side by side."""

QUICK_BYTES = 2.0**34
"""Programs that pass over less memory than this in a run are compiled quickly.

That takes half the processor time, and the program takes 1.2 to 2 times as long. It loses in 15 to
24 GB what it saves in compiling. The choice follows from the plan alone, so a run that is resumed
compiles as it did before.
"""

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
    """

    fits: int
    reused: int
    programs: int


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
    check_flags()
    if not isinstance(sweep, Sweep):
        raise ValueError(f"sweep must be a sweeps.Sweep(...), got {type(sweep).__name__}")
    tasks, folder = checked_tasks(tasks), as_path("folder", folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"folder must be a folder for the results, and {folder} is a file")
    if not hasattr(measure, "__qualname__"):
        raise ValueError(f"measure must be a function, got {show_value(measure)}")
    check_interval("memory_mb", memory_mb, "(0, inf]")
    about = provenance() if about is None else about
    groups_of = [group_settings(sweep, task) for task in tasks]
    content = {"measure": f"{measure.__module__}.{measure.__qualname__}", "about": dict(about)}

    with lock_folder(folder):
        results = {task.name: Results(folder, sweep, task, content) for task in tasks}
        reused = sum(int(result.done.sum()) for result in results.values())
        progress(reused)

        # Tables of one shape share programs, whatever their domains.
        tasks = [task._replace(table=step.without_domain(task.table)) for task in tasks]
        programs: dict[Any, _Program] = {}
        for task, own in zip(tasks, groups_of, strict=True):
            for group in own:
                place = shape_of_table(task.table), jax.tree.structure(task.table), group.structure
                if place not in programs:
                    programs[place] = _Program(sweep, measure)
                programs[place].pieces.append((task, group, results[task.name].done))

        def save(task: str, columns: Mapping[str, np.ndarray]) -> None:
            results[task].add(columns)
            progress(len(columns["setting"]))

        _run_programs(list(programs.values()), memory_mb, save)
        for result in results.values():
            result.finish()
    fits = sum(result.done.size for result in results.values()) - reused
    made = sum(program.compiled for program in programs.values())
    return Report(fits, reused, made)


def _run_programs(
    programs: Sequence["_Program"], memory_mb: float, save: Callable[..., None]
) -> None:
    """Run programs, each in a thread; the batches of one that is alone have all threads.

    If one fails, no other one begins, and those that have begun end after their batch. `save` is
    called with what a program returns, by one thread at a time.
    """
    lock, stopped = threading.Lock(), threading.Event()

    def work(program: _Program, batches: Iterable[_Batch]) -> None:
        check_flags()
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
        """The columns of `FIT`."""
        setting, evaluation, repeat = self.fits.T
        return self.group.indices[setting], evaluation, repeat


class _Program:
    """The settings of one structure on tables of one shape, which share a program.

    Attributes:
        pieces: (task, group, the task's fits that are done).
        compiled: how many signatures of it were compiled.
    """

    def __init__(self, sweep: Sweep, measure: Measure):
        self.pieces: list[tuple[Task, Group, np.ndarray]] = []
        self.compiled = 0
        self._sweep, self._evaluate = sweep, _evaluator(measure)
        ids = map(setting_id, sweep.settings)  # 48 bits each, as two numbers
        self._ids = np.asarray([(int(each[:6], 16), int(each[6:], 16)) for each in ids])
        self._compiled: dict[Any, Compiled] = {}
        self._lock = threading.Lock()

    def batches(self, memory_mb: float, threads: int) -> Iterator[_Batch]:
        """The batches that are missing, cut for the memory and for so many threads.

        Compiled code is given back at the end, as a process can hold a few thousand pieces only.
        """
        repeats = self._sweep.repeats
        for task, group, done in self.pieces:
            counts = np.unique(group.recipe.rounds, return_counts=True)[1]
            largest = len(task.train) * repeats * int(max(counts))
            most = int(np.clip(memory_mb * 2**20 // self._lane, 1, largest))
            parts = max(-(-largest // most), threads if largest >= threads * MIN_LANES else 1)
            lanes = -(-largest // parts)  # of equal length, so that few of the last batch are empty
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
        return lane_bytes(self.pieces[0][0].table, self.pieces[0][1].recipe)

    def __call__(self, batch: _Batch) -> tuple[str, dict[str, np.ndarray]]:
        """The name of the task, and the columns of the batch."""
        task, group, fits, lanes = batch
        setting, *places = fits[np.where(np.arange(lanes) < len(fits), np.arange(lanes), 0)].T
        recipes = jax.tree.map(lambda leaf: leaf[setting], group.recipe)
        words = np.column_stack([self._ids[group.indices[setting]], *places]).astype(np.uint32)
        name = zlib.crc32(task.name.encode()) & 0x7FFFFFFF
        key = jax.random.fold_in(research_key(self._sweep.seed), name)
        rounds = np.int32(group.recipe.rounds[fits[0, 0]])
        shared = task.table, task.train, task.test, jax.random.key_data(key), rounds
        arguments = shared, recipes, words

        signature = group.recipe.capacity, lanes, task.train.shape
        with self._lock:
            if signature not in self._compiled:
                self._compiled[signature] = self._compile(arguments)
            program = self._compiled[signature]
        columns = jax.tree.map(np.asarray, program(*arguments))
        columns = {name: column[: len(fits)] for name, column in columns.items()}
        return task.name, {**dict(zip(FIT, batch.numbers, strict=True)), **columns}

    def _compile(self, arguments: Sequence[Any]) -> Compiled:
        rounds = sum(len(task.train) * np.sum(own.recipe.rounds) for task, own, _ in self.pieces)
        passed_bytes = float(self._lane) * float(rounds) * self._sweep.repeats
        quick = passed_bytes < QUICK_BYTES and may_choose_compiler_options()
        options = {**OLDER_EMITTER, "xla_backend_optimization_level": 1} if quick else None
        self.compiled += 1
        return self._evaluate.lower(*arguments).compile(options)


def _evaluator(measure: Measure) -> Wrapped:
    """The program of one batch: its lanes side by side."""

    def evaluate(shared: tuple, recipe: Recipe, words: Array) -> dict[str, Array]:
        table, train, test, key, rounds = shared
        fit_key = jax.random.wrap_key_data(key, impl="threefry2x32")
        for number in words:
            fit_key = jax.random.fold_in(fit_key, number)
        noise_key, public_key = pair(fit_key)

        evaluation = words[2]
        present = table.present & train[evaluation]
        recipe = dataclasses.replace(recipe, rounds=rounds)
        score = boost(noise_key, table._replace(present=present), recipe, public_key).scores
        return measure(score, table.target, present, test[evaluation])

    return jax.jit(jax.vmap(evaluate, in_axes=(None, 0, 0)))
