"""Exact audits: the privacy losses of recorded transcripts between a table and its neighbours.

The audit evaluates `program_interpreters.compare_views` on the same program that drew the release.
Log densities are exact formulas in float32, so a loss is exact up to about 1e-4.
"""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float32

from dpbt.audit.neighbour_masks import Neighbours
from dpbt.common import compilation
from dpbt.common.validate import check_positive_integer
from dpbt.data import domains
from dpbt.privacy import keys
from dpbt.privacy.audit_bounds import CONFIDENCE, Bound, RunScores, epsilon_and_mu_lower_bounds
from dpbt.privacy.keys import pair
from dpbt.privacy.mechanism_types import WorstCaseLoss
from dpbt.privacy.program_interpreters import DrawComparison
from dpbt.privacy.recipe_ledger import ledger
from dpbt.public_types import have_same_splits
from dpbt.training.boost import boost
from dpbt.training.checks import check_table_and_recipe
from dpbt.training.replay import log_ratios_by_site
from dpbt.training.table_preparation import without_domain
from dpbt.types import AnyArray, Array, Recipe, Table, Transcript

ROUNDING = 1e-4
"""A loss L in float32 may be above the truth by `ROUNDING` (1 + L).

`mechanism_types.ROUNDING` is something else: a factor of noise.
"""

