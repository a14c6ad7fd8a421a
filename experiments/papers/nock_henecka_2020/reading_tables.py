"""What the saved fits of readings say of the paper's tables and of its claims in words.

There are two sets of tables. Those of noise have a line for each table, reading and row, of fits on
the whole grid. The paper's text has Student's t-test at 0.01 and runs of all epsilons and
beta_tree; one table sets each printed cell of Table 4 beside ours under another test, and with one
epsilon left out.

Those of mean errors have a line for each domain, reading, budget and depth, of fits on a part of
the grid. Errors are means over ten folds, in millionths. Boosting wins against a forest where its
mean error is smaller by more than a z-test at 0.01 allows, which takes every row for an independent
test row. The forests have 21 trees of its depth, and their mean errors are in the lines of noise.
"""

import itertools
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from dpbt import sweeps
from experiments.common import aggregated, data, pages, protocols, results, tables
from experiments.common.estimates import mean_with_error
from experiments.common.results import Line, distinct, where
from experiments.common.tables import markdown_table
from experiments.papers.nock_henecka_2020.neighbours import NEIGHBOURS
from experiments.papers.nock_henecka_2020.options import (
    NOISE_READINGS,
    PRINTED,
    READINGS,
)
from experiments.papers.nock_henecka_2020.saved import (
    ReadingFits,
    boosting_and_forest_errors,
    reading_files,
)
from experiments.papers.nock_henecka_2020.settings import (
    ALPHA_NAMES,
    EPSILONS,
    FOREST_DEPTHS,
    FORESTS,
    NAME,
)

FitsByDomain = Mapping[str, ReadingFits]

LARGE_DEPTH, LARGE_ROUNDS = 4, 10
"""Depths and numbers of trees from these on are called big; the paper does not say."""

CLAIMED_ERROR = 0.2
"""Of banknote: "more than 2/3 of the private runs with O.C get test error <= 20 %"."""

FLAT_AXES = {"beta_tree": 2, "rounds": 3, "depth": 4}
"""Axis of `ReadingFits.errors`, by its name."""

ROUNDS = (2, 20)
"""The numbers of trees of Table 4."""

BY_FOLDS, BY_ROWS = "t-test over folds", "z-test over rows"
TESTS = (BY_FOLDS, BY_ROWS)
COUNTED_READINGS = (PRINTED, "second option")
"""The readings whose cells of Table 4 are counted under both tests."""

NEAR = 10.0
"""A cell is near the printed one within this many points."""

NORMAL_LIMIT = 2.5758
"""The two-sided limit of a normal variable at 0.01."""

MAX_UNBALANCED = 0.35
"""A domain whose smaller class has at most this share is called unbalanced."""


class Cell(NamedTuple):
    """A number of Table 4; `rounds` is T, and `forest` a key of `FORESTS`."""

    domain: str
    depth: int
    rounds: int
    forest: str
    alpha: str


# The lines of noise.


def noise_lines(fits: FitsByDomain, labels: Mapping[str, np.ndarray]) -> list[Line]:
    """One line for each table, reading and row of it; `kind` names the table.

    A reading's tables are over the domains that have been fitted under it.

    Args:
        fits: domain -> its fits.
        labels: domain -> bool[N].
    """
    shares = {name: float(np.mean(label)) for name, label in labels.items()}
    larger_class = {name: min(share, 1 - share) for name, share in shares.items()}
    lines: list[Line] = []
    for reading in NOISE_READINGS:
        of_reading = {
            name: domain_fits for name, domain_fits in fits.items() if reading in domain_fits.errors
        }
        if not of_reading:
            continue
        lines += _accuracy_lines(reading, of_reading)
        if NOISE_READINGS[reading].has_noise:
            lines += _table_1_lines(reading, of_reading)
            lines += _flatness_lines(reading, of_reading)
            lines.append(_table_3_line(reading, of_reading))
            lines += _table_4_lines(reading, of_reading)
            lines += _banknote_lines(reading, of_reading)
            lines += _larger_class_lines(reading, of_reading, larger_class)
    lines += _forest_lines(fits, larger_class)
    rows = {name: len(label) for name, label in labels.items()}
    return [*lines, *counted_table_4_lines(fits, rows)]


def _accuracy_lines(reading: str, fits: FitsByDomain) -> Iterator[Line]:
    """Banknote: the share of settings, and of fits, with an error of at most 20 %."""
    if "banknote" not in fits:
        return
    for k, alpha in enumerate(ALPHA_NAMES):
        errors = fits["banknote"].errors[reading][k]
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


