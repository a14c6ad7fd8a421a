"""Sweeps as data: grids of settings over tables, planned into few programs. `runner` runs them.

A sweep names its axes. Some axes change the program (a depth, or "objective" instead of a number);
others only its input (an epsilon, a share, a number of rounds). The plan finds out which by
building recipes and comparing their static parts.

Tables of similar size are padded to a common shape. The key of a fit depends only on the seed, the
setting, the task and the evaluation, whatever the order of axes and batches. Padding changes how
many random numbers are drawn, and so which. Results on a padded table differ from those on the
bare one, with the same distribution.
"""

import dataclasses
import itertools
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import CELLS, Questions, Recipe, Table
from dpbt.boosting import boost
from dpbt.sweeps.definition import (
    Block,
    Setting,
    Shape,
    Sweep,
    Task,
    Value,
    check_names,
    setting_id,
)
from dpbt.validate import floats, shown


class Group(NamedTuple):
    """Settings that share a program.

    Attributes:
        structure: what they share. Two groups have equal structures if and only if one program
            serves both.
        recipe: their recipes, every leaf with a leading axis [K].
        indices: i64[K], their places in `Sweep.settings`.
    """

    structure: Any
    recipe: Recipe
    indices: np.ndarray


_ANY_CAPACITY = 2**31 - 1


def _structure(recipe: Recipe) -> Any:
    """All that a program depends on but its room for rounds: static parts, shapes of a setting."""
    bare = dataclasses.replace(recipe, capacity=_ANY_CAPACITY)
    axes = np.ndim(recipe.rounds)
    return jax.tree.structure(bare), tuple(np.shape(leaf)[axes:] for leaf in jax.tree.leaves(bare))


def _made(sweep: Sweep, arguments: Mapping[str, Any]) -> Recipe:
    """The recipe that the sweep's maker returns for axes and arguments.

    Raises:
        ValueError: for something that is no recipe, and as the maker.
    """
    recipe = sweep.make(**arguments)
    if not isinstance(recipe, Recipe):
        raise ValueError(
            f"make must return a recipe, as dpbt.recipes makes it, got {type(recipe).__name__} "
            f"from {sweep.make.__qualname__}"
        )
    return recipe


_Classes = dict[str, list[Value]]
"""axis -> values that share the static parts of their recipes."""


def _classes(sweep: Sweep, block: Block, arguments: Mapping[str, Any]) -> list[_Classes]:
    """The block as products of classes of values, which share the static parts of their recipes.

    Each axis is judged by itself, with the others at their first value. `_recipe_of` checks the
    products.
    """
    first = {axis: values[0] for axis, values in block.items()}
    by_axis = []
    for axis, values in block.items():
        alike: dict[Any, list[Value]] = {}
        for value in values:
            structure = _structure(_made(sweep, {**arguments, **first, axis: value}))
            alike.setdefault(structure, []).append(value)
        by_axis.append([(axis, values_alike) for values_alike in alike.values()])
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
    # One recipe of all settings: an axis with several values is given as an array.
    varied = {
        axis: np.asarray([setting[axis] for setting in settings])
        for axis, values in classes.items()
        if len(values) > 1
    }
    single = {axis: values[0] for axis, values in classes.items() if len(values) == 1}
    recipe = _made(sweep, {**arguments, **single, **varied})

    # Its static parts must be those of each setting alone; the first and the last are compared.
    structure = _structure(recipe)
    ends = [_structure(_made(sweep, {**arguments, **settings[k]})) for k in (0, -1)]
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
        ValueError: if the maker does not take the axes and the arguments by their names, or refuses
            a value. Also if it gives values the same static parts one by one, and other parts
            together (judged by the first and the last setting of a group).
    """
    check_names(sweep, task)
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
    # Their recipes, one after the other, with room for the most rounds.
    capacity = max(recipe.capacity for recipe, _ in parts)
    recipes = [dataclasses.replace(recipe, capacity=capacity) for recipe, _ in parts]
    numbers = np.concatenate([np.asarray(indices) for _, indices in parts])
    joined = jax.tree.map(
        lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves]), *recipes
    )

    # Batches are of one number of rounds.
    order = np.lexsort((numbers, joined.rounds))
    return Group(structure, jax.tree.map(lambda leaf: leaf[order], joined), numbers[order])


def common_shapes(shapes: Sequence[Shape], padding: int = 200_000) -> dict[Shape, Shape]:
    """Shape -> the padded shape whose program serves it.

    Pairs of shapes are joined, cheapest first, as long as the padding that a pair adds, in
    `Shape.cost` over all of its tables, stays within `padding`. That is the cost of compiling one
    more program, in rows times splits. The default is measured, for about a hundred ensembles a
    table. Tables of exact numbers are padded in their rows only.

    Args:
        shapes: one for each table; repetitions count.
        padding: rows times splits, at least 0; 0 joins equal shapes only.

    Raises:
        ValueError: for a padding that is no number of at least 0.
    """
    most = floats("padding", padding)
    if most.ndim or not most >= 0:
        raise ValueError(f"padding must be one number of at least 0, got {shown(padding)}")
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
    """(added cost, pair, joint shape) of the pair that adds the least; None if there is no pair."""
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

    The allowed splits are listed for all of them or for none, so one program fits all.
    """
    of_tasks = [task.table.questions for task in tasks]
    listed = any(questions is not None and questions.allowed is not None for questions in of_tasks)
    allow = listed or any(task.shape[1:] != shape[1:] for task in tasks)
    return [padded(task, shape, allow) for task in tasks]


def padded(task: Task, shape: Shape, allow: bool = True) -> Task:
    """The task, filled up to a shape with absent rows and with splits that are not allowed.

    Results have the same distribution.

    Args:
        task: the task.
        shape: at least the task's, in each length.
        allow: list the allowed splits. Learners that read all splits, or attributes, need tables
            that do not list them.

    Raises:
        ValueError: if the shape is too small, or has other features than a table of exact numbers.
            The task's own number of rows, which may be private, is not shown.
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
    """Questions filled up with splits that no cell satisfies and attributes of position 0."""
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
    """About how many bytes one fit takes, by the widest part of its hypothesis.

    Args:
        shape: the shape of the table.
        recipe: the recipe of a `Group`, with a leading axis of settings.
    """

    def fit() -> Any:
        setting = jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], recipe)
        key = jax.random.key(0)
        return boost(key, _blank(shape), setting, key).hypotheses

    hypotheses = jax.eval_shape(fit)
    width = max(leaf.shape[-1] for leaf in jax.tree.leaves(hypotheses))
    return shape.rows * (width + 32) + 24 * max(shape[1:]) * width


def _blank(shape: Shape) -> Table:
    """A table of zeros, of a shape."""
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
