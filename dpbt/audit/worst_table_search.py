"""A search for tables on which a step of a recipe loses more than its claim.

Many random small tables are improved side by side, by hill climbing: a proposal changes a few
entries of each table, and a table takes it if its score rises. The score is the largest ratio, over
neighbours, rounds and sites, of a step's worst-case loss to the ledger's claim. Above 1, the claim
is false. A search that stays below 1 proves nothing about other tables.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float32

from dpbt import types
from dpbt.audit.exact_loss import (
    as_numpy_refusing_nan,
    claims_by_site,
    ratios_to_claims,
    sample_transcript,
)
from dpbt.audit.neighbour_masks import DomainRows
from dpbt.common import compilation
from dpbt.common.validate import check_positive_integer
from dpbt.data.splits import table_of_splits
from dpbt.privacy import keys
from dpbt.training.replay import log_ratios_by_site
from dpbt.training.table_preparation import without_domain
from dpbt.types import Array, Recipe, Relation, Table

_CHANGES_PER_PROPOSAL = 1.5
"""How many entries of an array a proposal changes, on average."""

_PARALLEL_NEIGHBOURS = 64
"""How many neighbours of a table are compared with it side by side."""

SmallTables = TypeVar("SmallTables", bound=tuple[np.ndarray, ...])
"""R small tables as arrays whose first axis is R."""


class SearchResult(NamedTuple):
    """The table on which a claim came closest to breaking.

    Attributes:
        ratio: its score; the claim is false if it is above 1.
        table: the table.
    """

    ratio: float
    table: Table


def search_worst_table(
    key: Array,
    recipe: Recipe,
    *,
    num_rows: int,
    num_splits: int,
    num_tables: int = 16,
    num_proposals: int = 60,
    sites: Sequence[str] | None = None,
) -> SearchResult:
    """Search all small tables of bits for one whose step loses more than a recipe claims.

    Neighbours are all single flips of presence (add/remove), or one row that leaves and one that
    comes (replace-one).

    Args:
        key: one typed key.
        recipe: one setting; its `rows` must be at least `num_rows`.
        num_rows: N of the tables, at least 1, or 2 under replace-one. Rows come and go, so the
            number of present ones varies up to N.
        num_splits: S of the tables, of `splits.table_of_splits`; all bit patterns are allowed.
        num_tables: how many tables are improved side by side.
        num_proposals: how many proposals each table gets; a proposal changes a few of its bits.
        sites: the sites to evaluate; all by default. A site that attains its claim on any table
            hides the others.

    Raises:
        ValueError: for a number outside its range, a site that the ledger does not have, or a
            divergence that is not a number.

    Returns:
        The table of the largest ratio.
    """
    keys.check_single_key(key)
    claims = claims_by_site(recipe, sites)
    sizes = {
        "num_rows": num_rows,
        "num_splits": num_splits,
        "num_tables": num_tables,
        "num_proposals": num_proposals,
    }
    for name, value in sizes.items():
        check_positive_integer(name, value)
    min_rows = 1 if recipe.relation is types.ADD_REMOVE else 2
    if not min_rows <= num_rows <= float(recipe.rows):
        raise ValueError(f"num_rows must be in {min_rows}..{float(recipe.rows):g}, got {num_rows}")

    flips = presence_flips(recipe.relation, num_rows)
    rng = np.random.default_rng(int(jax.random.bits(key, dtype=jnp.uint32)))

    def score(tables: _BitTables) -> np.ndarray:
        return as_numpy_refusing_nan(_max_ratios_of_bit_tables(key, tables, flips, claims, recipe))

    def propose(best: _BitTables) -> _BitTables:
        proposal = _BitTables(
            *(
                array ^ (rng.random(array.shape) < _CHANGES_PER_PROPOSAL / array[0].size)
                for array in best
            )
        )
        if recipe.relation is not types.ADD_REMOVE:
            proposal = proposal._replace(present=best.present)
        return proposal

    start = _BitTables(
        splits=rng.random((num_tables, num_rows, num_splits)) < 0.5,
        target=rng.random((num_tables, num_rows)) < rng.uniform(0.02, 0.98, (num_tables, 1)),
        present=rng.random((num_tables, num_rows)) < 0.8,
    )
    if recipe.relation is not types.ADD_REMOVE:
        start = start._replace(present=present_before_replacement(num_tables, num_rows))
    climbed = climb_to_higher_scores(
        start, score=score, propose=propose, num_proposals=num_proposals
    )
    winner = int(np.argmax(climbed.scores))
    table = table_of_splits(*(array[winner] for array in climbed.tables))
    return SearchResult(ratio=float(climbed.scores[winner]), table=table)


def search_among_candidates(
    key: Array,
    recipe: Recipe,
    table: Table,
    candidates: DomainRows,
    *,
    num_tables: int,
    num_proposals: int,
) -> float:
    """Search tables of candidate rows for the largest ratio of a step's loss to its claim.

    Args:
        key: one typed key.
        recipe: one setting.
        table: N rows, whose splits and number of rows all tables have.
        candidates: C rows.
        num_tables: how many tables are improved side by side.
        num_proposals: how many proposals each table gets.

    Raises:
        ValueError: under replace-one, for a table of fewer than two rows.

    Returns:
        The ratio; it is NaN if a divergence is not a number.
    """
    num_rows = len(table.target)
    num_candidates = len(candidates.target)
    is_replaced = recipe.relation is not types.ADD_REMOVE
    flips = presence_flips(recipe.relation, num_rows)
    if not len(flips):
        raise ValueError("a search under replace-one needs a table of at least two rows")
    claims = claims_by_site(recipe)
    bare_recipe = without_domain(recipe)
    bare_table = without_domain(table)
    rng = np.random.default_rng(int(jax.random.bits(key, dtype=jnp.uint32)))
    shape = (num_tables, num_rows)

    def score(tables: _CandidateTables) -> np.ndarray:
        ratios = _max_ratios_of_candidate_tables(
            key, tables, flips, candidates, bare_table, claims, bare_recipe
        )
        return np.asarray(ratios, np.float64)

    def propose(best: _CandidateTables) -> _CandidateTables:
        is_changed = rng.random(shape) < _CHANGES_PER_PROPOSAL / num_rows
        others = rng.integers(0, num_candidates, shape).astype(np.int32)
        is_flipped = np.zeros(shape, bool) if is_replaced else rng.random(shape) < 1.0 / num_rows
        return _CandidateTables(
            candidate=np.where(is_changed, others, best.candidate),
            present=best.present ^ is_flipped,
        )

    # A table starts with copies of few candidates, since losses are large where rows are alike.
    max_distinct = 8
    num_distinct = rng.integers(1, min(num_candidates, max_distinct) + 1, (num_tables, 1))
    distinct = rng.integers(0, num_candidates, (num_tables, max_distinct))
    chosen = np.take_along_axis(distinct, rng.integers(0, 2**16, shape) % num_distinct, axis=1)
    if is_replaced:
        present = present_before_replacement(num_tables, num_rows)
    else:
        present = rng.random(shape) < 0.8
    climbed = climb_to_higher_scores(
        _CandidateTables(candidate=chosen.astype(np.int32), present=present),
        score=score,
        propose=propose,
        num_proposals=num_proposals,
    )
    return float(np.max(climbed.scores))


# Hill climbing.


class Climbed(NamedTuple):
    """The best tables that a search tried, one for each of R starts, and their scores.

    Attributes:
        tables: arrays whose first axis is R.
        scores: f64[R].
    """

    tables: Any
    scores: np.ndarray


def climb_to_higher_scores(
    start: SmallTables,
    *,
    score: Callable[[SmallTables], np.ndarray],
    propose: Callable[[SmallTables], SmallTables],
    num_proposals: int,
) -> Climbed:
    """Improve R tables side by side by hill climbing.

    A table takes a proposal if its own score rises. A score that is not a number is kept, so that
    the caller sees it.

    Args:
        start: R tables.
        score: R tables -> [R].
        propose: the best tables so far -> R changed tables.
        num_proposals: how often `propose` is called.
    """
    best = start
    best_scores = score(start)
    for _ in range(num_proposals):
        proposal = propose(best)
        scores = score(proposal)
        is_better = (scores > best_scores) | np.isnan(scores)

        def choose(kept: np.ndarray, new: np.ndarray, is_better: np.ndarray = is_better) -> Any:
            return np.where(is_better.reshape(-1, *(1,) * (kept.ndim - 1)), new, kept)

        best = jax.tree.map(choose, best, proposal)
        best_scores = np.where(is_better, scores, best_scores)
    return Climbed(tables=best, scores=best_scores)


def presence_flips(relation: Relation, num_rows: int) -> Bool[np.ndarray, "B N"]:
    """bool[B, N]: the entries of `present` that each searched neighbour flips.

    Under add/remove it is one row. Under replace-one an even row leaves and an odd row comes, of
    tables whose even rows are present (`present_before_replacement`).
    """
    flips = np.eye(num_rows, dtype=bool)
    if relation is types.ADD_REMOVE:
        return flips
    leaving = flips[0::2]
    coming = flips[1::2]
    return (leaving[:, None] ^ coming).reshape(-1, num_rows)


def present_before_replacement(num_tables: int, num_rows: int) -> Bool[np.ndarray, "R N"]:
    """bool[R, N]: which rows are present before one is replaced: the even ones."""
    return np.tile(np.arange(num_rows) % 2 == 0, (num_tables, 1))


# The scores of tables.


class _BitTables(NamedTuple):
    """R small tables, given by the bits of their splits, labels and presence.

    `splits.table_of_splits` makes tables of them.

    Attributes:
        splits: bool[R, N, S].
        target: bool[R, N].
        present: bool[R, N].
    """

    splits: Any
    target: Any
    present: Any


class _CandidateTables(NamedTuple):
    """R tables whose rows are candidates.

    Attributes:
        candidate: i32[R, N], the index of the candidate that each row is.
        present: bool[R, N].
    """

    candidate: Any
    present: Any


@compilation.jit_with_bounded_cache()
def _max_ratios_of_bit_tables(
    key: Array,
    tables: _BitTables,
    flips: Bool[Any, "B N"],
    claims: dict[str, np.float32],
    recipe: Recipe,
) -> Float32[Array, "R"]:
    """f32[R]: the largest ratio of a step's loss to its claim, of each table of bits."""

    def max_ratio(bits: _BitTables) -> Array:
        table = table_of_splits(bits.splits, bits.target, bits.present)
        return _max_ratio_of_table(key, table, flips=flips, claims=claims, recipe=recipe)

    return jax.vmap(max_ratio)(tables)


