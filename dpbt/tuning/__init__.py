"""Tuning that is paid for: the best of a random number of runs, each of a random candidate."""

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common.types import Array, Noise, Program, Recipe, Release, Table, Transcript, View
from dpbt.data import tables
from dpbt.privacy import boundary, keys
from dpbt.privacy.accounting import RunCount
from dpbt.release.model import Model
from dpbt.training import boosting, checks, step
from dpbt.tuning.selections import (
    SITE,
    Plan,
    Selection,
    around_auto,
    candidates,
    plan,
    planned_ledger,
    run_epsilon,
    selection,
    settings_of,
)

__all__ = [
    "Selection",
    "Tuned",
    "around_auto",
    "candidates",
    "held_out",
    "planned_ledger",
    "run_epsilon",
    "selection",
    "tune",
]

AHEAD = 4
"""How many runs are started before their results are read, so that they share the cores."""


class Tuned(NamedTuple):
    """What a choice releases.

    Attributes:
        model: the model of the best run. Its ledger is that of the choice.
        candidate: the place of its recipe among the candidates.
        score: its noisy score, of which more is better: minus the sum of log losses in nats, or the
            AUROC. The best of several noisy scores looks better than it is.
        release: the draw of that score, which it follows from.
    """

    model: Model
    candidate: int
    score: float
    release: Release


class _Run(NamedTuple):
    """One run: the place of its recipe, its score, its fit without scores, and its last draw."""

    candidate: int
    value: float
    fit: boosting.Ran
    release: Release


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
        checks.check_run(table, recipe)
    if table.weight is not None:
        raise ValueError(
            "a choice scores every row alike, so its table takes no weights of rows or of classes"
        )
    table = checks.on_device(table)
    checks.check_rows(int(np.sum(np.asarray(table.present))), table.bins.shape[0], single[0])
    roomy = _with_room(single)
    for recipe in {jax.tree.structure(each): each for each in roomy}.values():
        checks.check(key, table, recipe, public_key)

    root = keys.fold_words(key, keys.text_words(_described(single, selection, made)))
    best = _best_of_all(root, _parts(table, selection), roomy, made, public_key)
    recipe, transcript = single[best.candidate], Transcript(*best.fit.kept)
    hypotheses, intercept = best.fit.hypotheses, best.fit.intercept
    model = boosting.model_of(transcript, hypotheses, intercept, recipe, table, keys.kind(key))
    model = dataclasses.replace(model, choice=(made.choice, made.line))
    keys.warn_of_research(key)
    return Tuned(model, best.candidate, best.value, best.release)


def _with_room(single: Sequence[Recipe]) -> list[Recipe]:
    """The candidates without words, and with room for 16, 64, 256, ... rounds.

    Candidates with equal static parts then share a program, and rounds beyond a recipe's own cost
    next to nothing.
    """
    most = max(each.capacity for each in single)
    room = 16 * 4 ** max(0, math.ceil(math.log(most / 16, 4)))
    return [dataclasses.replace(each, capacity=room, setting="", name="") for each in single]


# One choice: which runs there are, and the best of them.


def _best_of_all(
    root: Array, parts: "_Parts", roomy: Sequence[Recipe], made: Plan, public_key: Array | None
) -> _Run:
    """The best of K runs, and of no others; K and each run's candidate are drawn here.

    Of equal values it is the first. Runs are exchangeable, so which one that is tells nothing
    (docs/privacy.md).
    """
    count_key, candidate_key, runs_key = jax.random.split(root, 3)
    number = drawn_count(count_key, made.choice.law)
    best: _Run | None = None
    for first in range(0, number, AHEAD):
        some = range(first, min(first + AHEAD, number))
        chosen = [_candidate(candidate_key, run, len(roomy)) for run in some]
        started = [
            _run(
                _folded(runs_key, run),
                parts,
                roomy[place],
                made.params,
                public_key,
                made.programs[place],
            )
            for run, place in zip(some, chosen, strict=True)
        ]
        for place, (fit, release) in zip(chosen, jax.device_get(started), strict=True):
            value = made.score.value(release[SITE])
            if best is None or value > best.value:
                best = _Run(place, value, fit, release)
    assert best is not None  # there is at least one run
    fit, release = jax.tree.map(jnp.asarray, (best.fit, best.release))
    return best._replace(fit=fit, release=release)


def _candidate(key: Array, run: int, candidates: int) -> int:
    """The candidate of a run: 64 bits modulo their number, whatever the rows are."""
    high, low = np.asarray(_two_words(_folded(key, run))).tolist()
    return ((high << 32) | low) % candidates


_folded = jax.jit(jax.random.fold_in)
_two_words = jax.jit(lambda key: jax.random.bits(key, (2,), jnp.uint32))


# One run.


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
    program: Program,
) -> tuple[boosting.Ran, Release]:
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
    release = boundary.sample(program, score_key, None, view)
    return fit._replace(scores=None), release


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


# The number of runs: drawn by exact arithmetic from 256 bits of the key.

_DIGITS = 120
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
    words = np.asarray(keys.words(key, _WORDS, ()))
    position = 0
    for word in words.tolist():
        position = (position << 32) | word
    return at_position(position, 32 * _WORDS, count)


def at_position(position: int, bits: int, count: RunCount) -> int:
    """The k at which the distribution function of K first exceeds position / 2^bits."""
    if count.gamma == 1:
        return 1
    with localcontext() as context:
        context.prec = _DIGITS
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


def _described(single: Sequence[Recipe], selection: Selection, made: Plan) -> str:
    """Every public number and part of a choice, so that two choices under one key are independent.

    If they shared noise at two scales, their two releases would reveal private statistics.
    """
    digest = hashlib.sha256()
    for recipe in single:
        learner = recipe.learner
        once = [part.tag for part in (learner.prologue, learner.epilogue) if part is not None]
        tags = [learner.tag, recipe.weight_update.tag, *once]
        digest.update(" | ".join(tags).encode())
        for leaf in jax.tree.leaves(recipe):
            digest.update(f"{np.asarray(leaf).dtype}{np.shape(leaf)}".encode())
            digest.update(np.asarray(leaf).tobytes())
    noise = float(made.line.scale).hex()
    return f"{selection!r} | {made.line.mechanism} {noise} | {digest.hexdigest()}"
