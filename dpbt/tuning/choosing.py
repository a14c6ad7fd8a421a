"""Tuning: the best of a random number of runs, each of a candidate that is drawn at random."""

import dataclasses
import functools
import hashlib
from collections.abc import Iterator, Sequence
from decimal import Decimal, localcontext
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import Array, Noise, Program, Recipe, Release, Table, Transcript, View
from dpbt.data import shapes
from dpbt.privacy import accounting, boundary, keys
from dpbt.privacy.accounting import RunCount
from dpbt.release.model import Model
from dpbt.training import boosting, checks, step
from dpbt.tuning import scores
from dpbt.tuning.selections import Plan, Selection, plan, settings_of

LANES = 4
"""How many runs a program has side by side."""

AHEAD = 4
"""How many programs are started before their results are read, so that they share the cores."""


class Tuned(NamedTuple):
    """What a choice releases.

    Attributes:
        model: the model of the best run. Its ledger is that of the choice.
        candidate: the place of its recipe among the candidates.
        score: its noisy score as people read it: the number of errors, the sum of log losses in
            nats, or the AUROC. The best of several noisy scores looks better than it is.
        release: the draw of that score, which it follows from.
    """

    model: Model
    candidate: int
    score: float
    release: Release


class _Run(NamedTuple):
    """One run: a model and its score.

    Attributes:
        value: what runs are ordered by.
        candidate: the place of its recipe.
        transcript: of its fit, from which its model follows.
        release: the draw of its score.
    """

    value: float
    candidate: int
    transcript: Transcript
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

    Candidates whose static parts are equal run side by side in one program. Source: Liu & Talwar
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
    roomy = _with_room(single)
    for recipe in {jax.tree.structure(each): each for each in roomy}.values():
        checks.check(key, table, recipe, public_key)

    root = keys.fold_words(key, keys.text_words(_described(single, selection, made)))
    best = _best_of_all(root, _parts(table, selection), roomy, made, public_key)

    bare = boosting.without_rows(table)
    hypotheses, intercept = _rebuilt(best.transcript, bare, roomy[best.candidate])
    recipe, kind = single[best.candidate], keys.kind(key)
    transcript = boosting.without_withheld(best.transcript, recipe.learner)
    model = boosting.model_of(transcript, hypotheses, intercept, recipe, table, kind)
    kept = made.choice, accounting.line_record(made.line)
    model = dataclasses.replace(model, choice=kept)
    keys.warn_of_research(key)
    shown = made.score.shown(scores.drawn(best.release))
    return Tuned(model, best.candidate, shown, best.release)


_rebuilt = jax.jit(boosting.rebuilt)


def _with_room(single: Sequence[Recipe]) -> list[Recipe]:
    """The candidates without words, and with room for 16, 64, 256, ... rounds.

    Candidates with equal static parts share a program. Few sizes compile few of them, and rounds
    beyond a recipe's own cost next to nothing.
    """
    wide = [dataclasses.replace(each, capacity=2**30, setting="", name="") for each in single]
    room: dict[object, int] = {}
    for each, bare in zip(single, wide, strict=True):
        kind = jax.tree.structure(bare)
        room.setdefault(kind, 16)
        while room[kind] < each.capacity:
            room[kind] *= 4
    return [dataclasses.replace(each, capacity=room[jax.tree.structure(each)]) for each in wide]


# One choice: which runs there are, and the best of them.


def _best_of_all(
    root: Array, parts: "_Parts", roomy: Sequence[Recipe], made: Plan, public_key: Array | None
) -> _Run:
    """The best of K runs, and of no others; K and each run's candidate are drawn here.

    Of equal values it is the first. Batches come in an order of their candidates, so this is an
    order of outputs, and among equal ones of runs, which are exchangeable (docs/privacy.md).
    """
    count_key, candidate_key, runs_key = jax.random.split(root, 3)
    number = drawn_count(count_key, made.choice.count)
    chosen = _candidates(candidate_key, number, len(roomy))
    runs = _all_runs(runs_key, chosen, parts, roomy, made, public_key)
    return max(runs, key=lambda run: run.value)


