"""Sweeps as data: grids of settings, tasks to run them on, and their plan. `runner` runs them.

A sweep names its axes. Some axes change the program (a depth, or "objective" instead of a number);
others only its input (an epsilon, a fraction, a number of rounds). The plan finds out which by
building the recipe of each setting and comparing static parts.

Tables of one shape share programs. The key of a fit depends only on the seed, the setting, the task
and the evaluation, whatever the order of axes and batches.
"""

import collections
import dataclasses
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common.public import without_values
from dpbt.common.types import BINARY, Hypothesis, Recipe, Table
from dpbt.common.validate import shown, whole, within
from dpbt.training import step
from dpbt.training.step import check_same_rows

Value = str | int | float | bool
Setting = Mapping[str, Value]
Block = Mapping[str, tuple[Value, ...]]

RecipeMaker = Callable[..., Recipe]
"""(**axes, **task arguments) -> a recipe."""


class Shape(NamedTuple):
    """Lengths of a table: N rows, F features, S splits, A attributes.

    A table of exact numbers has no splits, so 0 splits and 0 attributes.
    """

    rows: int
    features: int
    splits: int
    attributes: int


def shape_of(table: Table) -> Shape:
    """The lengths of a table."""
    splits = table.splits
    asked = (0, 0) if splits is None else (len(splits.feature), len(splits.attribute))
    rows, features = table.bins.shape
    return Shape(rows, features, *asked)


class Task(NamedTuple):
    """A table, and the rows that each evaluation trains and tests on.

    Attributes:
        name: the name of its files, and of its keys. It is a file name: no slashes, no leading dot.
        table: N rows, host or device arrays.
        train: bool[F, N], the rows to train on in each of F evaluations, such as folds.
        test: bool[F, N], the rows to test on.
        arguments: what the recipe's maker needs to know of the table, such as its public `rows`.
            Where an evaluation has more than `rows` rows to train on, only the first `rows` count
            (`step.admitted`).
    """

    name: str
    table: Table
    train: np.ndarray
    test: np.ndarray
    arguments: Mapping[str, Any]

    __repr__ = without_values


def checked_tasks(tasks: Task | Sequence[Task]) -> list[Task]:
    """The tasks as a list; one task stands for a list of it.

    Raises:
        ValueError: for no tasks, a name that two tasks share, or a field of another kind. A field
            in the place of another one may be private, so at most its type is shown.
    """
    listed = [tasks] if isinstance(tasks, Task) else list(tasks)
    for task in listed:
        if not isinstance(task, Task):
            raise ValueError(f"tasks must hold sweeps.Task(...), got {type(task).__name__}")
        _check_file_name("a task", task.name)
        if not isinstance(task.table, Table) or not isinstance(task.arguments, Mapping):
            raise ValueError(f"task {task.name!r} must have a table and a dict of arguments")
        check_same_rows(task.table)
        if str(task.table.target.dtype) != BINARY.dtype or task.table.weight is not None:
            raise ValueError(
                f"task {task.name!r}: sweeps evaluate two classes, and rows without weights; "
                "vmap dpbt.boost for anything else"
            )
        rows = np.shape(task.table.target)
        masks = [np.asarray(task.train), np.asarray(task.test)]
        lines = len(masks[0]) if masks[0].ndim else 0
        if not lines or any(mask.dtype != bool or mask.shape != (lines, *rows) for mask in masks):
            raise ValueError(
                f"train and test of task {task.name!r} must be bool[F, N], with a line for each "
                "evaluation and an entry for each row of its table"
            )
    names = [task.name for task in listed]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"tasks must hold at least one task, of distinct names, got {names}")
    return listed


def _check_file_name(owner: str, name: Any) -> None:
    """Refuse a name of a task or a sweep that is no file name.

    Raises:
        ValueError: of anything but a text, which may be private, its type alone is shown.
    """
    if not isinstance(name, str) or name[:1] in ("", ".") or set(name) & set("/\\\0"):
        given = repr(name) if isinstance(name, str) else type(name).__name__
        raise ValueError(
            f"name of {owner} must be a file name without slashes and without a leading dot, "
            f"got {given}"
        )


