"""Rounds of HS-StL at its own constants: those of its theorem, and those that are needed."""

import argparse

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt import recipes
from dpbt.learners.halfspace import PUBLISHED_L2
from dpbt.privacy import conversions, sensitivity
from dpbt.types import Array, Table
from experiments.common import diagnostics, smooth_bounds
from experiments.common.results import Line
from experiments.papers.bun_2020.errors import draw_sample
from experiments.papers.bun_2020.settings import (
    ALPHA,
    BASE,
    BETA,
    DELTA,
    EPSILON,
    RATES_RUN,
    RELATION,
    ROUNDS_RUN,
    SMOKE_ROUNDS,
    halfspace_rows_for,
    halfspace_settings,
)

_SENSITIVITIES = (PUBLISHED_L2, sensitivity.CENTER_L2)


@jax.jit
def round_curves(
    key: Array, table: Table, recipe, gamma: float
) -> tuple[Array, Array, Array, Array]:
    """Each round's training error, share of rows with small margin, advantage, and bound; f32[T].

    The margin is y H / t, and a small one is at most gamma. The bound is the length of the round's
    z, which is the largest |h(x)| on the unit ball.
    """
    kind, training = recipe.learner.kind, recipe.learner.training
    transcript, hypotheses_of_rounds, _ = dpbt.boost(key, table, recipe)
    prepared = training.prepare(table)
    sign = jnp.where(prepared.target, 1.0, -1.0)

    def after(total, counted):
        t, hypothesis = counted
        total = total + kind.predict_prepared(hypothesis, prepared)
        margin = sign * total
        small = margin <= gamma * t
        return total, (jnp.mean((total > 0) != prepared.target), jnp.mean(small))

    counts = jnp.arange(1, recipe.capacity + 1, dtype=jnp.float32)
    start = jnp.zeros(prepared.target.shape[0], jnp.float32)
    _, (error, small) = jax.lax.scan(after, start, (counts, hypotheses_of_rounds))
    bound = jax.vmap(training.bound)(hypotheses_of_rounds)
    return error, small, diagnostics.advantages(transcript, table, recipe), bound


def first_lasting_round(reached: np.ndarray) -> int | None:
    """The first round from which `reached` holds in every later round, or None."""
    broken = np.flatnonzero(~reached)
    since = int(broken[-1]) + 1 if len(broken) else 0
    return since + 1 if since < len(reached) else None


def measure_rounds(options: argparse.Namespace) -> list[Line]:
    """A line for each margin and rate: HS-StL with its own noise and density.

    A line has the rounds of Theorem 24, and those that were needed. The claimed advantage is
    Theorem 27's at HS-StL's noise. It does not hold as printed, for h(x) = z . x without
    normalisation. The advantage of h without noise is |z|^2 / 2, which is tau^2 / 2 if all rows are
    +-tau u.

    Args:
        options: `smoke`, `samples` and `seed` are read.
    """
    planned = SMOKE_ROUNDS if options.smoke else ROUNDS_RUN
    return [
        _round_line(tau, count, rate, options)
        for tau, count in planned.items()
        for rate in RATES_RUN
    ]


def _round_line(tau: float, count: int, rate: str, options: argparse.Namespace) -> Line:
    chosen = halfspace_settings(ALPHA, BETA, tau)
    recipe = recipes.halfspace_boost(
        rows=BASE["rows"],
        noise_scale=chosen.noise,
        rounds=count,
        density=chosen.density,
        learning_rate=tau / RATES_RUN[rate],
        delta=DELTA,
        relation=RELATION,
    )
    curves = []
    for s in range(min(options.samples, 3)):
        table, _ = draw_sample((options.seed, s), BASE["rows"], tau, 0.0, 0)
        curve = round_curves(jax.random.key(options.seed + s), table, recipe, tau / 8)
        curves.append([np.asarray(part) for part in curve])

    advantage = min(float(curve[2].min()) for curve in curves)
    by_advantage = None
    if advantage > 0:
        by_advantage = smooth_bounds.rounds_needed(advantage, chosen.density)
    rho = float(conversions.zcdp_rho(EPSILON, DELTA))
    rows = [halfspace_rows_for(chosen, rho, moved) for moved in _SENSITIVITIES]
    total = smooth_bounds.halfspace_rows(ALPHA, BETA, tau, EPSILON, DELTA)["total"]
    return {
        "tau": tau,
        "rate": rate,
        "theorem_rounds": chosen.rounds,
        "rounds_by_advantage": by_advantage,
        "claimed_advantage": tau / 8,
        "smallest_advantage": advantage,
        "largest_bound": max(float(curve[3].max()) for curve in curves),
        "rounds_run": int(recipe.rounds),
        "rounds_to_error": _max_if_all_known(
            [first_lasting_round(curve[0] <= ALPHA) for curve in curves]
        ),
        "rounds_to_margin": _max_if_all_known(
            [first_lasting_round(curve[1] <= chosen.density) for curve in curves]
        ),
        "theorem_rows": round(total),
        "rows_for_published": rows[0],
        "rows_for_tight": rows[1],
    }


def _max_if_all_known(rounds: list[int | None]) -> int | None:
    known = [value for value in rounds if value is not None]
    return max(known) if len(known) == len(rounds) else None
