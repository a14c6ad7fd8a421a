"""The ledger of a choice: the lines of one run, and what the best of a random number of runs costs.

A run learns a model and draws its score. All candidates are priced as the dearest one.
"""

import dataclasses
import math
from collections.abc import Sequence

from dpbt.privacy.accounting.events import Line
from dpbt.privacy.accounting.ledger import Indivisible, Ledger
from dpbt.privacy.accounting.runs import (
    RunCount,
    best_gdp_epsilon,
    best_pure_epsilon,
    best_zcdp_epsilon,
)
from dpbt.validate import positive, shown

COUNT_DISTANCE = 2.0**-200
"""How far, in total variation, the number of runs that is drawn may be from its law."""

_SLACK = 0.98
"""The share of delta at which epsilon is first bounded, to bound what finite bits cost."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """What is public about a choice; plain numbers and words, so that it can be stored.

    Attributes:
        gamma: of the law of the number of runs.
        eta: of the same law.
        candidates: from how many a run takes one.
        disjoint: whether one row is read by the fit or by the score of a run, and never by both.
        gaussian: whether every draw of every candidate is Gaussian.
        epsilon: of the dearest candidate's fit, without finite bits.
        rho: of the dearest candidate's fit.
        mu: of the dearest candidate's fit.
        gap: G of the fit that has the largest.
        tail: t of the fit that has the largest.
        score: the name of the score.
        exact: whether every sampler of every candidate states how far it is from its law.
    """

    gamma: float
    eta: float
    candidates: int
    disjoint: bool
    gaussian: bool
    epsilon: float
    rho: float
    mu: float
    gap: float
    tail: float
    score: str
    exact: bool = True

    @property
    def count(self) -> RunCount:
        """The law of the number of runs."""
        return RunCount(self.gamma, self.eta)


def choice_of(
    books: Sequence[Ledger], count: RunCount, score: str, candidates: int, *, disjoint: bool
) -> Choice:
    """The choice among candidates whose fits have these ledgers.

    Args:
        books: one ledger for each distinct candidate.
        count: the law of the number of runs.
        score: the name of the score.
        candidates: how many there are.
        disjoint: as in `Choice`.
    """
    return Choice(
        *count,
        candidates,
        disjoint,
        all(book.gaussian for book in books),
        max(book.pure_epsilon for book in books),
        max(book.rho for book in books),
        max(book.mu for book in books),
        max(book.sampler_epsilon for book in books) / 2,
        max(book.sampler_delta for book in books),
        score,
        all(book.exact for book in books),
    )


@dataclasses.dataclass(frozen=True)
class ChoiceLedger(Indivisible):
    """A ledger whose total is that of a choice, by docs/privacy.md T1 to T5.

    `lines` are of one run: those of the released candidate's fit, and last that of its score. The
    total is for the dearest candidate. In a sum that total is added to the others. `pure_epsilon`,
    `sampler_epsilon` and `sampler_delta` are of the whole choice. The whole has no rho and no mu,
    so these are infinite; `run` has those of one run.

    Attributes:
        choice: what is public about the choice.
    """

    choice: Choice = dataclasses.field(kw_only=True)

    kind_words = "a choice, with the lines of one run, "

    @property
    def _score(self) -> Line:
        return self.lines[-1]

    def run(self) -> tuple[float, float, float]:
        """(epsilon, rho, mu) of one run of the dearest candidate.

        Where fit and score read disjoint rows, a row is in one of them, and a run costs the dearer.
        """
        choice, score = self.choice, self._score
        count = score.count
        fit = choice.epsilon, choice.rho, choice.mu**2
        scored = count * score.epsilon, count * score.rho, count * score.mu**2
        together = max if choice.disjoint else lambda a, b: a + b
        epsilon, rho, squares = (together(a, b) for a, b in zip(fit, scored, strict=True))
        return epsilon, rho, math.sqrt(squares)

    @property
    def run_gaussian(self) -> bool:
        """Whether every draw of a run is Gaussian."""
        return self.choice.gaussian and self._score.mechanism.price.gaussian

    @property
    def pure_epsilon(self) -> float:
        """(2 + eta) epsilon of one run (T1)."""
        return best_pure_epsilon(self.run()[0], self.choice.count)

    @property
    def exact(self) -> bool:
        """Whether every sampler of every candidate, and of the score, states how far it is off."""
        return self.choice.exact and super().exact

    @property
    def accountant(self) -> str:
        """The accountant at a delta: "gdp" for runs of Gaussian draws alone (T3), else "zcdp"."""
        return "gdp" if self.run_gaussian else "zcdp"

    @property
    def _tail(self) -> float:
        """T of one run."""
        return min(1.0, self.choice.tail + self._score.tail)

    @property
    def sampler_epsilon(self) -> float:
        """2 H: what finite bits add to epsilon (T5)."""
        choice, tail = self.choice, self._tail
        if not tail < choice.gamma:
            return math.inf
        gap = choice.gap + self._score.gap
        rest = -math.log1p(-tail) - (1 + choice.eta) * math.log1p(-tail / choice.gamma)
        return 2 * ((2 + choice.eta) * gap + rest)

    def _sampler_delta(self, epsilon: float) -> float:
        """What finite bits and the drawn number of runs add to delta, if the laws have epsilon."""
        if self._tail == 0 and self.choice.gamma == 1:
            return 0.0
        both = self.sampler_epsilon
        if math.isinf(both) or epsilon + both > 600:
            return 1.0
        runs = self.choice.count.mean * self._tail * (1 + math.exp(both / 2 + epsilon))
        number = COUNT_DISTANCE * (1 + math.exp(both + epsilon))
        return min(1.0, runs + number)

    @property
    def sampler_delta(self) -> float:
        """What finite bits add to delta (T5)."""
        if self.delta == 0:
            return self._sampler_delta(self.pure_epsilon)
        return self._sampler_delta(self._law(_SLACK * self.delta, self.accountant))

    @property
    def epsilon(self) -> float:
        """The epsilon of the guarantee, with what finite bits cost."""
        pure = self.pure_epsilon + self.sampler_epsilon
        if self.delta == 0:
            return pure
        approximate = self.epsilon_at(self.delta, self.accountant)
        fits = self._sampler_delta(self.pure_epsilon) <= self.delta
        return min(approximate, pure) if fits else approximate

    def _law(self, delta: float, accountant: str) -> float:
        """The epsilon at a delta without finite bits."""
        _, rho, mu = self.run()
        count = self.choice.count
        if accountant == "pure":
            return self.pure_epsilon
        if accountant == "gdp":
            return best_gdp_epsilon(mu, delta, count) if self.run_gaussian else math.inf
        if accountant == "zcdp":
            return best_zcdp_epsilon(rho, delta, count)
        known = ["gdp", "pure", "zcdp"]
        raise ValueError(f"accountant of a choice must be one of {known}, got {shown(accountant)}")

    def epsilon_at(self, delta: float, accountant: str = "zcdp") -> float:
        """The epsilon at a delta in (0, 1) by one accountant, with what finite bits cost.

        Args:
            delta: in (0, 1).
            accountant: "pure" (T1), "zcdp" (T2), or "gdp" (T3) for runs of Gaussian draws alone.

        Returns:
            Infinity where a draw has no noise, or where finite bits cost more than delta / 50.

        Raises:
            ValueError: for a delta outside (0, 1), or another accountant.
        """
        delta = float(positive("delta", delta, below=1))
        first, both = self._law(_SLACK * delta, accountant), self.sampler_epsilon
        tail = self._sampler_delta(first)
        left = (delta - tail) * math.exp(-both / 2) if math.isfinite(both) else 0.0
        if math.isinf(first) or left < _SLACK * delta:
            return math.inf
        return self._law(left, accountant) + both

    def _footers(self) -> list[str]:
        choice, (epsilon, rho, mu) = self.choice, self.run()
        how = "the dearer of fit and score" if choice.disjoint else "fit and score"
        one = f"mu = {mu:.6g}" if self.run_gaussian else f"rho = {rho:.6g}"
        if math.isfinite(epsilon):
            one = f"epsilon = {epsilon:.6g}"
        name = {0.0: "logarithmic", 1.0: "geometric"}.get(choice.eta, "negative binomial")
        return [
            f"lines are of one run of a candidate; it costs {how}: {one}",
            f"choice: the best {choice.score} of a random number of runs, {name}, "
            f"eta = {choice.eta:g}, gamma = {choice.gamma:.6g}, mean {choice.count.mean:.4g}, "
            f"of {choice.candidates} candidates; docs/privacy.md T1-T5",
            *super()._footers(),
        ]

    def _by(self) -> str:
        return ""


def with_choice(book: Ledger, key: str | None, choice: Choice, score: Line) -> ChoiceLedger:
    """The ledger of a choice whose released candidate has this ledger.

    Args:
        book: of the released candidate's recipe.
        key: the kind of key of the release, where it is known.
        choice: what is public about the choice.
        score: the line of its score.
    """
    fields = {field.name: getattr(book, field.name) for field in dataclasses.fields(Ledger)}
    return ChoiceLedger(**{**fields, "lines": (*book.lines, score), "key": key}, choice=choice)