def _table_1_lines(reading: str, fits: FitsByDomain) -> Iterator[Line]:
    """The domains on which each alpha is best, by epsilon; ties count for each."""
    first = next(iter(fits.values()))
    for e, epsilon in enumerate(first.axes["epsilon"]):
        best = np.stack(
            [
                domain_fits.errors[reading].mean(-1)[:, e].min((1, 2, 3))
                for domain_fits in fits.values()
            ]
        )
        counts = np.sum(best <= best.min(1, keepdims=True) + 1e-9, axis=0)
        line: Line = {"kind": "table 1", "reading": reading, "epsilon": float(epsilon)}
        line["domains"] = len(fits)
        line |= {f"count {alpha}": int(counts[k]) for k, alpha in enumerate(ALPHA_NAMES)}
        line |= {f"best {alpha}": float(best[:, k].mean()) for k, alpha in enumerate(ALPHA_NAMES)}
        yield line


def _flatness_lines(reading: str, fits: FitsByDomain) -> Iterator[Line]:
    """How far the best error depends on one axis: the largest minus the smallest over its values.

    The mean is over domains, epsilons and alphas. `last` is the error at its largest value minus
    that at its smallest one.
    """
    for axis, place in FLAT_AXES.items():
        spreads, last = [], []
        for domain_fits in fits.values():
            best = np.moveaxis(domain_fits.errors[reading].mean(-1), place, -1).min((2, 3))
            spreads.append(np.mean(best.max(-1) - best.min(-1)))
            last.append(np.mean(best[..., -1] - best[..., 0]))
        yield {
            "kind": "flatness",
            "reading": reading,
            "axis": axis,
            "domains": len(fits),
            "spread": float(np.mean(spreads)),
            "last": float(np.mean(last)),
        }


def _table_3_line(reading: str, fits: FitsByDomain) -> Line:
    """On how many domains the best private setting is where Table 3 has it."""
    agreeing = []
    for setting, text in aggregated.printed_texts(NAME, "table-3"):
        if setting["domain"] not in fits:
            continue
        domain_fits = fits[setting["domain"]]
        mean = domain_fits.errors[reading].mean(-1).min((0, 1, 2))
        t, d = np.unravel_index(np.argmin(mean), mean.shape)
        printed_depth, printed_rounds = text.split(", ")
        depth = f"{_size_word(domain_fits.axes['depth'][d], LARGE_DEPTH)} d"
        rounds = f"{_size_word(domain_fits.axes['rounds'][t], LARGE_ROUNDS)} T"
        agreeing.append((depth == printed_depth, rounds == printed_rounds))
    return {
        "kind": "table 3",
        "reading": reading,
        "domains": len(agreeing),
        "depth": sum(depth for depth, _ in agreeing),
        "rounds": sum(rounds for _, rounds in agreeing),
        "both": sum(map(all, agreeing)),
    }


def _size_word(value: float, min_big: float) -> str:
    return "big" if value >= min_big else "small"


def _printed_percentages(
    row: str, axes: tuple[str, ...], domain: str | None = None
) -> dict[tuple, dict[str, int]]:
    """Place -> alpha -> the printed percentage of wins, of a row of the paper's claims."""
    by_place: dict[tuple, dict[str, int]] = {}
    for setting, number in aggregated.printed_numbers(NAME, row):
        if domain is None or setting["domain"] == domain:
            place = tuple(_forest_name(setting[axis]) for axis in axes)
            by_place.setdefault(place, {})[str(setting["alpha"])] = int(number)
    return by_place


def _forest_name(word: Any) -> Any:
    """The name of a kind of forest; any other word or number stays."""
    return {kind: forest for forest, kind in FORESTS.items()}.get(word, word)


def _table_4_lines(reading: str, fits: FitsByDomain) -> Iterator[Line]:
    """Wins over forests of 21 trees, in percent of what is significant, over all runs."""
    fits = {name: domain_fits for name, domain_fits in fits.items() if domain_fits.forests}
    printed = _printed_percentages("table-4-overall", ("rounds", "forest")) if fits else {}
    for (rounds, forest), paper in printed.items():
        by_domain = [
            _signs_against_forest(domain_fits, reading, rounds=rounds, forest=forest)
            for domain_fits in fits.values()
        ]
        signs = np.concatenate(by_domain, axis=1)
        line: Line = {"kind": "table 4", "reading": reading, "trees": rounds, "forest": forest}
        line |= {"domains": len(fits), **_win_columns(signs, paper)}
        yield line | {"significant": float(np.sum(signs != 0) / max(signs.size, 1))}


def _banknote_lines(reading: str, fits: FitsByDomain) -> Iterator[Line]:
    """The same of banknote alone, by depth."""
    if "banknote" not in fits or not fits["banknote"].forests:
        return
    axes = ("rounds", "forest", "depth")
    printed = _printed_percentages("table-4", axes, domain="banknote")

    def order(place: tuple) -> tuple:
        rounds, forest, depth = place
        return rounds, list(FORESTS).index(forest), depth

    for rounds, forest, depth in sorted(printed, key=order):
        signs = _signs_against_forest(
            fits["banknote"], reading, rounds=rounds, forest=forest, depth=depth
        )
        line: Line = {"kind": "table 4 of banknote", "reading": reading}
        line |= {"trees": rounds, "forest": forest, "depth": depth}
        yield line | _win_columns(signs, printed[rounds, forest, depth])


