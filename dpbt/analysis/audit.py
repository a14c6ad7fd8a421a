"""Exact audits: neighbours of a table, and the privacy loss of a recorded transcript on each.

Every neighbour is a mask over one extended table: the table's rows, then candidate rows that are
absent. So all neighbours share their splits and are one vmapped program. The audit evaluates
`log_prob` and `divergence` of the same program that made the release. They are exact formulas in
float32, so a loss is exact up to about 1e-4.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.analysis.neighbours import Neighbours, label_flips, neighbours, whole_domain
from dpbt.base import ADD_REMOVE, AnyArray, Array, Recipe, Relation, Table, Transcript
from dpbt.data.questions import of_splits, same
from dpbt.privacy import keys
from dpbt.privacy.keys import pair
from dpbt.privacy.mechanism import StepLoss
from dpbt.privacy.pricing import ledger
from dpbt.training.boosting import boost, step_divergences, transcript_log_prob
from dpbt.training.checks import check_run
from dpbt.validate import positive, whole

__all__ = [
    "Audit",
    "Neighbours",
    "audit",
    "label_flips",
    "neighbours",
    "pair_loss",
    "search",
    "whole_domain",
]


@dataclasses.dataclass(frozen=True)
class Audit:
    """The result of an audit.

    Attributes:
        claimed_epsilon: the ledger's epsilon. With a delta above 0 a transcript may, rarely, lose
            more.
        largest_loss: the largest exact |log p(transcript | table) - log p(transcript | neighbour)|.
        by_site: that loss by site, with signs: the losses of the sites add up to it.
        by_mechanism: the same by mechanism.
        neighbours: how many neighbours there were.
        transcripts: how many transcripts there were.
        worst: (transcript, neighbour) of the largest loss.
        step_ratio: by site, the largest ratio of a step's worst-case loss over its outputs to that
            step's claim. For a recipe with a delta it is the square root of the ratio of zCDP
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


_MASKS = Table(cells=None, target=None, present=0)  # type: ignore[arg-type]
"""The axes of neighbours that are masks over one table."""


@functools.partial(jax.jit, static_argnames=("axes", "steps"))
def _compared(
    transcripts: Transcript, table: Table, others: Table, recipe: Recipe, axes: Any, steps: bool
) -> tuple[dict[str, Array], dict[str, Array], dict[str, StepLoss]]:
    """Each transcript on a table and on B others.

    Args:
        transcripts: R of them.
        table: N rows.
        others: tables of as many rows.
        recipe: one setting.
        axes: of the others, as `jax.vmap` takes them.
        steps: whether to find the worst case of steps.

    Returns:
        By site: the log densities of each round on the table, f32[R, T], and on the others,
        f32[R, B, T]. Also the worst StepLoss of f32[] over rounds, transcripts and others.
    """

    def compare(transcript: Transcript) -> tuple:
        def against(other: Table) -> tuple:
            worst = step_divergences(transcript, table, other, recipe) if steps else {}
            return transcript_log_prob(transcript, other, recipe), worst

        there, worst = jax.vmap(against, in_axes=(axes,))(others)
        return transcript_log_prob(transcript, table, recipe), there, jax.tree.map(jnp.max, worst)

    here, there, worst = jax.lax.map(compare, transcripts)
    return here, there, jax.tree.map(jnp.max, worst)


def _losses(here: dict[str, Array], there: dict[str, Array]) -> dict[str, np.ndarray]:
    """Site -> f64[R, B]: log p(transcript | table) - log p(transcript | other).

    Raises:
        ValueError: if one is not a number.
    """
    found = {}
    for site in here:
        on_table, on_others = (np.asarray(each[site], np.float64) for each in (here, there))
        loss = on_table[:, None] - on_others
        found[site] = loss.sum(axis=tuple(range(2, loss.ndim)))  # a prologue has no rounds
    _check_numbers(list(found.values()))
    return found


def _check_numbers(found: Any) -> None:
    """Check that there is no NaN among what was found.

    Raises:
        ValueError: if there is one.
    """
    if np.isnan(np.asarray(found, np.float64)).any():
        raise ValueError("a log density is not a number; the audit cannot judge this recipe")


