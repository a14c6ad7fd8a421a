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
from experiments.comparisons.challengers import GROUPS, joined
from experiments.comparisons.methods import Fit, Found, Method, approximate
from experiments.comparisons.study import Study

RARE = 3.0
"""Values of a column that are counted below so many deviations of the noise are joined."""

SWEEPS = 20
"""Of proportional fitting, which makes a pair agree with its columns."""

Table = tuple[np.ndarray, list[int], np.ndarray]
"""(i[N, F] codes, the number of codes of each column, i[N] the groups of rows)."""


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


def single(table: Table, groups: int) -> list[np.ndarray]:
    """f[G, C] of each column, the counts of its codes by group; a row moves one cell of each."""
    codes, sizes, group = table
    found = [np.zeros((groups, size)) for size in sizes]
    for place, counts in enumerate(found):
        np.add.at(counts, (group, codes[:, place]), 1)
    return found


def double(table: Table, groups: int) -> np.ndarray:
    """f32[G, S, S]: counts of all pairs of the S codes of all columns."""
    codes, sizes, group = table
    values = np.zeros((len(codes), sum(sizes)), np.float32)
    np.put_along_axis(values, codes + _starts(sizes), 1.0, axis=1)
    return np.stack([values[group == g].T @ values[group == g] for g in range(groups)])


def _starts(sizes: Sequence[int]) -> np.ndarray:
    return np.cumsum([0, *sizes[:-1]])


def scores(joint: np.ndarray, columns: Sequence[np.ndarray], totals: np.ndarray) -> np.ndarray:
    """f[F, F]: how far pairs are from independent ones in L1; a row moves each by at most 1."""
    share, at = np.concatenate(columns, axis=1), _starts([each.shape[1] for each in columns])
    expected = totals[:, None, None] * share[:, :, None] * share[:, None, :]
    apart = np.abs(joint - expected).sum(axis=0)
    return np.add.reduceat(np.add.reduceat(apart, at, axis=0), at, axis=1)


def learned(rng: np.random.Generator, table: Table, groups: int, rho: float) -> Tree:
    """The private tree of a table, for rho of zCDP."""
    codes, sizes, group = table
    count = len(sizes)
    noise = np.sqrt(3 * count / (2 * rho))
    noisy = [each + noise * rng.normal(size=each.shape) for each in single(table, groups)]
    weights = 1 / np.array(sizes)  # a sum of C counts has C times the variance
    totals = sum(w * each.sum(axis=1) for w, each in zip(weights, noisy, strict=True))
    totals = np.maximum(totals / weights.sum(), 1)
    values = [_kept(each.sum(axis=0) >= RARE * noise * groups**0.5) for each in noisy]
    sizes = [int(each.max()) + 1 for each in values]
    codes = np.stack([each[at] for each, at in zip(values, codes.T, strict=True)], axis=1)
    joins = [np.eye(size)[each] for size, each in zip(sizes, values, strict=True)]
    columns = [_shares(a @ b, totals) for a, b in zip(noisy, joins, strict=True)]

    joint, at = double((codes, sizes, group), groups), _starts(sizes)
    each = np.sqrt(8 * rho / 3 / max(count - 1, 1))
    error, pairs = np.sqrt(3 * (count - 1) / (2 * rho)), []
    for a, b in _spanning(rng, scores(joint, columns, totals), each):
        cells = joint[:, at[a] : at[a] + sizes[a], at[b] : at[b] + sizes[b]]
        cells = _shares(cells + error * rng.normal(size=cells.shape), totals)
        pairs.append(((a, b), _fitted(cells, columns[a], columns[b])))
    return Tree(totals, columns, pairs, values)


def _kept(often: np.ndarray) -> np.ndarray:
    """i[V]: places of the values that occur often; the others share one after these."""
    return np.where(often, np.cumsum(often) - 1, often.sum())


def _shares(table: np.ndarray, total: np.ndarray) -> np.ndarray:
    """The nearest nonnegative numbers f[G, ...] that add up to the total of a group, as shares."""
    flat = table.reshape(len(table), -1)
    falling = -np.sort(-flat, axis=1)
    excess = (np.cumsum(falling, axis=1) - total[:, None]) / np.arange(1, flat.shape[1] + 1)
    last = np.sum(falling > excess, axis=1) - 1
    positive = np.maximum(flat - excess[np.arange(len(flat)), last][:, None], 0)
    return (positive / total[:, None]).reshape(table.shape)


