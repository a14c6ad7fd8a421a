"""Measure test errors along each axis, and the rounds that the theorem needs.

The axes are rows, margin, epsilon and label noise; one at a time is varied around the base. Rows
lie on the unit ball and satisfy y (u . x) >= tau for a target u, up to label noise on the training
rows. Labels of test rows are clean. A second direction agrees with four labels in five. So the
centre of the rows errs on every fifth row, and weighting has work to do.

HS-StL's constants are out of reach: tens of millions of rows and a hundred thousand rounds. Errors
are those of `recipes.halfspace_boost` with few rounds. HS-StL's own noise, density and rate are run
on few rows, for the first rounds, to see how many rounds it needs.
"""

import argparse

from experiments.common import commands, results
from experiments.papers.bun_2020 import errors, rounds, settings, tables


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    errors.add_options(parser, "print errors and rounds as JSON")


def run_command(options: argparse.Namespace) -> None:
    """Measure errors and rounds; write and print both."""
    axes = settings.SMOKE if options.smoke else settings.AXES
    error_lines = errors.measure_errors(axes, options)
    round_lines = rounds.measure_rounds(options)

    out = commands.out_folder(options)
    config = {name: values[0] for name, values in settings.BOOSTING.items()}
    config |= {
        "dimension": settings.DIMENSION,
        "test_rows": settings.TEST_ROWS,
        "seed": options.seed,
    }
    results.write_csv(out / "errors.csv", error_lines, config)
    target = {"alpha": settings.ALPHA, "beta": settings.BETA, "delta": settings.DELTA}
    target |= {"samples": 2 if options.smoke else settings.ROUNDS_SAMPLES}
    results.write_csv(out / "rounds.csv", round_lines, target)

    tables.print_tables(out, as_json=options.json)
