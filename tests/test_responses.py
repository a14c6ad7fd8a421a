"""Several classes, numbers and weights of rows: residuals, sensitivities, exact losses."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import audit, recipes, types, weighting
from dpbt.common.arithmetic import softmax_in_bits
from dpbt.data import column_types, tables
from dpbt.data.domains import Boolean, Label, Nominal, Numeric, Objective
from dpbt.learners.bins.epilogue import class_counts_by_score_interval, fit_score_line
from dpbt.learners.bins.histograms import sum_row_weights_by_target_bin
from dpbt.learners.bins.residuals import signed_residuals_of_bounded_norm
from dpbt.learners.bins.target import (
    CLEAR_DEVIATIONS_OF_MEAN,
    CLEAR_DEVIATIONS_OF_QUANTILE,
    estimate_location_and_scale,
    estimate_target_bin_shares,
    initial_score_of_target_shares,
)
from dpbt.learners.oblivious import learner as oblivious
from dpbt.learners.oblivious.config import ObliviousConfig
from dpbt.models import measures
from dpbt.privacy import mechanisms, sensitivity
from dpbt.recipes.bins import split_attributes_of_domain
from dpbt.training import run_keys
from dpbt.types import GRID, NUMBER
from tests.support.recipe_noise import draw_specs_by_site

DOMAIN = {"size": Numeric(0, 1, bins=4), "on": Boolean(), "kind": Nominal(("a", "b"), other="a")}
CLASSES = Nominal(("red", "green", "blue"))
RANGE = Numeric(-10, 30)
ROWS, ROUNDS = 16, 2
BOOST = jax.jit(dpbt.boost)
TARGETS = {"classes": CLASSES, "number": RANGE}
OBJECTIVES = {
    "count": Objective(0, 40, objective="poisson"),
    "quantile": Objective(-10, 30, objective="quantile", level=0.9),
}
EVERY = TARGETS | OBJECTIVES
relations = pytest.mark.parametrize("relation", ["add_remove", "replace_one"])


def random_columns(count, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "size": rng.random(count),
        "on": rng.random(count) < 0.5,
        "kind": rng.choice(["a", "b"], count),
    }


def labels_of_columns(target, columns):
    if isinstance(target, Nominal):
        return np.array(target.values)[(3 * columns["size"]).astype(int)]
    return 40 * columns["size"] - 10


def table_with_target(target, count=ROWS, **options):
    columns = random_columns(count)
    return dpbt.table(DOMAIN, columns, labels_of_columns(target, columns), target=target, **options)


def recipe_for_target(target, epsilon=3.0, **changes):
    settings = {"rounds": ROUNDS, "depth": 2, "rows": ROWS, "marginals_fraction": 0.2}
    objective = {**changes}.get("objective", getattr(target, "objective", None))
    if objective != "quantile":
        settings["scores_fraction"] = 0.2
    return recipes.oblivious_boost(
        epsilon=epsilon, domain=DOMAIN, target=target, **{**settings, **changes}
    )


# Labels.


def read_labels(target, labels):
    return Label("y", target=target).read_labels(labels, num_rows=len(labels))[:2]


def test_how_a_label_is_read_depends_on_that_label_alone():
    labels_in_file = ["red", b"blue", None, "RED", float("nan"), 7, "", object(), [1], " green "]
    labels, is_present = read_labels(CLASSES, labels_in_file)
    np.testing.assert_array_equal(is_present, [1, 1, 0, 0, 0, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(labels[is_present], [0, 2, 1])
    assert labels.dtype == np.uint8

    labels_in_file = ["3", 10**400, -np.inf, None, "x", float("nan"), True, 30, [2]]
    labels, is_present = read_labels(RANGE, labels_in_file)
    np.testing.assert_array_equal(is_present, [1, 1, 1, 0, 0, 0, 1, 1, 0])
    np.testing.assert_allclose(labels[is_present], [13 / 40, 1, 0, 11 / 40, 1])
    back = column_types.numbers_predicted_by_scores(RANGE, labels[is_present])
    np.testing.assert_allclose(back, [3, 30, -10, 1, 30], rtol=1e-6)


# Residuals, by plain loops.


def plain_residuals(scores, labels, clip, norm):
    """Residuals (y = k) - p_k of each row, shrunk to the norm and cut to the grid."""
    residuals = []
    for score, label in zip(scores.T, labels, strict=True):
        power = 2.0 ** (score - score.max())
        residual = -power / power.sum()
        residual[label] += 1
        size = np.linalg.norm(residual, norm)
        residuals.append(np.trunc(residual / max(clip, size) * GRID))
    return np.array(residuals).T


def test_residuals_of_a_number_are_clipped_in_units_of_the_spread():
    target = jnp.asarray([0.0, 0.5, 0.52, 1.0, jnp.nan, jnp.inf], jnp.float32)
    table = dpbt.Table(jnp.zeros((6, 1)), target, jnp.ones(6, bool))
    numbers = weighting.ResidualNumbers(np.float32(1.5))
    public = (
        recipe_for_target(RANGE).public()._replace(weight_params=numbers, unit=jnp.float32(0.1))
    )
    score = jnp.full(6, 0.5, jnp.float32)
    weighed = weighting.residuals(NUMBER, "l2").weigh(score, jnp.float32(0), table, public)
    counted = sensitivity.clip_and_round_weights_to_grid(weighed.weight, table, NUMBER)
    np.testing.assert_array_equal(counted, [-GRID, 0, 17, GRID, 0, GRID])


def test_residuals_of_a_count_and_of_a_quantile_are_those_of_their_losses():
    """Of a quantile they are the gradient on the grid; of a count, exp(H) is at most the top."""
    target = jnp.asarray([0.0, 0.2, 0.5, 1.0, jnp.nan], jnp.float32)
    table = dpbt.Table(jnp.zeros((5, 1)), target, jnp.ones(5, bool))
    public = recipe_for_target(RANGE).public()._replace(unit=jnp.float32(0.5))

    def residuals_on_grid(name, score, clip):
        response = EVERY[name].response
        clipped_public = public._replace(weight_params=weighting.ResidualNumbers(np.float32(clip)))
        score = jnp.full(5, score, jnp.float32)
        weighed = weighting.residuals(response, "l2").weigh(
            score, jnp.float32(0), table, clipped_public
        )
        return sensitivity.clip_and_round_weights_to_grid(weighed.weight, table, response)

    np.testing.assert_array_equal(residuals_on_grid("quantile", 0.2, 7), [-14, GRID, GRID, GRID, 0])
    half = np.round((np.array([0, 0.2, 0.5, 1]) - 0.5) / 0.5 / 2 * GRID)
    np.testing.assert_allclose(residuals_on_grid("count", np.log(0.5), 2)[:4], half, atol=1)
    np.testing.assert_array_equal(residuals_on_grid("count", 9.0, 1), [-GRID, -GRID, -GRID, 0, 0])


def test_scores_start_at_the_estimated_quantile_and_at_the_log_of_the_mean_count():
    """They are read off a skewed histogram, in which noise hides them in part."""
    rng = np.random.default_rng(0)
    numbers = jnp.asarray(np.clip(rng.exponential(0.1, 20_000), 0, 1), jnp.float32)
    counts = sum_row_weights_by_target_bin(numbers, jnp.full(20_000, GRID), 64) // GRID
    for noise, room in ((0.1, 0.002), (20.0, 0.02)):
        noisy = counts + jnp.asarray(np.round(rng.normal(0, noise, 64)), jnp.int32)
        fitted = {"center": jnp.float32(0.1), "spread": jnp.float32(0.1)}
        options = {"noise_deviation": jnp.float32(noise), **fitted}

        shares = estimate_target_bin_shares(
            noisy, clear_deviations=CLEAR_DEVIATIONS_OF_QUANTILE, **options
        )
        quantile = initial_score_of_target_shares(OBJECTIVES["quantile"].response, shares)
        assert float(quantile) == pytest.approx(float(np.quantile(numbers, 0.9)), abs=room)

        shares = estimate_target_bin_shares(
            noisy, clear_deviations=CLEAR_DEVIATIONS_OF_MEAN, **options
        )
        log_mean = initial_score_of_target_shares(OBJECTIVES["count"].response, shares)
        assert float(jnp.exp(log_mean)) == pytest.approx(float(numbers.mean()), abs=room)


def test_scores_of_a_count_that_is_mostly_0_do_not_start_far_too_high():
    """Noise in the many empty bins of a wide range is not taken for large counts."""
    rng = np.random.default_rng(0)
    counts = np.zeros(64)
    counts[:4] = 2000, 400, 100, 20
    mean = np.sum(counts * (np.arange(64) + 0.5) / 64) / counts.sum()
    ratios = []
    for _ in range(20):
        noisy = jnp.asarray(np.round(counts + rng.normal(0, 20, 64)), jnp.int32)
        center, spread, _ = jax.jit(estimate_location_and_scale)(noisy, jnp.float32(20))
        shares = estimate_target_bin_shares(
            noisy,
            noise_deviation=jnp.float32(20),
            center=center,
            spread=spread,
            clear_deviations=CLEAR_DEVIATIONS_OF_MEAN,
        )
        start = initial_score_of_target_shares(OBJECTIVES["count"].response, shares)
        ratios.append(float(jnp.exp(start)) / mean)
    assert 0.8 < np.mean(ratios) < 1.3


def test_counts_and_quantiles_are_measured_by_their_losses():
    target, predicted = np.array([0, 1, 4], np.float32), np.array([1.0, 1.0, 2.0])
    loss_measures = measures.measure_objective(target, predicted, OBJECTIVES["count"].response)
    assert loss_measures["deviance"] == pytest.approx(2 / 3 * (1 + 0 + 4 * np.log(2) - 2))
    loss_measures = measures.measure_objective(target, predicted, OBJECTIVES["quantile"].response)
    assert loss_measures == pytest.approx({"pinball": (0.1 + 0 + 1.8) / 3, "coverage": 2 / 3})


@pytest.mark.slow
@pytest.mark.parametrize("name", OBJECTIVES)
def test_without_noise_means_and_quantiles_are_learned(name):
    target, rng, count = OBJECTIVES[name], np.random.default_rng(0), 4000
    columns = random_columns(count)
    mean_of_row = 2 + 8 * columns["size"]
    labels = rng.poisson(mean_of_row) if name == "count" else rng.normal(mean_of_row, 1)
    table = dpbt.table(DOMAIN, columns, labels, target=target)
    recipe = recipes.auto(epsilon=np.inf, rows=count, domain=DOMAIN, target=target)
    model = dpbt.fit(jax.random.key(0), table, recipe)
    predicted = np.asarray(model.predict(dpbt.domains.encode(DOMAIN, columns)))
    steps = 2 + 8 * (np.floor(4 * columns["size"]) + 0.5) / 4
    if name == "count":
        np.testing.assert_allclose(predicted, steps, rtol=0.1)
    else:
        assert abs(np.mean(labels <= predicted) - 0.9) < 0.02
        np.testing.assert_allclose(predicted, steps + 1.28 * 1.15, atol=0.7)


def test_an_objective_is_refused_where_it_makes_no_sense():
    for message, target, options in (
        ("for a number in a declared range", CLASSES, {"objective": "poisson"}),
        ("for a number in a declared range", None, {"objective": "quantile", "quantile": 0.5}),
        ("range from 0 on", RANGE, {"objective": "poisson"}),
        ("the level of a quantile", RANGE, {"objective": "quantile"}),
        (r"in \[0.01, 0.99\]", RANGE, {"objective": "quantile", "quantile": 0.999}),
        ("objective must be one of", RANGE, {"quantile": 0.5}),
        (
            "a level is for quantiles",
            OBJECTIVES["count"],
            {"objective": "poisson", "quantile": 0.5},
        ),
    ):
        for make_recipe in (recipes.auto, recipes.additive, recipes.oblivious_boost):
            with pytest.raises(ValueError, match=message):
                make_recipe(epsilon=1.0, rows=ROWS, domain=DOMAIN, target=target, **options)


def plain_histogram(table, weight, num_labels):
    """Whole rows of rounded weights in the first two bins of each column, by label."""
    bins, labels = np.asarray(table.bins), np.asarray(table.target)
    counts = np.zeros((3, 2, num_labels), int)
    rounded = np.round(weight * GRID)
    for feature, bin, label in np.ndindex(*counts.shape):
        has_label = labels == label if num_labels > 1 else np.ones(ROWS, bool)
        rows = rounded[has_label & (bins[:, feature] == bin)].sum() / GRID
        counts[feature, bin, label] = int(rows + 0.5)
    return counts


def plain_first_sums(recipe, prologue_release, table, weight):
    """The sums of residuals in each leaf of the first tree, by response."""
    bins, labels = np.asarray(table.bins), np.asarray(table.target)
    prologue, clip = recipe.learner.prologue, float(recipe.weight_params.clip)
    start = np.asarray(prologue.initial_score(prologue_release, recipe.params))
    if recipe.learner.response.score_axes:
        scores = np.repeat(start[:, None], ROWS, axis=1)
        residual = np.trunc(plain_residuals(scores, labels, clip, 1) * weight)
    else:
        unit = float(prologue.unit(prologue_release, recipe.params))
        grid_residual = np.round(np.clip((labels - start) / unit, -clip, clip) / clip * GRID)
        residual = np.trunc(grid_residual * weight)[None]
    public = recipe.public(prologue_release)
    tree, _ = recipe.learner.partition.structure(recipe.params, public)
    leaf = np.zeros(ROWS, int)
    for feature, right in zip(np.asarray(tree.feature), np.asarray(tree.right), strict=True):
        leaf = 2 * leaf + right[bins[:, feature]]
    return np.array([[row[leaf == k].sum() for k in range(4)] for row in residual])


def table_with_weights(target):
    return table_with_target(target, sample_weight=np.linspace(0, 2, ROWS), max_weight=2.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_without_noise_the_sums_are_those_of_plain_loops(name):
    table = table_with_weights(TARGETS[name])
    recipe = recipe_for_target(TARGETS[name], np.inf)
    boosted = BOOST(jax.random.key(0), table, recipe)
    transcript, trees = boosted.transcript, boosted.hypotheses
    weight = np.linspace(0, 1, ROWS)
    histogram = np.asarray(transcript.prologue["histogram"])
    np.testing.assert_array_equal(
        histogram[:, :2], plain_histogram(table, weight, histogram.shape[-1])
    )

    # The scores of the first round are where they started; the model's leaves are scaled.
    expected = plain_first_sums(recipe, transcript.prologue, table, weight)
    drawn = np.asarray(transcript.rounds["sums"][0]).reshape(expected.shape)
    assert np.abs(drawn - expected).max() <= 2
    assert trees.leaf.shape == (ROUNDS, *recipe.learner.response.score_axes, 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_a_model_predicts_by_the_scores_of_its_training(name):
    table = table_with_weights(TARGETS[name])
    recipe = recipe_for_target(TARGETS[name], np.inf)
    boosted = BOOST(jax.random.key(0), table, recipe)
    model = boosted.model(table, recipe)
    scores, predicted = dpbt.decision_function(model, table), dpbt.predict(model, table)
    np.testing.assert_allclose(scores, np.moveaxis(np.asarray(boosted.scores), 0, -1), atol=1e-5)
    if name == "classes":
        np.testing.assert_array_equal(predicted, np.asarray(scores).argmax(axis=1))
        power = 2.0 ** np.asarray(scores)
        shares = power / power.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(dpbt.predict_proba(model, table), shares, rtol=1e-5)
    else:
        np.testing.assert_allclose(predicted, np.clip(40 * scores - 10, -10, 30), rtol=1e-5)
        with pytest.raises(ValueError, match="no probabilities"):
            dpbt.predict_proba(model, table)


# Sensitivities, attained, and exact losses.


@relations
@pytest.mark.parametrize(
    "noise", [mechanisms.rounded_gaussian, mechanisms.discrete_laplace], ids=["gaussian", "laplace"]
)
@pytest.mark.parametrize("name", EVERY)
def test_residuals_attain_their_sensitivity_and_exceed_it_nowhere(name, noise, relation):
    """All residual vectors of a small grid of directions are tried, at the norm and beyond it."""
    response = column_types.response_of_target(EVERY[name])
    attributes = split_attributes_of_domain(DOMAIN)
    declared_relation = dpbt.types.as_relation(relation)
    config = ObliviousConfig(
        attributes=attributes,
        depth=2,
        attributes_per_tree=(1,),
        draws_histograms=False,
        draws_scores=False,
        smoothing=0.0,
        relation=declared_relation,
        noise=noise,
        response=response,
    )
    order = 1 if noise is mechanisms.discrete_laplace else 2
    directions = np.array(list(itertools.product((-1, -0.5, 0, 0.5, 1), repeat=3))[:62])
    directions = np.concatenate([directions, -directions])
    size = np.linalg.norm(directions, order, axis=1, keepdims=True)
    at_norm = np.trunc(directions / size * GRID * (1 + 1e-9))
    rows = np.concatenate([at_norm, 1.02 * at_norm, np.full((1, 3), 1e9)])
    if not response.score_axes:
        rows = np.array([[-GRID], [GRID], [3], [1e9], [-1e9]])
    present = jnp.ones(len(rows), bool)
    residual_vectors = jnp.asarray(rows.T if response.score_axes else rows[:, 0], jnp.float32)
    table = dpbt.Table(jnp.zeros((len(rows), 1)), present, present)
    bound = oblivious.leaf_sum_sensitivity(config)
    for weights in (
        sensitivity.clip_and_round_weights_to_grid(residual_vectors, table, response),
        residual_vectors,
    ):
        added = (
            np.asarray(signed_residuals_of_bounded_norm(config, table, weights))
            .reshape(-1, len(rows))
            .T
        )
        norms = np.linalg.norm(added, order, axis=1)
        gaps = np.linalg.norm(added[:, None] - added[None], order, axis=2)
        in_two_leaves = np.linalg.norm(np.stack([norms, norms]), order, axis=0)
        max_change = max(gaps.max(), in_two_leaves.max())
        max_change = norms.max() if relation == "add_remove" else max_change
        assert 0.99 * bound <= max_change <= bound * (1 + 1e-12)


@pytest.mark.parametrize(
    ("name", "relation"),
    [
        ("classes", "replace_one"),
        pytest.param("classes", "add_remove", marks=pytest.mark.slow),
        pytest.param("number", "replace_one", marks=pytest.mark.slow),
        pytest.param("number", "add_remove", marks=pytest.mark.slow),
    ],
)
def test_counts_attain_their_sensitivity_and_exceed_it_nowhere(name, relation):
    """This holds also where rows have weights, as counts are rounded to whole rows."""
    target, rng = TARGETS[name], np.random.default_rng(0)
    weights = rng.random(ROWS).astype(np.float32)
    unweighted = table_with_target(target)
    for row_weights in (None, weights):
        table = unweighted._replace(
            weight=None if row_weights is None else jnp.asarray(row_weights)
        )
        recipe = recipe_for_target(target, relation=relation)
        draws = draw_specs_by_site(recipe, "prologue")
        bounds = {site: float(spec.max_sensitivity) for site, spec in draws.items()}
        draw = jax.jit(lambda table, recipe=recipe: noiseless_prologue_release(table, recipe))
        counts_on_table, max_changes = draw(table), dict.fromkeys(bounds, 0.0)
        for row in range(ROWS):
            if relation == "add_remove":
                neighbour = table._replace(present=table.present.at[row].set(False))
            else:
                bins = (table.bins[row] + 1) % jnp.asarray([4, 2, 2], jnp.uint8)
                label = 1 - table.target[row] if name == "number" else (table.target[row] + 1) % 3
                neighbour = table._replace(
                    bins=table.bins.at[row].set(bins),
                    target=table.target.at[row].set(label.astype(table.target.dtype)),
                )
                if row_weights is not None:
                    weight = table.weight.at[row].set(jnp.round(rng.random()))
                    neighbour = neighbour._replace(weight=weight)
            counts_on_neighbour = draw(neighbour)
            for site in bounds:
                max_changes[site] = max(
                    max_changes[site],
                    np.abs(counts_on_table[site] - counts_on_neighbour[site]).sum(),
                )
        for site, bound in bounds.items():
            assert max_changes[site] <= bound
            if row_weights is None:
                assert max_changes[site] == bound


def noiseless_prologue_release(table, recipe):
    """What the prologue draws, without noise."""
    noiseless = dataclasses.replace(recipe, params=jax.tree.map(jnp.zeros_like, recipe.params))
    return BOOST(jax.random.key(0), table, noiseless).transcript.prologue


FRACTIONS = {
    "all": {"marginals_fraction": 0.2},
    "sums": {"marginals_fraction": 0.0, "scores_fraction": 0.0},
}
"""Which sites are drawn, and the options of a recipe for it."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "relation", "drawn"),
    [
        ("classes", "add_remove", "sums"),
        ("number", "add_remove", "sums"),
        ("quantile", "replace_one", "sums"),
        ("count", "add_remove", "sums"),
        *((name, relation, "all") for name in EVERY for relation in ("add_remove", "replace_one")),
    ],
)
def test_exact_losses_are_within_the_ledger(name, relation, drawn):
    """Neighbours have a row of a fifth of the domain, with any class or one of three numbers.

    Rows have weights, and rows that come in have the largest one.
    """
    target = EVERY[name]
    weights = np.where(np.arange(ROWS) % 2, 1.0, 0.3)
    table = table_with_target(target, sample_weight=weights, max_weight=1)
    table = table._replace(present=table.present.at[:3].set(False))
    recipe = recipe_for_target(target, relation=relation, depth=1, **FRACTIONS[drawn])
    candidates = [array[::5] for array in audit.all_rows_of_domain(DOMAIN, target=target)]
    neighbours = audit.neighbours(table, relation, candidates)
    audit_result = audit.audit_transcripts(
        jax.random.key(0), neighbours, recipe, num_transcripts=2, with_worst_steps=True
    )
    assert 0.1 < audit_result.largest_loss <= audit_result.claimed_epsilon + 2e-3
    assert set(audit_result.max_step_ratio_by_site) == {
        line.site for line in dpbt.ledger(recipe).lines
    }
    assert all(0.2 < ratio <= 1 + 2e-3 for ratio in audit_result.max_step_ratio_by_site.values())


