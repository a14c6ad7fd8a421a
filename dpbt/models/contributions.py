"""What each column of a row adds to its score: exact Shapley values of a model, by NumPy alone.

The value of a set of columns is the mean score of a row that has these cells, and whose other cells
are drawn independently from a public background. So the game is the *interventional* one with a
product background. Its Shapley value is the only attribution that is efficient (contributions and
the base add up to the score), symmetric, linear, and 0 for a column that the model does not read.

A tree is a sum over its leaves, and a leaf is a product over columns: its value times, for each
column, whether the cell is on the leaf's path. For a product the Shapley value has a closed form,
the integral along the diagonal of its multilinear extension (Owen, Multilinear extensions of games,
1972): with u_k = 1 if the cell of column k is on the path, else 0, and p_k the background's share
of such cells, column j gets

    integral over t in [0, 1] of  (u_j - p_j) product over k != j of (t u_k + (1 - t) p_k).

The integrand is a polynomial in t, so a few Gauss-Legendre nodes give the integral exactly, up to
rounding. In an additive model a column adds its curve less the mean of the curve, and a declared
pair is an entry of its own.

All of it follows from the model, from the public domain and from the row that is asked about. It
reads no training row and spends nothing; but it shows what is in that row, as a prediction does.
"""

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, UInt8

from dpbt.common.preformatted_text import PreformattedText
from dpbt.common.validate import show_value
from dpbt.data.column_types import Nominal, Numeric
from dpbt.data.domains import Domain
from dpbt.learners.additive.model import SHAPES, ShapeFunctions, shape_functions_by_column
from dpbt.learners.model_parts import LeafBoxes
from dpbt.models.scoring import as_encoded_rows
from dpbt.public_types import MAX_BINS, redacted_repr

_MAX_ENTRIES = 2**21
"""About the largest number of (row, leaf, condition) that are worked out at once."""

ROW_IS_SHOWN = (
    "this follows from the model and from the row alone; it shows the row, so it is as private as "
    "the row"
)
"""What an explanation of a row is, for those who print it."""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Contributions:
    """The amounts that the columns of N rows add to their scores.

    `base` plus the sum of `values` over entries is the score of a row, up to rounding.

    Attributes:
        columns: for each of E entries the name of its column, or the two names of a declared pair
            of an additive model. All columns of the domain are there, in its order.
        values: f64[N, E], or f64[N, E, K] with several classes: the contributions. Of a number they
            are in its units, and of a count in units of its logarithm, before any clipping.
        noise: of the same shape, about the standard deviation of each value by the noise of
            privacy; None if the model does not know it. It is the noise of the leaves or of the
            curves, given which splits were used. It leaves out what the first and the last step of
            a fit released (histograms, and the line of the final scores), that training rows are a
            sample, and that leaves at their limit may move.
        base: f64[], or f64[K]: the mean score over the background.
        scores: f64[N], or f64[N, K]: the scores, as `base` plus all values.
        unit: the words for what is added up, such as "score".
        classes: the names of the classes; None for a number, or if they have no names.
        bins: u8[N, F], the rows themselves; private.
        domain: the domain of the rows.
    """

    columns: tuple[tuple[str, ...], ...]
    values: Float64[np.ndarray, "N E ..."]
    noise: Float64[np.ndarray, "N E ..."] | None
    base: Float64[np.ndarray, "..."]
    scores: Float64[np.ndarray, "N ..."]
    unit: str
    classes: tuple[Any, ...] | None
    bins: UInt8[np.ndarray, "N F"]
    domain: Domain

    __repr__ = redacted_repr

    def with_classes(self, classes: Sequence[Any]) -> "Contributions":
        """A copy with names of the classes, which a model may not have."""
        is_of_two = self.values.ndim == 2
        unit = f"score of {classes[1]}" if is_of_two else self.unit
        return dataclasses.replace(self, classes=tuple(classes), unit=unit)

    def of_row(self, row: int = 0, class_: Any = None) -> "RowContributions":
        """The contributions to one score of one row, the largest first.

        Args:
            row: the number of the row, from 0.
            class_: the class whose score it is, for a model of several classes.

        Raises:
            ValueError: for a row that is not there, and for a class that the model does not have,
                or no class if there are several.
        """
        if not isinstance(row, int | np.integer) or not 0 <= row < len(self.values):
            raise ValueError("row must be the number of one of the rows, of which the first is 0")
        values = self.values[row]
        base = self.base
        score = self.scores[row]
        noise = None if self.noise is None else self.noise[row]
        unit = self.unit
        if values.ndim == 2:
            names = list(self.classes or range(values.shape[1]))
            if class_ not in names:
                raise ValueError(
                    f"class_ must be one of {show_value(names)}, got {show_value(class_)}"
                )
            number = names.index(class_)
            values = values[:, number]
            base = base[number]
            score = score[number]
            noise = None if noise is None else noise[:, number]
            unit = f"{unit} of {class_}"
        elif class_ is not None:
            raise ValueError("class_ is for models of several classes")
        order = np.argsort(-np.abs(values), kind="stable")
        return RowContributions(
            names=tuple(" and ".join(self.columns[entry]) for entry in order),
            cells=tuple(self._bin_words_of_row(row, self.columns[entry]) for entry in order),
            values=values[order],
            noise=None if noise is None else noise[order],
            base=float(base),
            score=float(score),
            unit=unit,
        )

    def _bin_words_of_row(self, row: int, columns: tuple[str, ...]) -> str:
        """The words for the bins of a row in one column, or in two."""
        names = list(self.domain)
        words = []
        for name in columns:
            column = self.domain[name]
            bin = int(self.bins[row, names.index(name)])
            words.append(_describe_bin(column, bin))
        return " and ".join(words)


