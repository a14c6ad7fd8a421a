"""The privacy boundary: one private program, run in seven ways.

A weak learner is written once, as a program that asks for its random draws:

    def program(draw, table, weights, budget, public):
        statistic = ...                                 # reads private rows
        draw("leaf", mechanisms.discrete_laplace, statistic, scale)  # the only way out

A *site* is the name of a draw ("leaf"), and the *release* holds the output of every site.
`private_program` runs the program with seven kinds of `draw`:

- `release` samples every output.
- `log_prob` looks the outputs up in a recorded release, and gives their exact log densities.
- `divergence` does so on two tables, and gives the worst case over outputs.
- `draws` notes the mechanism and the scale of every draw. The ledger compares them with the
  learner's events, so that every line prices the draw that runs.
- `unread` samples public randomness alone, which follows from no row.
- `sums` returns the sums over some rows, for a table that is read in parts. `totals` draws once
  from the sums over all rows.
- `asks` notes what is drawn from each of these sums, and how; it follows from no row.

So an audit exercises the very code that ran. What the program returns is ignored.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import (
    Array,
    Budget,
    Epilogue,
    Hypothesis,
    HypothesisClass,
    Prepared,
    PrivateProgram,
    Prologue,
    Public,
    Relation,
    Release,
    WeakLearner,
)
from dpbt.base import relation as to_relation
from dpbt.privacy import draws
from dpbt.privacy.accounting import Event
from dpbt.privacy.draws import Program, Request, answered, no_public_key, value_of, zeros_of
from dpbt.privacy.mechanism import Allowance, Mechanism, Numbers, StepLoss, Value
from dpbt.privacy.parts import asked_sites, part_sums, public_sites
from dpbt.privacy.tags import code_tag
from dpbt.public import without_values

Draw = draws.Draw
Stages = draws.Stages
Total = draws.Total
site_key = draws.site_key

Events = Callable[[Budget, Public], list[Event]]
"""(budget, public) -> one event for each site of a program."""


class Site(NamedTuple):
    """One draw on one table: its mechanism, its private value and its scale."""

    mechanism: Mechanism
    value: Value
    scale: Array

    __repr__ = without_values


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Drawn:
    """What one draw asked for, without its value.

    Attributes:
        scale: f32[...], public, in the draw's unit.
        widest: f32[], the largest scale that the mechanism is given.
        mechanism: the mechanism of the draw.
        shape: the shape of its output.
        dtype: the dtype of its output.
    """

    scale: Array
    widest: Array
    mechanism: Mechanism = dataclasses.field(metadata={"static": True})
    shape: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    dtype: np.dtype = dataclasses.field(metadata={"static": True})

    @property
    def outputs(self) -> int:
        """The number of its independent outputs."""
        return math.prod(self.shape)


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


def sample(
    program: Program,
    key: Array,
    public_key: Array | None,
    table: Prepared,
    weights: Array,
    budget: Budget,
    public: Public,
) -> Release:
    """Run the program with fresh draws; the release holds the output of each, by site.

    Args:
        program: the private program.
        key: the secret key of the noise.
        public_key: the key of public draws, independent of `key`; None without public draws.
        table: the prepared rows; private.
        weights: f32[N], as `Program` describes them; private.
        budget: the learner's numbers.
        public: what is public in the round.

    Raises:
        ValueError: for two draws of one name or one key, or a public draw without a public key.
    """
    outputs: Release = {}

    def answer(ask: Request) -> Array:
        root = public_key if ask.mechanism.public else key
        if root is None:
            raise no_public_key(ask.site)
        own = site_key(root, ask.site)
        outputs[ask.site] = ask.mechanism.sample(own, value_of(ask.value), ask.scale)
        return outputs[ask.site]

    answered(program, answer, table, weights, budget, public)
    return outputs


def requests(
    program: Program, table: Prepared, weights: Array, budget: Budget, public: Public
) -> dict[str, Drawn]:
    """Run the program on outputs that are all 0, and note what each draw asks for."""
    sites: dict[str, Drawn] = {}

    def answer(ask: Request) -> Array:
        output = zeros_of(ask.mechanism, ask.value)
        noise = jnp.asarray(ask.scale, jnp.float32)
        divisor = jnp.asarray(ask.scale_unit, jnp.float32)
        in_units = jnp.where(divisor > 0, noise / divisor, jnp.nan)
        made = ask.mechanism, output.shape, output.dtype
        sites[ask.site] = Drawn(in_units, jnp.max(noise), *made)
        return output

    answered(program, answer, table, weights, budget, public)
    return sites


def replayed_sites(
    program: Program,
    release: Release,
    table: Prepared,
    weights: Array,
    budget: Budget,
    public: Public,
) -> dict[str, Site]:
    """Run the program on recorded outputs, and return what each draw saw on this table.

    Raises:
        ValueError: if the recorded release and the program do not have the same sites.
    """
    sites: dict[str, Site] = {}

    def answer(ask: Request) -> Array:
        if ask.site not in release:
            raise ValueError(f"the release has no site {ask.site!r}; it has {sorted(release)}")
        sites[ask.site] = Site(ask.mechanism, value_of(ask.value), ask.scale)
        return release[ask.site]

    answered(program, answer, table, weights, budget, public)
    if set(sites) != set(release):
        raise ValueError(
            f"the release has sites {sorted(release)}, the program draws {sorted(sites)}"
        )
    return sites


def log_densities(
    program: Program,
    release: Release,
    table: Prepared,
    weights: Array,
    budget: Budget,
    public: Public,
) -> dict[str, Array]:
    """The exact log density f32[] of each recorded output, on this table."""
    sites = replayed_sites(program, release, table, weights, budget, public)
    return {
        name: jnp.sum(site.mechanism.log_prob(release[name], site.value, site.scale))
        for name, site in sites.items()
    }


def divergences(
    program: Program,
    release: Release,
    table: Prepared,
    weights: Array,
    other_table: Prepared,
    other_weights: Array,
    budget: Budget,
    public: Public,
) -> dict[str, StepLoss]:
    """The cost of each site between two tables, in the worst case, given the earlier outputs."""
    sites = replayed_sites(program, release, table, weights, budget, public)
    neighbours = replayed_sites(program, release, other_table, other_weights, budget, public)
    losses: dict[str, StepLoss] = {}
    for name, site in sites.items():
        other = neighbours[name]
        pair = (site.value, site.scale, other.value, other.scale)
        losses[name] = StepLoss(site.mechanism.divergence(*pair), site.mechanism.rho(*pair))
    return losses


def private_program(
    program: Program, events: Events, *, additive: bool = False, stages: Stages = ()
) -> PrivateProgram:
    """A program's ways to run, and the events that price its draws.

    Args:
        program: (draw, table, weights, budget, public); every output of a private statistic goes
            through `draw`.
        events: (budget, public) -> one `accounting.Event` for each site.
        additive: whether a table may be read in parts. Then every draw that reads rows is of a
            `Total`, by a mechanism that has a `wide` or is a selection, and nothing follows from
            its output within the program. The other draws are public randomness without an axis of
            rows, or are for places (`Mechanism.at`).
        stages: the sites of an additive program whose sums follow from its own draws, in their
            order. The sums of a stage follow from draws of earlier stages alone. What is told of a
            draw, and its scale, may follow from all draws before it. A pass over the rows serves
            one stage.
    """

    def release(
        key: Array,
        public_key: Array | None,
        table: Prepared,
        weights: Array,
        budget: Budget,
        public: Public,
    ) -> Release:
        return sample(program, key, public_key, table, weights, budget, public)

    return PrivateProgram(
        release=release,  # a plain function, whose code `code_tag` can read
        log_prob=functools.partial(log_densities, program),
        divergence=functools.partial(divergences, program),
        draws=functools.partial(requests, program),
        events=events,
        unread=functools.partial(public_sites, program),
        asks=functools.partial(asked_sites, program, stages),
        sums=functools.partial(part_sums, program, stages) if additive or stages else None,
        stages=stages,
    )


def weak_learner(
    program: Program,
    hypothesis: Callable[[Release, Budget, Public], Hypothesis],
    events: Events,
    hypotheses: HypothesisClass,
    relation: str | Relation | None,
    *,
    calibrate: Callable[[Allowance, Numbers, Public], Budget] | None = None,
    prologue: Prologue | None = None,
    epilogue: Epilogue | None = None,
    coupled: bool = False,
    unprotected: tuple[str, ...] = (),
    tag: str | None = None,
    total: bool = False,
    withheld: tuple[str, ...] = (),
    by_depth: tuple[str, ...] = (),
    structure: Callable[[Budget, Public], Any] | None = None,
    additive: bool = False,
    stages: Stages = (),
    work: Callable[[Prepared], tuple[int, int]] | None = None,
) -> WeakLearner:
    """The weak learner of a private program.

    Args:
        program: (draw, table, weights, budget, public); every output of a private statistic goes
            through `draw`.
        hypothesis: (release, budget, public) -> a hypothesis; it never sees private data.
        events: (budget, public) -> one `accounting.Event` for each site.
        hypotheses: the class of the hypotheses: `trees.TREES`, or one of your own.
        relation: the neighbouring relation that the events' sensitivities hold under; None if they
            hold under both.
        calibrate: (allowance of all rounds, rounds, public) -> budget, for `recipes.custom`.
        prologue: what is done once before the first round.
        epilogue: what is done once after the last round. The class of the hypotheses must say how
            they are scaled.
        coupled: whether the sensitivities hold for weights that all move at once, as `slickness`
            says. If not, recipes refuse the learner with `reweighting.lazy_bregman`.
        unprotected: what the program reads off private data without a mechanism, and lets influence
            a draw in a way that its sensitivities do not count; empty for a proved calibration.
        tag: names the learner and every static part of it. Two learners whose draws differ under
            one budget must have two tags. The default is made of the program, the hypothesis, its
            class, the prologue and the epilogue: their names, code, defaults and what they close
            over. Declare a tag where these are not plain values and functions, or where globals
            matter.
        total: whether the events' sensitivities assume a total weight of kappa rows.
        withheld: sites that `fit` leaves out of the model, for example because their length is the
            number of private rows.
        by_depth: fields of its budget that have an entry for each depth on their last axis.
        structure: (budget, public) -> `Public.structure` of a round, for what the program and the
            hypothesis both derive from public quantities.
        additive: as `private_program`.
        stages: as `private_program`.
        work: (shapes of prepared rows) -> (bytes of a row, bytes of all rows together), which they
            take in a round on a table in parts.

    Raises:
        ValueError: for an epilogue without hypotheses that can be scaled, for a prologue or an
            epilogue with stages, and as `code_tag`.
    """
    if epilogue is not None and hypotheses.scaled is None:
        raise ValueError("an epilogue needs hypotheses that can be scaled: declare scaled=")
    for part in (prologue, epilogue):
        if part is not None and part.program.stages:
            raise ValueError("a prologue and an epilogue have no stages, as each is one pass")
    if tag is None:
        opening = () if prologue is None else (prologue.program.release, prologue.intercept)
        closing = () if epilogue is None else (epilogue.program.release, epilogue.line)
        placing = () if hypotheses.place is None else (hypotheses.place,)
        reading = (hypotheses.prepare, hypotheses.predict, hypotheses.bound, *placing)
        deriving = () if structure is None else (structure,)
        tag = code_tag(program, hypothesis, *reading, *opening, *closing, *deriving)
    return WeakLearner(
        tag=tag,
        program=private_program(program, events, additive=additive, stages=stages),
        hypothesis=hypothesis,
        hypotheses=hypotheses,
        relation=None if relation is None else to_relation(relation),
        coupled=coupled,
        unprotected=unprotected,
        total=total,
        withheld=withheld,
        prologue=prologue,
        epilogue=epilogue,
        by_depth=by_depth,
        calibrate=calibrate,
        structure=structure,
        work=work,
    )
