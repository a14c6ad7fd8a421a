"""Private programs on tables that are read in parts.

`part_sums` reads the rows and returns sums over them. The other two readings follow from no row:
`public_sites` draws public randomness, and `asked_sites` notes what is drawn from the sums, and
how. `totals` draws once from the sums over all rows.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

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
        numbers: how many numbers the sum has.
    """

    scale: Array
    told: tuple[Any, ...]
    mechanism: Mechanism = dataclasses.field(metadata={"static": True})
    after: Callable[..., Any] = dataclasses.field(metadata={"static": True})
    numbers: int = dataclasses.field(metadata={"static": True})


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

    Public randomness, and draws of earlier stages, have the outputs that are given. Draws for
    places (`Mechanism.at`) have those of the places of these rows. Draws of this stage and of later
    ones give zeros, on which no sum of this stage may depend. Without stages they give None.

    Raises:
        ValueError: for a draw that reads rows, of anything but a `Total`, or by a mechanism that
            has no draw from large totals. Also for sums that are not int32, for public randomness
            with an axis of rows, and for a part of a stage.
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
        sums[site] = _total(site, mechanism, value).parts
        if site in given.sites:
            return given.sites[site]
        return zeros_of(mechanism, value) if stages else None

    program(draw, table, weights, budget, public)
    if not stages:
        return sums
    return {site: sums[site] for site in _next_stage(stages, tuple(sums), given.sites)}


def _next_stage(stages: Stages, sites: tuple[str, ...], given: Release) -> tuple[str, ...]:
    """The first stage that is not given.

    Raises:
        ValueError: as `_check_sites`, and unless whole stages are given.
    """
    _check_sites(stages, sites)
    left = [stage for stage in stages if not set(stage) <= set(given)]
    if not left:
        return ()
    if begun := sorted(set(itertools.chain(*left)) & set(given)):
        raise ValueError(f"a part of a stage is given: {begun}")
    return left[0]


def _total(site: str, mechanism: Mechanism, value: Value | Total) -> Total:
    """The sum that a draw of rows reads.

    Raises:
        ValueError: if it is none, or if the mechanism does not draw from large totals.
    """
    if not isinstance(value, Total):
        raise ValueError(f"the draw {site!r} is of no boundary.Total, so it has no sums")
    if mechanism.wide is None and not mechanism.selects:
        raise ValueError(f"{mechanism.name} has no draw from large totals, as {site!r} needs")
    kinds = {str(leaf.dtype) for leaf in jax.tree.leaves(value.parts)}
    if kinds != {"int32"}:
        raise ValueError(f"the sum of the draw {site!r} must be int32, got {sorted(kinds)}")
    return value


def asked_sites(
    program: Program,
    stages: Stages,
    release: Release,
    table: Prepared,
    weights: Array,
    budget: Budget,
    public: Public,
) -> dict[str, Asked]:
    """What the draws from sums ask for, after the draws that `release` has.

    Other draws give zeros. All of it follows from the release, so the table may be one absent row.

    Raises:
        ValueError: for a sum of a stage that follows from other draws than those of earlier stages.
    """
    if stages:
        check_stages(program, stages, table, weights, budget, public)
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
            value = _total(site, mechanism, value)
            noise = jnp.asarray(scale, jnp.float32)
            numbers = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(value.parts))
            sites[site] = Asked(noise, value.told, mechanism, value.after, numbers)
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


def _check_sites(stages: Stages, sites: tuple[str, ...]) -> None:
    """Refuse stages that are not the sites of draws from sums, in their order.

    Raises:
        ValueError: naming both.
    """
    if tuple(itertools.chain(*stages)) != sites or not all(stages):
        raise ValueError(
            f"the program draws from sums at {list(sites)}, in this order, and its stages have "
            f"{[list(stage) for stage in stages]}"
        )


def check_stages(
    program: Program,
    stages: Stages,
    table: Prepared,
    weights: Array,
    budget: Budget,
    public: Public,
) -> None:
    """Refuse stages whose sums follow from draws that no earlier stage has made.

    Such a sum would be of another statistic than in memory, and not of the one that is priced. What
    a sum may follow from is read off the traced program, and nothing runs.

    Raises:
        ValueError: naming the site and the draws that it follows from; and as `_check_sites`.
    """
    sums: dict[str, Any] = {}
    zeros: Release = {}

    def zero(
        site: str,
        mechanism: Mechanism,
        value: Value | Total,
        scale: Numbers,
        scale_unit: Numbers = 1.0,
    ) -> Array:
        del scale, scale_unit
        zeros[site] = zeros_of(mechanism, value)
        return zeros[site]

    def of_outputs(outputs: Release) -> dict[str, Any]:
        def draw(
            site: str,
            mechanism: Mechanism,
            value: Value | Total,
            scale: Numbers,
            scale_unit: Numbers = 1.0,
        ) -> Array:
            del scale, scale_unit
            if isinstance(value, Total):
                sums[site] = _total(site, mechanism, value).parts
            return outputs[site]

        program(draw, table, weights, budget, public)
        return sums

    program(zero, table, weights, budget, public)
    traced, found = jax.make_jaxpr(of_outputs, return_shape=True)(zeros)
    _check_sites(stages, tuple(sums))
    follows = _follows(traced.jaxpr, sorted(zeros))

    # The places of each site's sums among all outputs, which are in the order of their names.
    ends = np.cumsum([len(jax.tree.leaves(found[site])) for site in sorted(found)])
    leaves = dict(zip(sorted(found), np.split(np.arange(len(follows)), ends[:-1]), strict=True))
    earlier = set(zeros) - set(sums)
    for stage in stages:
        for site in stage:
            read = set().union(*(follows[leaf] for leaf in leaves[site])) - earlier
            if read:
                raise ValueError(
                    f"the sum of {site!r} follows from the draws {sorted(read)}, which are of no "
                    "earlier stage"
                )
        earlier |= set(stage)


def _follows(traced: Any, names: list[str]) -> list[set[str]]:
    """The inputs that each output of a traced program may follow from, by their names."""
    known = {id(entry): {name} for entry, name in zip(traced.invars, names, strict=True)}
    for step in traced.eqns:
        read = set().union(*(known.get(id(entry), set()) for entry in step.invars))
        known |= {id(entry): read for entry in step.outvars}
    return [known.get(id(entry), set()) for entry in traced.outvars]
