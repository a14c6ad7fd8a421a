"""Saved models: what a file holds, who reads it, and what is refused."""

import base64
import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import losses, recipes
from dpbt.common import storage
from dpbt.data import domains
from dpbt.data.domains import Numeric
from dpbt.learners import kinds
from dpbt.learners.halfspaces.model import HALFSPACES, Halfspace
from dpbt.learners.model_parts import EncodedRows
from dpbt.learners.trees import TREES
from dpbt.models import file, scoring
from dpbt.models.model import without_training_parts
from dpbt.models.scoring import VOTINGS
from tests.support import ROOT, random_models
from tests.support.fitted_models import (
    DOMAIN,
    MODEL_NAMES,
    RECIPE_MAKERS,
    TARGETS,
    model_of_kind,
    random_raw_columns,
    table_of,
)
from tests.support.odd_inputs import Frame
from tests.support.slow_cases import mark_slow_cases


def encoded_rows(name, columns):
    """Encoded rows, as the model of a name reads them."""
    kind = RECIPE_MAKERS[name][1] if name in RECIPE_MAKERS else {}
    return np.asarray(table_of(columns, **kind).bins)


def classes_of_model(name):
    return None if name in TARGETS else ("no", "yes")


@pytest.fixture(scope="module")
def model():
    return model_of_kind("bdpe")


@pytest.fixture
def saved_path(model, tmp_path):
    path = tmp_path / "model.json"
    dpbt.save(model, path, domain=DOMAIN, classes=("no", "yes"))
    return path


# One contract for every kind of model.


class FittedAndLoaded(NamedTuple):
    """A fitted model, the same loaded from its file, and rows that both read."""

    name: str
    path: Path
    fitted: Any
    loaded: Any
    columns: dict
    rows: np.ndarray


@pytest.fixture(scope="module", params=mark_slow_cases(MODEL_NAMES, slow=["bdpe"]))
def models(request, tmp_path_factory):
    name, path = request.param, tmp_path_factory.mktemp("saved") / "m.json"
    fitted, columns = model_of_kind(name), random_raw_columns(1, 200)
    dpbt.save(fitted, path, domain=DOMAIN, classes=classes_of_model(name))
    return FittedAndLoaded(
        name=name,
        path=path,
        fitted=fitted,
        loaded=dpbt.load(path),
        columns=columns,
        rows=encoded_rows(name, random_raw_columns(1, 200)),
    )


def test_a_loaded_model_has_the_scores_of_the_fitted_one_bit_for_bit(models):
    score = np.asarray(dpbt.decision_function(models.fitted, models.rows))
    assert type(models.loaded) is type(models.fitted)
    assert np.ptp(score, axis=0).min() > 0
    score_of_loaded = dpbt.decision_function(models.loaded, models.rows)
    assert type(score_of_loaded) is np.ndarray
    np.testing.assert_array_equal(score_of_loaded, score)
    np.testing.assert_array_equal(models.loaded.decision_function(models.columns), score)
    score_of_jax_rows = dpbt.decision_function(models.loaded, jnp.asarray(models.rows))
    np.testing.assert_array_equal(score_of_jax_rows, score)


def test_a_loaded_model_predicts_as_the_fitted_one(models):
    answers = np.asarray(dpbt.predict(models.fitted, models.rows))
    np.testing.assert_allclose(dpbt.predict(models.loaded, models.rows), answers, rtol=1e-6)
    classes = models.loaded.about.classes
    named = answers if classes is None else np.asarray(classes)[answers.astype(int)]
    assert np.all(models.loaded.predict(models.columns) == named) or models.name in (
        "number",
        "count",
    )
    if models.loaded.about.probability == "shares":
        for voting in VOTINGS:
            votes = [
                dpbt.predict(model, models.rows, voting, jax.random.key(1))
                for model in (models.fitted, models.loaded)
            ]
            np.testing.assert_array_equal(*votes)