def _win_columns(signs: np.ndarray, paper: Mapping[str, int]) -> Line:
    """For each alpha the percentage of wins, None where nothing is significant; and the paper's."""
    line: Line = {}
    for k, alpha in enumerate(ALPHA_NAMES):
        decided = np.sum(signs[k] != 0)
        wins = 100 * np.sum(signs[k] == -1)
        line[f"wins {alpha}"] = float(wins / decided) if decided else None
        line[f"paper {alpha}"] = paper[alpha]
    return line


def _signs_against_forest(
    fits: ReadingFits, reading: str, *, rounds: int, forest: str, depth: int | None = None
) -> np.ndarray:
    """i64[alpha, runs]: -1 where boosting is significantly better than a forest of its depth.

    Runs are of all epsilons and beta_tree, and of one depth or of all those of the forests.
    """
    depths = fits.forest_depths if depth is None else [depth]
    errors = boosting_and_forest_errors(fits, reading, rounds=rounds, forest=forest, depths=depths)
    if errors is None:
        return np.zeros((len(ALPHA_NAMES), 0))
    boosted, forest_errors = map(jnp.asarray, errors)
    signs = protocols.significant_sign(boosted, forest_errors)
    return np.asarray(signs).reshape(len(ALPHA_NAMES), -1)


def _forest_lines(fits: FitsByDomain, larger_class: Mapping[str, float]) -> Iterator[Line]:
    """The mean errors of the forests, by domain, depth and epsilon."""
    for name, domain_fits in fits.items():
        for forest in FORESTS if domain_fits.forests else ():
            for d, depth in enumerate(domain_fits.forest_depths):
                mean = domain_fits.forests[forest][:, d].mean(-1)
                by_epsilon = zip(domain_fits.axes["epsilon"], mean, strict=True)
                yield {
                    "kind": "forests",
                    "domain": name,
                    "forest": forest,
                    "depth": int(depth),
                    "larger_class": larger_class[name],
                    **{f"error {epsilon:g}": float(error) for epsilon, error in by_epsilon},
                }


def _larger_class_lines(
    reading: str, fits: FitsByDomain, larger_class: Mapping[str, float]
) -> Iterator[Line]:
    """How often the error is that of stating the larger class, within a point, and below it."""
    for name, domain_fits in fits.items():
        mean = domain_fits.errors[reading].mean(-1)
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


def counted_table_4_lines(fits: FitsByDomain, rows: Mapping[str, int]) -> Iterator[Line]:
    """One line for each reading, test, and epsilon that is left out (None: no epsilon is).

    Args:
        fits: domain -> its fits.
        rows: domain -> its number of rows.
    """
    printed = {
        _table_4_cell(setting): number
        for setting, number in aggregated.printed_numbers(NAME, "table-4")
    }
    for reading, test in itertools.product(COUNTED_READINGS, TESTS):
        of_reading = {
            name: domain_fits
            for name, domain_fits in fits.items()
            if reading in domain_fits.errors and domain_fits.forests
        }
        if not of_reading:
            continue
        signs = _signs_by_cell(of_reading, rows, reading=reading, test=test)
        epsilons = next(iter(of_reading.values())).axes["epsilon"]
        for left_out in (None, *epsilons.tolist()):
            remaining = epsilons != left_out
            by_cell = {cell: sign[remaining] for cell, sign in signs.items()}
            line: Line = {"kind": "table 4 counted", "reading": reading, "test": test}
            line |= {"left_out": left_out, "domains": len(of_reading)}
            yield line | _agreement_columns(by_cell, printed)


def _table_4_cell(setting: Mapping[str, Any]) -> Cell:
    """The cell of a printed number."""
    return Cell(
        domain=setting["domain"],
        depth=setting["depth"],
        rounds=setting["rounds"],
        forest=_forest_name(setting["forest"]),
        alpha=str(setting["alpha"]),
    )


def _signs_by_cell(
    fits: FitsByDomain, rows: Mapping[str, int], *, reading: str, test: str
) -> dict[Cell, np.ndarray]:
    """Cell -> i64[epsilon, beta_tree]: -1 where boosting is significantly better, 1 where worse."""
    signs = {}
    for name, domain_fits in fits.items():
        for rounds, depth, forest in itertools.product(ROUNDS, FOREST_DEPTHS, FORESTS):
            errors = boosting_and_forest_errors(
                domain_fits, reading, rounds=rounds, forest=forest, depths=[depth]
            )
            if errors is None:
                continue
            sign = compare_errors(*errors, test=test, rows=rows[name])
            for k, alpha in enumerate(ALPHA_NAMES):
                signs[Cell(name, depth, rounds, forest, alpha)] = sign[k, ..., 0]
    return signs


