"""Private tuning: the best of a random number of runs, each of a random candidate.

A run is a fit and a score. The score is one noisy draw from a sum over rows, by a private program
that reads the scores of the rows, as the program of an epilogue does. docs/privacy.md, T1 to T6,
has the proofs. `tune` makes a choice. Before it, and from public numbers alone, `planned_ledger`
computes its price, and `candidates` builds recipes for a price.
"""

from __future__ import annotations  # so that help() shows the types by their names

import dataclasses
import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int32, UInt64
from msgspec import structs

from dpbt import types
from dpbt.common import compilation
from dpbt.common.progress import show_progress
from dpbt.common.validate import check_interval
from dpbt.data import tables
from dpbt.models import file
from dpbt.models.model import FittedParts, Model
from dpbt.privacy import (
    boundary,
    conversions,
    keys,
    mechanisms,
    program_interpreters,
    recipe_ledger,
)
from dpbt.privacy.accounting import Ledger, Line
from dpbt.privacy.conversions import RunCountLaw
from dpbt.privacy.draw_dependencies import priced_draws_of_all_phases
from dpbt.privacy.mechanism_types import Allowance, Mechanism, Sensitivity
from dpbt.privacy.recipe_ledger import ledger
from dpbt.recipes.building import allowance_of_one_row, check_delta_or_fraction, setting
from dpbt.training import checks, table_preparation
from dpbt.training.author_code import recipe_identity_texts
from dpbt.training.boost import run_in_memory_with_fresh_draws
from dpbt.training.phases import fitted_parts_without_withheld_sites
from dpbt.types import (
    ADD_REMOVE,
    BINARY,
    GRID,
    Array,
    MultiProgramRecipe,
    Noise,
    Recipe,
    Relation,
    Table,
    View,
)

# Scores.

SITE = "score"

MAX_LOSS = 2.0
"""The largest loss of one row, in nats: a probability of 0.135 for its class, or less."""

_NATS_PER_STEP = MAX_LOSS / GRID


class Score(NamedTuple):
    """A kind of score: a private sum over rows, how it is drawn, and how it orders runs.

    Its sensitivity is `max_per_row` in every norm and relation. Proof. Fix the model. A row adds a
    whole number in 0..max_per_row. So a row that comes, goes or is replaced changes the sum by at
    most `max_per_row`. []

    Attributes:
        name: its name in ledgers.
        statistic: (rows, scores, public, loss) -> i32[], the private value.
        max_per_row: the largest number that one row adds.
        value: (its draw) -> the number that runs are ordered by; a larger one is better.
        releases: what a draw publishes, in words.
        unit: the unit of the sensitivity.
        required_loss: (recipe) -> the loss that the statistic needs; ValueError for a recipe
            without such a loss.
    """

    name: str
    statistic: Callable[..., Array]
    max_per_row: int
    value: Callable[[np.ndarray], float]
    releases: str
    unit: str
    required_loss: Callable[[Recipe], types.LossFamily | None]


def sum_of_log_losses(
    rows: types.PreparedRows, scores: Array, public: types.Public, loss: types.LossFamily
) -> Int32[Array, ""]:
    """i32[]: the sum of the log losses of present rows, each clipped and rounded to a grid.

    Its unit is `MAX_LOSS` / GRID nats.
    """
    proper_loss = loss(public.weight_params.link_alpha)
    probability = (proper_loss.probability or proper_loss.inverse_link)(scores)
    probability_of_target = jnp.where(rows.target, probability, 1 - probability)
    min_probability = jnp.float32(math.exp(-MAX_LOSS))
    nats = -jnp.log(jnp.clip(jnp.nan_to_num(probability_of_target), min_probability, 1))
    steps = jnp.clip(jnp.round(nats / np.float32(_NATS_PER_STEP)), 0, GRID).astype(jnp.int32)
    return jnp.sum(jnp.where(rows.present, steps, 0))


