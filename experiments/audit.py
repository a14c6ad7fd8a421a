"""Audit an algorithm: the largest exact privacy loss beside the claim.

Transcripts are recorded, and each is compared on all neighbours of the table. Neighbours are every
removal of a row (add_remove), or every flip of a row's label (replace_one). Losses and the number
of neighbours are exact functions of the rows, so audit public data only. `--grid` audits every
calibration, criterion, relation and epsilon of one algorithm, and saves the results.
"""

import argparse
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import dpbt
from dpbt import audit as audits
from dpbt import recipes
from dpbt.owners.cli.parsing import as_input_error
from dpbt.types import ADD_REMOVE, REPLACE_ONE, Recipe, as_relation
from experiments.common import commands, data, results, tables
from experiments.common.criteria import CRITERIA
from experiments.common.progress import progress


def _ignore_criterion(make: Callable[..., Recipe]) -> Callable[..., Recipe]:
    """The recipe maker of an algorithm that scores no splits."""
    return lambda *, alpha, criterion, **settings: make(**settings)


def _lazybb_rules(*, depth, alpha, criterion, **settings) -> Recipe:
    del depth, alpha, criterion
    return recipes.lazybb_rules(**settings)


def _lazybb_trees(*, depth, alpha, criterion, **settings) -> Recipe:
    del alpha, criterion  # the published calibration is for Gini
    return recipes.lazybb_trees(depth=depth, splits=min(3, 2**depth - 1), **settings)