def test_a_loaded_model_states_the_probabilities_of_the_fitted_one_or_refuses_as_it_does(models):
    facts = models.loaded.about
    if facts.probability is None:
        for model in (models.fitted, models.loaded):
            with pytest.raises(ValueError, match=re.escape(facts.reason)):
                dpbt.predict_proba(model, models.rows)
    else:
        shares = np.asarray(dpbt.predict_proba(models.fitted, models.rows))
        np.testing.assert_allclose(
            dpbt.predict_proba(models.loaded, models.rows), shares, rtol=1e-5
        )
        by_class = models.loaded.predict_proba(models.columns)
        np.testing.assert_allclose(by_class.sum(axis=1), 1, atol=1e-6)
        np.testing.assert_allclose(by_class, shares, rtol=1e-5)


def test_a_loaded_model_has_the_ledger_the_statement_and_the_words_of_the_fitted_one(models):
    facts = models.loaded.loaded_facts
    assert str(dpbt.ledger(models.loaded)) == str(dpbt.ledger(models.fitted)) == facts.ledger
    assert dpbt.statement(models.fitted) == facts.statement
    assert dpbt.statement(models.loaded).endswith(facts.statement.split("\n\n", 1)[1])
    if models.fitted.splits is not None:
        assert dpbt.explain(models.loaded) == dpbt.explain(models.fitted, DOMAIN)


def test_a_model_that_is_saved_again_has_the_same_file(models):
    """It may be saved without the parts for training, or from its file."""
    before = models.path.read_bytes()
    for model in (without_training_parts(models.fitted), models.loaded):
        dpbt.save(model, models.path, domain=DOMAIN, classes=classes_of_model(models.name))
        assert models.path.read_bytes() == before


WITHOUT_JAX = """
import json, sys
for name in ("jax", "jaxlib", "scipy", "optax", "chex", "dp_accounting", "pandas"):
    sys.modules[name] = None  # importing it raises
import numpy as np
import dpbt
columns, scores = json.load(open("rows.json")), {}
for name in sys.argv[1:]:
    model = dpbt.load(f"{name}.json")
    model.predict(columns)
    scores[name] = model.decision_function(columns)
    if model.about.probability is not None:
        model.predict_proba(columns)
    if model.splits is not None:
        assert dpbt.explain(model)
np.savez("scores.npz", **scores)
"""


def test_numpy_alone_reads_raw_columns_as_the_library_does(tmp_path):
    columns = random_raw_columns(1, 200)
    (tmp_path / "rows.json").write_text(json.dumps(columns))
    for name in MODEL_NAMES:
        dpbt.save(model_of_kind(name), tmp_path / f"{name}.json", domain=DOMAIN)
    command = [sys.executable, "-c", WITHOUT_JAX, *MODEL_NAMES]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    scores = np.load(tmp_path / "scores.npz")
    for name in MODEL_NAMES:
        score = dpbt.decision_function(model_of_kind(name), encoded_rows(name, columns))
        np.testing.assert_array_equal(scores[name], score)


@pytest.mark.slow
def test_predictions_of_stacked_models_are_those_of_each_model():
    """They agree under vmap and jit, and scores have gradients."""
    model = model_of_kind("several")
    rows = encoded_rows("several", random_raw_columns(1, 70))
    halved = dataclasses.replace(
        model, hypotheses=model.hypotheses._replace(leaf=model.hypotheses.leaf / 2)
    )
    swept = jax.tree.map(lambda *arrays: jnp.stack(arrays), model, halved)
    for predict in (dpbt.decision_function, dpbt.predict_proba):
        predictions = jax.jit(jax.vmap(lambda model, predict=predict: predict(model, rows)))(swept)
        for index in range(2):
            single = jax.tree.map(lambda array, index=index: array[index], swept)
            np.testing.assert_allclose(
                predictions[index], predict(single, rows), rtol=1e-5, atol=1e-6
            )

    def total(start):
        return jnp.sum(dpbt.decision_function(dataclasses.replace(single, intercept=start), rows))

    np.testing.assert_array_equal(jax.grad(total)(single.intercept), 70.0)


# Rows.


