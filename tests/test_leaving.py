"""What leaves a private table besides draws: a rare cell and the exact number of rows are looked for in
all files, output, logs, warnings and errors of the demo, of sweeps, of fits and of refusals.
"""

import hashlib
import hmac
import itertools
import json
import pickle
import re
import shutil
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import audit, domains, forests, recipes, runs, storage, sweeps
from dpbt.base import Table
from dpbt.domains import Boolean, Nominal, Numeric
from experiments import __main__ as command_line
from experiments import demo as demos
from experiments import protocols

N = 1237
"""The exact number of private rows; nothing else is of this size."""

BOUND = 2000
RARE = ("zqxcell", "31337.7719", "zqxlabel", "zqxextra")
EXACT = re.compile(rf"(?<![\w.]){N}(?![\w.]*\w)|\[{N}[,\]]")
"""N as a number of its own, and as the length of an array; not among the digits of another number."""

DOMAIN = {
    "columns": {
        "age": {"type": "numeric", "low": 0, "high": 100, "bins": 3},
        "job": {"type": "nominal", "values": ["clerk", "smith"]},
        "member": {"type": "boolean", "true": "yes"},
    },
    "label": {"column": "ill", "positive": "1", "negative": "0"},
}
MAKERS = {
    "bdpe": (recipes.bdpe, {"rounds": 2, "depth": 2}, dpbt.fit),
    "lazybb": (recipes.lazybb, {"rounds": 2}, dpbt.fit),
    "forest": (recipes.random_forest, {"rounds": 3, "depth": 2}, forests.fit),
    "disjoint": (recipes.random_forest, {"rounds": 3, "depth": 2, "disjoint": True}, forests.fit),
    "boosted disjoint": (recipes.rf_e, {"rounds": 3, "depth": 2, "disjoint": True}, dpbt.fit),
}


def found_in(text):
    """The rare cells, and N, as far as a text holds them."""
    return [word for word in RARE if word in text] + EXACT.findall(text)


def told_by(error):
    """All that an exception says, with what caused it and what was being handled."""
    told = []
    while error is not None:
        told += [str(error), repr(error), *getattr(error, "__notes__", ())]
        error = error.__cause__ or error.__context__
    return "\n".join(told)


def found_in_files(folder):
    """What the files of a folder hold, their names, and arrays with an axis or an entry of N."""
    found = []
    for path in (path for path in folder.rglob("*") if path.is_file()):
        found += found_in(f"{path.relative_to(folder)}\n{path.read_bytes().decode('latin-1')}")
        if path.suffix == ".npz":
            columns, about = storage.load_columns(path)
            found += found_in(json.dumps(about))
            found += [name for name, column in columns.items() if N in column.shape]
            numbers = {name: c for name, c in columns.items() if c.dtype.kind in "iuf"}
            found += [name for name, column in numbers.items() if (column == N).any()]
    return found


class Watch:
    """Runs something and keeps all that it said: output, logs, warnings and the exception."""

    def __init__(self, capfd, caplog):
        self.capfd, self.caplog, self.out, self.err, self.error = capfd, caplog, "", "", None
        caplog.set_level("INFO")

    def __call__(self, run):
        self.error, result = None, None
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                result = run()
            except (Exception, KeyboardInterrupt) as error:
                self.error = error
        self.out, self.err = self.capfd.readouterr()
        self.said = "\n".join(
            [self.out, self.err, self.caplog.text, told_by(self.error), *(str(w.message) for w in warned)]
        )
        return result


@pytest.fixture
def watch(capfd, caplog):
    return Watch(capfd, caplog)


def lines_of(extra=()):
    """A file of N rows, one with a rare cell and a rare number; the extra lines replace its last rows."""
    rng = np.random.default_rng(0)
    age, job = rng.uniform(20, 90, N), rng.choice(["clerk", "smith"], N)
    lines = [f"{age[i]:.0f},{job[i]},{'no' if i % 3 else 'yes'},{int(age[i] > 50)}" for i in range(N)]
    lines[7] = f"31337.7719,{job[7]},no,1"
    lines[11] = f"{age[11]:.0f},zqxcell,no,1"
    return ["age,job,member,ill", *lines[: N - len(extra)], *extra]


