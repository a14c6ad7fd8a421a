"""The privacy boundary: one private program, run by one function whose draws have several answers.

A weak learner is written once, as a program that asks for its random draws:

    def program(draw, table, weights, params, public):
        sums = ...                                      # reads private rows
        noise = mechanisms.discrete_laplace
        draw("leaf", noise, sums, sensitivity=GRID, moved_outputs=1, theorem="T1")

A *site* is the name of a draw ("leaf"), and the *release* holds the output of every site. What a
program reads is a `View`. `run` runs it, and each function here is an answer to its draws:

- `sample` draws every output.
- `log_prob` looks the outputs up in a recorded release, and gives their exact log densities.
- `compared` does so on two views, and gives the log ratio and the worst case over outputs.
- `describe` notes what every draw asks for, without its private value. The ledger is made of these
  alone, so that every line prices the draw that runs. It follows from no row.
- `public_draws` samples public randomness alone, which follows from no row either.
- `sums` gives the sums over some rows, for a table that is read in parts. `totals` draws once from
  the sums over all rows, and `stages.pass_stages` says which sums one pass over the rows can
  serve.

So an audit exercises the very code that ran. What the program returns is ignored.
"""

import dataclasses
import functools
import itertools
import zlib
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.privacy import dataflow
from dpbt.privacy.apart import ReadOnly, check_references, evaluate_closed, trace_apart
from dpbt.privacy.keys import research_key
from dpbt.privacy.mechanism import Mechanism, Numbers, Sensitivity, StepLoss, Value
from dpbt.public_types import redacted_repr
from dpbt.types import (
    BINARY,
    Array,
    Assumptions,
    Epilogue,
    Given,
    Hypothesis,
    HypothesisKind,
    LearnerParams,
    LearnerRows,
    Noise,
    Partition,
    Program,
    Prologue,
    Public,
    Relation,
    Release,
    Response,
    Round,
    View,
    WeakLearner,
    WorkBytes,
    as_relation,
)


@dataclasses.dataclass(frozen=True, repr=False)
class Total:
    """A statistic that is a sum over rows, and then a public map of the sum.

    Attributes:
        parts: i32[...], or a pytree of such arrays: the sum over the rows of a table.
        after: (sum over all rows, *public) -> the value that is drawn. In memory the sum is i32.
            Of a table in parts it is of whole numbers in float64, within
            `variates.double_precision`.
            It is one function, and not a new one in each call, as programs are compiled for it.
        public: what else `after` reads: arrays, or None, that are public because they follow from
            earlier releases.
    """

    parts: Any
    after: Callable[..., Any] = lambda total: total
    public: tuple[Any, ...] = dataclasses.field(default=(), kw_only=True)

    __repr__ = redacted_repr