def loss_family_of_probabilities(recipe: Recipe) -> types.LossFamily:
    """The loss family of a recipe whose inverse link turns its scores into probabilities.

    Raises:
        ValueError: for a recipe without probabilities.
    """
    about, loss = file.public_facts_of_recipe(recipe), recipe.weight_update.loss
    if loss is None or about.probability is None:
        raise ValueError(f"a score needs probabilities: {about.reason or 'votes are no scores'}")
    return loss


LOG_LOSS = Score(
    name="log_loss",
    statistic=sum_of_log_losses,
    max_per_row=GRID,
    value=lambda draw: -_NATS_PER_STEP * float(draw),
    releases="the sum of their clipped log losses",
    unit=f"1/{GRID} of {MAX_LOSS:g} nats",
    required_loss=loss_family_of_probabilities,
)
"""The score of every choice."""


@functools.cache
def make_score_program(
    score: Score, noise: Mechanism, loss: types.LossFamily | None
) -> types.Program:
    """Make the private program that draws a score with noise.

    Its budget is a `types.Noise`.
    """

    def program(draw: boundary.Draw, rows: Any, scores: Array, params: Noise, public: Any) -> None:
        draw(
            SITE,
            noise,
            score.statistic(rows, scores, public, loss),
            sensitivity=noise.sensitivity_in_norm(
                Sensitivity(l1=score.max_per_row, l2=score.max_per_row)
            ),
            moved_outputs=1,
            theorem="dpbt theorem T6",
            releases=score.releases,
            unit=score.unit,
        )

    return program


# The number of runs, which is drawn by exact arithmetic from 256 bits of the key.

_COUNT_WORDS = 8
_MIN_PROBABILITY = Decimal(10) ** -90
"""A smaller probability ends the search; the sum of all later ones is below 2^-200."""


def draw_run_count(key: Array, run_count: RunCountLaw) -> int:
    """Draw K, the private number of runs, from its law.

    It inverts the distribution function of K at 256 random bits. Nothing truncates it. The law of
    the result is within 2^-200 of `run_count` in total variation (`accounting.COUNT_DISTANCE`). The
    reason is that each value's probability is off by at most 2^-256 and the rounding of 120 digits,
    and fewer than 2^22 values are not below 10^-90.

    Args:
        key: one typed key, used for nothing else.
        run_count: the law of K.
    """
    words = np.asarray(keys.random_words(key, _COUNT_WORDS, ()), ">u4").tobytes()
    return quantile_of_run_count(
        run_count, position=int.from_bytes(words, "big"), num_bits=32 * _COUNT_WORDS
    )


def quantile_of_run_count(run_count: RunCountLaw, *, position: int, num_bits: int) -> int:
    """The k at which the distribution function of K first exceeds position / 2^num_bits."""
    if run_count.gamma == 1:
        return 1
    with localcontext() as context:
        context.prec = 120
        gamma, eta = Decimal(run_count.gamma), Decimal(run_count.eta)
        log_inverse_gamma = -gamma.ln()
        if run_count.eta == 0:
            probability = (1 - gamma) / log_inverse_gamma
        else:
            probability = (1 - gamma) * eta / ((eta * log_inverse_gamma).exp() - 1)
        level = Decimal(position) / Decimal(2) ** num_bits

        k, cumulative = 1, probability
        while cumulative <= level and probability > _MIN_PROBABILITY:
            probability *= (1 - gamma) * (k + eta) / (k + 1)
            cumulative += probability
            k += 1
    return k


# Choices.