@pytest.fixture
def demo(tmp_path, monkeypatch, watch):
    """Runs the demo with two small programs on a file of private rows; returns its exit status."""
    monkeypatch.setattr(demos, "CRITERIA", {"Gini": demos.CRITERIA["Gini"]})
    monkeypatch.setattr(demos, "EPSILONS", (1.0,))
    clock = itertools.count()
    monkeypatch.setattr(demos.time, "perf_counter", lambda: float(next(clock)))  # "models/s" may be N
    drawn, draw = [], demos._draw
    monkeypatch.setattr(demos, "_draw", lambda *arguments: (drawn.append(arguments[1]), draw(*arguments)))
    (tmp_path / "domain.json").write_text(json.dumps(DOMAIN))
    files = {"--data": tmp_path / "mine.csv", "--domain": tmp_path / "domain.json", "--out": tmp_path / "out"}

    def run(*options, extra=()):
        files["--data"].write_text("\n".join(lines_of(extra)) + "\n")
        named = [str(word) for pair in files.items() for word in pair]
        status = watch(lambda: command_line.main(["demo", "--smoke", *named, *options]))
        return status, tmp_path / "out"

    run.titles = drawn
    return run


def test_the_demo_says_what_it_is_and_shows_no_cell_and_no_number_of_rows(demo, watch):
    status, out = demo("--rows", str(BOUND), "--owner-report")
    assert status == 0, watch.said
    assert found_in(watch.said) == found_in_files(out) == []
    assert found_in("\n".join(demo.titles)) == []

    # Table, figure and CSV are headed; the owner's counts are on standard error alone.
    assert watch.out.startswith(demos.PRIVATE)
    assert demo.titles[0].startswith(demos.PRIVATE)
    lines = (out / "demo.csv").read_text().splitlines()
    assert all(demos.PRIVATE in line for line in lines[1:])
    assert re.search(rf"{demos.OWNER}\nage: +0 cells.*\njob: +1 cells.*\n", watch.err)
    files = b"".join(path.read_bytes() for path in out.iterdir()).decode("latin-1")
    assert demos.OWNER not in watch.out + files

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
@pytest.mark.xfail(strict=True, reason="the reader shows the cell or the line that it refuses")
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


SWEEP = sweeps.Sweep("leaving", make, ({"rounds": (1, 2)},))


def private_task(last=(True, False, True, True, False, True)):
    """N rows, of which everybody knows all but the last: five splits and the label."""
    rng = np.random.default_rng(1)
    bits = rng.random((N, 6)) < 0.5
    bits[-1] = last
    train = rng.random((1, N)) < 0.7
    table = Table(bits[:, :5], bits[:, 5], np.ones(N, bool))
    return sweeps.Task("own", table, train, ~train, {"rows": BOUND})


def killed(fits):
    raise KeyboardInterrupt


def test_a_sweep_leaves_no_cell_and_no_number_of_rows_when_killed_resumed_or_refused(tmp_path, watch):
    task, folder = private_task(), tmp_path / "results"
    watch(lambda: runs.run(SWEEP, [task], folder, progress=killed))
    assert isinstance(watch.error, KeyboardInterrupt)
    assert list(folder.glob("parts/*/*.npz"))
    assert found_in(watch.said) == found_in_files(folder) == []

    report = watch(lambda: runs.run(SWEEP, [task], folder))
    assert report.found > 0
    assert found_in(watch.said) == found_in_files(folder) == []

    # Another last row, a row fewer, and another sweep are refused: neither digests nor N are shown.
    seen = re.compile(r"[0-9a-f]{12}")
    marks = set(seen.findall((folder / "sweep.json").read_text()))
    fewer = [array[:-1] for array in task.table[:3]]
    others = [
        (SWEEP, private_task(last=(False,) * 6)),
        (SWEEP, task._replace(table=Table(*fewer), train=task.train[:, :-1], test=task.test[:, :-1])),
        (SWEEP, task._replace(name="other")),
        (sweeps.Sweep("leaving", make, ({"rounds": (1, 3)},)), task),
    ]
    for sweep, other in others:
        watch(lambda sweep=sweep, other=other: runs.run(sweep, [other], folder))
        assert "begun otherwise" in str(watch.error)
        assert found_in(watch.said.replace(str(N - 1), str(N))) == []
        assert not marks & set(seen.findall(watch.said))