def is_static(number: Any) -> bool:
    """Whether a number is known where it is written, and follows from nothing that is traced."""
    return isinstance(number, int | float | np.generic)


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class DrawSpec:
    """What a program asks `draw` for: a request, or without its private value a description.

    In JAX it is a tree of what follows from traced numbers: `scale`, `max_sensitivity` and
    `public`, unless they are `is_static`. All else is static.

    Attributes:
        site, mechanism, moved_outputs, theorem, num_payments, releases, unit: as `Draw` has them.
        total: the private sum over rows, or the value where it is no `Total`. A description has the
            shapes of it.
        after: from the sum over all rows to the value that is drawn; None if it is no `Total`.
        public: what else `after` reads, as `Total` has it.
        scale: the scale that the mechanism is given.
        max_sensitivity: the largest sensitivity, in the norm of the mechanism; public, and no
            release moves it.
        own_scale: whether it has a scale of its own, and the budget has no multiplier for it.
    """

    site: str
    mechanism: Mechanism
    total: Any
    after: Callable[..., Any] | None
    public: tuple[Any, ...]
    scale: Any
    max_sensitivity: Any
    moved_outputs: int | None
    theorem: str
    num_payments: int
    releases: str
    unit: str
    own_scale: bool

    __repr__ = redacted_repr

    def tree_flatten(self) -> tuple[tuple[dict[str, Any]], tuple[Any, ...]]:
        """What is traced, and what is static."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        names = [
            name for name in ("scale", "max_sensitivity", "public") if not is_static(fields[name])
        ]
        traced = {name: fields.pop(name) for name in names}
        return (traced,), tuple(fields.items())

    @classmethod
    def tree_unflatten(cls, static: Any, traced: Any) -> "DrawSpec":
        """The record of both."""
        return cls(**dict(static), **traced[0])

    @property
    def value(self) -> Value:
        """The private value of the draw, of the rows of this table."""
        return self.total if self.after is None else self.after(self.total, *self.public)

    @functools.cached_property
    def output(self) -> jax.ShapeDtypeStruct:
        """The shape and the type of what is drawn."""
        key, value = research_key(0), self.total
        if self.after is not None:
            value = jax.eval_shape(self.after, value, *self.public)
        return jax.eval_shape(self.mechanism.sample, key, value, jnp.float32(1))

    @property
    def for_places(self) -> bool:
        """Whether it is for places of the table, and reads no row."""
        return self.mechanism.sample_places is not None and not self.mechanism.price.reads_rows


def _hash_site(site: str) -> int:
    return zlib.crc32(site.encode()) & 0x7FFFFFFF


def site_key(key: Array, site: str) -> Array:
    """The key of the draw called `site`: it depends on the round's key and on the name alone."""
    return jax.random.fold_in(key, _hash_site(site))


def missing_public_key_error(site: str) -> ValueError:
    """The refusal of a public draw without a public key."""
    return ValueError(
        f"the draw {site!r} is public randomness: give public_key, a key that is "
        "independent of the noise's key, such as another dpbt.fresh_key()"
    )


def budget_group_of_site(site: str, noise: Mapping[str, Any]) -> str:
    """The entry of a budget's noise that a site has: its own, or that of "leaf" for "leaf_3".

    Raises:
        ValueError: if there is none.
    """
    common, _, number = site.rpartition("_")
    for name in (site, common if number.isdecimal() else site):
        if name in noise:
            return name
    raise ValueError(
        f"the draw {site!r} has no fraction of the budget; there are fractions for {sorted(noise)}"
    )


