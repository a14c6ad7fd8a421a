"""The files that commands write: their options, their paths, and what to do if a disk is full."""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from dpbt.owners.cli.parsing import InputError, Option, option

FORCE_OPTION = option("--force", "replace the file if it exists")


def output_options(help_text: str, required: bool = False) -> tuple[Option, Option]:
    """The options --out and --force, which `checked_output_path` reads."""
    return option("--out FILE", help_text, required=required), FORCE_OPTION


def checked_output_path(options: argparse.Namespace, name: str = "out") -> Path:
    """The path of --out or another option, where a file can be written.

    Commands call it before they start to work.

    Raises:
        InputError: if it is a folder, or exists without --force, or its folder cannot be written.
    """
    path = Path(getattr(options, name))
    if path.is_dir():
        raise InputError(f"{path}: a folder, where --{name} needs the name of a file")
    if path.exists() and not options.force:
        raise InputError(f"{path}: the file exists; --force replaces it")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"{path}: no file can be written in {folder}")
    return path


def save_or_use_temporary_folder(path: Path, save: Callable[[Path], object]) -> Path:
    """Save a release that was paid for, in a temporary folder if it cannot be written to the path.

    Args:
        path: the file.
        save: writes the release to the path that it is called with.

    Returns:
        The path of the file. If it is in a temporary folder, standard error says so.

    Raises:
        OSError: naming the path, if the temporary folder cannot be written either.
    """
    try:
        save(path)
        return path
    except OSError as error:
        elsewhere = Path(tempfile.mkdtemp(prefix="dpbt-")) / path.name
        try:
            save(elsewhere)
        except OSError:
            raise error from None
        print(f"warning: {path}: {error.strerror}; move {elsewhere} there", file=sys.stderr)
        return elsewhere