MEMORY_BYTES = 256 * 2**20
"""About how much memory the neighbours take that are compared side by side."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Audit:
    """The losses of recorded transcripts, and the claim that they are compared with.

    Attributes:
        claimed_epsilon: the ledger's epsilon. With a delta above 0 a transcript may, rarely, lose
            more.
        largest_loss: the largest exact |log p(transcript | table) - log p(transcript | neighbour)|.
        loss_by_site: that loss by site, with signs: the losses of the sites add up to it.
        num_neighbours: how many neighbours the transcripts were scored on.
        num_transcripts: how many transcripts were recorded.
        max_step_ratio_by_site: the largest ratio of a step's worst-case loss over its outputs to
            that step's claim. For a recipe with a delta it is the square root of the ratio of zCDP
            costs. Empty unless the audit was called with `with_worst_steps`.
    """

    claimed_epsilon: float
    largest_loss: float
    loss_by_site: dict[str, float]
    num_neighbours: int
    num_transcripts: int
    max_step_ratio_by_site: dict[str, float]


def audit_transcripts(
    key: Array,
    neighbours: Neighbours,
    recipe: Recipe,
    num_transcripts: int,
    *,
    with_worst_steps: bool = False,
) -> Audit:
    """Record transcripts on a table, and compute their exact privacy losses to every neighbour.

    The audit's result is a function of private rows and is not itself private.

    Args:
        key: one typed key.
        neighbours: from `neighbours`.
        recipe: one setting; its `rows` must cover the largest neighbour.
        num_transcripts: how many to record, at least 1.
        with_worst_steps: whether to compute the worst case of each step over all its outputs, too.

    Raises:
        ValueError: if an argument is of another kind, `rows` is smaller than the largest neighbour,
            or a log density is NaN.
    """
    losses = _record_and_compare_with_neighbours(
        key, neighbours, recipe, num_transcripts, with_worst_steps=with_worst_steps
    )
    total = losses.absolute_total()
    largest = np.unravel_index(np.argmax(total), total.shape)
    return Audit(
        claimed_epsilon=ledger(recipe).epsilon,
        largest_loss=float(total[largest]),
        loss_by_site={site: float(values[largest]) for site, values in losses.by_site.items()},
        num_neighbours=len(neighbours.present),
        num_transcripts=num_transcripts,
        max_step_ratio_by_site={site: float(ratio) for site, ratio in losses.step_ratios.items()},
    )


def exact_lower_bound(
    key: Array,
    neighbours: Neighbours,
    recipe: Recipe,
    num_runs: int = 200,
    *,
    confidence: float = CONFIDENCE,
) -> Bound:
    """A lower bound on the epsilon and mu of a recipe, from exact losses on the worst neighbour.

    A few transcripts choose the neighbour. For a pure claim the largest loss is a certificate. With
    a delta, chances are bounded (`audit_bounds.epsilon_and_mu_lower_bounds`). The result is a
    function of the rows, and is not itself private.

    Args:
        key: one typed key.
        neighbours: from `neighbours`.
        recipe: one setting; its `rows` must cover the largest neighbour.
        num_runs: how many, half of them on each of the two tables; fewer than 8 count as 8.
        confidence: in (0, 1).

    Raises:
        ValueError: as `audit_transcripts`.
    """
    runs_on_each = max(check_positive_integer("num_runs", num_runs) // 2, 4)
    choosing_key, table_key, neighbour_key = jax.random.split(key, 3)

    # A few transcripts choose the neighbour.
    num_choosing = max(runs_on_each // 20, 2)
    losses = _record_and_compare_with_neighbours(choosing_key, neighbours, recipe, num_choosing)
    choosing_loss = losses.absolute_total()
    worst = np.argmax(choosing_loss.max(axis=0))
    neighbour = neighbours.table._replace(present=jnp.asarray(neighbours.present[worst]))

    # The losses of runs on the table, and of runs on the neighbour.
    on_table = _log_ratios_by_site(
        table_key, table=neighbours.table, other=neighbour, recipe=recipe, num_runs=runs_on_each
    )
    on_neighbour = _log_ratios_by_site(
        neighbour_key, table=neighbour, other=neighbours.table, recipe=recipe, num_runs=runs_on_each
    )
    scores = RunScores(
        on_table=np.sum([*on_table.values()], axis=0),
        on_neighbour=-np.sum([*on_neighbour.values()], axis=0),
    )

    recipe_ledger = ledger(recipe)
    lower = epsilon_and_mu_lower_bounds(
        *scores.split_in_halves(),
        delta=recipe_ledger.delta,
        confidence=confidence,
        are_log_likelihood_ratios=True,
    )
    epsilon = lower.epsilon
    is_certain = recipe_ledger.delta == 0
    if is_certain:
        largest = max(float(np.max(np.abs(scores))), float(choosing_loss.max()))
        epsilon = max(largest - ROUNDING * (1 + largest), 0.0)
    return Bound(
        level="exact",
        claim=(recipe_ledger.epsilon, recipe_ledger.delta),
        epsilon=epsilon,
        mu=lower.mu,
        confidence=confidence,
        runs=2 * runs_on_each,
        where=max(on_table, key=lambda site: float(np.max(np.abs(on_table[site])))),
        curve=lower.curve,
        certain=is_certain,
    )


def _record_and_compare_with_neighbours(
    key: Array,
    neighbours: Neighbours,
    recipe: Recipe,
    num_transcripts: int,
    *,
    with_worst_steps: bool = False,
) -> "_TranscriptLosses":
    """Record transcripts on a table, and compute their losses to all of its neighbours.

    The arguments and errors are those of `audit_transcripts`.
    """
    recorded = _record_transcripts(
        key, neighbours.table, recipe, num_transcripts, neighbours.present
    )
    return _numpy_transcript_losses(
        recorded,
        table=neighbours.table,
        other=neighbours.table,
        masks=neighbours.present,
        recipe=recipe,
        claims=claims_by_site(recipe) if with_worst_steps else {},
    )


def _log_ratios_by_site(
    key: Array, *, table: Table, other: Table, recipe: Recipe, num_runs: int
) -> dict[str, np.ndarray]:
    """The log ratios of R fresh runs between a table and another, site by site.

    Site -> f32[R]; the runs are on the first table.
    """
    recorded = _record_transcripts(key, table, recipe, num_runs, [other.present])
    mask = np.asarray(other.present)[None]
    losses = _numpy_transcript_losses(recorded, table=table, other=other, masks=mask, recipe=recipe)
    return {site: values[:, 0] for site, values in losses.by_site.items()}


def largest_loss_between_tables(
    key: Array, table: Table, other: Table, recipe: Recipe, num_transcripts: int
) -> float:
    """The largest exact privacy loss of recorded transcripts between two tables.

    It is the largest |log p(transcript | table) - log p(transcript | other)|. The neighbours of
    `audit_transcripts` share all rows but one by construction. The two tables here may come from
    two files that were read and encoded separately, so that reading and encoding are audited too.
    The result is a function of private rows and is not itself private.

    Args:
        key: one typed key.
        table: N rows, on which the transcripts are recorded.
        other: N rows, in the same order as in `table`. A row that it lacks leaves an absent row.
        recipe: one setting; its `rows` must cover both tables.
        num_transcripts: how many to record, at least 1.

    Raises:
        ValueError: if an argument is of another kind, the tables have different shapes or
            splits or more rows than `rows`, or a log density is not a number.
    """
    check_table_and_recipe(table, recipe)
    check_table_and_recipe(other, recipe)
    table, other = jax.tree.map(jnp.asarray, (table, other))
    domains.check_same_domain(other.domain, table.domain, "the other table", "the table")
    if table.splits is None or other.splits is None:
        has_same_splits = table.splits is other.splits
    else:
        has_same_splits = have_same_splits(table.splits, other.splits)
    if table.bins.shape != other.bins.shape or not has_same_splits:
        raise ValueError("the tables must have one shape and the same splits")
    recorded = _record_transcripts(key, table, recipe, num_transcripts, [other.present])
    losses = _numpy_transcript_losses(
        recorded, table=table, other=other, masks=other.present[None], recipe=recipe
    )
    return float(losses.absolute_total().max())


def _record_transcripts(
    key: Array, table: Table, recipe: Recipe, num_transcripts: int, masks: Iterable[AnyArray]
) -> Transcript:
    """Record R transcripts of runs on a table, after a check of all arguments.

    Args:
        key: one typed key.
        table: the runs are on this table.
        recipe: of the run, without an axis of settings.
        num_transcripts: R.
        masks: which rows are present in each table that the transcripts are compared on.

    Raises:
        ValueError: if an argument is of another kind, or the table or one of the masks has more
            rows than the recipe is for.
    """
    keys.check_single_key(key)
    check_table_and_recipe(table, recipe)
    check_positive_integer("num_transcripts", num_transcripts)
    if max(int(np.sum(mask)) for mask in (table.present, *masks)) > float(recipe.rows):
        raise ValueError(
            f"a table or a neighbour has more rows than the recipe is for, {float(recipe.rows):g}"
        )
    bare_table = without_domain(table)
    bare_recipe = without_domain(recipe)
    return _sample_transcripts(jax.random.split(key, num_transcripts), bare_table, bare_recipe)


@compilation.jit_with_bounded_cache()
def _sample_transcripts(run_keys: Array, table: Table, recipe: Recipe) -> Transcript:
    """Run a recipe under each of R keys, and return the transcripts."""
    return jax.lax.map(lambda key: sample_transcript(key, table, recipe), run_keys)


def sample_transcript(key: Array, table: Table, recipe: Recipe) -> Transcript:
    """Run a recipe once, and return the transcript.

    Its noise and its public randomness follow from one key.
    """
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
        """f32[R, B]: the absolute loss of each transcript, summed over its sites."""
        return np.abs(sum(self.by_site.values()))


def _numpy_transcript_losses(
    transcripts: Transcript,
    *,
    table: Table,
    other: Table,
    masks: AnyArray,
    recipe: Recipe,
    claims: dict[str, np.float32] | None = None,
) -> _TranscriptLosses:
    """Compute the losses of transcripts between tables, as arrays of NumPy.

    Domains are taken off first, so that tables of all domains share one program. The arguments are
    those of `_compiled_transcript_losses`; without claims no step is judged.
    """
    table, other = map(without_domain, (table, other))
    recipe = without_domain(recipe)
    return as_numpy_refusing_nan(
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
    """Compute the losses of transcripts between a table and another one with each of B masks.

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
                step_ratios=ratios_to_claims(by_site, recipe, claims),
            )

        num_parallel = _num_parallel_masks(transcripts, table, recipe)
        return jax.lax.map(losses_for_mask, masks, batch_size=min(num_parallel, len(masks)))

    losses = jax.lax.map(losses_of_transcript, transcripts)
    return losses._replace(step_ratios=jax.tree.map(jnp.max, losses.step_ratios))


