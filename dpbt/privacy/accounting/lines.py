"""Lines of ledgers: one draw for all rounds together, its price, and what its bits cost.

They are records of plain numbers and words. No JAX is needed to read them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np
from msgspec import Meta

from dpbt.common.storage import Count
from dpbt.common.validate import shown

if TYPE_CHECKING:
    from dpbt.privacy.mechanism import Mechanism, Numbers, Sampler

Cost = Annotated[float, Meta(ge=0)]
"""A number of at least 0, which may be infinite; files then have the word "inf"."""

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
    pays: Count
    times: Count
    moved: Count | None
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
