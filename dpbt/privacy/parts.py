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
from dpbt.privacy.draws import (
    Program,
    Request,
    Stages,
    Total,
    answered,
    site_key,
    value_of,
    zeros_of,
)
from dpbt.privacy.mechanism import Mechanism


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

    def answer(ask: Request) -> Array:
        if not ask.mechanism.public:
            return zeros_of(ask.mechanism, ask.value)
        own = site_key(public_key, ask.site)
        sites[ask.site] = ask.mechanism.sample(own, value_of(ask.value), ask.scale)
        return sites[ask.site]

    answered(program, answer, table, weights, budget, public)
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

    def answer(ask: Request) -> Any:
        mechanism, value = ask.mechanism, ask.value
        if mechanism.public:
            _check_shared(ask, given.sites[ask.site])
            return given.sites[ask.site]
        if mechanism.at is not None and not mechanism.price.reads_rows:
            own = site_key(given.key, ask.site)
            return mechanism.at(own, value_of(value), ask.scale, given.place)
        sums[ask.site] = _total(ask).parts
        if ask.site in given.sites:
            return given.sites[ask.site]
        return zeros_of(mechanism, value) if stages else None

    answered(program, answer, table, weights, budget, public)
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


def _total(ask: Request) -> Total:
    """The sum that a draw of rows reads.

    Raises:
        ValueError: if it is none or not int32, or if the mechanism draws from no large totals.
    """
    site, mechanism, value = ask[:3]
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

    def answer(ask: Request) -> Array:
        if isinstance(ask.value, Total):
            total = _total(ask)
            noise = jnp.asarray(ask.scale, jnp.float32)
            numbers = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(total.parts))
            sites[ask.site] = Asked(noise, total.told, ask.mechanism, total.after, numbers)
        if ask.site in release:
            return release[ask.site]
        return zeros_of(ask.mechanism, ask.value)

    answered(program, answer, table, weights, budget, public)
    return sites


def _check_shared(ask: Request, given: Array) -> None:
    """Refuse public randomness for each row, as all blocks of rows are given the same.

    Raises:
        ValueError: saying so.
    """
    read = jax.random.key(0), value_of(ask.value), ask.scale
    if jax.eval_shape(ask.mechanism.sample, *read).shape != given.shape:
        raise ValueError(
            f"the draw {ask.site!r} is public randomness for each row, and a table that is read in "
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

    def zero(ask: Request) -> Array:
        zeros[ask.site] = zeros_of(ask.mechanism, ask.value)
        return zeros[ask.site]

    def of_outputs(outputs: Release) -> dict[str, Any]:
        def answer(ask: Request) -> Array:
            if isinstance(ask.value, Total):
                sums[ask.site] = _total(ask).parts
            return outputs[ask.site]

        answered(program, answer, table, weights, budget, public)
        return sums

    answered(program, zero, table, weights, budget, public)
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
