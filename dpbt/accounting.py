"""Ledgers: what is released, how often, by which mechanism, at what cost, and why.

A ledger is data. It is computed from the noise scales that the program runs with, so that the two cannot
drift apart; a site that no event covers raises.
"""

import dataclasses
import math
from collections.abc import Sequence

from dpbt.base import Relation, relation_name


@dataclasses.dataclass(frozen=True)
class Event:
    """One line of a ledger.

    Attributes:
        site: the site of the release it covers.
        mechanism: the mechanism's name.
        releases: what it publishes, in words.
        count: how often, for each of which epsilon is paid in sequence.
        epsilon: the pure cost of one of them.
        scale: the noise scale, in the unit that `releases` names.
        sensitivity: the bound the noise was set from.
        theorem: where the bound is proved.
    """

    site: str
    mechanism: str
    releases: str
    count: int
    epsilon: float
    scale: float
    sensitivity: float
    theorem: str


@dataclasses.dataclass(frozen=True)
class Ledger:
    """All events of an algorithm under one neighbouring relation, composed in sequence.

    Attributes:
        relation: the neighbouring relation.
        events: the lines.
        unprotected: what the calibration reads off private data without paying for it; when this is not
            empty, `epsilon` is the paper's claim and not a proof.
    """

    relation: Relation
    events: tuple[Event, ...]
    unprotected: tuple[str, ...] = ()

    @property
    def epsilon(self) -> float:
        """The total pure epsilon: the sum over events of count times epsilon."""
        return math.fsum(event.count * event.epsilon for event in self.events)

    def __str__(self) -> str:
        head = ("site", "mechanism", "releases", "count", "scale", "sensitivity", "epsilon", "theorem")
        rows = [head] + [
            (
                e.site,
                e.mechanism,
                e.releases,
                str(e.count),
                f"{e.scale:.4g}",
                f"{e.sensitivity:.4g}",
                f"{e.count * e.epsilon:.4g}",
                e.theorem,
            )
            for e in self.events
        ]
        lines = [align(rows)]
        lines.append(f"total: epsilon = {self.epsilon:.6g} under {relation_name(self.relation)}")
        lines += [f"UNPROTECTED: {words}" for words in self.unprotected]
        return "\n".join(lines)


def pure_epsilon(sensitivity: float, scale: float) -> float:
    """Sensitivity / scale; infinite for scale 0 (no noise)."""
    return sensitivity / scale if scale > 0 else math.inf


def align(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as lines with aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def cover(events: Sequence[Event], sites: Sequence[str]) -> None:
    """Check that events and sites are the same, each once.

    Raises:
        ValueError: naming a site that no event covers, or an event whose site is never released.
    """
    named = [event.site for event in events]
    if sorted(named) != sorted(sites):
        missing, spare = sorted(set(sites) - set(named)), sorted(set(named) - set(sites))
        raise ValueError(f"the ledger does not match the release: not covered {missing}, never released {spare}")


def repeat(event: Event, times: int) -> Event:
    """The event, `times` times in sequence."""
    return dataclasses.replace(event, count=event.count * times)
