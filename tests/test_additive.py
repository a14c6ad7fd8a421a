"""Additive models: their sums, steps and curves against plain loops, and what a person reads."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dpbt
from dpbt import recipes
from dpbt.data.domains import Boolean, Nominal, Numeric
from dpbt.learners.additive.descent import nearest_monotone_curves, noise_growth_by_momentum
from dpbt.learners.additive.groups import sum_index_of_bins
from dpbt.learners.additive.model import SHAPES, ShapeFunctions
from dpbt.models import model as models
from dpbt.privacy import boundary
from dpbt.types import GRID, View
from tests.support.recipe_noise import draw_specs_by_site

DOMAIN = {
    "size": Numeric(0, 1, bins=12, missing=True),
    "on": Boolean(),
    "kind": Nominal(("a", "b"), other="a"),
}
ROWS, ROUNDS = 90, 6
BOOST = jax.jit(dpbt.boost)


def table_of():
    rng = np.random.default_rng(0)
    size = np.where(rng.random(ROWS) < 0.1, np.nan, rng.random(ROWS) ** 2)
    on, kind = rng.random(ROWS) < 0.5, rng.choice(["a", "b"], ROWS)
    return dpbt.table(DOMAIN, {"size": size, "on": on, "kind": kind}, (size > 0.3) ^ on)


def recipe_of(epsilon=3.0, **more):
    common = {"rows": ROWS, "domain": DOMAIN, "delta": 1e-6, "rounds": ROUNDS}
    common |= {"resolutions": (2, 4), "marginals_fraction": 0.2}
    return recipes.additive(epsilon=epsilon, **{**common, **more})


def config_of(recipe):
    return recipe.learner.config


PAIRS = [("size", "on"), ("kind", "size")]


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "pairs"), [(3.0, []), (np.inf, PAIRS)])
def test_sums_steps_and_curves_are_those_of_plain_loops(epsilon, pairs):
    """Momentum and the falling step are those of optax; the model is the sum of all rounds.

    A cell of a pair is one of a group of the first column and one of the second.
    """
    table, recipe, columns = table_of(), recipe_of(epsilon, pairs=pairs), 3 + len(pairs)
    boosted = BOOST(jax.random.key(0), table, recipe)
    config, params = config_of(recipe), recipe.params
    prologue, drawn = boosted.transcript.prologue, boosted.transcript.rounds["bins"]
    group = np.asarray(sum_index_of_bins(config, params, recipe.public(prologue)).sum_index_of_bin)
    bins, target = np.asarray(table.bins), np.asarray(table.target)
    start = float(recipe.learner.prologue.initial_score(prologue, params))
    step, max_rate = float(params.step), float(params.max_learning_rate)
    count = [13, 2, 2, 8, 8][:columns]
    if pairs:  # at two resolutions, of two and of four groups of the sizes
        size, on, kind = bins[:, 0], bins[:, 1], bins[:, 2]
        half, quarter = (group[q, 0] - group[q, 0, 0] for q in (0, 1))
        bins = np.column_stack([bins, 2 * quarter[size] + on, 4 * kind + quarter[size]])
        joined = [[0, 1, 0, 1, 2, 3, 2, 3], [0, 0, 1, 1, 2, 2, 3, 3]]
        found = group[0, 3:, :8] - group[0, 3:, :1]
        assert found.tolist() == joined
        assert np.all(half == quarter // 2)
        assert np.all(np.diff(group[1, 3:, :8]) == 1)

    schedule = optax.linear_schedule(1.0, 0.0, ROUNDS // 2, ROUNDS // 2)
    moved = optax.chain(optax.trace(0.9, nesterov=True), optax.scale_by_schedule(schedule))
    curves, state, bound = np.zeros((columns, 13)), moved.init(np.zeros((columns, 13))), abs(start)
    noises = []
    for number in range(ROUNDS):
        # The sum of a group is that of y min(p, cap) over its rows, beside the noise.
        cap = min(0.3, 1 / (1 + 2.0**-bound))
        score = start + sum(curves[f, bins[:, f]] for f in range(columns))
        weight = np.minimum(1 / (1 + 2 ** np.where(target, score, -score)), cap)
        sums = np.zeros(drawn.shape[1])
        for q, f in np.ndindex(2, columns):
            np.add.at(sums, group[q, f, bins[:, f]], np.where(target, weight, -weight))
        released = np.asarray(drawn[number]) * cap / 127
        if np.isinf(epsilon):
            np.testing.assert_allclose(released, sums, atol=0.2)

        # The step of each bin, and its noise.
        sigma = float(params.noise["bins"]) * np.sqrt(2 * columns) * cap
        signal = np.zeros((columns, 13))
        for q, f in np.ndindex(2, columns):
            signal[f, : count[f]] += released[group[q, f, : count[f]]] / np.sqrt(2)
        rate = step / max(sigma, step * ROWS * np.sqrt(2) * columns / max_rate) / np.log(2)
        added, state = moved.update(rate * signal, state)
        curves = curves + np.asarray(added)
        bound += np.abs(np.asarray(added)).max(axis=1).sum()
        noises.append(rate * sigma)
    found = np.asarray(boosted.hypotheses.score)
    slope = found[0, 0, 0] / curves[0, 0]
    assert found.shape == (1, columns, 13)
    np.testing.assert_allclose(found[0], slope * curves, atol=2e-3 * np.abs(found).max())

    # The noise of a bin is that of all rounds together.
    expected = slope * np.mean(noises) * noise_growth_by_momentum(ROUNDS, 0.9)
    np.testing.assert_allclose(boosted.hypotheses.noise, [expected], rtol=1e-2)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize(("delta", "pairs"), [(0.0, []), (1e-6, PAIRS)])
def test_sums_move_by_their_sensitivity_and_no_further(delta, pairs, relation):
    """A row whose label is replaced moves all its groups twice; rows are those of joined bins."""
    recipe = recipe_of(delta=delta, relation=relation, marginals_fraction=0, pairs=pairs)
    table, most = table_of(), float(draw_specs_by_site(recipe, "rounds")["bins"].max_sensitivity)

    @jax.jit
    def draw(table):
        found, rows = [], recipe.learner.training.prepare(table)
        weights = jnp.where(rows.present, float(GRID), 0)
        view = View(rows, weights, recipe.params, recipe.public())
        boundary.run(recipe.learner.round.program, lambda ask: found.append(ask.value), view)
        return found[0].astype(jnp.float32)

    here, moved = draw(table), []
    for row in range(0, ROWS, 10):
        other = table._replace(present=table.present.at[row].set(False))
        if relation == "replace_one":
            other = table._replace(target=table.target.at[row].set(~table.target[row]))
        moved.append(np.linalg.norm(here - draw(other), 2 if delta else 1))
    assert 0.99 * most <= max(moved) <= most * (1 + 1e-6)


@pytest.mark.slow
def test_a_column_may_have_all_bins_of_a_byte():
    values = np.arange(300) / 300
    domain = {"size": Numeric(0, 1, bins=256), "on": Boolean()}
    table = dpbt.table(domain, {"size": values, "on": values > 2}, values > 0.5)
    recipe = recipe_of(np.inf, domain=domain, rows=300, marginals_fraction=0)
    found = BOOST(jax.random.key(0), table, recipe).scores
    assert np.mean((np.asarray(found)[:300] > 0) == (values > 0.5)) > 0.95


def test_curves_are_monotone_where_they_must_be():
    """The nearest falling curve, by pooling of neighbours out of order."""
    recipe = recipe_of(monotone={"size": -1})
    score = np.random.default_rng(0).normal(size=(3, 13)).astype(np.float32)
    found = np.asarray(
        jax.jit(lambda score: nearest_monotone_curves(score, config_of(recipe).bins))(score)
    )
    pools: list[list[float]] = []
    for value in score[0].tolist():
        pools.append([value])
        while len(pools) > 1 and np.mean(pools[-2]) <= np.mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    pooled = np.concatenate([np.full(len(pool), np.mean(pool)) for pool in pools])
    np.testing.assert_allclose(found[0], pooled, atol=1e-5)
    np.testing.assert_array_equal(found[1:], score[1:])


def words_of(score, noise=0.25, domain=DOMAIN, **more):
    shapes = ShapeFunctions(np.asarray(score, np.float32)[None], np.array([noise], np.float32))
    return SHAPES.describe(shapes, None, domain, *more.get("of", (None, None))).splitlines()


@pytest.mark.slow
def test_trees_of_one_column_are_its_curve():
    """Under a pure guarantee; the scores of a fit are those of its model."""
    table, recipe = table_of(), recipe_of(delta=0.0, resolutions=None)
    boosted = BOOST(jax.random.key(0), table, recipe)
    assert {line.site for line in dpbt.ledger(recipe).lines} == {"histogram", "sums", "scores"}
    assert boosted.hypotheses.score.shape == (1, 3, 14)
    table = table._replace(bins=table.bins.at[0].set(255))  # a damaged row
    boosted = BOOST(jax.random.key(0), table, recipe)
    scores = dpbt.decision_function(boosted.model(table, recipe), table)
    np.testing.assert_allclose(scores, boosted.scores, atol=1e-5)
    assert 0 < boosted.hypotheses.noise[0] < 3


def test_a_person_reads_each_column_as_one_curve():
    """Bins that add the same are joined, values without an order fall, and short lines share one.

    Numbers have the decimals of two digits of the noise.
    """
    size = [-0.501, -0.499, *[0.2] * 10, 1.0]
    _, noise, *lines = words_of([size, [0.3, -0.3, *[0] * 11], [-0.1, 0.2, *[0] * 11]])
    assert noise.endswith("moves it by about 0.25")
    assert lines == [
        "size  <= 0.1667: -0.50, > 0.1667: +0.20, missing: +1.00",
        "on    0: +0.30, 1: -0.30                          kind  b: +0.20, a: -0.10",
    ]
    _, noise, first, *_ = words_of(np.array([size, [0] * 13, [0] * 13]) * 100, noise=12.5)
    assert noise.endswith("about 12")
    assert first == "size  <= 0.1667: -50, > 0.1667: +20, missing: +100"


def test_long_curves_are_wrapped_and_numbers_are_in_their_units():
    domain = {"size": Numeric(0, 64e4, bins=64), "kind": Nominal(("a b", "c"), ordered=True)}
    score = np.stack([np.arange(64.0), [1.0, 1.0, -1.0, *[0] * 61]])
    head, noise, *lines = words_of(score, 0.002, domain, of=(Numeric(0, 10), None))
    assert (head[-17:], noise[-5:]) == (" clipped to 0..10", "0.020")
    assert lines[0].startswith("size  <= 10000: +0.000, <= 20000: +10.000,")
    assert lines[-1] == "kind  a b or c: +10.000, not listed: -10.000"
    assert all(line.startswith("      <= ") or "> 630000" in line for line in lines[1:-1])
    assert max(map(len, lines)) <= 98
    of = Nominal(("x", "y")), None
    words = words_of(np.stack([score, -score]), 0.0, domain, of=of)
    assert sum("kind [" in line for line in words) == 1  # both in one line


def test_a_pair_is_a_table_of_cells():
    """Of each bin of the first column a line of the second one; equal lines and bins are joined."""
    parts = np.zeros((1, 1, 2, 256), np.uint8)
    parts[0, 0, 0, 6:], parts[0, 0, 1, 1] = 2, 1
    score = np.zeros((1, 4, 13), np.float32)
    score[0, 3, :4] = -1, 1, 2, -2
    found = ShapeFunctions(score, np.array([0.25]), np.array([[[0, 1]]]), parts)
    assert SHAPES.describe(found, None, DOMAIN, None, None).splitlines()[2:5] == [
        "size and on",
        "  <= 0.5  0: -1.00, 1: +1.00",
        "  > 0.5 or missing  0: +2.00, 1: -2.00",
    ]
    bins = np.array([[5, 0, 0], [12, 1, 0]], np.uint8).T
    np.testing.assert_array_equal(
        SHAPES.predict(ShapeFunctions(*(a[0] for a in found)), bins), [-1, -2]
    )


@pytest.mark.slow
def test_a_saved_model_says_the_same_of_a_bin_that_no_row_has():
    table, recipe = table_of(), recipe_of(np.inf)
    model = BOOST(jax.random.key(0), table, recipe).model(table, recipe)
    assert "; +1 doubles the odds\n" in dpbt.explain(model, DOMAIN)
    beyond = models.decision_function(model, np.full((2, 3), 255, np.uint8))
    assert np.all(np.isfinite(beyond))  # a damaged bin is no error


WRONG = {"rounds": 0, "resolutions": (0,), "step": -1, "learning_rate": 0, "monotone": {"kind": 1}}


@pytest.mark.parametrize("name", WRONG)
def test_numbers_out_of_range_are_refused(name):
    with pytest.raises(ValueError, match=name):
        recipe_of(**{name: WRONG[name]})


PAIR, MANY = ("size", "on"), {f"k{n}": Nominal(tuple(map(str, range(n)))) for n in (15, 16)}


@pytest.mark.parametrize(
    ("words", "more"),
    {
        "must be two columns": {"pairs": [("size",)]},
        "size.*size.*two columns": {"pairs": [("size", "size")]},
        "must be two columns of": {"pairs": [("size", "age")]},
        "twice": {"pairs": [PAIR, PAIR[::-1]]},
        "monotone column": {"pairs": [PAIR], "monotone": {"size": 1}},
        "256 cells each, and one has 272": {"pairs": [("k15", "k16")], "domain": MANY},
        "one column a round": {"pairs": [PAIR], "resolutions": None},
        "pairs must list": {"pairs": "on"},
    }.items(),
)
def test_pairs_are_two_columns_without_a_direction_and_few_cells(words, more):
    with pytest.raises(ValueError, match=words):
        recipe_of(**more)
