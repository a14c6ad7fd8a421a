"""Tuning that is paid for: the best of a random number of runs, each of a random candidate.

A run is a fit, and a score: one noisy draw from a sum over rows, as an epilogue's is, by a private
program that is given the scores of the rows in place of weights. docs/privacy.md, T1 to T6, has the
proofs. `tune` makes a choice. Before it, and from what is public alone, `planned_ledger` has its
price, and `candidates` builds recipes for a price.
"""

from __future__ import annotations  # so that help() shows the types by their names

import dataclasses
import hashlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from msgspec import structs

from dpbt.common import types
from dpbt.common.types import ADD_REMOVE, BINARY, Array, Noise, Recipe, Relation, Table, View
from dpbt.common.validate import one_of, positive, whole, within
from dpbt.data import tables
from dpbt.data.domains import Domain
from dpbt.privacy import accounting, boundary, keys, mechanisms, pricing
from dpbt.privacy.accounting import Ledger, Line, RunCount
from dpbt.privacy.mechanism import Allowance
from dpbt.privacy.pricing import ledger
from dpbt.recipes.building import deltas, epsilons, for_people, setting
from dpbt.recipes.oblivious import oblivious_boost, rule
from dpbt.release.model import Model
from dpbt.training import boosting, step
from dpbt.training.runs import BY_NAME, SITE, Score, drawn_count, program_of
from dpbt.training.step import Learned

# Choices.


@dataclasses.dataclass(frozen=True)
class Selection:
    """How candidates are tried and scored; all of it is public. Make one with `selection`.

    Attributes:
        score: "log_loss".
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
    score: str = "log_loss",
    *,
    mean: float = 5.0,
    eta: float = -0.5,
    held_out: float | None = 0.25,
    score_fraction: float = 0.1,
    seed: int = 0,
) -> Selection:
    """How candidates are tried and scored.

    A pure guarantee costs 2 + eta times a run, whatever the mean. One with a delta costs more for a
    larger mean.

    Args:
        score: "log_loss", the sum of log losses, each at most 2 nats.
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
    one_of("score", score, tuple(BY_NAME))
    if held_out is not None:
        held_out = float(positive("held_out", held_out, below=1))
    fraction = float(positive("score_fraction", score_fraction, below=1))
    seed = int(within("seed", seed, f"[0, {2**32 - 1}]", whole=True))
    return Selection(score, accounting.run_count(mean, eta), held_out, fraction, seed)


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
            raise ValueError(
                f"{each.name} predicts {response.words}, and a choice is among recipes of two "
                "classes"
            )
        if each.learner.traits.unprotected:
            raise ValueError(
                f"the calibration of {each.name} reads private data without a mechanism, so no "
                "choice can be paid for; use calibration='tight'"
            )
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

    choice: accounting.Choice
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
    choice = accounting.choice_of(
        books, selection.count, selection.score, len(single), disjoint=disjoint
    )
    score = BY_NAME[selection.score]
    noise = mechanisms.rounded_gaussian if first.delta > 0 else mechanisms.discrete_laplace

    # The score costs as much as the fit, or its share of the sum.
    part = 1.0 if disjoint else selection.score_fraction / (1 - selection.score_fraction)
    spent = Allowance(np.asarray(choice.epsilon), np.asarray(0.0))
    if first.delta > 0:
        spent = Allowance(np.asarray(0.0), np.asarray(choice.rho))
    multiplier = noise.multiplier(for_people(spent.part(part), first.max_rows_per_user))
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


_TRIES = 20


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
    epsilon, delta = float(epsilons(epsilon)), float(deltas(delta))
    relation = types.relation(relation)
    if not grid or not all(len(values) for values in grid.values()):
        raise ValueError("grid must have an argument, and values for each of its arguments")
    given = {"delta": delta, "relation": relation, **options}
    chosen = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]

    for gaussian in (True, False) if delta else (True,):
        each = run_epsilon(epsilon, delta, selection, relation, gaussian=gaussian)
        if each == 0:
            raise ValueError(f"epsilon is too small for a choice of several runs, got {epsilon:g}")
        for _ in range(_TRIES):
            made = [build(epsilon=each, **given, **values) for values in chosen]
            book = planned_ledger(made, selection)
            if book.epsilon <= epsilon:
                return made
            if gaussian and delta and book.accountant == "zcdp":
                break  # the draws are not all Gaussian
            each *= 1 - min(1.01 * (book.epsilon / epsilon - 1) + 1e-7, 0.5)  # finite bits
    raise ValueError(f"no epsilon of a run was found whose choice costs at most {epsilon:g}")


def run_epsilon(
    epsilon: float,
    delta: float,
    selection: Selection,
    relation: str | Relation = ADD_REMOVE,
    *,
    gaussian: bool = True,
) -> float:
    """The epsilon of one fit, at the same delta, whose choice costs (epsilon, delta).

    What finite bits cost is not in it; `candidates` counts it.

    Args:
        epsilon: the total, above 0.
        delta: 0, or in (0, 1).
        selection: how candidates are tried and scored.
        relation: the neighbouring relation.
        gaussian: whether all draws of a fit are Gaussian. It counts with a delta.
    """
    if math.isinf(epsilon):
        return epsilon
    share = 0.0 if selection.disjoint(types.relation(relation)) else selection.score_fraction
    count = selection.count
    if delta == 0:
        return epsilon / accounting.best_pure_epsilon(1.0, count) * (1 - share)

    def total(mu: float) -> float:
        if gaussian:
            return accounting.best_gdp_epsilon(mu, delta, count)
        return accounting.best_zcdp_epsilon(mu**2 / 2, delta, count)

    low, high = 0.0, float(accounting.gdp_mu(epsilon, delta))
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if total(middle) <= epsilon else (low, middle)
    fit = low * math.sqrt(1 - share)
    if gaussian:
        return accounting.gdp_epsilon(fit, delta)
    return accounting.zcdp_epsilon(fit**2 / 2, delta)


