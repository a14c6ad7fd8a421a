"""Oblivious trees against plain loops, their public questions, their budgets, and attacks."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import boosting, losses, recipes
from dpbt.base import ADD_REMOVE, CELLS, GRID, REPLACE_ONE, Table
from dpbt.data import domains
from dpbt.data.domains import Boolean, Nominal, Numeric
from dpbt.learners import oblivious_questions, oblivious_tree
from dpbt.learners.oblivious_questions import Attribute
from dpbt.privacy import mechanisms
from dpbt.reweighting import ClippedNumbers, clipped_mirror
from tests import reference_oblivious as reference

DOMAIN = {
    "kind": Nominal(("a", "b", "c")),
    "size": Numeric(0, 1, bins=6, missing=True),
    "on": Boolean(),
    "one": Nominal(("a",), other="a"),
}
COUNTS = [column.cells for column in DOMAIN.values()]
ROWS, ROUNDS = 60, 5
BOOST = jax.jit(dpbt.boost)


def table_of(seed=0, present=ROWS):
    """A table whose label depends on all columns, with missing and unlisted values."""
    rng = np.random.default_rng(seed)
    size = np.where(rng.random(ROWS) < 0.2, np.nan, rng.random(ROWS))
    columns = {
        "kind": rng.choice(["a", "b", "c", "none of these"], ROWS),
        "size": size,
        "on": rng.random(ROWS) < 0.4,
        "one": np.full(ROWS, "a"),
    }
    label = (columns["on"] | (columns["kind"] == "b")) ^ (rng.random(ROWS) < 0.2)
    here = np.arange(ROWS) < present
    cells = domains.encode(DOMAIN, columns)
    questions = jax.tree.map(jnp.asarray, domains.questions(DOMAIN))
    return Table(jnp.asarray(cells), jnp.asarray(label), jnp.asarray(here), questions)


def recipe_of(epsilon=3.0, **changes):
    settings = {"delta": 1e-6, "rounds": ROUNDS, "depth": 4, "marginals_share": 0.3, "rows": ROWS}
    return recipes.oblivious_boost(epsilon=epsilon, domain=DOMAIN, **{**settings, **changes})


def setting_of(recipe):
    """The numbers of a recipe, for the reference."""
    noisy = recipe.learner.prologue.program.events(recipe.budget, recipe.public())[0].mechanism
    return {
        **{name: float(number) for name, number in recipe.budget._asdict().items()},
        "clip": float(recipe.reweighting.clip),
        "smoothing": 0.1,
        "deviation": 1.0 if noisy is mechanisms.rounded_gaussian else math.sqrt(2),
        "counts": COUNTS,
    }


def host(table):
    return tuple(np.asarray(array) for array in table[:3])


def replayed(boosted, table, recipe):
    """The reference on a recorded run: (what each draw read, leaf values, scores)."""
    trees = jax.tree.map(np.asarray, boosted.hypotheses)
    release = {
        "histogram": np.asarray(boosted.transcript.prologue["histogram"]),
        "sums": np.asarray(boosted.transcript.rounds["sums"]),
    }
    asked = list(zip(trees.feature, trees.right, strict=True))
    return reference.replayed(asked, release, host(table), setting_of(recipe))


# Against plain loops.


def test_without_noise_all_draws_are_those_of_plain_loops():
    table, recipe = table_of(present=55), recipe_of(np.inf)
    boosted = BOOST(jax.random.key(0), table, recipe)
    histogram, sums, leaves, scores = replayed(boosted, table, recipe)
    np.testing.assert_array_equal(boosted.transcript.prologue["histogram"], histogram)
    np.testing.assert_array_equal(boosted.transcript.rounds["sums"], sums)
    np.testing.assert_allclose(boosted.hypotheses.leaf, leaves, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(boosted.scores, scores, rtol=1e-4, atol=1e-5)
    assert np.abs(sums).max() > GRID


def test_leaf_values_and_likelihoods_of_a_noisy_run_are_those_of_plain_loops():
    """And so is the loss that one row makes, against the ledger too."""
    table, recipe = table_of(), recipe_of()
    boosted = BOOST(jax.random.key(1), table, recipe)
    _, _, leaves, scores = replayed(boosted, table, recipe)
    np.testing.assert_allclose(boosted.hypotheses.leaf, leaves, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(boosted.scores, scores, rtol=1e-4, atol=1e-5)

    log_prob = jax.jit(boosting.transcript_log_prob)
    seen = boosted.transcript
    for row in (0, 7, 31):
        other = table._replace(present=table.present.at[row].set(False))
        here, there = (log_prob(seen, one, recipe) for one in (table, other))
        losses_of = []
        for one in (table, other):
            histogram, sums, _, _ = replayed(boosted, one, recipe)
            drawn = {
                "histogram": (seen.prologue["histogram"], histogram, recipe.budget.histogram_scale),
                "sums": (seen.rounds["sums"], sums, recipe.budget.sum_scale),
            }
            losses_of.append(
                {
                    site: reference.log_gaussian(np.asarray(output), value, float(scale))
                    for site, (output, value, scale) in drawn.items()
                }
            )
        for site in ("histogram", "sums"):
            found = float(jnp.sum(here[site]) - jnp.sum(there[site]))
            assert found == pytest.approx(losses_of[0][site] - losses_of[1][site], abs=2e-3)


def neighbours(table, relation, rng):
    """Neighbours of a table, each with (cells, target, present)."""
    cells, target, present = host(table)
    for row in range(0, ROWS, 3):
        if relation is ADD_REMOVE:
            yield cells, target, present & (np.arange(ROWS) != row)
        else:
            new_cells, new_target = cells.copy(), target.copy()
            new_cells[row] = rng.integers(COUNTS) if row % 2 else cells[row]
            new_target[row] = not target[row]
            yield new_cells, new_target, present


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE], ids=lambda r: r.name)
@pytest.mark.parametrize("noise", [mechanisms.rounded_gaussian, mechanisms.discrete_laplace])
def test_no_neighbour_moves_a_draw_beyond_its_sensitivity(relation, noise):
    """By plain loops on a recorded run; some neighbour attains each bound."""
    table, recipe = table_of(), recipe_of(10.0)
    boosted = BOOST(jax.random.key(2), table, recipe)
    kind = KIND._replace(relation=relation, noise=noise)
    order = 2 if noise is mechanisms.rounded_gaussian else 1
    bounds = oblivious_tree.histogram_sensitivity(kind), oblivious_tree.sum_sensitivity(kind)

    here = replayed(boosted, table, recipe)[:2]
    moved = []
    for other in neighbours(table, relation, np.random.default_rng(0)):
        there = replayed(boosted, Table(*other), recipe)[:2]
        histogram, sums = (np.subtract(*pair) for pair in zip(here, there, strict=True))
        of_rounds = np.linalg.norm(sums, order, axis=1)
        moved.append((np.linalg.norm(histogram.ravel(), order), of_rounds.max()))
    np.testing.assert_allclose(np.max(moved, axis=0), bounds, rtol=1e-6)


def test_no_weight_is_above_the_clip():
    """Against plain loops; in later rounds, where public bounds exceed the clip, too."""
    table = table_of(present=50)
    scores = np.random.default_rng(0).normal(0, 3, ROWS).astype(np.float32)
    weigh = clipped_mirror(losses.log).weigh
    for bound, clip in ((0.0, 0.3), (0.0, 1.0), (20.0, 0.3), (20.0, 0.9), (0.2, 0.53)):
        numbers = ClippedNumbers(np.float32(1), np.float32(clip))
        public = recipe_of().public()._replace(reweighting=numbers)
        found = weigh(jnp.asarray(scores), jnp.float32(bound), table, public)
        expected, unit = reference.weights(scores, *host(table)[1:], bound, clip)
        assert float(found.cap) == pytest.approx(unit * GRID, rel=1e-6)
        assert float(found.cap) <= np.float32(clip)
        assert 1 <= found.weight.min() <= found.weight.max() <= GRID
        counted = boosting.counted_weights(found.weight, table.present)
        np.testing.assert_array_equal(counted, expected)


# The public questions.


KIND = oblivious_tree.Kind(
    recipes.oblivious.attributes_of(DOMAIN),
    4,
    (1, 2, 3),
    True,
    0.1,
    ADD_REMOVE,
    mechanisms.rounded_gaussian,
)


@functools.cache
def asked_of(attributes, trees, depth=4, mixes=(1, 2, 3), seed=3):
    """(questions of the first trees, with a leading axis; mass), for masses that are mostly 0."""
    mass = np.zeros((len(attributes), CELLS), np.float32)
    rng = np.random.default_rng(0)
    for own, attribute in zip(mass, attributes, strict=True):
        own[: attribute.cells] = rng.dirichlet(np.full(attribute.cells, 0.2))

    @jax.jit
    def draw(numbers):
        def tree(number):
            key = jnp.uint32(seed)
            return oblivious_questions.draw(
                attributes, depth, mixes, key, number, jnp.asarray(mass)
            )

        return jax.vmap(tree)(numbers)

    drawn = draw(jnp.arange(trees, dtype=jnp.int32))
    return jax.tree.map(np.asarray, drawn), mass


FIVE = tuple(
    Attribute(cells, ordered)
    for cells, ordered in ((7, True), (4, False), (2, True), (1, False), (256, True))
)
LISTS = {
    "one column": (Attribute(5, True),),
    "one cell": (Attribute(1, False),),
    "two columns": (Attribute(3, False), Attribute(CELLS, True)),
}


@pytest.mark.parametrize(
    "attributes",
    [FIVE, *(pytest.param(LISTS[name], id=name, marks=pytest.mark.slow) for name in LISTS)],
)
def test_both_answers_of_a_question_are_known_cells(attributes):
    """Also where nearly all rows are in one cell; and shares are those of plain loops.

    Some trees have an attribute twice, from two decks.
    """
    asked, mass = asked_of(attributes, 45)
    for feature, right, share in zip(*asked, strict=True):
        for f, side in zip(feature, right, strict=True):
            cells = attributes[f].cells
            assert not side[cells:].any()
            assert set(side[:cells]) == ({False, True} if cells > 1 else {False})
            if attributes[f].ordered:
                assert np.all(np.diff(side[:cells].astype(int)) >= 0)
        expected = reference.leaf_shares(feature, right, mass)
        np.testing.assert_allclose(share, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(asked.share.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("depth", "mixes"),
    [
        (4, (1, 2, 3)),
        *(pytest.param(2, k, marks=pytest.mark.slow) for k in ((1, 2, 3), (3,), (5, 1))),
    ],
)
def test_trees_ask_all_attributes_equally_often(depth, mixes):
    """A tree asks min(k, D) of them, and every F attributes in a row are a deck."""
    asked, _ = asked_of(FIVE, 15 * len(mixes), depth, mixes)
    dealt = []
    for number, feature in enumerate(asked.feature):
        count = min(mixes[number % len(mixes)], depth)
        dealt += feature[:count].tolist()
        np.testing.assert_array_equal(feature, np.resize(feature[:count], depth))
    decks = np.array(dealt).reshape(-1, 5)
    np.testing.assert_array_equal(np.sort(decks, axis=1), np.tile(np.arange(5), (len(decks), 1)))
    assert len(np.unique(decks, axis=0)) > 1


@jax.jit
def structures(budget, public):
    """The questions of the first rounds, as a hypothesis has them."""
    release = {"sums": jnp.zeros(16, jnp.int32)}
    prologue = {"histogram": jnp.full((4, 7, 2), 9, jnp.int32)}

    def of_round(number):
        numbered = public._replace(round=number, prologue=prologue)
        tree = oblivious_tree.hypothesis(KIND, release, budget, numbered)
        return tree.feature, tree.right

    return jax.vmap(of_round)(jnp.arange(6, dtype=jnp.int32))


def test_questions_depend_on_the_seed_and_on_neither_rounds_nor_rows():
    def questions(**changes):
        recipe = recipe_of(**changes)
        return [np.asarray(array) for array in structures(recipe.budget, recipe.public())]

    first = questions()
    for changes in ({"rounds": 400}, {"rows": 9000}, {"clip": 0.1, "step": 0.9}):
        for one, other in zip(first, questions(**changes), strict=True):
            np.testing.assert_array_equal(one, other)
    for one, other in zip(first, questions(seed=1), strict=True):
        assert (one != other).any()