class RowContributions(NamedTuple):
    """The amounts that the columns add to one score of one row, the largest first.

    `print` shows them.

    Attributes:
        names: the column of each entry, or the two columns of a pair.
        cells: what the row has there, in the words of its bin.
        values: f64[E], what each adds.
        noise: f64[E], as `Contributions.noise`; None if it is not known.
        base: the mean over the background.
        score: the sum of the base and all values.
        unit: the words for what is added up.
    """

    names: tuple[str, ...]
    cells: tuple[str, ...]
    values: np.ndarray
    noise: np.ndarray | None
    base: float
    score: float
    unit: str

    def _repr_html_(self) -> str:
        """The printed text as HTML, with its lines."""
        return PreformattedText(self)._repr_html_()

    def __str__(self) -> str:
        """A table in text: a line for the score, and one for each entry that adds anything."""
        digits = _num_decimals_shown(self)
        is_shown = np.round(self.values, digits) != 0
        shown = [entry for entry in range(len(self.names)) if is_shown[entry]]
        cells = [self.cells[entry] for entry in shown]
        lines = [
            f"{self.unit} {self.score:+.{digits}f}: {self.base:+.{digits}f} on average, and what "
            "the row's columns add to that"
        ]
        if self.noise is None:
            lines.append("how much of it the noise of privacy adds is not known for this model")
        else:
            lines.append("+- is one deviation of the noise of privacy in each of these")
        name_width = max([len(self.names[entry]) for entry in shown] + [6])
        cell_width = max(map(len, cells), default=0)
        for entry, cell in zip(shown, cells, strict=True):
            line = f"{self.names[entry]:{name_width}}  {cell:{cell_width}}"
            line += f"  {self.values[entry]:+.{digits}f}"
            if self.noise is not None:
                line += f" +- {self.noise[entry]:.{digits}f}"
            lines.append(line)
        num_hidden = len(self.names) - len(shown)
        if num_hidden:
            lines.append(f"{num_hidden} more add nothing")
        return "\n".join(lines)


def _num_decimals_shown(row: RowContributions) -> int:
    """The number of decimals that are shown of all numbers of a row.

    They give three digits of the largest number, and are at least two.
    """
    largest = max(float(np.abs(row.values).max(initial=0)), abs(row.base), 1e-9)
    return min(max(2 - math.floor(math.log10(largest)), 2), 9)


