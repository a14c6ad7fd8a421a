"""The grid of Nock & Henecka (2020), section 17: 19 domains, ten-fold cross-validation, and Table 1 from it.

For every domain: T in {2, 5, 10, 20}, D in {1..6}, alpha in {0.1, 1, objective calibration}, and either no privacy or
epsilon in {0.01, 0.1, 1, 10, 25} by beta_tree in {0.1, 0.5, 0.9} by M; numeric columns cut into v_q intervals.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

from dpbt import recipes, runs, storage, sweeps
from dpbt.accounting import align
from dpbt.base import Recipe
from experiments.common import data, protocols, results

ALPHAS = ("objective", 0.1, 1.0)
EPSILONS = (0.01, 0.1, 1.0, 10.0, 25.0)
GRID = {"rounds": (2, 5, 10, 20), "depth": (1, 2, 3, 4, 5, 6), "alpha": ALPHAS}
PRIVATE = {"epsilon": EPSILONS, "beta_tree": (0.1, 0.5, 0.9)}
SMOKE = {"rounds": (1, 2), "depth": (1, 2), "alpha": ALPHAS}
FOLDS, SEED = 10, 0
PAPER_TABLE_1 = {0.01: (14, 3, 5), 0.1: (13, 2, 6), 1.0: (9, 3, 9), 10.0: (5, 4, 11), 25.0: (8, 6, 6)}
"""Counts of domains by (O.C., 0.1, 1) that the paper prints."""

SPARE_CELLS = 2_000_000
"""For `sweeps.common_shapes`: with 11,520 fits a table and calibration, a program costs as much as so many cells."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--calibration", choices=("published", "tight", "both"), default="both")
    parser.add_argument(
        "--datasets", nargs="+", choices=data.NOCK_HENECKA, default=list(data.NOCK_HENECKA), metavar="NAME"
    )
    parser.add_argument("--bins", type=int, default=10, help="v_q, intervals of a numeric column (%(default)s)")
    parser.add_argument("--clip", type=float, nargs="+", default=[10.0], help="M (%(default)s)")
    parser.add_argument("--data", help="folder of data sets; see `python -m experiments data`")
    parser.add_argument(
        "--out", default="results/nock_henecka", help="folder of results; a run resumes there (%(default)s)"
    )
    parser.add_argument(
        "--memory-mb", type=float, default=runs.MEMORY_MB, help="working memory of a program (%(default)s)"
    )
    parser.add_argument("--smoke", action="store_true", help="the smallest grid, to see that it runs")
    parser.add_argument("--json", action="store_true", help="print Table 1's counts as JSON")


def make(rows, rounds, depth, alpha, epsilon, beta_tree, clip, calibration) -> Recipe:
    """The recipe of one setting; numbers may be arrays."""
    return recipes.bdpe(
        rows=rows,
        rounds=rounds,
        depth=depth,
        alpha=alpha,
        epsilon=epsilon,
        beta_tree=beta_tree,
        clip=clip,
        calibration=calibration,
    )


def grid(calibrations: tuple[str, ...], bins: int, clip: tuple[float, ...], smoke: bool = False) -> sweeps.Sweep:
    """The paper's grid for one v_q; without privacy there is one calibration, and beta_tree and M mean nothing."""
    shared = SMOKE if smoke else GRID
    private = {**shared, **PRIVATE, "clip": clip, "calibration": calibrations}
    without = {**shared, "epsilon": (float("inf"),), "beta_tree": (0.5,), "clip": clip[:1], "calibration": ("tight",)}
    return sweeps.Sweep(f"nock_henecka_{bins}", make, (private, without), seed=SEED)


def tasks(names: list[str], bins: int, folder: str | None = None) -> list[sweeps.Task]:
    """One task a domain; the number of rows is the public bound."""
    found = []
    for name in names:
        dataset = data.load(name, bins, folder)
        split = protocols.cross_validation(dataset.label, FOLDS, [SEED])
        found.append(sweeps.Task(name, dataset.table, split.train, split.test, {"rows": len(dataset.label)}))
    return found


