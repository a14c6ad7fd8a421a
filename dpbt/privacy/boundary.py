"""The privacy boundary: a private program requests every output, and one function runs it.

An author writes a weak learner once, as a program that requests its random draws:

    def program(draw, table, weights, params, public):
        sums = ...                                      # reads private rows
        noise = mechanisms.discrete_laplace
        draw("leaf", noise, sums, sensitivity=GRID, moved_outputs=1, theorem="T1")

A *site* is the name of a draw ("leaf"), and the *release* holds the output of every site. The other
arguments of a program are the fields of a `View`. `run_program` runs a program on a view, and takes
a function that answers each draw:
`program_interpreters` has six of them. So an audit and the ledger read the very code that a fit
runs. `run_program` ignores what the program returns.
"""

import dataclasses
import functools
import itertools
import zlib
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.privacy.isolation import ReadOnlyMapping
from dpbt.privacy.keys import research_key
from dpbt.privacy.mechanism_types import Mechanism, Numbers, Sensitivity, Value
from dpbt.public_types import redacted_repr
from dpbt.types import (
    BINARY,
    Array,
    Assumptions,
    Epilogue,
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
    Site,
    View,
    WeakLearner,
    WorkBytes,
    as_relation,
)


@dataclasses.dataclass(frozen=True, repr=False)
class RowSum:
    """A sum over rows, and the public function that maps it to the statistic of a draw.

    Attributes:
        sums: i32[...], or a pytree of such arrays: the sum over the rows of a table.
        to_statistic: (sum over all rows, *public inputs) -> the statistic of the draw. The sum is
            i32 for a table in memory, and whole numbers in float64, within
            `variates.double_precision`, for a table in blocks. Pass the same function in each call,
            because programs are compiled for it.
        public_inputs: the other arguments of `to_statistic`: arrays, or None, that depend on
            earlier releases and on no private row.
    """

    sums: Any
    to_statistic: Callable[..., Any] = lambda sums: sums
    public_inputs: tuple[Any, ...] = dataclasses.field(default=(), kw_only=True)

    __repr__ = redacted_repr


