"""Changed and signed files of models and tables give a ValueError or an answer.

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
from dpbt.common.storage import sha256_of_json_without_checksum
from dpbt.data import convert
from dpbt.data.domains import Boolean
from dpbt.training.blocks import checkpoint
from tests.support import tuning_examples, worker_process
from tests.support.fitted_models import DOMAIN, model_of_kind, random_raw_columns

HUGE = 10**400
"""An integer that no float holds."""

ODD_VALUES = {
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


def paths_of_values(content, path=()):
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
        yield from paths_of_values(value, (*path, name))


def change_value(content, path, value=None, *, drop=False):
    """A copy with another value at a path, or without it."""
    copied = copy.deepcopy(content)
    parent = copied
    for name in path[:-1]:
        parent = parent[name]
    if drop:
        del parent[path[-1]]
    else:
        parent[path[-1]] = copy.deepcopy(value)
    return copied


def single_changes(content):
    """For each single change of JSON content its description and a function that makes the copy."""
    for path in paths_of_values(content):
        description_of_path = "/".join(map(str, path))
        yield f"{description_of_path}: dropped", lambda p=path: change_value(content, p, drop=True)
        for description, odd_value in ODD_VALUES.items():
            yield (
                f"{description_of_path}: {description}",
                lambda p=path, o=odd_value: change_value(content, p, o),
            )


def text_with_checksum(content):
    """The JSON text of content with its own checksum, where one can be computed."""
    with contextlib.suppress(ValueError):
        content = {**content, "checksum": sha256_of_json_without_checksum(content)}
    return json.dumps(content)


NUM_CHANGES = 125
"""The number of changes of each of eight models; a manifest has three times as many."""

DEEPLY_NESTED = "[" * 100_000
ROWS = random_raw_columns(1, 20)


def tuned_model():
    selection = tuning.selection()
    candidates = tuning_examples.candidate_recipes(selection)
    return dpbt.tune(
        tuning_examples.KEY, tuning_examples.table_of_people(), candidates, selection
    ).model


CUSTOM_LOSS = losses.log._replace(name="my_loss", inverse_link=lambda z: losses.log.inverse_link(z))


def model_of_custom_loss():
    model = model_of_kind("bdpe")
    family = losses.constant_loss_family(CUSTOM_LOSS)
    update = dataclasses.replace(model.recipe.weight_update, loss=family)
    recipe = dataclasses.replace(model.recipe, weight_update=update)
    return dataclasses.replace(model, recipe=recipe)


MODELS = {
    **{
        name: functools.partial(lambda name: model_of_kind(name), name)
        for name in ("bdpe", "oblivious", "forest-exact", "halfspace", "several", "number")
    },
    "tuned": tuned_model,
    "own loss": model_of_custom_loss,
}


def content_of_saved_model(name, path):
    """The content of the file of a model; a tuned model has the columns of another table."""
    dpbt.save(MODELS[name](), path, domain=None if name == "tuned" else DOMAIN)
    return json.loads(path.read_text())


def use_model(path):
    """Every use of the file of a model, as functions."""
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
    """Every use of the manifest of a table in blocks, as functions."""
    table = dpbt.blocks.open_folder(path.parent)
    yield lambda: (repr(table), table.splits, table.identity, table.public_declarations_json)
    yield lambda: list(table.iter_rows(100))
    yield lambda: table.has_domain(DOMAIN)


def is_refused_when_opened(path, text, *, use, description):
    """Whether a file is refused at once; later uses of a file that is read may raise ValueError.

    Returns:
        True if it is refused by its name, the error's text if it is not named, False if it is read.
    """
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        for answer in use(path):
            try:
                answer()
            except ValueError:
                pass
            except Exception as error:
                raise AssertionError(f"{description}: a file that is read fails later") from error
    except ValueError as error:
        return str(path.parent) in str(error) or f"unnamed: {error}"
    return False


def assert_changes_are_handled(path, content, *, use, num_changes):
    """Check random changes of the content, which are signed where possible."""
    rng, changes = np.random.default_rng(0), list(single_changes(content))
    for index in rng.choice(len(changes), num_changes, replace=False):
        description, make_copy = changes[index]
        is_refused = is_refused_when_opened(
            path, text_with_checksum(make_copy()), use=use, description=description
        )
        assert is_refused in (True, False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_changed_model_files_are_refused_or_read_as_valid(name, tmp_path):
    path = tmp_path / "model.json"
    assert_changes_are_handled(
        path, content_of_saved_model(name, path), use=use_model, num_changes=NUM_CHANGES
    )


def write_table(folder):
    """Write a table in blocks; the path of its manifest."""
    domain, columns, labels = worker_process.random_rows(3, 300)
    convert.convert_rows([convert.RawRows(columns, labels)], domain, folder, rows_per_block=200)
    return folder / dpbt.blocks.MANIFEST


@pytest.mark.slow
def test_changed_manifests_are_refused_or_read_as_valid(tmp_path):
    path = write_table(tmp_path / "table")
    assert_changes_are_handled(
        path, json.loads(path.read_text()), use=use_table, num_changes=3 * NUM_CHANGES
    )


# Entries that once were read and failed later.

LINE = ("privacy", "lines", 0)
WRONG_ENTRIES_OF_MODELS = [
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
    content = content_of_saved_model("oblivious", path)
    assert not is_refused_when_opened(
        path, text_with_checksum(content), use=use_model, description="unchanged"
    )
    tracemalloc.start()
    start = time.monotonic()
    for path_of_entry, value in WRONG_ENTRIES_OF_MODELS:
        description = f"{path_of_entry}: {value!r:.20}"
        text = text_with_checksum(change_value(content, path_of_entry, value))
        assert is_refused_when_opened(path, text, use=use_model, description=description) is True
    for text in (DEEPLY_NESTED, json.dumps(content)[:-1] + ', "x": ' + DEEPLY_NESTED):
        assert is_refused_when_opened(path, text, use=use_model, description="nested") is True
    content_of_many_rounds = text_with_checksum(change_value(content, (*LINE, "times"), 10**9))
    is_refused_when_opened(
        path, content_of_many_rounds, use=use_model, description="a billion rounds"
    )
    assert tracemalloc.get_traced_memory()[1] < 2**26
    tracemalloc.stop()
    assert time.monotonic() - start < 20


WRONG_ENTRIES_OF_CUSTOM_LOSS = [
    (("own_loss", "alpha"), 2.0),
    (("own_loss", "alpha"), "os:system"),
    (("own_loss", "name"), 5),
    (("own_loss",), "os:system"),
    (("probability",), "log"),
]


def test_no_file_chooses_the_code_of_a_loss(tmp_path):
    path = tmp_path / "model.json"
    content = content_of_saved_model("own loss", path)
    for path_of_entry, value in WRONG_ENTRIES_OF_CUSTOM_LOSS:
        path.write_text(text_with_checksum(change_value(content, path_of_entry, value)))
        with pytest.raises(ValueError, match=r"not a whole saved model|a malformed entry"):
            dpbt.load(path)
    path.write_text(text_with_checksum(change_value(content, ("own_loss", "name"), "os:system")))
    assert not callable(dpbt.load(path).about.probability)  # the words are words
    with pytest.raises(ValueError, match="must be the one of the name 'os:system'"):
        dpbt.load(path, loss=CUSTOM_LOSS)


# Releases of a checkpoint.


CHANGED_RELEASES = {
    "another shape": lambda sites, cap: ({**sites, "sums": np.int32([3])}, cap),
    "an infinite cap": lambda sites, cap: (sites, np.inf),
}


@pytest.mark.slow
def test_a_release_that_was_changed_and_packed_is_refused(tmp_path):
    """Whoever writes the file can pack a release, since its checksum needs no key."""
    domain = {"a": Boolean(), "b": Boolean()}
    cells = {name: np.arange(40) % k == 0 for name, k in (("a", 2), ("b", 3))}
    table = convert.convert_columns(domain, cells, cells["a"], tmp_path / "blocks")
    recipe = dpbt.recipes.oblivious_boost(epsilon=1, rows=40, domain=domain, rounds=1, depth=1)

    def fit():
        return dpbt.fit(jax.random.key(1), table, recipe, checkpoint=tmp_path / "run")

    fit()
    with checkpoint.Checkpoint(tmp_path / "run") as opened_checkpoint:
        release_and_cap = opened_checkpoint.recorded_release("0")
    for change in CHANGED_RELEASES.values():
        replace_first_release(tmp_path / "run", checkpoint._pack_release(*change(*release_and_cap)))
        with pytest.raises(ValueError, match="a release was changed or damaged; its run cannot go"):
            fit()
    replace_first_release(tmp_path / "run", b"none")
    with pytest.raises(ValueError, match=r"damaged \(a release was changed or damaged\)"):
        fit()
    replace_first_release(tmp_path / "run", checkpoint._pack_release(*release_and_cap))
    fit()


def replace_first_release(path, packed):
    """Replace the release of the first round in a checkpoint by some bytes."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE release SET arrays = ? WHERE part = '0'", [packed])
