"""A sweep of one's own, and its figure: test error by epsilon for three criteria.

Run it with `python docs/examples/sweep.py FOLDER`. It writes the results and `sweep.png` there.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import dpbt
from dpbt import sweeps
from dpbt.data.domains import Numeric
from dpbt.sweeps import load_columns

CRITERIA = {"m_alpha": "o-", "gini": "s--", "information_gain": "^:"}  # name -> marker and line


def make(rows, criterion, epsilon):
    """The recipe of one setting."""
    return dpbt.recipes.bdpe(
        rows=rows, epsilon=epsilon, criterion=criterion, alpha=1.0, rounds=5, depth=2
    )


def task(count: int = 1000, folds: int = 5) -> sweeps.Task:
    """A made-up table of `count` rows, tested by cross-validation."""
    rng = np.random.default_rng(0)
    columns = {name: rng.uniform(0, 1, count) for name in ("x", "y", "z")}
    label = columns["x"] + columns["y"] + rng.normal(0, 0.1, count) > 1
    table = dpbt.table({name: Numeric(0, 1, bins=10) for name in columns}, columns, label)

    # One mask of N rows for each fold: who is tested, and who trains.
    test = rng.permutation(count) % folds == np.arange(folds)[:, None]
    return sweeps.Task("made_up", table, ~test, test, {"rows": count})


def draw(columns: dict[str, np.ndarray], path: Path) -> None:
    """Mean test error over folds and keys, a line for each criterion."""
    figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
    for criterion, style in CRITERIA.items():
        chosen = columns["criterion"] == criterion
        epsilons = np.unique(columns["epsilon"][chosen])
        errors = [
            columns["test_error"][chosen & (columns["epsilon"] == epsilon)].mean()
            for epsilon in epsilons
        ]
        axes.plot(epsilons, errors, style, label=criterion)
    axes.set(xscale="log", xlabel="epsilon", ylabel="test error", ylim=(0, None))
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "results/sweep")
    block = {"criterion": tuple(CRITERIA), "epsilon": (0.1, 0.3, 1.0, 3.0, 10.0)}
    sweep = sweeps.Sweep("example", make, (block,), repeats=10)

    # 750 fits in three programs. A run that is killed goes on where it stopped.
    print(sweeps.run(sweep, [task()], folder))
    columns, _ = load_columns(folder / "made_up.jsonl")
    draw(columns, folder / "sweep.png")
    print(f"wrote {folder / 'sweep.png'}")
