"""The files that commands write: their options, their paths, and what a full disk leads to."""

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


def out_and_force_options(help_text: str, required: bool = False) -> tuple[Option, Option]:
    """The options --out and --force, by which commands state a file to write.

    `checked_output_path` reads them.
    """
    return option("--out FILE", help_text, required=required), FORCE_OPTION


def checked_output_path(options: argparse.Namespace, option_name: str = "out") -> Path:
    """The path of --out or of another option, once it is clear that a file can be written there.

    Commands call it before they start to work. A link names the file that is written. A pipe or a
    device loses nothing when it is written to, so these need no --force.

    Raises:
        InputError: if it is a folder, or exists without --force, or cannot be written. Also if it
            is another file of the command, such as its rows, which --force would replace.
    """
    path = Path(getattr(options, option_name))
    try:
        _check_output_is_no_input_file(options, path, option_name)
        if path.is_dir() or getattr(options, option_name).endswith(os.sep):
            raise InputError(f"{path}: a folder, where --{option_name} needs the name of a file")
        if os.path.lexists(path) and not storage.is_stream(path) and not options.force:
            if not path.exists():
                raise InputError(
                    f"{path}: a link to a file that is not there; --force writes that file"
                )
            raise InputError(f"{path}: the file exists; --force replaces it")
        storage.check_can_write(path)
    except OSError as error:
        folder = next(parent for parent in path.absolute().parents if os.path.lexists(parent))
        reason = error.strerror or str(error)
        raise InputError(f"{path}: no file can be written in {folder}: {reason}") from error
    return path


_NAME_OF_FILE_OPTION = {
    "file": "ROWS",
    "model": "MODEL",
    **{name: f"--{name}" for name in ("domain", "filter", "checkpoint", "public", "html", "pdf")},
    "from_schema": "--from-schema",
    "row": "--row",
}
"""The options that name a command's inputs or its other outputs, with their names in errors."""


def _check_output_is_no_input_file(
    options: argparse.Namespace, output_path: Path, option_name: str
) -> None:
    """Refuse an output path that is also the path of another file of the same command.

    Raises:
        InputError: naming both.
    """
    for other_option, name_in_errors in _NAME_OF_FILE_OPTION.items():
        value = getattr(options, other_option, None)
        other_path = value[-1] if isinstance(value, list) and value else value
        if (
            other_option == option_name
            or not isinstance(other_path, str)
            or storage.is_stream(output_path)
        ):
            continue
        if os.path.realpath(other_path) == os.path.realpath(output_path):
            raise InputError(f"{output_path}: --{option_name} and {name_in_errors} name one file")


def print_note_on_output(output_path: Path, note: str) -> None:
    """Print a note on a file that was written, to a stream that is not the file.

    It is printed on standard output, or on standard error if standard output is the file.
    """
    print(note, file=sys.stderr if storage.descriptor_of_path(output_path) == 1 else sys.stdout)


class OutputFileState:
    """Remembers which file is at an output path, to tell later whether it was written."""

    def __init__(self, path: Path):
        self.path = path
        self._before = _file_identity(path)

    @property
    def is_written(self) -> bool:
        """Whether another, complete file is at the path by now.

        It is False for a pipe or a device.
        """
        return not storage.is_stream(self.path) and _file_identity(self.path) != self._before

    def __str__(self) -> str:
        if storage.is_stream(self.path):
            return f"{self.path} may have got a part of the output"
        return f"{self.path} was {'' if self.is_written else 'not '}written"


def _file_identity(path: Path) -> tuple[int, ...] | None:
    """The device, inode, time of change and size of the file at a path.

    They tell the file from another one there. The result is None if there is no file.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


@contextlib.contextmanager
def say_on_interruption_which_files_were_written(*paths: Path) -> Iterator[None]:
    """Turn an interruption of the block into an error that says which files were written."""
    states = [OutputFileState(path) for path in paths]
    with say_on_interruption(lambda: "; ".join(map(str, states))):
        yield


def save_there_or_in_temporary_folder(path: Path, save: Callable[[Path], object]) -> Path:
    """Save a model that was paid for at a path, or if that fails in a temporary folder.

    If saving is interrupted, the model is saved in such a folder, too, before the program ends.

    Args:
        path: the file.
        save: writes the model to the path that it is called with.

    Returns:
        The path of the file. If it is in a temporary folder, standard error says so.

    Raises:
        OSError: naming the path, if no temporary folder can be written either.
        Interruption: after an interruption, with the path of the file.
    """
    state = OutputFileState(path)
    try:
        save(path)
        return path
    except (OSError, ValueError, KeyboardInterrupt) as error:  # ValueError: a folder is there now
        is_interrupted = isinstance(error, KeyboardInterrupt)
        if is_interrupted and state.is_written:
            raise
        with _ignore_signals():
            elsewhere = _save_on_first_disk_that_takes_it(path, save)
            if elsewhere is None:
                raise
            reason = "interrupted" if is_interrupted else _error_text_without_path(error, path)
            print(f"warning: {path}: {reason}; move {elsewhere} there", file=sys.stderr)
        if is_interrupted:
            raise Interruption(f"the model was written to {elsewhere}") from error
        return elsewhere


def _error_text_without_path(error: BaseException, path: Path) -> str:
    """The text of an error, without the path that it may begin with."""
    reason = isinstance(error, OSError) and error.strerror
    return reason or str(error).removeprefix(f"{path}: ")


def _save_on_first_disk_that_takes_it(
    intended_path: Path, save: Callable[[Path], object]
) -> Path | None:
    """Save a model in a new temporary folder, on the first disk that takes it.

    Args:
        intended_path: where the model could not be written. Its name is kept, unless it is long.
        save: writes the model to the path that it is called with.

    Returns:
        The path of the file; None if no disk takes it.
    """
    name = intended_path.name
    if len(os.fsencode(name)) > 100:
        name = f"model{storage.short_suffix(intended_path)}"
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
def _ignore_signals() -> Iterator[None]:
    """Ignore the signals that ask the process to end, so that the block completes.

    Outside of the main thread it does nothing.
    """
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
