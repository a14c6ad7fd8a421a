"""Exact audit: the largest privacy loss of recorded transcripts over all neighbours, beside the claim.

Neighbours are every removal of a row (add/remove), or every flip of a row's label (replace-one).
The data sets are public: losses and the number of neighbours are exact functions of the rows.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import jax
from tqdm import tqdm

from dpbt import audit as audits
from dpbt import losses, recipes
from dpbt.accounting import align
from dpbt.base import ADD_REMOVE, Recipe, relation, relation_name
from experiments.common import data, results


def _without_criterion(make):
    """A recipe of an algorithm that scores no splits."""
    return lambda *, alpha, criterion, **settings: make(**settings)


def _rules(*, depth, alpha, criterion, **settings) -> Recipe:
    del depth, alpha, criterion
    return recipes.lazybb_rules(**settings)


def _top_down(*, depth, alpha, criterion, **settings) -> Recipe:
    del alpha, criterion  # Gini, which the published calibration is of
    return recipes.lazybb_trees(depth=depth, splits=min(3, 2**depth - 1), **settings)


ALGORITHMS = {
    "bdpe": recipes.bdpe,
    "lazybb": _rules,
    "lazybb-trees": _top_down,
    "random-forest": _without_criterion(recipes.random_forest),
    "rf-l": _without_criterion(recipes.rf_l),
    "rf-e": _without_criterion(recipes.rf_e),
}
CRITERIA = {
    "objective": {"alpha": "objective", "criterion": losses.m_alpha},
    "alpha-1": {"alpha": 1.0, "criterion": losses.m_alpha},
    "gini": {"alpha": 1.0, "criterion": losses.square},
}
GRID = {"epsilon": (0.1, 1.0, 10.0), "calibration": ("published", "tight"), "relation": ("add_remove", "replace_one")}
FIELDS = ("algorithm", "calibration", "relation", "claimed_epsilon", "largest_loss", "neighbours", "transcripts")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="bdpe")
    parser.add_argument("--calibration", choices=GRID["calibration"], default="tight")
    parser.add_argument("--criterion", choices=CRITERIA, default="objective")
    parser.add_argument("--relation", choices=GRID["relation"], default="add_remove")
    parser.add_argument("--dataset", default="breast-cancer", help="breast-cancer or banknote (%(default)s)")
    parser.add_argument("--epsilon", type=float, default=1.0, help="the total budget (%(default)s)")
    parser.add_argument("--delta", type=float, default=0.0, help="0 for a pure guarantee (%(default)s)")
    parser.add_argument("--rounds", type=int, default=20, help="trees of a transcript (%(default)s)")
    parser.add_argument("--depth", type=int, default=4, help="their depth (%(default)s)")
    parser.add_argument("--transcripts", type=int, default=20, help="recorded transcripts (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the key (%(default)s)")
    parser.add_argument("--steps", action="store_true", help="also the worst case of each step over its outputs")
    parser.add_argument("--grid", action="store_true", help="all calibrations, criteria, relations and epsilons")
    parser.add_argument("--out", default="results/audit", help="folder of the grid's results (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object (with --grid, a list)")


def one(dataset: data.Dataset, recipe: Recipe, options: argparse.Namespace, steps: bool) -> dict:
    """Audit one setting; the JSON object of the command."""
    table = dataset.table
    near = audits.neighbours(table, ADD_REMOVE) if recipe.relation is ADD_REMOVE else audits.label_flips(table)
    start = time.perf_counter()
    found = audits.audit(jax.random.key(options.seed), near, recipe, options.transcripts, steps=steps)
    return {
        "algorithm": recipe.name,
        "calibration": recipe.calibration,
        "relation": relation_name(recipe.relation),
        "claimed_epsilon": found.claimed_epsilon,
        "largest_loss": found.largest_loss,
        "neighbours": found.neighbours,
        "transcripts": found.transcripts,
        "by_mechanism": found.by_mechanism,
        "seconds": time.perf_counter() - start,
        "criterion": recipe.setting,
        "dataset": dataset.name,
        "rounds": int(recipe.rounds),
        "worst_step_ratio": max(found.step_ratio.values()) if found.step_ratio else None,
        "unprotected": "; ".join(recipe.learner.unprotected),
    }


def _recipe(options: argparse.Namespace, rows: int, **changes) -> Recipe:
    chosen = {**vars(options), **changes}
    return ALGORITHMS[chosen["algorithm"]](
        epsilon=chosen["epsilon"],
        delta=chosen["delta"],
        rows=rows,
        rounds=chosen["rounds"],
        depth=chosen["depth"],
        calibration=chosen["calibration"],
        relation=relation(chosen["relation"]),
        **CRITERIA[chosen["criterion"]],
    )


def run(options: argparse.Namespace) -> None:
    """Audit one setting, or the grid, and print."""
    if options.transcripts < 1:
        raise ValueError(f"--transcripts must be at least 1, got {options.transcripts}")
    dataset, path = data.load(options.dataset), Path(options.out) / "audit.csv"
    rows = len(dataset.label)
    if options.grid:
        settings = [
            {"calibration": calibration, "criterion": criterion, "relation": name, "epsilon": epsilon}
            for calibration in GRID["calibration"]
            for criterion in (CRITERIA if options.algorithm == "bdpe" else ("gini",))
            for name in GRID["relation"]
            for epsilon in GRID["epsilon"]
        ]
        progress = tqdm(settings, unit="setting", disable=options.json, file=sys.stderr)
        lines = [one(dataset, _recipe(options, rows, **choice), options, options.steps) for choice in progress]
        config = {"depth": options.depth, "seed": options.seed}
        results.write_csv(path, [{**line, "by_mechanism": json.dumps(line["by_mechanism"])} for line in lines], config)
    else:
        lines = [one(dataset, _recipe(options, rows), options, options.steps)]
    if options.json:
        print(json.dumps(lines if options.grid else lines[0], indent=1))
        return
    head = ("calibration", "criterion", "relation", "claimed", "largest loss", "of claim", "step", "by mechanism", "s")
    cells = [
        (
            line["calibration"],
            line["criterion"],
            line["relation"],
            f"{line['claimed_epsilon']:.4g}",
            f"{line['largest_loss']:.4g}",
            f"{line['largest_loss'] / line['claimed_epsilon']:.1%}",
            "" if line["worst_step_ratio"] is None else f"{line['worst_step_ratio']:.1%}",
            ", ".join(f"{name} {value:+.3g}" for name, value in line["by_mechanism"].items()),
            f"{line['seconds']:.1f}",
        )
        for line in lines
    ]
    first = lines[0]
    counts = f"{first['transcripts']} transcripts of {first['rounds']} trees, {first['neighbours']} neighbours"
    print(f"{dataset.name}: {counts}\n")
    print(align([head, *cells]))
    if options.grid:
        print(f"\nwrote {path}")
