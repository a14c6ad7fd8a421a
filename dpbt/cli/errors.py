"""Errors of what a person gave, and how a command line ends.

An option, a file or a domain that a person got wrong is one line and exit status 2. Any other error
is a bug and keeps its traceback.
"""

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

BAD_INPUT, INTERRUPTED, NO_READER = 2, 130, 141
"""Exit statuses; the last two are those of shells for Ctrl-C and for a pipe that nobody reads."""

STOPPED = (
    "interrupted; the files written so far are kept, and what has a checkpoint or a folder of "
    "results goes on with the same command"
)
"""What Ctrl-C says."""


class InputError(ValueError):
    """An option, a file or a domain is not what the program expects."""


@contextlib.contextmanager
def of_input(path: str | Path | None = None) -> Iterator[None]:
    """Make a ValueError within the block an `InputError`.

    The block should do nothing but read or check what a person gave. An ImportError that says what
    to install becomes one, too.

    Args:
        path: a file or folder. If given, only errors that begin with its name are converted.

    Raises:
        InputError: with the words of the error.
    """
    try:
        yield
    except (ValueError, ImportError) as error:
        other = path is not None and not str(error).startswith(str(path))
        if other or isinstance(error, ModuleNotFoundError):
            raise
        raise InputError(str(error)) from error


def status_of(program: Callable[[], int]) -> int:
    """Run a program; errors of input and Ctrl-C become one line on standard error.

    Returns:
        The program's own exit status, `BAD_INPUT`, `INTERRUPTED` or `NO_READER`.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show
            status = program()
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # as of `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NO_READER
    except (InputError, OSError) as error:
        print(f"error: {_line(error)}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print(f"\n{STOPPED}", file=sys.stderr)
        return INTERRUPTED


def _show(message: Warning | str, *where: object, **more: object) -> None:
    """A warning on one line of standard error, without the place in the code."""
    del where, more
    print(f"warning: {' '.join(str(message).split())}", file=sys.stderr)


def _line(error: Exception) -> str:
    """The error in one line, which begins with the file if it is about one."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split("\n"))
