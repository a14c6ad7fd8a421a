"""What the saved fits of the readings say of the paper's tables and of its claims in words.

The paper's text has Student's t-test at 0.01 and runs of all epsilons and beta_tree. `counted` sets
each printed cell of Table 4 beside ours under another test, and with one epsilon left out. `apart`
counts how often one noisy stump and its beta_t tell neighbours apart with certainty. The stump is a
release with noise, and beta_t is then a function of the rows without any. Where it differs between
two neighbours, the release has probability 0 under one of them, so the privacy loss is infinite.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.training.fit import boost
from experiments.common import aggregated, data, protocols, tables
from experiments.common.results import Line
from experiments.papers.nock_henecka_2020.reading_fits import ALPHA_NAMES, Fits, rivals
from experiments.papers.nock_henecka_2020.reading_settings import (
    FORESTS,
    LARGE_DEPTH,
    LARGE_ROUNDS,
    PRINTED,
    READINGS,
    WITHOUT,
)
from experiments.papers.nock_henecka_2020.second_option import recipe
from experiments.papers.nock_henecka_2020.settings import EPSILONS, FOREST_DEPTHS, NAME, SEED

CLAIMED_ERROR = 0.2
"""Of banknote: "more than 2/3 of the private runs with O.C get test error <= 20 %"."""

FLAT = {"beta_tree": 2, "rounds": 3, "depth": 4}
"""Axis of `Fits.errors` after those of the reading, by its name."""


def lines(every: dict[str, Fits], larger_class: dict[str, float]) -> list[Line]:
    """One line for each table, reading and row of it; `kind` names the table.

    A reading's tables are over the domains that have been fitted under it.

    Args:
        every: domain -> its fits.
        larger_class: domain -> the error of stating its larger class.
    """
    made: list[Line] = []
    for reading in READINGS:
        found = {name: fits for name, fits in every.items() if reading in fits.errors}
        if not found:
            continue
        made += _accurate(reading, found)
        if reading != WITHOUT:
            made += [*_table_1(reading, found), *_flatness(reading, found)]
            made += [*_table_3(reading, found), *_table_4(reading, found)]
            made += [*_banknote(reading, found), *_by_class(reading, found, larger_class)]
    return [*made, *_forests(every, larger_class)]


def _accurate(reading: str, found: dict[str, Fits]) -> Iterator[Line]:
    """Banknote: the share of settings, and of fits, with an error of at most 20 %."""
    if "banknote" not in found:
        return
    for k, alpha in enumerate(ALPHA_NAMES):
        errors = found["banknote"].errors[reading][k]
        mean = errors.mean(-1)
        yield {
            "kind": "accurate",
            "reading": reading,
            "alpha": alpha,
            "settings": mean.size,
            "share": float(np.mean(mean <= CLAIMED_ERROR)),
            "share_of_fits": float(np.mean(errors <= CLAIMED_ERROR)),
            "best": float(mean.min()),
            "median": float(np.median(mean)),
        }


def _table_1(reading: str, found: dict[str, Fits]) -> Iterator[Line]:
    """The domains on which each alpha is best, by epsilon; ties count for each."""
    first = next(iter(found.values()))
    for e, epsilon in enumerate(first.axes["epsilon"]):
        best = np.stack(
            [fits.errors[reading].mean(-1)[:, e].min((1, 2, 3)) for fits in found.values()]
        )
        counts = np.sum(best <= best.min(1, keepdims=True) + 1e-9, axis=0)
        line: Line = {"kind": "table 1", "reading": reading, "epsilon": float(epsilon)}
        line["domains"] = len(found)
        line |= {f"count {alpha}": int(counts[k]) for k, alpha in enumerate(ALPHA_NAMES)}
        line |= {f"best {alpha}": float(best[:, k].mean()) for k, alpha in enumerate(ALPHA_NAMES)}
        yield line


def _flatness(reading: str, found: dict[str, Fits]) -> Iterator[Line]:
    """How far the best error depends on one axis: the largest minus the smallest over its values.

    The mean is over domains, epsilons and alphas. `last` is the error at its largest value minus
    that at its smallest one.
    """
    for axis, place in FLAT.items():
        spreads, last = [], []
        for fits in found.values():
            mean = fits.errors[reading].mean(-1)
            best = np.moveaxis(mean, place, -1)
            best = best.min((2, 3))
            spreads.append(np.mean(best.max(-1) - best.min(-1)))
            last.append(np.mean(best[..., -1] - best[..., 0]))
        yield {
            "kind": "flatness",
            "reading": reading,
            "axis": axis,
            "domains": len(found),
            "spread": float(np.mean(spreads)),
            "last": float(np.mean(last)),
        }


def _table_3(reading: str, found: dict[str, Fits]) -> Iterator[Line]:
    """On how many domains the best private setting is where Table 3 has it."""
    agreeing = []
    for at, place in aggregated.printed_words(NAME, "table-3"):
        if at["domain"] not in found:
            continue
        fits = found[at["domain"]]
        mean = fits.errors[reading].mean(-1).min((0, 1, 2))
        t, d = np.unravel_index(np.argmin(mean), mean.shape)
        depth, rounds = place.split(", ")
        own_depth = f"{_size(fits.axes['depth'][d], LARGE_DEPTH)} d"
        own_rounds = f"{_size(fits.axes['rounds'][t], LARGE_ROUNDS)} T"
        agreeing.append((own_depth == depth, own_rounds == rounds))
    yield {
        "kind": "table 3",
        "reading": reading,
        "domains": len(agreeing),
        "depth": sum(depth for depth, _ in agreeing),
        "rounds": sum(rounds for _, rounds in agreeing),
        "both": sum(map(all, agreeing)),
    }


def _size(value: float, large: float) -> str:
    return "big" if value >= large else "small"


def _printed(row: str, axes: tuple[str, ...], **chosen) -> dict[tuple, dict[str, int]]:
    """Place -> alpha -> the printed percentage of wins, of a row of the paper's claims."""
    kinds = {kind: forest for forest, kind in FORESTS.items()}
    found: dict[tuple, dict[str, int]] = {}
    for at, number in aggregated.printed(NAME, row):
        if all(at[name] == value for name, value in chosen.items()):
            place = tuple(kinds.get(at[axis], at[axis]) for axis in axes)
            found.setdefault(place, {})[str(at["alpha"])] = int(number)
    return found


