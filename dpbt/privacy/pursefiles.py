"""The file of a purse: JSON text with a format, a version and a checksum, written under a lock.

The checksum finds accidents. It is no signature: whoever edits a file can compute another one.
"""

import contextlib
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from dpbt.base import relation
from dpbt.modelfiles import checksum
from dpbt.privacy import accounting
from dpbt.privacy.accounting import Ledger
from dpbt.privacy.filters import Charge, limits
from dpbt.privacy.measures import MEASURES
from dpbt.storage import without_twins, write_whole
from dpbt.validate import positive, whole

FORMAT, VERSION = "dpbt purse", 1


class Terms(NamedTuple):
    """What a purse is for; fixed when it is opened.

    Attributes:
        epsilon: of all releases together.
        delta: of all releases together.
        relation: the name of the neighbouring relation.
        rows_per_person: the most rows that one person has.
        measure: one of `measures.MEASURES`.
    """

    epsilon: float
    delta: float
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
    """

    def __init__(
        self, name: str, charge: Charge, content: dict[str, Any], book: Ledger | None = None
    ):
        self.name, self.charge, self.content, self._book = name, charge, content, book

    def ledger(self) -> Ledger:
        """The ledger of the release.

        Raises:
            ValueError: as `accounting.from_json`.
        """
        if self._book is None:
            self._book = accounting.from_json(self.content)
        return self._book

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spent) and (self.name, self.charge) == (other.name, other.charge)

    __hash__ = None  # type: ignore[assignment]


def new_name() -> str:
    """A name that no other purse has, by which a purse knows its own file."""
    return secrets.token_hex(16)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until no other process or thread holds the purse of a file, and hold it.

    The system releases the lock when a process ends, however it ends. File systems over a network
    may not keep such locks.

    Raises:
        ValueError: on a system without `flock`.
        OSError: if the file of the lock cannot be written.
    """
    try:
        import fcntl
    except ImportError:
        raise ValueError("purses in files need flock, which this system does not have") from None
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(f"{path.name}.lock"), "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write(path: Path, name: str, terms: Terms, spent: tuple[Spent, ...]) -> None:
    """Write a purse whole, or leave the file as it was."""
    content: dict[str, Any] = {
        "format": FORMAT,
        "format_version": VERSION,
        "name": name,
        **terms._asdict(),
        "spent": [
            {
                "name": each.name,
                "cost": each.charge.cost,
                "gap": each.charge.gap,
                "tail": each.charge.tail,
                "ledger": each.content,
            }
            for each in spent
        ],
    }
    content["checksum"] = checksum(content)
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    write_whole(path, lambda part: part.write_text(text, encoding="ascii"))


def read(path: Path) -> tuple[str, Terms, tuple[Spent, ...]]:
    """(name, terms, what was spent) of a file that `write` wrote.

    Raises:
        ValueError: naming the path, for any other file.
        OSError: if the file cannot be read.
    """
    text = path.read_bytes()
    try:
        content = json.loads(text, object_pairs_hook=without_twins, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise ValueError(f"{path}: not a purse, or cut off") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path}: not the file of a purse")
    if content.get("format_version") != VERSION:
        raise ValueError(f"{path}: a purse in another format than {VERSION}, which this dpbt reads")
    if content.get("checksum") != checksum(content):
        raise ValueError(f"{path}: the file was changed or damaged: it lacks its own checksum")
    try:
        return str(content["name"]), _terms(content), tuple(map(_spent, content["spent"]))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path}: a purse with an entry that is none: {error}") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _terms(content: dict[str, Any]) -> Terms:
    terms = Terms(*(content[field] for field in Terms._fields))
    positive("epsilon", terms.epsilon, finite=True)
    if not 0 <= terms.delta < 1:
        raise ValueError("the delta is out of range")
    relation(terms.relation)
    whole("rows_per_person", terms.rows_per_person)
    if terms.measure not in MEASURES:
        raise ValueError("the measure is unknown")
    limits(terms.measure, terms.epsilon, terms.delta)
    return terms


def _spent(entry: dict[str, Any]) -> Spent:
    numbers = [entry[field] for field in ("cost", "gap", "tail")]
    if not all(isinstance(number, int | float) and number >= 0 for number in numbers):
        raise ValueError("a cost is no number of at least 0")
    return Spent(str(entry["name"]), Charge(*map(float, numbers)), dict(entry["ledger"]))
