"""The recipe that sets all of its numbers: oblivious trees, with a rule of public quantities.

The constants of the rule are below, each with what it is. They were settled together, on the tables
and in the steps that docs/accuracy.md ("How its numbers were settled") names; where one choice was
measured by itself, its constant says what was found.
"""

from __future__ import annotations  # so that help() shows ArrayLike by its name

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbt import types
from dpbt.data import column_types, domains
from dpbt.data.column_types import Target
from dpbt.data.domains import Domain
from dpbt.privacy import conversions
from dpbt.recipes.bins import BinsTask, OneTimeDraws, split_attributes_of_domain
from dpbt.recipes.building import PrivacyRequest, checked_privacy_request
from dpbt.recipes.programs import multi_program_recipe
from dpbt.recipes.trees_over_bins import TreeNumbers, TreeStructure, oblivious_recipe

# The constants of the rule.


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepTotals:
    """The deviation that the noise of all rounds together adds to the score of a row.

    The noise of a score of T rounds has variance T step^2 where noise dominates each leaf, so a
    round has the step total / sqrt(T).

    Attributes:
        binary: for two classes, in nats.
        several_classes: for each of several classes, in nats. A row's residuals are shared by K
            scores, so it is about two thirds of that of two classes.
        number: for a number, in spreads. Squared error counts the noise of a score, where ranking
            counts its order alone, so it is a quarter to a third of that of two classes.
    """

    binary: float
    several_classes: float
    number: float

    def of_response(self, response: types.Response) -> float:
        """That of a response."""
        if response.is_number:
            return self.number
        return self.binary if response == types.BINARY else self.several_classes


@dataclasses.dataclass(frozen=True, kw_only=True)
class CoarseRule:
    """What differs for two classes where not nearly all columns are fine, as in data about people.

    The columns of such a table mostly act on their own, its classes overlap, and its rows are few.
    Small steps and trees of few splits suit it. The numbers were settled on eighteen tables about
    people, and docs/frontier.md has what each choice gains.

    Attributes:
        rounds_at_reference: as `SignalRule`.
        reference_signal: as `SignalRule`.
        rounds_power: the power of the signal with which T grows.
        step_reference_signal: up to this signal, steps are `MIN_COARSE_STEP` of those of
            `SignalRule.step_totals`; from there they grow with the power `COARSE_STEP_POWER`, up to
            `MAX_COARSE_STEP`.
        min_signal_of_deeper_trees: trees have `COARSE_DEEP` splits from this signal on, if there
            are histograms.
    """

    rounds_at_reference: float
    reference_signal: float
    rounds_power: float
    step_reference_signal: float
    min_signal_of_deeper_trees: float

    def share_of_step(self, signal: float) -> float:
        """The share of the step of a table of fine columns that a step has."""
        growth = (signal / self.step_reference_signal) ** COARSE_STEP_POWER
        return float(np.clip(MIN_COARSE_STEP * growth, MIN_COARSE_STEP, MAX_COARSE_STEP))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SignalRule:
    """What the rule makes of the strength of the signal, under one kind of noise.

    The signal is n mu for Gaussian noise and n eps for Laplace noise, see
    `signal_to_noise_strength`.

    Attributes:
        rounds_at_reference: T where the signal is `reference_signal`. T grows from there with the
            power `ROUNDS_POWER` of the signal.
        reference_signal: as above.
        min_rounds: T is at least this.
        max_rounds: T is at most this. Four times the rounds at epsilon 5 gain 0.001 to 0.004, which
            is not worth the time.
        rounds_power_of_classes: with K > 2 classes there are (2 / K)^power times as many rounds.
        step_totals: how far the noise of all rounds together moves a score. Steps a quarter larger
            were up to 0.003 worse in accuracy.
        max_relative_histogram_noise: the class histograms are drawn where their noise, as a share
            of the signal, is below this: sqrt(F) / (n mu), or F / (n eps).
        min_signal_of_deep_trees: trees of two classes over fine columns have `DEEP` splits from
            this signal on, if there are histograms.
        min_signal_of_number: below this signal the model of a number or of a count is a constant.
        coarse: what differs where not nearly all columns are fine.
    """

    rounds_at_reference: float
    reference_signal: float
    min_rounds: int
    max_rounds: int
    rounds_power_of_classes: float
    step_totals: StepTotals
    max_relative_histogram_noise: float
    min_signal_of_deep_trees: float
    min_signal_of_number: float
    coarse: CoarseRule


