"""Estimators of several classes and of numbers; weights of rows, and monotone columns."""

import functools
import json
import warnings

import numpy as np
import pytest

import dpbt
from dpbt.data.domains import Nominal, Numeric
from dpbt.privacy.keys import ResearchKeyWarning
from dpbt.sklearn import (
    PrivateBoostingClassifier,
    PrivateBoostingRegressor,
    PrivateForestClassifier,
)
from tests.tables import seeded

SMALL = functools.partial(dpbt.recipes.oblivious_boost, rounds=4, depth=2)
DOMAIN = {"a": Numeric(0, 1, bins=8), "b": Numeric(0, 1, bins=8)}
STATED = {"epsilon": 40.0, "rows": 64, "domain": DOMAIN, "recipe": SMALL}


def several(**options) -> PrivateBoostingClassifier:
    return PrivateBoostingClassifier(**(STATED | {"classes": (0, 1, 2)} | options))


def two(**options) -> PrivateBoostingClassifier:
    return PrivateBoostingClassifier(**(STATED | {"classes": (0, 1)} | options))


def forest(**options) -> PrivateForestClassifier:
    group = functools.partial(dpbt.recipes.random_forest, rounds=4, depth=2)
    return PrivateForestClassifier(**(STATED | {"recipe": group, "classes": (0, 1)} | options))


def number(**options) -> PrivateBoostingRegressor:
    return PrivateBoostingRegressor(**(STATED | {"target_range": (0, 40)} | options))


@pytest.fixture
def rows():
    """X, the class of each row, and its number, both by the first column."""
    X = np.random.default_rng(0).uniform(0, 1, (50, 2))
    return X, np.digitize(X[:, 0], [0.33, 0.66]), 10 + 20 * X[:, 0]


@pytest.fixture(autouse=True)
def no_warning_of_research():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResearchKeyWarning)
        yield


def test_several_classes_are_learned_as_the_library_learns_them(rows):
    X, y, _ = rows
    estimator = several(random_state=5).fit(X, y)
    target = Nominal(("0", "1", "2"))
    columns = {"a": X[:, 0], "b": X[:, 1]}
    table = dpbt.table(DOMAIN, columns, y, target=target, capacity=64)
    recipe = SMALL(epsilon=40.0, rows=64, domain=DOMAIN, target=target)
    model = dpbt.fit(seeded(5, table)[0], table, recipe)
    bins = table.bins[:50]

    score = estimator.decision_function(X)
    assert score.shape == (50, 3)
    np.testing.assert_array_equal(score, dpbt.decision_function(model, bins))
    np.testing.assert_array_equal(estimator.predict(X), dpbt.predict(model, bins))
    share = estimator.predict_proba(X)
    np.testing.assert_array_equal(share, np.asarray(dpbt.predict_proba(model, bins), float))
    np.testing.assert_allclose(share.sum(axis=1), 1, rtol=1e-6)
    assert estimator.score(X, y) > 0.5
    assert estimator.classes_.tolist() == [0, 1, 2]
    assert estimator.explain() == dpbt.explain(model, DOMAIN)
    assert "  2: nn " in estimator.explain()
    assert str(estimator.ledger_) == str(dpbt.ledger(model))
    assert estimator.statement_ == dpbt.statement(model)


def test_words_of_classes_are_sorted_and_a_label_beyond_them_is_absent(rows):
    X, y, _ = rows
    words = np.array(["top", "low", "mid"], object)[y]
    words[:3] = ["none of them", None, float("nan")]
    estimator = several(classes=("top", "mid", "low")).fit(X, words)
    assert estimator.classes_.tolist() == ["low", "mid", "top"]
    assert estimator.score(X[3:], words[3:]) > 0.5


