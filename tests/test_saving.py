"""Saved models: what a file holds, who reads it, and what is refused."""

import base64
import dataclasses
import json
import os
import re
import subprocess
import sys

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


def rows_of(name, columns):
    """Encoded rows, as the model of a name reads them."""
    kind = RECIPE_MAKERS[name][1] if name in RECIPE_MAKERS else {}
    return np.asarray(table_of(columns, **kind).bins)


def words_of(name):
    return None if name in TARGETS else ("no", "yes")


@pytest.fixture(scope="module")
def model():
    return model_of_kind("bdpe")


@pytest.fixture
def saved(model, tmp_path):
    path = tmp_path / "model.json"
    dpbt.save(model, path, domain=DOMAIN, classes=("no", "yes"))
    return path


# One contract for every kind of model.


@pytest.mark.parametrize("name", mark_slow_cases(MODEL_NAMES, slow=["bdpe"]))
def test_a_loaded_model_answers_as_the_fitted_one_bit_for_bit(name, tmp_path):
    model, columns = model_of_kind(name), random_raw_columns(1, 200)
    path, rows = tmp_path / "m.json", rows_of(name, random_raw_columns(1, 200))
    dpbt.save(model, path, domain=DOMAIN, classes=words_of(name))
    loaded = dpbt.load(path)
    assert type(loaded) is type(model)
    both, about = (model, loaded), loaded.about

    score = np.asarray(dpbt.decision_function(model, rows))
    assert np.ptp(score, axis=0).min() > 0
    of_loaded = dpbt.decision_function(loaded, rows)
    assert type(of_loaded) is np.ndarray
    np.testing.assert_array_equal(of_loaded, score)
    np.testing.assert_array_equal(loaded.decision_function(columns), score)
    np.testing.assert_array_equal(dpbt.decision_function(loaded, jnp.asarray(rows)), score)

    answers = np.asarray(dpbt.predict(model, rows))
    np.testing.assert_allclose(dpbt.predict(loaded, rows), answers, rtol=1e-6)
    classes = about.classes
    named = answers if classes is None else np.asarray(classes)[answers.astype(int)]
    assert np.all(loaded.predict(columns) == named) or name in ("number", "count")
    if about.probability is None:
        for each in both:
            with pytest.raises(ValueError, match=re.escape(about.reason)):
                dpbt.predict_proba(each, rows)
    else:
        shares = np.asarray(dpbt.predict_proba(model, rows))
        np.testing.assert_allclose(dpbt.predict_proba(loaded, rows), shares, rtol=1e-5)
        by_class = loaded.predict_proba(columns)
        np.testing.assert_allclose(by_class.sum(axis=1), 1, atol=1e-6)
        np.testing.assert_allclose(by_class, shares, rtol=1e-5)

    assert str(dpbt.ledger(loaded)) == str(dpbt.ledger(model)) == loaded.loaded_facts.ledger
    assert dpbt.statement(model) == loaded.loaded_facts.statement
    assert dpbt.statement(loaded).endswith(loaded.loaded_facts.statement.split("\n\n", 1)[1])
    if model.splits is not None:
        assert dpbt.explain(loaded) == dpbt.explain(model, DOMAIN)

    if about.probability == "shares":
        for voting in VOTINGS:
            votes = [dpbt.predict(each, rows, voting, jax.random.key(1)) for each in both]
            np.testing.assert_array_equal(*votes)

    # Saved again, without a file or from it.
    before = path.read_bytes()
    for kept in (without_training_parts(model), loaded):
        dpbt.save(kept, path, domain=DOMAIN, classes=words_of(name))
        assert path.read_bytes() == before


WITHOUT_JAX = """
import json, sys
for name in ("jax", "jaxlib", "scipy", "optax", "chex", "dp_accounting", "pandas"):
    sys.modules[name] = None  # importing it raises
import numpy as np
import dpbt
columns, found = json.load(open("rows.json")), {}
for name in sys.argv[1:]:
    model = dpbt.load(f"{name}.json")
    model.predict(columns)
    found[name] = model.decision_function(columns)
    if model.about.probability is not None:
        model.predict_proba(columns)
    if model.splits is not None:
        assert dpbt.explain(model)
np.savez("found.npz", **found)
"""


