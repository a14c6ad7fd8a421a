"""Grey-box audits: a learner in any Python whose mechanisms are called through hooks.

A run on one table records what each mechanism was given, and what it put out. A replay on the
neighbour gives the learner the same outputs, and asks each mechanism how likely they were. So the
log ratio of likelihoods of the whole run is exact, whatever the learner is written in, as long as
all of its randomness comes from the hooks.

Numbers are of float64. What rounding may have added to a log ratio is bounded draw by draw, and
taken off (`Call.rounding`), so that no bound is above the truth by it.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from dpbt.audit.contents import Contents, contents_of, different_parts, uncompared_parts
from dpbt.privacy.bounds import CONFIDENCE, LARGE, Bound, RunScores, lower_bounds
from dpbt.privacy.conversions import gdp_epsilon

Learn = Callable[[Any, "Hooks"], Any]
"""(table, hooks) -> what is released; it draws by the hooks alone."""


_HALF_LOG = np.log(2 * np.pi) / 2

_UNIT = 4 * float(np.finfo(np.float64).eps)
"""The relative error of a few operations of float64."""

CONTROLS = 20
"""How often each table is replayed before a difference counts as certain.

If what differs followed from something else than the table, the 40 replays would be exchangeable.
Then all of one table would be alike and apart from all of the other with a chance of at most
2 / C(40, 20), about 1e-11."""

_SUSPECTS = 3
"""Runs whose returned values are replayed so, until one of them tells the tables apart."""


class Call(NamedTuple):
    """One draw of a run.

    Attributes:
        name: of the mechanism, and of the draw where it was given one.
        value: what was to be released.
        sensitivity: by how much the value may move, as the learner states; NaN where it states
            none.
        distance: from a value and another -> how far it moved, in the mechanism's norm.
        output: what the mechanism put out.
        log_density: of the output.
        deviation: of Gaussian noise; NaN of any other.
        rounding: by how much the log density may be off, by the rounding of float64.
        contents: what was put out without noise; None of other draws.
    """

    name: str
    value: np.ndarray
    sensitivity: float
    distance: Callable[[np.ndarray], float]
    output: np.ndarray
    log_density: float
    deviation: float = np.nan
    rounding: float = 0.0
    contents: Contents | None = None


class DivergedError(Exception):
    """A replay asked for another draw than the run: control flow follows private rows."""


class Hooks:
    """Mechanisms for a learner that is to be audited.

    Outside of an audit they add noise, so the learner that is audited is the one that is used. The
    noise is NumPy's, of floating point: that is for audits and research, and no release.

    Attributes:
        public: a NumPy generator whose numbers do not depend on the table, for public randomness.
        calls: the draws so far.
        uncompared: what of the values without noise could not be compared with the run's.
    """

    def __init__(self, seed: int = 0, recorded: list[Call] | None = None):
        """Hooks of a run, or of its replay.

        Args:
            seed: of the noise and of what is public.
            recorded: the calls of a run whose outputs are to be put out again; None for fresh ones.
        """
        self.public = np.random.default_rng([seed, 0])
        self._noise, self._recorded = np.random.default_rng([seed, 1]), recorded
        self.calls: list[Call] = []
        self.uncompared: list[str] = []

    @property
    def public_taken(self) -> Any:
        """How far the public randomness was read; two of one seed are equal if it is the same."""
        return self.public.bit_generator.state

    def laplace(self, value: Any, sensitivity: float, scale: float, name: str = "") -> Any:
        """The value with Laplace noise of a scale; the sensitivity is in the L1 norm."""
        draw = lambda rng, size: rng.laplace(0, scale, size)  # noqa: E731
        density = lambda moved: -np.abs(moved) / scale - np.log(2 * scale)  # noqa: E731
        slope = lambda moved: np.full_like(moved, 1 / scale)  # noqa: E731
        return self._added("laplace", value, sensitivity, draw, (density, slope), _l1, name)

    def gaussian(self, value: Any, sensitivity: float, scale: float, name: str = "") -> Any:
        """The value with Gaussian noise of a standard deviation; the sensitivity is in L2."""
        draw = lambda rng, size: rng.normal(0, scale, size)  # noqa: E731
        density = lambda moved: -((moved / scale) ** 2) / 2 - np.log(scale) - _HALF_LOG  # noqa: E731
        slope = lambda moved: np.abs(moved) / scale / scale  # noqa: E731
        found = self._added("gaussian", value, sensitivity, draw, (density, slope), _l2, name)
        self.calls[-1] = self.calls[-1]._replace(deviation=scale)
        return found

    def integer_laplace(self, value: Any, sensitivity: float, scale: float, name: str = "") -> Any:
        """Whole numbers with discrete Laplace noise, of densities in proportion to e^-|k| / scale.

        The sensitivity is in the L1 norm.
        """
        ends = -np.expm1(-1 / scale)
        draw = lambda rng, size: rng.geometric(ends, size) - rng.geometric(ends, size)  # noqa: E731
        density = lambda moved: -np.abs(moved) / scale + np.log(np.tanh(0.5 / scale))  # noqa: E731
        slope = lambda moved: np.full_like(moved, 1 / scale)  # noqa: E731
        given, both = np.rint(np.asarray(value, float)), (density, slope)
        return self._added("integer laplace", given, sensitivity, draw, both, _l1, name)

    def choose(self, scores: Any, sensitivity: float, epsilon: float, name: str = "") -> int:
        """A place, with a chance in proportion to e^(epsilon score / (2 sensitivity)).

        This is the exponential mechanism; each score may move by the sensitivity.
        """
        given = np.asarray(scores, float)
        below = epsilon * (given - np.max(given)) / (2 * sensitivity)
        logs = below - special.logsumexp(below)
        draw = lambda: np.asarray(self._noise.choice(len(logs), p=np.exp(logs)))  # noqa: E731
        finite = given[np.isfinite(given)]
        off = np.max(np.spacing(np.abs(finite)), initial=0.0) * epsilon / (2 * sensitivity)
        found = self._called(
            "choose",
            given,
            sensitivity,
            _max_moved,
            name,
            draw,
            lambda k: logs[k],
            lambda k: 2 * off + _UNIT * (abs(logs[k]) + 1),
        )
        return int(found)

    def respond(self, bit: bool, epsilon: float, name: str = "") -> bool:
        """The bit, or with a chance of 1 / (1 + e^epsilon) the other: randomized response."""
        lie = float(special.expit(-epsilon))
        draw = lambda: np.asarray(bool(bit) ^ (self._noise.random() < lie))  # noqa: E731
        # The log of 1 / (1 + e^-epsilon) or of 1 / (1 + e^epsilon); 1 - lie would cancel.
        chance = lambda out: -np.logaddexp(0.0, -epsilon if out == bool(bit) else epsilon)  # noqa: E731
        off = lambda out: _UNIT * abs(chance(out))  # noqa: E731
        value = np.asarray(bool(bit))
        return bool(self._called("respond", value, 1.0, _max_moved, name, draw, chance, off))

    def custom(
        self,
        value: Any,
        draw: Callable[[np.random.Generator], Any],
        log_density: Callable[[np.ndarray], float],
        sensitivity: float = np.nan,
        name: str = "custom",
    ) -> Any:
        """A mechanism of one's own: how it draws, and the log density of what it draws.

        Args:
            value: what it is about, for the report.
            draw: generator -> output.
            log_density: output -> its log density or log probability.
            sensitivity: how far the value may move in the L2 norm; NaN for no check.
            name: of the draw.

        A log density counts as off by a few roundings of its own size. Where it loses more, as
        through the difference of large numbers, the caller's claim must leave room for it.
        """
        drawn = lambda: np.asarray(draw(self._noise))  # noqa: E731
        off = lambda out: _UNIT * (abs(float(log_density(out))) + 1)  # noqa: E731
        given = np.asarray(value)
        return self._called(name, given, sensitivity, _l2, "", drawn, log_density, off)

    def exactly(self, value: Any, name: str = "") -> Any:
        """The value itself: what is released, or decided by, without noise.

        If it holds something else on the neighbour, one run tells the tables apart. Objects are
        compared by what they hold (`contents`), and what cannot be compared is reported.
        """
        given, place, now = np.asarray(value), len(self.calls), contents_of(value, _OPAQUE)

        def same(_: np.ndarray) -> float:
            before = now if self._recorded is None else self._recorded[place].contents
            assert before is not None  # as the draw has the name of this one
            self.uncompared += uncompared_parts(before, now)
            return -LARGE if different_parts(before, now) else 0.0

        found = self._called("exactly", given, 0.0, _max_moved, name, lambda: given, same)
        self.calls[-1] = self.calls[-1]._replace(contents=now)
        return found

    def _added(
        self,
        kind: str,
        value: Any,
        sensitivity: float,
        noise: Callable[[np.random.Generator, Any], Any],
        law: tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]],
        distance: Callable[[np.ndarray], float],
        name: str,
    ) -> Any:
        given, (density, slope) = np.asarray(value, float), law
        draw = lambda: given + noise(self._noise, given.shape)  # noqa: E731

        def sure(out: np.ndarray) -> float:
            odd = ~(np.isfinite(given) & np.isfinite(out))
            if not np.array_equal(out[odd], given[odd], equal_nan=True):
                return -LARGE  # only one of the tables has a finite number there
            return float(np.sum(density(np.where(odd, 0.0, out - np.where(odd, 0.0, given)))))

        def rounding(out: np.ndarray) -> float:
            """Of the difference of output and value, and of the density."""
            finite = np.isfinite(given) & np.isfinite(out)
            ours, theirs = np.where(finite, given, 0.0), np.where(finite, out, 0.0)
            moved = theirs - ours
            off = slope(moved) * np.spacing(np.maximum(np.abs(ours), np.abs(theirs)))
            return float(np.sum(off + _UNIT * np.abs(density(moved))))

        return self._called(kind, given, sensitivity, distance, name, draw, sure, rounding)

    def _called(
        self,
        kind: str,
        value: np.ndarray,
        sensitivity: float,
        distance: Callable[[np.ndarray], float],
        name: str,
        draw: Callable[[], np.ndarray],
        log_density: Callable[[np.ndarray], float],
        rounding: Callable[[np.ndarray], float] = lambda out: 0.0,
    ) -> Any:
        place, words = len(self.calls), f"{kind} {name}".strip()
        if self._recorded is None:
            output = draw()
        else:
            known = self._recorded[place] if place < len(self._recorded) else None
            if known is None or known.name != words or known.value.shape != value.shape:
                raise DivergedError(words)
            output = known.output
        found = float(log_density(output))
        # Copies, as a learner may write into what it gave and was given.
        kept = np.array(value), np.array(output)
        off = float(rounding(output)) if abs(found) < LARGE / 2 else 0.0
        self.calls.append(Call(words, kept[0], sensitivity, distance, kept[1], found, rounding=off))
        return np.array(output)


_OPAQUE = (Hooks,)
"""Hooks are the audit's own, and no part of a release."""


