"""Tuning that is paid for: the best of a random number of runs, each of a random candidate.

A run is a fit, and a score: one noisy draw from a sum over rows, as an epilogue's is, by a private
program that is given the scores of the rows in place of weights. docs/privacy.md, T1 to T6, has the
proofs. `tune` makes a choice. Before it, and from what is public alone, `planned_ledger` has its
price, and `candidates` builds recipes for a price.
"""

from __future__ import annotations  # so that help() shows the types by their names

import dataclasses
import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from msgspec import structs

from dpbt import types
from dpbt.common import programs
from dpbt.common.validate import within
from dpbt.common.watching import working
from dpbt.data import tables
from dpbt.models import file
from dpbt.models.model import Model
from dpbt.privacy import boundary, conversions, keys, mechanisms, pricing
from dpbt.privacy.accounting import Ledger, Line
from dpbt.privacy.conversions import RunCount
from dpbt.privacy.mechanism import Allowance, Mechanism, Sensitivity
from dpbt.privacy.pricing import ledger
from dpbt.recipes.building import allowance_of_one_row, setting, zero_or_share
from dpbt.training import boosting, step
from dpbt.training.step import Learned
from dpbt.types import ADD_REMOVE, BINARY, GRID, Array, Noise, Recipe, Relation, Table, View

# Scores.

SITE = "score"

MAX_LOSS = 2.0
"""The most that one row loses, in nats: a probability of 0.135 for its class, or less."""

_NATS = MAX_LOSS / GRID


class Score(NamedTuple):
    """A kind of score: a sum over rows.

    Its sensitivity is `most` in every norm and relation. Proof. Fix the model. A row adds a whole
    number in 0..most. So a row that comes, goes or is replaced moves the sum by at most `most`. []

    Attributes:
        name: its name in ledgers.
        statistic: (rows, scores, public, loss) -> i32[], the private value.
        most: what one row adds at most.
        value: (its draw) -> the number that runs are ordered by; a larger one is better.
        releases: what is published, in words.
        unit: of the sensitivity.
        loss_of: the loss that the statistic needs of a recipe; it refuses one without.
    """

    name: str
    statistic: Callable[..., Array]
    most: int
    value: Callable[[np.ndarray], float]
    releases: str
    unit: str
    loss_of: Callable[[Recipe], types.LossFamily | None]


def losses(
    rows: types.Prepared, scores: Array, public: types.Public, loss: types.LossFamily
) -> Array:
    """i32[]: the sum of the log losses of present rows, each rounded to a step and clipped."""
    member = loss(public.weighting.link_alpha)
    positive = (member.probability or member.inverse_link)(scores)
    stated = jnp.where(rows.target, positive, 1 - positive)
    least = jnp.float32(math.exp(-MAX_LOSS))
    nats = -jnp.log(jnp.clip(jnp.nan_to_num(stated), least, 1))
    steps = jnp.clip(jnp.round(nats / np.float32(_NATS)), 0, GRID).astype(jnp.int32)
    return jnp.sum(jnp.where(rows.present, steps, 0))


def loss_of(recipe: Recipe) -> types.LossFamily:
    """The loss that gives the probabilities of a recipe.

    Raises:
        ValueError: if it gives none.
    """
    about, loss = file.about(recipe), recipe.weight_update.loss
    if loss is None or about.probability is None:
        raise ValueError(f"a score needs probabilities: {about.reason or 'votes are no scores'}")
    return loss


LOG_LOSS = Score(
    name="log_loss",
    statistic=losses,
    most=GRID,
    value=lambda draw: -_NATS * float(draw),
    releases="the sum of their clipped log losses",
    unit=f"1/{GRID} of {MAX_LOSS:g} nats",
    loss_of=loss_of,
)
"""The score of every choice."""


@functools.cache
def program_of(score: Score, noise: Mechanism, loss: types.LossFamily | None) -> types.Program:
    """The private program of a score, whose budget is a `types.Noise`."""

    def program(draw: boundary.Draw, rows: Any, scores: Array, params: Noise, public: Any) -> None:
        draw(
            SITE,
            noise,
            score.statistic(rows, scores, public, loss),
            sensitivity=noise.bound(Sensitivity(score.most, score.most)),
            moves=1,
            theorem="dpbt theorem T6",
            releases=score.releases,
            unit=score.unit,
        )

    return program


# The number of runs: drawn by exact arithmetic from 256 bits of the key.

_WORDS = 8
_NOTHING = Decimal(10) ** -90
"""Probabilities below it end the search: together they are below 2^-200."""