def test_rows_come_in_many_containers(saved_path):
    loaded, columns = dpbt.load(saved_path), random_raw_columns(3, 40)
    expected = loaded.decision_function(columns)

    frame, encoded = Frame({**columns, "unread": columns["age"]}), domains.encode(DOMAIN, columns)
    for rows in (frame, encoded):
        np.testing.assert_array_equal(loaded.decision_function(rows), expected)
    assert loaded.predict_proba({name: [] for name in DOMAIN}).shape == (0, 2)
    for wrong_rows, message in [
        ({"age": [1]}, "lacks columns"),
        (np.zeros((2, 7)), "reads rows of uint8"),
        (np.zeros((2, 3), np.uint8), "features"),
        ("text", "columns by name"),
        ([[1, 2]], "columns by name"),
    ]:
        with pytest.raises(ValueError, match=message):
            loaded.decision_function(wrong_rows)


def test_rows_scored_in_small_blocks_have_the_same_scores(saved_path, monkeypatch):
    loaded, columns = dpbt.load(saved_path), random_raw_columns(4, 100)
    expected = loaded.predict_proba(columns)
    monkeypatch.setattr(scoring, "BLOCK_ROWS", 7)
    np.testing.assert_array_equal(loaded.predict_proba(columns), expected)


def test_no_warning_tells_of_a_row_of_zeros():
    """Warnings are errors in the tests."""
    rows = EncodedRows(np.array([[0, 0], [1, 0], [3, 4]], np.float32), None)
    scores = HALFSPACES.predict(Halfspace(np.float32([0.5, -0.25])), HALFSPACES.read_rows(rows))
    np.testing.assert_allclose(scores, [0, 0.5, 0.1], atol=1e-6)


def test_a_model_without_a_domain_reads_encoded_rows(model, tmp_path):
    dpbt.save(dataclasses.replace(model, domain=None), tmp_path / "m.json")
    loaded, columns = dpbt.load(tmp_path / "m.json"), random_raw_columns(5, 30)
    encoded = domains.encode(DOMAIN, columns)
    np.testing.assert_array_equal(loaded.predict(encoded), dpbt.predict(model, encoded))
    assert dpbt.explain(loaded, DOMAIN) == dpbt.explain(model, DOMAIN)
    with pytest.raises(ValueError, match="without a domain"):
        loaded.decision_function(columns)
    with pytest.raises(ValueError, match="no domain of its own"):
        dpbt.explain(loaded)


def test_classes_keep_their_names_and_types_and_others_are_refused(model, tmp_path):
    for classes in ((0, 1), (">50K", "<=50K\ud800\n"), (0.5, "x")):
        dpbt.save(model, tmp_path / "m.json", domain=DOMAIN, classes=np.array(classes, object))
        loaded, columns = dpbt.load(tmp_path / "m.json"), random_raw_columns(6, 60)
        answers = loaded.predict(columns).tolist()
        assert answers == [classes[int(yes)] for yes in loaded.decision_function(columns) > 0]
        assert {type(answer) for answer in answers} <= {type(word) for word in classes}
    for classes in (("a",), "ab", (1, 1.0), (float("nan"), 1.0), ([1], 2)):
        with pytest.raises(ValueError, match="classes must"):
            dpbt.save(model, tmp_path / "other.json", classes=classes)
    assert not (tmp_path / "other.json").exists()


def test_words_of_several_classes_and_of_numbers_are_what_leaves_add():
    model = model_of_kind("several")
    lines_of_text = dpbt.explain(model, DOMAIN).splitlines()
    assert lines_of_text[0].startswith("every row starts with low ")
    starts = [float(part.split()[-1]) for part in lines_of_text[0].partition(";")[0].split(", ")]
    np.testing.assert_allclose(starts, model.intercept, atol=1e-4)
    leaves = np.asarray(model.hypotheses.leaf)
    for class_index, name in enumerate(TARGETS["several"].values):
        class_lines = [line for line in lines_of_text if line.startswith(f"  {name}: nn ")]
        shown = [[float(part.split()[-1]) for part in line.split(", ")] for line in class_lines]
        np.testing.assert_allclose(shown, leaves[:, class_index], atol=1e-4)

    model, width = model_of_kind("number"), 25
    lines_of_text = dpbt.explain(model, DOMAIN).splitlines()
    start = -5 + width * float(model.intercept)
    assert float(lines_of_text[0].split()[-1]) == pytest.approx(start, rel=1e-3)
    shown = [float(line.split()[-1]) for line in lines_of_text if ": add " in line]
    np.testing.assert_allclose(shown, width * np.ravel(model.hypotheses.leaf), rtol=1e-3)


