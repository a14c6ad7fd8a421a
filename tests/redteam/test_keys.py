"""Attacks on keys: one key with two settings, searches for seeds, public structure and noise."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import boosting, losses, recipes, weighting
from dpbt.common.types import Table
from dpbt.data.splits import of_splits
from dpbt.privacy import boundary, mechanisms
from tests.redteam.attacks import GRID, class_counts, one_split

KEYS = 20
FIXED = {"rows": 400, "rounds": 1}


def leaves(fit, key, table, recipe):
    return np.asarray(fit(key, table, recipe)["leaf"][0], np.int64)


def by_boost(key, table, recipe):
    return jax.jit(dpbt.boost)(key, table, recipe).transcript.rounds


def rows_off(pairs, truth):
    """How many rows 2 a - b is off by, for the releases (a, b) of a scale and its double."""
    found = [(2 * a - b) / GRID for a, b in pairs]
    return np.abs(np.asarray(found) - truth)


def assert_unknown(pairs, truth):
    """At least half of all counts are off by more than a row.

    The noise of 2 a - b has a scale of 20 rows or more, so each is off by at most a row with a
    probability below 0.05. False alarm: less than 2**80 * 0.05**40 < 1e-28 for 80 counts.
    """
    off = rows_off(pairs, truth)
    assert off.size >= 80
    assert np.mean(off > 1) > 0.5


def tree(epsilon):
    return recipes.bdpe(epsilon=epsilon, depth=1, alpha=1.0, **FIXED)


@pytest.mark.parametrize(
    "key", [jax.random.key, lambda seed: dpbt.fresh_key()], ids=["seed", "fresh"]
)
def test_one_key_with_two_settings_gives_no_counts(key):
    table = one_split()
    pairs = []
    for seed in range(KEYS):
        own = key(seed)
        pairs.append([leaves(by_boost, own, table, tree(epsilon)) for epsilon in (0.1, 0.05)])
    assert_unknown(pairs, class_counts(table))


def test_one_key_under_vmap_over_settings_gives_no_counts():
    table, both = one_split(), tree(np.array([0.1, 0.05]))

    def one(key, r):
        return dpbt.boost(key, table, r).transcript.rounds["leaf"][0]

    many = jax.jit(jax.vmap(one, (None, 0)))
    pairs = [np.asarray(many(jax.random.key(seed), both), np.int64) for seed in range(KEYS)]
    assert_unknown(pairs, class_counts(table))


def test_one_key_with_two_forests_gives_no_counts():
    """Both forests have the public key, and so the structure, in common."""
    table = one_split()
    positions = np.asarray(table.bins[:, 0], np.float32)
    pairs, truth = [], []
    for seed in range(KEYS):
        models = [
            dpbt.fit(
                jax.random.key(seed),
                table,
                recipes.random_forest(epsilon=epsilon, depth=1, **FIXED),
                jax.random.key(seed + 1000),
            )
            for epsilon in (0.1, 0.05)
        ]
        pairs.append([np.asarray(m.releases["leaf"][0, 0], np.int64) for m in models])
        right = positions > np.asarray(models[0].releases["threshold"]).reshape(())
        label = np.asarray(table.target)
        truth.append([[np.sum((right == s) & (label == y)) for y in (0, 1)] for s in (0, 1)])
    assert_unknown(pairs, np.asarray(truth))


def test_one_key_with_two_halfspaces_gives_no_sums():
    rng = np.random.default_rng(0)
    rows = rng.normal(0, 0.3, (60, 4)).astype(np.float32)
    table = Table(jnp.asarray(rows), jnp.asarray(rows[:, 0] > 0), jnp.ones(60, bool))
    near = []
    for seed in range(KEYS):
        a, b = (
            by_boost(
                jax.random.key(seed),
                table,
                recipes.halfspace_boost(rows=60, noise_scale=noise, rounds=1),
            )["center"][0]
            for noise in (0.5, 1.0)
        )
        near.append(2 * np.asarray(a, np.int64) - np.asarray(b, np.int64))
    # The same noise at twice the scale would give one vector under all keys, up to rounding. Of
    # independent noise, of a scale of 10**6 units, all but a share of 1e-5 differ by more than 9.
    assert np.mean(np.abs(np.diff(near, axis=0)) > 9) > 0.5


def test_one_key_with_two_settings_of_lazybb_does_not_repeat_its_choice():
    """At so little epsilon the noise alone chooses, and two settings must not share it."""
    rng = np.random.default_rng(0)
    bits, target = (rng.random(shape) < 0.5 for shape in ((80, 31), (80,)))
    table = of_splits(bits, target, np.ones(80, bool))
    both = recipes.lazybb_rules(epsilon=np.array([1e-3, 2e-3]), rows=80, rounds=1)

    def choice(key, r):
        return dpbt.boost(key, table, r).transcript.rounds["rule"][0]

    one = jax.vmap(choice, (None, 0))
    keys = jax.random.split(jax.random.key(1), 200)
    chosen = np.asarray(jax.jit(jax.vmap(one, (0, None)))(keys, both))
    # 64 rules: honest choices agree 3 times of 200 on average, more than 60 times with 1e-50.
    assert np.mean(chosen[:, 0] == chosen[:, 1]) < 0.3


def test_two_learners_of_one_budget_do_not_share_noise():
    """Under two structures the same noise would give exact differences of counts."""
    table = one_split()
    same = 0
    for seed in range(KEYS):
        found = []
        for public, negative in ((1001, "zero"), (1002, "uniform")):
            recipe = recipes.random_forest(epsilon=0.1, depth=2, negative=negative, **FIXED)
            release = dpbt.fit(jax.random.key(seed), table, recipe, jax.random.key(public)).releases
            found.append(np.asarray(release["leaf"], np.int64).reshape(-1))
        # All counts are multiples of GRID, so a shared noise leaves multiples of GRID.
        same += np.all((found[0] - found[1]) % GRID == 0)
    assert same == 0  # false alarm: 20 * 127**-8 < 1e-15


def test_two_weight_updates_of_one_budget_do_not_share_noise():
    table = one_split()
    recipe = recipes.bdpe(epsilon=0.1, depth=1, alpha=1.0, **FIXED)
    other = dataclasses.replace(
        recipe, weight_update=weighting.mirror(losses.fixed(losses.log), bounded=True)
    )
    found = [leaves(by_boost, jax.random.key(3), table, r) for r in (recipe, other)]
    assert np.any((found[0] - found[1]) % GRID != 0)  # false alarm: 127**-4 < 1e-8


def own_keys_differ(recipe, **changes):
    keys = [
        boosting.own_key(jax.random.key(0), one)
        for one in (recipe, dataclasses.replace(recipe, **changes))
    ]
    return not np.array_equal(*map(jax.random.key_data, keys))


def next_above(number):
    return np.nextafter(number, np.float32(np.inf))


def test_every_number_of_a_budget_changes_the_noise():
    recipe = tree(0.1)
    numbers, form = jax.tree.flatten(recipe.params)
    assert len(numbers) > 6
    for place, number in enumerate(numbers):
        changed = [*numbers[:place], next_above(number), *numbers[place + 1 :]]
        assert own_keys_differ(recipe, params=jax.tree.unflatten(form, changed))


def test_the_number_of_rows_and_those_of_the_reweighter_change_the_noise():
    recipe = tree(0.1)
    assert own_keys_differ(recipe, rows=next_above(recipe.rows))
    linked = recipe.weighting._replace(link_alpha=np.nextafter(np.float32(1), np.float32(0)))
    assert own_keys_differ(recipe, weighting=linked)

    smooth = recipes.lazybb_rules(epsilon=1.0, rows=80, rounds=1)
    for name in smooth.weighting._fields:
        number = next_above(getattr(smooth.weighting, name))
        assert own_keys_differ(smooth, weighting=smooth.weighting._replace(**{name: number}))


def test_rounds_and_delta_do_not_change_the_noise():
    """The first T rounds do not depend on how many follow."""
    recipe = recipes.bdpe(epsilon=1.0, rows=80, rounds=[1, 2], depth=1)
    one = recipes.setting(recipe, 0)
    assert not own_keys_differ(one, rounds=np.int32(2))


def structure_of(public_key, nodes):
    """The thresholds of the first tree of a forest, from its public key."""
    site = boundary.site_key(jax.random.fold_in(public_key, 0), "threshold")
    return mechanisms.uniform.sample(site, jnp.zeros((1, nodes), jnp.float32), jnp.float32(1))


def test_a_search_for_the_seed_finds_the_public_key_alone():
    """All seeds of 16 bits are tried on what was published; no noise follows from the find."""
    table, recipe = one_split(), recipes.random_forest(epsilon=0.1, depth=2, **FIXED)
    noise_seed, public_seed = 31_337, 54_321
    model = dpbt.fit(jax.random.key(noise_seed), table, recipe, jax.random.key(public_seed))
    published = model.releases["threshold"][0]

    def hit(seed):
        return jnp.all(structure_of(jax.random.key(seed), 3) == published)

    hits = np.flatnonzero(jax.jit(jax.vmap(hit))(jnp.arange(2**16, dtype=jnp.uint32)))
    assert hits.tolist() == [public_seed]

    # Whoever has the public key refits with it in the place of the secret one.
    found = jax.random.key(int(hits[0]))
    for guess in (found, *jax.random.split(found), jax.random.fold_in(found, 0)):
        again = dpbt.boost(guess, table, recipe, found).transcript.rounds
        difference = np.asarray(again["leaf"] - model.releases["leaf"], np.int64)
        assert np.any(difference % GRID != 0)  # false alarm: 4 * 127**-8


PUBLIC = ("attribute", "threshold", "fallback")


@pytest.mark.parametrize("disjoint", [False, True])
def test_public_structure_and_noise_have_nothing_in_common(disjoint):
    table = one_split()
    recipe = recipes.random_forest(epsilon=0.1, rows=400, rounds=3, depth=2, disjoint=disjoint)
    grow = jax.jit(lambda key, public: dpbt.boost(key, table, recipe, public).transcript.rounds)
    one, two = jax.random.key(1), jax.random.key(2)
    here, other_noise, other_public = grow(one, two), grow(two, two), grow(one, one)
    for site in PUBLIC:
        np.testing.assert_array_equal(here[site], other_noise[site])
        if site != "attribute":  # of one attribute there is one choice
            assert np.any(np.asarray(here[site] != other_public[site]))
    if disjoint:
        np.testing.assert_array_equal(here["part"], other_public["part"])
        assert np.any(np.asarray(here["part"] != other_noise["part"]))
    noise = np.asarray(here["leaf"] - other_public["leaf"], np.int64)
    assert np.all(noise % GRID == 0)  # the noise is a function of the noise key alone
    assert np.any(np.asarray(here["leaf"] - other_noise["leaf"]) % GRID != 0)


def test_a_public_key_is_needed_and_must_be_another():
    table, recipe = one_split(), recipes.random_forest(epsilon=0.1, depth=2, **FIXED)
    key = dpbt.fresh_key()
    with pytest.raises(ValueError, match="give public_key"):
        dpbt.fit(key, table, recipe)
    with pytest.raises(ValueError, match="give public_key"):
        dpbt.boost(key, table, recipe)
    with pytest.raises(ValueError, match="independent of key"):
        dpbt.fit(key, table, recipe, key)
    with pytest.raises(ValueError, match="independent of key"):
        dpbt.fit(key, table, recipe, jax.random.clone(key))


def test_budgets_of_half_precision_are_refused():
    """Made whole, 3.25 and 3.5 would be one number, and their noise the same."""
    recipe = recipes.lazybb_rules(epsilon=1.0, rows=80, rounds=1)
    half = recipe.params._replace(noise={"rule": np.float16(3.25)})
    with pytest.raises(ValueError, match="numbers of 32 bits"):
        boosting.own_key(jax.random.key(0), dataclasses.replace(recipe, params=half))
