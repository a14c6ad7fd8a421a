"""What commands write: files that are whole or not there, and progress on a terminal."""

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from dpbt.cli.errors import InputError


def add_out(parser: argparse.ArgumentParser, words: str, required: bool = False) -> None:
    """Add --out and --force; `free` reads them."""
    parser.add_argument("--out", metavar="FILE", required=required, help=words)
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")


def free(options: argparse.Namespace, more: str = "") -> Path:
    """The file of --out, if it may be written. Commands ask before they work.

    Args:
        options: of the command.
        more: what --force does besides.

    Raises:
        InputError: if it is a folder, or exists without --force, or its folder cannot be written.
    """
    path = Path(options.out)
    if path.is_dir():
        raise InputError(f"{path}: a folder, where --out needs the name of a file")
    if path.exists() and not options.force:
        raise InputError(f"{path}: the file exists; --force replaces it{more}")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"{path}: no file can be written in {folder}")
    return path


def keep(path: Path, save: Callable[[Path], object]) -> Path:
    """Save what was paid for: at the path or, if the disk does not take it there, elsewhere.

    Args:
        path: the file.
        save: writes the file of the path that it is called with.

    Returns:
        Where it is. Standard error says so if that is a temporary folder.

    Raises:
        OSError: naming the path, if the temporary folder does not take it either.
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


def is_terminal(*streams: TextIO | None) -> bool:
    """Whether all streams are a terminal; closed ones, which Python has as None, are none."""
    return all(stream is not None and stream.isatty() for stream in streams)


@contextlib.contextmanager
def working(words: str) -> Iterator[None]:
    """Say on a terminal what is being done; elsewhere say nothing.

    It shows no time and no count. They would tell how many rows there are, or how many runs
    `dpbt.tune` made.
    """
    if not is_terminal(sys.stderr):
        yield
        return
    print(f"{words} ...", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
