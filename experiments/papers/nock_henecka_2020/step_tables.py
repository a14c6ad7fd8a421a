"""The tables of the readings of the step, from one line for each domain, reading, budget and depth.

Errors are means over ten folds, in millionths. Signs are -1 where boosting is significantly better
than a forest of 21 trees of its depth, and 1 where it is worse (paired t-test, p < 0.01).
"""

import itertools
from collections.abc import Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from dpbt import sweeps
from experiments.common import aggregated, data, pages, protocols
from experiments.common.results import Line, distinct, where
from experiments.common.tables import markdown as table
from experiments.papers.nock_henecka_2020.derived import of_mean
from experiments.papers.nock_henecka_2020.reading_fits import ALPHA_NAMES
from experiments.papers.nock_henecka_2020.reading_settings import FORESTS
from experiments.papers.nock_henecka_2020.settings import EPSILONS, GRID, NAME

ROUNDS, COMPARED = GRID["rounds"], (2, 20)
MILLION, CLAIMED, DRAWS = 10**6, 200_000, 10_000
ERRORS = tuple(itertools.product(ALPHA_NAMES, ROUNDS))
SIGNS = tuple(itertools.product(FORESTS, ALPHA_NAMES, COMPARED))
NOISELESS = "none"
"""How the readings without noise begin."""


def _column(at: tuple) -> str:
    return " ".join(map(str, at))


def lines(folder: Path, forests: Path) -> list[Line]:
    """The lines of all domains that have been fitted, by reading and domain."""
    found = []
    for name in (name for name in data.NOCK_HENECKA if (folder / f"{name}.jsonl").exists()):
        own, about = sweeps.load_columns(folder / f"{name}.jsonl")
        rival, _ = sweeps.load_columns(forests / f"{name}.jsonl")
        settings = zip(
            *(own[axis].tolist() for axis in ("reading", "epsilon", "depth")), strict=True
        )
        for reading, epsilon, depth in dict.fromkeys(settings):
            at = {"reading": reading, "epsilon": epsilon, "depth": depth}
            line: Line = {"domain": name, **at}
            for alpha, t in ERRORS:
                folds = _folds(own, **at, alpha=alpha, rounds=t)
                line[_column((alpha, t))] = round(MILLION * float(folds.mean()))
            for forest, alpha, t in SIGNS:
                folds = _folds(own, **at, alpha=alpha, rounds=t)
                chosen = {"kind": FORESTS[forest], "calibration": "published"}
                theirs = _folds(rival, **chosen, epsilon=epsilon, depth=depth)
                sign = protocols.compare(jnp.asarray(folds), jnp.asarray(theirs))
                line[_column((forest, alpha, t))] = int(sign)
            found.append({**line, "fitted": about["about"]["commit"]})
    return sorted(found, key=lambda line: line["reading"])


def _folds(columns: dict[str, np.ndarray], **chosen) -> np.ndarray:
    """f64[fold], the test errors of one setting."""
    same = [columns[axis].astype(str) == str(value) for axis, value in chosen.items()]
    at = np.flatnonzero(np.all(same, axis=0))
    return columns["test_error"][at[np.argsort(columns["evaluation"][at])]]


def _read(own: Sequence[Line], columns: Sequence[tuple], *shape: int) -> np.ndarray:
    """i64[domain, epsilon, depth, *shape], the columns of the lines of a reading."""
    axes = [len(distinct(own, axis)) for axis in ("domain", "epsilon", "depth")]
    values = [[line[_column(at)] for at in columns] for line in own]
    return np.array(values).reshape(*axes, *shape)


def _printed(own: Sequence[Line]) -> np.ndarray:
    """f64[domain, depth, forest, alpha, T], Table 4; NaN where no number is printed."""
    kinds = {kind: forest for forest, kind in FORESTS.items()}
    axes = distinct(own, "domain"), distinct(own, "depth"), list(FORESTS), ALPHA_NAMES, COMPARED
    found = np.full([len(axis) for axis in axes], np.nan)
    for at, number in aggregated.printed(NAME, "table-4"):
        place = at["domain"], at["depth"], kinds[at["forest"]], str(at["alpha"]), at["rounds"]
        if all(one in axis for one, axis in zip(place, axes, strict=True)):
            found[tuple(axis.index(one) for one, axis in zip(place, axes, strict=True))] = number
    return found


def _counts(best: np.ndarray) -> np.ndarray:
    """i64[epsilon, alpha], Table 1, of best errors [domain, epsilon, alpha]."""
    return np.sum(best == best.min(-1, keepdims=True), axis=0)


def _gains(cells: np.ndarray) -> str:
    """What T = 20 gains over T = 2 by alpha, as a mean over printed cells."""
    gain = np.nanmean(cells[..., 1] - cells[..., 0], axis=(0, 1, 2))
    return ", ".join(f"{each:+.0f}" for each in gain)


