"""Exact audits: neighbours of a table, and what a recorded transcript would have cost on each.

Every neighbour is a mask over one extended table: the table's rows, then candidate rows that are
absent. So all neighbours share their splits and are one vmapped program. What is audited is
`log_prob` and `divergence` of the very program that released; they are exact formulas in float32,
so a loss is exact up to about 1e-4.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import ADD_REMOVE, REPLACE_ONE, Array, Recipe, Relation, Table, Transcript
from dpbt.boosting import boost, step_divergences, transcript_log_prob
from dpbt.data.domains import Domain
from dpbt.data.questions import of_splits, same
from dpbt.privacy.keys import pair
from dpbt.privacy.mechanism import StepLoss
from dpbt.privacy.pricing import ledger


class Neighbours(NamedTuple):
    """Neighbours of a table, as masks over one extended table.

    Attributes:
        table: the extended table; its own `present` is the audited table's, candidates being
            absent.
        present: bool[B, N + C], one mask for each neighbour.
    """

    table: Table
    present: np.ndarray


def neighbours(
    table: Table,
    relation: Relation,
    candidates: tuple[np.ndarray, np.ndarray] | None = None,
    pairs: Sequence[tuple[int, int]] | None = None,
) -> Neighbours:
    """Every removal and addition (add/remove), or every replacement (replace-one).

    Args:
        table: N rows; only present ones can be removed or replaced.
        relation: the neighbouring relation.
        candidates: cells [C, F], of the table's type, and target bool[C] of the rows that may be
            added or come in; None for none, which leaves the removals. `public_rows` lists a whole
            public domain.
        pairs: under replace-one, which row goes out for which candidate; every row for every
            candidate by default.

    Raises:
        ValueError: if there are no neighbours (replacements without candidates, an empty table), or
            the candidates do not fit the table.
    """
    rows, features = table.cells.shape
    if candidates is None:
        candidates = np.zeros((0, features), table.cells.dtype), np.zeros(0, bool)
    extended = _extended(table, *candidates)
    here, count = np.flatnonzero(np.asarray(table.present)), len(candidates[0])

    if relation is ADD_REMOVE:
        moves = [(i,) for i in (*here, *range(rows, rows + count))]
    elif relation is REPLACE_ONE:
        chosen = itertools.product(here, range(count)) if pairs is None else pairs
        moves = [(i, rows + j) for i, j in chosen]
    else:
        raise ValueError(f"no neighbours are defined under {relation!r}")
    if not moves:
        raise ValueError(
            "the table has no neighbours: no present row, or no candidate to put in its place"
        )

    masks = np.repeat(np.asarray(extended.present)[None], len(moves), axis=0)
    for mask, move in zip(masks, moves, strict=True):
        mask[list(move)] ^= True
    return Neighbours(extended, masks)


def _extended(table: Table, candidates: np.ndarray, labels: np.ndarray) -> Table:
    """The table with candidate rows that are absent.

    Raises:
        ValueError: if the candidates do not fit the table.
    """
    cells, target, present = (np.asarray(array) for array in table[:3])
    features = cells.shape[1]
    fits = candidates.ndim == 2 and candidates.shape[1] == features
    if not fits or candidates.dtype != cells.dtype or labels.shape != (len(candidates),):
        raise ValueError(
            f"candidates must be {cells.dtype}[C, {features}] and bool[C], "
            f"got {candidates.dtype}{candidates.shape}, {labels.shape}"
        )
    return Table(
        jnp.asarray(np.concatenate([cells, candidates])),
        jnp.asarray(np.concatenate([target, labels])),
        jnp.asarray(np.concatenate([present, np.zeros(len(candidates), bool)])),
        table.questions,
    )


def public_rows(domain: Domain, limit: int = 10_000) -> tuple[np.ndarray, np.ndarray]:
    """Every row that a public domain admits, with either label: cells u8[C, F], target bool[C].

    Raises:
        ValueError: if there are more than `limit`.
    """
    counts = [column.cells for column in domain.values()]
    rows = 2 * math.prod(counts)
    if rows > limit:
        raise ValueError(f"the domain admits {rows} rows, more than the limit of {limit}")
    cells = np.array(list(itertools.product(*map(range, counts))), np.uint8)
    return np.concatenate([cells, cells]), np.repeat([False, True], len(cells))


def label_flips(table: Table) -> Neighbours:
    """The replacements of each present row by itself with the opposite label; of any domain."""
    here = np.flatnonzero(np.asarray(table.present))
    candidates = np.asarray(table.cells)[here], ~np.asarray(table.target)[here]
    return neighbours(table, REPLACE_ONE, candidates, [(int(i), j) for j, i in enumerate(here)])


@dataclasses.dataclass(frozen=True)
class Audit:
    """The result of an audit.

    Attributes:
        claimed_epsilon: the ledger's epsilon; with a delta above 0 a transcript may, rarely, lose
            more.
        largest_loss: the largest exact |log p(transcript | table) - log p(transcript | neighbour)|.
        by_site: that loss, site by site (signed, as they add up to it).
        by_mechanism: the same by mechanism.
        neighbours, transcripts: how many of each.
        worst: (transcript, neighbour) where it is attained.
        step_ratio: by site, the largest worst-case loss of one step over its outputs, divided by
            that step's claim; for a recipe with a delta, the square root of that ratio of zCDP
            costs. Empty if it was not asked for.
    """

    claimed_epsilon: float
    largest_loss: float
    by_site: dict[str, float]
    by_mechanism: dict[str, float]
    neighbours: int
    transcripts: int
    worst: tuple[int, int]
    step_ratio: dict[str, float]


@jax.jit
def _releases(keys: Array, table: Table, recipe: Recipe) -> Transcript:
    """The transcripts of runs under R keys."""

    def record(key: Array) -> Transcript:
        noise_key, public_key = pair(key)
        return boost(noise_key, table, recipe, public_key).transcript

    return jax.lax.map(record, keys)


SiteArrays = dict[str, Array]
"""Site -> array."""


@jax.jit
def _log_probs(
    transcripts: Transcript, near: Neighbours, recipe: Recipe
) -> tuple[SiteArrays, SiteArrays]:
    """Log densities of each round: f32[R, T] on the table, and f32[R, B, T] on each neighbour."""

    def log_prob(transcript: Transcript, present: Array) -> SiteArrays:
        return transcript_log_prob(transcript, near.table._replace(present=present), recipe)

    def on_all(transcript: Transcript) -> tuple[SiteArrays, SiteArrays]:
        on_neighbours = jax.vmap(lambda present: log_prob(transcript, present))
        return log_prob(transcript, near.table.present), on_neighbours(jnp.asarray(near.present))

    return jax.lax.map(on_all, transcripts)


@jax.jit
def _divergences(transcripts: Transcript, near: Neighbours, recipe: Recipe) -> dict[str, StepLoss]:
    """Site -> StepLoss of f32[]: of one step, over rounds, transcripts and neighbours."""

    def worst(transcript: Transcript) -> dict[str, StepLoss]:
        def against(present: Array) -> dict[str, StepLoss]:
            neighbour = near.table._replace(present=present)
            return step_divergences(transcript, near.table, neighbour, recipe)

        return jax.tree.map(jnp.max, jax.vmap(against)(jnp.asarray(near.present)))

    return jax.tree.map(jnp.max, jax.lax.map(worst, transcripts))


def _step_claims(recipe: Recipe) -> dict[str, float]:
    """Site -> what the ledger claims for one step: an epsilon, or the square root of a rho."""
    book = ledger(recipe)
    if book.delta == 0:
        return {line.site: line.event.count * line.epsilon for line in book.lines}
    return {line.site: float(np.sqrt(line.event.count * line.rho)) for line in book.lines}


def _step_cost(step: StepLoss, recipe: Recipe) -> Array:
    """The step's loss, as an epsilon or the square root of a rho, as `_step_claims` has it."""
    return jnp.where(jnp.asarray(recipe.delta) == 0, step.pure, jnp.sqrt(step.rho))


