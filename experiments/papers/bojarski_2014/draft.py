"""Repeat Table 1 by the words of the paper's draft of 2013, to see how much of it is luck.

The draft prints the numbers of Table 1 and says less of validation than the text of 2014:

- nine tenths of the rows train, and the others test; there are no validation rows;
- a threshold is uniform "from the range of all possible values", which is taken as the range of the
  data, and not as a declared one;
- the printed error is the smallest over 15 heights and 11 numbers of trees of the mean test error
  of ten runs.

Every height and number of trees has a forest of its own. So the smallest of 165 errors is also the
luckiest of 165 forests. One repeat is one such table. The repeats say how far two tables are apart
that differ by random bits alone, and where the printed one is among them.

This measures and releases nothing: noise is real Laplace noise of NumPy, and no ledger counts it.
"""

import argparse
import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from experiments.common import commands, protocols, results, tables
from experiments.common.progress import progress
from experiments.common.results import Line
from experiments.papers.bojarski_2014.rows import prepare_study
from experiments.papers.bojarski_2014.settings import (
    DATASETS,
    ETA_TIMES_TRAINING_ROWS,
    NAME,
    PAPER_ERRORS,
    PRINTED_VOTINGS,
    SETTINGS,
)

REPEATS = 30
SAMPLED_ROWS = {"adult": 6000, "covertype": 6000}
"""Rows of a sample of the largest data sets, with the same eta n_train.

The smallest of many test errors is luckier on a sample. `--all-rows` says how much.
"""

WITH_QUINTILES = ("adult",)
"""Data sets whose numbers are indicators of quintiles, as the paper's 123 attributes are."""

SMOKE = {"heights": (1, 3), "trees": (1, 3), "runs": 2}


class LeafRule(NamedTuple):
    """How a leaf states the share of positive rows.

    Attributes:
        noise: the scale of the noise on a count over k / eta; 0 without privacy.
        negative: what a negative noisy count means: "uniform" as printed, "zero", or "" without
            noise.
    """

    noise: float
    negative: str


RULES = (
    LeafRule(0.0, ""),
    *(LeafRule(noise, rule) for noise in (1.0, 0.7071) for rule in ("uniform", "zero")),
)
"""The draft defines Lap(0, lambda) by its standard deviation in one place: then noise is 0.7071
times the scale that its proof has."""

COLUMNS = (
    *("dataset", "noise", "negative", "voting", "repeat"),
    *("error", "error_sd", "trees", "height", "declared"),
)
DISTRIBUTION_COLUMNS = (
    *("dataset", "private", "noise", "negative", "voting", "repeats", "error", "error_sd"),
    *("one_table_sd", "paper_error", "percent_below", "trees", "height"),
)
JOINT_COLUMNS = ("dataset", "noise", "negative", "repeats", "distance", "mean_distance", "percent")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = f"data sets ({' '.join(DATASETS)})"
    names = {"nargs": "+", "choices": DATASETS, "metavar": "NAME", "default": DATASETS}
    parser.add_argument("--dataset", **names, help=words)
    commands.add_count(parser, "--repeats", REPEATS, "number of tables")
    words = "draw thresholds in the declared ranges instead of the ranges of the data"
    parser.add_argument("--declared", action="store_true", help=words)
    words = "take all rows of the largest data sets, and not samples of them"
    parser.add_argument("--all-rows", action="store_true", help=words)
    commands.add_seed(parser, "folds, trees and noise")
    commands.add_shared(
        parser, out=results.results_folder(NAME), smoke=True, json="print a JSON list"
    )


def run_command(options: argparse.Namespace) -> None:
    """Measure the data sets, save each when it is done, and print their distributions."""
    axes = SMOKE if options.smoke else SETTINGS
    suffix = "_declared" if options.declared else ""
    suffix += "_all_rows" if options.all_rows else ""
    lines = []
    for name in options.dataset:
        lines_of_data_set = repeat_lines(name, axes, options)
        config = {"seed": options.seed, "runs": axes["runs"], "rows": _sampled_rows(name, options)}
        path = commands.out_folder(options) / f"draft_{name}{suffix}.csv"
        results.write_csv(path, lines_of_data_set, config)
        lines += distribution_lines(lines_of_data_set)
    print(json.dumps(lines) if options.json else tables.align_lines(lines, DISTRIBUTION_COLUMNS))


