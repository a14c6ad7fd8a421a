"""Estimators of scikit-learn: what they read, refuse, release, and pass on."""

import copy
import functools
import inspect
import json
import pickle
import re
import subprocess
import sys

import jax
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import dpbt
from dpbt import recipes
from dpbt.data.domains import Nominal, Numeric
from dpbt.privacy.keys import ResearchKeyWarning
from dpbt.public_types import BOOSTED
from dpbt.sklearn import (
    PrivateBoostingClassifier,
    PrivateBoostingRegressor,
    PrivateForestClassifier,
    RepeatedReleaseWarning,
)
from dpbt.training import fit as training_fit
from tests.support import ROOT
from tests.support.estimator_examples import (
    DOMAIN,
    OPTIONS,
    SMALL_BOOSTING,
    boosting_classifier,
    forest_classifier,
)
from tests.support.example_tables import keys_of_seed
from tests.support.odd_inputs import Frame


@pytest.fixture(scope="module", params=[boosting_classifier, forest_classifier])
def estimator(request, labelled_rows):
    """A fitted estimator of each class."""
    return request.param().fit(*labelled_rows)


def test_a_fitted_estimator_has_the_attributes_of_scikit_learn_and_a_ledger(
    estimator, labelled_rows
):
    X, y = labelled_rows
    assert estimator.classes_.tolist() == [0, 1]
    assert estimator.n_features_in_ == 2
    assert not hasattr(estimator, "feature_names_in_")

    score, share = estimator.decision_function(X), estimator.predict_proba(X)
    assert score.shape == (50,)
    assert share.shape == (50, 2)
    np.testing.assert_allclose(share.sum(axis=1), 1)
    np.testing.assert_array_equal(estimator.predict(X), (score > 0).astype(int))
    np.testing.assert_array_equal(estimator.predict(X), share.argmax(axis=1))
    assert np.all(np.diff(share[np.argsort(score), 1]) >= 0)
    assert estimator.score(X, y) == np.mean(estimator.predict(X) == y)
    assert "tree 1" in estimator.explain() or "a <" in estimator.explain()

    ledger = estimator.ledger_
    assert ledger.epsilon == pytest.approx(20.0, rel=1e-3)
    assert ledger.rows == 64
    assert ledger.key_purpose == "release"


REFUSED = [
    ({"epsilon": None, "rows": None}, "epsilon must be stated.*rows must be stated"),
    ({"rows": None}, "rows must be stated.*never read off X"),
    ({"domain": None}, "dpbt.domains.template.*never read it off the rows"),
    ({"rows": 20}, "X has more rows than rows=20"),
    ({"relation": "replace_one"}, "room for fewer than rows=64"),
    ({"domain": {"a": Numeric(0, 1)}}, "X has 2 columns, and the domain declares 1"),
    ({"classes": ("no", "yes")}, "classes are words and y holds numbers"),
    ({"recipe": "random_forest"}, "recipe must be one of"),
    (
        {"recipe": functools.partial(SMALL_BOOSTING, step=[0.1, 0.2])},
        "recipe must return one setting",
    ),
    ({"random_state": "seed"}, "seed"),
]


def test_public_mistakes_are_refused_by_name(labelled_rows):
    X, y = labelled_rows
    for options, message in REFUSED:
        with pytest.raises((ValueError, OSError), match=message):
            boosting_classifier(**options).fit(X, y)
    frame = Frame({"a": X[:, 0]})
    frame.columns = ["a", "a"]
    for rows_given, labels, message in (
        (frame, y, "distinct names"),
        (X, y[:-1], "same length"),
        (X, None, "target y is None"),
        (X, np.ones((50, 2)), "one column"),
        (X, Frame({"a": y, "b": y}), "one column"),
    ):
        with pytest.raises(ValueError, match=message):
            boosting_classifier().fit(rows_given, labels)
    with pytest.raises(ValueError, match="random trees"):
        forest_classifier(recipe=SMALL_BOOSTING).fit(X, y)
    for wrong_rows, error_type, message in (
        (sparse.csr_matrix(X), TypeError, "X must be dense, got a sparse matrix"),
        (X[0], ValueError, "Expected 2D array"),
        ([[1, 2], [1]], ValueError, "one width"),
        (X[:, :0], ValueError, "0 feature"),
        (X.astype(complex), ValueError, "Complex data not supported"),
    ):
        with pytest.raises(error_type, match=message):
            boosting_classifier(domain=Numeric(0, 1)).fit(wrong_rows, y)


