"""Sweeps as data: grids of settings over tables, planned into few programs. `runner` runs them.

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

RecipeMaker = Callable[..., Recipe]
"""(**axes, **task arguments) -> a recipe."""


class Task(NamedTuple):
    """A table, and who trains and is tested in each evaluation.

    Attributes:
        name: of files and keys.
        table: N rows, host or device arrays.
        train: bool[F, N], test bool[F, N]: the rows of each of F evaluations, folds say.
        test: see `train`.
        arguments: what the recipe's maker needs to know of the table: its public `rows`, say. The
            results hold them, so they must be public. Of an evaluation with more than `rows`
            rows to train on, only the first `rows` count (`boosting.admitted`).
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


def check_masks(task: Task) -> None:
    """Refuse masks that do not fit the table of their task.

    Raises:
        ValueError: naming the task and the mask; no number of rows is shown.
    """
    rows = task.table.target.shape[0]
    for name in ("train", "test"):
        mask = np.asarray(getattr(task, name))
        if mask.dtype != bool or mask.ndim != 2 or mask.shape[1] != rows or not len(mask):
            raise ValueError(
                f"{name} of task {task.name!r} must be bool[F, N], an entry for each row of its "
                f"table; got {mask.dtype} of rank {mask.ndim}, or another number of entries"
            )
    if np.shape(task.train) != np.shape(task.test):
        raise ValueError(f"train and test of task {task.name!r} must have one shape")


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Settings, as data: the products of blocks of named axes, one block after the other.

    Attributes:
        name: of the folder of results.
        make: of the recipes. Called with one value for an axis, or with an array for an axis that
            it can broadcast over. A module-level function, so that its name can be recorded.
        blocks: axis -> values, for each block; all blocks have the same axes. Values are numbers,
            texts or bools.
        repeats: how many keys for each setting and evaluation.
        seed: of all keys.

    Raises:
        ValueError: for an empty axis, blocks with different axes, or a setting that occurs twice.
    """

    name: str
    make: RecipeMaker
    blocks: tuple[Block, ...]
    repeats: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        axes = {tuple(sorted(block)) for block in self.blocks}
        empty = any(not values for block in self.blocks for values in block.values())
        if len(axes) != 1 or empty:
            raise ValueError(
                f"blocks need the same axes, with a value each, got {list(self.blocks)}"
            )
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, got {self.repeats}")
        ids = [setting_id(setting) for setting in self.settings]
        if len(set(ids)) < len(ids):
            counts = [ids.count(name) for name in ids]
            twice = next(s for s, n in zip(self.settings, counts, strict=True) if n > 1)
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
        indices: i64[K], which of `Sweep.settings` they are.
    """

    structure: Any
    recipe: Recipe
    indices: np.ndarray


_ANY_CAPACITY = 2**31 - 1


def _structure(recipe: Recipe) -> Any:
    """What a program depends on, except for room for rounds: static parts, shapes of a setting."""
    bare = dataclasses.replace(recipe, capacity=_ANY_CAPACITY)
    axes = np.ndim(recipe.rounds)
    return jax.tree.structure(bare), tuple(np.shape(leaf)[axes:] for leaf in jax.tree.leaves(bare))


_Classes = dict[str, list[Value]]
"""axis -> values that change nothing static."""


def _classes(sweep: Sweep, block: Block, arguments: Mapping[str, Any]) -> list[_Classes]:
    """The block as products of classes of values: in a class, a value changes nothing static."""
    first = {axis: values[0] for axis, values in block.items()}
    by_axis = []
    for axis, values in block.items():
        alike: dict[Any, list[Value]] = {}
        for value in values:
            structure = _structure(sweep.make(**arguments, **{**first, axis: value}))
            alike.setdefault(structure, []).append(value)
        by_axis.append([(axis, same) for same in alike.values()])
    return [dict(choice) for choice in itertools.product(*by_axis)]


def _products(classes: _Classes) -> list[dict[str, Value]]:
    """The settings of a product of classes, in order."""
    return [
        dict(zip(classes, values, strict=True)) for values in itertools.product(*classes.values())
    ]


