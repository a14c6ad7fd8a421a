"""Aggregate saved errors and rounds into `reproduction/bun_2020`."""

import argparse

from dpbt.commands.errors import InputError
from experiments.common import aggregated
from experiments.papers.bun_2020.settings import NAME
from experiments.papers.bun_2020.table import ERRORS, ROUNDS


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    aggregated.arguments(parser, NAME)


def run(options: argparse.Namespace) -> None:
    """Write what was saved in short.

    Raises:
        InputError: if nothing was saved.
    """
    kept = {"errors": ERRORS, "rounds": ROUNDS}
    found = [aggregated.take(options, NAME, name, f"{NAME} run", kept[name]) for name in kept]
    if not any(found):
        raise InputError(
            f"{options.results} holds no results; run: python -m experiments {NAME} run"
        )
