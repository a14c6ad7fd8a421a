"""What is static in an additive model, and the numbers of it that are traced."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int32, Int64

from dpbt import types
from dpbt.learners.oblivious.config import ObliviousConfig
from dpbt.types import AnyArray

MAX_PAIR_GROUPS = 8
"""The most groups that the bins of a column in order are joined to in a pair."""


class AdditiveParams(NamedTuple):
    """The traced numbers of an additive model; each may have leading axes of settings.

    Attributes:
        noise: site -> f32[], the noise multiplier of "bins", and of the one-time draws.
        step: f32[], how far a round moves a bin whose sum is as large as its noise, in nats, or in
            spreads of a number. It falls to 0 over the second half of the rounds.
        limit: f32[], the largest learning rate, for the mean gradient of features of length 1.
        momentum: f32[], in [0, 1), of Nesterov's kind.
        rounds: f32[], T.
    """

    noise: dict[str, AnyArray]
    step: types.Numbers = 0.02
    limit: types.Numbers = 12.0
    momentum: types.Numbers = 0.9
    rounds: types.Numbers = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdditiveConfig:
    """What is static in an additive model.

    Attributes:
        base: the columns, the one-time draws, the relation, the noise, the response and the
            directions of monotone columns. Its choices about trees are not used.
        resolutions: the numbers of groups that the bins of a column in order are joined to. A
            column of fewer bins, or without an order, has a group for each bin.
        capacity: the most rounds.
        pairs: the numbers of the two columns of each pair, which has cells of its own.
    """

    base: ObliviousConfig
    resolutions: tuple[int, ...]
    capacity: int
    pairs: tuple[tuple[int, int], ...] = ()

    @property
    def identity(self) -> str:
        """Every static part as text, which enters keys."""
        return f"{self.resolutions}, {self.capacity}, {self.pairs}, {self.base.identity}"

    @property
    def partitions(self) -> int:
        """Q (F + P): how many groups a row is in."""
        return len(self.resolutions) * (len(self.base.attributes) + len(self.pairs))

    def sizes(self, counts: Sequence[int]) -> Int64[np.ndarray, "Q F"]:
        """i64[Q, F]: how many groups each column has where bins are joined to so many."""
        bins = np.array([each.n_bins for each in self.base.attributes])
        ordered = np.array([each.ordered for each in self.base.attributes])
        return np.where(ordered, np.minimum(bins, np.array(counts)[:, None]), bins)

    @property
    def columns(self) -> Int32[np.ndarray, "P 2"]:
        """i32[P, 2]: the columns of each pair."""
        return np.array(self.pairs, np.int32).reshape(-1, 2)

    @property
    def grid(self) -> Int64[np.ndarray, "P 2"]:
        """i64[P, 2]: how many groups of each column make the cells of a pair."""
        return self.sizes((min(max(self.resolutions), MAX_PAIR_GROUPS),))[0][self.columns]

    @property
    def known(self) -> Bool[np.ndarray, "_ C"]:
        """bool[F + P, C]: the bins of each column and the cells of each pair."""
        bins = [each.n_bins for each in self.base.attributes] + self.grid.prod(axis=1).tolist()
        return np.arange(max(bins)) < np.array(bins)[:, None]