ROUNDS_POWER = 0.42
"""The power of the signal with which the number of rounds grows.

Half or twice the rounds are within 0.005 in accuracy and AUROC, so it need not be exact.
"""

GAUSSIAN_RULE = SignalRule(
    rounds_at_reference=64,
    reference_signal=8.9,
    min_rounds=8,
    max_rounds=1024,
    rounds_power_of_classes=0.0,
    step_totals=StepTotals(binary=1.3, several_classes=0.9, number=0.3),
    max_relative_histogram_noise=0.016,
    min_signal_of_deep_trees=1200,
    min_signal_of_number=40,
    coarse=CoarseRule(
        rounds_at_reference=64,
        reference_signal=8.9,
        rounds_power=ROUNDS_POWER,
        step_reference_signal=500,
        min_signal_of_deeper_trees=10_000,
    ),
)
"""With a delta. The noise of T rounds grows with the root of T."""

LAPLACE_RULE = SignalRule(
    rounds_at_reference=64 / 11,
    reference_signal=43,
    min_rounds=4,
    max_rounds=128,
    rounds_power_of_classes=ROUNDS_POWER,
    step_totals=StepTotals(binary=1.6, several_classes=0.9, number=0.5),
    max_relative_histogram_noise=0.008,
    min_signal_of_deep_trees=10_000,
    min_signal_of_number=200,
    coarse=CoarseRule(
        rounds_at_reference=4,
        reference_signal=100,
        rounds_power=0.57,
        step_reference_signal=2500,
        min_signal_of_deeper_trees=50_000,
    ),
)
"""Under a pure guarantee. The noise of T rounds grows with T, so there are fewer of them."""

ATTRIBUTES_PER_TREE = (2, 3, 4)
"""How many attributes the trees ask, in turn.

One a tree loses 0.015 in accuracy on average, and other mixtures are within 0.005.
"""

SHALLOW = 6
"""How many splits a tree has; 5 or 7 are within 0.005 in accuracy and AUROC."""

DEEP = 10
"""How many splits a tree of two classes has where rows are many for the noise.

On twelve data sets AUROC is 0.003 to 0.006 higher than with 6 splits, from epsilon = 0.5 on.
"""

MIN_BINS_OF_FINE_COLUMN, MIN_SHARE_OF_FINE_COLUMNS = 32, 0.9
"""A column in order of at least so many bins is fine, and a table is where such a share of them is.

Tables of instruments have fine columns alone, which act together; in tables about people, columns
of a few values stand beside them. Of 39 tables, those where deep trees and large steps gain most
(brain waves, particles) have fine columns alone, and no table about people had more than 0.87.
"""

COARSE_DEEP = 8
"""How many splits a tree has where columns are not fine and rows are very many for the noise."""

MIN_COARSE_STEP, MAX_COARSE_STEP, COARSE_STEP_POWER = 0.5, 0.75, 0.15
"""The shares of the step where columns are not fine, and the power of the signal between them."""

DEEP_STRUCTURES = 256
"""After how many trees the splits of deep trees repeat, so that a model stays small.

They cost 0.0006 of AUROC at epsilon = 1, and 128 would cost 0.002.
"""

LIMIT_IN_STEPS, MAX_LIMIT = 4.0, 0.6
"""A leaf moves a score by at most four steps, and by at most 0.6 nats or spreads."""

MARGINALS_FRACTION = 0.1
"""The share of the budget for the class histograms, where they are drawn."""

