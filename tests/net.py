"""A record of what every row of the contract releases, to compare a rewritten code with.

`python -m tests.net record` writes `tests/net.json`, and `python -m tests.net check` names each
entry that has changed since: releases, hypotheses, scores and budgets by a digest of their bits, a
ledger by a digest of its text and a model by one of its file. Every row of the contract runs under
fixed research keys, under both relations, with and without noise, in memory and in blocks. The bits
are those of one machine and one version of JAX, so this is a command and no test. Words after the
verb choose rows of the contract by what their names contain: `python -m tests.net check forest`.
"""

import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import dpbt
from dpbt.data import convert
from dpbt.data.domains import Numeric
from dpbt.types import ADD_REMOVE, REPLACE_ONE
from tests.support.contract_rows import ROWS, THREE, Row
from tests.support.example_tables import random_features

FILE = Path(__file__).with_suffix(".json")
KEY, PUBLIC_KEY = 5, 6
NUM_ROWS = 60
SETTINGS = {"noisy": 3.0, "without noise": np.inf}
BALL = {f"x{column}": Numeric(-3, 3, bins=4) for column in range(3)}


def digest(tree: Any) -> str:
    """Sixteen digits of a hash of all arrays of a pytree, with their names and dtypes."""
    found = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        array = np.asarray(leaf)
        found.update(f"{jax.tree_util.keystr(path)} {array.dtype} {array.shape} ".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def digest_text(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]


def columns_and_labels(row: Row) -> tuple[dict[str, Any], dict[str, np.ndarray], np.ndarray]:
    """(domain, columns, labels) of the kind of rows that a row of the contract reads."""
    rng = np.random.default_rng(11)
    if row.table is random_features:
        columns = {name: rng.normal(0, 0.7, NUM_ROWS) for name in BALL}
        return BALL, columns, columns["x0"] > 0
    columns = {name: rng.random(NUM_ROWS) < 0.4 for name in THREE}
    return THREE, columns, (columns["x0"] & columns["x1"]) ^ (rng.random(NUM_ROWS) < 0.2)


def entries_of(row: Row, relation: Any, epsilon: float, folder: Path) -> Iterator[tuple[str, str]]:
    """(what it is, digest) of one recipe of a row of the contract."""
    domain, columns, labels = columns_and_labels(row)
    recipe = row.recipe(relation, epsilon=epsilon, rows=NUM_ROWS, rounds=3, depth=2)
    exact = row.table is random_features
    table = dpbt.table(domain, columns, labels, exact=exact)
    key, public_key = jax.random.key(KEY), jax.random.key(PUBLIC_KEY)

    numbers = recipe.params, recipe.weight_params, recipe.rows, recipe.delta, recipe.rounds
    yield "budget", digest(numbers)
    yield "ledger", digest_text(str(dpbt.ledger(recipe)))
    boosted = jax.jit(dpbt.boost)(key, table, recipe, public_key)
    yield "transcript", digest(boosted.transcript)
    yield "hypotheses", digest(boosted.hypotheses)
    yield "scores", digest(boosted.scores)

    model = dpbt.fit(key, table, recipe, public_key)
    yield from entries_of_model("memory", model, domain, exact, table, folder)
    if exact:
        return  # blocks hold bins
    in_blocks = convert.convert_columns(
        domain, columns, labels, folder / "blocks", rows_per_block=25
    )
    try:
        model = dpbt.fit(key, in_blocks, recipe, public_key)
    except ValueError as error:
        yield "blocks: refusal", str(error)
        return
    yield from entries_of_model("blocks", model, domain, exact, table, folder)


def entries_of_model(
    where: str, model: Any, domain: Any, exact: bool, table: Any, folder: Path
) -> Iterator[tuple[str, str]]:
    """(what it is, digest) of a fitted model, of what it predicts and of its file."""
    yield f"{where}: releases", digest(model.releases)
    yield f"{where}: hypotheses", digest(model.hypotheses)
    yield f"{where}: scores", digest(model.decision_function(table))
    path = folder / "model.json"
    try:
        dpbt.save(model, path, **({} if exact else {"domain": domain}))
    except ValueError:
        return  # a kind of hypotheses that no file holds
    yield f"{where}: file", digest_text(path.read_bytes())


def is_chosen(name: str, words: Sequence[str]) -> bool:
    """Whether a row of this name is asked for; all are where no words are given."""
    return not words or any(word in name for word in words)


def entries(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(name, digest) of everything that is recorded of the chosen rows."""
    for row in (row for row in ROWS if is_chosen(row.name, words)):
        for relation in (ADD_REMOVE, REPLACE_ONE):
            for setting, epsilon in SETTINGS.items():
                name = f"{row.name}, {relation.value}, {setting}"
                with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    for what, found in entries_of(row, relation, epsilon, Path(folder)):
                        yield f"{name}, {what}", found
        jax.clear_caches()


def main(verb: str, *words: str) -> int:
    """Record, or compare with the record; 1 if anything differs."""
    found = dict(entries(words))
    if verb == "record":
        FILE.write_text(json.dumps(found, indent=0) + "\n")
        return 0
    recorded = {
        name: entry
        for name, entry in json.loads(FILE.read_text()).items()
        if is_chosen(name.split(",")[0], words)
    }
    names = sorted(recorded.keys() | found.keys())
    changed = [name for name in names if recorded.get(name) != found.get(name)]
    print("\n".join([*changed, f"{len(changed)} of {len(names)} entries differ"]))
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