def compare_errors(a: np.ndarray, b: np.ndarray, *, test: str, rows: int) -> np.ndarray:
    """i64[...]: -1 where a's mean is significantly smaller than b's, 1 where it is larger, else 0.

    Args:
        a: f64[..., fold], test errors.
        b: f64[..., fold], of the same folds.
        test: one of TESTS. The z-test takes all test rows of all folds for independent ones.
        rows: the number of rows, each of which is a test row of one fold.
    """
    if test == BY_FOLDS:
        return np.asarray(protocols.significant_sign(jnp.asarray(a), jnp.asarray(b)))
    a_mean, b_mean = a.mean(-1), b.mean(-1)
    variance = (a_mean * (1 - a_mean) + b_mean * (1 - b_mean)) / rows
    is_significant = np.abs(a_mean - b_mean) > NORMAL_LIMIT * np.sqrt(variance)
    return np.where(is_significant, np.sign(a_mean - b_mean), 0).astype(np.int64)


def _agreement_columns(signs: Mapping[Cell, np.ndarray], printed: Mapping[Cell, float]) -> Line:
    """How near the cells are to the printed ones, and how many differences are significant."""
    differences = []
    for cell, sign in signs.items():
        wins, losses = np.sum(sign < 0), np.sum(sign > 0)
        if cell in printed and wins + losses:
            differences.append(abs(100 * wins / (wins + losses) - printed[cell]))
    all_signs = np.concatenate([sign.ravel() for sign in signs.values()])
    return {
        "cells": len(differences),
        "difference": float(np.mean(differences)) if differences else None,
        "near": float(np.mean(np.asarray(differences) <= NEAR)) if differences else None,
        "significant": float(np.mean(all_signs != 0)),
    }


def format_lines(lines: Sequence[Line]) -> str:
    """Every table of noise as text."""
    parts = []
    for kind in distinct(lines, "kind"):
        rows = where(lines, kind=kind)
        parts.append(f"{kind}\n{tables.align_lines(rows, list(rows[0])[1:], '.3g')}")
    return "\n\n".join(parts)


# The tables of noise in a page.

ALPHA_HEADS = ("O.C.", "alpha 0.1", "alpha 1")


def _noise_origin_table(lines: Sequence[Line]) -> str:
    rows = [
        ("seed", str(lines[0]["seed"])),
        ("folds", str(lines[0]["folds"])),
        ("commit of the fits", str(lines[0]["fitted"])),
        ("JAX", "; ".join(sorted({str(line["jax"]) for line in lines}))),
        ("device", "; ".join(sorted({str(line["device"]) for line in lines}))),
    ]
    for reading in distinct(where(lines, kind="larger class"), "reading"):
        domains = distinct(where(lines, kind="larger class", reading=reading), "domain")
        rows.append((f"domains of *{reading}*", f"{len(domains)}: {', '.join(domains)}"))
    return markdown_table(("of the saved fits", ""), rows)


def _words_table(lines: Sequence[Line]) -> str:
    names = distinct(where(lines, kind="accurate"), "reading")
    return markdown_table(
        ("reading", "what it does"), [(name, READINGS[name].words) for name in names]
    )


def _accuracy_table(lines: Sequence[Line]) -> str:
    """Banknote: settings with an error of at most 20 %, and the smallest error, by alpha."""
    accurate, rows = where(lines, kind="accurate"), []
    for reading in distinct(accurate, "reading"):
        by_alpha = {str(line["alpha"]): line for line in where(accurate, reading=reading)}
        cells = [by_alpha[alpha] for alpha in ALPHA_NAMES]
        shares = [
            f"{_format_share(line['share'])} ({_format_share(line['share_of_fits'])})"
            for line in cells
        ]
        rows.append((reading, *shares, *(f"{line['best']:.3f}" for line in cells)))
    head = [f"{alpha}: {word}" for word in ("at most 20 %", "best") for alpha in ALPHA_HEADS]
    return markdown_table(("reading", *head), rows)


def _format_share(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.0f} %"


def _table_1_table(lines: Sequence[Line]) -> str:
    counted = where(lines, kind="table 1")
    readings, rows, differences = distinct(counted, "reading"), [], Counter()
    printed = aggregated.printed_numbers(NAME, "table-1")
    for epsilon in distinct(counted, "epsilon"):
        paper_counts = [int(cell.number) for cell in printed if cell.setting["epsilon"] == epsilon]
        cells = []
        for reading in readings:
            (line,) = where(counted, reading=reading, epsilon=epsilon)
            counts = [line[f"count {alpha}"] for alpha in ALPHA_NAMES]
            differences[reading] += sum(
                abs(a - b) for a, b in zip(counts, paper_counts, strict=True)
            )
            cells.append(", ".join(map(str, counts)))
        rows.append((f"{epsilon:g}", ", ".join(map(str, paper_counts)), *cells))
    num_domains = {line["reading"]: line["domains"] for line in counted}
    max_domains = max(num_domains.values(), default=0)
    cells = (
        str(differences[name]) if num_domains[name] == max_domains else "-" for name in readings
    )
    rows.append(("all differences, absolute", "0", *cells))
    head = [f"{reading} ({num_domains[reading]})" for reading in readings]
    return markdown_table(("epsilon", "the paper's (19)", *head), rows)


