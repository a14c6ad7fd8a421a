"""What a model makes of each attribute of the public domain. All of it is post-processing.

Everything here is a function of the model and the domain alone. It takes no private row, so it
costs no privacy. Averages are over the *uniform* law: each column has each of its bins with the
same probability, whatever the others have. The bin of missing values counts as any other, and an
interval of numbers counts as one bin, whatever its width. People are not spread like that. So an
average here describes the model, and not the people that it learned from.

Noise has effects, too. A model of noise alone splits on attributes that tell nothing, and those
then have an effect here. An effect says what the model uses, and not what is true of the data. With
`noise=True` functions say what noise alone does. They take a fitted model and draw the noise of its
rounds again around what was released (`boosting.redraw_hypotheses`). That needs the public scales
of noise and no row, so it costs no privacy. Splits that were selected stay, and so do the first and
the last step. A loaded model has no transcript, so its noise is not known here.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpbt.common.validate import check_choice, check_whole_number, show_value
from dpbt.data.domains import Domain
from dpbt.models import model as models
from dpbt.models.model import Model, domain_of_bins

MAX_EXACT_COMBINATIONS = 2**14
"""The most combinations of bins that are all taken."""

MAX_EVALUATIONS = 2**17
"""About how many rows are scored at most for one average that is estimated."""

NUM_REDRAWS, _MAX_ROWS_OF_NOISE = 16, 128
"""How often noise is drawn again, and how many public rows are then drawn at most."""


class Effect(NamedTuple):
    """How much the score of a model depends on one attribute.

    Attributes:
        attribute: the name of the column.
        variance: the total effect, in squared units of the score.
        error: about its standard error; 0 if the variance is exact.
        noise: the total effect of noise alone, in the same units; 0 where it is not known.
    """

    attribute: str
    variance: float
    error: float
    noise: float = 0.0

    @property
    def deviation(self) -> float:
        """The root of the variance, in units of the score."""
        return math.sqrt(self.variance)


class PartialDependence(NamedTuple):
    """The mean of a model's score by the bins of one or two attributes.

    Attributes:
        attributes: the names of the columns.
        values: f64[bins of the first] or f64[bins of the first, bins of the second]. The bins
            are numbered as `domains.encode` numbers them.
        error: about the standard error of each value; 0 where the values are exact.
        noise: about the deviation that noise alone gives each value, less what it adds to all
            values alike; 0 where it is not known.
    """

    attributes: tuple[str, ...]
    values: np.ndarray
    error: np.ndarray
    noise: np.ndarray


def attribute_effects(
    model: Model, domain: Domain | None = None, *, draws: int = 1024, noise: bool = False
) -> list[Effect]:
    """The total effect of each attribute on the score, largest first; it costs no privacy.

    The total effect of an attribute is E[Var(score | all other attributes)]. Bins have the uniform
    law of this module. In words: fix all other bins at random, redraw this one, and take the
    variance of the score. Effects with interactions count for each attribute that takes part, so
    the effects may add up to more than the variance of the score. An attribute that no hypothesis
    reads has exactly 0.

    Effects show what the model uses. Noise splits on attributes that tell nothing, so a model of
    noise alone has effects as well.

    Where the domain has at most 2^14 combinations of bins, all are taken and the result is exact.
    Otherwise public rows are drawn as for `partial_dependence`.

    Args:
        model: from `fit`, trained on bins; or from `dpbt.load`.
        domain: the domain that encoded the table it was fitted on. A saved model may have its own.
        draws: as `partial_dependence`.
        noise: also find the effects of noise alone.

    Raises:
        ValueError: for a domain or a model of another kind, as `explain`, and for draws that are
            not an integer of at least 1.
    """
    known, found = domain_of_bins(model, domain), []
    again = redrawn_models(model) if noise else []
    for number, name in enumerate(known):
        scores, exact = _scores_by_bins(model, known, [number], "score", draws)
        variances = scores.var(axis=0)
        of_rows = variances.reshape(len(variances), -1).sum(axis=1)  # over classes
        of_noise = 0.0
        if again:
            moved = _changes_by_noise(model, again, known, [number], "score").var(axis=1)
            of_noise = float(moved.mean(axis=(0, 1)).sum())
        found.append(
            Effect(name, float(of_rows.mean()), float(_standard_error(of_rows, exact)), of_noise)
        )
    return sorted(found, key=lambda effect: -effect.variance)


def partial_dependence(
    model: Model,
    attributes: str | Sequence[str],
    domain: Domain | None = None,
    *,
    of: str = "score",
    draws: int = 4096,
    noise: bool = False,
) -> PartialDependence:
    """The mean score for each bin of one or two attributes; it costs no privacy.

    The mean is over the bins of all other attributes, by the uniform law of this module. It is
    exact where the domain has at most 2^14 combinations of bins. Otherwise it is the mean over
    public rows that are drawn under a fixed seed, as a Latin hypercube. These are the same rows for
    every bin, and in every call.

    Args:
        model: from `fit`, trained on bins; or from `dpbt.load`.
        attributes: the name of a column, or of two columns.
        domain: the domain that encoded the table it was fitted on. A saved model may have its own.
        of: "score", or "probability" of the positive class, which not every model has.
        draws: how many public rows are drawn at most. A pair of attributes has fewer for each pair
            of bins, so that about 2^17 rows are scored in all, and at least 16.
        noise: also find what noise alone does.

    Raises:
        ValueError: for a domain or a model of another kind, as `explain`. Also for attributes that
            are not one or two distinct columns of the domain. Also for another `of`, for draws that
            are not an integer of at least 1, and as `predict_proba`.
    """
    known = domain_of_bins(model, domain)
    names = (attributes,) if isinstance(attributes, str) else tuple(attributes)
    if len(names) not in (1, 2) or len(set(names)) != len(names):
        raise ValueError(f"expected the names of one column, or of two, got {show_value(names)}")
    check_columns(names, known)
    check_choice("of", of, ("score", "probability"))

    chosen = [list(known).index(name) for name in names]
    scores, exact = _scores_by_bins(model, known, chosen, of, draws)
    shape = (*(known[name].n_bins for name in names), *scores.shape[2:])
    rows_first = np.moveaxis(scores, 1, 0)
    means, errors, deviation = (
        scores.mean(axis=1),
        _standard_error(rows_first, exact),
        np.zeros(shape),
    )
    if again := redrawn_models(model) if noise else []:
        moved = _changes_by_noise(model, again, known, chosen, of).mean(axis=2)
        moved -= moved.mean(axis=1, keepdims=True)
        deviation = np.sqrt(np.mean(moved**2, axis=0)).reshape(shape)
    return PartialDependence(names, means.reshape(shape), errors.reshape(shape), deviation)


def redrawn_models(model: Model) -> list[Model]:
    """Models as they are if the noise of the rounds is drawn again around what was released.

    They are made under a fixed seed, and are the same in every call. There are none where the
    transcript is not known, or does not hold all that the rounds drew.
    """
    recipe = model.recipe
    if model.transcript is None or recipe is None or recipe.learner.traits.withheld:
        return []
    import jax
    import jax.numpy as jnp

    from dpbt.privacy.keys import research_key
    from dpbt.training import boosting, step
    from dpbt.types import Table

    target = jnp.zeros(1, recipe.learner.hypotheses.response.dtype)
    bins = jnp.zeros((1, model.features), model.dtype)
    dummy = Table(bins, target, jnp.zeros(1, bool), model.splits)
    keys = jax.random.split(research_key(0), NUM_REDRAWS)
    bare = step.without_domain(recipe), dummy
    found = jax.device_get(boosting.redraw_hypotheses(keys, model.transcript.parts, *bare))
    each = (type(found)(*arrays) for arrays in zip(*found, strict=True))
    return [dataclasses.replace(model, hypotheses=hypotheses) for hypotheses in each]


def _changes_by_noise(
    model: Model, again: Sequence[Model], domain: Domain, chosen: list[int], of: str
) -> np.ndarray:
    """f64[models, combinations, rows, ...]: what other models say, less what the model says."""
    ours, *theirs = (
        _scores_by_bins(one, domain, chosen, of, _MAX_ROWS_OF_NOISE)[0] for one in (model, *again)
    )
    return np.array(theirs) - ours


def check_columns(names: Sequence[str], domain: Domain) -> None:
    """Refuse names that are not columns of a domain.

    Raises:
        ValueError: naming one, and the columns.
    """
    for name in names:
        if name not in domain:
            raise ValueError(f"the domain has no column {show_value(name)}, it has {list(domain)}")


def _scores_by_bins(
    model: Model, domain: Domain, chosen: list[int], of: str, draws: int
) -> tuple[np.ndarray, bool]:
    """What a model says of rows with all combinations of the bins of some columns.

    Returns:
        f64[combinations, rows, ...]; all combinations have the same rows, but for their own bins.
        And whether these rows have every combination of the other columns' bins.
    """
    check_whole_number("draws", draws)
    bins = [column.n_bins for column in domain.values()]
    others = [column for column in range(len(bins)) if column not in chosen]
    combinations = _all_combinations([bins[column] for column in chosen])
    rest, exact = [bins[column] for column in others], math.prod(bins) <= MAX_EXACT_COMBINATIONS
    count = max(min(draws, MAX_EVALUATIONS // len(combinations)), 16)
    taken = _all_combinations(rest) if exact else _latin_hypercube(rest, count)

    rows = np.empty((len(combinations), len(taken), len(bins)), np.uint8)
    rows[..., chosen] = combinations[:, None]
    rows[..., others] = taken
    cells = rows.reshape(-1, len(bins))
    if of == "score":
        found = np.asarray(models.decision_function(model, cells), np.float64)
    else:
        found = np.asarray(models.predict_proba(model, cells), np.float64)
        found = found[:, 1] if found.shape[1] == 2 else found  # of the positive class
    return found.reshape(*rows.shape[:2], *found.shape[1:]), exact


def _all_combinations(bins: Sequence[int]) -> np.ndarray:
    """u8[prod(bins), F]: all combinations of bins, the last column fastest."""
    return np.indices(tuple(bins), np.uint8).reshape(len(bins), math.prod(bins)).T


def _latin_hypercube(bins: Sequence[int], count: int) -> np.ndarray:
    """u8[count, F]: rows in which each column has its bins equally often, up to one."""
    rng = np.random.default_rng(0)  # the same in every call
    columns = [rng.permutation(np.arange(count) % each) for each in bins]
    return np.stack(columns, axis=1).astype(np.uint8)


def _standard_error(found: np.ndarray, exact: bool) -> np.ndarray:
    """About the standard error of the mean over the first axis."""
    if exact:
        return np.zeros(found.shape[1:])
    return found.std(axis=0, ddof=1) / math.sqrt(len(found))
