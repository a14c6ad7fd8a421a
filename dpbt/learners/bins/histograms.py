"""The histograms that learners of bins draw once: of classes by bin, of a number, and of scores."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Int32

from dpbt import types
from dpbt.learners.bins.config import BinsConfig, noise_deviation_at_site
from dpbt.privacy import sensitivity
from dpbt.privacy.boundary import Draw, RowSum
from dpbt.privacy.sensitivity import num_changed_rows, round_grid_units_to_rows
from dpbt.types import Array

HISTOGRAM_SITE = "histogram"
"""The site of the class histograms of all attributes."""

TARGET_SITE = "target"
"""The site of the histogram of a number that is predicted."""

SCORES_SITE = "scores"
"""The site of what is drawn after the last round: scores by class, or sums of final residuals."""


def class_histograms_sensitivity(config: BinsConfig) -> float:
    """The sensitivity of the class histograms of all attributes together, in rows.

    It is in the norm by which the mechanism is priced.

    Proof. A row is in one bin of each of F histograms, in the column of its class. It adds at most
    1 to that count, by its own weight, before counts are rounded to whole rows. Two numbers that
    differ by at most 1 are at most 1 apart once they are rounded. Under add/remove F counts move by
    at most 1: L1 = F and L2 = sqrt(F). Under replace-one at most 2 F counts move by 1: L1 = 2 F and
    L2 = sqrt(2 F).
    """
    return config.noise.sensitivity_in_norm(
        sensitivity.histograms_sensitivity(config.relation, len(config.attributes))
    )


def sum_row_weights_by_bin_and_class(
    config: BinsConfig, bins: Array, target: Array, weights: Array
) -> Int32[Array, "F C K"]:
    """i32[F, C, K]: sum up the weights of the rows of each bin and class, for each feature.

    The sums are in 1 / GRID of a row. C is the most bins of a feature. For a number K is 1. A bin
    that its feature does not have is beyond C, or has a sum that nothing reads.
    """
    num_classes = max(config.response.num_classes, 1)
    max_bins = config.bin_mask.shape[1]
    row_weights = weights.astype(jnp.int32)
    label = jnp.zeros(row_weights.shape, jnp.int32)
    if not config.response.is_number:
        label = target.astype(jnp.int32)
        row_weights = jnp.where(label < num_classes, row_weights, 0)

    def histogram_of_feature(bin: Array) -> Array:
        segment = num_classes * bin.astype(jnp.int32) + jnp.minimum(label, num_classes - 1)
        counts = jax.ops.segment_sum(row_weights, segment, num_classes * max_bins)
        return counts.reshape(max_bins, num_classes)

    return jax.lax.map(histogram_of_feature, bins)


def draw_histogram_with_one_bin_per_row(
    config: BinsConfig, draw: Draw, counts: Array, *, site: str, theorem: str, releases: str
) -> None:
    """Draw one noisy histogram, in which each row is in one bin, in whole rows.

    The caller makes sure that no row is in two bins: the sensitivity assumes it.

    Args:
        config: the static parts.
        draw: the program's access to random draws.
        counts: i32[...], the rows in each bin, in 1 / GRID of a row; private.
        site: of the draw.
        theorem: where its sensitivity is proved.
        releases: what it releases, in words.
    """
    draw(
        site,
        config.noise,
        RowSum(counts, round_grid_units_to_rows),
        sensitivity=sensitivity.histograms_sensitivity(config.relation),
        moved_outputs=num_changed_rows(config.relation),
        theorem=theorem,
        releases=releases,
    )


def histogram_noise_deviation(
    config: BinsConfig, params: types.Params, site: str
) -> Float32[Array, ""]:
    """f32[]: the standard deviation of the noise in one count of a drawn histogram, in rows."""
    one_histogram = sensitivity.histograms_sensitivity(config.relation)
    return noise_deviation_at_site(
        config,
        params,
        site=site,
        site_sensitivity=config.noise.sensitivity_in_norm(one_histogram),
    )


def sum_row_weights_by_target_bin(
    target: Float32[Array, "N"], row_weights: Int32[Array, "N"], num_bins: int
) -> Int32[Array, "B"]:
    """i32[B]: sum up the weights of the rows whose target is in each bin, in 1 / GRID of a row.

    A row adds at most 1, by its own weight, to the count of one bin before counts are rounded to
    whole rows. Two numbers that differ by at most 1 are at most 1 apart once they are rounded. So
    its sensitivity is that of one histogram (`sensitivity.histograms_sensitivity`).

    Args:
        target: f32[N], positions; what is outside of [0, 1] counts as the nearer end.
        row_weights: i32[N], the weight of each row, in 1 / GRID of a row.
        num_bins: B, how many bins of equal width the range is cut into.
    """
    bin = jnp.clip(jnp.floor(jnp.nan_to_num(target) * num_bins), 0, num_bins - 1)
    return jax.ops.segment_sum(row_weights, bin.astype(jnp.int32), num_bins)


def middles_of_equal_bins(num_bins: int) -> Float32[Array, "B"]:
    """f32[B]: the middle of each of B bins of equal width in the range 0..1."""
    return jnp.asarray((np.arange(num_bins) + 0.5) / num_bins, jnp.float32)
