"""Smooth boosting on Adult, Cod-RNA and Mushroom: accuracy at epsilon, beside Asadi et al. (2022), Tables 4 and 11.

Adult is tested on its own test rows; Cod-RNA (its training file) and Mushroom by cross-validation, in five folds (the
paper does not say how many), with other folds for every key. Settings are those of Tables 8-10, which were selected on
the same data: that selection is not in any ledger. `--series` runs what Table 2 and Figures 2 and 3 show,
`--grid` the paper's way of selecting settings.
"""

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from tqdm import tqdm

import dpbt
from dpbt import diagnostics, recipes, runs, smooth_bounds, storage, sweeps
from dpbt.accounting import align
from dpbt.domains import Boolean
from dpbt.questions import splits_of
from dpbt.tables import take
from experiments import protocols, results, smooth_sparsity
from experiments.smooth_settings import (
    BOUND,
    DATASETS,
    EPSILONS,
    FEATURES,
    FIGURE_2,
    GRID,
    LEAF_SHARES,
    PAPER,
    TREES,
    load,
    settings,
)

CALIBRATIONS = ("published", "tight")
SHOWN = ("dataset", "epsilon", "calibration", "learner", "accuracy_mean", "accuracy_sd", "keys", "paper")
SERIES_DELTA = 1e-5
SELECTION_SEED = 1_000_000
"""Added to the seed for selection, so that what was selected is tested with other folds and keys."""
SPEED = {"epsilon": (0.5, 1.0, 2.0, 3.0, 5.0), "density": (0.25, 0.3, 0.35, 0.4, 0.5), "learning_rate": (0.4, 0.45)}
"""With 39 rounds, 50 settings, so that 20 keys make 1,000 fits."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--dataset", nargs="+", choices=DATASETS, help="(adult; all of them with --series table2)")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0], help="total budgets (%(default)s)")
    parser.add_argument(
        "--settings-at", type=float, help="use the paper's settings for this epsilon (for each its own)"
    )
    parser.add_argument("--delta", type=float, default=0.0, help="0 for a pure guarantee (%(default)s)")
    parser.add_argument("--learner", choices=("one_rule", "top_down"), default="one_rule")
    parser.add_argument("--features", choices=FEATURES, default="intervals")
    parser.add_argument("--keys", type=int, default=20, help="repetitions (%(default)s)")
    parser.add_argument("--folds", type=int, default=5, help="of cross-validation (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the keys and folds (%(default)s)")
    kind = parser.add_mutually_exclusive_group()
    words = "accuracy by epsilon, as in the plots of Table 2, or in Figure 2 or 3 (Adult, cross-validated, two deltas)"
    kind.add_argument("--series", choices=("table2", "fig2", "fig3"), help=words)
    words = (
        "cross-validate Table 1's grid with one key, then measure the best; the choice costs privacy not counted here"
    )
    kind.add_argument("--grid", action="store_true", help=words)
    kind.add_argument("--sparsity", action="store_true", help="features used, beside Tables 5-7")
    kind.add_argument("--speed", action="store_true", help="seconds of one fit, and of 1,000 fits in one program")
    parser.add_argument("--data", help="folder of data sets; see `python -m experiments data`")
    parser.add_argument(
        "--out", default="results/smooth_boosting", help="folder of results; a run resumes there (%(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list")


class Job(NamedTuple):
    """A sweep on one data set.

    Attributes:
        sweep: the settings; `repeats` is the number of keys where the split has one evaluation.
        task: the table and its evaluations, `folds` of them for each key.
        folds: see task.
        words: of the features.
        folder: where its results go, another one for every definition and commit.
    """

    sweep: sweeps.Sweep
    task: sweeps.Task
    folds: int
    words: list[str]
    folder: Path


def job(
    dataset: str,
    blocks: Sequence[sweeps.Block],
    options: argparse.Namespace,
    cross_validated: bool = False,
    keys: int | None = None,
    seed: int | None = None,
) -> Job:
    """The sweep of the blocks on a data set, under the paper's protocol for it.

    Args:
        dataset: its name.
        blocks: of settings, with the axes of `recipes.lazybb`.
        options: `features`, `folds`, `keys`, `seed`, `data` and `out` count.
        cross_validated: leave canonical test rows out and cross-validate the others.
        keys: in the place of the options'; and seed.
        seed: see keys.
    """
    keys = keys or int(options.keys)
    seed = int(options.seed) if seed is None else seed
    table, test, words = load(dataset, options.features, options.data)
    if cross_validated and test is not None:
        table = take(table, ~test)
        test = None
    if test is None:
        folds, repeats = options.folds, 1
        seeds = range(seed, seed + keys)
        split = protocols.cross_validation(np.asarray(table.target), folds, seeds)
    else:
        folds, repeats, split = 1, keys, protocols.canonical(test)
    rows = int(split.train.sum(axis=1).max())
    task = sweeps.Task(dataset, table, split.train, split.test, {"rows": rows})
    sweep = sweeps.Sweep(f"smooth_boosting_{dataset}", recipes.lazybb, tuple(blocks), repeats, seed)
    plan = {
        "task": [options.features, folds, keys, *task.shape],
        "sweep": sweep.definition(),
        "of": storage.provenance(),
    }
    digest = sweeps.setting_id({"plan": json.dumps(plan, sort_keys=True)})
    return Job(sweep, task, folds, words, Path(options.out) / f"{dataset}-{digest}")


def block(epsilon: float, delta: float, learner: str, calibration: str, chosen: dict) -> dict[str, tuple]:
    """One setting."""
    single = {"epsilon": epsilon, "delta": delta, "learner": learner, "calibration": calibration, **chosen}
    return {axis: (value,) for axis, value in single.items()}


def fit_all(work: Job, quiet: bool) -> tuple[np.ndarray, runs.Report]:
    """f64[settings, keys]: accuracy on test rows, the folds of one key averaged; what is there is not run again."""
    total = len(work.sweep.settings) * len(work.task.train) * work.sweep.repeats
    with tqdm(total=total, unit="fit", smoothing=0.1, file=sys.stderr, disable=quiet, desc=work.task.name) as bar:
        report = runs.run(work.sweep, [work.task], work.folder, progress=lambda fits: bar.update(fits))
    columns, _ = storage.load_columns(work.folder / f"{work.task.name}.npz")
    accuracy = 1 - columns["test_error"].astype(np.float64)
    shape = (len(work.sweep.settings), -1, work.folds, work.sweep.repeats)
    return accuracy.reshape(shape).mean(axis=2).reshape(shape[0], -1), report


def as_in_tables(options: argparse.Namespace) -> bool:
    """Whether features and settings are those behind the paper's printed numbers."""
    return options.settings_at is None and options.features == "intervals"


