"""Commands on made-up rows: check a recipe's claim, and preview its accuracy."""

import argparse
import itertools
from pathlib import Path
from typing import Any

import msgspec

import dpbt
from dpbt.common.watching import Progress, show_progress
from dpbt.data import domains, files
from dpbt.data.domains import Domain, Label
from dpbt.owners.cli import shared
from dpbt.owners.cli.shared import InputError, command, of_input, option

SAMPLE, MAX_ROWS = 30, 1000
"""Rows of the made-up table: under add_remove, and at most, as every neighbour has them all."""

_FLOAT32 = 1e-3
"""How far a loss may be above the claim, in shares of it, as densities are in float32."""


@command(
    option("--module FILE", "a Python file with a learner of your own, in place of a recipe"),
    option("--runs N", "runs of that learner for each pair and level", default=2000),
    *((name, {**more, "required": False}) for name, more in shared.RECIPE),
    option("--neighbours N", "number of neighbours at most (%(default)s)", default=60),
    option("--transcripts N", "number of transcripts (%(default)s)", default=5),
    option("--seed SEED", "seed of the rows and the noise (%(default)s)", default=0),
    shared.PROGRESS,
)
def audit(options: argparse.Namespace) -> int:
    """Check a recipe's claim on made-up rows of your domain: the largest exact privacy loss.

    Transcripts are recorded on random rows of the domain. Each is compared, exactly, on neighbours
    of them. No row of yours is read, so what is printed may be shown to anybody. An audit of
    private rows would itself not be private. Exit status 1 means a loss above the claim of a pure
    guarantee.

    --module audits any learner. The file has `claim` = (epsilon, delta), `pairs`, a mapping of
    names to (table, neighbour), and `learn(table, hooks)`, whose draws are by the hooks, or
    `fit(table, seed)`, of which only what `view(released)` shows is looked at. docs/audits.md has
    an example. Its tables are run on, so what is found is as private as they are.
    """
    if options.module is not None:
        return _module(options)
    asked = ("domain", "rows", "epsilon")
    if lacking := [f"--{name}" for name in asked if getattr(options, name) is None]:
        raise InputError(f"an audit needs {', '.join(lacking)}, or --module")
    domain, label = shared.declared(options.domain)
    replace = options.relation == "replace_one"
    if replace and options.rows > MAX_ROWS:
        raise InputError(
            f"--rows must be at most {MAX_ROWS} under replace_one, where all rows are made up, "
            f"got {options.rows}"
        )
    rows = options.rows if replace else min(SAMPLE, options.rows)
    with show_progress("setting the noise", options.progress) as report:
        from dpbt.privacy.keys import research_key

        recipe = shared.recipe_of(options, domain, label)
        near = _neighbours(domain, label, rows, options)
        key = research_key(options.seed)
        report(Progress("auditing; this may compile first"))
        found = dpbt.audit.audit(key, near, recipe, options.transcripts)

    print(f"claim: epsilon = {found.claimed_epsilon:.6g}, delta = {options.delta:g}")
    print(f"largest loss: {found.largest_loss:.6g}")
    for site, loss in sorted(found.by_site.items()):
        print(f"  {site}: {loss:+.4g}")
    print(f"{found.transcripts} transcripts, {found.neighbours} neighbours of {rows} made-up rows")
    if recipe.max_rows_per_user > 1:
        print("neighbours differ in one row, and the claim is for all rows of a person")
    if options.delta > 0:
        print("with a delta above 0 a transcript may, rarely, lose more than epsilon")
        return 0
    above = found.largest_loss - found.claimed_epsilon * (1 + _FLOAT32)
    if 0 < above <= dpbt.audit.ROUNDING:
        print("the loss is above the claim by no more than float32 may round it")
    elif above > 0:
        print("THE LOSS IS ABOVE THE CLAIM: release nothing of this recipe, and report it")
        return 1
    return 0