def test_numpy_alone_reads_raw_columns_as_the_library_does(tmp_path):
    columns = random_raw_columns(1, 200)
    (tmp_path / "rows.json").write_text(json.dumps(columns))
    for name in MODEL_NAMES:
        dpbt.save(model_of_kind(name), tmp_path / f"{name}.json", domain=DOMAIN)
    command = [sys.executable, "-c", WITHOUT_JAX, *MODEL_NAMES]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    found = np.load(tmp_path / "found.npz")
    for name in MODEL_NAMES:
        score = dpbt.decision_function(model_of_kind(name), rows_of(name, columns))
        np.testing.assert_array_equal(found[name], score)


@pytest.mark.slow
def test_predictions_of_swept_models_are_those_of_each():
    """Under vmap and jit, with gradients of scores."""
    model, other = model_of_kind("several"), rows_of("several", random_raw_columns(1, 70))
    halved = dataclasses.replace(
        model, hypotheses=model.hypotheses._replace(leaf=model.hypotheses.leaf / 2)
    )
    swept = jax.tree.map(lambda *arrays: jnp.stack(arrays), model, halved)
    for ask in (dpbt.decision_function, dpbt.predict_proba):
        found = jax.jit(jax.vmap(lambda model, ask=ask: ask(model, other)))(swept)
        for number in range(2):
            one = jax.tree.map(lambda array, number=number: array[number], swept)
            np.testing.assert_allclose(found[number], ask(one, other), rtol=1e-5, atol=1e-6)

    def total(start):
        return jnp.sum(dpbt.decision_function(dataclasses.replace(one, intercept=start), other))

    np.testing.assert_array_equal(jax.grad(total)(one.intercept), 70.0)


# Rows.


def test_rows_come_in_many_containers(saved):
    found, columns = dpbt.load(saved), random_raw_columns(3, 40)
    expected = found.decision_function(columns)

    frame, encoded = Frame({**columns, "unread": columns["age"]}), domains.encode(DOMAIN, columns)
    for rows in (frame, encoded):
        np.testing.assert_array_equal(found.decision_function(rows), expected)
    assert found.predict_proba({name: [] for name in DOMAIN}).shape == (0, 2)
    for wrong, words in [
        ({"age": [1]}, "lacks columns"),
        (np.zeros((2, 7)), "reads rows of uint8"),
        (np.zeros((2, 3), np.uint8), "features"),
        ("text", "columns by name"),
        ([[1, 2]], "columns by name"),
    ]:
        with pytest.raises(ValueError, match=words):
            found.decision_function(wrong)


def test_rows_in_parts_give_the_same(saved, monkeypatch):
    found, columns = dpbt.load(saved), random_raw_columns(4, 100)
    expected = found.predict_proba(columns)
    monkeypatch.setattr(scoring, "BLOCK_ROWS", 7)
    np.testing.assert_array_equal(found.predict_proba(columns), expected)


def test_no_warning_tells_of_a_row_of_zeros():
    """Warnings are errors here."""
    rows = EncodedRows(np.array([[0, 0], [1, 0], [3, 4]], np.float32), None)
    found = HALFSPACES.predict(Halfspace(np.float32([0.5, -0.25])), HALFSPACES.read_rows(rows))
    np.testing.assert_allclose(found, [0, 0.5, 0.1], atol=1e-6)


def test_a_model_without_a_domain_reads_encoded_rows(model, tmp_path):
    dpbt.save(dataclasses.replace(model, domain=None), tmp_path / "m.json")
    found, columns = dpbt.load(tmp_path / "m.json"), random_raw_columns(5, 30)
    encoded = domains.encode(DOMAIN, columns)
    np.testing.assert_array_equal(found.predict(encoded), dpbt.predict(model, encoded))
    assert dpbt.explain(found, DOMAIN) == dpbt.explain(model, DOMAIN)
    with pytest.raises(ValueError, match="without a domain"):
        found.decision_function(columns)
    with pytest.raises(ValueError, match="no domain of its own"):
        dpbt.explain(found)


def test_classes_keep_their_names_and_types_and_others_are_refused(model, tmp_path):
    for classes in ((0, 1), (">50K", "<=50K\ud800\n"), (0.5, "x")):
        dpbt.save(model, tmp_path / "m.json", domain=DOMAIN, classes=np.array(classes, object))
        found, columns = dpbt.load(tmp_path / "m.json"), random_raw_columns(6, 60)
        answers = found.predict(columns).tolist()
        assert answers == [classes[int(yes)] for yes in found.decision_function(columns) > 0]
        assert {type(answer) for answer in answers} <= {type(word) for word in classes}
    for classes in (("a",), "ab", (1, 1.0), (float("nan"), 1.0), ([1], 2)):
        with pytest.raises(ValueError, match="classes must"):
            dpbt.save(model, tmp_path / "other.json", classes=classes)
    assert not (tmp_path / "other.json").exists()


