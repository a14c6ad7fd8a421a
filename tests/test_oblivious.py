"""Oblivious trees against plain loops, their public splits, their budgets, and attacks."""

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dpbt
from dpbt import losses, recipes
from dpbt.data import domains
from dpbt.data.domains import Boolean, Nominal, Numeric
from dpbt.learners.bins.config import Attribute
from dpbt.learners.bins.histograms import class_histograms_sensitivity
from dpbt.learners.bins.rows import BinnedRows
from dpbt.learners.oblivious import learner as oblivious
from dpbt.learners.oblivious import splits as oblivious_splits
from dpbt.learners.oblivious.config import ObliviousConfig
from dpbt.learners.oblivious.model import ObliviousTree
from dpbt.learners.oblivious.rows import assign_leaves_unless_known
from dpbt.privacy import mechanisms, sensitivity
from dpbt.recipes.bins import split_attributes_of_domain
from dpbt.training import run_keys
from dpbt.types import ADD_REMOVE, GRID, MAX_BINS, NUMBER, REPLACE_ONE, Table
from dpbt.weighting import MirrorNumbers, clipped_mirror
from tests.support.recipe_noise import scale_by_site
from tests.support.references import oblivious_trees as reference

DOMAIN = {
    "kind": Nominal(("a", "b", "c")),
    "size": Numeric(0, 1, bins=6, missing=True),
    "on": Boolean(),
    "one": Nominal(("a",), other="a"),
}
COUNTS = [column.n_bins for column in DOMAIN.values()]
ROWS, ROUNDS = 60, 5
BOOST = jax.jit(dpbt.boost)


def table_of_four_columns(present=ROWS):
    """A table with missing and unlisted values."""
    rng = np.random.default_rng(0)
    size = np.where(rng.random(ROWS) < 0.2, np.nan, rng.random(ROWS))
    columns = {
        "kind": rng.choice(["a", "b", "c", "none of these"], ROWS),
        "size": size,
        "on": rng.random(ROWS) < 0.4,
        "one": np.full(ROWS, "a"),
    }
    label = (columns["on"] | (columns["kind"] == "b")) ^ (rng.random(ROWS) < 0.2)
    is_present = np.arange(ROWS) < present
    bins = domains.encode(DOMAIN, columns)
    splits = jax.tree.map(jnp.asarray, domains.splits(DOMAIN))
    return Table(jnp.asarray(bins), jnp.asarray(label), jnp.asarray(is_present), splits)


def oblivious_recipe(epsilon=3.0, **changes):
    settings = {"delta": 1e-6, "rounds": ROUNDS, "depth": 4, "rows": ROWS, "domain": DOMAIN}
    shares = {"marginals_fraction": 0.3, "scores_fraction": 0.2}
    return recipes.oblivious_boost(epsilon=epsilon, **{**settings, **shares, **changes})


SITES = {"sum": "sums", "histogram": "histogram", "score": "scores"}


def numbers_for_reference(recipe):
    """The numbers of a recipe, for the reference."""
    mechanism = dpbt.ledger(recipe).lines[0].mechanism
    numbers, scales = recipe.params, scale_by_site(recipe)
    return {
        **{name: float(getattr(numbers, name)) for name in ("step", "limit", "curvature")},
        **{f"{name}_scale": scales.get(site, 0.0) for name, site in SITES.items()},
        "clip": float(recipe.weight_params.clip),
        "smoothing": 0.1,
        "deviation": 1.0 if mechanism == mechanisms.rounded_gaussian.name else math.sqrt(2),
        "counts": COUNTS,
    }


def arrays_on_host(table):
    return tuple(np.asarray(array) for array in table[:3])


def drawn_by_site(boosted):
    """What was drawn, by site."""
    sites = {
        site: array
        for release in boosted.transcript.releases.values()
        for site, array in release.items()
    }
    return {site: np.asarray(array) for site, array in sites.items()}


def replay_by_plain_loops(boosted, table, recipe):
    """Replay a recorded run by the reference."""
    trees = jax.tree.map(np.asarray, boosted.hypotheses)
    splits_of_rounds = list(zip(trees.feature, trees.right, strict=True))
    return reference.replay(
        splits_of_rounds,
        drawn_by_site(boosted),
        arrays_on_host(table),
        numbers_for_reference(recipe),
    )


# Against plain loops.


