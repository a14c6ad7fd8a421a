"""The whole algorithm: against a plain loop, against Algorithm 1, without privacy, under every
transform.
"""

import copy
import gc
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dpbt
from dpbt import boosting, losses, recipes
from dpbt.common.types import UNSPLIT
from dpbt.data.splits import columns_of, of_splits, splits_of
from dpbt.data.tables import take
from dpbt.learners import hypotheses
from dpbt.privacy import boundary, mechanisms, variates
from dpbt.training import fit as training_fit
from tests import reference
from tests.conftest import random_table
from tests.noise import multiplier, scales
from tests.tables import allowing

selection_noise = jax.jit(mechanisms.selection_noise, static_argnums=1)
discrete_laplace = jax.jit(mechanisms.discrete_laplace.sample)


def library_noise(key, recipe):
    """The draws the library will make under this key, for the reference."""
    keys = boosting.noise_keys(key, recipe).rounds

    def noise(t, site, shape, scale):
        site_key = boundary.site_key(keys[t], site)
        if site.startswith("split"):
            with variates.double_precision():
                times = selection_noise(site_key, shape)
                return [-np.log(np.asarray(part)) for part in times]
        value = jnp.zeros(shape, jnp.int32)
        return np.asarray(discrete_laplace(site_key, value, jnp.float32(scale)))

    return noise


def plain(recipe, alpha):
    """A recipe as the plain settings of the reference."""
    budget, drawn, depth = recipe.params, scales(recipe), len(recipe.params.settings.alpha)
    scalars = ("link_alpha", "clip", "zeta", "step", "smoothing")
    grid = float(getattr(budget, "leaf_step", 1))
    return {
        "rounds": int(recipe.rounds),
        "depth": depth,
        "tight": recipe.calibration == "tight",
        "loss": recipe.loss(0.5).name,
        "alpha": alpha,
        "split_epsilon": [float(1 / multiplier(recipe, f"split_{k}")) for k in range(depth)],
        "rows": float(recipe.rows),
        "leaf_scale": drawn["leaf"] * grid,
        "error_scale": drawn.get("error_0", 0.0),
        "leaf_step": grid,
        **{name: float(getattr(budget.settings, name)) for name in scalars},
    }


CASES = {
    "tight-objective": {"alpha": "objective"},
    "tight-0.3": {"alpha": 0.3},
    "tight-square": {"alpha": 1.0, "criterion": losses.square},
    "tight-log": {"alpha": 1.0, "criterion": losses.log},
    "published-objective": {"alpha": "objective", "calibration": "published"},
    "published-1": {"alpha": 1.0, "calibration": "published"},
    "published-square": {"alpha": 1.0, "criterion": losses.square, "calibration": "published"},
}


def agree(table, recipe, alpha, seed):
    key = jax.random.key(seed)
    model = dpbt.fit(key, table, recipe)
    arrays = [np.asarray(array) for array in (splits_of(table), table.target, table.present)]
    expected = reference.boost(*arrays, plain(recipe, alpha), library_noise(key, recipe))
    np.testing.assert_array_equal(model.hypotheses.split, [heap for heap, _ in expected])
    np.testing.assert_allclose(
        model.hypotheses.leaf, [leaves for _, leaves in expected], rtol=2e-3, atol=2e-3
    )


FAST = ("tight-objective", "tight-square", "published-objective")
some_slow = pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case in FAST else [pytest.mark.slow]) for case in CASES]
)


@some_slow
def test_same_splits_as_a_plain_loop_under_the_same_noise(small_table, case):
    recipe = recipes.bdpe(epsilon=30, rows=100, rounds=4, depth=3, clip=3.0, **CASES[case])
    agree(small_table, recipe, CASES[case]["alpha"], seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["tight-objective", "published-objective"])
def test_same_splits_as_a_plain_loop_on_real_data(banknote, case):
    recipe = recipes.bdpe(epsilon=5, rows=1372, rounds=2, depth=3, **CASES[case])
    agree(banknote, recipe, CASES[case]["alpha"], seed=1)


