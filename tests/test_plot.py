"""Pictures of models and of results, and the command that writes them."""

import csv
import dataclasses
import inspect
import sys
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

import dpbt
from dpbt import __main__ as command_line
from dpbt import plot
from dpbt.analysis import column_axis, tree_picture
from dpbt.base import HypothesisClass
from dpbt.data.domains import Nominal, Numeric, Predicate
from dpbt.learners.hypotheses import words as rules
from dpbt.learners.hypotheses.oblivious import OBLIVIOUS, ObliviousTree
from tests.pictured import DOMAIN, MODELS, ROWS, TREES, Saved, columns_of, random_model

ROOT = Path(__file__).parent.parent

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return Saved(tmp_path_factory.mktemp("models"))


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


# Pictures.


@pytest.mark.parametrize("name", TREES)
def test_a_tree_has_the_words_and_leaves_of_its_rules(name):
    model = MODELS[name]
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
    branches = [line for line in drawn.lines if len(line.get_xdata()) == 2]
    assert len(branches) == 2 * (len(leaves) - 1)
    for line in branches:
        above, below = line.get_xdata()
        assert (line.get_linestyle() == "-") == (below > above)  # yes is at the right


def is_number(text):
    return text.lstrip("+-").replace(".", "").isdigit()


def test_branches_that_no_row_reaches_are_not_drawn():
    """The third question is whether age is above 20, which the first has answered."""
    right = np.zeros((1, 3, 256), bool)
    right[0, 0, 2:4] = right[0, 1, 1] = right[0, 2, 1:4] = True
    leaf = np.arange(1, 9, dtype=np.float32)[None]
    trees = ObliviousTree(np.array([[0, 1, 0]], np.int32), right, leaf)
    heap = OBLIVIOUS.heap(trees, None, DOMAIN)
    branch, levels = rules.branch_of(heap, DOMAIN, 0), rules.questions_of_tree(heap, 0)
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


def test_shapes_are_steps_over_the_cut_points_and_points_of_words():
    model = MODELS["bdpe"]
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


def test_a_pair_is_a_map_of_colours_around_0():
    ax = plot.shape(MODELS["oblivious"], DOMAIN, ("age", "member"))
    values = plot.partial_dependence(MODELS["oblivious"], ("age", "member"), DOMAIN).values
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


def test_bars_are_the_effects_in_their_order():
    found = plot.attribute_effects(MODELS["bdpe"], DOMAIN)
    ax = plot.attributes(MODELS["bdpe"], DOMAIN, most=3)
    np.testing.assert_allclose(
        [bar.get_width() for bar in ax.patches], [e.deviation for e in found[:3]]
    )
    assert [text.get_text() for text in ax.get_yticklabels()] == [e.attribute for e in found[:3]]
    assert ax.yaxis_inverted()
    assert "1 smaller ones are left out" in ax.get_xlabel()
    own = plt.subplots()[1]
    assert plot.attributes(MODELS["bdpe"], DOMAIN, ax=own) is own


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

    for given, options, words in (
        (results, {}, "choose a dataset and a delta"),
        (results, {"dataset": "none"}, "no line of results"),
        ([{"method": "x", "epsilon": 1, "delta": 0}], {}, "lacks the column 'auroc_mean'"),
        ([line("x", "one", 0.5)], {}, "epsilon must be a number"),
        ([line("x", 1.0, 1.5)], {}, r"auroc_mean must be in \[0, 1\], got 1.5"),
        ([line("x", 1.0, 0.5)], {"measure": "loss"}, "measure must be one of"),
    ):
        with pytest.raises(ValueError, match=words):
            plot.frontier(given, **options)


# What is refused, and what is not needed.


def test_what_is_no_tree_is_refused_by_name(saved):
    for model in (MODELS["halfspace"], saved["halfspace"]):
        with pytest.raises(ValueError, match="halfspace_boost are halfspaces, and no trees"):
            plot.tree(model, DOMAIN)
    kind = MODELS["bdpe"].recipe.learner.hypotheses
    own = HypothesisClass(kind.example, kind.check, kind.prepare, lambda h, t: h.leaf, kind.bound)
    learner = MODELS["bdpe"].recipe.learner._replace(hypotheses=own)
    recipe = dataclasses.replace(MODELS["bdpe"].recipe, learner=learner)
    with pytest.raises(ValueError, match="of your own, and no trees"):
        plot.tree(dataclasses.replace(MODELS["bdpe"], recipe=recipe), DOMAIN)


