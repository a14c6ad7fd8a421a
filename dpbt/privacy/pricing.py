"""Pricing: the ledger of a recipe, as its own programs describe their draws.

What each draw follows from is read off the traced program, and nothing runs. So `ledger` refuses
draws whose price follows from rows or from releases, and `pass_stages` says which draws one pass
over a table in parts can serve.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import msgspec
import numpy as np

from dpbt.common import compilation
from dpbt.common.validate import check_interval, check_positive_integer
from dpbt.privacy import accounting, apart, boundary, dataflow, keys, mechanisms
from dpbt.privacy.accounting import Ledger, Line
from dpbt.privacy.boundary import DrawSpec, PricedDraw, budget_group_of_site, is_static
from dpbt.privacy.conversions import SamplerCost
from dpbt.privacy.mechanism import ROUNDING, Mechanism, Numbers
from dpbt.privacy.sensitivity import weights_on_grid
from dpbt.types import (
    Array,
    Epilogue,
    Params,
    Phase,
    Program,
    Prologue,
    Public,
    Recipe,
    Release,
    Round,
    Table,
    View,
    WeakLearner,
    Weighted,
    WeightUpdate,
    uniform,
)


@jax.enable_x64(False)  # so it is the same wherever it is asked for, and prices what runs
def ledger(recipe: Recipe, key: Array | None = None) -> Ledger:
    """The ledger of one setting: what each draw costs over all rounds, and the total.

    The lines are what the programs ask for on one absent row. Draws of a round count T times, and
    those of a prologue and of an epilogue once.

    Args:
        recipe: one setting.
        key: the key of a release; the ledger then names its kind.

    Raises:
        ValueError: for anything else than a recipe of one setting and a whole number of rounds.
            Also for a draw whose price follows from rows or from what was released
            (`check_prices`), and for one beyond the range of its sampler.
    """
    if not isinstance(recipe, Recipe):
        raise ValueError(f"a ledger needs a recipe or a model, got {type(recipe).__name__}")
    if np.ndim(recipe.rows) > 0:
        raise ValueError(
            "a ledger is of one setting; choose one with recipes.setting(recipe, index)"
        )
    rounds = np.asarray(recipe.rounds)
    if rounds.dtype.kind not in "iu" or not 1 <= rounds <= recipe.capacity:
        raise ValueError(
            f"rounds must be a whole number in 1..{recipe.capacity}, got {rounds.tolist()}"
        )
    if not 0 <= recipe.delta < 1:
        raise ValueError(f"delta must be in [0, 1), got {recipe.delta}")

    numbers = recipe.params.noise, recipe.max_rows_per_user
    lines: dict[str, list[Line]] = {}
    for phase in recipe.learner.phases:
        order = [spec.site for spec in draw_specs_of_phase(recipe, phase)]
        specs = describe_draws(
            recipe.learner,
            phase,
            recipe.weight_update,
            recipe.params,
            recipe.public(),
            bound=np.float32(0),
        )
        boundary.check_as_priced(specs, priced_draws(recipe, phase))
        times = int(rounds) if phase.repeats else 1
        lines[phase.name] = [
            ledger_line_of_spec(specs[site], *numbers, times=times) for site in order
        ]
    boundary.check_sites(
        **{name: [line.site for line in of_phase] for name, of_phase in lines.items()}
    )
    return Ledger(
        relation=recipe.relation,
        lines=tuple(itertools.chain.from_iterable(lines.values())),
        delta=float(recipe.delta),
        unprotected=recipe.learner.unprotected,
        key=None if key is None else keys.kind_of_key(key),
        rows=int(recipe.rows),
        max_rows_per_user=recipe.max_rows_per_user,
        limited=recipe.limited,
    )


_NO_NUMBER = "the sensitivity and the scale of the draw {!r} must be numbers"
_BELOW = 1 + 2.0**-50
"""Takes the roundings of float64 from a price; `ROUNDING` leaves more than that."""


def ledger_line_of_spec(
    spec: DrawSpec, noise: Mapping[str, Any], max_rows_per_user: int = 1, *, times: int = 1
) -> Line:
    """The line of a draw that a program asks for, for all rows of one person.

    Args:
        spec: the draw.
        noise: the multipliers that it runs with.
        max_rows_per_user: the most rows that one person has.
        times: how often the draw takes place.

    Raises:
        ValueError: as `ledger_line`, and for a scale beyond the range of the draw's sampler.
    """
    price, shift, scale = spec.mechanism.price, spec.max_sensitivity, spec.scale
    if not price.reads_rows:
        shift, scale = 0.0, scale if is_static(scale) else 0.0
    elif np.size(shift) != 1 or np.size(scale) != 1:
        raise ValueError(_NO_NUMBER.format(spec.site))
    elif not spec.own_scale:
        multiplier = np.asarray(noise[budget_group_of_site(spec.site, noise)], np.float64)
        scale = np.float64(shift) * multiplier / ROUNDING * _BELOW
    else:
        scale = np.float64(np.float32(scale))  # as it is drawn
        scale = scale if is_static(spec.scale) and is_static(shift) else scale / ROUNDING
    if price.sampler is not None and not scale <= price.sampler.max_scale:
        raise ValueError(
            f"the draw {spec.site!r} must have a scale of at most {price.sampler.max_scale:g}, "
            f"beyond which nothing is proved of its sampler, got {scale:g}"
        )
    words = spec.site, spec.mechanism, spec.releases, shift, scale, spec.theorem
    counts = {"pays": spec.count, "times": times, "moved": spec.moves, "unit": spec.unit}
    return ledger_line(*words, **counts, people=max_rows_per_user)


def ledger_line(
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
        sensitivity: as `Line`, for one row.
        scale: as `Line`.
        theorem: as `Line`.
        pays: as `Line`.
        times: as `Line`.
        moved: how many outputs one row moves, as `Line`.
        unit: as `Line`.
        people: the most rows that one person has.

    Raises:
        ValueError: as `Line`, and for a count that is no whole number of at least 1. Also for a
            draw of rows that does not say how many outputs a row moves, and for a sensitivity of
            one that never reads the rows.
    """
    price = mechanism.price
    if moved is None and price.reads_rows:
        raise ValueError(f"moved of the draw {site!r} must say how many of its outputs a row moves")
    given = {"pays": pays, "times": times, "moved": 1 if moved is None else moved}
    pays, times, outputs = (
        check_positive_integer(f"{name} of the draw {site!r}", value, 2**62)
        for name, value in given.items()
    )
    of_all = people * float(
        check_interval(f"sensitivity of the draw {site!r}", sensitivity, "[0, 1e100]")
    )
    scale = float(check_interval(f"scale of the draw {site!r}", scale, "[0, inf]"))
    if not price.reads_rows and of_all > 0:
        raise ValueError(
            f"sensitivity of the draw {site!r} must be 0, because {mechanism.name} draws never "
            f"read the rows, got {of_all:g}"
        )
    cost, bits = mechanism.cost(of_all, scale), SamplerCost(gap=0.0, tail=0.0)
    if price.sampler is not None and moved is not None:
        apart = of_all / scale if scale > 0 else 0.0  # no sampler runs without noise
        bits = price.sampler.cost_of_draw(total_shift=apart, num_outputs=outputs * people)
    return Line(
        site=site,
        mechanism=mechanism.name,
        releases=releases,
        sensitivity=of_all,
        scale=scale,
        theorem=theorem,
        pays=pays,
        times=times,
        moved=None if moved is None else outputs * people,
        unit=unit,
        epsilon=float(cost.epsilon),
        rho=float(cost.rho),
        mu=float(cost.mu),
        gaussian=price.gaussian,
        gap=bits.gap * times,
        tail=float(bits.tail) * times,
        exact=price.sampler is not None,
    )