ALGORITHMS = {
    "bdpe": recipes.bdpe,
    "lazybb": _lazybb_rules,
    "lazybb-trees": _lazybb_trees,
    "random-forest": _ignore_criterion(recipes.random_forest),
    "rf-l": _ignore_criterion(recipes.rf_l),
    "rf-e": _ignore_criterion(recipes.rf_e),
}
GRID = {
    "epsilon": (0.1, 1.0, 10.0),
    "calibration": ("published", "tight"),
    "relation": ("add_remove", "replace_one"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    for name, choices, default, words in (
        ("--algorithm", ALGORITHMS, "bdpe", "the algorithm"),
        ("--calibration", GRID["calibration"], "tight", "the calibration of its noise"),
        ("--criterion", CRITERIA, "objective", "the splitting criterion of bdpe"),
        ("--relation", GRID["relation"], "add_remove", "the neighbouring relation"),
    ):
        words = f"{words} (%(default)s)"
        parser.add_argument(name, choices=choices, default=default, help=words)
    words = "a data set of `python -m experiments data check`, or breast-cancer (%(default)s)"
    parser.add_argument("--dataset", metavar="NAME", default="breast-cancer", help=words)
    words = "the total budget (%(default)s)"
    parser.add_argument("--epsilon", type=commands.positive, default=1.0, help=words)
    words = "0 for a pure guarantee (%(default)s)"
    parser.add_argument("--delta", type=commands.share_below_one, default=0.0, help=words)
    commands.add_count(parser, "--rounds", 20, "trees of a transcript")
    commands.add_count(parser, "--depth", 4, "depth of a tree")
    commands.add_count(parser, "--transcripts", 20, "number of transcripts")
    commands.add_seed(parser, "the key")
    words = "also find the worst case of each step over its outputs"
    parser.add_argument("--steps", action="store_true", help=words)
    words = "audit all calibrations, criteria, relations and epsilons, and save ALGORITHM.csv"
    parser.add_argument("--grid", action="store_true", help=words)
    commands.add_shared(
        parser,
        out=results.results_folder("audit"),
        out_note=" of --grid",
        json="print one JSON object (with --grid, a list)",
    )


def label_flips(table: dpbt.Table) -> audits.Neighbours:
    """The replacements of each present row by the same row with the opposite of two labels."""
    rows = np.flatnonzero(np.asarray(table.present))
    candidates = np.asarray(table.bins)[rows], ~np.asarray(table.target)[rows]
    pairs = [(int(row), candidate) for candidate, row in enumerate(rows)]
    return audits.neighbours(table, REPLACE_ONE, candidates, pairs)


def audit_setting(
    dataset: data.Dataset, recipe: Recipe, options: argparse.Namespace
) -> results.Line:
    """Audit one setting; the line is the JSON object that the command prints."""
    table = dataset.table
    near = label_flips(table)
    if recipe.relation is ADD_REMOVE:
        near = audits.neighbours(table, ADD_REMOVE)
    key, start = jax.random.key(options.seed), time.perf_counter()
    result = audits.audit_transcripts(
        key, near, recipe, options.transcripts, with_worst_steps=options.steps
    )
    by_mechanism: dict[str, float] = {}
    for line in dpbt.ledger(recipe).lines:
        sums = by_mechanism.get(line.mechanism, 0.0) + result.loss_by_site[line.site]
        by_mechanism[line.mechanism] = sums
    return {
        "algorithm": recipe.name,
        "calibration": recipe.calibration,
        "relation": recipe.relation.value,
        "claimed_epsilon": result.claimed_epsilon,
        "largest_loss": result.largest_loss,
        "neighbours": result.num_neighbours,
        "transcripts": result.num_transcripts,
        "by_mechanism": by_mechanism,
        "seconds": time.perf_counter() - start,
        "criterion": recipe.options_text,
        "dataset": dataset.name,
        "rounds": int(recipe.rounds),
        "worst_step_ratio": max(result.max_step_ratio_by_site.values(), default=None),
        "unprotected": "; ".join(recipe.learner.unprotected),
    }


def _make_recipe(options: argparse.Namespace, rows: int, **changes: Any) -> Recipe:
    """The recipe of the options, or of other values of some of them."""
    setting = {**vars(options), **changes}
    with as_input_error():
        return ALGORITHMS[setting["algorithm"]](
            epsilon=setting["epsilon"],
            delta=setting["delta"],
            rows=rows,
            rounds=setting["rounds"],
            depth=setting["depth"],
            calibration=setting["calibration"],
            relation=as_relation(setting["relation"]),
            **CRITERIA[setting["criterion"]],
        )


def run_command(options: argparse.Namespace) -> None:
    """Audit one setting, or the grid, and print the results."""
    dataset = data.load(options.dataset)
    path = commands.out_folder(options) / f"{options.algorithm}.csv"
    rows = len(dataset.label)
    settings = _grid_settings(options) if options.grid else [{}]
    recipes_to_audit = [_make_recipe(options, rows, **setting) for setting in settings]

    lines = []
    quiet = options.json or not options.grid
    with progress(len(recipes_to_audit), "setting", quiet=quiet) as progress_bar:
        for recipe in recipes_to_audit:
            lines.append(audit_setting(dataset, recipe, options))
            progress_bar.update()
            if options.grid:
                _save_lines(path, lines, options)

    if options.json:
        print(json.dumps(lines if options.grid else lines[0], indent=1))
        return
    first = lines[0]
    counts = f"{first['transcripts']} transcripts of {first['rounds']} trees"
    print(f"{dataset.name}: {counts}, {first['neighbours']} neighbours\n")
    print(_format_lines(lines))
    if options.grid:
        print(f"\nwrote {path}")


def _grid_settings(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The settings of the grid; algorithms other than bdpe do not read the criterion."""
    criteria = CRITERIA if options.algorithm == "bdpe" else ("gini",)
    axes = {**GRID, "criterion": criteria}
    order = ("calibration", "criterion", "relation", "epsilon")
    points = itertools.product(*(axes[name] for name in order))
    return [dict(zip(order, point, strict=True)) for point in points]


def _save_lines(path: Path, lines: list[results.Line], options: argparse.Namespace) -> None:
    flat = [{**line, "by_mechanism": json.dumps(line["by_mechanism"])} for line in lines]
    results.write_csv(path, flat, {"depth": options.depth, "seed": options.seed})


COLUMNS = {
    "calibration": "{calibration}",
    "criterion": "{criterion}",
    "relation": "{relation}",
    "claimed": "{claimed_epsilon:.4g}",
    "largest loss": "{largest_loss:.4g}",
    "of claim": "{of_claim:.1%}",
    "step": "{worst_step_ratio:.1%}",
    "by mechanism": "{by}",
    "s": "{seconds:.1f}",
}


def _format_lines(lines: list[results.Line]) -> str:
    texts = []
    for line in lines:
        losses = (f"{name} {value:+.3g}" for name, value in line["by_mechanism"].items())
        ratio = line["largest_loss"] / line["claimed_epsilon"]
        texts.append({**line, "of_claim": ratio, "by": ", ".join(losses)})
    return tables.format_table(texts, COLUMNS)
