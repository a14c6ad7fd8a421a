"""Ledgers: all lines of an algorithm, composed under one neighbouring relation, as a table."""

import dataclasses
import math
from collections.abc import Callable, Sequence

from dpbt.base import ADD_REMOVE, GRID, REPLACE_ONE, Relation, relation_name
from dpbt.privacy.accounting.conversions import (
    advanced_epsilon,
    gdp_epsilon,
    pld_epsilon,
    rdp_epsilon,
    zcdp_epsilon,
)
from dpbt.privacy.accounting.events import Line
from dpbt.storage import HoldsFunctions
from dpbt.validate import positive, shown


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
"""What a neighbour is and what `rows` means; README and docs/threats.md use the same words."""

EXACT_WORDS = "finitely many bits, within a stated factor of their laws"
FLOAT_WORDS = (
    "lines marked FLOAT state no distance of their samplers from their laws; the values that such "
    "noise can reach may name a neighbour, so release nothing"
)

KEY_WORDS = {
    "release": (
        "key: 256 bits of ChaCha20; the guarantee is against adversaries of bounded computation"
    ),
    "research": (
        "RESEARCH KEY: whoever finds it by search can subtract the noise; release nothing"
    ),
}
"""What a ledger says about the key that the noise came from."""


def people_words(rows_per_person: int) -> str:
    """What a ledger says about people who have several rows."""
    return (
        f"people: all rows of one person together, up to {rows_per_person}; that nobody has more "
        "is the owner's promise"
    )


ROW = "row"
"""The unit of numbers that are measured in weights of rows."""

ROW_STEP = f"1/{GRID} row"
"""The unit of weights that are integers, 0..GRID."""

_UNIT_WORDS = {
    ROW: "a row is the largest weight that one row may have in its round",
    ROW_STEP: f"1/{GRID} row is the step in which weights are counted",
}
_COLUMN_WORDS = (
    "count: how often the draw is paid for, over all rounds; epsilon and rho (zCDP) add these up",
    "scale: the noise; sensitivity: what one row moves; both are in the unit of their line",
)


def _cells(line: Line) -> tuple[str, ...]:
    """A line of a ledger as cells of its table."""
    theorem = line.event.theorem
    return (
        line.site,
        line.mechanism.name,
        line.event.releases,
        str(line.count),
        f"{line.scale:.4g}" if line.mechanism.price.reads_rows else "",
        f"{line.sensitivity:.4g}",
        line.event.unit,
        f"{line.count * line.epsilon:.4g}",
        f"{line.count * line.rho:.4g}",
        theorem if line.exact else f"FLOAT {theorem}",
    )