def _private(lines: Sequence[Line]) -> str:
    """Each reading with noise beside the print and beside chance."""
    rng, rows = np.random.default_rng(0), []
    own = [line for line in lines if not line["reading"].startswith(NOISELESS)]
    printed = _printed(where(own, reading=own[0]["reading"]))
    domains, numbers = len(printed), [int(n) for _, n in aggregated.printed(NAME, "table-1")]
    table_1 = np.array(numbers).reshape(len(EPSILONS), -1)
    coins = rng.random((DRAWS, domains, *table_1.shape))
    away = [np.abs(_counts(coin) - table_1).sum() for coin in coins]
    constant = np.nanmean(np.abs(printed - np.nanmedian(printed)), axis=(1, 2, 3, 4))
    rows.append(("*the paper's*", "0", "0", "", _gains(printed), "67 and more", ""))
    mean, error = of_mean(constant)
    coin = f"{np.mean(away):.0f} ± {np.std(away):.0f}"
    rows.append(("*coin, constant*", coin, f"{mean:.1f} ± {error:.1f}", "", "0, 0, 0", "", ""))
    for reading in distinct(own, "reading"):
        of = where(own, reading=reading)
        errors = _read(of, ERRORS, len(ALPHA_NAMES), len(ROUNDS))
        signs = _read(of, SIGNS, len(FORESTS), len(ALPHA_NAMES), len(COMPARED))
        wins, losses = (np.sum(signs == sign, axis=1) for sign in (-1, 1))
        cells = np.where(wins + losses, 100 * wins / np.maximum(wins + losses, 1), 50.0)
        cells = np.where(np.isnan(printed), np.nan, cells)
        far = np.nanmean(np.abs(cells - printed), axis=(1, 2, 3, 4))
        orders = (rng.permutation(domains) for _ in range(DRAWS // 10))
        others = [np.nanmean(np.abs(cells - printed[order])) for order in orders]
        mean, error = of_mean(far)
        banknote = errors[distinct(of, "domain").index("banknote")][..., 0, :]
        rows.append(
            (
                reading,
                str(np.abs(_counts(errors.min((2, 4))) - table_1).sum()),
                f"{mean:.1f} ± {error:.1f}",
                f"{np.mean(others):.1f} ± {np.std(others):.1f}",
                _gains(cells),
                f"{100 * np.mean(banknote <= CLAIMED):.0f}",
                ", ".join(f"{e / 1e4:.1f}" for e in errors.min((2, 3, 4)).mean(0)),
            )
        )
    head = ("reading", "Table 1: away", "Table 4: away, points", "domains shuffled", "gain of T")
    return table((*head, "banknote, %", "best errors, %"), rows)


def _noiseless(lines: Sequence[Line]) -> str:
    """Each reading without noise: is alpha = 1 better, and do more trees help?"""
    rows = []
    own = [line for line in lines if line["reading"].startswith(NOISELESS)]
    for reading in distinct(own, "reading"):
        of = where(own, reading=reading)
        errors = _read(of, ERRORS, len(ALPHA_NAMES), len(ROUNDS))[:, 0] / 1e4
        objective, small, one = np.moveaxis(errors, 2, 0)
        differ = [
            np.flatnonzero(a != b)
            for a, b in zip(one.reshape(len(one), -1), small.reshape(len(one), -1), strict=True)
        ]
        wins = [
            100 * np.mean((a < b).ravel()[at])
            for a, b, at in zip(one, small, differ, strict=True)
            if len(at)
        ]
        ahead = objective.min((1, 2)) - np.minimum(small, one).min((1, 2))
        gain = (errors[..., 0] - errors[..., -1]).mean((0, 1))
        banknote = errors[distinct(of, "domain").index("banknote")]
        rows.append(
            (
                reading,
                "{:.0f} ± {:.0f}".format(*of_mean(wins)),
                "{:.1f} ± {:.1f}".format(*of_mean(ahead)),
                ", ".join(f"{each:.1f}" for each in gain),
                ", ".join(f"{100 * each:.0f}" for each in np.mean(banknote <= 20, axis=(0, 2))),
                ", ".join(f"{each:.1f}" for each in errors.min((1, 3)).mean(0)),
            )
        )
    head = ("reading", "alpha 1 beats 0.1, %", "O.C. less the better constant, points")
    return table((*head, "gain of T, points", "banknote, %", "best errors, %"), rows)


def _origin(lines: Sequence[Line]) -> str:
    domains, commits = distinct(lines, "domain"), distinct(lines, "fitted")
    rows = [("domains", f"{len(domains)}: {', '.join(domains)}"), ("commit", "; ".join(commits))]
    return table(("of the saved fits", ""), rows)


PAGES = pages.Pages(
    f"{NAME} steps",
    {"origin": _origin, "private": _private, "noiseless": _noiseless},
    ("reading", "domain", "epsilon", "depth", *map(_column, (*ERRORS, *SIGNS)), "fitted"),
    "nock_steps.csv",
)
