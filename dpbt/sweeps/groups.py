"""Groups of settings that share a program, and the memory that one fit of them takes."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.data import domains
from dpbt.sweeps.grid import Setting, Sweep, Task
from dpbt.training import checks, steps, table_preparation
from dpbt.training.scan import num_recurring_structures_to_cache
from dpbt.types import Recipe, Table
from dpbt.types.recipe import recipe_compilation_signature, stack_recipes


class TableShape(NamedTuple):
    """The numbers of rows, features, splits and attributes of a table.

    Attributes:
        rows: N.
        features: F.
        splits: S; 0 for a table of exact numbers.
        attributes: A; 0 for a table of exact numbers.
    """

    rows: int
    features: int
    splits: int
    attributes: int


def shape_of_table(table: Table) -> TableShape:
    """The numbers of rows, features, splits and attributes of a table."""
    rows, features = table.bins.shape
    if table.splits is None:
        return TableShape(rows=rows, features=features, splits=0, attributes=0)
    return TableShape(
        rows=rows,
        features=features,
        splits=len(table.splits.feature),
        attributes=len(table.splits.attribute),
    )


class Group(NamedTuple):
    """Settings that share a program, sorted by their rounds.

    Attributes:
        structure: what they share. Two groups have equal structures if and only if one program
            serves both, on tables of one shape.
        recipe: their recipes, every leaf with a leading axis [K].
        indices: i64[K], their places in `Sweep.settings`.
        max_rounds: i64[K], the room for rounds that each recipe had before it joined the group.
    """

    structure: Any
    recipe: Recipe
    indices: np.ndarray
    max_rounds: np.ndarray


class _Member(NamedTuple):
    """A setting of a group: its recipe, and its place in `Sweep.settings`."""

    recipe: Recipe
    setting: int


def group_settings(sweep: Sweep, task: Task) -> list[Group]:
    """Group the settings of a sweep so that those of one group share a program.

    There are as few groups as static parts allow, and every setting is in one of them.

    Raises:
        ValueError: if the maker does not return the recipe of one setting, as the maker, and for a
            recipe that cannot learn from the table (`checks.check_table_and_recipe`).
        TypeError: if the maker does not take the axes and the arguments by their names.
    """
    members: dict[Any, list[_Member]] = {}
    for index, setting in enumerate(sweep.settings):
        # A program depends on the shapes of numbers, and on all static parts but two: the domain,
        # and the room for rounds.
        recipe = make_recipe(sweep, task, setting)
        structure = recipe_compilation_signature(recipe)
        if structure not in members:
            checks.check_table_and_recipe(task.table, recipe)
        members.setdefault(structure, []).append(_Member(recipe=recipe, setting=index))
    return [_group_of_stacked_members(structure, group) for structure, group in members.items()]


def make_recipe(sweep: Sweep, task: Task, setting: Setting) -> Recipe:
    """Make the recipe of a setting on a task, without the domain, which is the table's.

    Raises:
        ValueError: if the maker does not return the recipe of one setting, or one of another
            domain than the table's, and as the maker.
        TypeError: if the maker does not take the axes and the arguments by their names.
    """
    recipe = sweep.make(**setting, **task.arguments)
    if not isinstance(recipe, Recipe) or np.ndim(recipe.rounds):
        shape = f" of settings of shape {recipe.shape}" if isinstance(recipe, Recipe) else ""
        raise ValueError(
            f"make must return the recipe of one setting, got {type(recipe).__name__}{shape}"
        )
    domains.check_same_domain(task.table.domain, recipe.domain, f"task {task.name!r}", "the recipe")
    return table_preparation.without_domain(recipe)


def _group_of_stacked_members(structure: Any, members: list[_Member]) -> Group:
    """Stack the recipes of some settings to a group, in the order of their rounds.

    Each recipe of it has room for the largest number of rounds.
    """
    by_rounds = sorted(members, key=lambda member: int(member.recipe.rounds))
    return Group(
        structure=structure,
        recipe=stack_recipes([member.recipe for member in by_rounds]),
        indices=np.asarray([member.setting for member in by_rounds]),
        max_rounds=np.asarray([member.recipe.max_rounds for member in by_rounds]),
    )


def estimate_lane_bytes(table: Table, recipe: Recipe) -> int:
    """Estimate how many bytes one fit takes, by the widest part of its hypothesis.

    The recipe is that of a `Group`, with a leading axis of settings.
    """
    setting = jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], recipe)
    hypothesis = jax.eval_shape(steps.hypothesis_shapes_after_zero_prologue, setting)
    width = max(leaf.shape[-1] for leaf in jax.tree.leaves(hypothesis) if leaf.shape)
    rows, *other_lengths = shape_of_table(table)
    scores_of_row = math.prod(recipe.learner.response.score_axes)
    return (
        rows * (width + 32 * scores_of_row + 2 * num_recurring_structures_to_cache(recipe, rows))
        + 24 * max(other_lengths) * width
    )
