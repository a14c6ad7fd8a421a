"""The definition of a sweep: blocks of named axes, and tables with their evaluations."""

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpbt.common.validate import check_interval, check_positive_integer, show_value
from dpbt.public_types import redacted_repr
from dpbt.training import checks
from dpbt.types import Recipe, Table

Value = str | int | float | bool
Setting = Mapping[str, Value]
Block = Mapping[str, tuple[Value, ...]]

RecipeMaker = Callable[..., Recipe]
"""(**axes, **task arguments) -> a recipe."""


class Task(NamedTuple):
    """A table, and the rows that each evaluation trains and tests on.

    Attributes:
        name: the name of its files, and of its keys. It is a file name: no slashes, no leading dot.
        table: N rows, host or device arrays. It may have any target that the recipes learn, and
            weights.
        train: bool[E, N], the rows to train on in each of E evaluations, such as folds.
        test: bool[E, N], the rows to test on.
        arguments: public facts of the table for the maker of recipes, such as `rows`.
            Where an evaluation has more than `rows` rows to train on, only the first `rows` count
            (`table_preparation.keep_first_present_rows`).
    """

    name: str
    table: Table
    train: np.ndarray
    test: np.ndarray
    arguments: Mapping[str, Any]

    __repr__ = redacted_repr


def list_tasks(tasks: Task | Sequence[Task]) -> list[Task]:
    """Check one or several tasks, and return them as a list.

    Raises:
        ValueError: for no tasks, a name that two tasks share, or a field of another kind. A field
            in the place of another one may be private, so the message shows at most its type.
    """
    task_list = [tasks] if isinstance(tasks, Task) else list(tasks)
    for task in task_list:
        _check_task(task)
    names = [task.name for task in task_list]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"tasks must hold at least one task, of distinct names, got {names}")
    return task_list


def _check_task(task: Any) -> None:
    """Refuse anything but a task with a table, and with masks of its rows."""
    if not isinstance(task, Task) or not isinstance(task.arguments, Mapping):
        raise ValueError("tasks must hold sweeps.Task(...), each with a dict of arguments")
    _check_file_name("a task", task.name)
    checks.check_table(task.table)
    rows = np.shape(task.table.target)
    masks = [np.asarray(task.train), np.asarray(task.test)]
    num_evaluations = len(masks[0]) if masks[0].ndim else 0
    if not num_evaluations or any(
        mask.dtype != bool or mask.shape != (num_evaluations, *rows) for mask in masks
    ):
        raise ValueError(f"train and test of task {task.name!r} must be bool[E, N]")


def _check_file_name(owner: str, name: Any) -> None:
    """Refuse a name that is no file name without slashes.

    Of a value that is no text the error shows the type alone.
    """
    if not isinstance(name, str) or name[:1] in ("", ".") or set(name) & set("/\\\0"):
        shown = repr(name) if isinstance(name, str) else type(name).__name__
        raise ValueError(f"name of {owner} must be a file name without slashes, got {shown}")


def _as_plain_tuple(values: Any) -> tuple[Any, ...]:
    """Convert a list, an array or an iterator to a tuple of plain values.

    Anything else is the only entry of the tuple.
    """
    if not isinstance(values, Iterable) or isinstance(values, str | Mapping):
        values = (values,)
    return tuple(value.item() if hasattr(value, "item") else value for value in values)


def _as_blocks(blocks: Any) -> tuple[Block, ...]:
    """Check blocks, and convert them to a tuple of dicts of tuples of plain values.

    Raises:
        ValueError: for something that is no block, or blocks with different axes. Also naming an
            axis without values, or with one of another kind.
    """
    block_list = _as_plain_tuple(blocks)
    axes = [sorted(block) if isinstance(block, Mapping) else None for block in block_list]
    if not axes or None in axes or axes.count(axes[0]) < len(axes):
        raise ValueError(
            f"blocks must be dicts axis -> values of the same axes, got {show_value(axes)}"
        )
    plain_blocks = tuple(
        {axis: _as_plain_tuple(values) for axis, values in block.items()} for block in block_list
    )
    for axis, values in itertools.chain(*(block.items() for block in plain_blocks)):
        if not values or not all(isinstance(value, Value) for value in values):
            raise ValueError(f"axis {axis!r} must hold at least one number, text or Boolean")
    return plain_blocks


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A grid of settings and the maker of their recipes.

    The settings are the products of blocks of named axes, one block after the other.

    Attributes:
        name: recorded in the results. It is a file name: no slashes, no leading dot.
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
        seed = check_interval("seed", self.seed, f"[0, {2**32 - 1}]", whole_numbers=True)
        object.__setattr__(self, "seed", int(seed))
        object.__setattr__(self, "repeats", check_positive_integer("repeats", self.repeats))
        object.__setattr__(self, "blocks", _as_blocks(self.blocks))

        if len(set(map(setting_id, self.settings))) < len(self.settings):
            raise ValueError("a setting occurs twice")

    @property
    def settings(self) -> list[dict[str, Value]]:
        """The settings of all blocks, in order."""
        return settings_of_blocks(self.blocks)

    def definition(self) -> dict:
        """The fields of the sweep as JSON content, its maker by its name."""
        return json.loads(json.dumps({**vars(self), "make": qualified_name(self.make)}))


def qualified_name(function: Callable[..., Any]) -> str:
    """The module and the name of a function, as results record it."""
    return f"{function.__module__}.{function.__qualname__}"


def settings_of_blocks(blocks: Sequence[Block]) -> list[dict[str, Value]]:
    """The settings of blocks: the products of each block's values, one block after the other."""
    return [
        dict(zip(block, values, strict=True))
        for block in blocks
        for values in itertools.product(*block.values())
    ]


def setting_id(setting: Setting) -> str:
    """12 hexadecimal digits that name a setting, whatever the order of its axes."""
    plain = {axis: _as_plain_tuple(value)[0] for axis, value in setting.items()}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:12]