def drawn_count(key: Array, count: RunCount) -> int:
    """K, by inversion of its distribution function at 256 random bits. It is private.

    Nothing truncates it. The law of the result is within 2^-200 of that of `count` in total
    variation (`accounting.COUNT_DISTANCE`). The reason is that each value's probability is off by
    at most 2^-256 and the rounding of 120 digits, and fewer than 2^22 values are not below 10^-90.

    Args:
        key: one typed key, used for nothing else.
        count: the law.
    """
    words = np.asarray(keys.words(key, _WORDS, ()), ">u4").tobytes()
    return at_position(int.from_bytes(words, "big"), 32 * _WORDS, count)


def at_position(position: int, bits: int, count: RunCount) -> int:
    """The k at which the distribution function of K first exceeds position / 2^bits."""
    if count.gamma == 1:
        return 1
    with localcontext() as context:
        context.prec = 120
        gamma, eta = Decimal(count.gamma), Decimal(count.eta)
        rest = 1 - gamma
        log_inverse = -gamma.ln()
        if count.eta == 0:
            probability = rest / log_inverse
        else:
            probability = rest * eta / ((eta * log_inverse).exp() - 1)
        wanted = Decimal(position) / Decimal(2) ** bits

        k, below = 1, probability
        while below <= wanted and probability > _NOTHING:
            probability *= rest * (k + eta) / (k + 1)
            below += probability
            k += 1
    return k


# Choices.


@dataclasses.dataclass(frozen=True)
class Selection:
    """How candidates are tried and scored; all of it is public. Make one with `selection`.

    Attributes:
        score: the name of the score, "log_loss".
        count: the law of the number of runs.
        held_out: the share of rows that are scored on and not learned from; None if all rows are
            both.
        score_fraction: the share of a run's budget that its score gets where a run costs the sum.
        seed: of the rule that holds rows out.
    """

    score: str
    count: RunCount
    held_out: float | None
    score_fraction: float
    seed: int

    def disjoint(self, relation: Relation) -> bool:
        """Whether a run costs the dearer of fit and score, and not their sum.

        It does where fit and score read different rows, under add/remove: a row that comes or goes
        is in one part. Under replace-one the old row may be in one part and the new one in the
        other, so a run costs the sum.
        """
        return self.held_out is not None and relation is ADD_REMOVE


def selection(
    *,
    mean: float = 5.0,
    eta: float = -0.5,
    held_out: float | None = 0.25,
    score_fraction: float = 0.1,
    seed: int = 0,
) -> Selection:
    """How candidates are tried, and scored by the sum of log losses, each at most 2 nats.

    A pure guarantee costs 2 + eta times a run, whatever the mean. One with a delta costs more for a
    larger mean.

    Args:
        mean: the mean number of runs, at least 1. The number itself is random and has no bound.
        eta: the shape of its law, in -0.9..100: 0 is logarithmic and 1 geometric.
        held_out: the share of rows that are scored on and not learned from, in (0, 1). None learns
            from all rows and scores on all rows.
        score_fraction: the share of a run's budget that goes to its score, in (0, 1). It counts
            where a run costs the sum of fit and score: under replace-one, or without held-out rows.
            Elsewhere the score costs as much as the fit.
        seed: of the rule that holds rows out, a whole number in 0..2^32 - 1. It is not a secret.

    Raises:
        ValueError: for a value outside these ranges, named with what was given.
    """
    if held_out is not None:
        held_out = float(within("held_out", held_out, "(0, 1)"))
    fraction = float(within("score_fraction", score_fraction, "(0, 1)"))
    seed = int(within("seed", seed, f"[0, {2**32 - 1}]", whole=True))
    return Selection(LOG_LOSS.name, conversions.run_count(mean, eta), held_out, fraction, seed)


def settings_of(recipes: Recipe | Sequence[Recipe]) -> list[Recipe]:
    """Every setting of one or several recipes, in order.

    Raises:
        ValueError: for no recipe, something that is none, or recipes that differ in what a choice
            has once: rows, delta, relation and max_rows_per_user. Also for a recipe whose
            calibration reads private data without a mechanism, or that predicts anything but two
            classes.
    """
    given = [recipes] if isinstance(recipes, Recipe) else list(recipes)
    if not given or not all(isinstance(each, Recipe) for each in given):
        raise ValueError("recipes must be one or several recipes, as dpbt.recipes makes them")
    single = [
        setting(each, index) if index else each
        for each in given
        for index in np.ndindex(np.shape(each.rows))
    ]
    for each in single:
        response = each.learner.hypotheses.response
        if response != BINARY:
            raise ValueError(f"a choice is among recipes of two classes, and {each.name} is none")
        if each.learner.traits.unprotected:
            raise ValueError(f"{each.name} reads private data without a mechanism; nothing pays")
        for name in ("rows", "delta", "relation", "max_rows_per_user"):
            if getattr(each, name) != getattr(single[0], name):
                raise ValueError(f"all candidates must have the same {name}")
    return single