def _candidates(key: Array, number: int, candidates: int) -> list[int]:
    """The candidate of each run: 64 bits modulo their number, whatever the rows are."""
    numbers = np.arange(-(-number // _DRAWN) * _DRAWN, dtype=np.uint32).reshape(-1, _DRAWN)
    words = np.concatenate([_two_words(_folded(key, some)) for some in numbers])
    high, low = words.T.astype(np.uint64)
    position = (high << np.uint64(32)) | low
    return (position % np.uint64(candidates)).astype(int).tolist()[:number]


_DRAWN = 64
"""For how many runs candidates are drawn at a time."""

_folded = jax.jit(jax.vmap(jax.random.fold_in, in_axes=(None, 0)))
_two_words = jax.jit(jax.vmap(lambda key: jax.random.bits(key, (2,), jnp.uint32)))


def _all_runs(
    key: Array,
    chosen: Sequence[int],
    parts: "_Parts",
    roomy: Sequence[Recipe],
    made: Plan,
    public_key: Array | None,
) -> Iterator[_Run]:
    """The best run of each batch; all runs are in one batch.

    Runs of one program with as many rounds are side by side, as all lanes of a batch take as long
    as its longest run. A batch is filled up with runs that do not count.
    """
    kinds = {kind: place for place, kind in enumerate(dict.fromkeys(map(_kind, roomy)))}
    places = [(kinds[_kind(each)], int(each.rounds)) for each in roomy]
    runs = sorted(range(len(chosen)), key=lambda run: places[chosen[run]])
    batches: list[list[int]] = []
    for run in runs:
        kind = places[chosen[run]][0]
        if not batches or len(batches[-1]) == LANES or places[chosen[batches[-1][0]]][0] != kind:
            batches.append([])
        batches[-1].append(run)

    def start(batch: Sequence[int]) -> tuple[Transcript, Release]:
        filled = [*batch, *[batch[0]] * (LANES - len(batch))]
        own = [roomy[chosen[run]] for run in filled]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *own)
        run_keys = _folded(key, np.asarray(filled, np.uint32))
        return _runs(run_keys, parts, stacked, made.params, public_key, made.program(own[0]))

    for first in range(0, len(batches), AHEAD):
        some = batches[first : first + AHEAD]
        for batch, found in zip(some, list(map(start, some)), strict=True):
            yield _best_of_batch(found, [chosen[run] for run in batch], made)


_kind = jax.tree.structure


def _best_of_batch(
    found: tuple[Transcript, Release], candidates: Sequence[int], made: Plan
) -> _Run:
    """The best run of a batch: of its first lanes, as many as there are candidates."""
    transcripts, releases = jax.device_get(found)
    lanes = [jax.tree.map(lambda array, i=i: array[i], releases) for i in range(len(candidates))]
    values = [made.score.value(scores.drawn(lane)) for lane in lanes]
    best = int(np.argmax(values))
    transcript = jax.tree.map(lambda array: array[best], transcripts)
    return _Run(values[best], candidates[best], transcript, jax.tree.map(jnp.asarray, lanes[best]))


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
) -> tuple[Transcript, Release]:
    """One run: fit a model, and draw its score; traceable.

    The score depends on the fit through its release alone, so a run is the adaptive composition of
    two mechanisms, and each reads its own part of the rows. The model is left out: it follows from
    the transcript, and models take more memory than all else in a program of many runs.
    """
    fit_key, score_key = jax.random.split(key)
    boosted = boosting.boost(fit_key, parts.taught, recipe, public_key)
    present = step.admitted(parts.scored.present, recipe)
    read = parts.scored._replace(present=present)
    view = View(read, boosted.scores, params, recipe.public())
    release = boundary.sample(program, score_key, None, view)
    return boosted.transcript, release


@functools.partial(jax.jit, static_argnames="program")
def _runs(
    run_keys: Array,
    parts: _Parts,
    recipes: Recipe,
    params: Noise,
    public_key: Array | None,
    program: Program,
) -> tuple[Transcript, Release]:
    """`one_run` for every key and setting, side by side."""

    def lane(key: Array, recipe: Recipe) -> tuple[Transcript, Release]:
        return one_run(key, parts, recipe, params, public_key, program)

    return jax.vmap(lane)(run_keys, recipes)


# The rows that are held out: a rule on the row alone, under a public seed.


def _parts(table: Table, selection: Selection) -> _Parts:
    """The rows that are learned from and those that are scored, padded."""
    if selection.held_out is None:
        padded = shapes.padded(table)
        return _Parts(padded, padded)
    scored = jnp.asarray(held_out(table, selection.held_out, selection.seed))
    taught, held = table.present & ~scored, table.present & scored
    return _Parts(
        shapes.padded(table._replace(present=taught)), shapes.padded(table._replace(present=held))
    )


_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)


def _mixed(words: np.ndarray) -> np.ndarray:
    """u64[...]: the finaliser of SplitMix64 (Steele, Lea & Flood, 2014), a bijection."""
    words = (words ^ (words >> np.uint64(30))) * _MULTIPLIERS[0]
    words = (words ^ (words >> np.uint64(27))) * _MULTIPLIERS[1]
    return words ^ (words >> np.uint64(31))


def held_out(table: Table, share: float, seed: int) -> np.ndarray:
    """bool[N]: whether each row is scored on instead of learned from.

    It is a hash of the row's cells and target under a public seed, so it depends on that row alone.
    Equal rows go together. No secret is needed: any rule on one row serves the proof.

    Args:
        table: N rows.
        share: of all possible rows, in (0, 1).
        seed: public, a whole number in 0..2^32 - 1.
    """
    with np.errstate(over="ignore"):  # arithmetic is modulo 2^64
        target = np.asarray(table.target)
        state = _mixed(np.full(target.shape, seed, np.uint64) + _STEP)
        arrays = [np.asarray(table.cells).T, target[None]]
        for array in arrays:
            for column in array:
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
        digest.update(_tags(recipe).encode())
        for leaf in jax.tree.leaves(recipe):
            digest.update(f"{np.asarray(leaf).dtype}{np.shape(leaf)}".encode())
            digest.update(np.asarray(leaf).tobytes())
    noise = float(made.line.scale).hex()
    return f"{selection!r} | {made.line.mechanism.name} {noise} | {digest.hexdigest()}"


def _tags(recipe: Recipe) -> str:
    learner = recipe.learner
    once = [part.tag for part in (learner.prologue, learner.epilogue) if part is not None]
    return " | ".join([learner.tag, recipe.weight_update.tag, *once])