def test_without_noise_all_draws_are_those_of_plain_loops():
    table, recipe = table_of_four_columns(present=55), oblivious_recipe(np.inf)
    table = table._replace(bins=table.bins.at[0].set(255))  # in no histogram, and left everywhere
    boosted = BOOST(jax.random.key(0), table, recipe)
    replayed_run = replay_by_plain_loops(boosted, table, recipe)
    for output, expected in zip(drawn_by_site(boosted).values(), replayed_run, strict=False):
        np.testing.assert_array_equal(output, expected)
    np.testing.assert_allclose(boosted.hypotheses.leaf, replayed_run.leaves, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(boosted.scores, replayed_run.scores, rtol=1e-4, atol=1e-5)
    assert np.abs(replayed_run.sums).max() > GRID
    assert replayed_run.counts.sum() == 55
    assert replayed_run.histogram.sum() == 4 * 54


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_leaf_values_and_likelihoods_of_a_noisy_run_are_those_of_plain_loops(delta):
    """So is the log ratio of the likelihoods with a row and without it."""
    table, recipe = table_of_four_columns(), oblivious_recipe(delta=delta)
    boosted = BOOST(jax.random.key(1), table, recipe)
    replayed_run = replay_by_plain_loops(boosted, table, recipe)
    np.testing.assert_allclose(boosted.hypotheses.leaf, replayed_run.leaves, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(boosted.scores, replayed_run.scores, rtol=1e-4, atol=1e-5)

    log_prob = jax.jit(lambda *args: dpbt.replay(*args).log_prob)
    by_loops = reference.log_gaussian if delta else reference.log_laplace
    release, noise_scales = drawn_by_site(boosted), scale_by_site(recipe)

    def log_probs(neighbour):
        """Log likelihoods of every site, by the library and by plain loops."""
        library = log_prob(boosted.transcript, neighbour, recipe)
        values = replay_by_plain_loops(boosted, neighbour, recipe)[:3]
        by_plain_loops = map(
            by_loops, release.values(), values, [noise_scales[site] for site in release]
        )
        return [float(jnp.sum(library[site])) for site in release], list(by_plain_loops)

    log_prob_with_row = np.array(log_probs(table))
    for row in (0, 7, 31):
        log_prob_without_row = np.array(
            log_probs(table._replace(present=table.present.at[row].set(False)))
        )
        from_library, from_plain_loops = log_prob_with_row - log_prob_without_row
        np.testing.assert_allclose(from_library, from_plain_loops, atol=2e-3)


def neighbours(table, relation, rng):
    """Yield neighbours of a table, without their splits."""
    bins, target, present = arrays_on_host(table)
    for row in range(0, ROWS, 3):
        if relation is ADD_REMOVE:
            yield Table(bins, target, present & (np.arange(ROWS) != row))
        else:
            new_bins, new_target = bins.copy(), target.copy()
            if row % 2:
                new_bins[row, :4] = rng.integers(COUNTS)
            new_target[row] = not target[row]
            yield Table(new_bins, new_target, present)


@pytest.mark.parametrize(
    ("noise", "relation"),
    [
        pytest.param(mechanisms.rounded_gaussian, ADD_REMOVE, id="gaussian-add_remove"),
        pytest.param(mechanisms.discrete_laplace, REPLACE_ONE, id="laplace-replace_one"),
        pytest.param(
            mechanisms.rounded_gaussian,
            REPLACE_ONE,
            id="gaussian-replace_one",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            mechanisms.discrete_laplace,
            ADD_REMOVE,
            id="laplace-add_remove",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_no_neighbour_moves_a_draw_beyond_its_sensitivity(relation, noise):
    """Draws are computed by plain loops on a recorded run; a neighbour attains each bound."""
    table, recipe = table_of_four_columns(), oblivious_recipe(10.0)
    boosted = BOOST(jax.random.key(2), table, recipe)
    config = dataclasses.replace(CONFIG, relation=relation, noise=noise)
    order = 2 if noise is mechanisms.rounded_gaussian else 1
    histogram, sums = class_histograms_sensitivity, oblivious.leaf_sum_sensitivity
    bounds = (
        histogram(config),
        sums(config),
        noise.sensitivity_in_norm(sensitivity.histograms_sensitivity(relation)),
    )
    draws_on_table = replay_by_plain_loops(boosted, table, recipe)[:3]
    changes = []
    for neighbour in neighbours(table, relation, np.random.default_rng(0)):
        draws_on_neighbour = replay_by_plain_loops(boosted, neighbour, recipe)[:3]
        histogram, sums, counts = (
            np.subtract(*pair) for pair in zip(draws_on_table, draws_on_neighbour, strict=True)
        )
        of_rounds = np.linalg.norm(sums, order, axis=1)
        once = (np.linalg.norm(array.ravel(), order) for array in (histogram, counts))
        changes.append((next(once), of_rounds.max(), next(once)))
    np.testing.assert_allclose(np.max(changes, axis=0), bounds, rtol=1e-6)


def test_no_weight_is_above_the_clip():
    """Weights are those of plain loops, also where public bounds exceed the clip."""
    table = table_of_four_columns(present=50)
    scores = np.random.default_rng(0).normal(0, 3, ROWS).astype(np.float32)
    weigh = clipped_mirror(losses.log).weigh
    for bound, clip in ((0.0, 0.3), (0.0, 1.0), (20.0, 0.3), (20.0, 0.9), (0.2, 0.53)):
        numbers = MirrorNumbers(np.float32(1), np.float32(clip))
        public = oblivious_recipe().public()._replace(weight_params=numbers)
        weighed = weigh(jnp.asarray(scores), jnp.float32(bound), table, public)
        expected, unit = reference.weights(scores, *arrays_on_host(table)[1:], bound, clip)
        assert float(weighed.cap) == pytest.approx(unit * GRID, rel=1e-6)
        assert float(weighed.cap) <= np.float32(clip)
        assert 1 <= weighed.weight.min() <= weighed.weight.max() <= GRID
        counted = sensitivity.clip_and_round_weights_to_grid(weighed.weight, table)
        np.testing.assert_array_equal(counted, expected)


@pytest.mark.slow
def test_a_step_may_be_a_schedule_of_the_round():
    """The step scales the leaves of its round."""
    table = table_of_four_columns()
    falling = optax.piecewise_constant_schedule(0.2, {1: 0.5, 3: 0.5})
    boosted = BOOST(jax.random.key(1), table, oblivious_recipe(limit=100.0))
    other = oblivious_recipe(limit=100.0, step=falling)
    scaled = jax.jit(dpbt.replay)(boosted.transcript, table, other).hypotheses
    factor = np.array([1, 0.5, 0.5, 0.25, 0.25], np.float32)[:, None]
    np.testing.assert_allclose(scaled.leaf, factor * boosted.hypotheses.leaf, rtol=1e-6)
    with pytest.raises(ValueError, match=r"step must be in \[1e-30, 1e30\], got 0.0"):
        oblivious_recipe(step=lambda k: 0.1 * k)


# The public splits.


CONFIG = ObliviousConfig(
    attributes=split_attributes_of_domain(DOMAIN),
    depth=4,
    attributes_per_tree=(1, 2, 3),
    draws_histograms=True,
    draws_scores=True,
    smoothing=0.1,
    relation=ADD_REMOVE,
    noise=mechanisms.rounded_gaussian,
)


class PublicTrees(NamedTuple):
    """The splits of some trees, the shares of rows in their leaves, and the shares of bins."""

    splits: Any
    leaf_shares: np.ndarray
    bin_shares: np.ndarray


@functools.cache
def public_trees(attributes, num_trees, *, depth=4, attributes_per_tree=(1, 2, 3), seed=3):
    """Draw the first trees, for shares of bins that are mostly 0."""
    mass = np.zeros((len(attributes), MAX_BINS), np.float32)
    rng = np.random.default_rng(0)
    for bin_shares, attribute in zip(mass, attributes, strict=True):
        bin_shares[: attribute.n_bins] = rng.dirichlet(np.full(attribute.n_bins, 0.2))

    config = dataclasses.replace(
        CONFIG, attributes=attributes, depth=depth, attributes_per_tree=attributes_per_tree
    )
    columns_of_bin_shares = jnp.asarray(mass[:, : config.bin_mask.shape[1]])

    def public_tree(tree_number):
        return oblivious_splits.public_tree_from_seed(
            config, seed=jnp.uint32(seed), tree_number=tree_number, bin_shares=columns_of_bin_shares
        )

    drawn = jax.jit(jax.vmap(public_tree))(jnp.arange(num_trees, dtype=jnp.int32))
    return PublicTrees(*jax.tree.map(np.asarray, drawn), bin_shares=mass)


FIVE = tuple(map(Attribute, (7, 4, 2, 1, 20), (True, False, True, False, True)))


@pytest.mark.slow
def test_both_answers_of_a_split_are_known_bins():
    """This holds also where nearly all rows are in one bin. Shares are those of plain loops.

    Some trees have an attribute twice, from two decks.
    """
    attributes = FIVE
    trees, shares, mass = public_trees(attributes, 45)
    for feature, right, share in zip(trees.feature, trees.right, shares, strict=True):
        for index, side in zip(feature, right, strict=True):
            bins = attributes[index].n_bins
            assert not side[bins:].any()
            assert set(side[:bins]) == ({False, True} if bins > 1 else {False})
            if attributes[index].ordered:
                assert np.all(np.diff(side[:bins].astype(int)) >= 0)
        expected = reference.leaf_shares(feature, right, mass)
        np.testing.assert_allclose(share, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("depth", "attributes_per_tree"), [(4, (1, 2, 3)), (2, (5, 1))], ids=["depth 4", "depth 2"]
)
def test_trees_ask_all_attributes_equally_often(depth, attributes_per_tree):
    """A tree asks min(k, D) of them, and every F attributes in a row are a deck."""
    attributes = tuple(map(Attribute, (7, 5, 9, 6, 20), (True, False, True, False, True)))
    num_trees = 15 * len(attributes_per_tree)
    trees = public_trees(
        attributes, num_trees, depth=depth, attributes_per_tree=attributes_per_tree
    ).splits
    dealt = []
    for tree_number, feature in enumerate(trees.feature):
        count = min(attributes_per_tree[tree_number % len(attributes_per_tree)], depth)
        dealt += feature[:count].tolist()
        np.testing.assert_array_equal(feature, np.resize(feature[:count], depth))
    decks = np.array(dealt).reshape(-1, 5)
    np.testing.assert_array_equal(np.sort(decks, axis=1), np.tile(np.arange(5), (len(decks), 1)))
    assert len(np.unique(decks, axis=0)) > 1


@pytest.mark.slow
def test_an_attribute_is_asked_no_more_splits_than_it_has():
    """What is left over goes to attributes of many splits, and where there are none it is lost."""
    trees = public_trees(FIVE, 30, depth=5, attributes_per_tree=(1, 2)).splits
    counts = np.array([np.bincount(tree, minlength=5) for tree in trees.feature])
    assert np.all(counts.max(axis=0) == [5, 3, 1, 0, 5])
    attributes = FIVE[1:4] * 4
    trees_of_few_splits = public_trees(attributes, 30, depth=5, attributes_per_tree=(1, 2)).splits
    assert max(len(set(tree)) for tree in trees_of_few_splits.feature.tolist()) == 2


def test_trees_of_one_structure_are_one_tree_of_the_model():
    """The merged tree adds to the score of a row what the trees of its rounds add."""
    tree_of = ObliviousTree._make
    training, rounds = oblivious_recipe(structures=2).learner.training, np.arange(5) % 2
    rng = np.random.default_rng(0)
    right = rng.random((2, 4, MAX_BINS)) < 0.5
    leaf = rng.integers(-9, 9, (5, 16)).astype(np.float32)
    feature, noise = rng.integers(0, 4, (2, 4))[rounds], np.abs(leaf)
    all_trees = ObliviousTree(feature, right[rounds], leaf, noise, np.zeros(5, np.float32))
    merged = jax.tree.map(
        np.asarray, training.merge(jax.tree.map(jnp.asarray, all_trees), None, None)
    )
    assert merged.leaf.shape == (2, 16)
    of_structure = [noise[0] ** 2 + noise[2] ** 2 + noise[4] ** 2, noise[1] ** 2 + noise[3] ** 2]
    np.testing.assert_allclose(merged.noise**2, of_structure, rtol=1e-6)  # independent rounds
    bins = rng.integers(0, 8, (4, 9), np.uint8)
    added_by_merged, added_by_rounds = (
        sum(
            tree.leaf[leaves_by_lookup(tree, bins)]
            for tree in map(tree_of, zip(*trees, strict=True))
        )
        for trees in (merged, all_trees)
    )
    np.testing.assert_array_equal(added_by_merged, added_by_rounds)


def leaves_by_lookup(tree, bins):
    """The leaf of each row by one lookup a level."""
    leaf = np.zeros(bins.shape[1], int)
    for feature, right in zip(tree.feature, tree.right, strict=True):
        leaf = 2 * leaf + right[bins[feature]]
    return leaf


@pytest.mark.slow
@pytest.mark.parametrize(("ordered", "depth"), [((True, False), 9), ((False,), 2)], ids=str)
def test_rows_are_routed_as_lookups_route_them(ordered, depth):
    """So are bins that a feature does not have, by sets of more than one word of bits."""
    sizes = (2, 33, 70, MAX_BINS)
    attributes = tuple(Attribute(size, known) for size in sizes for known in ordered)
    trees = public_trees(attributes, 6, depth=depth).splits
    bins = np.random.default_rng(1).integers(0, MAX_BINS, (len(attributes), 300), np.uint8)
    rows = BinnedRows(jnp.asarray(bins), *(jnp.zeros(300, bool) for _ in range(2)))
    route = jax.jit(functools.partial(assign_leaves_unless_known, attributes))
    for feature, right in zip(trees.feature, trees.right, strict=True):
        leaves = jnp.zeros(2**depth)
        tree = ObliviousTree(feature, right, leaves, noise=leaves, smoothing=jnp.zeros(()))
        np.testing.assert_array_equal(route(tree, rows), leaves_by_lookup(tree, bins))


# What goes wrong, and attacks.


def test_recipes_that_differ_in_static_choices_or_seeds_have_other_noise():
    """Two releases under one key must not share noise where their statistics may differ."""
    other_choices = {
        "attributes": CONFIG.attributes[:3],
        "depth": 5,
        "attributes_per_tree": (1, 2),
        "draws_histograms": False,
        "draws_scores": False,
        "smoothing": 0.10000001,
        "relation": REPLACE_ONE,
        "noise": mechanisms.discrete_laplace,
        "response": NUMBER,
        "monotone": (1, 0, 0),
    }
    fields = {field.name for field in dataclasses.fields(CONFIG)}
    assert {*other_choices, "target_bins", "draws_slope", "num_structures"} == fields
    changes = [{name: choice} for name, choice in other_choices.items()]
    changes.append({"attributes": tuple(a._replace(ordered=False) for a in CONFIG.attributes)})
    changes += [{"response": NUMBER, "target_bins": 16}, {"num_structures": 3}]
    changes.append({"response": NUMBER, "draws_slope": False})
    configs = [CONFIG, *(dataclasses.replace(CONFIG, **change) for change in changes)]
    learners = [oblivious.oblivious_tree(config) for config in configs]
    assert len({learner.identity for learner in learners}) == len(configs)

    key, own_key = jax.random.key(0), jax.jit(run_keys.derive_recipe_key)
    keys = {
        tuple(jax.random.key_data(own_key(key, oblivious_recipe(**changes))).tolist())
        for changes in ({}, {"seed": 1}, {"step": 0.3}, {"clip": 0.31}, {"rows": 61})
    }
    assert len(keys) == 5


def test_tables_of_another_domain_are_refused():
    """The splits of a table are public, and show its domain."""
    table, recipe = table_of_four_columns(), oblivious_recipe()
    for bins in (4, 7):
        column = Numeric(0, 1, bins=bins, missing=True)
        splits = domains.splits({**DOMAIN, "size": column})
        with pytest.raises(ValueError, match=f"column 1 .* has 7 bins, .* know {bins + 1}"):
            dpbt.fit(jax.random.key(0), table._replace(splits=splits), recipe)
    recipe.learner.training.check_table(table)


def test_tables_of_another_number_of_columns_are_refused():
    """`boost` refuses them, too, and where it is traced."""
    key, recipe, table = jax.random.key(0), oblivious_recipe(), table_of_four_columns()
    table_of_6_columns = table._replace(bins=jnp.pad(table.bins, ((0, 0), (0, 2))))
    splits = domains.splits({name: DOMAIN[name] for name in ("kind", "size", "on")})
    table_of_3_columns = table._replace(
        bins=table.bins[:, :3], splits=jax.tree.map(jnp.asarray, splits)
    )
    for learn in (dpbt.fit, dpbt.boost, BOOST):
        for wrong_table, count in ((table_of_6_columns, 6), (table_of_3_columns, 3)):
            with pytest.raises(ValueError, match=f"has 4 columns, and the table has {count}"):
                learn(key, wrong_table, recipe)


def test_rows_that_a_prepare_lays_out_without_weights_are_refused():
    """Otherwise weights would be ignored silently."""
    recipe = oblivious_recipe()
    original = recipe.learner.training

    def prepare(table):
        return original.prepare(table)._replace(weight=None)

    kind = recipe.learner.kind.with_training(prepare=prepare)
    learner_without_weights = dataclasses.replace(recipe.learner, kind=kind)
    weighted = table_of_four_columns()._replace(weight=jnp.ones(ROWS, jnp.float32))
    with pytest.raises(ValueError, match="must return the `weight`"):
        dpbt.boost(
            jax.random.key(0),
            weighted,
            dataclasses.replace(recipe, learner=learner_without_weights),
        )
