"""Previews the accuracy of a recipe before you spend any budget. It reads no private row.

`preview` runs a recipe on generated rows of its domain, or on public rows, and predicts others.
"""

from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dpbt.common import compilation
from dpbt.common.preformatted_text import PreformattedText
from dpbt.common.validate import check_interval, check_positive_integer, show_value
from dpbt.data import column_types, domains, tables
from dpbt.data.column_types import Nominal, Numeric, Target
from dpbt.data.domains import Domain
from dpbt.models import measures
from dpbt.models.scoring import predictions_of_scores
from dpbt.privacy import recipe_ledger
from dpbt.privacy.keys import check_seed, research_key
from dpbt.training import table_preparation
from dpbt.training.boost import boost
from dpbt.types import Array, Recipe, Response, Table

SIGNALS = (0.1, 0.3, 0.6)
"""The signals of made-up rows by default: weak, usual and strong."""

_NUM_TEST_ROWS = 5000
"""The number of generated rows that are predicted."""


class PreviewLine(NamedTuple):
    """The simulated accuracy of one recipe at one signal.

    Accuracies are shares of correct classes. For a number they are R^2: the share of the squared
    error or the pinball loss of a constant that is explained.

    Attributes:
        rows: the public number of rows of the recipe.
        epsilon: its epsilon.
        mean: its mean accuracy over the repeats.
        error: the standard error of the mean.
        best: the accuracy of the rule that made up the labels; NaN for public rows.
        constant: the accuracy of the best constant.
        signal: the signal of the made-up rows; NaN for public rows.
    """

    rows: int
    epsilon: float
    mean: float
    error: float
    best: float
    constant: float
    signal: float = float("nan")


class Preview(NamedTuple):
    """The simulated accuracies of recipes, and a description of the simulation.

    `print` shows them as a table.

    Attributes:
        lines: the simulated accuracy of each recipe, for each signal.
        words: a description of the simulation, which begins with how far to trust it.
        measure: "accuracy" or "R^2".
        shares: the share of each class in the rows, the negative one first; empty for a number.
    """

    lines: list[PreviewLine]
    words: str
    measure: str
    shares: tuple[float, ...] = ()

    def __str__(self) -> str:
        """The description of the simulation, and a table with a line for each recipe and signal."""
        has_signal = not all(np.isnan(line.signal) for line in self.lines)
        head = f"{'rows':>9} {'epsilon':>8} {self.measure:>15} {'best':>6} {'constant':>9}"
        rows = [
            f"{line.rows:>9.0f} {line.epsilon:>8.3g} {f'{line.mean:.3f} +- {line.error:.3f}':>15} "
            f"{'' if np.isnan(line.best) else f'{line.best:.3f}':>6} {line.constant:>9.3f}"
            for line in self.lines
        ]
        if has_signal:
            head = f"{'signal':>6} {head}"
            rows = [
                f"{line.signal:>6.2g} {row}" for line, row in zip(self.lines, rows, strict=True)
            ]
        return "\n".join([self.words, head, *rows])

    def _repr_html_(self) -> str:
        """The text of the preview as HTML that keeps its lines."""
        return PreformattedText(self)._repr_html_()