def reprice_ledger(book: Ledger, max_rows_per_user: int | None = None) -> Ledger:
    """The ledger with the prices of its lines as their sensitivities and scales give them.

    A file may say anything, so costs of the library's mechanisms are not taken from it. Only those
    of a mechanism of its author's own are. Mechanisms need JAX, so
    `accounting.from_json` leaves this to those who count on the costs.

    Args:
        book: a ledger; it may be for people already. The parts of a sum are priced one by one.
        max_rows_per_user: for people with up to so many rows, in place of as many as it is for.
            Sensitivities grow before anything is composed; a finished epsilon and delta are never
            used.

    Raises:
        ValueError: for a choice without a line for its score. For other people than it is for, also
            for a choice, whose other candidates it does not hold, and for a mechanism that is not
            of dpbt, whose price a ledger does not hold.
    """
    if book.parts:
        return accounting.compose_ledgers(
            [reprice_ledger(part, max_rows_per_user) for part in book.parts], book.delta
        )
    if book.choice is not None and len(book.lines) < 2:
        raise ValueError("the ledger of a choice must have lines of a run and of its score")
    if book.choice is not None and max_rows_per_user is not None:
        raise ValueError(
            "the ledger of a choice is for as many rows per person as its candidates were made for"
        )
    now = book.max_rows_per_user
    people = now if max_rows_per_user is None else max_rows_per_user

    def anew(old: Line) -> Line:
        own = mechanisms.BY_NAME.get(old.mechanism)
        if own is None and max_rows_per_user is None:
            return old
        if own is None:
            raise ValueError(
                f"the draw {old.site!r} is by a mechanism of its author's own, {old.mechanism!r}, "
                "whose price no ledger keeps; make the recipe for max_rows_per_user"
            )
        words = old.releases, old.sensitivity * people / now, old.scale, old.theorem
        moved = None if old.moved is None else old.moved // now * people
        counts = {"pays": old.pays, "times": old.times, "moved": moved, "unit": old.unit}
        return ledger_line(old.site, own, *words, **counts)

    lines = tuple(map(anew, book.lines))
    limited = book.limited and people == now
    return msgspec.structs.replace(book, lines=lines, max_rows_per_user=people, limited=limited)


