"""Checkpoints: what a run has released so far, so that a run that was stopped can resume.

A checkpoint is one file, a database of SQLite that only its owner can read. It names the run, and
it has the releases, which left through mechanisms or are public randomness. The keys are named by
salted hashes: another key would be a second release, and another public key the same noise on other
sums. The tables of all processes are named by a hash under the key, so whoever guesses rows cannot
compare. Another table under one key would be the same noise on two sums.

A caller may let the file hold the keys themselves until the model is written
(`stored_or_fresh_keys` and `delete_keys`). Until then it is as secret as they are.
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
from dpbt.training.author_code import recipe_identity_texts
from dpbt.types import Array, Recipe, Site, as_relation

_DATABASE_TABLES = (
    "CREATE TABLE run (name TEXT PRIMARY KEY, words TEXT NOT NULL)",
    "CREATE TABLE release (part TEXT PRIMARY KEY, arrays BLOB NOT NULL)",
    "CREATE TABLE keys (words BLOB NOT NULL)",
)

DAMAGE_REMEDY = (
    "its run cannot be resumed; start and pay for a run with a new key and another checkpoint"
)
"""What a person can do about a damaged file.

The old key must not draw again: other versions, another processor or other rows would put the same
noise on other sums.
"""


def _damaged_file_error(path: Path, reason: object) -> ValueError:
    return ValueError(f"{path}: no checkpoint, or damaged ({reason}); {DAMAGE_REMEDY}")


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
    """A SHA-256 digest of the parts of a recipe, its target and the bits of all its numbers."""
    parts = [*recipe_identity_texts(recipe), recipe.name, as_relation(recipe.relation).value]
    parts += [repr(recipe.target), str(recipe.max_rows_per_user)]
    digest = hashlib.sha256(json.dumps(parts).encode())
    for leaf in jax.tree.leaves(recipe):
        array = np.ascontiguousarray(leaf)
        digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def salted_key_digest(key: Array | None, salt: str) -> str:
    """A salted SHA-256 digest of a key.

    It differs for None and for every key. It reveals nothing of a release key, which has 256 bits.
    """
    key_bytes = b"" if key is None else keys.key_as_bytes(key)
    return hashlib.sha256(b"dpbt checkpoint " + salt.encode() + key_bytes).hexdigest()


class Checkpoint:
    """The file that keeps what a run has released, so that the run can resume.

    A release is on the disk before the run reads it. Use it as a context: nobody else can open the
    file meanwhile. A new file is gone after it, unless a run has begun.

    Args:
        path: of the file, which is created if it does not exist.

    Attributes:
        path: of the file.
        run: names the run in this file, with a salt of the file's own; None before
            `begin_or_resume`.

    Raises:
        ValueError: for a file that is none, that is damaged, that others may read, or that another
            run has open.
        OSError: if it cannot be read or written.
    """

    def __init__(self, path: Path):
        self.path = path
        self.run: str | None = None
        self.begun = False
        self._keys_to_store: NoiseAndPublicKeys | None = None
        is_new = not path.exists()
        if is_new:
            _create_file_with_tables(path)
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
                self.begun = bool(self._run_entries())
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

    def stored_or_fresh_keys(self) -> NoiseAndPublicKeys:
        """The noise key and the public key in the file, or fresh ones for a new run.

        The file holds fresh keys from `begin_or_resume` on, until `delete_keys`.

        Raises:
            ValueError: for a run without keys.
        """
        if entries := self._execute("SELECT words FROM keys"):
            (stored_bytes,) = entries[0]
            words = np.frombuffer(stored_bytes, "<u4").astype(np.uint32).reshape(2, 8)
            key_pair = jax.random.wrap_key_data(jnp.asarray(words), impl=keys.CHACHA20)
            self._keys_to_store = NoiseAndPublicKeys(*key_pair)
        elif self.begun:
            raise ValueError(f"{self.path}: of a run that is finished, or whose keys are gone")
        else:
            self._keys_to_store = NoiseAndPublicKeys(keys.fresh_key(), keys.fresh_key())
        return self._keys_to_store

    def begin_or_resume(
        self,
        *,
        key: Array,
        public_key: Array | None,
        recipe: Recipe,
        table_identities: Sequence[str],
        process_index: int,
    ) -> None:
        """Write the identity of the run to a new file, or check that the file is of this run.

        Args:
            key: of the run.
            public_key: of the public structure; None if the recipe draws none.
            recipe: of the run.
            table_identities: the identity of the table of each process; private.
            process_index: the index of this process.

        Raises:
            ValueError: if the file is of a run with another key, public key, recipe or table.
        """
        recorded = self._run_entries()
        salt = recorded.get("salt") or secrets.token_hex(16)
        # Only holders of the key can compute a hash of the table.
        rows = json.dumps(
            ["dpbt run", salt, *table_identities, f"process {process_index}"]
        ).encode()
        # The flag jax_enable_x64 is off in every run (`jax_flags.check_jax_flags`).
        expected = {
            "salt": salt,
            "key": salted_key_digest(key, salt),
            "public key": salted_key_digest(public_key, f"public {salt}"),
            "recipe": recipe_digest(recipe),
            "table": hmac.new(keys.key_as_bytes(key), rows, hashlib.sha256).hexdigest(),
            "version of dpbt or jax": f"dpbt {dpbt.__version__}, jax {jax.__version__}",
        }
        for name, text in expected.items() if recorded else ():
            if recorded.get(name) != text:
                raise ValueError(f"{self.path}: the checkpoint is of a run with another {name}")
        self._is_new_run = not recorded
        if self._is_new_run:
            with self._transaction():
                self._database.executemany("INSERT INTO run VALUES (?, ?)", expected.items())
                if self._keys_to_store is not None:
                    key_bytes = b"".join(map(keys.key_as_bytes, self._keys_to_store))
                    self._database.execute("INSERT INTO keys VALUES (?)", [key_bytes])
        self.begun = True
        self.run = json.dumps(expected, sort_keys=True)

    def discard_new_run(self) -> None:
        """Let the file be deleted with the context, if its run began just now.

        Such a run has released nothing.
        """
        self.begun = not self._is_new_run

    def delete_keys(self) -> None:
        """Delete the keys from the file, once the model is written."""
        self._execute("DELETE FROM keys")

    @property
    def num_recorded_rounds(self) -> int:
        """How many rounds, from the first on, the file has the releases of."""
        return sum(part.isdecimal() for (part,) in self._execute("SELECT part FROM release"))

    def recorded_release(self, name: str) -> CappedRelease | None:
        """The recorded release of a prologue, an epilogue or a round; None if it is new.

        Its name is "prologue", "epilogue" or the number of the round.

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
        except (ValueError, KeyError, TypeError, EOFError, *_DAMAGED_ARCHIVE_ERRORS):
            raise _damaged_file_error(self.path, "a release was changed or damaged") from None

    def add_release(self, name: str, release: Mapping[Site, np.ndarray], weight_cap: float) -> None:
        """Write a release, and the public bound on the weights of its round, to the disk.

        Raises:
            ValueError: if it was released before with other values.
            OSError: naming the file, if the disk does not take it.
        """
        packed = _pack_release(release, weight_cap)
        recorded = self.recorded_release(name)
        if recorded is not None:
            if _pack_release(recorded.release, recorded.cap) != packed:
                raise ValueError(
                    f"{self.path}: two releases of one round under one key, of different rows; "
                    "publish neither"
                )
            return
        self._execute("INSERT INTO release VALUES (?, ?)", name, packed)

    def _run_entries(self) -> dict[str, str]:
        """The entries that identify the run, as text by name; empty for a new file."""
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


_DAMAGED_ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    OSError,
    OverflowError,
)
"""What reading damaged bytes raises."""


def _pack_release(release: Mapping[Site, np.ndarray], weight_cap: Any) -> bytes:
    """The bytes of a release and of the cap on its weights, with a checksum of each array."""
    file = io.BytesIO()
    arrays: dict[str, Any] = {f"site {site}": array for site, array in release.items()}
    np.savez(file, cap=np.float32(weight_cap), **arrays)
    return file.getvalue()


def _create_file_with_tables(path: Path) -> None:
    """Create the file of a checkpoint with empty tables.

    A killed process leaves no such file, or a complete one.
    """
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        for table in _DATABASE_TABLES:
            database.execute(table)
        content = database.serialize()
    # Another run made the file meanwhile, or removed what was being written of it.
    with contextlib.suppress(FileExistsError, FileNotFoundError):
        private: dict[str, Any] = {"mode": 0o600, "durable": True, "replace": False}
        write_atomically(path, lambda name: name.write_bytes(content), **private)
