"""Pictures of models."""

import dataclasses
import sys

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

import dpbt
from dpbt import effects, plot
from dpbt.__main__ import main
from dpbt.data.domains import Boolean, Nominal, Numeric
from tests.support.random_models import DOMAIN, MODELS, ROWS, columns_with_odd_cells, random_model

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def texts_of_labels(labels):
    return [label.get_text() for label in labels]


# Pictures.


def test_shapes_are_steps_between_thresholds_and_points_of_words():
    """The bin of missing or unlisted values lies apart, as the last."""
    model = MODELS["bdpe"]
    ax = plot.shape(model, DOMAIN, "age")
    values = effects.partial_dependence(model, "age", DOMAIN).values
    steps, edges, _ = ax.patches[0].get_data()
    np.testing.assert_allclose(edges, [0, 1, 2, 3, 4])
    np.testing.assert_allclose(steps, values[:-1])
    ((position, value),) = ax.lines[-1].get_xydata()
    assert value == pytest.approx(values[-1])
    assert texts_of_labels(ax.get_xticklabels()) == ["0", "20", "25.5", "60", "missing"]
    assert 4 < ax.get_xticks()[-1] == position < ax.get_xlim()[1]

    ax = plot.shape(model, DOMAIN, "job", of="probability")
    values = effects.partial_dependence(model, "job", DOMAIN, of="probability").values
    assert texts_of_labels(ax.get_xticklabels()) == ["clerk", "smith", "cook", "not listed"]
    points = np.concatenate([line.get_ydata() for line in ax.lines[1:]])
    np.testing.assert_allclose(points, values)
    assert ax.get_ylabel() == "mean probability"


def test_bars_are_the_effects_in_their_order():
    expected_effects = effects.attribute_effects(MODELS["bdpe"], DOMAIN)
    ax = plot.attributes(MODELS["bdpe"], DOMAIN, max_attributes=3)
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, [effect.deviation for effect in expected_effects[:3]])
    assert texts_of_labels(ax.get_yticklabels()) == [
        effect.attribute for effect in expected_effects[:3]
    ]
    assert ax.yaxis_inverted()
    assert "1 smaller ones are left out" in ax.get_xlabel()
    assert ax.get_title() == "bdpe: score"


def test_noise_alone_has_marks_and_bands_and_titles_name_what_is_drawn(tmp_path, monkeypatch):
    """A model that is twice as steep differs from another by all of it."""
    dpbt.save(MODELS["bdpe"], tmp_path / "m.json", domain=DOMAIN, classes=("no", "yes"))
    model = dpbt.load(tmp_path / "m.json")
    twice = model.hypotheses._replace(leaf=2 * model.hypotheses.leaf)
    twice = dataclasses.replace(model, hypotheses=twice)
    monkeypatch.setattr(effects, "models_with_fresh_noise_added", lambda _: [twice])
    ax = plot.attributes(model, data="people")
    widths = [bar.get_width() for bar in ax.patches]
    marks = [path.vertices[0, 0] for path in ax.collections[0].get_paths()]
    np.testing.assert_allclose(marks, widths, rtol=1e-5)
    assert ax.get_title() == "people, bdpe: score of yes"

    ax = plot.shape(model, attribute="age", data="people")
    *bands, line = [patch.get_data() for patch in ax.patches]
    noise = np.abs(line.values - ax.lines[0].get_ydata()[0])
    np.testing.assert_allclose(bands[1].values - line.values, noise, atol=1e-5)
    assert (ax.get_title(), ax.get_ylabel()) == ("people, bdpe", "mean score of yes")


def model_and_domain_of_target(target):
    """A model of several classes, or of a number, and the domain of its rows."""
    domain = {"size": Numeric(0, 1, bins=4), "kind": Nominal(("a", "b"), other="b")}
    settings = {"rounds": 3, "depth": 2, "rows": 60, "domain": domain, "target": target}
    recipe = dpbt.recipes.oblivious_boost(epsilon=20.0, **settings)
    return random_model(recipe, 2, domain), domain