def draw_specs_of_phase(recipe: Recipe, phase: Phase) -> tuple[DrawSpec, ...]:
    """The draws of a phase of a run, with shapes for numbers that are traced.

    Raises:
        ValueError: as `ledger`.
    """
    return tuple(each.spec for each in _dependencies_of_phase(recipe, phase))


def sampler_scales(recipe: Recipe) -> Iterator[tuple[str, float, np.ndarray]]:
    """(site, largest scale of its sampler, scale f64[...]) of each draw that reads rows.

    Where a sampler takes every scale, the multiplier of the sensitivity stands for the scale.

    Args:
        recipe: with any axes of settings.
    """
    flat = jax.tree.map(lambda leaf: np.reshape(leaf, -1), recipe)
    single = jax.tree.map(lambda leaf: leaf[0], flat)
    for phase in recipe.learner.phases:
        for spec in draw_specs_of_phase(single, phase):
            price, multiplier = spec.mechanism.price, np.float64(1)
            if not price.reads_rows:
                continue
            most = math.inf if price.sampler is None else price.sampler.max_scale
            own = (
                spec.scale
                if spec.own_scale
                else spec.max_sensitivity
                if math.isfinite(most)
                else 1.0
            )
            if not is_static(own):
                evaluated = _evaluate_settings(flat, phase)[spec.site]
                own = evaluated.scale if spec.own_scale else evaluated.max_sensitivity
                if np.ndim(own) != 1:
                    raise ValueError(_NO_NUMBER.format(spec.site))
            if not spec.own_scale:
                noise = recipe.params.noise
                multiplier = np.asarray(noise[budget_group_of_site(spec.site, noise)], np.float64)
            shape = np.shape(recipe.rows) if np.ndim(own) else ()
            yield spec.site, most, np.reshape(np.asarray(own, np.float64), shape) * multiplier


@jax.enable_x64(False)
def _evaluate_settings(flat: Recipe, phase: Phase) -> Mapping[str, DrawSpec]:
    """The draws of G settings, with numbers [G] where its program works them out."""
    static = flat.learner, phase, flat.weight_update
    return jax.vmap(lambda one: describe_draws(*static, one.params, one.public(), np.float32(0)))(
        flat
    )


