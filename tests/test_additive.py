"""Additive models agree with plain loops, and their curves are written for a reader."""

import jax
import jax.numpy as jnp
import numpy as np
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
from tests.support.references import additive_curves

DOMAIN = {
    "size": Numeric(0, 1, bins=12, missing=True),
    "on": Boolean(),
    "kind": Nominal(("a", "b"), other="a"),
}
ROWS, ROUNDS = 90, 6
BOOST = jax.jit(dpbt.boost)


def random_table():
    """Random rows of the domain."""
    rng = np.random.default_rng(0)
    size = np.where(rng.random(ROWS) < 0.1, np.nan, rng.random(ROWS) ** 2)
    on, kind = rng.random(ROWS) < 0.5, rng.choice(["a", "b"], ROWS)
    return dpbt.table(DOMAIN, {"size": size, "on": on, "kind": kind}, (size > 0.3) ^ on)


def additive_recipe(epsilon=3.0, **options):
    """A recipe of two resolutions, which has few rounds."""
    common = {"rows": ROWS, "domain": DOMAIN, "delta": 1e-6, "rounds": ROUNDS}
    common |= {"resolutions": (2, 4), "marginals_fraction": 0.2}
    return recipes.additive(epsilon=epsilon, **{**common, **options})


PAIRS = [("size", "on"), ("kind", "size")]