def _module(options: argparse.Namespace) -> int:
    """Audit the learner of a Python file at the levels that it has functions for."""
    import runpy

    from dpbt.privacy.bounds import CONFIDENCE

    path = Path(options.module)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        found = runpy.run_path(str(path))
        learn, fit, pairs = found.get("learn"), found.get("fit"), dict(found["pairs"])
        epsilon, delta = map(float, found["claim"])
    except Exception as error:
        raise InputError(f"{path}: needs claim and pairs, and is no such file: {error}") from None
    if not pairs or not (learn or fit) or not (epsilon >= 0 and 0 <= delta < 1):
        raise InputError(
            f"{path}: needs a claim (epsilon, delta), pairs by name, and learn(table, hooks) or "
            "fit(table, seed)"
        )
    # What may fail is shared among all bounds, so that all of them hold with the confidence.
    count = len(pairs) * sum(level is not None for level in (learn, fit))
    broken, common = False, {"claim": (epsilon, delta), "runs": options.runs, "seed": options.seed}
    common["confidence"] = 1 - (1 - CONFIDENCE) / count
    for name, (table, neighbour) in pairs.items():
        with show_progress(f"auditing {name}", options.progress):
            bounds = [] if learn is None else [dpbt.audit.grey(learn, table, neighbour, **common)]
            if fit is not None:
                view = found.get("view", lambda released: released)
                bounds.append(dpbt.audit.black(fit, table, neighbour, view=view, **common))
        for bound in bounds:
            print(f"{name}\n{bound}\n")
            broken |= bound.broken
    return int(broken)


def _neighbours(domain: Domain, label: Label, rows: int, options: argparse.Namespace):
    """Neighbours of a table of random bins with random labels, and weights if rows have them."""
    import numpy as np

    rng = np.random.default_rng(options.seed)
    more = max(1, options.neighbours // 2)
    counts = [column.n_bins for column in domain.values()]
    bins = rng.integers(0, counts, (rows + more, len(counts))).astype(np.uint8)
    target = rng.choice(dpbt.audit.labels_of(label.target), rows + more)
    weight = None if label.weight is None else rng.random(rows).astype(np.float32)
    here, splits = np.ones(rows, bool), domains.splits(domain)
    arrays: Any = (bins[:rows], target[:rows], here, splits, weight)
    table = dpbt.Table(*arrays)
    pairs = [(number % rows, number % more) for number in range(options.neighbours)]
    near = dpbt.audit.neighbours(table, options.relation, (bins[rows:], target[rows:]), pairs)
    room = near.present.sum(axis=1) <= options.rows
    return near._replace(present=near.present[room][-options.neighbours :])


_SEVERAL = {"--rows": {"nargs": "+"}, "--epsilon": {"nargs": "+"}}


@command(
    *((name, {**more, **_SEVERAL.get(name, {})}) for name, more in shared.RECIPE),
    option("--public ROWS", "a file of rows that are public, in place of made-up ones"),
    *shared.FORM,
    option("--signal SHARE", "how much made-up columns explain (%(default)s)", default=0.3),
    option("--repeats N", "how often each is run, on other rows (%(default)s)", default=5),
    option("--seed SEED", "seed of the rows and the noise (%(default)s)", default=0),
    shared.PROGRESS,
)
def preview(options: argparse.Namespace) -> None:
    """Simulate how accurate a recipe is, by --rows and --epsilon, before anything is spent.

    The recipe learns from made-up rows of the domain, and predicts others. Columns are independent
    there, and explain the share --signal of a hidden number, so it says what noise does to a signal
    of this strength, and not how strong yours is. --public names a file of rows that are public,
    such as those of an earlier year that was published, and says more. No private row is read,
    nothing is paid, and what is printed may be shown to anybody.
    """
    domain, label = shared.declared(options.domain)
    table, recipes = None, []
    if options.public is not None:
        form = shared.form_of(options, (*domain, *label.column_names))
        with of_input(options.public):
            columns = files.read_columns(options.public, (*domain, label.column), form)
        one = msgspec.structs.replace(label, user=None)  # each row may count
        table = dpbt.table(domain, columns, columns[label.column], **one.table_options)
    for rows, epsilon in itertools.product(options.rows, options.epsilon):
        one = argparse.Namespace(**{**vars(options), "rows": rows, "epsilon": epsilon})
        recipes.append(shared.recipe_of(one, domain, label))
    more = {name: getattr(options, name) for name in ("signal", "repeats", "seed")}
    with show_progress("simulating; this compiles first", options.progress), of_input():
        found = dpbt.preview.preview(recipes, domain, table, **more)
    print(found)