def _l1(moved: np.ndarray) -> float:
    return float(np.sum(np.abs(moved)))


def _l2(moved: np.ndarray) -> float:
    return float(np.sqrt(np.sum(moved**2)))


def _max_moved(moved: np.ndarray) -> float:
    return float(np.max(np.abs(moved), initial=0.0))


class Replayed(NamedTuple):
    """A run on one table, and its replay on another.

    Attributes:
        loss: log p(outputs | table) - log p(outputs | other), less what rounding may have added;
            `LARGE` where the replay diverged, or returned something else.
        where: the draw that lost most, by its name and number.
        moved: by how much more than its stated sensitivity a value moved at most, as a ratio.
        steps: of each draw by how many deviations of Gaussian noise its value moved; NaN of a draw
            with other noise, unless its likelihood did not change.
        of_draws: the loss of the draws alone.
        returned: the places where what was returned differs from what the replay returned.
        uncompared: what could not be compared, in words.
        same_public: whether both tables took the same numbers of public randomness.
    """

    loss: float
    where: str
    moved: float
    steps: tuple[float, ...] = (np.nan,)
    of_draws: float = LARGE
    returned: frozenset[str] = frozenset()
    uncompared: tuple[str, ...] = ()
    same_public: bool = True


def replay_pair(learn: Learn, table: Any, other: Any, seed: int) -> Replayed:
    """Run a learner on a table, and ask how likely its outputs were on another.

    Raises:
        ValueError: for a density that is not a number.
    """
    run = Hooks(seed)
    released = contents_of(learn(table, run), _OPAQUE)
    return _replay_on(learn, other, seed, run, released)