def test_words_of_several_classes_and_of_numbers_are_what_leaves_add():
    model = model_of_kind("several")
    words = dpbt.explain(model, DOMAIN).splitlines()
    assert words[0].startswith("every row starts with low ")
    starts = [float(part.split()[-1]) for part in words[0].partition(";")[0].split(", ")]
    np.testing.assert_allclose(starts, model.intercept, atol=1e-4)
    leaves = np.asarray(model.hypotheses.leaf)
    for number, name in enumerate(TARGETS["several"].values):
        lines = [line for line in words if line.startswith(f"  {name}: nn ")]
        shown = [[float(part.split()[-1]) for part in line.split(", ")] for line in lines]
        np.testing.assert_allclose(shown, leaves[:, number], atol=1e-4)

    model, width = model_of_kind("number"), 25
    words = dpbt.explain(model, DOMAIN).splitlines()
    start = -5 + width * float(model.intercept)
    assert float(words[0].split()[-1]) == pytest.approx(start, rel=1e-3)
    shown = [float(line.split()[-1]) for line in words if ": add " in line]
    np.testing.assert_allclose(shown, width * np.ravel(model.hypotheses.leaf), rtol=1e-3)


# The file.


def test_a_file_holds_no_key_no_transcript_and_no_rows(tmp_path):
    """Neither in its names nor, for the noisy counts, in its numbers."""
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