def unkeyed(task, keys=()):
    """Digests of a task that anybody can compute: without a key, and under keys that are no secrets."""
    told = json.dumps(dict(task.arguments), sort_keys=True, default=str).encode()
    for array in (*task.table, task.train, task.test):
        array = np.asarray(False if array is None else array)
        told += f"{array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes()
    digests = [hashlib.sha256(told)] + [hmac.new(key, told, "sha256") for key in keys]
    return [digest.hexdigest()[:12] for digest in digests]


def guessed(folder):
    """The last rows, out of all 64, of which a digest is in some file of the folder."""
    text = "".join(path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file())
    keys = (b"", bytes(32), b"own", b"leaving")
    rows = itertools.product((False, True), repeat=6)
    return [row for row in rows if any(mark in text for mark in unkeyed(private_task(row), keys))]


def test_guesses_of_a_row_find_nothing_in_the_files_of_a_sweep(tmp_path):
    """And they find it, in 64 guesses, where a file holds a digest without a key."""
    task = private_task()
    runs.run(SWEEP, [task], tmp_path / "results")
    assert guessed(tmp_path / "results") == []

    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "sweep.json").write_text(json.dumps({"tasks": {"own": unkeyed(task)[0]}}))
    assert guessed(tmp_path / "plain") == [(True, False, True, True, False, True)]


# --- models


@pytest.fixture(scope="module")
def table():
    task = private_task()
    return Table(*(jnp.asarray(array) for array in task.table[:3]))


@pytest.mark.parametrize("name", MAKERS)
def test_no_array_of_a_model_is_as_long_as_the_table(table, name, watch):
    maker, settings, fit = MAKERS[name]
    recipe = maker(epsilon=1.0, rows=BOUND, **settings)
    model = watch(lambda: fit(jax.random.key(0), table, recipe))
    assert found_in(watch.said) == []
    arrays = jax.tree.map(np.asarray, jax.tree.leaves(model))
    assert not [array.shape for array in arrays if N in array.shape]
    assert not [array for array in arrays if array.ndim == 0 and array == N]
    assert all(N not in array.shape for array in pickle.loads(pickle.dumps(arrays)))
    assert found_in(f"{dpbt.ledger(recipe)}\n{recipe!r}\n{model!r}") == []

    # Whoever asks gets the rows' trees, and the same model otherwise.
    asked = fit(jax.random.key(0), table, recipe, keep_withheld=True)
    more = set(asked.releases) - set(model.releases)
    assert more == set(recipe.learner.withheld) == ({"part"} if "disjoint" in name else set())
    assert all(asked.releases[site].shape == (recipe.capacity, N) for site in more)
    jax.tree.map(np.testing.assert_array_equal, asked.trees, model.trees)


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
        splits = domains.encode(domain, columns)
        model = dpbt.fit(jax.random.key(0), Table(splits, ages > 50, np.ones(N, bool)), recipe)
        return f"{dpbt.explain(model, domain)}\n{dpbt.ledger(recipe)}\n{model!r}"

    text = watch(run)
    assert "age > " in text
    assert found_in(text) == found_in(watch.said) == []


# --- refusals