def _replay_on(learn: Learn, other: Any, seed: int, run: Hooks, released: Contents) -> Replayed:
    """The replay of a run on another table."""
    again = Hooks(seed, run.calls)
    try:
        replay = contents_of(learn(other, again), _OPAQUE)
    except DivergedError as other_draw:
        return Replayed(LARGE, f"draw {len(again.calls)}: only one table asks for {other_draw}", 1)
    if len(again.calls) < len(run.calls):
        return Replayed(LARGE, f"the end: only one table asks for {len(run.calls)} draws", 1)
    losses, rounding, moved, steps = [], 0.0, [0.0], []
    for one, two in zip(run.calls, again.calls, strict=True):
        losses.append(one.log_density - two.log_density)
        far = _changed_parts(one, two)
        if losses[-1] or far:
            rounding += one.rounding + two.rounding + _UNIT * abs(losses[-1])
        if far > 0 and not np.isnan(one.sensitivity):
            moved.append(far / one.sensitivity if one.sensitivity > 0 else np.inf)
        same = one.deviation == two.deviation or losses[-1] == 0
        steps.append(far / one.deviation if same and losses[-1] else 0.0 if same else np.nan)
    if np.isnan(losses).any():
        raise ValueError("a log density is not a number; the audit cannot judge this learner")
    worst = int(np.argmax(np.abs(losses))) if losses else 0
    name = run.calls[worst].name if losses else "nothing"
    loss, returned = float(np.sum(losses)) - rounding, different_parts(released, replay)
    return Replayed(
        LARGE if returned else loss,
        f"draw {worst} ({name})",
        max(moved),
        tuple(steps),
        loss,
        returned,
        (*again.uncompared, *uncompared_parts(released, replay)),
        run.public_taken == again.public_taken,
    )


