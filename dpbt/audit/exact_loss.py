"""Exact audits: neighbours of a table, and the privacy loss of a recorded transcript on each.

Every neighbour is a mask over one extended table: the table's rows, then candidate rows that are
absent. So all neighbours share their splits and are one vmapped program. The audit evaluates
`boundary.compared` on the same program that made the release. They are exact formulas in
float32, so a loss is exact up to about 1e-4.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import types
from dpbt.common import programs
from dpbt.common.validate import check_whole_number
from dpbt.data import domains
from dpbt.data.domains import Domain
from dpbt.data.kinds import Target, response_of
from dpbt.data.splits import table_of_splits
from dpbt.privacy import keys
from dpbt.privacy.bounds import CONFIDENCE, Bound, RunScores, lower_bounds
from dpbt.privacy.keys import pair
from dpbt.privacy.mechanism import StepLoss
from dpbt.privacy.pricing import ledger
from dpbt.public_types import have_same_splits, redacted_repr
from dpbt.training import step
from dpbt.training.boosting import compared
from dpbt.training.fit import boost
from dpbt.training.step import check_run, check_table
from dpbt.types import AnyArray, Array, Recipe, Relation, Table, Transcript

ROUNDING = 1e-4
"""How far a loss of float32 may be above the truth, beside its own size and 1."""

MEMORY = 256 * 2**20
"""Neighbours compared side by side take about so many bytes."""


class Neighbours(NamedTuple):
    """Neighbours of a table, as masks over one extended table.

    Attributes:
        table: the extended table. Its own `present` is the audited table's, and candidates are
            absent in it.
        present: bool[B, N + C], one mask for each neighbour.
    """

    table: Table
    present: np.ndarray

    __repr__ = redacted_repr


def neighbours(
    table: Table,
    relation: str | Relation,
    candidates: tuple[np.ndarray, np.ndarray] | None = None,
    pairs: Sequence[tuple[int, int]] | None = None,
) -> Neighbours:
    """Every removal and addition (add/remove), or every replacement (replace-one).

    Args:
        table: N rows; only present ones can be removed or replaced.
        relation: the neighbouring relation.
        candidates: bins [C, F] and target [C], of the table's types, of the rows that may be
            added, or may replace a row. Without candidates there are only removals. `whole_domain`
            lists every row of a public domain. In a table of weights they have the largest.
        pairs: under replace-one, pairs of a row and the candidate that replaces it. By default
            every present row is replaced by every candidate.

    Raises:
        ValueError: if there are no neighbours (replacements without candidates, an empty table), or
            the candidates or the pairs do not fit the table.
    """
    check_table(table)
    relation = types.as_relation(relation)
    rows, features = table.bins.shape
    if candidates is None:
        candidates = np.zeros((0, features), table.bins.dtype), np.zeros(0, table.target.dtype)
    bins, labels = map(np.asarray, candidates)
    typed = bins.dtype == table.bins.dtype and labels.dtype == table.target.dtype
    if not typed or labels.ndim != 1 or bins.shape != (len(labels), features):
        raise ValueError(
            f"candidates must be {table.bins.dtype}[C, {features}] and {table.target.dtype}[C], "
            f"got {bins.dtype}{bins.shape}, {labels.shape}"
        )

    # The candidates follow the rows, and are absent.
    here, count = np.flatnonzero(np.asarray(table.present)), len(labels)
    more = {"bins": bins, "target": labels, "present": np.zeros(count, bool)}
    if table.weight is not None:
        more["weight"] = np.ones(count, np.float32)
    extended = table._replace(
        **{name: jnp.asarray(np.concatenate([getattr(table, name), more[name]])) for name in more}
    )

    if relation is types.ADD_REMOVE:
        moves = [(i,) for i in (*here, *range(rows, rows + count))]
    else:
        every = {*itertools.product(here.tolist(), range(count))}
        if not every.issuperset(pairs or ()):
            raise ValueError("pairs must hold the number of a present row and that of a candidate")
        moves = [(i, rows + j) for i, j in (sorted(every) if pairs is None else pairs)]
    if not moves:
        raise ValueError("the table has no neighbours: no present row, or no candidate")

    masks = np.repeat(np.asarray(extended.present)[None], len(moves), axis=0)
    for mask, move in zip(masks, moves, strict=True):
        mask[list(move)] ^= True
    return Neighbours(extended, masks)


def whole_domain(
    domain: Domain, limit: int = 10_000, target: Target | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Every row that a public domain admits, with every label: bins u8[C, F] and target [C].

    Args:
        domain: the public domain.
        limit: the most rows.
        target: the declared classes or range; None for two classes. Of a range both ends are
            listed, and its middle.

    Raises:
        ValueError: if there are more than `limit`, and as `domains.check_domain` and
            `kinds.response_of`.
    """
    domains.check_domain(domain)
    labels = labels_of(target)
    counts = [column.n_bins for column in domain.values()]
    rows = len(labels) * math.prod(counts)
    if rows > limit:
        raise ValueError(f"the domain admits {rows} rows, more than the limit of {limit}")
    bins = np.array(list(itertools.product(*map(range, counts))), np.uint8)
    return np.tile(bins, (len(labels), 1)), np.repeat(labels, len(bins))


