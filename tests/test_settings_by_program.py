"""`recipes.settings_by_program`: groups of settings that share a program."""

import chex
import jax
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.data.domains import Numeric

DOMAIN = {f"x{index}": Numeric(0, 1, bins=64) for index in range(3)}


@pytest.mark.parametrize("delta", [0.0, 1e-9])
@pytest.mark.parametrize("make", [recipes.auto, recipes.additive], ids=lambda make: make.__name__)
def test_every_setting_is_in_one_group_and_is_the_recipe_alone(make, delta):
    epsilons, rows = np.array([[0.1], [10.0]]), np.array([100, 2000, 10**6])
    groups = recipes.settings_by_program(
        make, {"epsilon": epsilons, "rows": rows}, domain=DOMAIN, delta=delta
    )
    times_seen = np.zeros((2, 3), int)
    for group in groups:
        times_seen[group.places] += 1
        for k, (i, j) in enumerate(zip(*group.places, strict=True)):
            alone = make(epsilon=epsilons[i, 0], rows=int(rows[j]), domain=DOMAIN, delta=delta)
            of_group = recipes.setting(group.recipe, k)
            chex.assert_trees_all_equal(jax.tree.leaves(of_group), jax.tree.leaves(alone))
            assert of_group.learner == alone.learner
    np.testing.assert_array_equal(times_seen, 1)
    structures = {group.recipe.learner for group in groups}
    assert len(structures) == len(groups) > 1


def test_settings_of_one_program_are_one_group():
    (group,) = recipes.settings_by_program(recipes.bdpe, {"epsilon": [0.1, 1.0]}, rows=50)
    np.testing.assert_array_equal(group.places, [[0, 1]])
    together = recipes.bdpe(epsilon=[0.1, 1.0], rows=50)
    for k in (0, 1):
        chex.assert_trees_all_equal(
            jax.tree.leaves(recipes.setting(group.recipe, k)),
            jax.tree.leaves(recipes.setting(together, k)),
        )


def test_settings_without_values_of_other_lengths_or_without_recipes_are_refused():
    with pytest.raises(ValueError, match="settings must have arrays of values"):
        recipes.settings_by_program(recipes.bdpe, {}, epsilon=1.0, rows=50)
    with pytest.raises(ValueError, match="settings must have arrays of values"):
        recipes.settings_by_program(recipes.bdpe, {"epsilon": []}, rows=50)
    with pytest.raises(ValueError, match="rows and epsilon must have axes of settings that go"):
        recipes.settings_by_program(recipes.bdpe, {"epsilon": [1.0, 2.0], "rows": [5, 6, 7]})
    with pytest.raises(ValueError, match="make must return the recipe of one setting"):
        recipes.settings_by_program(lambda rows: rows, {"rows": [5]})


@pytest.mark.slow
def test_a_setting_of_a_group_releases_what_it_releases_alone():
    x = np.random.default_rng(0).random((3, 200))
    table = dpbt.table(DOMAIN, dict(zip(DOMAIN, x, strict=True)), x[0] + x[1] > 1)
    options = {"rows": 200, "domain": DOMAIN}
    epsilons, key = [0.1, 0.3, 20.0, 30.0], jax.random.key(0)
    groups = recipes.settings_by_program(recipes.auto, {"epsilon": epsilons}, **options)
    assert 1 < len(groups) < len(epsilons)
    for group in groups:
        run = jax.vmap(dpbt.boost, in_axes=(None, None, 0))
        together = run(key, table, group.recipe)
        for k, setting_index in enumerate(group.places[0]):
            alone = dpbt.boost(key, table, recipes.auto(epsilon=epsilons[setting_index], **options))
            np.testing.assert_array_equal(together.scores[k], alone.scores)
            for site, released in alone.transcript.rounds.items():
                in_group = together.transcript.rounds[site][k]
                np.testing.assert_array_equal(in_group[: len(released)], released)
                assert not np.any(in_group[len(released) :])
