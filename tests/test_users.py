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


def made(ids, capacity=None, most=2, labels=None, **options):
    """A table whose x is the number of the row."""
    labels = [True] * len(ids) if labels is None else labels
    given = {"users": ids, "max_rows_per_user": most, "capacity": capacity, **options}
    return dpbt.table(DOMAIN, {"x": range(len(ids))}, labels, **given)


def counted(table):
    """The x of the rows that count, in their order."""
    return np.asarray(table.bins)[np.asarray(table.present), 0].tolist()


def test_odd_ids_are_compared_as_words_and_rows_without_an_id_are_absent():
    assert counted(made(ODD)) == [0, 1, 9, 10, 11, 12]  # 07 is no number
    assert counted(made(ODD, ignore_case=True, most=1)) == [0, 9, 10, 12]
    labels = [None, *[True] * (len(ODD) - 1)]  # a row without a label takes no place
    assert counted(made(ODD, labels=labels)) == [1, 2, 9, 10, 11, 12]
    packed = made(ODD, capacity=6)
    assert counted(packed) == counted(made(ODD))
    with pytest.raises(ValueError, match="more rows than the capacity of 5"):
        made(ODD, capacity=5)  # of rows after limiting


@pytest.mark.parametrize("capacity", [None, 150])
def test_a_user_moves_no_more_than_the_limit_and_no_row_of_another(capacity):
    """Neighbours: the rows of one user, some of which have no label, are there or not."""
    rng, most = np.random.default_rng(0), 3
    for _ in range(4):
        ids = rng.choice(["a", "b", "c", "d", None], 120, p=[0.5, 0.2, 0.2, 0.05, 0.05])
        labels = rng.choice([True, False, "no label"], 120, p=[0.4, 0.4, 0.2]).tolist()
        labels = [{"True": True, "False": False}.get(str(each), each) for each in labels]
        for gone in "abcd":
            stay = np.flatnonzero(ids != gone)
            all_rows = made(list(ids), capacity, most, labels)
            rest = made(ids[stay].tolist(), capacity, most, [labels[k] for k in stay])
            before, after = counted(all_rows), stay[counted(rest)].tolist()
            assert after == [row for row in before if ids[row] != gone]
            assert len(before) - len(after) <= most


def pieces(ids, labels):
    return (
        convert.RawRows(
            {"x": range(k, min(k + 5, len(ids)))}, labels[k : k + 5], users=ids[k : k + 5]
        )
        for k in range(0, len(ids), 5)
    )


@pytest.mark.parametrize("capacity", [None, 40])
def test_blocks_count_the_rows_that_memory_counts(tmp_path, monkeypatch, capacity):
    """Over parts of a source, and over lines of packed and of broken files."""
    ids, labels = [*ODD, "a", *ODD, "b"], ["yes", "no", "?"] * 10
    options = {"max_rows_per_user": 2, "negative": "no", "positive": "yes", "capacity": capacity}
    table = dpbt.table(DOMAIN, {"x": range(30)}, labels, users=ids, **options)
    found = convert.convert_rows(
        pieces(ids, labels), DOMAIN, tmp_path / "t", rows_per_block=7, **options
    )
    assert_same_rows(table, found)
    assert found.rows_per_user == table.rows_per_user == 2
    columns = {"x": range(30)}, labels, tmp_path / "columns"
    monkeypatch.setattr(convert, "READ_ROWS", 4)
    again = convert.convert_columns(DOMAIN, *columns, users=ids, rows_per_block=7, **options)
    assert again.identity == found.identity

    label = Label("y", "yes", "no", user=UserColumn("id", 2, ignore_case=True))
    lines = [f"{k},{y},{k % 4}A{k % 2 or 'a'}" for k, y in enumerate(labels)]
    lines[3:3] = ['9,"yes,7', "9,yes", "9,yes,", "9,yes,3A1,9"]  # rows of nobody
    text = "\n".join(["x,y,id", *lines]).encode()
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(text))
    read = files.read_columns(tmp_path / "rows.csv.gz", (*DOMAIN, *label.columns))
    table = dpbt.table(
        DOMAIN, read, read["y"], users=read["id"], **label.options, capacity=capacity
    )
    given = tmp_path / "rows.csv.gz", DOMAIN, label, tmp_path / "file"
    assert_same_rows(table, convert.convert_file(*given, capacity=capacity, rows_per_block=7))