def labels_of(target: Target | None) -> np.ndarray:
    """Labels that neighbours may have, as `Table.target`: all classes, or three numbers."""
    response = response_of(target)
    if response.is_number:
        return np.array([0.0, 0.5, 1.0], np.float32)
    return np.arange(response.classes).astype(response.dtype)


# Losses of recorded transcripts.


@dataclasses.dataclass(frozen=True)
class Audit:
    """The result of an audit.

    Attributes:
        claimed_epsilon: the ledger's epsilon. With a delta above 0 a transcript may, rarely, lose
            more.
        largest_loss: the largest exact |log p(transcript | table) - log p(transcript | neighbour)|.
        by_site: that loss by site, with signs: the losses of the sites add up to it.
        neighbours: how many neighbours there were.
        transcripts: how many transcripts there were.
        step_ratio: by site, the largest ratio of a step's worst-case loss over its outputs to that
            step's claim. For a recipe with a delta it is the square root of the ratio of zCDP
            costs. Empty if it was not asked for.
    """

    claimed_epsilon: float
    largest_loss: float
    by_site: dict[str, float]
    neighbours: int
    transcripts: int
    step_ratio: dict[str, float]


def audit(
    key: Array, near: Neighbours, recipe: Recipe, transcripts: int, *, steps: bool = False
) -> Audit:
    """Record transcripts on the table, and score each of them on every neighbour, exactly.

    The audit's result is a function of private rows and is not itself private.

    Args:
        key: one typed key.
        near: from `neighbours`.
        recipe: one setting; its `rows` must cover the largest neighbour.
        transcripts: how many to record, at least 1.
        steps: also find the worst case of each step over all its outputs.

    Raises:
        ValueError: if an argument is of another kind, `rows` is smaller than the largest neighbour,
            or a log density is NaN.
    """
    recorded = _record_transcripts(key, near.table, recipe, transcripts, near.present)
    claims = _claims_by_site(recipe) if steps else {}
    loss, ratios = _losses_on_host(recorded, near.table, near.table, near.present, recipe, claims)
    total = np.abs(sum(loss.values()))
    place = np.unravel_index(np.argmax(total), total.shape)
    return Audit(
        claimed_epsilon=ledger(recipe).epsilon,
        largest_loss=float(total[place]),
        by_site={site: float(values[place]) for site, values in loss.items()},
        neighbours=len(near.present),
        transcripts=transcripts,
        step_ratio={site: float(ratio) for site, ratio in ratios.items()},
    )


