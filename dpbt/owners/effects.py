"""The effects of the attributes of the public domain on a model's score: post-processing alone.

All functions here depend only on the model and the domain. They read no private row, so they cost
no privacy. They average over the *uniform* distribution: each column takes each of its bins with
the same probability, independently of the others. The bin of missing values counts like any other,
and an interval of numbers counts as one bin, whatever its width. Real rows have another
distribution. So an average here describes the model, and not the people in the training rows.

Noise has effects, too. A model of pure noise splits on uninformative attributes, and these then
have an effect here. An effect shows what the model uses, and not what is true of the data. With
`noise=True` functions estimate the effects of the noise. They redraw the noise of the rounds around
the release (`models_with_fresh_noise_added`). This needs the public scales of the noise and no row,
so it costs no privacy. The selected splits do not change, and neither do the first and the last
step. Oblivious trees and curves know the deviation of their noise, also in a file. Other hypotheses
need the transcript, so the effects of the noise of such a loaded model are unknown.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, UInt8

from dpbt.common import forks
from dpbt.common.validate import check_choice, check_positive_integer, show_value
from dpbt.data.domains import Domain
from dpbt.learners.additive.model import SHAPES
from dpbt.learners.oblivious.model import OBLIVIOUS
from dpbt.models import model as models
from dpbt.models.model import Model, resolve_domain_of_model, resolve_model
from dpbt.owners.column_scores import ColumnScores

MAX_EXACT_COMBINATIONS = 2**14
"""The largest number of combinations of bins that are enumerated instead of drawing rows."""

MAX_EVALUATIONS = 2**17
"""About the largest number of rows that are scored for an estimated average."""

NUM_REDRAWS, _MAX_ROWS_PER_REDRAW = 16, 128
"""How often noise is drawn again, and the largest number of public rows for each draw."""


class Effect(NamedTuple):
    """How much the score of a model depends on one attribute.

    Attributes:
        attribute: the name of the column.
        variance: the total effect, in squared units of the score.
        error: the approximate standard error of the variance; 0 if it is exact.
        noise: the total effect of noise alone, in the same units; 0 if it is not known.
    """

    attribute: str
    variance: float
    error: float
    noise: float = 0.0

    @property
    def deviation(self) -> float:
        """The square root of the variance, in units of the score."""
        return math.sqrt(self.variance)


class PartialDependence(NamedTuple):
    """The mean of a model's score by the bins of one or two attributes.

    Attributes:
        attributes: the names of the columns.
        values: f64[bins of the first] or f64[bins of the first, bins of the second]. The bins
            are numbered as `domains.encode` numbers them.
        error: the approximate standard error of each value; 0 if the values are exact.
        noise: the approximate standard deviation of each value by noise alone, without the part
            that is common to all values; 0 if it is not known.
    """

    attributes: tuple[str, ...]
    values: np.ndarray
    error: np.ndarray
    noise: np.ndarray


def attribute_effects(
    model: Model | Any, domain: Domain | None = None, *, draws: int = 1024, noise: bool = False
) -> list[Effect]:
    """The total effect of each attribute on the score, largest first.

    It costs no privacy.

    The total effect of an attribute is E[Var(score | all other attributes)]. Bins have the uniform
    law of this module. In words: fix all other bins at random, redraw this one, and take the
    variance of the score. An interaction counts for each attribute that takes part, so the effects
    may add up to more than the variance of the score. An attribute that no hypothesis reads has an
    effect of exactly 0.

    Effects show what the model uses. Noise splits on uninformative attributes, so a model of noise
    alone has effects as well.

    The result is exact if the domain has at most 2^14 combinations of bins. Otherwise public rows
    are drawn as for `partial_dependence`.

    Args:
        model: from `fit`, trained on bins; from `dpbt.load`; or a fitted estimator.
        domain: the domain that encoded the table of the fit. A saved model may have its own.
        draws: as `partial_dependence`.
        noise: whether to estimate the effects of noise alone, too.

    Raises:
        ValueError: for a domain or a model of another kind, as `explain`, and for draws that are
            not an integer of at least 1.
    """
    check_positive_integer("draws", draws)
    model = resolve_model(model)
    model_domain = resolve_domain_of_model(model, domain)
    effects = []
    num_bins = [column.n_bins for column in model_domain.values()]
    is_exact = math.prod(num_bins) <= MAX_EXACT_COMBINATIONS
    if is_exact:
        rows = rows_of_noise = _all_bin_combinations(num_bins)
    else:
        max_rows = max(MAX_EVALUATIONS // max(num_bins), 16)
        rows = _latin_hypercube_rows(num_bins, min(draws, max_rows))
        rows_of_noise = _latin_hypercube_rows(num_bins, min(_MAX_ROWS_PER_REDRAW, max_rows))
    column_scores = ColumnScores(model, model_domain, rows)
    scores_by_noise = [
        ColumnScores(each, model_domain, rows_of_noise)
        for each in ((model, *models_with_fresh_noise_added(model)) if noise else ())
    ]
    for number, name in enumerate(model_domain):
        # Of all combinations, those of the other columns.
        used, used_by_noise = (
            each[:, number] == 0 if is_exact else None for each in (rows, rows_of_noise)
        )
        variances = column_scores.scores_by_bin(number, used).var(axis=0)
        variance_of_row = variances.reshape(len(variances), -1).sum(axis=1)  # over classes
        noise_variance = 0.0
        if scores_by_noise[1:]:
            scores, *redrawn_scores = (
                each.scores_by_bin(number, used_by_noise) for each in scores_by_noise
            )
            changes = np.array(redrawn_scores) - scores
            noise_variance = float(changes.var(axis=1).mean(axis=(0, 1)).sum())
        effects.append(
            Effect(
                attribute=name,
                variance=float(variance_of_row.mean()),
                error=float(_standard_error_of_mean(variance_of_row, is_exact)),
                noise=noise_variance,
            )
        )
    return sorted(effects, key=lambda effect: -effect.variance)


def partial_dependence(
    model: Model | Any,
    attributes: str | Sequence[str],
    domain: Domain | None = None,
    *,
    of: str = "score",
    draws: int = 4096,
    noise: bool = False,
) -> PartialDependence:
    """The mean score for each bin of one or two attributes.

    It costs no privacy.

    The mean is over the bins of all other attributes, by the uniform law of this module. It is
    exact if the domain has at most 2^14 combinations of bins. Otherwise it is the mean over public
    rows that are drawn under a fixed seed, as a Latin hypercube. These are the same rows for every
    bin, and in every call.

    Args:
        model: from `fit`, trained on bins; from `dpbt.load`; or a fitted estimator.
        attributes: the name of a column, or of two columns.
        domain: the domain that encoded the table of the fit. A saved model may have its own.
        of: "score", or "probability" of the positive class, which not every model has.
        draws: the largest number of public rows. For each combination of bins there are fewer, but
            at least 16, if otherwise more than about 2^17 rows would be scored in all.
        noise: whether to estimate the deviation by noise alone, too.

    Raises:
        ValueError: for a domain or a model of another kind, as `explain`. Also for attributes that
            are not one or two distinct columns of the domain. Also for another `of`, for draws that
            are not an integer of at least 1, and as `predict_proba`.
    """
    model = resolve_model(model)
    model_domain = resolve_domain_of_model(model, domain)
    names = (attributes,) if isinstance(attributes, str) else tuple(attributes)
    if len(names) not in (1, 2) or len(set(names)) != len(names):
        raise ValueError(f"expected the names of one column, or of two, got {show_value(names)}")
    check_names_are_columns(names, model_domain)
    check_choice("of", of, ("score", "probability"))

    columns = [list(model_domain).index(name) for name in names]
    scores, is_exact = _scores_at_bin_combinations(
        model, model_domain, columns, score_or_probability=of, max_draws=draws
    )
    shape = (*(model_domain[name].n_bins for name in names), *scores.shape[2:])
    deviations = np.zeros(shape)
    if models_by_noise := models_with_fresh_noise_added(model) if noise else []:
        changes = _score_changes_by_fresh_noise(
            model, models_by_noise, model_domain, columns=columns, score_or_probability=of
        )
        changes = changes.mean(axis=2)
        changes -= changes.mean(axis=1, keepdims=True)
        deviations = np.sqrt(np.mean(changes**2, axis=0)).reshape(shape)
    return PartialDependence(
        attributes=names,
        values=scores.mean(axis=1).reshape(shape),
        error=_standard_error_of_mean(np.moveaxis(scores, 1, 0), is_exact).reshape(shape),
        noise=deviations,
    )


def models_with_fresh_noise_added(model: Model) -> list[Model]:
    """Copies of a model, each with fresh noise of the rounds added to what was released.

    The copies are made under a fixed seed, and are the same in every call. The leaves of oblivious
    trees get Gaussian noise of their known deviation, and so do the curves of a loaded model, whose
    bins are taken to be independent. Other models redraw the recorded sites of their rounds
    (`replay.redraw_hypotheses`). There are no copies if the noise is not known, or there is none.
    """
    recipe = model.recipe
    kind = model.about.kind
    if kind is OBLIVIOUS and np.any(model.hypotheses.noise):
        return _models_with_fresh_leaf_noise_added(model)
    if kind is SHAPES and model.transcript is None:
        return _models_with_fresh_curve_noise_added(model)
    if model.transcript is None or recipe is None or recipe.learner.withheld:
        return []
    import jax
    import jax.numpy as jnp

    from dpbt.privacy.keys import research_key
    from dpbt.training.replay import redraw_hypotheses
    from dpbt.training.table_preparation import without_domain
    from dpbt.types import Table

    forks.check_jax_can_run()
    absent_row = Table(
        bins=jnp.zeros((1, model.features), model.dtype),
        target=jnp.zeros(1, recipe.learner.response.target_dtype),
        present=jnp.zeros(1, bool),
        splits=model.splits,
    )
    keys = jax.random.split(research_key(0), NUM_REDRAWS)
    transcript = model.transcript._replace(recorded_on=None)
    stacked = jax.device_get(
        redraw_hypotheses(keys, transcript, without_domain(recipe), absent_row)
    )
    redrawn = (type(stacked)(*arrays) for arrays in zip(*stacked, strict=True))
    return [dataclasses.replace(model, hypotheses=hypotheses) for hypotheses in redrawn]


def _models_with_fresh_leaf_noise_added(model: Model) -> list[Model]:
    """Copies of a model of oblivious trees, with Gaussian noise added to the leaves.

    The noise has the deviation that the trees state (`ObliviousTree.noise`).
    """
    trees = model.host_hypotheses_of_run_rounds()
    rng = np.random.default_rng(0)
    depth = trees.feature.shape[1]
    share = trees.smoothing.reshape(-1, *[1] * (trees.leaf.ndim - 2 + depth))
    models_by_noise = []
    for _ in range(NUM_REDRAWS):
        noise = rng.normal(size=trees.leaf.shape)
        if noise.ndim == 3:  # what noise adds to all classes alike is not in the leaves
            num_classes = noise.shape[1]
            noise -= noise.mean(axis=1, keepdims=True)
            noise *= math.sqrt(num_classes / (num_classes - 1))
        by_bit = noise.reshape(*noise.shape[:-1], *[2] * depth)
        for axis in range(noise.ndim - 1, by_bit.ndim):
            by_bit = (by_bit + share * np.flip(by_bit, axis)) / np.sqrt(1 + share**2)
        leaf = trees.leaf + trees.noise * by_bit.reshape(trees.leaf.shape)
        hypotheses = trees._replace(leaf=leaf.astype(np.float32))
        models_by_noise.append(dataclasses.replace(model, hypotheses=hypotheses))
    return models_by_noise


def _models_with_fresh_curve_noise_added(model: Model) -> list[Model]:
    """Copies of an additive model, with Gaussian noise added to the curves and tables.

    The noise has the deviation that the curves state (`ShapeFunctions.noise`).
    """
    shapes = model.host_hypotheses_of_run_rounds()
    if not np.any(shapes.noise):
        return []
    rng = np.random.default_rng(0)
    deviation = np.asarray(shapes.noise).reshape(-1, *[1] * (shapes.score.ndim - 1))
    scores = (
        shapes.score + deviation * rng.normal(size=shapes.score.shape) for _ in range(NUM_REDRAWS)
    )
    return [
        dataclasses.replace(model, hypotheses=shapes._replace(score=score.astype(np.float32)))
        for score in scores
    ]


def _score_changes_by_fresh_noise(
    model: Model,
    noisy_models: Sequence[Model],
    domain: Domain,
    *,
    columns: list[int],
    score_or_probability: str,
) -> Float64[np.ndarray, "models combinations rows ..."]:
    """The scores of noisy copies of a model minus those of the model itself.

    They are f64[models, combinations, rows, ...], at each combination of the bins of some columns.
    """
    scores, *redrawn_scores = (
        _scores_at_bin_combinations(
            evaluated_model,
            domain,
            columns,
            score_or_probability=score_or_probability,
            max_draws=_MAX_ROWS_PER_REDRAW,
        ).scores
        for evaluated_model in (model, *noisy_models)
    )
    return np.array(redrawn_scores) - scores


def check_names_are_columns(names: Sequence[str], domain: Domain) -> None:
    """Check that all names are columns of a domain.

    Raises:
        ValueError: naming the first such name, and the columns.
    """
    for name in names:
        if name not in domain:
            raise ValueError(f"the domain has no column {show_value(name)}, it has {list(domain)}")


class _ScoresAtBinCombinations(NamedTuple):
    """The scores of rows at each combination of the bins of some columns.

    Attributes:
        scores: f64[combinations, rows, ...]. All combinations have the same rows, but for the bins
            of these columns.
        is_exact: whether these rows have every combination of the bins of the other columns.
    """

    scores: np.ndarray
    is_exact: bool


def _scores_at_bin_combinations(
    model: Model,
    domain: Domain,
    columns: list[int],
    *,
    score_or_probability: str,
    max_draws: int,
) -> _ScoresAtBinCombinations:
    """Score rows at each combination of the bins of some columns.

    The rows have all combinations of the bins of the other columns. If these are too many, the rows
    are a Latin hypercube of them.

    If there are too many combinations of the other bins, a Latin hypercube of them is scored.

    Args:
        model: the model.
        domain: its domain.
        columns: the numbers of the columns.
        score_or_probability: as `partial_dependence`.
        max_draws: as `partial_dependence`.
    """
    check_positive_integer("draws", max_draws)
    num_bins = [column.n_bins for column in domain.values()]
    other_columns = [column for column in range(len(num_bins)) if column not in columns]
    num_bins_of_others = [num_bins[column] for column in other_columns]
    combinations = _all_bin_combinations([num_bins[column] for column in columns])
    is_exact = math.prod(num_bins) <= MAX_EXACT_COMBINATIONS
    if is_exact:
        other_bins = _all_bin_combinations(num_bins_of_others)
    else:
        count = max(min(max_draws, MAX_EVALUATIONS // len(combinations)), 16)
        other_bins = _latin_hypercube_rows(num_bins_of_others, count)

    rows = np.empty((len(combinations), len(other_bins), len(num_bins)), np.uint8)
    rows[..., columns] = combinations[:, None]
    rows[..., other_columns] = other_bins
    encoded = rows.reshape(-1, len(num_bins))
    if score_or_probability == "score":
        scores = np.asarray(models.decision_function(model, encoded), np.float64)
    else:
        scores = np.asarray(models.predict_proba(model, encoded), np.float64)
        scores = scores[:, 1] if scores.shape[1] == 2 else scores  # of the positive class
    return _ScoresAtBinCombinations(scores.reshape(*rows.shape[:2], *scores.shape[1:]), is_exact)


def _all_bin_combinations(num_bins: Sequence[int]) -> UInt8[np.ndarray, "_ F"]:
    """All combinations of the bins of F columns, the last column fastest.

    They are u8[prod(num_bins), F].
    """
    return np.indices(tuple(num_bins), np.uint8).reshape(len(num_bins), math.prod(num_bins)).T


def _latin_hypercube_rows(
    num_bins: Sequence[int], num_rows: int
) -> UInt8[np.ndarray, "num_rows F"]:
    """Random rows of a Latin hypercube: u8[num_rows, F].

    Each column has its bins equally often, up to one.
    """
    rng = np.random.default_rng(0)  # the same in every call
    columns = [rng.permutation(np.arange(num_rows) % size) for size in num_bins]
    return np.stack(columns, axis=1).astype(np.uint8)


def _standard_error_of_mean(values: np.ndarray, is_exact: bool) -> np.ndarray:
    """The approximate standard error of the mean over the first axis.

    It is 0 if the mean is exact.
    """
    if is_exact:
        return np.zeros(values.shape[1:])
    return values.std(axis=0, ddof=1) / math.sqrt(len(values))
