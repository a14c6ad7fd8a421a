"""Pictures of models: what is drawn is what an average over every row of the domain gives."""

import csv
import dataclasses
import inspect
import itertools
import subprocess
import sys
from pathlib import Path

import jax
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

import dpbt
from dpbt import __main__ as command_line
from dpbt import plot, recipes
from dpbt.analysis import boxes, column_axis, effects, tree_picture
from dpbt.analysis.boxes import TreeSum
from dpbt.base import HypothesisClass
from dpbt.data.domains import Boolean, Nominal, Numeric, Predicate
from dpbt.data.questions import same
from dpbt.learners import rules
from dpbt.reader import ObliviousTrees

ROOT = Path(__file__).parent.parent
matplotlib.use("Agg")

DOMAIN = {
    "age": Numeric(0, 100, cuts=(20, 25.5, 60), missing=True),
    "job": Nominal(("clerk", "smith", "cook")),
    "rank": Nominal(("low", "mid", "top"), other="top", ordered=True),
    "member": Boolean("yes", "no", missing=True),
}
ROWS = 60
COMMON = {"epsilon": 5.0, "rows": ROWS, "rounds": 3}
MADE = {
    "bdpe": lambda: recipes.bdpe(**COMMON, depth=3, criterion="gini"),
    "oblivious": lambda: recipes.oblivious_boost(**COMMON, domain=DOMAIN, depth=3),
    "forest": lambda: recipes.random_forest(**COMMON, depth=4),
    "parts": lambda: recipes.random_forest(**COMMON, depth=3, disjoint=True),
    "rules": lambda: recipes.lazybb_rules(**COMMON, density=0.5),
    "trees": lambda: recipes.lazybb_trees(**COMMON, density=0.5, depth=2, splits=2),
    "halfspace": lambda: recipes.halfspace_boost(**COMMON, delta=1e-4),
}
SLOW = ("trees",)
"""Their hypotheses are of a kind that another model has, too."""


def every(*names):
    """Parameters of these names."""
    return [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in names]


TREES = tuple(name for name in MADE if name != "halfspace")
VOTES = {"rules", "trees", "halfspace"}
"""Models whose scores define no probability."""

CELLS = [column.cells for column in DOMAIN.values()]
EVERY = np.array(list(itertools.product(*map(range, CELLS))), np.uint8)


def columns_of(seed):
    rng = np.random.default_rng(seed)
    return {
        "age": np.where(rng.random(ROWS) < 0.2, np.nan, rng.uniform(0, 100, ROWS)),
        "job": rng.choice(["clerk", "smith", "cook", "zebra"], ROWS),
        "rank": rng.choice(["low", "mid", "top"], ROWS),
        "member": rng.choice(["yes", "no", ""], ROWS),
    }


class Models(dict):
    """Name -> model, which is fitted when it is first asked for."""

    def __missing__(self, name):
        columns = columns_of(0)
        labels = (np.nan_to_num(columns["age"], nan=50) > 40) ^ (columns["job"] == "cook")
        table = dpbt.table(DOMAIN, columns, labels)
        self[name] = dpbt.fit(jax.random.key(0), table, MADE[name](), jax.random.key(1))
        return self[name]


class Saved(dict):
    """Name -> model of a file."""

    def __init__(self, models, folder):
        self.models, self.folder = models, folder

    def __missing__(self, name):
        self.models[name].save(self.path(name), domain=DOMAIN)
        self[name] = dpbt.load(self.path(name))
        return self[name]

    def path(self, name):
        return self.folder / f"{name}.json"


@pytest.fixture(scope="module")
def models():
    return Models()


@pytest.fixture(scope="module")
def saved(models, tmp_path_factory):
    return Saved(models, tmp_path_factory.mktemp("models"))


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def asked(model, of="score"):
    """What the model says of every row of the domain."""
    ask = dpbt.decision_function if of == "score" else dpbt.predict_proba
    return np.asarray(ask(model, EVERY), np.float64)


def mean_by(columns, values):
    """The mean over all rows of the domain with given cells, row by row."""
    sums = np.zeros([CELLS[column] for column in columns])
    counts = np.zeros_like(sums)
    for row, value in zip(EVERY, values, strict=True):
        place = tuple(row[column] for column in columns)
        sums[place] += value
        counts[place] += 1
    return sums / counts


