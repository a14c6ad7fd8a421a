"""Sweeps as data: grids of settings over tables, planned into few programs. `dpbt.runs` runs them.

A sweep names its axes; whether a value of an axis changes the program (a depth, "objective" instead
of a number) or only its input (an epsilon, a share, a number of rounds) is found by building
recipes and comparing their static parts. Tables of like size are padded to a common shape. The key
of a fit depends on the seed, the setting, the task and the evaluation alone, whatever the order of
axes and batches. Padding changes how many random numbers are drawn, and so which: results on a
padded table differ from those on the bare one, with the same distribution.
"""

import dataclasses
import hashlib
import itertools
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import CELLS, Questions, Recipe, Table
from dpbt.boosting import boost

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
        """Of the table."""
        return shape_of(self.table)


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Settings, as data: the products of blocks of named axes, one block after the other.

    Attributes:
        name: of the folder of results.
        make: (**axes, **task arguments) -> Recipe. Called with one value for an axis, or with an
            array for an axis that it can broadcast over. A module-level function, so that its name
            can be recorded.
        blocks: axis -> values, for each block; all blocks have the same axes. Values are numbers,
            words or bools.
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
        if (
            not axes
            or len(set(axes)) > 1
            or any(not values for block in self.blocks for values in block.values())
        ):
            raise ValueError(
                f"blocks need the same axes, with a value each, got {list(self.blocks)}"
            )
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
        return {
            "name": self.name,
            "make": make,
            "blocks": blocks,
            "repeats": self.repeats,
            "seed": self.seed,
        }


def setting_id(setting: Setting) -> str:
    """12 hexadecimal digits that name a setting, whatever the order of its axes."""
    plain = {
        axis: value.item() if isinstance(value, np.generic) else value
        for axis, value in setting.items()
    }
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
    """What makes recipes need different programs, room for rounds apart: static parts, and shapes
    of one setting.
    """
    bare = dataclasses.replace(recipe, capacity=_ANY_CAPACITY)
    lead = np.ndim(recipe.rounds)
    return jax.tree.structure(bare), tuple(np.shape(leaf)[lead:] for leaf in jax.tree.leaves(bare))


def _classes(sweep: Sweep, block: Block, arguments: Mapping) -> list[dict[str, list[Value]]]:
    """The block as products of classes of values: within a class, a value changes nothing
    static.
    """
    first = {axis: values[0] for axis, values in block.items()}
    by_axis = []
    for axis, values in block.items():
        found: dict[Any, list[Value]] = {}
        for value in values:
            found.setdefault(
                _structure(sweep.make(**arguments, **{**first, axis: value})), []
            ).append(value)
        by_axis.append([(axis, same) for same in found.values()])
    return [dict(choice) for choice in itertools.product(*by_axis)]


def groups(sweep: Sweep, task: Task) -> list[Group]:
    """The settings in as few groups as their static parts allow; every setting is in one of them.

    Args:
        sweep: the sweep.
        task: its arguments go to the recipe's maker.

    Raises:
        ValueError: if the maker treats values alike one by one that it does not treat alike
            together (judged by the first and the last setting of a group).
    """
    place = {setting_id(setting): k for k, setting in enumerate(sweep.settings)}
    found: dict[Any, list[tuple[Recipe, list[int]]]] = {}
    for block in sweep.blocks:
        for classes in _classes(sweep, block, task.arguments):
            settings = [
                dict(zip(classes, values, strict=True))
                for values in itertools.product(*classes.values())
            ]
            varied = {
                axis: np.asarray([s[axis] for s in settings])
                for axis in classes
                if len(classes[axis]) > 1
            }
            single = {axis: values[0] for axis, values in classes.items() if len(values) == 1}
            recipe = sweep.make(**task.arguments, **single, **varied)
            expected = _structure(recipe)
            if any(
                _structure(sweep.make(**task.arguments, **settings[k])) != expected for k in (0, -1)
            ):
                raise ValueError(f"{sweep.name}: the recipes of {classes} do not share a program")
            if not varied:
                recipe = jax.tree.map(lambda leaf: np.asarray(leaf)[None], recipe)
            found.setdefault(expected, []).append(
                (recipe, [place[setting_id(setting)] for setting in settings])
            )
    return [_joined(structure, parts) for structure, parts in found.items()]


def _joined(structure: Any, parts: Sequence[tuple[Recipe, list[int]]]) -> Group:
    """The parts of one structure as one group, sorted by rounds."""
    capacity = max(recipe.capacity for recipe, _ in parts)
    recipes = [dataclasses.replace(recipe, capacity=capacity) for recipe, _ in parts]
    numbers = np.concatenate([np.asarray(places) for _, places in parts])
    joined = jax.tree.map(
        lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves]), *recipes
    )
    order = np.lexsort((numbers, joined.rounds))
    return Group(structure, jax.tree.map(lambda leaf: leaf[order], joined), numbers[order])


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
    asked = table.questions
    if asked is None:
        return Shape(rows, features, 0, 0)
    return Shape(rows, features, len(asked.feature), len(asked.attribute))


