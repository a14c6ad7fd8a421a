"""What every learner and calibration owes.

For each row of `contract_rows.ROWS`: a replay gives the identical model, exact losses are within
the ledger, sensitivities are attained, and samplers follow their densities.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt.audit import exact_loss as audit
from dpbt.training.replay import log_ratios_by_site
from dpbt.types import ADD_REMOVE, REPLACE_ONE, Recipe
from tests.support import file_neighbours
from tests.support.contract_rows import ROWS, Row
from tests.support.example_tables import Extreme, padded_like, random_table

pytestmark = pytest.mark.unoptimized

SLACK = 2e-3
"""Room for float32 in a log density of a whole transcript."""

NUM_DRAWS = 20_000
NUM_TRANSCRIPTS = 12
MAX_SIGMAS = 5.5
"""A correct sampler fails one comparison below with probability under 4e-8 (normal approximation of
the mean).
"""

# Two calls in one program are traced once.
log_prob_by_site = jax.jit(lambda *args: dpbt.replay(*args).log_prob)


def row_parameter(row):
    return pytest.param(row, id=row.name, marks=pytest.mark.slow if row.slow else ())


EACH_ROW = [row_parameter(row) for row in ROWS]


def all_neighbours_of_a_small_table(row, relation):
    """Every removal and addition, or every replacement, out of the whole public domain."""
    table = row.table(2, rows=14, splits=3, absent=2)
    return audit.neighbours(table, relation, row.candidates(3))


def recipe_of_one_program(row, relation, **settings):
    """A recipe whose static parts are those of all others of the row and the relation."""
    recipe = row.recipe(relation, depth=2, **settings)
    return dataclasses.replace(recipe, max_rounds=max(2, recipe.max_rounds), options_text="")


class Case(NamedTuple):
    """A row of the table, of which every test runs the same programs.

    Attributes:
        row: The row of `contract_rows.ROWS`.
        near: All neighbours of a small table; for a fast row, in the shape of the extreme pair.
        recipe: A recipe under the row's relation.
        extreme: The extreme pairs.
    """

    row: Row
    near: audit.Neighbours
    recipe: Recipe
    extreme: list[Extreme]


@pytest.fixture(scope="module", params=EACH_ROW)
def case(request):
    row, extreme = request.param, request.param.extreme()
    relation, _, pair = extreme[0]
    recipe = recipe_of_one_program(row, relation, epsilon=3.0, rows=14, rounds=2)
    near = all_neighbours_of_a_small_table(row, relation)
    return Case(row, near if row.slow else padded_like(near, pair), recipe, extreme)


def audit_steps(near, recipe):
    return audit.audit(jax.random.key(0), near, recipe, NUM_TRANSCRIPTS, steps=True)


def check_losses(near, recipe):
    """Check that an audit on neighbours finds losses, and none above the ledger's."""
    report, book = audit_steps(near, recipe), dpbt.ledger(recipe)
    assert report.neighbours == len(near.present) >= 24
    assert report.largest_loss > 0
    if recipe.delta == 0:
        assert report.largest_loss <= report.claimed_epsilon + SLACK
    assert abs(sum(report.by_site.values())) == pytest.approx(report.largest_loss, abs=1e-6)
    assert set(report.step_ratio) == {line.site for line in book.lines}
    assert all(0 <= ratio <= 1 + SLACK for ratio in report.step_ratio.values())


def test_exact_losses_are_within_the_ledger(case):
    check_losses(case.near, case.recipe)


@pytest.mark.slow
@pytest.mark.parametrize("row", EACH_ROW)
def test_exact_losses_under_the_other_relation_are_within_the_ledger(row):
    relation_of_extremes, _, _ = row.extreme()[0]
    relation = REPLACE_ONE if relation_of_extremes is ADD_REMOVE else ADD_REMOVE
    recipe = row.recipe(relation, epsilon=3.0, rows=14, rounds=2, depth=2)
    check_losses(all_neighbours_of_a_small_table(row, relation), recipe)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "relation"),
    [
        pytest.param(row, relation, id=f"{row.name}-{name}")
        for row in ROWS
        for name, relation in (("add_remove", ADD_REMOVE), ("replace_one", REPLACE_ONE))
    ],
)
def test_a_line_of_a_file_costs_at_most_the_ledger(row, relation):
    """Files that differ in one line, odd ones among them, each read and encoded by itself."""
    tables, other_tables = file_neighbours.stacked_neighbouring_tables(
        relation, exact=row.table is not random_table
    )
    settings = {"epsilon": 3.0, "rows": file_neighbours.CAPACITY, "rounds": 2, "depth": 2}
    recipe = row.recipe(relation, **settings, of_file=row.of_file)
    book = dpbt.ledger(recipe)

    def loss_and_worst_cost(key, table, other):
        noise_key, public_key = dpbt.keys.pair(key)
        transcript = dpbt.boost(noise_key, table, recipe, public_key).transcript
        sites = log_ratios_by_site(transcript, table, other, recipe).values()
        costs = [cost.pure if row.delta == 0 else cost.rho for _, cost in sites]
        return jnp.abs(sum(jnp.sum(loss) for loss, _ in sites)), sum(map(jnp.sum, costs))

    keys = jax.random.split(jax.random.key(0), len(tables.target))
    losses, worst_costs = (
        np.asarray(values)
        for values in jax.jit(jax.vmap(loss_and_worst_cost))(keys, tables, other_tables)
    )
    assert not np.isnan(losses).any()
    assert 0 < worst_costs.max() <= (book.epsilon if row.delta == 0 else book.rho) + SLACK
    if row.delta == 0:
        assert losses.max() <= book.epsilon + SLACK


