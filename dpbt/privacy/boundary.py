"""The privacy boundary: one private program, run by one function whose draws have several answers.

A weak learner is written once, as a program that asks for its random draws:

    def program(draw, table, weights, params, public):
        sums = ...                                      # reads private rows
        draw("leaf", mechanisms.discrete_laplace, sums, sensitivity=GRID, moves=1, theorem="T1")

A *site* is the name of a draw ("leaf"), and the *release* holds the output of every site. What a
program reads is a `View`. `draws.run` runs it, and each function here is an answer to its draws:

- `sample` draws every output.
- `log_prob` looks the outputs up in a recorded release, and gives their exact log densities.
- `divergence` does so on two views, and gives the worst case over outputs.
- `describe` notes the mechanism, the sensitivity, the scale and the shape of every draw. The ledger
  is made of these alone, so that every line prices the draw that runs. It follows from no row.
- `public_draws` samples public randomness alone, which follows from no row either.
- `sums` gives the sums over some rows, for a table that is read in parts. `totals` draws once from
  the sums over all rows, and `tracing.stages` says which sums one pass over the rows can serve.

So an audit exercises the very code that ran. What the program returns is ignored.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import (
    Array,
    Epilogue,
    Given,
    Hypothesis,
    HypothesisClass,
    Noise,
    Params,
    Program,
    Prologue,
    Public,
    Relation,
    Release,
    Traits,
    View,
    WeakLearner,
)
from dpbt.base import relation as to_relation
from dpbt.privacy import draws
from dpbt.privacy.draws import no_public_key, run, value_of, zeros_of
from dpbt.privacy.mechanism import Mechanism, Numbers, StepLoss, Value
from dpbt.privacy.tags import code_tag
from dpbt.public import without_values
from dpbt.validate import shown

Draw = draws.Draw
Request = draws.Request
Total = draws.Total
site_key = draws.site_key


class Site(NamedTuple):
    """One draw on one table: its mechanism, its private value and its scale."""

    mechanism: Mechanism
    value: Value
    scale: Array
    __repr__ = without_values


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class DrawSpec:
    """What one draw asks for, without its private value.

    Attributes:
        scale: f32[...], the scale that the mechanism is given.
        most: f32[...], the largest sensitivity, in the norm of the mechanism.
        told: what `after` reads, as `Total` has it.
        request: what is static of the draw, without numbers that are traced.
        shape: the shape of its output.
        dtype: the dtype of its output.
        after: from the sum over all rows to the value that is drawn; None if it draws from no sum.
        numbers: how many numbers the sum has.
    """

    scale: Array
    most: Array
    told: tuple[Any, ...]
    request: Request = dataclasses.field(metadata={"static": True})
    shape: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    dtype: np.dtype = dataclasses.field(metadata={"static": True})
    after: Callable[..., Any] | None = dataclasses.field(metadata={"static": True})
    numbers: int = dataclasses.field(metadata={"static": True})

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism of the draw."""
        return self.request.mechanism

    @property
    def outputs(self) -> int:
        """The number of its independent outputs."""
        return math.prod(self.shape)

    @property
    def for_places(self) -> bool:
        """Whether it is for places of the table, and reads no row."""
        return _for_places(self.mechanism)

    @property
    def sensitivity(self) -> Numbers:
        """f64[...]: the largest sensitivity: as the program states it, or as it follows."""
        stated = self.request.at_most
        return np.asarray(self.most if stated is None else stated, np.float64)

    @property
    def own_scale(self) -> Numbers:
        """f64[...]: the scale of a draw without a multiplier."""
        stated = self.request.scale
        return np.asarray(self.scale if stated is None else stated, np.float64)


def static(ask: Request) -> Request:
    """A request without its value, and without numbers that are traced."""

    def stated(number: Any) -> Any:
        return number if isinstance(number, int | float | np.generic) else None

    numbers = {"scale": stated(ask.scale), "at_most": stated(ask.at_most)}
    return ask._replace(value=None, sensitivity=None, **numbers)


def check_sites(**parts: Collection[str]) -> None:
    """Refuse a site that two parts of a run draw, such as prologue and rounds: names are unique.

    Args:
        parts: the sites of each part, by its name.

    Raises:
        ValueError: naming the parts and the sites.
    """
    for (part, sites), (other, others) in itertools.combinations(parts.items(), 2):
        if common := sorted(set(sites) & set(others)):
            raise ValueError(f"the {part} and the {other} both draw {common}; rename one of them")


