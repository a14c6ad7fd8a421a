"""Grey-box audits: a learner in any Python whose mechanisms are called through hooks.

A run on one table records the input and the output of each mechanism. A replay on the neighbour
returns the same outputs to the learner, and computes how likely they were there. So the log ratio
of the likelihoods of the run is exact, whatever the learner is written in, as long as all of its
randomness comes from the hooks.

Numbers are of float64. The rounding error of a log ratio is bounded draw by draw and subtracted
(`Call.rounding`), so that no bound is above the truth by it.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from dpbt.audit.contents import (
    Contents,
    describe_uncompared_parts,
    places_of_differences,
    snapshot_contents,
)
from dpbt.privacy.audit_bounds import (
    CONFIDENCE,
    IMPOSSIBLE_EVENT_LOG_RATIO,
    Bound,
    RunScores,
    epsilon_and_mu_lower_bounds,
)
from dpbt.privacy.conversions import gdp_epsilon

Learn = Callable[[Any, "Hooks"], Any]
"""(table, hooks) -> the released output; it draws by the hooks alone."""

_LOG_SQRT_2PI = np.log(2 * np.pi) / 2

_UNIT = 4 * float(np.finfo(np.float64).eps)
"""The relative error of a few operations of float64."""

CONTROLS = 20
"""How often each table is replayed before a difference counts as certain.

If the difference came from something else than the table, the 40 replays would be exchangeable.
Then all replays on one table would be alike, and differ from all on the other, with a chance of at
most 2 / C(40, 20), about 1e-11."""

_MAX_SUSPECTS = 3
"""How many runs are replayed so for a difference of their returned values, until one is a leak."""


class Call(NamedTuple):
    """One draw of a run.

    Attributes:
        name: the name of the mechanism, and of the draw if the learner names it.
        value: the private value.
        sensitivity: how far the value may be from the neighbour's, as the learner states; NaN if
            undeclared.
        distance: the difference of two values -> its size, in the mechanism's norm.
        output: the output of the mechanism.
        log_density: the log density of the output.
        deviation: the standard deviation of Gaussian noise; NaN for other mechanisms.
        rounding: a bound on the error of the log density by the rounding of float64.
        contents: the contents of a value that is released without noise; None for other draws.
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
    """The error that a replay asked for another draw than its run.

    Its control flow follows private rows.
    """


def _l1_norm(difference: np.ndarray) -> float:
    return float(np.sum(np.abs(difference)))


def _l2_norm(difference: np.ndarray) -> float:
    return float(np.sqrt(np.sum(difference**2)))


def _max_norm(difference: np.ndarray) -> float:
    return float(np.max(np.abs(difference), initial=0.0))


class _AdditiveNoise(NamedTuple):
    """A law of noise that is added to each number of a value.

    Attributes:
        name: the name of the mechanism.
        sample: (generator, shape) -> f64[shape].
        log_density: f64[...] -> f64[...], at each noise.
        slope: f64[...] -> f64[...], the absolute slope of the log density.
        distance: the norm of the sensitivity.
        deviation: as `Call.deviation`.
    """

    name: str
    sample: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
    log_density: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]
    distance: Callable[[np.ndarray], float]
    deviation: float = np.nan

    def log_density_of_output(self, output: np.ndarray, value: np.ndarray) -> float:
        """The log density of an output that is a value with this noise.

        It is -IMPOSSIBLE_EVENT_LOG_RATIO if a number that is not finite has changed.
        """
        is_odd = ~(np.isfinite(value) & np.isfinite(output))
        if not np.array_equal(output[is_odd], value[is_odd], equal_nan=True):
            return -IMPOSSIBLE_EVENT_LOG_RATIO  # only one of the tables has a finite number there
        noise = np.where(is_odd, 0.0, output - np.where(is_odd, 0.0, value))
        return float(np.sum(self.log_density(noise)))

    def rounding_bound_of_density(self, output: np.ndarray, value: np.ndarray) -> float:
        """Bound the rounding error of the log density of an output.

        It is that of the difference of output and value, and that of the density.
        """
        is_finite = np.isfinite(value) & np.isfinite(output)
        finite_value = np.where(is_finite, value, 0.0)
        finite_output = np.where(is_finite, output, 0.0)
        noise = finite_output - finite_value
        spacing = np.spacing(np.maximum(np.abs(finite_value), np.abs(finite_output)))
        errors = self.slope(noise) * spacing + _UNIT * np.abs(self.log_density(noise))
        return float(np.sum(errors))