def _describe_bin(column: Any, bin: int) -> str:
    """The words for the cells of one bin of a column.

    Of a number they are its interval.
    """
    if bin >= column.n_bins:
        return f"bin {bin}"
    words = column.describe_bins([bin])
    if bin == 0 and not isinstance(column, Nominal) and not column.missing:
        return f"{words} or missing"  # such a cell satisfies no split, and has no bin of its own
    if isinstance(column, Numeric) and 0 < bin < column.bins - 1:
        below = column.describe_bins([bin - 1]).replace("<=", ">")
        return f"{below}, {words}"
    return words


def contributions_of_rows(
    model: Any, rows: Any, domain: Domain, background: Mapping[str, Any] | None
) -> Contributions:
    """The amounts that each column adds to the scores of encoded rows: their Shapley values.

    `Model.contributions` describes them.

    Args:
        model: a `Model`.
        rows: u8[N, F], or a table of them.
        domain: the domain of the model.
        background: as `Model.contributions`.

    Raises:
        ValueError: as `Model.contributions`.
    """
    about = model.about
    kind = model.about.kind
    bins = np.asarray(as_encoded_rows(model, rows))
    shares = _background_shares(domain, background)
    intercept = np.asarray(model.intercept, np.float64)
    if kind is SHAPES:
        game = _contributions_of_shapes(model.host_hypotheses_of_run_rounds(), bins, domain, shares)
    elif kind.leaf_boxes is not None:
        num_bins = max(bins.max(initial=0) + 1, *(column.n_bins for column in domain.values()))
        trees = kind.leaf_boxes(model.host_hypotheses_of_run_rounds(), model.splits, int(num_bins))
        shares = shares[:, :num_bins]
        game = _contributions_of_trees(trees, bins, domain, shares, intercept.shape)
    else:
        raise ValueError(
            f"the score of {about.name} is neither a sum of trees nor one of curves, and what each "
            "column adds to it would take as many means as there are sets of columns"
        )
    scale = 1.0
    offset = 0.0
    unit = "score"
    if isinstance(about.target, Numeric):
        scale, offset, unit = about.target.score_units
    elif about.target is None and about.classes:
        unit = f"score of {about.classes[1]}"
    classes = about.classes
    if isinstance(about.target, Nominal):
        classes = tuple(classes or about.target.values)
    base = offset + scale * (intercept + game.base)
    values = scale * game.values
    return Contributions(
        columns=game.columns,
        values=values,
        noise=None if game.noise is None else scale * game.noise,
        base=base,
        scores=base + values.sum(axis=1),
        unit=unit,
        classes=classes,
        bins=bins,
        domain=domain,
    )


def _background_shares(
    domain: Domain, background: Mapping[str, Any] | None
) -> Float64[np.ndarray, "F MAX_BINS"]:
    """f64[F, MAX_BINS]: the share of each bin of each column in the background.

    By default it is the same for all bins of a column.

    Raises:
        ValueError: for a column that the domain does not have, and for anything but a number of at
            least 0 for each of its bins, which are not all 0.
    """
    shares = np.zeros((len(domain), MAX_BINS))
    for number, column in enumerate(domain.values()):
        shares[number, : column.n_bins] = 1 / column.n_bins
    names = list(domain)
    for name, of_column in (background or {}).items():
        if name not in domain:
            raise ValueError(f"the domain has no column {show_value(name)}, it has {names}")
        counts = np.asarray(of_column, np.float64)
        num_bins = domain[name].n_bins
        is_valid = counts.shape == (num_bins,) and np.all(np.isfinite(counts) & (counts >= 0))
        if not is_valid or counts.sum() <= 0:
            raise ValueError(
                f"the background of {name!r} must be {num_bins} shares, one for each of its bins"
            )
        shares[names.index(name), :num_bins] = counts / counts.sum()
    return shares


