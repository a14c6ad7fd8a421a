"""Private programs on tables that are read in parts.

`part_sums` reads the rows and returns sums over them. The other two readings follow from no row:
`public_sites` draws public randomness, and `asked_sites` notes what is drawn from the sums, and
how. `totals` draws once from the sums over all rows.
"""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from dpbt.base import Array, Budget, Given, Prepared, Public, Release
from dpbt.privacy.draws import Program, Stages, Total, check_draw, site_key, value_of, zeros_of
from dpbt.privacy.mechanism import Mechanism, Numbers, Value


def public_sites(
    program: Program,
    public_key: Array,
    table: Prepared,
    weights: Array,
    budget: Budget,
    public: Public,
) -> Release:
    """The sites of public randomness, as `sample` draws them on any table under this public key.

    All other draws give zeros. In an additive program no public draw follows from them, and none
    has an axis of rows. So the table may be one absent row.
    """
    sites: Release = {}
    names: dict[str, None] = {}

    def draw(
        site: str,
        mechanism: Mechanism,
        value: Value | Total,
        scale: Numbers,
        scale_unit: Numbers = 1.0,
    ) -> Array:
        del scale_unit
        check_draw(site, mechanism, names)
        names[site] = None
        if mechanism.public:
            sites[site] = mechanism.sample(site_key(public_key, site), value_of(value), scale)
            return sites[site]
        return zeros_of(mechanism, value)

    program(draw, table, weights, budget, public)
    return sites


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Asked:
    """What one draw from a sum over rows asks for, without the sum.

    Attributes:
        scale: f32[...], the noise.
        told: what `after` reads, as `Total` has it.
        mechanism: the mechanism of the draw.
        after: from the sum over all rows to the value that is drawn, as `Total` has it.
    """

    scale: Array
    told: tuple[Any, ...]
    mechanism: Mechanism = dataclasses.field(metadata={"static": True})
    after: Callable[..., Any] = dataclasses.field(metadata={"static": True})


def part_sums(
    program: Program,
    stages: Stages,
    given: Given,
    table: Prepared,
    weights: Array,
    budget: Budget,
    public: Public,
) -> dict[str, Any]:
    """Run a program on some rows, and return the sum i32[...] of each draw of the next stage.

    Draws that never read the rows have their outputs: public randomness those that are given, and
    draws for places (`Mechanism.at`) those of the places of these rows. So have draws of earlier
    stages, which are given. The others have none here, because a sum over some rows is private. So
    a program without stages cannot follow its own draws of rows. A program with stages sees zeros.

    Raises:
        ValueError: for a draw that reads rows, of anything but a `Total`, or by a mechanism that
            has no draw from large totals. Also for public randomness with an axis of rows, and for
            a draw that no stage has.
    """
    sums: dict[str, Any] = {}
    names: dict[str, None] = {}

    def draw(
        site: str,
        mechanism: Mechanism,
        value: Value | Total,
        scale: Numbers,
        scale_unit: Numbers = 1.0,
    ) -> Any:
        del scale_unit
        check_draw(site, mechanism, names)
        names[site] = None
        if mechanism.public:
            _check_shared(site, mechanism, value, scale, given.sites[site])
            return given.sites[site]
        if mechanism.at is not None and not mechanism.price.reads_rows:
            return mechanism.at(site_key(given.key, site), value_of(value), scale, given.place)
        total = _total(site, mechanism, value)
        if site in given.sites:
            return given.sites[site]
        sums[site] = total.parts
        return zeros_of(mechanism, value) if stages else None

    program(draw, table, weights, budget, public)
    if not stages:
        return sums
    if unknown := set(sums) - set(itertools.chain(*stages)):
        raise ValueError(f"no stage of the program has the draws {sorted(unknown)}")
    return next(({site: sums[site] for site in stage} for stage in stages if stage[0] in sums), {})


def _total(site: str, mechanism: Mechanism, value: Value | Total) -> Total:
    """The sum that a draw of rows reads.

    Raises:
        ValueError: if it is none, or if the mechanism does not draw from large totals.
    """
    if not isinstance(value, Total):
        raise ValueError(f"the draw {site!r} is of no boundary.Total, so it has no sums")
    if mechanism.wide is None and not mechanism.selects:
        raise ValueError(f"{mechanism.name} has no draw from large totals, as {site!r} needs")
    return value


def asked_sites(
    program: Program,
    release: Release,
    table: Prepared,
    weights: Array,
    budget: Budget,
    public: Public,
) -> dict[str, Asked]:
    """What the draws from sums ask for, after the draws that `release` has.

    Other draws give zeros. All of it follows from the release, so the table may be one absent row.
    """
    sites: dict[str, Asked] = {}
    names: dict[str, None] = {}

    def draw(
        site: str,
        mechanism: Mechanism,
        value: Value | Total,
        scale: Numbers,
        scale_unit: Numbers = 1.0,
    ) -> Array:
        del scale_unit
        check_draw(site, mechanism, names)
        names[site] = None
        if isinstance(value, Total):
            noise = jnp.asarray(scale, jnp.float32)
            sites[site] = Asked(noise, value.told, mechanism, value.after)
        return release[site] if site in release else zeros_of(mechanism, value)

    program(draw, table, weights, budget, public)
    return sites


def _check_shared(
    site: str, mechanism: Mechanism, value: Value | Total, scale: Numbers, given: Array
) -> None:
    """Refuse public randomness for each row, as all blocks of rows are given the same.

    Raises:
        ValueError: saying so.
    """
    asked = jax.eval_shape(mechanism.sample, jax.random.key(0), value_of(value), scale)
    if asked.shape != given.shape:
        raise ValueError(
            f"the draw {site!r} is public randomness for each row, and a table that is read in "
            "parts has one draw for all of them; draw it by mechanisms.assignment"
        )