def _laplace_noise(scale: float) -> _AdditiveNoise:
    return _AdditiveNoise(
        name="laplace",
        sample=lambda rng, shape: rng.laplace(0, scale, shape),
        log_density=lambda noise: -np.abs(noise) / scale - np.log(2 * scale),
        slope=lambda noise: np.full_like(noise, 1 / scale),
        distance=_l1_norm,
    )


def _gaussian_noise(scale: float) -> _AdditiveNoise:
    return _AdditiveNoise(
        name="gaussian",
        sample=lambda rng, shape: rng.normal(0, scale, shape),
        log_density=lambda noise: -((noise / scale) ** 2) / 2 - np.log(scale) - _LOG_SQRT_2PI,
        slope=lambda noise: np.abs(noise) / scale / scale,
        distance=_l2_norm,
        deviation=scale,
    )


def _discrete_laplace_noise(scale: float) -> _AdditiveNoise:
    success = -np.expm1(-1 / scale)
    return _AdditiveNoise(
        name="integer laplace",
        sample=lambda rng, shape: rng.geometric(success, shape) - rng.geometric(success, shape),
        log_density=lambda noise: -np.abs(noise) / scale + np.log(np.tanh(0.5 / scale)),
        slope=lambda noise: np.full_like(noise, 1 / scale),
        distance=_l1_norm,
    )


