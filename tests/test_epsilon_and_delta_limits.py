"""Recipes refuse an epsilon out of range, and a delta that protects nobody."""

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


def options_of_recipe(name, **changes):
    domain_option = {"domain": DOMAIN} if name in ("auto", "additive", "oblivious_boost") else {}
    return {"rows": 1000, **domain_option, **changes}


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("name", MAKERS)
def test_a_refusal_of_epsilon_says_why(name, delta):
    options = options_of_recipe(name, delta=delta or (1e-6 if name == "halfspace_boost" else 0))
    with pytest.raises(ValueError, match=r"epsilon must be at most 1e\+06, .*got 1e\+300"):
        MAKERS[name](epsilon=1e300, **options)
    if name not in ("lazybb_rules", "lazybb_trees", "rf_e"):  # whose samplers lose no tail
        message = r"epsilon is too large .* give a row away"
        with pytest.raises(ValueError, match=message):
            MAKERS[name](epsilon=1e5, **options)
    with pytest.raises(ValueError, match=r"epsilon is too small|must have a scale"):
        MAKERS[name](epsilon=1e-9, **options)
    with pytest.raises(ValueError, match="epsilon must be"):
        MAKERS[name](epsilon=0, **options)


@pytest.mark.parametrize("name", MAKERS)
def test_a_delta_of_one_over_rows_is_refused_or_accepted_with_one_warning(name):
    with pytest.raises(ValueError, match=r"1 / rows or more.* or accept it by delta_anyway=True"):
        MAKERS[name](epsilon=1.0, **options_of_recipe(name, delta=1e-3))
    with pytest.warns(UserWarning, match="delta = 0.001 is 1 / rows or more") as caught:
        MAKERS[name](epsilon=1.0, **options_of_recipe(name, delta=1e-3), delta_anyway=True)
    assert [warning.filename for warning in caught] == [__file__]
    MAKERS[name](epsilon=1.0, **options_of_recipe(name, delta=0.999e-3))


def test_filters_and_estimators_refuse_a_large_delta_before_rows_are_read():
    with pytest.raises(ValueError, match=r"delta = 0\.01 .* expose 10 rows"):
        dpbt.Filter(epsilon=1, delta=0.01, rows=1000)
    with pytest.warns(UserWarning, match=r"delta = 0\.01 .* expose 10 rows"):
        dpbt.Filter(epsilon=1, delta=0.01, rows=1000, delta_anyway=True)
    estimator = PrivateBoostingClassifier(
        epsilon=1.0, delta=0.01, rows=1000, domain=DOMAIN, classes=[0, 1]
    )
    rows = np.zeros((1001, 2)), np.zeros(1001, int)
    with pytest.raises(ValueError, match=r"delta = 0\.01"):
        estimator.fit(*rows)
    estimator.set_params(delta_anyway=True)
    with pytest.warns(UserWarning, match=r"delta = 0\.01"), pytest.raises(ValueError, match="rows"):
        estimator.fit(*rows)


def test_the_statement_says_what_delta_means():
    def statement_of_delta(delta):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            recipe = recipes.random_forest(epsilon=1.0, rows=1000, delta=delta, delta_anyway=True)
            return dpbt.statement(recipe)

    assert "on average expose 0.001 rows." in statement_of_delta(1e-6)
    assert "unfit" not in statement_of_delta(0.99e-3)
    assert "on average expose 20 rows. Such a delta is unfit" in statement_of_delta(0.02)
    assert "What delta means" not in statement_of_delta(0.0)


DOMAIN_OF_1000_COLUMNS = {f"x{index}": Numeric(0, 1) for index in range(1000)}


def refuse_to_read(*_, **__):
    raise AssertionError("a row was read")


def test_a_bound_whose_table_does_not_fit_is_refused_before_a_row_is_read(monkeypatch):
    """The table has room for the bound, so its size reveals nothing about the rows."""
    columns = {name: [0.5] * 50 for name in DOMAIN_OF_1000_COLUMNS}
    with monkeypatch.context() as patch:
        patch.setattr("dpbt.data.tables.encode", refuse_to_read)
        patch.setattr("dpbt.data.tables.encode_positions", refuse_to_read)
        message = r"room for 10000000 rows of 1000 columns takes about 37\.3 GiB with its fit"
        with pytest.raises(ValueError, match=message):
            dpbt.table(DOMAIN_OF_1000_COLUMNS, columns, [True] * 50, capacity=10_000_000)
        with pytest.raises(ValueError, match=r"takes about 0\.000149 GiB"):
            dpbt.table(
                DOMAIN_OF_1000_COLUMNS,
                columns,
                [True] * 50,
                capacity=10,
                exact=True,
                memory=4 * 4 * 10 * 1000 - 1,
            )
        with pytest.raises(ValueError, match="memory must be in"):
            dpbt.table(DOMAIN_OF_1000_COLUMNS, columns, [True] * 50, capacity=10, memory=0)
    table = dpbt.table(
        DOMAIN_OF_1000_COLUMNS, columns, [True] * 50, capacity=60, memory=4 * 60 * 1000
    )
    assert table.bins.shape == (60, 1000)
    # Without a capacity the number of rows is public.
    table = dpbt.table(DOMAIN_OF_1000_COLUMNS, columns, [True] * 50, memory=1)
    assert table.bins.shape == (50, 1000)


def test_other_ways_to_a_table_refuse_such_a_bound_too(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("dpbt.owners.estimators.make_table_and_report", refuse_to_read)
    estimator = PrivateBoostingClassifier(
        epsilon=1, rows=10_000_000, domain=DOMAIN_OF_1000_COLUMNS, classes=(0, 1)
    )
    with pytest.raises(ValueError, match=r"37\.3 GiB with its fit, more than the memory of 4 GiB"):
        estimator.fit(np.zeros((50, 1000)), np.zeros(50))
    recipe = recipes.auto(epsilon=1, rows=10_000_000, domain=DOMAIN_OF_1000_COLUMNS)
    with pytest.raises(ValueError, match=r"37\.3 GiB with its fit"):
        dpbt.preview.preview([recipe], DOMAIN_OF_1000_COLUMNS)

    label = {"column": "y", "positive": "1", "negative": "0"}
    declared = {"columns": {"x*": {"type": "numeric", "low": 0, "high": 1}}, "label": label}
    (tmp_path / "domain.json").write_text(
        json.dumps({**declared, "names": list(DOMAIN_OF_1000_COLUMNS)})
    )
    (tmp_path / "rows.csv").write_text(",".join([*DOMAIN_OF_1000_COLUMNS, "y"]) + "\n")
    budget = dpbt.Filter(epsilon=1, rows=10_000_000, path=tmp_path / "filter.db")
    monkeypatch.setattr("dpbt.data.files.read_columns", refuse_to_read)
    command = [
        "fit",
        "rows.csv",
        "--domain",
        "domain.json",
        "--out",
        "model.json",
        "--epsilon",
        "1",
    ]
    command += ["--filter", "filter.db", "--rows", "10000000"]
    monkeypatch.chdir(tmp_path)
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "37.3 GiB with its fit" in error
    assert error.count("\n") == 1
    assert budget.spent == 0
