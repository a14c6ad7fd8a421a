"""How accurate a recipe is likely to be, before anything is spent. No private row is read.

A recipe is run on made-up rows of its domain, or on rows that are public, and predicts others.
"""

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from dpbt.common import programs
from dpbt.common.validate import check_interval, check_whole_number, show_value
from dpbt.data import domains, kinds
from dpbt.data.domains import Domain
from dpbt.data.kinds import Nominal, Numeric, Target
from dpbt.models import measures
from dpbt.models.scoring import predictions_of_scores
from dpbt.privacy import pricing
from dpbt.privacy.keys import research_key
from dpbt.training import step
from dpbt.training.fit import boost
from dpbt.types import Array, Recipe, Table

_NUM_TEST_ROWS = 5000
"""How many made-up rows are predicted."""


class Preview(NamedTuple):
    """What a simulation found; `print` it.

    Attributes:
        lines: (rows, epsilon, mean, standard error, best or NaN, constant) of each recipe: the
            accuracy, or how much of the squared error or pinball loss of a constant is explained
            (R^2). The best is that of the rule that made up the labels.
        words: what it is.
        measure: "accuracy" or "R^2".
    """

    lines: list[tuple[float, ...]]
    words: str
    measure: str

    def __str__(self) -> str:
        """A table, after what it is."""
        head = f"{'rows':>9} {'epsilon':>8} {self.measure:>15} {'best':>6} {'constant':>9}"
        rows = [
            f"{rows:>9.0f} {epsilon:>8.3g} {f'{mean:.3f} +- {error:.3f}':>15} "
            f"{'' if np.isnan(best) else f'{best:.3f}':>6} {constant:>9.3f}"
            for rows, epsilon, mean, error, best, constant in self.lines
        ]
        return "\n".join([self.words, head, *rows])


def preview(
    recipes: Sequence[Recipe],
    domain: Domain,
    public: Table | None = None,
    *,
    signal: float = 0.3,
    repeats: int = 5,
    seed: int = 0,
) -> Preview:
    """Run recipes on rows that are made up or public, and measure their predictions of others.

    It costs no privacy, as it reads nothing private. Made-up rows have independent columns, whose
    bins are equally likely, and labels that a sum of one random curve a column says in part. Real
    rows are seldom like this, so public rows of the same kind say more. Of these a quarter is for
    testing, and as many as the recipe's rows are drawn from the others, with replacement.

    Args:
        recipes: of one setting each, which read the bins of the domain, and of one target.
        domain: the public domain.
        public: a table of rows that are public. It must never be the private one.
        signal: of made-up rows, the share of the variance of a hidden number that the columns
            explain, in (0, 1); of a number it is the best R^2.
        repeats: how many times each is run, on other rows and with other noise.
        seed: of all of it.

    Raises:
        ValueError: for numbers out of range, for what is no recipe of one setting, for a recipe or
            public rows of another domain, and as `boost`.
    """
    share, count = (
        float(check_interval("signal", signal, "(0, 1)")),
        check_whole_number("repeats", repeats, 1000),
    )
    recipes = list(recipes)
    if not recipes or any(not isinstance(r, Recipe) or np.ndim(r.rows) for r in recipes):
        raise ValueError(f"preview takes recipes of one setting each, got {show_value(recipes)}")
    domain = domains.as_declared_domain(domain)
    if public is not None:
        domains.check_same_domain(public.domain, domain, "the public table", "the preview")
    for recipe in recipes:
        domains.check_same_domain(recipe.domain, domain, "the recipe", "the preview")
    target, lines = recipes[0].target, []
    for recipe in map(step.without_domain, recipes):
        found = []
        for number in range(count):
            rng = np.random.default_rng((seed, number))
            table, best = _simulated_rows(domain, target, int(recipe.rows), share, public, rng)
            scores = np.asarray(_boosted_scores(research_key(rng.integers(2**31)), table, recipe))
            test = ~np.asarray(table.present)
            labels, predicted = (
                np.asarray(table.target)[test],
                predictions_of_scores(target, scores[test]),
            )
            if isinstance(target, Numeric):
                predicted = (predicted - target.low) / (target.high - target.low)
            of_best = (
                np.nan if best is None else _measure_predictions(target, labels, best[test])[0]
            )
            found.append((*_measure_predictions(target, labels, predicted), of_best))
        mean, constant, best = np.mean(found, axis=0)
        error = np.std([each[0] for each in found], ddof=count > 1) / np.sqrt(count)
        epsilon = pricing.ledger(recipe).epsilon
        lines.append((int(recipe.rows), epsilon, mean, error, best, constant))
    rows = f"made-up rows of the domain, of signal {share:g}" if public is None else "public rows"
    words = f"a simulation on {rows}; no private row was read, and nothing was spent"
    return Preview(lines, words, "R^2" if kinds.response_of(target).is_number else "accuracy")


