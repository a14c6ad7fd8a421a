"""Checkpoints: what a run has released so far, so that a run that was stopped can go on.

A checkpoint is one file, a database of SQLite that only its owner can read. It names the run, and
it has the releases, which left through mechanisms or are public randomness. The keys are named by
salted hashes: another key would be a second release, and another public key the same noise on other
sums. The tables of all processes are named by a hash under the key, so whoever guesses rows cannot
compare. Another table under one key would be the same noise on two sums.

A caller may let the file hold the keys themselves until the model is written (`held_keys` and
`delete_keys`). Until then it is as secret as they are.
"""

import contextlib
import hashlib
import hmac
import io
import json
import os
import secrets
import sqlite3
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt.common.storage import (
    in_use_error,
    remove_temporary_files_beside,
    translate_database_errors,
    write_atomically,
)
from dpbt.privacy import keys
from dpbt.privacy.keys import NoiseAndPublicKeys
from dpbt.training.own_code import recipe_identity_texts
from dpbt.types import Array, Recipe, Site, as_relation

TABLES = (
    "CREATE TABLE run (name TEXT PRIMARY KEY, words TEXT NOT NULL)",
    "CREATE TABLE release (part TEXT PRIMARY KEY, arrays BLOB NOT NULL)",
    "CREATE TABLE keys (words BLOB NOT NULL)",
)

AGAIN = "its run cannot go on; begin one with a new key and another checkpoint; pay for it"
"""What a person can do about a damaged file.

The old key must not draw again: other versions, another processor or other rows would put the same
noise on other sums.
"""


def _damaged_file_error(path: Path, words: object) -> ValueError:
    return ValueError(f"{path}: no checkpoint, or damaged ({words}); {AGAIN}")


Releases = dict[Site, np.ndarray]
"""Site -> int32[...] or int64[...]: one release."""


class CappedRelease(NamedTuple):
    """A release, and the public bound on the weights that its program read.

    Attributes:
        release: the release of a round, a prologue or an epilogue.
        cap: f32[], the public bound on the weight of a row in it.
    """

    release: Releases
    cap: Any


def recipe_digest(recipe: Recipe) -> str:
    """A hash of the parts of a recipe, its target and the bits of all its numbers."""
    parts = [*recipe_identity_texts(recipe), recipe.name, as_relation(recipe.relation).value]
    parts += [repr(recipe.target), str(recipe.max_rows_per_user)]
    digest = hashlib.sha256(json.dumps(parts).encode())
    for leaf in jax.tree.leaves(recipe):
        array = np.ascontiguousarray(leaf)
        digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def salted_key_digest(key: Array | None, salt: str) -> str:
    """A salted hash of a key, which differs for None and for every key.

    It reveals nothing of a release key, which has 256 bits.
    """
    words = b"" if key is None else keys.key_as_bytes(key)
    return hashlib.sha256(b"dpbt checkpoint " + salt.encode() + words).hexdigest()