class Plan(NamedTuple):
    """What a choice runs, and what it costs.

    Attributes:
        choice: what is public about the choice.
        score: the kind of score.
        params: the noise of the score.
        line: the ledger's line of the score.
        programs: the private program of the score, for models of each candidate.
    """

    choice: conversions.Choice
    score: Score
    params: Noise
    line: Line
    programs: tuple[types.Program, ...]


def plan(single: Sequence[Recipe], selection: Selection) -> Plan:
    """The plan of a choice among single settings of recipes (`settings_of`).

    Raises:
        ValueError: for a recipe that gives no probabilities, and as `dpbt.ledger`.
    """
    first, books = single[0], [ledger(each) for each in single]
    disjoint = selection.disjoint(first.relation)
    choice = conversions.choice_of(
        books, selection.count, LOG_LOSS.name, len(single), disjoint=disjoint
    )
    score = LOG_LOSS
    noise = mechanisms.rounded_gaussian if first.delta > 0 else mechanisms.discrete_laplace

    # The score costs as much as the fit, or its share of the sum.
    part = 1.0 if disjoint else selection.score_fraction / (1 - selection.score_fraction)
    spent = Allowance(np.asarray(choice.epsilon), np.asarray(0.0))
    if first.delta > 0:
        spent = Allowance(np.asarray(0.0), np.asarray(choice.rho))
    multiplier = noise.multiplier(allowance_of_one_row(spent.part(part), first.max_rows_per_user))
    params = Noise({SITE: multiplier})
    programs = tuple(program_of(score, noise, score.loss_of(each)) for each in single)

    # The line of the score's draw, as its program describes it on a table of one row.
    nobody = jnp.zeros(1, bool)
    rows = Table(jnp.zeros((1, 1), jnp.uint8), nobody, nobody)
    view = View(rows, jnp.zeros(1, jnp.float32), params, first.public())
    spec = boundary.describe(programs[0], view)[SITE]
    line = pricing.line(spec, params.noise, first.max_rows_per_user)
    return Plan(choice, score, params, line, programs)


def planned_ledger(recipes: Recipe | Sequence[Recipe], selection: Selection) -> Ledger:
    """The ledger of a choice before it is made; its lines are those of the first candidate.

    Args:
        recipes: the candidates, as `dpbt.tune` takes them.
        selection: how they are tried and scored.

    Raises:
        ValueError: as `settings_of` and `plan`.
    """
    single = settings_of(recipes)
    made, fit = plan(single, selection), ledger(single[0])
    return structs.replace(fit, lines=(*fit.lines, made.line), choice=made.choice)


_CLOSE, _TRIES = 1e-6, 20
"""How far below the cost that was asked for a choice may cost, and how many are planned for it."""


def candidates(
    build: Callable[..., Recipe],
    selection: Selection,
    *,
    grid: Mapping[str, Sequence[Any]],
    epsilon: float,
    delta: float = 0.0,
    relation: str | Relation = ADD_REMOVE,
    **options: Any,
) -> list[Recipe]:
    """A candidate for each combination of a grid, whose choice costs at most (epsilon, delta).

    It finds the epsilon of a run, and builds every candidate with it. So epsilon is the total, as
    for every recipe.

    Args:
        build: a recipe's function, such as `recipes.oblivious_boost`.
        selection: as `dpbt.tune` is given it.
        grid: argument of `build` -> its values; the candidates are all combinations.
        epsilon: the total budget of the choice, above 0.
        delta: of the choice; 0 for a pure guarantee, else in (0, 1).
        relation: "add_remove" or "replace_one".
        **options: the other arguments of `build`, such as rows and domain.

    Raises:
        ValueError: for a value outside these ranges, and as `build` and `plan`.
    """
    epsilon, delta = (
        float(within("epsilon", epsilon, "(0, inf]")),
        float(zero_or_share("delta", delta)),
    )
    relation = types.relation(relation)
    if not grid or not all(len(values) for values in grid.values()):
        raise ValueError("grid must have an argument, and values for each of its arguments")
    given = {"delta": delta, "relation": relation, **options}
    chosen = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]

    low, each, high, best = 0.0, epsilon, math.inf, None
    for _ in range(_TRIES):
        made = [build(epsilon=each, **given, **values) for values in chosen]
        cost = planned_ledger(made, selection).epsilon
        low, high, best = (each, high, made) if cost <= epsilon else (low, each, best)
        if epsilon * (1 - _CLOSE) <= cost <= epsilon:
            break
        each *= epsilon * (1 - _CLOSE / 4) / cost  # costs are nearly proportional, where finite
        each = each if low < each < high else (low + high) / 2
    if best is None:
        raise ValueError(f"no epsilon of a run was found whose choice costs at most {epsilon:g}")
    return best


