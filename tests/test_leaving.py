"""What leaves a private table besides draws.

A rare cell and the exact number of rows are looked for in all files, output, logs, warnings and
errors of the demo, of sweeps and of fits; `test_refusals` does so for refusals.
"""

import hashlib
import hmac
import itertools
import json
import pickle
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.base import Table
from dpbt.data import domains
from dpbt.data.domains import Nominal, Numeric
from dpbt.data.tables import take
from dpbt.sweeps import plan, runner, storage
from experiments import __main__ as command_line
from experiments import demo as demos
from tests.leaving import BOUND, N, Watch, found_in, found_in_files, private_task, told_by

DOMAIN = {
    "columns": {
        "age": {"type": "numeric", "low": 0, "high": 100, "bins": 3},
        "job": {"type": "nominal", "values": ["clerk", "smith"]},
        "member": {"type": "boolean", "true": "yes", "false": "no"},
    },
    "label": {"column": "ill", "positive": "1", "negative": "0"},
}
PUBLIC = jax.random.key(2**31)
MAKERS = {
    "bdpe": (recipes.bdpe, {"rounds": 2, "depth": 2}, dpbt.fit),
    "lazybb": (recipes.lazybb_rules, {"rounds": 2, "relation": "add_remove"}, dpbt.fit),
    "forest": (recipes.random_forest, {"rounds": 3, "depth": 2}, dpbt.fit),
    "disjoint": (recipes.random_forest, {"rounds": 3, "depth": 2, "disjoint": True}, dpbt.fit),
    "boosted disjoint": (recipes.rf_e, {"rounds": 3, "depth": 2, "disjoint": True}, dpbt.fit),
}


@pytest.fixture
def watch(capfd, caplog, tmp_path):
    return Watch(capfd, caplog, tmp_path)


def lines_of(extra=()):
    """A file of N rows with a rare cell and a rare number; extra lines replace its last rows."""
    rng = np.random.default_rng(0)
    age, job = rng.uniform(20, 90, N), rng.choice(["clerk", "smith"], N)
    member, ill = np.where(np.arange(N) % 3, "no", "yes"), (age > 50).astype(int)
    lines = [f"{age[i]:.0f},{job[i]},{member[i]},{ill[i]}" for i in range(N)]
    lines[7] = f"31337.7719,{job[7]},no,1"
    lines[11] = f"{age[11]:.0f},zqxcell,no,1"
    return ["age,job,member,ill", *lines[: N - len(extra)], *extra]


@pytest.fixture
def demo(tmp_path, monkeypatch, watch):
    """Runs the demo with one small program on a file of private rows; returns its exit status."""
    monkeypatch.setattr(demos, "curves", lambda: [("tight", "gini")])
    monkeypatch.setattr(demos, "EPSILONS", (1.0,))
    clock = itertools.count()
    # A clock of its own, as the models in a second may be N.
    monkeypatch.setattr(demos.time, "perf_counter", lambda: float(next(clock)))
    drawn, draw = [], demos._draw

    def noted(path, title, *more):
        drawn.append(title)
        draw(path, title, *more)

    monkeypatch.setattr(demos, "_draw", noted)
    files = {"--data": "mine.csv", "--domain": "domain.json", "--out": "out"}
    files = {option: tmp_path / name for option, name in files.items()}
    files["--domain"].write_text(json.dumps(DOMAIN))

    def run(*options, extra=()):
        files["--data"].write_text("\n".join(lines_of(extra)) + "\n")
        named = [str(word) for pair in files.items() for word in pair]
        status = watch(lambda: command_line.main(["demo", "--smoke", *named, *options]))
        return status, tmp_path / "out"

    run.titles = drawn
    return run


@pytest.mark.slow
def test_the_demo_says_what_it_is_and_shows_no_cell_and_no_number_of_rows(demo, watch, monkeypatch):
    monkeypatch.setattr(demos, "curves", lambda: [("tight", "gini"), demos.AUTO])
    status, out = demo("--rows", str(BOUND))
    assert status == 0, watch.said
    assert found_in(watch.said) == found_in_files(out) == []
    assert found_in("\n".join(demo.titles)) == []

    # Table, figure and CSV are headed.
    assert watch.out.startswith(demos.PRIVATE)
    assert demo.titles[0].startswith(demos.PRIVATE)
    lines = (out / "demo.csv").read_text().splitlines()
    assert all(demos.PRIVATE in line for line in lines[1:])

    # JSON says so too.
    assert demo("--rows", str(BOUND), "--json")[0] == 0
    assert found_in(watch.said) == []
    assert {line["status"] for line in json.loads(watch.out)} == {demos.PRIVATE}