def _changed_parts(one: Call, two: Call) -> float:
    """How far the value of a draw moved; infinite if it is no number, and is another."""
    if not all(each.value.dtype.kind in "biuf" for each in (one, two)):
        return 0.0 if one.log_density == two.log_density else np.inf
    both = np.asarray(one.value, float), np.asarray(two.value, float)
    with np.errstate(invalid="ignore"):
        far = one.distance(np.where(np.isnan(both[0]) & np.isnan(both[1]), 0.0, both[0] - both[1]))
    return np.inf if np.isnan(far) else far


class _Controls(NamedTuple):
    """What many replays of one run say of its cause.

    Attributes:
        repeat: whether the table repeats its draws in every replay, and the other table its own.
        loss: of the draws of the run, as `Replayed.of_draws` but for rounding.
        leaks: the places of what is returned where all replays on one table are alike, and differ
            from all on the other.
    """

    repeat: bool
    loss: float
    leaks: frozenset[str]


def _controls(learn: Learn, table: Any, other: Any, seed: int) -> _Controls:
    """Replay one run on its own table and on the other, in a mixed order.

    Every other replay is on a copy, so that what follows from the address of a table, and not from
    its rows, does not repeat.

    A difference between the tables says nothing if the same table differs from itself.
    """
    run = Hooks(seed)
    learn(table, run)
    order = np.random.default_rng([seed, 3]).permutation(np.arange(2 * CONTROLS) % 2)
    tables, copies = (table, other), []  # copies are kept, so that no two have one address
    seen: tuple[list, list] = ([], [])
    for side in order.tolist():
        again = Hooks(seed, run.calls)
        try:
            copies.append(_copy_table(tables[side]) if len(seen[side]) % 2 else tables[side])
            contents = contents_of(learn(copies[-1], again), _OPAQUE)
            draws = tuple(call.log_density for call in again.calls)
        except DivergedError:
            contents, draws = None, None
        seen[side].append((contents, draws))
    off = sum(call.rounding for call in run.calls)
    ran = tuple(call.log_density for call in run.calls)
    repeat = all(_are_close(draws, ran, off) for _, draws in seen[0])
    repeat &= all(_are_close(draws, seen[1][0][1], off) for _, draws in seen[1])
    theirs = seen[1][0][1]
    loss = LARGE
    if theirs is not None and len(theirs) == len(ran):
        loss = float(np.sum(np.subtract(ran, theirs)))
    returned = [[contents for contents, _ in each] for each in seen]
    if any(contents is None for each in returned for contents in each):
        return _Controls(repeat, loss, frozenset())
    own, others = returned
    leaks = different_parts(own[0], others[0])
    for each in returned:
        for contents in each:
            leaks -= different_parts(each[0], contents)
    return _Controls(repeat, loss, leaks)


def _copy_table(table: Any) -> Any:
    """A copy of a table; the table itself, if it cannot be copied."""
    try:
        return copy.deepcopy(table)
    except Exception:  # whatever a class of the caller's raises
        return table


def _are_close(one: tuple | None, two: tuple | None, off: float) -> bool:
    """Whether two replays asked for the same draws, with the same chances up to rounding."""
    if one is None or two is None:
        return one is two
    return len(one) == len(two) and bool(np.all(np.abs(np.subtract(one, two)) <= 2 * off))


def _returned_at(places: frozenset[str]) -> str:
    """Words for the first of some places of what is returned."""
    first = min(places)
    return f"what is returned at {first}" if first else "what is returned"