def preview(
    recipes: Sequence[Recipe],
    domain: Domain,
    public: Table | None = None,
    *,
    signal: float | Sequence[float] = SIGNALS,
    shares: Sequence[float] | None = None,
    repeats: int = 5,
    seed: int = 0,
) -> Preview:
    """Run recipes on rows that are made up or public, and measure their predictions of others.

    It costs no privacy, as it reads nothing private. Made-up rows have independent columns, whose
    bins are equally likely. Their labels follow in part from a sum of one random curve for each
    column, and in part from noise. Real rows are seldom like this: how strong their signal is and
    how frequent their classes are decides more than the noise does. So a range of signals is
    simulated, and public rows of the same kind are the ones to trust. A quarter of these is for
    testing, and as many rows as the recipe's are drawn from the others, with replacement.

    Args:
        recipes: recipes of one setting each, for the domain and for one target.
        domain: the public domain.
        public: a table of rows that are public; None for generated rows. It must never be the
            private table.
        signal: for generated rows, the share of the variance of a hidden number that the columns
            explain, in (0, 1), or several of them. If a number is predicted, it is the best R^2.
        shares: for generated rows, the shares of the classes, the negative one first or in the
            order of the target, in any unit. By default classes are about equally frequent. They
            must be public, and never counted in the private rows.
        repeats: the number of runs of each recipe, on different rows and with different noise.
        seed: the seed of the rows and the noise, a whole number in 0..2^64 - 1.

    Raises:
        ValueError: for numbers out of range, for shares of a number or of other classes, for
            anything but recipes of one setting, for a recipe or public rows of another domain, and
            as `boost`.
    """
    signals = [
        float(check_interval("signal", number, "(0, 1)")) for number in np.ravel(signal).tolist()
    ]
    repeats = check_positive_integer("repeats", repeats, 1000)
    seed = check_seed(seed)
    recipes = list(recipes)
    if not recipes or any(not isinstance(r, Recipe) or np.ndim(r.rows) for r in recipes):
        raise ValueError(f"preview takes recipes of one setting each, got {show_value(recipes)}")
    domain = domains.as_declared_domain(domain)
    _check_domains_and_memory(recipes, public, domain)
    target = recipes[0].target
    lines = []
    response = column_types.response_of_target(target)
    counts = np.zeros(response.num_classes)  # 0 for a number
    class_shares = None if shares is None else _normalised_class_shares(shares, response)
    settings = [
        (signal_of_rows, recipe)
        for signal_of_rows in (signals if public is None else [np.nan])
        for recipe in map(table_preparation.without_domain, recipes)
    ]
    for signal_of_rows, recipe in settings:
        runs = []
        for number in range(repeats):
            rng = np.random.default_rng((seed, number))
            rows = _draw_training_and_test_rows(
                domain,
                target,
                num_rows=int(recipe.rows),
                signal=signal_of_rows,
                public=public,
                rng=rng,
                class_shares=class_shares,
            )
            key = research_key(rng.integers(2**31))
            runs.append(_run_and_measure_accuracy(key, rows, recipe=recipe, target=target))
            if not response.is_number:
                labels = np.asarray(rows.table.target).astype(int)
                counts = counts + np.bincount(labels, minlength=response.num_classes)
        lines.append(_preview_line_of_runs(recipe, signal_of_rows, runs))
    measured_shares = tuple((counts / max(counts.sum(), 1)).tolist())
    return Preview(
        lines=lines,
        words=_describe_simulation(public is not None, target, measured_shares),
        measure="R^2" if response.is_number else "accuracy",
        shares=measured_shares,
    )


def _check_domains_and_memory(
    recipes: Sequence[Recipe], public: Table | None, domain: domains.DeclaredDomain
) -> None:
    """Refuse public rows or recipes of another domain, and recipes whose tables exceed memory."""
    if public is not None:
        domains.check_same_domain(public.domain, domain, "the public table", "the preview")
    for recipe in recipes:
        domains.check_same_domain(recipe.domain, domain, "the recipe", "the preview")
        tables.check_table_fits_memory(domain, int(recipe.rows), tables.DEFAULT_MEMORY_BYTES)


def _describe_simulation(
    is_public: bool, target: Target | None, class_shares: tuple[float, ...]
) -> str:
    """Describe what was simulated.

    The text begins with how far to trust it.
    """
    if is_public:
        lines = ["a simulation on public rows: trust it as far as these are like yours"]
    else:
        lines = [
            "a simulation on made-up rows; for an accuracy to trust, give public rows of the same "
            "kind (--public)",
            "made-up rows show what the noise leaves of a signal, the share of a hidden number "
            "that columns explain,",
            "and not how strong the signal of your rows is",
        ]
    if class_shares:
        names = target.values if isinstance(target, Nominal) else ("negative", "positive")
        class_shares_text = ", ".join(
            f"{name} {share:.3g}" for name, share in zip(names, class_shares, strict=True)
        )
        lines.append(f"shares of the classes in these rows: {class_shares_text}")
        if not is_public:
            lines[-1] += " (--shares sets them)"
    lines.append("no private row was read, and nothing was spent")
    return "\n".join(lines)


def _normalised_class_shares(shares: Sequence[float], response: Response) -> np.ndarray:
    """The stated shares of the classes, divided by their sum: f64[K].

    Raises:
        ValueError: for a number, and unless there is a number above 0 for each class.
    """
    if response.is_number:
        raise ValueError("shares are of classes, and the recipe predicts a number")
    values = np.asarray(shares, np.float64)
    is_valid = values.shape == (response.num_classes,) and np.all(
        np.isfinite(values) & (values > 0)
    )
    if not is_valid:
        raise ValueError(
            f"shares must be {response.num_classes} numbers above 0, one for each class, got "
            f"{show_value(shares)}"
        )
    return values / values.sum()


