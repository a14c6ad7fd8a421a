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
    return PrivateBoostingClassifier(**(STATED | {"classes": ("top", "mid", "low")} | options))


def two(**options) -> PrivateBoostingClassifier:
    return PrivateBoostingClassifier(**(STATED | {"classes": (0, 1)} | options))


def forest(**options) -> PrivateForestClassifier:
    group = functools.partial(dpbt.recipes.random_forest, rounds=4, depth=2)
    return PrivateForestClassifier(**(STATED | {"recipe": group, "classes": (0, 1)} | options))


def number(**options) -> PrivateBoostingRegressor:
    return PrivateBoostingRegressor(**(STATED | {"target_range": (0, 40)} | options))


@pytest.fixture(scope="module")
def rows():
    """X, the class of each row, and its number, both by the first column."""
    X = np.random.default_rng(0).uniform(0, 1, (50, 2))
    words = np.array(["low", "mid", "top"], object)
    return X, words[np.digitize(X[:, 0], [0.33, 0.66])], 10 + 20 * X[:, 0]


@pytest.fixture(autouse=True)
def no_warning_of_research():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResearchKeyWarning)
        yield


def of_library(X, y, target):
    """What the library learns from the same rows, and their bins."""
    columns = {"a": X[:, 0], "b": X[:, 1]}
    table = dpbt.table(DOMAIN, columns, y, target=target, capacity=64)
    recipe = SMALL(epsilon=40.0, rows=64, domain=DOMAIN, target=target)
    return dpbt.fit(seeded(5, table)[0], table, recipe), table.bins[:50]


def test_several_classes_are_learned_as_the_library_learns_them(rows, tmp_path):
    """Words of classes are sorted, and a label beyond them is absent."""
    X, y, _ = rows
    y = y.copy()
    y[:3] = ["none of them", None, float("nan")]
    estimator = several(random_state=5).fit(X, y)
    assert estimator.classes_.tolist() == ["low", "mid", "top"]
    model, bins = of_library(X, y, Nominal(("low", "mid", "top")))
    score = estimator.decision_function(X)
    assert score.shape == (50, 3)
    np.testing.assert_array_equal(score, dpbt.decision_function(model, bins))
    predicted = estimator.predict(X)
    assert predicted.tolist() == estimator.classes_[dpbt.predict(model, bins)].tolist()
    share = estimator.predict_proba(X)
    np.testing.assert_array_equal(share, np.asarray(dpbt.predict_proba(model, bins), float))
    np.testing.assert_allclose(share.sum(axis=1), 1, rtol=1e-6)
    assert estimator.score(X[3:], y[3:].astype(str)) > 0.5
    assert estimator.explain() == dpbt.explain(model, DOMAIN)
    assert "  top: nn " in estimator.explain()
    assert str(estimator.ledger_) == str(dpbt.ledger(model))
    assert estimator.statement_ == dpbt.statement(model)
    estimator.save(tmp_path / "saved")
    columns = {"a": X[:, 0], "b": X[:, 1]}
    assert dpbt.load(tmp_path / "saved").predict(columns).tolist() == predicted.tolist()


def test_numbers_are_learned_as_the_library_learns_them(rows, tmp_path):
    X, _, y = rows
    estimator = number(random_state=5).fit(X, y)
    model, bins = of_library(X, y, Numeric(0, 40))
    np.testing.assert_allclose(estimator.predict(X), dpbt.predict(model, bins))
    assert estimator.score(X, y) > 0.3
    assert not hasattr(estimator, "classes_")
    assert not hasattr(estimator, "decision_function")
    assert estimator.explain() == dpbt.explain(model, DOMAIN)
    estimator.save(tmp_path / "saved")
    columns = {"a": X[:, 0], "b": X[:, 1]}
    found = dpbt.load(tmp_path / "saved").predict(columns)
    np.testing.assert_allclose(found, estimator.predict(X))


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
    absent = np.where(np.arange(50) % 3 == 0, "other", y)
    expected = several(random_state=1).fit(X, absent).decision_function(X)
    for nothing in (0.0, -1.0, np.nan):
        weight = np.where(absent == "other", nothing, 1.0)
        found = several(random_state=1, max_weight=1).fit(X, y, weight).decision_function(X)
        np.testing.assert_array_equal(found, expected)
    weight = np.where(absent == "other", 0.0, 9.0)
    found = several(random_state=1, max_weight=3).fit(X, y, weight).decision_function(X)
    np.testing.assert_array_equal(found, expected)
    less = several(random_state=1, max_weight=27).fit(X, y, weight).decision_function(X)
    assert np.any(less != expected)


