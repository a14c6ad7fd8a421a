"""The tables of the readings of the step, from one line for each domain, reading, budget and depth.

Errors are means over ten folds, in millionths. Boosting wins against a forest where its mean error
is smaller by more than a z-test at 0.01 allows, which takes every row for an independent test row.
The forests have 21 trees of its depth. Their mean errors are those of `readings`.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpbt import sweeps
from experiments.common import aggregated, data, pages, results
from experiments.common.results import Line, distinct, where
from experiments.common.tables import markdown as table
from experiments.papers.nock_henecka_2020.derived import of_mean
from experiments.papers.nock_henecka_2020.reading_fits import ALPHA_NAMES
from experiments.papers.nock_henecka_2020.reading_settings import FORESTS
from experiments.papers.nock_henecka_2020.reading_tables import BY_ROWS, CLAIMED_ERROR, compared
from experiments.papers.nock_henecka_2020.settings import EPSILONS, NAME

ROUNDS = (2, 20)
MILLION, DRAWS = 10**6, 500
ERRORS = tuple(itertools.product(ALPHA_NAMES, ROUNDS))
NOISELESS = "none"
"""How the readings without noise begin."""


def _column(at: tuple) -> str:
    return " ".join(map(str, at))


def lines(folders: Sequence[Path], forests: Path) -> list[Line]:
    """The lines of the folders that have all domains, by reading and domain.

    Args:
        folders: of fits.
        forests: the lines in short of `readings`.
    """
    rivals = where(results.read_csv(forests, f"{NAME} readings"), kind="forests")
    found = []
    whole = [
        folder
        for folder in folders
        if all((folder / f"{name}.jsonl").exists() for name in data.NOCK_HENECKA)
    ]
    for name, folder in itertools.product(data.NOCK_HENECKA, whole):
        own, about = sweeps.load_columns(folder / f"{name}.jsonl")
        own = {axis: column.astype(str) for axis, column in own.items()} | {
            "test_error": own["test_error"]
        }
        settings = zip(
            *(own[axis].tolist() for axis in ("reading", "epsilon", "depth")), strict=True
        )
        for reading, epsilon, depth in dict.fromkeys(settings):
            line: Line = {"reading": reading, "domain": name, "rows": about["shape"][0]}
            line |= {"epsilon": float(epsilon), "depth": int(depth)}
            here = (
                (own["reading"] == reading) & (own["epsilon"] == epsilon) & (own["depth"] == depth)
            )
            for alpha, t in ERRORS:
                at = here & (own["alpha"] == alpha) & (own["rounds"] == str(t))
                line[_column((alpha, t))] = round(MILLION * float(own["test_error"][at].mean()))
            for rival in where(rivals, domain=name, depth=int(depth)):
                line[rival["forest"]] = round(MILLION * rival[f"error {float(epsilon):g}"])
            found.append({**line, "fitted": about["about"]["commit"][:10]})
    return sorted(found, key=lambda line: line["reading"])


def _read(own: Sequence[Line], columns: Sequence[str]) -> np.ndarray:
    """f64[domain, epsilon, depth, column], errors of the lines of a reading."""
    axes = [len(distinct(own, axis)) for axis in ("domain", "epsilon", "depth")]
    values = [[line[name] / MILLION for name in columns] for line in own]
    return np.array(values).reshape(*axes, -1)


def errors_of(own: Sequence[Line]) -> np.ndarray:
    """f64[domain, epsilon, depth, alpha, T], of a reading."""
    errors = _read(own, [_column(at) for at in ERRORS])
    return errors.reshape(*errors.shape[:-1], len(ALPHA_NAMES), len(ROUNDS))


def signs_of(own: Sequence[Line]) -> np.ndarray:
    """i64[domain, epsilon, depth, forest, alpha, T], -1 where boosting wins, 1 where it loses."""
    mine, rivals = errors_of(own), _read(own, list(FORESTS))
    rows = np.array([where(own, domain=name)[0]["rows"] for name in distinct(own, "domain")])
    both = mine[:, :, :, None, ..., None], rivals[..., None, None, None]
    return np.stack([compared(a, b, BY_ROWS, m) for a, b, m in zip(*both, rows, strict=True)])


def _cells(own: Sequence[Line]) -> np.ndarray:
    """f64[domain, depth, forest, alpha, T], percentages of wins; 50 without a difference."""
    every = signs_of(own)
    wins, losses = (np.sum(every == sign, axis=1) for sign in (-1, 1))
    return np.where(wins + losses, 100 * wins / np.maximum(wins + losses, 1), 50.0)


def _printed(own: Sequence[Line]) -> np.ndarray:
    """f64[domain, depth, forest, alpha, T], Table 4; NaN where no number is printed."""
    kinds = {kind: forest for forest, kind in FORESTS.items()}
    axes = distinct(own, "domain"), distinct(own, "depth"), list(FORESTS), ALPHA_NAMES, ROUNDS
    found = np.full([len(axis) for axis in axes], np.nan)
    for at, number in aggregated.printed(NAME, "table-4"):
        place = at["domain"], at["depth"], kinds[at["forest"]], str(at["alpha"]), at["rounds"]
        if all(one in axis for one, axis in zip(place, axes, strict=True)):
            found[tuple(axis.index(one) for one, axis in zip(place, axes, strict=True))] = number
    return found


def counts(best: np.ndarray) -> np.ndarray:
    """i64[epsilon, alpha], Table 1, of best errors [domain, epsilon, alpha]."""
    return np.sum(best == best.min(-1, keepdims=True), axis=0)


def _gains(cells: np.ndarray) -> str:
    """What T = 20 gains over T = 2 by alpha, as a mean over domains of their cells."""
    gain = np.mean(cells[..., 1] - cells[..., 0], axis=(1, 2))  # NaN where a number is missing
    return "; ".join(_mean(each[~np.isnan(each)]) for each in gain.T)


def _private(lines: Sequence[Line]) -> str:
    """Each reading with noise beside the print and beside chance."""
    rng, rows = np.random.default_rng(0), []
    own = [line for line in lines if not line["reading"].startswith(NOISELESS)]
    printed = _printed(where(own, reading=own[0]["reading"]))
    numbers = [int(number) for _, number in aggregated.printed(NAME, "table-1")]
    table_1 = np.array(numbers).reshape(len(EPSILONS), -1)
    coins = rng.random((DRAWS, len(printed), *table_1.shape))
    coin = [np.abs(counts(each) - table_1).sum() for each in coins]
    constant = np.nanmean(np.abs(printed - np.nanmedian(printed)), axis=(1, 2, 3, 4))
    rows.append(("*the paper's*", "0", "0", "", _gains(printed), "67 and more", ""))
    rows.append(("*coin; constant*", _spread(coin), _mean(constant, 1), "", "0; 0; 0", "", ""))
    for reading in distinct(own, "reading"):
        of = where(own, reading=reading)
        errors, printed = errors_of(of), _printed(of)
        cells = np.where(np.isnan(printed), np.nan, _cells(of))
        far = np.nanmean(np.abs(cells - printed), axis=(1, 2, 3, 4))
        orders = (rng.permutation(len(cells)) for _ in range(DRAWS))
        others = [np.nanmean(np.abs(cells - printed[order])) for order in orders]
        banknote = errors[distinct(of, "domain").index("banknote")][..., 0, :]
        rows.append(
            (
                reading,
                str(np.abs(counts(errors.min((2, 4))) - table_1).sum()),
                f"{_mean(far, 1)} ({_mean(far - constant, 1)})",
                _spread(others, 1),
                _gains(cells),
                f"{100 * np.mean(banknote <= CLAIMED_ERROR):.0f}",
                _percent(errors.min((2, 4)).mean((0, 1))),
            )
        )
    head = (
        "reading",
        "Table 1: away",
        "Table 4: away (less the constant's)",
        "domains shuffled",
        "gain of T",
    )
    return table((*head, "banknote, %", "best errors, %"), rows)


def _mean(values: Sequence[float] | np.ndarray, digits: int = 0) -> str:
    return "{:.{d}f} ± {:.{d}f}".format(*of_mean(values), d=digits)


def _spread(draws: Sequence[Any], digits: int = 0) -> str:
    return f"{np.mean(draws):.{digits}f} ± {np.std(draws):.{digits}f}"


def _percent(errors: np.ndarray) -> str:
    return ", ".join(f"{100 * error:.1f}" for error in errors)


def _noiseless(lines: Sequence[Line]) -> str:
    """Each reading without noise: is alpha = 1 better, and do more trees help?"""
    rows = []
    own = [line for line in lines if line["reading"].startswith(NOISELESS)]
    for reading in distinct(own, "reading"):
        of = where(own, reading=reading)
        errors = errors_of(of)[:, 0]
        objective, small, one = np.moveaxis(errors, 2, 0)
        pairs = ((a[a != b], b[a != b]) for a, b in zip(one, small, strict=True))
        wins = [100 * np.mean(a < b) for a, b in pairs if len(a)]
        ahead = objective.min((1, 2)) - np.minimum(small, one).min((1, 2))
        banknote = errors[distinct(of, "domain").index("banknote")]
        rows.append(
            (
                reading,
                _mean(wins),
                _mean(100 * ahead, 1),
                ", ".join(
                    _mean(each, 1) for each in 100 * (errors[..., 0] - errors[..., 1]).mean(1).T
                ),
                f"{100 * banknote.max():.1f}",
                _percent(errors.min((1, 3)).mean(0)),
            )
        )
    head = ("reading", "alpha 1 beats 0.1, %", "O.C. less the better constant, points")
    return table((*head, "T = 20 gains, points", "banknote at most, %", "best errors, %"), rows)


def _origin(lines: Sequence[Line]) -> str:
    domains, commits = distinct(lines, "domain"), distinct(lines, "fitted")
    rows = [("domains", f"{len(domains)}: {', '.join(domains)}"), ("commit", "; ".join(commits))]
    return table(("of the saved fits", ""), rows)


PAGES = pages.Pages(
    f"{NAME} steps",
    {"origin": _origin, "private": _private, "noiseless": _noiseless},
    ("reading", "domain", "rows", "epsilon", "depth", *map(_column, ERRORS), *FORESTS, "fitted"),
    "nock_steps.csv",
)
