"""What recipes say of an epsilon that they refuse, and of a delta that protects nobody."""

import json
import warnings

import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.__main__ import main
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


WIDE = {f"x{number}": Numeric(0, 1) for number in range(1000)}


def refuse_to_read(*_, **__):
    raise AssertionError("a row was read")


def test_a_bound_whose_table_does_not_fit_is_refused_before_a_row_is_read(monkeypatch):
    """The table has room for the bound, so that its size tells nothing of the rows."""
    columns = {name: [0.5] * 50 for name in WIDE}
    with monkeypatch.context() as patch:
        patch.setattr("dpbt.data.tables.encode", refuse_to_read)
        patch.setattr("dpbt.data.tables.encode_positions", refuse_to_read)
        words = r"room for 10000000 rows of 1000 columns takes about 37\.3 GiB with its fit"
        with pytest.raises(ValueError, match=words):
            dpbt.table(WIDE, columns, [True] * 50, capacity=10_000_000)
        with pytest.raises(ValueError, match=r"takes about 0\.000149 GiB"):
            dpbt.table(
                WIDE, columns, [True] * 50, capacity=10, exact=True, memory=4 * 4 * 10 * 1000 - 1
            )
        with pytest.raises(ValueError, match="memory must be in"):
            dpbt.table(WIDE, columns, [True] * 50, capacity=10, memory=0)
    table = dpbt.table(WIDE, columns, [True] * 50, capacity=60, memory=4 * 60 * 1000)
    assert table.bins.shape == (60, 1000)
    assert dpbt.table(WIDE, columns, [True] * 50, memory=1).bins.shape == (50, 1000)  # N is public


def test_other_ways_to_a_table_refuse_such_a_bound_too(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("dpbt.owners.estimators.make_table_and_report", refuse_to_read)
    estimator = PrivateBoostingClassifier(epsilon=1, rows=10_000_000, domain=WIDE, classes=(0, 1))
    with pytest.raises(ValueError, match=r"37\.3 GiB with its fit, more than the memory of 4 GiB"):
        estimator.fit(np.zeros((50, 1000)), np.zeros(50))
    recipe = recipes.auto(epsilon=1, rows=10_000_000, domain=WIDE)
    with pytest.raises(ValueError, match=r"37\.3 GiB with its fit"):
        dpbt.preview.preview([recipe], WIDE)

    label = {"column": "y", "positive": "1", "negative": "0"}
    declared = {"columns": {"x*": {"type": "numeric", "low": 0, "high": 1}}, "label": label}
    (tmp_path / "domain.json").write_text(json.dumps({**declared, "names": list(WIDE)}))
    (tmp_path / "rows.csv").write_text(",".join([*WIDE, "y"]) + "\n")
    budget = dpbt.Filter(epsilon=1, rows=10_000_000, path=tmp_path / "filter.db")
    monkeypatch.setattr("dpbt.data.files.read_columns", refuse_to_read)
    words = ["fit", "rows.csv", "--domain", "domain.json", "--out", "model.json", "--epsilon", "1"]
    words += ["--filter", "filter.db", "--rows", "10000000"]
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "37.3 GiB with its fit" in error
    assert error.count("\n") == 1
    assert budget.spent == 0