class Checkpoint:
    """The file of one run; a release is on the disk before the run goes on.

    Use it as a context: nobody else can open the file meanwhile. A new file is gone after it,
    unless a run has begun.

    Args:
        path: of the file, which is created if it does not exist.

    Attributes:
        path: of the file.
        run: names the run in this file, with a salt of the file's own; None before `begin`.

    Raises:
        ValueError: for a file that is none, that is damaged, that others may read, or that another
            run has open.
        OSError: if it cannot be read or written.
    """

    def __init__(self, path: Path):
        self.path, self.run, self.begun = path, None, False
        self._held_keys: NoiseAndPublicKeys | None = None
        is_new = not path.exists()
        if is_new:
            _create_tables(path)
        if not path.exists() and not path.is_symlink():
            raise in_use_error(path)
        status = path.lstat()
        if path.is_symlink() or not path.is_file():
            raise ValueError(f"{path}: a link or a folder, where a checkpoint is a file")
        if os.name == "posix" and (status.st_uid != os.geteuid() or status.st_mode & 0o077):
            raise ValueError(f"{path}: a checkpoint that others may read, or that is not yours")

        # One process has the file until it closes it, nothing is left of deleted keys, and a crash
        # undoes no release.
        uri = f"{path.absolute().as_uri()}?mode=rw"
        self._database = sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None)
        try:
            for pragma in (
                *("locking_mode = EXCLUSIVE", "journal_mode = TRUNCATE"),
                *("secure_delete = ON", "synchronous = EXTRA"),
            ):
                self._execute(f"PRAGMA {pragma}")
            with self._transaction():
                if not (path.exists() and os.path.samestat(status, path.stat())):
                    raise in_use_error(path)  # another run gave up its file meanwhile
                remove_temporary_files_beside(path)
                self.begun = bool(self._names())
        except OSError:  # such as a name that is too long for a journal beside it
            self._database.close()
            if is_new:
                path.unlink(missing_ok=True)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):  # such as a name that is too long
            journal = Path(f"{self.path}-journal")
            if journal.exists() and not journal.stat().st_size:
                journal.unlink(missing_ok=True)
        if not self.begun:
            self.path.unlink(missing_ok=True)
        self._database.close()

    def held_keys(self) -> NoiseAndPublicKeys:
        """The keys of the noise and of public structure that the file holds until `delete_keys`.

        They are fresh ones for a new run, and the file holds them from `begin` on.

        Raises:
            ValueError: for a run without keys.
        """
        if entries := self._execute("SELECT words FROM keys"):
            words = np.frombuffer(entries[0][0], "<u4").astype(np.uint32).reshape(2, 8)
            key_pair = jax.random.wrap_key_data(jnp.asarray(words), impl=keys.CHACHA20)
            self._held_keys = NoiseAndPublicKeys(*key_pair)
        elif self.begun:
            raise ValueError(f"{self.path}: of a run that is finished, or whose keys are gone")
        else:
            self._held_keys = NoiseAndPublicKeys(keys.fresh_key(), keys.fresh_key())
        return self._held_keys

    def begin(
        self,
        key: Array,
        recipe: Recipe,
        tables: Sequence[str],
        process: int = 0,
        public_key: Array | None = None,
    ) -> None:
        """Name the run in a new file, or check that the file is of this run.

        Args:
            key: of the run.
            recipe: of the run.
            tables: the identity of the table of each process; private.
            process: the number of this process.
            public_key: of the public structure; None if the recipe draws none.

        Raises:
            ValueError: if the file is of a run with another key, public key, recipe or table.
        """
        names = self._names()
        salt = names.get("salt") or secrets.token_hex(16)
        # Only holders of the key can compute a hash of the table.
        rows = json.dumps(["dpbt run", salt, *tables, f"process {process}"]).encode()
        # The flag jax_enable_x64 is off in every run (`jax_flags.check_jax_flags`).
        expected = {
            "salt": salt,
            "key": salted_key_digest(key, salt),
            "public key": salted_key_digest(public_key, f"public {salt}"),
            "recipe": recipe_digest(recipe),
            "table": hmac.new(keys.key_as_bytes(key), rows, hashlib.sha256).hexdigest(),
            "version of dpbt or jax": f"dpbt {dpbt.__version__}, jax {jax.__version__}",
        }
        for name, words in expected.items() if names else ():
            if names.get(name) != words:
                raise ValueError(f"{self.path}: the checkpoint is of a run with another {name}")
        self._new = not names
        if self._new:
            with self._transaction():
                self._database.executemany("INSERT INTO run VALUES (?, ?)", expected.items())
                if self._held_keys is not None:
                    words = b"".join(map(keys.key_as_bytes, self._held_keys))
                    self._database.execute("INSERT INTO keys VALUES (?)", [words])
        self.begun, self.run = True, json.dumps(expected, sort_keys=True)

    def give_up(self) -> None:
        """Leave nothing behind of a run that began just now and released nothing."""
        self.begun = not self._new

    def delete_keys(self) -> None:
        """Delete the keys, once the model is written."""
        self._execute("DELETE FROM keys")

    @property
    def num_rounds(self) -> int:
        """How many of the first rounds the file has."""
        return sum(part.isdecimal() for (part,) in self._execute("SELECT part FROM release"))

    def recorded_release(self, name: str) -> CappedRelease | None:
        """The release of "prologue", of "epilogue", or of a round by its number; None if it is new.

        Raises:
            ValueError: if it was damaged.
        """
        entries = self._execute("SELECT arrays FROM release WHERE part = ?", name)
        if not entries:
            return None
        try:
            with np.load(io.BytesIO(entries[0][0])) as file:
                release = {name.removeprefix("site "): file[name] for name in file.files}
            cap = np.float32(release.pop("cap"))
            return CappedRelease(release, cap)
        except (ValueError, KeyError, TypeError, EOFError, *_DAMAGED):
            raise _damaged_file_error(self.path, "a release was changed or damaged") from None

    def add_release(self, name: str, release: Mapping[Site, np.ndarray], cap: float) -> None:
        """Put a release, and the public bound on the weights of its round, on the disk.

        Raises:
            ValueError: if it was released before with other values.
            OSError: naming the file, if the disk does not take it.
        """
        packed, recorded = _pack_release(release, cap), self.recorded_release(name)
        if recorded is not None:
            if _pack_release(recorded.release, recorded.cap) != packed:
                raise ValueError(
                    f"{self.path}: two releases of one round under one key, of different rows; "
                    "publish neither"
                )
            return
        self._execute("INSERT INTO release VALUES (?, ?)", name, packed)

    def _names(self) -> dict[str, str]:
        """The entries that name the run; empty for a new file."""
        return dict(self._execute("SELECT name, words FROM run"))

    def _execute(self, command: str, *values: Any) -> list[Any]:
        with translate_database_errors(self.path, _damaged_file_error):
            return self._database.execute(command, values).fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Write everything in the block to the disk, or nothing of it."""
        with (
            translate_database_errors(self.path, _damaged_file_error),
            self._database,
        ):  # commits, or rolls back
            self._database.execute("BEGIN EXCLUSIVE")
            yield


_DAMAGED = (zipfile.BadZipFile, zlib.error, NotImplementedError, OSError, OverflowError)
"""What reading damaged bytes raises."""


def _pack_release(release: Mapping[Site, np.ndarray], cap: Any) -> bytes:
    """A release and its cap, with a checksum of each array."""
    file = io.BytesIO()
    arrays: dict[str, Any] = {f"site {site}": array for site, array in release.items()}
    np.savez(file, cap=np.float32(cap), **arrays)
    return file.getvalue()


def _create_tables(path: Path) -> None:
    """Create the file and its tables. A killed process leaves no such file, or a complete one."""
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        for table in TABLES:
            database.execute(table)
        content = database.serialize()
    # Another run made the file meanwhile, or removed what was being written of it.
    with contextlib.suppress(FileExistsError, FileNotFoundError):
        private: dict[str, Any] = {"mode": 0o600, "durable": True, "replace": False}
        write_atomically(path, lambda name: name.write_bytes(content), **private)
