"""Random decision forests of Bojarski et al. (2014): Table 1 and the series of Figures 1 to 16.

Ten runs, each with another tenth of the rows as test set and a tenth of the rest as validation set, which chooses
height and number of trees. A random tree of height h is the top of a taller one and a forest of k trees is part of a
larger one, so one set of 21 trees of height 15 serves the whole grid of a run; every number of trees has its own noise
on its leaves. The paper's rpart is replaced by scikit-learn's CART with rpart's defaults.

Private leaves are read in two ways, at the same cost: "zero" takes negative counts as 0, "uniform" is Algorithm 2 as
printed, theta uniform at random where a count is negative. The paper's private numbers are those of "zero".
"""

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from dpbt.base import Table
from dpbt.domains import Nominal, Numeric, positions
from experiments import data, results
from experiments.random_forests import ablation
from experiments.random_forests import table as tables
from experiments.random_forests.grid import Run, grid_scales, measure, split

DATASETS = ("banknote", "transfusion", "voting", "mammographic", "mushroom", "adult", "covertype")
SETTINGS = {"heights": tuple(range(1, 16)), "trees": tuple(range(1, 22, 2)), "runs": 10, "seed": 0}
SMOKE = {"heights": (1, 3), "trees": (1, 3), "runs": 2, "seed": 0}
ETA_SERIES = {
    "heights": (8, 12),
    "trees": tuple(range(1, 102)),
    "factors": (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, np.inf),
}
ETA_SMOKE = {"heights": (2, 3), "trees": (1, 3), "factors": (1.0, np.inf)}
VALUES = ("adult",)  # a Boolean for each nominal value; elsewhere a code, as the paper's numbers of attributes have it
FIELDS = ("dataset", "private", "voting", "trees", "height", "error", "interval", "paper_error")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--dataset", choices=(*DATASETS, "quantum"), help="one data set (all but quantum by default)")
    parser.add_argument("--runs", type=int, default=SETTINGS["runs"], help="runs, one fold each (%(default)s)")
    parser.add_argument("--seed", type=int, default=SETTINGS["seed"], help="of folds and keys (%(default)s)")
    words = "nominal columns as codes, or as one Boolean for each value (as the paper's numbers of attributes have it)"
    parser.add_argument("--nominal", choices=("codes", "values"), help=words)
    words = "numbers as indicators of their quintiles in the rows, which are private (as in LIBSVM's Adult)"
    parser.add_argument("--quintiles", action="store_true", help=words)
    parser.add_argument("--eta", action="store_true", help="also the series of error by eta (Figures 2, 4, ...)")
    words = "instead, the private errors under other readings of the paper's noise, leaves and training rows"
    parser.add_argument("--ablate", action="store_true", help=words)
    parser.add_argument("--out", default="results/random_forests", help="folder of the results (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print Table 1's lines as a JSON list")
    parser.add_argument("--smoke", action="store_true", help="the smallest setting, to see that it runs")


def attributes(dataset: data.Dataset, codes: bool) -> np.ndarray:
    """f32[N, A]: positions in the public ranges, a missing number at the low end, without attributes that say so."""
    domain = {
        column: dataclasses.replace(kind, missing=False) if isinstance(kind, Numeric) else kind
        for column, kind in dataset.domain.items()
    }
    return positions(domain, dataset.columns, codes=codes)


def quintile_attributes(dataset: data.Dataset) -> np.ndarray:
    """f32[N, A]: a Boolean for each listed value but "?", and for each fifth of the rows of a numeric column.

    Equal quintiles are one. Fitted to private rows, so only for comparison with what the paper did.
    """
    blocks = []
    for column, kind in dataset.domain.items():
        if isinstance(kind, Numeric):
            value = np.asarray(dataset.columns[column], np.float64)
            place = np.searchsorted(np.unique(np.nanquantile(value, (0.2, 0.4, 0.6, 0.8))), value)
            blocks.append((place[:, None] == np.unique(place)).astype(np.float32))
        else:
            if isinstance(kind, Nominal):
                kind = Nominal(tuple(value for value in kind.values if value != "?"))
            blocks.append(positions({column: kind}, dataset.columns))
    return np.concatenate(blocks, axis=1)


class Task(NamedTuple):
    """A data set as the paper used it: its table, its runs, and n_train, nine tenths of its rows."""

    name: str
    table: Table
    runs: list[Run]
    trained: int


