"""The public side of a run on a table in chunks: what follows from its releases.

`chunked` asks the rows of each round and draws the release. Structures, hypotheses and the model
follow from releases alone, by the same steps as in memory (`rounds.run_rounds`). Each step is
compiled once for a recipe.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpbt import rounds
from dpbt.base import Array, Hypothesis, Public, Recipe, Release
from dpbt.checkpoints import Releases
from dpbt.privacy import pricing, totals

scaled, line_of = jax.jit(rounds.scaled), jax.jit(rounds.line_of)


@jax.jit
def opened(recipe: Recipe, prologue: Release) -> tuple[Public, Array]:
    """What is public in all rounds, and the score that every row begins with."""
    return rounds.opening_of(recipe, prologue), rounds.start_of(recipe, prologue)


@jax.jit
def _structure(recipe: Recipe, opening: Public, number: Array) -> Any:
    assert recipe.learner.structure is not None
    return recipe.learner.structure(recipe.budget, opening._replace(round=number))


@jax.jit
def _learned(
    recipe: Recipe, opening: Public, told: tuple[Array, Array, Any], release: Release
) -> tuple[Hypothesis, Array]:
    number, cap, structure = told
    public = opening._replace(cap=cap, round=number, structure=structure)
    hypothesis = recipe.learner.hypothesis(release, recipe.budget, public)
    return hypothesis, recipe.learner.hypotheses.bound(hypothesis)


class Last(NamedTuple):
    """The hypothesis that the scores do not have yet; zeros before the first round.

    Attributes:
        structure: of its round; None where the learner has none.
        hypothesis: of that round.
    """

    structure: Any
    hypothesis: Hypothesis


class Rounds:
    """The rounds of one run so far, as far as they are public.

    Attributes:
        opening: what is public in all rounds.
        bound: f32[], an upper bound on the scores of all rows after the learned rounds.
        structures: of each round that has begun; None where the learner says nothing.
        released: the release of each learned round.
        learned: its hypothesis.
    """

    def __init__(self, recipe: Recipe, opening: Public, bound: Array):
        """Begin before the first round.

        Args:
            recipe: one setting.
            opening: what is public in all rounds.
            bound: f32[], an upper bound on the scores of all rows.
        """
        self._recipe = recipe
        self._zeros: Release | None = None
        self.opening, self.bound = opening, bound
        self.structures: list[Any] = []
        self.released: list[Releases] = []
        self.learned: list[Hypothesis] = []

    def begin(self) -> None:
        """Make the structure of the next round, which follows from no row."""
        number, structure = len(self.structures), None
        if self._recipe.learner.structure is not None:
            structure = _structure(self._recipe, self.opening, jnp.int32(number))
        self.structures.append(structure)

    def learn(self, release: Releases, cap: Array) -> None:
        """Learn the hypothesis of the next round, which has begun.

        Args:
            release: of the round.
            cap: f32[], the public bound on its weights.
        """
        number = len(self.learned)
        told = jnp.int32(number), cap, self.structures[number]
        hypothesis, more = _learned(self._recipe, self.opening, told, totals.read(release))
        self.bound = self.bound + more
        self.released.append(release)
        self.learned.append(hypothesis)

    @property
    def last(self) -> Last:
        """The hypothesis of the last learned round, with the structure of that round."""
        return Last(self.structures[len(self.learned) - 1], self.learned[-1])

    def nothing(self, small: bool) -> Last:
        """A hypothesis of zeros, which changes no score, with the structure of the first round.

        Args:
            small: whether releases have 32 bits.
        """
        structure = self.structures[0]
        told = jnp.int32(0), jnp.float32(1), structure
        hypothesis, _ = _learned(self._recipe, self.opening, told, self.zero_release(small))
        return Last(structure, jax.tree.map(jnp.zeros_like, hypothesis))

    def zero_release(self, small: bool) -> Release:
        """Zeros in place of the release of a round, as post-processing reads it.

        Args:
            small: whether releases have 32 bits.
        """
        if self._zeros is None:
            draws = pricing.drawn(self._recipe, "rounds")
            self._zeros = {}
            for site, draw in draws.items():
                noisy = draw.mechanism.price.reads_rows and not draw.mechanism.selects
                wide = noisy and not small
                self._zeros[site] = jnp.zeros(draw.shape, jnp.float32 if wide else draw.dtype)
        return self._zeros


def stacked(arrays: list[Any]) -> Any:
    """Pytrees of arrays with a leading axis for rounds."""
    return jax.tree.map(lambda *each: jnp.stack(each), *arrays)