def test_a_replay_on_a_neighbour_gives_the_identical_model(case):
    table, recipe = case.near.table, case.recipe
    keys = jax.random.split(jax.random.key(1), NUM_TRANSCRIPTS)
    transcript = jax.tree.map(
        lambda array: array[0], audit._sample_transcripts(keys, table, recipe)
    )
    masks = np.concatenate([[np.asarray(table.present)], case.near.present])
    copies = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(masks), *x.shape)), transcript)

    @jax.jit
    @jax.vmap
    def replayed_hypotheses(transcript, present):
        return dpbt.replay(transcript, table._replace(present=present), recipe).hypotheses

    for array in replayed_hypotheses(copies, masks):
        np.testing.assert_array_equal(array, np.broadcast_to(array[0], array.shape))


def test_sensitivities_are_attained(case):
    """On the extreme pairs each mechanism, or site, has a step whose worst case is 99 % of its
    claim.
    """
    row, largest_ratio = case.row, {}
    for relation, settings, near in case.extreme:
        recipe = recipe_of_one_program(row, relation, rounds=1, **settings)
        if not row.slow:  # as many masks as there are neighbours of the small table
            near = near._replace(present=np.repeat(near.present, len(case.near.present), axis=0))
        report = audit_steps(near, recipe)
        for line in (line for line in dpbt.ledger(recipe).lines if line.rho > 0):
            group = line.mechanism if row.sites is None else line.site.split("_")[0]
            ratio = report.step_ratio[line.site]
            largest_ratio[group] = max(largest_ratio.get(group, 0.0), ratio)
    assert max(largest_ratio.values()) <= 1 + SLACK
    if row.tight:
        assert min(largest_ratio.values()) >= row.attained
    else:
        assert min(largest_ratio.values()) < 0.6


@jax.jit
def density_ratios(keys, table, sampled, scored, wider):
    """Site -> q / p of each release; see `density_ratio_z`."""

    def density_ratio_of_one(key):
        noise_key, public_key = dpbt.keys.pair(key)
        transcript = dpbt.boost(noise_key, table, sampled, public_key).transcript
        p, q = (log_prob_by_site(transcript, table, recipe) for recipe in (scored, wider))
        return {site: jnp.exp(jnp.sum(q[site] - p[site])) for site in p}

    return jax.lax.map(density_ratio_of_one, keys, batch_size=1000)


def density_ratio_z(key, table, *, sampled, scored, wider):
    """Site -> z: standard errors by which the mean of q / p over releases differs from 1.

    The releases are those of the recipe `sampled`. p is the density that the ledger speaks of, of
    the recipe `scored`, and q that of the recipe `wider`, which has more noise. If releases have
    density p, the mean of q / p is exactly 1, site by site, as p and q condition on the same
    earlier outputs.
    """
    keys = jax.random.split(key, NUM_DRAWS)
    z = {}
    for site, ratios in density_ratios(keys, table, sampled, scored, wider).items():
        ratios = np.asarray(ratios, np.float64)
        assert np.any(ratios > 0), f"{site}: the wider noise has no mass where the scored one has"
        standard_error = ratios.std() / np.sqrt(len(ratios))
        z[site] = (ratios.mean() - 1) / standard_error if standard_error > 1e-12 else 0.0
    return z


@pytest.mark.slow
@pytest.mark.parametrize("row", EACH_ROW)
def test_samplers_follow_log_prob_and_two_thirds_of_the_noise_is_rejected(row):
    table = row.table(4, rows=30, splits=4)
    # Enough for the narrower noise to show, not so much that q / p lives on splits that are never
    # drawn.
    epsilon = row.sampler_epsilon or (8.0 if row.tight else 40.0)
    recipe = row.recipe(ADD_REMOVE, epsilon=epsilon, rows=30, rounds=1, depth=2)

    def with_noise_scaled(factor):
        return dataclasses.replace(recipe, params=row.scale_noise(recipe.params, factor))

    key, wider = jax.random.key(0), with_noise_scaled(1.2)
    right = density_ratio_z(key, table, sampled=recipe, scored=recipe, wider=wider)
    assert all(abs(z) < MAX_SIGMAS for z in right.values()), right
    wrong = density_ratio_z(
        key, table, sampled=with_noise_scaled(2 / 3), scored=recipe, wider=wider
    )
    for prefix in row.sites or ("leaf", "split"):
        z_of_sites = [abs(z) for site, z in wrong.items() if site.startswith(prefix)]
        assert max(z_of_sites) > MAX_SIGMAS, wrong