# A choice.

AHEAD = 4
"""How many runs are started before their results are read, so that they share the cores."""


class Tuned(NamedTuple):
    """What a choice releases.

    Attributes:
        model: the model of the best run. Its ledger is that of the choice.
        candidate: the place of its recipe among the candidates.
        score: its noisy score, of which more is better: minus the sum of log losses in nats. The
            best of several noisy scores looks better than it is.
    """

    model: Model
    candidate: int
    score: float


def tune(
    key: Array,
    table: Table,
    recipes: Recipe | Sequence[Recipe],
    selection: Selection,
    public_key: Array | None = None,
    *,
    verbose: bool = False,
) -> Tuned:
    """Try a random number of candidates, and release the best model with its noisy score.

    Guarantee: that of `dpbt.ledger(result.model)`, which is `tuning.planned_ledger(recipes,
    selection)`. Each of K runs takes a candidate uniformly at random, fits it with a key of its
    own, and draws its score. K is random with the law `selection.count`. Neither K nor the other
    runs are released, and nothing truncates K: runs go on until K is reached. The running time
    tells K, and is outside of the guarantee.

    Candidates whose static parts are equal share a program. Source: Liu & Talwar
    (2019); Papernot & Steinke (2022); docs/privacy.md, T1 to T6.

    Args:
        key: one typed key, a secret, as `dpbt.fit` takes it. Use it on one table only.
        table: from `dpbt.table`, of two classes and without weights. At most `rows` rows may be
            present.
        recipes: the candidates: recipes with one setting or axes of settings. Their budgets are of
            one run; `tuning.candidates` builds them for a total. They have the same rows, delta,
            relation and max_rows_per_user.
        selection: the score, the law of K, and the part of the rows that is held out.
        public_key: one typed key that is independent of `key`, if the recipes draw public
            structure. All runs draw the same.
        verbose: say on standard error among how many candidates it chooses. The number of runs is
            private, so neither runs nor seconds are counted.

    Raises:
        ValueError: if any of these does not hold. Of what is private only the number of present
            rows is refused. No cell and no length of the table is shown.
    """
    single = settings_of(recipes)
    made = plan(single, selection)
    for recipe in single:
        step.check_run(table, recipe)
    if table.weight is not None:
        raise ValueError("a choice takes no weights of rows or of classes")
    table = step.on_device(table)
    step.check_rows(int(np.sum(np.asarray(table.present))), table.bins.shape[0], single[0])

    # Candidates with equal static parts share a program, with room for the rounds of all.
    room = tables.bucket(max(each.capacity for each in single))
    unnamed: dict[str, Any] = {"setting": "", "name": "", "domain": None}
    roomy = [dataclasses.replace(each, capacity=room, **unnamed) for each in single]
    for recipe in {types.program_of_numbers(each): each for each in roomy}.values():
        step.check_fit(key, recipe, public_key)

    told = _described(single, selection, made)
    root = keys.fold_words(key, np.zeros(0, np.uint32), told)
    parts = _parts(step.without_domain(table), selection)
    words = f"choosing among {len(single)} candidates"
    with working(words, verbose, clock=False):
        value, candidate, fit = _best_of_all(root, parts, roomy, made, public_key)
    learned, recipe = jax.tree.map(jnp.asarray, fit), single[candidate]
    model = Model.of(learned, recipe, table, keys.kind(key))
    keys.warn_of_research(key)
    return Tuned(dataclasses.replace(model, choice=(made.choice, made.line)), candidate, value)


def _described(single: Sequence[Recipe], selection: Selection, made: Plan) -> str:
    """Every public number and part of a choice, so that two choices under one key are independent.

    If they shared noise at two scales, their two releases would reveal private statistics.
    """
    digest = hashlib.sha256()
    for recipe in single:
        digest.update(" | ".join(recipe.tags).encode())
        for leaf in map(np.asarray, jax.tree.leaves(recipe)):
            digest.update(f"{leaf.dtype}{leaf.shape}".encode() + leaf.tobytes())
    noise = float(made.line.scale).hex()
    return f"{selection!r} | {made.line.mechanism} {noise} | {digest.hexdigest()}"