def _recipe_of(
    sweep: Sweep, classes: _Classes, settings: Sequence[Setting], arguments: Mapping[str, Any]
) -> tuple[Any, Recipe]:
    """The structure and the recipe of a product of classes, every leaf with a leading axis.

    Raises:
        ValueError: as `groups`.
    """
    varied = {
        axis: np.asarray([setting[axis] for setting in settings])
        for axis, values in classes.items()
        if len(values) > 1
    }
    single = {axis: values[0] for axis, values in classes.items() if len(values) == 1}
    recipe = sweep.make(**arguments, **single, **varied)
    structure = _structure(recipe)
    ends = [_structure(sweep.make(**arguments, **settings[k])) for k in (0, -1)]
    if any(end != structure for end in ends):
        raise ValueError(f"{sweep.name}: the recipes of {classes} do not share a program")
    if not varied:
        recipe = jax.tree.map(lambda leaf: np.asarray(leaf)[None], recipe)
    return structure, recipe


def groups(sweep: Sweep, task: Task) -> list[Group]:
    """The settings in as few groups as their static parts allow; every setting is in one of them.

    Args:
        sweep: the sweep.
        task: its arguments go to the recipe's maker.

    Raises:
        ValueError: if the maker treats values alike one by one that it does not treat alike
            together (judged by the first and the last setting of a group).
    """
    index = {setting_id(setting): k for k, setting in enumerate(sweep.settings)}
    by_structure: dict[Any, list[tuple[Recipe, list[int]]]] = {}
    for block in sweep.blocks:
        for classes in _classes(sweep, block, task.arguments):
            settings = _products(classes)
            structure, recipe = _recipe_of(sweep, classes, settings, task.arguments)
            indices = [index[setting_id(setting)] for setting in settings]
            by_structure.setdefault(structure, []).append((recipe, indices))
    return [_joined(structure, parts) for structure, parts in by_structure.items()]


def _joined(structure: Any, parts: Sequence[tuple[Recipe, list[int]]]) -> Group:
    """The parts of one structure as one group, sorted by rounds."""
    capacity = max(recipe.capacity for recipe, _ in parts)
    recipes = [dataclasses.replace(recipe, capacity=capacity) for recipe, _ in parts]
    numbers = np.concatenate([np.asarray(indices) for _, indices in parts])
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
    questions = table.questions
    if questions is None:
        return Shape(rows, features, 0, 0)
    return Shape(rows, features, len(questions.feature), len(questions.attribute))


def common_shapes(shapes: Sequence[Shape], padding: int = 200_000) -> dict[Shape, Shape]:
    """Shape -> the padded shape whose program serves it.

    Pairs of shapes are joined, cheapest first, as long as the padding that this adds, in
    `Shape.cost` over all tables, stays within `padding`: what a program costs to compile, in rows
    times splits. The default is measured, for some hundred ensembles a table. Tables of exact
    numbers are padded in their rows only.

    Args:
        shapes: one for each table; repetitions count.
        padding: rows times splits, at least 0; 0 joins equal shapes only.
    """
    members: dict[Shape, list[Shape]] = {}
    for shape in shapes:
        members.setdefault(shape, []).append(shape)
    while padding > 0 and (pair := _cheapest_pair(members)) is not None:
        added, (a, b), joint = pair
        if added > padding:
            break
        both = members.pop(a) + members.pop(b)
        members[joint] = members.get(joint, []) + both
    return {shape: joint for joint, shapes in members.items() for shape in shapes}


def _cheapest_pair(
    members: Mapping[Shape, Sequence[Shape]],
) -> tuple[int, tuple[Shape, Shape], Shape] | None:
    """(cost that joining adds, pair, joint shape) of the pair that adds the least; None without."""
    pairs = []
    for a, b in itertools.combinations(sorted(members), 2):
        if (joint := _joint(a, b)) is not None:
            before = len(members[a]) * a.cost + len(members[b]) * b.cost
            after = (len(members[a]) + len(members[b])) * joint.cost
            pairs.append((after - before, (a, b), joint))
    return min(pairs, key=lambda pair: pair[0], default=None)


