"""Ledgers: all lines of an algorithm, composed under one neighbouring relation, as a table."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from dpbt.base import ADD_REMOVE, GRID, REPLACE_ONE, Relation, relation_name
from dpbt.privacy.accounting.conversions import (
    advanced_epsilon,
    dp_event_of,
    gdp_epsilon,
    pld_epsilon,
    rdp_epsilon,
    zcdp_epsilon,
)
from dpbt.privacy.accounting.events import Line
from dpbt.storage import HoldsFunctions
from dpbt.validate import one_of, positive, shown

if TYPE_CHECKING:
    from dp_accounting.dp_event import ComposedDpEvent


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


PARTS_WORDS = (
    "sum: a site begins with the number of its release; the total is for one neighbour in all of "
    "them, and each has its own rows"
)
"""What the ledger of a sum says about its parts."""


def people_words(max_rows_per_user: int) -> str:
    """What a ledger says about people who have several rows."""
    return (
        f"people: all rows of one person together, up to {max_rows_per_user}; that nobody has more "
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


def _part_words(number: int, part: Ledger) -> str:
    """One release of a sum in one line."""
    words = f"release {number}: {part.kind_words}epsilon = {part.epsilon:.6g}"
    if part.delta:
        words += f", delta = {part.delta:g}"
    if part.rows is not None:
        words += f", rows = {part.rows}"
    return words if part.key is None else f"{words}, {part.key} key"


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
        max_rows_per_user: the most rows that one person has, as the owner promises. Sensitivities
            are for all of them together.
        parts: the ledgers that a sum was made of (`composed`); empty for a ledger that is no sum.
    """

    relation: Relation
    lines: tuple[Line, ...]
    delta: float = 0.0
    unprotected: tuple[str, ...] = ()
    key: str | None = None
    rows: int | None = None
    max_rows_per_user: int = 1
    parts: tuple[Ledger, ...] = ()

    _keep = "str(ledger), or the numbers of its lines"

    kind_words = ""
    """What a sum says of this ledger before its total."""

    @property
    def composes(self) -> bool:
        """Whether the lines compose in sequence to the total. If not, no sum composes them."""
        return True

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
        return all(line.exact for line in self.lines) and all(part.exact for part in self.parts)

    @property
    def epsilon(self) -> float:
        """The epsilon of the guarantee, with what finite bits cost.

        It is the pure one for delta = 0. Otherwise it is the one at that delta: through GDP where
        all draws are Gaussian, which is exact, and else through zCDP. It is the pure one if that
        is smaller. Of a sum it is never more than the sum of the parts' epsilons.
        """
        pure = self.pure_epsilon + self.sampler_epsilon
        if self.delta == 0:
            return pure
        approximate = self.epsilon_at(self.delta, self.accountant)
        joint = min(approximate, pure) if self.sampler_delta <= self.delta else approximate
        return min(joint, self._basic_epsilon)

    @property
    def _basic_epsilon(self) -> float:
        """The sum of the parts' epsilons; infinite without parts, or if their deltas are more."""
        if not self.parts or _delta_of(self.parts) > self.delta:
            return math.inf
        return math.fsum(part.epsilon for part in self.parts)

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

    def dp_event(self, accountant: str = "rdp") -> ComposedDpEvent:
        """All draws as one event of dp_accounting, for its accountants to check the total.

        It is of the laws alone: what finite bits cost is not in it. Sensitivities are those of the
        ledger's relation, so the ratios in the event hold under it as they are.

        - `RdpAccountant(neighboring_relation=r)` takes every relation r, and uses none. Selections
          and discrete Laplace noise are `ZCDpEvent`: it has no event that is closer.
        - `PLDAccountant()` must keep its default, ADD_OR_REMOVE_ONE, whatever the relation of the
          ledger is. With REPLACE_ONE it doubles the sensitivity of Gaussian events, and refuses
          Laplace events. It refuses `ZCDpEvent`, so a ledger with a selection has no such event.
          There `epsilon_at(delta, "pld")` composes instead.

        Args:
            accountant: "rdp" or "pld", the accountant that is to read it.

        Raises:
            ValueError: for another accountant.
        """
        return dp_event_of(self.lines, accountant)

    def __add__(self, other: Ledger) -> Ledger:
        """The ledger of both releases together; see `composed`."""
        if not isinstance(other, Ledger):
            return NotImplemented
        return composed([*self._addends(), *other._addends()])

    def __radd__(self, other: int) -> Ledger:
        """The ledger itself, so that `sum` takes ledgers: it begins with 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def _addends(self) -> tuple[Ledger, ...]:
        """The parts of a sum whose delta is theirs; else the ledger itself."""
        return self.parts if self.parts and self.delta == _delta_of(self.parts) else (self,)

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
        mark, how = "" if self.exact else "FLOAT ", self._by()
        total = f"total: epsilon = {mark}{self.epsilon:.6g}"
        if self.delta:
            total += f", delta = {self.delta:g}" + (f" ({how})" if how else "")
        elif self.sampler_delta:
            total += f", delta = {self.sampler_delta:.2g}"
        lines = [f"{total} under {relation_name(self.relation)}"]
        lines += [_part_words(number, part) for number, part in enumerate(self.parts, 1)]
        if self.parts:
            lines.append(PARTS_WORDS)
        lines.append(self._neighbours())
        if self.max_rows_per_user > 1:
            lines.append(people_words(self.max_rows_per_user))
        lines.append(f"samplers: {EXACT_WORDS if self.exact else FLOAT_WORDS}")
        for reading in self.unprotected:
            lines.append(f"UNPROTECTED: {reading}; epsilon is the paper's claim and not a proof")
        if self.key:
            lines.append(KEY_WORDS[self.key])
        return [*lines, *self._legend()]

    def _by(self) -> str:
        """What an epsilon at a delta was computed by."""
        if self._basic_epsilon == self.epsilon < math.inf:
            return "the sum of the parts"
        return f"mu = {self.mu:.6g} GDP" if self.gaussian else f"rho = {self.rho:.6g} zCDP"

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


class Indivisible(Ledger):
    """A ledger whose lines do not compose to its total, such as that of a choice.

    It has no rho, no mu and no event of dp_accounting: totals in these are infinite.
    """

    @property
    def composes(self) -> bool:
        """False: the lines are of one run, and the total is of the best of several."""
        return False

    @property
    def rho(self) -> float:
        """Infinite: a choice has no zCDP total."""
        return math.inf

    @property
    def mu(self) -> float:
        """Infinite: a choice has no GDP total."""
        return math.inf

    @property
    def gaussian(self) -> bool:
        """False: GDP does not compose a choice."""
        return False

    def dp_event(self, accountant: str = "rdp") -> NoReturn:
        """Refused: dp_accounting has no event for the law of every number of runs.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"{self.kind_words}is no event of dp_accounting; use its total")


