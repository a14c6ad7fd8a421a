"""Print Table 1 from the saved fits: the number of domains on which each alpha is best."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpbt import sweeps
from dpbt.owners.cli.parsing import InputError, as_input_error
from experiments.common import aggregated, commands, results, tables
from experiments.papers.nock_henecka_2020.settings import (
    ALPHA_NAMES,
    CALIBRATIONS,
    EPSILONS,
    NAME,
)

BY_ALPHA = ("counts", "best_error_mean", "paper")
"""The entries of a line that have a number for each alpha."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = f"{' or '.join(CALIBRATIONS)} (those that have been run)"
    names = {"nargs": "+", "choices": CALIBRATIONS, "metavar": "NAME"}
    parser.add_argument("--calibration", **names, help=words)
    commands.add_shared(
        parser, saved=results.results_folder(NAME), json="print the counts as a JSON list"
    )


def run_command(options: argparse.Namespace) -> None:
    """Print the counts over all domains that have been fitted."""
    folder = Path(options.results)
    if (folder / "table_1.csv").exists() and not any(folder.glob("*.jsonl")):
        lines = _aggregated_lines(folder, options.calibration)
    else:
        lines = table_1_lines(folder, options.calibration or fitted_calibrations(folder))
    print(json.dumps(lines, indent=1) if options.json else format_lines(lines))


def read_fits(folder: Path) -> dict[str, dict[str, np.ndarray]]:
    """Domain -> the columns of its fits.

    Raises:
        InputError: if the folder holds no fits, or a file that is not one of fits.
    """
    paths = sorted(folder.glob("*.jsonl"))
    if not paths:
        raise InputError(f"no results in {folder}; run: python -m experiments {NAME} run")
    with as_input_error(folder):
        return {path.stem: sweeps.load_columns(path)[0] for path in paths}


def fitted_calibrations(folder: Path) -> list[str]:
    """The calibrations that the folder has private fits of."""
    names: set[str] = set()
    for columns in read_fits(folder).values():
        names |= set(columns["calibration"][np.isfinite(columns["epsilon"])].tolist())
    return [name for name in CALIBRATIONS if name in names]


def best_errors(folder: Path, *, calibration: str, epsilon: float) -> dict[str, dict[str, float]]:
    """Domain -> alpha -> the smallest mean test error over all other parameters.

    The mean is over folds.

    Raises:
        InputError: if the folder holds no results of that kind.
    """
    by_domain = {}
    for name, columns in read_fits(folder).items():
        is_read = (columns["calibration"] == calibration) & (columns["epsilon"] == epsilon)
        settings, place = np.unique(columns["setting"][is_read], return_inverse=True)
        if not len(settings):
            setting = f"{calibration}, epsilon = {epsilon:g}"
            raise InputError(f"{folder}: no results of {name} for {setting}")

        errors = columns["test_error"][is_read].astype(np.float64)
        mean = np.bincount(place, errors) / np.bincount(place)
        alpha = np.empty(len(settings), columns["alpha"].dtype)
        alpha[place] = columns["alpha"][is_read]
        by_domain[name] = {a: float(mean[alpha == a].min()) for a in ALPHA_NAMES}
    return by_domain


def table_1_lines(folder: Path, calibrations: Sequence[str]) -> list[results.Line]:
    """A line for each calibration and epsilon."""
    return [
        _table_1_line(folder, calibration=calibration, epsilon=epsilon)
        for calibration in calibrations
        for epsilon in EPSILONS
    ]


def _table_1_line(folder: Path, *, calibration: str, epsilon: float) -> results.Line:
    """The number of domains on which each alpha has the smallest error; ties count for each."""
    errors = best_errors(folder, calibration=calibration, epsilon=epsilon)
    max_tied = {name: min(by_alpha.values()) + 1e-9 for name, by_alpha in errors.items()}
    return {
        "calibration": calibration,
        "epsilon": epsilon,
        "domains": len(errors),
        "counts": {
            a: sum(errors[name][a] <= max_tied[name] for name in errors) for a in ALPHA_NAMES
        },
        "best_error_mean": {
            a: float(np.mean([e[a] for e in errors.values()])) for a in ALPHA_NAMES
        },
        "paper": _printed_counts(epsilon),
    }


def _printed_counts(epsilon: float) -> dict[str, int]:
    """The paper's counts, by alpha."""
    return {
        str(setting["alpha"]): int(number)
        for setting, number in aggregated.printed_numbers(NAME, "table-1")
        if setting["epsilon"] == epsilon
    }


def _aggregated_lines(folder: Path, names: Sequence[str] | None) -> list[results.Line]:
    """The same lines, from the aggregated results.

    Raises:
        InputError: if there is none of these calibrations.
    """
    rows = results.read_csv(folder / "table_1.csv", f"{NAME} aggregate")
    lines: dict[tuple, results.Line] = {}
    for row in rows:
        calibration, epsilon = row["calibration"], float(row["epsilon"])
        if names is not None and calibration not in names:
            continue
        head = {"calibration": calibration, "epsilon": epsilon, "domains": row["domains"]}
        new_line = {**head, "counts": {}, "best_error_mean": {}, "paper": _printed_counts(epsilon)}
        line = lines.setdefault((calibration, epsilon), new_line)
        line["counts"][str(row["alpha"])] = row["count"]
        line["best_error_mean"][str(row["alpha"])] = row["best_error_mean"]
    if not lines:
        raise InputError(f"{folder}: no results of {names}")
    return list(lines.values())


def flatten_line(line: results.Line) -> results.Line:
    """The same line with one number in each column."""
    single = {name: value for name, value in line.items() if name not in BY_ALPHA}
    by_alpha = {f"{kind} {a}": line[kind][a] for kind in BY_ALPHA for a in line[kind]}
    return {**single, **by_alpha}


def format_lines(lines: list[results.Line]) -> str:
    """The counts as text, beside the paper's."""
    texts = [{name: _format_value(value) for name, value in line.items()} for line in lines]
    table = tables.format_table(texts, COLUMNS)
    return f"{table}\n\n{lines[0]['domains']} domains; ties count for each."


def _format_value(value: Any) -> str:
    """A number, or those of the alphas."""
    if isinstance(value, dict):
        return ", ".join(
            f"{number:.3f}" if isinstance(number, float) else str(number)
            for number in value.values()
        )
    return f"{value:g}" if isinstance(value, float) else str(value)


COLUMNS = {
    "calibration": "{calibration}",
    "epsilon": "{epsilon}",
    "domains where best: O.C., 0.1, 1": "{counts}",
    "the paper's": "{paper}",
    "mean best error: O.C., 0.1, 1": "{best_error_mean}",
}
