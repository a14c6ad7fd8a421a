"""What every learner and calibration owes, by the contract table: replay, exact losses, tightness,
samplers.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import boosting
from dpbt.audit import exact_loss as audit
from dpbt.types import ADD_REMOVE, REPLACE_ONE, Recipe
from tests import filerows
from tests.contract import ROWS, Row
from tests.tables import Extreme, like
from tests.tables import random_table as tables_of_bits

SLACK = 2e-3
"""Room for float32 in a log density of a whole transcript."""

LINES = "forest-tight", "add_remove"
"""The learner and the relation of which `make test` reads files that differ in a line."""

DRAWS = 20_000
log_prob = jax.jit(
    lambda *args: boosting.replay(*args).log_prob
)  # two calls in one program are traced once
SIGMAS = 5.5
"""A correct sampler fails one comparison below with probability under 4e-8 (normal approximation of
the mean).
"""


TRANSCRIPTS = 12


def param(row, slow=False):
    return pytest.param(row, id=row.name, marks=[pytest.mark.slow] if row.slow or slow else [])


def small(row, relation):
    """Every removal and addition, or every replacement, out of the whole public domain of a small
    table.
    """
    table = row.table(2, rows=14, splits=3, absent=2)
    return audit.neighbours(table, relation, row.candidates(3))


def alone(row, relation, **settings):
    """A recipe with the static parts of all others of the row and the relation."""
    recipe = row.recipe(relation, depth=2, **settings)
    return dataclasses.replace(recipe, capacity=max(2, recipe.capacity), setting="")


class Case(NamedTuple):
    """A row of the table, of which every test runs the same programs.

    Attributes:
        row: of `contract.ROWS`.
        near: all neighbours of a small table, of a fast row in the shape of the extreme pair.
        recipe: under its relation.
        extreme: the extreme pairs.
    """

    row: Row
    near: audit.Neighbours
    recipe: Recipe
    extreme: list[Extreme]


@pytest.fixture(scope="module", params=[param(row) for row in ROWS])
def case(request):
    row, extreme = request.param, request.param.extreme()
    relation, _, pair = extreme[0]
    recipe = alone(row, relation, epsilon=3.0, rows=14, rounds=2)
    near = small(row, relation)
    return Case(row, near if row.slow else like(near, pair), recipe, extreme)


def audited(near, recipe):
    return audit.audit(jax.random.key(0), near, recipe, TRANSCRIPTS, steps=True)


def check_losses(near, recipe):
    found, book = audited(near, recipe), dpbt.ledger(recipe)
    assert found.neighbours == len(near.present) >= 24
    assert found.largest_loss > 0
    if recipe.delta == 0:
        assert found.largest_loss <= found.claimed_epsilon + SLACK
    assert abs(sum(found.by_site.values())) == pytest.approx(found.largest_loss, abs=1e-6)
    assert set(found.step_ratio) == {event.site for event in book.lines}
    assert all(0 <= ratio <= 1 + SLACK for ratio in found.step_ratio.values())


def test_exact_losses_are_within_the_ledger(case):
    check_losses(case.near, case.recipe)


@pytest.mark.slow
@pytest.mark.parametrize("row", [param(row) for row in ROWS])
def test_exact_losses_under_the_other_relation_are_within_the_ledger(row):
    first, _, _ = row.extreme()[0]
    relation = REPLACE_ONE if first is ADD_REMOVE else ADD_REMOVE
    recipe = row.recipe(relation, epsilon=3.0, rows=14, rounds=2, depth=2)
    check_losses(small(row, relation), recipe)


@pytest.mark.parametrize(
    ("row", "relation"),
    [
        pytest.param(row, relation, id=f"{row.name}-{name}", marks=marks)
        for row in ROWS
        for name, relation in (("add_remove", ADD_REMOVE), ("replace_one", REPLACE_ONE))
        for marks in ([] if (row.name, name) == LINES else [pytest.mark.slow],)
    ],
)
def test_a_line_of_a_file_costs_at_most_the_ledger(row, relation):
    """Files that differ in one line, odd ones among them, each read and encoded by itself."""
    tables, others = filerows.stacked(relation, exact=row.table is not tables_of_bits)
    settings = {"epsilon": 3.0, "rows": filerows.CAPACITY, "rounds": 2, "depth": 2}
    recipe = row.recipe(relation, **settings, of_file=row.of_file)
    book = dpbt.ledger(recipe)

    @jax.jit
    def costs(keys, tables, others):
        def one(key, table, other):
            noise_key, public_key = dpbt.keys.pair(key)
            release = dpbt.boost(noise_key, table, recipe, public_key).transcript
            found = boosting.compared(release, table, other, recipe).values()
            steps = [step.pure if row.delta == 0 else step.rho for _, step in found]
            return jnp.abs(sum(jnp.sum(loss) for loss, _ in found)), sum(map(jnp.sum, steps))

        return jax.vmap(one)(keys, tables, others)

    keys = jax.random.split(jax.random.key(0), len(tables.target))
    loss, worst = (np.asarray(cost) for cost in costs(keys, tables, others))
    assert not np.isnan(loss).any()
    assert 0 < worst.max() <= (book.epsilon if row.delta == 0 else book.rho) + SLACK
    if row.delta == 0:
        assert loss.max() <= book.epsilon + SLACK


def test_replay_on_a_neighbour_gives_the_identical_model(case):
    table, recipe = case.near.table, case.recipe
    keys = jax.random.split(jax.random.key(1), TRANSCRIPTS)
    releases = jax.tree.map(lambda array: array[0], audit._sample_transcripts(keys, table, recipe))
    masks = np.concatenate([[np.asarray(table.present)], case.near.present])
    copies = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(masks), *x.shape)), releases)

    @jax.jit
    @jax.vmap
    def models(transcript, present):
        return dpbt.replay(transcript, table._replace(present=present), recipe).hypotheses

    for field in models(copies, masks):
        np.testing.assert_array_equal(field, np.broadcast_to(field[0], field.shape))


def test_sensitivities_are_attained(case):
    """On the extreme pair each mechanism, or site, has a step whose worst case is 99 % of its
    claim.
    """
    row, best = case.row, {}
    for relation, settings, near in case.extreme:
        recipe = alone(row, relation, rounds=1, **settings)
        if not row.slow:  # as many masks as there are neighbours of the small table
            near = near._replace(present=np.repeat(near.present, len(case.near.present), axis=0))
        found = audited(near, recipe)
        for event in (event for event in dpbt.ledger(recipe).lines if event.rho > 0):
            group = event.mechanism if row.sites is None else event.site.split("_")[0]
            best[group] = max(best.get(group, 0.0), found.step_ratio[event.site])
    assert max(best.values()) <= 1 + SLACK
    if row.tight:
        assert min(best.values()) >= row.attained
    else:
        assert min(best.values()) < 0.6


@jax.jit
def ratios(keys, table, sampled, scored, wider):
    """Site -> q / p of each release."""

    def one(key):
        noise_key, public_key = dpbt.keys.pair(key)
        release = dpbt.boost(noise_key, table, sampled, public_key).transcript
        p, q = (log_prob(release, table, recipe) for recipe in (scored, wider))
        return {site: jnp.exp(jnp.sum(q[site] - p[site])) for site in p}

    return jax.lax.map(one, keys, batch_size=1000)


def density_ratio_z(key, table, sampled, scored, wider):
    """Site -> z: standard errors by which the mean of q / p over releases differs from 1.

    p is the density the ledger speaks of (`scored`), q that of a wider noise. If releases have
    density p, the mean of q / p is exactly 1, site by site, as p and q condition on the same
    earlier outputs."""

    found = ratios(jax.random.split(key, DRAWS), table, sampled, scored, wider)
    z = {}
    for site, values in found.items():
        values = np.asarray(values, np.float64)
        assert np.any(values > 0), f"{site}: the wider noise has no mass where the scored one has"
        spread = values.std() / np.sqrt(len(values))
        z[site] = (values.mean() - 1) / spread if spread > 1e-12 else 0.0
    return z


@pytest.mark.parametrize("row", [param(row, slow=not row.sampled) for row in ROWS])
def test_samplers_follow_log_prob_and_two_thirds_of_the_noise_is_rejected(row):
    table = row.table(4, rows=30, splits=4)
    # Enough for the narrower noise to show, not so much that q / p lives on splits that are never
    # drawn.
    epsilon = row.sampler_epsilon or (8.0 if row.tight else 40.0)
    recipe = row.recipe(ADD_REMOVE, epsilon=epsilon, rows=30, rounds=1, depth=2)

    def scaled(factor):
        return dataclasses.replace(recipe, params=row.rescale(recipe.params, factor))

    right = density_ratio_z(jax.random.key(0), table, recipe, recipe, scaled(1.2))
    assert all(abs(z) < SIGMAS for z in right.values()), right
    wrong = density_ratio_z(jax.random.key(0), table, scaled(2 / 3), recipe, scaled(1.2))
    for begins in row.sites or ("leaf", "split"):
        assert max(abs(z) for site, z in wrong.items() if site.startswith(begins)) > SIGMAS, wrong