@dataclasses.dataclass
class Draw:
    """How a program asks for its outputs. A draw is declared here, and nowhere else.

    Attributes:
        answer: from a request to the output.
        noise: site -> multiplier, the noise of the budget, to read. Scales are worked out from a
            copy that a program does not see (`run`).
        earlier_sites: the sites of the draws so far.
    """

    answer: Callable[[DrawSpec], Any]
    noise: Mapping[str, Numbers]
    earlier_sites: list[str] = dataclasses.field(default_factory=list)

    def __call__(
        self,
        site: str,
        mechanism: Mechanism,
        value: Value | Total,
        *,
        theorem: str,
        sensitivity: Numbers | Sensitivity = 0.0,
        moved_outputs: int | None = None,
        max_sensitivity: Numbers | None = None,
        scale: Numbers | None = None,
        num_payments: int = 1,
        releases: str = "",
        unit: str = "",
    ) -> Array:
        """The output of a mechanism on a private value.

        Its scale is the sensitivity times the multiplier that the budget holds for the site
        (`budget_group_of_site`), so the ledger prices the multiplier that runs.

        Args:
            site: the name of the draw, unique in its program.
            mechanism: the mechanism that makes the output of the value.
            value: the private statistic, an array or `mechanisms.Scores`; it leaves through the
                mechanism alone. A `Total` says that it is a sum over rows.
            theorem: where the sensitivity is proved.
            sensitivity: how far one row moves the value, in the norm of `mechanism.price`: L1, L2,
                or for selections the range of the change of scores. A `Sensitivity` states both
                norms. It may follow from what was released, if `max_sensitivity` does not.
            moved_outputs: how many independent outputs one row moves, whatever `num_payments` is;
                None for draws that never read the rows.
            max_sensitivity: public, the largest sensitivity, where that follows from what was
                released. The ledger shows it.
            scale: public, the scale in place of a multiplier, for draws that never read the rows
                and for noise that is stated as a number.
            num_payments: how often it is paid for each time that it takes place.
            releases: what it publishes, in words.
            unit: the unit of the sensitivity, in words.

        Raises:
            ValueError: for a second draw of one name or one key, for noise from the public key, and
                as `budget_group_of_site`.
        """
        if mechanism.public and mechanism.price.reads_rows:
            raise ValueError(
                f"the draw {site!r} reads rows, but {mechanism.name} draws with the public key, so "
                "everyone could subtract its noise"
            )
        for earlier in self.earlier_sites:
            if _hash_site(earlier) == _hash_site(site):
                raise ValueError(
                    f"the draws {site!r} and {earlier!r} would have one key; rename one of them"
                )
        self.earlier_sites.append(site)
        if isinstance(sensitivity, Sensitivity):
            sensitivity = mechanism.sensitivity_in_norm(sensitivity)
        own_scale = scale is not None
        if scale is None:
            scale = jnp.asarray(sensitivity, jnp.float32)  # `run` multiplies it
        is_total = isinstance(value, Total)
        spec = DrawSpec(
            site=site,
            mechanism=mechanism,
            total=value.parts if is_total else value,
            after=value.after if is_total else None,
            public=value.public if is_total else (),
            scale=scale,
            max_sensitivity=sensitivity if max_sensitivity is None else max_sensitivity,
            moved_outputs=moved_outputs,
            theorem=theorem,
            num_payments=num_payments,
            releases=releases or site,
            unit=unit,
            own_scale=own_scale,
        )
        return self.answer(spec)


def run(program: Program, answer: Callable[[DrawSpec], Any], view: View) -> None:
    """Run a program on a view, and answer each of its requests.

    The program reads copies of what is public, whose noise is read-only.

    Raises:
        ValueError: as `Draw`.
    """
    params, public = jax.tree.map(lambda leaf: leaf, (view.params, view.public))
    noise, multipliers = ReadOnly(view.params.noise), dict(view.params.noise)

    # The multipliers that count are out of the program's reach.
    def answer_scaled(spec: DrawSpec) -> Any:
        if not spec.own_scale:
            multiplier = multipliers[budget_group_of_site(spec.site, multipliers)]
            scale = jnp.asarray(spec.scale, jnp.float32) * jnp.asarray(multiplier, jnp.float32)
            spec = dataclasses.replace(spec, scale=scale)
        return answer(spec)

    program(
        Draw(answer_scaled, noise), view.rows, view.weights, params._replace(noise=noise), public
    )


class PricedDraw(NamedTuple):
    """A draw as the ledger prices it, for comparison with the one that runs.

    Attributes:
        spec: what it asks for, with shapes for numbers that are traced.
        max_sensitivity_formula: a digest of how its largest sensitivity is worked out
            (`dataflow.formula_digests`).
        scale_formula: that of its scale; None where that is not compared, as it follows from rows.
        scale_reads_releases: whether its scale follows from what was released.
    """

    spec: DrawSpec
    max_sensitivity_formula: str
    scale_formula: str | None
    scale_reads_releases: bool


_COMPARED = (
    "mechanism",
    "moved_outputs",
    "num_payments",
    "own_scale",
    "theorem",
    "releases",
    "unit",
)
"""The static parts of a draw that are compared with those that the ledger prices."""