def total_effects(values):
    """Name -> mean over the other cells of the variance over this one's, row by row."""
    found = {}
    for column, name in enumerate(DOMAIN):
        alike = {}
        for row, value in zip(EVERY, values, strict=True):
            alike.setdefault(tuple(np.delete(row, column)), []).append(value)
        found[name] = np.mean([np.var(group) for group in alike.values()])
    return found


@pytest.mark.parametrize("name", every(*MADE))
def test_partial_dependence_is_the_mean_over_every_row(models, name):
    model = models[name]
    for of in ("score",) if name in VOTES else effects.OF:
        values = asked(model, of)
        assert np.ptp(values) > 0
        for columns in ([0], [1], [2], [3], [0, 1], [3, 2]):
            names = [list(DOMAIN)[column] for column in columns]
            found = plot.partial_dependence(model, names, DOMAIN, of=of)
            assert found.attributes == tuple(names)
            np.testing.assert_allclose(found.values, mean_by(columns, values), atol=2e-6)
            assert not found.error.any()
    if name in VOTES:
        with pytest.raises(ValueError, match="defines no probability"):
            plot.partial_dependence(model, "age", DOMAIN, of="probability")


@pytest.mark.parametrize("name", every(*MADE))
def test_effects_are_variances_over_every_row(models, saved, name):
    found = plot.attribute_effects(models[name], DOMAIN)
    expected = total_effects(asked(models[name]))
    assert max(expected.values()) > 0
    for effect in found:
        np.testing.assert_allclose(
            effect.variance, expected[effect.attribute], rtol=1e-5, atol=1e-9
        )
        assert effect.error == 0
        assert effect.deviation == pytest.approx(effect.variance**0.5)
    variances = [effect.variance for effect in found]
    assert variances == sorted(variances, reverse=True)
    assert len(found) == len(DOMAIN)
    for own, other in zip(found, plot.attribute_effects(saved[name]), strict=True):
        assert own.variance == pytest.approx(other.variance, rel=1e-5, abs=1e-9)


def test_an_attribute_that_no_tree_reads_has_no_effect(models):
    found = {e.attribute: e.variance for e in plot.attribute_effects(models["rules"], DOMAIN)}
    reads = set(
        models["rules"].questions.feature[models["rules"].hypotheses.split.ravel()].tolist()
    )
    unread = [name for number, name in enumerate(DOMAIN) if number not in reads]
    assert unread
    assert all(found[name] == 0 for name in unread)


@pytest.mark.parametrize("name", ["oblivious", "halfspace"])
def test_drawn_rows_estimate_effects_and_tell_their_error(models, name, monkeypatch):
    exact = {e.attribute: e.variance for e in plot.attribute_effects(models[name], DOMAIN)}
    monkeypatch.setattr(effects, "WHOLE", 0)
    first, second = (plot.attribute_effects(models[name], DOMAIN) for _ in range(2))
    assert first == second
    for effect in first:
        assert abs(effect.variance - exact[effect.attribute]) < 5 * effect.error + 1e-12
    largest = first[0]
    assert 2 * largest.variance - exact[largest.attribute] > 5 * largest.error  # rejects a factor 2


def test_drawn_rows_estimate_means_and_tell_their_error(models):
    model = models["halfspace"]
    exact = plot.partial_dependence(model, "rank", DOMAIN)
    found = plot.partial_dependence(model, "rank", DOMAIN, draws=40)  # of 60
    assert np.all(found.error > 0)
    assert np.all(np.abs(found.values - exact.values) < 5 * found.error)
    assert np.all(found.error < np.ptp(asked(model)) / 10)
    pair = plot.partial_dependence(model, ("rank", "job"), DOMAIN, draws=2)
    assert pair.values.shape == pair.error.shape == (3, 4)


