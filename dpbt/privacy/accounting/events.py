"""Events, which learners declare of their draws, and lines, which compare them with the draws."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from dpbt.privacy import mechanisms
from dpbt.privacy.mechanism import (
    SCALE_MARGIN,
    Cost,
    DrawRequest,
    Mechanism,
    Numbers,
    Sampler,
    shift,
)

_ROUNDED = 1 - 1e-6
"""Scales are float32 and prices float64: a scale may look this factor smaller than it is."""


@dataclasses.dataclass(frozen=True)
class Event:
    """What a learner declares about one draw. The mechanism's price turns it into a cost.

    Numbers may be arrays of settings; a line of a ledger is of one setting.

    Attributes:
        site: the site of the release that it covers.
        mechanism: the mechanism of the draw.
        releases: what it publishes, in words.
        sensitivity: how far one row moves the value, in the norm of `mechanism.price`: L1, L2, or
            for selections the range of the change of scores.
        scale: the noise, in the unit of the sensitivity.
        theorem: where the sensitivity is proved.
        count: how often a round pays for it.
        scale_unit: a public number that the draw's scale is proportional to, such as a sensitivity,
            for a scale that follows what was released. The draw's scale over it is compared with
            scale / scale_unit.
        moved: how many independent outputs of one draw a row moves, independently of `count`;
            None for draws that never read the rows.
        unit: the unit of sensitivity and scale, in words for the printed ledger.

    Raises:
        ValueError: for a count that is not a whole number of at least 1, or a number that is
            negative or NaN. Also for a sensitivity of a draw that never reads the rows.
    """

    site: str
    mechanism: Mechanism
    releases: str
    sensitivity: Numbers
    scale: Numbers
    theorem: str
    count: int = 1
    scale_unit: Numbers = 1.0
    moved: int | None = None
    unit: str = ""

    def __post_init__(self):
        # Counts are whole numbers.
        counts = {"count": self.count, "moved": 1 if self.moved is None else self.moved}
        for name, value in counts.items():
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not whole or value < 1:
                raise ValueError(
                    f"{name} of the draw {self.site!r} must be a whole number of at least 1, "
                    f"got {np.asarray(value).tolist()!r}"
                )

        # Sensitivities and scales are numbers of at least 0, and scale units are above 0.
        if self.moved is None and self.mechanism.price.reads_rows:
            raise ValueError(
                f"moved of the draw {self.site!r} must say how many of its outputs a row moves"
            )
        for name in ("sensitivity", "scale", "scale_unit"):
            value = np.asarray(getattr(self, name), np.float64)
            if not np.all(value >= 0):
                raise ValueError(
                    f"{name} of the draw {self.site!r} must be at least 0, got {value.tolist()}"
                )
        for name in ("sensitivity", "scale_unit"):
            if not np.all(np.isfinite(np.asarray(getattr(self, name), np.float64))):
                raise ValueError(f"{name} of the draw {self.site!r} must be finite")
        if not np.all(np.asarray(self.scale_unit) > 0):
            raise ValueError(f"scale_unit of the draw {self.site!r} must be above 0")

        # A draw that never reads the rows has no sensitivity.
        if not self.mechanism.price.reads_rows and np.any(np.asarray(self.sensitivity) > 0):
            raise ValueError(
                f"sensitivity of the draw {self.site!r} must be 0, because {self.mechanism.name} "
                f"draws never read the rows, got {np.asarray(self.sensitivity).tolist()}"
            )

    @property
    def shift(self) -> Numbers:
        """f64[...]: sensitivity / scale."""
        return shift(self.sensitivity, self.scale)

    @property
    def cost(self) -> Cost:
        """The cost of one such draw."""
        return self.mechanism.cost(self.sensitivity, self.scale)


def of_people(event: Event, rows_per_person: int) -> Event:
    """The event for neighbours that differ in all rows of one person, at most `rows_per_person`.

    Proof. Between the two tables lies a chain of tables, each a neighbour of the next by one row.
    Given what was released before, a value moves by at most the sum of the steps. L1 norms, L2
    norms and ranges add up, and so do the outputs that are moved. []
    """
    moved = None if event.moved is None else event.moved * rows_per_person
    sensitivity = np.asarray(event.sensitivity, np.float64)[()] * rows_per_person
    return dataclasses.replace(event, sensitivity=sensitivity, moved=moved)


def public(
    site: str,
    releases: str,
    *,
    scale: float,
    theorem: str,
    mechanism: Mechanism = mechanisms.uniform,
) -> Event:
    """The event of a uniform draw that never reads the rows; it is free under every relation."""
    return Event(site, mechanism, releases, 0.0, scale, theorem)


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of a ledger: an event of one setting, compared with its draw, all rounds together.

    Attributes:
        event: as the learner declares it.
        times: how often it takes place: the number of rounds, or 1 for a prologue.
        gap: half of what finite bits add to epsilon, for the whole line.
        tail: what finite bits add to delta, for the whole line.
        exact: whether the sampler states how far it is from its law.
        drawn: the least scale that is drawn, where float32 makes it smaller than the event's; a
            lower bound where it follows what was released. None if nothing was compared.

    Raises:
        ValueError: for no draw, or a negative gap or tail.
    """

    event: Event
    times: int = 1
    gap: float = 0.0
    tail: float = 0.0
    exact: bool = True
    drawn: float | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self):
        if self.times < 1 or not (self.gap >= 0 and self.tail >= 0):
            raise ValueError(
                f"the line of the draw {self.site!r} must have times of at least 1, and gap and "
                f"tail of at least 0, got {self.times}, {self.gap:g} and {self.tail:g}"
            )

    @property
    def site(self) -> str:
        """The site of the release that it covers."""
        return self.event.site

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism of the draw."""
        return self.event.mechanism

    @property
    def count(self) -> int:
        """How often it is paid for, over all rounds."""
        return self.event.count * self.times

    @property
    def sensitivity(self) -> float:
        """The sensitivity of the event."""
        return float(self.event.sensitivity)

    @property
    def scale(self) -> float:
        """The scale of the event."""
        return float(self.event.scale)

    @property
    def epsilon(self) -> float:
        """The pure epsilon of one payment; infinite if there is no pure guarantee."""
        return float(self.event.cost.epsilon)

    @property
    def rho(self) -> float:
        """The rho of zCDP of one payment."""
        return float(self.event.cost.rho)

    @property
    def mu(self) -> float:
        """The mu of Gaussian differential privacy of one payment."""
        return float(self.event.cost.mu)

    def with_less(self, other: "Line") -> "Line":
        """The line, with the smaller of two readings of the scale that is drawn."""
        read = [each.drawn for each in (self, other) if each.drawn is not None]
        return dataclasses.replace(self, drawn=min(read, default=None))

    @property
    def drawn_cost(self) -> Cost:
        """The cost of one payment at the scale that is drawn."""
        scale = self.scale if self.drawn is None else min(self.scale, self.drawn)
        return self.mechanism.cost(self.sensitivity, scale)


def cover(events: Sequence[Event], sites: Sequence[str]) -> None:
    """Check that events and sites have the same names, each once.

    Raises:
        ValueError: naming a site that no event covers, or an event whose site is never released.
    """
    named = [event.site for event in events]
    if sorted(named) != sorted(sites):
        missing = sorted(set(sites) - set(named))
        unknown = sorted(set(named) - set(sites))
        raise ValueError(
            f"the ledger does not match the release: not covered {missing}, "
            f"never released {unknown}"
        )


def compared(events: Sequence[Event], draws: Mapping[str, DrawRequest], times: int) -> list[Line]:
    """A line for each event, compared with the draw that it prices.

    The comparison cannot see a wrong sensitivity. Proofs, neighbour tests and audits are for that.

    Args:
        events: of one setting.
        draws: the draws that the program asks for, by site.
        times: how often the program runs.

    Raises:
        ValueError: if events and draws have different sites, or a draw has another mechanism than
            its event, or less noise.
    """
    cover(events, list(draws))
    return [_compared(event, draws[event.site], times) for event in events]


def _compared(event: Event, draw: DrawRequest, times: int) -> Line:
    """The line of one event, after a comparison with its draw; ValueError as `compared`."""
    _check_mechanism(event, draw.mechanism)
    if not event.mechanism.price.reads_rows:
        return Line(event, times)

    _check_scale(event, draw)
    gap, tail = bits_of(event)
    exact = event.mechanism.sampler is not None
    return Line(event, times, gap * times, float(tail) * times, exact, _drawn_scale(event, draw))


def _check_mechanism(event: Event, drawn: Mechanism) -> None:
    """Refuse a draw whose mechanism is not that of its event.

    Raises:
        ValueError: naming both mechanisms. Also for a mechanism of the user's own that has the name
            of one of the library's, or that claims never to read the rows.
    """
    if drawn is not event.mechanism:
        raise ValueError(
            f"the ledger prices the draw {event.site!r} as {event.mechanism.name}, "
            f"but the program draws by {drawn.name}"
        )
    library = mechanisms.BY_NAME.get(drawn.name)
    if library is not None and library is not drawn:
        raise ValueError(
            f"the draw {event.site!r} is by a mechanism of your own that is called "
            f"{drawn.name!r}; give it a name of its own"
        )
    if library is None and not drawn.price.reads_rows:
        raise ValueError(
            f"the draw {event.site!r} is by a mechanism of your own that costs nothing; only "
            "the library's uniform draws are free"
        )


def _least(draw: DrawRequest) -> float:
    """The least scale that a draw asks for, in its unit."""
    return float(np.min(np.asarray(draw.scale, np.float64)))


def _drawn_scale(event: Event, draw: DrawRequest) -> float:
    """The least scale of a draw, in the unit of the event's sensitivity; never above the event's.

    A scale without a unit is the one that was read. Another follows what was released. So it is
    also taken as `SCALE_MARGIN` smaller than the event's, whatever was read.
    """
    unit, scale = float(event.scale_unit), float(event.scale)
    surely = scale if unit == 1 else scale * (1 - SCALE_MARGIN)
    return min(surely, _least(draw) * unit)


def _check_scale(event: Event, draw: DrawRequest) -> None:
    """Refuse a draw with less noise than its event has, or with too much for its sampler.

    Raises:
        ValueError: naming both scales.
    """
    priced = float(event.scale) / float(event.scale_unit)
    least = _least(draw)
    if not least >= priced * _ROUNDED:
        raise ValueError(
            f"the ledger prices the draw {event.site!r} at scale {priced:g}, "
            f"but the program draws at scale {least:g}"
        )
    sampler, widest = draw.mechanism.sampler, float(np.max(np.asarray(draw.noise, np.float64)))
    if sampler is not None and not widest <= sampler.most:
        raise ValueError(
            f"the draw {event.site!r} must have a scale of at most {sampler.most:g}, beyond which "
            f"nothing is proved of its sampler, got {widest:g}"
        )


def _finite_shift(event: Event) -> np.ndarray:
    """The event's sensitivity / scale; 0 without noise, where no sampler runs."""
    return np.where(np.isinf(event.shift), 0.0, event.shift)


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


def bits_of(event: Event) -> tuple[float, np.ndarray]:
    """(gap, tail f64[...]): what finite bits cost one draw of an event; 0 where none is stated."""
    sampler, moved = event.mechanism.sampler, event.moved
    if sampler is None or moved is None:  # a draw that never reads the rows moves nothing
        return 0.0, np.zeros(np.shape(event.shift))
    return finite_bits(sampler, _finite_shift(event), moved)


def sampler_costs(events: Sequence[Event]) -> tuple[float, np.ndarray]:
    """(gap, tail f64[...]): what finite bits cost all draws of one run, for each setting."""
    gap, tail = 0.0, np.zeros(())
    for event in events:
        draw_gap, draw_tail = bits_of(event)
        gap, tail = gap + draw_gap, tail + draw_tail
    return gap, tail
