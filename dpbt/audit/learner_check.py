"""A check of a learner or a recipe: its losses on all neighbours, its replays, its noise.

A check on small tables finds mistakes, such as a sensitivity that is too small. It proves nothing
about other tables.
"""

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import types
from dpbt.audit import exact_loss, worst_table_search
from dpbt.audit.check_report import CheckLine, CheckReport, report_or_fail
from dpbt.audit.neighbour_masks import DomainRows, Neighbours, all_rows_of_domain
from dpbt.audit.neighbour_masks import neighbours as list_neighbours
from dpbt.common import compilation
from dpbt.common.validate import check_positive_integer
from dpbt.privacy import keys
from dpbt.privacy.recipe_ledger import ledger
from dpbt.recipes import custom
from dpbt.training.boost import boost
from dpbt.training.replay import replay
from dpbt.training.table_preparation import without_domain
from dpbt.types import Array, Recipe, Table, WeakLearner

SLACK = 2e-3
"""Room for float32 in a log density of a whole transcript."""

MAX_SIGMAS = 5.5
"""A correct sampler fails one comparison of `noise` with probability under 4e-8, by the normal
approximation of the mean.
"""

ASPECTS = ("losses", "replays", "search", "noise")
"""What `check_learner` checks."""

_WIDER, _NARROWER = 1.2, 2 / 3
"""The factors of the noise of the density that samples are weighed by, and of the wrong noise."""

_MAX_DOMAIN_ROWS = 200
"""The largest public domain whose rows are all candidates by default."""


def check_learner(
    learner: Recipe | WeakLearner,
    tables: Table | Neighbours | Sequence[Table | Neighbours],
    *,
    candidates: tuple[np.ndarray, np.ndarray] | None = None,
    aspects: Collection[str] = ASPECTS,
    sites: Sequence[str] | None = None,
    epsilon: float = 3.0,
    num_transcripts: int = 12,
    num_draws: int = 20_000,
    num_tables: int = 8,
    num_proposals: int = 20,
    key: Array | None = None,
) -> CheckReport:
    """Check the privacy losses, replays and noise of a learner on small tables and neighbours.

    - "losses": no recorded transcript tells a table from a neighbour by more than the epsilon of
      the ledger, and no step by more than its line, in the worst case over its outputs.
    - "replays": a replay of a transcript on a neighbour gives the identical hypotheses.
    - "search": random tables of the candidates' rows are changed step by step, so that a step comes
      as close as it can to its line, and none exceeds it.
    - "noise": the samples of each site follow its density, by the mean of a ratio of densities that
      is 1. And a wrong noise, two thirds of the right one, is rejected, or the check would be
      blind. If it is not, choose another epsilon or another table.

    Args:
        learner: one setting of a recipe, whose `rows` cover the tables and one more row. Or a weak
            learner, for which `recipes.custom` makes a recipe of two rounds.
        tables: one small table or several, or `Neighbours` of your own.
        candidates: bins [C, F] and target [C] of the rows that may come. By default the whole
            domain of the table, if it is small, and else the rows of the table with each label.
        aspects: which of the four are checked.
        sites: the beginnings of the names of sites whose noise is checked, for a learner that
            derives the noise of others. By default all that have a noise multiplier.
        epsilon: of the recipe of a weak learner.
        num_transcripts: how many are recorded on each table.
        num_draws: how many samples "noise" takes.
        num_tables: how many tables "search" improves side by side.
        num_proposals: how many changes of each of them it tries.
        key: a typed key; by default the research key of seed 0.

    Returns:
        The report, whose text is a table. It is a function of the rows, so use tables that are
        public or made up.

    Raises:
        CheckError: with the report, if one of these does not hold.
        ValueError: naming the argument, and as `audit.neighbours` and `audit.audit_transcripts`.
    """
    if unknown := set(aspects) - set(ASPECTS):
        raise ValueError(f"aspects must be of {ASPECTS}, got {sorted(unknown)}")
    sizes = {"num_draws": num_draws, "num_tables": num_tables, "num_proposals": num_proposals}
    for name, size in sizes.items():
        check_positive_integer(name, size)
    if isinstance(tables, Table | Neighbours):
        tables = [tables]
    if not tables:
        raise ValueError("tables must hold at least one table")
    key = keys.research_key(0) if key is None else key
    keys.check_single_key(key)

    lines: list[CheckLine] = []
    recipe = learner if isinstance(learner, Recipe) else None
    for table_index, tested in enumerate(tables):
        table = tested.table if isinstance(tested, Neighbours) else tested
        recipe = _recipe_for(learner, table, epsilon)
        case = _Case(
            where=f"table {table_index}",
            recipe=recipe,
            table=table,
            candidates=_candidates_or_default_rows(table, candidates),
            key=jax.random.fold_in(key, table_index),
            num_transcripts=num_transcripts,
        )
        if {"losses", "replays"} & set(aspects):
            if isinstance(tested, Neighbours):
                neighbours = tested
            else:
                neighbours = list_neighbours(table, recipe.relation, case.candidates)
            if "losses" in aspects:
                lines += _check_losses_of_transcripts_and_steps(case, neighbours)
            if "replays" in aspects:
                lines.append(_check_replayed_hypotheses_are_equal(case, neighbours))
        if "search" in aspects:
            lines.append(
                _check_worst_searched_table(
                    case, num_tables=num_tables, num_proposals=num_proposals
                )
            )
        if "noise" in aspects:
            lines += _check_noise_follows_densities(case, sites=sites, num_draws=num_draws)
    assert recipe is not None
    return report_or_fail(f"learner {recipe.learner.name}, recipe {recipe.name}", lines)