AROUND = {"rounds": (0.5, 1.0, 2.0), "step": (0.5, 1.0, 2.0), "clip": (0.3, 1.0)}
"""Candidates of `around_auto`: multiples of the rule's rounds and step, and clips."""


def around_auto(
    selection: Selection,
    *,
    epsilon: float,
    rows: int,
    domain: Domain,
    delta: float = 0.0,
    seed: int = 0,
    relation: str | Relation = ADD_REMOVE,
    max_rows_per_user: int = 1,
) -> list[Recipe]:
    """18 candidates: `recipes.auto` with half and twice its rounds and steps, and with two clips.

    Guarantee: a choice among them costs at most (epsilon, delta), as `candidates` says.

    Args:
        selection: as `dpbt.tune` is given it.
        epsilon: the total budget of the choice, above 0.
        rows: as `recipes.auto`.
        domain: the public domain of the table.
        delta: of the choice; 0 for a pure guarantee, else in (0, 1).
        seed: of the public splits. It is not a secret.
        relation: "add_remove" or "replace_one".
        max_rows_per_user: the most rows that one person has, by the owner's promise.

    Raises:
        ValueError: for a value outside these ranges, named with what was given.
    """
    bound, related = whole("rows", rows), types.relation(relation)

    def scaled(*, epsilon: float, rounds: float, step: float, **options: Any) -> Recipe:
        """`auto` with multiples of its rounds and its step.

        The step also falls with the root of the multiple of rounds, as the rule's own does. The
        limit follows the step.
        """
        chosen = rule(epsilon, bound, len(domain), delta, related, max_rows_per_user)
        number = max(1, round(rounds * chosen.rounds))
        factor = step * math.sqrt(chosen.rounds / number)
        numbers = chosen._asdict() | {"rounds": number, **options}
        numbers |= {"step": factor * chosen.step, "limit": factor * chosen.limit}
        return oblivious_boost(epsilon=epsilon, **numbers)

    return candidates(
        scaled,
        selection,
        grid=AROUND,
        epsilon=epsilon,
        delta=delta,
        relation=related,
        rows=bound,
        domain=domain,
        seed=seed,
        max_rows_per_user=max_rows_per_user,
    )


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

    Raises:
        ValueError: if any of these does not hold. Of what is private only the number of present
            rows is refused. No cell and no length of the table is shown.
    """
    single = settings_of(recipes)
    made = plan(single, selection)
    for recipe in single:
        step.check_run(table, recipe)
    if table.weight is not None:
        raise ValueError(
            "a choice scores every row alike, so its table takes no weights of rows or of classes"
        )
    table = step.on_device(table)
    step.check_rows(int(np.sum(np.asarray(table.present))), table.bins.shape[0], single[0])

    # Candidates with equal static parts share a program, with room for the rounds of all.
    room = tables.bucket(max(each.capacity for each in single))
    roomy = [dataclasses.replace(each, capacity=room, setting="", name="") for each in single]
    for recipe in {jax.tree.structure(each): each for each in roomy}.values():
        step.check_fit(key, table, recipe, public_key)

    root = keys.fold_words(key, keys.text_words(_described(single, selection, made)))
    best = _best_of_all(root, _parts(table, selection), roomy, made, public_key)
    learned, recipe = jax.tree.map(jnp.asarray, best.fit), single[best.candidate]
    model = Model.of(learned.first(recipe.capacity), recipe, table, keys.kind(key))
    keys.warn_of_research(key)
    model = dataclasses.replace(model, choice=(made.choice, made.line))
    return Tuned(model, best.candidate, best.value)


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


class _Best(NamedTuple):
    """The best run: its score, the place of its recipe, and what it learned."""

    value: float
    candidate: int
    fit: Learned


def _best_of_all(
    root: Array, parts: _Parts, roomy: Sequence[Recipe], made: Plan, public_key: Array | None
) -> _Best:
    """The best of K runs, and of no others; K and each run's candidate are drawn here.

    Of equal values it is the first. Runs are exchangeable, so which one that is tells nothing
    (docs/privacy.md).
    """
    count_key, candidate_key, runs_key = jax.random.split(root, 3)
    number = drawn_count(count_key, made.choice.law)
    best: _Best | None = None
    for first in range(0, number, AHEAD):
        some = range(first, min(first + AHEAD, number))
        chosen = [_candidate(candidate_key, run, len(roomy)) for run in some]
        started = [
            _run(_folded(runs_key, run), parts, roomy[k], made.params, public_key, made.programs[k])
            for run, k in zip(some, chosen, strict=True)
        ]
        for place, (fit, draw) in zip(chosen, jax.device_get(started), strict=True):
            value = made.score.value(draw)
            if best is None or value > best.value:
                best = _Best(value, place, fit)
    assert best is not None  # there is at least one run
    return best


def _candidate(key: Array, run: int, candidates: int) -> int:
    """The candidate of a run: 64 bits modulo their number, whatever the rows are."""
    high, low = np.asarray(_two_words(_folded(key, run))).tolist()
    return ((high << 32) | low) % candidates


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
    return fit.learned(recipe), boundary.sample(program, score_key, None, view)[SITE]


_run = jax.jit(one_run, static_argnames="program")


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
