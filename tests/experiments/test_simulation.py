"""The simulation of Nock & Henecka, against the library without noise, and against its laws."""

import dataclasses
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import dpbt
from dpbt import losses
from dpbt.data import domains
from dpbt.types import Table
from experiments.papers.nock_henecka_2020 import options, simulation
from experiments.papers.nock_henecka_2020.options import Reading

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
ROWS = 300
DOMAIN = {
    "x": domains.Numeric(0, 1, bins=10),
    "y": domains.Numeric(0, 1, bins=10),
    "kind": domains.Nominal(["a", "b", "c"]),
}
EXACT = Reading(option="second", noisy_splits=False, noisy_leaves=False)


def example_table(seed: int) -> Table:
    """Two numbers and a kind, which tell the class of most rows."""
    rng = np.random.default_rng(seed)
    x, y = rng.random((2, ROWS))
    kind = rng.choice(["a", "b", "c"], ROWS)
    label = ((x > 0.35) ^ (y > 0.6) ^ (kind == "c")) ^ (rng.random(ROWS) < 0.1)
    columns = {"x": x, "y": y, "kind": kind.astype(object)}
    splits = jax.tree.map(jnp.asarray, domains.splits(DOMAIN))
    cells = jnp.asarray(domains.encode(DOMAIN, columns))
    return Table(cells, jnp.asarray(label), jnp.ones(ROWS, bool), splits)


def simulation_of(table: Table) -> simulation.Simulation:
    splits = table.splits
    return simulation.Simulation(
        bins=np.ascontiguousarray(table.bins, np.uint8),
        label=np.asarray(table.target, np.uint8),
        fold=np.arange(ROWS, dtype=np.int32) % 10,
        column=np.asarray(splits.feature, np.int32),
        low=np.asarray(splits.low, np.int32),
        high=np.asarray(splits.high, np.int32),
        forests=simulation.Forests(
            np.asarray(splits.attribute, np.int32), np.asarray(splits.position, np.float32)
        ),
    )


def setting(reading, *, alpha=1.0, epsilon=1.0, beta_tree=0.5, rounds=1, depth=1):
    grid = [(alpha, epsilon, beta_tree, rounds, depth)]
    return simulation.settings_of_reading(reading, grid, ROWS)[0]


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "depth"), [("objective", 3), (0.1, 2), (1.0, 1)])
@pytest.mark.parametrize(
    "choices", [{}, {"step_bound": "tree"}, {"clip": None}], ids=["usual", "step bound", "no clip"]
)
def test_without_noise_scores_are_those_of_the_library(alpha, depth, choices):
    """This includes the scores of rows that do not train."""
    table, train = example_table(1), np.arange(ROWS) % 10 != 0
    reading = dataclasses.replace(EXACT, **choices)
    usual_settings = {"epsilon": 1.0, "rows": ROWS, "rounds": 6, "beta_tree": 0.5}
    recipe = options.recipe_of(reading, alpha=alpha, depth=depth, **usual_settings)
    fitted = jax.jit(dpbt.boost)(
        jax.random.key(0), table._replace(present=jnp.asarray(train)), recipe
    )
    simulated = simulation_of(table).boost_once(
        setting(reading, alpha=alpha, rounds=6, depth=depth), train, seed=0
    )
    np.testing.assert_allclose(
        simulated.scores[train], np.asarray(fitted.scores)[train], rtol=1e-3, atol=2e-5
    )
    splits = np.asarray(fitted.transcript.rounds["split_0"])[:, 0]
    np.testing.assert_array_equal(simulated.splits[:, 0], splits)
    assert np.unique(simulated.scores[~train]).size > 1
    assert set(simulated.scores[~train]) <= set(simulated.scores[train])


def exact_split_probabilities(table, *, exponent):
    """Those of the root by equation (15), for Matsushita's loss and weights of 64/127."""
    right = np.asarray(dpbt.data.splits.satisfied_splits(table), float)
    label = np.asarray(table.target, float)
    scores = np.zeros(right.shape[1])
    for side in (right, 1 - right):
        scores -= 2 * np.sqrt((label @ side) * ((1 - label) @ side)) * 64 / 127
    weights = np.exp(exponent * (scores - scores.max()))
    return weights / weights.sum()


@pytest.mark.parametrize(
    ("choices", "divisor", "bound"),
    [
        ({}, 2 * 2, 1 + 2 * np.sqrt(ROWS)),
        ({"split_divisor": "T"}, 2, 1 + 2 * np.sqrt(ROWS)),
        ({"split_divisor": "1", "split_bound": "1"}, 1, 1),
    ],
    ids=["usual", "divisor T", "divisor 1"],
)
def test_splits_have_the_law_of_equation_15(choices, divisor, bound):
    """The root of the first of two trees of depth 2 is counted in 4,000 fits."""
    table, epsilon, draws = example_table(2), 3.0 * bound, 4_000
    simulation_of_table, everything = simulation_of(table), np.ones(ROWS, bool)
    reading = Reading(option="second", **choices)
    fit = setting(reading, epsilon=epsilon, rounds=2, depth=2)
    splits = [
        simulation_of_table.boost_once(fit, everything, seed=k).splits[0, 0] for k in range(draws)
    ]
    exponent = 0.5 * epsilon / divisor / (2 * bound)
    expected = draws * exact_split_probabilities(table, exponent=exponent)
    counts = np.bincount(splits, minlength=len(expected))
    rare = expected < 5
    pooled = [np.append(x[~rare], x[rare].sum()) for x in (counts, expected)]
    pooled = [x[pooled[1] > 0] for x in pooled]
    assert stats.chisquare(pooled[0], pooled[1]).pvalue > 1e-4