class _Case(NamedTuple):
    """A table that a recipe is checked on, with the candidates for its neighbours.

    Attributes:
        where: the words for the table in reports.
        recipe: one setting.
        table: N rows.
        candidates: the rows that may come.
        key: of all that is drawn.
        num_transcripts: how many are recorded.
    """

    where: str
    recipe: Recipe
    table: Table
    candidates: DomainRows
    key: Array
    num_transcripts: int


def _recipe_for(learner: Recipe | WeakLearner, table: Table, epsilon: float) -> Recipe:
    """The recipe to check: the given one, or one of two rounds of a weak learner.

    Raises:
        ValueError: for anything else, and as `recipes.custom`.
    """
    if isinstance(learner, Recipe):
        return learner
    if not isinstance(learner, WeakLearner):
        raise ValueError(
            "learner must be a weak learner or one setting of a recipe, as recipes.setting has it; "
            f"got {type(learner).__name__}"
        )
    is_replaced = learner.assumptions.relation is types.REPLACE_ONE
    rows = len(table.target) + (0 if is_replaced else 1)
    return custom(learner, epsilon=epsilon, rows=rows, rounds=2)


def _candidates_or_default_rows(table: Table, candidates: Any) -> DomainRows:
    """The rows that neighbours may gain: the given ones, or default ones of the table.

    By default they are all rows of a small domain, or else the rows of the table with each label.
    """
    if candidates is not None:
        return DomainRows(*candidates)
    if table.domain is not None and table.splits is not None and table.declared is None:
        num_labels = 2
        num_rows = num_labels * int(np.prod([kind.n_bins for kind in table.domain.values()]))
        if num_rows <= _MAX_DOMAIN_ROWS:
            return all_rows_of_domain(table.domain)
    bins = np.unique(np.asarray(table.bins), axis=0)
    labels = np.unique(np.asarray(table.target))
    if labels.dtype == bool:
        labels = np.array([False, True])
    return DomainRows(np.tile(bins, (len(labels), 1)), np.repeat(labels, len(bins)))


# Losses and replays.


def _check_losses_of_transcripts_and_steps(case: _Case, neighbours: Neighbours) -> list[CheckLine]:
    """Check the losses of recorded transcripts, and of steps in the worst case."""
    losses = exact_loss.audit_transcripts(
        case.key, neighbours, case.recipe, case.num_transcripts, with_worst_steps=True
    )
    where = f"{case.where}, {losses.num_neighbours} neighbours"
    total = abs(sum(losses.loss_by_site.values()))
    lines = [
        CheckLine(
            name="losses of sites add up",
            passed=abs(total - losses.largest_loss) <= 1e-6 * (1 + total),
            figure=total,
            limit=f"{losses.largest_loss:.4g}",
            where=where,
        )
    ]
    if float(np.asarray(case.recipe.delta)) == 0:
        lines.append(
            CheckLine(
                name="largest loss of a transcript",
                passed=losses.largest_loss <= losses.claimed_epsilon + SLACK,
                figure=losses.largest_loss,
                limit=f"at most {losses.claimed_epsilon:.4g}",
                where=where,
            )
        )
    sites_of_ledger = {line.site for line in ledger(case.recipe).lines}
    lines += [
        CheckLine(
            name=f"loss of a step of {site!r} / its claim",
            passed=0 <= ratio <= 1 + SLACK
            and set(losses.max_step_ratio_by_site) == sites_of_ledger,
            figure=ratio,
            limit="at most 1",
            where=where,
        )
        for site, ratio in losses.max_step_ratio_by_site.items()
    ]
    return lines


def _check_replayed_hypotheses_are_equal(case: _Case, neighbours: Neighbours) -> CheckLine:
    """Check that replays on neighbours give the hypotheses of the replay on the table."""
    table = without_domain(neighbours.table)
    recipe = without_domain(case.recipe)
    noise_key, public_key = keys.pair(case.key)
    transcript = boost(noise_key, table, recipe, public_key).transcript
    masks = np.concatenate([[np.asarray(table.present)], neighbours.present])

    def hypotheses_on(present: Array) -> Any:
        return replay(transcript, table._replace(present=present), recipe).hypotheses

    hypotheses = jax.vmap(hypotheses_on)(jnp.asarray(masks))
    num_different = sum(
        int(np.sum(np.any((array != array[:1]).reshape(len(masks), -1), axis=1)))
        for array in map(np.asarray, jax.tree.leaves(hypotheses))
    )
    return CheckLine(
        name="replays with other hypotheses",
        passed=num_different == 0,
        figure=num_different,
        limit="0",
        where=f"{case.where}, {len(neighbours.present)} neighbours",
    )