def best_errors(folder: Path, calibration: str, epsilon: float) -> dict[str, dict[str, float]]:
    """Domain -> alpha -> the smallest mean test error over folds, over all other parameters.

    Raises:
        ValueError: if the folder holds no results of that kind.
    """
    found = {}
    for path in sorted(folder.glob("*.npz")):
        columns, _ = storage.load_columns(path)
        chosen = (columns["calibration"] == calibration) & (columns["epsilon"] == epsilon)
        setting, place = np.unique(columns["setting"][chosen], return_inverse=True)
        if not len(setting):
            raise ValueError(f"{path}: no results for {calibration}, epsilon = {epsilon:g}")
        mean = np.bincount(place, columns["test_error"][chosen].astype(np.float64)) / np.bincount(place)
        alpha = np.empty(len(setting), columns["alpha"].dtype)
        alpha[place] = columns["alpha"][chosen]
        found[path.stem] = {str(a): float(mean[alpha == str(a)].min()) for a in ALPHAS}
    if not found:
        raise ValueError(f"no results in {folder}; run: python -m experiments nock_henecka")
    return found


def table_1(folder: Path, calibration: str) -> list[dict]:
    """For each epsilon, on how many domains each alpha attains the best of the best errors; ties count for all."""
    lines = []
    for epsilon in EPSILONS:
        errors = best_errors(folder, calibration, epsilon)
        counts = {str(a): sum(e[str(a)] <= min(e.values()) + 1e-9 for e in errors.values()) for a in ALPHAS}
        means = {str(a): float(np.mean([e[str(a)] for e in errors.values()])) for a in ALPHAS}
        paper = dict(zip(map(str, ALPHAS), PAPER_TABLE_1[epsilon], strict=True))
        line = {"calibration": calibration, "epsilon": epsilon, "domains": len(errors)}
        lines.append({**line, "counts": counts, "best_error_mean": means, "paper": paper})
    return lines


def run(options: argparse.Namespace) -> None:
    """Run what is missing of the grid, print Table 1's counts, and write them."""
    calibrations = ("published", "tight") if options.calibration == "both" else (options.calibration,)
    out, start = Path(options.out), time.perf_counter()
    sweep = grid(calibrations, options.bins, tuple(options.clip), options.smoke)
    work = tasks(options.datasets, options.bins, options.data)
    total = len(sweep.settings) * FOLDS * len(work)
    with tqdm(total=total, unit="fit", smoothing=0.1, file=sys.stderr, disable=options.json) as bar:
        report = runs.run(
            sweep, work, out, memory_mb=options.memory_mb, spare=SPARE_CELLS, progress=lambda fits: bar.update(fits)
        )
    seconds = time.perf_counter() - start
    lines = [line for calibration in calibrations for line in table_1(out, calibration)]
    flat = [
        {**{k: v for k, v in line.items() if not isinstance(v, dict)}}
        | {
            f"{kind} {alpha}": line[kind][alpha]
            for kind in ("counts", "best_error_mean", "paper")
            for alpha in map(str, ALPHAS)
        }
        for line in lines
    ]
    config = {"v_q": options.bins, "clip": " ".join(map(str, options.clip)), "folds": FOLDS, "seed": SEED}
    results.write_csv(out / "table_1.csv", flat, config)
    if options.json:
        print(json.dumps({"seconds": seconds, **report._asdict(), "table_1": lines}, indent=1))
        return
    print(
        f"{report.fits} fits in {seconds:.0f} s ({report.found} were there): {report.run_seconds:.0f} s fitting, "
        f"{report.compile_seconds:.0f} s compiling {report.programs} programs of up to {report.memory_mb:.0f} MB\n"
    )
    head = ("calibration", "epsilon", "best on: O.C., 0.1, 1", "the paper's", "mean best error: O.C., 0.1, 1")
    cells = [
        (
            line["calibration"],
            f"{line['epsilon']:g}",
            ", ".join(str(count) for count in line["counts"].values()),
            ", ".join(str(count) for count in line["paper"].values()),
            ", ".join(f"{error:.3f}" for error in line["best_error_mean"].values()),
        )
        for line in lines
    ]
    print(align([head, *cells]))
    print(f"\n{lines[0]['domains']} domains; ties count for each. Wrote {out}")
