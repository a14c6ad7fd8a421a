"""scikit-learn's own checks of estimators."""

import functools

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpbt.data.domains import Numeric
from tests.test_sklearn import GROVE, SMALL, boosting, forest

REFUSED = {
    "check_estimators_empty_data_messages": "whether there are rows at all is private",
    "check_classifiers_classes": "classes are declared and never read off the labels",
    "check_classifiers_regression_target": "a label that is neither class is an absent row",
    "check_supervised_y_no_nan": "a label that is missing or infinite is an absent row",
    "check_classifier_not_supporting_multiclass": "a third label is an absent row",
}
"""The checks that would have an error say something of private rows."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        make(epsilon=50.0, rows=512, domain=Numeric(-5, 5, bins=16), classes=(0, 1), recipe=recipe)
        for make, recipe in (
            (boosting, functools.partial(SMALL, rounds=8, depth=3)),
            (forest, functools.partial(GROVE, rounds=8, depth=5)),
        )
    ],
    expected_failed_checks=lambda estimator: REFUSED,
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)
