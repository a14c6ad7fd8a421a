"""Limits on the rows of a user: which rows count follows from the rows of their user alone."""

import gzip
import json

import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.__main__ import main
from dpbt.data import convert, files
from dpbt.data.domains import Label, Numeric, UserColumn, read_domain
from dpbt.owners import file_report
from dpbt.owners.cli import rows as commands
from tests.support.block_tables import assert_same_rows

DOMAIN = {"x": Numeric(-0.5, 199.5, bins=200)}
ODD = [" 7 ", 7, 7.0, "7", b"7.00", None, np.nan, "", "NA", "07", "Ann", "ann", "\ud800", object()]


def table_of_users(ids, *, capacity=None, max_rows_per_user=2, labels=None, **options):
    """A table whose x is the index of the row."""
    labels = [True] * len(ids) if labels is None else labels
    table_options = {
        "users": ids,
        "max_rows_per_user": max_rows_per_user,
        "capacity": capacity,
        **options,
    }
    return dpbt.table(DOMAIN, {"x": range(len(ids))}, labels, **table_options)


def rows_that_count(table):
    """The x of the rows that count, in their order."""
    return np.asarray(table.bins)[np.asarray(table.present), 0].tolist()


def test_odd_ids_are_compared_as_words_and_rows_without_an_id_are_absent():
    assert rows_that_count(table_of_users(ODD)) == [0, 1, 9, 10, 11, 12]  # 07 is no number
    ignoring_case = table_of_users(ODD, ignore_case=True, max_rows_per_user=1)
    assert rows_that_count(ignoring_case) == [0, 9, 10, 12]
    labels = [None, *[True] * (len(ODD) - 1)]  # a row without a label takes no place
    assert rows_that_count(table_of_users(ODD, labels=labels)) == [1, 2, 9, 10, 11, 12]
    packed = table_of_users(ODD, capacity=6)
    assert rows_that_count(packed) == rows_that_count(table_of_users(ODD))
    with pytest.raises(ValueError, match="more rows than the capacity of 5"):
        table_of_users(ODD, capacity=5)  # of rows after limiting


@pytest.mark.parametrize("capacity", [None, 150])
def test_a_user_moves_no_more_than_the_limit_and_no_row_of_another(capacity):
    """The rows of one user, some of which have no label, are in the table or not."""
    rng, max_rows_per_user = np.random.default_rng(0), 3
    limits = {"capacity": capacity, "max_rows_per_user": max_rows_per_user}
    for _ in range(4):
        ids = rng.choice(["a", "b", "c", "d", None], 120, p=[0.5, 0.2, 0.2, 0.05, 0.05])
        labels = rng.choice([True, False, "no label"], 120, p=[0.4, 0.4, 0.2]).tolist()
        labels = [{"True": True, "False": False}.get(str(label), label) for label in labels]
        for user in "abcd":
            other_rows = np.flatnonzero(ids != user)
            other_labels = [labels[k] for k in other_rows]
            table_of_all = table_of_users(list(ids), labels=labels, **limits)
            table_without_user = table_of_users(
                ids[other_rows].tolist(), labels=other_labels, **limits
            )
            before = rows_that_count(table_of_all)
            after = other_rows[rows_that_count(table_without_user)].tolist()
            assert after == [row for row in before if ids[row] != user]
            assert len(before) - len(after) <= max_rows_per_user


def raw_rows_in_pieces(ids, labels):
    return (
        convert.RawRows(
            {"x": range(k, min(k + 5, len(ids)))}, labels[k : k + 5], users=ids[k : k + 5]
        )
        for k in range(0, len(ids), 5)
    )


@pytest.mark.parametrize("capacity", [None, 40])
def test_blocks_count_the_rows_that_memory_counts(tmp_path, monkeypatch, capacity):
    """Sources come in parts, in packed files and with broken lines."""
    ids, labels = [*ODD, "a", *ODD, "b"], ["yes", "no", "?"] * 10
    options = {"max_rows_per_user": 2, "negative": "no", "positive": "yes", "capacity": capacity}
    table = dpbt.table(DOMAIN, {"x": range(30)}, labels, users=ids, **options)
    in_blocks = convert.convert_rows(
        raw_rows_in_pieces(ids, labels), DOMAIN, tmp_path / "t", rows_per_block=7, **options
    )
    assert_same_rows(table, in_blocks)
    assert in_blocks.rows_per_user == table.rows_per_user == 2
    columns = {"x": range(30)}, labels, tmp_path / "columns"
    monkeypatch.setattr(convert, "READ_ROWS", 4)
    from_columns = convert.convert_columns(DOMAIN, *columns, users=ids, rows_per_block=7, **options)
    assert from_columns.identity == in_blocks.identity

    label = Label("y", "yes", "no", user=UserColumn("id", 2, ignore_case=True))
    lines = [f"{k},{y},{k % 4}A{k % 2 or 'a'}" for k, y in enumerate(labels)]
    lines[3:3] = ['9,"yes,7', "9,yes", "9,yes,", "9,yes,3A1,9"]  # rows of nobody
    text = "\n".join(["x,y,id", *lines]).encode()
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(text))
    file_columns = files.read_columns(tmp_path / "rows.csv.gz", (*DOMAIN, *label.columns))
    table = dpbt.table(
        DOMAIN,
        file_columns,
        file_columns["y"],
        users=file_columns["id"],
        **label.options,
        capacity=capacity,
    )
    from_file = tmp_path / "rows.csv.gz", DOMAIN, label, tmp_path / "file"
    assert_same_rows(table, convert.convert_file(*from_file, capacity=capacity, rows_per_block=7))


