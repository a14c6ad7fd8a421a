"""Sweeps as data: grids of settings over tables, planned into few programs. `dpbt.runs` runs them.

A sweep names its axes; whether a value of an axis changes the program (a depth, "objective" instead of a number) or
only its input (an epsilon, a share, a number of rounds) is found by building recipes and comparing their static parts.
Tables of like size are padded to a common shape. The key of a fit depends on the seed, the setting, the task and the
evaluation alone, whatever the order of axes and batches. Padding changes how many random numbers are drawn, and so
which: results on a padded table differ from those on the bare one, with the same distribution.
"""

import dataclasses
import hashlib
import itertools
import json
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import Recipe, Table

Value = str | int | float | bool
Setting = Mapping[str, Value]
Block = Mapping[str, tuple[Value, ...]]


class Task(NamedTuple):
    """A table, and who trains and is tested in each evaluation.

    Attributes:
        name: of files and keys.
        table: N rows, host or device arrays.
        train: bool[F, N], test bool[F, N]: the rows of each of F evaluations, folds say.
        test: see `train`.
        arguments: what the recipe's maker needs to know of the table: its public `rows`, say. The
            results hold them, so they must be public.
    """

    name: str
    table: Table
    train: np.ndarray
    test: np.ndarray
    arguments: Mapping[str, Any]

    @property
    def shape(self) -> "Shape":
        """(N, S)."""
        rows, splits = self.table.splits.shape
        return rows, splits


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Settings, as data: the products of blocks of named axes, one block after the other.

    Attributes:
        name: of the folder of results.
        make: (**axes, **task arguments) -> Recipe. Called with one value for an axis, or with an array for an axis
            that it can broadcast over. A module-level function, so that its name can be recorded.
        blocks: axis -> values, for each block; all blocks have the same axes. Values are numbers, words or bools.
        repeats: how many keys for each setting and evaluation.
        seed: of all keys.

    Raises:
        ValueError: for an empty axis, blocks with different axes, or a setting that occurs twice.
    """

    name: str
    make: Callable[..., Recipe]
    blocks: tuple[Block, ...]
    repeats: int = 1
    seed: int = 0

    def __post_init__(self):
        axes = [tuple(sorted(block)) for block in self.blocks]
        if not axes or len(set(axes)) > 1 or any(not values for block in self.blocks for values in block.values()):
            raise ValueError(f"blocks need the same axes, with a value each, got {list(self.blocks)}")
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, got {self.repeats}")
        ids = [setting_id(setting) for setting in self.settings]
        if len(set(ids)) < len(ids):
            twice = next(s for s, i in zip(self.settings, ids, strict=True) if ids.count(i) > 1)
            raise ValueError(f"a setting occurs twice: {twice}")

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
        make = f"{self.make.__module__}.{self.make.__qualname__}"
        blocks = [{axis: list(values) for axis, values in block.items()} for block in self.blocks]
        return {"name": self.name, "make": make, "blocks": blocks, "repeats": self.repeats, "seed": self.seed}


def setting_id(setting: Setting) -> str:
    """12 hexadecimal digits that name a setting, whatever the order of its axes."""
    plain = {axis: value.item() if isinstance(value, np.generic) else value for axis, value in setting.items()}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:12]


class Group(NamedTuple):
    """Settings that share a program.

    Attributes:
        structure: what they share: equal for two groups if and only if one program serves both.
        recipe: their recipes, every leaf with a leading axis [K].
        places: i64[K], their places in `Sweep.settings`.
    """

    structure: Any
    recipe: Recipe
    places: np.ndarray


_ANY_CAPACITY = 2**31 - 1


def _structure(recipe: Recipe) -> Any:
    """What makes recipes need different programs, room for rounds apart: static parts, and shapes of one setting."""
    bare = dataclasses.replace(recipe, capacity=_ANY_CAPACITY)
    lead = np.ndim(recipe.rounds)
    return jax.tree.structure(bare), tuple(np.shape(leaf)[lead:] for leaf in jax.tree.leaves(bare))


def _classes(sweep: Sweep, block: Block, arguments: Mapping) -> list[dict[str, list[Value]]]:
    """The block as products of classes of values: within a class, a value changes nothing static."""
    first = {axis: values[0] for axis, values in block.items()}
    by_axis = []
    for axis, values in block.items():
        found: dict[Any, list[Value]] = {}
        for value in values:
            found.setdefault(_structure(sweep.make(**arguments, **{**first, axis: value})), []).append(value)
        by_axis.append([(axis, same) for same in found.values()])
    return [dict(choice) for choice in itertools.product(*by_axis)]


def groups(sweep: Sweep, task: Task) -> list[Group]:
    """The settings in as few groups as their static parts allow; every setting is in one of them.

    Args:
        sweep: the sweep.
        task: its arguments go to the recipe's maker.

    Raises:
        ValueError: if the maker treats values alike one by one that it does not treat alike together (judged by the
            first and the last setting of a group).
    """
    place = {setting_id(setting): k for k, setting in enumerate(sweep.settings)}
    found: dict[Any, list[tuple[Recipe, list[int]]]] = {}
    for block in sweep.blocks:
        for classes in _classes(sweep, block, task.arguments):
            settings = [dict(zip(classes, values, strict=True)) for values in itertools.product(*classes.values())]
            varied = {axis: np.asarray([s[axis] for s in settings]) for axis in classes if len(classes[axis]) > 1}
            single = {axis: values[0] for axis, values in classes.items() if len(values) == 1}
            recipe = sweep.make(**task.arguments, **single, **varied)
            expected = _structure(recipe)
            if any(_structure(sweep.make(**task.arguments, **settings[k])) != expected for k in (0, -1)):
                raise ValueError(f"{sweep.name}: the recipes of {classes} do not share a program")
            if not varied:
                recipe = jax.tree.map(lambda leaf: np.asarray(leaf)[None], recipe)
            found.setdefault(expected, []).append((recipe, [place[setting_id(setting)] for setting in settings]))
    return [_joined(structure, parts) for structure, parts in found.items()]


def _joined(structure: Any, parts: Sequence[tuple[Recipe, list[int]]]) -> Group:
    """The parts of one structure as one group, sorted by rounds."""
    capacity = max(recipe.capacity for recipe, _ in parts)
    recipes = [dataclasses.replace(recipe, capacity=capacity) for recipe, _ in parts]
    numbers = np.concatenate([np.asarray(places) for _, places in parts])
    joined = jax.tree.map(lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves]), *recipes)
    order = np.lexsort((numbers, joined.rounds))
    return Group(structure, jax.tree.map(lambda leaf: leaf[order], joined), numbers[order])


Shape = tuple[int, int]
"""Rows and splits."""


def common_shapes(shapes: Sequence[Shape], spare: int = 200_000) -> dict[Shape, Shape]:
    """Shape -> the padded shape whose program serves it.

    Pairs of shapes are joined, cheapest first, as long as the cells (rows x splits) of padding that this adds, over all
    tables, stay within `spare`: what a program costs to compile, in cells. A measured default for some hundred
    ensembles a table.

    Args:
        shapes: one for each table; repetitions count.
        spare: cells, at least 0; 0 joins equal shapes only.
    """
    members: dict[Shape, list[Shape]] = {}
    for shape in shapes:
        members.setdefault(shape, []).append(shape)
    while len(members) > 1:
        added = {}
        for a, b in itertools.combinations(sorted(members), 2):
            joint = (max(a[0], b[0]), max(a[1], b[1]))
            before = len(members[a]) * math.prod(a) + len(members[b]) * math.prod(b)
            added[a, b] = (len(members[a]) + len(members[b])) * math.prod(joint) - before, joint
        (a, b), (cells, joint) = min(added.items(), key=lambda item: item[1][0])
        if cells > spare:
            break
        both = members.pop(a) + members.pop(b)
        members[joint] = members.get(joint, []) + both
    return {shape: joint for joint, shapes in members.items() for shape in shapes}


def together(tasks: Sequence[Task], shape: Shape) -> list[Task]:
    """Tasks padded to one shape; the splits they offer are listed for all of them or for none, so programs fit all."""
    some = any(task.shape[1] < shape[1] or task.table.offered is not None for task in tasks)
    return [padded(task, shape, some) for task in tasks]


def padded(task: Task, shape: Shape, offer: bool = True) -> Task:
    """The task with absent rows, and splits that are not offered, up to a shape; results have the same distribution.

    Args:
        task: the task.
        shape: rows and splits, at least the task's.
        offer: list the splits that are offered; learners without masked candidates need tables that do not.

    Raises:
        ValueError: if the shape is too small; the task's own, which may be private, is not shown.
    """
    splits = np.asarray(task.table.splits)
    more = (shape[0] - splits.shape[0], shape[1] - splits.shape[1])
    if min(more) < 0:
        raise ValueError(f"{task.name}: the table does not fit {shape}")
    offered = np.ones(splits.shape[1], bool) if task.table.offered is None else np.asarray(task.table.offered)
    rows = (0, more[0])
    table = Table(
        jnp.asarray(np.pad(splits, (rows, (0, more[1])))),
        jnp.asarray(np.pad(np.asarray(task.table.label), rows)),
        jnp.asarray(np.pad(np.asarray(task.table.present), rows)),
        jnp.asarray(np.pad(offered, (0, more[1]))) if offer else None,
    )
    evaluations = (np.pad(np.asarray(mask, bool), ((0, 0), rows)) for mask in (task.train, task.test))
    return task._replace(table=table, **dict(zip(("train", "test"), evaluations, strict=True)))


def id_words(name: str) -> tuple[int, int]:
    """The 48 bits of a setting's id as two numbers to fold into a key, so that no two settings share one."""
    return int(name[:6], 16), int(name[6:], 16)


def word(text: str) -> int:
    """31 bits of a text, to fold into a key."""
    return zlib.crc32(text.encode()) & 0x7FFFFFFF