def check_as_priced(specs: Mapping[str, DrawSpec], priced: Sequence[PricedDraw]) -> None:
    """Refuse a program that draws otherwise than its recipe was priced, in what is static.

    Args:
        specs: the draws that run, by site.
        priced: the draws of the ledger.

    Raises:
        ValueError: for other sites, and for a draw that has another mechanism, number of outputs
            that a row moves, number of payments, or words than its line. Also for one with a scale
            of its own in place of the budget's, and the other way round.
    """
    priced_specs = {draw.spec.site: draw.spec for draw in priced}
    if set(specs) != set(priced_specs):
        raise ValueError(
            f"the program draws {sorted(specs)}, and {sorted(priced_specs)} are priced"
        )
    for site, priced_spec in priced_specs.items():
        spec = specs[site]
        for name in _COMPARED:
            if getattr(spec, name) != getattr(priced_spec, name):
                raise _difference_error(site, name)
        for name, words in (("max_sensitivity", "sensitivity"), ("scale", "scale")):
            number, priced_number = getattr(spec, name), getattr(priced_spec, name)
            if not (is_static(number) and is_static(priced_number)):
                continue
            if not np.array_equal(number, priced_number, equal_nan=True):
                raise _difference_error(site, words)


def _difference_error(site: str, name: str) -> ValueError:
    return ValueError(
        f"the draw {site!r} runs with another {name} than the ledger prices: what it asks for may "
        "follow from the recipe alone, and not from the shape of the table or from what Python has "
        "changed since"
    )


class _RunTrace(NamedTuple):
    """What the trace of a program works out, by site.

    Attributes:
        outputs: what each draw gave.
        max_sensitivities: of each draw.
        scales: of each draw.
        kept: what is kept of each draw.
    """

    outputs: dict[str, Any]
    max_sensitivities: dict[str, Any]
    scales: dict[str, Any]
    kept: dict[str, Any]


def run_apart_from_public(
    program: Program,
    answer: Callable[[DrawSpec], tuple[Array, Any]],
    view: View,
    priced: Sequence[PricedDraw] | None,
    *,
    released_here: bool = True,
) -> dict[str, Any]:
    """Run a program in a trace of its own, compare its draws with their prices, then work it out.

    What the program keeps of its rows in Python is dead when it returns (`apart`). Largest
    sensitivities and scales are compared by the operations that make them, in the very trace that
    is worked out.

    Args:
        program: the private program.
        answer: from a request to its output, and what to keep of it.
        view: what the program reads.
        priced: the draws of the ledger; None to compare nothing.
        released_here: whether the outputs are those that are released. If not, scales that follow
            from them are not compared.

    Returns:
        What was kept of each site.

    Raises:
        ValueError: as `check_as_priced`, for a largest sensitivity or a scale that is worked out in
            another way than the ledger's, and as `Draw`.
    """
    specs: dict[str, DrawSpec] = {}

    def run_in_trace(view: View) -> _RunTrace:
        trace = _RunTrace({}, {}, {}, {})

        def answer_and_note(spec: DrawSpec) -> Array:
            site = spec.site
            specs[site] = spec
            trace.max_sensitivities[site] = jnp.asarray(spec.max_sensitivity)
            trace.scales[site] = jnp.asarray(spec.scale)
            trace.outputs[site], trace.kept[site] = answer(spec)
            return trace.outputs[site]

        run(program, answer_and_note, view)
        return trace

    closed, shapes = jax.make_jaxpr(run_in_trace, return_shape=True)(view)
    check_references("the program", closed)
    if priced is not None:
        check_as_priced(specs, priced)
        _check_formulas(closed, shapes, view, priced, released_here=released_here)
    trace: _RunTrace = evaluate_closed(closed, shapes, view)
    return trace.kept


