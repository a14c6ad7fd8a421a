"""Runs have one precision: under `jax_enable_x64` they are refused, and what is released is read
alike.
"""

import ast
import json
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import dpbt
from dpbt import __main__ as command_line
from dpbt import recipes, tuning
from dpbt.analysis import audit
from dpbt.data import convert
from dpbt.data.domains import Boolean
from dpbt.sklearn import PrivateBoostingClassifier
from dpbt.sweeps import plan, runner
from tests.filters import RECIPES, made

ROOT = Path(__file__).parent.parent
DOMAIN = {name: Boolean() for name in "abcd"}
REFUSED = "jax_enable_x64 is on"
KEYS = jax.random.key(3), jax.random.key(4)

PLUMBING = {"key", "split", "fold_in", "key_data", "key_impl", "wrap_key_data"}
"""The functions of `jax.random` that move keys and make no numbers."""


DTYPE_PLACE = {"bits": 2, "uniform": 2, "normal": 2, "rademacher": 2, "randint": 4, "gumbel": 2}
"""Where a draw takes its dtype by position."""


def untyped_draws(source):
    """The lines of calls of `jax.random` whose numbers have the type that the flag sets."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom | ast.Import):
            origin = getattr(node, "module", None) or ""
            names = {f"{origin}.{each.name}".lstrip(".") for each in node.names}
            hidden = any(name == "jax.random" or name.startswith("jax.random.") for name in names)
            found += [node.lineno] if hidden else []
        if not (isinstance(node, ast.Call) and ast.unparse(node.func).startswith("jax.random.")):
            continue
        name = ast.unparse(node.func).removeprefix("jax.random.")
        if name in PLUMBING or not name.isidentifier():
            continue
        place = DTYPE_PLACE.get(name)
        typed = any(word.arg == "dtype" for word in node.keywords)
        found += [] if typed or (place is not None and len(node.args) > place) else [node.lineno]
    return found


def test_every_draw_has_a_dtype():
    files = [
        path
        for folder in ("dpbt", "experiments", "docs")
        for path in sorted((ROOT / folder).rglob("*.py"))
    ]
    found = {str(path.relative_to(ROOT)): untyped_draws(path.read_text()) for path in files}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        "jax.random.bits(key, (3,))",
        "jax.random.randint(key, (3,), 0, 5)",
        "jax.random.uniform(key)",
        "jax.random.permutation(key, 5)",
        "from jax.random import bits",
        "import jax.random as draws",
        "from jax import random",
    ],
)
def test_draws_without_a_dtype_are_found(line):
    assert untyped_draws(f"{line}\njax.random.bits(key, (3,), jnp.uint32)") == [1]


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """What the entries read, made without the flag."""
    folder = tmp_path_factory.mktemp("given")
    bins = {name: np.arange(40) % (2 + k) == 0 for k, name in enumerate(DOMAIN)}
    labels = np.arange(40) % 3 == 0
    table = dpbt.table(DOMAIN, bins, labels)
    train = np.arange(40)[None] < 20
    recipe = recipes.bdpe(epsilon=1.0, rows=40, rounds=1, depth=1)
    return SimpleNamespace(
        folder=folder,
        bins=bins,
        labels=labels,
        table=table,
        chunked=convert.convert_columns(DOMAIN, bins, labels, folder / "chunks"),
        recipe=recipe,
        auto=recipes.oblivious_boost(epsilon=1.0, rows=40, domain=DOMAIN, rounds=2),
        forest=recipes.random_forest(epsilon=1.0, rows=40, rounds=1, depth=1),
        transcript=dpbt.boost(KEYS[0], table, recipe).transcript,
        near=audit.neighbours(table, "add_remove"),
        sweep=plan.Sweep("s", recipes.bdpe, {"epsilon": 1.0, "rounds": 1}),
        task=plan.Task("t", table, train, ~train, {"rows": 40}),
        budget=dpbt.Filter(9.0, rows=40),
    )


KEY, PUBLIC = KEYS
ENTRIES = {
    "fit": lambda on: dpbt.fit(KEY, on.table, on.auto, PUBLIC),
    "boost": lambda on: dpbt.boost(KEY, on.table, on.auto, PUBLIC),
    "boost under jit": lambda on: jax.jit(dpbt.boost)(KEY, on.table, on.auto, PUBLIC),
    "replay": lambda on: dpbt.replay(on.transcript, on.table, on.recipe),
    "fit of a forest": lambda on: dpbt.fit(KEY, on.table, on.forest, PUBLIC),
    "fit in blocks": lambda on: dpbt.fit(KEY, on.chunked, on.auto, PUBLIC),
    "filter": lambda on: dpbt.fit(KEY, on.table, on.auto, PUBLIC, filter=on.budget),
    "filter in blocks": lambda on: dpbt.fit(KEY, on.chunked, on.recipe, filter=on.budget),
    "tune": lambda on: dpbt.tune(KEY, on.table, [on.recipe], tuning.selection()),
    "audit": lambda on: audit.audit(KEY, on.near, on.recipe, 1),
    "pair_loss": lambda on: audit.pair_loss(KEY, on.table, on.table, on.recipe, 1),
    "search": lambda on: audit.search(KEY, on.recipe, rows=4, splits=2, restarts=1, sweeps=1),
    "sweeps.run": lambda on: runner.run(on.sweep, on.task, on.folder / "sweep"),
    "an estimator": lambda on: PrivateBoostingClassifier(
        epsilon=1.0, rows=40, domain=DOMAIN, random_state=0
    ).fit(np.stack(list(on.bins.values()), axis=1), on.labels),
}
"""Every entry that draws for private rows, or reads them as a run does."""


@pytest.mark.parametrize("name", ENTRIES)
def test_no_entry_runs_under_other_flags(given, name):
    """So two runs that differ in a flag alone never have one noise on different sums.

    With other random bits for threefry keys, the public structure is another.
    """
    with jax.enable_x64(True), pytest.raises(ValueError, match=REFUSED):
        ENTRIES[name](given)
    off = pytest.raises(ValueError, match="jax_threefry_partitionable is off")
    with jax.threefry_partitionable(False), off:
        ENTRIES[name](given)
    assert given.budget.spent == dpbt.Filter(9.0, rows=40).spent
    assert not (given.folder / "sweep").exists()


def test_the_command_line_refuses_it_in_one_line(given, capsys):
    domain = {"columns": {name: {"type": "boolean"} for name in "abc"}}
    domain["label"] = {"column": "d", "positive": "true", "negative": "false"}
    (given.folder / "domain.json").write_text(json.dumps(domain))
    lines = [
        "a,b,c,d",
        *[",".join(map(str, row)) for row in zip(*given.bins.values(), strict=True)],
    ]
    (given.folder / "rows.csv").write_text("\n".join(lines).lower())
    words = "fit", "rows.csv", "--domain", "domain.json", "--rows", "40", "--epsilon", "1"
    words = [str(given.folder / word) if "." in word else word for word in words]
    with jax.enable_x64(True):
        assert command_line.main([*words, "--out", str(given.folder / "model.json")]) == 2
    out, err = capsys.readouterr()
    assert (out, REFUSED in err, err.count("\n")) == ("", True, 1)
    assert not (given.folder / "model.json").exists()


def same(one, other):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("name", ["fit", "fit of a forest", "filter in blocks"])
def test_a_context_without_the_flag_gives_the_run_without_it(given, name):
    """Threads too, which have the flag of the process and not that of the context."""
    given.budget = dpbt.Filter(9.0, rows=40)
    without = ENTRIES[name](given)
    given.budget = dpbt.Filter(9.0, rows=40)
    jax.clear_caches()
    jax.config.update("jax_enable_x64", True)
    try:
        with jax.enable_x64(False):
            within = ENTRIES[name](given)
    finally:
        jax.config.update("jax_enable_x64", False)
    assert same(without.transcript, within.transcript)
    assert same(without.hypotheses, within.hypotheses)


@pytest.mark.parametrize("name", RECIPES)
def test_public_things_are_the_same_under_the_flag(name):
    delta = 1e-6 if name == "halfspace_boost" else 0.0
    recipe, text = made(name, delta=delta), str(dpbt.ledger(made(name, delta=delta)))
    jax.clear_caches()
    with jax.enable_x64(True):
        assert same(made(name, delta=delta), recipe)
        assert str(dpbt.ledger(recipe)) == text


@pytest.mark.parametrize("name", ["fit", "fit of a forest"])
def test_models_are_read_alike_under_the_flag(given, name):
    model = ENTRIES[name](given)
    dpbt.save(model, given.folder / "kept.json", domain=DOMAIN)

    def read():
        saved = dpbt.load(given.folder / "kept.json")
        answers = [np.asarray(dpbt.predict(each, given.table)) for each in (model, saved)]
        return *answers, str(dpbt.explain(saved)), str(dpbt.ledger(saved)), str(dpbt.ledger(model))

    without = read()
    with jax.enable_x64(True):
        found = read()
    for one, other in zip(without, found, strict=True):
        np.testing.assert_array_equal(one, other)