def test_weights_and_leverage_are_algorithm_1():
    """The step form of (126) with beta = (a / m) sum w y h, in float64, from the exact leaves of
    each round.
    """
    table = random_table(4, 400, 6)
    recipe = recipes.bdpe(
        epsilon=np.inf, rows=400, rounds=5, depth=2, alpha=1.0, pi=0.25, zeta=0.01
    )
    model = dpbt.fit(jax.random.key(0), table, recipe)
    bound = (1 - 0.02) / np.sqrt(0.01 * 0.99)
    assert float(recipe.params.settings.clip) == pytest.approx(bound, rel=1e-5)
    a = 1.25 / bound**2
    y, weight = np.where(np.asarray(table.target), 1.0, -1.0), np.full(400, 0.5)
    for t in range(5):
        tree = jax.tree.map(lambda leaf, t=t: leaf[t], model.hypotheses)
        leaf = np.asarray(hypotheses.route(tree, columns_of(table)))
        share = np.array(
            [
                weight[(leaf == k) & (y > 0)].sum() / max(weight[leaf == k].sum(), 1e-12)
                for k in range(4)
            ]
        )
        share = np.clip(share, 0.01, 0.99)
        h = ((2 * share - 1) / np.sqrt(share * (1 - share)))[leaf]
        beta = a / 400 * np.sum(weight * y * h)
        found = hypotheses.predict(tree, columns_of(table))
        np.testing.assert_allclose(found, beta * h, rtol=0.03, atol=2e-3)
        z = -beta * y * h + (2 * weight - 1) / np.sqrt(weight * (1 - weight))
        weight = 0.5 * (1 + z / np.sqrt(4 + z**2))


def test_without_privacy_pure_nodes_stay_and_empty_leaves_follow_their_parents():
    splits = np.array([[0, 0], [0, 1], [1, 0], [1, 0], [1, 0]], bool)
    label = np.array([0, 0, 1, 1, 0], bool)
    table = of_splits(splits, label, np.ones(5, bool))
    recipe = recipes.bdpe(epsilon=np.inf, rows=5, rounds=1, depth=2, alpha=1.0)
    model = dpbt.fit(jax.random.key(0), table, recipe)
    assert model.hypotheses.split[0].tolist() == [0, UNSPLIT, 0]
    leaf = np.asarray(model.hypotheses.leaf[0])
    assert leaf[0] == leaf[1] < 0
    assert leaf[2] == pytest.approx(leaf[3], rel=1e-4)
    assert np.all(np.asarray(dpbt.predict(model, table)) == [False, False, True, True, True])


@pytest.mark.parametrize(
    "criterion",
    [
        losses.m_alpha,
        *(pytest.param(loss, marks=pytest.mark.slow) for loss in (losses.square, losses.log)),
    ],
    ids=lambda c: getattr(c, "name", "m"),
)
def test_without_privacy_boosting_learns(banknote, criterion):
    alpha = "objective" if criterion is losses.m_alpha else 1.0
    recipe = recipes.bdpe(
        epsilon=np.inf, rows=1372, rounds=20, depth=4, alpha=alpha, criterion=criterion
    )
    model = dpbt.fit(jax.random.key(0), banknote, recipe)
    assert float(np.mean(dpbt.predict(model, banknote) != banknote.target)) < 0.06


def test_one_program_serves_every_traced_value(small_table):
    def go(**changes):
        settings = {"epsilon": 1.0, "rows": 90, "rounds": 3, "depth": 2, **changes}
        dpbt.fit(jax.random.key(1), small_table, recipes.bdpe(**settings))

    go()
    before = training_fit._compiled._cache_size()
    for changes in (
        {"epsilon": 0.2},
        {"epsilon": np.inf},
        {"beta_tree": 0.3},
        {"clip": 2.0},
        {"zeta": 0.01},
        {"pi": 0.5},
        {"smoothing": 0.0},
        {"error_fraction": 0.5},
        {"rows": 100},
    ):
        go(**changes)
    absent = small_table._replace(present=small_table.present.at[:9].set(False))
    dpbt.fit(jax.random.key(2), absent, recipes.bdpe(epsilon=1.0, rows=90, rounds=3, depth=2))
    assert training_fit._compiled._cache_size() == before
    for alpha in (0.2, 0.9, optax.linear_schedule(1.0, 0.1, 2)):
        go(alpha=alpha)
    assert training_fit._compiled._cache_size() == before + 1


def test_vmap_over_settings_keys_and_masks_is_a_loop(small_table):
    epsilon = np.array([1.0, 5.0, np.inf])
    recipe = recipes.bdpe(epsilon=epsilon, rows=90, rounds=3, depth=2)
    keys = jax.random.split(jax.random.key(0), 2)
    masks = jnp.stack([small_table.present, small_table.present.at[:5].set(False)])

    def score(key, present, one):
        return dpbt.boost(key, small_table._replace(present=present), one).scores

    grid = jax.vmap(jax.vmap(jax.vmap(score, (0, None, None)), (None, 0, None)), (None, None, 0))
    got = jax.jit(grid)(keys, masks, recipe)
    assert got.shape == (3, 2, 2, 80)
    for e in range(3):
        for p in range(2):
            model = dpbt.fit(
                keys[1], small_table._replace(present=masks[p]), recipes.setting(recipe, e)
            )
            score = dpbt.decision_function(model, small_table)
            np.testing.assert_allclose(got[e, p, 1], score, atol=1e-5)