@dataclasses.dataclass(frozen=True)
class Selection:
    """The public rules by which a choice tries and scores candidates.

    Build one with `selection`.

    Attributes:
        score: the name of the score, "log_loss".
        count: the law of the number of runs.
        held_out: the share of rows that are scored on and not learned from; None if all rows are
            both.
        score_fraction: the share of a run's budget that its score gets where a run costs the sum.
        seed: the seed of the rule that holds rows out.
    """

    score: str
    count: RunCountLaw
    held_out: float | None
    score_fraction: float
    seed: int

    def fit_and_score_read_disjoint_rows(self, relation: Relation) -> bool:
        """Whether neighbours differ in the rows of the fit alone or in those of the score alone.

        Then a run costs the dearer of fit and score, and else their sum. It is so where rows are
        held out, under add/remove: a row that comes or goes is in one part. Under replace-one the
        old row may be in one part and the new one in the other.
        """
        return self.held_out is not None and relation is ADD_REMOVE


def selection(
    *,
    mean: float = 5.0,
    eta: float = -0.5,
    held_out: float | None = 0.25,
    score_fraction: float = 0.1,
    seed: int = 0,
) -> Selection:
    """Make the rules by which `tune` chooses: the law of its runs, and the rows that it scores.

    A score is the sum of the log losses of rows, each at most 2 nats.

    A pure guarantee costs 2 + eta times a run, whatever the mean. A guarantee with a delta costs
    more for a larger mean.

    Args:
        mean: the mean number of runs, at least 1. The number itself is random and has no bound.
        eta: the shape of its law, in -0.9..100: 0 is logarithmic and 1 geometric.
        held_out: the share of rows that are scored on and not learned from, in (0, 1). None learns
            from all rows and scores on all rows.
        score_fraction: the share of a run's budget that goes to its score, in (0, 1). It counts
            where a run costs the sum of fit and score: under replace-one, or without held-out rows.
            Elsewhere the score costs as much as the fit.
        seed: the seed of the rule that holds rows out, a whole number in 0..2^32 - 1. It is not a
            secret.

    Raises:
        ValueError: for a value outside these ranges, named with what was given.
    """
    if held_out is not None:
        held_out = float(check_interval("held_out", held_out, "(0, 1)"))
    return Selection(
        score=LOG_LOSS.name,
        count=conversions.run_count_law_of_mean(mean, eta),
        held_out=held_out,
        score_fraction=float(check_interval("score_fraction", score_fraction, "(0, 1)")),
        seed=int(check_interval("seed", seed, f"[0, {2**32 - 1}]", whole_numbers=True)),
    )


Candidates = Recipe | MultiProgramRecipe | Sequence[Recipe | MultiProgramRecipe]
"""One or several recipes, each of one setting or with axes of settings."""


def check_and_list_single_settings(recipes: Candidates) -> list[Recipe]:
    """List every setting of one or several recipes, and check that they go together.

    Raises:
        ValueError: for no recipe, something that is none, or recipes that differ in the numbers of
            which a choice has one: rows, delta, relation and max_rows_per_user. Also for a recipe
            whose calibration reads private data without a mechanism, or that predicts anything but
            two classes.
    """
    is_one = isinstance(recipes, Recipe | MultiProgramRecipe)
    recipe_list: list[Any] = [recipes] if is_one else list(recipes)
    if not recipe_list or not all(
        isinstance(recipe, Recipe | MultiProgramRecipe) for recipe in recipe_list
    ):
        raise ValueError("recipes must be one or several recipes, as dpbt.recipes makes them")
    singles = [
        setting(recipe, index) if index else recipe
        for recipe in recipe_list
        for index in np.ndindex(recipe.shape)
    ]
    for single in singles:
        if single.learner.response != BINARY:
            raise ValueError(f"a choice is among recipes of two classes, and {single.name} is none")
        if single.learner.unprotected:
            raise ValueError(f"{single.name} reads private data without a mechanism; nothing pays")
        for name in ("rows", "delta", "relation", "max_rows_per_user"):
            if getattr(single, name) != getattr(singles[0], name):
                raise ValueError(f"all candidates must have the same {name}")
    return singles


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChoicePlan:
    """The score, the noise and the cost of a choice, which follow from public numbers.

    Attributes:
        choice: the public facts about the choice.
        score: the kind of score.
        params: the noise of the score.
        line: the line of the score in the ledger.
        programs: for each candidate the private program that scores its models.
    """

    choice: conversions.Choice
    score: Score
    params: Noise
    line: Line
    programs: tuple[types.Program, ...]