# The file.


def test_a_file_holds_no_key_no_transcript_and_no_rows(tmp_path):
    """It holds none in its names, nor in its numbers beside the noisy counts."""
    key = dpbt.fresh_key()
    recipe = recipes.random_forest(epsilon=1.0, rows=60, rounds=3, depth=2, disjoint=True)
    table = table_of(random_raw_columns(7, 57))
    model = dpbt.fit(key, table, recipe, dpbt.fresh_key())
    dpbt.save(model, tmp_path / "m.json", domain=DOMAIN)
    text = (tmp_path / "m.json").read_text()
    content = json.loads(text)
    assert set(content) == {
        *("format", "format_version", "name", "versions", "statement", "ledger", "privacy"),
        *("classes", "target", "probability", "reason", "dtype", "features", "domain"),
        *("splits", "kind", "arrays", "checksum"),
    }
    assert set(content["arrays"]) == {"intercept", "attribute", "threshold", "leaf"}
    assert content["privacy"]["key"] == "release"
    for word in np.asarray(jax.random.key_data(key)).tolist():
        assert str(word) not in text
    sizes = {len(entry) for entry in _lists(content)}
    assert 57 not in sizes


def _lists(value):
    if isinstance(value, list):
        yield value
    if isinstance(value, list | dict):
        for entry in value if isinstance(value, list) else value.values():
            yield from _lists(entry)


