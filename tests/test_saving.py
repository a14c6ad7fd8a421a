"""Saved models: what a file holds, what reads it, and what is refused."""

import dataclasses
import json
import os
import pickle
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import losses, modelfiles, reader, recipes
from dpbt.base import HypothesisClass
from dpbt.data import domains
from dpbt.data.domains import Boolean, Nominal, Numeric
from dpbt.learners.trees import TREES
from dpbt.privacy import keys
from tests import contract

ROOT = Path(__file__).parent.parent

DOMAIN = {
    "age": Numeric(15, 95, bins=8, missing=True),
    "gain": Numeric(0, 1e5, bins=6, scale="log"),
    "hours": Numeric(0, 99, cuts=(20.5, 40)),
    'job "x"\n\u2028': Nominal(("a", "b", "c", "\ud800"), other="c", groups={"ab": ("a", "b")}),
    "town": Nominal(("Köln", "NA", "3")),
    "class": Nominal(("low", "mid", "top"), ordered=True),
    "sex": Boolean("m", "f", missing=True),
}


def raw_rows(seed: int, rows: int) -> dict[str, list]:
    """Columns of random cells, with missing ones and ones that are not declared."""
    rng = np.random.default_rng(seed)
    odd = [None, "NA", "", "?", "zebra", "1e400", "-inf", "nan", True, -1, 7.25, "03", "3.0"]
    usual = {
        "age": rng.uniform(0, 110, rows).tolist(),
        "gain": (10 ** rng.uniform(-1, 6, rows)).tolist(),
        "hours": rng.integers(0, 120, rows).tolist(),
        'job "x"\n\u2028': rng.choice(["a", "b", "c", "d"], rows).tolist(),
        "town": rng.choice(["Köln", "NA", "3", "Rom"], rows).tolist(),
        "class": rng.choice(["low", "mid", "top"], rows).tolist(),
        "sex": rng.choice(["m", "f", "x"], rows).tolist(),
    }
    for cells in usual.values():
        for place in np.flatnonzero(rng.random(rows) < 0.2):
            cells[place] = odd[rng.integers(len(odd))]
    return usual


def table_of(columns, exact=False, codes=False):
    labels = np.arange(len(columns["age"])) % 3 == 0
    return dpbt.table(DOMAIN, columns, labels, exact=exact, codes=codes)


COMMON = {"epsilon": 1.0, "rows": 60, "rounds": 3}
MADE = {
    "bdpe": (lambda: recipes.bdpe(**COMMON, depth=2, criterion="gini"), {}),
    "oblivious": (lambda: recipes.oblivious_boost(**COMMON, domain=DOMAIN, depth=3), {}),
    "auto": (lambda: recipes.auto(epsilon=1.0, rows=60, domain=DOMAIN, delta=1e-4), {}),
    "forest": (lambda: recipes.random_forest(**COMMON, depth=3), {}),
    "forest-exact": (lambda: recipes.random_forest(**COMMON, depth=3), {"exact": True}),
    "forest-codes": (
        lambda: recipes.random_forest(**COMMON, depth=3),
        {"exact": True, "codes": True},
    ),
    "rules": (lambda: recipes.lazybb_rules(**COMMON, density=0.5), {}),
    "halfspace": (lambda: recipes.halfspace_boost(**COMMON, delta=1e-4), {}),
    "halfspace-exact": (lambda: recipes.halfspace_boost(**COMMON, delta=1e-4), {"exact": True}),
}

VOTES = {"rules", "halfspace", "halfspace-exact"}
"""Recipes whose scores define no probability."""


def fitted(name, seed=0):
    make, kind = MADE[name]
    table = table_of(raw_rows(seed, 50), **kind)
    recipe = make()
    key, public_key = keys.pair(jax.random.key(seed))
    fit = dpbt.forests.fit if name.startswith("forest") else dpbt.fit
    return fit(key, table, recipe, public_key), recipe


@pytest.fixture(scope="module")
def model():
    return fitted("bdpe")[0]


@pytest.fixture
def saved(model, tmp_path):
    path = tmp_path / "model.json"
    model.save(path, domain=DOMAIN, classes=("no", "yes"))
    return path