def _several(values: Any) -> tuple[Any, ...]:
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
    listed = _several(blocks)
    axes = [sorted(block) if isinstance(block, Mapping) else None for block in listed]
    if not axes or None in axes or axes.count(axes[0]) < len(axes):
        raise ValueError(f"blocks must be dicts axis -> values of the same axes, got {shown(axes)}")
    made = tuple({axis: _several(values) for axis, values in block.items()} for block in listed)
    for axis, values in itertools.chain(*(block.items() for block in made)):
        if not values or not all(isinstance(value, Value) for value in values):
            raise ValueError(
                f"axis {axis!r} must hold at least one number, text or Boolean, got {shown(values)}"
            )
    return made


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Settings, as data: the products of blocks of named axes, one block after the other.

    Attributes:
        name: the name of the sweep, which the results hold. It is a file name: no slashes, no
            leading dot.
        make: the maker of recipes. It is called with one value for each axis. It is a module-level
            function, so that its name can be recorded.
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
        _check_file_name("a sweep", self.name)
        if not hasattr(self.make, "__qualname__"):
            raise ValueError(f"make must be a function that makes recipes, got {shown(self.make)}")
        seed = within("seed", self.seed, f"[0, {2**32 - 1}]", whole=True)
        object.__setattr__(self, "seed", int(seed))
        object.__setattr__(self, "repeats", whole("repeats", self.repeats))
        object.__setattr__(self, "blocks", _checked_blocks(self.blocks))

        ids = [setting_id(setting) for setting in self.settings]
        name, count = collections.Counter(ids).most_common(1)[0]
        if count > 1:
            raise ValueError(f"a setting occurs twice: {self.settings[ids.index(name)]}")

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
    plain = {axis: _several(value)[0] for axis, value in setting.items()}
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


def _structure(recipe: Recipe) -> Any:
    """All that a program depends on but its room for rounds: static parts, shapes of leaves."""
    bare = dataclasses.replace(recipe, capacity=2**31 - 1)
    return jax.tree.structure(bare), tuple(map(np.shape, jax.tree.leaves(bare)))


def groups(sweep: Sweep, task: Task) -> list[Group]:
    """The settings in as few groups as their static parts allow; every setting is in one of them.

    Args:
        sweep: the sweep.
        task: its arguments go to the recipe's maker.

    Raises:
        ValueError: if the maker does not return the recipe of one setting, and as the maker.
        TypeError: if the maker does not take the axes and the arguments by their names.
    """
    members: dict[Any, list[tuple[Recipe, int]]] = {}
    for index, setting in enumerate(sweep.settings):
        recipe = sweep.make(**setting, **task.arguments)
        if not isinstance(recipe, Recipe) or np.ndim(recipe.rounds):
            raise ValueError(
                f"make must return the recipe of one setting, as dpbt.recipes makes it, got "
                f"{type(recipe).__name__} from {sweep.make.__qualname__}"
            )
        members.setdefault(_structure(recipe), []).append((recipe, index))

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

    Args:
        table: of the fit.
        recipe: the recipe of a `Group`, with a leading axis of settings.
    """

    def hypothesis(table: Table, setting: Recipe) -> Hypothesis:
        context, asked = step.of_a_round(setting, table)
        release = {site: spec.zeros for site, spec in asked.items()}
        return step.learned(setting, release, step.public_of(context, jnp.float32(1)))[0]

    setting = jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], recipe)
    found = jax.eval_shape(hypothesis, table, setting)
    width = max(leaf.shape[-1] for leaf in jax.tree.leaves(found) if leaf.shape)
    shape = shape_of(table)
    return shape.rows * (width + 32) + 24 * max(shape[1:]) * width