# Monotone constraints.


def test_leaves_are_made_monotone_and_monotone_ones_stay():
    """Every pair of leaves is compared; a direction of -1 turns the order round."""
    rng = np.random.default_rng(0)
    bits = np.array(list(itertools.product((0, 1), repeat=4)))
    make_monotone = jax.jit(oblivious.make_leaves_monotone)
    for direction in ([1, 0, 0, 0], [1, -1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0], [0, -1, 0, 0]):
        signs = np.array(direction)
        leaf = rng.normal(size=16).astype(np.float32)
        monotone_leaves = np.asarray(make_monotone(jnp.asarray(leaf), jnp.asarray(direction)))
        for (i, x), (j, y) in itertools.product(enumerate(bits), repeat=2):
            ordered = all(
                s * a <= s * b and (s != 0 or a == b) for a, b, s in zip(x, y, signs, strict=True)
            )
            if ordered:
                assert monotone_leaves[i] <= monotone_leaves[j]
        np.testing.assert_array_equal(
            make_monotone(jnp.asarray(monotone_leaves), jnp.asarray(direction)), monotone_leaves
        )


def test_targets_and_constraints_that_cannot_be_kept_are_refused():
    with pytest.raises(ValueError, match="a target must be nominal with two classes or more"):
        recipe_for_target(Boolean())
    with pytest.raises(ValueError, match="a quantile have no mean"):
        recipe_for_target(RANGE, objective="quantile", quantile=0.5, scores_fraction=0.1)
    for monotone in ({"weight": 1}, {"kind": 1}, {"size": 2}, [1, 0, 0]):
        with pytest.raises(ValueError, match="monotone must map columns that have an order"):
            recipe_for_target(RANGE, monotone=monotone)
    with pytest.raises(ValueError, match="several classes have one each"):
        recipe_for_target(CLASSES, monotone={"size": 1})