@dataclasses.dataclass(frozen=True)
class BasicSum(Indivisible):
    """A sum with a part whose lines do not compose, such as a choice: totals add up.

    Guarantee. By basic composition (Dwork & Roth, 2014, Theorem 3.16) the epsilons of the parts add
    up, and so do their deltas. The parts whose lines compose count as one part, with their joint
    total. `lines` are those of all parts, and for a choice those of one run. The sum has no rho and
    no mu, so these are infinite.
    """

    kind_words = "a sum with a choice, "

    def _apart(self) -> list[Ledger]:
        """What is added up: all parts whose lines compose, as one ledger, and each other part."""
        joint = [part for part in self.parts if part.composes]
        rest = [part for part in self.parts if not part.composes]
        return [composed(joint), *rest] if joint else rest

    @property
    def pure_epsilon(self) -> float:
        """The sum of the parts' pure epsilons."""
        return math.fsum(part.pure_epsilon for part in self.parts)

    @property
    def accountant(self) -> str:
        """The totals of the parts: "basic"."""
        return "basic"

    @property
    def sampler_epsilon(self) -> float:
        """What finite bits add to epsilon, over all parts."""
        return math.fsum(part.sampler_epsilon for part in self.parts)

    @property
    def sampler_delta(self) -> float:
        """What finite bits add to delta, over all parts."""
        return min(1.0, math.fsum(part.sampler_delta for part in self.parts))

    @property
    def epsilon(self) -> float:
        """The epsilon of the guarantee, with what finite bits cost.

        With a delta it is the sum of epsilons at the parts' own deltas, or at equal shares of the
        delta (`epsilon_at`) if that is less.
        """
        if self.delta == 0:
            return self.pure_epsilon + self.sampler_epsilon
        return min(self._basic_epsilon, self.epsilon_at(self.delta))

    @property
    def _basic_epsilon(self) -> float:
        """The sum of epsilons at the parts' own deltas; infinite if these are more than delta."""
        if math.fsum(part.delta or part.sampler_delta for part in self.parts) > self.delta:
            return math.inf
        return math.fsum(part.epsilon for part in self._apart())

    def epsilon_at(self, delta: float, accountant: str = "basic") -> float:
        """The epsilon at a delta in (0, 1), of which each part has an equal share.

        Args:
            delta: in (0, 1).
            accountant: "basic"; each part has its own.

        Returns:
            Infinity where a draw has no noise, or where finite bits cost too much.

        Raises:
            ValueError: for a delta outside (0, 1), or another accountant.
        """
        delta = float(positive("delta", delta, below=1))
        one_of("accountant of a sum with a choice", accountant, ("basic",))
        parts = self._apart()
        share = delta / len(parts)
        return math.fsum(part.epsilon_at(share, part.accountant) for part in parts)

    def _by(self) -> str:
        return "the sum of the parts"


