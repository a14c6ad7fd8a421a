"""Random forests against plain loops: leaf counts, noise, votes; structure is public; equal keys,
equal trees.
"""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import dpbt
from dpbt import recipes
from dpbt.models import scoring as prediction
from dpbt.privacy import boundary, mechanisms
from dpbt.training import run_keys
from dpbt.types import GRID, Table
from tests.support import recipe_noise
from tests.support.example_tables import random_table, with_allowed_splits
from tests.support.recipe_noise import scale_by_site

PUBLIC = jax.random.key(2**31)


def grown(key, table, recipe, **more):
    """A forest whose structure has a key of its own."""
    return dpbt.fit(key, table, recipe, PUBLIC, **more)


SHAPE = {"rows": 200, "rounds": 7, "depth": 4}
EVERY_RECIPE = {
    "forest": functools.partial(recipes.random_forest, negative="uniform", **SHAPE),
    "disjoint": functools.partial(recipes.random_forest, disjoint=True, **SHAPE),
    "rf_e": functools.partial(recipes.rf_e, **SHAPE),
}
every_recipe = pytest.mark.parametrize("make", EVERY_RECIPE.values(), ids=EVERY_RECIPE)
BOOST = jax.jit(dpbt.boost)


@pytest.fixture(scope="module")
def table() -> Table:
    """Continuous positions of 200 rows, ten of them absent."""
    rng = np.random.default_rng(1)
    position = rng.random((200, 5)).astype(np.float32)
    position[:, 4] = position[:, 4] > 0.5
    label = (position[:, 0] + position[:, 4] > 1.0) ^ (rng.random(200) < 0.1)
    present = np.ones(200, bool)
    present[rng.choice(200, 10, replace=False)] = False
    return Table(jnp.asarray(position), jnp.asarray(label), jnp.asarray(present))


def leaf_of(attribute, threshold, row):
    """The leaf a row reaches, one split at a time."""
    node, inner = 0, len(attribute)
    while node < inner:
        node = 2 * node + (2 if row[attribute[node]] > threshold[node] else 1)
    return node - inner


def plain_theta(release, table, noise, scale, unit=1.0, zero=False):
    """theta[k][leaf] of every tree by a loop over rows, in float64, from the structure and the
    noise of a release.
    """
    position, label, present = (np.asarray(array) for array in table[:3])
    attribute, threshold = np.asarray(release["attribute"]), np.asarray(release["threshold"])
    theta, counts = np.zeros((*attribute.shape[:2], attribute.shape[2] + 1)), []
    for t in range(attribute.shape[0]):
        for p in range(attribute.shape[1]):
            count = np.zeros((attribute.shape[2] + 1, 2), np.int64)
            for i in np.flatnonzero(present):
                if "part" not in release or int(release["part"][t, i]) == p:
                    leaf = leaf_of(attribute[t, p], threshold[t, p], position[i])
                    count[leaf, int(label[i])] += 1
            counts.append(count)
            noisy = count * unit + noise(t, scale)[p]
            for leaf, (negative, positive) in enumerate(np.maximum(noisy, 0) if zero else noisy):
                theta[t, p, leaf] = float(release["fallback"][t, p, leaf])
                if negative >= 0 and positive >= 0 and negative + positive > 0:
                    theta[t, p, leaf] = positive / (negative + positive)
    return theta, counts


@pytest.mark.slow
@pytest.mark.parametrize(("name", "epsilon"), [("forest", 3.0), ("disjoint", np.inf)])
def test_leaves_are_those_of_a_loop_under_the_same_noise(table, name, epsilon):
    recipe = EVERY_RECIPE[name](epsilon=epsilon)
    key = jax.random.key(5)
    model = BOOST(key, table, recipe, PUBLIC)
    releases = model.transcript.rounds
    keys = run_keys.derive_phase_keys(run_keys.derive_recipe_key(key, recipe), recipe).rounds
    zero = jnp.zeros(releases["leaf"].shape[1:], jnp.int32)

    def noise(t, scale):
        site_key = boundary.site_key(keys[t], "leaf")
        return np.asarray(mechanisms.discrete_laplace.sample(site_key, zero, scale), np.float64)

    theta, counts = plain_theta(
        releases, table, noise, scale_by_site(recipe)["leaf"], GRID, name == "disjoint"
    )
    np.testing.assert_allclose(model.hypotheses.leaf, theta, atol=2e-4)
    used = sum(count.sum() for count in counts)
    assert used == (190 if name == "disjoint" else 7 * 190)