def _flatness_table(lines: Sequence[Line]) -> str:
    flatness, rows = where(lines, kind="flatness"), []
    for reading in distinct(flatness, "reading"):
        by_axis = {line["axis"]: line for line in where(flatness, reading=reading)}
        spreads = [f"{100 * by_axis[axis]['spread']:.1f}" for axis in FLAT_AXES]
        change = [f"{100 * by_axis[axis]['last']:+.1f}" for axis in ("rounds", "depth")]
        rows.append((reading, str(by_axis["rounds"]["domains"]), *spreads, *change))
    head = ("reading", "domains", "beta_tree", "T", "depth", "T = 20 less T = 2", "depth 6 less 1")
    return markdown_table(head, rows)


def _table_3_table(lines: Sequence[Line]) -> str:
    rows = [
        (
            line["reading"],
            *(f"{line[key]} of {line['domains']}" for key in ("depth", "rounds", "both")),
        )
        for line in where(lines, kind="table 3")
    ]
    return markdown_table(("reading", "depth agrees", "number of trees agrees", "both agree"), rows)


def _table_4_table(lines: Sequence[Line]) -> str:
    compared = where(lines, kind="table 4")
    pairs = list(dict.fromkeys((line["trees"], line["forest"]) for line in compared))
    first = (where(compared, trees=trees, forest=forest)[0] for trees, forest in pairs)
    printed = [_format_alphas(line, "paper") for line in first]
    rows: list[tuple[str, ...]] = [("the paper's", "19", *printed, "96 % and more")]
    for reading in distinct(compared, "reading"):
        of_reading = where(compared, reading=reading)
        cells = [_format_alphas(line, "wins") for line in of_reading]
        significant = sum(line["significant"] for line in of_reading) / len(of_reading)
        rows.append((reading, str(of_reading[0]["domains"]), *cells, _format_share(significant)))
    heads = [f"T = {trees}, {forest}" for trees, forest in pairs]
    return markdown_table(("reading", "domains", *heads, "significant"), rows)


def _format_alphas(line: Line, word: str) -> str:
    """The percentages for each alpha; a dash where no difference is significant."""
    values = (line[f"{word} {alpha}"] for alpha in ALPHA_NAMES)
    return ", ".join("-" if value is None else f"{value:.0f}" for value in values)


def _counted_table(lines: Sequence[Line]) -> str:
    """How near Table 4 comes under other tests, and without an epsilon."""
    rows = []
    for line in where(lines, kind="table 4 counted"):
        if line["difference"] is None:
            continue
        left_out = "none" if line["left_out"] is None else f"{line['left_out']:g}"
        shares = (_format_share(line[key]) for key in ("near", "significant"))
        head = (line["reading"], line["test"], left_out, str(line["cells"]))
        rows.append((*head, f"{line['difference']:.0f}", *shares))
    heads = ("reading", "test", "epsilon left out", "cells", "mean difference, points")
    return markdown_table((*heads, f"within {NEAR:g} points", "significant"), rows)


def _larger_class_table(lines: Sequence[Line]) -> str:
    """Of unbalanced domains: how the errors of all private settings lie to the larger class's."""
    rows = []
    for line in sorted(where(lines, kind="larger class"), key=lambda line: line["domain"]):
        if line["larger_class"] > MAX_UNBALANCED:
            continue
        shares = [_format_share(line[key]) for key in ("below", "at", "above")]
        errors = [f"{line[key]:.3f}" for key in ("larger_class", "median")]
        rows.append((line["domain"], line["reading"], *errors, *shares))
    head = ("domain", "reading", "larger class", "median", "below", "within a point", "above")
    return markdown_table(head, rows)


def _told_apart_table(lines: Sequence[Line]) -> str:
    rows = []
    for line in where(lines, kind="told apart"):
        shares = (_format_share(line[kind]) for kind in NEIGHBOURS)
        rows.append((f"{line['epsilon']:g}", str(line["trials"]), *shares))
    return markdown_table(("epsilon", "trials", *NEIGHBOURS.values()), rows)


