"""The static configuration of a learner over the bins of a domain, and the size of its noise."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32

from dpbt import types
from dpbt.common.arithmetic import round_separately
from dpbt.privacy.mechanism_types import Mechanism
from dpbt.types import Array

MIN_ESTIMATED_ROWS = 10.0
"""The least number of rows that a noisy count is taken for.

Estimates divide by these numbers, and where noise hides the rows a count may be 0 or below.
"""


class Attribute(NamedTuple):
    """The bins of a feature, as the public domain declares them.

    Attributes:
        n_bins: how many there are.
        ordered: whether their order means anything; if not, trees ask for random subsets.
    """

    n_bins: int
    ordered: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class BinsConfig:
    """The static configuration of a learner over the bins of a domain, whatever it learns.

    Attributes:
        attributes: of the public domain, one for each feature.
        draws_histograms: whether a prologue releases the class histogram of every attribute.
            Thresholds then follow the released histograms instead of being evenly spaced, scores
            start from the released log odds, and steps know how many rows a leaf has.
        draws_scores: whether an epilogue releases the final scores by class, and maps scores by a
            line that makes probabilities true (`bins.epilogue.fit_score_line`).
        relation: the neighbouring relation of the ledger.
        noise: `mechanisms.rounded_gaussian` or `mechanisms.discrete_laplace`.
        response: what is predicted. A number always has a prologue, which releases its histogram.
        monotone: for each attribute 1 if scores must not fall with its bins, -1 if they must not
            rise, and 0 otherwise; empty if there are no constraints.
        target_bins: how many bins the histogram of a number has.
        draws_slope: whether the epilogue of a number may release sums that tell a slope
            (`bins.number_line.releases_slope_sums`). A model that is a constant has no slope.
    """

    attributes: tuple[Attribute, ...]
    draws_histograms: bool
    draws_scores: bool
    relation: types.Relation
    noise: Mechanism
    response: types.Response = types.BINARY
    monotone: tuple[int, ...] = ()
    target_bins: int = 32
    draws_slope: bool = True

    @property
    def bin_mask(self) -> Bool[np.ndarray, "F C"]:
        """bool[F, C]: which of C bins each feature has.

        C is the largest number of bins of a feature.
        """
        num_bins = np.array([[attribute.n_bins] for attribute in self.attributes])
        return np.arange(num_bins.max()) < num_bins

    @property
    def identity(self) -> str:
        """A text of all static settings, from which noise keys are derived.

        Keys of additive models were first derived from the text of trees of one split, so the text
        has these.
        """
        return self.identity_with_tree_settings("1, (1,)", smoothing=0.0)

    def identity_with_tree_settings(self, tree_text: str, *, smoothing: float) -> str:
        """A text of all settings, with those of a tree learner, from which noise keys are derived.

        Args:
            tree_text: the depth of the trees, and how many attributes they ask.
            smoothing: the weight of a leaf's neighbour.
        """
        bins = " ".join(
            f"{attribute.n_bins}{'o' if attribute.ordered else 'n'}"
            for attribute in self.attributes
        )
        one_time_draws = f"{self.draws_histograms}, {self.draws_scores}"
        options = "" if self.response == types.BINARY else f", {self.response.description}"
        if self.response.is_number:
            options += f" in {self.target_bins} bins"
            options += "" if self.draws_slope else " without a slope"
        if any(self.monotone):
            options += f", {self.monotone}"
        under = types.as_relation(self.relation).value
        return (
            f"{bins}, {tree_text}, {one_time_draws}, {smoothing!r}, {under}, "
            f"{self.noise.name}{options}"
        )


def noise_deviation_at_site(
    config: BinsConfig, params: types.Params, *, site: str, site_sensitivity: float
) -> Float32[Array, ""]:
    """f32[]: the standard deviation of the noise at a site, in the unit of its sensitivity."""
    unit_deviation = math.sqrt(2) if config.noise.price.uses_l1_sensitivity else 1.0
    return round_separately(np.float32(unit_deviation * site_sensitivity) * params.noise[site])