def test_a_changed_or_shorter_file_is_refused_by_name(saved):
    whole = saved.read_text()
    digits = [match.start() for match in re.finditer(r"\d", whole)]
    changes = [
        whole[:place] + ("8" if whole[place] == "7" else "7") + whole[place + 1 :]
        for place in digits[:: max(len(digits) // 20, 1)]
    ]
    content = json.loads(whole)
    changes = [text for text in changes if json.loads(text) != content]  # not a 17th digit
    content["domain"] = dict(reversed(content["domain"].items()))
    cut_off = [whole[:size] for size in (0, 1, 50, len(whole) // 2, len(whole) - 2)]
    for text in (*changes, *cut_off, json.dumps(content)):
        saved.write_text(text)
        with pytest.raises(ValueError, match=re.escape(str(saved))) as error:
            dpbt.load(saved)
        assert "\n" not in str(error.value)


def resealed(path, change):
    """The file with its content changed, and a checksum that fits."""
    content = json.loads(path.read_text())
    change(content)
    content.pop("checksum", None)
    content["checksum"] = storage.checksum_of_json(content)
    path.write_text(json.dumps(content))


def _array(content, name):
    return content["arrays"][name]


def _first(content, name, number):
    array = _array(content, name)
    kept = bytearray(base64.b64decode(array["values"]))
    kept[: number.nbytes] = number.tobytes()
    array["values"] = base64.b64encode(kept).decode()


CRAFTED = {
    "a split that no split has": lambda c: _first(c, "split", np.int32(10**6)),
    "a leaf that is infinite": lambda c: _first(c, "leaf", np.float32(np.inf)),
    "a leaf of two bytes": lambda c: _array(c, "leaf").update(values="AAAA"),
    "trees that are not complete": lambda c: _array(c, "leaf").update(shape=[4, 3]),
    "a shape without end": lambda c: _array(c, "leaf").update(shape=[2**40, 2**40, 0]),
    "no trees": lambda c: [
        _array(c, name).update(shape=[0, k], values="") for name, k in (("split", 3), ("leaf", 4))
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


def test_a_file_with_a_checksum_of_its_own_is_refused_if_it_is_no_model(saved):
    whole = saved.read_text()
    resealed(saved, lambda content: None)
    dpbt.load(saved)
    for change in CRAFTED.values():
        saved.write_text(whole)
        resealed(saved, change)
        with pytest.raises(ValueError, match=re.escape(f"{saved}: ")) as error:
            dpbt.load(saved)
        assert "\n" not in str(error.value)


def test_a_mechanism_of_your_own_keeps_its_words_and_its_costs(saved):
    def rename(content):
        content["privacy"]["lines"][0]["mechanism"] = "my_noise"

    resealed(saved, rename)
    found = dpbt.load(saved)
    assert "total: epsilon = 1" in found.loaded_facts.ledger
    assert "my_noise" in str(dpbt.ledger(found))
    with pytest.raises(ValueError, match="'my_noise', whose price no ledger keeps"):
        dpbt.statement(found, max_rows_per_user=2)


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
    own, path = dataclasses.replace(model, recipe=recipe), tmp_path / "m.json"
    rows = rows_of("bdpe", random_raw_columns(1, 20))
    expected = np.asarray(dpbt.predict_proba(own, rows))
    dpbt.save(own, path)
    for name in ("m.json", "again.json"):  # a loaded model can be saved, with its loss or without
        bare = dpbt.load(tmp_path / name)
        np.testing.assert_array_equal(
            np.asarray(dpbt.decision_function(bare, rows)),
            np.asarray(dpbt.decision_function(own, rows)),
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
    def replaced(**changes):
        return dataclasses.replace(model, recipe=dataclasses.replace(model.recipe, **changes))

    def losing(loss):
        return replaced(weight_update=dataclasses.replace(model.recipe.weight_update, loss=loss))

    dpbt.save(losing(None), tmp_path / "m.json")
    with pytest.raises(ValueError, match="vote without a link"):
        dpbt.load(tmp_path / "m.json").predict_proba(np.zeros((1, len(DOMAIN)), np.uint8))

    kind = dataclasses.replace(TREES, predict=lambda tree, rows: -TREES.predict(tree, rows))
    own = replaced(learner=dataclasses.replace(model.recipe.learner, kind=kind))
    with pytest.raises(ValueError, match=r"hypotheses of bdpe are of your own"):
        dpbt.save(own, tmp_path / "own.json")
    # A kind that lacks what loading needs is refused, whoever put it among those of files.
    unchecked = dataclasses.replace(kind, name="unchecked", check_arrays=None, training=None)
    monkeypatch.setitem(kinds.KINDS, "unchecked", unchecked)
    of_unchecked = dataclasses.replace(unchecked, training=kind.training)
    listed = replaced(learner=dataclasses.replace(model.recipe.learner, kind=of_unchecked))
    with pytest.raises(ValueError, match=r"hypotheses of bdpe are of your own"):
        dpbt.save(listed, tmp_path / "own.json")
    assert not (tmp_path / "own.json").exists()
    rows = rows_of("bdpe", random_raw_columns(1, 20))
    of_own, usual = (np.asarray(dpbt.decision_function(each, rows)) for each in (own, model))
    np.testing.assert_array_equal(of_own, -usual)

    leaf = jnp.asarray(model.hypotheses.leaf).at[0, 0].set(jnp.inf)
    broken = dataclasses.replace(model, hypotheses=model.hypotheses._replace(leaf=leaf))
    with pytest.raises(ValueError, match="leaf holds a number that is infinite"):
        dpbt.save(broken, tmp_path / "m.json")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "mine"}, "KINDS has no kind of the name 'mine'; add yours"),
        ({}, "KINDS has another kind of the name 'trees'; give yours a name of its own"),
        ({"describe": None}, "have no words: their kind has no `describe`"),
    ],
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
    found, rows = dpbt.load(tmp_path / "m.json"), rows_of("bdpe", random_raw_columns(1, 50))
    assert found.hypotheses.leaf.shape[0] == 1
    np.testing.assert_array_equal(
        dpbt.decision_function(found, rows), dpbt.decision_function(model, rows)
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
            for each in (model, loaded):
                with pytest.raises(ValueError, match="released no histograms"):
                    each.contributions(columns, background="released")
            continue
        shares = np.array(loaded.about.bin_shares)[0, :4]
        counts = np.histogram(columns["a"], np.arange(5) / 4)[0]
        np.testing.assert_allclose(shares, 0.9 * counts / 400 + 0.1 / 4, atol=0.03)
        background = {"a": shares, "b": np.array(loaded.about.bin_shares)[1, :2]}
        expected = loaded.contributions(columns, background=background)
        for each in (model, loaded):
            found = each.contributions(columns, background="released")
            np.testing.assert_allclose(found.values, expected.values, atol=1e-12)
            uniform = each.contributions(columns, background="uniform").values
            assert not np.allclose(uniform, found.values, atol=1e-3)


def test_a_file_without_the_noise_of_leaves_is_read(tmp_path):
    """As an earlier version wrote it."""
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
    loud = model.hypotheses._replace(noise=np.full(model.hypotheses.leaf.shape, 1e9, np.float32))
    loud = dataclasses.replace(model, hypotheses=loud)
    dpbt.save(loud, tmp_path / "m.json", domain=random_models.DOMAIN)
    assert dpbt.load(tmp_path / "m.json").hypotheses.noise.min() > 60_000
