"""Files of models and tables that somebody changed and signed: a ValueError, or an answer.

Whoever edits a file can compute its checksum, so a checksum does not vouch for the content.
"""

import contextlib
import copy
import dataclasses
import functools
import json
import sqlite3
import time
import tracemalloc

import jax
import numpy as np
import pytest

import dpbt
from dpbt import losses, tuning
from dpbt.common.storage import checksum_of_json
from dpbt.data import convert
from dpbt.data.domains import Boolean
from dpbt.training import checkpoint
from tests.support import tuning_examples, worker_process
from tests.support.fitted_models import DOMAIN, model_of_kind, random_raw_columns

HUGE = 10**400
"""An integer that no float holds."""

ODD = {
    "null": None,
    "true": True,
    "zero": 0,
    "minus one": -1,
    "near 2^62": 2**62,
    "beyond int64": 2**63,
    "huge": HUGE,
    "a tiny number": 5e-324,
    "no text": "",
    "text": "x\n\0",
    "a surrogate": "\ud800é",
    "infinity in words": "inf",
    "an empty list": [],
    "an object": {"x": {"y": [1]}},
}


def places(content, path=()):
    """The paths of all values in JSON content; of long lists the first and the last entry."""
    if path:
        yield path
    if isinstance(content, dict):
        entries = list(content.items())
    elif isinstance(content, list):
        entries = list(enumerate(content))
        entries = entries if len(entries) < 3 else [entries[0], entries[-1]]
    else:
        return
    for name, value in entries:
        yield from places(value, (*path, name))


def changed(content, path, value=None, *, drop=False):
    """A copy with another value at a path, or without it."""
    new = copy.deepcopy(content)
    within = new
    for name in path[:-1]:
        within = within[name]
    if drop:
        del within[path[-1]]
    else:
        within[path[-1]] = copy.deepcopy(value)
    return new


def mutations(content):
    """(words, a changed copy): all single changes of JSON content."""
    for path in places(content):
        where = "/".join(map(str, path))
        yield f"{where}: dropped", lambda p=path: changed(content, p, drop=True)
        for words, odd in ODD.items():
            yield f"{where}: {words}", lambda p=path, o=odd: changed(content, p, o)


def signed(content):
    """JSON text of content with a checksum of its own, where it has one."""
    with contextlib.suppress(ValueError):
        content = {**content, "checksum": checksum_of_json(content)}
    return json.dumps(content)


MUTATIONS = 125
"""Of each of eight models, and of a manifest."""

DEEP = "[" * 100_000
ROWS = random_raw_columns(1, 20)


def tuned_model():
    selection = tuning.selection()
    made = tuning_examples.candidate_recipes(selection)
    return dpbt.tune(tuning_examples.KEY, tuning_examples.table_of_people(), made, selection).model


OWN_LOSS = losses.log._replace(name="my_loss", inverse_link=lambda z: losses.log.inverse_link(z))


def model_of_own_loss():
    model = model_of_kind("bdpe")
    family = losses.constant_loss_family(OWN_LOSS)
    update = dataclasses.replace(model.recipe.weight_update, loss=family)
    recipe = dataclasses.replace(model.recipe, weight_update=update)
    return dataclasses.replace(model, recipe=recipe)


MODELS = {
    **{
        name: functools.partial(lambda name: model_of_kind(name), name)
        for name in ("bdpe", "oblivious", "forest-exact", "halfspace", "several", "number")
    },
    "tuned": tuned_model,
    "own loss": model_of_own_loss,
}


def written(name, path):
    """The content of the file of a model. A tuned one has the columns of another table."""
    dpbt.save(MODELS[name](), path, domain=None if name == "tuned" else DOMAIN)
    return json.loads(path.read_text())


def use_model(path):
    """What can be asked of a model's file."""
    model = dpbt.load(path)
    yield lambda: (str(dpbt.ledger(model)), dpbt.ledger(model).epsilon)
    yield lambda: dpbt.statement(model)
    yield lambda: dpbt.statement(model, max_rows_per_user=3)
    yield lambda: dpbt.explain(model)
    yield lambda: model.predict(ROWS)
    yield lambda: model.predict_proba(ROWS)
    rows = np.zeros((5, model.features), model.dtype)
    yield lambda: model.predict(rows)
    yield lambda: dpbt.predict(model, rows)


def use_table(path):
    """What can be asked of the manifest of a table in chunks."""
    table = dpbt.blocks.open_folder(path.parent)
    yield lambda: (repr(table), table.splits, table.identity, table.declarations_text)
    yield lambda: list(table.iter_rows(100))
    yield lambda: table.has_domain(DOMAIN)


def refused_or_answered(path, text, use, words):
    """Every answer is one, or a ValueError; whether the file was refused at once, by name."""
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        for answer in use(path):
            try:
                answer()
            except ValueError:
                pass
            except Exception as error:
                raise AssertionError(f"{words}: a file that is read fails later") from error
    except ValueError as error:
        return str(path.parent) in str(error) or f"unnamed: {error}"
    return False