def _check_formulas(
    closed: Any, shapes: Any, view: View, priced: Sequence[PricedDraw], *, released_here: bool
) -> None:
    """Compare how the numbers of draws are worked out with how the priced ones are.

    Args:
        closed: the jaxpr of a `_RunTrace`.
        shapes: of the `_RunTrace`.
        view: that the program reads.
        priced: the draws of the ledger.
        released_here: as `run_apart_from_public`.
    """
    places: _RunTrace = jax.tree.unflatten(
        jax.tree.structure(shapes), range(len(jax.tree.leaves(shapes)))
    )
    release_names = {place: release_name(site) for site, place in places.outputs.items()}
    draws_of_rows = [draw for draw in priced if draw.spec.mechanism.price.reads_rows]
    sites = [draw.spec.site for draw in draws_of_rows]

    wanted = [places.max_sensitivities[site] for site in sites]
    wanted += [places.scales[site] for site in sites]
    formulas = dataflow.formula_digests(closed, view_names(view), wanted, release_names)
    max_sensitivities, scales = formulas[: len(sites)], formulas[len(sites) :]
    for draw, max_sensitivity, scale in zip(draws_of_rows, max_sensitivities, scales, strict=True):
        if max_sensitivity != draw.max_sensitivity_formula:
            raise _difference_error(draw.spec.site, "sensitivity")
        if draw.scale_formula is None or (draw.scale_reads_releases and not released_here):
            continue
        if scale != draw.scale_formula:
            raise _difference_error(draw.spec.site, "scale")


def release_name(site: str) -> str:
    """The name of a site's output in formulas."""
    return f"release {site}"


def view_names(view: View) -> list[str]:
    """The names in formulas of all arrays that a program reads, in their order as a pytree."""
    return [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(view)]


def check_sites(**sites_of_phases: Collection[str]) -> None:
    """Refuse a site that two phases of a run draw, such as prologue and rounds: names are unique.

    Args:
        sites_of_phases: the sites of each phase, by its name.

    Raises:
        ValueError: naming the phases and the sites.
    """
    for (name, sites), (other, others) in itertools.combinations(sites_of_phases.items(), 2):
        if common := sorted(set(sites) & set(others)):
            raise ValueError(f"the {name} and the {other} both draw {common}; rename one of them")


def sample(
    program: Program,
    key: Array,
    public_key: Array | None,
    view: View,
    priced: Sequence[PricedDraw] | None = None,
) -> Release:
    """Run the program with fresh draws; the release holds the output of each, by site.

    Args:
        program: the private program.
        key: the secret key of the noise.
        public_key: the key of public draws, independent of `key`; None without public draws.
        view: what the program reads.
        priced: the draws of the ledger, which are compared with those that run; None to compare
            nothing.

    Raises:
        ValueError: for two draws of one name or one key, or a public draw without a public key.
            Also as `run_apart_from_public`.
    """

    def answer(spec: DrawSpec) -> tuple[Array, Array]:
        root = public_key if spec.mechanism.public else key
        if root is None:
            raise missing_public_key_error(spec.site)
        output = spec.mechanism.sample(site_key(root, spec.site), spec.value, spec.scale)
        return output, output

    return run_apart_from_public(program, answer, view, priced)


def replay_draws(program: Program, release: Release, view: View) -> dict[str, DrawSpec]:
    """Run the program on recorded outputs, and return what each draw asked for on this view.

    Raises:
        ValueError: if the recorded release and the program do not have the same sites, of the same
            shapes.
    """
    specs: dict[str, DrawSpec] = {}

    def answer(spec: DrawSpec) -> Array:
        specs[spec.site] = spec
        recorded = release.get(spec.site, jnp.zeros_like(spec.output))
        if jnp.shape(recorded) != spec.output.shape:
            raise ValueError(
                f"the release at {spec.site!r} has shape {jnp.shape(recorded)}, and the program "
                f"draws {spec.output.shape} there; it is of another recipe or table"
            )
        return recorded

    run(program, answer, view)
    if set(specs) != set(release):
        raise ValueError(
            f"the release has sites {sorted(release)}, the program draws {sorted(specs)}"
        )
    return specs


def log_prob(program: Program, release: Release, view: View) -> dict[str, Array]:
    """The exact log density f32[] of each recorded output, by site."""

    def log_density_by_site(release: Release, view: View) -> dict[str, Array]:
        specs = replay_draws(program, release, view)
        return {
            site: jnp.sum(spec.mechanism.log_prob(release[site], spec.value, spec.scale))
            for site, spec in specs.items()
        }

    return trace_apart(log_density_by_site, release, view)