def _table_4(reading: str, found: dict[str, Fits]) -> Iterator[Line]:
    """Wins over forests of 21 trees, in percent of what is significant, over all runs."""
    found = {name: fits for name, fits in found.items() if fits.forests}
    printed = _printed("table-4-overall", ("rounds", "forest")) if found else {}
    for (trees, forest), paper in printed.items():
        every = [_compared(fits, reading, trees, forest) for fits in found.values()]
        signs = np.concatenate(every, axis=1)
        line: Line = {"kind": "table 4", "reading": reading, "trees": trees, "forest": forest}
        line |= {"domains": len(found), **_wins(signs, paper)}
        yield line | {"significant": float(np.sum(signs != 0) / max(signs.size, 1))}


def _banknote(reading: str, found: dict[str, Fits]) -> Iterator[Line]:
    """The same of banknote alone, by depth."""
    if "banknote" not in found or not found["banknote"].forests:
        return
    axes = ("rounds", "forest", "depth")
    for place, paper in sorted(_printed("table-4", axes, domain="banknote").items(), key=_order):
        signs = _compared(found["banknote"], reading, *place)
        line: Line = {"kind": "table 4 of banknote", "reading": reading}
        yield {**line, **dict(zip(("trees", "forest", "depth"), place, strict=True))} | _wins(
            signs, paper
        )


def _order(item: tuple[tuple, Any]) -> tuple:
    """By trees, forest and depth."""
    (trees, forest, depth), _ = item
    return trees, list(FORESTS).index(forest), depth


def _wins(signs: np.ndarray, paper: Mapping[str, int]) -> Line:
    """For each alpha the percentage of wins, None where nothing is significant; and the paper's."""
    line: Line = {}
    for k, alpha in enumerate(ALPHA_NAMES):
        decided = np.sum(signs[k] != 0)
        wins = 100 * np.sum(signs[k] == -1)
        line[f"wins {alpha}"] = float(wins / decided) if decided else None
        line[f"paper {alpha}"] = paper[alpha]
    return line


def _compared(
    fits: Fits, reading: str, trees: int, forest: str, depth: int | None = None
) -> np.ndarray:
    """i64[alpha, runs]: -1 where boosting is significantly better than a forest of its depth.

    Runs are of all epsilons and beta_tree, and of one depth or of all those of the forests.
    """
    wanted = fits.forest_depths if depth is None else [depth]
    both = rivals(fits, reading, trees, forest, wanted)
    if both is None:
        return np.zeros((len(ALPHA_NAMES), 0))
    signs = protocols.compare(jnp.asarray(both[0]), jnp.asarray(both[1]))
    return np.asarray(signs).reshape(len(ALPHA_NAMES), -1)