def _ratio(cost: Array, claim: Array | np.float32 | float) -> Array:
    """Cost / claim; 0 where public randomness claims nothing and costs nothing."""
    return jnp.where(cost == 0, 0.0, cost / claim)


def _over_rounds(loss: np.ndarray) -> np.ndarray:
    """f[R, B]: the sum over rounds of f[R, B, T]; a prologue's f[R, B] has none."""
    return loss if loss.ndim == 2 else np.sum(loss, axis=-1)


def _batches(near: Neighbours, recipe: Recipe, memory_mb: float) -> list[Neighbours]:
    """Neighbours in equal batches that fit the memory budget; the last is filled up with a mask."""
    rows, features = near.table.cells.shape
    questions = near.table.questions
    splits = features if questions is None else len(questions.feature)
    key = jax.random.key(0)
    hypotheses = jax.eval_shape(boost, key, near.table, recipe, key)[1]
    leaves = max(array.shape[-1] for array in hypotheses)  # of a tree; coefficients of a halfspace
    mask_bytes = 4 * leaves * (2 * rows + 6 * splits)

    masks = near.present
    size = int(np.clip(memory_mb * 2**20 / mask_bytes, 1, len(masks)))
    count = -(-len(masks) // size)
    size = -(-len(masks) // count)
    filling = np.repeat(masks[:1], count * size - len(masks), axis=0)
    parts = np.split(np.concatenate([masks, filling]), count)
    return [near._replace(present=part) for part in parts]


def audit(
    key: Array,
    near: Neighbours,
    recipe: Recipe,
    transcripts: int,
    *,
    steps: bool = False,
    memory_mb: float = 512,
) -> Audit:
    """Record transcripts on the table, and score each of them on every neighbour, exactly.

    The audit's result is a function of private rows and is not itself private.

    Args:
        key: one typed key.
        near: from `neighbours`.
        recipe: one setting; its `rows` must cover the larger of the neighbours.
        transcripts: how many to record.
        steps: also find the worst case of each step over all its outputs.
        memory_mb: how much memory a batch of neighbours may take.

    Raises:
        ValueError: if `rows` is smaller than the largest neighbour, or a log density is NaN.
    """
    largest = int(np.max(near.present.sum(axis=1)))
    if max(largest, int(near.table.present.sum())) > float(recipe.rows):
        bound = float(recipe.rows)
        raise ValueError(f"the largest neighbour has more rows than the recipe is for, {bound:g}")
    recorded = _releases(jax.random.split(key, transcripts), near.table, recipe)
    batches = _batches(near, recipe, memory_mb)

    loss = _losses(recorded, batches, recipe, len(near.present))
    ratios = _step_ratios(recorded, batches, recipe) if steps else {}
    total = np.abs(sum(loss.values()))
    if np.isnan(total).any() or np.isnan(list(ratios.values())).any():
        raise ValueError("a log density is not a number; the audit cannot judge this recipe")

    worst = tuple(int(i) for i in np.unravel_index(int(np.argmax(total)), total.shape))
    book = ledger(recipe)
    by_site = {site: float(values[worst]) for site, values in loss.items()}
    names = {line.site: line.mechanism.name for line in book.lines}
    by_mechanism: dict[str, float] = {}
    for site, value in by_site.items():
        by_mechanism[names[site]] = by_mechanism.get(names[site], 0.0) + value
    return Audit(
        claimed_epsilon=book.epsilon,
        largest_loss=float(total[worst]),
        by_site=by_site,
        by_mechanism=by_mechanism,
        neighbours=len(near.present),
        transcripts=transcripts,
        worst=(worst[0], worst[1]),
        step_ratio=ratios,
    )


def _losses(
    transcripts: Transcript, batches: Sequence[Neighbours], recipe: Recipe, count: int
) -> dict[str, np.ndarray]:
    """Site -> f64[R, B]: log p(transcript | table) - log p(transcript | neighbour), of `count`."""
    parts: list[dict[str, np.ndarray]] = []
    for batch in batches:
        here, there = jax.tree.map(
            lambda array: np.asarray(array, np.float64), _log_probs(transcripts, batch, recipe)
        )
        parts.append({site: _over_rounds(here[site][:, None] - there[site]) for site in here})
    return {
        site: np.concatenate([part[site] for part in parts], axis=1)[:, :count] for site in parts[0]
    }


def _step_ratios(
    transcripts: Transcript, batches: Sequence[Neighbours], recipe: Recipe
) -> dict[str, float]:
    """Site -> the largest worst-case loss of a step, divided by its claim."""
    claims = _step_claims(recipe)
    largest: dict[str, float] = {}
    for batch in batches:
        for site, step in _divergences(transcripts, batch, recipe).items():
            ratio = _ratio(_step_cost(step, recipe), claims[site])
            largest[site] = float(np.maximum(largest.get(site, 0.0), ratio))
    return largest


def _same_questions(table: Table, other: Table) -> bool:
    """Whether two tables have the same questions, or both none."""
    if table.questions is None or other.questions is None:
        return table.questions is other.questions
    return same(table.questions, other.questions)


@jax.jit
def _table_log_prob(releases: Transcript, table: Table, recipe: Recipe) -> Array:
    """f32[R]: log density of each transcript on one table."""

    def log_prob(release: Transcript) -> Array:
        by_site = transcript_log_prob(release, table, recipe)
        return jnp.sum(jnp.stack([jnp.sum(by_site[site]) for site in sorted(by_site)]))

    return jax.lax.map(log_prob, releases)


def pair_loss(key: Array, table: Table, other: Table, recipe: Recipe, transcripts: int) -> float:
    """The largest exact |log p(transcript | table) - log p(transcript | other)|, over transcripts.

    `audit` takes neighbours that share all rows but one by construction. The two tables here are
    taken as they come, such as from two files that were read and encoded each by itself, so that
    reading and encoding are audited too. The result is a function of private rows and is not itself
    private.

    Args:
        key: one typed key.
        table: N rows, on which the transcripts are recorded.
        other: N rows, in the same order as in `table`. A row that it lacks leaves an absent row.
        recipe: one setting; its `rows` must cover both tables.
        transcripts: how many to record.

    Raises:
        ValueError: if the tables have other shapes or questions, have more rows than `rows`, or a
            log density is not a number.
    """
    table, other = jax.tree.map(jnp.asarray, table), jax.tree.map(jnp.asarray, other)
    if table.cells.shape != other.cells.shape:
        raise ValueError("the tables must have one shape")
    if not _same_questions(table, other):
        raise ValueError("the tables must have the same questions")
    if max(int(table.present.sum()), int(other.present.sum())) > float(recipe.rows):
        raise ValueError(f"a table has more rows than the recipe's {float(recipe.rows):g}")
    releases = _releases(jax.random.split(key, transcripts), table, recipe)
    here, there = (_table_log_prob(releases, rows, recipe) for rows in (table, other))
    loss = np.abs(np.asarray(here, np.float64) - np.asarray(there, np.float64))
    if np.isnan(loss).any():
        raise ValueError("a log density is not a number; the audit cannot judge this recipe")
    return float(loss.max())


@jax.jit
def _worst_steps(
    key: Array,
    splits: Array,
    target: Array,
    present: Array,
    masks: Array,
    claims: dict[str, np.float32],
    recipe: Recipe,
) -> Array:
    """f32[R]: the largest ratio, over neighbours of each table, of a step's loss to its claim."""

    def worst(splits: Array, target: Array, present: Array) -> Array:
        table = of_splits(splits, target, present)
        noise_key, public_key = pair(key)
        release = boost(noise_key, table, recipe, public_key).transcript

        def against(flip: Array) -> Array:
            neighbour = table._replace(present=present ^ flip)
            by_site = step_divergences(release, table, neighbour, recipe)
            cost = {site: jnp.max(_step_cost(by_site[site], recipe)) for site in claims}
            return jnp.max(jnp.stack([_ratio(cost[site], claims[site]) for site in sorted(claims)]))

        return jnp.max(jax.vmap(against)(masks))

    return jax.vmap(worst)(splits, target, present)


def search(
    key: Array,
    recipe: Recipe,
    *,
    rows: int,
    splits: int,
    restarts: int = 16,
    sweeps: int = 60,
    sites: Sequence[str] | None = None,
) -> tuple[float, Table]:
    """Try to break a claim: improve random small tables by moves, against all their neighbours.

    The score of a table is the largest, over neighbours, rounds and sites, of a step's worst-case
    loss over its outputs divided by what the ledger claims for that step. Above 1, the claim is
    false. Neighbours are all single flips of presence (add/remove), or one flip off and one on
    (replace-one).

    Args:
        key: one typed key.
        recipe: one setting; `rows` of its budget at least `rows`.
        rows: N of the tables; rows come and go, so sizes vary up to N.
        splits: S of the tables, of `questions.of_splits`; all bit patterns are allowed.
        restarts: tables improved side by side.
        sweeps: how many rounds of moves; each proposes one change of a few bits to every table.
        sites: judge these sites only; all by default. A site that attains its claim on any table
            hides the others.

    Raises:
        ValueError: for a site that the ledger does not have, or a divergence that is not a number.

    Returns:
        The largest ratio found, and its table.
    """
    claims = _judged(recipe, sites)
    masks = jnp.asarray(_flips(rows, recipe.relation))
    rng = np.random.default_rng(int(jax.random.bits(key)))

    def score(tables: Sequence[np.ndarray]) -> np.ndarray:
        arrays = (jnp.asarray(array) for array in tables)
        ratios = np.asarray(_worst_steps(key, *arrays, masks, claims, recipe))
        if np.isnan(ratios).any():
            raise ValueError("a worst case is not a number; the search cannot judge this recipe")
        return ratios

    best = [
        rng.random((restarts, rows, splits)) < 0.5,
        rng.random((restarts, rows)) < rng.uniform(0.02, 0.98, (restarts, 1)),
        _valid(rng.random((restarts, rows)) < 0.8, recipe.relation),
    ]
    best_score = score(best)
    for _ in range(sweeps):
        proposal = [array ^ (rng.random(array.shape) < 1.5 / array[0].size) for array in best]
        proposal[2] = _valid(proposal[2], recipe.relation)
        proposed = score(proposal)
        better = proposed > best_score
        for array, change in zip(best, proposal, strict=True):
            array[better] = change[better]
        best_score = np.where(better, proposed, best_score)

    winner = int(np.argmax(best_score))
    return float(best_score[winner]), of_splits(*(array[winner] for array in best))


def _judged(recipe: Recipe, sites: Sequence[str] | None) -> dict[str, np.float32]:
    """Site -> the claim of one step, for the given sites, or for all.

    Raises:
        ValueError: for a site that the ledger does not have.
    """
    claims = _step_claims(recipe)
    if unknown := set(sites or ()) - set(claims):
        raise ValueError(f"the ledger has no sites {sorted(unknown)}; it has {sorted(claims)}")
    chosen = claims if sites is None else sites
    return {site: np.float32(claim) for site, claim in claims.items() if site in chosen}


def _flips(rows: int, relation: Relation) -> np.ndarray:
    """bool[B, N]: what to flip of `present` for each neighbour.

    Under replace-one, even rows are in the table and odd ones are what may come in.
    """
    eye, even = np.eye(rows, dtype=bool), np.arange(rows) % 2 == 0
    if relation is ADD_REMOVE:
        return eye
    pairs = itertools.product(np.flatnonzero(even), np.flatnonzero(~even))
    return np.array([eye[i] ^ eye[j] for i, j in pairs])


def _valid(present: np.ndarray, relation: Relation) -> np.ndarray:
    """bool[..., N]: masks that `_flips` turns into those of neighbours."""
    if relation is ADD_REMOVE:
        return present
    even = np.arange(present.shape[-1]) % 2 == 0
    return np.broadcast_to(even, present.shape).copy()
