"""LazyBB on a data set under the paper's protocol: sweeps, accuracies and lines of results.

Adult is tested on its own test rows. Cod-RNA (its training file) and Mushroom are cross-validated
in five folds, with other folds for every key; the paper does not say how many folds it has.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpbt import recipes, sweeps
from dpbt.owners.cli.parsing import InputError, as_input_error
from dpbt.types import Recipe
from experiments.common import aggregated, commands, protocols, results
from experiments.common.progress import progress
from experiments.papers.asadi_2022 import tables
from experiments.papers.asadi_2022.features import load_features, take_training_rows
from experiments.papers.asadi_2022.settings import (
    DATASETS,
    FEATURES,
    LEARNERS,
    NAME,
    RELATION,
)

MAKERS = {"one_rule": recipes.lazybb_rules, "top_down": recipes.lazybb_trees}
"""Weak learner among `settings.LEARNERS` -> the maker of its recipe."""


def lazybb_recipe(*, learner: str, **settings: Any) -> Recipe:
    """LazyBB with one of the weak learners under the paper's relation.

    The learner can be an axis of a sweep.

    Args:
        learner: one of MAKERS.
        settings: the arguments of the learner's maker.

    Raises:
        InputError: for another learner, and for settings that its maker refuses.
    """
    if learner not in MAKERS:
        raise InputError(f"learner must be one of {sorted(MAKERS)}, got {learner!r}")
    with as_input_error():
        return MAKERS[learner](relation=RELATION, **settings)


def add_shared_options(parser: argparse.ArgumentParser, datasets: Sequence[str] | None) -> None:
    """Declare the options that all programs have: data sets, features, keys, results.

    Args:
        parser: the program's parser.
        datasets: the default, or None if it depends on another option.
    """
    words = "data sets (for table2 all, else adult)" if datasets is None else " ".join(datasets)
    words = words if datasets is None else f"data sets ({words})"
    names = {"nargs": "+", "choices": DATASETS, "metavar": "NAME", "default": datasets}
    parser.add_argument("--dataset", **names, help=words)
    words = "Boolean features: the paper's intervals, this library's thresholds, the intervals that"
    words += " some row is in, or intervals between quantiles (%(default)s)"
    parser.add_argument("--features", choices=FEATURES, default="intervals", help=words)
    commands.add_count(parser, "--keys", 20, "number of repetitions")
    commands.add_seed(parser, "keys and folds")
    commands.add_shared(
        parser,
        data=True,
        out=results.results_folder(NAME),
        out_note="; a run resumes there",
        json="print a JSON list",
    )


def add_folds_option(parser: argparse.ArgumentParser) -> None:
    """Declare --folds."""
    parser.add_argument(
        "--folds",
        type=commands.whole_number_type(2),
        default=5,
        help="number of folds (%(default)s)",
    )


def add_budget_options(parser: argparse.ArgumentParser) -> None:
    """Declare the learner and its budgets."""
    words = "total budgets (1)"
    parser.add_argument("--epsilon", type=commands.positive, nargs="+", default=[1.0], help=words)
    words = "0 for a pure guarantee (%(default)s)"
    parser.add_argument("--delta", type=commands.share_below_one, default=0.0, help=words)
    words = "weak learner: 1-rules or top-down trees (%(default)s)"
    parser.add_argument("--learner", choices=LEARNERS, default="one_rule", help=words)


class Job(NamedTuple):
    """A sweep on one data set.

    Attributes:
        sweep: the settings; `repeats` is the number of keys if there is one evaluation.
        task: the table and its evaluations, `folds` of them for each key.
        folds: the number of folds.
        words: the features in words.
        folder: the folder of its results; every definition and commit has its own.
    """

    sweep: sweeps.Sweep
    task: sweeps.Task
    folds: int
    words: list[str]
    folder: Path


def make_job(
    dataset: str,
    blocks: Sequence[sweeps.Block],
    options: argparse.Namespace,
    *,
    cross_validated: bool = False,
    keys: int | None = None,
    seed: int | None = None,
) -> Job:
    """The sweep of the blocks on a data set, under the paper's protocol for it.

    Args:
        dataset: the data set's name.
        blocks: blocks of settings, with the axes of `lazybb_recipe`.
        options: `features`, `folds`, `keys`, `seed`, `data` and `out` are read.
        cross_validated: leave canonical test rows out, and cross-validate the other rows.
        keys: the number of keys, instead of the options'.
        seed: the seed, instead of the options'.
    """
    keys = keys or int(options.keys)
    seed = int(options.seed) if seed is None else seed
    table, test, words = load_features(dataset, options.features, options.data)
    if cross_validated:
        table, test = take_training_rows(table, test), None

    if test is None:
        label, seeds = np.asarray(table.target), range(seed, seed + keys)
        folds, repeats = options.folds, 1
        split = protocols.cross_validation(label, folds, seeds)
    else:
        folds, repeats, split = 1, keys, protocols.canonical_folds(test)

    public = {"rows": int(split.train.sum(axis=1).max())}
    task = sweeps.Task(dataset, table, split.train, split.test, public)
    name = f"smooth_boosting_{dataset}"
    with as_input_error():
        sweep = sweeps.Sweep(name, lazybb_recipe, tuple(blocks), repeats, seed)
    definition = {
        "task": [options.features, folds, keys, *sweeps.shape_of_table(task.table)],
        "sweep": sweep.definition(),
        "of": sweeps.provenance(),
    }
    digest = sweeps.setting_id({"plan": json.dumps(definition, sort_keys=True)})
    return Job(sweep, task, folds, words, commands.out_folder(options) / f"{dataset}-{digest}")


def single_setting_block(
    *, epsilon: float, delta: float, learner: str, calibration: str, **settings: Any
) -> dict[str, tuple]:
    """A block of one setting; `settings` are the other axes of `lazybb_recipe`."""
    setting = {"epsilon": epsilon, "delta": delta, "learner": learner, "calibration": calibration}
    return {axis: (value,) for axis, value in (setting | settings).items()}


class JobFits(NamedTuple):
    """The fits of a job.

    Attributes:
        accuracy: f64[settings, keys], accuracy on test rows, averaged over the folds of a key.
        report: how many fits were run now; saved ones are not run again.
    """

    accuracy: np.ndarray
    report: sweeps.Report


def fit_job(job: Job, *, quiet: bool) -> JobFits:
    """Fit the settings of a job that are not saved yet."""
    total = len(job.sweep.settings) * len(job.task.train) * job.sweep.repeats
    bar = progress(total, "fit", job.task.name, quiet=quiet, smoothing=0.1)
    with bar as progress_bar, as_input_error(job.folder):
        report = sweeps.run(job.sweep, [job.task], job.folder, progress=progress_bar.update)
    columns, _ = sweeps.load_columns(job.folder / f"{job.task.name}.jsonl")
    accuracy = 1 - columns["test_error"].astype(np.float64)
    shape = (len(job.sweep.settings), -1, job.folds, job.sweep.repeats)
    return JobFits(accuracy.reshape(shape).mean(axis=2).reshape(shape[0], -1), report)


def accuracy_lines(job: Job, accuracy: np.ndarray, *, comparable: bool) -> list[results.Line]:
    """A line for each setting; the axes of the setting are its last entries.

    Args:
        job: the sweep that was fitted.
        accuracy: f64[settings, keys].
        comparable: whether settings and features are the paper's. If so, its printed accuracies
            stand beside those of pure 1-rules.
    """
    printed = {
        (setting["dataset"], float(setting["epsilon"])): number
        for row in ("table-4", "table-11")
        for setting, number in aggregated.printed_numbers(NAME, row)
    }
    lines = []
    for setting, accuracies in zip(job.sweep.settings, accuracy, strict=True):
        is_pure_rules = setting["learner"] == "one_rule" and setting["delta"] == 0
        place = job.task.name, float(setting["epsilon"])
        axes = ("epsilon", "calibration", "learner")
        line = {"dataset": place[0], **{axis: setting[axis] for axis in axes}}
        line |= mean_and_sd_columns("accuracy", accuracies)
        line["paper"] = printed.get(place) if comparable and is_pure_rules else None
        lines.append(line | setting)
    return lines


def mean_and_sd_columns(name: str, values: Sequence[float] | np.ndarray) -> results.Line:
    """NAME_mean, NAME_sd, and how many keys there were."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {f"{name}_mean": float(np.mean(values)), f"{name}_sd": spread, "keys": len(values)}