# Weights of rows.


def test_weights_are_read_by_row_and_bounded():
    odd = [1.5, -3, None, "2", float("nan"), 10**400, np.inf, True]
    columns = random_columns(len(odd))
    labels = [True, False] * 4
    table = dpbt.table(DOMAIN, columns, labels, sample_weight=odd, max_weight=2.0)
    np.testing.assert_allclose(table.weight, [0.75, 0, 0, 1, 0, 1, 1, 0.5])
    table = dpbt.table(
        DOMAIN,
        columns,
        ["no", "yes"] * 4,
        negative="no",
        positive="yes",
        sample_weight=odd,
        max_weight=2.0,
        class_weight={"yes": 4, "no": 1},
    )
    np.testing.assert_allclose(table.weight, [0.1875, 0, 0, 1, 0, 1, 0.25, 0.5])


def test_weights_that_are_not_public_bounds_are_refused():
    columns, labels = random_columns(4), [True, False] * 2

    def assert_refused(message, **options):
        with pytest.raises(ValueError, match=message) as error:
            dpbt.table(DOMAIN, columns, labels, **options)
        assert "4" not in str(error.value)

    for max_weight in (0, -1, np.inf, np.nan, "2", True):
        assert_refused("max_weight must be", max_weight=max_weight, sample_weight=np.ones(4))
    assert_refused("same length", sample_weight=np.ones(3), max_weight=1)
    assert_refused("must map each class", class_weight="balanced")
    assert_refused("a weight for each of", class_weight={"True": 1})
    assert_refused(r"must be in \(0, inf\)", class_weight={True: 1, False: 0})
    assert_refused("and not both", target=CLASSES, negative="a", positive="b")
    with pytest.raises(ValueError, match="class_weight must map each class"):
        dpbt.table(DOMAIN, columns, [1.0] * 4, target=RANGE, class_weight={1: 2})