SCORES_FRACTION = 0.03
"""The share of the budget for the scores by class.

They lower log loss by 0.02 to 0.05, and cost about 0.001 of accuracy and of AUROC.
"""

RESIDUALS_FRACTION = 0.05
"""The share of the budget for the sums of the final residuals of a number."""

MIN_TARGET_FRACTION, MAX_TARGET_FRACTION = 0.03, 0.2
"""The least and the largest share of the budget for the histogram of a number."""

TARGET_SIGNAL_TO_NOISE = 60.0
"""How far all rows of a number stand above the noise of a bin, within the bounds on the share."""

TARGET_BINS_PER_ROOT = 3.0
"""The histogram of a number has a power of 2 of bins near this times the root of the same ratio."""

MIN_TARGET_BINS, MAX_TARGET_BINS = 8, 64
"""The least and the most bins of the histogram of a number."""

TARGET_FRACTION_OF_CONSTANT, RESIDUALS_FRACTION_OF_CONSTANT = 0.5, 0.4
"""The shares of the budget for the histogram and for the sums where the model is a constant.

The rest goes to one round, whose tree moves no score. With the shares of other models the constant
would be far worse: at 600 rows and a pure epsilon of 0.2 its R^2 is -0.20 in place of -0.01.
"""

UNREAD_TARGET_FRACTION, UNREAD_TARGET_BINS = 0.1, 32
"""What the numbers say of the histogram of a number where classes are predicted: nothing reads it.

They are the defaults of `oblivious_boost`.
"""

# Without noise.

NOISELESS_STEP, NOISELESS_LIMIT = 0.1, 0.2
"""The step and the limit of a leaf, in nats or in spreads, where nothing is private."""

NOISELESS_ROUNDS, NOISELESS_ROUNDS_OF_TWO_CLASSES = 1024, 1536
"""T where nothing is private."""

NOISELESS_ATTRIBUTES_OF_TWO_CLASSES = (3, 4, 5, 6)
"""How many attributes the trees of two classes ask, in turn, where nothing is private."""


# The rule.