def test_a_row_of_another_width_has_no_values(labelled_rows):
    X, y = labelled_rows
    estimator = boosting_classifier()
    ragged = X.tolist()
    ragged[3], ragged[7], ragged[8] = [0.1], None, "ab"
    estimator.fit(ragged, y.tolist())
    score = estimator.decision_function(ragged)
    score_of_missing_values = estimator.decision_function([[None, None]])[0]
    assert score[3] == score[7] == score[8] == score_of_missing_values
    estimator.fit([], [])
    assert estimator.predict([]).shape == (0,)


def test_no_shape_shows_the_number_of_rows(labelled_rows, monkeypatch):
    X, y = labelled_rows
    tables = []
    learn = training_fit.fit

    def record_table(key, table, *args, **options):
        tables.append(table)
        return learn(key, table, *args, **options)

    monkeypatch.setattr("dpbt.owners.estimators.fit", record_table)
    fitted = [boosting_classifier(rows=60).fit(X[:count], y[:count]) for count in (0, 50)]
    models = [estimator.model_ for estimator in fitted]
    for count in (0, 1, 50):
        assert fitted[0].predict(X[:count]).shape == (count,)
        assert fitted[0].predict_proba(X[:count]).shape == (count, 2)
    for pair in (models, tables):
        shapes_of_none, shapes_of_50 = (
            jax.tree.map(np.shape, jax.tree.leaves(tree)) for tree in pair
        )
        assert shapes_of_none == shapes_of_50


def test_a_frame_is_read_by_the_names_of_its_columns(labelled_rows):
    X, y = labelled_rows
    frame = Frame({"a": X[:, 0], "b": X[:, 1]})
    options = {"classes": ("no", "yes"), "random_state": 0}
    labels = np.where(y == 1, "yes", "no")
    score = boosting_classifier(**options).fit(frame, labels).decision_function(frame)
    turned_frame = frame.taking("b", "a")
    refitted = boosting_classifier(**options).fit(turned_frame, labels)
    np.testing.assert_array_equal(refitted.decision_function(turned_frame), score)
    wider_frame = Frame({"id": list(range(50)), **frame.data})
    estimator = boosting_classifier(**options).fit(wider_frame, labels)
    np.testing.assert_array_equal(estimator.decision_function(wider_frame), score)

    # An array has the columns of the frame that was fitted, in its order.
    bins = [list(row) for row in zip(*wider_frame.data.values(), strict=True)]
    np.testing.assert_array_equal(estimator.decision_function(bins), score)
    assert estimator.predict(wider_frame).tolist() == [
        "yes" if row_score > 0 else "no" for row_score in score
    ]
    with pytest.raises(ValueError, match="features"):
        estimator.predict(frame)
    with pytest.raises(ValueError, match=r"lacks columns \['a'\]"):
        boosting_classifier().fit(frame.taking("b"), y)


def test_names_of_a_column_transformer_are_met_with_what_to_set(labelled_rows):
    X, y = labelled_rows
    frame = Frame({"num__a": X[:, 0], "rest__b": X[:, 1], "zqxcell__c": y})
    message = (
        r"declares \['a', 'b'\].*as \['num__a', 'rest__b'\]: .*verbose_feature_names_out=False"
    )
    with pytest.raises(ValueError, match=message) as error:
        boosting_classifier().fit(frame, y)
    assert "zqxcell" not in str(error.value)
    boosting_classifier(domain={name: Numeric(0, 1) for name in frame.columns}).fit(frame, y)


def test_one_column_declaration_serves_all_columns(labelled_rows):
    """The first line that a person writes: what is declared of all columns is one thing."""
    X, y = labelled_rows
    estimator = boosting_classifier(domain=Numeric(0, 1, bins=8)).fit(X, y)
    assert estimator.score(X, y) > 0.6
    assert list(estimator.domain_) == ["x0", "x1"]
    assert list(estimator.fit(Frame({"a": X[:, 0], "b": X[:, 1]}), y).domain_) == ["a", "b"]


