"""The file of a filter: its terms and what it paid for, in one database of SQLite.

Only its owner can read it, and each payment is on the disk before it counts. Entries are chained by
SHA-256. The *seal* of the terms is their hash, and that of a release is the hash of its record and
of the seal before it. The file keeps the last seal. So a process that looks reads no more than what
others paid for meanwhile, and one that pays checks the whole. Seals find accidents and are no
signature: whoever edits a file can compute others.
"""

import contextlib
import errno
import hashlib
import hmac
import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from dpbt.formats import Digits, LedgerRecord, decode
from dpbt.privacy.charges import Charge, Terms

TABLES = (
    "CREATE TABLE filter (terms TEXT NOT NULL, salt TEXT NOT NULL, seal TEXT NOT NULL)",
    "CREATE TABLE release (number INTEGER PRIMARY KEY, record TEXT NOT NULL)",
)
"""The tables of the file. The salt is 256 random bits, under which keys are hashed."""

VERSION = 1
"""Of the tables, in `PRAGMA user_version`."""

RESTORE = (
    "bring back a copy that has every release, or open a filter of what the releases left of the "
    "budget"
)
"""What to do about a file that is damaged."""

_WAIT = 60
"""How many seconds to wait until no other process holds the file."""


class Release(msgspec.Struct, frozen=True):
    """One release that a filter paid for.

    Attributes:
        name: of the recipe.
        charge: what it costs.
        key_id: the salted hash of its key; None if the filter was not given the key.
        run_id: that of the run of a checkpoint that it pays for; None if there is none.
        ledger: of the recipe.
    """

    name: str
    charge: Charge
    key_id: Digits | None
    run_id: Digits | None
    ledger: LedgerRecord