class _ContributionsToScores(NamedTuple):
    """The contributions of columns in the units of scores, without the intercept.

    The attributes are those of `Contributions`.
    """

    columns: tuple[tuple[str, ...], ...]
    values: np.ndarray
    noise: np.ndarray | None
    base: np.ndarray


# Additive models.


def _contributions_of_shapes(
    shapes: ShapeFunctions, bins: np.ndarray, domain: Domain, shares: np.ndarray
) -> _ContributionsToScores:
    """The contributions of curves, and of tables of pairs, to scores.

    A pair is an entry of its own.

    The noise of a value is that of its bin less the mean over bins, as if bins were independent.
    """
    functions, deviation = shape_functions_by_column(shapes, domain)
    names = list(domain)
    values = []
    noise = []
    base = 0.0
    for columns, function in functions.items():
        numbers = [names.index(name) for name in columns]
        sizes = function.shape[function.ndim - len(columns) :]
        weights = shares[numbers[0], : sizes[0]]
        if columns[1:]:
            weights = np.multiply.outer(weights, shares[numbers[1], : sizes[1]])
        flat = function.reshape(*function.shape[: function.ndim - len(columns)], -1)
        mean = flat @ weights.ravel()
        cell = np.ravel_multi_index(
            tuple(
                np.minimum(bins[:, number], size - 1)
                for number, size in zip(numbers, sizes, strict=True)
            ),
            sizes,
        )
        base = base + mean
        values.append(np.moveaxis(flat[..., cell] - mean[..., None], -1, 0))
        share = weights.ravel()
        variance = 1 - 2 * share[cell] + np.sum(share**2)
        of_rows = deviation * np.sqrt(np.maximum(variance, 0))
        noise.append(np.broadcast_to(of_rows.reshape(-1, *[1] * mean.ndim), values[-1].shape))
    return _ContributionsToScores(
        columns=tuple(functions),
        values=np.stack(values, axis=1),
        noise=np.stack(noise, axis=1),
        base=np.asarray(base, np.float64),
    )


# Trees.


