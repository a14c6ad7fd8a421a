"""What each column adds to a score: Shapley values by brute force, and their axioms."""

import dataclasses
import itertools
import math
import subprocess
import sys
from typing import NamedTuple

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.__main__ import main
from dpbt.data.column_types import response_of_target
from dpbt.data.domains import Boolean, Nominal, Numeric
from dpbt.models.contributions import ROW_IS_SHOWN
from tests.support import ROOT
from tests.support.random_models import (
    DOMAIN,
    EVERY_ROW,
    MODELS,
    N_BINS,
    SavedModels,
    random_model,
)

matplotlib.use("Agg")

SUMS_OF_TREES = ("bdpe", "oblivious", "forest", "rules", "trees")
FEW_ROWS = EVERY_ROW[:: len(EVERY_ROW) // 7]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def saved_models(tmp_path_factory):
    return SavedModels(tmp_path_factory.mktemp("models"))


def oblivious_model(target=None, domain=DOMAIN, **options):
    recipe = recipes.oblivious_boost(
        epsilon=5.0, rows=60, rounds=5, depth=4, domain=domain, target=target, **options
    )
    return random_model(recipe, min(4, len(domain)), domain)


def additive_model(target=None, pairs=None):
    options = {"pairs": pairs, "resolutions": (2, 4)} if pairs else {}
    recipe = recipes.additive(epsilon=5.0, rows=6000, domain=DOMAIN, target=target, **options)
    return random_model(recipe, 0, DOMAIN)


def skewed_background():
    rng = np.random.default_rng(1)
    return {name: rng.random(count) + 0.05 for name, count in zip(DOMAIN, N_BINS, strict=True)}


class ShapleyValues(NamedTuple):
    """Shapley values of rows.

    Attributes:
        base: the mean score over the background.
        values: the contribution of each column to the score of each row.
    """

    base: np.ndarray
    values: np.ndarray


def shapley_values_by_brute_force(model, rows, background):
    """Base and Shapley values over all subsets of columns, from the scores of every row."""
    scores = np.asarray(dpbt.decision_function(model, EVERY_ROW), np.float64)
    tensor = scores.reshape(*N_BINS, *scores.shape[1:])
    shares = [np.ones(num_bins) / num_bins for num_bins in N_BINS]
    for index, name in enumerate(DOMAIN):
        if background is not None:
            shares[index] = background[name] / np.sum(background[name])
    num_columns = len(N_BINS)

    def value(row, columns):
        mean_scores = tensor
        for index in range(num_columns):
            if index in columns:
                mean_scores = mean_scores[row[index]]
            else:
                mean_scores = np.tensordot(shares[index], mean_scores, 1)
        return mean_scores

    values = []
    for row in rows:
        row_values = []
        for column in range(num_columns):
            other_columns = [index for index in range(num_columns) if index != column]
            total = 0.0
            for size in range(num_columns):
                weight = math.factorial(size) * math.factorial(num_columns - size - 1)
                for columns in itertools.combinations(other_columns, size):
                    gain = value(row, (*columns, column)) - value(row, columns)
                    total = total + weight / math.factorial(num_columns) * gain
            row_values.append(total)
        values.append(row_values)
    return ShapleyValues(value(rows[0], ()), np.array(values))


@pytest.mark.parametrize("name", SUMS_OF_TREES)
@pytest.mark.parametrize("is_uniform", [True, False])
def test_trees_have_the_shapley_values_of_all_subsets(saved_models, name, is_uniform):
    background = None if is_uniform else skewed_background()
    base, values = shapley_values_by_brute_force(saved_models[name], FEW_ROWS, background)
    for model in (saved_models[name], MODELS[name]):
        contributions = model.contributions(FEW_ROWS, domain=DOMAIN, background=background)
        np.testing.assert_allclose(contributions.base, base, atol=1e-6)
        np.testing.assert_allclose(contributions.values, values, atol=1e-6)
        assert contributions.columns == tuple((column,) for column in DOMAIN)


@pytest.mark.parametrize(
    "target", [Nominal(("x", "y", "z")), Numeric(-5, 20)], ids=["classes", "number"]
)
@pytest.mark.parametrize("make_model", [oblivious_model, additive_model])
def test_classes_and_numbers_are_explained_in_their_units(make_model, target):
    model = make_model(target)
    base, values = shapley_values_by_brute_force(model, FEW_ROWS, None)
    contributions = model.contributions(FEW_ROWS, domain=DOMAIN)
    explained_values = contributions.values
    # The one pair of an additive model is an entry of its own, which has a part of two columns.
    if make_model is additive_model:
        explained_values, values = explained_values.sum(axis=1), values.sum(axis=1)
    scale, offset = (25, -5) if isinstance(target, Numeric) else (1, 0)
    np.testing.assert_allclose(contributions.base, offset + scale * base, atol=1e-5)
    np.testing.assert_allclose(explained_values, scale * values, atol=1e-5)
    scores = np.asarray(dpbt.decision_function(model, FEW_ROWS))
    np.testing.assert_allclose(contributions.scores, offset + scale * scores, atol=1e-5)
    if isinstance(target, Nominal):
        assert contributions.values.shape[2] == response_of_target(target).num_classes
        row_of_class = contributions.of_row(0, "y")
        assert "score of y" in str(row_of_class)
        np.testing.assert_allclose(
            sorted(row_of_class.values), sorted(contributions.values[0, :, 1]), atol=1e-12
        )
        with pytest.raises(ValueError, match="class_ must be one of"):
            contributions.of_row(0)
    else:
        with pytest.raises(ValueError, match="several classes"):
            contributions.of_row(0, "y")


@pytest.mark.parametrize("name", SUMS_OF_TREES)
def test_contributions_and_the_base_add_up_to_the_score(name):
    model = MODELS[name]
    contributions = model.contributions(EVERY_ROW, domain=DOMAIN)
    scores = np.asarray(dpbt.decision_function(model, EVERY_ROW), np.float64)
    np.testing.assert_allclose(
        contributions.base + contributions.values.sum(axis=1), scores, atol=1e-5
    )
    np.testing.assert_allclose(contributions.base, scores.mean(), atol=1e-6)
    # The mean of a column's contributions over the background is 0.
    np.testing.assert_allclose(contributions.values.mean(axis=0), 0, atol=1e-6)


def test_a_column_that_no_tree_reads_adds_exactly_nothing():
    domain_with_unread_column = {**DOMAIN, "unread": Numeric(0, 1, bins=3)}
    model = oblivious_model(domain=DOMAIN)
    splits = dpbt.domains.splits(domain_with_unread_column)
    padded = dpbt.Model(
        hypotheses=model.hypotheses,
        intercept=model.intercept,
        transcript=None,
        recipe=model.recipe,
        splits=splits,
        features=len(domain_with_unread_column),
        dtype="uint8",
    )
    rows = np.column_stack([FEW_ROWS, np.arange(len(FEW_ROWS)) % 3]).astype(np.uint8)
    contributions = padded.contributions(rows, domain=domain_with_unread_column)
    assert not contributions.values[:, -1].any()
    np.testing.assert_allclose(
        contributions.values[:, :-1],
        model.contributions(FEW_ROWS, domain=DOMAIN).values,
        atol=1e-12,
    )
    assert "1 more add nothing" in str(contributions.of_row(0))


def test_columns_that_a_tree_treats_alike_add_alike():
    """The columns are of one kind, in a tree whose leaves count the answers."""
    twins = {"a": Boolean(), "b": Boolean(), "c": Boolean()}
    model = oblivious_model(domain=twins)
    features = np.tile(np.arange(3, dtype=np.int32), (5, 1))
    right = np.zeros((5, 3, 256), bool)
    right[:, :, 1] = True
    leaf = np.array([0, 1, 1, 3, 1, 3, 3, 7], np.float32) * np.ones((5, 1), np.float32)
    trees = model.hypotheses._replace(feature=features, right=right, leaf=leaf, noise=leaf)
    model = dpbt.Model(
        hypotheses=trees,
        intercept=model.intercept,
        transcript=None,
        recipe=model.recipe,
        splits=model.splits,
        features=3,
        dtype="uint8",
    )
    rows = np.array(list(itertools.product((0, 1), repeat=3)), np.uint8)
    contributions = model.contributions(rows, domain=twins)
    for row, values in zip(rows, contributions.values, strict=True):
        for first, second in itertools.combinations(range(3), 2):
            if row[first] == row[second]:
                assert values[first] == pytest.approx(values[second], abs=1e-12)
            else:
                assert (values[first] > values[second]) == (row[first] > row[second])


def test_curves_and_pairs_are_entries_of_their_own():
    model = additive_model(pairs=[("age", "rank")])
    background = skewed_background()
    contributions = model.contributions(FEW_ROWS, domain=DOMAIN, background=background)
    assert contributions.columns == (*((name,) for name in DOMAIN), ("age", "rank"))
    score = np.asarray(model.hypotheses.score, np.float64)[0]
    for index, name in enumerate(DOMAIN):
        curve = score[index, : N_BINS[index]]
        mean = curve @ background[name] / np.sum(background[name])
        expected = curve[FEW_ROWS[:, index]] - mean
        np.testing.assert_allclose(contributions.values[:, index], expected, atol=1e-6)
    scores = np.asarray(dpbt.decision_function(model, FEW_ROWS))
    np.testing.assert_allclose(contributions.scores, scores, atol=1e-5)
    deviation = float(model.hypotheses.noise[0])
    assert np.all((contributions.noise > 0) & (contributions.noise < 1.5 * deviation))


@pytest.mark.parametrize("target", [None, Nominal(("x", "y", "z"))], ids=["two", "three"])
def test_bands_are_the_deviation_of_correlated_leaves(target):
    """A contribution is linear in the leaves, so its variance follows from those of one leaf."""
    model = oblivious_model(target)
    trees, rows = model.hypotheses, FEW_ROWS[:2]
    contributions = model.contributions(rows, domain=DOMAIN)
    (count, depth), smoothing = trees.feature.shape, float(trees.smoothing[0])
    leaves = np.arange(2**depth)
    different = np.bitwise_count(leaves[:, None] ^ leaves)
    root = smoothing**different / (1 + smoothing**2) ** (depth / 2)
    variances = 0.0
    for tree in range(count):
        by_leaf = []
        for leaf in leaves:
            unit = np.zeros(np.shape(trees.leaf), np.float32)
            unit[tree, ..., leaf] = np.asarray(trees.noise)[tree, ..., leaf]
            model_of_unit_leaf = dataclasses.replace(model, hypotheses=trees._replace(leaf=unit))
            by_leaf.append(model_of_unit_leaf.contributions(rows, domain=DOMAIN).values)
        weights = np.moveaxis(by_leaf, 0, -1)
        variances = variances + np.sum((weights @ root) ** 2, axis=-1)
    np.testing.assert_allclose(contributions.noise, np.sqrt(variances), rtol=1e-5)


def test_a_file_without_noise_has_no_bands(tmp_path):
    model = oblivious_model()
    model_without_noise = dpbt.Model(
        hypotheses=model.hypotheses._replace(noise=0 * model.hypotheses.noise),
        intercept=model.intercept,
        transcript=None,
        recipe=model.recipe,
        splits=model.splits,
        features=model.features,
        dtype="uint8",
    )
    contributions = model_without_noise.contributions(FEW_ROWS, domain=DOMAIN)
    assert contributions.noise is None
    assert "not known" in str(contributions.of_row(0))


def test_models_and_backgrounds_without_exact_contributions_are_refused(saved_models):
    columns = {"age": [30], "job": ["cook"], "rank": ["low"], "member": ["yes"]}
    with pytest.raises(ValueError, match="neither a sum of trees nor one of curves"):
        saved_models["halfspace"].contributions(columns)
    exact = random_model(
        recipes.random_forest(epsilon=1.0, rows=60, rounds=2, depth=2), 2, DOMAIN, exact=True
    )
    with pytest.raises(ValueError, match="exact numbers"):
        exact.contributions(FEW_ROWS.astype(np.float32), domain=DOMAIN)
    without_domain = random_model(recipes.bdpe(epsilon=1.0, rows=60), 2, DOMAIN)
    with pytest.raises(ValueError, match="no domain of its own; give that of its rows as domain="):
        without_domain.contributions(FEW_ROWS)
    for background, message in (
        ({"height": [1]}, "no column 'height'"),
        ({"job": [1, 1]}, "must be 4 shares"),
        ({"job": [0, 0, 0, 0]}, "must be 4 shares"),
        ({"job": [1, -1, 1, 1]}, "must be 4 shares"),
    ):
        with pytest.raises(ValueError, match=message):
            saved_models["bdpe"].contributions(columns, background=background)
    contributions = saved_models["bdpe"].contributions(columns)
    for row in (1, -1, "0"):
        with pytest.raises(ValueError, match="row must be"):
            contributions.of_row(row)


def test_explanations_name_the_cells_of_a_row_and_their_repr_hides_them(saved_models):
    columns = {"age": [22], "job": ["cook"], "rank": ["low"], "member": [None]}
    contributions = saved_models["oblivious"].contributions(columns)
    assert "cook" not in repr(contributions)
    text = str(contributions.of_row())
    for part in ("age", "> 20, <= 25.5", "cook", "missing", "+-"):
        assert part in text
    assert contributions.of_row()._repr_html_().startswith("<pre>")
    assert "&lt;= 25.5" in contributions.of_row()._repr_html_()


def test_the_lowest_bin_of_a_row_may_hold_a_missing_cell(tmp_path):
    """A column that is not declared to have missing cells has them in its lowest bin."""
    domain = {
        "age": Numeric(0, 100, bins=4),
        "dose": Numeric(0, 1, bins=2, missing=True),
        "member": Boolean("yes", "no"),
        "job": Nominal(("a", "b")),
    }
    dpbt.save(oblivious_model(domain=domain), tmp_path / "m.json", domain=domain)
    model = dpbt.load(tmp_path / "m.json")
    columns = {"age": [None, 90], "dose": [None, 0], "member": [None, "yes"], "job": [None, "a"]}
    contributions = model.contributions(columns)
    cells = [contributions.of_row(row).cells for row in (0, 1)]
    cell_by_column = [
        dict(zip(contributions.of_row(row).names, cells[row], strict=True)) for row in (0, 1)
    ]
    assert cell_by_column[0]["age"] == "<= 25 or missing"
    assert cell_by_column[0]["member"] == "no or missing"
    assert cell_by_column[0]["dose"] == "missing"
    assert cell_by_column[1] == {"age": "> 75", "dose": "<= 0.5", "member": "yes", "job": "a"}


def test_the_command_explains_a_row_without_jax(saved_models, tmp_path):
    saved_models["oblivious"]
    rows = tmp_path / "rows.csv"
    rows.write_text("age,job,rank,member\n22,cook,low,yes\n70,smith,mid,\n")
    model = str(saved_models.path("oblivious"))
    program = (
        "import sys\n"
        "from dpbt.__main__ import main\n"
        f"status = main(['explain', {model!r}, '--row', '2', {str(rows)!r}])\n"
        "sys.exit(status or ('jax' in sys.modules))"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr
    columns = {"age": [70], "job": ["smith"], "rank": ["mid"], "member": [None]}
    expected = str(saved_models["oblivious"].contributions(columns).of_row())
    assert expected in completed.stdout
    assert completed.stdout.startswith(f"row 2 of {rows}: class ")
    assert completed.stdout.endswith(f"{ROW_IS_SHOWN}\n")


def test_the_command_refuses_rows_that_are_not_there(saved_models, tmp_path, capsys):
    saved_models["oblivious"]
    rows, model = tmp_path / "rows.csv", str(saved_models.path("oblivious"))
    rows.write_text("age,job,rank,member\n22,cook,low,yes\n")
    assert main(["explain", model, "--class", "yes"]) == 2
    assert "--class is for one row, which --row names" in capsys.readouterr().err
    for arguments, reason in (
        (["--row", "2", str(rows)], "there is no row 2"),
        (["--row", "0", str(rows)], "must be a number from 1"),
        (["--row", "1", str(rows), "--class", "x"], "several classes"),
        (["--row", "1", str(rows), "--trees", "1"], "not for one row"),
        (["--row", "1", str(tmp_path / "none.csv")], "No such file"),
    ):
        assert main(["explain", model, *arguments]) == 2
        assert reason in capsys.readouterr().err
    out = tmp_path / "row.png"
    assert main(["plot", model, "--row", "1", str(rows), "--out", str(out)]) == 0
    assert out.stat().st_mode & 0o777 == 0o600
    arguments_of_two_pictures = [
        "--row",
        "1",
        str(rows),
        "--shapes",
        "--out",
        str(tmp_path / "both.png"),
    ]
    assert main(["plot", model, *arguments_of_two_pictures]) == 2


def test_a_picture_has_a_bar_for_each_contribution(saved_models):
    columns = {"age": [22], "job": ["cook"], "rank": ["low"], "member": [None]}
    model = saved_models["oblivious"]
    of_row = model.contributions(columns).of_row()
    ax = dpbt.plot.contributions(model, columns, data="$\\frac$")
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], of_row.values)
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == [f"{n}: {c}" for n, c in zip(of_row.names, of_row.cells, strict=True)]
    assert f"{of_row.score:.3g} for this row" in ax.get_title()
    ax.figure.canvas.draw()
    ax = dpbt.plot.contributions(model, columns, max_columns=2)
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, [of_row.values[0], of_row.values[1:].sum()])
    assert ax.get_yticklabels()[-1].get_text() == "3 others together"
    with pytest.raises(ValueError, match="at least 2"):
        dpbt.plot.contributions(model, columns, max_columns=1)


def test_shap_finds_the_same_values(saved_models):
    """The steps of docs/pictures.md agree with a library that is independent of dpbt."""
    shap = pytest.importorskip("shap")
    model = saved_models["oblivious"]
    explainer = shap.Explainer(
        lambda bins: np.asarray(model.decision_function(bins.astype(np.uint8))),
        shap.maskers.Independent(EVERY_ROW, max_samples=len(EVERY_ROW)),
        algorithm="exact",
    )
    shap_values = explainer(FEW_ROWS)
    contributions = model.contributions(FEW_ROWS)
    np.testing.assert_allclose(shap_values.values, contributions.values, atol=1e-5)
    np.testing.assert_allclose(shap_values.base_values, contributions.base, atol=1e-5)
    names = [" and ".join(columns) for columns in contributions.columns]
    explanation = shap.Explanation(
        contributions.values,
        np.full(len(contributions.values), contributions.base),
        contributions.bins,
        feature_names=names,
    )
    shap.plots.waterfall(explanation[0], show=False)
