"""Sweeps and tasks: what is asked for, checked where it is stated. `plan` plans it."""

import dataclasses
import hashlib
import inspect
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from dpbt.base import BINARY, Recipe, Table
from dpbt.public import without_values
from dpbt.training.checks import check_same_rows
from dpbt.validate import shown, whole

Value = str | int | float | bool
Setting = Mapping[str, Value]
Block = Mapping[str, tuple[Value, ...]]

RecipeMaker = Callable[..., Recipe]
"""(**axes, **task arguments) -> a recipe."""


class Shape(NamedTuple):
    """Lengths of a table: N rows, F features, S splits, A attributes.

    A table of exact numbers has no questions, so 0 splits and 0 attributes.
    """

    rows: int
    features: int
    splits: int
    attributes: int

    @property
    def cost(self) -> int:
        """What the learners lay out of the table: rows times splits, or times features."""
        return self.rows * max(self[1:])


def shape_of(table: Table) -> Shape:
    """The lengths of a table."""
    rows, features = table.cells.shape
    questions = table.questions
    if questions is None:
        return Shape(rows, features, 0, 0)
    return Shape(rows, features, len(questions.feature), len(questions.attribute))


class Task(NamedTuple):
    """A table, and the rows that each evaluation trains and tests on.

    Attributes:
        name: the name of its files, and of its keys. It is a file name: no slashes, no leading dot.
        table: N rows, host or device arrays.
        train: bool[F, N], the rows to train on in each of F evaluations, such as folds.
        test: bool[F, N], the rows to test on.
        arguments: what the recipe's maker needs to know of the table, such as its public `rows`.
            The results hold them, so they must be public. Where an evaluation has more than `rows`
            rows to train on, only the first `rows` count (`step.admitted`).
    """

    name: str
    table: Table
    train: np.ndarray
    test: np.ndarray
    arguments: Mapping[str, Any]

    __repr__ = without_values

    @property
    def shape(self) -> Shape:
        """The lengths of the table."""
        return shape_of(self.table)


def checked_tasks(tasks: Task | Sequence[Task]) -> list[Task]:
    """The tasks as a list; one task stands for a list of it.

    Raises:
        ValueError: for no tasks, a name that two tasks share, or a field of another kind, naming
            the task and the field; no number of rows is shown.
    """
    listed = [tasks] if isinstance(tasks, Task) else list(tasks)
    if not listed:
        raise ValueError("tasks must hold at least one task, got none")
    for task in listed:
        if not isinstance(task, Task):
            raise ValueError(f"tasks must hold sweeps.Task(...), got {type(task).__name__}")
        _check_task(task)
    names = [task.name for task in listed]
    if len(set(names)) < len(names):
        raise ValueError(f"tasks need distinct names, got {names}")
    return listed


def _check_file_name(owner: str, name: Any, given: str) -> None:
    """Check that the name of a task or a sweep is a file name.

    Raises:
        ValueError: for anything but a text, an empty one, one with slashes or with a leading dot.
    """
    if not isinstance(name, str):
        raise ValueError(f"name of {owner} must be a text, got {given}")
    if not name or name[0] == "." or any(character in name for character in "/\\\0"):
        raise ValueError(
            f"name of {owner} must be a file name without slashes and without a leading dot, "
            f"got {name!r}"
        )


def _check_task(task: Task) -> None:
    """Check the fields of a task.

    Raises:
        ValueError: as `checked_tasks`.
    """
    # A field in the place of another one may be private, so its type alone is shown.
    name = task.name
    _check_file_name("a task", name, type(name).__name__)
    for field, kind, words in (
        ("table", Table, "a table, as dpbt.table makes it"),
        ("arguments", Mapping, "a dict of the maker's arguments"),
    ):
        if not isinstance(value := getattr(task, field), kind):
            given = type(value).__name__
            raise ValueError(f"{field} of task {name!r} must be {words}, got {given}")

    # The masks and the table have the same rows.
    if str(task.table.target.dtype) != BINARY.dtype or task.table.weight is not None:
        raise ValueError(
            f"task {name!r}: sweeps evaluate two classes, and rows without weights; "
            "vmap dpbt.boost for anything else"
        )
    check_same_rows(task.table)
    rows = np.shape(task.table.target)
    for field in ("train", "test"):
        mask = np.asarray(getattr(task, field))
        if mask.dtype != bool or mask.ndim != 2 or mask.shape[1:] != rows or not len(mask):
            raise ValueError(
                f"{field} of task {name!r} must be bool[F, N], an entry for each row of its "
                f"table; got {mask.dtype} of rank {mask.ndim}, or another number of entries"
            )
    if np.shape(task.train) != np.shape(task.test):
        raise ValueError(f"train and test of task {name!r} must have one shape")


