"""What oblivious trees draw once, before the first round: histograms of columns and of a number.

Class histograms of all attributes say where rows are, and where scores start. The histogram of a
number's positions says where scores start, and in which unit residuals are measured. A declared
range may be far wider than the numbers in it. Residuals are clipped at a multiple of the spread
that this histogram shows, so a generous range costs little noise.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common.arithmetic import rounded
from dpbt.common.types import BINARY, NUMBER, Array, Params, Prologue, Public, Release
from dpbt.learners.oblivious_splits import Config, Rows, cells_of
from dpbt.privacy import boundary, sensitivity
from dpbt.privacy.mechanism import Numbers
from dpbt.privacy.sensitivity import moved_rows, whole_rows

TARGET_SITE = "target"


# The centres and the spreads (standard deviations) between which the counts decide, as positions.
_CENTERS = ((np.arange(128) + 0.5) / 128).astype(np.float32)
_SPREADS = np.geomspace(1 / 256, 0.5, 29).astype(np.float32)

# What is expected before anything is released.
_SPREAD, _LOG_SPREAD = 0.15, 1.0
_CENTER, _OFF_CENTER = 0.5, 0.3

_UNLIKE = 0.3
"""How far counts are from those of a logistic distribution, as a share of what is expected."""


def histogram_sensitivity(config: Config) -> float:
    """How far one row moves all class histograms together, in rows, in the mechanism's norm.

    Proof. A row is in one bin of each of F histograms, in the column of its class. It adds at most
    1 to that count, by its own weight, before counts are rounded to whole rows. Two numbers that
    differ by at most 1 are at most 1 apart once they are rounded. Under add/remove F counts move by
    at most 1: L1 = F and L2 = sqrt(F). Under replace-one at most 2 F counts move by 1: L1 = 2 F and
    L2 = sqrt(2 F).
    """
    return config.noise.bound(sensitivity.histograms(config.relation, len(config.attributes)))


def histograms(config: Config, bins: Array, target: Array, weights: Array) -> Array:
    """i32[F, C, K]: how many rows of each class have each bin, in 1 / GRID of a row.

    C is the most bins of a feature. For a number K is 1. A row counts by its weight. A bin that
    its feature does not have is beyond C, or has a count that nothing reads.
    """
    columns = config.columns
    part = weights.astype(jnp.int32)
    label = jnp.zeros(part.shape, jnp.int32)
    if config.response != NUMBER:
        label = target.astype(jnp.int32)
        part = jnp.where(label < columns, part, 0)

    def of_feature(bin: Array) -> Array:
        place = columns * bin.astype(jnp.int32) + jnp.minimum(label, columns - 1)
        counts = jax.ops.segment_sum(part, place, columns * config.widest)
        return counts.reshape(config.widest, columns)

    return jax.lax.map(of_feature, bins)


def known_bins(config: Config) -> np.ndarray:
    """bool[F, C]: the bins that each feature has."""
    return np.stack(
        [np.arange(config.widest) < attribute.n_bins for attribute in config.attributes]
    )


def _program(
    config: Config,
    draw: boundary.Draw,
    rows: Rows,
    weights: Array,
    params: Params,
    public: Public,
) -> None:
    """The class histograms of all attributes, and the histogram of a number."""
    del params, public
    if config.marginals:
        counts = histograms(config, cells_of(config.attributes, rows), rows.target, weights)
        draw(
            "histogram",
            config.noise,
            boundary.Total(counts, whole_rows),
            sensitivity=histogram_sensitivity(config),
            moves=len(config.attributes) * moved_rows(config.relation),
            theorem="docs/privacy.md O1",
            releases=f"{'' if config.response == NUMBER else 'class '}histogram of every attribute",
        )
    if config.response == NUMBER:
        counts = target_counts(rows.target, weights.astype(jnp.int32), config.target_bins)
        draw(
            TARGET_SITE,
            config.noise,
            boundary.Total(counts, whole_rows),
            sensitivity=sensitivity.histograms(config.relation),
            moves=moved_rows(config.relation),
            theorem="docs/privacy.md O1",
            releases="histogram of the target",
        )


def fitted_target(config: Config, release: Release, params: Params) -> tuple[Array, Array, Array]:
    """(centre, spread, rows) of a number, as its released histogram says."""
    moved = config.noise.bound(sensitivity.histograms(config.relation))
    return fitted(release[TARGET_SITE], deviation(config, moved, params, TARGET_SITE))


def deviation(config: Config, moved: float, params: Params, site: str) -> Array:
    """f32[]: the standard deviation of the noise at a site, of a sensitivity."""
    return rounded(np.float32(config.deviation * moved) * params.noise[site])


def class_totals(config: Config, histogram: Array) -> Array:
    """f32[K]: the classes' numbers of rows, each the median over attributes; at least 10."""
    known = jnp.asarray(known_bins(config))[..., None]
    totals = jnp.sum(jnp.where(known, histogram, 0), axis=1).astype(jnp.float32)
    return jnp.maximum(jnp.median(totals, axis=0), 10.0)