WITHOUT_JAX = """
import json, sys
for name in ("jax", "jaxlib", "scipy", "optax", "chex", "dp_accounting", "pandas"):
    sys.modules[name] = None  # importing it raises
import numpy as np
from dpbt import reader
model = reader.load(sys.argv[1])
columns = json.load(open(sys.argv[2]))
try:
    probability = model.predict_proba(columns)
except ValueError as error:
    probability = str(error)
np.savez(sys.argv[3], score=model.decision_function(columns), probability=probability,
         classes=model.predict(columns))
"""


@pytest.mark.parametrize("name", MADE)
def test_numpy_alone_reads_raw_columns_as_the_library_does(name, tmp_path):
    model, _ = fitted(name)
    model.save(tmp_path / "m.json", domain=DOMAIN, classes=("no", "yes"))
    columns, kind = raw_rows(1, 200), MADE[name][1]
    (tmp_path / "rows.json").write_text(json.dumps(columns))
    command = [sys.executable, "-c", WITHOUT_JAX, "m.json", "rows.json", "found.npz"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)

    rows = table_of(columns, **kind)
    score = np.asarray(dpbt.decision_function(model, rows))
    found = np.load(tmp_path / "found.npz")
    assert np.ptp(score) > 0
    np.testing.assert_allclose(found["score"], score, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(found["classes"] == "yes", found["score"] > 0)
    loaded = dpbt.load(tmp_path / "m.json")
    assert str(dpbt.ledger(loaded)) == str(dpbt.ledger(model)) == loaded.ledger
    assert dpbt.statement(loaded) == dpbt.statement(model) == loaded.statement
    if name in VOTES:
        with pytest.raises(ValueError, match=re.escape(str(found["probability"]))):
            dpbt.predict_proba(model, rows)
        return
    probability = np.asarray(dpbt.predict_proba(model, rows))
    np.testing.assert_allclose(found["probability"][:, 1], probability, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found["probability"].sum(axis=1), 1, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("row", contract.ROWS, ids=lambda row: row.name)
def test_the_models_of_all_recipes_come_back(row, tmp_path):
    settings = {"epsilon": 2.0, "rows": 60, "depth": 2}
    if "disjoint" not in row.name:
        settings["rounds"] = 3
    recipe, table = row.recipe("add_remove", **settings), row.table(0, 50, 3, 5)
    key, public_key = keys.pair(jax.random.key(3))
    model = dpbt.fit(key, table, recipe, public_key)
    model.save(tmp_path / "m.json")
    found = dpbt.load(tmp_path / "m.json")

    score = np.asarray(dpbt.decision_function(model, table))
    cells = np.asarray(table.cells)
    np.testing.assert_allclose(found.decision_function(cells), score, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(dpbt.decision_function(found, table), found.scores_of(cells))
    np.testing.assert_array_equal(dpbt.predict(found, table), dpbt.predict(model, table))
    assert str(dpbt.ledger(found)) == str(dpbt.ledger(model)) == found.ledger
    assert dpbt.ledger(found).epsilon == dpbt.ledger(model).epsilon
    assert dpbt.statement(found) == dpbt.statement(model) == found.statement


def test_the_library_takes_a_saved_model(tmp_path):
    model, _ = fitted("forest")
    model.save(tmp_path / "m.json", domain=DOMAIN)
    found = dpbt.load(tmp_path / "m.json")
    rows = table_of(raw_rows(2, 30))
    coins = jax.random.key(1)
    for voting in ("majority", "threshold", "probabilistic"):
        np.testing.assert_array_equal(
            dpbt.predict(found, rows, voting, coins), dpbt.predict(model, rows, voting, coins)
        )
    np.testing.assert_allclose(
        dpbt.predict_proba(found, rows), dpbt.predict_proba(model, rows), rtol=1e-6
    )
    assert dpbt.explain(found) == dpbt.explain(model, DOMAIN)
    with pytest.raises(ValueError, match="features"):
        dpbt.predict(found, np.zeros((2, 3), np.uint8))
    with pytest.raises(ValueError, match="saved already"):
        dpbt.save(found, tmp_path / "again.json")


def test_rows_come_in_many_containers(saved):
    found, columns = reader.load(saved), raw_rows(3, 40)
    expected = found.decision_function(columns)
    of_rows = zip(*columns.values(), strict=True)
    listed = [dict(zip(columns, cells, strict=True)) for cells in of_rows]

    class Frame:
        """What a data frame has: an index of names, and columns by name."""

        columns = (*DOMAIN, "unread")

        def __getitem__(self, name):
            return columns[name]

    for rows in (listed, Frame(), domains.encode(DOMAIN, columns)):
        np.testing.assert_array_equal(found.decision_function(rows), expected)
    assert found.decision_function([]).shape == (0,)
    assert found.predict_proba({name: [] for name in DOMAIN}).shape == (0, 2)
    for row in listed:
        del row["age"]
    for wrong, words in [
        (listed, "lacks columns"),
        ({"age": [1]}, "lacks columns"),
        (np.zeros((2, 7)), "encoded rows of uint8"),
        ("text", "columns by name"),
        ([[1, 2]], "columns by name"),
    ]:
        with pytest.raises(ValueError, match=words):
            found.decision_function(wrong)


def test_rows_in_parts_give_the_same(saved, monkeypatch):
    found, columns = reader.load(saved), raw_rows(4, 100)
    expected = found.predict_proba(columns)
    monkeypatch.setattr(reader, "BLOCK_ROWS", 7)
    np.testing.assert_array_equal(found.predict_proba(columns), expected)


def test_no_warning_tells_of_a_row_of_zeros():
    """Warnings are errors here."""
    halfspaces = reader.Halfspaces(np.array([[0.5, -0.25]], np.float32))
    rows = np.array([[0, 0], [1, 0], [3, 4]], np.float32)
    found = reader.KINDS["halfspaces"].score(halfspaces, reader.Rows(rows, None))
    np.testing.assert_allclose(found, [0, 0.5, 0.1], atol=1e-6)


def test_a_model_without_a_domain_reads_encoded_rows(model, tmp_path):
    model.save(tmp_path / "m.json")
    found, columns = dpbt.load(tmp_path / "m.json"), raw_rows(5, 30)
    encoded = domains.encode(DOMAIN, columns)
    np.testing.assert_array_equal(
        found.decision_function(encoded), dpbt.decision_function(model, encoded)
    )
    assert found.predict(encoded).dtype == bool
    assert dpbt.explain(found, DOMAIN) == dpbt.explain(model, DOMAIN)
    with pytest.raises(ValueError, match="without a domain"):
        found.decision_function(columns)
    with pytest.raises(ValueError, match="a domain must map"):
        dpbt.explain(found)


@pytest.mark.parametrize("classes", [(0, 1), (">50K", "<=50K\ud800\n"), (False, True), (0.5, "x")])
def test_classes_keep_their_names_and_types(model, tmp_path, classes):
    model.save(tmp_path / "m.json", domain=DOMAIN, classes=np.array(classes, object))
    found = dpbt.load(tmp_path / "m.json")
    columns = raw_rows(6, 60)
    answers = found.predict(columns).tolist()
    positive = found.decision_function(columns) > 0
    assert answers == [classes[int(yes)] for yes in positive]
    assert {type(answer) for answer in answers} <= {type(word) for word in classes}


@pytest.mark.parametrize(
    "classes", [("a", "a"), ("a",), "ab", (1, 1.0), (float("nan"), 1.0), ([1], 2), None.__class__]
)
def test_other_classes_are_refused(model, tmp_path, classes):
    with pytest.raises(ValueError, match="classes must"):
        model.save(tmp_path / "m.json", classes=classes)
    assert list(tmp_path.iterdir()) == []


def test_a_file_holds_no_key_no_transcript_and_no_rows(tmp_path):
    """Neither in its names nor, for the noisy counts, in its numbers."""
    key = dpbt.fresh_key()
    recipe = recipes.random_forest(epsilon=1.0, rows=60, rounds=3, depth=2, disjoint=True)
    table = table_of(raw_rows(7, 57))
    model = dpbt.fit(key, table, recipe, dpbt.fresh_key(), keep_withheld=True)
    model.save(tmp_path / "m.json", domain=DOMAIN)
    text = (tmp_path / "m.json").read_text()
    content = json.loads(text)
    assert set(content) == {
        *("format", "format_version", "name", "calibration", "setting", "versions", "statement"),
        *("ledger", "privacy", "classes", "probability", "rows", "intercept", "hypotheses"),
        "checksum",
    }
    assert set(content["hypotheses"]) == {"kind", "attribute", "threshold", "leaf"}
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


def test_equal_models_give_equal_bytes_and_a_save_replaces_the_whole_file(model, saved):
    before = saved.read_bytes()
    model.save(saved, domain=DOMAIN, classes=("no", "yes"))
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["model.json"]


def edited(path, old, new, count=1):
    text = path.read_text()
    assert re.search(old, text)
    path.write_text(re.sub(old, new, text, count=count))


def test_every_changed_digit_is_noticed(saved):
    text = saved.read_text()
    places = [match.start() for match in re.finditer(r"\d", text)]
    for place in places[:: max(len(places) // 150, 1)]:
        digit = "8" if text[place] == "7" else "7"
        saved.write_text(text[:place] + digit + text[place + 1 :])
        with pytest.raises(ValueError, match=re.escape(str(saved))) as error:
            dpbt.load(saved)
        assert "\n" not in str(error.value)


def test_a_file_that_was_cut_off_is_refused(saved):
    content = saved.read_bytes()
    for size in [0, 1, 50, *range(100, len(content) - 2, 997), len(content) - 2]:
        saved.write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"cut off|empty") as error:
            dpbt.load(saved)
        assert str(saved) in str(error.value)
        assert "\n" not in str(error.value)


def resealed(path, change):
    """The file with its content changed, and a checksum that fits."""
    content = json.loads(path.read_text())
    change(content)
    content.pop("checksum", None)
    content["checksum"] = modelfiles.checksum(content)
    path.write_text(json.dumps(content))


def test_columns_in_another_order_are_noticed(saved):
    content = json.loads(saved.read_text())
    columns = content["rows"]["domain"]
    content["rows"]["domain"] = dict(reversed(columns.items()))
    saved.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="checksum"):
        dpbt.load(saved)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "lacks"),
        ("{}", "lacks"),
        ("3", "lacks"),
        ('{"format": "dpbt model", "format_version": 3}', "newer dpbt"),
        ('{"format": "dpbt model", "format_version": 99, "new": {"a": 1}}', "newer dpbt"),
        ('{"format": "dpbt model", "format_version": true}', "format_version"),
        ('{"format": "dpbt model", "format_version": "1"}', "format_version"),
        ('{"format": "dpbt model", "format_version": 1}', "checksum"),
        ('{"format": "dpbt model", "format_version": 1, "format": "dpbt model"}', "twice"),
        ('{"format": "dpbt model", "format_version": 1, "a": NaN}', "NaN"),
        ('{"format": "dpbt model", "format_version": 1, "a": -Infinity}', "Infinity"),
        ('{"format": "dpbt model", "format_version": 1, "a": 1e999}', "infinite"),
        ('{"a": ' + "[" * 100_000, "nested"),
        ("PK\x03\x04", "no JSON"),
        ('{"a": ' + "9" * 5000 + "}", "digits"),
    ],
)
def test_foreign_and_newer_files_are_refused(tmp_path, text, words):
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=words) as error:
        dpbt.load(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "m.json").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(ValueError, match="no text"):
        dpbt.load(tmp_path / "m.json")


