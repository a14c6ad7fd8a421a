"""Grey-box audits: a learner in any Python whose mechanisms are called through hooks.

A run on one table records what each mechanism was given, and what it put out. A replay on the
neighbour gives the learner the same outputs, and asks each mechanism how likely they were. So the
log ratio of likelihoods of the whole run is exact, whatever the learner is written in, as long as
all of its randomness comes from the hooks.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from dpbt.privacy.bounds import CONFIDENCE, LARGE, Bound, Scores, bounds_of
from dpbt.privacy.conversions import gdp_epsilon

Learn = Callable[[Any, "Hooks"], Any]
"""(table, hooks) -> what is released; it draws by the hooks alone."""


_HALF_LOG = np.log(2 * np.pi) / 2


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
    """

    name: str
    value: np.ndarray
    sensitivity: float
    distance: Callable[[np.ndarray], float]
    output: np.ndarray
    log_density: float
    deviation: float = np.nan


class DivergedError(Exception):
    """A replay asked for another draw than the run: control flow follows private rows."""


class Hooks:
    """Mechanisms for a learner that is to be audited.

    Outside of an audit they add noise, so the learner that is audited is the one that is used. The
    noise is NumPy's, of floating point: that is for audits and research, and no release.

    Attributes:
        public: a NumPy generator whose numbers do not depend on the table, for public randomness.
        calls: the draws so far.
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

    def laplace(self, value: Any, sensitivity: float, scale: float, name: str = "") -> Any:
        """The value with Laplace noise of a scale; the sensitivity is in the L1 norm."""
        draw = lambda rng, size: rng.laplace(0, scale, size)  # noqa: E731
        density = lambda moved: -np.abs(moved) / scale - np.log(2 * scale)  # noqa: E731
        return self._added("laplace", value, sensitivity, draw, density, _l1, name)

    def gaussian(self, value: Any, sensitivity: float, scale: float, name: str = "") -> Any:
        """The value with Gaussian noise of a standard deviation; the sensitivity is in L2."""
        draw = lambda rng, size: rng.normal(0, scale, size)  # noqa: E731
        density = lambda moved: -((moved / scale) ** 2) / 2 - np.log(scale) - _HALF_LOG  # noqa: E731
        found = self._added("gaussian", value, sensitivity, draw, density, _l2, name)
        self.calls[-1] = self.calls[-1]._replace(deviation=scale)
        return found

    def integer_laplace(self, value: Any, sensitivity: float, scale: float, name: str = "") -> Any:
        """Whole numbers with discrete Laplace noise, of densities in proportion to e^-|k| / scale.

        The sensitivity is in the L1 norm.
        """
        ends = -np.expm1(-1 / scale)
        draw = lambda rng, size: rng.geometric(ends, size) - rng.geometric(ends, size)  # noqa: E731
        density = lambda moved: -np.abs(moved) / scale + np.log(np.tanh(0.5 / scale))  # noqa: E731
        given = np.rint(np.asarray(value, float))
        return self._added("integer laplace", given, sensitivity, draw, density, _l1, name)

    def choose(self, scores: Any, sensitivity: float, epsilon: float, name: str = "") -> int:
        """A place, with a chance in proportion to e^(epsilon score / (2 sensitivity)).

        This is the exponential mechanism; each score may move by the sensitivity.
        """
        given = np.asarray(scores, float)
        logs = epsilon * given / (2 * sensitivity)
        logs = logs - special.logsumexp(logs)
        draw = lambda: np.asarray(self._noise.choice(len(logs), p=np.exp(logs)))  # noqa: E731
        found = self._called("choose", given, sensitivity, _most, name, draw, lambda k: logs[k])
        return int(found)

    def respond(self, bit: bool, epsilon: float, name: str = "") -> bool:
        """The bit, or with a chance of 1 / (1 + e^epsilon) the other: randomized response."""
        keep = 1 / (1 + np.exp(-epsilon))
        draw = lambda: np.asarray(bool(bit) ^ (self._noise.random() >= keep))  # noqa: E731
        chance = lambda out: np.log(keep if out == bool(bit) else 1 - keep)  # noqa: E731
        return bool(self._called("respond", np.asarray(bit), 1.0, _most, name, draw, chance))

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
        """
        drawn = lambda: np.asarray(draw(self._noise))  # noqa: E731
        return self._called(name, np.asarray(value), sensitivity, _l2, "", drawn, log_density)

    def exactly(self, value: Any, name: str = "") -> Any:
        """The value itself: what is released, or decided by, without noise.

        If it is another on the neighbour, one run tells the tables apart.
        """
        given = np.asarray(value)
        same = lambda out: 0.0 if np.array_equal(out, given, equal_nan=True) else -LARGE  # noqa: E731
        return self._called("exactly", given, 0.0, _most, name, lambda: given, same)

    def _added(
        self,
        kind: str,
        value: Any,
        sensitivity: float,
        noise: Callable[[np.random.Generator, Any], Any],
        density: Callable[[np.ndarray], np.ndarray],
        distance: Callable[[np.ndarray], float],
        name: str,
    ) -> Any:
        given = np.asarray(value, float)
        draw = lambda: given + noise(self._noise, given.shape)  # noqa: E731

        def sure(out: np.ndarray) -> float:
            odd = ~(np.isfinite(given) & np.isfinite(out))
            if not np.array_equal(out[odd], given[odd], equal_nan=True):
                return -LARGE  # only one of the tables has a finite number there
            return float(np.sum(density(np.where(odd, 0.0, out - np.where(odd, 0.0, given)))))

        return self._called(kind, given, sensitivity, distance, name, draw, sure)

    def _called(
        self,
        kind: str,
        value: np.ndarray,
        sensitivity: float,
        distance: Callable[[np.ndarray], float],
        name: str,
        draw: Callable[[], np.ndarray],
        log_density: Callable[[np.ndarray], float],
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
        self.calls.append(Call(words, kept[0], sensitivity, distance, kept[1], found))
        return np.array(output)


def _l1(moved: np.ndarray) -> float:
    return float(np.sum(np.abs(moved)))


def _l2(moved: np.ndarray) -> float:
    return float(np.sqrt(np.sum(moved**2)))


def _most(moved: np.ndarray) -> float:
    return float(np.max(np.abs(moved), initial=0.0))


class Replayed(NamedTuple):
    """A run on one table, and its replay on another.

    Attributes:
        loss: log p(outputs | table) - log p(outputs | other); `LARGE` where the replay diverged.
        where: the draw that lost most, by its name and number.
        moved: by how much more than its stated sensitivity a value moved at most, as a ratio.
        steps: of each draw by how many deviations of Gaussian noise its value moved; NaN of a draw
            with other noise, unless its likelihood did not change.
    """

    loss: float
    where: str
    moved: float
    steps: tuple[float, ...] = (np.nan,)


def replayed(learn: Learn, table: Any, other: Any, seed: int) -> Replayed:
    """Run a learner on a table, and ask how likely its outputs were on another.

    Raises:
        ValueError: for a density that is not a number.
    """
    run = Hooks(seed)
    released = learn(table, run)
    again = Hooks(seed, run.calls)
    try:
        replay = learn(other, again)
    except DivergedError as other_draw:
        return Replayed(LARGE, f"draw {len(again.calls)}: only one table asks for {other_draw}", 1)
    if len(again.calls) < len(run.calls):
        return Replayed(LARGE, f"the end: only one table asks for {len(run.calls)} draws", 1)
    if not _alike(released, replay):
        return Replayed(LARGE, "what is returned: it follows private rows beside all draws", 1)
    losses, moved, steps = [], [0.0], []
    for one, two in zip(run.calls, again.calls, strict=True):
        losses.append(one.log_density - two.log_density)
        both = np.asarray(one.value, float), np.asarray(two.value, float)
        far = one.distance(np.where(np.isnan(both[0]) & np.isnan(both[1]), 0.0, both[0] - both[1]))
        far = np.inf if np.isnan(far) else far
        if far > 0 and not np.isnan(one.sensitivity):
            moved.append(far / one.sensitivity if one.sensitivity > 0 else np.inf)
        same = one.deviation == two.deviation or losses[-1] == 0
        steps.append(far / one.deviation if same and losses[-1] else 0.0 if same else np.nan)
    if np.isnan(losses).any():
        raise ValueError("a log density is not a number; the audit cannot judge this learner")
    worst = int(np.argmax(np.abs(losses))) if losses else 0
    name = run.calls[worst].name if losses else "nothing"
    return Replayed(float(np.sum(losses)), f"draw {worst} ({name})", max(moved), tuple(steps))


def _alike(one: Any, other: Any) -> bool:
    """Whether two returned things hold the same numbers and words; functions are not looked at."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if callable(one) or isinstance(one, np.random.Generator | Hooks):
        return True
    if hasattr(one, "__dict__") and not hasattr(one, "__array__"):
        return _alike(vars(one), vars(other))
    ours, theirs = np.asarray(one), np.asarray(other)
    return np.array_equal(ours, theirs, equal_nan=ours.dtype.kind in "fc")


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
    by that factor. With a delta, chances are bounded (`bounds.bounds_of`). What a learner returns
    must follow from its draws, so what differs there without a draw is a leak.

    Args:
        learn: (table, hooks) -> anything. All of its randomness must come from the hooks.
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
    here = [replayed(learn, table, neighbour, seed + k) for k in range(half)]
    there = [replayed(learn, neighbour, table, seed + half + k) for k in range(half)]
    losses = np.array([run.loss for run in here]), -np.array([run.loss for run in there])
    scores = Scores(*losses)
    epsilon, mu, curve = bounds_of(*scores.halves(), claim[1], confidence, exact=True)
    worst = max((*here, *there), key=lambda run: run.loss)
    where = worst.where
    if worst.moved > 1 + 1e-9:
        where += f", where a value moved {worst.moved:.3g} times its stated sensitivity"
    if claim[1] == 0:
        largest = float(max(np.max(losses[0]), np.max(-losses[1]), 0.0))
        epsilon = np.inf if largest >= LARGE / 2 else largest
    certain, steps = claim[1] == 0, {tuple(np.round(run.steps, 9)) for run in (*here, *there)}
    if fixed and len(steps) == 1 and not np.isnan(spent := float(np.linalg.norm([*steps]))):
        mu, certain = spent, True
        epsilon = gdp_epsilon(mu, claim[1]) if claim[1] else epsilon
    return Bound("grey box", claim, epsilon, mu, confidence, 2 * half, where, curve, certain)
