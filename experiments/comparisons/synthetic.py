"""Boosting of synthetic rows, which are drawn from private marginals of pairs of columns.

This is the mechanism MST of McKenna, Miklau and Sheldon (2021): marginals of single columns, a tree
of the pairs that these explain worst, and marginals of its pairs, with a third of the budget each.
A model along a tree has a closed form, so no solver is needed. In `mst` the class is one of the
columns, as published. In `mst-by-class` every marginal is counted for each class. Boosting without
privacy learns from as many drawn rows as the public bound says.

Both hold under add/remove, by zCDP. A row moves one cell of each marginal by 1, and the score of a
pair by at most 1. The noise is of floating point and of seeds that are no secret, so this is for
comparisons alone.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpbt.privacy import conversions
from experiments.common import peers
from experiments.comparisons.challengers import GROUPS, join_bins
from experiments.comparisons.methods import (
    Fit,
    Method,
    Predictions,
    Trial,
    scores_and_probabilities,
    setting_with_delta,
)

RARE = 3.0
"""Values of a column that are counted below so many deviations of the noise are joined."""

SWEEPS = 20
"""Of proportional fitting, which makes a pair agree with its columns."""


class GroupedCodes(NamedTuple):
    """Rows as codes, in groups.

    Attributes:
        codes: i[N, F], the code of each cell.
        sizes: the number of codes of each column.
        group: i[N], the group of each row.
        num_groups: G.
    """

    codes: np.ndarray
    sizes: list[int]
    group: np.ndarray
    num_groups: int


class Tree(NamedTuple):
    """What is released of a table with G groups of rows.

    Attributes:
        totals: f[G], the rows of each group, at least 1.
        columns: f[G, C] of each column, the shares of its codes in a group.
        pairs: ((a, b), f[G, Ca, Cb]) of each pair, its shares, so that a is known before b.
        values: i[V] of each column, the code of each of its values; rare ones share the last.
    """

    totals: np.ndarray
    columns: list[np.ndarray]
    pairs: list[tuple[tuple[int, int], np.ndarray]]
    values: list[np.ndarray]


class SyntheticRows(NamedTuple):
    """Rows that are drawn from a tree: i[rows, F] values, and i[rows] groups."""

    values: np.ndarray
    group: np.ndarray


def count_columns(table: GroupedCodes) -> list[np.ndarray]:
    """f[G, C] of each column, the counts of its codes by group; a row moves one cell of each."""
    columns = [np.zeros((table.num_groups, size)) for size in table.sizes]
    for place, counts in enumerate(columns):
        np.add.at(counts, (table.group, table.codes[:, place]), 1)
    return columns


def count_pairs(table: GroupedCodes) -> np.ndarray:
    """f32[G, S, S]: counts of all pairs of the S codes of all columns."""
    values = np.zeros((len(table.codes), sum(table.sizes)), np.float32)
    np.put_along_axis(values, table.codes + _column_starts(table.sizes), 1.0, axis=1)
    groups = [values[table.group == g] for g in range(table.num_groups)]
    return np.stack([rows.T @ rows for rows in groups])


def _column_starts(sizes: Sequence[int]) -> np.ndarray:
    """i[F], the place of the first code of each column among all codes."""
    return np.cumsum([0, *sizes[:-1]])


def score_pairs(
    pair_counts: np.ndarray, columns: Sequence[np.ndarray], totals: np.ndarray
) -> np.ndarray:
    """f[F, F]: how far pairs are from independent ones in L1; a row moves each by at most 1."""
    share = np.concatenate(columns, axis=1)
    starts = _column_starts([column.shape[1] for column in columns])
    expected = totals[:, None, None] * share[:, :, None] * share[:, None, :]
    distance = np.abs(pair_counts - expected).sum(axis=0)
    return np.add.reduceat(np.add.reduceat(distance, starts, axis=0), starts, axis=1)


def release_tree(rng: np.random.Generator, table: GroupedCodes, rho: float) -> Tree:
    """The private tree of a table, for rho of zCDP."""
    count = len(table.sizes)
    noise = np.sqrt(3 * count / (2 * rho))
    noisy = [counts + noise * rng.normal(size=counts.shape) for counts in count_columns(table)]
    weights = 1 / np.array(table.sizes)  # a sum of C counts has C times the variance
    totals = sum(w * counts.sum(axis=1) for w, counts in zip(weights, noisy, strict=True))
    totals = np.maximum(totals / weights.sum(), 1)
    min_count = RARE * noise * table.num_groups**0.5
    values = [_join_rare_values(counts.sum(axis=0) >= min_count) for counts in noisy]
    sizes = [int(codes.max()) + 1 for codes in values]
    codes = np.stack(
        [new_codes[cells] for new_codes, cells in zip(values, table.codes.T, strict=True)], axis=1
    )
    joins = [np.eye(size)[new_codes] for size, new_codes in zip(sizes, values, strict=True)]
    columns = [
        _nearest_shares(counts @ join, totals) for counts, join in zip(noisy, joins, strict=True)
    ]

    pair_counts = count_pairs(table._replace(codes=codes, sizes=sizes))
    starts = _column_starts(sizes)
    epsilon = np.sqrt(8 * rho / 3 / max(count - 1, 1))
    pair_noise, pairs = np.sqrt(3 * (count - 1) / (2 * rho)), []
    for a, b in _draw_spanning_tree(rng, score_pairs(pair_counts, columns, totals), epsilon):
        cells = pair_counts[:, starts[a] : starts[a] + sizes[a], starts[b] : starts[b] + sizes[b]]
        shares = _nearest_shares(cells + pair_noise * rng.normal(size=cells.shape), totals)
        pairs.append(((a, b), _fit_to_margins(shares, columns[a], columns[b])))
    return Tree(totals, columns, pairs, values)


def _join_rare_values(is_frequent: np.ndarray) -> np.ndarray:
    """i[V], the new code of each value; rare values share the code after those of the others."""
    return np.where(is_frequent, np.cumsum(is_frequent) - 1, is_frequent.sum())


def _nearest_shares(counts: np.ndarray, total: np.ndarray) -> np.ndarray:
    """The nearest nonnegative numbers f[G, ...] that add up to the total of a group, as shares."""
    flat = counts.reshape(len(counts), -1)
    falling = -np.sort(-flat, axis=1)
    excess = (np.cumsum(falling, axis=1) - total[:, None]) / np.arange(1, flat.shape[1] + 1)
    last = np.sum(falling > excess, axis=1) - 1
    positive = np.maximum(flat - excess[np.arange(len(flat)), last][:, None], 0)
    return (positive / total[:, None]).reshape(counts.shape)


def _draw_spanning_tree(
    rng: np.random.Generator, score: np.ndarray, epsilon: float
) -> list[tuple[int, int]]:
    """A tree of pairs by the exponential mechanism, one after the other, from column 0 on."""
    component, edges = np.arange(len(score)), []
    for _ in range(len(score) - 1):
        noisy = epsilon / 2 * score + rng.gumbel(size=score.shape)
        noisy[(component[:, None] == component) | np.tri(len(score), dtype=bool)] = -np.inf
        a, b = map(int, np.unravel_index(np.argmax(noisy), noisy.shape))
        component[component == component[b]] = component[a]
        edges.append((a, b))

    connected, ordered = {0}, []
    while edges:
        a, b = edge = next(edge for edge in edges if connected & {*edge})
        edges.remove(edge)
        ordered.append((a, b) if a in connected else (b, a))
        connected |= {a, b}
    return ordered


def _fit_to_margins(pair: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """A pair whose margins are those of its columns, as far as its zeros allow."""
    for _ in range(SWEEPS):
        pair = pair * (first / np.maximum(pair.sum(axis=2), 1e-12))[:, :, None]
        pair = pair * (second / np.maximum(pair.sum(axis=1), 1e-12))[:, None, :]
    return pair


def draw_rows(rng: np.random.Generator, tree: Tree, rows: int) -> SyntheticRows:
    """So many synthetic rows; a rare code is any of its values."""
    group = rng.choice(len(tree.totals), rows, p=tree.totals / tree.totals.sum())
    codes = np.zeros((rows, len(tree.columns)), int)
    codes[:, 0] = _draw_places(rng, tree.columns[0][group])
    for (a, b), pair in tree.pairs:
        weights = pair[group, codes[:, a]] + 1e-9 * tree.columns[b][group]
        codes[:, b] = _draw_places(rng, weights)
    values = [
        _draw_places(rng, np.eye(codes_of_values.max() + 1)[:, codes_of_values][cells])
        for codes_of_values, cells in zip(tree.values, codes.T, strict=True)
    ]
    return SyntheticRows(np.stack(values, axis=1), group)


def _draw_places(rng: np.random.Generator, weights: np.ndarray) -> np.ndarray:
    """i[N]: a place of each row of weights, in proportion."""
    sums = np.cumsum(weights, axis=1)
    return np.sum(sums <= rng.random((len(sums), 1)) * sums[:, -1:], axis=1)


def _boost_synthetic_rows(*, by_class: bool) -> Fit:
    def fit(trial: Trial) -> Predictions:
        from sklearn.ensemble import HistGradientBoostingClassifier

        study, test = trial.study, trial.test
        rng = np.random.default_rng(trial.split)
        rho = float(conversions.zcdp_rho(trial.epsilon, trial.delta))
        codes, sizes = join_bins(study)
        codes, label = codes[: len(test)], study.target.astype(int)[~test]
        with peers.on_one_core():
            start = time.perf_counter()
            if by_class:
                table = GroupedCodes(codes[~test], sizes, group=label, num_groups=2)
                values, labels = draw_rows(rng, release_tree(rng, table, rho), study.rows)
            else:
                cells = np.column_stack([label, codes[~test]])
                group = np.zeros_like(label)
                table = GroupedCodes(cells, [2, *sizes], group=group, num_groups=1)
                synthetic_rows = draw_rows(rng, release_tree(rng, table, rho), study.rows).values
                values, labels = synthetic_rows[:, 1:], synthetic_rows[:, 0]
            model = HistGradientBoostingClassifier(
                categorical_features=study.peer_rows.nominal,  # pyright: ignore[reportArgumentType]
                random_state=trial.split,
            ).fit(values, labels)
            seconds = time.perf_counter() - start
            probability = np.asarray(model.predict_proba(codes[test]))[:, -1]
        return scores_and_probabilities(probability, seconds)

    return fit


_WORDS = (
    f"HistGradientBoostingClassifier on synthetic rows of a tree of pairs, {GROUPS} joined bins"
)
METHODS = {
    "mst": Method(
        _boost_synthetic_rows(by_class=False), setting_with_delta(_WORDS), library="scikit-learn"
    ),
    "mst-by-class": Method(
        _boost_synthetic_rows(by_class=True),
        setting_with_delta(f"{_WORDS}, by class"),
        library="scikit-learn",
    ),
}
"""Name -> method, in the order of tables."""