def test_a_changed_or_shorter_file_is_refused_and_the_error_names_it(saved_path):
    content_of_file = saved_path.read_text()
    digits = [match.start() for match in re.finditer(r"\d", content_of_file)]
    changes = [
        content_of_file[:position]
        + ("8" if content_of_file[position] == "7" else "7")
        + content_of_file[position + 1 :]
        for position in digits[:: max(len(digits) // 20, 1)]
    ]
    content = json.loads(content_of_file)
    changes = [text for text in changes if json.loads(text) != content]  # not a 17th digit
    content["domain"] = dict(reversed(content["domain"].items()))
    cut_off = [
        content_of_file[:size]
        for size in (0, 1, 50, len(content_of_file) // 2, len(content_of_file) - 2)
    ]
    for text in (*changes, *cut_off, json.dumps(content)):
        saved_path.write_text(text)
        with pytest.raises(ValueError, match=re.escape(str(saved_path))) as error:
            dpbt.load(saved_path)
        assert "\n" not in str(error.value)


def change_and_reseal(path, change):
    """The file with its content changed, and a checksum that fits."""
    content = json.loads(path.read_text())
    change(content)
    content.pop("checksum", None)
    content["checksum"] = storage.sha256_of_json_without_checksum(content)
    path.write_text(json.dumps(content))


def _saved_array(content, name):
    return content["arrays"][name]


def _set_first_value(content, name, value):
    array = _saved_array(content, name)
    kept = bytearray(base64.b64decode(array["values"]))
    kept[: value.nbytes] = value.tobytes()
    array["values"] = base64.b64encode(kept).decode()


CRAFTED = {
    "a split that no split has": lambda c: _set_first_value(c, "split", np.int32(10**6)),
    "a leaf that is infinite": lambda c: _set_first_value(c, "leaf", np.float32(np.inf)),
    "a leaf of two bytes": lambda c: _saved_array(c, "leaf").update(values="AAAA"),
    "trees that are not complete": lambda c: _saved_array(c, "leaf").update(shape=[4, 3]),
    "a shape without end": lambda c: _saved_array(c, "leaf").update(shape=[2**40, 2**40, 0]),
    "no trees": lambda c: [
        _saved_array(c, name).update(shape=[0, k], values="")
        for name, k in (("split", 3), ("leaf", 4))
    ],
    "a missing array": lambda c: c["arrays"].pop("leaf"),
    "another kind": lambda c: c.update(kind="pickle"),
    "a kind of other arrays": lambda c: c.update(kind="tree_groups"),
    "more features": lambda c: c.update(features=8),
    "no domain and no splits": lambda c: c.update(domain=None),
    "a column of no kind": lambda c: c["domain"].update(age={"type": "code"}),
    "an unknown loss": lambda c: c.update(probability="mine"),
    "shares of trees": lambda c: c.update(probability="shares"),
}


def test_a_file_with_a_checksum_of_its_own_is_refused_if_it_is_no_model(saved_path):
    original = saved_path.read_text()
    change_and_reseal(saved_path, lambda content: None)
    dpbt.load(saved_path)
    for change in CRAFTED.values():
        saved_path.write_text(original)
        change_and_reseal(saved_path, change)
        with pytest.raises(ValueError, match=re.escape(f"{saved_path}: ")) as error:
            dpbt.load(saved_path)
        assert "\n" not in str(error.value)


def test_a_mechanism_of_your_own_keeps_its_words_and_its_costs(saved_path):
    def rename(content):
        content["privacy"]["lines"][0]["mechanism"] = "my_noise"

    change_and_reseal(saved_path, rename)
    loaded = dpbt.load(saved_path)
    assert "total: epsilon = 1" in loaded.loaded_facts.ledger
    assert "my_noise" in str(dpbt.ledger(loaded))
    with pytest.raises(ValueError, match="'my_noise', whose price no ledger keeps"):
        dpbt.statement(loaded, max_rows_per_user=2)


# What is not written.


def test_another_domain_and_a_folder_are_refused(model, tmp_path):
    with pytest.raises(ValueError, match="a folder"):
        dpbt.save(model, tmp_path)
    other = {**DOMAIN, "age": Numeric(15, 95, bins=9, missing=True)}
    fewer = {name: DOMAIN[name] for name in list(DOMAIN)[:-1]}
    for domain in (other, fewer, dict(reversed(DOMAIN.items()))):
        with pytest.raises(ValueError, match="another domain"):
            dpbt.save(model, tmp_path / "m.json", domain=domain)
        with pytest.raises(ValueError, match="other splits"):
            dpbt.save(dataclasses.replace(model, domain=None), tmp_path / "m.json", domain=domain)
    assert list(tmp_path.iterdir()) == []


OWN_LOSS = losses.log._replace(name="my_loss", inverse_link=lambda z: losses.log.inverse_link(z))


def test_a_model_of_an_own_loss_is_saved_and_its_loss_comes_from_the_caller(model, tmp_path):
    """A file holds the words of the loss; it never says which code is imported or called."""
    update = dataclasses.replace(
        model.recipe.weight_update, loss=losses.constant_loss_family(OWN_LOSS)
    )
    recipe = dataclasses.replace(model.recipe, weight_update=update)
    model_of_own_loss, path = dataclasses.replace(model, recipe=recipe), tmp_path / "m.json"
    rows = encoded_rows("bdpe", random_raw_columns(1, 20))
    expected = np.asarray(dpbt.predict_proba(model_of_own_loss, rows))
    dpbt.save(model_of_own_loss, path)
    for name in ("m.json", "again.json"):  # a loaded model can be saved, with its loss or without
        bare = dpbt.load(tmp_path / name)
        np.testing.assert_array_equal(
            np.asarray(dpbt.decision_function(bare, rows)),
            np.asarray(dpbt.decision_function(model_of_own_loss, rows)),
        )
        with pytest.raises(ValueError, match=r"my_loss of bdpe is your own.*load\(path, loss="):
            bare.predict_proba(rows)
        loaded = dpbt.load(tmp_path / name, loss=OWN_LOSS)
        np.testing.assert_allclose(dpbt.predict_proba(loaded, rows), expected, rtol=1e-6)
        dpbt.save(loaded, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()

    with pytest.raises(ValueError, match=r"the one of the name 'my_loss'.* got 'other'"):
        dpbt.load(path, loss=OWN_LOSS._replace(name="other"))
    with pytest.raises(ValueError, match="loss must be"):
        dpbt.load(path, loss="os:system")
    dpbt.save(model, tmp_path / "usual.json")
    assert b"own_loss" not in (tmp_path / "usual.json").read_bytes()
    with pytest.raises(ValueError, match="a loss of dpbt, or none, so it takes no loss"):
        dpbt.load(tmp_path / "usual.json", loss=OWN_LOSS)


def test_functions_of_your_own_and_infinite_numbers_are_refused_by_name(
    model, tmp_path, monkeypatch
):
    def with_recipe(**changes):
        return dataclasses.replace(model, recipe=dataclasses.replace(model.recipe, **changes))

    def with_loss(loss):
        return with_recipe(weight_update=dataclasses.replace(model.recipe.weight_update, loss=loss))

    dpbt.save(with_loss(None), tmp_path / "m.json")
    with pytest.raises(ValueError, match="vote without a link"):
        dpbt.load(tmp_path / "m.json").predict_proba(np.zeros((1, len(DOMAIN)), np.uint8))

    kind = dataclasses.replace(TREES, predict=lambda tree, rows: -TREES.predict(tree, rows))
    negated_model = with_recipe(learner=dataclasses.replace(model.recipe.learner, kind=kind))
    with pytest.raises(ValueError, match=r"hypotheses of bdpe are of your own"):
        dpbt.save(negated_model, tmp_path / "own.json")
    # A kind that lacks what loading needs is refused, whoever put it among those of files.
    unchecked = dataclasses.replace(kind, name="unchecked", check_arrays=None, training=None)
    monkeypatch.setitem(kinds.KINDS, "unchecked", unchecked)
    trained_unchecked = dataclasses.replace(unchecked, training=kind.training)
    listed_model = with_recipe(
        learner=dataclasses.replace(model.recipe.learner, kind=trained_unchecked)
    )
    with pytest.raises(ValueError, match=r"hypotheses of bdpe are of your own"):
        dpbt.save(listed_model, tmp_path / "own.json")
    assert not (tmp_path / "own.json").exists()
    rows = encoded_rows("bdpe", random_raw_columns(1, 20))
    negated_scores, scores = (
        np.asarray(dpbt.decision_function(scored_model, rows))
        for scored_model in (negated_model, model)
    )
    np.testing.assert_array_equal(negated_scores, -scores)

    leaf = jnp.asarray(model.hypotheses.leaf).at[0, 0].set(jnp.inf)
    infinite_model = dataclasses.replace(model, hypotheses=model.hypotheses._replace(leaf=leaf))
    with pytest.raises(ValueError, match="leaf holds a number that is infinite"):
        dpbt.save(infinite_model, tmp_path / "m.json")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "mine"}, "KINDS has no kind of the name 'mine'; add yours"),
        ({}, "KINDS has another kind of the name 'trees'; give yours a name of its own"),
        ({"describe": None}, "have no words: their kind has no `describe`"),
    ],
    ids=["new name", "known name", "no words"],
)
def test_a_model_without_words_says_whether_its_kind_lacks_them_or_its_place(
    model, changes, reason
):
    trained = model.recipe.learner
    predict = lambda tree, rows: TREES.predict(tree, rows)  # noqa: E731
    kind = dataclasses.replace(trained.kind, predict=predict, **changes)
    learner = dataclasses.replace(trained, kind=kind)
    of_own = dataclasses.replace(model, recipe=dataclasses.replace(model.recipe, learner=learner))
    with pytest.raises(ValueError, match=reason):
        dpbt.explain(of_own, DOMAIN)


