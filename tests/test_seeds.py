"""Seeds of estimators: other rows have other noise."""

import warnings

import jax
import numpy as np
import pytest

import dpbt
from dpbt.privacy.keys import ResearchKeyWarning
from tests.support.estimator_examples import (
    DOMAIN,
    boosting_classifier,
    forest_classifier,
)
from tests.support.example_tables import keys_of_seed


def test_one_seed_has_other_noise_on_other_rows_and_the_same_structure(labelled_rows):
    """Else two fits under one seed would differ by exactly what one row adds to a sum."""
    X, y = labelled_rows
    weight = np.full(50, 0.5)
    others = {"fewer": (X[1:], y[1:]), "a label": (X, np.r_[1 - y[0], y[1:]])}
    others |= {"a weight": (X, y, np.r_[1.0, weight[1:]]), "a bin": (1 - X, y)}
    columns = {"a": X[:, 0], "b": X[:, 1]}
    tables = [dpbt.table(DOMAIN, columns, y == 1, capacity=n) for n in (50, 64)]
    assert np.array_equal(*(jax.random.key_data(keys_of_seed(3, table)[0]) for table in tables))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResearchKeyWarning)
        for make, bound in (
            (boosting_classifier, {"max_weight": 1.0}),
            (forest_classifier, {}),
        ):
            same = ((X, y, weight), (X, y, weight)) if bound else ((X, y), (X, y))
            first, again = (keys_of(make(random_state=3, **bound), given) for given in same)
            assert first == again
            for name, given in others.items():
                if bound or name != "a weight":
                    noise, structure = keys_of(make(random_state=3, **bound), given)
                    assert noise != first[0], name
                    assert structure == first[1], name


def keys_of(estimator, given):
    """The words of the keys of noise and of structure of a fit, which is not run."""
    used = []

    def learn(key, table, recipe, public_key, **_):
        used.extend(jax.random.key_data(one).tolist() for one in (key, public_key))
        raise InterruptedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpbt.owners.estimators.fit", learn)
        with pytest.raises(InterruptedError):
            estimator.fit(*given)
    return used