def test_a_hypercube_has_each_cell_equally_often():
    rows = effects._hypercube(np.random.default_rng(0), [2, 3, 256], 768)
    for column, cells in enumerate((2, 3, 256)):
        assert np.unique(np.bincount(rows[:, column], minlength=cells)).tolist() == [768 // cells]


def test_parts_of_boxes_add_up(models, monkeypatch):
    whole = plot.partial_dependence(models["forest"], ("age", "job"), DOMAIN).values
    monkeypatch.setattr(boxes, "_LARGEST", 60)
    parts = plot.partial_dependence(models["forest"], ("age", "job"), DOMAIN).values
    np.testing.assert_allclose(parts, whole, atol=1e-12)


def test_leaves_may_have_an_axis_of_classes(models):
    trees = boxes.of_model(models["bdpe"], "score")
    assert trees is not None
    several = np.stack([trees.leaf, -2 * trees.leaf], axis=-1)
    for chosen in ([0], [0, 2]):
        one = boxes.means(trees._replace(start=0.0), CELLS, chosen)
        two = boxes.means(TreeSum(trees.depth, trees.ask, several, 0.0), CELLS, chosen)
        np.testing.assert_allclose(two, np.stack([one, -2 * one], axis=-1), atol=1e-12)


@pytest.mark.parametrize("name", every(*MADE))
def test_saved_models_say_the_same_and_carry_their_domain(models, saved, name):
    for attribute in ("age", ("age", "job")):
        own = plot.partial_dependence(models[name], attribute, DOMAIN).values
        again = plot.partial_dependence(saved[name], attribute).values
        np.testing.assert_allclose(again, own, atol=1e-5)
    if name in TREES:
        words = [text.get_text() for text in plot.tree(models[name], DOMAIN).texts]
        assert [text.get_text() for text in plot.tree(saved[name]).texts] == words


# Pictures.


@pytest.mark.parametrize("name", every(*TREES))
def test_a_tree_has_the_words_and_leaves_of_its_rules(models, name):
    model = models[name]
    drawn = plot.tree(model, DOMAIN, 1)
    texts = [text.get_text().replace("\n", " ") for text in drawn.texts]
    said = dpbt.explain(model, DOMAIN).split("\ntree 2\n")
    if len(said) == 1:  # it splits no rows
        assert len(texts) == 1
        assert is_number(texts[0])
        return
    words = said[1].split("\ntree ")[0]
    block = words.split("\nleft out")[0].splitlines()
    leaves = [text for text in texts if is_number(text)]
    questions = [text for text in texts if not is_number(text)]
    if name == "oblivious":
        said = [line.split(": ")[1] for line in block]
        assert set(texts) <= {words.removeprefix("add ") for words in said}
        assert questions == [words for words in said if not words.startswith("add ")]
    else:
        said = [line.split()[-1] for line in block if line.split()[0] in ("add", "share")]
        assert sorted(leaves) == sorted(said)
        said = [line.strip()[3:-1] for line in block if line.strip().startswith("if ")]
        assert sorted(questions) == sorted(said)
    dashes = [line.get_linestyle() for line in drawn.lines if len(line.get_xdata()) == 2]
    assert len(dashes) == 2 * (len(leaves) - 1)
    assert dashes.count("-") == len(leaves) - 1  # as many for yes as for no


def is_number(text):
    return text.lstrip("+-").replace(".", "").isdigit()


def test_branches_that_no_row_reaches_are_not_drawn():
    """The third question is whether age is above 20, which the first has answered."""
    right = np.zeros((1, 3, 256), bool)
    right[0, 0, 2:4] = right[0, 1, 1] = right[0, 2, 1:4] = True
    leaf = np.arange(1, 9, dtype=np.float32)[None]
    trees = ObliviousTrees(np.array([[0, 1, 0]], np.int32), right, leaf)
    branch = rules.branch_of("oblivious trees", trees, DOMAIN, 0)
    levels = [each.predicate for each in rules.questions_of_tree(trees, DOMAIN, 0)]
    spots = tree_picture.layout(branch, asked=levels)
    ends = [spot for spot in spots if spot.column is None]
    # Not 5 and 7: above 25.5 is above 20.
    assert [float(spot.words) for spot in ends] == [1, 2, 3, 4, 6, 8]
    assert [spot.x for spot in ends] == [0, 1, 2, 3, 4, 5]
    assert {spot.level for spot in ends} == {3}
    assert [(s.words, s.level, s.x) for s in spots if s.column is not None] == [
        ("age > 25.5", 0, (1.5 + 4.5) / 2),
        ("job in {smith}", 1, 1.5),
        ("age > 20", 2, 0.5),
        ("age > 20", 2, 2.5),
        ("job in {smith}", 1, 4.5),
    ]
    for spot in spots[1:]:
        above = spots[spot.parent]
        assert spot.level > above.level
        assert (spot.x > above.x) == spot.yes

    cut = tree_picture.layout(branch, 2, levels)
    said = [spot.words for spot in cut if spot.column is None]
    assert said == ["2 leaves", "2 leaves", "+6.0000", "+8.0000"]
    assert max(spot.level for spot in cut) == 2


def deep(levels):
    if levels == 0:
        return 0.5
    return Predicate("age", "age > 20", "age <= 20"), deep(levels - 1), -0.5


def test_a_picture_has_room_for_so_many_leaves():
    assert len(tree_picture.layout(deep(63))) == 127
    with pytest.raises(ValueError, match=r"65 leaves.*room for 64: show fewer levels"):
        tree_picture.layout(deep(64))
    spots = tree_picture.layout(deep(64), 2)
    assert [spot.words for spot in spots if spot.column is None] == [
        "-0.5000",
        "-0.5000",
        "63 leaves",
    ]
    words = Predicate("x", " ".join(["word"] * 40), "")
    assert tree_picture.wrapped(words).count("\n") == 3
    assert tree_picture.wrapped(words).endswith("\n...")


def test_shapes_are_steps_over_the_cut_points_and_points_of_words(models):
    model = models["bdpe"]
    ax = plot.shape(model, DOMAIN, "age")
    (steps,) = ax.patches
    drawn, edges, _ = steps.get_data()
    values = plot.partial_dependence(model, "age", DOMAIN).values
    np.testing.assert_allclose(edges, [0, 20, 25.5, 60, 100])
    np.testing.assert_allclose(drawn, values[:-1])
    missing = ax.lines[-1].get_xydata()
    assert missing[0, 0] > 100
    assert missing[0, 1] == pytest.approx(values[-1])
    assert [text.get_text() for text in ax.get_xticklabels()][-1] == "missing"
    assert ax.get_xlim()[1] > missing[0, 0]

    ax = plot.shape(model, DOMAIN, "job", of="probability")
    values = plot.partial_dependence(model, "job", DOMAIN, of="probability").values
    words = [text.get_text() for text in ax.get_xticklabels()]
    assert words == ["clerk", "smith", "cook", "not listed"]
    points = np.concatenate([line.get_ydata() for line in ax.lines[1:]])
    np.testing.assert_allclose(points, values)
    assert ax.get_ylabel() == "mean probability"
    ax.figure.canvas.draw()


def test_a_pair_is_a_map_of_colours_around_0(models):
    ax = plot.shape(models["oblivious"], DOMAIN, ("age", "member"))
    values = plot.partial_dependence(models["oblivious"], ("age", "member"), DOMAIN).values
    meshes = ax.collections
    assert len(meshes) == 4  # ranges and cells apart
    assert sum(mesh.get_array().size for mesh in meshes) == values.size
    np.testing.assert_allclose(meshes[0].get_array(), values[:-1, :-1].T)
    np.testing.assert_allclose(meshes[3].get_array(), values[-1:, -1:])
    reach = np.abs(values).max()
    assert all(mesh.get_clim() == (-reach, reach) for mesh in meshes)
    assert ax.get_ylabel() == "member"
    ax.figure.canvas.draw()


@pytest.mark.parametrize(
    ("column", "scale", "ticks"),
    [
        (Numeric(1, 1e4, bins=4, scale="log"), "log", ["1", "10", "100", "1000", "$10^{4}$"]),
        (Numeric(0, 999, bins=3, scale="log", missing=True), "function", ["0", "1", "10", "100"]),
        (Numeric(0, 0.5, bins=3, scale="log"), "function", ["0"]),
        (Numeric(2, 5, bins=3, scale="log"), "log", ["2", "5"]),
        (Numeric(-3, 17), "linear", ["0", "5", "10", "15"]),
    ],
)
def test_axes_have_the_scale_of_the_column(column, scale, ticks):
    ax, axis = plt.subplots()[1], column_axis.axis_of(column)
    column_axis.draw_axis(ax, axis, "x")
    assert ax.get_xscale() == scale
    words = list(axis.ticks.values())
    assert words[: len(ticks)] == ticks
    low, high = ax.get_xlim()
    assert all(low < at < high for at in axis.ticks)
    assert low < column.low
    assert high > column.high
    assert (words[-1] == "missing") == column.missing
    if column.missing:
        assert column.high < axis.apart[0] < axis.middles[-1] < axis.apart[1] <= high
    ax.figure.canvas.draw()


def test_bars_are_the_effects_in_their_order(models):
    found = plot.attribute_effects(models["bdpe"], DOMAIN)
    ax = plot.attributes(models["bdpe"], DOMAIN, most=3)
    np.testing.assert_allclose(
        [bar.get_width() for bar in ax.patches], [e.deviation for e in found[:3]]
    )
    assert [text.get_text() for text in ax.get_yticklabels()] == [e.attribute for e in found[:3]]
    assert ax.yaxis_inverted()
    assert "1 smaller ones are left out" in ax.get_xlabel()
    own = plt.subplots()[1]
    assert plot.attributes(models["bdpe"], DOMAIN, ax=own) is own


# Results.


def line(method, epsilon, value, delta=0.0, dataset="a"):
    cell = {"dataset": dataset, "method": method, "epsilon": epsilon, "delta": delta}
    return {**cell, "auroc_mean": value, "accuracy_mean": value - 0.1}


def test_a_frontier_has_a_line_for_each_method():
    lines = [
        *(line("ours", at, 0.8 + at / 100, delta) for at in (2.0, 0.5) for delta in (0.0, 1e-6)),
        line("theirs", 0.5, 0.7),
        line("boosting", None, 0.95, None),
        line("elsewhere", 0.5, 0.6, dataset="b"),
    ]
    ax = plot.frontier(lines, dataset="a", delta=1e-6)
    drawn = {at.get_label(): at for at in ax.lines}
    assert set(drawn) == {"ours", "theirs", "boosting"}
    np.testing.assert_allclose(drawn["ours"].get_xydata(), [[0.5, 0.195], [2.0, 0.18]])
    np.testing.assert_allclose(drawn["boosting"].get_ydata(), 0.05)
    assert drawn["ours"].get_marker() != drawn["theirs"].get_marker()
    assert drawn["ours"].get_linestyle() != drawn["theirs"].get_linestyle()
    low, high = ax.get_ylim()
    assert low > high  # AUROC grows upwards
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert words == ["ours", "theirs", "boosting"]

    ax = plot.frontier(lines, measure="accuracy", dataset="a", delta=0.0, legend=False)
    np.testing.assert_allclose(ax.lines[0].get_xydata(), [[0.5, 0.295], [2.0, 0.28]])
    assert ax.get_ylim()[0] < ax.get_ylim()[1]
    ax.figure.canvas.draw()


def test_a_frontier_reads_saved_text_and_refuses_other_lines():
    with open(ROOT / "docs" / "frontier.csv", newline="") as file:
        results = list(csv.DictReader(file))
    ax = plot.frontier(results, dataset="adult", delta=5e-8)
    auto = next(at for at in ax.lines if at.get_label() == "auto")
    own = [r for r in results if (r["dataset"], r["method"]) == ("adult", "auto")]
    expected = [1 - float(r["auroc_mean"]) for r in own if r["delta"] == "5e-08"]
    np.testing.assert_allclose(auto.get_ydata(), expected)

    with pytest.raises(ValueError, match="choose a dataset and a delta"):
        plot.frontier(results)
    with pytest.raises(ValueError, match="no line of results"):
        plot.frontier(results, dataset="none")
    with pytest.raises(ValueError, match="lacks the column 'auroc_mean'"):
        plot.frontier([{"method": "x", "epsilon": 1, "delta": 0}])
    with pytest.raises(ValueError, match="epsilon must be a number"):
        plot.frontier([line("x", "one", 0.5)])
    with pytest.raises(ValueError, match=r"auroc_mean must be in \[0, 1\], got 1.5"):
        plot.frontier([line("x", 1.0, 1.5)])
    with pytest.raises(ValueError, match="measure must be one of"):
        plot.frontier([line("x", 1.0, 0.5)], measure="loss")


# What is refused, and what is not needed.


def test_what_is_no_tree_is_refused_by_name(models, saved):
    for model in (models["halfspace"], saved["halfspace"]):
        with pytest.raises(ValueError, match="halfspace_boost are halfspaces, and no trees"):
            plot.tree(model, DOMAIN)
    kind = models["bdpe"].recipe.learner.hypotheses
    own = HypothesisClass(kind.example, kind.check, kind.prepare, lambda h, t: h.leaf, kind.bound)
    learner = models["bdpe"].recipe.learner._replace(hypotheses=own)
    recipe = dataclasses.replace(models["bdpe"].recipe, learner=learner)
    with pytest.raises(ValueError, match="of your own, and no trees"):
        plot.tree(dataclasses.replace(models["bdpe"], recipe=recipe), DOMAIN)


def test_hypotheses_of_ones_own_have_shapes_and_effects(models):
    """They are scored, as a file of sums over leaves knows nothing of them."""
    kind = models["bdpe"].recipe.learner.hypotheses

    def doubled(tree, table):
        return 2 * kind.predict(tree, table)

    learner = models["bdpe"].recipe.learner._replace(hypotheses=kind._replace(predict=doubled))
    recipe = dataclasses.replace(models["bdpe"].recipe, learner=learner)
    own = dataclasses.replace(models["bdpe"], recipe=recipe)
    usual = plot.partial_dependence(models["bdpe"], "age", DOMAIN).values
    intercept = float(models["bdpe"].intercept)
    found = plot.partial_dependence(own, "age", DOMAIN).values
    np.testing.assert_allclose(found - intercept, 2 * (usual - intercept), atol=1e-5)


def test_bad_arguments_are_refused(models, saved, tmp_path):
    model = models["bdpe"]
    pictures = (plot.attributes, plot.tree, lambda m, d: plot.shape(m, d, "age"))
    exact = dataclasses.replace(model, questions=None)
    models["bdpe"].save(tmp_path / "bare.json")
    bare = dpbt.load(tmp_path / "bare.json")
    for draw in pictures:
        with pytest.raises(ValueError, match="other questions"):
            draw(model, {**DOMAIN, "age": Numeric(0, 100, bins=9)})
        with pytest.raises(ValueError, match="exact numbers"):
            draw(exact, DOMAIN)
        with pytest.raises(ValueError, match="a domain must map column names"):
            draw(bare, None)
        with pytest.raises(ValueError, match="expected a model"):
            draw(DOMAIN, model)
        assert draw(bare, DOMAIN) is not None
    for wrong in ((), ("age", "age"), ("age", "job", "rank")):
        with pytest.raises(ValueError, match="the names of one column, or of two"):
            plot.shape(model, DOMAIN, wrong)
    with pytest.raises(ValueError, match="no column 'height', it has"):
        plot.shape(model, DOMAIN, "height")
    with pytest.raises(ValueError, match="of must be one of"):
        plot.shape(model, DOMAIN, "age", of="odds")
    with pytest.raises(ValueError, match=r"trees 0..2, got round=3"):
        plot.tree(model, DOMAIN, 3)
    with pytest.raises(ValueError, match="round must be an integer of at least 0, got -1"):
        plot.tree(model, DOMAIN, -1)
    with pytest.raises(ValueError, match="levels must be an integer of at least 1, got 0"):
        plot.tree(model, DOMAIN, levels=0)
    with pytest.raises(ValueError, match="most must be an integer"):
        plot.attributes(model, DOMAIN, most=0)
    with pytest.raises(ValueError, match="draws must be at least 2"):
        plot.attribute_effects(model, DOMAIN, draws=1)


def test_no_function_takes_private_rows():
    public = {"model", "domain", "attribute", "attributes", "ax", "of", "draws", "most", "round"}
    public |= {"levels", "results", "measure", "dataset", "delta", "styles", "legend"}
    for name in plot.__all__:
        assert set(inspect.signature(getattr(plot, name)).parameters) <= public
    table = dpbt.table(DOMAIN, columns_of(0), np.arange(ROWS) % 2 == 0)
    with pytest.raises(ValueError, match="expected a model"):
        plot.attributes(table, DOMAIN)


def test_drawing_without_matplotlib_names_the_extra(saved, monkeypatch, tmp_path, capsys):
    assert saved["bdpe"].domain
    for name in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    for draw in (plot.attributes, plot.tree, lambda model: plot.shape(model, attribute="age")):
        with pytest.raises(ImportError, match=r"pip install 'dpbt\[figures\]'"):
            draw(saved["bdpe"])
    words = ("plot", saved.path("bdpe"), "--attributes", "--out", tmp_path / "p.png")
    status, _, err = run(capsys, *words)
    assert (status, err.count("\n")) == (2, 1)
    assert "pip install 'dpbt[figures]'" in err


@pytest.mark.slow
def test_the_module_is_imported_without_matplotlib():
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import dpbt\n"
        "line = {'method': 'm', 'epsilon': 1, 'delta': 0, 'auroc_mean': 0.9}\n"
        "try: dpbt.plot.frontier([line])\n"
        "except ImportError as error: print(error)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "pip install 'dpbt[figures]'" in done.stdout


def test_codes_have_shapes_and_no_words():
    columns = columns_of(1)
    table = dpbt.table(DOMAIN, columns, columns["job"] == "cook", codes=True)
    key, public_key = jax.random.split(jax.random.key(0))
    model = dpbt.fit(key, table, MADE["forest"](), public_key)
    assert not same(model.questions, dpbt.domains.questions(DOMAIN))
    found = plot.partial_dependence(model, "job", DOMAIN).values
    np.testing.assert_allclose(found, mean_by([1], asked(model)), atol=2e-6)
    with pytest.raises(ValueError, match="as codes have no words"):
        plot.tree(model, DOMAIN)


# The command.


def run(capsys, *words):
    status = command_line.main(list(map(str, words)))
    return status, *capsys.readouterr()


def test_the_command_writes_pictures(saved, tmp_path, capsys):
    assert saved["bdpe"].domain
    model = saved.path("bdpe")
    for number, words in enumerate(
        (("--attributes",), ("--shape", "age"), ("--shape", "age", "job"), ("--tree", "2"))
    ):
        out = tmp_path / "new" / f"{number}.png"
        assert run(capsys, "plot", model, *words, "--out", out) == (0, f"wrote {out}\n", "")
        assert plt.imread(out).shape[2] == 4
    assert plt.get_fignums() == []
    out = tmp_path / "p.svg"
    assert run(capsys, "plot", model, "--shape", "age", "--of", "probability", "--out", out)[0] == 0
    assert "<svg" in out.read_text()


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        ("halfspace", ("--tree", "1"), "are halfspaces, and no trees to draw"),
        ("halfspace", ("--shape", "age", "--of", "probability"), "defines no probability"),
        ("bdpe", ("--tree", "9"), "the model has trees 0..2"),
        ("bdpe", ("--tree", "0"), "--tree must be at least 1, got 0"),
        ("bdpe", ("--shape", "height"), "no column 'height'"),
        ("bdpe", ("--shape", "age", "--attributes"), "not allowed with"),
        ("bdpe", (), "one of the arguments --attributes --shape --tree is required"),
        ("none", ("--attributes",), "No such file"),
    ],
)
def test_a_picture_that_cannot_be_drawn_is_one_line(name, words, expected, saved, tmp_path, capsys):
    out = tmp_path / "p.png"
    assert name == "none" or saved[name].domain
    model = saved.path(name)
    status, printed, err = run(capsys, "plot", model, *words, "--out", out)
    assert (status, printed) == (2, "")
    assert expected in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_files_of_other_kinds_are_refused_and_none_is_replaced(saved, tmp_path, capsys):
    assert saved["bdpe"].domain
    words = ("plot", saved.path("bdpe"), "--attributes", "--out")
    assert "must end in .png, .pdf, .svg" in run(capsys, *words, tmp_path / "p.txt")[2]
    (tmp_path / "p.png").write_text("kept")
    assert "the file exists" in run(capsys, *words, tmp_path / "p.png")[2]
    assert (tmp_path / "p.png").read_text() == "kept"
