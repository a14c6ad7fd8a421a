"""Ledgers: what is released, how often, by which mechanism, at what cost, and why.

- A *draw* is one noisy output of a private value. Its *site* is its name in the release.
- A *cost* (`mechanism.Cost`) is what one draw takes of the privacy budget: epsilon, rho of zCDP, or
  mu of Gaussian differential privacy. A *price* (`mechanism.Price`) is how a mechanism's cost
  follows from sensitivity / scale.
- An *allowance* (`mechanism.Allowance`) is what draws may cost. Recipes turn it into noise scales.
- A *line* (`Line`) is one draw without its value, for all rounds together: its mechanism, its
  sensitivity, its noise, its cost, and where the sensitivity is proved.
- A *ledger* (`Ledger`) is all lines of a recipe and their total, or that of the best of several
  runs, which has a `Choice`.

A ledger is an answer of the very programs that run (`pricing.ledger`), so none of their draws is
priced as another one, or left out.

All of these are records of plain numbers and words, which files keep as they are (`to_json`). No
JAX is needed to read them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from dpbt.common.public import Relation
from dpbt.common.storage import Fraction, Rows, RowsOfPerson, decode, replaced
from dpbt.common.validate import positive, shown
from dpbt.privacy.accounting.conversions import (
    Choice,
    Cost,
    RunCount,
    advanced_each,
    advanced_epsilon,
    best_gdp_epsilon,
    best_order,
    best_pure_epsilon,
    best_zcdp_epsilon,
    choice_of,
    gaussian_delta,
    gdp_epsilon,
    gdp_mu,
    run_count,
    zcdp_epsilon,
    zcdp_rho,
)
from dpbt.privacy.accounting.words import (
    EXACT_WORDS,
    FLOAT_WORDS,
    KEY_WORDS,
    MEASURES,
    ROW,
    ROW_STEP,
    align,
    people_words,
    printed,
)

if TYPE_CHECKING:
    from dp_accounting.dp_event import ComposedDpEvent, DpEvent

    from dpbt.privacy.mechanism import Mechanism, Numbers, Sampler

_MOST = 1e120
"""The largest finite number of a line, so that squares and sums of many are finite, too."""


STATED = (
    *("site", "releases", "sensitivity", "scale", "theorem"),
    *("pays", "times", "moved", "unit"),
)
"""What a line says beside its mechanism; the costs follow."""


class Line(msgspec.Struct, frozen=True):
    """One draw of a program, for all rounds together, and what it costs.

    Attributes:
        site: the site of the release that it covers.
        mechanism: the name of its mechanism.
        releases: what it publishes, in words.
        sensitivity: how far one row moves the value, in the norm that prices the mechanism: L1, L2,
            or for selections the range of the change of scores.
        scale: the least noise that is drawn, in the unit of the sensitivity.
        theorem: where the sensitivity is proved.
        pays: how often a round pays for it.
        times: how often it takes place: the number of rounds, or 1 for a prologue.
        moved: how many independent outputs of one draw a row moves, independently of `pays`;
            None for draws that never read the rows.
        unit: the unit of sensitivity and scale, in words for the printed ledger.
        epsilon: the pure epsilon of one payment; infinite if there is no pure guarantee.
        rho: the rho of zCDP of one payment.
        mu: the mu of Gaussian differential privacy of one payment.
        gaussian: whether the draw is exactly mu-GDP.
        gap: half of what finite bits add to epsilon, for the whole line.
        tail: what finite bits add to delta, for the whole line.
        exact: whether the sampler states how far it is from its law.

    Raises:
        ValueError: for a count that is no whole number of at least 1, or a number that is negative,
            NaN or too large.
    """

    site: str
    mechanism: str
    releases: str
    sensitivity: Cost
    scale: Cost
    theorem: str
    pays: int
    times: int
    moved: int | None
    unit: str
    epsilon: Cost
    rho: Cost
    mu: Cost
    gaussian: bool
    gap: Cost
    tail: Cost
    exact: bool

    def __post_init__(self):
        for name in ("pays", "times", "moved"):
            value = getattr(self, name)
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not (name == "moved" and value is None) and not (whole and value >= 1):
                raise ValueError(
                    f"{name} of the draw {self.site!r} must be a whole number of at least 1, "
                    f"got {shown(value)}"
                )
        for name in ("sensitivity", "scale", "epsilon", "rho", "mu", "gap", "tail"):
            value = getattr(self, name)
            infinite = name != "sensitivity" and value == math.inf
            if not (0 <= value <= _MOST or infinite):
                raise ValueError(
                    f"{name} of the draw {self.site!r} must be at least 0, and no larger than any "
                    f"noise makes it, got {shown(value)}"
                )

    @property
    def count(self) -> int:
        """How often it is paid for, over all rounds."""
        return self.pays * self.times


def line_of(
    site: str,
    mechanism: Mechanism,
    releases: str,
    sensitivity: Numbers,
    scale: Numbers,
    theorem: str,
    *,
    pays: int = 1,
    times: int = 1,
    moved: int | None = None,
    unit: str = "",
    people: int = 1,
) -> Line:
    """The line of a draw, with its price by its mechanism and what its sampler's finite bits cost.

    It is for neighbours that differ in all rows of one person, at most `people`. Proof. Between the
    two tables lies a chain of tables, each a neighbour of the next by one row. Given what was
    released before, a value moves by at most the sum of the steps. L1 norms, L2 norms and ranges
    add up, and so do the outputs that are moved. []

    Args:
        site: as `Line`.
        mechanism: of the draw.
        releases: as `Line`.
        sensitivity: as `Line`.
        scale: as `Line`.
        theorem: as `Line`.
        pays: as `Line`.
        times: as `Line`.
        moved: how many outputs one row moves, as `Line`.
        unit: as `Line`.
        people: the most rows that one person has. The sensitivity is given for one of them.

    Raises:
        ValueError: as `Line`. Also for a draw of rows that does not say how many outputs a row
            moves, and for a sensitivity of one that never reads the rows.
    """
    price, exact = mechanism.price, mechanism.price.sampler is not None
    words = site, mechanism.name, releases, float(sensitivity), float(scale), theorem
    line = Line(*words, pays, times, moved, unit, 0.0, 0.0, 0.0, price.gaussian, 0.0, 0.0, exact)
    if moved is None and price.reads_rows:
        raise ValueError(f"moved of the draw {site!r} must say how many of its outputs a row moves")
    if not price.reads_rows and line.sensitivity > 0:
        raise ValueError(
            f"sensitivity of the draw {site!r} must be 0, because {mechanism.name} draws never "
            f"read the rows, got {line.sensitivity:g}"
        )

    of_all, moved = line.sensitivity * people, None if moved is None else int(moved) * people
    cost = mechanism.cost(of_all, line.scale)
    gap, tail = 0.0, 0.0
    if price.sampler is not None and moved is not None:
        apart = of_all / line.scale if line.scale > 0 else 0.0  # no sampler runs without noise
        gap, tails = finite_bits(price.sampler, apart, moved)
        tail = float(tails)
    return msgspec.structs.replace(
        line,
        sensitivity=of_all,
        pays=int(pays),
        times=int(times),
        moved=moved,
        epsilon=float(cost.epsilon),
        rho=float(cost.rho),
        mu=float(cost.mu),
        gap=gap * times,
        tail=tail * times,
    )


def finite_bits(sampler: Sampler, moved_by: Numbers, outputs: int) -> tuple[float, np.ndarray]:
    """(gap, tail f64[...]): what finite bits cost one draw that a row moves.

    At most 4 outputs move by more than half of what all outputs move together.

    Args:
        sampler: the sampler of the mechanism.
        moved_by: f64[...], by how many scales the outputs move together, in L1 or L2 norm.
        outputs: how many outputs a row moves.
    """

    def tail(distance: float) -> float:
        if outputs <= 4:
            return outputs * sampler.tail(distance)
        return 4 * sampler.tail(distance) + (outputs - 4) * sampler.tail(distance / 2)

    distinct, inverse = np.unique(np.asarray(moved_by, np.float64), return_inverse=True)
    tails = np.array([tail(distance) for distance in distinct.tolist()])
    return sampler.gap * outputs, tails[inverse].reshape(np.shape(moved_by))


COUNT_DISTANCE = 2.0**-200
"""How far, in total variation, the number of runs that is drawn may be from its law."""

_SLACK = 0.98
"""The share of delta at which a choice's epsilon is first bounded, to bound what bits cost."""