def test_a_public_number_of_rows_is_shown(demo, watch):
    """Without a bound the relation is replace-one, and N is public; the same search finds it."""
    assert demo()[0] == 0
    assert set(found_in(watch.said)) == {str(N)}
    assert "replace_one" in watch.out


BAD_ROWS = {
    "label of neither class": "40,clerk,no,zqxlabel",
    "a row with too many cells": "40,clerk,no,1,zqxextra",
    "text among numbers": "zqxcell,clerk,no,1",
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_malformed_rows_are_not_shown(demo, watch, name):
    _, out = demo("--rows", str(BOUND), extra=[BAD_ROWS[name]])
    assert found_in(watch.said.replace(str(N + 1), str(N))) == []  # the number of its line tells N
    assert not out.exists() or found_in_files(out) == []


@pytest.mark.parametrize("options", [("--rows", "100"), ("--rows", "0")])
def test_a_bound_that_is_too_small_is_refused_without_the_number(demo, watch, options):
    status, out = demo(*options)
    assert status == 2
    assert "--rows must be at least" in watch.said
    assert found_in(watch.said) == []
    assert not out.exists()


# --- sweeps


def make(rows, rounds):
    return recipes.bdpe(rows=rows, rounds=rounds, depth=1, epsilon=1.0, alpha=1.0)


SWEEP = plan.Sweep("leaving", make, ({"rounds": (1, 2)},))


def killed(fits):
    raise KeyboardInterrupt


def test_a_sweep_leaves_no_number_of_rows_killed_resumed_or_refused(tmp_path, watch):
    task, folder = private_task(), tmp_path / "results"
    watch(lambda: runner.run(SWEEP, [task], folder, progress=killed))
    assert isinstance(watch.error, KeyboardInterrupt)
    assert list(folder.glob("parts/*/*.npz"))
    assert found_in(watch.said) == found_in_files(folder) == []

    report = watch(lambda: runner.run(SWEEP, [task], folder))
    assert report.reused > 0
    assert found_in(watch.said) == found_in_files(folder) == []

    # Another last row, a row fewer, and another sweep are refused: neither digests nor N are shown.
    seen = re.compile(r"[0-9a-f]{12}")
    marks = set(seen.findall((folder / "sweep.json").read_text()))
    fewer = take(task.table, np.arange(len(task.table.target) - 1))
    masks = {"train": task.train[:, :-1], "test": task.test[:, :-1]}
    others = [
        (SWEEP, private_task(last=(False,) * 6)),
        (SWEEP, task._replace(table=fewer, **masks)),
        (SWEEP, task._replace(name="other")),
        (plan.Sweep("leaving", make, ({"rounds": (1, 3)},)), task),
    ]
    for sweep, other in others:
        watch(lambda sweep=sweep, other=other: runner.run(sweep, [other], folder))
        assert "begun otherwise" in str(watch.error)
        assert found_in(watch.said.replace(str(N - 1), str(N))) == []
        assert not marks & set(seen.findall(watch.said))


def unkeyed(task, keys=()):
    """Digests of a task that anybody can compute: without a key, or under keys that are public."""
    told = json.dumps(dict(task.arguments), sort_keys=True, default=str).encode()
    for array in map(np.asarray, (*jax.tree.leaves(task.table), task.train, task.test)):
        told += f"{array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes()
    digests = [hashlib.sha256(told)] + [hmac.new(key, told, "sha256") for key in keys]
    return [digest.hexdigest()[:12] for digest in digests]


def guessed(folder):
    """The last rows, out of all 64, of which a digest is in some file of the folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    text = "".join(path.read_bytes().decode("latin-1") for path in files)
    keys = (b"", bytes(32), b"own", b"leaving")
    rows = itertools.product((False, True), repeat=6)
    return [row for row in rows if any(mark in text for mark in unkeyed(private_task(row), keys))]


def test_guesses_of_a_row_find_nothing_in_the_files_of_a_sweep(tmp_path):
    """And they find it, in 64 guesses, where a file holds a digest without a key."""
    task = private_task()
    runner.run(SWEEP, [task], tmp_path / "results")
    assert guessed(tmp_path / "results") == []

    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "sweep.json").write_text(json.dumps({"tasks": {"own": unkeyed(task)[0]}}))
    assert guessed(tmp_path / "plain") == [(True, False, True, True, False, True)]


# --- models


@pytest.fixture(scope="module")
def table():
    task = private_task()
    return jax.tree.map(jnp.asarray, task.table)


@pytest.mark.parametrize("name", MAKERS)
def test_no_array_of_a_model_is_as_long_as_the_table(table, name, watch):
    maker, settings, fit = MAKERS[name]
    recipe = maker(epsilon=1.0, rows=BOUND, **settings)
    model = watch(lambda: fit(jax.random.key(0), table, recipe, PUBLIC))
    assert found_in(watch.said) == []
    arrays = jax.tree.map(np.asarray, jax.tree.leaves(model))
    assert not [array.shape for array in arrays if N in array.shape]
    assert not [array for array in arrays if array.ndim == 0 and array == N]
    assert all(N not in array.shape for array in pickle.loads(pickle.dumps(arrays)))
    assert found_in(f"{dpbt.ledger(recipe)}\n{recipe!r}\n{model!r}") == []

    # Whoever asks gets the rows' trees, and the same model otherwise.
    asked = fit(jax.random.key(0), table, recipe, PUBLIC, keep_withheld=True)
    more = set(asked.releases) - set(model.releases)
    assert more == set(recipe.learner.withheld) == ({"part"} if "disjoint" in name else set())
    assert all(asked.releases[site].shape == (recipe.capacity, N) for site in more)
    jax.tree.map(np.testing.assert_array_equal, asked.hypotheses, model.hypotheses)


def test_a_learner_cannot_withhold_a_site_that_it_does_not_draw(table):
    recipe = recipes.bdpe(epsilon=1.0, rows=BOUND, rounds=1, depth=1)
    object.__setattr__(recipe, "learner", recipe.learner._replace(withheld=("prat",)))
    with pytest.raises(ValueError, match=r"withholds \['prat'\]"):
        dpbt.fit(jax.random.key(0), table, recipe)


def test_a_fit_on_columns_says_nothing_of_a_rare_cell(watch):
    domain = {"age": Numeric(0, 100, bins=3), "job": Nominal(("clerk", "smith"))}
    ages = np.append(np.arange(N - 1) % 100, 31337.7719)
    columns = {"age": ages, "job": ["clerk"] * (N - 1) + ["zqxcell"]}
    recipe = recipes.bdpe(epsilon=1.0, rows=BOUND, rounds=2, depth=2)

    def run():
        cells, asked = domains.encode(domain, columns), domains.questions(domain)
        table = Table(cells, ages > 50, np.ones(N, bool), asked)
        model = dpbt.fit(jax.random.key(0), table, recipe)
        return f"{dpbt.explain(model, domain)}\n{dpbt.ledger(recipe)}\n{model!r}"

    text = watch(run)
    assert "age > " in text
    assert found_in(text) == found_in(watch.said) == []


def test_the_search_finds_what_it_looks_for(tmp_path, watch):
    """Cells and N are found in output, in errors that were being handled, and in files."""
    try:
        raise KeyError("zqxlabel")
    except KeyError as error:
        handled = error
    later = ValueError("bad")
    later.__context__ = handled
    for said in (f"got i32[{N}, 3]", f"{N} rows", f"{{'a': {N}}}", "31337.7719", told_by(later)):
        assert found_in(said), said
    for said in (f"0.{N}", f"1{N}", f"{N}5", f"{N}.5", f"a{N}b"):
        assert found_in(said) == [], said
    watch(lambda: print(f"{N} rows"))
    assert found_in(watch.said) == [str(N)]
    kept = {
        "long": ({"x": np.zeros(N)}, {}),
        "entry": ({"x": np.array([3, N])}, {}),
        "about": ({"x": np.zeros(2)}, {"rows": N}),
    }
    for columns, about in kept.values():
        storage.save_columns(tmp_path / "deep" / "a.npz", columns, about)
        assert found_in_files(tmp_path)
        shutil.rmtree(tmp_path / "deep")
    (tmp_path / "zqxextra.txt").write_text("")
    assert found_in_files(tmp_path) == ["zqxextra"]
