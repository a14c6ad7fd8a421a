"""What a model makes of each attribute of the public domain. All of it is post-processing.

Everything here is a function of the model and the domain alone. It takes no private row, so it
costs no privacy. Averages are over the *uniform* law: each column has each of its cells with the
same probability, whatever the others have. The cell of missing values counts as any other, and an
interval of numbers counts as one cell, whatever its width. People are not spread like that. So an
average here describes the model, and not the people that it learned from.

Noise has effects, too. A model of noise alone splits on attributes that tell nothing, and those
then have an effect here. An effect says what the model uses, and not what is true of the data.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dpbt.analysis import boxes
from dpbt.data.domains import Domain
from dpbt.release import model as models
from dpbt.release.explain import domain_of
from dpbt.release.model import Model
from dpbt.validate import one_of, shown, whole

SEED = 0
"""Of the public rows that are drawn: the same in every call."""

DRAWS = 4096
"""How many public rows are drawn, where the domain has too many to take all."""

WHOLE = 2**16
"""The most combinations of cells that are all taken."""

EVALUATIONS = 2**19
"""About how many rows are scored for one average, where it has to be estimated."""

OF = ("score", "probability")
"""What may be averaged."""

_CHUNK = 2**16


class Effect(NamedTuple):
    """How much the score of a model depends on one attribute.

    Attributes:
        attribute: the name of the column.
        variance: the total effect, in squared units of the score.
        error: about its standard error; 0 if the variance is exact.
    """

    attribute: str
    variance: float
    error: float

    @property
    def deviation(self) -> float:
        """The root of the variance, in units of the score."""
        return math.sqrt(self.variance)


class PartialDependence(NamedTuple):
    """The mean of a model's score by the cells of one or two attributes.

    Attributes:
        attributes: the names of the columns.
        values: f64[cells of the first] or f64[cells of the first, cells of the second]. The cells
            are numbered as `domains.encode` numbers them.
        error: about the standard error of each value; 0 where the values are exact.
    """

    attributes: tuple[str, ...]
    values: np.ndarray
    error: np.ndarray


def attribute_effects(
    model: Model, domain: Domain | None = None, *, draws: int = DRAWS
) -> list[Effect]:
    """The total effect of each attribute on the score, largest first; it costs no privacy.

    The total effect of an attribute is E[Var(score | all other attributes)]. Cells have the uniform
    law of this module. In words: fix all other cells at random, redraw this one, and take the
    variance of the score. Effects with interactions count for each attribute that takes part, so
    the effects may add up to more than the variance of the score. An attribute that no hypothesis
    reads has exactly 0.

    Effects show what the model uses. Noise splits on attributes that tell nothing, so a model of
    noise alone has effects as well.

    Where the domain has at most 2^16 combinations of cells, all are taken and the result is exact.
    Otherwise public rows are drawn under a fixed seed, and the result is the same in every call.
    The estimator is half the mean square of what redrawing changes (Jansen, 1999).

    Args:
        model: from `fit`, trained on cells; or from `dpbt.load`.
        domain: the domain that encoded the table it was fitted on. A saved model may have its own.
        draws: how many public rows are drawn.

    Raises:
        ValueError: for a domain or a model of another kind, as `explain`, and for draws that are
            not an integer of at least 2.
    """
    known = domain_of(model, domain)
    _check_draws(draws)
    cells = _cells_of(known)
    score = _scorer(model, "score")
    estimate = _exact_effects if math.prod(cells) <= WHOLE else _drawn_effects
    found = [
        Effect(name, variance, error)
        for name, (variance, error) in zip(known, estimate(score, cells, draws), strict=True)
    ]
    return sorted(found, key=lambda effect: -effect.variance)


def partial_dependence(
    model: Model,
    attributes: str | Sequence[str],
    domain: Domain | None = None,
    *,
    of: str = "score",
    draws: int = DRAWS,
) -> PartialDependence:
    """The mean score for each cell of one or two attributes; it costs no privacy.

    The mean is over the cells of all other attributes, by the uniform law of this module. It is
    exact for the scores of trees of all kinds, and for the probabilities of random forests. These
    are sums over leaves, each of which takes a product of sets of cells. It is also exact where the
    other attributes have few combinations of cells. Otherwise it is the mean over public rows that
    are drawn under a fixed seed, as a Latin hypercube. These are the same rows for every cell.

    Args:
        model: from `fit`, trained on cells; or from `dpbt.load`.
        attributes: the name of a column, or of two columns.
        domain: the domain that encoded the table it was fitted on. A saved model may have its own.
        of: "score", or "probability" of the positive class, which not every model has.
        draws: how many public rows are drawn at most. A pair of attributes has fewer for each pair
            of cells, so that about 2^19 rows are scored in all, and at least 16.

    Raises:
        ValueError: for a domain or a model of another kind, as `explain`. Also for attributes that
            are not one or two distinct columns of the domain. Also for another `of`, for draws that
            are not an integer of at least 2, and as `predict_proba`.
    """
    known = domain_of(model, domain)
    names = (attributes,) if isinstance(attributes, str) else tuple(attributes)
    chosen = _numbers_of(names, known)
    one_of("of", of, OF)
    _check_draws(draws)
    cells = _cells_of(known)
    trees = boxes.of_model(model, known, of)
    if trees is not None:
        values = boxes.means(*trees, cells, chosen)
        return PartialDependence(names, values, np.zeros_like(values))
    return PartialDependence(names, *_scored_means(_scorer(model, of), cells, chosen, draws))


def _cells_of(domain: Domain) -> list[int]:
    return [kind.cells for kind in domain.values()]


def _check_draws(draws: int) -> None:
    if whole("draws", draws) < 2:
        raise ValueError(f"draws must be at least 2 for a standard error, got {shown(draws)}")


def _numbers_of(names: tuple[str, ...], domain: Domain) -> list[int]:
    """The numbers of one or two columns.

    Raises:
        ValueError: naming what is wrong.
    """
    known = list(domain)
    if len(names) not in (1, 2) or len(set(names)) != len(names):
        raise ValueError(f"expected the names of one column, or of two, got {shown(names)}")
    for name in names:
        if name not in known:
            raise ValueError(f"the domain has no column {shown(name)}, it has {known}")
    return [known.index(name) for name in names]


# Averages of scores of rows.


Scorer = Callable[[np.ndarray], np.ndarray]
"""cells u8[N, F] -> f64[N, ...], such as the score of each row."""


def _scorer(model: Model, of: str) -> Scorer:
    ask = models.decision_function if of == "score" else models.predict_proba
    return lambda rows: np.asarray(ask(model, rows)).astype(np.float64)


def _every_row(cells: Sequence[int]) -> np.ndarray:
    """u8[prod(cells), F]: all combinations of cells, the last column fastest."""
    if not cells:
        return np.zeros((1, 0), np.uint8)
    grid = np.indices(tuple(cells), np.uint8)
    return np.ascontiguousarray(grid.reshape(len(cells), -1).T)


def _hypercube(rng: np.random.Generator, cells: Sequence[int], count: int) -> np.ndarray:
    """u8[count, F]: rows in which each column has its cells equally often, up to one."""
    columns = [rng.permutation(np.arange(count) % each) for each in cells]
    return np.stack(columns, axis=1).astype(np.uint8)


def _total(per_class: np.ndarray) -> float:
    """The sum over classes, where a score has several numbers."""
    return float(np.sum(per_class))


def _exact_effects(score: Scorer, cells: list[int], draws: int) -> Iterator[tuple[float, float]]:
    """(total effect, 0) of each column, from all rows of the domain."""
    del draws
    found = score(_every_row(cells))
    grid = found.reshape(*cells, *found.shape[1:])
    for column in range(len(cells)):
        spread = np.var(grid, axis=column)
        yield _total(np.mean(spread, axis=tuple(range(len(cells) - 1)))), 0.0


def _drawn_effects(score: Scorer, cells: list[int], draws: int) -> Iterator[tuple[float, float]]:
    """(total effect, about its standard error) of each column, from rows that are drawn."""
    rng = np.random.default_rng(SEED)
    rows = _hypercube(rng, cells, draws)
    redrawn = _hypercube(rng, cells, draws)
    before = score(rows)
    for column in range(len(cells)):
        moved = rows.copy()
        moved[:, column] = redrawn[:, column]
        squares = ((score(moved) - before) ** 2 / 2).reshape(draws, -1).sum(axis=1)
        yield float(squares.mean()), float(squares.std(ddof=1) / math.sqrt(draws))


def _scored_means(
    score: Scorer, cells: list[int], chosen: list[int], draws: int
) -> tuple[np.ndarray, np.ndarray]:
    """(means, about their standard errors), each f64[cells of each chosen column, ...]."""
    own = [cells[column] for column in chosen]
    others = [column for column in range(len(cells)) if column not in chosen]
    combinations = _every_row(own)
    count = max(min(draws, EVALUATIONS // len(combinations)), 16)
    rest = [cells[column] for column in others]
    exact = math.prod(rest) <= count
    taken = _every_row(rest) if exact else _hypercube(np.random.default_rng(SEED), rest, count)

    means, errors = [], []
    together = max(_CHUNK // len(taken), 1)
    for start in range(0, len(combinations), together):
        part = combinations[start : start + together]
        rows = np.empty((len(part), len(taken), len(cells)), np.uint8)
        rows[..., chosen] = part[:, None]
        rows[..., others] = taken[None]
        found = score(rows.reshape(-1, len(cells)))
        found = found.reshape(len(part), len(taken), *found.shape[1:])
        means.append(found.mean(axis=1))
        errors.append(np.zeros_like(means[-1]) if exact else _error(found))
    shape = (*own, *means[0].shape[1:])
    return np.concatenate(means).reshape(shape), np.concatenate(errors).reshape(shape)


def _error(found: np.ndarray) -> np.ndarray:
    return found.std(axis=1, ddof=1) / math.sqrt(found.shape[1])
