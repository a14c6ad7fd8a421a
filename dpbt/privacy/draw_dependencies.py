"""What the numbers of each draw of a program depend on, read in the trace of the program.

No program runs for this. `check_prices_are_public` refuses draws whose price depends on rows or on
releases, and `priced_draws_of_phase` gives the priced draws to compare with those that run.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common.compilation import paused_garbage_collection
from dpbt.privacy import boundary, dataflow, mechanisms, price_comparison, program_interpreters
from dpbt.privacy.boundary import DrawSpec
from dpbt.privacy.draw_specs import view_of_absent_example_row
from dpbt.privacy.phase_views import RecipePhase
from dpbt.privacy.price_comparison import PricedDraw, PricedDraws
from dpbt.types import (
    Array,
    Numbers,
    Params,
    Phase,
    Program,
    Public,
    Recipe,
    Release,
    Site,
    View,
)

ROWS = "the private rows"
SPLITS = "the splits of the table"
EARLIER = "earlier releases"

Source = str
"""What a number of a draw depends on: a site, `ROWS`, `SPLITS` or `EARLIER`.

`SPLITS` is what a table holds beside its rows. `EARLIER` is what was released before the program
runs, and the number of the round.
"""

RECIPE_CONSTANTS = frozenset({"max_rows", "weight_params"})
"""The fields of `Public` that depend on the recipe alone. All others count as earlier releases."""


class DrawDependencies(NamedTuple):
    """A draw, and the sources that each of its numbers depends on.

    Attributes:
        spec: the draw, with shapes in place of traced numbers.
        private_input_sources: the sources of its sum over rows, or of its statistic if that is no
            `RowSum`.
        public_input_sources: those of `RowSum.public_inputs`.
        scale_sources: those of the scale.
        max_sensitivity_sources: those of the largest sensitivity.
        max_sensitivity_formula: a digest of the operations that compute the largest sensitivity
            (`dataflow.formula_digests`).
        scale_formula: a digest of the operations that compute the scale.
    """

    spec: DrawSpec
    private_input_sources: set[Source]
    public_input_sources: set[Source]
    scale_sources: set[Source]
    max_sensitivity_sources: set[Source]
    max_sensitivity_formula: str
    scale_formula: str

    @property
    def as_priced_draw(self) -> PricedDraw:
        """The draw as the ledger prices it, to compare with the draw that runs."""
        return PricedDraw(
            spec=self.spec,
            max_sensitivity_formula=self.max_sensitivity_formula,
            scale_formula=None if ROWS in self.scale_sources else self.scale_formula,
            scale_reads_releases=bool(self.scale_sources),
        )


# Of a phase of a recipe.


def draw_specs_of_phase(recipe: Recipe, phase: Phase) -> tuple[DrawSpec, ...]:
    """The specs of the draws of a phase of a run.

    They have shapes in place of traced numbers.

    Raises:
        ValueError: as `check_prices_are_public`.
    """
    return tuple(draw.spec for draw in draw_dependencies_of_phase(recipe, phase))


def priced_draws_of_phase(recipe: Recipe, phase: Phase) -> PricedDraws:
    """The draws of a phase of a run as the ledger prices them.

    They are to be compared with the draws that run.

    Raises:
        ValueError: as `check_prices_are_public`.
    """
    return PricedDraws(draw.as_priced_draw for draw in draw_dependencies_of_phase(recipe, phase))


def priced_draws_of_all_phases(recipe: Recipe) -> tuple[PricedDraws, ...]:
    """The draws of each phase of a run as the ledger prices them.

    The result is hashable. A program that is compiled for a run has them in its key. Otherwise it
    could run with what Python held when it was compiled, while the ledger prices what Python holds
    now.

    Raises:
        ValueError: as `check_prices_are_public`.
    """
    return tuple(priced_draws_of_phase(recipe, phase) for phase in recipe.learner.phases)


class _ArrayType(NamedTuple):
    """The properties of an array that a trace depends on."""

    shape: tuple[int, ...]
    dtype: str
    weak_type: bool


@jax.enable_x64(False)
def draw_dependencies_of_phase(recipe: Recipe, phase: Phase) -> list[DrawDependencies]:
    """Each draw of a phase of a run, with the sources that its numbers depend on.

    They are in the order of the program.

    Raises:
        ValueError: as `check_prices_are_public`.
    """
    leaves, structure = jax.tree.flatten((recipe.params, recipe.public()))
    types_of_leaves = (
        leaf if isinstance(leaf, jax.ShapeDtypeStruct) else jax.typeof(leaf) for leaf in leaves
    )
    array_types = tuple(
        _ArrayType(leaf.shape, str(leaf.dtype), leaf.weak_type) for leaf in types_of_leaves
    )
    return _trace_dependencies_of_phase(
        RecipePhase.of_recipe(recipe, phase), structure, array_types
    )


_ROW_FIELDS = ("bins", "target", "present", "weight")
"""The fields of a table that hold its rows."""


@functools.lru_cache(maxsize=1024)
@paused_garbage_collection()
def _trace_dependencies_of_phase(
    recipe_phase: RecipePhase, structure: Any, array_types: tuple[_ArrayType, ...]
) -> list[DrawDependencies]:
    """Trace the program of a phase to find what its draws depend on.

    Results are cached by the arguments.

    Args:
        recipe_phase: the phase.
        structure: the structure of the pytree (params, public), with their static fields.
        array_types: the kind of each of their arrays.
    """
    learner = recipe_phase.learner
    params, public = jax.tree.unflatten(
        structure,
        [
            jax.ShapeDtypeStruct(array_type.shape, array_type.dtype, weak_type=array_type.weak_type)
            for array_type in array_types
        ],
    )
    table = jax.eval_shape(learner.training.example_table)  # compiles nothing
    fields = {name: getattr(table, name) for name in _ROW_FIELDS}
    row_fields = {name: array for name, array in fields.items() if array is not None}

    def build_view(
        row_fields: Mapping[str, Array], params: Params, public: Public, bound: Numbers
    ) -> View:
        return view_of_absent_example_row(recipe_phase, params, public, bound, row_fields)

    numbers = params, public, jax.ShapeDtypeStruct((), np.float32)
    dependencies = trace_draw_dependencies(
        recipe_phase.phase.program, build_view, row_fields, numbers
    )
    check_prices_are_public(dependencies, must_ignore_rows=not learner.unprotected)
    return dependencies


# Of any program.


class _DrawNumbers(NamedTuple):
    """The numbers of a draw, each a pytree with one entry for each array, such as its sources."""

    private_input: Any
    public_inputs: Any
    scale: Any
    max_sensitivity: Any


def trace_draw_dependencies(
    program: Program,
    build_view: Callable[..., View],
    private_arrays: Any,
    public_arrays: tuple[Any, ...] = (),
) -> list[DrawDependencies]:
    """Trace a program to find what each of its draws depends on.

    The program does not run.

    Args:
        program: the private program.
        build_view: (private arrays, *public arrays) -> the view of the program.
        private_arrays: the arrays of one absent row, or their shapes.
        public_arrays: the other arguments of `build_view`, such as the numbers of a budget, or
            their shapes.
    """
    view, sources_of_view = _trace_view_and_its_sources(build_view, private_arrays, public_arrays)
    specs = jax.eval_shape(
        lambda view: list(program_interpreters.describe_draws(program, view).values()), view
    )
    trace = _trace_numbers_of_draws(program, view, specs)
    sources_of_draws = _sources_of_draw_numbers(trace, sources_of_view)
    formulas_of_draws = _formulas_of_draws(trace, view)
    return [
        DrawDependencies(
            spec=spec,
            private_input_sources=_union_of_sources(sources.private_input),
            public_input_sources=_union_of_sources(sources.public_inputs),
            scale_sources=_union_of_sources(sources.scale),
            max_sensitivity_sources=_union_of_sources(sources.max_sensitivity),
            max_sensitivity_formula=formulas.max_sensitivity,
            scale_formula=formulas.scale,
        )
        for spec, sources, formulas in zip(specs, sources_of_draws, formulas_of_draws, strict=True)
    ]


class _NumbersTrace(NamedTuple):
    """The trace of a program that computes the numbers of its draws.

    Attributes:
        closed_jaxpr: (outputs of the draws by site, view) -> the numbers of all draws.
        structure: the structure of its result, a `_DrawNumbers` for each draw.
        sites: the sites of the draws, in the order of its inputs.
    """

    closed_jaxpr: Any
    structure: Any
    sites: list[Site]


def _trace_numbers_of_draws(program: Program, view: View, specs: list[DrawSpec]) -> _NumbersTrace:
    """Trace the numbers of the draws as a function of the view and of the outputs of draws."""

    def numbers_of_draws(outputs: Release, view: View) -> list[_DrawNumbers]:
        numbers: list[_DrawNumbers] = []

        def answer_draw(spec: DrawSpec) -> Array:
            numbers_of_draw = _DrawNumbers(
                private_input=spec.private_input,
                public_inputs=spec.public_inputs,
                scale=spec.scale,
                max_sensitivity=spec.max_sensitivity,
            )
            numbers.append(jax.tree.map(jnp.asarray, numbers_of_draw))
            return outputs[spec.site]

        boundary.run_program(program, answer_draw, view)
        return numbers

    outputs = {spec.site: spec.output for spec in specs}
    closed_jaxpr, shapes = jax.make_jaxpr(numbers_of_draws, return_shape=True)(outputs, view)
    return _NumbersTrace(
        closed_jaxpr=closed_jaxpr, structure=jax.tree.structure(shapes), sites=sorted(outputs)
    )


def _sources_of_draw_numbers(
    trace: _NumbersTrace, sources_of_view: list[set[Source]]
) -> list[_DrawNumbers]:
    """The sources that each number of each draw depends on.

    An output of a draw is a source itself.
    """
    sources_of_inputs = [{site} for site in trace.sites] + sources_of_view
    sources_of_numbers = dataflow.sources_of_outputs(trace.closed_jaxpr.jaxpr, sources_of_inputs)
    return jax.tree.unflatten(trace.structure, sources_of_numbers)


class _DrawFormulas(NamedTuple):
    """Digests of the operations that compute two numbers of a draw (`dataflow.formula_digests`)."""

    max_sensitivity: str
    scale: str


def _formulas_of_draws(trace: _NumbersTrace, view: View) -> list[_DrawFormulas]:
    """The digests of the formulas of each draw: of its largest sensitivity and of its scale."""
    num_outputs = len(trace.closed_jaxpr.jaxpr.outvars)
    output_indices: list[_DrawNumbers] = jax.tree.unflatten(trace.structure, range(num_outputs))
    input_names = [
        *map(price_comparison.formula_name_of_output, trace.sites),
        *price_comparison.formula_names_of_view(view),
    ]
    # One call for all, since it digests an operation once, however many numbers depend on it.
    formulas = dataflow.formula_digests(
        trace.closed_jaxpr,
        input_names,
        [
            *(indices.max_sensitivity for indices in output_indices),
            *(indices.scale for indices in output_indices),
        ],
        {},
    )
    num_draws = len(output_indices)
    return [
        _DrawFormulas(max_sensitivity=max_sensitivity, scale=scale)
        for max_sensitivity, scale in zip(formulas[:num_draws], formulas[num_draws:], strict=True)
    ]


class _ViewSources(NamedTuple):
    """The view of a program, and the sources of each of its arrays.

    Attributes:
        view: the view, with shapes in place of arrays.
        sources: the sources of each array of the view.
    """

    view: View
    sources: list[set[Source]]


def _trace_view_and_its_sources(
    build_view: Callable[..., View], private_arrays: Any, public_arrays: tuple[Any, ...]
) -> _ViewSources:
    """Trace `build_view`, and find the sources that each array of the view depends on.

    The view has shapes in place of arrays.
    """
    closed, view = jax.make_jaxpr(build_view, return_shape=True)(private_arrays, *public_arrays)
    num_private, num_public = map(len, map(jax.tree.leaves, (private_arrays, public_arrays)))
    inputs = [{ROWS}] * num_private + [set()] * num_public
    outputs = iter(dataflow.sources_of_outputs(closed.jaxpr, inputs))
    depends_on_rows = jax.tree.map(lambda _: ROWS in next(outputs), view)

    sources = list(_sources_by_array(depends_on_rows.rows, other_sources={SPLITS}))
    sources += [{ROWS} for _ in jax.tree.leaves(view.weights)]  # whatever a weight update reads
    sources += [set() for _ in jax.tree.leaves(view.params)]
    for name in () if view.public is None else Public._fields:
        sources_of_field = set() if name in RECIPE_CONSTANTS else {EARLIER}
        sources += [sources_of_field for _ in jax.tree.leaves(getattr(view.public, name))]
    return _ViewSources(view, sources)


def _sources_by_array(depends_on_rows: Any, other_sources: set[Source]) -> Iterator[set[Source]]:
    """The sources of each array: the rows if it depends on them, otherwise the other sources.

    Args:
        depends_on_rows: a pytree of bools, one for each array.
        other_sources: the sources of arrays that do not depend on rows.
    """
    return ({ROWS} if flag else other_sources for flag in jax.tree.leaves(depends_on_rows))


def _union_of_sources(sources: Any) -> set[Source]:
    """The union of the sets of sources at the leaves of a pytree."""
    return set().union(*jax.tree.leaves(sources))


def check_prices_are_public(
    draws: list[DrawDependencies], *, must_ignore_rows: bool = True
) -> None:
    """Refuse a draw whose price depends on private rows or on earlier releases.

    Args:
        draws: the draws of a program.
        must_ignore_rows: whether scales and `RowSum.public_inputs` must not depend on rows. A
            paper's calibration may lack this protection.

    Raises:
        ValueError: naming the draw and its sources. Also for a mechanism of the user's own that has
            the name of one of the library's, or that claims never to read the rows.
    """
    for draw in draws:
        site = draw.spec.site
        mechanism = draw.spec.mechanism
        library_mechanism = mechanisms.BY_NAME.get(mechanism.name)
        if library_mechanism is not None and library_mechanism is not mechanism:
            raise ValueError(
                f"the draw {site!r} is by a mechanism of your own that is called "
                f"{mechanism.name!r}; give it a name of its own"
            )
        if mechanism.price.reads_rows:
            _check_price_of_draw_from_rows(draw, must_ignore_rows=must_ignore_rows)
            continue
        sources = draw.private_input_sources | draw.public_input_sources | draw.scale_sources
        if ROWS in sources or library_mechanism is None:
            raise ValueError(
                f"the draw {site!r} costs nothing, so it must be one of the library's uniform "
                "draws and follow from no private rows"
            )


def _check_price_of_draw_from_rows(draw: DrawDependencies, *, must_ignore_rows: bool) -> None:
    """Refuse a draw from rows if its price depends on rows or on earlier releases."""
    spec = draw.spec
    site = draw.spec.site
    norm = spec.mechanism.price.norm
    if must_ignore_rows and ROWS in draw.public_input_sources:
        raise ValueError(
            f"what RowSum.to_statistic of the draw {site!r} reads follows from the private rows; "
            "public_inputs= is for what is public, and what follows from rows is in the sum"
        )
    if norm not in ("l1", "l2", "range"):
        raise ValueError(f"{spec.mechanism.name} must be priced by l1, l2 or range, got {norm}")
    if spec.moved_outputs is None:
        raise ValueError(
            f"moved_outputs of the draw {site!r} must say how many outputs a row moves"
        )
    if draw.max_sensitivity_sources:
        raise ValueError(
            f"the sensitivity of the draw {site!r} follows from "
            f"{sorted(draw.max_sensitivity_sources)}: state max_sensitivity, "
            "the largest it may be, which is public"
        )
    if must_ignore_rows and ROWS in draw.scale_sources:
        raise ValueError(f"the scale of the draw {site!r} follows from the private rows")
    if spec.has_stated_scale and draw.scale_sources:
        raise ValueError(
            f"the scale of the draw {site!r} follows from {sorted(draw.scale_sources)}, so nothing "
            "says what it costs; state its sensitivity and leave the scale to the budget"
        )
