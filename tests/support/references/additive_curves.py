"""Rounds of an additive model as plain loops over columns and resolutions, in float64.

Momentum and the falling step are those of optax. The sums of groups and their noise follow from
the recorded release.
"""

from typing import NamedTuple

import numpy as np
import optax

GRID = 127


class ReplayedRounds(NamedTuple):
    """What the rounds of a recorded run computed.

    Attributes:
        curves: f64[columns, bins]: the sum of all rounds' steps, in bits.
        released_sums: for each round the released sums of groups, in units of weight.
        exact_sums: for each round the same sums without noise.
        noise_of_steps: for each round the standard deviation of a step's noise.
    """

    curves: np.ndarray
    released_sums: list[np.ndarray]
    exact_sums: list[np.ndarray]
    noise_of_steps: list[float]


def replay(release, bins, target, sum_index_of_bin, *, num_bins, settings):
    """The rounds of a recorded run.

    Args:
        release: the recorded sums of groups of each round, in grid units.
        bins: the bin of each row and column, where a pair is a column of joined bins.
        target: whether each row is positive.
        sum_index_of_bin: for each resolution, column and bin the index of its group's sum.
        num_bins: the number of bins of each column.
        settings: start, step, max_learning_rate, noise_multiplier, rows.
    """
    num_rounds, num_columns = len(release), len(num_bins)
    start, step = settings["start"], settings["step"]
    schedule = optax.linear_schedule(1.0, 0.0, num_rounds // 2, num_rounds // 2)
    descent = optax.chain(optax.trace(0.9, nesterov=True), optax.scale_by_schedule(schedule))
    curves = np.zeros((num_columns, max(num_bins)))
    state, bound = descent.init(np.zeros_like(curves)), abs(start)
    released_sums, exact_sums, noise_of_steps = [], [], []
    for released_levels in release:
        # The sum of a group is that of y min(p, cap) over its rows, beside the noise.
        cap = min(0.3, 1 / (1 + 2.0**-bound))
        score = start + sum(curves[f, bins[:, f]] for f in range(num_columns))
        weight = np.minimum(1 / (1 + 2 ** np.where(target, score, -score)), cap)
        sums = np.zeros(len(released_levels))
        for q, f in np.ndindex(2, num_columns):
            np.add.at(sums, sum_index_of_bin[q, f, bins[:, f]], np.where(target, weight, -weight))
        released = np.asarray(released_levels) * cap / GRID

        # The step of each bin, and its noise.
        sigma = settings["noise_multiplier"] * np.sqrt(2 * num_columns) * cap
        signal = np.zeros_like(curves)
        for q, f in np.ndindex(2, num_columns):
            groups = sum_index_of_bin[q, f, : num_bins[f]]
            signal[f, : num_bins[f]] += released[groups] / np.sqrt(2)
        steepest = step * settings["rows"] * np.sqrt(2) * num_columns
        rate = step / max(sigma, steepest / settings["max_learning_rate"]) / np.log(2)
        added, state = descent.update(rate * signal, state)
        curves = curves + np.asarray(added)
        bound += np.abs(np.asarray(added)).max(axis=1).sum()
        released_sums.append(released)
        exact_sums.append(sums)
        noise_of_steps.append(rate * sigma)
    return ReplayedRounds(
        curves=curves,
        released_sums=released_sums,
        exact_sums=exact_sums,
        noise_of_steps=noise_of_steps,
    )