def exact(
    key: Array,
    near: Neighbours,
    recipe: Recipe,
    runs: int = 200,
    *,
    confidence: float = CONFIDENCE,
) -> Bound:
    """A lower bound on what a recipe spends, from exact losses on the neighbour that is worst.

    A few transcripts choose the neighbour. For a pure claim the largest loss is a certificate. With
    a delta, chances are bounded (`bounds.lower_bounds`). The result is a function of the rows, and
    is not itself private.

    Args:
        key: one typed key.
        near: from `neighbours`.
        recipe: one setting; its `rows` must cover the largest neighbour.
        runs: how many, at least 8, half of them on each of the two tables.
        confidence: in (0, 1).

    Raises:
        ValueError: as `audit`.
    """
    half = max(check_whole_number("runs", runs) // 2, 4)
    first, here, there = jax.random.split(key, 3)
    few = _record_transcripts(first, near.table, recipe, max(half // 20, 2), near.present)
    loss, _ = _losses_on_host(few, near.table, near.table, near.present, recipe, {})
    total = np.abs(sum(loss.values()))
    other = near.table._replace(present=jnp.asarray(near.present[np.argmax(total.max(axis=0))]))
    pair, losses = (near.table, other), []
    for own, (table, against) in zip((here, there), (pair, pair[::-1]), strict=True):
        ran = _record_transcripts(own, table, recipe, half, [against.present])
        mask = np.asarray(against.present)[None]
        found, _ = _losses_on_host(ran, table, against, mask, recipe, {})
        losses.append({site: values[:, 0] for site, values in found.items()})
    ours, theirs = (np.sum([*of.values()], axis=0) for of in losses)
    scores = RunScores(here=ours, there=-theirs)
    book = ledger(recipe)
    lower = lower_bounds(*scores.halves(), delta=book.delta, confidence=confidence, exact=True)
    epsilon = lower.epsilon
    if certain := book.delta == 0:
        largest = max(float(np.max(np.abs(scores))), float(total.max()))
        epsilon = max(largest - ROUNDING * (1 + largest), 0.0)
    where = max(losses[0], key=lambda site: float(np.max(np.abs(losses[0][site]))))
    claim = (book.epsilon, book.delta)
    return Bound(
        level="exact",
        claim=claim,
        epsilon=epsilon,
        mu=lower.mu,
        confidence=confidence,
        runs=2 * half,
        where=where,
        curve=lower.curve,
        certain=certain,
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
            splits or more rows than `rows`, or a log density is not a number.
    """
    for each in (table, other):
        check_run(each, recipe)
    table, other = jax.tree.map(jnp.asarray, (table, other))
    domains.check_same_domain(other.domain, table.domain, "the other table", "the table")
    ours, theirs = table.splits, other.splits
    alike = ours is theirs if ours is None or theirs is None else have_same_splits(ours, theirs)
    if table.bins.shape != other.bins.shape or not alike:
        raise ValueError("the tables must have one shape and the same splits")
    recorded = _record_transcripts(key, table, recipe, transcripts, [other.present])
    loss, _ = _losses_on_host(recorded, table, other, other.present[None], recipe, {})
    return float(np.abs(sum(loss.values())).max())


def _record_transcripts(
    key: Array, table: Table, recipe: Recipe, transcripts: int, masks: Iterable[AnyArray]
) -> Transcript:
    """R transcripts of runs on a table, after a check of all arguments.

    Raises:
        ValueError: if an argument is of another kind, or the table or one of the masks has more
            rows than the recipe is for.
    """
    keys.check(key)
    check_run(table, recipe)
    check_whole_number("transcripts", transcripts)
    if max(int(np.sum(mask)) for mask in (table.present, *masks)) > float(recipe.rows):
        raise ValueError(
            f"a table or a neighbour has more rows than the recipe is for, {float(recipe.rows):g}"
        )
    bare = step.without_domain(table), step.without_domain(recipe)
    return _releases(jax.random.split(key, transcripts), *bare)


@programs.keep_compiled()
def _releases(keys: Array, table: Table, recipe: Recipe) -> Transcript:
    """The transcripts of runs under R keys."""
    return jax.lax.map(lambda key: _release(key, table, recipe), keys)


def _release(key: Array, table: Table, recipe: Recipe) -> Transcript:
    noise_key, public_key = pair(key)
    return boost(noise_key, table, recipe, public_key).transcript


def _losses_on_host(
    transcripts: Transcript,
    table: Table,
    other: Table,
    masks: AnyArray,
    recipe: Recipe,
    claims: dict[str, np.float32],
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """`_compared` on the host, by a program that all domains share."""
    table, other = map(step.without_domain, (table, other))
    recipe = step.without_domain(recipe)
    return _as_numpy(_compared(transcripts, table, other, masks, recipe, claims))


@programs.keep_compiled()
def _compared(
    transcripts: Transcript,
    table: Table,
    other: Table,
    masks: AnyArray,
    recipe: Recipe,
    claims: dict[str, np.float32],
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Each transcript on a table, and on another with B masks.

    Args:
        transcripts: R of them.
        table: N rows.
        other: N rows.
        masks: bool[B, N]: which rows of the other table are present.
        recipe: one setting.
        claims: of the steps whose worst case is found, by site.

    Returns:
        Site -> f32[R, B]: log p(transcript | table) - log p(transcript | other). And by site the
        largest ratio of a step's loss to its claim.
    """
    # Shapes say how many masks the memory holds side by side.
    splits, withheld = table.splits, recipe.learner.traits.withheld
    sites = transcripts.rounds.items()
    leaves = [math.prod(drawn.shape[2:]) for site, drawn in sites if site not in withheld]
    width = 2 * sum(table.bins.shape) + 6 * (0 if splits is None else len(splits.feature))
    size = max(1, min(MEMORY // (4 * max([64, *leaves]) * width), len(masks)))

    def compare(transcript: Transcript) -> tuple:
        def against(mask: Array) -> tuple:
            found = compared(transcript, table, other._replace(present=mask), recipe)
            losses = {site: jnp.sum(loss) for site, (loss, _) in found.items()}
            return losses, _ratios_to_claims(found, recipe, claims)

        return jax.lax.map(against, masks, batch_size=size)

    losses, ratios = jax.lax.map(compare, transcripts)
    return losses, jax.tree.map(jnp.max, ratios)


def _claims_by_site(recipe: Recipe, sites: Iterable[str] | None = None) -> dict[str, np.float32]:
    """Site -> what the ledger claims for one step: an epsilon, or the square root of a rho.

    Raises:
        ValueError: for a site that the ledger does not have, or no site.
    """
    book, claims = ledger(recipe), {}
    for line in book.lines:
        claim = line.pays * line.epsilon if book.delta == 0 else np.sqrt(line.pays * line.rho)
        claims[line.site] = np.float32(claim)
    chosen = set(claims if sites is None else sites)
    if not chosen or chosen - set(claims):
        raise ValueError(f"sites must name sites of {sorted(claims)}, got {sorted(chosen)}")
    return {site: claim for site, claim in claims.items() if site in chosen}


def _ratios_to_claims(
    found: dict[str, tuple[Array, StepLoss]], recipe: Recipe, claims: dict[str, np.float32]
) -> dict[str, Array]:
    """Site -> f32[], the largest ratio over rounds of a step's loss to its claim.

    It is 0 where public randomness claims nothing and costs nothing.
    """

    def ratio(step: StepLoss, claim: Any) -> Array:
        cost = jnp.where(recipe.delta == 0, step.pure, jnp.sqrt(step.rho))
        return jnp.max(jnp.where(cost == 0, 0.0, cost / claim))

    return {site: ratio(found[site][1], claim) for site, claim in claims.items()}


def _as_numpy(found: Any) -> Any:
    """What was found, as arrays of NumPy.

    Raises:
        ValueError: if there is a NaN.
    """
    found = jax.tree.map(np.asarray, found)
    if any(np.isnan(each).any() for each in jax.tree.leaves(found)):
        raise ValueError("a log density is not a number; the audit cannot judge this recipe")
    return found


# The search for a table that breaks a claim.


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
        splits: S of the tables, of `splits.table_of_splits`; all bit patterns are allowed.
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
    claims = _claims_by_site(recipe, sites)
    sizes = {"rows": rows, "splits": splits, "restarts": restarts, "sweeps": sweeps}
    for name, value in sizes.items():
        check_whole_number(name, value)
    least = 1 if recipe.relation is types.ADD_REMOVE else 2
    if not least <= rows <= float(recipe.rows):
        raise ValueError(f"rows must be in {least}..{float(recipe.rows):g}, got {rows}")

    # The entries of `present` to flip; under replace-one, odd rows may come for even ones.
    flips, even = np.eye(rows, dtype=bool), np.arange(rows) % 2 == 0
    if recipe.relation is not types.ADD_REMOVE:
        flips = (flips[even][:, None] ^ flips[~even]).reshape(-1, rows)
    rng = np.random.default_rng(int(jax.random.bits(key, dtype=jnp.uint32)))

    def score(tables: Sequence[np.ndarray]) -> np.ndarray:
        return _as_numpy(_worst_steps(key, *tables, flips, claims, recipe))

    best = [
        rng.random((restarts, rows, splits)) < 0.5,
        rng.random((restarts, rows)) < rng.uniform(0.02, 0.98, (restarts, 1)),
        rng.random((restarts, rows)) < 0.8,
    ]
    if recipe.relation is not types.ADD_REMOVE:
        best[2] = np.tile(even, (restarts, 1))
    best_score = score(best)
    for _ in range(sweeps):
        proposal = [array ^ (rng.random(array.shape) < 1.5 / array[0].size) for array in best]
        if recipe.relation is not types.ADD_REMOVE:
            proposal[2] = best[2].copy()
        proposed = score(proposal)
        better = proposed > best_score
        for array, change in zip(best, proposal, strict=True):
            array[better] = change[better]
        best_score = np.where(better, proposed, best_score)

    winner = int(np.argmax(best_score))
    return float(best_score[winner]), table_of_splits(*(array[winner] for array in best))


@programs.keep_compiled()
def _worst_steps(
    key: Array,
    splits: Any,
    target: Any,
    present: Any,
    flips: Any,
    claims: dict[str, np.float32],
    recipe: Recipe,
) -> Array:
    """f32[R]: the largest ratio, over neighbours of each table, of a step's loss to its claim."""

    def worst(splits: Array, target: Array, present: Array) -> Array:
        table = table_of_splits(splits, target, present)
        release = _release(key, table, recipe)

        def against(flip: Array) -> Array:
            neighbour = table._replace(present=present ^ flip)
            found = compared(release, table, neighbour, recipe)
            return jnp.max(jnp.stack(list(_ratios_to_claims(found, recipe, claims).values())))

        return jnp.max(jax.vmap(against)(flips))

    return jax.vmap(worst)(splits, target, present)