def _contributions_of_trees(
    trees: Iterator[LeafBoxes],
    bins: np.ndarray,
    domain: Domain,
    shares: np.ndarray,
    score_axes: tuple[int, ...],
) -> _ContributionsToScores:
    """The contributions of columns to the sum of the scores of trees.

    Args:
        trees: their leaves as boxes.
        bins: u8[N, F].
        domain: the domain.
        shares: f64[F, B], the background's share of each bin.
        score_axes: (K,) with several classes, else ().
    """
    num_classes = math.prod(score_axes)
    values = np.zeros((len(bins), len(domain), num_classes))
    variances = np.zeros_like(values)
    base = np.zeros(num_classes)
    is_noise_known = True
    for tree in trees:
        leaf_values = np.asarray(tree.value, np.float64).reshape(num_classes, -1)
        share = np.einsum("ldb,ldb->ld", tree.holds, shares[tree.feature])
        base += leaf_values @ share.prod(axis=1)
        # Rows that agree in what the tree asks share one result.
        representatives, row_to_result = _rows_distinct_to_tree(tree, bins)
        chunk_size = max(_MAX_ENTRIES // tree.feature.size, 1)
        features = np.unique(tree.feature)
        of_distinct = np.zeros((len(representatives), len(features), num_classes))
        variance_of_distinct = np.zeros_like(of_distinct)
        noise = None if tree.noise is None else tree.noise.reshape(num_classes, -1)
        is_noise_known &= noise is not None
        for first in range(0, len(representatives), chunk_size):
            chunk = slice(first, first + chunk_size)
            weights = _shapley_weights_of_leaves(tree, bins[representatives[chunk]], share)
            for place, feature in enumerate(features):
                by_leaf = np.where(tree.feature == feature, weights, 0).sum(axis=2)
                of_distinct[chunk, place] = by_leaf @ leaf_values.T
                if noise is not None and noise.any():
                    variance_of_distinct[chunk, place] = _variances_of_contributions(
                        by_leaf[:, None] * noise, tree.correlation
                    )
        values[:, features] += of_distinct[row_to_result]
        variances[:, features] += variance_of_distinct[row_to_result]
    shape = (len(bins), len(domain), *score_axes)
    return _ContributionsToScores(
        columns=tuple((name,) for name in domain),
        values=values.reshape(shape),
        noise=np.sqrt(variances).reshape(shape) if is_noise_known else None,
        base=base.reshape(score_axes),
    )


class _DistinctRows(NamedTuple):
    """One row of each kind that a tree can tell apart, and the kind of each row.

    Attributes:
        representatives: i[n], the number of one row of each kind.
        row_to_result: i[N], the kind of each row.
    """

    representatives: np.ndarray
    row_to_result: np.ndarray


def _rows_distinct_to_tree(tree: LeafBoxes, bins: np.ndarray) -> _DistinctRows:
    """Group rows that a tree cannot tell apart.

    Each row is a kind of its own if the tree does not say how it groups them.
    """
    if tree.leaf_part is None:
        return _DistinctRows(np.arange(len(bins)), np.arange(len(bins)))
    leaf = np.zeros(len(bins), np.int64)
    for feature, part in zip(tree.feature[0], tree.leaf_part, strict=True):
        leaf += part[bins[:, feature]]
    _, representatives, row_to_result = np.unique(leaf, return_index=True, return_inverse=True)
    return _DistinctRows(representatives, row_to_result.ravel())


def _shapley_weights_of_leaves(
    tree: LeafBoxes, bins: np.ndarray, share: Float64[np.ndarray, "L D"]
) -> Float64[np.ndarray, "n L D"]:
    """f64[n, L, D]: the share of each leaf's value that counts for the column of each condition.

    This is the integral of the module's docstring.

    Args:
        tree: the tree.
        bins: u8[n, F].
        share: the background's share of the cells that each condition lets through.
    """
    num_leaves, depth = tree.feature.shape
    leaves = np.arange(num_leaves)[:, None]
    levels = np.arange(depth)
    inside: Bool[np.ndarray, "n L D"] = tree.holds[leaves, levels, bins[:, tree.feature]]
    total = np.zeros(inside.shape)
    for node, node_weight in zip(*_gauss_quadrature(depth), strict=True):
        factors = node * inside + (1 - node) * share
        others = np.ones_like(factors)  # the product over all other conditions
        for level in range(1, depth):
            others[..., level] = others[..., level - 1] * factors[..., level - 1]
        after = np.ones(factors.shape[:-1])
        for level in reversed(range(depth)):
            others[..., level] *= after
            after = after * factors[..., level]
        total += node_weight * others
    return total * (inside - share)


class _Quadrature(NamedTuple):
    """A rule that integrates polynomials over [0, 1].

    Attributes:
        nodes: f64[n], where the polynomial is evaluated.
        weights: f64[n], the weight of its value at each node.
    """

    nodes: np.ndarray
    weights: np.ndarray


@functools.cache
def _gauss_quadrature(depth: int) -> _Quadrature:
    """The quadrature on [0, 1] that is exact for products of at most `depth` linear factors."""
    nodes, weights = np.polynomial.legendre.leggauss(max((depth + 1) // 2, 1))
    return _Quadrature(nodes=(nodes + 1) / 2, weights=weights / 2)


def _variances_of_contributions(
    weights: Float64[np.ndarray, "n K L"], correlation: float
) -> Float64[np.ndarray, "n K"]:
    """f64[n, K]: the variances w^T R w of weighted sums of noisy leaves.

    Leaves that differ in b bits are correlated by correlation^b.
    """
    num_leaves = weights.shape[-1]
    if not correlation:
        return np.sum(weights**2, axis=-1)
    depth = num_leaves.bit_length() - 1
    spread = weights.reshape(*weights.shape[:-1], *[2] * depth)
    for axis in range(2, 2 + depth):
        spread = spread + correlation * np.flip(spread, axis)
    return np.sum(weights * spread.reshape(weights.shape), axis=-1)