def test_a_weight_beyond_the_bound_is_clipped_in_the_loop():
    """Tables that no `dpbt.table` made may hold any float32."""
    rows = table_with_target(RANGE, 6)
    row_weights = jnp.asarray([0.5, 1.0, 7.0, -3.0, jnp.nan, jnp.inf], jnp.float32)
    table = rows._replace(weight=row_weights)
    full = jnp.full(6, -float(GRID))
    for response, weight_at_bound in ((NUMBER, -GRID), (types.BINARY, GRID)):
        weight = full if response == NUMBER else -full
        weights_on_grid = sensitivity.clip_and_round_weights_to_grid(weight, table, response)
        half_of_bound = -63 if response == NUMBER else 64
        np.testing.assert_array_equal(
            weights_on_grid,
            [half_of_bound, weight_at_bound, weight_at_bound, 0, 0, weight_at_bound],
        )

        endless = jnp.full(6, -jnp.inf if response == NUMBER else jnp.inf)
        weights_on_grid = sensitivity.clip_and_round_weights_to_grid(endless, table, response)
        np.testing.assert_array_equal(
            weights_on_grid,
            [weight_at_bound, weight_at_bound, weight_at_bound, 0, 0, weight_at_bound],
        )


# What is refused.


def test_a_table_and_a_recipe_of_another_target_are_refused_everywhere():
    table_by_target = {"two": dpbt.table(DOMAIN, random_columns(ROWS), np.ones(ROWS, bool))}
    table_by_target |= {name: table_with_target(target) for name, target in TARGETS.items()}
    recipe_by_target = {
        "two": recipe_for_target(None),
        **{name: recipe_for_target(t) for name, t in TARGETS.items()},
    }
    key = jax.random.key(0)
    for target_of_table, target_of_recipe in itertools.permutations(table_by_target, 2):
        for run in (dpbt.fit, dpbt.boost):
            with pytest.raises(ValueError, match="same target="):
                run(key, table_by_target[target_of_table], recipe_by_target[target_of_recipe])
    lazy = recipes.lazybb_rules(epsilon=1.0, rows=ROWS, rounds=2)
    weighted = table_by_target["two"]._replace(weight=jnp.ones(ROWS, jnp.float32))
    for run in (dpbt.fit, dpbt.boost):
        with pytest.raises(ValueError, match="derives the weights of all rows"):
            run(key, weighted, lazy)


