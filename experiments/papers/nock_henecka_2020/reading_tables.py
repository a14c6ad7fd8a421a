"""What the saved fits of the readings say of the paper's tables and of its claims in words."""

from collections.abc import Iterator, Sequence

import jax.numpy as jnp
import numpy as np

from experiments.common import protocols, results, tables
from experiments.papers.nock_henecka_2020.reading_fits import ALPHA_NAMES, Fits, rivals
from experiments.papers.nock_henecka_2020.reading_settings import (
    FORESTS,
    LARGE_DEPTH,
    LARGE_ROUNDS,
    PAPER_BANKNOTE,
    PAPER_TABLE_3,
    PAPER_TABLE_4,
    READINGS,
    WITHOUT,
)

Line = results.Line

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
    both = depth = rounds = count = 0
    for name, (paper_depth, paper_rounds) in PAPER_TABLE_3.items():
        if name not in found:
            continue
        fits = found[name]
        mean = fits.errors[reading].mean(-1).min((0, 1, 2))
        t, d = np.unravel_index(np.argmin(mean), mean.shape)
        is_depth = _size(fits.axes["depth"][d], LARGE_DEPTH) == paper_depth
        is_rounds = _size(fits.axes["rounds"][t], LARGE_ROUNDS) == paper_rounds
        count, both = count + 1, both + (is_depth and is_rounds)
        depth, rounds = depth + is_depth, rounds + is_rounds
    yield {
        "kind": "table 3",
        "reading": reading,
        "domains": count,
        "depth": depth,
        "rounds": rounds,
        "both": both,
    }


def _size(value: float, large: float) -> str:
    return "big" if value >= large else "small"


def _table_4(reading: str, found: dict[str, Fits]) -> Iterator[Line]:
    """Wins over forests of 21 trees, in percent of what is significant, over all runs."""
    found = {name: fits for name, fits in found.items() if fits.forests}
    if not found:
        return
    for trees, paper in PAPER_TABLE_4.items():
        for forest in FORESTS:
            wins, losses, runs = np.zeros(3), np.zeros(3), 0
            for fits in found.values():
                signs = _compared(fits, reading, trees, forest)
                wins += np.sum(signs == -1, axis=1)
                losses += np.sum(signs == 1, axis=1)
                runs += signs.shape[1]
            line: Line = {"kind": "table 4", "reading": reading, "trees": trees, "forest": forest}
            line["domains"] = len(found)
            with np.errstate(invalid="ignore"):
                shares = 100 * wins / (wins + losses)
            for k, alpha in enumerate(ALPHA_NAMES):
                line[f"wins {alpha}"] = None if np.isnan(shares[k]) else float(shares[k])
                line[f"paper {alpha}"] = paper[forest][k]
            line["significant"] = float(np.sum(wins + losses) / max(3 * runs, 1))
            yield line


def _banknote(reading: str, found: dict[str, Fits]) -> Iterator[Line]:
    """The same of banknote alone, by depth."""
    if "banknote" not in found or not found["banknote"].forests:
        return
    for trees, forests in PAPER_BANKNOTE.items():
        for forest, depths in forests.items():
            for depth, paper in depths.items():
                signs = _compared(found["banknote"], reading, trees, forest, depth)
                line: Line = {"kind": "table 4 of banknote", "reading": reading, "trees": trees}
                line |= {"forest": forest, "depth": depth}
                for k, alpha in enumerate(ALPHA_NAMES):
                    decided = np.sum(signs[k] != 0)
                    wins = 100 * np.sum(signs[k] == -1)
                    line[f"wins {alpha}"] = float(wins / decided) if decided else None
                    line[f"paper {alpha}"] = paper[k]
                yield line


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
