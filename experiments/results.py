"""Results on disk: written whole or not at all, with what is needed to repeat them."""

import csv
import os
import platform
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import jax


def provenance() -> dict[str, str]:
    """Commit, versions and device of this run."""
    here = Path(__file__).parent
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=False)
    device = jax.devices()[0]
    return {
        "commit": commit.stdout.strip() or "unknown",
        "jax": jax.__version__,
        "device": f"{device.platform} {device.device_kind}, {os.cpu_count()} cores, {platform.machine()}",
    }


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` on a temporary name beside `path`, then rename it; no half-written file is ever seen."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    try:
        write(Path(name))
        os.chmod(name, 0o644)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


def write_csv(path: Path, lines: Sequence[dict], constants: dict) -> None:
    """Lines of equal keys as CSV, with constant columns for the configuration and the provenance."""
    extended = [{**row, **constants, **provenance()} for row in lines]

    def write(name: Path) -> None:
        with open(name, "w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(extended[0]))
            writer.writeheader()
            writer.writerows(extended)

    write_whole(path, write)
