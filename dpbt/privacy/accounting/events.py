"""Events and lines: what one draw of a program is, and what all of its draws cost."""

import dataclasses

import numpy as np

from dpbt.privacy.mechanism import Cost, Mechanism, Numbers, Sampler, shift


@dataclasses.dataclass(frozen=True)
class Event:
    """What one draw is, as its program asks for it. The mechanism's price turns it into a cost.

    Attributes:
        site: the site of the release that it covers.
        mechanism: the mechanism of the draw.
        releases: what it publishes, in words.
        sensitivity: how far one row moves the value, in the norm of `mechanism.price`: L1, L2, or
            for selections the range of the change of scores.
        scale: the least noise that is drawn, in the unit of the sensitivity.
        theorem: where the sensitivity is proved.
        count: how often a round pays for it.
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

        # Sensitivities and scales are numbers of at least 0.
        if self.moved is None and self.mechanism.price.reads_rows:
            raise ValueError(
                f"moved of the draw {self.site!r} must say how many of its outputs a row moves"
            )
        for name in ("sensitivity", "scale"):
            value = np.asarray(getattr(self, name), np.float64)
            if not np.all(value >= 0):
                raise ValueError(
                    f"{name} of the draw {self.site!r} must be at least 0, got {value.tolist()}"
                )
        if not np.all(np.isfinite(np.asarray(self.sensitivity, np.float64))):
            raise ValueError(f"sensitivity of the draw {self.site!r} must be finite")

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


def of_people(event: Event, max_rows_per_user: int) -> Event:
    """The event for neighbours that differ in all rows of one person, at most `max_rows_per_user`.

    Proof. Between the two tables lies a chain of tables, each a neighbour of the next by one row.
    Given what was released before, a value moves by at most the sum of the steps. L1 norms, L2
    norms and ranges add up, and so do the outputs that are moved. []
    """
    moved = None if event.moved is None else event.moved * max_rows_per_user
    sensitivity = np.asarray(event.sensitivity, np.float64)[()] * max_rows_per_user
    return dataclasses.replace(event, sensitivity=sensitivity, moved=moved)


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of a ledger: an event of one setting, all rounds together.

    Attributes:
        event: one draw.
        times: how often it takes place: the number of rounds, or 1 for a prologue.
        gap: half of what finite bits add to epsilon, for the whole line.
        tail: what finite bits add to delta, for the whole line.
        exact: whether the sampler states how far it is from its law.

    Raises:
        ValueError: for no draw, or a negative gap or tail.
    """

    event: Event
    times: int = 1
    gap: float = 0.0
    tail: float = 0.0
    exact: bool = True

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


def line_of_draw(event: Event, times: int) -> Line:
    """The line of a draw that takes place so often, with what its sampler's finite bits cost."""
    gap, tail = bits_of(event)
    exact = event.mechanism.price.sampler is not None
    return Line(event, times, gap * times, float(tail) * times, exact)


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
    sampler, moved = event.mechanism.price.sampler, event.moved
    if sampler is None or moved is None:  # a draw that never reads the rows moves nothing
        return 0.0, np.zeros(np.shape(event.shift))
    return finite_bits(sampler, _finite_shift(event), moved)