CRAFTED = {
    "a split that no question has": lambda c: c["hypotheses"]["split"][0].__setitem__(0, 10**6),
    "a split below unsplit": lambda c: c["hypotheses"]["split"][0].__setitem__(0, -2),
    "a split that is no integer": lambda c: c["hypotheses"]["split"][0].__setitem__(0, 0.5),
    "a leaf that is text": lambda c: c["hypotheses"]["leaf"][0].__setitem__(0, "1"),
    "a leaf beyond float32": lambda c: c["hypotheses"]["leaf"][0].__setitem__(0, 1e300),
    "a tree that is not complete": lambda c: c["hypotheses"]["leaf"][0].pop(),
    "trees of two sizes": lambda c: [row.pop() for row in c["hypotheses"]["leaf"]],
    "no trees": lambda c: c["hypotheses"].update(split=[], leaf=[]),
    "another kind": lambda c: c["hypotheses"].update(kind="pickle"),
    "a kind of other arrays": lambda c: c["hypotheses"].update(kind="groves"),
    "more features": lambda c: c["rows"].update(features=8),
    "features that are no number": lambda c: c["rows"].update(features="7"),
    "another dtype": lambda c: c["rows"].update(dtype="float32"),
    "an unknown dtype": lambda c: c["rows"].update(dtype="object"),
    "no domain and no questions": lambda c: c["rows"].update(domain=None),
    "a domain that is a list": lambda c: c["rows"].update(domain=[1]),
    "a column of no kind": lambda c: c["rows"]["domain"].update(age={"type": "code"}),
    "an unknown loss": lambda c: c["probability"].update(by="mine"),
    "no reason": lambda c: c.update(probability={}),
    "shares of trees": lambda c: c["probability"].update(by="shares"),
    "an intercept of text": lambda c: c.update(intercept="x"),
    "three classes": lambda c: c.update(classes=["a", "b", "c"]),
    "equal classes": lambda c: c.update(classes=["a", "a"]),
    "a ledger of numbers": lambda c: c.update(ledger=[1]),
    "no statement": lambda c: c.pop("statement"),
    "a statement of null": lambda c: c.update(statement=None),
    "versions of numbers": lambda c: c.update(versions=3),
}