def _best_of_all(
    root: Array, parts: _Parts, roomy: Sequence[Recipe], made: Plan, public_key: Array | None
) -> tuple[float, int, Learned]:
    """The best of K runs, and of no others: its score, the place of its recipe, what it learned.

    Of equal values it is the first. Runs are exchangeable, so which one that is tells nothing
    (docs/privacy.md).
    """
    count_key, candidate_key, runs_key = jax.random.split(root, 3)
    number = drawn_count(count_key, made.choice.law)

    def started(run: int) -> tuple[int, tuple[Learned, Array]]:
        k = _candidate(candidate_key, run, len(roomy))
        own = roomy[k], made.params, public_key, made.programs[k]
        return k, _run(_folded(runs_key, run), parts, *own)

    def scored(place: int, found: tuple[Learned, Array]) -> tuple[float, int, Learned]:
        fit, draw = jax.device_get(found)
        return made.score.value(draw), place, fit

    runs = (
        scored(*each)
        for first in range(0, number, AHEAD)
        for each in [started(run) for run in range(first, min(first + AHEAD, number))]
    )
    return max(runs, key=lambda run: run[0])


def _candidate(key: Array, run: int, candidates: int) -> int:
    """The candidate of a run: 64 bits modulo their number, whatever the rows are."""
    words = np.asarray(_two_words(_folded(key, run)), ">u4").tobytes()
    return int.from_bytes(words, "big") % candidates


_folded = jax.jit(jax.random.fold_in)
_two_words = jax.jit(lambda key: jax.random.bits(key, (2,), jnp.uint32))


class _Parts(NamedTuple):
    """The rows that fits read and the rows that scores read; both have the same shape."""

    taught: Table
    scored: Table


def one_run(
    key: Array,
    parts: _Parts,
    recipe: Recipe,
    params: Noise,
    public_key: Array | None,
    program: types.Program,
) -> tuple[Learned, Array]:
    """One run: fit a model, and draw its score; traceable.

    The score depends on the fit through its release alone, so a run is the adaptive composition of
    two mechanisms, and each reads its own part of the rows. The scores of the rows do not leave.
    """
    fit_key, score_key = jax.random.split(key)
    rows = step.prepared_table(parts.taught, recipe)
    fit = boosting.sampled(fit_key, rows, recipe, public_key)
    assert fit.scores is not None
    present = step.admitted(parts.scored.present, recipe)
    read = parts.scored._replace(present=present)
    view = View(read, fit.scores[0], params, recipe.public())
    learned = step.learned_of(fit.kept, fit.hypotheses, fit.intercept, recipe)
    return learned, boundary.sample(program, score_key, None, view)[SITE]


_run = programs.kept(static_argnames=("program",))(one_run)


# The rows that are held out: a rule on the row alone, under a public seed.


def _parts(table: Table, selection: Selection) -> _Parts:
    """The rows that are learned from and those that are scored, padded."""
    taught = held = table.present
    if selection.held_out is not None:
        scored = jnp.asarray(held_out(table, selection.held_out, selection.seed))
        taught, held = table.present & ~scored, table.present & scored
    return _Parts(*(tables.padded(table._replace(present=rows)) for rows in (taught, held)))


_STEP = np.uint64(0x9E3779B97F4A7C15)


def _mixed(words: np.ndarray) -> np.ndarray:
    """u64[...]: the finaliser of SplitMix64 (Steele, Lea & Flood, 2014), a bijection."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def held_out(table: Table, share: float, seed: int) -> np.ndarray:
    """bool[N]: whether each row is scored on instead of learned from.

    It is a hash of the row's bins and target under a public seed, so it depends on that row alone.
    Equal rows go together. No secret is needed: any rule on one row serves the proof.

    Args:
        table: N rows.
        share: of all possible rows, in (0, 1).
        seed: public, a whole number in 0..2^32 - 1.
    """
    target = np.asarray(table.target)
    state = _mixed(np.full(target.shape, seed, np.uint64) + _STEP)
    for column in [*np.asarray(table.bins).T, target]:
        words = column.view(np.uint32) if column.dtype == np.float32 else column
        state = _mixed((state ^ words.astype(np.uint64)) + _STEP)
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53 < share