@dataclasses.dataclass(frozen=True)
class Ledger(HoldsFunctions):
    """All lines of an algorithm under one neighbouring relation, composed in sequence.

    Samplers draw from finitely many bits. Let G be the sum of the lines' gaps and t that of their
    tails. If the laws compose to (epsilon, delta), then the samplers compose to
    (epsilon + 2 G, e^G delta + t). The reason is that every output is near both of two values with
    probability 1 - t. There the densities of samplers and laws differ by factors of at most e^G.

    Attributes:
        relation: the neighbouring relation.
        lines: one for each site.
        delta: of the guarantee; 0 for one that is pure up to the samplers' t, `sampler_delta`.
        unprotected: what the calibration reads off private data without paying for it. If it is not
            empty, `epsilon` is the paper's claim and not a proof.
        key: "release" or "research" where the key of a release is known, else None.
        rows: the recipe's `rows`, where it is known.
        rows_per_person: the most rows that one person has, as the owner promises. Sensitivities are
            for all of them together.
    """

    relation: Relation
    lines: tuple[Line, ...]
    delta: float = 0.0
    unprotected: tuple[str, ...] = ()
    key: str | None = None
    rows: int | None = None
    rows_per_person: int = 1

    _keep = "str(ledger), or the numbers of its lines"

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
    def accountant(self) -> str:
        """The accountant of the guarantee at a delta: "gdp" where it is exact, and else "zcdp"."""
        return "gdp" if self.gaussian else "zcdp"

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
        """Whether every sampler states how far it is from its law. If not, the total is FLOAT."""
        return all(line.exact for line in self.lines)

    @property
    def epsilon(self) -> float:
        """The epsilon of the guarantee, with what finite bits cost.

        It is the pure one for delta = 0. Otherwise it is the one at that delta: through GDP where
        all draws are Gaussian, which is exact, and else through zCDP. It is the pure one if that
        is smaller.
        """
        pure = self.pure_epsilon + self.sampler_epsilon
        if self.delta == 0:
            return pure
        approximate = self.epsilon_at(self.delta, self.accountant)
        return min(approximate, pure) if self.sampler_delta <= self.delta else approximate

    def epsilon_at(self, delta: float, accountant: str = "zcdp") -> float:
        """The epsilon at a delta in (0, 1) by one accountant, with what finite bits cost.

        Args:
            delta: in (0, 1).
            accountant: "pure", "advanced" (Asadi et al. (2022), Theorem 2.8), "zcdp", "gdp", "rdp"
                or "pld".

        Returns:
            Infinity where a draw has no noise, or where finite bits cost more than delta.

        Raises:
            ValueError: for a delta outside (0, 1), or another accountant.
        """
        delta = float(positive("delta", delta, below=1))

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
            raise ValueError(
                f"accountant must be one of {sorted(accountants)}, got {shown(accountant)}"
            )
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
            "unit",
            "epsilon",
            "rho",
            "theorem",
        )
        rows = [_cells(line) for line in self.lines]
        bits = f"{self.sampler_epsilon:.4g}"
        where = f"delta {self.sampler_delta:.2g}; docs/privacy.md 14"
        what = "nothing; the cost of finitely many bits"
        rows.append(("(bits)", "samplers", what, "", "", "", "", bits, "", where))
        return "\n".join([align([head, *rows]), *self._footers()])

    def _footers(self) -> list[str]:
        """The total, the guarantee in words, and the meaning of columns and units."""
        mark = "" if self.exact else "FLOAT "
        total = f"total: epsilon = {mark}{self.epsilon:.6g}"
        if self.delta:
            by = f"mu = {self.mu:.6g} GDP" if self.gaussian else f"rho = {self.rho:.6g} zCDP"
            total += f", delta = {self.delta:g} ({by})"
        elif self.sampler_delta:
            total += f", delta = {self.sampler_delta:.2g}"
        lines = [f"{total} under {relation_name(self.relation)}", self._neighbours()]
        if self.rows_per_person > 1:
            lines.append(people_words(self.rows_per_person))
        lines.append(f"samplers: {EXACT_WORDS if self.exact else FLOAT_WORDS}")
        for reading in self.unprotected:
            lines.append(f"UNPROTECTED: {reading}; epsilon is the paper's claim and not a proof")
        if self.key:
            lines.append(KEY_WORDS[self.key])
        return [*lines, *self._legend()]

    def _legend(self) -> list[str]:
        """The meaning of columns, of infinite costs and of the units that lines have."""
        lines: list[str] = [*_COLUMN_WORDS]
        units = {line.event.unit for line in self.lines}
        if units & set(_UNIT_WORDS):  # the words for a step refer to those for a row
            words = list(_UNIT_WORDS.values()) if ROW_STEP in units else [_UNIT_WORDS[ROW]]
            lines.append(f"unit: {'; '.join(words)}")
        if any(math.isinf(line.epsilon) and math.isfinite(line.rho) for line in self.lines):
            lines.append(
                "inf: the draw has no pure epsilon, like Gaussian noise; rho gives the total"
            )
        return lines

    def _neighbours(self) -> str:
        """The neighbouring relation in words, with the number that `rows` is."""
        meaning = RELATION_WORDS.get(self.relation, "")
        if self.rows is not None:
            meaning = meaning.replace("rows is", f"rows = {self.rows} is")
        return f"neighbours: {meaning}"