def _forests(found: dict[str, Fits], larger_class: dict[str, float]) -> Iterator[Line]:
    """The mean errors of the forests, by domain, depth and epsilon."""
    for name, fits in found.items():
        for forest in FORESTS if fits.forests else ():
            for d, depth in enumerate(fits.forest_depths):
                mean = fits.forests[forest][:, d].mean(-1)
                by_epsilon = zip(fits.axes["epsilon"], mean, strict=True)
                yield {
                    "kind": "forests",
                    "domain": name,
                    "forest": forest,
                    "depth": int(depth),
                    "larger_class": larger_class[name],
                    **{f"error {epsilon:g}": float(error) for epsilon, error in by_epsilon},
                }


def _by_class(
    reading: str, found: dict[str, Fits], larger_class: dict[str, float]
) -> Iterator[Line]:
    """How often the error is that of stating the larger class, within a point, and below it."""
    for name, fits in found.items():
        mean = fits.errors[reading].mean(-1)
        constant = larger_class[name]
        yield {
            "kind": "larger class",
            "reading": reading,
            "domain": name,
            "larger_class": constant,
            "median": float(np.median(mean)),
            "at": float(np.mean(np.abs(mean - constant) <= 0.01)),
            "below": float(np.mean(mean < constant - 0.01)),
            "above": float(np.mean(mean > constant + 0.01)),
        }


def as_text(lines: Sequence[Line]) -> str:
    """Every table as text."""
    kinds = dict.fromkeys(line["kind"] for line in lines)
    parts = []
    for kind in kinds:
        own = [line for line in lines if line["kind"] == kind]
        parts.append(f"{kind}\n{tables.of_lines(own, list(own[0])[1:], '.3g')}")
    return "\n\n".join(parts)


COUNTED = "table 4 counted"
COMPARED = (PRINTED, "second option")
"""The readings whose fits are counted."""

BY_FOLDS, BY_ROWS = "t-test over folds", "z-test over rows"
TESTS = (BY_FOLDS, BY_ROWS)
NEAR = 10.0
"""A cell is near the printed one within this many points."""

NORMAL_LIMIT = 2.5758
"""The two-sided limit of a normal variable at 0.01."""

ROUNDS = (2, 20)
Cell = tuple[str, int, int, str, str]
"""(domain, depth, T, forest, alpha) of a number of Table 4."""


def counted(found: Mapping[str, Fits], rows: Mapping[str, int]) -> Iterator[Line]:
    """One line for each reading, test, and epsilon that is left out (None: no epsilon is).

    Args:
        found: domain -> its fits.
        rows: domain -> its number of rows.
    """
    printed = _printed_cells()
    for reading, test in itertools.product(COMPARED, TESTS):
        own = {name: fits for name, fits in found.items() if reading in fits.errors}
        own = {name: fits for name, fits in own.items() if fits.forests}
        if not own:
            continue
        signs = _signs(own, rows, reading, test)
        epsilons = next(iter(own.values())).axes["epsilon"]
        for left_out in (None, *epsilons.tolist()):
            kept = epsilons != left_out
            by_cell = {cell: sign[kept] for cell, sign in signs.items()}
            head: Line = {"kind": COUNTED, "reading": reading, "test": test, "left_out": left_out}
            yield {**head, "domains": len(own), **_agreement(by_cell, printed)}


def _printed_cells() -> dict[Cell, float]:
    """Cell -> the printed percentage of wins."""
    return {_cell(at): number for at, number in aggregated.printed(NAME, "table-4")}


def _cell(at: Mapping[str, Any]) -> Cell:
    kinds = {kind: forest for forest, kind in FORESTS.items()}
    return at["domain"], at["depth"], at["rounds"], kinds[at["forest"]], str(at["alpha"])


def _signs(
    found: Mapping[str, Fits], rows: Mapping[str, int], reading: str, test: str
) -> dict[Cell, np.ndarray]:
    """Cell -> i64[epsilon, beta_tree]: -1 where boosting is significantly better, 1 where worse."""
    signs = {}
    for name, fits in found.items():
        for rounds, depth, forest in itertools.product(ROUNDS, FOREST_DEPTHS, FORESTS):
            both = rivals(fits, reading, rounds, forest, [depth])
            if both is None:
                continue
            sign = compared(*both, test, rows[name])
            for k, alpha in enumerate(ALPHA_NAMES):
                signs[name, depth, rounds, forest, alpha] = sign[k, ..., 0]
    return signs