@pytest.mark.parametrize("change", CRAFTED)
def test_a_file_with_a_checksum_of_its_own_is_refused_if_it_is_no_model(saved, change):
    resealed(saved, lambda content: None)
    dpbt.load(saved)
    resealed(saved, CRAFTED[change])
    with pytest.raises(ValueError, match=re.escape(f"{saved}: ")) as error:
        dpbt.load(saved)
    assert "\n" not in str(error.value)


def test_paths_that_cannot_be_written_are_refused(model, tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match=r"folder: a folder"):
        model.save(tmp_path / "folder")
    with pytest.raises(ValueError, match="path must be"):
        model.save(3)
    with pytest.raises(ValueError, match="path must be"):
        dpbt.load(None)
    (tmp_path / "file").write_text("kept")
    with pytest.raises(OSError, match=r"file.m\.json"):
        model.save(tmp_path / "file" / "m.json")
    with pytest.raises(IsADirectoryError):
        dpbt.load(tmp_path / "folder")
    with pytest.raises(FileNotFoundError):
        dpbt.load(tmp_path / "nothing.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_a_failed_save_leaves_the_file_as_it_was(model, saved, monkeypatch):
    before = saved.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match=r"No space left on device.*model\.json"):
        model.save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["model.json"]


def test_another_domain_is_refused(model, tmp_path):
    other = {**DOMAIN, "age": Numeric(15, 95, bins=9, missing=True)}
    fewer = {name: DOMAIN[name] for name in list(DOMAIN)[:-1]}
    for domain in (other, fewer, dict(reversed(DOMAIN.items()))):
        with pytest.raises(ValueError, match="other questions"):
            model.save(tmp_path / "m.json", domain=domain)
    numbered = dict(enumerate(DOMAIN.values()))
    with pytest.raises(ValueError, match="names of columns must be text"):
        model.save(tmp_path / "m.json", domain=numbered)
    assert list(tmp_path.iterdir()) == []