def test_importances_are_shares_of_effects_in_the_order_of_columns(labelled_rows):
    X, y = labelled_rows
    assert not hasattr(boosting_classifier(), "feature_importances_")
    frame = Frame({"b": X[:, 1], "id": y, "a": X[:, 0]})
    fitted = boosting_classifier().fit(frame, y)
    deviations = {
        effect.attribute: effect.deviation
        for effect in dpbt.effects.attribute_effects(fitted.model_, DOMAIN)
    }
    expected = np.array([deviations["b"], 0, deviations["a"]]) / sum(deviations.values())
    np.testing.assert_allclose(fitted.feature_importances_, expected)


def test_importances_are_computed_once_for_a_model(labelled_rows, monkeypatch):
    fitted = boosting_classifier().fit(*labelled_rows)
    first = fitted.feature_importances_
    first_again = first.copy()
    first[:] = 0  # a caller's copy
    monkeypatch.setattr(dpbt.effects, "attribute_effects", None)
    np.testing.assert_array_equal(fitted.feature_importances_, first_again)
    monkeypatch.undo()
    fitted.fit(labelled_rows[0][::-1], labelled_rows[1])
    assert not np.array_equal(fitted.feature_importances_, first_again)


def test_estimators_explain_rows(labelled_rows):
    X, y = labelled_rows
    fitted = boosting_classifier(classes=("no", "yes"))
    fitted.fit(X, np.where(y == 1, "yes", "no"))
    contributions = fitted.contributions(X[:5])
    np.testing.assert_allclose(contributions.scores, fitted.decision_function(X[:5]), atol=1e-5)
    assert str(contributions.of_row(2)).startswith("score of yes ")
    pytest.importorskip("matplotlib")
    assert "score of yes" in dpbt.plot.contributions(fitted, X[:5], 2).get_xlabel()


def test_classes_are_declared_and_never_read_off_the_labels(labelled_rows):
    X, y = labelled_rows
    word_labels = np.where(y == 1, "yes", "no")
    for labels in (word_labels, word_labels.tolist(), y, y.astype(np.uint8), np.arange(50) % 3):
        with pytest.raises(ValueError, match="classes must state all labels"):
            boosting_classifier(classes=None).fit(X, labels)
    assert boosting_classifier(classes=None).fit(X, y == 1).predict(X).dtype == bool
    assert boosting_classifier().fit(X, y.astype(float)).classes_.tolist() == [0, 1]
    estimator = boosting_classifier(classes=("yes", "no")).fit(X, word_labels)
    assert estimator.classes_.tolist() == ["no", "yes"]
    assert estimator.score(X, word_labels) > 0.6

    # A third label is an absent row, whatever it is.
    labels_of_third_class = word_labels.astype(object)
    labels_of_third_class[:5] = ["maybe", None, 3.5, "NO", float("nan")]
    assert boosting_classifier(classes=("no", "yes")).fit(
        X, labels_of_third_class
    ).classes_.tolist() == [
        "no",
        "yes",
    ]
    assert boosting_classifier(classes=(-1, 1)).fit(X, 2 * y - 1).predict(X).min() == -1


def test_votes_have_no_probabilities(labelled_rows):
    estimator = boosting_classifier(recipe="lazybb_rules")
    assert hasattr(estimator, "predict_proba")
    estimator.fit(*labelled_rows)
    assert not hasattr(estimator, "predict_proba")
    with pytest.raises(AttributeError):
        estimator.predict_proba(labelled_rows[0])
    assert estimator.score(*labelled_rows) > 0.5


def test_a_pickled_or_copied_estimator_predicts_and_explains_the_same(estimator, labelled_rows):
    changed = copy.copy(estimator).set_params(epsilon=1.0)  # of the next fit
    for copied in (pickle.loads(pickle.dumps(changed)), copy.deepcopy(changed)):
        for method in ("decision_function", "predict_proba"):
            answers = [
                getattr(any_estimator, method)(labelled_rows[0])
                for any_estimator in (copied, estimator)
            ]
            np.testing.assert_allclose(*answers, rtol=1e-5, atol=1e-6)  # NumPy's and JAX's
        assert copied.explain() == estimator.explain()
        assert str(copied.ledger_) == str(estimator.ledger_)
        assert copied.epsilon == 1.0
    assert not hasattr(pickle.loads(pickle.dumps(clone(estimator))), "model_")


