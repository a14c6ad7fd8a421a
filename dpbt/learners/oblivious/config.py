"""What is static in oblivious trees, and the numbers of them that are traced."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32

from dpbt import types
from dpbt.common.arithmetic import round_separately
from dpbt.privacy.mechanism import Mechanism
from dpbt.types import AnyArray, Array

MAX_DEPTH = 10
"""Trees have at most 2^10 leaves."""


class Attribute(NamedTuple):
    """What a public domain says of the bins of a feature.

    Attributes:
        n_bins: how many there are.
        ordered: whether their order means anything; if not, trees ask for random subsets.
    """

    n_bins: int
    ordered: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObliviousConfig:
    """What is static in an oblivious tree.

    Attributes:
        attributes: of the public domain, one for each feature.
        depth: D, the number of splits, in 1..MAX_DEPTH.
        attributes_per_tree: how many attributes a tree asks; the trees take these numbers in turn.
        marginals: whether a prologue releases the class histogram of every attribute. Thresholds
            then follow the released histograms instead of being evenly spaced, scores start from
            the released log odds, and steps know how many rows a leaf has.
        scores: whether an epilogue releases the final scores by class, and maps scores by a line
            that makes probabilities true (`bins.epilogue.fit_score_line`).
        smoothing: the weight of a leaf's neighbour, which differs in one bit, in its sum, in
            [0, 1); a leaf that differs in b bits has this to the power of b.
        relation: the neighbouring relation of the ledger.
        noise: `mechanisms.rounded_gaussian` or `mechanisms.discrete_laplace`.
        response: what is predicted. A number always has a prologue, which releases its histogram.
        monotone: for each attribute 1 if scores must not fall with its bins, -1 if they must not
            rise, and 0 otherwise; empty if there are no constraints.
        target_bins: how many bins the histogram of a number has.
        structures: after how many trees the splits repeat; 0 for never. A model has one tree for
            each, whose leaves add up those of all of its rounds.
    """

    attributes: tuple[Attribute, ...]
    depth: int
    attributes_per_tree: Sequence[int]
    marginals: bool
    scores: bool
    smoothing: float
    relation: types.Relation
    noise: Mechanism
    response: types.Response = types.BINARY
    monotone: tuple[int, ...] = ()
    target_bins: int = 32
    structures: int = 0

    @property
    def known(self) -> Bool[np.ndarray, "F C"]:
        """bool[F, C]: the bins that each feature has; C is the most bins of a feature."""
        bins = np.array([[attribute.n_bins] for attribute in self.attributes])
        return np.arange(bins.max()) < bins

    @property
    def identity(self) -> str:
        """Every static part as text, which enters keys."""
        bins = " ".join(f"{each.n_bins}{'o' if each.ordered else 'n'}" for each in self.attributes)
        once = f"{self.marginals}, {self.scores}"
        static = f"{self.depth}, {self.attributes_per_tree}, {once}, {self.smoothing!r}"
        options = "" if self.response == types.BINARY else f", {self.response.words}"
        if self.response.is_number:
            options += f" in {self.target_bins} bins"
        if any(self.monotone):
            options += f", {self.monotone}"
        if self.structures:
            options += f", {self.structures} structures"
        under = types.as_relation(self.relation).value
        return f"{bins}, {static}, {under}, {self.noise.name}{options}"


class ObliviousParams(NamedTuple):
    """The traced numbers of oblivious trees; each may have leading axes of settings.

    Attributes:
        noise: f32[], the noise multiplier of "sums", and of "histogram", "target" and "scores"
            where they are drawn.
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


def noise_deviation(
    config: ObliviousConfig, params: types.Params, *, site: str, site_sensitivity: float
) -> Float32[Array, ""]:
    """f32[]: the standard deviation of the noise at a site of that sensitivity."""
    unit_deviation = math.sqrt(2) if config.noise.price.norm == "l1" else 1.0
    return round_separately(np.float32(unit_deviation * site_sensitivity) * params.noise[site])