def _banknote_table(lines: Sequence[Line]) -> str:
    """Wins on banknote by depth, of each reading and as printed."""
    compared = where(lines, kind="table 4 of banknote")
    readings = distinct(compared, "reading")
    by_place: dict[tuple, dict[str, str]] = {}
    for line in compared:
        place = (line["trees"], line["forest"], line["depth"])
        cells = by_place.setdefault(place, {"paper": _format_alphas(line, "paper")})
        cells[line["reading"]] = _format_alphas(line, "wins")
    rows = [
        (*map(str, place), cells["paper"], *(cells[reading] for reading in readings))
        for place, cells in by_place.items()
    ]
    return markdown_table(("T", "forest", "depth", "the paper's", *readings), rows)


def _forest_table(lines: Sequence[Line]) -> str:
    """Errors of the forests with the published noise, by epsilon; means over depths."""
    forests, rows = where(lines, kind="forests"), []
    for name, forest in dict.fromkeys((line["domain"], line["forest"]) for line in forests):
        by_depth = where(forests, domain=name, forest=forest)
        means = (statistics.fmean(line[f"error {e:g}"] for line in by_depth) for e in EPSILONS)
        constant = f"{by_depth[0]['larger_class']:.3f}"
        rows.append((name, forest, constant, *(f"{mean:.3f}" for mean in means)))
    head = ("domain", "forest", "larger class", *(f"{epsilon:g}" for epsilon in EPSILONS))
    return markdown_table(head, rows)


NOISE_COLUMNS = (
    *("kind", "reading", "alpha", "epsilon", "domain", "axis", "trees", "forest", "domains"),
    *("settings", "share", "share_of_fits", "best", "median", "spread", "last"),
    *(f"{word} {alpha}" for word in ("count", "best", "wins", "paper") for alpha in ALPHA_NAMES),
    *(f"error {epsilon:g}" for epsilon in EPSILONS),
    *("significant", "depth", "rounds", "both", "larger_class", "at", "below", "above"),
    *("test", "left_out", "cells", "difference", "near"),
    *("trials", *NEIGHBOURS, "v_q", "clip", "folds", "seed", "fitted", "commit", "jax", "device"),
)
"""The columns of the lines in short."""

KINDS = (
    *("accurate", "table 1", "flatness", "table 3", "table 4", "table 4 of banknote"),
    *("table 4 counted", "forests", "larger class", "told apart"),
)


def _noise_order(line: Line) -> tuple:
    """By kind and reading; the order of the file decides among those."""
    names = list(NOISE_READINGS)
    reading = names.index(line["reading"]) if line["reading"] in names else -1
    return KINDS.index(line["kind"]), reading


NOISE_PAGE = pages.Pages(
    f"{NAME} readings noise",
    {
        "origin": _noise_origin_table,
        "readings": _words_table,
        "accurate": _accuracy_table,
        "table-1": _table_1_table,
        "flatness": _flatness_table,
        "table-3": _table_3_table,
        "table-4": _table_4_table,
        "table-4-counted": _counted_table,
        "banknote": _banknote_table,
        "forests": _forest_table,
        "larger-class": _larger_class_table,
        "told-apart": _told_apart_table,
    },
    summary=NOISE_COLUMNS,
    file="nock_readings.csv",
    order=_noise_order,
)


# The lines of mean errors.

MILLION, DRAWS = 10**6, 500
ERROR_COLUMNS = {f"{alpha} {t}": (alpha, t) for alpha in ALPHA_NAMES for t in ROUNDS}
"""Column -> (alpha, T) of the mean error that it has."""


def mean_error_lines(folder: Path, noise_summary: Path) -> list[Line]:
    """The lines of the readings and depths that all domains have, by reading and domain.

    Args:
        folder: the folder of the fits of a study.
        noise_summary: the lines in short of the study of noise, which have the forests.
    """
    command = f"{NOISE_PAGE.command} --doc docs/nock_henecka.md"
    forests = where(results.read_csv(noise_summary, command), kind="forests")
    lines, domains = [], Counter()
    for name in data.NOCK_HENECKA:
        of_domain = [
            line
            for path in reading_files(folder, name)
            for line in _mean_error_lines_of_file(path, name, forests)
        ]
        domains.update({(line["reading"], line["depth"]) for line in of_domain})
        lines += sorted(of_domain, key=lambda line: (line["depth"], line["epsilon"]))
    num_domains = len(data.NOCK_HENECKA)
    complete = [line for line in lines if domains[line["reading"], line["depth"]] == num_domains]
    return sorted(complete, key=lambda line: line["reading"])


