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
from dpbt import audit
from dpbt.training.replay import log_ratios_by_site
from dpbt.types import ADD_REMOVE, REPLACE_ONE, Recipe
from tests.support import file_neighbours
from tests.support.contract_rows import ROWS, Row
from tests.support.example_tables import Extreme, padded_like, random_table

pytestmark = pytest.mark.unoptimized

SLACK = 2e-3
"""Room for float32 in a log density of a whole transcript."""

NUM_TRANSCRIPTS = 12
KEY = jax.random.key(0)


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


def check_losses(near, recipe):
    """Check that an audit on neighbours finds losses, and none above the ledger's."""
    report = audit.check_learner(recipe, near, aspects=["losses"], key=KEY)
    assert len(near.present) >= 24
    assert report.lines[0].figure > 0  # the largest loss of all sites together
    num_judged = sum(line.name.startswith("loss of a step") for line in report.lines)
    assert num_judged == len(dpbt.ledger(recipe).lines)


def test_exact_losses_are_within_the_ledger(case):
    check_losses(case.near, case.recipe)


@pytest.mark.slow
@pytest.mark.parametrize("row", EACH_ROW)
def test_a_search_finds_no_pair_above_the_ledger(row):
    relation, _, _ = row.extreme()[0]
    recipe = row.recipe(relation, epsilon=3.0, rows=14, rounds=2, depth=2)
    table = row.table(2, rows=14, splits=3, absent=2)
    candidates = row.candidates(3)
    options = {"candidates": candidates, "num_tables": 6, "num_proposals": 15, "key": KEY}
    audit.check_learner(recipe, table, aspects=["search"], **options)


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
    audit.check_learner(case.recipe, case.near, aspects=["replays"], key=KEY)


def test_sensitivities_are_attained(case):
    """On the extreme pairs each mechanism, or site, has a step whose worst case is 99 % of its
    claim.
    """
    row, largest_ratio = case.row, {}
    for relation, settings, near in case.extreme:
        recipe = recipe_of_one_program(row, relation, rounds=1, **settings)
        if not row.slow:  # as many masks as there are neighbours of the small table
            near = near._replace(present=np.repeat(near.present, len(case.near.present), axis=0))
        report = audit.audit_transcripts(KEY, near, recipe, NUM_TRANSCRIPTS, with_worst_steps=True)
        for line in (line for line in dpbt.ledger(recipe).lines if line.rho > 0):
            group = line.mechanism if row.sites is None else line.site.split("_")[0]
            ratio = report.max_step_ratio_by_site[line.site]
            largest_ratio[group] = max(largest_ratio.get(group, 0.0), ratio)
    assert max(largest_ratio.values()) <= 1 + SLACK
    if row.tight:
        assert min(largest_ratio.values()) >= row.attained
    else:
        assert min(largest_ratio.values()) < 0.6


@pytest.mark.slow
@pytest.mark.parametrize("row", EACH_ROW)
def test_samplers_follow_log_prob_and_two_thirds_of_the_noise_is_rejected(row):
    splits = 3 if row.of_file else 4  # a recipe with a domain reads its columns alone
    table = row.table(4, rows=30, splits=splits)
    # Enough for the narrower noise to show, not so much that q / p lives on splits that are never
    # drawn.
    epsilon = row.sampler_epsilon or (8.0 if row.tight else 40.0)
    recipe = row.recipe(ADD_REMOVE, epsilon=epsilon, rows=30, rounds=1, depth=2)

    sites = row.sites or ("leaf", "split")
    report = audit.check_learner(recipe, table, aspects=["noise"], sites=sites, key=KEY)
    assert sum("two thirds" in line.name for line in report.lines) == len(sites)