class MeasuredJobs(NamedTuple):
    """Jobs of data sets, and the lines of all their settings."""

    jobs: list[Job]
    lines: list[results.Line]


def measure_accuracies(
    blocks: Mapping[str, Sequence[sweeps.Block]],
    options: argparse.Namespace,
    saved: str,
    *,
    cross_validated: bool = False,
    comparable: bool = False,
) -> MeasuredJobs:
    """Fit the settings that are not saved yet; write the lines, and print them.

    Args:
        blocks: data set -> its blocks of settings.
        options: as `make_job`, and `json`.
        saved: the name of the results.
        cross_validated: as `make_job`.
        comparable: whether the settings are the paper's, as `accuracy_lines`.
    """
    lines, jobs, words = [], [], []
    comparable = comparable and options.features == "intervals"
    for dataset, blocks_of_set in blocks.items():
        job = make_job(dataset, blocks_of_set, options, cross_validated=cross_validated)
        accuracy, report = fit_job(job, quiet=options.json)
        jobs.append(job)
        lines += accuracy_lines(job, accuracy, comparable=comparable)
        rows = job.task.arguments["rows"]
        words.append(f"{dataset}: {rows} rows, {len(job.words)} features; {report.fits} fits")
    config = {"features": options.features, "folds": options.folds, "seed": options.seed}
    out = commands.out_folder(options)
    results.write_csv(out / f"{saved}.csv", lines, config)
    if not options.json:
        print("\n".join([*words, ""]))
    tables.print_table(out, saved, as_json=options.json)
    return MeasuredJobs(jobs, lines)
