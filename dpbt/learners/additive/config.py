"""The static configuration of an additive model, and its traced numbers."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int32, Int64

from dpbt import types
from dpbt.learners.bins.config import BinsConfig
from dpbt.types import AnyArray

MAX_PAIR_GROUPS = 8
"""The most groups that the bins of a column in order are joined to in a pair."""


class AdditiveParams(NamedTuple):
    """The traced numbers of an additive model; each may have leading axes of settings.

    Attributes:
        noise: site -> f32[], the noise multiplier of "bins", and of the one-time draws.
        step: f32[], how far a round moves a bin whose sum is as large as its noise, in nats, or in
            spreads of a number. It falls to 0 over the second half of the rounds.
        max_learning_rate: f32[], the largest learning rate, for the mean gradient of features of
            length 1.
        momentum: f32[], in [0, 1), of Nesterov's kind.
        rounds: f32[], T.
    """

    noise: dict[str, AnyArray]
    step: types.Numbers = 0.02
    max_learning_rate: types.Numbers = 12.0
    momentum: types.Numbers = 0.9
    rounds: types.Numbers = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdditiveConfig:
    """The static configuration of an additive model.

    Attributes:
        bins: the columns, the one-time draws, the relation, the noise, the response and the
            directions of monotone columns.
        resolutions: the numbers of groups that the bins of a column in order are joined to. A
            column of fewer bins, or without an order, has a group for each bin.
        max_rounds: the largest number of rounds that the compiled program runs.
        pairs: the numbers of the two columns of each pair, which has cells of its own.
    """

    bins: BinsConfig
    resolutions: tuple[int, ...]
    max_rounds: int
    pairs: tuple[tuple[int, int], ...] = ()

    @property
    def identity(self) -> str:
        """A text of all static settings, from which noise keys are derived."""
        return f"{self.resolutions}, {self.max_rounds}, {self.pairs}, {self.bins.identity}"

    @property
    def num_groups_per_row(self) -> int:
        """The number of groups of bins or cells that each row is in: Q (F + P).

        Each of Q resolutions groups the bins of F columns and the cells of P pairs.
        """
        return len(self.resolutions) * (len(self.bins.attributes) + len(self.pairs))

    def num_groups_of_columns(self, max_groups: Sequence[int]) -> Int64[np.ndarray, "Q F"]:
        """i64[Q, F]: the number of groups of each column under each of Q maximum numbers.

        A column without an order keeps a group for each bin.
        """
        num_bins = np.array([attribute.n_bins for attribute in self.bins.attributes])
        ordered = np.array([attribute.ordered for attribute in self.bins.attributes])
        return np.where(ordered, np.minimum(num_bins, np.array(max_groups)[:, None]), num_bins)

    @property
    def columns_of_pairs(self) -> Int32[np.ndarray, "P 2"]:
        """i32[P, 2]: the columns of each pair."""
        return np.array(self.pairs, np.int32).reshape(-1, 2)

    @property
    def pair_grid_shapes(self) -> Int64[np.ndarray, "P 2"]:
        """i64[P, 2]: the grid of cells of each pair, as numbers of groups of both columns."""
        max_groups = min(max(self.resolutions), MAX_PAIR_GROUPS)
        return self.num_groups_of_columns((max_groups,))[0][self.columns_of_pairs]

    @property
    def bin_and_cell_mask(self) -> Bool[np.ndarray, "_ C"]:
        """bool[F + P, C]: which of C places are bins of each column, or cells of each pair."""
        num_bins = [attribute.n_bins for attribute in self.bins.attributes]
        num_bins += self.pair_grid_shapes.prod(axis=1).tolist()
        return np.arange(max(num_bins)) < np.array(num_bins)[:, None]