def _mean_error_lines_of_file(path: Path, domain: str, forests: Sequence[Line]) -> Iterator[Line]:
    """A line for each reading, epsilon and depth of a file of fits."""
    columns, header = sweeps.load_columns(path)
    alphas, errors = columns["alpha"].astype(str), columns["test_error"]
    axes = [columns[name].tolist() for name in ("reading", "epsilon", "depth")]
    for reading, epsilon, depth in dict.fromkeys(zip(*axes, strict=True)):
        line: Line = {"reading": reading, "domain": domain, "rows": header["shape"][0]}
        line |= {"epsilon": float(epsilon), "depth": int(depth)}
        is_of_line = (columns["reading"] == reading) & (columns["epsilon"] == epsilon)
        is_of_line &= columns["depth"] == depth
        for column, (alpha, rounds) in ERROR_COLUMNS.items():
            is_of_cell = is_of_line & (alphas == alpha) & (columns["rounds"] == rounds)
            line[column] = round(MILLION * float(errors[is_of_cell].mean()))
        for forest in where(forests, domain=domain, depth=int(depth)):
            line[forest["forest"]] = round(MILLION * forest[f"error {float(epsilon):g}"])
        yield {**line, "fitted": header["about"]["commit"][:10]}


def _errors_of_columns(lines: Sequence[Line], columns: Sequence[str]) -> np.ndarray:
    """f64[domain, epsilon, depth, column], errors of the lines of a reading."""
    axes = [len(distinct(lines, axis)) for axis in ("domain", "epsilon", "depth")]
    values = [[line[name] / MILLION for name in columns] for line in lines]
    return np.array(values).reshape(*axes, -1)


def mean_errors(lines: Sequence[Line]) -> np.ndarray:
    """f64[domain, epsilon, depth, alpha, T], of the lines of a reading."""
    errors = _errors_of_columns(lines, list(ERROR_COLUMNS))
    return errors.reshape(*errors.shape[:-1], len(ALPHA_NAMES), len(ROUNDS))


def win_signs(lines: Sequence[Line]) -> np.ndarray:
    """i64[domain, epsilon, depth, forest, alpha, T], -1 where boosting wins, 1 where it loses."""
    boosted = mean_errors(lines)[:, :, :, None, ..., None]
    rivals = _errors_of_columns(lines, list(FORESTS))[..., None, None, None]
    rows = [where(lines, domain=name)[0]["rows"] for name in distinct(lines, "domain")]
    domains = zip(boosted, rivals, rows, strict=True)
    return np.stack([compare_errors(a, b, test=BY_ROWS, rows=m) for a, b, m in domains])