def test_ids_and_limits_go_together_and_a_recipe_pays_for_the_limit(tmp_path):
    for options in ({"users": ODD}, {"max_rows_per_user": 2}):
        with pytest.raises(ValueError, match="go together"):
            dpbt.table(DOMAIN, {"x": range(len(ODD))}, [True] * len(ODD), **options)
    with pytest.raises(ValueError, match="users must have the same length"):
        dpbt.table(DOMAIN, {"x": [1]}, [True], users=ODD, max_rows_per_user=2)

    key, table = dpbt.fresh_key(), table_of_users(ODD, capacity=20)
    options = {"max_rows_per_user": 2, "capacity": 20}
    raw_rows = raw_rows_in_pieces(ODD, [True] * len(ODD))
    folder = convert.convert_rows(raw_rows, DOMAIN, tmp_path / "t", **options)
    bdpe = {"epsilon": 1.0, "rows": 20, "rounds": 1, "depth": 1}
    for_single_rows, for_two_rows = recipes.bdpe(**bdpe), recipes.bdpe(**bdpe, max_rows_per_user=2)
    budget = dpbt.Filter(1.0, rows=20)
    for fit in (
        lambda: dpbt.boost(key, table, for_single_rows),
        lambda: dpbt.fit(key, table, for_single_rows, filter=budget),
        lambda: dpbt.fit(key, folder, for_single_rows),
        lambda: dpbt.tune(key, table, for_single_rows, dpbt.tuning.selection()),
    ):
        with pytest.raises(ValueError, match="give the recipe max_rows_per_user=2"):
            fit()
    assert budget.spent == 0
    for any_table in (table, folder):
        recipe_ledger = dpbt.ledger(for_two_rows.with_user_limit_of(any_table))
        assert recipe_ledger.limits_users
        assert "promise" not in f"{recipe_ledger}{dpbt.statement(recipe_ledger)}"
        assert "up to 2 (dpbt theorem U1)" in str(recipe_ledger)
        assert "whether one user is in the table" in dpbt.statement(recipe_ledger)
    assert "promise" in str(dpbt.ledger(for_two_rows))
    assert not (
        dpbt.ledger(for_two_rows.with_user_limit_of(table)) + dpbt.ledger(for_two_rows)
    ).limits_users
    for max_rows_per_user in (1, 2):
        recipe_ledger = dpbt.ledger(
            recipes.bdpe(**bdpe, max_rows_per_user=max_rows_per_user).with_user_limit_of(table)
        )
        assert "at most 27.2 % of its users are recognised" in dpbt.statement(recipe_ledger)


def test_the_command_line_limits_the_rows_of_a_file_and_of_its_blocks(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    label = {"column": "y", "positive": "yes", "negative": "no"}
    domain_text = {
        "columns": {"x": {"type": "numeric", "low": 0, "high": 9, "bins": 9}},
        "label": label,
    }
    with open("plain.json", "w") as plain, open("d.json", "w") as limited:
        json.dump(domain_text, plain)
        json.dump({**domain_text, "user": {"column": "id", "most": 2}}, limited)
    rows = [f"{k % 9},{'yes' if k % 9 > 4 else 'no'},{k % 10 or ''}" for k in range(100)]
    with open("rows.csv", "w") as file:
        file.write("\n".join(["x,y,id", *rows]))
    assert main(["domain", "template", "rows.csv", "--label", "y", "--user", "id"]) == 0
    assert '"user": {"column": "id"' in capsys.readouterr().out

    stump = ["--recipe", "bdpe", "--rounds", "1", "--depth", "1"]
    fit_terms = ["--epsilon", "1", *stump, "--seed", "0"]
    fit = ["fit", "rows.csv", "--domain", "d.json", *fit_terms, "--rows"]
    assert main(["convert", "d.json", "rows.csv", "blocks", "--capacity", "18"]) == 0
    assert main([*fit, "17", "--out", "m.json"]) == 2  # 9 users of 2 rows
    calls = []
    monkeypatch.setattr(commands, "_pay_and_fit", lambda *call, **_: calls.append(call) or 1 / 0)
    for rows in ("rows.csv", "blocks"):
        with pytest.raises(ZeroDivisionError):
            main(["fit", rows, *fit[2:], "18", "--out", "m.json"])
        _, table, recipe, *_ = calls.pop()
        assert table.rows_per_user == recipe.max_rows_per_user == 2
    for options in (["rows.csv", "--max-rows-per-user", "3"], ["blocks", "--domain", "plain.json"]):
        arguments = ["fit", *options, *fit_terms, "--rows", "18", "--out", "n.json"]
        if "--domain" not in options:
            arguments += ["--domain", "d.json"]
        assert main(arguments) == 2
    errors = capsys.readouterr().err
    assert "more rows than the capacity of 17" in errors
    assert "limits them to 2" in errors
    assert "bound on weights or on rows of a user" in errors

    monkeypatch.setattr(dpbt.preview, "preview", lambda *call, **_: calls.append(call) or "")
    assert (
        main(
            ["preview", "--domain", "d.json", *fit_terms[:2], "--rows", "9", "--public", "rows.csv"]
        )
        == 0
    )
    assert int(np.sum(calls.pop()[2].present)) == 100

    domain, declared_label = read_domain("d.json")
    columns = files.read_columns("rows.csv", (*domain, *declared_label.columns))
    report = file_report.owner_report_of_rows(domain, declared_label, [columns])
    assert report.unread["id"] == 10
    assert report.suspect_columns == ("id",)
    assert "id: 10 have no id, and are absent" in str(report)