def _check_bound(recipe: Recipe, masks: Iterable[AnyArray]) -> None:
    """Check that the recipe is for as many rows as there are in each table.

    Raises:
        ValueError: if it is not.
    """
    if max(int(np.sum(mask)) for mask in masks) > float(recipe.rows):
        raise ValueError(
            f"a table or a neighbour has more rows than the recipe is for, {float(recipe.rows):g}"
        )


def _step_claims(recipe: Recipe) -> dict[str, float]:
    """Site -> what the ledger claims for one step: an epsilon, or the square root of a rho."""
    book = ledger(recipe)
    if book.delta == 0:
        return {line.site: line.pays * line.epsilon for line in book.lines}
    return {line.site: float(np.sqrt(line.pays * line.rho)) for line in book.lines}


def _ratio(step: StepLoss, claim: np.float32 | float, recipe: Recipe) -> Array:
    """A step's loss, an epsilon or the square root of a rho, by its claim.

    It is 0 where public randomness claims nothing and costs nothing.
    """
    cost = jnp.where(jnp.asarray(recipe.delta) == 0, step.pure, jnp.sqrt(step.rho))
    return jnp.where(cost == 0, 0.0, cost / claim)


def _batches(near: Neighbours, recipe: Recipe, memory_mb: float) -> list[np.ndarray]:
    """Masks in equal batches that fit the memory budget; the last is filled up with a mask."""
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
    return np.split(np.concatenate([masks, filling]), count)


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
        recipe: one setting; its `rows` must cover the largest neighbour.
        transcripts: how many to record, at least 1.
        steps: also find the worst case of each step over all its outputs.
        memory_mb: how much memory a batch of neighbours may take, above 0.

    Raises:
        ValueError: if an argument is of another kind, `rows` is smaller than the largest neighbour,
            or a log density is NaN.
    """
    keys.check(key)
    if not isinstance(near, Neighbours):
        raise ValueError(
            f"near must be Neighbours, as audit.neighbours makes them, got {type(near).__name__}"
        )
    check_run(near.table, recipe)
    whole("transcripts", transcripts)
    positive("memory_mb", memory_mb)
    _check_bound(recipe, [near.table.present, *near.present])

    # Record, then score every transcript on every neighbour.
    recorded = _releases(jax.random.split(key, transcripts), near.table, recipe)
    claims = _step_claims(recipe)
    losses, ratios = [], dict.fromkeys(claims, 0.0) if steps else {}
    for masks in _batches(near, recipe, memory_mb):
        others = near.table._replace(present=jnp.asarray(masks))
        *densities, worst = _compared(recorded, near.table, others, recipe, _MASKS, steps)
        losses.append(_losses(*densities))
        for site, step in worst.items():
            ratio = _ratio(step, claims[site], recipe)
            ratios[site] = float(np.maximum(ratios[site], ratio))
    _check_numbers(list(ratios.values()))
    count = len(near.present)
    loss = {s: np.concatenate([part[s] for part in losses], axis=1)[:, :count] for s in losses[0]}

    # The largest loss, and what it is made of.
    total = np.abs(sum(loss.values()))
    worst = np.unravel_index(int(np.argmax(total)), total.shape)
    book = ledger(recipe)
    by_site = {site: float(values[worst]) for site, values in loss.items()}
    names = {line.site: line.mechanism for line in book.lines}
    by_mechanism: dict[str, float] = {}
    for site, value in by_site.items():
        by_mechanism[names[site]] = by_mechanism.get(names[site], 0.0) + value
    return Audit(
        claimed_epsilon=book.epsilon,
        largest_loss=float(total[worst]),
        by_site=by_site,
        by_mechanism=by_mechanism,
        neighbours=count,
        transcripts=transcripts,
        worst=(int(worst[0]), int(worst[1])),
        step_ratio=ratios,
    )


def pair_loss(key: Array, table: Table, other: Table, recipe: Recipe, transcripts: int) -> float:
    """The largest exact |log p(transcript | table) - log p(transcript | other)|, over transcripts.

    The neighbours of `audit` share all rows but one by construction. The two tables here may come
    from two files that were read and encoded separately, so that reading and encoding are audited
    too. The result is a function of private rows and is not itself private.

    Args:
        key: one typed key.
        table: N rows, on which the transcripts are recorded.
        other: N rows, in the same order as in `table`. A row that it lacks leaves an absent row.
        recipe: one setting; its `rows` must cover both tables.
        transcripts: how many to record, at least 1.

    Raises:
        ValueError: if an argument is of another kind, the tables have different shapes or
            questions or more rows than `rows`, or a log density is not a number.
    """
    keys.check(key)
    for each in (table, other):
        check_run(each, recipe)
    whole("transcripts", transcripts)
    table, other = jax.tree.map(jnp.asarray, (table, other))
    if table.cells.shape != other.cells.shape:
        raise ValueError("the tables must have one shape")
    ours, theirs = table.questions, other.questions
    alike = ours is theirs if ours is None or theirs is None else same(ours, theirs)
    if not alike:
        raise ValueError("the tables must have the same questions")
    _check_bound(recipe, [table.present, other.present])
    releases = _releases(jax.random.split(key, transcripts), table, recipe)
    others = jax.tree.map(lambda rows: rows[None], other)
    here, there, _ = _compared(releases, table, others, recipe, 0, False)
    return float(np.abs(sum(_losses(here, there).values())).max())


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
            ratios = [_ratio(by_site[site], claims[site], recipe) for site in sorted(claims)]
            return jnp.max(jnp.stack(list(map(jnp.max, ratios))))

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

    Each step of a table has a ratio: its worst-case loss over its outputs, divided by the ledger's
    claim. The score of a table is the largest ratio over neighbours, rounds and sites. Above 1, the
    claim is false. Neighbours are all single flips of presence (add/remove), or one flip off and
    one on (replace-one).

    Args:
        key: one typed key.
        recipe: one setting; its own `rows` must be at least `rows`.
        rows: N of the tables, at least 1, or 2 under replace-one. Rows come and go, so the number
            of present ones varies up to N.
        splits: S of the tables, of `questions.of_splits`; all bit patterns are allowed.
        restarts: how many tables are improved side by side.
        sweeps: how many rounds of moves; each proposes one change of a few bits to every table.
        sites: the sites to evaluate; all by default. A site that attains its claim on any table
            hides the others.

    Raises:
        ValueError: for a number outside its range, a site that the ledger does not have, or a
            divergence that is not a number.

    Returns:
        The largest ratio found, and its table.
    """
    keys.check(key)
    claims = _judged(recipe, sites)
    sizes = {"rows": rows, "splits": splits, "restarts": restarts, "sweeps": sweeps}
    for name, value in sizes.items():
        whole(name, value)
    least = 1 if recipe.relation is ADD_REMOVE else 2
    if not least <= rows <= float(recipe.rows):
        raise ValueError(f"rows must be in {least}..{float(recipe.rows):g}, got {rows}")

    masks = jnp.asarray(_flips(rows, recipe.relation))
    rng = np.random.default_rng(int(jax.random.bits(key, dtype=jnp.uint32)))

    def score(tables: Sequence[np.ndarray]) -> np.ndarray:
        arrays = (jnp.asarray(array) for array in tables)
        ratios = np.asarray(_worst_steps(key, *arrays, masks, claims, recipe))
        _check_numbers(ratios)
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
        ValueError: for a site that the ledger does not have, or no site.
    """
    claims = _step_claims(recipe)
    if sites is not None and not sites:
        raise ValueError(f"sites must name a site of {sorted(claims)}, or be None for all")
    if unknown := set(sites or ()) - set(claims):
        raise ValueError(f"the ledger has no sites {sorted(unknown)}; it has {sorted(claims)}")
    chosen = claims if sites is None else sites
    return {site: np.float32(claim) for site, claim in claims.items() if site in chosen}


def _flips(rows: int, relation: Relation) -> np.ndarray:
    """bool[B, N]: the entries of `present` to flip for each neighbour.

    Under replace-one, even rows are in the table and odd rows may replace them.
    """
    eye, even = np.eye(rows, dtype=bool), np.arange(rows) % 2 == 0
    if relation is ADD_REMOVE:
        return eye
    pairs = itertools.product(np.flatnonzero(even), np.flatnonzero(~even))
    return np.array([eye[i] ^ eye[j] for i, j in pairs])


def _valid(present: np.ndarray, relation: Relation) -> np.ndarray:
    """bool[..., N]: the masks, made such that `_flips` turns them into masks of neighbours."""
    if relation is ADD_REMOVE:
        return present
    even = np.arange(present.shape[-1]) % 2 == 0
    return np.broadcast_to(even, present.shape).copy()