def _spanning(rng: np.random.Generator, score: np.ndarray, epsilon: float) -> list[tuple[int, int]]:
    """A tree of pairs by the exponential mechanism, one after the other, from column 0 on."""
    part, chosen = np.arange(len(score)), []
    for _ in range(len(score) - 1):
        drawn = epsilon / 2 * score + rng.gumbel(size=score.shape)
        drawn[(part[:, None] == part) | np.tri(len(score), dtype=bool)] = -np.inf
        a, b = map(int, np.unravel_index(np.argmax(drawn), drawn.shape))
        part[part == part[b]] = part[a]
        chosen.append((a, b))

    connected, ordered = {0}, []
    while chosen:
        a, b = pair = next(pair for pair in chosen if connected & {*pair})
        chosen.remove(pair)
        ordered.append((a, b) if a in connected else (b, a))
        connected |= {a, b}
    return ordered


def _fitted(pair: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """A pair whose margins are those of its columns, as far as its zeros allow."""
    for _ in range(SWEEPS):
        pair = pair * (first / np.maximum(pair.sum(axis=2), 1e-12))[:, :, None]
        pair = pair * (second / np.maximum(pair.sum(axis=1), 1e-12))[:, None, :]
    return pair


def drawn(rng: np.random.Generator, tree: Tree, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """(i[rows, F] values, i[rows] groups) of synthetic rows; a rare code is any of its values."""
    group = rng.choice(len(tree.totals), rows, p=tree.totals / tree.totals.sum())
    codes = np.zeros((rows, len(tree.columns)), int)
    codes[:, 0] = _places(rng, tree.columns[0][group])
    for (a, b), pair in tree.pairs:
        codes[:, b] = _places(rng, pair[group, codes[:, a]] + 1e-9 * tree.columns[b][group])
    found = [
        _places(rng, np.eye(each.max() + 1)[:, each][at])
        for each, at in zip(tree.values, codes.T, strict=True)
    ]
    return np.stack(found, axis=1), group


def _places(rng: np.random.Generator, weights: np.ndarray) -> np.ndarray:
    """i[N]: a place of each row of weights, in proportion."""
    sums = np.cumsum(weights, axis=1)
    return np.sum(sums <= rng.random((len(sums), 1)) * sums[:, -1:], axis=1)


def _boosted(by_class: bool) -> Fit:
    def fit(study: Study, split: int, epsilon: float, delta: float) -> Found:
        from sklearn.ensemble import HistGradientBoostingClassifier

        test, target = study.tests[split], study.target.astype(int)
        rng, rho = np.random.default_rng(split), float(conversions.zcdp_rho(epsilon, delta))
        codes, sizes = joined(study)
        codes = codes[: len(target)]
        taught, label = codes[~test], target[~test]
        with peers.on_one_core():
            start = time.perf_counter()
            if by_class:
                made, own = drawn(rng, learned(rng, (taught, sizes, label), 2, rho), study.rows)
            else:
                one = np.zeros_like(label)
                table = np.column_stack([label, taught]), [2, *sizes], one
                made, _ = drawn(rng, learned(rng, table, 1, rho), study.rows)
                own, made = made[:, 0], made[:, 1:]
            model = HistGradientBoostingClassifier(
                categorical_features=study.numbers.nominal,  # pyright: ignore[reportArgumentType]
                random_state=split,
            ).fit(made, own)
            seconds = time.perf_counter() - start
            probability = np.asarray(model.predict_proba(codes[test]))[:, -1]
        return Found(probability - 0.5, probability, seconds)

    return fit


_WORDS = (
    f"HistGradientBoostingClassifier on synthetic rows of a tree of pairs, {GROUPS} joined bins"
)
METHODS = {
    "mst": Method(_boosted(False), approximate(_WORDS), library="scikit-learn"),
    "mst-by-class": Method(
        _boosted(True), approximate(f"{_WORDS}, by class"), library="scikit-learn"
    ),
}
"""Name -> method, in the order of tables."""