def grey(
    learn: Learn,
    table: Any,
    neighbour: Any,
    *,
    claim: tuple[float, float],
    fixed: bool = False,
    runs: int = 200,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> Bound:
    """A lower bound on what a learner spends, from exact log ratios of likelihoods.

    For a pure claim the largest loss is a certificate: an output that one table makes more likely
    by that factor. With a delta, chances are bounded (`bounds.lower_bounds`). What a learner
    returns must follow from its draws, so what differs there without a draw is a leak. It is
    compared by what it holds (`contents`), and the bound names what could not be compared.

    Before a loss counts, its run is replayed 20 times on each table. If a table does not repeat
    itself, then the learner has other randomness than the hooks', or changes its table, and a
    difference between the tables proves nothing: the bound is 0, and says so.

    Args:
        learn: (table, hooks) -> anything. All of its randomness must come from the hooks, and it
            must leave the table as it is.
        table: in any form that `learn` reads.
        neighbour: likewise. What is found about two private tables is itself private.
        claim: (epsilon, delta) that the learner states.
        fixed: whether no draw's value, noise or number of places follows earlier outputs, as the
            caller knows. Where all draws that tell the tables apart are Gaussian, mu is then the
            root of the sum of squares of their moves in deviations, for certain.
        runs: how many, at least 8; half of them on each table.
        seed: of the first run.
        confidence: in (0, 1).
    """
    half = max(runs // 2, 4)
    asked = [(table, neighbour, seed + k) for k in range(half)]
    asked += [(neighbour, table, seed + half + k) for k in range(half)]
    found = [replay_pair(learn, *each) for each in asked]

    # Fewer rows may ask for fewer public numbers, as a permutation of rows does. What is drawn or
    # returned after that differs, though it may be as likely on both tables.
    if not all(run.same_public for run in found):
        told = "anything: one table takes other numbers of hooks.public than the other does, so "
        told += "runs on both are not alike; take as many whatever the rows are"
        return Bound("grey box", claim, 0.0, 0.0, confidence, 2 * half, "nothing", uncompared=told)

    # What is returned differs for certain, or says nothing.
    uncompared = list(dict.fromkeys(words for run in found for words in run.uncompared))
    suspects = [number for number, run in enumerate(found) if run.returned]
    leaks: frozenset[str] = frozenset()
    for number in suspects[:_SUSPECTS]:
        leaks = leaks or _controls(learn, *asked[number]).leaks
    if suspects and not leaks:
        at = _returned_at(found[suspects[0]].returned)
        uncompared.insert(0, f"{at}, which one table does not repeat")
    for number, run in enumerate(found):
        if run.returned and not run.returned & leaks:
            found[number] = run._replace(loss=run.of_draws)
        elif run.returned:
            at = _returned_at(run.returned & leaks)
            where = f"{at}: it follows private rows beside all draws"
            found[number] = run._replace(where=where, moved=1.0, steps=(np.nan,))
    told = "; ".join(uncompared[:3]) + ("; and more" if uncompared[3:] else "")

    worst = max(range(len(found)), key=lambda number: found[number].loss)
    control = _controls(learn, *asked[worst]) if found[worst].loss > 0 and not leaks else None
    if control and not (control.repeat and control.loss >= found[worst].loss):
        told = "the draws, which one table does not repeat: they have other randomness than the "
        told += "hooks', or the learner changes its table"
        return Bound("grey box", claim, 0.0, 0.0, confidence, 2 * half, "nothing", uncompared=told)

    here, there = found[:half], found[half:]
    losses = np.array([run.loss for run in here]), -np.array([run.loss for run in there])
    scores = RunScores(*losses)
    lower = lower_bounds(*scores.halves(), delta=claim[1], confidence=confidence, exact=True)
    epsilon, mu = lower.epsilon, lower.mu
    where = found[worst].where
    if found[worst].moved > 1 + 1e-9:
        where += f", where a value moved {found[worst].moved:.3g} times its stated sensitivity"
    if claim[1] == 0:
        largest = max(found[worst].loss, 0.0)
        epsilon = np.inf if largest >= LARGE / 2 else largest
    certain, steps = claim[1] == 0, {tuple(np.round(run.steps, 9)) for run in found}
    spent = min(float(np.linalg.norm(run.steps)) for run in found) * (1 - _UNIT)
    if fixed and len(steps) == 1 and not np.isnan(spent):
        mu, certain = spent, True
        epsilon = gdp_epsilon(mu, claim[1]) if claim[1] else epsilon
    return Bound(
        level="grey box",
        claim=claim,
        epsilon=epsilon,
        mu=mu,
        confidence=confidence,
        runs=2 * half,
        where=where,
        curve=lower.curve,
        certain=certain,
        uncompared=told,
    )
