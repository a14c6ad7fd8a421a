"""What every recipe cost and learned before the redesign, to compare each of its steps with.

    python -m tests.golden            compare, and name what differs
    python -m tests.golden --write    record anew

A setting has the lines of its ledger, and hashes of what it learns without noise and with it, in
memory and in blocks. Scales and costs, and what is learned without noise, never change. Hashes of
noisy releases hold under one version of JAX, and change where a commit says why.
"""

import argparse
import hashlib
import inspect
import json
import sys
import tempfile
from pathlib import Path

import jax
import numpy as np

import dpbt
from dpbt import recipes
from dpbt.common.types import Recipe
from dpbt.data.domains import Nominal, Numeric
from dpbt.training import fit as training_fit

PAGE = Path(__file__).with_name("golden.json")
ROWS = 300
DOMAIN = {"a": Numeric(0, 1, bins=8), "b": Nominal(("x", "y")), "c": Numeric(-1, 1, bins=5)}
SITES = Nominal(("low", "mid", "high"))
RANGE = Numeric(0, 2)
RELATIONS = "add_remove", "replace_one"


def _options() -> dict[str, tuple]:
    """Name -> (recipe, its options)."""
    bdpe = {"rounds": 2, "depth": 2}
    found: dict[str, tuple] = {
        "objective": (recipes.bdpe, bdpe),
        "alpha": (recipes.bdpe, {**bdpe, "alpha": 0.5}),
        "gini": (recipes.bdpe, {**bdpe, "criterion": "gini"}),
        "oblivious": (recipes.oblivious_boost, {"rounds": 3, "depth": 2, "domain": DOMAIN}),
        "auto": (recipes.auto, {"domain": DOMAIN}),
        "rules": (recipes.lazybb_rules, {"rounds": 3}),
        "top down": (recipes.lazybb_trees, {"rounds": 3}),
        "halfspace": (recipes.halfspace_boost, {"rounds": 3, "features": 4}),
    }
    shares = {"marginals_fraction": 0.2, "scores_fraction": 0.2}
    for name, more in (
        ("shared", shares),
        ("classes", {"target": SITES}),
        ("numbers", {"target": RANGE}),
    ):
        found[name] = recipes.oblivious_boost, {**found["oblivious"][1], **more}
    found["classes shared"] = recipes.oblivious_boost, {**found["classes"][1], **shares}
    for variant in ("random_forest", "rf_l", "rf_e"):
        for disjoint in (False, True):
            name, make = variant + " disjoint" * disjoint, getattr(recipes, variant)
            found[name] = make, {"rounds": 3, "depth": 3, "disjoint": disjoint}
    return found


def settings() -> dict[str, dict]:
    """Name -> the recipe and what makes it, for everything that the recipes take."""
    found = {}
    for name, (make, options) in _options().items():
        for calibration in ("tight", "published"):
            for relation in RELATIONS:
                for delta in (0.0, 1e-6):
                    chosen = {**options, "delta": delta, "relation": relation}
                    if "calibration" in inspect.signature(make).parameters:
                        chosen["calibration"] = calibration
                    elif calibration == "published":
                        continue
                    try:
                        make(epsilon=1.0, rows=ROWS, **chosen)
                    except ValueError:  # what no recipe takes, such as a published delta
                        continue
                    words = calibration, relation, f"delta {delta:g}"
                    found[" | ".join((name, *words))] = {"make": make, "options": chosen}
    return found


def table_for(recipe: Recipe) -> dpbt.Table:
    """Rows whose answer depends on two columns."""
    columns, answer = _columns()
    labels, options = _labels(recipe, answer)
    return dpbt.table(DOMAIN, columns, labels, **options)


def _columns() -> tuple[dict, np.ndarray]:
    rng = np.random.default_rng(0)
    columns = {
        "a": rng.uniform(0, 1, ROWS),
        "b": rng.choice(["x", "y"], ROWS),
        "c": rng.uniform(-1, 1, ROWS),
    }
    return columns, columns["a"] + (columns["b"] == "x") * 0.5 + rng.normal(0, 0.1, ROWS)


