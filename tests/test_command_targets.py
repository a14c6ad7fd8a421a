"""The command line on labels of several classes, on numbers, on weights and monotone columns."""

import csv
import io
import json
from types import SimpleNamespace

import numpy as np
import pytest

import dpbt
from dpbt import __main__ as command_line
from dpbt import boosting
from dpbt.analysis import audit as audits
from dpbt.data import domains, files
from dpbt.training import fit as training_fit
from tests.tables import seeded
from tests.test_command_line import refusal, run

ROWS, BOUND = 60, 70
COLUMNS = {
    "age": {"type": "numeric", "low": 0, "high": 100, "bins": 8},
    "job": {"type": "nominal", "values": ["clerk", "smith"]},
}
LABELS = {
    "site": {"column": "site", "type": "nominal", "values": ["north", "mid", "south"]},
    "rings": {"column": "rings", "type": "numeric", "low": 0, "high": 20},
}
SMALL = ("--epsilon", "30", "--recipe", "oblivious_boost", "--rounds", "3", "--depth", "2")
SEED = ("--seed", "3")


def write_rows(path):
    """Rows of which some labels and weights are no declared ones."""
    rng = np.random.default_rng(0)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("age", "job", "site", "rings", "w"))
        for _ in range(ROWS):
            age = int(rng.integers(0, 100))
            site = ["north", "mid", "south"][age // 34]
            row = [age, rng.choice(["clerk", "smith"]), site, age / 5, rng.integers(1, 4)]
            for place in range(2, 5):
                if rng.random() < 0.1:
                    row[place] = "NA"
            writer.writerow(row)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows, and for each label a domain."""
    folder = tmp_path_factory.mktemp("targets")
    write_rows(folder / "rows.csv")
    for name, label in LABELS.items():
        declared = {"columns": COLUMNS, "label": label, "weight": {"column": "w", "most": 3}}
        (folder / f"{name}.json").write_text(json.dumps(declared))
    return folder


def fitting(folder, name, *words):
    files = (folder / "rows.csv", "--domain", folder / f"{name}.json", "--rows", BOUND)
    return ("fit", *files, *SMALL, *words)


@pytest.fixture(scope="module")
def fitted(folder):
    """The path of a model for each label."""
    models = {}
    for name in LABELS:
        models[name] = folder / f"{name}.model"
        words = fitting(folder, name, *SEED, "--out", models[name])
        assert command_line.main(list(map(str, words))) == 0
    return SimpleNamespace(folder=folder, **models)


def of_library(folder, name):
    """(model, cells): what the library learns from the same rows."""
    domain, label = domains.read_domain(folder / f"{name}.json")
    rows = files.read_csv(folder / "rows.csv", domain, label)
    weights = {"sample_weight": rows.weights, "most_weight": 3}
    table = dpbt.table(
        domain, rows.columns, rows.labels, **label.options, **weights, capacity=BOUND
    )
    shared = {"domain": domain, "target": label.target}
    recipe = dpbt.recipes.oblivious_boost(epsilon=30, rows=BOUND, rounds=3, depth=2, **shared)
    model = training_fit.learn(seeded(3, table)[0], table, recipe)
    return model, domains.encode(domain, rows.columns)


def printed(capsys, *words):
    """(head, lines) of the CSV that a command prints."""
    status, out, err = run(capsys, *words)
    assert (status, err) == (0, "")
    head, *lines = csv.reader(io.StringIO(out))
    return head, lines


def test_predictions_are_those_of_the_library(fitted, capsys):
    rows = fitted.folder / "rows.csv"
    model, cells = of_library(fitted.folder, "site")
    shares = np.asarray(dpbt.predict_proba(model, cells))
    words = [("north", "mid", "south")[k] for k in dpbt.predict(model, cells)]

    head, lines = printed(capsys, "predict", fitted.site, rows)
    assert head == ["class", "probability"]
    assert [line[0] for line in lines] == words
    found = np.array([float(line[1]) for line in lines])
    np.testing.assert_allclose(found, shares.max(axis=1), atol=2e-6)

    head, lines = printed(capsys, "predict", fitted.site, rows, "--proba")
    assert head == ["class", *(f"probability of {word}" for word in ("north", "mid", "south"))]
    assert [line[0] for line in lines] == words
    np.testing.assert_allclose(np.array([line[1:] for line in lines], float), shares, atol=2e-6)

    model, cells = of_library(fitted.folder, "rings")
    head, lines = printed(capsys, "predict", fitted.rings, rows)
    assert head == ["number"]
    numbers = np.array([float(line[0]) for line in lines])
    np.testing.assert_allclose(numbers, dpbt.predict(model, cells), rtol=1e-5)
    assert np.ptp(numbers) > 1
    assert "predicts a number, and no probabilities" in refusal(
        capsys, "predict", fitted.rings, rows, "--proba"
    )


@pytest.mark.parametrize("name", LABELS)
def test_models_have_words_and_statements(name, fitted, capsys):
    path = getattr(fitted, name)
    model = dpbt.load(path)
    assert run(capsys, "explain", path)[:2] == (0, dpbt.explain(model) + "\n")
    assert run(capsys, "statement", path)[:2] == (0, model.kept.statement + "\n")
    assert ("clipped to 0..20" in dpbt.explain(model)) == (name == "rings")


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        ("site", ("--recipe", "bdpe"), "--recipe bdpe learns two classes alone; auto and obl"),
        ("rings", ("--recipe", "rf_l"), "--recipe rf_l learns two classes alone"),
        ("site", ("--recipe", "tuned"), "--rounds is not an option of the recipe tuned"),
        ("rings", ("--monotone", "age"), "--monotone must be NAME=+1 or NAME=-1, got 'age'"),
        ("rings", ("--monotone", "age=2"), "--monotone must be NAME=+1 or NAME=-1"),
        ("rings", ("--monotone", "job=+1"), "monotone names 'job', whose values have no order"),
        ("site", ("--monotone", "age=+1"), "several classes"),
    ],
)
def test_what_is_refused(name, words, expected, folder, tmp_path, capsys):
    given = fitting(folder, name, *words, "--out", tmp_path / "m")
    assert expected in refusal(capsys, *given)
    assert list(tmp_path.iterdir()) == []


def test_recipes_of_two_classes_take_monotone_columns_or_weights_or_neither(tmp_path, capsys):
    write_rows(tmp_path / "rows.csv")
    label = {"column": "site", "positive": "south", "negative": "north"}
    declared = {"columns": COLUMNS, "label": label}
    (tmp_path / "site.json").write_text(json.dumps(declared))
    words = fitting(tmp_path, "site", "--recipe", "bdpe", "--monotone", "age=+1", "--out", "m")
    assert "--monotone is not an option of the recipe bdpe" in refusal(capsys, *words)
    declared["weight"] = {"column": "w", "most": 3}
    (tmp_path / "site.json").write_text(json.dumps(declared))
    files = (tmp_path / "rows.csv", "--domain", tmp_path / "site.json", "--rows", BOUND)
    words = ("fit", *files, "--epsilon", 1, "--recipe", "lazybb_rules", "--out", tmp_path / "m")
    assert "rows have no weights of their own there" in refusal(capsys, *words)
    assert not (tmp_path / "m").exists()


def test_a_choice_is_among_recipes_of_two_classes_without_weights(tmp_path, capsys):
    write_rows(tmp_path / "rows.csv")
    path = tmp_path / "labels.json"
    words = ("fit", tmp_path / "rows.csv", "--domain", path, "--rows", BOUND, "--epsilon", 1)
    words = (*words, "--recipe", "tuned", "--out", tmp_path / "m")
    two = {"column": "site", "positive": "south", "negative": "north"}
    weight = {"weight": {"column": "w", "most": 3}}
    for label, more, expected in (
        (LABELS["site"], {}, "--recipe tuned learns two classes alone; auto and obl"),
        (LABELS["rings"], {}, "--recipe tuned learns two classes alone; auto and obl"),
        (two, weight, "--recipe tuned scores every row alike"),
    ):
        path.write_text(json.dumps({"columns": COLUMNS, "label": label, **more}))
        assert expected in refusal(capsys, *words)
    path.write_text(json.dumps({"columns": COLUMNS, "label": two}))
    assert "--monotone is not an option" in refusal(capsys, *words, "--monotone", "age=+1")
    assert not (tmp_path / "m").exists()


def test_monotone_columns_reach_the_recipe(folder, tmp_path, capsys, monkeypatch):
    seen = []

    def learn(key, table, recipe, public_key):
        seen.append(recipe.learner.tag)
        raise KeyboardInterrupt

    monkeypatch.setattr(boosting, "learn", learn)
    for direction in ("age=+1", "age=1", "age=-1"):
        words = fitting(folder, "rings", "--monotone", direction, "--out", tmp_path / "m")
        assert run(capsys, *words)[0] == 130
    assert "(1, 0)" in seen[0]
    assert seen[0] == seen[1]
    assert "(-1, 0)" in seen[2]


@pytest.mark.parametrize("name", LABELS)
def test_audits_have_made_up_labels_and_weights(name, folder, capsys, monkeypatch):
    seen = []

    def audit(key, near, recipe, transcripts):
        seen.append(near.table)
        return audits.Audit(1.0, 0.5, {}, {}, 60, transcripts, (0, 0), {})

    monkeypatch.setattr(audits, "audit", audit)
    words = ("audit", "--domain", folder / f"{name}.json", "--rows", "40", *SMALL)
    assert run(capsys, *words)[0] == 0
    [table] = seen
    expected = {0, 1, 2} if name == "site" else {0.0, 0.5, 1.0}
    assert set(np.asarray(table.target).tolist()) == expected
    assert table.target.dtype == ("uint8" if name == "site" else "float32")
    assert 0 < float(table.weight.min()) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("name", LABELS)
def test_audits_of_several_classes_and_of_numbers(name, folder, capsys):
    words = ("audit", "--domain", folder / f"{name}.json", "--rows", "40", *SMALL)
    assert run(capsys, *words, "--transcripts", "2", "--neighbours", "10")[0] == 0


@pytest.mark.parametrize("label_type", ["nominal", "numeric"])
def test_a_template_of_another_label_is_filled_in(label_type, folder, tmp_path, capsys):
    path = tmp_path / "t.json"
    words = ("domain", "template", "--columns", "age", "y", "--label", "y", "--out", path)
    assert run(capsys, *words, "--label-type", label_type)[0] == 0
    content = json.loads(path.read_text())
    content["columns"]["age"] = COLUMNS["age"]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"t\.json: column 'y'"):
        domains.read_domain(path)
    filled = {"values": ["a", "b", "c"]} if label_type == "nominal" else {"low": 0, "high": 9}
    content["label"] |= filled
    path.write_text(json.dumps(content))
    _, label = domains.read_domain(path)
    assert label.column == "y"
    assert label.classes == (("a", "b", "c") if label_type == "nominal" else None)
