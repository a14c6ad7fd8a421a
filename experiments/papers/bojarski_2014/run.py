"""Random decision forests of Bojarski et al. (2014): Table 1 and the series of Figures 1 to 14.

Ten runs, each with another tenth of the rows as test set and a tenth of the rest as validation set, which chooses
height and number of trees. A random tree of height h is the top of a taller one and a forest of k trees is part of a
larger one, so one set of 21 trees of height 15 serves the whole grid of a run; every number of trees has its own noise
on its leaves. The paper's rpart is replaced by scikit-learn's CART with rpart's defaults.

Private leaves are read in two ways, at the same cost: "zero" takes negative counts as 0, "uniform" is Algorithm 2 as
printed, theta uniform at random where a count is negative. The paper's private numbers are those of "zero".
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

from experiments.common import results
from experiments.papers.bojarski_2014 import ablation, peers
from experiments.papers.bojarski_2014 import table as tables
from experiments.papers.bojarski_2014.grid import grid_scales, measure
from experiments.papers.bojarski_2014.rows import VALUES, Task, prepare

DATASETS = ("banknote", "transfusion", "voting", "mammographic", "mushroom", "adult", "covertype")
SETTINGS = {"heights": tuple(range(1, 16)), "trees": tuple(range(1, 22, 2)), "runs": 10, "seed": 0}
SMOKE = {"heights": (1, 3), "trees": (1, 3), "runs": 2, "seed": 0}
ETA_SERIES = {
    "heights": (8, 12),
    "trees": tuple(range(1, 102)),
    "factors": (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, np.inf),
}
THIN = (*range(1, 22), *range(31, 102, 10))
"""Numbers of trees by eta for data sets of more than LARGE rows: a seventh of the work of all that the paper tried."""
LARGE = 5000
ETA_SMOKE = {"heights": (2, 3), "trees": (1, 3), "factors": (1.0, np.inf)}
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
    words = "a random sample of so many rows, at the same eta n_train and so the same noise relative to the data"
    parser.add_argument("--rows", type=int, help=words)
    parser.add_argument("--eta", action="store_true", help="also the series of error by eta (Figures 2, 4, ...)")
    words = "instead, the private errors under other readings of the paper's noise, leaves and training rows"
    parser.add_argument("--ablate", action="store_true", help=words)
    words = "instead, seconds of one fit beside diffprivlib's random forest (needs the extra peers)"
    parser.add_argument("--peers", action="store_true", help=words)
    parser.add_argument("--out", default="results/random_forests", help="folder of the results (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print Table 1's lines as a JSON list")
    parser.add_argument("--smoke", action="store_true", help="the smallest setting, to see that it runs")


def task_of(name: str, options: argparse.Namespace) -> Task:
    """The data set that the options ask for."""
    runs = min(options.runs, (SMOKE if options.smoke else SETTINGS)["runs"])
    return prepare(name, runs, options.seed, options.nominal, options.quintiles, options.rows)


def configuration(task: Task, options: argparse.Namespace) -> dict:
    """What every file of results says of the data and the runs."""
    rows, attributes = task.table.cells.shape
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
    task, settings = task_of(name, options), SMOKE if options.smoke else SETTINGS
    rows, attributes = task.table.cells.shape
    extra = ETA_SMOKE if options.smoke else {**ETA_SERIES, "trees": THIN} if rows > LARGE else ETA_SERIES
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
    numbers, target = np.asarray(task.table.cells), np.asarray(task.table.target)
    cart = tables.cart_error(numbers, target, task.runs)
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
    task, grid = task_of(name, options), SMOKE if options.smoke else SETTINGS
    lines = ablation.ablate(name, task.table, task.runs, task.trained, grid, options.seed)
    suffix = "_quintiles" if options.quintiles else ""
    results.write_csv(Path(options.out) / f"{name}{suffix}_ablation.csv", lines, configuration(task, options))
    return lines


def time_peers(options: argparse.Namespace) -> None:
    """Time one fit beside the peer's on each of its settings, write and print.

    Raises:
        ValueError: without the peer.
    """
    settings = [setting for setting in peers.SETTINGS if options.dataset in (None, setting[0])]
    repeats = 1 if options.smoke else 5
    try:
        lines = [
            line
            for name, trees, height in settings
            for line in peers.compare(task_of(name, options), trees, height, repeats)
        ]
    except ImportError as error:
        raise ValueError(f"no comparison with diffprivlib, install the extra `peers`: {error}") from error
    results.write_csv(Path(options.out) / "peers.csv", lines, {"repeats": repeats})
    print(peers.as_text(lines))
    print(f"median of {repeats} fits, after one that compiles")


def run(options: argparse.Namespace) -> None:
    """Measure, save, print."""
    if not 1 <= options.runs <= 10:
        raise ValueError(f"--runs must be in 1..10, got {options.runs}")
    if options.peers:
        time_peers(options)
        return
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
