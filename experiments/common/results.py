"""Results as text, with what is needed to repeat them."""

import csv
from collections.abc import Sequence
from pathlib import Path

from dpbt.storage import provenance, write_whole


def write_csv(path: Path, lines: Sequence[dict], constants: dict) -> None:
    """Lines of equal keys as CSV, with constant columns for the configuration and the provenance."""
    origin = provenance()
    extended = [{**row, **constants, **origin} for row in lines]

    def write(name: Path) -> None:
        with open(name, "w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(extended[0]))
            writer.writeheader()
            writer.writerows(extended)

    write_whole(path, write)