class _TrainingAndTestRows(NamedTuple):
    """Rows to learn from, rows to predict, and the best predictions of these.

    Attributes:
        table: the rows. Present ones are to learn from, and absent ones to predict.
        best: the best prediction for each row: bool[N], i[N], or a position f[N] in the range; None
            for public rows.
    """

    table: Table
    best: np.ndarray | None


class _RunAccuracy(NamedTuple):
    """The accuracy of one run, of the best constant, and of the rule that made up the labels.

    The last one is NaN if it is not known.
    """

    accuracy: float
    constant: float
    best: float


def _run_and_measure_accuracy(
    key: Array, rows: _TrainingAndTestRows, *, recipe: Recipe, target: Target | None
) -> _RunAccuracy:
    """Run a recipe on the present rows, and measure how well it predicts the others."""
    scores = np.asarray(_boost_and_score_all_rows(key, rows.table, recipe))
    is_test_row = ~np.asarray(rows.table.present)
    labels = np.asarray(rows.table.target)[is_test_row]
    predicted = predictions_of_scores(target, scores[is_test_row])
    if isinstance(target, Numeric):
        predicted = (predicted - target.low) / (target.high - target.low)
    accuracy, constant = _measure_predictions(target, labels, predicted)
    best = np.nan
    if rows.best is not None:
        best = _measure_predictions(target, labels, rows.best[is_test_row]).accuracy
    return _RunAccuracy(accuracy, constant, best)


def _preview_line_of_runs(
    recipe: Recipe, signal: float, runs: Sequence[_RunAccuracy]
) -> PreviewLine:
    """Average the accuracy of the runs of a recipe at one signal into a line of the preview."""
    accuracies = np.array([run.accuracy for run in runs])
    return PreviewLine(
        rows=int(recipe.rows),
        epsilon=recipe_ledger.ledger(recipe).epsilon,
        mean=float(np.mean(accuracies)),
        error=float(np.std(accuracies, ddof=len(runs) > 1) / np.sqrt(len(runs))),
        best=float(np.mean([run.best for run in runs])),
        constant=float(np.mean([run.constant for run in runs])),
        signal=signal,
    )


@compilation.jit_with_bounded_cache()
def _boost_and_score_all_rows(key: Array, table: Table, recipe: Recipe) -> Array:
    """Boost on the present rows, and return the scores of all rows: f32[N] or f32[N, K].

    Recipes that differ in numbers alone share a compiled program.
    """
    return jnp.moveaxis(boost(key, table, recipe).scores, 0, -1)


def _draw_training_and_test_rows(
    domain: Domain,
    target: Target | None,
    *,
    num_rows: int,
    signal: float,
    public: Table | None,
    rng: np.random.Generator,
    class_shares: np.ndarray | None = None,
) -> _TrainingAndTestRows:
    """Draw rows to learn from and further rows to predict, from public rows or made up.

    There are `num_rows` rows to learn from. Made-up rows have the classes about equally often, or
    with the shares f64[K] `class_shares`.
    """
    if public is not None:
        return _split_public_rows(public, num_rows, rng)
    total = num_rows + _NUM_TEST_ROWS
    response = column_types.response_of_target(target)
    bins = np.stack([rng.integers(0, c.n_bins, total) for c in domain.values()], axis=1)
    explained = _sum_of_random_curves(domain, bins, axes=response.score_axes, rng=rng)
    explained *= np.sqrt(signal) / np.maximum(explained.std(axis=-1, keepdims=True), 1e-9)
    deviation = np.sqrt(1 - signal)
    hidden_numbers = explained + deviation * rng.normal(size=explained.shape)
    # The best prediction of a quantile is that of the hidden number, given what is explained.
    quantile = deviation * NormalDist().inv_cdf(response.level) if response.level else 0.0
    if class_shares is not None:
        offsets = _offsets_for_class_shares(hidden_numbers, class_shares)
        hidden_numbers = hidden_numbers + offsets
        explained = explained + offsets
    table = Table(
        bins=jnp.asarray(bins, jnp.uint8),
        target=jnp.asarray(
            _labels_of_hidden_numbers(hidden_numbers, response), response.target_dtype
        ),
        present=jnp.arange(total) < num_rows,
        splits=domains.splits(domain),
    )
    return _TrainingAndTestRows(table, _labels_of_hidden_numbers(explained + quantile, response))


