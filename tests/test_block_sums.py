"""The contract of learners whose tables may be read in parts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpbt.base import ADD_REMOVE, GRID, Given, View
from dpbt.privacy import boundary, draws, pricing, totals
from tests.contract import ROWS

KEY = jax.random.key(3)

ADDITIVE = ("oblivious", "forest", "rf-", "bdpe-tight", "lazybb-rule")


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, id=row.name, marks=pytest.mark.slow if row.slow else []) for row in ROWS],
)
def test_sums_over_parts_add_up_to_those_of_the_table(row, monkeypatch):
    """Of every learner of sums, on tables that share its released scores.

    The sums of a stage follow from no draw of it or of a later one: zeros and ones give the same.
    """
    recipe = row.recipe(ADD_REMOVE, epsilon=3.0, rows=60, rounds=2, depth=2)
    if not row.name.startswith(ADDITIVE):
        with pytest.raises(ValueError, match="is of no boundary"):
            pricing.stages(recipe, "rounds")
        return
    stages = {part: pricing.stages(recipe, part) for part in recipe.learner.parts}
    table, learner, key = row.table(3, rows=60, splits=3), recipe.learner, jax.random.key(7)
    rows = learner.hypotheses.prepare(table)
    weights = jnp.asarray(np.random.default_rng(0).integers(0, GRID + 1, 60), jnp.float32)
    public = recipe.public()
    if learner.prologue is not None:
        read = View(rows, jnp.full(60, float(GRID)), recipe.params, public)
        opening = boundary.sample(learner.prologue.program, KEY, None, read)
        public = public._replace(prologue=opening)

    def part_of(first, last):
        fields = ("cells", "target", "present")
        part = table._replace(**{name: getattr(table, name)[first:last] for name in fields})
        rows = learner.hypotheses.prepare(part)
        return View(rows, weights[first:last], recipe.params, public)

    def with_ones(mechanism, value):
        return draws.zeros_of(mechanism, value) + 1

    for part, of_part in stages.items():
        program, whole = pricing.program_of(learner, part), part_of(0, 60)
        summed = jax.jit(functools.partial(boundary.sums, program), static_argnums=0)
        specs = jax.jit(functools.partial(boundary.describe, program))
        drawn = jax.jit(functools.partial(boundary.sample, program))(KEY, key, whole)
        one = part_of(0, 1)
        nobody = one._replace(rows=one.rows._replace(present=jnp.zeros(1, bool)))
        released = {**boundary.public_draws(program, key, nobody)}
        for stage in of_part:
            sums = None
            for first in (0, 20, 40):
                given = Given(released, KEY, jnp.array([0, first], jnp.uint32))
                sums = totals.add(sums, summed(stage, given, part_of(first, first + 20)))
            given = Given(released, KEY, jnp.zeros(2, jnp.uint32))
            at_once = summed(stage, given, whole)
            jax.tree.map(np.testing.assert_array_equal, sums, totals.add(None, at_once))
            assert tuple(sums) == stage
            with monkeypatch.context() as patch:
                patch.setattr(boundary, "zeros_of", with_ones)
                other = boundary.sums(program, stage, given, whole)
            jax.tree.map(np.testing.assert_array_equal, other, at_once)
            for site in stage:
                asked = specs(nobody, released)
                found = totals.draw(KEY, {site: sums[site]}, asked, small=True)
                released = {**released, **found}
        assert set(drawn) - set(released) == set(learner.traits.withheld)
        for site, array in released.items():
            np.testing.assert_array_equal(array, np.asarray(drawn[site]))
            assert array.dtype == drawn[site].dtype