@pytest.mark.parametrize("case", ["tight-objective", "published-objective"])
def test_replay_rebuilds_the_model_and_ignores_absent_rows(small_table, case):
    recipe = recipes.bdpe(epsilon=4, rows=100, rounds=3, depth=2, **CASES[case])
    model = dpbt.fit(jax.random.key(7), small_table, recipe)
    found = jax.jit(dpbt.replay)(model.transcript, small_table, recipe)
    rebuilt = found.hypotheses
    np.testing.assert_array_equal(rebuilt.split, model.hypotheses.split)
    np.testing.assert_allclose(
        rebuilt.leaf, model.hypotheses.leaf, rtol=1e-5, atol=1e-7
    )  # two programs, one ulp apart
    gone = ~small_table.present
    other = small_table._replace(
        target=small_table.target ^ gone,
        bins=small_table.bins ^ gone[:, None].astype(np.uint8),
    )
    again = jax.jit(dpbt.replay)(model.transcript, other, recipe)
    jax.tree.map(np.testing.assert_array_equal, found, again)


def test_scores_and_probabilities(small_table):
    recipe = recipes.bdpe(epsilon=50, rows=80, rounds=3, depth=2)
    model = dpbt.fit(jax.random.key(0), small_table, recipe)
    score = np.asarray(dpbt.decision_function(model, small_table))
    proba = np.asarray(dpbt.predict_proba(model, small_table))
    np.testing.assert_array_equal(dpbt.predict(model, small_table), score > 0)
    np.testing.assert_allclose(proba, losses.matsushita.inverse_link(score), rtol=1e-6)
    np.testing.assert_array_equal((proba > 0.5), score > 0)
    in_training = jax.jit(dpbt.boost)(jax.random.key(0), small_table, recipe).scores
    np.testing.assert_allclose(in_training, score, atol=1e-6)


def test_kinked_losses_split_but_do_not_boost(small_table):
    recipe = recipes.bdpe(
        epsilon=5, rows=80, rounds=2, depth=2, alpha=1.0, criterion=losses.zero_one
    )
    assert recipe.loss(1.0).name == "matsushita"
    dpbt.fit(jax.random.key(0), small_table, recipe)
    with pytest.raises(ValueError, match="smooth surrogate"):
        recipes.bdpe(epsilon=5, rows=80, alpha=1.0, loss=losses.zero_one)


def bad(table, **changes):
    return table._replace(**changes)


def asking(table, **changes):
    return table._replace(splits=table.splits._replace(**changes))


def numbers(table, splits):
    return table._replace(bins=table.bins.astype(jnp.float32), splits=splits)