def try_all(path, content, use, number):
    """Changes at `number` random places, signed where possible."""
    rng, changes = np.random.default_rng(0), list(mutations(content))
    for place in rng.choice(len(changes), number, replace=False):
        words, make = changes[place]
        assert refused_or_answered(path, signed(make()), use, words) in (True, False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_changed_model_files_are_refused_or_read_as_valid(name, tmp_path):
    path = tmp_path / "model.json"
    try_all(path, written(name, path), use_model, MUTATIONS)


def table_file(folder):
    domain, columns, labels = worker_process.random_rows(3, 300)
    convert.convert_rows([convert.RawRows(columns, labels)], domain, folder, rows_per_block=200)
    return folder / dpbt.blocks.MANIFEST


@pytest.mark.slow
def test_changed_manifests_are_refused_or_read_as_valid(tmp_path):
    path = table_file(tmp_path / "table")
    try_all(path, json.loads(path.read_text()), use_table, 3 * MUTATIONS)


# What was read, and failed later.

LINE = ("privacy", "lines", 0)
OF_MODELS = [
    ((*LINE, "theorem"), 0),
    ((*LINE, "scale"), HUGE),
    (("privacy", "key"), "another"),
    (("privacy", "delta"), 2),
    (("privacy", "choice"), {"mu": 1.0}),
    (("versions", "dpbt"), 3),
]
"""An entry of each kind; `test_storage.py` has what each kind refuses."""


def test_entries_of_wrong_types_are_refused_when_a_model_is_read(tmp_path):
    path = tmp_path / "model.json"
    content = written("oblivious", path)
    assert not refused_or_answered(path, signed(content), use_model, "unchanged")
    tracemalloc.start()
    start = time.monotonic()
    for where, value in OF_MODELS:
        words = f"{where}: {value!r:.20}"
        assert True is refused_or_answered(
            path, signed(changed(content, where, value)), use_model, words
        )
    for of_text in (DEEP, json.dumps(content)[:-1] + ', "x": ' + DEEP):
        assert True is refused_or_answered(path, of_text, use_model, "nested")
    many = signed(changed(content, (*LINE, "times"), 10**9))
    refused_or_answered(path, many, use_model, "a billion rounds")
    assert tracemalloc.get_traced_memory()[1] < 2**26
    tracemalloc.stop()
    assert time.monotonic() - start < 20


OF_OWN_LOSS = [
    (("own_loss", "alpha"), 2.0),
    (("own_loss", "alpha"), "os:system"),
    (("own_loss", "name"), 5),
    (("own_loss",), "os:system"),
    (("probability",), "log"),
]


def test_no_file_chooses_the_code_of_a_loss(tmp_path):
    path = tmp_path / "model.json"
    content = written("own loss", path)
    for where, value in OF_OWN_LOSS:
        path.write_text(signed(changed(content, where, value)))
        with pytest.raises(ValueError, match=r"not a whole saved model|a malformed entry"):
            dpbt.load(path)
    path.write_text(signed(changed(content, ("own_loss", "name"), "os:system")))
    assert not callable(dpbt.load(path).about.probability)  # the words are words
    with pytest.raises(ValueError, match="must be the one of the name 'os:system'"):
        dpbt.load(path, loss=OWN_LOSS)


# Releases of a checkpoint.


SIGNED = {
    "another shape": lambda sites, cap: ({**sites, "sums": np.int32([3])}, cap),
    "an infinite cap": lambda sites, cap: (sites, np.inf),
}


@pytest.mark.slow
def test_a_release_that_was_changed_and_packed_is_refused(tmp_path):
    """Whoever writes the file can pack a release, as its checksum has no key."""
    domain = {"a": Boolean(), "b": Boolean()}
    cells = {name: np.arange(40) % k == 0 for name, k in (("a", 2), ("b", 3))}
    table = convert.convert_columns(domain, cells, cells["a"], tmp_path / "blocks")
    recipe = dpbt.recipes.oblivious_boost(epsilon=1, rows=40, domain=domain, rounds=1, depth=1)

    def run():
        return dpbt.fit(jax.random.key(1), table, recipe, checkpoint=tmp_path / "run")

    run()
    with checkpoint.Checkpoint(tmp_path / "run") as kept:
        whole = kept.recorded_release("0")
    for change in SIGNED.values():
        put(tmp_path / "run", checkpoint._pack_release(*change(*whole)))
        with pytest.raises(ValueError, match="a release was changed or damaged; its run cannot go"):
            run()
    put(tmp_path / "run", b"none")
    with pytest.raises(ValueError, match=r"damaged \(a release was changed or damaged\)"):
        run()
    put(tmp_path / "run", checkpoint._pack_release(*whole))
    run()


def put(path, packed):
    """Let a checkpoint have these bytes in place of the first round."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE release SET arrays = ? WHERE part = '0'", [packed])
