"""LazyBB on a data set under the paper's protocol: sweeps, their accuracies, and lines of results.

Adult is tested on its own test rows; Cod-RNA (its training file) and Mushroom by cross-validation,
in five folds (the paper does not say how many), with other folds for every key.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from dpbt import recipes
from dpbt.base import Recipe
from dpbt.sweeps import plan, runner, storage
from experiments.common import commands, protocols, results
from experiments.papers.asadi_2022.features import load, training_rows
from experiments.papers.asadi_2022.settings import (
    DATASETS,
    FEATURES,
    LEARNERS,
    NAME,
    PAPER,
    RELATION,
)

MAKERS = {"one_rule": recipes.lazybb_rules, "top_down": recipes.lazybb_trees}
"""What makes the recipe of each weak learner among `settings.LEARNERS`."""


def lazybb(*, learner: str, **settings: Any) -> Recipe:
    """LazyBB with one of the weak learners under the paper's relation.

    The learner can be an axis of a sweep.

    Args:
        learner: among MAKERS.
        settings: what the learner's maker takes.

    Raises:
        ValueError: for another learner, or as its maker.
    """
    if learner not in MAKERS:
        raise ValueError(f"learner must be one of {sorted(MAKERS)}, got {learner!r}")
    return MAKERS[learner](relation=RELATION, **settings)


def add_options(parser: argparse.ArgumentParser, datasets: Sequence[str] | None) -> None:
    """Declare the options that all programs have: data sets, features, keys, results.

    Args:
        parser: of the program.
        datasets: those by default, or None where the program says.
    """
    words = "data sets (all for table2, else adult)" if datasets is None else " ".join(datasets)
    words = words if datasets is None else f"data sets ({words})"
    chosen = {"nargs": "+", "choices": DATASETS, "metavar": "NAME", "default": datasets}
    parser.add_argument("--dataset", **chosen, help=words)
    words = "Boolean features: the paper's, this library's, or the paper's that some row has"
    parser.add_argument("--features", choices=FEATURES, default="intervals", help=words)
    commands.add_count(parser, "--keys", 20, "repetitions")
    commands.add_seed(parser, "keys and folds")
    commands.add_data(parser)
    commands.add_out(parser, results.folder(NAME), "; a run resumes there")
    commands.add_json(parser, "print a JSON list")


def add_folds(parser: argparse.ArgumentParser) -> None:
    """Declare --folds."""
    parser.add_argument(
        "--folds", type=commands.whole(2), default=5, help="of cross-validation (%(default)s)"
    )


def add_budget(parser: argparse.ArgumentParser) -> None:
    """Declare the learner and its budgets."""
    words = "total budgets (1)"
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0], help=words)
    words = "0 for a pure guarantee (%(default)s)"
    parser.add_argument("--delta", type=float, default=0.0, help=words)
    words = "1-rules or top-down trees (%(default)s)"
    parser.add_argument("--learner", choices=LEARNERS, default="one_rule", help=words)


class Job(NamedTuple):
    """A sweep on one data set.

    Attributes:
        sweep: the settings; `repeats` is the number of keys where the split has one evaluation.
        task: the table and its evaluations, `folds` of them for each key.
        folds: see task.
        words: of the features.
        folder: where its results go, another one for every definition and commit.
    """

    sweep: plan.Sweep
    task: plan.Task
    folds: int
    words: list[str]
    folder: Path


def job(
    dataset: str,
    blocks: Sequence[plan.Block],
    options: argparse.Namespace,
    cross_validated: bool = False,
    keys: int | None = None,
    seed: int | None = None,
) -> Job:
    """The sweep of the blocks on a data set, under the paper's protocol for it.

    Args:
        dataset: its name.
        blocks: of settings, with the axes of `lazybb`.
        options: `features`, `folds`, `keys`, `seed`, `data` and `out` count.
        cross_validated: leave canonical test rows out and cross-validate the others.
        keys: in the place of the options'; and seed.
        seed: see keys.
    """
    keys = keys or int(options.keys)
    seed = int(options.seed) if seed is None else seed
    table, test, words = load(dataset, options.features, options.data)
    if cross_validated:
        table, test = training_rows(table, test), None

    if test is None:
        label, seeds = np.asarray(table.target), range(seed, seed + keys)
        folds, repeats = options.folds, 1
        split = protocols.cross_validation(label, folds, seeds)
    else:
        folds, repeats, split = 1, keys, protocols.canonical(test)

    rows = int(split.train.sum(axis=1).max())
    task = plan.Task(dataset, table, split.train, split.test, {"rows": rows})
    name = f"smooth_boosting_{dataset}"
    sweep = plan.Sweep(name, lazybb, tuple(blocks), repeats, seed)
    definition = {
        "task": [options.features, folds, keys, *task.shape],
        "sweep": sweep.definition(),
        "of": storage.provenance(),
    }
    digest = plan.setting_id({"plan": json.dumps(definition, sort_keys=True)})
    return Job(sweep, task, folds, words, Path(options.out) / f"{dataset}-{digest}")


def block(
    epsilon: float, delta: float, learner: str, calibration: str, chosen: dict
) -> dict[str, tuple]:
    """One setting."""
    budget = {"epsilon": epsilon, "delta": delta}
    single = {**budget, "learner": learner, "calibration": calibration, **chosen}
    return {axis: (value,) for axis, value in single.items()}


def fit_all(work: Job, quiet: bool) -> tuple[np.ndarray, runner.Report]:
    """f64[settings, keys]: accuracy on test rows, the folds of one key averaged.

    What is there is not run again.
    """
    total = len(work.sweep.settings) * len(work.task.train) * work.sweep.repeats
    shown = {"unit": "fit", "smoothing": 0.1, "file": sys.stderr, "disable": quiet}
    with tqdm(total=total, desc=work.task.name, **shown) as bar:
        report = runner.run(
            work.sweep, [work.task], work.folder, progress=lambda fits: bar.update(fits)
        )
    columns, _ = storage.load_columns(work.folder / f"{work.task.name}.npz")
    accuracy = 1 - columns["test_error"].astype(np.float64)
    shape = (len(work.sweep.settings), -1, work.folds, work.sweep.repeats)
    return accuracy.reshape(shape).mean(axis=2).reshape(shape[0], -1), report


def summary(work: Job, accuracy: np.ndarray, comparable: bool) -> list[results.Line]:
    """A line for each setting, its axes last.

    Args:
        work: what was fitted.
        accuracy: f64[settings, keys].
        comparable: whether settings and features are the paper's, so that its printed accuracies
            stand beside those of pure 1-rules.
    """
    lines = []
    for setting, own in zip(work.sweep.settings, accuracy, strict=True):
        pure_rules = setting["learner"] == "one_rule" and setting["delta"] == 0
        printed = PAPER.get((work.task.name, float(setting["epsilon"])))
        lines.append(
            {
                "dataset": work.task.name,
                "epsilon": setting["epsilon"],
                "calibration": setting["calibration"],
                "learner": setting["learner"],
                "accuracy_mean": float(own.mean()),
                "accuracy_sd": float(own.std(ddof=1)) if len(own) > 1 else 0.0,
                "keys": len(own),
                "paper": printed if comparable and pure_rules else None,
                **setting,
            }
        )
    return lines


def say(work: Job, report: runner.Report) -> None:
    """Print what was fitted, and how long it took."""
    rows, fits = work.task.arguments["rows"], f"{report.fits} fits in {report.run_seconds:.1f} s"
    print(f"{work.task.name}: {rows} rows, {len(work.words)} features; {fits}")