def compared(a: np.ndarray, b: np.ndarray, test: str, rows: int) -> np.ndarray:
    """i64[...]: -1 where a's mean is significantly smaller than b's, 1 where it is larger, else 0.

    Args:
        a: f64[..., fold], test errors.
        b: f64[..., fold], of the same folds.
        test: one of TESTS. The z-test takes all test rows of all folds for independent ones.
        rows: the number of rows, each of which is a test row of one fold.
    """
    if test == BY_FOLDS:
        return np.asarray(protocols.compare(jnp.asarray(a), jnp.asarray(b)))
    one, other = a.mean(-1), b.mean(-1)
    variance = (one * (1 - one) + other * (1 - other)) / rows
    far = np.abs(one - other) > NORMAL_LIMIT * np.sqrt(variance)
    return np.where(far, np.sign(one - other), 0).astype(np.int64)


def _agreement(signs: Mapping[Cell, np.ndarray], printed: Mapping[Cell, float]) -> Line:
    """How near the cells are to the printed ones, and how many differences are significant."""
    differences = []
    for cell, sign in signs.items():
        wins, losses = np.sum(sign < 0), np.sum(sign > 0)
        if cell in printed and wins + losses:
            differences.append(abs(100 * wins / (wins + losses) - printed[cell]))
    every = np.concatenate([sign.ravel() for sign in signs.values()])
    return {
        "cells": len(differences),
        "difference": float(np.mean(differences)) if differences else None,
        "near": float(np.mean(np.asarray(differences) <= NEAR)) if differences else None,
        "significant": float(np.mean(every != 0)),
    }


DATASET, CLIP = "banknote", 10.0
TRIALS, SMOKE_TRIALS = 4_000, 100
NEIGHBOURS = {
    "removed": "a row is removed",
    "replaced": "a row is replaced by another row of the data",
    "flipped": "a label is flipped",
}
"""Kind of neighbour -> its words."""


def apart(folder: str | None, smoke: bool = False) -> list[Line]:
    """One line for each epsilon, with the share of trials for each kind of neighbour."""
    dataset = data.load(DATASET, 10, folder)
    trials = SMOKE_TRIALS if smoke else TRIALS
    return [
        {
            "kind": "told apart",
            "epsilon": epsilon,
            "trials": trials,
            **told_apart(dataset, epsilon, trials),
        }
        for epsilon in EPSILONS
    ]


def told_apart(dataset: data.Dataset, epsilon: float, trials: int) -> dict[str, float]:
    """Kind of neighbour -> the share of trials in which beta_t differs, in exact integers.

    A trial draws a stump and a row, and for "replaced" another row. Labels are -1 and 1. All
    weights of the first round are equal, so beta_t is proportional to the sum of y h over rows,
    divided by their number.

    Args:
        dataset: its rows.
        epsilon: the budget of one stump; half of it is for the split.
        trials: how many.
    """
    split, steps = stumps(dataset, epsilon, trials)
    rng = np.random.default_rng(SEED)
    row, other = rng.integers(0, len(dataset.label), (2, trials))

    # y h of every row of every trial, in whole steps of the leaves' grid.
    right = dataset.splits[:, split].T
    edge = np.where(dataset.label, 1, -1) * np.where(right, steps[:, 1:], steps[:, :1])
    total, rows = edge.sum(axis=1), edge.shape[1]
    own, another = (np.take_along_axis(edge, each[:, None], 1)[:, 0] for each in (row, other))
    differs = {
        "removed": (total - own) * rows != total * (rows - 1),
        "replaced": own != another,
        "flipped": own != 0,
    }
    return {kind: float(np.mean(differs[kind])) for kind in NEIGHBOURS}


def stumps(dataset: data.Dataset, epsilon: float, trials: int) -> tuple[np.ndarray, np.ndarray]:
    """Splits i64[trials], and noisy leaf values i64[trials, 2], clamped, in steps of their grid."""
    noise = READINGS["second option"].noise
    assert noise is not None
    setting = recipe(
        epsilon=epsilon,
        rows=len(dataset.label),
        rounds=1,
        depth=1,
        alpha="objective",
        beta_tree=0.5,
        noise=noise,
        clip=CLIP,
    )

    table = dataset.table

    def one(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        release = boost(key, table, setting).transcript.rounds
        return release["split_0"][0, 0], release["leaf"][0]

    keys = jax.random.split(jax.random.key(SEED), trials)
    split, leaf = jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=100))(keys)
    most = round(CLIP / float(np.asarray(setting.params.leaf_step)))
    return np.asarray(split, np.int64), np.asarray(jnp.clip(leaf, -most, most), np.int64)