def sample(program: Program, key: Array, public_key: Array | None, view: View) -> Release:
    """Run the program with fresh draws; the release holds the output of each, by site.

    Args:
        program: the private program.
        key: the secret key of the noise.
        public_key: the key of public draws, independent of `key`; None without public draws.
        view: what the program reads.

    Raises:
        ValueError: for two draws of one name or one key, or a public draw without a public key.
    """
    outputs: Release = {}

    def answer(ask: Request) -> Array:
        root = public_key if ask.mechanism.public else key
        if root is None:
            raise no_public_key(ask.site)
        outputs[ask.site] = _sampled(ask, root)
        return outputs[ask.site]

    run(program, answer, view)
    return outputs


def _sampled(ask: Request, root: Array) -> Array:
    """The output of a draw under the key of its site."""
    return ask.mechanism.sample(site_key(root, ask.site), value_of(ask.value), ask.scale)


def replayed(program: Program, release: Release, view: View) -> dict[str, Site]:
    """Run the program on recorded outputs, and return what each draw saw of this view.

    Raises:
        ValueError: if the recorded release and the program do not have the same sites.
    """
    sites: dict[str, Site] = {}

    def answer(ask: Request) -> Array:
        if ask.site not in release:
            raise ValueError(f"the release has no site {ask.site!r}; it has {sorted(release)}")
        sites[ask.site] = Site(ask.mechanism, value_of(ask.value), ask.scale)
        return release[ask.site]

    run(program, answer, view)
    if set(sites) != set(release):
        raise ValueError(
            f"the release has sites {sorted(release)}, the program draws {sorted(sites)}"
        )
    return sites


def log_prob(program: Program, release: Release, view: View) -> dict[str, Array]:
    """The exact log density f32[] of each recorded output, by site."""
    sites = replayed(program, release, view)
    return {
        name: jnp.sum(site.mechanism.log_prob(release[name], site.value, site.scale))
        for name, site in sites.items()
    }


def divergence(program: Program, release: Release, view: View, other: View) -> dict[str, StepLoss]:
    """The cost of each site between two views, in the worst case, given the earlier outputs."""
    neighbours = replayed(program, release, other)
    losses: dict[str, StepLoss] = {}
    for name, site in replayed(program, release, view).items():
        pair = (site.value, site.scale, neighbours[name].value, neighbours[name].scale)
        losses[name] = site.mechanism.divergence(*pair)
    return losses


def describe(
    program: Program, view: View, release: Mapping[str, Array] | None = None
) -> dict[str, DrawSpec]:
    """What every draw asks for, with recorded outputs where there are some, and zeros elsewhere.

    All of it follows from what is public and from the release, so one absent row does for the rows.
    """
    specs: dict[str, DrawSpec] = {}
    recorded = release or {}

    def answer(ask: Request) -> Array:
        output = zeros_of(ask.mechanism, ask.value)
        scale, most = (jnp.asarray(each, jnp.float32) for each in (ask.scale, ask.at_most))
        after, told, numbers = None, (), 0
        if isinstance(ask.value, Total):
            after, told = ask.value.after, ask.value.told
            numbers = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(ask.value.parts))
        made = static(ask), output.shape, output.dtype, after, numbers
        specs[ask.site] = DrawSpec(scale, most, told, *made)
        return recorded.get(ask.site, output)

    run(program, answer, view)
    return specs


def public_draws(program: Program, public_key: Array, view: View) -> Release:
    """The sites of public randomness, as `sample` draws them of any rows under this public key.

    All other draws give zeros. `tracing.stages` refuses a program in which a public draw follows
    from them.
    """
    sites: Release = {}

    def answer(ask: Request) -> Array:
        if not ask.mechanism.public:
            return zeros_of(ask.mechanism, ask.value)
        sites[ask.site] = _sampled(ask, public_key)
        return sites[ask.site]

    run(program, answer, view)
    return sites


def sums(program: Program, wanted: tuple[str, ...], given: Given, view: View) -> dict[str, Any]:
    """The sums i32[...] over some rows, of the draws of one stage.

    Public randomness, and draws of earlier stages, have the outputs that are given. Draws for
    places (`Mechanism.at`) have those of the places of these rows. All others give zeros, on which
    no sum of this stage depends.

    Args:
        program: a program with `tracing.stages`.
        wanted: the sites of one of its stages.
        given: what the sums follow from.
        view: some rows, and what is public.

    Raises:
        ValueError: for public randomness with an axis of rows.
    """
    found: dict[str, Any] = {}

    def answer(ask: Request) -> Any:
        mechanism, value = ask.mechanism, ask.value
        if mechanism.public:
            _check_shared(ask, given.sites[ask.site])
            return given.sites[ask.site]
        if _for_places(mechanism):
            assert mechanism.at is not None
            own = site_key(given.key, ask.site)
            return mechanism.at(own, value_of(value), ask.scale, given.place)
        if ask.site in wanted:
            assert isinstance(value, Total)  # as `tracing.stages` says
            found[ask.site] = value.parts
        return given.sites[ask.site] if ask.site in given.sites else zeros_of(mechanism, value)

    run(program, answer, view)
    return found