def test_a_pickle_holds_no_key_and_nothing_of_a_rows_length(estimator):
    state = estimator.__getstate__()
    axes = {
        length
        for leaf in jax.tree.leaves(tuple(state["model_"].hypotheses))
        for length in np.shape(leaf)
    }
    assert not axes & {50, 64}
    kept = set(vars(estimator)) - set(estimator.get_params())
    public = {"_column_order", "classes_", "model_", "n_features_in_"}
    assert kept - {"_num_clones"} == public | {"owner_report_"}
    assert "owner_report_" not in state
    assert not hasattr(pickle.loads(pickle.dumps(estimator)), "owner_report_")


def test_a_second_fit_is_a_model_of_its_own(labelled_rows):
    X, y = labelled_rows
    estimator = boosting_classifier().fit(X, y)
    first = estimator.decision_function(X)
    with pytest.raises(ValueError, match="more rows"):
        estimator.fit(np.ones((65, 2)), np.ones(65, int))
    np.testing.assert_array_equal(estimator.decision_function(X), first)
    assert np.any(estimator.fit(X, y).decision_function(X) != first)  # a fresh key


def test_a_number_makes_a_research_key_and_warns(labelled_rows):
    X, y = labelled_rows
    with pytest.warns(ResearchKeyWarning, match="can subtract the noise") as caught:
        boosting_classifier(random_state=3).fit(X, y)
    assert len(caught) == 1
    state = np.random.RandomState(0)
    first_fit, second_fit = (boosting_classifier(random_state=state).fit(X, y) for _ in range(2))
    assert np.any(first_fit.decision_function(X) != second_fit.decision_function(X))
    same = boosting_classifier(random_state=np.random.RandomState(0)).fit(X, y)
    np.testing.assert_array_equal(first_fit.decision_function(X), same.decision_function(X))


def test_cross_validation_warns_once_that_selecting_is_a_release(labelled_rows):
    X, y = labelled_rows
    estimator = boosting_classifier()
    with pytest.warns(RepeatedReleaseWarning, match="epsilons add up") as caught:
        scores = cross_val_score(estimator, X, y, cv=4, scoring="roc_auc")
    assert len(caught) == 1
    assert scores.mean() > 0.6

    # The number of a clone reaches another process.
    original = boosting_classifier()
    _, second, third = (pickle.loads(pickle.dumps(clone(original))) for _ in range(3))
    with pytest.warns(RepeatedReleaseWarning):
        second.fit(X, y)
    third.fit(X, y)