def bins_with_joined_pairs(bins, sum_index_of_bin):
    """The bins of the three columns, and of PAIRS at the finer of the two resolutions.

    The coarser resolution has groups of two neighbouring groups of the finer one.
    """
    size, on, kind = bins[:, 0], bins[:, 1], bins[:, 2]
    half, quarter = (sum_index_of_bin[q, 0] - sum_index_of_bin[q, 0, 0] for q in (0, 1))
    joined = [[0, 1, 0, 1, 2, 3, 2, 3], [0, 0, 1, 1, 2, 2, 3, 3]]
    coarse_pairs = sum_index_of_bin[0, 3:, :8] - sum_index_of_bin[0, 3:, :1]
    assert coarse_pairs.tolist() == joined
    assert np.all(half == quarter // 2)
    assert np.all(np.diff(sum_index_of_bin[1, 3:, :8]) == 1)
    return np.column_stack([bins, 2 * quarter[size] + on, 4 * kind + quarter[size]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "pairs"), [(3.0, []), (np.inf, PAIRS)], ids=["with noise", "pairs without noise"]
)
def test_sums_steps_and_curves_are_those_of_plain_loops(epsilon, pairs):
    """The model is the sum of all rounds.

    A cell of a pair is one of a group of the first column and one of the second.
    """
    table, recipe = random_table(), additive_recipe(epsilon, pairs=pairs)
    boosted = BOOST(jax.random.key(0), table, recipe)
    config, params, prologue = recipe.learner.config, recipe.params, boosted.transcript.prologue
    groups = sum_index_of_bins(config, params, recipe.public(prologue))
    sum_index_of_bin = np.asarray(groups.sum_index_of_bin)
    bins = np.asarray(table.bins)
    rounds = additive_curves.replay(
        boosted.transcript.rounds["bins"],
        bins_with_joined_pairs(bins, sum_index_of_bin) if pairs else bins,
        np.asarray(table.target),
        sum_index_of_bin,
        num_bins=[13, 2, 2, 8, 8][: 3 + len(pairs)],
        settings={
            "start": float(recipe.learner.prologue.initial_score(prologue, params)),
            "step": float(params.step),
            "max_learning_rate": float(params.max_learning_rate),
            "noise_multiplier": float(params.noise["bins"]),
            "rows": ROWS,
        },
    )
    if np.isinf(epsilon):
        np.testing.assert_allclose(rounds.released_sums, rounds.exact_sums, atol=0.2)
    curves = np.asarray(boosted.hypotheses.score)
    slope = curves[0, 0, 0] / rounds.curves[0, 0]
    assert curves.shape == (1, 3 + len(pairs), 13)
    np.testing.assert_allclose(curves[0], slope * rounds.curves, atol=2e-3 * np.abs(curves).max())

    # The noise of a bin is that of all rounds together.
    expected = slope * np.mean(rounds.noise_of_steps) * noise_growth_by_momentum(ROUNDS, 0.9)
    np.testing.assert_allclose(boosted.hypotheses.noise, [expected], rtol=1e-2)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize(
    ("delta", "pairs"), [(0.0, []), (1e-6, PAIRS)], ids=["laplace", "gaussian with pairs"]
)
def test_sums_move_by_their_sensitivity_and_no_further(delta, pairs, relation):
    """A row whose label is replaced moves all its groups twice; rows are those of joined bins."""
    recipe = additive_recipe(delta=delta, relation=relation, marginals_fraction=0, pairs=pairs)
    table = random_table()
    max_sensitivity = float(draw_specs_by_site(recipe, "rounds")["bins"].max_sensitivity)

    @jax.jit
    def draw(table):
        sums, rows = [], recipe.learner.training.prepare(table)
        weights = jnp.where(rows.present, float(GRID), 0)
        view = View(rows, weights, recipe.params, recipe.public())
        boundary.run_program(
            recipe.learner.round.program, lambda request: sums.append(request.statistic), view
        )
        return sums[0].astype(jnp.float32)

    sums_with_row, distances = draw(table), []
    for row in range(0, ROWS, 10):
        neighbour = table._replace(present=table.present.at[row].set(False))
        if relation == "replace_one":
            neighbour = table._replace(target=table.target.at[row].set(~table.target[row]))
        distances.append(np.linalg.norm(sums_with_row - draw(neighbour), 2 if delta else 1))
    assert 0.99 * max_sensitivity <= max(distances) <= max_sensitivity * (1 + 1e-6)


@pytest.mark.slow
def test_a_column_may_have_all_bins_of_a_byte():
    values = np.arange(300) / 300
    domain = {"size": Numeric(0, 1, bins=256), "on": Boolean()}
    table = dpbt.table(domain, {"size": values, "on": values > 2}, values > 0.5)
    recipe = additive_recipe(np.inf, domain=domain, rows=300, marginals_fraction=0)
    scores = BOOST(jax.random.key(0), table, recipe).scores
    assert np.mean((np.asarray(scores)[:300] > 0) == (values > 0.5)) > 0.95


def test_curves_are_monotone_where_they_must_be():
    """The nearest falling curve is found by pooling neighbours that are out of order."""
    recipe = additive_recipe(monotone={"size": -1})
    score = np.random.default_rng(0).normal(size=(3, 13)).astype(np.float32)
    monotone_curves = np.asarray(
        jax.jit(lambda score: nearest_monotone_curves(score, recipe.learner.config.bins))(score)
    )
    pools: list[list[float]] = []
    for value in score[0].tolist():
        pools.append([value])
        while len(pools) > 1 and np.mean(pools[-2]) <= np.mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    pooled = np.concatenate([np.full(len(pool), np.mean(pool)) for pool in pools])
    np.testing.assert_allclose(monotone_curves[0], pooled, atol=1e-5)
    np.testing.assert_array_equal(monotone_curves[1:], score[1:])


def description_lines(score, *, noise=0.25, domain=DOMAIN, target=None):
    """The lines that describe the curves of a model, whose noise is the same in every bin."""
    shapes = ShapeFunctions(np.asarray(score, np.float32)[None], np.array([noise], np.float32))
    return SHAPES.describe(shapes, None, domain, target, None).splitlines()


@pytest.mark.slow
def test_a_model_of_trees_of_one_column_is_a_sum_of_curves():
    """The guarantee is pure, and the scores of a fit are those of its model."""
    table, recipe = random_table(), additive_recipe(delta=0.0, resolutions=None)
    boosted = BOOST(jax.random.key(0), table, recipe)
    assert {line.site for line in dpbt.ledger(recipe).lines} == {"histogram", "sums", "scores"}
    assert boosted.hypotheses.score.shape == (1, 3, 14)
    table = table._replace(bins=table.bins.at[0].set(255))  # a damaged row
    boosted = BOOST(jax.random.key(0), table, recipe)
    scores = dpbt.decision_function(boosted.model(table, recipe), table)
    np.testing.assert_allclose(scores, boosted.scores, atol=1e-5)
    assert 0 < boosted.hypotheses.noise[0] < 3


def test_each_column_is_described_as_one_curve():
    """Bins that add the same are joined, unordered values are sorted, and short lines share one.

    Numbers have the decimals of two digits of the noise.
    """
    size = [-0.501, -0.499, *[0.2] * 10, 1.0]
    _, noise, *lines = description_lines([size, [0.3, -0.3, *[0] * 11], [-0.1, 0.2, *[0] * 11]])
    assert noise.endswith("moves it by about 0.25")
    assert lines == [
        "size  <= 0.1667: -0.50, > 0.1667: +0.20, missing: +1.00",
        "on    0: +0.30, 1: -0.30                          kind  b: +0.20, a: -0.10",
    ]
    _, noise, first, *_ = description_lines(np.array([size, [0] * 13, [0] * 13]) * 100, noise=12.5)
    assert noise.endswith("about 12")
    assert first == "size  <= 0.1667: -50, > 0.1667: +20, missing: +100"


def test_long_curves_are_wrapped_and_numbers_are_in_their_units():
    domain = {"size": Numeric(0, 64e4, bins=64), "kind": Nominal(("a b", "c"), ordered=True)}
    score = np.stack([np.arange(64.0), [1.0, 1.0, -1.0, *[0] * 61]])
    head, noise, *lines = description_lines(
        score, noise=0.002, domain=domain, target=Numeric(0, 10)
    )
    assert (head[-17:], noise[-5:]) == (" clipped to 0..10", "0.020")
    assert lines[0].startswith("size  <= 10000: +0.000, <= 20000: +10.000,")
    assert lines[-1] == "kind  a b or c: +10.000, not listed: -10.000"
    assert all(line.startswith("      <= ") or "> 630000" in line for line in lines[1:-1])
    assert max(map(len, lines)) <= 98
    lines_of_classes = description_lines(
        np.stack([score, -score]), noise=0.0, domain=domain, target=Nominal(("x", "y"))
    )
    assert sum("kind [" in line for line in lines_of_classes) == 1  # both in one line


def test_a_pair_is_described_as_a_table_of_cells():
    """Each bin of the first column has a line; equal lines and equal bins are joined."""
    group_of_bin = np.zeros((1, 1, 2, 256), np.uint8)
    group_of_bin[0, 0, 0, 6:], group_of_bin[0, 0, 1, 1] = 2, 1
    score = np.zeros((1, 4, 13), np.float32)
    score[0, 3, :4] = -1, 1, 2, -2
    shapes = ShapeFunctions(score, np.array([0.25]), np.array([[[0, 1]]]), group_of_bin)
    assert SHAPES.describe(shapes, None, DOMAIN, None, None).splitlines()[2:5] == [
        "size and on",
        "  <= 0.5  0: -1.00, 1: +1.00",
        "  > 0.5 or missing  0: +2.00, 1: -2.00",
    ]
    bins = np.array([[5, 0, 0], [12, 1, 0]], np.uint8).T
    np.testing.assert_array_equal(
        SHAPES.predict(ShapeFunctions(*(array[0] for array in shapes)), bins), [-1, -2]
    )


@pytest.mark.slow
def test_a_bin_that_no_row_has_is_given_a_finite_score():
    table, recipe = random_table(), additive_recipe(np.inf)
    model = BOOST(jax.random.key(0), table, recipe).model(table, recipe)
    assert "; +1 doubles the odds\n" in dpbt.explain(model, DOMAIN)
    scores_beyond_bins = models.decision_function(model, np.full((2, 3), 255, np.uint8))
    assert np.all(np.isfinite(scores_beyond_bins))  # a damaged bin is no error


OUT_OF_RANGE = {
    "rounds": 0,
    "resolutions": (0,),
    "step": -1,
    "learning_rate": 0,
    "monotone": {"kind": 1},
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_options_of_an_additive_recipe_out_of_range_are_refused(name):
    with pytest.raises(ValueError, match=name):
        additive_recipe(**{name: OUT_OF_RANGE[name]})


PAIR = ("size", "on")
COLUMNS_OF_MANY_VALUES = {f"k{n}": Nominal(tuple(map(str, range(n)))) for n in (15, 16)}


@pytest.mark.parametrize(
    ("message", "options"),
    {
        "must be two columns": {"pairs": [("size",)]},
        "size.*size.*two columns": {"pairs": [("size", "size")]},
        "must be two columns of": {"pairs": [("size", "age")]},
        "twice": {"pairs": [PAIR, PAIR[::-1]]},
        "monotone column": {"pairs": [PAIR], "monotone": {"size": 1}},
        "256 cells each, and one has 272": {
            "pairs": [("k15", "k16")],
            "domain": COLUMNS_OF_MANY_VALUES,
        },
        "one column a round": {"pairs": [PAIR], "resolutions": None},
        "pairs must list": {"pairs": "on"},
    }.items(),
)
def test_pairs_are_two_columns_without_a_direction_and_few_cells(message, options):
    with pytest.raises(ValueError, match=message):
        additive_recipe(**options)
