"""What leaves a private table besides draws.

A rare cell and the exact number of rows are looked for in all files, output, logs, warnings and
errors of sweeps and of fits; `test_refusals` does so for refusals.
"""

import dataclasses
import hashlib
import hmac
import itertools
import json
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes, sweeps
from dpbt.data import domains
from dpbt.data.domains import Nominal, Numeric
from dpbt.data.tables import select_rows
from dpbt.types import Table
from tests.support.leak_watch import (
    BOUND,
    NUM_ROWS,
    Watch,
    find_private_words,
    find_private_words_in_files,
    private_task,
    text_of_error,
)
from tests.support.slow_cases import mark_slow_cases

PUBLIC = jax.random.key(2**31)
MAKERS = {
    "bdpe": (recipes.bdpe, {"rounds": 2, "depth": 1}),
    "lazybb": (recipes.lazybb_rules, {"rounds": 2, "relation": "add_remove"}),
    "disjoint": (recipes.random_forest, {"rounds": 3, "depth": 2, "disjoint": True}),
}


@pytest.fixture
def watch(capfd, caplog, tmp_path):
    return Watch(capfd, caplog, tmp_path)


# --- sweeps


def make(rows, rounds):
    return recipes.bdpe(rows=rows, rounds=rounds, depth=1, epsilon=1.0, alpha=1.0)


SWEEP = sweeps.Sweep("leaving", make, ({"rounds": (1, 2)},))


@pytest.mark.slow
def test_a_sweep_says_no_number_of_rows_killed_resumed_or_refused(tmp_path, watch):
    task, folder = private_task(), tmp_path / "results"

    def interrupt(fits):
        if fits:
            raise KeyboardInterrupt

    watch(lambda: sweeps.run(SWEEP, [task], folder, progress=interrupt))
    assert isinstance(watch.error, KeyboardInterrupt)
    assert (folder / "own.part").exists()
    assert find_private_words(watch.said) == []
    report = watch(lambda: sweeps.run(SWEEP, [task], folder))
    assert report.reused > 0
    assert find_private_words(watch.said) == []

    # A row fewer, and another sweep, are refused.
    table_of_fewer_rows = select_rows(task.table, np.arange(len(task.table.target) - 1))
    masks = {"train": task.train[:, :-1], "test": task.test[:, :-1]}
    for sweep, other_task in (
        (SWEEP, task._replace(table=table_of_fewer_rows, **masks)),
        (sweeps.Sweep("leaving", make, ({"rounds": (1, 3)},)), task),
    ):
        watch(lambda sweep=sweep, other_task=other_task: sweeps.run(sweep, [other_task], folder))
        assert "begun otherwise" in str(watch.error)
        assert find_private_words(watch.said.replace(str(NUM_ROWS - 1), str(NUM_ROWS))) == []


def digests_without_secret_key(task, keys=()):
    """Digests of a task that anybody can compute: without a key, or under keys that are public."""
    content = json.dumps(dict(task.arguments), sort_keys=True, default=str).encode()
    for array in map(np.asarray, (*jax.tree.leaves(task.table), task.train, task.test)):
        content += f"{array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes()
    digests = [hashlib.sha256(content)] + [hmac.new(key, content, "sha256") for key in keys]
    return [digest.hexdigest()[:12] for digest in digests]