class Ledger(msgspec.Struct, frozen=True, omit_defaults=True):
    """All lines of an algorithm under one neighbouring relation, composed in sequence.

    Samplers draw from finitely many bits. Let G be the sum of the lines' gaps and t that of their
    tails. If the laws compose to (epsilon, delta), then the samplers compose to
    (epsilon + 2 G, e^G delta + t). The reason is that every output is near both of two values with
    probability 1 - t. There the densities of samplers and laws differ by factors of at most e^G.

    With a choice the total is that of the best of several runs, by docs/privacy.md T1 to T5. The
    lines are then of one run: those of the released candidate's fit, and last that of its score.
    They do not compose to the total, which has no rho and no mu: these are infinite.

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
        choice: what is public about the choice, if the release is the best of several runs.
    """

    relation: Relation
    lines: tuple[Line, ...]
    delta: Fraction = 0.0
    unprotected: tuple[str, ...] = ()
    key: Annotated[str, Meta(pattern="^(release|research)$")] | None = None
    rows: Rows | None = None
    max_rows_per_user: RowsOfPerson = 1
    parts: tuple[Ledger, ...] = ()
    choice: Choice | None = None

    @property
    def _paid(self) -> tuple[Line | Choice, ...]:
        """What is added up: all lines, or the dearest candidate and the score of one run."""
        return self.lines if self.choice is None else (self.choice, *self.lines[-1:])

    @property
    def _law(self) -> RunCount:
        """The law of the number of runs."""
        return RunCount(1.0, 0.0) if self.choice is None else self.choice.law

    def run(self) -> tuple[float, float, float]:
        """(epsilon, rho, mu) of all lines in sequence, or of one run of the dearest candidate.

        Where fit and score read disjoint rows, a row is in one of them, and a run costs the dearer.
        """
        together = max if self.choice is not None and self.choice.disjoint else math.fsum
        epsilon = together([each.count * each.epsilon for each in self._paid])
        rho = together([each.count * each.rho for each in self._paid])
        squares = together([each.count * each.mu**2 for each in self._paid])
        return epsilon, rho, math.sqrt(squares)

    def _bits(self) -> tuple[float, float]:
        """(G, t) of all lines, or of one run."""
        gap = math.fsum(each.gap for each in self._paid)
        return gap, min(1.0, math.fsum(each.tail for each in self._paid))

    @property
    def pure_epsilon(self) -> float:
        """The sum over lines of count times epsilon; 2 + eta times that of one run (T1)."""
        return best_pure_epsilon(self.run()[0], self._law)

    @property
    def rho(self) -> float:
        """The zCDP total (Bun & Steinke, 2016): the sum over lines of count times rho."""
        return self.run()[1] if self.choice is None else math.inf

    @property
    def mu(self) -> float:
        """The GDP total (Dong, Roth & Su, 2022): the root of the sum of count times mu^2."""
        return self.run()[2] if self.choice is None else math.inf

    @property
    def gaussian(self) -> bool:
        """Whether every draw that costs anything is Gaussian, so that GDP composes them exactly."""
        return all(each.gaussian or each.mu == 0 for each in self._paid)

    @property
    def accountant(self) -> str:
        """The accountant of the guarantee at a delta: "gdp" where it is exact, and else "zcdp"."""
        return "gdp" if self.gaussian else "zcdp"

    @property
    def exact(self) -> bool:
        """Whether every sampler states how far it is from its law. If not, the total is FLOAT."""
        return all(each.exact for each in self._paid)

    @property
    def sampler_epsilon(self) -> float:
        """What finite bits add to epsilon: 2 G; for a choice 2 H (T5)."""
        gap, tail = self._bits()
        if self.choice is None:
            return 2 * gap
        gamma, eta = self.choice.law
        if not tail < gamma:
            return math.inf
        rest = -math.log1p(-tail) - (1 + eta) * math.log1p(-tail / gamma)
        return 2 * ((2 + eta) * gap + rest)

    def _sampler_delta(self, epsilon: float) -> float:
        """What finite bits, and the number of runs, add to delta if the laws have an epsilon."""
        tail, count = self._bits()[1], self._law
        if self.choice is None or (tail == 0 and count.gamma == 1):
            return tail
        both = self.sampler_epsilon
        if math.isinf(both) or epsilon + both > 600:
            return 1.0
        runs = count.mean * tail * (1 + math.exp(both / 2 + epsilon))
        number = COUNT_DISTANCE * (1 + math.exp(both + epsilon))
        return min(1.0, runs + number)

    @property
    def sampler_delta(self) -> float:
        """What finite bits add to delta: t; for a choice as T5 says."""
        if self.choice is None or self.delta == 0:
            return self._sampler_delta(self.pure_epsilon)
        return self._sampler_delta(self._epsilon(_SLACK * self.delta, self.accountant))

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
        fits = self._sampler_delta(self.pure_epsilon) <= self.delta
        joint = min(self.epsilon_at(self.delta, self.accountant), pure if fits else math.inf)
        return min(joint, self.basic_epsilon)

    @property
    def basic_epsilon(self) -> float:
        """The sum of the parts' epsilons; infinite without parts, or if their deltas are more."""
        if not self.parts or _delta_of(self.parts) > self.delta:
            return math.inf
        return math.fsum(part.epsilon for part in self.parts)

    def _epsilon(self, delta: float, accountant: str) -> float:
        """The epsilon at a delta by one accountant, without finite bits."""
        _, rho, mu = self.run()
        if accountant == "pure":
            return self.pure_epsilon
        if accountant == "advanced":
            return advanced_epsilon([(line.count, line.epsilon) for line in self.lines], delta)
        if accountant == "zcdp":
            return best_zcdp_epsilon(rho, delta, self._law)
        if self.choice is not None and not self.gaussian:
            return math.inf
        return best_gdp_epsilon(mu, delta, self._law)

    def epsilon_at(self, delta: float, accountant: str = "zcdp") -> float:
        """The epsilon at a delta in (0, 1) by one accountant, with what finite bits cost.

        Args:
            delta: in (0, 1).
            accountant: "pure", "zcdp", "gdp", or "advanced" (Asadi et al. (2022), Theorem 2.8). Of
                a choice "pure" is T1, "zcdp" T2, and "gdp" T3, for runs of Gaussian draws alone.

        Returns:
            Infinity where a draw has no noise, or where finite bits cost more than delta, or of a
            choice more than delta / 50.

        Raises:
            ValueError: for a delta outside (0, 1), or another accountant.
        """
        delta = float(positive("delta", delta, below=1))
        known = ["gdp", "pure", "zcdp"] if self.choice else ["advanced", "gdp", "pure", "zcdp"]
        if accountant not in known:
            raise ValueError(f"accountant must be one of {known}, got {shown(accountant)}")

        # What finite bits leave of delta to the laws of the mechanisms.
        share = 0.0 if self.choice is None else _SLACK
        first = 0.0 if self.choice is None else self._epsilon(_SLACK * delta, accountant)
        both = self.sampler_epsilon
        left = (delta - self._sampler_delta(first)) * math.exp(-both / 2)
        if math.isinf(both) or left <= share * delta:
            return math.inf
        return self._epsilon(left, accountant) + both

    def dp_event(self) -> ComposedDpEvent:
        """All draws as one event of dp_accounting, for its accountants to check the total.

        It is of the laws alone: what finite bits cost is not in it. Sensitivities are those of the
        ledger's relation, so the ratios in the event hold under it as they are.

        - Selections are `ZCDpEvent`, for which dp_accounting has no event that is closer. A ledger
          that has one is for `RdpAccountant`, and its discrete Laplace draws are then of zCDP, too.
        - All others are for `PLDAccountant()`, and those without integers also for `RdpAccountant`.
          The former must keep its default, ADD_OR_REMOVE_ONE, whatever the relation of the ledger
          is: with REPLACE_ONE it doubles the sensitivity of Gaussian events, and refuses Laplace
          events.

        Raises:
            ValueError: for a choice: dp_accounting has no event for every law of the runs.
        """
        from dp_accounting import dp_event

        if self.choice is not None:
            raise ValueError("a choice is no event of dp_accounting; use its total")
        costly = [line for line in self.lines if line.mu > 0]
        closest = all(line.gaussian or line.mechanism == "discrete laplace" for line in costly)

        def event(line: Line) -> DpEvent:
            if math.isinf(line.rho):
                return dp_event.NonPrivateDpEvent()
            if line.gaussian:
                return dp_event.GaussianDpEvent(1 / line.mu)
            if closest:  # one integer that moves by all is the worst case (docs/privacy.md, 16)
                return dp_event.DiscreteLaplaceDpEvent(1 / line.scale, math.ceil(line.sensitivity))
            return dp_event.ZCDpEvent(line.rho)

        each = [dp_event.SelfComposedDpEvent(event(line), line.count) for line in costly]
        return dp_event.ComposedDpEvent(each)

    def __add__(self, other: Ledger) -> Ledger:
        """The ledger of both releases together; see `composed`."""
        return composed([self, other]) if isinstance(other, Ledger) else NotImplemented

    def __radd__(self, other: int) -> Ledger:
        """The ledger itself, so that `sum` takes ledgers: it begins with 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __str__(self) -> str:
        return printed(self)


def composed(parts: Sequence[Ledger], delta: float | None = None) -> Ledger:
    """The ledger of several releases of the same rows together; `ledger + ledger` is the same.

    Guarantee. Neighbours differ in one row (or in all rows of one person) of every release at once.
    All lines are composed jointly, at the sum of the deltas. So the epsilon is at most the sum of
    the epsilons, and mostly far below. The releases may have been chosen after one another, but
    their number and their costs may not follow from what was released: `dpbt.Filter` is for that.

    - A part without a delta counts with the delta of its samplers, if another part has one.
    - Each part's claim is for tables within its own `rows`. So under add/remove the sum's claim is
      for tables within the smallest of them, if all parts read one table. `rows` of the sum is
      what all parts agree on, or None.
    - Sites get the number of their part, as in "2.leaf". What is unprotected does, too.
    - One research key makes the sum a research release. It is a release of 256 bits if all are.

    Args:
        parts: at least one ledger. A part that is a sum counts as its parts.
        delta: of the sum, in place of the sum of the deltas.

    Raises:
        ValueError: for no parts, two relations, two numbers of rows a person, or deltas that add up
            to 1 or more. Also for the ledger of a choice, whose lines are of one run.
    """
    parts = tuple(one for part in parts for one in part.parts or (part,))
    if not parts:
        raise ValueError("a sum of ledgers needs at least one ledger")
    if any(part.choice is not None for part in parts):
        raise ValueError(
            "the ledger of a choice adds up with no other: its lines are of one run. By basic "
            "composition the sums of the epsilons and of the deltas hold for all releases together"
        )
    first = parts[0]
    for name in ("relation", "max_rows_per_user"):
        if len({getattr(part, name) for part in parts}) > 1:
            raise ValueError(f"ledgers add up under one {name} alone")
    total = _delta_of(parts) if delta is None else delta
    if not 0 <= total < 1:
        raise ValueError(f"the deltas of the ledgers must add up to less than 1, got {total:g}")

    keys = {part.key for part in parts}
    return Ledger(
        first.relation,
        tuple(
            msgspec.structs.replace(line, site=f"{number}.{line.site}")
            for number, part in enumerate(parts, 1)
            for line in part.lines
        ),
        total,
        tuple(f"{i}. {words}" for i, part in enumerate(parts, 1) for words in part.unprotected),
        "research" if "research" in keys else "release" if keys == {"release"} else None,
        first.rows if len({part.rows for part in parts}) == 1 else None,
        first.max_rows_per_user,
        parts,
    )


def _delta_of(parts: Sequence[Ledger]) -> float:
    """The deltas of all parts; of a pure part that of its samplers, unless all are pure."""
    if all(part.delta == 0 for part in parts):
        return 0.0
    return math.fsum(part.delta or part.sampler_delta for part in parts)


# Files.


def to_json(ledger: Ledger) -> dict[str, Any]:
    """The numbers and words of a ledger as JSON content, from which `from_json` makes it again."""
    told = {name: getattr(ledger, name) for name in ("epsilon", "sampler_delta", "exact")}
    return replaced({**told, **msgspec.to_builtins(ledger)}, math.inf, "inf")


def from_json(content: Mapping[str, Any]) -> Ledger:
    """The ledger that `to_json` kept.

    Raises:
        ValueError: for content that is no ledger, with the place and without the value.
    """
    return decode(Ledger, replaced(content, "inf", math.inf), "the ledger")
