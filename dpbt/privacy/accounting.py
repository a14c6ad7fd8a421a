"""Ledgers: what a program releases, how often, by which mechanism, at what cost, and why.

- A *draw* is one noisy output of a private value. Its *site* is its name in the release.
- A *cost* (`conversions.Cost`) is the part of the privacy budget that one draw takes: epsilon, rho
  of zCDP, or mu of Gaussian differential privacy. A *price* (`mechanism_prices.Price`) computes a
  mechanism's cost from sensitivity / scale.
- An *allowance* (`mechanism_types.Allowance`) is the largest cost of draws. Recipes turn it into
  noise scales.
- A *line* (`Line`) is one draw without its value, for all rounds together: its mechanism, its
  sensitivity, its noise, its cost, and where the sensitivity is proved.
- A *ledger* (`Ledger`) is all lines of a recipe and their total, or that of the best of several
  runs, which has a `Choice`.

`recipe_ledger.ledger` computes a ledger from the very programs that run, so it misses none of their
draws, and prices each as it is.

All of these are records of plain numbers and words, which files hold unchanged (`to_json`). Reading
them needs no JAX.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from dpbt.common.storage import (
    Count,
    Fraction,
    Rows,
    RowsOfPerson,
    convert_json_content,
    replace_equal_entries,
)
from dpbt.common.validate import check_choice, check_interval
from dpbt.privacy import conversions
from dpbt.privacy.conversions import Choice, Cost, NonNegative, SamplerCost
from dpbt.public_types import ADD_REMOVE, GRID, REPLACE_ONE, Relation, Site

if TYPE_CHECKING:
    from dp_accounting.dp_event import ComposedDpEvent, DpEvent

# Words.

MEASURES = {
    "epsilon": "epsilon of pure differential privacy",
    "rho": "rho of zCDP",
    "mu": "mu^2 of Gaussian differential privacy",
}
"""The name of each measure that costs of releases are added up in -> what it is, in words."""

RELATION_TEXTS = {
    ADD_REMOVE: "one row is there or not, and rows is a public bound on their number",
    REPLACE_ONE: "one row is exchanged, and rows is their public number",
}
"""What a neighbour is and what `rows` means; README and docs/threats.md use the same words."""

BOUNDED_SAMPLERS_TEXT = "finitely many bits, within a stated factor of their laws"
FLOAT_SAMPLERS_TEXT = (
    "lines marked FLOAT state no distance of their samplers from their laws; the values that such "
    "noise can reach may name a neighbour, so release nothing"
)
KEY_PURPOSE_TEXTS = {
    "release": (
        "key: 256 bits of ChaCha20; the guarantee is against adversaries of bounded computation"
    ),
    "research": (
        "RESEARCH KEY: whoever finds it by search can subtract the noise; release nothing"
    ),
}
"""The kind of the key of the noise -> what a ledger says about it."""

SUM_TEXT = (
    "sum: a site begins with the number of its release; the total is for one neighbour in all of "
    "them, and each has its own rows"
)

ROW = "row"
"""The unit of numbers in weights of whole rows."""

ROW_STEP = f"1/{GRID} row"
"""The unit of weights that are integers, 0..GRID."""

_LEGEND = (
    "count: how often the draw is paid for, over all rounds; epsilon and rho (zCDP) add these up",
    "scale: the noise; sensitivity: what one row moves; both are in the unit of their line",
)
_UNITS = (
    f"unit: a row is the largest weight that one row may have in its round; {ROW_STEP} is the step "
    "in which weights are counted"
)
_NO_PURE = "inf: the draw has no pure epsilon, like Gaussian noise; rho gives the total"
_COLUMN_TITLES = (
    *("site", "mechanism", "releases", "count", "scale"),
    *("sensitivity", "unit", "epsilon", "rho", "theorem"),
)


# Lines and ledgers.

_MAX_NUMBER = 1e120
"""The largest finite number of a line; squares and sums of many such numbers are finite."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A draw of a program, its number of payments over all rounds, and its cost.

    Attributes:
        site: the name of the draw in the release.
        mechanism: the name of its mechanism.
        releases: what it publishes, in words.
        sensitivity: the largest change of the value by one row, in the norm that prices the
            mechanism: L1, L2, or for selections the range of the change of scores.
        scale: the smallest noise scale of the draw, in the unit of the sensitivity.
        theorem: where the sensitivity is proved.
        num_payments: the number of payments each time that the draw takes place.
        times: the number of times that the draw takes place: the number of rounds, or 1 for a
            prologue.
        moved_outputs: the number of independent outputs of one draw that a row moves, whatever
            `num_payments` is; None for draws that never read the rows.
        unit: the unit of sensitivity and scale, in words for the printed ledger.
        epsilon: the pure epsilon of one payment; infinite if there is no pure guarantee.
        rho: the rho of zCDP of one payment.
        mu: the mu of Gaussian differential privacy of one payment.
        gaussian: whether the draw is exactly mu-GDP.
        gap: half of what finite bits add to epsilon, for the whole line.
        tail: what finite bits add to delta, for the whole line.
        exact: whether the sampler states its distance from its law.

    Raises:
        ValueError: for a number that is negative, NaN or too large.
    """

    site: Site
    mechanism: str
    releases: str
    sensitivity: NonNegative
    scale: NonNegative
    theorem: str
    num_payments: Count = msgspec.field(name="pays")
    times: Count
    moved_outputs: Count | None = msgspec.field(name="moved")
    unit: str
    epsilon: NonNegative
    rho: NonNegative
    mu: NonNegative
    gaussian: bool
    gap: NonNegative
    tail: NonNegative
    exact: bool

    def __post_init__(self):
        for name in ("sensitivity", "scale", "epsilon", "rho", "mu", "gap", "tail"):
            if (value := getattr(self, name)) != math.inf or name == "sensitivity":
                check_interval(f"{name} of the draw {self.site!r}", value, f"[0, {_MAX_NUMBER:g}]")

    @property
    def count(self) -> int:
        """The number of payments of the draw over all rounds together."""
        return self.num_payments * self.times


COUNT_DISTANCE = 2.0**-200
"""The total variation between the number of runs, as it is drawn, and its law is at most this."""

_LAW_SHARE = 0.98
"""The share of delta at which a choice's epsilon is first bounded, to bound the cost of bits."""


