"""What each draw of a private program follows from, read off the traced program.

Nothing runs. `check_prices` refuses draws whose price follows from rows or from releases, and
`stages` says which draws one pass over a table in parts can serve.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpbt.base import Array, Program, Public, Release, View
from dpbt.privacy.draws import Request, Total, run, zeros_of
from dpbt.privacy.mechanism import Value

Stages = tuple[tuple[str, ...], ...]
"""The sites of draws from sums, in their order; a stage's sums follow from earlier stages alone."""


class Follows(NamedTuple):
    """What a draw asks for, and the names that each part of it follows from.

    A name is a site, `ROWS`, or `EARLIER` for what was released before the program runs, and for
    the number of the round.

    Attributes:
        ask: the draw.
        total: the names of its sum; of its value where it is no `Total`.
        told: those of what `Total.after` reads, and of the scale.
        scale: those of the scale.
        most: those of the largest sensitivity.
    """

    ask: Request
    total: set[str]
    told: set[str]
    scale: set[str]
    most: set[str]


ROWS, EARLIER = "the private rows", "earlier releases"


def follows(
    program: Program, make: Callable[..., View], private: Any, public: tuple[Any, ...] = ()
) -> list[Follows]:
    """What each draw follows from, read off the traced program; nothing runs.

    Args:
        program: the private program.
        make: (private arrays, *public) -> what the program reads.
        private: the arrays of one absent row, or their shapes.
        public: what else `make` reads, such as the numbers of a budget, or their shapes.
    """
    # The draws in their order, the shapes of their outputs, and what was released earlier.
    asks: list[Request] = []

    def asked(private: Any, *public: Any) -> tuple[Release, Any]:
        zeros: Release = {}

        def answer(ask: Request) -> Array:
            asks.append(ask._replace(value=_of_shapes(ask.value)))
            zeros[ask.site] = zeros_of(ask.mechanism, ask.value)
            return zeros[ask.site]

        view = make(private, *public)
        run(program, answer, view)
        return zeros, None if view.public is None else _earlier(view.public)

    zeros, earlier = jax.eval_shape(asked, private, *public)

    # What the draws ask for, as a function of all of these.
    def parts(outputs: Release, private: Any, earlier: Any, public: tuple[Any, ...]) -> list[Any]:
        found: list[Any] = []

        def answer(ask: Request) -> Array:
            value, told = ask.value, ()
            if isinstance(value, Total):
                value, told = value.parts, value.told
            read = value, (told, ask.scale), ask.scale, ask.at_most
            found.append(jax.tree.map(jnp.asarray, read))
            return outputs[ask.site]

        view = make(private, *public)
        if earlier is not None:
            view = view._replace(public=view.public._replace(**earlier))
        run(program, answer, view)
        return found

    traced, shapes = jax.make_jaxpr(parts, return_shape=True)(zeros, private, earlier, public)
    names = [{name} for name in sorted(zeros)]
    names += [{ROWS}] * len(jax.tree.leaves(private))
    names += [{EARLIER}] * len(jax.tree.leaves(earlier))
    names += [set()] * len(jax.tree.leaves(public))
    outputs = iter(_follows(traced.jaxpr, names))
    return [
        Follows(ask, *(_together(outputs, part) for part in own))
        for ask, own in zip(asks, shapes, strict=True)
    ]


def _earlier(public: Public) -> dict[str, Any]:
    """What of a round's public numbers follows from earlier releases, or is the round's number."""
    known = {name: getattr(public, name) for name in ("cap", "prologue", "round", "unit")}
    return jax.tree.map(jnp.asarray, known)


def _of_shapes(value: Value | Total) -> Value | Total:
    """A value without what it holds."""
    if isinstance(value, Total):
        return Total(jax.eval_shape(lambda: value.parts), value.after)
    return jax.eval_shape(lambda: value)


def _together(outputs: Iterator[set[str]], part: Any) -> set[str]:
    """The names that the arrays of a part follow from, which are next among the outputs."""
    return set().union(*(next(outputs) for _ in jax.tree.leaves(part)))


