"""The rule that sets the numbers of oblivious trees in `recipes.auto` from public quantities.

Each constant of the rule has a name and a text that says what it is. They were settled together, on
the tables and in the steps that docs/accuracy.md names ("How its numbers were settled"). Where one
choice was measured alone, the text of its constant has the result.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpbt import types
from dpbt.data.domains import Domain
from dpbt.privacy import conversions
from dpbt.recipes.bins import OneTimeDraws, split_attributes_of_domain
from dpbt.recipes.building import PrivacyRequest
from dpbt.recipes.trees_over_bins import TreeStructure

# The constants of the rule.


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepTotals:
    """The deviation of the noise that all rounds add to a row's score, by kind of response.

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
        """The deviation for a response: that of two classes, of several classes or of a number."""
        if response.is_number:
            return self.number
        return self.binary if response == types.BINARY else self.several_classes


@dataclasses.dataclass(frozen=True, kw_only=True)
class CoarseRule:
    """What the rule of `auto` does differently for two classes where many columns are coarse.

    It is for tables of which not nearly all columns are fine, as in data about people.

    The columns of such a table mostly act on their own, its classes overlap, and its rows are few.
    Small steps and trees of few splits suit it. The numbers were settled on eighteen tables about
    people, and docs/frontier.md has what each choice gains.

    Attributes:
        rounds_at_reference: T where the signal is `reference_signal`.
        reference_signal: the signal from which T grows.
        rounds_power: the power of the signal with which T grows.
        step_reference_signal: up to this signal, steps are `MIN_STEP_SHARE_ON_COARSE_COLUMNS` of
            those of `SignalRule.step_totals`. From there they grow with the power
            `STEP_SHARE_POWER_ON_COARSE_COLUMNS`, up to `MAX_STEP_SHARE_ON_COARSE_COLUMNS`.
        min_signal_of_deep_trees: trees have `NUM_SPLITS_OF_DEEP_TREES_ON_COARSE_COLUMNS` splits
            from this signal on, if there are histograms.
    """

    rounds_at_reference: float
    reference_signal: float
    rounds_power: float
    step_reference_signal: float
    min_signal_of_deep_trees: float

    def step_share(self, signal: float) -> float:
        """The step, as a share of the step for a table whose columns are all fine."""
        growth = (signal / self.step_reference_signal) ** STEP_SHARE_POWER_ON_COARSE_COLUMNS
        return float(
            np.clip(
                MIN_STEP_SHARE_ON_COARSE_COLUMNS * growth,
                MIN_STEP_SHARE_ON_COARSE_COLUMNS,
                MAX_STEP_SHARE_ON_COARSE_COLUMNS,
            )
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SignalRule:
    """The numbers of the rule of `auto` under one kind of noise, by the strength of the signal.

    The signal is n mu for Gaussian noise and n eps for Laplace noise, see
    `signal_to_noise_strength`.

    Attributes:
        rounds_at_reference: T where the signal is `reference_signal`. T grows from there with the
            power `ROUNDS_POWER` of the signal.
        reference_signal: the signal from which T grows.
        min_rounds: T is at least this.
        max_rounds: T is at most this. Four times the rounds at epsilon 5 gain 0.001 to 0.004, which
            is not worth the time.
        rounds_power_of_classes: with K > 2 classes there are (2 / K)^power times as many rounds.
        step_totals: how far the noise of all rounds together moves a score. Steps a quarter larger
            were up to 0.003 worse in accuracy.
        max_relative_histogram_noise: the class histograms are drawn where their noise, as a share
            of the signal, is below this: sqrt(F) / (n mu), or F / (n eps).
        min_signal_of_deep_trees: trees of two classes over fine columns have
            `NUM_SPLITS_OF_DEEP_TREES` splits from this signal on, if there are histograms.
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
        min_signal_of_deep_trees=10_000,
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
        min_signal_of_deep_trees=50_000,
    ),
)
"""Under a pure guarantee. The noise of T rounds grows with T, so there are fewer of them."""

ATTRIBUTES_PER_TREE = (2, 3, 4)
"""How many attributes the trees ask, in turn.

One a tree loses 0.015 in accuracy on average, and other mixtures are within 0.005.
"""

NUM_SPLITS = 6
"""How many splits a tree has; 5 or 7 are within 0.005 in accuracy and AUROC."""

NUM_SPLITS_OF_DEEP_TREES = 10
"""How many splits a tree of two classes has where rows are many for the noise.

On twelve data sets AUROC is 0.003 to 0.006 higher than with 6 splits, from epsilon = 0.5 on.
"""

NUM_SPLITS_OF_DEEP_TREES_ON_COARSE_COLUMNS = 8
"""How many splits a tree has where columns are not fine and rows are very many for the noise."""

NUM_STRUCTURES_OF_DEEP_TREES = 256
"""After how many trees the splits of deep trees repeat, so that a model stays small.

They cost 0.0006 of AUROC at epsilon = 1, and 128 would cost 0.002.
"""

MIN_BINS_OF_FINE_COLUMN = 32
"""A column is fine if its values have an order and at least so many bins."""

MIN_SHARE_OF_FINE_COLUMNS = 0.9
"""The columns of a table count as fine if at least this share of them is.

Tables of instruments have fine columns alone, which act together; in tables about people, columns
of a few values stand beside them. Of 39 tables, those where deep trees and large steps gain most
(brain waves, particles) have fine columns alone, and no table about people had more than 0.87.
"""

MIN_STEP_SHARE_ON_COARSE_COLUMNS = 0.5
"""The step where columns are not fine and signals weak, as a share of that on fine columns."""

MAX_STEP_SHARE_ON_COARSE_COLUMNS = 0.75
"""The step where columns are not fine and signals strong, as a share of that on fine columns."""

STEP_SHARE_POWER_ON_COARSE_COLUMNS = 0.15
"""The power of the signal with which that share grows between the two."""

MAX_MOVE_IN_STEPS = 4.0
"""The furthest that a leaf moves a score, in steps; it is the smaller of this and `MAX_MOVE`."""

MAX_MOVE = 0.6
"""The furthest that a leaf moves a score, in nats or in spreads of a number."""

HISTOGRAMS_FRACTION = 0.1
"""The share of the budget for the class histograms, where they are drawn."""

SCORES_FRACTION = 0.03
"""The share of the budget for the scores by class.

They lower log loss by 0.02 to 0.05, and cost about 0.001 of accuracy and of AUROC.
"""

RESIDUALS_FRACTION = 0.05
"""The share of the budget for the sums of the final residuals of a number."""

MIN_TARGET_FRACTION = 0.03
"""The least share of the budget for the histogram of a number."""

MAX_TARGET_FRACTION = 0.2
"""The largest share of the budget for the histogram of a number."""

TARGET_SIGNAL_TO_NOISE = 60.0
"""How far all rows of a number stand above the noise of a bin, within the bounds on the share."""

TARGET_BINS_PER_ROOT = 3.0
"""The histogram of a number has a power of 2 of bins near this times the root of the same ratio."""

MIN_TARGET_BINS = 8
"""The fewest bins of the histogram of a number."""

MAX_TARGET_BINS = 64
"""The most bins of the histogram of a number."""

TARGET_FRACTION_OF_CONSTANT = 0.5
"""The share of the budget for the histogram of a number where the model is a constant."""

RESIDUALS_FRACTION_OF_CONSTANT = 0.4
"""The share of the budget for the sums of final residuals where the model is a constant.

What both shares leave goes to one round, whose tree moves no score. With the shares of other models
the constant would be far worse: at 600 rows and a pure epsilon of 0.2 its R^2 is -0.20 in place of
-0.01.
"""

UNREAD_TARGET_FRACTION = 0.1
"""The share for the histogram of a number where classes are predicted: nothing reads it.

It is the default of `oblivious_boost`.
"""

UNREAD_TARGET_BINS = 32
"""The bins of the histogram of a number where classes are predicted: nothing reads them.

They are the default of `oblivious_boost`.
"""

# Without noise.

NOISELESS_STEP = 0.1
"""The step of a leaf without privacy, in nats or in spreads of a number."""

NOISELESS_MAX_MOVE = 0.2
"""The furthest that a leaf moves a score without privacy, in nats or in spreads of a number."""

NOISELESS_ROUNDS = 1024
"""T without privacy, for several classes and for a number."""

NOISELESS_ROUNDS_OF_TWO_CLASSES = 1536
"""T without privacy, for two classes."""

NOISELESS_ATTRIBUTES_OF_TWO_CLASSES = (3, 4, 5, 6)
"""How many attributes the trees of two classes ask without privacy, in turn."""


# The rule.


@dataclasses.dataclass(frozen=True, kw_only=True)
class AutoHyperparameters:
    """What `auto` chooses for `oblivious_boost`; each number may have axes of settings.

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
        """Whether one setting draws class histograms before the first round."""
        return bool(self.one_time_draws.marginals_fraction > 0)

    @property
    def is_constant(self) -> bool:
        """Whether the model of one setting is a constant, because no tree moves a score."""
        return bool(self.step == 0)

    @property
    def static_parts(self) -> tuple[Any, ...]:
        """A hashable tuple of what the compiled program of one setting depends on."""
        return (
            self.structure,
            self.has_histograms,
            self.one_time_draws.target_bins,
            self.is_constant,
        )


def signal_to_noise_strength(
    *,
    epsilon: float,
    delta: float,
    rows: float,
    relation: types.Relation,
    max_rows_per_user: int,
) -> float:
    """The strength of the signal of all rows beside the noise that the budget asks for.

    It is n eps, or n mu with a delta.

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
    """How many columns a domain has, and how many of them are fine.

    Attributes:
        num_columns: F.
        num_fine: how many columns are in order and have at least `MIN_BINS_OF_FINE_COLUMN` bins.
    """

    num_columns: int
    num_fine: int

    @property
    def are_nearly_all_fine(self) -> bool:
        """Whether nearly all columns are fine."""
        return self.num_fine >= MIN_SHARE_OF_FINE_COLUMNS * self.num_columns


def count_columns(domain: Domain) -> ColumnCounts:
    """Count the columns of a domain, and those that are fine."""
    attributes = split_attributes_of_domain(domain)
    fine = [each.ordered and each.n_bins >= MIN_BINS_OF_FINE_COLUMN for each in attributes]
    return ColumnCounts(num_columns=len(attributes), num_fine=sum(fine))


def choose_hyperparameters(
    *,
    epsilon: float,
    rows: float,
    columns: ColumnCounts,
    delta: float = 0.0,
    relation: types.Relation = types.ADD_REMOVE,
    max_rows_per_user: int = 1,
    response: types.Response = types.BINARY,
    constant_factor: float = 1.0,
) -> AutoHyperparameters:
    """Choose the rounds, steps, trees and budget shares of `auto` from public quantities alone.

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
      of 8 where rows are very many. Pure recipes have fewer trees there up to a signal of 13,000,
      and then more, up to 128. On the nine tables about people that judge the rule AUROC is 0.005
      to 0.015 higher (docs/frontier.md).
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
        constant_factor: the model of a number is a constant below this times
            `SignalRule.min_signal_of_number`; 0 for a model that is never a constant.
    """
    if np.isinf(epsilon):
        return _noiseless_hyperparameters(response)
    is_gaussian = delta > 0
    rule = GAUSSIAN_RULE if is_gaussian else LAPLACE_RULE
    signal = signal_to_noise_strength(
        epsilon=epsilon,
        delta=delta,
        rows=rows,
        relation=types.as_relation(relation),
        max_rows_per_user=max_rows_per_user,
    )
    has_mean = response.is_number and response.objective != "quantile"
    if has_mean and signal < constant_factor * rule.min_signal_of_number:
        return _hyperparameters_of_constant(signal, is_gaussian=is_gaussian)

    histogram_noise = math.sqrt(columns.num_columns) if is_gaussian else columns.num_columns
    has_histograms = histogram_noise / signal < rule.max_relative_histogram_noise
    is_coarse = response == types.BINARY and not columns.are_nearly_all_fine
    rounds = _num_rounds(rule, signal, response, is_coarse=is_coarse)
    step = rule.step_totals.of_response(response) / math.sqrt(rounds)
    if is_coarse:
        step *= rule.coarse.step_share(signal)
    return AutoHyperparameters(
        rounds=rounds,
        step=step,
        limit=float(max_move_of_leaf(step)),
        structure=_tree_structure(
            rule, signal, response, is_coarse=is_coarse, has_histograms=has_histograms
        ),
        one_time_draws=_one_time_draws(
            signal, response, has_histograms=has_histograms, is_gaussian=is_gaussian
        ),
    )


def _tree_structure(
    rule: SignalRule,
    signal: float,
    response: types.Response,
    *,
    is_coarse: bool,
    has_histograms: bool,
) -> TreeStructure:
    """Choose the depth and the other static options of the trees of `auto`.

    They are deep for two classes with histograms and a strong signal.
    """
    if is_coarse:
        num_splits_of_deep_trees = NUM_SPLITS_OF_DEEP_TREES_ON_COARSE_COLUMNS
        min_signal_of_deep_trees = rule.coarse.min_signal_of_deep_trees
    else:
        num_splits_of_deep_trees = NUM_SPLITS_OF_DEEP_TREES
        min_signal_of_deep_trees = rule.min_signal_of_deep_trees
    is_deep = has_histograms and response == types.BINARY and signal >= min_signal_of_deep_trees
    return TreeStructure(
        depth=num_splits_of_deep_trees if is_deep else NUM_SPLITS,
        attributes_per_tree=ATTRIBUTES_PER_TREE,
        structures=NUM_STRUCTURES_OF_DEEP_TREES if is_deep else 0,
    )


def _one_time_draws(
    signal: float, response: types.Response, *, has_histograms: bool, is_gaussian: bool
) -> OneTimeDraws:
    """Choose the budget shares of the one-time draws, and the bins of a number's histogram."""
    target_fraction = UNREAD_TARGET_FRACTION
    target_bins = UNREAD_TARGET_BINS
    if response.is_number:
        target_fraction = _target_fraction(signal, is_gaussian=is_gaussian)
        target_bins = _num_target_bins(signal, target_fraction, is_gaussian=is_gaussian)
    return OneTimeDraws(
        marginals_fraction=HISTOGRAMS_FRACTION if has_histograms else 0.0,
        target_fraction=target_fraction,
        target_bins=target_bins,
        scores_fraction=scores_fraction(response),
    )


def _hyperparameters_of_constant(signal: float, *, is_gaussian: bool) -> AutoHyperparameters:
    """The hyperparameters of a model that is the mean of a number: its one tree moves no score."""
    target_fraction = TARGET_FRACTION_OF_CONSTANT
    return AutoHyperparameters(
        rounds=1,
        step=0.0,
        limit=MAX_MOVE,
        structure=TreeStructure(depth=NUM_SPLITS, attributes_per_tree=ATTRIBUTES_PER_TREE),
        one_time_draws=OneTimeDraws(
            marginals_fraction=0.0,
            target_fraction=target_fraction,
            target_bins=_num_target_bins(signal, target_fraction, is_gaussian=is_gaussian),
            scores_fraction=RESIDUALS_FRACTION_OF_CONSTANT,
        ),
    )


def scores_fraction(response: types.Response) -> float:
    """The share of the budget for the one-time draw over final scores; 0 for a quantile."""
    if response.is_number:
        return 0.0 if response.objective == "quantile" else RESIDUALS_FRACTION
    return SCORES_FRACTION


def max_move_of_leaf(step: Any) -> Any:
    """The furthest that a leaf may move a score, from the step or from an array of steps."""
    return np.minimum(MAX_MOVE_IN_STEPS * step, MAX_MOVE)


def _noiseless_hyperparameters(response: types.Response) -> AutoHyperparameters:
    """The hyperparameters of `auto` where epsilon is infinite, so without privacy."""
    is_binary = response == types.BINARY
    return AutoHyperparameters(
        rounds=NOISELESS_ROUNDS_OF_TWO_CLASSES if is_binary else NOISELESS_ROUNDS,
        step=NOISELESS_STEP,
        limit=NOISELESS_MAX_MOVE,
        structure=TreeStructure(
            depth=NUM_SPLITS_OF_DEEP_TREES if is_binary else NUM_SPLITS,
            attributes_per_tree=(
                NOISELESS_ATTRIBUTES_OF_TWO_CLASSES if is_binary else ATTRIBUTES_PER_TREE
            ),
        ),
        one_time_draws=OneTimeDraws(
            marginals_fraction=HISTOGRAMS_FRACTION,
            target_fraction=MIN_TARGET_FRACTION,
            target_bins=MAX_TARGET_BINS,
            scores_fraction=scores_fraction(response),
        ),
    )


def _num_rounds(
    rule: SignalRule, signal: float, response: types.Response, *, is_coarse: bool
) -> int:
    """Choose the number of rounds T from the strength of the signal."""

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
    """Choose the share of the budget with which the histogram of a number stands out of its noise.

    The share is kept within bounds. The ratio of signal to noise grows with the share for Laplace
    noise, and with its root for Gaussian noise.
    """
    power = 2 if is_gaussian else 1
    share = (TARGET_SIGNAL_TO_NOISE / signal) ** power
    return float(np.clip(share, MIN_TARGET_FRACTION, MAX_TARGET_FRACTION))


def _num_target_bins(signal: float, target_fraction: float, *, is_gaussian: bool) -> int:
    """Choose how many bins the histogram of a number has, for its share of the budget."""
    if is_gaussian:
        ratio = signal * math.sqrt(target_fraction)
    else:
        ratio = signal * target_fraction / math.sqrt(2)
    num_bins = 2 ** round(math.log2(TARGET_BINS_PER_ROOT * math.sqrt(ratio)))
    return int(np.clip(num_bins, MIN_TARGET_BINS, MAX_TARGET_BINS))


def choose_hyperparameters_of_settings(
    request: PrivacyRequest,
    columns: ColumnCounts,
    response: types.Response,
    *,
    constant_factor: float = 1.0,
) -> list[AutoHyperparameters]:
    """Choose the hyperparameters of `auto` for each setting of a request, in their order.

    Args:
        request: the checked arguments.
        columns: how many there are, and how many of them are fine.
        response: what is predicted.
        constant_factor: as `choose_hyperparameters`.
    """
    return [
        choose_hyperparameters(
            epsilon=float(epsilon),
            rows=float(rows),
            columns=columns,
            delta=float(delta),
            relation=request.relation,
            max_rows_per_user=request.max_rows_per_user,
            response=response,
            constant_factor=constant_factor,
        )
        for epsilon, rows, delta in np.broadcast(request.epsilon, request.rows, request.delta)
    ]


def stack_hyperparameters_of_settings(
    hyperparameters_by_setting: Sequence[AutoHyperparameters], shape: tuple[int, ...]
) -> AutoHyperparameters:
    """Stack the hyperparameters of all settings into arrays with the axes of the settings.

    Static parts are those of the first setting.

    Args:
        hyperparameters_by_setting: those of each setting, whose static parts are the same as far
            as they are read.
        shape: the lengths of the axes.
    """

    def of_settings(read_number: Callable[[AutoHyperparameters], Any]) -> np.ndarray:
        return np.reshape([read_number(numbers) for numbers in hyperparameters_by_setting], shape)

    def of_draws(read_number: Callable[[OneTimeDraws], Any]) -> np.ndarray:
        return of_settings(lambda numbers: read_number(numbers.one_time_draws))

    first = hyperparameters_by_setting[0]
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
