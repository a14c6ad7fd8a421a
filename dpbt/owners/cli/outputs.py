"""The files that commands write: their options, their paths, and what to do if a disk is full."""

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from dpbt.common import storage
from dpbt.owners.cli.parsing import (
    InputError,
    Interruption,
    Option,
    option,
    say_on_interruption,
)

FORCE_OPTION = option("--force", "replace the file if it exists")


def output_options(help_text: str, required: bool = False) -> tuple[Option, Option]:
    """The options --out and --force, which `checked_output_path` reads."""
    return option("--out FILE", help_text, required=required), FORCE_OPTION


def checked_output_path(options: argparse.Namespace, name: str = "out") -> Path:
    """The path of --out or another option, where a file can be written.

    Commands call it before they start to work. A link names the file that is written. Nothing is
    replaced of a pipe or a device, so these need no --force.

    Raises:
        InputError: if it is a folder, or exists without --force, or cannot be written. Also if it
            is another file of the command, such as its rows, which --force would replace.
    """
    path = Path(getattr(options, name))
    try:
        _check_is_no_other_file(options, path, name)
        if path.is_dir() or getattr(options, name).endswith(os.sep):
            raise InputError(f"{path}: a folder, where --{name} needs the name of a file")
        if os.path.lexists(path) and not storage.is_stream(path) and not options.force:
            if not path.exists():
                raise InputError(
                    f"{path}: a link to a file that is not there; --force writes that file"
                )
            raise InputError(f"{path}: the file exists; --force replaces it")
        storage.check_can_write(path)
    except OSError as error:
        folder = next(parent for parent in path.absolute().parents if os.path.lexists(parent))
        words = error.strerror or str(error)
        raise InputError(f"{path}: no file can be written in {folder}: {words}") from error
    return path


_OTHER_FILES = {
    "file": "ROWS",
    "model": "MODEL",
    **{name: f"--{name}" for name in ("domain", "filter", "checkpoint", "public", "html", "pdf")},
    "from_schema": "--from-schema",
    "row": "--row",
}
"""Which options name the other files of a command, and how errors call them."""


def _check_is_no_other_file(options: argparse.Namespace, path: Path, name: str) -> None:
    """Refuse an output that is another file of the same command.

    Raises:
        InputError: naming both.
    """
    for other, words in _OTHER_FILES.items():
        value = getattr(options, other, None)
        other_path = value[-1] if isinstance(value, list) and value else value
        if other == name or not isinstance(other_path, str) or storage.is_stream(path):
            continue
        if os.path.realpath(other_path) == os.path.realpath(path):
            raise InputError(f"{path}: --{name} and {words} name one file")


def print_about_output(path: Path, words: str) -> None:
    """Print words on a file that was written; on standard error, if it is standard output."""
    print(words, file=sys.stderr if storage.descriptor_of_path(path) == 1 else sys.stdout)


class OutputState:
    """The state of the path of an output before a command writes to it."""

    def __init__(self, path: Path):
        self.path, self._before = path, _file_identity(path)

    @property
    def is_written(self) -> bool:
        """Whether another file is there by now, which is whole; never for a pipe or a device."""
        return not storage.is_stream(self.path) and _file_identity(self.path) != self._before

    def __str__(self) -> str:
        if storage.is_stream(self.path):
            return f"{self.path} may have got a part of the output"
        return f"{self.path} was {'' if self.is_written else 'not '}written"


def _file_identity(path: Path) -> tuple[int, ...] | None:
    """Numbers that distinguish a file from one that replaces it; None without a file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


@contextlib.contextmanager
def say_whether_written(*paths: Path) -> Iterator[None]:
    """If the block is interrupted, say which of the files were written."""
    states = [OutputState(path) for path in paths]
    with say_on_interruption(lambda: "; ".join(map(str, states))):
        yield


def save_or_use_temporary_folder(path: Path, save: Callable[[Path], object]) -> Path:
    """Save a release that was paid for, in a temporary folder if it cannot be written to the path.

    After an interruption it is saved in such a folder, too, before the interruption goes on.

    Args:
        path: the file.
        save: writes the release to the path that it is called with.

    Returns:
        The path of the file. If it is in a temporary folder, standard error says so.

    Raises:
        OSError: naming the path, if no temporary folder can be written either.
        Interruption: after an interruption, with the path of the file.
    """
    state = OutputState(path)
    try:
        save(path)
        return path
    except (OSError, ValueError, KeyboardInterrupt) as error:  # ValueError: a folder is there now
        is_interrupted = isinstance(error, KeyboardInterrupt)
        if is_interrupted and state.is_written:
            raise
        with _hold_interruptions():
            elsewhere = _save_elsewhere(path, save)
            if elsewhere is None:
                raise
            words = "interrupted" if is_interrupted else _reason_without_path(error, path)
            print(f"warning: {path}: {words}; move {elsewhere} there", file=sys.stderr)
        if is_interrupted:
            raise Interruption(f"the model was written to {elsewhere}") from error
        return elsewhere


def _reason_without_path(error: BaseException, path: Path) -> str:
    """The reason of an error without the path."""
    words = isinstance(error, OSError) and error.strerror
    return words or str(error).removeprefix(f"{path}: ")


def _save_elsewhere(path: Path, save: Callable[[Path], object]) -> Path | None:
    """Save a release in a new folder that takes it; None if there is none."""
    name = f"model{storage.short_suffix(path)}" if len(os.fsencode(path.name)) > 100 else path.name
    for find_parent in (tempfile.gettempdir, Path.home, Path.cwd, lambda: "/dev/shm"):
        folder = None
        try:
            folder = Path(tempfile.mkdtemp(prefix="dpbt-", dir=find_parent()))
            save(folder / name)
            return folder / name
        except (OSError, ValueError, RuntimeError):  # such as a user without a home
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
    return None


@contextlib.contextmanager
def _hold_interruptions() -> Iterator[None]:
    """Ignore signals within the block, which is short and must end; in the main thread alone."""
    numbers = [getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")]
    handlers = {}
    if threading.current_thread() is threading.main_thread():
        for number in filter(None, numbers):
            if signal.getsignal(number) is not None:  # None: of a program that embeds Python
                handlers[number] = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