@pytest.mark.slow
def test_a_table_of_another_declared_target_is_refused_before_a_fit():
    """Other classes, another order of them, or another range would mislabel every row."""
    key = jax.random.key(0)
    other_classes = Nominal(("blue", "green", "red")), Nominal(("red", "green", "grey"))
    for recipe, target in (
        *((recipe_for_target(classes), CLASSES) for classes in other_classes),
        (recipe_for_target(Numeric(-10, 31)), RANGE),
    ):
        for table in (
            table_with_target(target),
            tables.select_rows(table_with_target(target), np.arange(9)),
        ):
            with pytest.raises(ValueError, match="made with another target"):
                dpbt.fit(key, table, recipe)
    dpbt.fit(key, table_with_target(Numeric(-10, 30, bins=20)), recipe_for_target(RANGE))


# Predictions.


def test_scores_of_several_classes_are_made_true_by_one_slope():
    """Exact scores give a slope of 1, and scores twice too large one half."""
    rng = np.random.default_rng(0)
    true_scores = rng.normal(0, 1, (4, 20_000))
    true_powers = 2.0**true_scores
    labels = (rng.random(20_000) < np.cumsum(true_powers / true_powers.sum(0), axis=0)).argmax(
        axis=0
    )
    table = dpbt.Table(
        jnp.zeros((20_000, 1)), jnp.asarray(labels, jnp.uint8), jnp.ones(20_000, bool)
    )
    count, fitted = jax.jit(class_counts_by_score_interval), jax.jit(fit_score_line)
    for factor in (1.0, 2.0):
        counts = count(table, jnp.asarray(factor * true_scores, jnp.float32)) // GRID
        slope, start = fitted(counts, jnp.float32(1), jnp.ones(4, jnp.float32))
        assert float(slope) == pytest.approx(1 / factor, rel=0.15)
        np.testing.assert_allclose(start, slope)


