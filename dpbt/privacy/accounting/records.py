"""Ledgers as JSON content, and back."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from dpbt.base import relation, relation_name
from dpbt.modelfiles import from_number
from dpbt.privacy import entries, mechanisms
from dpbt.privacy.accounting.choices import Choice, ChoiceLedger, with_choice
from dpbt.privacy.accounting.events import Event, Line
from dpbt.privacy.accounting.ledger import Ledger, composed


def to_json(book: Ledger) -> dict[str, Any]:
    """The numbers and words of a ledger, from which `from_json` makes it again.

    A sum has its parts, beside all of their lines.
    """
    content = {
        "relation": relation_name(book.relation),
        "rows": book.rows,
        "rows_per_person": book.rows_per_person,
        "epsilon": from_number(book.epsilon),
        "delta": from_number(book.delta),
        "sampler_delta": from_number(book.sampler_delta),
        "exact": book.exact,
        "unprotected": list(book.unprotected),
        "key": book.key,
        "lines": [content_of(line) for line in book.lines],
        **_choice_to_json(book),
    }
    if book.parts:
        content["parts"] = [to_json(part) for part in book.parts]
    return content


def _choice_to_json(book: Ledger) -> dict[str, Any]:
    """The entry of a choice, where the ledger is of one."""
    if not isinstance(book, ChoiceLedger):
        return {}
    content = dataclasses.asdict(book.choice)
    for name in _NUMBERS:
        content[name] = from_number(content[name])
    return {"choice": content}


_NUMBERS = ("epsilon", "rho", "mu", "gap", "tail", "gamma", "eta")


def _choice(content: Mapping[str, Any]) -> Choice:
    kept = {field.name: content[field.name] for field in dataclasses.fields(Choice)}
    return Choice(**{**kept, **{name: float(content[name]) for name in _NUMBERS}})


def content_of(line: Line) -> dict[str, Any]:
    """The numbers and words of a line, from which `line_of` makes it again."""
    event = line.event
    return {
        "site": line.site,
        "mechanism": line.mechanism.name,
        "releases": event.releases,
        "sensitivity": from_number(line.sensitivity),
        "scale": from_number(line.scale),
        "scale_unit": from_number(float(event.scale_unit)),
        "theorem": event.theorem,
        "count": int(event.count),
        "moved": None if event.moved is None else int(event.moved),
        "unit": event.unit,
        "times": int(line.times),
        "gap": from_number(line.gap),
        "tail": from_number(line.tail),
        "exact": line.exact,
    }


def from_json(content: Mapping[str, Any]) -> Ledger:
    """The ledger that `to_json` kept.

    Raises:
        ValueError: for a mechanism that is not of dpbt, or content that is no ledger.
    """
    entries.check("the ledger", content, entries.LEDGER)
    delta = float(content["delta"])
    if "parts" in content:
        return composed([from_json(part) for part in content["parts"]], delta)
    book = Ledger(
        relation(content["relation"]),
        tuple(line_of(entry) for entry in content["lines"]),
        delta,
        tuple(content["unprotected"]),
        content["key"],
        content["rows"],
        content["rows_per_person"],
    )
    if "choice" not in content:
        return book
    *fit, score = book.lines
    fitted = dataclasses.replace(book, lines=tuple(fit))
    return with_choice(fitted, book.key, _choice(content["choice"]), score)


def line_of(entry: Mapping[str, Any]) -> Line:
    """The line that `content_of` kept.

    Raises:
        ValueError: for a mechanism that is not of dpbt.
    """
    name = entry["mechanism"]
    if name not in mechanisms.BY_NAME:
        raise ValueError(
            f"the draw {entry['site']!r} is by a mechanism of its author's own, {name!r}, whose "
            "price no file keeps; read the ledger as text"
        )
    numbers = {field: float(entry[field]) for field in ("sensitivity", "scale", "scale_unit")}
    kept = ("site", "releases", "theorem", "unit", "count", "moved")
    words = {field: entry[field] for field in kept}
    event = Event(mechanism=mechanisms.BY_NAME[name], **numbers, **words)
    bits = float(entry["gap"]), float(entry["tail"])
    return Line(event, entry["times"], *bits, entry["exact"])