def _num_parallel_masks(transcripts: Transcript, table: Table, recipe: Recipe) -> int:
    """How many masks fit into `MEMORY_BYTES` side by side, by the shapes of the arrays."""
    withheld = recipe.learner.withheld
    widths = [
        math.prod(draws.shape[2:])
        for site, draws in transcripts.rounds.items()
        if site not in withheld
    ]
    num_splits = 0 if table.splits is None else len(table.splits.feature)
    table_width = 2 * sum(table.bins.shape) + 6 * num_splits
    return max(1, MEMORY_BYTES // (4 * max([64, *widths]) * table_width))


def claims_by_site(recipe: Recipe, sites: Iterable[str] | None = None) -> dict[str, np.float32]:
    """The privacy loss that the ledger claims for one step of each site.

    Site -> an epsilon, or for a recipe with a delta the square root of a rho.

    Raises:
        ValueError: for a site that the ledger does not have, or no site.
    """
    recipe_ledger = ledger(recipe)
    claims = {}
    for line in recipe_ledger.lines:
        claim = (
            line.num_payments * line.epsilon
            if recipe_ledger.delta == 0
            else np.sqrt(line.num_payments * line.rho)
        )
        claims[line.site] = np.float32(claim)
    wanted_sites = set(claims if sites is None else sites)
    if not wanted_sites or wanted_sites - set(claims):
        raise ValueError(f"sites must name sites of {sorted(claims)}, got {sorted(wanted_sites)}")
    return {site: claim for site, claim in claims.items() if site in wanted_sites}


def ratios_to_claims(
    by_site: dict[str, DrawComparison], recipe: Recipe, claims: dict[str, np.float32]
) -> dict[str, Array]:
    """The largest ratio of a step's worst-case loss to its claim, for each site.

    Site -> f32[]; the largest over rounds. It is 0 where public randomness claims nothing and costs
    nothing.

    Args:
        by_site: the comparison of the draws of each site, from `replay.log_ratios_by_site`.
        recipe: of the run, without an axis of settings.
        claims: site -> the claim of a step.
    """

    def ratio_to_claim(step: WorstCaseLoss, claim: Any) -> Array:
        cost = jnp.where(recipe.delta == 0, step.pure, jnp.sqrt(step.rho))
        return jnp.max(jnp.where(cost == 0, 0.0, cost / claim))

    return {site: ratio_to_claim(by_site[site].worst_loss, claim) for site, claim in claims.items()}


def as_numpy_refusing_nan(tree: Any) -> Any:
    """Convert the arrays of a pytree to NumPy, and refuse NaN.

    Raises:
        ValueError: if there is a NaN.
    """
    arrays = jax.tree.map(np.asarray, tree)
    if any(np.isnan(array).any() for array in jax.tree.leaves(arrays)):
        raise ValueError("a log density is not a number; the audit cannot judge this recipe")
    return arrays