@pytest.mark.slow
def test_several_classes_are_drawn_one_by_one_and_numbers_in_their_units():
    """Shapes are compared with the mean over all rows of the domain."""
    model, domain = model_and_domain_of_target(Nominal(("x", "y", "z")))
    every_row = np.array([[size, kind] for size in range(4) for kind in range(2)], np.uint8)
    scores = np.asarray(dpbt.decision_function(model, every_row)).reshape(4, 2, 3).mean(axis=1)
    for class_index, name in enumerate("xyz"):
        ax = plot.shape(model, domain, "size", class_=name)
        *bands, line = [patch.get_data().values for patch in ax.patches]
        np.testing.assert_allclose(line, scores[:, class_index], atol=1e-6)
        assert len(bands) == 2
        assert ax.get_ylabel() == f"mean score of {name}"
    plot.attributes(model, domain)
    for wrong_class in (None, "w", 0):
        with pytest.raises(ValueError, match="class_ must be one of"):
            plot.shape(model, domain, "size", class_=wrong_class)

    model, domain = model_and_domain_of_target(Numeric(-5, 15))
    numbers = -5 + 20 * np.asarray(dpbt.decision_function(model, every_row)).reshape(4, 2)
    ax = plot.shape(model, domain, "size")
    line = ax.patches[-1].get_data().values
    np.testing.assert_allclose(line, numbers.mean(axis=1), atol=1e-5)
    with pytest.raises(ValueError, match="no probabilities"):
        plot.shape(model, domain, "size", of="probability")
    with pytest.raises(ValueError, match="class_ is for"):
        plot.shape(model, domain, "size", class_="x")
    plot.attributes(model, domain)


def random_additive_model(target=None):
    recipe = dpbt.recipes.additive(epsilon=20.0, rows=60, domain=DOMAIN, target=target)
    return random_model(recipe, 0, DOMAIN)


@pytest.mark.parametrize(
    ("target", "class_", "scale"),
    [(None, None, 1), (Nominal(("x", "y", "z")), "y", 1), (Numeric(-5, 15), None, 20)],
    ids=["two classes", "three classes", "number"],
)
def test_an_additive_model_shows_its_own_curves_with_their_noise(target, class_, scale):
    """A band of two deviations and one of one, in the units of what is predicted."""
    model = random_additive_model(target)
    score = np.asarray(model.hypotheses.score)[0] * scale
    noise = float(model.hypotheses.noise[0]) * scale
    curve = (score if target is None or class_ is None else score[1])[0, :5]
    ax = plot.shape(model, DOMAIN, "age", class_=class_)
    *bands, line = [patch.get_data() for patch in ax.patches]
    np.testing.assert_allclose(line.values, curve[:4], rtol=1e-6)
    for band, count in zip(bands, (2, 1), strict=True):
        np.testing.assert_allclose(band.values, curve[:4] + count * noise, rtol=1e-6)
        np.testing.assert_allclose(band.baseline, curve[:4] - count * noise, rtol=1e-6)
    assert ax.lines[-1].get_ydata() == pytest.approx(curve[4:])  # of missing cells
    missing = ax.collections[0].get_paths()[0].get_extents()
    assert missing.height == pytest.approx(4 * noise)
    with pytest.raises(ValueError, match="no column 'height'"):
        plot.shape(model, DOMAIN, "height", class_=class_)


def test_all_shapes_are_drawn_from_the_one_of_the_largest_range():
    """Alike where a model has no curves of its own, but for the noise, which is not known there."""
    for model in (random_additive_model(), MODELS["bdpe"]):
        panels = plot.shapes(model, DOMAIN)
        ranges = []
        for ax in panels:
            if ax.child_axes:  # a table of the two columns of a pair
                ((inner,), (table,)) = ax.child_axes, ax.child_axes[0].collections
                assert ax.get_title() == f"{inner.get_ylabel()} and {inner.get_xlabel()}"
                assert table.get_array().shape == (5, 3)
                ranges.append(np.ptp(table.get_array()))
                continue
            alone = plot.shape(model, DOMAIN, ax.get_title())
            drawn = np.concatenate([*(line.get_ydata() for line in alone.lines[1:])])
            if alone.patches:
                drawn = np.append(drawn, alone.patches[-1].get_data().values)
            ranges.append(np.ptp(drawn))
        pairs = {"age and rank"} if model is not MODELS["bdpe"] else set()
        assert {ax.get_title() for ax in panels} == {*DOMAIN, *pairs}
        assert ranges == sorted(ranges, reverse=True)
        assert ("bands" in panels[0].figure.get_suptitle()) == (model is not MODELS["bdpe"])
        assert panels[0].get_shared_y_axes().joined(panels[0], panels[-1])
    (first,) = plot.shapes(model, DOMAIN, max_attributes=1)
    assert "(3 columns that move it less are left out)" in first.figure.get_suptitle()