def summary(work: Job, accuracy: np.ndarray, tables: bool) -> list[dict]:
    """A line for each setting, its axes last; `tables` says that settings are the paper's, so its numbers compare."""
    lines = []
    for setting, own in zip(work.sweep.settings, accuracy, strict=True):
        comparable = tables and setting["learner"] == "one_rule" and setting["delta"] == 0
        lines.append(
            {
                "dataset": work.task.name,
                "epsilon": setting["epsilon"],
                "calibration": setting["calibration"],
                "learner": setting["learner"],
                "accuracy_mean": float(own.mean()),
                "accuracy_sd": float(own.std(ddof=1)) if len(own) > 1 else 0.0,
                "keys": len(own),
                "paper": PAPER.get((work.task.name, float(setting["epsilon"]))) if comparable else None,
                **setting,
            }
        )
    return lines


def _cell(value) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _print(lines: Sequence[dict], names: Sequence[str]) -> None:
    print(align([tuple(names), *([_cell(line[name]) for name in names] for line in lines)]))


def run(options: argparse.Namespace) -> None:
    """Fit what is asked for and is not there; print the lines, and write them."""
    if options.speed:
        _speed(options)
    elif options.grid:
        _grid(options)
    elif options.sparsity:
        _sparsity(options)
    else:
        _lines(options)


def _lines(options: argparse.Namespace) -> None:
    """The settings of the tables, or a series."""
    series, out, lines, jobs = options.series, Path(options.out), [], []
    epsilons = EPSILONS if series else options.epsilon
    deltas = (0.0, SERIES_DELTA) if series in ("fig2", "fig3") else (options.delta,)
    everything = DATASETS if series == "table2" else ("adult",)
    for dataset in options.dataset or everything:
        blocks = []
        for epsilon, delta, calibration in itertools.product(epsilons, deltas, CALIBRATIONS):
            chosen = settings(dataset, options.settings_at or epsilon)
            chosen = FIGURE_2 if series == "fig2" else chosen
            chosen = TREES[calibration] if options.learner == "top_down" else chosen
            blocks.append(block(epsilon, delta, options.learner, calibration, chosen))
        work = job(dataset, blocks, options, cross_validated=series in ("fig2", "fig3"))
        accuracy, report = fit_all(work, options.json)
        jobs.append((work, report))
        lines += summary(work, accuracy, tables=series in (None, "table2") and as_in_tables(options))
    config = {"features": options.features, "folds": options.folds, "seed": options.seed}
    results.write_csv(out / f"{series or 'accuracy'}.csv", lines, config)
    if options.json:
        print(json.dumps([{name: line[name] for name in SHOWN} for line in lines], indent=1))
        return
    for work, report in jobs:
        rows, seconds = work.task.arguments["rows"], report.run_seconds
        print(f"{work.task.name}: {rows} rows, {len(work.words)} features; {report.fits} fits in {seconds:.1f} s")
    print()
    shown = searched(options.learner, "tight")
    _print(lines, (*SHOWN, *shown, *(("delta",) if max(deltas) > 0 else ())))
    if series is None and len(lines) == 2 and options.learner == "one_rule":
        _one_model(jobs[0][0], lines[-1], options.seed)