@compilation.jit_with_bounded_cache(static_argnames=("learner", "phase", "weight_update"))
def describe_draws(
    learner: WeakLearner,
    phase: Phase,
    weight_update: WeightUpdate,
    params: Params,
    public: Public,
    bound: Numbers,
) -> Mapping[str, DrawSpec]:
    """The draws that a phase of a run asks for on a table of one row, by site; compiled once.

    Args:
        learner: the weak learner.
        phase: of the learner.
        weight_update: the weight update.
        params: the learner's numbers, of one setting.
        public: what is public.
        bound: on the scores that the weights follow from.
    """
    view = _view_of_one_row(learner, phase, weight_update, params, public, bound)
    return boundary.describe(phase.program, view)


_PRIVATE = ("bins", "target", "present", "weight")
"""The fields of a table that are of its rows."""


def after_prologue(learner: WeakLearner, params: Params, public: Public) -> Public:
    """What is public in all rounds: what is there already, and what follows from the prologue.

    That is the unit, the estimated number of rows and the initial score.

    Args:
        learner: the weak learner.
        params: its numbers.
        public: what is public, with the release of the prologue if there is one.
    """
    prologue = learner.prologue
    if prologue is None:
        zeros = jnp.zeros(learner.response.axes, jnp.float32)
        return public._replace(initial_score=zeros)

    def number_of_release(name: str, of_release: Callable[[Release, Params], Array]) -> Array:
        words = f"the {name} of a prologue"
        number = apart.trace_of_public(words, of_release, public.prologue, params)
        return jnp.asarray(number, jnp.float32)

    changes = {}
    if prologue.unit is not None:
        changes["unit"] = number_of_release("unit", prologue.unit)
    if prologue.estimated_rows is not None:
        rows = number_of_release("estimated number of rows", prologue.estimated_rows)
        changes["estimated_rows"] = rows
    score = number_of_release("initial score", prologue.initial_score)
    return public._replace(**changes, initial_score=score)


def round_structure(learner: WeakLearner, params: Params, public: Public) -> Any:
    """What is public in a round by the partition of the learner; None without one."""
    partition = learner.partition
    if partition is None:
        return None
    return apart.trace_of_public("the structure of a round", partition.structure, params, public)


def weigh_rows(
    update: WeightUpdate, scores: Array, bound: Numbers, rows: Any, public: Public
) -> Weighted:
    """The weights of rows and their cap, traced apart, with a cap that follows from no row.

    Raises:
        ValueError: if the cap follows from rows or scores, or if the weight update reads a traced
            array that it was not given.
    """

    def from_rows(private: tuple[Array, Any], bound: Numbers, public: Public) -> Weighted:
        scores, rows = private
        return update.weigh(scores, bound, rows, public)

    closed, shapes = apart.traced(update.identity, from_rows, (scores, rows), bound, public)
    private, all_inputs = len(jax.tree.leaves((scores, rows))), len(closed.jaxpr.invars)
    names = [{ROWS}] * private + [set()] * (all_inputs - private)
    last = dataflow.dependencies(closed.jaxpr, names)[-1]  # the cap is the last field
    if ROWS in last:
        raise ValueError(
            f"the cap of {update.identity} follows from private rows or their scores; it is "
            "public, and may follow from the bound on scores"
        )
    return apart.evaluate_closed(closed, shapes, ((scores, rows), bound, public))