KEY = jax.random.key(0)
SPLITS, LABEL = np.zeros((N, 3), bool), np.zeros(N, bool)
NAMES = np.array(["zqxcell"] * N)
TREES = recipes.bdpe(epsilon=1.0, rows=BOUND, rounds=1, depth=1)
SMALL = recipes.bdpe(epsilon=1.0, rows=100, rounds=1, depth=1)
GROVE = recipes.random_forest(epsilon=1.0, rows=BOUND, rounds=2, depth=2)
BALLS = recipes.halfspace_boost(epsilon=1.0, delta=1e-6, rows=BOUND, rounds=1)
NUMBER, FLAG = {"a": Numeric(0, 1)}, {"a": Boolean(), "b": Boolean()}


def fitting(recipe, *fields, fit=dpbt.fit):
    return lambda: fit(KEY, Table(*fields), recipe)


REFUSALS = {
    "bound": fitting(SMALL, SPLITS, LABEL, LABEL),
    "labels as text": fitting(TREES, SPLITS, NAMES, LABEL),
    "labels in a list": fitting(TREES, SPLITS, NAMES.tolist(), LABEL),
    "labels as objects": fitting(TREES, SPLITS, NAMES.astype(object), LABEL),
    "labels as integers": fitting(TREES, SPLITS, LABEL.astype(int), LABEL),
    "fewer present": fitting(TREES, SPLITS, LABEL, np.ones(N, int)),
    "fewer labels": fitting(TREES, np.ones((5, 3), bool), LABEL, LABEL),
    "splits in a list": fitting(TREES, SPLITS.tolist(), LABEL, LABEL),
    "splits as numbers": fitting(TREES, SPLITS.astype(np.float32), LABEL, LABEL),
    "no splits": fitting(TREES, SPLITS[:, :0], LABEL, LABEL),
    "positions as integers": fitting(GROVE, SPLITS.astype(int), LABEL, LABEL, fit=forests.fit),
    "positions as text": fitting(GROVE, NAMES[:, None], LABEL, LABEL, fit=forests.fit),
    "features as bits": fitting(BALLS, SPLITS, LABEL, LABEL),
    "no features": fitting(BALLS, SPLITS[:, :0].astype(np.float32), LABEL, LABEL),
    "columns of two lengths": lambda: domains.encode(FLAG, {"a": LABEL, "b": LABEL[:5]}),
    "numbers as text": lambda: domains.encode(NUMBER, {"a": NAMES}),
    "ragged numbers": lambda: domains.encode(NUMBER, {"a": [1.0] * (N - 1) + [[1.0, 2.0]]}),
    "numbers in a square": lambda: domains.positions(NUMBER, {"a": np.zeros((N, 2))}),
    "too many folds": lambda: protocols.stratified_folds(LABEL, N + 1000, seed=0),
    "nobody to test": lambda: protocols.holdout(LABEL, 1e-9, seeds=(0,)),
    "shape": lambda: sweeps.padded(private_task(), (5, 5)),
    "neighbours": lambda: audit.audit(KEY, audit.label_flips(Table(SPLITS, LABEL, ~LABEL)), SMALL, 1),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_show_no_cell_and_no_number_of_rows(name, watch):
    watch(REFUSALS[name])
    assert isinstance(watch.error, ValueError), watch.error
    assert found_in(watch.said) == []


def test_rows_to_predict_are_not_shown_either(table, watch):
    model = dpbt.fit(KEY, table, TREES)
    forest = forests.fit(KEY, table, GROVE)
    for predict in (
        lambda rows: dpbt.predict(model, rows),
        lambda rows: forests.predict(forest, rows),
        lambda rows: forests.predict_proba(forest, rows),
    ):
        for rows in (NAMES[:, None], NAMES.tolist(), np.zeros((N, 5), "datetime64[D]")):
            watch(lambda predict=predict, rows=rows: predict(rows))
            assert isinstance(watch.error, ValueError)
            assert found_in(watch.said) == []


def test_the_search_finds_what_it_looks_for(tmp_path, watch):
    """Cells and N are found in output, in errors that are being handled, and in files of all kinds."""
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
