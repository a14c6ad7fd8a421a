"""Recipes: an algorithm with its learner, its weight update and its numbers."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from dpbt.common.validate import is_traced
from dpbt.public_types import BINARY, DeclaredDomain, HoldsFunctions, Relation, as_relation
from dpbt.types.arrays import AnyArray, Release, compilation_signature
from dpbt.types.learner import WeakLearner
from dpbt.types.phases import LearnerParams, Public, WeightParams
from dpbt.types.weight_update import WeightUpdate

Target = Any
"""Declared classes or the declared range of a number: a `data.column_types.Target`.

The class lies in a room above this one. A recipe reads its `response` and its `repr`.
"""

_TRACED_FIELDS = ("params", "weight_params", "rows", "delta", "rounds")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Recipe(HoldsFunctions):
    """An algorithm: static fields, and numbers that are traced.

    Two recipes with equal static fields run the same compiled program. `jax.vmap` over a recipe
    maps over its numbers. Build one with `dpbt.recipes`.

    Two recipes are equal if their static fields are equal and their numbers have the same shapes
    and values; equal recipes have one hash. A traced number equals only itself.

    Attributes:
        rows: f32[], m: the public bound on the number of rows (add/remove), or their number
            (replace-one).
        delta: the delta of the guarantee; 0 for a pure one. It is f64[] as `dpbt.recipes` makes it,
            so that the ledger shows what was asked for.
        relation: the neighbouring relation of the guarantee.
        max_rows_per_user: the most rows that one person has. The guarantee is for all rows of a
            person together.
        limits_users: whether the training table enforces `max_rows_per_user` by ids of its users
            (`with_user_limit_of`). If not, that nobody has more rows is the owner's promise.
        target: the declared classes or range, if the learner does not tell two classes apart.
        domain: the public domain that a table must have; None if it may have any.
        name, calibration, options_text: the algorithm, its calibration and its options, as tables
            of results print them.
        params: the learner's noise multipliers and settings, a pytree of arrays of 32 bits. Leading
            axes of any number of a recipe are axes of settings.
        weight_params: the weight update's numbers.
        rounds: i32[], T. Traced, so that settings with different T share a program.
        learner: the weak learner.
        weight_update: the map from scores to the weights of the next round.
        max_rounds: the largest number of rounds that the compiled program runs; releases and
            hypotheses beyond T are zeros.

    Raises:
        ValueError: if rounds are not whole numbers from 1 to `max_rounds`; if the learner's
            sensitivities hold under another relation only; if the weights depend on all rows and
            the sensitivities do not allow it; if the sensitivities assume a total weight that the
            weight update does not keep; or if learner, weight update and target have different
            responses.
    """

    rows: AnyArray
    delta: AnyArray
    relation: Relation
    max_rows_per_user: int = 1
    limits_users: bool = False
    target: Target | None = None
    domain: DeclaredDomain | None = None
    name: str
    calibration: str
    options_text: str
    params: LearnerParams
    weight_params: WeightParams
    rounds: AnyArray
    learner: WeakLearner
    weight_update: WeightUpdate
    max_rounds: int

    _alternative = "the arguments that made it"

    def __repr__(self) -> str:
        """The text of its name and options, its rounds and rows.

        It leaves out the other numbers.
        """
        axes = np.broadcast_shapes(*map(np.shape, (self.rows, self.rounds)))
        many = f"{math.prod(axes)} settings, " if axes else f"{self.rounds} rounds, "
        about = f"{self.name}, {self.options_text}: {many}rows = {self.rows}, {self.relation.value}"
        return f"Recipe({about}, {self.calibration}; see dpbt.ledger)"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Recipe):
            return NotImplemented
        return self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[Any, ...]:
        """What equal recipes share: static fields, and the shapes and values of numbers."""
        leaves, static = jax.tree.flatten(self)
        return static, tuple(map(_hashable_leaf, leaves))

    def __post_init__(self):
        self._check_relation()
        self._check_response()
        self._check_weight_update()
        self._check_rounds()

    def _check_relation(self) -> None:
        """Refuse a learner whose sensitivities do not hold under the recipe's relation."""
        relation = self.learner.assumptions.relation
        if relation not in (None, self.relation):
            raise ValueError(
                f"the learner's sensitivities are under {as_relation(relation).value}, "
                f"the recipe says {as_relation(self.relation).value}"
            )

    def _check_response(self) -> None:
        """Refuse a weight update or a target whose response is not the learner's."""
        learner = self.learner
        update = self.weight_update
        declared = BINARY if self.target is None else self.target.response
        for subject, response in (
            (f"{update.identity} weighs rows for", update.response),
            ("the target declares", declared),
        ):
            if response != learner.response:
                raise ValueError(
                    f"{learner.identity} predicts {learner.response.description}, "
                    f"and {subject} {response.description}"
                )

    def _check_weight_update(self) -> None:
        """Refuse a weight update whose weights break an assumption of the learner."""
        learner = self.learner
        update = self.weight_update
        if update.coupled and not learner.assumptions.coupled:
            raise ValueError(
                f"{update.identity} moves the weights of all rows at once, but the sensitivities "
                f"of {learner.identity} assume that each weight depends on its own row alone"
            )
        if learner.assumptions.total_weight and not update.coupled:
            raise ValueError(
                f"the sensitivities of {learner.identity} assume a total weight of kappa rows, "
                f"which {update.identity} does not keep"
            )

    def _check_rounds(self) -> None:
        """Refuse rounds that are no whole numbers from 1 to `max_rounds`."""
        # A recipe is a pytree, so rounds may be anything that stands for a leaf: a tracer, an axis.
        if not isinstance(self.rounds, float | np.ndarray | np.generic):
            return
        rounds = np.asarray(self.rounds)
        is_out_of_range = rounds.dtype.kind in "iu" and not np.all(
            (rounds >= 1) & (rounds <= self.max_rounds)
        )
        if rounds.dtype.kind == "f" or is_out_of_range:
            raise ValueError(
                f"rounds must be whole numbers in 1..{self.max_rounds}, the recipe's max_rounds, "
                f"got {rounds.tolist()}"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes of settings; empty for one setting."""
        return np.shape(self.rows)

    @property
    def component_identities(self) -> list[str]:
        """The texts that identify its learner, weight update, prologue and epilogue."""
        once = (self.learner.prologue, self.learner.epilogue)
        return [
            self.learner.identity,
            self.weight_update.identity,
            *(phase.identity for phase in once if phase is not None),
        ]

    @property
    def has_independent_rounds(self) -> bool:
        """Whether no round reads the releases of other rounds.

        Then one pass can make many of them.
        """
        learner = self.learner
        alone = learner.epilogue is None and learner.optimizer is None
        return alone and not self.weight_update.reads_scores

    def with_user_limit_of(self, table: Any) -> "Recipe":
        """Copy the recipe with `limits_users` set for a fit of this table.

        Args:
            table: a table, or a table in blocks. It limits the rows of its users if it has
                `rows_per_user`.
        """
        limits_users = table.rows_per_user is not None
        if self.limits_users == limits_users:
            return self
        return dataclasses.replace(self, limits_users=limits_users)

    def public(self, prologue: Release | None = None) -> Public:
        """The public information of every round, given the release of the prologue.

        Its cap is 1, which holds outside of rounds.
        """
        return Public(
            max_rows=self.rows,
            cap=np.float32(1),
            weight_params=self.weight_params,
            prologue=prologue or {},
        )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MultiProgramRecipe(HoldsFunctions):
    """A recipe of several settings of one algorithm that run different programs.

    A recipe such as `auto` chooses static parts, like the depth of its trees, by numbers such as
    epsilon. `jax.vmap(dpbt.boost)` maps over such settings as over those of a `Recipe`. Every
    setting releases what it releases alone: the outcome of each other program is zeros there, so
    that nothing but its own recipe is released and priced.

    `recipes.setting` is the recipe of one setting, with its ledger. Two of these recipes are equal
    if all of their programs and numbers are.

    Attributes:
        programs: a recipe for each program, whose numbers have the axes of all settings. At the
            settings that run another program they are copies of those of a setting that runs this
            one, so that every program runs with valid numbers.
        program: i32[...], the place in `programs` of the program that each setting runs.
    """

    programs: tuple[Recipe, ...]
    program: AnyArray

    _alternative = "the arguments that made it"

    def __repr__(self) -> str:
        """The text of its settings, and of the names and options of its programs.

        It leaves out the other numbers.
        """
        names = "; ".join(f"{program.name}, {program.options_text}" for program in self.programs)
        about = f"{math.prod(self.shape)} settings of {len(self.programs)} programs: {names}"
        return f"MultiProgramRecipe({about}; see recipes.setting)"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, MultiProgramRecipe):
            return NotImplemented
        return self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes of settings; empty for one setting."""
        return np.shape(self.program)

    @property
    def _identity(self) -> tuple[Any, ...]:
        """What equal recipes share: the programs, and the program of each setting."""
        return self.programs, _hashable_leaf(self.program)


jax.tree_util.register_dataclass(MultiProgramRecipe, ["programs", "program"], [])


def recipe_compilation_signature(recipe: Recipe) -> tuple[Any, ...]:
    """What a compiled program depends on in a recipe of one setting.

    The result is hashable, and leaves out the room for rounds. Recipes of equal structures can be
    stacked (`stack_recipes`), and one program then runs them.
    """
    return compilation_signature(dataclasses.replace(recipe, max_rounds=2**31 - 1))


def stack_recipes(recipes: Sequence[Recipe]) -> Recipe:
    """Stack recipes of one setting each into one recipe.

    It has a leading axis of settings. Their structures must be equal
    (`recipe_compilation_signature`).

    The result has the largest `max_rounds` of them. A run releases the same for any.
    """
    max_rounds = max(recipe.max_rounds for recipe in recipes)
    with_room = [dataclasses.replace(recipe, max_rounds=max_rounds) for recipe in recipes]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *with_room)


def _hashable_leaf(leaf: Any) -> Any:
    """A hashable value of a leaf of a pytree, by which recipes are compared.

    A traced leaf, or one that is no number, equals only itself.
    """
    if is_traced(leaf):
        return id(leaf)
    array = np.asarray(leaf)
    return id(leaf) if array.dtype == object else (array.shape, tuple(array.reshape(-1).tolist()))


_STATIC_FIELDS = [
    field.name for field in dataclasses.fields(Recipe) if field.name not in _TRACED_FIELDS
]
jax.tree_util.register_dataclass(Recipe, list(_TRACED_FIELDS), _STATIC_FIELDS)