def test_bad_arguments_are_refused(saved, tmp_path):
    model = MODELS["bdpe"]
    pictures = (plot.attributes, plot.tree, lambda m, d: plot.shape(m, d, "age"))
    exact = dataclasses.replace(model, questions=None)
    MODELS["bdpe"].save(tmp_path / "bare.json")
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
    for draw, options, words in (
        (plot.shape, {"attribute": "height"}, "no column 'height', it has"),
        (plot.shape, {"attribute": "age", "of": "odds"}, "of must be one of"),
        (plot.tree, {"round": 3}, "trees 0..2, got round=3"),
        (plot.tree, {"round": -1}, "trees 0..2, got round=-1"),
        (plot.tree, {"levels": 0}, "levels must be an integer of at least 1, got 0"),
        (plot.attributes, {"most": 0}, "most must be an integer"),
        (plot.attribute_effects, {"draws": 1}, "draws must be at least 2"),
    ):
        with pytest.raises(ValueError, match=words):
            draw(model, DOMAIN, **options)


def test_no_function_takes_private_rows():
    public = {"model", "domain", "attribute", "attributes", "ax", "of", "draws", "most", "round"}
    public |= {"class_", "levels", "results", "measure", "dataset", "delta", "styles", "legend"}
    for name in plot.__all__:
        assert set(inspect.signature(getattr(plot, name)).parameters) <= public
    table = dpbt.table(DOMAIN, columns_of(0), np.arange(ROWS) % 2 == 0)
    with pytest.raises(ValueError, match="expected a model"):
        plot.attributes(table, DOMAIN)


def test_drawing_without_matplotlib_names_the_extra(saved, monkeypatch, tmp_path, capsys):
    assert saved["bdpe"].about.domain
    for name in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    for draw in (plot.attributes, plot.tree, lambda model: plot.shape(model, attribute="age")):
        with pytest.raises(ImportError, match=r"pip install 'dpbt\[figures\]'"):
            draw(saved["bdpe"])
    words = ("plot", saved.path("bdpe"), "--attributes", "--out", tmp_path / "p.png")
    status, _, err = run(capsys, *words)
    assert (status, err.count("\n")) == (2, 1)
    assert "pip install 'dpbt[figures]'" in err


# The command.


def run(capsys, *words):
    status = command_line.main(list(map(str, words)))
    return status, *capsys.readouterr()


def test_the_command_writes_pictures(saved, tmp_path, capsys):
    assert saved["bdpe"].about.domain
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
    assert name == "none" or saved[name].about.domain
    model = saved.path(name)
    status, printed, err = run(capsys, "plot", model, *words, "--out", out)
    assert (status, printed) == (2, "")
    assert expected in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_files_of_other_kinds_are_refused_and_none_is_replaced(saved, tmp_path, capsys):
    assert saved["bdpe"].about.domain
    words = ("plot", saved.path("bdpe"), "--attributes", "--out")
    assert "must end in .png, .pdf, .svg" in run(capsys, *words, tmp_path / "p.txt")[2]
    (tmp_path / "p.png").write_text("kept")
    assert "the file exists" in run(capsys, *words, tmp_path / "p.png")[2]
    assert (tmp_path / "p.png").read_text() == "kept"


def of_target(target):
    """A model of several classes, or of a number, and the domain of its rows."""
    domain = {"size": Numeric(0, 1, bins=4), "kind": Nominal(("a", "b"), other="b")}
    settings = {"rounds": 3, "depth": 2, "rows": 60, "domain": domain, "target": target}
    recipe = dpbt.recipes.oblivious_boost(epsilon=20.0, **settings)
    return random_model(recipe, 2, domain), domain


def test_several_classes_are_drawn_one_by_one_and_numbers_in_their_units():
    """Against the mean over all rows of the domain."""
    model, domain = of_target(Nominal(("x", "y", "z")))
    every = np.array([[size, kind] for size in range(4) for kind in range(2)], np.uint8)
    scores = np.asarray(dpbt.decision_function(model, every)).reshape(4, 2, 3).mean(axis=1)
    for number, name in enumerate("xyz"):
        ax = plot.shape(model, domain, "size", class_=name)
        np.testing.assert_allclose(ax.patches[0].get_data().values, scores[:, number], atol=1e-6)
        assert ax.get_ylabel() == f"mean score of {name}"
        plot.shape(model, domain, ("size", "kind"), of="probability", class_=name)
        assert f"score of {name}" in plot.tree(model, domain, class_=name).get_title()
        plt.close("all")
    plot.attributes(model, domain)
    for wrong in (None, "w", 0):
        with pytest.raises(ValueError, match="class_ must be one of"):
            plot.shape(model, domain, "size", class_=wrong)

    model, domain = of_target(Numeric(-5, 15))
    numbers = -5 + 20 * np.asarray(dpbt.decision_function(model, every)).reshape(4, 2)
    ax = plot.shape(model, domain, "size")
    np.testing.assert_allclose(ax.patches[0].get_data().values, numbers.mean(axis=1), atol=1e-5)
    with pytest.raises(ValueError, match="no probabilities"):
        plot.shape(model, domain, "size", of="probability")
    with pytest.raises(ValueError, match="class_ is for"):
        plot.tree(model, domain, class_="x")
    plot.tree(model, domain)
    plot.attributes(model, domain)
    plot.shape(model, domain, ("size", "kind"))
    plt.close("all")