def replaced(model, **changes):
    return dataclasses.replace(model, recipe=dataclasses.replace(model.recipe, **changes))


def test_a_mechanism_of_your_own_keeps_its_words_but_not_its_price(saved):
    def rename(content):
        content["privacy"]["lines"][0]["mechanism"] = "my_noise"

    resealed(saved, rename)
    found = dpbt.load(saved)
    assert "total: epsilon = 1" in found.ledger
    with pytest.raises(ValueError, match=r"'my_noise'.*read the ledger as text"):
        dpbt.ledger(found)


def test_a_loaded_model_can_be_pickled(saved):
    found = dpbt.load(saved)
    again, columns = pickle.loads(pickle.dumps(found)), raw_rows(8, 20)
    np.testing.assert_array_equal(again.predict_proba(columns), found.predict_proba(columns))


def test_functions_of_your_own_are_refused_by_name(model, tmp_path):
    own = losses.fixed(losses.log._replace(name="my_loss", inverse_link=lambda z: 1 / (1 + 2**-z)))
    with pytest.raises(ValueError, match=r"the loss my_loss is your own.*loss=None"):
        replaced(model, loss=own).save(tmp_path / "m.json")
    replaced(model, loss=None).save(tmp_path / "m.json")
    with pytest.raises(ValueError, match="vote without a link"):
        dpbt.load(tmp_path / "m.json").predict_proba(np.zeros((1, len(DOMAIN)), np.uint8))

    kind: HypothesisClass = TREES._replace(predict=lambda tree, rows: -TREES.predict(tree, rows))
    learner = model.recipe.learner._replace(hypotheses=kind)
    with pytest.raises(ValueError, match=r"hypotheses of bdpe are of your own"):
        replaced(model, learner=learner).save(tmp_path / "own.json")
    assert not (tmp_path / "own.json").exists()