@pytest.mark.parametrize(
    ("choices", "scale"),
    [
        ({}, 2 * 10 * 2 * 2),
        ({"leaf_scale": "M", "leaf_divisor": "T"}, 10 * 2),
        ({"leaf_scale": "2M/m", "leaf_divisor": "1"}, 20 / ROWS),
        ({"leaf_scale": "1/m on q", "leaf_divisor": "1"}, 1 / ROWS),
        ({"option": "first"}, 2 * 2 * 2),
    ],
    ids=["usual", "M", "2M/m", "1/m on q", "first option"],
)
def test_leaves_have_the_noise_that_the_reading_names(choices, scale):
    """Leaves are those of stumps with the best split in 2,000 fits; values beyond M are a tail."""
    reading = Reading(**{"option": "second", "noisy_splits": False, **choices})
    leaf_epsilon = 40.0 if scale > 1 else 1.0
    fit = setting(reading, epsilon=2 * leaf_epsilon, rounds=2, depth=1)
    simulation_of_table, everything = simulation_of(example_table(3)), np.ones(ROWS, bool)
    values = np.array(
        [simulation_of_table.boost_once(fit, everything, seed=k).values[0] for k in range(2_000)]
    )
    exact = simulation_of_table.boost_once(setting(EXACT, rounds=1, depth=1), everything, seed=0)
    center, bound = exact.values[0], 9.99
    if reading.is_noise_on_shares:
        inverse_link = losses.m_alpha(1.0).inverse_link
        center, values = np.asarray(inverse_link(center)), np.asarray(inverse_link(values))
    elif reading.option == "first":  # the leveraged value, which is clamped to 1
        center, bound = exact.beta[0] * center, 1.0
    noise, is_inside = (values - center) * leaf_epsilon / scale, np.abs(values) < bound
    for of_leaf, inside in zip(noise.T, is_inside.T, strict=True):
        assert laplace_p_value(of_leaf[inside]) > 1e-4


def laplace_p_value(values):
    """The p-value of a test that values are Laplace of scale 1 between their two ends."""
    low, high = (float(stats.laplace.cdf(end)) for end in (values.min(), values.max()))
    return stats.kstest((stats.laplace.cdf(values) - low) / (high - low), "uniform").pvalue


def test_beta_and_weights_are_those_of_algorithm_1():
    """Two noisy trees are those of a plain loop over rows."""
    table, everything = example_table(4), np.ones(ROWS, bool)
    simulation_of_table = simulation_of(table)
    reading = Reading(option="second", leaf_scale="2M/m", leaf_divisor="1")
    released = simulation_of_table.boost_once(
        setting(reading, alpha=0.3, epsilon=20.0, rounds=2, depth=2), everything, seed=5
    )
    right = np.asarray(dpbt.data.splits.satisfied_splits(table)).astype(int)
    sign = np.where(np.asarray(table.target), 1.0, -1.0)
    score = np.zeros(ROWS)
    for splits, values, beta in zip(released.splits, released.values, released.beta, strict=True):
        link = losses.m_alpha(0.3).inverse_link
        weight = np.clip(np.round(np.asarray(link(-sign * score)) * 127), 1, 127) / 127
        first = right[:, splits[0]]
        value = values[2 * first + right[np.arange(ROWS), splits[1:][first]]]
        assert beta == pytest.approx(0.3 / 100 * np.mean(weight * sign * value), rel=1e-4)
        score = score + beta * value
    np.testing.assert_allclose(released.scores, score, atol=1e-6)


def test_weights_in_steps_forget_the_scores_on_the_flat_part():
    """At alpha = 0.1 a row whose link falls below 1.8 has the weight 1/2, and starts from 1.8."""
    table, everything = example_table(4), np.ones(ROWS, bool)
    simulation_of_table = simulation_of(table)
    fits = [
        setting(
            dataclasses.replace(EXACT, weights=weights, step_bound="tree"),
            alpha=0.1,
            rounds=4,
            depth=2,
        )
        for weights in ("sum", "steps")
    ]
    in_sum, in_steps = (simulation_of_table.boost_once(fit, everything, seed=0) for fit in fits)
    assert np.ptp(in_sum.beta) == 0  # no weight changes
    assert np.ptp(in_steps.beta) > 0.01 * in_steps.beta[0]


@pytest.mark.parametrize("is_exponential", [False, True])
def test_forests_have_the_noise_of_their_leaves(is_exponential):
    """With next to no noise they are better than a coin, and with a lot of it they are one."""
    table = example_table(6)
    simulation_of_table = simulation_of(table._replace(target=table.bins[:, 0] > 4))
    forests = np.array([(1e-6, 4, is_exponential), (1e3, 4, is_exponential)], simulation.FOREST)
    noisy, exact = simulation_of_table.forest_errors(forests, trees=21, folds=10, seed=0).mean(1)
    assert 0.35 < noisy < 0.65
    assert exact < 0.3


def test_what_is_not_simulated_is_refused():
    for reading in (Reading(option="tight"), Reading(step_bound="observed")):
        with pytest.raises(ValueError, match="simulated"):
            setting(reading)
    for choices in ({"split_bound": "1"}, {"weights": "steps"}, {"calibrated_by": "own leaf"}):
        with pytest.raises(ValueError, match="no recipe"):
            options.recipe_of(
                Reading(option="second", **choices),
                epsilon=1.0,
                rows=9,
                rounds=1,
                depth=1,
                alpha=1.0,
                beta_tree=0.5,
            )