def _sampled_rows(name: str, options: argparse.Namespace) -> int | None:
    """The number of rows of a sample of a data set, or None for all of them."""
    return None if options.all_rows else SAMPLED_ROWS.get(name)


def aggregated_lines(lines: Sequence[Line]) -> list[Line]:
    """`distribution_lines` with both readings of negative counts in one line.

    The columns error, error_sd, one_table_sd and percent_below are of "zero", and those with
    `as_printed_` before them of "uniform". Without privacy both are alike.

    Args:
        lines: from `repeat_lines`, of any data sets.
    """
    shared = ("dataset", "private", "noise", "voting", "repeats", "paper_error")
    of_readings = ("error", "error_sd", "one_table_sd", "percent_below")
    distributions = distribution_lines(lines)
    as_printed = {
        tuple(line[name] for name in shared): line
        for line in distributions
        if line["negative"] != "zero"
    }
    return [
        {name: line[name] for name in (*shared, *of_readings, "trees", "height")}
        | {
            f"as_printed_{name}": as_printed[tuple(line[column] for column in shared)][name]
            for name in of_readings
        }
        for line in distributions
        if line["negative"] != "uniform"
    ]


def ranges_of_data(position: np.ndarray) -> np.ndarray:
    """f32[N, A]: the positions, moved so that each attribute's rows reach from 0 to 1.

    The ranges are read off the rows, so this is only for comparison with the paper.
    """
    low, high = position.min(axis=0), position.max(axis=0)
    return ((position - low) / np.where(high > low, high - low, 1)).astype(np.float32)


def repeat_lines(name: str, axes: dict, options: argparse.Namespace) -> list[Line]:
    """The lowest mean test error of each rule of leaves and voting, for every repeat.

    Args:
        name: the data set's name.
        axes: holds "heights", "trees" and "runs".
        options: `repeats`, `declared`, `all_rows`, `seed` and `json` are read.
    """
    sample = _sampled_rows(name, options)
    study = prepare_study(name, 1, options.seed, sample=sample, quintiles=name in WITH_QUINTILES)
    position, label = np.asarray(study.table.bins), np.asarray(study.table.target)
    if not options.declared:
        position = ranges_of_data(position)
    runs, lines = axes["runs"], []
    with progress(options.repeats * runs, "run", name, quiet=options.json) as progress_bar:
        for repeat in range(options.repeats):
            folds = protocols.stratified_folds(label, 10, 1000 * options.seed + repeat)
            errors = []
            for run in range(runs):
                rng = np.random.default_rng((options.seed, repeat, run))
                errors.append(
                    errors_of_run(
                        rng,
                        position=position,
                        label=label,
                        is_test=folds == run,
                        heights=axes["heights"],
                        sizes=axes["trees"],
                    )
                )
                progress_bar.update()
            for line in _lowest_lines(np.stack(errors), axes):
                lines.append(
                    {"dataset": name, **line, "repeat": repeat, "declared": options.declared}
                )
    return lines


def errors_of_run(
    rng: np.random.Generator,
    *,
    position: np.ndarray,
    label: np.ndarray,
    is_test: np.ndarray,
    heights: Sequence[int],
    sizes: Sequence[int],
) -> np.ndarray:
    """f64[rules, votings, sizes, heights]: test errors, with a new forest for each size and height.

    Args:
        rng: draws trees and noise.
        position: f32[N, A], thresholds are uniform in [0, 1].
        label: bool[N].
        is_test: bool[N]; the other rows train.
        heights: the heights.
        sizes: the numbers of trees.
    """
    noise_unit = (~is_test).sum() / ETA_TIMES_TRAINING_ROWS  # 1 / eta, in rows
    columns = np.ascontiguousarray(position.T)
    errors = np.empty((len(RULES), len(PRINTED_VOTINGS), len(sizes), len(heights)))
    for place in np.ndindex(len(sizes), len(heights)):
        num_trees, height = sizes[place[0]], heights[place[1]]
        leaf = assign_random_leaves(rng, columns, num_trees=num_trees, height=height)
        theta = shares_of_test_rows(
            rng, leaf, label=label, is_test=is_test, noise_unit=noise_unit * num_trees
        )
        votes, sums = (theta > 0.5).sum(axis=1), theta.sum(axis=1)
        answers = np.stack([2 * votes > num_trees, sums > 0.5 * num_trees], axis=1)
        errors[:, :, *place] = np.mean(answers != label[is_test], axis=-1)
    return errors


