"""What the paper leaves open about its private forests, one reading at a time, beside its Table 1."""

import numpy as np
from tqdm import tqdm

from dpbt.accounting import align
from dpbt.base import Table
from experiments.papers.bojarski_2014 import table as tables
from experiments.papers.bojarski_2014.grid import READINGS, Errors, Run, grid_scales, measure

CLAIMED = "k / eta"
NOISE = {CLAIMED: 1.0, "standard deviation k / eta": np.sqrt(0.5), "n_train is what trains": 0.9, "1 / eta": None}
"""The scale of a count's noise over k / eta; None: without the factor k, which is k times the claimed privacy loss."""
RULES = ("majority", "threshold")


def _scales(factor: float | None, eta: float, sizes: tuple[int, ...], rows: int) -> np.ndarray:
    scales = grid_scales(eta, sizes, rows)
    return (scales / np.asarray(sizes, np.float32) if factor is None else scales * np.float32(factor)).astype(
        np.float32
    )


def _with_validation(run: Run) -> Run:
    """The same run with validation rows that train as well."""
    train = run.train.copy()
    train[run.held[run.validation]] = True
    return run._replace(train=train)


def ablate(name: str, table: Table, runs: list[Run], trained: int, grid: dict, seed: int) -> list[dict]:
    """Private errors in percent under each noise and reading of leaves, by validation rows, on test rows, and at the
    paper's own number of trees and height; one line for each voting rule of Table 1.

    Args:
        name: of the data set, in `table.PAPER`.
        table: all rows.
        runs: from `grid.split`.
        trained: n_train of eta = 1000 / n_train.
        grid: its "heights" and "trees".
        seed: of the keys.
    """
    eta, rows = tables.BUDGET / trained, len(table.target)
    heights, sizes = grid["heights"], grid["trees"]
    variants = [(noise, factor, runs, False) for noise, factor in NOISE.items()]
    variants.append((f"{CLAIMED}, validation rows train too", 1.0, [_with_validation(run) for run in runs], False))
    variants.append((f"{CLAIMED}, a forest for each k and h", 1.0, runs, True))
    lines = []
    with tqdm(total=len(runs) * len(variants), unit="run", desc=name) as progress:
        for noise, factor, some, own in variants:
            scales = _scales(factor, eta, sizes, rows)
            found = measure(table, some, scales, heights, sizes, seed, progress, READINGS, own)
            for n, reading in enumerate(READINGS):
                for v, voting in enumerate(RULES):
                    paper = tables.PAPER[name][3 + v]
                    width = 100 * tables.interval(paper / 100, tables.PAPER_ROWS.get(name, rows))
                    setting = {"dataset": name, "noise": noise, "negative": reading, "voting": voting}
                    errors = _errors(found, n, v, heights, sizes, tables.PAPER_FORESTS[name][2 + v])
                    lines.append({**setting, **errors, "paper_error": paper, "paper_interval": width})
    return lines


def _errors(found: Errors, n: int, v: int, heights, sizes, forest: tuple[int, int]) -> dict:
    test, validation = (100 * errors[:, n, v].mean(axis=0) for errors in (found.test, found.validation))
    k, h = np.unravel_index(np.argmin(validation), validation.shape)
    same = forest[0] in sizes and forest[1] in heights
    runs = 100 * found.test[:, n, v, k, h]
    return {
        "trees": sizes[k],
        "height": heights[h],
        "error": float(test[k, h]),
        "standard_error": float(runs.std(ddof=1) / np.sqrt(len(runs))) if len(runs) > 1 else "",
        "lowest_test_error": float(test.min()),
        "papers_forest": float(test[sizes.index(forest[0]), heights.index(forest[1])]) if same else "",
    }


def as_text(lines: list[dict]) -> str:
    """One line for each, in percent; a star behind an error inside the paper's interval."""
    head = ("dataset", "noise", "negative", "voting", "k", "h", "error", "lowest in test", "at paper's k, h", "paper")

    def shown(line, key):
        if line[key] == "":
            return ""
        inside = abs(line[key] - line["paper_error"]) <= line["paper_interval"]
        return f"{line[key]:.2f}{'*' if inside else ' '}"

    cells = [
        (
            *(str(line[key]) for key in ("dataset", "noise", "negative", "voting", "trees", "height")),
            *(shown(line, key) for key in ("error", "lowest_test_error", "papers_forest")),
            f"{line['paper_error']:.2f} +- {line['paper_interval']:.2f}",
        )
        for line in lines
    ]
    return align([head, *cells])