class Ledger(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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
        delta: of the guarantee; 0 for a guarantee that is pure up to `sampler_delta`, the samplers'
            t.
        unprotected: in words, the private statistics that the calibration reads without paying for
            them. If it is not empty, `epsilon` is the paper's claim and not a proof.
        key_purpose: "release" or "research"; None if the key of the release is undeclared.
        rows: the recipe's `rows`; None if undeclared.
        max_rows_per_user: the largest number of rows that one person has. Sensitivities are for all
            of them together.
        limits_users: whether the table enforces `max_rows_per_user` by the ids of its users
            (docs/privacy.md U1). If not, that nobody has more is the owner's promise.
        parts: the ledgers that a sum is composed of (`compose_ledgers`); empty for a ledger that is
            no sum.
        choice: the public facts about the choice, if the release is the best of several runs.
    """

    relation: Relation
    lines: tuple[Line, ...]
    delta: Fraction = 0.0
    unprotected: tuple[str, ...] = ()
    key_purpose: Annotated[str, Meta(pattern="^(release|research)$")] | None = msgspec.field(
        default=None, name="key"
    )
    rows: Rows | None = None
    max_rows_per_user: RowsOfPerson = 1
    parts: tuple[Ledger, ...] = ()
    choice: Choice | None = None
    limits_users: bool = msgspec.field(default=False, name="limited")

    @property
    def _run_count_law_or_one_run(self) -> conversions.RunCountLaw:
        """The law of the number of runs of a choice.

        Without a choice there is exactly one run.
        """
        return (
            conversions.RunCountLaw(gamma=1.0, eta=0.0)
            if self.choice is None
            else self.choice.run_count_law
        )

    @property
    def _paid_entries(self) -> tuple[Line | Choice, ...]:
        """The entries whose costs add up to the cost of one run.

        They are all lines, or for a choice the dearest candidate and its score.
        """
        return self.lines if self.choice is None else (self.choice, *self.lines[-1:])

    def run_cost(self) -> Cost:
        """The cost of all lines in sequence, or of one run of a choice.

        A run of a choice costs its dearest candidate and its score. Where fit and score read
        disjoint rows, a row is in one of them, and a run costs the dearer.
        """
        is_disjoint = self.choice is not None and self.choice.disjoint
        total_of = max if is_disjoint else math.fsum
        return Cost(
            epsilon=total_of([entry.count * entry.epsilon for entry in self._paid_entries]),
            rho=total_of([entry.count * entry.rho for entry in self._paid_entries]),
            mu=math.sqrt(total_of([entry.count * entry.mu**2 for entry in self._paid_entries])),
        )

    def sampler_cost(self) -> SamplerCost:
        """The cost of the finite bits of all samplers of one run: the gap G and the tail t."""
        return SamplerCost(
            gap=math.fsum(entry.gap for entry in self._paid_entries),
            tail=min(1.0, math.fsum(entry.tail for entry in self._paid_entries)),
        )

    @property
    def pure_epsilon(self) -> float:
        """The pure epsilon by basic composition: the sum over lines of count times epsilon.

        The best of several runs costs 2 + eta times that of one run (docs/privacy.md, T1).
        """
        return conversions.best_run_pure_epsilon(
            self.run_cost().epsilon, self._run_count_law_or_one_run
        )

    @property
    def rho(self) -> float:
        """The zCDP total (Bun & Steinke, 2016): the sum over lines of count times rho."""
        return self.run_cost().rho if self.choice is None else math.inf

    @property
    def mu(self) -> float:
        """The GDP total (Dong, Roth & Su, 2022): the root of the sum of count times mu^2."""
        return self.run_cost().mu if self.choice is None else math.inf

    @property
    def gaussian(self) -> bool:
        """Whether every draw that costs anything is Gaussian, so that GDP composes them exactly."""
        return all(entry.gaussian or entry.mu == 0 for entry in self._paid_entries)

    @property
    def accountant(self) -> Literal["gdp", "zcdp"]:
        """The accountant that `epsilon` uses: "gdp" if all draws are Gaussian, else "zcdp"."""
        return "gdp" if self.gaussian else "zcdp"

    @property
    def has_bounded_samplers(self) -> bool:
        """Whether a bound is proved on the distance of every sampler from its law.

        If not, the printed total is marked FLOAT.
        """
        return all(entry.exact for entry in self._paid_entries)

    @property
    def sampler_epsilon(self) -> float:
        """What the finite bits of all samplers add to epsilon: 2 G.

        For the best of several runs it is 2 H (docs/privacy.md, T5).
        """
        cost = self.sampler_cost()
        if self.choice is None:
            return 2 * cost.gap
        gamma, eta = self.choice.gamma, self.choice.eta
        if not cost.tail < gamma:
            return math.inf
        from_tails = -math.log1p(-cost.tail) - (1 + eta) * math.log1p(-cost.tail / gamma)
        return 2 * ((2 + eta) * cost.gap + from_tails)

    def _sampler_delta_at(self, delta: float, accountant: str) -> float:
        """What finite bits, and the drawn number of runs, add to a delta, by one accountant.

        Args:
            delta: of the guarantee.
            accountant: "pure", "zcdp", "gdp" or "advanced".
        """
        tail = self.sampler_cost().tail
        if self.choice is None or (tail == 0 and self.choice.gamma == 1):
            return tail
        law_epsilon = self._epsilon_of_exact_laws_at(_LAW_SHARE * delta, accountant)
        sampler_epsilon = self.sampler_epsilon
        if math.isinf(sampler_epsilon) or law_epsilon + sampler_epsilon > 600:
            return 1.0
        from_runs = (
            self.choice.run_count_law.mean
            * tail
            * (1 + math.exp(sampler_epsilon / 2 + law_epsilon))
        )
        from_number_of_runs = COUNT_DISTANCE * (1 + math.exp(sampler_epsilon + law_epsilon))
        return min(1.0, from_runs + from_number_of_runs)

    @property
    def sampler_delta(self) -> float:
        """What the finite bits of all samplers add to delta: t.

        For the best of several runs it is as T5 of docs/privacy.md says.
        """
        return self._sampler_delta_at(self.delta, self.accountant if self.delta else "pure")

    @property
    def epsilon(self) -> float:
        """The epsilon of the guarantee, at the delta of the ledger.

        It includes the cost of finite bits. For delta = 0 it is the pure epsilon. Otherwise it is
        the epsilon at that delta: through GDP where all draws are Gaussian, which is exact, and
        else through zCDP. The pure epsilon counts where it is smaller. For a sum, epsilon is at
        most the sum of the parts' epsilons.
        """
        pure = self.pure_epsilon + self.sampler_epsilon
        if self.delta == 0:
            return pure
        if self._sampler_delta_at(self.delta, "pure") > self.delta:
            pure = math.inf
        joint_epsilon = min(self.epsilon_at(self.delta, self.accountant), pure)
        return min(joint_epsilon, self.basic_epsilon) if self.parts else joint_epsilon

    @property
    def basic_epsilon(self) -> float:
        """The epsilon of a sum of ledgers by basic composition.

        It is the sum of the epsilons of its parts. It is infinite for a ledger that is no sum, and
        if the parts' deltas add up to more than the sum's delta.
        """
        if not self.parts or total_delta(self.parts) > self.delta:
            return math.inf
        return math.fsum(part.epsilon for part in self.parts)

    def _epsilon_of_exact_laws_at(self, delta: float, accountant: str) -> float:
        """The epsilon at a delta by one accountant, if samplers drew exactly from their laws."""
        cost = self.run_cost()
        if accountant == "pure":
            return self.pure_epsilon
        if accountant == "advanced":
            return conversions.advanced_composition_epsilon(
                [conversions.EqualDraws(line.count, line.epsilon) for line in self.lines], delta
            )
        if accountant == "zcdp":
            return conversions.best_run_zcdp_epsilon(
                cost.rho, delta, self._run_count_law_or_one_run
            )
        if self.choice is not None and not self.gaussian:
            return math.inf
        return conversions.best_run_gdp_epsilon(cost.mu, delta, self._run_count_law_or_one_run)

    def epsilon_at(self, delta: float, accountant: str = "zcdp") -> float:
        """The epsilon at a delta by one accountant.

        It includes the cost of finite bits.

        Args:
            delta: in (0, 1).
            accountant: "pure", "zcdp", "gdp", or "advanced" (Asadi et al. (2022), Theorem 2.8). For
                a choice, "pure" is T1, "zcdp" T2, and "gdp" T3, for runs of Gaussian draws alone.

        Returns:
            Infinity where a draw has no noise. Also where finite bits cost more than delta, or in a
            choice more than delta / 50.

        Raises:
            ValueError: for a delta outside (0, 1), or another accountant.
        """
        delta = float(check_interval("delta", delta, "(0, 1)"))
        accountants = (
            ["gdp", "pure", "zcdp"] if self.choice else ["advanced", "gdp", "pure", "zcdp"]
        )
        check_choice("accountant", accountant, accountants)

        # The part of delta that is left for the laws of the mechanisms.
        sampler_epsilon = self.sampler_epsilon
        min_share = 0.0 if self.choice is None else _LAW_SHARE
        law_delta = delta - self._sampler_delta_at(delta, accountant)
        law_delta *= math.exp(-sampler_epsilon / 2)
        if math.isinf(sampler_epsilon) or law_delta <= min_share * delta:
            return math.inf
        return self._epsilon_of_exact_laws_at(law_delta, accountant) + sampler_epsilon

    def dp_event(self) -> ComposedDpEvent:
        """All draws as one event of dp_accounting, whose accountants can check the total.

        The event has the laws alone, without the cost of finite bits. Sensitivities are those of
        the ledger's relation, so the ratios in the event hold under that relation unchanged.

        - A selection is a `ZCDpEvent`, the closest event that dp_accounting has. A ledger with a
          selection is for `RdpAccountant`, and its discrete Laplace draws are then zCDP events,
          too.
        - All other ledgers are for `PLDAccountant()`, and those without integer noise also for
          `RdpAccountant`. The former must keep its default, ADD_OR_REMOVE_ONE, whatever the
          relation of the ledger is: with REPLACE_ONE it doubles the sensitivity of Gaussian events,
          and refuses Laplace events.

        Raises:
            ValueError: for a choice: dp_accounting has no event for every law of the runs.
        """
        from dp_accounting import dp_event

        if self.choice is not None:
            raise ValueError(
                "dp_accounting has no event for the best of a random number of runs; use "
                "ledger.epsilon and ledger.delta"
            )
        costly_lines = [line for line in self.lines if line.mu > 0]
        has_additive_noise_alone = all(
            line.gaussian or line.mechanism == "discrete laplace" for line in costly_lines
        )
        events: list[DpEvent] = [
            dp_event.SelfComposedDpEvent(
                _dp_event_of_one_payment(line, as_zcdp=not has_additive_noise_alone), line.count
            )
            for line in costly_lines
        ]
        return dp_event.ComposedDpEvent(events)

    def __add__(self, other: Ledger) -> Ledger:
        """Compose this ledger with another one of the same rows.

        `compose_ledgers` has the guarantee.
        """
        return compose_ledgers([self, other]) if isinstance(other, Ledger) else NotImplemented

    def __radd__(self, other: int) -> Ledger:
        """Return the ledger itself, so that `sum`, which begins with 0, takes ledgers."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def __str__(self) -> str:
        """A table of the lines, their total, and what both mean."""
        return "\n".join([self._table(), *self._guarantee_lines(), *self._legend_lines()])

    def _table(self) -> str:
        """The table of the lines as text, with the cost of finite bits below them."""
        bits_cells = (
            *("(bits)", "samplers", "nothing; the cost of finitely many bits", "", "", "", ""),
            *(f"{self.sampler_epsilon:.4g}", ""),
            f"delta {self.sampler_delta:.2g}; dpbt theorem 14",
        )
        return align_columns([_COLUMN_TITLES, *map(_table_cells_of_line, self.lines), bits_cells])

    def _guarantee_lines(self) -> list[str]:
        """The lines of text on the total guarantee, and on the assumptions that it holds under."""
        neighbours = RELATION_TEXTS[self.relation]
        if self.rows is not None:
            neighbours = neighbours.replace("rows is", f"rows = {self.rows} is")
        lines = []
        if self.choice is not None:
            lines += _describe_selection_rule(self.choice, self._run_cost_text())
        lines.append(f"{self._total_text()} under {self.relation.value}")
        lines += [
            _describe_release_in_sum(number, part) for number, part in enumerate(self.parts, 1)
        ]
        if self.parts:
            lines.append(SUM_TEXT)
        lines.append(f"neighbours: {neighbours}")
        lines += describe_rows_per_user(self.max_rows_per_user, limits_users=self.limits_users)
        samplers = BOUNDED_SAMPLERS_TEXT if self.has_bounded_samplers else FLOAT_SAMPLERS_TEXT
        lines.append(f"samplers: {samplers}")
        lines += [
            f"UNPROTECTED: {reading}; epsilon is the paper's claim and not a proof"
            for reading in self.unprotected
        ]
        if self.key_purpose:
            lines.append(KEY_PURPOSE_TEXTS[self.key_purpose])
        return lines

    def _legend_lines(self) -> list[str]:
        """The lines of text on the meaning of the columns and of the units in the table."""
        lines = [*_LEGEND]
        if {ROW, ROW_STEP} & {line.unit for line in self.lines}:
            lines.append(_UNITS)
        if any(math.isinf(line.epsilon) for line in self.lines):
            lines.append(_NO_PURE)
        return lines

    def _total_text(self) -> str:
        """The text of the total: epsilon, delta, and the measure that epsilon follows from."""
        cost = self.run_cost()
        source = f"mu = {cost.mu:.6g} GDP" if self.gaussian else f"rho = {cost.rho:.6g} zCDP"
        if self.parts and self.basic_epsilon == self.epsilon < math.inf:
            source = "the sum of the parts"
        total = (
            f"total: epsilon = {'' if self.has_bounded_samplers else 'FLOAT '}{self.epsilon:.6g}"
        )
        if self.delta:
            return f"{total}, delta = {self.delta:g} ({source})"
        return f"{total}, delta = {self.sampler_delta:.2g}" if self.sampler_delta else total

    def _run_cost_text(self) -> str:
        """The text of the cost of one run: epsilon if it is finite, else mu or rho."""
        cost = self.run_cost()
        if math.isfinite(cost.epsilon):
            return f"epsilon = {cost.epsilon:.6g}"
        return f"mu = {cost.mu:.6g} GDP" if self.gaussian else f"rho = {cost.rho:.6g} zCDP"


def compose_ledgers(ledgers: Sequence[Ledger], delta: float | None = None) -> Ledger:
    """Compose the ledgers of several releases of the same rows into one.

    `ledger + ledger` is the same.

    Guarantee. Neighbours differ in one row (or in all rows of one person) of every release at once.
    All lines are composed jointly, at the sum of the deltas. So the epsilon is at most the sum of
    the epsilons, and mostly far below. The releases may have been chosen after one another, but
    their number and their costs may not follow from what was released: `dpbt.Filter` is for that.

    - A part without a delta counts with the delta of its samplers, if another part has a delta.
    - Each part's claim is for tables within its own `rows`. So under add/remove the sum's claim is
      for tables within the smallest of them, if all parts read one table. `rows` of the sum is the
      `rows` of all parts if they agree, or else None.
    - Sites are prefixed by the number of their part, as in "2.leaf". So are the unprotected
      readings.
    - One research key makes the sum a research release. It is a release of 256 bits if all parts
      are.

    Args:
        ledgers: at least one. A ledger that is a sum counts as its parts.
        delta: of the sum, in place of the sum of the deltas.

    Raises:
        ValueError: for no parts, two relations, two numbers of rows a person, or deltas that add up
            to 1 or more. Also for the ledger of a choice, whose lines are of one run.
    """
    parts = tuple(single for ledger in ledgers for single in ledger.parts or (ledger,))
    _check_can_be_composed(parts)
    delta_of_sum = total_delta(parts) if delta is None else delta
    if not 0 <= delta_of_sum < 1:
        raise ValueError(
            f"the deltas of the ledgers must add up to less than 1, got {delta_of_sum:g}"
        )

    first = parts[0]
    return Ledger(
        relation=first.relation,
        lines=tuple(
            msgspec.structs.replace(line, site=f"{number}.{line.site}")
            for number, part in enumerate(parts, 1)
            for line in part.lines
        ),
        delta=delta_of_sum,
        unprotected=tuple(
            f"{number}. {reading}"
            for number, part in enumerate(parts, 1)
            for reading in part.unprotected
        ),
        key_purpose=_key_purpose_of_sum(parts),
        rows=first.rows if len({part.rows for part in parts}) == 1 else None,
        max_rows_per_user=first.max_rows_per_user,
        parts=parts,
        limits_users=all(part.limits_users for part in parts),
    )


def _key_purpose_of_sum(parts: Sequence[Ledger]) -> str | None:
    """The purpose of the keys of a sum: "research" if the key of any part is of a seed.

    It is "release" if the keys of all parts are, and None if that is unknown of any.
    """
    purposes = {part.key_purpose for part in parts}
    if "research" in purposes:
        return "research"
    return "release" if purposes == {"release"} else None


def _check_can_be_composed(parts: Sequence[Ledger]) -> None:
    """Refuse to compose no ledgers, the ledger of a choice, or ledgers of two relations."""
    if not parts:
        raise ValueError("a sum of ledgers needs at least one ledger")
    if any(part.choice is not None for part in parts):
        raise ValueError(
            "the ledger of a choice adds up with no other: its lines are of one run. By basic "
            "composition the sums of the epsilons and of the deltas hold for all releases together"
        )
    for name in ("relation", "max_rows_per_user"):
        values = [getattr(part, name) for part in parts]
        if len(set(values)) > 1:
            shown = sorted({value.value if name == "relation" else value for value in values})
            raise ValueError(f"ledgers can only be added if they have the same {name}, got {shown}")


def total_delta(ledgers: Sequence[Ledger]) -> float:
    """Add up the deltas of ledgers.

    The sum is 0 if all are pure. Beside a ledger that has a delta, a pure ledger counts with the
    delta of its samplers.
    """
    if all(part.delta == 0 for part in ledgers):
        return 0.0
    return math.fsum(part.delta or part.sampler_delta for part in ledgers)


# Files.


def to_json(ledger: Ledger) -> dict[str, Any]:
    """Convert a ledger to JSON content, which `from_json` reads.

    The content also has three totals for people who read a file; `from_json` ignores them.
    """
    totals = {
        "epsilon": ledger.epsilon,
        "sampler_delta": ledger.sampler_delta,
        "exact": ledger.has_bounded_samplers,
    }
    return replace_equal_entries({**totals, **msgspec.to_builtins(ledger)}, math.inf, "inf")


def from_json(content: Mapping[str, Any]) -> Ledger:
    """Read a ledger from JSON content that `to_json` wrote.

    Raises:
        ValueError: for content that is no ledger, with the place and without the value.
    """
    return convert_json_content(
        Ledger, replace_equal_entries(content, "inf", math.inf), "the ledger"
    )


# Print.


def describe_rows_per_user(max_rows_per_user: int, *, limits_users: bool) -> list[str]:
    """The lines of text that say which rows count together: those of a user or of a person.

    There is none where each person has one row.

    Args:
        max_rows_per_user: the largest number of rows of one person.
        limits_users: whether the table enforces it by the ids of its users.
    """
    if limits_users:
        return [
            "users: all rows with one id together, however many; the first of them that have a "
            f"label count, up to {max_rows_per_user} (dpbt theorem U1)"
        ]
    if max_rows_per_user == 1:
        return []
    return [
        f"people: all rows of one person together, up to {max_rows_per_user}; that nobody has more "
        "is the owner's promise"
    ]


def _table_cells_of_line(line: Line) -> tuple[str, ...]:
    """The texts of the cells of a ledger line.

    They are in the order of `_COLUMN_TITLES`.
    """
    return (
        *(line.site, line.mechanism, line.releases, str(line.count)),
        "" if line.moved_outputs is None else f"{line.scale:.4g}",
        f"{line.sensitivity:.4g}",
        line.unit,
        f"{line.count * line.epsilon:.4g}",
        f"{line.count * line.rho:.4g}",
        line.theorem if line.exact else f"FLOAT {line.theorem}",
    )


def _dp_event_of_one_payment(line: Line, *, as_zcdp: bool) -> DpEvent:
    """Convert one payment of a ledger line to an event of dp_accounting.

    Args:
        line: the line.
        as_zcdp: whether a draw that is not Gaussian becomes a zCDP event, instead of a discrete
            Laplace event.
    """
    from dp_accounting import dp_event

    if math.isinf(line.rho):
        return dp_event.NonPrivateDpEvent()
    if line.gaussian:
        return dp_event.GaussianDpEvent(1 / line.mu)
    if as_zcdp:
        return dp_event.ZCDpEvent(line.rho)
    # One integer that takes the whole change is the worst case (docs/privacy.md, 16).
    return dp_event.DiscreteLaplaceDpEvent(1 / line.scale, math.ceil(line.sensitivity))


def align_columns(rows: Sequence[Sequence[str]]) -> str:
    """The text of a table of cells, padded so that its columns are aligned.

    There is one line for each row.
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _describe_selection_rule(choice: Choice, run_cost_text: str) -> list[str]:
    """The lines of text on how the best of several runs is selected, and on the cost of one."""
    costly_parts = "the dearer of fit and score" if choice.disjoint else "fit and score"
    law = {0.0: "logarithmic", 1.0: "geometric"}.get(choice.eta, "negative binomial")
    return [
        f"lines are of one run of a candidate; it costs {costly_parts}: {run_cost_text}",
        f"choice: the best {choice.score} of a random number of runs, {law}, "
        f"eta = {choice.eta:g}, gamma = {choice.gamma:.6g}, mean {choice.run_count_law.mean:.4g}, "
        f"of {choice.candidates} candidates; dpbt theorem T1-T5",
    ]


def _describe_release_in_sum(release_number: int, release_ledger: Ledger) -> str:
    """The line of text on one of the releases of a sum, by its number."""
    text = f"release {release_number}: epsilon = {release_ledger.epsilon:.6g}"
    if release_ledger.delta:
        text += f", delta = {release_ledger.delta:g}"
    if release_ledger.rows is not None:
        text += f", rows = {release_ledger.rows}"
    return (
        text if release_ledger.key_purpose is None else f"{text}, {release_ledger.key_purpose} key"
    )