# The search for worse pairs.


def _check_worst_searched_table(case: _Case, *, num_tables: int, num_proposals: int) -> CheckLine:
    """Check that no table that a search finds has a step that loses more than its claim."""
    worst_ratio = worst_table_search.search_among_candidates(
        case.key,
        case.recipe,
        case.table,
        case.candidates,
        num_tables=num_tables,
        num_proposals=num_proposals,
    )
    num_searched = num_tables * (num_proposals + 1)
    return CheckLine(
        name="worst step of a searched pair / its claim",
        passed=worst_ratio <= 1 + SLACK,  # a NaN fails
        figure=worst_ratio,
        limit="at most 1",
        where=f"{case.where}, {num_searched} tables of {len(case.table.target)} rows",
    )


# Noise.


def _check_noise_follows_densities(
    case: _Case, *, sites: Sequence[str] | None, num_draws: int
) -> list[CheckLine]:
    """Check that samples follow their densities, and that a wrong noise would be noticed."""
    table = without_domain(case.table)
    recipe = without_domain(case.recipe)
    groups = tuple(sites) if sites is not None else tuple(recipe.params.noise)
    run_keys = jax.random.split(case.key, num_draws)

    def standard_errors_from_density(sampled: Recipe) -> dict[str, float]:
        wider = _with_noise_scaled(recipe, groups, _WIDER)
        ratios = _density_ratios(run_keys, table, sampled, recipe, wider)
        return {
            site: _standard_errors_from_one(np.asarray(ratios_of_site, np.float64))
            for site, ratios_of_site in ratios.items()
        }

    with_right_noise = standard_errors_from_density(recipe)
    with_wrong_noise = standard_errors_from_density(_with_noise_scaled(recipe, groups, _NARROWER))
    worst_site = max(with_right_noise, key=lambda site: abs(with_right_noise[site]))
    lines = [
        CheckLine(
            name="samples against their density (sigmas)",
            passed=abs(with_right_noise[worst_site]) < MAX_SIGMAS,
            figure=abs(with_right_noise[worst_site]),
            limit=f"below {MAX_SIGMAS}",
            where=f"{case.where}, site {worst_site!r}",
        )
    ]
    for group in groups:
        errors_of_group = [
            abs(errors) for site, errors in with_wrong_noise.items() if site.startswith(group)
        ]
        rejected_by = max(errors_of_group, default=0.0)
        lines.append(
            CheckLine(
                name=f"two thirds of the noise of {group!r} (sigmas)",
                passed=rejected_by > MAX_SIGMAS,
                figure=rejected_by,
                limit=f"above {MAX_SIGMAS}, so it is rejected",
                where=case.where,
            )
        )
    return lines


def _with_noise_scaled(recipe: Recipe, groups: Iterable[str], factor: float) -> Recipe:
    """Multiply the noise multipliers of some sites of a recipe by a factor."""
    prefixes = tuple(groups)
    noise = {
        site: multiplier * np.float32(factor) if site.startswith(prefixes) else multiplier
        for site, multiplier in recipe.params.noise.items()
    }
    return dataclasses.replace(recipe, params=recipe.params._replace(noise=noise))


@compilation.jit_with_bounded_cache()
def _density_ratios(
    run_keys: Array, table: Table, sampled: Recipe, scored: Recipe, wider: Recipe
) -> dict[str, Array]:
    """Ratios of a wider density to the claimed one, at sampled releases, site by site.

    Site -> f32[R], q / p of each release of the recipe `sampled`.

    p is the density that the ledger speaks of, of the recipe `scored`, and q that of the recipe
    `wider`, which has more noise. If releases have density p, the mean of q / p is exactly 1, site
    by site, as p and q condition on the same earlier outputs.
    """

    def density_ratio(key: Array) -> dict[str, Array]:
        noise_key, public_key = keys.pair(key)
        transcript = boost(noise_key, table, sampled, public_key).transcript
        p, q = (replay(transcript, table, recipe).log_prob for recipe in (scored, wider))
        return {site: jnp.exp(jnp.sum(q[site] - p[site])) for site in p}

    return jax.lax.map(density_ratio, run_keys, batch_size=1000)


def _standard_errors_from_one(ratios: np.ndarray) -> float:
    """By how many standard errors the mean of ratios differs from 1.

    It is infinite if all ratios are 0.
    """
    if not np.any(ratios > 0):
        return float("inf")
    standard_error = ratios.std() / np.sqrt(len(ratios))
    return float((ratios.mean() - 1) / standard_error) if standard_error > 1e-12 else 0.0