def _joint(shape: Shape, other: Shape) -> Shape | None:
    """The smallest shape that both can be padded to, if there is one."""
    if 0 in (shape.splits, other.splits) and shape[1:] != other[1:]:
        return None
    return Shape(*(max(lengths) for lengths in zip(shape, other, strict=True)))


def together(tasks: Sequence[Task], shape: Shape) -> list[Task]:
    """Tasks padded to one shape.

    The splits that are allowed are listed for all of them or for none, so one program fits all.
    """
    of_tasks = [task.table.questions for task in tasks]
    listed = any(questions is not None and questions.allowed is not None for questions in of_tasks)
    allow = listed or any(task.shape[1:] != shape[1:] for task in tasks)
    return [padded(task, shape, allow) for task in tasks]


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
    lacking = Shape(*(wanted - has for wanted, has in zip(shape, task.shape, strict=True)))
    if min(lacking) < 0 or (task.table.questions is None and any(lacking[1:])):
        raise ValueError(f"{task.name}: the table does not fit {shape}")

    rows = (0, lacking.rows)
    table = Table(
        jnp.asarray(np.pad(np.asarray(task.table.cells), (rows, (0, lacking.features)))),
        jnp.asarray(np.pad(np.asarray(task.table.target), rows)),
        jnp.asarray(np.pad(np.asarray(task.table.present), rows)),
        _padded_questions(task.table.questions, lacking, allow),
    )
    masks = (task.train, task.test)
    train, test = (np.pad(np.asarray(mask, bool), ((0, 0), rows)) for mask in masks)
    return task._replace(table=table, train=train, test=test)


def _padded_questions(questions: Questions | None, lacking: Shape, allow: bool) -> Questions | None:
    """Questions with splits that no cell satisfies, and attributes at which all cells are at 0."""
    if questions is None:
        return None
    splits, attributes = (0, lacking.splits), (0, lacking.attributes)
    allowed = questions.allowed
    allowed = np.ones(len(questions.feature), bool) if allowed is None else np.asarray(allowed)
    wide = Questions(
        feature=np.pad(np.asarray(questions.feature), splits),
        low=np.pad(np.asarray(questions.low), splits, constant_values=CELLS - 1),
        high=np.pad(np.asarray(questions.high), splits),
        attribute=np.pad(np.asarray(questions.attribute), attributes),
        position=np.pad(np.asarray(questions.position), (attributes, (0, 0))),
        allowed=np.pad(allowed, splits) if allow else None,
    )
    return jax.tree.map(jnp.asarray, wide)


def lane_bytes(shape: Shape, recipe: Recipe) -> int:
    """About how much memory one fit takes at a time, from the widest part of its hypothesis.

    Args:
        shape: of the table.
        recipe: of a `Group`, with a leading axis of settings.
    """

    def fit() -> Any:
        setting = jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], recipe)
        key = jax.random.key(0)
        return boost(key, _blank(shape), setting, key).hypotheses

    hypotheses = jax.eval_shape(fit)
    width = max(leaf.shape[-1] for leaf in jax.tree.leaves(hypotheses))
    return shape.rows * (width + 32) + 24 * max(shape[1:]) * width


def _blank(shape: Shape) -> Table:
    """A table of a shape, of zeros."""
    absent = jnp.zeros(shape.rows, bool)
    if not shape.splits:
        return Table(jnp.zeros((shape.rows, shape.features), jnp.float32), absent, absent)
    questions = Questions(
        feature=jnp.zeros(shape.splits, jnp.int32),
        low=jnp.zeros(shape.splits, jnp.uint8),
        high=jnp.zeros(shape.splits, jnp.uint8),
        attribute=jnp.zeros(shape.attributes, jnp.int32),
        position=jnp.zeros((shape.attributes, CELLS), jnp.float32),
    )
    cells = jnp.zeros((shape.rows, shape.features), jnp.uint8)
    return Table(cells, absent, absent, questions)


def id_words(name: str) -> tuple[int, int]:
    """The 48 bits of a setting's id, as two numbers to fold into a key."""
    return int(name[:6], 16), int(name[6:], 16)


def word(text: str) -> int:
    """31 bits of a text, to fold into a key."""
    return zlib.crc32(text.encode()) & 0x7FFFFFFF