def test_weights_of_classes_are_those_of_their_rows(rows, one_noise):
    X, y, _ = rows
    weights = {"low": 4, "mid": 2, "top": 1}
    by_class = several(random_state=1, class_weight=weights).fit(X, y)
    own = [weights[one] for one in y]
    by_row = several(random_state=1, max_weight=4).fit(X, y, own)
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
    (number(recipe="other"), "recipe must be one of .*'halfspace_boost'"),
    (forest(recipe="auto"), r"recipe must be one of \['random_forest', 'rf_l', 'rf_e'\]"),
    (
        two(recipe=lambda epsilon, delta, rows, relation: 1, max_rows_per_user=2),
        "takes no max_r",
    ),
    (several(class_weight="balanced"), "not read off the labels, as their counts are private"),
    (number(target_range=None), "target_range must be stated: the public"),
    (number(target_range=(3, 1)), "target_range must be"),
]


def test_what_is_refused_in_words(rows):
    for estimator, words in REFUSED:
        with pytest.raises(ValueError, match=words):
            estimator.fit(rows[0], rows[1])
    X, y, ones = rows[0], np.ones(50, int), np.ones(50)
    with pytest.raises(ValueError, match="rows have no weights of their own there"):
        two(recipe="lazybb_rules", max_weight=1).fit(X, y, ones)
    with pytest.raises(TypeError, match="sample_weight"):
        forest().fit(X, y, sample_weight=ones)  # type: ignore[call-arg]
    for weight in (np.ones(49), np.ones((50, 2)), 1.0):
        with pytest.raises(ValueError, match="sample_weight"):
            two(max_weight=1).fit(X, y, sample_weight=weight)


@pytest.fixture
def recipes(monkeypatch):
    """The recipes of all fits, of which none is run."""
    seen = []

    def fit(key, table, recipe, public_key):
        seen.append(recipe)
        raise InterruptedError

    monkeypatch.setattr("dpbt.sklearn.fit", fit)
    return seen


def test_monotone_columns_and_rows_of_a_person_reach_the_recipe(rows, recipes):
    X, y, numbers = rows
    for estimator, labels in (
        (number(monotone={"a": 1}), numbers),
        (two(monotone={"a": -1}), y),
        (forest(max_rows_per_user=3), y),
    ):
        with pytest.raises(InterruptedError):
            estimator.fit(X, labels)
    assert "(1, 0)" in recipes[0].learner.tag
    assert "(-1, 0)" in recipes[1].learner.tag
    assert [recipe.max_rows_per_user for recipe in recipes] == [1, 1, 3]
    assert dpbt.ledger(recipes[2]).epsilon == pytest.approx(40, rel=1e-3)


def test_labels_of_a_file(rows, tmp_path, one_noise):
    X, y, numbers = rows
    columns = {name: {"type": "numeric", "low": 0, "high": 1, "bins": 8} for name in "ab"}
    path = tmp_path / "domain.json"

    def written(label, **more):
        path.write_text(json.dumps({"columns": columns, "label": label, **more}))
        return path

    sites = {"column": "site", "type": "nominal", "values": ["top", "low", "mid"]}
    estimator = several(domain=written(sites), classes=None, random_state=1).fit(X, y)
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
