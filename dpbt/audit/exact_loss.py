"""Exact audits: neighbours of a table, and the privacy loss of a recorded transcript on each.

Every neighbour is a mask over one extended table: the table's rows, then candidate rows that are
absent. So all neighbours share their splits and are one vmapped program. The audit evaluates
`program_interpreters.compare_views` on the same program that drew the release. Log densities are
exact formulas in float32, so a loss is exact up to about 1e-4.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float32

from dpbt import types
from dpbt.common import compilation
from dpbt.common.validate import check_positive_integer
from dpbt.data import domains
from dpbt.data.domains import Domain
from dpbt.data.kinds import Target, response_of_target
from dpbt.data.splits import table_of_splits
from dpbt.privacy import keys
from dpbt.privacy.audit_bounds import CONFIDENCE, Bound, RunScores, epsilon_and_mu_lower_bounds
from dpbt.privacy.keys import pair
from dpbt.privacy.mechanism_types import WorstCaseLoss
from dpbt.privacy.program_interpreters import DrawComparison
from dpbt.privacy.recipe_ledger import ledger
from dpbt.public_types import have_same_splits, redacted_repr
from dpbt.training.boost import boost
from dpbt.training.checks import check_run, check_table
from dpbt.training.replay import log_ratios_by_site
from dpbt.training.table_entry import without_domain
from dpbt.types import AnyArray, Array, Recipe, Relation, Table, Transcript

ROUNDING = 1e-4
"""A loss L in float32 may be above the truth by `ROUNDING` (1 + L)."""

MEMORY_BYTES = 256 * 2**20
"""About how much memory the neighbours take that are compared side by side."""


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
            lists every row of a public domain. In a table of weights candidates have the largest
            weight.
        pairs: under replace-one, pairs of a row and the candidate that replaces it. By default
            every present row is replaced by every candidate.

    Raises:
        ValueError: if there are no neighbours (replacements without candidates, an empty table), or
            the candidates or the pairs do not fit the table.
    """
    check_table(table)
    relation = types.as_relation(relation)
    num_rows, features = table.bins.shape
    if candidates is None:
        candidates = np.zeros((0, features), table.bins.dtype), np.zeros(0, table.target.dtype)
    bins, labels = map(np.asarray, candidates)
    has_types = bins.dtype == table.bins.dtype and labels.dtype == table.target.dtype
    if not has_types or labels.ndim != 1 or bins.shape != (len(labels), features):
        raise ValueError(
            f"candidates must be {table.bins.dtype}[C, {features}] and {table.target.dtype}[C], "
            f"got {bins.dtype}{bins.shape}, {labels.shape}"
        )
    extended = _append_rows_marked_absent(table, bins, labels)

    # The rows whose presence differs, of each neighbour.
    present_rows, num_candidates = np.flatnonzero(np.asarray(table.present)), len(labels)
    if relation is types.ADD_REMOVE:
        flips = [(i,) for i in (*present_rows, *range(num_rows, num_rows + num_candidates))]
    else:
        replacements = {*itertools.product(present_rows.tolist(), range(num_candidates))}
        if not replacements.issuperset(pairs or ()):
            raise ValueError("pairs must hold the number of a present row and that of a candidate")
        index_pairs = sorted(replacements) if pairs is None else pairs
        flips = [(i, num_rows + j) for i, j in index_pairs]
    if not flips:
        raise ValueError("the table has no neighbours: no present row, or no candidate")

    masks = np.repeat(np.asarray(extended.present)[None], len(flips), axis=0)
    for mask, flipped_rows in zip(masks, flips, strict=True):
        mask[list(flipped_rows)] ^= True
    return Neighbours(table=extended, present=masks)


def _append_rows_marked_absent(table: Table, bins: np.ndarray, labels: np.ndarray) -> Table:
    """The table with more rows that are absent, of the largest weight if it has weights."""
    num_rows = len(labels)
    added = {"bins": bins, "target": labels, "present": np.zeros(num_rows, bool)}
    if table.weight is not None:
        added["weight"] = np.ones(num_rows, np.float32)
    columns = {
        name: jnp.asarray(np.concatenate([getattr(table, name), added[name]])) for name in added
    }
    return table._replace(**columns)


class DomainRows(NamedTuple):
    """Rows of a domain.

    Attributes:
        bins: u8[C, F].
        target: [C], as `Table.target`.
    """

    bins: np.ndarray
    target: np.ndarray