def _split_public_rows(
    public: Table, num_rows: int, rng: np.random.Generator
) -> _TrainingAndTestRows:
    """Hold a random quarter of public rows out, and draw rows to learn from the others.

    They are drawn with replacement.
    """
    present = rng.permutation(np.flatnonzero(public.present))
    test_rows, training_candidates = np.split(present, [len(present) // 4])
    row_numbers = np.concatenate([rng.choice(training_candidates, num_rows), test_rows])
    table = Table(
        bins=np.asarray(public.bins)[row_numbers],  # type: ignore[arg-type]
        target=np.asarray(public.target)[row_numbers],  # type: ignore[arg-type]
        present=jnp.arange(len(row_numbers)) < num_rows,
        splits=public.splits,
    )
    return _TrainingAndTestRows(table, None)


_NUM_OFFSET_STEPS = 60
"""The number of steps by which the offsets of several classes approach the stated shares."""


def _offsets_for_class_shares(
    hidden_numbers: np.ndarray, class_shares: np.ndarray
) -> np.ndarray | float:
    """The offsets with which hidden numbers give classes the stated shares.

    The hidden numbers are f64[N] or f64[K, N]. As the noise of a hidden number is symmetric, and
    that of K of them alike, the best prediction is still that of the explained part with the same
    offsets.
    """
    if hidden_numbers.ndim == 1:
        return -np.quantile(hidden_numbers, class_shares[0])
    offsets = np.zeros((len(hidden_numbers), 1))
    for _ in range(_NUM_OFFSET_STEPS):
        counts = np.bincount(
            (hidden_numbers + offsets).argmax(axis=0), minlength=len(hidden_numbers)
        )
        simulated_shares = (counts + 1) / (counts.sum() + len(hidden_numbers))
        offsets += 0.5 * np.log(class_shares / simulated_shares)[:, None]
    return offsets


def _sum_of_random_curves(
    domain: Domain, bins: np.ndarray, *, axes: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """For each row the sum of random curves of its columns: f64[*axes, N].

    There is one curve of each column, and the mean over the rows is 0. Over ordered bins a curve is
    a random walk; otherwise each bin has an independent value.
    """
    total = np.zeros((*axes, len(bins)))
    for column, bin in zip(domain.values(), bins.T, strict=True):
        curve = rng.normal(size=(*axes, column.n_bins))
        if not isinstance(column, Nominal) or column.ordered:
            curve = np.cumsum(curve, axis=-1)
        curve /= np.maximum(curve.std(axis=-1, keepdims=True), 0.1)
        total += rng.exponential() * curve[..., bin]
    total -= total.mean(axis=-1, keepdims=True)
    return total


def _labels_of_hidden_numbers(hidden_numbers: np.ndarray, response: Response) -> np.ndarray:
    """The label of each row by its hidden number: a class, or a position in the range.

    The hidden numbers are f64[N], or f64[K, N] for K classes.
    """
    if response.is_number:
        return np.clip(0.4 + 0.15 * hidden_numbers, 0, 1)
    return hidden_numbers.argmax(axis=0) if response.score_axes else hidden_numbers > 0


class _AccuracyAndBaseline(NamedTuple):
    """The accuracy or the R^2 of predictions, and that of the best constant prediction."""

    accuracy: float
    constant: float


def _measure_predictions(
    target: Target | None, labels: np.ndarray, predicted: np.ndarray
) -> _AccuracyAndBaseline:
    """The accuracy of predicted classes, or the R^2 of predicted numbers, and that of a constant.

    Numbers are positions in the range, and the constant is the best one.
    """
    response = column_types.response_of_target(target)
    if not response.is_number:
        accuracy = float(np.mean(predicted == labels))
        return _AccuracyAndBaseline(accuracy, measures.share_of_most_frequent_class(labels))

    def mean_loss(predicted: np.ndarray | float) -> float:
        residual = labels - predicted
        level = response.level
        loss = measures.pinball_loss(residual, level) if level else residual**2
        return float(np.mean(loss))

    constant = np.quantile(labels, response.level) if response.level else np.mean(labels)
    return _AccuracyAndBaseline(
        1 - mean_loss(predicted) / max(mean_loss(float(constant)), 1e-30), 0.0
    )
