"""What recipes say of an epsilon that they refuse, and of a delta that protects nobody."""

import warnings

import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.data.domains import Boolean, Numeric
from dpbt.sklearn import PrivateBoostingClassifier

DOMAIN = {"a": Numeric(0, 1), "b": Boolean()}
MAKERS = recipes.NAMED


def options(name, **changes):
    own = {"domain": DOMAIN} if name in ("auto", "additive", "oblivious_boost") else {}
    return {"rows": 1000, **own, **changes}


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("name", MAKERS)
def test_a_refusal_of_epsilon_says_why(name, delta):
    given = options(name, delta=delta or (1e-6 if name == "halfspace_boost" else 0))
    with pytest.raises(ValueError, match=r"epsilon must be at most 1e\+06, .*got 1e\+300"):
        MAKERS[name](epsilon=1e300, **given)
    if name not in ("lazybb_rules", "lazybb_trees", "rf_e"):  # whose samplers lose no tail
        words = r"epsilon is too large .* give a row away"
        with pytest.raises(ValueError, match=words):
            MAKERS[name](epsilon=1e5, **given)
    with pytest.raises(ValueError, match=r"epsilon is too small|must have a scale"):
        MAKERS[name](epsilon=1e-9, **given)
    with pytest.raises(ValueError, match="epsilon must be"):
        MAKERS[name](epsilon=0, **given)


@pytest.mark.parametrize("name", MAKERS)
def test_a_delta_of_one_over_rows_is_refused_or_accepted_with_one_warning(name):
    with pytest.raises(ValueError, match=r"1 / rows or more.* or accept it by delta_anyway=True"):
        MAKERS[name](epsilon=1.0, **options(name, delta=1e-3))
    with pytest.warns(UserWarning, match="delta = 0.001 is 1 / rows or more") as caught:
        MAKERS[name](epsilon=1.0, **options(name, delta=1e-3), delta_anyway=True)
    assert [each.filename for each in caught] == [__file__]
    MAKERS[name](epsilon=1.0, **options(name, delta=0.999e-3))


def test_filters_and_estimators_refuse_a_large_delta_before_rows_are_read():
    with pytest.raises(ValueError, match=r"delta = 0\.01 .* expose 10 rows"):
        dpbt.Filter(epsilon=1, delta=0.01, rows=1000)
    with pytest.warns(UserWarning, match=r"delta = 0\.01 .* expose 10 rows"):
        dpbt.Filter(epsilon=1, delta=0.01, rows=1000, delta_anyway=True)
    made = PrivateBoostingClassifier(
        epsilon=1.0, delta=0.01, rows=1000, domain=DOMAIN, classes=[0, 1]
    )
    rows = np.zeros((1001, 2)), np.zeros(1001, int)
    with pytest.raises(ValueError, match=r"delta = 0\.01"):
        made.fit(*rows)
    made.set_params(delta_anyway=True)
    with pytest.warns(UserWarning, match=r"delta = 0\.01"), pytest.raises(ValueError, match="rows"):
        made.fit(*rows)


def test_the_statement_says_what_delta_means():
    def said(delta):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            recipe = recipes.random_forest(epsilon=1.0, rows=1000, delta=delta, delta_anyway=True)
            return dpbt.statement(recipe)

    assert "on average expose 0.001 rows." in said(1e-6)
    assert "unfit" not in said(0.99e-3)
    assert "on average expose 20 rows. Such a delta is unfit" in said(0.02)
    assert "What delta means" not in said(0.0)
