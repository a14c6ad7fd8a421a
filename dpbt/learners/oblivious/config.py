"""The static configuration of oblivious trees, and their traced numbers."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dpbt import types
from dpbt.learners.bins.config import BinsConfig
from dpbt.types import AnyArray

MAX_DEPTH = 10
"""Trees have at most 2^10 leaves."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObliviousConfig(BinsConfig):
    """The static configuration of a learner of oblivious trees over bins.

    It adds to what every learner over bins has.

    Attributes:
        depth: D, the number of splits, in 1..MAX_DEPTH.
        attributes_per_tree: how many attributes a tree asks; the trees take these numbers in turn.
        smoothing: the weight of a leaf's neighbour, which differs in one bit, in its sum, in
            [0, 1); a leaf that differs in b bits has this to the power of b.
        num_structures: after how many trees the splits repeat; 0 for never. A model has one tree
            for each, whose leaves add up those of all of its rounds.
    """

    depth: int
    attributes_per_tree: Sequence[int]
    smoothing: float
    num_structures: int = 0

    @property
    def identity(self) -> str:
        """A text of all static settings, from which noise keys are derived."""
        tree_text = f"{self.depth}, {self.attributes_per_tree}"
        text = self.identity_with_tree_settings(tree_text, smoothing=self.smoothing)
        return f"{text}, {self.num_structures} structures" if self.num_structures else text


class ObliviousParams(NamedTuple):
    """The traced numbers of oblivious trees; each may have leading axes of settings.

    Attributes:
        noise: site -> f32[], the noise multipliers: of "sums", and of "histogram", "target" and
            "scores" where they are drawn.
        step: f32[], s: the step of a leaf whose sum is as large as its noise, in nats, or in
            spreads of a number. Or a tuple with that of each round.
        limit: f32[], v: no leaf moves a score by more, in nats or in spreads.
        curvature: f32[], h: how much a leaf's public share of the rows adds to its denominator.
        seed: f32[], a whole number below 2^24 from which the public splits follow.
    """

    noise: Mapping[str, AnyArray]
    step: types.Numbers = 0.2
    limit: types.Numbers = 0.6
    curvature: types.Numbers = 0.0
    seed: types.Numbers = 0.0