def test_ids_and_limits_go_together_and_a_recipe_pays_for_the_limit(tmp_path):
    for options in ({"users": ODD}, {"max_rows_per_user": 2}):
        with pytest.raises(ValueError, match="go together"):
            dpbt.table(DOMAIN, {"x": range(len(ODD))}, [True] * len(ODD), **options)
    with pytest.raises(ValueError, match="users must have the same length"):
        dpbt.table(DOMAIN, {"x": [1]}, [True], users=ODD, max_rows_per_user=2)

    key, table = dpbt.fresh_key(), made(ODD, capacity=20)
    options = {"max_rows_per_user": 2, "capacity": 20}
    ones = pieces(ODD, [True] * len(ODD))
    folder = convert.convert_rows(ones, DOMAIN, tmp_path / "t", **options)
    bdpe = {"epsilon": 1.0, "rows": 20, "rounds": 1, "depth": 1}
    few, enough = recipes.bdpe(**bdpe), recipes.bdpe(**bdpe, max_rows_per_user=2)
    budget = dpbt.Filter(1.0, rows=20)
    for fit in (
        lambda: dpbt.boost(key, table, few),
        lambda: dpbt.fit(key, table, few, filter=budget),
        lambda: dpbt.fit(key, folder, few),
        lambda: dpbt.tune(key, table, few, dpbt.tuning.selection()),
    ):
        with pytest.raises(ValueError, match="give the recipe max_rows_per_user=2"):
            fit()
    assert budget.spent == 0
    for given in (table, folder):
        book = dpbt.ledger(enough.with_user_limit_of(given))
        assert book.limits_users
        assert "promise" not in f"{book}{dpbt.statement(book)}"
        assert "up to 2 (dpbt theorem U1)" in str(book)
        assert "whether one user is in the table" in dpbt.statement(book)
    assert "promise" in str(dpbt.ledger(enough))
    assert not (dpbt.ledger(enough.with_user_limit_of(table)) + dpbt.ledger(enough)).limits_users
    for most in (1, 2):
        book = dpbt.ledger(recipes.bdpe(**bdpe, max_rows_per_user=most).with_user_limit_of(table))
        assert "at most 27.2 % of its users are recognised" in dpbt.statement(book)


def test_the_command_line_limits_the_rows_of_a_file_and_of_its_blocks(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    label = {"column": "y", "positive": "yes", "negative": "no"}
    text = {"columns": {"x": {"type": "numeric", "low": 0, "high": 9, "bins": 9}}, "label": label}
    with open("plain.json", "w") as plain, open("d.json", "w") as limited:
        json.dump(text, plain)
        json.dump({**text, "user": {"column": "id", "most": 2}}, limited)
    rows = [f"{k % 9},{'yes' if k % 9 > 4 else 'no'},{k % 10 or ''}" for k in range(100)]
    with open("rows.csv", "w") as file:
        file.write("\n".join(["x,y,id", *rows]))
    assert main(["domain", "template", "rows.csv", "--label", "y", "--user", "id"]) == 0
    assert '"user": {"column": "id"' in capsys.readouterr().out

    terms = ["--epsilon", "1", "--recipe", "bdpe", "--rounds", "1", "--depth", "1", "--seed", "0"]
    fit = ["fit", "rows.csv", "--domain", "d.json", *terms, "--rows"]
    assert main(["convert", "d.json", "rows.csv", "blocks", "--capacity", "18"]) == 0
    assert main([*fit, "17", "--out", "m.json"]) == 2  # 9 users of 2 rows
    seen = []
    monkeypatch.setattr(commands, "_pay_and_fit", lambda *given, **_: seen.append(given) or 1 / 0)
    for rows in ("rows.csv", "blocks"):
        with pytest.raises(ZeroDivisionError):
            main(["fit", rows, *fit[2:], "18", "--out", "m.json"])
        _, table, recipe, *_ = seen.pop()
        assert table.rows_per_user == recipe.max_rows_per_user == 2
    for words in (["rows.csv", "--max-rows-per-user", "3"], ["blocks", "--domain", "plain.json"]):
        given = ["fit", *words, *terms, "--rows", "18", "--out", "n.json"]
        assert main(given if "--domain" in words else [*given, "--domain", "d.json"]) == 2
    errors = capsys.readouterr().err
    assert "more rows than the capacity of 17" in errors
    assert "limits them to 2" in errors
    assert "bound on weights or on rows of a user" in errors

    monkeypatch.setattr(dpbt.preview, "preview", lambda *given, **_: seen.append(given) or "")
    assert (
        main(["preview", "--domain", "d.json", *terms[:2], "--rows", "9", "--public", "rows.csv"])
        == 0
    )
    assert int(np.sum(seen.pop()[2].present)) == 100

    domain, found = read_domain("d.json")
    columns = files.read_columns("rows.csv", (*domain, *found.columns))
    report = file_report.owner_report_of_rows(domain, found, [columns])
    assert report.unread["id"] == 10
    assert report.suspect_columns == ("id",)
    assert "id: 10 have no id, and are absent" in str(report)