def plan_choice(candidates: Sequence[Recipe], selection: Selection) -> ChoicePlan:
    """Plan a choice: the noise of the score, its programs, and what it costs.

    Args:
        candidates: single settings of recipes (`check_and_list_single_settings`).
        selection: how they are tried and scored.

    Raises:
        ValueError: for a recipe that gives no probabilities, and as `dpbt.ledger`.
    """
    first, score = candidates[0], LOG_LOSS
    fit_ledgers = [ledger(candidate) for candidate in candidates]
    disjoint = selection.fit_and_score_read_disjoint_rows(first.relation)
    choice = conversions.choice_among_fits(
        fit_ledgers,
        selection.count,
        score=score.name,
        num_candidates=len(candidates),
        disjoint=disjoint,
    )
    noise = mechanisms.rounded_gaussian if first.delta > 0 else mechanisms.discrete_laplace

    # The score costs as much as the fit, or its share of the sum.
    score_over_fit = selection.score_fraction / (1 - selection.score_fraction)
    if disjoint:
        score_over_fit = 1.0
    zero = np.asarray(0.0)
    fit_allowance = Allowance(epsilon=np.asarray(choice.epsilon), rho=zero)
    if first.delta > 0:
        fit_allowance = Allowance(epsilon=zero, rho=np.asarray(choice.rho))
    score_allowance = allowance_of_one_row(
        fit_allowance.times(score_over_fit), first.max_rows_per_user
    )
    params = Noise({SITE: noise.noise_multiplier(score_allowance)})
    programs = tuple(
        make_score_program(score, noise, score.required_loss(candidate)) for candidate in candidates
    )
    spec = program_interpreters.describe_draws(programs[0], _view_of_absent_row(params, first))[
        SITE
    ]
    line = recipe_ledger.ledger_line_of_spec(spec, params.noise, first.max_rows_per_user)
    return ChoicePlan(choice=choice, score=score, params=params, line=line, programs=programs)


def _view_of_absent_row(params: Noise, recipe: Recipe) -> View:
    """The view of one absent row, on which the draw of a score is described."""
    absent = jnp.zeros(1, bool)
    rows = Table(jnp.zeros((1, 1), jnp.uint8), absent, absent)
    return View(rows, jnp.zeros(1, jnp.float32), params, recipe.public())


def planned_ledger(recipes: Candidates, selection: Selection) -> Ledger:
    """The ledger of a choice before it takes place.

    Its lines are those of the first candidate. The guarantee is priced by the dearest candidate and
    by the law of the number of runs (`conversions.choice_among_fits`).

    Args:
        recipes: the candidates, as `dpbt.tune` takes them.
        selection: how they are tried and scored.

    Raises:
        ValueError: as `check_and_list_single_settings` and `plan_choice`.
    """
    singles = check_and_list_single_settings(recipes)
    plan, fit_ledger = plan_choice(singles, selection), ledger(singles[0])
    lines = *fit_ledger.lines, plan.line
    return structs.replace(fit_ledger, lines=lines, choice=plan.choice)


_MAX_PLANS = 20
"""The largest number of choices that `candidates` plans to find one that costs the total."""


