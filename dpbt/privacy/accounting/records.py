"""Ledgers as records of files, and back."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from dpbt.base import relation, relation_name
from dpbt.formats import ChoiceRecord, LedgerRecord, LineRecord, decode
from dpbt.privacy import mechanisms
from dpbt.privacy.accounting.choices import Choice, ChoiceLedger, with_choice
from dpbt.privacy.accounting.events import Event, Line
from dpbt.privacy.accounting.ledger import Ledger, composed

T = TypeVar("T")


def to_json(ledger: Ledger) -> dict[str, Any]:
    """The numbers and words of a ledger as JSON content, from which `from_json` makes it again."""
    return msgspec.to_builtins(to_record(ledger))


def from_json(content: Mapping[str, Any]) -> Ledger:
    """The ledger that `to_json` kept.

    Raises:
        ValueError: for a mechanism that is not of dpbt, or content that is no ledger.
    """
    return of_record(decode(LedgerRecord, content, "the ledger"))


def to_record(ledger: Ledger) -> LedgerRecord:
    """The numbers and words of a ledger. A sum has its parts, beside all of their lines."""
    own = ("rows", "max_rows_per_user", "epsilon", "delta", "sampler_delta", "exact", "key")
    fields = {name: getattr(ledger, name) for name in own}
    choice = None
    if isinstance(ledger, ChoiceLedger):
        choice = _record(ChoiceRecord, dataclasses.asdict(ledger.choice))
    return _record(
        LedgerRecord,
        {
            **fields,
            "relation": relation_name(ledger.relation),
            "unprotected": list(ledger.unprotected),
            "lines": [line_record(line) for line in ledger.lines],
            "choice": choice,
            "parts": [to_record(part) for part in ledger.parts],
        },
    )


def line_record(line: Line) -> LineRecord:
    """The numbers and words of a line, from which `line_of` makes it again."""
    own = {name: getattr(line, name) for name in _OF_LINES}
    return _record(LineRecord, {**vars(line.event), **own, "mechanism": line.mechanism.name})


_OF_LINES = ("times", "gap", "tail", "exact")


def _record(kind: type[T], fields: Mapping[str, Any]) -> T:
    """A record of plain numbers and words; an infinite number is a word."""
    plain = {
        name: value.item() if hasattr(value, "item") else value for name, value in fields.items()
    }
    words = {name: "inf" if value == math.inf else value for name, value in plain.items()}
    return decode(kind, words, "the ledger")


def of_record(record: LedgerRecord) -> Ledger:
    """The ledger of a record.

    Raises:
        ValueError: for a mechanism that is not of dpbt.
    """
    if record.parts:
        return composed([of_record(part) for part in record.parts], record.delta)
    ledger = Ledger(
        relation(record.relation),
        tuple(map(line_of, record.lines)),
        record.delta,
        tuple(record.unprotected),
        record.key,
        record.rows,
        record.max_rows_per_user,
    )
    if record.choice is None:
        return ledger
    *fit, score = ledger.lines
    fitted = dataclasses.replace(ledger, lines=tuple(fit))
    return with_choice(fitted, ledger.key, Choice(**_numbers(record.choice)), score)


def line_of(record: LineRecord) -> Line:
    """The line of a record.

    Raises:
        ValueError: for a mechanism that is not of dpbt.
    """
    if record.mechanism not in mechanisms.BY_NAME:
        raise ValueError(
            f"the draw {record.site!r} is by a mechanism of its author's own, "
            f"{record.mechanism!r}, whose price no file keeps; read the ledger as text"
        )
    fields: dict[str, Any] = {**_numbers(record), "mechanism": mechanisms.BY_NAME[record.mechanism]}
    own = {name: fields.pop(name) for name in _OF_LINES}
    return Line(Event(**fields), **own)


def _numbers(record: msgspec.Struct) -> dict[str, Any]:
    """The fields of a record, with infinite numbers in place of their word."""
    fields = msgspec.structs.asdict(record)
    return {name: math.inf if value == "inf" else value for name, value in fields.items()}