def win_percentages(signs: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    """f64[...]: the percentage of wins over some axes, of all differences; NaN without one."""
    wins, losses = (np.sum(signs == sign, axis=axis) for sign in (-1, 1))
    return np.where(wins + losses, 100 * wins / np.maximum(wins + losses, 1), np.nan)


def _table_4_cells(lines: Sequence[Line]) -> np.ndarray:
    """f64[domain, depth, forest, alpha, T], percentages of wins; 50 without a difference."""
    return np.nan_to_num(win_percentages(win_signs(lines), 1), nan=50.0)


def _printed_table_4(lines: Sequence[Line]) -> np.ndarray:
    """f64[domain, depth, forest, alpha, T], Table 4; NaN where no number is printed."""
    domains, depths = distinct(lines, "domain"), distinct(lines, "depth")
    axes: list[list] = [*map(list, (domains, depths, FORESTS, ALPHA_NAMES, ROUNDS))]
    cells = np.full([len(axis) for axis in axes], np.nan)
    for setting, number in aggregated.printed_numbers(NAME, "table-4"):
        cell = _table_4_cell(setting)
        values = cell.domain, cell.depth, cell.forest, cell.alpha, cell.rounds
        if all(value in axis for value, axis in zip(values, axes, strict=True)):
            place = tuple(axis.index(value) for value, axis in zip(values, axes, strict=True))
            cells[place] = number
    return cells


def count_best_alphas(best: np.ndarray) -> np.ndarray:
    """i64[epsilon, alpha], Table 1, of best errors [domain, epsilon, alpha]."""
    return np.sum(best == best.min(-1, keepdims=True), axis=0)


# The tables of mean errors in a page.


def _format_gains(cells: np.ndarray) -> str:
    """What T = 20 gains over T = 2 by alpha, as a mean over domains of their cells."""
    gain = np.mean(cells[..., 1] - cells[..., 0], axis=(1, 2))  # NaN where a number is missing
    return "; ".join(_format_mean(of_alpha[~np.isnan(of_alpha)]) for of_alpha in gain.T)


def _private_table(lines: Sequence[Line]) -> str:
    """Each reading with noise beside the print and beside chance."""
    rng, rows = np.random.default_rng(0), []
    private = [line for line in lines if READINGS[line["reading"]].has_noise]
    printed = _printed_table_4(where(private, reading=private[0]["reading"]))
    numbers = [int(cell.number) for cell in aggregated.printed_numbers(NAME, "table-1")]
    table_1 = np.array(numbers).reshape(len(EPSILONS), -1)
    coins = rng.random((DRAWS, len(printed), *table_1.shape))
    coin_distances = [np.abs(count_best_alphas(errors) - table_1).sum() for errors in coins]
    constant = np.nanmean(np.abs(printed - np.nanmedian(printed)), axis=(1, 2, 3, 4))
    rows.append(("*the paper's*", "0", "0", "", _format_gains(printed), "67 and more", ""))
    distance = _format_mean(constant, 1)
    rows.append(
        ("*coin; constant*", _format_spread(coin_distances), distance, "", "0; 0; 0", "", "")
    )
    for reading in distinct(private, "reading"):
        of_reading = where(private, reading=reading)
        errors, printed = mean_errors(of_reading), _printed_table_4(of_reading)
        cells = np.where(np.isnan(printed), np.nan, _table_4_cells(of_reading))
        distance = np.nanmean(np.abs(cells - printed), axis=(1, 2, 3, 4))
        orders = (rng.permutation(len(cells)) for _ in range(DRAWS))
        shuffled = [np.nanmean(np.abs(cells - printed[order])) for order in orders]
        banknote = errors[distinct(of_reading, "domain").index("banknote")][..., 0, :]
        rows.append(
            (
                reading,
                str(np.abs(count_best_alphas(errors.min((2, 4))) - table_1).sum()),
                f"{_format_mean(distance, 1)} ({_format_mean(distance - constant, 1)})",
                _format_spread(shuffled, 1),
                _format_gains(cells),
                f"{100 * np.mean(banknote <= CLAIMED_ERROR):.0f}",
                _format_percentages(errors.min((2, 4)).mean((0, 1))),
            )
        )
    head = (
        "reading",
        "Table 1: away",
        "Table 4: away (less the constant's)",
        "domains shuffled",
        "gain of T",
    )
    return markdown_table((*head, "banknote, %", "best errors, %"), rows)


def _format_mean(values: Sequence[float] | np.ndarray, digits: int = 0) -> str:
    """A mean and its standard error."""
    mean, error = mean_with_error(values)
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def _format_spread(draws: Sequence[Any], digits: int = 0) -> str:
    """A mean and the standard deviation."""
    return f"{np.mean(draws):.{digits}f} ± {np.std(draws):.{digits}f}"


def _format_percentages(errors: np.ndarray) -> str:
    return ", ".join(f"{100 * error:.1f}" for error in errors)


def _noiseless_table(lines: Sequence[Line]) -> str:
    """Each reading without noise: is alpha = 1 better, and do more trees help?"""
    rows = []
    noiseless = [line for line in lines if not READINGS[line["reading"]].has_noise]
    for reading in distinct(noiseless, "reading"):
        of_reading = where(noiseless, reading=reading)
        errors = mean_errors(of_reading)[:, 0]
        objective, alpha_tenth, alpha_1 = np.moveaxis(errors, 2, 0)
        above = objective.min((1, 2)) - np.minimum(alpha_tenth, alpha_1).min((1, 2))
        gains = 100 * (errors[..., 0] - errors[..., 1]).mean(1).T
        banknote = errors[distinct(of_reading, "domain").index("banknote")]
        rows.append(
            (
                reading,
                _format_mean(win_shares(alpha_1, alpha_tenth)),
                _format_mean(100 * above, 1),
                ", ".join(_format_mean(of_alpha, 1) for of_alpha in gains),
                f"{100 * banknote.max():.1f}",
                _format_percentages(errors.min((1, 3)).mean(0)),
            )
        )
    head = ("reading", "alpha 1 beats 0.1, %", "O.C. less the better constant, points")
    return markdown_table(
        (*head, "T = 20 gains, points", "banknote at most, %", "best errors, %"), rows
    )


def win_shares(a: np.ndarray, b: np.ndarray) -> list[float]:
    """For each domain, the percentage of settings where a is smaller, of those that differ.

    A domain without a difference is left out. Both are f64[domain, ...], errors.
    """
    pairs = ((x[x != y], y[x != y]) for x, y in zip(a, b, strict=True))
    return [100 * float(np.mean(x < y)) for x, y in pairs if len(x)]


def _mean_error_origin_table(lines: Sequence[Line]) -> str:
    domains, commits = distinct(lines, "domain"), distinct(lines, "fitted")
    rows = [("domains", f"{len(domains)}: {', '.join(domains)}"), ("commit", "; ".join(commits))]
    return markdown_table(("of the saved fits", ""), rows)


def mean_error_page(study: str) -> pages.Pages:
    """What a study of mean errors writes into pages."""
    return pages.Pages(
        f"{NAME} readings {study}",
        {
            "origin": _mean_error_origin_table,
            "private": _private_table,
            "noiseless": _noiseless_table,
        },
        summary=(
            *("reading", "domain", "rows", "epsilon", "depth"),
            *(*ERROR_COLUMNS, *FORESTS, "fitted"),
        ),
        file=f"nock_{study}.csv",
    )