@pytest.mark.slow
def test_labels_without_privacy_are_majorities(table):
    model = grown(jax.random.key(0), table, EVERY_RECIPE["rf_e"](epsilon=np.inf))
    release = {**model.releases, "fallback": np.zeros((7, 1, 16))}
    counts = np.array(plain_theta(release, table, lambda t, s: [0], 0)[1])
    np.testing.assert_array_equal(model.releases["leaf"][:, 0], counts[..., 1] > counts[..., 0])


def same(mine, theirs):
    """Integers to the bit; floats as two programs compute them."""
    tolerance = 1e-6 if mine.dtype == jnp.float32 else 0
    np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@every_recipe
def test_same_trees_as_boosting_under_the_same_key_whatever_the_batch(table, make):
    """Their structure is that of any rows."""
    recipe, key = make(epsilon=2.0), jax.random.key(3)
    boosted = BOOST(key, table, recipe, PUBLIC)
    other = table._replace(target=~table.target, present=~table.present, bins=1 - table.bins)
    theirs = BOOST(key, other, recipe, PUBLIC).transcript.rounds
    for site in set(theirs) - {"leaf"}:
        np.testing.assert_array_equal(boosted.transcript.rounds[site], theirs[site])
    assert not np.array_equal(boosted.transcript.rounds["leaf"], theirs["leaf"])
    for memory in (2**14, 2**32):
        model = grown(key, table, recipe, memory=memory)
        rounds = {site: boosted.transcript.rounds[site] for site in model.releases}
        jax.tree.map(same, (model.releases, model.hypotheses), (rounds, boosted.hypotheses))
    others = boosted.model(table, recipe)
    np.testing.assert_array_equal(dpbt.predict(model, table), dpbt.predict(others, table))


@pytest.mark.slow
def test_attributes_and_thresholds_are_uniform(table):
    recipe = recipes.random_forest(epsilon=1.0, rows=200, rounds=40, depth=8)
    releases = grown(jax.random.key(0), table, recipe).releases
    counts = np.bincount(np.asarray(releases["attribute"]).reshape(-1), minlength=5)
    assert stats.chisquare(counts).pvalue > 1e-6  # the false-alarm probability; the same below
    assert stats.kstest(np.asarray(releases["threshold"]).reshape(-1), "uniform").pvalue > 1e-6
    assert stats.kstest(np.asarray(releases["fallback"]).reshape(-1), "uniform").pvalue > 1e-6


@pytest.mark.slow
def test_rows_are_given_to_trees_uniformly_and_once():
    table = random_table(0, 4000, 3)
    recipe = recipes.random_forest(epsilon=np.inf, rows=4000, rounds=5, depth=2, disjoint=True)
    releases = BOOST(jax.random.key(0), table, recipe, PUBLIC).transcript.rounds
    sizes = np.asarray(releases["leaf"])[0].sum(axis=(1, 2)) / GRID
    assert sizes.sum() == 4000
    np.testing.assert_array_equal(sizes, np.bincount(np.asarray(releases["part"])[0], minlength=5))
    assert stats.chisquare(sizes).pvalue > 1e-6


