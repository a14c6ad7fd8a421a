"""Commands on generated rows: check a recipe's claim, and preview its accuracy."""

import argparse
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import dpbt
from dpbt.common.progress import Progress, show_progress
from dpbt.data import domains, files
from dpbt.data.domains import Domain, Label
from dpbt.owners.cli import inputs
from dpbt.owners.cli.parsing import InputError, as_command, as_input_error, option

NUM_MADE_UP_ROWS, MAX_MADE_UP_ROWS = 30, 1000
"""The rows of the generated table under add_remove, and the largest number under replace_one.

Under replace_one every neighbour has all rows.
"""

_FLOAT32_TOLERANCE = 1e-3
"""The share by which a loss may exceed the claim, because densities are in float32."""


@as_command(
    option("--module FILE", "a Python file with a learner of your own, instead of a recipe"),
    option("--runs N", "runs of that learner for each pair and level", default=2000),
    *((name, {**reading, "required": False}) for name, reading in inputs.RECIPE_OPTIONS),
    option("--neighbours N", "number of neighbours at most (%(default)s)", default=60),
    option("--transcripts N", "number of transcripts (%(default)s)", default=5),
    option("--seed SEED", "seed of the rows and the noise (%(default)s)", default=0),
    inputs.PROGRESS_OPTION,
)
def audit_recipe(options: argparse.Namespace) -> int:
    """Check a recipe's claim on random rows of your domain: the largest exact privacy loss.

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
        return _audit_module(options)
    required = ("domain", "rows", "epsilon")
    if missing := [f"--{name}" for name in required if getattr(options, name) is None]:
        raise InputError(f"an audit needs {', '.join(missing)}, or --module")
    domain, label = inputs.read_domain_and_label(options.domain)
    replaces_rows = options.relation == "replace_one"
    if replaces_rows and options.rows > MAX_MADE_UP_ROWS:
        raise InputError(
            f"--rows must be at most {MAX_MADE_UP_ROWS} under replace_one, where all rows are made "
            f"up, got {options.rows}"
        )
    num_rows = options.rows if replaces_rows else min(NUM_MADE_UP_ROWS, options.rows)
    with show_progress("setting the noise", options.progress) as report:
        from dpbt.privacy.keys import research_key

        recipe = inputs.recipe_from_options(options, domain, label)
        neighbours = _random_table_with_neighbours(
            domain, label, num_rows=num_rows, options=options
        )
        key = research_key(options.seed)
        report(Progress("auditing; this may compile first"))
        result = dpbt.audit.audit_transcripts(key, neighbours, recipe, options.transcripts)

    print(f"claim: epsilon = {result.claimed_epsilon:.6g}, delta = {options.delta:g}")
    print(f"largest loss: {result.largest_loss:.6g}")
    for site, loss in sorted(result.loss_by_site.items()):
        print(f"  {site}: {loss:+.4g}")
    print(
        f"{result.num_transcripts} transcripts, {result.num_neighbours} neighbours of {num_rows} "
        "made-up rows"
    )
    if recipe.max_rows_per_user > 1:
        print("neighbours differ in one row, and the claim is for all rows of a person")
    if options.delta > 0:
        print("with a delta above 0 a transcript may, rarely, lose more than epsilon")
        return 0
    excess = result.largest_loss - result.claimed_epsilon * (1 + _FLOAT32_TOLERANCE)
    if 0 < excess <= dpbt.audit.ROUNDING:
        print("the loss is above the claim by no more than float32 may round it")
    elif excess > 0:
        print("THE LOSS IS ABOVE THE CLAIM: release nothing of this recipe, and report it")
        return 1
    return 0


def _audit_module(options: argparse.Namespace) -> int:
    """Audit the learner of a Python file by its draws, and by its releases.

    Each of the two is audited if the file has a function for it. The exit status is 1 if a claim is
    broken.
    """
    from dpbt.privacy.audit_bounds import CONFIDENCE

    audited = _load_audited_module(Path(options.module))
    # The chance of failure is shared among all bounds, so that all hold with the confidence.
    levels = [function for function in (audited.learn, audited.fit) if function is not None]
    num_bounds = len(audited.pairs) * len(levels)
    bound_options = {
        "claim": audited.claim,
        "num_runs": options.runs,
        "seed": options.seed,
        "confidence": 1 - (1 - CONFIDENCE) / num_bounds,
    }
    is_broken = False
    for name, (table, neighbour) in audited.pairs.items():
        bounds = []
        with show_progress(f"auditing {name}", options.progress):
            if audited.learn is not None:
                bounds.append(
                    dpbt.audit.grey_box_lower_bound(
                        audited.learn, table, neighbour, **bound_options
                    )
                )
            if audited.fit is not None:
                bounds.append(
                    dpbt.audit.black_box_lower_bound(
                        audited.fit, table, neighbour, view=audited.view, **bound_options
                    )
                )
        for bound in bounds:
            print(f"{name}\n{bound}\n")
            is_broken |= bound.broken
    return int(is_broken)


class _AuditedModule(NamedTuple):
    """A learner, its claim and its tables, as a Python file defines them.

    Attributes:
        claim: (epsilon, delta).
        pairs: two neighbouring tables by the name of the pair.
        learn: the learner whose draws are by hooks; None if the file has none.
        fit: the learner whose releases are looked at; None if the file has none.
        view: the part of a release of `fit` that is looked at.
    """

    claim: tuple[float, float]
    pairs: Mapping[str, tuple[Any, Any]]
    learn: Callable[..., Any] | None
    fit: Callable[..., Any] | None
    view: Callable[[Any], Any]


def _load_audited_module(path: Path) -> _AuditedModule:
    """Run a Python file, and take its learner, claim and tables.

    Raises:
        InputError: for a file that does not define them.
    """
    import runpy

    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        content = runpy.run_path(str(path))
        pairs = dict(content["pairs"])
        epsilon, delta = map(float, content["claim"])
        audited = _AuditedModule(
            claim=(epsilon, delta),
            pairs=pairs,
            learn=content.get("learn"),
            fit=content.get("fit"),
            view=content.get("view", lambda released: released),
        )
    except Exception as error:
        raise InputError(f"{path}: needs claim and pairs, and is no such file: {error}") from None
    has_learner = audited.learn or audited.fit
    if not audited.pairs or not has_learner or not (epsilon >= 0 and 0 <= delta < 1):
        raise InputError(
            f"{path}: needs a claim (epsilon, delta), pairs by name, and learn(table, hooks) or "
            "fit(table, seed)"
        )
    return audited


def _random_table_with_neighbours(
    domain: Domain, label: Label, *, num_rows: int, options: argparse.Namespace
) -> "dpbt.audit.Neighbours":
    """Make a table of random bins and labels, and tables that differ from it in one row.

    Rows have random weights if the label declares weights.
    """
    import numpy as np

    rng = np.random.default_rng(options.seed)
    num_others = max(1, options.neighbours // 2)  # rows that are added, or replace others
    num_bins = [column.n_bins for column in domain.values()]
    total = num_rows + num_others
    bins = rng.integers(0, num_bins, (total, len(num_bins))).astype(np.uint8)
    target = rng.choice(dpbt.audit.labels_of_target(label.target), total)
    weight = None if label.weight is None else rng.random(num_rows).astype(np.float32)
    arrays: Any = {"bins": bins[:num_rows], "target": target[:num_rows], "weight": weight}
    table = dpbt.Table(
        **arrays,
        present=np.ones(num_rows, bool),  # type: ignore[arg-type]
        splits=domains.splits(domain),
    )
    pairs = [(number % num_rows, number % num_others) for number in range(options.neighbours)]
    others = bins[num_rows:], target[num_rows:]
    neighbours = dpbt.audit.neighbours(table, options.relation, others, pairs)
    fits = neighbours.present.sum(axis=1) <= options.rows
    return neighbours._replace(present=neighbours.present[fits][-options.neighbours :])


_SEVERAL_VALUES = {"--rows": {"nargs": "+"}, "--epsilon": {"nargs": "+"}}
"""The options of a recipe that take several values in a preview."""


@as_command(
    *(
        (name, {**reading, **_SEVERAL_VALUES.get(name, {})})
        for name, reading in inputs.RECIPE_OPTIONS
    ),
    option("--public ROWS", "a file of rows that are public, instead of generated ones"),
    *inputs.FORM_OPTIONS,
    option(
        "--signal SHARE",
        "how much made-up columns explain; several for a range (0.1 0.3 0.6)",
        nargs="+",
    ),
    option(
        "--shares SHARE",
        "the public shares of the classes in made-up rows, in their order; equal by default",
        nargs="+",
    ),
    option("--repeats N", "how often each is run, on other rows (%(default)s)", default=5),
    option("--seed SEED", "seed of the rows and the noise (%(default)s)", default=0),
    inputs.PROGRESS_OPTION,
)
def preview_recipe(options: argparse.Namespace) -> None:
    """Simulate how accurate a recipe is, by --rows and --epsilon, before anything is spent.

    Trust --public: it names a file of public rows, such as a published earlier year, from which the
    recipe learns and of which it predicts others. Without it, rows of the domain are made up. Their
    columns are independent and explain the share --signal of a hidden number, and their classes
    have the --shares. So that result shows what noise does to signals of some strengths, and not
    how strong your signal is. The command reads no private row and pays nothing, and you may show
    its output to anybody.
    """
    domain, label = inputs.read_domain_and_label(options.domain)
    public_table = None
    if options.public is not None:
        form = inputs.text_form_from_options(options, (*domain, *label.columns))
        inputs.check_parquet_dates_are_declared(options.public, {label.column: None, **domain})
        with as_input_error(options.public):
            columns = files.read_columns(options.public, (*domain, label.column), form)
        without_users = msgspec.structs.replace(label, user=None)  # all rows of a user count
        public_table = dpbt.table(domain, columns, columns[label.column], **without_users.options)
    recipes = []
    for rows, epsilon in itertools.product(options.rows, options.epsilon):
        setting = argparse.Namespace(**{**vars(options), "rows": rows, "epsilon": epsilon})
        recipes.append(inputs.recipe_from_options(setting, domain, label))
    with (
        show_progress("simulating; this compiles first", options.progress),
        as_input_error(),
    ):
        result = dpbt.preview.preview(
            recipes,
            domain,
            public_table,
            signal=dpbt.preview.SIGNALS if options.signal is None else options.signal,
            shares=options.shares,
            repeats=options.repeats,
            seed=options.seed,
        )
    print(result)