def composed(parts: Sequence[Ledger], delta: float | None = None) -> Ledger:
    """The ledger of several releases of the same rows together; `ledger + ledger` is the same.

    Guarantee. Neighbours differ in one row (or in all rows of one person) of every release at once.
    All lines are composed jointly, at the sum of the deltas. So the epsilon is at most the sum of
    the epsilons, and mostly far below. A choice (`ChoiceLedger`) has no lines that compose, so its
    total is added to that of the others (`BasicSum`). The releases may have been chosen after one
    another, but their number and their costs may not follow from what was released:
    `dpbt.Filter` is for that.

    - A part without a delta counts with the delta of its samplers, if another part has one.
    - Each part's claim is for tables within its own `rows`. So under add/remove the sum's claim is
      for tables within the smallest of them, if all parts read one table. `rows` of the sum is
      what all parts agree on, or None.
    - Sites get the number of their part, as in "2.leaf". What is unprotected does, too.
    - One research key makes the sum a research release. It is a release of 256 bits if all are.

    Args:
        parts: at least one ledger. A part that is a sum stays one part.
        delta: of the sum, in place of the sum of the deltas.

    Raises:
        ValueError: for no parts, two relations, two numbers of rows a person, or deltas that add up
            to 1 or more.
    """
    parts = tuple(parts)
    if not parts:
        raise ValueError("a sum of ledgers needs at least one ledger")
    first = parts[0]
    for part in parts[1:]:
        if part.relation is not first.relation:
            raise ValueError(
                "ledgers add up under one relation, got "
                f"{relation_name(first.relation)} and {relation_name(part.relation)}"
            )
        if part.max_rows_per_user != first.max_rows_per_user:
            raise ValueError(
                "ledgers add up for one number of max_rows_per_user, got "
                f"{first.max_rows_per_user} and {part.max_rows_per_user}"
            )
    total = _delta_of(parts) if delta is None else delta
    if not 0 <= total < 1:
        raise ValueError(f"the deltas of the ledgers must add up to less than 1, got {total:g}")
    numbered = list(enumerate(parts, 1))
    kind = Ledger if all(part.composes for part in parts) else BasicSum
    return kind(
        first.relation,
        tuple(_numbered(number, line) for number, part in numbered for line in part.lines),
        total,
        tuple(f"{number}. {words}" for number, part in numbered for words in part.unprotected),
        _key_of(parts),
        first.rows if len({part.rows for part in parts}) == 1 else None,
        first.max_rows_per_user,
        parts,
    )


def _delta_of(parts: Sequence[Ledger]) -> float:
    """The deltas of all parts; of a pure part that of its samplers, unless all are pure."""
    if all(part.delta == 0 for part in parts):
        return 0.0
    return math.fsum(part.delta or part.sampler_delta for part in parts)


def _key_of(parts: Sequence[Ledger]) -> str | None:
    """The kind of key of a sum: research if a part has such a key, release if all parts do."""
    kinds = {part.key for part in parts}
    if "research" in kinds:
        return "research"
    return "release" if kinds == {"release"} else None


def _numbered(number: int, line: Line) -> Line:
    """The line of a part, with the number of the part in its site."""
    event = dataclasses.replace(line.event, site=f"{number}.{line.site}")
    return dataclasses.replace(line, event=event)