def rows_found_by_guessing(folder):
    """The last rows, out of all 64, of which a digest is in some file of the folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    text = "".join(path.read_bytes().decode("latin-1") for path in files)
    keys = (b"", bytes(32), b"own", b"leaving")
    rows = itertools.product((False, True), repeat=6)
    return [
        row
        for row in rows
        if any(mark in text for mark in digests_without_secret_key(private_task(row), keys))
    ]


def test_guesses_of_a_row_find_nothing_in_the_files_of_a_sweep(tmp_path, sweeps_without_training):
    """Where a file holds a digest without a key, 64 guesses find the row."""
    task = private_task()
    sweeps.run(SWEEP, [task], tmp_path / "results")
    assert rows_found_by_guessing(tmp_path / "results") == []

    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "own.jsonl").write_text(
        json.dumps({"tasks": {"own": digests_without_secret_key(task)[0]}})
    )
    assert rows_found_by_guessing(tmp_path / "plain") == [(True, False, True, True, False, True)]


# --- models


@pytest.fixture(scope="module")
def table():
    task = private_task()
    return jax.tree.map(jnp.asarray, task.table)


@pytest.mark.parametrize("name", mark_slow_cases(MAKERS, slow=["disjoint"]))
def test_no_array_of_a_model_is_as_long_as_the_table(table, name, watch):
    maker, settings = MAKERS[name]
    recipe = maker(epsilon=1.0, rows=BOUND, **settings)
    model = watch(lambda: dpbt.fit(jax.random.key(0), table, recipe, PUBLIC))
    assert find_private_words(watch.said) == []
    arrays = jax.tree.map(np.asarray, jax.tree.leaves(model))
    assert not [array.shape for array in arrays if NUM_ROWS in array.shape]
    assert not [array for array in arrays if array.ndim == 0 and array == NUM_ROWS]
    assert all(NUM_ROWS not in array.shape for array in pickle.loads(pickle.dumps(arrays)))
    assert find_private_words(f"{dpbt.ledger(recipe)}\n{recipe!r}\n{model!r}") == []

    withheld = set(recipe.learner.withheld)
    assert withheld == ({"part"} if name == "disjoint" else set())
    assert not withheld & set(model.releases)


def test_a_learner_cannot_withhold_a_site_that_it_does_not_draw(table):
    recipe = recipes.bdpe(epsilon=1.0, rows=BOUND, rounds=1, depth=1)
    learner = dataclasses.replace(recipe.learner, withheld=("prat",))
    object.__setattr__(recipe, "learner", learner)
    with pytest.raises(ValueError, match=r"withholds \['prat'\]"):
        dpbt.fit(jax.random.key(0), table, recipe)


@pytest.mark.slow
def test_a_fit_on_columns_says_nothing_of_a_rare_cell(watch):
    domain = {"age": Numeric(0, 100, bins=3), "job": Nominal(("clerk", "smith"))}
    ages = np.append(np.arange(NUM_ROWS - 1) % 100, 31337.7719)
    columns = {"age": ages, "job": ["clerk"] * (NUM_ROWS - 1) + ["zqxcell"]}
    recipe = recipes.bdpe(epsilon=1.0, rows=BOUND, rounds=2, depth=2)

    def run():
        cells, column_splits = domains.encode(domain, columns), domains.splits(domain)
        table = Table(cells, ages > 50, np.ones(NUM_ROWS, bool), column_splits)
        model = dpbt.fit(jax.random.key(0), table, recipe)
        return f"{dpbt.explain(model, domain)}\n{dpbt.ledger(recipe)}\n{model!r}"

    text = watch(run)
    assert "age > " in text
    assert find_private_words(text) == find_private_words(watch.said) == []


def test_the_search_finds_planted_private_words(tmp_path, watch):
    """Cells and N are found in output, in errors that were being handled, and in files."""
    try:
        raise KeyError("zqxlabel")
    except KeyError as error:
        handled = error
    later = ValueError("bad")
    later.__context__ = handled
    for text in (
        f"got i32[{NUM_ROWS}, 3]",
        f"{NUM_ROWS} rows",
        f"{{'a': {NUM_ROWS}}}",
        "31337.7719",
        text_of_error(later),
    ):
        assert find_private_words(text), text
    for text in (f"0.{NUM_ROWS}", f"1{NUM_ROWS}", f"{NUM_ROWS}5", f"{NUM_ROWS}.5", f"a{NUM_ROWS}b"):
        assert find_private_words(text) == [], text
    watch(lambda: print(f"{NUM_ROWS} rows"))
    assert find_private_words(watch.said) == [str(NUM_ROWS)]
    (tmp_path / "about.json").write_text(json.dumps({"rows": NUM_ROWS}))
    assert find_private_words_in_files(tmp_path)
    (tmp_path / "about.json").unlink()
    (tmp_path / "zqxextra.txt").write_text("")
    assert find_private_words_in_files(tmp_path) == ["zqxextra"]
