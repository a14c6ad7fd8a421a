"""The levels of the audit on dpbt's own mechanisms, at equal runs, beside what they truly spend.

Sums with Laplace and Gaussian noise are in hooks. `oblivious_boost` of one round releases the sums
of all leaves of a tree, with discrete Laplace or rounded Gaussian noise. All claim one epsilon.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt import recipes
from dpbt.data.domains import Boolean
from dpbt.data.splits import table_of_splits
from dpbt.privacy.bounds import Bound
from dpbt.privacy.conversions import gdp_epsilon, gdp_mu
from dpbt.privacy.keys import pair
from dpbt.types import ADD_REMOVE, Recipe, Table

EPSILON = 2.0
DELTAS = {"pure": 0.0, "delta": 1e-4}
ROWS, MAX_CANARIES = 10, 1024


class Level(NamedTuple):
    """A level of the audit on a mechanism.

    Attributes:
        mechanism: its name.
        level: as `Bound.level`.
        delta: the delta of the claim.
        truth: the epsilon that it spends at this delta.
        bound: (runs, seed) -> the lower bound on epsilon.
    """

    mechanism: str
    level: str
    delta: float
    truth: float
    bound: Callable[[int, int], Bound]


def levels() -> Iterator[Level]:
    """All levels of all mechanisms."""
    for words, delta in DELTAS.items():
        yield from _levels_of_sums(f"{'Gaussian' if delta else 'Laplace'} sum", delta)
        yield from _levels_of_trees(f"oblivious_boost, {words}", delta)


def _levels_of_sums(name: str, delta: float) -> Iterator[Level]:
    claim, seed_stride = (EPSILON, delta), 10**6
    scale = 1 / float(gdp_mu(EPSILON, delta)) if delta else 1 / EPSILON

    def learn(rows: np.ndarray, hooks: dpbt.audit.Hooks) -> Any:
        return (hooks.gaussian if delta else hooks.laplace)(np.sum(rows, axis=0), 1.0, scale)

    def fit(rows: np.ndarray, seed: int) -> Any:
        return learn(rows, dpbt.audit.Hooks(seed))

    def fit_canaries(coins: np.ndarray, seed: int) -> Any:
        return learn(coins[None], dpbt.audit.Hooks(seed))  # each canary has a cell of its own

    tables = np.ones(ROWS), np.ones(ROWS - 1)

    def grey(runs: int, seed: int) -> Bound:
        return dpbt.audit.grey_box_lower_bound(
            learn, *tables, num_runs=runs, seed=seed_stride * seed, claim=claim, nonadaptive=True
        )

    def black(runs: int, seed: int) -> Bound:
        return dpbt.audit.black_box_lower_bound(
            fit, *tables, num_runs=runs, seed=seed_stride * seed, claim=claim
        )

    def one_run(runs: int, seed: int) -> Bound:
        return dpbt.audit.one_run_lower_bound(fit_canaries, runs, seed=seed, claim=claim)

    for level, bound in {"grey box": grey, "black box": black, "one run": one_run}.items():
        yield Level(name, level, delta, EPSILON, bound)


def _levels_of_trees(name: str, delta: float) -> Iterator[Level]:
    recipe = _one_tree_recipe(depth=2, rows=ROWS, delta=delta)
    near = dpbt.audit.neighbours(_binary_table(rows=ROWS, depth=2), ADD_REMOVE)
    key = jax.random.key(0)
    (ratio,) = dpbt.audit.audit_transcripts(
        key, near, recipe, 20, with_worst_steps=True
    ).max_step_ratio_by_site.values()
    truth = EPSILON * ratio
    if delta:  # the ratio is of mu
        truth = gdp_epsilon(float(gdp_mu(EPSILON, delta)) * ratio, delta)
    tables = near.table, near.table._replace(present=jnp.asarray(near.present[0]))

    def exact(runs: int, seed: int) -> Bound:
        return dpbt.audit.exact_lower_bound(jax.random.key(seed), near, recipe, runs)

    def black(runs: int, seed: int) -> Bound:
        keys = jax.random.split(jax.random.key(seed), (2, runs))
        releases = [
            np.asarray(_release_leaves(run_keys, table, recipe))
            for run_keys, table in zip(keys, tables, strict=True)
        ]
        fit = lambda place, number: releases[place][number]  # noqa: E731
        return dpbt.audit.black_box_lower_bound(fit, 0, 1, claim=(EPSILON, delta), num_runs=runs)

    def one_run(runs: int, seed: int) -> Bound:
        count = min(runs, MAX_CANARIES)
        depth = (count - 1).bit_length()
        large_recipe = _one_tree_recipe(depth=depth, rows=count, delta=delta)
        table = _binary_table(rows=count, depth=depth)

        def fit(coins: np.ndarray, number: int) -> np.ndarray:
            present = jnp.asarray(coins)
            noise, public = pair(jax.random.key(number))
            model = dpbt.boost(noise, table._replace(present=present), large_recipe, public)
            return np.asarray(model.scores)

        return dpbt.audit.one_run_lower_bound(fit, count, claim=(EPSILON, delta), seed=seed)

    for level, bound in {"exact": exact, "black box": black, "one run": one_run}.items():
        yield Level(name, level, delta, truth, bound)


def _one_tree_recipe(*, depth: int, rows: int, delta: float) -> Recipe:
    return recipes.oblivious_boost(
        epsilon=EPSILON,
        delta=delta,
        rows=rows,
        domain={f"x{k}": Boolean() for k in range(depth)},
        rounds=1,
        depth=depth,
        attributes_per_tree=(depth,),
    )


def _binary_table(*, rows: int, depth: int) -> Table:
    """Positive rows, each of which has other cells if there are at most 2^depth."""
    bits = (np.arange(rows)[:, None] >> np.arange(depth)) % 2 == 1
    return table_of_splits(bits, np.ones(rows, bool), np.ones(rows, bool))


@jax.jit
def _release_leaves(keys: jax.Array, table: Table, recipe: Recipe) -> jax.Array:
    """f[R, Q], all numbers that a run releases, under R keys."""

    def release(key: jax.Array) -> jax.Array:
        noise, public = pair(key)
        sites = dpbt.boost(noise, table, recipe, public).transcript.rounds
        return jnp.concatenate([jnp.ravel(output) for output in sites.values()]).astype(float)

    return jax.lax.map(release, keys)