def _one_model(work: Job, line: dict, seed: int) -> None:
    """One model as a table of votes, and what its margins promise."""
    key, here = jax.random.key(seed), work.task.train[0]
    taught = take(work.task.table, here)
    setting = {axis: line[axis] for axis in work.sweep.settings[0]}
    arguments = {**work.task.arguments, **setting, "rows": len(taught.target)}
    model = dpbt.fit(key, taught, recipes.lazybb(**arguments))
    votes = diagnostics.votes(model, dict.fromkeys(work.words, Boolean()))
    complexity, _ = diagnostics.rademacher(key, splits_of(taught), 32)
    margins = diagnostics.margins(model, taught, taught.target)
    bound = smooth_bounds.margin_accuracy(margins, complexity)
    print(f"\none model ({line['calibration']}), {len(votes)} features:\n{diagnostics.votes_table(votes)}")
    print(f"\naccuracy by its margins and Rademacher complexity {complexity:.4f}: at least {bound:.2f}")
    print(f"(Table 11, at epsilon 1: {BOUND[work.task.name]})")


def searched(learner: str, calibration: str) -> dict[str, tuple]:
    """The axes of the grid; only the tight calibration divides a round between splits and labels otherwise."""
    return {**GRID[learner], **({"leaf_share": LEAF_SHARES[calibration]} if learner == "top_down" else {})}


def _grid(options: argparse.Namespace) -> None:
    """Select by cross-validation with one key; then all keys, on the test rows or, without any, in folds drawn anew."""
    out, lines, selected = Path(options.out), [], []
    for dataset in options.dataset or ("adult",):
        for epsilon in options.epsilon:
            axes = {"epsilon": (epsilon,), "delta": (options.delta,), "learner": (options.learner,)}
            grids = [{**axes, **searched(options.learner, c), "calibration": (c,)} for c in CALIBRATIONS]
            work = job(dataset, grids, options, cross_validated=True, keys=1, seed=options.seed + SELECTION_SEED)
            found = summary(work, fit_all(work, options.json)[0], tables=False)
            lines += found
            for calibration in CALIBRATIONS:
                own = [line for line in found if line["calibration"] == calibration]
                best = max(own, key=lambda line: line["accuracy_mean"])
                chosen = {axis: best[axis] for axis in searched(options.learner, calibration)}
                work = job(dataset, [block(epsilon, options.delta, options.learner, calibration, chosen)], options)
                line = summary(work, fit_all(work, options.json)[0], tables=as_in_tables(options))[0]
                selected.append({**line, "selected_by": best["accuracy_mean"], "of": len(own)})
    results.write_csv(out / "grid.csv", lines, {"features": options.features, "folds": options.folds})
    if options.json:
        print(json.dumps(selected, indent=1))
        return
    _print(selected, (*SHOWN, *searched(options.learner, "tight"), "selected_by", "of"))


def _sparsity(options: argparse.Namespace) -> None:
    """Features used by epsilon."""
    lines = [line for dataset in options.dataset or DATASETS for line in smooth_sparsity.lines(dataset, options)]
    config = {"features": options.features, "keys": options.keys, "seed": options.seed}
    results.write_csv(Path(options.out) / "sparsity.csv", lines, config)
    if options.json:
        print(json.dumps(lines, indent=1))
        return
    _print(lines, list(lines[0]))


def _speed(options: argparse.Namespace) -> None:
    """One warm fit, and 1,000 fits of 50 settings in one program; compilation apart."""
    fixed = {"rounds": (39,), "learner": ("one_rule",), "calibration": ("tight",)}
    lines = []
    for dataset in options.dataset or ("adult",):
        work = job(dataset, [{**SPEED, **fixed}], options, keys=20)
        here = work.task.train[0]
        taught = take(work.task.table, here)
        recipe = recipes.lazybb(epsilon=1.0, rows=len(taught.target))
        seconds = []
        for key in jax.random.split(jax.random.key(options.seed), 8):
            start = time.perf_counter()
            jax.block_until_ready(dpbt.fit(key, taught, recipe).trees)
            seconds.append(time.perf_counter() - start)
        with tempfile.TemporaryDirectory() as folder:
            _, report = fit_all(work._replace(folder=Path(folder)), options.json)
        lines.append(
            {
                "dataset": dataset,
                "rows": work.task.arguments["rows"],
                "features": len(work.words),
                "rounds": 39,
                "one_fit_seconds": statistics.median(seconds[1:]),
                "fits": report.fits,
                "programs": report.programs,
                "seconds_per_fit": report.run_seconds / report.fits,
                "compile_seconds": report.compile_seconds,
                "memory_mb": report.memory_mb,
            }
        )
    if options.json:
        print(json.dumps(lines, indent=1))
        return
    _print(lines, list(lines[0]))
