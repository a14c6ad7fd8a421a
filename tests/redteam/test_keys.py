"""Attacks on keys: one key with two settings, searches for seeds, public structure and noise."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import losses, recipes, weighting
from dpbt.data.splits import table_of_splits
from dpbt.privacy import boundary, mechanisms
from dpbt.training import run_keys
from dpbt.types import Table
from tests.support.attacks import GRID, table_of_one_split
from tests.support.slow_cases import mark_slow_cases

pytestmark = pytest.mark.unoptimized

FIXED = {"rows": 400, "rounds": 1}
PUBLIC_KEY = jax.random.key(1000)


def recipe_of_trees(epsilon):
    return recipes.bdpe(epsilon=epsilon, depth=1, alpha=1.0, **FIXED)


def real_features():
    rows = np.random.default_rng(0).normal(0, 0.3, (60, 4)).astype(np.float32)
    return Table(jnp.asarray(rows), jnp.asarray(rows[:, 0] > 0), jnp.ones(60, bool))


EPSILON = np.array([0.1, 0.05])
TWO_SETTINGS = {
    "trees": lambda: (recipe_of_trees(EPSILON), table_of_one_split(), "leaf"),
    "forest": lambda: (
        recipes.random_forest(epsilon=EPSILON, depth=1, **FIXED),
        table_of_one_split(),
        "leaf",
    ),
    "halfspaces": lambda: (
        recipes.halfspace_boost(rows=60, noise_scale=np.array([0.5, 1.0]), rounds=1),
        real_features(),
        "center",
    ),
}
"""Two settings with noise of one scale and of its double, a table, and a site."""


@pytest.mark.parametrize(
    ("name", "root"),
    [
        *(pytest.param(name, jax.random.key(0), marks=pytest.mark.slow) for name in TWO_SETTINGS),
        ("trees", dpbt.fresh_key()),
    ],
    ids=lambda value: value if isinstance(value, str) else str(jax.random.key_impl(value)),
)
def test_one_key_with_two_settings_gives_no_sums(name, root):
    """The same noise at twice the scale would make 2 a - b one vector under all keys.

    Of independent noise, of a scale of hundreds of units, all but 0.01 of them differ by more than
    9. False alarm: less than 2^76 0.01^38 < 1e-50 for the 76 differences of two leaves.
    """
    two_settings, table, site = TWO_SETTINGS[name]()

    def release_of(key, recipe):
        release = dpbt.boost(key, table, recipe, PUBLIC_KEY).transcript.rounds
        return release[site].reshape(-1)

    keys = jax.random.split(root, 20)
    releases = jax.jit(jax.vmap(jax.vmap(release_of, (None, 0)), (0, None)))(keys, two_settings)
    first, second = np.moveaxis(np.asarray(releases, np.int64), 1, 0)
    is_far = np.abs(np.diff(2 * first - second, axis=0)) > 9
    assert is_far.size >= 76
    assert np.mean(is_far) > 0.5


def test_one_key_with_two_settings_of_lazybb_does_not_repeat_its_choice():
    """At so little epsilon the noise alone chooses, and two settings must not share it."""
    rng = np.random.default_rng(0)
    bits, target = (rng.random(shape) < 0.5 for shape in ((80, 31), (80,)))
    table = table_of_splits(bits, target, np.ones(80, bool))
    two_settings = recipes.lazybb_rules(epsilon=np.array([1e-3, 2e-3]), rows=80, rounds=1)

    def rule_of(key, recipe):
        return dpbt.boost(key, table, recipe).transcript.rounds["rule"][0]

    rules_of_settings = jax.vmap(rule_of, (None, 0))
    keys = jax.random.split(jax.random.key(1), 200)
    rules = np.asarray(jax.jit(jax.vmap(rules_of_settings, (0, None)))(keys, two_settings))
    # 64 rules: honest choices agree 3 times of 200 on average, more than 60 times with 1e-50.
    assert np.mean(rules[:, 0] == rules[:, 1]) < 0.3


def with_log_loss_weights(recipe):
    update = weighting.mirror(losses.constant_loss_family(losses.log), bounded=True)
    return dataclasses.replace(recipe, weight_update=update)


PAIRS_OF_ONE_BUDGET = {
    "learners": [
        recipes.random_forest(epsilon=0.1, depth=2, negative=negative, **FIXED)
        for negative in ("zero", "uniform")
    ],
    "weight updates": [recipe_of_trees(0.1), with_log_loss_weights(recipe_of_trees(0.1))],
}


@pytest.mark.parametrize("name", mark_slow_cases(PAIRS_OF_ONE_BUDGET, slow=["weight updates"]))
def test_two_recipes_of_one_budget_do_not_share_noise(name):
    """All counts are multiples of GRID, so that a shared noise leaves multiples of GRID."""
    table, leaf_counts = table_of_one_split(), []
    for public, recipe in enumerate(PAIRS_OF_ONE_BUDGET[name]):
        boosted = jax.jit(dpbt.boost)(jax.random.key(3), table, recipe, jax.random.key(public))
        leaf_counts.append(np.asarray(boosted.transcript.rounds["leaf"], np.int64))
    assert np.any((leaf_counts[0] - leaf_counts[1]) % GRID != 0)  # false alarm: 127**-4 < 1e-8


def recipe_keys_differ(recipe, **changes):
    pair = recipe, dataclasses.replace(recipe, **changes)
    keys = [run_keys.derive_recipe_key(jax.random.key(0), one) for one in pair]
    return not np.array_equal(*map(jax.random.key_data, keys))


def next_above(number):
    return np.nextafter(number, np.float32(np.inf))


def test_every_number_of_a_budget_changes_the_noise_and_rounds_do_not():
    """The first T rounds do not depend on how many follow."""
    recipe = recipe_of_trees(0.1)
    numbers, structure = jax.tree.flatten(recipe.params)
    assert len(numbers) > 6
    for place, number in enumerate(numbers):
        changed = [*numbers[:place], next_above(number), *numbers[place + 1 :]]
        assert recipe_keys_differ(recipe, params=jax.tree.unflatten(structure, changed))
    assert recipe_keys_differ(recipe, rows=next_above(recipe.rows))
    linked = recipe.weight_params._replace(link_alpha=np.nextafter(np.float32(1), np.float32(0)))
    assert recipe_keys_differ(recipe, weight_params=linked)

    smooth = recipes.lazybb_rules(epsilon=1.0, rows=80, rounds=1)
    for name in smooth.weight_params._fields:
        number = next_above(getattr(smooth.weight_params, name))
        assert recipe_keys_differ(
            smooth, weight_params=smooth.weight_params._replace(**{name: number})
        )

    several = recipes.bdpe(epsilon=1.0, rows=80, rounds=[1, 2], depth=1)
    assert not recipe_keys_differ(recipes.setting(several, 0), rounds=np.int32(2))


def first_thresholds(public_key, nodes):
    """The thresholds of the first tree of a forest, from its public key."""
    site = boundary.site_key(jax.random.fold_in(public_key, 0), "threshold")
    return mechanisms.uniform.sample(site, jnp.zeros((1, nodes), jnp.float32), jnp.float32(1))


def test_a_search_for_the_seed_finds_the_public_key_alone():
    """All seeds of 16 bits are tried on what was published; no noise follows from the find."""
    table, recipe = table_of_one_split(), PAIRS_OF_ONE_BUDGET["learners"][0]
    noise_seed, public_seed = 31_337, 54_321
    boost = jax.jit(dpbt.boost)
    keys = jax.random.key(noise_seed), jax.random.key(public_seed)
    released = boost(keys[0], table, recipe, keys[1]).transcript.rounds

    def is_seed_of_thresholds(seed):
        return jnp.all(first_thresholds(jax.random.key(seed), 3) == released["threshold"][0])

    seeds = np.flatnonzero(
        jax.jit(jax.vmap(is_seed_of_thresholds))(jnp.arange(2**16, dtype=jnp.uint32))
    )
    assert seeds.tolist() == [public_seed]

    # Whoever has the public key refits with it in the place of the secret one.
    public_key = jax.random.key(int(seeds[0]))
    for guess in (public_key, *jax.random.split(public_key), jax.random.fold_in(public_key, 0)):
        again = boost(guess, table, recipe, public_key).transcript.rounds
        difference = np.asarray(again["leaf"] - released["leaf"], np.int64)
        assert np.any(difference % GRID != 0)  # false alarm: 4 * 127**-8


def test_public_structure_and_noise_have_nothing_in_common():
    table = table_of_one_split()
    recipe = recipes.random_forest(epsilon=0.1, rows=400, rounds=3, depth=2, disjoint=True)
    grow = jax.jit(lambda key, public: dpbt.boost(key, table, recipe, public).transcript.rounds)
    one, two = jax.random.key(1), jax.random.key(2)
    release, other_noise, other_public = grow(one, two), grow(two, two), grow(one, one)
    for site in ("attribute", "threshold", "fallback"):
        np.testing.assert_array_equal(release[site], other_noise[site])
        if site != "attribute":  # of one attribute there is one choice
            assert np.any(np.asarray(release[site] != other_public[site]))
    np.testing.assert_array_equal(release["part"], other_public["part"])
    assert np.any(np.asarray(release["part"] != other_noise["part"]))
    noise = np.asarray(release["leaf"] - other_public["leaf"], np.int64)
    assert np.all(noise % GRID == 0)  # the noise is a function of the noise key alone
    assert np.any(np.asarray(release["leaf"] - other_noise["leaf"]) % GRID != 0)


def test_a_public_key_is_needed_and_must_be_another():
    table, recipe, key = table_of_one_split(), PAIRS_OF_ONE_BUDGET["learners"][0], dpbt.fresh_key()
    for run in (dpbt.fit, dpbt.boost):
        with pytest.raises(ValueError, match="give public_key"):
            run(key, table, recipe)
    for same_key in (key, jax.random.clone(key)):
        with pytest.raises(ValueError, match="independent of key"):
            dpbt.fit(key, table, recipe, same_key)


def test_budgets_of_half_precision_are_refused():
    """Made whole, 3.25 and 3.5 would be one number, and their noise the same."""
    recipe = recipes.lazybb_rules(epsilon=1.0, rows=80, rounds=1)
    half = recipe.params._replace(noise={"rule": np.float16(3.25)})
    with pytest.raises(ValueError, match="numbers of 32 bits"):
        run_keys.derive_recipe_key(jax.random.key(0), dataclasses.replace(recipe, params=half))