def test_numbers_are_learned_as_the_library_learns_them(rows):
    X, _, y = rows
    estimator = number(random_state=5).fit(X, y)
    target = Numeric(0, 40)
    columns = {"a": X[:, 0], "b": X[:, 1]}
    table = dpbt.table(DOMAIN, columns, y, target=target, capacity=64)
    recipe = SMALL(epsilon=40.0, rows=64, domain=DOMAIN, target=target)
    model = dpbt.fit(seeded(5, table)[0], table, recipe)
    np.testing.assert_allclose(estimator.predict(X), dpbt.predict(model, table.bins[:50]))
    assert estimator.score(X, y) > 0.3
    assert not hasattr(estimator, "classes_")
    assert not hasattr(estimator, "decision_function")
    assert estimator.explain() == dpbt.explain(model, DOMAIN)

    # Predictions stay in the declared range, wherever the numbers are.
    beyond = number(target_range=(12, 14)).fit(X, y).predict(X)
    assert beyond.min() >= 12
    assert beyond.max() <= 14


def test_weights_need_a_public_bound_whatever_they_are(rows):
    X, classes, numbers = rows
    for own in (np.full(50, 2.0), np.ones(50), np.zeros(50)):
        for make, y in ((several, classes), (number, numbers)):
            with pytest.raises(ValueError, match="sample_weight needs max_weight, a public bound"):
                make().fit(X, y, sample_weight=own)


@pytest.fixture
def one_noise(monkeypatch):
    """One seed has one noise, whatever the rows, so that fits can be compared."""
    monkeypatch.setattr(dpbt.keys, "noise_key", lambda key, blocks: key)


def test_what_weighs_nothing_is_absent(rows, one_noise):
    """And a weight that is no number is 0, and one above the bound is the bound."""
    X, y, _ = rows
    absent = np.where(np.arange(50) % 3 == 0, 7, y)
    expected = several(random_state=1).fit(X, absent).decision_function(X)
    for nothing in (0.0, -1.0, np.nan):
        weight = np.where(absent == 7, nothing, 1.0)
        found = several(random_state=1, max_weight=1).fit(X, y, weight).decision_function(X)
        np.testing.assert_array_equal(found, expected)
    weight = np.where(absent == 7, 0.0, 9.0)
    found = several(random_state=1, max_weight=3).fit(X, y, weight).decision_function(X)
    np.testing.assert_array_equal(found, expected)
    less = several(random_state=1, max_weight=27).fit(X, y, weight).decision_function(X)
    assert np.any(less != expected)


def test_weights_of_classes_are_those_of_their_rows(rows, one_noise):
    X, y, _ = rows
    by_class = several(random_state=1, class_weight={0: 4, 1: 2, 2: 1}).fit(X, y)
    by_row = several(random_state=1, max_weight=4).fit(X, y, np.array([4, 2, 1])[y])
    np.testing.assert_array_equal(by_class.decision_function(X), by_row.decision_function(X))
    unlike = several(random_state=1).fit(X, y).decision_function(X)
    assert np.any(unlike != by_row.decision_function(X))


REFUSED = [
    (several(recipe="bdpe"), "'bdpe' takes no target, as these do: .'auto', 'oblivious_boost'"),
    (
        PrivateForestClassifier(**(STATED | {"recipe": "rf_l", "classes": (0, 1, 2)})),
        "'rf_l' takes no target",
    ),
    (two(recipe="bdpe", monotone={"a": 1}), "'bdpe' takes no monotone"),
    (several(recipe="tuned"), "'tuned' takes no target"),
    (two(recipe="tuned", class_weight={0: 1, 1: 0.5}), "takes no weights of rows or of"),
    (number(recipe="other"), "recipe must be one of .*'halfspace_boost', 'tuned'"),
    (forest(recipe="tuned"), r"recipe must be one of \['random_forest', 'rf_l', 'rf_e'\]"),
    (
        two(recipe=lambda epsilon, delta, rows, relation: 1, max_rows_per_user=2),
        "takes no max_r",
    ),
    (several(class_weight="balanced"), "not read off the labels, as their counts are private"),
    (number(target_range=None), "target_range must be stated: the public"),
    (number(target_range=(3, 1)), "target_range must be"),
    (several(classes=("a", "b", "c")), "classes are words and y holds numbers"),
]