def assign_random_leaves(
    rng: np.random.Generator, columns: np.ndarray, *, num_trees: int, height: int
) -> np.ndarray:
    """i32[k, N]: the leaf of each row in each of k new random trees; trees have other leaves.

    Args:
        rng: draws the attribute and the threshold of each node.
        columns: f32[A, N].
        num_trees: k.
        height: h; tree t has the leaves t 2^h to (t + 1) 2^h - 1.
    """
    num_nodes, (num_attributes, num_rows) = 2**height - 1, columns.shape
    # One uniform number has both: its part below 1 is independent of its whole part.
    uniform = rng.random(num_trees * num_nodes) * num_attributes
    attribute = uniform.astype(np.int32)
    threshold = (uniform - attribute).astype(np.float32)
    first_of_attribute = attribute * np.int32(num_rows)
    values, rows = columns.reshape(-1), np.arange(num_rows, dtype=np.int32)
    first_node = (np.arange(num_trees, dtype=np.int32) * np.int32(num_nodes))[:, None]
    node = np.zeros((num_trees, num_rows), np.int32)
    for _ in range(height):
        split = first_node + node
        value = values.take(first_of_attribute.take(split) + rows)
        node = 2 * node + 1 + (value > threshold.take(split))
    return node - np.int32(num_nodes) + np.arange(num_trees, dtype=np.int32)[:, None] * 2**height


def shares_of_test_rows(
    rng: np.random.Generator,
    leaf: np.ndarray,
    *,
    label: np.ndarray,
    is_test: np.ndarray,
    noise_unit: float,
) -> np.ndarray:
    """f64[rules, k, M]: theta of the leaf of each test row; noise is drawn for these leaves alone.

    Args:
        rng: draws noise, and theta where a leaf has none.
        leaf: i32[k, N].
        label: bool[N].
        is_test: bool[N].
        noise_unit: k / eta, in rows.
    """
    reached, place = np.unique(leaf[:, is_test], return_inverse=True)
    # The place of each training row's leaf among the reached ones; others are counted last.
    place_of_leaf = np.full(int(leaf.max()) + 1, len(reached), np.int32)
    place_of_leaf[reached] = np.arange(len(reached))
    segment = 2 * place_of_leaf.take(leaf[:, ~is_test]) + label[~is_test]
    counts = np.bincount(segment.reshape(-1), minlength=2 * len(reached) + 2)
    counts = counts[: 2 * len(reached)].reshape(-1, 2).astype(float)
    noise = rng.laplace(size=counts.shape) * noise_unit
    uniform = rng.random(len(reached))
    shares = []
    for rule in RULES:
        noisy = counts + rule.noise * noise
        is_negative = np.any(noisy < 0, axis=1)
        noisy = np.maximum(noisy, 0)
        total = noisy.sum(axis=1)
        is_void = (total == 0) | (is_negative if rule.negative == "uniform" else False)
        shares.append(np.where(is_void, uniform, noisy[:, 1] / np.where(total > 0, total, 1)))
    return np.stack(shares)[:, place.reshape(len(leaf), -1)]


def _lowest_lines(errors: np.ndarray, axes: dict) -> list[Line]:
    """A line for each rule and voting: the forest of the lowest mean error over runs.

    Args:
        errors: f64[runs, rules, votings, sizes, heights].
        axes: holds "heights" and "trees".
    """
    mean, lines = errors.mean(axis=0), []
    for r, rule in enumerate(RULES):
        for v, voting in enumerate(PRINTED_VOTINGS):
            k, h = np.unravel_index(np.argmin(mean[r, v]), mean[r, v].shape)
            of_runs = 100 * errors[:, r, v, k, h]
            lines.append(
                {**rule._asdict(), "voting": voting, "error": float(of_runs.mean())}
                | {"error_sd": float(of_runs.std(ddof=1)) if len(of_runs) > 1 else 0.0}
                | {"trees": axes["trees"][k], "height": axes["heights"][h]}
            )
    return lines