def check_prices(found: list[Follows], *, protected: bool = True) -> None:
    """Refuse a draw whose price follows from rows or from what was released.

    Args:
        found: the draws of a program.
        protected: whether no scale may follow from rows; a paper's calibration may say otherwise.

    Raises:
        ValueError: naming the draw and what it follows from.
    """
    for each in found:
        site, mechanism = each.ask.site, each.ask.mechanism
        if not mechanism.price.reads_rows:
            if ROWS in each.total | each.scale:
                raise ValueError(f"the draw {site!r} is public, and follows from the private rows")
            continue
        if each.most:
            raise ValueError(
                f"the sensitivity of the draw {site!r} follows from {sorted(each.most)}: state "
                "at_most, the largest it may be, which is public"
            )
        if protected and ROWS in each.scale:
            raise ValueError(f"the scale of the draw {site!r} follows from the private rows")
        if each.ask.own_scale and each.scale:
            raise ValueError(
                f"the scale of the draw {site!r} follows from {sorted(each.scale)}, so nothing "
                "says what it costs; state its sensitivity and leave the scale to the budget"
            )


def stages(found: list[Follows]) -> Stages:
    """Which draws from sums one pass over a table in parts can serve, in their order.

    A sum may follow from draws of earlier stages. Draws are made in the order of the program,
    because what one asks for besides its sum may follow from all draws before it, and never from
    rows.

    Args:
        found: the draws of a program.

    Raises:
        ValueError: for a draw that reads rows and is of no `Total`, or by a mechanism that has no
            draw from large totals. Also for sums that are not int32, for a draw whose scale or
            `Total.told` follows from rows, and for public randomness that follows from what was
            drawn from them.
    """
    for each in found:
        _check_sum(each.ask)
    summed = {each.ask.site for each in found if each.ask.mechanism.price.reads_rows}
    order: list[list[str]] = []
    for each in found:
        site, public = each.ask.site, each.ask.site not in summed
        if ROWS in each.told or (public and (each.total | each.told) & summed):
            names = sorted((each.total | each.told) - {EARLIER})
            raise ValueError(
                f"what the draw {site!r} asks for follows from {names}, and is worked out before "
                "rows are read"
            )
        if public:
            continue
        if not order or each.total & set(order[-1]):
            order.append([])
        order[-1].append(site)
    return tuple(map(tuple, order))


def _check_sum(ask: Request) -> None:
    """Refuse a draw that reads rows and cannot be made from sums over parts of them.

    Raises:
        ValueError: as `stages`.
    """
    site, mechanism, value = ask[:3]
    if not mechanism.price.reads_rows:
        return
    if not isinstance(value, Total):
        raise ValueError(f"the draw {site!r} is of no boundary.Total, so it has no sums")
    if mechanism.wide is None and not mechanism.selects:
        raise ValueError(f"{mechanism.name} has no draw from large totals, as {site!r} needs")
    kinds = {str(leaf.dtype) for leaf in jax.tree.leaves(value.parts)}
    if kinds != {"int32"}:
        raise ValueError(f"the sum of the draw {site!r} must be int32, got {sorted(kinds)}")


def _follows(traced: Any, inputs: list[set[str]]) -> list[set[str]]:
    """The names that each output of a traced program may follow from, by those of its inputs.

    Functions that are compiled on their own are looked into; of loops and branches each output may
    follow from each input.
    """
    known = dict(zip(map(id, traced.invars), inputs, strict=True))
    for step in traced.eqns:
        read = [known.get(id(entry), set()) for entry in step.invars]
        inner = step.params.get("jaxpr") if step.primitive.name in ("jit", "pjit") else None
        each = [set().union(*read)] * len(step.outvars)
        if inner is not None:
            each = _follows(inner.jaxpr, read)
        known |= dict(zip(map(id, step.outvars), each, strict=True))
    return [known.get(id(entry), set()) for entry in traced.outvars]