def test_votes_are_those_of_a_loop():
    theta = np.random.default_rng(0).random((6, 300)).astype(np.float32)
    theta[:, 0], theta[:, 1] = 0.5, [1, 1, 1, 0, 0, 0]
    theta[:, 2] = [0.9, 0.9, 0.9, 0.45, 0.45, 0.45]
    expected = {"majority": [], "threshold": []}
    for column in theta.T.astype(np.float64):
        expected["majority"].append(sum(value > 0.5 for value in column) > 3)
        expected["threshold"].append(sum(column) / 6 > 0.5)
    for voting, answers in expected.items():
        np.testing.assert_array_equal(
            prediction.predictions_of_votes(jnp.asarray(theta), voting), answers
        )
    assert expected["majority"][2] != expected["threshold"][2]
    vote = functools.partial(prediction.predictions_of_votes, jnp.asarray(theta), "probabilistic")
    coins = jax.vmap(vote)(jax.random.split(jax.random.key(0), 4000))
    mean = theta.mean(axis=0)
    z = (np.mean(coins, axis=0) - mean) / np.sqrt(mean * (1 - mean) / 4000)
    assert np.max(np.abs(z)) < 6  # 300 comparisons: a false alarm has probability below 1e-6
    assert np.mean(z**2) == pytest.approx(1, abs=0.5)


@pytest.mark.slow
def test_rounds_that_did_not_happen_have_no_vote(table):
    many = recipes.random_forest(epsilon=2.0, rows=200, rounds=[3, 7], depth=4)
    key, small = jax.random.key(0), recipes.setting(many, 0)
    alone = recipes.random_forest(epsilon=2.0, rows=200, rounds=3, depth=4)
    model, same = grown(key, table, small), grown(key, table, alone)
    grown_trees = jax.tree.map(lambda array: array[:3], model.hypotheses)
    chex.assert_trees_all_equal(grown_trees, same.hypotheses)
    assert not np.any(model.hypotheses.leaf[3:])
    for voting in ("majority", "threshold"):
        expected = dpbt.predict(same, table, voting)
        np.testing.assert_array_equal(dpbt.predict(model, table, voting), expected)


LEDGERS = [
    (recipes.random_forest, {"calibration": "published"}, 1),
    (recipes.random_forest, {"disjoint": True}, 1 / 7),
    (recipes.random_forest, {"delta": 1e-6}, None),
    (recipes.rf_l, {"calibration": "published"}, 2**4),
    (recipes.rf_l, {}, 1),
    (recipes.rf_e, {"calibration": "published"}, 2 * 2**4),
    (recipes.rf_e, {"disjoint": True}, 1 / 7),
    (recipes.rf_e, {"delta": 1e-6}, None),
]


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize(("make", "choice", "factor"), LEDGERS)
def test_ledgers_add_up_to_the_request(make, choice, factor, relation):
    """And the noise is `factor` times k / epsilon rows (twice that under replace-one, but for RF-E
    as published).
    """
    for epsilon in (0.03, 20.0):
        recipe = make(epsilon=epsilon, rows=500, rounds=7, depth=4, relation=relation, **choice)
        book = dpbt.ledger(recipe)
        assert book.epsilon <= epsilon
        # With a delta, Gaussian noise is set by GDP. Other noise is set by zCDP, and basic
        # composition of the same draws may be smaller still. A round of labels is one draw, and
        # takes the cheaper of the two.
        by_zcdp = book.delta > 0 and make is not recipes.rf_e and not book.gaussian
        asked = book.epsilon_at(book.delta, "zcdp") if by_zcdp else book.epsilon
        assert epsilon * (1 - 1e-6) <= asked <= epsilon
        if factor is not None:
            same = make is recipes.rf_e and choice.get("calibration") == "published"
            twice = 2 if relation == "replace_one" and not same else 1
            assert scale_by_site(recipe)["leaf"] / GRID == pytest.approx(
                factor * twice * 7 / epsilon, rel=1e-5
            )
        drawn = recipe_noise.draw_specs_by_site(recipe, "rounds")
        assert set(drawn) == {line.site for line in book.lines}


def test_tables_that_random_trees_cannot_read_are_refused():
    bits, forest = random_table(0, 60, 5), EVERY_RECIPE["forest"](epsilon=1.0)
    with pytest.raises(ValueError, match="allowed must be None"):
        grown(jax.random.key(0), with_allowed_splits(bits, np.ones(5, bool)), forest)