def distribution_lines(lines: Sequence[Line]) -> list[Line]:
    """For each data set, rule and voting, the repeats' mean and deviation beside the printed error.

    `percent_below` is the share of repeats below the printed error, ties counting half.
    `one_table_sd` is how far one table of the paper's would be from our mean, as a standard
    deviation. Trees and height are those of most repeats.

    Args:
        lines: from `repeat_lines`, of any data sets.
    """
    groups: dict[tuple, list[Line]] = {}
    for line in lines:
        place = tuple(line[name] for name in ("dataset", "noise", "negative", "voting"))
        groups.setdefault(place, []).append(line)
    distributions = []
    for (dataset, noise, negative, voting), repeats in groups.items():
        errors = np.array([line["error"] for line in repeats], float)
        is_private = noise > 0
        paper = PAPER_ERRORS[dataset][1 + 2 * is_private + PRINTED_VOTINGS.index(voting)]
        forests = [(line["trees"], line["height"]) for line in repeats]
        trees, height = max(dict.fromkeys(forests), key=forests.count)
        below = np.mean(errors < paper - 1e-9) + np.mean(np.abs(errors - paper) <= 1e-9) / 2
        distributions.append(
            {"dataset": dataset, "private": is_private, "noise": noise, "negative": negative}
            | {"voting": voting, "repeats": len(errors), "error": float(errors.mean())}
            | {"error_sd": float(errors.std(ddof=1))}
            | {"one_table_sd": float(errors.std(ddof=1) * (1 + 1 / len(errors)) ** 0.5)}
            | {"paper_error": paper, "percent_below": 100 * float(below)}
            | {"trees": trees, "height": height}
        )
    return distributions


def joint_lines(lines: Sequence[Line]) -> list[Line]:
    """Whether the four printed errors of a data set can be one repeat, for each rule of leaves.

    The distance of a table is the mean over its four errors (majority and threshold, without and
    with privacy) of the squared difference to the mean of the other repeats, in their deviations.
    `percent` is the share of repeats, with the printed table as one of them, that are at least as
    far as the printed one. The last lines are of all data sets together.

    Args:
        lines: from `repeat_lines`, of any data sets with the same number of repeats.
    """
    tables_of_set: dict[str, dict[tuple, list[float]]] = {}
    for line in lines:
        place = (line["noise"], line["negative"] or "", line["voting"])
        of_set = tables_of_set.setdefault(line["dataset"], {})
        of_set.setdefault(place, []).append(float(line["error"]))
    joint: list[Line] = []
    totals: dict[LeafRule, list[np.ndarray]] = {}
    for rule in RULES[1:]:
        for name, of_set in tables_of_set.items():
            places = [
                *((0, "", voting) for voting in PRINTED_VOTINGS),
                *((rule.noise, rule.negative, voting) for voting in PRINTED_VOTINGS),
            ]
            errors = np.stack([np.asarray(of_set[place], float) for place in places], axis=1)
            distances = _distances(errors, np.array(PAPER_ERRORS[name][1:]))
            joint.append(_joint_line(name, rule, distances))
            totals.setdefault(rule, []).append(distances)
    for rule, of_sets in totals.items():
        joint.append(_joint_line("all", rule, np.mean(of_sets, axis=0)))
    return joint


def _distances(errors: np.ndarray, paper: np.ndarray) -> np.ndarray:
    """f64[repeats + 1]: the distance of each repeat to the others, and that of the paper last."""
    everyone = np.concatenate([errors, paper[None]])
    distances = []
    for number, table in enumerate(everyone):
        others = errors[np.arange(len(errors)) != number]
        spread = np.maximum(others.std(axis=0, ddof=1), 1e-9)
        distances.append(np.mean(((table - others.mean(axis=0)) / spread) ** 2))
    return np.array(distances)


def _joint_line(name: str, rule: LeafRule, distances: np.ndarray) -> Line:
    """The line of a data set and a rule, of distances whose last one is the paper's."""
    return {
        "dataset": name,
        **rule._asdict(),
        "repeats": len(distances) - 1,
        "distance": float(distances[-1]),
        "mean_distance": float(distances[:-1].mean()),
        "percent": 100 * float(np.mean(distances >= distances[-1])),
    }