def _several(values: Any) -> tuple[Any, ...]:
    """The entries of a list, an array or an iterator; anything else stands for a tuple of it."""
    if isinstance(values, np.ndarray | np.generic | jax.Array):
        values = np.atleast_1d(np.asarray(values)).tolist()
    if not isinstance(values, Sequence | Iterator) or isinstance(values, str):
        return (values,)
    return tuple(value.item() if isinstance(value, np.generic) else value for value in values)


def _checked_blocks(blocks: Any) -> tuple[Block, ...]:
    """The blocks as a tuple of dicts of tuples of plain values.

    Raises:
        ValueError: for something that is no block, or blocks with different axes. Also naming an
            axis without values, or with one of another kind.
    """
    listed = _several(blocks)
    for block in listed:
        if not isinstance(block, Mapping) or not all(isinstance(axis, str) for axis in block):
            raise ValueError(f"blocks must be dicts of axis -> values, got {shown(block)}")
    if len({tuple(sorted(block)) for block in listed}) != 1:
        raise ValueError(f"blocks must be dicts of the same axes, got {list(listed)}")

    made = tuple({axis: _several(values) for axis, values in each.items()} for each in listed)
    for axis, values in (axis for block in made for axis in block.items()):
        if not values:
            raise ValueError(f"axis {axis!r} must have at least one value, got none")
        for value in values:
            if not isinstance(value, Value):
                raise ValueError(
                    f"axis {axis!r} must hold numbers, texts or Booleans, got {shown(value)}"
                )
    return made


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Settings, as data: the products of blocks of named axes, one block after the other.

    Attributes:
        name: the name of the sweep, which the results hold. It is a file name: no slashes, no
            leading dot.
        make: the maker of recipes. It is called with one value for an axis, or with an array for an
            axis that it can broadcast over. It is a module-level function, so that its name can be
            recorded.
        blocks: axis -> values, for each block; all blocks have the same axes. Values are numbers,
            texts or Booleans. One block may be given without a tuple, and so may one value.
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
        _check_file_name("a sweep", self.name, shown(self.name))
        if not callable(self.make) or not hasattr(self.make, "__qualname__"):
            raise ValueError(f"make must be a function that makes recipes, got {shown(self.make)}")
        known = isinstance(self.seed, int | np.integer) and not isinstance(self.seed, bool)
        if not known or not 0 <= self.seed < 2**32:
            raise ValueError(f"seed must be an integer in 0..{2**32 - 1}, got {shown(self.seed)}")
        object.__setattr__(self, "seed", int(self.seed))
        object.__setattr__(self, "repeats", whole("repeats", self.repeats))
        object.__setattr__(self, "blocks", _checked_blocks(self.blocks))

        by_id: dict[str, Setting] = {}
        for setting in self.settings:
            if by_id.setdefault(setting_id(setting), setting) is not setting:
                raise ValueError(f"a setting occurs twice: {setting}")

    @property
    def settings(self) -> list[dict[str, Value]]:
        """All settings, in order."""
        return [
            dict(zip(block, values, strict=True))
            for block in self.blocks
            for values in itertools.product(*block.values())
        ]

    def definition(self) -> dict:
        """The sweep as JSON content."""
        return {
            "name": self.name,
            "make": f"{self.make.__module__}.{self.make.__qualname__}",
            "blocks": [
                {axis: list(values) for axis, values in each.items()} for each in self.blocks
            ],
            "repeats": self.repeats,
            "seed": self.seed,
        }


def setting_id(setting: Setting) -> str:
    """12 hexadecimal digits that name a setting, whatever the order of its axes."""
    plain = {axis: _several(value)[0] for axis, value in setting.items()}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:12]


def check_names(sweep: Sweep, task: Task) -> None:
    """Check that the sweep's maker takes its axes and the task's arguments, by their names.

    Raises:
        ValueError: naming what it does not take, what it lacks, or what is given twice.
    """
    axes, arguments = set(sweep.blocks[0]), set(task.arguments)
    if twice := sorted(axes & arguments):
        raise ValueError(
            f"{twice[0]!r} is both an axis of sweep {sweep.name!r} and an argument of task "
            f"{task.name!r}"
        )
    signature = inspect.signature(sweep.make)
    try:
        signature.bind(**dict.fromkeys(axes | arguments))
    except TypeError as error:
        raise ValueError(
            f"{sweep.make.__qualname__} takes {list(signature.parameters)}, and is given the axes "
            f"of sweep {sweep.name!r} and the arguments of task {task.name!r}: {error}"
        ) from None