def prepare(name: str, options: argparse.Namespace) -> Task:
    """Load a data set and split it into runs; data with canonical test rows keep them out."""
    dataset = data.load(name)
    here = np.ones(len(dataset.label), bool) if dataset.test is None else ~dataset.test
    codes = options.nominal == "codes" or (options.nominal is None and name not in VALUES)
    if options.quintiles:
        columns = {column: np.asarray(values)[here] for column, values in dataset.columns.items()}
        position = quintile_attributes(dataclasses.replace(dataset, columns=columns))
    else:
        position = attributes(dataset, codes)[here]
    label = np.asarray(dataset.label)[here]
    table = Table(jnp.asarray(position), jnp.asarray(label), jnp.ones(len(label), bool))
    runs = min(options.runs, (SMOKE if options.smoke else SETTINGS)["runs"])
    return Task(name, table, split(label, runs, options.seed), round(0.9 * len(label)))


def configuration(task: Task, options: argparse.Namespace) -> dict:
    """What every file of results says of the data and the runs."""
    rows, attributes = task.table.splits.shape
    return {
        "dataset": task.name,
        "rows": rows,
        "attributes": attributes,
        "runs": len(task.runs),
        "seed": options.seed,
        "nominal": options.nominal or ("values" if task.name in VALUES else "codes"),
        "quintiles": options.quintiles,
    }


def one(name: str, options: argparse.Namespace) -> list[dict]:
    """Measure one data set, write its series, return its lines of Table 1 (CART last)."""
    task, settings = prepare(name, options), SMOKE if options.smoke else SETTINGS
    rows, attributes = task.table.splits.shape
    extra = ETA_SMOKE if options.smoke else ETA_SERIES
    grids = [(eta, settings) for eta in (np.inf, tables.BUDGET / task.trained)]
    if options.eta:
        grids += [(factor * tables.BUDGET / task.trained, extra) for factor in extra["factors"]]
    parts, start, seconds = {"": [], "_eta": []}, time.perf_counter(), 0.0
    with tqdm(total=len(task.runs) * len(grids), unit="run", desc=name, disable=options.json) as progress:
        for eta, grid in grids:
            heights, sizes = grid["heights"], grid["trees"]
            scales = grid_scales(eta, sizes, rows)
            found = measure(task.table, task.runs, scales, heights, sizes, options.seed, progress)
            part = "" if grid is settings else "_eta"
            parts[part] += tables.series(found, bool(eta < np.inf), eta, task.trained, heights, sizes)
            seconds = seconds if part else time.perf_counter() - start
    cart = tables.cart_error(np.asarray(task.table.splits), np.asarray(task.table.label), task.runs)
    best = [
        *tables.table_lines(name, parts[""], rows),
        tables.table_line(name, False, "cart", cart, tables.PAPER[name][0], rows),
    ]
    config = {**configuration(task, options), **tables.ANALYSIS, "sure": tables.SURE, "seconds": round(seconds, 2)}
    for suffix, kind in (*parts.items(), ("_table", best)):
        if kind:
            results.write_csv(Path(options.out) / f"{name}{suffix}.csv", kind, config)
    if not options.json:
        about = f"{rows} rows, {attributes} attributes, eta = {tables.BUDGET / task.trained:.4g}, {seconds:.1f} s"
        print(f"{name}: {about}", file=sys.stderr)
    return best


def ablate(name: str, options: argparse.Namespace) -> list[dict]:
    """Ablate one data set and write what was found."""
    task, grid = prepare(name, options), SMOKE if options.smoke else SETTINGS
    lines = ablation.ablate(name, task.table, task.runs, task.trained, grid, options.seed)
    suffix = "_quintiles" if options.quintiles else ""
    results.write_csv(Path(options.out) / f"{name}{suffix}_ablation.csv", lines, configuration(task, options))
    return lines


def run(options: argparse.Namespace) -> None:
    """Measure, save, print."""
    if not 1 <= options.runs <= 10:
        raise ValueError(f"--runs must be in 1..10, got {options.runs}")
    names = [options.dataset] if options.dataset else DATASETS
    if options.ablate:
        print(ablation.as_text([line for name in names for line in ablate(name, options)]))
        print("private errors in percent; * inside the paper's interval; negative: what negative noisy counts mean")
        return
    lines = [line for name in names for line in one(name, options)]
    if options.json:
        forests_only = [line for line in lines if line["voting"] in tables.VOTINGS]
        print(json.dumps([{field: line[field] for field in FIELDS} for line in forests_only], indent=1))
        return
    print(tables.as_text(lines))
    print("errors in percent, +- half the 95 % binomial interval; as printed: theta uniform where a count is negative")
    if not options.dataset:
        print("quantum is not among them: its data could not be obtained; --dataset quantum reads a copy of your own")
    print(f"wrote {options.out}")