class DrawComparison(NamedTuple):
    """What one draw tells of two views, given the earlier outputs.

    Attributes:
        log_ratio: f32[], the exact log ratio of the densities of the recorded output.
        worst_loss: the loss in the worst case over all outputs.
    """

    log_ratio: Array
    worst_loss: StepLoss


def compared(
    program: Program, release: Release, view: View, other: View
) -> dict[str, DrawComparison]:
    """What each site of a recorded release tells of two views, given the earlier outputs."""

    def compare(release: Release, view: View, other: View) -> dict[str, DrawComparison]:
        other_specs = replay_draws(program, release, other)
        specs = replay_draws(program, release, view)
        return {
            site: _compare_draws(spec, other_specs[site], release[site])
            for site, spec in specs.items()
        }

    return trace_apart(compare, release, view, other)


def _compare_draws(spec: DrawSpec, other: DrawSpec, output: Array) -> DrawComparison:
    """What one output tells of two views, which ask for it by `spec` and by `other`."""
    mechanism, value, other_value = spec.mechanism, spec.value, other.value
    log_density = mechanism.log_prob(output, value, spec.scale)
    other_log_density = mechanism.log_prob(output, other_value, other.scale)
    return DrawComparison(
        log_ratio=jnp.sum(log_density - other_log_density),
        worst_loss=mechanism.divergence(value, spec.scale, other_value, other.scale),
    )


def describe(
    program: Program, view: View, release: Mapping[str, Array] | None = None
) -> dict[str, DrawSpec]:
    """What every draw asks for, with recorded outputs where there are some, and zeros elsewhere.

    All of it follows from what is public and from the release, so one absent row does for the rows.
    """
    specs: dict[str, DrawSpec] = {}
    recorded = release or {}

    def answer(spec: DrawSpec) -> Array:
        numbers = {
            name: number if is_static(number) else jnp.asarray(number, jnp.float32)
            for name, number in (("scale", spec.scale), ("max_sensitivity", spec.max_sensitivity))
        }
        shapes = jax.eval_shape(lambda: spec.total)
        specs[spec.site] = dataclasses.replace(spec, total=shapes, **numbers)
        return recorded.get(spec.site, jnp.zeros_like(spec.output))

    run(program, answer, view)
    return specs


def public_draws(program: Program, public_key: Array, view: View) -> Release:
    """The sites of public randomness, as `sample` draws them of any rows under this public key.

    All other draws give zeros. `stages.pass_stages` refuses a program in which a public draw
    follows from them.
    """
    outputs: Release = {}

    def answer(spec: DrawSpec) -> Array:
        if not spec.mechanism.public:
            return jnp.zeros_like(spec.output)
        key = site_key(public_key, spec.site)
        outputs[spec.site] = spec.mechanism.sample(key, spec.value, spec.scale)
        return outputs[spec.site]

    run(program, answer, view)
    return outputs


def sums(
    program: Program,
    wanted: tuple[str, ...],
    given: Given,
    view: View,
    priced: Sequence[PricedDraw] | None = None,
) -> dict[str, Any]:
    """The sums i32[...] over some rows, of the draws of one stage.

    Public randomness, and draws of earlier stages, have the outputs that are given. Draws for
    places (`Mechanism.at`) have those of the places of these rows. All others give zeros, on which
    no sum of this stage depends.

    Args:
        program: a program with `stages.pass_stages`.
        wanted: the sites of one of its stages.
        given: what the sums follow from.
        view: some rows, and what is public.
        priced: the draws of the ledger, as `sample` takes them.

    Raises:
        ValueError: for public randomness with an axis of rows, and as `run_apart_from_public`.
    """

    def answer(spec: DrawSpec) -> tuple[Array, Any]:
        if spec.mechanism.public and spec.output.shape != given.sites[spec.site].shape:
            raise ValueError(
                f"the draw {spec.site!r} is public randomness for each row, and a table that is "
                "read in parts has one draw for all of them; draw it by mechanisms.assignment"
            )
        if spec.for_places:
            assert spec.mechanism.sample_places is not None
            key = site_key(given.key, spec.site)
            return spec.mechanism.sample_places(key, spec.value, spec.scale, given.place), None
        output = given.sites.get(spec.site, jnp.zeros_like(spec.output))
        return output, spec.total if spec.site in wanted else None

    totals = run_apart_from_public(program, answer, view, priced, released_here=False)
    return {site: totals[site] for site in wanted}


