"""scikit-learn's own checks of estimators."""

import functools

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpbt import recipes
from dpbt.data.domains import Numeric
from dpbt.sklearn import PrivateBoostingRegressor, PrivateForestClassifier
from tests.support.estimator_examples import (
    SMALL_BOOSTING,
    boosting_classifier,
    forest_classifier,
)

REFUSED = {
    "check_estimators_empty_data_messages": "whether there are rows at all is private",
    "check_classifiers_classes": "classes are declared and never read off the labels",
    "check_classifiers_regression_target": "a label that is no declared class is an absent row",
    "check_supervised_y_no_nan": "a label that is missing or infinite is an absent row",
    "check_classifier_not_supporting_multiclass": "a third label is an absent row",
    "check_all_zero_sample_weights_error": "the sum of the weights is private",
}
"""The checks that would have an error say something of private rows."""

NOISE = {
    "check_sample_weight_equivalence_on_dense_data": "a row of weight 2 has the noise of a bound "
    "of 2, and two rows have that of one row",
}
"""The checks that noise, or a declaration, makes impossible."""

SEVERAL = {
    "check_classifiers_train": "shapes follow from the declared classes, and not from the two that "
    "occur in the check",
    "check_decision_proba_consistency": "as above: it ranks the scores of two classes",
    "check_class_weight_classifiers": "weights must name every declared class, and the check names "
    "two of three; tests/test_sklearn.py has weights of three",
}
"""As `NOISE`, for an estimator of three declared classes."""


def checks_that_fail(estimator):
    """The checks that an estimator cannot pass, with their reasons."""
    if isinstance(estimator, PrivateForestClassifier):
        return REFUSED
    several = getattr(estimator, "classes", None) is not None and len(estimator.classes) > 2
    return {**REFUSED, **NOISE, **(SEVERAL if several else {})}


class Maker(functools.partial):
    """A recipe whose name has no address, as the workers must agree on the names of the tests."""

    def __repr__(self) -> str:
        return f"{self.func.__name__} with {self.keywords}"


BOOSTED = {"rows": 512, "domain": Numeric(-5, 5, bins=16), "epsilon": 50.0}
TREES = Maker(SMALL_BOOSTING, rounds=8, depth=3)
TREE_GROUPS = Maker(recipes.random_forest, rounds=8, depth=5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        boosting_classifier(**BOOSTED, max_weight=1, classes=(0, 1), recipe=TREES),
        boosting_classifier(**BOOSTED, max_weight=1, classes=(0, 1, 2), recipe=TREES),
        forest_classifier(**BOOSTED, classes=(0, 1), recipe=TREE_GROUPS),
        PrivateBoostingRegressor(**BOOSTED, max_weight=1, target_range=(-300, 300), recipe=TREES),
    ],
    expected_failed_checks=checks_that_fail,
)
def test_estimators_pass_the_checks_of_scikit_learn(estimator, check):
    check(estimator)