def _view_of_one_row(
    learner: WeakLearner,
    phase: Phase,
    weight_update: WeightUpdate,
    params: Params,
    public: Public,
    bound: Numbers,
    private: Mapping[str, Array] | None = None,
) -> View:
    """What a phase of a run reads of one row; `private` has what the row holds.

    Its public side has the fields, the structure and the dtypes that it has in a run.
    """
    # What follows a prologue reads its release; zeros stand for it here.
    if learner.prologue is not None and phase is not learner.prologue:
        specs = describe_draws(
            learner, learner.prologue, weight_update, params, public, np.float32(0)
        )
        zeros = {site: jnp.zeros_like(spec.output) for site, spec in specs.items()}
        public = public._replace(prologue=zeros)
    if not isinstance(phase, Prologue):
        public = after_prologue(learner, params, public)
        public = public._replace(round=jnp.asarray(public.round, jnp.int32))

    # Weights on the one row.
    table: Table = learner.training.example_table()
    prepared = learner.training.prepare(table._replace(**(private or {})))
    weigher = uniform if isinstance(phase, Prologue) else weight_update
    shape = *weigher.response.axes, prepared.present.shape[0]
    score = jnp.zeros(shape, jnp.float32)
    if isinstance(phase, Epilogue):
        return View(prepared, score, params, public)
    weighted = weigh_rows(weigher, score, bound, prepared, public)

    # The structure of a round, and what it says of the row.
    if isinstance(phase, Round) and learner.partition is not None:
        public = public._replace(structure=round_structure(learner, params, public))
        leaf = learner.partition.place(public.structure, prepared)
        prepared = prepared._replace(leaf=leaf)
    weights = weights_on_grid(weighted.weight, prepared, weigher.response)
    return View(prepared, weights, params, public._replace(cap=weighted.cap))


class DrawDependencies(NamedTuple):
    """What a draw asks for, and the names that each part of it follows from.

    A name is a site, `ROWS`, `SPLITS` for what else of a table lies beside its rows, or `EARLIER`
    for what was released before the program runs, and for the number of the round.

    Attributes:
        spec: the draw, with shapes for numbers that are traced.
        total: the names of its sum; of its value where it is no `Total`.
        public: those of what else `Total.after` reads.
        scale: those of the scale.
        max_sensitivity: those of the largest sensitivity.
        formulas: how the largest sensitivity and the scale are worked out.
    """

    spec: DrawSpec
    total: set[str]
    public: set[str]
    scale: set[str]
    max_sensitivity: set[str]
    formulas: tuple[str, str]

    @property
    def priced(self) -> PricedDraw:
        """The draw as it is compared with the one that runs."""
        most, scale = self.formulas
        compared = None if ROWS in self.scale else scale
        return PricedDraw(self.spec, most, compared, bool(self.scale))


ROWS, EARLIER = "the private rows", "earlier releases"
SPLITS = "the splits of the table"

RECIPE_CONSTANTS = frozenset({"rows", "weighting"})
"""The fields of `Public` that a recipe alone says. All others count as earlier releases."""


@jax.enable_x64(False)
def _dependencies_of_phase(recipe: Recipe, phase: Phase) -> list[DrawDependencies]:
    """What is read off the program of a phase of a run.

    Raises:
        ValueError: as `check_prices`.
    """
    leaves, structure = jax.tree.flatten((recipe.params, recipe.public()))
    known = (
        leaf if isinstance(leaf, jax.ShapeDtypeStruct) else jax.typeof(leaf) for leaf in leaves
    )
    kinds = tuple((leaf.shape, str(leaf.dtype), leaf.weak_type) for leaf in known)
    return _traced_dependencies(recipe.learner, phase, recipe.weight_update, structure, kinds)


@functools.lru_cache(maxsize=1024)
def _traced_dependencies(
    learner: WeakLearner,
    phase: Phase,
    weight_update: WeightUpdate,
    structure: Any,
    kinds: tuple[tuple[tuple[int, ...], str, bool], ...],
) -> list[DrawDependencies]:
    """The dependencies of a phase, from nothing but what the cache keys them by.

    The numbers of a recipe are shapes here.

    Args:
        learner: the weak learner.
        phase: of the learner.
        weight_update: the weight update.
        structure: of (params, public) as a pytree, with all that is static in them.
        kinds: shape, dtype and weakness of each of their arrays.
    """
    arrays = [jax.ShapeDtypeStruct(shape, dtype, weak_type=weak) for shape, dtype, weak in kinds]
    params, public = jax.tree.unflatten(structure, arrays)
    table = learner.training.example_table()
    fields = {name: getattr(table, name) for name in _PRIVATE}
    known = {name: array for name, array in fields.items() if array is not None}
    static = learner, phase, weight_update

    def make(private: Any, params: Params, public: Public, bound: Numbers) -> View:
        rows, weights = private
        return _view_of_one_row(*static, params, public, bound, rows)._replace(weights=weights)

    numbers = params, public, jax.ShapeDtypeStruct((), np.float32)
    weights = jax.eval_shape(functools.partial(_view_of_one_row, *static), *numbers).weights
    dependencies = draw_dependencies(phase.program, make, (known, weights), numbers)
    check_prices(dependencies, protected=not learner.unprotected)
    return dependencies