def _labels(recipe: Recipe, answer: np.ndarray) -> tuple[np.ndarray, dict]:
    if recipe.target is None:
        return answer > 0.7, {}
    if recipe.target == SITES:
        return np.array(SITES.values)[np.digitize(answer, [0.5, 0.9])], {"target": SITES}
    return answer, {"target": RANGE}


def hashed(tree) -> str:
    """The bits of all arrays of a pytree."""
    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        array = np.asarray(leaf)
        digest.update(f"{jax.tree_util.keystr(path)}{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def learned(recipe: Recipe) -> list[str]:
    """Hashes of the transcript of a model and of its hypotheses under fixed keys, in memory."""
    keys = jax.random.key(1), jax.random.key(2)
    model = training_fit.learn(keys[0], table_for(recipe), recipe, keys[1])
    return [hashed(tuple(model.transcript)), hashed((model.hypotheses, model.intercept))]


def in_blocks(recipe: Recipe) -> list[str] | None:
    """The same of a table in three blocks; None for a recipe that reads all rows at once."""
    from dpbt.data import convert

    columns, answer = _columns()
    labels, options = _labels(recipe, answer)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "blocks"
        table = convert.convert_columns(
            DOMAIN, columns, labels, folder, rows_per_block=128, **options
        )
        try:
            model = training_fit.learn(jax.random.key(1), table, recipe, jax.random.key(2))
        except ValueError:
            return None
    return [hashed(tuple(model.transcript)), hashed((model.hypotheses, model.intercept))]


def ledger_of(recipe: Recipe) -> dict:
    """The numbers of a ledger."""
    book = dpbt.ledger(recipe)
    lines = [
        {
            "site": line.site,
            "mechanism": line.mechanism,
            "sensitivity": line.sensitivity,
            "scale": line.scale,
            "count": int(line.count),
            "epsilon": line.epsilon,
            "rho": line.rho,
        }
        for line in sorted(book.lines, key=lambda line: line.site)
    ]
    total = {"epsilon": book.epsilon, "delta": book.delta, "bits": book.sampler_delta}
    return {"total": total, "lines": lines}


def measured(entry: dict, hashes: bool = True) -> dict:
    """All that is recorded of one setting."""
    make, options = entry["make"], entry["options"]
    recipe = make(epsilon=1.0, rows=ROWS, **options)
    found: dict = {"ledger": ledger_of(recipe)}
    if hashes:
        found["noisy"] = learned(recipe)
        found["blocks"] = in_blocks(recipe)
        found["exact"] = learned(make(epsilon=np.inf, rows=ROWS, **options))[1]
    return found


def differences(then, now, path: str = "") -> list[str]:
    """Where two records differ; numbers may by 1e-6 of their size."""
    if isinstance(then, dict) and isinstance(now, dict):
        names = [*then, *(name for name in now if name not in then)]
        each = (differences(then.get(n), now.get(n), f"{path} {n}") for n in names)
        return [words for found in each for words in found]
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        each = (
            differences(a, b, f"{path} {k}") for k, (a, b) in enumerate(zip(then, now, strict=True))
        )
        return [words for found in each for words in found]
    if isinstance(then, int | float) and isinstance(now, int | float):
        same = np.isclose(then, now, rtol=1e-6, atol=0, equal_nan=True)
        return [] if same else [f"{path}: {then} -> {now}"]
    return [] if then == now else [f"{path}: {then} -> {now}"]


def main() -> int:
    """Compare with what was recorded, or record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only settings whose names hold one of these")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--numbers", action="store_true", help="ledgers alone; no fit")
    options = parser.parse_args()
    recorded = json.loads(PAGE.read_text()) if PAGE.exists() else {}
    found, failed = {}, 0
    for number, (name, entry) in enumerate(settings().items()):
        if options.names and not any(word in name for word in options.names):
            continue
        found[name] = json.loads(json.dumps(measured(entry, not options.numbers)))
        if number % 12 == 11:
            jax.clear_caches()
        if options.write:
            continue
        then = recorded.get(name, {})
        if options.numbers:
            then = {"ledger": then.get("ledger")}
        for words in differences(then, found[name]):
            failed += 1
            print(f"{name}:{words}", flush=True)
    if options.write:
        kept = {**recorded, **found} if options.names else found
        PAGE.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"{len(found)} settings, {failed} differences")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