class FilterFile:
    """The terms of a filter and its releases, which processes share by their file.

    Args:
        path: of the file; None for a filter that ends with this process.
        terms: of a new filter; None to read a file.

    Attributes:
        path: as given.
        terms: what the filter is for.

    Raises:
        ValueError: naming the path, for a new file that exists, or a file that is no whole filter.
        OSError: if the file cannot be read, or not be written.
    """

    def __init__(self, path: Path | None, terms: Terms | None = None):
        self.path = path
        self._lock, self._process = threading.RLock(), os.getpid()
        self._first = ""  # the seal of the terms, once they were read
        self._releases: dict[str, Release] = {}  # by their seals, as they were seen last
        if path is None:
            self._memory = _connect(":memory:")
            weakref.finalize(self, self._memory.close)
        if terms is not None:
            self._make(terms)
        self.read()

    def _make(self, terms: Terms) -> None:
        """Write a new file, which is not left behind if that fails."""
        with contextlib.ExitStack() as undone:
            if self.path is not None:
                _create(self.path)
                undone.callback(self.path.unlink)
            known = _json(terms), secrets.token_hex(32)
            with self._transaction(write=True) as database:
                for table in TABLES:
                    database.execute(table)
                database.execute(f"PRAGMA user_version = {VERSION}")
                row = (*known, seal_of("", *known))
                database.execute("INSERT INTO filter VALUES (?, ?, ?)", row)
            undone.pop_all()

    def read(self) -> dict[str, Release]:
        """Seal -> release: what was paid for so far, by other processes too.

        Raises:
            ValueError: naming the file, if its content is not that of a filter, or not of this one,
                or says that less was spent than was.
            OSError: if the file cannot be read.
        """
        with self._transaction() as database:
            self._update(database)
            return dict(self._releases)

    @contextlib.contextmanager
    def paying(self) -> Iterator[tuple[list[Release], Callable[[Release], str]]]:
        """(what was paid for, how to pay for one more); nobody else pays meanwhile.

        A payment gives the seal of the release. An error undoes it, else it is on the disk at the
        end.

        Raises:
            ValueError: as `read`.
            OSError: if the file cannot be written.
        """
        added: dict[str, Release] = {}
        with self._lock:
            with self._transaction(write=True) as database:
                self._update(database, whole=True)

                def add(release: Release) -> str:
                    record = _json(release)
                    seal = seal_of(next(reversed(self._releases), self._first), record)
                    database.execute("INSERT INTO release (record) VALUES (?)", [record])
                    database.execute("UPDATE filter SET seal = ?", [seal])
                    added[seal] = release
                    return seal

                yield list(self._releases.values()), add
            self._releases |= added

    def id_of(self, words: bytes) -> str:
        """The HMAC-SHA256 of the words of a key or of a run, by which they are known again.

        It does not tell a key of 256 bits. A research key has at most 64 bits, so a search finds it
        from the hash and the salt, as from what was released.
        """
        return hmac.new(self._salt.encode(), words, hashlib.sha256).hexdigest()

    def _update(self, database: sqlite3.Connection, *, whole: bool = False) -> None:
        """Read the releases that are not known yet, or all of them; ValueError as `read`."""
        try:
            [(version,)] = database.execute("PRAGMA user_version")
            if version != VERSION:
                raise ValueError(f"tables of version {version}, and this dpbt reads {VERSION}")
            [(terms, salt, last)] = database.execute("SELECT terms, salt, seal FROM filter")
            first = seal_of("", str(terms), str(salt))
            if not self._first:
                self.terms, self._salt = decode(Terms, str(terms).encode(), "the filter"), str(salt)
                _ = self.terms.limits  # for terms that do not go together

            found = {} if whole else dict(self._releases)
            seal, place = next(reversed(found), first), [len(found)]
            rest = "SELECT record FROM release WHERE number > ? ORDER BY number"
            for (record,) in database.execute(rest, place):
                seal = seal_of(seal, str(record))
                text = str(record).encode()
                found[seal] = self._releases.get(seal) or decode(Release, text, "a release")
            known = next(reversed(self._releases), self._first)
            other = self._first not in ("", first) or known not in ("", first, *found)
            if other or seal != last:
                raise ValueError(
                    "another filter, or less was spent than was: is it an old copy?"
                    if self._first
                    else "it lacks its own checksum"
                )
        except (ValueError, ArithmeticError) as error:
            raise _damaged(self.path, error) from None
        self._first, self._releases = first, found

    @contextlib.contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """The database, to which nobody else writes meanwhile. An error undoes what was written.

        Raises:
            ValueError: naming the file, if it is no whole database. For a filter without a file in
                a process that was forked from its own.
            OSError: naming the file, if it cannot be opened or written.
        """
        with self._lock, contextlib.ExitStack() as stack:
            if self.path is None:
                if os.getpid() != self._process:
                    raise ValueError(
                        "a filter without a file is of the process that made it; give it a path, "
                        "and open that here"
                    )
                database = self._memory
            else:
                self.path.stat()  # its error says that there is no such file
                if write and not os.access(self.path, os.W_OK):
                    raise PermissionError(errno.EACCES, "may not be written", str(self.path))
                stack.enter_context(_naming(self.path))
                database = _connect(f"{self.path.as_uri()}?mode=rw")
                stack.callback(database.close)
                database.execute("PRAGMA synchronous = EXTRA")  # a crash undoes no charge
            stack.enter_context(database)  # commits, or rolls back
            database.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield database


def seal_of(before: str, *texts: str) -> str:
    """The seal of an entry after the one that is sealed by `before`."""
    return hashlib.sha256(repr((before, *texts)).encode()).hexdigest()


def _connect(database: str) -> sqlite3.Connection:
    """A connection whose transactions begin and end as they are told."""
    return sqlite3.connect(
        database, uri=True, timeout=_WAIT, isolation_level=None, check_same_thread=False
    )


def _create(path: Path) -> None:
    """Make a new and empty file that only its owner can read.

    Raises:
        ValueError: naming the file, if it exists.
        OSError: if it cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        raise ValueError(f"{path}: the file exists, and a filter may spend from it") from None


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors of SQLite as ValueError for a damaged file, and as OSError for all else."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if isinstance(error, sqlite3.OperationalError) and code != sqlite3.SQLITE_ERROR:
            raise OSError(f"{path}: {error}") from error
        raise _damaged(path, error) from error


def _damaged(path: Path | None, error: Exception) -> ValueError:
    """The refusal of a file that is no whole filter."""
    return ValueError(f"{path}: not a filter, or changed or damaged ({error}); {RESTORE}")


def _json(record: Terms | Release) -> str:
    """A record as the file keeps it."""
    return msgspec.json.encode(record).decode()
