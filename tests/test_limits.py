"""What recipes say of an epsilon that they refuse, and of a delta that protects nobody."""

import re
import warnings

import numpy as np
import pytest

import dpbt
from dpbt import recipes, tuning
from dpbt.__main__ import main
from dpbt.commands import errors
from dpbt.data.domains import Boolean, Numeric
from dpbt.recipes import named
from dpbt.sklearn import PrivateBoostingClassifier

DOMAIN = {"a": Numeric(0, 1), "b": Boolean()}
MAKERS = {**named.BOOSTING, **named.FORESTS}
LIMIT = re.compile(
    r"epsilon must be at (most|least) (\S+) with these arguments, got .*: .*[a-z]{4}"
)


def options(name, **changes):
    own = {"domain": DOMAIN} if name in ("auto", "oblivious_boost") else {}
    return {"rows": 1000, **own, **changes}


def refused(make, epsilon, **given):
    """(word, limit) of a refusal of epsilon."""
    with pytest.raises(ValueError, match=LIMIT) as caught:
        make(epsilon=epsilon, **given)
    word, limit = LIMIT.match(str(caught.value)).groups()
    return word, float(limit)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("name", MAKERS)
def test_a_refusal_of_epsilon_states_the_nearest_that_is_accepted(name, delta):
    given = options(name, delta=delta or (1e-6 if name == "halfspace_boost" else 0))
    for asked, expected, beyond in ((1e300, "most", 1.02), (1e-9, "least", 0.98)):
        word, limit = refused(MAKERS[name], asked, **given)
        assert word == expected
        MAKERS[name](epsilon=limit, **given)
        assert refused(MAKERS[name], beyond * limit, **given)[0] == expected


def test_the_limits_of_several_settings_hold_for_all_that_are_finite():
    given = {"rows": 1000, "rounds": np.array([5, 5, 6])}
    word, limit = refused(recipes.bdpe, np.array([1.0, 1000.0, np.inf]), **given)
    assert word == "most"
    recipes.bdpe(epsilon=np.array([1.0, limit, np.inf]), **given)


@pytest.mark.slow
def test_a_choice_of_recipes_states_its_own_limit():
    given = {"rows": 1000, "domain": DOMAIN}

    def tuned(epsilon, **given):
        return tuning.around_auto(tuning.selection(), epsilon=epsilon, **given)

    _, limit = refused(tuned, 1000.0, **given)
    tuned(limit, **given)


@pytest.fixture
def files(tmp_path):
    rows, domain = tmp_path / "rows.csv", tmp_path / "domain.json"
    rows.write_text("a,y\n0.5,yes\n")
    label = '"label": {"column": "y", "positive": "yes", "negative": "no"}'
    domain.write_text('{"columns": {"a": {"type": "numeric", "low": 0, "high": 1}}, ' + label + "}")
    out = str(tmp_path / "model.json")
    return ["fit", str(rows), "--domain", str(domain), "--rows", "1000", "--out", out]


def test_estimators_and_the_command_line_state_the_limit(files, capfd):
    made = PrivateBoostingClassifier(epsilon=1000.0, rows=1000, domain=DOMAIN, classes=[0, 1])
    with pytest.raises(ValueError, match=LIMIT):
        made.fit(np.zeros((3, 2)), np.array([0, 1, 1]))
    assert main([*files, "--epsilon", "1000"]) == errors.BAD_INPUT
    said = capfd.readouterr().err
    assert said.startswith("error: epsilon must be at most ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("name", MAKERS)
def test_a_delta_of_one_over_rows_warns_once(name):
    with pytest.warns(UserWarning, match="delta = 0.001 is 1 / rows or more") as caught:
        MAKERS[name](epsilon=1.0, **options(name, delta=1e-3))
    assert [each.filename for each in caught] == [__file__]
    MAKERS[name](epsilon=1.0, **options(name, delta=0.999e-3))


def test_purses_estimators_and_the_command_line_warn_of_delta(files, capfd):
    with pytest.warns(UserWarning, match="delta = 0.01 .* expose 10 rows"):
        dpbt.Purse(epsilon=1, delta=0.01, rows=1000)
    made = PrivateBoostingClassifier(
        epsilon=1.0, delta=0.01, rows=1000, domain=DOMAIN, classes=[0, 1]
    )
    with pytest.warns(UserWarning, match="delta = 0.01"), pytest.raises(ValueError, match="rows"):
        made.fit(np.zeros((1001, 2)), np.zeros(1001, int))

    # A file that is not there ends the command after its recipe is made.
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        files[1] += ".none"
        assert main([*files, "--epsilon", "1", "--delta", "0.01"]) == errors.BAD_INPUT
    lines = capfd.readouterr().err.splitlines()
    assert [line.split(" ")[0] for line in lines] == ["warning:", "error:"]


def test_the_statement_says_what_delta_means():
    def said(delta):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return dpbt.statement(recipes.random_forest(epsilon=1.0, rows=1000, delta=delta))

    assert "each of 1,000 rows with probability delta" in said(1e-6)
    assert "On average 0.001 rows would be exposed" in said(1e-6)
    assert "unfit" not in said(0.99e-3)
    assert "On average 20 rows would be exposed.\nSuch a delta is unfit" in said(0.02)
    assert "What delta means" not in said(0.0)
