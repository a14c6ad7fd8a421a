"""Rounds of HS-StL at its own constants: those of its theorem, and those that are needed."""

import argparse
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt import recipes
from dpbt.learners.halfspaces.learner import PUBLISHED_L2
from dpbt.privacy import conversions, sensitivity
from dpbt.types import Array, Recipe, Table
from experiments.common import diagnostics, smooth_bounds
from experiments.common.results import Line
from experiments.papers.bun_2020.errors import draw_sample
from experiments.papers.bun_2020.settings import (
    ALPHA,
    BETA,
    DELTA,
    EPSILON,
    RATES_RUN,
    RELATION,
    ROUNDS_ROWS,
    ROUNDS_RUN,
    ROUNDS_SAMPLES,
    SMOKE_ROUNDS,
    halfspace_rows_for,
    halfspace_settings,
)


class RoundCurves(NamedTuple):
    """Measures of each round, f32[T].

    Attributes:
        error: the training error.
        small_margins: the share of rows whose margin y H / t is at most gamma.
        advantage: the advantage of the round's hypothesis.
        bound: the length of the round's z, which is the largest |h(x)| on the unit ball.
    """

    error: Array
    small_margins: Array
    advantage: Array
    bound: Array


@jax.jit
def measure_curves(key: Array, table: Table, recipe: Recipe, gamma: float) -> RoundCurves:
    """The measures of each round of one run."""
    kind, training = recipe.learner.kind, recipe.learner.training
    transcript, hypotheses_of_rounds, _ = dpbt.boost(key, table, recipe)
    prepared = training.prepare(table)
    sign = jnp.where(prepared.target, 1.0, -1.0)

    def add_round(total, round_and_hypothesis):
        t, hypothesis = round_and_hypothesis
        total = total + kind.predict_prepared(hypothesis, prepared)
        margin = sign * total
        is_small = margin <= gamma * t
        return total, (jnp.mean((total > 0) != prepared.target), jnp.mean(is_small))

    counts = jnp.arange(1, recipe.max_rounds + 1, dtype=jnp.float32)
    start = jnp.zeros(prepared.target.shape[0], jnp.float32)
    _, (error, small_margins) = jax.lax.scan(add_round, start, (counts, hypotheses_of_rounds))
    bound = jax.vmap(training.bound)(hypotheses_of_rounds)
    advantage = diagnostics.advantages(transcript, table, recipe)
    return RoundCurves(error, small_margins, advantage, bound)


def first_lasting_round(is_reached: np.ndarray) -> int | None:
    """The first round from which `is_reached` holds in every later round, or None."""
    failing = np.flatnonzero(~is_reached)
    start = int(failing[-1]) + 1 if len(failing) else 0
    return start + 1 if start < len(is_reached) else None


def measure_rounds(options: argparse.Namespace) -> list[Line]:
    """A line for each margin and rate: HS-StL with its own noise and density.

    A line has the rounds of Theorem 24, and those that were needed. The claimed advantage is
    Theorem 27's at HS-StL's noise. It does not hold as printed, for h(x) = z . x without
    normalisation. The advantage of h without noise is |z|^2 / 2, which is tau^2 / 2 if all rows are
    +-tau u.

    Args:
        options: `smoke` and `seed` are read.
    """
    rounds_by_tau = SMOKE_ROUNDS if options.smoke else ROUNDS_RUN
    return [
        _round_line(tau, count, rate, options)
        for tau, rounds_by_rate in rounds_by_tau.items()
        for rate, count in rounds_by_rate.items()
    ]


def _round_line(tau: float, count: int, rate: str, options: argparse.Namespace) -> Line:
    settings = halfspace_settings(ALPHA, BETA, tau)
    recipe = recipes.halfspace_boost(
        rows=ROUNDS_ROWS[tau],
        noise_scale=settings.noise,
        rounds=count,
        density=settings.density,
        learning_rate=tau / RATES_RUN[rate],
        delta=DELTA,
        calibration="published",  # the text's sigma; the tight one multiplies it by a cap
        relation=RELATION,
    )
    curves = []
    for s in range(2 if options.smoke else ROUNDS_SAMPLES):
        sample = draw_sample((options.seed, s), rows=ROUNDS_ROWS[tau], tau=tau, noise=0.0, tests=0)
        key = jax.random.key(options.seed + s)
        curves.append(jax.tree.map(np.asarray, measure_curves(key, sample.table, recipe, tau / 8)))

    advantage = min(float(curve.advantage.min()) for curve in curves)
    by_advantage = None
    if advantage > 0:
        by_advantage = smooth_bounds.theorem_24_rounds(advantage, settings.density)
    rows = {
        "published": halfspace_rows_for(
            settings, float(conversions.published_zcdp_rho(EPSILON, DELTA)), PUBLISHED_L2
        ),
        "tight": halfspace_rows_for(
            settings, float(conversions.gdp_mu(EPSILON, DELTA)) ** 2 / 2, sensitivity.CENTER_L2
        ),
    }
    total = smooth_bounds.theorem_30_rows(
        alpha=ALPHA, beta=BETA, tau=tau, epsilon=EPSILON, delta=DELTA
    ).total
    return {
        "tau": tau,
        "rate": rate,
        "rows": ROUNDS_ROWS[tau],
        "theorem_rounds": settings.rounds,
        "rounds_by_advantage": by_advantage,
        "claimed_advantage": tau / 8,
        "smallest_advantage": advantage,
        "largest_bound": max(float(curve.bound.max()) for curve in curves),
        "rounds_run": int(recipe.rounds),
        "rounds_to_error": _max_if_all_known(
            [first_lasting_round(curve.error <= ALPHA) for curve in curves]
        ),
        "rounds_to_margin": _max_if_all_known(
            [first_lasting_round(curve.small_margins <= settings.density) for curve in curves]
        ),
        "theorem_rows": round(total),
        "rows_for_published": rows["published"],
        "rows_for_tight": rows["tight"],
    }


def _max_if_all_known(rounds: list[int | None]) -> int | None:
    """The largest number, or None if one is None."""
    return None if None in rounds else max(count for count in rounds if count is not None)