def priced_draws(recipe: Recipe, phase: Phase) -> tuple[PricedDraw, ...]:
    """The draws of a phase of a run as the ledger prices them.

    Raises:
        ValueError: as `ledger`.
    """
    return tuple(each.priced for each in _dependencies_of_phase(recipe, phase))


def draw_dependencies(
    program: Program, make: Callable[..., View], private: Any, public: tuple[Any, ...] = ()
) -> list[DrawDependencies]:
    """What each draw follows from, read off the traced program; nothing runs.

    Args:
        program: the private program.
        make: (private arrays, *public) -> what the program reads.
        private: the arrays of one absent row, or their shapes.
        public: what else `make` reads, such as the numbers of a budget, or their shapes.
    """
    # What the program reads, in shapes, and what each array of it follows from.
    made, shapes = jax.make_jaxpr(make, return_shape=True)(private, *public)
    inputs = [{ROWS}] * len(jax.tree.leaves(private)) + [set()] * len(jax.tree.leaves(public))
    outputs = iter(dataflow.dependencies(made.jaxpr, inputs))
    from_rows = jax.tree.map(lambda _: ROWS in next(outputs), shapes)
    view_inputs = [
        name
        for part, name in (("rows", SPLITS), ("weights", ROWS))
        for name in _named(getattr(from_rows, part), name)
    ]
    view_inputs += _named(jax.tree.map(lambda _: False, shapes.params), None)
    for name in () if shapes.public is None else Public._fields:
        field = jax.tree.map(lambda _: False, getattr(shapes.public, name))
        view_inputs += _named(field, None if name in RECIPE_CONSTANTS else EARLIER)

    # The draws, in shapes.
    specs = jax.eval_shape(lambda view: list(boundary.describe(program, view).values()), shapes)
    zeros = {spec.site: spec.output for spec in specs}

    # What the draws ask for, as a function of all of these.
    def parts(outputs: Release, view: View) -> list[Any]:
        found: list[Any] = []

        def answer(ask: DrawSpec) -> Array:
            read = ask.total, ask.public, ask.scale, ask.max_sensitivity
            found.append(jax.tree.map(jnp.asarray, read))
            return outputs[ask.site]

        boundary.run(program, answer, view)
        return found

    traced, read = jax.make_jaxpr(parts, return_shape=True)(zeros, shapes)
    names = [{name} for name in sorted(zeros)] + view_inputs
    following = iter(dataflow.dependencies(traced.jaxpr, names))
    named = jax.tree.map(lambda _: next(following), read)

    # How largest sensitivities and scales are worked out.
    labels = [boundary.release_name(site) for site in sorted(zeros)]
    labels += boundary.view_names(shapes)
    numbers = jax.tree.unflatten(jax.tree.structure(read), range(len(jax.tree.leaves(read))))
    wanted = [number for *_, scale, most in numbers for number in (most, scale)]
    formulas = dataflow.formulas(traced, labels, wanted, {})
    found = []
    for spec, own, most, scale in zip(specs, named, formulas[::2], formulas[1::2], strict=True):
        total, told, of_scale, of_most = (set().union(*jax.tree.leaves(part)) for part in own)
        found.append(DrawDependencies(spec, total, told, of_scale, of_most, (most, scale)))
    return found


def _named(from_rows: Any, otherwise: str | None) -> list[set[str]]:
    """The names of arrays: of the rows, where they follow from these, or another one, or none."""
    other = set() if otherwise is None else {otherwise}
    return [{ROWS} if flag else other for flag in jax.tree.leaves(from_rows)]