def weak_learner(
    *,
    name: str,
    config: Hashable = None,
    program: Program,
    hypothesis: Callable[[Release, LearnerParams, Public], Hypothesis],
    kind: HypothesisKind,
    fractions: Mapping[str, float],
    relation: str | Relation | None,
    make_params: Callable[[Mapping[str, Numbers], Public], LearnerParams] | None = None,
    response: Response = BINARY,
    partition: Partition | None = None,
    prologue: Prologue | None = None,
    epilogue: Epilogue | None = None,
    optimizer: Callable[[LearnerParams], Any] | None = None,
    coupled: bool = False,
    total_weight: bool = False,
    unprotected: tuple[str, ...] = (),
    withheld: tuple[str, ...] = (),
    work_bytes: Callable[[LearnerRows], WorkBytes] | None = None,
) -> WeakLearner:
    """The weak learner of a private program.

    Args:
        name: of the algorithm. Two learners that differ must differ in name or config.
        config: its static choices, hashable, such as a frozen dataclass; None if it has none.
        program: (draw, table, weights, params, public); every output of a private statistic goes
            through `draw`.
        hypothesis: (release, params, public) -> a hypothesis; it never sees private data.
        kind: the kind of the hypotheses: `trees.TREES`, or one of your own.
        fractions: the fraction of the budget of each site, of those of the prologue and of the
            epilogue, too. They add up to at most 1. The sites "leaf_0", "leaf_1" share that of
            "leaf".
        relation: the neighbouring relation that the sensitivities of its draws hold under; None if
            they hold under both.
        make_params: (noise multipliers by site, public) -> the learner's numbers, whose `noise` has
            the multipliers. `types.Noise` by default, which holds nothing else.
        response: what it predicts of a row.
        partition: how what is public in a round parts the rows, if anything does.
        prologue: what is done once before the first round.
        epilogue: what is done once after the last round. The kind of the hypotheses must say how
            they are scaled.
        optimizer: (params) -> an `optax.GradientTransformation` of hypotheses, as for momentum.
        coupled: whether the sensitivities hold where the weights of all rows depend on each other.
        total_weight: whether they assume a total weight, as `Assumptions` says.
        unprotected: what the program reads of the rows without a mechanism.
        withheld: the sites that `fit` leaves out of the model.
        work_bytes: how much memory a round takes, as `WeakLearner` says.

    Raises:
        ValueError: for an epilogue without hypotheses that can be scaled, for a kind without
            training, and for a config whose text does not say what it is.
    """
    return WeakLearner(
        name=name,
        config=config,
        round=Round(program=program, hypothesis=hypothesis),
        kind=kind,
        fractions=tuple(fractions.items()),
        make_params=make_params or _noise_alone,
        assumptions=Assumptions(
            relation=None if relation is None else as_relation(relation),
            coupled=coupled,
            total_weight=total_weight,
        ),
        response=response,
        partition=partition,
        prologue=prologue,
        epilogue=epilogue,
        optimizer=optimizer,
        unprotected=unprotected,
        withheld=withheld,
        work_bytes=work_bytes,
    )


def _noise_alone(noise: Mapping[str, Numbers], public: Public) -> Noise:
    """The numbers of a learner that has no others than its noise."""
    return Noise(dict(noise))