def whole_domain(domain: Domain, limit: int = 10_000, target: Target | None = None) -> DomainRows:
    """Every row that a public domain admits, with every label: bins u8[C, F] and target [C].

    Args:
        domain: the public domain.
        limit: the largest number of rows.
        target: the declared classes or range; None for two classes. Of a range both ends are
            listed, and its middle.

    Raises:
        ValueError: if there are more than `limit`, and as `domains.check_domain` and
            `kinds.response_of_target`.
    """
    domains.check_domain(domain)
    labels = labels_of_target(target)
    counts = [column.n_bins for column in domain.values()]
    rows = len(labels) * math.prod(counts)
    if rows > limit:
        raise ValueError(f"the domain admits {rows} rows, more than the limit of {limit}")
    bins = np.array(list(itertools.product(*map(range, counts))), np.uint8)
    return DomainRows(bins=np.tile(bins, (len(labels), 1)), target=np.repeat(labels, len(bins)))


def labels_of_target(target: Target | None) -> np.ndarray:
    """Labels that neighbours may have, as `Table.target`: all classes, or three numbers."""
    response = response_of_target(target)
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
            costs. Empty unless the audit was called with `steps`.
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
        steps: whether to compute the worst case of each step over all its outputs, too.

    Raises:
        ValueError: if an argument is of another kind, `rows` is smaller than the largest neighbour,
            or a log density is NaN.
    """
    recorded = _record_transcripts(key, near.table, recipe, transcripts, near.present)
    claims = _claims_by_site(recipe) if steps else {}
    losses = _transcript_losses_on_host(
        recorded,
        table=near.table,
        other=near.table,
        masks=near.present,
        recipe=recipe,
        claims=claims,
    )
    total = losses.absolute_total()
    place = np.unravel_index(np.argmax(total), total.shape)
    return Audit(
        claimed_epsilon=ledger(recipe).epsilon,
        largest_loss=float(total[place]),
        by_site={site: float(values[place]) for site, values in losses.by_site.items()},
        neighbours=len(near.present),
        transcripts=transcripts,
        step_ratio={site: float(ratio) for site, ratio in losses.step_ratios.items()},
    )


def exact(
    key: Array,
    near: Neighbours,
    recipe: Recipe,
    runs: int = 200,
    *,
    confidence: float = CONFIDENCE,
) -> Bound:
    """A lower bound on the epsilon and mu of a recipe, from exact losses on the worst neighbour.

    A few transcripts choose the neighbour. For a pure claim the largest loss is a certificate. With
    a delta, chances are bounded (`audit_bounds.epsilon_and_mu_lower_bounds`). The result is a
    function of the rows, and is not itself private.

    Args:
        key: one typed key.
        near: from `neighbours`.
        recipe: one setting; its `rows` must cover the largest neighbour.
        runs: how many, at least 8, half of them on each of the two tables.
        confidence: in (0, 1).

    Raises:
        ValueError: as `audit`.
    """
    runs_on_each = max(check_positive_integer("runs", runs) // 2, 4)
    choosing_key, table_key, neighbour_key = jax.random.split(key, 3)

    # A few transcripts choose the neighbour.
    num_choosing = max(runs_on_each // 20, 2)
    recorded = _record_transcripts(choosing_key, near.table, recipe, num_choosing, near.present)
    losses = _transcript_losses_on_host(
        recorded, table=near.table, other=near.table, masks=near.present, recipe=recipe
    )
    choosing_loss = losses.absolute_total()
    worst = np.argmax(choosing_loss.max(axis=0))
    neighbour = near.table._replace(present=jnp.asarray(near.present[worst]))

    # The losses of runs on the table, and of runs on the neighbour.
    on_table = _log_ratios_by_site(
        table_key, table=near.table, other=neighbour, recipe=recipe, runs=runs_on_each
    )
    on_neighbour = _log_ratios_by_site(
        neighbour_key, table=neighbour, other=near.table, recipe=recipe, runs=runs_on_each
    )
    scores = RunScores(
        on_table=np.sum([*on_table.values()], axis=0),
        on_neighbour=-np.sum([*on_neighbour.values()], axis=0),
    )

    book = ledger(recipe)
    lower = epsilon_and_mu_lower_bounds(
        *scores.split_in_halves(),
        delta=book.delta,
        confidence=confidence,
        are_log_likelihood_ratios=True,
    )
    epsilon, is_certain = lower.epsilon, book.delta == 0
    if is_certain:
        largest = max(float(np.max(np.abs(scores))), float(choosing_loss.max()))
        epsilon = max(largest - ROUNDING * (1 + largest), 0.0)
    return Bound(
        level="exact",
        claim=(book.epsilon, book.delta),
        epsilon=epsilon,
        mu=lower.mu,
        confidence=confidence,
        runs=2 * runs_on_each,
        where=max(on_table, key=lambda site: float(np.max(np.abs(on_table[site])))),
        curve=lower.curve,
        certain=is_certain,
    )


def _log_ratios_by_site(
    key: Array, *, table: Table, other: Table, recipe: Recipe, runs: int
) -> dict[str, np.ndarray]:
    """Site -> f32[R]: the log ratios of the densities of R fresh runs on a table and on another."""
    recorded = _record_transcripts(key, table, recipe, runs, [other.present])
    mask = np.asarray(other.present)[None]
    losses = _transcript_losses_on_host(
        recorded, table=table, other=other, masks=mask, recipe=recipe
    )
    return {site: values[:, 0] for site, values in losses.by_site.items()}


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
    check_run(table, recipe)
    check_run(other, recipe)
    table, other = jax.tree.map(jnp.asarray, (table, other))
    domains.check_same_domain(other.domain, table.domain, "the other table", "the table")
    if table.splits is None or other.splits is None:
        has_same_splits = table.splits is other.splits
    else:
        has_same_splits = have_same_splits(table.splits, other.splits)
    if table.bins.shape != other.bins.shape or not has_same_splits:
        raise ValueError("the tables must have one shape and the same splits")
    recorded = _record_transcripts(key, table, recipe, transcripts, [other.present])
    losses = _transcript_losses_on_host(
        recorded, table=table, other=other, masks=other.present[None], recipe=recipe
    )
    return float(losses.absolute_total().max())


def _record_transcripts(
    key: Array, table: Table, recipe: Recipe, transcripts: int, masks: Iterable[AnyArray]
) -> Transcript:
    """R transcripts of runs on a table, after a check of all arguments.

    Args:
        key: one typed key.
        table: the runs are on this table.
        recipe: of the run, without an axis of settings.
        transcripts: R.
        masks: which rows are present in each table that the transcripts are compared on.

    Raises:
        ValueError: if an argument is of another kind, or the table or one of the masks has more
            rows than the recipe is for.
    """
    keys.check_single_key(key)
    check_run(table, recipe)
    check_positive_integer("transcripts", transcripts)
    if max(int(np.sum(mask)) for mask in (table.present, *masks)) > float(recipe.rows):
        raise ValueError(
            f"a table or a neighbour has more rows than the recipe is for, {float(recipe.rows):g}"
        )
    bare_table, bare_recipe = without_domain(table), without_domain(recipe)
    return _sample_transcripts(jax.random.split(key, transcripts), bare_table, bare_recipe)


@compilation.jit_with_bounded_cache()
def _sample_transcripts(run_keys: Array, table: Table, recipe: Recipe) -> Transcript:
    """The transcripts of runs under R keys."""
    return jax.lax.map(lambda key: _sample_transcript(key, table, recipe), run_keys)


def _sample_transcript(key: Array, table: Table, recipe: Recipe) -> Transcript:
    noise_key, public_key = pair(key)
    return boost(noise_key, table, recipe, public_key).transcript


class _TranscriptLosses(NamedTuple):
    """Losses of R transcripts between a table and B others.

    Attributes:
        by_site: site -> f32[R, B]: log p(transcript | table) - log p(transcript | other).
        step_ratios: site -> f32[]: the largest ratio of a step's worst-case loss to its claim.
    """

    by_site: dict[str, Any]
    step_ratios: dict[str, Any]

    def absolute_total(self) -> Float32[np.ndarray, "R B"]:
        """f32[R, B]: the absolute loss of each transcript over all sites."""
        return np.abs(sum(self.by_site.values()))


def _transcript_losses_on_host(
    transcripts: Transcript,
    *,
    table: Table,
    other: Table,
    masks: AnyArray,
    recipe: Recipe,
    claims: dict[str, np.float32] | None = None,
) -> _TranscriptLosses:
    """The losses of each transcript as arrays of NumPy, by a program that all domains share.

    The arguments are those of `_compiled_transcript_losses`; without claims no step is judged.
    """
    table, other = map(without_domain, (table, other))
    recipe = without_domain(recipe)
    return _as_numpy_refusing_nan(
        _compiled_transcript_losses(transcripts, table, other, masks, recipe, claims or {})
    )


@compilation.jit_with_bounded_cache()
def _compiled_transcript_losses(
    transcripts: Transcript,
    table: Table,
    other: Table,
    masks: Bool[AnyArray, "B N"],
    recipe: Recipe,
    claims: dict[str, np.float32],
) -> _TranscriptLosses:
    """The losses of each transcript between a table and another one with each of B masks.

    Args:
        transcripts: R of them.
        table: N rows.
        other: N rows.
        masks: bool[B, N]: which rows of the other table are present.
        recipe: of the run, without an axis of settings.
        claims: site -> the claim of a step whose worst case is computed.
    """

    def losses_of_transcript(transcript: Transcript) -> _TranscriptLosses:
        def losses_for_mask(mask: Array) -> _TranscriptLosses:
            by_site = log_ratios_by_site(transcript, table, other._replace(present=mask), recipe)
            return _TranscriptLosses(
                by_site={site: jnp.sum(log_ratio) for site, (log_ratio, _) in by_site.items()},
                step_ratios=_ratios_to_claims(by_site, recipe, claims),
            )

        num_parallel = _num_parallel_masks(transcripts, table, recipe)
        return jax.lax.map(losses_for_mask, masks, batch_size=min(num_parallel, len(masks)))

    losses = jax.lax.map(losses_of_transcript, transcripts)
    return losses._replace(step_ratios=jax.tree.map(jnp.max, losses.step_ratios))


def _num_parallel_masks(transcripts: Transcript, table: Table, recipe: Recipe) -> int:
    """How many masks `MEMORY_BYTES` hold side by side, by the shapes of the arrays."""
    withheld = recipe.learner.withheld
    widths = [
        math.prod(draws.shape[2:])
        for site, draws in transcripts.rounds.items()
        if site not in withheld
    ]
    num_splits = 0 if table.splits is None else len(table.splits.feature)
    table_width = 2 * sum(table.bins.shape) + 6 * num_splits
    return max(1, MEMORY_BYTES // (4 * max([64, *widths]) * table_width))


def _claims_by_site(recipe: Recipe, sites: Iterable[str] | None = None) -> dict[str, np.float32]:
    """Site -> the ledger's claim for one step: an epsilon, or the square root of a rho.

    Raises:
        ValueError: for a site that the ledger does not have, or no site.
    """
    book, claims = ledger(recipe), {}
    for line in book.lines:
        claim = (
            line.num_payments * line.epsilon
            if book.delta == 0
            else np.sqrt(line.num_payments * line.rho)
        )
        claims[line.site] = np.float32(claim)
    wanted_sites = set(claims if sites is None else sites)
    if not wanted_sites or wanted_sites - set(claims):
        raise ValueError(f"sites must name sites of {sorted(claims)}, got {sorted(wanted_sites)}")
    return {site: claim for site, claim in claims.items() if site in wanted_sites}


def _ratios_to_claims(
    by_site: dict[str, DrawComparison], recipe: Recipe, claims: dict[str, np.float32]
) -> dict[str, Array]:
    """Site -> f32[], the largest ratio over rounds of a step's loss to its claim.

    It is 0 where public randomness claims nothing and costs nothing.

    Args:
        by_site: the comparison of the draws of each site, from `replay.log_ratios_by_site`.
        recipe: of the run, without an axis of settings.
        claims: site -> the claim of a step.
    """

    def ratio_to_claim(step: WorstCaseLoss, claim: Any) -> Array:
        cost = jnp.where(recipe.delta == 0, step.pure, jnp.sqrt(step.rho))
        return jnp.max(jnp.where(cost == 0, 0.0, cost / claim))

    return {site: ratio_to_claim(by_site[site].worst_loss, claim) for site, claim in claims.items()}


def _as_numpy_refusing_nan(tree: Any) -> Any:
    """The pytree with arrays of NumPy.

    Raises:
        ValueError: if there is a NaN.
    """
    arrays = jax.tree.map(np.asarray, tree)
    if any(np.isnan(array).any() for array in jax.tree.leaves(arrays)):
        raise ValueError("a log density is not a number; the audit cannot judge this recipe")
    return arrays


# The search for a table that breaks a claim.


class SearchResult(NamedTuple):
    """The table on which a claim came closest to breaking.

    Attributes:
        ratio: its score; the claim is false if it is above 1.
        table: the table.
    """

    ratio: float
    table: Table


def search(
    key: Array,
    recipe: Recipe,
    *,
    rows: int,
    splits: int,
    restarts: int = 16,
    sweeps: int = 60,
    sites: Sequence[str] | None = None,
) -> SearchResult:
    """Try to break a claim: improve random small tables step by step, against all their neighbours.

    Each step of a table has a ratio: its worst-case loss over its outputs, divided by the ledger's
    claim. The score of a table is the largest ratio over neighbours, rounds and sites. Above 1, the
    claim is false. Neighbours are all single flips of presence (add/remove), or one flip off and
    one on (replace-one).

    Args:
        key: one typed key.
        recipe: one setting; its `rows` must be at least the argument `rows`.
        rows: N of the tables, at least 1, or 2 under replace-one. Rows come and go, so the number
            of present ones varies up to N.
        splits: S of the tables, of `splits.table_of_splits`; all bit patterns are allowed.
        restarts: how many tables are improved side by side.
        sweeps: how many proposals each table gets; a proposal changes a few of its bits.
        sites: the sites to evaluate; all by default. A site that attains its claim on any table
            hides the others.

    Raises:
        ValueError: for a number outside its range, a site that the ledger does not have, or a
            divergence that is not a number.

    Returns:
        The table of the largest ratio.
    """
    keys.check_single_key(key)
    claims = _claims_by_site(recipe, sites)
    sizes = {"rows": rows, "splits": splits, "restarts": restarts, "sweeps": sweeps}
    for name, value in sizes.items():
        check_positive_integer(name, value)
    min_rows = 1 if recipe.relation is types.ADD_REMOVE else 2
    if not min_rows <= rows <= float(recipe.rows):
        raise ValueError(f"rows must be in {min_rows}..{float(recipe.rows):g}, got {rows}")

    # The entries of `present` to flip; under replace-one, odd rows may come for even ones.
    flips, is_even = np.eye(rows, dtype=bool), np.arange(rows) % 2 == 0
    if recipe.relation is not types.ADD_REMOVE:
        flips = (flips[is_even][:, None] ^ flips[~is_even]).reshape(-1, rows)
    rng = np.random.default_rng(int(jax.random.bits(key, dtype=jnp.uint32)))

    def score(tables: _BitTables) -> np.ndarray:
        return _as_numpy_refusing_nan(_max_ratios_to_claims(key, tables, flips, claims, recipe))

    best = _BitTables(
        splits=rng.random((restarts, rows, splits)) < 0.5,
        target=rng.random((restarts, rows)) < rng.uniform(0.02, 0.98, (restarts, 1)),
        present=rng.random((restarts, rows)) < 0.8,
    )
    if recipe.relation is not types.ADD_REMOVE:
        best = best._replace(present=np.tile(is_even, (restarts, 1)))
    best_score = score(best)
    for _ in range(sweeps):
        proposal = _BitTables(
            *(array ^ (rng.random(array.shape) < 1.5 / array[0].size) for array in best)
        )
        if recipe.relation is not types.ADD_REMOVE:
            proposal = proposal._replace(present=best.present.copy())
        proposed_score = score(proposal)
        is_better = proposed_score > best_score
        for array, proposed in zip(best, proposal, strict=True):
            array[is_better] = proposed[is_better]
        best_score = np.where(is_better, proposed_score, best_score)

    winner = int(np.argmax(best_score))
    table = table_of_splits(*(array[winner] for array in best))
    return SearchResult(ratio=float(best_score[winner]), table=table)


class _BitTables(NamedTuple):
    """R tables of `splits.table_of_splits`.

    Attributes:
        splits: bool[R, N, S].
        target: bool[R, N].
        present: bool[R, N].
    """

    splits: Any
    target: Any
    present: Any


@compilation.jit_with_bounded_cache()
def _max_ratios_to_claims(
    key: Array,
    tables: _BitTables,
    flips: Bool[Any, "B N"],
    claims: dict[str, np.float32],
    recipe: Recipe,
) -> Float32[Array, "R"]:
    """f32[R]: the largest ratio, over neighbours of each table, of a step's loss to its claim.

    Args:
        key: the key of a run on each table.
        tables: R of them.
        flips: bool[B, N], the entries of `present` in which each neighbour differs.
        claims: site -> the claim of a step.
        recipe: of the run, without an axis of settings.
    """

    def max_ratio_of_table(bits: _BitTables) -> Array:
        table = table_of_splits(bits.splits, bits.target, bits.present)
        transcript = _sample_transcript(key, table, recipe)

        def max_ratio_of_neighbour(flip: Array) -> Array:
            neighbour = table._replace(present=bits.present ^ flip)
            by_site = log_ratios_by_site(transcript, table, neighbour, recipe)
            return jnp.max(jnp.stack(list(_ratios_to_claims(by_site, recipe, claims).values())))

        return jnp.max(jax.vmap(max_ratio_of_neighbour)(flips))

    return jax.vmap(max_ratio_of_table)(tables)