def candidates(
    build: Callable[..., Recipe],
    selection: Selection,
    *,
    grid: Mapping[str, Sequence[Any]],
    epsilon: float,
    delta: float = 0.0,
    relation: str | Relation = ADD_REMOVE,
    **options: Any,
) -> list[Recipe]:
    """Build a candidate for each combination of a grid, for a total budget of their choice.

    A choice among them costs at most (epsilon, delta). The function searches the epsilon of a run,
    and builds every candidate with it. So `epsilon` is the total, as for every recipe.

    Args:
        build: a recipe's function, such as `recipes.oblivious_boost`.
        selection: the one that `dpbt.tune` gets.
        grid: argument of `build` -> its values; the candidates are all combinations.
        epsilon: the total budget of the choice, above 0.
        delta: the delta of the choice; 0 for a pure guarantee, else in (0, 1).
        relation: "add_remove" or "replace_one".
        **options: the other arguments of `build`, such as rows and domain.

    Raises:
        ValueError: for a value outside these ranges, and as `build` and `plan_choice`.
    """
    epsilon = float(check_interval("epsilon", epsilon, "(0, inf]"))
    delta = float(check_delta_or_fraction("delta", delta))
    relation = types.as_relation(relation)
    if not grid or not all(len(values) for values in grid.values()):
        raise ValueError("grid must have an argument, and values for each of its arguments")
    combinations = [
        dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
    ]

    def build_candidates(run_epsilon: float) -> list[Recipe]:
        return [
            build(epsilon=run_epsilon, delta=delta, relation=relation, **options, **values)
            for values in combinations
        ]

    search = conversions.build_within_cost(
        build_candidates,
        lambda recipes: planned_ledger(recipes, selection).epsilon,
        max_cost=epsilon,
        first_epsilon=epsilon,
        cost_power=1,  # costs are nearly proportional to epsilon, where finite
        max_builds=_MAX_PLANS,
    )
    if search.built is None:
        raise ValueError(f"no epsilon of a run was found whose choice costs at most {epsilon:g}")
    return search.built


# A choice.

RUNS_IN_FLIGHT = 4
"""The number of runs that start before their results are read, so that they share the cores."""


class Tuned(NamedTuple):
    """The best model of a choice with its noisy score, as `tune` releases them.

    Attributes:
        model: the model of the best run. Its ledger is that of the choice.
        candidate: the index of its recipe among the candidates.
        score: its noisy score, minus the sum of log losses in nats; a larger score is better. The
            best of several noisy scores looks better than it is.
    """

    model: Model
    candidate: int
    score: float


