"""A program that copies its folder at each moment at which a kill would leave other files.

`python -m tests.support.kill_moments COPIES KILL WHAT` runs `convert`, `fit` or `sweep` in the
folder that it is started in. Before each change of a file there, it copies the folder to COPIES:
what SIGKILL would leave. With a number in place of "none" it sends itself SIGKILL at that moment,
and makes no copies. With -1 it does neither.
"""

import functools
import itertools
import os
import re
import shutil
import signal
import sqlite3
import sys
import threading
from pathlib import Path

import jax
import jax.numpy as jnp

import dpbt
from dpbt import sweeps
from dpbt.__main__ import main
from dpbt.privacy import keys
from experiments.common.cache import use_compilation_cache
from tests.support import worker_process

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "os.link")

CONVERT = ("convert", "domain.json", "rows.csv", "rows.chunks", "--rows-per-block", "150")
FIT = ("fit", "rows.chunks", "--domain", "domain.json", "--rows", "400", "--epsilon", "4")
FIT += ("--recipe", "oblivious_boost", "--rounds", "3", "--filter", "filter.db")
FIT += ("--checkpoint", "run", "--out", "model.json")

SWEEP = sweeps.Sweep(
    "tiny", worker_process.make_recipe, ({"rounds": (2,), "depth": (1,), "epsilon": (1.0,)},)
)


class Moments:
    """Counts changes of files in a folder, and copies the folder before each of them.

    Args:
        folder: the folder.
        copies: where the copies go, by their number.
        kill: the number at which the process is killed; None to copy.
    """

    def __init__(self, folder: Path, copies: Path, kill: int | None):
        self._folder, self._copies, self._kill = folder.resolve(), copies, kill
        self._num_moments, self._last = 0, {}
        self._lock, self._thread_state = threading.Lock(), threading.local()
        fsync = os.fsync

        def record_and_sync(handle: int) -> None:
            self._record_change("fsync", os.readlink(f"/proc/self/fd/{handle}"))
            fsync(handle)

        os.fsync = record_and_sync
        sqlite3.Connection = self._recording_connection(sqlite3.Connection)  # type: ignore[misc]
        sqlite3.connect = functools.partial(sqlite3.connect, factory=sqlite3.Connection)
        sys.addaudithook(self._handle_event)

    def _recording_connection(
        self, connection: type[sqlite3.Connection]
    ) -> type[sqlite3.Connection]:
        """Connections whose statements are moments; SQLite opens its files by itself."""
        record_change = self._record_change

        class RecordingConnection(connection):
            def __init__(self, database: object, *args: object, **options: object) -> None:
                super().__init__(database, *args, **options)  # type: ignore[arg-type]
                self._file = str(database).removeprefix("file://").partition("?")[0]

            def execute(self, *args: object) -> sqlite3.Cursor:
                record_change("a statement", self._file)
                return super().execute(*args)  # type: ignore[arg-type]

        return RecordingConnection

    def _handle_event(self, event: str, arguments: tuple) -> None:
        is_write = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES
        if is_write or event in CHANGES:
            self._record_change(event, arguments[0])

    def _record_change(self, event: str, path: object) -> None:
        if isinstance(path, int) or getattr(self._thread_state, "busy", False):
            return
        file = Path(os.path.abspath(os.fsdecode(path)))  # type: ignore[arg-type]
        if not file.is_relative_to(self._folder):
            return
        self._thread_state.busy = True
        with self._lock:
            self._record_moment(event, file)
        self._thread_state.busy = False

    def _record_moment(self, event: str, file: Path) -> None:
        if self._kill is None and has_written_file(event, file):
            half = shutil.copytree(self._folder, self._path_of_copy(event, file, HALF))
            cut_last_line(half / file.relative_to(self._folder))
        state = state_of_folder(self._folder, content=True)
        if state == self._last:
            return
        self._last = state
        if self._num_moments == self._kill:
            os.kill(os.getpid(), signal.SIGKILL)
        if self._kill is None:
            shutil.copytree(self._folder, self._path_of_copy(event, file))
        self._num_moments += 1

    def _path_of_copy(self, event: str, file: Path, ending: str = "") -> Path:
        return self._copies / f"{self._num_moments:03d} before {event} of {file.name}{ending}"


HALF = ", half written"
"""Ends the names of copies that a kill within the writing of a file leaves."""


def has_written_file(event: str, file: Path) -> bool:
    """Whether a file has been written that was not there, or a line of it."""
    appended = event == "fsync" and file.is_file() and not file.name.startswith(".")
    return appended or (event == "os.chmod" and file.stat().st_size > 0)


def cut_last_line(path: Path) -> None:
    """Leave the half of what was written last, as a kill within the writing does."""
    content = path.read_bytes()
    start = content.rstrip(b"\n").rfind(b"\n") + 1
    path.write_bytes(content[: (start + len(content)) // 2])


def state_of_folder(folder: Path, content: bool = False) -> dict[str, tuple[int, int, int]]:
    """The mode, size and, if asked for, content hash of each entry of a folder by its name.

    Names that were drawn are masked.
    """
    random_part = re.compile(r"^(.*/)?(\..*-)[a-z0-9_]{8}(?=\.[a-z]+$|$)")
    state = {}
    for path in folder.rglob("*"):
        size = path.stat().st_size if path.is_file() else 0
        digest = hash(path.read_bytes()) if content and size else 0
        name = random_part.sub(r"\1\2x", str(path.relative_to(folder)))
        state[name] = path.stat().st_mode, size, digest
    return state


def release_key(index: int) -> jax.Array:
    """A release key that is the same each time."""
    key_words = jnp.arange(8, dtype=jnp.uint32) + jnp.uint32(8 * index)
    return jax.random.wrap_key_data(key_words, impl=keys.CHACHA20)


def run_command(command: str, key_index: int, *options_of_command: str) -> int:
    """Run one of the three commands in the current folder, and return the exit status.

    Args:
        command: its name.
        key_index: which keys are drawn, if any are.
        *options_of_command: further options.
    """
    key_numbers = itertools.count(key_index, 1000)  # the key of the noise, and then the public one
    original_fresh_key, keys.fresh_key = keys.fresh_key, lambda: release_key(next(key_numbers))
    try:
        if command == "sweep":
            options = {"memory_mb": 0.02, "about": {"test": "moments"}}
            sweeps.run(SWEEP, worker_process.sweep_tasks()[:2], "results", **options)
        else:
            return main([*(CONVERT if command == "convert" else FIT), *options_of_command])
        return 0
    finally:
        keys.fresh_key = original_fresh_key


DOMAIN = {"age": dpbt.domains.Numeric(0, 100, bins=8)}

if __name__ == "__main__":
    copies, kill, what = sys.argv[1:]
    use_compilation_cache(min_seconds=0.0)
    jax.devices()  # its files are no moments
    Moments(Path.cwd(), Path(copies), None if kill == "none" else int(kill))
    sys.exit(run_command(what, 0))