BAD_TABLES = {
    "bits": (lambda t: bad(t, bins=t.bins > 0), "table.bins must be uint8, or float32"),
    "numbers": (lambda t: numbers(t, None), "trees ask splits of uint8"),
    "numbers asked": (lambda t: numbers(t, t.splits), "splits are asked of uint8 bins"),
    "nothing asked": (lambda t: bad(t, splits=None), "uint8 bins needs splits"),
    "target": (lambda t: bad(t, target=t.target.astype(jnp.int32)), "table.target must be bool"),
    "rank": (lambda t: bad(t, bins=t.bins[:, 0]), "uint8, or float32 numbers, of rank 2"),
    "lengths": (lambda t: bad(t, target=t.target[:-1]), "must have the same rows, and do not"),
    "no features": (lambda t: bad(t, bins=t.bins[:, :0]), "at least one row and one feature"),
    "fewer features": (lambda t: bad(t, bins=t.bins[:, :6]), "splits.feature must number"),
    "low": (lambda t: asking(t, low=t.splits.low[:-1]), "splits.low must be uint8"),
    "position": (lambda t: asking(t, position=t.splits.position[:, 1:]), "splits.position"),
    "attribute": (lambda t: asking(t, attribute=t.splits.attribute - 1), "splits.attribute"),
    "too many rows": (lambda t: take(t, np.arange(160) % 80), "at most rows=80"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_tables_are_refused(small_table, name):
    change, words = BAD_TABLES[name]
    recipe = recipes.bdpe(epsilon=1, rows=80)
    with pytest.raises(ValueError, match=words):
        dpbt.fit(jax.random.key(0), change(small_table), recipe)


def test_bad_keys_and_batched_recipes_are_refused(small_table):
    recipe = recipes.bdpe(epsilon=1, rows=80)
    several = jax.random.split(jax.random.key(0))
    for key, words in (
        (0, "typed key"),
        (jax.random.PRNGKey(0), "typed key"),
        (several, "one key"),
    ):
        with pytest.raises(ValueError, match=words):
            dpbt.fit(key, small_table, recipe)
    with pytest.raises(ValueError, match="chacha20 or threefry2x32"):
        dpbt.fit(jax.random.key(0, impl="rbg"), small_table, recipe)
    for several in (dpbt.fit, dpbt.boost):
        with pytest.raises(ValueError, match="one setting"):
            several(jax.random.key(0), small_table, recipes.bdpe(epsilon=[1, 2], rows=80))


def test_models_and_recipes_say_what_to_keep_instead_of_a_pickle(small_table):
    recipe = recipes.bdpe(epsilon=1, rows=90, rounds=3, depth=2)
    model = dpbt.fit(jax.random.key(0), small_table, recipe)
    for held, words in (
        (model, "a model holds functions .*; keep model.hypotheses and model.transcript"),
        (recipe, "a recipe holds functions .*; keep the arguments that made it"),
    ):
        with pytest.raises(TypeError, match=words):
            pickle.dumps(held)
        assert copy.deepcopy(held) is copy.copy(held) is held
    book = dpbt.ledger(recipe)
    assert pickle.loads(pickle.dumps(book)) == book
    kept = pickle.loads(pickle.dumps(model.hypotheses))
    jax.tree.map(np.testing.assert_array_equal, kept, model.hypotheses)


def test_fresh_keys_differ_and_fit(small_table):
    first, second = dpbt.fresh_key(), dpbt.fresh_key()
    assert not np.array_equal(jax.random.key_data(first), jax.random.key_data(second))
    dpbt.fit(first, small_table, recipes.bdpe(epsilon=1, rows=90, rounds=3, depth=2))


@pytest.mark.parametrize("calibration", ["tight", "published"])
def test_rounds_are_traced_and_capacity_changes_nothing(small_table, calibration):
    """T = 2 alone, and T = 2 in a program with room for 5: the same releases, then zeros; one
    program for all T.
    """
    settings = {"epsilon": 4.0, "rows": 90, "depth": 2, "calibration": calibration}
    alone = recipes.bdpe(rounds=2, **settings)
    several = recipes.bdpe(rounds=[2, 5], **settings)
    assert several.capacity == 5
    expected = dpbt.fit(jax.random.key(0), small_table, alone)
    programs = training_fit._compiled._cache_size()
    for index, rounds in enumerate((2, 5)):
        recipe = recipes.setting(several, index)
        model = dpbt.fit(jax.random.key(0), small_table, recipe)
        assert dpbt.ledger(recipe).epsilon == pytest.approx(4.0, rel=1e-5)
        for site, release in model.releases.items():
            assert release.shape[0] == 5
            assert not np.any(release[rounds:])
            if rounds == 2:
                np.testing.assert_allclose(release[:2], expected.releases[site], rtol=1e-6)
        density, _ = jax.jit(dpbt.replay)(model.transcript, small_table, recipe)
        assert all(
            not np.any(value[rounds:]) and np.all(value[:rounds] < 0) for value in density.values()
        )
        again = jax.jit(dpbt.boost)(jax.random.key(0), small_table, recipe, None)
        score = dpbt.decision_function(model, small_table)
        np.testing.assert_allclose(score, again.scores, atol=1e-6)
    assert training_fit._compiled._cache_size() == programs + 1


def test_splits_that_are_not_allowed_are_never_chosen(small_table):
    allowed = np.array([True, False, True, False, False, False, False])
    recipe = recipes.bdpe(epsilon=0.01, rows=90, rounds=5, depth=3)
    model = dpbt.fit(jax.random.key(0), allowing(small_table, allowed), recipe)
    assert set(np.unique(model.hypotheses.split)) == {0, 2}
    with pytest.raises(ValueError, match=r"splits.allowed must be bool\[7\]"):
        dpbt.fit(jax.random.key(0), allowing(small_table, allowed[:3]), recipe)


def test_a_fit_keeps_no_table():
    """A cache that holds a traced round would hold the rows that the round reads."""
    recipe = recipes.bdpe(rows=43, rounds=2, depth=1, epsilon=1.0)

    def tables_alive():
        gc.collect()
        return sum(array.shape in ((43, 5), (5, 43)) for array in jax.live_arrays())

    before = tables_alive()
    for seed in range(2):
        boosting.boost(jax.random.key(seed), random_table(seed, 43, 5), recipe)
    assert tables_alive() == before