@programs.keep_compiled()
def _boosted_scores(key: Array, table: Table, recipe: Recipe) -> Array:
    """f32[N] or f32[N, K]; recipes that differ in numbers alone share a program."""
    return jnp.moveaxis(boost(key, table, recipe).scores, 0, -1)


def _simulated_rows(
    domain: Domain,
    target: Target | None,
    rows: int,
    signal: float,
    public: Table | None,
    rng: np.random.Generator,
) -> tuple[Table, np.ndarray | None]:
    """Present rows to learn from, absent ones to predict, and the best answers to made-up ones."""
    if public is not None:
        there = rng.permutation(np.flatnonzero(public.present))
        test, others = np.split(there, [len(there) // 4])
        chosen = np.concatenate([rng.choice(others, rows), test])
        arrays: Any = [np.asarray(array)[chosen] for array in (public.bins, public.target)]
        arrays += [jnp.arange(len(chosen)) < rows, public.splits]
        return Table(*arrays), None

    # Each curve is a random walk over bins in order, or has a value of its own for each bin.
    total, response = rows + _NUM_TEST_ROWS, kinds.response_of(target)
    bins = np.stack([rng.integers(0, c.n_bins, total) for c in domain.values()], axis=1)
    hidden = np.zeros((*response.axes, total))
    for column, bin in zip(domain.values(), bins.T, strict=True):
        curve = rng.normal(size=(*response.axes, column.n_bins))
        if not isinstance(column, Nominal) or column.ordered:
            curve = np.cumsum(curve, axis=-1)
        curve /= np.maximum(curve.std(axis=-1, keepdims=True), 0.1)
        hidden += rng.exponential() * curve[..., bin]
    hidden -= hidden.mean(axis=-1, keepdims=True)
    hidden *= np.sqrt(signal) / np.maximum(hidden.std(axis=-1, keepdims=True), 1e-9)
    noise = np.sqrt(1 - signal)
    middle = noise * NormalDist().inv_cdf(response.level) if response.level else 0.0
    seen, known = hidden + noise * rng.normal(size=hidden.shape), hidden + middle

    def said(hidden: np.ndarray) -> np.ndarray:
        if response.is_number:
            return np.clip(0.4 + 0.15 * hidden, 0, 1)
        return hidden.argmax(axis=0) if response.axes else hidden > 0

    of_rows = jnp.asarray(bins, jnp.uint8), jnp.asarray(said(seen), response.dtype)
    return Table(*of_rows, jnp.arange(total) < rows, domains.splits(domain)), said(known)


def _measure_predictions(
    target: Target | None, labels: np.ndarray, predicted: np.ndarray
) -> tuple[float, float]:
    """The accuracy or R^2 of predicted classes or positions, and that of a constant."""
    response = kinds.response_of(target)
    if not response.is_number:
        return float(np.mean(predicted == labels)), measures.share_of_most_frequent(labels)

    def loss(predicted: np.ndarray | float) -> float:
        apart, level = labels - predicted, response.level
        each = np.maximum(level * apart, (level - 1) * apart) if level else apart**2
        return float(np.mean(each))

    constant = np.quantile(labels, response.level) if response.level else np.mean(labels)
    return 1 - loss(predicted) / max(loss(float(constant)), 1e-30), 0.0
