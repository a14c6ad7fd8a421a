"""Files: written whole or not at all, with what is needed to repeat them; tables of columns."""

import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import jax
import numpy as np

PROVENANCE = "provenance"
"""The name under which a file of columns holds its configuration and origin, as JSON."""


def provenance() -> dict[str, str]:
    """Commit, versions and device of this run."""
    here = Path(__file__).parent
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=False
    )
    device = jax.devices()[0]
    machine = f"{os.cpu_count()} cores, {platform.machine()}"
    return {
        "commit": commit.stdout.strip() or "unknown",
        "jax": jax.__version__,
        "device": f"{device.platform} {device.device_kind}, {machine}",
    }


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` on a temporary name beside `path`, then rename it: no file is half-written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    try:
        write(Path(name))
        os.chmod(name, 0o644)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


def save_columns(path: Path, columns: Mapping[str, np.ndarray], about: Mapping) -> None:
    """Columns of one length as an uncompressed `.npz`, the same bytes for the same content.

    Args:
        path: ends in `.npz`.
        columns: name -> array [rows]; no object arrays.
        about: JSON content that belongs to the file: configuration, provenance.

    Raises:
        ValueError: if lengths differ, or a column is called `PROVENANCE`.
    """
    if PROVENANCE in columns or len({len(column) for column in columns.values()}) > 1:
        lengths = {name: len(column) for name, column in columns.items()}
        raise ValueError(
            f"columns must be of one length and not be called {PROVENANCE!r}, got {lengths}"
        )
    text = np.asarray(json.dumps(about, sort_keys=True, default=str))

    def write(name: Path) -> None:
        with open(name, "wb") as file:
            np.savez(file, allow_pickle=False, **columns, **{PROVENANCE: text})

    write_whole(path, write)


def load_columns(path: Path) -> tuple[dict[str, np.ndarray], dict]:
    """(columns, about) of a file that `save_columns` wrote.

    Raises:
        ValueError: naming the file, if it is not one.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            columns = {name: file[name] for name in file.files}
        return columns, json.loads(str(columns.pop(PROVENANCE)))
    except (ValueError, KeyError, EOFError) as error:
        raise ValueError(f"{path}: not a file of columns: {error}") from error
