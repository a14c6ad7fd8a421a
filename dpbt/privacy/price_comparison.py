"""Comparison of the draws that run with the draws that the ledger prices.

Static fields of draws are compared as they are, and largest sensitivities and scales by the
operations that compute them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.privacy import dataflow
from dpbt.privacy.boundary import DrawSpec, is_static, run_program
from dpbt.privacy.isolation import check_closes_over_no_mutable_array, evaluate_closed_jaxpr
from dpbt.types import Array, Program, Site, View


class PricedDraw(NamedTuple):
    """A draw as the ledger prices it.

    It is compared with the draw that runs.

    Attributes:
        spec: its description, with shapes in place of traced numbers.
        max_sensitivity_formula: a digest of the operations that compute its largest sensitivity
            (`dataflow.formula_digests`).
        scale_formula: a digest of those that compute its scale; None for a scale that depends on
            rows, which is not compared.
        scale_reads_releases: whether its scale depends on earlier releases.
    """

    spec: DrawSpec
    max_sensitivity_formula: str
    scale_formula: str | None
    scale_reads_releases: bool


_COMPARED_FIELDS = (
    "mechanism",
    "moved_outputs",
    "num_payments",
    "has_stated_scale",
    "theorem",
    "releases",
    "unit",
)
"""The static fields of a draw that are compared with those of the priced draw."""


class PricedDraws(tuple[PricedDraw, ...]):
    """The draws of a phase as the ledger prices them.

    They are in the order of its program. They are equal, and hash alike, where all that is compared
    with the draws that run is equal. So they may be in the key of a compiled program, which is then
    of these prices alone.
    """

    __slots__ = ()

    @property
    def _compared_values(self) -> tuple[Any, ...]:
        return tuple(_values_to_compare(draw) for draw in self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PricedDraws) and self._compared_values == other._compared_values

    def __hash__(self) -> int:
        return hash(self._compared_values)


def _values_to_compare(draw: PricedDraw) -> tuple[Any, ...]:
    """The parts of a draw that are compared.

    They are its static fields, its static numbers and its formulas.
    """
    numbers = draw.spec.max_sensitivity, draw.spec.scale
    return (
        draw.spec.site,
        *(getattr(draw.spec, name) for name in _COMPARED_FIELDS),
        *(repr(number) if is_static(number) else None for number in numbers),
        draw.max_sensitivity_formula,
        draw.scale_formula,
    )


def check_draws_match_prices(
    specs: Mapping[Site, DrawSpec], priced_draws: Sequence[PricedDraw]
) -> None:
    """Refuse a program whose draws differ in a static field from the priced ones.

    The priced ones are those of its recipe.

    Args:
        specs: site -> the draw that runs.
        priced_draws: the draws of the ledger.

    Raises:
        ValueError: if the sites differ, or if a draw differs from its line in the mechanism, in
            the number of outputs that a row moves, in the number of payments, in a text, or in
            whether the program states its scale.
    """
    priced_specs = {draw.spec.site: draw.spec for draw in priced_draws}
    if set(specs) != set(priced_specs):
        raise ValueError(
            f"the program draws {sorted(specs)}, and {sorted(priced_specs)} are priced"
        )
    for site, priced_spec in priced_specs.items():
        spec = specs[site]
        for name in _COMPARED_FIELDS:
            if getattr(spec, name) != getattr(priced_spec, name):
                raise _difference_error(site, name)
        for name, noun in (("max_sensitivity", "sensitivity"), ("scale", "scale")):
            number = getattr(spec, name)
            priced_number = getattr(priced_spec, name)
            if not (is_static(number) and is_static(priced_number)):
                continue
            if not np.array_equal(number, priced_number, equal_nan=True):
                raise _difference_error(site, noun)


def _difference_error(site: Site, name: str) -> ValueError:
    return ValueError(
        f"the draw {site!r} runs with another {name} than the ledger prices; it must depend on the "
        "recipe alone, and not on the shape of the table or on Python state that has changed"
    )


class _RunTrace(NamedTuple):
    """The results of the trace of a program, each by site.

    Attributes:
        outputs: the output of each draw.
        max_sensitivities: of each draw.
        scales: of each draw.
        records: what `answer_draw` records of each draw.
    """

    outputs: dict[Site, Any]
    max_sensitivities: dict[Site, Any]
    scales: dict[Site, Any]
    records: dict[Site, Any]


def trace_then_check_prices_then_run(
    program: Program,
    answer_draw: Callable[[DrawSpec], tuple[Array, Any]],
    view: View,
    priced_draws: Sequence[PricedDraw] | None,
    *,
    outputs_are_released: bool = True,
) -> dict[Site, Any]:
    """Trace a program, compare its draws with their prices, then evaluate the trace.

    The program is traced by itself. Whatever the program keeps of its rows in Python is dead when
    the trace ends (`isolation`). The operations that compute sensitivities and scales are compared
    in the very trace that is evaluated.

    Args:
        program: the private program.
        answer_draw: (spec) -> the output of the draw, and what to record of it.
        view: the inputs of the program.
        priced_draws: the draws of the ledger; None to compare nothing.
        outputs_are_released: whether `answer_draw` returns the outputs that are released. If not,
            scales that depend on them are not compared.

    Returns:
        Site -> what `answer_draw` recorded.

    Raises:
        ValueError: as `check_draws_match_prices` and `Draw`, and for a largest sensitivity or a
            scale that other operations compute than in the ledger.
    """
    specs: dict[Site, DrawSpec] = {}

    def run_in_trace(view: View) -> _RunTrace:
        trace = _RunTrace({}, {}, {}, {})

        def answer_and_record(spec: DrawSpec) -> Array:
            site = spec.site
            specs[site] = spec
            trace.max_sensitivities[site] = jnp.asarray(spec.max_sensitivity)
            trace.scales[site] = jnp.asarray(spec.scale)
            trace.outputs[site], trace.records[site] = answer_draw(spec)
            return trace.outputs[site]

        run_program(program, answer_and_record, view)
        return trace

    closed_jaxpr, result_shapes = jax.make_jaxpr(run_in_trace, return_shape=True)(view)
    check_closes_over_no_mutable_array("the program", closed_jaxpr)
    if priced_draws is not None:
        check_draws_match_prices(specs, priced_draws)
        _check_formula_digests(
            closed_jaxpr,
            result_shapes,
            view,
            priced_draws,
            outputs_are_released=outputs_are_released,
        )
    trace: _RunTrace = evaluate_closed_jaxpr(closed_jaxpr, result_shapes, view)
    return trace.records


def _check_formula_digests(
    closed_jaxpr: Any,
    result_shapes: Any,
    view: View,
    priced_draws: Sequence[PricedDraw],
    *,
    outputs_are_released: bool,
) -> None:
    """Refuse draws whose sensitivities or scales are computed otherwise than the priced ones.

    Their operations are compared.

    Args:
        closed_jaxpr: the jaxpr that computes a `_RunTrace`.
        result_shapes: the shapes of the `_RunTrace`.
        view: the inputs of the program.
        priced_draws: the draws of the ledger.
        outputs_are_released: as `trace_then_check_prices_then_run`.
    """
    output_indices: _RunTrace = jax.tree.unflatten(
        jax.tree.structure(result_shapes), range(len(jax.tree.leaves(result_shapes)))
    )
    input_name_by_output_index = {
        output_index: formula_name_of_output(site)
        for site, output_index in output_indices.outputs.items()
    }
    draws_from_rows = [draw for draw in priced_draws if draw.spec.mechanism.price.reads_rows]
    sites = [draw.spec.site for draw in draws_from_rows]

    compared_output_indices = [output_indices.max_sensitivities[site] for site in sites]
    compared_output_indices += [output_indices.scales[site] for site in sites]
    formulas = dataflow.formula_digests(
        closed_jaxpr,
        formula_names_of_view(view),
        compared_output_indices,
        input_name_by_output_index,
    )
    max_sensitivities = formulas[: len(sites)]
    scales = formulas[len(sites) :]
    for draw, max_sensitivity, scale in zip(
        draws_from_rows, max_sensitivities, scales, strict=True
    ):
        if max_sensitivity != draw.max_sensitivity_formula:
            raise _difference_error(draw.spec.site, "sensitivity")
        if draw.scale_formula is None or (draw.scale_reads_releases and not outputs_are_released):
            continue
        if scale != draw.scale_formula:
            raise _difference_error(draw.spec.site, "scale")


def formula_name_of_output(site: Site) -> str:
    """The name of a site's output in formulas (`dataflow.formula_digests`)."""
    return f"release {site}"


def formula_names_of_view(view: View) -> list[str]:
    """The names of all arrays of a view in formulas.

    They are in the order of the arrays in the pytree.
    """
    return [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(view)]
