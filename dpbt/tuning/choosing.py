"""Tuning: the best of a random number of runs, each of a candidate that is drawn at random."""

import dataclasses
import functools
import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import boosting, checks, rounds, shapes
from dpbt.base import Array, Hypotheses, Model, Program, Recipe, Release, Table, Transcript, View
from dpbt.privacy import accounting, boundary, keys
from dpbt.tuning import batches, scores
from dpbt.tuning.counts import drawn_count
from dpbt.tuning.parts import held_out
from dpbt.tuning.scores import ScoreBudget
from dpbt.tuning.selections import Plan, Selection, plan, settings_of


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


class _Parts(NamedTuple):
    """The rows that fits read and the rows that scores read; both have the same shape."""

    taught: Table
    scored: Table


def one_run(
    key: Array,
    parts: _Parts,
    recipe: Recipe,
    budget: ScoreBudget,
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
    present = rounds.admitted(parts.scored.present, recipe)
    read = parts.scored._replace(present=present)
    view = View(read, boosted.scores, budget, recipe.public())
    release = boundary.sample(program, score_key, None, view)
    return boosted.transcript, release


@functools.partial(jax.jit, static_argnames=("structure", "program"))
def _runs(
    run_keys: Array,
    parts: _Parts,
    leaves: list[Array],
    structure: "_Structure",
    budget: ScoreBudget,
    public_key: Array | None,
    program: Program,
) -> tuple[Transcript, Release]:
    """`one_run` for every key and setting, side by side.

    What all candidates share has no axis of lanes, so it is worked out once.
    """

    def lane(key: Array, leaves: list[Array]) -> tuple[Transcript, Release]:
        recipe = jax.tree.unflatten(structure.recipe, leaves)
        return one_run(key, parts, recipe, budget, public_key, program)

    axes = [0 if varied else None for varied in structure.varied]
    return jax.vmap(lane, in_axes=(0, axes))(run_keys, leaves)


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
            relation and rows_per_person.
        selection: the score, the law of K, and the part of the rows that is held out.
        public_key: one typed key that is independent of `key`, if the recipes draw public
            structure. All runs draw the same.

    Raises:
        ValueError: if any of these does not hold. Of what is private only the number of present
            rows is refused. No cell and no length of the table is shown.
    """
    tuned = choose(key, table, recipes, selection, public_key)
    keys.warn_of_research(key)
    return tuned


def choose(
    key: Array,
    table: Table,
    recipes: Recipe | Sequence[Recipe],
    selection: Selection,
    public_key: Array | None = None,
) -> Tuned:
    """`tune` without its warning of a research key, for callers that warn in their own words.

    Args: as `tune`.

    Raises:
        ValueError: as `tune`.
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
    for recipe in {_static(each): each for each in single}.values():
        checks.check(key, table, recipe, public_key)

    root = keys.fold_words(key, keys.text_words(_described(single, selection, made)))
    best = _best_of_all(root, _parts(table, selection), single, made, public_key)

    recipe, kind = single[best.candidate], keys.kind(key)
    hypotheses = _hypotheses_of(best.transcript, table, recipe, _room_of(single, recipe))
    model = boosting.model_of(hypotheses, best.transcript, recipe, table, False, kind)
    kept = made.choice, tuple(sorted(accounting.content_of(made.line).items()))
    model = dataclasses.replace(model, choice=kept)
    shown = made.score.shown(scores.drawn(best.release))
    return Tuned(model, best.candidate, shown, best.release)


def _best_of_all(
    root: Array, parts: _Parts, single: Sequence[Recipe], made: Plan, public_key: Array | None
) -> _Run:
    """The best of K runs, and of no others; K and each run's candidate are drawn here."""
    count_key, candidate_key, runs_key = jax.random.split(root, 3)
    number = drawn_count(count_key, made.choice.count)
    chosen = _candidates(candidate_key, number, len(single))
    return _best(_all_runs(runs_key, chosen, parts, single, made, public_key))


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


def _candidates(key: Array, number: int, candidates: int) -> list[int]:
    """The candidate of each run: 64 bits modulo their number, whatever the rows are."""
    found: list[int] = []
    for start in range(0, number, _DRAWN):
        runs = _folded(key, jnp.arange(start, start + _DRAWN, dtype=jnp.uint32))
        high, low = np.asarray(_two_words(runs)).T.astype(np.uint64)
        position = (high << np.uint64(32)) | low
        found += (position % np.uint64(candidates)).astype(int).tolist()
    return found[:number]


_DRAWN = 64
"""For how many runs candidates are drawn at a time."""

_folded = jax.jit(jax.vmap(jax.random.fold_in, in_axes=(None, 0)))
_two_words = jax.jit(jax.vmap(lambda key: jax.random.bits(key, (2,), jnp.uint32)))


def _room(rounds: int) -> int:
    """The rounds that a program has room for: 16, 64, 256, ...

    Few sizes compile few programs, and rounds beyond a recipe's own cost next to nothing.
    """
    size = 16
    while size < rounds:
        size *= 4
    return size


def _room_of(single: Sequence[Recipe], recipe: Recipe) -> int:
    """The rounds that the program of a candidate has room for."""
    kind = _static(recipe)
    return _room(max(each.capacity for each in single if _static(each) == kind))


def _hypotheses_of(
    transcript: Transcript, table: Table, recipe: Recipe, capacity: int
) -> Hypotheses:
    """The model of a transcript that has room for so many rounds."""
    room = dataclasses.replace(recipe, capacity=capacity, setting="", name="")
    return _rebuilt(transcript, boosting.without_rows(table), room)


_rebuilt = jax.jit(boosting.hypotheses_of)


class _Structure(NamedTuple):
    """What is compiled for the runs of one program.

    Attributes:
        recipe: the tree of a recipe, without leaves.
        varied: for each leaf, whether candidates differ in it.
    """

    recipe: Any
    varied: tuple[bool, ...]


def _static(recipe: Recipe) -> Any:
    """What is compiled for a recipe: its parts, without words and without room for rounds."""
    return jax.tree.structure(dataclasses.replace(recipe, capacity=2**30, setting="", name=""))


def _all_runs(
    key: Array,
    chosen: Sequence[int],
    parts: _Parts,
    single: Sequence[Recipe],
    made: Plan,
    public_key: Array | None,
) -> Iterator[_Run]:
    """The best run of each batch; all runs are in one batch.

    Candidates of one program are those with equal static parts. Runs with as many rounds are side
    by side. A batch is filled up with runs that do not count. Batches are started before earlier
    ones are done, so that they share the cores.
    """
    kinds = {kind: number for number, kind in enumerate(dict.fromkeys(map(_static, single)))}
    own = [kinds[_static(each)] for each in single]
    started: deque[tuple[Any, list[int]]] = deque()
    for kind in sorted({own[candidate] for candidate in chosen}):
        candidates = [each for each, of in zip(single, own, strict=True) if of == kind]
        leaves, structure = _stacked(candidates)
        place = {at: i for i, at in enumerate(c for c, of in enumerate(own) if of == kind)}
        program = made.program(candidates[0])
        runs = [run for run, candidate in enumerate(chosen) if own[candidate] == kind]
        runs.sort(key=lambda run: int(single[chosen[run]].rounds))
        rounds = [int(single[chosen[run]].rounds) for run in runs]
        for start, stop, lanes in batches.of_runs(rounds, parts.taught.present.shape[0]):
            batch = runs[start:stop]
            filled = batch + [batch[0]] * (lanes - len(batch))
            places = np.array([place[chosen[run]] for run in filled])
            some = [
                leaf[places] if varied else leaf
                for leaf, varied in zip(leaves, structure.varied, strict=True)
            ]
            run_keys = _folded(key, jnp.asarray(filled, jnp.uint32))
            found = _runs(run_keys, parts, some, structure, made.budget, public_key, program)
            started.append((found, [chosen[run] for run in batch]))
            if len(started) > _AHEAD:
                yield _best_of_batch(*started.popleft(), made)
    for found, candidates_of_batch in started:
        yield _best_of_batch(found, candidates_of_batch, made)


_AHEAD = 3
"""How many batches are started before an earlier one is done; each holds its transcripts."""


def _stacked(candidates: Sequence[Recipe]) -> tuple[list[np.ndarray], _Structure]:
    """The leaves of recipes of one program: one array where all agree, else one row for each."""
    capacity = _room(max(each.capacity for each in candidates))
    room = dataclasses.replace(candidates[0], capacity=capacity)
    by_leaf = zip(*(jax.tree.leaves(each) for each in candidates), strict=True)
    stacked = [np.stack(own) for own in by_leaf]
    varied = tuple(not np.all(leaf == leaf[0]) for leaf in stacked)
    leaves = [leaf if many else leaf[0] for leaf, many in zip(stacked, varied, strict=True)]
    return leaves, _Structure(jax.tree.structure(room), varied)


def _best_of_batch(found: Any, candidates: Sequence[int], made: Plan) -> _Run:
    """The best run of a batch: of its first lanes, as many as there are candidates."""
    transcripts, releases = found
    draws = jax.device_get(releases)
    values = [
        made.score.value(scores.drawn(jax.tree.map(lambda array, i=lane: array[i], draws)))
        for lane in range(len(candidates))
    ]
    best = int(np.argmax(values))
    drawn = jax.tree.map(lambda array: jnp.asarray(array[best]), draws)
    transcript = jax.tree.map(lambda array: np.asarray(array)[best], transcripts)
    return _Run(values[best], candidates[best], transcript, drawn)


def _best(runs: Iterator[_Run]) -> _Run:
    """The run of the largest score; the first of several.

    Batches come in an order of their candidates, so this is an order of outputs, and among equal
    ones of runs, which are exchangeable (docs/privacy.md).
    """
    return max(runs, key=lambda run: run.value)


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
    noise = float(made.budget.scale).hex()
    return f"{selection!r} | {made.line.mechanism.name} {noise} | {digest.hexdigest()}"


def _tags(recipe: Recipe) -> str:
    learner = recipe.learner
    once = [part.tag for part in (learner.prologue, learner.epilogue) if part is not None]
    return " | ".join([learner.tag, recipe.reweighter.tag, *once])
