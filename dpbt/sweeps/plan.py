"""Sweeps as data: grids of settings over tables, planned into few programs. `runner` runs them.

A sweep names its axes. Some axes change the program (a depth, or "objective" instead of a number);
others only its input (an epsilon, a fraction, a number of rounds). The plan finds out which by
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
from dpbt.sweeps.definition import (
    Block,
    Setting,
    Shape,
    Sweep,
    Task,
    Value,
    check_names,
    setting_id,
    shape_of,
)
from dpbt.training.boosting import boost
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

    Each axis is judged by itself, with the others at their first value; `_recipe_of` checks the
    products.
    """
    first = {axis: values[0] for axis, values in block.items()}
    by_axis = []
    for axis, values in block.items():
        alike: dict[Any, list[Value]] = {}
        for value in values:
            structure = _structure(_made(sweep, {**arguments, **first, axis: value}))
            alike.setdefault(structure, []).append(value)
        by_axis.append(alike.values())
    return [dict(zip(block, choice, strict=True)) for choice in itertools.product(*by_axis)]


def _recipe_of(
    sweep: Sweep, classes: _Classes, settings: Sequence[Setting], arguments: Mapping[str, Any]
) -> Recipe:
    """The recipe of a product of classes, every leaf with a leading axis.

    Raises:
        ValueError: as `groups`.
    """
    # One recipe of all settings: an axis with several values is given as an array.
    varied = {
        axis: np.asarray([setting[axis] for setting in settings])
        for axis, values in classes.items()
        if len(values) > 1
    }
    recipe = _made(sweep, {**arguments, **settings[0], **varied})

    # Its static parts must be those of each setting alone; the first and the last are compared.
    ends = [_structure(_made(sweep, {**arguments, **settings[k]})) for k in (0, -1)]
    if any(end != _structure(recipe) for end in ends):
        raise ValueError(f"{sweep.name}: the recipes of {classes} do not share a program")
    return recipe if np.ndim(recipe.rounds) else jax.tree.map(lambda x: np.asarray(x)[None], recipe)


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
    parts: dict[Any, list[tuple[Recipe, list[int]]]] = {}
    for block in sweep.blocks:
        for classes in _classes(sweep, block, task.arguments):
            products = itertools.product(*classes.values())
            settings = [dict(zip(classes, values, strict=True)) for values in products]
            recipe = _recipe_of(sweep, classes, settings, task.arguments)
            indices = [index[setting_id(setting)] for setting in settings]
            parts.setdefault(_structure(recipe), []).append((recipe, indices))

    # The parts of one structure are one group, with room for the most rounds. It is sorted by
    # rounds, as batches are of one number of rounds.
    found = []
    for structure, recipes in parts.items():
        capacity = max(recipe.capacity for recipe, _ in recipes)
        roomy = [dataclasses.replace(recipe, capacity=capacity) for recipe, _ in recipes]
        joined = jax.tree.map(lambda *leaves: np.concatenate(list(map(np.asarray, leaves))), *roomy)
        places = np.concatenate([np.asarray(indices) for _, indices in recipes])
        order = np.lexsort((places, joined.rounds))
        joined = jax.tree.map(lambda leaf, order=order: leaf[order], joined)
        found.append(Group(structure, joined, places[order]))
    return found


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

    def added(pair: tuple[Shape, Shape]) -> int:
        joined = _joint(*pair).cost
        return sum(len(members[shape]) * (joined - shape.cost) for shape in pair)

    while padding > 0:
        pairs = itertools.combinations(sorted(members), 2)
        pairs = [pair for pair in pairs if _may_join(*pair)]
        if not pairs or added(pair := min(pairs, key=added)) > padding:
            break
        both = members.pop(pair[0]) + members.pop(pair[1])
        members.setdefault(_joint(*pair), []).extend(both)
    return {shape: joint for joint, shapes in members.items() for shape in shapes}


def _may_join(shape: Shape, other: Shape) -> bool:
    """Whether there is a shape that both can be padded to."""
    return 0 not in (shape.splits, other.splits) or shape[1:] == other[1:]


def _joint(shape: Shape, other: Shape) -> Shape:
    """The smallest shape that both can be padded to."""
    return Shape(*map(max, shape, other))


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
    questions = task.table.questions
    if min(lacking) < 0 or (questions is None and any(lacking[1:])):
        raise ValueError(f"{task.name}: the table does not fit {shape}")

    # Splits that no cell satisfies, and attributes of position 0.
    rows, splits, attributes = ((0, lacking[k]) for k in (0, 2, 3))
    if questions is not None:
        allowed = questions.allowed
        allowed = np.ones(len(questions.feature), bool) if allowed is None else allowed
        questions = Questions(
            feature=_pad(questions.feature, splits),
            low=jnp.pad(questions.low, splits, constant_values=CELLS - 1),
            high=_pad(questions.high, splits),
            attribute=_pad(questions.attribute, attributes),
            position=_pad(questions.position, attributes, (0, 0)),
            allowed=_pad(allowed, splits) if allow else None,
        )
    table = Table(
        _pad(task.table.cells, rows, (0, lacking.features)),
        _pad(task.table.target, rows),
        _pad(task.table.present, rows),
        questions,
    )
    masks = (task.train, task.test)
    train, test = (np.pad(np.asarray(mask, bool), ((0, 0), rows)) for mask in masks)
    return task._replace(table=table, train=train, test=test)


def _pad(array: Any, *widths: tuple[int, int]) -> jax.Array:
    """The array, padded with zeros on the host."""
    return jnp.asarray(np.pad(np.asarray(array), widths))


def lane_bytes(table: Table, recipe: Recipe) -> int:
    """About how many bytes one fit takes, by the widest part of its hypothesis.

    Args:
        table: of the fit.
        recipe: the recipe of a `Group`, with a leading axis of settings.
    """
    setting = jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], recipe)
    key = jax.random.key(0)
    fit = jax.eval_shape(boost, key, table, setting, key)
    width = max(leaf.shape[-1] for leaf in jax.tree.leaves(fit.hypotheses))
    shape = shape_of(table)
    return shape.rows * (width + 32) + 24 * max(shape[1:]) * width


def id_words(name: str) -> tuple[int, int]:
    """The 48 bits of a setting's id, as two numbers to fold into a key."""
    return int(name[:6], 16), int(name[6:], 16)


def word(text: str) -> int:
    """31 bits of a text, to fold into a key."""
    return zlib.crc32(text.encode()) & 0x7FFFFFFF