def test_names_and_bins_are_no_mathematics():
    """A dollar sign is drawn as it is, and a bad formula ends no picture."""
    domain = {
        "$\\frac$": Numeric(0, 1, bins=4),
        "$x_i$": Nominal(("$\\q$", "$a_b$", "c")),
        "p": Boolean("$no$", "$\\yes$"),
    }
    recipe = dpbt.recipes.oblivious_boost(epsilon=1.0, rows=ROWS, rounds=3, depth=3, domain=domain)
    additive_recipe = dpbt.recipes.additive(epsilon=1.0, rows=ROWS, domain=domain)
    model, additive_model = (
        random_model(any_recipe, 3, domain) for any_recipe in (recipe, additive_recipe)
    )
    row = np.ones((1, 3), np.uint8)
    for ax in (
        plot.attributes(model, domain, data="$\\of$"),
        plot.shape(model, domain, "$x_i$", data="$\\of$"),
        plot.shapes(model, domain, data="$\\of$")[0],
        plot.shapes(additive_model, domain)[0],
        plot.contributions(model, row, domain=domain, data="$\\of$"),
    ):
        ax.figure.canvas.draw()
    labels = texts_of_labels(plot.shape(model, domain, "p").get_xticklabels())
    assert sorted(labels) == ["$\\yes$", "$no$"]


# What is refused, and what is not needed.


def test_plots_refuse_invalid_arguments(tmp_path):
    model = MODELS["bdpe"]
    dpbt.save(model, tmp_path / "bare.json")
    model_without_domain = dpbt.load(tmp_path / "bare.json")
    model_of_exact_numbers = dataclasses.replace(model, splits=None)
    table = dpbt.table(DOMAIN, columns_with_odd_cells(0), np.arange(ROWS) % 2 == 0)
    other_domain = {**DOMAIN, "age": Numeric(0, 100, bins=9)}
    for plotted, domain, message in (
        (model, other_domain, "other splits"),
        (model_of_exact_numbers, DOMAIN, "exact numbers"),
        (
            model_without_domain,
            None,
            "the model has no domain of its own; give that of its rows as domain=",
        ),
        (table, DOMAIN, "expected a model"),
    ):
        with pytest.raises(ValueError, match=message):
            plot.shape(plotted, domain, "age")
    for wrong_columns in ((), ("age", "age"), ("age", "job", "rank")):
        with pytest.raises(ValueError, match="the names of one column, or of two"):
            effects.partial_dependence(model, wrong_columns, DOMAIN)
    for attribute, message in (
        ("height", "no column 'height', it has"),
        (("age", "job"), "one col"),
    ):
        with pytest.raises(ValueError, match=message):
            plot.shape(model, DOMAIN, attribute)


def test_tests_of_a_false_claim_are_above_its_line():
    common = {"confidence": 0.95, "runs": 40, "where": "a draw"}
    curve = np.array([[0.01, 0.5], [0.1, 0.9], [0.5, 0.4]])  # the last is worse than guessing
    bound = dpbt.audit.Bound("grey box", (1.0, 0.0), 3.9, 2.3, curve=curve, **common)
    line, _, points = plot.audit_roc([bound]).lines
    wrong, right = points.get_data()
    np.testing.assert_array_equal(wrong, [0.01, 0.1])
    assert np.all(right > np.interp(wrong, *line.get_data()))
    with pytest.raises(ValueError, match="at least one audit"):
        plot.audit_roc([])


def test_drawing_without_matplotlib_names_the_extra(monkeypatch):
    for name in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'dpbt\[figures\]'"):
        plot.attributes(MODELS["bdpe"], DOMAIN)


def test_the_command_draws_the_attributes_or_a_shape(tmp_path, capsys):
    model_path, picture = tmp_path / "model.json", tmp_path / "age.png"
    dpbt.save(MODELS["bdpe"], model_path, domain=DOMAIN)
    for options in (["--shape", "age"], ["--force"], ["--shapes", "--force"]):
        assert main(["plot", str(model_path), "--out", str(picture), *options]) == 0
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert capsys.readouterr().out == f"wrote {picture}\n"
    both_shapes = ["--shape", "age", "--shapes"]
    for out, options in (("a.png", ["--shape", "height"]), ("a.word", []), ("a.png", both_shapes)):
        assert main(["plot", str(model_path), "--out", str(tmp_path / out), *options]) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"model.json", "age.png"}
