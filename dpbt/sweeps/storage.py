"""Files that are written whole or not at all, and tables of columns with their provenance."""

import io
import json
import os
import platform
import subprocess
import tomllib
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np

import dpbt
from dpbt.storage import write_whole
from dpbt.validate import as_path

_DAMAGED = (zipfile.BadZipFile, zlib.error, NotImplementedError, OSError, OverflowError)
"""What reading damaged bytes raises."""

PROVENANCE = "provenance"
"""The name under which a file of columns holds its configuration and origin, as JSON."""


def provenance() -> dict[str, str]:
    """Version and commit of dpbt, version of JAX, and device of this run.

    The commit is "unknown" unless dpbt runs from a checkout of its own repository.
    """
    device = jax.devices()[0]
    machine = f"{os.cpu_count()} cores, {platform.machine()}"
    return {
        "dpbt": dpbt.__version__,
        "commit": _commit(Path(dpbt.__file__).resolve().parent.parent) or "unknown",
        "jax": jax.__version__,
        "device": f"{device.platform} {device.device_kind}, {machine}",
    }


def _commit(root: Path) -> str | None:
    """The commit of a checkout of dpbt's repository; None for any other folder, or without git.

    Args:
        root: the folder that holds the package.
    """
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text()).get("project", {})
        if project.get("name") != "dpbt":
            return None
        # Variables such as GIT_DIR would name another repository.
        environment = {key: text for key, text in os.environ.items() if not key.startswith("GIT_")}
        lines = subprocess.run(
            ["git", "rev-parse", "--show-toplevel", "HEAD"],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None
    top, commit = lines
    return commit if Path(top).resolve() == root else None


def save_columns(path: Path, columns: Mapping[str, np.ndarray], about: Mapping) -> None:
    """Save columns of one length as an uncompressed `.npz`: equal content gives equal bytes.

    Args:
        path: ends in `.npz`.
        columns: name -> array [rows]; no object arrays.
        about: JSON content that belongs to the file, such as configuration and provenance.

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


def load_columns(path: str | Path) -> tuple[dict[str, np.ndarray], dict]:
    """(columns, about) of a file that `save_columns` wrote.

    Raises:
        ValueError: naming the file, if `save_columns` did not write it. Also for something that is
            no path.
        OSError: if the file cannot be read.
    """
    path = as_path("path", path)
    try:
        content = path.read_bytes()
    except ValueError as error:  # a null in the name
        raise ValueError(f"{path}: {error}") from error
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            columns = {name: file[name] for name in file.files}
        return columns, json.loads(str(columns.pop(PROVENANCE)))
    except (ValueError, KeyError, EOFError, TypeError, *_DAMAGED) as error:
        raise ValueError(
            f"{path}: not a file of columns, as dpbt.sweeps.run writes it with the suffix .npz"
        ) from error