def test_a_histogram_of_a_number_tells_its_centre_and_its_spread():
    """They are estimated through noise, in ranges far wider than the numbers."""
    rng = np.random.default_rng(0)
    estimate = jax.jit(estimate_location_and_scale)
    for center, spread in ((0.5, 0.1), (0.03, 0.02), (0.9, 0.3), (0.25, 0.01)):
        numbers = jnp.asarray(np.clip(rng.normal(center, spread, 4000), 0, 1), jnp.float32)
        counts = sum_row_weights_by_target_bin(numbers, jnp.full(4000, GRID), 64) // GRID
        assert int(counts.sum()) == 4000
        for noise in (0.1, 20.0):
            noisy = counts + jnp.asarray(np.round(rng.normal(0, noise, 64)), jnp.int32)
            estimated_center, estimated_spread, estimated_rows = map(
                float, estimate(noisy, jnp.float32(noise))
            )
            assert abs(estimated_center - center) < 0.35 * spread + 0.004
            assert 0.6 * spread < estimated_spread < 1.7 * spread + 0.01
            assert estimated_rows == pytest.approx(4000, rel=0.15)


def test_recipes_of_other_targets_or_constraints_have_other_noise_under_one_key():
    """Ranges, lists of classes, objectives and constraints are part of the key of a recipe."""
    key, derive_key = jax.random.key(0), jax.jit(run_keys.derive_recipe_key)
    recipes_of_targets = [
        recipe_for_target(RANGE),
        recipe_for_target(Numeric(-10, 60)),
        recipe_for_target(RANGE, monotone={"on": 1}),
    ]
    recipes_of_targets += [recipe_for_target(RANGE, objective="quantile", quantile=0.9)]
    recipes_of_targets += [
        recipe_for_target(CLASSES),
        recipe_for_target(Nominal(("red", "green", "b"))),
    ]
    keys = {
        tuple(jax.random.key_data(derive_key(key, recipe)).tolist())
        for recipe in recipes_of_targets
    }
    assert len(keys) == len(recipes_of_targets)


