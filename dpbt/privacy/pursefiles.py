"""The file of a purse: JSON text with a format, a version and a checksum, written under a lock.

The checksum finds accidents. It is no signature: whoever edits a file can compute another one.
"""

import contextlib
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

from dpbt import modelfiles, storage
from dpbt.base import MOST_CHUNKED_ROWS
from dpbt.modelfiles import checksum
from dpbt.privacy import accounting
from dpbt.privacy.accounting import Ledger
from dpbt.privacy.entries import (
    DIGITS,
    LEDGER,
    NULL,
    TEXT,
    among,
    check,
    either,
    number,
    whole,
)
from dpbt.privacy.filters import Charge, limits
from dpbt.privacy.measures import MEASURES
from dpbt.storage import write_whole
from dpbt.validate import positive

FORMAT, VERSION = "dpbt purse", 1

RESTORE = (
    "bring back a copy that has every release, or open a purse of what the releases left of the "
    "budget"
)
"""What to do about a purse whose file is damaged."""


class Terms(NamedTuple):
    """What a purse is for; fixed when it is opened.

    Attributes:
        epsilon: of all releases together.
        delta: of all releases together.
        rows: the public bound on the number of rows, or under replace_one their public number.
        relation: the name of the neighbouring relation.
        rows_per_person: the most rows that one person has.
        measure: one of `measures.MEASURES`.
    """

    epsilon: float
    delta: float
    rows: int
    relation: str
    rows_per_person: int
    measure: str

    @property
    def unit(self) -> str:
        """The name of what is added up."""
        return "mu^2" if self.measure == "mu" else self.measure


class Spent:
    """One release that a purse paid for.

    Attributes:
        name: of the recipe.
        charge: what it costs.
        content: its ledger, as `accounting.to_json` keeps it.
        mark: of its key, by `Identity.mark`; None if the purse was not given the key.
        run: of the run of a checkpoint that it pays for, by `Identity.mark`; None if there is none.
    """

    def __init__(
        self,
        name: str,
        charge: Charge,
        content: dict[str, Any],
        mark: str | None = None,
        book: Ledger | None = None,
        run: str | None = None,
    ):
        self.name, self.charge, self.content = name, charge, content
        self.mark, self.run = mark, run
        self._book = book

    def ledger(self) -> Ledger:
        """The ledger of the release.

        Raises:
            ValueError: as `accounting.from_json`.
        """
        if self._book is None:
            self._book = accounting.from_json(self.content)
        return self._book

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spent) and self._known_by() == other._known_by()

    __hash__ = None  # type: ignore[assignment]

    def _known_by(self) -> tuple[str, Charge, str | None]:
        return self.name, self.charge, self.mark


class Identity(NamedTuple):
    """What tells a purse from all others.

    Attributes:
        name: by which a purse knows its own file.
        salt: 256 random bits in hexadecimal digits, under which keys are marked.
    """

    name: str
    salt: str

    @classmethod
    def new(cls) -> Self:
        """The identity of a new purse."""
        return cls(secrets.token_hex(16), secrets.token_hex(32))

    def mark(self, words: bytes) -> str:
        """The HMAC-SHA256 of the words of a key or of a run, by which they are known again.

        It does not tell a key of 256 bits. A research key has at most 64 bits, so a search finds it
        from the mark and the salt, as from what was released.
        """
        return hmac.new(bytes.fromhex(self.salt), words, hashlib.sha256).hexdigest()


def real(path: Path) -> Path:
    """The path of the file itself, which no symbolic link is part of.

    A purse locks and replaces the file by this path. So all links to one file lead to one budget.

    Raises:
        OSError: for links that lead in a circle.
    """
    try:
        return path.resolve()
    except RuntimeError as error:
        raise OSError(f"{path}: symbolic links that lead in a circle") from error


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until no other process or thread holds the purse of a file, and hold it.

    Args:
        path: of the file itself, as `real` gives it.

    Raises:
        ValueError: on a system without `flock`.
        OSError: if the file of the lock cannot be written.
    """
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(storage.locked(path.with_name(f"{path.name}.lock")))
        except ImportError:
            words = "purses in files need flock, which this system does not have"
            raise ValueError(words) from None
        yield


def write(path: Path, identity: Identity, terms: Terms, spent: tuple[Spent, ...]) -> None:
    """Write a purse whole and to the disk, or leave the file as it was.

    A file that exists keeps its permissions. Nobody but the owner can read a new one.
    """
    content: dict[str, Any] = {
        "format": FORMAT,
        "format_version": VERSION,
        **identity._asdict(),
        **terms._asdict(),
        "spent": [
            {
                "name": each.name,
                "cost": each.charge.cost,
                "gap": each.charge.gap,
                "tail": each.charge.tail,
                "key": each.mark,
                "run": each.run,
                "ledger": each.content,
            }
            for each in spent
        ],
    }
    content["checksum"] = checksum(content)
    text = (json.dumps(content, indent=1, allow_nan=False) + "\n").encode("ascii")
    write_whole(path, lambda part: part.write_bytes(text), mode=0o600, durable=True)


def check_writable(path: Path) -> None:
    """Refuse to spend from a file that must not be written; replacing it would not ask.

    Raises:
        ValueError: naming the path.
        OSError: if there is no such file.
    """
    if not path.stat().st_mode & 0o222 or not os.access(path, os.W_OK):
        raise ValueError(f"{path}: the file may not be written, so nothing can be spent from it")


def read(path: Path) -> tuple[Identity, Terms, tuple[Spent, ...]]:
    """(identity, terms, what was spent) of a file that `write` wrote.

    Raises:
        ValueError: naming the path, for any other file. Also for a file that has another name by a
            hard link: a charge replaces the file under one name, and the other would keep the rest.
        OSError: if the file cannot be read.
    """
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_nlink > 1:
            raise ValueError(
                f"{path}: the file has a second name by a hard link, under which it could be spent "
                "again; keep one name"
            )
        text = file.read()
    content = modelfiles.own(path, text, FORMAT, VERSION, "a purse", RESTORE)
    try:
        check("the content", content, _CONTENT)
        identity = Identity(content["name"], content["salt"])
        return identity, _terms(content), tuple(map(_spent, content["spent"]))
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"{path}: a purse with an entry that is none: {error}") from None


_CONTENT = {
    "name": TEXT,
    "salt": DIGITS,
    "epsilon": number(),
    "delta": number(0, 1),
    "rows": whole(MOST_CHUNKED_ROWS),
    "relation": among("add_remove", "replace_one"),
    "rows_per_person": whole(2**31 - 1),
    "measure": among(*MEASURES),
    "spent": [
        {
            "name": TEXT,
            **dict.fromkeys(("cost", "gap", "tail"), number()),
            **dict.fromkeys(("key", "run?"), either(DIGITS, NULL)),
            "ledger": LEDGER,
        }
    ],
}


def _terms(content: dict[str, Any]) -> Terms:
    terms = Terms(*(content[field] for field in Terms._fields))
    limits(terms.measure, float(positive("epsilon", terms.epsilon)), terms.delta)
    return terms


def _spent(entry: dict[str, Any]) -> Spent:
    charge = Charge(*(float(entry[field]) for field in ("cost", "gap", "tail")))
    return Spent(entry["name"], charge, entry["ledger"], entry["key"], run=entry.get("run"))