def _check_shared(ask: Request, given: Array) -> None:
    """Refuse public randomness for each row, as all blocks of rows are given the same.

    Raises:
        ValueError: saying so.
    """
    if draws.shape_of(ask.mechanism, ask.value, ask.scale).shape != given.shape:
        raise ValueError(
            f"the draw {ask.site!r} is public randomness for each row, and a table that is read in "
            "parts has one draw for all of them; draw it by mechanisms.assignment"
        )


def _for_places(mechanism: Mechanism) -> bool:
    """Whether a draw is for places of the table, and reads no row."""
    return mechanism.at is not None and not mechanism.price.reads_rows


def weak_learner(
    program: Program,
    hypothesis: Callable[[Release, Params, Public], Hypothesis],
    fractions: Mapping[str, float],
    hypotheses: HypothesisClass,
    relation: str | Relation | None,
    *,
    params: Callable[[Mapping[str, Numbers], Public], Params] | None = None,
    prologue: Prologue | None = None,
    epilogue: Epilogue | None = None,
    tag: str | None = None,
    **traits: Any,
) -> WeakLearner:
    """The weak learner of a private program.

    Args:
        program: (draw, table, weights, params, public); every output of a private statistic goes
            through `draw`.
        hypothesis: (release, params, public) -> a hypothesis; it never sees private data.
        fractions: the fraction of the budget of each site, of those of the prologue and of the
            epilogue, too. They add up to at most 1. The sites "leaf_0", "leaf_1" share that of
            "leaf".
        hypotheses: the class of the hypotheses: `trees.TREES`, or one of your own.
        relation: the neighbouring relation that the sensitivities of its draws hold under; None if
            they hold under both.
        params: (noise multipliers by site, public) -> the learner's numbers, whose `noise` has the
            multipliers. `base.Noise` by default, which holds nothing else.
        prologue: what is done once before the first round.
        epilogue: what is done once after the last round. The class of the hypotheses must say how
            they are scaled.
        tag: names the learner and every static part of it. Two learners whose draws differ under
            one budget must have two tags. The default is made of the program, the hypothesis, its
            class, the prologue and the epilogue: their names, code, defaults and what they close
            over. Declare a tag where these are not plain values and functions, or where globals
            matter.
        traits: the other fields of `Traits` by name, such as `coupled` and `unprotected`.

    Raises:
        ValueError: for an epilogue without hypotheses that can be scaled, for fractions that are no
            numbers above 0 or add up to more than 1, and as `code_tag`.
    """
    if epilogue is not None and hypotheses.scaled is None:
        raise ValueError("an epilogue needs hypotheses that can be scaled: declare scaled=")
    check_fractions(fractions)
    if tag is None:
        opening = () if prologue is None else (prologue.program, prologue.intercept)
        closing = () if epilogue is None else (epilogue.program, epilogue.line)
        part = hypotheses.partition
        placing, deriving = ((), ()) if part is None else ((part.place,), (part.structure,))
        reading = (hypotheses.prepare, hypotheses.predict, hypotheses.bound, *placing)
        tag = code_tag(program, hypothesis, *reading, *opening, *closing, *deriving)
    under = None if relation is None else to_relation(relation)
    return WeakLearner(
        program,
        hypothesis,
        hypotheses,
        fractions=tuple(fractions.items()),
        params=params or _noise_alone,
        traits=Traits(tag, under, **traits),
        prologue=prologue,
        epilogue=epilogue,
    )


def _noise_alone(noise: Mapping[str, Numbers], public: Public) -> Noise:
    """The numbers of a learner that has no others than its noise."""
    del public
    return Noise(dict(noise))


def check_fractions(fractions: Mapping[str, Numbers]) -> None:
    """Refuse fractions of a budget that are no numbers above 0, or that are more than all of it.

    Raises:
        ValueError: naming the site, or the sum.
    """
    for site, fraction in fractions.items():
        if not np.all(np.asarray(fraction, np.float64) > 0):
            raise ValueError(f"the fraction of {site!r} must be above 0, got {shown(fraction)}")
    total = sum(np.asarray(each, np.float64) for each in fractions.values())
    if np.any(total > 1 + 1e-9):
        raise ValueError(f"the fractions of a budget must add up to at most 1, got {shown(total)}")