def test_hypotheses_that_are_not_finite_are_refused(model, tmp_path):
    leaf = jnp.asarray(model.hypotheses.leaf).at[0, 0].set(jnp.inf)
    broken = dataclasses.replace(model, hypotheses=model.hypotheses._replace(leaf=leaf))
    with pytest.raises(ValueError, match="leaf holds a number that is infinite"):
        broken.save(tmp_path / "m.json")


def test_only_the_rounds_of_a_recipe_are_kept(tmp_path):
    recipe = recipes.bdpe(epsilon=1.0, rows=60, rounds=[1, 3], depth=2, criterion="gini")
    recipe = recipes.setting(recipe, 0)
    model = dpbt.fit(jax.random.key(0), table_of(raw_rows(0, 50)), recipe)
    assert model.hypotheses.leaf.shape[0] == 3
    model.save(tmp_path / "m.json", domain=DOMAIN)
    found = dpbt.load(tmp_path / "m.json")
    assert found.hypotheses.leaf.shape[0] == 1
    rows = table_of(raw_rows(1, 50))
    np.testing.assert_array_equal(
        dpbt.decision_function(found, rows), dpbt.decision_function(model, rows)
    )


def test_numbers_come_back_bit_for_bit():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 20_000, np.uint64).astype(np.uint32).view(np.float32)
    numbers = np.concatenate([bits[np.isfinite(bits)], np.float32([0, -0.0, 1e-45, 3.4028235e38])])
    listed = json.loads(json.dumps(modelfiles.from_array("x", numbers)))
    found = modelfiles.to_array("x", listed, np.float32, 1)
    np.testing.assert_array_equal(found.view(np.uint32), numbers.view(np.uint32))


def test_every_column_comes_back_from_json():
    for name, column in DOMAIN.items():
        entry = json.loads(json.dumps(domains.column_to_json(name, column)))
        assert domains.column_from_json(name, entry) == column
    with pytest.raises(ValueError, match="column 'x': low, high and cuts"):
        domains.column_to_json("x", Numeric(Fraction(1, 3), 2))


def test_a_grid_of_many_trees_stays_small(tmp_path):
    """A forest of 100 trees of depth 8 takes 25 bytes a node, and not the 256 cells of each."""
    rng = np.random.default_rng(0)
    content = {"leaf": modelfiles.from_array("leaf", rng.random((100, 256), np.float32))}
    modelfiles.write(tmp_path / "m.json", content)
    assert (tmp_path / "m.json").stat().st_size < 25 * 100 * 256
