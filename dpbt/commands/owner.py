"""What the owner of private rows may see of them, and nobody else."""

import argparse
from collections.abc import Mapping

from dpbt.commands.options import aligned

OWNER = "private, not covered by the ledger"


def add_owner_report(parser: argparse.ArgumentParser) -> None:
    """Add --owner-report."""
    words = "print how many cells are missing, on standard error for the owner alone; not saved"
    parser.add_argument("--owner-report", action="store_true", help=words)


def owner_report(
    missing: Mapping[str, int], unknown_labels: int, none: str = "neither class"
) -> str:
    """Exact counts of private cells, under a heading: only the owner of the rows may see them.

    Args:
        missing: column -> how many cells were read as missing.
        unknown_labels: how many rows have a label that is not as declared.
        none: what such a label is.
    """
    lines = [(f"{name}:", f"{count} cells read as missing") for name, count in missing.items()]
    last = ("label:", f"{unknown_labels} rows of {none}")
    return f"{OWNER}\n" + aligned([*lines, last])