def test_what_is_refused_in_words(rows):
    for estimator, words in REFUSED:
        with pytest.raises(ValueError, match=words):
            estimator.fit(rows[0], rows[1])


def test_recipes_that_take_no_weights_refuse_them_in_words(rows):
    X, y, _ = rows
    with pytest.raises(ValueError, match="rows have no weights of their own there"):
        two(recipe="lazybb_rules", max_weight=1).fit(X, y > 0, np.ones(50))
    with pytest.raises(ValueError, match="takes no weights of rows or of classes"):
        two(recipe="tuned", max_weight=1).fit(X, y > 0, np.ones(50))
    with pytest.raises(TypeError, match="sample_weight"):
        forest().fit(X, y, sample_weight=np.ones(50))  # type: ignore[call-arg]
    for weight in (np.ones(49), np.ones((50, 2)), 1.0):
        with pytest.raises(ValueError, match="sample_weight"):
            two(max_weight=1).fit(X, y, sample_weight=weight)


def test_monotone_columns(rows):
    """On rows that say the opposite, and with much noise."""
    X, _, numbers = rows
    grid = np.stack([np.linspace(0, 1, 33), np.full(33, 0.4)], axis=1)
    rising = number(monotone={"a": 1}, epsilon=0.5)
    assert np.all(np.diff(rising.fit(X, 40 - numbers).predict(grid)) >= -1e-5)
    assert np.any(np.diff(rising.set_params(epsilon=50).fit(X, numbers).predict(grid)) > 0)
    falling = two(monotone={"a": -1}, epsilon=0.5).fit(X, (numbers > 20).astype(int))
    assert np.all(np.diff(falling.decision_function(grid)) <= 1e-6)


def test_rows_of_a_person(rows):
    X, y, _ = rows
    estimator = forest(max_rows_per_user=3).fit(X, y > 0)
    assert estimator.ledger_.max_rows_per_user == 3
    assert estimator.ledger_.epsilon == pytest.approx(40, rel=1e-3)
    assert "up to 3" in estimator.statement_


def test_labels_of_a_file(rows, tmp_path, one_noise):
    X, y, numbers = rows
    columns = {name: {"type": "numeric", "low": 0, "high": 1, "bins": 8} for name in "ab"}
    path = tmp_path / "domain.json"

    def written(label, **more):
        path.write_text(json.dumps({"columns": columns, "label": label, **more}))
        return path

    sites = {"column": "site", "type": "nominal", "values": ["top", "low", "mid"]}
    words = np.array(["low", "mid", "top"])[y]
    estimator = several(domain=written(sites), classes=None).fit(X, words)
    assert estimator.classes_.tolist() == ["low", "mid", "top"]
    rings = {"column": "rings", "type": "numeric", "low": 0, "high": 40}
    estimator = number(domain=written(rings), target_range=None, random_state=1).fit(X, numbers)
    same = number(random_state=1).fit(X, numbers)
    np.testing.assert_array_equal(estimator.predict(X), same.predict(X))
    with pytest.raises(ValueError, match=r"'rings' as a number.*PrivateBoostingRegressor"):
        two(domain=path, classes=None).fit(X, y)

    weighed = written(rings, weight={"column": "w", "most": 3})
    estimator = number(domain=weighed, target_range=None, max_weight=3)
    with pytest.raises(ValueError, match=r"weights of rows, in 'w'; give them.*=3"):
        estimator.fit(X, numbers)


def test_a_saved_model_of_an_estimator_says_what_it_says(rows, tmp_path):
    X, y, numbers = rows
    columns = {"a": X[:, 0], "b": X[:, 1]}
    classifier, regressor = several().fit(X, y), number().fit(X, numbers)
    classifier.save(tmp_path / "c")
    regressor.save(tmp_path / "r")
    assert dpbt.load(tmp_path / "c").predict(columns).tolist() == classifier.predict(X).tolist()
    np.testing.assert_allclose(dpbt.load(tmp_path / "r").predict(columns), regressor.predict(X))