def common_shapes(shapes: Sequence[Shape], spare: int = 200_000) -> dict[Shape, Shape]:
    """Shape -> the padded shape whose program serves it.

    Pairs of shapes are joined, cheapest first, as long as the padding that this adds, in
    `Shape.cost` over all tables, stays within `spare`: what a program costs to compile, in rows
    times splits. A measured default for some hundred ensembles a table. Tables of exact numbers are
    padded in their rows only.

    Args:
        shapes: one for each table; repetitions count.
        spare: rows times splits, at least 0; 0 joins equal shapes only.
    """
    members: dict[Shape, list[Shape]] = {}
    for shape in shapes:
        members.setdefault(shape, []).append(shape)
    while spare > 0:
        added = {}
        for a, b in itertools.combinations(sorted(members), 2):
            if (joint := _joint(a, b)) is not None:
                before = len(members[a]) * a.cost + len(members[b]) * b.cost
                both = len(members[a]) + len(members[b])
                added[a, b] = both * joint.cost - before, joint
        if not added:
            break
        (a, b), (more, joint) = min(added.items(), key=lambda item: item[1][0])
        if more > spare:
            break
        both = members.pop(a) + members.pop(b)
        members[joint] = members.get(joint, []) + both
    return {shape: joint for joint, shapes in members.items() for shape in shapes}


def _joint(shape: Shape, other: Shape) -> Shape | None:
    """The smallest shape that both can be padded to, if there is one."""
    if 0 in (shape.splits, other.splits) and shape[1:] != other[1:]:
        return None
    return Shape(*(max(lengths) for lengths in zip(shape, other, strict=True)))


def together(tasks: Sequence[Task], shape: Shape) -> list[Task]:
    """Tasks padded to one shape.

    The splits that are allowed are listed for all of them or for none, so one program fits all.
    """
    asked = [task.table.questions for task in tasks]
    listed = any(questions is not None and questions.allowed is not None for questions in asked)
    some = listed or any(task.shape[1:] != shape[1:] for task in tasks)
    return [padded(task, shape, some) for task in tasks]


def padded(task: Task, shape: Shape, allow: bool = True) -> Task:
    """The task with absent rows, and splits that are not allowed, up to a shape.

    Results have the same distribution.

    Args:
        task: the task.
        shape: at least the task's, in each length.
        allow: list the splits that are allowed; learners that read all splits, or attributes, need
            tables that do not.

    Raises:
        ValueError: if the shape is too small, or has other features than exact numbers have; the
            task's own number of rows, which may be private, is not shown.
    """
    more = Shape(*(wanted - own for wanted, own in zip(shape, task.shape, strict=True)))
    if min(more) < 0 or (task.table.questions is None and any(more[1:])):
        raise ValueError(f"{task.name}: the table does not fit {shape}")
    rows = (0, more.rows)
    table = Table(
        jnp.asarray(np.pad(np.asarray(task.table.cells), (rows, (0, more.features)))),
        jnp.asarray(np.pad(np.asarray(task.table.target), rows)),
        jnp.asarray(np.pad(np.asarray(task.table.present), rows)),
        _padded_questions(task.table.questions, more, allow),
    )
    masks = (task.train, task.test)
    train, test = (np.pad(np.asarray(mask, bool), ((0, 0), rows)) for mask in masks)
    return task._replace(table=table, train=train, test=test)


def _padded_questions(asked: Questions | None, more: Shape, allow: bool) -> Questions | None:
    """Questions with splits that no cell satisfies, and attributes at which all cells are at 0."""
    if asked is None:
        return None
    splits, attributes = (0, more.splits), (0, more.attributes)
    own = np.ones(len(asked.feature), bool) if asked.allowed is None else np.asarray(asked.allowed)
    questions = Questions(
        feature=np.pad(np.asarray(asked.feature), splits),
        low=np.pad(np.asarray(asked.low), splits, constant_values=CELLS - 1),
        high=np.pad(np.asarray(asked.high), splits),
        attribute=np.pad(np.asarray(asked.attribute), attributes),
        position=np.pad(np.asarray(asked.position), (attributes, (0, 0))),
        allowed=np.pad(own, splits) if allow else None,
    )
    return jax.tree.map(jnp.asarray, questions)


def lane_bytes(shape: Shape, recipe: Recipe) -> int:
    """About how much memory one fit takes at a time, from the widest part of its hypothesis.

    Args:
        shape: of the table.
        recipe: of a `Group`, with a leading axis of settings.
    """

    def fit():
        one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], recipe)
        key = jax.random.key(0)
        return boost(key, _blank(shape), one, key)[1]

    hypotheses = jax.eval_shape(fit)
    width = max(leaf.shape[-1] for leaf in jax.tree.leaves(hypotheses))
    return shape.rows * (width + 32) + 24 * max(shape[1:]) * width


def _blank(shape: Shape) -> Table:
    """A table of a shape, of zeros."""
    nobody = jnp.zeros(shape.rows, bool)
    if not shape.splits:
        return Table(jnp.zeros((shape.rows, shape.features), jnp.float32), nobody, nobody)
    questions = Questions(
        feature=jnp.zeros(shape.splits, jnp.int32),
        low=jnp.zeros(shape.splits, jnp.uint8),
        high=jnp.zeros(shape.splits, jnp.uint8),
        attribute=jnp.zeros(shape.attributes, jnp.int32),
        position=jnp.zeros((shape.attributes, CELLS), jnp.float32),
    )
    cells = jnp.zeros((shape.rows, shape.features), jnp.uint8)
    return Table(cells, nobody, nobody, questions)


def id_words(name: str) -> tuple[int, int]:
    """The 48 bits of a setting's id as two numbers to fold into a key, so that no two settings
    share one.
    """
    return int(name[:6], 16), int(name[6:], 16)


def word(text: str) -> int:
    """31 bits of a text, to fold into a key."""
    return zlib.crc32(text.encode()) & 0x7FFFFFFF