def _start(config: Config, release: Release, params: Params) -> Array:
    """The score that rows start from.

    Of two classes it is f32[], the log ratio in bits, shrunk by noise. Of several classes it is
    f32[K], the logarithms of their shares, with mean 0. Of a number it is f32[], its centre.
    """
    if config.response == NUMBER:
        return fitted_target(config, release, params)[0]
    totals = class_totals(config, release["histogram"])
    bins = float(known_bins(config).sum(axis=1).mean())
    columns = bins / len(config.attributes)
    moved = histogram_sensitivity(config) * math.sqrt(columns)
    shrunk = totals + rounded(3 * deviation(config, moved, params, "histogram"))
    if config.response == BINARY:
        return jnp.log2(shrunk[1] / shrunk[0])
    logs = rounded(jnp.log2(shrunk))
    return logs - rounded(jnp.mean(logs))


def prologue(config: Config) -> Prologue:
    """The prologue of oblivious trees with class histograms, or of a number."""
    program = functools.partial(_program, config)
    start, tag = functools.partial(_start, config), f"histograms({config.tag})"
    if config.response == NUMBER:
        fitted = functools.partial(fitted_target, config)
        unit, seen = (lambda *read: fitted(*read)[1]), (lambda *read: fitted(*read)[2])
        return Prologue(program, start, tag, unit, seen)

    def members(release: Release, params: Params) -> Array:
        del params
        return jnp.sum(class_totals(config, release["histogram"]))

    return Prologue(program, start, tag, seen=members)


def target_counts(target: Array, rows: Array, bins: int) -> Array:
    """i32[B]: how many rows have their number in each bin.

    A row adds at most 1, by its own weight, to the count of one bin before counts are rounded to
    whole rows. Two numbers that differ by at most 1 are at most 1 apart once they are rounded. So
    its sensitivity is that of one histogram (`sensitivity.histograms`).

    Args:
        target: f32[N], positions; what is outside of [0, 1] counts as the nearer end.
        rows: i32[N], the weight of each row, in 1 / GRID of a row.
        bins: B, how many bins of equal width the range is cut into.
    """
    place = jnp.clip(jnp.floor(jnp.nan_to_num(target) * bins), 0, bins - 1)
    return jax.ops.segment_sum(rows, place.astype(jnp.int32), bins)


def fitted(noisy: Array, deviation: Numbers) -> tuple[Array, Array, Array]:
    """(f32[] centre, f32[] spread, f32[] rows) of noisy counts; post-processing.

    The counts are compared with those of logistic distributions of many centres and spreads. Each
    is as likely as its misfit says. Counts vary by their noise, as Poisson counts do, and by three
    tenths of what is expected, since no number follows a logistic law closely. The result is the
    mean over all of them, with a broad prior. So where noise hides the counts, the middle of the
    range and a spread of about a seventh of it remain.

    Args:
        noisy: i32[B], noisy `target_counts`, in rows.
        deviation: f32[], the standard deviation of the noise, in rows.
    """
    center = jnp.asarray(_CENTERS)[:, None]
    spread = jnp.asarray(_SPREADS)[None, :]

    # The share of each bin; the ends of the range hold what lies beyond.
    bins = noisy.shape[0]
    edges = jnp.arange(1, bins, dtype=jnp.float32) / bins
    scale = spread * np.float32(math.sqrt(3) / math.pi)
    below = jax.nn.sigmoid((edges[None, None, :] - center[..., None]) / scale[..., None])
    ends = (*below.shape[:2], 1)
    share = jnp.diff(jnp.concatenate([jnp.zeros(ends), below, jnp.ones(ends)], axis=2), axis=2)

    # How many rows fit best, and how far the counts then are from these shares.
    found = noisy.astype(jnp.float32)[None, None, :]
    rows = jnp.sum(rounded(found * share), axis=2) / jnp.sum(rounded(share**2), axis=2)
    rows = jnp.maximum(rows, 10.0)
    expected = rounded(rows[..., None] * share)
    squared = rounded(jnp.asarray(deviation, jnp.float32) ** 2)
    variance = squared + rounded(2 * expected) + rounded((_UNLIKE * expected) ** 2) + 1
    misfit = jnp.sum(rounded((found - expected) ** 2 / variance), axis=2)

    # The mean over all of them.
    off_spread = rounded((jnp.log(spread / _SPREAD) / _LOG_SPREAD) ** 2)
    prior = off_spread + rounded(((center - _CENTER) / _OFF_CENTER) ** 2)
    likely = rounded(jax.nn.softmax(-(misfit + prior) / 2, axis=(0, 1)))
    logs = rounded(likely * jnp.log(jnp.broadcast_to(spread, likely.shape)))
    mean_center = jnp.sum(rounded(likely * jnp.broadcast_to(center, likely.shape)))
    mean_spread = rounded(jnp.exp(jnp.sum(logs)))  # else a / exp(b) may become a * exp(-b)
    return mean_center, mean_spread, jnp.sum(rounded(likely * rows))