@compilation.jit_with_bounded_cache()
def _max_ratios_of_candidate_tables(
    key: Array,
    tables: _CandidateTables,
    flips: Bool[Any, "B N"],
    candidates: DomainRows,
    table: Table,
    claims: dict[str, np.float32],
    recipe: Recipe,
) -> Float32[Array, "R"]:
    """f32[R]: the largest ratio of a step's loss to its claim, of each table of candidates.

    All of them have the splits of `table`, whose own rows do not count.
    """
    bins, target = map(jnp.asarray, candidates)

    def max_ratio(rows: _CandidateTables) -> Array:
        small_table = table._replace(
            bins=bins[rows.candidate], target=target[rows.candidate], present=rows.present
        )
        if table.weight is not None:
            small_table = small_table._replace(weight=jnp.ones(rows.present.shape, jnp.float32))
        return _max_ratio_of_table(key, small_table, flips=flips, claims=claims, recipe=recipe)

    return jax.vmap(max_ratio)(tables)


def _max_ratio_of_table(
    key: Array,
    table: Table,
    *,
    flips: Bool[Any, "B N"],
    claims: dict[str, np.float32],
    recipe: Recipe,
) -> Float32[Array, ""]:
    """f32[]: the largest ratio of a step's loss to its claim, on one table.

    It is the largest over neighbours, rounds and sites.

    Args:
        key: the key of a run on the table.
        table: N rows.
        flips: bool[B, N], the entries of `present` in which each neighbour differs.
        claims: site -> the claim of a step.
        recipe: of the run, without an axis of settings.
    """
    transcript = sample_transcript(key, table, recipe)

    def max_ratio_to_neighbour(flip: Array) -> Array:
        neighbour = table._replace(present=table.present ^ flip)
        comparisons = log_ratios_by_site(transcript, table, neighbour, recipe)
        return jnp.max(jnp.stack(list(ratios_to_claims(comparisons, recipe, claims).values())))

    ratios = jax.lax.map(
        max_ratio_to_neighbour, jnp.asarray(flips), batch_size=_PARALLEL_NEIGHBOURS
    )
    return jnp.max(ratios)