def tune(
    key: Array,
    table: Table,
    recipes: Candidates,
    selection: Selection,
    public_key: Array | None = None,
    *,
    verbose: bool = False,
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
        verbose: print the number of candidates on standard error. The number of runs is private, so
            progress shows neither runs nor seconds.

    Raises:
        ValueError: if any of these does not hold. The only private check is of the number of
            present rows. Errors show no cell and no length of the table.
    """
    singles = check_and_list_single_settings(recipes)
    plan = plan_choice(singles, selection)
    for single in singles:
        checks.check_table_and_recipe(table, single)
    if table.weight is not None:
        raise ValueError("a choice takes no weights of rows or of classes")
    table = table_preparation.move_table_to_device(table)
    num_present = int(np.sum(np.asarray(table.present)))
    checks.check_number_of_rows(singles[0], num_present=num_present, capacity=table.bins.shape[0])

    program_recipes = _recipes_that_share_programs(singles)
    distinct = {types.compilation_signature(recipe): recipe for recipe in program_recipes}
    for recipe in distinct.values():
        checks.check_keys(key, recipe, public_key)
        checks.check_declared_independence_of_scores(recipe)

    choice_key = keys.fold_in_words(
        key, np.zeros(0, np.uint32), _choice_identity(singles, selection, plan)
    )
    with show_progress(f"choosing among {len(singles)} candidates", verbose, shows_clock=False):
        rows = _split_into_learning_and_scoring_rows(
            table_preparation.without_domain(table), selection
        )
        best = _run_all_and_choose_best(
            choice_key, rows, recipes=program_recipes, plan=plan, public_key=public_key
        )
    fitted_parts = jax.tree.map(jnp.asarray, best.fitted_parts)
    model = Model.from_run(
        fitted_parts, singles[best.candidate], table, key_purpose=keys.key_purpose(key)
    )
    keys.warn_if_research_key(key)
    return Tuned(
        model=dataclasses.replace(model, choice=(plan.choice, plan.line)),
        candidate=best.candidate,
        score=best.score,
    )


def _recipes_that_share_programs(singles: Sequence[Recipe]) -> list[Recipe]:
    """Give recipes one `max_rounds` and no texts, so that as many as can share a program.

    The `max_rounds` is at least that of each of them. Recipes with equal static parts share a
    compiled program.
    """
    max_rounds = tables.round_up_to_bucket(max(single.max_rounds for single in singles))
    return [
        dataclasses.replace(single, max_rounds=max_rounds, options_text="", name="", domain=None)
        for single in singles
    ]


def _choice_identity(singles: Sequence[Recipe], selection: Selection, plan: ChoicePlan) -> str:
    """A text with every public number of a choice, which enters its key.

    So choices under one key are independent. If two choices shared noise at two scales, their
    releases would reveal private statistics.
    """
    digest = hashlib.sha256()
    for recipe in singles:
        digest.update(" | ".join(recipe_identity_texts(recipe)).encode())
        for leaf in map(np.asarray, jax.tree.leaves(recipe)):
            digest.update(f"{leaf.dtype}{leaf.shape}".encode() + leaf.tobytes())
    scale = float(plan.line.scale).hex()
    return f"{selection!r} | {plan.line.mechanism} {scale} | {digest.hexdigest()}"


class ScoredRun(NamedTuple):
    """A finished run, whose results are on the host.

    Attributes:
        score: the number that runs are ordered by.
        candidate: the index of its recipe among the candidates.
        fitted_parts: the release of its fit, and its model.
    """

    score: float
    candidate: int
    fitted_parts: FittedParts


def _run_all_and_choose_best(
    choice_key: Array,
    rows: SplitRows,
    *,
    recipes: Sequence[Recipe],
    plan: ChoicePlan,
    public_key: Array | None,
) -> ScoredRun:
    """Draw K, make K runs of random candidates, and return the run of the largest score.

    Among equal scores it is the first run. Runs are exchangeable, so which one that is tells
    nothing (docs/privacy.md).
    """
    count_key, candidate_key, runs_key = jax.random.split(choice_key, 3)
    num_runs = draw_run_count(count_key, plan.choice.run_count_law)
    candidates = (
        _draw_candidate_of_run(candidate_key, run, len(recipes)) for run in range(num_runs)
    )
    started_runs = (
        _StartedRun(
            candidate=candidate,
            results=_fit_and_score(
                _fold_in(runs_key, run),
                rows,
                recipes[candidate],
                score_params=plan.params,
                public_key=public_key,
                score_program=plan.programs[candidate],
                priced=priced_draws_of_all_phases(recipes[candidate]),
            ),
        )
        for run, candidate in enumerate(candidates)
    )
    best: ScoredRun | None = None
    while group := list(itertools.islice(started_runs, RUNS_IN_FLIGHT)):
        for started in group:
            run = _copy_run_to_host(started, plan.score)
            best = run if best is None or run.score > best.score else best
    assert best is not None  # K is at least 1
    return best


class _StartedRun(NamedTuple):
    """A run that may still be in progress on the device.

    Attributes:
        candidate: the index of its recipe among the candidates.
        results: the results of its fit and of its score, on the device.
    """

    candidate: int
    results: FitAndScore


def _copy_run_to_host(started: _StartedRun, score: Score) -> ScoredRun:
    """Wait for a started run, and copy its results to the host."""
    fitted_parts, score_draw = jax.device_get(started.results)
    return ScoredRun(
        score=score.value(score_draw), candidate=started.candidate, fitted_parts=fitted_parts
    )


def _draw_candidate_of_run(key: Array, run: int, num_candidates: int) -> int:
    """Draw the index of the candidate that a run fits.

    It is 64 random bits modulo the number of candidates. It does not depend on the rows.
    """
    words = np.asarray(_two_words(_fold_in(key, run)), ">u4").tobytes()
    return int.from_bytes(words, "big") % num_candidates


_fold_in = jax.jit(jax.random.fold_in)
_two_words = jax.jit(lambda key: jax.random.bits(key, (2,), jnp.uint32))


class SplitRows(NamedTuple):
    """The rows that fits read and the rows that scores read.

    Attributes:
        learning: a table in which the rows for fits are present.
        scoring: a table of the same shape in which the rows for scores are present.
    """

    learning: Table
    scoring: Table


class FitAndScore(NamedTuple):
    """The fitted parts and the drawn score of one run.

    Attributes:
        fitted_parts: the release of the fit, and its model.
        score_draw: i32[], the draw of the score.
    """

    fitted_parts: FittedParts
    score_draw: Array


def fit_and_score(
    key: Array,
    rows: SplitRows,
    recipe: Recipe,
    *,
    score_params: Noise,
    public_key: Array | None,
    score_program: types.Program,
) -> FitAndScore:
    """Fit a model on the rows for learning, and draw its score; traceable.

    The score depends on the fit through its release alone, so a run is the adaptive composition of
    two mechanisms, and each reads its share of the rows. The scores of the rows do not leave.
    """
    fit_key, score_key = jax.random.split(key)
    fit = run_in_memory_with_fresh_draws(
        fit_key, table_preparation.prepare_table(rows.learning, recipe), recipe, public_key
    )
    assert fit.scores is not None
    present = table_preparation.keep_first_present_rows(rows.scoring.present, recipe)
    scoring = rows.scoring._replace(present=present)
    view = View(scoring, fit.scores[0], score_params, recipe.public())
    fitted_parts = fitted_parts_without_withheld_sites(
        recipe, releases=fit.records, hypotheses=fit.hypotheses, intercept=fit.intercept
    )
    score_draw = program_interpreters.sample_release(score_program, score_key, None, view)[SITE]
    return FitAndScore(fitted_parts=fitted_parts, score_draw=score_draw)


_fit_and_score = compilation.jit_with_bounded_cache(
    static_argnames=("score_program",), cache_key_argnames=("priced",)
)(fit_and_score)


# Held-out rows: a rule on each row alone, under a public seed, selects them.


def _split_into_learning_and_scoring_rows(table: Table, selection: Selection) -> SplitRows:
    """Split a table into the rows that fits read and the rows that scores read.

    Both are padded with absent rows to a bucket of lengths.
    """
    learning = scoring = table.present
    if selection.held_out is not None:
        held_out = jnp.asarray(is_held_out(table, selection.held_out, selection.seed))
        learning, scoring = table.present & ~held_out, table.present & held_out
    return SplitRows(
        learning=tables.pad_rows_to_bucket(table._replace(present=learning)),
        scoring=tables.pad_rows_to_bucket(table._replace(present=scoring)),
    )


_SPLITMIX_INCREMENT = np.uint64(0x9E3779B97F4A7C15)


def _splitmix_finalise(words: np.ndarray) -> UInt64[np.ndarray, "..."]:
    """u64[...]: mix the bits of words by the finaliser of SplitMix64, a bijection.

    The source is Steele, Lea & Flood (2014).
    """
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def is_held_out(table: Table, share: float, seed: int) -> Bool[np.ndarray, "N"]:
    """bool[N]: whether each row is held out, for scores instead of for fits.

    It is a hash of the row's bins and target under a public seed, so it depends on that row alone.
    Equal rows go together. No secret is needed: any rule on one row serves the proof.

    Args:
        table: N rows.
        share: the share of all possible rows that is held out, in (0, 1).
        seed: public, a whole number in 0..2^32 - 1.
    """
    target = np.asarray(table.target)
    state = _splitmix_finalise(np.full(target.shape, seed, np.uint64) + _SPLITMIX_INCREMENT)
    for column in [*np.asarray(table.bins).T, target]:
        words = column.view(np.uint32) if column.dtype == np.float32 else column
        state = _splitmix_finalise((state ^ words.astype(np.uint64)) + _SPLITMIX_INCREMENT)
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53 < share