class Hooks:
    """Mechanisms for a learner that is to be audited.

    Outside of an audit they add noise, so the learner that is audited is the one that is used. The
    noise is NumPy's, of floating point: that is for audits and research, and no release.

    Attributes:
        public: a NumPy generator whose numbers do not depend on the table, for public randomness.
        calls: the draws so far.
        uncompared: which parts of values without noise could not be compared with the run's.
    """

    def __init__(self, seed: int = 0, recorded: list[Call] | None = None):
        """Make the hooks of a run, or of its replay.

        Args:
            seed: the seed of the noise and of the public randomness.
            recorded: the calls of a run whose outputs the hooks return again; None for fresh draws.
        """
        self.public = np.random.default_rng([seed, 0])
        self._noise = np.random.default_rng([seed, 1])
        self._recorded = recorded
        self.calls: list[Call] = []
        self.uncompared: list[str] = []

    @property
    def public_state(self) -> Any:
        """The state of the generator `public`.

        It is equal for two hooks of one seed that drew as many numbers.
        """
        return self.public.bit_generator.state

    def laplace(self, value: Any, sensitivity: float, scale: float, name: str = "") -> Any:
        """Add Laplace noise of a scale to a value.

        The sensitivity is in the L1 norm.
        """
        return self._add_noise(_laplace_noise(scale), value, sensitivity, name)

    def gaussian(self, value: Any, sensitivity: float, scale: float, name: str = "") -> Any:
        """Add Gaussian noise to a value, with the scale as its standard deviation.

        The sensitivity is in the L2 norm.
        """
        return self._add_noise(_gaussian_noise(scale), value, sensitivity, name)

    def integer_laplace(self, value: Any, sensitivity: float, scale: float, name: str = "") -> Any:
        """Round a value to whole numbers, and add discrete Laplace noise of a scale.

        The noise is k with a probability in proportion to e^(-|k| / scale). The sensitivity is in
        the L1 norm.
        """
        integers = np.rint(np.asarray(value, float))
        return self._add_noise(_discrete_laplace_noise(scale), integers, sensitivity, name)

    def choose(self, scores: Any, sensitivity: float, epsilon: float, name: str = "") -> int:
        """Choose an index of large score by the exponential mechanism.

        Its probability is in proportion to e^(epsilon score / (2 sensitivity)), and each score may
        change by the sensitivity.
        """
        scores = np.asarray(scores, float)
        logits = epsilon * (scores - np.max(scores)) / (2 * sensitivity)
        log_pmf = logits - special.logsumexp(logits)
        finite_scores = scores[np.isfinite(scores)]
        spacing = np.max(np.spacing(np.abs(finite_scores)), initial=0.0)
        score_error = spacing * epsilon / (2 * sensitivity)
        return int(
            self._record_call(
                name=f"choose {name}".strip(),
                value=scores,
                sensitivity=sensitivity,
                distance=_max_norm,
                draw=lambda: np.asarray(self._noise.choice(len(log_pmf), p=np.exp(log_pmf))),
                log_density=lambda index: log_pmf[index],
                rounding=lambda index: 2 * score_error + _UNIT * (abs(log_pmf[index]) + 1),
            )
        )

    def respond(self, bit: bool, epsilon: float, name: str = "") -> bool:
        """Answer a private bit by randomized response.

        It is the bit, or with a chance of 1 / (1 + e^epsilon) the other one.
        """
        truth = bool(bit)
        flip_probability = float(special.expit(-epsilon))

        def log_probability(response: np.ndarray) -> float:
            # The log of 1 / (1 + e^-epsilon) or of 1 / (1 + e^epsilon), without cancellation.
            return -np.logaddexp(0.0, -epsilon if response == truth else epsilon)

        return bool(
            self._record_call(
                name=f"respond {name}".strip(),
                value=np.asarray(truth),
                sensitivity=1.0,
                distance=_max_norm,
                draw=lambda: np.asarray(truth ^ (self._noise.random() < flip_probability)),
                log_density=log_probability,
                rounding=lambda response: _UNIT * abs(log_probability(response)),
            )
        )

    def custom(
        self,
        value: Any,
        draw: Callable[[np.random.Generator], Any],
        log_density: Callable[[np.ndarray], float],
        sensitivity: float = np.nan,
        name: str = "custom",
    ) -> Any:
        """Draw from a mechanism of one's own, given by its sampler and its log density.

        Args:
            value: the private value, for the report.
            draw: generator -> output.
            log_density: output -> its log density or log probability.
            sensitivity: how far the value may change in the L2 norm; NaN for no check.
            name: the name of the draw.

        The audit assumes a rounding error of a few units of a log density's own size. Where it
        loses more, as through the difference of large numbers, the caller's claim must leave room
        for it.
        """
        return self._record_call(
            name=name.strip(),
            value=np.asarray(value),
            sensitivity=sensitivity,
            distance=_l2_norm,
            draw=lambda: np.asarray(draw(self._noise)),
            log_density=log_density,
            rounding=lambda output: _UNIT * (abs(float(log_density(output))) + 1),
        )

    def exactly(self, value: Any, name: str = "") -> Any:
        """Return a value that is released, or decides something, without noise.

        If it holds something else on the neighbour, one run distinguishes the tables. Objects are
        compared by what they hold (`contents`), and the audit reports what it cannot compare.
        """
        array = np.asarray(value)
        number = len(self.calls)
        contents = snapshot_contents(value, _OPAQUE_TYPES)

        def log_density(_: np.ndarray) -> float:
            recorded = contents if self._recorded is None else self._recorded[number].contents
            assert recorded is not None  # since the recorded draw has the name of this one
            self.uncompared += describe_uncompared_parts(recorded, contents)
            return -IMPOSSIBLE_EVENT_LOG_RATIO if places_of_differences(recorded, contents) else 0.0

        output = self._record_call(
            name=f"exactly {name}".strip(),
            value=array,
            sensitivity=0.0,
            distance=_max_norm,
            draw=lambda: array,
            log_density=log_density,
        )
        self.calls[-1] = self.calls[-1]._replace(contents=contents)
        return output

    def _add_noise(
        self, noise: _AdditiveNoise, value: Any, sensitivity: float, name: str
    ) -> np.ndarray:
        """Add noise to a value, and record the call."""
        array = np.asarray(value, float)
        output = self._record_call(
            name=f"{noise.name} {name}".strip(),
            value=array,
            sensitivity=sensitivity,
            distance=noise.distance,
            draw=lambda: array + noise.sample(self._noise, array.shape),
            log_density=lambda output: noise.log_density_of_output(output, array),
            rounding=lambda output: noise.rounding_bound_of_density(output, array),
        )
        self.calls[-1] = self.calls[-1]._replace(deviation=noise.deviation)
        return output

    def _record_call(
        self,
        *,
        name: str,
        value: np.ndarray,
        sensitivity: float,
        distance: Callable[[np.ndarray], float],
        draw: Callable[[], np.ndarray],
        log_density: Callable[[np.ndarray], float],
        rounding: Callable[[np.ndarray], float] = lambda output: 0.0,
    ) -> np.ndarray:
        """Record a call of a mechanism, and return its output, fresh or recorded.

        Raises:
            DivergedError: if the run that is replayed had another draw here.
        """
        output = draw() if self._recorded is None else self._recorded_output(name, value.shape)
        log_density_of_output = float(log_density(output))
        is_possible = abs(log_density_of_output) < IMPOSSIBLE_EVENT_LOG_RATIO / 2
        self.calls.append(
            Call(
                name=name,
                value=np.array(value),  # copies, as a learner may write into both
                sensitivity=sensitivity,
                distance=distance,
                output=np.array(output),
                log_density=log_density_of_output,
                rounding=float(rounding(output)) if is_possible else 0.0,
            )
        )
        return np.array(output)

    def _recorded_output(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """The output of the next draw of the run that is replayed.

        A DivergedError is raised if that draw has another name or shape.
        """
        assert self._recorded is not None
        number = len(self.calls)
        call = self._recorded[number] if number < len(self._recorded) else None
        if call is None or call.name != name or call.value.shape != shape:
            raise DivergedError(name)
        return call.output


_OPAQUE_TYPES = (Hooks,)
"""Hooks belong to the audit, and are no part of a release."""


class ReplayResult(NamedTuple):
    """A run on one table, compared with its replay on another.

    Attributes:
        loss: log p(outputs | table) - log p(outputs | other), minus a bound on the rounding;
            `IMPOSSIBLE_EVENT_LOG_RATIO` where the replay diverged, or returned something else.
        where: the draw of the largest loss, by its number and name.
        sensitivity_ratio: the largest ratio of a value's change to its stated sensitivity.
        changes_in_deviations: for each draw, the change of its value in deviations of Gaussian
            noise; NaN for a draw with other noise, unless its likelihood did not change.
        loss_of_draws: the loss without what was returned.
        differing_returns: the places where the run and the replay returned different parts.
        uncompared: what could not be compared, in words.
        has_same_public: whether both tables took as many numbers of public randomness.
    """

    loss: float
    where: str
    sensitivity_ratio: float = 1.0
    changes_in_deviations: tuple[float, ...] = (np.nan,)
    loss_of_draws: float = IMPOSSIBLE_EVENT_LOG_RATIO
    differing_returns: frozenset[str] = frozenset()
    uncompared: tuple[str, ...] = ()
    has_same_public: bool = True


def replay_pair(learn: Learn, table: Any, other: Any, seed: int) -> ReplayResult:
    """Run a learner on a table, and compute how likely its outputs were on another.

    Raises:
        ValueError: for a density that is not a number.
    """
    run = Hooks(seed)
    released = snapshot_contents(learn(table, run), _OPAQUE_TYPES)
    return _replay_on(learn, other, seed, run, released)


def _replay_on(learn: Learn, other: Any, seed: int, run: Hooks, released: Contents) -> ReplayResult:
    """Replay a run on another table, and compare the draws and what was returned."""
    replay = Hooks(seed, run.calls)
    try:
        replayed = snapshot_contents(learn(other, replay), _OPAQUE_TYPES)
    except DivergedError as other_draw:
        where = f"draw {len(replay.calls)}: only one table asks for {other_draw}"
        return ReplayResult(loss=IMPOSSIBLE_EVENT_LOG_RATIO, where=where)
    if len(replay.calls) < len(run.calls):
        where = f"the end: only one table asks for {len(run.calls)} draws"
        return ReplayResult(loss=IMPOSSIBLE_EVENT_LOG_RATIO, where=where)

    differences = [_compare_calls(*calls) for calls in zip(run.calls, replay.calls, strict=True)]
    losses = [difference.loss for difference in differences]
    if np.isnan(losses).any():
        raise ValueError("a log density is not a number; the audit cannot judge this learner")
    worst = int(np.argmax(np.abs(losses))) if losses else 0
    name = run.calls[worst].name if losses else "nothing"
    rounding = sum((difference.rounding for difference in differences), 0.0)
    loss_of_draws = float(np.sum(losses)) - rounding
    differing_returns = places_of_differences(released, replayed)
    return ReplayResult(
        loss=IMPOSSIBLE_EVENT_LOG_RATIO if differing_returns else loss_of_draws,
        where=f"draw {worst} ({name})",
        sensitivity_ratio=max([0.0, *(difference.sensitivity_ratio for difference in differences)]),
        changes_in_deviations=tuple(difference.in_deviations for difference in differences),
        loss_of_draws=loss_of_draws,
        differing_returns=differing_returns,
        uncompared=(*replay.uncompared, *describe_uncompared_parts(released, replayed)),
        has_same_public=run.public_state == replay.public_state,
    )


class _CallDifference(NamedTuple):
    """The difference between a draw of a run and the same draw of a replay.

    Attributes:
        loss: the log density of the run minus that of the replay.
        rounding: a bound on the rounding error of the loss; 0 if nothing differs.
        sensitivity_ratio: the ratio of the value's change to its stated sensitivity; 0 if it has
            not changed, or the sensitivity is undeclared.
        in_deviations: as an entry of `ReplayResult.changes_in_deviations`.
    """

    loss: float
    rounding: float
    sensitivity_ratio: float
    in_deviations: float


def _compare_calls(run_call: Call, replay_call: Call) -> _CallDifference:
    """Compare a draw of a run with the same draw of its replay."""
    loss = run_call.log_density - replay_call.log_density
    distance = _distance_of_values(run_call, replay_call)
    rounding = 0.0
    ratio = 0.0
    if loss or distance:
        rounding = run_call.rounding + replay_call.rounding + _UNIT * abs(loss)
    if distance > 0 and not np.isnan(run_call.sensitivity):
        ratio = distance / run_call.sensitivity if run_call.sensitivity > 0 else np.inf
    if loss == 0:
        in_deviations = 0.0
    elif run_call.deviation == replay_call.deviation:
        in_deviations = distance / run_call.deviation
    else:
        in_deviations = np.nan
    return _CallDifference(loss, rounding, ratio, in_deviations)


def _distance_of_values(run_call: Call, replay_call: Call) -> float:
    """How far the private value of a draw moved between a run and its replay.

    It is infinite if the value is no number, and has changed.
    """
    if not all(call.value.dtype.kind in "biuf" for call in (run_call, replay_call)):
        return 0.0 if run_call.log_density == replay_call.log_density else np.inf
    value = np.asarray(run_call.value, float)
    other_value = np.asarray(replay_call.value, float)
    with np.errstate(invalid="ignore"):
        difference = np.where(np.isnan(value) & np.isnan(other_value), 0.0, value - other_value)
        distance = run_call.distance(difference)
    return np.inf if np.isnan(distance) else distance


class _ControlledReplay(NamedTuple):
    """The returned contents and the densities of one of many replays of a run.

    Attributes:
        contents: the contents of the returned object; None if the replay diverged.
        log_densities: the log densities of the draws; None if the replay diverged.
    """

    contents: Contents | None
    log_densities: tuple[float, ...] | None


class _Controls(NamedTuple):
    """The findings of many replays of one run on both tables.

    Attributes:
        has_repeated: whether each table repeats its draws in every replay.
        loss: the loss of the draws of the run, as `ReplayResult.loss_of_draws` but for rounding.
        leaks: the places of the returned object where all replays on one table are alike, and
            differ from all on the other.
    """

    has_repeated: bool
    loss: float
    leaks: frozenset[str]


def _replay_controls(learn: Learn, table: Any, other: Any, seed: int) -> _Controls:
    """Replay one run many times on each table, to see whether differences repeat.

    The replays on its own table and on the other are in a mixed order. Every second replay is on a
    copy, so that what follows from the address of a table, and not from its rows, does not repeat.

    A difference between the tables says nothing if the same table differs from itself.
    """
    run = Hooks(seed)
    learn(table, run)
    on_table, on_other = _replay_in_mixed_order(learn, table=table, other=other, seed=seed, run=run)

    rounding = sum(call.rounding for call in run.calls)
    log_densities = tuple(call.log_density for call in run.calls)
    log_densities_on_other = on_other[0].log_densities
    has_repeated = all(
        _have_close_densities(replay.log_densities, expected, rounding)
        for replays, expected in ((on_table, log_densities), (on_other, log_densities_on_other))
        for replay in replays
    )
    loss = IMPOSSIBLE_EVENT_LOG_RATIO
    if log_densities_on_other is not None and len(log_densities_on_other) == len(log_densities):
        loss = float(np.sum(np.subtract(log_densities, log_densities_on_other)))
    return _Controls(has_repeated=has_repeated, loss=loss, leaks=_find_leaks(on_table, on_other))


class _ReplaysOfTables(NamedTuple):
    """The replays of one run on each of two tables.

    Attributes:
        on_table: those on the table of the run.
        on_other: those on the other table.
    """

    on_table: list[_ControlledReplay]
    on_other: list[_ControlledReplay]


def _replay_in_mixed_order(
    learn: Learn, *, table: Any, other: Any, seed: int, run: Hooks
) -> _ReplaysOfTables:
    """Replay a run `CONTROLS` times on its own table and as often on the other, mixed."""
    order = np.random.default_rng([seed, 3]).permutation(np.arange(2 * CONTROLS) % 2)
    tables, copies = (table, other), []  # copies are kept, so that no two have one address
    replays = _ReplaysOfTables([], [])
    for side in order.tolist():
        hooks = Hooks(seed, run.calls)
        try:
            is_copied = len(replays[side]) % 2
            copies.append(_copy_table(tables[side]) if is_copied else tables[side])
            contents = snapshot_contents(learn(copies[-1], hooks), _OPAQUE_TYPES)
            log_densities = tuple(call.log_density for call in hooks.calls)
        except DivergedError:
            contents = None
            log_densities = None
        replays[side].append(_ControlledReplay(contents, log_densities))
    return replays


def _find_leaks(
    on_table: list[_ControlledReplay], on_other: list[_ControlledReplay]
) -> frozenset[str]:
    """Find the places where all replays on one table are alike, and differ from the other's.

    There are none if a replay diverged.
    """
    contents, other_contents = (
        [replay.contents for replay in replays if replay.contents is not None]
        for replays in (on_table, on_other)
    )
    if len(contents) < len(on_table) or len(other_contents) < len(on_other):
        return frozenset()
    leaks = places_of_differences(contents[0], other_contents[0])
    for repeated in (contents, other_contents):
        for later in repeated:
            leaks -= places_of_differences(repeated[0], later)
    return leaks


def _copy_table(table: Any) -> Any:
    """Copy a table, or return the table itself if it cannot be copied."""
    try:
        return copy.deepcopy(table)
    except Exception:  # a class of the caller's may raise anything
        return table


def _have_close_densities(
    log_densities: tuple[float, ...] | None,
    expected: tuple[float, ...] | None,
    rounding: float,
) -> bool:
    """Whether two replays asked for the same draws, with the same densities up to rounding."""
    if log_densities is None or expected is None:
        return log_densities is expected
    if len(log_densities) != len(expected):
        return False
    return bool(np.all(np.abs(np.subtract(log_densities, expected)) <= 2 * rounding))


def _describe_first_place(places: frozenset[str]) -> str:
    """Describe the first of some places of the returned object."""
    first = min(places)
    return f"what is returned at {first}" if first else "what is returned"


def grey_box_lower_bound(
    learn: Learn,
    table: Any,
    neighbour: Any,
    *,
    claim: tuple[float, float],
    nonadaptive: bool = False,
    num_runs: int = 200,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> Bound:
    """A lower bound on the epsilon and mu of a learner, from exact log ratios of likelihoods.

    For a pure claim the largest loss is a certificate: an output that one table makes more likely
    by that factor. With a delta, chances are bounded (`audit_bounds.epsilon_and_mu_lower_bounds`).
    The returned object must follow from the draws alone, so a difference there without a draw is a
    leak. Objects are compared by what they hold (`contents`), and the bound names what could not be
    compared.

    Before a loss counts, its run is replayed 20 times on each table. If a table does not repeat
    itself, then the learner has other randomness than the hooks', or changes its table, and a
    difference between the tables proves nothing: the bound is 0, and says so.

    Args:
        learn: (table, hooks) -> anything. All of its randomness must come from the hooks, and it
            must leave the table as it is.
        table: in any form that `learn` reads.
        neighbour: likewise. The result of an audit of two private tables is itself private.
        claim: (epsilon, delta) that the learner states.
        nonadaptive: whether the caller knows that no draw's value, noise or number of places
            follows from earlier outputs. Where all draws that distinguish the tables are Gaussian,
            mu is then the root of the sum of squares of their changes in deviations, for certain.
        num_runs: how many, half of them on each of the two tables; fewer than 8 count as 8.
        seed: the seed of the first run.
        confidence: in (0, 1).
    """
    runs_on_each = max(num_runs // 2, 4)
    pairs = [_Pair(table, neighbour, seed + k) for k in range(runs_on_each)]
    pairs += [_Pair(neighbour, table, seed + runs_on_each + k) for k in range(runs_on_each)]
    results = [replay_pair(learn, *pair) for pair in pairs]
    void_bound = Bound(
        level="grey box",
        claim=claim,
        epsilon=0.0,
        mu=0.0,
        confidence=confidence,
        runs=2 * runs_on_each,
        where="nothing",
    )

    # Fewer rows may ask for fewer public numbers, as a permutation of rows does. What is drawn or
    # returned after that differs, though it may be as likely on both tables.
    if not all(result.has_same_public for result in results):
        return void_bound._replace(
            uncompared="anything: one table takes other numbers of hooks.public than the other "
            "does, so runs on both are not alike; take as many whatever the rows are"
        )
    returned = _find_returned_leaks(learn, pairs, results)
    results = [_drop_differences_without_leak(result, returned.leaks) for result in results]
    worst_index = max(range(len(results)), key=lambda index: results[index].loss)
    worst = results[worst_index]
    if (
        worst.loss > 0
        and not returned.leaks
        and not _replays_repeat_loss(learn, pairs[worst_index], worst)
    ):
        return void_bound._replace(
            uncompared="the draws, which one table does not repeat: they have other randomness "
            "than the hooks', or the learner changes its table"
        )
    bound = _bound_of_losses(void_bound, results, runs_on_each=runs_on_each, worst=worst)
    mu_of_draws = _mu_of_draws_changing_alike(results) if nonadaptive else None
    if mu_of_draws is not None:
        epsilon = gdp_epsilon(mu_of_draws, claim[1]) if claim[1] else bound.epsilon
        bound = bound._replace(epsilon=epsilon, mu=mu_of_draws, certain=True)
    return bound._replace(uncompared=_join_first(returned.uncompared))


class _Pair(NamedTuple):
    """A run, and the table on which it is replayed.

    Attributes:
        table: of the run.
        other: the table of the replay.
        seed: of the run.
    """

    table: Any
    other: Any
    seed: int


class _ReturnedLeaks(NamedTuple):
    """The leaks that differences of the returned objects prove.

    Attributes:
        leaks: the places at which the object follows private rows beside all draws.
        uncompared: what could not be compared, in words.
    """

    leaks: frozenset[str]
    uncompared: list[str]


def _find_returned_leaks(
    learn: Learn, pairs: list[_Pair], results: list[ReplayResult]
) -> _ReturnedLeaks:
    """Find the differences of returned objects that always repeat, by replays.

    A difference between the tables that one table alone does not repeat proves nothing.
    """
    suspects = [index for index, result in enumerate(results) if result.differing_returns]
    leaks: frozenset[str] = frozenset()
    for index in suspects[:_MAX_SUSPECTS]:
        leaks = leaks or _replay_controls(learn, *pairs[index]).leaks
    uncompared = list(dict.fromkeys(text for result in results for text in result.uncompared))
    if suspects and not leaks:
        first = _describe_first_place(results[suspects[0]].differing_returns)
        uncompared.insert(0, f"{first}, which one table does not repeat")
    return _ReturnedLeaks(leaks=leaks, uncompared=uncompared)


def _replays_repeat_loss(learn: Learn, pair: _Pair, result: ReplayResult) -> bool:
    """Whether replays of a run repeat its draws on each table, with at least its loss."""
    control = _replay_controls(learn, *pair)
    return control.has_repeated and control.loss >= result.loss


def _bound_of_losses(
    void_bound: Bound, results: list[ReplayResult], *, runs_on_each: int, worst: ReplayResult
) -> Bound:
    """The bound that the exact losses of runs on both tables prove.

    Args:
        void_bound: the bound of no runs, with the claim and the confidence.
        results: of the runs on the table, then of those on the neighbour.
        runs_on_each: how many runs are on the table.
        worst: the result of the largest loss.
    """
    losses = np.array([result.loss for result in results])
    scores = RunScores(on_table=losses[:runs_on_each], on_neighbour=-losses[runs_on_each:])
    delta = void_bound.claim[1]
    lower = epsilon_and_mu_lower_bounds(
        *scores.split_in_halves(),
        delta=delta,
        confidence=void_bound.confidence,
        are_log_likelihood_ratios=True,
    )
    epsilon = lower.epsilon
    if delta == 0:
        epsilon = np.inf if worst.loss >= IMPOSSIBLE_EVENT_LOG_RATIO / 2 else max(worst.loss, 0.0)
    return void_bound._replace(
        epsilon=epsilon,
        mu=lower.mu,
        where=_describe_loss_of_result(worst),
        curve=lower.curve,
        certain=delta == 0,
    )


def _join_first(texts: list[str], max_texts: int = 3) -> str:
    """Join the first of some texts in one line, which says if there are more."""
    return "; ".join(texts[:max_texts]) + ("; and more" if texts[max_texts:] else "")


def _drop_differences_without_leak(result: ReplayResult, leaks: frozenset[str]) -> ReplayResult:
    """A result in which no difference of returned objects counts unless it is a leak."""
    if not result.differing_returns:
        return result
    if not result.differing_returns & leaks:
        return result._replace(loss=result.loss_of_draws)
    place = _describe_first_place(result.differing_returns & leaks)
    return result._replace(
        where=f"{place}: it follows private rows beside all draws",
        sensitivity_ratio=1.0,
        changes_in_deviations=(np.nan,),
    )


def _describe_loss_of_result(result: ReplayResult) -> str:
    """Describe which draw the loss of a result comes from."""
    if result.sensitivity_ratio <= 1 + 1e-9:
        return result.where
    ratio = f"{result.sensitivity_ratio:.3g}"
    return f"{result.where}, where a value moved {ratio} times its stated sensitivity"


def _mu_of_draws_changing_alike(results: list[ReplayResult]) -> float | None:
    """The mu of Gaussian draws that change alike in every run.

    It is None if other draws change, or some of them change in another way in another run.
    """
    changes = {tuple(np.round(result.changes_in_deviations, 9)) for result in results}
    norms = [float(np.linalg.norm(result.changes_in_deviations)) for result in results]
    mu = min(norms) * (1 - _UNIT)
    return mu if len(changes) == 1 and not np.isnan(mu) else None