def test_estimators_read_pandas_frames_and_follow_set_output(labelled_rows):
    pandas = pytest.importorskip("pandas")
    X, y = labelled_rows
    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 1] > 0.5})
    domain = {name: DOMAIN[name] for name in ("b", "a")}
    estimator = boosting_classifier(domain=domain).fit(frame, pandas.Series(y))
    assert estimator.feature_names_in_.tolist() == ["a", "b", "c"]
    assert estimator.n_features_in_ == 3
    with pytest.raises(ValueError, match="feature names"):
        estimator.predict(frame[["c", "b", "a"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        score = estimator.decision_function(frame.to_numpy())
    np.testing.assert_array_equal(score, estimator.decision_function(frame))

    for labels in (pandas.Series(y == 1), pandas.Series(y, dtype="Int64")):
        boosting_classifier(domain=domain).fit(frame, labels)
    with pytest.raises(ValueError, match="classes"):
        boosting_classifier(domain=domain).fit(frame, pandas.Series(["no"] * 50, dtype="category"))


def test_without_scikit_learn_the_module_says_what_to_install():
    program = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import dpbt\n"
        "try:\n import dpbt.sklearn\n"
        "except ImportError as error: print(error)\n"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "pip install 'dpbt[sklearn]'" in completed.stdout


# Several classes, numbers, weights, and monotone columns.

TARGETS = OPTIONS | {"epsilon": 40.0, "recipe": SMALL_BOOSTING}
del TARGETS["classes"]


def classifier(**options) -> PrivateBoostingClassifier:
    """A small classifier of three classes."""
    return PrivateBoostingClassifier(**(TARGETS | {"classes": ("top", "mid", "low")} | options))


def regressor(**options) -> PrivateBoostingRegressor:
    """A small regressor of numbers in 0..40."""
    return PrivateBoostingRegressor(**(TARGETS | {"target_range": (0, 40)} | options))


@pytest.fixture(scope="module")
def targets():
    """X, the class of each row, and its number, both by the first column."""
    X = np.random.default_rng(0).uniform(0, 1, (50, 2))
    class_names = np.array(["low", "mid", "top"], object)
    return X, class_names[np.digitize(X[:, 0], [0.33, 0.66])], 10 + 20 * X[:, 0]


def model_and_bins_of_library(X, y, target):
    """What the library learns from the same rows, and their bins."""
    columns = {"a": X[:, 0], "b": X[:, 1]}
    table = dpbt.table(DOMAIN, columns, y, target=target, capacity=64)
    recipe = SMALL_BOOSTING(epsilon=40.0, rows=64, domain=DOMAIN, target=target)
    return dpbt.fit(keys_of_seed(5, table)[0], table, recipe), table.bins[:50]


@pytest.mark.slow
def test_several_classes_are_learned_as_the_library_learns_them(targets, tmp_path):
    """Words of classes are sorted, and a label beyond them is absent."""
    X, y, _ = targets
    y = y.copy()
    y[:3] = ["none of them", None, float("nan")]
    estimator = classifier(random_state=5).fit(X, y)
    assert estimator.classes_.tolist() == ["low", "mid", "top"]
    model, bins = model_and_bins_of_library(X, y, Nominal(("low", "mid", "top")))
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


@pytest.mark.slow
def test_numbers_are_learned_as_the_library_learns_them(targets):
    X, _, y = targets
    estimator = regressor(random_state=5).fit(X, y)
    model, bins = model_and_bins_of_library(X, y, Numeric(0, 40))
    np.testing.assert_allclose(estimator.predict(X), dpbt.predict(model, bins))
    assert estimator.score(X, y) > 0.3
    assert not hasattr(estimator, "classes_")
    assert not hasattr(estimator, "decision_function")


def test_weights_need_a_public_bound_whatever_they_are(targets):
    X, classes, numbers = targets
    for weights in (np.full(50, 2.0), np.ones(50), np.zeros(50)):
        for make_estimator, y in (
            (classifier, classes),
            (regressor, numbers),
        ):
            with pytest.raises(ValueError, match="sample_weight needs max_weight, a public bound"):
                make_estimator().fit(X, y, sample_weight=weights)


@pytest.fixture
def one_noise(monkeypatch):
    """One seed has one noise, whatever the rows, so that fits can be compared."""
    monkeypatch.setattr(dpbt.keys, "mix_rows_into_research_key", lambda key, blocks: key)


@pytest.mark.slow
def test_a_row_of_weight_zero_is_absent(targets, one_noise):
    """A weight that is no number counts as 0, and one above the bound as the bound."""
    X, y, _ = targets
    absent = np.where(np.arange(50) % 3 == 0, "other", y)
    expected = classifier(random_state=1).fit(X, absent).decision_function(X)
    for weight_of_no_row in (0.0, -1.0, np.nan):
        weight = np.where(absent == "other", weight_of_no_row, 1.0)
        scores = classifier(random_state=1, max_weight=1).fit(X, y, weight).decision_function(X)
        np.testing.assert_array_equal(scores, expected)
    weight = np.where(absent == "other", 0.0, 9.0)
    scores = classifier(random_state=1, max_weight=3).fit(X, y, weight).decision_function(X)
    np.testing.assert_array_equal(scores, expected)
    scores_of_small_weights = (
        classifier(random_state=1, max_weight=27).fit(X, y, weight).decision_function(X)
    )
    assert np.any(scores_of_small_weights != expected)


@pytest.mark.slow
def test_weights_of_classes_are_those_of_their_rows(targets, one_noise):
    X, y, _ = targets
    weights = {"low": 4, "mid": 2, "top": 1}
    by_class = classifier(random_state=1, class_weight=weights).fit(X, y)
    row_weights = [weights[label] for label in y]
    by_row = classifier(random_state=1, max_weight=4).fit(X, y, row_weights)
    np.testing.assert_array_equal(by_class.decision_function(X), by_row.decision_function(X))
    unweighted = classifier(random_state=1).fit(X, y).decision_function(X)
    assert np.any(unweighted != by_row.decision_function(X))


UNFIT = [
    (classifier(recipe="bdpe"), "'bdpe' takes no target"),
    (
        forest_classifier(recipe="auto"),
        r"recipe must be one of \['random_forest', 'rf_l', 'rf_e'\]",
    ),
    (
        boosting_classifier(recipe=lambda epsilon, delta, rows, relation: 1, max_rows_per_user=2),
        "takes no max_r",
    ),
    (
        classifier(class_weight="balanced"),
        "not read off the labels, as their counts are private",
    ),
    (regressor(target_range=None), "target_range must be stated: the public"),
    (regressor(target_range=(3, 1)), "target_range must be"),
    (regressor(target_range=(1, 3), objective="poisson"), "range from 0 on"),
]


def test_estimators_refuse_invalid_settings_in_words(targets):
    for estimator, message in UNFIT:
        with pytest.raises(ValueError, match=message):
            estimator.fit(targets[0], targets[1])
    X, y, ones = targets[0], np.ones(50, int), np.ones(50)
    with pytest.raises(ValueError, match="derives the weights of all rows together"):
        boosting_classifier(recipe="lazybb_rules", max_weight=1).fit(X, y, ones)
    with pytest.raises(TypeError, match="sample_weight"):
        forest_classifier().fit(X, y, sample_weight=ones)  # type: ignore[call-arg]
    for weight in (np.ones(49), np.ones((50, 2)), 1.0):
        with pytest.raises(ValueError, match="sample_weight"):
            boosting_classifier(max_weight=1).fit(X, y, sample_weight=weight)


def recipes_in_docstring(estimator: type, parameter: str) -> list[str]:
    """The boosted recipes that the docstring of an estimator names for one of its parameters."""
    arguments = inspect.getdoc(estimator).partition("\nArgs:\n")[2]
    (text,) = re.findall(rf"^    {parameter}: (.*?)(?=^ {{0,4}}\w|\Z)", arguments, re.M | re.S)
    named = re.findall(r'"(\w+)"', text)
    return [name for name in dict.fromkeys(named) if name in BOOSTED]


def recipes_that_take(parameter: str) -> list[str]:
    return [
        name for name in BOOSTED if parameter in inspect.signature(recipes.NAMED[name]).parameters
    ]


@pytest.mark.parametrize(
    ("estimator", "parameter", "expected"),
    [
        (PrivateBoostingClassifier, "recipe", list(BOOSTED)),
        (PrivateBoostingClassifier, "classes", recipes_that_take("target")),
        (PrivateBoostingClassifier, "monotone", recipes_that_take("monotone")),
        (PrivateBoostingRegressor, "recipe", recipes_that_take("target")),
    ],
    ids=["classifier, recipe", "classes", "monotone", "regressor, recipe"],
)
def test_docstrings_name_the_recipes_that_take_a_parameter(estimator, parameter, expected):
    """The signatures of the recipes decide which do, and `BOOSTED` has their order."""
    assert recipes_in_docstring(estimator, parameter) == expected


def test_the_docs_name_the_recipes_that_take_targets_and_monotone_columns():
    page = (ROOT / "docs" / "estimators.md").read_text()
    (sentence,) = re.findall(r"Only ([^.]*?) learn these", page)
    named = re.findall(r'"(\w+)"', sentence)
    assert named == recipes_that_take("target") == recipes_that_take("monotone")


@pytest.fixture
def recorded_recipes(monkeypatch):
    """The recipes of all fits, of which none is run."""
    recorded = []

    def fit(key, table, recipe, public_key, **_):
        recorded.append(recipe)
        raise InterruptedError

    monkeypatch.setattr("dpbt.owners.estimators.fit", fit)
    return recorded


def test_monotone_columns_and_rows_of_a_person_reach_the_recipe(targets, recorded_recipes):
    X, y, numbers = targets
    for estimator, labels in (
        (regressor(monotone={"a": 1}, objective="poisson"), numbers),
        (boosting_classifier(monotone={"a": -1}), y),
        (forest_classifier(max_rows_per_user=3), y),
    ):
        with pytest.raises(InterruptedError):
            estimator.fit(X, labels)
    assert "a count" in recorded_recipes[0].learner.identity
    assert "(1, 0)" in recorded_recipes[0].learner.identity
    assert "(-1, 0)" in recorded_recipes[1].learner.identity
    assert [recipe.max_rows_per_user for recipe in recorded_recipes] == [1, 1, 3]
    assert dpbt.ledger(recorded_recipes[2]).epsilon == pytest.approx(20, rel=1e-3)


def test_ids_of_users_limit_their_rows(monkeypatch, tmp_path):
    calls = []
    record_call = lambda *call, **_: calls.append(call) or 1 / 0  # noqa: E731
    monkeypatch.setattr("dpbt.owners.estimators.fit", record_call)
    options_of_estimator = {"epsilon": 1, "rows": 6, "max_rows_per_user": 2}
    X, y, ids = np.zeros((8, 1)), np.ones(8, bool), ["a", 7, "7", " 7.0", None, "b", "c", "A"]
    for make_estimator in (PrivateBoostingClassifier, PrivateForestClassifier):
        with pytest.raises(ZeroDivisionError):
            make_estimator(**options_of_estimator, domain={"a": Numeric(0, 1)}).fit(X, y, users=ids)
        _, table, recipe, _ = calls.pop()
        assert int(np.sum(table.present)) == len(table.present) == 6  # as rows says
        assert table.rows_per_user == recipe.max_rows_per_user == 2
    label = {"column": "y", "positive": "True", "negative": "False"}
    columns, path = {"a": {"type": "numeric", "low": 0, "high": 9}}, tmp_path / "d.json"
    user = {"column": "id", "most": 3}
    path.write_text(json.dumps({"columns": columns, "label": label, "user": user}))
    for options in ({}, {"users": ids}):
        with pytest.raises(ValueError, match="users, with max_rows_per_user=3"):
            PrivateBoostingClassifier(**options_of_estimator, domain=path).fit(X, y, **options)
    user = {"column": "id", "most": 1, "ignore_case": True}
    path.write_text(json.dumps({"columns": columns, "label": label, "user": user}))
    estimator_ignoring_case = PrivateBoostingClassifier(
        **{**options_of_estimator, "max_rows_per_user": 1}, domain=path
    )
    with pytest.raises(ZeroDivisionError):
        estimator_ignoring_case.fit(X[:2], y[:2], users=["a", "A"])
    assert int(np.sum(calls.pop()[1].present)) == 1


@pytest.mark.slow
def test_estimators_learn_the_labels_of_a_domain_file(targets, tmp_path, one_noise):
    X, y, numbers = targets
    columns = {
        name: {"type": "numeric", "low": 0, "high": 1, "bins": 8, "missing": True} for name in "ab"
    }
    path = tmp_path / "domain.json"

    def written(label, **more):
        path.write_text(json.dumps({"columns": columns, "label": label, **more}))
        return path

    sites = {"column": "site", "type": "nominal", "values": ["top", "low", "mid"]}
    estimator = classifier(domain=written(sites), classes=None, random_state=1).fit(X, y)
    assert estimator.classes_.tolist() == ["low", "mid", "top"]
    rings = {"column": "rings", "type": "numeric", "low": 0, "high": 40}
    estimator = regressor(domain=written(rings), target_range=None, random_state=1).fit(X, numbers)
    same = regressor(random_state=1).fit(X, numbers)
    np.testing.assert_array_equal(estimator.predict(X), same.predict(X))
    with pytest.raises(ValueError, match=r"'rings' as a number.*PrivateBoostingRegressor"):
        boosting_classifier(domain=path, classes=None).fit(X, y)

    weighed = written(rings, weight={"column": "w", "most": 3})
    estimator = regressor(domain=weighed, target_range=None, max_weight=3)
    with pytest.raises(ValueError, match=r"weights of rows, in 'w'; give them.*=3"):
        estimator.fit(X, numbers)