def is_static(number: Any) -> bool:
    """Whether a number is a plain Python or NumPy number that depends on no traced array."""
    return isinstance(number, int | float | np.generic)


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class DrawSpec:
    """A draw that a program requests: its mechanism, statistic, sensitivity and scale.

    As the ledger describes it, it lacks the private value. As a pytree its leaves are `scale`,
    `max_sensitivity` and `public_inputs`, unless they are `is_static`. All other fields are static.

    Attributes:
        site, mechanism, moved_outputs, theorem, num_payments, releases, unit: as `Draw` has them.
        private_input: the private sum over rows of a `RowSum`, or the statistic itself if the
            program states none. A description holds its shapes instead.
        to_statistic: as `RowSum` has it; None if the program states no `RowSum`.
        public_inputs: as `RowSum` has them.
        scale: the scale of the mechanism's noise. `Draw` puts the sensitivity here, and
            `run_program` multiplies it by the multiplier of the budget before it answers the draw.
        max_sensitivity: the largest sensitivity, in the norm of the mechanism; public, and
            independent of every release.
        has_stated_scale: whether the program states the scale; if not, `scale` is a sensitivity
            times a multiplier of the budget.
    """

    site: Site
    mechanism: Mechanism
    private_input: Any
    to_statistic: Callable[..., Any] | None
    public_inputs: tuple[Any, ...]
    scale: Any
    max_sensitivity: Any
    moved_outputs: int | None
    theorem: str
    num_payments: int
    releases: str
    unit: str
    has_stated_scale: bool

    __repr__ = redacted_repr

    def tree_flatten(self) -> tuple[tuple[dict[str, Any]], tuple[Any, ...]]:
        """Split the spec into its traced fields, as the one child, and its static fields."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        names = [
            name
            for name in ("scale", "max_sensitivity", "public_inputs")
            if not is_static(fields[name])
        ]
        traced = {name: fields.pop(name) for name in names}
        return (traced,), tuple(fields.items())

    @classmethod
    def tree_unflatten(cls, static: Any, traced: Any) -> "DrawSpec":
        """Build the spec from its static and its traced fields."""
        return cls(**dict(static), **traced[0])

    @property
    def statistic(self) -> Value:
        """The private statistic that the mechanism draws from."""
        if self.to_statistic is None:
            return self.private_input
        return self.to_statistic(self.private_input, *self.public_inputs)

    @functools.cached_property
    def output(self) -> jax.ShapeDtypeStruct:
        """The shape and the dtype of the output of the draw."""
        statistic = self.private_input
        if self.to_statistic is not None:
            statistic = jax.eval_shape(self.to_statistic, statistic, *self.public_inputs)

        leaves, structure = jax.tree.flatten(statistic)
        types_of_leaves = tuple(
            leaf if isinstance(leaf, jax.ShapeDtypeStruct) else jax.typeof(leaf) for leaf in leaves
        )
        array_types = tuple((leaf.shape, leaf.dtype, leaf.weak_type) for leaf in types_of_leaves)
        shape_of_sample = _shape_of_sample
        if not getattr(self.mechanism.sample, "__module__", "").startswith("dpbt."):
            shape_of_sample = _shape_of_sample.__wrapped__  # it may follow from what Python holds
        return shape_of_sample(
            self.mechanism.sample, structure, array_types, jax.dtypes.canonicalize_dtype(np.int64)
        )

    @property
    def has_output_per_row_index(self) -> bool:
        """Whether the draw reads no row and has one output for each row index of a table.

        Such a draw can be made for some of the rows (`Mechanism.sample_at_row_indices`).
        """
        return (
            self.mechanism.sample_at_row_indices is not None and not self.mechanism.price.reads_rows
        )


@functools.lru_cache(maxsize=1024)
def _shape_of_sample(
    sample: Callable[[Array, Value, Array], Array], structure: Any, array_types: Any, int_dtype: Any
) -> jax.ShapeDtypeStruct:
    """The shape and the dtype of what a mechanism draws for a value.

    A recipe asks for it several times for each draw, and to trace a sampler takes longest there.

    Args:
        sample: of the mechanism.
        structure: of the pytree of the value.
        array_types: (shape, dtype, whether it is weak) of each of its arrays.
        int_dtype: the widest integer dtype that JAX has now; a part of the key of the cache.
    """
    del int_dtype
    leaves = [
        jax.ShapeDtypeStruct(shape, dtype, weak_type=weak_type)
        for shape, dtype, weak_type in array_types
    ]

    # The key and the scale are made within the trace, where JAX compiles nothing for them.
    def sample_under_any_key(value: Value) -> Array:
        return sample(research_key(0), value, jnp.float32(1))

    return jax.eval_shape(sample_under_any_key, jax.tree.unflatten(structure, leaves))


def _hash_site(site: Site) -> int:
    return zlib.crc32(site.encode()) & 0x7FFFFFFF


def site_key(key: Array, site: Site) -> Array:
    """Derive the key of the draw at a site from the key of its round.

    It depends on nothing else, such as other draws.
    """
    return jax.random.fold_in(key, _hash_site(site))


def missing_public_key_error(site: Site) -> ValueError:
    """The error for a public draw without a public key."""
    return ValueError(
        f"the draw {site!r} is public randomness: give public_key, a key that is "
        "independent of the noise's key, such as another dpbt.fresh_key()"
    )


def budget_group_of_site(site: Site, noise: Mapping[Site, Any]) -> str:
    """The budget group of a site, which is a key of `noise`.

    It is the site itself, or "leaf" for a site such as "leaf_3".

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
    """The function by which a program requests its outputs.

    Calling it declares a draw.

    Attributes:
        answer_draw: (spec) -> the output of the draw.
        noise: site -> multiplier, the noise of the budget, which a program may read. `run_program`
            computes scales from a copy that the program cannot reach.
        earlier_sites: the sites of the draws so far.
    """

    answer_draw: Callable[[DrawSpec], Any]
    noise: Mapping[Site, Numbers]
    earlier_sites: list[Site] = dataclasses.field(default_factory=list)

    def __call__(
        self,
        site: Site,
        mechanism: Mechanism,
        statistic: Value | RowSum,
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
        """The output of a mechanism on a private statistic.

        Its scale is the sensitivity times the multiplier that the budget holds for the site
        (`budget_group_of_site`), so the ledger prices the multiplier that runs.

        Args:
            site: the name of the draw, unique in its program.
            mechanism: the mechanism that draws the output.
            statistic: the private statistic, an array or `mechanisms.Scores`; it leaves through the
                mechanism alone. A `RowSum` declares a sum over rows.
            theorem: where the sensitivity is proved.
            sensitivity: how far one row moves the statistic, in the norm of
                `mechanism_types.Mechanism.price`: L1, L2, or for selections the range of the change
                of scores. A `Sensitivity` states both norms. It may depend on earlier releases if
                `max_sensitivity` does not.
            moved_outputs: how many independent outputs one row moves, whatever `num_payments` is;
                None for draws that never read the rows.
            max_sensitivity: public, the largest possible sensitivity, if the sensitivity depends on
                earlier releases. The ledger shows it.
            scale: public, the scale itself instead of a multiplier, for draws that never read the
                rows and for noise that the author states as a number.
            num_payments: how often the budget pays for one time that it takes place: 1, or the
                number of nodes for a draw at all nodes of a level that is priced node by node.
            releases: what it publishes, in words.
            unit: the unit of the sensitivity, in words.

        Raises:
            ValueError: for two draws of one site or one key, for noise from the public key, and for
                a site without a multiplier (`budget_group_of_site`).
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
        has_stated_scale = scale is not None
        if scale is None:
            scale = jnp.asarray(sensitivity, jnp.float32)  # `run_program` multiplies it
        is_row_sum = isinstance(statistic, RowSum)
        spec = DrawSpec(
            site=site,
            mechanism=mechanism,
            private_input=statistic.sums if is_row_sum else statistic,
            to_statistic=statistic.to_statistic if is_row_sum else None,
            public_inputs=statistic.public_inputs if is_row_sum else (),
            scale=scale,
            max_sensitivity=sensitivity if max_sensitivity is None else max_sensitivity,
            moved_outputs=moved_outputs,
            theorem=theorem,
            num_payments=num_payments,
            releases=releases or site,
            unit=unit,
            has_stated_scale=has_stated_scale,
        )
        return self.answer_draw(spec)


def run_program(program: Program, answer_draw: Callable[[DrawSpec], Any], view: View) -> None:
    """Run a private program on a view, and answer its draws by a function.

    Nothing is returned: the function sees each draw, and what it returns is the draw's output. The
    program reads copies of params and public, whose noise is read-only.

    Args:
        program: the private program.
        answer_draw: (spec) -> the output of the draw, which the program reads.
        view: the inputs of the program.

    Raises:
        ValueError: as `Draw`.
    """
    params, public = jax.tree.map(lambda leaf: leaf, (view.params, view.public))
    noise = ReadOnlyMapping(view.params.noise)
    multipliers = dict(view.params.noise)

    # The program cannot reach the multipliers that scales are computed from.
    def answer_scaled(spec: DrawSpec) -> Any:
        if not spec.has_stated_scale:
            multiplier = multipliers[budget_group_of_site(spec.site, multipliers)]
            scale = jnp.asarray(spec.scale, jnp.float32) * jnp.asarray(multiplier, jnp.float32)
            spec = dataclasses.replace(spec, scale=scale)
        return answer_draw(spec)

    program(
        Draw(answer_scaled, noise), view.rows, view.weights, params._replace(noise=noise), public
    )


def check_sites_differ_between_phases(**sites_of_phases: Collection[Site]) -> None:
    """Refuse phases of a run, such as prologue and rounds, that draw at the same site.

    Args:
        sites_of_phases: the sites of each phase, by its name.

    Raises:
        ValueError: naming the phases and the sites.
    """
    for (name, sites), (other, others) in itertools.combinations(sites_of_phases.items(), 2):
        if common := sorted(set(sites) & set(others)):
            raise ValueError(f"the {name} and the {other} both draw {common}; rename one of them")


def weak_learner(
    *,
    name: str,
    config: Hashable = None,
    program: Program,
    hypothesis: Callable[[Release, LearnerParams, Public], Hypothesis],
    kind: HypothesisKind,
    fractions: Mapping[Site, float],
    relation: str | Relation | None,
    make_params: Callable[[Mapping[Site, Numbers], Public], LearnerParams] | None = None,
    response: Response = BINARY,
    partition: Partition | None = None,
    prologue: Prologue | None = None,
    epilogue: Epilogue | None = None,
    optimizer: Callable[[LearnerParams], Any] | None = None,
    coupled: bool = False,
    total_weight: bool = False,
    unprotected: tuple[str, ...] = (),
    withheld: tuple[Site, ...] = (),
    work_bytes: Callable[[LearnerRows], WorkBytes] | None = None,
) -> WeakLearner:
    """Build the weak learner of a private program.

    Each argument is documented where it is a field: `program` and `hypothesis` in `types.Round`;
    `relation`, `coupled` and `total_weight` in `types.Assumptions`; all others in
    `types.WeakLearner`. Three differ from the field. `fractions` is a mapping from sites to
    fractions of the budget. `relation` may also be a name, "add_remove" or "replace_one".
    `make_params` is by default `types.Noise`, which holds the multipliers alone.

    Raises:
        ValueError: for an epilogue without hypotheses that can be scaled, for a kind without
            training, and for a config whose text does not identify it.
    """
    return WeakLearner(
        name=name,
        config=config,
        round=Round(program=program, hypothesis=hypothesis),
        kind=kind,
        fractions=tuple(fractions.items()),
        make_params=make_params or _params_of_noise_multipliers,
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


def _params_of_noise_multipliers(noise: Mapping[Site, Numbers], public: Public) -> Noise:
    """The params of a learner that has no params but its noise multipliers."""
    return Noise(dict(noise))
