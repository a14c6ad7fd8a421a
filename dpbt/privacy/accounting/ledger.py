"""Ledgers: all events of an algorithm, composed under one neighbouring relation, as a table."""

import dataclasses
import math
from collections.abc import Callable, Sequence

from dpbt.base import ADD_REMOVE, REPLACE_ONE, Relation, relation_name
from dpbt.privacy.accounting.conversions import (
    advanced_epsilon,
    gdp_epsilon,
    pld_epsilon,
    rdp_epsilon,
    zcdp_epsilon,
)
from dpbt.privacy.accounting.events import Line


def align(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as lines with aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


RELATION_WORDS = {
    ADD_REMOVE: "one row is there or not, and rows is a public bound on their number",
    REPLACE_ONE: "one row is exchanged, and rows is their public number",
}
"""What a neighbour is and what `rows` means, as README, ledger and docs/threats.md say it."""

EXACT_WORDS = "finitely many bits, within a stated factor of their laws"
FLOAT_WORDS = (
    "FLOAT, real noise in float32, whose reachable values can name a neighbour; no release"
)

KEY_WORDS = {
    "release": (
        "key: 256 bits of ChaCha20; the guarantee is against adversaries of bounded computation"
    ),
    "research": (
        "RESEARCH KEY: it can be searched for, and with it the noise subtracted; no release"
    ),
}
"""What a ledger says of the key that the noise came from."""


def _cells(line: Line) -> tuple[str, ...]:
    """A line of a ledger as cells of its table."""
    theorem = line.event.theorem
    return (
        line.site,
        line.mechanism.name,
        line.event.releases,
        str(line.count),
        f"{line.scale:.4g}",
        f"{line.sensitivity:.4g}",
        f"{line.count * line.epsilon:.4g}",
        f"{line.count * line.rho:.4g}",
        theorem if line.exact else f"FLOAT {theorem}",
    )


@dataclasses.dataclass(frozen=True)
class Ledger:
    """All events of an algorithm under one neighbouring relation, composed in sequence.

    Samplers draw from finitely many bits. With G the sum of the events' gaps and t that of their
    tails, laws that compose to (epsilon, delta) have samplers that compose to
    (epsilon + 2 G, e^G delta + t): with probability 1 - t every output is near both of two values,
    and there the densities of samplers and laws differ by factors of at most e^G.

    Attributes:
        relation: the neighbouring relation.
        lines: one for each site.
        delta: 0 for a guarantee that is pure but for the samplers' t, which `sampler_delta` says.
        unprotected: what the calibration reads off private data without paying for it; when this is
            not empty, `epsilon` is the paper's claim and not a proof.
        key: "release" or "research" where the key of a release is known, else None.
        rows: the recipe's `rows`, where it is known.
    """

    relation: Relation
    lines: tuple[Line, ...]
    delta: float = 0.0
    unprotected: tuple[str, ...] = ()
    key: str | None = None
    rows: int | None = None

    @property
    def pure_epsilon(self) -> float:
        """The sum over lines of count times epsilon; infinite if one of them has no pure cost."""
        return math.fsum(line.count * line.epsilon for line in self.lines)

    @property
    def rho(self) -> float:
        """The zCDP total (Bun & Steinke, 2016): the sum over lines of count times rho."""
        return math.fsum(line.count * line.rho for line in self.lines)

    @property
    def mu(self) -> float:
        """The GDP total (Dong, Roth & Su, 2022): the root of the sum of count times mu^2."""
        return math.sqrt(math.fsum(line.count * line.mu**2 for line in self.lines))

    @property
    def gaussian(self) -> bool:
        """Whether every draw that costs anything is Gaussian, so that GDP composes them exactly."""
        return all(line.mechanism.price.gaussian or line.mu == 0 for line in self.lines)

    @property
    def sampler_epsilon(self) -> float:
        """2 G: what finite bits add to epsilon."""
        return 2 * math.fsum(line.gap for line in self.lines)

    @property
    def sampler_delta(self) -> float:
        """t: what finite bits add to delta."""
        return min(1.0, math.fsum(line.tail for line in self.lines))

    @property
    def exact(self) -> bool:
        """Whether every sampler states how far it is from its law; if not, the total is FLOAT."""
        return all(line.exact for line in self.lines)

    @property
    def epsilon(self) -> float:
        """The claim: pure for delta = 0, else at that delta, or pure if smaller.

        At a delta it is through GDP where all draws are Gaussian, which is exact, and else through
        zCDP. What finite bits cost is in it.
        """
        pure = self.pure_epsilon + self.sampler_epsilon
        if self.delta == 0:
            return pure
        approximate = self.epsilon_at(self.delta, "gdp" if self.gaussian else "zcdp")
        return min(approximate, pure) if self.sampler_delta <= self.delta else approximate

    def epsilon_at(self, delta: float, accountant: str = "zcdp") -> float:
        """The epsilon at a delta in (0, 1), by one accountant; what finite bits cost is in it.

        Args:
            delta: in (0, 1).
            accountant: "pure", "advanced" (composition theorem of Asadi et al., 2.8), "zcdp",
                "gdp", "rdp" or "pld".

        Returns:
            Infinity where a draw has no noise, or where finite bits cost more than delta.

        Raises:
            ValueError: for another accountant, or a mechanism it does not know.
        """
        if not 0 < delta < 1:
            raise ValueError(f"delta must be in (0, 1), got {delta}")

        # What finite bits leave of delta to the laws of the mechanisms.
        left = (delta - self.sampler_delta) * math.exp(-self.sampler_epsilon / 2)
        accountants: dict[str, Callable[[], float]] = {
            "pure": lambda: self.pure_epsilon,
            "advanced": lambda: advanced_epsilon(self.lines, left),
            "zcdp": lambda: zcdp_epsilon(self.rho, left),
            "gdp": lambda: gdp_epsilon(self.mu, left),
            "rdp": lambda: rdp_epsilon(self.lines, left),
            "pld": lambda: pld_epsilon(self.lines, left),
        }
        if accountant not in accountants:
            raise ValueError(f"accountant must be one of {sorted(accountants)}, got {accountant!r}")
        if left <= 0 or math.isinf(self.rho):
            return math.inf
        return accountants[accountant]() + self.sampler_epsilon

    def __str__(self) -> str:
        head = (
            "site",
            "mechanism",
            "releases",
            "count",
            "scale",
            "sensitivity",
            "epsilon",
            "rho",
            "theorem",
        )
        rows = [_cells(line) for line in self.lines]
        bits = f"{self.sampler_epsilon:.4g}"
        where = f"delta {self.sampler_delta:.2g}; docs/privacy.md 14"
        rows.append(("(bits)", "samplers", "finite bits of all draws", "", "", "", bits, "", where))
        return "\n".join([align([head, *rows]), *self._footers()])

    def _footers(self) -> list[str]:
        """The total, and what to know of it."""
        mark = "" if self.exact else "FLOAT "
        total = f"total: epsilon = {mark}{self.epsilon:.6g}"
        if self.delta:
            total += f", delta = {self.delta:g} (rho = {self.rho:.6g} zCDP)"
        elif self.sampler_delta:
            total += f", delta = {self.sampler_delta:.2g}"
        lines = [f"{total} under {relation_name(self.relation)}", self._neighbours()]
        lines.append(f"samplers: {EXACT_WORDS if self.exact else FLOAT_WORDS}")
        lines += [f"UNPROTECTED: {reading}" for reading in self.unprotected]
        return [*lines, *([KEY_WORDS[self.key]] if self.key else [])]

    def _neighbours(self) -> str:
        """The neighbouring relation in words, with the number that `rows` is."""
        meaning = RELATION_WORDS.get(self.relation, "")
        if self.rows is not None:
            meaning = meaning.replace("rows is", f"rows = {self.rows} is")
        return f"neighbours: {meaning}"
