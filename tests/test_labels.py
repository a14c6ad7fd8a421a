"""Labels of files: two classes, several, or a number; and weights of rows."""

import json

import numpy as np
import pytest

from dpbt.commands.errors import InputError
from dpbt.data import domains, owner
from dpbt.data.domains import Boolean, Label, Nominal, Numeric, WeightColumn
from dpbt.data.files import read_csv
from experiments.common.data import dataset

THREE = Nominal(("a", "b", "c"))
COLUMNS = {"x": {"type": "numeric", "low": 0, "high": 1}}
DOMAIN = {"x": Numeric(0, 1)}


@pytest.mark.parametrize(
    ("label", "classes", "options"),
    [
        (Label("y", "yes", "no"), ("no", "yes"), {"negative", "positive"}),
        (Label("y", target=THREE), ("a", "b", "c"), {"target"}),
        (Label("y", target=Numeric(0, 9)), None, {"target"}),
    ],
)
def test_what_a_label_says(label, classes, options):
    assert label.classes == classes
    assert set(label.options) == options
    assert label.columns == ("y",)


def test_a_column_of_weights_is_read_beside_the_label():
    label = Label("y", "1", "0", weight=WeightColumn("w", 3))
    assert label.columns == ("y", "w")
    assert label != Label("y", "1", "0")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "Label: positive"),
        ({"positive": "a"}, "Label: negative"),
        ({"positive": "a", "negative": "b", "target": THREE}, "and not both"),
        ({"target": Nominal(("a", "b"))}, "two classes are declared by positive and negative"),
        ({"target": Nominal(("a", "b", "c", "d"), groups={"x": ("a", "b")})}, "have no groups"),
        ({"target": Boolean("a", "b")}, "target must be domains.Nominal"),
        ({"target": Numeric(0, 1, scale="log", bins=4)}, "low and high alone"),
        ({"target": THREE, "weight": WeightColumn("y", 3)}, "both labels and weights"),
        (
            {"target": THREE, "weight": WeightColumn("w", 0)},
            "positive finite number, got 0",
        ),
        ({"target": THREE, "weight": WeightColumn("w", float("inf"))}, "a positive finite number"),
        (
            {"target": THREE, "weight": WeightColumn("w", True)},
            "positive finite number, got True",
        ),
        ({"target": THREE, "weight": WeightColumn("w", "3")}, "positive finite number, got '3'"),
        ({"target": THREE, "weight": WeightColumn(3, 3)}, "column must be a name"),
    ],
)
def test_labels_that_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        Label("y", **given)


def written(folder, label, **more):
    path = folder / "domain.json"
    path.write_text(json.dumps({"columns": COLUMNS, "label": label, **more}))
    return path


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ({"type": "nominal", "values": ["a", "b", "c"]}, THREE),
        ({"type": "nominal", "values": [3, 1, 2], "other": 3}, Nominal(("3", "1", "2"), "3")),
        ({"type": "numeric", "low": 0, "high": 30}, Numeric(0, 30)),
    ],
)
def test_labels_of_files(label, expected, tmp_path):
    weight = {"column": "w", "most": 3}
    path = written(tmp_path, {"column": "y", **label}, weight=weight)
    assert domains.read_domain(path) == (
        {"x": Numeric(0, 1)},
        Label("y", target=expected, weight=WeightColumn("w", 3)),
    )
    path = written(tmp_path, {"column": "y", **label})
    assert domains.read_domain(path)[1] == Label("y", target=expected)
    with pytest.raises(InputError, match=r"domain\.json: experiments learn two classes"):
        dataset.declared(path)


@pytest.mark.parametrize(
    ("label", "more", "words"),
    [
        ({"column": "y"}, {}, '"label" needs column, positive and negative, or column and type'),
        ({"type": "nominal", "values": ["a", "b", "c"]}, {}, '"label" needs column'),
        ({"column": "y", "type": "nominal", "values": []}, {}, "column 'y': Nominal: values"),
        ({"column": "y", "type": "numeric", "low": None, "high": None}, {}, "column 'y': "),
        ({"column": "y", "type": "boolean"}, {}, "target must be domains.Nominal"),
        ({"column": "y", "type": "words"}, {}, "column 'y': type must be one of"),
        ({"column": "x", "type": "numeric", "low": 0, "high": 1}, {}, "the label 'x' is among"),
        (None, {"weight": {"column": "x", "most": 3}}, "the weight 'x' is among the columns"),
        (None, {"weight": {"column": "w"}}, '"weight" needs column and most'),
        (None, {"weight": 3}, '"weight" needs column and most, got 3'),
        (None, {"weights": {}}, r"got \['weights'\] beside them"),
    ],
)
def test_labels_of_files_that_are_refused(label, more, words, tmp_path):
    two = {"column": "y", "positive": 1, "negative": 0}
    with pytest.raises(ValueError, match=rf"domain\.json: .*{words}"):
        domains.read_domain(written(tmp_path, label or two, **more))


@pytest.mark.parametrize("target", [THREE, Numeric(0, 9)], ids=["several", "number"])
def test_files_are_read_with_their_weights(target, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("w,x,y\n1,0.5,a\nNA,0.5,3\n,,zebra\ntoo,few\n9,1,c\n")
    label = Label("y", target=target, weight=WeightColumn("w", 3))
    rows = read_csv(path, DOMAIN, label)
    assert rows.labels == ["a", "3", "zebra", None, "c"]
    assert rows.weights == ["1", "NA", "", None, "9"]
    assert set(rows.columns) == {"x"}
    none = {"several": 3, "number": 4}["several" if target is THREE else "number"]
    found = owner.report(DOMAIN, label, [{**rows.columns, "y": rows.labels, "w": rows.weights}])
    assert dict(found.unread) == {"x": 2, "y": none, "w": 3}
    np.testing.assert_array_equal(rows.malformed, [False, False, False, True, False])
    assert read_csv(path, DOMAIN, Label("y", target=target)).weights is None
    with pytest.raises(ValueError, match="the weight 'x' is among the columns"):
        read_csv(path, DOMAIN, Label("y", target=target, weight=WeightColumn("x", 3)))