def test_finite_bits_are_paid_for_each_sum_that_a_row_moves():
    """A row of K classes may move K sums of its leaf."""

    def gap(target):
        recipe = recipe_for_target(target, marginals_fraction=0.0, scores_fraction=0.0)
        (line,) = dpbt.ledger(recipe).lines
        return line.moved_outputs

    for count in (3, 200):
        assert gap(Nominal(tuple(map(str, range(count))))) == min(count, GRID)


def test_tiny_labels_and_weights_raise_nothing():
    """Nor where NumPy is set to raise, as an exception would tell of a row."""
    columns = random_columns(4)
    tiny = [1e-300, 5e-324, -1e-310, 1e308]
    with np.errstate(all="raise"):
        dpbt.table(DOMAIN, columns, tiny, target=Numeric(0, 1))
        dpbt.table(DOMAIN, columns, tiny, target=RANGE, sample_weight=tiny, max_weight=1e300)
        dpbt.table(DOMAIN, {**columns, "size": tiny}, [True] * 4, exact=True)
    for max_weight, message in ((10**400, "max_weight"), (1.0, "beyond float32")):
        weights = {True: 1e308, False: 1e-320}
        with pytest.raises(ValueError, match=message):
            dpbt.table(DOMAIN, columns, [True] * 4, max_weight=max_weight, class_weight=weights)


def test_shares_of_classes_are_probabilities_whatever_the_scores_are():
    """They are in [0, 1], and those that the model predicts."""
    rng = np.random.default_rng(0)
    ends = np.array([-np.inf, -3e38, -200, -1e-45, 0, 1e-45, 200, 3e38, np.inf], np.float32)
    for classes in (2, 40):
        any_bits = rng.integers(0, 2**32, (classes, 500), np.uint32).view(np.float32)
        usual_scores = rng.normal(0, 5, (classes, 500)).astype(np.float32)
        parts = np.where(np.isnan(any_bits), np.inf, any_bits), usual_scores
        scores = np.concatenate([*parts, rng.choice(ends, (classes, 500))], axis=1)
        shares = np.asarray(jax.jit(softmax_in_bits)(jnp.asarray(scores)))
        assert shares.min() >= 0  # and none is a NaN
        assert shares.max() <= 1
        np.testing.assert_allclose(shares.sum(axis=0), 1, rtol=1e-6)
        np.testing.assert_allclose(
            shares[:, 500:1000], softmax_in_bits(usual_scores), rtol=1e-5, atol=1e-37
        )