@dataclasses.dataclass(frozen=True, kw_only=True)
class AutoNumbers:
    """The numbers that `auto` chooses; each may have axes of settings, see `oblivious_boost`.

    Attributes:
        rounds: T.
        step: as `oblivious_boost`.
        limit: as `oblivious_boost`.
        structure: the static options of the trees.
        one_time_draws: what is drawn once, and its share of the budget.
    """

    rounds: Any
    step: Any
    limit: Any
    structure: TreeStructure
    one_time_draws: OneTimeDraws

    @property
    def has_histograms(self) -> bool:
        """Whether one setting has class histograms before its first round."""
        return bool(self.one_time_draws.marginals_fraction > 0)

    @property
    def static_parts(self) -> tuple[Any, ...]:
        """What the program of one setting depends on."""
        return self.structure, self.has_histograms, self.one_time_draws.target_bins

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `oblivious_boost` that it sets, by name."""
        return {
            "rounds": self.rounds,
            "step": self.step,
            "limit": self.limit,
            **dataclasses.asdict(self.structure),
            **dataclasses.asdict(self.one_time_draws),
        }


def signal_to_noise_strength(
    *,
    epsilon: float,
    delta: float,
    rows: float,
    relation: types.Relation,
    max_rows_per_user: int,
) -> float:
    """How strong the signal of all rows is beside the noise: n eps, or n mu with a delta.

    A replaced row is two rows, so it is halved under replace-one. It is k times smaller if a person
    has k rows.

    Args:
        epsilon: above 0, finite.
        delta: 0, or in (0, 1).
        rows: m.
        relation: the neighbouring relation.
        max_rows_per_user: k.
    """
    changed_rows = (2 if relation is types.REPLACE_ONE else 1) * max_rows_per_user
    strength_of_row = float(conversions.gdp_mu(epsilon, delta)) if delta > 0 else epsilon
    return rows * strength_of_row / changed_rows


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnCounts:
    """What the rule reads of a domain.

    Attributes:
        num_columns: F.
        num_fine: how many columns are in order and have at least `MIN_BINS_OF_FINE_COLUMN` bins.
    """

    num_columns: int
    num_fine: int

    @property
    def are_fine(self) -> bool:
        """Whether nearly all columns are fine."""
        return self.num_fine >= MIN_SHARE_OF_FINE_COLUMNS * self.num_columns


def count_columns(domain: Domain) -> ColumnCounts:
    """How many columns a domain has, and how many of them are fine."""
    attributes = split_attributes_of_domain(domain)
    fine = [each.ordered and each.n_bins >= MIN_BINS_OF_FINE_COLUMN for each in attributes]
    return ColumnCounts(num_columns=len(attributes), num_fine=sum(fine))


def choose_numbers(
    *,
    epsilon: float,
    rows: float,
    columns: ColumnCounts,
    delta: float = 0.0,
    relation: types.Relation = types.ADD_REMOVE,
    max_rows_per_user: int = 1,
    response: types.Response = types.BINARY,
    allows_constant: bool = True,
) -> AutoNumbers:
    """The numbers of oblivious trees, from public quantities alone.

    What decides is the strength of the signal (`signal_to_noise_strength`): n eps for Laplace
    noise, n mu for Gaussian noise. `GAUSSIAN_RULE` and `LAPLACE_RULE` have what differs between
    them.

    - *Rounds.* The noise of a score is that of one tree, whatever T is, as long as noise dominates
      each leaf. More trees average over more partitions, so T grows with the signal. Laplace noise
      grows with T where Gaussian noise grows with its root, so pure recipes have fewer trees.
    - *Step.* The noise of a score has variance T step^2, so step falls with the root of T.
    - *Histograms.* They say where rows are, give scores a start and leaves a denominator. They pay
      where their noise, F / (n eps) or sqrt(F) / (n mu), is small.
    - *Columns.* Where more than a tenth of the columns are not fine, as in tables about people, two
      classes have half of the step, or a little more where rows are many, and trees of 6 splits, or
      of 8 where rows are very many. Pure recipes have fewer trees there. On the nine tables about
      people that judge the rule AUROC is 0.005 to 0.015 higher (docs/frontier.md).
    - *Depth.* Where rows are many for the noise, columns are fine and histograms put splits at
      their quantiles, trees of 10 splits see more than trees of 6. On twelve data sets AUROC is
      0.003 to 0.006 higher from epsilon = 0.5 on. Their 256 structures are used in turn, so that a
      model stays small. Several classes and numbers keep 6: firmteacher, of 16 Boolean columns and
      4 classes, loses 0.15 of AUROC to deeper trees, and wine-white 0.03 of R^2.
    - *Scores by class.* Three hundredths of the budget make probabilities true. That costs about
      0.001 of AUROC.
    - *Several classes.* A row's residuals are shared by K scores, so steps are two thirds of those
      above, and pure recipes have (2 / K)^0.42 times as many trees.
    - *Numbers.* Squared error counts the noise of a score, where ranking only counts its order. So
      steps are a quarter to a third of those above. The histogram of the number gets what it needs
      to stand out, from 3 to 20 hundredths of the budget.
    - *Constants.* Where the signal is weak, the noise of a model of a number costs more than
      columns tell, and so does the noise of its mean. Then nine tenths of the budget say the mean
      of the number or of the count, and the model is this constant.

    Args:
        epsilon: above 0.
        rows: m.
        columns: how many there are, and how many of them are fine.
        delta: 0, or in (0, 1).
        relation: the neighbouring relation.
        max_rows_per_user: k; the signal is k times smaller.
        response: what is predicted.
        allows_constant: whether the model of a number may be a constant.
    """
    if np.isinf(epsilon):
        return _noiseless_numbers(response)
    is_gaussian, is_binary = delta > 0, response == types.BINARY
    rule = GAUSSIAN_RULE if is_gaussian else LAPLACE_RULE
    signal = signal_to_noise_strength(
        epsilon=epsilon,
        delta=delta,
        rows=rows,
        relation=types.as_relation(relation),
        max_rows_per_user=max_rows_per_user,
    )
    has_mean = response.is_number and response.objective != "quantile"
    if allows_constant and has_mean and signal < rule.min_signal_of_number:
        return _numbers_of_constant(signal, is_gaussian=is_gaussian)
    histogram_noise = math.sqrt(columns.num_columns) if is_gaussian else columns.num_columns
    has_histograms = histogram_noise / signal < rule.max_relative_histogram_noise
    is_coarse = is_binary and not columns.are_fine
    rounds = _num_rounds(rule, signal, response, is_coarse=is_coarse)
    step = rule.step_totals.of_response(response) / math.sqrt(rounds)
    depth, min_signal = DEEP, rule.min_signal_of_deep_trees
    if is_coarse:
        step *= rule.coarse.share_of_step(signal)
        depth, min_signal = COARSE_DEEP, rule.coarse.min_signal_of_deeper_trees
    is_deep = has_histograms and is_binary and signal >= min_signal
    target_fraction, target_bins = UNREAD_TARGET_FRACTION, UNREAD_TARGET_BINS
    if response.is_number:
        target_fraction = _target_fraction(signal, is_gaussian=is_gaussian)
        target_bins = _num_target_bins(signal, target_fraction, is_gaussian=is_gaussian)
    return AutoNumbers(
        rounds=rounds,
        step=step,
        limit=float(largest_move_of_leaf(step)),
        structure=TreeStructure(
            depth=depth if is_deep else SHALLOW,
            attributes_per_tree=ATTRIBUTES_PER_TREE,
            structures=DEEP_STRUCTURES if is_deep else 0,
        ),
        one_time_draws=OneTimeDraws(
            marginals_fraction=MARGINALS_FRACTION if has_histograms else 0.0,
            target_fraction=target_fraction,
            target_bins=target_bins,
            scores_fraction=scores_fraction(response),
        ),
    )


def _numbers_of_constant(signal: float, *, is_gaussian: bool) -> AutoNumbers:
    """The numbers of a model that is the mean of a number: one tree, which moves no score."""
    target_fraction = TARGET_FRACTION_OF_CONSTANT
    return AutoNumbers(
        rounds=1,
        step=0.0,
        limit=MAX_LIMIT,
        structure=TreeStructure(depth=SHALLOW, attributes_per_tree=ATTRIBUTES_PER_TREE),
        one_time_draws=OneTimeDraws(
            marginals_fraction=0.0,
            target_fraction=target_fraction,
            target_bins=_num_target_bins(signal, target_fraction, is_gaussian=is_gaussian),
            scores_fraction=RESIDUALS_FRACTION_OF_CONSTANT,
        ),
    )


def scores_fraction(response: types.Response) -> float:
    """The share of the budget for the sums over final scores; a quantile has none."""
    if response.is_number:
        return 0.0 if response.objective == "quantile" else RESIDUALS_FRACTION
    return SCORES_FRACTION


def largest_move_of_leaf(step: Any) -> Any:
    """The limit of a leaf that goes with a step, or with steps of settings."""
    return np.minimum(LIMIT_IN_STEPS * step, MAX_LIMIT)


def _noiseless_numbers(response: types.Response) -> AutoNumbers:
    """The numbers where nothing is private."""
    is_binary = response == types.BINARY
    return AutoNumbers(
        rounds=NOISELESS_ROUNDS_OF_TWO_CLASSES if is_binary else NOISELESS_ROUNDS,
        step=NOISELESS_STEP,
        limit=NOISELESS_LIMIT,
        structure=TreeStructure(
            depth=DEEP if is_binary else SHALLOW,
            attributes_per_tree=(
                NOISELESS_ATTRIBUTES_OF_TWO_CLASSES if is_binary else ATTRIBUTES_PER_TREE
            ),
        ),
        one_time_draws=OneTimeDraws(
            marginals_fraction=MARGINALS_FRACTION,
            target_fraction=MIN_TARGET_FRACTION,
            target_bins=MAX_TARGET_BINS,
            scores_fraction=scores_fraction(response),
        ),
    )


def _num_rounds(
    rule: SignalRule, signal: float, response: types.Response, *, is_coarse: bool
) -> int:
    """T at a strength of the signal."""

    def as_rounds(number: float) -> int:
        return int(np.clip(round(number), rule.min_rounds, rule.max_rounds))

    if is_coarse:
        growth = (signal / rule.coarse.reference_signal) ** rule.coarse.rounds_power
        return as_rounds(rule.coarse.rounds_at_reference * growth)
    rounds = as_rounds(rule.rounds_at_reference * (signal / rule.reference_signal) ** ROUNDS_POWER)
    if response.num_classes > 2:
        rounds = as_rounds(rounds * (2 / response.num_classes) ** rule.rounds_power_of_classes)
    return rounds


def _target_fraction(signal: float, *, is_gaussian: bool) -> float:
    """The share of the budget with which the histogram of a number stands out, within bounds.

    The ratio of signal to noise grows with the share for Laplace noise, and with its root for
    Gaussian noise.
    """
    power = 2 if is_gaussian else 1
    share = (TARGET_SIGNAL_TO_NOISE / signal) ** power
    return float(np.clip(share, MIN_TARGET_FRACTION, MAX_TARGET_FRACTION))


def _num_target_bins(signal: float, target_fraction: float, *, is_gaussian: bool) -> int:
    """How many bins the histogram of a number has, with that share of the budget."""
    if is_gaussian:
        ratio = signal * math.sqrt(target_fraction)
    else:
        ratio = signal * target_fraction / math.sqrt(2)
    num_bins = 2 ** round(math.log2(TARGET_BINS_PER_ROOT * math.sqrt(ratio)))
    return int(np.clip(num_bins, MIN_TARGET_BINS, MAX_TARGET_BINS))


def choose_numbers_of_settings(
    request: PrivacyRequest,
    columns: ColumnCounts,
    response: types.Response,
    *,
    allows_constant: bool = True,
) -> list[AutoNumbers]:
    """What `choose_numbers` says of every setting, in the order of the settings.

    Args:
        request: the checked arguments.
        columns: how many there are, and how many of them are fine.
        response: what is predicted.
        allows_constant: whether its model of a number may be a constant.
    """
    return [
        choose_numbers(
            epsilon=float(epsilon),
            rows=float(rows),
            columns=columns,
            delta=float(delta),
            relation=request.relation,
            max_rows_per_user=request.max_rows_per_user,
            response=response,
            allows_constant=allows_constant,
        )
        for epsilon, rows, delta in np.broadcast(request.epsilon, request.rows, request.delta)
    ]


def numbers_with_axes(chosen: Sequence[AutoNumbers], shape: tuple[int, ...]) -> AutoNumbers:
    """The numbers of all settings as one, in arrays with the axes of the settings.

    Static parts are those of the first setting.

    Args:
        chosen: the numbers of each setting, whose static parts are the same as far as they are
            read.
        shape: the lengths of the axes.
    """

    def of_settings(read_number: Callable[[AutoNumbers], Any]) -> np.ndarray:
        return np.reshape([read_number(numbers) for numbers in chosen], shape)

    def of_draws(read_number: Callable[[OneTimeDraws], Any]) -> np.ndarray:
        return of_settings(lambda numbers: read_number(numbers.one_time_draws))

    first = chosen[0]
    return dataclasses.replace(
        first,
        rounds=of_settings(lambda numbers: numbers.rounds),
        step=of_settings(lambda numbers: numbers.step),
        limit=of_settings(lambda numbers: numbers.limit),
        one_time_draws=dataclasses.replace(
            first.one_time_draws,
            marginals_fraction=of_draws(lambda draws: draws.marginals_fraction),
            target_fraction=of_draws(lambda draws: draws.target_fraction),
            scores_fraction=of_draws(lambda draws: draws.scores_fraction),
        ),
    )


# The recipe.


def auto(
    *,
    epsilon: ArrayLike,
    rows: ArrayLike,
    domain: Domain,
    delta: ArrayLike = 0.0,
    target: Target | None = None,
    objective: str | None = None,
    quantile: float | None = None,
    monotone: Mapping[str, int] | None = None,
    seed: ArrayLike = 0,
    relation: str | types.Relation = types.ADD_REMOVE,
    max_rows_per_user: int = 1,
    delta_anyway: bool = False,
) -> types.Recipe | Any:
    """Boosted oblivious trees, with every number set from public quantities.

    Guarantee: as `oblivious_boost`. Nothing is tuned, so nothing else is released. `choose_numbers`
    has the choices and their reasons.

    Arguments of type ArrayLike may be arrays. They broadcast to settings with room for the most
    rounds of any of them. The depth of trees, the histograms, and the number of bins of the target
    follow from the numbers of a setting. Where they differ, the settings run several programs.
    `jax.vmap(dpbt.boost)` runs them all the same, and `recipes.setting` has the recipe of each.

    Args:
        epsilon: the total budget, above 0.
        rows: m. Under add/remove a public bound on the number of rows, under replace-one their
            public number. A bound of twice the truth costs little.
        domain: the public domain of the table. Numbers are best cut into many bins, such as
            `bins=64`, because finer splits cost nothing here.
        delta: 0 for a pure guarantee; else in (0, 1), and best far below 1 / rows. It buys much
            less noise.
        target: what is predicted: `domains.Nominal` for several classes, `domains.Numeric` for a
            number in a declared range, None for two classes. Give `dpbt.table` the same.
        objective: of a number: "squared" by default, "poisson" for a count, or "quantile".
        quantile: the level of a quantile, in [0.01, 0.99].
        monotone: as `oblivious_boost`.
        seed: of the public splits. It is not a secret.
        relation: "add_remove" or "replace_one".
        max_rows_per_user: the most rows of one person: a limit if the table has ids of users, else
            the owner's promise. The guarantee is for all rows of a person together.
        delta_anyway: whether to accept a delta of 1 / rows or more, which protects nobody.

    Returns:
        A `types.Recipe`, or a `types.MultiProgramRecipe` for settings that run several programs.

    Raises:
        ValueError: for a value outside these ranges, named with what was given.
    """
    domains.check_domain(domain)
    target = column_types.target_with_objective(target, objective, quantile)
    request = checked_privacy_request(
        epsilon=epsilon,
        delta=delta,
        rows=rows,
        rounds=1,  # `choose_numbers` sets them
        relation=relation,
        max_rows_per_user=max_rows_per_user,
        delta_anyway=delta_anyway,
        max_rows=types.MAX_ROWS_IN_BLOCKS,
        options={"seed": seed},
    )
    task = BinsTask(domain=domain, target=target, monotone=monotone)
    chosen = choose_numbers_of_settings(request, count_columns(domain), task.response)
    if len({numbers.static_parts for numbers in chosen}) > 1:
        return multi_program_recipe(
            auto,
            {"epsilon": epsilon, "rows": rows, "delta": delta, "seed": seed},
            domain=domain,
            target=target,
            monotone=monotone,
            relation=relation,
            max_rows_per_user=max_rows_per_user,
            delta_anyway=delta_anyway,
        )
    numbers = numbers_with_axes(chosen, request.shape)
    return oblivious_recipe(
        request.with_rounds(numbers.rounds),
        task,
        one_time_draws=numbers.one_time_draws,
        structure=numbers.structure,
        numbers=TreeNumbers(step=numbers.step, limit=numbers.limit, seed=seed),
    )