def test_a_vote_of_a_custom_recipe_says_how_to_give_it_a_link(model):
    trained = dataclasses.replace(model.recipe.weight_update, loss=None)
    custom = dataclasses.replace(model.recipe, options_text="custom", weight_update=trained)
    vote = dataclasses.replace(model, recipe=custom)
    with pytest.raises(ValueError, match=r"without a link.*; custom\(loss=..., weighting=...\)"):
        vote.predict_proba(np.zeros((1, len(DOMAIN)), np.uint8))


def test_only_the_rounds_of_a_recipe_are_kept(tmp_path):
    recipe = recipes.bdpe(epsilon=1.0, rows=60, rounds=[1, 3], depth=2, criterion="gini")
    recipe = recipes.setting(recipe, 0)
    model = dpbt.fit(jax.random.key(0), table_of(random_raw_columns(0, 50)), recipe)
    assert model.hypotheses.leaf.shape[0] == 3
    dpbt.save(model, tmp_path / "m.json", domain=DOMAIN)
    loaded = dpbt.load(tmp_path / "m.json")
    rows = encoded_rows("bdpe", random_raw_columns(1, 50))
    assert loaded.hypotheses.leaf.shape[0] == 1
    np.testing.assert_array_equal(
        dpbt.decision_function(loaded, rows), dpbt.decision_function(model, rows)
    )