def check_prices(found: list[DrawDependencies], *, protected: bool = True) -> None:
    """Refuse a draw whose price follows from rows or from what was released, or is another's.

    Args:
        found: the draws of a program.
        protected: whether no scale and no `Total.public` may follow from rows; a paper's
            calibration may say otherwise.

    Raises:
        ValueError: naming the draw and what it follows from. Also for a mechanism of the user's own
            that has the name of one of the library's, or that claims never to read the rows.
    """
    for spec, total, told, scale, most, _ in found:
        site, own = spec.site, spec.mechanism
        library = mechanisms.BY_NAME.get(own.name)
        if library is not None and library is not own:
            raise ValueError(
                f"the draw {site!r} is by a mechanism of your own that is called {own.name!r}; "
                "give it a name of its own"
            )
        if not own.price.reads_rows:
            if ROWS in total | told | scale or library is None:
                raise ValueError(
                    f"the draw {site!r} costs nothing, so it must be one of the library's uniform "
                    "draws and follow from no private rows"
                )
            continue
        if protected and ROWS in told:
            raise ValueError(
                f"what Total.after of the draw {site!r} reads follows from the private rows; "
                "public= is for what is public, and what follows from rows is in the sum"
            )
        if own.price.norm not in ("l1", "l2", "range"):
            raise ValueError(f"{own.name} must be priced by l1, l2 or range, got {own.price.norm}")
        if spec.moves is None:
            raise ValueError(f"moves of the draw {site!r} must say how many outputs a row moves")
        if most:
            raise ValueError(
                f"the sensitivity of the draw {site!r} follows from {sorted(most)}: state at_most, "
                "the largest it may be, which is public"
            )
        if protected and ROWS in scale:
            raise ValueError(f"the scale of the draw {site!r} follows from the private rows")
        if spec.own_scale and scale:
            raise ValueError(
                f"the scale of the draw {site!r} follows from {sorted(scale)}, so nothing says "
                "what it costs; state its sensitivity and leave the scale to the budget"
            )


Stages = tuple[tuple[str, ...], ...]
"""The sites of draws from sums, in their order; a stage's sums follow from earlier stages alone."""


def pass_stages(recipe: Recipe, phase: Phase) -> Stages:
    """Which draws from sums of a phase one pass over a table in parts can serve, in order.

    A sum may follow from draws of earlier stages. Draws are made in the order of the program,
    because what one asks for besides its sum may follow from all draws before it, and never from
    rows.

    Raises:
        ValueError: for a draw that reads rows and is of no `Total`, or by a mechanism of the user's
            own. Also for sums that are not int32, for a draw whose scale or `Total.public` follows
            from rows, and for public randomness that follows from what was drawn from them.
    """
    found = _dependencies_of_phase(recipe, phase)
    summed = {each.spec.site for each in found if each.spec.mechanism.price.reads_rows}
    order: list[list[str]] = []
    for spec in (each.spec for each in found if each.spec.site in summed):
        types = {str(leaf.dtype) for leaf in jax.tree.leaves(spec.total)}
        if spec.after is None or types != {"int32"}:
            raise ValueError(
                f"the draw {spec.site!r} is of no boundary.Total of int32, got {sorted(types)}: it "
                "has no sums over rows"
            )
        if spec.mechanism.name not in mechanisms.BY_NAME:
            raise ValueError(
                f"{spec.mechanism.name} has no draw from large totals, as {spec.site!r} needs"
            )
    for spec, total, told, scale, _, _ in found:
        site, public, told = spec.site, spec.site not in summed, told | scale
        if ROWS in told or (public and (total | told) & summed):
            names = sorted((total | told) - {EARLIER, SPLITS})
            raise ValueError(
                f"what the draw {site!r} asks for follows from {names}, and is worked out before "
                "rows are read"
            )
        if public:
            continue
        if not order or total & set(order[-1]):
            order.append([])
        order[-1].append(site)
    return tuple(map(tuple, order))


def check_in_parts(recipe: Recipe) -> None:
    """Refuse a recipe whose table cannot be read in parts.

    Raises:
        ValueError: saying which draw reads all rows at once.
    """
    if recipe.weight_update.coupled:
        raise ValueError(f"{recipe.weight_update.identity} makes weights that depend on all rows")
    for phase in recipe.learner.phases:
        stages = pass_stages(recipe, phase)
        if not phase.repeats and len(stages) > 1:
            raise ValueError(f"the {phase.name} has sums that follow from its own draws: {stages}")