def test_a_file_has_the_shares_that_its_model_released(tmp_path):
    """They are those of the histograms, and contributions can be beside them."""
    rng = np.random.default_rng(0)
    domain = {"a": Numeric(0, 1, bins=4), "b": Numeric(0, 1, bins=2)}
    columns = {"a": rng.uniform(0, 0.3, 400), "b": rng.random(400)}
    table = dpbt.table(domain, columns, columns["b"] > 0.5)
    common = {"epsilon": 50.0, "rows": 400, "rounds": 2, "depth": 2, "domain": domain}
    for fraction in (0.3, 0.0):
        recipe = recipes.oblivious_boost(**common, marginals_fraction=fraction)
        model = dpbt.fit(jax.random.key(0), table, recipe, jax.random.key(1))
        dpbt.save(model, tmp_path / "m.json")
        loaded = dpbt.load(tmp_path / "m.json")
        if not fraction:
            for model_read in (model, loaded):
                with pytest.raises(ValueError, match="released no histograms"):
                    model_read.contributions(columns, background="released")
            continue
        shares = np.array(loaded.about.bin_shares)[0, :4]
        counts = np.histogram(columns["a"], np.arange(5) / 4)[0]
        np.testing.assert_allclose(shares, 0.9 * counts / 400 + 0.1 / 4, atol=0.03)
        background = {"a": shares, "b": np.array(loaded.about.bin_shares)[1, :2]}
        expected = loaded.contributions(columns, background=background)
        for released_model in (model, loaded):
            contributions = released_model.contributions(columns, background="released")
            np.testing.assert_allclose(contributions.values, expected.values, atol=1e-12)
            uniform = released_model.contributions(columns, background="uniform").values
            assert not np.allclose(uniform, contributions.values, atol=1e-3)


def test_a_file_without_the_noise_of_leaves_is_read(tmp_path):
    """Earlier versions wrote such files."""
    model = random_models.MODELS["oblivious"]
    dpbt.save(model, tmp_path / "model.json", domain=random_models.DOMAIN)
    record = json.loads((tmp_path / "model.json").read_text())
    assert {"noise", "smoothing"} < record["arrays"].keys()
    content = file.read_record(
        file._File,
        tmp_path / "model.json",
        format_name=file.FORMAT,
        format_version=file.VERSION,
        description="a saved model",
        remedy="",
    )
    del content.arrays["noise"], content.arrays["smoothing"]
    text = file.encode_record(content, format_name=file.FORMAT, format_version=file.VERSION)
    (tmp_path / "earlier.json").write_bytes(text)
    loaded, earlier = (dpbt.load(tmp_path / f"{name}.json") for name in ("model", "earlier"))
    np.testing.assert_allclose(loaded.hypotheses.noise, model.hypotheses.noise, rtol=1e-3)
    assert not earlier.hypotheses.noise.any()
    rows = random_models.EVERY_ROW[:20]
    np.testing.assert_array_equal(earlier.decision_function(rows), loaded.decision_function(rows))


def test_no_deviation_of_noise_keeps_a_model_from_being_saved(tmp_path):
    """A deviation that 16 bits cannot hold is the largest that they can."""
    model = random_models.MODELS["oblivious"]
    loud_hypotheses = model.hypotheses._replace(
        noise=np.full(model.hypotheses.leaf.shape, 1e9, np.float32)
    )
    loud_model = dataclasses.replace(model, hypotheses=loud_hypotheses)
    dpbt.save(loud_model, tmp_path / "m.json", domain=random_models.DOMAIN)
    assert dpbt.load(tmp_path / "m.json").hypotheses.noise.min() > 60_000
